/* Launches of rotations and of a token's way into the cache (kernels/rope.ok). */
#include "op/gpu/gpu.h"

#include "base/size.h"

static och_status rope_kernel(const och_device *d, const och_attr_rope *a, const och_gpu_kernel **out_k, och_err *err) {
    return och_gpu_kernel_get(d, "rope", out_k, err, "HALF=%s", a->style == OCH_ROPE_HALF ? "true" : "false");
}

och_status och_gpu_rope_supports(const och_device *d, const och_op_call *c, och_err *err) {
    return rope_kernel(d, &c->attr.rope, NULL, err);
}

och_status och_gpu_rope_run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    const och_gpu_kernel *k;
    OCH_TRY(rope_kernel(ctx->queue->device, &c->attr.rope, &k, err));
    och_kl_actual args[] = {och_gpu_tensor("x", &c->in[OCH_ROPE_X]), och_gpu_tensor("table", &c->in[OCH_ROPE_TABLE]),
                            och_gpu_tensor("y", &c->out[0]), och_gpu_int("head_dim", c->attr.rope.head_dim)};
    return och_gpu_launch(ctx, k, args, OCH_COUNT(args), err);
}

static och_status kv_kernel(const och_device *d, och_dtype t, const och_attr_kv *a, const och_gpu_kernel **out_k,
                            och_err *err) {
    char cache[OCH_GPU_CACHE_SPEC_BYTES];
    och_gpu_cache_spec(d, t, cache);
    return och_gpu_kernel_get(d, "kv_write", out_k, err, "%s,BT=%d", cache, a->block_tokens);
}

och_status och_gpu_kv_write_supports(const och_device *d, const och_op_call *c, och_err *err) {
    return kv_kernel(d, c->out[0].dtype, &c->attr.kv_write, NULL, err);
}

och_status och_gpu_kv_write_run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    const och_gpu_kernel *k;
    OCH_TRY(kv_kernel(ctx->queue->device, c->out[0].dtype, &c->attr.kv_write, &k, err));
    och_kl_actual args[] = {och_gpu_tensor("k", &c->in[OCH_KV_WRITE_K]), och_gpu_tensor("v", &c->in[OCH_KV_WRITE_V]),
                            och_gpu_tensor("slots", &c->in[OCH_KV_WRITE_SLOTS]), och_gpu_tensor("kcache", &c->out[0]),
                            och_gpu_tensor("vcache", &c->out[1]), och_gpu_int("head_dim", c->attr.kv_write.head_dim)};
    return och_gpu_launch(ctx, k, args, OCH_COUNT(args), err);
}

#define MANY 65 /* tokens from which a workgroup takes several: with fewer there would be too few workgroups */

static och_status qkv_kernel(const och_device *d, const och_op_call *c, bool rows, const och_gpu_kernel **out_k, och_err *err) {
    const och_attr_qkv_post *a = &c->attr.qkv_post;
    char cache[OCH_GPU_CACHE_SPEC_BYTES];
    och_gpu_cache_spec(d, c->out[1].dtype, cache);
    return och_gpu_kernel_get(d, rows ? "qkv_rows" : "qkv_post", out_k, err, "%s,HD=%d,BT=%d,HALF=%s,ADD1=%s%s", cache, a->kv.head_dim,
                              a->kv.block_tokens, a->rope.style == OCH_ROPE_HALF ? "true" : "false",
                              a->norm.add_one ? "true" : "false", rows && a->rope.n_heads % 4 ? ",H=1" : "");
}

/* Whether many tokens may go several a workgroup: what a plan knows. */
static bool may_take_rows(const och_op_call *c) {
    int hd = c->attr.qkv_post.kv.head_dim;
    return (hd == 64 || hd == 128 || hd == 256) && c->attr.qkv_post.rope.rot_dim % 8 == 0;
}

/* A head's norm is another chain of sums there. */
static bool takes_rows(const och_op_call *c, bool invariant) {
    const och_tensor *all[] = {&c->in[OCH_QKV_POST_Q],     &c->in[OCH_QKV_POST_K],     &c->in[OCH_QKV_POST_V], &c->in[OCH_QKV_POST_QNORM],
                               &c->in[OCH_QKV_POST_KNORM], &c->in[OCH_QKV_POST_TABLE], &c->out[0],             &c->out[1],
                               &c->out[2]};
    bool norms = och_tensor_present(&c->in[OCH_QKV_POST_QNORM]) || och_tensor_present(&c->in[OCH_QKV_POST_KNORM]);
    return c->in[OCH_QKV_POST_Q].rows >= MANY && may_take_rows(c) && !(invariant && norms) && och_gpu_width(c->attr.qkv_post.kv.head_dim, all, OCH_COUNT(all)) == 4;
}

och_status och_gpu_qkv_post_supports(const och_device *d, const och_op_call *c, och_err *err) {
    if (may_take_rows(c)) {
        och_status st = qkv_kernel(d, c, true, NULL, err);
        if (st != OCH_OK && !och_gpu_absent(st)) return st;
        och_err_clear(err);
    }
    return qkv_kernel(d, c, false, NULL, err);
}

och_status och_gpu_qkv_post_run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    const och_device *d = ctx->queue->device;
    const och_gpu_kernel *k = NULL;
    if (och_op_one_row(c, ctx)) return OCH_OK;
    if (takes_rows(c, ctx->batch_invariant)) {
        och_status st = qkv_kernel(d, c, true, &k, err);
        if (st != OCH_OK && !och_gpu_absent(st)) return st;
        if (st != OCH_OK) {
            och_err_clear(err);
            k = NULL;
        }
    }
    if (!k) OCH_TRY(qkv_kernel(d, c, false, &k, err));
    const och_tensor *table = &c->in[OCH_QKV_POST_TABLE];
    och_kl_actual args[] = {och_gpu_tensor("q", &c->in[OCH_QKV_POST_Q]),
                            och_gpu_tensor("k", &c->in[OCH_QKV_POST_K]),
                            och_gpu_tensor("v", &c->in[OCH_QKV_POST_V]),
                            och_gpu_vector("qnorm", &c->in[OCH_QKV_POST_QNORM]),
                            och_gpu_vector("knorm", &c->in[OCH_QKV_POST_KNORM]),
                            och_gpu_tensor("table", table),
                            och_gpu_tensor("slots", &c->in[OCH_QKV_POST_SLOTS]),
                            och_gpu_tensor("y", &c->out[0]),
                            och_gpu_tensor("kcache", &c->out[1]),
                            och_gpu_tensor("vcache", &c->out[2]),
                            och_gpu_real("eps", (double)c->attr.qkv_post.norm.eps)};
    if (!table->cols) args[5] = (och_kl_actual){.name = "table"}; /* nothing is turned */
    return och_gpu_launch(ctx, k, args, OCH_COUNT(args), err);
}
