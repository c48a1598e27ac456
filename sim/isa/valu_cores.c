/* Lane functions for any host: see valu.h. */
#define SIM_LEVEL generic
#include "isa/valu_cores.inc.h"
