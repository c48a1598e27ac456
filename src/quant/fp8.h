/* E4M3, the eight-bit float in which state may be kept: sign, 4 bits of exponent (bias 7), 3 of mantissa; numbers up to 448, no
 * infinity, all ones is NaN. OCP 8-bit Floating Point Specification (OFP8) 1.0, 2023, section 5.
 *
 * What is stored: numbers rounded to nearest even, larger ones as 448; zeros, and what rounds to zero, without a sign; infinities
 * and NaN as NaN, since a state that has gone wrong is not to look whole. Kernels do the same (kernels/cache.ok), so that the
 * bytes of a state are the same on every device, whatever encoding its instructions have. */
#ifndef OCH_QUANT_FP8_H
#define OCH_QUANT_FP8_H

#include "base/half.h"

#include <stdint.h>

#define OCH_E4M3_NAN 0x7F

static inline float och_e4m3_to_f32(uint8_t b) {
    uint32_t sign = (uint32_t)(b & 0x80) << 24, mag = b & 0x7F;
    if (mag == OCH_E4M3_NAN) return och_f32_from_bits(sign | 0x7FC00000u);
    if (mag >= 8) return och_f32_from_bits(sign | ((mag << 20) + (120u << 23)));
    float f = (float)mag * 0x1p-9f;
    return sign ? -f : f;
}

static inline uint8_t och_f32_to_e4m3(float f) {
    uint32_t u = och_f32_bits(f), sign = (u >> 24) & 0x80, mag = u & 0x7FFFFFFF;
    if (mag >= 0x7F800000u) return OCH_E4M3_NAN;
    if (mag >= 0x43E00000u) return (uint8_t)(sign | 0x7E); /* from 448 on */
    if (mag <= 0x3A800000u) return 0;                      /* up to 2^-10, half of the least number */
    if (mag >= 0x3C800000u) {                              /* from 2^-6 on */
        mag += 0x7FFFF + ((mag >> 20) & 1);
        return (uint8_t)(sign | ((mag >> 20) - (120u << 3)));
    }
    /* subnormal: adding 2^14 aligns the last place to 2^-9 and rounds in hardware */
    return (uint8_t)(sign | (och_f32_bits(och_f32_from_bits(mag) + 0x1p14f) - 0x46800000u));
}

#endif
