/* OLMo 2: norms after each block and none before, norms of q and k over all their heads at once. OLMo Team 2024, "2 OLMo 2
 * Furious". */
#include "model/layer/layer.h"

static const och_tensor_name tensors[] = {
    OCH_TENSORS_BARE, OCH_TENSORS_QK_NORM,
    {OCH_ROLE_POST_ATTN_NORM, true, "blk.%d.post_attention_norm.weight", "model.layers.%d.post_attention_layernorm.weight"},
    {OCH_ROLE_POST_FFN_NORM, true, "blk.%d.post_ffw_norm.weight", "model.layers.%d.post_feedforward_layernorm.weight"},
};

static och_status config_gguf(const och_gguf *g, const char *gguf_name, och_config *c, och_err *err) {
    OCH_TRY(och_config_read_gguf(g, gguf_name, c, err));
    c->qk_norm_whole = true;
    if (c->window) /* OLMo 3 goes by the same name in GGUF: three sliding layers to one full one, which alone is scaled */
        return och_err_set(err, OCH_UNSUPPORTED, "%s: key %s.attention.sliding_window: expected none (OLMo 2), found %d (OLMo 3)",
                           och_gguf_path(g), gguf_name, c->window);
    return OCH_OK;
}

static och_status config_hf(const och_json *j, const char *prefix, och_config *c, och_err *err) {
    char path[160];
    bool bias = false;
    OCH_TRY(och_config_read_hf(j, prefix, c, err));
    c->qk_norm_whole = true;
    snprintf(path, sizeof path, "%sattention_bias", prefix);
    OCH_TRY(och_json_get_bool(j, path, false, &bias, err));
    if (bias) return och_err_set(err, OCH_UNSUPPORTED, "%s: %s: expected false, found true", j->name, path);
    return OCH_OK;
}

static void build(och_builder *b) {
    och_plan_ref x = och_layer_embed(b);
    for (int l = 0; l < b->config->n_layers; l++) {
        b->plan->layer = l;
        och_plan_ref a = och_layer_attention(b, x);
        a = och_layer_outputs(b, a);
        x = och_layer_outputs(b, x);
        a = och_layer_norm(b, och_layer_linear(b, a, OCH_ROLE_O, OCH_ROLE_COUNT_), OCH_ROLE_POST_ATTN_NORM);
        x = och_layer_add(b, x, a);
        x = och_layer_add(b, x, och_layer_norm(b, och_layer_mlp(b, x), OCH_ROLE_POST_FFN_NORM));
    }
    och_layer_head(b, x);
}

static const char *const gguf_names[] = {"olmo2", NULL};
static const char *const hf_names[] = {"Olmo2ForCausalLM", NULL};
extern const och_arch och_arch_olmo2;
const och_arch och_arch_olmo2 = {"olmo2", gguf_names, hf_names, tensors, sizeof tensors / sizeof *tensors,
                                 config_gguf, config_hf, build};
