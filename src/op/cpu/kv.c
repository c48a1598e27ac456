/* KV_WRITE and QKV_POST. Keys lie transposed: tokens that follow one another in a block are stored together, up to
 * sixteen at a time, so that each store fills part of a row. */
#include "op/cpu/provider.h"

#include <string.h>

#define RUN 16

typedef struct job {
    const och_op_call *call;
    const och_cpu_kernels *kernels;
    const och_attr_kv *kv;
    const och_tensor *k, *v, *slots, *kcache, *vcache;
    const och_attr_qkv_post *post; /* NULL: KV_WRITE */
    uint8_t *member_mem;
    size_t member_bytes;
} job;

/* Rows from `row` on whose slots follow one another within a block. */
static int run_length(const job *j, int64_t row, int64_t end) {
    int32_t slot = och_cpu_row_i32(j->slots, row);
    int n = 1;
    while (n < RUN && row + n < end && (slot + n) % j->kv->block_tokens && och_cpu_row_i32(j->slots, row + n) == slot + n) n++;
    return n;
}

static void head(const job *j, const float *x, const och_tensor *norm, const float *table, float *y) {
    const och_attr_rms_norm *a = &j->post->norm;
    if (och_tensor_present(norm)) {
        j->kernels->rms_norm(x, norm->host, a->eps, a->add_one ? 1.0f : 0.0f, NULL, y, j->kv->head_dim);
        x = y;
    }
    j->kernels->rope(&j->post->rope, x, table, y);
}

static void member(void *arg, const och_pool_member *me) {
    const job *j = arg;
    const int64_t d = j->kv->head_dim, bt = j->kv->block_tokens;
    const size_t elem = och_dtype_get(j->kcache->dtype)->block_bytes;
    float *heads = (float *)(void *)(j->member_mem + (size_t)me->index * j->member_bytes);
    int64_t begin, end;
    och_cpu_share(j->slots->rows, me, &begin, &end);
    for (int64_t i = begin; i < end;) {
        int n = run_length(j, i, end);
        for (int r = 0; r < n && j->post; r++) {
            const float *table = och_cpu_row(&j->call->in[OCH_QKV_POST_TABLE], i + r);
            const float *q = och_cpu_row(&j->call->in[OCH_QKV_POST_Q], i + r);
            float *y = och_cpu_row(&j->call->out[0], i + r);
            for (int64_t h = 0; h < j->post->rope.n_heads; h++)
                head(j, q + h * d, &j->call->in[OCH_QKV_POST_QNORM], table, y + h * d);
        }
        int32_t slot = och_cpu_row_i32(j->slots, i);
        for (int64_t h = 0; h < j->kv->n_kv_heads && slot >= 0; h++) {
            const float *rows[RUN];
            for (int r = 0; r < n; r++) {
                rows[r] = och_cpu_row(j->k, i + r) + h * d;
                if (!j->post) continue;
                head(j, rows[r], &j->call->in[OCH_QKV_POST_KNORM], och_cpu_row(&j->call->in[OCH_QKV_POST_TABLE], i + r),
                     heads + r * d);
                rows[r] = heads + r * d;
            }
            char *k = (char *)j->kcache->host + (uint64_t)(slot / bt) * j->kcache->row_bytes;
            char *v = (char *)j->vcache->host + (uint64_t)(slot / bt) * j->vcache->row_bytes;
            j->kernels->store_k(rows, n, k + (size_t)(h * d * bt + slot % bt) * elem, bt, j->kcache->dtype, d);
            for (int r = 0; r < n; r++)
                j->kernels->store(och_cpu_row(j->v, i + r) + h * d, v + (size_t)((h * bt + slot % bt + r) * d) * elem,
                                  j->vcache->dtype, d);
        }
        i += n;
    }
}

static och_status run(const och_op_ctx *ctx, job *j, int64_t cols, och_err *err) {
    for (int64_t i = 0; i < j->slots->rows; i++) {
        int32_t slot = och_cpu_row_i32(j->slots, i);
        if (slot >= 0 && slot / j->kv->block_tokens >= j->kcache->rows)
            return och_err_set(err, OCH_RANGE, "op %s: slots row %lld: expected a block below %lld, found %d (slot %d)",
                               och_op_name(j->call->op), (long long)i, (long long)j->kcache->rows, slot / j->kv->block_tokens,
                               slot);
    }
    j->kernels = och_cpu_kernels_get(ctx->queue->device);
    och_cpu_run(ctx, j->slots->rows * cols <= OCH_CPU_ALONE, member, j);
    return OCH_OK;
}

och_status och_cpu_kv_write_run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    job j = {.call = c, .kv = &c->attr.kv_write, .k = &c->in[OCH_KV_WRITE_K], .v = &c->in[OCH_KV_WRITE_V],
             .slots = &c->in[OCH_KV_WRITE_SLOTS], .kcache = &c->out[0], .vcache = &c->out[1]};
    return run(ctx, &j, 2 * j.k->cols, err);
}

static size_t post_member_bytes(const och_op_call *c) {
    return (size_t)och_cpu_round64((uint64_t)c->attr.qkv_post.kv.head_dim * RUN * sizeof(float));
}

uint64_t och_cpu_qkv_post_scratch(const och_device *device, const och_op_call *c) {
    return (uint64_t)och_pool_size(och_cpu_pool((och_device *)(uintptr_t)device)) * post_member_bytes(c);
}

och_status och_cpu_qkv_post_run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    const och_attr_qkv_post *a = &c->attr.qkv_post;
    job j = {.call = c, .kv = &a->kv, .k = &c->in[OCH_QKV_POST_K], .v = &c->in[OCH_QKV_POST_V], .post = a,
             .slots = &c->in[OCH_QKV_POST_SLOTS], .kcache = &c->out[1], .vcache = &c->out[2],
             .member_mem = ctx->scratch, .member_bytes = post_member_bytes(c)};
    return run(ctx, &j, c->in[OCH_QKV_POST_Q].cols + 2 * j.k->cols, err);
}
