/* Rows that are handed on as codes (op/op.h): to the bit what act_q8 makes of the rows, which are then neither written nor read;
 * with more rows than those are for, as if there were none. */
#ifndef OCH_TESTS_OPS_CODES_H
#define OCH_TESTS_OPS_CODES_H

#include "conform/support/ops_attention.h"
#include "conform/support/ops_fused.h"

#include "base/env.h"
#include "base/size.h"
#include "op/gpu/gpu.h"
#include "op/registry.h"
#include "quant/planes.h"

static och_tensor codes_tensor(rig *r, int64_t k) {
    uint64_t row;
    assert_true(och_planes_act_row_bytes((uint64_t)k, &row));
    return rig_tensor(r, OCH_DTYPE_U8, OCH_OP_CODES_ROWS, (int64_t)row, 0);
}

static void codes_ran(rig *r, och_op_call *c, bool invariant, const char *what) {
    r->no_twin = true;
    assert_true(rig_ran(r, c, invariant, what));
    r->no_twin = false;
}

static bool codes_untouched(const och_tensor *t, int64_t from_row) {
    const uint8_t *at = t->host;
    for (uint64_t i = (uint64_t)from_row * t->row_bytes; i < (uint64_t)t->rows * t->row_bytes; i++)
        if (at[i] != RIG_FILL) return false;
    return true;
}

/* `found` holds the codes of the first rows of y. */
static void codes_match(rig *r, const och_tensor *y, const och_tensor *found, const char *what) {
    och_err err;
    och_err_clear(&err);
    och_tensor codes = codes_tensor(r, y->cols);
    rig_mem *from = rig_find(r, y->host), *to = rig_find(r, codes.host);
    const och_device_vtable *v = r->dev->vtable;
    const och_op_ctx ctx = {.queue = r->queue};
    rig_mem *both[] = {from, to}; /* between planes there is what was there before */
    for (int i = 0; i < 2; i++)
        if (both[i]->mirror)
            rig_ok(v->copy_to_device(r->queue, both[i]->buf.addr, both[i]->mirror, both[i]->buf.size_bytes, &err), &err, what);
    rig_ok(och_gpu_codes_of(&ctx, y, &codes, &err), &err, what);
    rig_ok(v->synchronise(r->queue, &err), &err, what);
    if (to->mirror) {
        rig_ok(v->copy_to_host(r->queue, to->mirror, to->buf.addr, (uint64_t)y->rows * codes.row_bytes, &err), &err, what);
        rig_ok(v->synchronise(r->queue, &err), &err, what);
    }
    if (memcmp(codes.host, found->host, (size_t)((uint64_t)y->rows * codes.row_bytes)) != 0)
        fail_msg("%s: codes that are not act_q8's", what);
    if (!codes_untouched(found, y->rows)) fail_msg("%s: codes of rows that are none", what);
}

/* Before the device's first kernel is asked for. */
static bool codes_begin(rig *r, och_op_id op) {
    const och_op_provider *p = rig_provider(r, op);
    if (!p || !p->takes_codes) {
        rig_skips("provider %s takes no codes", r->who->provider);
        skip();
    }
    return och_env_set("OCHRE_NEXT_CODES", "1");
}

typedef struct codes_case {
    och_dtype up, down;
    och_act act;
    int64_t k, m;
    bool norm, bias, odd, invariant;
} codes_case;

static void codes_linear(rig *r) {
    static const codes_case cases[] = {
        {OCH_DTYPE_Q4_K, OCH_DTYPE_Q6_K, OCH_ACT_SILU, 512, 256, true, false, false, false},
        {OCH_DTYPE_Q8_0, OCH_DTYPE_Q8_0, OCH_ACT_GELU_TANH, 96, 96, false, true, false, false},
        {OCH_DTYPE_Q4_0, OCH_DTYPE_Q4_1, OCH_ACT_SILU, 1088, 32, true, true, false, true},
        {OCH_DTYPE_Q8_0, OCH_DTYPE_Q4_0, OCH_ACT_SILU, 160, 64, false, false, true, false},
    };
    static const int64_t rows[] = {1, 2, 4, 5, 8, 9};
    assert_true(codes_begin(r, OCH_OP_LINEAR));
    for (size_t i = 0; i < OCH_COUNT(cases) * OCH_COUNT(rows); i++) {
        const codes_case *s = &cases[i / OCH_COUNT(rows)];
        int64_t n = rows[i % OCH_COUNT(rows)];
        rng g = {60000 + i};
        char name[96];
        snprintf(name, sizeof name, "%s then %s, k %lld, m %lld, %lld rows", och_dtype_name(s->up), och_dtype_name(s->down),
                 (long long)s->k, (long long)s->m, (long long)n);
        och_op_call up = linear_call(rig_random(r, &g, n, s->k, 1.0, 0), rig_weight(r, &g, s->up, s->m, s->k, 0.2));
        up.in[OCH_LINEAR_W0 + 1] = rig_weight(r, &g, s->up, s->m, s->k, 0.2);
        up.attr.linear.n_weights = 2;
        up.attr.linear.glu = s->act;
        if (s->norm) up.in[OCH_LINEAR_NORM] = rig_random(r, &g, 1, s->k, 1.0, 0), up.attr.linear.norm.eps = 1e-5f;
        for (int b = 0; s->bias && b < 2; b++) up.in[OCH_LINEAR_B0 + b] = rig_random(r, &g, 1, s->m, 1.0, 0);
        /* One output, of one row: others' codes are what they were. */
        if (s->odd) rig_row(&up.in[OCH_LINEAR_X], n - 1)[3] = n % 2 ? INFINITY : NAN;
        up.out[0] = rig_tensor(r, OCH_DTYPE_F32, n, s->m, 0);
        och_op_call plain = up;
        codes_ran(r, &plain, s->invariant, name);

        och_tensor codes = codes_tensor(r, s->m);
        up.out[0] = rig_tensor(r, OCH_DTYPE_F32, n, s->m, 0);
        up.out[OCH_LINEAR_YCODES] = codes;
        codes_ran(r, &up, s->invariant, name);
        bool coded = n <= OCH_OP_CODES_ROWS;
        /* more rows take a launch for them */
        if (n <= 4 && !codes_untouched(&up.out[0], 0)) fail_msg("%s: rows beside their codes", name);
        if (!coded && !codes_untouched(&codes, 0)) fail_msg("%s: codes beside rows", name);
        if (coded) codes_match(r, &plain.out[0], &codes, name);
        else same_rows(&plain.out[0], &up.out[0], name);

        och_op_call down = linear_call(plain.out[0], rig_weight(r, &g, s->down, 40, s->m, 0.2));
        down.in[OCH_LINEAR_RESIDUAL] = rig_random(r, &g, n, 40, 1.0, 0);
        down.out[0] = rig_tensor(r, OCH_DTYPE_F32, n, 40, 0);
        och_op_call next = down;
        codes_ran(r, &down, s->invariant, name);
        next.in[OCH_LINEAR_X] = coded ? rig_tensor(r, OCH_DTYPE_F32, n, s->m, 0) : up.out[0]; /* of what tensors are filled with */
        next.in[OCH_LINEAR_XCODES] = codes;
        next.out[0] = rig_tensor(r, OCH_DTYPE_F32, n, 40, 0);
        codes_ran(r, &next, s->invariant, name);
        same_rows(&down.out[0], &next.out[0], name);
        rig_reset(r);
    }
}

/* ---- codes through a norm ---- */

typedef struct normed_codes_case {
    och_dtype w, v;   /* of what writes, and of what reads: of v's weights where there are three */
    int n_weights;    /* of the reader; two: a gate */
    int64_t k, m;
    bool add_one, coded, bias;
} normed_codes_case;

static const normed_codes_case normed_codes_cases[] = {
    {OCH_DTYPE_Q4_K, OCH_DTYPE_Q6_K, 3, 512, 256, false, true, false},
    {OCH_DTYPE_Q8_0, OCH_DTYPE_Q8_0, 2, 96, 160, true, false, true},
    {OCH_DTYPE_Q4_0, OCH_DTYPE_Q4_0, 1, 1088, 608, false, true, true},
    {OCH_DTYPE_Q5_1, OCH_DTYPE_Q5_1, 3, 160, 32, true, false, false},
    /* What may go by way of LDS (kernels/ring.ok), of either wave. */
    {OCH_DTYPE_Q4_K, OCH_DTYPE_Q4_K, 3, 2048, 2048, false, true, false},
    {OCH_DTYPE_Q8_0, OCH_DTYPE_Q8_0, 2, 512, 2048, true, false, true},
};

/* Codes are those of y through the norm, and the squares y's. */
static void normed_match(const och_tensor *y, const och_op_call *c, const char *what) {
    static float row[2048], decoded[2048], expected[2048];
    const float *w = c->in[OCH_LINEAR_YNORM].host, *at = rig_row(y, 0);
    och_tensor codes;
    uint64_t squares;
    int64_t m = y->cols;
    assert_true(m <= 2048 && och_op_normed_codes(m, &codes, &squares));
    for (int64_t j = 0; j < m; j++) row[j] = at[j] * (w[j] + (c->attr.linear.ynorm_add_one ? 1.0f : 0.0f));
    char *encoded = och_malloc_array(codes.row_bytes, 1);
    assert_non_null(encoded);
    och_planes_act_encode_row(row, (uint64_t)m, encoded);
    och_planes_act_decode_row(encoded, (uint64_t)m, expected);
    och_free(encoded);
    och_planes_act_decode_row(c->out[OCH_LINEAR_YCODES].host, (uint64_t)m, decoded);
    for (int64_t b = 0; b < m / 32; b++) {
        double all = 0, top = 0;
        for (int64_t j = 32 * b; j < 32 * b + 32; j++) all += (double)at[j] * at[j], top = fmax(top, fabs((double)row[j]));
        for (int64_t j = 32 * b; j < 32 * b + 32; j++) /* what lies between two codes may go to either */
            if (!(fabs((double)decoded[j] - expected[j]) <= 1.001 * top / 127))
                fail_msg("%s: element %lld: expected %.9g, found %.9g", what, (long long)j, (double)expected[j], (double)decoded[j]);
        float found;
        memcpy(&found, (const char *)c->out[OCH_LINEAR_YCODES].host + squares + 4 * b, 4);
        if (!(fabs(found - all) <= 1e-6 * all)) fail_msg("%s: squares of block %lld: expected %.9g, found %.9g", what, (long long)b, all, (double)found);
    }
}

static och_op_call normed_reader(rig *r, rng *g, const normed_codes_case *s, och_tensor x, och_tensor norm) {
    static const int64_t rows[] = {64, 96, 32};
    och_op_call c = linear_call(x, rig_weight(r, g, s->w, rows[0], s->m, 0.2));
    c.in[OCH_LINEAR_NORM] = norm;
    c.attr.linear.norm = (och_attr_rms_norm){1e-5f, s->add_one};
    c.attr.linear.n_weights = s->n_weights;
    c.attr.linear.glu = s->n_weights == 2 ? OCH_ACT_SILU : OCH_ACT_NONE;
    for (int i = 1; i < s->n_weights; i++)
        c.in[OCH_LINEAR_W0 + i] = rig_weight(r, g, i == 2 ? s->v : s->w, s->n_weights == 2 ? rows[0] : rows[i], s->m, 0.2);
    for (int i = 0; i < s->n_weights && s->bias; i++) c.in[OCH_LINEAR_B0 + i] = rig_random(r, g, 1, c.in[OCH_LINEAR_W0 + i].rows, 1.0, 0);
    return c;
}

static void normed_outputs(rig *r, och_op_call *c) {
    for (int i = 0; i < (c->attr.linear.glu == OCH_ACT_NONE ? c->attr.linear.n_weights : 1); i++)
        c->out[i] = rig_tensor(r, OCH_DTYPE_F32, c->in[OCH_LINEAR_X].rows, c->in[OCH_LINEAR_W0 + i].rows, 0);
}

/* What was made by codes through a norm against what was made of the normed row's: of a few numbers they are the next ones. */
static void normed_near(const float *found, const float *expected, int64_t n, double bound, const char *what) {
    double error = 0, all = 0;
    for (int64_t j = 0; j < n; j++) {
        error += pow((double)found[j] - expected[j], 2);
        all += pow((double)expected[j], 2);
    }
    if (!(error <= bound * all)) fail_msg("%s: an error of %.3g of %.3g", what, error, all);
}

static void codes_normed(rig *r, const char *wish) {
    bool asked = strcmp(wish, "0") != 0;
    assert_true(codes_begin(r, OCH_OP_LINEAR));
    assert_true(och_env_set("OCHRE_NORM_CODES", wish) && och_env_set("OCHRE_OWN_CODES", "0"));
    r->unasked = !asked;
    for (size_t i = 0; i < OCH_COUNT(normed_codes_cases); i++)
        for (int way = 0; way < 3; way++) { /* one row, two, one as among others */
            const normed_codes_case *s = &normed_codes_cases[i];
            int64_t n = way == 1 ? 2 : 1;
            bool invariant = way == 2, takes = way == 0;
            rng g = {63000 + i};
            char name[96];
            snprintf(name, sizeof name, "%s through a norm, %d weights, m %lld, way %d", och_dtype_name(s->w), s->n_weights, (long long)s->m, way);
            och_op_call plain = linear_call(rig_random(r, &g, n, s->k, 1.0, 0), rig_weight(r, &g, s->w, s->m, s->k, 0.2));
            if (s->coded) {
                plain.in[OCH_LINEAR_XCODES] = codes_tensor(r, s->k);
                for (int64_t row = 0; row < n; row++)
                    och_planes_act_encode_row(rig_row(&plain.in[OCH_LINEAR_X], row), (uint64_t)s->k,
                                              (char *)plain.in[OCH_LINEAR_XCODES].host + (uint64_t)row * plain.in[OCH_LINEAR_XCODES].row_bytes);
            }
            plain.in[OCH_LINEAR_RESIDUAL] = rig_random(r, &g, n, s->m, 1.0, 0);
            if (s->bias) plain.in[OCH_LINEAR_B0] = rig_random(r, &g, 1, s->m, 1.0, 0);
            och_op_call writes = plain;
            plain.out[0] = rig_tensor(r, OCH_DTYPE_F32, n, s->m, 0);
            codes_ran(r, &plain, invariant, name);
            och_tensor t;
            uint64_t squares;
            assert_true(och_op_normed_codes(s->m, &t, &squares));
            writes.out[0] = writes.in[OCH_LINEAR_RESIDUAL]; /* where a residual stream lies */
            writes.out[OCH_LINEAR_YCODES] = rig_tensor(r, OCH_DTYPE_U8, 1, t.cols, 0);
            writes.in[OCH_LINEAR_YNORM] = rig_random(r, &g, 1, s->m, 1.0, 0);
            writes.attr.linear.ynorm_add_one = s->add_one;
            codes_ran(r, &writes, invariant, name);
            /* y is the product, whose sums a cut of its own may take in another order. */
            if (!takes) same_rows(&plain.out[0], &writes.out[0], name);
            else for (int64_t c = 0; c < s->m; c++) rig_near(rig_row(&writes.out[0], 0)[c], rig_row(&plain.out[0], 0)[c], 1e-5 * (1.0 + fabs((double)rig_row(&plain.out[0], 0)[c])), name, 0, c);
            if (takes) normed_match(&writes.out[0], &writes, name);
            else assert_true(codes_untouched(&writes.out[OCH_LINEAR_YCODES], 0));

            och_op_call reads = normed_reader(r, &g, s, plain.out[0], writes.in[OCH_LINEAR_YNORM]), coded = reads;
            normed_outputs(r, &reads);
            codes_ran(r, &reads, invariant, name);
            coded.in[OCH_LINEAR_XCODES] = writes.out[OCH_LINEAR_YCODES];
            if (asked && takes) coded.in[OCH_LINEAR_X] = rig_tensor(r, OCH_DTYPE_F32, n, s->m, 0); /* of what tensors are filled with */
            normed_outputs(r, &coded);
            if (s->n_weights == 2) coded.out[OCH_LINEAR_YCODES] = codes_tensor(r, coded.out[0].cols);
            codes_ran(r, &coded, invariant, name);
            for (int o = 0; o < (s->n_weights == 2 ? 1 : s->n_weights); o++)
                for (int64_t row = 0; row < n; row++) {
                    static float decoded[128];
                    const float *found = rig_row(&coded.out[o], row);
                    if (s->n_weights == 2) {
                        och_planes_act_decode_row((const char *)coded.out[OCH_LINEAR_YCODES].host + (uint64_t)row * coded.out[OCH_LINEAR_YCODES].row_bytes,
                                                  (uint64_t)coded.out[0].cols, decoded);
                        found = decoded;
                    }
                    normed_near(found, rig_row(&reads.out[o], row), reads.out[o].cols, s->n_weights == 2 ? 1e-3 : 1e-6, name);
                    if (s->n_weights != 2 && !(asked && takes)) rig_same_row(&reads.out[o], row, &coded.out[o], row, name);
                }
            rig_reset(r);
        }
    r->unasked = false;
    assert_true(och_env_set("OCHRE_NORM_CODES", NULL) && och_env_set("OCHRE_OWN_CODES", NULL));
}

static void codes_through_norms(rig *r) { codes_normed(r, "1"); }
/* A row with a number that is none leaves none of the next product's numbers finite, as its norm would. */
static void codes_through_norms_odd(rig *r) {
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    assert_true(codes_begin(r, OCH_OP_LINEAR));
    assert_true(och_env_set("OCHRE_NORM_CODES", "1") && och_env_set("OCHRE_OWN_CODES", "0"));
    for (int i = 0; i < 6; i++) {
        const normed_codes_case *s = &normed_codes_cases[i < 3 ? 0 : 2];
        rng g = {64000 + (uint64_t)i};
        och_op_call writes = linear_call(rig_random(r, &g, 1, s->k, 1.0, 0), rig_weight(r, &g, s->w, s->m, s->k, 0.2));
        och_tensor codes;
        uint64_t squares;
        assert_true(och_op_normed_codes(s->m, &codes, &squares));
        writes.in[OCH_LINEAR_RESIDUAL] = rig_random(r, &g, 1, s->m, 1.0, 0);
        rig_row(&writes.in[OCH_LINEAR_RESIDUAL], 0)[s->m - 7] = odd[i % 3];
        writes.in[OCH_LINEAR_YNORM] = rig_random(r, &g, 1, s->m, 1.0, 0);
        writes.out[0] = rig_tensor(r, OCH_DTYPE_F32, 1, s->m, 0);
        writes.out[OCH_LINEAR_YCODES] = rig_tensor(r, OCH_DTYPE_U8, 1, codes.cols, 0);
        codes_ran(r, &writes, false, "an odd row");
        och_op_call reads = normed_reader(r, &g, s, writes.out[0], writes.in[OCH_LINEAR_YNORM]);
        reads.in[OCH_LINEAR_XCODES] = writes.out[OCH_LINEAR_YCODES];
        normed_outputs(r, &reads);
        codes_ran(r, &reads, false, "an odd row");
        for (int o = 0; o < s->n_weights; o++)
            for (int64_t j = 0; j < reads.out[o].cols; j++)
                if (isfinite(rig_row(&reads.out[o], 0)[j])) fail_msg("case %d: result %d, column %lld is finite", i, o, (long long)j);
        rig_reset(r);
    }
    assert_true(och_env_set("OCHRE_NORM_CODES", NULL) && och_env_set("OCHRE_OWN_CODES", NULL));
}

/* Without the kernels (nobody asked for them) records do the same in more launches. */
static void codes_through_norms_without(rig *r) { codes_normed(r, "0"); }

/* Nothing asked: a gate makes codes where each compute unit has a workgroup's blocks. */
static void codes_default(rig *r) {
    const och_op_provider *p = rig_provider(r, OCH_OP_LINEAR);
    assert_true(och_env_set("OCHRE_NEXT_CODES", NULL));
    if (!p || !p->takes_codes || !strcmp(p->name, "blas")) skip();
    for (int v = 0; v < 4; v++) {
        static const int64_t rows[] = {1, 4, 8, 1};
        int64_t m = 32 * ((int64_t)r->dev->info.n_compute_units - v / 3);
        rng g = {62000 + (uint64_t)v};
        och_op_call c = linear_call(rig_random(r, &g, rows[v], 32, 1.0, 0), rig_weight(r, &g, OCH_DTYPE_Q8_0, m, 32, 0.2));
        c.in[OCH_LINEAR_W0 + 1] = rig_weight(r, &g, OCH_DTYPE_Q8_0, m, 32, 0.2);
        c.attr.linear.n_weights = 2;
        c.attr.linear.glu = OCH_ACT_SILU;
        c.out[0] = rig_tensor(r, OCH_DTYPE_F32, rows[v], m, 0);
        och_op_call plain = c;
        r->nmse = 5e-4;
        assert_true(rig_ran(r, &plain, false, "a gate"));
        rig_pack(r, p, &c);
        c.out[0] = rig_tensor(r, OCH_DTYPE_F32, rows[v], m, 0);
        c.out[OCH_LINEAR_YCODES] = codes_tensor(r, m);
        och_err err = {0};
        och_status st = och_op_provider_supports(p, r->dev, &c, &err);
        if (st != (v == 3 ? OCH_UNSUPPORTED : OCH_OK)) fail_msg("%lld rows of weights: %s", (long long)m, och_status_name(st));
        if (st == OCH_OK) {
            codes_ran(r, &c, false, "a gate, as codes");
            codes_match(r, &plain.out[0], &c.out[OCH_LINEAR_YCODES], "a gate, as codes");
        }
        rig_reset(r);
    }
}

static void codes_attention(rig *r) {
    static const attention_case cases[] = {
        {.cache = OCH_DTYPE_F16, .n_heads = 4, .n_kv_heads = 2, .head_dim = 64, .block_tokens = 16, .scale = 0.125f, .n_seqs = 1,
         .length = {70}, .tokens = {1}},
        {.cache = OCH_DTYPE_F32, .n_heads = 2, .n_kv_heads = 1, .head_dim = 96, .block_tokens = 32, .scale = 0.1f, .window = 40,
         .n_seqs = 3, .length = {129, 7, 64}, .tokens = {2, 1, 3}, .n_padding = 2, .shuffle = true, .in_place = true},
        {.cache = OCH_DTYPE_BF16, .n_heads = 4, .n_kv_heads = 4, .head_dim = 128, .block_tokens = 32, .scale = 0.09f, .softcap = 20.0f,
         .n_seqs = 2, .length = {600, 33}, .tokens = {1, 3}},
        {.cache = OCH_DTYPE_F16, .n_heads = 2, .n_kv_heads = 2, .head_dim = 32, .block_tokens = 16, .scale = 0.2f, .n_seqs = 1,
         .length = {40}, .tokens = {9}},
    };
    assert_true(codes_begin(r, OCH_OP_ATTENTION));
    for (size_t i = 0; i < OCH_COUNT(cases); i++) {
        char name[192];
        attention_state st;
        och_op_call c;
        rng g = {61000 + i};
        attention_make(r, &g, &cases[i], &st, &c);
        attention_name(&cases[i], name, sizeof name);
        och_op_call coded = c;
        och_tensor q = c.in[OCH_ATTENTION_Q];
        int64_t n = q.rows;
        c.out[0] = rig_tensor(r, OCH_DTYPE_F32, n, q.cols, 0);
        assert_true(rig_ran(r, &c, false, name));
        och_tensor codes = codes_tensor(r, q.cols);
        if (!cases[i].in_place) coded.out[0] = rig_tensor(r, OCH_DTYPE_F32, n, q.cols, 0);
        coded.out[OCH_ATTENTION_YCODES] = codes;
        codes_ran(r, &coded, false, name);
        if (n > OCH_OP_CODES_ROWS) {
            assert_true(codes_untouched(&codes, 0));
            same_rows(&c.out[0], &coded.out[0], name);
        } else {
            assert_true(cases[i].in_place || codes_untouched(&coded.out[0], 0));
            codes_match(r, &c.out[0], &codes, name);
        }
        attention_free(&st);
        rig_reset(r);
    }
}

#endif
