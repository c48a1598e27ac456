/* Lane functions for hosts with AVX-512: see valu.h. */
#define SIM_LEVEL avx512
#include "isa/valu_cores.inc.h"
