/* GLU: act(gate) * up, and the activation functions. */
#include "op/def.h"

#include <math.h>

static och_status check(const och_op_call *c, och_err *err) {
    const och_tensor *gate = &c->in[OCH_GLU_GATE];
    if (c->attr.glu.act < OCH_ACT_SILU || c->attr.glu.act > OCH_ACT_GELU_ERF)
        return och_err_set(err, OCH_INVALID, "op glu: expected silu, gelu_tanh or gelu_erf, found act %d",
                           (int)c->attr.glu.act);
    OCH_TRY(och_op_expect(c, och_in(OCH_GLU_GATE), OCH_DTYPE_F32, -1, -1, err));
    OCH_TRY(och_op_expect(c, och_in(OCH_GLU_UP), OCH_DTYPE_F32, gate->rows, gate->cols, err));
    OCH_TRY(och_op_expect(c, och_out(0), OCH_DTYPE_F32, gate->rows, gate->cols, err));
    return och_op_expect_overlap(c, 0, OCH_GLU_GATE, OCH_GLU_UP, err);
}

static void cost(const och_op_call *c, uint64_t *out_bytes, uint64_t *out_flops) {
    *out_bytes = och_op_call_bytes(c);
    *out_flops = (uint64_t)(c->out[0].rows * c->out[0].cols) * 2;
}

float och_op_act(och_act act, float x) {
    double v = x;
    switch (act) {
    case OCH_ACT_SILU: return (float)(v / (1.0 + exp(-v)));
    case OCH_ACT_GELU_TANH: /* Hendrycks, Gimpel 2016, section 2; sqrt(2 / pi) */
        return (float)(0.5 * v * (1.0 + tanh(0.79788456080286535588 * (v + 0.044715 * v * v * v))));
    case OCH_ACT_GELU_ERF: return (float)(0.5 * v * (1.0 + erf(v * 0.70710678118654752440)));
    case OCH_ACT_NONE: break;
    }
    return x;
}

static void member(void *arg, const och_pool_member *me) {
    const och_op_call *c = arg;
    int64_t begin, end;
    och_op_ref_share(c->out[0].rows, me, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        const float *gate = och_op_row_f32(&c->in[OCH_GLU_GATE], i), *up = och_op_row_f32(&c->in[OCH_GLU_UP], i);
        float *y = och_op_row_f32_mut(&c->out[0], i);
        for (int64_t j = 0; j < c->out[0].cols; j++) y[j] = och_op_act(c->attr.glu.act, gate[j]) * up[j];
    }
}

static och_status run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    (void)err;
    och_op_ref_run(ctx, member, (void *)c);
    return OCH_OK;
}

const och_op_def och_op_def_GLU = {
    check, cost, {OCH_OP_REFERENCE_ROW(GLU), .supports = och_op_supports_all, .run = run}};
