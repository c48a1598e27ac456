#include "hip/hip.h"

#include "hip/graph.h"
#include "hip/hostcall.h"

#include <stdio.h>
#include <string.h>

sim_op *sim_op_new(sim_op_kind kind) {
    sim_op *op = och_calloc(1, sizeof *op);
    if (!op) return NULL;
    op->refs = 1;
    op->kind = kind;
    return op;
}

sim_op *sim_op_ref(sim_op *op) {
    if (op) atomic_fetch_add(&op->refs, 1);
    return op;
}

void sim_op_unref(sim_op *op) {
    if (!op || atomic_fetch_sub(&op->refs, 1) != 1) return;
    switch (op->kind) {
    case SIM_OP_KERNEL:
        if (op->u.kernel.f) sim_module_unref(op->u.kernel.f->module);
        sim_event_unref(op->u.kernel.start);
        sim_event_unref(op->u.kernel.stop);
        och_free(op->u.kernel.kernarg);
        och_free(op->u.kernel.params);
        och_free(op->u.kernel.buffers);
        break;
    case SIM_OP_RECORD:
    case SIM_OP_WAIT: sim_event_unref(op->u.event); break;
    case SIM_OP_ALLOC:
    case SIM_OP_FREE:
        if (op->u.memory.mem) sim_graph_mem_unref(op->u.memory.mem);
        break;
    case SIM_OP_GRAPH:
        if (op->u.child.graph) sim_graph_free(op->u.child.graph);
        break;
    default: break;
    }
    och_free(op);
}

size_t sim_op_bytes(const sim_op *op) {
    switch (op->kind) {
    case SIM_OP_COPY: return op->u.copy.row * op->u.copy.rows * op->u.copy.slices;
    case SIM_OP_FILL: return op->u.fill.width * op->u.fill.elem * op->u.fill.height * op->u.fill.depth;
    default: return 0;
    }
}

/* The packet that a kernel may read through its dispatch pointer. */
typedef struct aql_packet {
    uint16_t header, setup, group[3], reserved0;
    uint32_t grid[3], private_bytes, group_bytes;
    uint64_t kernel_object, kernarg, reserved2, completion;
} aql_packet;
_Static_assert(sizeof(aql_packet) == 64, "HSA's kernel dispatch packet");

/* Room for the arguments and the packet of the stream's current kernel. */
static hipError_t kernarg_room(sim_stream *s, uint64_t bytes) {
    if (bytes <= s->kernarg_bytes) return hipSuccess;
    och_err err;
    och_err_clear(&err);
    if (s->kernarg_addr) {
        if (sim_space_free(sim_hip.space, s->kernarg_addr, &err) != OCH_OK) return hipErrorOutOfMemory;
        s->kernarg_addr = s->kernarg_bytes = 0;
    }
    uint64_t want = bytes < 4096 ? 4096 : bytes;
    if (sim_space_alloc(sim_hip.space, want, 256, SIM_MEM_KERNARG, s->dev->ordinal, true, &s->kernarg_addr, &err) != OCH_OK) {
        s->kernarg_addr = 0;
        return hipErrorOutOfMemory;
    }
    s->kernarg_bytes = want;
    return hipSuccess;
}

static hipError_t fault_code(const och_err *err) {
    if (err->status == OCH_NOMEM) return hipErrorOutOfMemory;
    if (err->status != OCH_DEVICE) return hipErrorLaunchFailure;
    switch (err->native_code) {
    case SIM_FAULT_MEMORY:
    case SIM_FAULT_MISALIGNED:
    case SIM_FAULT_FREED:
    case SIM_FAULT_READONLY: return hipErrorIllegalAddress;
    case SIM_FAULT_BUDGET: return hipErrorLaunchTimeOut;
    default: return hipErrorLaunchFailure;
    }
}

static hipError_t run_kernel(const sim_op *op, sim_stream *s) {
    sim_device *d = s->dev;
    static _Atomic uint64_t started; /* for the quirk: kernels that ran, of all devices */
    hipError_t lost = sim_quirk_count(SIM_QUIRK_lost_at, &started, hipErrorLaunchFailure);
    if (lost != hipSuccess) {
        fprintf(stderr, "ochre-sim: device %d (%s) was lost in kernel %s, as OCHRE_SIM_QUIRKS asks\n", d->ordinal, d->board.key,
                op->u.kernel.launch.kernel->name);
        return lost;
    }
    sim_launch launch = op->u.kernel.launch;
    uint64_t args = (op->u.kernel.kernarg_bytes + 255) & ~255ull;
    hipError_t e = kernarg_room(s, args + sizeof(aql_packet));
    if (e != hipSuccess) return e;
    uint8_t *host = sim_space_host(sim_hip.space, s->kernarg_addr, s->kernarg_bytes);
    if (!host) return hipErrorLaunchFailure;
    if (op->u.kernel.kernarg_bytes) memcpy(host, op->u.kernel.kernarg, op->u.kernel.kernarg_bytes);
    const sim_kernel *k = launch.kernel;
    aql_packet packet = {.header = 2 /* kernel dispatch */, .setup = 3,
                         .group = {(uint16_t)launch.block[0], (uint16_t)launch.block[1], (uint16_t)launch.block[2]},
                         .grid = {(uint32_t)launch.grid_items[0], (uint32_t)launch.grid_items[1],
                                  (uint32_t)launch.grid_items[2]},
                         .private_bytes = k->scratch_bytes, .group_bytes = k->lds_bytes + launch.dynamic_lds_bytes,
                         .kernarg = s->kernarg_addr};
    memcpy(host + args, &packet, sizeof packet);
    launch.kernarg_addr = s->kernarg_addr;
    launch.dispatch_ptr = s->kernarg_addr + args;
    static _Atomic uint64_t dispatched;
    launch.dispatch_id = atomic_fetch_add(&dispatched, 1);
    och_err err;
    och_err_clear(&err);
    uint64_t executed = 0;
    bool calls = sim_kernel_calls(op->u.kernel.f->info);
    if (calls) sim_hostcall_begin();
    och_status st = sim_launch_run(&launch, &executed, &err);
    if (calls) sim_hostcall_end();
    atomic_fetch_add(&d->ticks, executed);
    sim_printf_drain(d, op->u.kernel.f->module);
    if (st == OCH_OK) return hipSuccess;
    fprintf(stderr, "ochre-sim: %s\n", err.message);
    return fault_code(&err);
}

static hipError_t run_copy(const sim_op *op, sim_stream *s) {
    for (size_t z = 0; z < op->u.copy.slices; z++)
        for (size_t y = 0; y < op->u.copy.rows; y++) {
            uint64_t d = (uint64_t)(uintptr_t)op->u.copy.dst.base + z * op->u.copy.dst.slice + y * op->u.copy.dst.pitch;
            uint64_t r = (uint64_t)(uintptr_t)op->u.copy.src.base + z * op->u.copy.src.slice + y * op->u.copy.src.pitch;
            void *to = sim_host_of((void *)(uintptr_t)d, op->u.copy.row), *from = sim_host_of((void *)(uintptr_t)r,
                    op->u.copy.row);
            if (!to || !from) {
                fprintf(stderr, "ochre-sim: a copy of %zu bytes from %p to %p leaves its allocation: it was freed after the "
                                "copy was queued\n", op->u.copy.row, (void *)(uintptr_t)r, (void *)(uintptr_t)d);
                return hipErrorIllegalAddress;
            }
            memmove(to, from, op->u.copy.row);
        }
    atomic_fetch_add(&s->dev->ticks, sim_op_bytes(op) / 16);
    return hipSuccess;
}

static hipError_t run_fill(const sim_op *op, sim_stream *s) {
    size_t width = op->u.fill.width, elem = op->u.fill.elem;
    for (size_t z = 0; z < op->u.fill.depth; z++)
        for (size_t y = 0; y < op->u.fill.height; y++) {
            uint8_t *at = (uint8_t *)op->u.fill.dst + (z * op->u.fill.slice_rows + y) * op->u.fill.pitch;
            uint8_t *host = sim_host_of(at, width * elem);
            if (!host) {
                fprintf(stderr, "ochre-sim: a fill of %zu bytes at %p leaves its allocation: it was freed after the fill was "
                                "queued\n", width * elem, (void *)at);
                return hipErrorIllegalAddress;
            }
            if (elem == 1) memset(host, (int)op->u.fill.value, width);
            else
                for (size_t x = 0; x < width; x++) memcpy(host + x * elem, &op->u.fill.value, elem);
        }
    atomic_fetch_add(&s->dev->ticks, sim_op_bytes(op) / 16);
    return hipSuccess;
}

static bool value_holds(uint64_t have, uint64_t value, uint64_t mask, unsigned flags, unsigned bytes) {
    have &= mask;
    switch (flags) {
    case hipStreamWaitValueGte:
        return bytes == 8 ? (int64_t)(have - value) >= 0 : (int32_t)((uint32_t)have - (uint32_t)value) >= 0;
    case hipStreamWaitValueEq: return have == value;
    case hipStreamWaitValueAnd: return (have & value) != 0;
    default: return bytes == 8 ? ~(have | value) != 0 : (uint32_t)~(have | value) != 0;
    }
}

static hipError_t run_value(const sim_op *op) {
    void *p = sim_host_of(op->u.value.ptr, op->u.value.bytes);
    if (!p) return hipErrorIllegalAddress;
    bool wide = op->u.value.bytes == 8;
    if (op->kind == SIM_OP_WRITE_VALUE) {
        if (wide) __atomic_store_n((uint64_t *)p, op->u.value.value, __ATOMIC_RELEASE);
        else __atomic_store_n((uint32_t *)p, (uint32_t)op->u.value.value, __ATOMIC_RELEASE);
        return hipSuccess;
    }
    struct timespec pause = {0, 20000};
    for (;;) {
        uint64_t have = wide ? __atomic_load_n((uint64_t *)p, __ATOMIC_ACQUIRE) : __atomic_load_n((uint32_t *)p,
                __ATOMIC_ACQUIRE);
        if (value_holds(have, op->u.value.value, op->u.value.mask, op->u.value.flags, op->u.value.bytes)) return hipSuccess;
        nanosleep(&pause, NULL);
    }
}

hipError_t sim_op_run(sim_op *op, sim_stream *s) {
    hipError_t e = hipSuccess;
    switch (op->kind) {
    case SIM_OP_KERNEL: return run_kernel(op, s);
    case SIM_OP_COPY: return run_copy(op, s);
    case SIM_OP_FILL: return run_fill(op, s);
    case SIM_OP_HOST: op->u.host.fn(op->u.host.user); return hipSuccess;
    case SIM_OP_CALLBACK: op->u.callback.fn(op->u.callback.stream, hipSuccess, op->u.callback.user); return hipSuccess;
    case SIM_OP_WAIT_VALUE:
    case SIM_OP_WRITE_VALUE: return run_value(op);
    case SIM_OP_ALLOC:
    case SIM_OP_FREE: /* a pool's or a graph's memory: bookkeeping alone */
        pthread_mutex_lock(&sim_hip.lock);
        if (op->u.memory.mem) op->u.memory.mem->live = op->kind == SIM_OP_ALLOC;
        pthread_mutex_unlock(&sim_hip.lock);
        if (!op->u.memory.mem && op->kind == SIM_OP_FREE) e = sim_memory_free(op->u.memory.addr);
        return e;
    case SIM_OP_GRAPH: /* steps of a child graph are in the run of its parent */
    case SIM_OP_EMPTY:
    case SIM_OP_RECORD:
    case SIM_OP_WAIT: return hipSuccess;
    }
    return hipSuccess;
}
