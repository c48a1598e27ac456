/* Sixteen lanes in two 256-bit registers; the names are explained in simd_avx512.h. */
#ifndef OCH_OP_CPU_SIMD_AVX2_H
#define OCH_OP_CPU_SIMD_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define SIMD_NAME avx2
#define SIMD_INLINE static inline __attribute__((always_inline))
/* Codes of eight bits are taken as signed: products of pairs of unsigned ones would overflow the 16 bits of VPMADDUBSW. */
#define SIMD_WIDE_OFFSET 0
#define SIMD_MAX_ROWS 2
#define SIMD_ATTN_ROWS 4
#define SIMD_ATTN_GROUPS 1
#define SIMD_FLOAT_ROWS 2
#define SIMD_FLOAT_CHAINS 2

typedef struct vf {
    __m256 a, b;
} vf;
typedef struct vi {
    __m256i a, b;
} vi;
typedef vi vb;

#define VF2(ea, eb) ((vf){ea, eb})
#define VI2(ea, eb) ((vi){ea, eb})

SIMD_INLINE vf vf_set1(float x) { return VF2(_mm256_set1_ps(x), _mm256_set1_ps(x)); }
SIMD_INLINE vf vf_zero(void) { return VF2(_mm256_setzero_ps(), _mm256_setzero_ps()); }
SIMD_INLINE vf vf_load(const float *p) { return VF2(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)); }
SIMD_INLINE void vf_store(float *p, vf x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
SIMD_INLINE __m256i simd_mask(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
SIMD_INLINE vf vf_load_n(const float *p, int n) {
    if (n >= 16) return vf_load(p);
    return VF2(_mm256_maskload_ps(p, simd_mask(n)), n > 8 ? _mm256_maskload_ps(p + 8, simd_mask(n - 8)) : _mm256_setzero_ps());
}
SIMD_INLINE void vf_store_n(float *p, vf x, int n) {
    if (n >= 16) {
        vf_store(p, x);
        return;
    }
    _mm256_maskstore_ps(p, simd_mask(n), x.a);
    if (n > 8) _mm256_maskstore_ps(p + 8, simd_mask(n - 8), x.b);
}
SIMD_INLINE vf vf_add(vf x, vf y) { return VF2(_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)); }
SIMD_INLINE vf vf_sub(vf x, vf y) { return VF2(_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)); }
SIMD_INLINE vf vf_mul(vf x, vf y) { return VF2(_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)); }
SIMD_INLINE vf vf_div(vf x, vf y) { return VF2(_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)); }
SIMD_INLINE vf vf_max(vf x, vf y) { return VF2(_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)); }
SIMD_INLINE vf vf_min(vf x, vf y) { return VF2(_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)); }
SIMD_INLINE vf vf_abs(vf x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return VF2(_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b));
}
SIMD_INLINE vf vf_fma(vf x, vf y, vf z) { return VF2(_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)); }
SIMD_INLINE vf vf_fnma(vf x, vf y, vf z) { return VF2(_mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b)); }
SIMD_INLINE float vf_sum(vf x) {
    __m256 s = _mm256_add_ps(x.a, x.b);
    __m128 t = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    t = _mm_add_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_add_ss(t, _mm_movehdup_ps(t)));
}
SIMD_INLINE float vf_hmax(vf x) {
    __m256 s = _mm256_max_ps(x.a, x.b);
    __m128 t = _mm_max_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    t = _mm_max_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_max_ss(t, _mm_movehdup_ps(t)));
}
SIMD_INLINE float vf_hmax_abs(vf x, vf y) {
    const __m256i mag = _mm256_set1_epi32(0x7FFFFFFF);
    __m256i s = _mm256_max_epi32(_mm256_max_epi32(_mm256_and_si256((__m256i)x.a, mag), _mm256_and_si256((__m256i)x.b, mag)),
                                 _mm256_max_epi32(_mm256_and_si256((__m256i)y.a, mag), _mm256_and_si256((__m256i)y.b, mag)));
    __m128i t = _mm_max_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    t = _mm_max_epi32(t, _mm_shuffle_epi32(t, 0x4E));
    t = _mm_max_epi32(t, _mm_shuffle_epi32(t, 0xB1));
    return _mm_cvtss_f32(_mm_castsi128_ps(t));
}
SIMD_INLINE __m128i simd_load16(const void *p) { return _mm_loadu_si128((const __m128i *)p); }
SIMD_INLINE vf vf_load_f16(const void *p) {
    return VF2(_mm256_cvtph_ps(simd_load16(p)), _mm256_cvtph_ps(simd_load16((const char *)p + 16)));
}
SIMD_INLINE __m256 simd_bf16(const void *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(simd_load16(p)), 16));
}
SIMD_INLINE vf vf_load_bf16(const void *p) { return VF2(simd_bf16(p), simd_bf16((const char *)p + 16)); }
/* As halves with an exponent 8 too small, which a product puts right; all ones becomes a NaN of halves. */
SIMD_INLINE vf vf_load_e4m3(const void *p) {
    const __m256i b = _mm256_cvtepu8_epi16(simd_load16(p)), ones = _mm256_set1_epi16(0x3F80);
    const __m256i mag = _mm256_and_si256(_mm256_slli_epi16(b, 7), ones);
    const __m256i sign = _mm256_and_si256(_mm256_slli_epi16(b, 8), _mm256_set1_epi16((short)0x8000));
    const __m256i odd = _mm256_and_si256(_mm256_cmpeq_epi16(mag, ones), _mm256_set1_epi16(0x7C00));
    const __m256i h = _mm256_or_si256(_mm256_or_si256(mag, sign), odd);
    const __m256 by = _mm256_set1_ps(256.0f);
    return VF2(_mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(h)), by),
               _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(h, 1)), by));
}
SIMD_INLINE void vf_store_f16(void *p, vf x) {
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    _mm_storeu_si128((__m128i *)((char *)p + 16), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
SIMD_INLINE vf vf_from_vi(vi x) { return VF2(_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)); }
SIMD_INLINE vi simd_bytes_u32(const uint8_t *p) {
    __m128i x = simd_load16(p);
    return VI2(_mm256_cvtepu8_epi32(x), _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8)));
}
SIMD_INLINE vf vf_load_u8(const uint8_t *p) { return vf_from_vi(simd_bytes_u32(p)); }
SIMD_INLINE vf vf_load_i8(const uint8_t *p) {
    __m128i x = simd_load16(p);
    return VF2(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x)), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(x, 8))));
}
SIMD_INLINE void vf_load_u4(const uint8_t *p, vf *low, vf *high) {
    vi x = simd_bytes_u32(p);
    const __m256i mask = _mm256_set1_epi32(15);
    *low = vf_from_vi(VI2(_mm256_and_si256(x.a, mask), _mm256_and_si256(x.b, mask)));
    *high = vf_from_vi(VI2(_mm256_srli_epi32(x.a, 4), _mm256_srli_epi32(x.b, 4)));
}
SIMD_INLINE vf vf_load_e8m0(const uint8_t *p) {
    vi x = simd_bytes_u32(p);
    const __m256 half = _mm256_set1_ps(0.5f);
    return VF2(_mm256_mul_ps(_mm256_castsi256_ps(_mm256_slli_epi32(x.a, 23)), half),
               _mm256_mul_ps(_mm256_castsi256_ps(_mm256_slli_epi32(x.b, 23)), half));
}
SIMD_INLINE __m256 simd_scale2(__m256 x, __m256 n) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23)));
}
SIMD_INLINE vf vf_scale2(vf x, vf n) { return VF2(simd_scale2(x.a, n.a), simd_scale2(x.b, n.b)); }
SIMD_INLINE vf vf_zero_below(vf a, vf x, float limit) {
    const __m256 l = _mm256_set1_ps(limit);
    return VF2(_mm256_and_ps(a.a, _mm256_cmp_ps(x.a, l, _CMP_NLT_UQ)), _mm256_and_ps(a.b, _mm256_cmp_ps(x.b, l, _CMP_NLT_UQ)));
}
SIMD_INLINE vf vf_round(vf x) {
    return VF2(_mm256_round_ps(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
               _mm256_round_ps(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
SIMD_INLINE __m256 simd_keep_range(__m256 x, int begin, int end) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i keep = _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(begin), lane),
                                       _mm256_cmpgt_epi32(_mm256_set1_epi32(end), lane));
    return _mm256_blendv_ps(_mm256_set1_ps(-__builtin_inff()), x, _mm256_castsi256_ps(keep));
}
SIMD_INLINE vf vf_keep_range(vf x, int begin, int end) {
    return VF2(simd_keep_range(x.a, begin, end), simd_keep_range(x.b, begin - 8, end - 8));
}
SIMD_INLINE __m256 simd_rotate_pairs(__m256 x, const float *c, const float *s) {
    const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    __m256 cc = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(c)), twice);
    __m256 ss = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(s)), twice);
    return _mm256_fmaddsub_ps(x, cc, _mm256_mul_ps(_mm256_permute_ps(x, 0xB1), ss));
}
SIMD_INLINE vf vf_rotate_pairs(vf x, const float *c, const float *s) {
    return VF2(simd_rotate_pairs(x.a, c, s), simd_rotate_pairs(x.b, c + 4, s + 4));
}

SIMD_INLINE vi vi_zero(void) { return VI2(_mm256_setzero_si256(), _mm256_setzero_si256()); }
SIMD_INLINE vi vi_set1(int32_t x) { return VI2(_mm256_set1_epi32(x), _mm256_set1_epi32(x)); }
SIMD_INLINE vi vi_shl(vi x, int n) { return VI2((__m256i)((__v8su)x.a << n), (__m256i)((__v8su)x.b << n)); }
SIMD_INLINE vi vi_sar(vi x, int n) { return VI2((__m256i)((__v8si)x.a >> n), (__m256i)((__v8si)x.b >> n)); }
SIMD_INLINE vi vi_add(vi x, vi y) { return VI2(_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)); }
SIMD_INLINE vi vi_from_vf(vf x) { return VI2(_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)); }
SIMD_INLINE int32_t vi_sum(vi x) {
    __m256i s = _mm256_add_epi32(x.a, x.b);
    __m128i t = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(t, _mm_shuffle_epi32(t, 0xB1)));
}
SIMD_INLINE void vi_store_i8(int8_t *p, vi x) {
    /* packs work on halves of registers: the words come as a0 b0 a1 b1 and are put in order */
    __m256i w = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xD8);
    _mm_storeu_si128((__m128i *)p, _mm_packs_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1)));
}

SIMD_INLINE vb vb_load(const uint8_t *p) {
    return VI2(_mm256_loadu_si256((const __m256i *)p), _mm256_loadu_si256((const __m256i *)(p + 32)));
}
SIMD_INLINE vb vb_set1(uint8_t x) { return VI2(_mm256_set1_epi8((char)x), _mm256_set1_epi8((char)x)); }
SIMD_INLINE vb vb_and(vb x, vb y) { return VI2(_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)); }
SIMD_INLINE vb vb_shr(vb x, int n) { return VI2((__m256i)((__v8su)x.a >> n), (__m256i)((__v8su)x.b >> n)); }
SIMD_INLINE vb vb_shl(vb x, int n) { return vi_shl(x, n); }
SIMD_INLINE vb vb_and_or(vb x, vb mask, vb c) {
    return VI2(_mm256_or_si256(_mm256_and_si256(x.a, mask.a), c.a), _mm256_or_si256(_mm256_and_si256(x.b, mask.b), c.b));
}
SIMD_INLINE vb vb_lookup(const uint8_t *table16, vb index) {
    __m256i t = _mm256_broadcastsi128_si256(simd_load16(table16));
    return VI2(_mm256_shuffle_epi8(t, index.a), _mm256_shuffle_epi8(t, index.b));
}
SIMD_INLINE vb vb_wide(vb x) {
    const __m256i flip = _mm256_set1_epi8((char)0x80);
    return VI2(_mm256_xor_si256(x.a, flip), _mm256_xor_si256(x.b, flip));
}
SIMD_INLINE __m256i simd_dot(__m256i acc, __m256i w, __m256i a) {
    return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(w, a), _mm256_set1_epi16(1)));
}
SIMD_INLINE __m256i simd_quad(const int8_t *a) {
    int32_t quad;
    memcpy(&quad, a, 4);
    return _mm256_set1_epi32(quad);
}
SIMD_INLINE vi vi_dot(vi acc, vb w, const int8_t *a) {
    __m256i q = simd_quad(a);
    return VI2(simd_dot(acc.a, w.a, q), simd_dot(acc.b, w.b, q));
}
/* |w| times a with the sign of w: at most 2 * 128 * 127, which fits in 16 bits. */
SIMD_INLINE vi vi_dot_wide(vi acc, vb w, const int8_t *a) {
    __m256i q = simd_quad(a);
    return VI2(simd_dot(acc.a, _mm256_abs_epi8(w.a), _mm256_sign_epi8(q, w.a)),
               simd_dot(acc.b, _mm256_abs_epi8(w.b), _mm256_sign_epi8(q, w.b)));
}

SIMD_INLINE void simd_prefetch(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T0); }

#endif
