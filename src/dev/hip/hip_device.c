/* A device: its facts, its memory, its table. */
#include "dev/hip/hip.h"

#include "base/alloc.h"
#include "base/env.h"
#include "base/log.h"
#include "base/size.h"
#include "dev/pinned.h"
#include "dev/staging.h"
#include "target/target.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- errors ---- */

void och_hip_enter(const och_device *d) { (void)hip_of(d)->lib->api.hipSetDevice(hip_of(d)->ordinal); }

och_status och_hip_fail(const och_device *d, hipError_t e, och_err *err, const char *fmt, ...) {
    const hip_api *a = hip_api_of(d);
    char what[360];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    (void)a->hipGetLastError(); /* told here: it must not meet the thread's next call */
    const char *name = a->hipGetErrorName(e), *text = a->hipGetErrorString(e);
    och_status st = e == hipErrorOutOfMemory ? OCH_NOMEM : e == hipErrorNotSupported ? OCH_UNSUPPORTED : OCH_DEVICE;
    return och_err_set_native(err, st, (int64_t)e, "device %s: %s: %s (%d): %s", d->info.label, what, name ? name : "?", (int)e,
                              text ? text : "?");
}

/* ---- memory ---- */

static och_pinned hosts = OCH_PINNED_INIT; /* what the host may touch, of all devices */

bool och_hip_is_pinned(const void *p, uint64_t n_bytes) { return och_pinned_has(&hosts, p, n_bytes); }

hip_memory och_hip_memory_policy(bool integrated, bool managed, bool concurrent, bool pageable, bool *out_unified) {
    bool shares = integrated && managed && concurrent;
    *out_unified = shares || (integrated && pageable);
    return shares ? HIP_MEMORY_MANAGED : HIP_MEMORY_DEVICE;
}

/* What is free, of what this process may use. A runtime may count the host's free memory: what this object holds already is
 * not free whatever it says, and nothing beyond the device's memory is. */
static void free_bytes(och_device *d, uint64_t *out_free) {
    hip_device *h = hip_of(d);
    uint64_t used = __atomic_load_n(&h->used_bytes, __ATOMIC_RELAXED), limit = d->info.memory_limit_bytes;
    size_t said = 0, total = 0;
    *out_free = limit > used ? limit - used : 0;
    och_hip_enter(d);
    hipError_t e = h->lib->api.hipMemGetInfo(&said, &total);
    if (e == hipSuccess) *out_free = OCH_MIN(*out_free, (uint64_t)said);
    else (void)h->lib->api.hipGetLastError();
}

static och_status no_memory(och_device *d, uint64_t size_bytes, och_mem_kind kind, och_err *err) {
    uint64_t n_free;
    free_bytes(d, &n_free);
    return och_err_set_native(err, OCH_NOMEM, hipErrorOutOfMemory, "device %s: %" PRIu64 " bytes of %s memory asked for, %" PRIu64
                              " free of %" PRIu64, d->info.label, size_bytes, kind == OCH_MEM_PINNED ? "pinned" : "device", n_free,
                              d->info.memory_limit_bytes);
}

static void release(hip_device *h, och_mem_kind kind, void *p, uint64_t size_bytes) {
    if (h->memory == HIP_MEMORY_DEVICE && kind == OCH_MEM_PINNED) (void)h->lib->api.hipHostFree(p);
    else (void)h->lib->api.hipFree(p); /* managed memory too */
    if (kind == OCH_MEM_DEVICE) __atomic_fetch_sub(&h->used_bytes, size_bytes, __ATOMIC_RELAXED);
}

static och_status hip_alloc(och_device *d, uint64_t size_bytes, och_mem_kind kind, och_buf *out_buf, och_err *err) {
    hip_device *h = hip_of(d);
    const hip_api *a = &h->lib->api;
    OCH_TRY(och_capture_refuse(NULL, d, "allocation", err));
    if (size_bytes > d->info.memory_limit_bytes) return no_memory(d, size_bytes, kind, err);
    och_hip_enter(d);
    void *p = NULL, *device = NULL;
    const char *call = "hipMalloc";
    hipError_t e;
    if (h->memory == HIP_MEMORY_MANAGED) {
        call = "hipMallocManaged";
        e = a->hipMallocManaged(&p, (size_t)size_bytes, hipMemAttachGlobal);
    } else if (kind == OCH_MEM_PINNED) {
        call = "hipHostMalloc";
        e = a->hipHostMalloc(&p, (size_t)size_bytes, hipHostMallocPortable | hipHostMallocMapped);
    } else e = a->hipMalloc(&p, (size_t)size_bytes);
    if (e == hipErrorOutOfMemory) {
        (void)a->hipGetLastError();
        return no_memory(d, size_bytes, kind, err);
    }
    if (e != hipSuccess) return och_hip_fail(d, e, err, "%s of %" PRIu64 " bytes", call, size_bytes);
    if (kind == OCH_MEM_DEVICE) __atomic_fetch_add(&h->used_bytes, size_bytes, __ATOMIC_RELAXED);
    device = p;
    bool host = kind == OCH_MEM_PINNED || d->info.unified;
    if (h->memory == HIP_MEMORY_DEVICE && kind == OCH_MEM_PINNED &&
        (e = a->hipHostGetDevicePointer(&device, p, 0)) != hipSuccess) {
        release(h, kind, p, size_bytes);
        return och_hip_fail(d, e, err, "hipHostGetDevicePointer");
    }
    if (host && !och_pinned_add(&hosts, p, size_bytes)) {
        release(h, kind, p, size_bytes);
        return och_err_nomem(err, sizeof(och_pinned_span), "the list of pinned memory");
    }
    out_buf->addr.value = (uint64_t)(uintptr_t)device;
    out_buf->host = host ? p : NULL;
    return OCH_OK;
}

static void hip_free(och_device *d, och_buf *buf) {
    void *p = buf->host ? buf->host : (void *)(uintptr_t)buf->addr.value;
    och_capture_abandon("free");
    och_hip_enter(d);
    if (buf->host) och_pinned_remove(&hosts, p);
    release(hip_of(d), buf->kind, p, buf->size_bytes);
}

static och_status hip_memory_of(och_device *d, uint64_t *out_free_bytes, uint64_t *out_total_bytes, och_err *err) {
    (void)err;
    free_bytes(d, out_free_bytes);
    *out_total_bytes = d->info.memory_limit_bytes;
    return OCH_OK;
}

static bool hip_unified_memory(const och_device *d) { return d->info.unified; }

/* ---- facts ---- */

/* 0 where the question fails: a fact that is not known is not relied on. */
static int attribute(const hip_lib *lib, int ordinal, hipDeviceAttribute_t which) {
    int v = 0;
    if (lib->api.hipDeviceGetAttribute(&v, which, ordinal) == hipSuccess) return v;
    (void)lib->api.hipGetLastError();
    return 0;
}

/* The target identity stands in the properties alone. */
static hipError_t arch_of(const hip_lib *lib, int ordinal, char *out, size_t n_bytes) {
    char bytes[8192] __attribute__((aligned(16))) = {0}; /* more than any release's structure */
    void *p = bytes;
    const hip_api *a = &lib->api;
    hipError_t e = lib->runtime->new_properties ? a->hipGetDevicePropertiesR0600(p, ordinal) : a->hipGetDeviceProperties(p, ordinal);
    size_t n = strnlen(bytes + lib->runtime->arch_offset, n_bytes - 1);
    memcpy(out, bytes + lib->runtime->arch_offset, n);
    out[n] = 0;
    return e;
}

/* An integrated board's carve-out and the pool that it shares with the host are told in two ways: the properties may say
 * either, hipMemGetInfo their sum. The larger is the whole; adding them would count the carve-out twice. A discrete board
 * has what its properties say, and a larger total can only be the host's memory. */
static uint64_t memory_bytes(const hip_lib *lib, int ordinal, bool integrated) {
    size_t own = 0, said = 0, n_free = 0;
    if (lib->api.hipDeviceTotalMem(&own, ordinal) != hipSuccess) own = 0;
    (void)lib->api.hipSetDevice(ordinal);
    if (lib->api.hipMemGetInfo(&n_free, &said) != hipSuccess) said = 0;
    (void)lib->api.hipGetLastError();
    if (!own) return said;
    return integrated && said > own ? said : own;
}

och_status och_hip_describe(const hip_lib *lib, int ordinal, const char *label, och_dev_info *out_info, hip_memory *out_memory,
                            och_err *err) {
    och_dev_info *i = out_info;
    char version[32];
    snprintf(i->label, sizeof i->label, "%s", label);
    snprintf(i->vendor, sizeof i->vendor, "AMD");
    hipError_t e = lib->api.hipSetDevice(ordinal);
    if (e == hipSuccess) e = lib->api.hipDeviceGetName(i->name, (int)sizeof i->name, ordinal);
    if (e == hipSuccess) e = arch_of(lib, ordinal, i->arch, sizeof i->arch);
    if (e != hipSuccess) {
        (void)lib->api.hipGetLastError();
        return och_err_set_native(err, OCH_DEVICE, (int64_t)e, "device %s: its properties: %s (%d): %s", label,
                                  lib->api.hipGetErrorName(e), (int)e, lib->api.hipGetErrorString(e));
    }
    if (!*i->name) snprintf(i->name, sizeof i->name, "AMD GPU");
    if (lib->api.hipDeviceGetPCIBusId(i->pci, (int)sizeof i->pci, ordinal) != hipSuccess) i->pci[0] = 0;
    och_hip_version_text(lib->version, version, sizeof version);
    snprintf(i->runtime, sizeof i->runtime, "HIP %s, %.120s", version, lib->path);
    memcpy(i->library, lib->path, sizeof i->library);
    memcpy(i->library_open, lib->opened, sizeof i->library_open);
    i->library_index = ordinal;
    i->wave_size = attribute(lib, ordinal, hipDeviceAttributeWarpSize);
    i->n_multiprocessors = attribute(lib, ordinal, hipDeviceAttributeMultiprocessorCount);
    i->n_compute_units = attribute(lib, ordinal, hipDeviceAttributePhysicalMultiProcessorCount);
    i->n_compute_units = OCH_MAX(i->n_compute_units, OCH_MAX(i->n_multiprocessors, 1));
    i->lds_bytes = (uint32_t)OCH_MAX(attribute(lib, ordinal, hipDeviceAttributeMaxSharedMemoryPerBlock), 0);
    i->max_group = (uint32_t)OCH_MAX(attribute(lib, ordinal, hipDeviceAttributeMaxThreadsPerBlock), 0);
    i->l2_bytes = (uint64_t)OCH_MAX(attribute(lib, ordinal, hipDeviceAttributeL2CacheSize), 0);
    i->code_object_version = lib->runtime->code_object_version;
    i->graphs = !och_hip_graphs_lack(&lib->api);
    /* a clock says little of what moves on each of its edges: the board's row is better, that of another board of the
     * target too */
    char base[64];
    snprintf(base, sizeof base, "%.*s", (int)strcspn(i->arch, ":"), i->arch);
    const och_board *board = och_board_find(i->name);
    if (!board) board = och_board_find(base);
    if (board && board->bandwidth_gbps > 0) i->bandwidth_gbps = board->bandwidth_gbps;
    else
        i->bandwidth_gbps = 2e-6 * attribute(lib, ordinal, hipDeviceAttributeMemoryClockRate) *
                            attribute(lib, ordinal, hipDeviceAttributeMemoryBusWidth) / 8;
    bool managed = attribute(lib, ordinal, hipDeviceAttributeManagedMemory) == 1 && lib->api.hipMallocManaged;
    bool concurrent = attribute(lib, ordinal, hipDeviceAttributeConcurrentManagedAccess) == 1;
    bool pageable = attribute(lib, ordinal, hipDeviceAttributePageableMemoryAccess) == 1;
    i->integrated = attribute(lib, ordinal, hipDeviceAttributeIntegrated) == 1;
    i->managed = managed && concurrent;
    *out_memory = och_hip_memory_policy(i->integrated, managed, concurrent, pageable, &i->unified);
    i->kind = lib->simulated ? OCH_DEV_SIMULATED : i->integrated ? OCH_DEV_INTEGRATED : OCH_DEV_DISCRETE;
    i->memory_bytes = i->memory_limit_bytes = memory_bytes(lib, ordinal, i->integrated);
    return OCH_OK;
}

/* ---- all-reduce, and the table ---- */

static och_status hip_all_reduce_f32(och_queue *const *queues, const och_dev_addr *buffers, int n_devices, uint64_t count,
                                     och_reduce op, och_err *err) {
    for (int i = 0; i < n_devices; i++)
        if (och_hip_is(queues[i]->device))
            OCH_TRY(och_capture_refuse(&hip_queue_of(queues[i])->capture, queues[i]->device, "all-reduce", err));
    return och_dev_all_reduce_staged(queues, buffers, n_devices, count, op, err);
}

static void hip_destroy(och_device *d) { och_free(d); }

static const och_device_vtable vtable = {
    .destroy = hip_destroy,
    .alloc = hip_alloc,
    .free = hip_free,
    .memory = hip_memory_of,
    .unified_memory = hip_unified_memory,
    .queue_create = och_hip_queue_create,
    .queue_wrap = och_hip_queue_wrap,
    .queue_destroy = och_hip_queue_destroy,
    .synchronise = och_hip_synchronise,
    .copy_to_device = och_hip_copy_to_device,
    .copy_to_host = och_hip_copy_to_host,
    .copy = och_hip_copy,
    .copy_peer = och_hip_copy_peer,
    .fill = och_hip_fill,
    .event_create = och_hip_event_create,
    .event_destroy = och_hip_event_destroy,
    .event_record = och_hip_event_record,
    .event_query = och_hip_event_query,
    .event_wait_host = och_hip_event_wait_host,
    .event_wait_queue = och_hip_event_wait_queue,
    .module_load = och_hip_module_load,
    .module_unload = och_hip_module_unload,
    .module_function = och_hip_module_function,
    .launch = och_hip_launch,
    .lend = och_hip_lend,
    .capture_begin = och_hip_capture_begin,
    .capture_end = och_hip_capture_end,
    .graph_replay = och_hip_graph_replay,
    .graph_destroy = och_hip_graph_destroy,
    .all_reduce_f32 = hip_all_reduce_f32,
};

/* A device's table may be one that wraps this one (dev/trace.h). */
bool och_hip_is(const och_device *d) { return d->vtable->alloc == vtable.alloc; }

och_status och_hip_open(const hip_lib *lib, int ordinal, const char *backend, int index, const char *label,
                        och_device **out_device, och_err *err) {
    *out_device = NULL;
    hip_device *h = och_calloc(1, sizeof *h);
    if (!h) return och_err_nomem(err, sizeof *h, "a HIP device");
    h->base.refcount = 1;
    h->base.vtable = &vtable;
    h->lib = lib;
    h->ordinal = ordinal;
    h->synchronous = och_env_wish(OCH_ENV_OCHRE_HIP_SYNC) > 0;
    och_dev_info *info = &h->base.info;
    snprintf(info->backend, sizeof info->backend, "%s", backend);
    info->index = index;
    och_status st = och_hip_describe(lib, ordinal, label, info, &h->memory, err);
    if (st == OCH_OK && !info->memory_bytes)
        st = och_err_set(err, OCH_DEVICE, "device %s: neither its properties nor hipMemGetInfo tell how much memory it has", label);
    if (st != OCH_OK) {
        och_free(h);
        return st;
    }
    const char *override = och_env_foreign("HSA_OVERRIDE_GFX_VERSION");
    if (override && !lib->simulated)
        och_log(OCH_LOG_WARN, "device %s: HSA_OVERRIDE_GFX_VERSION=%s is set: the runtime calls the board %s whatever it is",
                label, override, info->arch);
    *out_device = &h->base;
    return OCH_OK;
}
