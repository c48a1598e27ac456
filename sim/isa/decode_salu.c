/* SOP1, SOP2, SOPC, SOPK, SOPP and SMEM. */
#include "isa/decode_int.h"

#include <string.h>

void sim_decode_salu(sim_decoder *d, sim_inst *x, sim_format f) {
    uint32_t w = d->w[0];
    unsigned op = f == SIM_SOP1   ? SIM_BITS(w, 15, 8)
                  : f == SIM_SOP2 ? SIM_BITS(w, 29, 23)
                  : f == SIM_SOPK ? SIM_BITS(w, 27, 23)
                                  : SIM_BITS(w, 22, 16);
    if (!sim_decode_row(d, x, f, op)) return;
    const sim_entry *e = sim_entry_of(x);
    if (f == SIM_SOPK || f == SIM_SOPP) x->simm16 = sim_sext(w & 0xffff, 16);
    if (e->flags & SIM_F_LITERAL) sim_take_literal(d);
    if (f == SIM_SOPP) return;
    for (const sim_row_op *o = e->op; o < e->op + 6 && o->role; o++) {
        sim_operand *to = sim_role_operand(x, o->role);
        if (o->cls == SIM_C_LIT) *to = sim_make_literal(o, d->literal);
        else if (o->role == SIM_R_DST || f == SIM_SOPK) *to = sim_make_sgpr(d, o, SIM_BITS(w, 22, 16));
        else if (o->cls == SIM_C_IMM) *to = sim_make_imm(o, o->role == SIM_R_SRC0 ? w & 255 : SIM_BITS(w, 15, 8));
        else if (o->role == SIM_R_SRC0) *to = sim_make_ssrc(d, o, w & 255);
        else *to = sim_make_ssrc(d, o, SIM_BITS(w, 15, 8)); /* src[1], or FMAMK's addend */
    }
    if (f == SIM_SOPK && d->has_literal) {
        static const sim_row_op b32 = {SIM_R_SRC0, SIM_T_B32, 1, false, SIM_C_LIT};
        x->src[0] = sim_make_literal(&b32, d->literal);
    }
}

void sim_decode_smem(sim_decoder *d, sim_inst *x) {
    uint32_t w = d->w[0], w1 = sim_take(d);
    unsigned op = d->gen == 12 ? SIM_BITS(w, 18, 13) : SIM_BITS(w, 25, 18);
    if (!sim_decode_row(d, x, SIM_SMEM, op)) return;
    const sim_entry *e = sim_entry_of(x);
    unsigned soffset = SIM_BITS(w1, 31, 25);
    bool has_soffset;
    if (d->gen == 9) {
        bool imm = SIM_BITS(w, 17, 17), soffset_en = SIM_BITS(w, 14, 14);
        if (imm) x->offset_imm = sim_sext(SIM_BITS(w1, 20, 0), 21);
        has_soffset = !imm || soffset_en;
        if (!imm && !soffset_en) soffset = w1 & 127;
        x->glc = SIM_BITS(w, 16, 16);
        x->nv = SIM_BITS(w, 15, 15);
    } else if (d->gen == 12) {
        x->offset_imm = sim_sext(SIM_BITS(w1, 23, 0), 24);
        has_soffset = soffset != 124;
        x->nv = SIM_BITS(w, 20, 20);
        x->scope = (uint8_t)SIM_BITS(w, 22, 21);
        x->th = (uint8_t)SIM_BITS(w, 24, 23);
    } else {
        x->offset_imm = sim_sext(SIM_BITS(w1, 20, 0), 21);
        has_soffset = soffset != (d->gen == 10 ? 125 : 124);
        x->glc = d->gen == 10 ? SIM_BITS(w, 16, 16) : SIM_BITS(w, 14, 14);
        x->dlc = d->gen == 10 ? SIM_BITS(w, 14, 14) : SIM_BITS(w, 13, 13);
    }
    for (const sim_row_op *o = e->op; o < e->op + 6 && o->role; o++) {
        sim_operand *to = sim_role_operand(x, o->role);
        sim_row_op r = *o;
        switch (o->role) {
        case SIM_R_BASE:
            if (strstr(x->mnemonic, "buffer")) r.n = 4, r.type = SIM_T_RSRC;
            *to = sim_make_sgpr(d, &r, SIM_BITS(w, 5, 0) << 1);
            break;
        case SIM_R_SOFF:
            if (has_soffset) *to = sim_make_sgpr(d, o, soffset);
            break;
        case SIM_R_DST:
            if (!x->is_atomic || x->glc) *to = sim_make_sgpr(d, o, SIM_BITS(w, 12, 6));
            break;
        default:
            *to = o->cls == SIM_C_IMM ? sim_make_imm(o, SIM_BITS(w, 12, 6)) : sim_make_sgpr(d, o, SIM_BITS(w, 12, 6));
        }
    }
}
