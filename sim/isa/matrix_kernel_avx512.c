/* The matrix kernels with AVX-512. */
#define MX_W 16
#define MX_NAME sim_mx_kernels_avx512
#include "isa/matrix_kernel.inc.h"
