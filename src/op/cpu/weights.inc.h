/* Reading a packed panel: codes of a quad, scales of a block. Included after one simd_*.h; `f` is a constant in every
 * caller, so each branch on it is decided when the caller is compiled. */
#ifndef OCH_OP_CPU_WEIGHTS_INC_H
#define OCH_OP_CPU_WEIGHTS_INC_H

#include "op/cpu/pack.h"

typedef struct panel_view {
    const uint8_t *low, *high, *scale, *super;
} panel_view;

SIMD_INLINE panel_view panel_view_of(const och_cpu_format f, const uint8_t *panel, int64_t nb) {
    panel_view v;
    v.low = panel;
    v.high = v.low + (size_t)nb * och_cpu_low_bytes(&f);
    v.scale = v.high + (size_t)nb * och_cpu_high_bytes(&f);
    v.super = v.scale + (size_t)nb * och_cpu_scale_bytes(&f);
    return v;
}

SIMD_INLINE bool format_halves(const och_cpu_format f) {
    return f.scale == OCH_CPU_SCALE_SUB16 || f.scale == OCH_CPU_SCALE_SUB16_MIN;
}
SIMD_INLINE bool format_has_min(const och_cpu_format f) {
    return f.scale == OCH_CPU_SCALE_F16_MIN || f.scale == OCH_CPU_SCALE_SUB32_MIN || f.scale == OCH_CPU_SCALE_SUB16_MIN;
}
/* Codes that need all eight bits. */
SIMD_INLINE bool format_wide(const och_cpu_format f) { return f.low_bits == 8 || f.codebook == OCH_CPU_IQ4_NL; }

/* Quad j of block b as unsigned numbers (code book applied), before the offset is taken off. */
SIMD_INLINE vb panel_quad(const och_cpu_format f, const panel_view *v, int64_t b, int j) {
    static const uint8_t iq4_nl[16] = {OCH_CPU_IQ4_NL_VALUES}, mxfp4[16] = {OCH_CPU_MXFP4_VALUES};
    const uint8_t *low = v->low + (size_t)b * och_cpu_low_bytes(&f), *high = v->high + (size_t)b * och_cpu_high_bytes(&f);
    if (f.low_bits == 8) return vb_load(low + 64 * j);
    vb q;
    if (f.low_bits == 4) {
        q = vb_load(low + 64 * (j & 3));
        if (j >= 4) q = vb_shr(q, 4);
    } else {
        q = vb_load(low + 64 * (j & 1));
        if (j >= 2) q = vb_shr(q, 2 * (j >> 1));
    }
    q = vb_and(q, vb_set1((uint8_t)((1 << f.low_bits) - 1)));
    if (f.high_bits) {
        /* the bits of quad j stand at `at`, and belong at low_bits */
        int at = f.high_bits == 1 ? j : 2 * (j >> 1), shift = at - f.low_bits;
        vb h = vb_load(f.high_bits == 1 ? high : high + 64 * (j & 1));
        if (shift > 0) h = vb_shr(h, shift);
        else if (shift < 0) h = vb_shl(h, -shift);
        q = vb_and_or(h, vb_set1((uint8_t)(((1 << f.high_bits) - 1) << f.low_bits)), q);
    }
    if (f.codebook == OCH_CPU_IQ4_NL) q = vb_lookup(iq4_nl, q);
    if (f.codebook == OCH_CPU_MXFP4) q = vb_lookup(mxfp4, q);
    return q;
}

/* Sixteen times the codes of quad j >= 4 of a format of nibbles. */
SIMD_INLINE vb panel_high_nibbles(const och_cpu_format f, const panel_view *v, int64_t b, int j) {
    return vb_and(vb_load(v->low + (size_t)b * och_cpu_low_bytes(&f) + 64 * (j & 3)), vb_set1(0xF0));
}

/* Of block b: d[half] multiplies (code - offset), m[half] is added (already negative where the format subtracts).
 * Formats without halves fill d[0] and m[0]. */
SIMD_INLINE void panel_scales(const och_cpu_format f, const panel_view *v, int64_t b, vf *d, vf *m) {
    const uint8_t *s = v->scale + (size_t)b * och_cpu_scale_bytes(&f);
    const uint8_t *super = v->super + (size_t)(b >> 3) * och_cpu_super_bytes(&f);
    switch (f.scale) {
    case OCH_CPU_SCALE_F16: d[0] = vf_load_f16(s); break;
    case OCH_CPU_SCALE_F16_MIN:
        d[0] = vf_load_f16(s);
        m[0] = vf_load_f16(s + 32);
        break;
    case OCH_CPU_SCALE_E8M0: d[0] = vf_load_e8m0(s); break;
    case OCH_CPU_SCALE_SUB32_MIN:
        d[0] = vf_mul(vf_load_f16(super), vf_load_u8(s));
        m[0] = vf_mul(vf_sub(vf_zero(), vf_load_f16(super + 32)), vf_load_u8(s + 16));
        break;
    case OCH_CPU_SCALE_SUB16: {
        vf scale = vf_load_f16(super);
        d[0] = vf_mul(scale, vf_load_i8(s));
        d[1] = vf_mul(scale, vf_load_i8(s + 16));
        break;
    }
    case OCH_CPU_SCALE_SUB16_MIN: {
        vf scale = vf_load_f16(super), min = vf_sub(vf_zero(), vf_load_f16(super + 32));
        for (int h = 0; h < 2; h++) {
            vf low, high;
            vf_load_u4(s + 16 * h, &low, &high);
            d[h] = vf_mul(scale, low);
            m[h] = vf_mul(min, high);
        }
        break;
    }
    default: break;
    }
}

#endif
