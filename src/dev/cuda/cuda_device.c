/* The device, its facts and its memory. */
#include "dev/cuda/cuda.h"

#include "base/alloc.h"
#include "base/env.h"
#include "base/log.h"
#include "base/size.h"
#include "dev/pinned.h"
#include "dev/staging.h"
#include "target/target.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Release notes of CUDA 12.3: launches that start early can be part of a graph. */
#define RECORDS_OVERLAP 12030
/* CUDA 12.8: CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT. */
#define SHARES_LDS 12080

/* ---- the context, and errors ---- */

static bool is_set(const bool *flag) { return __atomic_load_n(flag, __ATOMIC_ACQUIRE); }

och_status och_cuda_enter(const och_device *d, const char *op, och_err *err) {
    cuda_device *c = cuda_of(d);
    const cuda_api *a = &c->lib->api;
    if (is_set(&c->lost))
        return och_err_set(err, OCH_DEVICE, "device %s: %s: the device is lost: %s", d->info.label, op, c->lost_by);
    if (!is_set(&c->ready)) {
        pthread_mutex_lock(&c->lock);
        CUresult e = c->context ? CUDA_SUCCESS : a->cuDevicePrimaryCtxRetain(&c->context, c->device);
        if (e == CUDA_SUCCESS) __atomic_store_n(&c->ready, true, __ATOMIC_RELEASE);
        else c->context = NULL;
        pthread_mutex_unlock(&c->lock);
        if (e != CUDA_SUCCESS) return och_cuda_fail(d, e, err, "%s: cuDevicePrimaryCtxRetain", op);
    }
    CUresult e = a->cuCtxSetCurrent(c->context);
    return e == CUDA_SUCCESS ? OCH_OK : och_cuda_fail(d, e, err, "%s: cuCtxSetCurrent", op);
}

bool och_cuda_enter_quietly(const och_device *d) {
    const cuda_device *c = cuda_of(d);
    return is_set(&c->ready) && !is_set(&c->lost) && c->lib->api.cuCtxSetCurrent(c->context) == CUDA_SUCCESS;
}

static bool is_sticky(CUresult e) {
    switch (e) {
#define CUDA_ERROR(name, value, sticky) case name: return sticky;
#define CUDA_ERRORS
#include "dev/cuda/cuda_consts.def"
#undef CUDA_ERRORS
#undef CUDA_ERROR
    }
    return false;
}

/* The message is what the device is lost by, where e says so and it was not before. */
static void note_loss(const och_device *d, CUresult e, const char *message) {
    cuda_device *c = cuda_of(d);
    if (!is_sticky(e)) return;
    pthread_mutex_lock(&c->lock);
    if (!c->lost) {
        size_t n = strlen(d->info.label) + strlen("device : ");
        /* the device is named already where this is said again */
        snprintf(c->lost_by, sizeof c->lost_by, "%.399s", strlen(message) > n ? message + n : message);
        __atomic_store_n(&c->lost, true, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&c->lock);
}

static och_status fail_with(const och_device *d, CUresult e, och_err *err, const char *what, const char *culprits) {
    char text[256], message[OCH_ERR_MESSAGE_BYTES];
    och_cuda_error_text(cuda_of(d)->lib, e, text, sizeof text);
    och_status st = e == CUDA_ERROR_OUT_OF_MEMORY ? OCH_NOMEM : e == CUDA_ERROR_NOT_SUPPORTED ? OCH_UNSUPPORTED : OCH_DEVICE;
    snprintf(message, sizeof message, "device %s: %s: %s%s", d->info.label, what, text, culprits);
    note_loss(d, e, message);
    return och_err_set_native(err, st, (int64_t)e, "%s", message);
}

och_status och_cuda_fail(const och_device *d, CUresult e, och_err *err, const char *fmt, ...) {
    char what[320];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return fail_with(d, e, err, what, "");
}

och_status och_cuda_fail_on(cuda_queue *q, CUresult e, och_err *err, const char *fmt, ...) {
    char what[320], culprits[360] = "";
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    if (is_sticky(e) || e == CUDA_ERROR_UNKNOWN) {
        pthread_mutex_lock(&q->lock);
        och_ring_blame(&q->ring, "OCHRE_CUDA_SYNC=1 names the one", culprits, sizeof culprits);
        pthread_mutex_unlock(&q->lock);
    }
    return fail_with(q->base.device, e, err, what, culprits);
}

/* ---- memory ---- */

static och_pinned hosts = OCH_PINNED_INIT; /* of all devices */

bool och_cuda_is_pinned(const void *p, uint64_t n_bytes) { return och_pinned_has(&hosts, p, n_bytes); }

/* What is free, of what this process may use: what this object holds already is not free whatever the driver says. */
static uint64_t free_bytes(och_device *d) {
    cuda_device *c = cuda_of(d);
    uint64_t used = __atomic_load_n(&c->used_bytes, __ATOMIC_RELAXED), limit = d->info.memory_limit_bytes;
    size_t said = 0, total = 0;
    uint64_t left = limit > used ? limit - used : 0;
    if (och_cuda_enter_quietly(d) && c->lib->api.cuMemGetInfo_v2(&said, &total) == CUDA_SUCCESS)
        left = OCH_MIN(left, (uint64_t)said);
    return left;
}

static och_status no_memory(och_device *d, uint64_t size_bytes, och_mem_kind kind, och_err *err) {
    return och_err_set_native(err, OCH_NOMEM, CUDA_ERROR_OUT_OF_MEMORY,
                              "device %s: %" PRIu64 " bytes of %s memory asked for, %" PRIu64 " free of %" PRIu64,
                              d->info.label, size_bytes, kind == OCH_MEM_PINNED ? "pinned" : "device", free_bytes(d),
                              d->info.memory_limit_bytes);
}

static och_status cuda_alloc(och_device *d, uint64_t size_bytes, och_mem_kind kind, och_buf *out_buf, och_err *err) {
    cuda_device *c = cuda_of(d);
    const cuda_api *a = &c->lib->api;
    bool pinned = kind == OCH_MEM_PINNED;
    OCH_TRY(och_capture_refuse(NULL, d, "allocation", err));
    OCH_TRY(och_cuda_enter(d, "allocation", err));
    if (size_bytes > d->info.memory_limit_bytes) return no_memory(d, size_bytes, kind, err);
    CUdeviceptr at = 0;
    void *host = NULL;
    CUresult e = pinned ? a->cuMemHostAlloc(&host, (size_t)size_bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP)
                        : a->cuMemAlloc_v2(&at, (size_t)size_bytes);
    if (e == CUDA_ERROR_OUT_OF_MEMORY) return no_memory(d, size_bytes, kind, err);
    if (e != CUDA_SUCCESS)
        return och_cuda_fail(d, e, err, "%s of %" PRIu64 " bytes", pinned ? "cuMemHostAlloc" : "cuMemAlloc", size_bytes);
    if (!pinned) __atomic_fetch_add(&c->used_bytes, size_bytes, __ATOMIC_RELAXED);
    else {
        och_status st = OCH_OK;
        e = a->cuMemHostGetDevicePointer_v2(&at, host, 0);
        if (e != CUDA_SUCCESS) st = och_cuda_fail(d, e, err, "cuMemHostGetDevicePointer");
        else if (!och_pinned_add(&hosts, host, size_bytes))
            st = och_err_nomem(err, sizeof(och_pinned_span), "the list of pinned memory");
        if (st != OCH_OK) {
            (void)a->cuMemFreeHost(host);
            return st;
        }
    }
    out_buf->addr.value = at;
    out_buf->host = host;
    return OCH_OK;
}

static void cuda_free(och_device *d, och_buf *buf) {
    cuda_device *c = cuda_of(d);
    och_capture_abandon("free");
    if (buf->host) och_pinned_remove(&hosts, buf->host);
    else __atomic_fetch_sub(&c->used_bytes, buf->size_bytes, __ATOMIC_RELAXED);
    if (!och_cuda_enter_quietly(d)) return; /* it went with the context */
    if (buf->host) (void)c->lib->api.cuMemFreeHost(buf->host);
    else (void)c->lib->api.cuMemFree_v2(buf->addr.value);
}

static och_status cuda_memory(och_device *d, uint64_t *out_free_bytes, uint64_t *out_total_bytes, och_err *err) {
    *out_free_bytes = *out_total_bytes = 0;
    OCH_TRY(och_cuda_enter(d, "memory", err));
    *out_free_bytes = free_bytes(d);
    *out_total_bytes = d->info.memory_limit_bytes;
    return OCH_OK;
}

static bool cuda_unified_memory(const och_device *d) {
    (void)d; /* what cuMemAlloc gives is the device's alone, on boards that share the host's memory too */
    return false;
}

/* ---- facts ---- */

och_status och_cuda_target(int major, int minor, char *out, size_t n_bytes, och_err *err) {
    const och_target *best = NULL;
    int best_minor = -1;
    for (size_t i = 0; i < och_target_count(); i++) {
        const och_target *t = och_target_at(i);
        if (t->vendor != OCH_VENDOR_NVIDIA) continue;
        int number = atoi(t->name + strlen("sm_"));
        if (number / 10 != major || number % 10 > minor || number % 10 < best_minor) continue;
        best = t;
        best_minor = number % 10;
    }
    if (best) {
        snprintf(out, n_bytes, "%s", best->name);
        return OCH_OK;
    }
    och_strbuf known = {0};
    for (size_t i = 0; i < och_target_count(); i++)
        if (och_target_at(i)->vendor == OCH_VENDOR_NVIDIA)
            och_strbuf_printf(&known, "%s%s", known.size ? ", " : "", och_target_at(i)->name);
    och_status st = och_err_set(err, OCH_NOTFOUND,
                                "compute capability %d.%d: no target of it, and none of the same major number "
                                "below it; known targets: %s",
                                major, minor, och_strbuf_str(&known));
    och_strbuf_deinit(&known);
    return st;
}

/* 0 where the question fails: a fact that is not known is not relied on. */
static int attribute(const cuda_lib *lib, CUdevice device, CUdevice_attribute which) {
    int v = 0;
    return lib->api.cuDeviceGetAttribute(&v, which, device) == CUDA_SUCCESS ? v : 0;
}

static uint32_t limit(const cuda_lib *lib, CUdevice device, CUdevice_attribute which) {
    return (uint32_t)OCH_MAX(attribute(lib, device, which), 0);
}

/* By the board's name, else its clock, which counts one edge of two. */
static double bandwidth(const cuda_lib *lib, CUdevice device, const char *name) {
    static const char vendor[] = "NVIDIA ";
    if (!strncasecmp(name, vendor, sizeof vendor - 1)) name += sizeof vendor - 1;
    const och_board *board = *name ? och_board_find(name) : NULL;
    if (board && board->bandwidth_gbps > 0) return board->bandwidth_gbps;
    return 2e-6 * attribute(lib, device, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) *
           attribute(lib, device, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8;
}

och_status och_cuda_describe(const cuda_lib *lib, int ordinal, const char *label, och_dev_info *out_info,
                             cuda_device *out_device, och_err *err) {
    och_dev_info *i = out_info;
    const cuda_api *a = &lib->api;
    CUdevice device = 0;
    char text[256];
    size_t bytes = 0;
    const char *call = "cuDeviceGet";
    snprintf(i->label, sizeof i->label, "%s", label);
    snprintf(i->vendor, sizeof i->vendor, "NVIDIA");
    CUresult e = a->cuDeviceGet(&device, ordinal);
    if (e == CUDA_SUCCESS) call = "cuDeviceGetName", e = a->cuDeviceGetName(i->name, (int)sizeof i->name, device);
    if (e == CUDA_SUCCESS) call = "cuDeviceTotalMem", e = a->cuDeviceTotalMem_v2(&bytes, device);
    if (e != CUDA_SUCCESS) {
        och_cuda_error_text(lib, e, text, sizeof text);
        return och_err_set_native(err, OCH_DEVICE, (int64_t)e, "device %s: %s: %s", label, call, text);
    }
    i->name[sizeof i->name - 1] = 0;
    int major = attribute(lib, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    int minor = attribute(lib, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    if (och_cuda_target(major, minor, i->arch, sizeof i->arch, err) != OCH_OK)
        return och_err_prefix(err, "device %s (%s)", label, i->name);
    if (a->cuDeviceGetPCIBusId(i->pci, (int)sizeof i->pci, device) != CUDA_SUCCESS) i->pci[0] = 0;
    for (char *p = i->pci; *p; p++) /* as the system writes it */
        if (*p >= 'A' && *p <= 'F') *p = (char)(*p - 'A' + 'a');
    och_cuda_lib_text(lib, text, sizeof text);
    snprintf(i->runtime, sizeof i->runtime, "%.60s, %.90s", text, lib->path);
    memcpy(i->library, lib->path, sizeof i->library);
    memcpy(i->library_open, lib->opened, sizeof i->library_open);
    i->library_index = ordinal;
    i->wave_size = attribute(lib, device, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    i->n_multiprocessors = OCH_MAX(attribute(lib, device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), 1);
    i->n_compute_units = i->n_multiprocessors;
    i->lds_bytes = OCH_MAX(limit(lib, device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
                           limit(lib, device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK));
    i->max_group = limit(lib, device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    i->l2_bytes = limit(lib, device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    i->bandwidth_gbps = bandwidth(lib, device, i->name);
    i->integrated = attribute(lib, device, CU_DEVICE_ATTRIBUTE_INTEGRATED) == 1;
    i->managed = attribute(lib, device, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS) == 1;
    i->kind = i->integrated ? OCH_DEV_INTEGRATED : OCH_DEV_DISCRETE;
    i->memory_bytes = i->memory_limit_bytes = bytes;
    i->graphs = !och_cuda_graphs_lack(a);
    if (!out_device) return OCH_OK;
    out_device->device = device;
    out_device->max_registers = attribute(lib, device, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
    for (int k = 0; k < 3; k++) { /* the three stand in this order */
        out_device->max_grid[k] = limit(lib, device, (CUdevice_attribute)(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + k));
        out_device->max_group[k] = limit(lib, device, (CUdevice_attribute)(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + k));
    }
    return OCH_OK;
}

/* ---- all-reduce, and the table ---- */

static och_status cuda_all_reduce_f32(och_queue *const *queues, const och_dev_addr *buffers, int n_devices, uint64_t count,
                                      och_reduce op, och_err *err) {
    for (int i = 0; i < n_devices; i++)
        if (och_cuda_is(queues[i]->device))
            OCH_TRY(och_capture_refuse(&cuda_queue_of(queues[i])->capture, queues[i]->device, "all-reduce", err));
    return och_dev_all_reduce_staged(queues, buffers, n_devices, count, op, err);
}

static void cuda_destroy(och_device *d) {
    cuda_device *c = cuda_of(d);
    if (c->context) (void)c->lib->api.cuDevicePrimaryCtxRelease_v2(c->device);
    pthread_mutex_destroy(&c->lock);
    och_free(c);
}

static const och_device_vtable vtable = {
    .destroy = cuda_destroy,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .memory = cuda_memory,
    .unified_memory = cuda_unified_memory,
    .queue_create = och_cuda_queue_create,
    .queue_wrap = och_cuda_queue_wrap,
    .queue_destroy = och_cuda_queue_destroy,
    .synchronise = och_cuda_synchronise,
    .copy_to_device = och_cuda_copy_to_device,
    .copy_to_host = och_cuda_copy_to_host,
    .copy = och_cuda_copy,
    .copy_peer = och_cuda_copy_peer,
    .fill = och_cuda_fill,
    .event_create = och_cuda_event_create,
    .event_destroy = och_cuda_event_destroy,
    .event_record = och_cuda_event_record,
    .event_query = och_cuda_event_query,
    .event_wait_host = och_cuda_event_wait_host,
    .event_wait_queue = och_cuda_event_wait_queue,
    .module_load = och_cuda_module_load,
    .module_unload = och_cuda_module_unload,
    .module_function = och_cuda_module_function,
    .launch = och_cuda_launch,
    .lend = och_cuda_lend,
    .capture_begin = och_cuda_capture_begin,
    .capture_end = och_cuda_capture_end,
    .graph_replay = och_cuda_graph_replay,
    .graph_destroy = och_cuda_graph_destroy,
    .all_reduce_f32 = cuda_all_reduce_f32,
};

/* A device's table may be one that wraps this one (dev/trace.h). */
bool och_cuda_is(const och_device *d) { return d->vtable->alloc == vtable.alloc; }

och_status och_cuda_open(const cuda_lib *lib, int ordinal, const char *label, och_device **out_device, och_err *err) {
    *out_device = NULL;
    cuda_device *c = och_calloc(1, sizeof *c);
    if (!c) return och_err_nomem(err, sizeof *c, "a CUDA device");
    c->base.refcount = 1;
    c->base.vtable = &vtable;
    c->lib = lib;
    c->synchronous = och_env_wish(OCH_ENV_OCHRE_CUDA_SYNC) > 0;
    c->overlaps = lib->api.cuLaunchKernelEx && lib->version >= RECORDS_OVERLAP && och_env_wish(OCH_ENV_OCHRE_CUDA_OVERLAP) != 0;
    c->shares_lds = c->overlaps && lib->version >= SHARES_LDS && och_env_wish(OCH_ENV_OCHRE_CUDA_ROOM) > 0;
    pthread_mutex_init(&c->lock, NULL);
    och_dev_info *info = &c->base.info;
    snprintf(info->backend, sizeof info->backend, "cuda");
    info->index = ordinal;
    och_status st = och_cuda_describe(lib, ordinal, label, info, c, err);
    if (st == OCH_OK && !info->memory_bytes)
        st = och_err_set(err, OCH_DEVICE, "device %s: cuDeviceTotalMem says that it has no memory", label);
    if (st != OCH_OK) {
        pthread_mutex_destroy(&c->lock);
        och_free(c);
        return st;
    }
    *out_device = &c->base;
    return OCH_OK;
}
