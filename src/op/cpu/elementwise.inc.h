/* Mathematics, norms, rotations and conversions. */

/* exp(x): n = round(x / ln 2), Taylor's series of degree 6 for the rest in [-ln 2 / 2, ln 2 / 2] (remainder below
 * 1.3e-7 of the result), times 2^n. 0 below -87.3; no input gives infinity or NaN but NaN itself. */
SIMD_INLINE vf vf_exp(vf x) {
    const float lowest = -87.3f;
    vf c = vf_min(vf_set1(88.3f), vf_max(vf_set1(lowest), x)); /* this order keeps NaN */
    vf n = vf_round(vf_mul(c, vf_set1(1.44269504f)));
    /* ln 2 in two parts: n times the first is exact for |n| < 2^9 */
    vf r = vf_fnma(n, vf_set1(0.693359375f), c);
    r = vf_fnma(n, vf_set1(-2.12194440e-4f), r);
    vf p = vf_set1(1.0f / 720);
    p = vf_fma(p, r, vf_set1(1.0f / 120));
    p = vf_fma(p, r, vf_set1(1.0f / 24));
    p = vf_fma(p, r, vf_set1(1.0f / 6));
    p = vf_fma(p, r, vf_set1(0.5f));
    p = vf_fma(p, r, vf_set1(1.0f));
    p = vf_fma(p, r, vf_set1(1.0f));
    return vf_zero_below(vf_scale2(p, n), x, lowest);
}

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

static void rms_norm(const float *x, const float *w, float eps, float add, const float *residual, float *y, int64_t n) {
    vf s0 = vf_zero(), s1 = vf_zero();
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        vf a = vf_load(x + i), b = vf_load(x + i + 16);
        s0 = vf_fma(a, a, s0);
        s1 = vf_fma(b, b, s1);
    }
    for (; i < n; i += 16) {
        vf a = vf_load_n(x + i, n - i < 16 ? (int)(n - i) : 16);
        s0 = vf_fma(a, a, s0);
    }
    vf scale = vf_set1(1.0f / sqrtf(vf_sum(vf_add(s0, s1)) / (float)n + eps)), plus = vf_set1(add);
    for (i = 0; i < n; i += 16) {
        int m = n - i < 16 ? (int)(n - i) : 16;
        vf v = vf_mul(vf_mul(vf_load_n(x + i, m), scale), vf_add(vf_load_n(w + i, m), plus));
        if (residual) v = vf_add(v, vf_load_n(residual + i, m));
        vf_store_n(y + i, v, m);
    }
}

static void glu(och_act act, const float *gate, const float *up, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i += 16) {
        int m = n - i < 16 ? (int)(n - i) : 16;
        vf_store_n(y + i, vf_mul(vf_act(act, vf_load_n(gate + i, m)), vf_load_n(up + i, m)), m);
    }
}

static void add(const float *a, const float *b, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i += 16) {
        int m = n - i < 16 ? (int)(n - i) : 16;
        vf_store_n(y + i, vf_add(vf_load_n(a + i, m), vf_load_n(b + i, m)), m);
    }
}

static void rope(const och_attr_rope *a, const float *x, const float *table, float *y) {
    const int half = a->rot_dim / 2;
    const float *cosines = table, *sines = table + half;
    int i = 0;
    if (a->style == OCH_ROPE_HALF) {
        for (; i < half; i += 16) {
            int n = half - i < 16 ? half - i : 16;
            vf u = vf_load_n(x + i, n), v = vf_load_n(x + half + i, n);
            vf c = vf_load_n(cosines + i, n), s = vf_load_n(sines + i, n);
            vf_store_n(y + i, vf_sub(vf_mul(u, c), vf_mul(v, s)), n);
            vf_store_n(y + half + i, vf_add(vf_mul(v, c), vf_mul(u, s)), n);
        }
    } else {
        for (; i + 8 <= half; i += 8) vf_store(y + 2 * i, vf_rotate_pairs(vf_load(x + 2 * i), cosines + i, sines + i));
        for (; i < half; i++) {
            float u = x[2 * i], v = x[2 * i + 1];
            y[2 * i] = u * cosines[i] - v * sines[i];
            y[2 * i + 1] = v * cosines[i] + u * sines[i];
        }
    }
    if (y != x && a->rot_dim < a->head_dim)
        memcpy(y + a->rot_dim, x + a->rot_dim, (size_t)(a->head_dim - a->rot_dim) * sizeof *y);
}

static void store(const float *x, void *y, och_dtype dtype, int64_t n) {
    if (dtype == OCH_DTYPE_F32) {
        memcpy(y, x, (size_t)n * sizeof *x);
        return;
    }
    uint16_t *out = y;
    int64_t i = 0;
    if (dtype == OCH_DTYPE_F16) {
        for (; i + 16 <= n; i += 16) vf_store_f16(out + i, vf_load(x + i));
        for (; i < n; i++) out[i] = och_f32_to_f16(x[i]);
    } else {
        for (; i < n; i++) out[i] = och_f32_to_bf16(x[i]);
    }
}

static void store_k(const float *const *rows, int n_rows, void *k, int64_t stride, och_dtype dtype, int64_t head_dim) {
    if (dtype == OCH_DTYPE_F32) {
        for (int r = 0; r < n_rows; r++)
            for (int64_t d = 0; d < head_dim; d++) ((float *)k)[d * stride + r] = rows[r][d];
        return;
    }
    for (int64_t d0 = 0; d0 < head_dim; d0 += 64) {
        uint16_t t[16][64];
        int n = head_dim - d0 < 64 ? (int)(head_dim - d0) : 64;
        for (int r = 0; r < n_rows; r++) store(rows[r] + d0, t[r], dtype, n);
        for (int d = 0; d < n; d++)
            for (int r = 0; r < n_rows; r++) ((uint16_t *)k)[(d0 + d) * stride + r] = t[r][d];
    }
}
