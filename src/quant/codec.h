/* The codecs that format.def names, and what they share. Internal to this room. */
#ifndef OCH_QUANT_CODEC_H
#define OCH_QUANT_CODEC_H

#include "base/half.h"

#include <math.h>
#include <stdint.h>

#define OCH_FORMAT(sym, sub, scale, dir, nibble, f0, f1, layout, act, codec)                                           \
    void och_##codec##_decode(const uint8_t *src, float *dst, uint64_t n_blocks);                                      \
    void och_##codec##_encode(const float *src, uint8_t *dst, uint64_t n_blocks);
#include "quant/format.def"
#undef OCH_FORMAT

/* Index -> value of IQ4_NL. */
extern const int8_t och_iq4_nl_table[16];
/* Twice the value of an E2M1 code, an integer; half the scale 2^(e-127) of an E8M0 code. Their product is exact, or
 * infinite. e = 255 gives 2^127. */
extern const int8_t och_e2m1_doubled[16];
float och_e8m0_half(uint8_t e);

static inline float och_load_f16(const uint8_t *p) { return och_f16_to_f32((uint16_t)(p[0] | p[1] << 8)); }

/* Stores the nearest f16 and returns the value that a decoder will read. */
static inline float och_store_f16(uint8_t *p, float v) {
    uint16_t h = och_f32_to_f16(v);
    p[0] = (uint8_t)h, p[1] = (uint8_t)(h >> 8);
    return och_f16_to_f32(h);
}

/* The code nearest to x / d, ties to even, held in [lo, hi]; 0 held there when d is 0. */
static inline int och_nearest(float x, float d, int lo, int hi) {
    float v = d != 0 ? x / d : 0;
    if (!(v > (float)lo)) return lo;
    if (v > (float)hi) return hi;
    return (int)rintf(v);
}

/* The element of greatest magnitude, with its sign. */
static inline float och_signed_max(const float *x, int n) {
    float best = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(best)) best = x[i];
    return best;
}

static inline void och_min_max(const float *x, int n, float *out_min, float *out_max) {
    *out_min = *out_max = x[0];
    for (int i = 1; i < n; i++) {
        if (x[i] < *out_min) *out_min = x[i];
        if (x[i] > *out_max) *out_max = x[i];
    }
}

#endif
