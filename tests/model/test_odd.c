/* Models that are odd or hostile: each is refused with a message that names the file and the value, and nothing ends in a
 * step that gives NaN. */
#include "folder.h"

#include "base/alloc.h"

#include <math.h>

/* Opens the folder after one change of config.json; what must be in the message, or NULL: it opens, steps, and is finite. */
static void with_config(const char *model, const char *from, const char *to, ochre_status expected, const char *text) {
    ochre_error error;
    ochre_model *m = NULL;
    ochre_model_options o = OCHRE_MODEL_OPTIONS_INIT;
    o.n_threads = 1;
    folder_make(model, from, to);
    int64_t live = och_alloc_live();
    ochre_status st = ochre_model_open(folder_path, &o, &m, &error);
    if (st != expected) fail_msg("%s: %s: expected %s, found %s: %s", model, to, ochre_status_name(expected), ochre_status_name(st), error.message);
    if (st != OCHRE_OK) {
        assert_null(m);
        assert_int_equal(och_alloc_live(), live);
        if (!strstr(error.message, text) || !strstr(error.message, folder_path))
            fail_msg("%s: %s: expected a message with %s and the path, found %s", model, to, text, error.message);
        return;
    }
    ochre_session *s = open_session(m, 1, 16, 16, 4, false);
    int32_t seq, tokens[4] = {1, 2, 3, 4};
    MUST(ochre_sequence_create(s, &seq, &error));
    ochre_span span = {seq, tokens, 4, OCHRE_LOGITS_ALL};
    MUST(ochre_step(s, &span, 1, &error));
    size_t rows;
    const float *l = ochre_step_logits(s, &rows);
    for (size_t i = 0; i < rows * 288; i++) assert_true(isfinite(l[i]));
    ochre_session_destroy(s);
    ochre_model_close(m);
}

static void numbers_out_of_range(void **state) {
    (void)state;
    static const struct {
        const char *key, *value;
        ochre_status status;
        const char *text;
    } cases[] = {
        {"\"num_hidden_layers\": 2", "0", OCHRE_RANGE, "num_hidden_layers: expected 1 to 512, found 0"},
        {"\"num_hidden_layers\": 2", "1000000000", OCHRE_RANGE, "num_hidden_layers: expected 1 to 512"},
        {"\"num_hidden_layers\": 2", "99999999999", OCHRE_RANGE, "num_hidden_layers"},
        {"\"num_hidden_layers\": 2", "-1", OCHRE_CORRUPT, "num_hidden_layers"},
        {"\"num_hidden_layers\": 2", "\"two\"", OCHRE_CORRUPT, "num_hidden_layers"},
        {"\"num_hidden_layers\": 2", "3", OCHRE_NOTFOUND, "model.layers.2."},
        {"\"num_attention_heads\": 4", "0", OCHRE_RANGE, "number of heads"},
        {"\"num_attention_heads\": 4", "2147483647", OCHRE_RANGE, "number of heads"},
        {"\"num_attention_heads\": 4", "6", OCHRE_CORRUPT, "q_proj.weight: expected shape [96, 64], found [64, 64]"},
        {"\"num_key_value_heads\": 2", "0", OCHRE_RANGE, "number of kv heads"},
        {"\"num_key_value_heads\": 2", "3", OCHRE_RANGE, "kv heads divide"},
        {"\"num_key_value_heads\": 2", "8", OCHRE_RANGE, "number of kv heads"},
        {"\"head_dim\": 16", "0", OCHRE_RANGE, "head dimension"},
        {"\"head_dim\": 16", "2147483647", OCHRE_RANGE, "head dimension"},
        {"\"head_dim\": 16", "null", OCHRE_OK, NULL}, /* d_model / heads, the same */
        {"\"hidden_size\": 64", "0", OCHRE_RANGE, "embedding length"},
        {"\"hidden_size\": 64", "63", OCHRE_CORRUPT, "expected shape"},
        {"\"intermediate_size\": 96", "1073741824", OCHRE_RANGE, "feed-forward length"},
        {"\"max_position_embeddings\": 1024", "0", OCHRE_RANGE, "context length"},
        {"\"max_position_embeddings\": 1024", "2000000000", OCHRE_RANGE, "context length"},
        {"\"max_position_embeddings\": 1024", "268435456", OCHRE_OK, NULL},
        {"\"vocab_size\": 288", "0", OCHRE_RANGE, "vocabulary size"},
        {"\"vocab_size\": 288", "289", OCHRE_CORRUPT, "embed_tokens.weight: expected shape [289, 64], found [288, 64]"},
        {"\"rms_norm_eps\": 1e-05", "-1.0", OCHRE_RANGE, "norm epsilon"},
        {"\"rope_theta\": 10000.0", "0.0", OCHRE_RANGE, "rotary base"},
        {"\"rope_theta\": 10000.0", "1e-300", OCHRE_RANGE, "rotary base"},
        {"\"rope_theta\": 10000.0", "1e300", OCHRE_RANGE, "rotary base"},
        {"\"rope_theta\": 10000.0", "1e15", OCHRE_OK, NULL},
        {"\"pretraining_tp\": 1", "1, \"partial_rotary_factor\": 1e300", OCHRE_RANGE, "partial_rotary_factor"},
        {"\"pretraining_tp\": 1", "1, \"partial_rotary_factor\": -1", OCHRE_RANGE, "partial_rotary_factor"},
        {"\"pretraining_tp\": 1", "1, \"partial_rotary_factor\": 0.03", OCHRE_RANGE, "rotary dimension"},
        {"\"pretraining_tp\": 1", "1, \"partial_rotary_factor\": 0.5", OCHRE_OK, NULL},
        {"\"pretraining_tp\": 1", "1, \"layer_types\": [\"full_attention\"]", OCHRE_CORRUPT, "layer_types: expected 2 entries, found 1"},
        {"\"pretraining_tp\": 1", "1, \"layer_types\": [\"full_attention\", 7]", OCHRE_UNSUPPORTED, "layer_types.1"},
        {"\"hidden_act\": \"silu\"", "\"relu\"", OCHRE_UNSUPPORTED, "hidden_act: expected silu"},
        {"\"rope_scaling\": null", "{\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 1.0, "
                                   "\"original_max_position_embeddings\": 64}", OCHRE_RANGE, "frequency factors"},
        {"\"rope_scaling\": null", "{\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 0.0, \"high_freq_factor\": 4.0, "
                                   "\"original_max_position_embeddings\": 64}", OCHRE_RANGE, "low frequency factor"},
        {"\"rope_scaling\": null", "{\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0}",
         OCHRE_NOTFOUND, "original_max_position_embeddings"},
        {"\"rope_scaling\": null", "{\"rope_type\": \"linear\", \"factor\": 1e-300}", OCHRE_RANGE, "scaling factor"},
        {"\"rope_scaling\": null", "{\"rope_type\": \"yarn\", \"factor\": 4.0, \"beta_fast\": 0}", OCHRE_RANGE, "beta_fast"},
        {"\"rope_scaling\": null", "{\"rope_type\": \"yarn\", \"factor\": 4.0, \"attention_factor\": -1}", OCHRE_RANGE, "attention factor"},
        {"\"rope_scaling\": null", "{\"rope_type\": \"yarn\", \"factor\": 4.0}", OCHRE_OK, NULL},
        {"\"rope_scaling\": null", "{\"rope_type\": \"longrope\", \"factor\": 4.0}", OCHRE_UNSUPPORTED, "longrope"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char to[512];
        snprintf(to, sizeof to, "%.*s: %s", (int)(strchr(cases[i].key, ':') - cases[i].key), cases[i].key, cases[i].value);
        with_config("tiny-llama", cases[i].key, to, cases[i].status, cases[i].text);
    }
    folder_remove();
}

static void missing_keys(void **state) {
    (void)state;
    static const char *const required[] = {"num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads",
                                           "vocab_size", "max_position_embeddings"};
    for (size_t i = 0; i < sizeof required / sizeof *required; i++) {
        char from[64], to[64];
        snprintf(from, sizeof from, "\"%s\"", required[i]);
        snprintf(to, sizeof to, "\"no_%s\"", required[i]);
        with_config("tiny-llama", from, to, OCHRE_NOTFOUND, required[i]);
    }
    with_config("tiny-llama", "\"LlamaForCausalLM\"", "\"MambaForCausalLM\"", OCHRE_UNSUPPORTED, "expected one of LlamaForCausalLM");
    with_config("tiny-llama", "\"architectures\"", "\"no\"", OCHRE_NOTFOUND, "architectures");
    folder_remove();
}

/* Which layers slide, from the key that Qwen uses (Hugging Face, Qwen2Config). */
static void qwen_windows(void **state) {
    (void)state;
    static const struct {
        const char *to;
        bool first, second;
    } cases[] = {
        {"\"hidden_act\": \"silu\", \"sliding_window\": 8, \"max_window_layers\": 1", false, false}, /* unsaid: no window */
        {"\"hidden_act\": \"silu\", \"sliding_window\": 8, \"max_window_layers\": 1, \"use_sliding_window\": true", false, true},
        {"\"hidden_act\": \"silu\", \"sliding_window\": 8, \"max_window_layers\": 0, \"use_sliding_window\": true", true, true},
        {"\"hidden_act\": \"silu\", \"sliding_window\": 8, \"max_window_layers\": 9, \"use_sliding_window\": true", false, false},
        {"\"hidden_act\": \"silu\", \"sliding_window\": 8", true, true}, /* Mistral */
        {"\"hidden_act\": \"silu\", \"sliding_window\": null", false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        folder_make("tiny-llama", "\"hidden_act\": \"silu\"", cases[i].to);
        ochre_model *m = folder_open(NULL);
        const och_config *c = &och_api_model(m)->config;
        assert_int_equal(och_config_window(c, 0), cases[i].first ? 8 : 0);
        assert_int_equal(och_config_window(c, 1), cases[i].second ? 8 : 0);
        ochre_model_close(m);
    }
    folder_remove();
}

/* What Gemma's configuration leaves out is as in its class (Hugging Face, Gemma3TextConfig). */
static void gemma_defaults(void **state) {
    (void)state;
    folder_make("tiny-gemma3", "\"hidden_activation\"", "\"no_activation\"");
    ochre_model *m = folder_open(NULL);
    assert_int_equal(och_api_model(m)->config.act, OCH_ACT_GELU_TANH);
    ochre_model_close(m);
    folder_make("tiny-gemma3", "\"rope_parameters\"", "\"no_parameters\"");
    m = folder_open(NULL);
    assert_true(och_api_model(m)->config.rope.base == 1e6 && och_api_model(m)->config.rope_sliding.base == 1e4);
    ochre_model_close(m);
    with_config("tiny-gemma3", "\"final_logit_softcapping\": null", "\"final_logit_softcapping\": 30.0", OCHRE_UNSUPPORTED,
                "final_logit_softcapping: expected null, found 30");
    with_config("tiny-gemma3", "\"attn_logit_softcapping\": null", "\"attn_logit_softcapping\": 50.0", OCHRE_UNSUPPORTED,
                "attn_logit_softcapping: expected null, found 50");
    folder_remove();
}

/* The header of a safetensors file is text: a tensor's shape and its numbers are changed in place. */
static void tensors_of_another_shape(void **state) {
    (void)state;
    static const struct {
        const char *from, *to, *text;
    } cases[] = {
        {"\"model.norm.weight\":{\"dtype\":\"F32\",\"shape\":[64]", "\"model.norm.weight\":{\"dtype\":\"F32\",\"shape\":[8,8]",
         "model.norm.weight: expected shape [64], found [8, 8]"},
        {"\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[288,64]", "\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[64,288]",
         "model.embed_tokens.weight: expected shape [288, 64], found [64, 288]"},
        {"\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[288,64]", "\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[18432]",
         "model.embed_tokens.weight: expected shape [288, 64], found [18432]"},
        {"\"model.norm.weight\":{\"dtype\":\"F32\"", "\"model.norm.weight\":{\"dtype\":\"I32\"", "model.norm.weight"},
        {"\"model.layers.1.mlp.up_proj.weight\"", "\"model.layers.7.mlp.up_proj.weight\"", "model.layers.1.mlp.up_proj.weight"},
    };
    ochre_error error;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n, n_header = 0;
        ochre_model *m;
        folder_make("tiny-llama", NULL, NULL);
        char *file = golden_text("tiny-llama", "model.safetensors", &n);
        memcpy(&n_header, file, 8);
        char end = file[8 + n_header], *at;
        file[8 + n_header] = '\0';
        at = strstr(file + 8, cases[i].from);
        if (!at) fail_msg("no %s in the header", cases[i].from);
        file[8 + n_header] = end;
        /* The header shrinks or grows; offsets count from its end. */
        och_strbuf b;
        och_strbuf_init(&b);
        uint64_t n_new = n_header + strlen(cases[i].to) - strlen(cases[i].from);
        och_strbuf_append(&b, (const char *)&n_new, 8);
        och_strbuf_append(&b, file + 8, (size_t)(at - file) - 8);
        och_strbuf_puts(&b, cases[i].to);
        size_t rest = (size_t)(at - file) + strlen(cases[i].from);
        och_strbuf_append(&b, file + rest, n - rest);
        folder_file("model.safetensors", b.data, b.size);
        och_strbuf_deinit(&b);
        free(file);
        assert_int_not_equal(ochre_model_open(folder_path, NULL, &m, &error), OCHRE_OK);
        if (!strstr(error.message, cases[i].text)) fail_msg("expected a message with %s, found %s", cases[i].text, error.message);
    }
    folder_remove();
}

/* A NaN in a norm, in a matrix, in the table of a tied and of an untied model. */
static void weights_that_are_no_numbers(void **state) {
    (void)state;
    static const struct {
        const char *model, *tensor;
    } cases[] = {{"tiny-llama", "model.norm.weight"}, {"tiny-llama", "model.embed_tokens.weight"}, {"tiny-llama", "lm_head.weight"},
                 {"tiny-llama", "model.layers.1.mlp.down_proj.weight"}, {"tiny-gemma3", "model.embed_tokens.weight"}};
    ochre_error error;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int p = 0; p < 2; p++) {
            size_t n, n_header = 0;
            ochre_model *m;
            ochre_model_options o = OCHRE_MODEL_OPTIONS_INIT;
            o.provider = p ? NULL : "reference";
            folder_make(cases[i].model, NULL, NULL);
            char *file = golden_text(cases[i].model, "model.safetensors", &n);
            memcpy(&n_header, file, 8);
            char *at = strstr(file + 8, cases[i].tensor);
            assert_non_null(at);
            at = strstr(at, "\"data_offsets\":[");
            assert_non_null(at);
            memset(file + 8 + n_header + strtoul(strchr(at, '[') + 1, NULL, 10) + 40, 0xFF, 4); /* NaN in F32 and in BF16 */
            folder_file("model.safetensors", file, n);
            free(file);
            assert_int_equal(ochre_model_open(folder_path, &o, &m, &error), OCHRE_CORRUPT);
            assert_non_null(strstr(error.message, cases[i].tensor));
        }
    folder_remove();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_out_of_range), cmocka_unit_test(missing_keys), cmocka_unit_test(qwen_windows),
        cmocka_unit_test(gemma_defaults), cmocka_unit_test(tensors_of_another_shape), cmocka_unit_test(weights_that_are_no_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
