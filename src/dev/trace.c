#include "dev/trace.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "dev/capture.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HOST_ROW 0 /* the process of the host's rows; a device's is its number + 1 */

/* A device's table while it is traced. `table` comes first, so that a wrapper finds the rest from the device. */
typedef struct traced {
    och_device_vtable table;
    const och_device_vtable *inner;
    int row;
} traced;

static struct {
    FILE *file;
    char path[512]; /* of it, for messages; cut where it is longer */
    pthread_mutex_t lock;
    double start;
    int n_devices;
    bool any; /* an event has been written */
} trace = {.lock = PTHREAD_MUTEX_INITIALIZER};
static atomic_bool on;

static _Thread_local struct {
    char *out;
    size_t n_bytes;
} names;

/* ---- names ---- */

void och_trace_names(char *out, size_t n_bytes) {
    names.out = out;
    names.n_bytes = n_bytes;
    if (out && n_bytes) out[0] = 0;
}

void och_trace_launched(const char *kernel) {
    if (!names.out) return;
    size_t n = strlen(names.out), len = strlen(kernel);
    for (const char *p = names.out; (p = strstr(p, kernel)); p += len)
        if ((p == names.out || p[-1] == ' ') && (!p[len] || p[len] == ',')) return;
    snprintf(names.out + n, names.n_bytes - n, "%s%s", n ? ", " : "", kernel);
}

/* ---- events ---- */

static void put_string(FILE *f, const char *s) {
    putc('"', f);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') fprintf(f, "\\%c", c);
        else if (c < 0x20) fprintf(f, "\\u%04x", c);
        else putc(c, f);
    }
    putc('"', f);
}

/* Called with the lock: what separates events. */
static void next_event(void) {
    fputs(trace.any ? ",\n" : "\n", trace.file);
    trace.any = true;
}

static void put_bar(int process, double begin, double end, const char *kind, const char *name, const char *key,
                    uint64_t value) {
    pthread_mutex_lock(&trace.lock);
    if (trace.file) {
        next_event();
        fputs("{\"ph\": \"X\", \"name\": ", trace.file);
        put_string(trace.file, name);
        fprintf(trace.file, ", \"cat\": \"%s\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f", kind, process,
                (int)gettid(), (begin - trace.start) * 1e6, (end - begin) * 1e6);
        if (key) fprintf(trace.file, ", \"args\": {\"%s\": %" PRIu64 "}", key, value);
        putc('}', trace.file);
    }
    pthread_mutex_unlock(&trace.lock);
}

static void put_process(int process, const char *name) {
    next_event();
    fprintf(trace.file, "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %d, \"args\": {\"name\": ", process);
    put_string(trace.file, name);
    fputs("}}", trace.file);
}

bool och_trace_on(void) { return atomic_load_explicit(&on, memory_order_relaxed); }
double och_trace_begin(void) { return och_trace_on() ? och_now_seconds() : 0.0; }

void och_trace_end(double begin, const char *kind, const char *fmt, ...) {
    if (begin <= 0.0 || !och_trace_on()) return;
    double end = och_now_seconds();
    char name[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    put_bar(HOST_ROW, begin, end, kind, name, NULL, 0);
}

/* ---- the traced table ---- */

static const traced *of(const och_device *d) { return (const traced *)(const void *)d->vtable; }

static och_status traced_launch(och_queue *q, och_function *f, const och_launch *l, och_err *err) {
    const traced *t = of(q->device);
    double begin = och_trace_begin();
    OCH_TRY(t->inner->launch(q, f, l, err));
    /* A thread that records a graph may not wait: there the bar is the launch's own. */
    if (!och_capture_here()) OCH_TRY(t->inner->synchronise(q, err));
    put_bar(t->row, begin, och_now_seconds(), "kernel", f->name, "workgroups", (uint64_t)l->grid[0] * l->grid[1] * l->grid[2]);
    return OCH_OK;
}

static och_status traced_lend(och_queue *q, const char *name, och_status (*give)(void *user, void *stream, och_err *err), void *user,
                              och_err *err) {
    const traced *t = of(q->device);
    double begin = och_trace_begin();
    OCH_TRY(t->inner->lend(q, name, give, user, err));
    if (!och_capture_here()) OCH_TRY(t->inner->synchronise(q, err));
    put_bar(t->row, begin, och_now_seconds(), "kernel", name, NULL, 0);
    return OCH_OK;
}

#define TRACED(slot, device, name, n, params, args)                                                                    \
    static och_status traced_##slot params {                                                                           \
        const traced *t = of(device);                                                                                  \
        double begin = och_trace_begin();                                                                              \
        OCH_TRY(t->inner->slot args);                                                                                  \
        put_bar(t->row, begin, och_now_seconds(), name, #slot, "bytes", n);                                            \
        return OCH_OK;                                                                                                 \
    }

TRACED(copy_to_device, q->device, "copy", n_bytes,
       (och_queue *q, och_dev_addr dst, const void *src, uint64_t n_bytes, och_err *err), (q, dst, src, n_bytes, err))
TRACED(copy_to_host, q->device, "copy", n_bytes, (och_queue *q, void *dst, och_dev_addr src, uint64_t n_bytes, och_err *err),
       (q, dst, src, n_bytes, err))
TRACED(copy, q->device, "copy", n_bytes, (och_queue *q, och_dev_addr dst, och_dev_addr src, uint64_t n_bytes, och_err *err),
       (q, dst, src, n_bytes, err))
TRACED(fill, q->device, "copy", n_bytes, (och_queue *q, och_dev_addr dst, uint8_t byte, uint64_t n_bytes, och_err *err),
       (q, dst, byte, n_bytes, err))
TRACED(synchronise, q->device, "wait", 0, (och_queue *q, och_err *err), (q, err))
TRACED(event_wait_queue, q->device, "wait", 0, (och_queue *q, och_event *e, och_err *err), (q, e, err))
TRACED(graph_replay, q->device, "graph", 0, (och_queue *q, och_graph *g, och_err *err), (q, g, err))
TRACED(module_load, d, "load", n_bytes,
       (och_device *d, const void *image, size_t n_bytes, och_module **out_module, och_err *err),
       (d, image, n_bytes, out_module, err))

static void traced_destroy(och_device *d) {
    traced *t = (traced *)(uintptr_t)of(d);
    d->vtable = t->inner;
    t->inner->destroy(d);
    och_free(t);
}

void och_trace_attach(och_device *d) {
    if (!och_trace_on()) return;
    traced *t = och_calloc(1, sizeof *t);
    if (!t) return; /* the device works all the same */
    t->inner = d->vtable;
    t->table = *d->vtable;
    t->table.destroy = traced_destroy;
    t->table.launch = traced_launch;
    t->table.lend = traced_lend;
    t->table.copy_to_device = traced_copy_to_device;
    t->table.copy_to_host = traced_copy_to_host;
    t->table.copy = traced_copy;
    t->table.fill = traced_fill;
    t->table.synchronise = traced_synchronise;
    t->table.event_wait_queue = traced_event_wait_queue;
    t->table.graph_replay = traced_graph_replay;
    t->table.module_load = traced_module_load;
    char name[300];
    snprintf(name, sizeof name, "%s: %s, %s%s", d->info.label, d->info.name, d->info.arch,
             d->info.kind == OCH_DEV_SIMULATED ? " (simulated: times are the simulator's)" : "");
    pthread_mutex_lock(&trace.lock);
    t->row = ++trace.n_devices;
    if (trace.file) put_process(t->row, name);
    pthread_mutex_unlock(&trace.lock);
    d->vtable = &t->table;
}

och_status och_trace_start(const char *path, och_err *err) {
    pthread_mutex_lock(&trace.lock);
    och_status st = OCH_OK;
    if (trace.file) st = och_err_set(err, OCH_INVALID, "trace %s: another trace is being written", path);
    else if (!(trace.file = fopen(path, "w")))
        st = och_err_set_native(err, OCH_IO, errno, "trace %s: %s", path, strerror(errno));
    else {
        snprintf(trace.path, sizeof trace.path, "%s", path);
        trace.start = och_now_seconds();
        trace.any = false;
        trace.n_devices = 0;
        fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [", trace.file);
        put_process(HOST_ROW, "host");
        atomic_store(&on, true);
    }
    pthread_mutex_unlock(&trace.lock);
    return st;
}

och_status och_trace_stop(och_err *err) {
    atomic_store(&on, false);
    pthread_mutex_lock(&trace.lock);
    FILE *f = trace.file;
    trace.file = NULL;
    pthread_mutex_unlock(&trace.lock);
    if (!f) return OCH_OK;
    fputs("\n]}\n", f);
    bool bad = ferror(f);
    errno = 0;
    if (fclose(f) || bad)
        return och_err_set_native(err, OCH_IO, errno, "trace %s: not everything could be written%s%s", trace.path,
                                  errno ? ": " : "", errno ? strerror(errno) : "");
    return OCH_OK;
}
