/* Binding of vector ALU instructions to rows, and the handler for those without modifiers. */
#include "isa/valu.h"

#include <string.h>
#if defined __x86_64__
#include <immintrin.h>
#else
#include <fenv.h>
#endif

void sim_valu_store(sim_wave *w, uint32_t d, const uint32_t *res, unsigned rows, uint64_t mask) {
    sim_vcode_at(0)->store(SIM_ROW(w, d), res, rows, w->lanes, mask);
}

static bool is_f32(unsigned t) { return t == SIM_VT_F32 || t == SIM_VT_FB || t == SIM_VT_PF32 || t == SIM_VT_MIX; }
static bool is_f64(unsigned t) { return t == SIM_VT_F64 || t == SIM_VT_DB; }
static bool is_f16(unsigned t) {
    return t == SIM_VT_F16 || t == SIM_VT_HB || t == SIM_VT_PF16 || t == SIM_VT_BF16 || t == SIM_VT_PBF16;
}

static void f16_flush_rows(uint32_t *d, unsigned lanes, bool both) {
    for (unsigned i = 0; i < lanes; i++) {
        if (!(d[i] & 0x7c00)) d[i] &= both ? 0xffff8000u : 0x8000u;
        if (both && !(d[i] & 0x7c000000)) d[i] &= 0x8000ffffu;
    }
}

void sim_valu_run(sim_wave *w, const sim_vcode *code, const sim_vrow *row, sim_vargs *a) {
    const uint32_t mode = w->mode;
    const bool d32 = is_f32(row->td), d64 = is_f64(row->td), d16 = is_f16(row->td);
    a->ieee = mode >> 9 & 1;
    a->gcn = w->isa <= SIM_GFX950;
    a->fnuz = w->isa == SIM_GFX942;
    a->ovfl = mode >> 23 & 1;
    a->flush = (mode >> (d32 ? 4 : 6) & 3) != 3;
    uint32_t flushed[2][SIM_MAX_LANES];
    if (row->td == SIM_VT_PBF16 && row->t[0] == SIM_VT_F32 && !(mode >> 4 & 1)) /* f32 to bf16 is integer work on the host */
        for (int i = 0; i < 2; i++) {
            for (unsigned l = 0; l < a->lanes; l++)
                flushed[i][l] = a->s[i][l] & 0x7f800000 ? a->s[i][l] : a->s[i][l] & 0x80000000;
            a->s[i] = flushed[i];
        }
    const bool s64 = is_f64(row->t[0]), s16 = is_f16(row->t[0]), s32 = is_f32(row->t[0]);
    if (!(d64 || d16 || s64 || s16) || (w->mode_plain && !(w->mxcsr & 0x8040))) {
        code->core(a);
        return;
    }
    /* f64 and f16 have fields of MODE of their own; the control word that the wave runs with is f32's. */
    uint32_t field_r = d64 || d16 || (!d32 && (s64 || s16)) ? mode >> 2 & 3 : mode & 3;
    uint32_t field_in = s32 ? mode >> 4 & 3 : mode >> 6 & 3, field_out = d32 ? mode >> 4 & 3 : mode >> 6 & 3;
    uint32_t tmp[3][2 * SIM_MAX_LANES];
    if (!(field_in & 1)) /* f16 inputs: nothing in the host flushes them */
        for (int i = 0; i < 3; i++)
            if (is_f16(row->t[i]) && row->t[i] != SIM_VT_BF16 && row->t[i] != SIM_VT_PBF16 && row->td != SIM_VT_U32) {
                memcpy(tmp[i], a->s[i], a->lanes * 4);
                f16_flush_rows(tmp[i], a->lanes, row->t[i] == SIM_VT_PF16);
                a->s[i] = tmp[i];
            }
#if defined __x86_64__
    static const uint32_t rc[4] = {0, 2, 1, 3};
    uint32_t x = 0x1f80u | rc[field_r] << 13;
    /* Between f16 and f32 only f32's own denormals are the host's to flush. */
    if (!(field_in & 1) && !s16) x |= 0x0040u;
    if (!(field_out & 2) && !d16) x |= 0x8000u;
    _mm_setcsr(x);
    code->core(a);
    _mm_setcsr(w->mxcsr);
#else
    static const int rc[4] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    int old = fegetround();
    fesetround(rc[field_r]);
    code->core(a);
    fesetround(old);
#endif
    if (d16 && !(field_out & 2) && row->td != SIM_VT_BF16 && row->td != SIM_VT_PBF16)
        f16_flush_rows(a->d, a->lanes, row->td == SIM_VT_PF16);
}

void sim_valu_finish(sim_wave *w, const sim_uop *u, const sim_vrow *row, const sim_vargs *a, uint32_t *res, uint64_t mask) {
    if (row->td == SIM_VT_M) {
        uint64_t m = a->cout & mask;
        if (u->flags & SIM_U_CMPX) {
            w->s[SIM_S_EXEC_LO] = (uint32_t)m;
            if (w->lanes == 64) w->s[SIM_S_EXEC_HI] = (uint32_t)(m >> 32);
            if (!(u->flags & SIM_U_CMPX_BOTH)) return;
        }
        sim_mask_write(w, u->d, m);
        return;
    }
    if (u->flags & SIM_U_DSTHI) {
        const uint32_t *old = SIM_ROW(w, u->d);
        for (unsigned i = 0; i < w->lanes; i++) res[i] = res[i] << 16 | (old[i] & 0xffff);
    } else if (u->flags & SIM_U_KEEP16) {
        const uint32_t *old = SIM_ROW(w, u->d);
        for (unsigned i = 0; i < w->lanes; i++) res[i] = (res[i] & 0xffff) | (old[i] & 0xffff0000);
    }
    ((const sim_vcode *)u->core)->store(SIM_ROW(w, u->d), res, sim_vt_rows(row->td), w->lanes, mask);
    if (row->flags & SIM_V_COUT) sim_mask_write(w, u->imm, a->cout & mask);
}

static const sim_uop *plain_from(sim_wave *w, const sim_uop *u, unsigned first) {
    const sim_vcode *code = u->core;
    const sim_vrow *row = sim_uop_vrow(u);
    uint32_t tmp[3][4 * SIM_MAX_LANES], res[4 * SIM_MAX_LANES];
    sim_vargs a = {.d = res, .lanes = w->lanes, .imm = u->imm};
    for (int i = 0; i < 3; i++) {
        if (row->t[i] == SIM_VT_M)
            a.cin = sim_mask_read(w, u->s[i]);
        else if (row->t[i] != SIM_VT_N)
            a.s[i] = sim_src_rows(w, u, i, sim_vt_rows(row->t[i]), tmp[i]);
        else
            a.s[i] = res; /* a row, though no lane of it is looked at */
    }
    if (row->flags & SIM_V_VCCIN) a.cin = SIM_VCC(w);
    sim_valu_run(w, code, row, &a);
    sim_valu_finish(w, u, row, &a, res, SIM_EXEC(w) & w->exec_full & (~0ull << first));
    return u + 1;
}
const sim_uop *sim_valu_plain(sim_wave *w, const sim_uop *u) { return plain_from(w, u, 0); }
const sim_uop *sim_valu_resume(sim_wave *w, const sim_uop *u, unsigned first) {
    if (!(u->flags & SIM_U_ALTERED)) return plain_from(w, u, first);
    if (!(u->aux[0] & SIM_A_DPP)) return sim_valu_general_from(w, u, first);
    /* A direct handler runs DPP with EXEC cut to the lanes that write; u->target is what it was. */
    const uint32_t lo = w->s[SIM_S_EXEC_LO], hi = w->s[SIM_S_EXEC_HI];
    const uint64_t exec = (uintptr_t)u->target;
    w->s[SIM_S_EXEC_LO] = (uint32_t)exec;
    if (w->lanes == 64) w->s[SIM_S_EXEC_HI] = (uint32_t)(exec >> 32);
    const sim_uop *next = sim_valu_general_from(w, u, first);
    w->s[SIM_S_EXEC_LO] = lo;
    w->s[SIM_S_EXEC_HI] = hi;
    return next;
}

unsigned sim_inst_op_sel(const sim_inst *inst) {
    return (unsigned)inst->src[0].hi | (unsigned)inst->src[1].hi << 1 | (unsigned)inst->src[2].hi << 2 |
           (unsigned)inst->dst_hi << 3;
}

static bool is_packed(unsigned t) { return t >= SIM_VT_PU16 && t <= SIM_VT_PBF16; }

/* What a direct handler does to a source of type t (SIM_A_*), or -1: it is the general handler's. */
static int alteration(const sim_inst *inst, const sim_vrow *row, int i, const sim_operand *o, bool acc) {
    const unsigned t = row->t[i];
    if (acc) {
        if (inst->src[2].neg || inst->src[2].abs) return -1;
        return sim_vt_is16(t) && inst->dst_hi ? SIM_A_HI : 0;
    }
    const int sign = (o->neg ? SIM_A_NEG : 0) | (o->abs ? SIM_A_ABS : 0);
    if (t == SIM_VT_MIX)
        return (o->opsel_hi ? SIM_A_HALF | (o->hi ? SIM_A_HI : 0) : 0) | sign | (o->neg_hi ? SIM_A_ABS : 0);
    if ((is_packed(t) || t == SIM_VT_PF32) && inst->format == SIM_VOP3P)
        return o->abs ? -1 : (o->hi ? SIM_A_HI : 0) | (o->opsel_hi ? 0 : SIM_A_OTHER) | sign | (o->neg_hi ? SIM_A_NEG_HI : 0);
    if (o->neg_hi) return -1;
    if (sim_vt_is16(t)) {
        const bool is_float = t == SIM_VT_F16 || t == SIM_VT_HB || t == SIM_VT_BF16;
        return sign && !is_float ? -1 : sign | (o->hi ? SIM_A_HI : 0);
    }
    const bool is_float = t == SIM_VT_F32 || t == SIM_VT_FB || is_f64(t);
    return o->hi || (sign && !is_float) ? -1 : sign;
}
/* Fills u->aux. False: the operation has modifiers that no direct handler knows. */
static bool alter_sources(const sim_inst *inst, const sim_vrow *row, int last, sim_uop *u) {
    if (inst->lanes == SIM_LANES_SDWA || inst->omod || (inst->dst_hi && !sim_vt_is16(row->td))) return false;
    if (row->flags & (SIM_V_RAW | SIM_V_HALF | SIM_V_BYTE | SIM_V_SRCHALF | SIM_V_SRCBYTE)) return false;
    if (inst->clamp && (is_f32(row->td) || is_f64(row->td) || is_f16(row->td))) return false;
    for (int i = 0; i <= last; i++) {
        if (row->t[i] == SIM_VT_N || row->t[i] == SIM_VT_M) continue;
        const bool acc = (row->flags & SIM_V_ACC) && i == last;
        const int how = alteration(inst, row, i, &inst->src[i], acc);
        if (how < 0) return false;
        u->aux[i] = (uint8_t)how;
        if (how) u->flags |= SIM_U_ALTERED;
    }
    return true;
}

bool sim_valu_is_plain(const sim_inst *inst, const sim_vrow *row) {
    if (inst->lanes != SIM_LANES_PLAIN) return false;
    if ((inst->omod || inst->dst_hi) && !(row->flags & SIM_V_RAW)) return false;
    if (row->flags & (SIM_V_HALF | SIM_V_BYTE | SIM_V_SRCHALF | SIM_V_SRCBYTE | SIM_V_DSTHI)) return false;
    if (row->flags & SIM_V_RAW) return !(sim_vt_is16(row->td) && sim_inst_op_sel(inst));
    if (inst->clamp && (is_f32(row->td) || is_f64(row->td) || is_f16(row->td))) return false;
    for (int i = 0; i < 3; i++) {
        const sim_operand *o = &inst->src[i];
        unsigned t = row->t[i];
        if (t == SIM_VT_N || o->kind == SIM_K_NONE) continue;
        if (t == SIM_VT_MIX && (o->opsel_hi || o->neg_hi)) return false;
        if (o->neg || o->abs || (t != SIM_VT_M && o->hi)) return false;
        if (inst->format == SIM_VOP3P && (is_packed(t) || t == SIM_VT_PF32) && (o->neg_hi || !o->opsel_hi)) return false;
    }
    return true;
}

/* 16-bit results on gfx9 clear the upper half, but for rows that say otherwise; later targets keep it. */
static bool keeps_half(sim_isa isa, const sim_vrow *row) {
    return isa > SIM_GFX950 || (row->flags & SIM_V_KEEP9);
}

static const char *row_name(const sim_inst *inst, sim_isa isa, char *buf, size_t n) {
    const char *name = inst->meaning;
    if (!strncmp(name, "V_CMPX_", 7)) {
        size_t len = strlen(name);
        if (len >= n) return name;
        memcpy(buf, "V_CMP_", 6);
        memcpy(buf + 6, name + 7, len - 6);
        return buf;
    }
    bool iu8 = !strcmp(name, "V_DOT4_I32_IU8"), iu4 = !strcmp(name, "V_DOT8_I32_IU4");
    if (iu8 || iu4) {
        memcpy(buf, name, 14);
        buf[14] = '_';
        bool both = isa == SIM_GFX1030; /* where the operation has no such bits and both are signed */
        buf[15] = both || inst->src[0].neg ? 'I' : 'U';
        buf[16] = both || inst->src[1].neg ? 'I' : 'U';
        buf[17] = 0;
        return buf;
    }
    return name;
}

/* gfx9 can make V_MOV_B32 choose its registers by M0: see s_set_gpr_idx_on. */
static const sim_uop *mov_gfx9(sim_wave *w, const sim_uop *u) {
    if (__builtin_expect(w->mode >> 27 & 1, 0)) return sim_valu_indexed_mov(w, u);
    const sim_vcode *code = u->core;
    return (u->sk[0] < SIM_SRC_SCALAR ? code->hot[w->lanes == 64] : code->hot_altered)(w, u);
}

sim_uop_fn *sim_valu_fused(const sim_uop *u, unsigned lanes) {
#if defined __x86_64__
    if (sim_host_level() < 2) return NULL;
    const int wide = lanes == 64, low = sim_vrow_find("V_ADD_CO_U32"), high = sim_vrow_find("V_ADD_CO_CI_U32");
    const sim_uop *t = u + 1;
    /* Carries in EXEC would change what the second one writes. */
    if (u->fn == sim_vcode_at(low)->hot[wide] && t->fn == sim_vcode_at(high)->hot[wide] && t->s[2] == u->imm &&
        u->imm <= SIM_S_VCC_LO)
        return sim_vadd64_avx512[wide];
#else
    (void)u, (void)lanes;
#endif
    return NULL;
}

sim_bound sim_bind_valu(sim_binder *b, const sim_inst *inst, sim_uop *u) {
    switch (inst->format) {
    case SIM_VOP1: case SIM_VOP2: case SIM_VOPC: case SIM_VOP3: case SIM_VOP3SD: case SIM_VOP3P: break;
    case SIM_VOPD: return sim_bind_vopd(b, inst, u);
    default: return SIM_BOUND_NO;
    }
    const sim_isa isa = sim_bind_isa(b);
    char buf[48];
    const char *name = row_name(inst, isa, buf, sizeof buf - 1);
    int i_row = -1;
    if (inst->clamp) {
        size_t len = strlen(name);
        if (len + 2 <= sizeof buf) {
            memmove(buf, name, len);
            memcpy(buf + len, "!", 2);
            i_row = sim_vrow_find(buf);
            buf[len] = 0;
            name = buf;
        }
    }
    if (i_row < 0) i_row = sim_vrow_find(name);
    if (i_row < 0) return sim_bind_vscale(b, inst, u);
    return sim_bind_vrow(b, inst, i_row, u);
}

sim_bound sim_bind_vrow(sim_binder *b, const sim_inst *inst, int i_row, sim_uop *u) {
    const sim_isa isa = sim_bind_isa(b);
    const sim_vrow *row = &sim_vrows[i_row];
    const sim_vcode *code = sim_vcode_at(i_row);
    bool plain = sim_valu_is_plain(inst, row), scalar = false, special = false;

    u->inst = inst;
    u->core = (void *)(uintptr_t)code;
    u->flags = 0;
    int last = -1;
    for (int i = 0; i < 3; i++)
        if (row->t[i] != SIM_VT_N) last = i;
    for (int i = 0; i < 3; i++) {
        const sim_operand *o = &inst->src[i];
        u->sk[i] = SIM_SRC_NONE;
        u->s[i] = 0;
        if (row->t[i] == SIM_VT_N) continue;
        if (row->t[i] == SIM_VT_M) {
            if (o->kind == SIM_K_CONST) return SIM_BOUND_NO; /* no encoding of a lane mask gives a constant */
            u->sk[i] = SIM_SRC_SCALAR;
            u->s[i] = o->kind == SIM_K_SGPR ? o->reg : SIM_S_VCC_LO;
            continue;
        }
        if ((row->flags & SIM_V_ACC) && i == last) o = &inst->dst;
        if (o->kind == SIM_K_LDS_DIRECT) return SIM_BOUND_NO;
        if (o->kind == SIM_K_SGPR) {
            scalar = true;
            special |= o->reg + sim_vt_rows(row->t[i]) > 128;
        }
        if (!sim_bind_src(b, u, i, o, sim_vt_rows(row->t[i]))) return SIM_BOUND_FAILED;
    }
    u->n_src = (uint8_t)(last + 1);
    u->imm = SIM_S_NULL;
    if (row->td == SIM_VT_M) {
        u->d = inst->sdst.kind == SIM_K_SGPR ? inst->sdst.reg : inst->dst.kind == SIM_K_SGPR ? inst->dst.reg : SIM_S_VCC_LO;
        if (!strncmp(inst->meaning, "V_CMPX_", 7)) {
            u->flags |= SIM_U_CMPX;
            if (isa <= SIM_GFX950) u->flags |= SIM_U_CMPX_BOTH;
        }
    } else {
        if (inst->dst.kind != SIM_K_VGPR) return SIM_BOUND_NO;
        u->d = sim_bind_row(b, inst->dst.reg);
        if (row->flags & SIM_V_COUT) u->imm = inst->sdst.kind == SIM_K_SGPR ? inst->sdst.reg : SIM_S_VCC_LO;
        if (row->flags & (SIM_V_DSTHI)) u->flags |= SIM_U_DSTHI;
        else if (sim_vt_is16(row->td) && inst->dst_hi) u->flags |= SIM_U_DSTHI;
        else if (sim_vt_is16(row->td) && keeps_half(isa, row)) u->flags |= SIM_U_KEEP16;
    }
    if ((row->flags & SIM_V_RAW) && !strncmp(row->name, "V_BITOP3", 8)) {
        u->imm = inst->bitop3;
        plain = inst->lanes == SIM_LANES_PLAIN && !(sim_inst_op_sel(inst) && sim_vt_is16(row->td));
    }
    const int wide = sim_bind_lanes(b) == 64;
    if (plain && !code->hot_altered) u->fn = sim_valu_plain;
    else if (plain) u->fn = special ? code->hot_altered : scalar ? code->hot_scalar[wide] : code->hot[wide];
    else if (code->hot_altered && alter_sources(inst, row, last, u)) u->fn = code->hot_altered;
    else u->fn = sim_valu_general;
    const bool dpp = inst->lanes == SIM_LANES_DPP16 || inst->lanes == SIM_LANES_DPP8;
    if (dpp && u->fn == code->hot_altered && u->sk[0] == SIM_SRC_ROW) sim_bind_dpp(b, inst, u);
    else if (dpp) u->fn = sim_valu_general;
    if (plain && isa <= SIM_GFX950 && !strcmp(row->name, "V_MOV_B32")) u->fn = mov_gfx9;
    return SIM_BOUND_UOP;
}

