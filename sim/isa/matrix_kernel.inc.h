/* The kernels of matrix.h, compiled once for each instruction set of the host: MX_W lanes a vector, MX_NAME the table. Vector
 * arithmetic is the compilers' own; intrinsics stand only where they have no words for it: fma, half precision, gather. */
#include "isa/matrix.h"

#include <math.h>
#include <string.h>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

typedef float vf __attribute__((vector_size(MX_W * 4), aligned(4), may_alias));
typedef uint32_t vu __attribute__((vector_size(MX_W * 4), aligned(4), may_alias));
typedef int32_t vi __attribute__((vector_size(MX_W * 4), aligned(4), may_alias));

static inline vf load(const float *p) { return *(const vf *)p; }
static inline void store(float *p, vf v) { *(vf *)p = v; }
static inline vu load_u(const uint32_t *p) { return *(const vu *)p; }

#if MX_W == 16
static inline vf set1(float x) { return (vf)_mm512_set1_ps(x); }
static inline vf fma_v(vf a, vf b, vf c) { return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
static inline vf half_v(vu h) { return (vf)_mm512_cvtph_ps(_mm512_cvtepi32_epi16((__m512i)h)); }
static inline vf look_up(const float *lut, vu i) { return (vf)_mm512_i32gather_ps((__m512i)i, lut, 4); }
#elif MX_W == 8
static inline vf set1(float x) { return (vf)_mm256_set1_ps(x); }
static inline vf fma_v(vf a, vf b, vf c) { return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
static inline vf half_v(vu h) { /* the upper halves of h are 0 */
    __m256i p = _mm256_permute4x64_epi64(_mm256_packus_epi32((__m256i)h, (__m256i)h), 0x08);
    return (vf)_mm256_cvtph_ps(_mm256_castsi256_si128(p));
}
static inline vf look_up(const float *lut, vu i) { return (vf)_mm256_i32gather_ps(lut, (__m256i)i, 4); }
#else
static inline vf set1(float x) { return (vf){x, x, x, x}; }
static inline vf fma_v(vf a, vf b, vf c) {
    vf r;
    for (int e = 0; e < MX_W; e++) r[e] = fmaf(a[e], b[e], c[e]);
    return r;
}
static inline vf half_v(vu h) {
    vu mag = (h & 0x7fff) << 13, big = (vu)(mag >= 0x0f800000u);
    vu bits = (vu)((vf)mag * 0x1p112f);
    return (vf)((big & (mag | 0x7f800000u)) | (~big & bits) | (h & 0x8000) << 16);
}
static inline vf look_up(const float *lut, vu i) {
    vf r;
    for (int e = 0; e < MX_W; e++) r[e] = lut[i[e]];
    return r;
}
#endif

/* A denormal to zero of its sign. */
static inline vf flush_v(vf v) {
    vu small = (vu)(((vu)v & 0x7fffffffu) < 0x00800000u);
    return (vf)((vu)v & ~(small & 0x7fffffffu));
}

/* What is smaller than `least` to +0. */
static inline vf drop_v(vf v, float least) {
    uint32_t bits;
    memcpy(&bits, &least, 4);
    return (vf)((vu)v & (vu)(((vu)v & 0x7fffffffu) >= bits));
}

/* What the next register has of a 6-bit element that begins at bit sh. */
static inline vu rest6(const uint32_t *next, unsigned sh) {
    if (sh > 26) return load_u(next) << (32 - sh);
    return (vu){0};
}

#define UNPACK(expr) \
    for (unsigned s = 0; s < n; s++) { \
        const uint32_t *p = rows + t->off[s]; \
        unsigned sh = t->shift[s]; \
        for (unsigned l = 0; l < span; l += MX_W) { \
            vu x = load_u(p + l); \
            store(dst + s * span + l, (expr)); \
        } \
        (void)sh; \
    } \
    break

static void unpack(float *dst, const uint32_t *rows, const sim_mx_strips *t, unsigned n, unsigned span,
                   const sim_mx_unpack *how) {
    const float *lut = how->lut;
    switch (how->kind) {
    case SIM_MX_U_F32: UNPACK((vf)x);
    case SIM_MX_U_XF32: UNPACK((vf)(x & 0xffffe000u)); /* sign, 8 bits of exponent, 10 of mantissa */
    case SIM_MX_U_F16: UNPACK(half_v(x >> sh & 0xffff));
    case SIM_MX_U_BF16: UNPACK((vf)(x >> sh << 16));
    case SIM_MX_U_I8: UNPACK(__builtin_convertvector((vi)(x << (24 - sh)) >> 24, vf));
    case SIM_MX_U_U8: UNPACK(__builtin_convertvector((vi)(x >> sh & 0xff), vf));
    case SIM_MX_U_I4: UNPACK(__builtin_convertvector((vi)(x << (28 - sh)) >> 28, vf));
    case SIM_MX_U_U4: UNPACK(__builtin_convertvector((vi)(x >> sh & 0xf), vf));
    case SIM_MX_U_LUT8: UNPACK(look_up(lut, x >> sh & 0xff));
    case SIM_MX_U_LUT4: UNPACK(look_up(lut, x >> sh & 0xf));
    case SIM_MX_U_LUT6: /* an element may begin in one register and end in the next */
        UNPACK(look_up(lut, (x >> sh | rest6(p + how->lanes + l, sh)) & 0x3f));
    }
    if (how->flush) {
        float least = how->kind == SIM_MX_U_F16 ? 0x1p-14f : 0x1p-126f;
        for (unsigned i = 0; i < n * span; i += MX_W) store(dst + i, drop_v(load(dst + i), least));
    }
    if (how->neg_lo || how->neg_hi)
        for (unsigned s = 0; s < n; s++)
            if (t->shift[s] ? how->neg_hi : how->neg_lo)
                for (unsigned l = 0; l < span; l += MX_W) store(dst + s * span + l, -load(dst + s * span + l));
}

#define ROWS4(X) X(0) X(1) X(2) X(3)
#define ROWS8(X) ROWS4(X) X(4) X(5) X(6) X(7)
#define ROWS16(X) ROWS8(X) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#if MX_W == 16
#define ROWS ROWS16
#define N_ROWS 16
#else
#define ROWS ROWS8
#define N_ROWS 8
#endif

#define INLINE static inline __attribute__((always_inline))

/* Where the host has no fma, a product that float holds exactly needs none. */
INLINE vf multiply_add(vf a, vf b, vf c, bool exact) {
    if (MX_W == 4 && exact) return a * b + c;
    return fma_v(a, b, c);
}

INLINE void chain_of(float *acc, const uint16_t *off, const float *a, const float *b, unsigned span, unsigned m, unsigned n,
                     unsigned k, bool exact) {
    for (unsigned j = 0; j < n; j += MX_W)
        for (unsigned i = 0; i < m; i += N_ROWS) {
            const float *ap = a + i, *bp = b + j;
#define X(r) vf c##r = load(acc + off[i + r] + j);
            ROWS(X)
#undef X
            for (unsigned q = 0; q < k; q++, ap += span, bp += span) {
                vf v = load(bp);
#define X(r) c##r = multiply_add(set1(ap[r]), v, c##r, exact);
                ROWS(X)
#undef X
            }
#define X(r) store(acc + off[i + r] + j, c##r);
            ROWS(X)
#undef X
        }
}

static void chain(float *acc, const uint16_t *off, const float *a, const float *b, unsigned span, unsigned m, unsigned n,
                  unsigned k, bool exact) {
    if (exact) chain_of(acc, off, a, b, span, m, n, k, true);
    else chain_of(acc, off, a, b, span, m, n, k, false);
}

INLINE vf flush_if(vf v, bool flush) {
    if (flush) return flush_v(v);
    return v;
}

INLINE vf drop_if(vf v, bool drop) {
    if (drop) return drop_v(v, 0x1p-126f);
    return v;
}

/* The sum of a group of products: in pairs, each step rounded. */
INLINE vf group_sum(vf a0, vf a1, vf a2, vf a3, const vf b[4], unsigned group, bool flush) {
    vf s = flush_if(flush_if(a0 * b[0], flush) + flush_if(a1 * b[1], flush), flush);
    if (group == 2) return s;
    vf h = flush_if(flush_if(a2 * b[2], flush) + flush_if(a3 * b[3], flush), flush);
    return flush_if(s + h, flush);
}

/* flush_p: products and their sums may be denormal (bf16); flush_c: the accumulator's denormals are flushed. */
INLINE void pairs_of(float *acc, const uint16_t *off, const float *a, const float *b, unsigned span, unsigned m, unsigned n,
                     unsigned k, unsigned group, bool flush_p, bool flush_c) {
    for (unsigned j = 0; j < n; j += MX_W)
        for (unsigned i = 0; i < m; i += 4) {
#define X(r) vf c##r = drop_if(load(acc + off[i + r] + j), flush_c);
            ROWS4(X)
#undef X
            for (unsigned q = 0; q < k; q += group) {
                const float *ap = a + q * span + i, *bp = b + q * span + j;
                vf v[4] = {load(bp), load(bp + span)};
                if (group == 4) v[2] = load(bp + 2 * span), v[3] = load(bp + 3 * span);
#define A(g, r) set1(ap[(group == 4 ? g : g % 2) * span + r])
#define X(r) c##r = flush_if(c##r + group_sum(A(0, r), A(1, r), A(2, r), A(3, r), v, group, flush_p), flush_c);
                ROWS4(X)
#undef X
#undef A
            }
#define X(r) store(acc + off[i + r] + j, c##r);
            ROWS4(X)
#undef X
        }
}

static void pairs(float *acc, const uint16_t *off, const float *a, const float *b, unsigned span, unsigned m, unsigned n,
                  unsigned k, unsigned group, bool flush_p, bool flush_c) {
    if (group == 2 && flush_p) pairs_of(acc, off, a, b, span, m, n, k, 2, true, true);
    else if (group == 2) pairs_of(acc, off, a, b, span, m, n, k, 2, false, flush_c);
    else if (flush_p) pairs_of(acc, off, a, b, span, m, n, k, 4, true, true);
    else if (flush_c) pairs_of(acc, off, a, b, span, m, n, k, 4, false, true);
    else pairs_of(acc, off, a, b, span, m, n, k, 4, false, false);
}

static void quad(float *acc, const uint16_t *off, const float *a, const float *b, unsigned k, const uint8_t *block,
                 unsigned group, bool flush) {
    float t[4 * 64] __attribute__((aligned(64)));
    for (unsigned i = 0; i < 4; i++) {
        for (unsigned q = 0; q < k; q++)
            for (unsigned l = 0; l < 64; l++) t[q * 64 + l] = a[q * 64 + block[l / 4] * 4u + i];
        for (unsigned l = 0; l < 64; l += MX_W) {
            const float *ap = t + l, *bp = b + l;
            vf c = drop_if(load(acc + off[i] + l), group && flush);
            if (!group)
                for (unsigned q = 0; q < k; q++) c = fma_v(load(ap + q * 64), load(bp + q * 64), c);
            else {
                vf v[4] = {load(bp), load(bp + 64)};
                if (group == 4) v[2] = load(bp + 128), v[3] = load(bp + 192);
                unsigned far = group == 4 ? 128 : 0;
                vf s = group_sum(load(ap), load(ap + 64), load(ap + far), load(ap + far + 64), v, group, flush);
                c = flush_if(c + s, flush);
            }
            store(acc + off[i] + l, c);
        }
    }
}

static void scale_add(float *acc, const uint16_t *off, const float *tile, const uint8_t *ea, const uint8_t *eb, unsigned m,
                      unsigned n) {
    int32_t e[32];
    float nan[32];
    for (unsigned j = 0; j < n; j++) {
        e[j] = eb[j] - 254;
        nan[j] = eb[j] == 255 ? NAN : 0;
    }
    for (unsigned i = 0; i < m; i++) {
        float row_nan = ea[i] == 255 ? NAN : 0;
        for (unsigned j = 0; j < n; j += MX_W) {
            /* two steps in one direction, each a factor that float can hold */
            vi x = *(const vi *)(e + j) + (int32_t)ea[i], lo = x >> 1, hi = x - lo;
            vf v = load(tile + i * n + j) * (vf)((lo + 127) << 23) * (vf)((hi + 127) << 23);
            store(acc + off[i] + j, load(acc + off[i] + j) + (v + load(nan + j) + set1(row_nan)));
        }
    }
}

#if MX_W < 8
static uint32_t half_of(float f) {
    uint32_t x, sign;
    memcpy(&x, &f, 4);
    sign = x >> 16 & 0x8000;
    x &= 0x7fffffff;
    if (x >= 0x47800000) return sign | (x > 0x7f800000 ? 0x7e00 : 0x7c00); /* 65536 and more */
    if (x < 0x38800000) { /* below 2^-14: in units of 2^-24, rounded by an addition */
        float mag;
        memcpy(&mag, &x, 4);
        mag += 0.5f;
        memcpy(&x, &mag, 4);
        return sign | (x - 0x3f000000);
    }
    return sign | ((x - 0x38000000 + 0xfff + (x >> 13 & 1)) >> 13);
}
#endif

static void store16(uint32_t *rows, const sim_mx_strips *t, unsigned m, const float *tile, bool bf16) {
    for (unsigned i = 0; i < m; i++)
        for (unsigned j = 0; j < 16; j += MX_W) {
            vf v = load(tile + i * 16 + j);
            vu h;
            if (bf16) {
                vu x = (vu)v, nan = (vu)((x & 0x7fffffffu) > 0x7f800000u);
                h = (~nan & (x + 0x7fff + (x >> 16 & 1)) >> 16) | (nan & (x >> 16 | 0x40));
            } else {
#if MX_W == 16
                h = (vu)_mm512_cvtepu16_epi32(_mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT));
#elif MX_W == 8
                h = (vu)_mm256_cvtepu16_epi32(_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
#else
                for (int l = 0; l < MX_W; l++) h[l] = half_of(v[l]);
#endif
            }
            uint32_t *p = rows + t->off[i] + j;
            unsigned sh = t->shift[i];
            *(vu *)p = (load_u(p) & ~(0xffffu << sh)) | h << sh;
        }
}

static void add_int(uint32_t *d, const uint16_t *off, const float *tile, unsigned strips, unsigned width, bool clamp) {
    for (unsigned i = 0; i < strips; i++)
        for (unsigned j = 0; j < width; j += MX_W) {
            vi x = (vi)load_u(d + off[i] + j), y = __builtin_convertvector(load(tile + i * width + j), vi);
            vi s = (vi)((vu)x + (vu)y);
            if (clamp) {
                vi over = (~(x ^ y) & (x ^ s)) >> 31;
                s = (over & (x >> 31 ^ 0x7fffffff)) | (~over & s);
            }
            *(vi *)(d + off[i] + j) = s;
        }
}

/* f64: half as many to a vector. */
#define MX_D (MX_W / 2)
typedef double vd __attribute__((vector_size(MX_W * 4), aligned(8), may_alias));
typedef uint64_t vq __attribute__((vector_size(MX_W * 4), aligned(8), may_alias));
typedef uint32_t vh __attribute__((vector_size(MX_W * 2), aligned(4), may_alias));

#if MX_W == 16
static inline vd fma_d(double a, vd b, vd c) { return (vd)_mm512_fmadd_pd(_mm512_set1_pd(a), (__m512d)b, (__m512d)c); }
#elif MX_W == 8
static inline vd fma_d(double a, vd b, vd c) { return (vd)_mm256_fmadd_pd(_mm256_set1_pd(a), (__m256d)b, (__m256d)c); }
#else
static inline vd fma_d(double a, vd b, vd c) {
    for (int e = 0; e < MX_D; e++) c[e] = fma(a, b[e], c[e]);
    return c;
}
#endif

static void load64(double *dst, const uint32_t *lo, const uint32_t *hi, unsigned n, bool neg) {
    uint64_t sign = (uint64_t)neg << 63;
    unsigned i = 0;
    for (; i + MX_D <= n; i += MX_D) {
        vq l = __builtin_convertvector(*(const vh *)(lo + i), vq), h = __builtin_convertvector(*(const vh *)(hi + i), vq);
        *(vq *)(dst + i) = (l | h << 32) ^ sign;
    }
    for (; i < n; i++) {
        uint64_t x = (lo[i] | (uint64_t)hi[i] << 32) ^ sign;
        memcpy(dst + i, &x, 8);
    }
}

static void store64(uint32_t *lo, uint32_t *hi, const double *src, unsigned n) {
    unsigned i = 0;
    for (; i + MX_D <= n; i += MX_D) {
        vq x = *(const vq *)(src + i);
        *(vh *)(lo + i) = __builtin_convertvector(x, vh);
        *(vh *)(hi + i) = __builtin_convertvector(x >> 32, vh);
    }
    for (; i < n; i++) {
        uint64_t x;
        memcpy(&x, src + i, 8);
        lo[i] = (uint32_t)x;
        hi[i] = (uint32_t)(x >> 32);
    }
}

static void chain64(double *acc, const double *a, const double *b, unsigned lda, unsigned m, unsigned n, unsigned k) {
    for (unsigned i = 0; i < m; i += 4) {
        unsigned j = 0;
        for (; j + MX_D <= n; j += MX_D) {
            const double *ap = a + i, *bp = b + j;
#define X(r) vd c##r = *(const vd *)(acc + (i + r) * n + j);
            ROWS4(X)
#undef X
            for (unsigned q = 0; q < k; q++, ap += lda, bp += lda) {
                vd v = *(const vd *)bp;
#define X(r) c##r = fma_d(ap[r], v, c##r);
                ROWS4(X)
#undef X
            }
#define X(r) *(vd *)(acc + (i + r) * n + j) = c##r;
            ROWS4(X)
#undef X
        }
        for (; j < n; j++)
            for (unsigned r = i; r < i + 4; r++)
                for (unsigned q = 0; q < k; q++) acc[r * n + j] = fma(a[q * lda + r], b[q * lda + j], acc[r * n + j]);
    }
}

const sim_mx_kernels MX_NAME = {unpack, chain, pairs, quad, scale_add, store16, add_int, chain64, load64, store64};
