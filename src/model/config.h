/* A model's shape and constants, read from a GGUF file or a Hugging Face config.json, checked before anything is built. */
#ifndef OCH_MODEL_CONFIG_H
#define OCH_MODEL_CONFIG_H

#include "base/status.h"
#include "file/gguf.h"
#include "file/json.h"
#include "op/op.h"

#define OCH_MAX_LAYERS 512
#define OCH_MAX_ROPE_DIM 512

typedef enum och_rope_scaling { OCH_ROPE_PLAIN, OCH_ROPE_LINEAR, OCH_ROPE_LLAMA3, OCH_ROPE_YARN } och_rope_scaling;

typedef struct och_rope_config {
    double base;
    int dim; /* rotated elements of a head, even */
    och_rope_style style;
    och_rope_scaling scaling;
    double factor;                       /* LINEAR, LLAMA3, YARN */
    double low_freq_factor, high_freq_factor; /* LLAMA3 */
    double beta_fast, beta_slow;         /* YARN */
    double attention_factor;             /* YARN: magnitude of the table; 0: 0.1 ln(factor) + 1 */
    int original_context;                /* LLAMA3, YARN */
    bool truncate;                       /* YARN: correction range rounded outwards to whole dimensions */
} och_rope_config;

typedef struct och_config {
    char name[128]; /* general.name, or "" */
    int n_layers, d_model, n_heads, n_kv_heads, head_dim, d_ff, n_vocab, context_length;
    double norm_eps;
    bool norm_add_one;  /* the file stores w, the norm multiplies by 1 + w */
    bool qk_norm_whole; /* norms of q and k go over all heads at once, not over each */
    float embed_scale; /* 1: none */
    float attn_scale;
    och_act act;
    int window;                        /* sliding layers; 0: there are none */
    bool sliding[OCH_MAX_LAYERS];      /* layers that see only the window */
    och_rope_config rope, rope_sliding; /* of full and of sliding layers */
} och_config;

/* Reads what all architectures share; `arch` is the key prefix in a GGUF ("llama"). Vocabulary size is that of the
 * embedding matrix. A value that is absent and has no default is NOTFOUND, naming the key. */
och_status och_config_read_gguf(const och_gguf *g, const char *arch, och_config *out_config, och_err *err) OCH_WARN_UNUSED;
/* The same from config.json; `prefix` is "" or "text_config.". */
och_status och_config_read_hf(const och_json *j, const char *prefix, och_config *out_config, och_err *err) OCH_WARN_UNUSED;
/* One rotary embedding from config.json: `scope` names an object with rope_theta and the scaling's fields ("" for the
 * old form, with rope_theta and rope_scaling at the top). */
och_status och_config_read_hf_rope(const och_json *j, const char *prefix, const char *scope, och_rope_config *inout_rope,
                                   och_err *err) OCH_WARN_UNUSED;
/* Ranges and divisibility; RANGE, naming the value. `where` is the file. */
och_status och_config_check(const och_config *c, const char *where, och_err *err) OCH_WARN_UNUSED;

/* Window of a layer, 0 for a full one. */
static inline int och_config_window(const och_config *c, int layer) { return c->sliding[layer] ? c->window : 0; }

#endif
