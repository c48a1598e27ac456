/* GATHER: rows of a matrix, by number. */
#include "op/def.h"

#include <string.h>

static och_status check(const och_op_call *c, och_err *err) {
    OCH_TRY(och_op_expect(c, och_in(OCH_GATHER_X), OCH_DTYPE_F32, -1, -1, err));
    OCH_TRY(och_op_expect(c, och_in(OCH_GATHER_ROWS), OCH_DTYPE_I32, -1, 1, err));
    OCH_TRY(och_op_expect(c, och_out(0), OCH_DTYPE_F32, c->in[OCH_GATHER_ROWS].rows, c->in[OCH_GATHER_X].cols, err));
    return och_op_expect_overlap(c, 0, -1, -1, err);
}

static void cost(const och_op_call *c, uint64_t *out_bytes, uint64_t *out_flops) {
    *out_bytes = och_op_tensor_bytes(&c->in[OCH_GATHER_ROWS]) + 2 * och_op_tensor_bytes(&c->out[0]);
    *out_flops = 0;
}

static och_status run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    (void)ctx;
    const och_tensor *x = &c->in[OCH_GATHER_X], *rows = &c->in[OCH_GATHER_ROWS];
    for (int64_t i = 0; i < rows->rows; i++) {
        int32_t r = och_op_row_i32(rows, i);
        if (r < 0 || r >= x->rows)
            return och_op_fail(c, och_in(OCH_GATHER_ROWS), OCH_RANGE, err,
                               "row %lld: expected a row of 0 to %lld, found %d", (long long)i, (long long)x->rows - 1,
                               r);
    }
    for (int64_t i = 0; i < rows->rows; i++)
        memcpy(och_op_row_f32_mut(&c->out[0], i), och_op_row_f32(x, och_op_row_i32(rows, i)),
               (size_t)x->cols * sizeof(float));
    return OCH_OK;
}

const och_op_def och_op_def_GATHER = {
    check, cost, {OCH_OP_REFERENCE_ROW(GATHER), .supports = och_op_supports_all, .run = run}};
