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
        for (unsigned i = 0; i < n * span; i++)
            if (fabsf(dst[i]) < least) dst[i] = 0;
    }
    if (how->neg_lo || how->neg_hi)
        for (unsigned s = 0; s < n; s++)
            if (t->shift[s] ? how->neg_hi : how->neg_lo)
                for (unsigned l = 0; l < span; l += MX_W) store(dst + s * span + l, -load(dst + s * span + l));
}

#define ROWS4(X) X(0) X(1) X(2) X(3)
#define ROWS16(X) ROWS4(X) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#if MX_W == 16
#define ROWS ROWS16
#define N_ROWS 16
#else
#define ROWS ROWS4
#define N_ROWS 4
#endif

static void chain(float *acc, const uint16_t *off, const float *a, const float *b, unsigned span, unsigned m, unsigned n,
                  unsigned k) {
    for (unsigned j = 0; j < n; j += MX_W)
        for (unsigned i = 0; i < m; i += N_ROWS) {
            const float *ap = a + i, *bp = b + j;
#define X(r) vf c##r = load(acc + off[i + r] + j);
            ROWS(X)
#undef X
            for (unsigned q = 0; q < k; q++, ap += span, bp += span) {
                vf v = load(bp);
#define X(r) c##r = fma_v(set1(ap[r]), v, c##r);
                ROWS(X)
#undef X
            }
#define X(r) store(acc + off[i + r] + j, c##r);
            ROWS(X)
#undef X
        }
}

static inline vf flush_if(vf v, bool flush) {
    if (flush) return flush_v(v);
    return v;
}
static inline vf sum_group(const vf *p, unsigned group, bool flush) {
    vf s = flush_if(p[0] + p[1], flush);
    if (group == 2) return s;
    vf h = flush_if(p[2] + p[3], flush);
    return flush_if(s + h, flush);
}

static void pairs(float *acc, const uint16_t *off, const float *a, const float *b, unsigned span, unsigned m, unsigned n,
                  unsigned k, unsigned group, bool flush) {
    for (unsigned i = 0; i < m; i++)
        for (unsigned j = 0; j < n; j += MX_W) {
            vf c = load(acc + off[i] + j);
            for (unsigned q = 0; q < k; q += group) {
                vf p[4] = {{0}};
                for (unsigned g = 0; g < group; g++)
                    p[g] = flush_if(set1(a[(q + g) * span + i]) * load(b + (q + g) * span + j), flush);
                c = flush_if(c + sum_group(p, group, flush), flush);
            }
            store(acc + off[i] + j, c);
        }
}

static void quad(float *acc, const uint16_t *off, const float *a, const float *b, unsigned k, const uint8_t *block,
                 unsigned group, bool flush) {
    float t[4 * 64] __attribute__((aligned(64)));
    for (unsigned i = 0; i < 4; i++) {
        for (unsigned q = 0; q < k; q++)
            for (unsigned l = 0; l < 64; l++) t[q * 64 + l] = a[q * 64 + block[l / 4] * 4u + i];
        for (unsigned l = 0; l < 64; l += MX_W) {
            vf c = load(acc + off[i] + l);
            if (!group)
                for (unsigned q = 0; q < k; q++) c = fma_v(load(t + q * 64 + l), load(b + q * 64 + l), c);
            else
                for (unsigned q = 0; q < k; q += group) {
                    vf p[4] = {{0}};
                    for (unsigned g = 0; g < group; g++)
                        p[g] = flush_if(load(t + (q + g) * 64 + l) * load(b + (q + g) * 64 + l), flush);
                    c = flush_if(c + sum_group(p, group, flush), flush);
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

static void chain64(double *acc, const double *a, const double *b, unsigned lda, unsigned m, unsigned n, unsigned k) {
    for (unsigned i = 0; i < m; i++)
        for (unsigned q = 0; q < k; q++)
            for (unsigned j = 0; j < n; j++) acc[i * n + j] = fma(a[q * lda + i], b[q * lda + j], acc[i * n + j]);
}

const sim_mx_kernels MX_NAME = {unpack, chain, pairs, quad, scale_add, store16, chain64};
