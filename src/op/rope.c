/* ROPE: rotary position embedding by a table made on the host. */
#include "op/def.h"


static och_status check(const och_op_call *c, och_err *err) {
    const och_attr_rope *r = &c->attr.rope;
    const och_tensor *x = &c->in[OCH_ROPE_X];
    OCH_TRY(och_op_expect_rope(c, r, err));
    OCH_TRY(och_op_expect(c, och_in(OCH_ROPE_X), OCH_DTYPE_F32, -1, (int64_t)r->n_heads * r->head_dim, err));
    OCH_TRY(och_op_expect(c, och_in(OCH_ROPE_TABLE), OCH_DTYPE_F32, x->rows, r->rot_dim, err));
    OCH_TRY(och_op_expect(c, och_out(0), OCH_DTYPE_F32, x->rows, x->cols, err));
    return och_op_expect_overlap(c, 0, OCH_ROPE_X, -1, err);
}

static void cost(const och_op_call *c, uint64_t *out_bytes, uint64_t *out_flops) {
    *out_bytes = och_op_call_bytes(c);
    *out_flops = (uint64_t)c->out[0].rows * (uint64_t)c->attr.rope.n_heads * (uint64_t)c->attr.rope.rot_dim * 3;
}

void och_op_rope_head(const float *x, const float *table, float *y, const och_attr_rope *r) {
    int half = r->rot_dim / 2;
    for (int i = 0; i < half; i++) {
        int a = r->style == OCH_ROPE_HALF ? i : 2 * i, b = r->style == OCH_ROPE_HALF ? i + half : 2 * i + 1;
        double u = x[a], v = x[b], cos_i = table[i], sin_i = table[half + i];
        y[a] = (float)(u * cos_i - v * sin_i);
        y[b] = (float)(v * cos_i + u * sin_i);
    }
    if (y != x)
        for (int i = r->rot_dim; i < r->head_dim; i++) y[i] = x[i];
}

static och_status run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    (void)ctx;
    (void)err;
    const och_attr_rope *r = &c->attr.rope;
    for (int64_t i = 0; i < c->out[0].rows; i++) {
        const float *x = och_op_row_f32(&c->in[OCH_ROPE_X], i), *table = och_op_row_f32(&c->in[OCH_ROPE_TABLE], i);
        float *y = och_op_row_f32_mut(&c->out[0], i);
        for (int h = 0; h < r->n_heads; h++)
            och_op_rope_head(x + (int64_t)h * r->head_dim, table, y + (int64_t)h * r->head_dim, r);
    }
    return OCH_OK;
}

const och_op_def och_op_def_ROPE = {
    check, cost, {OCH_OP_REFERENCE_ROW(ROPE), .supports = och_op_supports_all, .run = run}};
