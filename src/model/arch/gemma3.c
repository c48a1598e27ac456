/* Gemma 3 (text): norms before and after each block, GeGLU, norms on q and k, five sliding layers to one full one, each
 * kind with its own rotary base, embeddings scaled by sqrt(d_model). Gemma Team 2025, "Gemma 3 Technical Report". */
#include "model/layer/layer.h"

#include <math.h>

static const och_tensor_name tensors[] = {
    OCH_TENSORS_DECODER, OCH_TENSORS_QK_NORM,
    {OCH_ROLE_POST_ATTN_NORM, true, "blk.%d.post_attention_norm.weight", "model.layers.%d.post_attention_layernorm.weight"},
    {OCH_ROLE_FFN_NORM, true, "blk.%d.ffn_norm.weight", "model.layers.%d.pre_feedforward_layernorm.weight"},
    {OCH_ROLE_POST_FFN_NORM, true, "blk.%d.post_ffw_norm.weight", "model.layers.%d.post_feedforward_layernorm.weight"},
};

#define FULL_EVERY 6 /* layers 5, 11, ... see everything */
#define SLIDING_BASE 10000.0

static och_status pattern(och_config *c, uint64_t period, const char *where, const char *key, och_err *err) {
    if (period < 1 || period > OCH_MAX_LAYERS)
        return och_err_set(err, OCH_RANGE, "%s: %s: expected 1 to %d, found %llu", where, key, OCH_MAX_LAYERS, (unsigned long long)period);
    for (int l = 0; l < c->n_layers && l < OCH_MAX_LAYERS; l++) c->sliding[l] = c->window > 0 && (l + 1) % (int)period != 0;
    return OCH_OK;
}

static och_status config_gguf(const och_gguf *g, const char *gguf_name, och_config *c, och_err *err) {
    char key[160];
    uint64_t period = FULL_EVERY;
    double softcap = 0.0;
    OCH_TRY(och_config_read_gguf(g, gguf_name, c, err));
    c->embed_scale = sqrtf((float)c->d_model);
    c->act = OCH_ACT_GELU_TANH;
    snprintf(key, sizeof key, "%s.final_logit_softcapping", gguf_name);
    OCH_TRY(och_gguf_get_f64(g, key, false, &softcap, err));
    if (softcap != 0.0)
        return och_err_set(err, OCH_UNSUPPORTED, "%s: key %s: expected none, found %g", och_gguf_path(g), key, softcap);
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", gguf_name);
    OCH_TRY(och_gguf_get_u64(g, key, false, &period, err));
    OCH_TRY(pattern(c, period, och_gguf_path(g), key, err));
    /* The file's weights of norms hold the 1 already; that sliding layers are not scaled is implied by the architecture. The
     * 27B model alone divides by d_model / n_heads instead of head_dim, also implied. */
    c->rope_sliding.base = SLIDING_BASE;
    c->rope_sliding.scaling = OCH_ROPE_PLAIN;
    snprintf(key, sizeof key, "%s.rope.freq_base_swa", gguf_name);
    OCH_TRY(och_gguf_get_f64(g, key, false, &c->rope_sliding.base, err));
    if (c->n_layers == 62) c->attn_scale = 1.0f / sqrtf((float)c->d_model / (float)c->n_heads);
    return OCH_OK;
}

static och_status config_hf(const och_json *j, const char *prefix, och_config *c, och_err *err) {
    char path[160];
    OCH_TRY(och_config_read_hf(j, prefix, c, err));
    c->norm_add_one = true;
    c->embed_scale = sqrtf((float)c->d_model);
    double scalar = c->head_dim;
    snprintf(path, sizeof path, "%squery_pre_attn_scalar", prefix);
    OCH_TRY(och_json_get_f64(j, path, false, &scalar, err));
    if (!(scalar > 0.0)) return och_err_set(err, OCH_RANGE, "%s: %s: expected a positive number, found %g", j->name, path, scalar);
    c->attn_scale = (float)(1.0 / sqrt(scalar));
    snprintf(path, sizeof path, "%srope_parameters.sliding_attention", prefix);
    if (!och_json_find(j, path)) { /* the old form */
        c->rope_sliding.scaling = OCH_ROPE_PLAIN;
        c->rope_sliding.base = SLIDING_BASE;
        snprintf(path, sizeof path, "%srope_local_base_freq", prefix);
        OCH_TRY(och_json_get_f64(j, path, false, &c->rope_sliding.base, err));
    }
    /* Gemma's configuration leaves out what is as in its class; these two have another default than Llama's. */
    snprintf(path, sizeof path, "%srope_theta", prefix);
    if (!och_json_find(j, path)) {
        snprintf(path, sizeof path, "%srope_parameters", prefix);
        if (!json_is_object(och_json_find(j, path))) c->rope.base = 1e6;
    }
    snprintf(path, sizeof path, "%shidden_activation", prefix);
    if (!och_json_find(j, path)) c->act = OCH_ACT_GELU_TANH;
    static const char *const caps[] = {"final_logit_softcapping", "attn_logit_softcapping"};
    for (int i = 0; i < 2; i++) {
        double cap = 0.0;
        snprintf(path, sizeof path, "%s%s", prefix, caps[i]);
        OCH_TRY(och_json_get_f64(j, path, false, &cap, err));
        if (cap != 0.0) return och_err_set(err, OCH_UNSUPPORTED, "%s: %s: expected null, found %g", j->name, path, cap);
    }
    snprintf(path, sizeof path, "%slayer_types", prefix);
    if (!och_json_find(j, path)) {
        uint64_t period = FULL_EVERY;
        snprintf(path, sizeof path, "%ssliding_window_pattern", prefix);
        OCH_TRY(och_json_get_u64(j, path, false, &period, err));
        OCH_TRY(pattern(c, period, j->name, path, err));
    }
    return OCH_OK;
}

static void build(och_builder *b) {
    och_plan_ref x = och_layer_embed(b);
    for (int l = 0; l < b->config->n_layers; l++) {
        b->plan->layer = l;
        och_plan_ref a = och_layer_attention(b, och_layer_norm(b, x, OCH_ROLE_ATTN_NORM));
        a = och_layer_outputs(b, a);
        x = och_layer_outputs(b, x);
        a = och_layer_norm(b, och_layer_linear(b, a, OCH_ROLE_O, OCH_ROLE_COUNT_), OCH_ROLE_POST_ATTN_NORM);
        x = och_layer_add(b, x, a);
        och_plan_ref m = och_layer_mlp(b, och_layer_norm(b, x, OCH_ROLE_FFN_NORM));
        x = och_layer_add(b, x, och_layer_norm(b, m, OCH_ROLE_POST_FFN_NORM));
    }
    och_layer_head(b, x);
}

static const char *const gguf_names[] = {"gemma3", NULL};
static const char *const hf_names[] = {"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration", NULL};
extern const och_arch och_arch_gemma3;
const och_arch och_arch_gemma3 = {"gemma3", gguf_names, hf_names, tensors, sizeof tensors / sizeof *tensors,
                                  config_gguf, config_hf, build};
