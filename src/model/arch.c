#include "model/arch.h"

#include <string.h>

#define OCH_ARCH(symbol) extern const och_arch symbol;
#include "model/arch.def"
#undef OCH_ARCH

static const och_arch *const rows[] = {
#define OCH_ARCH(symbol) &symbol,
#include "model/arch.def"
#undef OCH_ARCH
};

int och_arch_count(void) { return (int)(sizeof rows / sizeof *rows); }
const och_arch *och_arch_at(int i) { return rows[i]; }

static bool listed(const char *const *names, const char *name) {
    for (; *names; names++)
        if (!strcmp(*names, name)) return true;
    return false;
}

const och_arch *och_arch_find_gguf(const char *name) {
    for (int i = 0; i < och_arch_count(); i++)
        if (listed(rows[i]->gguf_names, name)) return rows[i];
    return NULL;
}

const och_arch *och_arch_find_hf(const char *name) {
    for (int i = 0; i < och_arch_count(); i++)
        if (listed(rows[i]->hf_names, name)) return rows[i];
    return NULL;
}

static const struct {
    const char *name;
    och_use use;
} roles[OCH_ROLE_COUNT_] = {
    [OCH_ROLE_EMBED] = {"embed", OCH_USE_EMBED},
    [OCH_ROLE_OUTPUT_NORM] = {"output_norm", OCH_USE_VECTOR},
    [OCH_ROLE_OUTPUT] = {"output", OCH_USE_LINEAR},
    [OCH_ROLE_ROPE_FACTORS] = {"rope_factors", OCH_USE_VECTOR},
    [OCH_ROLE_ATTN_NORM] = {"attn_norm", OCH_USE_VECTOR},
    [OCH_ROLE_Q] = {"q", OCH_USE_LINEAR},
    [OCH_ROLE_K] = {"k", OCH_USE_LINEAR},
    [OCH_ROLE_V] = {"v", OCH_USE_LINEAR},
    [OCH_ROLE_O] = {"o", OCH_USE_LINEAR},
    [OCH_ROLE_Q_BIAS] = {"q_bias", OCH_USE_VECTOR},
    [OCH_ROLE_K_BIAS] = {"k_bias", OCH_USE_VECTOR},
    [OCH_ROLE_V_BIAS] = {"v_bias", OCH_USE_VECTOR},
    [OCH_ROLE_O_BIAS] = {"o_bias", OCH_USE_VECTOR},
    [OCH_ROLE_Q_NORM] = {"q_norm", OCH_USE_VECTOR},
    [OCH_ROLE_K_NORM] = {"k_norm", OCH_USE_VECTOR},
    [OCH_ROLE_POST_ATTN_NORM] = {"post_attn_norm", OCH_USE_VECTOR},
    [OCH_ROLE_FFN_NORM] = {"ffn_norm", OCH_USE_VECTOR},
    [OCH_ROLE_GATE] = {"gate", OCH_USE_LINEAR},
    [OCH_ROLE_UP] = {"up", OCH_USE_LINEAR},
    [OCH_ROLE_DOWN] = {"down", OCH_USE_LINEAR},
    [OCH_ROLE_POST_FFN_NORM] = {"post_ffn_norm", OCH_USE_VECTOR},
};

const char *och_role_name(och_role r) { return roles[r].name; }
och_use och_role_use(och_role r) { return roles[r].use; }

void och_role_shape(const och_config *c, och_role r, int64_t *out_rows, int64_t *out_cols) {
    int64_t d = c->d_model, q = (int64_t)c->n_heads * c->head_dim, kv = (int64_t)c->n_kv_heads * c->head_dim;
    int64_t rows_ = 1, cols = d;
    switch (r) {
    case OCH_ROLE_EMBED:
    case OCH_ROLE_OUTPUT: rows_ = c->n_vocab; break;
    case OCH_ROLE_ROPE_FACTORS: cols = c->rope.dim / 2; break;
    case OCH_ROLE_Q: rows_ = q; break;
    case OCH_ROLE_K:
    case OCH_ROLE_V: rows_ = kv; break;
    case OCH_ROLE_O: rows_ = d, cols = q; break;
    case OCH_ROLE_Q_BIAS: cols = q; break;
    case OCH_ROLE_K_BIAS:
    case OCH_ROLE_V_BIAS: cols = kv; break;
    case OCH_ROLE_Q_NORM: cols = c->qk_norm_whole ? q : c->head_dim; break;
    case OCH_ROLE_K_NORM: cols = c->qk_norm_whole ? kv : c->head_dim; break;
    case OCH_ROLE_GATE:
    case OCH_ROLE_UP: rows_ = c->d_ff; break;
    case OCH_ROLE_DOWN: rows_ = d, cols = c->d_ff; break;
    case OCH_ROLE_OUTPUT_NORM:
    case OCH_ROLE_ATTN_NORM:
    case OCH_ROLE_O_BIAS:
    case OCH_ROLE_POST_ATTN_NORM:
    case OCH_ROLE_FFN_NORM:
    case OCH_ROLE_POST_FFN_NORM:
    case OCH_ROLE_COUNT_: break;
    }
    *out_rows = rows_;
    *out_cols = cols;
}
