/* How arithmetic carries what is undefined. Bitwise scalar operations are exact to the bit, for compilers keep lane masks
 * there whose bits of other lanes hold anything; the rest is by whole dwords. */
#include "exec/check_uninit.h"
#include "exec/control.h"

#include <string.h>

static bool begins(const char *s, const char *with) { return !strncmp(s, with, strlen(with)); }

/* ---- classes ---- */

static sim_uninit_class salu_class(const char *m) {
    static const char *const scc[] = {"S_CMP",   "S_BITCMP", "S_ADD",   "S_SUB",   "S_LSHL",  "S_LSHR", "S_ASHR",    "S_BFE",
                                      "S_BCNT",  "S_ABS",    "S_MIN",   "S_MAX",   "S_WQM",   "S_QUAD", "S_NOT"};
    sim_uninit_class c = {.kind = SIM_UK_S_ANY};
    for (size_t i = 0; i < sizeof scc / sizeof *scc; i++) c.sets_scc |= begins(m, scc[i]);
    if (strstr(m, "_F32") || strstr(m, "_F16") || strstr(m, "U64") || begins(m, "S_ADDK")) c.sets_scc = begins(m, "S_CMP");
    c.acc = begins(m, "S_ADDK") || begins(m, "S_MULK") || begins(m, "S_BITSET") || begins(m, "S_FMAC") || begins(m, "S_CMPK");
    if (strstr(m, "SAVEEXEC") || strstr(m, "WREXEC")) {
        c.kind = strstr(m, "WREXEC") ? SIM_UK_S_WREXEC : SIM_UK_S_MASK_EXEC;
    } else if (begins(m, "S_MOV_B") || begins(m, "S_MOVK")) {
        c.kind = SIM_UK_S_MOV;
    } else if (begins(m, "S_CSELECT") || begins(m, "S_CMOV")) {
        c.kind = SIM_UK_S_CSELECT;
        c.acc = begins(m, "S_CMOV");
    } else if (begins(m, "S_AND") || begins(m, "S_NAND") || begins(m, "S_OR") || begins(m, "S_NOR") || begins(m, "S_XOR") ||
               begins(m, "S_XNOR") || begins(m, "S_NOT_B")) {
        c.kind = strstr(m, "AND") ? SIM_UK_S_AND : strstr(m, "XOR") || strstr(m, "XNOR") || begins(m, "S_NOT_B") ? SIM_UK_S_XOR : SIM_UK_S_OR;
        c.not_result = begins(m, "S_NAND") || begins(m, "S_NOR") || begins(m, "S_XNOR") || begins(m, "S_NOT_B");
        c.not1 = begins(m, "S_ANDN2") || begins(m, "S_ORN2") || strstr(m, "_NOT1");
        c.sets_scc = true;
    } else if (begins(m, "S_GET") || begins(m, "S_SETREG") || begins(m, "S_SENDMSG") || begins(m, "S_MOVREL") ||
               begins(m, "S_BARRIER") || begins(m, "S_VERSION") || begins(m, "S_SETHALT") || begins(m, "S_SLEEP") ||
               begins(m, "S_TRAP") || begins(m, "S_ENDPGM") || begins(m, "S_WAIT")) {
        c.kind = SIM_UK_NOTHING;
    }
    return c;
}

/* The name without "V_", and without what the halves of a pair have before it. */
static const char *vector_name(const sim_inst *i) {
    const char *m = i->meaning + (begins(i->meaning, "V_") ? 2 : 0);
    return m + (begins(m, "DUAL_") ? 5 : 0);
}

static uint8_t valu_kind(const sim_inst *i) {
    static const struct {
        const char *name;
        uint8_t kind;
    } kinds[] = {
        {"READLANE", SIM_UK_READLANE}, {"READFIRSTLANE", SIM_UK_READFIRSTLANE}, {"WRITELANE", SIM_UK_WRITELANE},
        {"SWAPREL", SIM_UK_DEFINES}, {"SWAP", SIM_UK_SWAP}, {"MOVREL", SIM_UK_MOVREL},
        {"PERMLANE16_SWAP", SIM_UK_SWAP_CROSS}, {"PERMLANE32_SWAP", SIM_UK_SWAP_CROSS}, {"PERMLANE", SIM_UK_CROSS},
        {"PERM_", SIM_UK_PERM}, {"ALIGN", SIM_UK_ONE}, {"BFI", SIM_UK_ONE}, {"BITOP", SIM_UK_ONE},
        {"PACK", SIM_UK_ONE}, {"CVT_PK", SIM_UK_ONE}, {"CVT_SCALE", SIM_UK_ONE}, {"CVT_SR", SIM_UK_ONE},
        {"WMMA", SIM_UK_DEFINES}, {"SWMMAC", SIM_UK_DEFINES}, {"MFMA", SIM_UK_DEFINES}, {"SMFMAC", SIM_UK_DEFINES},
        {"MAD_U64_U32", SIM_UK_LOW_FIRST}, {"MAD_I64_I32", SIM_UK_LOW_FIRST}, {"MAD_CO_U64", SIM_UK_LOW_FIRST},
        {"MAD_CO_I64", SIM_UK_LOW_FIRST}, {"MAD_NC", SIM_UK_LOW_FIRST}, {"LSHLREV_B64", SIM_UK_LOW_FIRST},
        {"LSHL_ADD_U64", SIM_UK_LOW_FIRST}, {"MOV_B64", SIM_UK_LOW_FIRST}, {"ADD_NC_U64", SIM_UK_LOW_FIRST},
        {"PK_MOV", SIM_UK_LOW_FIRST}, {"PK_", SIM_UK_LOW_FIRST}, {"DOT", SIM_UK_LOW_FIRST}, {"NOP", SIM_UK_NOTHING},
    };
    const char *m = vector_name(i);
    if (begins(m, "CNDMASK")) return SIM_UK_CNDMASK;
    if ((!strcmp(m, "MOV_B32") || begins(m, "ACCVGPR")) && i->lanes == SIM_LANES_PLAIN) return SIM_UK_COPY;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (begins(m, kinds[k].name)) return kinds[k].kind;
    return SIM_UK_ALL;
}

sim_uninit_class sim_uninit_class_of(const sim_uop *u) {
    const sim_inst *i = u->inst;
    const char *m = i->meaning;
    switch (i->format) {
    case SIM_SOP1:
    case SIM_SOP2:
    case SIM_SOPC:
    case SIM_SOPK:
    case SIM_SOPP:
        if (begins(m, "S_CBRANCH_SCC")) return (sim_uninit_class){.kind = SIM_UK_SCC};
        if (begins(m, "S_CBRANCH_VCC")) return (sim_uninit_class){.kind = SIM_UK_VCC};
        if (begins(m, "S_CBRANCH_EXEC")) return (sim_uninit_class){.kind = SIM_UK_EXEC};
        if (begins(m, "S_SETPC") || begins(m, "S_SWAPPC")) return (sim_uninit_class){.kind = SIM_UK_JUMP};
        if (i->format == SIM_SOPP || begins(m, "S_CALL") || begins(m, "S_SET_GPR")) return (sim_uninit_class){.kind = SIM_UK_NOTHING};
        return salu_class(m);
    case SIM_SMEM: return (sim_uninit_class){.kind = SIM_UK_SMEM};
    case SIM_VOP1:
    case SIM_VOP2:
    case SIM_VOPC:
    case SIM_VOP3:
    case SIM_VOP3SD:
    case SIM_VOP3P:
    case SIM_VOP3PX2:
    case SIM_VOPD: {
        if (u->fn == sim_control_indexed) return (sim_uninit_class){.kind = SIM_UK_MOVREL};
        if (i->dual) return (sim_uninit_class){.kind = SIM_UK_DUAL};
        sim_uninit_class c = {.kind = valu_kind(i)};
        if (c.kind == SIM_UK_ALL && i->lanes != SIM_LANES_PLAIN) c.kind = i->lanes == SIM_LANES_SDWA ? SIM_UK_ONE : SIM_UK_CROSS;
        return c;
    }
    case SIM_DS:
        return (sim_uninit_class){.kind = strstr(m, "PERMUTE") || strstr(m, "SWIZZLE") ? SIM_UK_DS_LANES : SIM_UK_MEMORY};
    case SIM_FLAT:
    case SIM_GLOBAL:
    case SIM_SCRATCH:
    case SIM_MUBUF:
    case SIM_MTBUF:
    case SIM_MIMG: return (sim_uninit_class){.kind = SIM_UK_MEMORY};
    default: return (sim_uninit_class){.kind = SIM_UK_DEFINES};
    }
}

/* ---- scalar ---- */

static uint32_t scalar_value(const sim_wave *w, const sim_operand *o, unsigned k) {
    if (o->kind == SIM_K_CONST) return (uint32_t)(o->value >> 32 * (k & 1));
    if (o->kind != SIM_K_SGPR) return 0;
    return o->reg < 128 && o->reg + k < 128 ? w->s[o->reg + k] : (uint32_t)(sim_special_read64(w, o->reg) >> 32 * k);
}

/* Undefined bits of a op b, and the value of those that are not. */
static uint32_t bits(const sim_uninit_class *c, uint32_t a, uint32_t ua, uint32_t b, uint32_t ub, uint32_t *out_value) {
    if (c->not0) a = ~a;
    if (c->not1) b = ~b;
    uint32_t undefined, value;
    switch (c->kind) {
    case SIM_UK_S_AND: /* a defined 0 decides */
        undefined = (ua | ub) & (a | ua) & (b | ub);
        value = a & b;
        break;
    case SIM_UK_S_OR:
        undefined = (ua | ub) & ~((a & ~ua) | (b & ~ub));
        value = a | b;
        break;
    default:
        undefined = ua | ub;
        value = a ^ b;
        break;
    }
    *out_value = c->not_result ? ~value : value;
    return undefined;
}

static uint32_t origin(const sim_uninit_wave *v, const sim_inst *i, const sim_uop *u) {
    for (int s = 0; s < 3; s++) {
        const sim_operand *o = &i->src[s];
        for (unsigned k = 0; k < (o->n_dwords ? o->n_dwords : 1u); k++) {
            if (o->kind == SIM_K_VGPR && o->reg + k < SIM_UNINIT_ROWS && v->v_from[o->reg + k]) return v->v_from[o->reg + k];
            if (o->kind == SIM_K_SGPR && o->reg + k < 128 && v->s[o->reg + k] && v->s_from[o->reg + k]) return v->s_from[o->reg + k];
            if (o->kind == SIM_K_SGPR && o->reg == SIM_S_SCC && v->scc && v->scc_from) return v->scc_from;
        }
    }
    return u->index + 1;
}

static bool set_scalar(sim_uninit *o, sim_wave *w, sim_uninit_wave *v, const sim_uop *u, uint32_t reg, uint32_t undefined,
                       uint32_t from) {
    if (reg >= 128 || reg == SIM_S_NULL) return true;
    uint32_t lanes = reg == SIM_S_EXEC_LO ? (uint32_t)w->exec_full : reg == SIM_S_EXEC_HI ? (uint32_t)(w->exec_full >> 32) : 0;
    if (undefined & lanes)
        return sim_uninit_accuse(o, w, u, __builtin_ctz(undefined & lanes) + (reg == SIM_S_EXEC_HI ? 32 : 0),
                                 "EXEC comes from a comparison or mask", NULL, 0, from);
    v->s[reg] = reg == SIM_S_EXEC_LO || reg == SIM_S_EXEC_HI ? 0 : undefined;
    v->s_from[reg] = undefined ? from : 0;
    return true;
}

/* EXEC and a mask give EXEC; what EXEC was, or becomes, goes to the destination. */
static bool mask_exec(sim_uninit *o, sim_wave *w, sim_uninit_wave *v, const sim_uop *u, const sim_uninit_class *c) {
    const sim_inst *i = u->inst;
    const char *m = i->meaning;
    sim_uninit_class op = {.kind = strstr(m, "XOR") || strstr(m, "XNOR") ? SIM_UK_S_XOR : strstr(m, "AND") ? SIM_UK_S_AND : SIM_UK_S_OR};
    op.not_result = strstr(m, "NAND") || strstr(m, "_NOR") || strstr(m, "XNOR");
    /* ANDN1: EXEC is src0 complemented; ANDN2: EXEC complemented. */
    op.not1 = strstr(m, "N2_") || strstr(m, "NOT1_");
    op.not0 = strstr(m, "ANDN1_") || strstr(m, "ORN1_") || strstr(m, "NOT0_");
    unsigned n = strstr(m, "B64") ? 2 : 1;
    uint32_t from = origin(v, i, u), undefined[2] = {0};
    for (unsigned k = 0; k < n; k++) {
        uint32_t value;
        undefined[k] = bits(&op, scalar_value(w, &i->src[0], k), sim_uninit_scalar(w, v, &i->src[0], k), w->s[SIM_S_EXEC_LO + k], 0,
                            &value);
    }
    for (unsigned k = 0; k < n; k++) {
        if (!set_scalar(o, w, v, u, SIM_S_EXEC_LO + k, undefined[k], from)) return false;
        if (i->dst.kind == SIM_K_SGPR &&
            !set_scalar(o, w, v, u, i->dst.reg + k, c->kind == SIM_UK_S_WREXEC ? undefined[k] : 0, from))
            return false;
    }
    v->scc = false; /* EXEC is defined now */
    return true;
}

bool sim_uninit_salu(sim_uninit *o, sim_wave *w, sim_uninit_wave *v, const sim_uop *u, const sim_uninit_class *c) {
    const sim_inst *i = u->inst;
    if (c->kind == SIM_UK_S_MASK_EXEC || c->kind == SIM_UK_S_WREXEC) return mask_exec(o, w, v, u, c);
    unsigned n = i->dst.kind == SIM_K_SGPR ? i->dst.n_dwords ? i->dst.n_dwords : 1 : 0;
    uint32_t from = origin(v, i, u), undefined[2] = {0}, ones = 0, doubtful = 0;
    if (n > 2) n = 2;
    switch (c->kind) {
    case SIM_UK_S_AND:
    case SIM_UK_S_OR:
    case SIM_UK_S_XOR:
        for (unsigned k = 0; k < n; k++) {
            uint32_t value;
            undefined[k] = bits(c, scalar_value(w, &i->src[0], k), sim_uninit_scalar(w, v, &i->src[0], k),
                                scalar_value(w, &i->src[1], k), sim_uninit_scalar(w, v, &i->src[1], k), &value);
            ones |= value & ~undefined[k];
            doubtful |= undefined[k];
        }
        v->scc = !ones && doubtful;
        break;
    case SIM_UK_S_MOV:
        for (unsigned k = 0; k < n; k++) undefined[k] = sim_uninit_scalar(w, v, &i->src[0], k);
        break;
    case SIM_UK_S_CSELECT:
        for (unsigned k = 0; k < n; k++) {
            const sim_operand *taken = w->scc ? &i->src[0] : c->acc ? &i->dst : &i->src[1];
            undefined[k] = v->scc ? ~0u : sim_uninit_scalar(w, v, taken, k);
        }
        if (v->scc && v->scc_from) from = v->scc_from;
        break;
    default:
        for (int s = 0; s < 2; s++)
            for (unsigned k = 0; k < (i->src[s].n_dwords ? i->src[s].n_dwords : 1u); k++)
                doubtful |= sim_uninit_scalar(w, v, &i->src[s], k);
        if (c->acc) doubtful |= sim_uninit_scalar(w, v, &i->dst, 0);
        if (strstr(i->meaning, "ADDC") || strstr(i->meaning, "SUBB") || strstr(i->meaning, "CO_CI")) doubtful |= v->scc;
        for (unsigned k = 0; k < n; k++) undefined[k] = doubtful ? ~0u : 0;
        /* Halves packed into one: either may be a hole. */
        if (begins(i->meaning, "S_PACK") && !(sim_uninit_scalar(w, v, &i->src[0], 0) && sim_uninit_scalar(w, v, &i->src[1], 0)))
            undefined[0] = 0;
        if (!doubtful) v->scc = c->sets_scc ? false : v->scc;
        else if (c->sets_scc) v->scc = true;
        break;
    }
    if (v->scc && doubtful) v->scc_from = from;
    if (begins(i->meaning, "S_CMP") || begins(i->meaning, "S_BITCMP")) return true;
    for (unsigned k = 0; k < n; k++)
        if (!set_scalar(o, w, v, u, i->dst.reg + k, undefined[k], from)) return false;
    return true;
}

/* ---- vector ---- */

static uint64_t all_of(const sim_wave *w, const sim_uninit_wave *v, const sim_operand *o) {
    uint64_t d = ~0ull;
    for (unsigned k = 0; k < (o->n_dwords ? o->n_dwords : 1u); k++) d &= sim_uninit_lanes(w, v, o, k);
    return o->kind == SIM_K_NONE ? ~0ull : d;
}
static uint64_t one_of(const sim_wave *w, const sim_uninit_wave *v, const sim_operand *o) {
    uint64_t d = 0;
    for (unsigned k = 0; k < (o->n_dwords ? o->n_dwords : 1u); k++) d |= sim_uninit_lanes(w, v, o, k);
    return o->kind == SIM_K_NONE ? ~0ull : d;
}

static bool is16(unsigned t) { return t == SIM_T_B16 || t == SIM_T_U16 || t == SIM_T_I16 || t == SIM_T_F16 || t == SIM_T_BF16; }

/* Instructions that add to their destination without naming it a source. */
static bool accumulates(const sim_inst *i) {
    const char *m = vector_name(i);
    return begins(m, "FMAC") || begins(m, "MAC") || begins(m, "PK_FMAC") || (begins(m, "DOT") && strchr(m, 'C') && i->format != SIM_VOP3P);
}

/* A value equal to itself whatever it is: x ^ x, x - x. */
static bool cancels(const sim_inst *i) {
    return (begins(vector_name(i), "XOR_B") || begins(vector_name(i), "SUB_")) && i->src[0].kind == SIM_K_VGPR &&
           i->src[1].kind == SIM_K_VGPR && i->src[0].reg == i->src[1].reg && i->lanes == SIM_LANES_PLAIN;
}

/* Lanes of result dword k that are defined. */
static uint64_t result(const sim_wave *w, const sim_uninit_wave *v, const sim_inst *i, uint8_t kind, unsigned k, uint64_t exec) {
    uint64_t d = ~0ull;
    int n_src = i->src[2].kind != SIM_K_NONE ? 3 : i->src[1].kind != SIM_K_NONE ? 2 : i->src[0].kind != SIM_K_NONE ? 1 : 0;
    if (cancels(i)) return ~0ull;
    switch (kind) {
    case SIM_UK_DEFINES:
    case SIM_UK_NOTHING: return ~0ull;
    case SIM_UK_CNDMASK: {
        uint64_t mask = i->src[2].kind == SIM_K_SGPR && i->src[2].reg < 128 ? sim_mask_read(w, i->src[2].reg) : 0;
        sim_operand m = i->src[2];
        m.type = SIM_T_M64;
        uint64_t known = sim_uninit_lanes(w, v, &m, 0);
        uint64_t a = sim_uninit_lanes(w, v, &i->src[0], k), b = sim_uninit_lanes(w, v, &i->src[1], k);
        if (i->lanes != SIM_LANES_PLAIN && a & exec) a = ~0ull;
        return known & ((mask & b) | (~mask & a));
    }
    case SIM_UK_PERM: {
        /* Selector bytes 0..3 take from the second source, 4..7 from the first, 8..11 signs, others constants. */
        const sim_operand *s = &i->src[2];
        if (s->kind == SIM_K_VGPR) return (all_of(w, v, &i->src[0]) | all_of(w, v, &i->src[1])) & all_of(w, v, s);
        if (sim_uninit_scalar(w, v, s, 0)) return 0;
        uint32_t sel = scalar_value(w, s, 0);
        uint64_t from0 = 0, from1 = 0;
        bool first = false, second = false;
        for (unsigned b = 0; b < 4; b++) {
            unsigned x = sel >> 8 * b & 0xff;
            first |= (x >= 4 && x < 8) || x == 10 || x == 11;
            second |= x < 4 || x == 8 || x == 9;
        }
        from0 = all_of(w, v, &i->src[0]);
        from1 = all_of(w, v, &i->src[1]);
        return first && second ? from0 | from1 : first ? from0 : second ? from1 : ~0ull;
    }
    case SIM_UK_ONE:
        d = 0;
        for (int s = 0; s < n_src; s++) d |= one_of(w, v, &i->src[s]);
        return n_src ? d : ~0ull;
    case SIM_UK_CROSS:
        if (!(all_of(w, v, &i->src[0]) & exec)) d = 0;
        for (int s = 1; s < n_src; s++) d &= all_of(w, v, &i->src[s]);
        if (accumulates(i)) d &= sim_uninit_lanes(w, v, &i->dst, k);
        return d;
    case SIM_UK_LOW_FIRST:
        /* Packed pairs: a dword's two halves may swap places (op_sel). */
        for (int s = 0; s < n_src; s++) {
            const sim_operand *o = &i->src[s];
            unsigned n = o->n_dwords ? o->n_dwords : 1u;
            if (i->format == SIM_VOP3P) d &= one_of(w, v, o);
            else
                for (unsigned j = 0; j < n && (j <= k || n == 1); j++) d &= sim_uninit_lanes(w, v, o, j);
        }
        if (accumulates(i)) d &= sim_uninit_lanes(w, v, &i->dst, k);
        return d;
    default:
        for (int s = 0; s < n_src; s++) d &= all_of(w, v, &i->src[s]);
        if (accumulates(i)) d &= sim_uninit_lanes(w, v, &i->dst, k);
        return d;
    }
}

static void write_row(sim_uninit_wave *v, uint32_t reg, uint64_t exec, uint64_t defined, bool partial, uint32_t from) {
    if (reg >= SIM_UNINIT_ROWS) return;
    uint64_t old = v->v[reg];
    if (partial) defined |= old;
    if (reg >= v->n_rows) return;
    v->v[reg] = (old & ~exec) | (defined & exec);
    for (uint64_t bad = exec & ~defined; bad; bad &= bad - 1)
        v->bits[(size_t)reg * v->lanes + (unsigned)__builtin_ctzll(bad)] = ~0u;
    if (exec & ~v->v[reg]) v->v_from[reg] = from;
    else if (v->v[reg] == ~0ull) v->v_from[reg] = 0;
}

typedef struct outcome {
    uint64_t rows[32], mask;
    uint32_t from;
    unsigned n;
    bool partial, copy;
} outcome;

/* A copy keeps the bits: masks travel through vector registers when scalar ones run short. */
static void copy_bits(const sim_wave *w, sim_uninit_wave *v, const sim_inst *i, uint64_t exec, uint32_t from) {
    const sim_operand *s = &i->src[0];
    if (i->dst.kind != SIM_K_VGPR || (s->kind != SIM_K_VGPR && s->kind != SIM_K_SGPR)) return;
    for (uint64_t bad = exec & ~v->v[i->dst.reg]; bad; bad &= bad - 1) {
        unsigned lane = (unsigned)__builtin_ctzll(bad);
        uint32_t undefined = s->kind == SIM_K_VGPR ? sim_uninit_lane_bits(v, s->reg, lane) : sim_uninit_scalar(w, v, s, 0);
        if (undefined) sim_uninit_set_lane(v, i->dst.reg, lane, undefined, from);
    }
}

static void evaluate(const sim_wave *w, const sim_uninit_wave *v, const sim_uop *u, const sim_inst *i, uint8_t kind, outcome *r) {
    uint64_t exec = SIM_EXEC(w) & w->exec_full;
    r->n = i->dst.kind == SIM_K_NONE ? 0 : i->dst.n_dwords ? i->dst.n_dwords : 1;
    if (r->n > 32) r->n = 32;
    for (unsigned k = 0; k < r->n; k++) r->rows[k] = result(w, v, i, kind, k, exec);
    r->mask = i->sdst.kind == SIM_K_NONE ? ~0ull : result(w, v, i, kind == SIM_UK_LOW_FIRST ? SIM_UK_ALL : kind, 0, exec);
    if (i->sdst.kind != SIM_K_NONE && kind == SIM_UK_LOW_FIRST) r->mask = ~0ull; /* a carry that compilers do not use */
    r->from = origin(v, i, u);
    r->copy = kind == SIM_UK_COPY;
    r->partial = is16(i->dst.type) || i->dst_hi || i->lanes != SIM_LANES_PLAIN;
}

static bool commit(sim_uninit *o, sim_wave *w, sim_uninit_wave *v, const sim_uop *u, const sim_inst *i, const outcome *r) {
    uint64_t exec = SIM_EXEC(w) & w->exec_full;
    if (i->sdst.kind == SIM_K_SGPR) {
        uint64_t undefined = exec & ~r->mask;
        if (!set_scalar(o, w, v, u, i->sdst.reg, (uint32_t)undefined, r->from)) return false;
        if (w->lanes == 64 && !set_scalar(o, w, v, u, i->sdst.reg + 1u, (uint32_t)(undefined >> 32), r->from)) return false;
    }
    if (i->dst.kind == SIM_K_VGPR)
        for (unsigned k = 0; k < r->n; k++) write_row(v, i->dst.reg + k, exec, r->rows[k], r->partial, r->from);
    if (r->copy) copy_bits(w, v, i, exec, r->from);
    if (i->dst.kind == SIM_K_SGPR) {
        bool mask = i->dst.type == SIM_T_M64 || i->format == SIM_VOPC;
        for (unsigned k = 0; k < (mask && w->lanes == 64 && r->n < 2 ? 2 : r->n); k++) {
            uint64_t undefined = exec & ~r->rows[mask ? 0 : k];
            uint32_t x = mask ? (uint32_t)(undefined >> 32 * k) : undefined ? ~0u : 0;
            if (!set_scalar(o, w, v, u, i->dst.reg + k, x, r->from)) return false;
        }
    }
    return true;
}

static bool lane_moves(sim_uninit *o, sim_wave *w, sim_uninit_wave *v, const sim_uop *u, uint8_t kind) {
    const sim_inst *i = u->inst;
    uint64_t exec = SIM_EXEC(w) & w->exec_full;
    uint32_t from = origin(v, i, u);
    unsigned lane = exec ? (unsigned)__builtin_ctzll(exec) : 0;
    if (kind != SIM_UK_READFIRSTLANE) {
        if (sim_uninit_scalar(w, v, &i->src[1], 0)) return kind == SIM_UK_WRITELANE || set_scalar(o, w, v, u, i->dst.reg, ~0u, from);
        lane = scalar_value(w, &i->src[1], 0) & (w->lanes - 1u);
    }
    const sim_operand *s = &i->src[0];
    uint32_t undefined = s->kind == SIM_K_VGPR ? sim_uninit_lane_bits(v, s->reg, lane) : sim_uninit_scalar(w, v, s, 0);
    if (kind == SIM_UK_WRITELANE) {
        sim_uninit_set_lane(v, i->dst.reg, lane, undefined, from);
        return true;
    }
    return set_scalar(o, w, v, u, i->dst.reg, undefined, from);
}

/* Registers chosen by M0: which row is written must be right, or what is written there would never be known. */
static void moves_relative(const sim_wave *w, sim_uninit_wave *v, const sim_uop *u) {
    const sim_inst *i = u->inst;
    uint64_t exec = SIM_EXEC(w) & w->exec_full;
    uint32_t m0 = w->s[SIM_S_M0], d = i->dst.reg, n = i->dst.n_dwords ? i->dst.n_dwords : 1;
    if (i->dst.kind != SIM_K_VGPR) return;
    if (u->fn == sim_control_indexed) d += m0 >> 15 & 1 ? m0 & 0xff : 0;
    else if (strstr(i->meaning, "MOVRELSD_2")) d += m0 >> 16 & 0xff;
    else if (!strstr(i->meaning, "MOVRELS_")) d += m0 & 0xff;
    for (uint32_t k = 0; k < n; k++) write_row(v, d + k, exec, ~0ull, false, 0);
}

bool sim_uninit_valu(sim_uninit *o, sim_wave *w, sim_uninit_wave *v, const sim_uop *u, const sim_uninit_class *c) {
    const sim_inst *i = u->inst;
    uint64_t exec = SIM_EXEC(w) & w->exec_full;
    switch (c->kind) {
    case SIM_UK_READLANE:
    case SIM_UK_READFIRSTLANE:
    case SIM_UK_WRITELANE: return lane_moves(o, w, v, u, c->kind);
    case SIM_UK_MOVREL: moves_relative(w, v, u); return true;
    case SIM_UK_SWAP:
    case SIM_UK_SWAP_CROSS: {
        if (i->dst.kind != SIM_K_VGPR || i->src[0].kind != SIM_K_VGPR) return true;
        uint32_t a = i->dst.reg, b = i->src[0].reg;
        uint64_t da = v->v[a], db = v->v[b];
        bool partial = is16(i->dst.type);
        if (c->kind == SIM_UK_SWAP_CROSS) da = db = (da | db) & exec ? ~0ull : 0;
        uint32_t fa = v->v_from[a], fb = v->v_from[b];
        write_row(v, a, exec, db, partial, fb);
        write_row(v, b, exec, da, partial, fa);
        return true;
    }
    case SIM_UK_DUAL: {
        outcome x, y; /* both read before either writes */
        evaluate(w, v, u, i, valu_kind(i), &x);
        evaluate(w, v, u, i->dual, valu_kind(i->dual), &y);
        return commit(o, w, v, u, i, &x) && commit(o, w, v, u, i->dual, &y);
    }
    default: {
        outcome r;
        evaluate(w, v, u, i, c->kind, &r);
        if (c->kind == SIM_UK_DEFINES) exec = w->exec_full; /* matrix instructions write all lanes */
        if (c->kind == SIM_UK_DEFINES && i->dst.kind == SIM_K_VGPR) {
            for (unsigned k = 0; k < r.n; k++) write_row(v, i->dst.reg + k, exec, ~0ull, false, 0);
            return true;
        }
        return commit(o, w, v, u, i, &r);
    }
    }
}
