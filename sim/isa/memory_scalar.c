/* SMEM: one address for the whole wave, so that there is no lane in its faults. */
#include "isa/memory.h"

#include "base/env.h"
#include "base/thread.h"

#include <stddef.h>

enum { LOAD, LOAD_SMALL, STORE, ATOMIC, TIME, REALTIME, NOTHING };

typedef struct row {
    const char *name, *buffer_name; /* the latter NULL: none */
    uint8_t op, data;
} row;

#define BUFFER_NAME_1(s) "S_BUFFER_" #s
#define BUFFER_NAME_0(s) NULL
static const row rows[] = {
#define SIM_SMEM(s, b, o, d) {"S_" #s, BUFFER_NAME_##b(s), o, d},
#include "isa/memory_scalar.def"
#undef SIM_SMEM
};
#define N_ROWS (sizeof rows / sizeof *rows)

enum { BUFFER = 1 }; /* sim_uop.flags */

/* The address, and for buffers how many bytes from it are inside the resource (others: all). */
static uint64_t address(const sim_wave *w, const sim_uop *u, uint64_t *out_limit) {
    const sim_inst *inst = u->inst;
    uint64_t off = (uint64_t)(int64_t)inst->offset_imm;
    if (sim_mem_has(&inst->soffset)) off += sim_mem_scalar(w, &inst->soffset);
    if (!(u->flags & BUFFER)) {
        *out_limit = UINT64_MAX;
        return sim_sread64(w, inst->base.reg) + off;
    }
    const uint32_t *r = &w->s[inst->base.reg];
    uint64_t base = r[0] | (uint64_t)(r[1] & 0xffff) << 32;
    uint64_t stride = r[1] >> 16 & 0x3fff, n = r[2], bytes = stride ? stride * n : n;
    off &= ~(uint64_t)3 | (((const row *)u->core)->op == LOAD_SMALL ? 3 : 0);
    *out_limit = off < bytes ? bytes - off : 0;
    return base + off;
}

/* Compilers widen scalar loads to whole dwords, and three dwords to four, where the alignment says that this cannot leave
 * the page: the rest of the 16 bytes that an allocation ends in may be read. */
static const uint8_t *load_at(sim_wave *w, const sim_uop *u, sim_range *c, uint64_t addr, uint32_t n) {
    if (addr >= c->lo && addr < c->hi && n <= c->hi - addr) return (const uint8_t *)(uintptr_t)(addr + (uint64_t)c->delta);
    const sim_space *space = sim_wave_space(w);
    sim_range r;
    uint64_t now = space ? sim_space_generation(space) : 0;
    if (space && sim_space_find(space, addr, &r) && !r.freed && addr + n <= ((r.hi + 15) & ~(uint64_t)15)) {
        *c = r;
        c->serial = now;
        return (const uint8_t *)(uintptr_t)(addr + (uint64_t)r.delta);
    }
    return sim_mem_miss(w, u, c, -1, addr, n, false);
}

static const sim_uop *run_load(sim_wave *w, const sim_uop *u) {
    const sim_inst *inst = u->inst;
    uint64_t addr = sim_sread64(w, u->s[0]) + (uint64_t)(int64_t)(int32_t)u->imm;
    if (u->s[1] != SIM_S_NULL) addr += sim_sread(w, u->s[1]);
    addr &= ~(uint64_t)3;
    unsigned n = ((const row *)u->core)->data;
    sim_range *c = sim_mem_cache(w, u);
    const uint8_t *p = load_at(w, u, c, addr, n);
    if (!p) return NULL;
    if (inst->dst.reg == SIM_S_NULL) return u + 1;
    memcpy(&w->s[u->d], p, n);
    return u + 1;
}

static const sim_uop *run_buffer_load(sim_wave *w, const sim_uop *u) {
    uint64_t limit, addr = address(w, u, &limit);
    sim_range *c = sim_mem_cache(w, u);
    uint32_t out[16];
    unsigned n = ((const row *)u->core)->data / 4;
    for (unsigned k = 0; k < n; k++) {
        out[k] = 0;
        if (limit < 4 * k + 4) continue;
        const uint8_t *p = load_at(w, u, c, addr + 4 * k, 4);
        if (!p) return NULL;
        memcpy(&out[k], p, 4);
    }
    if (u->inst->dst.reg != SIM_S_NULL) memcpy(&w->s[u->d], out, 4 * n);
    return u + 1;
}

static const sim_uop *run_load_small(sim_wave *w, const sim_uop *u) {
    unsigned data = ((const row *)u->core)->data, n = sim_mem_bytes[data];
    uint64_t limit, addr = address(w, u, &limit);
    uint32_t x = 0;
    if (addr & (n - 1))
        return sim_wave_fault(w, u, SIM_FAULT_MISALIGNED, -1, addr, n, false, "a scalar load needs its natural alignment");
    if (limit >= n) {
        const uint8_t *p = sim_mem_at(w, u, sim_mem_cache(w, u), -1, addr, n, false);
        if (!p) return NULL;
        x = sim_mem_extend(data, p, 0);
    }
    sim_swrite(w, u->d, x);
    return u + 1;
}

static const sim_uop *run_store(sim_wave *w, const sim_uop *u) {
    uint64_t limit, addr = address(w, u, &limit) & ~(uint64_t)3;
    sim_range *c = sim_mem_cache(w, u);
    unsigned n = ((const row *)u->core)->data / 4;
    for (unsigned k = 0; k < n; k++) {
        if (limit < 4 * k + 4) continue;
        uint8_t *p = sim_mem_at(w, u, c, -1, addr + 4 * k, 4, true);
        if (!p) return NULL;
        uint32_t x = sim_sread(w, u->d + k);
        memcpy(p, &x, 4);
    }
    return u + 1;
}

static const sim_uop *run_atomic(sim_wave *w, const sim_uop *u) {
    unsigned op = ((const row *)u->core)->data, n = sim_atomic_bytes(op);
    uint64_t limit, addr = address(w, u, &limit) & ~(uint64_t)3;
    if (addr & (n - 1))
        return sim_wave_fault(w, u, SIM_FAULT_MISALIGNED, -1, addr, n, true, "an atomic needs its natural alignment");
    uint64_t old = 0;
    if (limit >= n) {
        uint8_t *p = sim_mem_at(w, u, sim_mem_cache(w, u), -1, addr, n, true);
        if (!p) return NULL;
        uint64_t data = n == 8 ? sim_sread64(w, u->d) : sim_sread(w, u->d), data2 = 0;
        if (sim_atomic_has_second(op)) data2 = n == 8 ? sim_sread64(w, u->d + 2) : sim_sread(w, u->d + 1);
        old = sim_atomic_host(op, p, data, data2);
    }
    if (u->inst->glc) {
        if (n == 8) sim_swrite64(w, u->d, old);
        else sim_swrite(w, u->d, (uint32_t)old);
    }
    return u + 1;
}

/* Counters that only rise: nanoseconds (shader clock) and tens of them (the constant 100 MHz). In the deterministic mode
 * they follow the instructions that the wave has executed. */
static const sim_uop *run_time(sim_wave *w, const sim_uop *u) {
    static _Atomic int deterministic = -1;
    int det = atomic_load_explicit(&deterministic, memory_order_relaxed);
    if (det < 0) {
        det = och_env_flag(OCH_ENV_OCHRE_SIM_DETERMINISTIC);
        atomic_store_explicit(&deterministic, det, memory_order_relaxed);
    }
    uint64_t ns = det ? w->n_executed * 4 : (uint64_t)(och_now_seconds() * 1e9);
    sim_swrite64(w, u->d, ((const row *)u->core)->op == TIME ? ns : ns / 10);
    return u + 1;
}

sim_bound sim_bind_scalar_memory(sim_binder *b, const sim_inst *inst, sim_uop *u) {
    (void)b;
    const row *r = NULL;
    bool buffer = false;
    for (size_t i = 0; i < N_ROWS && !r; i++) {
        if (!strcmp(rows[i].name, inst->meaning)) r = &rows[i];
        else if (rows[i].buffer_name && !strcmp(rows[i].buffer_name, inst->meaning)) r = &rows[i], buffer = true;
    }
    if (!r) return SIM_BOUND_NO;
    if (r->op == NOTHING) return SIM_BOUND_NOTHING;
    const sim_operand *reg = inst->dst.kind == SIM_K_SGPR ? &inst->dst : &inst->data;
    if (reg->kind != SIM_K_SGPR || reg->reg > 127) return SIM_BOUND_NO;
    unsigned n = r->op == LOAD || r->op == STORE ? r->data / 4u : r->op == ATOMIC ? 4u : 1u;
    if (r->op == LOAD && reg->reg != SIM_S_NULL && reg->reg + n > 128) return SIM_BOUND_NO;
    if (r->op != TIME && r->op != REALTIME && (inst->base.kind != SIM_K_SGPR || inst->base.reg + (buffer ? 4u : 2u) > 128))
        return SIM_BOUND_NO;
    u->inst = inst;
    u->core = (void *)(uintptr_t)r;
    u->d = reg->reg;
    u->s[0] = inst->base.reg;
    u->s[1] = inst->soffset.kind == SIM_K_SGPR ? inst->soffset.reg : SIM_S_NULL;
    u->imm = (uint32_t)inst->offset_imm;
    if (inst->soffset.kind == SIM_K_CONST) u->imm += (uint32_t)inst->soffset.value;
    u->flags = buffer ? BUFFER : 0;
    switch (r->op) {
    case LOAD: u->fn = buffer ? run_buffer_load : run_load; break;
    case LOAD_SMALL: u->fn = run_load_small; break;
    case STORE: u->fn = run_store; break;
    case ATOMIC: u->fn = run_atomic; break;
    default: u->fn = run_time; break;
    }
    return SIM_BOUND_UOP;
}

bool sim_meaning_at_scalar_memory(size_t i, sim_meaning *out) {
    static const sim_meaning all[] = {
#define SIM_SMEM(s, b, o, d) {"S_" #s, SIM_EXACT, NULL}, {BUFFER_NAME_##b(s), SIM_EXACT, NULL},
#include "isa/memory_scalar.def"
#undef SIM_SMEM
    };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (all[k].name && i-- == 0) {
            *out = all[k];
            return true;
        }
    return false;
}
