/* The CUDA backend's objects. cuda_device.c: the device, its facts and memory; cuda_queue.c: queues and copies; cuda_event.c:
 * events; cuda_module.c: modules and launches; cuda_graph.c: graphs; cuda_backend.c: which devices there are.
 *
 * A device is its primary context, which other users of CUDA in the process share; it is made when it is first needed, so that
 * looking at a device costs none of its memory. Managed memory is not used: where something else goes wrong with the card, it
 * can take the machine with it.
 *
 * Some errors (cuda_consts.def has them) end a context: nothing of the process works on that device afterwards. The device is
 * then lost, and every call says so, with what was found first. */
#ifndef OCH_DEV_CUDA_CUDA_H
#define OCH_DEV_CUDA_CUDA_H

#include "dev/capture.h"
#include "dev/cuda/cuda_lib.h"
#include "dev/dev.h"
#include "dev/ring.h"

#include <pthread.h>

typedef struct cuda_device {
    och_device base;
    const cuda_lib *lib; /* never freed */
    CUdevice device;
    pthread_mutex_t lock; /* of what follows it, until `ready` or `lost` says that it is written */
    CUcontext context;
    char lost_by[400]; /* the message of the first error that lost the device */
    bool ready, lost;  /* atomic */
    uint64_t peers;      /* those whose memory this one was asked to reach, a bit each; atomic */
    bool synchronous;    /* OCHRE_CUDA_SYNC */
    bool overlaps;       /* kernels that wait themselves are started early: OCHRE_CUDA_OVERLAP */
    bool shares_lds;     /* launches say how a multiprocessor shares out its memory: OCHRE_CUDA_ROOM */
    uint64_t used_bytes; /* OCH_MEM_DEVICE allocated through this object; atomic */
    uint32_t max_grid[3], max_group[3];
    int max_registers; /* of a workgroup */
} cuda_device;

typedef struct cuda_queue {
    och_queue base;
    int refcount; /* its owner, and events that it recorded; atomic */
    CUstream stream;
    bool wrapped; /* the stream is somebody else's */
    och_capture capture;
    pthread_mutex_t lock; /* of ring: events are waited for by other threads */
    och_ring ring;
    och_ring captured; /* since capture_begin */
    bool most_lds;     /* what the launch before asked for; atomic */
} cuda_queue;

typedef struct cuda_function {
    och_function base;
    struct cuda_function *next; /* of its module */
    cuda_device *device;
    CUfunction function;
    int registers, local_bytes, static_bytes, max_group; /* of a work-item, a work-item, a workgroup; work-items */
    uint32_t dynamic_bytes; /* that may be asked for; atomic */
} cuda_function;

struct och_event {
    och_device *device; /* borrowed */
    CUevent event;
    cuda_queue *queue; /* retained; NULL: never recorded; guarded by `lock` */
    pthread_mutex_t lock;
};

struct och_module {
    och_device *device; /* borrowed */
    CUmodule module;
    char what[64]; /* "a cubin", "PTX" */
    cuda_function *functions; /* owned; guarded by `lock` */
    pthread_mutex_t lock;
};

struct och_graph {
    och_device *device; /* borrowed */
    CUgraphExec exec;
    CUevent done;           /* recorded after each replay */
    const cuda_queue *last; /* where it was replayed last; only compared */
    och_ring kernels;
};

static inline cuda_device *cuda_of(const och_device *d) { return (cuda_device *)(uintptr_t)d; }
static inline cuda_queue *cuda_queue_of(och_queue *q) { return (cuda_queue *)q; }
static inline const cuda_api *cuda_api_of(const och_device *d) { return &cuda_of(d)->lib->api; }

bool och_cuda_is(const och_device *d); /* a device of this backend */
/* The calling thread's context is d's from here on; made at the first call. Fails where it cannot be made, and DEVICE, naming
 * op, where the device is lost. */
och_status och_cuda_enter(const och_device *d, const char *op, och_err *err) OCH_WARN_UNUSED;
/* The same for calls that cannot fail: false when there is nothing left to call. */
bool och_cuda_enter_quietly(const och_device *d);
/* "device cuda:0: copy of 12 bytes: CUDA_ERROR_INVALID_VALUE (1): invalid argument"; the status by e. */
och_status och_cuda_fail(const och_device *d, CUresult e, och_err *err, const char *fmt, ...) OCH_PRINTF(4, 5);
/* The same for something on a queue: what was launched before and may have caused it is named. */
och_status och_cuda_fail_on(cuda_queue *q, CUresult e, och_err *err, const char *fmt, ...) OCH_PRINTF(4, 5);
/* The first call of the library that graphs need and that is not there; NULL: all are. */
const char *och_cuda_graphs_lack(const cuda_api *a);
/* For och_capture: ends the driver's recording. */
void och_cuda_capture_drop(och_queue *q);
/* Whether all of [p, p + n_bytes) is memory of this backend that the host may touch. */
bool och_cuda_is_pinned(const void *p, uint64_t n_bytes);

void och_cuda_queue_retain(cuda_queue *q);
void och_cuda_queue_release(cuda_queue *q); /* NULL is allowed */

/* Fills info but for backend, index and label, and of out_device (NULL is allowed) what CUDA alone asks for. */
och_status och_cuda_describe(const cuda_lib *lib, int ordinal, const char *label, och_dev_info *out_info,
                             cuda_device *out_device, och_err *err) OCH_WARN_UNUSED;
och_status och_cuda_open(const cuda_lib *lib, int ordinal, const char *label, och_device **out_device,
                         och_err *err) OCH_WARN_UNUSED;

/* Slots of the table. */
och_status och_cuda_queue_create(och_device *d, och_queue **out_queue, och_err *err);
och_status och_cuda_queue_wrap(och_device *d, void *stream, och_queue **out_queue, och_err *err);
void och_cuda_queue_destroy(och_queue *q);
och_status och_cuda_synchronise(och_queue *q, och_err *err);
och_status och_cuda_copy_to_device(och_queue *q, och_dev_addr dst, const void *src, uint64_t n_bytes, och_err *err);
och_status och_cuda_copy_to_host(och_queue *q, void *dst, och_dev_addr src, uint64_t n_bytes, och_err *err);
och_status och_cuda_copy(och_queue *q, och_dev_addr dst, och_dev_addr src, uint64_t n_bytes, och_err *err);
och_status och_cuda_copy_peer(och_queue *q, och_device *dst_dev, och_dev_addr dst, och_device *src_dev, och_dev_addr src,
                              uint64_t n_bytes, och_err *err);
och_status och_cuda_fill(och_queue *q, och_dev_addr dst, uint8_t byte, uint64_t n_bytes, och_err *err);
och_status och_cuda_event_create(och_device *d, och_event **out_event, och_err *err);
void och_cuda_event_destroy(och_event *e);
och_status och_cuda_event_record(och_queue *q, och_event *e, och_err *err);
och_status och_cuda_event_query(och_event *e, bool *out_done, och_err *err);
och_status och_cuda_event_wait_host(och_event *e, och_err *err);
och_status och_cuda_event_wait_queue(och_queue *q, och_event *e, och_err *err);
och_status och_cuda_module_load(och_device *d, const void *image, size_t n_bytes, och_module **out_module, och_err *err);
void och_cuda_module_unload(och_module *m);
och_status och_cuda_module_function(och_module *m, const char *name, och_function **out_function, och_err *err);
och_status och_cuda_launch(och_queue *q, och_function *f, const och_launch *l, och_err *err);
och_status och_cuda_lend(och_queue *q, const char *name, och_status (*give)(void *user, void *stream, och_err *err), void *user,
                        och_err *err);
och_status och_cuda_capture_begin(och_queue *q, och_err *err);
och_status och_cuda_capture_end(och_queue *q, och_graph **out_graph, och_err *err);
och_status och_cuda_graph_replay(och_queue *q, och_graph *g, och_err *err);
och_status och_cuda_graph_destroy(och_graph *g, och_err *err);

#endif
