/* The matrix kernels with AVX2, FMA and F16C. */
#define MX_W 8
#define MX_NAME sim_mx_kernels_avx2
#include "isa/matrix_kernel.inc.h"
