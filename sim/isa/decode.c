/* From bytes to sim_inst: which format a dword begins, and what all formats share. The formats themselves are in
 * decode_salu.c, decode_valu.c and decode_mem.c. */
#include "isa/decode_int.h"

#include <stdio.h>
#include <string.h>

bool sim_decode_row(sim_decoder *d, sim_inst *x, sim_format f, unsigned opcode) {
    const sim_entry *e = sim_entry_find(d->isa, f, opcode);
    if (!e) {
        d->bad = true;
        return false;
    }
    x->row = &e->row;
    x->mnemonic = e->row.mnemonic;
    x->meaning = e->row.meaning;
    x->format = e->row.format;
    x->opcode = e->row.opcode;
    x->is_store = e->flags & SIM_F_STORE;
    x->is_atomic = e->flags & SIM_F_ATOMIC;
    return true;
}

/* The formats that all targets tell apart alike; SIM_N_FORMAT: one of the others. */
static sim_format common_format(uint32_t w) {
    if (!(w >> 31)) return w >> 25 == 0x3f ? SIM_VOP1 : w >> 25 == 0x3e ? SIM_VOPC : SIM_VOP2;
    if (w >> 30 == 2) {
        switch (w >> 23) {
        case 0x17d: return SIM_SOP1;
        case 0x17e: return SIM_SOPC;
        case 0x17f: return SIM_SOPP;
        default: return w >> 28 == 0xb ? SIM_SOPK : SIM_SOP2;
        }
    }
    return SIM_N_FORMAT;
}

static void decode_gfx9(sim_decoder *d, sim_inst *x) {
    uint32_t w = d->w[0];
    switch (w >> 26) {
    case 0x30: sim_decode_smem(d, x); break;
    case 0x31: sim_decode_exp(d, x); break;
    case 0x34:
        if (d->isa == SIM_GFX950 && w >> 16 == 0xd3ac) sim_decode_vop3px2(d, x);
        else if (w >> 23 == 0x1a7) sim_decode_vop3p(d, x);
        else sim_decode_vop3(d, x);
        break;
    case 0x36: sim_decode_ds(d, x); break;
    case 0x37: sim_decode_flat(d, x); break;
    case 0x38: sim_decode_buffer(d, x, false); break;
    case 0x3a: sim_decode_buffer(d, x, true); break;
    case 0x3c: sim_decode_image(d, x, false); break;
    default: d->bad = true;
    }
}

static void decode_gfx10_11(sim_decoder *d, sim_inst *x, sim_inst *y) {
    uint32_t w = d->w[0];
    switch (w >> 26) {
    case 0x32:
        if (d->gen == 11) sim_decode_vopd(d, x, y);
        else d->bad = true;
        break;
    case 0x33:
        if (w >> 24 == 0xcc) sim_decode_vop3p(d, x);
        else if (w >> 24 == 0xcd && d->gen == 11) sim_decode_vinterp(d, x);
        else if (w >> 24 == 0xce && d->gen == 11) sim_decode_ldsdir(d, x);
        else d->bad = true;
        break;
    case 0x35: sim_decode_vop3(d, x); break;
    case 0x36: sim_decode_ds(d, x); break;
    case 0x37: sim_decode_flat(d, x); break;
    case 0x38: sim_decode_buffer(d, x, false); break;
    case 0x3a: sim_decode_buffer(d, x, true); break;
    case 0x3c: sim_decode_image(d, x, false); break;
    case 0x3d: sim_decode_smem(d, x); break;
    case 0x3e: sim_decode_exp(d, x); break;
    default: d->bad = true;
    }
}

static void decode_gfx12(sim_decoder *d, sim_inst *x, sim_inst *y) {
    uint32_t w = d->w[0];
    switch (w >> 26) {
    case 0x31: sim_decode_buffer(d, x, SIM_BITS(w, 21, 21)); break;
    case 0x32: sim_decode_vopd(d, x, y); break;
    case 0x33:
        if (w >> 24 == 0xcc) sim_decode_vop3p(d, x);
        else if (w >> 24 == 0xcd) sim_decode_vinterp(d, x);
        else if (w >> 24 == 0xce) sim_decode_ldsdir(d, x);
        else d->bad = true;
        break;
    case 0x34: sim_decode_image(d, x, false); break;
    case 0x35: sim_decode_vop3(d, x); break;
    case 0x36: sim_decode_ds(d, x); break;
    case 0x39: sim_decode_image(d, x, true); break;
    case 0x3b: sim_decode_flat(d, x); break;
    case 0x3d: sim_decode_smem(d, x); break;
    case 0x3e: sim_decode_exp(d, x); break;
    default: d->bad = true;
    }
}

static void decode_any(sim_decoder *d, sim_inst *x, sim_inst *y) {
    sim_format f = common_format(d->w[0]);
    switch (f) {
    case SIM_VOP1:
    case SIM_VOP2:
    case SIM_VOPC: sim_decode_vop12c(d, x, f); break;
    case SIM_SOP1:
    case SIM_SOP2:
    case SIM_SOPC:
    case SIM_SOPK:
    case SIM_SOPP: sim_decode_salu(d, x, f); break;
    default:
        if (d->gen == 9) decode_gfx9(d, x);
        else if (d->gen < 12) decode_gfx10_11(d, x, y);
        else decode_gfx12(d, x, y);
    }
}

static och_status refuse(const sim_decoder *d, size_t n_bytes, size_t pos, och_err *err) {
    char words[64] = "";
    int at = 0;
    for (unsigned i = 0; i < d->n && i < d->n_have; i++)
        at += snprintf(words + at, sizeof words - (size_t)at, " %08x", (unsigned)d->w[i]);
    if (!d->bad)
        return och_err_set(err, OCH_CORRUPT, "code ends at %zu bytes, inside the instruction at %zu:%s", n_bytes, pos, words);
    return och_err_set(err, OCH_CORRUPT, "no instruction of %s at offset %zu:%s", sim_isa_name(d->isa), pos, words);
}

och_status sim_decode(sim_isa isa, unsigned wave_size, const uint8_t *code, size_t n_bytes, size_t pos, sim_inst *out_x,
                      sim_inst *out_y, och_err *err) {
    memset(out_x, 0, sizeof *out_x);
    memset(out_y, 0, sizeof *out_y);
    if ((unsigned)isa >= SIM_N_ISA || isa == SIM_GFX1250)
        return och_err_set(err, OCH_UNSUPPORTED, "no decoding tables for %s", sim_isa_name(isa));
    if (pos > n_bytes || n_bytes - pos < 4)
        return och_err_set(err, OCH_CORRUPT, "code ends at %zu bytes, inside the instruction at %zu", n_bytes, pos);
    sim_decoder d = {.isa = isa, .gen = sim_isa_gen(isa), .wave_size = wave_size};
    size_t have = (n_bytes - pos) / 4;
    d.n_have = have < 6 ? (unsigned)have : 6;
    for (unsigned i = 0; i < d.n_have; i++) {
        const uint8_t *p = code + pos + 4 * (size_t)i;
        d.w[i] = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    }
    d.n = 1;
    decode_any(&d, out_x, out_y);
    if (d.bad || d.n > d.n_have) {
        memset(out_x, 0, sizeof *out_x);
        memset(out_y, 0, sizeof *out_y);
        return refuse(&d, n_bytes, pos, err);
    }
    for (sim_inst *p = out_x; p; p = p == out_x && out_x->dual ? out_y : NULL) {
        p->offset = (uint32_t)pos;
        p->isa = (uint8_t)isa;
        p->n_words = (uint8_t)d.n;
        memcpy(p->words, d.w, d.n * sizeof d.w[0]);
    }
    return OCH_OK;
}
