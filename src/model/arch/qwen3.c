/* Qwen3: RMS norms on the heads of q and k, no biases. Yang et al. 2025, "Qwen3 Technical Report". */
#include "model/layer/layer.h"

static const och_tensor_name tensors[] = {OCH_TENSORS_DECODER, OCH_TENSORS_FFN_NORM, OCH_TENSORS_QK_NORM};

static const char *const gguf_names[] = {"qwen3", NULL};
static const char *const hf_names[] = {"Qwen3ForCausalLM", NULL};
extern const och_arch och_arch_qwen3;
const och_arch och_arch_qwen3 = {"qwen3", gguf_names, hf_names, tensors, sizeof tensors / sizeof *tensors,
                                 och_config_read_gguf, och_config_read_hf, och_layer_decoder};
