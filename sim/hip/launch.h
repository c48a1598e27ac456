/* Making kernel ops. */
#ifndef SIM_HIP_LAUNCH_H
#define SIM_HIP_LAUNCH_H

#include "hip/hip.h"

typedef struct sim_launch_request {
    hipFunction_t f;
    void *host;              /* what the caller named, for hipGraphKernelNodeGetParams */
    uint64_t grid[3];        /* workgroups, or work-items where in_items */
    uint32_t block[3];
    bool in_items, cooperative;
    size_t lds_bytes;
    void **params, **extra;
    uint64_t multigrid;      /* device address of what grids share; 0: none */
    hipEvent_t start, stop;
} sim_launch_request;

/* Checks it as the runtime does and copies its arguments. */
hipError_t sim_launch_make(const sim_launch_request *r, sim_op **out);
/* The same op with other arguments, for graphs: every field of r is used. */
hipError_t sim_launch_submit(const sim_launch_request *r, hipStream_t stream);
/* Moves what the thread declared to the op; where nothing was and counters are on, the allocations of its arguments. */
hipError_t sim_declared_take(sim_op *op, const och_obj_kernel *info);
/* Workgroups of f that a multiprocessor holds at once. */
int sim_blocks_mp(hipFunction_t f, unsigned threads, size_t dynamic_lds);

#endif
