/* The functions of kernels/math.ok: references in double precision, the bounds that are stated there, and arguments to try. */
#ifndef OCH_TEST_KL_MATH_H
#define OCH_TEST_KL_MATH_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static inline uint32_t bits_of(float x) {
    uint32_t b;
    memcpy(&b, &x, 4);
    return b;
}

static inline float of_bits(uint32_t b) {
    float x;
    memcpy(&x, &b, 4);
    return x;
}

static inline double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static inline double silu(double x) { return x * sigmoid(x); }
static inline double gelu_tanh(double x) { return x * sigmoid(2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)); }
static inline double gelu_erf(double x) { return 0.5 * x * erfc(-x * M_SQRT1_2); }
static inline double rsqrt(double x) { return 1 / sqrt(x); }
static inline double quotient(double x, double y) { return x / y; }

/* Error in units of the last place of a float of the reference's size. */
static inline double ulps(float got, double ref) {
    int e;
    if (isnan(ref) || isnan(got)) return isnan(ref) && isnan(got) ? 0 : INFINITY;
    if (fabs(ref) >= 0x1.ffffffp127) return isinf(got) && (got > 0) == (ref > 0) ? 0 : fabs(ref) < 0x1.000001p128 ? 0.5 : INFINITY;
    if (isinf(got)) return fabs(ref) > 0x1.fffffdp127 ? 1 : INFINITY;
    frexp(ref, &e);
    if (ref == 0 || e < -125) e = -125;
    return fabs(got - ref) / ldexp(1, e - 24);
}

typedef struct function {
    const char *name;
    double (*one)(double), (*two)(double, double);
    float lo, hi;     /* where it is interesting */
    double bound;     /* ulp, over the whole range; 0: none */
    double by_x;      /* |error| / |x|; 0: none */
    double bound_lo, bound_hi, bound_here; /* another bound in ulp on an interval */
} function;

static const function functions[] = {
    {"exp", exp, NULL, -105, 90, 2, 0, 0, 0, 0},
    {"log", log, NULL, 0.3f, 3, 1, 0, 0, 0, 0},
    {"tanh", tanh, NULL, -10, 10, 3, 0, 0, 0, 0},
    {"sigmoid", sigmoid, NULL, -105, 30, 6, 0, 0, 0, 0},
    {"silu", silu, NULL, -105, 30, 0, 3e-7, -87, 1e30, 7},
    {"gelu_tanh", gelu_tanh, NULL, -11, 11, 0, 2.5e-7, -2, 1e30, 10},
    {"gelu_erf", gelu_erf, NULL, -14, 14, 0, 2.5e-7, -8, 1e30, 60},
    {"erf", erf, NULL, -5, 5, 2, 0, 0, 0, 0},
    {"sin", sin, NULL, -2000, 2000, 2.5, 0, 0, 0, 0},
    {"cos", cos, NULL, -2000, 2000, 2.5, 0, 0, 0, 0},
    {"rsqrt_precise", rsqrt, NULL, 0, 10, 0.6, 0, 0, 0, 0},
    {"pow", NULL, pow, 0, 20, 4, 0, 0, 0, 0},
    {"div_precise", NULL, quotient, -10, 10, 0.51, 0, 0, 0, 0},
};

typedef struct worst {
    double ulp, by_x, here;
    float at[3][2];
} worst;

/* What a function gave for x (and y), against the reference. */
static inline void judge(const function *f, float x, float y, float got, worst *w) {
    double ref = f->one ? f->one((double)x) : f->two((double)x, (double)y);
    /* Limits that the formulas of the reference do not have. */
    if (x == -INFINITY && (f->one == silu || f->one == gelu_tanh || f->one == gelu_erf)) ref = 0;
    if (isnan(ref) != isnan(got)) fail_msg("%s(%a, %a): expected %a, found %a", f->name, x, y, ref, got);
    if (isnan(ref)) return;
    double u = ulps(got, ref);
    /* A denormal is rounded twice. */
    if (fabs(ref) < 0x1p-126) {
        if (u > fmax(1, f->bound) && !f->by_x) fail_msg("%s(%a, %a): expected %a, found %a: %.3g ulp of a denormal", f->name, x, y, ref, got, u);
        if (!f->by_x) return;
    }
    if (ref == 0 && signbit((float)ref) != signbit(got) && x == 0) fail_msg("%s(%a): a zero of the wrong sign", f->name, x);
    if (u > w->ulp) w->ulp = u, w->at[0][0] = x, w->at[0][1] = y;
    if (f->by_x && isfinite(x) && fabsf(x) >= 0x1p-100f) {
        double r = fabs(got - ref) / fabs((double)x);
        if (r > w->by_x) w->by_x = r, w->at[1][0] = x;
    }
    if (f->bound_here != 0 && x >= f->bound_lo && x <= f->bound_hi && fabs(ref) >= 0x1p-126 && u > w->here) w->here = u, w->at[2][0] = x;
}

static inline uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

#define N_FUNCTIONS ((int)(sizeof functions / sizeof functions[0]))
#define N_EDGES 20

/* The nth pair of arguments for a function: special values with each other, then where it is interesting, anywhere, and for
 * powers where the result is a number. */
static inline void arguments_of(const function *f, int n, float *out_x, float *out_y) {
    static const float edges[N_EDGES] = {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, 2.0f, INFINITY, -INFINITY, NAN, 0x1p-149f, 0x1p-126f,
                                         0x1.fffffep127f, -0x1.fffffep127f, 3.0f, -3.0f, 16777216.0f, -16777217.0f, 0.625f, 0.9375f,
                                         0x1.fffffep-127f};
    if (n < N_EDGES * N_EDGES) {
        *out_x = edges[n % N_EDGES], *out_y = edges[n / N_EDGES];
        return;
    }
    uint64_t state = ((uint64_t)n << 8) + (uint64_t)(f - functions);
    for (int i = 0; i < 3; i++) next_random(&state);
    float t = (float)((double)next_random(&state) * 0x1p-31), v = (float)((double)next_random(&state) * 0x1p-31);
    float x = of_bits((uint32_t)next_random(&state) << 1 | (n >> 2 & 1)), y = of_bits((uint32_t)next_random(&state) << 1);
    bool is_pow = f->two == pow;
    switch (n % 4) {
    case 1: *out_x = x, *out_y = y; break;
    case 2:
        *out_x = is_pow ? fabsf(x) : x, *out_y = is_pow ? (float)(150 * (v - 0.5) / fabs(log2(fabs((double)x)))) : y;
        if (is_pow && !(*out_x > 0 && isfinite(*out_x))) *out_x = 2;
        break;
    case 3:
        if (is_pow) {
            *out_x = 0.9f + 0.2f * t, *out_y = 2000 * (v - 0.5f);
            break;
        } /* fall through */
    default: *out_x = f->lo + t * (f->hi - f->lo), *out_y = f->lo + v * (f->hi - f->lo);
    }
}

static inline void report(const function *f, const worst *w) {
    printf("%-14s %8.3f ulp at %a, %a", f->name, w->ulp, (double)w->at[0][0], (double)w->at[0][1]);
    if (f->by_x != 0) printf("; %.3g |x| at %a", w->by_x, (double)w->at[1][0]);
    if (f->bound_here != 0) printf("; from %g on %.3g ulp at %a", f->bound_lo, w->here, (double)w->at[2][0]);
    printf("\n");
    if (f->bound != 0) assert_true(w->ulp <= f->bound);
    if (f->by_x != 0) assert_true(w->by_x <= f->by_x);
    if (f->bound_here != 0) assert_true(w->here <= f->bound_here);
}

#endif
