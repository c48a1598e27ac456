/* The Llama family: Llama 2 and 3, SmolLM2, TinyLlama, Mistral (with its window). Touvron et al. 2023. */
#include "model/layer/layer.h"

static const och_tensor_name tensors[] = {
    OCH_TENSORS_DECODER, OCH_TENSORS_FFN_NORM, OCH_TENSORS_QKV_BIAS(false),
    {OCH_ROLE_O_BIAS, false, "blk.%d.attn_output.bias", "model.layers.%d.self_attn.o_proj.bias"},
    {OCH_ROLE_ROPE_FACTORS, false, "rope_freqs.weight", NULL},
};

static och_status config_gguf(const och_gguf *g, const char *gguf_name, och_config *c, och_err *err) {
    OCH_TRY(och_config_read_gguf(g, gguf_name, c, err));
    /* Files of this family hold q and k with rows permuted for interleaved pairs. */
    c->rope.style = c->rope_sliding.style = OCH_ROPE_INTERLEAVED;
    return OCH_OK;
}

static const char *const gguf_names[] = {"llama", NULL};
static const char *const hf_names[] = {"LlamaForCausalLM", "MistralForCausalLM", NULL};
extern const och_arch och_arch_llama;
const och_arch och_arch_llama = {"llama", gguf_names, hf_names, tensors, sizeof tensors / sizeof *tensors,
                                 config_gguf, och_config_read_hf, och_layer_decoder};
