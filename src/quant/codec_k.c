/* K formats: 256-element blocks whose sub-blocks have integer scales (and minima) under one f16 d (and dmin). */
#include "quant/codec.h"

#include <string.h>

/* ---- decode ---- */

/* (d * scale) * q - (dmin * min) */
void och_q2_k_decode(const uint8_t *src, float *dst, uint64_t n) {
    for (; n--; src += 84, dst += 256) {
        const uint8_t *scales = src, *qs = src + 16;
        float d = och_load_f16(src + 80), dmin = och_load_f16(src + 82);
        for (int i = 0; i < 256; i++) {
            int half = i / 128, j = i % 128 / 32, l = i % 32;
            float dl = d * (float)(scales[i / 16] & 15), ml = dmin * (float)(scales[i / 16] >> 4);
            dst[i] = dl * (float)(qs[32 * half + l] >> 2 * j & 3) - ml;
        }
    }
}

/* (d * (scale - 32)) * q, q in -4..3: the third bit, inverted, is in hmask */
void och_q3_k_decode(const uint8_t *src, float *dst, uint64_t n) {
    for (; n--; src += 110, dst += 256) {
        const uint8_t *hmask = src, *qs = src + 32, *scales = src + 96;
        float d = och_load_f16(src + 108);
        for (int i = 0; i < 256; i++) {
            int half = i / 128, j = i % 128 / 32, l = i % 32, k = i / 16;
            int sc = (k < 8 ? scales[k] & 15 : scales[k - 8] >> 4) | (scales[8 + k % 4] >> 2 * (k / 4) & 3) << 4;
            int q = (qs[32 * half + l] >> 2 * j & 3) - (hmask[l] >> (4 * half + j) & 1 ? 0 : 4);
            dst[i] = d * (float)(sc - 32) * (float)q;
        }
    }
}

/* Sub-scale j of 8 and its minimum, 6 bits each: the low four pairs have their own bytes, whose top bits hold the top
 * bits of the others. */
static void k4_scale_min(const uint8_t *s, int j, int *out_scale, int *out_min) {
    if (j < 4) {
        *out_scale = s[j] & 63;
        *out_min = s[j + 4] & 63;
    } else {
        *out_scale = (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
        *out_min = s[j + 4] >> 4 | s[j] >> 6 << 4;
    }
}

/* (d * scale) * q - (dmin * min); qh is NULL for Q4_K */
static void k45_decode(const uint8_t *src, const uint8_t *qh, const uint8_t *qs, float *dst) {
    float d = och_load_f16(src), dmin = och_load_f16(src + 2);
    for (int j = 0; j < 8; j++) {
        int sc, m;
        k4_scale_min(src + 4, j, &sc, &m);
        float dl = d * (float)sc, ml = dmin * (float)m;
        for (int l = 0; l < 32; l++) {
            int q = qs[32 * (j / 2) + l] >> 4 * (j % 2) & 15;
            if (qh) q |= (qh[l] >> j & 1) << 4;
            dst[32 * j + l] = dl * (float)q - ml;
        }
    }
}
void och_q4_k_decode(const uint8_t *src, float *dst, uint64_t n) {
    for (; n--; src += 144, dst += 256) k45_decode(src, NULL, src + 16, dst);
}
void och_q5_k_decode(const uint8_t *src, float *dst, uint64_t n) {
    for (; n--; src += 176, dst += 256) k45_decode(src, src + 16, src + 48, dst);
}

/* (d * scale) * (q - 32) */
void och_q6_k_decode(const uint8_t *src, float *dst, uint64_t n) {
    for (; n--; src += 210, dst += 256) {
        const uint8_t *ql = src, *qh = src + 128;
        float d = och_load_f16(src + 208);
        for (int i = 0; i < 256; i++) {
            int half = i / 128, k = i % 128 / 32, l = i % 32;
            int q = (ql[64 * half + l + 32 * (k % 2)] >> 4 * (k / 2) & 15) | (qh[32 * half + l] >> 2 * k & 3) << 4;
            dst[i] = d * (float)(int8_t)src[192 + i / 16] * (float)(q - 32);
        }
    }
}

/* ---- encode ---- */

/* Fits one block with minima: n_sub sub-blocks, codes 0..top, integer scales and minima 0..sub_top. Fills q[256] and
 * the sub-scales, and stores d and dmin. A sub-block whose values are all positive gets minimum 0: a minimum is only
 * ever subtracted. */
static void fit_min(const float *x, int n_sub, int top, int sub_top, uint8_t *d_at, uint8_t *dmin_at, uint8_t *sc,
                    uint8_t *mn, uint8_t q[256]) {
    int len = 256 / n_sub;
    float scale[16], min[16], max_scale = 0, max_min = 0;
    for (int s = 0; s < n_sub; s++) {
        float lo, hi;
        och_min_max(x + s * len, len, &lo, &hi);
        if (lo > 0) lo = 0;
        if (hi < 0) hi = 0;
        scale[s] = (hi / 2 - lo / 2) / (float)top * 2;
        min[s] = -lo;
        if (scale[s] > max_scale) max_scale = scale[s];
        if (min[s] > max_min) max_min = min[s];
    }
    float d = och_store_f16(d_at, max_scale / (float)sub_top), dmin = och_store_f16(dmin_at, max_min / (float)sub_top);
    for (int s = 0; s < n_sub; s++) {
        sc[s] = (uint8_t)och_nearest(scale[s], d, 0, sub_top);
        mn[s] = (uint8_t)och_nearest(min[s], dmin, 0, sub_top);
        float dl = d * sc[s], ml = dmin * mn[s];
        for (int i = s * len; i < (s + 1) * len; i++) q[i] = (uint8_t)och_nearest(x[i] + ml, dl, 0, top);
    }
}

/* Fits one block without minima: 16 sub-blocks, codes -half..half-1, stored plus half; integer scales
 * -sub_half..sub_half-1. */
static void fit_signed(const float *x, int half, int sub_half, uint8_t *d_at, int8_t sc[16], uint8_t q[256]) {
    float scale[16];
    for (int s = 0; s < 16; s++) scale[s] = och_signed_max(x + s * 16, 16) / (float)-half;
    float d = och_store_f16(d_at, och_signed_max(scale, 16) / (float)-sub_half);
    for (int s = 0; s < 16; s++) {
        sc[s] = (int8_t)och_nearest(scale[s], d, -sub_half, sub_half - 1);
        float dl = d * sc[s];
        for (int i = s * 16; i < s * 16 + 16; i++) q[i] = (uint8_t)(och_nearest(x[i], dl, -half, half - 1) + half);
    }
}

void och_q2_k_encode(const float *src, uint8_t *dst, uint64_t n) {
    for (; n--; src += 256, dst += 84) {
        uint8_t sc[16], mn[16], q[256];
        memset(dst, 0, 84);
        fit_min(src, 16, 3, 15, dst + 80, dst + 82, sc, mn, q);
        for (int s = 0; s < 16; s++) dst[s] = (uint8_t)(sc[s] | mn[s] << 4);
        for (int i = 0; i < 256; i++) {
            uint8_t *p = dst + 16 + 32 * (i / 128) + i % 32;
            *p = (uint8_t)(*p | q[i] << 2 * (i % 128 / 32));
        }
    }
}

void och_q3_k_encode(const float *src, uint8_t *dst, uint64_t n) {
    for (; n--; src += 256, dst += 110) {
        int8_t sc[16];
        uint8_t q[256];
        memset(dst, 0, 110);
        fit_signed(src, 4, 32, dst + 108, sc, q);
        for (int k = 0; k < 16; k++) {
            int s = sc[k] + 32;
            uint8_t *low = dst + 96 + k % 8, *high = dst + 96 + 8 + k % 4;
            *low = (uint8_t)(*low | (s & 15) << 4 * (k / 8));
            *high = (uint8_t)(*high | s >> 4 << 2 * (k / 4));
        }
        for (int i = 0; i < 256; i++) {
            int half = i / 128, j = i % 128 / 32, l = i % 32;
            uint8_t *p = dst + 32 + 32 * half + l;
            *p = (uint8_t)(*p | (q[i] & 3) << 2 * j);
            dst[l] = (uint8_t)(dst[l] | q[i] >> 2 << (4 * half + j));
        }
    }
}

static void k45_encode(const float *src, uint8_t *dst, uint8_t *qh, uint8_t *qs, int top) {
    uint8_t sc[8], mn[8], q[256], *s = dst + 4;
    fit_min(src, 8, top, 63, dst, dst + 2, sc, mn, q);
    for (int j = 0; j < 4; j++) {
        s[j] = (uint8_t)(sc[j] | sc[j + 4] >> 4 << 6);
        s[j + 4] = (uint8_t)(mn[j] | mn[j + 4] >> 4 << 6);
        s[j + 8] = (uint8_t)((sc[j + 4] & 15) | (mn[j + 4] & 15) << 4);
    }
    for (int i = 0; i < 256; i++) {
        int j = i / 32, l = i % 32;
        uint8_t *p = qs + 32 * (j / 2) + l;
        *p = (uint8_t)(*p | (q[i] & 15) << 4 * (j % 2));
        if (qh) qh[l] = (uint8_t)(qh[l] | q[i] >> 4 << j);
    }
}
void och_q4_k_encode(const float *src, uint8_t *dst, uint64_t n) {
    for (; n--; src += 256, dst += 144) {
        memset(dst, 0, 144);
        k45_encode(src, dst, NULL, dst + 16, 15);
    }
}
void och_q5_k_encode(const float *src, uint8_t *dst, uint64_t n) {
    for (; n--; src += 256, dst += 176) {
        memset(dst, 0, 176);
        k45_encode(src, dst, dst + 16, dst + 48, 31);
    }
}

void och_q6_k_encode(const float *src, uint8_t *dst, uint64_t n) {
    for (; n--; src += 256, dst += 210) {
        int8_t sc[16];
        uint8_t q[256];
        memset(dst, 0, 210);
        fit_signed(src, 32, 128, dst + 208, sc, q);
        memcpy(dst + 192, sc, 16);
        for (int i = 0; i < 256; i++) {
            int half = i / 128, k = i % 128 / 32, l = i % 32;
            uint8_t *low = dst + 64 * half + l + 32 * (k % 2), *high = dst + 128 + 32 * half + l;
            *low = (uint8_t)(*low | (q[i] & 15) << 4 * (k / 2));
            *high = (uint8_t)(*high | q[i] >> 4 << 2 * k);
        }
    }
}
