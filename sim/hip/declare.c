/* What a launch reads and writes, as its caller says it: ochreSimDeclare, an export of the simulator alone. */
#include "base/env.h"
#include "hip/launch.h"

#include <string.h>

hipError_t sim_ochreSimDeclare(const void *ptr, size_t bytes, unsigned int use) {
    sim_thread *t = sim_thread_get();
    if (!t) return hipErrorOutOfMemory;
    sim_range r;
    uint64_t addr = (uint64_t)(uintptr_t)ptr;
    if (!bytes || !use || use & ~(unsigned)(SIM_DECLARE_READ | SIM_DECLARE_WRITTEN)) return hipErrorInvalidValue;
    if (!sim_space_find(sim_hip.space, addr, &r) || r.freed || bytes > r.hi - addr) return hipErrorInvalidValue;
    sim_buffer *b = och_realloc_array(t->declared, t->n_declared + 1, sizeof *b);
    if (!b) return hipErrorOutOfMemory;
    t->declared = b;
    b[t->n_declared++] = (sim_buffer){.addr = addr, .n_bytes = bytes, .read = use & SIM_DECLARE_READ,
                                      .written = use & SIM_DECLARE_WRITTEN};
    return hipSuccess;
}

/* Whole allocations, from their beginning: the pointer may be into the middle. */
static hipError_t of_arguments(sim_op *op, const och_obj_kernel *info) {
    sim_buffer *b = och_malloc_array(info->n_args + 1, sizeof *b);
    if (!b) return hipErrorOutOfMemory;
    size_t n = 0;
    for (size_t i = 0; i < info->n_args; i++) {
        const och_obj_arg *a = &info->args[i];
        uint64_t addr;
        sim_range r;
        if (a->kind != OCH_ARG_GLOBAL_BUFFER || a->size != sizeof addr || a->offset + 8ull > op->u.kernel.kernarg_bytes)
            continue;
        memcpy(&addr, op->u.kernel.kernarg + a->offset, sizeof addr);
        if (sim_space_find(sim_hip.space, addr, &r) && !r.freed)
            b[n++] = (sim_buffer){.addr = r.lo, .n_bytes = r.hi - r.lo, .read = true, .written = true};
    }
    op->u.kernel.buffers = b;
    op->u.kernel.launch.n_buffers = n;
    return hipSuccess;
}

hipError_t sim_declared_take(sim_op *op, const och_obj_kernel *info) {
    sim_thread *t = sim_thread_get();
    hipError_t e = hipSuccess;
    if (t && t->n_declared) {
        op->u.kernel.buffers = t->declared;
        op->u.kernel.launch.n_buffers = t->n_declared;
        op->u.kernel.launch.declared = true;
        t->declared = NULL;
        t->n_declared = 0;
    } else if (info && och_env_flag(OCH_ENV_OCHRE_SIM_COUNT)) {
        e = of_arguments(op, info);
    }
    op->u.kernel.launch.buffers = op->u.kernel.buffers;
    return e;
}

void sim_declared_drop(sim_thread *t) {
    och_free(t->declared);
    t->declared = NULL;
    t->n_declared = 0;
}
