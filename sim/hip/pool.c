/* Stream-ordered allocation. An address is given at once; the memory comes back when the stream reaches the free. A pool keeps
 * nothing: what is freed is free, and the release threshold is remembered only. */
#include "hip/graph.h"

#include <string.h>

struct ihipMemPoolHandle_t {
    sim_device *dev;
    bool is_default, destroyed;
    hipMemPoolProps props;
    uint64_t used, high, max_bytes, threshold;
    int reuse[3];
    uint64_t access; /* bit d: device d may read and write */
};

static hipError_t done(hipError_t e) {
    pthread_mutex_unlock(&sim_hip.lock);
    return e;
}

/* Lock held. */
static hipError_t pool_new(sim_device *d, const hipMemPoolProps *props, hipMemPool_t *out) {
    hipMemPool_t p = och_calloc(1, sizeof *p);
    if (!p || !sim_handle_add(p, SIM_H_POOL)) {
        och_free(p);
        return hipErrorOutOfMemory;
    }
    p->dev = d;
    p->props = *props;
    p->max_bytes = sim_hip_at_least(6) ? props->maxSize : 0;
    p->reuse[0] = p->reuse[1] = p->reuse[2] = 1;
    p->access = 1ull << d->ordinal;
    *out = p;
    return hipSuccess;
}

static hipError_t default_pool(sim_device *d, hipMemPool_t *out) {
    hipError_t e = hipSuccess;
    if (!d->default_pool) {
        hipMemPoolProps props = {.allocType = hipMemAllocationTypePinned, .location = {hipMemLocationTypeDevice, d->ordinal}};
        e = pool_new(d, &props, &d->default_pool);
        if (e == hipSuccess) d->default_pool->is_default = true;
    }
    *out = d->default_pool;
    return e;
}

static hipError_t current_pool(sim_device *d, hipMemPool_t *out) {
    if (d->pool) {
        *out = d->pool;
        return hipSuccess;
    }
    return default_pool(d, out);
}

/* A destroyed pool lives until its memory is back. */
static void drop_if_done(hipMemPool_t p) {
    if (p->destroyed && !p->used) och_free(p);
}

void sim_pool_returned(hipMemPool_t pool, uint64_t bytes) {
    pool->used -= bytes;
    drop_if_done(pool);
}

hipError_t sim_hipMemPoolCreate(hipMemPool_t *mem_pool, const hipMemPoolProps *pool_props) {
    if (!mem_pool || !pool_props || pool_props->allocType != hipMemAllocationTypePinned) return hipErrorInvalidValue;
    sim_device *d = sim_device_at(pool_props->location.id);
    if (pool_props->location.type != hipMemLocationTypeDevice || !d) return hipErrorInvalidValue;
    if (pool_props->handleTypes != hipMemHandleTypeNone) return hipErrorNotSupported;
    pthread_mutex_lock(&sim_hip.lock);
    return done(pool_new(d, pool_props, mem_pool));
}

hipError_t sim_hipMemPoolDestroy(hipMemPool_t mem_pool) {
    pthread_mutex_lock(&sim_hip.lock);
    if (!sim_handle_is(mem_pool, SIM_H_POOL) || mem_pool->is_default) return done(hipErrorInvalidValue);
    sim_handle_remove(mem_pool);
    for (int i = 0; i < sim_hip.n_devices; i++)
        if (sim_hip.devices[i].pool == mem_pool) sim_hip.devices[i].pool = NULL;
    mem_pool->destroyed = true;
    drop_if_done(mem_pool);
    return done(hipSuccess);
}

hipError_t sim_hipDeviceGetDefaultMemPool(hipMemPool_t *mem_pool, int device) {
    sim_device *d = sim_device_at(device);
    if (!mem_pool) return hipErrorInvalidValue;
    if (!d) return hipErrorInvalidDevice;
    pthread_mutex_lock(&sim_hip.lock);
    return done(default_pool(d, mem_pool));
}

hipError_t sim_hipDeviceGetMemPool(hipMemPool_t *mem_pool, int device) {
    sim_device *d = sim_device_at(device);
    if (!mem_pool) return hipErrorInvalidValue;
    if (!d) return hipErrorInvalidDevice;
    pthread_mutex_lock(&sim_hip.lock);
    return done(current_pool(d, mem_pool));
}

hipError_t sim_hipDeviceSetMemPool(int device, hipMemPool_t mem_pool) {
    sim_device *d = sim_device_at(device);
    if (!d) return hipErrorInvalidDevice;
    pthread_mutex_lock(&sim_hip.lock);
    if (!sim_handle_is(mem_pool, SIM_H_POOL)) return done(hipErrorInvalidValue);
    if (mem_pool->dev != d) return done(hipErrorInvalidDevice);
    d->pool = mem_pool;
    return done(hipSuccess);
}

static hipError_t attribute(hipMemPool_t p, hipMemPoolAttr attr, void *value, bool set) {
    switch (attr) {
    case hipMemPoolReuseFollowEventDependencies:
    case hipMemPoolReuseAllowOpportunistic:
    case hipMemPoolReuseAllowInternalDependencies:
        if (set) p->reuse[attr - 1] = *(int *)value != 0;
        else *(int *)value = p->reuse[attr - 1];
        return hipSuccess;
    case hipMemPoolAttrReleaseThreshold:
        if (set) p->threshold = *(uint64_t *)value;
        else *(uint64_t *)value = p->threshold;
        return hipSuccess;
    case hipMemPoolAttrReservedMemHigh:
    case hipMemPoolAttrUsedMemHigh:
        if (set && *(uint64_t *)value) return hipErrorInvalidValue;
        if (set) p->high = p->used;
        else *(uint64_t *)value = p->high;
        return hipSuccess;
    case hipMemPoolAttrReservedMemCurrent:
    case hipMemPoolAttrUsedMemCurrent:
        if (set) return hipErrorInvalidValue;
        *(uint64_t *)value = p->used;
        return hipSuccess;
    default: return hipErrorInvalidValue;
    }
}

static hipError_t pool_attribute(hipMemPool_t p, hipMemPoolAttr attr, void *value, bool set) {
    if (!value) return hipErrorInvalidValue;
    pthread_mutex_lock(&sim_hip.lock);
    return done(sim_handle_is(p, SIM_H_POOL) ? attribute(p, attr, value, set) : hipErrorInvalidValue);
}
hipError_t sim_hipMemPoolSetAttribute(hipMemPool_t mem_pool, hipMemPoolAttr attr, void *value) {
    return pool_attribute(mem_pool, attr, value, true);
}
hipError_t sim_hipMemPoolGetAttribute(hipMemPool_t mem_pool, hipMemPoolAttr attr, void *value) {
    return pool_attribute(mem_pool, attr, value, false);
}

hipError_t sim_hipMemPoolTrimTo(hipMemPool_t mem_pool, size_t min_bytes_to_hold) {
    (void)min_bytes_to_hold;
    pthread_mutex_lock(&sim_hip.lock);
    return done(sim_handle_is(mem_pool, SIM_H_POOL) ? hipSuccess : hipErrorInvalidValue);
}

hipError_t sim_hipMemPoolSetAccess(hipMemPool_t mem_pool, const hipMemAccessDesc *desc_list, size_t count) {
    if (!desc_list || !count) return hipErrorInvalidValue;
    pthread_mutex_lock(&sim_hip.lock);
    if (!sim_handle_is(mem_pool, SIM_H_POOL)) return done(hipErrorInvalidValue);
    for (size_t i = 0; i < count; i++) {
        if (desc_list[i].location.type != hipMemLocationTypeDevice || !sim_device_at(desc_list[i].location.id))
            return done(hipErrorInvalidDevice);
        uint64_t bit = 1ull << desc_list[i].location.id;
        if (desc_list[i].flags == hipMemAccessFlagsProtNone) {
            if (desc_list[i].location.id == mem_pool->dev->ordinal) return done(hipErrorInvalidDevice); /* the owner's stays */
            mem_pool->access &= ~bit;
        } else mem_pool->access |= bit;
    }
    return done(hipSuccess);
}

hipError_t sim_hipMemPoolGetAccess(hipMemAccessFlags *flags, hipMemPool_t mem_pool, hipMemLocation *location) {
    if (!flags || !location) return hipErrorInvalidValue;
    pthread_mutex_lock(&sim_hip.lock);
    if (!sim_handle_is(mem_pool, SIM_H_POOL) || location->type != hipMemLocationTypeDevice || !sim_device_at(location->id))
        return done(hipErrorInvalidValue);
    *flags = mem_pool->access >> location->id & 1 ? hipMemAccessFlagsProtReadWrite : hipMemAccessFlagsProtNone;
    return done(hipSuccess);
}

/* In a capture: an allocation node. */
static hipError_t captured_alloc(sim_device *d, void **out, size_t size, hipStream_t stream) {
    sim_graph_mem *m;
    hipError_t e = sim_graph_mem_new(d, size, &m);
    if (e != hipSuccess) return e;
    sim_op *op = sim_op_new(SIM_OP_ALLOC);
    pthread_mutex_lock(&sim_hip.lock);
    if (!op) {
        sim_graph_mem_unref(m);
        return done(hipErrorOutOfMemory);
    }
    op->u.memory.addr = m->addr;
    op->u.memory.mem = m;
    op->u.memory.params = (hipMemAllocNodeParams){
        .poolProps = {.allocType = hipMemAllocationTypePinned, .location = {hipMemLocationTypeDevice, d->ordinal}},
        .bytesize = size, .dptr = (void *)(uintptr_t)m->addr};
    void *p = (void *)(uintptr_t)m->addr;
    sim_stream *s;
    e = sim_stream_resolve(stream, &s);
    if (e != hipSuccess) sim_op_unref(op);
    else e = sim_submit(s, op, NULL);
    if (e == hipSuccess) *out = p;
    return done(e);
}

hipError_t sim_malloc_async(void **out, size_t size, hipMemPool_t pool, hipStream_t stream) {
    if (!out) return hipErrorInvalidValue;
    *out = NULL;
    pthread_mutex_lock(&sim_hip.lock);
    sim_stream *s;
    hipError_t e = sim_stream_resolve(stream, &s);
    if (e == hipSuccess && pool && !sim_handle_is(pool, SIM_H_POOL)) e = hipErrorInvalidValue;
    if (e == hipSuccess && !pool) e = current_pool(s->dev, &pool);
    bool captured = e == hipSuccess && s->capture;
    if (e == hipSuccess && !captured && pool->max_bytes && pool->used + size > pool->max_bytes) e = hipErrorOutOfMemory;
    sim_device *d = e == hipSuccess ? pool->dev : NULL;
    if (e == hipSuccess && size && !captured) { /* counted now, so that the pool stays */
        pool->used += size;
        if (pool->used > pool->high) pool->high = pool->used;
    }
    pthread_mutex_unlock(&sim_hip.lock);
    if (e != hipSuccess || !size) return e;
    if (captured) return captured_alloc(d, out, size, stream);
    uint64_t addr;
    e = sim_memory_alloc(d, size, 256, SIM_MEM_DEVICE, 0, &addr);
    pthread_mutex_lock(&sim_hip.lock);
    sim_alloc *a;
    if (e == hipSuccess && sim_memory_find((void *)(uintptr_t)addr, NULL, &a)) {
        a->from_pool = true;
        a->pool = pool;
        *out = (void *)(uintptr_t)addr;
    } else sim_pool_returned(pool, size);
    return done(e);
}

hipError_t sim_hipFreeAsync(void *dev_ptr, hipStream_t stream) {
    if (!dev_ptr) return sim_hip_at_least(7) ? hipSuccess : hipErrorInvalidValue;
    sim_range r;
    sim_alloc *a;
    if (!sim_memory_find(dev_ptr, &r, &a) || !a || r.lo != (uint64_t)(uintptr_t)dev_ptr ||
        a->registered) return hipErrorInvalidValue;
    sim_op *op = sim_op_new(SIM_OP_FREE);
    if (!op) return hipErrorOutOfMemory;
    op->u.memory.addr = r.lo;
    pthread_mutex_lock(&sim_hip.lock);
    if (a->graph && (op->u.memory.mem = sim_graph_mem_find(r.lo))) op->u.memory.mem->refs++;
    pthread_mutex_unlock(&sim_hip.lock);
    return sim_run_op(stream, op, false);
}
