/* Functions of sixteen lanes, with their errors. Included after one simd_*.h. */
#ifndef OCH_OP_CPU_MATH_INC_H
#define OCH_OP_CPU_MATH_INC_H

#include "op/op.h"

/* exp(x) for x that is at most 88.3: n = round(x / ln 2), the polynomial of degree 5 with the least greatest relative
 * error on [-ln 2 / 2, ln 2 / 2] (7.5e-8) for the rest, times 2^n. With roundings below 2.2e-7 for |x| < 10, 5e-7 at the
 * far ends (ln 2 is taken in one piece); 0 below -87.3; NaN stays NaN. */
SIMD_INLINE vf vf_exp_below(vf x) {
    const float lowest = -87.3f;
    vf c = vf_max(vf_set1(lowest), x); /* this order keeps NaN */
    vf n = vf_round(vf_mul(c, vf_set1(1.44269504f)));
    vf r = vf_fnma(n, vf_set1(0.693147181f), c);
    vf p = vf_set1(0.008297648280858994f);
    p = vf_fma(p, r, vf_set1(0.04191543161869049f));
    p = vf_fma(p, r, vf_set1(0.16667574644088745f));
    p = vf_fma(p, r, vf_set1(0.49998894333839417f));
    p = vf_fma(p, r, vf_set1(0.9999997019767761f));
    p = vf_fma(p, r, vf_set1(1.0000001192092896f));
    return vf_zero_below(vf_scale2(p, n), x, lowest);
}
/* For any x: never infinite. */
SIMD_INLINE vf vf_exp(vf x) { return vf_exp_below(vf_min(vf_set1(88.3f), x)); }

SIMD_INLINE vf vf_sigmoid_times(vf x, vf y) { /* x / (1 + exp(-y)) */
    return vf_div(x, vf_add(vf_set1(1.0f), vf_exp(vf_sub(vf_zero(), y))));
}

SIMD_INLINE vf vf_tanh(vf x) { /* 1 - 2 / (exp(2x) + 1) */
    return vf_sub(vf_set1(1.0f), vf_div(vf_set1(2.0f), vf_add(vf_exp(vf_add(x, x)), vf_set1(1.0f))));
}

/* erf by Abramowitz and Stegun 7.1.26: error below 1.5e-7 absolute. */
SIMD_INLINE vf vf_erf_abs(vf x) {
    vf t = vf_div(vf_set1(1.0f), vf_fma(vf_set1(0.3275911f), x, vf_set1(1.0f)));
    vf p = vf_set1(1.061405429f);
    p = vf_fma(p, t, vf_set1(-1.453152027f));
    p = vf_fma(p, t, vf_set1(1.421413741f));
    p = vf_fma(p, t, vf_set1(-0.284496736f));
    p = vf_fma(p, t, vf_set1(0.254829592f));
    return vf_fnma(vf_mul(p, t), vf_exp(vf_sub(vf_zero(), vf_mul(x, x))), vf_set1(1.0f));
}

SIMD_INLINE vf vf_act(och_act act, vf x) {
    switch (act) {
    case OCH_ACT_SILU: return vf_sigmoid_times(x, x);
    case OCH_ACT_GELU_TANH: { /* 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3) */
        vf x2 = vf_mul(x, x);
        return vf_sigmoid_times(x, vf_mul(x, vf_fma(x2, vf_set1(2 * 0.797884561f * 0.044715f), vf_set1(2 * 0.797884561f))));
    }
    case OCH_ACT_GELU_ERF: { /* x/2 (1 + erf(x / sqrt 2)) = (x + |x| erf(|x| / sqrt 2)) / 2 */
        vf a = vf_abs(x);
        return vf_mul(vf_set1(0.5f), vf_fma(a, vf_erf_abs(vf_mul(a, vf_set1(0.707106781f))), x));
    }
    default: return x;
    }
}

#endif
