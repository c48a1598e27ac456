/* Sessions and steps: what must not depend on how tokens are cut into steps, on company, on history. */
#include "support.h"

#include "base/alloc.h"

#include <math.h>

#define VOCAB 288
#define N 70 /* more than two blocks, and more than the windows of the tiny models */

static const char *const models[] = {"tiny-llama", "tiny-mistral", "tiny-gemma3", "tiny-qwen3"};
#define EACH_MODEL(i) for (size_t i = 0; i < sizeof models / sizeof *models; i++)

static void make_tokens(int32_t *t, int n, unsigned seed) {
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        t[i] = (int32_t)((seed >> 8) % VOCAB);
    }
}

/* Feeds tokens in steps of at most `cut`; the logits of all rows into out [n, VOCAB]. */
static void feed(ochre_session *s, int32_t seq, const int32_t *t, int n, int cut, float *out) {
    ochre_error error;
    for (int at = 0; at < n; at += cut) {
        int k = n - at < cut ? n - at : cut;
        ochre_span span = {seq, t + at, k, OCHRE_LOGITS_ALL};
        size_t rows;
        MUST(ochre_step(s, &span, 1, &error));
        const float *l = ochre_step_logits(s, &rows);
        assert_int_equal(rows, k);
        if (out) memcpy(out + (size_t)at * VOCAB, l, (size_t)k * VOCAB * sizeof *l);
    }
}

static void assert_close(const float *a, const float *b, size_t n, float tolerance, const char *what) {
    float most = 0, delta = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmaxf(most, fabsf(a[i]));
        delta = fmaxf(delta, fabsf(a[i] - b[i]));
    }
    if (!(delta <= tolerance * most)) fail_msg("%s: |delta| %g of max %g", what, (double)delta, (double)most);
}

/* The same bytes: what --batch-invariant promises. */
static void cuts_give_the_same_bytes_when_invariant(void **state) {
    (void)state;
    ochre_error error;
    static float whole[N * VOCAB], cut[N * VOCAB];
    int32_t t[N], seq;
    make_tokens(t, N, 1);
    EACH_MODEL(i) {
        for (int p = 0; p < 2; p++) {
            ochre_model *m = open_tiny(models[i], p ? NULL : "reference", 2);
            ochre_session *s = open_session(m, 2, 128, N, N, true);
            MUST(ochre_sequence_create(s, &seq, &error));
            feed(s, seq, t, N, N, whole);
            static const int cuts[] = {1, 7, 33};
            for (size_t c = 0; c < 3; c++) {
                MUST(ochre_sequence_release(s, seq, &error));
                MUST(ochre_sequence_create(s, &seq, &error));
                feed(s, seq, t, N, cuts[c], cut);
                assert_memory_equal(whole, cut, sizeof whole);
            }
            ochre_session_destroy(s);
            ochre_model_close(m);
        }
    }
}

static void cuts_give_close_logits_without(void **state) {
    (void)state;
    ochre_error error;
    static float whole[N * VOCAB], cut[N * VOCAB];
    int32_t t[N], seq;
    make_tokens(t, N, 2);
    EACH_MODEL(i) {
        ochre_model *m = open_tiny(models[i], NULL, 2);
        ochre_session *s = open_session(m, 1, 128, N, N, false);
        MUST(ochre_sequence_create(s, &seq, &error));
        feed(s, seq, t, N, N, whole);
        MUST(ochre_sequence_truncate(s, seq, 0, &error));
        feed(s, seq, t, N, 9, cut);
        assert_close(whole, cut, N * VOCAB, 2e-2f, models[i]);
        ochre_session_destroy(s);
        ochre_model_close(m);
    }
}

/* Alone, and in a step with 63 other sequences in prefill and decode. */
static void company_changes_no_byte_when_invariant(void **state) {
    (void)state;
    enum { COMPANY = 63 };
    ochre_error error;
    static float alone[N * VOCAB];
    int32_t t[N], other[COMPANY][8], seq, seqs[COMPANY];
    make_tokens(t, N, 3);
    EACH_MODEL(i) {
        ochre_model *m = open_tiny(models[i], NULL, 2);
        ochre_session *s = open_session(m, 64, 96, 600, 600, true);
        MUST(ochre_sequence_create(s, &seq, &error));
        feed(s, seq, t, N, N, alone);
        MUST(ochre_sequence_release(s, seq, &error));
        for (int c = 0; c < COMPANY; c++) {
            make_tokens(other[c], 8, 100 + (unsigned)c);
            MUST(ochre_sequence_create(s, &seqs[c], &error));
        }
        MUST(ochre_sequence_create(s, &seq, &error));
        for (int at = 0, step = 0; at < N; step++) { /* this sequence: spans of 1, 8, 15, ... */
            int k = 1 + step * 7 < N - at ? 1 + step * 7 : N - at;
            ochre_span spans[64];
            size_t n = 0, rows, before = 0;
            for (int c = 0; c < COMPANY; c++) {
                if (c == 20) {
                    before = rows = 0;
                    for (size_t q = 0; q < n; q++) before += (size_t)spans[q].n_tokens;
                    spans[n++] = (ochre_span){seq, t + at, k, OCHRE_LOGITS_ALL};
                }
                int length = (c + step) % 3 ? 1 : 8;
                spans[n++] = (ochre_span){seqs[c], other[c], length, OCHRE_LOGITS_ALL};
            }
            MUST(ochre_step(s, spans, n, &error));
            const float *l = ochre_step_logits(s, &rows);
            assert_memory_equal(l + before * VOCAB, alone + (size_t)at * VOCAB, (size_t)k * VOCAB * sizeof *l);
            at += k;
        }
        ochre_session_destroy(s);
        ochre_model_close(m);
    }
}

static void threads_change_no_byte(void **state) {
    (void)state;
    ochre_error error;
    static float want[N * VOCAB], got[N * VOCAB];
    int32_t t[N], seq;
    make_tokens(t, N, 4);
    EACH_MODEL(i) {
        for (int n = 1; n <= 3; n++) {
            ochre_model *m = open_tiny(models[i], NULL, n);
            ochre_session *s = open_session(m, 1, 128, 40, 40, false);
            MUST(ochre_sequence_create(s, &seq, &error));
            feed(s, seq, t, N, 40, n == 1 ? want : got);
            if (n > 1) assert_memory_equal(want, got, sizeof want);
            ochre_session_destroy(s);
            ochre_model_close(m);
        }
    }
}

/* A fork shares blocks; what either writes afterwards is its own, in the middle of a block too. */
static void forks_do_not_disturb_each_other(void **state) {
    (void)state;
    enum { HEAD = 37, TAIL = 30 };
    ochre_error error;
    static float want[2][(HEAD + TAIL) * VOCAB], got[2][TAIL * VOCAB];
    int32_t t[2][HEAD + TAIL], seq, fork;
    make_tokens(t[0], HEAD + TAIL, 5);
    make_tokens(t[1], HEAD + TAIL, 6);
    memcpy(t[1], t[0], HEAD * sizeof **t);
    EACH_MODEL(i) {
        ochre_model *m = open_tiny(models[i], NULL, 2);
        ochre_session *s = open_session(m, 2, 128, N, N, true);
        for (int k = 0; k < 2; k++) {
            MUST(ochre_sequence_create(s, &seq, &error));
            feed(s, seq, t[k], HEAD + TAIL, 64, want[k]);
            MUST(ochre_sequence_release(s, seq, &error));
        }
        MUST(ochre_sequence_create(s, &seq, &error));
        feed(s, seq, t[0], HEAD, 64, NULL);
        MUST(ochre_sequence_fork(s, seq, &fork, &error));
        for (int at = 0; at < TAIL; at += 5) { /* by turns */
            feed(s, fork, t[1] + HEAD + at, 5, 5, got[1] + at * VOCAB);
            feed(s, seq, t[0] + HEAD + at, 5, 2, got[0] + at * VOCAB);
        }
        for (int k = 0; k < 2; k++) assert_memory_equal(got[k], want[k] + HEAD * VOCAB, sizeof got[k]);
        ochre_session_destroy(s);
        ochre_model_close(m);
    }
}

static void a_failed_step_changes_nothing(void **state) {
    (void)state;
    ochre_error error;
    static float want[N * VOCAB], got[N * VOCAB];
    int32_t t[N], bad[3] = {1, VOCAB, 2}, seq, other, n;
    make_tokens(t, N, 7);
    ochre_model *m = open_tiny("tiny-gemma3", NULL, 2);
    ochre_session *s = open_session(m, 2, N, N, N, true);
    MUST(ochre_sequence_create(s, &seq, &error));
    feed(s, seq, t, N, N, want);
    MUST(ochre_sequence_truncate(s, seq, 0, &error));
    MUST(ochre_sequence_create(s, &other, &error));
    feed(s, seq, t, 20, 20, got);
    ochre_span spans[2] = {{seq, t + 20, 5, OCHRE_LOGITS_ALL}, {other, bad, 3, OCHRE_LOGITS_NONE}};
    assert_int_equal(ochre_step(s, spans, 2, &error), OCHRE_RANGE);
    assert_string_equal(error.message, "step, span 1, token 1: expected an id of 0 to 287, found 288");
    spans[1] = (ochre_span){seq, t, 1, OCHRE_LOGITS_NONE};
    assert_int_equal(ochre_step(s, spans, 2, &error), OCHRE_INVALID);
    spans[1] = (ochre_span){5, t, 1, OCHRE_LOGITS_NONE};
    assert_int_equal(ochre_step(s, spans, 2, &error), OCHRE_INVALID);
    spans[1] = (ochre_span){other, t, 0, OCHRE_LOGITS_NONE};
    assert_int_equal(ochre_step(s, spans, 2, &error), OCHRE_INVALID);
    assert_int_equal(ochre_step(s, spans, 0, &error), OCHRE_INVALID);
    spans[0] = (ochre_span){seq, t, N - 19, OCHRE_LOGITS_NONE}; /* one beyond the context */
    assert_int_equal(ochre_step(s, spans, 1, &error), OCHRE_RANGE);
    MUST(ochre_sequence_length(s, seq, &n, &error));
    assert_int_equal(n, 20);
    feed(s, seq, t + 20, N - 20, 25, got + 20 * VOCAB);
    assert_memory_equal(want, got, sizeof want);
    ochre_session_destroy(s);
    ochre_model_close(m);
}

static void steps_allocate_nothing(void **state) {
    (void)state;
    ochre_error error;
    int32_t t[N], seq, fork;
    make_tokens(t, N, 8);
    EACH_MODEL(i) {
        for (int p = 0; p < 2; p++) {
            ochre_model *m = open_tiny(models[i], p ? NULL : "reference", 2);
            ochre_session *s = open_session(m, 2, 128, 40, 40, false);
            MUST(ochre_sequence_create(s, &seq, &error));
            feed(s, seq, t, 10, 10, NULL);
            MUST(ochre_sequence_fork(s, seq, &fork, &error));
            och_alloc_fail_at(0);
            feed(s, seq, t + 10, N - 10, 40, NULL);
            feed(s, fork, t + 10, N - 10, 1, NULL);
            assert_int_equal(och_alloc_count(), 0);
            ochre_session_destroy(s);
            ochre_model_close(m);
        }
    }
}

/* A step of many sequences at once allocates no more than one of few. */
static void large_steps_allocate_nothing(void **state) {
    (void)state;
    enum { MANY = 100 };
    ochre_error error;
    int32_t seqs[MANY], token = 5;
    ochre_span spans[MANY];
    ochre_model *m = open_tiny("tiny-llama", NULL, 2);
    ochre_session *s = open_session(m, MANY, 32, MANY, MANY, false);
    for (int i = 0; i < MANY; i++) {
        MUST(ochre_sequence_create(s, &seqs[i], &error));
        spans[i] = (ochre_span){seqs[i], &token, 1, OCHRE_LOGITS_LAST};
    }
    och_alloc_fail_at(0);
    MUST(ochre_step(s, spans, MANY, &error));
    assert_int_equal(och_alloc_count(), 0);
    spans[MANY - 1].sequence = seqs[MANY / 2];
    assert_int_equal(ochre_step(s, spans, MANY, &error), OCHRE_INVALID);
    assert_string_equal(error.message, "step, span 99: sequence 50 is in span 50 already");
    ochre_session_destroy(s);
    ochre_model_close(m);
}

/* Two sequences ask for more state than there is: neither keeps a block of it, and the logits of the step before stay. */
static void a_refused_step_gives_its_state_back(void **state) {
    (void)state;
    enum { STATE = 96 };
    ochre_error error;
    static float before[VOCAB];
    int32_t t[STATE], a, b, n;
    make_tokens(t, STATE, 10);
    for (int i = 0; i < 2; i++) {
        ochre_model *m = open_tiny(i ? "tiny-gemma3" : "tiny-llama", NULL, 2);
        ochre_session *s;
        ochre_session_options o = OCHRE_SESSION_OPTIONS_INIT;
        o.max_sequences = 2;
        o.max_context = 128;
        o.kv_tokens = STATE;
        MUST(ochre_session_create(m, &o, &s, &error));
        MUST(ochre_sequence_create(s, &a, &error));
        MUST(ochre_sequence_create(s, &b, &error));
        ochre_span spans[2] = {{a, t, 1, OCHRE_LOGITS_LAST}, {b, t, STATE, OCHRE_LOGITS_NONE}};
        size_t rows;
        MUST(ochre_step(s, spans, 1, &error));
        memcpy(before, ochre_step_logits(s, &rows), sizeof before);
        spans[0].n_tokens = 60;
        assert_int_equal(ochre_step(s, spans, 2, &error), OCHRE_NOMEM);
        assert_non_null(strstr(error.message, "step, span 1 (sequence 1)"));
        const float *after = ochre_step_logits(s, &rows);
        assert_int_equal(rows, 1);
        assert_memory_equal(after, before, sizeof before);
        spans[1].n_tokens = 64; /* all but the block of a's first token */
        MUST(ochre_step(s, spans + 1, 1, &error));
        MUST(ochre_sequence_length(s, a, &n, &error));
        assert_int_equal(n, 1);
        ochre_session_destroy(s);
        ochre_model_close(m);
    }
}

/* The plan as the architecture builds it, and as the passes leave it. */
static void passes_keep_the_values(void **state) {
    (void)state;
    static float plain[N * VOCAB], fused[N * VOCAB];
    int32_t t[N], seq;
    make_tokens(t, N, 9);
    EACH_MODEL(i) {
        for (int p = 0; p < 2; p++) {
            och_err err;
            och_err_clear(&err);
            ochre_model *m = open_tiny(models[i], p ? NULL : "reference", 2);
            int n_ops[2];
            for (int k = 0; k < 2; k++) {
                och_session_options o = {.max_context = 128, .max_step_tokens = N, .max_logits = N, .kv_dtype = OCH_DTYPE_F32,
                                         .batch_invariant = true, .no_passes = k == 0};
                och_session *s;
                size_t rows;
                if (och_session_create(och_api_model(m), &o, &s, &err) != OCH_OK) fail_msg("%s", err.message);
                och_span span = {0, t, N, 2};
                if (och_session_sequence_create(s, &seq, &err) != OCH_OK || och_session_step(s, &span, 1, &err) != OCH_OK)
                    fail_msg("%s", err.message);
                memcpy(k ? fused : plain, och_session_logits(s, &rows), sizeof plain);
                n_ops[k] = s->plan.n_ops;
                och_session_destroy(s);
            }
            assert_true(n_ops[1] < n_ops[0]);
            /* a layer: q k v, post, attention, o, gate up, down; Gemma: two norms more */
            int layers = och_api_model(m)->config.n_layers, per_layer = strcmp(models[i], "tiny-gemma3") ? 6 : 8;
            assert_true(n_ops[1] <= layers * per_layer + 5);
            assert_close(plain, fused, N * VOCAB, p ? 1e-3f : 1e-6f, models[i]);
            ochre_model_close(m);
        }
    }
}

typedef struct progress {
    uint64_t done, total;
    int calls, stop_at;
} progress;

static bool note_progress(void *user, const char *phase, uint64_t done, uint64_t total) {
    progress *p = user;
    assert_non_null(phase);
    assert_true(done >= p->done && done <= total && (!p->total || total == p->total));
    p->done = done;
    p->total = total;
    return ++p->calls != p->stop_at;
}

static void progress_ends_at_its_total(void **state) {
    (void)state;
    static const char *const names[] = {"tiny-llama", "tiny-llama.gguf", "tiny-gemma3", "tiny-gemma3.gguf"}; /* the last two tied */
    ochre_error error;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int p = 0; p < 2; p++) {
            char path[512];
            snprintf(path, sizeof path, "%s/golden/%s", OCHRE_TEST_DIR, names[i]);
            progress seen = {0};
            ochre_model *m;
            ochre_model_options o = OCHRE_MODEL_OPTIONS_INIT;
            o.provider = p ? NULL : "reference";
            o.progress = note_progress;
            o.user = &seen;
            MUST(ochre_model_open(path, &o, &m, &error));
            assert_true(seen.total > 0);
            assert_int_equal(seen.done, seen.total);
            ochre_model_info info = {.size_bytes = sizeof info};
            MUST(ochre_model_describe(m, &info, &error));
            /* float32 or 16-bit files, and what packing adds; views of the file count too */
            assert_in_range(info.weight_bytes, info.n_parameters * 2, info.n_parameters * 5);
            ochre_model_close(m);
            seen = (progress){.stop_at = seen.calls - 1};
            assert_int_equal(ochre_model_open(path, &o, &m, &error), OCHRE_CANCELLED);
            assert_null(m);
        }
}

static void options_are_checked(void **state) {
    (void)state;
    ochre_error error;
    ochre_session *s;
    ochre_model *m = open_tiny("tiny-llama", NULL, 1), *none;
    ochre_session_options o = OCHRE_SESSION_OPTIONS_INIT;
    o.max_context = 1 << 30;
    assert_int_equal(ochre_session_create(m, &o, &s, &error), OCHRE_RANGE);
    assert_null(s);
    assert_non_null(strstr(error.message, "max_context: expected 1 to"));
    o.max_context = -1;
    assert_int_equal(ochre_session_create(m, &o, &s, &error), OCHRE_RANGE);
    o = (ochre_session_options)OCHRE_SESSION_OPTIONS_INIT;
    o.size_bytes = 0;
    assert_int_equal(ochre_session_create(m, &o, &s, &error), OCHRE_INVALID);
    assert_int_equal(ochre_session_create(NULL, NULL, &s, &error), OCHRE_INVALID);
    assert_int_equal(ochre_model_open(NULL, NULL, &none, &error), OCHRE_INVALID);
    assert_int_equal(ochre_model_open("no/such/file.gguf", NULL, &none, &error), OCHRE_NOTFOUND);
    assert_non_null(strstr(error.message, "no/such/file.gguf"));
    ochre_model_options mo = OCHRE_MODEL_OPTIONS_INIT;
    mo.device = "gpu:9";
    assert_int_not_equal(ochre_model_open(models[0], &mo, &none, &error), OCHRE_OK);
    mo.device = NULL;
    mo.n_threads = -3;
    assert_int_not_equal(ochre_model_open(models[0], &mo, &none, &error), OCHRE_OK);
    /* no tokenizer in this folder */
    size_t n;
    assert_int_equal(ochre_tokenize(m, "a", 1, 0, NULL, 0, &n, &error), OCHRE_NOTFOUND);
    ochre_session_destroy(NULL);
    ochre_model_close(NULL);
    ochre_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_give_the_same_bytes_when_invariant), cmocka_unit_test(cuts_give_close_logits_without),
        cmocka_unit_test(company_changes_no_byte_when_invariant),  cmocka_unit_test(threads_change_no_byte),
        cmocka_unit_test(forks_do_not_disturb_each_other),         cmocka_unit_test(a_failed_step_changes_nothing),
        cmocka_unit_test(steps_allocate_nothing),                  cmocka_unit_test(passes_keep_the_values),
        cmocka_unit_test(options_are_checked),                     cmocka_unit_test(large_steps_allocate_nothing),
        cmocka_unit_test(a_refused_step_gives_its_state_back),     cmocka_unit_test(progress_ends_at_its_total),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
