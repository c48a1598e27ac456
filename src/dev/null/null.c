/* The null device: a complete backend in the shape of a discrete board, that holds memory and computes nothing. It is
 * the skeleton to copy for a new backend, and the strict one in tests:
 *   - an address is no host pointer, is never given twice, and is checked at every use;
 *   - work is deferred as far as the seam allows: a command runs when something waits for it, so a caller that forgets to
 *     synchronise reads stale bytes every time instead of now and then;
 *   - an error of deferred work is kept by the queue and surfaces at its next call, at the latest at synchronise;
 *   - memory is small, so that running out of it is easy to reach.
 * What it declines: modules, launches, graphs, collectives. */
#include "base/alloc.h"
#include "base/size.h"
#include "dev/dev.h"
#include "dev/staging.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define MEMORY_BYTES ((uint64_t)1 << 30)
/* Bit 60: no host pointer on any 64-bit machine looks like this, and using one as a pointer faults. */
#define FIRST_ADDR ((uint64_t)1 << 60)
#define GUARD_BYTES 4096 /* between two allocations, so that running over one never meets the next */
#define MAX_PENDING 256  /* a full queue runs its oldest command: nothing is allocated by giving work */

typedef struct block {
    struct block *next;
    uint64_t addr, size_bytes;
    unsigned char *data; /* owned; the host pointer too when pinned */
    och_mem_kind kind;
} block;

typedef struct null_device {
    och_device base;
    block *blocks; /* owned, newest first */
    uint64_t next_addr;
    uint64_t used_bytes; /* of device memory */
} null_device;

typedef enum command_kind { TO_DEVICE, TO_HOST, COPY, FILL, WAIT } command_kind;

typedef struct null_queue null_queue;
typedef struct command {
    command_kind kind;
    uint64_t dst, src; /* device addresses */
    void *host;        /* borrowed until the command has run */
    uint64_t n_bytes;
    uint8_t byte;
    null_queue *wait_queue; /* retained */
    uint64_t wait_seq;
} command;

struct null_queue {
    och_queue base;
    int refcount; /* the owner, events and waiting commands */
    command pending[MAX_PENDING];
    uint64_t n_given, n_run; /* commands, ever; pending are [n_run, n_given) modulo MAX_PENDING */
    och_err failure;         /* of deferred work, not yet reported */
};

struct och_event {
    och_device *device; /* borrowed */
    null_queue *queue;  /* retained; NULL: never recorded */
    uint64_t seq;       /* done when the queue has run as many */
};

/* One lock for the whole backend: a queue may run the commands of another, possibly of another device's thread. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static null_device *null_of(och_device *d) { return (null_device *)d; }
static null_queue *queue_of(och_queue *q) { return (null_queue *)q; }

static och_status declined(const char *what, och_err *err) {
    return och_err_set(err, OCH_UNSUPPORTED, "device null: %s: it holds memory and computes nothing", what);
}

/* ---- memory ---- */

static och_status null_alloc(och_device *d, uint64_t size_bytes, och_mem_kind kind, och_buf *out_buf, och_err *err) {
    null_device *n = null_of(d);
    pthread_mutex_lock(&lock);
    och_status st = OCH_OK;
    block *b = NULL;
    uint64_t charged = kind == OCH_MEM_DEVICE ? size_bytes : 0;
    if (size_bytes > MEMORY_BYTES || charged > MEMORY_BYTES - n->used_bytes) {
        st = och_err_set(err, OCH_NOMEM, "device null:%d: %" PRIu64 " bytes asked for, %" PRIu64 " free of %" PRIu64,
                         d->info.index, size_bytes, MEMORY_BYTES - n->used_bytes, MEMORY_BYTES);
        goto done;
    }
    b = och_calloc(1, sizeof *b);
    if (b) b->data = och_malloc_aligned((size_t)size_bytes, OCH_DEV_ALIGN_BYTES);
    if (!b || !b->data) {
        st = och_err_nomem(err, size_bytes, "memory of the null device");
        goto done;
    }
    /* fresh memory is undefined: make a reader of it notice, without touching all of a large block */
    memset(b->data, 0xA5, (size_t)OCH_MIN(size_bytes, (uint64_t)1 << 20));
    b->addr = n->next_addr;
    b->size_bytes = size_bytes;
    b->kind = kind;
    n->next_addr += (size_bytes + GUARD_BYTES + OCH_DEV_ALIGN_BYTES - 1) / OCH_DEV_ALIGN_BYTES * OCH_DEV_ALIGN_BYTES;
    n->used_bytes += charged;
    b->next = n->blocks;
    n->blocks = b;
    out_buf->addr.value = b->addr;
    out_buf->host = kind == OCH_MEM_PINNED ? b->data : NULL;
    b = NULL;
done:
    if (b) och_free_aligned(b->data);
    och_free(b);
    pthread_mutex_unlock(&lock);
    return st;
}

static void null_free(och_device *d, och_buf *buf) {
    null_device *n = null_of(d);
    pthread_mutex_lock(&lock);
    for (block **at = &n->blocks; *at; at = &(*at)->next) {
        block *b = *at;
        if (b->addr != buf->addr.value) continue;
        *at = b->next;
        if (b->kind == OCH_MEM_DEVICE) n->used_bytes -= b->size_bytes;
        och_free_aligned(b->data);
        och_free(b);
        break;
    }
    pthread_mutex_unlock(&lock);
}

static och_status null_memory(och_device *d, uint64_t *out_free_bytes, uint64_t *out_total_bytes, och_err *err) {
    (void)err;
    pthread_mutex_lock(&lock);
    *out_free_bytes = MEMORY_BYTES - null_of(d)->used_bytes;
    *out_total_bytes = MEMORY_BYTES;
    pthread_mutex_unlock(&lock);
    return OCH_OK;
}

static bool null_unified_memory(const och_device *d) {
    (void)d;
    return false;
}

/* The bytes behind [addr, addr + n_bytes), or NULL with an error that names the operation and the nearest allocation. */
static unsigned char *resolve(null_device *d, const char *op, const char *side, uint64_t addr, uint64_t n_bytes, och_err *err) {
    const block *nearest = NULL;
    uint64_t least = UINT64_MAX;
    for (const block *b = d->blocks; b; b = b->next) {
        if (addr >= b->addr && addr - b->addr <= b->size_bytes && n_bytes <= b->size_bytes - (addr - b->addr))
            return b->data + (addr - b->addr);
        uint64_t distance = addr < b->addr ? b->addr - addr : addr - b->addr < b->size_bytes ? 0 : addr - b->addr - b->size_bytes;
        if (!nearest || distance < least) nearest = b, least = distance;
    }
    if (nearest)
        (void)och_err_set(err, OCH_DEVICE, "device null:%d: %s of %" PRIu64 " bytes: the %s range at 0x%" PRIx64 " is in no "
                          "allocation; the nearest has %" PRIu64 " bytes at 0x%" PRIx64, d->base.info.index, op, n_bytes, side,
                          addr, nearest->size_bytes, nearest->addr);
    else
        (void)och_err_set(err, OCH_DEVICE, "device null:%d: %s of %" PRIu64 " bytes: the %s range at 0x%" PRIx64 " is in no "
                          "allocation; there is none", d->base.info.index, op, n_bytes, side, addr);
    return NULL;
}

static bool is_pinned(const null_device *d, const void *host, uint64_t n_bytes) {
    uintptr_t p = (uintptr_t)host;
    for (const block *b = d->blocks; b; b = b->next) {
        uintptr_t at = (uintptr_t)b->data;
        if (b->kind == OCH_MEM_PINNED && p >= at && p - at <= b->size_bytes && n_bytes <= b->size_bytes - (p - at)) return true;
    }
    return false;
}

/* ---- deferred work; the lock is held ---- */

static void queue_release(null_queue *q) {
    if (q && --q->refcount == 0) och_free(q);
}

static void run_until(null_queue *q, uint64_t seq);

static och_status run_command(null_device *d, const command *c, och_err *err) {
    static const char *const names[] = {"copy to device", "copy to host", "copy", "fill", "wait"};
    unsigned char *dst = NULL, *src = NULL;
    if (c->kind == WAIT) {
        run_until(c->wait_queue, c->wait_seq);
        return OCH_OK;
    }
    if (c->kind != TO_HOST && !(dst = resolve(d, names[c->kind], "destination", c->dst, c->n_bytes, err))) return OCH_DEVICE;
    if ((c->kind == TO_HOST || c->kind == COPY) && !(src = resolve(d, names[c->kind], "source", c->src, c->n_bytes, err)))
        return OCH_DEVICE;
    switch (c->kind) {
        case TO_DEVICE: memcpy(dst, c->host, (size_t)c->n_bytes); break;
        case TO_HOST: memcpy(c->host, src, (size_t)c->n_bytes); break;
        case FILL: memset(dst, c->byte, (size_t)c->n_bytes); break;
        case COPY:
            if (dst < src + c->n_bytes && src < dst + c->n_bytes)
                return och_err_set(err, OCH_DEVICE, "device null:%d: copy of %" PRIu64 " bytes from 0x%" PRIx64 " to 0x%" PRIx64
                                   ": the ranges overlap", d->base.info.index, c->n_bytes, c->src, c->dst);
            memcpy(dst, src, (size_t)c->n_bytes);
            break;
        case WAIT: break;
    }
    return OCH_OK;
}

static void run_one(null_queue *q) {
    command c = q->pending[q->n_run % MAX_PENDING];
    /* after an error the rest of the queue is dropped until the error was reported; waits still release what they hold */
    if (q->failure.status == OCH_OK) (void)run_command(null_of(q->base.device), &c, &q->failure);
    q->n_run++;
    queue_release(c.wait_queue);
}

/* Waits captured what was given before them, so that queues never wait in a circle. */
static void run_until(null_queue *q, uint64_t seq) {
    while (q->n_run < seq) run_one(q);
}

static och_status report(null_queue *q, och_err *err) {
    if (q->failure.status == OCH_OK) return OCH_OK;
    run_until(q, q->n_given); /* drops what was given after the failed command */
    och_status st = och_err_set_native(err, q->failure.status, q->failure.native_code, "%s", q->failure.message);
    och_err_clear(&q->failure);
    return st;
}

static och_status give(null_queue *q, command c, och_err *err) {
    OCH_TRY(report(q, err));
    if (q->n_given - q->n_run == MAX_PENDING) run_one(q);
    q->pending[q->n_given++ % MAX_PENDING] = c;
    if (c.wait_queue) c.wait_queue->refcount++;
    return OCH_OK;
}

/* ---- queues and copies ---- */

static och_status null_queue_create(och_device *d, och_queue **out_queue, och_err *err) {
    *out_queue = NULL;
    null_queue *q = och_calloc(1, sizeof *q);
    if (!q) return och_err_nomem(err, sizeof *q, "a queue");
    q->base.device = d;
    q->refcount = 1;
    *out_queue = &q->base;
    return OCH_OK;
}

static void null_queue_destroy(och_queue *queue) {
    null_queue *q = queue_of(queue);
    pthread_mutex_lock(&lock);
    run_until(q, q->n_given);
    queue_release(q);
    pthread_mutex_unlock(&lock);
}

static och_status null_synchronise(och_queue *queue, och_err *err) {
    null_queue *q = queue_of(queue);
    pthread_mutex_lock(&lock);
    run_until(q, q->n_given);
    och_status st = report(q, err);
    pthread_mutex_unlock(&lock);
    return st;
}

/* Commands with pageable host memory are complete when the call returns, as on a real board. */
static och_status submit(och_queue *queue, command c, och_err *err) {
    if (!c.n_bytes) return OCH_OK;
    null_queue *q = queue_of(queue);
    pthread_mutex_lock(&lock);
    och_status st = give(q, c, err);
    if (st == OCH_OK && c.host && !is_pinned(null_of(queue->device), c.host, c.n_bytes)) {
        run_until(q, q->n_given);
        st = report(q, err);
    }
    pthread_mutex_unlock(&lock);
    return st;
}

static och_status no_host_pointer(const char *op, och_err *err) {
    return och_err_set(err, OCH_INVALID, "device null: %s: the host pointer is NULL", op);
}

static och_status null_copy_to_device(och_queue *q, och_dev_addr dst, const void *src, uint64_t n_bytes, och_err *err) {
    if (n_bytes && !src) return no_host_pointer("copy to device", err);
    return submit(q, (command){.kind = TO_DEVICE, .dst = dst.value, .host = (void *)(uintptr_t)src, .n_bytes = n_bytes}, err);
}

static och_status null_copy_to_host(och_queue *q, void *dst, och_dev_addr src, uint64_t n_bytes, och_err *err) {
    if (n_bytes && !dst) return no_host_pointer("copy to host", err);
    return submit(q, (command){.kind = TO_HOST, .src = src.value, .host = dst, .n_bytes = n_bytes}, err);
}

static och_status null_copy(och_queue *q, och_dev_addr dst, och_dev_addr src, uint64_t n_bytes, och_err *err) {
    return submit(q, (command){.kind = COPY, .dst = dst.value, .src = src.value, .n_bytes = n_bytes}, err);
}

static och_status null_copy_peer(och_queue *q, och_device *dst_dev, och_dev_addr dst, och_device *src_dev, och_dev_addr src,
                                 uint64_t n_bytes, och_err *err) {
    return och_dev_copy_peer_staged(q, dst_dev, dst, src_dev, src, n_bytes, err);
}

static och_status null_fill(och_queue *q, och_dev_addr dst, uint8_t byte, uint64_t n_bytes, och_err *err) {
    return submit(q, (command){.kind = FILL, .dst = dst.value, .byte = byte, .n_bytes = n_bytes}, err);
}

/* ---- events ---- */

static och_status null_event_create(och_device *d, och_event **out_event, och_err *err) {
    *out_event = och_calloc(1, sizeof **out_event);
    if (!*out_event) return och_err_nomem(err, sizeof **out_event, "an event");
    (*out_event)->device = d;
    return OCH_OK;
}

static void null_event_destroy(och_event *e) {
    if (!e) return;
    pthread_mutex_lock(&lock);
    queue_release(e->queue);
    pthread_mutex_unlock(&lock);
    och_free(e);
}

static och_status same_device(const och_queue *q, const och_event *e, const char *op, och_err *err) {
    if (q->device == e->device) return OCH_OK;
    return och_err_set(err, OCH_INVALID, "event %s: the event belongs to another device than the queue", op);
}

static och_status null_event_record(och_queue *queue, och_event *e, och_err *err) {
    OCH_TRY(same_device(queue, e, "record", err));
    null_queue *q = queue_of(queue);
    pthread_mutex_lock(&lock);
    och_status st = report(q, err);
    if (st == OCH_OK) {
        q->refcount++;
        queue_release(e->queue);
        e->queue = q;
        e->seq = q->n_given;
    }
    pthread_mutex_unlock(&lock);
    return st;
}

/* Each query lets one command run, so that a caller that polls sees both answers and comes to an end. */
static och_status null_event_query(och_event *e, bool *out_done, och_err *err) {
    (void)err;
    pthread_mutex_lock(&lock);
    *out_done = !e->queue || e->queue->n_run >= e->seq;
    if (!*out_done) run_one(e->queue);
    pthread_mutex_unlock(&lock);
    return OCH_OK;
}

static och_status null_event_wait_host(och_event *e, och_err *err) {
    pthread_mutex_lock(&lock);
    och_status st = OCH_OK;
    if (e->queue) {
        run_until(e->queue, e->seq);
        /* told here too, and kept for the queue's own next call */
        const och_err *f = &e->queue->failure;
        if (f->status != OCH_OK) st = och_err_set_native(err, f->status, f->native_code, "%s", f->message);
    }
    pthread_mutex_unlock(&lock);
    return st;
}

static och_status null_event_wait_queue(och_queue *queue, och_event *e, och_err *err) {
    OCH_TRY(same_device(queue, e, "wait", err));
    null_queue *q = queue_of(queue);
    pthread_mutex_lock(&lock);
    och_status st = report(q, err);
    if (st == OCH_OK && e->queue && e->queue != q)
        st = give(q, (command){.kind = WAIT, .wait_queue = e->queue, .wait_seq = e->seq}, err);
    pthread_mutex_unlock(&lock);
    return st;
}

/* ---- declined ---- */

static och_status null_queue_wrap(och_device *d, void *stream, och_queue **out_queue, och_err *err) {
    (void)d, (void)stream;
    *out_queue = NULL;
    return declined("a queue over another's stream", err);
}

static och_status null_module_load(och_device *d, const void *image, size_t n_bytes, och_module **out_module, och_err *err) {
    (void)d, (void)image, (void)n_bytes;
    *out_module = NULL;
    return declined("module load", err);
}

static void null_module_unload(och_module *m) { (void)m; }

static och_status null_module_function(och_module *m, const char *name, och_function **out_function, och_err *err) {
    (void)m, (void)name;
    *out_function = NULL;
    return declined("module function", err);
}

static och_status null_launch(och_queue *q, och_function *f, const och_launch *l, och_err *err) {
    (void)q, (void)f, (void)l;
    return declined("launch", err);
}

static och_status null_lend(och_queue *q, const char *name, och_status (*put)(void *user, void *stream, och_err *err), void *user,
                            och_err *err) {
    (void)q, (void)name, (void)put, (void)user;
    return declined("a stream for another library", err);
}

static och_status null_capture_begin(och_queue *q, och_err *err) {
    (void)q;
    return declined("graph capture", err);
}

static och_status null_capture_end(och_queue *q, och_graph **out_graph, och_err *err) {
    (void)q;
    *out_graph = NULL;
    return declined("graph capture", err);
}

static och_status null_graph_replay(och_queue *q, och_graph *g, och_err *err) {
    (void)q, (void)g;
    return declined("graph replay", err);
}

static och_status null_graph_destroy(och_graph *g, och_err *err) {
    (void)g;
    return declined("graph destroy", err);
}

static och_status null_all_reduce_f32(och_queue *const *queues, const och_dev_addr *buffers, int n_devices, uint64_t count,
                                      och_reduce op, och_err *err) {
    (void)queues, (void)buffers, (void)n_devices, (void)count, (void)op;
    return declined("all-reduce", err);
}

/* ---- the device ---- */

static void null_destroy(och_device *d) {
    null_device *n = null_of(d);
    for (block *b = n->blocks, *next; b; b = next) {
        next = b->next;
        och_free_aligned(b->data);
        och_free(b);
    }
    och_free(n);
}

static const och_device_vtable vtable = {
    .destroy = null_destroy,
    .alloc = null_alloc,
    .free = null_free,
    .memory = null_memory,
    .unified_memory = null_unified_memory,
    .queue_create = null_queue_create,
    .queue_wrap = null_queue_wrap,
    .queue_destroy = null_queue_destroy,
    .synchronise = null_synchronise,
    .copy_to_device = null_copy_to_device,
    .copy_to_host = null_copy_to_host,
    .copy = null_copy,
    .copy_peer = null_copy_peer,
    .fill = null_fill,
    .event_create = null_event_create,
    .event_destroy = null_event_destroy,
    .event_record = null_event_record,
    .event_query = null_event_query,
    .event_wait_host = null_event_wait_host,
    .event_wait_queue = null_event_wait_queue,
    .module_load = null_module_load,
    .module_unload = null_module_unload,
    .module_function = null_module_function,
    .launch = null_launch,
    .lend = null_lend,
    .capture_begin = null_capture_begin,
    .capture_end = null_capture_end,
    .graph_replay = null_graph_replay,
    .graph_destroy = null_graph_destroy,
    .all_reduce_f32 = null_all_reduce_f32,
};

static och_status null_count(int *out_n, och_err *err) {
    (void)err;
    *out_n = 1;
    return OCH_OK;
}

static och_status null_open(int index, const och_dev_options *options, och_device **out_device, och_err *err) {
    (void)options;
    *out_device = NULL;
    null_device *n = och_calloc(1, sizeof *n);
    if (!n) return och_err_nomem(err, sizeof *n, "the null device");
    n->base.refcount = 1;
    n->base.vtable = &vtable;
    och_dev_info *info = &n->base.info;
    snprintf(info->backend, sizeof info->backend, "null");
    info->index = index;
    snprintf(info->name, sizeof info->name, "null device");
    snprintf(info->vendor, sizeof info->vendor, "Ochre");
    snprintf(info->arch, sizeof info->arch, "none");
    info->kind = OCH_DEV_NULL;
    info->memory_bytes = MEMORY_BYTES;
    info->memory_limit_bytes = MEMORY_BYTES;
    info->n_compute_units = 1;
    n->next_addr = FIRST_ADDR;
    *out_device = &n->base;
    return OCH_OK;
}

const och_backend och_backend_null = {"null", null_count, null_open, NULL};
