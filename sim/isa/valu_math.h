/* Arithmetic of one lane that C has no operator for, as AMD's instructions define it. Inline where cores vectorise it; the
 * rest is in valu_math.c. Floating results follow the host's rounding and flushing, which the wave has loaded. */
#ifndef SIM_ISA_VALU_MATH_H
#define SIM_ISA_VALU_MATH_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__clang__)
#if !__has_builtin(__builtin_roundeven) /* before clang 17 only the C library has it */
#define __builtin_roundeven roundeven
#define __builtin_roundevenf roundevenf
#endif
#endif

typedef union { uint32_t u; float f; } sim_fu32;
typedef union { uint64_t u; double d; } sim_fu64;
static inline float sim_u2f(uint32_t u) { return (sim_fu32){.u = u}.f; }
static inline uint32_t sim_f2u(float f) { return (sim_fu32){.f = f}.u; }
static inline double sim_u2d(uint64_t u) { return (sim_fu64){.u = u}.d; }
static inline uint64_t sim_d2u(double d) { return (sim_fu64){.d = d}.u; }

/* What invalid operations give: sums, products and roots the negative quiet NaN, as x86; logarithms and divisions the
 * positive one. */
#define SIM_NAN32 (sim_u2f(0x7fc00000u))
#define SIM_NAN64 (sim_u2d(0x7ff8000000000000ull))
#define SIM_NEG_NAN32 (sim_u2f(0xffc00000u))
#define SIM_NEG_NAN64 (sim_u2d(0xfff8000000000000ull))
static inline bool sim_isnan32(float x) { return (sim_f2u(x) & 0x7fffffff) > 0x7f800000; }
static inline bool sim_issnan32(float x) { return sim_isnan32(x) && !(sim_f2u(x) & 0x400000); }
static inline bool sim_isnan64(double x) { return (sim_d2u(x) & INT64_MAX) > 0x7ff0000000000000ull; }
static inline bool sim_issnan64(double x) { return sim_isnan64(x) && !(sim_d2u(x) & 0x8000000000000ull); }
static inline float sim_quiet32(float x) { return sim_u2f(sim_f2u(x) | 0x400000); }
static inline double sim_quiet64(double x) { return sim_u2d(sim_d2u(x) | 0x8000000000000ull); }
static inline float sim_flush32(float x) { return sim_u2f(sim_f2u(x) & 0x7f800000 ? sim_f2u(x) : sim_f2u(x) & 0x80000000); }
static inline double sim_flush64(double x) {
    return sim_u2d(sim_d2u(x) & 0x7ff0000000000000ull ? sim_d2u(x) : sim_d2u(x) & 0x8000000000000000ull);
}
/* A float that holds an f16. */
static inline float sim_flush16(float x) {
    return sim_u2f((sim_f2u(x) & 0x7fffffff) < 0x38800000 ? sim_f2u(x) & 0x80000000 : sim_f2u(x));
}

/* Host rounding as MODE numbers it: 0 even, 1 up, 2 down, 3 zero. */
int sim_host_rounding(void);
float sim_f16_to_f32(uint16_t h);
uint16_t sim_f32_to_f16_mode(float x, int mode);
static inline uint32_t sim_f32_to_bf16(float x) { /* nearest even */
    uint32_t u = sim_f2u(x);
    uint32_t r = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (u & 0x7fffffff) > 0x7f800000 ? (u >> 16) | 0x40 : r;
}

/* fma of values that are f16 in f32, to be rounded once more to f16. The product is exact in f32; the sum is rounded to
 * odd (the lost part makes an even last bit odd), which makes the second rounding the only one that counts: 24 bits are
 * more than f16's 11 and two. */
static inline float sim_fma16(float a, float b, float c) {
    float p = a * b, s = p + c, t = s - p;
    float e = (p - (s - t)) + (c - t); /* what the sum lost, exactly */
    uint32_t u = sim_f2u(s);
    uint32_t step = (int32_t)(sim_f2u(e) ^ u) < 0 ? 0xffffffffu : 1u;
    bool odd = (e < 0.0f) | (e > 0.0f);
    return sim_u2f(u + (odd ? (u & 1 ? 0 : step) : 0));
}

/* To the nearest f16, still as a float. */
static inline float sim_round16(float x) {
    uint32_t u = sim_f2u(x), a = u & 0x7fffffff;
    uint32_t n = (a + 0xfff + (a >> 13 & 1)) & ~0x1fffu;
    n = n > 0x477fe000 ? 0x7f800000 : n; /* 65504 is the largest */
    uint32_t d = sim_f2u((sim_u2f(a) + 0.5f) - 0.5f); /* 2^-24 is the last place of 0.5 */
    n = a < 0x38800000 ? d : n;
    return sim_u2f((a > 0x7f800000 ? a | 0x400000 : n) | (u & 0x80000000));
}
static inline float sim_round_bf16(float x) { return sim_u2f(sim_f32_to_bf16(x) << 16); }
static inline float sim_mad16(float a, float b, float c) { return sim_round16(a * b) + c; } /* not fused: two roundings */
static inline float sim_quiet_if(float x) { return x != x ? sim_quiet32(x) : x; }

/* min and max, on bits: numbers order like signed integers once the negative ones are turned over, -0 below +0. ieee: a
 * signalling NaN comes out quiet before anything else. A NaN loses to a number; of two, gfx9 takes the second, later
 * targets the first. minnum, maxnum: gfx12's. minimum, maximum: a NaN wins, a signalling one first. */
static inline int32_t sim_key16(uint32_t x) { return (int32_t)(x & 0x8000 ? 0x7fff - (x & 0x7fff) : x | 0x8000); }
static inline int32_t sim_key32(uint32_t x) { return (int32_t)(x ^ (uint32_t)((int32_t)x >> 31) >> 1); }
static inline int64_t sim_key64(uint64_t x) { return (int64_t)(x ^ (uint64_t)((int64_t)x >> 63) >> 1); }
#define SIM_MINMAX_1(name, suffix, U, QBIT, INF, ABS, CMP)                                                               \
    static inline U sim_##name##_##suffix(U x, U y, bool ieee, bool gcn) {                                              \
        bool na = (x & ABS) > INF, nb = (y & ABS) > INF;                                                                 \
        U r = CMP ? x : y, one = gcn ? y : x;                                                                            \
        r = nb ? x : r;                                                                                                  \
        r = na ? y : r;                                                                                                  \
        r = (na & nb) ? one : r;                                                                                           \
        r = (ieee & nb & !(y & QBIT)) ? y | QBIT : r;                                                                      \
        return (ieee & na & !(x & QBIT)) ? x | QBIT : r;                                                                   \
    }                                                                                                                    \
    static inline U sim_##name##num_##suffix(U x, U y) {                                                                \
        bool na = (x & ABS) > INF, nb = (y & ABS) > INF;                                                                 \
        U r = CMP ? x : y;                                                                                               \
        r = nb ? x : r;                                                                                                  \
        r = na ? y : r;                                                                                                  \
        return (na & nb) ? x | QBIT : r;                                                                                   \
    }                                                                                                                    \
    static inline U sim_##name##imum_##suffix(U x, U y) {                                                               \
        bool na = (x & ABS) > INF, nb = (y & ABS) > INF;                                                                 \
        U r = CMP ? x : y;                                                                                               \
        r = nb ? y | QBIT : r;                                                                                           \
        bool first = na & (!nb | !(x & QBIT) | !!(y & QBIT));                                                            \
        return first ? x | QBIT : r;                                                                                     \
    }
#define SIM_MINMAX(suffix, U, QBIT, INF, ABS, KEY)                                                                       \
    SIM_MINMAX_1(min, suffix, U, QBIT, INF, ABS, KEY(x) < KEY(y))                                                        \
    SIM_MINMAX_1(max, suffix, U, QBIT, INF, ABS, KEY(x) > KEY(y))                                                        \
    static inline U sim_med3_##suffix(U a, U b, U c, bool ieee, bool gcn) {                                             \
        U m = sim_max_##suffix(sim_max_##suffix(a, b, ieee, gcn), c, ieee, gcn);                                         \
        U n = sim_min_##suffix(sim_min_##suffix(a, b, ieee, gcn), c, ieee, gcn);                                         \
        bool nan = ((a & ABS) > INF) | ((b & ABS) > INF) | ((c & ABS) > INF);                                            \
        U x = m == a ? b : a, y = ((m == a) | (m == b)) ? c : b;                                                           \
        U r = sim_max_##suffix(x, y, ieee, gcn);                                                                         \
        return nan ? n : r;                                                                                              \
    }                                                                                                                    \
    static inline U sim_med3num_##suffix(U a, U b, U c) {                                                               \
        U m = sim_maxnum_##suffix(sim_maxnum_##suffix(a, b), c), n = sim_minnum_##suffix(sim_minnum_##suffix(a, b), c);  \
        bool nan = ((a & ABS) > INF) | ((b & ABS) > INF) | ((c & ABS) > INF);                                            \
        U x = m == a ? b : a, y = ((m == a) | (m == b)) ? c : b;                                                           \
        U r = sim_maxnum_##suffix(x, y);                                                                                 \
        return nan ? n : r;                                                                                              \
    }
SIM_MINMAX(f16, uint32_t, 0x200u, 0x7c00u, 0x7fffu, sim_key16)
SIM_MINMAX(f32, uint32_t, 0x400000u, 0x7f800000u, 0x7fffffffu, sim_key32)
SIM_MINMAX(f64, uint64_t, 0x8000000000000ull, 0x7ff0000000000000ull, 0x7fffffffffffffffull, sim_key64)

/* Conversions to integers saturate; NaN gives 0. Toward zero. */
static inline int32_t sim_f32_to_i32(float x) {
    float c = x < -2147483648.0f ? -2147483648.0f : x;
    c = c > 2147483520.0f ? 2147483520.0f : c;
    c = x != x ? 0.0f : c;
    int32_t r = (int32_t)c;
    return x >= 2147483648.0f ? INT32_MAX : r;
}
static inline uint32_t sim_f32_to_u32(float x) {
    float c = x > 0.0f ? x : 0.0f; /* NaN too */
    c = c > 4294967040.0f ? 4294967040.0f : c;
    float hi = c >= 2147483648.0f ? 2147483648.0f : 0.0f; /* in halves: the signed conversion vectorises everywhere */
    uint32_t r = (uint32_t)(int32_t)(c - hi) + (hi > 0.0f ? 0x80000000u : 0);
    return x >= 4294967296.0f ? UINT32_MAX : r;
}
static inline int32_t sim_f64_to_i32(double x) {
    double c = x < -2147483648.0 ? -2147483648.0 : x;
    c = c > 2147483647.0 ? 2147483647.0 : c;
    return (int32_t)(x != x ? 0.0 : c);
}
static inline uint32_t sim_f64_to_u32(double x) {
    double c = x > 0.0 ? x : 0.0;
    c = c > 4294967295.0 ? 4294967295.0 : c;
    return (uint32_t)(int64_t)c;
}
static inline int32_t sim_clamp_f32_i(float x, int32_t lo, int32_t hi) { /* toward zero, |bounds| < 2^24 */
    float c = x < (float)lo ? (float)lo : x;
    c = c > (float)hi ? (float)hi : c;
    return (int32_t)(x != x ? 0.0f : c);
}
static inline float sim_u32_to_f32(uint32_t x) { return (float)x; }
/* To signed or unsigned normalised 16 bits: nearest even of x * 32767 or 65535, clamped. */
static inline int32_t sim_snorm16(float x) {
    float c = x < -1.0f ? -1.0f : x;
    c = c > 1.0f ? 1.0f : c;
    return (int32_t)rintf((x != x ? 0.0f : c) * 32767.0f);
}
static inline int32_t sim_unorm16(float x) {
    float c = x > 0.0f ? x : 0.0f;
    c = c > 1.0f ? 1.0f : c;
    return (int32_t)rintf(c * 65535.0f);
}

/* fract: below 1 even where the subtraction rounds up. */
static inline float sim_fract32(float x) {
    float r = x - floorf(x);
    r = r > 0x1.fffffep-1f ? 0x1.fffffep-1f : r;
    return fabsf(x) == INFINITY ? SIM_NAN32 : r;
}
static inline double sim_fract64(double x) {
    double r = x - floor(x);
    r = r > 0x1.fffffffffffffp-1 ? 0x1.fffffffffffffp-1 : r;
    return fabs(x) == (double)INFINITY ? SIM_NAN64 : r;
}
static inline float sim_fract16(float x) {
    float r = x - floorf(x);
    r = r > 0x1.ffcp-1f ? 0x1.ffcp-1f : r;
    return fabsf(x) == INFINITY ? SIM_NAN32 : r;
}

/* Bits. */
static inline uint32_t sim_mask32(uint32_t n) { return (1u << (n & 31)) - 1u; }
static inline uint32_t sim_bfe_u32(uint32_t a, uint32_t b, uint32_t c) { return (a >> (b & 31)) & sim_mask32(c); }
static inline int32_t sim_bfe_i32(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t n = c & 31, x = (uint32_t)((int32_t)a >> (b & 31)) & sim_mask32(n);
    uint32_t sign = n ? 1u << (n - 1) : 0;
    return (int32_t)((x ^ sign) - sign);
}
static inline uint32_t sim_brev32(uint32_t x) {
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    x = (x >> 8 & 0x00ff00ff) | (x & 0x00ff00ff) << 8;
    return x >> 16 | x << 16;
}
static inline uint32_t sim_popcount32(uint32_t x) {
    x -= x >> 1 & 0x55555555;
    x = (x & 0x33333333) + (x >> 2 & 0x33333333);
    x = (x + (x >> 4)) & 0x0f0f0f0f;
    return (x * 0x01010101u) >> 24;
}
static inline int32_t sim_clz32(uint32_t x) { return x ? __builtin_clz(x) : -1; }
static inline int32_t sim_ctz32(uint32_t x) { return x ? __builtin_ctz(x) : -1; }
static inline int32_t sim_cls32(uint32_t x) { /* leading bits equal to the sign, itself counted; -1: all are */
    uint32_t y = x ^ (uint32_t)((int32_t)x >> 31);
    return y ? __builtin_clz(y) : -1;
}
static inline uint32_t sim_alignbit(uint32_t a, uint32_t b, uint32_t n) {
    return (uint32_t)(((uint64_t)a << 32 | b) >> (n & 31));
}
static inline uint32_t sim_absdiff(uint32_t a, uint32_t b) { return a > b ? a - b : b - a; }
static inline uint32_t sim_sad_u8(uint32_t a, uint32_t b, uint32_t c) {
    for (int i = 0; i < 32; i += 8) c += sim_absdiff(a >> i & 255, b >> i & 255);
    return c;
}
static inline uint32_t sim_msad_u8(uint32_t a, uint32_t b, uint32_t c) {
    for (int i = 0; i < 32; i += 8) c += b >> i & 255 ? sim_absdiff(a >> i & 255, b >> i & 255) : 0;
    return c;
}
static inline uint32_t sim_lerp_u8(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t r = 0;
    for (int i = 0; i < 32; i += 8) r |= (((a >> i & 255) + (b >> i & 255) + (c >> i & 1)) >> 1) << i;
    return r;
}
static inline uint32_t sim_perm_byte(uint32_t hi, uint32_t lo, uint32_t sel) {
    uint32_t word = sel & 4 ? hi : lo;
    uint32_t r = word >> (sel & 3) * 8 & 255;
    uint32_t sign = (sel & 2 ? hi : lo) >> (sel & 1 ? 31 : 15) & 1 ? 255 : 0; /* 8..11: signs of bytes 1, 3, 5, 7 */
    r = sel >= 8 ? sign : r;
    r = sel == 12 ? 0 : r;
    return sel >= 13 ? 255 : r;
}
static inline uint32_t sim_perm(uint32_t a, uint32_t b, uint32_t sel) {
    uint32_t r = 0;
    for (int i = 0; i < 32; i += 8) r |= sim_perm_byte(a, b, sel >> i & 255) << i;
    return r;
}
static inline uint32_t sim_bitop3(uint32_t a, uint32_t b, uint32_t c, uint32_t t) {
    uint32_t r = 0;
    r |= (t & 1) ? (~a & ~b & ~c) : 0;
    r |= (t & 2) ? (~a & ~b & c) : 0;
    r |= (t & 4) ? (~a & b & ~c) : 0;
    r |= (t & 8) ? (~a & b & c) : 0;
    r |= (t & 16) ? (a & ~b & ~c) : 0;
    r |= (t & 32) ? (a & ~b & c) : 0;
    r |= (t & 64) ? (a & b & ~c) : 0;
    r |= (t & 128) ? (a & b & c) : 0;
    return r;
}
static inline int32_t sim_min_i(int32_t a, int32_t b) { return a < b ? a : b; }
static inline int32_t sim_max_i(int32_t a, int32_t b) { return a > b ? a : b; }
static inline uint32_t sim_min_u(uint32_t a, uint32_t b) { return a < b ? a : b; }
static inline uint32_t sim_max_u(uint32_t a, uint32_t b) { return a > b ? a : b; }
static inline int32_t sim_med_i(int32_t a, int32_t b, int32_t c) {
    return sim_max_i(sim_min_i(a, b), sim_min_i(sim_max_i(a, b), c));
}
static inline uint32_t sim_med_u(uint32_t a, uint32_t b, uint32_t c) {
    return sim_max_u(sim_min_u(a, b), sim_min_u(sim_max_u(a, b), c));
}
static inline int32_t sim_sat_i(int64_t x, int32_t lo, int32_t hi) { return (int32_t)(x < lo ? lo : x > hi ? hi : x); }
static inline uint32_t sim_sat_u(int64_t x, uint32_t hi) { return (uint32_t)(x < 0 ? 0 : x > (int64_t)hi ? (int64_t)hi : x); }
static inline int32_t sim_sat_add_i32(int32_t a, int32_t b) {
    uint32_t s = (uint32_t)a + (uint32_t)b, m = (uint32_t)(a >> 31) ^ 0x7fffffff; /* the bound of a's sign */
    return (int32_t)((int32_t)(((uint32_t)a ^ s) & ((uint32_t)b ^ s)) < 0 ? m : s);
}
static inline int32_t sim_sat_sub_i32(int32_t a, int32_t b) {
    uint32_t s = (uint32_t)a - (uint32_t)b, m = (uint32_t)(a >> 31) ^ 0x7fffffff;
    return (int32_t)((int32_t)(((uint32_t)a ^ (uint32_t)b) & ((uint32_t)a ^ s)) < 0 ? m : s);
}
static inline int32_t sim_i24(uint32_t x) { return (int32_t)(x << 8) >> 8; }
static inline uint32_t sim_u24(uint32_t x) { return x & 0xffffff; }
static inline int32_t sim_byte_i(uint32_t x, int i) { return (int32_t)(x << (24 - 8 * i)) >> 24; }
static inline uint32_t sim_byte_u(uint32_t x, int i) { return x >> 8 * i & 255; }
static inline int32_t sim_nib_i(uint32_t x, int i) { return (int32_t)(x << (28 - 4 * i)) >> 28; }
static inline uint32_t sim_nib_u(uint32_t x, int i) { return x >> 4 * i & 15; }
static inline int32_t sim_lo_i(uint32_t x) { return (int32_t)(x << 16) >> 16; }
static inline int32_t sim_hi_i(uint32_t x) { return (int32_t)x >> 16; }

/* Classes of a float as bits of V_CMP_CLASS's mask: sNaN, qNaN, -inf, -norm, -denorm, -0, +0, +denorm, +norm, +inf. */
static inline uint32_t sim_class_bits(bool neg, bool exp_max, bool exp_zero, bool mant_zero, bool quiet) {
    uint32_t n = exp_max ? (mant_zero ? (neg ? 2u : 9u) : quiet ? 1u : 0u)
                         : exp_zero ? (mant_zero ? (neg ? 5u : 6u) : neg ? 4u : 7u) : neg ? 3u : 8u;
    return 1u << n;
}
static inline uint32_t sim_class32(uint32_t u) {
    return sim_class_bits(u >> 31, (u >> 23 & 255) == 255, !(u >> 23 & 255), !(u & 0x7fffff), u >> 22 & 1);
}
static inline uint32_t sim_class16(uint32_t u) {
    return sim_class_bits(u >> 15 & 1, (u >> 10 & 31) == 31, !(u >> 10 & 31), !(u & 0x3ff), u >> 9 & 1);
}
static inline uint32_t sim_class64(uint64_t u) {
    return sim_class_bits(u >> 63, (u >> 52 & 2047) == 2047, !(u >> 52 & 2047), !(u & 0xfffffffffffffull), u >> 51 & 1);
}

static inline uint64_t sim_mad_i64(int32_t a, int32_t b, uint64_t c, bool *out_bit64) {
    uint64_t p = (uint64_t)((int64_t)a * b), s = p + c;
    *out_bit64 = (p >> 63) ^ (c >> 63) ^ (s < p);
    return s;
}

/* In valu_math.c. Transcendental functions are within half an ULP and a little; the domain is the hardware's: f32 inputs
 * and results that are denormal count as zero; sine and cosine take revolutions and are 0 and 1 beyond +-256. */
float sim_exp2_f32(float x), sim_log2_f32(float x), sim_rcp_f32(float x), sim_rsq_f32(float x), sim_sqrt_f32(float x);
float sim_sin_f32(float x), sim_cos_f32(float x);
float sim_exp2_f16(float x), sim_log2_f16(float x), sim_rcp_f16(float x), sim_rsq_f16(float x), sim_sqrt_f16(float x);
float sim_sin_f16(float x), sim_cos_f16(float x), sim_tanh_f32(float x);
double sim_rcp_f64(double x), sim_rsq_f64(double x), sim_sqrt_f64(double x);
float sim_ldexp_f32(float x, int32_t n);
float sim_ldexp_f16(float x, int32_t n); /* x holds an f16; rounds once, when it becomes one again */
double sim_ldexp_f64(double x, int32_t n);
float sim_frexp_mant_f32(float x), sim_frexp_mant_f16(float x);
double sim_frexp_mant_f64(double x);
int32_t sim_frexp_exp_f32(float x), sim_frexp_exp_f16(float x), sim_frexp_exp_f64(double x);
float sim_div_fixup_f32(float q, float den, float num), sim_div_fixup_f16(float q, float den, float num);
double sim_div_fixup_f64(double q, double den, double num);
float sim_div_scale_f32(float s, float den, float num, bool *vcc);
double sim_div_scale_f64(double s, double den, double num, bool *vcc);
float sim_div_fmas_f32(float a, float b, float c, bool scale);
double sim_div_fmas_f64(double a, double b, double c, bool scale);
double sim_trig_preop(double x, uint32_t segment);
float sim_cube(float x, float y, float z, int what); /* 0 id, 1 sc, 2 tc, 3 ma */
uint64_t sim_qsad(uint64_t a, uint32_t b, uint64_t c, bool masked);

/* Small floats: exponent bits e, mantissa bits m, of 4 to 8 bits in all. */
typedef enum sim_small { SIM_FP8, SIM_BF8, SIM_FP8_FNUZ, SIM_BF8_FNUZ, SIM_FP6, SIM_BF6, SIM_FP4, SIM_N_SMALL } sim_small;
float sim_small_to_f32(uint32_t bits, sim_small f);
/* Nearest even; too large: the largest number for formats with neither infinity nor NaN or when saturate, else infinity
 * or NaN as the format has it. */
uint32_t sim_f32_to_small(float x, sim_small f, bool saturate);
/* Stochastic: adds `random` (its top bits) to what would be cut off, and cuts. */
uint32_t sim_f32_to_small_sr(float x, sim_small f, uint32_t random, bool saturate);
uint32_t sim_f32_to_16_sr(float x, bool bf16, uint32_t random);
float sim_dot4_small(uint32_t a, sim_small fa, uint32_t b, sim_small fb, float c);
float sim_mullit(float a, float b, float c);
static inline uint32_t sim_prng(uint32_t x) { return (x << 1) ^ (x >> 31 ? 197u : 0u); }

#endif
