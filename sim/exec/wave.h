/* The state that instructions work on, and the form they are bound to.
 *
 * Decoded instructions are bound once, before the first wave runs: a handler and ready operands (sim_uop). Executing is
 * then `while (u) u = u->fn(w, u)`. A handler returns the uop that runs next: u + 1, a branch target, or NULL to leave the
 * loop with w->state saying why. Instructions that do nothing here (s_nop, s_waitcnt, ...) have no uop. */
#ifndef SIM_EXEC_WAVE_H
#define SIM_EXEC_WAVE_H

#include "isa/inst.h"
#include "mem/space.h"

#include <stdatomic.h>

#define SIM_MAX_LANES 64

typedef struct sim_wave sim_wave;
typedef struct sim_uop sim_uop;
typedef struct sim_group sim_group;
typedef struct sim_program sim_program;
typedef struct sim_launch_state sim_launch_state;
typedef const sim_uop *sim_uop_fn(sim_wave *w, const sim_uop *u);

/* Where an operand is. Vector registers are rows of `lanes` dwords; a 64-bit operand is two rows, low first. A constant is
 * a row too, filled with its value (two rows for 64 bits), in the program's constant area. */
typedef enum sim_src_kind { SIM_SRC_ROW, SIM_SRC_CONST, SIM_SRC_SCALAR, SIM_SRC_SPECIAL, SIM_SRC_NONE } sim_src_kind;

struct sim_uop {
    sim_uop_fn *fn;
    const sim_inst *inst;
    void *core;           /* what the handler's class needs: a lane function, a table, ... */
    uint32_t d;           /* byte offset from w->v of the destination row, or a scalar register number */
    uint32_t s[3];        /* byte offset from w->v (ROW) or from w->consts (CONST), or a scalar register number */
    uint8_t sk[3];        /* sim_src_kind */
    uint8_t n_src;
    uint8_t flags;        /* of the class */
    uint8_t aux[3];       /* of the class */
    uint32_t imm;         /* of the class: an offset, an immediate */
    uint32_t index;       /* of this uop in its program: keys the per-worker caches and counters */
    const sim_uop *target; /* branches */
};

typedef enum sim_wave_state {
    SIM_WAVE_RUN,        /* can run */
    SIM_WAVE_BARRIER,    /* waits at a barrier */
    SIM_WAVE_YIELD,      /* gave up its slice: sleep, a spin, the end of a slice */
    SIM_WAVE_DONE,
    SIM_WAVE_FAULT       /* w->fault describes it */
} sim_wave_state;

typedef enum sim_fault_kind {
    SIM_FAULT_NONE, SIM_FAULT_MEMORY, SIM_FAULT_MISALIGNED, SIM_FAULT_FREED, SIM_FAULT_READONLY, SIM_FAULT_LDS,
    SIM_FAULT_SCRATCH, SIM_FAULT_ILLEGAL, SIM_FAULT_BUDGET, SIM_FAULT_DEADLOCK, SIM_FAULT_TRAP, SIM_FAULT_UNINITIALIZED,
    SIM_FAULT_RACE, SIM_FAULT_PC, SIM_FAULT_UNALIGNED_REG
} sim_fault_kind;

typedef struct sim_fault {
    uint8_t kind;
    bool store;
    int16_t lane;         /* -1: not of a lane */
    uint32_t size_bytes;
    uint64_t addr;
    const sim_inst *inst;
    const char *what;     /* static text that says more, or NULL */
} sim_fault;

/* Where flat addresses mean LDS and scratch: 4 GiB each. src_shared_base and its like are 64-bit values with a zero low
 * half; hidden arguments and queue structures carry the high half. */
#define SIM_SHARED_BASE 0x0001000000000000ull
#define SIM_PRIVATE_BASE 0x0002000000000000ull

/* What a host thread that runs waves owns. */
typedef struct sim_worker {
    const sim_space *space;
    sim_range *ranges;     /* a range each uop found last (lo == hi: none); an optimisation only */
    uint32_t n_ranges;
    const sim_program *ranges_of;
    struct sim_observer **observers; /* what watches the launch that runs now */
    int n_observers;
    bool give_way;         /* an observer asks that the group be left after this instruction, for others to look */
    int index;
} sim_worker;

/* MODE register fields (hwreg 1): round 3:0 (f32 1:0, f64/f16 3:2; 0 even, 1 +inf, 2 -inf, 3 zero), denorm 7:4 (f32 5:4,
 * f64/f16 7:6; bit 0 of each: allow input, bit 1: allow output), DX10_CLAMP 8, IEEE 9 (both: always 0 on gfx12). */
struct sim_wave {
    uint32_t s[SIM_N_SREG];  /* scalar file; s[SIM_S_NULL] stays 0. VCC and EXEC live here (pairs, also in wave32) */
    uint32_t *v;             /* rows [n_vgprs (then accumulation registers from row acc_row)][lanes] */
    const uint8_t *consts;   /* the program's constant rows for this wave size */
    const sim_uop *pc;       /* the next uop when not running */
    uint8_t scc;             /* 0 or 1 */
    uint8_t lanes;           /* 32 or 64 */
    uint8_t isa;
    uint8_t state;           /* sim_wave_state */
    uint32_t mode;           /* MODE */
    uint32_t mxcsr;          /* host control word for f32 under `mode`; loaded while the wave runs */
    bool mode_plain;         /* round to nearest even everywhere, denormals of f16 and f64 allowed */
    uint32_t n_vgprs;        /* rows of v */
    int64_t budget;          /* instructions left in this slice; counted down at branches */
    uint64_t n_executed;     /* instructions executed, counted at branches: see sim_wave_count */
    sim_group *group;
    sim_program *program;
    uint8_t *scratch;        /* dword-interleaved: byte o of lane l is at (o / 4 * lanes + l) * 4 + o % 4 */
    uint32_t scratch_lane_bytes;
    uint64_t exec_full;      /* all lanes of the wave size */
    uint32_t wave_id;        /* in the group */
    int32_t prio_sleep;
    sim_worker *worker;      /* of the thread that runs it now */
    const sim_uop *block;    /* where counting began: see sim_wave_count */
    uint32_t spins;          /* of the current slice: backward branches of loops that look like waiting */
    uint32_t barrier_target; /* the group's phase that this wave waits for */
    bool gws_waiting;        /* arrived at a barrier of the whole launch; its phase is waited for */
    uint32_t gws_target;
    sim_fault fault;
    uint32_t trapsts, hw_id;
};

#define SIM_EXEC(w) ((uint64_t)(w)->s[SIM_S_EXEC_LO] | (uint64_t)(w)->s[SIM_S_EXEC_HI] << 32)
#define SIM_VCC(w) ((uint64_t)(w)->s[SIM_S_VCC_LO] | (uint64_t)(w)->s[SIM_S_VCC_HI] << 32)
#define SIM_ROW(w, off) ((uint32_t *)(void *)((uint8_t *)(w)->v + (off)))

/* A workgroup in flight. */
struct sim_group {
    sim_launch_state *launch;
    uint32_t id[3];
    uint32_t n_waves, n_live, n_signalled, phase; /* a barrier completes, phase + 1, when all live waves have signalled */
    sim_wave *waves;
    uint8_t *lds;
    uint32_t lds_bytes;
    uint64_t flat_id;        /* in dispatch order */
};

/* A scalar source, 32 bits: registers and specials (SCC, EXECZ, VCCZ, apertures). n = 1 reads the next one for pairs. */
uint32_t sim_special_read(const sim_wave *w, uint32_t reg);
uint64_t sim_special_read64(const sim_wave *w, uint32_t reg);
static inline uint32_t sim_sread(const sim_wave *w, uint32_t reg) {
    return reg < 128 ? w->s[reg] : sim_special_read(w, reg);
}
static inline uint64_t sim_sread64(const sim_wave *w, uint32_t reg) {
    return reg < 127 ? (uint64_t)w->s[reg] | (uint64_t)w->s[reg + 1] << 32
                     : sim_special_read64(w, reg);
}
static inline void sim_swrite(sim_wave *w, uint32_t reg, uint32_t value) {
    if (reg != SIM_S_NULL) w->s[reg] = value;
}
static inline void sim_swrite64(sim_wave *w, uint32_t reg, uint64_t value) {
    if (reg == SIM_S_NULL) return;
    w->s[reg] = (uint32_t)value;
    w->s[reg + 1] = (uint32_t)(value >> 32);
}
/* A lane mask destination (VCC, an SGPR or pair, EXEC): one register in wave32, a pair in wave64. */
static inline void sim_mask_write(sim_wave *w, uint32_t reg, uint64_t mask) {
    if (reg == SIM_S_NULL) return;
    w->s[reg] = (uint32_t)mask;
    if (w->lanes == 64) w->s[reg + 1] = (uint32_t)(mask >> 32);
}
static inline uint64_t sim_mask_read(const sim_wave *w, uint32_t reg) {
    return w->lanes == 64 ? sim_sread64(w, reg) : sim_sread(w, reg);
}

/* The row(s) of source i: the register's own, the constant's, or `tmp` filled with the scalar. tmp holds n_rows * 64
 * dwords. No modifier is applied. */
const uint32_t *sim_src_rows(const sim_wave *w, const sim_uop *u, int i, unsigned n_rows, uint32_t *tmp);

/* Writes `rows` rows of results at lanes of `mask` to the destination at byte offset d. */
static inline void sim_blend_rows(const sim_wave *w, uint32_t d, const uint32_t *res, unsigned rows, uint64_t mask) {
    uint32_t *o = SIM_ROW(w, d);
    for (unsigned r = 0; r < rows; r++, o += w->lanes, res += w->lanes)
        for (unsigned i = 0; i < w->lanes; i++) o[i] = mask >> i & 1 ? res[i] : o[i];
}

/* The range that uop `index` found last, in this worker; the caller checks it and refills it. */
static inline sim_range *sim_worker_range(sim_wave *w, uint32_t index) {
    sim_worker *k = w->worker;
    return &k->ranges[index < k->n_ranges ? index : 0];
}
static inline const sim_space *sim_wave_space(const sim_wave *w) { return w->worker->space; }

/* Stops the wave: records the fault and returns NULL, so that a handler ends with `return sim_wave_fault(...)`. */
const sim_uop *sim_wave_fault(sim_wave *w, const sim_uop *u, sim_fault_kind kind, int lane, uint64_t addr, uint32_t size_bytes,
                              bool store, const char *what);

/* Recomputes mxcsr and mode_plain from w->mode; the second also loads the control word, for instructions that change MODE. */
void sim_wave_mode_set(sim_wave *w);
void sim_wave_mode_changed(sim_wave *w);

#endif
