/* Architectures: a file each in arch/, a row each in arch.def.
 *
 * An architecture says under which names it is known, how its constants are read, which tensors it has, and how a step
 * is built from the shared layers (layer/layer.h). See docs/adding-an-architecture.md. */
#ifndef OCH_MODEL_ARCH_H
#define OCH_MODEL_ARCH_H

#include "model/config.h"
#include "op/plan.h"

typedef struct och_model och_model;

/* What a tensor is for. A role inside a layer occurs once a layer. */
typedef enum och_role {
    OCH_ROLE_EMBED,        /* [n_vocab, d_model] */
    OCH_ROLE_OUTPUT_NORM,  /* [d_model] */
    OCH_ROLE_OUTPUT,       /* [n_vocab, d_model]; absent: the embedding serves (tied) */
    OCH_ROLE_ROPE_FACTORS, /* [rope.dim / 2] */
    OCH_ROLE_ATTN_NORM,    /* [d_model]; the first role of a layer */
    OCH_ROLE_Q,            /* [n_heads * head_dim, d_model] */
    OCH_ROLE_K,            /* [n_kv_heads * head_dim, d_model] */
    OCH_ROLE_V,            /* [n_kv_heads * head_dim, d_model] */
    OCH_ROLE_O,            /* [d_model, n_heads * head_dim] */
    OCH_ROLE_Q_BIAS,
    OCH_ROLE_K_BIAS,
    OCH_ROLE_V_BIAS,
    OCH_ROLE_O_BIAS,
    OCH_ROLE_Q_NORM,         /* [head_dim]; config.qk_norm_whole: [n_heads * head_dim] */
    OCH_ROLE_K_NORM,         /* [head_dim]; config.qk_norm_whole: [n_kv_heads * head_dim] */
    OCH_ROLE_POST_ATTN_NORM, /* [d_model] */
    OCH_ROLE_FFN_NORM,       /* [d_model] */
    OCH_ROLE_GATE,           /* [d_ff, d_model] */
    OCH_ROLE_UP,             /* [d_ff, d_model] */
    OCH_ROLE_DOWN,           /* [d_model, d_ff] */
    OCH_ROLE_POST_FFN_NORM,  /* [d_model] */
    OCH_ROLE_COUNT_
} och_role;

static inline bool och_role_in_layer(och_role r) { return r >= OCH_ROLE_ATTN_NORM; }
const char *och_role_name(och_role r);

/* How a weight is used decides how it is held: vectors as float32, matrices as the provider of the op wants them. */
typedef enum och_use { OCH_USE_VECTOR, OCH_USE_EMBED, OCH_USE_LINEAR } och_use;
och_use och_role_use(och_role r);
/* The shape that the configuration asks for; rows is 1 for a vector. */
void och_role_shape(const och_config *c, och_role r, int64_t *out_rows, int64_t *out_cols);

/* %d in a name stands for the layer. */
typedef struct och_tensor_name {
    och_role role;
    bool required;
    const char *gguf, *hf; /* NULL: not in that kind of file */
} och_tensor_name;

typedef struct och_builder och_builder; /* layer/layer.h */

typedef struct och_arch {
    const char *name;
    const char *const *gguf_names; /* general.architecture; NULL-terminated */
    const char *const *hf_names;   /* config.json, architectures; NULL-terminated */
    const och_tensor_name *tensors;
    int n_tensors;
    och_status (*config_gguf)(const och_gguf *g, const char *gguf_name, och_config *out_config, och_err *err);
    /* prefix: where the language model's constants are, "" or "text_config." */
    och_status (*config_hf)(const och_json *j, const char *prefix, och_config *out_config, och_err *err);
    /* Adds the records of one step; a failed allocation shows in the plan. */
    void (*build)(och_builder *b);
} och_arch;

int och_arch_count(void);
const och_arch *och_arch_at(int i);
/* NULL when unknown. */
const och_arch *och_arch_find_gguf(const char *name);
const och_arch *och_arch_find_hf(const char *name);

/* The names that decoder-only models share; an architecture lists more after them. BARE is without the norm before attention. */
#define OCH_TENSORS_BARE                                                                                               \
    {OCH_ROLE_EMBED, true, "token_embd.weight", "model.embed_tokens.weight"},                                          \
    {OCH_ROLE_OUTPUT_NORM, true, "output_norm.weight", "model.norm.weight"},                                           \
    {OCH_ROLE_OUTPUT, false, "output.weight", "lm_head.weight"},                                                       \
    {OCH_ROLE_Q, true, "blk.%d.attn_q.weight", "model.layers.%d.self_attn.q_proj.weight"},                             \
    {OCH_ROLE_K, true, "blk.%d.attn_k.weight", "model.layers.%d.self_attn.k_proj.weight"},                             \
    {OCH_ROLE_V, true, "blk.%d.attn_v.weight", "model.layers.%d.self_attn.v_proj.weight"},                             \
    {OCH_ROLE_O, true, "blk.%d.attn_output.weight", "model.layers.%d.self_attn.o_proj.weight"},                        \
    {OCH_ROLE_GATE, true, "blk.%d.ffn_gate.weight", "model.layers.%d.mlp.gate_proj.weight"},                           \
    {OCH_ROLE_UP, true, "blk.%d.ffn_up.weight", "model.layers.%d.mlp.up_proj.weight"},                                 \
    {OCH_ROLE_DOWN, true, "blk.%d.ffn_down.weight", "model.layers.%d.mlp.down_proj.weight"}
#define OCH_TENSORS_DECODER                                                                                            \
    OCH_TENSORS_BARE,                                                                                                  \
    {OCH_ROLE_ATTN_NORM, true, "blk.%d.attn_norm.weight", "model.layers.%d.input_layernorm.weight"}
/* The norm before the feed-forward block, where Hugging Face calls it after the attention's. */
#define OCH_TENSORS_FFN_NORM                                                                                           \
    {OCH_ROLE_FFN_NORM, true, "blk.%d.ffn_norm.weight", "model.layers.%d.post_attention_layernorm.weight"}
#define OCH_TENSORS_QKV_BIAS(required)                                                                                 \
    {OCH_ROLE_Q_BIAS, required, "blk.%d.attn_q.bias", "model.layers.%d.self_attn.q_proj.bias"},                        \
    {OCH_ROLE_K_BIAS, required, "blk.%d.attn_k.bias", "model.layers.%d.self_attn.k_proj.bias"},                        \
    {OCH_ROLE_V_BIAS, required, "blk.%d.attn_v.bias", "model.layers.%d.self_attn.v_proj.bias"}
#define OCH_TENSORS_QK_NORM                                                                                            \
    {OCH_ROLE_Q_NORM, true, "blk.%d.attn_q_norm.weight", "model.layers.%d.self_attn.q_norm.weight"},                   \
    {OCH_ROLE_K_NORM, true, "blk.%d.attn_k_norm.weight", "model.layers.%d.self_attn.k_norm.weight"}

#endif
