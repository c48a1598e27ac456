/* LINEAR's cases. The oracle is a plain double loop over decoded weights; the tolerance of each output is computed beside
 * it from what the provider may lose: rounding of float32 sums, of activations to bfloat16 or of activations to int8. */
#ifndef OCH_TESTS_OPS_LINEAR_H
#define OCH_TESTS_OPS_LINEAR_H

#include "conform/support/op_run.h"

typedef struct linear_case {
    och_dtype dtype, dtype2; /* of w0, and of the others (NONE: the same) */
    int64_t k, n, m[3];
    int n_weights;
    och_act glu;
    int norm; /* 0: none, 1: w, 2: 1 + w */
    bool bias, residual, in_place;
    uint64_t pad_bytes;
    double outlier; /* every 50th activation is multiplied by it; 0: none */
} linear_case;

/* A value and how far a provider may be from it. */
typedef struct approx {
    double value, tolerance;
} approx;

/* Standard deviations of the rounding of activations that are tolerated; errors of one output are a sum of many. */
#define LINEAR_SIGMAS 7.0
/* Of the sum of absolute products: float32 accumulation, and the scales of blocks in float32. */
#define LINEAR_F32_RELATIVE 4e-6
#define LINEAR_REFERENCE_RELATIVE 5e-8

static approx linear_dot(const double *a, const float *w, int64_t k, och_dtype dtype, tier who) {
    double value = 0.0, absolute = 0.0, squares = 0.0, variance = 0.0;
    och_act_format act = och_format_get(dtype)->act;
    for (int64_t b = k; b > 0; b -= b % 32 ? b % 32 : 32) {
        int64_t first = b - (b % 32 ? b % 32 : 32);
        double most = 0.0, ww = 0.0;
        for (int64_t i = first; i < b; i++) {
            double p = a[i] * w[i];
            value += p;
            absolute += fabs(p);
            squares += p * p;
            ww += (double)w[i] * w[i];
            most = fmax(most, fabs(a[i]));
        }
        double step = most / 127.0;
        variance += ww * step * step / 12.0;
    }
    if (who == TIER_REFERENCE) return (approx){value, LINEAR_REFERENCE_RELATIVE * absolute};
    double tolerance = LINEAR_F32_RELATIVE * absolute;
    if (act == OCH_ACT_Q8_32S) tolerance += LINEAR_SIGMAS * sqrt(variance);
    if (act == OCH_ACT_BF16) tolerance += LINEAR_SIGMAS * sqrt(squares / 3.0) * 0x1p-9;
    /* Both factors of a tile in half precision; F32 has no reason to leave float32. */
    if (who == TIER_BOARD && dtype != OCH_DTYPE_F32) tolerance += LINEAR_SIGMAS * sqrt(2.0 * squares / 3.0) * 0x1p-11;
    return (approx){value, tolerance};
}

static double linear_act(och_act act, double x) {
    if (act == OCH_ACT_SILU) return x / (1.0 + exp(-x));
    if (act == OCH_ACT_GELU_ERF) return x * 0.5 * erfc(-x / sqrt(2.0));
    double u = sqrt(2.0 / acos(-1.0)) * (x + 0.044715 * pow(x, 3.0));
    return x / (1.0 + exp(-2.0 * u)); /* 0.5 (1 + tanh u) is the logistic function of 2u */
}

/* Of a board against the reference: products of float32; of halves; of bfloat16; of codes and activations of 8 bits. */
static double linear_nmse(const linear_case *s) {
    double most = 0.0;
    for (int i = 0; i < s->n_weights; i++) {
        och_dtype t = i && s->dtype2 != OCH_DTYPE_NONE ? s->dtype2 : s->dtype;
        och_act_format act = och_format_get(t)->act;
        most = fmax(most, t == OCH_DTYPE_F32 ? 1e-10 : act == OCH_ACT_F32 ? 1e-6 : act == OCH_ACT_BF16 ? 1e-5 : 5e-4);
    }
    return most;
}

typedef struct linear_inputs {
    och_tensor x, norm, residual, w[3], b[3], y[3];
} linear_inputs;

static void linear_make(rig *r, rng *g, const linear_case *s, linear_inputs *in, och_op_call *c) {
    *c = rig_call(OCH_OP_LINEAR);
    memset(in, 0, sizeof *in);
    r->nmse = linear_nmse(s);
    c->attr.linear.n_weights = s->n_weights;
    c->attr.linear.glu = s->glu;
    c->attr.linear.norm.eps = 1e-5f;
    c->attr.linear.norm.add_one = s->norm == 2;
    in->x = rig_random(r, g, s->n, s->k, 1.0, s->pad_bytes);
    if (s->outlier != 0.0)
        for (int64_t i = 0; i < s->n; i++)
            for (int64_t j = i % 50; j < s->k; j += 50) rig_row(&in->x, i)[j] *= (float)s->outlier;
    c->in[OCH_LINEAR_X] = in->x;
    if (s->norm) c->in[OCH_LINEAR_NORM] = in->norm = rig_random(r, g, 1, s->k, 1.0, 0);
    for (int i = 0; i < s->n_weights; i++) {
        och_dtype t = i && s->dtype2 != OCH_DTYPE_NONE ? s->dtype2 : s->dtype;
        in->w[i] = rig_weight(r, g, t, s->m[i], s->k, 0.1);
        c->in[OCH_LINEAR_W0 + i] = in->w[i];
        if (s->bias) c->in[OCH_LINEAR_B0 + i] = in->b[i] = rig_random(r, g, 1, s->m[i], 1.0, 0);
        if (i == 0 || s->glu == OCH_ACT_NONE)
            c->out[i] = in->y[i] = rig_tensor(r, OCH_DTYPE_F32, s->n, s->m[i], s->pad_bytes);
    }
    if (s->residual) {
        in->residual = rig_random(r, g, s->n, s->m[0], 1.0, s->pad_bytes);
        c->in[OCH_LINEAR_RESIDUAL] = in->residual;
        if (s->in_place) {
            c->out[0] = in->residual; /* the values that were there are kept for the oracle */
            in->y[0] = in->residual;
            och_tensor copy = rig_tensor(r, OCH_DTYPE_F32, s->n, s->m[0], s->pad_bytes);
            if (s->n) memcpy(copy.host, in->residual.host, (size_t)((uint64_t)s->n * copy.row_bytes));
            in->residual = copy;
        }
    }
}

static void linear_name(const linear_case *s, char *out, size_t size) {
    snprintf(out, size, "%s k %lld n %lld m %lld,%lld,%lld weights %d act %d norm %d%s%s%s pad %llu%s",
             och_dtype_name(s->dtype), (long long)s->k, (long long)s->n, (long long)s->m[0], (long long)s->m[1],
             (long long)s->m[2], s->n_weights, (int)s->glu, s->norm, s->bias ? " bias" : "", s->residual ? " residual" : "",
             s->in_place ? " in place" : "", (unsigned long long)s->pad_bytes, s->outlier != 0.0 ? " outliers" : "");
}

static void linear_verify(const linear_case *s, const linear_inputs *in, tier who, const char *name) {
    double *a = och_malloc_array((size_t)(s->n * s->k + 1), sizeof *a);
    float *w = och_malloc_array((size_t)s->k, sizeof *w), *w2 = och_malloc_array((size_t)s->k, sizeof *w2);
    assert_true(a && w && w2);
    for (int64_t i = 0; i < s->n; i++) {
        double mean = 0.0;
        for (int64_t j = 0; j < s->k; j++) mean += pow(rig_row(&in->x, i)[j], 2.0) / (double)s->k;
        for (int64_t j = 0; j < s->k; j++) {
            double v = rig_row(&in->x, i)[j];
            if (s->norm) v = (float)(v / sqrt(mean + (double)1e-5f) * (rig_row(&in->norm, 0)[j] + (s->norm == 2 ? 1.0 : 0.0)));
            a[i * s->k + j] = v;
        }
    }
    int n_out = s->glu == OCH_ACT_NONE ? s->n_weights : 1;
    double rounding = who == TIER_REFERENCE ? 1.5e-7 : 3e-7; /* of the result: the product, the bias, the residual */
    for (int o = 0; o < n_out; o++)
        for (int64_t j = 0; j < s->m[o]; j++) {
            rig_decode(&in->w[o], j, w);
            if (s->glu != OCH_ACT_NONE) rig_decode(&in->w[1], j, w2);
            for (int64_t i = 0; i < s->n; i++) {
                approx y = linear_dot(a + i * s->k, w, s->k, in->w[o].dtype, who);
                if (s->norm) y.tolerance *= 1.5; /* the norm's own rounding */
                if (s->bias) y.value += rig_row(&in->b[o], 0)[j];
                if (s->glu != OCH_ACT_NONE) {
                    approx u = linear_dot(a + i * s->k, w2, s->k, in->w[1].dtype, who);
                    if (s->bias) u.value += rig_row(&in->b[1], 0)[j];
                    double v = linear_act(s->glu, y.value);
                    /* No derivative of the three exceeds 1.13. */
                    y.tolerance = 1.13 * y.tolerance * (fabs(u.value) + u.tolerance) + fabs(v) * u.tolerance +
                                  2e-6 * fabs(v * u.value);
                    y.value = v * u.value;
                }
                if (s->residual) y.value += rig_row(&in->residual, i)[j];
                rig_near(rig_row(&in->y[o], i)[j], y.value, y.tolerance + rounding * fabs(y.value) + 1e-7, name, i, j);
            }
        }
    och_free(a);
    och_free(w);
    och_free(w2);
}

static void linear_one(rig *r, const linear_case *s, uint64_t seed) {
    if (s->k * s->n * (s->m[0] + s->m[1] + s->m[2]) > RIG_MAX_PRODUCT) return;
    char name[200];
    linear_name(s, name, sizeof name);
    rng g = {seed};
    for (int invariant = 0; invariant < 2; invariant++) {
        linear_inputs in;
        och_op_call c;
        linear_make(r, &g, s, &in, &c);
        if (rig_ran(r, &c, invariant, name)) linear_verify(s, &in, tier_of(r->who), name);
        rig_reset(r);
    }
}

static void linear_by_hand(rig *r) {
    r->nmse = 5e-4; /* of few numbers: the tolerances below hold them */
    /* x = [1 2 3; -1 0 4], w = [1 0 2; 0.5 -1 1]: 1+6, .5-2+3; -1+8, -.5+4 */
    static const float x[] = {1, 2, 3, -1, 0, 4}, w[] = {1, 0, 2, 0.5f, -1, 1}, y[] = {7, 1.5f, 7, 3.5f};
    static const float bias[] = {10, 20}, residual[] = {1, 2, 3, 4}, fused[] = {18, 23.5f, 20, 27.5f};
    och_op_call c = rig_call(OCH_OP_LINEAR);
    c.attr.linear.n_weights = 1;
    c.in[OCH_LINEAR_X] = rig_f32(r, 2, 3, x);
    c.in[OCH_LINEAR_W0] = rig_f32(r, 2, 3, w);
    och_tensor native = c.in[OCH_LINEAR_W0];
    c.out[0] = rig_f32(r, 2, 2, NULL);
    if (rig_ran(r, &c, false, "by hand")) rig_near_all(&c.out[0], y, 1e-6, "by hand");
    c.in[OCH_LINEAR_W0] = native;
    c.in[OCH_LINEAR_B0] = rig_f32(r, 1, 2, bias);
    c.in[OCH_LINEAR_RESIDUAL] = rig_f32(r, 2, 2, residual);
    if (rig_ran(r, &c, false, "by hand, fused")) rig_near_all(&c.out[0], fused, 1e-5, "by hand, fused");
    /* silu(1) = 1 / (1 + e^-1) = 0.7310585786; gate 1, up 3 -> 2.1931757358 */
    static const float one[] = {1, 0}, gate[] = {1, 5}, up[] = {3, 7}, glu[] = {2.1931757358f};
    och_op_call d = rig_call(OCH_OP_LINEAR);
    d.attr.linear.n_weights = 2;
    d.attr.linear.glu = OCH_ACT_SILU;
    d.in[OCH_LINEAR_X] = rig_f32(r, 1, 2, one);
    d.in[OCH_LINEAR_W0] = rig_f32(r, 1, 2, gate);
    d.in[OCH_LINEAR_W0 + 1] = rig_f32(r, 1, 2, up);
    d.out[0] = rig_f32(r, 1, 1, NULL);
    if (rig_ran(r, &d, false, "gate by hand")) rig_near_all(&d.out[0], glu, 1e-6, "gate by hand");
    rig_reset(r);
    /* A block of Q8_0 by its bytes: f16 d = 0.5 (0x3800), q = 1, 2, 3, -4, 0...; x = 1, 1, 2, 3, 9, ...
     * 0.5 * (1 + 2 + 6 - 12) = -1.5 */
    och_op_call q = rig_call(OCH_OP_LINEAR);
    q.attr.linear.n_weights = 1;
    q.in[OCH_LINEAR_X] = rig_f32(r, 1, 32, NULL);
    for (int i = 0; i < 32; i++) rig_row(&q.in[OCH_LINEAR_X], 0)[i] = 9;
    rig_row(&q.in[OCH_LINEAR_X], 0)[0] = 1;
    rig_row(&q.in[OCH_LINEAR_X], 0)[1] = 1;
    rig_row(&q.in[OCH_LINEAR_X], 0)[2] = 2;
    rig_row(&q.in[OCH_LINEAR_X], 0)[3] = 3;
    q.in[OCH_LINEAR_W0] = rig_tensor(r, OCH_DTYPE_Q8_0, 1, 32, 0);
    static const uint8_t block[34] = {0x00, 0x38, 1, 2, 3, 0xFC};
    memcpy(q.in[OCH_LINEAR_W0].host, block, sizeof block);
    q.out[0] = rig_f32(r, 1, 1, NULL);
    /* int8 activations: step 9/127, half of it times 0.5 * (1 + 2 + 3 + 4) */
    double tolerance = is_reference(r->who) ? 1e-6 : 9.0 / 127 / 2 * 5;
    static const float expected[] = {-1.5f};
    if (rig_ran(r, &q, false, "Q8_0 by hand")) rig_near_all(&q.out[0], expected, tolerance, "Q8_0 by hand");
    rig_reset(r);
}

/* Shapes that go through every format. k is rounded up to the format's block. */
static const struct {
    int64_t k, n, m;
} linear_shapes[] = {
    {32, 1, 1},   {96, 2, 3},    {576, 3, 15},  {640, 5, 17},  {1536, 1, 65}, {2048, 1, 33},  {576, 1, 130},
    {256, 16, 16}, {96, 17, 63}, {576, 64, 64}, {1536, 17, 48}, {256, 100, 31}, {32, 0, 5},    {640, 100, 65},
    {2048, 2, 200}, {1024, 64, 1}, {32, 33, 129},
};

static int64_t linear_round(och_dtype t, int64_t k) {
    int64_t b = och_format_get(t)->block_elems;
    return (k + b - 1) / b * b;
}

static void linear_formats(rig *r) {
    linear_by_hand(r);
    uint64_t seed = 1000;
    for (size_t f = 0; och_format_at(f); f++) {
        och_dtype t = och_format_at(f)->dtype;
        for (size_t i = 0; i < sizeof linear_shapes / sizeof linear_shapes[0]; i++) {
            linear_case s = {.dtype = t, .dtype2 = OCH_DTYPE_NONE, .k = linear_round(t, linear_shapes[i].k),
                             .n = linear_shapes[i].n, .m = {linear_shapes[i].m}, .n_weights = 1};
            if (i % 5 == 4) s.outlier = 20.0;
            linear_one(r, &s, seed++);
        }
        /* activations beyond what half precision holds, for one row and for a tile */
        for (int n = 1; n <= 33; n += 32) {
            linear_case s = {.dtype = t, .dtype2 = OCH_DTYPE_NONE, .k = linear_round(t, 512), .n = n, .m = {80}, .n_weights = 1,
                             .outlier = 1e6};
            linear_one(r, &s, seed++);
        }
    }
    /* k that is a multiple of nothing, for the formats without blocks */
    static const och_dtype plain[] = {OCH_DTYPE_F32, OCH_DTYPE_F16, OCH_DTYPE_BF16};
    static const int64_t odd[] = {1, 2, 3, 7, 15, 33, 100, 255};
    for (int f = 0; f < 3; f++)
        for (int i = 0; i < 8; i++) {
            linear_case s = {.dtype = plain[f], .dtype2 = OCH_DTYPE_NONE, .k = odd[i], .n = 1 + i % 4 * 7, .m = {1 + 9 * i},
                             .n_weights = 1};
            linear_one(r, &s, seed++);
        }
}

/* Long rows, and as many rows as a vocabulary has. */
static void linear_large(rig *r) {
    static const struct {
        och_dtype t;
        int64_t k, m, n;
    } shapes[] = {
        {OCH_DTYPE_Q4_K, 14336, 65, 1},  {OCH_DTYPE_Q6_K, 512, 8193, 1},  {OCH_DTYPE_Q8_0, 64, 49153, 2},
        {OCH_DTYPE_F16, 8192, 33, 8},    {OCH_DTYPE_BF16, 40, 65537, 1},  {OCH_DTYPE_Q4_1, 8192, 40, 5},
        {OCH_DTYPE_Q5_K, 8192, 17, 33},  {OCH_DTYPE_F32, 14336, 33, 4},   {OCH_DTYPE_MXFP4, 2880, 33, 65},
        {OCH_DTYPE_Q3_K, 2304, 80, 17},  {OCH_DTYPE_Q4_0, 96, 160, 257},  {OCH_DTYPE_Q8_0, 16384, 17, 18},
        {OCH_DTYPE_F32, 2056, 131, 70},  {OCH_DTYPE_F32, 8, 65, 65},
        /* from here on normed; more than registers of a workgroup hold */
        {OCH_DTYPE_BF16, 16648, 17, 10}, {OCH_DTYPE_F16, 16389, 9, 11}, {OCH_DTYPE_Q8_0, 16416, 17, 10}, {OCH_DTYPE_BF16, 8200, 9, 9},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        linear_case s = {.dtype = shapes[i].t, .dtype2 = OCH_DTYPE_NONE, .k = shapes[i].k, .n = shapes[i].n, .m = {shapes[i].m},
                         .n_weights = 1, .bias = i % 2, .residual = i % 3 == 1, .norm = i < 14 ? 0 : 1 + (int)i % 2};
        linear_one(r, &s, 7000 + i);
    }
}

static void linear_fused(rig *r) {
    uint64_t seed = 5000;
    static const int64_t ns[] = {1, 3, 17, 64, 0};
    for (size_t f = 0; och_format_at(f); f++) {
        och_dtype t = och_format_at(f)->dtype;
        och_dtype other = f % 2 && t != OCH_DTYPE_F32 ? OCH_DTYPE_Q8_0 : OCH_DTYPE_NONE;
        int64_t k = linear_round(t, f % 2 ? 512 : 576);
        int64_t n = ns[f % 5], n2 = ns[(f + 2) % 5];
        const linear_case cases[] = {
            {.dtype = t, .dtype2 = other, .k = k, .n = n, .m = {64, 33, 33}, .n_weights = 3, .norm = 1},
            {.dtype = t, .dtype2 = other, .k = k, .n = n2, .m = {96, 32, 32}, .n_weights = 3, .norm = 1, .bias = true},
            {.dtype = t, .dtype2 = OCH_DTYPE_NONE, .k = k, .n = n, .m = {70, 70}, .n_weights = 2, .norm = 1,
             .glu = OCH_ACT_SILU},
            {.dtype = t, .dtype2 = OCH_DTYPE_NONE, .k = k, .n = n2, .m = {33, 33}, .n_weights = 2, .norm = 2,
             .glu = OCH_ACT_GELU_TANH, .pad_bytes = 20},
            {.dtype = t, .dtype2 = other, .k = k, .n = n, .m = {64, 64}, .n_weights = 2, .bias = true,
             .glu = OCH_ACT_GELU_ERF},
            {.dtype = t, .dtype2 = OCH_DTYPE_NONE, .k = k, .n = n, .m = {65}, .n_weights = 1, .residual = true},
            {.dtype = t, .dtype2 = OCH_DTYPE_NONE, .k = k, .n = n2, .m = {64}, .n_weights = 1, .residual = true,
             .in_place = true, .bias = true, .pad_bytes = 64},
            {.dtype = t, .dtype2 = OCH_DTYPE_NONE, .k = k, .n = n2, .m = {40}, .n_weights = 1, .norm = 2, .residual = true},
            {.dtype = t, .dtype2 = other, .k = k, .n = n2, .m = {17, 80}, .n_weights = 2},
        };
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) linear_one(r, &cases[i], seed++);
    }
}

/* A row alone, in batches of several sizes, permuted, and beside other neighbours. */
static void linear_rows(rig *r) {
    enum { N = 64 };
    uint64_t seed = 9000;
    for (size_t f = 0; och_format_at(f); f++) {
        och_dtype t = och_format_at(f)->dtype;
        for (int variant = 0; variant < 3; variant++) {
            linear_case s = {.dtype = t, .dtype2 = OCH_DTYPE_NONE, .k = linear_round(t, 320), .n = N, .m = {49, 49, 16},
                             .n_weights = variant == 0 ? 1 : variant == 1 ? 2 : 3, .norm = variant,
                             .glu = variant == 1 ? OCH_ACT_SILU : OCH_ACT_NONE,
                             .pad_bytes = variant == 1 ? 0 : 12}; /* rows then differ in alignment */
            rng g = {seed++};
            linear_inputs in;
            och_op_call c;
            char name[200];
            linear_name(&s, name, sizeof name);
            linear_make(r, &g, &s, &in, &c);
            och_op_call whole = c;
            if (!rig_ran(r, &whole, true, name)) {
                rig_reset(r);
                continue;
            }
            int n_out = s.glu == OCH_ACT_NONE ? s.n_weights : 1;
            static const int64_t sizes[] = {1, 2, 3, 5, 8, 16, 17, 33};
            for (int b = 0; b < 8; b++) {
                int64_t first = b * 7 % (N - sizes[b]);
                och_op_call part = whole; /* packed weights are reused */
                part.in[OCH_LINEAR_X] = rig_tensor(r, OCH_DTYPE_F32, sizes[b], s.k, 0);
                for (int64_t i = 0; i < sizes[b]; i++)
                    memcpy(rig_row(&part.in[OCH_LINEAR_X], i), rig_row(&in.x, first + i), (size_t)s.k * sizeof(float));
                for (int o = 0; o < n_out; o++) part.out[o] = rig_tensor(r, OCH_DTYPE_F32, sizes[b], s.m[o], 0);
                assert_true(rig_ran(r, &part, true, name));
                for (int o = 0; o < n_out; o++)
                    for (int64_t i = 0; i < sizes[b]; i++) rig_same_row(&whole.out[o], first + i, &part.out[o], i, name);
            }
            rig_reset(r);

            /* Without the switch the same number of rows is the same variant; a vendor's library may take rows at a tile's end
             * otherwise than the others. */
            if (!strcmp(r->who->provider, "blas")) continue;
            rng g2 = {seed++};
            linear_make(r, &g2, &s, &in, &c);
            och_op_call straight = c, permuted = c;
            assert_true(rig_ran(r, &straight, false, name));
            permuted.in[OCH_LINEAR_X] = rig_random(r, &g2, N, s.k, 1.0, 0);
            for (int o = 0; o < n_out; o++) permuted.out[o] = rig_tensor(r, OCH_DTYPE_F32, N, s.m[o], 0);
            /* Row i goes to (i * 29 + 3) % 64; every fourth is replaced by another. */
            for (int64_t i = 0; i < N; i++)
                if (i % 4)
                    memcpy(rig_row(&permuted.in[OCH_LINEAR_X], (i * 29 + 3) % N), rig_row(&in.x, i), (size_t)s.k * 4);
            assert_true(rig_ran(r, &permuted, false, name));
            for (int o = 0; o < n_out; o++)
                for (int64_t i = 0; i < N; i++)
                    if (i % 4) rig_same_row(&straight.out[o], i, &permuted.out[o], (i * 29 + 3) % N, name);
            rig_reset(r);
        }
    }
}

/* The bytes do not depend on the number of threads. r has one thread, `more` several. */
static void linear_threads(rig *r, rig *more) {
    uint64_t seed = 12000;
    static const int64_t ns[] = {1, 5, 64};
    for (size_t f = 0; och_format_at(f); f++) {
        och_dtype t = och_format_at(f)->dtype;
        for (int v = 0; v < 6; v++) {
            linear_case s = {.dtype = t, .dtype2 = OCH_DTYPE_NONE, .k = linear_round(t, 288), .n = ns[v % 3], .m = {161, 161},
                             .n_weights = v < 3 ? 1 : 2, .norm = v % 2, .glu = v < 3 ? OCH_ACT_NONE : OCH_ACT_GELU_TANH};
            char name[200];
            linear_name(&s, name, sizeof name);
            linear_inputs a, b;
            och_op_call ca, cb;
            rng ga = {seed}, gb = {seed};
            seed++;
            linear_make(r, &ga, &s, &a, &ca);
            linear_make(more, &gb, &s, &b, &cb);
            if (rig_ran(r, &ca, v & 1, name)) {
                assert_true(rig_ran(more, &cb, v & 1, name));
                for (int64_t i = 0; i < s.n; i++) rig_same_row(&ca.out[0], i, &cb.out[0], i, name);
            }
            rig_reset(r);
            rig_reset(more);
        }
    }
}

#endif
