/* The fast CPU provider: every op, on the device "cpu", for the instruction sets of kernels.h. */
#ifndef OCH_OP_CPU_CPU_OPS_H
#define OCH_OP_CPU_CPU_OPS_H

#include "op/op.h"

extern const och_op_provider och_op_cpu_providers[];
extern const int och_op_cpu_provider_count;

#endif
