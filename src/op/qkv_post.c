/* QKV_POST: norm and rotation of q and k, and the store of k and v, as one op. */
#include "op/def.h"

static och_status check(const och_op_call *c, och_err *err) {
    const och_attr_kv *kv = &c->attr.qkv_post.kv;
    const och_attr_rope *r = &c->attr.qkv_post.rope;
    int64_t n = c->in[OCH_QKV_POST_Q].rows, q_cols = (int64_t)r->n_heads * r->head_dim,
            kv_cols = (int64_t)kv->n_kv_heads * kv->head_dim;
    OCH_TRY(och_op_expect_kv(c, kv, err));
    OCH_TRY(och_op_expect_rope(c, r, err));
    OCH_TRY(och_op_expect_norm(c, &c->attr.qkv_post.norm, err));
    if (r->head_dim != kv->head_dim || r->n_heads % kv->n_kv_heads)
        return och_err_set(err, OCH_INVALID,
                           "op qkv_post: expected one head_dim and a multiple of %d query heads, found head_dim %d and %d, "
                           "%d query heads",
                           kv->n_kv_heads, r->head_dim, kv->head_dim, r->n_heads);
    OCH_TRY(och_op_expect(c, och_in(OCH_QKV_POST_Q), OCH_DTYPE_F32, -1, q_cols, err));
    OCH_TRY(och_op_expect(c, och_in(OCH_QKV_POST_K), OCH_DTYPE_F32, n, kv_cols, err));
    OCH_TRY(och_op_expect(c, och_in(OCH_QKV_POST_V), OCH_DTYPE_F32, n, kv_cols, err));
    for (int i = OCH_QKV_POST_QNORM; i <= OCH_QKV_POST_KNORM; i++)
        if (och_tensor_present(&c->in[i])) OCH_TRY(och_op_expect(c, och_in(i), OCH_DTYPE_F32, 1, kv->head_dim, err));
    OCH_TRY(och_op_expect(c, och_in(OCH_QKV_POST_TABLE), OCH_DTYPE_F32, n, r->rot_dim, err));
    OCH_TRY(och_op_expect(c, och_in(OCH_QKV_POST_SLOTS), OCH_DTYPE_I32, n, 1, err));
    OCH_TRY(och_op_expect(c, och_out(0), OCH_DTYPE_F32, n, q_cols, err));
    OCH_TRY(och_op_expect_overlap(c, 0, OCH_QKV_POST_Q, -1, err));
    for (int i = 1; i < 3; i++) {
        OCH_TRY(och_op_expect_cache(c, och_out(i), kv, err));
        OCH_TRY(och_op_expect_overlap(c, i, -1, -1, err));
    }
    if (c->attr.qkv_post.one_row_done) {
        for (int i = OCH_QKV_POST_QNORM; i <= OCH_QKV_POST_KNORM; i++)
            if (och_tensor_present(&c->in[i]))
                return och_op_fail(c, och_in(i), OCH_INVALID, err, "expected no norm where a product does one row");
        if (c->out[0].addr.value != c->in[OCH_QKV_POST_Q].addr.value)
            return och_op_fail(c, och_out(0), OCH_INVALID, err, "expected q's memory where a product does one row, found other");
    }
    if (c->out[1].dtype != c->out[2].dtype || c->out[1].rows != c->out[2].rows)
        return och_op_fail(c, och_out(2), OCH_INVALID, err, "expected %s and %lld blocks as in kcache, found %s and %lld",
                           och_dtype_name(c->out[1].dtype), (long long)c->out[1].rows, och_dtype_name(c->out[2].dtype),
                           (long long)c->out[2].rows);
    return OCH_OK;
}

static void cost(const och_op_call *c, uint64_t *out_bytes, uint64_t *out_flops) {
    const och_tensor *q = &c->in[OCH_QKV_POST_Q], *k = &c->in[OCH_QKV_POST_K];
    uint64_t n = 0, elem = och_dtype_get(c->out[1].dtype)->block_bytes;
    for (int i = 0; i < OCH_OP_MAX_IN; i++) n += och_op_tensor_bytes(&c->in[i]);
    *out_bytes = n + och_op_tensor_bytes(&c->out[0]) + 2 * elem * (uint64_t)(k->rows * k->cols);
    uint64_t per_elem = och_tensor_present(&c->in[OCH_QKV_POST_QNORM]) ? 7 : 3;
    *out_flops = per_elem * (uint64_t)(q->rows * (q->cols + k->cols));
    if (och_op_asks_one_row(c) && q->rows == 1) *out_bytes = *out_flops = 0; /* the product's */
}

och_op_call och_op_post_of(const och_op_call *linear) {
    och_op_call c = {.op = OCH_OP_QKV_POST, .attr.qkv_post = linear->attr.linear.post};
    for (int i = 0; i < OCH_OP_MAX_IN; i++) c.in[i].dtype = OCH_DTYPE_NONE;
    for (int i = 0; i < OCH_OP_MAX_OUT; i++) c.out[i].dtype = OCH_DTYPE_NONE;
    for (int i = 0; i < 3; i++) c.in[OCH_QKV_POST_Q + i] = linear->out[i];
    c.in[OCH_QKV_POST_TABLE] = linear->in[OCH_LINEAR_TABLE];
    c.in[OCH_QKV_POST_SLOTS] = linear->in[OCH_LINEAR_SLOTS];
    c.out[0] = linear->out[0];
    c.out[1] = linear->out[OCH_LINEAR_KCACHE];
    c.out[2] = linear->out[OCH_LINEAR_VCACHE];
    c.attr.qkv_post.one_row_done = false;
    return c;
}

static uint64_t scratch_bytes(const och_device *device, const och_op_call *c) {
    (void)device;
    return sizeof(float) * (uint64_t)c->attr.qkv_post.kv.head_dim;
}

static void head(const float *x, const och_tensor *norm, const float *table, float *y, const och_op_call *c) {
    const och_attr_rope *r = &c->attr.qkv_post.rope;
    if (och_tensor_present(norm)) {
        och_op_rms_norm_group(x, och_op_row_f32(norm, 0), y, r->head_dim, &c->attr.qkv_post.norm);
        x = y;
    }
    och_op_rope_head(x, table, y, r);
}

static och_status run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    const och_attr_kv *kv = &c->attr.qkv_post.kv;
    const och_tensor *slots = &c->in[OCH_QKV_POST_SLOTS];
    if (och_op_one_row(c, ctx)) return OCH_OK;
    OCH_TRY(och_op_check_slots(c, och_in(OCH_QKV_POST_SLOTS), &c->out[1], kv, err));
    int64_t d = kv->head_dim;
    float *k_head = ctx->scratch;
    for (int64_t i = 0; i < slots->rows; i++) {
        const float *table = och_op_row_f32(&c->in[OCH_QKV_POST_TABLE], i);
        const float *q = och_op_row_f32(&c->in[OCH_QKV_POST_Q], i), *k = och_op_row_f32(&c->in[OCH_QKV_POST_K], i),
                    *v = och_op_row_f32(&c->in[OCH_QKV_POST_V], i);
        float *y = och_op_row_f32_mut(&c->out[0], i);
        for (int h = 0; h < c->attr.qkv_post.rope.n_heads; h++)
            head(q + h * d, &c->in[OCH_QKV_POST_QNORM], table, y + h * d, c);
        int32_t slot = och_op_row_i32(slots, i);
        if (slot < 0) continue;
        for (int h = 0; h < kv->n_kv_heads; h++) {
            head(k + h * d, &c->in[OCH_QKV_POST_KNORM], table, k_head, c);
            och_op_kv_store(&c->out[1], &c->out[2], kv, slot, h, k_head, v + h * d);
        }
    }
    return OCH_OK;
}

const och_op_def och_op_def_QKV_POST = {
    check, cost,
    {OCH_OP_REFERENCE_ROW(QKV_POST), .supports = och_op_supports_all, .run = run, .scratch_bytes = scratch_bytes}};
