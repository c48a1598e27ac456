/* ATTENTION: causal attention over paged state.
 *
 * The reference takes one (token, head) at a time: all scores of the token's span in double, their softmax, the weighted
 * sum of the values. */
#include "op/def.h"

#include <math.h>

typedef struct span {
    int64_t lo, hi; /* positions lo .. hi; hi < lo: padding */
} span;

static och_status check(const och_op_call *c, och_err *err) {
    const och_attr_attention *a = &c->attr.attention;
    const och_tensor *k = &c->in[OCH_ATTENTION_K], *v = &c->in[OCH_ATTENTION_V];
    int64_t n = c->in[OCH_ATTENTION_Q].rows, cols = (int64_t)a->n_heads * a->kv.head_dim;
    OCH_TRY(och_op_expect_kv(c, &a->kv, err));
    if (a->n_heads < 1 || a->n_heads > 65536 || a->n_heads % a->kv.n_kv_heads)
        return och_err_set(err, OCH_INVALID, "op attention: expected a multiple of %d query heads, found %d",
                           a->kv.n_kv_heads, a->n_heads);
    if (!isfinite(a->scale) || !isfinite(a->softcap) || a->softcap < 0.0f || a->window < 0)
        return och_err_set(err, OCH_INVALID,
                           "op attention: expected a finite scale, softcap and window of at least 0, found %g, %g, %d",
                           (double)a->scale, (double)a->softcap, a->window);
    OCH_TRY(och_op_expect(c, och_in(OCH_ATTENTION_Q), OCH_DTYPE_F32, -1, cols, err));
    OCH_TRY(och_op_expect_cache(c, och_in(OCH_ATTENTION_K), &a->kv, err));
    OCH_TRY(och_op_expect_cache(c, och_in(OCH_ATTENTION_V), &a->kv, err));
    if (k->dtype != v->dtype || k->rows != v->rows)
        return och_op_fail(c, och_in(OCH_ATTENTION_V), OCH_INVALID, err,
                           "expected %s and %lld blocks as in kcache, found %s and %lld", och_dtype_name(k->dtype),
                           (long long)k->rows, och_dtype_name(v->dtype), (long long)v->rows);
    OCH_TRY(och_op_expect(c, och_in(OCH_ATTENTION_TABLES), OCH_DTYPE_I32, -1, -1, err));
    OCH_TRY(och_op_expect(c, och_in(OCH_ATTENTION_SEQS), OCH_DTYPE_I32, n, 1, err));
    OCH_TRY(och_op_expect(c, och_in(OCH_ATTENTION_POSITIONS), OCH_DTYPE_I32, n, 1, err));
    OCH_TRY(och_op_expect(c, och_out(0), OCH_DTYPE_F32, n, cols, err));
    if (och_tensor_present(&c->out[OCH_ATTENTION_YCODES]))
        OCH_TRY(och_op_expect_codes(c, och_out(OCH_ATTENTION_YCODES), cols, err));
    OCH_TRY(och_op_expect_overlap(c, OCH_ATTENTION_YCODES, -1, -1, err));
    return och_op_expect_overlap(c, 0, OCH_ATTENTION_Q, -1, err);
}

static span span_of(const och_op_call *c, int64_t i) {
    int64_t p = och_op_row_i32(&c->in[OCH_ATTENTION_POSITIONS], i), window = c->attr.attention.window;
    if (och_op_row_i32(&c->in[OCH_ATTENTION_SEQS], i) < 0) return (span){0, -1};
    return (span){window > 0 && p >= window ? p - window + 1 : 0, p};
}

/* The floor of what is read: the union of the spans of tokens that follow each other in one sequence. Where the host
 * cannot read positions, state is left out. */
static void cost(const och_op_call *c, uint64_t *out_bytes, uint64_t *out_flops) {
    const och_attr_attention *a = &c->attr.attention;
    const och_tensor *seqs = &c->in[OCH_ATTENTION_SEQS];
    uint64_t bytes = 0, pairs = 0, tokens = 0;
    static const int counted[] = {OCH_ATTENTION_Q, OCH_ATTENTION_TABLES, OCH_ATTENTION_SEQS, OCH_ATTENTION_POSITIONS};
    for (int i = 0; i < 4; i++) bytes += och_op_tensor_bytes(&c->in[counted[i]]);
    bytes += och_op_tensor_bytes(&c->out[0]);
    if (seqs->host && c->in[OCH_ATTENTION_POSITIONS].host) {
        span run = {0, -1};
        for (int64_t i = 0; i < seqs->rows; i++) {
            span s = span_of(c, i);
            pairs += (uint64_t)(s.hi - s.lo + 1);
            bool joins = i > 0 && och_op_row_i32(seqs, i) == och_op_row_i32(seqs, i - 1);
            if (joins && s.lo <= run.hi && s.hi >= run.lo) {
                run.lo = s.lo < run.lo ? s.lo : run.lo;
                run.hi = s.hi > run.hi ? s.hi : run.hi;
            } else {
                tokens += (uint64_t)(run.hi - run.lo + 1);
                run = s;
            }
        }
        tokens += (uint64_t)(run.hi - run.lo + 1);
    }
    uint64_t elem = och_dtype_get(c->in[OCH_ATTENTION_K].dtype)->block_bytes;
    *out_bytes = bytes + 2 * elem * tokens * (uint64_t)a->kv.n_kv_heads * (uint64_t)a->kv.head_dim;
    *out_flops = 4 * pairs * (uint64_t)a->n_heads * (uint64_t)a->kv.head_dim;
}

/* A member's scratch: scores of the longest span, q and the weighted sum in double, one row of a cache. */
static uint64_t longest_span(const och_op_call *c) {
    uint64_t all = (uint64_t)c->in[OCH_ATTENTION_TABLES].cols * (uint64_t)c->attr.attention.kv.block_tokens;
    uint64_t window = (uint64_t)c->attr.attention.window;
    return window > 0 && window < all ? window : all;
}
static uint64_t member_bytes(const och_op_call *c) {
    const och_attr_kv *kv = &c->attr.attention.kv;
    uint64_t row = (uint64_t)(kv->head_dim > kv->block_tokens ? kv->head_dim : kv->block_tokens);
    uint64_t n = (longest_span(c) + (uint64_t)kv->block_tokens + (uint64_t)kv->head_dim) * sizeof(double) +
                 row * sizeof(float);
    return (n + 63) & ~UINT64_C(63);
}

static uint64_t scratch_bytes(const och_device *device, const och_op_call *c) {
    return (uint64_t)och_op_ref_threads(device) * member_bytes(c);
}

static och_status check_ids(const och_op_call *c, och_err *err) {
    const och_tensor *tables = &c->in[OCH_ATTENTION_TABLES], *seqs = &c->in[OCH_ATTENTION_SEQS];
    int64_t bt = c->attr.attention.kv.block_tokens, n_blocks = c->in[OCH_ATTENTION_K].rows;
    for (int64_t i = 0; i < seqs->rows; i++) {
        int32_t seq = och_op_row_i32(seqs, i), p = och_op_row_i32(&c->in[OCH_ATTENTION_POSITIONS], i);
        if (seq < 0) continue;
        if (seq >= tables->rows)
            return och_op_fail(c, och_in(OCH_ATTENTION_SEQS), OCH_RANGE, err,
                               "row %lld: expected a sequence below %lld, found %d", (long long)i,
                               (long long)tables->rows, seq);
        span s = p < 0 ? (span){0, -1} : span_of(c, i);
        if (p < 0 || s.hi - s.lo + 1 > tables->cols * bt)
            return och_op_fail(c, och_in(OCH_ATTENTION_POSITIONS), OCH_RANGE, err,
                               "row %lld: expected a position whose span fits %lld tokens of table, found %d and window %d",
                               (long long)i, (long long)(tables->cols * bt), p, c->attr.attention.window);
        const int32_t *table = (const int32_t *)((const char *)tables->host + (uint64_t)seq * tables->row_bytes);
        for (int64_t b = s.lo / bt; b <= s.hi / bt; b++)
            if (table[b % tables->cols] < 0 || table[b % tables->cols] >= n_blocks)
                return och_op_fail(c, och_in(OCH_ATTENTION_TABLES), OCH_RANGE, err,
                                   "sequence %d, entry %lld: expected a block of 0 to %lld, found %d", seq,
                                   (long long)(b % tables->cols), (long long)n_blocks - 1, table[b % tables->cols]);
    }
    return OCH_OK;
}

typedef struct job {
    const och_op_ctx *ctx;
    const och_op_call *call;
} job;

static void one_head(const och_op_call *c, int64_t i, int h, double *scores, double *block_scores, double *sum, float *row) {
    const och_attr_attention *a = &c->attr.attention;
    const och_tensor *tables = &c->in[OCH_ATTENTION_TABLES], *kc = &c->in[OCH_ATTENTION_K], *vc = &c->in[OCH_ATTENTION_V];
    int64_t d = a->kv.head_dim, bt = a->kv.block_tokens, kv_head = h / (a->n_heads / a->kv.n_kv_heads);
    const float *q = och_op_row_f32(&c->in[OCH_ATTENTION_Q], i) + h * d;
    float *y = och_op_row_f32_mut(&c->out[0], i) + h * d;
    span s = span_of(c, i);
    for (int64_t e = 0; e < d; e++) sum[e] = 0.0;
    if (s.hi < s.lo) {
        for (int64_t e = 0; e < d; e++) y[e] = 0.0f;
        return;
    }
    const int32_t *table = (const int32_t *)((const char *)tables->host +
                                             (uint64_t)och_op_row_i32(&c->in[OCH_ATTENTION_SEQS], i) * tables->row_bytes);
    uint64_t elem = och_dtype_get(kc->dtype)->block_bytes;
    double most = -INFINITY, total = 0.0;
    for (int64_t b = s.lo / bt; b <= s.hi / bt; b++) {
        uint64_t base = (uint64_t)table[b % tables->cols] * (kc->row_bytes / elem) + (uint64_t)(kv_head * d * bt);
        int64_t from = b * bt < s.lo ? s.lo - b * bt : 0, to = (b + 1) * bt - 1 > s.hi ? s.hi - b * bt + 1 : bt;
        for (int64_t t = from; t < to; t++) block_scores[t] = 0.0;
        for (int64_t e = 0; e < d; e++) {
            double qe = q[e];
            och_op_cache_load(kc, base + (uint64_t)(e * bt + from), row, to - from);
            for (int64_t t = from; t < to; t++) block_scores[t] += qe * row[t - from];
        }
        for (int64_t t = from; t < to; t++) {
            double v = block_scores[t] * a->scale;
            if (a->softcap > 0.0f) v = a->softcap * tanh(v / a->softcap);
            scores[b * bt + t - s.lo] = v;
            most = v > most ? v : most;
        }
    }
    for (int64_t t = 0; t <= s.hi - s.lo; t++) {
        scores[t] = exp(scores[t] - most);
        total += scores[t];
    }
    for (int64_t p = s.lo; p <= s.hi; p++) {
        uint64_t block = (uint64_t)table[p / bt % tables->cols];
        och_op_cache_load(vc, block * (vc->row_bytes / elem) + (uint64_t)((kv_head * bt + p % bt) * d), row, d);
        double w = scores[p - s.lo];
        for (int64_t e = 0; e < d; e++) sum[e] += w * row[e];
    }
    for (int64_t e = 0; e < d; e++) y[e] = (float)(sum[e] / total);
}

static void member(void *arg, const och_pool_member *me) {
    const job *j = arg;
    const och_op_call *c = j->call;
    const och_attr_attention *a = &c->attr.attention;
    double *scores = (double *)((char *)j->ctx->scratch + (uint64_t)me->index * member_bytes(c));
    double *block_scores = scores + longest_span(c), *sum = block_scores + a->kv.block_tokens;
    float *row = (float *)(sum + a->kv.head_dim);
    int64_t items = c->in[OCH_ATTENTION_Q].rows * a->n_heads;
    /* Taken in turns: later tokens of a prefill have longer spans. */
    for (int64_t item = me->index; item < items; item += me->n)
        one_head(c, item / a->n_heads, (int)(item % a->n_heads), scores, block_scores, sum, row);
}

static och_status run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    OCH_TRY(check_ids(c, err));
    job j = {ctx, c};
    if (c->in[OCH_ATTENTION_Q].rows > 0) och_op_ref_run(ctx, member, &j);
    return OCH_OK;
}

const och_op_def och_op_def_ATTENTION = {
    check, cost,
    {OCH_OP_REFERENCE_ROW(ATTENTION), .supports = och_op_supports_all, .run = run, .scratch_bytes = scratch_bytes}};
