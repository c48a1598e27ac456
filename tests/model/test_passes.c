/* The passes that hand rows on as codes, as halves, and one row whole (engine/passes.c), over plans of a few records without memory: where it does, and where
 * something stands in its way and the plan stays as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/env.h"
#include "base/size.h"
#include "engine/passes.h"
#include "engine/session.h"
#include "op/gpu/gpu.h"
#include "quant/format.h"

#include <stdlib.h>
#include <string.h>

enum { D = 256, M = 512, HEADS = 4, HEAD_DIM = 64, BLOCK = 16 };

static och_device *gpu, *cpu;

typedef enum obstacle {
    NOTHING,
    READ_BY_AN_ADD,
    READ_BEHIND_A_NORM,
    READ_BESIDE_HALVES,
    WRITTEN_AGAIN,
    AN_OUTPUT,
    NO_READER,
    HALVES_THEMSELVES,
    ODD_HEADS,
    OBSTACLES
} obstacle;

static och_plan_ref weight(och_plan *p, bool planes, och_dtype t, int64_t rows, int64_t cols) {
    och_tensor w = {.dtype = t, .layout = planes ? OCH_LAYOUT_PLANES : OCH_LAYOUT_NATIVE, .rows = rows, .cols = cols};
    if (!planes) assert_true(och_dtype_row_bytes(t, (uint64_t)cols, &w.row_bytes));
    return och_plan_add_bound(p, OCH_PLAN_WEIGHT, OCH_ROWS_FIXED, &w, "w");
}

static och_plan_ref other(och_plan *p, och_plan_kind kind, och_plan_rows rows_kind, och_dtype t, int64_t rows, int64_t cols) {
    och_tensor x = {.dtype = t, .rows = rows, .cols = cols};
    assert_true(och_dtype_row_bytes(t, (uint64_t)cols, &x.row_bytes));
    return och_plan_add_bound(p, kind, rows_kind, &x, "other");
}

static void linear(och_plan *p, och_plan_ref x, och_plan_ref w, och_plan_ref y) {
    och_plan_op *o = och_plan_add_op(p, OCH_OP_LINEAR);
    assert_non_null(o);
    o->in[OCH_LINEAR_X] = x;
    o->in[OCH_LINEAR_W0] = w;
    o->out[0] = y;
    o->attr.attr.linear.n_weights = 1;
}

/* A gate or attention as record 0, then `readers` products of its result, and what stands in the way. */
static void build(och_plan *p, bool planes, bool attends, int readers, obstacle why) {
    och_plan_init(p);
    int head_dim = why == ODD_HEADS ? 48 : HEAD_DIM;
    int64_t cols = attends ? HEADS * head_dim : M;
    och_plan_ref x = och_plan_add_value(p, OCH_ROWS_TOKENS, attends ? cols : D, "x");
    och_plan_ref y = why == AN_OUTPUT ? other(p, OCH_PLAN_OUTPUT, OCH_ROWS_TOKENS, OCH_DTYPE_F32, 0, cols)
                                      : och_plan_add_value(p, OCH_ROWS_TOKENS, cols, "y");
    och_dtype up = why == HALVES_THEMSELVES ? OCH_DTYPE_F16 : OCH_DTYPE_Q8_0;
    if (attends) {
        int64_t block = (int64_t)BLOCK * 2 * head_dim;
        och_plan_ref in[] = {x, other(p, OCH_PLAN_STATE, OCH_ROWS_FIXED, OCH_DTYPE_F16, 4, block),
                             other(p, OCH_PLAN_STATE, OCH_ROWS_FIXED, OCH_DTYPE_F16, 4, block),
                             other(p, OCH_PLAN_INPUT, OCH_ROWS_SEQUENCES, OCH_DTYPE_I32, 0, 4),
                             other(p, OCH_PLAN_INPUT, OCH_ROWS_TOKENS, OCH_DTYPE_I32, 0, 1),
                             other(p, OCH_PLAN_INPUT, OCH_ROWS_TOKENS, OCH_DTYPE_I32, 0, 1)};
        och_plan_op *o = och_plan_add_op(p, OCH_OP_ATTENTION);
        memcpy(o->in, in, sizeof in);
        o->out[0] = y;
        o->attr.attr.attention = (och_attr_attention){.kv = {2, head_dim, BLOCK}, .n_heads = HEADS, .scale = 0.125f};
    } else {
        och_plan_ref w0 = weight(p, planes, up, M, D), w1 = weight(p, planes, up, M, D);
        linear(p, x, w0, y);
        p->ops[0].in[OCH_LINEAR_W0 + 1] = w1;
        p->ops[0].attr.attr.linear.n_weights = 2;
        p->ops[0].attr.attr.linear.glu = OCH_ACT_SILU;
    }
    for (int i = 0; i < readers; i++) {
        och_dtype t = why == READ_BESIDE_HALVES && i == readers - 1 ? OCH_DTYPE_BF16 : OCH_DTYPE_Q4_0;
        /* Of other lengths, so that they are no group. */
        linear(p, y, weight(p, planes, t, 64 + 32 * i, cols), och_plan_add_value(p, OCH_ROWS_TOKENS, 64 + 32 * i, "z"));
        och_plan_op *between = och_plan_add_op(p, OCH_OP_ADD);
        between->in[0] = between->in[1] = x;
        between->out[0] = och_plan_add_value(p, OCH_ROWS_TOKENS, attends ? cols : D, "t");
    }
    if (why == READ_BEHIND_A_NORM) {
        p->ops[1].in[OCH_LINEAR_NORM] = other(p, OCH_PLAN_WEIGHT, OCH_ROWS_FIXED, OCH_DTYPE_F32, 1, cols);
        p->ops[1].attr.attr.linear.norm.eps = 1e-5f;
    }
    if (why != READ_BY_AN_ADD && why != WRITTEN_AGAIN) return;
    och_plan_op *last = och_plan_add_op(p, OCH_OP_ADD);
    och_plan_ref t = och_plan_add_value(p, OCH_ROWS_TOKENS, cols, "t");
    last->in[0] = last->in[1] = why == READ_BY_AN_ADD ? y : t;
    last->out[0] = why == READ_BY_AN_ADD ? t : y;
}

static och_plan_ref ycodes(const och_plan *p, bool attends) {
    return p->ops[0].out[attends ? OCH_ATTENTION_YCODES : OCH_LINEAR_YCODES];
}

static void codes_where_nothing_else_reads(void **state) {
    (void)state;
    for (int attends = 0; attends < 2; attends++)
        for (int readers = 1; readers <= 2; readers++)
            for (int why = NOTHING; why < OBSTACLES; why++) {
                if (why == (attends ? HALVES_THEMSELVES : ODD_HEADS)) continue;
                och_plan p;
                build(&p, true, attends, why == NO_READER ? 0 : readers, (obstacle)why);
                int n_bufs = p.n_bufs, n_ops = p.n_ops;
                assert_int_equal(och_passes_run(&p, gpu, NULL), 0);
                assert_int_equal(p.n_ops, n_ops);
                och_plan_ref codes = ycodes(&p, attends);
                if ((codes >= 0) != (why == NOTHING))
                    fail_msg("%s, %d readers, obstacle %d: %s", attends ? "attention" : "a gate", readers, why,
                             codes >= 0 ? "codes" : "no codes");
                assert_int_equal(p.n_bufs, n_bufs + (why == NOTHING));
                for (int i = 1; i < p.n_ops; i++)
                    if (p.ops[i].op == OCH_OP_LINEAR) assert_int_equal(p.ops[i].in[OCH_LINEAR_XCODES], codes);
                och_err err;
                och_err_clear(&err);
                if (why == NOTHING) {
                    assert_int_equal(p.bufs[codes].tensor.rows, OCH_OP_CODES_ROWS);
                    if (och_plan_select(&p, gpu, NULL, (och_plan_extent){512, 512, 1}, &err) != OCH_OK) fail_msg("%s", err.message);
                    /* Prompts of any length take no more room for them. */
                    for (int64_t n = 8; n <= 512; n *= 64)
                        if (och_plan_add_layout(&p, gpu, n, n, 1, &err) != OCH_OK) fail_msg("%s", err.message);
                    och_op_call c;
                    och_plan_call(&p, &p.layouts[1], 1, (och_plan_extent){512, 1, 1}, (och_dev_addr){4096}, NULL, &c);
                    assert_int_equal(c.in[OCH_LINEAR_XCODES].rows, OCH_OP_CODES_ROWS);
                    assert_int_equal(c.in[OCH_LINEAR_X].rows, 512);
                    assert_int_equal(och_op_check(&c, &err), OCH_OK); /* both have memory of their own */
                }
                och_plan_deinit(&p);
            }
}

static void none_where_no_provider_takes_them(void **state) {
    (void)state;
    for (int attends = 0; attends < 2; attends++) {
        och_plan p;
        build(&p, false, attends, 1, NOTHING);
        int n_bufs = p.n_bufs;
        (void)och_passes_run(&p, cpu, NULL);
        assert_int_equal(ycodes(&p, attends), OCH_PLAN_NONE);
        assert_int_equal(p.n_bufs, n_bufs);
        och_plan_deinit(&p);
    }
}

/* A product, then products of its result behind a norm, which others read too. */
static void codes_through_a_norm_where_all_take_them(void **state) {
    (void)state;
    enum { ONE, TWO, READ_PLAINLY_TOO, GATE_TO_CODES, UNTIL_REWRITTEN, OTHER_NORM, TAKEN = OTHER_NORM, OTHER_EPS, A_HALF_READS,
           A_GATE_WRITES, REWRITTEN, A_NORM_THAT_IS_MADE, NO_NORM, TWO_WRITTEN, A_PLAIN_GATE, OUTPUT, NOT_ASKED, THE_CPU, WHYS };
    for (int why = ONE; why < WHYS; why++) {
        och_plan p;
        och_err err;
        och_device *other_board = NULL;
        och_err_clear(&err);
        och_plan_init(&p);
        if (why == NOT_ASKED) {
            assert_true(och_env_set("OCHRE_NORM_CODES", NULL));
            if (och_device_open("sim:gfx942", NULL, &other_board, &err) != OCH_OK) fail_msg("%s", err.message);
        }
        bool planes = why != THE_CPU, gate = why == GATE_TO_CODES || why == A_PLAIN_GATE;
        const int64_t cols = D;
        och_dtype w = OCH_DTYPE_Q4_0, reads = why == A_HALF_READS ? OCH_DTYPE_F16 : OCH_DTYPE_Q4_0;
        och_plan_ref x = och_plan_add_value(&p, OCH_ROWS_TOKENS, D, "x"), residual = och_plan_add_value(&p, OCH_ROWS_TOKENS, cols, "r");
        och_plan_ref y = why == OUTPUT ? other(&p, OCH_PLAN_OUTPUT, OCH_ROWS_TOKENS, OCH_DTYPE_F32, 0, cols)
                                       : och_plan_add_value(&p, OCH_ROWS_TOKENS, cols, "y");
        och_plan_ref norm = why == A_NORM_THAT_IS_MADE ? other(&p, OCH_PLAN_ARENA, OCH_ROWS_FIXED, OCH_DTYPE_F32, 1, cols)
                                                       : other(&p, OCH_PLAN_WEIGHT, OCH_ROWS_FIXED, OCH_DTYPE_F32, 1, cols);
        linear(&p, x, weight(&p, planes, w, cols, D), y);
        if (why == A_GATE_WRITES || why == TWO_WRITTEN) {
            p.ops[0].in[OCH_LINEAR_W0 + 1] = weight(&p, planes, w, cols, D);
            p.ops[0].attr.attr.linear.n_weights = 2;
            if (why == A_GATE_WRITES) p.ops[0].attr.attr.linear.glu = OCH_ACT_SILU;
            else p.ops[0].out[1] = och_plan_add_value(&p, OCH_ROWS_TOKENS, cols, "y1");
        } else p.ops[0].in[OCH_LINEAR_RESIDUAL] = residual;
        int n_readers = why == TWO || why == OTHER_NORM || why == OTHER_EPS || why == UNTIL_REWRITTEN || why == REWRITTEN ? 2 : 1, at[2] = {0};
        for (int i = 0; i < n_readers; i++) {
            if (i == 0 && why == REWRITTEN) linear(&p, x, weight(&p, planes, w, cols, D), y);
            if (i == 1 && why == UNTIL_REWRITTEN) linear(&p, x, weight(&p, planes, w, cols, D), y);
            if (i || why == READ_PLAINLY_TOO) { /* also what keeps readers from being one record */
                och_plan_op *o = och_plan_add_op(&p, OCH_OP_ADD);
                o->in[0] = o->in[1] = y;
                o->out[0] = och_plan_add_value(&p, OCH_ROWS_TOKENS, cols, "t");
            }
            at[i] = p.n_ops;
            linear(&p, y, weight(&p, planes, reads, 64, cols), och_plan_add_value(&p, OCH_ROWS_TOKENS, 64, "z"));
            och_plan_op *o = &p.ops[at[i]];
            if (gate) {
                o->in[OCH_LINEAR_W0 + 1] = weight(&p, planes, reads, 64, cols);
                p.ops[at[i]].attr.attr.linear.n_weights = 2;
                p.ops[at[i]].attr.attr.linear.glu = OCH_ACT_SILU;
            }
            o = &p.ops[at[i]];
            o->attr.attr.linear.norm = (och_attr_rms_norm){i && why == OTHER_EPS ? 1e-6f : 1e-5f, true};
            if (why != NO_NORM)
                o->in[OCH_LINEAR_NORM] = i && why == OTHER_NORM ? other(&p, OCH_PLAN_WEIGHT, OCH_ROWS_FIXED, OCH_DTYPE_F32, 1, cols) : norm;
        }
        if (why == GATE_TO_CODES)
            linear(&p, p.ops[at[0]].out[0], weight(&p, planes, OCH_DTYPE_Q4_0, 32, 64), och_plan_add_value(&p, OCH_ROWS_TOKENS, 32, "down"));
        const och_device *device = why == THE_CPU ? cpu : other_board ? other_board : gpu;
        assert_int_equal(och_passes_run(&p, device, NULL), 0);
        bool takes = why <= TAKEN || why == OTHER_EPS;
        const och_plan_op *o = &p.ops[0];
        och_plan_ref codes = takes ? o->out[OCH_LINEAR_YCODES] : OCH_PLAN_NONE;
        if ((o->in[OCH_LINEAR_YNORM] >= 0) != takes) fail_msg("obstacle %d: expected %s", why, takes ? "codes for the norm" : "none");
        if (takes) {
            assert_true(codes >= 0 && o->in[OCH_LINEAR_YNORM] == norm && o->attr.attr.linear.ynorm_add_one);
            assert_int_equal(p.bufs[codes].tensor.rows, 1);
            assert_int_equal(p.ops[at[0]].in[OCH_LINEAR_XCODES], codes);
        }
        bool both = why == TWO;
        if (n_readers == 2 && why != REWRITTEN && (p.ops[at[1]].in[OCH_LINEAR_XCODES] == codes && codes >= 0) != both)
            fail_msg("obstacle %d: expected %s of the second", why, both ? "codes" : "no codes");
        if (why == REWRITTEN) { /* the second product of y is what they read */
            assert_true(p.ops[1].in[OCH_LINEAR_YNORM] == norm);
            assert_int_equal(p.ops[at[0]].in[OCH_LINEAR_XCODES], p.ops[1].out[OCH_LINEAR_YCODES]);
        }
        if (och_plan_select(&p, device, NULL, (och_plan_extent){512, 512, 1}, &err) != OCH_OK) fail_msg("obstacle %d: %s", why, err.message);
        for (int64_t n = 1; n <= 512; n *= 512)
            if (och_plan_add_layout(&p, device, n, n, 1, &err) != OCH_OK) fail_msg("obstacle %d: %s", why, err.message);
        och_plan_deinit(&p);
        if (!other_board) continue;
        och_device_release(other_board);
        assert_true(och_env_set("OCHRE_NORM_CODES", "1"));
    }
}

static bool reads_halves(const och_plan *p, int i) { return p->ops[i].attr.attr.linear.x_halves; }

/* A gate, then products with weights of BF16 alone, where a library computes both. */
static void halves_where_a_library_computes_both(void **state) {
    (void)state;
    for (int with = 0; with < 2; with++)
        for (int why = 0; why < 5; why++) { /* nothing, another reader, another type, behind a norm, an odd length */
            och_device *board;
            och_err err;
            och_err_clear(&err);
            assert_true(och_env_set("OCHRE_BLAS", with ? "auto" : "0"));
            if (och_device_open("sim:gfx942", NULL, &board, &err) != OCH_OK) fail_msg("%s", err.message);
            och_plan p;
            och_plan_init(&p);
            int64_t m = why == 4 ? 516 : M;
            och_plan_ref x = och_plan_add_value(&p, OCH_ROWS_TOKENS, D, "x"), y = och_plan_add_value(&p, OCH_ROWS_TOKENS, m, "y");
            linear(&p, x, weight(&p, true, OCH_DTYPE_F16, m, D), y);
            p.ops[0].in[OCH_LINEAR_W0 + 1] = weight(&p, true, OCH_DTYPE_F16, m, D);
            p.ops[0].attr.attr.linear.n_weights = 2;
            p.ops[0].attr.attr.linear.glu = OCH_ACT_SILU;
            linear(&p, y, weight(&p, true, why == 2 ? OCH_DTYPE_F16 : OCH_DTYPE_BF16, D, m), och_plan_add_value(&p, OCH_ROWS_TOKENS, D, "z"));
            if (why == 3) {
                p.ops[1].in[OCH_LINEAR_NORM] = other(&p, OCH_PLAN_WEIGHT, OCH_ROWS_FIXED, OCH_DTYPE_F32, 1, m);
                p.ops[1].attr.attr.linear.norm.eps = 1e-5f;
            }
            if (why == 1) {
                och_plan_op *last = och_plan_add_op(&p, OCH_OP_ADD);
                last->in[0] = last->in[1] = y;
                last->out[0] = och_plan_add_value(&p, OCH_ROWS_TOKENS, m, "t");
            }
            assert_int_equal(och_passes_run(&p, board, NULL), 0);
            bool halves = with && !why;
            if (p.ops[0].attr.attr.linear.y_halves != halves || reads_halves(&p, 1) != halves)
                fail_msg("%s library, obstacle %d: expected %s", with ? "a" : "no", why, halves ? "halves" : "no halves");
            och_plan_deinit(&p);
            och_device_release(board);
        }
    assert_true(och_env_set("OCHRE_BLAS", NULL));
}

/* Products of q, k and v with what comes behind them, and what stands in the way: norms of heads, rows in other memory than q's, another
 * reader of k, results in another order, heads that are no whole workgroups, a record between, a device that nobody asked for it. */
static void one_row_where_a_product_can(void **state) {
    (void)state;
    enum { NONE_OF_IT, NORMS, ELSEWHERE, READ_TWICE, ORDER, ODD, BETWEEN, NOT_ASKED, THE_CPU, WHYS };
    for (int why = NONE_OF_IT; why < WHYS; why++) {
        och_plan p;
        och_err err;
        och_device *other_board = NULL;
        och_err_clear(&err);
        och_plan_init(&p);
        if (why == NOT_ASKED) {
            assert_true(och_env_set("OCHRE_ONE_ROW", NULL));
            if (och_device_open("sim:gfx942", NULL, &other_board, &err) != OCH_OK) fail_msg("%s", err.message);
        }
        int d = why == ODD ? 72 : HEAD_DIM, q_cols = HEADS * d, kv_cols = 2 * d;
        och_plan_ref x = och_plan_add_value(&p, OCH_ROWS_TOKENS, D, "x"), y[3];
        for (int i = 0; i < 3; i++) {
            y[i] = och_plan_add_value(&p, OCH_ROWS_TOKENS, i ? kv_cols : q_cols, "y");
            linear(&p, x, weight(&p, why != THE_CPU, OCH_DTYPE_Q8_0, i ? kv_cols : q_cols, D), y[i]);
        }
        if (why == BETWEEN) {
            och_plan_op *o = och_plan_add_op(&p, OCH_OP_ADD);
            o->in[0] = o->in[1] = x;
            o->out[0] = och_plan_add_value(&p, OCH_ROWS_TOKENS, D, "t");
        }
        och_plan_op *o = och_plan_add_op(&p, OCH_OP_QKV_POST);
        o->in[OCH_QKV_POST_Q] = y[0];
        o->in[OCH_QKV_POST_K] = y[why == ORDER ? 2 : 1];
        o->in[OCH_QKV_POST_V] = y[why == ORDER ? 1 : 2];
        if (why == NORMS) o->in[OCH_QKV_POST_KNORM] = other(&p, OCH_PLAN_WEIGHT, OCH_ROWS_FIXED, OCH_DTYPE_F32, 1, d);
        o->in[OCH_QKV_POST_TABLE] = other(&p, OCH_PLAN_INPUT, OCH_ROWS_TOKENS, OCH_DTYPE_F32, 0, d);
        o->in[OCH_QKV_POST_SLOTS] = other(&p, OCH_PLAN_INPUT, OCH_ROWS_TOKENS, OCH_DTYPE_I32, 0, 1);
        o->out[0] = why == ELSEWHERE ? och_plan_add_value(&p, OCH_ROWS_TOKENS, q_cols, "z") : y[0];
        for (int i = 1; i < 3; i++) o->out[i] = other(&p, OCH_PLAN_STATE, OCH_ROWS_FIXED, OCH_DTYPE_F16, 4, (int64_t)kv_cols * BLOCK);
        o->attr.attr.qkv_post = (och_attr_qkv_post){.kv = {2, d, BLOCK}, .rope = {HEADS, d, d, OCH_ROPE_HALF}, .norm = {1e-6f, false}};
        if (why == READ_TWICE) {
            o = och_plan_add_op(&p, OCH_OP_ADD);
            o->in[0] = o->in[1] = y[1];
            o->out[0] = och_plan_add_value(&p, OCH_ROWS_TOKENS, kv_cols, "t");
        }
        const och_device *device = why == THE_CPU ? cpu : other_board ? other_board : gpu;
        (void)och_passes_run(&p, device, NULL);
        int last = why == BETWEEN ? 2 : 1;
        const och_plan_op *product = &p.ops[0], *post = &p.ops[last];
        if (post->op != OCH_OP_QKV_POST || product->attr.attr.linear.n_weights != 3) fail_msg("obstacle %d: another plan", why);
        bool takes = why == NONE_OF_IT;
        if ((product->in[OCH_LINEAR_SLOTS] >= 0) != takes || post->attr.attr.qkv_post.one_row_done != takes)
            fail_msg("obstacle %d: expected %s", why, takes ? "one row done by the product" : "all as it was");
        assert_int_equal(product->in[OCH_LINEAR_TABLE], takes ? post->in[OCH_QKV_POST_TABLE] : OCH_PLAN_NONE);
        assert_int_equal(product->out[OCH_LINEAR_KCACHE], takes ? post->out[1] : OCH_PLAN_NONE);
        assert_int_equal(product->out[OCH_LINEAR_VCACHE], takes ? post->out[2] : OCH_PLAN_NONE);
        if (och_plan_select(&p, device, NULL, (och_plan_extent){512, 512, 1}, &err) != OCH_OK) fail_msg("obstacle %d: %s", why, err.message);
        och_plan_deinit(&p);
        if (!other_board) continue;
        och_device_release(other_board);
        assert_true(och_env_set("OCHRE_ONE_ROW", "1"));
    }
}

/* In halves a number that is none is found too, of a step with as many tokens as they are for; with fewer, in the floats. */
static void what_is_not_finite_is_found_in_halves(void **state) {
    (void)state;
    enum { COL = 70, N = 65 };
    static const uint16_t nan = 0x7fc0;
    och_err err;
    och_err_clear(&err);
    och_model *model;
    och_model_options mo = {0};
    och_session *s;
    och_session_options o = {.max_sequences = 1, .max_context = 160, .max_step_tokens = 128, .max_logits = 1, .kv_dtype = OCH_DTYPE_NONE,
                             .graphs = OCH_GRAPHS_OFF};
    if (och_model_open_synthetic("tiny", OCH_DTYPE_BF16, gpu, &mo, &model, &err) != OCH_OK) fail_msg("%s", err.message);
    if (och_session_create(model, &o, &s, &err) != OCH_OK)
        fail_msg("%s", err.message);
    const och_tensor *gate = och_model_weight(model, OCH_ROLE_GATE, 0);
    assert_int_equal(gpu->vtable->copy_to_device(s->queue, och_dev_addr_add(gate->addr, COL * (uint64_t)gate->cols * 2), &nan, sizeof nan, &err),
                     OCH_OK);
    assert_int_equal(gpu->vtable->synchronise(s->queue, &err), OCH_OK);
    for (int n = N; n > 0; n = n == N ? 20 : 0) {
        int32_t id, t[N];
        for (int i = 0; i < N; i++) t[i] = 5 + i;
        assert_int_equal(och_session_sequence_create(s, &id, &err), OCH_OK);
        assert_int_equal(och_session_step(s, &(och_span){id, t, n, 1}, 1, &err), OCH_DEVICE);
        if (!strstr(err.message, "layer 0, op linear by provider blas") || !strstr(err.message, "row 0, column 70"))
            fail_msg("%d tokens: %s", n, err.message);
        och_err_clear(&err);
        assert_int_equal(och_session_sequence_release(s, id, &err), OCH_OK);
    }
    och_session_destroy(s);
    och_model_close(model);
}

int main(void) {
    setenv("OCHRE_SIM_LIBRARY", OCHRE_BUILD_DIR "/sim/libamdhip64.so", 0);
    setenv("OCHRE_CACHE_DIR", OCHRE_BUILD_DIR "/kernel-cache", 0);
    setenv("OCHRE_HIPBLASLT", OCHRE_BUILD_DIR "/tests/libfake_hipblaslt_plain.so", 1);
    setenv("OCHRE_NEXT_CODES", "1", 1); /* these gates are small */
    setenv("OCHRE_NORM_CODES", "1", 1);
    setenv("OCHRE_ONE_ROW", "1", 1);
    och_err err;
    och_err_clear(&err);
    och_dev_options options = {.n_threads = 1};
    if (och_device_open("cpu", &options, &cpu, &err) != OCH_OK) return 1;
    if (och_device_open("sim:gfx1151", NULL, &gpu, &err) != OCH_OK) return 0; /* a build without the simulator */
    const och_gpu_kernel *k;
    if (och_gpu_kernel_get(gpu, "add", &k, &err, "V=4,WAVES=4,CHUNK=1024") == OCH_UNAVAILABLE) return 0; /* nothing compiles */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_where_nothing_else_reads),
        cmocka_unit_test(none_where_no_provider_takes_them),
        cmocka_unit_test(one_row_where_a_product_can),
        cmocka_unit_test(codes_through_a_norm_where_all_take_them),
        cmocka_unit_test(halves_where_a_library_computes_both),
        cmocka_unit_test(what_is_not_finite_is_found_in_halves),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    och_device_release(gpu);
    och_device_release(cpu);
    return failed;
}
