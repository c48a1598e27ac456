/* Sixteen lanes in one 512-bit register. The same names are in simd_avx2.h and simd_neon.h: kernels.inc.h is compiled
 * once for each. A vf is 16 floats, a vi 16 int32, a vb 64 bytes (a quad of pack.h). */
#ifndef OCH_OP_CPU_SIMD_AVX512_H
#define OCH_OP_CPU_SIMD_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define SIMD_NAME avx512
#define SIMD_INLINE static inline __attribute__((always_inline))
/* Codes of eight bits stay unsigned, 128 is taken off through the sums of the activations. */
#define SIMD_WIDE_OFFSET 128
#define SIMD_MAX_ROWS 8      /* rows of activations a pass over a panel */
#define SIMD_ATTN_ROWS 4     /* query rows a pass over keys or values */
#define SIMD_ATTN_GROUPS 4   /* vf a query row in such a pass */
#define SIMD_FLOAT_ROWS 4    /* rows a pass over a float panel, in SIMD_FLOAT_CHAINS sums each */
#define SIMD_FLOAT_CHAINS 4

typedef __m512 vf;
typedef __m512i vi;
typedef __m512i vb;

SIMD_INLINE vf vf_zero(void) { return _mm512_setzero_ps(); }
SIMD_INLINE vf vf_set1(float x) { return _mm512_set1_ps(x); }
SIMD_INLINE vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
SIMD_INLINE void vf_store(float *p, vf x) { _mm512_storeu_ps(p, x); }
SIMD_INLINE vf vf_load_n(const float *p, int n) { return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p); }
SIMD_INLINE void vf_store_n(float *p, vf x, int n) { _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), x); }
SIMD_INLINE vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
SIMD_INLINE vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
SIMD_INLINE vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
SIMD_INLINE vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
SIMD_INLINE vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
SIMD_INLINE vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
SIMD_INLINE vf vf_abs(vf a) { return _mm512_abs_ps(a); }
SIMD_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }   /* a b + c */
SIMD_INLINE vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); } /* c - a b */
SIMD_INLINE float vf_sum(vf a) { return _mm512_reduce_add_ps(a); }
SIMD_INLINE float vf_hmax(vf a) { return _mm512_reduce_max_ps(a); }
/* The greatest magnitude of both; NaN where one is NaN: as integers, magnitudes order so. */
SIMD_INLINE float vf_hmax_abs(vf a, vf b) {
    const __m512i mag = _mm512_set1_epi32(0x7FFFFFFF);
    __m512i m = _mm512_max_epi32(_mm512_and_si512((__m512i)a, mag), _mm512_and_si512((__m512i)b, mag));
    return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(_mm512_reduce_max_epi32(m))));
}
SIMD_INLINE vf vf_load_f16(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
SIMD_INLINE vf vf_load_bf16(const void *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}
/* As halves with an exponent 8 too small, which a product puts right; all ones becomes a NaN of halves. */
SIMD_INLINE vf vf_load_e4m3(const void *p) {
    const __m256i b = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p)), ones = _mm256_set1_epi16(0x3F80);
    const __m256i mag = _mm256_and_si256(_mm256_slli_epi16(b, 7), ones);
    const __m256i sign = _mm256_and_si256(_mm256_slli_epi16(b, 8), _mm256_set1_epi16((short)0x8000));
    const __m256i odd = _mm256_and_si256(_mm256_cmpeq_epi16(mag, ones), _mm256_set1_epi16(0x7C00));
    return _mm512_mul_ps(_mm512_cvtph_ps(_mm256_or_si256(_mm256_or_si256(mag, sign), odd)), _mm512_set1_ps(256.0f));
}
SIMD_INLINE void vf_store_f16(void *p, vf x) {
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
/* 16 unsigned or signed bytes as floats. */
SIMD_INLINE vf vf_load_u8(const uint8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
SIMD_INLINE vf vf_load_i8(const uint8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
/* The low and the high nibbles of 16 bytes. */
SIMD_INLINE void vf_load_u4(const uint8_t *p, vf *low, vf *high) {
    __m512i x = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
    *low = _mm512_cvtepi32_ps(_mm512_and_si512(x, _mm512_set1_epi32(15)));
    *high = _mm512_cvtepi32_ps(_mm512_srli_epi32(x, 4));
}
/* 2^(e - 128) of 16 bytes e; e = 0 gives 0 instead of 2^-128. */
SIMD_INLINE vf vf_load_e8m0(const uint8_t *p) {
    __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm512_mul_ps(_mm512_castsi512_ps(_mm512_slli_epi32(e, 23)), _mm512_set1_ps(0.5f));
}
/* x 2^n, n whole, where neither side nor the result leaves the normal numbers. */
SIMD_INLINE vf vf_scale2(vf x, vf n) { return _mm512_scalef_ps(x, n); }
/* a, but 0 where x < limit. */
SIMD_INLINE vf vf_zero_below(vf a, vf x, float limit) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(limit), _CMP_NLT_UQ), a);
}
SIMD_INLINE vf vf_round(vf x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
/* Lane i becomes -infinity unless begin <= i < end. */
SIMD_INLINE vf vf_keep_range(vf x, int begin, int end) {
    if (begin < 0) begin = 0;
    if (begin > 16) begin = 16;
    if (end > 16) end = 16;
    unsigned m = end <= begin ? 0 : ((1u << end) - 1) & ~((1u << begin) - 1);
    return _mm512_mask_mov_ps(_mm512_set1_ps(-__builtin_inff()), (__mmask16)m, x);
}
/* Pairs (u, v) in lanes (2i, 2i + 1), with 8 cosines and 8 sines: (u c - v s, v c + u s). */
SIMD_INLINE vf vf_rotate_pairs(vf x, const float *c, const float *s) {
    const __m512i twice = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
    vf cc = _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(_mm256_loadu_ps(c)));
    vf ss = _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(_mm256_loadu_ps(s)));
    return _mm512_fmaddsub_ps(x, cc, _mm512_mul_ps(_mm512_permute_ps(x, 0xB1), ss));
}

SIMD_INLINE vi vi_zero(void) { return _mm512_setzero_si512(); }
SIMD_INLINE vi vi_set1(int32_t x) { return _mm512_set1_epi32(x); }
SIMD_INLINE vi vi_shl(vi a, int n) { return (vi)((__v16su)a << n); }
SIMD_INLINE vi vi_sar(vi a, int n) { return (vi)((__v16si)a >> n); } /* copies the sign */
SIMD_INLINE vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
SIMD_INLINE vf vf_from_vi(vi a) { return _mm512_cvtepi32_ps(a); }
SIMD_INLINE vi vi_from_vf(vf a) { return _mm512_cvtps_epi32(a); } /* nearest, ties to even */
SIMD_INLINE int32_t vi_sum(vi a) { return _mm512_reduce_add_epi32(a); }
SIMD_INLINE void vi_store_i8(int8_t *p, vi a) { _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(a)); }

SIMD_INLINE vb vb_load(const uint8_t *p) { return _mm512_loadu_si512(p); }
SIMD_INLINE vb vb_set1(uint8_t x) { return _mm512_set1_epi8((char)x); }
SIMD_INLINE vb vb_and(vb a, vb b) { return _mm512_and_si512(a, b); }
/* Shifts move bits across bytes: the caller masks. Vector operators, since the intrinsics want a literal without
 * optimisation. */
SIMD_INLINE vb vb_shr(vb a, int n) { return (vb)((__v16su)a >> n); }
SIMD_INLINE vb vb_shl(vb a, int n) { return (vb)((__v16su)a << n); }
SIMD_INLINE vb vb_and_or(vb a, vb mask, vb c) { return _mm512_ternarylogic_epi32(a, mask, c, 0xEA); } /* (a & mask) | c */
SIMD_INLINE vb vb_lookup(const uint8_t *table16, vb index) {
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)table16)), index);
}
/* An eight-bit code as vi_dot_wide wants it. */
SIMD_INLINE vb vb_wide(vb a) { return a; }
/* acc[r] += sum of w[4r + i] * a[i]; w at most 127 for vi_dot. */
SIMD_INLINE vi vi_dot(vi acc, vb w, const int8_t *a) {
    int32_t quad;
    memcpy(&quad, a, 4);
    return _mm512_dpbusd_epi32(acc, w, _mm512_set1_epi32(quad));
}
SIMD_INLINE vi vi_dot_wide(vi acc, vb w, const int8_t *a) { return vi_dot(acc, w, a); }

SIMD_INLINE void simd_prefetch(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T0); }

#endif
