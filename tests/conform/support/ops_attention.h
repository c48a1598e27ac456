/* ATTENTION's, KV_WRITE's and QKV_POST's cases. The oracle keeps keys and values of each sequence as plain arrays
 * [position][head][dim]; only put_state below knows how blocks are laid out, by the formula in op.h. */
#ifndef OCH_TESTS_OPS_ATTENTION_H
#define OCH_TESTS_OPS_ATTENTION_H

#include "conform/support/op_run.h"

#define MAX_SEQS 4

/* What a cache may hold. */
static const och_dtype caches[] = {OCH_DTYPE_F32, OCH_DTYPE_F16, OCH_DTYPE_BF16, OCH_DTYPE_F8_E4M3};
enum { N_CACHES = 4 };

typedef struct attention_case {
    och_dtype cache;
    int n_heads, n_kv_heads, head_dim, block_tokens;
    float scale, softcap;
    int window;
    int n_seqs;
    int length[MAX_SEQS]; /* tokens of each sequence that are in the cache when the step attends */
    int tokens[MAX_SEQS]; /* the last so many of them ask, in this step */
    int table_len;        /* 0: enough for the longest */
    int n_padding;        /* padding tokens among the others */
    bool shuffle;         /* the order of tokens in the step */
    bool in_place;
    uint64_t pad_bytes;
    double scale_values; /* of k; large: a peaked softmax */
} attention_case;

/* Of the largest |v|: float32 softmax and sums, whatever the cache holds. A board may round queries and weights of the
 * softmax to half precision, or to bfloat16 where the cache holds that. */
static double attention_tolerance(const subject *who, och_dtype cache) {
    switch (tier_of(who)) {
    case TIER_REFERENCE: return 1e-7;
    case TIER_CPU: return who->isa && !strcmp(who->isa, "amx") ? 4e-5 : 1e-5; /* tiles keep about 16 bits of a score */
    case TIER_BOARD: break;
    }
    return cache == OCH_DTYPE_BF16 ? 2e-2 : 3e-3;
}
static double attention_nmse(och_dtype cache) { return cache == OCH_DTYPE_BF16 ? 5e-4 : 5e-5; }

static float cache_round(och_dtype t, float x) {
    if (t == OCH_DTYPE_F16) return och_f16_to_f32(och_f32_to_f16(x));
    if (t == OCH_DTYPE_BF16) return och_bf16_to_f32(och_f32_to_bf16(x));
    if (t == OCH_DTYPE_F8_E4M3) return rig_e4m3_value(rig_e4m3_code(x));
    return x;
}
static void cache_set(const och_tensor *t, uint64_t i, float x) {
    if (t->dtype == OCH_DTYPE_F32) ((float *)t->host)[i] = x;
    else if (t->dtype == OCH_DTYPE_F8_E4M3) ((uint8_t *)t->host)[i] = rig_e4m3_code(x);
    else ((uint16_t *)t->host)[i] = t->dtype == OCH_DTYPE_F16 ? och_f32_to_f16(x) : och_f32_to_bf16(x);
}
static float cache_get(const och_tensor *t, uint64_t i) {
    if (t->dtype == OCH_DTYPE_F32) return ((float *)t->host)[i];
    if (t->dtype == OCH_DTYPE_F8_E4M3) return rig_e4m3_value(((const uint8_t *)t->host)[i]);
    uint16_t u = ((uint16_t *)t->host)[i];
    return t->dtype == OCH_DTYPE_F16 ? och_f16_to_f32(u) : och_bf16_to_f32(u);
}
/* Element numbers of (block, head, offset, dim). */
static uint64_t k_index(const och_attr_kv *kv, int block, int h, int off, int e) {
    return (((uint64_t)block * (uint64_t)kv->n_kv_heads + (uint64_t)h) * (uint64_t)kv->head_dim + (uint64_t)e) *
               (uint64_t)kv->block_tokens + (uint64_t)off;
}
static uint64_t v_index(const och_attr_kv *kv, int block, int h, int off, int e) {
    return (((uint64_t)block * (uint64_t)kv->n_kv_heads + (uint64_t)h) * (uint64_t)kv->block_tokens + (uint64_t)off) *
               (uint64_t)kv->head_dim + (uint64_t)e;
}

typedef struct attention_state {
    float *k[MAX_SEQS], *v[MAX_SEQS]; /* [length][n_kv_heads][head_dim], as rounded by the cache's dtype */
    int n_tokens;
    int *token_seq, *token_pos; /* [n_tokens]; seq -1: padding */
} attention_state;

static void attention_free(attention_state *st) {
    for (int s = 0; s < MAX_SEQS; s++) {
        och_free(st->k[s]);
        och_free(st->v[s]);
    }
    och_free(st->token_seq);
    och_free(st->token_pos);
    memset(st, 0, sizeof *st);
}

static void attention_make(rig *r, rng *g, const attention_case *s, attention_state *st, och_op_call *c) {
    const och_attr_kv kv = {s->n_kv_heads, s->head_dim, s->block_tokens};
    memset(st, 0, sizeof *st);
    r->nmse = attention_nmse(s->cache);
    int longest = 0, n = s->n_padding;
    for (int q = 0; q < s->n_seqs; q++) {
        longest = s->length[q] > longest ? s->length[q] : longest;
        n += s->tokens[q];
    }
    int table_len = s->table_len ? s->table_len : (longest + s->block_tokens - 1) / s->block_tokens;
    int n_blocks = s->n_seqs * table_len + 3;
    och_tensor kc = rig_tensor(r, s->cache, n_blocks, (int64_t)s->n_kv_heads * s->head_dim * s->block_tokens, 0);
    och_tensor vc = rig_tensor(r, s->cache, n_blocks, kc.cols, 0);
    och_tensor tables = rig_i32(r, s->n_seqs, table_len, NULL);
    /* What no token owns is NaN: whoever reads it shows. */
    for (uint64_t i = 0; i < (uint64_t)(kc.rows * kc.cols); i++) {
        cache_set(&kc, i, NAN);
        cache_set(&vc, i, NAN);
    }
    /* Blocks are dealt in a shuffled order; entries past the end are -1. */
    int32_t *deal = och_malloc_array((size_t)n_blocks, sizeof *deal);
    assert_non_null(deal);
    for (int i = 0; i < n_blocks; i++) deal[i] = i;
    for (int i = n_blocks - 1; i > 0; i--) {
        int j = rng_below(g, i + 1);
        int32_t t = deal[i];
        deal[i] = deal[j];
        deal[j] = t;
    }
    int dealt = 0;
    for (int q = 0; q < s->n_seqs; q++) {
        for (int b = 0; b < table_len; b++)
            rig_int(&tables, q)[b] = b < (s->length[q] + s->block_tokens - 1) / s->block_tokens ? deal[dealt++] : -1;
        size_t size = (size_t)s->length[q] * (size_t)(s->n_kv_heads * s->head_dim);
        st->k[q] = och_malloc_array(size + 1, sizeof(float));
        st->v[q] = och_malloc_array(size + 1, sizeof(float));
        assert_true(st->k[q] && st->v[q]);
        for (size_t i = 0; i < size; i++) {
            st->k[q][i] = cache_round(s->cache, rng_gauss(g) * (float)(s->scale_values != 0.0 ? s->scale_values : 1.0));
            st->v[q][i] = cache_round(s->cache, rng_gauss(g));
        }
        for (int p = 0; p < s->length[q]; p++) {
            int block = rig_int(&tables, q)[p / s->block_tokens % table_len], off = p % s->block_tokens;
            for (int h = 0; h < s->n_kv_heads; h++)
                for (int e = 0; e < s->head_dim; e++) {
                    size_t i = ((size_t)p * (size_t)s->n_kv_heads + (size_t)h) * (size_t)s->head_dim + (size_t)e;
                    cache_set(&kc, k_index(&kv, block, h, off, e), st->k[q][i]);
                    cache_set(&vc, v_index(&kv, block, h, off, e), st->v[q][i]);
                }
        }
    }
    och_free(deal);
    st->n_tokens = n;
    st->token_seq = och_malloc_array((size_t)n + 1, sizeof(int));
    st->token_pos = och_malloc_array((size_t)n + 1, sizeof(int));
    assert_true(st->token_seq && st->token_pos);
    int at = 0;
    for (int q = 0; q < s->n_seqs; q++)
        for (int t = 0; t < s->tokens[q]; t++) {
            st->token_seq[at] = q;
            st->token_pos[at++] = s->length[q] - s->tokens[q] + t;
        }
    for (int i = 0; i < s->n_padding; i++) {
        st->token_seq[at] = -1;
        st->token_pos[at++] = i % 2 ? 0 : -1;
    }
    if (s->shuffle)
        for (int i = n - 1; i > 0; i--) {
            int j = rng_below(g, i + 1), a = st->token_seq[i], b = st->token_pos[i];
            st->token_seq[i] = st->token_seq[j];
            st->token_pos[i] = st->token_pos[j];
            st->token_seq[j] = a;
            st->token_pos[j] = b;
        }
    *c = rig_call(OCH_OP_ATTENTION);
    c->attr.attention = (och_attr_attention){kv, s->n_heads, s->scale, s->softcap, s->window};
    c->in[OCH_ATTENTION_Q] = rig_random(r, g, n, (int64_t)s->n_heads * s->head_dim, 1.0, s->pad_bytes);
    c->in[OCH_ATTENTION_K] = kc;
    c->in[OCH_ATTENTION_V] = vc;
    c->in[OCH_ATTENTION_TABLES] = tables;
    c->in[OCH_ATTENTION_SEQS] = rig_i32(r, n, 1, st->token_seq);
    c->in[OCH_ATTENTION_POSITIONS] = rig_i32(r, n, 1, st->token_pos);
    c->out[0] = s->in_place ? c->in[OCH_ATTENTION_Q]
                            : rig_tensor(r, OCH_DTYPE_F32, n, (int64_t)s->n_heads * s->head_dim, s->pad_bytes);
}

static void attention_name(const attention_case *s, char *out, size_t size) {
    snprintf(out, size, "%s heads %d/%d dim %d block %d window %d softcap %g length %d,%d,%d tokens %d,%d,%d table %d%s",
             och_dtype_name(s->cache), s->n_heads, s->n_kv_heads, s->head_dim, s->block_tokens, s->window,
             (double)s->softcap, s->length[0], s->length[1], s->length[2], s->tokens[0], s->tokens[1], s->tokens[2],
             s->table_len, s->in_place ? " in place" : "");
}

/* q: the queries as they were before the call. */
static void attention_verify(rig *r, const attention_case *s, const attention_state *st, const float *q,
                             const och_tensor *y, const char *name) {
    int group = s->n_heads / s->n_kv_heads, d = s->head_dim, cols = s->n_heads * d;
    double *out = och_malloc_array((size_t)d, sizeof *out);
    assert_non_null(out);
    for (int i = 0; i < st->n_tokens; i++)
        for (int h = 0; h < s->n_heads; h++) {
            int seq = st->token_seq[i], p = st->token_pos[i];
            const float *found = rig_row(y, i) + h * d;
            if (seq < 0) {
                for (int e = 0; e < d; e++) rig_near(found[e], 0.0, 0.0, name, i, h * d + e);
                continue;
            }
            /* Two passes over the definition: weights relative to the token itself, then their mean. */
            double z = 0.0, most_v = 0.0, self = 0.0;
            for (int e = 0; e < d; e++) out[e] = 0.0;
            for (int t = p; t >= 0 && (s->window == 0 || t > p - s->window); t--) {
                const float *k = st->k[seq] + ((size_t)t * (size_t)s->n_kv_heads + (size_t)(h / group)) * (size_t)d;
                const float *v = st->v[seq] + ((size_t)t * (size_t)s->n_kv_heads + (size_t)(h / group)) * (size_t)d;
                double x = 0.0;
                for (int e = d - 1; e >= 0; e--) x += (double)q[i * cols + h * d + e] * k[e];
                x *= s->scale;
                if (s->softcap > 0.0f) x = s->softcap * (1.0 - 2.0 / (exp(2.0 * x / s->softcap) + 1.0));
                if (t == p) self = x;
                double w = exp(x - self); /* of moderate size in all cases here */
                z += w;
                for (int e = 0; e < d; e++) {
                    out[e] += w * v[e];
                    most_v = fmax(most_v, fabs((double)v[e]));
                }
            }
            double tolerance = attention_tolerance(r->who, s->cache) * most_v;
            if (s->scale_values > 1.0) tolerance *= s->scale_values; /* errors of scores grow with the scores */
            for (int e = 0; e < d; e++) rig_near(found[e], out[e] / z, tolerance, name, i, h * d + e);
        }
    och_free(out);
}

static float *attention_queries(const och_op_call *c) {
    const och_tensor *q = &c->in[OCH_ATTENTION_Q];
    float *copy = och_malloc_array((size_t)(q->rows * q->cols) + 1, sizeof *copy);
    assert_non_null(copy);
    for (int64_t i = 0; i < q->rows; i++) memcpy(copy + i * q->cols, rig_row(q, i), (size_t)q->cols * sizeof *copy);
    return copy;
}

static void attention_one(rig *r, const attention_case *s, uint64_t seed) {
    char name[240];
    attention_name(s, name, sizeof name);
    rng g = {seed};
    for (int way = 0; way < 3; way++) { /* as many sequences as tokens, for all that is known; invariant; not known */
        attention_state st;
        och_op_call c;
        attention_make(r, &g, s, &st, &c);
        float *q = attention_queries(&c);
        r->n_runs = way ? 0 : c.in[OCH_ATTENTION_Q].rows;
        if (rig_ran(r, &c, way == 1, name)) attention_verify(r, s, &st, q, &c.out[0], name);
        och_free(q);
        attention_free(&st);
        rig_reset(r);
    }
}

static void attention_by_hand(rig *r) {
    /* One head of 2, blocks of 2, sequence in block 1: k = (1,0), (0,2); v = (4,8), (0,-4); q = (ln 3, 0), scale 1.
     * Position 0: v0. Position 1: scores ln 3 and 0 -> weights 3/4 and 1/4: (3, 5). */
    static const float k[] = {9, 9, 9, 9, 1, 0, 0, 2}, v[] = {9, 9, 9, 9, 4, 8, 0, -4};
    static const int32_t table[] = {1}, seqs[] = {0, 0, -1}, positions[] = {0, 1, 5};
    static const float q[] = {1.0986123f, 0, 1.0986123f, 0, 7, 7}, y[] = {4, 8, 3, 5, 0, 0};
    och_op_call c = rig_call(OCH_OP_ATTENTION);
    r->nmse = attention_nmse(OCH_DTYPE_F32);
    c.attr.attention = (och_attr_attention){{1, 2, 2}, 1, 1.0f, 0.0f, 0};
    c.in[OCH_ATTENTION_Q] = rig_f32(r, 3, 2, q);
    c.in[OCH_ATTENTION_K] = rig_f32(r, 2, 4, k);
    c.in[OCH_ATTENTION_V] = rig_f32(r, 2, 4, v);
    c.in[OCH_ATTENTION_TABLES] = rig_i32(r, 1, 1, table);
    c.in[OCH_ATTENTION_SEQS] = rig_i32(r, 3, 1, seqs);
    c.in[OCH_ATTENTION_POSITIONS] = rig_i32(r, 3, 1, positions);
    c.out[0] = rig_f32(r, 3, 2, NULL);
    double tolerance = is_reference(r->who) ? 1e-6 : is_cpu(r->who) ? 1e-4 : 8 * attention_tolerance(r->who, OCH_DTYPE_F32);
    if (rig_ran(r, &c, false, "by hand")) rig_near_all(&c.out[0], y, tolerance, "by hand");
    /* A window of one: each token sees itself alone. */
    static const float windowed[] = {4, 8, 0, -4, 0, 0};
    c.attr.attention.window = 1;
    if (rig_ran(r, &c, false, "window by hand")) rig_near_all(&c.out[0], windowed, 1e-6, "window by hand");
    rig_reset(r);
}

static void attention_cases(rig *r) {
    attention_by_hand(r);
    uint64_t seed = 20000;
    for (int i = 0; i < N_CACHES; i++) {
        och_dtype t = caches[i];
        const attention_case cases[] = {
            /* one token, one position */
            {t, 1, 1, 16, 16, 0.25f, 0, 0, 1, {1}, {1}, 0, 0, false, false, 0, 0},
            /* no token at all */
            {t, 2, 1, 16, 16, 0.25f, 0, 0, 1, {5}, {0}, 0, 0, false, false, 0, 0},
            /* prefill, decode at block edges */
            {t, 4, 2, 32, 16, 0.18f, 0, 0, 1, {33}, {33}, 0, 0, false, false, 0, 0},
            {t, 9, 3, 64, 16, 0.125f, 0, 0, 1, {16}, {1}, 0, 0, false, false, 0, 0},
            {t, 9, 3, 64, 16, 0.125f, 0, 0, 1, {17}, {1}, 0, 0, false, true, 0, 0},
            {t, 9, 3, 64, 32, 0.125f, 0, 0, 1, {95}, {2}, 0, 0, false, false, 16, 0},
            {t, 4, 1, 256, 16, 0.0625f, 0, 0, 1, {130}, {3}, 0, 0, false, false, 0, 0},
            {t, 4, 1, 256, 32, 0.0625f, 0, 20, 1, {130}, {40}, 0, 0, false, true, 0, 0},
            /* odd sizes */
            {t, 3, 3, 80, 16, 0.1118f, 0, 0, 1, {49}, {7}, 0, 0, false, false, 0, 0},
            {t, 6, 2, 96, 32, 0.1f, 0, 0, 1, {61}, {17}, 0, 0, false, false, 0, 0},
            {t, 5, 1, 17, 16, 0.24f, 0, 0, 1, {31}, {31}, 0, 0, false, false, 0, 0},
            {t, 2, 2, 40, 8, 0.16f, 0, 0, 1, {30}, {30}, 0, 0, false, false, 0, 0},
            {t, 7, 7, 128, 64, 0.088f, 0, 0, 1, {129}, {5}, 0, 0, false, false, 0, 0},
            /* long, many tokens of one sequence */
            {t, 8, 2, 64, 32, 0.125f, 0, 0, 1, {300}, {64}, 0, 0, false, false, 0, 0},
            {t, 2, 1, 32, 16, 0.18f, 0, 0, 1, {700}, {2}, 0, 0, false, false, 0, 0},
            /* softcap, and scores that peak */
            {t, 4, 2, 64, 16, 0.125f, 30.0f, 0, 1, {50}, {20}, 0, 0, false, false, 0, 0},
            {t, 4, 2, 64, 16, 0.125f, 2.0f, 0, 1, {50}, {20}, 0, 0, false, false, 0, 0},
            {t, 4, 2, 64, 16, 0.125f, 0, 0, 1, {50}, {20}, 0, 0, false, false, 0, 4.0},
            /* windows: shorter than the span, at its edge, longer; not at block edges */
            {t, 4, 2, 32, 16, 0.18f, 0, 1, 1, {40}, {40}, 0, 0, false, false, 0, 0},
            {t, 4, 2, 32, 16, 0.18f, 0, 13, 1, {40}, {40}, 0, 0, false, false, 0, 0},
            {t, 4, 2, 32, 16, 0.18f, 0, 40, 1, {40}, {2}, 0, 0, false, false, 0, 0},
            {t, 4, 2, 32, 16, 0.18f, 0, 1000, 1, {40}, {12}, 0, 0, false, false, 0, 0},
            /* rings that have wrapped: 4 blocks of 16 hold the window of 40 and the step */
            {t, 4, 1, 64, 16, 0.125f, 0, 40, 1, {64}, {1}, 4, 0, false, false, 0, 0},
            {t, 4, 1, 64, 16, 0.125f, 0, 40, 1, {65}, {1}, 4, 0, false, false, 0, 0},
            {t, 4, 1, 64, 16, 0.125f, 0, 40, 1, {100}, {20}, 4, 0, false, false, 0, 0},
            {t, 4, 1, 64, 16, 0.125f, 0, 64, 1, {333}, {1}, 4, 0, false, false, 0, 0},
            {t, 4, 1, 64, 16, 0.125f, 0, 7, 2, {333, 41}, {9, 9}, 2, 0, true, false, 0, 0},
            /* several sequences, prefill and decode mixed, padding, shuffled */
            {t, 4, 2, 32, 16, 0.18f, 0, 0, 3, {20, 33, 1}, {20, 1, 1}, 0, 3, false, false, 0, 0},
            {t, 6, 3, 64, 16, 0.125f, 0, 0, 3, {100, 17, 64}, {5, 17, 1}, 0, 2, true, false, 8, 0},
            {t, 6, 3, 64, 32, 0.125f, 50.0f, 24, 4, {64, 90, 3, 31}, {4, 8, 3, 1}, 0, 1, true, true, 0, 0},
            {t, 2, 2, 16, 16, 0.25f, 0, 0, 2, {4, 4}, {0, 0}, 0, 5, false, false, 0, 0},
        };
        for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
            attention_one(r, &cases[n], seed++);
        }
    }
    /* Contexts that are worth splitting: alone, beside a short one, with a window that ends in the middle. */
    for (int i = 0; i < N_CACHES; i++) {
        const attention_case cases[] = {
            {caches[i], 8, 2, 64, 16, 0.125f, 0, 0, 1, {4500}, {1}, 0, 0, false, false, 0, 0},
            {caches[i], 4, 1, 80, 32, 0.11f, 0, 0, 2, {3000, 5}, {2, 1}, 0, 1, true, false, 0, 0},
            {caches[i], 4, 2, 64, 32, 0.125f, 0, 2049, 1, {8192}, {1}, 0, 0, false, false, 0, 0},
        };
        for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) attention_one(r, &cases[n], seed++);
    }
}

/* A token's row does not depend on the others. */
static void attention_rows(rig *r) {
    uint64_t seed = 23000;
    for (int v = 0; v < 2 * N_CACHES; v++) {
        attention_case s = {.cache = caches[v % N_CACHES], .n_heads = 6, .n_kv_heads = v < N_CACHES ? 2 : 6,
                            .head_dim = v < N_CACHES ? 64 : 80, .block_tokens = 16, .scale = 0.125f,
                            .window = v % N_CACHES == 1 && v >= N_CACHES ? 21 : 0, .n_seqs = 3, .length = {90, 40, 7},
                            .tokens = {48, 9, 7}, .shuffle = v >= N_CACHES};
        char name[240];
        attention_name(&s, name, sizeof name);
        rng g = {seed++};
        attention_state st;
        och_op_call c;
        attention_make(r, &g, &s, &st, &c);
        static const int64_t sizes[] = {1, 2, 3, 5, 17, 33};
        if (rig_ran(r, &c, true, name))
            for (int b = 0; b < 6; b++)
                for (int64_t first = 0; first + sizes[b] <= st.n_tokens; first += b == 0 ? 7 : 31) {
                    och_op_call part = c;
                    static const int cut[] = {OCH_ATTENTION_Q, OCH_ATTENTION_SEQS, OCH_ATTENTION_POSITIONS};
                    for (int k = 0; k < 3; k++) {
                        och_tensor *t = &part.in[cut[k]];
                        t->rows = sizes[b];
                        t->host = (char *)t->host + (uint64_t)first * t->row_bytes;
                        t->addr = och_dev_addr_add(t->addr, (uint64_t)first * t->row_bytes);
                    }
                    part.out[0] = rig_tensor(r, OCH_DTYPE_F32, sizes[b], c.out[0].cols, 0);
                    assert_true(rig_ran(r, &part, true, name));
                    for (int64_t i = 0; i < sizes[b]; i++) rig_same_row(&c.out[0], first + i, &part.out[0], i, name);
                }
        attention_free(&st);
        rig_reset(r);
        /* Without the switch: the same number of tokens, in another order. */
        attention_make(r, &g, &s, &st, &c);
        if (rig_ran(r, &c, false, name)) {
            int n = st.n_tokens;
            och_op_call other = c;
            other.in[OCH_ATTENTION_Q] = rig_tensor(r, OCH_DTYPE_F32, n, c.in[OCH_ATTENTION_Q].cols, 0);
            other.in[OCH_ATTENTION_SEQS] = rig_i32(r, n, 1, NULL);
            other.in[OCH_ATTENTION_POSITIONS] = rig_i32(r, n, 1, NULL);
            other.out[0] = rig_tensor(r, OCH_DTYPE_F32, n, c.out[0].cols, 0);
            for (int i = 0; i < n; i++) {
                int to = n - 1 - i;
                memcpy(rig_row(&other.in[OCH_ATTENTION_Q], to), rig_row(&c.in[OCH_ATTENTION_Q], i),
                       (size_t)c.in[OCH_ATTENTION_Q].cols * sizeof(float));
                *rig_int(&other.in[OCH_ATTENTION_SEQS], to) = st.token_seq[i];
                *rig_int(&other.in[OCH_ATTENTION_POSITIONS], to) = st.token_pos[i];
            }
            assert_true(rig_ran(r, &other, false, name));
            for (int i = 0; i < n; i++) rig_same_row(&c.out[0], i, &other.out[0], n - 1 - i, name);
        }
        attention_free(&st);
        rig_reset(r);
    }
}

static void attention_threads(rig *r, rig *more) {
    uint64_t seed = 24000;
    for (int v = 0; v < 4; v++) {
        attention_case s = {.cache = v % 2 ? OCH_DTYPE_F16 : OCH_DTYPE_F32, .n_heads = 5, .n_kv_heads = 1, .head_dim = 64,
                            .block_tokens = 16, .scale = 0.125f, .n_seqs = 2, .length = {150, 33}, .tokens = {v < 2 ? 1 : 40, 1}};
        char name[240];
        attention_name(&s, name, sizeof name);
        attention_state a, b;
        och_op_call ca, cb;
        rng ga = {seed}, gb = {seed};
        seed++;
        attention_make(r, &ga, &s, &a, &ca);
        attention_make(more, &gb, &s, &b, &cb);
        if (rig_ran(r, &ca, v & 1, name)) {
            assert_true(rig_ran(more, &cb, v & 1, name));
            for (int i = 0; i < a.n_tokens; i++) rig_same_row(&ca.out[0], i, &cb.out[0], i, name);
        }
        attention_free(&a);
        attention_free(&b);
        rig_reset(r);
        rig_reset(more);
    }
}

/* Ids that lie: the reference names the operand and the row. */
static void attention_bad_ids(rig *r) {
    static const attention_case s = {.cache = OCH_DTYPE_F32, .n_heads = 2, .n_kv_heads = 1, .head_dim = 16, .block_tokens = 16,
                                     .scale = 0.25f, .n_seqs = 1, .length = {20}, .tokens = {2}};
    static const struct {
        int operand;
        int32_t value;
        const char *says;
    } bad[] = {
        {OCH_ATTENTION_SEQS, 1, "operand seqs"},           {OCH_ATTENTION_POSITIONS, 32, "operand positions"},
        {OCH_ATTENTION_POSITIONS, -1, "operand positions"}, {OCH_ATTENTION_TABLES, 99, "operand tables"},
        {OCH_ATTENTION_TABLES, -1, "operand tables"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        rng g = {25000};
        attention_state st;
        och_op_call c;
        och_err err;
        attention_make(r, &g, &s, &st, &c);
        *rig_int(&c.in[bad[i].operand], 0) = bad[i].value;
        assert_int_equal(rig_run(r, &c, false, &err), OCH_RANGE);
        if (!strstr(err.message, bad[i].says)) fail_msg("expected \"%s\" in: %s", bad[i].says, err.message);
        attention_free(&st);
        rig_reset(r);
    }
}

/* ---- KV_WRITE ---- */

/* The edges of E4M3: what rounds to 0 and to the least number, ties, saturation, infinities, NaN; bytes by hand. */
static void kv_write_fp8(rig *r) {
    static const struct {
        float value;
        uint8_t code;
    } edges[] = {
        {0.0f, 0x00},        {-0.0f, 0x00},        {0x1p-9f, 0x01},      {-0x1p-9f, 0x81},       {0x1p-10f, 0x00},   {-0x1p-10f, 0x00},
        {0x1.02p-10f, 0x01}, {-0x1.02p-10f, 0x81}, {0x1.8p-9f, 0x02},    {0x1.4p-8f, 0x02},      {0x1.cp-7f, 0x07},  {0x1.ep-7f, 0x08},
        {0x1p-6f, 0x08},     {1.0f, 0x38},         {1.0625f, 0x38},      {1.1875f, 0x3A},        {-1.0626f, 0xB9},   {240.0f, 0x77},
        {-240.0f, 0xF7},     {256.0f, 0x78},       {432.0f, 0x7E},       {431.0f, 0x7D},         {448.0f, 0x7E},     {449.0f, 0x7E},
        {464.0f, 0x7E},      {480.0f, 0x7E},       {1e30f, 0x7E},        {-1e30f, 0xFE},         {3e38f, 0x7E},      {1e-40f, 0x00},
        {INFINITY, 0x7F},    {-INFINITY, 0x7F},    {NAN, 0x7F},          {0x1.fffffep-10f, 0x01}, {-448.0f, 0xFE},   {0x1.fp8f, 0x7E},
    };
    enum { N = (int)(sizeof edges / sizeof edges[0]) };
    static const int32_t slot[] = {0};
    och_op_call c = rig_call(OCH_OP_KV_WRITE);
    c.attr.kv_write = (och_attr_kv){1, N, 1};
    c.in[OCH_KV_WRITE_K] = rig_f32(r, 1, N, NULL);
    c.in[OCH_KV_WRITE_V] = rig_f32(r, 1, N, NULL);
    for (int i = 0; i < N; i++) {
        rig_row(&c.in[OCH_KV_WRITE_K], 0)[i] = edges[i].value;
        rig_row(&c.in[OCH_KV_WRITE_V], 0)[N - 1 - i] = edges[i].value;
    }
    c.in[OCH_KV_WRITE_SLOTS] = rig_i32(r, 1, 1, slot);
    c.out[0] = rig_tensor(r, OCH_DTYPE_F8_E4M3, 1, N, 0);
    c.out[1] = rig_tensor(r, OCH_DTYPE_F8_E4M3, 1, N, 0);
    if (rig_ran(r, &c, false, "edges of fp8"))
        for (int i = 0; i < N; i++) {
            uint8_t k = ((const uint8_t *)c.out[0].host)[i], v = ((const uint8_t *)c.out[1].host)[N - 1 - i];
            if (k != edges[i].code || v != edges[i].code)
                fail_msg("%.9g as fp8: expected 0x%02x, found 0x%02x in K and 0x%02x in V", (double)edges[i].value, edges[i].code, k, v);
        }
    rig_reset(r);
}

/* Every code is read as what it means: softmax over one position is V. */
static void attention_fp8(rig *r) {
    enum { HD = 128 };
    static const int32_t table[] = {0}, seqs[] = {0}, positions[] = {0};
    for (int half = 0; half < 2; half++) {
        och_op_call c = rig_call(OCH_OP_ATTENTION);
        c.attr.attention = (och_attr_attention){{1, HD, 16}, 1, 1.0f, 0.0f, 0};
        c.in[OCH_ATTENTION_Q] = rig_f32(r, 1, HD, NULL);
        c.in[OCH_ATTENTION_K] = rig_tensor(r, OCH_DTYPE_F8_E4M3, 1, 16 * HD, 0);
        c.in[OCH_ATTENTION_V] = rig_tensor(r, OCH_DTYPE_F8_E4M3, 1, 16 * HD, 0);
        memset(c.in[OCH_ATTENTION_Q].host, 0, HD * sizeof(float));
        memset(c.in[OCH_ATTENTION_K].host, 0, 16 * HD);
        memset(c.in[OCH_ATTENTION_V].host, 0, 16 * HD);
        for (int e = 0; e < HD; e++) ((uint8_t *)c.in[OCH_ATTENTION_V].host)[e] = (uint8_t)(128 * half + e);
        c.in[OCH_ATTENTION_TABLES] = rig_i32(r, 1, 1, table);
        c.in[OCH_ATTENTION_SEQS] = rig_i32(r, 1, 1, seqs);
        c.in[OCH_ATTENTION_POSITIONS] = rig_i32(r, 1, 1, positions);
        c.out[0] = rig_f32(r, 1, HD, NULL);
        r->nmse = 1e-9;
        if (rig_ran(r, &c, false, "codes of fp8"))
            for (int e = 0; e < HD; e++) {
                float found = rig_row(&c.out[0], 0)[e], expected = rig_e4m3_value((uint8_t)(128 * half + e));
                if (!(isnan(found) && isnan(expected)) && !(fabs((double)found - (double)expected) <= 1e-6 * fabs((double)expected)))
                    fail_msg("code 0x%02x: expected %.9g, found %.9g", 128 * half + e, (double)expected, (double)found);
            }
        rig_reset(r);
    }
}

static void kv_write_cases(rig *r) {
    r->nmse = 0.0;
    static const och_attr_kv shapes[] = {{1, 16, 16}, {3, 64, 16}, {2, 80, 32}, {1, 256, 32}, {2, 17, 5}};
    uint64_t seed = 26000;
    for (int t = 0; t < N_CACHES; t++)
        for (int v = 0; v < 5; v++)
            for (int n = 0; n < 40; n += n < 3 ? 1 : 12) {
                const och_attr_kv kv = shapes[v];
                rng g = {seed++};
                int n_blocks = (n + kv.block_tokens - 1) / kv.block_tokens + 3, cols = kv.n_kv_heads * kv.head_dim;
                och_op_call c = rig_call(OCH_OP_KV_WRITE);
                c.attr.kv_write = kv;
                c.in[OCH_KV_WRITE_K] = rig_random(r, &g, n, cols, 2.0, v == 1 ? 32 : 0);
                c.in[OCH_KV_WRITE_V] = rig_random(r, &g, n, cols, 2.0, v == 1 ? 64 : 0);
                c.in[OCH_KV_WRITE_SLOTS] = rig_i32(r, n, 1, NULL);
                /* Distinct slots: a multiple of 7 is coprime to the slots unless their number is too. */
                int n_slots = n_blocks * kv.block_tokens, step = n_slots % 7 ? 7 : 1;
                for (int i = 0; i < n; i++)
                    *rig_int(&c.in[OCH_KV_WRITE_SLOTS], i) = i % 5 == 3 ? -1 - i : (i * step + 2) % n_slots;
                c.out[0] = rig_tensor(r, caches[t], n_blocks, (int64_t)cols * kv.block_tokens, 0);
                c.out[1] = rig_tensor(r, caches[t], n_blocks, (int64_t)cols * kv.block_tokens, 0);
                if (!rig_ran(r, &c, false, "kv_write")) {
                    rig_reset(r);
                    continue;
                }
                och_tensor ek = rig_tensor(r, caches[t], n_blocks, (int64_t)cols * kv.block_tokens, 0);
                och_tensor ev = rig_tensor(r, caches[t], n_blocks, (int64_t)cols * kv.block_tokens, 0);
                for (int i = 0; i < n; i++) {
                    int slot = *rig_int(&c.in[OCH_KV_WRITE_SLOTS], i);
                    for (int h = 0; slot >= 0 && h < kv.n_kv_heads; h++)
                        for (int e = 0; e < kv.head_dim; e++) {
                            cache_set(&ek, k_index(&kv, slot / kv.block_tokens, h, slot % kv.block_tokens, e),
                                      rig_row(&c.in[OCH_KV_WRITE_K], i)[h * kv.head_dim + e]);
                            cache_set(&ev, v_index(&kv, slot / kv.block_tokens, h, slot % kv.block_tokens, e),
                                      rig_row(&c.in[OCH_KV_WRITE_V], i)[h * kv.head_dim + e]);
                        }
                }
                size_t size = (size_t)((uint64_t)n_blocks * ek.row_bytes);
                assert_memory_equal(c.out[0].host, ek.host, size);
                assert_memory_equal(c.out[1].host, ev.host, size);
                rig_reset(r);
            }
    if (is_reference(r->who)) {
        och_op_call c = rig_call(OCH_OP_KV_WRITE);
        och_err err;
        static const int32_t slot[] = {32};
        static const float kv[] = {1, 2};
        c.attr.kv_write = (och_attr_kv){1, 2, 16};
        c.in[OCH_KV_WRITE_K] = c.in[OCH_KV_WRITE_V] = rig_f32(r, 1, 2, kv);
        c.in[OCH_KV_WRITE_SLOTS] = rig_i32(r, 1, 1, slot);
        c.out[0] = rig_tensor(r, OCH_DTYPE_F16, 2, 32, 0);
        c.out[1] = rig_tensor(r, OCH_DTYPE_F16, 2, 32, 0);
        assert_int_equal(rig_run(r, &c, false, &err), OCH_RANGE);
        assert_non_null(strstr(err.message, "operand slots: row 0"));
        rig_reset(r);
    }
}

/* ---- QKV_POST ---- */

/* Of the largest element of a head: norm, rotation. */
static double qkv_relative(const subject *who) { return is_reference(who) ? 3e-7 : 4e-6; }

/* Norm by pow and division, rotation as a complex product; then the cache's rounding is the caller's. */
static void oracle_head(const float *x, const float *norm, bool add_one, double eps, const float *table,
                        const och_attr_rope *rope, double *out) {
    int d = rope->head_dim, half = rope->rot_dim / 2;
    double mean = 0.0;
    for (int e = 0; e < d; e++) mean += pow(x[e], 2.0) / d;
    for (int e = 0; e < d; e++) out[e] = norm ? x[e] / sqrt(mean + eps) * (norm[e] + (add_one ? 1.0 : 0.0)) : x[e];
    for (int e = 0; e < half; e++) {
        int a = rope->style == OCH_ROPE_HALF ? e : 2 * e, b = rope->style == OCH_ROPE_HALF ? e + half : 2 * e + 1;
        double re = out[a], im = out[b];
        out[a] = re * table[e] - im * table[half + e];
        out[b] = re * table[half + e] + im * table[e];
    }
}

static och_tensor rope_table(rig *r, rng *g, int64_t n, int rot_dim) {
    och_tensor t = rig_tensor(r, OCH_DTYPE_F32, n, rot_dim, 0);
    for (int64_t i = 0; i < n; i++)
        for (int e = 0; e < rot_dim / 2; e++) {
            double angle = 100.0 * rng_unit(g);
            rig_row(&t, i)[e] = (float)cos(angle);
            rig_row(&t, i)[rot_dim / 2 + e] = (float)sin(angle);
        }
    return t;
}

static double cache_ulp(och_dtype t, double x) {
    if (t == OCH_DTYPE_F32) return 0.0;
    if (t == OCH_DTYPE_F8_E4M3) return fmax(fabs(x) * 0x1p-3, 0x1p-9);
    return fabs(x) * (t == OCH_DTYPE_F16 ? 0x1p-10 : 0x1p-7) + 1e-7;
}

static void qkv_post_cases(rig *r) {
    static const struct {
        int heads, kv_heads, dim, rot, block;
        och_rope_style style;
        int norms; /* 1: q, 2: k, 4: add one */
    } shapes[] = {
        {9, 3, 64, 64, 16, OCH_ROPE_INTERLEAVED, 0}, {4, 1, 256, 256, 32, OCH_ROPE_HALF, 7}, {2, 2, 80, 80, 16, OCH_ROPE_HALF, 3},
        {6, 2, 96, 48, 16, OCH_ROPE_HALF, 0},        {3, 1, 16, 6, 8, OCH_ROPE_INTERLEAVED, 1}, {2, 1, 17, 2, 5, OCH_ROPE_HALF, 2},
        {2, 1, 32, 0, 16, OCH_ROPE_HALF, 3},         {8, 2, 128, 64, 32, OCH_ROPE_HALF, 7}, {4, 2, 64, 32, 16, OCH_ROPE_INTERLEAVED, 3},
    };
    uint64_t seed = 28000;
    for (int t = 0; t < N_CACHES; t++)
        for (size_t v = 0; v < sizeof shapes / sizeof shapes[0]; v++)
            for (int n = 0; n < (shapes[v].dim % 64 ? 20 : 100); n = n < 3 ? n + 1 : n * 5 + 2) { /* of whole lines: many tokens too */
                rng g = {seed++};
                /* Of y far less; a cache may round the other way where two numbers are equally near. */
                r->nmse = caches[t] == OCH_DTYPE_F8_E4M3 ? 1e-3 : 1e-7;
                const och_attr_kv kv = {shapes[v].kv_heads, shapes[v].dim, shapes[v].block};
                const och_attr_rope rope = {shapes[v].heads, shapes[v].dim, shapes[v].rot, shapes[v].style};
                int q_cols = rope.n_heads * rope.head_dim, kv_cols = kv.n_kv_heads * kv.head_dim;
                int n_blocks = n / kv.block_tokens + 2;
                bool in_place = v % 2;
                och_op_call c = rig_call(OCH_OP_QKV_POST);
                c.attr.qkv_post.kv = kv;
                c.attr.qkv_post.rope = rope;
                c.attr.qkv_post.norm = (och_attr_rms_norm){1e-6f, (shapes[v].norms & 4) != 0};
                och_tensor q = rig_random(r, &g, n, q_cols, 1.5, 0), q0 = rig_tensor(r, OCH_DTYPE_F32, n, q_cols, 0);
                if (n) memcpy(q0.host, q.host, (size_t)(n * q_cols) * sizeof(float));
                c.in[OCH_QKV_POST_Q] = q;
                c.in[OCH_QKV_POST_K] = rig_random(r, &g, n, kv_cols, 1.5, 0);
                c.in[OCH_QKV_POST_V] = rig_random(r, &g, n, kv_cols, 1.5, v && shapes[v].dim % 64 == 0 ? 32 : 24);
                if (shapes[v].norms & 1) c.in[OCH_QKV_POST_QNORM] = rig_random(r, &g, 1, kv.head_dim, 1.0, 0);
                if (shapes[v].norms & 2) c.in[OCH_QKV_POST_KNORM] = rig_random(r, &g, 1, kv.head_dim, 1.0, 0);
                c.in[OCH_QKV_POST_TABLE] = rope_table(r, &g, n, rope.rot_dim);
                c.in[OCH_QKV_POST_SLOTS] = rig_i32(r, n, 1, NULL);
                for (int i = 0; i < n; i++)
                    *rig_int(&c.in[OCH_QKV_POST_SLOTS], i) = i == 4 ? -1 : n_blocks * kv.block_tokens - 1 - i;
                c.out[0] = in_place ? q : rig_tensor(r, OCH_DTYPE_F32, n, q_cols, 0);
                c.out[1] = rig_tensor(r, caches[t], n_blocks, (int64_t)kv_cols * kv.block_tokens, 0);
                c.out[2] = rig_tensor(r, caches[t], n_blocks, (int64_t)kv_cols * kv.block_tokens, 0);
                if (!rig_ran(r, &c, false, "qkv_post")) {
                    rig_reset(r);
                    continue;
                }
                double head[256];
                const float *qn = shapes[v].norms & 1 ? rig_row(&c.in[OCH_QKV_POST_QNORM], 0) : NULL;
                const float *kn = shapes[v].norms & 2 ? rig_row(&c.in[OCH_QKV_POST_KNORM], 0) : NULL;
                bool one = (shapes[v].norms & 4) != 0;
                for (int i = 0; i < n; i++) {
                    const float *table = rig_row(&c.in[OCH_QKV_POST_TABLE], i);
                    for (int h = 0; h < rope.n_heads; h++) {
                        oracle_head(rig_row(&q0, i) + h * rope.head_dim, qn, one, (double)1e-6f, table, &rope, head);
                        double most = 0.0;
                        for (int e = 0; e < rope.head_dim; e++) most = fmax(most, fabs(head[e]));
                        for (int e = 0; e < rope.head_dim; e++)
                            rig_near(rig_row(&c.out[0], i)[h * rope.head_dim + e], head[e], qkv_relative(r->who) * most, "qkv_post y",
                                     i, h * rope.head_dim + e);
                    }
                    int slot = *rig_int(&c.in[OCH_QKV_POST_SLOTS], i);
                    for (int h = 0; slot >= 0 && h < kv.n_kv_heads; h++) {
                        oracle_head(rig_row(&c.in[OCH_QKV_POST_K], i) + h * kv.head_dim, kn, one, (double)1e-6f, table, &rope,
                                    head);
                        double most = 0.0;
                        for (int e = 0; e < kv.head_dim; e++) most = fmax(most, fabs(head[e]));
                        for (int e = 0; e < kv.head_dim; e++) {
                            uint64_t ki = k_index(&kv, slot / kv.block_tokens, h, slot % kv.block_tokens, e);
                            uint64_t vi = v_index(&kv, slot / kv.block_tokens, h, slot % kv.block_tokens, e);
                            rig_near(cache_get(&c.out[1], ki), head[e], qkv_relative(r->who) * most + cache_ulp(caches[t], head[e]),
                                     "qkv_post k", i, h * kv.head_dim + e);
                            float v_in = rig_row(&c.in[OCH_QKV_POST_V], i)[h * kv.head_dim + e];
                            rig_near(cache_get(&c.out[2], vi), cache_round(caches[t], v_in), 0.0, "qkv_post v", i,
                                     h * kv.head_dim + e);
                        }
                    }
                }
                /* No slot is in block 0. */
                for (uint64_t i = 0; i < c.out[1].row_bytes; i++) {
                    assert_int_equal(((const uint8_t *)c.out[1].host)[i], RIG_FILL);
                    assert_int_equal(((const uint8_t *)c.out[2].host)[i], RIG_FILL);
                }
                rig_reset(r);
            }
}

#endif
