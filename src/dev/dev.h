/* The device seam: the only way the rest of Ochre reaches a device.
 *
 * A device is an object with a complete table of functions: there are no default bodies, and a device whose table has
 * an empty slot cannot be registered. What a device cannot do is an explicit function that returns OCH_UNSUPPORTED.
 * A device address is a struct, so that host code cannot dereference it by accident; och_dev_host() gives a host
 * pointer only where the device states unified memory.
 *
 * Order: work on one queue runs in the order it was given. Queues are independent unless an event joins them. A queue
 * is used by one thread at a time; a device may be used by several. Errors of asynchronous work surface at the next
 * call on that queue at the latest at synchronise, naming the operation. */
#ifndef OCH_DEV_DEV_H
#define OCH_DEV_DEV_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct och_dev_addr {
    uint64_t value; /* 0: none */
} och_dev_addr;

static inline och_dev_addr och_dev_addr_add(och_dev_addr a, uint64_t offset_bytes) {
    return (och_dev_addr){a.value + offset_bytes};
}

typedef enum och_dev_kind { OCH_DEV_CPU, OCH_DEV_INTEGRATED, OCH_DEV_DISCRETE, OCH_DEV_SIMULATED, OCH_DEV_NULL } och_dev_kind;

typedef struct och_dev_info {
    char backend[16];  /* the folder's name: "cpu", "null", ...; the first half of a device's name "cpu:0" */
    int index;         /* the second half */
    char name[128];    /* as the vendor calls it */
    char vendor[64];
    char arch[64];     /* target identity: "x86-64-v4", "gfx942:sramecc+:xnack-" */
    och_dev_kind kind;
    uint64_t memory_bytes;       /* memory that exists, counted once */
    uint64_t memory_limit_bytes; /* what this process may use of it; at most memory_bytes */
    int n_compute_units;         /* threads of the CPU, CUs or SMs of a GPU */
    /* What a provider of kernels needs; 0 where it does not apply. */
    char label[64];              /* what messages call the device and och_device_open takes: "hip:0", "sim:gfx1151" */
    char pci[32];                /* "0000:03:00.0" */
    char runtime[160];           /* the library behind it and its version; "" for none */
    char library[512];           /* the file of that library; "" for none */
    char library_open[512];      /* what dlopen takes to get at it as it is in use here: the same, but for the second instance of
                                    one file */
    int library_index;           /* the library's number of the device */
    int wave_size;               /* lanes of a wave, as kernels run unless compiled otherwise */
    int n_multiprocessors;       /* what shares an LDS: WGPs on gfx10 and later, else compute units */
    uint32_t lds_bytes;          /* LDS that one workgroup may have */
    uint32_t max_group;          /* work-items a workgroup */
    uint64_t l2_bytes;
    double bandwidth_gbps;       /* of its memory, 1e9 bytes a second, a peak: by the board's name, else its target, else its clock */
    int code_object_version;     /* newest that the runtime is known to load */
    /* Facts about its memory, as the device states them; a probe that fails counts as false. */
    bool integrated;             /* shares the host's memory */
    bool managed;                /* managed memory that host and device may touch at the same time */
    bool unified;                /* the host may dereference OCH_MEM_DEVICE memory: what unified_memory() says */
    /* Graphs: what the backend can, said by it, and whether they are used where nobody asks, with the reason: a row of
     * graphs.def, filled in when the device is opened. */
    bool graphs;
    bool graphs_default;
    char graphs_reason[120];
} och_dev_info;

typedef enum och_mem_kind {
    OCH_MEM_DEVICE, /* fastest for the device */
    OCH_MEM_PINNED  /* host memory that the device copies from and to without staging; always host-accessible */
} och_mem_kind;

typedef struct och_device och_device;
typedef struct och_queue och_queue;
typedef struct och_event och_event;
typedef struct och_module och_module;
typedef struct och_function och_function;
typedef struct och_graph och_graph;

/* An allocation. `host` is NULL unless the host may dereference it. */
typedef struct och_buf {
    och_device *device; /* borrowed; NULL: empty */
    och_dev_addr addr;
    uint64_t size_bytes;
    och_mem_kind kind;
    void *host;
} och_buf;

/* How a compute unit whose LDS and first cache are one memory is to share it out, where it takes workgroups of several kernels: one that
 * the first has left little LDS takes none of another that needs more. Where they are apart it says nothing. */
typedef enum och_lds_share {
    OCH_LDS_BY_DRIVER,
    OCH_LDS_MOST,     /* as much LDS as there is: so that the next kernel's workgroups come while this one's run */
    OCH_LDS_AS_BEFORE /* as the launch before on the queue has it */
} och_lds_share;

typedef struct och_launch {
    uint32_t grid[3];  /* workgroups */
    uint32_t group[3]; /* work-items a workgroup */
    uint32_t lds_bytes;
    const void *args; /* packed as the kernel's signature says; copied before the call returns */
    size_t args_bytes;
    bool may_overlap; /* the code itself waits for the kernels launched before it: it may be started while they still run */
    och_lds_share lds_share;
} och_launch;

typedef enum och_reduce { OCH_REDUCE_SUM, OCH_REDUCE_MAX } och_reduce;

#define OCH_DEV_ALIGN_BYTES 256 /* of every allocation, at least */

/* Graphs. From capture_begin to capture_end a queue records what it is given instead of running it; what comes out is
 * replayed as often as one likes. The rules are the same on every backend that can (dev/capture.h has their checks); one
 * that cannot returns UNSUPPORTED from all four slots.
 *
 * Recorded are launches, with their arguments as they are now, and copies and fills, as addresses and sizes. What memory
 * holds is read and written at each replay, pinned memory of the host too. Memory, modules and the device that a graph names
 * outlive it. A function that module_function gave is loaded: its first launch may be a recorded one.
 *
 * A capture belongs to the thread that began it, and a thread records one at a time. A call of another thread on the queue
 * that records is INVALID and changes nothing. What other threads do with other queues and with the device, allocating and
 * loading too, goes on and disturbs nothing.
 *
 * The thread that records may give any queue of the backend's devices launches, copies, fills, and copies from and to pinned
 * memory (queues that do not record run them), and ask unified_memory and memory. All else that it asks of such a device is
 * an error: alloc, queue_create, queue_wrap, synchronise, copies from and to pageable memory, peer copies between devices,
 * every event call, module_load, module_function, capture_begin, graph_replay, all_reduce_f32. It is INVALID, its message
 * names the call, and the capture is abandoned: nothing of it runs, and the queue is an ordinary one from the next call on.
 * The same happens when a call that may be recorded fails on the queue that records. Calls that cannot fail (free,
 * queue_destroy, event_destroy, module_unload) and graph_destroy do their work and abandon the capture too. A capture_end
 * that comes after that is INVALID and names the call.
 *
 * capture_begin: earlier work of the queue need not be done. UNSUPPORTED on a wrapped queue: the stream's owner may record it.
 * capture_end: INVALID where nothing is recorded, and by another thread; *out_graph is then NULL. An empty graph is one.
 * graph_replay: on any queue of the graph's device, in that queue's order; INVALID for no graph, or one of another device. A
 * replay begins when earlier ones of the same graph have ended, on whatever queue they are.
 * graph_destroy: waits for replays that are on their way. What it finds wrong then is its status; the graph is gone. */

/* Copies and fills of 0 bytes are allowed and do nothing. Ranges of one copy do not overlap. */
typedef struct och_device_vtable {
    /* Called by the last release: queues, events, modules, graphs and buffers of the device are gone by then. */
    void (*destroy)(och_device *d);
    /* size_bytes > 0. Fills addr and host; the caller fills the rest. The content is undefined. A message of NOMEM names
     * the bytes asked for and those that are free. */
    och_status (*alloc)(och_device *d, uint64_t size_bytes, och_mem_kind kind, och_buf *out_buf, och_err *err);
    void (*free)(och_device *d, och_buf *buf);
    /* What could be allocated now, and all that this process may use (memory_limit_bytes). */
    och_status (*memory)(och_device *d, uint64_t *out_free_bytes, uint64_t *out_total_bytes, och_err *err);
    /* True only if the backend guarantees that the host may dereference OCH_MEM_DEVICE memory. */
    bool (*unified_memory)(const och_device *d);

    och_status (*queue_create)(och_device *d, och_queue **out_queue, och_err *err);
    /* A queue over a stream of the runtime's that somebody else owns and keeps until the queue is gone: work joins what its
     * owner gives it. NULL is the runtime's default stream. */
    och_status (*queue_wrap)(och_device *d, void *stream, och_queue **out_queue, och_err *err);
    void (*queue_destroy)(och_queue *q); /* waits for its work; of a wrapped one neither waits nor touches the stream */
    och_status (*synchronise)(och_queue *q, och_err *err);

    /* Copies may be asynchronous when the host side is pinned; host memory must stay valid until synchronised. */
    och_status (*copy_to_device)(och_queue *q, och_dev_addr dst, const void *src, uint64_t n_bytes, och_err *err);
    och_status (*copy_to_host)(och_queue *q, void *dst, och_dev_addr src, uint64_t n_bytes, och_err *err);
    och_status (*copy)(och_queue *q, och_dev_addr dst, och_dev_addr src, uint64_t n_bytes, och_err *err);
    /* q is a queue of either device. */
    och_status (*copy_peer)(och_queue *q, och_device *dst_dev, och_dev_addr dst, och_device *src_dev, och_dev_addr src,
                            uint64_t n_bytes, och_err *err);
    och_status (*fill)(och_queue *q, och_dev_addr dst, uint8_t byte, uint64_t n_bytes, och_err *err);

    och_status (*event_create)(och_device *d, och_event **out_event, och_err *err);
    void (*event_destroy)(och_event *e);
    och_status (*event_record)(och_queue *q, och_event *e, och_err *err);
    /* An event never recorded counts as done. */
    och_status (*event_query)(och_event *e, bool *out_done, och_err *err);
    och_status (*event_wait_host)(och_event *e, och_err *err);
    och_status (*event_wait_queue)(och_queue *q, och_event *e, och_err *err);

    och_status (*module_load)(och_device *d, const void *image, size_t n_bytes, och_module **out_module, och_err *err);
    void (*module_unload)(och_module *m);
    och_status (*module_function)(och_module *m, const char *name, och_function **out_function, och_err *err); /* borrowed */
    och_status (*launch)(och_queue *q, och_function *f, const och_launch *l, och_err *err);
    /* Work that another library puts on the queue's stream: `give` is called once, in the calling thread, with the device made
     * current and the runtime's own handle of the stream (NULL: the default one). It may be recorded, as a launch may: `give`
     * then calls nothing that no graph holds. `name` (static) is what errors and faults are told by. */
    och_status (*lend)(och_queue *q, const char *name, och_status (*give)(void *user, void *stream, och_err *err), void *user,
                       och_err *err);

    /* Graphs: see below. */
    och_status (*capture_begin)(och_queue *q, och_err *err);
    och_status (*capture_end)(och_queue *q, och_graph **out_graph, och_err *err);
    och_status (*graph_replay)(och_queue *q, och_graph *g, och_err *err);
    och_status (*graph_destroy)(och_graph *g, och_err *err); /* NULL is allowed */

    /* n_devices queues, one a device, each with its own buffer of `count` float32; in place. Every buffer receives the
     * same bytes: values are combined in the order of the list. The maximum of a NaN and a number is the NaN. */
    och_status (*all_reduce_f32)(och_queue *const *queues, const och_dev_addr *buffers, int n_devices, uint64_t count,
                                 och_reduce op, och_err *err);
} och_device_vtable;

/* First member of every device; the backend's own fields follow. */
struct och_device {
    int refcount; /* atomic access through och_device_retain and och_device_release */
    const och_device_vtable *vtable;
    och_dev_info info;
    /* What a room to the right keeps with the device (loaded kernels); destroyed before the device, by its last
     * release. */
    void *attachment;
    void (*attachment_destroy)(void *attachment);
    /* The same for what a library of the vendor's needs; destroyed first, with a table that still works. */
    void *companion;
    void (*companion_destroy)(void *companion);
};
/* First member of every queue, so that an op finds its device. */
struct och_queue {
    och_device *device; /* borrowed */
};

/* First member of every function. */
struct och_function {
    const char *name; /* the kernel's; owned by its module */
};

struct och_dev_options;

/* A backend: a row of backends.def. */
typedef struct och_backend {
    const char *name;
    och_status (*count)(int *out_n, och_err *err); /* none: OK and 0, or OCH_UNAVAILABLE that says why */
    och_status (*open)(int index, const struct och_dev_options *options, och_device **out_device, och_err *err);
    /* The device that `which` names where that is no index: what follows "hip:" in "hip:0000:03:00.0". NULL: the backend
     * knows its devices by index alone. */
    och_status (*open_named)(const char *which, const struct och_dev_options *options, och_device **out_device, och_err *err);
} och_backend;

typedef struct och_dev_options {
    int n_threads; /* CPU threads; 0: OCHRE_THREADS, else every CPU this process may use */
    bool require_gpu; /* "auto" may not fall back to the CPU; OCHRE_REQUIRE_GPU says the same */
} och_dev_options;

int och_backend_count(void);
const och_backend *och_backend_at(int i);
/* INTERNAL, naming the slot, if the table has an empty one. */
och_status och_device_check(const och_device *d, och_err *err) OCH_WARN_UNUSED;

/* "cpu", "cpu:0", "hip:1", "hip:0000:03:00.0", "hip:gfx1100", "sim:gfx1151", "null", "auto". The message of a failure lists
 * the names that would work. "auto" takes a discrete GPU before an integrated one, backends in the order of backends.def, then
 * the one with the most bandwidth, never a simulated one; the CPU when there is none, with a warning. */
och_status och_device_open(const char *name, const och_dev_options *options, och_device **out_device,
                           och_err *err) OCH_WARN_UNUSED;
/* Whether `auto` takes a rather than b, a device of the same or an earlier backend. */
bool och_dev_preferred(const och_dev_info *a, const och_dev_info *b);
och_device *och_device_retain(och_device *d);
void och_device_release(och_device *d); /* NULL is allowed */

och_status och_buf_alloc(och_device *d, uint64_t size_bytes, och_mem_kind kind, och_buf *out_buf,
                         och_err *err) OCH_WARN_UNUSED;
void och_buf_free(och_buf *b); /* an empty buffer is allowed; leaves it empty */
/* Bytes and number of buffers allocated through och_buf_alloc and not freed, over all devices. */
void och_buf_live(uint64_t *out_bytes, uint64_t *out_count);

/* Host pointer for an address on a device that states unified memory; NULL otherwise. */
void *och_dev_host(const och_device *d, och_dev_addr a);

#endif
