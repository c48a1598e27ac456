#include "op/cpu/simd_avx512.h"

#include "op/cpu/kernels.inc.h"
