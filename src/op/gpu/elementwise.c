/* Launches of the element-wise kernels, of norms and look-ups (kernels/elementwise.ok, norm.ok, embed.ok). */
#include "op/gpu/gpu.h"

#include "base/size.h"
#include "quant/capability.h"
#include "quant/format.h"

#include <stdio.h>

/* Waves that share a row's reduction: enough to keep a wide row's loads in flight, one where a row is short. */
static int waves_for(int64_t cols) { return cols <= 512 ? 1 : cols <= 2048 ? 4 : 8; }

/* ---- add, glu, gather ---- */

static och_status add_kernel(const och_device *d, int width, const och_gpu_kernel **out_k, och_err *err) {
    return och_gpu_kernel_get(d, "add", out_k, err, "V=%d", width);
}

och_status och_gpu_add_supports(const och_device *d, const och_op_call *c, och_err *err) {
    return add_kernel(d, c->out[0].cols % 4 ? 1 : 4, NULL, err);
}

och_status och_gpu_add_run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    const och_tensor *a = &c->in[0], *b = &c->in[1], *y = &c->out[0];
    const och_gpu_kernel *k;
    OCH_TRY(add_kernel(ctx->queue->device, och_gpu_width(y->cols, (const och_tensor *[]){a, b, y}, 3), &k, err));
    och_kl_actual args[] = {och_gpu_tensor("a", a), och_gpu_tensor("b", b), och_gpu_tensor("y", y)};
    return och_gpu_launch(ctx, k, args, OCH_COUNT(args), err);
}

static och_status glu_kernel(const och_device *d, och_act act, int width, const och_gpu_kernel **out_k, och_err *err) {
    return och_gpu_kernel_get(d, "glu", out_k, err, "ACT=%d,V=%d", (int)act, width);
}

och_status och_gpu_glu_supports(const och_device *d, const och_op_call *c, och_err *err) {
    return glu_kernel(d, c->attr.glu.act, c->out[0].cols % 4 ? 1 : 4, NULL, err);
}

och_status och_gpu_glu_run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    const och_tensor *gate = &c->in[OCH_GLU_GATE], *up = &c->in[OCH_GLU_UP], *y = &c->out[0];
    const och_gpu_kernel *k;
    OCH_TRY(glu_kernel(ctx->queue->device, c->attr.glu.act, och_gpu_width(y->cols, (const och_tensor *[]){gate, up, y}, 3), &k,
                       err));
    och_kl_actual args[] = {och_gpu_tensor("gate", gate), och_gpu_tensor("up", up), och_gpu_tensor("y", y)};
    return och_gpu_launch(ctx, k, args, OCH_COUNT(args), err);
}

static och_status gather_kernel(const och_device *d, int width, const och_gpu_kernel **out_k, och_err *err) {
    return och_gpu_kernel_get(d, "gather", out_k, err, "I=i32,V=%d", width);
}

och_status och_gpu_gather_supports(const och_device *d, const och_op_call *c, och_err *err) {
    return gather_kernel(d, c->out[0].cols % 4 ? 1 : 4, NULL, err);
}

och_status och_gpu_gather_run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    const och_tensor *x = &c->in[OCH_GATHER_X], *y = &c->out[0];
    const och_gpu_kernel *k;
    OCH_TRY(gather_kernel(ctx->queue->device, och_gpu_width(y->cols, (const och_tensor *[]){x, y}, 2), &k, err));
    och_kl_actual args[] = {och_gpu_tensor("x", x), och_gpu_tensor("rows", &c->in[OCH_GATHER_ROWS]), och_gpu_tensor("y", y)};
    return och_gpu_launch(ctx, k, args, OCH_COUNT(args), err);
}

/* ---- rms_norm ---- */

och_status och_gpu_norm_kernel(const och_device *d, int64_t group_cols, bool add_one, int width, const och_gpu_kernel **out_k,
                               och_err *err) {
    char plain[64], rounds[16] = "";
    int64_t n = (group_cols + 128 * waves_for(group_cols) - 1) / (128 * waves_for(group_cols)); /* of waves of 32: of 64 some lanes have less */
    snprintf(plain, sizeof plain, "ADD1=%s,V=%d,WIDE=%s,WAVES=%d", add_one ? "true" : "false", group_cols % 4 ? 1 : 4,
             width == 4 ? "true" : "false", waves_for(group_cols));
    if (group_cols % 4 == 0 && n <= 8) snprintf(rounds, sizeof rounds, ",ROUNDS=%d", (int)n);
    return och_gpu_kernel_cut(d, "rms_norm", plain, rounds, out_k, err);
}

och_status och_gpu_rms_norm_supports(const och_device *d, const och_op_call *c, och_err *err) {
    int64_t cols = c->in[OCH_RMS_NORM_W].cols;
    return och_gpu_norm_kernel(d, cols, c->attr.rms_norm.add_one, cols % 4 ? 1 : 4, NULL, err);
}

och_status och_gpu_rms_norm_run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    const och_tensor *x = &c->in[OCH_RMS_NORM_X], *w = &c->in[OCH_RMS_NORM_W], *r = &c->in[OCH_RMS_NORM_RESIDUAL],
                     *y = &c->out[0];
    const och_gpu_kernel *k;
    int width = och_gpu_width(w->cols, (const och_tensor *[]){x, w, r, y}, 4);
    OCH_TRY(och_gpu_norm_kernel(ctx->queue->device, w->cols, c->attr.rms_norm.add_one, width, &k, err));
    och_kl_actual args[] = {och_gpu_tensor("x", x), och_gpu_vector("w", w), och_gpu_tensor("residual", r),
                            och_gpu_tensor("y", y), och_gpu_real("eps", (double)c->attr.rms_norm.eps)};
    return och_gpu_launch(ctx, k, args, OCH_COUNT(args), err);
}

/* ---- embed ---- */

static och_status embed_kernel(const och_device *d, och_dtype t, int width, const och_gpu_kernel **out_k, och_err *err) {
    return och_gpu_kernel_get(d, "embed", out_k, err, "F=%s,I=i32,V=%d", och_format_get(t)->name, width);
}

och_status och_gpu_embed_supports(const och_device *d, const och_op_call *c, och_err *err) {
    const och_tensor *table = &c->in[OCH_EMBED_TABLE];
    if (table->layout != OCH_LAYOUT_PLANES)
        return och_err_set(err, OCH_UNSUPPORTED, "reads tables in planes only, this one is in another layout");
    OCH_TRY(och_capability_check("kernel", d->info.arch, table->dtype, "embed", err));
    return embed_kernel(d, table->dtype, c->out[0].cols % 8 ? 1 : 8, NULL, err);
}

och_status och_gpu_embed_run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    const och_tensor *table = &c->in[OCH_EMBED_TABLE], *y = &c->out[0];
    const och_gpu_kernel *k;
    int width = och_gpu_width(y->cols, (const och_tensor *[]){y}, 1) == 4 && y->cols % 8 == 0 ? 8 : 1;
    OCH_TRY(embed_kernel(ctx->queue->device, table->dtype, width, &k, err));
    och_kl_actual args[] = {och_gpu_tensor("ids", &c->in[OCH_EMBED_IDS]), och_gpu_weight("table", table),
                            och_gpu_tensor("y", y), och_gpu_real("scale", (double)c->attr.embed.scale)};
    return och_gpu_launch(ctx, k, args, OCH_COUNT(args), err);
}
