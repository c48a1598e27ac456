/* The list of providers beyond the references. A table joins by a line here; no code runs before main. */
#include "op/registry.h"

#include "base/size.h"
#include "op/blas/blas.h"
#include "op/cpu/cpu_ops.h"
#include "op/gpu/gpu_ops.h"

const och_op_table och_op_tables[] = {
    {och_op_cpu_providers, &och_op_cpu_provider_count},
    {och_op_gpu_providers, &och_op_gpu_provider_count},
    {och_op_blas_providers, &och_op_blas_provider_count},
};
const int och_op_table_count = (int)OCH_COUNT(och_op_tables);
