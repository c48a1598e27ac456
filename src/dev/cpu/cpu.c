/* The CPU device. Memory is the host's and an address is a host pointer; work runs in the calling thread (ops spread it
 * over the pool) and is complete when the call returns, so that events and synchronise have nothing to wait for. There
 * are no code objects: modules, launches and graphs are declined. */
#include "dev/cpu/cpu.h"

#include "base/alloc.h"
#include "base/env.h"
#include "base/size.h"
#include "dev/cpu/host.h"
#include "dev/staging.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* From here on an allocation has pages of its own, so that freeing it returns them and huge pages can back it. */
#define MAP_FROM_BYTES ((uint64_t)4 << 20)
#define HUGE_PAGE_BYTES ((size_t)2 << 20)

typedef struct cpu_device {
    och_device base;
    och_pool *pool; /* owned */
    och_cpu_isa isa;
    _Atomic uint64_t used_bytes;
} cpu_device;

struct och_event {
    och_device *device; /* borrowed */
};

static const och_device_vtable vtable;

static cpu_device *cpu_of(const och_device *d) { return (cpu_device *)(uintptr_t)d; }
static void *ptr(och_dev_addr a) { return (void *)(uintptr_t)a.value; }
static och_dev_addr addr_of(const void *p) { return (och_dev_addr){(uint64_t)(uintptr_t)p}; }

static och_status declined(const och_device *d, const char *what, och_err *err) {
    return och_err_set(err, OCH_UNSUPPORTED, "device %s:%d: %s: the CPU runs ops through its providers and has no code "
                       "objects", d->info.backend, d->info.index, what);
}

/* ---- memory ---- */

static uint64_t free_bytes(const och_device *d) {
    och_cgroup_limits l = och_host_cgroup_limits("/proc/self/cgroup", "/sys/fs/cgroup");
    uint64_t n = och_host_available_bytes("/proc/meminfo");
    if (!n) n = d->info.memory_limit_bytes;
    n = OCH_MIN(n, l.memory_free_bytes);
    n = OCH_MIN(n, d->info.memory_limit_bytes);
    /* An address space limit (ulimit -v): what it leaves. */
    struct rlimit as;
    uint64_t mapped = och_host_mapped_bytes("/proc/self/statm");
    if (getrlimit(RLIMIT_AS, &as) == 0 && as.rlim_cur != RLIM_INFINITY)
        n = OCH_MIN(n, as.rlim_cur > mapped ? (uint64_t)as.rlim_cur - mapped : 0);
    return n;
}

static och_status cpu_memory(och_device *d, uint64_t *out_free_bytes, uint64_t *out_total_bytes, och_err *err) {
    (void)err;
    *out_free_bytes = free_bytes(d);
    *out_total_bytes = d->info.memory_limit_bytes;
    return OCH_OK;
}

static och_status out_of_memory(const och_device *d, uint64_t size_bytes, och_err *err) {
    return och_err_set(err, OCH_NOMEM, "device %s:%d: %" PRIu64 " bytes asked for, %" PRIu64 " in use, about %" PRIu64
                       " free of a limit of %" PRIu64, d->info.backend, d->info.index, size_bytes,
                       atomic_load(&cpu_of(d)->used_bytes), free_bytes(d), d->info.memory_limit_bytes);
}

/* Device and pinned memory are the same thing here. */
static och_status cpu_alloc(och_device *d, uint64_t size_bytes, och_mem_kind kind, och_buf *out_buf, och_err *err) {
    (void)kind;
    cpu_device *c = cpu_of(d);
    uint64_t before = atomic_fetch_add(&c->used_bytes, size_bytes), after;
    void *p = NULL;
    /* Linux promises memory that is not there: what cannot fit is refused here, not by the killer of processes. */
    if (och_u64_add(before, size_bytes, &after) && after <= d->info.memory_limit_bytes)
        p = size_bytes >= MAP_FROM_BYTES ? och_map((size_t)size_bytes, HUGE_PAGE_BYTES)
                                         : och_malloc_aligned((size_t)size_bytes, OCH_DEV_ALIGN_BYTES);
    if (!p) {
        atomic_fetch_sub(&c->used_bytes, size_bytes);
        return out_of_memory(d, size_bytes, err);
    }
    /* advice: a kernel without huge pages refuses it, and nothing is lost */
    if (size_bytes >= MAP_FROM_BYTES) (void)madvise(p, (size_t)size_bytes, MADV_HUGEPAGE);
    out_buf->addr = addr_of(p);
    out_buf->host = p;
    return OCH_OK;
}

static void cpu_free(och_device *d, och_buf *buf) {
    if (buf->size_bytes >= MAP_FROM_BYTES) och_unmap(ptr(buf->addr), (size_t)buf->size_bytes);
    else och_free_aligned(ptr(buf->addr));
    atomic_fetch_sub(&cpu_of(d)->used_bytes, buf->size_bytes);
}

static bool cpu_unified_memory(const och_device *d) {
    (void)d;
    return true;
}

/* ---- queues and copies ---- */

static och_status cpu_queue_create(och_device *d, och_queue **out_queue, och_err *err) {
    *out_queue = och_malloc(sizeof **out_queue);
    if (!*out_queue) return och_err_nomem(err, sizeof **out_queue, "a queue");
    (*out_queue)->device = d;
    return OCH_OK;
}

static void cpu_queue_destroy(och_queue *q) { och_free(q); }

static och_status cpu_synchronise(och_queue *q, och_err *err) {
    (void)q, (void)err;
    return OCH_OK;
}

/* Address 0 is never an allocation; anything more the CPU cannot check. */
static och_status move(const och_queue *q, const char *what, void *dst, const void *src, uint64_t n_bytes, och_err *err) {
    if (!n_bytes) return OCH_OK;
    if (!dst || !src)
        return och_err_set(err, OCH_DEVICE, "device %s:%d: %s of %" PRIu64 " bytes: the %s address is 0",
                           q->device->info.backend, q->device->info.index, what, n_bytes, dst ? "source" : "destination");
    memmove(dst, src, (size_t)n_bytes);
    return OCH_OK;
}

static och_status cpu_copy_to_device(och_queue *q, och_dev_addr dst, const void *src, uint64_t n_bytes, och_err *err) {
    return move(q, "copy to device", ptr(dst), src, n_bytes, err);
}

static och_status cpu_copy_to_host(och_queue *q, void *dst, och_dev_addr src, uint64_t n_bytes, och_err *err) {
    return move(q, "copy to host", dst, ptr(src), n_bytes, err);
}

static och_status cpu_copy(och_queue *q, och_dev_addr dst, och_dev_addr src, uint64_t n_bytes, och_err *err) {
    return move(q, "copy", ptr(dst), ptr(src), n_bytes, err);
}

static och_status cpu_copy_peer(och_queue *q, och_device *dst_dev, och_dev_addr dst, och_device *src_dev, och_dev_addr src,
                                uint64_t n_bytes, och_err *err) {
    bool q_belongs = q->device == dst_dev || q->device == src_dev;
    if (q_belongs && dst_dev->vtable == &vtable && src_dev->vtable == &vtable)
        return move(q, "peer copy", ptr(dst), ptr(src), n_bytes, err);
    return och_dev_copy_peer_staged(q, dst_dev, dst, src_dev, src, n_bytes, err);
}

static och_status cpu_fill(och_queue *q, och_dev_addr dst, uint8_t byte, uint64_t n_bytes, och_err *err) {
    if (!n_bytes) return OCH_OK;
    if (!dst.value)
        return och_err_set(err, OCH_DEVICE, "device %s:%d: fill of %" PRIu64 " bytes: the destination address is 0",
                           q->device->info.backend, q->device->info.index, n_bytes);
    memset(ptr(dst), byte, (size_t)n_bytes);
    return OCH_OK;
}

/* ---- events: all work before a record is done when the record is made ---- */

static och_status cpu_event_create(och_device *d, och_event **out_event, och_err *err) {
    *out_event = och_malloc(sizeof **out_event);
    if (!*out_event) return och_err_nomem(err, sizeof **out_event, "an event");
    (*out_event)->device = d;
    return OCH_OK;
}

static void cpu_event_destroy(och_event *e) { och_free(e); }

static och_status cpu_event_record(och_queue *q, och_event *e, och_err *err) {
    if (q->device == e->device) return OCH_OK;
    return och_err_set(err, OCH_INVALID, "event record: the event belongs to another device than the queue");
}

static och_status cpu_event_query(och_event *e, bool *out_done, och_err *err) {
    (void)e, (void)err;
    *out_done = true;
    return OCH_OK;
}

static och_status cpu_event_wait_host(och_event *e, och_err *err) {
    (void)e, (void)err;
    return OCH_OK;
}

static och_status cpu_event_wait_queue(och_queue *q, och_event *e, och_err *err) {
    if (q->device == e->device) return OCH_OK;
    return och_err_set(err, OCH_INVALID, "event wait: the event belongs to another device than the queue");
}

/* ---- declined ---- */

static och_status cpu_queue_wrap(och_device *d, void *stream, och_queue **out_queue, och_err *err) {
    (void)stream;
    *out_queue = NULL;
    return declined(d, "a queue over another's stream", err);
}

static och_status cpu_module_load(och_device *d, const void *image, size_t n_bytes, och_module **out_module, och_err *err) {
    (void)image, (void)n_bytes;
    *out_module = NULL;
    return declined(d, "module load", err);
}

static void cpu_module_unload(och_module *m) { (void)m; }

static och_status cpu_module_function(och_module *m, const char *name, och_function **out_function, och_err *err) {
    (void)m, (void)name;
    *out_function = NULL;
    return och_err_set(err, OCH_UNSUPPORTED, "module function: the CPU has no code objects");
}

static och_status cpu_launch(och_queue *q, och_function *f, const och_launch *l, och_err *err) {
    (void)f, (void)l;
    return declined(q->device, "launch", err);
}

static och_status cpu_lend(och_queue *q, const char *name, och_status (*give)(void *user, void *stream, och_err *err), void *user,
                           och_err *err) {
    (void)name, (void)give, (void)user;
    return declined(q->device, "a stream for another library", err);
}

static och_status cpu_capture_begin(och_queue *q, och_err *err) { return declined(q->device, "graph capture", err); }

static och_status cpu_capture_end(och_queue *q, och_graph **out_graph, och_err *err) {
    *out_graph = NULL;
    return declined(q->device, "graph capture", err);
}

static och_status cpu_graph_replay(och_queue *q, och_graph *g, och_err *err) {
    (void)g;
    return declined(q->device, "graph replay", err);
}

static och_status cpu_graph_destroy(och_graph *g, och_err *err) {
    (void)g;
    return och_err_set(err, OCH_UNSUPPORTED, "graph destroy: the CPU captures no graphs");
}

/* ---- collectives ---- */

static och_status cpu_all_reduce_f32(och_queue *const *queues, const och_dev_addr *buffers, int n_devices, uint64_t count,
                                     och_reduce op, och_err *err) {
    if (n_devices < 1 || (op != OCH_REDUCE_SUM && op != OCH_REDUCE_MAX))
        return och_err_set(err, OCH_INVALID, "all-reduce: expected at least 1 device and sum or max, found %d devices and "
                           "operation %d", n_devices, (int)op);
    for (int i = 0; i < n_devices; i++) {
        if (queues[i]->device->vtable != &vtable)
            return och_err_set(err, OCH_UNSUPPORTED, "all-reduce: queue %d belongs to %s:%d, and the CPU reduces over CPU "
                               "queues only", i, queues[i]->device->info.backend, queues[i]->device->info.index);
        if (count && (!buffers[i].value || buffers[i].value % sizeof(float)))
            return och_err_set(err, OCH_DEVICE, "all-reduce: buffer %d at 0x%" PRIx64 ": expected an address aligned to 4",
                               i, buffers[i].value);
    }
    for (uint64_t k = 0; k < count; k++) {
        float acc = ((const float *)ptr(buffers[0]))[k];
        for (int i = 1; i < n_devices; i++) {
            float v = ((const float *)ptr(buffers[i]))[k];
            if (op == OCH_REDUCE_SUM) acc += v;
            else if (isnan(v) || v > acc) acc = v;
        }
        for (int i = 0; i < n_devices; i++) ((float *)ptr(buffers[i]))[k] = acc;
    }
    return OCH_OK;
}

/* ---- the device ---- */

static void cpu_destroy(och_device *d) {
    och_pool_destroy(cpu_of(d)->pool);
    och_free(d);
}

static const och_device_vtable vtable = {
    .destroy = cpu_destroy,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .memory = cpu_memory,
    .unified_memory = cpu_unified_memory,
    .queue_create = cpu_queue_create,
    .queue_wrap = cpu_queue_wrap,
    .queue_destroy = cpu_queue_destroy,
    .synchronise = cpu_synchronise,
    .copy_to_device = cpu_copy_to_device,
    .copy_to_host = cpu_copy_to_host,
    .copy = cpu_copy,
    .copy_peer = cpu_copy_peer,
    .fill = cpu_fill,
    .event_create = cpu_event_create,
    .event_destroy = cpu_event_destroy,
    .event_record = cpu_event_record,
    .event_query = cpu_event_query,
    .event_wait_host = cpu_event_wait_host,
    .event_wait_queue = cpu_event_wait_queue,
    .module_load = cpu_module_load,
    .module_unload = cpu_module_unload,
    .module_function = cpu_module_function,
    .launch = cpu_launch,
    .lend = cpu_lend,
    .capture_begin = cpu_capture_begin,
    .capture_end = cpu_capture_end,
    .graph_replay = cpu_graph_replay,
    .graph_destroy = cpu_graph_destroy,
    .all_reduce_f32 = cpu_all_reduce_f32,
};

och_pool *och_cpu_pool(och_device *d) { return cpu_of(d)->pool; }
och_cpu_isa och_cpu_device_isa(const och_device *d) { return cpu_of(d)->isa; }

static const char *arch_of(och_cpu_isa isa) {
    switch (isa) {
        case OCH_CPU_AVX2: return "x86-64-v3";
        case OCH_CPU_AVX512: return "x86-64-v4";
        case OCH_CPU_AMX: return "x86-64-v4+amx";
        case OCH_CPU_NEON: return "aarch64+dotprod+fp16";
        case OCH_CPU_GENERIC: break;
    }
#if defined(__x86_64__)
    return "x86-64";
#elif defined(__aarch64__)
    return "aarch64";
#else
    return "generic";
#endif
}

/* 0 in `out_n` never remains: the option, the variable, or what the process may use. */
static och_status thread_count(const och_dev_options *options, const och_cgroup_limits *limits, int *out_n, och_err *err) {
    *out_n = options->n_threads;
    if (*out_n < 0 || *out_n > OCH_POOL_MAX_THREADS)
        return och_err_set(err, OCH_RANGE, "number of threads: expected 1 to %d, or 0 for every CPU, found %d",
                           OCH_POOL_MAX_THREADS, *out_n);
    if (*out_n) return OCH_OK;
    const char *text = och_env_get(OCH_ENV_OCHRE_THREADS);
    if (text) {
        size_t n_digits = strspn(text, "0123456789");
        long n = n_digits && n_digits < 8 && !text[n_digits] ? strtol(text, NULL, 10) : 0;
        if (n < 1 || n > OCH_POOL_MAX_THREADS)
            return och_err_set(err, OCH_INVALID, "environment variable OCHRE_THREADS: expected a whole number from 1 to %d, "
                               "found '%s'", OCH_POOL_MAX_THREADS, text);
        *out_n = (int)n;
        return OCH_OK;
    }
    int n = och_cpu_count();
    /* a quota below the CPUs that are seen stops every thread for the rest of the period once it is used up */
    if (limits->cpus > 0 && limits->cpus < n) n = (int)ceil(limits->cpus);
    *out_n = OCH_MIN(n, OCH_POOL_MAX_THREADS);
    return OCH_OK;
}

static och_status cpu_count(int *out_n, och_err *err) {
    (void)err;
    *out_n = 1;
    return OCH_OK;
}

static och_status cpu_open(int index, const och_dev_options *options, och_device **out_device, och_err *err) {
    *out_device = NULL;
    och_cgroup_limits limits = och_host_cgroup_limits("/proc/self/cgroup", "/sys/fs/cgroup");
    int n_threads;
    OCH_TRY(thread_count(options, &limits, &n_threads, err));
    cpu_device *c = och_calloc(1, sizeof *c);
    if (!c) return och_err_nomem(err, sizeof *c, "the CPU device");
    och_status st = och_pool_create(n_threads, &c->pool, err);
    if (st != OCH_OK) {
        och_free(c);
        return st;
    }
    c->isa = och_cpu_isa_detect();
    c->base.refcount = 1;
    c->base.vtable = &vtable;
    och_dev_info *info = &c->base.info;
    snprintf(info->backend, sizeof info->backend, "cpu");
    info->index = index;
    och_host_cpu_name("/proc/cpuinfo", info->name, sizeof info->name, info->vendor, sizeof info->vendor);
    snprintf(info->arch, sizeof info->arch, "%s", arch_of(c->isa));
    info->kind = OCH_DEV_CPU;
    info->memory_bytes = och_host_memory_bytes();
    info->memory_limit_bytes = OCH_MIN(info->memory_bytes, limits.memory_bytes);
    struct rlimit address_space;
    if (getrlimit(RLIMIT_AS, &address_space) == 0 && address_space.rlim_cur != RLIM_INFINITY)
        info->memory_limit_bytes = OCH_MIN(info->memory_limit_bytes, (uint64_t)address_space.rlim_cur);
    info->n_compute_units = och_pool_size(c->pool);
    *out_device = &c->base;
    return OCH_OK;
}

const och_backend och_backend_cpu = {"cpu", cpu_count, cpu_open, NULL};
