/* The simulated HIP runtime: what its files share.
 *
 * One lock (sim_hip.lock) guards every object here; nothing runs under it but bookkeeping. Work runs on the threads of
 * streams (queue.c), or where it is submitted when OCHRE_SIM_DETERMINISTIC is set. A function sim_<name> is the body of the
 * exported <name>; export.c wraps it with what all calls share. */
#ifndef SIM_HIP_HIP_H
#define SIM_HIP_HIP_H

#include "base/alloc.h"
#include "base/log.h"
#include "base/size.h"
#include "board/board.h"
#include "board/quirk.h"
#include "hip/hip_types.h"
#include "load/module.h"
#include "mem/space.h"

#include <pthread.h>
#include <stdatomic.h>

#define SIM_HIP_MAX_DEVICES 64

typedef struct ihipStream_t sim_stream;
typedef struct ihipEvent_t sim_event;
typedef struct sim_device sim_device;
typedef struct sim_op sim_op;
typedef struct sim_capture sim_capture;

/* ---- handles: which pointers that a caller hands in are live objects, and of what kind ---- */
typedef enum sim_handle_kind {
    SIM_H_NONE, SIM_H_STREAM, SIM_H_EVENT, SIM_H_MODULE, SIM_H_FUNCTION, SIM_H_LIBRARY, SIM_H_KERNEL, SIM_H_POOL, SIM_H_ARRAY,
    SIM_H_TEXTURE, SIM_H_SURFACE, SIM_H_GRAPH, SIM_H_NODE, SIM_H_EXEC, SIM_H_USER, SIM_H_FAT
} sim_handle_kind;
bool sim_handle_add(void *p, sim_handle_kind kind); /* false: out of memory */
void sim_handle_remove(void *p);
bool sim_handle_is(const void *p, sim_handle_kind kind);
/* Every live handle of a kind; fn may not add or remove. */
void sim_handle_each(sim_handle_kind kind, void (*fn)(void *arg, void *p), void *arg);

/* ---- a point in a stream that others wait for ---- */
typedef struct sim_signal {
    _Atomic int refs;
    bool done;                   /* guarded by the lock */
    uint64_t begin_ns, end_ns;   /* of the command that it belongs to, in the events' clock */
} sim_signal;
sim_signal *sim_signal_new(void); /* one reference; NULL: out of memory */
sim_signal *sim_signal_ref(sim_signal *s);
void sim_signal_unref(sim_signal *s); /* NULL is allowed */

struct sim_device {
    int ordinal;
    sim_board board;             /* the row, with quirks applied */
    int major, minor, stepping, xccs, target_vgprs;
    uint64_t total_bytes, limit_bytes, used_bytes; /* limit: what allocations may reach */
    hipError_t broken;           /* set by a kernel's fault or a quirk: every later call fails with it */
    unsigned flags, ctx_refs;
    uint64_t peers;              /* bit p: access to device p enabled */
    size_t limits[3];            /* stack, printf, heap */
    sim_stream *null_stream;
    sim_stream *streams;         /* all but the null stream, linked by next_of_device */
    hipMemPool_t default_pool, pool;
    uint64_t graph_bytes, graph_high;
    uint64_t hostcall_addr, printf_addr, heap_addr; /* device buffers, made when a kernel first asks; 0: not yet */
    void *printf_state;
    _Atomic uint64_t ticks;      /* the counting clock */
};

typedef struct sim_hip_state {
    pthread_mutex_t lock;
    pthread_cond_t done;         /* a command ended, or an object changed that someone may wait for */
    sim_space *space;
    sim_device *devices;
    int n_devices;
    sim_quirks quirks;
    int version;                 /* 50200, 60300, 70200: major * 10000 + minor * 100 */
    bool trace, count_clock;
    och_status failed;           /* of initialisation */
    uint64_t next_id;
    _Atomic uint64_t n_allocs, n_copies, n_launches;
} sim_hip_state;
extern sim_hip_state sim_hip;

/* Reads the environment and makes the devices, once. False: it failed, and said why. */
bool sim_hip_init(void);
/* Release behaviour, as a version at least this. */
static inline bool sim_hip_at_least(int major) { return sim_hip.version >= major * 10000; }
/* hipError_t that a quirk "the nth ... fails" gives for this call; counts it. */
hipError_t sim_quirk_count(sim_quirk_id id, _Atomic uint64_t *counter, hipError_t fallback);

/* ---- the calling thread ---- */
typedef struct sim_thread {
    int device;
    hipError_t last, sticky;     /* of the latest call; the latest real error */
    int spt;                     /* > 0: stream 0 is the thread's own (the _spt calls) */
    hipStreamCaptureMode mode;   /* hipThreadExchangeStreamCaptureMode */
    uint64_t id;
    sim_stream **own;            /* per device: the per-thread stream */
    int n_ctx;
    int ctx[16];                 /* hipCtxPushCurrent */
    struct sim_call_config { dim3 grid, block; size_t shared; hipStream_t stream; } config[8];
    int n_config;
    void *args;                  /* hipSetupArgument: bytes collected */
    size_t args_bytes;
    sim_buffer *declared;        /* ochreSimDeclare: for the next launch */
    size_t n_declared;
} sim_thread;
void sim_declared_drop(sim_thread *t);
/* NULL: out of memory. */
sim_thread *sim_thread_get(void);
/* The thread's device. NULL: none (initialisation failed or no device). */
sim_device *sim_device_current(void);
sim_device *sim_device_at(int ordinal); /* NULL: no such */
void sim_device_uuid(const sim_device *d, char out[17]);
int sim_location_device(hipMemLocation location);

/* ---- streams (queue.c) ---- */
typedef struct sim_cmd {
    struct sim_cmd *next;
    sim_op *op;
    sim_signal *signal;
    struct sim_graph_run *run;   /* a graph's launch: op is NULL */
    size_t n_waits;
    sim_signal *waits[];         /* owned references */
} sim_cmd;

struct ihipStream_t {
    sim_device *dev;
    sim_stream *next_of_device;
    uint64_t id;
    unsigned flags;
    int priority;
    bool per_thread, destroyed, running, quit, has_thread;
    int refs;
    sim_cmd *head, *tail;
    sim_signal *last;            /* of the command submitted last; NULL: none yet */
    sim_signal **pending;        /* waits that the next command takes over (hipStreamWaitEvent) */
    size_t n_pending;
    pthread_t thread;
    pthread_cond_t work;
    sim_capture *capture;        /* being captured (or captured and invalidated) */
    struct hipGraphNode **tips;  /* what the next captured node depends on */
    size_t n_tips;
    uint32_t cu_mask[8];
    uint64_t kernarg_addr, kernarg_bytes; /* used by the stream's thread alone */
};

/* Resolves what a caller calls a stream: NULL and 1 the null stream of the thread's device, 2 the per-thread stream.
 * Lock held. hipErrorInvalidHandle or hipErrorContextIsDestroyed for what is none. */
hipError_t sim_stream_resolve(hipStream_t s, sim_stream **out);
hipError_t sim_stream_new(sim_device *dev, unsigned flags, int priority, sim_stream **out); /* lock held */
void sim_stream_release(sim_stream *s); /* waits for its work, then ends it; lock held, given up while waiting */

/* Submits op (its reference is taken, also on failure): queued, or a node where the stream is captured. *out_signal, when
 * asked for, gets a reference (NULL where captured). Lock held. */
hipError_t sim_submit(sim_stream *s, sim_op *op, sim_signal **out_signal);
/* The same, then waits for it. Not allowed while the stream is captured. Gives the lock up while waiting. */
hipError_t sim_submit_wait(sim_stream *s, sim_op *op);
hipError_t sim_submit_run(sim_stream *s, struct sim_graph_run *run); /* takes run */
/* What work submitted now has to wait for, beside the stream's own: NULL terminates nothing; *out_n signals with references. */
void sim_wait(sim_signal *s);                /* lock held, given up while waiting */
void sim_stream_wait(sim_stream *s);         /* all that was submitted so far */
void sim_device_wait(sim_device *d);
bool sim_stream_idle(const sim_stream *s);
bool sim_add_pending(sim_stream *s, sim_signal *signal);
uint64_t sim_clock_ns(sim_device *d);
void sim_device_break(sim_device *d, hipError_t e); /* lock held */

/* ---- operations (op.h) ---- */
#include "hip/op.h"

#include "hip/event.h"

/* ---- memory ---- */
typedef struct sim_alloc { /* sim_range.user of what this layer allocated */
    sim_device *dev;             /* NULL: host */
    uint64_t addr, bytes;
    unsigned flags;              /* the caller's */
    bool managed, registered, from_pool, graph;
    hipMemPool_t pool;
    /* advice and prefetch, for hipMemRangeGetAttribute */
    bool read_mostly, coarse;
    int preferred, prefetched;
    uint64_t accessed_by;        /* bit 0: the host, bit d + 1: device d */
    uint64_t sync_memops;
} sim_alloc;
hipError_t sim_memory_alloc(sim_device *dev, uint64_t bytes, uint64_t align, sim_mem_kind kind, unsigned flags,
                            uint64_t *out_addr);
hipError_t sim_memory_free(uint64_t addr);
/* The live range that holds p and, when this layer made it, its record. */
bool sim_memory_find(const void *p, sim_range *out_range, sim_alloc **out_alloc);
/* Memory of a pool came back. Lock held. */
void sim_pool_returned(hipMemPool_t pool, uint64_t bytes);
/* Host pointer to `bytes` bytes at p, device or host memory. NULL: they leave their allocation. */
void *sim_host_of(const void *p, uint64_t bytes);
/* True for memory that the device reaches without a copy by the host: device, pinned or managed. */
bool sim_is_known(const void *p);
/* Whether the board reads textures and surfaces. */
bool sim_has_images(const sim_board *board);

hipError_t sim_copy(void *dst, const void *src, size_t n, hipMemcpyKind kind, hipStream_t stream, bool sync);
hipError_t sim_copy_make(void *dst, const void *src, size_t n, hipMemcpyKind kind, sim_op **out);
hipError_t sim_copy3d_make(const hipMemcpy3DParms *p, sim_op **out);
hipError_t sim_fill_make(void *dst, size_t pitch, uint32_t value, unsigned elem, size_t width, size_t height, size_t depth,
                         size_t slice_rows, sim_op **out);
hipError_t sim_run_op(hipStream_t stream, sim_op *op, bool sync); /* takes the op */

/* ---- modules, functions ---- */
struct ihipModule_t {
    int refs;
    sim_device *dev;
    sim_module *mod;
    struct ihipModuleSymbol_t *functions; /* made so far */
};
struct ihipModuleSymbol_t {
    struct ihipModuleSymbol_t *next;
    hipModule_t module;
    const sim_kernel *kernel;
    const och_obj_kernel *info;
    int max_dynamic_lds, carveout;
};
hipError_t sim_module_open(sim_device *dev, const void *image, size_t n_bytes, hipModule_t *out);
void sim_module_ref(hipModule_t m);   /* lock held */
void sim_module_unref(hipModule_t m); /* lock held; the last one unloads */
hipError_t sim_module_function(hipModule_t m, const char *name, hipFunction_t *out);
/* A registered host function or variable, on the thread's device. NULL: not registered, or not in an image for it. */
hipFunction_t sim_host_function(const void *host);
hipError_t sim_host_function_get(const void *host, hipFunction_t *out);
hipError_t sim_host_variable(const void *host, uint64_t *out_addr, size_t *out_bytes);
/* A function handle from either what hipModuleGetFunction gave or a registered host function. */
hipError_t sim_function_any(const void *f, hipFunction_t *out);

hipError_t sim_kernel_function(hipKernel_t k, hipFunction_t *out); /* of the library API */
/* Reads a file: bytes are the caller's to free. */
hipError_t sim_file_read(const char *path, void **out, size_t *out_bytes);

/* ---- capture and graphs ---- */
/* Lock held. Adds op as a node of the stream's capture. Takes op. */
hipError_t sim_capture_add(sim_stream *s, sim_op *op);
/* For calls that may not be made while anyone captures in a way that forbids them: invalidates and returns the error. */
hipError_t sim_capture_forbids(void);
/* Lock held: work for the null stream while a blocking stream of the device captures. */
hipError_t sim_capture_implicit(sim_device *dev);
void sim_capture_drop_stream(sim_stream *s); /* the stream is destroyed while captured */

/* ---- devices' printf and hostcall ---- */
hipError_t sim_hidden_fill(sim_device *d, const och_obj_kernel *info, sim_hidden *out);
/* After a kernel: prints what it left in the buffers. */
void sim_printf_drain(sim_device *d, hipModule_t m);

/* ---- declared by the table ---- */
#include "hip/api.h"

#endif
