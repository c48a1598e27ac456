/* Launching a kernel on a board: what the dispatch packet and the command processor do. Synchronous: streams are the
 * API's affair. */
#ifndef SIM_EXEC_LAUNCH_H
#define SIM_EXEC_LAUNCH_H

#include "base/status.h"
#include "board/board.h"
#include "exec/wave.h"
#include "mem/space.h"

/* Everything that a kernel descriptor (LLVM AMDGPUUsage, "Kernel Descriptor") and the metadata say and a launch needs. */
typedef struct sim_kernel {
    const char *name;
    sim_program *program;         /* bound for wave_size; made at the first launch by the loader */
    unsigned wave_size;
    uint32_t rsrc1, rsrc2, rsrc3;
    uint32_t properties;          /* kernel_code_properties: which SGPRs are set up */
    uint32_t kernarg_preload;     /* length 6:0, offset 15:7, in dwords */
    uint32_t lds_bytes;           /* static */
    uint32_t scratch_bytes;       /* a lane, fixed */
    bool dynamic_stack;
    uint32_t n_vgprs, n_agprs;    /* allocated: from rsrc1 and rsrc3 */
    uint32_t acc_offset;          /* gfx90a and later: row where accumulation registers begin */
    uint32_t max_flat_workgroup_size;
    uint32_t reqd_workgroup_size[3]; /* 0: none */
} sim_kernel;

/* kernel_code_properties: the kernel reads the dispatch packet. */
#define SIM_KERNEL_DISPATCH_PTR 2u

/* Memory that a launch is to read once, to write once, or both: the floor of its traffic. */
typedef struct sim_buffer {
    uint64_t addr, n_bytes;
    bool read, written;
} sim_buffer;

typedef struct sim_launch {
    const sim_kernel *kernel;
    sim_isa isa;
    const sim_board *board;
    sim_space *space;
    uint32_t grid[3];             /* workgroups */
    uint32_t block[3];            /* work-items a workgroup; a partial last group: grid_items */
    uint64_t grid_items[3];       /* work-items of the grid (grid * block unless partial) */
    uint32_t dynamic_lds_bytes;
    uint64_t kernarg_addr;        /* device address of the kernel arguments, hidden ones filled in */
    uint64_t dispatch_ptr, queue_ptr, dispatch_id; /* for kernels that ask for them; dispatch_ptr 0: made for the launch */
    bool cooperative;
    int device;
    /* For the counters; none: no floor is reported. `declared`: by the caller; else they are the allocations that the
     * arguments point into, an upper bound of what is read or written. Borrowed until the launch is over. */
    const sim_buffer *buffers;
    size_t n_buffers;
    bool declared;
} sim_launch;

/* Counters of one launch, when asked for (OCHRE_SIM_COUNT): classes as in count.h. */
typedef struct sim_counts sim_counts;

/* Runs it to the end. DEVICE: the kernel faulted: the message is the whole report, native_code the sim_fault_kind.
 * INVALID, RANGE: the launch is refused, the message says which limit (threads, LDS, registers). n_executed: instructions
 * (without s_nop, s_waitcnt, s_delay_alu, s_clause) that waves executed; NULL is allowed. */
och_status sim_launch_run(const sim_launch *launch, uint64_t *out_n_executed, och_err *err) OCH_WARN_UNUSED;

#endif
