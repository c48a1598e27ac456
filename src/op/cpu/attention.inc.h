/* A chunk of keys against units (query row, head) that share a key head. Every sum runs in the order of the head's
 * dimensions (scores) or of positions (values), one chain an output, whatever goes together in a pass. */

SIMD_INLINE vf kv_load(const och_dtype dtype, const void *p, int64_t i) {
    if (dtype == OCH_DTYPE_F32) return vf_load((const float *)p + i);
    if (dtype == OCH_DTYPE_F16) return vf_load_f16((const uint16_t *)p + i);
    if (dtype == OCH_DTYPE_F8_E4M3) return vf_load_e4m3((const uint8_t *)p + i);
    return vf_load_bf16((const uint16_t *)p + i);
}

/* s[r][16 g ..] for R units from `u` and G groups of positions from `g`. */
SIMD_INLINE void attn_scores_pass(const och_cpu_attn_chunk *c, const och_dtype dtype, const int R, const int G, int u, int g,
                                  float (*s)[OCH_CPU_ATTN_CHUNK]) {
    vf acc[4][4];
#pragma GCC unroll 4
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int i = 0; i < G; i++) acc[r][i] = vf_zero();
    for (int64_t d = 0; d < c->head_dim; d++) {
#pragma GCC unroll 4
        for (int i = 0; i < G; i++) {
            vf k = kv_load(dtype, c->k[g + i], d * c->k_stride);
#pragma GCC unroll 4
            for (int r = 0; r < R; r++) acc[r][i] = vf_fma(vf_set1(c->q[u + r][d]), k, acc[r][i]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int i = 0; i < G; i++) vf_store(&s[u + r][16 * (g + i)], acc[r][i]);
}

/* y[r][16 g ..] += sum over positions of p[r][t] v[t][16 g ..], G groups of dimensions. */
SIMD_INLINE void attn_values_pass(const och_cpu_attn_chunk *c, const och_dtype dtype, const int R, const int G, int u,
                                  int64_t at, float (*p)[OCH_CPU_ATTN_CHUNK], och_cpu_attn_part *parts) {
    vf acc[4][4];
#pragma GCC unroll 4
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int i = 0; i < G; i++) acc[r][i] = vf_zero();
    for (int t0 = c->first; t0 < c->n_positions; t0 += 16) {
        int n = c->n_positions - t0 < 16 ? c->n_positions - t0 : 16;
        for (int t = 0; t < n; t++) {
#pragma GCC unroll 4
            for (int i = 0; i < G; i++) {
                vf v = kv_load(dtype, c->v[t0 / 16], t * c->head_dim + at + 16 * i);
#pragma GCC unroll 4
                for (int r = 0; r < R; r++) acc[r][i] = vf_fma(vf_set1(p[u + r][t0 + t]), v, acc[r][i]);
            }
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int i = 0; i < G; i++) vf_store(parts[u + r].acc + at + 16 * i, acc[r][i]);
}

SIMD_INLINE void attn_scores(const och_cpu_attn_chunk *c, const och_dtype dtype, const int R, int u,
                             float (*s)[OCH_CPU_ATTN_CHUNK]) {
    int g = c->first / 16, end = (c->n_positions + 15) / 16;
    for (; g + SIMD_ATTN_GROUPS <= end; g += SIMD_ATTN_GROUPS)
        attn_scores_pass(c, dtype, R, SIMD_ATTN_GROUPS, u, g, s);
    for (; g < end; g++) attn_scores_pass(c, dtype, R, 1, u, g, s);
}
SIMD_INLINE void attn_values(const och_cpu_attn_chunk *c, const och_dtype dtype, const int R, int u,
                             float (*p)[OCH_CPU_ATTN_CHUNK], och_cpu_attn_part *parts) {
    int64_t at = 0;
    for (; at + 16 * SIMD_ATTN_GROUPS <= c->head_dim; at += 16 * SIMD_ATTN_GROUPS)
        attn_values_pass(c, dtype, R, SIMD_ATTN_GROUPS, u, at, p, parts);
    for (; at < c->head_dim; at += 16) attn_values_pass(c, dtype, R, 1, u, at, p, parts);
}

#define ATTN_BY_TYPE(sym)                                                                                              \
    static void attn_scores_##sym(const och_cpu_attn_chunk *c, float (*s)[OCH_CPU_ATTN_CHUNK]) {                       \
        int u = 0;                                                                                                     \
        for (; u + SIMD_ATTN_ROWS <= c->n_units; u += SIMD_ATTN_ROWS)                                                  \
            attn_scores(c, OCH_DTYPE_##sym, SIMD_ATTN_ROWS, u, s);                                                     \
        if (c->n_units - u == 3) attn_scores(c, OCH_DTYPE_##sym, 3, u, s);                                             \
        else if (c->n_units - u == 2) attn_scores(c, OCH_DTYPE_##sym, 2, u, s);                                        \
        else if (c->n_units - u == 1) attn_scores(c, OCH_DTYPE_##sym, 1, u, s);                                        \
    }                                                                                                                  \
    static void attn_values_##sym(const och_cpu_attn_chunk *c, float (*p)[OCH_CPU_ATTN_CHUNK],                         \
                                  och_cpu_attn_part *parts) {                                                          \
        int u = 0;                                                                                                     \
        for (; u + SIMD_ATTN_ROWS <= c->n_units; u += SIMD_ATTN_ROWS)                                                  \
            attn_values(c, OCH_DTYPE_##sym, SIMD_ATTN_ROWS, u, p, parts);                                              \
        if (c->n_units - u == 3) attn_values(c, OCH_DTYPE_##sym, 3, u, p, parts);                                      \
        else if (c->n_units - u == 2) attn_values(c, OCH_DTYPE_##sym, 2, u, p, parts);                                 \
        else if (c->n_units - u == 1) attn_values(c, OCH_DTYPE_##sym, 1, u, p, parts);                                 \
    }
ATTN_BY_TYPE(F32)
ATTN_BY_TYPE(F16)
ATTN_BY_TYPE(BF16)
ATTN_BY_TYPE(F8_E4M3)

/* A weight of 0 does not hide a value that is not finite: sums that are not are made again of what the unit sees alone, in the
 * same order, so that they stay away from units that do not see it. */
static void attn_mend(const och_cpu_attn_chunk *c, const float *p, int begin, int end, och_cpu_attn_part *part) {
    vf odd = vf_zero();
    for (int64_t i = 0; i < c->head_dim; i += 16) odd = vf_fma(vf_load(part->acc + i), vf_zero(), odd);
    if (vf_sum(odd) == 0) return;
    for (int64_t i = 0; i < c->head_dim; i += 16) {
        vf acc = vf_zero();
        for (int t = begin; t < end; t++)
            acc = vf_fma(vf_set1(p[t]), kv_load(c->v_dtype, c->v[t / 16], t % 16 * c->head_dim + i), acc);
        vf_store(part->acc + i, acc);
    }
}

static void attn_chunk(const och_cpu_attn_chunk *c, och_cpu_attn_part *parts) {
    float s[OCH_CPU_ATTN_UNITS][OCH_CPU_ATTN_CHUNK] __attribute__((aligned(64)));
    if (c->k_dtype == OCH_DTYPE_F16) attn_scores_F16(c, s);
    else if (c->k_dtype == OCH_DTYPE_BF16) attn_scores_BF16(c, s);
    else if (c->k_dtype == OCH_DTYPE_F8_E4M3) attn_scores_F8_E4M3(c, s);
    else attn_scores_F32(c, s);
    const int first = c->first / 16, last = (c->n_positions + 15) / 16;
    const vf minus_inf = vf_set1(-__builtin_inff());
    for (int u = 0; u < c->n_units; u++) {
        vf max = minus_inf, sum = vf_zero();
        for (int g = first; g < last; g++) {
            vf x = vf_mul(vf_load(&s[u][16 * g]), vf_set1(c->scale));
            if (c->softcap > 0) x = vf_mul(vf_set1(c->softcap), vf_tanh(vf_div(x, vf_set1(c->softcap))));
            x = vf_keep_range(x, c->begin[u] - 16 * g, c->end[u] - 16 * g);
            vf_store(&s[u][16 * g], x);
            max = vf_max(x, max); /* in this order a score that is NaN leaves max as it is; its weight will be NaN */
        }
        float m = vf_hmax(max);
        /* Something is seen, though it be -infinity or NaN alone; or nothing is: every exp below is 0. */
        if (c->begin[u] < c->end[u]) m = m < -FLT_MAX ? -FLT_MAX : m;
        parts[u].max = m;
        if (m == -__builtin_inff()) m = 0;
        for (int g = first; g < last; g++) {
            vf p = vf_exp_below(vf_sub(vf_load(&s[u][16 * g]), vf_set1(m)));
            vf_store(&s[u][16 * g], p);
            sum = vf_add(sum, p);
        }
        parts[u].sum = vf_sum(sum);
    }
    if (c->v_dtype == OCH_DTYPE_F16) attn_values_F16(c, s, parts);
    else if (c->v_dtype == OCH_DTYPE_BF16) attn_values_BF16(c, s, parts);
    else if (c->v_dtype == OCH_DTYPE_F8_E4M3) attn_values_F8_E4M3(c, s, parts);
    else attn_values_F32(c, s, parts);
    for (int u = 0; u < c->n_units; u++) attn_mend(c, s[u], c->begin[u], c->end[u], &parts[u]);
}

static void attn_merge(och_cpu_attn_part *total, const och_cpu_attn_part *part, int64_t head_dim) {
    if (part->max == -__builtin_inff()) return;
    float max = total->max > part->max ? total->max : part->max;
    vf old = vf_exp_below(vf_set1(total->max - max)), new = vf_exp_below(vf_set1(part->max - max));
    float lanes[16];
    vf_store(lanes, vf_fma(vf_set1(total->sum), old, vf_mul(vf_set1(part->sum), new)));
    total->sum = lanes[0];
    total->max = max;
    for (int64_t i = 0; i < head_dim; i += 16)
        vf_store(total->acc + i, vf_fma(vf_load(total->acc + i), old, vf_mul(vf_load(part->acc + i), new)));
}

static void attn_finish(const och_cpu_attn_part *total, float *y, int64_t head_dim) {
    vf inv = vf_set1(1.0f / total->sum); /* 0 where all that is seen is -infinity: then the result is NaN */
    for (int64_t i = 0; i < head_dim; i += 16) vf_store(y + i, vf_mul(vf_load(total->acc + i), inv));
}
