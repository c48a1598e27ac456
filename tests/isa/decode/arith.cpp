// Arithmetic of all widths, conversions, math functions that become instructions.
#include "common.h"

template <typename T> DEVICE T mix(T a, T b, T c) {
    return a * b + c - (a < b ? a : b) * (b > c ? T(3) : c);
}
template <typename T> DEVICE T ints(T a, T b) {
    T r = a / (b | T(1)) + a % (b | T(1));
    r ^= (a << (b & T(7))) | (a >> (b & T(3)));
    r += a > b ? a & b : ~(a | b);
    return r + a * T(5);
}
#define FLOATS(T, name) \
    GLOBAL void name(T *o, const T *a, const T *b, const T *c, int n) { \
        int i = GID; \
        if (i < n) o[i] = mix(a[i], b[i], c[i]) + mix(a[i + 1], -b[i], a[i]) / (c[i] + T(2)); \
    }
FLOATS(float, f32_mix)
FLOATS(double, f64_mix)
FLOATS(f16, f16_mix)
FLOATS(__bf16, bf16_mix)
#define INTS(T, name) \
    GLOBAL void name(T *o, const T *a, const T *b, int n) { \
        for (int i = GID; i < n; i += 1024) o[i] = ints(a[i], b[i]) + mix(a[i], b[i], o[i]); \
    }
INTS(int, i32_ints)
INTS(u32, u32_ints)
INTS(long, i64_ints)
INTS(u64, u64_ints)
INTS(short, i16_ints)
INTS(u16, u16_ints)
INTS(i8, i8_ints)
INTS(u8, u8_ints)

GLOBAL void converts(float *f, double *d, f16 *h, __bf16 *b, int *i, u32 *u, long *l, u8 *c) {
    int t = GID;
    f[t] = f[t] + d[t] + (float)h[t] + (float)b[t] + i[t] + u[t] + l[t] + c[t];
    d[t] = d[t] + f[t + 1] + i[t] + u[t] + (double)l[t] + (double)(u64)l[t];
    h[t] = (f16)f[t] + (f16)i[t] + (f16)(short)c[t];
    b[t] = (__bf16)f[t];
    i[t] = (int)f[t] + (int)d[t] + (int)h[t];
    u[t] = (u32)f[t] + (u32)d[t];
    l[t] = (long)f[t] + (long)d[t];
    c[t] = (u8)f[t];
}

GLOBAL void math(float *f, double *d, f16 *h, int *n) {
    int t = GID;
    float x = f[t];
    f[t] = __builtin_sqrtf(x) + __builtin_floorf(x) + __builtin_ceilf(x) + __builtin_truncf(x) + __builtin_rintf(x) +
           __builtin_fabsf(x) + __builtin_fminf(x, 2.5f) + __builtin_fmaxf(x, -0.15915494f) + __builtin_fmaf(x, x, 1e-5f) +
           __builtin_exp2f(x) + __builtin_log2f(x) + __builtin_copysignf(x, f[t + 1]) + __builtin_ldexpf(x, n[t]) +
           __builtin_amdgcn_rcpf(x) + __builtin_amdgcn_rsqf(x) + __builtin_amdgcn_sinf(x) + __builtin_amdgcn_cosf(x) +
           __builtin_amdgcn_fractf(x) + __builtin_amdgcn_fmed3f(x, 1.0f, f[t + 2]) + __builtin_amdgcn_frexp_mantf(x);
    n[t] = __builtin_amdgcn_frexp_expf(x) + __builtin_amdgcn_classf(x, 0x1f8) + __builtin_amdgcn_class(d[t], 3);
    d[t] = __builtin_sqrt(d[t]) + __builtin_floor(d[t]) + __builtin_fma(d[t], d[t], 0.5) + __builtin_rint(d[t]) +
           __builtin_fmin(d[t], 4.0) + __builtin_amdgcn_rcp(d[t]) + __builtin_ldexp(d[t], 3) + 100.25;
    h[t] = __builtin_amdgcn_rcph(h[t]) + __builtin_amdgcn_sqrth(h[t]) + h[t] * (f16)1e-5 + (f16)65.0 +
           (h[t] > (f16)0.5 ? h[t + 1] : (f16)-h[t + 2]);
}

GLOBAL void bits(u32 *o, u64 *p, const u32 *a, int *s) {
    int t = GID;
    u32 x = a[t], y = a[t + 1];
    o[t] = __builtin_popcount(x) + __builtin_clz(x | 1) + __builtin_ctz(x | 1) + __builtin_bitreverse32(x) +
           __builtin_amdgcn_perm(x, y, 0x05010400) + __builtin_amdgcn_alignbyte(x, y, 3) + __builtin_amdgcn_alignbit(x, y, 7) +
           __builtin_amdgcn_ubfe(x, y, 5) + __builtin_amdgcn_sbfe(x, 3, y) + __builtin_amdgcn_sad_u8(x, y, 9) +
           __builtin_amdgcn_lerp(x, y, x) + (u32)(((u64)x * y) >> 32) + (u32)(((long)(int)x * (int)y) >> 32) +
           (x > y ? x : y) + ((int)x < (int)y ? x : 77) + __builtin_rotateleft32(x, 9) + (x ^ y ^ 0x1234567) + ((x & y) | ~x);
    p[t] = __builtin_popcountll(p[t]) + p[t + 1] * 3 + ((u64)x << (y & 63)) + __builtin_clzll(p[t] | 1) + p[t] / 7;
    u32 c;
    o[t + 99] = __builtin_addc(x, y, 1, &c) + c;
    s[t] = __builtin_elementwise_add_sat((int)x, (int)y) + __builtin_elementwise_sub_sat(x, y);
}

GLOBAL void packed(vec<f16, 2> *o, const vec<f16, 2> *a, vec<short, 2> *s, vec<float, 2> *f, vec<f16, 4> *q) {
    int t = GID;
    o[t] = a[t] * a[t + 1] + a[t + 2].yx - a[t] * (f16)2.0;
    o[t + 9] = __builtin_elementwise_max(a[t], a[t + 3]);
    s[t] = s[t] * s[t + 1] + (short)3;
    s[t + 9] = __builtin_elementwise_min(s[t], s[t + 2]) >> (short)2;
    f[t] = f[t] * f[t + 1] + f[t + 2];
    q[t] = q[t] * q[t + 1] + (f16)0.25;
    float m = (float)a[t].x * (float)a[t].y + f[t].x;
    f[t + 5].y = m;
    o[t + 17].x = (f16)((float)a[t].y * (float)a[t + 1].x + (float)a[t + 2].x);
}
