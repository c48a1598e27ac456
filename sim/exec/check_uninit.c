/* OCHRE_SIM_CHECK=uninit: something that nothing has written decides something.
 *
 * Vector registers have a mask of defined lanes, scalar ones a mask of undefined bits (lane masks live in them), bytes of LDS
 * and scratch know whether they were written; what the command processor sets up is defined, and so is global memory.
 * Reading is no crime: values are copied, selected and dropped while undefined. The accusation comes when one is an address,
 * is stored to global memory, is branched on, or becomes EXEC. Lenient where compilers leave harmless holes: a dword is
 * defined when a part of it is, a store of several dwords when one of them is (padding). */
#include "exec/check_uninit.h"

#include "base/alloc.h"
#include "exec/check_order.h"
#include "exec/observers.h"
#include "exec/program.h"
#include "exec/state.h"

#include <stdio.h>
#include <string.h>

bool sim_uninit_accuse(sim_uninit *o, sim_wave *w, const sim_uop *u, int lane, const char *what, const sim_operand *which,
                       unsigned k, uint32_t from) {
    char text[128], name[32] = "";
    if (which && which->kind == SIM_K_VGPR)
        snprintf(name, sizeof name, " %c%u", which->reg < 256 ? 'v' : 'a', (which->reg + k) % 256u);
    else if (which && which->kind == SIM_K_SGPR && which->reg + k < 106)
        snprintf(name, sizeof name, " s%u", which->reg + k);
    else if (which && which->kind == SIM_K_SGPR && (which->reg == SIM_S_VCC_LO || which->reg == SIM_S_VCC_HI))
        snprintf(name, sizeof name, " vcc");
    int n = snprintf(o->text, sizeof o->text, "%s%s", what, name);
    if (from) {
        const sim_inst *by = sim_program_uop(w->program, from - 1)->inst;
        sim_inst_print(by, w->lanes, text, sizeof text);
        bool lds = by->format == SIM_DS, scratch = by->format == SIM_SCRATCH || by->format == SIM_MUBUF;
        snprintf(o->text + n, sizeof o->text - (size_t)n, ", undefined since \"%s\" (code offset 0x%x) read %s", text, by->offset,
                 lds ? "LDS that nothing has written"
                 : scratch ? "scratch that nothing has written"
                 : by->format == SIM_FLAT ? "LDS or scratch that nothing has written" : "a register that nothing has written");
    } else {
        snprintf(o->text + n, sizeof o->text - (size_t)n, ", which nothing has written");
    }
    sim_wave_fault(w, u, SIM_FAULT_UNINITIALIZED, lane, 0, 0, false, o->text);
    return false;
}

uint32_t sim_uninit_scalar(const sim_wave *w, const sim_uninit_wave *v, const sim_operand *o, unsigned k) {
    if (o->kind != SIM_K_SGPR) return 0;
    uint32_t r = o->reg + k;
    if (r < 128) return r == SIM_S_NULL ? 0 : v->s[r];
    if (o->reg == SIM_S_SCC) return v->scc ? ~0u : 0;
    if (o->reg == SIM_S_VCCZ) return v->s[SIM_S_VCC_LO] | (w->lanes == 64 ? v->s[SIM_S_VCC_HI] : 0) ? ~0u : 0;
    return 0;
}

uint64_t sim_uninit_lanes(const sim_wave *w, const sim_uninit_wave *v, const sim_operand *o, unsigned k) {
    if (o->kind == SIM_K_VGPR) return o->reg + k < SIM_UNINIT_ROWS ? v->v[o->reg + k] : ~0ull;
    if (o->kind != SIM_K_SGPR) return ~0ull;
    if (o->type == SIM_T_M64) {
        uint64_t undefined = sim_uninit_scalar(w, v, o, 0);
        if (w->lanes == 64) undefined |= (uint64_t)sim_uninit_scalar(w, v, o, 1) << 32;
        return ~undefined;
    }
    return sim_uninit_scalar(w, v, o, k) ? 0 : ~0ull;
}

uint32_t sim_uninit_lane_bits(const sim_uninit_wave *v, uint32_t reg, unsigned lane) {
    if (reg >= v->n_rows || v->v[reg] >> lane & 1) return 0;
    return v->bits[(size_t)reg * v->lanes + lane];
}

void sim_uninit_set_lane(sim_uninit_wave *v, uint32_t reg, unsigned lane, uint32_t undefined, uint32_t from) {
    if (reg >= v->n_rows) return;
    v->v[reg] &= ~(1ull << lane);
    if (!undefined) {
        v->v[reg] |= 1ull << lane;
        return;
    }
    v->bits[(size_t)reg * v->lanes + lane] = undefined;
    v->v_from[reg] = from;
}

/* ---- memory ---- */

static bool scalar_address(sim_uninit *o, sim_wave *w, sim_uninit_wave *v, const sim_uop *u, const sim_operand *op, unsigned n) {
    for (unsigned k = 0; k < n; k++)
        if (sim_uninit_scalar(w, v, op, k))
            return sim_uninit_accuse(o, w, u, -1, "the address comes from", op, k, op->reg + k < 128 ? v->s_from[op->reg + k] : 0);
    return true;
}

static bool lane_address(sim_uninit *o, sim_wave *w, sim_uninit_wave *v, const sim_uop *u, const sim_operand *op, uint64_t mask) {
    if (op->kind != SIM_K_VGPR) return true;
    for (unsigned k = 0; k < (op->n_dwords ? op->n_dwords : 1u); k++) {
        uint64_t bad = mask & ~v->v[op->reg + k];
        if (bad)
            return sim_uninit_accuse(o, w, u, __builtin_ctzll(bad), "the address comes from", op, k, v->v_from[op->reg + k]);
    }
    return true;
}

static bool address(sim_uninit *o, sim_wave *w, sim_uninit_wave *v, const sim_uop *u, uint64_t exec) {
    const sim_inst *i = u->inst;
    if (i->format != SIM_SMEM && !exec) return true;
    if (i->saddr.kind == SIM_K_SGPR && i->saddr.reg != SIM_S_NULL &&
        !scalar_address(o, w, v, u, &i->saddr, i->format == SIM_SCRATCH ? 1 : 2))
        return false;
    if (i->base.kind == SIM_K_SGPR &&
        !scalar_address(o, w, v, u, &i->base, i->format == SIM_SMEM && !strstr(i->meaning, "BUFFER") ? 2 : 4))
        return false;
    if (!scalar_address(o, w, v, u, &i->soffset, i->soffset.kind == SIM_K_SGPR)) return false;
    if ((i->format == SIM_MUBUF || i->format == SIM_MTBUF) && !i->offen && !i->idxen) return true;
    return lane_address(o, w, v, u, &i->addr, exec);
}

/* Undefined bits of the n bytes (at most 4) at addr. */
static uint32_t read_bytes(const sim_uninit_group *g, const sim_uninit_wave *v, const sim_wave *w, uint8_t space, unsigned lane,
                           uint64_t addr, uint32_t n) {
    uint32_t undefined = 0;
    for (uint32_t b = 0; b < n; b++) {
        uint32_t byte = 0;
        if (space == SIM_ACCESS_LDS && addr + b < w->group->lds_bytes) byte = g->lds[addr + b] ? 0 : 0xff;
        if (space == SIM_ACCESS_SCRATCH && addr + b < w->scratch_lane_bytes) byte = v->scratch[(addr + b) * w->lanes + lane];
        undefined |= byte << 8 * b;
    }
    return undefined;
}
static void write_bytes(sim_uninit_group *g, sim_uninit_wave *v, const sim_wave *w, uint8_t space, unsigned lane, uint64_t addr,
                        uint32_t n, uint32_t undefined) {
    for (uint32_t b = 0; b < n; b++) {
        uint8_t byte = (uint8_t)(undefined >> 8 * (b & 3));
        if (space == SIM_ACCESS_LDS && addr + b < w->group->lds_bytes) g->lds[addr + b] = byte == 0;
        if (space == SIM_ACCESS_SCRATCH && addr + b < w->scratch_lane_bytes) v->scratch[(addr + b) * w->lanes + lane] = byte;
    }
}
/* Some bytes whole, the others wholly undefined: padding, which a copy of dwords takes along. */
static bool padded(uint32_t undefined, uint32_t n) {
    bool whole = false;
    for (uint32_t b = 0; b < n; b++) {
        uint32_t byte = undefined >> 8 * b & 0xff;
        if (byte != 0 && byte != 0xff) return false;
        whole |= byte == 0;
    }
    return whole;
}

/* Stores: data register dwords from row `data` on go to addr. False: accused. */
static bool store_lane(sim_uninit *o, sim_wave *w, sim_uninit_wave *v, const sim_uop *u, unsigned lane, uint64_t addr,
                       const sim_operand *data) {
    const sim_access *a = &o->access;
    unsigned n = a->n_bytes < 4 ? 1 : a->n_bytes / 4, n_defined = 0;
    if (data->kind != SIM_K_VGPR) return true;
    for (unsigned k = 0; k < n && data->reg + k < SIM_UNINIT_ROWS; k++) {
        uint32_t undefined = sim_uninit_lane_bits(v, data->reg + k, lane);
        n_defined += undefined == 0;
        if (!a->atomic)
            write_bytes(o->now, v, w, a->space[lane], lane, addr + 4 * k, a->n_bytes < 4 ? a->n_bytes : 4, undefined);
    }
    if (a->space[lane] == SIM_ACCESS_GLOBAL && n_defined == 0)
        return sim_uninit_accuse(o, w, u, (int)lane, "the value stored comes from", data, 0, v->v_from[data->reg]);
    /* An atomic on LDS: what it leaves is defined as its operand and the old value are. */
    if (a->atomic && n_defined < n) write_bytes(o->now, v, w, a->space[lane], lane, addr, a->n_bytes, ~0u);
    else if (a->atomic && (strstr(u->inst->meaning, "SWAP") || strstr(u->inst->meaning, "XCHG")) && !strstr(u->inst->meaning, "CMP"))
        write_bytes(o->now, v, w, a->space[lane], lane, addr, a->n_bytes, 0);
    return true;
}

static void load_lane(sim_uninit *o, const sim_wave *w, sim_uninit_wave *v, const sim_uop *u, unsigned lane, uint64_t addr,
                      unsigned first) {
    const sim_access *a = &o->access;
    const sim_operand *d = &u->inst->dst;
    unsigned n = a->n_bytes < 4 ? 1 : a->n_bytes / 4;
    bool half = strstr(u->inst->meaning, "D16") != NULL;
    for (unsigned k = 0; k < n && d->reg + first + k < SIM_UNINIT_ROWS; k++) {
        uint32_t r = d->reg + first + k;
        uint32_t n_bytes = a->n_bytes < 4 ? a->n_bytes : 4, undefined = 0;
        if (a->space[lane] != SIM_ACCESS_GLOBAL) undefined = read_bytes(o->now, v, w, a->space[lane], lane, addr + 4 * k, n_bytes);
        if (padded(undefined, n_bytes)) undefined = 0;
        if (undefined && n_bytes < 4) undefined = ~0u;
        if (!undefined || !half) sim_uninit_set_lane(v, r, lane, undefined, u->index + 1);
    }
}

static void define_rows(sim_uninit_wave *v, const sim_operand *d, uint64_t mask) {
    if (d->kind == SIM_K_VGPR)
        for (unsigned k = 0; k < (d->n_dwords ? d->n_dwords : 1u) && d->reg + k < SIM_UNINIT_ROWS; k++) v->v[d->reg + k] |= mask;
    if (d->kind == SIM_K_SGPR)
        for (unsigned k = 0; k < (d->n_dwords ? d->n_dwords : 1u) && d->reg + k < 128; k++) v->s[d->reg + k] = 0;
}

static bool memory(sim_uninit *o, sim_wave *w, sim_uninit_wave *v, const sim_uop *u) {
    const sim_inst *i = u->inst;
    uint64_t exec = SIM_EXEC(w) & w->exec_full;
    if (!address(o, w, v, u, exec)) return false;
    sim_access *a = &o->access;
    if (i->format == SIM_MIMG || !sim_access_of(w, i, a)) {
        define_rows(v, &i->dst, exec);
        if (i->format == SIM_DS && strstr(i->meaning, "ADDTID") && i->is_store) memset(o->now->lds, 1, w->group->lds_bytes);
        return true;
    }
    bool to_lds = i->lds || strstr(i->meaning, "LOAD_LDS");
    if (to_lds && a->load) {
        uint32_t base = (w->s[SIM_S_M0] & 0x3ffff) + (uint32_t)i->offset_imm, each = a->n_bytes < 4 ? 4 : a->n_bytes;
        for (unsigned l = 0; l < w->lanes; l++)
            if (exec >> l & 1) write_bytes(o->now, v, w, SIM_ACCESS_LDS, l, base + each * l, each, 0);
        return true;
    }
    bool format = strstr(i->meaning, "FORMAT") != NULL;
    if (i->dst.kind == SIM_K_VGPR && (format || strstr(i->meaning, "_TR_") || strstr(i->meaning, "BLOCK"))) {
        define_rows(v, &i->dst, exec);
        return true;
    }
    for (unsigned l = 0; l < w->lanes; l++) {
        if (!(a->mask >> l & 1)) continue;
        /* An atomic's old value comes before its new one. */
        if (a->load && i->dst.kind == SIM_K_VGPR) {
            load_lane(o, w, v, u, l, a->addr[l], 0);
            if (a->second) load_lane(o, w, v, u, l, (uint32_t)(a->addr[l] + a->second), a->n_bytes / 4);
        }
        if (!a->store || format) continue;
        if (!store_lane(o, w, v, u, l, a->addr[l], &i->data)) return false;
        if (a->second && !store_lane(o, w, v, u, l, (uint32_t)(a->addr[l] + a->second), &i->data1)) return false;
    }
    /* Lanes that a buffer's range leaves out read 0. */
    if (a->load && i->dst.kind == SIM_K_VGPR) define_rows(v, &i->dst, exec & ~a->mask);
    return true;
}

/* Permutations through the data share: a lane's value comes from another's register. */
static bool ds_lanes(sim_uninit_wave *v, const sim_wave *w, const sim_uop *u) {
    const sim_inst *i = u->inst;
    uint64_t exec = SIM_EXEC(w) & w->exec_full, res = exec;
    const sim_operand *data = i->data.kind == SIM_K_VGPR ? &i->data : &i->addr;
    if (i->dst.kind != SIM_K_VGPR || data->kind != SIM_K_VGPR) return true;
    if (strstr(i->meaning, "BPERMUTE") && i->addr.kind == SIM_K_VGPR) {
        for (unsigned l = 0; l < w->lanes; l++) {
            if (!(exec >> l & 1)) continue;
            uint32_t from = (w->v[(size_t)i->addr.reg * w->lanes + l] + (uint32_t)i->offset_imm) / 4 % w->lanes;
            bool good = v->v[i->addr.reg] >> l & 1 && (!(exec >> from & 1) || v->v[data->reg] >> from & 1);
            if (!good) res &= ~(1ull << l);
        }
    } else if (!(v->v[data->reg] & exec)) {
        res = 0;
    }
    uint32_t from = v->v_from[data->reg] ? v->v_from[data->reg] : u->index + 1;
    for (unsigned l = 0; l < w->lanes; l++)
        if (exec >> l & 1) sim_uninit_set_lane(v, i->dst.reg, l, res >> l & 1 ? 0 : ~0u, from);
    return true;
}

/* ---- control ---- */

static bool mask_decides(sim_uninit *o, sim_wave *w, sim_uninit_wave *v, const sim_uop *u, uint32_t reg) {
    uint64_t bits = w->s[reg], undefined = v->s[reg];
    if (w->lanes == 64) bits |= (uint64_t)w->s[reg + 1] << 32, undefined |= (uint64_t)v->s[reg + 1] << 32;
    if (!undefined || bits & ~undefined) return true;
    sim_operand mask = {.kind = SIM_K_SGPR, .reg = (uint16_t)reg};
    return sim_uninit_accuse(o, w, u, __builtin_ctzll(undefined), "the branch is decided by", &mask, 0, v->s_from[reg]);
}

static bool before(sim_observer *ob, sim_wave *w, const sim_uop *u) {
    sim_uninit *o = (sim_uninit *)(void *)ob;
    if (!o->now || o->lost || sim_check_is_link(u)) return true;
    sim_uninit_wave *v = &o->now->waves[w->wave_id];
    const sim_uninit_class *c = &o->classes[u->index];
    switch (c->kind) {
    case SIM_UK_NOTHING: define_rows(v, &u->inst->dst, SIM_EXEC(w)); return true;
    case SIM_UK_SCC:
        if (!v->scc) return true;
        return sim_uninit_accuse(o, w, u, -1, "the branch is decided by SCC", NULL, 0, v->scc_from);
    case SIM_UK_VCC: return mask_decides(o, w, v, u, SIM_S_VCC_LO);
    case SIM_UK_EXEC: return mask_decides(o, w, v, u, SIM_S_EXEC_LO);
    case SIM_UK_JUMP:
        if (!scalar_address(o, w, v, u, &u->inst->src[0], 2)) return false;
        define_rows(v, &u->inst->dst, 0);
        return true;
    case SIM_UK_SMEM:
        if (!address(o, w, v, u, 0)) return false;
        define_rows(v, &u->inst->dst, 0);
        return true;
    case SIM_UK_MEMORY: return memory(o, w, v, u);
    case SIM_UK_DS_LANES: return ds_lanes(v, w, u);
    default: break;
    }
    if (c->kind < SIM_UK_SCC) return sim_uninit_salu(o, w, v, u, c);
    return sim_uninit_valu(o, w, v, u, c);
}

/* ---- groups ---- */

static void drop(sim_uninit *o, sim_uninit_group *g) {
    for (sim_uninit_group **p = &o->groups; *p; p = &(*p)->next)
        if (*p == g) {
            *p = g->next;
            break;
        }
    if (o->now == g) o->now = NULL;
    for (uint32_t i = 0; g->waves && i < g->n_waves; i++) {
        och_free(g->waves[i].scratch);
        och_free(g->waves[i].bits);
    }
    och_free(g->waves);
    och_free(g->lds);
    och_free(g);
}

/* What setup.c sets, in its order. */
static void set_up(const sim_uninit *o, sim_uninit_wave *v) {
    const sim_kernel *k = o->l->kernel;
    const uint32_t p = k->properties;
    const sim_isa isa = o->l->isa;
    bool gcn = SIM_BIT(isa) & SIM_GCN, ids_in_ttmp = isa == SIM_GFX1200 || isa == SIM_GFX1250;
    uint32_t n = (p & 1 ? 4u : 0) + 2u * (uint32_t)__builtin_popcount(p & 0x3e) + (p >> 6 & 1);
    n += k->kernarg_preload & 0x7f;
    if (n > 16) n = 16;
    uint32_t user = k->rsrc2 >> 1 & 31;
    if (user > n) n = user;
    if (!ids_in_ttmp) n += (uint32_t)__builtin_popcount(k->rsrc2 >> 7 & 15);
    n += k->rsrc2 & 1;
    memset(v->s, 0xff, sizeof v->s);
    memset(v->s, 0, n * sizeof *v->s);
    for (unsigned r = SIM_S_TTMP0; r < 128; r++) v->s[r] = 0; /* with M0 and EXEC */
    if (gcn)
        for (unsigned r = SIM_S_FLAT_SCRATCH_LO; r < SIM_S_VCC_LO; r++) v->s[r] = 0;
    bool packed = isa >= SIM_GFX90A && isa != SIM_GFX1030;
    v->v[0] = ~0ull;
    if (!packed && (k->rsrc2 >> 11 & 3) >= 1) v->v[1] = ~0ull;
    if (!packed && (k->rsrc2 >> 11 & 3) >= 2) v->v[2] = ~0ull;
    v->scc = true;
}

static void group_start(sim_observer *ob, sim_group *g) {
    sim_uninit *o = (sim_uninit *)(void *)ob;
    sim_uninit_group *c = och_calloc(1, sizeof *c);
    if (!c) {
        o->lost = true;
        return;
    }
    c->group = g;
    c->n_waves = g->n_waves;
    c->next = o->groups;
    o->groups = c;
    c->waves = och_calloc(g->n_waves, sizeof *c->waves);
    c->lds = och_calloc(g->lds_bytes + 1, 1);
    if (!c->waves || !c->lds) o->lost = true;
    for (uint32_t i = 0; c->waves && i < g->n_waves; i++) {
        set_up(o, &c->waves[i]);
        const sim_wave *w = &g->waves[i];
        sim_uninit_wave *v = &c->waves[i];
        size_t scratch = (size_t)w->scratch_lane_bytes * w->lanes, dwords = (size_t)w->n_vgprs * w->lanes;
        v->n_rows = w->n_vgprs < SIM_UNINIT_ROWS ? w->n_vgprs : SIM_UNINIT_ROWS;
        v->lanes = w->lanes;
        v->scratch = och_malloc(scratch + 1);
        v->bits = och_malloc_array(dwords + 1, sizeof *v->bits);
        if (!v->scratch || !v->bits) o->lost = true;
        if (v->scratch) memset(v->scratch, 0xff, scratch);
        if (v->bits) memset(v->bits, 0xff, dwords * sizeof *v->bits);
    }
}

static void group_enter(sim_observer *ob, sim_group *g) {
    sim_uninit *o = (sim_uninit *)(void *)ob;
    o->now = NULL;
    for (sim_uninit_group *c = o->groups; c && !o->now; c = c->next)
        if (c->group == g) o->now = c;
}

static void group_end(sim_observer *ob, sim_group *g) {
    sim_uninit *o = (sim_uninit *)(void *)ob;
    for (sim_uninit_group *c = o->groups; c; c = c->next)
        if (c->group == g) {
            drop(o, c);
            return;
        }
}

static void end(sim_observer *ob, const sim_launch_state *s) {
    sim_uninit *o = (sim_uninit *)(void *)ob;
    if (s && o->lost)
        fprintf(stderr, "ochre: OCHRE_SIM_CHECK: uninit: %s: out of memory: not judged to its end\n", o->l->kernel->name);
    while (o->groups) drop(o, o->groups);
    och_free(o->classes);
    och_free(o);
}

och_status sim_check_uninit_create(const sim_launch *l, sim_observer **out, och_err *err) {
    *out = NULL;
    const sim_program *p = l->kernel->program;
    size_t n = sim_program_n_uops(p);
    sim_uninit *o = och_calloc(1, sizeof *o);
    if (o) o->classes = och_calloc(n + 1, sizeof *o->classes);
    if (!o || !o->classes) {
        och_free(o);
        return och_err_nomem(err, n * sizeof *o->classes, "a check");
    }
    for (size_t i = 0; i < n; i++) {
        const sim_uop *u = sim_program_uop(p, i);
        if (!sim_check_is_link(u)) o->classes[i] = sim_uninit_class_of(u);
    }
    o->base = (sim_observer){.group_start = group_start, .group_enter = group_enter, .group_end = group_end, .before = before,
                             .end = end};
    o->l = l;
    *out = &o->base;
    return OCH_OK;
}
