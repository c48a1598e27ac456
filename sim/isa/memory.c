/* FLAT, GLOBAL and SCRATCH, lane by lane, and the binding of all memory formats. A lane's address says where it goes: an
 * allocation, LDS or the lane's own scratch; the faults of each are found here. */
#include "isa/memory.h"

#include <stddef.h>

static const sim_mem_row rows[] = {
#define SIM_MEM(p, s, o, d)                                                                                                    \
    {.names = {"FLAT_" #s, "GLOBAL_" #s, "SCRATCH_" #s, "BUFFER_" #s, "TBUFFER_" #s}, .suffix = #s, .op = SIM_MO_##o,          \
     .data = d, .prefixes = p},
#include "isa/memory.def"
#undef SIM_MEM
    {.names = {NULL, "GLOBAL_LOAD_TR_B128", NULL, NULL, NULL},
     .suffix = "LOAD_TR_B128",
     .op = SIM_MO_TRANSPOSE,
     .data = SIM_MD_128,
     .prefixes = SIM_MP_GLOBAL},
};
#define N_ROWS (sizeof rows / sizeof *rows)

const sim_mem_row *sim_mem_row_find(const char *meaning, unsigned format) {
    (void)format; /* the prefix says it */
    for (size_t i = 0; i < N_ROWS; i++)
        for (unsigned k = 0; k < 5; k++)
            if (rows[i].prefixes >> k & 1 && !strcmp(rows[i].names[k], meaning)) return &rows[i];
    return NULL;
}

uint8_t *sim_mem_miss(sim_wave *w, const sim_uop *u, sim_range *c, int lane, uint64_t addr, uint32_t n_bytes, bool store) {
    const sim_space *space = sim_wave_space(w);
    if (!space) {
        sim_wave_fault(w, u, SIM_FAULT_MEMORY, lane, addr, n_bytes, store, NULL);
        return NULL;
    }
    uint64_t now = sim_space_generation(space);
    sim_range r;
    bool found = sim_space_find(space, addr, &r);
    if (found && r.freed) {
        sim_wave_fault(w, u, SIM_FAULT_FREED, lane, addr, n_bytes, store, NULL);
        return NULL;
    }
    if (!found || n_bytes > r.hi - addr) {
        sim_wave_fault(w, u, SIM_FAULT_MEMORY, lane, addr, n_bytes, store,
                       found ? "it runs past the end of its allocation" : NULL);
        return NULL;
    }
    if (store && r.read_only && addr >= r.rw_lo && addr < r.rw_hi && n_bytes <= r.rw_hi - addr) {
        r.lo = r.rw_lo;
        r.hi = r.rw_hi;
        r.read_only = false;
    }
    if (store && (!sim_mem_writable(&r, addr) || n_bytes > r.hi - addr)) {
        sim_wave_fault(w, u, SIM_FAULT_READONLY, lane, addr, n_bytes, store, NULL);
        return NULL;
    }
    *c = r;
    c->serial = now;
    return (uint8_t *)(uintptr_t)(addr + (uint64_t)r.delta);
}

static bool scratch_inside(sim_wave *w, const sim_uop *u, int lane, uint32_t off, uint32_t n_bytes, bool store) {
    if (w->scratch && n_bytes <= w->scratch_lane_bytes && off <= w->scratch_lane_bytes - n_bytes) return true;
    sim_wave_fault(w, u, SIM_FAULT_SCRATCH, lane, off, n_bytes, store, NULL);
    return false;
}
/* Bytes up to the next dword stand together, dwords are w->lanes dwords apart. */
bool sim_mem_scratch_read(sim_wave *w, const sim_uop *u, int lane, uint32_t off, void *out, uint32_t n_bytes) {
    if (!scratch_inside(w, u, lane, off, n_bytes, false)) return false;
    for (uint8_t *o = out; n_bytes;) {
        uint32_t n = 4 - off % 4 < n_bytes ? 4 - off % 4 : n_bytes;
        memcpy(o, w->scratch + ((size_t)(off / 4) * w->lanes + (unsigned)lane) * 4 + off % 4, n);
        o += n;
        off += n;
        n_bytes -= n;
    }
    return true;
}
bool sim_mem_scratch_write(sim_wave *w, const sim_uop *u, int lane, uint32_t off, const void *in, uint32_t n_bytes) {
    if (!scratch_inside(w, u, lane, off, n_bytes, true)) return false;
    for (const uint8_t *i = in; n_bytes;) {
        uint32_t n = 4 - off % 4 < n_bytes ? 4 - off % 4 : n_bytes;
        memcpy(w->scratch + ((size_t)(off / 4) * w->lanes + (unsigned)lane) * 4 + off % 4, i, n);
        i += n;
        off += n;
        n_bytes -= n;
    }
    return true;
}

/* Where one lane's access goes. */
typedef enum place { GLOBAL, SHARED, PRIVATE } place;

static uint64_t lane_addr(const sim_wave *w, const sim_uop *u, unsigned lane, place *out_place) {
    const sim_inst *inst = u->inst;
    uint64_t off = (uint64_t)(int64_t)inst->offset_imm;
    bool vaddr = sim_mem_has(&inst->addr), saddr = sim_mem_has(&inst->saddr);
    const uint32_t *v = vaddr ? SIM_ROW(w, u->s[0]) + lane : NULL;
    *out_place = GLOBAL;
    if (inst->format == SIM_SCRATCH) {
        *out_place = PRIVATE;
        return (uint32_t)((v ? *v : 0) + (saddr ? sim_mem_scalar(w, &inst->saddr) : 0) + (uint32_t)off);
    }
    uint64_t addr = off;
    if (saddr) addr += sim_sread64(w, inst->saddr.reg) + (v ? *v : 0);
    else if (v) addr += v[0] | (uint64_t)v[w->lanes] << 32;
    if (inst->format == SIM_FLAT) {
        if (sim_mem_is_shared(addr)) { *out_place = SHARED; return (uint32_t)addr; }
        if (sim_mem_is_private(addr)) { *out_place = PRIVATE; return (uint32_t)addr; }
    }
    return addr;
}

static bool lane_read(sim_wave *w, const sim_uop *u, sim_range *c, int lane, place p, uint64_t addr, void *out, uint32_t n) {
    if (p == PRIVATE) return sim_mem_scratch_read(w, u, lane, (uint32_t)addr, out, n);
    const uint8_t *at =
        p == SHARED ? sim_mem_lds(w, u, lane, (uint32_t)addr, n, false) : sim_mem_at(w, u, c, lane, addr, n, false);
    if (at) memcpy(out, at, n);
    return at;
}
static bool lane_write(sim_wave *w, const sim_uop *u, sim_range *c, int lane, place p, uint64_t addr, const void *in,
                       uint32_t n) {
    if (p == PRIVATE) return sim_mem_scratch_write(w, u, lane, (uint32_t)addr, in, n);
    uint8_t *at = p == SHARED ? sim_mem_lds(w, u, lane, (uint32_t)addr, n, true) : sim_mem_at(w, u, c, lane, addr, n, true);
    if (at) memcpy(at, in, n);
    return at;
}

bool sim_mem_scratch_rows(const sim_wave *w, uint32_t off, uint32_t *r, unsigned n_dwords, uint64_t mask, bool store) {
    if (off % 4 || !w->scratch || 4 * n_dwords > w->scratch_lane_bytes || off > w->scratch_lane_bytes - 4 * n_dwords)
        return false;
    uint32_t *at = (uint32_t *)(void *)(w->scratch + (size_t)off * w->lanes);
    size_t n = (size_t)n_dwords * w->lanes;
    if (mask == w->exec_full) {
        memcpy(store ? at : r, store ? r : at, 4 * n);
        return true;
    }
    uint32_t *to = store ? at : r;
    const uint32_t *from = store ? r : at;
    for (size_t k = 0; k < n; k++) to[k] = mask >> k % w->lanes & 1 ? from[k] : to[k];
    return true;
}

/* Whole dwords of scratch at one offset for all lanes. */
static bool scratch_rows(sim_wave *w, const sim_uop *u, uint32_t *r, unsigned data, bool store) {
    unsigned n = sim_mem_bytes[data], i, first = 0;
    uint64_t mask = sim_mem_exec(w);
    if (n < 4 || !mask) return false;
    first = (unsigned)__builtin_ctzll(mask);
    if (sim_mem_has(&u->inst->addr)) {
        const uint32_t *v = SIM_ROW(w, u->s[0]);
        uint32_t differ = 0;
        SIM_EACH_LANE(i, mask) differ |= v[i] ^ v[first];
        if (differ) return false;
    }
    place p;
    return sim_mem_scratch_rows(w, (uint32_t)lane_addr(w, u, first, &p), r, n / 4, mask, store);
}

static const sim_uop *run_load(sim_wave *w, const sim_uop *u) {
    const sim_mem_row *row = u->core;
    if (u->inst->format == SIM_SCRATCH && scratch_rows(w, u, SIM_ROW(w, u->d), row->data, false)) return u + 1;
    sim_range *c = sim_mem_cache(w, u);
    uint32_t *d = SIM_ROW(w, u->d);
    unsigned i;
    SIM_EACH_LANE(i, sim_mem_exec(w)) {
        place p;
        uint64_t addr = lane_addr(w, u, i, &p);
        uint8_t buf[16];
        if (!lane_read(w, u, c, (int)i, p, addr, buf, sim_mem_bytes[row->data])) return NULL;
        sim_mem_to_rows(row->data, buf, d + i, w->lanes);
    }
    return u + 1;
}

static const sim_uop *run_store(sim_wave *w, const sim_uop *u) {
    const sim_mem_row *row = u->core;
    if (u->inst->format == SIM_SCRATCH && scratch_rows(w, u, SIM_ROW(w, u->s[2]), row->data, true)) return u + 1;
    sim_range *c = sim_mem_cache(w, u);
    const uint32_t *s = SIM_ROW(w, u->s[2]);
    unsigned i;
    SIM_EACH_LANE(i, sim_mem_exec(w)) {
        place p;
        uint64_t addr = lane_addr(w, u, i, &p);
        uint8_t buf[16];
        sim_mem_from_rows(row->data, buf, s + i, w->lanes);
        if (!lane_write(w, u, c, (int)i, p, addr, buf, sim_mem_bytes[row->data])) return NULL;
    }
    return u + 1;
}

const sim_uop *sim_mem_global_slow(sim_wave *w, const sim_uop *u) {
    return ((const sim_mem_row *)u->core)->op == SIM_MO_LOAD ? run_load(w, u) : run_store(w, u);
}

static const sim_uop *run_atomic(sim_wave *w, const sim_uop *u) {
    const sim_mem_row *row = u->core;
    sim_range *c = sim_mem_cache(w, u);
    const uint32_t *s = SIM_ROW(w, u->s[2]);
    uint32_t *d = SIM_ROW(w, u->d);
    unsigned n = sim_atomic_bytes(row->data), k = n / 4, L = w->lanes, i;
    uint32_t fp = 0;
    bool is_fp = sim_atomic_is_fp(row->data), ok = true;
    /* The memory units of gfx908 and gfx90a take f32 denormals as zero in additions. */
    if (is_fp) fp = sim_atomic_fp_begin(row->data == SIM_AT_FADD && (w->isa == SIM_GFX908 || w->isa == SIM_GFX90A));
    SIM_EACH_LANE(i, sim_mem_exec(w)) {
        place p;
        uint64_t addr = lane_addr(w, u, i, &p), data = s[i], data2 = 0, old;
        if (k == 2) data |= (uint64_t)s[L + i] << 32;
        if (sim_atomic_has_second(row->data)) {
            data2 = s[k * L + i];
            if (k == 2) data2 |= (uint64_t)s[3 * L + i] << 32;
        }
        if (addr & (n - 1)) {
            sim_wave_fault(w, u, SIM_FAULT_MISALIGNED, (int)i, addr, n, true, "an atomic needs its natural alignment");
            ok = false;
            break;
        }
        if (p == PRIVATE) {
            uint8_t buf[8];
            ok = sim_mem_scratch_read(w, u, (int)i, (uint32_t)addr, buf, n);
            if (!ok) break;
            old = sim_atomic_plain(row->data, buf, data, data2);
            (void)sim_mem_scratch_write(w, u, (int)i, (uint32_t)addr, buf, n);
        } else if (p == SHARED) {
            uint8_t *at = sim_mem_lds(w, u, (int)i, (uint32_t)addr, n, true);
            if (!at) { ok = false; break; }
            old = sim_atomic_plain(row->data, at, data, data2);
        } else {
            uint8_t *at = sim_mem_at(w, u, c, (int)i, addr, n, true);
            if (!at) { ok = false; break; }
            old = sim_atomic_host(row->data, at, data, data2);
        }
        if (u->flags) {
            d[i] = (uint32_t)old;
            if (k == 2) d[L + i] = (uint32_t)(old >> 32);
        }
    }
    if (is_fp) sim_atomic_fp_end(fp);
    return ok ? u + 1 : NULL;
}

/* M0 gives the base in LDS; each lane has a place by its number, whichever lanes are on. */
static const sim_uop *run_to_lds(sim_wave *w, const sim_uop *u) {
    const sim_mem_row *row = u->core;
    sim_range *c = sim_mem_cache(w, u);
    unsigned n = sim_mem_bytes[row->data], put = n < 4 ? 4 : n, i;
    uint32_t base = (w->s[SIM_S_M0] & (w->isa == SIM_GFX950 ? 0x3ffffu : 0xffffu)) + (uint32_t)u->inst->offset_imm;
    SIM_EACH_LANE(i, sim_mem_exec(w)) {
        place p;
        uint64_t addr = lane_addr(w, u, i, &p);
        uint8_t buf[16];
        if (!lane_read(w, u, c, (int)i, p, addr, buf, n)) return NULL;
        uint32_t x = sim_mem_extend(row->data, buf, 0);
        uint8_t *at = sim_mem_lds(w, u, (int)i, base + i * put, put, true);
        if (!at) return NULL;
        memcpy(at, n < 4 ? (const void *)&x : buf, put);
    }
    return u + 1;
}

static const sim_uop *run_addtid(sim_wave *w, const sim_uop *u) {
    const sim_mem_row *row = u->core;
    const sim_inst *inst = u->inst;
    sim_range *c = sim_mem_cache(w, u);
    uint64_t base = (uint64_t)(int64_t)inst->offset_imm + (sim_mem_has(&inst->saddr) ? sim_sread64(w, inst->saddr.reg) : 0);
    bool store = row->op == SIM_MO_ADDTID_STORE;
    uint32_t *r = SIM_ROW(w, store ? u->s[2] : u->d);
    unsigned i;
    SIM_EACH_LANE(i, sim_mem_exec(w)) {
        uint8_t *at = sim_mem_at(w, u, c, (int)i, base + 4 * i, 4, store);
        if (!at) return NULL;
        if (store) memcpy(at, r + i, 4);
        else memcpy(r + i, at, 4);
    }
    return u + 1;
}

/* Up to 32 registers, those that M0 names; memory has a place for each. */
static const sim_uop *run_block(sim_wave *w, const sim_uop *u) {
    const sim_mem_row *row = u->core;
    sim_range *c = sim_mem_cache(w, u);
    bool store = row->op == SIM_MO_BLOCK_STORE;
    uint32_t *r = SIM_ROW(w, store ? u->s[2] : u->d), m0 = w->s[SIM_S_M0];
    unsigned i;
    SIM_EACH_LANE(i, sim_mem_exec(w)) {
        place p;
        uint64_t addr = lane_addr(w, u, i, &p);
        for (unsigned k = 0; k < 32; k++) {
            if (!(m0 >> k & 1)) continue;
            uint32_t *x = r + k * w->lanes + i;
            if (store ? !lane_write(w, u, c, (int)i, p, addr + 4 * k, x, 4)
                      : !lane_read(w, u, c, (int)i, p, addr + 4 * k, x, 4))
                return NULL;
        }
    }
    return u + 1;
}

/* gfx12, wave32: 16-bit elements; eight lanes read eight of them each, and their square is transposed. */
static const sim_uop *run_transpose(sim_wave *w, const sim_uop *u) {
    sim_range *c = sim_mem_cache(w, u);
    uint64_t exec = sim_mem_exec(w);
    uint16_t in[SIM_MAX_LANES][8];
    uint32_t *d = SIM_ROW(w, u->d);
    unsigned i;
    memset(in, 0, sizeof in);
    SIM_EACH_LANE(i, exec) {
        place p;
        uint64_t addr = lane_addr(w, u, i, &p);
        if (!lane_read(w, u, c, (int)i, p, addr, in[i], 16)) return NULL;
    }
    SIM_EACH_LANE(i, exec)
        for (unsigned k = 0; k < 4; k++)
            d[k * w->lanes + i] = in[(i & ~7u) + 2 * k][i & 7] | (uint32_t)in[(i & ~7u) + 2 * k + 1][i & 7] << 16;
    return u + 1;
}

const sim_mem_fast *sim_mem_fast_host(void) {
#if defined(__x86_64__)
    int level = sim_host_level();
    if (level >= 2) return &sim_mem_fast_avx512;
    if (level == 1) return &sim_mem_fast_avx2;
#endif
    return &sim_mem_fast_generic;
}

static sim_bound bind_flat(sim_binder *b, const sim_inst *inst, const sim_mem_row *row, sim_uop *u) {
    bool returns = row->op == SIM_MO_ATOMIC && inst->dst.kind == SIM_K_VGPR;
    bool needs_data = row->op == SIM_MO_STORE || row->op == SIM_MO_ATOMIC || row->op == SIM_MO_ADDTID_STORE ||
                      row->op == SIM_MO_BLOCK_STORE;
    bool needs_dst = row->op == SIM_MO_LOAD || row->op == SIM_MO_ADDTID_LOAD || row->op == SIM_MO_BLOCK_LOAD ||
                     row->op == SIM_MO_TRANSPOSE;
    bool to_lds = row->op == SIM_MO_LOAD && inst->lds;
    if ((needs_data && inst->data.kind != SIM_K_VGPR) || (needs_dst && !to_lds && inst->dst.kind != SIM_K_VGPR))
        return SIM_BOUND_NO;
    if (sim_mem_has(&inst->addr) && inst->addr.kind != SIM_K_VGPR) return SIM_BOUND_NO;
    if (inst->dst.kind == SIM_K_VGPR) u->d = sim_bind_row(b, inst->dst.reg);
    if (inst->addr.kind == SIM_K_VGPR) u->s[0] = sim_bind_row(b, inst->addr.reg);
    if (inst->data.kind == SIM_K_VGPR) u->s[2] = sim_bind_row(b, inst->data.reg);
    u->s[1] = sim_mem_has(&inst->saddr) ? inst->saddr.reg : SIM_S_NULL;
    u->imm = (uint32_t)inst->offset_imm;
    u->flags = returns;
    switch (row->op) {
    case SIM_MO_LOAD: u->fn = to_lds ? run_to_lds : run_load; break;
    case SIM_MO_STORE: u->fn = run_store; break;
    case SIM_MO_ATOMIC: u->fn = run_atomic; break;
    case SIM_MO_TO_LDS: u->fn = run_to_lds; break;
    case SIM_MO_ADDTID_LOAD:
    case SIM_MO_ADDTID_STORE: u->fn = run_addtid; break;
    case SIM_MO_BLOCK_LOAD:
    case SIM_MO_BLOCK_STORE: u->fn = run_block; break;
    case SIM_MO_TRANSPOSE:
        if (sim_bind_lanes(b) != 32) return SIM_BOUND_NO; /* what wave64 gets is not known */
        u->fn = run_transpose;
        break;
    default: return SIM_BOUND_NO;
    }
    if (inst->format == SIM_GLOBAL && !to_lds && sim_mem_has(&inst->addr)) {
        const sim_mem_fast *fast = sim_mem_fast_host();
        sim_uop_fn *fn = row->op == SIM_MO_LOAD ? fast->global_load[row->data][sim_bind_lanes(b) == 64]
                         : row->op == SIM_MO_STORE ? fast->global_store[row->data] : NULL;
        if (fn) u->fn = fn;
    }
    return SIM_BOUND_UOP;
}

sim_bound sim_bind_memory(sim_binder *b, const sim_inst *inst, sim_uop *out_u) {
    if (inst->format == SIM_SMEM) return sim_bind_scalar_memory(b, inst, out_u);
    if (inst->format != SIM_FLAT && inst->format != SIM_GLOBAL && inst->format != SIM_SCRATCH && inst->format != SIM_MUBUF &&
        inst->format != SIM_MTBUF)
        return SIM_BOUND_NO;
    const sim_mem_row *row = sim_mem_row_find(inst->meaning, inst->format);
    if (!row) return SIM_BOUND_NO;
    if (row->op == SIM_MO_NOTHING) return SIM_BOUND_NOTHING;
    out_u->core = (void *)(uintptr_t)row;
    out_u->inst = inst;
    if (inst->format == SIM_MUBUF || inst->format == SIM_MTBUF) return sim_bind_buffer(b, inst, row, out_u);
    return bind_flat(b, inst, row, out_u);
}

bool sim_meaning_at_memory(size_t i, sim_meaning *out) {
#define NAMED(p, bit, name) {(p) & (bit) ? name : NULL, SIM_EXACT, NULL}
    static const sim_meaning all[] = {
#define SIM_MEM(p, s, o, d)                                                                                                    \
    NAMED(p, SIM_MP_FLAT, "FLAT_" #s), NAMED(p, SIM_MP_GLOBAL, "GLOBAL_" #s), NAMED(p, SIM_MP_SCRATCH, "SCRATCH_" #s),         \
        NAMED(p, SIM_MP_BUFFER, "BUFFER_" #s), NAMED(p, SIM_MP_TBUFFER, "TBUFFER_" #s),
#include "isa/memory.def"
#undef SIM_MEM
        {"GLOBAL_LOAD_TR_B128", SIM_EXACT, NULL},
    };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (all[k].name && i-- == 0) {
            *out = all[k];
            return true;
        }
    return sim_meaning_at_scalar_memory(i, out);
}
