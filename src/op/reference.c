/* What the references share: threads and cache elements. */
#include "op/def.h"

#include "base/half.h"
#include "dev/cpu/cpu.h"
#include "quant/fp8.h"

#include <string.h>

static och_pool *pool_of(const och_device *device) {
    return strcmp(device->info.backend, "cpu") == 0 ? och_cpu_pool((och_device *)device) : NULL;
}

int och_op_ref_threads(const och_device *device) {
    och_pool *pool = pool_of(device);
    return pool ? och_pool_size(pool) : 1;
}

void och_op_ref_run(const och_op_ctx *ctx, och_pool_fn fn, void *arg) {
    och_pool *pool = pool_of(ctx->queue->device);
    if (pool) {
        och_pool_run(pool, fn, arg);
    } else {
        och_pool_member me = {NULL, 0, 1};
        fn(arg, &me);
    }
}

void och_op_cache_load(const och_tensor *cache, uint64_t i, float *dst, int64_t n) {
    if (cache->dtype == OCH_DTYPE_F32) {
        memcpy(dst, (const float *)cache->host + i, (size_t)n * sizeof *dst);
    } else if (cache->dtype == OCH_DTYPE_F8_E4M3) {
        for (int64_t j = 0; j < n; j++) dst[j] = och_e4m3_to_f32(((const uint8_t *)cache->host)[i + (uint64_t)j]);
    } else {
        const uint16_t *src = (const uint16_t *)cache->host + i;
        if (cache->dtype == OCH_DTYPE_F16)
            for (int64_t j = 0; j < n; j++) dst[j] = och_f16_to_f32(src[j]);
        else
            for (int64_t j = 0; j < n; j++) dst[j] = och_bf16_to_f32(src[j]);
    }
}
