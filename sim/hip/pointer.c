/* What is known of a pointer, advice, prefetch. */
#include "hip/hip.h"

#include <string.h>

/* The number that a caller of the claimed version expects. */
static hipMemoryType type_number(const sim_range *r) {
    bool device = r->kind == SIM_MEM_DEVICE || r->kind == SIM_MEM_CODE, managed = r->kind == SIM_MEM_MANAGED;
    if (sim_hip_at_least(6))
        return device ? hipMemoryTypeDevice : managed ? hipMemoryTypeManaged : r->kind == SIM_MEM_ARRAY ? hipMemoryTypeArray
            : hipMemoryTypeHost;
    /* 5.2 has no managed type: such memory is host memory there, with isManaged set */
    return (hipMemoryType)(device ? hipMemoryTypeDevice_5 : r->kind == SIM_MEM_ARRAY ? hipMemoryTypeArray_5
                           : hipMemoryTypeHost_5);
}

hipError_t sim_hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *ptr) {
    if (!attributes || !ptr) return sim_hip_at_least(7) ? hipSuccess : hipErrorInvalidValue;
    memset(attributes, 0, sizeof *attributes);
    sim_range r;
    sim_alloc *a;
    if (!sim_memory_find(ptr, &r, &a)) {
        attributes->device = hipInvalidDeviceId;
        if (!sim_hip_at_least(6)) return hipErrorInvalidValue;
        attributes->type = hipMemoryTypeUnregistered;
        return hipSuccess;
    }
    bool device = r.kind == SIM_MEM_DEVICE || r.kind == SIM_MEM_CODE;
    attributes->type = type_number(&r);
    attributes->device = r.device < 0 ? 0 : r.device;
    attributes->devicePointer = (void *)(uintptr_t)ptr;
    attributes->hostPointer = device ? NULL : (void *)(uintptr_t)ptr;
    attributes->isManaged = r.kind == SIM_MEM_MANAGED;
    attributes->allocationFlags = a ? a->flags : 0;
    return hipSuccess;
}

hipError_t sim_hipPointerGetAttribute(void *data, hipPointer_attribute attribute, hipDeviceptr_t ptr) {
    sim_range r;
    sim_alloc *a;
    if (!data || !ptr || !sim_memory_find(ptr, &r, &a)) return hipErrorInvalidValue;
    bool device = r.kind == SIM_MEM_DEVICE || r.kind == SIM_MEM_CODE;
    switch (attribute) {
    case HIP_POINTER_ATTRIBUTE_CONTEXT: *(hipCtx_t *)data = (hipCtx_t)(void *)sim_device_at(r.device); break;
    case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE: *(unsigned *)data = (unsigned)type_number(&r); break;
    case HIP_POINTER_ATTRIBUTE_DEVICE_POINTER: *(void **)data = ptr; break;
    case HIP_POINTER_ATTRIBUTE_HOST_POINTER:
        if (device) return hipErrorInvalidValue;
        *(void **)data = ptr;
        break;
    case HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS: *(int *)data = a ? (int)a->sync_memops : 0; break;
    case HIP_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned *)data = (unsigned)r.serial; break;
    case HIP_POINTER_ATTRIBUTE_IS_MANAGED: *(bool *)data = r.kind == SIM_MEM_MANAGED; break;
    case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)data = r.device; break;
    case HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE:
    case HIP_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: *(bool *)data = false; break;
    case HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(void **)data = (void *)(uintptr_t)r.lo; break;
    case HIP_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)data = r.hi - r.lo; break;
    case HIP_POINTER_ATTRIBUTE_MAPPED: *(bool *)data = true; break;
    case HIP_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: *(int *)data = hipMemHandleTypeNone; break;
    case HIP_POINTER_ATTRIBUTE_ACCESS_FLAGS: *(int *)data = hipMemAccessFlagsProtReadWrite; break;
    case HIP_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: *(hipMemPool_t *)data = a && a->from_pool ? a->pool : NULL; break;
    case HIP_POINTER_ATTRIBUTE_P2P_TOKENS: return hipErrorNotSupported;
    default: return hipErrorInvalidValue;
    }
    return hipSuccess;
}

hipError_t sim_hipDrvPointerGetAttributes(unsigned int numAttributes, hipPointer_attribute *attributes, void **data,
                                          hipDeviceptr_t ptr) {
    if (!numAttributes || !attributes || !data || !ptr) return hipErrorInvalidValue;
    for (unsigned i = 0; i < numAttributes; i++) {
        hipError_t e = sim_hipPointerGetAttribute(data[i], attributes[i], ptr);
        if (e != hipSuccess && e != hipErrorNotSupported && !data[i]) return e;
    }
    return hipSuccess;
}

hipError_t sim_hipPointerSetAttribute(const void *value, hipPointer_attribute attribute, hipDeviceptr_t ptr) {
    sim_alloc *a;
    if (!value || attribute != HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS || !sim_memory_find(ptr, NULL, &a) ||
        !a) return hipErrorInvalidValue;
    a->sync_memops = *(const unsigned *)value != 0;
    return hipSuccess;
}

/* Advice is for managed memory, or for any host memory where the device reaches all of it. */
static hipError_t managed_range(const void *p, size_t count, sim_alloc **out) {
    sim_range r;
    *out = NULL;
    if (!p || !count) return hipErrorInvalidValue;
    if (!sim_memory_find(p, &r, out))
        return sim_device_current()->board.pageable ? hipSuccess : hipErrorInvalidValue;
    if ((uint64_t)(uintptr_t)p + count > r.hi || (r.kind != SIM_MEM_MANAGED && r.kind != SIM_MEM_PINNED))
        return hipErrorInvalidValue;
    return hipSuccess;
}

static bool place_ok(int device) { return device == hipCpuDeviceId || sim_device_at(device); }

hipError_t sim_hipMemAdvise(const void *dev_ptr, size_t count, hipMemoryAdvise advice, int device) {
    sim_alloc *a;
    hipError_t e = managed_range(dev_ptr, count, &a);
    if (e != hipSuccess) return e;
    bool needs_place = advice == hipMemAdviseSetPreferredLocation || advice == hipMemAdviseSetAccessedBy ||
                       advice == hipMemAdviseUnsetAccessedBy;
    if (needs_place && !place_ok(device)) return hipErrorInvalidDevice;
    sim_alloc none;
    if (!a) a = &none, none = (sim_alloc){.dev = NULL};
    pthread_mutex_lock(&sim_hip.lock);
    switch (advice) {
    case hipMemAdviseSetReadMostly: a->read_mostly = true; break;
    case hipMemAdviseUnsetReadMostly: a->read_mostly = false; break;
    case hipMemAdviseSetPreferredLocation: a->preferred = device; break;
    case hipMemAdviseUnsetPreferredLocation: a->preferred = hipInvalidDeviceId; break;
    case hipMemAdviseSetAccessedBy: a->accessed_by |= 1ull << (device + 1) % 64; break;
    case hipMemAdviseUnsetAccessedBy: a->accessed_by &= ~(1ull << (device + 1) % 64); break;
    case hipMemAdviseSetCoarseGrain: a->coarse = true; break;
    case hipMemAdviseUnsetCoarseGrain: a->coarse = false; break;
    default: e = hipErrorInvalidValue;
    }
    pthread_mutex_unlock(&sim_hip.lock);
    return e;
}

hipError_t sim_hipMemPrefetchAsync(const void *dev_ptr, size_t count, int device, hipStream_t stream) {
    sim_alloc *a;
    hipError_t e = managed_range(dev_ptr, count, &a);
    if (e != hipSuccess) return e;
    if (!place_ok(device)) return hipErrorInvalidDevice;
    if (a) a->prefetched = device;
    sim_op *op = sim_op_new(SIM_OP_EMPTY);
    return op ? sim_run_op(stream, op, false) : hipErrorOutOfMemory;
}

hipError_t sim_hipMemRangeGetAttribute(void *data, size_t data_size, hipMemRangeAttribute attribute, const void *dev_ptr,
                                       size_t count) {
    sim_alloc *a;
    if (!data || !data_size) return hipErrorInvalidValue;
    hipError_t e = managed_range(dev_ptr, count, &a);
    if (e != hipSuccess) return e;
    static const sim_alloc plain = {.preferred = hipInvalidDeviceId, .prefetched = hipInvalidDeviceId};
    const sim_alloc *r = a ? a : &plain;
    if (attribute != hipMemRangeAttributeAccessedBy && data_size != 4) return hipErrorInvalidValue;
    int32_t *out = data;
    switch (attribute) {
    case hipMemRangeAttributeReadMostly: *out = r->read_mostly; break;
    case hipMemRangeAttributePreferredLocation: *out = r->preferred; break;
    case hipMemRangeAttributeLastPrefetchLocation: *out = r->prefetched; break;
    case hipMemRangeAttributeCoherencyMode:
        *out = r->coarse ? hipMemRangeCoherencyModeCoarseGrain : hipMemRangeCoherencyModeFineGrain;
        break;
    case hipMemRangeAttributeAccessedBy:
        if (data_size % 4) return hipErrorInvalidValue;
        for (size_t i = 0, bit = 0; i < data_size / 4; i++) {
            while (bit < 64 && !(r->accessed_by >> bit & 1)) bit++;
            out[i] = bit < 64 ? (int)bit - 1 : hipInvalidDeviceId;
            bit++;
        }
        break;
    default: return hipErrorInvalidValue;
    }
    return hipSuccess;
}

hipError_t sim_hipMemRangeGetAttributes(void **data, size_t *data_sizes, hipMemRangeAttribute *attributes,
                                        size_t num_attributes,
                                        const void *dev_ptr, size_t count) {
    if (!data || !data_sizes || !attributes || !num_attributes) return hipErrorInvalidValue;
    for (size_t i = 0; i < num_attributes; i++) {
        hipError_t e = sim_hipMemRangeGetAttribute(data[i], data_sizes[i], attributes[i], dev_ptr, count);
        if (e != hipSuccess) return e;
    }
    return hipSuccess;
}

hipError_t sim_hipStreamAttachMemAsync(hipStream_t stream, void *dev_ptr, size_t length, unsigned int flags) {
    sim_range r;
    if (!stream || !dev_ptr) return hipErrorInvalidValue;
    if (flags != hipMemAttachGlobal && flags != hipMemAttachHost && flags != hipMemAttachSingle) return hipErrorInvalidValue;
    if (!sim_memory_find(dev_ptr, &r, NULL) || (length && length != r.hi - r.lo)) return hipErrorInvalidValue;
    sim_op *op = sim_op_new(SIM_OP_EMPTY);
    return op ? sim_run_op(stream, op, false) : hipErrorOutOfMemory;
}
