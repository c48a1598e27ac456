/* Kernels of tests/kl on simulated boards, against what the host computes in its own way: every operator and function of numbers,
 * conversions, control, memory. */
#include "kl_run.h"

/* ---- integers ---- */

#define N 256
static int32_t edge(uint32_t i) {
    static const int32_t e[] = {0, 1, -1, 2, -2, 7, 31, 32, 33, -31, 100, -101, INT32_MAX, INT32_MIN, INT32_MIN + 1, 0x55555555, 255, 256, 65535, -65536};
    return i < sizeof e / sizeof *e ? e[i] : (int32_t)(i & 1 ? noise(i) : noise(i) >> (noise(i * 7) & 31));
}
static int bits_of(uint32_t u, int at, int n) { return (int)((u >> at) & ((1u << n) - 1)); }

ON_ALL(integers) {
    static int32_t x[N], y[N], o[24][N], want[24];
    static uint32_t p[24][N], uw[24];
    for (uint32_t i = 0; i < N; i++) x[i] = edge(i), y[i] = edge(i * 13 % 47);
    run("arith.ok", "integers", "WAVES=2", (actual[]){{.name = "x", .host = x, .dims = {N}}, {.name = "y", .host = y, .dims = {N}}, {.name = "o", .host = o, .dims = {24, N}}, {.name = "p", .host = p, .dims = {24, N}}, {0}});
    for (int i = 0; i < N; i++) {
        int32_t a = x[i], b = y[i], d = b == 0 ? 1 : b;
        int64_t wa = a, wb = b;
        uint32_t u = (uint32_t)a, v = (uint32_t)b, w = v == 0 ? 1 : v;
        want[0] = (int32_t)(u + v), want[1] = (int32_t)(u - v), want[2] = (int32_t)(u * v);
        /* INT32_MIN / -1 has no result */
        want[3] = d == -1 ? (int32_t)(0 - u) : a / d, want[4] = d == -1 ? 0 : a % d;
        want[5] = a & b, want[6] = a | b, want[7] = a ^ b, want[8] = (int32_t)(u << (v & 31)), want[9] = (int32_t)(wa >> (v & 31));
        want[10] = (int32_t)(0 - u), want[11] = ~a, want[12] = a < b ? a : b, want[13] = a < b ? b : a, want[14] = a < 0 ? (int32_t)(0 - u) : a;
        want[15] = (a < b && b != 7) || !(a >= -5) ? 3 : 4, want[16] = (int32_t)((wa * wb) >> 32), want[17] = a < -100 ? -100 : a > 100 ? 100 : a;
        int f = bits_of(u, 5, 9);
        want[18] = f & 256 ? f - 512 : f, want[19] = (int32_t)((wa * wb) >> 7);
        int lead = 0, trail = 0, ones = 0;
        while (lead < 32 && !(u >> (31 - lead) & 1)) lead++;
        while (trail < 32 && !(u >> trail & 1)) trail++;
        for (int k = 0; k < 32; k++) ones += u >> k & 1;
        want[20] = lead + 100 * trail + 10000 * ones, want[21] = a == b ? 1 : a > b ? 2 : 3;
        int m = want[14] & 1023;
        want[22] = (m + 6) / 7, want[23] = (m + 6) / 7 * 7;
        for (int r = 0; r < 24; r++)
            if (!(r == 4 && a == INT32_MIN && d == -1) && !(r == 3 && a == INT32_MIN && d == -1)) SAME("o", r * 1000 + i, o[r][i], want[r]);
        uw[0] = u + v, uw[1] = u - v, uw[2] = u * v, uw[3] = u / w, uw[4] = u % w, uw[5] = u >> 3, uw[6] = u << (v & 31);
        uw[7] = u < v ? u : v, uw[8] = u < v ? v : u, uw[9] = (uint32_t)((uint64_t)u * v >> 32), uw[10] = (uint32_t)bits_of(u, 7, 11);
        uint8_t bytes[8];
        memcpy(bytes, &v, 4), memcpy(bytes + 4, &u, 4);
        static const uint8_t sel[4] = {4, 1, 6, 3};
        uw[11] = 0;
        for (int k = 0; k < 4; k++) uw[11] |= (uint32_t)bytes[sel[k]] << 8 * k;
        uw[12] = uw[13] = 0;
        for (int k = 0; k < 4; k++) uw[12] |= (uint32_t)(bytes[4 + k] & 15) << 8 * k, uw[13] |= (uint32_t)(bytes[4 + k] >> 4) << 8 * k;
        uint32_t ss = u, us = u, uu = u, n8 = u;
        for (int k = 0; k < 4; k++) {
            int su = (int8_t)bytes[4 + k], sv = (int8_t)bytes[k], iu = bytes[4 + k], iv = bytes[k];
            ss += (uint32_t)(su * sv), us += (uint32_t)(iu * sv), uu += (uint32_t)(iu * iv);
        }
        for (int k = 0; k < 8; k++) {
            int iu = (int)(u >> 4 * k & 15), sv = (int)(v >> 4 * k & 15);
            n8 += (uint32_t)(iu * (sv > 7 ? sv - 16 : sv));
        }
        uw[14] = ss, uw[15] = us, uw[16] = uu, uw[17] = n8;
        int s0 = (int8_t)bytes[4], s1 = (int8_t)bytes[5], s2 = (int8_t)bytes[6], s3 = (int8_t)bytes[7];
        uw[18] = (uint32_t)(s0 + 3 * s1 - s2 * s3), uw[19] = (uint32_t)(bytes[4] + 3 * bytes[5] - bytes[6] * bytes[7]);
        uw[20] = 0;
        for (int k = 0; k < 4; k++) {
            double r = nearbyint((double)((float)(int8_t)bytes[4 + k] * 1.37f));
            uw[20] |= (uint32_t)(uint8_t)(int8_t)(r < -128 ? -128 : r > 127 ? 127 : r) << 8 * k;
        }
        uw[21] = (uint32_t)((uint64_t)u * v >> 33), uw[22] = och_f32_bits((float)a), uw[23] = (uint32_t)__builtin_popcountll((uint64_t)u << 3);
        for (int r = 0; r < 24; r++) SAME("p", r * 1000 + i, p[r][i], uw[r]);
    }
}

/* ---- reals ---- */

static float h16(float v) { return och_f16_to_f32(och_f32_to_f16(v)); }

ON_ALL(reals) {
    static float x[N], y[N], o[32][N];
    static const float edges[] = {0.0f, -0.0f, 1.0f, -1.5f, 2.5f, -2.5f, 3.5f, 1e-3f, -1e3f, 0.49999997f, 65504.0f, 3.0f, 6e-5f, 7.0f, -8.25f};
    for (uint32_t i = 0; i < N; i++) {
        x[i] = i < 15 ? edges[i] : ((float)(int32_t)noise(i) / 2147483648.0f) * (i % 3 ? 10.0f : 900.0f);
        y[i] = i % 17 == 3 ? edges[i % 15] : ((float)(int32_t)noise(i + 999) / 2147483648.0f) * 4.0f + 0.01f;
        if (fabsf(y[i]) < 1e-2f) y[i] = 0.5f;
    }
    x[20] = NAN, y[21] = INFINITY, x[22] = -INFINITY;
    run("arith.ok", "reals", "", (actual[]){{.name = "x", .host = x, .dims = {N}}, {.name = "y", .host = y, .dims = {N}}, {.name = "o", .host = o, .dims = {32, N}}, {0}});
    for (int i = 0; i < N; i++) {
        float a = x[i], b = y[i];
        float h = h16(a), g = h16(b), w[32];
        w[0] = a + b, w[1] = a - b, w[2] = a * b, w[3] = a / b, w[4] = fmaf(a, b, 0.5f), w[5] = -a, w[6] = fabsf(a), w[7] = fminf(a, b), w[8] = fmaxf(a, b);
        w[9] = floorf(a), w[10] = ceilf(a), w[11] = nearbyintf(a), w[12] = truncf(a), w[13] = copysignf(a, b), w[14] = sqrtf(fabsf(a));
        w[15] = fminf(fmaxf(a, -1), 1), w[16] = exp2f(a), w[17] = log2f(fabsf(a)), w[18] = 1 / b, w[19] = 1 / sqrtf(fabsf(b));
        w[20] = isfinite(a) ? (float)(int32_t)a : NAN, w[21] = isfinite(a) ? (float)(uint32_t)fabsf(a) : NAN, w[22] = a < b, w[23] = isnan(a) || isinf(b) ? 1 : isfinite(a) ? 2 : 3;
        w[24] = h16(h + g), w[25] = h16(h * g), w[26] = h16(fmaf(h, g, 0.25f)), w[27] = fmaxf(h, g), w[28] = h16(fabsf(h) - 1);
        w[29] = h * g + g * 2 + a, w[30] = h16(h / 3.0f), w[31] = h16(h + g);
        for (int r = 0; r < 32; r++) {
            if ((r == 20 || r == 21) && !isfinite(a)) continue;
            /* exp2, log2, rcp, rsqrt, sqrt and division: within a few units in the last place */
            double tol = r == 3 || r == 14 || (r >= 16 && r <= 19) ? 6e-7 : r == 29 ? 2e-3 : r == 30 ? 1e-3 : 0;
            if (r == 17 && fabs(w[r]) < 1e-2) continue;
            if (r == 16 && (w[r] == 0 || fabsf(w[r]) < 1e-37f)) continue;
            CLOSE("o", r * 1000 + i, o[r][i], w[r], tol);
        }
    }
}

ON_ALL(vectors) {
    static float x[64], o[64];
    for (uint32_t i = 0; i < 64; i++) x[i] = (float)(noise(i) % 100) / 4;
    run("arith.ok", "vectors", "", (actual[]){{.name = "x", .host = x, .dims = {64}}, {.name = "o", .host = o, .dims = {64}}, {0}});
    for (int i = 0; i < 4; i++) {
        const float *a = x + 16 * i, *b = a;
        float c[4] = {a[4], a[5], 1, 2.5f}, d[4], w[16];
        for (int k = 0; k < 4; k++) d[k] = b[k] * c[k] + 0.5f;
        d[2] = 9, d[1] += a[7];
        static const int mask[4] = {7, 6, 5, 4};
        for (int k = 0; k < 4; k++) d[k] -= 1;
        for (int k = 0; k < 4; k++) w[k] = d[k], w[4 + k] = d[k] * 3, w[8 + k] = (float)(((int)d[k] & mask[k]) << 1);
        w[12] = 8, w[13] = fmaf(b[3], c[3], d[3]), w[14] = fminf(b[0], c[0]), w[15] = -b[3];
        for (int k = 0; k < 16; k++) CLOSE("o", 16 * i + k, o[16 * i + k], w[k], 0);
    }
}

/* ---- conversions ---- */

/* A float of 8 bits by its definition: 4 or 3 bits of exponent; fnuz: bias one more, 0x80 is the NaN, no infinities. */
static float fp8_value(uint8_t v, bool bf8, bool fnuz) {
    int mb = bf8 ? 2 : 3, eb = 7 - mb, bias = (1 << (eb - 1)) - 1 + fnuz, e = v >> mb & ((1 << eb) - 1), m = v & ((1 << mb) - 1);
    float sign = v & 128 ? -1.0f : 1.0f;
    if (fnuz && v == 0x80) return NAN;
    if (!fnuz && bf8 && e == 31) return m ? NAN : sign * INFINITY;
    if (!fnuz && !bf8 && (v & 127) == 127) return NAN;
    return sign * (e ? ldexpf((float)(m + (1 << mb)), e - bias - mb) : ldexpf((float)m, 1 - bias - mb));
}
/* The nearest value, ties to the even code; beyond the largest: saturated. */
static float to_fp8(float f, bool bf8, bool fnuz) {
    float best = NAN, most = 0;
    int code = 0;
    if (isnan(f)) return NAN;
    for (int v = 0; v < 256; v++) {
        float x = fp8_value((uint8_t)v, bf8, fnuz);
        if (isnan(x) || isinf(x)) continue;
        if (x > most) most = x;
        if (isnan(best) || fabsf(x - f) < fabsf(best - f) || (fabsf(x - f) == fabsf(best - f) && !(v & 1) && (code & 1))) best = x, code = v;
    }
    return best;
}

typedef struct storage {
    const char *name;
    int bytes;
    bool real;
} storage;
static const storage stored[] = {{"f32", 4, true}, {"f16", 2, true}, {"bf16", 2, true}, {"fp8", 1, true}, {"bf8", 1, true}, {"i8", 1, false}, {"u8", 1, false}, {"i16", 2, false}, {"u16", 2, false}, {"i32", 4, false}, {"u32", 4, false}};

/* What is at v, as a number. */
static double read_as(const char *t, const void *p, int i, bool fnuz) {
    if (!strcmp(t, "f32")) return ((const float *)p)[i];
    if (!strcmp(t, "f16")) return och_f16_to_f32(((const uint16_t *)p)[i]);
    if (!strcmp(t, "bf16")) return och_bf16_to_f32(((const uint16_t *)p)[i]);
    if (!strcmp(t, "fp8") || !strcmp(t, "bf8")) return fp8_value(((const uint8_t *)p)[i], t[0] == 'b', fnuz);
    if (!strcmp(t, "i8")) return ((const int8_t *)p)[i];
    if (!strcmp(t, "u8")) return ((const uint8_t *)p)[i];
    if (!strcmp(t, "i16")) return ((const int16_t *)p)[i];
    if (!strcmp(t, "u16")) return ((const uint16_t *)p)[i];
    if (!strcmp(t, "i32")) return ((const int32_t *)p)[i];
    return ((const uint32_t *)p)[i];
}
static double round_as(const char *t, double v, bool fnuz) {
    if (!strcmp(t, "f32")) return (float)v;
    if (!strcmp(t, "f16")) return h16((float)v);
    if (!strcmp(t, "bf16")) return och_bf16_to_f32(och_f32_to_bf16((float)v));
    if (!strcmp(t, "fp8") || !strcmp(t, "bf8")) return to_fp8((float)v, t[0] == 'b', fnuz);
    int64_t i = (int64_t)v;
    if (!strcmp(t, "i8")) return (int8_t)i;
    if (!strcmp(t, "u8")) return (uint8_t)i;
    if (!strcmp(t, "i16")) return (int16_t)i;
    if (!strcmp(t, "u16")) return (uint16_t)i;
    if (!strcmp(t, "i32")) return (int32_t)i;
    return (uint32_t)i;
}

static void convert_pair(const storage *s, const storage *t) {
    bool fnuz = !strcmp(on->arch, "gfx942");
    static uint32_t x[256], y[256];
    static float back[256];
    char b[64];
    memset(x, 0, sizeof x);
    memset(y, 0, sizeof y);
    for (int i = 0; i < 256; i++) {
        uint32_t r = noise((uint32_t)i);
        if (s->bytes == 1) ((uint8_t *)x)[i] = (uint8_t)i;
        else if (!strcmp(s->name, "f32")) ((float *)x)[i] = ldexpf((float)(int32_t)r, -31 - (int)(r % 12) + 8);
        else if (s->bytes == 2 && s->real) ((uint16_t *)x)[i] = s->name[0] == 'f' ? och_f32_to_f16(ldexpf((float)(int32_t)r, -25)) : och_f32_to_bf16(ldexpf((float)(int32_t)r, -26));
        else if (s->bytes == 2) ((uint16_t *)x)[i] = (uint16_t)r;
        else x[i] = t->real ? r >> 8 & 1023 : r;
    }
    snprintf(b, sizeof b, "S=%s,T=%s", s->name, t->name);
    run("convert.ok", "convert", b, (actual[]){{.name = "x", .host = x, .dims = {256}}, {.name = "y", .host = y, .dims = {256}}, {.name = "back", .host = back, .dims = {256}}, {0}});
    for (int i = 0; i < 256; i++) {
        double v = read_as(s->name, x, i, fnuz);
        /* Reals outside an integer's range are nobody's promise. */
        if (s->real && !t->real && (isnan(v) || fabs(v) > 2e9 || (t->name[0] == 'u' && v < 0))) continue;
        double want = round_as(t->name, v, fnuz), got = read_as(t->name, y, i, fnuz);
        if (isinf(v) && (t->bytes == 1)) continue; /* saturates or not, by the target */
        CLOSE(b, i, got, want, 0);
        if (!isnan(want)) CLOSE(b, 1000 + i, back[i], (float)want, 0);
    }
}

ON_ALL(conversions) {
    /* Each type beside f32, and pairs across the kinds. */
    for (size_t i = 1; i < sizeof stored / sizeof *stored; i++) convert_pair(&stored[i], &stored[0]), convert_pair(&stored[0], &stored[i]);
    convert_pair(&stored[2], &stored[1]);
    convert_pair(&stored[5], &stored[7]);
    convert_pair(&stored[6], &stored[2]);
    convert_pair(&stored[10], &stored[5]);
}

ON_ALL(wide_conversions) {
    static uint16_t x[3 * 120];
    static float y[3 * 128];
    for (uint32_t i = 0; i < 360; i++) x[i] = och_f32_to_bf16((float)(int32_t)noise(i) / 1e8f);
    run("convert.ok", "wide", "S=bf16,T=f32", (actual[]){{.name = "x", .host = x, .dims = {3, 120}}, {.name = "y", .host = y, .dims = {3, 120}, .row_bytes = 512}, {0}});
    for (int i = 0; i < 360; i++) CLOSE("y", i, y[i / 120 * 128 + i % 120], och_bf16_to_f32(x[i]), 0);
}

/* ---- control ---- */

static int collatz(int n) {
    int steps = 0;
    for (; n != 1 && steps < 50; steps++) n = n % 2 == 0 ? n / 2 : 3 * n + 1;
    return steps;
}

ON_ALL(control) {
    static int32_t x[N], o[20][N];
    for (uint32_t i = 0; i < N; i++) x[i] = (int32_t)(noise(i) & 0xffff) - 20000;
    run("control.ok", "control", "WAVES=2,MODE=1", (actual[]){{.name = "x", .host = x, .dims = {N}}, {.name = "o", .host = o, .dims = {20, N}}, {.name = "flag", .integer = 0}, {.name = "bias", .integer = -9}, {.name = "scale", .real = 2.25}, {.name = "big", .integer = (5ll << 32) + 77}, {0}});
    for (int i = 0; i < N; i++) {
        int a = x[i], w[20], g = a & 31;
        w[0] = collatz((a & 63) + 1);
        w[1] = 0;
        for (int j = 0; j < 18; j++) w[1] += j == (a & 15) ? 0 : j;
        w[2] = 0;
        for (int j = a & 7; j < 100; j += 9) w[2] += j;
        w[3] = (5 + 20 + a) + 5 - (5 + 10 + a), w[4] = 100, w[5] = 7, w[6] = 2 * a + 5 + 6, w[7] = 10 * (a & 15);
        w[8] = i + 1 < N ? x[i + 1] : -7, w[9] = i > 0 && x[i - 1] > a, w[10] = (a + 12) * 3 + ((a > 0 ? a : 0) > 12 ? a : 12);
        w[11] = (int)(((uint32_t)(a + 5) << 2) ^ 0x55), w[12] = 9, w[13] = 5 + 77, w[14] = 3 * (a & 63) + 3 * ((i + 1) % 64), w[15] = 2 * a + 1;
        w[16] = 0;
        for (; g > 0 && 3 * g > 9; g -= 2) w[16] += 3 * g;
        w[17] = a < 0 || collatz((a & 3) + 1) > 2, w[18] = a & 1 ? collatz(7) : -collatz(3);
        w[19] = 0;
        for (int j = 0; j < (a & 3); j++) w[19] += j + 1;
        for (int r = 0; r < 20; r++) SAME("o", r * 1000 + i, o[r][i], w[r]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(integers), cmocka_unit_test(reals), cmocka_unit_test(vectors), cmocka_unit_test(conversions), cmocka_unit_test(wide_conversions), cmocka_unit_test(control)};
    const char *filter = getenv("KL_TEST");
    if (filter) cmocka_set_test_filter(filter);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
