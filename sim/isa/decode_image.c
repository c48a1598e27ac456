/* Images: MIMG, and gfx12's VIMAGE and VSAMPLE. How many address registers there are follows from the operation's name,
 * the dimension and the width of coordinates and gradients. */
#include "isa/decode_int.h"

#include <string.h>

enum { DIM_1D, DIM_2D, DIM_3D, DIM_CUBE, DIM_1D_ARRAY, DIM_2D_ARRAY, DIM_2D_MSAA, DIM_2D_MSAA_ARRAY };

/* Whether the name has this part between underscores. */
static bool has_part(const char *name, const char *part) {
    size_t n = strlen(part);
    for (const char *p = strstr(name, part); p; p = strstr(p + 1, part))
        if (p > name && p[-1] == '_' && (p[n] == '_' || !p[n])) return true;
    return false;
}

static unsigned n_addresses(const sim_decoder *d, const sim_inst *x) {
    static const uint8_t coords[8] = {1, 2, 3, 3, 2, 3, 3, 4}, gradients[8] = {2, 4, 6, 4, 2, 4, 4, 4};
    const char *m = x->mnemonic;
    unsigned extra = 0, components = coords[x->dim], n_grad = 0;
    bool g16 = has_part(m, "g16");
    if (strstr(m, "resinfo")) components = 1;
    else if (strstr(m, "_mip")) components++;
    else if (strstr(m, "sample") || strstr(m, "gather") || strstr(m, "get_lod")) {
        extra = has_part(m, "o") + (has_part(m, "b") || false) + has_part(m, "c");
        components += has_part(m, "l") || has_part(m, "cl");
        if (has_part(m, "d") || has_part(m, "cd")) n_grad = gradients[x->dim];
    }
    unsigned n = extra + (x->a16 ? (components + 1) / 2 : components);
    bool half_grad = g16 || (x->a16 && d->gen == 9);
    if (half_grad) n_grad = (n_grad / 2 + 1) & ~1u;
    return n + n_grad;
}

static unsigned bit_count(unsigned v) {
    return (unsigned)__builtin_popcount(v);
}

typedef struct image_fields {
    unsigned op, vdata, srsrc, samp;
    unsigned n_encoded;     /* address registers named one by one; the last begins the rest */
    uint8_t vaddr[13];
    bool returns;
} image_fields;

static void image_gfx9_11(sim_decoder *d, sim_inst *x, image_fields *f) {
    uint32_t w = d->w[0], w1 = sim_take(d);
    unsigned nsa = 0;
    f->vaddr[0] = (uint8_t)w1;
    f->vdata = SIM_BITS(w1, 15, 8);
    f->srsrc = SIM_BITS(w1, 20, 16) << 2;
    x->dmask = (uint8_t)SIM_BITS(w, 11, 8);
    if (d->gen == 11) {
        f->op = SIM_BITS(w, 25, 18);
        f->samp = SIM_BITS(w1, 30, 26) << 2;
        nsa = w & 1;
        x->dim = (uint8_t)SIM_BITS(w, 4, 2);
        x->unorm = SIM_BITS(w, 7, 7);
        x->slc = SIM_BITS(w, 12, 12);
        x->dlc = SIM_BITS(w, 13, 13);
        x->glc = SIM_BITS(w, 14, 14);
        x->r128 = SIM_BITS(w, 15, 15);
        x->a16 = SIM_BITS(w, 16, 16);
        x->d16 = SIM_BITS(w, 17, 17);
        x->tfe = SIM_BITS(w1, 21, 21);
        x->lwe = SIM_BITS(w1, 22, 22);
    } else {
        f->op = SIM_BITS(w, 24, 18) | (w & 1) << 7;
        f->samp = SIM_BITS(w1, 25, 21) << 2;
        x->unorm = SIM_BITS(w, 12, 12);
        x->glc = SIM_BITS(w, 13, 13);
        x->tfe = SIM_BITS(w, 16, 16);
        x->lwe = SIM_BITS(w, 17, 17);
        x->slc = SIM_BITS(w, 25, 25);
        x->d16 = w1 >> 31;
        if (d->gen == 10) {
            nsa = SIM_BITS(w, 2, 1);
            x->dim = (uint8_t)SIM_BITS(w, 5, 3);
            x->dlc = SIM_BITS(w, 7, 7);
            x->r128 = SIM_BITS(w, 15, 15);
            x->a16 = SIM_BITS(w1, 30, 30);
        } else {
            x->sve = SIM_BITS(w, 14, 14); /* da: an array */
            x->a16 = SIM_BITS(w, 15, 15);
            x->scc_bit = d->isa == SIM_GFX90A && SIM_BITS(w, 7, 7);
        }
    }
    f->n_encoded = 1 + 4 * nsa;
    for (unsigned i = 0; i < nsa; i++) {
        uint32_t more = sim_take(d);
        for (unsigned k = 0; k < 4; k++) f->vaddr[1 + 4 * i + k] = (uint8_t)(more >> (8 * k));
    }
    f->returns = x->glc;
}

static void image_gfx12(sim_decoder *d, sim_inst *x, image_fields *f, bool sample) {
    uint32_t w = d->w[0], w1 = sim_take(d), w2 = sim_take(d);
    f->op = SIM_BITS(w, 21, 14) + (sample ? 256 : 0);
    f->vdata = w1 & 255;
    f->srsrc = SIM_BITS(w1, 17, 9);
    x->dim = (uint8_t)SIM_BITS(w, 2, 0);
    x->r128 = SIM_BITS(w, 4, 4);
    x->d16 = SIM_BITS(w, 5, 5);
    x->a16 = SIM_BITS(w, 6, 6);
    x->nv = SIM_BITS(w, 7, 7);
    x->dmask = (uint8_t)SIM_BITS(w, 25, 22);
    x->scope = (uint8_t)SIM_BITS(w1, 19, 18);
    x->th = (uint8_t)SIM_BITS(w1, 22, 20);
    for (unsigned k = 0; k < 4; k++) f->vaddr[k] = (uint8_t)(w2 >> (8 * k));
    f->n_encoded = 4;
    if (sample) {
        x->tfe = SIM_BITS(w, 3, 3);
        x->unorm = SIM_BITS(w, 13, 13);
        x->lwe = SIM_BITS(w1, 8, 8);
        f->samp = SIM_BITS(w1, 31, 23);
    } else {
        x->tfe = SIM_BITS(w1, 23, 23);
        f->vaddr[4] = (uint8_t)(w1 >> 24);
        f->n_encoded = 5;
    }
    f->returns = x->th & 1;
    if (f->srsrc > 127 || f->samp > 127) d->bad = true;
}

static void image_addresses(const sim_decoder *d, sim_inst *x, const sim_row_op *o, const image_fields *f) {
    sim_row_op r = *o;
    r.n = 1;
    /* gfx9 does not say the dimension: the resource does; four registers cover every load and sample of one level. */
    unsigned n = d->gen == 9 ? 4 : n_addresses(d, x);
    x->n_vaddr = (uint8_t)(n < 13 ? n : 13);
    for (unsigned i = 0; i < x->n_vaddr; i++) {
        unsigned reg = i < f->n_encoded ? f->vaddr[i] : f->vaddr[f->n_encoded - 1] + (i - f->n_encoded + 1);
        x->vaddr[i] = sim_make_vgpr(d, &r, reg & 255);
    }
}

void sim_decode_image(sim_decoder *d, sim_inst *x, bool sample) {
    image_fields f = {0};
    if (d->gen == 12) image_gfx12(d, x, &f, sample);
    else image_gfx9_11(d, x, &f);
    if (!sim_decode_row(d, x, SIM_MIMG, f.op)) return;
    const sim_entry *e = sim_entry_of(x);
    unsigned n = bit_count(x->dmask);
    if (strstr(x->mnemonic, "gather4") || strstr(x->mnemonic, "msaa_load")) n = 4;
    if (n == 0) n = 1;
    if (x->d16 && !x->is_atomic) n = (n + 1) / 2;
    bool compare = strstr(x->mnemonic, "cmpswap");
    for (const sim_row_op *o = e->op; o < e->op + 6 && o->role; o++) {
        sim_row_op r = *o;
        switch (o->role) {
        case SIM_R_DST:
            if (x->is_atomic && !f.returns) break;
            r.n = (uint8_t)(compare ? (n + 1) / 2 : n + x->tfe);
            x->dst = sim_make_vgpr(d, &r, f.vdata);
            break;
        case SIM_R_DATA:
            r.n = (uint8_t)n;
            x->data = sim_make_vgpr(d, &r, f.vdata);
            break;
        case SIM_R_ADDR: image_addresses(d, x, o, &f); break;
        case SIM_R_BASE:
            r.n = x->r128 ? 4 : 8;
            x->base = sim_make_sgpr(d, &r, f.srsrc);
            break;
        case SIM_R_SAMP:
            r.n = 4;
            x->samp = sim_make_sgpr(d, &r, f.samp);
            break;
        default: break;
        }
    }
}
