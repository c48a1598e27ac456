/* Lane functions for hosts with AVX2, FMA and F16C: see valu.h. */
#define SIM_LEVEL avx2
#include "isa/valu_cores.inc.h"
