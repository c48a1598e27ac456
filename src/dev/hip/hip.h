/* The HIP backend's objects. hip_device.c: the device, its facts and memory; hip_queue.c: queues, copies, events;
 * hip_module.c: code objects and launches; hip_graph.c: graphs; hip_backend.c: which devices there are. */
#ifndef OCH_DEV_HIP_HIP_H
#define OCH_DEV_HIP_HIP_H

#include "dev/capture.h"
#include "dev/dev.h"
#include "dev/hip/hip_lib.h"
#include "dev/ring.h"

#include <pthread.h>

typedef enum hip_memory { /* where memory comes from: decision by och_hip_memory_policy */
    HIP_MEMORY_DEVICE, /* hipMalloc; pinned memory by hipHostMalloc */
    HIP_MEMORY_MANAGED /* hipMallocManaged, attached to all; pinned memory too */
} hip_memory;

typedef struct hip_device {
    och_device base;
    const hip_lib *lib; /* never freed */
    int ordinal;        /* HIP's index */
    hip_memory memory;
    uint64_t peers;     /* those whose memory this one was asked to reach, a bit each; atomic */
    bool synchronous;   /* OCHRE_HIP_SYNC */
    uint64_t used_bytes; /* OCH_MEM_DEVICE allocated through this object; atomic */
} hip_device;

typedef struct hip_queue {
    och_queue base;
    int refcount; /* its owner, and events that it recorded; atomic */
    hipStream_t stream;
    bool wrapped; /* the stream is somebody else's */
    och_capture capture;
    _Atomic bool fault_told; /* keeps a warning from being given twice */
    pthread_mutex_t lock; /* of ring: events are waited for by other threads */
    och_ring ring;
    och_ring captured;    /* since capture_begin */
    /* two halves of pinned memory through which pageable memory is copied; made at the first such copy */
    char *stage;
    hipEvent_t stage_event[2];
    bool stage_busy[2];
    unsigned stage_next;
} hip_queue;

typedef struct hip_function {
    och_function base;
    struct hip_function *next; /* of its module */
    hip_device *device;
    hipFunction_t function;
} hip_function;

struct och_event {
    och_device *device; /* borrowed */
    hipEvent_t event;
    hip_queue *queue; /* retained; NULL: never recorded; guarded by `lock` */
    pthread_mutex_t lock;
};

struct och_module {
    och_device *device; /* borrowed */
    hipModule_t module;   /* one of the two */
    hipLibrary_t library;
    void *image;        /* owned: a library is built from it when it is first asked for something */
    char what[96];      /* "code object version 5 for gfx1100" */
    hip_function *functions; /* owned; guarded by `lock` */
    pthread_mutex_t lock;
};

struct och_graph {
    och_device *device; /* borrowed */
    hipGraphExec_t exec;
    hipEvent_t done;    /* recorded after each replay */
    const hip_queue *last; /* where it was replayed last; only compared */
    och_ring kernels;
};

static inline hip_device *hip_of(const och_device *d) { return (hip_device *)(uintptr_t)d; }
static inline hip_queue *hip_queue_of(och_queue *q) { return (hip_queue *)q; }
static inline const hip_api *hip_api_of(const och_device *d) { return &hip_of(d)->lib->api; }

bool och_hip_is(const och_device *d); /* a device of this backend */
/* The calling thread's HIP device is d from here on. */
void och_hip_enter(const och_device *d);
/* "device hip:0: copy of 12 bytes: hipErrorInvalidValue (1): invalid argument"; the status by e. */
och_status och_hip_fail(const och_device *d, hipError_t e, och_err *err, const char *fmt, ...) OCH_PRINTF(4, 5);
/* The same for something on a queue: what was launched before and may have caused it is named. */
och_status och_hip_fail_on(hip_queue *q, hipError_t e, och_err *err, const char *fmt, ...) OCH_PRINTF(4, 5);
/* The first call of the library that graphs need and that is not there; NULL: all are. */
const char *och_hip_graphs_lack(const hip_api *a);
/* For och_capture: ends the runtime's recording. */
void och_hip_capture_drop(och_queue *q);

/* What the device's facts allow: where memory comes from, and whether the host may dereference it. */
hip_memory och_hip_memory_policy(bool integrated, bool managed, bool concurrent, bool pageable, bool *out_unified);
/* Whether all of [p, p + n_bytes) is memory of this backend that the host may touch: no staging is needed. */
bool och_hip_is_pinned(const void *p, uint64_t n_bytes);

void och_hip_queue_retain(hip_queue *q);
void och_hip_queue_release(hip_queue *q); /* NULL is allowed */

/* Fills info but for backend, index and label. */
och_status och_hip_describe(const hip_lib *lib, int ordinal, const char *label, och_dev_info *out_info, hip_memory *out_memory,
                            och_err *err) OCH_WARN_UNUSED;
och_status och_hip_open(const hip_lib *lib, int ordinal, const char *backend, int index, const char *label,
                        och_device **out_device, och_err *err) OCH_WARN_UNUSED;

/* Slots of the table. */
och_status och_hip_queue_create(och_device *d, och_queue **out_queue, och_err *err);
och_status och_hip_queue_wrap(och_device *d, void *stream, och_queue **out_queue, och_err *err);
void och_hip_queue_destroy(och_queue *q);
och_status och_hip_synchronise(och_queue *q, och_err *err);
och_status och_hip_copy_to_device(och_queue *q, och_dev_addr dst, const void *src, uint64_t n_bytes, och_err *err);
och_status och_hip_copy_to_host(och_queue *q, void *dst, och_dev_addr src, uint64_t n_bytes, och_err *err);
och_status och_hip_copy(och_queue *q, och_dev_addr dst, och_dev_addr src, uint64_t n_bytes, och_err *err);
och_status och_hip_copy_peer(och_queue *q, och_device *dst_dev, och_dev_addr dst, och_device *src_dev, och_dev_addr src,
                             uint64_t n_bytes, och_err *err);
och_status och_hip_fill(och_queue *q, och_dev_addr dst, uint8_t byte, uint64_t n_bytes, och_err *err);
och_status och_hip_event_create(och_device *d, och_event **out_event, och_err *err);
void och_hip_event_destroy(och_event *e);
och_status och_hip_event_record(och_queue *q, och_event *e, och_err *err);
och_status och_hip_event_query(och_event *e, bool *out_done, och_err *err);
och_status och_hip_event_wait_host(och_event *e, och_err *err);
och_status och_hip_event_wait_queue(och_queue *q, och_event *e, och_err *err);
och_status och_hip_module_load(och_device *d, const void *image, size_t n_bytes, och_module **out_module, och_err *err);
void och_hip_module_unload(och_module *m);
och_status och_hip_module_function(och_module *m, const char *name, och_function **out_function, och_err *err);
och_status och_hip_launch(och_queue *q, och_function *f, const och_launch *l, och_err *err);
och_status och_hip_lend(och_queue *q, const char *name, och_status (*give)(void *user, void *stream, och_err *err), void *user,
                        och_err *err);
och_status och_hip_capture_begin(och_queue *q, och_err *err);
och_status och_hip_capture_end(och_queue *q, och_graph **out_graph, och_err *err);
och_status och_hip_graph_replay(och_queue *q, och_graph *g, och_err *err);
och_status och_hip_graph_destroy(och_graph *g, och_err *err);

#endif
