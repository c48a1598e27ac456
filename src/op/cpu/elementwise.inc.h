/* Norms, rotations and conversions. */

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
    if (dtype == OCH_DTYPE_F8_E4M3) {
        for (int64_t k = 0; k < n; k++) ((uint8_t *)y)[k] = och_f32_to_e4m3(x[k]);
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
    if (dtype == OCH_DTYPE_F8_E4M3) {
        for (int64_t d = 0; d < head_dim; d++)
            for (int r = 0; r < n_rows; r++) ((uint8_t *)k)[d * stride + r] = och_f32_to_e4m3(rows[r][d]);
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
