/* What cores are made of, for one level of the host: loads and stores of typed lanes, NaN rules, masks, conversions. Only
 * valu_cores.inc.h includes it. A chunk is 32 lanes; its arrays live in registers once loops are vectorised. */
#ifndef SIM_ISA_VALU_LANE_H
#define SIM_ISA_VALU_LANE_H

#include "isa/valu.h"
#include "isa/valu_math.h"

#include <math.h>
#include <string.h>
#if defined __AVX2__
#include <immintrin.h>
#endif

/* Lanes of a chunk are independent, whatever rows overlap: a lane touches its own column only. */
#if defined __clang__
#define LANES(i) _Pragma("clang loop vectorize(assume_safety)") for (int i = 0; i < 32; i++)
#else
#define LANES(i) _Pragma("GCC ivdep") for (int i = 0; i < 32; i++)
/* Copies stay vectors that later loads can take from registers; handlers stay whole. */
#pragma GCC optimize("no-tree-loop-distribute-patterns", "no-partial-inlining")
#endif
#define INLINE static inline __attribute__((always_inline, unused))

INLINE bool any_nan_f32(const float *r) {
#if defined __AVX512F__
    return _mm512_cmp_ps_mask(_mm512_loadu_ps(r), _mm512_loadu_ps(r + 16), _CMP_UNORD_Q) != 0;
#elif defined __AVX2__
    __m256 a = _mm256_cmp_ps(_mm256_loadu_ps(r), _mm256_loadu_ps(r + 8), _CMP_UNORD_Q);
    __m256 b = _mm256_cmp_ps(_mm256_loadu_ps(r + 16), _mm256_loadu_ps(r + 24), _CMP_UNORD_Q);
    return _mm256_movemask_ps(_mm256_or_ps(a, b)) != 0;
#else
    int bad = 0;
    LANES(i) bad |= r[i] != r[i];
    return bad != 0;
#endif
}
INLINE bool any_nan_f64(const double *r) {
#if defined __AVX512F__
    __mmask8 a = _mm512_cmp_pd_mask(_mm512_loadu_pd(r), _mm512_loadu_pd(r + 8), _CMP_UNORD_Q);
    __mmask8 b = _mm512_cmp_pd_mask(_mm512_loadu_pd(r + 16), _mm512_loadu_pd(r + 24), _CMP_UNORD_Q);
    return (a | b) != 0;
#else
    int bad = 0;
    LANES(i) bad |= r[i] != r[i];
    return bad != 0;
#endif
}

/* f16 in the low (shift 0) or high half of dwords. */
INLINE void load_f16(float *r, const uint32_t *p, int shift) {
#if defined __AVX512F__
    for (int i = 0; i < 32; i += 16)
        _mm512_storeu_ps(r + i, _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_loadu_si512(p + i),
                                                                                        (unsigned)shift))));
#elif defined __AVX2__
    for (int i = 0; i < 32; i += 8) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(p + i));
        x = _mm256_and_si256(_mm256_srli_epi32(x, shift), _mm256_set1_epi32(0xffff));
        x = _mm256_permute4x64_epi64(_mm256_packus_epi32(x, x), 0x08);
        _mm256_storeu_ps(r + i, _mm256_cvtph_ps(_mm256_castsi256_si128(x)));
    }
#else
    for (int i = 0; i < 32; i++) r[i] = sim_f16_to_f32((uint16_t)(p[i] >> shift));
#endif
}
/* Rounds by the host's rounding mode. */
INLINE void to_f16(uint32_t *r, const float *x) {
#if defined __AVX512F__
    for (int i = 0; i < 32; i += 16)
        _mm512_storeu_si512(r + i, _mm512_cvtepu16_epi32(_mm512_cvtps_ph(_mm512_loadu_ps(x + i), _MM_FROUND_CUR_DIRECTION)));
#elif defined __AVX2__
    for (int i = 0; i < 32; i += 8) {
        __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_CUR_DIRECTION);
        _mm256_storeu_si256((__m256i *)(void *)(r + i), _mm256_cvtepu16_epi32(h));
    }
#else
    int mode = sim_host_rounding();
    for (int i = 0; i < 32; i++) r[i] = sim_f32_to_f16_mode(x[i], mode);
#endif
}
/* Lanes of a mask as all ones or zero, and back (from the sign bits). */
INLINE void mask_expand(uint32_t *r, uint32_t mask) {
#if defined __AVX512F__
    _mm512_storeu_si512(r, _mm512_movm_epi32((__mmask16)mask));
    _mm512_storeu_si512(r + 16, _mm512_movm_epi32((__mmask16)(mask >> 16)));
#elif defined __AVX2__
    const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    for (int i = 0; i < 32; i += 8) {
        __m256i x = _mm256_and_si256(_mm256_set1_epi32((int)(mask >> i & 255)), bit);
        _mm256_storeu_si256((__m256i *)(void *)(r + i), _mm256_cmpeq_epi32(x, bit));
    }
#else
    for (int i = 0; i < 32; i++) r[i] = 0u - (mask >> i & 1);
#endif
}
INLINE uint32_t mask_pack(const uint32_t *m) {
#if defined __AVX512F__
    return (uint32_t)_mm512_movepi32_mask(_mm512_loadu_si512(m)) |
           (uint32_t)_mm512_movepi32_mask(_mm512_loadu_si512(m + 16)) << 16;
#elif defined __AVX2__
    uint32_t r = 0;
    for (int i = 0; i < 32; i += 8)
        r |= (uint32_t)_mm256_movemask_ps(_mm256_loadu_ps((const float *)(const void *)(m + i))) << i;
    return r;
#else
    uint32_t r = 0;
    for (int i = 0; i < 32; i++) r |= (m[i] >> 31) << i;
    return r;
#endif
}

/* A chunk's result to the lanes of a mask. */
INLINE void masked_store(uint32_t *d, const uint32_t *res, uint32_t mask) {
#if defined __AVX512F__
    _mm512_mask_storeu_epi32(d, (__mmask16)mask, _mm512_loadu_si512(res));
    _mm512_mask_storeu_epi32(d + 16, (__mmask16)(mask >> 16), _mm512_loadu_si512(res + 16));
#else
    uint32_t e[32];
    mask_expand(e, mask);
    LANES(i) d[i] = (res[i] & e[i]) | (d[i] & ~e[i]);
#endif
}

/* Declares the lanes of an operand as an array NAME of the type that expressions see. p: its row at this chunk. */
#define LD_N(name, p) const int *name = NULL; (void)name
#define LD_S(name, p) LD_N(name, p)
#define LD_M(name, p) LD_N(name, p)
#define LD_U32(name, p) const uint32_t *name = (p)
#define LD_I32(name, p) const int32_t *name = (const int32_t *)(p)
#define LD_F32(name, p) const float *name = (const float *)(const void *)(p)
#define LD_MIX(name, p) LD_F32(name, p)
#define LD_U16(name, p) uint32_t name[32]; LANES(i_) name[i_] = (p)[i_] & 0xffff
#define LD_I16(name, p) int32_t name[32]; LANES(i_) name[i_] = (int32_t)((p)[i_] << 16) >> 16
#define LD_F16(name, p) float name[32]; load_f16(name, (p), 0)
#define LD_BF16(name, p) float name[32]; LANES(i_) name[i_] = sim_u2f((p)[i_] << 16)
#define LD_U64(name, p) uint64_t name[32]; LANES(i_) name[i_] = (uint64_t)(p)[i_] | (uint64_t)(p)[i_ + lanes] << 32
#define LD_I64(name, p) int64_t name[32]; LANES(i_) name[i_] = (int64_t)((uint64_t)(p)[i_] | (uint64_t)(p)[i_ + lanes] << 32)
#define LD_F64(name, p) double name[32]; LANES(i_) name[i_] = sim_u2d((uint64_t)(p)[i_] | (uint64_t)(p)[i_ + lanes] << 32)

#define LD_FB(name, p) LD_U32(name, p)
#define LD_HB(name, p) LD_U16(name, p)
#define LD_DB(name, p) LD_U64(name, p)

/* The type that a result is computed in, and its way to the row. */
#define CT_U32 uint32_t
#define CT_I32 int32_t
#define CT_F32 float
#define CT_U16 uint32_t
#define CT_I16 int32_t
#define CT_F16 float
#define CT_BF16 float
#define CT_U64 uint64_t
#define CT_I64 int64_t
#define CT_F64 double
#define CT_M int32_t
#define CT_FB uint32_t
#define CT_HB uint32_t
#define CT_DB uint64_t
#define CT_PBF16 uint32_t
#define ST_PBF16(d, r) ST_U32(d, r)
#define CT_PF32 uint64_t
#define ST_PF32(d, r) ST_U64(d, r)
#define ANY_NAN_PBF16(r) false
#define ANY_NAN_PF32(r) false
#define IS_NAN_LANE_PBF16(x) false
#define IS_NAN_LANE_PF32(x) false
#define DEFAULT_NAN_PBF16 0
#define DEFAULT_NAN_PF32 0
#define FLUSH_PBF16(r) (void)0
#define FLUSH_PF32(r) (void)0
#define ST_FB(d, r) ST_U32(d, r)
#define ST_HB(d, r) ST_U16(d, r)
#define ST_DB(d, r) ST_U64(d, r)
#define ST_U32(d, r) LANES(i_) (d)[i_] = (r)[i_]
#define ST_I32(d, r) LANES(i_) ((int32_t *)(d))[i_] = (r)[i_]
#define ST_F32(d, r) LANES(i_) ((float *)(void *)(d))[i_] = (r)[i_]
#define ST_U16(d, r) LANES(i_) (d)[i_] = (r)[i_] & 0xffff
#define ST_I16(d, r) LANES(i_) (d)[i_] = (uint32_t)(r)[i_] & 0xffff
#define ST_F16(d, r) to_f16((d), (r))
#define ST_BF16(d, r) LANES(i_) (d)[i_] = sim_f32_to_bf16((r)[i_])
#define ST_U64(d, r) LANES(i_) (d)[i_] = (uint32_t)(r)[i_], (d)[i_ + lanes] = (uint32_t)((r)[i_] >> 32)
#define ST_I64(d, r) LANES(i_) (d)[i_] = (uint32_t)(r)[i_], (d)[i_ + lanes] = (uint32_t)((uint64_t)(r)[i_] >> 32)
#define ST_F64(d, r)                                                                                                   \
    LANES(i_) (d)[i_] = (uint32_t)sim_d2u((r)[i_]), (d)[i_ + lanes] = (uint32_t)(sim_d2u((r)[i_]) >> 32)

/* NaN rules, by the types of a row: which source can be the NaN. */
#define NAN_OF_N(x) false
#define NAN_OF_FB(x) false
#define NAN_OF_HB(x) false
#define NAN_OF_DB(x) false
#define NAN_OF_M(x) false
#define NAN_OF_S(x) false
#define NAN_OF_U32(x) false
#define NAN_OF_I32(x) false
#define NAN_OF_U16(x) false
#define NAN_OF_I16(x) false
#define NAN_OF_U64(x) false
#define NAN_OF_I64(x) false
#define NAN_OF_F32(x) ((x) != (x))
#define NAN_OF_F16(x) ((x) != (x))
#define NAN_OF_BF16(x) ((x) != (x))
#define NAN_OF_MIX(x) ((x) != (x))
#define NAN_OF_F64(x) ((x) != (x))
#define QUIET_N(x) 0
#define QUIET_FB(x) 0
#define QUIET_HB(x) 0
#define QUIET_DB(x) 0
#define QUIET_M(x) 0
#define QUIET_S(x) 0
#define QUIET_U32(x) 0
#define QUIET_I32(x) 0
#define QUIET_U16(x) 0
#define QUIET_I16(x) 0
#define QUIET_U64(x) 0
#define QUIET_I64(x) 0
#define QUIET_F32(x) sim_quiet32((float)(x))
#define QUIET_F16(x) sim_quiet32((float)(x))
#define QUIET_BF16(x) sim_quiet32((float)(x))
#define QUIET_MIX(x) sim_quiet32((float)(x))
#define QUIET_F64(x) sim_quiet64(x)
#define ANY_NAN_F32(r) any_nan_f32(r)
#define ANY_NAN_F16(r) any_nan_f32(r)
#define ANY_NAN_BF16(r) any_nan_f32(r)
#define ANY_NAN_F64(r) any_nan_f64(r)
#define ANY_NAN_U32(r) false
#define ANY_NAN_I32(r) false
#define ANY_NAN_U16(r) false
#define ANY_NAN_I16(r) false
#define ANY_NAN_U64(r) false
#define ANY_NAN_I64(r) false
#define ANY_NAN_FB(r) false
#define ANY_NAN_HB(r) false
#define ANY_NAN_DB(r) false
#define ANY_NAN_M(r) false
#define DEFAULT_NAN_F32 SIM_NEG_NAN32
#define DEFAULT_NAN_F16 SIM_NEG_NAN32
#define DEFAULT_NAN_BF16 SIM_NEG_NAN32
#define DEFAULT_NAN_F64 SIM_NEG_NAN64
#define DEFAULT_NAN_U32 0
#define DEFAULT_NAN_I32 0
#define DEFAULT_NAN_U16 0
#define DEFAULT_NAN_I16 0
#define DEFAULT_NAN_U64 0
#define DEFAULT_NAN_I64 0
#define DEFAULT_NAN_FB 0
#define DEFAULT_NAN_HB 0
#define DEFAULT_NAN_DB 0
#define DEFAULT_NAN_M 0
#define IS_NAN_LANE_F32(x) ((x) != (x))
#define IS_NAN_LANE_F16(x) ((x) != (x))
#define IS_NAN_LANE_BF16(x) ((x) != (x))
#define IS_NAN_LANE_F64(x) ((x) != (x))
#define IS_NAN_LANE_U32(x) false
#define IS_NAN_LANE_I32(x) false
#define IS_NAN_LANE_U16(x) false
#define IS_NAN_LANE_I16(x) false
#define IS_NAN_LANE_U64(x) false
#define IS_NAN_LANE_I64(x) false
#define IS_NAN_LANE_FB(x) false
#define IS_NAN_LANE_HB(x) false
#define IS_NAN_LANE_DB(x) false
#define IS_NAN_LANE_M(x) false

/* Flushing results of operations that only choose among their operands. */
#define FLUSH_F32(r) LANES(i_) (r)[i_] = sim_flush32((r)[i_])
#define FLUSH_F16(r) LANES(i_) (r)[i_] = sim_flush16((r)[i_])
#define FLUSH_F64(r) LANES(i_) (r)[i_] = sim_flush64((r)[i_])
#define FLUSH_BF16(r) FLUSH_F32(r)
#define FLUSH_FB(r) LANES(i_) (r)[i_] = (r)[i_] & 0x7f800000 ? (r)[i_] : (r)[i_] & 0x80000000
#define FLUSH_HB(r) LANES(i_) (r)[i_] = (r)[i_] & 0x7c00 ? (r)[i_] : (r)[i_] & 0x8000
#define FLUSH_DB(r) LANES(i_) (r)[i_] = (r)[i_] & 0x7ff0000000000000ull ? (r)[i_] : (r)[i_] & 0x8000000000000000ull
#define FLUSH_U32(r) (void)0
#define FLUSH_I32(r) (void)0
#define FLUSH_U16(r) (void)0
#define FLUSH_I16(r) (void)0
#define FLUSH_U64(r) (void)0
#define FLUSH_I64(r) (void)0
#define FLUSH_M(r) (void)0

#endif
