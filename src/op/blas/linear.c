/* LINEAR with a vendor's products for many rows; what it does not take goes to the kernels (op/gpu/linear.c).
 *
 * Weights of float32 are the kernels' alone. Other plain numbers are multiplied as they lie; those of codes become f16 first, a slab
 * of rows at a time, so that scratch stays small and what was decoded is still in the device's cache when it is multiplied. Beside
 * bf16 weights activations are bf16; else they are f16 with a scale a row, as for the kernels, and the sums are scaled afterwards. */
#include "op/blas/blas.h"

#include "base/log.h"
#include "base/size.h"
#include "dev/trace.h"
#include "op/gpu/gpu.h"
#include "quant/capability.h"
#include "quant/format.h"
#include "quant/planes.h"

#include <string.h>

#define MIN_ROWS 9 /* fewer are matrix-vector products */
#define SLICE 64 /* rows of halves that the kernels take at a time, as floats, where the library does not take them */
#define SLAB_ROWS 128 /* slabs are multiples of it, and at least that */

/* With few rows a product is bound by its weights, which our kernels read as they are stored, once. */
#define ROWS_PLAIN 64
#define ROWS_CODES 256

/* Of decoded weights; of sums before they are scaled. */
#define SLAB_BYTES (UINT64_C(64) << 20)
static uint64_t slab_bytes = SLAB_BYTES;
void och_blas_set_slab_bytes(uint64_t n_bytes) { slab_bytes = n_bytes ? n_bytes : SLAB_BYTES; }

static bool is_bf16(const och_tensor *w) { return w->dtype == OCH_DTYPE_BF16; }
static bool is_coded(och_dtype t) { return t != OCH_DTYPE_BF16 && t != OCH_DTYPE_F16; }
static bool any_f32(const och_op_call *c) {
    for (int i = 0; i < c->attr.linear.n_weights; i++)
        if (c->in[OCH_LINEAR_W0 + i].dtype == OCH_DTYPE_F32) return true;
    return false;
}
static bool has_gate(const och_op_call *c) { return c->attr.linear.glu != OCH_ACT_NONE; }

int64_t och_blas_rows(och_dtype weight) { return is_coded(weight) ? ROWS_CODES : ROWS_PLAIN; }

/* ---- kernels ---- */

static och_status act_kernel(const och_device *d, const och_op_call *c, int width, bool bf16, const och_gpu_kernel **out_k,
                             och_err *err) {
    char row[OCH_GPU_ROW_SPEC_BYTES];
    och_gpu_row_spec(c->in[OCH_LINEAR_X].cols, width, row);
    return och_gpu_kernel_get(d, bf16 ? "act_bf16" : "act_f16", out_k, err, "ADD1=%s,%s", c->attr.linear.norm.add_one ? "true" : "false",
                              row);
}
static och_status dequant_kernel(const och_device *d, och_dtype t, const och_gpu_kernel **out_k, och_err *err) {
    return och_gpu_kernel_get(d, "dequant", out_k, err, "F=%s", och_format_get(t)->name);
}
static och_status finish_kernel(const och_device *d, int width, const och_gpu_kernel **out_k, och_err *err) {
    return och_gpu_kernel_get(d, "blas_finish", out_k, err, "V=%d", width);
}
static och_status gate_kernel(const och_device *d, const och_op_call *c, int width, bool halves, const och_gpu_kernel **out_k,
                              och_err *err) {
    return och_gpu_kernel_get(d, "blas_gate", out_k, err, "ACT=%d,V=%d%s", (int)c->attr.linear.glu, width, halves ? ",T=bf16" : "");
}
/* Rows of floats to halves, and back. */
static och_status cast_kernel(const och_device *d, bool to_halves, const och_gpu_kernel **out_k, och_err *err) {
    return och_gpu_kernel_get(d, "cast", out_k, err, to_halves ? "S=f32,T=bf16" : "S=bf16,T=f32");
}
static int width_of_rows(const och_tensor *w) { return w->rows % 4 ? 1 : 4; }

och_status och_blas_linear_supports(const och_device *d, const och_op_call *c, och_err *err) {
    och_blas_mode mode;
    och_blas *b;
    OCH_TRY(och_blas_mode_get(&mode, err));
    if (mode == OCH_BLAS_NEVER) return och_err_set(err, OCH_UNSUPPORTED, "OCHRE_BLAS=0");
    for (int i = 0; i < c->attr.linear.n_weights; i++) {
        const och_tensor *w = &c->in[OCH_LINEAR_W0 + i];
        if (w->layout != OCH_LAYOUT_PLANES)
            return och_err_set(err, OCH_UNSUPPORTED, "reads weights in planes only, weight %d is in another layout", i);
        OCH_TRY(och_capability_check("blas", d->info.arch, w->dtype, "linear", err));
    }
    och_err why = {0};
    och_status st = och_blas_of(d, &b, &why);
    if (st == OCH_UNSUPPORTED && mode == OCH_BLAS_ALWAYS)
        return och_err_set(err, OCH_UNAVAILABLE, "OCHRE_BLAS=1 asks for a library of products on %s: %s", d->info.label, why.message);
    if (st != OCH_OK) return och_err_set_native(err, st, why.native_code, "%s", why.message);
    OCH_TRY(och_gpu_linear_supports(d, c, err));
    if (any_f32(c)) return OCH_OK; /* all of it is the kernels' */
    for (int i = 0; i < c->attr.linear.n_weights; i++) {
        const och_tensor *w = &c->in[OCH_LINEAR_W0 + i];
        OCH_TRY(act_kernel(d, c, c->in[OCH_LINEAR_X].cols % 4 ? 1 : 4, is_bf16(w), NULL, err));
        if (is_coded(w->dtype)) OCH_TRY(dequant_kernel(d, w->dtype, NULL, err));
    }
    if (c->attr.linear.x_halves) OCH_TRY(cast_kernel(d, false, NULL, err));
    if (c->attr.linear.y_halves) {
        OCH_TRY(cast_kernel(d, true, NULL, err));
        OCH_TRY(gate_kernel(d, c, width_of_rows(&c->in[OCH_LINEAR_W0]), true, NULL, err));
    }
    if (has_gate(c)) return gate_kernel(d, c, width_of_rows(&c->in[OCH_LINEAR_W0]), false, NULL, err);
    for (int i = 0; i < c->attr.linear.n_weights; i++) OCH_TRY(finish_kernel(d, width_of_rows(&c->in[OCH_LINEAR_W0 + i]), NULL, err));
    return OCH_OK;
}

/* ---- sizes ---- */

static uint64_t act_bytes(int64_t k) { return (uint64_t)(k + 31) / 32 * 64; } /* of a row, in both types */
static uint64_t sum_bytes(int64_t cols) { return (uint64_t)(cols + 3) / 4 * 16; }
static int sides(const och_op_call *c) { return has_gate(c) ? 2 : 1; }

/* bf16 sums need no scale: they go where they belong at once, unless an activation comes between. */
static bool is_direct(const och_op_call *c, const och_tensor *w) { return is_bf16(w) && !has_gate(c); }

/* Rows of w that are decoded, multiplied and scaled at a time. */
static int64_t slab_rows(const och_op_call *c, const och_tensor *w, int64_t n) {
    if (is_direct(c, w)) return w->rows;
    uint64_t rows = slab_bytes / ((uint64_t)n * 4 * (uint64_t)sides(c));
    for (int i = 0; i < c->attr.linear.n_weights; i++) { /* both sides of a gate have one size */
        const och_tensor *x = &c->in[OCH_LINEAR_W0 + i];
        if (is_coded(x->dtype)) rows = OCH_MIN(rows, slab_bytes / ((uint64_t)och_gpu_unit_cols(x) * 2));
    }
    int64_t whole = (int64_t)(rows / SLAB_ROWS) * SLAB_ROWS;
    return OCH_MIN(OCH_MAX(whole, SLAB_ROWS), w->rows);
}

/* The most that any number of rows up to n takes. False: it overflows. */
static bool scratch_of(const och_op_call *c, uint64_t n, uint64_t *out) {
    uint64_t act = act_bytes(c->in[OCH_LINEAR_X].cols), decoded = 0, sums = 0, x;
    for (int i = 0; i < c->attr.linear.n_weights; i++) {
        const och_tensor *w = &c->in[OCH_LINEAR_W0 + i];
        if (is_coded(w->dtype)) {
            uint64_t row = (uint64_t)och_gpu_unit_cols(w) * 2;
            if (!och_u64_mul((uint64_t)w->rows, row, &x)) return false;
            decoded = OCH_MAX(decoded, OCH_MIN(x, OCH_MAX(slab_bytes, SLAB_ROWS * row)));
        }
        if (!is_direct(c, w)) {
            if (!och_u64_mul(sum_bytes(w->rows), n, &x)) return false;
            sums = OCH_MAX(sums, OCH_MIN(x, OCH_MAX(slab_bytes / (uint64_t)sides(c), SLAB_ROWS * 4 * n)));
        }
    }
    /* Activations in both types, scales; eight pieces that begin at multiples of 256 bytes. */
    *out = OCH_BLAS_WORKSPACE_BYTES + 8 * 256 + decoded + (uint64_t)sides(c) * sums;
    return och_u64_mul(2 * act + 4, n, &x) && och_u64_add(*out, x, out);
}

/* Rows of x or y as floats, beside what the kernels take for so many of them. */
static uint64_t slice_bytes(const och_op_call *c) {
    return SLICE * (sum_bytes(c->in[OCH_LINEAR_X].cols) + sum_bytes(c->in[OCH_LINEAR_W0].rows)) + 3 * 256;
}

uint64_t och_blas_linear_scratch(const och_device *d, const och_op_call *c) {
    uint64_t own = och_gpu_linear_scratch(d, c), n = (uint64_t)c->in[OCH_LINEAR_X].rows, mine = 0;
    if (c->attr.linear.x_halves || c->attr.linear.y_halves) {
        och_op_call slice = *c;
        slice.in[OCH_LINEAR_X].rows = OCH_MIN(SLICE, c->in[OCH_LINEAR_X].rows);
        own = OCH_MAX(own, slice_bytes(c) + och_gpu_linear_scratch(d, &slice));
    }
    if (n < MIN_ROWS || any_f32(c)) return own;
    if (!scratch_of(c, n, &mine)) return UINT64_MAX; /* which no device has */
    return OCH_MAX(own, mine);
}

/* ---- the call ---- */

typedef struct acts {
    och_dev_addr addr, scale; /* value 0: not made; bf16 has no scale */
} acts;

typedef struct job {
    const och_op_ctx *ctx;
    const och_op_call *c;
    och_blas *blas;
    och_gpu_scratch scratch;
    och_dev_addr workspace, decoded, sums[2];
    acts acts[2]; /* f16, bf16 */
    och_tensor x;
    bool x_halves, y_halves;
} job;

static och_status make_acts(job *j, bool bf16, och_err *err) {
    const och_device *d = j->ctx->queue->device;
    const och_gpu_kernel *kernel;
    acts *a = &j->acts[bf16];
    int64_t k = j->x.cols, kp = (k + 31) / 32 * 32;
    if (a->addr.value) return OCH_OK;
    if (j->x_halves) {
        a->addr = j->x.addr;
        return OCH_OK;
    }
    int width = och_gpu_width(k, (const och_tensor *[]){&j->x, &j->c->in[OCH_LINEAR_NORM]}, 2);
    OCH_TRY(act_kernel(d, j->c, width, bf16, &kernel, err));
    OCH_TRY(och_gpu_take(&j->scratch, (uint64_t)j->x.rows * act_bytes(k), &a->addr, err));
    if (!bf16) OCH_TRY(och_gpu_take(&j->scratch, (uint64_t)j->x.rows * 4, &a->scale, err));
    och_kl_actual args[5] = {och_gpu_tensor("x", &j->x), och_gpu_vector("norm", &j->c->in[OCH_LINEAR_NORM]),
                             och_gpu_matrix("y", a->addr, j->x.rows, kp, act_bytes(k)),
                             och_gpu_real("eps", (double)j->c->attr.linear.norm.eps)};
    if (!bf16) args[4] = och_gpu_matrix("scale", a->scale, j->x.rows, 1, 4);
    return och_gpu_launch(j->ctx, kernel, args, bf16 ? 4 : 5, err);
}

static uint64_t row_bytes(const och_tensor *w) {
    uint64_t n = 0;
    (void)och_planes_row_bytes(w->dtype, (uint64_t)w->cols, &n); /* the layout was made so */
    return n;
}

/* Columns [at, at + cols) of a matrix of floats, and of a vector. */
static och_tensor cols_of(const och_tensor *t, int64_t at, int64_t cols) {
    och_tensor r = *t;
    if (!och_tensor_present(t)) return r;
    r.addr = och_dev_addr_add(t->addr, (uint64_t)at * 4);
    r.cols = cols;
    return r;
}

/* Where the sums of a slab go first. */
static och_tensor sums_of(const job *j, int side, int64_t cols) {
    return (och_tensor){.dtype = OCH_DTYPE_F32, .rows = j->x.rows, .cols = cols, .row_bytes = sum_bytes(cols), .addr = j->sums[side]};
}

/* Rows [at, at + rows) of weight i; c: added, where it is present. */
static och_blas_product product_of(const job *j, int i, int64_t at, int64_t rows, const och_tensor *c, const och_tensor *y) {
    const och_tensor *w = &j->c->in[OCH_LINEAR_W0 + i];
    bool bf16 = is_bf16(w), coded = is_coded(w->dtype);
    int64_t k = och_gpu_unit_cols(w);
    return (och_blas_product){.bf16 = bf16,
                              .adds = och_tensor_present(c),
                              .n = j->x.rows,
                              .m = rows,
                              .k = k,
                              .ld_x = (int64_t)(j->x_halves ? j->x.row_bytes : act_bytes(j->x.cols)) / 2,
                              .ld_w = coded ? k : (int64_t)row_bytes(w) / 2,
                              .ld_c = (int64_t)c->row_bytes / 4,
                              .ld_y = (int64_t)y->row_bytes / 4,
                              .x = j->acts[bf16].addr,
                              .w = coded ? j->decoded : och_dev_addr_add(w->addr, (uint64_t)at * row_bytes(w)),
                              .c = c->addr,
                              .y = y->addr};
}

static och_status decode(job *j, const och_tensor *w, int64_t at, int64_t rows, och_err *err) {
    const och_gpu_kernel *kernel;
    OCH_TRY(dequant_kernel(j->ctx->queue->device, w->dtype, &kernel, err));
    och_tensor part = *w;
    part.rows = rows;
    part.addr = och_dev_addr_add(w->addr, (uint64_t)at * row_bytes(w));
    int64_t k = och_gpu_unit_cols(w);
    och_kl_actual args[] = {och_gpu_weight("w", &part), och_gpu_matrix("y", j->decoded, 1, rows * k, (uint64_t)(rows * k) * 2)};
    return och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err);
}

/* Either asks whether every product of a slab is one that the library takes (`ask`), or computes it. */
static och_status slab(job *j, int i, int64_t at, int64_t rows, const och_tensor *c, const och_tensor *y, bool ask, och_err *err) {
    const och_tensor *w = &j->c->in[OCH_LINEAR_W0 + i];
    och_blas_product p = product_of(j, i, at, rows, c, y);
    if (ask) return och_blas_ready(j->ctx->queue, j->blas, &p, err);
    if (is_coded(w->dtype)) OCH_TRY(decode(j, w, at, rows, err));
    och_trace_launched(och_blas_label(j->blas));
    if (j->ctx->n_launches) ++*j->ctx->n_launches;
    return och_blas_multiply(j->ctx->queue, j->blas, &p, j->workspace, err);
}

static och_kl_actual scale_arg(const job *j, const char *name, int i) {
    if (is_bf16(&j->c->in[OCH_LINEAR_W0 + i])) return (och_kl_actual){.name = name};
    return och_gpu_matrix(name, j->acts[0].scale, j->x.rows, 1, 4);
}

static och_status gated(job *j, bool ask, och_err *err) {
    const och_tensor *w = &j->c->in[OCH_LINEAR_W0], none = {.dtype = OCH_DTYPE_NONE};
    const och_gpu_kernel *kernel;
    int64_t step = slab_rows(j->c, w, j->x.rows);
    for (int64_t at = 0; at < w->rows; at += step) {
        int64_t rows = OCH_MIN(step, w->rows - at);
        och_tensor sums[2] = {sums_of(j, 0, rows), sums_of(j, 1, rows)};
        for (int i = 0; i < 2; i++) OCH_TRY(slab(j, i, at, rows, &none, &sums[i], ask, err));
        if (ask) continue;
        och_tensor y = cols_of(&j->c->out[0], at, rows), b0 = cols_of(&j->c->in[OCH_LINEAR_B0], at, rows),
                   b1 = cols_of(&j->c->in[OCH_LINEAR_B0 + 1], at, rows);
        int width = och_gpu_width(rows, (const och_tensor *[]){&b0, &b1, &y}, 3);
        OCH_TRY(gate_kernel(j->ctx->queue->device, j->c, width, j->y_halves, &kernel, err));
        if (j->y_halves) y.addr = och_dev_addr_add(j->c->out[0].addr, (uint64_t)at * 2);
        och_kl_actual args[] = {och_gpu_tensor("gate", &sums[0]), och_gpu_tensor("up", &sums[1]), scale_arg(j, "scale0", 0),
                                scale_arg(j, "scale1", 1), och_gpu_vector("bias0", &b0), och_gpu_vector("bias1", &b1),
                                och_gpu_tensor("y", &y)};
        OCH_TRY(och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err));
    }
    return OCH_OK;
}

static och_status finish(job *j, int i, const och_tensor *x, const och_tensor *bias, const och_tensor *residual, const och_tensor *y,
                         och_err *err) {
    const och_gpu_kernel *kernel;
    int width = och_gpu_width(y->cols, (const och_tensor *[]){x, bias, residual, y}, 4);
    OCH_TRY(finish_kernel(j->ctx->queue->device, width, &kernel, err));
    och_kl_actual args[] = {och_gpu_tensor("x", x), scale_arg(j, "scale", i), och_gpu_vector("bias", bias),
                            och_gpu_tensor("residual", residual), och_gpu_tensor("y", y)};
    return och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err);
}

static och_status plain(job *j, int i, bool ask, och_err *err) {
    const och_tensor *w = &j->c->in[OCH_LINEAR_W0 + i], none = {.dtype = OCH_DTYPE_NONE}, *bias = &j->c->in[OCH_LINEAR_B0 + i];
    const och_tensor *residual = i ? &none : &j->c->in[OCH_LINEAR_RESIDUAL];
    int64_t step = slab_rows(j->c, w, j->x.rows);
    bool direct = is_direct(j->c, w);
    for (int64_t at = 0; at < w->rows; at += step) {
        int64_t rows = OCH_MIN(step, w->rows - at);
        och_tensor y = cols_of(&j->c->out[i], at, rows), r = cols_of(residual, at, rows), b = cols_of(bias, at, rows),
                   sums = direct ? y : sums_of(j, 0, rows);
        OCH_TRY(slab(j, i, at, rows, direct ? &r : &none, &sums, ask, err));
        if (!ask && (!direct || och_tensor_present(bias))) OCH_TRY(finish(j, i, &sums, &b, direct ? &none : &r, &y, err));
    }
    return OCH_OK;
}

/* The pieces of scratch, whose addresses the products' shapes depend on. */
static och_status cut(job *j, och_err *err) {
    uint64_t decoded = 0, sums = 0;
    for (int i = 0; i < j->c->attr.linear.n_weights; i++) {
        const och_tensor *w = &j->c->in[OCH_LINEAR_W0 + i];
        uint64_t rows = (uint64_t)slab_rows(j->c, w, j->x.rows);
        if (is_coded(w->dtype)) decoded = OCH_MAX(decoded, rows * (uint64_t)och_gpu_unit_cols(w) * 2);
        if (!is_direct(j->c, w)) sums = OCH_MAX(sums, sum_bytes((int64_t)rows) * (uint64_t)j->x.rows);
    }
    OCH_TRY(och_gpu_take(&j->scratch, OCH_BLAS_WORKSPACE_BYTES, &j->workspace, err));
    if (decoded) OCH_TRY(och_gpu_take(&j->scratch, decoded, &j->decoded, err));
    for (int i = 0; sums && i < sides(j->c); i++) OCH_TRY(och_gpu_take(&j->scratch, sums, &j->sums[i], err));
    return OCH_OK;
}

static och_status all_products(job *j, bool ask, och_err *err) {
    if (has_gate(j->c)) return gated(j, ask, err);
    for (int i = 0; i < j->c->attr.linear.n_weights; i++) OCH_TRY(plain(j, i, ask, err));
    return OCH_OK;
}

och_status och_blas_linear(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    job j = {.ctx = ctx, .c = c, .scratch = {ctx->scratch_addr, 0, ctx->scratch_bytes}, .x = c->in[OCH_LINEAR_X]};
    j.x_halves = och_op_halves(c->attr.linear.x_halves, j.x.rows, ctx);
    j.y_halves = och_op_halves(c->attr.linear.y_halves, j.x.rows, ctx);
    if (j.x.rows < MIN_ROWS)
        return och_err_set(err, OCH_UNSUPPORTED, "products of at least %d rows, found %lld", MIN_ROWS, (long long)j.x.rows);
    if (any_f32(c)) return och_err_set(err, OCH_UNSUPPORTED, "weights of float32 would be rounded");
    OCH_TRY(och_blas_of(ctx->queue->device, &j.blas, err));
    OCH_TRY(cut(&j, err));
    /* Activations lie behind what is cut, at addresses as aligned: 256 bytes stand for both. */
    och_gpu_scratch kept = j.scratch;
    for (int i = 0; i < 2; i++) j.acts[i].addr = j.x_halves ? j.x.addr : ctx->scratch_addr;
    OCH_TRY(all_products(&j, true, err));
    j.scratch = kept;
    memset(j.acts, 0, sizeof j.acts);
    for (int i = 0; i < c->attr.linear.n_weights; i++) OCH_TRY(make_acts(&j, is_bf16(&c->in[OCH_LINEAR_W0 + i]), err));
    return all_products(&j, false, err);
}

/* By what was measured of all of the call's weights, else by the number of rows. */
static bool is_faster(const och_op_ctx *ctx, const och_op_call *c, och_blas *b) {
    const och_blas_times *times = och_blas_times_of(ctx->queue->device, b);
    double kernels = 0.0, library = 0.0;
    int64_t rows = c->in[OCH_LINEAR_X].rows, least = 0;
    bool all = true;
    for (int i = 0; i < c->attr.linear.n_weights; i++) {
        const och_tensor *w = &c->in[OCH_LINEAR_W0 + i];
        const och_blas_time *t = och_blas_times_near(times, w->dtype, w->rows, w->cols, rows);
        least = OCH_MAX(least, och_blas_rows(w->dtype));
        all = all && t;
        if (!t) continue;
        kernels += t->kernel_us;
        library += t->library_us;
    }
    return all ? library < kernels : rows >= least;
}

/* Rows [at, at + n) of a tensor with a row a token. */
static och_tensor rows_of(const och_tensor *t, int64_t at, int64_t n) {
    och_tensor r = *t;
    if (!och_tensor_present(t)) return r;
    r.addr = och_dev_addr_add(t->addr, (uint64_t)at * t->row_bytes);
    r.rows = n;
    return r;
}

static och_status cast_rows(const och_op_ctx *ctx, bool to_halves, const och_tensor *from, const och_tensor *to, och_err *err) {
    const och_gpu_kernel *kernel;
    OCH_TRY(cast_kernel(ctx->queue->device, to_halves, &kernel, err));
    och_kl_actual args[] = {och_gpu_tensor("x", from), och_gpu_tensor("y", to), och_gpu_real("scale", 1.0)};
    return och_gpu_launch(ctx, kernel, args, OCH_COUNT(args), err);
}

/* By the kernels, whose rows are floats. */
static och_status by_slices(const och_op_ctx *ctx, const och_op_call *c, bool x_halves, bool y_halves, och_err *err) {
    int64_t n = c->in[OCH_LINEAR_X].rows, k = c->in[OCH_LINEAR_X].cols, m = c->in[OCH_LINEAR_W0].rows;
    och_tensor x32 = {.dtype = OCH_DTYPE_F32, .cols = k, .row_bytes = sum_bytes(k)},
               y32 = {.dtype = OCH_DTYPE_F32, .cols = m, .row_bytes = sum_bytes(m)};
    och_gpu_scratch s = {ctx->scratch_addr, 0, ctx->scratch_bytes};
    och_dev_addr rest;
    uint64_t left = ctx->scratch_bytes - OCH_MIN(ctx->scratch_bytes, slice_bytes(c));
    OCH_TRY(och_gpu_take(&s, SLICE * x32.row_bytes, &x32.addr, err));
    OCH_TRY(och_gpu_take(&s, SLICE * y32.row_bytes, &y32.addr, err));
    OCH_TRY(och_gpu_take(&s, left, &rest, err));
    och_op_ctx sub = *ctx;
    sub.scratch = NULL; /* kernels' is the device's */
    sub.scratch_addr = rest;
    sub.scratch_bytes = left;
    for (int64_t at = 0; at < n; at += SLICE) {
        och_op_call part = *c;
        x32.rows = y32.rows = OCH_MIN(SLICE, n - at);
        part.attr.linear.x_halves = part.attr.linear.y_halves = false;
        part.in[OCH_LINEAR_SLOTS].dtype = OCH_DTYPE_NONE; /* the last may be one row */
        part.in[OCH_LINEAR_X] = rows_of(&c->in[OCH_LINEAR_X], at, x32.rows);
        part.in[OCH_LINEAR_RESIDUAL] = rows_of(&c->in[OCH_LINEAR_RESIDUAL], at, x32.rows);
        for (int i = 0; i < OCH_LINEAR_MAX_WEIGHTS; i++) part.out[i] = rows_of(&c->out[i], at, x32.rows);
        och_tensor x = part.in[OCH_LINEAR_X], y = part.out[0];
        if (x_halves) {
            OCH_TRY(cast_rows(ctx, false, &x, &x32, err));
            part.in[OCH_LINEAR_X] = x32;
        }
        if (y_halves) part.out[0] = y32;
        OCH_TRY(och_gpu_linear_run(&sub, &part, err));
        if (y_halves) OCH_TRY(cast_rows(ctx, true, &y32, &y, err));
    }
    return OCH_OK;
}

och_status och_blas_linear_run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    och_blas *b;
    och_blas_mode mode;
    och_err why = {0};
    OCH_TRY(och_blas_mode_get(&mode, err));
    int64_t n = c->in[OCH_LINEAR_X].rows;
    bool x_halves = och_op_halves(c->attr.linear.x_halves, n, ctx), y_halves = och_op_halves(c->attr.linear.y_halves, n, ctx);
    bool wanted = mode != OCH_BLAS_NEVER && !ctx->batch_invariant && c->in[OCH_LINEAR_X].rows >= MIN_ROWS && !any_f32(c) &&
                  och_blas_of(ctx->queue->device, &b, &why) == OCH_OK && (mode == OCH_BLAS_ALWAYS || x_halves || y_halves || is_faster(ctx, c, b));
    if (wanted) {
        och_status st = och_blas_linear(ctx, c, &why);
        if (st == OCH_OK) return st;
        if (st != OCH_UNSUPPORTED) return och_err_set_native(err, st, why.native_code, "%s", why.message);
        och_log(OCH_LOG_DEBUG, "a product of %lld rows is our kernels': %s", (long long)c->in[OCH_LINEAR_X].rows, why.message);
    }
    if (x_halves || y_halves) return by_slices(ctx, c, x_halves, y_halves, err);
    return och_gpu_linear_run(ctx, c, err);
}

/* ---- the table ---- */

#define ROW(backend_name)                                                                                                      \
    {.name = "blas", .backend = backend_name, .priority = 110, .has_kernels = true, .takes_codes = true, .takes_halves = true, .takes_one_row = true, .op = OCH_OP_LINEAR,  \
     .supports = och_blas_linear_supports, .run = och_blas_linear_run, .scratch_bytes = och_blas_linear_scratch,               \
     .weight_layout = och_gpu_weight_layout, .weight_pack = och_planes_pack}

const och_op_provider och_op_blas_providers[] = {ROW("hip"), ROW("sim"), ROW("cuda")};
const int och_op_blas_provider_count = (int)(sizeof och_op_blas_providers / sizeof och_op_blas_providers[0]);
