/* MUBUF and MTBUF: addresses through a resource descriptor. Out of range means what the descriptor's rules say (reads give
 * 0, writes are dropped); an address that the rules admit must lie in an allocation, or in the wave's scratch when the
 * descriptor is the one that a launch set up for it. */
#include "isa/memory.h"
#include "isa/memory_format.h"

typedef struct resource {
    uint64_t base;
    uint32_t stride, n_records, soffset;
    unsigned index_stride, element_size;
    bool swizzle, add_tid, idxen;
    uint8_t oob;       /* gfx10 and later: how the range is checked */
    uint8_t sel[4];    /* what each component of a typed access is */
    sim_typed typed;
} resource;

static resource resource_of(const sim_wave *w, const sim_inst *inst) {
    uint32_t r[4];
    for (unsigned k = 0; k < 4; k++) r[k] = sim_sread(w, inst->base.reg + k);
    resource d = {.base = r[0] | (uint64_t)(r[1] & 0xffff) << 32, .stride = r[1] >> 16 & 0x3fff, .n_records = r[2]};
    bool gcn = SIM_BIT(w->isa) & SIM_GCN;
    d.add_tid = r[3] >> 23 & 1;
    d.index_stride = 8u << (r[3] >> 21 & 3);
    d.element_size = 4;
    d.swizzle = r[1] >> 31;
    for (unsigned k = 0; k < 4; k++) d.sel[k] = r[3] >> 3 * k & 7;
    if (gcn) {
        if (d.add_tid) d.stride |= (r[3] >> 15 & 15) << 14;
        d.typed = sim_typed_of(w->isa, (r[3] >> 15 & 15) | (r[3] >> 12 & 7) << 4);
    } else {
        d.oob = r[3] >> 28 & 3;
        d.typed = sim_typed_of(w->isa, w->isa == SIM_GFX1030 ? r[3] >> 12 & 0x7f : r[3] >> 12 & 0x3f);
        if (w->isa != SIM_GFX1030) {
            d.swizzle = r[1] >> 30 != 0;
            d.element_size = r[1] >> 30 == 3 ? 16 : r[1] >> 30 == 2 ? 8 : 4;
        }
    }
    if (inst->format == SIM_MTBUF) d.typed = sim_typed_of(w->isa, inst->buf_format);
    d.soffset = sim_mem_scalar(w, &inst->soffset);
    d.idxen = inst->idxen;
    return d;
}

typedef struct lane_index {
    uint32_t index, offset;
} lane_index;

static lane_index index_of(const sim_wave *w, const sim_uop *u, const resource *d, unsigned lane) {
    const sim_inst *inst = u->inst;
    const uint32_t *v = SIM_ROW(w, u->s[0]) + lane;
    lane_index x = {0, (uint32_t)inst->offset_imm};
    if (inst->idxen) {
        x.index = *v;
        if (inst->offen) x.offset += v[w->lanes];
    } else if (inst->offen) {
        x.offset += *v;
    }
    if (d->add_tid) x.index += lane;
    return x;
}

/* Is a piece of n bytes, `at` bytes into an access of `total`, inside the range? */
static bool in_range(const sim_wave *w, const resource *d, lane_index x, uint32_t at, uint32_t n, uint32_t total) {
    uint64_t raw = (uint64_t)x.index * d->stride + x.offset + at + d->soffset;
    if (SIM_BIT(w->isa) & SIM_GCN) {
        if (d->stride == 0 || !(d->idxen || d->add_tid)) return raw + n <= d->n_records;
        return x.index < d->n_records;
    }
    switch (d->oob) {
    case 0: return x.index < d->n_records && (uint64_t)x.offset + total <= d->stride;
    case 1: return x.index < d->n_records;
    case 2: return d->n_records != 0;
    default:
        if (d->swizzle && d->stride) return x.index < d->n_records;
        return raw + n <= d->n_records;
    }
}

static uint64_t address_of(const resource *d, lane_index x, uint32_t at) {
    uint32_t off = x.offset + at;
    if (!d->swizzle) return d->base + d->soffset + (uint64_t)x.index * d->stride + off;
    uint64_t hi = x.index / d->index_stride, lo = x.index % d->index_stride;
    return d->base + d->soffset +
           (hi * d->stride + off / d->element_size * d->element_size) * d->index_stride + lo * d->element_size +
           off % d->element_size;
}

static uint8_t *host_of(sim_wave *w, const sim_uop *u, sim_range *c, int lane, uint64_t addr, uint32_t n, bool store) {
    uint64_t scratch = (uint64_t)(uintptr_t)w->scratch, bytes = (uint64_t)w->lanes * w->scratch_lane_bytes;
    if (w->scratch && addr - scratch < bytes) {
        if (n <= bytes - (addr - scratch)) return w->scratch + (addr - scratch);
        sim_wave_fault(w, u, SIM_FAULT_SCRATCH, lane, addr - scratch, n, store, NULL);
        return NULL;
    }
    return sim_mem_at(w, u, c, lane, addr, n, store);
}

/* A swizzled range that begins at the wave's scratch holds nothing else: past its end is a fault of scratch's. */
static bool scratch_overrun(sim_wave *w, const sim_uop *u, const resource *d, int lane, uint64_t addr, uint32_t n, bool store) {
    if (!w->scratch || !d->swizzle || d->base != (uint64_t)(uintptr_t)w->scratch) return false;
    uint64_t bytes = (uint64_t)w->lanes * w->scratch_lane_bytes;
    if (addr - d->base <= bytes && n <= bytes - (addr - d->base)) return false;
    sim_wave_fault(w, u, SIM_FAULT_SCRATCH, lane, addr - d->base, n, store, NULL);
    return true;
}

/* Moves n bytes between buf and memory, in pieces that the swizzle and the range check see as one. False: a fault. */
static bool move(sim_wave *w, const sim_uop *u, sim_range *c, const resource *d, int lane, lane_index x, uint8_t *buf,
                 uint32_t total, bool store) {
    for (uint32_t at = 0; at < total;) {
        uint32_t n = total - at;
        if (n > 4) n = 4;
        /* An unaligned dword of a swizzled buffer falls apart at its elements. */
        uint32_t left = d->swizzle ? d->element_size - (x.offset + at) % d->element_size : n;
        if (n > left) n = left;
        if (in_range(w, d, x, at, n, total)) {
            uint64_t addr = address_of(d, x, at);
            if (scratch_overrun(w, u, d, lane, addr, n, store)) return false;
            uint8_t *p = host_of(w, u, c, lane, addr, n, store);
            if (!p) return false;
            if (store) memcpy(p, buf + at, n);
            else memcpy(buf + at, p, n);
        } else if (!store) {
            memset(buf + at, 0, n);
        }
        at += n;
    }
    return true;
}

/* The launch's own scratch resource with one offset for all lanes. */
static bool scratch_rows(const sim_wave *w, const sim_uop *u, const resource *d, uint32_t *r, unsigned data, bool store) {
    unsigned n = sim_mem_bytes[data], i;
    uint64_t mask = sim_mem_exec(w);
    if (n < 4 || !mask || d->base != (uint64_t)(uintptr_t)w->scratch || !d->swizzle || !d->add_tid || d->stride || d->idxen ||
        d->index_stride != w->lanes || d->element_size != 4 || d->soffset % (4u * w->lanes) || d->n_records != 0xffffffffu)
        return false;
    uint32_t off = (uint32_t)u->inst->offset_imm;
    if (u->inst->offen) {
        const uint32_t *v = SIM_ROW(w, u->s[0]), first = v[__builtin_ctzll(mask)];
        uint32_t differ = 0;
        SIM_EACH_LANE(i, mask) differ |= v[i] ^ first;
        if (differ) return false;
        off += first;
    }
    return sim_mem_scratch_rows(w, off + d->soffset / w->lanes, r, n / 4, mask, store);
}

static const sim_uop *run_load(sim_wave *w, const sim_uop *u) {
    const sim_mem_row *row = u->core;
    sim_range *c = sim_mem_cache(w, u);
    resource d = resource_of(w, u->inst);
    unsigned i;
    if (scratch_rows(w, u, &d, SIM_ROW(w, u->d), row->data, false)) return u + 1;
    SIM_EACH_LANE(i, sim_mem_exec(w)) {
        uint8_t buf[16];
        if (!move(w, u, c, &d, (int)i, index_of(w, u, &d, i), buf, sim_mem_bytes[row->data], false)) return NULL;
        sim_mem_to_rows(row->data, buf, SIM_ROW(w, u->d) + i, w->lanes);
    }
    return u + 1;
}
static const sim_uop *run_store(sim_wave *w, const sim_uop *u) {
    const sim_mem_row *row = u->core;
    sim_range *c = sim_mem_cache(w, u);
    resource d = resource_of(w, u->inst);
    unsigned i;
    if (scratch_rows(w, u, &d, SIM_ROW(w, u->s[2]), row->data, true)) return u + 1;
    SIM_EACH_LANE(i, sim_mem_exec(w)) {
        uint8_t buf[16];
        sim_mem_from_rows(row->data, buf, SIM_ROW(w, u->s[2]) + i, w->lanes);
        if (!move(w, u, c, &d, (int)i, index_of(w, u, &d, i), buf, sim_mem_bytes[row->data], true)) return NULL;
    }
    return u + 1;
}

static const sim_uop *run_to_lds(sim_wave *w, const sim_uop *u) {
    const sim_mem_row *row = u->core;
    sim_range *c = sim_mem_cache(w, u);
    resource d = resource_of(w, u->inst);
    unsigned n = sim_mem_bytes[row->data], put = n < 4 ? 4 : n, i;
    uint32_t base = (w->s[SIM_S_M0] & (w->isa == SIM_GFX950 ? 0x3ffffu : 0xffffu)) + (uint32_t)u->inst->offset_imm;
    SIM_EACH_LANE(i, sim_mem_exec(w)) {
        uint8_t buf[16];
        if (!move(w, u, c, &d, (int)i, index_of(w, u, &d, i), buf, n, false)) return NULL;
        uint32_t x = sim_mem_extend(row->data, buf, 0);
        uint8_t *at = sim_mem_lds(w, u, (int)i, base + i * put, put, true);
        if (!at) return NULL;
        memcpy(at, n < 4 ? (const void *)&x : buf, put);
    }
    return u + 1;
}

static const sim_uop *run_atomic(sim_wave *w, const sim_uop *u) {
    const sim_mem_row *row = u->core;
    sim_range *c = sim_mem_cache(w, u);
    resource r = resource_of(w, u->inst);
    const uint32_t *s = SIM_ROW(w, u->s[2]);
    uint32_t *d = SIM_ROW(w, u->d), fp = 0;
    unsigned n = sim_atomic_bytes(row->data), k = n / 4, L = w->lanes, i;
    bool is_fp = sim_atomic_is_fp(row->data), ok = true;
    if (is_fp) fp = sim_atomic_fp_begin(row->data == SIM_AT_FADD && (w->isa == SIM_GFX908 || w->isa == SIM_GFX90A));
    SIM_EACH_LANE(i, sim_mem_exec(w)) {
        lane_index x = index_of(w, u, &r, i);
        uint64_t old = 0, data = s[i], data2 = 0;
        if (k == 2) data |= (uint64_t)s[L + i] << 32;
        if (sim_atomic_has_second(row->data)) {
            data2 = s[k * L + i];
            if (k == 2) data2 |= (uint64_t)s[3 * L + i] << 32;
        }
        if (in_range(w, &r, x, 0, n, n)) {
            uint64_t addr = address_of(&r, x, 0);
            if (addr & (n - 1)) {
                sim_wave_fault(w, u, SIM_FAULT_MISALIGNED, (int)i, addr, n, true, "an atomic needs its natural alignment");
                ok = false;
                break;
            }
            uint8_t *p = host_of(w, u, c, (int)i, addr, n, true);
            if (!p) { ok = false; break; }
            old = sim_atomic_host(row->data, p, data, data2);
        }
        if (u->flags) {
            d[i] = (uint32_t)old;
            if (k == 2) d[L + i] = (uint32_t)(old >> 32);
        }
    }
    if (is_fp) sim_atomic_fp_end(fp);
    return ok ? u + 1 : NULL;
}

static const sim_uop *run_format(sim_wave *w, const sim_uop *u) {
    const sim_mem_row *row = u->core;
    sim_range *c = sim_mem_cache(w, u);
    resource d = resource_of(w, u->inst);
    bool store = row->op == SIM_MO_FORMAT_STORE, d16 = row->data & 8, hi = row->data & 16;
    unsigned n = row->data & 7, bytes = sim_typed_bytes(d.typed), L = w->lanes, i;
    uint32_t *reg = SIM_ROW(w, store ? u->s[2] : u->d);
    if (!bytes)
        return sim_wave_fault(w, u, SIM_FAULT_ILLEGAL, -1, d.base, 0, store, "a typed access to a buffer without a format");
    SIM_EACH_LANE(i, sim_mem_exec(w)) {
        lane_index x = index_of(w, u, &d, i);
        uint8_t buf[16] = {0};
        uint32_t v[4] = {0}, out[4];
        if (store) {
            for (unsigned k = 0; k < n; k++)
                v[k] = d16 ? sim_typed_from16(d.typed, (uint16_t)(reg[k / 2 * L + i] >> (hi ? 16 : 16 * (k & 1))))
                           : reg[k * L + i];
            sim_typed_write(d.typed, buf, v);
            if (in_range(w, &d, x, 0, bytes, bytes) && !move(w, u, c, &d, (int)i, x, buf, bytes, true)) return NULL;
            continue;
        }
        bool in = in_range(w, &d, x, 0, bytes, bytes);
        if (in && !move(w, u, c, &d, (int)i, x, buf, bytes, false)) return NULL;
        if (in) sim_typed_read(d.typed, buf, v);
        uint32_t one = sim_typed_is_int(d.typed) ? 1 : 0x3f800000u;
        for (unsigned k = 0; k < 4; k++) out[k] = d.sel[k] == 0 ? 0 : d.sel[k] == 1 ? one : d.sel[k] >= 4 ? v[d.sel[k] - 4] : 0;
        for (unsigned k = 0; k < n; k++) {
            if (!d16) { reg[k * L + i] = out[k]; continue; }
            uint32_t h = sim_typed_to16(d.typed, out[k]), *q = &reg[k / 2 * L + i];
            *q = hi || k & 1 ? (*q & 0xffffu) | h << 16 : (*q & 0xffff0000u) | h;
        }
    }
    return u + 1;
}

sim_bound sim_bind_buffer(sim_binder *b, const sim_inst *inst, const sim_mem_row *row, sim_uop *u) {
    if (inst->tfe || inst->base.kind != SIM_K_SGPR || inst->base.reg + 4 > 128) return SIM_BOUND_NO;
    if ((inst->offen || inst->idxen) && inst->addr.kind != SIM_K_VGPR) return SIM_BOUND_NO;
    /* One field of the encoding is data and destination; the decoder may name it either. */
    const sim_operand *data = inst->data.kind == SIM_K_VGPR ? &inst->data : &inst->dst;
    const sim_operand *dst = inst->dst.kind == SIM_K_VGPR ? &inst->dst : &inst->data;
    bool to_lds = row->op == SIM_MO_TO_LDS || (inst->lds && row->op == SIM_MO_LOAD);
    if (!to_lds && data->kind != SIM_K_VGPR) return SIM_BOUND_NO;
    if (inst->lds && !to_lds) return SIM_BOUND_NO;
    if (inst->addr.kind == SIM_K_VGPR) u->s[0] = sim_bind_row(b, inst->addr.reg);
    if (data->kind == SIM_K_VGPR) {
        u->s[2] = sim_bind_row(b, data->reg);
        u->d = sim_bind_row(b, dst->reg);
    }
    u->flags = row->op == SIM_MO_ATOMIC && inst->dst.kind == SIM_K_VGPR;
    switch (row->op) {
    case SIM_MO_LOAD: u->fn = to_lds ? run_to_lds : run_load; break;
    case SIM_MO_STORE: u->fn = run_store; break;
    case SIM_MO_ATOMIC: u->fn = run_atomic; break;
    case SIM_MO_TO_LDS: u->fn = run_to_lds; break;
    case SIM_MO_FORMAT_LOAD:
    case SIM_MO_FORMAT_STORE: u->fn = run_format; break;
    default: return SIM_BOUND_NO;
    }
    return SIM_BOUND_UOP;
}
