/* Float formats and formats of 32-element blocks. Element i and i + 16 share a byte of codes. */
#include "quant/codec.h"

#include <string.h>

void och_f32_decode(const uint8_t *src, float *dst, uint64_t n) { memcpy(dst, src, n * 4); }
void och_f32_encode(const float *src, uint8_t *dst, uint64_t n) { memcpy(dst, src, n * 4); }

void och_f16_decode(const uint8_t *src, float *dst, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) dst[i] = och_load_f16(src + 2 * i);
}
void och_f16_encode(const float *src, uint8_t *dst, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) och_store_f16(dst + 2 * i, src[i]);
}

void och_bf16_decode(const uint8_t *src, float *dst, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) dst[i] = och_bf16_to_f32((uint16_t)(src[2 * i] | src[2 * i + 1] << 8));
}
void och_bf16_encode(const float *src, uint8_t *dst, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        uint16_t h = och_f32_to_bf16(src[i]);
        dst[2 * i] = (uint8_t)h, dst[2 * i + 1] = (uint8_t)(h >> 8);
    }
}

static inline int nibble(const uint8_t *qs, int i) { return i < 16 ? qs[i] & 15 : qs[i - 16] >> 4; }

static inline uint32_t load_u32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Stores 32 codes of 4 bits, or of 5 bits with the fifth in qh when qh is given. */
static void pack(const uint8_t code[32], uint8_t *qs, uint8_t *qh) {
    for (int i = 0; i < 16; i++) qs[i] = (uint8_t)((code[i] & 15) | (code[i + 16] & 15) << 4);
    if (!qh) return;
    memset(qh, 0, 4);
    for (int i = 0; i < 32; i++) qh[i / 8] = (uint8_t)(qh[i / 8] | (code[i] >> 4) << (i % 8));
}

/* (q - 8) * d */
void och_q4_0_decode(const uint8_t *src, float *dst, uint64_t n) {
    for (; n--; src += 18, dst += 32) {
        float d = och_load_f16(src);
        for (int i = 0; i < 32; i++) dst[i] = (float)(nibble(src + 2, i) - 8) * d;
    }
}

/* q * d + m */
void och_q4_1_decode(const uint8_t *src, float *dst, uint64_t n) {
    for (; n--; src += 20, dst += 32) {
        float d = och_load_f16(src), m = och_load_f16(src + 2);
        for (int i = 0; i < 32; i++) dst[i] = (float)nibble(src + 4, i) * d + m;
    }
}

/* (q - 16) * d */
void och_q5_0_decode(const uint8_t *src, float *dst, uint64_t n) {
    for (; n--; src += 22, dst += 32) {
        float d = och_load_f16(src);
        uint32_t qh = load_u32(src + 2);
        for (int i = 0; i < 32; i++) dst[i] = (float)((nibble(src + 6, i) | (int)(qh >> i & 1) << 4) - 16) * d;
    }
}

/* q * d + m */
void och_q5_1_decode(const uint8_t *src, float *dst, uint64_t n) {
    for (; n--; src += 24, dst += 32) {
        float d = och_load_f16(src), m = och_load_f16(src + 2);
        uint32_t qh = load_u32(src + 4);
        for (int i = 0; i < 32; i++) dst[i] = (float)(nibble(src + 8, i) | (int)(qh >> i & 1) << 4) * d + m;
    }
}

/* q * d */
void och_q8_0_decode(const uint8_t *src, float *dst, uint64_t n) {
    for (; n--; src += 34, dst += 32) {
        float d = och_load_f16(src);
        for (int i = 0; i < 32; i++) dst[i] = (float)(int8_t)src[2 + i] * d;
    }
}

/* Symmetric codes of `bits` bits: the element of greatest magnitude gets the most negative code, which reaches one step
 * further than the most positive one. */
static void encode_symmetric(const float *x, uint8_t *d_at, uint8_t *qs, uint8_t *qh, int bits) {
    int half = 1 << (bits - 1);
    uint8_t code[32];
    float d = och_store_f16(d_at, och_signed_max(x, 32) / (float)-half);
    for (int i = 0; i < 32; i++) code[i] = (uint8_t)(och_nearest(x[i], d, -half, half - 1) + half);
    pack(code, qs, qh);
}

static void encode_min_max(const float *x, uint8_t *d_at, uint8_t *qs, uint8_t *qh, int bits) {
    int top = (1 << bits) - 1;
    uint8_t code[32];
    float lo, hi;
    och_min_max(x, 32, &lo, &hi);
    /* halves: the difference of two finite floats may overflow */
    float d = och_store_f16(d_at, (hi / 2 - lo / 2) / (float)top * 2), m = och_store_f16(d_at + 2, lo);
    for (int i = 0; i < 32; i++) code[i] = (uint8_t)och_nearest(x[i] - m, d, 0, top);
    pack(code, qs, qh);
}

void och_q4_0_encode(const float *src, uint8_t *dst, uint64_t n) {
    for (; n--; src += 32, dst += 18) encode_symmetric(src, dst, dst + 2, NULL, 4);
}
void och_q5_0_encode(const float *src, uint8_t *dst, uint64_t n) {
    for (; n--; src += 32, dst += 22) encode_symmetric(src, dst, dst + 6, dst + 2, 5);
}
void och_q4_1_encode(const float *src, uint8_t *dst, uint64_t n) {
    for (; n--; src += 32, dst += 20) encode_min_max(src, dst, dst + 4, NULL, 4);
}
void och_q5_1_encode(const float *src, uint8_t *dst, uint64_t n) {
    for (; n--; src += 32, dst += 24) encode_min_max(src, dst, dst + 8, dst + 4, 5);
}
void och_q8_0_encode(const float *src, uint8_t *dst, uint64_t n) {
    for (; n--; src += 32, dst += 34) {
        float d = och_store_f16(dst, fabsf(och_signed_max(src, 32)) / 127);
        for (int i = 0; i < 32; i++) dst[2 + i] = (uint8_t)och_nearest(src[i], d, -127, 127);
    }
}

const int8_t och_iq4_nl_table[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/* d * table[q] */
void och_iq4_nl_decode(const uint8_t *src, float *dst, uint64_t n) {
    for (; n--; src += 18, dst += 32) {
        float d = och_load_f16(src);
        for (int i = 0; i < 32; i++) dst[i] = d * (float)och_iq4_nl_table[nibble(src + 2, i)];
    }
}

static uint8_t nearest_entry(float v, const int8_t *table, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (fabsf(v - (float)table[i]) < fabsf(v - (float)table[best])) best = i;
    return (uint8_t)best;
}

void och_iq4_nl_encode(const float *src, uint8_t *dst, uint64_t n) {
    for (; n--; src += 32, dst += 18) {
        uint8_t code[32];
        float d = och_store_f16(dst, och_signed_max(src, 32) / (float)och_iq4_nl_table[0]);
        for (int i = 0; i < 32; i++) code[i] = nearest_entry(d != 0 ? src[i] / d : 0, och_iq4_nl_table, 16);
        pack(code, dst + 2, NULL);
    }
}

const int8_t och_e2m1_doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

float och_e8m0_half(uint8_t e) {
    /* below 2 the half scale is subnormal: 2^-128 and 2^-127 */
    return och_f32_from_bits(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

/* 2^(e-128) * (2 * E2M1[q]); code 8, minus zero, gives plus zero as in ggml's integer table. */
void och_mxfp4_decode(const uint8_t *src, float *dst, uint64_t n) {
    for (; n--; src += 17, dst += 32) {
        float half = och_e8m0_half(src[0]);
        for (int i = 0; i < 32; i++) dst[i] = (float)och_e2m1_doubled[nibble(src + 1, i)] * half;
    }
}

/* Codes under one exponent; returns the squared error, in units of the scale. */
static double mxfp4_codes(const float *x, int e, uint8_t code[32]) {
    double err = 0;
    for (int i = 0; i < 32; i++) {
        double v = ldexp((double)x[i], 128 - e), mag = fabs(v); /* in halves of the scale */
        uint8_t c = nearest_entry((float)fmin(mag, 12), och_e2m1_doubled, 8);
        err += (mag - och_e2m1_doubled[c]) * (mag - och_e2m1_doubled[c]);
        code[i] = (uint8_t)(c | (c && v < 0 ? 8 : 0));
    }
    return ldexp(err, 2 * (e - 254));
}

void och_mxfp4_encode(const float *src, uint8_t *dst, uint64_t n) {
    for (; n--; src += 32, dst += 17) {
        float amax = fabsf(och_signed_max(src, 32));
        int e = 0;
        uint8_t code[32], next[32];
        /* OCP MX v1.0, section 6.3: the exponent of the greatest element less that of the greatest E2M1 value. Elements
         * between 6 and 8 saturate there, so the next exponent is tried too; but for 252, which the greatest floats
         * give and which is the last that cannot overflow. */
        if (amax > 0) e = ilogbf(amax) - 2 + 127;
        if (e < 0) e = 0;
        double err = mxfp4_codes(src, e, code);
        if (e < 252 && mxfp4_codes(src, e + 1, next) < err) {
            e++;
            memcpy(code, next, sizeof code);
        }
        dst[0] = (uint8_t)e;
        pack(code, dst + 1, NULL);
    }
}
