/* IEEE binary16 and bfloat16 to and from float, by bit manipulation; round to nearest even, NaN stays NaN. */
#ifndef OCH_BASE_HALF_H
#define OCH_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float och_f32_from_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static inline uint32_t och_f32_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static inline float och_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = (h >> 10) & 31, man = h & 0x3FF;
    if (exp == 31) return och_f32_from_bits(sign | 0x7F800000u | man << 13);
    if (exp) return och_f32_from_bits(sign | (exp + 112) << 23 | man << 13);
    /* zero or subnormal: man * 2^-24 is exact in float */
    float f = (float)man * 0x1p-24f;
    return sign ? -f : f;
}

static inline uint16_t och_f32_to_f16(float f) {
    uint32_t u = och_f32_bits(f), sign = (u >> 16) & 0x8000, mag = u & 0x7FFFFFFF;
    if (mag > 0x7F800000u) return (uint16_t)(sign | 0x7E00 | ((mag >> 13) & 0x3FF));
    if (mag >= 0x477FF000u) return (uint16_t)(sign | 0x7C00); /* rounds to infinity from 65520 on */
    if (mag >= 0x38800000u) {                                 /* normal */
        mag += 0xFFF + ((mag >> 13) & 1);
        return (uint16_t)(sign | ((mag >> 13) - (112u << 10)));
    }
    /* subnormal: adding 0.5 aligns the last place to 2^-24 and rounds in hardware */
    uint32_t r = och_f32_bits(och_f32_from_bits(mag) + 0.5f) - 0x3F000000u;
    return (uint16_t)(sign | r);
}

static inline float och_bf16_to_f32(uint16_t h) { return och_f32_from_bits((uint32_t)h << 16); }

static inline uint16_t och_f32_to_bf16(float f) {
    uint32_t u = och_f32_bits(f);
    if ((u & 0x7FFFFFFF) > 0x7F800000u) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7FFF + ((u >> 16) & 1)) >> 16);
}

#endif
