/* LINEAR: products with weights of any format, with the norm before and the gate, bias and residual after.
 *
 * The reference decodes a weight row once and multiplies it with every token row, in double. Members of the pool take
 * output columns; a dot product is the same sequence of operations whatever the number of rows, columns or members. */
#include "op/def.h"

#include "base/size.h"
#include "quant/format.h"

/* Weight rows decoded at a time: enough to use a token's element four times once it is loaded. */
#define TILE 4
#define LANES 4

/* Pairs, since every 64-bit instruction set has registers for two doubles. */
typedef double pair __attribute__((vector_size(2 * sizeof(double))));
typedef struct lanes {
    pair a, b;
} lanes;

static och_status check(const och_op_call *c, och_err *err) {
    const och_attr_linear *a = &c->attr.linear;
    const och_tensor *x = &c->in[OCH_LINEAR_X], *residual = &c->in[OCH_LINEAR_RESIDUAL];
    if (a->n_weights < 1 || a->n_weights > OCH_LINEAR_MAX_WEIGHTS)
        return och_err_set(err, OCH_INVALID, "op linear: expected 1 to %d weights, found n_weights %d",
                           OCH_LINEAR_MAX_WEIGHTS, a->n_weights);
    if (a->glu < OCH_ACT_NONE || a->glu > OCH_ACT_GELU_ERF || (a->glu != OCH_ACT_NONE && a->n_weights != 2))
        return och_err_set(err, OCH_INVALID, "op linear: expected glu none, or an activation and 2 weights, found act %d "
                           "and %d weights", (int)a->glu, a->n_weights);
    OCH_TRY(och_op_expect(c, och_in(OCH_LINEAR_X), OCH_DTYPE_F32, -1, -1, err));
    if (och_tensor_present(&c->in[OCH_LINEAR_NORM])) {
        OCH_TRY(och_op_expect_norm(c, &a->norm, err));
        OCH_TRY(och_op_expect(c, och_in(OCH_LINEAR_NORM), OCH_DTYPE_F32, 1, x->cols, err));
    }
    for (int i = 0; i < OCH_LINEAR_MAX_WEIGHTS; i++) {
        bool want_w = i < a->n_weights, want_y = a->glu == OCH_ACT_NONE ? want_w : i == 0;
        const och_tensor *w = &c->in[OCH_LINEAR_W0 + i], *b = &c->in[OCH_LINEAR_B0 + i];
        if (och_tensor_present(w) != want_w)
            return och_op_fail(c, och_in(OCH_LINEAR_W0 + i), OCH_INVALID, err, "expected %d weights, found %s one",
                               a->n_weights, want_w ? "no such" : "another");
        if (och_tensor_present(&c->out[i]) != want_y)
            return och_op_fail(c, och_out(i), OCH_INVALID, err, "expected %s, found %s", want_y ? "it" : "none",
                               want_y ? "none" : "one");
        if (och_tensor_present(b) && !want_w)
            return och_op_fail(c, och_in(OCH_LINEAR_B0 + i), OCH_INVALID, err, "expected no bias without its weight");
        if (!want_w) continue;
        int64_t m = a->glu != OCH_ACT_NONE && i ? c->in[OCH_LINEAR_W0].rows : -1;
        OCH_TRY(och_op_expect_weight(c, och_in(OCH_LINEAR_W0 + i), m, x->cols, err));
        if (och_tensor_present(b)) OCH_TRY(och_op_expect(c, och_in(OCH_LINEAR_B0 + i), OCH_DTYPE_F32, 1, w->rows, err));
        if (want_y) OCH_TRY(och_op_expect(c, och_out(i), OCH_DTYPE_F32, x->rows, w->rows, err));
    }
    if (och_tensor_present(residual)) {
        if (a->n_weights != 1)
            return och_op_fail(c, och_in(OCH_LINEAR_RESIDUAL), OCH_INVALID, err,
                               "expected one weight beside a residual, found %d", a->n_weights);
        OCH_TRY(och_op_expect(c, och_in(OCH_LINEAR_RESIDUAL), OCH_DTYPE_F32, x->rows, c->in[OCH_LINEAR_W0].rows, err));
    }
    if (och_tensor_present(&c->in[OCH_LINEAR_XCODES])) {
        if (och_op_xnormed(c)) OCH_TRY(och_op_expect_normed(c, och_in(OCH_LINEAR_XCODES), x->cols, err));
        else OCH_TRY(och_op_expect_codes(c, och_in(OCH_LINEAR_XCODES), x->cols, err));
        for (int i = 0; i < a->n_weights; i++)
            if (och_format_get(c->in[OCH_LINEAR_W0 + i].dtype)->act != OCH_ACT_Q8_32S)
                return och_op_fail(c, och_in(OCH_LINEAR_W0 + i), OCH_INVALID, err,
                                   "expected weights that pair with codes beside those, found %s", och_dtype_name(c->in[OCH_LINEAR_W0 + i].dtype));
    }
    if (och_tensor_present(&c->in[OCH_LINEAR_YNORM])) {
        OCH_TRY(och_op_expect(c, och_in(OCH_LINEAR_YNORM), OCH_DTYPE_F32, 1, c->in[OCH_LINEAR_W0].rows, err));
        if (a->glu != OCH_ACT_NONE || a->n_weights != 1 || !och_op_ynormed(c))
            return och_op_fail(c, och_in(OCH_LINEAR_YNORM), OCH_INVALID, err,
                               "expected a norm of y beside codes of one product without a gate alone, found %d weights, %s gate and %s codes",
                               a->n_weights, a->glu != OCH_ACT_NONE ? "a" : "no", och_op_ynormed(c) ? "its" : "no");
        OCH_TRY(och_op_expect_normed(c, och_out(OCH_LINEAR_YCODES), c->in[OCH_LINEAR_W0].rows, err));
    } else if (och_tensor_present(&c->out[OCH_LINEAR_YCODES])) {
        if (a->glu == OCH_ACT_NONE)
            return och_op_fail(c, och_out(OCH_LINEAR_YCODES), OCH_INVALID, err, "expected no codes of a product without a gate");
        OCH_TRY(och_op_expect_codes(c, och_out(OCH_LINEAR_YCODES), c->in[OCH_LINEAR_W0].rows, err));
    }
    if (och_tensor_present(&c->in[OCH_LINEAR_SLOTS])) {
        if (a->n_weights != 3)
            return och_op_fail(c, och_in(OCH_LINEAR_SLOTS), OCH_INVALID, err, "expected three weights beside slots, found %d", a->n_weights);
        const och_op_call post = och_op_post_of(c);
        och_status st = och_op_check(&post, err);
        if (st != OCH_OK) och_err_prefix(err, "op linear, beside slots");
        OCH_TRY(st);
    }
    static const och_operand beside[] = {{false, OCH_LINEAR_TABLE}, {true, OCH_LINEAR_KCACHE}, {true, OCH_LINEAR_VCACHE}};
    for (int i = 0; !och_tensor_present(&c->in[OCH_LINEAR_SLOTS]) && i < 3; i++)
        if (och_tensor_present(beside[i].out ? &c->out[beside[i].index] : &c->in[beside[i].index]))
            return och_op_fail(c, beside[i], OCH_INVALID, err, "expected none without slots");
    if (a->y_halves && a->glu == OCH_ACT_NONE)
        return och_op_fail(c, och_out(0), OCH_INVALID, err, "expected no halves of a product without a gate");
    if (a->x_halves && (och_tensor_present(&c->in[OCH_LINEAR_NORM]) || och_tensor_present(&c->in[OCH_LINEAR_XCODES]) || x->cols % 8))
        return och_op_fail(c, och_in(OCH_LINEAR_X), OCH_INVALID, err,
                           "expected halves of rows of a multiple of 8 elements, beside neither a norm nor codes, found %lld elements",
                           (long long)x->cols);
    for (int i = 0; a->x_halves && i < a->n_weights; i++)
        if (c->in[OCH_LINEAR_W0 + i].dtype != OCH_DTYPE_BF16)
            return och_op_fail(c, och_in(OCH_LINEAR_W0 + i), OCH_INVALID, err, "expected weights of BF16 beside halves, found %s",
                               och_dtype_name(c->in[OCH_LINEAR_W0 + i].dtype));
    for (int i = 0; i < OCH_OP_MAX_OUT; i++)
        OCH_TRY(och_op_expect_overlap(c, i, i == 0 ? OCH_LINEAR_RESIDUAL : -1, -1, err));
    return OCH_OK;
}

/* The bytes of table, slots and caches are those of one row's, which is the only one that reads or writes them. */
static void add_post(const och_op_call *c, uint64_t *bytes, uint64_t *flops) {
    const och_op_call post = och_op_post_of(c);
    uint64_t of_post, post_flops;
    for (int i = OCH_LINEAR_TABLE; i <= OCH_LINEAR_SLOTS; i++) *bytes -= och_op_tensor_bytes(&c->in[i]);
    for (int i = OCH_LINEAR_KCACHE; i <= OCH_LINEAR_VCACHE; i++) *bytes -= och_op_tensor_bytes(&c->out[i]);
    if (c->in[OCH_LINEAR_X].rows != 1) return;
    och_op_cost(&post, &of_post, &post_flops);
    *flops += post_flops;
    *bytes += of_post;
    for (int i = 0; i < 3; i++) *bytes -= och_op_tensor_bytes(&c->out[i]); /* neither written nor read again */
    for (int i = 0; i < 3; i++) *bytes -= och_op_tensor_bytes(&post.in[OCH_QKV_POST_Q + i]);
}

static void cost(const och_op_call *c, uint64_t *out_bytes, uint64_t *out_flops) {
    uint64_t flops = 0, n = (uint64_t)c->in[OCH_LINEAR_X].rows;
    for (int i = 0; i < c->attr.linear.n_weights; i++) {
        const och_tensor *w = &c->in[OCH_LINEAR_W0 + i];
        flops += 2 * n * (uint64_t)w->rows * (uint64_t)w->cols;
    }
    /* codes stand for numbers that are counted */
    *out_bytes = och_op_call_bytes(c) - och_op_tensor_bytes(&c->in[OCH_LINEAR_XCODES]) -
                 och_op_tensor_bytes(&c->out[OCH_LINEAR_YCODES]);
    if (och_op_asks_one_row(c)) add_post(c, out_bytes, &flops);
    *out_flops = flops;
}

static och_status supports(const och_device *device, const och_op_call *c, och_err *err) {
    (void)device;
    for (int i = 0; i < c->attr.linear.n_weights; i++)
        OCH_TRY(och_op_supports_weight(&c->in[OCH_LINEAR_W0 + i], "linear", err));
    return OCH_OK;
}

/* ---- scratch: normed rows, then for each member a decoded row and the tiles of both sides of a gate ---- */

static uint64_t round64(uint64_t n) { return (n + 63) & ~UINT64_C(63); }
static uint64_t tile_bytes(int64_t k) { return round64((uint64_t)k * TILE * sizeof(double)); }
static uint64_t member_bytes(int64_t k) { return round64((uint64_t)k * sizeof(float)) + 2 * tile_bytes(k); }
static uint64_t normed_bytes(const och_op_call *c) {
    const och_tensor *x = &c->in[OCH_LINEAR_X];
    return och_tensor_present(&c->in[OCH_LINEAR_NORM]) ? round64((uint64_t)(x->rows * x->cols) * sizeof(float)) : 0;
}

static uint64_t scratch_bytes(const och_device *device, const och_op_call *c) {
    uint64_t mine = normed_bytes(c) + (uint64_t)och_op_ref_threads(device) * member_bytes(c->in[OCH_LINEAR_X].cols);
    if (!och_op_asks_one_row(c)) return mine;
    const och_op_call post = och_op_post_of(c);
    return OCH_MAX(mine, och_op_def_QKV_POST.reference.scratch_bytes(device, &post));
}

/* ---- the reference ---- */

typedef struct job {
    const och_op_ctx *ctx;
    const och_op_call *call;
    och_tensor a; /* x, or its norm in scratch */
} job;

static void norm_member(void *arg, const och_pool_member *me) {
    const job *j = arg;
    const och_op_call *c = j->call;
    const float *w = och_op_row_f32(&c->in[OCH_LINEAR_NORM], 0);
    int64_t begin, end;
    och_op_ref_share(j->a.rows, me, &begin, &end);
    for (int64_t i = begin; i < end; i++)
        och_op_rms_norm_group(och_op_row_f32(&c->in[OCH_LINEAR_X], i), w, och_op_row_f32_mut(&j->a, i), j->a.cols,
                              &c->attr.linear.norm);
}

/* tile[r][i] = row r of the n rows from `first`, as double; rows past n are zero. */
static void decode_tile(const och_tensor *w, int64_t first, int64_t n, float *row, double *tile) {
    for (int64_t r = 0; r < TILE; r++) {
        double *dst = tile + r * w->cols;
        if (r >= n) {
            for (int64_t i = 0; i < w->cols; i++) dst[i] = 0.0;
            continue;
        }
        och_format_decode_row(w->dtype, (const char *)w->host + (uint64_t)(first + r) * w->row_bytes, row,
                              (uint64_t)w->cols);
        for (int64_t i = 0; i < w->cols; i++) dst[i] = row[i];
    }
}

static inline void multiply_add(lanes *sum, const lanes *v, const double *p) {
    pair w[2];
    __builtin_memcpy(w, p, sizeof w);
    sum->a += v->a * w[0];
    sum->b += v->b * w[1];
}
static inline double total(const lanes *s) { return ((s->a[0] + s->a[1]) + s->b[0]) + s->b[1]; }

/* out[r] = a . tile[r]: lane l sums elements l, l + LANES, ...; then the lanes in order, then the rest. */
static void dot_tile(const float *a, const double *tile, int64_t k, float out[TILE]) {
    const double *t0 = tile, *t1 = tile + k, *t2 = tile + 2 * k, *t3 = tile + 3 * k;
    lanes s0 = {{0}, {0}}, s1 = s0, s2 = s0, s3 = s0;
    int64_t i = 0;
    for (; i + LANES <= k; i += LANES) {
        lanes v = {{a[i], a[i + 1]}, {a[i + 2], a[i + 3]}};
        multiply_add(&s0, &v, t0 + i);
        multiply_add(&s1, &v, t1 + i);
        multiply_add(&s2, &v, t2 + i);
        multiply_add(&s3, &v, t3 + i);
    }
    double r0 = total(&s0), r1 = total(&s1), r2 = total(&s2), r3 = total(&s3);
    for (; i < k; i++) {
        r0 += a[i] * t0[i];
        r1 += a[i] * t1[i];
        r2 += a[i] * t2[i];
        r3 += a[i] * t3[i];
    }
    out[0] = (float)r0;
    out[1] = (float)r1;
    out[2] = (float)r2;
    out[3] = (float)r3;
}

static void weight_member(const job *j, const och_pool_member *me, int w_index, float *row, double *tile, double *tile2) {
    const och_op_call *c = j->call;
    bool gated = c->attr.linear.glu != OCH_ACT_NONE;
    const och_tensor *w = &c->in[OCH_LINEAR_W0 + w_index], *up = &c->in[OCH_LINEAR_W0 + 1], *y = &c->out[w_index];
    const och_tensor *b = &c->in[OCH_LINEAR_B0 + w_index], *b_up = &c->in[OCH_LINEAR_B0 + 1];
    const och_tensor *residual = &c->in[OCH_LINEAR_RESIDUAL];
    const float *bias = och_tensor_present(b) ? och_op_row_f32(b, 0) : NULL;
    const float *bias_up = gated && och_tensor_present(b_up) ? och_op_row_f32(b_up, 0) : NULL;
    int64_t begin, end, k = j->a.cols;
    och_op_ref_share((w->rows + TILE - 1) / TILE, me, &begin, &end);
    for (int64_t first = begin * TILE; first < end * TILE && first < w->rows; first += TILE) {
        int64_t n = w->rows - first < TILE ? w->rows - first : TILE;
        decode_tile(w, first, n, row, tile);
        if (gated) decode_tile(up, first, n, row, tile2);
        for (int64_t i = 0; i < j->a.rows; i++) {
            const float *a = och_op_row_f32(&j->a, i);
            float v[TILE], u[TILE];
            dot_tile(a, tile, k, v);
            if (gated) dot_tile(a, tile2, k, u);
            float *dst = och_op_row_f32_mut(y, i) + first;
            for (int64_t r = 0; r < n; r++) {
                float value = bias ? v[r] + bias[first + r] : v[r];
                if (gated)
                    value = och_op_act(c->attr.linear.glu, value) * (bias_up ? u[r] + bias_up[first + r] : u[r]);
                if (och_tensor_present(residual)) value += och_op_row_f32(residual, i)[first + r];
                dst[r] = value;
            }
        }
    }
}

static void member(void *arg, const och_pool_member *me) {
    const job *j = arg;
    char *mine = (char *)j->ctx->scratch + normed_bytes(j->call) + (uint64_t)me->index * member_bytes(j->a.cols);
    float *row = (float *)mine;
    double *tile = (double *)(mine + round64((uint64_t)j->a.cols * sizeof(float)));
    double *tile2 = (double *)((char *)tile + tile_bytes(j->a.cols));
    int n = j->call->attr.linear.glu == OCH_ACT_NONE ? j->call->attr.linear.n_weights : 1;
    for (int i = 0; i < n; i++) weight_member(j, me, i, row, tile, tile2);
}

static och_status run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    job j = {ctx, c, c->in[OCH_LINEAR_X]};
    if (j.a.rows == 0) return OCH_OK;
    if (och_tensor_present(&c->in[OCH_LINEAR_NORM])) {
        j.a.host = ctx->scratch;
        j.a.row_bytes = (uint64_t)j.a.cols * sizeof(float);
        och_op_ref_run(ctx, norm_member, &j);
    }
    och_op_ref_run(ctx, member, &j);
    if (!och_op_one_row(c, ctx)) return OCH_OK;
    const och_op_call post = och_op_post_of(c);
    return och_op_def_QKV_POST.reference.run(ctx, &post, err);
}

const och_op_def och_op_def_LINEAR = {
    check, cost,
    {OCH_OP_REFERENCE_ROW(LINEAR), .supports = supports, .run = run, .scratch_bytes = scratch_bytes}};
