#include "op/cpu/simd_avx2.h"

#include "op/cpu/kernels.inc.h"
