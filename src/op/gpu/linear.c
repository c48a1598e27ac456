/* Products with weights (kernels/linear.ok, matmul.ok): which kernels there are for a call, and its launches. Calls of one row that are
 * one launch are in linear_row.c; how a kernel is cut on a device is in cuts.c.
 *
 * Up to eight rows (few.def) are matrix-vector products: activations become the format that the weight's pairs with, once a call
 * or, of one row, in each workgroup of the product (own.def), and each wave takes rows of the weight. More rows are tiled products:
 * on f16 activations with a scale a row (bf16 where the tile's instructions want both operands of the weight's type), or, with
 * weights of float32, in float32, which matrix instructions would not keep. `batch_invariant` pins the first, eight rows at a time. */
#include "op/gpu/linear.h"

#include "base/size.h"
#include "op/gpu/cuts.h"
#include "op/gpu/tune.h"
#include "quant/capability.h"
#include "quant/format.h"
#include "quant/planes.h"

#include <stdio.h>
#include <string.h>

#define MAX_B 8

/* Rows that a kernel is made for: each size more is a kernel more to compile. */
static const int buckets[] = {1, 4, MAX_B};
static int bucket(int64_t n) { return n <= 1 ? 1 : n <= 4 ? 4 : MAX_B; }
/* Rows up to which a call is matrix-vector products: fewer on some devices where weights are halves themselves. */
static int64_t few(const och_device *d, const och_op_call *c) {
    for (int i = 0; i < c->attr.linear.n_weights; i++) {
        och_dtype t = c->in[OCH_LINEAR_W0 + i].dtype;
        if (t != OCH_DTYPE_F16 && t != OCH_DTYPE_BF16) return MAX_B;
    }
    return och_gpu_few_rows(d, MAX_B);
}
/* Tiles of halves, by matrix instructions; else of float32. */
static bool halves(const och_tensor *w) { return w->dtype != OCH_DTYPE_F32; }

static och_status q8_kernel(const och_device *d, const och_op_call *c, int width, const och_gpu_kernel **out_k, och_err *err) {
    return och_gpu_kernel_get(d, "act_q8", out_k, err, "ADD1=%s,WIDE=%s", och_gpu_yes(c->attr.linear.norm.add_one), och_gpu_yes(width == 4));
}

static och_status f16_kernel(const och_device *d, const och_op_call *c, int width, och_gpu_half kind, const och_gpu_kernel **out_k,
                             och_err *err) {
    char row[OCH_GPU_ROW_SPEC_BYTES];
    och_gpu_row_spec(c->in[OCH_LINEAR_X].cols, width, row);
    return och_gpu_kernel_get(d, "act_f16", out_k, err, "ADD1=%s,%s%s", och_gpu_yes(c->attr.linear.norm.add_one), row,
                              kind == OCH_GPU_HALF_BF16 ? ",T=bf16" : "");
}

bool och_gpu_short_rows(const och_tensor *w) {
    return w->rows >= 4096 && och_gpu_unit_cols(w) <= 32 * (och_gpu_quantised(w) ? 32 : 8);
}

och_status och_gpu_cut_or(const och_device *d, const char *kernel, const char *cut, const char *otherwise, const char *spec,
                             const och_gpu_kernel **out_k, och_err *err) {
    och_status st = och_gpu_kernel_get(d, kernel, out_k, err, "%s%s", cut, spec);
    if (!och_gpu_absent(st) || cut == otherwise) return st;
    och_err_clear(err);
    return och_gpu_kernel_get(d, kernel, out_k, err, "%s%s", otherwise, spec);
}

och_status och_gpu_vec_kernel(const och_device *d, const och_tensor *w, int b, int early, och_act glu, bool invariant, bool squares,
                             const och_gpu_kernel **out_k, och_err *err) {
    const char *f = och_format_get(w->dtype)->name;
    bool alone = b == 1 && !invariant;
    if (glu != OCH_ACT_NONE) {
        const char *plain = "", *cut = alone ? och_gpu_tune_cut(d, OCH_GPU_CUT_GLU, w, plain) : plain;
        char spec[48];
        snprintf(spec, sizeof spec, "F=%s,ACT=%d,B=%d", f, (int)glu, b);
        return och_gpu_cut_or(d, "matvec_glu", cut, plain, spec, out_k, err);
    }
    /* Two rounds of clusters for eight rows of x would take more scalar registers than waves of 64 have. */
    if (och_gpu_short_rows(w)) return och_gpu_kernel_get(d, "matvec", out_k, err, "F=%s,B=%d,C=8,PER=%d", f, b, b == MAX_B ? 32 : 64);
    /* A way of one row alone, whose sums then are not those that it has among others. */
    const char *known = alone ? och_gpu_row_cut(d, w->dtype, w->rows, false) : "";
    const char *cut = alone ? och_gpu_tune_cut(d, OCH_GPU_CUT_VEC, w, known) : known;
    bool asks = early && b == 1 && !*known;
    const char *more = squares ? OCH_GPU_SQUARES : "";
    och_status st = OCH_UNAVAILABLE;
    if (cut != known) st = och_gpu_kernel_get(d, "matvec", out_k, err, "%sF=%s,B=%d%s", cut, f, b, more);
    if (!och_gpu_absent(st)) return st;
    och_err_clear(err);
    st = asks ? och_gpu_kernel_get(d, "matvec", out_k, err, "EARLY=%d,F=%s,B=1", early, f)
              : och_gpu_kernel_get(d, "matvec", out_k, err, "%sF=%s,B=%d%s", known, f, b, more);
    if (!och_gpu_absent(st) || !(asks || *known)) return st;
    och_err_clear(err);
    return och_gpu_kernel_get(d, "matvec", out_k, err, "F=%s,B=%d%s", f, b, more);
}

bool och_gpu_together(const och_op_call *c) {
    const och_attr_linear *a = &c->attr.linear;
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    bool pair = w[2].dtype == w[0].dtype || (w[2].dtype == OCH_DTYPE_Q6_K && och_gpu_quantised(&w[0])); /* as packs hold them */
    return a->n_weights == 3 && a->glu == OCH_ACT_NONE && w[0].dtype == w[1].dtype && pair &&
           !och_gpu_short_rows(&w[0]) && !och_gpu_short_rows(&w[1]) && !och_gpu_short_rows(&w[2]);
}

static const och_gpu_tiles *tiles_of(const och_device *d, const och_tensor *w, int64_t n) {
    return och_gpu_tiles_of(d, w->dtype, w->rows, n);
}

static och_gpu_half half_of(const char *cut) { return strstr(cut, "T=bf16") ? OCH_GPU_HALF_BF16 : OCH_GPU_HALF_F16; }

static och_status mat_kernel(const och_device *d, const och_tensor *w, int64_t n, const och_gpu_kernel **out_k, och_gpu_half *out_kind,
                             och_err *err) {
    *out_kind = OCH_GPU_HALF_F16;
    if (!halves(w)) return och_gpu_kernel_get(d, "matmul_f32", out_k, err, "BM=64");
    const char *cut = tiles_of(d, w, n)->spec, *f = och_format_get(w->dtype)->name;
    och_status st = och_gpu_kernel_get(d, "matmul", out_k, err, "%sF=%s", cut, f);
    /* A machine without a compiler has what its packs hold: of any way the plain one. */
    if (och_gpu_absent(st) && *cut) {
        och_err_clear(err);
        return och_gpu_kernel_get(d, "matmul", out_k, err, "F=%s", f);
    }
    *out_kind = half_of(cut);
    return st;
}

static const och_gpu_split *split_of(const och_device *d, const och_tensor *w, int64_t n) {
    if (!halves(w) || tiles_of(d, w, n)->most) return NULL; /* few rows have tiles of their own */
    return och_gpu_split_of(d, w->dtype, w->rows, w->cols, n);
}

static och_status part_kernel(const och_device *d, const och_tensor *w, const och_gpu_split *cut, const och_gpu_kernel **out_k, och_err *err) {
    return och_gpu_kernel_get(d, "matmul_part", out_k, err, "%sF=%s", cut->spec, och_format_get(w->dtype)->name);
}

static och_status sum_kernel(const och_device *d, const och_gpu_split *cut, int width, const och_gpu_kernel **out_k, och_err *err) {
    return och_gpu_kernel_get(d, "matmul_sum", out_k, err, "PARTS=%d,V=%d", (int)cut->parts, width);
}

/* How products of the same activations with several weights are one launch; "": they are apart. */
static const char *many_cut(const och_device *d, const och_op_call *c, int64_t n) {
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    bool gate = c->attr.linear.glu != OCH_ACT_NONE, fits = gate ? w[0].dtype == w[1].dtype : och_gpu_together(c);
    if (!halves(w) || !fits) return "";
    const och_gpu_tiles *cut = tiles_of(d, w, n);
    const char *spec = gate ? cut->pair : cut->three;
    if (*spec) return spec;
    int64_t rows[3] = {w[0].rows, w[1].rows, gate ? 0 : w[2].rows};
    return cut->most ? "" : och_gpu_together_of(d, w->dtype, rows, gate ? 2 : 3, n);
}

/* och_gpu_absent(): no, or its code is not to be had here. */
static och_status many_kernel(const och_device *d, const och_op_call *c, int64_t n, const och_gpu_kernel **out_k, och_gpu_half *out_kind,
                              och_err *err) {
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    const char *f = och_format_get(w->dtype)->name, *spec = many_cut(d, c, n);
    if (!*spec) return och_err_set(err, OCH_UNAVAILABLE, "products of %lld rows are apart", (long long)n);
    *out_kind = half_of(spec);
    if (c->attr.linear.glu != OCH_ACT_NONE) return och_gpu_kernel_get(d, "matmul_glu", out_k, err, "%sF=%s,ACT=%d", spec, f, (int)c->attr.linear.glu);
    return och_gpu_kernel_get(d, "matmul_qkv", out_k, err, "%sF=%s,G=%s", spec, f, och_format_get(w[2].dtype)->name);
}

static och_status cast_kernel(const och_device *d, const och_gpu_kernel **out_k, och_err *err) {
    return och_gpu_kernel_get(d, "cast", out_k, err, "S=f32,T=f32");
}

static och_status glu_kernel(const och_device *d, const och_op_call *c, const och_gpu_kernel **out_k, och_err *err) {
    return och_gpu_kernel_get(d, "glu", out_k, err, "ACT=%d,V=%d", (int)c->attr.linear.glu,
                              c->in[OCH_LINEAR_W0].rows % 4 ? 1 : 4);
}

och_status och_gpu_linear_supports(const och_device *d, const och_op_call *c, och_err *err) {
    const och_attr_linear *a = &c->attr.linear;
    OCH_TRY(och_gpu_row_supports(d, c, err));
    bool fused = a->glu != OCH_ACT_NONE && c->in[OCH_LINEAR_W0].dtype == c->in[OCH_LINEAR_W0 + 1].dtype, any[OCH_GPU_HALF_KINDS] = {false};
    for (int i = 0; i < a->n_weights; i++) {
        const och_tensor *w = &c->in[OCH_LINEAR_W0 + i];
        if (w->layout != OCH_LAYOUT_PLANES)
            return och_err_set(err, OCH_UNSUPPORTED, "reads weights in planes only, weight %d is in another layout", i);
        OCH_TRY(och_capability_check("kernel", d->info.arch, w->dtype, "linear", err));
        if (!(fused && i))
            for (size_t b = 0; b < OCH_COUNT(buckets); b++)
                for (int invariant = 0; invariant < 2; invariant++)
                    OCH_TRY(och_gpu_vec_kernel(d, w, buckets[b], 0, fused ? a->glu : OCH_ACT_NONE, invariant, false, NULL, err));
        const och_gpu_tiles *before = NULL;
        const och_gpu_split *split_before = NULL;
        const char *many_before = "";
        int64_t most = OCH_MAX(c->in[OCH_LINEAR_X].rows, few(d, c) + 1);
        for (int64_t n = few(d, c) + 1; n; n = och_gpu_tiles_next(n, most)) {
            och_gpu_half kind;
            const och_gpu_tiles *cut = tiles_of(d, w, n);
            if (cut != before) {
                before = cut;
                OCH_TRY(mat_kernel(d, w, n, NULL, &kind, err));
                any[kind] |= halves(w);
            }
            const och_gpu_split *split = split_of(d, w, n);
            if (split && split != split_before) {
                split_before = split;
                OCH_TRY(och_gpu_unless_absent(part_kernel(d, w, split, NULL, err), err));
                OCH_TRY(och_gpu_unless_absent(sum_kernel(d, split, w->rows % 4 ? 1 : 4, NULL, err), err));
            }
            const char *many = i ? "" : many_cut(d, c, n);
            if (*many && many != many_before) {
                many_before = many;
                OCH_TRY(och_gpu_unless_absent(many_kernel(d, c, n, NULL, &kind, err), err));
            }
        }
        if (och_gpu_quantised(w)) OCH_TRY(q8_kernel(d, c, 4, NULL, err));
        else if (och_tensor_present(&c->in[OCH_LINEAR_NORM]))
            OCH_TRY(och_gpu_norm_kernel(d, w->cols, a->norm.add_one, w->cols % 4 ? 1 : 4, NULL, err));
        else if (w->cols % 8) OCH_TRY(cast_kernel(d, NULL, err));
    }
    for (int kind = 0; kind < OCH_GPU_HALF_KINDS; kind++)
        if (any[kind]) OCH_TRY(f16_kernel(d, c, c->in[OCH_LINEAR_X].cols % 4 ? 1 : 4, (och_gpu_half)kind, NULL, err));
    return a->glu != OCH_ACT_NONE ? glu_kernel(d, c, NULL, err) : OCH_OK;
}

och_layout och_gpu_weight_layout(const och_device *d, och_dtype t, int64_t rows, int64_t cols, uint64_t *out_bytes) {
    (void)d;
    uint64_t row;
    *out_bytes = 0;
    if (!och_planes_row_bytes(t, (uint64_t)cols, &row) || !och_u64_mul(row, (uint64_t)rows, out_bytes))
        return OCH_LAYOUT_NATIVE;
    return OCH_LAYOUT_PLANES;
}

/* Bytes of a row of activations in each of the three forms. */
static uint64_t q8_bytes(int64_t k) {
    uint64_t n = 0;
    return och_planes_act_row_bytes((uint64_t)k, &n) ? n : 0;
}
static uint64_t f32_bytes(int64_t k) { return (uint64_t)(k + 7) / 8 * 32; }
static uint64_t f16_bytes(int64_t k) { return (uint64_t)(k + 31) / 32 * 64; }
/* Of a row of sums. */
static uint64_t sum_bytes(int64_t m) { return (uint64_t)(m + 3) / 4 * 16; }

#define MOST_SCRATCH_COLS ((int64_t)1 << 56) /* the bytes of a row of each kind together are a number of 64 bits */

uint64_t och_gpu_linear_scratch(const och_device *d, const och_op_call *c) {
    const och_attr_linear *a = &c->attr.linear;
    int64_t k = c->in[OCH_LINEAR_X].cols;
    uint64_t n = (uint64_t)c->in[OCH_LINEAR_X].rows, m = (uint64_t)c->in[OCH_LINEAR_W0].rows, q8 = 0, f32 = 0, f16[OCH_GPU_HALF_KINDS] = {0};
    uint64_t all, parts = 0;
    if (k > MOST_SCRATCH_COLS || m > MOST_SCRATCH_COLS) return UINT64_MAX; /* which no device has */
    for (int i = 0; i < a->n_weights; i++) {
        const och_tensor *w = &c->in[OCH_LINEAR_W0 + i];
        if (och_gpu_quantised(w)) q8 = q8_bytes(k);
        else f32 = f32_bytes(k);
        if (halves(w) && (int64_t)n > few(d, c)) f16[half_of(tiles_of(d, w, (int64_t)n)->spec)] = f16_bytes(k) + 4;
        /* Of any number of rows up to this one: fewer may be shared out where more are not. */
        uint64_t most = 0;
        int64_t last = OCH_MIN((int64_t)n, 256 * (int64_t)d->info.n_compute_units); /* of more there are tiles enough */
        for (int64_t at = few(d, c) + 1; at && at <= last; at = och_gpu_tiles_next(at, last)) {
            const och_gpu_split *split = split_of(d, w, at);
            if (split) most = OCH_MAX(most, split->parts * och_u64_ceil_div((uint64_t)at * sum_bytes(w->rows), n));
        }
        parts += most;
    }
    uint64_t row = q8 + f32 + f16[OCH_GPU_HALF_F16] + f16[OCH_GPU_HALF_BF16] + parts;
    /* With a gate: both products as they are, before the activation. */
    if (a->glu != OCH_ACT_NONE) row += 2 * sum_bytes((int64_t)m);
    return och_u64_mul(n, row, &all) && och_u64_add(all, 13 * 256, &all) ? all : UINT64_MAX;
}

och_status och_gpu_codes_kernel(const och_device *d, och_err *err) {
    return och_gpu_kernel_get(d, "act_q8", NULL, err, "ADD1=false,WIDE=true");
}

och_kl_actual och_gpu_codes_arg(const char *name, const och_tensor *codes, int64_t n_rows, int64_t k) {
    return codes ? och_gpu_matrix(name, codes->addr, n_rows, k, codes->row_bytes) : (och_kl_actual){.name = name};
}

och_status och_gpu_codes_of(const och_op_ctx *ctx, const och_tensor *x, const och_tensor *codes, och_err *err) {
    const och_gpu_kernel *k;
    bool wide = och_gpu_width(x->cols, &x, 1) == 4;
    OCH_TRY(och_gpu_kernel_get(ctx->queue->device, "act_q8", &k, err, "ADD1=false,WIDE=%s", och_gpu_yes(wide)));
    och_kl_actual args[] = {och_gpu_tensor("x", x), {.name = "norm"}, och_gpu_codes_arg("y", codes, x->rows, x->cols),
                            och_gpu_real("eps", 0.0)};
    return och_gpu_launch(ctx, k, args, OCH_COUNT(args), err);
}

static och_status make_q8(och_gpu_job *j, och_err *err) {
    int64_t k = j->x.cols;
    const och_gpu_kernel *kernel;
    int width = och_gpu_width(k, (const och_tensor *[]){&j->x, &j->c->in[OCH_LINEAR_NORM]}, 2);
    OCH_TRY(q8_kernel(j->ctx->queue->device, j->c, width, &kernel, err));
    OCH_TRY(och_gpu_take(&j->scratch, (uint64_t)j->x.rows * q8_bytes(k), &j->acts.q8, err));
    j->acts.q8_row_bytes = q8_bytes(k);
    och_kl_actual args[] = {och_gpu_tensor("x", &j->x), och_gpu_norm_arg(j), och_gpu_matrix("y", j->acts.q8, j->x.rows, k, q8_bytes(k)),
                            och_gpu_eps_arg(j)};
    return och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err);
}

/* x itself where it is normed already and its rows are whole units. */
static och_status make_f32(och_gpu_job *j, och_err *err) {
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
        OCH_TRY(cast_kernel(d, &kernel, err));
        och_kl_actual args[] = {och_gpu_tensor("x", x), y, och_gpu_real("scale", 1.0)};
        return och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err);
    }
    int width = och_gpu_width(x->cols, (const och_tensor *[]){x, norm}, 2);
    OCH_TRY(och_gpu_norm_kernel(d, x->cols, j->c->attr.linear.norm.add_one, width, &kernel, err));
    och_kl_actual args[] = {och_gpu_tensor("x", x), och_gpu_vector("w", norm), {.name = "residual"}, y, och_gpu_eps_arg(j)};
    return och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err);
}

static och_status make_f16(och_gpu_job *j, och_gpu_half kind, och_err *err) {
    int64_t k = j->x.cols, kp = (k + 31) / 32 * 32;
    const och_gpu_kernel *kernel;
    int width = och_gpu_width(k, (const och_tensor *[]){&j->x, &j->c->in[OCH_LINEAR_NORM]}, 2);
    OCH_TRY(f16_kernel(j->ctx->queue->device, j->c, width, kind, &kernel, err));
    OCH_TRY(och_gpu_take(&j->scratch, (uint64_t)j->x.rows * f16_bytes(k), &j->acts.f16[kind], err));
    OCH_TRY(och_gpu_take(&j->scratch, (uint64_t)j->x.rows * 4, &j->acts.scale[kind], err));
    och_kl_actual args[] = {och_gpu_tensor("x", &j->x), och_gpu_norm_arg(j),
                            och_gpu_matrix("y", j->acts.f16[kind], j->x.rows, kp, f16_bytes(k)),
                            och_gpu_matrix("scale", j->acts.scale[kind], j->x.rows, 1, 4), och_gpu_eps_arg(j)};
    return och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err);
}

/* Rows [first, first + n) of a tensor with a row a token. */
static och_tensor rows_of(const och_tensor *t, int64_t first, int64_t n) {
    och_tensor r = *t;
    if (!och_tensor_present(t)) return r;
    r.addr = och_dev_addr_add(t->addr, (uint64_t)first * t->row_bytes);
    r.rows = n;
    return r;
}

och_status och_gpu_acts_for(och_gpu_job *j, const och_tensor *w, och_tensor *out, och_err *err) {
    bool q = och_gpu_quantised(w);
    if (q && !j->acts.q8.value) OCH_TRY(make_q8(j, err));
    if (!q && !j->acts.f32.value) OCH_TRY(make_f32(j, err));
    *out = (och_tensor){.dtype = OCH_DTYPE_F32,
                        .rows = j->x.rows,
                        .cols = och_gpu_unit_cols(w),
                        .addr = q ? j->acts.q8 : j->acts.f32,
                        .row_bytes = q ? j->acts.q8_row_bytes : j->acts.f32_row_bytes};
    return OCH_OK;
}

/* A product whose k is shared out: the sums of each part, then those of all. och_gpu_absent(): their code is not to be had here. */
static och_status in_parts(och_gpu_job *j, int i, const och_gpu_split *cut, const och_tensor *residual, const och_tensor *y, och_err *err) {
    const och_tensor *w = &j->c->in[OCH_LINEAR_W0 + i], *bias = &j->c->in[OCH_LINEAR_B0 + i];
    const och_gpu_kernel *part, *sum;
    och_gpu_half kind = half_of(cut->spec);
    int64_t n = j->x.rows;
    OCH_TRY(part_kernel(j->ctx->queue->device, w, cut, &part, err));
    OCH_TRY(sum_kernel(j->ctx->queue->device, cut, och_gpu_width(w->rows, (const och_tensor *[]){bias, residual, y}, 3), &sum, err));
    if (!j->acts.f16[kind].value) OCH_TRY(make_f16(j, kind, err));
    uint64_t row = sum_bytes(w->rows);
    och_dev_addr at;
    OCH_TRY(och_gpu_take(&j->scratch, cut->parts * (uint64_t)n * row, &at, err));
    och_kl_actual parts = {.name = "parts", .addr = at.value, .dims = {(int64_t)cut->parts, n, w->rows}, .row_bytes = {(uint64_t)n * row, row}};
    och_kl_actual of_parts[] = {och_gpu_matrix("a", j->acts.f16[kind], n, och_gpu_unit_cols(w), f16_bytes(j->x.cols)), och_gpu_weight("w", w), parts};
    OCH_TRY(och_gpu_launch(j->ctx, part, of_parts, OCH_COUNT(of_parts), err));
    och_kl_actual of_sum[] = {parts, och_gpu_matrix("scale", j->acts.scale[kind], n, 1, 4), och_gpu_vector("bias", bias),
                              och_gpu_tensor("residual", residual), och_gpu_tensor("y", y)};
    return och_gpu_launch(j->ctx, sum, of_sum, OCH_COUNT(of_sum), err);
}

static och_status tiled(och_gpu_job *j, int i, const och_tensor *residual, const och_tensor *y, och_err *err) {
    const och_tensor *w = &j->c->in[OCH_LINEAR_W0 + i];
    const och_gpu_kernel *kernel;
    och_gpu_half kind;
    const och_gpu_split *split = split_of(j->ctx->queue->device, w, j->x.rows);
    if (split) {
        och_status st = in_parts(j, i, split, residual, y, err);
        if (!och_gpu_absent(st)) return st;
        och_err_clear(err);
    }
    OCH_TRY(mat_kernel(j->ctx->queue->device, w, j->x.rows, &kernel, &kind, err));
    if (!halves(w)) {
        och_tensor x;
        OCH_TRY(och_gpu_acts_for(j, w, &x, err));
        och_kl_actual args[] = {och_gpu_tensor("a", &x), och_gpu_weight("w", w), och_gpu_vector("bias", &j->c->in[OCH_LINEAR_B0 + i]),
                                och_gpu_tensor("residual", residual), och_gpu_tensor("y", y)};
        return och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err);
    }
    if (!j->acts.f16[kind].value) OCH_TRY(make_f16(j, kind, err));
    och_kl_actual args[] = {och_gpu_matrix("a", j->acts.f16[kind], j->x.rows, och_gpu_unit_cols(w), f16_bytes(j->x.cols)),
                            och_gpu_matrix("scale", j->acts.scale[kind], j->x.rows, 1, 4),
                            och_gpu_weight("w", w),
                            och_gpu_vector("bias", &j->c->in[OCH_LINEAR_B0 + i]),
                            och_gpu_tensor("residual", residual),
                            och_gpu_tensor("y", y)};
    return och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err);
}

int och_gpu_three_args(const och_op_call *c, och_kl_actual *args, int n) {
    static const char *const names[3][3] = {{"wq", "bq", "yq"}, {"wk", "bk", "yk"}, {"wv", "bv", "yv"}};
    for (int i = 0; i < 3; i++) {
        args[n++] = och_gpu_weight(names[i][0], &c->in[OCH_LINEAR_W0 + i]);
        args[n++] = och_gpu_vector(names[i][1], &c->in[OCH_LINEAR_B0 + i]);
        args[n++] = och_gpu_tensor(names[i][2], &c->out[i]);
    }
    return n;
}

/* The whole call in one launch, as many_kernel() has it. */
static och_status tiled_together(och_gpu_job *j, och_err *err) {
    const och_op_call *c = j->c;
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    const och_gpu_kernel *kernel;
    och_gpu_half kind;
    OCH_TRY(many_kernel(j->ctx->queue->device, c, j->x.rows, &kernel, &kind, err));
    if (!j->acts.f16[kind].value) OCH_TRY(make_f16(j, kind, err));
    och_kl_actual args[11] = {och_gpu_matrix("a", j->acts.f16[kind], j->x.rows, och_gpu_unit_cols(w), f16_bytes(j->x.cols)),
                              och_gpu_matrix("scale", j->acts.scale[kind], j->x.rows, 1, 4)};
    int n = 2;
    if (c->attr.linear.glu != OCH_ACT_NONE) {
        args[n++] = och_gpu_weight("w0", &w[0]);
        args[n++] = och_gpu_weight("w1", &w[1]);
        args[n++] = och_gpu_vector("bias0", &c->in[OCH_LINEAR_B0]);
        args[n++] = och_gpu_vector("bias1", &c->in[OCH_LINEAR_B0 + 1]);
        args[n++] = och_gpu_tensor("y", &c->out[0]);
    } else {
        n = och_gpu_three_args(c, args, n);
    }
    return och_gpu_launch(j->ctx, kernel, args, n, err);
}

static och_status product(och_gpu_job *j, int i, const och_tensor *residual, const och_tensor *y, och_err *err) {
    const och_tensor *w = &j->c->in[OCH_LINEAR_W0 + i];
    if (j->many) return tiled(j, i, residual, y, err);
    och_tensor x;
    OCH_TRY(och_gpu_acts_for(j, w, &x, err));
    for (int64_t at = 0; at < x.rows; at += MAX_B) {
        int64_t n = OCH_MIN(x.rows - at, MAX_B);
        const och_gpu_kernel *kernel;
        int early = och_gpu_row_early(j->ctx->queue->device, j->c, j->x.rows, j->ctx->batch_invariant);
        OCH_TRY(och_gpu_vec_kernel(j->ctx->queue->device, w, bucket(n), early, OCH_ACT_NONE, j->ctx->batch_invariant, j->normed, &kernel, err));
        och_tensor xs = rows_of(&x, at, n), rs = rows_of(residual, at, n), ys = rows_of(y, at, n);
        och_kl_actual args[] = {och_gpu_weight("w", w), och_gpu_tensor("x", &xs),
                                och_gpu_vector("bias", &j->c->in[OCH_LINEAR_B0 + i]), och_gpu_tensor("residual", &rs),
                                och_gpu_squares_arg(j), och_gpu_tensor("y", &ys), och_gpu_eps_arg(j)};
        OCH_TRY(och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err));
    }
    return OCH_OK;
}

/* Both products and the gate in one launch. */
static och_status gated_vec(och_gpu_job *j, const och_tensor *y, och_err *err) {
    const och_tensor *w0 = &j->c->in[OCH_LINEAR_W0], *w1 = &j->c->in[OCH_LINEAR_W0 + 1];
    och_tensor x;
    OCH_TRY(och_gpu_acts_for(j, w0, &x, err));
    for (int64_t at = 0; at < x.rows; at += MAX_B) {
        int64_t n = OCH_MIN(x.rows - at, MAX_B);
        const och_gpu_kernel *kernel;
        OCH_TRY(och_gpu_vec_kernel(j->ctx->queue->device, w0, bucket(n), 0, j->c->attr.linear.glu, j->ctx->batch_invariant, false, &kernel, err));
        och_tensor xs = rows_of(&x, at, n), ys = rows_of(y, at, n);
        och_kl_actual args[] = {och_gpu_weight("w0", w0),
                                och_gpu_weight("w1", w1),
                                och_gpu_tensor("x", &xs),
                                och_gpu_vector("bias0", &j->c->in[OCH_LINEAR_B0]),
                                och_gpu_vector("bias1", &j->c->in[OCH_LINEAR_B0 + 1]),
                                och_gpu_tensor("y", &ys)};
        OCH_TRY(och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err));
    }
    return OCH_OK;
}

static och_status gated(och_gpu_job *j, const och_tensor *y, och_err *err) {
    const och_tensor *w0 = &j->c->in[OCH_LINEAR_W0], *w1 = &j->c->in[OCH_LINEAR_W0 + 1];
    const och_gpu_kernel *kernel;
    if (w0->dtype == w1->dtype && !j->many) return gated_vec(j, y, err);
    och_tensor part[2];
    for (int i = 0; i < 2; i++) {
        part[i] = (och_tensor){
            .dtype = OCH_DTYPE_F32, .rows = y->rows, .cols = y->cols, .row_bytes = sum_bytes(y->cols)};
        OCH_TRY(och_gpu_take(&j->scratch, (uint64_t)y->rows * part[i].row_bytes, &part[i].addr, err));
        OCH_TRY(product(j, i, &(och_tensor){.dtype = OCH_DTYPE_NONE}, &part[i], err));
    }
    int width = och_gpu_width(y->cols, (const och_tensor *[]){y}, 1);
    OCH_TRY(och_gpu_kernel_get(j->ctx->queue->device, "glu", &kernel, err, "ACT=%d,V=%d", (int)j->c->attr.linear.glu, width));
    och_kl_actual args[] = {och_gpu_tensor("gate", &part[0]), och_gpu_tensor("up", &part[1]), och_gpu_tensor("y", y)};
    return och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err);
}

static och_status run_rows(och_gpu_job *j, const och_tensor *ycodes, bool *out_posted, och_err *err) {
    const och_op_ctx *ctx = j->ctx;
    const och_op_call *c = j->c;
    const och_tensor none = {.dtype = OCH_DTYPE_NONE};
    och_status one = och_gpu_row_run(j, ycodes, out_posted, err);
    if (!och_gpu_absent(one)) return one;
    och_err_clear(err);
    if (j->many && !och_tensor_present(&c->in[OCH_LINEAR_RESIDUAL])) {
        och_status st = tiled_together(j, err);
        if (!och_gpu_absent(st)) return st == OCH_OK && ycodes ? och_gpu_codes_of(ctx, &c->out[0], ycodes, err) : st;
        och_err_clear(err);
    }
    if (c->attr.linear.glu != OCH_ACT_NONE) {
        OCH_TRY(gated(j, &c->out[0], err));
        return ycodes ? och_gpu_codes_of(ctx, &c->out[0], ycodes, err) : OCH_OK;
    }
    for (int i = 0; i < c->attr.linear.n_weights; i++)
        OCH_TRY(product(j, i, i ? &none : &c->in[OCH_LINEAR_RESIDUAL], &c->out[i], err));
    return OCH_OK;
}

static och_status products(const och_op_ctx *ctx, const och_op_call *c, bool *out_posted, och_err *err) {
    const och_tensor *x = &c->in[OCH_LINEAR_X], *ynormed = och_op_ynormed(c);
    const och_tensor *xcodes = och_op_codes(och_op_xcodes(c), x->rows), *ycodes = och_op_codes(och_op_ycodes(c), x->rows);
    och_gpu_job j = {.ctx = ctx,
             .c = c,
             .scratch = {ctx->scratch_addr, 0, ctx->scratch_bytes},
             .x = *x,
             .many = x->rows > few(ctx->queue->device, c) && !ctx->batch_invariant && !xcodes}; /* tiles would read x */
    if (!x->rows) return OCH_OK;
    OCH_TRY(och_gpu_row_reads(&j, err));
    if (j.normed) xcodes = j.normed;
    if (xcodes) {
        j.acts.q8 = xcodes->addr;
        j.acts.q8_row_bytes = xcodes->row_bytes;
    }
    if (!och_op_takes_normed(ynormed, x->rows, ctx)) return run_rows(&j, ycodes, out_posted, err);
    och_status st = och_gpu_row_normed(&j, ynormed, err);
    if (!och_gpu_absent(st)) return st;
    och_err_clear(err);
    OCH_TRY(run_rows(&j, NULL, out_posted, err));
    return och_gpu_normed_codes_of(ctx, &c->out[0], &c->in[OCH_LINEAR_YNORM], c->attr.linear.ynorm_add_one, ynormed, err);
}

och_status och_gpu_linear_run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    bool posted_too = false;
    OCH_TRY(products(ctx, c, &posted_too, err));
    if (!och_op_one_row(c, ctx) || posted_too) return OCH_OK;
    const och_op_call post = och_op_post_of(c);
    return och_gpu_qkv_post_run(ctx, &post, err);
}
