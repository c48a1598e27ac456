/* Small checkpoints with random weights, saved by Hugging Face transformers, against its float32 logits. */
#include "support.h"

#include "engine/verify.h"

#include <math.h>

/* A step that asks for its last row alone: the others stay behind after attention of the last layer (och_layer_outputs). */
static void check_last_row(ochre_session *s, const och_golden_prompt *g, const char *model, double max_relative) {
    ochre_error error;
    int32_t seq;
    size_t rows;
    MUST(ochre_sequence_create(s, &seq, &error));
    ochre_span span = {seq, g->ids, g->n_ids, OCHRE_LOGITS_LAST};
    MUST(ochre_step(s, &span, 1, &error));
    const float *l = ochre_step_logits(s, &rows), *expected = g->logits + (size_t)(g->n_ids - 1) * (size_t)g->n_vocab;
    assert_int_equal(rows, 1);
    float most = 0, delta = 0;
    for (int i = 0; i < g->n_vocab; i++) {
        most = fmaxf(most, fabsf(expected[i]));
        delta = fmaxf(delta, fabsf(l[i] - expected[i]));
    }
    if (!((double)delta <= max_relative * (double)most))
        fail_msg("%s, %s, last row alone: |delta| %g of max %g", model, g->name, (double)delta, (double)most);
    MUST(ochre_sequence_release(s, seq, &error));
}

/* Every prompt of the golden, in steps of 64 tokens and token by token. */
static void check(const char *model, const char *golden, const char *provider, double max_relative, double max_kl) {
    ochre_error error;
    och_err err;
    char path[512];
    och_err_clear(&err);
    snprintf(path, sizeof path, "%s/golden/%s", OCHRE_TEST_DIR, golden);
    och_golden g;
    if (och_golden_read(path, &g, &err) != OCH_OK) fail_msg("%s", err.message);
    ochre_model *m = open_tiny(model, provider, 2);
    ochre_model_info info = {.size_bytes = sizeof info};
    MUST(ochre_model_describe(m, &info, &error));
    ochre_session *s = open_session(m, 1, 128, 64, 64, false);
    static const int steps[] = {64, 7, 1};
    assert_true(g.n_prompts > 0);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        och_verify_total total = {0};
        for (int p = 0; p < g.n_prompts; p++) {
            och_verify_result r;
            if (och_verify_prompt(s, &g.prompts[p], info.n_vocab, steps[i], &r, &err) != OCH_OK) fail_msg("%s", err.message);
            och_verify_total_add(&total, &r);
        }
        if (!(total.worst_relative <= max_relative) || !(total.mean_kl <= max_kl))
            fail_msg("%s, steps of %d: worst |delta| / max |logit| %.3g, mean KL %.3g", model, steps[i], total.worst_relative, total.mean_kl);
        if (total.n_equal + total.n_near_ties != total.n_tokens)
            fail_msg("%s: %d of %d greedy tokens differ", model, total.n_tokens - total.n_equal - total.n_near_ties, total.n_tokens);
    }
    for (int p = 0; p < g.n_prompts; p++) check_last_row(s, &g.prompts[p], model, max_relative);
    ochre_session_destroy(s);
    ochre_model_close(m);
    och_golden_deinit(&g);
}

#define TINY(id, model, golden)                                                                                        \
    static void reference_##id(void **s) {                                                                             \
        (void)s;                                                                                                       \
        check(model, golden, "reference", 1e-4, 1e-7);                                                                 \
    }                                                                                                                  \
    static void fast_##id(void **s) {                                                                                  \
        (void)s;                                                                                                       \
        check(model, golden, NULL, 2e-2, 1e-3);                                                                        \
    }

TINY(llama, "tiny-llama", "tiny-llama/golden.safetensors")
TINY(llama_gguf, "tiny-llama.gguf", "tiny-llama/golden.safetensors")
TINY(llama3_rope, "tiny-llama3-rope", "tiny-llama3-rope/golden.safetensors")
TINY(llama_linear, "tiny-llama-linear", "tiny-llama-linear/golden.safetensors")
TINY(llama_yarn, "tiny-llama-yarn", "tiny-llama-yarn/golden.safetensors")
TINY(mistral, "tiny-mistral", "tiny-mistral/golden.safetensors")
TINY(qwen2, "tiny-qwen2", "tiny-qwen2/golden.safetensors")
TINY(qwen3, "tiny-qwen3", "tiny-qwen3/golden.safetensors")
TINY(gemma3, "tiny-gemma3", "tiny-gemma3/golden.safetensors")
TINY(gemma3_gguf, "tiny-gemma3.gguf", "tiny-gemma3/golden.safetensors")
TINY(olmo2, "tiny-olmo2", "tiny-olmo2/golden.safetensors")
TINY(olmo2_gguf, "tiny-olmo2.gguf", "tiny-olmo2/golden.safetensors")

int main(void) {
#define BOTH(id) cmocka_unit_test(reference_##id), cmocka_unit_test(fast_##id)
    const struct CMUnitTest tests[] = {BOTH(llama), BOTH(llama_gguf), BOTH(llama3_rope), BOTH(llama_linear), BOTH(llama_yarn),
                                       BOTH(mistral), BOTH(qwen2), BOTH(qwen3), BOTH(gemma3), BOTH(gemma3_gguf),
                                       BOTH(olmo2), BOTH(olmo2_gguf)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
