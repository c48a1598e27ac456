// Matrix instructions of each target.
#include "common.h"
typedef vec<float, 4> f4;
typedef vec<float, 16> f16x;
typedef vec<float, 32> f32x;
typedef vec<float, 8> f8;
typedef vec<int, 4> i4;
typedef vec<int, 8> i8v;
typedef vec<int, 2> i2;
typedef vec<f16, 4> h4;
typedef vec<f16, 8> h8;
typedef vec<f16, 16> h16;
typedef vec<short, 8> s8;
typedef vec<short, 16> s16;

#if defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__)
GLOBAL void mfma(f4 *o, f16x *o16, f32x *o32, const h4 *a, const float *f, double *d, i4 *oi) {
    int t = TID;
    o[t] = __builtin_amdgcn_mfma_f32_16x16x16f16(a[t], a[t + 1], o[t], 0, 0, 0);
    o[t + 1] = __builtin_amdgcn_mfma_f32_16x16x4f32(f[t], f[t + 1], o[t + 2], 0, 0, 0);
    o16[t] = __builtin_amdgcn_mfma_f32_32x32x8f16(a[t], a[t + 1], o16[t], 0, 0, 0);
    o32[t] = __builtin_amdgcn_mfma_f32_32x32x1f32(f[t], f[t + 1], o32[t], 1, 0, 3);
    o[t + 3] = __builtin_amdgcn_mfma_f32_4x4x1f32(f[t], f[t + 1], (f4)1.0f, 2, 1, 0);
#if !defined(__gfx942__) && !defined(__gfx950__)
    oi[t] = __builtin_amdgcn_mfma_i32_16x16x16i8(3, 4, oi[t], 0, 0, 0);
#else
    oi[t] = __builtin_amdgcn_mfma_i32_16x16x32_i8(((long *)f)[t], ((long *)f)[t + 1], oi[t], 0, 0, 0);
    o[t + 5] = __builtin_amdgcn_mfma_f32_16x16x32_fp8_bf8(((long *)f)[t], ((long *)f)[t + 1], o[t + 4], 0, 0, 0);
#endif
#if !defined(__gfx908__)
    vec<double, 4> *d4 = (vec<double, 4> *)d;
    d4[t] = __builtin_amdgcn_mfma_f64_16x16x4f64(d[t], d[t + 1], d4[t], 0, 0, 0);
    d[t + 99] = __builtin_amdgcn_mfma_f64_4x4x4f64(d[t], d[t + 1], d[t + 99], 0, 0, 0);
#endif
#if defined(__gfx950__)
    o[t + 6] = __builtin_amdgcn_mfma_f32_16x16x32_f16(((h8 *)a)[t], ((h8 *)a)[t + 1], o[t], 0, 0, 0);
    i8v x = ((i8v *)a)[t], y = ((i8v *)a)[t + 9];
    o[t + 7] = __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(x, y, o[t + 7], 4, 4, 0, oi[t].x, 1, oi[t].y);
    o[t + 8] = __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(x, y, o[t + 8], 0, 2, 3, oi[t].x, 2, oi[t].y);
    o16[t + 8] = __builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4(x, y, o16[t + 8], 1, 0, 0, oi[t].x, 0, oi[t].y);
#endif
}
#endif

#if defined(__GFX11__) && __AMDGCN_WAVEFRONT_SIZE_TEST == 32
GLOBAL void wmma(f8 *o, const h16 *a, i8v *oi, h16 *oh, const s16 *s) {
    int t = TID;
    o[t] = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a[t], a[t + 1], o[t]);
    o[t + 1] = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(s[t], s[t + 1], o[t]);
    oh[t] = __builtin_amdgcn_wmma_f16_16x16x16_f16_w32(a[t], a[t + 1], oh[t], true);
    oi[t] = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, ((i4 *)a)[t], false, ((i4 *)a)[t + 1], oi[t], true);
    oi[t + 1] = __builtin_amdgcn_wmma_i32_16x16x16_iu4_w32(true, ((i2 *)a)[t], true, ((i2 *)a)[t + 1], oi[t], false);
}
#elif defined(__GFX11__)
GLOBAL void wmma(f4 *o, const h16 *a, i4 *oi) {
    int t = TID;
    o[t] = __builtin_amdgcn_wmma_f32_16x16x16_f16_w64(a[t], a[t + 1], o[t]);
    oi[t] = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w64(true, ((i4 *)a)[t], false, ((i4 *)a)[t + 1], oi[t], true);
}
#elif defined(__GFX12__) && __AMDGCN_WAVEFRONT_SIZE_TEST == 32
GLOBAL void wmma(f8 *o, const h8 *a, i8v *oi, const h16 *b, const s8 *s) {
    int t = TID;
    o[t] = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a[t], a[t + 1], o[t]);
    o[t + 1] = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(s[t], s[t + 1], o[t]);
    oi[t] = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, ((i2 *)a)[t], false, ((i2 *)a)[t + 1], oi[t], true);
    o[t + 2] = __builtin_amdgcn_wmma_f32_16x16x16_fp8_bf8_w32_gfx12(((i2 *)a)[t], ((i2 *)a)[t + 1], o[t]);
    o[t + 3] = __builtin_amdgcn_swmmac_f32_16x16x32_f16_w32(a[t], b[t + 1], o[t], (short)oi[0].x);
}
#elif defined(__GFX12__)
GLOBAL void wmma(f4 *o, const h4 *a, i4 *oi) {
    int t = TID;
    o[t] = __builtin_amdgcn_wmma_f32_16x16x16_f16_w64_gfx12(a[t], a[t + 1], o[t]);
    oi[t] = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w64_gfx12(true, ((int *)a)[t], false, ((int *)a)[t + 1], oi[t], true);
}
#endif
