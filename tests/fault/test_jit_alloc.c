/* The nth allocation fails: finding a compiler, compiling, storing, loading, packing and running from a pack end in a clean error,
 * nothing leaks, and the cache verifies. */
#include "unit/jit_support.h"

typedef struct step {
    const char *name;
    och_status (*run)(och_err *e);
} step;

static const char *compiler;
static char pack_path[256];

static och_status with_jit(const och_jit_options *options, och_err *e) {
    och_jit *jit = NULL;
    och_jit_artifact *a = NULL;
    och_strbuf log = {0};
    och_jit_request q = good_request();
    och_status st = och_jit_create(options, &jit, e);
    if (st == OCH_OK) st = och_jit_get(jit, &q, &a, &log, e);
    if (st == OCH_OK) assert_int_equal(a->record_bytes, 7);
    och_strbuf_deinit(&log);
    och_jit_artifact_destroy(a);
    och_jit_destroy(jit);
    return st;
}

static och_status compile(och_err *e) {
    och_cache *c;
    och_cache_totals t;
    och_status st = och_cache_open(NULL, 0, &c, e);
    if (st == OCH_OK) {
        st = och_cache_clear(c, &t, e);
        och_cache_close(c);
    }
    return st == OCH_OK ? with_jit(&(och_jit_options){.compiler = compiler, .only_these_packs = true}, e) : st;
}

static och_status load(och_err *e) { return with_jit(&(och_jit_options){.compiler = compiler, .only_these_packs = true}, e); }

static och_status from_pack(och_err *e) {
    const char *pack = pack_path;
    return with_jit(&(och_jit_options){.packs = &pack, .n_packs = 1, .only_these_packs = true, .compiler = "/nonexistent/clang"}, e);
}

static och_status look(och_err *e) {
    och_compilers *all = NULL;
    och_status st = och_compilers_create(NULL, "/nonexistent/library", &all, e);
    och_compilers_destroy(all);
    return st;
}

static och_status make_pack(och_err *e) {
    och_pack_writer *w;
    och_jit_request q = good_request();
    size_t n;
    uint8_t *code = read_all(GOOD_OBJECT, &n);
    och_jit_artifact a = {.code = code, .code_bytes = n, .target = "gfx1151", .wave_size = 64, .code_object_version = 6, .record = (const uint8_t *)"rec\0ord",
                          .record_bytes = 7, .compiler = "c"};
    och_status st = och_pack_writer_create(&w, e);
    if (st == OCH_OK) st = och_pack_writer_add(w, &q, &a, e);
    if (st == OCH_OK) st = och_pack_writer_write(w, pack_path, e);
    och_pack_writer_destroy(w);
    free(code);
    return st;
}

static och_status verify(och_err *e) {
    och_cache *c;
    och_cache_totals t;
    och_status st = och_cache_open(NULL, 0, &c, e);
    if (st == OCH_OK) st = och_cache_verify(c, NULL, NULL, &t, e);
    if (st == OCH_OK) assert_int_equal(t.corrupt, 0);
    och_cache_close(c);
    return st;
}

static void nth_allocation_fails(void **state) {
    (void)state;
    static const step steps[] = {{"make a pack", make_pack}, {"compile", compile}, {"load", load}, {"run from a pack", from_pack}, {"look for compilers", look}, {"verify", verify}};
    compiler = make_good_compiler();
    snprintf(pack_path, sizeof pack_path, "%s", at("p.okpack"));
    och_log_set_level(OCH_LOG_OFF);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        och_err e = {0};
        assert_ok(steps[i].run(&e), e);
        int64_t live = och_alloc_live();
        och_alloc_fail_at(0);
        assert_ok(steps[i].run(&e), e);
        uint64_t total = och_alloc_count(), failed = 0;
        assert_int_equal(och_alloc_live(), live);
        assert_true(total > 3);
        for (uint64_t n = 1; n <= total; n++) {
            och_err_clear(&e);
            och_alloc_fail_at(n);
            och_status st = steps[i].run(&e);
            och_alloc_fail_at(0);
            if (och_alloc_live() != live)
                fail_msg("%s: allocation %llu failed: %lld allocations leak", steps[i].name, (unsigned long long)n, (long long)(och_alloc_live() - live));
            if (st != OCH_OK && (st != OCH_NOMEM || !e.message[0]))
                fail_msg("%s: allocation %llu failed: expected out of memory, found %s: %s", steps[i].name, (unsigned long long)n, och_status_name(st), e.message);
            failed += st != OCH_OK;
            och_err why = {0};
            assert_ok(verify(&why), why);
        }
        printf("%s: %llu allocations, %llu ended in an error\n", steps[i].name, (unsigned long long)total, (unsigned long long)failed);
        assert_true(failed * 2 >= total);
    }
    och_log_set_level(OCH_LOG_WARN);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nth_allocation_fails)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
