/* Attention over paged state (kernels/attention.ok): each token's positions are cut into splits of CHUNK, whose results are
 * merged. The number of splits follows from the table's capacity and the window, never from what a step holds. */
#include "op/gpu/gpu.h"

#include "base/size.h"

#define CHUNK 512

/* Query heads that a workgroup takes: the most that divide the group and leave registers for their sums. */
static int heads_together(const och_attr_attention *a) {
    int group = a->n_heads / a->kv.n_kv_heads, most = a->kv.head_dim > 128 ? 4 : 8;
    while (group % most) most--;
    return most;
}

static int64_t splits_of(const och_op_call *c) {
    const och_attr_attention *a = &c->attr.attention;
    int64_t reach = c->in[OCH_ATTENTION_TABLES].cols * a->kv.block_tokens;
    if (a->window > 0) reach = OCH_MIN(reach, (int64_t)a->window + a->kv.block_tokens);
    return OCH_MAX((reach + CHUNK - 1) / CHUNK, 1);
}

static och_status part_kernel(const och_device *d, const och_op_call *c, const och_gpu_kernel **out_k, och_err *err) {
    const och_attr_attention *a = &c->attr.attention;
    return och_gpu_kernel_get(d, "attention_part", out_k, err, "T=%s,HD=%d,GG=%d,BT=%d,CHUNK=%d",
                              och_gpu_type(c->in[OCH_ATTENTION_K].dtype), a->kv.head_dim, heads_together(a), a->kv.block_tokens, CHUNK);
}

static och_status merge_kernel(const och_device *d, const och_op_call *c, const och_gpu_kernel **out_k, och_err *err) {
    return och_gpu_kernel_get(d, "attention_merge", out_k, err, "HD=%d", c->attr.attention.kv.head_dim);
}

och_status och_gpu_attention_supports(const och_device *d, const och_op_call *c, och_err *err) {
    const och_attr_attention *a = &c->attr.attention;
    if (a->kv.head_dim % 8 || a->kv.head_dim > 512)
        return och_err_set(err, OCH_UNSUPPORTED, "takes heads of 8, 16, .. 512 elements, these have %d", a->kv.head_dim);
    if (CHUNK % a->kv.block_tokens)
        return och_err_set(err, OCH_UNSUPPORTED, "takes blocks of a number of tokens that divides %d, these have %d", CHUNK, a->kv.block_tokens);
    const och_gpu_kernel *k;
    OCH_TRY(part_kernel(d, c, &k, err));
    return merge_kernel(d, c, &k, err);
}

static uint64_t part_rows(const och_op_call *c) {
    return (uint64_t)c->in[OCH_ATTENTION_Q].rows * (uint64_t)c->attr.attention.n_heads * (uint64_t)splits_of(c);
}

uint64_t och_gpu_attention_scratch(const och_device *d, const och_op_call *c) {
    (void)d;
    return part_rows(c) * (uint64_t)(c->attr.attention.kv.head_dim + 4) * 4 + 256;
}

och_status och_gpu_attention_run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    const och_attr_attention *a = &c->attr.attention;
    const och_gpu_kernel *k;
    och_gpu_scratch scratch = {ctx->scratch_addr, 0, ctx->scratch_bytes};
    och_dev_addr part;
    uint64_t rows = part_rows(c);
    int64_t width = a->kv.head_dim + 4;
    OCH_TRY(och_gpu_take(&scratch, rows * (uint64_t)width * 4, &part, err));
    och_kl_actual part_arg = och_gpu_matrix("part", part, (int64_t)rows, width, (uint64_t)width * 4);
    OCH_TRY(part_kernel(ctx->queue->device, c, &k, err));
    och_kl_actual args[] = {
        och_gpu_tensor("q", &c->in[OCH_ATTENTION_Q]), och_gpu_tensor("kcache", &c->in[OCH_ATTENTION_K]),
        och_gpu_tensor("vcache", &c->in[OCH_ATTENTION_V]), och_gpu_tensor("tables", &c->in[OCH_ATTENTION_TABLES]),
        och_gpu_tensor("seqs", &c->in[OCH_ATTENTION_SEQS]), och_gpu_tensor("positions", &c->in[OCH_ATTENTION_POSITIONS]), part_arg,
        och_gpu_real("scale", (double)a->scale), och_gpu_real("cap", (double)a->softcap), och_gpu_int("window", a->window),
        och_gpu_int("kv_heads", a->kv.n_kv_heads), och_gpu_int("heads", a->n_heads), och_gpu_int("splits", splits_of(c))};
    OCH_TRY(och_gpu_launch(ctx, k, args, OCH_COUNT(args), err));
    OCH_TRY(merge_kernel(ctx->queue->device, c, &k, err));
    och_kl_actual merge[] = {part_arg, och_gpu_tensor("y", &c->out[0]), och_gpu_int("splits", splits_of(c))};
    return och_gpu_launch(ctx, k, merge, OCH_COUNT(merge), err);
}
