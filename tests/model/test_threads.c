/* One model, several threads, a session each: the same bytes as alone, and no race under ThreadSanitizer. Each thread also
 * creates and destroys its session, so that plans are built while others step. */
#include "support.h"

#include <pthread.h>

#define VOCAB 288
#define N_PROMPT 20
#define N_TOKENS 24
#define N_THREADS 3

typedef struct worker {
    ochre_model *model;
    uint64_t seed;
    int32_t ids[N_TOKENS];
    ochre_status status;
    ochre_error error;
} worker;

/* No assertion here: cmocka jumps, and a thread has nowhere to jump to. */
static void *generate(void *arg) {
    worker *w = arg;
    for (int round = 0; round < 2; round++) {
        ochre_session *s = NULL;
        int32_t seq, prompt[N_PROMPT];
        ochre_sampling p = OCHRE_SAMPLING_INIT;
        ochre_session_options o = OCHRE_SESSION_OPTIONS_INIT;
        p.temperature = 1.0f;
        p.seed = w->seed;
        o.max_context = 64;
        o.max_step_tokens = 32;
        for (int i = 0; i < N_PROMPT; i++) prompt[i] = (int32_t)((w->seed * 7 + (uint64_t)i * 13) % VOCAB);
        w->status = ochre_session_create(w->model, &o, &s, &w->error);
        if (w->status == OCHRE_OK) w->status = ochre_sequence_create(s, &seq, &w->error);
        ochre_span span = {0, prompt, N_PROMPT, OCHRE_LOGITS_LAST};
        for (int i = 0; i < N_TOKENS && w->status == OCHRE_OK; i++) {
            w->status = ochre_step(s, &span, 1, &w->error);
            if (w->status == OCHRE_OK)
                w->status = ochre_sample(s, 0, &p, NULL, 0, (uint64_t)(N_PROMPT + i), &w->ids[i], &w->error);
            span = (ochre_span){seq, &w->ids[i], 1, OCHRE_LOGITS_LAST};
        }
        ochre_session_destroy(s);
        if (w->status != OCHRE_OK) return NULL;
    }
    return NULL;
}

static void sessions_of_one_model_do_not_meet(void **state) {
    (void)state;
    static const char *const models[] = {"tiny-gemma3.gguf", "tiny-qwen3"};
    for (size_t i = 0; i < 2; i++)
        for (int p = 0; p < 2; p++) {
            ochre_model *m = open_tiny(models[i], p ? NULL : "reference", 2);
            worker alone[N_THREADS], together[N_THREADS];
            pthread_t threads[N_THREADS];
            for (int t = 0; t < N_THREADS; t++) {
                alone[t] = together[t] = (worker){.model = m, .seed = (uint64_t)t};
                generate(&alone[t]);
                if (alone[t].status != OCHRE_OK) fail_msg("%s", alone[t].error.message);
            }
            assert_memory_not_equal(alone[0].ids, alone[1].ids, sizeof alone[0].ids);
            for (int t = 0; t < N_THREADS; t++) assert_int_equal(pthread_create(&threads[t], NULL, generate, &together[t]), 0);
            for (int t = 0; t < N_THREADS; t++) assert_int_equal(pthread_join(threads[t], NULL), 0);
            for (int t = 0; t < N_THREADS; t++) {
                if (together[t].status != OCHRE_OK) fail_msg("%s", together[t].error.message);
                assert_memory_equal(together[t].ids, alone[t].ids, sizeof alone[t].ids);
            }
            ochre_model_close(m);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sessions_of_one_model_do_not_meet)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
