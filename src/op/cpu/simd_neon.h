/* Sixteen lanes in four 128-bit registers (ASIMD with dot product and half precision); the names are explained in
 * simd_avx512.h. */
#ifndef OCH_OP_CPU_SIMD_NEON_H
#define OCH_OP_CPU_SIMD_NEON_H

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

#define SIMD_NAME neon
#define SIMD_INLINE static inline __attribute__((always_inline))
/* SDOT takes both sides signed. */
#define SIMD_WIDE_OFFSET 0
#define SIMD_MAX_ROWS 2
#define SIMD_ATTN_ROWS 4
#define SIMD_ATTN_GROUPS 1
#define SIMD_FLOAT_ROWS 2
#define SIMD_FLOAT_CHAINS 2

typedef float32x4x4_t vf;
typedef int32x4x4_t vi;
typedef uint8x16x4_t vb;

#define EACH(type, expr)                                                                                               \
    do {                                                                                                               \
        type r_;                                                                                                       \
        _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) r_.val[i] = (expr);                                        \
        return r_;                                                                                                     \
    } while (0)

SIMD_INLINE vf vf_set1(float x) { EACH(vf, vdupq_n_f32(x)); }
SIMD_INLINE vf vf_zero(void) { return vf_set1(0.0f); }
SIMD_INLINE vf vf_load(const float *p) { EACH(vf, vld1q_f32(p + 4 * i)); }
SIMD_INLINE void vf_store(float *p, vf x) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) vst1q_f32(p + 4 * i, x.val[i]);
}
SIMD_INLINE vf vf_load_n(const float *p, int n) {
    if (n >= 16) return vf_load(p);
    float t[16] = {0};
    for (int i = 0; i < n; i++) t[i] = p[i];
    return vf_load(t);
}
SIMD_INLINE void vf_store_n(float *p, vf x, int n) {
    if (n >= 16) {
        vf_store(p, x);
        return;
    }
    float t[16];
    vf_store(t, x);
    for (int i = 0; i < n; i++) p[i] = t[i];
}
SIMD_INLINE vf vf_add(vf x, vf y) { EACH(vf, vaddq_f32(x.val[i], y.val[i])); }
SIMD_INLINE vf vf_sub(vf x, vf y) { EACH(vf, vsubq_f32(x.val[i], y.val[i])); }
SIMD_INLINE vf vf_mul(vf x, vf y) { EACH(vf, vmulq_f32(x.val[i], y.val[i])); }
SIMD_INLINE vf vf_div(vf x, vf y) { EACH(vf, vdivq_f32(x.val[i], y.val[i])); }
SIMD_INLINE vf vf_max(vf x, vf y) { EACH(vf, vmaxq_f32(x.val[i], y.val[i])); }
SIMD_INLINE vf vf_min(vf x, vf y) { EACH(vf, vminq_f32(x.val[i], y.val[i])); }
SIMD_INLINE vf vf_abs(vf x) { EACH(vf, vabsq_f32(x.val[i])); }
SIMD_INLINE vf vf_fma(vf x, vf y, vf z) { EACH(vf, vfmaq_f32(z.val[i], x.val[i], y.val[i])); }
SIMD_INLINE vf vf_fnma(vf x, vf y, vf z) { EACH(vf, vfmsq_f32(z.val[i], x.val[i], y.val[i])); }
SIMD_INLINE float vf_sum(vf x) {
    return vaddvq_f32(vaddq_f32(vaddq_f32(x.val[0], x.val[1]), vaddq_f32(x.val[2], x.val[3])));
}
SIMD_INLINE float vf_hmax(vf x) {
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(x.val[0], x.val[1]), vmaxq_f32(x.val[2], x.val[3])));
}
SIMD_INLINE float vf_hmax_abs(vf x, vf y) { return vf_hmax(vf_max(vf_abs(x), vf_abs(y))); } /* these maxima keep NaN */
SIMD_INLINE vf vf_load_f16(const void *p) {
    EACH(vf, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t *)p + 4 * i))));
}
SIMD_INLINE vf vf_load_bf16(const void *p) {
    EACH(vf, vreinterpretq_f32_u32(vshll_n_u16(vld1_u16((const uint16_t *)p + 4 * i), 16)));
}
/* As halves with an exponent 8 too small, which a product puts right; all ones becomes a NaN of halves. */
SIMD_INLINE float16x8_t simd_e4m3(uint8x8_t x) {
    const uint16x8_t b = vmovl_u8(x), ones = vdupq_n_u16(0x3F80), mag = vandq_u16(vshlq_n_u16(b, 7), ones);
    const uint16x8_t sign = vandq_u16(vshlq_n_u16(b, 8), vdupq_n_u16(0x8000));
    const uint16x8_t odd = vandq_u16(vceqq_u16(mag, ones), vdupq_n_u16(0x7C00));
    return vreinterpretq_f16_u16(vorrq_u16(vorrq_u16(mag, sign), odd));
}
SIMD_INLINE vf vf_load_e4m3(const void *p) {
    const uint8x16_t b = vld1q_u8((const uint8_t *)p);
    const float16x8_t lo = simd_e4m3(vget_low_u8(b)), hi = simd_e4m3(vget_high_u8(b));
    vf r;
    r.val[0] = vmulq_n_f32(vcvt_f32_f16(vget_low_f16(lo)), 256.0f);
    r.val[1] = vmulq_n_f32(vcvt_f32_f16(vget_high_f16(lo)), 256.0f);
    r.val[2] = vmulq_n_f32(vcvt_f32_f16(vget_low_f16(hi)), 256.0f);
    r.val[3] = vmulq_n_f32(vcvt_f32_f16(vget_high_f16(hi)), 256.0f);
    return r;
}
SIMD_INLINE void vf_store_f16(void *p, vf x) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) vst1_u16((uint16_t *)p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(x.val[i])));
}
SIMD_INLINE vf vf_from_vi(vi x) { EACH(vf, vcvtq_f32_s32(x.val[i])); }
/* 16 bytes as 16 words. */
SIMD_INLINE vi simd_words_u8(uint8x16_t x) {
    uint16x8_t lo = vmovl_u8(vget_low_u8(x)), hi = vmovl_u8(vget_high_u8(x));
    vi r;
    r.val[0] = vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(lo)));
    r.val[1] = vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(lo)));
    r.val[2] = vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(hi)));
    r.val[3] = vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(hi)));
    return r;
}
SIMD_INLINE vf vf_load_u8(const uint8_t *p) { return vf_from_vi(simd_words_u8(vld1q_u8(p))); }
SIMD_INLINE vf vf_load_i8(const uint8_t *p) {
    int8x16_t x = vreinterpretq_s8_u8(vld1q_u8(p));
    int16x8_t lo = vmovl_s8(vget_low_s8(x)), hi = vmovl_s8(vget_high_s8(x));
    vi r;
    r.val[0] = vmovl_s16(vget_low_s16(lo));
    r.val[1] = vmovl_s16(vget_high_s16(lo));
    r.val[2] = vmovl_s16(vget_low_s16(hi));
    r.val[3] = vmovl_s16(vget_high_s16(hi));
    return vf_from_vi(r);
}
SIMD_INLINE void vf_load_u4(const uint8_t *p, vf *low, vf *high) {
    uint8x16_t x = vld1q_u8(p);
    *low = vf_from_vi(simd_words_u8(vandq_u8(x, vdupq_n_u8(15))));
    *high = vf_from_vi(simd_words_u8(vshrq_n_u8(x, 4)));
}
SIMD_INLINE vf vf_load_e8m0(const uint8_t *p) {
    vi x = simd_words_u8(vld1q_u8(p));
    EACH(vf, vmulq_f32(vreinterpretq_f32_s32(vshlq_n_s32(x.val[i], 23)), vdupq_n_f32(0.5f)));
}
SIMD_INLINE vf vf_scale2(vf x, vf n) {
    EACH(vf, vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(x.val[i]), vshlq_n_s32(vcvtnq_s32_f32(n.val[i]), 23))));
}
SIMD_INLINE vf vf_zero_below(vf a, vf x, float limit) {
    /* a, with the bits cleared where x < limit; NaN compares false and is kept */
    EACH(vf, vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(a.val[i]), vcltq_f32(x.val[i], vdupq_n_f32(limit)))));
}
SIMD_INLINE vf vf_round(vf x) { EACH(vf, vrndnq_f32(x.val[i])); }
SIMD_INLINE vf vf_keep_range(vf x, int begin, int end) {
    static const int32_t first[4] = {0, 1, 2, 3};
    const int32x4_t lane = vld1q_s32(first);
    EACH(vf, vbslq_f32(vandq_u32(vcgeq_s32(lane, vdupq_n_s32(begin - 4 * i)), vcltq_s32(lane, vdupq_n_s32(end - 4 * i))),
                       x.val[i], vdupq_n_f32(-__builtin_inff())));
}
SIMD_INLINE float32x4_t simd_twice(const float *p) {
    float32x2_t x = vld1_f32(p);
    return vcombine_f32(vzip1_f32(x, x), vzip2_f32(x, x));
}
SIMD_INLINE vf vf_rotate_pairs(vf x, const float *c, const float *s) {
    static const float signs[4] = {-1, 1, -1, 1};
    const float32x4_t sign = vld1q_f32(signs);
    EACH(vf, vfmaq_f32(vmulq_f32(vmulq_f32(vrev64q_f32(x.val[i]), sign), simd_twice(s + 2 * i)), x.val[i],
                       simd_twice(c + 2 * i)));
}

SIMD_INLINE vi vi_set1(int32_t x) { EACH(vi, vdupq_n_s32(x)); }
SIMD_INLINE vi vi_zero(void) { return vi_set1(0); }
SIMD_INLINE vi vi_shl(vi x, int n) { EACH(vi, vshlq_s32(x.val[i], vdupq_n_s32(n))); }
SIMD_INLINE vi vi_sar(vi x, int n) { EACH(vi, vshlq_s32(x.val[i], vdupq_n_s32(-n))); }
SIMD_INLINE vi vi_add(vi x, vi y) { EACH(vi, vaddq_s32(x.val[i], y.val[i])); }
SIMD_INLINE vi vi_from_vf(vf x) { EACH(vi, vcvtnq_s32_f32(x.val[i])); }
SIMD_INLINE int32_t vi_sum(vi x) {
    return vaddvq_s32(vaddq_s32(vaddq_s32(x.val[0], x.val[1]), vaddq_s32(x.val[2], x.val[3])));
}
SIMD_INLINE void vi_store_i8(int8_t *p, vi x) {
    int16x8_t lo = vcombine_s16(vmovn_s32(x.val[0]), vmovn_s32(x.val[1]));
    int16x8_t hi = vcombine_s16(vmovn_s32(x.val[2]), vmovn_s32(x.val[3]));
    vst1q_s8(p, vcombine_s8(vmovn_s16(lo), vmovn_s16(hi)));
}

SIMD_INLINE vb vb_load(const uint8_t *p) { EACH(vb, vld1q_u8(p + 16 * i)); }
SIMD_INLINE vb vb_set1(uint8_t x) { EACH(vb, vdupq_n_u8(x)); }
SIMD_INLINE vb vb_and(vb x, vb y) { EACH(vb, vandq_u8(x.val[i], y.val[i])); }
SIMD_INLINE vb vb_shr(vb x, int n) { EACH(vb, (uint8x16_t)(x.val[i] >> (uint8_t)n)); }
SIMD_INLINE vb vb_shl(vb x, int n) { EACH(vb, (uint8x16_t)(x.val[i] << (uint8_t)n)); }
SIMD_INLINE vb vb_and_or(vb x, vb mask, vb c) { EACH(vb, vorrq_u8(vandq_u8(x.val[i], mask.val[i]), c.val[i])); }
SIMD_INLINE vb vb_lookup(const uint8_t *table16, vb index) {
    uint8x16_t t = vld1q_u8(table16);
    EACH(vb, vqtbl1q_u8(t, index.val[i]));
}
SIMD_INLINE vb vb_wide(vb x) { EACH(vb, veorq_u8(x.val[i], vdupq_n_u8(0x80))); }
SIMD_INLINE vi vi_dot(vi acc, vb w, const int8_t *a) {
    int32_t quad;
    memcpy(&quad, a, 4);
    int8x16_t q = vreinterpretq_s8_s32(vdupq_n_s32(quad));
    EACH(vi, vdotq_s32(acc.val[i], vreinterpretq_s8_u8(w.val[i]), q));
}
SIMD_INLINE vi vi_dot_wide(vi acc, vb w, const int8_t *a) { return vi_dot(acc, w, a); }

SIMD_INLINE void simd_prefetch(const void *p) { __builtin_prefetch(p); }

#endif
