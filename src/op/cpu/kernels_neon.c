#include "op/cpu/simd_neon.h"

#include "op/cpu/kernels.inc.h"
