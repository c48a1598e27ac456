/* Products with weights (kernels/linear.ok).
 *
 * Up to eight rows are matrix-vector products: activations become the format that the weight's pairs with (once a call), and
 * each wave takes rows of the weight. More rows are tiled products on f16 activations with a scale a row. `batch_invariant`
 * pins the first, eight rows at a time, since there a row's sums never depend on its neighbours. */
#include "op/gpu/gpu.h"

#include "base/size.h"
#include "quant/capability.h"
#include "quant/format.h"
#include "quant/planes.h"

#define MAX_B 8

/* Columns as the planes have them: a whole number of units. */
static int64_t padded_cols(const och_tensor *w) {
    int64_t unit = och_format_get(w->dtype)->act == OCH_ACT_Q8_32S ? 32 : 8;
    return (w->cols + unit - 1) / unit * unit;
}

static bool quantised(const och_tensor *w) { return och_format_get(w->dtype)->act == OCH_ACT_Q8_32S; }
static int bucket(int64_t n) { return n <= 1 ? 1 : n <= 2 ? 2 : n <= 4 ? 4 : MAX_B; }
static int act_waves(int64_t k) { return k <= 1024 ? 1 : 4; }
static const char *yes(bool b) { return b ? "true" : "false"; }

static och_status act_kernel(const och_device *d, const char *name, const och_op_call *c, const och_gpu_kernel **out_k, och_err *err) {
    return och_gpu_kernel_get(d, name, out_k, err, "ADD1=%s,WAVES=%d", yes(c->attr.linear.norm.add_one), act_waves(c->in[OCH_LINEAR_X].cols));
}

static och_status vec_kernel(const och_device *d, const och_tensor *w, int b, och_act glu, const och_gpu_kernel **out_k, och_err *err) {
    const char *f = och_format_get(w->dtype)->name;
    if (glu != OCH_ACT_NONE) return och_gpu_kernel_get(d, "matvec_glu", out_k, err, "F=%s,ACT=%d,B=%d", f, (int)glu, b);
    return och_gpu_kernel_get(d, "matvec", out_k, err, "F=%s,B=%d", f, b);
}

static och_status mat_kernel(const och_device *d, const och_tensor *w, const och_gpu_kernel **out_k, och_err *err) {
    return och_gpu_kernel_get(d, "matmul", out_k, err, "F=%s", och_format_get(w->dtype)->name);
}

static och_status glu_kernel(const och_device *d, const och_op_call *c, const och_gpu_kernel **out_k, och_err *err) {
    return och_gpu_kernel_get(d, "glu", out_k, err, "ACT=%d,V=%d", (int)c->attr.linear.glu, c->in[OCH_LINEAR_W0].rows % 4 ? 1 : 4);
}

och_status och_gpu_linear_supports(const och_device *d, const och_op_call *c, och_err *err) {
    const och_attr_linear *a = &c->attr.linear;
    const och_gpu_kernel *k;
    for (int i = 0; i < a->n_weights; i++) {
        const och_tensor *w = &c->in[OCH_LINEAR_W0 + i];
        if (w->layout != OCH_LAYOUT_PLANES)
            return och_err_set(err, OCH_UNSUPPORTED, "reads weights in planes only, weight %d is in another layout", i);
        OCH_TRY(och_capability_check("kernel", d->info.arch, w->dtype, "linear", err));
        bool fused = a->glu != OCH_ACT_NONE && c->in[OCH_LINEAR_W0].dtype == c->in[OCH_LINEAR_W0 + 1].dtype;
        for (int b = 1; b <= MAX_B; b *= 2) OCH_TRY(vec_kernel(d, w, b, fused ? a->glu : OCH_ACT_NONE, &k, err));
        OCH_TRY(mat_kernel(d, w, &k, err));
        if (quantised(w)) OCH_TRY(act_kernel(d, "act_q8", c, &k, err));
        else OCH_TRY(och_gpu_norm_kernel(d, w->cols, a->norm.add_one, w->cols % 4 ? 1 : 4, &k, err));
    }
    OCH_TRY(act_kernel(d, "act_f16", c, &k, err));
    if (!quantised(&c->in[OCH_LINEAR_W0])) OCH_TRY(och_gpu_kernel_get(d, "cast", &k, err, "S=f32,T=f32"));
    return a->glu == OCH_ACT_NONE ? OCH_OK : glu_kernel(d, c, &k, err);
}

och_layout och_gpu_weight_layout(const och_device *d, och_dtype t, int64_t rows, int64_t cols, uint64_t *out_bytes) {
    (void)d;
    uint64_t row;
    *out_bytes = 0;
    if (!och_planes_row_bytes(t, (uint64_t)cols, &row) || !och_u64_mul(row, (uint64_t)rows, out_bytes)) return OCH_LAYOUT_NATIVE;
    return OCH_LAYOUT_PLANES;
}

/* Bytes of a row of activations in each of the three forms. */
static uint64_t q8_bytes(int64_t k) {
    uint64_t n = 0;
    return och_planes_act_row_bytes((uint64_t)k, &n) ? n : 0;
}
static uint64_t f32_bytes(int64_t k) { return (uint64_t)(k + 7) / 8 * 32; }
static uint64_t f16_bytes(int64_t k) { return (uint64_t)(k + 31) / 32 * 64; }

uint64_t och_gpu_linear_scratch(const och_device *d, const och_op_call *c) {
    (void)d;
    const och_attr_linear *a = &c->attr.linear;
    int64_t k = c->in[OCH_LINEAR_X].cols;
    uint64_t n = (uint64_t)c->in[OCH_LINEAR_X].rows, m = (uint64_t)c->in[OCH_LINEAR_W0].rows;
    uint64_t row = OCH_MAX(q8_bytes(k) + f32_bytes(k), f16_bytes(k) + 4);
    /* With a gate: both products as they are, before the activation. */
    if (a->glu != OCH_ACT_NONE) row += 2 * (m + 3) / 4 * 16;
    return (n + MAX_B) * row + 8 * 256;
}

/* What a product reads as activations. */
typedef struct acts {
    och_dev_addr q8, f32, f16, scale; /* value 0: not made */
    uint64_t f32_row_bytes;
} acts;

typedef struct job {
    const och_op_ctx *ctx;
    const och_op_call *c;
    och_gpu_scratch scratch;
    acts acts;
    och_tensor x; /* rows at hand */
} job;

static och_kl_actual norm_arg(const job *j) { return och_gpu_vector("norm", &j->c->in[OCH_LINEAR_NORM]); }
static och_kl_actual eps_arg(const job *j) { return och_gpu_real("eps", (double)j->c->attr.linear.norm.eps); }

static och_status make_q8(job *j, och_err *err) {
    int64_t k = j->x.cols;
    const och_gpu_kernel *kernel;
    OCH_TRY(act_kernel(j->ctx->queue->device, "act_q8", j->c, &kernel, err));
    OCH_TRY(och_gpu_take(&j->scratch, (uint64_t)j->x.rows * q8_bytes(k), &j->acts.q8, err));
    och_kl_actual args[] = {och_gpu_tensor("x", &j->x), norm_arg(j), och_gpu_matrix("y", j->acts.q8, j->x.rows, k, q8_bytes(k)), eps_arg(j)};
    return och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err);
}

/* x itself where it is normed already and its rows are whole units. */
static och_status make_f32(job *j, och_err *err) {
    const och_tensor *x = &j->x, *norm = &j->c->in[OCH_LINEAR_NORM];
    const och_device *d = j->ctx->queue->device;
    const och_gpu_kernel *kernel;
    if (!och_tensor_present(norm) && x->cols % 8 == 0 && x->row_bytes % 16 == 0 && x->addr.value % 16 == 0) {
        j->acts.f32 = x->addr;
        j->acts.f32_row_bytes = x->row_bytes;
        return OCH_OK;
    }
    uint64_t row = f32_bytes(x->cols);
    OCH_TRY(och_gpu_take(&j->scratch, (uint64_t)x->rows * row, &j->acts.f32, err));
    j->acts.f32_row_bytes = row;
    if (x->cols % 8) OCH_TRY(d->vtable->fill(j->ctx->queue, j->acts.f32, 0, (uint64_t)x->rows * row, err));
    och_kl_actual y = och_gpu_matrix("y", j->acts.f32, x->rows, x->cols, row);
    if (!och_tensor_present(norm)) {
        OCH_TRY(och_gpu_kernel_get(d, "cast", &kernel, err, "S=f32,T=f32"));
        och_kl_actual args[] = {och_gpu_tensor("x", x), y, och_gpu_real("scale", 1.0)};
        return och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err);
    }
    int width = och_gpu_width(x->cols, (const och_tensor *[]){x, norm}, 2);
    OCH_TRY(och_gpu_norm_kernel(d, x->cols, j->c->attr.linear.norm.add_one, width, &kernel, err));
    och_kl_actual args[] = {och_gpu_tensor("x", x), och_gpu_vector("w", norm), {.name = "residual"}, y, eps_arg(j)};
    return och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err);
}

static och_status make_f16(job *j, och_err *err) {
    int64_t k = j->x.cols, kp = (k + 31) / 32 * 32;
    const och_gpu_kernel *kernel;
    OCH_TRY(act_kernel(j->ctx->queue->device, "act_f16", j->c, &kernel, err));
    OCH_TRY(och_gpu_take(&j->scratch, (uint64_t)j->x.rows * f16_bytes(k), &j->acts.f16, err));
    OCH_TRY(och_gpu_take(&j->scratch, (uint64_t)j->x.rows * 4, &j->acts.scale, err));
    och_kl_actual args[] = {och_gpu_tensor("x", &j->x), norm_arg(j), och_gpu_matrix("y", j->acts.f16, j->x.rows, kp, f16_bytes(k)),
                            och_gpu_matrix("scale", j->acts.scale, j->x.rows, 1, 4), eps_arg(j)};
    return och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err);
}

static och_kl_actual weight_arg(const char *name, const och_tensor *w) {
    och_kl_actual a = och_gpu_weight(name, w);
    a.dims[1] = padded_cols(w);
    return a;
}

static och_status act_arg(job *j, const och_tensor *w, och_kl_actual *out, och_err *err) {
    bool q = quantised(w);
    if (q && !j->acts.q8.value) OCH_TRY(make_q8(j, err));
    if (!q && !j->acts.f32.value) OCH_TRY(make_f32(j, err));
    *out = och_gpu_matrix("x", q ? j->acts.q8 : j->acts.f32, j->x.rows, padded_cols(w), q ? q8_bytes(j->x.cols) : j->acts.f32_row_bytes);
    return OCH_OK;
}

/* Rows [first, first + n) of a tensor with a row a token. */
static och_tensor rows_of(const och_tensor *t, int64_t first, int64_t n) {
    och_tensor r = *t;
    if (!och_tensor_present(t)) return r;
    r.addr = och_dev_addr_add(t->addr, (uint64_t)first * t->row_bytes);
    r.rows = n;
    return r;
}

static och_status product(job *j, int i, const och_tensor *residual, const och_tensor *y, bool tiled, och_err *err) {
    const och_tensor *w = &j->c->in[OCH_LINEAR_W0 + i], *bias = &j->c->in[OCH_LINEAR_B0 + i];
    const och_device *d = j->ctx->queue->device;
    const och_gpu_kernel *kernel;
    if (tiled) {
        if (!j->acts.f16.value) OCH_TRY(make_f16(j, err));
        OCH_TRY(mat_kernel(d, w, &kernel, err));
        och_kl_actual args[] = {och_gpu_matrix("a", j->acts.f16, j->x.rows, padded_cols(w), f16_bytes(j->x.cols)),
                                och_gpu_matrix("scale", j->acts.scale, j->x.rows, 1, 4), weight_arg("w", w), och_gpu_vector("bias", bias),
                                och_gpu_tensor("residual", residual), och_gpu_tensor("y", y)};
        return och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err);
    }
    och_kl_actual x;
    OCH_TRY(act_arg(j, w, &x, err));
    OCH_TRY(vec_kernel(d, w, bucket(j->x.rows), OCH_ACT_NONE, &kernel, err));
    och_kl_actual args[] = {weight_arg("w", w), x, och_gpu_vector("bias", bias), och_gpu_tensor("residual", residual), och_gpu_tensor("y", y)};
    return och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err);
}

static och_status gated(job *j, const och_tensor *y, bool tiled, och_err *err) {
    const och_tensor *w0 = &j->c->in[OCH_LINEAR_W0], *w1 = &j->c->in[OCH_LINEAR_W0 + 1];
    const och_device *d = j->ctx->queue->device;
    const och_gpu_kernel *kernel;
    if (!tiled && w0->dtype == w1->dtype) {
        och_kl_actual x;
        OCH_TRY(act_arg(j, w0, &x, err));
        OCH_TRY(vec_kernel(d, w0, bucket(j->x.rows), j->c->attr.linear.glu, &kernel, err));
        och_kl_actual args[] = {weight_arg("w0", w0), weight_arg("w1", w1), x, och_gpu_vector("bias0", &j->c->in[OCH_LINEAR_B0]),
                                och_gpu_vector("bias1", &j->c->in[OCH_LINEAR_B0 + 1]), och_gpu_tensor("y", y)};
        return och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err);
    }
    och_tensor part[2];
    for (int i = 0; i < 2; i++) {
        part[i] = (och_tensor){.dtype = OCH_DTYPE_F32, .rows = y->rows, .cols = y->cols, .row_bytes = (uint64_t)(y->cols + 3) / 4 * 16};
        OCH_TRY(och_gpu_take(&j->scratch, (uint64_t)y->rows * part[i].row_bytes, &part[i].addr, err));
        OCH_TRY(product(j, i, &(och_tensor){.dtype = OCH_DTYPE_NONE}, &part[i], tiled, err));
    }
    int width = och_gpu_width(y->cols, (const och_tensor *[]){y}, 1);
    OCH_TRY(och_gpu_kernel_get(d, "glu", &kernel, err, "ACT=%d,V=%d", (int)j->c->attr.linear.glu, width));
    och_kl_actual args[] = {och_gpu_tensor("gate", &part[0]), och_gpu_tensor("up", &part[1]), och_gpu_tensor("y", y)};
    return och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err);
}

och_status och_gpu_linear_run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    const och_tensor *x = &c->in[OCH_LINEAR_X];
    bool tiled = x->rows > MAX_B && !ctx->batch_invariant;
    int64_t step = tiled ? x->rows : MAX_B;
    for (int64_t at = 0; at < x->rows; at += step) {
        int64_t n = OCH_MIN(step, x->rows - at);
        /* Pieces run one after another on the queue, so they may share scratch. */
        job j = {.ctx = ctx, .c = c, .scratch = {ctx->scratch_addr, 0, ctx->scratch_bytes}, .x = rows_of(x, at, n)};
        och_tensor residual = rows_of(&c->in[OCH_LINEAR_RESIDUAL], at, n);
        if (c->attr.linear.glu != OCH_ACT_NONE) {
            och_tensor y = rows_of(&c->out[0], at, n);
            OCH_TRY(gated(&j, &y, tiled, err));
            continue;
        }
        for (int i = 0; i < c->attr.linear.n_weights; i++) {
            och_tensor y = rows_of(&c->out[i], at, n);
            OCH_TRY(product(&j, i, &residual, &y, tiled, err));
        }
    }
    return OCH_OK;
}
