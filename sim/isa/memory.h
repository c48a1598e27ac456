/* What the memory instructions share; for sim/isa/memory*, lds* and image* alone.
 *
 * Every lane's access is resolved by sim_mem_at: inside one live allocation, else the wave stops with a fault. The range
 * that a uop found last is kept by the worker; in that copy `serial` holds the space's generation of the look-up. */
#ifndef SIM_ISA_MEMORY_H
#define SIM_ISA_MEMORY_H

#include "exec/bind.h"
#include "isa/memory_atomic.h"

#include <string.h>

/* What an access does, and how its bytes meet a register. */
typedef enum sim_mem_op {
    SIM_MO_LOAD, SIM_MO_STORE, SIM_MO_ATOMIC, SIM_MO_TO_LDS, /* a load whose data goes to LDS */
    SIM_MO_FORMAT_LOAD, SIM_MO_FORMAT_STORE, SIM_MO_BLOCK_LOAD, SIM_MO_BLOCK_STORE, SIM_MO_TRANSPOSE,
    SIM_MO_ADDTID_LOAD, SIM_MO_ADDTID_STORE, SIM_MO_NOTHING /* cache control */
} sim_mem_op;

typedef enum sim_mem_data { /* LOAD and STORE */
    SIM_MD_U8, SIM_MD_I8, SIM_MD_U16, SIM_MD_I16, SIM_MD_32, SIM_MD_64, SIM_MD_96, SIM_MD_128,
    SIM_MD_U8_LO, SIM_MD_I8_LO, SIM_MD_16_LO,  /* into the lower half, the upper is kept */
    SIM_MD_U8_HI, SIM_MD_I8_HI, SIM_MD_16_HI,  /* into (or, for stores, from) the upper half */
    SIM_MD_N
} sim_mem_data;

/* Name prefixes that a row of memory.def has. */
enum { SIM_MP_FLAT = 1, SIM_MP_GLOBAL = 2, SIM_MP_SCRATCH = 4, SIM_MP_BUFFER = 8, SIM_MP_TBUFFER = 16 };

typedef struct sim_mem_row {
    const char *names[5]; /* by prefix */
    const char *suffix;
    uint8_t op, data;     /* data: sim_mem_data; ATOMIC: sim_atomic_op; FORMAT_*: channels, | 8 for d16, | 16 for d16_hi */
    uint8_t prefixes;
} sim_mem_row;

static const uint8_t sim_mem_bytes[] = {1, 1, 2, 2, 4, 8, 12, 16, 1, 1, 2, 1, 1, 2};

/* Where flat addresses point. */
static inline bool sim_mem_is_shared(uint64_t addr) { return addr >> 32 == SIM_SHARED_BASE >> 32; }
static inline bool sim_mem_is_private(uint64_t addr) { return addr >> 32 == SIM_PRIVATE_BASE >> 32; }

/* What of a range may be written: all, or the part of a read-only one that is not. False: addr is not in it. */
static inline bool sim_mem_writable(sim_range *r, uint64_t addr) {
    if (!r->read_only) return true;
    if (addr < r->rw_lo || addr >= r->rw_hi) return false;
    r->lo = r->rw_lo;
    r->hi = r->rw_hi;
    r->read_only = false;
    return true;
}

/* Finds the live range of an access and keeps it in *c. NULL: the fault is recorded. */
uint8_t *sim_mem_miss(sim_wave *w, const sim_uop *u, sim_range *c, int lane, uint64_t addr, uint32_t n_bytes, bool store);

/* The worker's range for this uop, forgotten when the space has changed since. */
static inline sim_range *sim_mem_cache(sim_wave *w, const sim_uop *u) {
    sim_range *c = sim_worker_range(w, u->index);
    uint64_t now = sim_space_generation(sim_wave_space(w));
    if (c->serial != now) {
        c->lo = c->hi = 0;
        c->serial = now;
    }
    return c;
}

/* The host address of [addr, addr + n_bytes), which lies in one live allocation that may be written if `store`. */
static inline uint8_t *sim_mem_at(sim_wave *w, const sim_uop *u, sim_range *c, int lane, uint64_t addr, uint32_t n_bytes,
                                  bool store) {
    if (addr >= c->lo && addr < c->hi && n_bytes <= c->hi - addr && !(store && c->read_only))
        return (uint8_t *)(uintptr_t)(addr + (uint64_t)c->delta);
    return sim_mem_miss(w, u, c, lane, addr, n_bytes, store);
}

/* LDS. NULL: the fault is recorded. */
static inline uint8_t *sim_mem_lds(sim_wave *w, const sim_uop *u, int lane, uint32_t addr, uint32_t n_bytes, bool store) {
    if (n_bytes <= w->group->lds_bytes && addr <= w->group->lds_bytes - n_bytes) return w->group->lds + addr;
    sim_wave_fault(w, u, SIM_FAULT_LDS, lane, addr, n_bytes, store, "outside the workgroup's LDS");
    return NULL;
}

/* Scratch of a lane, piece by piece since it is interleaved. False: the fault is recorded. */
bool sim_mem_scratch_read(sim_wave *w, const sim_uop *u, int lane, uint32_t off, void *out, uint32_t n_bytes);
bool sim_mem_scratch_write(sim_wave *w, const sim_uop *u, int lane, uint32_t off, const void *in, uint32_t n_bytes);

/* The same offset in every lane of the mask, whole dwords: rows as they stand in memory. False: not that, nothing is done. */
bool sim_mem_scratch_rows(const sim_wave *w, uint32_t off, uint32_t *r, unsigned n_dwords, uint64_t mask, bool store);

/* A register's new value from the bytes of a load (dwords from 32 bits on are copied by the caller). */
static inline uint32_t sim_mem_extend(unsigned data, const void *p, uint32_t old) {
    uint8_t b;
    uint16_t h;
    uint32_t x;
    switch (data) {
    case SIM_MD_U8: memcpy(&b, p, 1); return b;
    case SIM_MD_I8: memcpy(&b, p, 1); return (uint32_t)(int8_t)b;
    case SIM_MD_U16: memcpy(&h, p, 2); return h;
    case SIM_MD_I16: memcpy(&h, p, 2); return (uint32_t)(int16_t)h;
    case SIM_MD_U8_LO: memcpy(&b, p, 1); return (old & 0xffff0000u) | b;
    case SIM_MD_I8_LO: memcpy(&b, p, 1); return (old & 0xffff0000u) | (uint16_t)(int8_t)b;
    case SIM_MD_16_LO: memcpy(&h, p, 2); return (old & 0xffff0000u) | h;
    case SIM_MD_U8_HI: memcpy(&b, p, 1); return (old & 0xffffu) | (uint32_t)b << 16;
    case SIM_MD_I8_HI: memcpy(&b, p, 1); return (old & 0xffffu) | (uint32_t)(uint16_t)(int8_t)b << 16;
    case SIM_MD_16_HI: memcpy(&h, p, 2); return (old & 0xffffu) | (uint32_t)h << 16;
    default: memcpy(&x, p, 4); return x;
    }
}
static inline void sim_mem_to_rows(unsigned data, const uint8_t *p, uint32_t *d, unsigned lanes) {
    unsigned n = sim_mem_bytes[data];
    if (n < 4) { *d = sim_mem_extend(data, p, *d); return; }
    for (unsigned k = 0; k < n / 4; k++) memcpy(d + k * lanes, p + 4 * k, 4);
}
static inline void sim_mem_from_rows(unsigned data, uint8_t *p, const uint32_t *s, unsigned lanes) {
    unsigned n = sim_mem_bytes[data];
    if (n >= 4) {
        for (unsigned k = 0; k < n / 4; k++) memcpy(p + 4 * k, s + k * lanes, 4);
        return;
    }
    uint32_t x = data >= SIM_MD_U8_HI ? *s >> 16 : *s;
    uint8_t b = (uint8_t)x;
    uint16_t h = (uint16_t)x;
    if (n == 1) memcpy(p, &b, 1);
    else memcpy(p, &h, 2);
}

#define SIM_EACH_LANE(i, mask) for (uint64_t m_ = (mask); m_ && (i = __builtin_ctzll(m_), 1); m_ &= m_ - 1)

static inline uint64_t sim_mem_exec(const sim_wave *w) { return SIM_EXEC(w) & w->exec_full; }

/* Is the operand a register (not absent, not null)? */
static inline bool sim_mem_has(const sim_operand *o) {
    return o->kind != SIM_K_NONE && !(o->kind == SIM_K_SGPR && o->reg == SIM_S_NULL);
}
/* The value of a scalar operand: a register, a constant, nothing (0). */
static inline uint32_t sim_mem_scalar(const sim_wave *w, const sim_operand *o) {
    return o->kind == SIM_K_SGPR ? sim_sread(w, o->reg) : o->kind == SIM_K_CONST ? (uint32_t)o->value : 0;
}

const sim_mem_row *sim_mem_row_find(const char *meaning, unsigned format);
sim_bound sim_bind_buffer(sim_binder *b, const sim_inst *inst, const sim_mem_row *row, sim_uop *out_u);
sim_bound sim_bind_scalar_memory(sim_binder *b, const sim_inst *inst, sim_uop *out_u);
bool sim_meaning_at_scalar_memory(size_t i, sim_meaning *out);

/* Rows handled lane by lane, for anything; the fast ones (memory_fast*.c) hand over to it when lanes differ too much. */
sim_uop_fn sim_mem_global_slow, sim_lds_slow, sim_lds_slow2;

/* Fast handlers of one host level, by sim_mem_data; NULL: none. The 2addr forms of DS: dwords and pairs of them. */
typedef struct sim_mem_fast {
    sim_uop_fn *global_load[SIM_MD_N][2], *global_store[SIM_MD_N]; /* loads: for wave32 and wave64 */
    sim_uop_fn *lds_load[SIM_MD_N], *lds_store[SIM_MD_N];
    sim_uop_fn *lds_load2[SIM_MD_N], *lds_store2[SIM_MD_N];
    sim_uop_fn *bpermute; /* DS_BPERMUTE_B32 and its like */
} sim_mem_fast;
extern const sim_mem_fast sim_mem_fast_generic, sim_mem_fast_avx2, sim_mem_fast_avx512;
const sim_mem_fast *sim_mem_fast_host(void);

#endif
