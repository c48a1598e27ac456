#include "op/cpu/cpu_ops.h"

/* A table needs a row; the count says that there is none yet. */
const och_op_provider och_op_cpu_providers[1] = {{0}};
const int och_op_cpu_provider_count = 0;
