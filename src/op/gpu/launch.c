/* Arguments and launches of kernels. */
#include "op/gpu/gpu.h"

#include "dev/trace.h"
#include "quant/format.h"
#include "quant/planes.h"

#include <stdio.h>

och_kl_actual och_gpu_tensor(const char *name, const och_tensor *t) {
    if (!och_tensor_present(t)) return (och_kl_actual){.name = name};
    return och_gpu_matrix(name, t->addr, t->rows, t->cols, t->row_bytes);
}

och_kl_actual och_gpu_vector(const char *name, const och_tensor *t) {
    if (!och_tensor_present(t)) return (och_kl_actual){.name = name};
    return (och_kl_actual){.name = name, .addr = t->addr.value, .dims = {t->cols}};
}

och_kl_actual och_gpu_weight(const char *name, const och_tensor *t) {
    uint64_t bytes = 0;
    if (!och_tensor_present(t)) return (och_kl_actual){.name = name};
    (void)och_planes_row_bytes(t->dtype, (uint64_t)t->cols, &bytes); /* the layout was made so */
    return och_gpu_matrix(name, t->addr, t->rows, och_gpu_unit_cols(t), bytes);
}

int64_t och_gpu_unit_cols(const och_tensor *t) {
    int64_t unit = och_format_get(t->dtype)->act == OCH_ACT_Q8_32S ? 32 : 8;
    return (t->cols + unit - 1) / unit * unit;
}

och_kl_actual och_gpu_matrix(const char *name, och_dev_addr addr, int64_t rows, int64_t cols, uint64_t row_bytes) {
    return (och_kl_actual){.name = name, .addr = addr.value, .dims = {rows, cols}, .row_bytes = {row_bytes}};
}

och_kl_actual och_gpu_int(const char *name, int64_t v) { return (och_kl_actual){.name = name, .integer = v}; }
och_kl_actual och_gpu_real(const char *name, double v) { return (och_kl_actual){.name = name, .real = v}; }

och_status och_gpu_launch(const och_op_ctx *ctx, const och_gpu_kernel *k, const och_kl_actual *actuals, int n_actuals,
                          och_err *err) {
    return och_gpu_launch_beside(ctx, k, actuals, n_actuals, OCH_LDS_BY_DRIVER, err);
}

och_status och_gpu_launch_beside(const och_op_ctx *ctx, const och_gpu_kernel *k, const och_kl_actual *actuals, int n_actuals,
                                 och_lds_share share, och_err *err) {
    och_kl_packed p;
    OCH_TRY(och_kl_pack(&k->signature, actuals, n_actuals, &p, err));
    if (!p.grid[0] || !p.grid[1] || !p.grid[2]) return OCH_OK;
    och_launch l = {.grid = {p.grid[0], p.grid[1], p.grid[2]}, .group = {p.group[0], p.group[1], p.group[2]},
                    .lds_bytes = p.lds_bytes, .args = p.args, .args_bytes = p.n_bytes,
                    .may_overlap = k->signature.waits, .lds_share = share};
    och_trace_launched(k->function->name);
    if (ctx->n_launches) ++*ctx->n_launches;
    return ctx->queue->device->vtable->launch(ctx->queue, k->function, &l, err);
}

int och_gpu_width(int64_t cols, const och_tensor *const *tensors, int n) {
    if (cols % 4) return 1;
    for (int i = 0; i < n; i++)
        if (och_tensor_present(tensors[i]) && (tensors[i]->row_bytes % 16 || tensors[i]->addr.value % 16)) return 1;
    return 4;
}

#define LONGEST_ROW 16384 /* in registers of one workgroup; lanes have 32 elements each where a wave has 32 */
#define SHORTEST_ROW 1024

void och_gpu_row_spec(int64_t k, int width, char out[OCH_GPU_ROW_SPEC_BYTES]) {
    int64_t most = SHORTEST_ROW;
    while (most < k && most < LONGEST_ROW) most *= 2;
    snprintf(out, OCH_GPU_ROW_SPEC_BYTES, "V=%d,KMAX=%lld%s", width, (long long)most, k > most ? ",LONG=true" : "");
}

const char *och_gpu_type(och_dtype t) {
    const och_format *f = och_format_get(t);
    switch (t) {
    case OCH_DTYPE_F32: return "f32";
    case OCH_DTYPE_F16: return "f16";
    case OCH_DTYPE_BF16: return "bf16";
    default: return f ? f->name : NULL;
    }
}

och_status och_gpu_take(och_gpu_scratch *s, uint64_t n_bytes, och_dev_addr *out_addr, och_err *err) {
    uint64_t at = (s->used + 255) & ~UINT64_C(255);
    if (at > s->size_bytes || n_bytes > s->size_bytes - at)
        return och_err_set(err, OCH_INTERNAL, "scratch: expected %llu bytes at %llu, found %llu in all",
                           (unsigned long long)n_bytes, (unsigned long long)at, (unsigned long long)s->size_bytes);
    *out_addr = och_dev_addr_add(s->base, at);
    s->used = at + n_bytes;
    return OCH_OK;
}
