/* ADD: the sum of two matrices. */
#include "op/def.h"

static och_status check(const och_op_call *c, och_err *err) {
    const och_tensor *a = &c->in[0];
    OCH_TRY(och_op_expect(c, och_in(0), OCH_DTYPE_F32, -1, -1, err));
    OCH_TRY(och_op_expect(c, och_in(1), OCH_DTYPE_F32, a->rows, a->cols, err));
    OCH_TRY(och_op_expect(c, och_out(0), OCH_DTYPE_F32, a->rows, a->cols, err));
    return och_op_expect_overlap(c, 0, 0, 1, err);
}

static void cost(const och_op_call *c, uint64_t *out_bytes, uint64_t *out_flops) {
    *out_bytes = och_op_call_bytes(c);
    *out_flops = (uint64_t)(c->out[0].rows * c->out[0].cols);
}

static och_status run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    (void)ctx;
    (void)err;
    for (int64_t i = 0; i < c->out[0].rows; i++) {
        const float *a = och_op_row_f32(&c->in[0], i), *b = och_op_row_f32(&c->in[1], i);
        float *y = och_op_row_f32_mut(&c->out[0], i);
        for (int64_t j = 0; j < c->out[0].cols; j++) y[j] = a[j] + b[j];
    }
    return OCH_OK;
}

const och_op_def och_op_def_ADD = {
    check, cost, {OCH_OP_REFERENCE_ROW(ADD), .supports = och_op_supports_all, .run = run}};
