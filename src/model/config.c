#include "model/config.h"

#include "base/size.h"
#include "model/rope.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static och_status get_int(const och_gguf *g, const char *arch, const char *key, bool required, int *inout_v, och_err *err) {
    char full[160];
    snprintf(full, sizeof full, "%s.%s", arch, key);
    uint64_t v = (uint64_t)*inout_v;
    OCH_TRY(och_gguf_get_u64(g, full, required, &v, err));
    if (v > INT32_MAX)
        return och_err_set(err, OCH_RANGE, "%s: key %s: expected at most %d, found %llu", och_gguf_path(g), full, INT32_MAX,
                           (unsigned long long)v);
    *inout_v = (int)v;
    return OCH_OK;
}

static och_status get_f64(const och_gguf *g, const char *arch, const char *key, bool required, double *inout_v, och_err *err) {
    char full[160];
    snprintf(full, sizeof full, "%s.%s", arch, key);
    return och_gguf_get_f64(g, full, required, inout_v, err);
}

static och_status gguf_rope(const och_gguf *g, const char *arch, och_rope_config *r, och_err *err) {
    char key[160];
    const char *kind = "linear"; /* as llama.cpp reads a file that names a factor alone */
    double attn_factor = 1.0;
    OCH_TRY(get_f64(g, arch, "rope.freq_base", false, &r->base, err));
    OCH_TRY(get_int(g, arch, "rope.dimension_count", false, &r->dim, err));
    snprintf(key, sizeof key, "%s.rope.scaling.type", arch);
    OCH_TRY(och_gguf_get_str(g, key, false, &kind, err));
    OCH_TRY(get_f64(g, arch, "rope.scale_linear", false, &r->factor, err)); /* the old name */
    OCH_TRY(get_f64(g, arch, "rope.scaling.factor", false, &r->factor, err));
    if (r->factor == 0.0) r->factor = 1.0;
    OCH_TRY(get_int(g, arch, "rope.scaling.original_context_length", false, &r->original_context, err));
    if (!strcmp(kind, "linear")) r->scaling = r->factor == 1.0 ? OCH_ROPE_PLAIN : OCH_ROPE_LINEAR;
    else if (!strcmp(kind, "yarn")) {
        r->scaling = OCH_ROPE_YARN;
        /* One replaces the magnitude that the factor implies (Hugging Face's attention_factor), the other multiplies it. */
        OCH_TRY(get_f64(g, arch, "rope.scaling.yarn_attn_factor", false, &r->attention_factor, err));
        OCH_TRY(get_f64(g, arch, "rope.scaling.attn_factor", false, &attn_factor, err));
        if (!(r->attention_factor > 0.0)) r->attention_factor = och_rope_yarn_magnitude(r->factor);
        r->attention_factor *= attn_factor;
        OCH_TRY(get_f64(g, arch, "rope.scaling.yarn_beta_fast", false, &r->beta_fast, err));
        OCH_TRY(get_f64(g, arch, "rope.scaling.yarn_beta_slow", false, &r->beta_slow, err));
    } else if (strcmp(kind, "none") != 0)
        return och_err_set(err, OCH_UNSUPPORTED, "%s: key %s: expected none, linear or yarn, found %s", och_gguf_path(g), key, kind);
    return OCH_OK;
}

static void defaults(och_config *c) {
    memset(c, 0, sizeof *c);
    c->embed_scale = 1.0f;
    c->act = OCH_ACT_SILU;
    c->norm_eps = 1e-6;
    c->rope = (och_rope_config){.base = 10000.0, .style = OCH_ROPE_HALF, .factor = 1.0, .low_freq_factor = 1.0,
                                .high_freq_factor = 4.0, .beta_fast = 32.0, .beta_slow = 1.0, .truncate = true};
}

/* After head_dim is known. */
static void finish(och_config *c) {
    if (c->attn_scale == 0.0f && c->head_dim > 0) c->attn_scale = (float)(1.0 / sqrt((double)c->head_dim));
    c->rope_sliding = c->rope;
    if (c->window > 0)
        for (int l = 0; l < c->n_layers && l < OCH_MAX_LAYERS; l++) c->sliding[l] = true;
}

och_status och_config_read_gguf(const och_gguf *g, const char *arch, och_config *c, och_err *err) {
    defaults(c);
    const char *name = "";
    OCH_TRY(och_gguf_get_str(g, "general.name", false, &name, err));
    snprintf(c->name, sizeof c->name, "%s", name);
    OCH_TRY(get_int(g, arch, "block_count", true, &c->n_layers, err));
    OCH_TRY(get_int(g, arch, "embedding_length", true, &c->d_model, err));
    OCH_TRY(get_int(g, arch, "feed_forward_length", true, &c->d_ff, err));
    OCH_TRY(get_int(g, arch, "attention.head_count", true, &c->n_heads, err));
    c->n_kv_heads = c->n_heads;
    OCH_TRY(get_int(g, arch, "attention.head_count_kv", false, &c->n_kv_heads, err));
    OCH_TRY(get_int(g, arch, "context_length", true, &c->context_length, err));
    OCH_TRY(get_f64(g, arch, "attention.layer_norm_rms_epsilon", true, &c->norm_eps, err));
    c->head_dim = c->n_heads > 0 ? c->d_model / c->n_heads : 0;
    OCH_TRY(get_int(g, arch, "attention.key_length", false, &c->head_dim, err));
    int value_length = c->head_dim;
    OCH_TRY(get_int(g, arch, "attention.value_length", false, &value_length, err));
    if (value_length != c->head_dim)
        return och_err_set(err, OCH_UNSUPPORTED, "%s: expected equal key and value lengths, found %d and %d", och_gguf_path(g),
                           c->head_dim, value_length);
    OCH_TRY(get_int(g, arch, "attention.sliding_window", false, &c->window, err));
    double scale = 0.0;
    OCH_TRY(get_f64(g, arch, "attention.scale", false, &scale, err));
    c->attn_scale = (float)scale;
    c->rope.dim = c->head_dim;
    c->rope.original_context = c->context_length;
    OCH_TRY(gguf_rope(g, arch, &c->rope, err));
    const och_file_tensor *embed = och_gguf_find_tensor(g, "token_embd.weight");
    if (!embed) return och_err_set(err, OCH_NOTFOUND, "%s: expected a tensor token_embd.weight, found none", och_gguf_path(g));
    if (embed->rank != 2 || embed->shape[0] > INT32_MAX)
        return och_err_set(err, OCH_RANGE, "%s: token_embd.weight: expected a matrix of at most 2^31 - 1 rows", och_gguf_path(g));
    c->n_vocab = (int)embed->shape[0];
    finish(c);
    return OCH_OK;
}

static och_status hf_int(const och_json *j, const char *prefix, const char *key, bool required, int *inout_v, och_err *err) {
    char path[160];
    snprintf(path, sizeof path, "%s%s", prefix, key);
    uint64_t v = (uint64_t)*inout_v;
    OCH_TRY(och_json_get_u64(j, path, required, &v, err));
    if (v > INT32_MAX)
        return och_err_set(err, OCH_RANGE, "%s: %s: expected at most %d, found %llu", j->name, path, INT32_MAX,
                           (unsigned long long)v);
    *inout_v = (int)v;
    return OCH_OK;
}

static och_status hf_f64(const och_json *j, const char *prefix, const char *key, bool required, double *inout_v, och_err *err) {
    char path[200];
    snprintf(path, sizeof path, "%s%s", prefix, key);
    return och_json_get_f64(j, path, required, inout_v, err);
}

och_status och_config_read_hf_rope(const och_json *j, const char *prefix, const char *scope, och_rope_config *r, och_err *err) {
    char at[160], path[200];
    const char *kind = "default";
    bool old_form = !scope[0];
    json_t *object;
    OCH_TRY(hf_f64(j, prefix, old_form ? "rope_theta" : "", false, &r->base, err));
    snprintf(at, sizeof at, "%s%s", prefix, old_form ? "rope_scaling" : scope);
    OCH_TRY(och_json_get_object(j, at, false, &object, err));
    snprintf(at, sizeof at, "%s%s.", prefix, old_form ? "rope_scaling" : scope);
    if (!old_form) OCH_TRY(hf_f64(j, at, "rope_theta", false, &r->base, err));
    snprintf(path, sizeof path, "%stype", at);
    OCH_TRY(och_json_get_str(j, path, false, &kind, err));
    snprintf(path, sizeof path, "%srope_type", at);
    OCH_TRY(och_json_get_str(j, path, false, &kind, err));
    if (!strcmp(kind, "default") || !strcmp(kind, "none")) return OCH_OK;
    OCH_TRY(hf_f64(j, at, "factor", true, &r->factor, err));
    OCH_TRY(hf_int(j, at, "original_max_position_embeddings", false, &r->original_context, err));
    if (!strcmp(kind, "linear")) r->scaling = OCH_ROPE_LINEAR;
    else if (!strcmp(kind, "llama3")) {
        r->scaling = OCH_ROPE_LLAMA3;
        OCH_TRY(hf_f64(j, at, "low_freq_factor", true, &r->low_freq_factor, err));
        OCH_TRY(hf_f64(j, at, "high_freq_factor", true, &r->high_freq_factor, err));
        if (!r->original_context)
            return och_err_set(err, OCH_NOTFOUND, "%s: %soriginal_max_position_embeddings: expected a number, found none", j->name, at);
    } else if (!strcmp(kind, "yarn")) {
        r->scaling = OCH_ROPE_YARN;
        OCH_TRY(hf_f64(j, at, "beta_fast", false, &r->beta_fast, err));
        OCH_TRY(hf_f64(j, at, "beta_slow", false, &r->beta_slow, err));
        OCH_TRY(hf_f64(j, at, "attention_factor", false, &r->attention_factor, err));
        snprintf(path, sizeof path, "%struncate", at);
        OCH_TRY(och_json_get_bool(j, path, false, &r->truncate, err));
        snprintf(path, sizeof path, "%smscale", at);
        if (och_json_find(j, path))
            return och_err_set(err, OCH_UNSUPPORTED, "%s: %s: expected yarn without mscale, found one", j->name, path);
    } else
        return och_err_set(err, OCH_UNSUPPORTED, "%s: %srope_type: expected default, linear, llama3 or yarn, found %s", j->name,
                           at, kind);
    return OCH_OK;
}

static och_status hf_layer_types(const och_json *j, const char *prefix, och_config *c, och_err *err) {
    char path[160];
    json_t *types;
    snprintf(path, sizeof path, "%slayer_types", prefix);
    OCH_TRY(och_json_get_array(j, path, false, &types, err));
    if (!types) return OCH_OK;
    if (json_array_size(types) != (size_t)c->n_layers)
        return och_err_set(err, OCH_CORRUPT, "%s: %s: expected %d entries, found %zu", j->name, path, c->n_layers,
                           json_array_size(types));
    for (int l = 0; l < c->n_layers; l++) {
        const char *t = json_string_value(json_array_get(types, (size_t)l));
        if (!t || (strcmp(t, "full_attention") && strcmp(t, "sliding_attention")))
            return och_err_set(err, OCH_UNSUPPORTED, "%s: %s.%d: expected full_attention or sliding_attention, found %s", j->name,
                               path, l, t ? t : "no string");
        c->sliding[l] = c->window > 0 && !strcmp(t, "sliding_attention");
    }
    return OCH_OK;
}

och_status och_config_read_hf(const och_json *j, const char *prefix, och_config *c, och_err *err) {
    defaults(c);
    char path[160];
    OCH_TRY(hf_int(j, prefix, "num_hidden_layers", true, &c->n_layers, err));
    OCH_TRY(hf_int(j, prefix, "hidden_size", true, &c->d_model, err));
    OCH_TRY(hf_int(j, prefix, "intermediate_size", true, &c->d_ff, err));
    OCH_TRY(hf_int(j, prefix, "num_attention_heads", true, &c->n_heads, err));
    c->n_kv_heads = c->n_heads;
    OCH_TRY(hf_int(j, prefix, "num_key_value_heads", false, &c->n_kv_heads, err));
    OCH_TRY(hf_int(j, prefix, "vocab_size", true, &c->n_vocab, err));
    OCH_TRY(hf_int(j, prefix, "max_position_embeddings", true, &c->context_length, err));
    OCH_TRY(hf_f64(j, prefix, "rms_norm_eps", false, &c->norm_eps, err));
    c->head_dim = c->n_heads > 0 ? c->d_model / c->n_heads : 0;
    OCH_TRY(hf_int(j, prefix, "head_dim", false, &c->head_dim, err));
    OCH_TRY(hf_int(j, prefix, "sliding_window", false, &c->window, err));
    /* Qwen writes a window, whether it counts (unsaid: no), and from which layer on. */
    int full_layers = 0;
    OCH_TRY(hf_int(j, prefix, "max_window_layers", false, &full_layers, err));
    snprintf(path, sizeof path, "%smax_window_layers", prefix);
    bool use_window = !och_json_find(j, path);
    snprintf(path, sizeof path, "%suse_sliding_window", prefix);
    OCH_TRY(och_json_get_bool(j, path, false, &use_window, err));
    if (!use_window) c->window = 0;
    if (c->n_layers < 1 || c->n_layers > OCH_MAX_LAYERS)
        return och_err_set(err, OCH_RANGE, "%s: num_hidden_layers: expected 1 to %d, found %d", j->name, OCH_MAX_LAYERS, c->n_layers);
    snprintf(path, sizeof path, "%srope_parameters", prefix);
    json_t *parameters;
    OCH_TRY(och_json_get_object(j, path, false, &parameters, err));
    bool by_layer_type = json_is_object(json_object_get(parameters, "full_attention"));
    OCH_TRY(och_config_read_hf_rope(j, prefix, !parameters ? "" : by_layer_type
                                    ? "rope_parameters.full_attention" : "rope_parameters", &c->rope, err));
    double partial = 1.0;
    OCH_TRY(hf_f64(j, prefix, "partial_rotary_factor", false, &partial, err));
    if (!(partial > 0.0) || partial > 1.0)
        return och_err_set(err, OCH_RANGE, "%s: %spartial_rotary_factor: expected above 0 and at most 1, found %g", j->name, prefix, partial);
    c->rope.dim = (int)((double)c->head_dim * partial);
    if (c->rope.scaling == OCH_ROPE_YARN && !c->rope.original_context) c->rope.original_context = c->context_length;
    finish(c);
    if (by_layer_type) {
        c->rope_sliding.scaling = OCH_ROPE_PLAIN;
        OCH_TRY(och_config_read_hf_rope(j, prefix, "rope_parameters.sliding_attention", &c->rope_sliding, err));
    }
    for (int l = 0; l < c->n_layers && l < full_layers; l++) c->sliding[l] = false;
    OCH_TRY(hf_layer_types(j, prefix, c, err));
    static const struct { const char *name; och_act act; } acts[] = {
        {"silu", OCH_ACT_SILU}, {"swish", OCH_ACT_SILU}, {"gelu_pytorch_tanh", OCH_ACT_GELU_TANH},
        {"gelu_tanh", OCH_ACT_GELU_TANH}, {"gelu_new", OCH_ACT_GELU_TANH}, {"gelu", OCH_ACT_GELU_ERF}};
    const char *act = "silu";
    snprintf(path, sizeof path, "%shidden_act", prefix);
    OCH_TRY(och_json_get_str(j, path, false, &act, err));
    snprintf(path, sizeof path, "%shidden_activation", prefix);
    OCH_TRY(och_json_get_str(j, path, false, &act, err));
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        if (!strcmp(acts[i].name, act)) {
            c->act = acts[i].act;
            return OCH_OK;
        }
    return och_err_set(err, OCH_UNSUPPORTED, "%s: hidden_act: expected silu, gelu or gelu_pytorch_tanh, found %s", j->name, act);
}

static och_status in_range(const char *where, const char *what, long long v, long long lo, long long hi, och_err *err) {
    if (v >= lo && v <= hi) return OCH_OK;
    return och_err_set(err, OCH_RANGE, "%s: %s: expected %lld to %lld, found %lld", where, what, lo, hi, v);
}

static och_status real_in_range(const char *where, const char *what, double v, double lo, double hi, och_err *err) {
    if (v >= lo && v <= hi) return OCH_OK;
    return och_err_set(err, OCH_RANGE, "%s: %s: expected %g to %g, found %g", where, what, lo, hi, v);
}

/* Bounds far around what models use, within which no frequency is infinite or NaN. */
static och_status check_rope(const och_rope_config *r, const char *where, och_err *err) {
    OCH_TRY(real_in_range(where, "rotary base", r->base, 1.0 + 1e-3, 1e15, err));
    if (r->scaling == OCH_ROPE_PLAIN) return OCH_OK;
    OCH_TRY(real_in_range(where, "rotary scaling factor", r->factor, 1e-3, 1e6, err));
    if (r->scaling == OCH_ROPE_LINEAR) return OCH_OK;
    OCH_TRY(in_range(where, "original context length of the rotary scaling", r->original_context, 1, 1 << 28, err));
    if (r->scaling == OCH_ROPE_LLAMA3) {
        OCH_TRY(real_in_range(where, "low frequency factor of the rotary scaling", r->low_freq_factor, 1e-3, 1e6, err));
        OCH_TRY(real_in_range(where, "high frequency factor of the rotary scaling", r->high_freq_factor, 1e-3, 1e6, err));
        if (!(r->high_freq_factor > r->low_freq_factor))
            return och_err_set(err, OCH_RANGE, "%s: frequency factors of the rotary scaling: expected the high one above the low one, "
                               "found %g and %g", where, r->high_freq_factor, r->low_freq_factor);
        return OCH_OK;
    }
    OCH_TRY(real_in_range(where, "beta_fast of the rotary scaling", r->beta_fast, 1e-3, 1e6, err));
    OCH_TRY(real_in_range(where, "beta_slow of the rotary scaling", r->beta_slow, 1e-3, 1e6, err));
    return real_in_range(where, "attention factor of the rotary scaling", r->attention_factor, 0.0, 1e3, err);
}

och_status och_config_check(const och_config *c, const char *where, och_err *err) {
    OCH_TRY(in_range(where, "number of layers", c->n_layers, 1, OCH_MAX_LAYERS, err));
    OCH_TRY(in_range(where, "embedding length", c->d_model, 1, 1 << 20, err));
    OCH_TRY(in_range(where, "feed-forward length", c->d_ff, 1, 1 << 24, err));
    OCH_TRY(in_range(where, "number of heads", c->n_heads, 1, 4096, err));
    OCH_TRY(in_range(where, "number of kv heads", c->n_kv_heads, 1, c->n_heads, err));
    OCH_TRY(in_range(where, "head dimension", c->head_dim, 1, 1024, err));
    OCH_TRY(in_range(where, "vocabulary size", c->n_vocab, 1, 1 << 28, err));
    OCH_TRY(in_range(where, "context length", c->context_length, 1, 1 << 28, err));
    OCH_TRY(in_range(where, "rotary dimension", c->rope.dim, 2, OCH_MIN(c->head_dim, OCH_MAX_ROPE_DIM), err));
    OCH_TRY(in_range(where, "sliding window", c->window, 0, 1 << 28, err));
    if (c->n_heads % c->n_kv_heads)
        return och_err_set(err, OCH_RANGE, "%s: expected a number of heads that %d kv heads divide, found %d", where, c->n_kv_heads,
                           c->n_heads);
    if (c->rope.dim % 2) return och_err_set(err, OCH_RANGE, "%s: rotary dimension: expected an even number, found %d", where, c->rope.dim);
    OCH_TRY(check_rope(&c->rope, where, err));
    OCH_TRY(check_rope(&c->rope_sliding, where, err));
    if (!(c->norm_eps >= 0.0) || !(c->norm_eps < 1.0))
        return och_err_set(err, OCH_RANGE, "%s: norm epsilon: expected 0 to 1, found %g", where, c->norm_eps);
    if (!isfinite(c->attn_scale) || !isfinite(c->embed_scale))
        return och_err_set(err, OCH_RANGE, "%s: attention and embedding scale: expected finite numbers", where);
    return OCH_OK;
}
