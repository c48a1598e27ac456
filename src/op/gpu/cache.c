/* Caches as kernels take them (kernels/cache.ok). */
#include "op/gpu/gpu.h"

#include "target/target.h"

#include <stdio.h>

void och_gpu_cache_spec(const och_device *d, och_dtype t, char out_spec[OCH_GPU_CACHE_SPEC_BYTES]) {
    och_target_id id;
    bool fp8 = t == OCH_DTYPE_F8_E4M3;
    bool fnuz = fp8 && och_target_find(d->info.arch, &id, NULL) == OCH_OK && id.target->fp8 == OCH_FP8_FNUZ;
    snprintf(out_spec, OCH_GPU_CACHE_SPEC_BYTES, "T=%s%s", fp8 ? "fp8" : och_gpu_type(t), fnuz ? ",FNUZ=true" : "");
}
