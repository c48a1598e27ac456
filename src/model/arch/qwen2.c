/* Qwen2: biases on q, k and v. Yang et al. 2024, "Qwen2 Technical Report". */
#include "model/layer/layer.h"

static const och_tensor_name tensors[] = {OCH_TENSORS_DECODER, OCH_TENSORS_FFN_NORM, OCH_TENSORS_QKV_BIAS(true)};

static const char *const gguf_names[] = {"qwen2", NULL};
static const char *const hf_names[] = {"Qwen2ForCausalLM", NULL};
extern const och_arch och_arch_qwen2;
const och_arch och_arch_qwen2 = {"qwen2", gguf_names, hf_names, tensors, sizeof tensors / sizeof *tensors,
                                 och_config_read_gguf, och_config_read_hf, och_layer_decoder};
