/* The vector ALU's formats, with the permutations and selections on their first source: DPP16, DPP8, SDWA. */
#include "isa/decode_int.h"

#include <string.h>

enum { SRC_DPP8 = 233, SRC_DPP8_FI = 234, SRC_SDWA = 249, SRC_DPP16 = 250, SRC_LITERAL = 255 };

static bool is_dpp(const sim_decoder *d, unsigned src0) {
    return src0 == SRC_DPP16 || (d->gen >= 10 && (src0 == SRC_DPP8 || src0 == SRC_DPP8_FI));
}

/* The control dword of DPP; returns the register that it names. `mods`: it carries neg and abs too. */
static unsigned take_dpp(sim_decoder *d, sim_inst *x, unsigned src0, bool mods) {
    uint32_t c = sim_take(d);
    if (src0 == SRC_DPP16) {
        x->lanes = SIM_LANES_DPP16;
        x->dpp_ctrl = (uint16_t)SIM_BITS(c, 16, 8);
        x->fetch_inactive = d->gen >= 10 && SIM_BITS(c, 18, 18);
        x->bound_ctrl = SIM_BITS(c, 19, 19);
        x->bank_mask = (uint8_t)SIM_BITS(c, 27, 24);
        x->row_mask = (uint8_t)SIM_BITS(c, 31, 28);
        for (int i = 0; mods && i < 2; i++) {
            x->src[i].neg = SIM_BITS(c, 20 + 2 * i, 20 + 2 * i);
            x->src[i].abs = SIM_BITS(c, 21 + 2 * i, 21 + 2 * i);
        }
    } else {
        x->lanes = SIM_LANES_DPP8;
        x->fetch_inactive = src0 == SRC_DPP8_FI;
        for (int i = 0; i < 8; i++) x->dpp8[i] = (uint8_t)(c >> (8 + 3 * i) & 7);
    }
    return c & 255;
}

/* A vector register of the short formats, whose bit 7 names the upper half where halves have names. */
static sim_operand short_vgpr(const sim_decoder *d, const sim_row_op *o, unsigned reg) {
    bool halves = o->half && d->gen >= 11;
    sim_operand v = sim_make_vgpr(d, o, halves ? reg & 127 : reg);
    v.hi = halves && reg >> 7;
    if (o->cls == SIM_C_ACC) v.reg = (uint16_t)(v.reg + 256);
    return v;
}

static void take_sdwa(sim_decoder *d, sim_inst *x, const sim_entry *e) {
    uint32_t c = sim_take(d);
    bool compare = x->format == SIM_VOPC;
    x->lanes = SIM_LANES_SDWA;
    x->sdwa_dst_sel = 6;
    if (!compare) {
        x->sdwa_dst_sel = (uint8_t)SIM_BITS(c, 10, 8);
        x->sdwa_dst_unused = (uint8_t)SIM_BITS(c, 12, 11);
        x->clamp = SIM_BITS(c, 13, 13);
        x->omod = (uint8_t)SIM_BITS(c, 15, 14);
        if (x->sdwa_dst_sel == 7 || x->sdwa_dst_unused == 3) d->bad = true;
    }
    for (const sim_row_op *o = e->op; o < e->op + 6 && o->role; o++) {
        if (o->role != SIM_R_SRC0 && o->role != SIM_R_SRC1) continue;
        unsigned i = o->role - SIM_R_SRC0, at = 16 + 8 * i;
        sim_operand *to = &x->src[i];
        unsigned reg = i ? SIM_BITS(d->w[0], 16, 9) : c & 255;
        *to = SIM_BITS(c, at + 7, at + 7) ? sim_make_ssrc(d, o, reg) : sim_make_vgpr(d, o, reg);
        to->sdwa_sel = (uint8_t)(c >> at & 7);
        to->sdwa_sext = c >> (at + 3) & 1;
        to->neg = c >> (at + 4) & 1;
        to->abs = c >> (at + 5) & 1;
        if (to->sdwa_sel == 7) d->bad = true;
    }
    if (compare && SIM_BITS(c, 15, 15))
        for (const sim_row_op *o = e->op; o < e->op + 6 && o->role; o++)
            if (o->role == SIM_R_SDST && (o->cls == SIM_C_VCC || d->gen == 9))
                x->sdst = sim_make_sgpr(d, o, SIM_BITS(c, 14, 8));
}

void sim_decode_vop12c(sim_decoder *d, sim_inst *x, sim_format f) {
    uint32_t w = d->w[0];
    unsigned op = f == SIM_VOP1 ? SIM_BITS(w, 16, 9) : f == SIM_VOPC ? SIM_BITS(w, 24, 17) : SIM_BITS(w, 30, 25);
    unsigned src0 = w & 511, vsrc1 = SIM_BITS(w, 16, 9), vdst = SIM_BITS(w, 24, 17);
    if (!sim_decode_row(d, x, f, op)) return;
    const sim_entry *e = sim_entry_of(x);
    bool dpp = is_dpp(d, src0), sdwa = src0 == SRC_SDWA && d->gen <= 10;
    if ((dpp || sdwa) && (e->flags & SIM_F_LITERAL || e->op[0].role == SIM_R_NONE)) {
        d->bad = true;
        return;
    }
    if (e->flags & SIM_F_LITERAL) sim_take_literal(d);
    sim_inst mods = {0};
    if (dpp) src0 = 256 + take_dpp(d, &mods, src0, true);
    for (const sim_row_op *o = e->op; o < e->op + 6 && o->role; o++) {
        sim_operand *to = sim_role_operand(x, o->role);
        if (o->cls == SIM_C_VCC || (o->cls == SIM_C_VCCX && d->gen == 9)) *to = sim_make_vcc(d, o);
        else if (o->cls == SIM_C_VCCX) *to = sim_make_exec(d, o);
        else if (o->cls == SIM_C_LIT) *to = sim_make_literal(o, d->literal);
        else if (o->role == SIM_R_DST) {
            if (o->cls == SIM_C_S && vdst > 127) d->bad = true;
            *to = o->cls == SIM_C_S ? sim_make_sgpr(d, o, vdst) : short_vgpr(d, o, vdst);
            x->dst_hi = to->hi;
        } else if (o->role == SIM_R_SRC0) {
            if (sdwa) continue;
            *to = src0 >= 256 ? short_vgpr(d, o, src0 - 256) : sim_make_ssrc(d, o, src0);
        } else if (!sdwa) *to = short_vgpr(d, o, vsrc1);
    }
    if (sdwa) take_sdwa(d, x, e);
    if (!dpp) return;
    x->lanes = mods.lanes;
    x->dpp_ctrl = mods.dpp_ctrl;
    x->fetch_inactive = mods.fetch_inactive;
    x->bound_ctrl = mods.bound_ctrl;
    x->bank_mask = mods.bank_mask;
    x->row_mask = mods.row_mask;
    memcpy(x->dpp8, mods.dpp8, sizeof x->dpp8);
    for (int i = 0; i < 2; i++) {
        x->src[i].neg = mods.src[i].neg;
        x->src[i].abs = mods.src[i].abs;
    }
}

/* The sources of the 64-bit formats. Literals came with gfx10, DPP with gfx11. */
static void long_sources(sim_decoder *d, sim_inst *x, const sim_entry *e) {
    uint32_t w1 = d->w[1];
    for (const sim_row_op *o = e->op; o < e->op + 6 && o->role; o++) {
        if (o->role < SIM_R_SRC0 || o->role > SIM_R_SRC2) continue;
        unsigned i = o->role - SIM_R_SRC0, raw = w1 >> (9 * i) & 511;
        if (o->cls == SIM_C_LIT) {
            x->src[i] = sim_make_literal(o, sim_take_literal(d));
            continue;
        }
        if (raw == SRC_LITERAL && d->gen == 9) d->bad = true;
        if (i == 0 && d->gen >= 11 && is_dpp(d, raw)) raw = 256 + take_dpp(d, x, raw, false);
        x->src[i] = sim_make_src(d, o, raw);
        if (o->cls == SIM_C_ACC && x->src[i].kind == SIM_K_VGPR) x->src[i].reg = (uint16_t)(x->src[i].reg + 256);
    }
}

void sim_decode_vop3(sim_decoder *d, sim_inst *x) {
    uint32_t w = d->w[0], w1 = sim_take(d);
    if (!sim_decode_row(d, x, SIM_VOP3, SIM_BITS(w, 25, 16))) return;
    const sim_entry *e = sim_entry_of(x);
    bool sd = x->format == SIM_VOP3SD;
    for (const sim_row_op *o = e->op; o < e->op + 6 && o->role; o++) {
        if (o->role == SIM_R_DST) {
            if (o->cls == SIM_C_S && w & 128) d->bad = true;
            x->dst = o->cls == SIM_C_S ? sim_make_sgpr(d, o, w & 127) : sim_make_vgpr(d, o, w & 255);
            if (o->cls == SIM_C_ACC) x->dst.reg = (uint16_t)(x->dst.reg + 256);
        } else if (o->role == SIM_R_SDST) {
            if (!sd && o->cls != SIM_C_EXEC && w & 128) d->bad = true;
            x->sdst = o->cls == SIM_C_EXEC ? sim_make_exec(d, o) : sim_make_sgpr(d, o, sd ? SIM_BITS(w, 14, 8) : w & 127);
        }
    }
    long_sources(d, x, e);
    for (int i = 0; i < 3; i++) {
        x->src[i].neg = w1 >> (29 + i) & 1;
        if (sd) continue;
        x->src[i].abs = w >> (8 + i) & 1;
        x->src[i].hi = w >> (11 + i) & 1;
    }
    if (!sd) x->dst_hi = x->dst.hi = w >> 14 & 1;
    x->clamp = w >> 15 & 1;
    x->omod = (uint8_t)SIM_BITS(w1, 28, 27);
    if (strstr(x->mnemonic, "v_permlane")) {
        x->fetch_inactive = x->src[0].hi;
        x->bound_ctrl = x->src[1].hi;
    } else if (strstr(x->mnemonic, "v_bitop3")) { /* the truth table is where the modifiers are */
        x->bitop3 = (uint8_t)(x->omod << 6 | SIM_BITS(w, 10, 8) << 3 | w1 >> 29);
        x->omod = 0;
        for (int i = 0; i < 3; i++) x->src[i].neg = x->src[i].abs = false;
    }
}

/* Widths that MFMA's mixed forms take from the formats of A and B: 8, 6 or 4 bits an element. */
static unsigned f8f6f4_dwords(unsigned format) {
    return format <= 1 ? 8 : format <= 3 ? 6 : 4;
}

static void mfma_sources(sim_decoder *d, sim_inst *x, const sim_entry *e, uint32_t w, uint32_t w1) {
    x->cbsz = (uint8_t)SIM_BITS(w, 10, 8);
    x->abid = (uint8_t)SIM_BITS(w, 14, 11);
    x->blgp = (uint8_t)SIM_BITS(w1, 31, 29);
    bool acc_cd = d->isa == SIM_GFX908 || SIM_BITS(w, 15, 15);
    bool mixed = strstr(x->mnemonic, "f8f6f4");
    for (const sim_row_op *o = e->op; o < e->op + 6 && o->role; o++) {
        sim_row_op r = *o;
        if (o->role == SIM_R_DST) {
            x->dst = sim_make_vgpr(d, o, w & 255);
            if (o->cls == SIM_C_VACC && acc_cd) x->dst.reg = (uint16_t)(x->dst.reg + 256);
            continue;
        }
        if (o->role < SIM_R_SRC0 || o->role > SIM_R_SRC2) continue;
        unsigned i = o->role - SIM_R_SRC0;
        if (mixed && i < 2) r.n = (uint8_t)f8f6f4_dwords(i ? x->blgp : x->cbsz);
        unsigned raw = w1 >> (9 * i) & 511;
        if (raw == SRC_LITERAL || (i < 2 && raw < 256)) d->bad = true;
        x->src[i] = sim_make_src(d, &r, raw);
        bool acc = i < 2 ? w1 >> (27 + i) & 1 : acc_cd;
        if (x->src[i].kind == SIM_K_VGPR && o->cls == SIM_C_VACC && acc) x->src[i].reg = (uint16_t)(x->src[i].reg + 256);
        /* Double precision has no use for a broadcast: the bits negate. */
        if (strstr(x->mnemonic, "_f64") && d->gen == 9 && d->isa >= SIM_GFX942) x->src[i].neg = x->blgp >> i & 1;
    }
}

/* The tables have wave32's widths: with twice the lanes a matrix takes half the registers, but gfx11's A and B, which
 * every 16 lanes hold whole. */
static void wave64_widths(const sim_decoder *d, sim_inst *x) {
    if (d->wave_size != 64 || (!strstr(x->mnemonic, "wmma") && !strstr(x->mnemonic, "swmmac"))) return;
    sim_operand *ops[4] = {&x->dst, &x->src[2], &x->src[0], &x->src[1]};
    for (int i = 0; i < (d->gen == 12 ? 4 : 2); i++)
        if (ops[i]->n_dwords > 1) ops[i]->n_dwords /= 2;
}

void sim_decode_vop3p(sim_decoder *d, sim_inst *x) {
    uint32_t w = d->w[0], w1 = sim_take(d);
    if (!sim_decode_row(d, x, SIM_VOP3P, SIM_BITS(w, 22, 16))) return;
    const sim_entry *e = sim_entry_of(x);
    if (e->flags & SIM_F_MFMA) {
        mfma_sources(d, x, e, w, w1);
        return;
    }
    for (const sim_row_op *o = e->op; o < e->op + 6 && o->role; o++)
        if (o->role == SIM_R_DST) x->dst = sim_make_vgpr(d, o, (w & 255) + (o->cls == SIM_C_ACC ? 256 : 0));
    long_sources(d, x, e);
    bool mix = strstr(x->mnemonic, "_mix"); /* there the bits of neg_hi are abs */
    for (int i = 0; i < 3; i++) {
        sim_operand *s = &x->src[i];
        s->neg = w1 >> (29 + i) & 1;
        s->neg_hi = w >> (8 + i) & 1;
        s->abs = mix && s->neg_hi;
        s->hi = w >> (11 + i) & 1;
        s->opsel_hi = i < 2 ? w1 >> (27 + i) & 1 : w >> 14 & 1;
        x->index_key[i] = s->hi;
    }
    x->clamp = w >> 15 & 1;
    wave64_widths(d, x);
}

void sim_decode_vop3px2(sim_decoder *d, sim_inst *x) {
    uint32_t w = d->w[0], w1 = sim_take(d), w2 = sim_take(d), w3 = sim_take(d);
    if (w2 >> 23 != 0x1a7) {
        d->bad = true;
        return;
    }
    if (!sim_decode_row(d, x, SIM_VOP3PX2, SIM_BITS(w2, 22, 16))) return;
    const sim_entry *e = sim_entry_of(x);
    mfma_sources(d, x, e, w2, w3);
    for (const sim_row_op *o = e->op; o < e->op + 6 && o->role; o++) {
        if (o->role != SIM_R_SCALE0 && o->role != SIM_R_SCALE1) continue;
        unsigned i = o->role - SIM_R_SCALE0, raw = w1 >> (9 * i) & 511;
        if (raw == SRC_LITERAL) d->bad = true;
        x->scale[i] = sim_make_src(d, o, raw);
        x->scale[i].hi = w >> (11 + i) & 1;
        x->scale[i].opsel_hi = w1 >> (27 + i) & 1;
    }
}

static void vopd_half(sim_decoder *d, sim_inst *x, unsigned op, unsigned src0, unsigned vsrc1, unsigned vdst) {
    if (!sim_decode_row(d, x, SIM_VOPD, op)) return;
    const sim_entry *e = sim_entry_of(x);
    for (const sim_row_op *o = e->op; o < e->op + 6 && o->role; o++) {
        sim_operand *to = sim_role_operand(x, o->role);
        if (o->cls == SIM_C_VCC) *to = sim_make_vcc(d, o);
        else if (o->cls == SIM_C_LIT) *to = sim_make_literal(o, sim_take_literal(d));
        else if (o->role == SIM_R_DST) *to = sim_make_vgpr(d, o, vdst);
        else if (o->role == SIM_R_SRC0) *to = sim_make_src(d, o, src0);
        else *to = sim_make_vgpr(d, o, vsrc1);
    }
}

void sim_decode_vopd(sim_decoder *d, sim_inst *x, sim_inst *y) {
    uint32_t w = d->w[0], w1 = sim_take(d);
    unsigned vdstx = w1 >> 24, opx = SIM_BITS(w, 25, 22);
    if (d->wave_size != 32 || opx > 13) {
        d->bad = true;
        return;
    }
    /* The destinations have different parities: Y's lowest bit is not stored. */
    vopd_half(d, x, opx, w & 511, SIM_BITS(w, 16, 9), vdstx);
    vopd_half(d, y, SIM_BITS(w, 21, 17), w1 & 511, SIM_BITS(w1, 16, 9), SIM_BITS(w1, 23, 17) << 1 | (~vdstx & 1));
    x->dual = y;
}

void sim_decode_vinterp(sim_decoder *d, sim_inst *x) {
    uint32_t w = d->w[0], w1 = sim_take(d);
    if (!sim_decode_row(d, x, SIM_VINTERP, d->gen == 12 ? SIM_BITS(w, 20, 16) : SIM_BITS(w, 22, 16))) return;
    const sim_entry *e = sim_entry_of(x);
    x->dst = sim_make_vgpr(d, &e->op[0], w & 255);
    long_sources(d, x, e);
    for (int i = 0; i < 3; i++) {
        x->src[i].neg = w1 >> (29 + i) & 1;
        x->src[i].hi = w >> (11 + i) & 1;
    }
    x->dst_hi = x->dst.hi = w >> 14 & 1;
    x->clamp = w >> 15 & 1;
    x->offset1 = (uint8_t)SIM_BITS(w, 10, 8); /* wait_exp */
}
