/* Packs: made, found by target, broken in every byte, and used where there is no compiler. */
#include "unit/jit_support.h"

#include "base/size.h"

#include <fcntl.h>

#define AXPY_BYTES 32 /* of explicit arguments: i32 at 0, two pointers, a float at 24 */

typedef struct made {
    const char *kernel, *specialisation, *source_id, *target, *file, *record;
    int wave, version;
} made;

static const made usual[] = {
    {"axpy", "T=f32", "source-1", "gfx1151", "v6-gfx1151-wave64.co", "record of gfx1151", 64, 6},
    {"axpy", "T=f32", "source-1", "gfx90a:sramecc+:xnack-", "v4-gfx90a.co", "record of gfx90a", 64, 4},
    {"axpy", "T=f32", "source-1", "gfx9-generic:xnack+", "v6-gfx9-generic.co", "record of gfx9-generic", 64, 6},
    {"rotate", "", "source-2", "gfx1151", "v6-gfx1151-wave64.co", "", 64, 6},
};

static void add(och_pack_writer *w, const made *m) {
    size_t n;
    char path[512];
    och_err e = {0};
    snprintf(path, sizeof path, "%s%s", CORPUS, m->file);
    uint8_t *code = read_all(path, &n);
    och_jit_request q = {.kernel = m->kernel, .specialisation = m->specialisation, .source_id = m->source_id};
    och_jit_artifact a = {.code = code, .code_bytes = n, .kind = OCH_JIT_HSACO, .target = m->target, .wave_size = m->wave, .code_object_version = m->version,
                          .record = (const uint8_t *)m->record, .record_bytes = strlen(m->record), .compiler = "clang 22.1.0 (elsewhere)"};
    assert_ok(och_pack_writer_add(w, &q, &a, &e), e);
    free(code);
}

static const char *make_pack(const char *name, const made *list, size_t n) {
    och_pack_writer *w;
    och_err e = {0};
    assert_ok(och_pack_writer_create(&w, &e), e);
    for (size_t i = 0; i < n; i++) add(w, &list[i]);
    char *path = at(name);
    assert_ok(och_pack_writer_write(w, path, &e), e);
    och_pack_writer_destroy(w);
    return path;
}

static och_jit *open_jit(const char *pack, const char *compiler) {
    och_jit *jit;
    och_err e = {0};
    assert_ok(och_jit_create(&(och_jit_options){.packs = &pack, .n_packs = pack ? 1 : 0, .only_these_packs = true, .compiler = compiler}, &jit, &e), e);
    return jit;
}

static och_jit_request request(const char *target, int wave) {
    return (och_jit_request){.kernel = "axpy", .specialisation = "T=f32", .source_id = "source-1", .target = target, .wave_size = wave, .symbol = "axpy"};
}

static void made_and_read(void **s) {
    (void)s;
    const char *path = make_pack("usual.okpack", usual, OCH_COUNT(usual));
    och_pack *p;
    och_err e = {0};
    assert_ok(och_pack_open(path, &p, &e), e);
    assert_ok(och_pack_verify(p, &e), e);
    assert_string_equal(och_pack_path(p), path);
    size_t n = 0;
    for (const och_pack_entry *entry; (entry = och_pack_at(p, n)); n++) {
        /* in order, whatever the order that they were added in */
        static const char *const targets[] = {"gfx1151", "gfx9-generic:xnack+", "gfx90a:sramecc+:xnack-", "gfx1151"};
        assert_string_equal(entry->target_name, targets[n]);
        assert_string_equal(entry->compiler, "clang 22.1.0 (elsewhere)");
        uint8_t *block;
        assert_ok(och_pack_take(p, entry, &block, &e), e);
        for (size_t i = 0; i < OCH_COUNT(usual); i++) {
            if (strcmp(usual[i].kernel, entry->kernel) || strcmp(usual[i].target, entry->target_name)) continue;
            size_t bytes;
            char file[512];
            snprintf(file, sizeof file, "%s%s", CORPUS, usual[i].file);
            uint8_t *code = read_all(file, &bytes);
            assert_int_equal(entry->code_bytes, bytes);
            assert_memory_equal(block, code, bytes);
            assert_int_equal(block[bytes], 0);
            assert_int_equal(entry->record_bytes, strlen(usual[i].record));
            assert_memory_equal(block + bytes + 1, usual[i].record, strlen(usual[i].record));
            assert_int_equal(entry->wave_size, usual[i].wave);
            assert_int_equal(entry->code_object_version, usual[i].version);
            assert_string_equal(entry->source_id, usual[i].source_id);
            free(code);
        }
        och_free(block);
    }
    assert_int_equal(n, OCH_COUNT(usual));
    och_strbuf text = {0};
    och_pack_put_targets(p, &text);
    assert_string_equal(text.data, " gfx1151 gfx9-generic:xnack+ gfx90a:sramecc+:xnack-");
    och_strbuf_deinit(&text);
    och_pack_close(p);
    /* the same, whatever the order */
    made other[OCH_COUNT(usual)];
    for (size_t i = 0; i < OCH_COUNT(usual); i++) other[i] = usual[OCH_COUNT(usual) - 1 - i];
    size_t n1, n2;
    uint8_t *one = read_all(path, &n1), *two = read_all(make_pack("other.okpack", other, OCH_COUNT(usual)), &n2);
    assert_int_equal(n1, n2);
    assert_memory_equal(one, two, n1);
    free(one);
    free(two);
    unlink(at("other.okpack"));
}

static void what_may_not_be_added(void **s) {
    (void)s;
    och_pack_writer *w;
    och_err e = {0};
    assert_ok(och_pack_writer_create(&w, &e), e);
    add(w, &usual[0]);
    och_jit_request q = {.kernel = "axpy", .specialisation = "T=f32"};
    och_jit_artifact a = {.code = (const uint8_t *)"x", .code_bytes = 1, .target = "gfx1151", .wave_size = 64, .code_object_version = 6, .compiler = "c"};
    assert_int_equal(och_pack_writer_add(w, &q, &a, &e), OCH_INVALID);
    assert_has(e.message, "is in it already");
    och_err_clear(&e);
    q.kernel = "";
    assert_int_equal(och_pack_writer_add(w, &q, &a, &e), OCH_INVALID);
    och_err_clear(&e);
    q.kernel = "new", a.target = "gfx0";
    assert_int_equal(och_pack_writer_add(w, &q, &a, &e), OCH_NOTFOUND);
    och_err_clear(&e);
    a.target = "gfx1151", a.code_bytes = 0;
    assert_int_equal(och_pack_writer_add(w, &q, &a, &e), OCH_RANGE);
    och_err_clear(&e);
    assert_int_equal(och_pack_writer_write(w, "/nonexistent/folder/x.okpack", &e), OCH_IO);
    och_pack_writer_destroy(w);
}

/* What serves which board, by the rule of whole names; and the closest of several. */
static void by_target(void **s) {
    (void)s;
    static const made list[] = {
        {"k", "", "", "gfx9-generic", "v6-gfx9-generic.co", "generic", 64, 6}, {"k", "", "", "gfx906", "v6-gfx9-generic.co", "base", 64, 6},
        {"k", "", "", "gfx906:sramecc+:xnack-", "v6-gfx9-generic.co", "whole", 64, 6}, {"k", "", "", "gfx906:xnack+", "v6-gfx9-generic.co", "xnack", 64, 6},
        {"k", "", "", "gfx1030", "v6-gfx9-generic.co", "wave32", 32, 4}, {"k", "", "", "gfx1030", "v6-gfx9-generic.co", "wave64", 64, 5},
        {"k", "", "", "gfx1030", "v6-gfx9-generic.co", "wave64 v4", 64, 4}, {"k", "A=1", "", "gfx1030", "v6-gfx9-generic.co", "special", 32, 5},
    };
    och_pack *p;
    och_err e = {0};
    assert_ok(och_pack_open(make_pack("targets.okpack", list, OCH_COUNT(list)), &p, &e), e);
    static const struct {
        const char *kernel, *specialisation, *target;
        int wave, version;
        const char *record; /* NULL: none */
    } cases[] = {
        {"k", "", "gfx906:sramecc+:xnack-", 64, 0, "whole"}, {"k", "", "gfx906:sramecc-:xnack-", 64, 0, "base"},
        {"k", "", "gfx906:sramecc-:xnack+", 64, 0, "xnack"}, {"k", "", "gfx900:xnack-", 64, 0, "generic"},
        {"k", "", "gfx90a:sramecc+:xnack-", 64, 0, NULL},    {"k", "", "gfx1030", 32, 0, "wave32"},
        {"k", "", "gfx1030", 64, 4, "wave64 v4"},            {"k", "", "gfx1030", 64, 5, "wave64"},
        {"k", "", "gfx1030", 32, 5, NULL},                   {"k", "A=1", "gfx1030", 32, 0, "special"},
        {"k", "A=2", "gfx1030", 32, 0, NULL},                {"j", "", "gfx1030", 32, 0, NULL},
        {"k", "", "gfx1031", 32, 0, NULL},                   {"", "", "gfx1030", 32, 0, NULL},
    };
    for (size_t i = 0; i < OCH_COUNT(cases); i++) {
        och_jit_request q = {.kernel = cases[i].kernel, .specialisation = cases[i].specialisation, .target = cases[i].target,
                             .wave_size = cases[i].wave, .code_object_version = cases[i].version};
        och_jit_job job;
        assert_ok(och_jit_job_init(&q, &job, &e), e);
        bool stale;
        const och_pack_entry *found = och_pack_find(p, &job, &stale);
        assert_false(stale);
        if (!found != !cases[i].record) fail_msg("case %zu: %s", i, found ? "found" : "not found");
        if (!found) continue;
        uint8_t *block;
        assert_ok(och_pack_take(p, found, &block, &e), e);
        och_strbuf record = {0};
        och_strbuf_append(&record, block + found->code_bytes + 1, (size_t)found->record_bytes);
        if (strcmp(record.data, cases[i].record)) fail_msg("case %zu: found %s", i, record.data);
        och_strbuf_deinit(&record);
        och_free(block);
    }
    /* what the runtime loads: nothing newer */
    static const struct {
        const char *target;
        int wave, version, newest;
        const char *record;
    } newest[] = {{"gfx1030", 64, 0, 0, "wave64 v4"}, {"gfx1030", 64, 5, 4, NULL},         {"gfx1030", 64, 0, 4, "wave64 v4"},
                  {"gfx1030", 64, 5, 5, "wave64"},    {"gfx1030", 32, 0, 4, "wave32"},     {"gfx900:xnack-", 64, 0, 5, NULL},
                  {"gfx900:xnack-", 64, 0, 6, "generic"}};
    for (size_t i = 0; i < OCH_COUNT(newest); i++) {
        och_jit_request q = {.kernel = "k", .specialisation = "", .target = newest[i].target, .wave_size = newest[i].wave,
                             .code_object_version = newest[i].version, .newest_code_object_version = newest[i].newest};
        och_jit_job job;
        assert_ok(och_jit_job_init(&q, &job, &e), e);
        bool stale;
        const och_pack_entry *found = och_pack_find(p, &job, &stale);
        if (!found != !newest[i].record) fail_msg("newest case %zu: %s", i, found ? "found" : "not found");
        if (!found) continue;
        uint8_t *block;
        assert_ok(och_pack_take(p, found, &block, &e), e);
        if (memcmp(block + found->code_bytes + 1, newest[i].record, strlen(newest[i].record)))
            fail_msg("newest case %zu: another was found", i);
        och_free(block);
    }
    och_pack_close(p);
    /* and nothing newer is compiled: where the target can do with less */
    static const struct {
        const char *target;
        int newest, want;
    } made_as[] = {{"gfx1030", 0, 5}, {"gfx1030", 4, 4}, {"gfx1030", 6, 5}, {"gfx9-generic", 5, 6}};
    for (size_t i = 0; i < OCH_COUNT(made_as); i++) {
        och_jit_request q = {.kernel = "k", .target = made_as[i].target, .newest_code_object_version = made_as[i].newest};
        och_jit_job job;
        assert_ok(och_jit_job_init(&q, &job, &e), e);
        assert_int_equal(job.code_object_version, made_as[i].want);
    }
}

/* One bit of every byte: opening or taking says so. Every bit of the header and of the table. */
static void each_flipped_bit_is_detected(void **s) {
    (void)s;
    size_t n, table_end = 0;
    uint8_t *bytes = read_all(make_pack("bits.okpack", usual, OCH_COUNT(usual)), &n);
    och_pack *p;
    och_err e = {0};
    assert_ok(och_pack_open_memory("whole", bytes, n, &p, &e), e);
    table_end = (size_t)och_pack_at(p, 0)->offset;
    och_pack_close(p);
    int64_t live = och_alloc_live();
    for (size_t i = 0; i < n; i++)
        for (int bit = i < table_end ? 0 : (int)(i % 8); bit < (i < table_end ? 8 : (int)(i % 8) + 1); bit++) {
            bytes[i] ^= (uint8_t)(1 << bit);
            och_err_clear(&e);
            och_status st = och_pack_open_memory("flipped", bytes, n, &p, &e);
            if (i >= table_end) assert_int_equal(st, OCH_OK);
            if (st == OCH_OK) {
                st = och_pack_verify(p, &e);
                och_pack_close(p);
            }
            if (st != OCH_CORRUPT) fail_msg("byte %zu, bit %d: %s", i, bit, och_status_name(st));
            assert_has(e.message, "flipped");
            bytes[i] ^= (uint8_t)(1 << bit);
        }
    /* every length but the right one, from a copy of exactly that size */
    for (size_t length = 0; length <= n + 1; length += length < table_end + 8 || length > n - 8 ? 1 : 97) {
        if (length == n) continue;
        uint8_t *copy = calloc(length ? length : 1, 1);
        memcpy(copy, bytes, OCH_MIN(n, length));
        och_err_clear(&e);
        assert_int_equal(och_pack_open_memory("cut", copy, length, &p, &e), OCH_CORRUPT);
        assert_null(p);
        free(copy);
    }
    assert_int_equal(och_alloc_live(), live);
    free(bytes);
}

static void put(uint8_t *p, uint64_t v, int n) {
    for (int i = 0; i < n; i++) p[i] = (uint8_t)(v >> (8 * i));
}

/* Wrong with every hash right: what a broken writer would make. */
static void wrong_though_hashed(void **s) {
    (void)s;
    size_t n;
    uint8_t *whole = read_all(make_pack("one.okpack", usual, 2), &n), *b = malloc(n + 8);
    static const struct {
        size_t at;
        uint64_t value;
        int bytes, longer; /* bytes to write there; bytes that the file is longer */
        const char *says;
    } cases[] = {
        {0, 0, 0, 0, NULL},
        {0, 0, 0, 1, "bytes follow the last entry's contents"},
        {12, 1, 4, 0, "bytes follow the last entry of the table"},
        {12, 3, 4, 0, "the table ends inside an entry"},
        {12, 9, 4, 0, "as many entries as the table holds"},
        {12, 1u << 21, 4, 0, "at most a million entries"},
        {8, 2, 4, 0, "version 1, found version 2"},
        {64, 3, 4, 0, "kind of code"},
        {64, 1, 4, 0, "code object version"},
        {68, 33, 4, 0, "wave size of 32 or 64"},
        {72, 7, 4, 0, "code object version"},
        {76, 0, 8, 0, "1 byte to 4 GiB"},
        {76, UINT64_MAX, 8, 0, "1 byte to 4 GiB"},
        {76, 1000000, 8, 0, "end beyond the file"},
        {84, UINT64_MAX, 8, 0, "4 GiB of record"},
        {124, 0xffff, 2, 0, "the table ends inside a string"},
        {126, 0x01, 1, 0, "expected text"},
        {126, 'z', 1, 0, "ascending order"},
    };
    for (size_t i = 0; i < OCH_COUNT(cases); i++) {
        size_t size = n + (size_t)cases[i].longer;
        uint64_t table = 0;
        och_pack *p;
        och_err e = {0};
        memset(b, 0, n + 8);
        memcpy(b, whole, n);
        put(b + cases[i].at, cases[i].value, cases[i].bytes);
        for (int k = 0; k < 8; k++) table |= (uint64_t)b[16 + k] << (8 * k);
        put(b + 24, size, 8);
        och_hash128 h = och_hash_bytes(b + 64, (size_t)table);
        put(b + 32, h.low, 8), put(b + 40, h.high, 8);
        h = och_hash_bytes(b, 48);
        put(b + 48, h.low, 8), put(b + 56, h.high, 8);
        och_status st = och_pack_open_memory("hashed", b, size, &p, &e);
        if (!cases[i].says) assert_ok(st, e);
        else if (st != OCH_CORRUPT) fail_msg("case %zu: %s", i, och_status_name(st));
        else assert_has(e.message, cases[i].says);
        och_pack_close(p);
    }
    free(whole);
    free(b);
}

/* ---- running from one ---- */

static void runs_without_a_compiler(void **s) {
    (void)s;
    fresh();
    const char *path = make_pack("usual.okpack", usual, OCH_COUNT(usual));
    och_jit *jit = open_jit(path, "/nonexistent/clang");
    static const struct {
        const char *device;
        int wave;
        const char *target, *record;
    } boards[] = {{"gfx1151", 64, "gfx1151", "record of gfx1151"},
                  {"gfx90a:sramecc+:xnack-", 64, "gfx90a:sramecc+:xnack-", "record of gfx90a"},
                  {"gfx906:sramecc+:xnack+", 0, "gfx9-generic:xnack+", "record of gfx9-generic"}};
    for (size_t i = 0; i < OCH_COUNT(boards); i++) {
        och_jit_request q = request(boards[i].device, boards[i].wave);
        static const och_jit_arg args[] = {{0, 4}, {8, 8}, {16, 8}, {24, 4}};
        q.has_layout = true, q.args = args, q.n_args = 4, q.kernarg_bytes = 28;
        q.text = "a text that nothing here can compile", q.text_bytes = 36;
        och_jit_artifact *a;
        och_err e = {0};
        assert_ok(och_jit_get(jit, &q, &a, NULL, &e), e);
        assert_int_equal(a->origin, OCH_JIT_FROM_PACK);
        assert_string_equal(a->target, boards[i].target);
        assert_string_equal(a->place, path);
        assert_string_equal(a->compiler, "clang 22.1.0 (elsewhere)");
        assert_int_equal(a->record_bytes, strlen(boards[i].record));
        assert_memory_equal(a->record, boards[i].record, a->record_bytes);
        assert_true(a->resources.known && a->resources.vgprs > 0);
        och_jit_artifact_destroy(a);
        /* without a text too */
        q.text = NULL;
        assert_ok(och_jit_get(jit, &q, &a, NULL, &e), e);
        och_jit_artifact_destroy(a);
    }
    och_jit_counts counts;
    och_jit_get_counts(jit, &counts);
    assert_int_equal(counts.from_packs, 6);
    assert_int_equal(counts.from_cache + counts.compiled, 0);
    assert_int_not_equal(access(at("cache"), F_OK), 0); /* nothing is cached twice */
    och_jit_destroy(jit);
}

static void a_pack_without_the_target(void **s) {
    (void)s;
    const char *path = make_pack("usual.okpack", usual, OCH_COUNT(usual));
    och_jit *jit = open_jit(path, "/nonexistent/clang");
    och_jit_request q = request("gfx1201", 0);
    q.text = "text", q.text_bytes = 4;
    och_jit_artifact *a;
    och_err e = {0};
    assert_int_equal(och_jit_get(jit, &q, &a, NULL, &e), OCH_UNAVAILABLE);
    assert_null(a);
    assert_has(e.message, path);
    assert_has(e.message, "has gfx1151 gfx9-generic:xnack+ gfx90a:sramecc+:xnack-");
    assert_has(e.message, "no pack is for gfx1201");
    assert_has(e.message, "ochre kernels pack --target gfx1201 -o gfx1201.okpack");
    assert_has(e.message, "/nonexistent/clang");
    /* the target is there, the kernel is not */
    q = request("gfx1151", 64);
    q.kernel = "matvec";
    och_err_clear(&e);
    assert_int_equal(och_jit_get(jit, &q, &a, NULL, &e), OCH_UNAVAILABLE);
    assert_has(e.message, "no pack of gfx1151 has matvec T=f32");
    och_jit_destroy(jit);
    /* no pack at all: everything that was looked for */
    setenv("PATH", "/nonexistent", 1);
    jit = open_jit(NULL, "clang");
    q.text = "text", q.text_bytes = 4;
    och_err_clear(&e);
    assert_int_equal(och_jit_get(jit, &q, &a, NULL, &e), OCH_UNAVAILABLE);
    static const char *const looked[] = {"OCHRE_CLANG", "ROCM_PATH", "Python packages", "amdclang++", "clang-22 to clang-19", "clang in PATH"};
    for (size_t i = 0; i < OCH_COUNT(looked); i++) assert_has(e.message, looked[i]);
    och_jit_destroy(jit);
    setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 1);
}

/* A pack of another source is not what this program means: it compiles, or says so. */
static void a_stale_pack(void **s) {
    (void)s;
    fresh();
    const char *path = make_pack("usual.okpack", usual, OCH_COUNT(usual));
    och_jit *jit = open_jit(path, make_good_compiler());
    och_jit_request q = request("gfx1151", 64);
    q.source_id = "source-of-now";
    q.text = "text", q.text_bytes = 4, q.code_object_version = 6;
    och_jit_artifact *a;
    och_err e = {0};
    start_listening();
    assert_ok(och_jit_get(jit, &q, &a, NULL, &e), e);
    assert_int_equal(a->origin, OCH_JIT_FROM_COMPILER);
    och_jit_artifact_destroy(a);
    assert_said("made from another source");
    assert_int_equal(n_warnings, 1);
    q.source_id = NULL; /* not compared */
    assert_ok(och_jit_get(jit, &q, &a, NULL, &e), e);
    assert_int_equal(a->origin, OCH_JIT_FROM_PACK);
    och_jit_artifact_destroy(a);
    och_jit_destroy(jit);
    stop_listening();
}

/* Code of a pack is checked against what is asked as any other is. */
static void a_pack_that_lies(void **s) {
    (void)s;
    static const made lies[] = {{"axpy", "T=f32", "source-1", "gfx1151", "v4-gfx90a.co", "", 64, 6}};
    och_jit *jit = open_jit(make_pack("lies.okpack", lies, 1), "/nonexistent/clang");
    och_jit_request q = request("gfx1151", 64);
    och_jit_artifact *a;
    och_err e = {0};
    start_listening();
    assert_int_equal(och_jit_get(jit, &q, &a, NULL, &e), OCH_UNAVAILABLE);
    assert_said("expected code for gfx1151, found code for gfx90a:sramecc+:xnack-");
    stop_listening();
    och_jit_destroy(jit);
}

/* ---- where they are looked for ---- */

static void where_packs_are(void **s) {
    (void)s;
    mkdir(at("folder"), 0700);
    (void)make_pack("folder/b.okpack", &usual[1], 1);
    (void)make_pack("folder/a.okpack", &usual[0], 1);
    (void)make_pack("alone.pack", &usual[2], 1);
    write_text(at("folder/broken.okpack"), "OCHREPAK but no more");
    write_text(at("folder/notes.txt"), "not a pack");
    char list[1024];
    snprintf(list, sizeof list, "%s::%s:/nonexistent.okpack:%s", at("folder"), at("alone.pack"), at("folder"));
    setenv("OCHRE_PACK", list, 1);
    start_listening();
    och_packs packs;
    och_err e = {0};
    assert_ok(och_packs_open(NULL, 0, false, &packs, &e), e);
    assert_int_equal(packs.n, 3);
    assert_string_equal(och_pack_path(packs.items[0]), at("folder/a.okpack"));
    assert_string_equal(och_pack_path(packs.items[1]), at("folder/b.okpack"));
    assert_string_equal(och_pack_path(packs.items[2]), at("alone.pack"));
    assert_said("broken.okpack");
    assert_said("/nonexistent.okpack");
    stop_listening();
    och_packs_close(&packs);
    assert_ok(och_packs_open(NULL, 0, true, &packs, &e), e);
    assert_int_equal(packs.n, 0);
    och_packs_close(&packs);
    unsetenv("OCHRE_PACK");
    /* beside the program */
    char self[512], beside[600];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = 0;
    *strrchr(self, '/') = 0;
    snprintf(beside, sizeof beside, "%s/test-%d.okpack", self, (int)getpid());
    size_t bytes;
    uint8_t *pack = read_all(at("folder/a.okpack"), &bytes);
    write_all(beside, pack, bytes);
    free(pack);
    assert_ok(och_packs_open(NULL, 0, false, &packs, &e), e);
    unlink(beside);
    bool found = false;
    for (size_t i = 0; i < packs.n; i++) found |= !strcmp(och_pack_path(packs.items[i]), beside);
    assert_true(found);
    och_packs_close(&packs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_and_read),
        cmocka_unit_test(what_may_not_be_added),
        cmocka_unit_test(by_target),
        cmocka_unit_test(each_flipped_bit_is_detected),
        cmocka_unit_test(wrong_though_hashed),
        cmocka_unit_test(runs_without_a_compiler),
        cmocka_unit_test(a_pack_without_the_target),
        cmocka_unit_test(a_stale_pack),
        cmocka_unit_test(a_pack_that_lies),
        cmocka_unit_test(where_packs_are),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
