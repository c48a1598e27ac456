#include "exec/access.h"

#include <string.h>

static uint32_t scalar_of(const sim_wave *w, const sim_operand *o) {
    return o->kind == SIM_K_SGPR ? sim_sread(w, o->reg) : o->kind == SIM_K_CONST ? (uint32_t)o->value : 0;
}
static bool has(const sim_operand *o) {
    return o->kind != SIM_K_NONE && !(o->kind == SIM_K_SGPR && o->reg == SIM_S_NULL);
}
static uint32_t lane_of(const sim_wave *w, const sim_operand *o, unsigned k, unsigned lane) {
    return o->kind == SIM_K_VGPR ? w->v[(size_t)(o->reg + k) * w->lanes + lane] : 0;
}

static uint8_t space_of(uint64_t addr) {
    if (addr >> 32 == SIM_SHARED_BASE >> 32) return SIM_ACCESS_LDS;
    if (addr >> 32 == SIM_PRIVATE_BASE >> 32) return SIM_ACCESS_SCRATCH;
    return SIM_ACCESS_GLOBAL;
}

/* Bytes that a lane moves, from the name's last part: _B128, _U8, _DWORDX4, ... before what says which half of a register. */
static uint32_t bytes_of(const char *m, const sim_operand *data) {
    static const struct {
        const char *suffix;
        uint32_t bytes;
    } names[] = {{"B128", 16}, {"B96", 12}, {"B64", 8}, {"B32", 4}, {"DWORDX4", 16}, {"DWORDX3", 12}, {"DWORDX2", 8},
                 {"DWORD", 4}, {"BYTE", 1}, {"SHORT", 2}, {"_B16", 2}, {"_U16", 2}, {"_I16", 2}, {"_B8", 1}, {"_U8", 1},
                 {"_I8", 1}};
    static const char *const halves[] = {"_D16_HI", "_D16", "_ADDTID"};
    size_t l = strlen(m);
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
        size_t n = strlen(halves[i]);
        if (l > n && !memcmp(m + l - n, halves[i], n)) {
            l -= n;
            break;
        }
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i].suffix);
        if (l >= n && !memcmp(m + l - n, names[i].suffix, n)) return names[i].bytes;
    }
    return data->n_dwords ? data->n_dwords * 4u : 4;
}

bool sim_access_coherent(const sim_inst *i) {
    if (i->is_atomic) return true;
    if (SIM_BIT(i->isa) & (SIM_BIT(SIM_GFX942) | SIM_BIT(SIM_GFX950))) return i->scc_bit || i->glc; /* sc1, sc0 */
    return i->glc || i->scc_bit || i->scope >= 1;
}

static bool access_flat(const sim_wave *w, const sim_inst *i, sim_access *a) {
    const bool saddr = has(&i->saddr);
    const uint32_t each = strstr(i->meaning, "ADDTID") ? 4 : 0;
    uint64_t base = 0;
    if (saddr) base = i->format == SIM_SCRATCH ? sim_sread(w, i->saddr.reg) : sim_sread64(w, i->saddr.reg);
    for (unsigned l = 0; l < w->lanes; l++) {
        if (!(a->mask >> l & 1)) continue;
        uint64_t v = lane_of(w, &i->addr, 0, l);
        if (i->format != SIM_SCRATCH && !saddr) v |= (uint64_t)lane_of(w, &i->addr, 1, l) << 32;
        uint64_t addr = base + v + (uint64_t)(int64_t)i->offset_imm + (uint64_t)each * l;
        if (i->format == SIM_SCRATCH) {
            a->space[l] = SIM_ACCESS_SCRATCH;
            a->addr[l] = (uint32_t)addr;
        } else {
            a->space[l] = i->format == SIM_GLOBAL ? SIM_ACCESS_GLOBAL : space_of(addr);
            a->addr[l] = a->space[l] == SIM_ACCESS_GLOBAL ? addr : (uint32_t)addr;
        }
    }
    return true;
}

/* Buffers by their plain parts; swizzled ones are scratch's and come out as such. */
static bool access_buffer(const sim_wave *w, const sim_inst *i, sim_access *a) {
    if (i->base.kind != SIM_K_SGPR) return false;
    uint32_t r[4];
    for (unsigned k = 0; k < 4; k++) r[k] = sim_sread(w, i->base.reg + k);
    uint64_t base = r[0] | (uint64_t)(r[1] & 0xffff) << 32;
    bool swizzled = r[1] >> 31;
    uint32_t stride = r[1] >> 16 & 0x3fff;
    for (unsigned l = 0; l < w->lanes; l++) {
        if (!(a->mask >> l & 1)) continue;
        uint32_t index = i->idxen ? lane_of(w, &i->addr, 0, l) : 0;
        uint32_t off = (i->offen ? lane_of(w, &i->addr, i->idxen ? 1 : 0, l) : 0) + (uint32_t)i->offset_imm;
        a->space[l] = swizzled ? SIM_ACCESS_SCRATCH : SIM_ACCESS_GLOBAL;
        a->addr[l] = swizzled ? off + scalar_of(w, &i->soffset)
                              : base + (uint64_t)index * stride + off + scalar_of(w, &i->soffset);
        if (!swizzled && (uint64_t)index * stride + off >= r[2] * (uint64_t)(stride && i->idxen ? stride : 1))
            a->mask &= ~(1ull << l); /* out of range: nothing is touched */
    }
    return true;
}

static bool access_lds(const sim_wave *w, const sim_inst *i, sim_access *a) {
    if (!has(&i->addr) || strstr(i->meaning, "PERMUTE") || strstr(i->meaning, "SWIZZLE")) return false;
    const char *two = strstr(i->meaning, "2ADDR");
    if (!two) two = strstr(i->meaning, "READ2");
    if (!two) two = strstr(i->meaning, "WRITE2");
    uint32_t unit = 1, offset = (uint32_t)i->offset_imm;
    if (two) {
        offset &= 0xff;
        a->n_bytes = strstr(i->meaning, "64") && i->meaning[strlen(i->meaning) - 1] == '4' && !strstr(i->meaning, "B32") ? 8 : 4;
        unit = a->n_bytes * (strstr(i->meaning, "ST64") || strstr(i->meaning, "STRIDE64") ? 64 : 1);
        a->second = ((uint32_t)i->offset1 - offset) * unit;
    } else if (offset <= 0xff) {
        offset |= (uint32_t)i->offset1 << 8; /* one offset of 16 bits, which the decoder may have given in two */
    }
    for (unsigned l = 0; l < w->lanes; l++)
        if (a->mask >> l & 1) {
            a->space[l] = SIM_ACCESS_LDS;
            a->addr[l] = (uint32_t)(lane_of(w, &i->addr, 0, l) + offset * unit);
        }
    return true;
}

bool sim_access_of(const sim_wave *w, const sim_inst *i, sim_access *a) {
    if (i->format < SIM_DS && i->format != SIM_SMEM) return false;
    a->mask = SIM_EXEC(w) & w->exec_full;
    a->second = 0;
    a->scalar = false;
    a->atomic = i->is_atomic;
    a->store = i->is_store || i->is_atomic;
    a->load = !i->is_store || i->is_atomic;
    const sim_operand *data = i->dst.kind == SIM_K_VGPR ? &i->dst : &i->data;
    a->n_bytes = i->is_atomic ? (strstr(i->meaning, "64") || strstr(i->meaning, "X2") ? 8 : 4) : bytes_of(i->meaning, data);
    switch (i->format) {
    case SIM_FLAT:
    case SIM_GLOBAL:
    case SIM_SCRATCH:
        if (!has(&i->addr) && !has(&i->saddr) && i->format != SIM_SCRATCH) return false; /* cache control */
        return access_flat(w, i, a);
    case SIM_MUBUF:
    case SIM_MTBUF: return access_buffer(w, i, a);
    case SIM_DS: return access_lds(w, i, a);
    case SIM_SMEM:
        if (i->base.kind != SIM_K_SGPR || i->dst.kind == SIM_K_NONE || strstr(i->meaning, "TIME")) return false;
        a->mask = 1;
        a->scalar = true;
        a->n_bytes = strstr(i->meaning, "LOAD_U8") || strstr(i->meaning, "LOAD_I8")     ? 1
                     : strstr(i->meaning, "LOAD_U16") || strstr(i->meaning, "LOAD_I16") ? 2
                                                                                      : i->dst.n_dwords * 4u;
        a->space[0] = SIM_ACCESS_GLOBAL;
        a->addr[0] = (sim_sread64(w, i->base.reg) & (strstr(i->meaning, "BUFFER") ? 0xffffffffffffull : ~0ull)) +
                     scalar_of(w, &i->soffset) + (uint64_t)(int64_t)i->offset_imm;
        if (a->n_bytes >= 4) a->addr[0] &= ~3ull;
        return true;
    default: return false;
    }
}
