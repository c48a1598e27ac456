/* A product of q, k and v that does one row whole (op/op.h, och_op_one_row): rotations in double of products in double, the state where
 * its slot says and nowhere else; more rows, and one that is computed as among others, as if that had not been asked for. */
#ifndef OCH_TESTS_OPS_ONE_ROW_H
#define OCH_TESTS_OPS_ONE_ROW_H

#include "conform/support/ops_codes.h"

typedef struct one_row_case {
    och_dtype w, v, cache; /* of q and k, of v */
    int heads, kv_heads, dim, rot, block;
    och_rope_style style;
    int64_t k;
    bool norm, bias;
    int32_t slot;
} one_row_case;

static const one_row_case one_row_cases[] = {
    {OCH_DTYPE_Q4_K, OCH_DTYPE_Q6_K, OCH_DTYPE_F16, 4, 2, 64, 64, 32, OCH_ROPE_HALF, 512, true, false, 37},
    {OCH_DTYPE_Q4_K, OCH_DTYPE_Q4_K, OCH_DTYPE_F8_E4M3, 2, 1, 128, 128, 32, OCH_ROPE_INTERLEAVED, 256, false, true, 0},
    {OCH_DTYPE_Q8_0, OCH_DTYPE_Q8_0, OCH_DTYPE_BF16, 3, 1, 80, 48, 16, OCH_ROPE_HALF, 96, true, true, 31},
    {OCH_DTYPE_Q4_1, OCH_DTYPE_Q4_1, OCH_DTYPE_F32, 2, 2, 96, 6, 16, OCH_ROPE_INTERLEAVED, 1088, false, false, 16},
    {OCH_DTYPE_F16, OCH_DTYPE_F16, OCH_DTYPE_F16, 4, 1, 64, 64, 32, OCH_ROPE_HALF, 600, true, true, 5},
    {OCH_DTYPE_BF16, OCH_DTYPE_BF16, OCH_DTYPE_BF16, 2, 1, 256, 128, 32, OCH_ROPE_HALF, 136, true, false, 40},
    {OCH_DTYPE_F32, OCH_DTYPE_F32, OCH_DTYPE_F32, 2, 1, 32, 0, 16, OCH_ROPE_HALF, 100, false, true, 2},
    {OCH_DTYPE_Q4_K, OCH_DTYPE_Q6_K, OCH_DTYPE_F16, 4, 2, 64, 64, 32, OCH_ROPE_HALF, 512, true, false, -1},
    /* What may go by way of LDS (kernels/ring.ok), of either wave. */
    {OCH_DTYPE_Q4_K, OCH_DTYPE_Q4_K, OCH_DTYPE_F16, 4, 2, 64, 32, 32, OCH_ROPE_HALF, 2048, true, true, 37},
    {OCH_DTYPE_Q8_0, OCH_DTYPE_Q8_0, OCH_DTYPE_F32, 2, 1, 96, 96, 16, OCH_ROPE_INTERLEAVED, 2048, false, false, 18},
};

/* Before the device's first kernel is asked for. */
static void one_row_begin(rig *r, const char *wish) {
    const och_op_provider *p = rig_provider(r, OCH_OP_LINEAR);
    if (!p || (!p->takes_one_row && !is_reference(r->who))) {
        rig_skips("provider %s leaves one row to an op of its own", r->who->provider);
        skip();
    }
    assert_true(och_env_set("OCHRE_ONE_ROW", wish));
}

/* Of n rows, of which others than the first have no slot. */
static och_op_call one_row_call(rig *r, rng *g, const one_row_case *s, int64_t n, linear_inputs *in) {
    const och_attr_kv kv = {s->kv_heads, s->dim, s->block};
    int64_t kv_rows = (int64_t)s->kv_heads * s->dim;
    const linear_case shape = {.dtype = s->w, .dtype2 = s->w, .k = s->k, .n = n, .m = {(int64_t)s->heads * s->dim, kv_rows, kv_rows},
                               .n_weights = 3, .norm = s->norm, .bias = s->bias};
    och_op_call c;
    linear_make(r, g, &shape, in, &c);
    if (s->v != s->w) c.in[OCH_LINEAR_W0 + 2] = in->w[2] = rig_weight(r, g, s->v, kv_rows, s->k, 0.1);
    c.attr.linear.post = (och_attr_qkv_post){.kv = kv, .rope = {s->heads, s->dim, s->rot, s->style}};
    c.in[OCH_LINEAR_TABLE] = rope_table(r, g, n, s->rot);
    c.in[OCH_LINEAR_SLOTS] = rig_i32(r, n, 1, NULL);
    for (int64_t i = 0; i < n; i++) *rig_int(&c.in[OCH_LINEAR_SLOTS], i) = i ? -1 : s->slot;
    for (int i = 0; i < 2; i++) c.out[OCH_LINEAR_KCACHE + i] = rig_tensor(r, s->cache, 3, kv_rows * s->block, 0);
    r->no_twin = true; /* of y_1 and y_2 nothing is said */
    return c;
}

static void one_row_fresh(rig *r, const one_row_case *s, och_op_call *c) {
    for (int i = 0; i < 3; i++) c->out[i] = rig_tensor(r, OCH_DTYPE_F32, c->out[i].rows, c->out[i].cols, 0);
    for (int i = 0; i < 2; i++)
        c->out[OCH_LINEAR_KCACHE + i] = rig_tensor(r, s->cache, 3, c->out[OCH_LINEAR_KCACHE + i].cols, 0);
}

static bool one_row_untouched(const och_tensor *t) {
    const uint8_t *at = t->host;
    for (uint64_t i = 0; i < (uint64_t)t->rows * t->row_bytes; i++)
        if (at[i] != RIG_FILL) return false;
    return true;
}

/* Head h of product w, in double, and how far each element may be from it; both turned where `turns`. */
static void one_row_head(const one_row_case *s, const linear_inputs *in, const och_op_call *c, int w, int h, bool turns, tier who, approx out[256]) {
    double *a = och_malloc_array((size_t)s->k, sizeof *a), mean = 0.0;
    float *row = och_malloc_array((size_t)s->k, sizeof *row);
    const float *x = rig_row(&in->x, 0), *table = rig_row(&c->in[OCH_LINEAR_TABLE], 0);
    int half = s->rot / 2;
    assert_true(a && row);
    for (int64_t j = 0; j < s->k; j++) mean += pow(x[j], 2.0) / (double)s->k;
    for (int64_t j = 0; j < s->k; j++)
        a[j] = s->norm ? (double)(float)(x[j] / sqrt(mean + (double)1e-5f) * rig_row(&in->norm, 0)[j]) : (double)x[j];
    for (int e = 0; e < s->dim; e++) {
        rig_decode(&in->w[w], (int64_t)h * s->dim + e, row);
        out[e] = linear_dot(a, row, s->k, in->w[w].dtype, who);
        if (s->bias) out[e].value += rig_row(&in->b[w], 0)[h * s->dim + e];
        out[e].tolerance += 4e-7 * fabs(out[e].value);
    }
    for (int e = 0; turns && e < half; e++) {
        approx *u = &out[s->style == OCH_ROPE_HALF ? e : 2 * e], *v = &out[s->style == OCH_ROPE_HALF ? e + half : 2 * e + 1];
        double re = u->value, im = v->value, most = u->tolerance + v->tolerance + 4e-7 * (fabs(re) + fabs(im));
        *u = (approx){re * table[e] - im * table[half + e], most};
        *v = (approx){re * table[half + e] + im * table[e], most};
    }
    och_free(row);
    och_free(a);
}

static void one_row_verify(rig *r, const one_row_case *s, const linear_inputs *in, const och_op_call *c, const char *name) {
    const och_attr_kv *kv = &c->attr.linear.post.kv;
    const och_tensor *kc = &c->out[OCH_LINEAR_KCACHE], *vc = &c->out[OCH_LINEAR_VCACHE];
    approx head[256];
    for (int h = 0; h < s->heads; h++) {
        one_row_head(s, in, c, 0, h, true, tier_of(r->who), head);
        for (int e = 0; e < s->dim; e++) rig_near(rig_row(&c->out[0], 0)[h * s->dim + e], head[e].value, head[e].tolerance, name, 0, h * s->dim + e);
    }
    /* What was stored is taken out again: then nothing may have been. */
    for (int h = 0; s->slot >= 0 && h < s->kv_heads; h++)
        for (int v = 0; v < 2; v++) {
            one_row_head(s, in, c, 1 + v, h, !v, tier_of(r->who), head);
            for (int e = 0; e < s->dim; e++) {
                uint64_t at = (v ? v_index : k_index)(kv, s->slot / s->block, h, s->slot % s->block, e), size = och_dtype_get(s->cache)->block_bytes;
                rig_near(cache_get(v ? vc : kc, at), head[e].value, head[e].tolerance + cache_ulp(s->cache, head[e].value), name, v, h * s->dim + e);
                memset((uint8_t *)(v ? vc : kc)->host + at * size, RIG_FILL, size);
            }
        }
    if (!one_row_untouched(kc) || !one_row_untouched(vc)) fail_msg("%s: written where no slot is", name);
}

/* The QKV_POST behind the call does nothing; unmarked, and of a row as among others, what it always does. */
static void one_row_post(rig *r, const one_row_case *s, och_op_call *c, const char *name) {
    int64_t n = c->out[0].rows;
    if (!strcmp(r->who->provider, "blas")) return; /* which has products alone */
    for (int way = 0; way < 3; way++) { /* unmarked, marked, marked as among others */
        rng g = {71000};
        och_op_call q = och_op_post_of(c), whole;
        for (int i = 0; i < 3; i++) q.in[OCH_QKV_POST_Q + i] = rig_random(r, &g, n, c->out[i].cols, 1.0, 0);
        q.out[0] = q.in[OCH_QKV_POST_Q];
        for (int i = 0; i < 2; i++) q.out[1 + i] = rig_tensor(r, s->cache, 3, c->out[OCH_LINEAR_KCACHE].cols, 0);
        och_tensor before = rig_copy(r, &q.out[0]);
        whole = q;
        q.attr.qkv_post.one_row_done = way > 0;
        assert_true(rig_ran(r, &q, way == 2, name));
        if (way == 1 && n == 1) {
            same_rows(&before, &q.out[0], name);
            if (!one_row_untouched(&q.out[1]) || !one_row_untouched(&q.out[2])) fail_msg("%s: a state is written twice", name);
            continue;
        }
        for (int i = 0; i < 2; i++) whole.out[1 + i] = rig_tensor(r, s->cache, 3, c->out[OCH_LINEAR_KCACHE].cols, 0);
        whole.in[OCH_QKV_POST_Q] = before;
        whole.out[0] = rig_tensor(r, OCH_DTYPE_F32, n, before.cols, 0);
        assert_true(rig_ran(r, &whole, way == 2, name));
        same_rows(&whole.out[0], &q.out[0], name);
        for (int i = 1; i < 3; i++) assert_memory_equal(whole.out[i].host, q.out[i].host, (size_t)(3 * q.out[i].row_bytes));
    }
}

static void one_row_linear(rig *r) {
    one_row_begin(r, "1");
    for (size_t i = 0; i < OCH_COUNT(one_row_cases); i++) {
        const one_row_case *s = &one_row_cases[i];
        for (int way = 0; way < 3; way++) { /* one row, two, one as among others */
            linear_inputs in;
            rng g = {70000 + i};
            char name[128];
            och_op_call c = one_row_call(r, &g, s, way == 1 ? 2 : 1, &in);
            snprintf(name, sizeof name, "one row, case %d of %s, heads of %d, way %d", (int)i, och_dtype_name(s->w), s->dim, way);
            assert_true(rig_ran(r, &c, way == 2, name));
            if (!way) {
                if (s->slot >= 0 && (one_row_untouched(&c.out[OCH_LINEAR_KCACHE]) || one_row_untouched(&c.out[OCH_LINEAR_VCACHE])))
                    fail_msg("%s: nothing is stored", name);
                one_row_verify(r, s, &in, &c, name);
                if (!is_reference(r->who) && (!one_row_untouched(&c.out[1]) || !one_row_untouched(&c.out[2])))
                    fail_msg("%s: k and v are written apart: its kernel did not run", name);
            } else {
                och_op_call plain = c;
                one_row_fresh(r, s, &plain);
                plain.in[OCH_LINEAR_TABLE].dtype = plain.in[OCH_LINEAR_SLOTS].dtype = OCH_DTYPE_NONE;
                plain.out[OCH_LINEAR_KCACHE].dtype = plain.out[OCH_LINEAR_VCACHE].dtype = OCH_DTYPE_NONE;
                assert_true(rig_ran(r, &plain, way == 2, name));
                for (int o = 0; o < 3; o++) same_rows(&plain.out[o], &c.out[o], name);
                if (!one_row_untouched(&c.out[OCH_LINEAR_KCACHE]) || !one_row_untouched(&c.out[OCH_LINEAR_VCACHE]))
                    fail_msg("%s: a state is written", name);
            }
            if (way < 2) one_row_post(r, s, &c, name);
            rig_reset(r);
        }
    }
    r->no_twin = false;
}

/* Codes for x, as a product before hands them on, give the same bytes. */
static void one_row_codes(rig *r) {
    one_row_begin(r, "1");
    if (!rig_provider(r, OCH_OP_LINEAR)->takes_codes) skip();
    for (size_t i = 0; i < OCH_COUNT(one_row_cases); i++) {
        one_row_case s = one_row_cases[i];
        linear_inputs in;
        rng g = {72000 + i};
        if (och_format_get(s.w)->act != OCH_ACT_Q8_32S) continue;
        s.norm = false;
        och_op_call c = one_row_call(r, &g, &s, 1, &in), coded = c;
        assert_true(rig_ran(r, &c, false, "one row"));
        one_row_fresh(r, &s, &coded);
        for (int w = 0; w < 3; w++) coded.in[OCH_LINEAR_W0 + w] = c.in[OCH_LINEAR_W0 + w]; /* packed */
        coded.in[OCH_LINEAR_XCODES] = codes_tensor(r, s.k);
        och_planes_act_encode_row(rig_row(&in.x, 0), (uint64_t)s.k, coded.in[OCH_LINEAR_XCODES].host);
        coded.in[OCH_LINEAR_X] = rig_tensor(r, OCH_DTYPE_F32, 1, s.k, 0);
        assert_true(rig_ran(r, &coded, false, "one row, as codes"));
        same_rows(&c.out[0], &coded.out[0], "one row, as codes");
        for (int o = OCH_LINEAR_KCACHE; o <= OCH_LINEAR_VCACHE; o++)
            assert_memory_equal(c.out[o].host, coded.out[o].host, (size_t)(3 * c.out[o].row_bytes));
        rig_reset(r);
    }
    r->no_twin = false;
}

/* Without the kernel (nobody asked for it) the record does the same in more launches. */
static void one_row_without(rig *r) {
    one_row_begin(r, "0");
    r->unasked = true;
    for (size_t i = 0; i < OCH_COUNT(one_row_cases); i++) {
        linear_inputs in;
        rng g = {73000 + i};
        och_op_call c = one_row_call(r, &g, &one_row_cases[i], 1, &in);
        assert_true(rig_ran(r, &c, false, "one row without its kernel"));
        one_row_verify(r, &one_row_cases[i], &in, &c, "one row without its kernel");
        rig_reset(r);
    }
    r->no_twin = r->unasked = false;
}

#endif
