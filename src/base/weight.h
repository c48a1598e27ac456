/* Weights of a softmax that are the same bits on every machine and device: an exponential of plain products and sums, cut to whole
 * multiples of 2^-40, so that sums of weights are integers, exact in any order. kernels/sample.ok has the same. */
#ifndef OCH_BASE_WEIGHT_H
#define OCH_BASE_WEIGHT_H

#include "base/half.h"

#include <stdint.h>

/* exp(x) for x <= 0: 2^n * exp(r), |r| <= ln(2)/2, a Taylor polynomial of degree 7 (remainder below 6e-9) and ln 2 in
 * two parts (Cody and Waite, "Software Manual for the Elementary Functions", 1980, chapter 6). 0 below -87. Relative
 * error below 3e-7; the same bits on every machine, and plain enough to be turned into vector code. */
static inline float och_exp_neg(float x) {
    float m = x * 0x1.715476p+0f + 12582912.0f; /* 1.5 * 2^23: rounds to an integer in the low bits */
    float n = m - 12582912.0f;
    float r = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    /* 2^n through the exponent bits; below the clamp the shift is meaningless and is not used */
    float scale = och_f32_from_bits((uint32_t)((int32_t)och_f32_bits(m) - 0x4B400000 + 127) << 23);
    /* a mask, not a choice: the compiler vectorises this one */
    return och_f32_from_bits(och_f32_bits(p * scale) & (x < -87.0f ? 0 : ~0u));
}

#define OCH_WEIGHT_BITS 40
/* Of a vocabulary, so that the sum of its weights, each at most 1, stays below 2^63. */
#define OCH_WEIGHT_MAX_IDS (1u << 23)

/* w, of [0, 1], rounded down to a multiple of 2^-40. Floats from 2^-16 on are such multiples as they are. */
static inline float och_weight_cut(float w) {
    float low = w < 0x1p-16f ? w : 0.0f;
    low = (float)(int32_t)(low * 0x1p40f) * 0x1p-40f;
    return w < 0x1p-16f ? low : w;
}

/* A weight, cut or not, in units of 2^-40. */
static inline uint64_t och_weight_fixed(float w) { return (uint64_t)(int64_t)((double)w * 0x1p40); }

/* The upper half of a product of 128 bits, and whether the lower half holds anything. */
static inline uint64_t och_weight_part(uint64_t share, uint64_t total, int *out_rest) {
    uint64_t a0 = (uint32_t)share, a1 = share >> 32, b0 = (uint32_t)total, b1 = total >> 32;
    uint64_t m = a1 * b0 + (a0 * b0 >> 32), n = a0 * b1 + (uint32_t)m;
    *out_rest = share * total != 0;
    return a1 * b1 + (m >> 32) + (n >> 32);
}

/* The least sum that is top_p (of (0, 1), cut to a multiple of 2^-40) of the total, and at least one unit. */
static inline uint64_t och_weight_needed(float top_p, uint64_t total) {
    int rest;
    uint64_t need = och_weight_part((uint64_t)((double)top_p * 0x1p40) << 24, total, &rest);
    need += rest != 0;
    return need ? need : 1;
}

/* What a walk has to pass: 64 random bits' share of the total. */
static inline uint64_t och_weight_target(uint64_t random, uint64_t total) {
    int rest;
    return och_weight_part(random, total, &rest);
}

#endif
