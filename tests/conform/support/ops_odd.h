/* NaN and infinities that a caller hands in: where the reference's result is not finite a provider's is not, and the others are
 * the ones that they are without them. And what attention asks for in scratch, by a plan of a long context. */
#ifndef OCH_TESTS_OPS_ODD_H
#define OCH_TESTS_OPS_ODD_H

#include "conform/support/ops_attention.h"
#include "conform/support/ops_linear.h"

#include "op/plan.h"

static const float odd_numbers[] = {NAN, INFINITY, -INFINITY};
static const char *const odd_names[] = {"nan", "inf", "-inf"};
enum { N_ODD = 3 };

/* Rows of y of which something is not finite. */
static int odd_rows(const och_tensor *y) {
    int n = 0;
    for (int64_t i = 0; i < y->rows; i++) {
        bool odd = false;
        for (int64_t j = 0; j < y->cols; j++) odd |= !isfinite(rig_row(y, i)[j]);
        n += odd;
    }
    return n;
}

/* Row `bad` of x has an odd number, or is made of them: none of its results is finite, and every other row's is what the
 * reference makes of it (rig_twin_compare). */
static void odd_linear(rig *r) {
    static const och_dtype types[] = {OCH_DTYPE_F32, OCH_DTYPE_F16, OCH_DTYPE_BF16, OCH_DTYPE_Q8_0, OCH_DTYPE_Q4_0,
                                      OCH_DTYPE_Q4_1, OCH_DTYPE_Q4_K, OCH_DTYPE_Q6_K, OCH_DTYPE_MXFP4};
    uint64_t seed = 60000;
    r->odd_alike = true;
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (int kind = 0; kind < N_ODD; kind++)
            for (int v = 0; v < 12; v++) {
                int64_t n = v % 2 ? 12 : 1, bad = v % 2 ? 7 : 0;
                linear_case s = {.dtype = types[t], .dtype2 = OCH_DTYPE_NONE, .k = linear_round(types[t], 288), .n = n,
                                 .m = {33, 33}, .n_weights = v % 6 < 4 ? 1 : 2, .norm = v % 6 < 2 ? 0 : v % 3,
                                 .glu = v % 6 < 4 ? OCH_ACT_NONE : OCH_ACT_SILU};
                rng g = {seed++};
                linear_inputs in;
                och_op_call c;
                char name[240];
                linear_name(&s, name, 200);
                bool whole = v >= 6;
                snprintf(name + strlen(name), 32, " %s %s", odd_names[kind], whole ? "row" : "element");
                linear_make(r, &g, &s, &in, &c);
                if (r->nmse < 1e-9) r->nmse = 1e-9;
                for (int64_t j = 0; j < s.k; j++)
                    if (whole || j == s.k - 3) rig_row(&in.x, bad)[j] = odd_numbers[kind];
                if (rig_ran(r, &c, (v / 2 + kind) % 2, name)) { /* tiles and rows for themselves */
                    for (int64_t j = 0; j < s.m[0]; j++)
                        if (isfinite(rig_row(&c.out[0], bad)[j]))
                            fail_msg("%s: column %lld: expected no finite number, found %.9g", name, (long long)j,
                                     (double)rig_row(&c.out[0], bad)[j]);
                    assert_int_equal(odd_rows(&c.out[0]), 1);
                }
                rig_reset(r);
            }
    r->odd_alike = false;
}

static void odd_glu(rig *r) {
    r->odd_alike = true;
    r->nmse = 1e-11;
    for (int act = OCH_ACT_SILU; act <= OCH_ACT_GELU_ERF; act++)
        for (int kind = 0; kind < N_ODD; kind++)
            for (int up = 0; up < 2; up++) {
                rng g = {61000};
                och_op_call c = rig_call(OCH_OP_GLU);
                c.attr.glu.act = (och_act)act;
                c.in[OCH_GLU_GATE] = rig_random(r, &g, 3, 64, 1.0, 0);
                c.in[OCH_GLU_UP] = rig_random(r, &g, 3, 64, 1.0, 0);
                c.out[0] = rig_tensor(r, OCH_DTYPE_F32, 3, 64, 0);
                rig_row(&c.in[up ? OCH_GLU_UP : OCH_GLU_GATE], 1)[9] = odd_numbers[kind];
                if (rig_ran(r, &c, false, odd_names[kind])) {
                    assert_false(isfinite(rig_row(&c.out[0], 1)[9]));
                    assert_int_equal(odd_rows(&c.out[0]), 1);
                }
                rig_reset(r);
            }
    r->odd_alike = false;
}

/* An odd number in q, in K or in V of position `at` of sequence 0. All of a sequence's scores can be -infinity too. */
static void odd_attention(rig *r) {
    enum { IN_Q, IN_K, IN_V, N_PLACES };
    static const char *const places[] = {"q", "k", "v"};
    uint64_t seed = 62000;
    r->odd_alike = true;
    for (int t = 0; t < N_CACHES; t++)
        for (int kind = 0; kind < N_ODD; kind++)
            for (int place = 0; place < N_PLACES; place++)
                for (int v = 0; v < 10; v++) {
                    /* One token; a decode beside a sequence that is whole; a prefill whose first tokens do not see the place, with
                     * another sequence and padding among them; windows; a context of several splits; one position. */
                    attention_case s = {.cache = caches[t], .n_heads = 6, .n_kv_heads = 2, .head_dim = 64, .block_tokens = 16,
                                        .scale = 0.125f, .n_seqs = 2};
                    int at = 20;
                    switch (v % 5) {
                    case 0: s.length[0] = 40, s.tokens[0] = 1, s.length[1] = 9, s.tokens[1] = 0; break;
                    case 1: s.length[0] = 30, s.tokens[0] = 12, s.length[1] = 20, s.tokens[1] = 3, s.n_padding = 2; break;
                    case 2: s.length[0] = 40, s.tokens[0] = 30, s.length[1] = 12, s.tokens[1] = 12, s.window = 7; break;
                    case 3: s.length[0] = 1100, s.tokens[0] = 2, s.length[1] = 30, s.tokens[1] = 1; break;
                    default: s.length[0] = 1, s.tokens[0] = 1, s.length[1] = 12, s.tokens[1] = 12, at = 0; break;
                    }
                    rng g = {seed++};
                    attention_state st;
                    och_op_call c;
                    char name[300];
                    attention_name(&s, name, 240);
                    bool invariant = v >= 5;
                    snprintf(name + strlen(name), 40, " %s in %s%s", odd_names[kind], places[place], invariant ? " invariant" : "");
                    attention_make(r, &g, &s, &st, &c);
                    const och_attr_kv *kv = &c.attr.attention.kv;
                    int block = rig_int(&c.in[OCH_ATTENTION_TABLES], 0)[at / s.block_tokens], off = at % s.block_tokens;
                    if (place == IN_Q) rig_row(&c.in[OCH_ATTENTION_Q], 0)[64 + 5] = odd_numbers[kind];
                    if (place == IN_K) cache_set(&c.in[OCH_ATTENTION_K], k_index(kv, block, 1, off, 5), odd_numbers[kind]);
                    if (place == IN_V) cache_set(&c.in[OCH_ATTENTION_V], v_index(kv, block, 1, off, 5), odd_numbers[kind]);
                    if (rig_ran(r, &c, invariant, name)) {
                        int n = odd_rows(&c.out[0]);
                        /* An infinite score is a weight of 0 where it is below the others. */
                        int least = place == IN_Q || place == IN_V || kind == 0 ? 1 : 0;
                        if (v % 5 == 2 && place != IN_Q) least = least ? 7 : 0;
                        if (n < least || n > (place == IN_Q ? 1 : s.tokens[0]))
                            fail_msg("%s: %d rows are not finite", name, n);
                    }
                    attention_free(&st);
                    rig_reset(r);
                }
    r->odd_alike = false;
}

/* What tiles of halves must not lose, in steps that are large enough for them: a query's element far below its others beside an
 * infinite key, weights of the softmax that are small but many, and keys beyond what a half holds. */
static void attention_ends(rig *r) {
    enum { HD = 64, BT = 32, TOKENS = 20, LENGTH = 620 };
    for (size_t t = 0; t < N_CACHES; t++)
        for (int kind = 0; kind < 3; kind++) {
            attention_case s = {.cache = caches[t], .n_heads = 2, .n_kv_heads = 1, .head_dim = HD, .block_tokens = BT,
                                .scale = 0.125f, .n_seqs = 1, .length = {LENGTH}, .tokens = {TOKENS}};
            rng g = {64000 + t};
            attention_state st;
            och_op_call c;
            char name[300];
            static const char *const kinds[] = {"tiny beside infinite", "many small weights", "beyond halves"};
            attention_name(&s, name, 240);
            snprintf(name + strlen(name), 40, ", %s", kinds[kind]);
            attention_make(r, &g, &s, &st, &c);
            const och_attr_kv *kv = &c.attr.attention.kv;
            const int32_t *table = rig_int(&c.in[OCH_ATTENTION_TABLES], 0);
            r->odd_alike = true;
            if (kind == 0) {
                /* Scores of -infinity: what is left is what the others make. Nothing but a number is right. */
                if (caches[t] == OCH_DTYPE_F8_E4M3) { /* which holds no infinity */
                    attention_free(&st);
                    rig_reset(r);
                    continue;
                }
                for (int i = 0; i < TOKENS; i++)
                    for (int h = 0; h < 2; h++) rig_row(&c.in[OCH_ATTENTION_Q], i)[h * HD + 5] = ldexpf(1.0f, -12 - 3 * i);
                cache_set(&c.in[OCH_ATTENTION_K], k_index(kv, table[1], 0, 3, 5), -INFINITY);
            } else if (kind == 1) {
                /* Position 7 has a score of 10, all others 0, whose weights are e^-10 of it and together 2.8 of a hundred. */
                for (int p = 0; p < LENGTH; p++)
                    for (int e = 0; e < HD; e++) {
                        cache_set(&c.in[OCH_ATTENTION_K], k_index(kv, table[p / BT], 0, p % BT, e), p == 7 && e == 0 ? 80.0f : 0.0f);
                        cache_set(&c.in[OCH_ATTENTION_V], v_index(kv, table[p / BT], 0, p % BT, e), p == 7 ? 0.0f : 1.0f);
                    }
                for (int i = 0; i < TOKENS; i++)
                    for (int h = 0; h < 2; h++) rig_row(&c.in[OCH_ATTENTION_Q], i)[h * HD] = 1.0f;
            } else {
                /* Scores of some 1e4 times an element; halves end at 65504, E4M3 at 448. */
                float most = caches[t] == OCH_DTYPE_F16 ? 65504.0f : caches[t] == OCH_DTYPE_F8_E4M3 ? 448.0f : 1e6f;
                for (int i = 0; i < TOKENS; i++)
                    for (int h = 0; h < 2; h++) rig_row(&c.in[OCH_ATTENTION_Q], i)[h * HD + 9] = -1e-5f * (float)(1 + i);
                cache_set(&c.in[OCH_ATTENTION_K], k_index(kv, table[2], 0, 30, 9), most);
            }
            if (rig_ran(r, &c, false, name)) {
                assert_int_equal(odd_rows(&c.out[0]), 0);
                for (int i = 0; kind == 1 && i < TOKENS; i++)
                    for (int e = 0; e < 2 * HD; e++) {
                        double rest = (double)(LENGTH - TOKENS + i) * exp(-10.0);
                        rig_near(rig_row(&c.out[0], i)[e], rest / (1.0 + rest), 2e-4, name, i, e);
                    }
            }
            r->odd_alike = false;
            attention_free(&st);
            rig_reset(r);
        }
}

/* A step of 512 tokens over a context of 131072, 32 heads of 128 elements: less than 65 MiB of scratch, and not less for a step
 * of one; and a step whose tokens go through more than one slice of it. */
static void attention_scratch(rig *r) {
    enum { HEADS = 32, KV = 8, HD = 128, BT = 32, BLOCKS = 4096 };
    const och_op_provider *p = rig_provider(r, OCH_OP_ATTENTION);
    och_err err = {0};
    och_plan plan;
    if (!p || strcmp(p->name, "kernel") != 0) return;
    och_plan_init(&plan);
    /* Addresses that nothing reads: a plan is shapes. */
    const och_tensor state = {.dtype = OCH_DTYPE_F16, .rows = BLOCKS, .cols = (int64_t)KV * HD * BT, .row_bytes = KV * HD * BT * 2,
                              .addr = {4096}};
    const och_tensor table = {.dtype = OCH_DTYPE_I32, .rows = 0, .cols = BLOCKS, .row_bytes = BLOCKS * 4, .addr = {4096}};
    const och_tensor number = {.dtype = OCH_DTYPE_I32, .rows = 0, .cols = 1, .row_bytes = 4, .addr = {4096}};
    och_plan_ref q = och_plan_add_value(&plan, OCH_ROWS_TOKENS, HEADS * HD, "q");
    och_plan_ref y = och_plan_add_value(&plan, OCH_ROWS_TOKENS, HEADS * HD, "y");
    och_plan_ref k = och_plan_add_bound(&plan, OCH_PLAN_STATE, OCH_ROWS_FIXED, &state, "k");
    och_plan_ref v = och_plan_add_bound(&plan, OCH_PLAN_STATE, OCH_ROWS_FIXED, &state, "v");
    och_plan_ref tables = och_plan_add_bound(&plan, OCH_PLAN_INPUT, OCH_ROWS_SEQUENCES, &table, "tables");
    och_plan_ref seqs = och_plan_add_bound(&plan, OCH_PLAN_INPUT, OCH_ROWS_TOKENS, &number, "seqs");
    och_plan_ref positions = och_plan_add_bound(&plan, OCH_PLAN_INPUT, OCH_ROWS_TOKENS, &number, "positions");
    och_plan_op *o = och_plan_add_op(&plan, OCH_OP_ATTENTION);
    assert_non_null(o);
    assert_false(plan.failed);
    o->in[OCH_ATTENTION_Q] = q;
    o->in[OCH_ATTENTION_K] = k;
    o->in[OCH_ATTENTION_V] = v;
    o->in[OCH_ATTENTION_TABLES] = tables;
    o->in[OCH_ATTENTION_SEQS] = seqs;
    o->in[OCH_ATTENTION_POSITIONS] = positions;
    o->out[0] = y;
    o->attr.attr.attention = (och_attr_attention){{KV, HD, BT}, HEADS, 0.088f, 0.0f, 0};
    rig_ok(och_plan_select(&plan, r->dev, NULL, (och_plan_extent){512, 1, 1}, &err), &err, "select");
    rig_ok(och_plan_add_layout(&plan, r->dev, 1, 1, 1, &err), &err, "a layout of a token");
    rig_ok(och_plan_add_layout(&plan, r->dev, 512, 1, 1, &err), &err, "a layout of 512");
    uint64_t one = plan.layouts[0].scratch_bytes, many = plan.layouts[1].scratch_bytes;
    och_plan_deinit(&plan);
    /* 256 splits of 132 floats a head. */
    if (one < UINT64_C(256) * HEADS * (HD + 4) * 4 || many < one || many > UINT64_C(65) << 20)
        fail_msg("scratch: a token's %llu bytes, 512 tokens' %llu", (unsigned long long)one, (unsigned long long)many);
    r->n_run++;

    /* 20 tokens, 4.3 MB each: two slices, the second of 5. A table of that capacity, of which the first blocks are used. */
    attention_case s = {.cache = OCH_DTYPE_F16, .n_heads = HEADS, .n_kv_heads = 1, .head_dim = HD, .block_tokens = BT,
                        .scale = 0.088f, .n_seqs = 1, .length = {70}, .tokens = {20}, .in_place = true};
    rng g = {63000};
    attention_state st;
    och_op_call c;
    attention_make(r, &g, &s, &st, &c);
    och_tensor wide = rig_tensor(r, OCH_DTYPE_I32, 1, BLOCKS, 0);
    for (int b = 0; b < BLOCKS; b++) rig_int(&wide, 0)[b] = b < 3 ? rig_int(&c.in[OCH_ATTENTION_TABLES], 0)[b] : -1;
    c.in[OCH_ATTENTION_TABLES] = wide;
    float *queries = attention_queries(&c);
    if (rig_ran(r, &c, true, "slices")) attention_verify(r, &s, &st, queries, &c.out[0], "slices");
    och_free(queries);
    attention_free(&st);
    rig_reset(r);
}

#endif
