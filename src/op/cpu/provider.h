/* What the files of this folder share: the functions behind each row of the provider table, and how work is cut. */
#ifndef OCH_OP_CPU_PROVIDER_H
#define OCH_OP_CPU_PROVIDER_H

#include "dev/cpu/cpu.h"
#include "op/cpu/kernels.h"

static inline float *och_cpu_row(const och_tensor *t, int64_t row) {
    return (float *)(void *)((char *)t->host + (uint64_t)row * t->row_bytes);
}
static inline int32_t och_cpu_row_i32(const och_tensor *t, int64_t row) {
    return *(const int32_t *)(const void *)((const char *)t->host + (uint64_t)row * t->row_bytes);
}
static inline uint64_t och_cpu_round64(uint64_t n) { return (n + 63) & ~UINT64_C(63); }
static inline void och_cpu_share(int64_t n, const och_pool_member *me, int64_t *out_begin, int64_t *out_end) {
    *out_begin = n * me->index / me->n;
    *out_end = n * (me->index + 1) / me->n;
}
/* Runs fn in every member, or in the caller alone where the work would not pay for waking the others. */
void och_cpu_run(const och_op_ctx *ctx, bool alone, och_pool_fn fn, void *arg);

/* Below this many floats an elementwise op is done by the caller. */
#define OCH_CPU_ALONE 8192

och_status och_cpu_supports(const och_device *device, const och_op_call *call, och_err *err);

och_status och_cpu_linear_supports(const och_device *device, const och_op_call *call, och_err *err);
och_status och_cpu_linear_run(const och_op_ctx *ctx, const och_op_call *call, och_err *err);
uint64_t och_cpu_linear_scratch(const och_device *device, const och_op_call *call);
och_layout och_cpu_weight_layout(const och_device *device, och_dtype dtype, int64_t rows, int64_t cols,
                                 uint64_t *out_bytes);

och_status och_cpu_attention_supports(const och_device *device, const och_op_call *call, och_err *err);
och_status och_cpu_attention_run(const och_op_ctx *ctx, const och_op_call *call, och_err *err);
uint64_t och_cpu_attention_scratch(const och_device *device, const och_op_call *call);

och_status och_cpu_embed_supports(const och_device *device, const och_op_call *call, och_err *err);
och_status och_cpu_embed_run(const och_op_ctx *ctx, const och_op_call *call, och_err *err);
och_status och_cpu_rms_norm_run(const och_op_ctx *ctx, const och_op_call *call, och_err *err);
och_status och_cpu_rope_run(const och_op_ctx *ctx, const och_op_call *call, och_err *err);
och_status och_cpu_glu_run(const och_op_ctx *ctx, const och_op_call *call, och_err *err);
och_status och_cpu_add_run(const och_op_ctx *ctx, const och_op_call *call, och_err *err);
och_status och_cpu_gather_run(const och_op_ctx *ctx, const och_op_call *call, och_err *err);
och_status och_cpu_kv_write_run(const och_op_ctx *ctx, const och_op_call *call, och_err *err);
och_status och_cpu_qkv_post_run(const och_op_ctx *ctx, const och_op_call *call, och_err *err);
uint64_t och_cpu_qkv_post_scratch(const och_device *device, const och_op_call *call);

#endif
