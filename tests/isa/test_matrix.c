/* Matrix instructions against a plain triple loop. Every name of AMD's instruction tables (and LLVM's older spellings) is
 * taken apart here: shape, blocks and types come from the name, positions of elements from the formulas of the manuals'
 * matrix chapters, number formats from their definitions; nothing is asked of the simulator's tables.
 *
 * Each instruction runs with small integers, where the answer is exact, and with random values against double, under
 * random modifiers, any EXEC and MODE, and on every level of vector instructions the host has, which must agree in all
 * bits. Where the order of sums is known (f32, f64, 16-bit floats of gfx908 and gfx90a) random values are checked in all
 * bits too. */
#include "exec/bind.h"
#include "isa/matrix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

enum { ROW_A = 2, ROW_B = 20, ROW_C = 40, ROW_D = 80, ROW_INDEX = 120, ROW_SCALE = 122, N_ROWS = 130 };
enum format { NO_FORMAT, F64, F32, XF32, F16, BF16, I32, I8, IU8, IU4, FP8, BF8, FP6, BF6, FP4, F8F6F4 };
static const unsigned bits_of[] = {0, 64, 32, 32, 16, 16, 32, 8, 8, 4, 8, 8, 6, 6, 4, 8};

typedef struct op {
    const char *name;
    sim_isa isa;
    unsigned lanes, m, n, k, blocks;
    enum format a, b, d;
    bool mfma, sparse, scaled, f8f6f4;
} op;

static uint64_t seed = 88172645463325252u;
static uint32_t rnd(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 16);
}
static unsigned below(unsigned n) { return rnd() % n; }

/* ---- names ---- */

static enum format format_of(const char *s, size_t *len) {
    static const struct { const char *s; enum format f; } t[] = {
        {"XF32", XF32}, {"BF16", BF16}, {"F8F6F4", F8F6F4}, {"F64", F64}, {"F32", F32}, {"F16", F16}, {"I32", I32},
        {"IU8", IU8}, {"IU4", IU4}, {"I8", I8}, {"FP8", FP8}, {"BF8", BF8}};
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++)
        if (!strncmp(s, t[i].s, strlen(t[i].s))) {
            *len = strlen(t[i].s);
            return t[i].f;
        }
    return NO_FORMAT;
}

static op take_apart(const char *name, sim_isa isa, unsigned lanes) {
    op o = {.name = name, .isa = isa, .lanes = lanes, .blocks = 1};
    const char *s = name + 2;
    size_t len = 0;
    o.sparse = !strncmp(s, "SMFMAC", 6) || !strncmp(s, "SWMMAC", 6);
    o.mfma = strstr(name, "MFMA");
    s = strchr(s, '_') + 1;
    if (!strncmp(s, "SCALE_", 6)) o.scaled = true, s += 6;
    o.d = format_of(s, &len);
    s += len + 1;
    int used = 0;
    assert_int_equal(sscanf(s, "%uX%uX%u%n", &o.m, &o.n, &o.k, &used), 3);
    s += used;
    bool named_blocks = false;
    if (*s == '_') s++;
    unsigned blocks;
    char letter;
    int read = 0;
    if (sscanf(s, "%u%c%n", &blocks, &letter, &read) == 2 && letter == 'B' && s[read] == '_') {
        o.blocks = blocks;
        named_blocks = true;
        s += read + 1;
    }
    o.a = o.b = format_of(s, &len);
    assert_int_not_equal(o.a, NO_FORMAT);
    s += len;
    bool k4 = !strcmp(s, "_1K");
    if (*s == '_' && !k4) o.b = format_of(s + 1, &len);
    o.f8f6f4 = o.a == F8F6F4;
    if (o.mfma && !named_blocks && isa <= SIM_GFX90A) { /* older spelling: what fills 64 lanes */
        unsigned per_lane = o.a == F32 || o.a == F64 ? 1 : o.a == BF16 && !k4 ? 2 : 4;
        o.blocks = 64 * per_lane / (o.m * o.k);
    }
    return o;
}

/* ---- number formats ---- */

static double decode(enum format f, uint64_t x, sim_isa isa) {
    int e = 0, m = 0, bias = 0;
    bool fnuz = false;
    switch (f) {
    case F64: { double d; memcpy(&d, &x, 8); return d; }
    case F32: { uint32_t u = (uint32_t)x; float v; memcpy(&v, &u, 4); return v; }
    case XF32: { uint32_t u = (uint32_t)x & 0xffffe000u; float v; memcpy(&v, &u, 4); return v; }
    case I32: return (int32_t)x;
    case I8: return (int8_t)x;
    case F16: e = 5, m = 10, bias = 15; break;
    case BF16: e = 8, m = 7, bias = 127; break;
    case FP8: e = 4, m = 3, bias = 7, fnuz = isa == SIM_GFX942; break;
    case BF8: e = 5, m = 2, bias = 15, fnuz = isa == SIM_GFX942; break;
    case FP6: e = 2, m = 3, bias = 1; break;
    case BF6: e = 3, m = 2, bias = 3; break;
    case FP4: e = 2, m = 1, bias = 1; break;
    default: fail();
    }
    if (fnuz) bias++;
    uint64_t mant = x & ((1u << m) - 1), expo = x >> m & ((1u << e) - 1);
    double sign = x >> (e + m) & 1 ? -1 : 1;
    if (fnuz && sign < 0 && !mant && !expo) return NAN;
    if (f == FP8 && !fnuz && expo == 15 && mant == 7) return NAN;
    if ((f == F16 || f == BF16 || (f == BF8 && !fnuz)) && expo == (1u << e) - 1) return mant ? NAN : sign * INFINITY;
    if (!expo) return sign * ldexp((double)mant, 1 - bias - m);
    return sign * ldexp((double)(mant | 1u << m), (int)expo - bias - m);
}

static uint64_t encode(enum format f, double v, sim_isa isa) {
    if (f == F64) { uint64_t x; memcpy(&x, &v, 8); return x; }
    if (f == F32 || f == XF32) { float s = (float)v; uint32_t x; memcpy(&x, &s, 4); return x; }
    if (f == I32 || f == I8) return (uint32_t)(int32_t)v;
    static uint32_t known[F8F6F4][2][4097]; /* code + 1 of multiples of 1/64 */
    bool keep = fabs(v) <= 32 && v * 64 == floor(v * 64);
    uint32_t *k = &known[f][isa == SIM_GFX942][keep ? (size_t)(v * 64 + 2048) : 0];
    if (keep && *k) return *k - 1;
    for (uint32_t x = 0; x < 1u << bits_of[f]; x++)
        if (decode(f, x, isa) == v && (v != 0 || !(x >> (bits_of[f] - 1)))) {
            if (keep) *k = x + 1;
            return x;
        }
    fail_msg("%g has no code", v);
    return 0;
}

/* ---- positions: lane and number of the element in the lane's registers ---- */

typedef struct place { unsigned lane, elem; } place;

/* CDNA: the instruction calculator's input rule; i is the outer index of A or B. */
static place mfma_in(unsigned m, unsigned k_size, unsigned blocks, unsigned i, unsigned k, unsigned b) {
    unsigned together = k_size / (64 / (m * blocks));
    return (place){b * m + k / together * m * blocks + i, k % together};
}

static place f8f6f4_in(unsigned m, unsigned k_size, enum format f, unsigned i, unsigned k) {
    if (bits_of[f] == 8) { /* four registers from each half of k */
        unsigned half = k_size / 2, in_half = k % half;
        return (place){in_half / 16 * m + i, k / half * 16 + in_half % 16};
    }
    return (place){k / 32 * m + i, k % 32};
}

static place mfma_out(unsigned m, unsigned n, unsigned size, unsigned i, unsigned j, unsigned b) {
    unsigned rows_per_reg = 64 / n, high = size == 64 ? 1 : 4, area = n * m / high;
    unsigned blocks_per_reg = (64 + area - 1) / area;
    unsigned elem = b * (m * n / 64) + i / (high * rows_per_reg) * high + i % high;
    return (place){b % blocks_per_reg * n + i / high % rows_per_reg * blocks_per_reg * n + j, elem};
}

/* RDNA4 dense A and B of WMMA, per width and wave: register and bit, given as an element number. */
static place gfx12_in(unsigned lanes, unsigned size, unsigned k_size, unsigned i, unsigned k) {
    unsigned lane, reg;
    if (lanes == 32) {
        if (size == 16) lane = 16 * (k / 4 % 2) + i, reg = 2 * (k / 8) + k / 2 % 2;
        else if (size == 8) lane = 16 * (k / 8) + i, reg = k / 4 % 2;
        else if (k_size == 16) lane = 16 * (k / 8) + i, reg = 0;
        else lane = 16 * (k / 16) + i, reg = k / 8 % 2;
    } else {
        if (size == 16) lane = 32 * (k / 8 % 2) + 16 * (k / 4 % 2) + i, reg = k / 2 % 2;
        else if (size == 8) lane = 32 * (k / 4 % 2) + 16 * (k / 8 % 2) + i, reg = 0;
        else if (k_size == 16) lane = 16 * (k / 8) + i, reg = 0;
        else lane = 32 * (k / 8 % 2) + 16 * (k / 16 % 2) + i, reg = 0;
    }
    return (place){lane, reg * (32 / size) + k % (32 / size)};
}

/* RDNA4 sparse: lane of k for A and the index (matrix 'a') or B. */
static unsigned gfx12_sparse_lane(unsigned lanes, unsigned size, unsigned k_size, char matrix, unsigned i, unsigned k) {
    if (lanes == 32) {
        if (size == 16) return 16 * (k / 8 % 2) + i;
        return k_size == 32 ? 16 * (k / 16) + i : 16 * (k / 32) + i;
    }
    if (size == 16) return 16 * (k / 8) + i;
    if (k_size == 64) return 32 * (k / 16 % 2) + 16 * (k / 32) + i;
    if (size == 4 && matrix == 'a') return 16 * (k / 16) + i;
    return 32 * (k / 8 % 2) + 16 * (k / 16) + i;
}

static place gfx12_sparse_b(unsigned lanes, unsigned size, unsigned k_size, unsigned j, unsigned k) {
    unsigned reg;
    if (lanes == 32) {
        if (size == 16) reg = 4 * (k / 16) + k / 2 % 4;
        else if (size == 8) reg = k / 4 % 4;
        else reg = k_size == 32 ? k / 8 % 2 : k / 8 % 4;
    } else {
        if (size == 16) reg = k / 2 % 4;
        else if (size == 8) reg = k / 4 % 2;
        else reg = k_size == 32 ? 0 : k / 8 % 2;
    }
    return (place){gfx12_sparse_lane(lanes, size, k_size, 'b', j, k), reg * (32 / size) + k % (32 / size)};
}

/* First of the two stored elements of the four that begin at k. */
static place gfx12_sparse_a(unsigned lanes, unsigned size, unsigned k_size, unsigned i, unsigned k) {
    unsigned reg, pair = 0;
    if (lanes == 32) {
        if (size == 16) reg = 2 * (k / 16) + k / 4 % 2;
        else if (size == 8) reg = k / 8 % 2, pair = k / 4 % 2;
        else reg = k_size == 64 ? k / 16 % 2 : 0, pair = k / 4 % 4;
    } else {
        if (size == 16) reg = k / 4 % 2;
        else if (size == 8) reg = 0, pair = k / 4 % 2;
        else reg = 0, pair = k / 4 % 4;
    }
    return (place){gfx12_sparse_lane(lanes, size, k_size, 'a', i, k), reg * (32 / size) + pair * 2};
}

static unsigned gfx12_index_bit(unsigned lanes, unsigned size, unsigned k_size, unsigned k, unsigned set) {
    unsigned bit, sets;
    if (lanes == 32) {
        if (size == 16) bit = 8 * (k / 16) + 4 * (k / 4 % 2);
        else bit = 4 * (k / 4 % (k_size == 32 ? 4 : 8));
        sets = k_size == 64 ? 1 : 2;
    } else {
        bit = 4 * (k / 4 % (size == 4 ? 4 : 2));
        sets = size == 4 ? 2 : 4;
    }
    return bit + set * (32 / sets);
}

static place out_place(const op *o, unsigned i, unsigned j, unsigned b, bool hi) {
    if (o->mfma || (o->sparse && o->lanes == 64 && o->isa <= SIM_GFX950)) return mfma_out(o->m, o->n, bits_of[o->d], i, j, b);
    if (o->isa <= SIM_GFX1150) {
        unsigned per_reg = o->lanes / 16;
        place p = {16 * (i % per_reg) + j, i / per_reg};
        if (bits_of[o->d] == 16) p.elem = p.elem * 2 + hi;
        return p;
    }
    if (o->lanes == 32) return (place){16 * (i / 8) + j, i % 8};
    return (place){32 * (i / 4 % 2) + 16 * (i / 8) + j, i % 4};
}

/* ---- registers ---- */

static uint32_t regs[N_ROWS * 64], before[N_ROWS * 64];

static void put(uint32_t *v, unsigned lanes, unsigned row, place p, unsigned bits, uint64_t x) {
    for (unsigned i = 0; i < bits; i++) {
        unsigned at = p.elem * bits + i;
        uint32_t *w = &v[(row + at / 32) * lanes + p.lane];
        *w = (*w & ~(1u << at % 32)) | (uint32_t)(x >> i & 1) << at % 32;
    }
}

static uint64_t get(const uint32_t *v, unsigned lanes, unsigned row, place p, unsigned bits) {
    uint64_t x = 0;
    for (unsigned i = 0; i < bits; i++) {
        unsigned at = p.elem * bits + i;
        x |= (uint64_t)(v[(row + at / 32) * lanes + p.lane] >> at % 32 & 1) << i;
    }
    return x;
}

/* ---- one run ---- */

static double A[16][32][128], B[16][128][32], C[16][32][32];
static uint8_t scale_a[32][4], scale_b[32][4];

typedef struct mods {
    unsigned cbsz, abid, blgp, set;
    bool neg_lo[3], neg_hi[3], hi, clamp, constant, d_is_c, overlap;
    unsigned scale_sel[2];
    double c_value;
} mods;

static bool is_int(const op *o) { return o->d == I32; }
static bool is_wmma(const op *o) { return o->isa > SIM_GFX950; }
static bool half_in(const op *o) { return o->a == F16 || o->a == BF16; }

static bool moves_lanes(const op *o) {
    if (is_wmma(o) || o->sparse || o->d == F64 || o->f8f6f4) return false;
    return o->isa <= SIM_GFX90A || o->blocks > 1 || o->a == F32;
}

/* Lane that lane l of B is read from: the patterns of the CDNA manuals' BLGP table. */
static unsigned blgp_lane(unsigned l, unsigned blgp) {
    switch (blgp) {
    case 1: return l % 32;
    case 2: return l % 32 + 32;
    case 3: return (l + 16) % 64;
    case 4: return l % 16;
    case 5: return l % 16 + 16;
    case 6: return l % 16 + 32;
    case 7: return l % 16 + 48;
    default: return l;
    }
}

static double small_value(const op *o, enum format f, bool is_signed) {
    int top = o->d == BF16 ? 1 : 3;
    if (f == IU8 || f == IU4) return is_signed ? (int)below(2 * 3 + 1) - 3 : (int)below(4);
    return (int)below(2u * (unsigned)top + 1) - top;
}

/* A random code of a finite value of moderate size. */
static uint64_t random_code(enum format f, sim_isa isa) {
    for (;;) {
        uint64_t x = (uint64_t)rnd() << 32 | rnd();
        if (f == F64 || f == F32 || f == XF32)
            return encode(f == F64 ? F64 : F32, ((int)below(2000001) - 1000000) * 0x1.03p-20, isa);
        x &= ((uint64_t)1 << bits_of[f]) - 1;
        double v = decode(f, x, isa);
        if (isfinite(v) && fabs(v) < 16 && (below(8) == 0 || f >= FP8 || fabs(v) > 0x1p-10)) return x;
    }
}

static mods choose(const op *o) {
    mods m = {0};
    if (o->f8f6f4) m.cbsz = below(5), m.blgp = below(5);
    else if (o->sparse && !is_wmma(o)) {
        unsigned sets = 32 / (2 * (o->k / 2 / (64 / o->m)));
        m.cbsz = below(4) == 0;
        m.abid = below(sets ? sets : 1);
        m.set = m.cbsz ? 0 : m.abid;
    } else if (o->mfma && o->blocks > 1 && o->d != F64) {
        unsigned log = o->blocks == 2 ? 1 : o->blocks == 4 ? 2 : 4;
        m.cbsz = below(log + 1);
        m.abid = below(1u << m.cbsz);
    }
    if (moves_lanes(o) && below(2)) m.blgp = below(8);
    if (o->d == F64 && o->isa >= SIM_GFX942) m.blgp = below(8);
    if (is_wmma(o)) {
        if (o->sparse) m.set = below(o->lanes == 32 ? (o->k == 64 ? 1 : 2) : (bits_of[o->a] == 4 ? 2 : 4));
        for (int i = 0; i < 2; i++)
            if (is_int(o)) m.neg_lo[i] = below(2);
            else if (half_in(o)) m.neg_lo[i] = below(2), m.neg_hi[i] = below(2);
        if (!is_int(o) && !o->sparse) m.neg_lo[2] = below(2), m.neg_hi[2] = below(2);
        if (is_int(o)) m.clamp = below(2);
        if (o->isa <= SIM_GFX1150 && bits_of[o->d] == 16) m.hi = below(2);
    }
    m.constant = !o->sparse && below(4) == 0;
    m.c_value = (double[]){0, 1, -2, 4}[below(4)];
    m.d_is_c = !m.constant && below(2);
    m.overlap = !o->sparse && below(4) == 0; /* D where A or B is: that must have been read first */
    m.scale_sel[0] = below(4);
    m.scale_sel[1] = below(4);
    return m;
}

static enum format in_format(const op *o, const mods *m, bool b) {
    static const enum format f[] = {FP8, BF8, FP6, BF6, FP4};
    return o->f8f6f4 ? f[b ? m->blgp : m->cbsz] : b ? o->b : o->a;
}

static double decode_in(const op *o, enum format f, uint64_t x, bool is_signed) {
    if (f == IU8) return is_signed ? (double)(int8_t)x : (double)(uint8_t)x;
    if (f == IU4) return is_signed ? (double)((int)(x & 15) - (x & 8 ? 16 : 0)) : (double)(x & 15);
    double v = decode(f, x, o->isa);
    if (o->isa == SIM_GFX90A && ((f == F16 && fabs(v) < 0x1p-14) || (f == BF16 && fabs(v) < 0x1p-126))) v = 0;
    return v;
}

/* Fills registers and the reference's matrices. */
static void fill(const op *o, const mods *m, bool small) {
    for (size_t i = 0; i < sizeof regs / 4; i++) regs[i] = rnd();
    memset(A, 0, sizeof A);
    static uint64_t lane_b[64][32]; /* codes of B by lane and element, so that BLGP can be followed */
    memset(lane_b, 0, sizeof lane_b);
    for (int which = 0; which < 2; which++) {
        enum format f = in_format(o, m, which);
        unsigned size = bits_of[f], outer = which ? o->n : o->m;
        bool sparse_a = o->sparse && !which;
        for (unsigned b = 0; b < o->blocks; b++)
            for (unsigned i = 0; i < outer; i++)
                for (unsigned k = 0; k < o->k; k += sparse_a ? 4 : 1) {
                    unsigned i0 = below(3), i1 = i0 + 1 + below(3 - i0);
                    place p;
                    if (is_wmma(o) && o->isa <= SIM_GFX1150) p = (place){i, k};
                    else if (is_wmma(o))
                        p = !o->sparse ? gfx12_in(o->lanes, size, o->k, i, k)
                            : which    ? gfx12_sparse_b(o->lanes, size, o->k, i, k)
                                       : gfx12_sparse_a(o->lanes, size, o->k, i, k);
                    else if (o->f8f6f4) p = f8f6f4_in(outer, o->k, f, i, k);
                    else if (sparse_a) p = mfma_in(outer, o->k / 2, 1, i, k / 2, 0);
                    else p = mfma_in(outer, o->k, o->blocks, i, k, b);
                    for (unsigned s = 0; s < (sparse_a ? 2u : 1u); s++, p.elem++) {
                        uint64_t x = small && f != I8 && f != IU8 && f != IU4 ? encode(f, small_value(o, f, true), o->isa)
                                     : small ? (uint32_t)(int32_t)small_value(o, f, m->neg_lo[which] || f == I8)
                                     : is_int(o) ? rnd() : random_code(f, o->isa);
                        x &= size == 64 ? ~(uint64_t)0 : ((uint64_t)1 << size) - 1;
                        unsigned copies = is_wmma(o) && o->isa <= SIM_GFX1150 ? o->lanes / 16 : 1;
                        for (unsigned c = 0; c < copies; c++)
                            put(regs, o->lanes, which ? ROW_B : ROW_A, (place){p.lane + 16 * c, p.elem}, size, x);
                        double v = decode_in(o, f, x, m->neg_lo[which]);
                        if (half_in(o) && is_wmma(o) && (p.elem % 2 ? m->neg_hi[which] : m->neg_lo[which])) v = -v;
                        if (o->d == F64 && o->isa >= SIM_GFX942 && m->blgp >> which & 1) v = -v;
                        unsigned to = k + (sparse_a ? s ? i1 : i0 : 0);
                        if (which) B[b][k][i] = v, lane_b[p.lane][p.elem] = x;
                        else A[b][i][to] = v;
                    }
                    if (sparse_a) { /* the index: two bits for each stored element, four for these two */
                        unsigned bit = is_wmma(o) ? gfx12_index_bit(o->lanes, size, o->k, k, m->set)
                                                  : (p.elem - 2) * 2 + m->set * (o->k / (64 / o->m));
                        uint32_t *w = &regs[ROW_INDEX * o->lanes + p.lane];
                        *w = (*w & ~(15u << bit)) | (i0 | i1 << 2) << bit;
                    }
                }
    }
    if (m->blgp && moves_lanes(o))
        for (unsigned b = 0; b < o->blocks; b++)
            for (unsigned j = 0; j < o->n; j++)
                for (unsigned k = 0; k < o->k; k++) {
                    place p = mfma_in(o->n, o->k, o->blocks, j, k, b);
                    B[b][k][j] = decode_in(o, o->b, lane_b[blgp_lane(p.lane, m->blgp)][p.elem], false);
                }
    for (unsigned b = 0; b < o->blocks; b++)
        for (unsigned i = 0; i < o->m; i++)
            for (unsigned j = 0; j < o->n; j++) {
                double v = small ? (int)below(21) - 10 : ((int)below(2001) - 1000) * 0x1p-6;
                if (o->d == BF16) v = (int)below(9) - 4;
                if (is_int(o) && !small) v = below(4) ? (double)(int32_t)rnd() : below(2) ? 2147483600.0 : -2147483600.0;
                if (m->constant) v = m->c_value;
                uint64_t x = encode(o->d, v, o->isa);
                unsigned row = o->sparse || m->d_is_c ? ROW_D : ROW_C;
                if (!m->constant) put(regs, o->lanes, row, out_place(o, i, j, b, m->hi), bits_of[o->d], x);
                if (m->neg_hi[2]) v = fabs(v);
                if (m->neg_lo[2] || (o->d == F64 && o->isa >= SIM_GFX942 && m->blgp & 4)) v = -v;
                C[b][i][j] = v;
            }
    if (o->scaled)
        for (unsigned which = 0; which < 2; which++)
            for (unsigned l = 0; l < 64; l++) {
                uint8_t e = (uint8_t)(124 + below(7));
                uint32_t *w = &regs[(ROW_SCALE + which) * 64 + l];
                unsigned sh = 8 * m->scale_sel[which];
                *w = (*w & ~(255u << sh)) | (uint32_t)e << sh;
                (which ? scale_b : scale_a)[l % o->m][l / o->m] = e;
            }
}

static void setup(const op *o, const mods *m, sim_inst *inst, sim_uop *u, int level, unsigned d_row) {
    unsigned row_bytes = o->lanes * 4;
    *inst = (sim_inst){.meaning = o->name, .isa = (uint8_t)o->isa, .clamp = m->clamp, .cbsz = (uint8_t)m->cbsz,
                       .abid = (uint8_t)m->abid, .blgp = (uint8_t)m->blgp};
    for (int i = 0; i < 3; i++) {
        inst->src[i].kind = SIM_K_VGPR;
        inst->src[i].neg = m->neg_lo[i];
        inst->src[i].neg_hi = m->neg_hi[i];
    }
    inst->src[2].hi = m->hi;
    if (is_wmma(o) && o->sparse) inst->index_key[0] = m->set & 1, inst->index_key[1] = m->set >> 1;
    if (m->constant) {
        inst->src[2].kind = SIM_K_CONST;
        inst->src[2].value = encode(o->d, m->c_value, o->isa);
        if (below(2)) { /* as a decoder that does not know the matrix's type: f32, or 32 bits */
            inst->src[2].type = SIM_T_MATRIX;
            inst->src[2].value = encode(is_int(o) ? I32 : F32, m->c_value, o->isa);
        }
    }
    for (int i = 0; i < 2; i++) {
        inst->scale[i].kind = SIM_K_VGPR;
        inst->scale[i].hi = m->scale_sel[i] & 1;
        inst->scale[i].opsel_hi = m->scale_sel[i] >> 1;
    }
    *u = (sim_uop){0};
    assert_true(sim_mx_prepare(o->isa, o->lanes, inst, level, u));
    u->s[0] = ROW_A * row_bytes;
    u->s[1] = ROW_B * row_bytes;
    u->s[2] = (o->sparse ? ROW_INDEX : m->d_is_c ? ROW_D : ROW_C) * row_bytes;
    u->d = d_row * row_bytes;
    u->imm = ROW_SCALE | (ROW_SCALE + 1) << 16;
}

static double sat(double v) { return v > 2147483647.0 ? 2147483647.0 : v < -2147483648.0 ? -2147483648.0 : v; }

static float flushed(float x, bool flush) { return flush && fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }

/* The sum whose order is known, in that order; false: it is not. */
static bool ordered(const op *o, unsigned b, unsigned ab, unsigned i, unsigned j, uint64_t *out) {
    if (o->d == F64) {
        double c = C[b][i][j];
        for (unsigned k = 0; k < o->k; k++) c = fma(A[ab][i][k], B[b][k][j], c);
        *out = encode(F64, c, o->isa);
        return true;
    }
    float c = (float)C[b][i][j];
    if (o->a == F32) {
        for (unsigned k = 0; k < o->k; k++) c = fmaf((float)A[ab][i][k], (float)B[b][k][j], c);
        *out = encode(F32, c, o->isa);
        return true;
    }
    if (o->isa > SIM_GFX90A || !half_in(o)) return false;
    bool fl = o->isa == SIM_GFX90A;
    bool twos = o->a == BF16 && !strstr(o->name, "_1K"); /* half the rate: two products at a time */
    for (unsigned k = 0; k < o->k; k += twos ? 2 : 4) {
        volatile float p[4], s;
        for (unsigned g = 0; g < (twos ? 2u : 4u); g++) p[g] = flushed((float)A[ab][i][k + g] * (float)B[b][k + g][j], fl);
        s = flushed(p[0] + p[1], fl);
        if (!twos) {
            volatile float h = flushed(p[2] + p[3], fl);
            s = flushed(s + h, fl);
        }
        c = flushed(c + s, fl);
    }
    *out = encode(F32, c, o->isa);
    return true;
}

static void check(const op *o, const mods *m, bool small, unsigned d_row) {
    for (unsigned b = 0; b < o->blocks; b++)
        for (unsigned i = 0; i < o->m; i++)
            for (unsigned j = 0; j < o->n; j++) {
                unsigned ab = b;
                if (o->mfma && !o->f8f6f4 && o->blocks > 1 && m->cbsz) ab = (b >> m->cbsz << m->cbsz) + m->abid;
                double sum = 0, size = fabs(C[b][i][j]);
                for (unsigned k = 0; k < o->k; k++) {
                    double p = A[ab][i][k] * B[b][k][j];
                    if (o->scaled) p = ldexp(p, scale_a[i][k / 32] + scale_b[j][k / 32] - 254);
                    sum += p;
                    size += fabs(p);
                }
                double want = C[b][i][j] + sum;
                uint64_t code = get(regs, o->lanes, d_row, out_place(o, i, j, b, m->hi), bits_of[o->d]);
                double got = decode(o->d, code, o->isa), slack = 0;
                uint64_t bits;
                if (is_int(o)) want = m->clamp ? sat(want) : (double)(int32_t)(uint32_t)(int64_t)want;
                else if (!small) {
                    if (ordered(o, b, ab, i, j, &bits) && bits != code)
                        fail_msg("%s on isa %d: D%u[%u][%u] is %#llx, in order %#llx", o->name, (int)o->isa, b, i, j,
                                 (unsigned long long)code, (unsigned long long)bits);
                    slack = o->k * size * (o->d == F64 ? 0x1p-53 : 0x1p-24);
                    slack += 3 * o->k * (o->isa == SIM_GFX90A ? 0x1p-126 : 0x1p-149); /* products that leave f32's range */
                    if (o->d == F16) slack += ldexp(fabs(want), -11) + 0x1p-25;
                    if (o->d == BF16) slack += ldexp(fabs(want), -8) + 0x1p-133;
                }
                if (!(fabs(got - want) <= slack))
                    fail_msg("%s on isa %d wave%u (cbsz %u abid %u blgp %u set %u): D%u[%u][%u] is %.9g, not %.9g", o->name,
                             (int)o->isa, o->lanes, m->cbsz, m->abid, m->blgp, m->set, b, i, j, got, want);
            }
}

static unsigned n_run;

static void run(const op *o, bool small) {
    mods m = choose(o);
    fill(o, &m, small);
    unsigned d_row = m.overlap && !m.d_is_c ? below(2) ? ROW_A : ROW_B : ROW_D;
    memcpy(before, regs, sizeof regs);
    static uint32_t first[N_ROWS * 64];
    for (int level = 0; level <= sim_host_level(); level++) {
        sim_inst inst;
        sim_uop u[2];
        static sim_wave w;
        memset(&w, 0, sizeof w);
        memcpy(regs, before, sizeof regs);
        setup(o, &m, &inst, u, level, d_row);
        w.v = regs;
        w.lanes = (uint8_t)o->lanes;
        w.isa = (uint8_t)o->isa;
        w.s[SIM_S_EXEC_LO] = rnd();
        w.s[SIM_S_EXEC_HI] = rnd();
#if defined(__x86_64__)
        unsigned plain = _mm_getcsr(), odd = below(2) ? 0x1f80 | 0x8040 | below(4) << 13 : 0x1f80;
        _mm_setcsr(odd);
        const sim_uop *next = u[0].fn(&w, u);
        unsigned left = _mm_getcsr();
        _mm_setcsr(plain);
        assert_int_equal(left & 0xffc0, odd & 0xffc0);
#else
        const sim_uop *next = u[0].fn(&w, u);
#endif
        assert_ptr_equal(next, u + 1);
        if (!level) memcpy(first, regs, sizeof regs);
        else if (memcmp(first, regs, sizeof regs)) fail_msg("%s on isa %d: level %d differs", o->name, (int)o->isa, level);
    }
    check(o, &m, small, d_row);
    /* nothing but the results has changed */
    for (unsigned b = 0; b < o->blocks; b++)
        for (unsigned i = 0; i < o->m; i++)
            for (unsigned j = 0; j < o->n; j++) {
                place p = out_place(o, i, j, b, m.hi);
                put(regs, o->lanes, d_row, p, bits_of[o->d], get(before, o->lanes, d_row, p, bits_of[o->d]));
            }
    if (memcmp(regs, before, sizeof(uint32_t) * N_ROWS * o->lanes)) fail_msg("%s wrote outside D", o->name);
    n_run++;
}

static void run_names(const char *const *names, sim_isa isa, unsigned lanes) {
    for (; *names; names++) {
        op o = take_apart(*names, isa, lanes);
        unsigned trials = o.m == 32 && o.k >= 32 ? 6 : 12;
        for (unsigned t = 0; t < trials; t++) run(&o, t % 2 == 0);
    }
}

/* ---- the names ---- */

static const char *const cdna1[] = {
    "V_MFMA_F32_32X32X1F32", "V_MFMA_F32_16X16X1F32", "V_MFMA_F32_4X4X1F32", "V_MFMA_F32_32X32X2F32", "V_MFMA_F32_16X16X4F32",
    "V_MFMA_F32_32X32X4F16", "V_MFMA_F32_16X16X4F16", "V_MFMA_F32_4X4X4F16", "V_MFMA_F32_32X32X8F16", "V_MFMA_F32_16X16X16F16",
    "V_MFMA_F32_32X32X2BF16", "V_MFMA_F32_16X16X2BF16", "V_MFMA_F32_4X4X2BF16", "V_MFMA_F32_32X32X4BF16",
    "V_MFMA_F32_16X16X8BF16", "V_MFMA_I32_32X32X4I8", "V_MFMA_I32_16X16X4I8", "V_MFMA_I32_4X4X4I8", "V_MFMA_I32_32X32X8I8",
    "V_MFMA_I32_16X16X16I8", NULL};
static const char *const cdna2[] = {
    "V_MFMA_F32_32X32X4BF16_1K", "V_MFMA_F32_16X16X4BF16_1K", "V_MFMA_F32_4X4X4BF16_1K", "V_MFMA_F32_32X32X8BF16_1K",
    "V_MFMA_F32_16X16X16BF16_1K", "V_MFMA_F64_16X16X4F64", "V_MFMA_F64_4X4X4F64", NULL};
static const char *const cdna12_new[] = { /* the later spelling of the same */
    "V_MFMA_F32_32X32X1_2B_F32", "V_MFMA_F32_16X16X1_4B_F32", "V_MFMA_F32_4X4X1_16B_F32", "V_MFMA_F32_32X32X2_F32",
    "V_MFMA_F32_16X16X4_F32", "V_MFMA_F32_32X32X4_2B_F16", "V_MFMA_F32_16X16X4_4B_F16", "V_MFMA_F32_4X4X4_16B_F16",
    "V_MFMA_F32_32X32X8_F16", "V_MFMA_F32_16X16X16_F16", "V_MFMA_I32_32X32X4_2B_I8", "V_MFMA_I32_16X16X4_4B_I8",
    "V_MFMA_I32_4X4X4_16B_I8", NULL};
static const char *const cdna34[] = {
    "V_MFMA_F32_32X32X4_2B_BF16", "V_MFMA_F32_16X16X4_4B_BF16", "V_MFMA_F32_4X4X4_16B_BF16", "V_MFMA_F32_32X32X8_BF16",
    "V_MFMA_F32_16X16X16_BF16", "V_MFMA_I32_32X32X16_I8", "V_MFMA_I32_16X16X32_I8", "V_MFMA_F64_16X16X4_F64",
    "V_MFMA_F64_4X4X4_4B_F64", "V_MFMA_F32_16X16X32_BF8_BF8", "V_MFMA_F32_16X16X32_BF8_FP8", "V_MFMA_F32_16X16X32_FP8_BF8",
    "V_MFMA_F32_16X16X32_FP8_FP8", "V_MFMA_F32_32X32X16_BF8_BF8", "V_MFMA_F32_32X32X16_BF8_FP8",
    "V_MFMA_F32_32X32X16_FP8_BF8", "V_MFMA_F32_32X32X16_FP8_FP8", NULL};
static const char *const cdna34_sparse[] = {
    "V_SMFMAC_F32_16X16X32_F16", "V_SMFMAC_F32_32X32X16_F16", "V_SMFMAC_F32_16X16X32_BF16", "V_SMFMAC_F32_32X32X16_BF16",
    "V_SMFMAC_I32_16X16X64_I8", "V_SMFMAC_I32_32X32X32_I8", "V_SMFMAC_F32_16X16X64_BF8_BF8", "V_SMFMAC_F32_16X16X64_BF8_FP8",
    "V_SMFMAC_F32_16X16X64_FP8_BF8", "V_SMFMAC_F32_16X16X64_FP8_FP8", "V_SMFMAC_F32_32X32X32_BF8_BF8",
    "V_SMFMAC_F32_32X32X32_BF8_FP8", "V_SMFMAC_F32_32X32X32_FP8_BF8", "V_SMFMAC_F32_32X32X32_FP8_FP8", NULL};
static const char *const cdna3[] = {"V_MFMA_F32_16X16X8_XF32", "V_MFMA_F32_32X32X4_XF32", NULL};
static const char *const cdna4[] = {
    "V_MFMA_F32_16X16X128_F8F6F4", "V_MFMA_F32_32X32X64_F8F6F4", "V_MFMA_SCALE_F32_16X16X128_F8F6F4",
    "V_MFMA_SCALE_F32_32X32X64_F8F6F4", "V_MFMA_F32_16X16X32_BF16", "V_MFMA_I32_16X16X64_I8", "V_MFMA_F32_32X32X16_BF16",
    "V_MFMA_I32_32X32X32_I8", "V_MFMA_F32_16X16X32_F16", "V_MFMA_F32_32X32X16_F16", "V_SMFMAC_F32_16X16X64_BF16",
    "V_SMFMAC_I32_16X16X128_I8", "V_SMFMAC_F32_16X16X128_BF8_BF8", "V_SMFMAC_F32_16X16X128_BF8_FP8",
    "V_SMFMAC_F32_16X16X128_FP8_BF8", "V_SMFMAC_F32_16X16X128_FP8_FP8", "V_SMFMAC_F32_32X32X32_BF16",
    "V_SMFMAC_I32_32X32X64_I8", "V_SMFMAC_F32_32X32X64_BF8_BF8", "V_SMFMAC_F32_32X32X64_BF8_FP8",
    "V_SMFMAC_F32_32X32X64_FP8_BF8", "V_SMFMAC_F32_32X32X64_FP8_FP8", "V_SMFMAC_F32_16X16X64_F16",
    "V_SMFMAC_F32_32X32X32_F16", NULL};
static const char *const rdna3[] = {
    "V_WMMA_F32_16X16X16_F16", "V_WMMA_F32_16X16X16_BF16", "V_WMMA_F16_16X16X16_F16", "V_WMMA_BF16_16X16X16_BF16",
    "V_WMMA_I32_16X16X16_IU8", "V_WMMA_I32_16X16X16_IU4", NULL};
static const char *const rdna4[] = {
    "V_WMMA_I32_16X16X32_IU4", "V_WMMA_F32_16X16X16_FP8_FP8", "V_WMMA_F32_16X16X16_FP8_BF8", "V_WMMA_F32_16X16X16_BF8_FP8",
    "V_WMMA_F32_16X16X16_BF8_BF8", "V_SWMMAC_F32_16X16X32_F16", "V_SWMMAC_F32_16X16X32_BF16", "V_SWMMAC_F16_16X16X32_F16",
    "V_SWMMAC_BF16_16X16X32_BF16", "V_SWMMAC_I32_16X16X32_IU8", "V_SWMMAC_I32_16X16X32_IU4", "V_SWMMAC_I32_16X16X64_IU4",
    "V_SWMMAC_F32_16X16X32_FP8_FP8", "V_SWMMAC_F32_16X16X32_FP8_BF8", "V_SWMMAC_F32_16X16X32_BF8_FP8",
    "V_SWMMAC_F32_16X16X32_BF8_BF8", NULL};

static void test_gfx908(void **state) {
    (void)state;
    run_names(cdna1, SIM_GFX908, 64);
    run_names(cdna12_new, SIM_GFX908, 64);
}

static void test_gfx90a(void **state) {
    (void)state;
    run_names(cdna1, SIM_GFX90A, 64);
    run_names(cdna2, SIM_GFX90A, 64);
    run_names(cdna12_new, SIM_GFX90A, 64);
}

static void test_gfx942(void **state) {
    (void)state;
    run_names(cdna12_new, SIM_GFX942, 64);
    run_names(cdna34, SIM_GFX942, 64);
    run_names(cdna3, SIM_GFX942, 64);
    run_names(cdna34_sparse, SIM_GFX942, 64);
}

static void test_gfx950(void **state) {
    (void)state;
    run_names(cdna12_new, SIM_GFX950, 64);
    run_names(cdna34, SIM_GFX950, 64);
    run_names(cdna34_sparse, SIM_GFX950, 64);
    run_names(cdna4, SIM_GFX950, 64);
}

static void test_gfx11(void **state) {
    (void)state;
    for (unsigned lanes = 32; lanes <= 64; lanes += 32) {
        run_names(rdna3, SIM_GFX1100, lanes);
        run_names(rdna3, SIM_GFX1150, lanes);
    }
}

static void test_gfx12(void **state) {
    (void)state;
    for (unsigned lanes = 32; lanes <= 64; lanes += 32) {
        run_names(rdna3, SIM_GFX1200, lanes);
        run_names(rdna4, SIM_GFX1200, lanes);
    }
}

/* What a target lacks has no meaning there. */
static void test_absent(void **state) {
    (void)state;
    static const struct { const char *name; sim_isa isa; unsigned lanes; } t[] = {
        {"V_MFMA_F64_16X16X4F64", SIM_GFX908, 64}, {"V_MFMA_F32_16X16X8_XF32", SIM_GFX950, 64},
        {"V_MFMA_I32_32X32X8I8", SIM_GFX942, 64}, {"V_MFMA_F32_16X16X32_F16", SIM_GFX942, 64},
        {"V_WMMA_F32_16X16X16_FP8_FP8", SIM_GFX1100, 32}, {"V_WMMA_F32_16X16X16_F16", SIM_GFX942, 64},
        {"V_MFMA_F32_32X32X2_F32", SIM_GFX1100, 64}, {"V_MFMA_F32_32X32X2_F32", SIM_GFX942, 32},
        {"V_SWMMAC_F32_16X16X32_F16", SIM_GFX1150, 32}, {"V_WMMA_F32_16X16X16_F16", SIM_GFX1030, 32},
        {"V_ADD_F32", SIM_GFX942, 64}};
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        sim_inst inst = {.meaning = t[i].name, .isa = (uint8_t)t[i].isa};
        sim_uop u = {0};
        assert_false(sim_mx_prepare(t[i].isa, t[i].lanes, &inst, 0, &u));
    }
}

/* An E8M0 scale of 255 is NaN, extreme ones do not overflow on the way; infinities and NaN of the inputs arrive. */
static void test_special_values(void **state) {
    (void)state;
    op o = take_apart("V_MFMA_SCALE_F32_16X16X128_F8F6F4", SIM_GFX950, 64);
    mods m = {0};
    static sim_wave w;
    for (int level = 0; level <= sim_host_level(); level++) {
        memset(&w, 0, sizeof w);
        memset(regs, 0, sizeof regs);
        w.v = regs;
        w.lanes = 64;
        w.isa = SIM_GFX950;
        for (unsigned l = 0; l < 64; l++) regs[ROW_SCALE * 64 + l] = 254, regs[(ROW_SCALE + 1) * 64 + l] = 2;
        for (unsigned l = 16; l < 32; l++) regs[ROW_SCALE * 64 + l] = 100;
        regs[ROW_SCALE * 64 + 3] = 255;        /* row 3, k 0..31 */
        regs[(ROW_SCALE + 1) * 64 + 20] = 255; /* column 4, k 32..63 */
        for (unsigned i = 0; i < 16; i++) {
            put(regs, 64, ROW_A, f8f6f4_in(16, 128, FP8, i, 5), 8, encode(FP8, 3, SIM_GFX950));
            put(regs, 64, ROW_B, f8f6f4_in(16, 128, FP8, i, 5), 8, encode(FP8, 2, SIM_GFX950));
        }
        sim_inst inst;
        sim_uop u;
        setup(&o, &m, &inst, &u, level, ROW_D);
        inst.src[2].kind = SIM_K_CONST;
        u.fn(&w, &u);
        for (unsigned i = 0; i < 16; i++)
            for (unsigned j = 0; j < 16; j++) {
                double got = decode(F32, get(regs, 64, ROW_D, mfma_out(16, 16, 32, i, j, 0), 32), SIM_GFX950);
                if (i == 3 || j == 4) assert_true(isnan(got));
                else assert_true(got == 6 * 4); /* 2^127 * 2^-125 */
            }
    }
    o = take_apart("V_WMMA_F16_16X16X16_F16", SIM_GFX1200, 32);
    for (int level = 0; level <= sim_host_level(); level++) {
        memset(regs, 0, sizeof regs);
        w.lanes = 32;
        w.isa = SIM_GFX1200;
        static const uint16_t in[6] = {0x7c00, 0x7e01, 0x7bff, 0x0001, 0xfc00, 0x8400};
        for (unsigned i = 0; i < 6; i++) put(regs, 32, ROW_A, gfx12_in(32, 16, 16, i, 7), 16, in[i]);
        put(regs, 32, ROW_B, gfx12_in(32, 16, 16, 2, 7), 16, 0x3c00);
        put(regs, 32, ROW_B, gfx12_in(32, 16, 16, 3, 7), 16, 0x4000);
        sim_inst inst;
        sim_uop u;
        setup(&o, &m, &inst, &u, level, ROW_D);
        inst.src[2].kind = SIM_K_CONST;
        u.fn(&w, &u);
        static const uint16_t times1[6] = {0x7c00, 0x7e00, 0x7bff, 0x0001, 0xfc00, 0x8400};
        static const uint16_t times2[6] = {0x7c00, 0x7e00, 0x7c00, 0x0002, 0xfc00, 0x8800};
        for (unsigned i = 0; i < 6; i++) {
            uint64_t x = get(regs, 32, ROW_D, out_place(&o, i, 2, 0, false), 16);
            uint64_t y = get(regs, 32, ROW_D, out_place(&o, i, 3, 0, false), 16);
            if (i == 1 && (x & 0x7fff) > 0x7c00) x = 0x7e00; /* any NaN */
            if (i == 1 && (y & 0x7fff) > 0x7c00) y = 0x7e00;
            assert_int_equal(x, times1[i]);
            assert_int_equal(y, times2[i]);
        }
    }
}

/* gfx90a flushes denormals of 16-bit inputs and of results; gfx908 and gfx942 do not. */
static void test_denormals(void **state) {
    (void)state;
    static const struct { sim_isa isa; double want; } t[] = {{SIM_GFX908, 0x1p-20}, {SIM_GFX90A, 0}, {SIM_GFX942, 0x1p-20}};
    for (size_t i = 0; i < 3; i++)
        for (int level = 0; level <= sim_host_level(); level++) {
            op o = take_apart("V_MFMA_F32_16X16X16_F16", t[i].isa, 64);
            mods m = {0};
            static sim_wave w;
            memset(regs, 0, sizeof regs);
            w.v = regs;
            w.lanes = 64;
            w.isa = (uint8_t)t[i].isa;
            put(regs, 64, ROW_A, mfma_in(16, 16, 1, 1, 9, 0), 16, encode(F16, 0x1p-20, t[i].isa));
            put(regs, 64, ROW_B, mfma_in(16, 16, 1, 2, 9, 0), 16, encode(F16, 1, t[i].isa));
            sim_inst inst;
            sim_uop u;
            setup(&o, &m, &inst, &u, level, ROW_D);
            u.fn(&w, &u);
            assert_true(decode(F32, get(regs, 64, ROW_D, mfma_out(16, 16, 32, 1, 2, 0), 32), t[i].isa) == t[i].want);
        }
}

/* Steps of gfx90a's paired bf16 sums that a result of normal size would hide. Products of four k, and C; D follows. */
static void test_flushed_steps(void **state) {
    (void)state;
    static const struct { double a[4], b[4], c, want; } t[] = {
        {{0x1p-64, 0, 0, 0}, {0x1p-63, 0, 0, 0}, 0x1p-126, 0x1p-126},                            /* a product */
        {{0x1.8p-64, 0x1p-64, 0, 0}, {0x1p-62, -0x1p-62, 0, 0}, 0x1p-126, 0x1p-126},             /* a pair */
        {{0x1.8p-64, 0, -0x1p-64, 0}, {0x1p-62, 0, 0x1p-62, 0}, 0x1p-126, 0x1p-126},             /* the two pairs */
        {{0x1p-64, 0, 0, 0}, {0x1p-62, 0, 0, 0}, 0x1p-127, 0x1p-126},                            /* C */
        {{0x1p-64, 0, 0, 0}, {0x1p-62, 0, 0, 0}, -0x1.8p-126, -0.0}, {{0}, {0}, -0x1p-127, 0}};  /* the sum; C's sign */
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++)
        for (int level = 0; level <= sim_host_level(); level++)
            for (int quads = 0; quads < 2; quads++) {
                op o = take_apart(quads ? "V_MFMA_F32_4X4X4BF16_1K" : "V_MFMA_F32_16X16X16BF16_1K", SIM_GFX90A, 64);
                mods m = {0};
                static sim_wave w;
                memset(regs, 0, sizeof regs);
                w.v = regs;
                w.lanes = 64;
                w.isa = SIM_GFX90A;
                for (unsigned k = 0; k < 4; k++) {
                    put(regs, 64, ROW_A, mfma_in(o.m, o.k, o.blocks, 1, k, 0), 16, encode(BF16, t[i].a[k], SIM_GFX90A));
                    put(regs, 64, ROW_B, mfma_in(o.n, o.k, o.blocks, 2, k, 0), 16, encode(BF16, t[i].b[k], SIM_GFX90A));
                }
                place d = mfma_out(o.m, o.n, 32, 1, 2, 0);
                put(regs, 64, ROW_C, d, 32, encode(F32, t[i].c, SIM_GFX90A));
                sim_inst inst;
                sim_uop u;
                setup(&o, &m, &inst, &u, level, ROW_D);
                u.fn(&w, &u);
                double want = quads ? t[i].want : t[i].want + 0.0; /* K 16: three more groups of zeros */
                unsigned long long got = get(regs, 64, ROW_D, d, 32);
                if (got != encode(F32, want, SIM_GFX90A))
                    fail_msg("case %zu, level %d, quads %d: %#llx", i, level, quads, got);
            }
}

/* Results of 16 bits are rounded to nearest even: C + 1 * x at a tie, and beside it. */
static void test_rounding(void **state) {
    (void)state;
    static const struct { const char *name; enum format f; double c, x, want; } t[] = {
        {"V_WMMA_F16_16X16X16_F16", F16, 1, 0x1p-11, 1},
        {"V_WMMA_F16_16X16X16_F16", F16, 1, 0x1.8p-11, 1 + 0x1p-10},
        {"V_WMMA_F16_16X16X16_F16", F16, 1 + 0x1p-10, 0x1p-11, 1 + 0x1p-9},
        {"V_WMMA_F16_16X16X16_F16", F16, 0x1p-14, 0x1p-24, 0x1.004p-14},
        {"V_WMMA_F16_16X16X16_F16", F16, 65504, 15, 65504},
        {"V_WMMA_F16_16X16X16_F16", F16, 65504, 16, INFINITY},
        {"V_WMMA_BF16_16X16X16_BF16", BF16, 1, 0x1p-8, 1},
        {"V_WMMA_BF16_16X16X16_BF16", BF16, 1, 0x1.8p-8, 1 + 0x1p-7},
        {"V_WMMA_BF16_16X16X16_BF16", BF16, 1 + 0x1p-7, 0x1p-8, 1 + 0x1p-6}};
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++)
        for (int level = 0; level <= sim_host_level(); level++) {
            op o = take_apart(t[i].name, SIM_GFX1200, 32);
            mods m = {0};
            static sim_wave w;
            memset(regs, 0, sizeof regs);
            w.v = regs;
            w.lanes = 32;
            w.isa = SIM_GFX1200;
            put(regs, 32, ROW_A, gfx12_in(32, 16, 16, 5, 3), 16, encode(t[i].f, 1, SIM_GFX1200));
            put(regs, 32, ROW_B, gfx12_in(32, 16, 16, 6, 3), 16, encode(t[i].f, t[i].x, SIM_GFX1200));
            put(regs, 32, ROW_C, out_place(&o, 5, 6, 0, false), 16, encode(t[i].f, t[i].c, SIM_GFX1200));
            sim_inst inst;
            sim_uop u;
            setup(&o, &m, &inst, &u, level, ROW_D);
            u.fn(&w, &u);
            double got = decode(t[i].f, get(regs, 32, ROW_D, out_place(&o, 5, 6, 0, false), 16), SIM_GFX1200);
            if (got != t[i].want) fail_msg("case %zu, level %d: %a", i, level, got);
        }
}

/* Every name above is in the list of meanings, and no name is there twice. */
static void test_meanings(void **state) {
    (void)state;
    static const char *const *const lists[] = {cdna1, cdna2, cdna12_new, cdna34, cdna34_sparse, cdna3, cdna4, rdna3, rdna4};
    for (size_t l = 0; l < sizeof lists / sizeof lists[0]; l++)
        for (const char *const *n = lists[l]; *n; n++) {
            unsigned found = 0;
            sim_meaning mean;
            for (size_t i = 0; sim_meaning_at_matrix(i, &mean); i++)
                if (!strcmp(mean.name, *n)) {
                    found++;
                    assert_int_equal(mean.exactness == SIM_EXACT, mean.bound == NULL);
                }
            if (found != 1) fail_msg("%s is listed %u times", *n, found);
        }
}

/* Every matrix row of the decoder's tables has a meaning, in each wave size, and decodes to operands of as many registers as
 * are read and written here. */
static void test_decoder(void **state) {
    (void)state;
    const sim_row *row;
    unsigned n_rows = 0;
    for (size_t r = 0; (row = sim_row_at(r)); r++) {
        if (!strstr(row->mnemonic, "mfma_") && !strstr(row->mnemonic, "wmma") && !strstr(row->mnemonic, "smfmac") &&
            !strstr(row->mnemonic, "swmmac"))
            continue;
        for (unsigned isa = 0; isa < SIM_N_ISA; isa++)
            for (unsigned lanes = isa > SIM_GFX950 ? 32 : 64; row->isas >> isa & 1 && lanes <= 64; lanes += 32) {
                uint32_t hi = (isa > SIM_GFX950 ? 0xcc000000u : 0xd3800000u) | (uint32_t)row->opcode << 16;
                uint32_t regs0 = 256 | 256 << 9, words[4] = {hi, regs0 | 256 << 18, 0, 0}; /* all operands v0 */
                if (row->format == SIM_VOP3PX2)
                    words[0] = 0xd3ac0000, words[1] = regs0, words[2] = hi | 1 << 11, words[3] = regs0 | 256 << 18;
                sim_inst x, y;
                sim_uop u = {0};
                och_err err;
                if (sim_decode((sim_isa)isa, lanes, (const uint8_t *)words, sizeof words, 0, &x, &y, &err) != OCH_OK)
                    fail_msg("%s on isa %u: %s", row->mnemonic, isa, err.message);
                if (!sim_mx_prepare((sim_isa)isa, lanes, &x, 0, &u)) fail_msg("%s has no meaning", row->mnemonic);
                n_rows++;
                if (x.dst.kind == SIM_K_NONE) { /* AMD's description of the xf32 forms names no operands */
                    assert_non_null(strstr(row->mnemonic, "xf32"));
                    print_message("%s is decoded without operands\n", row->mnemonic);
                    continue;
                }
                unsigned n[4];
                sim_mx_registers(&u, n);
                unsigned have[4] = {x.src[0].n_dwords, x.src[1].n_dwords, x.src[2].n_dwords, x.dst.n_dwords};
                if (memcmp(n, have, sizeof n))
                    fail_msg("%s on isa %u wave%u: %u %u %u %u registers decoded, %u %u %u %u used", row->mnemonic, isa,
                             lanes, have[0], have[1], have[2], have[3], n[0], n[1], n[2], n[3]);
            }
    }
    assert_true(n_rows > 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gfx908),  cmocka_unit_test(test_gfx90a),         cmocka_unit_test(test_gfx942),
        cmocka_unit_test(test_gfx950),  cmocka_unit_test(test_gfx11),          cmocka_unit_test(test_gfx12),
        cmocka_unit_test(test_absent),  cmocka_unit_test(test_special_values), cmocka_unit_test(test_denormals),
        cmocka_unit_test(test_meanings), cmocka_unit_test(test_flushed_steps), cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_decoder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
