/* Allocations, what is known of a pointer, and advice. */
#include "hip/hip.h"

#include "hip/graph.h"

#include <string.h>

bool sim_memory_find(const void *p, sim_range *out_range, sim_alloc **out_alloc) {
    sim_range r;
    if (!sim_hip.space || !sim_space_find(sim_hip.space, (uint64_t)(uintptr_t)p, &r) || r.freed) return false;
    if (out_range) *out_range = r;
    if (out_alloc) *out_alloc = r.user;
    return true;
}

bool sim_is_known(const void *p) { return sim_memory_find(p, NULL, NULL); }

void *sim_host_of(const void *p, uint64_t bytes) {
    sim_range r;
    /* what no allocation holds is the host's own memory, unless its address is one that allocations have */
    uint64_t at = (uint64_t)(uintptr_t)p;
    if (!sim_hip.space) return (void *)(uintptr_t)p;
    if (sim_space_find(sim_hip.space, at, &r) && !r.freed) return sim_space_host(sim_hip.space, at, bytes);
    return sim_space_owns(sim_hip.space, at, bytes) ? NULL : (void *)(uintptr_t)p;
}

/* Takes bytes of the device's budget, or says what is missing. Lock held. */
static bool take(sim_device *d, uint64_t bytes) {
    if (!d) return true;
    if (bytes > d->limit_bytes - d->used_bytes) return false;
    d->used_bytes += bytes;
    return true;
}

static hipError_t alloc_at(sim_device *dev, uint64_t bytes, uint64_t align, sim_mem_kind kind, unsigned flags, void *registered,
                           uint64_t *out_addr) {
    hipError_t e = sim_quirk_count(SIM_QUIRK_fail_alloc, &sim_hip.n_allocs, hipErrorOutOfMemory);
    if (e != hipSuccess) return e;
    sim_alloc *a = och_calloc(1, sizeof *a);
    if (!a) return hipErrorOutOfMemory;
    sim_device *charged = kind == SIM_MEM_PINNED ? NULL : dev;
    pthread_mutex_lock(&sim_hip.lock);
    bool fits = take(charged, bytes);
    pthread_mutex_unlock(&sim_hip.lock);
    if (!fits) {
        och_free(a);
        return hipErrorOutOfMemory;
    }
    och_err err;
    och_err_clear(&err);
    /* the host reaches the memory of a board that shares it, and pinned and managed memory always */
    bool host_visible = kind != SIM_MEM_DEVICE || (dev && dev->board.integrated);
    och_status st = registered ? sim_space_register(sim_hip.space, registered, bytes, &err)
                               : sim_space_alloc(sim_hip.space, bytes, align, kind, dev ? dev->ordinal : -1, host_visible,
                                                 out_addr, &err);
    if (st != OCH_OK) {
        pthread_mutex_lock(&sim_hip.lock);
        if (charged) charged->used_bytes -= bytes;
        pthread_mutex_unlock(&sim_hip.lock);
        och_free(a);
        return registered ? hipErrorHostMemoryAlreadyRegistered : hipErrorOutOfMemory;
    }
    if (registered) *out_addr = (uint64_t)(uintptr_t)registered;
    *a = (sim_alloc){.dev = charged, .addr = *out_addr, .bytes = bytes, .flags = flags, .managed = kind == SIM_MEM_MANAGED,
                     .registered = registered != NULL, .preferred = hipInvalidDeviceId, .prefetched = hipInvalidDeviceId};
    if (sim_space_mark(sim_hip.space, *out_addr, false, flags, a, &err) == OCH_OK) return hipSuccess;
    och_log(OCH_LOG_ERROR, "%s", err.message);
    return hipErrorOutOfMemory;
}

hipError_t sim_memory_alloc(sim_device *dev, uint64_t bytes, uint64_t align, sim_mem_kind kind, unsigned flags,
                            uint64_t *out_addr) {
    return alloc_at(dev, bytes, align, kind, flags, NULL, out_addr);
}

hipError_t sim_memory_free(uint64_t addr) {
    sim_range r;
    sim_alloc *a;
    if (!sim_memory_find((void *)(uintptr_t)addr, &r, &a) || r.lo != addr || !a) return hipErrorInvalidValue;
    och_err err;
    och_err_clear(&err);
    if (sim_space_free(sim_hip.space, addr, &err) != OCH_OK) return hipErrorInvalidValue;
    pthread_mutex_lock(&sim_hip.lock);
    if (a->dev) a->dev->used_bytes -= a->bytes;
    if (a->from_pool) sim_pool_returned(a->pool, a->bytes);
    pthread_mutex_unlock(&sim_hip.lock);
    och_free(a);
    return hipSuccess;
}

/* ---- device memory ---- */
static hipError_t malloc_kind(void **ptr, size_t size, sim_mem_kind kind, unsigned flags) {
    if (!ptr) return hipErrorInvalidValue;
    *ptr = NULL;
    if (!size) return hipSuccess;
    uint64_t addr;
    hipError_t e = sim_memory_alloc(sim_device_current(), size, 256, kind, flags, &addr);
    if (e == hipSuccess) *ptr = (void *)(uintptr_t)addr;
    return e;
}

hipError_t sim_hipMalloc(void **ptr, size_t size) { return malloc_kind(ptr, size, SIM_MEM_DEVICE, 0); }

hipError_t sim_hipExtMallocWithFlags(void **ptr, size_t sizeBytes, unsigned int flags) {
    if (flags == hipMallocSignalMemory) {
        if (sizeBytes != 8) return hipErrorInvalidValue;
        return malloc_kind(ptr, sizeBytes, SIM_MEM_PINNED, flags);
    }
    if (flags != hipDeviceMallocDefault && flags != hipDeviceMallocFinegrained && flags != hipDeviceMallocUncached &&
        flags != hipDeviceMallocContiguous)
        return hipErrorInvalidValue;
    return malloc_kind(ptr, sizeBytes, SIM_MEM_DEVICE, flags);
}

hipError_t sim_hipMallocManaged(void **dev_ptr, size_t size, unsigned int flags) {
    if (!dev_ptr || !size || (flags != hipMemAttachGlobal && flags != hipMemAttachHost)) return hipErrorInvalidValue;
    sim_device *d = sim_device_current();
    /* without HMM managed memory is pinned host memory */
    return malloc_kind(dev_ptr, size, d->board.managed ? SIM_MEM_MANAGED : SIM_MEM_PINNED, flags);
}

static hipError_t pitched(void **ptr, size_t *pitch, size_t width, size_t height, size_t depth) {
    if (!ptr || !pitch) return hipErrorInvalidValue;
    *ptr = NULL;
    *pitch = 0;
    if (!width || !height || !depth) return hipSuccess;
    uint64_t row, bytes;
    if (!och_u64_align(width, 256, &row) || !och_u64_mul(row, height, &bytes) || !och_u64_mul(bytes, depth, &bytes))
        return hipErrorInvalidValue;
    hipError_t e = malloc_kind(ptr, bytes, SIM_MEM_DEVICE, 0);
    if (e == hipSuccess) *pitch = row;
    return e;
}

hipError_t sim_hipMallocPitch(void **ptr, size_t *pitch, size_t width, size_t height) {
    return pitched(ptr, pitch, width, height, 1);
}

hipError_t sim_hipMalloc3D(hipPitchedPtr *pitchedDevPtr, hipExtent extent) {
    if (!pitchedDevPtr) return hipErrorInvalidValue;
    size_t pitch;
    hipError_t e = pitched(&pitchedDevPtr->ptr, &pitch, extent.width, extent.height, extent.depth);
    if (e != hipSuccess) return e;
    pitchedDevPtr->pitch = pitch;
    pitchedDevPtr->xsize = extent.width;
    pitchedDevPtr->ysize = extent.height;
    return hipSuccess;
}

/* Waits for the work that may use the memory, as hipFree does. */
static hipError_t free_of(void *ptr, bool host) {
    if (!ptr) return hipSuccess;
    sim_range r;
    sim_alloc *a;
    if (!sim_memory_find(ptr, &r, &a) || r.lo != (uint64_t)(uintptr_t)ptr || !a || a->registered ||
        (host && r.kind == SIM_MEM_DEVICE))
        return hipErrorInvalidValue;
    pthread_mutex_lock(&sim_hip.lock);
    sim_graph_mem *m = a->graph ? sim_graph_mem_find(r.lo) : NULL;
    for (int i = 0; i < sim_hip.n_devices; i++)
        if (r.device < 0 || r.device == i || r.kind != SIM_MEM_DEVICE) sim_device_wait(&sim_hip.devices[i]);
    hipError_t e = hipSuccess;
    if (a->graph) {
        /* the memory is its graph's; the caller gives back what a launch allocated */
        e = m && m->live ? hipSuccess : hipErrorInvalidValue;
        if (m) m->live = false;
    }
    bool graph = a->graph;
    pthread_mutex_unlock(&sim_hip.lock);
    return graph ? e : sim_memory_free(r.lo);
}

hipError_t sim_hipFree(void *ptr) { return free_of(ptr, false); }
hipError_t sim_hipHostFree(void *ptr) { return free_of(ptr, true); }

/* ---- host memory ---- */
hipError_t sim_hipHostMalloc(void **ptr, size_t size, unsigned int flags) {
    const unsigned known = hipHostMallocPortable | hipHostMallocMapped | hipHostMallocWriteCombined | hipHostMallocUncached |
                           hipHostMallocNumaUser | hipHostMallocCoherent | hipHostMallocNonCoherent;
    if ((flags & ~known) || ((flags & hipHostMallocCoherent) && (flags & hipHostMallocNonCoherent)))
        return hipErrorInvalidValue;
    return malloc_kind(ptr, size, SIM_MEM_PINNED, flags);
}

hipError_t sim_hipHostRegister(void *hostPtr, size_t sizeBytes, unsigned int flags) {
    if (!hostPtr || !sizeBytes || (flags & ~15u)) return hipErrorInvalidValue;
    uint64_t addr;
    if (sim_is_known(hostPtr)) return hipErrorHostMemoryAlreadyRegistered;
    return alloc_at(sim_device_current(), sizeBytes, 1, SIM_MEM_PINNED, flags, hostPtr, &addr);
}

hipError_t sim_hipHostUnregister(void *hostPtr) {
    sim_range r;
    sim_alloc *a;
    if (!hostPtr) return hipErrorInvalidValue;
    if (!sim_memory_find(hostPtr, &r, &a) || !a || !a->registered || r.lo != (uint64_t)(uintptr_t)hostPtr)
        return hipErrorHostMemoryNotRegistered;
    pthread_mutex_lock(&sim_hip.lock);
    for (int i = 0; i < sim_hip.n_devices; i++) sim_device_wait(&sim_hip.devices[i]);
    pthread_mutex_unlock(&sim_hip.lock);
    return sim_memory_free(r.lo);
}

hipError_t sim_hipHostGetDevicePointer(void **devPtr, void *hstPtr, unsigned int flags) {
    sim_range r;
    if (!devPtr || flags) return hipErrorInvalidValue;
    *devPtr = NULL;
    if (!hstPtr || !sim_memory_find(hstPtr, &r, NULL) || r.kind == SIM_MEM_DEVICE) return hipErrorInvalidValue;
    *devPtr = hstPtr;
    return hipSuccess;
}

hipError_t sim_hipHostGetFlags(unsigned int *flagsPtr, void *hostPtr) {
    sim_range r;
    sim_alloc *a;
    if (!flagsPtr || !hostPtr || !sim_memory_find(hostPtr, &r, &a) || !a ||
        r.kind == SIM_MEM_DEVICE) return hipErrorInvalidValue;
    *flagsPtr = a->flags;
    return hipSuccess;
}

/* ---- sizes ---- */
hipError_t sim_hipMemGetInfo(size_t *free, size_t *total) {
    if (!free && !total) return hipErrorInvalidValue;
    sim_device *d = sim_device_current();
    pthread_mutex_lock(&sim_hip.lock);
    if (free) *free = d->limit_bytes - d->used_bytes;
    if (total) *total = d->limit_bytes;
    pthread_mutex_unlock(&sim_hip.lock);
    return hipSuccess;
}

hipError_t sim_hipMemPtrGetInfo(void *ptr, size_t *size) {
    sim_range r;
    if (!size) return hipErrorInvalidValue;
    *size = 0;
    if (!ptr) return hipSuccess;
    if (!sim_memory_find(ptr, &r, NULL)) return hipErrorInvalidValue;
    *size = r.hi - r.lo;
    return hipSuccess;
}

hipError_t sim_hipMemGetAddressRange(hipDeviceptr_t *pbase, size_t *psize, hipDeviceptr_t dptr) {
    sim_range r;
    if (!sim_memory_find(dptr, &r, NULL)) return hipErrorNotFound;
    if (pbase) *pbase = (void *)(uintptr_t)r.lo;
    if (psize) *psize = r.hi - r.lo;
    return hipSuccess;
}
