/* RMS_NORM: root mean square normalisation of groups of a row. */
#include "op/def.h"

#include <math.h>

static och_status check(const och_op_call *c, och_err *err) {
    const och_tensor *x = &c->in[OCH_RMS_NORM_X], *w = &c->in[OCH_RMS_NORM_W];
    OCH_TRY(och_op_expect_norm(c, &c->attr.rms_norm, err));
    OCH_TRY(och_op_expect(c, och_in(OCH_RMS_NORM_X), OCH_DTYPE_F32, -1, -1, err));
    OCH_TRY(och_op_expect(c, och_in(OCH_RMS_NORM_W), OCH_DTYPE_F32, 1, -1, err));
    if (w->cols < 1 || x->cols < 1 || x->cols % w->cols)
        return och_op_fail(c, och_in(OCH_RMS_NORM_X), OCH_INVALID, err,
                           "expected a multiple of the weight's %lld columns, found %lld", (long long)w->cols,
                           (long long)x->cols);
    if (och_tensor_present(&c->in[OCH_RMS_NORM_RESIDUAL]))
        OCH_TRY(och_op_expect(c, och_in(OCH_RMS_NORM_RESIDUAL), OCH_DTYPE_F32, x->rows, x->cols, err));
    OCH_TRY(och_op_expect(c, och_out(0), OCH_DTYPE_F32, x->rows, x->cols, err));
    return och_op_expect_overlap(c, 0, OCH_RMS_NORM_X, OCH_RMS_NORM_RESIDUAL, err);
}

static void cost(const och_op_call *c, uint64_t *out_bytes, uint64_t *out_flops) {
    *out_bytes = och_op_call_bytes(c);
    *out_flops = (uint64_t)(c->out[0].rows * c->out[0].cols) * 4;
}

void och_op_rms_norm_group(const float *x, const float *w, float *y, int64_t d, const och_attr_rms_norm *attr) {
    double sum = 0.0, one = attr->add_one ? 1.0 : 0.0;
    for (int64_t i = 0; i < d; i++) sum += (double)x[i] * x[i];
    double r = 1.0 / sqrt(sum / (double)d + (double)attr->eps);
    for (int64_t i = 0; i < d; i++) y[i] = (float)(x[i] * r * (w[i] + one));
}

static void member(void *arg, const och_pool_member *me) {
    const och_op_call *c = arg;
    const och_tensor *x = &c->in[OCH_RMS_NORM_X], *residual = &c->in[OCH_RMS_NORM_RESIDUAL], *y = &c->out[0];
    int64_t d = c->in[OCH_RMS_NORM_W].cols, begin, end;
    const float *w = och_op_row_f32(&c->in[OCH_RMS_NORM_W], 0);
    och_op_ref_share(x->rows, me, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        const float *src = och_op_row_f32(x, i), *res = och_tensor_present(residual) ? och_op_row_f32(residual, i) : NULL;
        float *dst = och_op_row_f32_mut(y, i);
        for (int64_t g = 0; g < x->cols; g += d) {
            if (!res) {
                och_op_rms_norm_group(src + g, w, dst + g, d, &c->attr.rms_norm);
                continue;
            }
            /* In pieces, since y may be the residual and must not lose it before it is added. */
            double sum = 0.0, one = c->attr.rms_norm.add_one ? 1.0 : 0.0;
            for (int64_t j = 0; j < d; j++) sum += (double)src[g + j] * src[g + j];
            double r = 1.0 / sqrt(sum / (double)d + (double)c->attr.rms_norm.eps);
            for (int64_t j = 0; j < d; j++) dst[g + j] = (float)(src[g + j] * r * (w[j] + one)) + res[g + j];
        }
    }
}

static och_status run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    (void)err;
    och_op_ref_run(ctx, member, (void *)c);
    return OCH_OK;
}

const och_op_def och_op_def_RMS_NORM = {
    check, cost, {OCH_OP_REFERENCE_ROW(RMS_NORM), .supports = och_op_supports_all, .run = run}};
