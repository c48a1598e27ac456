/* See valu_math.h. */
#include "isa/valu_math.h"

#include <stddef.h>
#if defined __x86_64__
#include <xmmintrin.h>
#else
#include <fenv.h>
#endif

#if defined __x86_64__
int sim_host_rounding(void) { /* fegetround would read the x87's */
    static const int mode[4] = {0, 2, 1, 3};
    return mode[_mm_getcsr() >> 13 & 3];
}
#else
int sim_host_rounding(void) {
    switch (fegetround()) {
    case FE_UPWARD: return 1;
    case FE_DOWNWARD: return 2;
    case FE_TOWARDZERO: return 3;
    default: return 0;
    }
}
#endif

float sim_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;
    if (e == 31) return sim_u2f(sign | 0x7f800000 | m << 13 | (m ? 0x400000 : 0));
    if (e) return sim_u2f(sign | (e + 112) << 23 | m << 13);
    if (!m) return sim_u2f(sign);
    int up = __builtin_clz(m) - 21; /* the leading one to bit 10 */
    return sim_u2f(sign | (uint32_t)(113 - up) << 23 | (m << up & 0x3ff) << 13);
}

uint16_t sim_f32_to_f16_mode(float x, int mode) {
    uint32_t u = sim_f2u(x), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    if (a > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));
    if (a == 0x7f800000) return (uint16_t)(sign | 0x7c00);
    bool away = (mode == 1 && !sign) || (mode == 2 && sign);
    int e = (int)(a >> 23);
    uint32_t m = (a & 0x7fffff) | (e ? 0x800000 : 0);
    if (!e) e = 1;
    int cut = e < 113 ? 13 + 113 - e : 13; /* bits that fall off */
    uint32_t base = e < 113 ? 0 : (uint32_t)(e - 113) << 10;
    if (cut > 31) { /* far below the smallest denormal */
        cut = 31;
        m = m ? 1 : 0;
    }
    uint32_t q = m >> cut, rest = m & ((1u << cut) - 1), half = 1u << (cut - 1);
    uint32_t r = base + q;
    if (mode == 0) r += rest > half || (rest == half && (q & 1));
    else if (away) r += rest != 0;
    if (r >= 0x7c00) return (uint16_t)(sign | (mode == 0 || away ? 0x7c00 : 0x7bff));
    return (uint16_t)(sign | r);
}

/* Transcendental. Results come from double, so that a result that is not correctly rounded is rare. */
float sim_exp2_f32(float x) {
    if (x != x) return sim_quiet32(x);
    return sim_flush32((float)exp2((double)sim_flush32(x)));
}
float sim_log2_f32(float x) {
    if (x != x) return sim_quiet32(x);
    x = sim_flush32(x);
    if (x == 0.0f) return -INFINITY;
    return x < 0.0f ? SIM_NAN32 : (float)log2((double)x);
}
float sim_rcp_f32(float x) {
    if (x != x) return sim_quiet32(x);
    return sim_flush32(1.0f / sim_flush32(x));
}
float sim_rsq_f32(float x) {
    if (x != x) return sim_quiet32(x);
    x = sim_flush32(x);
    if (x == 0.0f) return sim_u2f(0x7f800000 | (sim_f2u(x) & 0x80000000));
    return x < 0.0f ? SIM_NEG_NAN32 : (float)(1.0 / sqrt((double)x));
}
float sim_sqrt_f32(float x) {
    if (x != x) return sim_quiet32(x);
    x = sim_flush32(x);
    return x < 0.0f ? SIM_NEG_NAN32 : sqrtf(x);
}
/* x in revolutions; the fraction of a float is exact, and quarter turns must be exact too. */
static double sin_turns(double x) {
    x -= __builtin_roundeven(x); /* -0.5 .. 0.5, whatever the wave's rounding */
    double a = fabs(x);
    double s = a > 0.25 ? 0.5 - a : a;
    double r = s <= 0.125 ? sin(s * 6.28318530717958647693) : cos((0.25 - s) * 6.28318530717958647693);
    return copysign(r, x);
}
static double cos_turns(double x) {
    x = fabs(x - __builtin_roundeven(x));
    if (x > 0.25) return -cos_turns(0.5 - x);
    return x <= 0.125 ? cos(x * 6.28318530717958647693) : sin((0.25 - x) * 6.28318530717958647693);
}
float sim_sin_f32(float x) {
    if (x != x) return sim_quiet32(x);
    if (fabsf(x) == INFINITY) return SIM_NEG_NAN32;
    if (fabsf(x) > 256.0f) return copysignf(0.0f, x);
    float r = (float)sin_turns((double)x);
    return r == 0.0f ? copysignf(0.0f, x) : r;
}
float sim_cos_f32(float x) {
    if (x != x) return sim_quiet32(x);
    if (fabsf(x) == INFINITY) return SIM_NEG_NAN32;
    return fabsf(x) > 256.0f ? 1.0f : (float)cos_turns((double)x);
}
/* f16 ones: denormals count; the result is rounded to f16 by the store. */
float sim_exp2_f16(float x) { return x != x ? x : exp2f(x); }
float sim_log2_f16(float x) {
    if (x != x) return x;
    if (x == 0.0f) return -INFINITY;
    return x < 0.0f ? SIM_NAN32 : (float)log2((double)x);
}
float sim_rcp_f16(float x) { return x != x ? x : 1.0f / x; }
float sim_rsq_f16(float x) {
    if (x != x) return x;
    if (x == 0.0f) return copysignf(INFINITY, x);
    return x < 0.0f ? SIM_NEG_NAN32 : (float)(1.0 / sqrt((double)x));
}
float sim_sqrt_f16(float x) { return x != x ? x : x < 0.0f ? SIM_NEG_NAN32 : sqrtf(x); }
float sim_sin_f16(float x) { return sim_sin_f32(x); }
float sim_cos_f16(float x) { return sim_cos_f32(x); }
float sim_tanh_f32(float x) { return x != x ? sim_quiet32(x) : (float)tanh((double)x); }
double sim_rcp_f64(double x) { return x != x ? sim_quiet64(x) : 1.0 / x; }
double sim_rsq_f64(double x) {
    if (x != x) return sim_quiet64(x);
    if (x == 0.0) return copysign((double)INFINITY, x);
    return x < 0.0 ? SIM_NEG_NAN64 : (double)(1.0L / sqrtl((long double)x));
}
double sim_sqrt_f64(double x) { return x != x ? sim_quiet64(x) : x < 0.0 ? SIM_NEG_NAN64 : sqrt(x); }

float sim_ldexp_f32(float x, int32_t n) {
    if (x != x) return sim_quiet32(x);
    n = n > 400 ? 400 : n < -400 ? -400 : n;
    return (float)((double)x * ldexp(1.0, n)); /* exact in double: rounded once */
}
float sim_ldexp_f16(float x, int32_t n) {
    if (x != x) return x;
    n = n > 60 ? 60 : n < -60 ? -60 : n;
    return x * ldexpf(1.0f, n);
}
double sim_ldexp_f64(double x, int32_t n) {
    if (x != x) return sim_quiet64(x);
    n = n > 5000 ? 5000 : n < -5000 ? -5000 : n;
    return scalbn(x, n);
}
float sim_frexp_mant_f32(float x) {
    int e;
    if (x == 0.0f) return copysignf(0.0f, x); /* a denormal too, where those count as zero */
    return x != x ? sim_quiet32(x) : fabsf(x) == INFINITY ? x : frexpf(x, &e);
}
float sim_frexp_mant_f16(float x) { return sim_frexp_mant_f32(x); }
double sim_frexp_mant_f64(double x) {
    int e;
    if (x == 0.0) return copysign(0.0, x);
    return x != x ? sim_quiet64(x) : fabs(x) == (double)INFINITY ? x : frexp(x, &e);
}
int32_t sim_frexp_exp_f32(float x) {
    int e = 0;
    if (x == x && fabsf(x) != INFINITY && x != 0.0f) frexpf(x, &e);
    return e;
}
int32_t sim_frexp_exp_f16(float x) { return sim_frexp_exp_f32(x); }
int32_t sim_frexp_exp_f64(double x) {
    int e = 0;
    if (x == x && fabs(x) != (double)INFINITY && x != 0.0) frexp(x, &e);
    return e;
}

/* Division, in the three steps that compilers emit around Newton's iteration. */
static int exp32(float x) { return (int)(sim_f2u(x) >> 23 & 255); }
static int exp64(double x) { return (int)(sim_d2u(x) >> 52 & 2047); }

float sim_div_fixup_f32(float q, float den, float num) {
    bool neg = (sim_f2u(den) ^ sim_f2u(num)) >> 31;
    if (num != num) return sim_quiet32(num);
    if (den != den) return sim_quiet32(den);
    if (den == 0.0f && num == 0.0f) return SIM_NAN32;
    if (fabsf(den) == INFINITY && fabsf(num) == INFINITY) return SIM_NAN32;
    if (den == 0.0f || fabsf(num) == INFINITY) return neg ? -INFINITY : INFINITY;
    if (fabsf(den) == INFINITY || num == 0.0f) return neg ? -0.0f : 0.0f;
    if (exp32(num) - exp32(den) < -150) {
        int mode = sim_host_rounding();
        bool away = (mode == 1 && !neg) || (mode == 2 && neg);
        return sim_u2f((neg ? 0x80000000u : 0) | (away ? 1u : 0));
    }
    if (q != q) return neg ? -INFINITY : INFINITY; /* the estimate overflowed */
    return neg ? -fabsf(q) : fabsf(q);
}
float sim_div_fixup_f16(float q, float den, float num) {
    bool neg = (sim_f2u(den) ^ sim_f2u(num)) >> 31;
    if (num != num) return sim_quiet32(num);
    if (den != den) return sim_quiet32(den);
    if (den == 0.0f && num == 0.0f) return SIM_NAN32;
    if (fabsf(den) == INFINITY && fabsf(num) == INFINITY) return SIM_NAN32;
    if (den == 0.0f || fabsf(num) == INFINITY) return neg ? -INFINITY : INFINITY;
    if (fabsf(den) == INFINITY || num == 0.0f) return neg ? -0.0f : 0.0f;
    if (q != q) return neg ? -INFINITY : INFINITY; /* the estimate overflowed */
    return neg ? -fabsf(q) : fabsf(q);
}
double sim_div_fixup_f64(double q, double den, double num) {
    bool neg = (sim_d2u(den) ^ sim_d2u(num)) >> 63;
    const double inf = (double)INFINITY;
    if (num != num) return sim_quiet64(num);
    if (den != den) return sim_quiet64(den);
    if (den == 0.0 && num == 0.0) return SIM_NAN64;
    if (fabs(den) == inf && fabs(num) == inf) return SIM_NAN64;
    if (den == 0.0 || fabs(num) == inf) return neg ? -inf : inf;
    if (fabs(den) == inf || num == 0.0) return neg ? -0.0 : 0.0;
    if (exp64(num) - exp64(den) < -1075) {
        int mode = sim_host_rounding();
        bool away = (mode == 1 && !neg) || (mode == 2 && neg);
        return sim_u2d((neg ? 0x8000000000000000ull : 0) | (away ? 1u : 0));
    }
    if (q != q) return neg ? -inf : inf;
    return neg ? -fabs(q) : fabs(q);
}
/* The manual compares quotients with "denormal of f64" where the f32 operation is meant: the reciprocal of a large
 * denominator is a denormal f32. Hardware sets VCC for zeros too, where the text does not, and takes a quotient of just the
 * smallest normal number for a denormal one. */
float sim_div_scale_f32(float s, float den, float num, bool *vcc) {
    *vcc = num == 0.0f || den == 0.0f;
    if (*vcc) return SIM_NAN32;
    double rcp = fabs(1.0 / (double)den), q = fabs((double)num / (double)den);
    bool rcp_small = rcp > 0 && rcp < 0x1p-126, q_small = q > 0 && q <= 0x1p-126;
    if (exp32(num) - exp32(den) >= 96) {
        *vcc = true;
        return s == den ? sim_ldexp_f32(s, 64) : s;
    }
    if (exp32(den) == 0) return sim_ldexp_f32(s, 64);
    /* AMD's text scales the denominator up here too, which overflows: the quotient would not be IEEE's. Down, div_fmas undoes
     * it, as it does for a numerator that is scaled up. */
    if (rcp_small && q_small) {
        *vcc = true;
        return s == den ? sim_ldexp_f32(s, -64) : s;
    }
    if (rcp_small) return sim_ldexp_f32(s, -64);
    if (q_small) {
        *vcc = true;
        return s == num ? sim_ldexp_f32(s, 64) : s;
    }
    return exp32(num) <= 23 ? sim_ldexp_f32(s, 64) : s;
}
double sim_div_scale_f64(double s, double den, double num, bool *vcc) {
    *vcc = num == 0.0 || den == 0.0;
    if (*vcc) return SIM_NAN64;
    double rcp = fabs(1.0 / den), q = fabs(num / den);
    bool rcp_small = rcp > 0 && rcp < 0x1p-1022, q_small = q > 0 && q <= 0x1p-1022;
    if (exp64(num) - exp64(den) >= 768) {
        *vcc = true;
        return s == den ? sim_ldexp_f64(s, 128) : s;
    }
    if (exp64(den) == 0) return sim_ldexp_f64(s, 128);
    if (rcp_small && q_small) {
        *vcc = true;
        return s == den ? sim_ldexp_f64(s, -128) : s;
    }
    if (rcp_small) return sim_ldexp_f64(s, -128);
    if (q_small) {
        *vcc = true;
        return s == num ? sim_ldexp_f64(s, 128) : s;
    }
    return exp64(num) <= 53 ? sim_ldexp_f64(s, 128) : s;
}
/* The scale undoes what div_scale did to one of the operands: up where the quotient is large, down where it is small. The
 * sum is rounded to odd before it is scaled, so that a denormal result is rounded once. */
float sim_div_fmas_f32(float a, float b, float c, bool scale) {
    if (!scale) return fmaf(a, b, c);
    if (a != a || b != b || c != c) return a != a ? sim_quiet32(a) : b != b ? sim_quiet32(b) : sim_quiet32(c);
    double p = (double)a * (double)b, s = p + (double)c, t = s - p;
    double e = (p - (s - t)) + ((double)c - t);
    uint64_t u = sim_d2u(s);
    if ((e < 0 || e > 0) && !(u & 1)) u += (sim_d2u(e) ^ u) >> 63 ? ~0ull : 1;
    double r = sim_u2d(u) * (exp32(c) > 127 ? 0x1p64 : 0x1p-64);
    return r != r ? SIM_NEG_NAN32 : (float)r;
}
double sim_div_fmas_f64(double a, double b, double c, bool scale) {
    double r = fma(a, b, c);
    if (!scale) return r;
    if (a != a || b != b || c != c) return a != a ? sim_quiet64(a) : b != b ? sim_quiet64(b) : sim_quiet64(c);
    if (exp64(c) > 1023) return r * 0x1p128;
    if (fabs(r) >= 0x1p-894) return r * 0x1p-128; /* no denormal: scaling is exact */
    double p = a * b, pe = fma(a, b, -p), s = p + c, t = s - p;
    double e = (s - r) + (((p - (s - t)) + (c - t)) + pe);
    uint64_t u = sim_d2u(r);
    if ((e < 0 || e > 0) && !(u & 1)) u += (sim_d2u(e) ^ u) >> 63 ? ~0ull : 1;
    return sim_u2d(u) * 0x1p-128;
}

/* The first 1201 fraction bits of 2 / pi, most significant first. */
static const uint64_t two_over_pi[19] = {
    0xa2f9836e4e441529ull, 0xfc2757d1f534ddc0ull, 0xdb6295993c439041ull, 0xfe5163abdebbc561ull, 0xb7246e3a424dd2e0ull,
    0x06492eea09d1921cull, 0xfe1deb1cb129a73eull, 0xe88235f52ebb4484ull, 0xe99c7026b45f7e41ull, 0x3991d639835339f4ull,
    0x9c845f8bbdf9283bull, 0x1ff897ffde05980full, 0xef2f118b5a0a6d1full, 0x6d367ecf27cb09b7ull, 0x4f463f669e5fea2dull,
    0x7527bac7ebe5f17bull, 0x3d0739f78a5292eaull, 0x6bfb5fb11f8d5d08ull, 0x56033046fc7b0000ull};

double sim_trig_preop(double x, uint32_t segment) {
    int shift = (int)(segment & 31) * 53, e = exp64(x);
    if (e > 1077) shift += e - 1077;
    /* Bits 1200 - shift and the 52 below it. */
    uint64_t r = 0;
    for (int i = 0; i < 53; i++) {
        int at = shift + i;
        uint64_t bit = at < 1201 ? two_over_pi[at / 64] >> (63 - at % 64) & 1 : 0;
        r = r << 1 | bit;
    }
    int scale = -53 - shift;
    if (e >= 1968) scale += 128;
    return scalbn((double)r, scale);
}

float sim_cube(float x, float y, float z, int what) {
    float ax = fabsf(x), ay = fabsf(y), az = fabsf(z);
    int axis = az >= ax && az >= ay ? 2 : ay >= ax ? 1 : 0;
    switch (what) {
    case 0: return axis == 2 ? (z < 0 ? 5.0f : 4.0f) : axis == 1 ? (y < 0 ? 3.0f : 2.0f) : x < 0 ? 1.0f : 0.0f;
    case 1: return axis == 2 ? (z < 0 ? -x : x) : axis == 1 ? x : x < 0 ? z : -z;
    case 2: return axis == 1 ? (y < 0 ? -z : z) : -y;
    default: return 2.0f * (axis == 2 ? z : axis == 1 ? y : x);
    }
}

uint64_t sim_qsad(uint64_t a, uint32_t b, uint64_t c, bool masked) {
    uint64_t r = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t x = (uint32_t)(a >> 8 * i), y = (uint32_t)(c >> 16 * i & 0xffff);
        uint32_t s = masked ? sim_msad_u8(x, b, y) : sim_sad_u8(x, b, y);
        r |= (uint64_t)(s & 0xffff) << 16 * i;
    }
    return r;
}

/* Small floats. */
static const struct { uint8_t e, m; int8_t bias; uint8_t top; uint8_t special; /* 0 none, 1 NaN at all ones, 2 IEEE, 3 FNUZ */
} small_formats[SIM_N_SMALL] = {
    [SIM_FP8] = {4, 3, 7, 0x7e, 1},      [SIM_BF8] = {5, 2, 15, 0x7b, 2}, [SIM_FP8_FNUZ] = {4, 3, 8, 0x7f, 3},
    [SIM_BF8_FNUZ] = {5, 2, 16, 0x7f, 3}, [SIM_FP6] = {2, 3, 1, 0x1f, 0},  [SIM_BF6] = {3, 2, 3, 0x1f, 0},
    [SIM_FP4] = {2, 1, 1, 0x07, 0},
};

float sim_small_to_f32(uint32_t bits, sim_small f) {
    int m = small_formats[f].m, width = small_formats[f].e + m;
    uint32_t mag = bits & ((1u << width) - 1), sign = bits >> width & 1;
    uint32_t e = mag >> m, frac = mag & ((1u << m) - 1), special = small_formats[f].special;
    if (special == 3 && mag == 0 && sign) return SIM_NAN32;
    if (special == 1 && mag == 0x7f) return sim_u2f(0x7fc00000 | sign << 31);
    if (special == 2 && e == 31) return sim_u2f((frac ? 0x7fc00000 : 0x7f800000) | sign << 31);
    float r = e ? ldexpf((float)((1u << m) + frac), (int)e - small_formats[f].bias - m)
                : ldexpf((float)frac, 1 - small_formats[f].bias - m);
    return sign ? -r : r;
}

static uint32_t small_special(float x, sim_small f, bool saturate) {
    uint32_t width = small_formats[f].e + small_formats[f].m, sign = sim_f2u(x) >> 31 << width;
    bool nan = x != x;
    switch (small_formats[f].special) {
    case 1: return sign | (nan || !saturate ? 0x7fu : 0x7eu);
    case 2: return sign | (nan ? 0x7fu : saturate ? 0x7bu : 0x7cu);
    case 3: return nan || !saturate ? 0x80u : sign | 0x7fu;
    default: return sign | small_formats[f].top;
    }
}
/* random: 32 bits whose top ones line up with the first bit that falls off; NULL: nearest even. */
static uint32_t to_small(float x, sim_small f, bool saturate, const uint32_t *random) {
    int m = small_formats[f].m, emin = 1 - small_formats[f].bias;
    uint32_t width = (uint32_t)(small_formats[f].e + m), sign = sim_f2u(x) >> 31 << width;
    if (x != x || fabsf(x) == INFINITY) return small_special(x, f, saturate);
    uint32_t a = sim_f2u(x) & 0x7fffffff;
    int e = (int)(a >> 23) - 127;
    uint64_t mant = (a & 0x7fffff) | (a >> 23 ? 0x800000 : 0);
    if (!(a >> 23)) e = -126;
    int grid = e < emin ? emin : e;
    int cut = 23 - m + (grid - e); /* bits below the result's last one */
    uint64_t q, r;
    if (cut > 60) {
        q = 0;
        r = mant != 0;
        cut = 60;
    } else {
        q = mant >> cut;
        r = mant & ((1ull << cut) - 1);
    }
    if (random) {
        uint64_t add = cut <= 32 ? (uint64_t)*random >> (32 - cut) : (uint64_t)*random << (cut - 32);
        q += (r + add) >> cut;
    } else {
        uint64_t half = 1ull << (cut - 1);
        q += r > half || (r == half && (q & 1));
    }
    uint32_t code = ((uint32_t)(grid - emin) << m) + (uint32_t)q;
    if (code > small_formats[f].top) {
        if (small_formats[f].special == 0 || saturate) return sign | small_formats[f].top;
        return small_special(copysignf(INFINITY, x), f, false);
    }
    if (small_formats[f].special == 3 && code == 0) return 0;
    return sign | code;
}
uint32_t sim_f32_to_small(float x, sim_small f, bool saturate) { return to_small(x, f, saturate, NULL); }
uint32_t sim_f32_to_small_sr(float x, sim_small f, uint32_t random, bool saturate) { return to_small(x, f, saturate, &random); }

uint32_t sim_f32_to_16_sr(float x, bool bf16, uint32_t random) {
    uint32_t u = sim_f2u(x);
    if (x != x || fabsf(x) == INFINITY) return bf16 ? sim_f32_to_bf16(x) : sim_f32_to_f16_mode(x, 0);
    if (bf16) return (u + (random >> 16)) >> 16;
    int e = (int)(u >> 23 & 255);
    int cut = e < 113 ? 13 + 113 - e : 13;
    if (cut > 24) cut = 24;
    uint32_t ulp = cut <= 32 ? random >> (32 - cut) : random;
    /* As many random bits as fall off, added to the magnitude; then toward zero. */
    double mag = (double)fabsf(x), step = ldexp(1.0, (e < 113 ? 113 : e) - 127 - 10);
    double r = mag + step * ((double)ulp / (double)(1ull << cut));
    return (uint32_t)sim_f32_to_f16_mode((float)(floor(r / step) * step), 3) | (u >> 16 & 0x8000);
}

float sim_dot4_small(uint32_t a, sim_small fa, uint32_t b, sim_small fb, float c) {
    for (int i = 0; i < 32; i += 8) c += sim_small_to_f32(a >> i & 255, fa) * sim_small_to_f32(b >> i & 255, fb);
    return c;
}

float sim_mullit(float a, float b, float c) {
    const float max = 0x1.fffffep127f;
    return b == -max || b == -INFINITY || b != b || c <= 0.0f || c != c ? -max : a * b;
}
