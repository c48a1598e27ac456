/* The nth allocation fails: opening, a session, generation and a second try end in a clean error, and nothing leaks.
 * `fault_test_alloc --all` tries every n (the campaign); without it a sample of them runs. */
#include "../model/folder.h"

#include "base/alloc.h"

typedef struct run {
    const char *path;
    ochre_status status;
    ochre_error error;
} run;

static void load_and_generate(run *r) {
    ochre_model *m = NULL;
    ochre_session *s = NULL;
    int32_t seq, fork, tokens[40];
    for (int i = 0; i < 40; i++) tokens[i] = i * 3 + 1;
    ochre_model_options mo = OCHRE_MODEL_OPTIONS_INIT;
    mo.n_threads = 2;
    ochre_session_options so = OCHRE_SESSION_OPTIONS_INIT;
    so.max_sequences = 2;
    so.max_context = 64;
    so.max_step_tokens = 40;
    memset(&r->error, 0, sizeof r->error);
    r->status = ochre_model_open(r->path, &mo, &m, &r->error);
    if (r->status == OCHRE_OK) r->status = ochre_session_create(m, &so, &s, &r->error);
    if (r->status == OCHRE_OK) r->status = ochre_sequence_create(s, &seq, &r->error);
    ochre_span span = {0, tokens, 40, OCHRE_LOGITS_LAST};
    if (r->status == OCHRE_OK) r->status = ochre_step(s, &span, 1, &r->error);
    if (r->status == OCHRE_OK) r->status = ochre_sequence_fork(s, seq, &fork, &r->error);
    for (int i = 0; i < 4 && r->status == OCHRE_OK; i++) {
        int32_t token;
        span = (ochre_span){seq, &token, 1, OCHRE_LOGITS_LAST};
        r->status = ochre_sample(s, 0, NULL, tokens, 40, (uint64_t)(40 + i), &token, &r->error);
        if (r->status == OCHRE_OK) r->status = ochre_step(s, &span, 1, &r->error);
    }
    if (r->status == OCHRE_OK) {
        ochre_model_info info = {.size_bytes = sizeof info};
        r->status = ochre_model_describe(m, &info, &r->error);
        size_t n;
        if (r->status == OCHRE_OK && info.has_tokenizer) r->status = ochre_generate(s, fork, "hello", 5, 0, 3, NULL, NULL, NULL, NULL, NULL, &r->error);
        if (r->status == OCHRE_OK && info.has_tokenizer) r->status = ochre_tokenize(m, "one two", 7, 0, tokens, 40, &n, &r->error);
    }
    ochre_session_destroy(s);
    ochre_model_close(m);
}

static bool all;

static void nth_allocation_fails(const char *name, const char *path) {
    run r = {.path = path};
    load_and_generate(&r); /* what is made once for the process is made now */
    if (r.status != OCHRE_OK) fail_msg("%s: %s", path, r.error.message);
    int64_t live = och_alloc_live();
    och_alloc_fail_at(0);
    load_and_generate(&r);
    uint64_t total = och_alloc_count(), tried = 0, failed = 0;
    assert_int_equal(och_alloc_live(), live);
    assert_true(total > 20);
    for (uint64_t n = 1; n <= total + 1; n += all || n < 40 ? 1 : 1 + total / 150) {
        och_alloc_fail_at(n);
        load_and_generate(&r);
        och_alloc_fail_at(0);
        tried++;
        if (och_alloc_live() != live) fail_msg("%s: allocation %llu failed: %lld allocations leak", name, (unsigned long long)n,
                                               (long long)(och_alloc_live() - live));
        if (r.status == OCHRE_OK) continue; /* an allocation that only speeds things up, or the one after the last */
        failed++;
        if (r.status != OCHRE_NOMEM || !r.error.message[0])
            fail_msg("%s: allocation %llu failed: expected out of memory with a message, found %s: %s", name, (unsigned long long)n,
                     ochre_status_name(r.status), r.error.message);
    }
    printf("%s: %llu allocations, %llu made to fail, %llu ended in an error\n", name, (unsigned long long)total, (unsigned long long)tried,
           (unsigned long long)failed);
    assert_true(failed * 10 >= tried * 8);
    load_and_generate(&r);
    assert_int_equal(r.status, OCHRE_OK);
}

static void a_folder(void **s) {
    (void)s;
    char path[512];
    snprintf(path, sizeof path, "%s/golden/tiny-qwen3", OCHRE_TEST_DIR);
    nth_allocation_fails("tiny-qwen3", path);
}

static void a_folder_with_a_tokenizer(void **s) {
    (void)s;
    folder_make("tiny-qwen2", NULL, NULL);
    folder_tokenizer(-1);
    nth_allocation_fails("tiny-qwen2 with a tokenizer", folder_path);
    folder_remove();
}

static void a_gguf(void **s) {
    (void)s;
    char path[512];
    snprintf(path, sizeof path, "%s/golden/tiny-gemma3.gguf", OCHRE_TEST_DIR);
    nth_allocation_fails("tiny-gemma3.gguf", path);
}

int main(int argc, char **argv) {
    all = argc > 1 && !strcmp(argv[1], "--all");
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_folder), cmocka_unit_test(a_folder_with_a_tokenizer), cmocka_unit_test(a_gguf)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
