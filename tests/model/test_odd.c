/* Models that are odd or hostile: each is refused with a message that names the file and the value, and nothing ends in a
 * step that gives NaN. */
#include "folder.h"

#include "base/alloc.h"
#include "model/rope.h"
#include "unit/file_build.h"

#include <math.h>

/* Opens the folder after one change of config.json; what must be in the message, or NULL: it opens, steps, and is finite. */
static void with_config(const char *model, const char *from, const char *to, ochre_status expected, const char *text) {
    ochre_error error;
    ochre_model *m = NULL;
    ochre_model_options o = OCHRE_MODEL_OPTIONS_INIT;
    o.n_threads = 1;
    o.device = "cpu"; /* what a search for boards keeps is not counted */
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
        {"\"num_hidden_layers\": 2", "1", OCHRE_UNSUPPORTED, "with 1 layers has no place for tensor model.layers.1."},
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

/* Weights so large that a layer's values leave what a float can hold: the step ends, names the layer, and changes nothing. */
static void values_that_overflow(void **state) {
    (void)state;
    ochre_error error;
    for (int p = 0; p < 2; p++) {
        size_t n, n_header = 0;
        ochre_model *m;
        ochre_model_options o = OCHRE_MODEL_OPTIONS_INIT;
        o.provider = p ? NULL : "reference";
        folder_make("tiny-llama", NULL, NULL);
        char *file = golden_text("tiny-llama", "model.safetensors", &n);
        memcpy(&n_header, file, 8);
        char *at = strstr(file + 8, "model.layers.1.mlp.down_proj.weight");
        assert_non_null(at);
        at = strstr(at, "\"data_offsets\":[");
        assert_non_null(at);
        size_t begin = strtoul(strchr(at, '[') + 1, NULL, 10), end = strtoul(strchr(at, ',') + 1, NULL, 10);
        memset(file + 8 + n_header + begin, 0x7f, end - begin); /* 3.4e38 in F32 and in BF16 */
        folder_file("model.safetensors", file, n);
        free(file);
        MUST(ochre_model_open(folder_path, &o, &m, &error));
        ochre_session *s = open_session(m, 1, 64, 8, 1, false);
        int32_t sequence, length, tokens[] = {3, 5, 7};
        MUST(ochre_sequence_create(s, &sequence, &error));
        ochre_span span = {sequence, tokens, 3, OCHRE_LOGITS_LAST};
        assert_int_equal(ochre_step(s, &span, 1, &error), OCHRE_DEVICE);
        assert_non_null(strstr(error.message, "layer 1, op linear"));
        MUST(ochre_sequence_length(s, sequence, &length, &error));
        assert_int_equal(length, 0);
        ochre_session_destroy(s);
        ochre_model_close(m);
    }
    folder_remove();
}

typedef struct pair {
    const char *key;
    double value;
    const char *text; /* instead of the number */
} pair;

/* A configuration from a GGUF with these keys beside the required ones. */
static ochre_status gguf_config(const char *arch, const pair *pairs, size_t n_pairs, och_config *out, char message[768]) {
    static const pair required[] = {{"block_count", 12, NULL}, {"embedding_length", 64, NULL}, {"feed_forward_length", 96, NULL},
                                    {"attention.head_count", 4, NULL}, {"context_length", 1024, NULL}};
    och_strbuf b;
    och_err err;
    char key[128];
    built_tensor embed = {"token_embd.weight", 2, {64, 8}, 0, 0};
    och_err_clear(&err);
    och_strbuf_init(&b);
    put_header(&b, 3, 1, 7 + n_pairs);
    put_key(&b, "general.architecture", 8);
    put_str(&b, arch);
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", arch);
    put_key(&b, key, 6);
    put_f32(&b, 1e-6f);
    for (int i = 0; i < 5; i++) {
        snprintf(key, sizeof key, "%s.%s", arch, required[i].key);
        put_key(&b, key, 4);
        put_u32(&b, (uint32_t)required[i].value);
    }
    for (size_t i = 0; i < n_pairs; i++) {
        bool whole = pairs[i].value == floor(pairs[i].value) && !strstr(pairs[i].key, "factor");
        snprintf(key, sizeof key, "%s.%s", arch, pairs[i].key);
        put_key(&b, key, pairs[i].text ? 8 : whole ? 4 : 6);
        if (pairs[i].text) put_str(&b, pairs[i].text);
        else if (whole) put_u32(&b, (uint32_t)pairs[i].value);
        else put_f32(&b, (float)pairs[i].value);
    }
    put_tensor(&b, &embed);
    put_data(&b, 32, 64 * 8 * 4);
    och_gguf *g;
    och_status st = och_gguf_open_memory("made", b.data, b.size, &g, &err);
    if (st == OCH_OK) {
        st = och_arch_find_gguf(arch)->config_gguf(g, arch, out, &err);
        if (st == OCH_OK) st = och_config_check(out, "made", &err);
        och_gguf_close(g);
    } else
        fail_msg("%s", err.message);
    och_strbuf_deinit(&b);
    snprintf(message, 768, "%s", err.message);
    return (ochre_status)st;
}

/* As llama.cpp reads the keys (llama-model.cpp, load_hparams; models/gemma3.cpp). */
static void gguf_scalings(void **state) {
    (void)state;
    static och_config c;
    och_rope r;
    char message[768];
    assert_int_equal(gguf_config("llama", NULL, 0, &c, message), OCHRE_OK);
    assert_int_equal(c.rope.scaling, OCH_ROPE_PLAIN);
    assert_int_equal(c.rope.dim, 16);
    assert_int_equal(gguf_config("llama", (pair[]){{"rope.scaling.factor", 4, NULL}}, 1, &c, message), OCHRE_OK);
    och_rope_init(&c.rope, NULL, &r);
    assert_true(r.inv_freq[0] == 0.25f);
    assert_int_equal(gguf_config("llama", (pair[]){{"rope.scale_linear", 2, NULL}}, 1, &c, message), OCHRE_OK);
    och_rope_init(&c.rope, NULL, &r);
    assert_true(r.inv_freq[0] == 0.5f);
    assert_int_equal(gguf_config("llama", (pair[]){{"rope.scaling.factor", 0, NULL}}, 1, &c, message), OCHRE_OK);
    assert_int_equal(c.rope.scaling, OCH_ROPE_PLAIN);
    assert_int_equal(gguf_config("llama", (pair[]){{"rope.scaling.factor", 4, NULL}, {"rope.scaling.type", 0, "none"}}, 2, &c, message), OCHRE_OK);
    och_rope_init(&c.rope, NULL, &r);
    assert_true(r.inv_freq[0] == 1.0f);
    /* 0.1 ln 4 + 1 = 1.13863 */
    static const pair yarn[] = {{"rope.scaling.type", 0, "yarn"}, {"rope.scaling.factor", 4, NULL}, {"rope.scaling.attn_factor", 0.5, NULL}};
    assert_int_equal(gguf_config("llama", yarn, 2, &c, message), OCHRE_OK);
    assert_int_equal(c.rope.original_context, 1024);
    och_rope_init(&c.rope, NULL, &r);
    assert_true(fabsf(r.magnitude - 1.13863f) < 1e-5f);
    assert_int_equal(gguf_config("llama", yarn, 3, &c, message), OCHRE_OK);
    och_rope_init(&c.rope, NULL, &r);
    assert_true(fabsf(r.magnitude - 0.569315f) < 1e-5f);
    assert_int_equal(gguf_config("llama", (pair[]){{"rope.scaling.type", 0, "longrope"}}, 1, &c, message), OCHRE_UNSUPPORTED);
    assert_non_null(strstr(message, "made: key llama.rope.scaling.type: expected none, linear or yarn, found longrope"));
    /* Gemma: five to one, or as the file says */
    static const pair gemma[] = {{"attention.sliding_window", 8, NULL}, {"rope.freq_base_swa", 20000.5, NULL}, {"attention.sliding_window_pattern", 3, NULL}};
    assert_int_equal(gguf_config("gemma3", gemma, 1, &c, message), OCHRE_OK);
    for (int l = 0; l < 12; l++) assert_int_equal(och_config_window(&c, l), l % 6 == 5 ? 0 : 8);
    assert_true(c.rope_sliding.base == 10000.0);
    assert_int_equal(gguf_config("gemma3", gemma, 3, &c, message), OCHRE_OK);
    for (int l = 0; l < 12; l++) assert_int_equal(och_config_window(&c, l), l % 3 == 2 ? 0 : 8);
    assert_true(c.rope_sliding.base == 20000.5);
    assert_int_equal(gguf_config("gemma3", (pair[]){{"attention.sliding_window_pattern", 0, NULL}}, 1, &c, message), OCHRE_RANGE);
    assert_int_equal(gguf_config("gemma3", (pair[]){{"final_logit_softcapping", 30.5, NULL}}, 1, &c, message), OCHRE_UNSUPPORTED);
}

/* A whole model of one layer as a GGUF, every value 0.125 but the rotary divisors. */
static void put_model(float divisor, uint32_t window) {
    static const struct {
        const char *name;
        uint64_t cols, rows; /* 0: a vector */
    } tensors[] = {{"token_embd.weight", 8, 16}, {"output_norm.weight", 8, 0}, {"rope_freqs.weight", 2, 0}, {"blk.0.attn_norm.weight", 8, 0},
                   {"blk.0.attn_q.weight", 8, 8}, {"blk.0.attn_k.weight", 8, 8}, {"blk.0.attn_v.weight", 8, 8},
                   {"blk.0.attn_output.weight", 8, 8}, {"blk.0.ffn_norm.weight", 8, 0}, {"blk.0.ffn_gate.weight", 8, 12},
                   {"blk.0.ffn_up.weight", 8, 12}, {"blk.0.ffn_down.weight", 12, 8}};
    static const struct {
        const char *key;
        uint32_t value;
    } keys[] = {{"llama.block_count", 1}, {"llama.embedding_length", 8}, {"llama.feed_forward_length", 12},
                {"llama.attention.head_count", 2}, {"llama.context_length", 64}};
    enum { N = sizeof tensors / sizeof *tensors, N_KEYS = sizeof keys / sizeof *keys };
    och_strbuf b;
    och_strbuf_init(&b);
    put_header(&b, 3, N, N_KEYS + 3);
    put_key(&b, "general.architecture", 8);
    put_str(&b, "llama");
    put_key(&b, "llama.attention.layer_norm_rms_epsilon", 6);
    put_f32(&b, 1e-6f);
    put_key(&b, "llama.attention.sliding_window", 4);
    put_u32(&b, window);
    for (int i = 0; i < N_KEYS; i++) {
        put_key(&b, keys[i].key, 4);
        put_u32(&b, keys[i].value);
    }
    uint64_t at = 0;
    for (int i = 0; i < N; i++) {
        built_tensor t = {tensors[i].name, tensors[i].rows ? 2 : 1, {tensors[i].cols, tensors[i].rows}, 0, at};
        put_tensor(&b, &t);
        at += (tensors[i].cols * (tensors[i].rows ? tensors[i].rows : 1) * 4 + 31) / 32 * 32;
    }
    while (b.size % 32) och_strbuf_append(&b, "", 1);
    for (int i = 0; i < N; i++) {
        uint64_t n = tensors[i].cols * (tensors[i].rows ? tensors[i].rows : 1);
        for (uint64_t k = 0; k < (n + 7) / 8 * 8; k++) put_f32(&b, i == 2 ? divisor : 0.125f);
    }
    folder_file("model.gguf", b.data, b.size);
    och_strbuf_deinit(&b);
}

/* rope_freqs.weight divides the frequencies, of layers with a window too; what would make them infinite is refused. */
static void rotary_divisors(void **state) {
    (void)state;
    ochre_error error;
    char path[128];
    folder_make("tiny-llama", NULL, NULL); /* for the folder */
    snprintf(path, sizeof path, "%s/model.gguf", folder_path);
    ochre_model *m;
    for (uint32_t window = 0; window <= 8; window += 8) {
        put_model(2.0f, window);
        MUST(ochre_model_open(path, NULL, &m, &error));
        ochre_session *s = open_session(m, 1, 16, 16, 1, false);
        assert_true(och_api_session(s)->rope[window > 0].inv_freq[0] == 0.5f);
        ochre_session_destroy(s);
        ochre_model_close(m);
    }
    static const float bad[] = {0.0f, -1.0f, 1e-30f};
    for (int i = 0; i < 3; i++) {
        put_model(bad[i], 0);
        assert_int_equal(ochre_model_open(path, NULL, &m, &error), OCHRE_RANGE);
        assert_non_null(strstr(error.message, "tensor rope_freqs.weight, element 0: expected 1e-6 to 1e+06, found"));
    }
    folder_remove();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_out_of_range), cmocka_unit_test(missing_keys), cmocka_unit_test(qwen_windows),
        cmocka_unit_test(gemma_defaults), cmocka_unit_test(gguf_scalings), cmocka_unit_test(rotary_divisors),
        cmocka_unit_test(tensors_of_another_shape), cmocka_unit_test(weights_that_are_no_numbers),
        cmocka_unit_test(values_that_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
