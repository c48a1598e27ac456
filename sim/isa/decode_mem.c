/* The memory formats: DS, FLAT and its segments, MUBUF, MTBUF; and LDSDIR, EXP. Images: decode_image.c. */
#include "isa/decode_int.h"

#include <string.h>

/* A register of memory data; `acc`: the encoding says that it is an accumulation register. */
static sim_operand data_vgpr(const sim_decoder *d, const sim_row_op *o, unsigned reg, bool acc) {
    bool is_acc = o->cls == SIM_C_ACC || (o->cls == SIM_C_VACC && acc);
    return sim_make_vgpr(d, o, reg + (is_acc ? 256 : 0));
}

static bool has_acc_bit(const sim_decoder *d) {
    return d->isa == SIM_GFX90A || d->isa == SIM_GFX942 || d->isa == SIM_GFX950;
}

void sim_decode_ds(sim_decoder *d, sim_inst *x) {
    uint32_t w = d->w[0], w1 = sim_take(d);
    if (!sim_decode_row(d, x, SIM_DS, d->gen == 9 ? SIM_BITS(w, 24, 17) : SIM_BITS(w, 25, 18))) return;
    const sim_entry *e = sim_entry_of(x);
    bool acc = has_acc_bit(d) && SIM_BITS(w, 25, 25);
    x->gds = d->gen == 9 ? SIM_BITS(w, 16, 16) : d->gen < 12 && SIM_BITS(w, 17, 17);
    x->offset_imm = (int32_t)(w & 0xffff);
    x->two_offsets = strstr(x->mnemonic, "read2") || strstr(x->mnemonic, "write2") || strstr(x->mnemonic, "xchg2") ||
                     strstr(x->mnemonic, "_2addr");
    if (x->two_offsets) {
        x->offset_imm = (int32_t)(w & 0xff);
        x->offset1 = (uint8_t)SIM_BITS(w, 15, 8);
    }
    for (const sim_row_op *o = e->op; o < e->op + 6 && o->role; o++) {
        sim_operand *to = sim_role_operand(x, o->role);
        unsigned at = o->role == SIM_R_ADDR ? 0 : o->role == SIM_R_DATA ? 8 : o->role == SIM_R_DATA1 ? 16 : 24;
        *to = data_vgpr(d, o, w1 >> at & 255, acc);
    }
}

typedef struct flat_fields {
    unsigned op, vdst, addr, data, saddr;
    sim_format segment;
    bool has_vaddr; /* scratch */
    bool has_saddr, acc, returns;
} flat_fields;

static void flat_gfx9_11(sim_decoder *d, sim_inst *x, flat_fields *f) {
    static const sim_format segments[4] = {SIM_FLAT, SIM_SCRATCH, SIM_GLOBAL, SIM_N_FORMAT};
    uint32_t w = d->w[0], w1 = sim_take(d);
    bool gfx940 = d->isa == SIM_GFX942 || d->isa == SIM_GFX950;
    f->op = SIM_BITS(w, 24, 18);
    f->segment = segments[d->gen == 11 ? SIM_BITS(w, 17, 16) : SIM_BITS(w, 15, 14)];
    f->vdst = w1 >> 24;
    f->addr = w1 & 255;
    f->data = SIM_BITS(w1, 15, 8);
    f->saddr = SIM_BITS(w1, 22, 16);
    bool flat = f->segment == SIM_FLAT;
    if (d->gen == 9) {
        x->offset_imm = flat ? (int32_t)(w & 0xfff) : sim_sext(w & 0x1fff, 13);
        f->has_saddr = f->saddr != 127;
        f->acc = has_acc_bit(d) && SIM_BITS(w1, 23, 23);
        x->nv = !has_acc_bit(d) && SIM_BITS(w1, 23, 23);
        x->glc = SIM_BITS(w, 16, 16);
        x->slc = SIM_BITS(w, 17, 17);
        x->scc_bit = has_acc_bit(d) && SIM_BITS(w, 25, 25);
        x->sve = gfx940 && SIM_BITS(w, 13, 13);
        x->lds = !gfx940 && SIM_BITS(w, 13, 13);
        f->has_vaddr = gfx940 ? x->sve : !f->has_saddr;
    } else if (d->gen == 10) {
        x->offset_imm = flat ? (int32_t)(w & 0x7ff) : sim_sext(w & 0xfff, 12);
        f->has_saddr = f->saddr != 125 && f->saddr != 127;
        f->has_vaddr = f->saddr == 125;
        x->dlc = SIM_BITS(w, 12, 12);
        x->lds = SIM_BITS(w, 13, 13);
        x->glc = SIM_BITS(w, 16, 16);
        x->slc = SIM_BITS(w, 17, 17);
    } else {
        x->offset_imm = flat ? (int32_t)(w & 0xfff) : sim_sext(w & 0x1fff, 13);
        f->has_saddr = f->saddr != 124;
        x->sve = f->segment == SIM_SCRATCH && SIM_BITS(w1, 23, 23);
        f->has_vaddr = x->sve;
        x->dlc = SIM_BITS(w, 13, 13);
        x->glc = SIM_BITS(w, 14, 14);
        x->slc = SIM_BITS(w, 15, 15);
    }
    if (flat) f->has_saddr = false;
    f->returns = x->glc;
}

static void flat_gfx12(sim_decoder *d, sim_inst *x, flat_fields *f) {
    static const sim_format segments[4] = {SIM_FLAT, SIM_SCRATCH, SIM_GLOBAL, SIM_N_FORMAT};
    uint32_t w = d->w[0], w1 = sim_take(d), w2 = sim_take(d);
    f->op = SIM_BITS(w, 21, 14);
    f->segment = segments[SIM_BITS(w, 25, 24)];
    f->saddr = w & 127;
    f->vdst = w1 & 255;
    f->addr = w2 & 255;
    f->data = SIM_BITS(w1, 30, 23);
    x->offset_imm = sim_sext(w2 >> 8, 24);
    x->nv = SIM_BITS(w, 7, 7);
    x->sve = SIM_BITS(w1, 17, 17);
    x->scope = (uint8_t)SIM_BITS(w1, 19, 18);
    x->th = (uint8_t)SIM_BITS(w1, 22, 20);
    f->has_saddr = f->saddr != 124 && f->segment != SIM_FLAT;
    f->has_vaddr = x->sve;
    f->returns = x->th & 1;
}

void sim_decode_flat(sim_decoder *d, sim_inst *x) {
    flat_fields f = {0};
    if (d->gen == 12) flat_gfx12(d, x, &f);
    else flat_gfx9_11(d, x, &f);
    if (f.segment == SIM_N_FORMAT) {
        d->bad = true;
        return;
    }
    if (!sim_decode_row(d, x, f.segment, f.op)) return;
    const sim_entry *e = sim_entry_of(x);
    for (const sim_row_op *o = e->op; o < e->op + 6 && o->role; o++) {
        sim_operand *to = sim_role_operand(x, o->role);
        sim_row_op r = *o;
        switch (o->role) {
        case SIM_R_DST:
            if ((!x->is_atomic || f.returns) && !x->lds) *to = data_vgpr(d, o, f.vdst, f.acc);
            break;
        case SIM_R_DATA: *to = data_vgpr(d, o, f.data, f.acc); break;
        case SIM_R_ADDR:
            if (f.segment == SIM_SCRATCH && !f.has_vaddr) break;
            r.n = f.segment == SIM_FLAT || (f.segment == SIM_GLOBAL && !f.has_saddr) ? 2 : 1;
            r.type = r.n == 2 ? SIM_T_B64 : SIM_T_B32;
            *to = sim_make_vgpr(d, &r, f.addr);
            break;
        default:
            if (!f.has_saddr) break;
            r.n = f.segment == SIM_SCRATCH ? 1 : 2;
            r.type = r.n == 2 ? SIM_T_B64 : SIM_T_B32;
            *to = sim_make_sgpr(d, &r, f.saddr);
        }
    }
}

typedef struct buffer_fields {
    unsigned op, vdata, vaddr, srsrc, soffset;
    bool acc, returns;
} buffer_fields;

static void buffer_gfx9_11(sim_decoder *d, sim_inst *x, buffer_fields *f, bool typed) {
    uint32_t w = d->w[0], w1 = sim_take(d);
    bool slc54 = SIM_BITS(w1, 22, 22), tfe55 = SIM_BITS(w1, 23, 23);
    f->op = typed ? SIM_BITS(w, 18, 15) : d->gen == 9 ? SIM_BITS(w, 24, 18) : SIM_BITS(w, 25, 18);
    f->vaddr = w1 & 255;
    f->vdata = SIM_BITS(w1, 15, 8);
    f->srsrc = SIM_BITS(w1, 20, 16) << 2;
    f->soffset = w1 >> 24;
    x->offset_imm = (int32_t)(w & 0xfff);
    x->glc = SIM_BITS(w, 14, 14);
    if (typed) x->buf_format = (uint8_t)SIM_BITS(w, 25, 19);
    if (d->gen == 11) {
        x->slc = SIM_BITS(w, 12, 12);
        x->dlc = SIM_BITS(w, 13, 13);
        x->tfe = SIM_BITS(w1, 21, 21);
        x->offen = slc54;
        x->idxen = tfe55;
    } else {
        x->offen = SIM_BITS(w, 12, 12);
        x->idxen = SIM_BITS(w, 13, 13);
        if (d->gen == 10) {
            if (typed) f->op = SIM_BITS(w, 18, 16) | SIM_BITS(w1, 21, 21) << 3;
            x->dlc = SIM_BITS(w, 15, 15);
            x->lds = !typed && SIM_BITS(w, 16, 16);
            x->slc = slc54;
            x->tfe = tfe55;
        } else {
            f->acc = has_acc_bit(d) && tfe55;
            x->tfe = !has_acc_bit(d) && tfe55;
            x->lds = !typed && SIM_BITS(w, 16, 16);
            x->slc = typed ? slc54 : SIM_BITS(w, 17, 17);
            x->scc_bit = has_acc_bit(d) && (typed ? SIM_BITS(w1, 21, 21) : SIM_BITS(w, 15, 15));
        }
    }
    f->returns = x->glc;
}

static void buffer_gfx12(sim_decoder *d, sim_inst *x, buffer_fields *f) {
    uint32_t w = d->w[0], w1 = sim_take(d), w2 = sim_take(d);
    f->op = SIM_BITS(w, 20, 14);
    f->soffset = w & 127;
    f->vdata = w1 & 255;
    f->srsrc = SIM_BITS(w1, 17, 9);
    f->vaddr = w2 & 255;
    x->offset_imm = sim_sext(w2 >> 8, 24);
    x->nv = SIM_BITS(w, 7, 7);
    x->tfe = SIM_BITS(w, 22, 22);
    x->scope = (uint8_t)SIM_BITS(w1, 19, 18);
    x->th = (uint8_t)SIM_BITS(w1, 22, 20);
    x->buf_format = (uint8_t)SIM_BITS(w1, 29, 23);
    x->offen = SIM_BITS(w1, 30, 30);
    x->idxen = SIM_BITS(w1, 31, 31);
    f->returns = x->th & 1;
    if (f->srsrc > 127) d->bad = true;
}

void sim_decode_buffer(sim_decoder *d, sim_inst *x, bool typed) {
    buffer_fields f = {0};
    if (d->gen == 12) buffer_gfx12(d, x, &f);
    else buffer_gfx9_11(d, x, &f, typed);
    if (!sim_decode_row(d, x, typed ? SIM_MTBUF : SIM_MUBUF, f.op)) return;
    const sim_entry *e = sim_entry_of(x);
    for (const sim_row_op *o = e->op; o < e->op + 6 && o->role; o++) {
        sim_operand *to = sim_role_operand(x, o->role);
        sim_row_op r = *o;
        switch (o->role) {
        case SIM_R_DST:
            if ((x->is_atomic && !f.returns) || x->lds) break;
            r.n = (uint8_t)(r.n + x->tfe);
            *to = data_vgpr(d, &r, f.vdata, f.acc);
            break;
        case SIM_R_DATA: *to = data_vgpr(d, o, f.vdata, f.acc); break;
        case SIM_R_ADDR:
            r.n = (uint8_t)(x->offen + x->idxen);
            if (r.n) *to = sim_make_vgpr(d, &r, f.vaddr);
            break;
        case SIM_R_BASE:
            r.n = 4;
            *to = sim_make_sgpr(d, &r, f.srsrc);
            break;
        default: /* soffset */
            r.type = SIM_T_B32;
            if (f.soffset == 255) d->bad = true;
            else *to = sim_make_ssrc(d, &r, f.soffset);
        }
    }
}

void sim_decode_ldsdir(sim_decoder *d, sim_inst *x) {
    uint32_t w = d->w[0];
    if (!sim_decode_row(d, x, SIM_LDSDIR, SIM_BITS(w, 21, 20))) return;
    x->dst = sim_make_vgpr(d, &sim_entry_of(x)->op[0], w & 255);
    x->offset_imm = (int32_t)SIM_BITS(w, 15, 8); /* attr << 2 | channel */
    x->offset1 = (uint8_t)SIM_BITS(w, 19, 16);   /* wait_vdst */
    x->glc = d->gen == 12 && SIM_BITS(w, 23, 23); /* wait_vm_vsrc */
}

void sim_decode_exp(sim_decoder *d, sim_inst *x) {
    uint32_t w = d->w[0], w1 = sim_take(d);
    if (!sim_decode_row(d, x, SIM_EXP, 0)) return;
    const sim_entry *e = sim_entry_of(x);
    for (unsigned i = 0; i < 4; i++) *sim_role_operand(x, e->op[i].role) = sim_make_vgpr(d, &e->op[i], w1 >> (8 * i) & 255);
    x->dmask = (uint8_t)(w & 15);
    x->buf_format = (uint8_t)SIM_BITS(w, 9, 4); /* target */
    x->sve = SIM_BITS(w, 11, 11);               /* done */
    x->d16 = d->gen < 11 && SIM_BITS(w, 10, 10); /* compressed */
    x->lwe = d->gen < 11 ? SIM_BITS(w, 12, 12) : SIM_BITS(w, 13, 13); /* valid mask; row */
}
