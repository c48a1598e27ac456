/* Launches of kernels/sample.ok. */
#include "op/gpu/gpu.h"

#include "base/size.h"

static och_status sample_kernel(const och_device *d, const och_gpu_kernel **out_k, och_err *err) {
    return och_gpu_kernel_get(d, "sample", out_k, err, "WAVES=%d", 8);
}

och_status och_gpu_sample_supports(const och_device *d, const och_op_call *c, och_err *err) {
    (void)c;
    return sample_kernel(d, NULL, err);
}

och_status och_gpu_sample_run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    const och_gpu_kernel *k;
    if (!c->in[OCH_SAMPLE_LOGITS].rows) return OCH_OK;
    OCH_TRY(sample_kernel(ctx->queue->device, &k, err));
    och_kl_actual args[] = {och_gpu_tensor("logits", &c->in[OCH_SAMPLE_LOGITS]), och_gpu_tensor("numbers", &c->in[OCH_SAMPLE_NUMBERS]),
                            och_gpu_tensor("draws", &c->in[OCH_SAMPLE_DRAWS]), och_gpu_tensor("id", &c->out[0])};
    return och_gpu_launch(ctx, k, args, OCH_COUNT(args), err);
}
