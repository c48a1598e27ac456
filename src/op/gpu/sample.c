/* Launches of kernels/sample.ok: long rows are looked through by many workgroups, then a token is drawn by one a row. */
#include "op/gpu/gpu.h"

#include "base/size.h"

enum {
    ALONE = 4096, /* ids up to which one workgroup looks for a row's greatest */
    WAVES = 8,    /* of that workgroup, and of a part's */
    MORE = 16,    /* of the workgroup that draws from a longer row */
    READS = 8,    /* ids of a part's lane */
    PART_COLS = 3
};

static och_status sample_kernel(const och_device *d, bool split, const och_gpu_kernel **out_k, och_err *err) {
    return och_gpu_kernel_get(d, "sample", out_k, err, "WAVES=%d", split ? MORE : WAVES);
}

static och_status part_kernel(const och_device *d, const och_gpu_kernel **out_k, och_err *err) {
    return och_gpu_kernel_get(d, "sample_part", out_k, err, "WAVES=%d", WAVES);
}

/* Parts of a row; 0: it is not split. */
static int64_t parts_of(const och_device *d, const och_op_call *c) {
    int64_t v = c->in[OCH_SAMPLE_LOGITS].cols, per = (int64_t)OCH_MAX(d->info.wave_size, 1) * WAVES * READS;
    return v <= ALONE ? 0 : (v + per - 1) / per;
}

och_status och_gpu_sample_supports(const och_device *d, const och_op_call *c, och_err *err) {
    if (parts_of(d, c)) OCH_TRY(part_kernel(d, NULL, err));
    return sample_kernel(d, parts_of(d, c) > 0, NULL, err);
}

uint64_t och_gpu_sample_scratch(const och_device *d, const och_op_call *c) {
    return (uint64_t)c->in[OCH_SAMPLE_LOGITS].rows * (uint64_t)parts_of(d, c) * PART_COLS * 4 + 256;
}

och_status och_gpu_sample_run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    const och_device *d = ctx->queue->device;
    const och_gpu_kernel *k, *part_k;
    och_gpu_scratch scratch = {ctx->scratch_addr, 0, ctx->scratch_bytes};
    och_dev_addr part = {0};
    int64_t n = c->in[OCH_SAMPLE_LOGITS].rows, parts = parts_of(d, c);
    if (!n) return OCH_OK;
    OCH_TRY(sample_kernel(d, parts > 0, &k, err));
    och_kl_actual args[] = {och_gpu_tensor("logits", &c->in[OCH_SAMPLE_LOGITS]),
                            och_gpu_tensor("numbers", &c->in[OCH_SAMPLE_NUMBERS]),
                            och_gpu_tensor("draws", &c->in[OCH_SAMPLE_DRAWS]),
                            {.name = "part"},
                            och_gpu_int("parts", parts),
                            och_gpu_tensor("id", &c->out[0])};
    if (parts) {
        OCH_TRY(part_kernel(d, &part_k, err));
        OCH_TRY(och_gpu_take(&scratch, (uint64_t)(n * parts) * PART_COLS * 4, &part, err));
        args[3] = och_gpu_matrix("part", part, n * parts, PART_COLS, PART_COLS * 4);
        och_kl_actual look[] = {args[0], args[3], args[4]};
        OCH_TRY(och_gpu_launch(ctx, part_k, look, OCH_COUNT(look), err));
    }
    return och_gpu_launch(ctx, k, args, OCH_COUNT(args), err);
}
