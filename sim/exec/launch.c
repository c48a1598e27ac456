/* A launch: refused where hardware or the runtime would refuse it, else run to its end. */
#include "exec/launch.h"

#include "base/env.h"
#include "exec/program.h"
#include "exec/state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A lane's stack when the compiler could not bound it (recursion, indirect calls). */
#define DYNAMIC_STACK_BYTES 16384u
#define DEFAULT_BUDGET 4000000000ull

/* Bytes a lane, with the stack of kernels that bound none. */
static uint64_t scratch_of(const sim_kernel *k) {
    return ((uint64_t)k->scratch_bytes + (k->dynamic_stack ? DYNAMIC_STACK_BYTES : 0) + 3) & ~(uint64_t)3;
}

/* What COMPUTE_TMPRING_SIZE.WAVESIZE can say: a field of 18, 15 or 13 bits, in units of 256 or 1024 bytes a wave. */
static uint64_t scratch_wave_max(sim_isa isa) {
    if (isa >= SIM_GFX1200) return ((1u << 18) - 1) * 256u;
    if (isa >= SIM_GFX1100) return ((1u << 15) - 1) * 256u;
    return ((1u << 13) - 1) * 1024u;
}

static och_status check(const sim_launch *l, och_err *err) {
    const sim_kernel *k = l->kernel;
    const sim_board *board = l->board;
    if (l->isa != board->isa)
        return och_err_set(err, OCH_UNSUPPORTED, "%s is code for another target than %s", k->name, board->target);
    uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
    uint32_t limit = k->max_flat_workgroup_size ? k->max_flat_workgroup_size : 1024;
    if (threads == 0 || threads > 1024 || threads > limit)
        return och_err_set(err, OCH_INVALID, "%s: a workgroup of %u x %u x %u = %" PRIu64 " work-items: expected 1 to %u%s", k->name,
                           l->block[0], l->block[1], l->block[2], threads, limit < 1024 ? limit : 1024,
                           limit < 1024 ? " (the kernel's launch bounds)" : "");
    for (int d = 0; d < 3; d++) {
        if (l->grid[d] == 0 || l->grid_items[d] == 0)
            return och_err_set(err, OCH_INVALID, "%s: dimension %d of the grid is empty", k->name, d);
        if (k->reqd_workgroup_size[d] && l->block[d] != k->reqd_workgroup_size[d])
            return och_err_set(err, OCH_INVALID, "%s: dimension %d of the workgroup is %u: the kernel requires %u", k->name, d,
                               l->block[d], k->reqd_workgroup_size[d]);
        if (d && l->grid[d] > 65536 && (l->isa == SIM_GFX1200 || l->isa == SIM_GFX1250))
            return och_err_set(err, OCH_RANGE, "%s: %u workgroups in dimension %d: expected at most 65536", k->name, l->grid[d], d);
    }
    uint64_t n_groups;
    if (__builtin_mul_overflow((uint64_t)l->grid[0] * l->grid[1], (uint64_t)l->grid[2], &n_groups) || n_groups > INT64_MAX)
        return och_err_set(err, OCH_RANGE, "%s: a grid of %u x %u x %u workgroups: expected less than 2^63", k->name, l->grid[0],
                           l->grid[1], l->grid[2]);
    if (scratch_of(k) * k->wave_size > scratch_wave_max(l->isa))
        return och_err_set(err, OCH_RANGE, "%s: %" PRIu64 " bytes of scratch a lane: %s gives a wave %" PRIu64 ", a lane %" PRIu64,
                           k->name, scratch_of(k), board->target, scratch_wave_max(l->isa),
                           scratch_wave_max(l->isa) / k->wave_size);
    uint64_t lds = (uint64_t)k->lds_bytes + l->dynamic_lds_bytes;
    if (lds > board->lds_group_bytes)
        return och_err_set(err, OCH_RANGE, "%s: %u bytes of LDS and %u dynamic: %s gives a workgroup %u", k->name, k->lds_bytes,
                           l->dynamic_lds_bytes, board->target, board->lds_group_bytes);
    uint32_t named = sim_program_n_own_vgprs(k->program);
    if (named > k->n_vgprs)
        return och_err_set(err, OCH_CORRUPT, "%s names v%u, its descriptor allocates %u vector registers", k->name, named - 1,
                           k->n_vgprs);
    uint32_t fit = sim_occupancy_groups(board, k, (uint32_t)threads, l->dynamic_lds_bytes);
    if (fit == 0)
        return och_err_set(err, OCH_RANGE, "%s: a workgroup of %" PRIu64 " work-items with %u registers each does not fit a "
                           "compute unit of %s", k->name, threads, k->n_vgprs, board->target);
    if (l->cooperative) {
        uint64_t cap = (uint64_t)fit * board->multiprocessors;
        if (n_groups > cap)
            return och_err_set(err, OCH_RANGE, "%s: a cooperative grid of %" PRIu64 " workgroups: %s holds %" PRIu64 " at once",
                               k->name, n_groups, board->target, cap);
    }
    return OCH_OK;
}

/* What an AQL dispatch packet says of the launch (HSA, "Kernel Dispatch Packet"): kernels read their geometry from it. */
static void dispatch_packet(const sim_launch *l, uint32_t lds_bytes, uint32_t scratch_bytes, uint8_t *p) {
    memset(p, 0, 64);
    uint16_t setup = l->grid_items[2] > 1 ? 3 : l->grid_items[1] > 1 ? 2 : 1, size[3];
    uint32_t items[3];
    for (int d = 0; d < 3; d++) {
        size[d] = (uint16_t)l->block[d];
        items[d] = (uint32_t)l->grid_items[d];
    }
    memcpy(p + 2, &setup, 2);
    memcpy(p + 4, size, 6);
    memcpy(p + 12, items, 12);
    memcpy(p + 24, &scratch_bytes, 4);
    memcpy(p + 28, &lds_bytes, 4);
    memcpy(p + 40, &l->kernarg_addr, 8);
}

static och_status run(const sim_launch *l, uint64_t *out_n_executed, och_err *err);

och_status sim_launch_run(const sim_launch *l, uint64_t *out_n_executed, och_err *err) {
    if (out_n_executed) *out_n_executed = 0;
    OCH_TRY(check(l, err));
    if (l->dispatch_ptr || !(l->kernel->properties & SIM_KERNEL_DISPATCH_PTR)) return run(l, out_n_executed, err);
    sim_launch own = *l;
    OCH_TRY(sim_space_alloc(l->space, 64, 64, SIM_MEM_KERNARG, l->device, true, &own.dispatch_ptr, err));
    dispatch_packet(l, l->kernel->lds_bytes + l->dynamic_lds_bytes, l->kernel->scratch_bytes,
                    sim_space_host(l->space, own.dispatch_ptr, 64));
    och_status st = run(&own, out_n_executed, err);
    och_err ignored = {0};
    och_status freed = sim_space_free(l->space, own.dispatch_ptr, st == OCH_OK ? err : &ignored);
    return st == OCH_OK ? freed : st;
}

static och_status run(const sim_launch *l, uint64_t *out_n_executed, och_err *err) {
    const sim_kernel *k = l->kernel;
    uint32_t threads = l->block[0] * l->block[1] * l->block[2];
    const char *budget = och_env_get(OCH_ENV_OCHRE_SIM_BUDGET);
    sim_launch_state s = {
        .l = l,
        .n_groups = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2],
        .waves_group = (threads + k->wave_size - 1) / k->wave_size,
        .lds_bytes = k->lds_bytes + l->dynamic_lds_bytes,
        .scratch_lane_bytes = (uint32_t)scratch_of(k),
        .budget = budget ? (uint64_t)strtod(budget, NULL) : DEFAULT_BUDGET,
        .resident_cap = sim_occupancy_groups(l->board, k, threads, l->dynamic_lds_bytes) * l->board->multiprocessors,
        .report_lock = PTHREAD_MUTEX_INITIALIZER,
    };
    if (!s.budget) s.budget = DEFAULT_BUDGET;
    uint32_t agprs = sim_program_n_agprs(k->program);
    s.n_rows = agprs ? 256 + agprs : k->n_vgprs > sim_program_n_vgprs(k->program) ? k->n_vgprs : sim_program_n_vgprs(k->program);
    if (s.n_rows < 4) s.n_rows = 4;
    s.block_bytes = sim_block_bytes(&s);
    OCH_TRY(sim_observers_create(l, s.observers, &s.n_observers, err));
    och_status st = sim_pool_run(&s, err);
    pthread_mutex_destroy(&s.report_lock);
    for (int i = 0; i < s.n_observers; i++) s.observers[i]->end(s.observers[i], &s);
    OCH_TRY(st);
    if (out_n_executed) *out_n_executed = atomic_load(&s.n_executed);
    if (!s.faulted) return OCH_OK;
    if (s.fault == SIM_FAULT_NONE) return och_err_set(err, OCH_NOMEM, "%s: %s", k->name, s.report);
    return och_err_set_native(err, OCH_DEVICE, s.fault, "%s", s.report);
}
