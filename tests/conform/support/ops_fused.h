/* A fused op of the reference gives the same bytes as the ops that it stands for, so that a pass that fuses changes
 * nothing there. */
#ifndef OCH_TESTS_OPS_FUSED_H
#define OCH_TESTS_OPS_FUSED_H

#include "conform/support/ops_basic.h"

static och_tensor ran(rig *r, och_op_call *c, int64_t rows, int64_t cols, const char *what) {
    c->out[0] = rig_tensor(r, OCH_DTYPE_F32, rows, cols, 0);
    assert_true(rig_ran(r, c, false, what));
    return c->out[0];
}
static void same_rows(const och_tensor *a, const och_tensor *b, const char *what) {
    for (int64_t i = 0; i < a->rows; i++) rig_same_row(a, i, b, i, what);
}
static och_op_call linear_call(och_tensor x, och_tensor w) {
    och_op_call c = rig_call(OCH_OP_LINEAR);
    c.attr.linear.n_weights = 1;
    c.in[OCH_LINEAR_X] = x;
    c.in[OCH_LINEAR_W0] = w;
    return c;
}
static och_op_call norm_call(och_tensor x, och_tensor w, och_attr_rms_norm attr) {
    och_op_call c = rig_call(OCH_OP_RMS_NORM);
    c.attr.rms_norm = attr;
    c.in[OCH_RMS_NORM_X] = x;
    c.in[OCH_RMS_NORM_W] = w;
    return c;
}
static och_op_call pair_call(och_op_id op, och_tensor a, och_tensor b) {
    och_op_call c = rig_call(op);
    c.in[0] = a;
    c.in[1] = b;
    return c;
}

static void fused_linear(rig *r) {
    enum { N = 5, K = 96, M = 35 };
    static const och_act acts[] = {OCH_ACT_SILU, OCH_ACT_GELU_TANH, OCH_ACT_GELU_ERF};
    for (int v = 0; v < 6; v++) {
        rng g = {40000 + (uint64_t)v};
        const och_attr_rms_norm attr = {1e-5f, v % 2};
        och_tensor x = rig_random(r, &g, N, K, 1.0, 0), w = rig_random(r, &g, 1, K, 1.0, 0);
        och_tensor w0 = rig_weight(r, &g, OCH_DTYPE_Q4_1, M, K, 0.2), w1 = rig_weight(r, &g, OCH_DTYPE_Q8_0, M, K, 0.2);
        och_tensor res = rig_random(r, &g, N, M, 1.0, 0);
        och_op_call c = norm_call(x, w, attr);
        och_tensor a = ran(r, &c, N, K, "norm");
        c = linear_call(a, w0);
        och_tensor gate = ran(r, &c, N, M, "gate");
        c = linear_call(a, w1);
        och_tensor up = ran(r, &c, N, M, "up");
        c = pair_call(OCH_OP_GLU, gate, up);
        c.attr.glu.act = acts[v % 3];
        och_tensor y = ran(r, &c, N, M, "glu");
        c = linear_call(x, w0);
        c.in[OCH_LINEAR_NORM] = w;
        c.attr.linear.norm = attr;
        c.attr.linear.n_weights = 2;
        c.in[OCH_LINEAR_W0 + 1] = w1;
        och_op_call two = c;
        two.out[1] = rig_tensor(r, OCH_DTYPE_F32, N, M, 0);
        och_tensor first = ran(r, &two, N, M, "two weights");
        same_rows(&gate, &first, "the first of two weights");
        same_rows(&up, &two.out[1], "the second of two weights");
        c.attr.linear.glu = acts[v % 3];
        och_tensor fused = ran(r, &c, N, M, "norm, products and gate");
        same_rows(&y, &fused, "norm, products and gate");

        c = pair_call(OCH_OP_ADD, gate, res);
        y = ran(r, &c, N, M, "add");
        c = linear_call(a, w0);
        c.in[OCH_LINEAR_RESIDUAL] = res;
        fused = ran(r, &c, N, M, "product and residual");
        same_rows(&y, &fused, "product and residual");

        c = norm_call(res, rig_random(r, &g, 1, M, 1.0, 0), attr);
        och_tensor weight = c.in[OCH_RMS_NORM_W], normed = ran(r, &c, N, M, "norm of rows");
        c = pair_call(OCH_OP_ADD, normed, gate);
        y = ran(r, &c, N, M, "add");
        c = norm_call(res, weight, attr);
        c.in[OCH_RMS_NORM_RESIDUAL] = gate;
        fused = ran(r, &c, N, M, "norm and residual");
        same_rows(&y, &fused, "norm and residual");
        rig_reset(r);
    }
}

static void fused_qkv_post(rig *r) {
    enum { N = 7, HEADS = 4, KV_HEADS = 2, D = 48, BT = 16, BLOCKS = 2 };
    for (int v = 0; v < 4; v++) {
        rng g = {41000 + (uint64_t)v};
        const och_attr_kv kv = {KV_HEADS, D, BT};
        const och_attr_rope rope = {HEADS, D, 32, v % 2 ? OCH_ROPE_HALF : OCH_ROPE_INTERLEAVED};
        const och_attr_rms_norm attr = {1e-6f, v > 1};
        och_tensor q = rig_random(r, &g, N, HEADS * D, 1.0, 0), k = rig_random(r, &g, N, KV_HEADS * D, 1.0, 0),
                   values = rig_random(r, &g, N, KV_HEADS * D, 1.0, 0), qn = rig_random(r, &g, 1, D, 1.0, 0),
                   kn = rig_random(r, &g, 1, D, 1.0, 0), table = rope_table(r, &g, N, 32);
        static const int32_t slots[N] = {3, 4, 5, 16, 17, -1, 31};
        och_tensor where = rig_i32(r, N, 1, slots), cache[4];
        for (int i = 0; i < 4; i++) cache[i] = rig_tensor(r, OCH_DTYPE_F16, BLOCKS, KV_HEADS * D * BT, 0);
        och_op_call c = norm_call(q, qn, attr);
        och_tensor y = ran(r, &c, N, HEADS * D, "q norm");
        c = pair_call(OCH_OP_ROPE, y, table);
        c.attr.rope = rope;
        y = ran(r, &c, N, HEADS * D, "q rope");
        c = norm_call(k, kn, attr);
        och_tensor key = ran(r, &c, N, KV_HEADS * D, "k norm");
        c = pair_call(OCH_OP_ROPE, key, table);
        c.attr.rope = rope;
        c.attr.rope.n_heads = KV_HEADS;
        key = ran(r, &c, N, KV_HEADS * D, "k rope");
        c = pair_call(OCH_OP_KV_WRITE, key, values);
        c.attr.kv_write = kv;
        c.in[OCH_KV_WRITE_SLOTS] = where;
        c.out[0] = cache[0];
        c.out[1] = cache[1];
        assert_true(rig_ran(r, &c, false, "kv write"));
        c = rig_call(OCH_OP_QKV_POST);
        c.attr.qkv_post.kv = kv;
        c.attr.qkv_post.rope = rope;
        c.attr.qkv_post.norm = attr;
        const och_tensor in[] = {q, k, values, qn, kn, table, where};
        memcpy(c.in, in, sizeof in);
        c.out[1] = cache[2];
        c.out[2] = cache[3];
        och_tensor fused = ran(r, &c, N, HEADS * D, "qkv_post");
        same_rows(&y, &fused, "qkv_post");
        for (int i = 0; i < 2; i++)
            assert_memory_equal(cache[i].host, cache[i + 2].host, (size_t)(BLOCKS * cache[i].row_bytes));
        rig_reset(r);
    }
}

#endif
