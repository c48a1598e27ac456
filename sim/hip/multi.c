/* One launch on several devices at once, and the odd calls that fit nowhere else. */
#include "hip/launch.h"

#include "base/half.h"

#include <string.h>

/* What the grids of a multi-device launch share, as the device libraries read it. */
typedef struct grids_info {
    uint64_t sync;                 /* address of a grids_sync */
    uint32_t grid, n_grids;
    uint64_t items_before, items;  /* of the grids before this one, of all */
} grids_info;
typedef struct grids_sync { uint32_t w0, w1; } grids_sync;
_Static_assert(sizeof(grids_info) == 32, "the device libraries' layout");

/* Every stream of the launches waits for what the others have been given so far. */
static hipError_t join_streams(const hipFunctionLaunchParams *list, unsigned n) {
    sim_thread *t = sim_thread_get();
    int before = t->device;
    hipError_t e = hipSuccess;
    pthread_mutex_lock(&sim_hip.lock);
    for (unsigned i = 0; e == hipSuccess && i < n; i++)
        for (unsigned j = 0; e == hipSuccess && j < n; j++) {
            sim_stream *a, *b;
            t->device = list[i].function->module->dev->ordinal;
            e = sim_stream_resolve(list[i].hStream, &a);
            t->device = list[j].function->module->dev->ordinal;
            if (e == hipSuccess) e = sim_stream_resolve(list[j].hStream, &b);
            if (e == hipSuccess && i != j && !sim_add_pending(a, b->last)) e = hipErrorOutOfMemory;
        }
    pthread_mutex_unlock(&sim_hip.lock);
    t->device = before;
    return e;
}

static hipError_t launch_all(const hipFunctionLaunchParams *list, unsigned n, unsigned flags, bool cooperative) {
    sim_thread *t = sim_thread_get();
    int before = t->device;
    uint64_t shared = 0, items = 0;
    hipError_t e = hipSuccess;
    for (unsigned i = 0; i < n; i++)
        for (unsigned j = 0; j < i; j++)
            if (list[i].function->module->dev == list[j].function->module->dev) return hipErrorInvalidDevice;
    if (cooperative) {
        e = sim_memory_alloc(&sim_hip.devices[0], 64 + n * sizeof(grids_info), 256, SIM_MEM_PINNED, 0, &shared);
        if (e != hipSuccess) return e;
        memset((void *)(uintptr_t)shared, 0, 64 + n * sizeof(grids_info));
    }
    grids_info *info = (grids_info *)(uintptr_t)(shared + 64);
    for (unsigned i = 0; cooperative && i < n; i++) {
        info[i] = (grids_info){shared, i, n, items, 0};
        const hipFunctionLaunchParams *p = &list[i];
        items += (uint64_t)p->gridDimX * p->gridDimY * p->gridDimZ * p->blockDimX * p->blockDimY * p->blockDimZ;
    }
    for (unsigned i = 0; cooperative && i < n; i++) info[i].items = items;
    if (!(flags & hipCooperativeLaunchMultiDeviceNoPreSync)) e = join_streams(list, n);
    for (unsigned i = 0; e == hipSuccess && i < n; i++) {
        const hipFunctionLaunchParams *p = &list[i];
        sim_launch_request r = {.f = p->function, .grid = {p->gridDimX, p->gridDimY, p->gridDimZ},
                                .block = {p->blockDimX, p->blockDimY, p->blockDimZ}, .lds_bytes = p->sharedMemBytes,
                                .params = p->kernelParams, .cooperative = cooperative,
                                .multigrid = cooperative ? shared + 64 + i * sizeof *info : 0};
        t->device = p->function->module->dev->ordinal;
        e = sim_launch_submit(&r, p->hStream);
    }
    if (e == hipSuccess && (cooperative || !(flags & hipCooperativeLaunchMultiDeviceNoPostSync))) e = join_streams(list, n);
    if (shared) { /* goes when the kernels have ended */
        sim_op *op = sim_op_new(SIM_OP_FREE);
        if (op) {
            op->u.memory.addr = shared;
            t->device = list[0].function->module->dev->ordinal;
            (void)sim_run_op(list[0].hStream, op, false);
        }
    }
    t->device = before;
    return e;
}

/* The runtime's form of the list: a host function each, resolved on the device of its stream. */
static hipError_t from_host(const hipLaunchParams *given, int n, unsigned flags, bool cooperative) {
    if (!given || n <= 0 || n > sim_hip.n_devices || flags > 3) return hipErrorInvalidValue;
    hipFunctionLaunchParams list[SIM_HIP_MAX_DEVICES];
    sim_thread *t = sim_thread_get();
    int before = t->device;
    hipError_t e = hipSuccess;
    for (int i = 0; e == hipSuccess && i < n; i++) {
        const hipLaunchParams *p = &given[i];
        pthread_mutex_lock(&sim_hip.lock);
        sim_stream *s;
        /* the null stream names no device: such launches have none */
        e = p->stream ? sim_stream_resolve(p->stream, &s) : hipErrorInvalidHandle;
        pthread_mutex_unlock(&sim_hip.lock);
        if (e != hipSuccess) break;
        list[i] = (hipFunctionLaunchParams){NULL, p->gridDim.x, p->gridDim.y, p->gridDim.z, p->blockDim.x, p->blockDim.y,
                                            p->blockDim.z, (unsigned)p->sharedMem, p->stream, p->args};
        t->device = s->dev->ordinal;
        e = sim_host_function_get(p->func, &list[i].function);
    }
    t->device = before;
    return e == hipSuccess ? launch_all(list, (unsigned)n, flags, cooperative) : e;
}

hipError_t sim_hipLaunchCooperativeKernelMultiDevice(hipLaunchParams *launchParamsList, int numDevices, unsigned int flags) {
    return from_host(launchParamsList, numDevices, flags, true);
}

hipError_t sim_hipExtLaunchMultiKernelMultiDevice(hipLaunchParams *launchParamsList, int numDevices, unsigned int flags) {
    return from_host(launchParamsList, numDevices, flags, false);
}

hipError_t sim_hipModuleLaunchCooperativeKernelMultiDevice(hipFunctionLaunchParams *launchParamsList, unsigned int numDevices,
                                                           unsigned int flags) {
    if (!launchParamsList || !numDevices || (int)numDevices > sim_hip.n_devices || flags > 3) return hipErrorInvalidValue;
    hipFunctionLaunchParams list[SIM_HIP_MAX_DEVICES];
    memcpy(list, launchParamsList, numDevices * sizeof *list);
    for (unsigned i = 0; i < numDevices; i++) {
        hipError_t e = sim_function_any(list[i].function, &list[i].function);
        if (e != hipSuccess) return e;
    }
    return launch_all(list, numDevices, flags, true);
}

/* There is no precompiled header. */
void sim___hipGetPCH(const char **pch, unsigned int *size) {
    if (pch) *pch = NULL;
    if (size) *size = 0;
}

/* Compilers call these for half precision on hosts without it. */
uint16_t sim___gnu_f2h_ieee(float f) { return och_f32_to_f16(f); }
float sim___gnu_h2f_ieee(uint16_t h) { return och_f16_to_f32(h); }
