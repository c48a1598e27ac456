/* Products of activations and panels, their quantisation and what is done with results. */

/* One pass over a panel for R rows. Integer sums of a block (or half block) are exact; each block then adds
 * (d_w d_a) * sum and, with a minimum, m_w * (d_a sum of q), in the order of k. */
SIMD_INLINE void panel_integer(const och_cpu_format f, const int R, const uint8_t *panel, const uint8_t *next,
                               const och_cpu_act *act, int64_t row, float *out) {
    const bool halves = format_halves(f), has_min = format_has_min(f), wide = format_wide(f);
    const int offset = wide ? SIMD_WIDE_OFFSET : f.offset;
    const int offset_log2 = offset ? __builtin_ctz((unsigned)offset) : 0;
    const int parts = halves ? 2 : 1, quads = 8 / parts;
    /* For few rows the latency of the products counts: two sums instead of one. High nibbles then stay where they are,
     * sixteen times too large, and their sum is shifted instead, where the bytes of a product may be that large. */
    const bool two = R <= 2 && !halves;
    const bool nibbles = SIMD_WIDE_OFFSET != 0 && f.low_bits == 4 && f.high_bits == 0 && f.codebook == OCH_CPU_LINEAR;
    const int64_t nb = act->nb, stride = act->q_stride, sums = nb * parts;
    const int lines = (int)((och_cpu_low_bytes(&f) + och_cpu_high_bytes(&f) + och_cpu_scale_bytes(&f) +
                             och_cpu_super_bytes(&f) / 8 + 63) / 64);
    const int8_t *q = act->q + row * stride;
    const float *da = act->d + row * nb, *ds = (halves ? act->ds16 : act->ds) + row * sums;
    const int32_t *nsum = (halves ? act->nsum16 : act->nsum) + row * sums;
    const panel_view v = panel_view_of(f, panel, nb);
    vf acc[SIMD_MAX_ROWS];
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) acc[r] = vf_zero();
    for (int64_t b = 0; b < nb; b++) {
        if (next) {
#pragma GCC unroll 16
            for (int i = 0; i < lines; i++) simd_prefetch(next + 64 * i);
            next += 64 * lines;
        }
        vf d[2], m[2];
        panel_scales(f, &v, b, d, m);
#pragma GCC unroll 2
        for (int h = 0; h < parts; h++) {
            vi s[SIMD_MAX_ROWS], s2[SIMD_MAX_ROWS];
#pragma GCC unroll 8
            for (int r = 0; r < R; r++) {
                s[r] = offset ? vi_shl(vi_set1(nsum[r * sums + b * parts + h]), offset_log2) : vi_zero();
                s2[r] = vi_zero();
            }
#pragma GCC unroll 8
            for (int i = 0; i < quads; i++) {
                const int j = h * quads + i;
                vb w = two && nibbles && i >= 4 ? panel_high_nibbles(f, &v, b, j) : panel_quad(f, &v, b, j);
                if (wide) w = vb_wide(w);
#pragma GCC unroll 8
                for (int r = 0; r < R; r++) {
                    const int8_t *a = q + r * stride + b * 32 + 4 * j;
                    vi *sum = two && i >= 4 ? &s2[r] : &s[r];
                    *sum = wide ? vi_dot_wide(*sum, w, a) : vi_dot(*sum, w, a);
                }
            }
#pragma GCC unroll 8
            for (int r = 0; r < R; r++) {
                if (two) s[r] = vi_add(s[r], nibbles ? vi_sar(s2[r], 4) : s2[r]);
                acc[r] = vf_fma(vf_from_vi(s[r]), vf_mul(d[h], vf_set1(da[r * nb + b])), acc[r]);
                if (has_min) acc[r] = vf_fma(m[h], vf_set1(ds[r * sums + b * parts + h]), acc[r]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) vf_store(out + 16 * r, acc[r]);
}

SIMD_INLINE vf float_column(const och_dtype dtype, const uint8_t *panel, int64_t k) {
    if (dtype == OCH_DTYPE_F32) return vf_load((const float *)(const void *)panel + 16 * k);
    if (dtype == OCH_DTYPE_F16) return vf_load_f16(panel + 32 * k);
    return vf_load_bf16(panel + 32 * k);
}

/* Float weights keep the activations in float32; several sums a row hide the latency of the additions. */
SIMD_INLINE void panel_float(const och_dtype dtype, const int R, const uint8_t *panel, const uint8_t *next,
                             const och_cpu_act *act, int64_t row, float *out) {
    const int64_t K = act->k;
    const int elem = dtype == OCH_DTYPE_F32 ? 4 : 2;
    const float *x = act->x + row * K;
    vf acc[SIMD_FLOAT_ROWS][SIMD_FLOAT_CHAINS];
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int c = 0; c < SIMD_FLOAT_CHAINS; c++) acc[r][c] = vf_zero();
    int64_t k = 0;
    for (; k + SIMD_FLOAT_CHAINS <= K; k += SIMD_FLOAT_CHAINS) {
        if (next) {
#pragma GCC unroll 8
            for (int i = 0; i < SIMD_FLOAT_CHAINS * elem / 4; i++) simd_prefetch(next + 64 * i);
            next += 16 * SIMD_FLOAT_CHAINS * elem;
        }
#pragma GCC unroll 8
        for (int c = 0; c < SIMD_FLOAT_CHAINS; c++) {
            vf w = float_column(dtype, panel, k + c);
#pragma GCC unroll 8
            for (int r = 0; r < R; r++) acc[r][c] = vf_fma(w, vf_set1(x[r * K + k + c]), acc[r][c]);
        }
    }
    for (; k < K; k++) {
        vf w = float_column(dtype, panel, k);
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) acc[r][0] = vf_fma(w, vf_set1(x[r * K + k]), acc[r][0]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) {
        vf sum = acc[r][0];
#pragma GCC unroll 8
        for (int c = 1; c < SIMD_FLOAT_CHAINS; c++) sum = vf_add(sum, acc[r][c]);
        vf_store(out + 16 * r, sum);
    }
}

/* A pass for 8, 4, 2 and 1 rows, whichever fit. */
#define PANEL_ROWS(call, R)                                                                                            \
    for (; n_rows >= (R); row += (R), n_rows -= (R), out += 16 * (R), next = NULL) call(R)

#define X(sym, low, high, off, sc, book)                                                                               \
    static void panel_##sym(const uint8_t *panel, const uint8_t *next, const och_cpu_act *act, int64_t row,            \
                            int n_rows, float *out) {                                                                  \
        const och_cpu_format f = {low, high, off, sc, book, 0};                                                        \
        PANEL_INTEGER_PASSES                                                                                           \
    }
#define PASS(R) panel_integer(f, R, panel, next, act, row, out)
#if SIMD_MAX_ROWS >= 8
#define PANEL_INTEGER_PASSES PANEL_ROWS(PASS, 8); PANEL_ROWS(PASS, 4); PANEL_ROWS(PASS, 2); PANEL_ROWS(PASS, 1);
#elif SIMD_MAX_ROWS >= 4
#define PANEL_INTEGER_PASSES PANEL_ROWS(PASS, 4); PANEL_ROWS(PASS, 2); PANEL_ROWS(PASS, 1);
#else
#define PANEL_INTEGER_PASSES PANEL_ROWS(PASS, 2); PANEL_ROWS(PASS, 1);
#endif
OCH_CPU_FORMATS(X)
#undef X
#undef PASS

#define FLOAT_PANEL(sym)                                                                                               \
    static void panel_##sym(const uint8_t *panel, const uint8_t *next, const och_cpu_act *act, int64_t row,            \
                            int n_rows, float *out) {                                                                  \
        for (; n_rows >= SIMD_FLOAT_ROWS; row += SIMD_FLOAT_ROWS, n_rows -= SIMD_FLOAT_ROWS,                           \
                                          out += 16 * SIMD_FLOAT_ROWS, next = NULL)                                    \
            panel_float(OCH_DTYPE_##sym, SIMD_FLOAT_ROWS, panel, next, act, row, out);                                 \
        for (; n_rows > 0; row++, n_rows--, out += 16, next = NULL)                                                    \
            panel_float(OCH_DTYPE_##sym, 1, panel, next, act, row, out);                                               \
    }
FLOAT_PANEL(F32)
FLOAT_PANEL(F16)
FLOAT_PANEL(BF16)

/* A block with a number that is not finite: its scale is NaN, and with it every product. */
static void quantise_odd(const och_cpu_act *act, int8_t *q, int64_t at) {
    memset(q, 0, 32);
    act->d[at] = act->ds[at] = NAN;
    act->nsum[at] = 0;
    if (!act->nsum16) return;
    act->nsum16[2 * at] = act->nsum16[2 * at + 1] = 0;
    act->ds16[2 * at] = act->ds16[2 * at + 1] = NAN;
}

static void quantise(const float *x, const och_cpu_act *act, int64_t row) {
    if (act->x && x != act->x + row * act->k) memcpy(act->x + row * act->k, x, (size_t)act->k * sizeof *x);
    if (!act->q) return;
    int8_t *q = act->q + row * act->q_stride;
    for (int64_t b = 0; b < act->nb; b++) {
        vf lo = vf_load(x + 32 * b), hi = vf_load(x + 32 * b + 16);
        const int64_t at = row * act->nb + b;
        float max = vf_hmax_abs(lo, hi), d = max / 127.0f;
        if (!(max <= FLT_MAX)) { /* codes have no other way to say it */
            quantise_odd(act, q + 32 * b, at);
            continue;
        }
        vf inv = vf_set1(max > 0 ? 127.0f / max : 0);
        vi a = vi_from_vf(vf_mul(lo, inv)), c = vi_from_vf(vf_mul(hi, inv));
        vi_store_i8(q + 32 * b, a);
        vi_store_i8(q + 32 * b + 16, c);
        act->d[at] = d;
        if (act->nsum16) {
            int32_t s0 = vi_sum(a), s1 = vi_sum(c);
            act->nsum16[2 * at] = -s0;
            act->nsum16[2 * at + 1] = -s1;
            act->ds16[2 * at] = d * (float)s0;
            act->ds16[2 * at + 1] = d * (float)s1;
        }
        int32_t s = vi_sum(vi_add(a, c));
        act->nsum[at] = -s;
        act->ds[at] = d * (float)s;
    }
}

static void epilogue(const och_cpu_epilogue *e, int64_t row, int n_rows, int64_t col, const float *t0, const float *t1) {
    int n = e->m - col < 16 ? (int)(e->m - col) : 16;
    vf b0 = e->bias ? vf_load_n(e->bias + col, n) : vf_zero(), b1 = e->bias1 ? vf_load_n(e->bias1 + col, n) : vf_zero();
    for (int r = 0; r < n_rows; r++) {
        vf v = vf_load(t0 + 16 * r);
        if (e->bias) v = vf_add(v, b0);
        if (e->glu != OCH_ACT_NONE) {
            vf u = vf_load(t1 + 16 * r);
            if (e->bias1) u = vf_add(u, b1);
            v = vf_mul(vf_act(e->glu, v), u);
        }
        if (e->residual) v = vf_add(v, vf_load_n(e->residual + (row + r) * e->residual_stride + col, n));
        vf_store_n(e->y + (row + r) * e->y_stride + col, v, n);
    }
}
