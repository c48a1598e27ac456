/* Matrix instructions: binding, and the handlers around the kernels. Layouts and rows are in matrix.def.
 *
 * EXEC is ignored: MFMA works on all lanes whatever it says; WMMA and SWMMAC ask for all lanes, and a wave that breaks the
 * rule gets the result of full lanes. MODE is ignored too: rounding is to nearest even, denormals are kept, but for the
 * 16-bit floats of gfx90a, where inputs and results are flushed (MIOpen's documentation of MI200).
 *
 * Order of float sums. f32, xf32 and f64: a chain of fused multiply-adds over ascending k. 16-bit floats on gfx908 and
 * gfx90a: products of four k (two, for the bf16 forms without _1k) are added in pairs, then to the accumulator. Both orders
 * are those that Xie et al., "MMA-Sim" (arXiv:2511.10909), measured on silicon. Later hardware sums several products with
 * truncation before it rounds, in ways partly unpublished, and users found gfx1151 not even exact where f32 would be (terms
 * of unlike sign); here all that is a chain in f32, a scaled form's block of 32 by itself before it is scaled and added.
 * Results of 16 bits are summed in f32 and rounded once. What is claimed of it is in the list of meanings. */
#include "isa/matrix.h"

#include "exec/bind.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

enum type { F64, F32, XF32, F16, BF16, I32, I8, IU8, IU4, FP8, BF8, F8F6F4 };
static const uint8_t type_bits[] = {64, 32, 32, 16, 16, 32, 8, 8, 4, 8, 8, 8};

typedef struct layout_row { const char *lane, *element; } layout_row;
enum {
#define LAYOUT(id, lane, element) L_##id,
#include "isa/matrix.def"
    N_LAYOUT
};
static const layout_row layouts[N_LAYOUT] = {
#define LAYOUT(id, lane, element) {lane, element},
#include "isa/matrix.def"
};

typedef struct matrix_row {
    const char *name, *alias;
    uint32_t isas;
    uint8_t m, n, k, b, ta, tb, td, layout[2][3], flags;
} matrix_row;
static const matrix_row rows[] = {
#define MATRIX(name, alias, isas, m, n, k, b, ta, tb, td, a32, b32, d32, a64, b64, d64, flags) \
    {name, alias, isas, m, n, k, b, ta, tb, td, {{L_##a32, L_##b32, L_##d32}, {L_##a64, L_##b64, L_##d64}}, flags},
#include "isa/matrix.def"
};
#define N_ROWS (sizeof rows / sizeof rows[0])

/* A row in one wave size. */
typedef struct plan {
    const matrix_row *row;
    const sim_mx_strips *a, *b, *d;
    const sim_mx_strips *narrow[2]; /* F8F6F4: 6 and 4 bits */
    const sim_mx_strips *d_hi;      /* 16-bit results in the upper halves */
    uint8_t lanes, span, a_regs, b_regs, d_regs;
} plan;

static plan plans[N_ROWS][2];
static struct strips_entry { uint8_t layout, bits, lanes, n_inner; sim_mx_strips strips; } pool[96];
static size_t n_pool;
static float lut_fnuz[2][256], lut_ocp[2][256], lut6[2][64], lut4[16];

/* The sum of the bits that `names` gives to the index values v[0..3] of the letters "xkbs" (x: o, i or j). */
static unsigned place(const char *names, const unsigned v[5]) {
    static const char letters[] = "okbsij";
    unsigned r = 0;
    for (unsigned bit = 0; names[2 * bit]; bit++) {
        unsigned which = (unsigned)(strchr(letters, names[2 * bit]) - letters);
        if (which < 5) r |= (v[which] >> (names[2 * bit + 1] - '0') & 1) << bit;
    }
    return r;
}

/* Expands a layout for elements of `bits` bits. Inputs: a strip for each k, or, of a sparse A, for each stored value (chunk of
 * four k times two); outputs: for each row i of each block, block major. */
static const sim_mx_strips *expand(unsigned layout, unsigned bits, unsigned lanes, unsigned n, bool output, unsigned m) {
    for (size_t i = 0; i < n_pool; i++)
        if (pool[i].layout == layout && pool[i].bits == bits && pool[i].lanes == lanes && pool[i].n_inner == n)
            return &pool[i].strips;
    if (n_pool == sizeof pool / sizeof pool[0] || n > SIM_MX_MAX_STRIPS) return NULL;
    struct strips_entry *e = &pool[n_pool++];
    *e = (struct strips_entry){(uint8_t)layout, (uint8_t)bits, (uint8_t)lanes, (uint8_t)n, {{0}, {0}, {0}}};
    const layout_row *l = &layouts[layout];
    bool sparse = strchr(l->element, 's');
    for (unsigned s = 0; s < n; s++) {
        unsigned v[5] = {0, s, 0, 0, 0}; /* o k b s i */
        if (output) v[1] = 0, v[2] = s / m, v[4] = s % m;
        else if (sparse) v[1] = s / 2 * 4, v[3] = s % 2;
        unsigned elem = place(l->element, v);
        e->strips.elem[s] = (uint8_t)elem;
        e->strips.shift[s] = (uint8_t)(elem * bits % 32);
        e->strips.off[s] = (uint16_t)(elem * bits / 32 * lanes + place(l->lane, v));
    }
    return &e->strips;
}

static unsigned regs_of(const sim_mx_strips *t, unsigned n, unsigned lanes, unsigned bits) {
    unsigned most = 0;
    for (unsigned s = 0; s < n; s++)
        if (t->off[s] / lanes > most) most = t->off[s] / lanes;
    return most + (bits == 64 ? 2 : 1);
}

/* A small float of e exponent and m mantissa bits. nan: 'o' OCP fp8 (all ones alone), 'i' IEEE (inf and NaN), 'z' FNUZ (minus
 * zero alone), 0 none. */
static float small_float(unsigned code, unsigned e, unsigned m, int bias, char nan) {
    unsigned mant = code & ((1u << m) - 1), expo = code >> m & ((1u << e) - 1), sign = code >> (e + m) & 1;
    unsigned ones = (1u << e) - 1;
    float x;
    if (nan == 'z' && sign && !expo && !mant) return NAN;
    if (nan == 'o' && expo == ones && mant == (1u << m) - 1) return NAN;
    if (nan == 'i' && expo == ones) x = mant ? NAN : INFINITY;
    else if (!expo) x = ldexpf((float)mant, 1 - bias - (int)m);
    else x = ldexpf((float)(mant | 1u << m), (int)expo - bias - (int)m);
    return sign ? -x : x;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool usable;

static void build(void) {
    for (unsigned c = 0; c < 256; c++) {
        lut_ocp[0][c] = small_float(c, 4, 3, 7, 'o');
        lut_ocp[1][c] = small_float(c, 5, 2, 15, 'i');
        lut_fnuz[0][c] = small_float(c, 4, 3, 8, 'z');
        lut_fnuz[1][c] = small_float(c, 5, 2, 16, 'z');
    }
    for (unsigned c = 0; c < 64; c++) {
        lut6[0][c] = small_float(c, 2, 3, 1, 0);
        lut6[1][c] = small_float(c, 3, 2, 3, 0);
    }
    for (unsigned c = 0; c < 16; c++) lut4[c] = small_float(c, 2, 1, 1, 0);
    usable = true;
    for (size_t i = 0; i < N_ROWS; i++)
        for (unsigned w = 0; w < 2; w++) {
            const matrix_row *r = &rows[i];
            const uint8_t *l = r->layout[w];
            unsigned lanes = 32u << w;
            plan *p = &plans[i][w];
            if (l[0] == L_NONE) continue;
            p->row = r;
            p->lanes = (uint8_t)lanes;
            p->span = (uint8_t)(r->m * r->b);
            unsigned stored = r->flags & SIM_MX_SPARSE ? r->k / 2u : r->k;
            unsigned d_bits = r->flags & SIM_MX_HALVES ? 32 : type_bits[r->td];
            unsigned la = l[0], n_d = r->m == 4 && r->td != F64 ? 4u : (unsigned)r->m * r->b;
            if (r->ta == F8F6F4) {
                p->narrow[0] = expand(la, 6, lanes, stored, false, 0);
                p->narrow[1] = expand(la, 4, lanes, stored, false, 0);
                la = r->m == 16 ? L_X16_K128_BYTES : L_X32_K64_BYTES;
                if (!p->narrow[0] || !p->narrow[1]) usable = false;
            }
            p->a = expand(la, type_bits[r->ta], lanes, stored, false, 0);
            p->b = r->flags & SIM_MX_SPARSE ? expand(l[1], type_bits[r->tb], lanes, r->k, false, 0) : p->a;
            p->d = expand(l[2], d_bits, lanes, n_d, true, r->m);
            if (!p->a || !p->b || !p->d) usable = false;
            if (r->flags & SIM_MX_HALVES && usable) {
                struct strips_entry *e = n_pool < sizeof pool / sizeof pool[0] ? &pool[n_pool++] : NULL;
                usable = e;
                if (e) {
                    *e = (struct strips_entry){.layout = L_NONE, .strips = *p->d};
                    memset(e->strips.shift, 16, n_d);
                    p->d_hi = &e->strips;
                }
            }
            if (!usable) return;
            p->a_regs = (uint8_t)regs_of(p->a, stored, lanes, type_bits[r->ta]);
            p->b_regs = (uint8_t)regs_of(p->b, r->k, lanes, type_bits[r->tb]);
            p->d_regs = (uint8_t)regs_of(p->d, n_d, lanes, d_bits);
        }
}

static const sim_mx_kernels *kernels(int level) {
#if defined(__x86_64__)
    if (level == 1) return &sim_mx_kernels_avx2;
    if (level >= 2) return &sim_mx_kernels_avx512;
#endif
    (void)level;
    return &sim_mx_kernels_generic;
}

/* Round to nearest even with denormals, whatever MODE has put into the host's control word. */
static unsigned plain_rounding(void) {
#if defined(__x86_64__)
    unsigned old = _mm_getcsr();
    if ((old & 0xffc0) != 0x1f80) _mm_setcsr(0x1f80);
    return old;
#else
    return 0;
#endif
}

static void restore_rounding(unsigned old) {
#if defined(__x86_64__)
    if ((old & 0xffc0) != 0x1f80) _mm_setcsr(old);
#else
    (void)old;
#endif
}

/* How the elements of A (which 0) or B (1) are unpacked; the strips of F8F6F4 depend on the format too. */
static sim_mx_unpack unpack_of(const plan *p, const sim_inst *inst, unsigned which, const sim_mx_strips **t) {
    const matrix_row *r = p->row;
    const sim_operand *op = &inst->src[which];
    sim_mx_unpack u = {.lanes = p->lanes};
    float (*fp8)[256] = inst->isa == SIM_GFX942 ? lut_fnuz : lut_ocp;
    bool wmma = p->row->isas & ~SIM_GCN;
    switch (which ? r->tb : r->ta) {
    case F32: u.kind = SIM_MX_U_F32; break;
    case XF32: u.kind = SIM_MX_U_XF32; break;
    case F16:
    case BF16:
        u.kind = (which ? r->tb : r->ta) == F16 ? SIM_MX_U_F16 : SIM_MX_U_BF16;
        u.flush = inst->isa == SIM_GFX90A;
        u.neg_lo = wmma && op->neg;
        u.neg_hi = wmma && op->neg_hi;
        break;
    case I8: u.kind = SIM_MX_U_I8; break;
    case IU8: u.kind = op->neg ? SIM_MX_U_I8 : SIM_MX_U_U8; break; /* neg_lo: signed */
    case IU4: u.kind = op->neg ? SIM_MX_U_I4 : SIM_MX_U_U4; break;
    case FP8: u.kind = SIM_MX_U_LUT8, u.lut = fp8[0]; break;
    case BF8: u.kind = SIM_MX_U_LUT8, u.lut = fp8[1]; break;
    default: {
        unsigned format = which ? inst->blgp : inst->cbsz;
        if (format < 2) u.kind = SIM_MX_U_LUT8, u.lut = lut_ocp[format];
        else if (format < 4) u.kind = SIM_MX_U_LUT6, u.lut = lut6[format - 2], *t = p->narrow[0];
        else u.kind = SIM_MX_U_LUT4, u.lut = lut4, *t = p->narrow[1];
    }
    }
    return u;
}

/* The lane whose B a lane gets under BLGP, by groups of 16. */
static const uint8_t lane_group[8][4] = {{0, 1, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}, {1, 2, 3, 0},
                                         {0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}};

/* BLGP moves the lanes of B in every form of gfx908 and gfx90a but f64; later, in f32 and in the forms of several blocks. */
static bool blgp_moves_lanes(const matrix_row *r, unsigned isa) {
    if (!(SIM_GCN >> isa & 1) || r->td == F64 || r->flags & SIM_MX_SPARSE || r->ta == F8F6F4) return false;
    return isa == SIM_GFX908 || isa == SIM_GFX90A || r->b > 1 || r->ta == F32;
}

/* A sparse A, expanded: each stored value goes to the k of its chunk of four that its two index bits name. */
static void expand_sparse(float *a, const plan *p, const uint32_t *rows_a, const sim_mx_unpack *how, const uint32_t *index,
                          unsigned set, const sim_mx_kernels *kern) {
    const matrix_row *r = p->row;
    unsigned stored = r->k / 2u, per_lane = 0;
    float t[1024] __attribute__((aligned(64)));
    kern->unpack(t, rows_a, p->a, stored, p->span, how);
    memset(a, 0, sizeof(float) * r->k * p->span);
    for (unsigned s = 0; s < stored; s++)
        if (p->a->elem[s] >= per_lane) per_lane = p->a->elem[s] + 1u;
    for (unsigned s = 0; s < stored; s++) {
        const uint32_t *x = index + p->a->off[s] % p->lanes;
        unsigned bit = (2 * (p->a->elem[s] + set * per_lane)) & 31;
        for (unsigned o = 0; o < p->span; o++) a[(s / 2 * 4 + (x[o] >> bit & 3)) * p->span + o] += t[s * p->span + o];
    }
}

static void scales_of(uint8_t *out, const sim_wave *w, const sim_operand *op, unsigned row, unsigned n) {
    unsigned shift = 8 * (op->hi + 2u * op->opsel_hi);
    const uint32_t *v = w->v + (size_t)row * w->lanes;
    for (unsigned i = 0; i < n; i++) {
        uint32_t x = op->kind == SIM_K_VGPR ? v[i] : op->kind == SIM_K_SGPR ? sim_sread(w, op->reg) : (uint32_t)op->value;
        out[i] = (uint8_t)(x >> shift);
    }
}

/* Rows of a dense tile of 16 and of 32 columns. */
static const uint16_t dense[2][32] = {
    {0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240},
    {0,   32,  64,  96,  128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448, 480,
     512, 544, 576, 608, 640, 672, 704, 736, 768, 800, 832, 864, 896, 928, 960, 992}};

static void product(float *acc, const uint16_t *off, const float *a, const float *b, const plan *p, const sim_wave *w,
                    const sim_uop *u, const sim_mx_kernels *kern) {
    const matrix_row *r = p->row;
    const sim_inst *inst = u->inst;
    unsigned group = 0;
    bool flush = w->isa == SIM_GFX90A;
    bool exact = r->ta != F32 && r->ta != XF32 && r->ta != BF16; /* bf16: but for their range */
    if ((w->isa == SIM_GFX908 || w->isa == SIM_GFX90A) && (r->ta == F16 || r->ta == BF16))
        group = r->k == 2 || r->flags & SIM_MX_PAIRS2 ? 2 : 4;
    uint8_t block[16];
    for (unsigned i = 0; i < r->b; i++) /* CBSZ: one of 2^cbsz blocks of A, named by ABID, stands for all of them */
        block[i] = (uint8_t)(((i >> inst->cbsz << inst->cbsz) + (inst->cbsz ? inst->abid : 0u)) % r->b);
    if (r->m == 4) {
        kern->quad(acc, off, a, b, r->k, block, group, flush);
        return;
    }
    if (r->flags & SIM_MX_SCALED) {
        uint8_t ea[64], eb[64];
        float tile[1024] __attribute__((aligned(64)));
        scales_of(ea, w, &inst->scale[0], u->imm & 0xffff, 64);
        scales_of(eb, w, &inst->scale[1], u->imm >> 16, 64);
        for (unsigned q = 0; q < r->k / 32u; q++) {
            size_t at = (size_t)q * 32 * p->span;
            memset(tile, 0, sizeof(float) * r->m * r->n);
            kern->chain(tile, dense[r->m == 32], a + at, b + at, p->span, r->m, r->n, 32, true);
            kern->scale_add(acc, off, tile, ea + q * r->m, eb + q * r->m, r->m, r->n);
        }
        return;
    }
    for (unsigned i = 0; i < r->b; i++) {
        const float *ap = a + (r->b > 1 ? block[i] * r->m : 0), *bp = b + i * r->n;
        if (group) kern->pairs(acc, off + i * r->m, ap, bp, p->span, r->m, r->n, r->k, group, flush && r->ta == BF16, flush);
        else kern->chain(acc, off + i * r->m, ap, bp, p->span, r->m, r->n, r->k, exact);
    }
}

/* A constant C. The decoder converts one by the operand's type; of a matrix it only knows that a float constant is meant and
 * gives it as f32, an integer as 32 bits. */
static uint64_t constant_c(const matrix_row *r, const sim_operand *op) {
    static const struct { uint32_t f32; uint16_t f16; uint64_t f64; } t[] = {
        {0x3f000000, 0x3800, 0x3fe0000000000000}, {0xbf000000, 0xb800, 0xbfe0000000000000}, /* 0.5 */
        {0x3f800000, 0x3c00, 0x3ff0000000000000}, {0xbf800000, 0xbc00, 0xbff0000000000000}, /* 1 */
        {0x40000000, 0x4000, 0x4000000000000000}, {0xc0000000, 0xc000, 0xc000000000000000}, /* 2 */
        {0x40800000, 0x4400, 0x4010000000000000}, {0xc0800000, 0xc400, 0xc010000000000000}, /* 4 */
        {0x3e22f983, 0x3118, 0x3fc45f306dc9c882}};                                          /* 1 / (2 pi) */
    if (op->type != SIM_T_MATRIX || r->td == F32 || r->td == I32) return op->value;
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++)
        if ((uint32_t)op->value == t[i].f32)
            return r->td == F64 ? t[i].f64 : r->td == F16 ? t[i].f16 : t[i].f32 >> 16;
    return r->td == F64 ? (uint64_t)(int64_t)(int32_t)op->value : op->value;
}

static void c_modifiers(float *x, size_t n, const sim_operand *op) {
    if (op->neg_hi)
        for (size_t i = 0; i < n; i++) x[i] = fabsf(x[i]);
    if (op->neg)
        for (size_t i = 0; i < n; i++) x[i] = -x[i];
}

static const sim_uop *run_matrix(sim_wave *w, const sim_uop *u) {
    const plan *p = u->core;
    const matrix_row *r = p->row;
    const sim_inst *inst = u->inst;
    const sim_mx_kernels *kern = kernels(u->aux[0]);
    bool sparse = r->flags & SIM_MX_SPARSE, gcn = SIM_GCN >> w->isa & 1;
    float a[2048] __attribute__((aligned(64))), b[2048] __attribute__((aligned(64)));
    uint32_t moved[8 * 64];
    unsigned old = plain_rounding();

    const sim_mx_strips *ta = p->a, *tb = p->b;
    sim_mx_unpack ua = unpack_of(p, inst, 0, &ta), ub = unpack_of(p, inst, 1, &tb);
    const uint32_t *ra = SIM_ROW(w, u->s[0]), *rb = SIM_ROW(w, u->s[1]);
    if (inst->blgp && blgp_moves_lanes(r, w->isa)) {
        for (unsigned g = 0; g < p->b_regs; g++)
            for (unsigned l = 0; l < 64; l++)
                moved[g * 64 + l] = rb[g * 64 + lane_group[inst->blgp & 7][l / 16] * 16u + l % 16];
        rb = moved;
    }
    if (sparse) {
        unsigned set = inst->cbsz ? 0 : inst->abid;
        if (!gcn) set = (inst->index_key[0] || inst->src[0].hi) + 2u * (inst->index_key[1] || inst->src[1].hi);
        expand_sparse(a, p, ra, &ua, SIM_ROW(w, u->s[2]), set, kern);
    } else kern->unpack(a, ra, ta, r->k, p->span, &ua);
    kern->unpack(b, rb, tb, r->k, p->span, &ub);

    uint32_t *d = SIM_ROW(w, u->d);
    bool constant = !sparse && inst->src[2].kind != SIM_K_VGPR;
    const uint32_t *c = sparse ? d : constant ? NULL : SIM_ROW(w, u->s[2]);
    const sim_operand *c_op = &inst->src[2];
    size_t n_d = (size_t)p->d_regs * p->lanes;

    if (r->td == F16 || r->td == BF16) {
        float tile[256] __attribute__((aligned(64)));
        const sim_mx_strips *half = c_op->hi && p->d_hi ? p->d_hi : p->d;
        sim_mx_unpack uc = {.kind = r->td == F16 ? SIM_MX_U_F16 : SIM_MX_U_BF16, .lanes = p->lanes};
        uint32_t fill[16];
        sim_mx_strips one = {{0}, {0}, {0}};
        if (constant) {
            for (unsigned i = 0; i < 16; i++) fill[i] = (uint32_t)constant_c(r, c_op) & 0xffff;
            for (unsigned i = 0; i < 16; i++) kern->unpack(tile + i * 16, fill, &one, 1, 16, &uc);
        } else kern->unpack(tile, c, half, 16, 16, &uc);
        if (!sparse) c_modifiers(tile, 256, c_op);
        product(tile, dense[0], a, b, p, w, u, kern);
        kern->store16(d, half, 16, tile, r->td == BF16);
        restore_rounding(old);
        return u + 1;
    }

    if (constant)
        for (size_t i = 0; i < n_d; i++) d[i] = (uint32_t)c_op->value;
    else if (c != d) memmove(d, c, n_d * 4);

    if (r->td == I32) {
        float tile[2048] __attribute__((aligned(64)));
        uint16_t off[64];
        unsigned width = r->m == 4 ? 64 : r->n, strips = r->m == 4 ? 4u : (unsigned)r->m * r->b;
        for (unsigned i = 0; i < strips; i++) off[i] = (uint16_t)(i * width);
        memset(tile, 0, sizeof(float) * strips * width);
        product(tile, off, a, b, p, w, u, kern);
        kern->add_int(d, p->d->off, tile, strips, width, !gcn && inst->clamp);
        restore_rounding(old);
        return u + 1;
    }

    if (!gcn && !sparse && (c_op->neg || c_op->neg_hi)) c_modifiers((float *)(void *)d, n_d, c_op);
    product((float *)(void *)d, p->d->off, a, b, p, w, u, kern);
    restore_rounding(old);
    return u + 1;
}

/* f64. BLGP negates A, B and C on gfx942 and later; gfx90a has none. */
static const sim_uop *run_f64(sim_wave *w, const sim_uop *u) {
    const plan *p = u->core;
    const matrix_row *r = p->row;
    const sim_operand *c_op = &u->inst->src[2];
    unsigned neg = w->isa == SIM_GFX90A ? 0 : u->inst->blgp, lanes = p->lanes, span = p->span;
    const uint32_t *ra = SIM_ROW(w, u->s[0]), *rb = SIM_ROW(w, u->s[1]);
    const uint32_t *rc = c_op->kind == SIM_K_VGPR ? SIM_ROW(w, u->s[2]) : NULL;
    uint32_t *d = SIM_ROW(w, u->d), constant[2 * 16];
    const sim_mx_kernels *kern = kernels(u->aux[0]);
    double a[64] __attribute__((aligned(64))), b[64] __attribute__((aligned(64))), c[256] __attribute__((aligned(64)));
    unsigned old = plain_rounding(), strips = (unsigned)r->m * r->b;
    for (unsigned q = 0; q < r->k; q++) {
        const uint32_t *x = ra + p->a->off[q], *y = rb + p->b->off[q];
        kern->load64(a + q * span, x, x + lanes, span, neg & 1);
        kern->load64(b + q * span, y, y + lanes, span, neg & 2);
    }
    uint64_t c_value = constant_c(r, c_op);
    for (unsigned l = 0; l < 16; l++) {
        constant[l] = (uint32_t)c_value;
        constant[16 + l] = (uint32_t)(c_value >> 32);
    }
    for (unsigned s = 0; s < strips; s++) {
        const uint32_t *x = rc ? rc + p->d->off[s] : constant;
        kern->load64(c + s * r->n, x, x + (rc ? lanes : 16), r->n, neg & 4);
    }
    for (unsigned i = 0; i < r->b; i++)
        kern->chain64(c + i * r->m * r->n, a + i * r->m, b + i * r->n, span, r->m, r->n, r->k);
    for (unsigned s = 0; s < strips; s++) kern->store64(d + p->d->off[s], d + p->d->off[s] + lanes, c + s * r->n, r->n);
    restore_rounding(old);
    return u + 1;
}

bool sim_mx_prepare(sim_isa isa, unsigned lanes, const sim_inst *inst, int level, sim_uop *u) {
    pthread_once(&once, build);
    if (!usable || !inst->meaning || (lanes != 32 && lanes != 64)) return false;
    for (size_t i = 0; i < N_ROWS; i++) {
        const matrix_row *r = &rows[i];
        if (!(r->isas >> isa & 1) || (strcmp(r->name, inst->meaning) && (!r->alias || strcmp(r->alias, inst->meaning))))
            continue;
        plan *p = &plans[i][lanes == 64];
        if (!p->row) return false;
        if (r->ta == F8F6F4 && (inst->cbsz > 4 || inst->blgp > 4)) return false; /* reserved formats */
        u->fn = r->td == F64 ? run_f64 : run_matrix;
        u->core = p;
        u->inst = inst;
        u->aux[0] = (uint8_t)level;
        u->n_src = 3;
        return true;
    }
    return false;
}

void sim_mx_registers(const sim_uop *u, unsigned out_n[4]) {
    static const uint8_t f8f6f4[8] = {8, 8, 6, 6, 4, 8, 8, 8};
    const plan *p = u->core;
    bool mixed = p->row->ta == F8F6F4;
    out_n[0] = mixed ? f8f6f4[u->inst->cbsz & 7] : p->a_regs;
    out_n[1] = mixed ? f8f6f4[u->inst->blgp & 7] : p->b_regs;
    out_n[2] = p->row->flags & SIM_MX_SPARSE ? 1 : p->d_regs;
    out_n[3] = p->d_regs;
}

static const sim_uop *run_acc_move(sim_wave *w, const sim_uop *u) {
    uint32_t tmp[SIM_MAX_LANES];
    const uint32_t *s = sim_src_rows(w, u, 0, 1, tmp);
    sim_blend_rows(w, u->d, s, 1, SIM_EXEC(w));
    return u + 1;
}

sim_bound sim_bind_matrix(sim_binder *b, const sim_inst *inst, sim_uop *out_u) {
    static const char *const moves[] = {"V_ACCVGPR_READ", "V_ACCVGPR_READ_B32", "V_ACCVGPR_WRITE", "V_ACCVGPR_WRITE_B32",
                                        "V_ACCVGPR_MOV_B32"};
    if (!inst->meaning || inst->meaning[0] != 'V' || inst->meaning[1] != '_') return SIM_BOUND_NO;
    for (size_t i = 0; i < sizeof moves / sizeof moves[0]; i++) {
        if (strcmp(inst->meaning, moves[i])) continue;
        if (inst->dst.kind != SIM_K_VGPR || inst->lanes != SIM_LANES_PLAIN) return SIM_BOUND_NO;
        if (!sim_bind_src(b, out_u, 0, &inst->src[0], 1)) return SIM_BOUND_FAILED;
        out_u->fn = run_acc_move;
        out_u->inst = inst;
        out_u->n_src = 1;
        out_u->d = sim_bind_row(b, inst->dst.reg);
        return SIM_BOUND_UOP;
    }
    if (!strstr(inst->meaning, "MFMA") && !strstr(inst->meaning, "MMA")) return SIM_BOUND_NO;
    if (!sim_mx_prepare(sim_bind_isa(b), sim_bind_lanes(b), inst, sim_host_level(), out_u)) return SIM_BOUND_NO;
    unsigned n[4];
    sim_mx_registers(out_u, n);
    if (inst->dst.kind != SIM_K_VGPR || inst->dst.n_dwords < n[3]) return SIM_BOUND_NO;
    for (int i = 0; i < 3; i++) {
        const sim_operand *op = &inst->src[i];
        if (op->kind == SIM_K_VGPR && op->n_dwords < n[i]) return SIM_BOUND_NO;
        out_u->sk[i] = op->kind == SIM_K_VGPR ? SIM_SRC_ROW : SIM_SRC_NONE;
        if (op->kind == SIM_K_VGPR) out_u->s[i] = sim_bind_row(b, op->reg);
        else if (i < 2 || op->kind != SIM_K_CONST) return SIM_BOUND_NO;
    }
    const plan *p = out_u->core;
    if (p->row->flags & SIM_MX_SPARSE && inst->src[2].kind != SIM_K_VGPR) return SIM_BOUND_NO;
    out_u->d = sim_bind_row(b, inst->dst.reg);
    out_u->imm = 0;
    for (int i = 0; p->row->flags & SIM_MX_SCALED && i < 2; i++) {
        if (inst->scale[i].kind == SIM_K_NONE) return SIM_BOUND_NO;
        if (inst->scale[i].kind == SIM_K_VGPR)
            out_u->imm |= sim_bind_row(b, inst->scale[i].reg) / (4 * sim_bind_lanes(b)) << 16 * i;
    }
    return SIM_BOUND_UOP;
}

/* What is said of each name; a name that several targets share is listed once. */
static sim_meaning meanings[2 * N_ROWS + 3];
static size_t n_meanings;
static pthread_once_t meanings_once = PTHREAD_ONCE_INIT;

static void add_meaning(const char *name, const matrix_row *r) {
    if (!name) return;
    for (size_t i = 0; i < n_meanings; i++)
        if (!strcmp(meanings[i].name, name)) return;
    sim_meaning m = {name, SIM_EXACT, NULL};
    if (r && (r->td == F16 || r->td == BF16)) m.exactness = SIM_APPROX, m.bound = "K 2^-23 (|c| + sum |a b|) + 1 ULP";
    else if (r && r->ta != F32 && r->td == F32) m.exactness = SIM_APPROX, m.bound = "K 2^-23 (|c| + sum |a b|)";
    meanings[n_meanings++] = m;
}

static void build_meanings(void) {
    for (size_t i = 0; i < N_ROWS; i++) add_meaning(rows[i].name, &rows[i]);
    for (size_t i = 0; i < N_ROWS; i++) add_meaning(rows[i].alias, &rows[i]);
    add_meaning("V_ACCVGPR_READ", NULL);
    add_meaning("V_ACCVGPR_WRITE", NULL);
    add_meaning("V_ACCVGPR_MOV_B32", NULL);
}

bool sim_meaning_at_matrix(size_t i, sim_meaning *out) {
    pthread_once(&meanings_once, build_meanings);
    if (i >= n_meanings) return false;
    *out = meanings[i];
    return true;
}
