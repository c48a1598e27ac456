/* A launch in progress; for launch.c, setup.c and pool.c. */
#ifndef SIM_EXEC_STATE_H
#define SIM_EXEC_STATE_H

#include "exec/launch.h"
#include "exec/observer.h"

#include <pthread.h>

struct sim_launch_state {
    const sim_launch *l;
    uint64_t n_groups;
    uint32_t waves_group;
    uint32_t n_rows;             /* rows of vector registers a wave */
    uint32_t lds_bytes;
    uint32_t scratch_lane_bytes;
    size_t block_bytes;          /* a group with its waves, rows, LDS and scratch */
    uint64_t budget;             /* instructions a wave */
    uint32_t resident_cap;       /* groups that the board holds at once */

    uint64_t next;               /* first group not leased; under the pool's lock */
    _Atomic int64_t outstanding; /* leased and not finished */
    _Atomic int32_t resident;    /* started and not finished */
    _Atomic bool abort;
    _Atomic uint64_t n_executed, n_ended; /* instructions; groups */
    double started;
    _Atomic uint64_t sign_us;    /* microseconds since then: the next sign of life */
    struct {                     /* global wave sync: waves that arrived at a barrier of the whole launch, and how many completed */
        _Atomic uint32_t arrived, phase;
    } gws[64];
    pthread_mutex_t report_lock;
    bool faulted;
    sim_fault_kind fault;
    char report[OCH_ERR_MESSAGE_BYTES];
    bool complete;
    bool listed;                 /* among the pool's active launches */
    sim_observer *observers[SIM_MAX_OBSERVERS];
    int n_observers;
    struct sim_launch_state *next_active, *prev_active;
};

/* A group in one block of memory. */
typedef struct sim_block {
    struct sim_block *next;
    size_t capacity;
    uint32_t slices, gave_way;
    uint64_t n_told; /* instructions that the launch's n_executed has already */
    bool set_aside; /* ever */
    sim_group group;
} sim_block;

size_t sim_block_bytes(const sim_launch_state *s);
/* Lays group `flat_id` out in the block and sets every wave's registers as the command processor would. */
void sim_block_start(sim_block *b, sim_launch_state *s, uint64_t flat_id);

/* Runs the launch on the pool and returns when it is complete. */
och_status sim_pool_run(sim_launch_state *s, och_err *err) OCH_WARN_UNUSED;

/* Occupancy: groups of `threads` work-items that fit a multiprocessor, and waves a SIMD by registers and LDS. */
uint32_t sim_occupancy_groups(const sim_board *board, const sim_kernel *k, uint32_t threads, uint32_t dynamic_lds_bytes);
uint32_t sim_occupancy_waves(const sim_board *board, const sim_kernel *k, uint32_t threads, uint32_t dynamic_lds_bytes);

#endif
