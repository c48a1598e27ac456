/* One piece of work for a stream or a graph's node: immutable once made, shared by reference. */
#ifndef SIM_HIP_OP_H
#define SIM_HIP_OP_H

typedef enum sim_op_kind {
    SIM_OP_EMPTY, SIM_OP_KERNEL, SIM_OP_COPY, SIM_OP_FILL, SIM_OP_HOST, SIM_OP_CALLBACK, SIM_OP_RECORD, SIM_OP_WAIT,
    SIM_OP_ALLOC, SIM_OP_FREE, SIM_OP_GRAPH /* a child graph */, SIM_OP_WAIT_VALUE, SIM_OP_WRITE_VALUE
} sim_op_kind;

/* A rectangle of a copy: rows of `row` bytes, `rows` rows a slice. */
typedef struct sim_box {
    void *base;        /* address of the first byte */
    size_t pitch, slice;
} sim_box;

struct sim_op {
    _Atomic int refs;
    sim_op_kind kind;
    union {
        struct {
            hipFunction_t f;       /* its module is referenced */
            sim_launch launch;
            uint8_t *kernarg;      /* owned; hidden arguments filled in */
            size_t kernarg_bytes;
            void **params;         /* owned: pointers to the explicit arguments in kernarg, as kernelParams */
            size_t n_params;
            sim_buffer *buffers;   /* owned: the launch's */
            void *host;            /* what the caller named: a host function, or f */
            sim_event *start, *stop; /* hipExtLaunch: set from the command's signal */
        } kernel;
        struct {
            sim_box dst, src;
            size_t row, rows, slices;
            hipMemcpyKind kind;
            hipMemcpy3DParms params; /* as hipGraphMemcpyNodeGetParams gives them */
            bool linear;           /* made by a 1D copy */
            const void *symbol;    /* copies to and from symbols keep it */
            bool to_symbol;
            hipArray_t arrays[2];  /* dst, src; NULL: none */
        } copy;
        struct {
            void *dst;
            size_t pitch, width, height, depth, slice_rows;
            uint32_t value;
            unsigned elem;
        } fill;
        struct { hipHostFn_t fn; void *user; } host;
        struct { hipStreamCallback_t fn; void *user; hipStream_t stream; } callback;
        sim_event *event;          /* RECORD, WAIT; referenced */
        struct { uint64_t addr; struct sim_graph_mem *mem; hipMemAllocNodeParams params; } memory; /* ALLOC, FREE */
        struct { struct ihipGraph *graph; struct sim_graph_run *run; } child; /* owned copy */
        struct { void *ptr; uint64_t value, mask; unsigned flags, bytes; } value;
    } u;
};

sim_op *sim_op_new(sim_op_kind kind); /* one reference; NULL: out of memory */
sim_op *sim_op_ref(sim_op *op);
void sim_op_unref(sim_op *op);        /* lock held: what it references may go with it */
/* Runs it in a stream's thread (no lock). An error breaks the device where HIP says so. */
hipError_t sim_op_run(sim_op *op, sim_stream *s);
size_t sim_op_bytes(const sim_op *op); /* moved: for the counting clock */

#endif
