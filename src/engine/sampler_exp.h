/* The exponential of the sampler's softmax. */
#ifndef OCH_ENGINE_SAMPLER_EXP_H
#define OCH_ENGINE_SAMPLER_EXP_H

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

#endif
