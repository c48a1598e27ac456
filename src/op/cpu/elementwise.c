/* The ops without a product: each cuts its rows over the members of the pool. */
#include "op/cpu/provider.h"

#include "quant/format.h"

#include <string.h>

typedef struct job {
    const och_op_call *call;
    const och_cpu_kernels *kernels;
    const och_op_ctx *ctx;
} job;

static och_status rows_run(const och_op_ctx *ctx, const och_op_call *c, och_pool_fn fn) {
    job j = {c, och_cpu_kernels_get(ctx->queue->device), ctx};
    och_cpu_run(ctx, c->out[0].rows * c->out[0].cols <= OCH_CPU_ALONE, fn, &j);
    return OCH_OK;
}

/* ---- embed and gather ---- */

och_status och_cpu_embed_supports(const och_device *device, const och_op_call *call, och_err *err) {
    OCH_TRY(och_cpu_supports(device, call, err));
    const och_tensor *t = &call->in[OCH_EMBED_TABLE];
    if (t->layout == OCH_LAYOUT_NATIVE ? och_format_get(t->dtype) != NULL : och_cpu_pack_fits(t->dtype, t->cols))
        return OCH_OK;
    return och_err_set(err, OCH_UNSUPPORTED, "reads no %s table", och_dtype_name(t->dtype));
}

static void embed_member(void *arg, const och_pool_member *me) {
    const job *j = arg;
    const och_tensor *table = &j->call->in[OCH_EMBED_TABLE], *y = &j->call->out[0];
    const float scale = j->call->attr.embed.scale;
    int64_t begin, end;
    och_cpu_share(y->rows, me, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        int32_t id = och_cpu_row_i32(&j->call->in[OCH_EMBED_IDS], i);
        float *dst = och_cpu_row(y, i);
        if (table->layout == OCH_LAYOUT_NATIVE)
            och_format_decode_row(table->dtype, (const char *)table->host + (uint64_t)id * table->row_bytes, dst,
                                  (uint64_t)table->cols);
        else
            och_cpu_unpack_row(table->dtype, table->cols, table->host, id, dst);
        if (scale != 1.0f)
            for (int64_t k = 0; k < y->cols; k++) dst[k] *= scale;
    }
}

/* Numbers of rows, all of them in [0, n). */
static och_status check_rows(const char *op, const och_tensor *rows, int64_t n, och_err *err) {
    for (int64_t i = 0; i < rows->rows; i++) {
        int32_t r = och_cpu_row_i32(rows, i);
        if (r < 0 || r >= n)
            return och_err_set(err, OCH_RANGE, "op %s: row %lld: expected a number of 0 to %lld, found %d", op, (long long)i,
                               (long long)n - 1, r);
    }
    return OCH_OK;
}

och_status och_cpu_embed_run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    OCH_TRY(check_rows("embed", &c->in[OCH_EMBED_IDS], c->in[OCH_EMBED_TABLE].rows, err));
    return rows_run(ctx, c, embed_member);
}

static void gather_member(void *arg, const och_pool_member *me) {
    const job *j = arg;
    const och_tensor *y = &j->call->out[0];
    int64_t begin, end;
    och_cpu_share(y->rows, me, &begin, &end);
    for (int64_t i = begin; i < end; i++)
        memcpy(och_cpu_row(y, i),
               och_cpu_row(&j->call->in[OCH_GATHER_X], och_cpu_row_i32(&j->call->in[OCH_GATHER_ROWS], i)),
               (size_t)y->cols * sizeof(float));
}

och_status och_cpu_gather_run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    OCH_TRY(check_rows("gather", &c->in[OCH_GATHER_ROWS], c->in[OCH_GATHER_X].rows, err));
    return rows_run(ctx, c, gather_member);
}

/* ---- norm, gate, sum, rotation ---- */

static void rms_norm_member(void *arg, const och_pool_member *me) {
    const job *j = arg;
    const och_attr_rms_norm *a = &j->call->attr.rms_norm;
    const och_tensor *w = &j->call->in[OCH_RMS_NORM_W], *residual = &j->call->in[OCH_RMS_NORM_RESIDUAL], *y = &j->call->out[0];
    int64_t begin, end;
    och_cpu_share(y->rows, me, &begin, &end);
    for (int64_t i = begin; i < end; i++)
        for (int64_t g = 0; g < y->cols; g += w->cols)
            j->kernels->rms_norm(och_cpu_row(&j->call->in[OCH_RMS_NORM_X], i) + g, w->host, a->eps, a->add_one ? 1.0f : 0.0f,
                                 och_tensor_present(residual) ? och_cpu_row(residual, i) + g : NULL, och_cpu_row(y, i) + g,
                                 w->cols);
}

och_status och_cpu_rms_norm_run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    (void)err;
    return rows_run(ctx, c, rms_norm_member);
}

static void glu_member(void *arg, const och_pool_member *me) {
    const job *j = arg;
    int64_t begin, end;
    och_cpu_share(j->call->out[0].rows, me, &begin, &end);
    for (int64_t i = begin; i < end; i++)
        j->kernels->glu(j->call->attr.glu.act, och_cpu_row(&j->call->in[OCH_GLU_GATE], i),
                        och_cpu_row(&j->call->in[OCH_GLU_UP], i), och_cpu_row(&j->call->out[0], i), j->call->out[0].cols);
}

och_status och_cpu_glu_run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    (void)err;
    return rows_run(ctx, c, glu_member);
}

static void add_member(void *arg, const och_pool_member *me) {
    const job *j = arg;
    int64_t begin, end;
    och_cpu_share(j->call->out[0].rows, me, &begin, &end);
    for (int64_t i = begin; i < end; i++)
        j->kernels->add(och_cpu_row(&j->call->in[0], i), och_cpu_row(&j->call->in[1], i), och_cpu_row(&j->call->out[0], i),
                        j->call->out[0].cols);
}

och_status och_cpu_add_run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    (void)err;
    return rows_run(ctx, c, add_member);
}

static void rope_member(void *arg, const och_pool_member *me) {
    const job *j = arg;
    const och_attr_rope *a = &j->call->attr.rope;
    int64_t begin, end;
    och_cpu_share(j->call->out[0].rows, me, &begin, &end);
    for (int64_t i = begin; i < end; i++)
        for (int64_t h = 0; h < a->n_heads; h++)
            j->kernels->rope(a, och_cpu_row(&j->call->in[OCH_ROPE_X], i) + h * a->head_dim,
                             och_cpu_row(&j->call->in[OCH_ROPE_TABLE], i), och_cpu_row(&j->call->out[0], i) + h * a->head_dim);
}

och_status och_cpu_rope_run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    (void)err;
    return rows_run(ctx, c, rope_member);
}
