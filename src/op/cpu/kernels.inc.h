/* The kernels, written once over the sixteen lanes of a simd_*.h that was included before, and their table. */
#include "op/cpu/kernels.h"
#include "op/cpu/math.inc.h"
#include "op/cpu/weights.inc.h"

#include "base/half.h"
#include "quant/fp8.h"

#include <float.h>
#include <math.h>

#include "op/cpu/elementwise.inc.h"

#include "op/cpu/linear.inc.h"

#include "op/cpu/attention.inc.h"

#define KERNELS_NAME_2(isa) och_cpu_kernels_##isa
#define KERNELS_NAME(isa) KERNELS_NAME_2(isa)
#define KERNELS_STR_2(isa) #isa
#define KERNELS_STR(isa) KERNELS_STR_2(isa)

const och_cpu_kernels KERNELS_NAME(SIMD_NAME) = {
    .name = KERNELS_STR(SIMD_NAME),
    .panel =
        {
#define X(sym, low, high, off, sc, book) [OCH_DTYPE_##sym] = panel_##sym,
            OCH_CPU_FORMATS(X)
#undef X
            [OCH_DTYPE_F32] = panel_F32,
            [OCH_DTYPE_F16] = panel_F16,
            [OCH_DTYPE_BF16] = panel_BF16,
        },
    .epilogue = epilogue,
    .quantise = quantise,
    .rms_norm = rms_norm,
    .glu = glu,
    .add = add,
    .rope = rope,
    .store_k = store_k,
    .store = store,
    .attn_chunk = attn_chunk,
    .attn_merge = attn_merge,
    .attn_finish = attn_finish,
};
