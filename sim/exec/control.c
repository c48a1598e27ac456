/* Branches, calls, barriers, the end: everything that decides which uop runs next. */
#include "exec/control.h"

#include "exec/program.h"
#include "exec/state.h"

#include <string.h>

/* Counts the straight run that ends with u. The slice ends at a branch only, so that the loop needs no test of its own. */
static inline void count(sim_wave *w, const sim_uop *u) {
    int64_t n = u - w->block + 1;
    w->n_executed += (uint64_t)n;
    w->budget -= n;
}

static const sim_uop *yield_at(sim_wave *w, const sim_uop *next) {
    w->state = SIM_WAVE_YIELD;
    w->pc = next;
    return NULL;
}

/* Waiting loops give way after this many turns, so that the workgroup they wait for gets to run. */
#define SPIN_TURNS 100

static inline const sim_uop *jump(sim_wave *w, const sim_uop *u, const sim_uop *target) {
    count(w, u);
    w->block = target;
    if (u->flags & SIM_UOP_SPIN && ++w->spins >= SPIN_TURNS) return yield_at(w, target);
    if (w->budget < 0) return yield_at(w, target);
    return target;
}

static const sim_uop *h_endpgm(sim_wave *w, const sim_uop *u) {
    count(w, u);
    w->state = SIM_WAVE_DONE;
    w->pc = u;
    return NULL;
}

static const sim_uop *h_branch(sim_wave *w, const sim_uop *u) { return jump(w, u, u->target); }
static const sim_uop *h_cbranch_scc0(sim_wave *w, const sim_uop *u) { return w->scc ? u + 1 : jump(w, u, u->target); }
static const sim_uop *h_cbranch_scc1(sim_wave *w, const sim_uop *u) { return w->scc ? jump(w, u, u->target) : u + 1; }

static inline bool vccz(const sim_wave *w) {
    return (w->s[SIM_S_VCC_LO] | (w->lanes == 64 ? w->s[SIM_S_VCC_HI] : 0)) == 0;
}
static inline bool execz(const sim_wave *w) {
    return (w->s[SIM_S_EXEC_LO] | (w->lanes == 64 ? w->s[SIM_S_EXEC_HI] : 0)) == 0;
}
static const sim_uop *h_cbranch_vccz(sim_wave *w, const sim_uop *u) { return vccz(w) ? jump(w, u, u->target) : u + 1; }
static const sim_uop *h_cbranch_vccnz(sim_wave *w, const sim_uop *u) { return vccz(w) ? u + 1 : jump(w, u, u->target); }
static const sim_uop *h_cbranch_execz(sim_wave *w, const sim_uop *u) { return execz(w) ? jump(w, u, u->target) : u + 1; }
static const sim_uop *h_cbranch_execnz(sim_wave *w, const sim_uop *u) { return execz(w) ? u + 1 : jump(w, u, u->target); }

static const sim_uop *h_getpc(sim_wave *w, const sim_uop *u) {
    sim_swrite64(w, u->inst->dst.reg, sim_program_addr_after(w->program, u));
    return u + 1;
}

static const sim_uop *jump_addr(sim_wave *w, const sim_uop *u, uint64_t addr) {
    const sim_uop *target = sim_program_at(w->program, addr);
    if (!target)
        return sim_wave_fault(w, u, SIM_FAULT_PC, -1, addr, 4, false,
                              "a jump to an address that is no instruction reachable from this kernel");
    return jump(w, u, target);
}

static const sim_uop *h_setpc(sim_wave *w, const sim_uop *u) { return jump_addr(w, u, sim_sread64(w, u->inst->src[0].reg)); }

static const sim_uop *h_swappc(sim_wave *w, const sim_uop *u) {
    uint64_t addr = sim_sread64(w, u->inst->src[0].reg);
    sim_swrite64(w, u->inst->dst.reg, sim_program_addr_after(w->program, u));
    return jump_addr(w, u, addr);
}

static const sim_uop *h_call(sim_wave *w, const sim_uop *u) {
    sim_swrite64(w, u->inst->dst.reg, sim_program_addr_after(w->program, u));
    return jump(w, u, u->target);
}

/* A barrier is a signal and a wait. It completes when as many waves have signalled as are live; a wave that ends is no
 * longer waited for (sim_group_wave_ended). */
static void signal_barrier(sim_wave *w) {
    sim_group *g = w->group;
    w->barrier_target = g->phase + 1;
    if (++g->n_signalled >= g->n_live) {
        g->n_signalled = 0;
        g->phase++;
    }
}

void sim_group_wave_ended(sim_group *g) {
    g->n_live--;
    if (g->n_live && g->n_signalled >= g->n_live) {
        g->n_signalled = 0;
        g->phase++;
    }
}

static const sim_uop *wait_barrier(sim_wave *w, const sim_uop *u) {
    if ((int32_t)(w->group->phase - w->barrier_target) >= 0) return u + 1;
    count(w, u);
    w->block = u + 1;
    w->state = SIM_WAVE_BARRIER;
    w->pc = u + 1;
    return NULL;
}

static const sim_uop *h_barrier(sim_wave *w, const sim_uop *u) {
    signal_barrier(w);
    return wait_barrier(w, u);
}

/* gfx12: barrier -1 is the workgroup's, 0 does nothing, -2 is for trap handlers, others are named ones. */
static int32_t barrier_number(const sim_wave *w, const sim_uop *u) {
    const sim_operand *s = &u->inst->src[0];
    if (s->kind == SIM_K_SGPR) return (int32_t)(sim_sread(w, s->reg) & 31);
    return (int32_t)s->value;
}

static const sim_uop *h_barrier_signal(sim_wave *w, const sim_uop *u) {
    int32_t n = barrier_number(w, u);
    if (n > 0) return sim_wave_fault(w, u, SIM_FAULT_ILLEGAL, -1, 0, 0, false, "named barriers are not part of this target");
    if (n == -1) signal_barrier(w);
    return u + 1;
}

static const sim_uop *h_barrier_signal_isfirst(sim_wave *w, const sim_uop *u) {
    int32_t n = barrier_number(w, u);
    if (n > 0) return sim_wave_fault(w, u, SIM_FAULT_ILLEGAL, -1, 0, 0, false, "named barriers are not part of this target");
    w->scc = n == -1 && w->group->n_signalled == 0;
    if (n == -1) signal_barrier(w);
    return u + 1;
}

static const sim_uop *h_barrier_wait(sim_wave *w, const sim_uop *u) {
    return u->inst->simm16 == -1 ? wait_barrier(w, u) : u + 1;
}

static const sim_uop *h_get_barrier_state(sim_wave *w, const sim_uop *u) {
    sim_swrite(w, u->inst->dst.reg,
               barrier_number(w, u) == -1 ? w->group->n_signalled << 16 | w->group->n_live << 4 | 1 : 0);
    return u + 1;
}

/* A barrier among waves of the whole launch, one of a workgroup as the device libraries use it: the first active lane's value
 * is the number of waves less one. The instruction runs again until the last one has arrived. */
static const sim_uop *h_gws_barrier(sim_wave *w, const sim_uop *u) {
    sim_launch_state *s = w->group->launch;
    const sim_inst *i = u->inst;
    const sim_operand *data = i->data.kind == SIM_K_VGPR ? &i->data : &i->addr;
    uint64_t exec = SIM_EXEC(w) & w->exec_full;
    unsigned lane = exec ? (unsigned)__builtin_ctzll(exec) : 0;
    uint32_t n = w->v[(size_t)data->reg * w->lanes + lane] + 1;
    if (!s || n <= 1) return u + 1;
    unsigned id = ((uint32_t)i->offset_imm + (w->s[SIM_S_M0] >> 16 & 63)) & 63;
    if (!w->gws_waiting) {
        w->gws_waiting = true;
        w->gws_target = atomic_load(&s->gws[id].phase) + 1;
        if (atomic_fetch_add(&s->gws[id].arrived, 1) + 1 >= n) {
            atomic_store(&s->gws[id].arrived, 0);
            atomic_fetch_add(&s->gws[id].phase, 1);
        }
    }
    if ((int32_t)(atomic_load(&s->gws[id].phase) - w->gws_target) >= 0) {
        w->gws_waiting = false;
        return u + 1;
    }
    w->n_executed += (uint64_t)(u - w->block);
    w->block = u;
    return yield_at(w, u);
}

static const sim_uop *h_sleep(sim_wave *w, const sim_uop *u) {
    count(w, u);
    w->block = u + 1;
    return yield_at(w, u + 1);
}

static const sim_uop *h_trap(sim_wave *w, const sim_uop *u) {
    /* 3 is the debugger's breakpoint: with none attached the handler returns. */
    if ((u->inst->simm16 & 0xff) == 3) return u + 1;
    return sim_wave_fault(w, u, SIM_FAULT_TRAP, -1, 0, 0, false, "the kernel ended itself (s_trap: abort, assert, __builtin_trap)");
}

/* Messages that answer: the doorbell, dispatch and trap addresses are 0 here, for no packet and no trap handler stands behind
 * a launch. The clock (MSG_RTN_GET_REALTIME) counts what the wave has executed. */
static const sim_uop *h_sendmsg_rtn(sim_wave *w, const sim_uop *u) {
    const sim_operand *m = &u->inst->src[0];
    uint32_t message = (m->kind == SIM_K_CONST ? (uint32_t)m->value : sim_sread(w, m->reg)) & 0xff;
    uint64_t answer = message == 0x83 ? w->n_executed : 0;
    if (u->inst->dst.n_dwords == 2) sim_swrite64(w, u->inst->dst.reg, answer);
    else sim_swrite(w, u->inst->dst.reg, (uint32_t)answer);
    return u + 1;
}

static const sim_uop *h_code_end(sim_wave *w, const sim_uop *u) {
    return sim_wave_fault(w, u, SIM_FAULT_PC, -1, 0, 0, false, "execution ran past the end of the code (s_code_end)");
}

/* Relative vector registers of gfx9: an index in M0[7:0], which operands it applies to in M0[15:12]. The instructions up to
 * s_set_gpr_idx_off are wrapped (sim_control_indexed). */
static const sim_uop *h_gpr_idx_on(sim_wave *w, const sim_uop *u) {
    const sim_inst *i = u->inst;
    uint32_t idx = i->src[0].kind == SIM_K_CONST ? (uint32_t)i->src[0].value : sim_sread(w, i->src[0].reg);
    uint32_t en = i->src[1].kind == SIM_K_CONST ? (uint32_t)i->src[1].value : i->src[1].reg;
    w->s[SIM_S_M0] = (w->s[SIM_S_M0] & 0xffff0f00u) | (idx & 0xff) | (en & 15) << 12;
    return u + 1;
}
static const sim_uop *h_gpr_idx_idx(sim_wave *w, const sim_uop *u) {
    const sim_operand *s = &u->inst->src[0];
    uint32_t idx = s->kind == SIM_K_CONST ? (uint32_t)s->value : sim_sread(w, s->reg);
    w->s[SIM_S_M0] = (w->s[SIM_S_M0] & ~0xffu) | (idx & 0xff);
    return u + 1;
}
static const sim_uop *h_gpr_idx_mode(sim_wave *w, const sim_uop *u) {
    w->s[SIM_S_M0] = (w->s[SIM_S_M0] & ~0xf000u) | ((uint32_t)u->inst->simm16 & 15) << 12;
    return u + 1;
}

const sim_uop *sim_control_indexed(sim_wave *w, const sim_uop *u) {
    const sim_uop *inner = u->core;
    uint32_t idx = w->s[SIM_S_M0] & 0xff, en = w->s[SIM_S_M0] >> 12 & 15, row = w->lanes * 4u;
    sim_uop moved = *inner;
    sim_inst inst = *inner->inst;
    for (int i = 0; i < 3; i++)
        if (en >> i & 1 && inst.src[i].kind == SIM_K_VGPR) {
            inst.src[i].reg = (uint16_t)(inst.src[i].reg + idx);
            if (moved.sk[i] == SIM_SRC_ROW) moved.s[i] += idx * row;
            if (inst.src[i].reg + inst.src[i].n_dwords > w->n_vgprs)
                return sim_wave_fault(w, u, SIM_FAULT_UNALIGNED_REG, -1, inst.src[i].reg, 0, false, "relative register out of range");
        }
    if (en >> 3 & 1 && inst.dst.kind == SIM_K_VGPR) {
        inst.dst.reg = (uint16_t)(inst.dst.reg + idx);
        moved.d += idx * row;
        if (inst.dst.reg + inst.dst.n_dwords > w->n_vgprs)
            return sim_wave_fault(w, u, SIM_FAULT_UNALIGNED_REG, -1, inst.dst.reg, 0, true, "relative register out of range");
    }
    moved.inst = &inst;
    const sim_uop *next = moved.fn(w, &moved);
    if (!next) w->pc = u;
    return next ? u + 1 : NULL;
}

const sim_uop *sim_control_jump(sim_wave *w, const sim_uop *u) {
    /* No instruction of the program: a link where code is not laid out in the order it runs. */
    w->n_executed += (uint64_t)(u - w->block);
    w->budget -= u - w->block;
    w->block = u->target;
    return u->target;
}

const sim_uop *sim_control_off_end(sim_wave *w, const sim_uop *u) {
    return sim_wave_fault(w, u, SIM_FAULT_PC, -1, 0, 0, false, "execution ran past the end of the code");
}

/* Ends of loops that compilers make again and again, run at once. Who watches is to see one instruction at a time. */
static const sim_uop *alone(sim_wave *w, const sim_uop *u) {
    sim_uop_fn *fn;
    memcpy(&fn, &u->core, sizeof fn);
    return fn(w, u);
}
#define FUSED_ALONE(w, u)                                                                                                      \
    if (__builtin_expect((w)->worker->n_observers, 0)) return alone(w, u)

/* Lanes leave one by one: S_OR (those that left), S_AND_NOT1 EXEC, S_CBRANCH_EXECNZ. */
static const sim_uop *fused_leave32(sim_wave *w, const sim_uop *u) {
    FUSED_ALONE(w, u);
    const uint32_t left = w->s[u->s[0]] | w->s[u->s[1]], rest = w->s[SIM_S_EXEC_LO] & ~left;
    w->s[u->d] = left;
    w->s[SIM_S_EXEC_LO] = rest;
    w->scc = rest != 0;
    return rest ? jump(w, u + 2, u[2].target) : u + 3;
}
static const sim_uop *fused_leave64(sim_wave *w, const sim_uop *u) {
    FUSED_ALONE(w, u);
    const uint32_t lo = w->s[u->s[0]] | w->s[u->s[1]], hi = w->s[u->s[0] + 1] | w->s[u->s[1] + 1];
    const uint32_t rest_lo = w->s[SIM_S_EXEC_LO] & ~lo, rest_hi = w->s[SIM_S_EXEC_HI] & ~hi;
    w->s[u->d] = lo;
    w->s[u->d + 1] = hi;
    w->s[SIM_S_EXEC_LO] = rest_lo;
    w->s[SIM_S_EXEC_HI] = rest_hi;
    w->scc = (rest_lo | rest_hi) != 0;
    return rest_lo | rest_hi ? jump(w, u + 2, u[2].target) : u + 3;
}

/* S_CMP, then S_CBRANCH_SCC0 or SCC1. */
static inline uint32_t plain_src(const sim_wave *w, const sim_uop *u, int i) {
    return u->sk[i] == SIM_SRC_CONST ? u->s[i] : w->s[u->s[i]];
}
#define FUSED_COMPARES(X)                                                                                                      \
    X(EQ_I32, int32_t, ==) X(LG_I32, int32_t, !=) X(GT_I32, int32_t, >) X(GE_I32, int32_t, >=) X(LT_I32, int32_t, <)           \
    X(LE_I32, int32_t, <=) X(EQ_U32, uint32_t, ==) X(LG_U32, uint32_t, !=) X(GT_U32, uint32_t, >) X(GE_U32, uint32_t, >=)      \
    X(LT_U32, uint32_t, <) X(LE_U32, uint32_t, <=)
#define X(name, type, op)                                                                                                      \
    static const sim_uop *fused_##name##_scc0(sim_wave *w, const sim_uop *u) {                                                 \
        FUSED_ALONE(w, u);                                                                                                     \
        w->scc = (type)plain_src(w, u, 0) op(type) plain_src(w, u, 1);                                                         \
        return w->scc ? u + 2 : jump(w, u + 1, u[1].target);                                                                   \
    }                                                                                                                          \
    static const sim_uop *fused_##name##_scc1(sim_wave *w, const sim_uop *u) {                                                 \
        FUSED_ALONE(w, u);                                                                                                     \
        w->scc = (type)plain_src(w, u, 0) op(type) plain_src(w, u, 1);                                                         \
        return w->scc ? jump(w, u + 1, u[1].target) : u + 2;                                                                   \
    }
FUSED_COMPARES(X)
#undef X
static const struct {
    const char *name;
    sim_uop_fn *scc0, *scc1;
} compares[] = {
#define X(name, type, op) {"S_CMP_" #name, fused_##name##_scc0, fused_##name##_scc1},
    FUSED_COMPARES(X)
#undef X
};

static bool means(const sim_uop *u, const char *name) { /* links bear the name of the instruction before them */
    return u->inst && u->fn != sim_control_jump && u->fn != sim_control_off_end && !strcmp(u->inst->meaning, name);
}
static bool is_pair_of(const sim_uop *u, int i, uint32_t n) { return u->sk[i] == SIM_SRC_SCALAR && u->s[i] + n <= 128; }

sim_uop_fn *sim_control_fused(const sim_uop *u, unsigned lanes) {
    const bool wide = lanes == 64;
    const uint32_t n = wide ? 2 : 1;
    if (means(u, wide ? "S_OR_B64" : "S_OR_B32") && u[2].fn == h_cbranch_execnz &&
        (means(u + 1, wide ? "S_AND_NOT1_B64" : "S_AND_NOT1_B32") || means(u + 1, wide ? "S_ANDN2_B64" : "S_ANDN2_B32")) &&
        is_pair_of(u, 0, n) && is_pair_of(u, 1, n) && u->d + n <= SIM_S_VCC_HI + 1u && u[1].d == SIM_S_EXEC_LO &&
        u[1].sk[0] == SIM_SRC_SCALAR && u[1].s[0] == SIM_S_EXEC_LO && u[1].sk[1] == SIM_SRC_SCALAR && u[1].s[1] == u->d)
        return wide ? fused_leave64 : fused_leave32;
    if ((u[1].fn == h_cbranch_scc0 || u[1].fn == h_cbranch_scc1) &&
        (u->sk[0] == SIM_SRC_CONST || u->sk[0] == SIM_SRC_SCALAR) && (u->sk[1] == SIM_SRC_CONST || u->sk[1] == SIM_SRC_SCALAR))
        for (size_t i = 0; i < sizeof compares / sizeof *compares; i++)
            if (means(u, compares[i].name)) return u[1].fn == h_cbranch_scc0 ? compares[i].scc0 : compares[i].scc1;
    return NULL;
}

static const struct {
    const char *name;
    sim_uop_fn *fn;
} rows[] = {
#define SIM_CONTROL(name, fn) {#name, fn},
#define SIM_NOTHING(name) {#name, NULL},
#include "exec/control.def"
#undef SIM_CONTROL
#undef SIM_NOTHING
};

sim_bound sim_bind_control(sim_binder *b, const sim_inst *inst, sim_uop *out_u) {
    (void)b;
    if (inst->format != SIM_SOPP && inst->format != SIM_SOP1 && inst->format != SIM_SOPK && inst->format != SIM_SOPC &&
        strncmp(inst->meaning, "DS_GWS_", 7) != 0)
        return SIM_BOUND_NO;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].name, inst->meaning)) {
            if (!rows[i].fn) return SIM_BOUND_NOTHING;
            out_u->fn = rows[i].fn;
            return SIM_BOUND_UOP;
        }
    return SIM_BOUND_NO;
}

bool sim_meaning_at_control(size_t i, sim_meaning *out) {
    static const sim_meaning list[] = {
#define SIM_CONTROL(name, fn) {#name, SIM_EXACT, NULL},
#define SIM_NOTHING(name) {#name, SIM_EXACT, NULL},
#include "exec/control.def"
#undef SIM_CONTROL
#undef SIM_NOTHING
    };
    if (i >= sizeof list / sizeof *list) return false;
    *out = list[i];
    return true;
}
