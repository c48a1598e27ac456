/* DS: LDS of the workgroup, whose waves run one at a time in one thread, so that its atomics are plain. Unaligned accesses
 * are allowed, as in the mode that HIP sets; atomics need their natural alignment. */
#include "isa/lds.h"

#include <stddef.h>

static const sim_lds_row rows[] = {
#define SIM_DS(n, o, d) {"DS_" #n, SIM_LO_##o, d},
#include "isa/lds.def"
#undef SIM_DS
};
#define N_ROWS (sizeof rows / sizeof *rows)

static const sim_uop *run_load(sim_wave *w, const sim_uop *u) {
    const sim_lds_row *row = u->core;
    const uint32_t *v = SIM_ROW(w, u->s[0]);
    uint32_t *d = SIM_ROW(w, u->d);
    unsigned i;
    SIM_EACH_LANE(i, sim_mem_exec(w)) {
        const uint8_t *p = sim_mem_lds(w, u, (int)i, v[i] + u->imm, sim_mem_bytes[row->data], false);
        if (!p) return NULL;
        sim_mem_to_rows(row->data, p, d + i, w->lanes);
    }
    return u + 1;
}
static const sim_uop *run_store(sim_wave *w, const sim_uop *u) {
    const sim_lds_row *row = u->core;
    const uint32_t *v = SIM_ROW(w, u->s[0]), *s = SIM_ROW(w, u->s[2]);
    unsigned i;
    SIM_EACH_LANE(i, sim_mem_exec(w)) {
        uint8_t *p = sim_mem_lds(w, u, (int)i, v[i] + u->imm, sim_mem_bytes[row->data], true);
        if (!p) return NULL;
        sim_mem_from_rows(row->data, p, s + i, w->lanes);
    }
    return u + 1;
}
const sim_uop *sim_lds_slow(sim_wave *w, const sim_uop *u) {
    return ((const sim_lds_row *)u->core)->op == SIM_LO_LOAD ? run_load(w, u) : run_store(w, u);
}

/* Two places, from one address and two offsets in units of the element (or of 64 of them). u->imm: both, in bytes / 4. */
static const sim_uop *run_load2(sim_wave *w, const sim_uop *u) {
    const sim_lds_row *row = u->core;
    const uint32_t *v = SIM_ROW(w, u->s[0]);
    unsigned n = sim_mem_bytes[row->data], L = w->lanes, i;
    uint32_t *d = SIM_ROW(w, u->d), a = (u->imm & 0xffff) * 4, b = (u->imm >> 16) * 4;
    SIM_EACH_LANE(i, sim_mem_exec(w)) {
        const uint8_t *p = sim_mem_lds(w, u, (int)i, v[i] + a, n, false);
        const uint8_t *q = p ? sim_mem_lds(w, u, (int)i, v[i] + b, n, false) : NULL;
        if (!q) return NULL; /* both are found before a result may overwrite the address */
        sim_mem_to_rows(row->data, p, d + i, L);
        sim_mem_to_rows(row->data, q, d + n / 4 * L + i, L);
    }
    return u + 1;
}
static const sim_uop *run_store2(sim_wave *w, const sim_uop *u) {
    const sim_lds_row *row = u->core;
    const uint32_t *v = SIM_ROW(w, u->s[0]), *s = SIM_ROW(w, u->s[2]), *t = SIM_ROW(w, u->s[1]);
    unsigned n = sim_mem_bytes[row->data], L = w->lanes, i;
    uint32_t a = (u->imm & 0xffff) * 4, b = (u->imm >> 16) * 4;
    SIM_EACH_LANE(i, sim_mem_exec(w)) {
        uint8_t *p = sim_mem_lds(w, u, (int)i, v[i] + a, n, true);
        uint8_t *q = p ? sim_mem_lds(w, u, (int)i, v[i] + b, n, true) : NULL;
        if (!q) return NULL;
        sim_mem_from_rows(row->data, p, s + i, L);
        sim_mem_from_rows(row->data, q, t + i, L);
    }
    return u + 1;
}
const sim_uop *sim_lds_slow2(sim_wave *w, const sim_uop *u) {
    unsigned op = ((const sim_lds_row *)u->core)->op;
    return op == SIM_LO_LOAD2 || op == SIM_LO_LOAD2_ST64 ? run_load2(w, u) : run_store2(w, u);
}
static const sim_uop *run_swap2(sim_wave *w, const sim_uop *u) {
    const sim_lds_row *row = u->core;
    const uint32_t *v = SIM_ROW(w, u->s[0]), *s = SIM_ROW(w, u->s[2]), *t = SIM_ROW(w, u->s[1]);
    unsigned n = sim_mem_bytes[row->data], L = w->lanes, i;
    uint32_t *d = SIM_ROW(w, u->d), a = (u->imm & 0xffff) * 4, b = (u->imm >> 16) * 4;
    SIM_EACH_LANE(i, sim_mem_exec(w)) {
        uint32_t x = v[i] + a, y = v[i] + b;
        if ((x | y) & (n - 1))
            return sim_wave_fault(w, u, SIM_FAULT_MISALIGNED, (int)i, x & (n - 1) ? x : y, n, true,
                                  "an atomic needs its natural alignment");
        uint8_t *p = sim_mem_lds(w, u, (int)i, x, n, true), *q = p ? sim_mem_lds(w, u, (int)i, y, n, true) : NULL;
        if (!q) return NULL;
        uint8_t old[16], now[16];
        memcpy(old, p, n);
        memcpy(old + n, q, n);
        sim_mem_from_rows(row->data, now, s + i, L);
        sim_mem_from_rows(row->data, now + n, t + i, L);
        memcpy(p, now, n);
        memcpy(q, now + n, n);
        sim_mem_to_rows(row->data, old, d + i, L);
        sim_mem_to_rows(row->data, old + n, d + n / 4 * L + i, L);
    }
    return u + 1;
}

static const sim_uop *run_atomic(sim_wave *w, const sim_uop *u) {
    const sim_lds_row *row = u->core;
    const uint32_t *v = SIM_ROW(w, u->s[0]), *s = SIM_ROW(w, u->s[2]), *t = SIM_ROW(w, u->s[1]);
    uint32_t *d = SIM_ROW(w, u->d), fp = 0;
    unsigned n = sim_atomic_bytes(row->data), L = w->lanes, i;
    bool is_fp = sim_atomic_is_fp(row->data), ok = true;
    if (is_fp) fp = sim_atomic_fp_begin(!(row->data & SIM_AT_64) && (w->mode >> 4 & 3) != 3);
    SIM_EACH_LANE(i, sim_mem_exec(w)) {
        uint32_t addr = v[i] + u->imm;
        if (addr & (n - 1)) {
            sim_wave_fault(w, u, SIM_FAULT_MISALIGNED, (int)i, addr, n, true, "an atomic needs its natural alignment");
            ok = false;
            break;
        }
        uint8_t *p = sim_mem_lds(w, u, (int)i, addr, n, true);
        if (!p) { ok = false; break; }
        uint64_t a = s[i], b = t[i];
        if (n == 8) {
            a |= (uint64_t)s[L + i] << 32;
            b |= sim_atomic_has_second(row->data) ? (uint64_t)t[L + i] << 32 : 0;
        }
        uint64_t old = row->op == SIM_LO_CMPST ? sim_atomic_plain(row->data, p, b, a) : sim_atomic_plain(row->data, p, a, b);
        if (u->flags) {
            d[i] = (uint32_t)old;
            if (n == 8) d[L + i] = (uint32_t)(old >> 32);
        }
    }
    if (is_fp) sim_atomic_fp_end(fp);
    return ok ? u + 1 : NULL;
}

static const sim_uop *run_condxchg(sim_wave *w, const sim_uop *u) {
    const uint32_t *v = SIM_ROW(w, u->s[0]), *s = SIM_ROW(w, u->s[2]);
    uint32_t *d = SIM_ROW(w, u->d);
    unsigned i;
    SIM_EACH_LANE(i, sim_mem_exec(w)) {
        uint8_t *p = sim_mem_lds(w, u, (int)i, (v[i] + u->imm) & 0xfff8u, 8, true);
        if (!p) return NULL;
        for (unsigned k = 0; k < 2; k++) {
            uint32_t old, x = s[k * w->lanes + i];
            memcpy(&old, p + 4 * k, 4);
            d[k * w->lanes + i] = old;
            x &= 0x7fffffffu;
            if (s[k * w->lanes + i] >> 31) memcpy(p + 4 * k, &x, 4);
        }
    }
    return u + 1;
}

static const sim_uop *run_addtid(sim_wave *w, const sim_uop *u) {
    bool store = ((const sim_lds_row *)u->core)->op == SIM_LO_ADDTID_STORE;
    uint32_t *r = SIM_ROW(w, store ? u->s[2] : u->d), base = ((u->imm & 0xffff) + (w->s[SIM_S_M0] & 0xffff)) & 0xffff;
    unsigned i;
    SIM_EACH_LANE(i, sim_mem_exec(w)) {
        uint8_t *p = sim_mem_lds(w, u, (int)i, base + 4 * i, 4, store);
        if (!p) return NULL;
        if (store) memcpy(p, r + i, 4);
        else memcpy(r + i, p, 4);
    }
    return u + 1;
}

/* A counter in LDS moves by the number of lanes that are on; all of them get its old value. */
static const sim_uop *run_append(sim_wave *w, const sim_uop *u) {
    uint64_t exec = sim_mem_exec(w);
    uint32_t *d = SIM_ROW(w, u->d), old, now, n = (uint32_t)__builtin_popcountll(exec);
    uint32_t addr = (w->isa >= SIM_GFX1200 ? 0 : w->s[SIM_S_M0] >> 16) + u->imm;
    unsigned i;
    if (!exec) return u + 1;
    uint8_t *p = sim_mem_lds(w, u, -1, addr, 4, true);
    if (!p) return NULL;
    memcpy(&old, p, 4);
    now = ((const sim_lds_row *)u->core)->op == SIM_LO_APPEND ? old + n : old - n;
    memcpy(p, &now, 4);
    SIM_EACH_LANE(i, exec) d[i] = old;
    return u + 1;
}

static sim_uop_fn *const fns[] = {
    [SIM_LO_LOAD] = run_load, [SIM_LO_STORE] = run_store, [SIM_LO_LOAD2] = run_load2, [SIM_LO_LOAD2_ST64] = run_load2,
    [SIM_LO_STORE2] = run_store2, [SIM_LO_STORE2_ST64] = run_store2, [SIM_LO_SWAP2] = run_swap2,
    [SIM_LO_SWAP2_ST64] = run_swap2, [SIM_LO_ADDTID_LOAD] = run_addtid, [SIM_LO_ADDTID_STORE] = run_addtid,
    [SIM_LO_ATOMIC] = run_atomic, [SIM_LO_CMPST] = run_atomic, [SIM_LO_CONDXCHG] = run_condxchg,
    [SIM_LO_SWIZZLE] = sim_lds_swizzle, [SIM_LO_PERMUTE] = sim_lds_permute, [SIM_LO_BPERMUTE] = sim_lds_bpermute,
    [SIM_LO_BPERMUTE_FI] = sim_lds_bpermute, [SIM_LO_APPEND] = run_append, [SIM_LO_CONSUME] = run_append,
    [SIM_LO_NOTHING] = NULL, [SIM_LO_TRANSPOSE] = sim_lds_transpose,
};

sim_bound sim_bind_lds(sim_binder *b, const sim_inst *inst, sim_uop *u) {
    if (inst->format != SIM_DS || inst->gds) return SIM_BOUND_NO;
    const sim_lds_row *row = NULL;
    for (size_t i = 0; i < N_ROWS && !row; i++)
        if (!strcmp(rows[i].name, inst->meaning)) row = &rows[i];
    if (!row) return SIM_BOUND_NO;
    if (row->op == SIM_LO_NOTHING) return SIM_BOUND_NOTHING;
    u->inst = inst;
    u->core = (void *)(uintptr_t)row;
    u->fn = fns[row->op];
    u->flags = inst->dst.kind == SIM_K_VGPR;
    if (inst->dst.kind == SIM_K_VGPR) u->d = sim_bind_row(b, inst->dst.reg);
    if (inst->addr.kind == SIM_K_VGPR) u->s[0] = sim_bind_row(b, inst->addr.reg);
    if (inst->data1.kind == SIM_K_VGPR) u->s[1] = sim_bind_row(b, inst->data1.reg);
    if (inst->data.kind == SIM_K_VGPR) u->s[2] = sim_bind_row(b, inst->data.reg);
    bool two = false, st64 = false;
    switch (row->op) {
    case SIM_LO_LOAD2_ST64:
    case SIM_LO_STORE2_ST64:
    case SIM_LO_SWAP2_ST64: st64 = true; /* fall through */
    case SIM_LO_LOAD2:
    case SIM_LO_STORE2:
    case SIM_LO_SWAP2: two = true; break;
    default: break;
    }
    /* Two 8-bit offsets, or one of 16 bits: the decoder gives either the whole or its lower byte with offset1 beside. */
    uint32_t off0 = (uint32_t)inst->offset_imm & 0xff, off1 = inst->offset1;
    if (two) {
        uint32_t unit = (row->data == SIM_MD_64 ? 2u : 1u) * (st64 ? 64u : 1u);
        u->imm = off0 * unit | off1 * unit << 16;
    } else {
        u->imm = (uint32_t)inst->offset_imm > 0xff ? (uint32_t)inst->offset_imm : off0 | off1 << 8;
    }
    const sim_mem_fast *fast = sim_mem_fast_host();
    sim_uop_fn *fn = NULL;
    switch (row->op) {
    case SIM_LO_LOAD: fn = fast->lds_load[row->data]; break;
    case SIM_LO_STORE: fn = fast->lds_store[row->data]; break;
    case SIM_LO_LOAD2:
    case SIM_LO_LOAD2_ST64: fn = fast->lds_load2[row->data]; break;
    case SIM_LO_STORE2:
    case SIM_LO_STORE2_ST64: fn = fast->lds_store2[row->data]; break;
    case SIM_LO_BPERMUTE:
    case SIM_LO_BPERMUTE_FI: fn = fast->bpermute; break;
    default: break;
    }
    if (fn) u->fn = fn;
    return SIM_BOUND_UOP;
}

bool sim_meaning_at_lds(size_t i, sim_meaning *out) {
    static const sim_meaning all[] = {
#define SIM_DS(n, o, d) {"DS_" #n, SIM_EXACT, NULL},
#include "isa/lds.def"
#undef SIM_DS
    };
    if (i >= sizeof all / sizeof *all) return false;
    *out = all[i];
    return true;
}
