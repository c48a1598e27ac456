/* The provider table, and the choice of an instruction set. */
#include "op/cpu/cpu_ops.h"

#include "op/cpu/provider.h"

#define ROW(sym, sup, fn) .name = "cpu", .backend = "cpu", .priority = 100, .op = OCH_OP_##sym, .supports = sup, .run = fn

const och_op_provider och_op_cpu_providers[] = {
    {ROW(EMBED, och_cpu_embed_supports, och_cpu_embed_run)},
    {ROW(RMS_NORM, och_cpu_supports, och_cpu_rms_norm_run)},
    {ROW(LINEAR, och_cpu_linear_supports, och_cpu_linear_run), .scratch_bytes = och_cpu_linear_scratch,
     .weight_layout = och_cpu_weight_layout, .weight_pack = och_cpu_pack},
    {ROW(ROPE, och_cpu_supports, och_cpu_rope_run)},
    {ROW(KV_WRITE, och_cpu_supports, och_cpu_kv_write_run)},
    {ROW(QKV_POST, och_cpu_supports, och_cpu_qkv_post_run), .scratch_bytes = och_cpu_qkv_post_scratch},
    {ROW(ATTENTION, och_cpu_attention_supports, och_cpu_attention_run), .scratch_bytes = och_cpu_attention_scratch},
    {ROW(GLU, och_cpu_supports, och_cpu_glu_run)},
    {ROW(ADD, och_cpu_supports, och_cpu_add_run)},
    {ROW(GATHER, och_cpu_supports, och_cpu_gather_run)},
};
const int och_op_cpu_provider_count = (int)(sizeof och_op_cpu_providers / sizeof och_op_cpu_providers[0]);

const och_cpu_kernels *och_cpu_kernels_get(const och_device *d) {
    switch (och_cpu_device_isa(d)) {
#if defined(__x86_64__)
    case OCH_CPU_AMX:
    case OCH_CPU_AVX512: return &och_cpu_kernels_avx512;
    case OCH_CPU_AVX2: return &och_cpu_kernels_avx2;
#elif defined(__aarch64__)
    case OCH_CPU_NEON: return &och_cpu_kernels_neon;
#endif
    default: return NULL;
    }
}

och_status och_cpu_supports(const och_device *device, const och_op_call *call, och_err *err) {
    (void)call;
    if (och_cpu_kernels_get(device)) return OCH_OK;
    return och_err_set(err, OCH_UNSUPPORTED, "has no kernels for instruction set '%s'",
                       och_cpu_isa_name(och_cpu_device_isa(device)));
}

void och_cpu_run(const och_op_ctx *ctx, bool alone, och_pool_fn fn, void *arg) {
    och_pool *pool = och_cpu_pool(ctx->queue->device);
    if (alone) fn(arg, &(och_pool_member){pool, 0, 1});
    else och_pool_run(pool, fn, arg);
}
