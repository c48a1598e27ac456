/* The cases of EMBED, RMS_NORM, ROPE, GLU, ADD and GATHER: literals worked out by hand, then a plain double oracle. */
#ifndef OCH_TESTS_OPS_BASIC_H
#define OCH_TESTS_OPS_BASIC_H

#include "conform/support/op_run.h"
#include "conform/support/ops_attention.h"
#include "conform/support/ops_linear.h"

static const int64_t basic_rows[] = {0, 1, 2, 3, 5, 17, 64, 100};
static const int64_t basic_cols[] = {1, 2, 7, 16, 33, 576, 640, 1536};

static och_tensor rig_copy(rig *r, const och_tensor *t) {
    och_tensor c = rig_tensor(r, t->dtype, t->rows, t->cols, 0);
    for (int64_t i = 0; i < t->rows; i++) memcpy(rig_row(&c, i), rig_row(t, i), (size_t)c.row_bytes);
    return c;
}

/* ---- EMBED: exact, since a decode is defined to the bit and the scale is one rounding ---- */

/* Providers that run on the host refuse an id outside the table; on a device it reads one of the table's rows. */
static void embed_bad_ids(rig *r) {
    static const int32_t bad[] = {-1, 5, INT32_MIN, INT32_MAX};
    for (int i = 0; i < 4; i++) {
        och_err err;
        och_op_call c = rig_call(OCH_OP_EMBED);
        rng g = {1};
        c.attr.embed.scale = 1.0f;
        c.in[OCH_EMBED_IDS] = rig_i32(r, 1, 1, &bad[i]);
        och_tensor table = c.in[OCH_EMBED_TABLE] = rig_random(r, &g, 5, 8, 1.0, 0);
        c.out[0] = rig_tensor(r, OCH_DTYPE_F32, 1, 8, 0);
        bool host = tier_of(r->who) != TIER_BOARD || !strcmp(r->who->provider, "emulated");
        r->no_twin = true; /* the reference refuses it */
        och_status st = rig_run(r, &c, false, &err);
        r->no_twin = false;
        if (host && st != OCH_UNSUPPORTED) {
            assert_int_equal(st, OCH_RANGE);
            assert_non_null(strstr(err.message, "op embed"));
            if (i < 2) assert_non_null(strstr(err.message, i ? "found 5" : "found -1"));
        } else if (st != OCH_UNSUPPORTED) {
            bool found = false;
            rig_ok(st, &err, "an id outside the table");
            for (int64_t row = 0; row < table.rows; row++) found |= memcmp(rig_row(&table, row), rig_row(&c.out[0], 0), 32) == 0;
            if (!found) fail_msg("id %d: expected a row of the table", (int)bad[i]);
        }
        rig_reset(r);
    }
}

static void embed_cases(rig *r) {
    /* Q8_0 by its bytes: d = 2 (0x4000), q = 1, -1, 100; scale 0.5 */
    och_op_call h = rig_call(OCH_OP_EMBED);
    static const int32_t ids[] = {1, 0};
    r->nmse = 0.0;
    h.attr.embed.scale = 0.5f;
    h.in[OCH_EMBED_IDS] = rig_i32(r, 2, 1, ids);
    h.in[OCH_EMBED_TABLE] = rig_tensor(r, OCH_DTYPE_Q8_0, 2, 32, 0);
    uint8_t *bytes = h.in[OCH_EMBED_TABLE].host;
    memset(bytes, 0, 68);
    bytes[34 + 1] = 0x40;
    bytes[34 + 2] = 1;
    bytes[34 + 3] = 0xFF;
    bytes[34 + 4] = 100;
    h.out[0] = rig_tensor(r, OCH_DTYPE_F32, 2, 32, 0);
    if (rig_ran(r, &h, false, "by hand")) {
        static const float y[64] = {1, -1, 100};
        rig_near_all(&h.out[0], y, 0.0, "by hand");
    }
    rig_reset(r);

    uint64_t seed = 30000;
    for (size_t f = 0; och_format_at(f); f++)
        for (int v = 0; v < 8; v++) {
            och_dtype t = och_format_at(f)->dtype;
            rng g = {seed++};
            int64_t n = basic_rows[v], cols = linear_round(t, basic_cols[7 - v]), vocab = 1 + 40 * v;
            och_op_call c = rig_call(OCH_OP_EMBED);
            c.attr.embed.scale = v % 2 ? 1.0f : 25.298221f;
            c.in[OCH_EMBED_IDS] = rig_i32(r, n, 1, NULL);
            for (int64_t i = 0; i < n; i++) *rig_int(&c.in[OCH_EMBED_IDS], i) = rng_below(&g, (int)vocab);
            if (n > 1) *rig_int(&c.in[OCH_EMBED_IDS], n - 1) = (int32_t)vocab - 1;
            och_tensor table = rig_weight(r, &g, t, vocab, cols, 0.1);
            c.in[OCH_EMBED_TABLE] = table;
            c.out[0] = rig_tensor(r, OCH_DTYPE_F32, n, cols, v == 5 ? 12 : 0);
            float *row = och_malloc_array((size_t)cols, sizeof *row);
            assert_non_null(row);
            /* The file's layout, then the layout that this provider's LINEAR wants, for a table that is shared. */
            for (int packed = 0; packed < 2; packed++) {
                const och_op_provider *linear = rig_provider(r, OCH_OP_LINEAR);
                if (packed) {
                    if (!linear || !linear->weight_layout) break;
                    och_op_call pack = rig_call(OCH_OP_LINEAR);
                    pack.attr.linear.n_weights = 1;
                    pack.in[OCH_LINEAR_W0] = table;
                    rig_pack(r, linear, &pack);
                    if (pack.in[OCH_LINEAR_W0].layout == OCH_LAYOUT_NATIVE) break;
                    c.in[OCH_EMBED_TABLE] = pack.in[OCH_LINEAR_W0];
                    c.out[0] = rig_tensor(r, OCH_DTYPE_F32, n, cols, v == 5 ? 12 : 0);
                }
                if (!rig_ran(r, &c, false, "embed")) continue;
                for (int64_t i = 0; i < n; i++) {
                    rig_decode(&table, *rig_int(&c.in[OCH_EMBED_IDS], i), row);
                    for (int64_t j = 0; j < cols; j++)
                        rig_near(rig_row(&c.out[0], i)[j], row[j] * c.attr.embed.scale, 0.0, och_dtype_name(t), i, j);
                }
            }
            och_free(row);
            rig_reset(r);
        }

    embed_bad_ids(r);
}

/* ---- RMS_NORM ---- */

#define NORM_RELATIVE 1e-6 /* of the largest element of a group */

static void rms_norm_cases(rig *r) {
    /* x = (3, 4): mean square 12.5, 1/sqrt = 0.28284271; w = (2, -1), then 1 + w = (3, 0) */
    static const float x[] = {3, 4}, w[] = {2, -1}, plain[] = {1.6970563f, -1.1313708f}, one[] = {2.5455844f, 0};
    static const float res[] = {1, 10}, with_res[] = {2.6970563f, 8.8686292f};
    och_op_call h = rig_call(OCH_OP_RMS_NORM);
    r->nmse = 1e-11;
    h.in[OCH_RMS_NORM_X] = rig_f32(r, 1, 2, x);
    h.in[OCH_RMS_NORM_W] = rig_f32(r, 1, 2, w);
    h.out[0] = rig_f32(r, 1, 2, NULL);
    if (rig_ran(r, &h, false, "by hand")) rig_near_all(&h.out[0], plain, 1e-6, "by hand");
    h.attr.rms_norm.add_one = true;
    if (rig_ran(r, &h, false, "1 + w by hand")) rig_near_all(&h.out[0], one, 1e-6, "1 + w by hand");
    h.attr.rms_norm.add_one = false;
    h.in[OCH_RMS_NORM_RESIDUAL] = rig_f32(r, 1, 2, res);
    if (rig_ran(r, &h, false, "residual by hand")) rig_near_all(&h.out[0], with_res, 2e-6, "residual by hand");
    /* eps counts: x = 0 gives 0, and (1, 1) with eps 3 halves */
    static const float ones[] = {1, 1}, halves[] = {1, -0.5f};
    h.in[OCH_RMS_NORM_RESIDUAL].dtype = OCH_DTYPE_NONE;
    h.in[OCH_RMS_NORM_X] = rig_f32(r, 1, 2, ones);
    h.attr.rms_norm.eps = 3.0f;
    if (rig_ran(r, &h, false, "eps by hand")) rig_near_all(&h.out[0], halves, 1e-6, "eps by hand");
    rig_reset(r);

    uint64_t seed = 31000;
    for (int v = 0; v < 64; v++) {
        int64_t n = basic_rows[v % 8], d = basic_cols[v / 8];
        int groups = v % 3 ? 1 : 3, place = v % 4; /* y: own, x, residual, own with residual */
        rng g = {seed++};
        och_op_call c = rig_call(OCH_OP_RMS_NORM);
        c.attr.rms_norm = (och_attr_rms_norm){v % 2 ? 1e-5f : 1e-6f, v % 5 == 2};
        och_tensor in = rig_random(r, &g, n, d * groups, v % 7 == 1 ? 1e-4 : 3.0, v % 2 ? 16 : 0), in0 = rig_copy(r, &in);
        och_tensor addend = rig_random(r, &g, n, d * groups, 1.0, v % 2 ? 16 : 0), res0 = rig_copy(r, &addend);
        och_tensor weight = rig_random(r, &g, 1, d, 1.0, 0);
        c.in[OCH_RMS_NORM_X] = in;
        c.in[OCH_RMS_NORM_W] = weight;
        if (place >= 2) c.in[OCH_RMS_NORM_RESIDUAL] = addend;
        c.out[0] = place == 1 ? in : place == 2 ? addend : rig_tensor(r, OCH_DTYPE_F32, n, d * groups, 0);
        if (rig_ran(r, &c, false, "rms_norm"))
            for (int64_t i = 0; i < n; i++)
                for (int64_t first = 0; first < d * groups; first += d) {
                    double square = 0.0, most = 0.0;
                    const float *src = rig_row(&in0, i) + first;
                    for (int64_t j = d - 1; j >= 0; j--) square += (double)src[j] * src[j];
                    double root = sqrt(square / (double)d + (double)c.attr.rms_norm.eps);
                    for (int64_t j = 0; j < d; j++)
                        most = fmax(most, fabs(src[j] / root * (rig_row(&weight, 0)[j] + (c.attr.rms_norm.add_one ? 1.0 : 0.0))));
                    for (int64_t j = 0; j < d; j++) {
                        double y = src[j] / root * (rig_row(&weight, 0)[j] + (c.attr.rms_norm.add_one ? 1.0 : 0.0));
                        if (place >= 2) y += rig_row(&res0, i)[first + j];
                        double tolerance = (is_reference(r->who) ? 1.5e-7 : NORM_RELATIVE) * (most + fabs(y));
                        rig_near(rig_row(&c.out[0], i)[first + j], y, tolerance, "rms_norm", i, first + j);
                    }
                }
        rig_reset(r);
    }
}

/* ---- ROPE ---- */

#define ROPE_RELATIVE 2e-7 /* of the length of a pair: three roundings */

static void rope_cases(rig *r) {
    /* a quarter turn (cos 0, sin 1): (u, v) -> (-v, u); the second pair by no turn */
    static const float x[] = {1, 2, 3, 4, 5, 6}, table[] = {0, 1, 1, 0};
    static const float half[] = {-3, 2, 1, 4, 5, 6}, interleaved[] = {-2, 1, 3, 4, 5, 6};
    och_op_call h = rig_call(OCH_OP_ROPE);
    r->nmse = 1e-12;
    h.attr.rope = (och_attr_rope){1, 6, 4, OCH_ROPE_HALF};
    h.in[OCH_ROPE_X] = rig_f32(r, 1, 6, x);
    h.in[OCH_ROPE_TABLE] = rig_f32(r, 1, 4, table);
    h.out[0] = rig_f32(r, 1, 6, NULL);
    if (rig_ran(r, &h, false, "half by hand")) rig_near_all(&h.out[0], half, 0.0, "half by hand");
    h.attr.rope.style = OCH_ROPE_INTERLEAVED;
    if (rig_ran(r, &h, false, "interleaved by hand")) rig_near_all(&h.out[0], interleaved, 0.0, "interleaved by hand");
    rig_reset(r);

    static const struct {
        int heads, dim, rot;
    } shapes[] = {{1, 2, 2}, {9, 64, 64}, {3, 64, 64}, {4, 256, 256}, {2, 80, 80}, {6, 96, 48}, {1, 17, 6}, {3, 128, 128}};
    uint64_t seed = 32000;
    for (int v = 0; v < 64; v++) {
        och_attr_rope a = {shapes[v / 8].heads, shapes[v / 8].dim, shapes[v / 8].rot, v % 2 ? OCH_ROPE_HALF : OCH_ROPE_INTERLEAVED};
        int64_t n = basic_rows[v % 8];
        rng g = {seed++};
        och_op_call c = rig_call(OCH_OP_ROPE);
        c.attr.rope = a;
        och_tensor in = rig_random(r, &g, n, (int64_t)a.n_heads * a.head_dim, 2.0, v % 3 ? 0 : 20), in0 = rig_copy(r, &in);
        c.in[OCH_ROPE_X] = in;
        c.in[OCH_ROPE_TABLE] = rope_table(r, &g, n, a.rot_dim);
        c.out[0] = v % 4 < 2 ? in : rig_tensor(r, OCH_DTYPE_F32, n, in.cols, 0);
        double head[256];
        if (rig_ran(r, &c, false, "rope"))
            for (int64_t i = 0; i < n; i++)
                for (int q = 0; q < a.n_heads; q++) {
                    const float *src = rig_row(&in0, i) + q * a.head_dim;
                    oracle_head(src, NULL, false, 0.0, rig_row(&c.in[OCH_ROPE_TABLE], i), &a, head);
                    for (int e = 0; e < a.head_dim; e++) {
                        int half_dim = a.rot_dim / 2, other = e;
                        if (e < a.rot_dim) other = a.style == OCH_ROPE_INTERLEAVED ? e ^ 1 : e < half_dim ? e + half_dim : e - half_dim;
                        rig_near(rig_row(&c.out[0], i)[q * a.head_dim + e], head[e],
                                 e < a.rot_dim ? ROPE_RELATIVE * hypot(src[e], src[other]) : 0.0, "rope", i, q * a.head_dim + e);
                    }
                }
        rig_reset(r);
    }
}

/* ---- GLU ---- */

#define GLU_RELATIVE 1.5e-6 /* of gate * up */

static void glu_cases(rig *r) {
    /* silu(0) = 0, silu(2) = 2/(1+e^-2) = 1.76159416, silu(-100) = 0;
     * gelu_tanh(1) = 0.84119199, gelu_tanh(-1) = -0.15880801; gelu_erf(1) = 0.84134475, gelu_erf(-1) = -0.15865525 */
    static const float gate[] = {0, 2, -100}, up[] = {5, 10, 3}, silu[] = {0, 17.6159416f, 0};
    static const float gate1[] = {1, -1, 12}, up1[] = {10, 10, 1}, tanh1[] = {8.4119199f, -1.5880801f, 12},
                       erf1[] = {8.4134475f, -1.5865525f, 12};
    och_op_call h = rig_call(OCH_OP_GLU);
    r->nmse = 1e-11;
    h.attr.glu.act = OCH_ACT_SILU;
    h.in[OCH_GLU_GATE] = rig_f32(r, 1, 3, gate);
    h.in[OCH_GLU_UP] = rig_f32(r, 1, 3, up);
    h.out[0] = rig_f32(r, 1, 3, NULL);
    if (rig_ran(r, &h, false, "silu by hand")) rig_near_all(&h.out[0], silu, 1e-5, "silu by hand");
    h.in[OCH_GLU_GATE] = rig_f32(r, 1, 3, gate1);
    h.in[OCH_GLU_UP] = rig_f32(r, 1, 3, up1);
    h.attr.glu.act = OCH_ACT_GELU_TANH;
    if (rig_ran(r, &h, false, "gelu_tanh by hand")) rig_near_all(&h.out[0], tanh1, 1e-5, "gelu_tanh by hand");
    h.attr.glu.act = OCH_ACT_GELU_ERF;
    if (rig_ran(r, &h, false, "gelu_erf by hand")) rig_near_all(&h.out[0], erf1, 1e-5, "gelu_erf by hand");
    rig_reset(r);

    static const och_act acts[] = {OCH_ACT_SILU, OCH_ACT_GELU_TANH, OCH_ACT_GELU_ERF};
    uint64_t seed = 33000;
    for (int v = 0; v < 192; v++) {
        rng g = {seed++};
        int64_t n = basic_rows[v % 8], d = basic_cols[v / 8 % 8];
        och_op_call c = rig_call(OCH_OP_GLU);
        c.attr.glu.act = acts[v / 64];
        och_tensor a = rig_random(r, &g, n, d, v % 5 == 4 ? 40.0 : 2.0, v % 3 ? 0 : 8), a0 = rig_copy(r, &a);
        och_tensor b = rig_random(r, &g, n, d, 2.0, 0), b0 = rig_copy(r, &b);
        c.in[OCH_GLU_GATE] = a;
        c.in[OCH_GLU_UP] = b;
        c.out[0] = v % 3 == 0 ? a : v % 3 == 1 ? b : rig_tensor(r, OCH_DTYPE_F32, n, d, 4);
        if (rig_ran(r, &c, false, "glu"))
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < d; j++) {
                    double x = rig_row(&a0, i)[j], u = rig_row(&b0, i)[j];
                    rig_near(rig_row(&c.out[0], i)[j], linear_act(c.attr.glu.act, x) * u,
                             (is_reference(r->who) ? 1.5e-7 : GLU_RELATIVE) * fabs(x * u) + 1e-30, "glu", i, j);
                }
        rig_reset(r);
    }
}

/* ---- ADD, GATHER: exact ---- */

static void add_cases(rig *r) {
    r->nmse = 0.0;
    uint64_t seed = 34000;
    for (int v = 0; v < 64; v++) {
        rng g = {seed++};
        int64_t n = basic_rows[v % 8], d = basic_cols[v / 8];
        och_op_call c = rig_call(OCH_OP_ADD);
        och_tensor a = rig_random(r, &g, n, d, 1.0, v % 3 ? 0 : 8), a0 = rig_copy(r, &a);
        och_tensor b = rig_random(r, &g, n, d, 1.0, 0), b0 = rig_copy(r, &b);
        c.in[0] = a;
        c.in[1] = b;
        c.out[0] = v % 3 == 0 ? a : v % 3 == 1 ? b : rig_tensor(r, OCH_DTYPE_F32, n, d, 4);
        if (rig_ran(r, &c, false, "add"))
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < d; j++)
                    rig_near(rig_row(&c.out[0], i)[j], rig_row(&a0, i)[j] + rig_row(&b0, i)[j], 0.0, "add", i, j);
        rig_reset(r);
    }
}

static void gather_cases(rig *r) {
    r->nmse = 0.0;
    uint64_t seed = 35000;
    for (int v = 0; v < 64; v++) {
        rng g = {seed++};
        int64_t n = 1 + basic_rows[v % 8], m = basic_rows[7 - v % 8], d = basic_cols[v / 8];
        och_op_call c = rig_call(OCH_OP_GATHER);
        c.in[OCH_GATHER_X] = rig_random(r, &g, n, d, 1.0, v % 3 ? 0 : 8);
        c.in[OCH_GATHER_ROWS] = rig_i32(r, m, 1, NULL);
        for (int64_t i = 0; i < m; i++) *rig_int(&c.in[OCH_GATHER_ROWS], i) = rng_below(&g, (int)n);
        c.out[0] = rig_tensor(r, OCH_DTYPE_F32, m, d, 4);
        if (rig_ran(r, &c, false, "gather"))
            for (int64_t i = 0; i < m; i++)
                rig_same_row(&c.in[OCH_GATHER_X], *rig_int(&c.in[OCH_GATHER_ROWS], i), &c.out[0], i, "gather");
        rig_reset(r);
    }
    if (!is_reference(r->who)) return;
    static const int32_t bad[] = {3, -1};
    for (int i = 0; i < 2; i++) {
        och_err err;
        rng g = {1};
        och_op_call c = rig_call(OCH_OP_GATHER);
        c.in[OCH_GATHER_X] = rig_random(r, &g, 3, 4, 1.0, 0);
        c.in[OCH_GATHER_ROWS] = rig_i32(r, 1, 1, &bad[i]);
        c.out[0] = rig_tensor(r, OCH_DTYPE_F32, 1, 4, 0);
        assert_int_equal(rig_run(r, &c, false, &err), OCH_RANGE);
        assert_non_null(strstr(err.message, "operand rows: row 0"));
        rig_reset(r);
    }
}

/* ---- rows of the ops that work row by row: alone, and in a batch, with one thread and with three ---- */

static void basic_rows_alone(rig *r, rig *more) {
    enum { N = 64, D = 576 };
    static const och_op_id ops[] = {OCH_OP_RMS_NORM, OCH_OP_GLU, OCH_OP_ROPE, OCH_OP_ADD};
    r->nmse = more->nmse = 1e-11;
    for (int v = 0; v < 8; v++) {
        rng g = {36000 + (uint64_t)v};
        och_op_call c = rig_call(ops[v % 4]);
        rig *where = v < 4 ? r : more;
        och_tensor x = rig_random(r, &g, N, D, 2.0, 0), b = rig_random(r, &g, N, D, 2.0, 0), w = rig_random(r, &g, 1, D, 1.0, 0);
        c.in[0] = x;
        c.in[1] = c.op == OCH_OP_RMS_NORM ? w : c.op == OCH_OP_ROPE ? rope_table(r, &g, N, 64) : b;
        if (c.op == OCH_OP_RMS_NORM) c.attr.rms_norm.eps = 1e-5f;
        if (c.op == OCH_OP_GLU) c.attr.glu.act = OCH_ACT_SILU;
        if (c.op == OCH_OP_ROPE) c.attr.rope = (och_attr_rope){9, 64, 64, OCH_ROPE_HALF};
        c.out[0] = rig_tensor(r, OCH_DTYPE_F32, N, D, 0);
        if (rig_ran(where, &c, true, "rows"))
            for (int64_t i = 0; i < N; i += 5) {
                och_op_call one = c;
                for (int k = 0; k < 2; k++)
                    if (one.in[k].rows == N) {
                        one.in[k].rows = 1;
                        one.in[k].host = rig_row(&c.in[k], i);
                        one.in[k].addr = och_dev_addr_add(c.in[k].addr, (uint64_t)i * c.in[k].row_bytes);
                    }
                one.out[0] = rig_tensor(r, OCH_DTYPE_F32, 1, D, 0);
                assert_true(rig_ran(r, &one, true, "a row alone"));
                rig_same_row(&c.out[0], i, &one.out[0], 0, och_op_name(c.op));
            }
        rig_reset(r);
        rig_reset(more);
    }
}

#endif
