/* The matrix kernels for any host. */
#define MX_W 4
#define MX_NAME sim_mx_kernels_generic
#include "isa/matrix_kernel.inc.h"
