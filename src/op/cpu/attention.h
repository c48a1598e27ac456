/* What the two variants of attention share: spans of rows, and where keys and values lie. */
#ifndef OCH_OP_CPU_ATTENTION_H
#define OCH_OP_CPU_ATTENTION_H

#include "op/cpu/provider.h"

/* Consecutive rows of one sequence, each one position further. seq < 0: one padding row. */
typedef struct och_cpu_span {
    int64_t row;
    int n_rows, seq, first_position;
} och_cpu_span;

/* The span that begins at `row`, of at most max_rows. */
static inline och_cpu_span och_cpu_span_at(const och_op_call *c, int64_t row, int max_rows) {
    const och_tensor *seqs = &c->in[OCH_ATTENTION_SEQS], *pos = &c->in[OCH_ATTENTION_POSITIONS];
    och_cpu_span s = {row, 1, och_cpu_row_i32(seqs, row), och_cpu_row_i32(pos, row)};
    if (s.seq < 0) return s;
    while (s.n_rows < max_rows && row + s.n_rows < seqs->rows && och_cpu_row_i32(seqs, row + s.n_rows) == s.seq &&
           och_cpu_row_i32(pos, row + s.n_rows) == s.first_position + s.n_rows)
        s.n_rows++;
    return s;
}

/* First position that a query at `position` sees. */
static inline int och_cpu_first_seen(const och_attr_attention *a, int position) {
    return a->window > 0 && position - a->window + 1 > 0 ? position - a->window + 1 : 0;
}

/* Keys [head_dim] x 16, rows block_tokens apart, and values 16 x [head_dim] of positions [p, p + 16); p % 16 == 0. */
static inline void och_cpu_kv_at(const och_op_call *c, int seq, int kv_head, int64_t p, const void **out_k, const void **out_v) {
    const och_attr_kv *kv = &c->attr.attention.kv;
    const och_tensor *kc = &c->in[OCH_ATTENTION_K], *vc = &c->in[OCH_ATTENTION_V], *tables = &c->in[OCH_ATTENTION_TABLES];
    const int32_t *table = (const int32_t *)(const void *)((const char *)tables->host + (uint64_t)seq * tables->row_bytes);
    const int64_t bt = kv->block_tokens, d = kv->head_dim, block = table[p / bt % tables->cols], off = p % bt;
    const size_t elem = och_dtype_get(kc->dtype)->block_bytes;
    *out_k = (const char *)kc->host + (uint64_t)block * kc->row_bytes + (size_t)(kv_head * d * bt + off) * elem;
    *out_v = (const char *)vc->host + (uint64_t)block * vc->row_bytes + (size_t)((kv_head * bt + off) * d) * elem;
}

static inline const float *och_cpu_query(const och_op_call *c, int64_t row, int head) {
    return och_cpu_row(&c->in[OCH_ATTENTION_Q], row) + (int64_t)head * c->attr.attention.kv.head_dim;
}
static inline float *och_cpu_attended(const och_op_call *c, int64_t row, int head) {
    return och_cpu_row(&c->out[0], row) + (int64_t)head * c->attr.attention.kv.head_dim;
}

/* The tile variant (attention_amx.c): whether it takes the call, its scratch, and the run. */
bool och_cpu_attention_amx_serves(const och_device *device, const och_op_call *c);
uint64_t och_cpu_attention_amx_scratch(const och_device *device, const och_op_call *c);
void och_cpu_attention_amx_run(const och_op_ctx *ctx, const och_op_call *c);

/* One head of one row by the plain variant, of a row that is not padding. mem: OCH_CPU_ATTENTION_ONE_FLOATS(head_dim). */
#define OCH_CPU_ATTENTION_ONE_FLOATS(head_dim) ((size_t)(2 * OCH_CPU_ATTN_UNITS) * (size_t)(head_dim))
void och_cpu_attention_one(const och_op_call *c, const och_cpu_kernels *kernels, int64_t row, int head, float *mem);

#endif
