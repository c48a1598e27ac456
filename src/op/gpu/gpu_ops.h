/* The kernel provider's rows, for the list in providers.c. */
#ifndef OCH_OP_GPU_GPU_OPS_H
#define OCH_OP_GPU_GPU_OPS_H

#include "op/op.h"

extern const och_op_provider och_op_gpu_providers[];
extern const int och_op_gpu_provider_count;

#endif
