/* Products of one row of activations, or of a few with a gate, that are one launch: what one comes with (a norm, codes made in each
 * workgroup) or hands on (a gate's codes, q and k turned and the state written, codes through the next norm), and those whose weights'
 * rows go by way of LDS. Kernels: kernels/one_row.ok, codes.ok, qkv.ok, ring.ok, matvec_qkv of linear.ok. */
#include "op/gpu/linear.h"

#include "base/size.h"
#include "op/gpu/cuts.h"
#include "op/gpu/tune.h"
#include "quant/planes.h"

#include <stdio.h>

#define OWN_COLS 16384 /* of x: more would take too much LDS and too many registers */
#define CODES_B 4      /* rows of which products with a gate make codes themselves */
#define RING_COLS 4096 /* of x, whose codes a wave has in registers */
#define OWN_ROWS 4096  /* of weights: with more, or longer ones, a workgroup that makes its own codes takes more for its trouble */

/* ==== which kernels there are for a call ==== */

/* ---- a gate whose product writes y's codes ---- */

/* How products with a gate that write y's codes, in workgroups of 32 rows, are cut; NULL: they would be slower than two launches. */
static const char *coded(const och_device *d, const och_op_call *c, int64_t n) {
    int wish = och_gpu_wish_of(d).next_codes;
    /* Of eight rows a workgroup would be all that a compute unit has registers for, and the last round a part of one. */
    if (!wish || n > CODES_B) return NULL;
    const char *cut = och_gpu_codes_cut(d, c->in[OCH_LINEAR_W0].dtype, n == 1);
    return cut || wish < 0 ? cut : "";
}

/* Where compute units have a workgroup each; asked of plans alone, since a record that is tried is made small. */
static bool takes_ycodes(const och_device *d, const och_op_call *c) {
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    bool enough = w->rows / 32 >= (int64_t)d->info.n_compute_units || och_gpu_wish_of(d).next_codes > 0;
    return enough && och_gpu_quantised(w) && w[0].dtype == w[1].dtype && coded(d, c, 1);
}

static och_status codes_kernel(const och_device *d, const och_op_call *c, int64_t n, bool squares, const och_gpu_kernel **out_k,
                               och_err *err) {
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    const char *known = coded(d, c, n);
    char spec[64];
    if (!known) return och_err_set(err, OCH_UNAVAILABLE, "codes of %lld rows are made by a kernel of their own", (long long)n);
    const char *cut = n > 1 ? known : och_gpu_tune_cut(d, OCH_GPU_CUT_CODES, w, known);
    snprintf(spec, sizeof spec, "F=%s,ACT=%d,B=%d%s", och_format_get(w->dtype)->name, (int)c->attr.linear.glu,
             n > 1 ? CODES_B : 1, squares ? OCH_GPU_SQUARES : "");
    return och_gpu_cut_or(d, "matvec_glu_codes", cut, known, spec, out_k, err);
}

/* ---- a row that is made codes in each workgroup ---- */

static bool overlap(const och_tensor *a, const och_tensor *b) {
    return och_tensor_present(a) && a->addr.value < b->addr.value + (uint64_t)b->rows * b->row_bytes &&
           b->addr.value < a->addr.value + (uint64_t)a->rows * a->row_bytes;
}

/* Whether a call of one row may be one: what a plan knows, which has the kernel made before a step needs it. */
static bool may_own(const och_device *d, const och_op_call *c) {
    const och_attr_linear *a = &c->attr.linear;
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    const och_gpu_own_cut *row = och_gpu_own_cut_of(d);
    int asked = och_gpu_wish_of(d).own_codes;
    int64_t most = asked < 0 ? row ? row->most_cols : 0 : asked ? OWN_COLS : 0;
    if (w->cols > most || !och_gpu_quantised(w) || och_gpu_short_rows(w)) return false;
    return a->n_weights == 3 ? och_gpu_together(c) : a->n_weights == 1 || (a->glu != OCH_ACT_NONE && w[0].dtype == w[1].dtype);
}

static bool owns(const och_device *d, const och_op_call *c, bool invariant) {
    const och_tensor *x = &c->in[OCH_LINEAR_X];
    if (x->rows != 1 || invariant || och_op_codes(och_op_xcodes(c), 1) || !may_own(d, c)) return false;
    for (int i = 0; i < c->attr.linear.n_weights; i++) /* a workgroup would read what another has written */
        if (overlap(&c->out[i], x)) return false;
    return true;
}

/* A row that comes as codes leaves such a product nothing to make of it; its weights are on their way as early. */
int och_gpu_row_early(const och_device *d, const och_op_call *c, int64_t n, bool invariant) {
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    const och_gpu_own_cut *row = och_gpu_own_cut_of(d);
    if (n != 1 || invariant || !och_op_codes(och_op_xcodes(c), n) || !may_own(d, c)) return 0;
    return (int)OCH_MIN(row ? row->early : 1, (w->cols / 32 + d->info.wave_size - 1) / d->info.wave_size);
}

static och_status own_kernel(const och_device *d, const och_op_call *c, int width, const och_gpu_kernel **out_k, och_err *err) {
    const och_attr_linear *a = &c->attr.linear;
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    int64_t most = 32 * d->info.wave_size, rows = 0; /* whole rounds of quads of eight waves */
    while (most < w->cols) most *= 2;
    for (int i = 0; i < a->n_weights; i++) rows += w[i].rows;
    bool codes = och_tensor_present(&c->out[OCH_LINEAR_YCODES]); /* of whole blocks */
    int per = codes ? 32 : most <= 2048 && rows <= OWN_ROWS ? 8 : rows <= 4 * OWN_ROWS ? 16 : 32;
    const och_gpu_own_cut *row = och_gpu_own_cut_of(d);
    int early = row ? (int)OCH_MIN(row->early, most / 1024) : 1;
    char what[112];
    snprintf(what, sizeof what, "F=%s,ADD1=%s,WIDE=%s,KMAX=%lld,PER=%d", och_format_get(w->dtype)->name, och_gpu_yes(a->norm.add_one),
             och_gpu_yes(width == 4), (long long)most, per);
    if (a->glu != OCH_ACT_NONE)
        return och_gpu_kernel_get(d, "matvec_glu_own", out_k, err, "%s,ACT=%d,EARLY=%d%s", what, (int)a->glu, OCH_MIN(early, 2),
                                  codes ? ",CODES=true" : "");
    if (a->n_weights == 1) return och_gpu_kernel_get(d, "matvec_own", out_k, err, "%s,EARLY=%d", what, early);
    return och_gpu_kernel_get(d, "matvec_qkv_own", out_k, err, "%s,G=%s", what, och_format_get(w[2].dtype)->name);
}

/* ---- three products ---- */

static och_status qkv_kernel(const och_device *d, const och_op_call *c, bool squares, const och_gpu_kernel **out_k, och_err *err) {
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    const char *known = och_gpu_row_cut(d, w->dtype, w->rows, true), *cut = och_gpu_tune_cut(d, OCH_GPU_CUT_QKV, w, known);
    char spec[64];
    snprintf(spec, sizeof spec, "F=%s,G=%s%s", och_format_get(w[0].dtype)->name, och_format_get(w[2].dtype)->name,
             squares ? OCH_GPU_SQUARES : "");
    return och_gpu_cut_or(d, "matvec_qkv", cut, known, spec, out_k, err);
}

/* ---- rows by way of LDS ---- */

/* How a kernel whose weights' rows are copied to LDS some steps ahead (kernels/ring.ok) is cut for the call's weights, and bytes of a
 * row of theirs; NULL: it takes no such rows, or others are as fast. */
static const char *ring_cut(const och_device *d, const och_op_call *c, och_gpu_ring_kind kind, uint64_t *out_row_bytes) {
    const och_attr_linear *a = &c->attr.linear;
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    int wish = och_gpu_wish_of(d).ring;
    if (!wish || !och_gpu_quantised(w)) return NULL;
    if (!och_planes_row_bytes(w->dtype, (uint64_t)w->cols, out_row_bytes) || *out_row_bytes % 32) return NULL;
    for (int i = 0; i < a->n_weights; i++)
        if (w[i].dtype != w->dtype || w[i].rows % (kind == OCH_GPU_RING_GATE ? 64 : 32)) return NULL;
    const char *cut = NULL;
    if (kind == OCH_GPU_RING_ALONE) {
        if (a->n_weights == 1) cut = och_gpu_alone_cut(d, w->dtype, w->cols, w->rows, wish > 0);
    } else {
        const och_gpu_ring *ring = och_gpu_ring_of(d, w->dtype, wish > 0);
        const char *codes = !ring ? NULL : w->cols > RING_COLS ? ring->lengthy : ring->brief;
        if (ring) cut = kind == OCH_GPU_RING_GATE ? ring->gate : kind == OCH_GPU_RING_THREE ? ring->three : codes;
    }
    if (!cut || och_gpu_ring_lds(kind, cut, *out_row_bytes, w->cols) > d->info.lds_bytes) return NULL;
    if (kind == OCH_GPU_RING_CODES || kind == OCH_GPU_RING_ALONE) return w->cols % 32 ? NULL : cut;
    /* Activations of a row are in registers. */
    if (w->cols > RING_COLS || w->cols % (32 * d->info.wave_size)) return NULL;
    if (kind == OCH_GPU_RING_GATE) return a->glu != OCH_ACT_NONE ? cut : NULL;
    const och_attr_qkv_post *p = &a->post;
    bool turns = och_op_asks_one_row(c), half = p->rope.style == OCH_ROPE_HALF;
    return och_gpu_together(c) && !(turns && (p->kv.head_dim % 32 || (half && p->rope.rot_dim % 32))) ? cut : NULL;
}

static bool rings(const och_device *d, const och_op_call *c, och_gpu_ring_kind kind) {
    uint64_t row_bytes;
    return ring_cut(d, c, kind, &row_bytes) != NULL;
}

static och_status ring_kernel(const och_device *d, const och_op_call *c, och_gpu_ring_kind kind, bool squares, uint64_t *out_row_bytes,
                              const och_gpu_kernel **out_k, och_err *err) {
    const och_attr_linear *a = &c->attr.linear;
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    const char *cut = ring_cut(d, c, kind, out_row_bytes), *more = squares ? OCH_GPU_SQUARES : "";
    char spec[128], post[64] = "", cache[OCH_GPU_CACHE_SPEC_BYTES];
    if (!cut) return och_err_set(err, OCH_UNAVAILABLE, "rows of that kind do not go by way of LDS");
    snprintf(spec, sizeof spec, "%sF=%s,ROWB=%d,K=%d", cut, och_format_get(w->dtype)->name, (int)*out_row_bytes, (int)w->cols);
    if (kind == OCH_GPU_RING_CODES) return och_gpu_kernel_get(d, "matvec_codes_ring", out_k, err, "%s,ADD1=%s", spec, och_gpu_yes(a->ynorm_add_one));
    if (kind == OCH_GPU_RING_GATE) return och_gpu_kernel_get(d, "matvec_glu_ring", out_k, err, "%s,ACT=%d%s", spec, (int)a->glu, more);
    if (och_op_asks_one_row(c)) {
        och_gpu_cache_spec(d, c->out[OCH_LINEAR_KCACHE].dtype, cache);
        snprintf(post, sizeof post, ",POST=true,%s,BT=%d,HALF=%s", cache, a->post.kv.block_tokens,
                 och_gpu_yes(a->post.rope.style == OCH_ROPE_HALF));
    }
    return och_gpu_kernel_get(d, "matvec_qkv_ring", out_k, err, "%s%s%s", spec, more, post);
}

static och_status ring_alone_kernel(const och_device *d, const och_op_call *c, bool squares, uint64_t *out_row_bytes, int *out_groups,
                                    const och_gpu_kernel **out_k, och_err *err) {
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    const char *cut = ring_cut(d, c, OCH_GPU_RING_ALONE, out_row_bytes), *known = och_gpu_row_cut(d, w->dtype, w->rows, false);
    if (!cut || och_gpu_tune_cut(d, OCH_GPU_CUT_VEC, w, known) != known)
        return och_err_set(err, OCH_UNAVAILABLE, "rows of that kind do not go by way of LDS");
    *out_groups = och_gpu_ring_groups(d, cut);
    return och_gpu_kernel_get(d, "matvec_ring", out_k, err, "%sF=%s,ROWB=%d,K=%d%s", cut, och_format_get(w->dtype)->name,
                              (int)*out_row_bytes, (int)w->cols, squares ? OCH_GPU_SQUARES : "");
}

/* Whether the tuner has found the product faster another way. */
static bool retuned(const och_device *d, const och_op_call *c, och_gpu_ring_kind kind) {
    static const och_gpu_cut_kind cuts[] = {
        [OCH_GPU_RING_GATE] = OCH_GPU_CUT_CODES, [OCH_GPU_RING_THREE] = OCH_GPU_CUT_QKV, [OCH_GPU_RING_CODES] = OCH_GPU_CUT_NORMED};
    return och_gpu_tune_cut(d, cuts[kind], &c->in[OCH_LINEAR_W0], NULL) != NULL;
}

/* ---- three products, turned and stored ---- */

/* How a call of one row is cut that turns q and k and writes the state; NULL: two launches, or a way of its own, are as fast. */
static const char *posted(const och_device *d, const och_op_call *c) {
    const och_attr_qkv_post *a = &c->attr.linear.post;
    int wish = och_gpu_wish_of(d).one_row;
    bool own = wish < 0 && may_own(d, c) && !och_op_codes(och_op_xcodes(c), 1);
    if (!wish || own || !och_gpu_together(c) || a->kv.head_dim % 16) return NULL; /* heads: whole workgroups */
    return och_gpu_post_cut(d, c->in[OCH_LINEAR_W0].dtype, wish > 0 || rings(d, c, OCH_GPU_RING_THREE));
}

static och_status post_kernel(const och_device *d, const och_op_call *c, bool squares, const och_gpu_kernel **out_k, och_err *err) {
    const och_attr_qkv_post *a = &c->attr.linear.post;
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    const char *known = posted(d, c);
    char spec[112], cache[OCH_GPU_CACHE_SPEC_BYTES];
    if (!known) return och_err_set(err, OCH_UNAVAILABLE, "q, k and v of one row are turned and stored by a kernel of their own");
    och_gpu_cache_spec(d, c->out[OCH_LINEAR_KCACHE].dtype, cache);
    snprintf(spec, sizeof spec, "F=%s,G=%s,%s,BT=%d,HALF=%s%s", och_format_get(w[0].dtype)->name, och_format_get(w[2].dtype)->name, cache,
             a->kv.block_tokens, och_gpu_yes(a->rope.style == OCH_ROPE_HALF), squares ? OCH_GPU_SQUARES : "");
    /* What was timed is the products without the rest, whose cuts are those of this kernel too. */
    return och_gpu_cut_or(d, "matvec_qkv_post", och_gpu_tune_cut(d, OCH_GPU_CUT_QKV, w, known), known, spec, out_k, err);
}

/* ---- codes through a norm ---- */

/* How a product that writes them is cut, which reads codes that were made before; NULL: it would be slower than a launch more. */
static const char *normed_cut(const och_device *d, const och_op_call *c) {
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    int wish = och_gpu_wish_of(d).norm_codes;
    bool own = may_own(d, c) && !och_op_codes(och_op_xcodes(c), 1);
    if (!wish || !och_gpu_quantised(w) || own || och_gpu_short_rows(w)) return NULL;
    return och_gpu_norm_codes_cut(d, w->dtype, wish > 0 || rings(d, c, OCH_GPU_RING_CODES));
}

/* Where nearly every compute unit has a workgroup; asked of plans alone, since a record that is tried is made small. */
static bool writes_normed(const och_device *d, const och_op_call *c) {
    bool enough = 4 * (c->in[OCH_LINEAR_W0].rows / 32) >= 3 * (int64_t)d->info.n_compute_units || och_gpu_wish_of(d).norm_codes > 0;
    return enough && normed_cut(d, c);
}

static och_status normed_kernel(const och_device *d, const och_op_call *c, const och_gpu_kernel **out_k, och_err *err) {
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    const char *known = normed_cut(d, c);
    char spec[48];
    if (!known) return och_err_set(err, OCH_UNAVAILABLE, "codes for a norm of y are made by a kernel of their own");
    snprintf(spec, sizeof spec, "F=%s,ADD1=%s", och_format_get(w->dtype)->name, och_gpu_yes(c->attr.linear.ynorm_add_one));
    const char *cut = och_gpu_tune_cut(d, OCH_GPU_CUT_NORMED, w, known);
    och_status st = och_gpu_cut_or(d, "matvec_codes", cut, known, spec, out_k, err);
    if (!och_gpu_absent(st) || !*known) return st;
    och_err_clear(err);
    return och_gpu_kernel_get(d, "matvec_codes", out_k, err, "%s", spec);
}

static och_status squares_kernel(const och_device *d, bool add_one, const och_gpu_kernel **out_k, och_err *err) {
    return och_gpu_kernel_get(d, "act_q8_squares", out_k, err, "ADD1=%s", och_gpu_yes(add_one));
}

/* Whether a plan has the product read them: where one launch does, beside those that the call is without them. */
static bool reads_normed(const och_device *d, const och_op_call *c) {
    const och_attr_linear *a = &c->attr.linear;
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    int wish = och_gpu_wish_of(d).norm_codes;
    if (!wish || may_own(d, c) || och_op_ynormed(c)) return false;
    if (wish < 0 && !rings(d, c, a->glu != OCH_ACT_NONE ? OCH_GPU_RING_GATE : OCH_GPU_RING_THREE)) return false;
    if (a->glu != OCH_ACT_NONE) return och_op_codes(och_op_ycodes(c), 1) && w[0].dtype == w[1].dtype && coded(d, c, 1);
    return a->n_weights == 3 ? och_gpu_together(c) : a->n_weights == 1 && !och_gpu_short_rows(w);
}

static och_status reader_kernel(const och_device *d, const och_op_call *c, const och_gpu_kernel **out_k, och_err *err) {
    if (c->attr.linear.glu != OCH_ACT_NONE) return codes_kernel(d, c, 1, true, out_k, err);
    if (och_op_asks_one_row(c)) return post_kernel(d, c, true, out_k, err);
    if (c->attr.linear.n_weights == 3) return qkv_kernel(d, c, true, out_k, err);
    return och_gpu_vec_kernel(d, &c->in[OCH_LINEAR_W0], 1, 0, OCH_ACT_NONE, false, true, out_k, err);
}

och_status och_gpu_row_supports(const och_device *d, const och_op_call *c, och_err *err) {
    const och_attr_linear *a = &c->attr.linear;
    uint64_t row_bytes;
    int groups;
    if (och_op_ynormed(c)) {
        if (!writes_normed(d, c)) return och_err_set(err, OCH_UNSUPPORTED, "is no faster where it makes codes for a norm of y");
        OCH_TRY(och_gpu_unless_absent(ring_kernel(d, c, OCH_GPU_RING_CODES, false, &row_bytes, NULL, err), err));
        OCH_TRY(och_gpu_unless_absent(normed_kernel(d, c, NULL, err), err));
        OCH_TRY(squares_kernel(d, a->ynorm_add_one, NULL, err));
    } else if (och_tensor_present(&c->out[OCH_LINEAR_YCODES])) {
        if (!takes_ycodes(d, c)) return och_err_set(err, OCH_UNSUPPORTED, "is no faster where it makes codes of y");
        OCH_TRY(och_gpu_unless_absent(codes_kernel(d, c, 1, false, NULL, err), err));
        OCH_TRY(och_gpu_unless_absent(codes_kernel(d, c, CODES_B, false, NULL, err), err));
        OCH_TRY(och_gpu_unless_absent(ring_kernel(d, c, OCH_GPU_RING_GATE, och_op_xnormed(c), &row_bytes, NULL, err), err));
        OCH_TRY(och_gpu_codes_kernel(d, err));
    }
    for (int normed = 0; a->n_weights == 1 && normed <= (och_op_xnormed(c) != NULL); normed++)
        OCH_TRY(och_gpu_unless_absent(ring_alone_kernel(d, c, normed, &row_bytes, &groups, NULL, err), err));
    if (och_gpu_together(c))
        OCH_TRY(och_gpu_unless_absent(ring_kernel(d, c, OCH_GPU_RING_THREE, och_op_xnormed(c), &row_bytes, NULL, err), err));
    if (och_op_asks_one_row(c)) {
        if (!posted(d, c)) return och_err_set(err, OCH_UNSUPPORTED, "is no faster where it turns q and k and stores k and v");
        const och_op_call post = och_op_post_of(c);
        OCH_TRY(och_gpu_unless_absent(post_kernel(d, c, false, NULL, err), err));
        OCH_TRY(och_gpu_qkv_post_supports(d, &post, err));
    }
    if (och_op_xnormed(c)) {
        if (!reads_normed(d, c)) return och_err_set(err, OCH_UNSUPPORTED, "reads no codes of x for its norm");
        OCH_TRY(och_gpu_unless_absent(reader_kernel(d, c, NULL, err), err));
    }
    if (och_gpu_together(c)) OCH_TRY(qkv_kernel(d, c, false, NULL, err));
    int early = och_gpu_row_early(d, c, 1, false);
    for (int i = 0; i < a->n_weights && early; i++)
        OCH_TRY(och_gpu_vec_kernel(d, &c->in[OCH_LINEAR_W0 + i], 1, early, OCH_ACT_NONE, false, false, NULL, err));
    if (may_own(d, c) && !och_tensor_present(&c->in[OCH_LINEAR_XCODES]))
        OCH_TRY(och_gpu_unless_absent(own_kernel(d, c, 4, NULL, err), err));
    return OCH_OK;
}

/* ==== launches ==== */

/* Of codes through a norm of rows of k elements; NULL: absent. */
static och_kl_actual squares_of(const och_tensor *codes, int64_t k) {
    och_tensor t;
    uint64_t at;
    if (!codes || !och_op_normed_codes(k, &t, &at)) return (och_kl_actual){.name = "squares"};
    return och_gpu_matrix("squares", och_dev_addr_add(codes->addr, at), 1, (int64_t)(t.row_bytes - at) / 4, t.row_bytes - at);
}

och_kl_actual och_gpu_squares_arg(const och_gpu_job *j) { return squares_of(j->normed, j->x.cols); }

och_status och_gpu_normed_codes_of(const och_op_ctx *ctx, const och_tensor *x, const och_tensor *norm, bool add_one,
                                   const och_tensor *codes, och_err *err) {
    const och_gpu_kernel *k;
    OCH_TRY(squares_kernel(ctx->queue->device, add_one, &k, err));
    och_kl_actual args[] = {och_gpu_tensor("x", x), och_gpu_vector("norm", norm), och_gpu_codes_arg("y", codes, 1, x->cols),
                            squares_of(codes, x->cols)};
    return och_gpu_launch(ctx, k, args, OCH_COUNT(args), err);
}

/* The whole call in one launch. och_gpu_absent(): its code is not to be had here. */
static och_status own(och_gpu_job *j, och_err *err) {
    const och_op_call *c = j->c;
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    const och_gpu_kernel *kernel;
    OCH_TRY(own_kernel(j->ctx->queue->device, c, och_gpu_width(j->x.cols, (const och_tensor *[]){&j->x, &c->in[OCH_LINEAR_NORM]}, 2),
                       &kernel, err));
    och_kl_actual args[] = {och_gpu_tensor("x", &j->x), och_gpu_norm_arg(j), och_gpu_eps_arg(j), {0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}};
    int n = 3;
    if (c->attr.linear.glu != OCH_ACT_NONE) {
        args[n++] = och_gpu_weight("w0", &w[0]);
        args[n++] = och_gpu_weight("w1", &w[1]);
        args[n++] = och_gpu_vector("bias0", &c->in[OCH_LINEAR_B0]);
        args[n++] = och_gpu_vector("bias1", &c->in[OCH_LINEAR_B0 + 1]);
        const och_tensor *codes = och_op_codes(&c->out[OCH_LINEAR_YCODES], 1), none = {.dtype = OCH_DTYPE_NONE};
        args[n++] = och_gpu_tensor("y", codes ? &none : &c->out[0]);
        args[n++] = och_gpu_codes_arg("codes", codes, 1, w->rows);
    } else if (c->attr.linear.n_weights == 1) {
        args[n++] = och_gpu_weight("w", w);
        args[n++] = och_gpu_vector("bias", &c->in[OCH_LINEAR_B0]);
        args[n++] = och_gpu_tensor("residual", &c->in[OCH_LINEAR_RESIDUAL]);
        args[n++] = och_gpu_tensor("y", &c->out[0]);
    } else {
        n = och_gpu_three_args(c, args, n);
    }
    return och_gpu_launch(j->ctx, kernel, args, (size_t)n, err);
}

/* A row's bytes in pieces of 128, as kernels/ring.ok takes them. */
static och_kl_actual ring_rows(const char *name, const och_tensor *w, uint64_t row_bytes) {
    return och_gpu_matrix(name, w->addr, w->rows * (int64_t)row_bytes / 128, 32, 128);
}

/* The kernel by way of LDS, unless the tuner has found another; 0 bytes of a row: none. */
static och_status ring_unless_retuned(const och_gpu_job *j, och_gpu_ring_kind kind, uint64_t *out_row_bytes, const och_gpu_kernel **out_k,
                                      och_err *err) {
    const och_device *d = j->ctx->queue->device;
    uint64_t row_bytes;
    *out_row_bytes = 0;
    if (j->x.rows != 1 || j->ctx->batch_invariant || retuned(d, j->c, kind)) return OCH_OK;
    och_status st = ring_kernel(d, j->c, kind, j->normed, &row_bytes, out_k, err);
    if (st == OCH_OK) *out_row_bytes = row_bytes;
    return och_gpu_unless_absent(st, err);
}

/* How the kernel of a product shares a compute unit with those beside it; row: bytes of a row in LDS, or 0. */
static och_lds_share beside(const och_gpu_job *j, uint64_t row) {
    const och_device *d = j->ctx->queue->device;
    const och_gpu_ring *r = row ? och_gpu_ring_of(d, j->c->in[OCH_LINEAR_W0].dtype, och_gpu_wish_of(d).ring > 0) : NULL;
    return r && r->whole ? OCH_LDS_MOST : OCH_LDS_BY_DRIVER;
}

/* Both products, the gate and y's codes in one launch, of at most as many rows as those are for. och_gpu_absent() as for own(), and
 * where two are faster. */
static och_status coded_vec(och_gpu_job *j, const och_tensor *codes, och_err *err) {
    const och_op_call *c = j->c;
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    const och_gpu_kernel *kernel;
    och_tensor x;
    uint64_t row;
    OCH_TRY(ring_unless_retuned(j, OCH_GPU_RING_GATE, &row, &kernel, err));
    if (!row) OCH_TRY(codes_kernel(j->ctx->queue->device, c, j->x.rows, j->normed, &kernel, err));
    OCH_TRY(och_gpu_acts_for(j, w, &x, err));
    och_kl_actual args[9] = {och_gpu_weight("w0", &w[0]),
                             och_gpu_tensor("x", &x),
                             och_gpu_vector("bias0", &c->in[OCH_LINEAR_B0]),
                             och_gpu_vector("bias1", &c->in[OCH_LINEAR_B0 + 1]),
                             och_gpu_squares_arg(j),
                             och_gpu_codes_arg("codes", codes, j->x.rows, w->rows),
                             och_gpu_eps_arg(j),
                             row ? ring_rows("rows0", &w[0], row) : och_gpu_weight("w1", &w[1])};
    if (row) args[8] = ring_rows("rows1", &w[1], row);
    return och_gpu_launch_beside(j->ctx, kernel, args, row ? 9 : 8, beside(j, row), err);
}

/* The three products; `turns`: with what qkv_post makes of them, och_gpu_absent() as for own(). */
static och_status three(och_gpu_job *j, bool turns, och_err *err) {
    const och_device *d = j->ctx->queue->device;
    const och_op_call *c = j->c;
    const och_tensor *w = &c->in[OCH_LINEAR_W0], *table = &c->in[OCH_LINEAR_TABLE], none = {.dtype = OCH_DTYPE_NONE};
    const och_gpu_kernel *kernel;
    och_tensor x;
    uint64_t row = 0;
    if (turns == och_op_asks_one_row(c)) OCH_TRY(ring_unless_retuned(j, OCH_GPU_RING_THREE, &row, &kernel, err));
    if (!row) OCH_TRY(turns ? post_kernel(d, c, j->normed, &kernel, err) : qkv_kernel(d, c, j->normed, &kernel, err));
    OCH_TRY(och_gpu_acts_for(j, w, &x, err));
    och_kl_actual args[18] = {och_gpu_tensor("x", &x), och_gpu_squares_arg(j), och_gpu_eps_arg(j)};
    int n = 3;
    if (!turns && !row) return och_gpu_launch(j->ctx, kernel, args, och_gpu_three_args(c, args, n), err);
    args[n++] = och_gpu_weight("wq", &w[0]);
    args[n++] = och_gpu_vector("bq", &c->in[OCH_LINEAR_B0]);
    args[n++] = och_gpu_vector("bk", &c->in[OCH_LINEAR_B0 + 1]);
    args[n++] = och_gpu_vector("bv", &c->in[OCH_LINEAR_B0 + 2]);
    args[n++] = turns && table->cols ? och_gpu_tensor("table", table) : (och_kl_actual){.name = "table"}; /* nothing is turned */
    args[n++] = och_gpu_tensor("slots", turns ? &c->in[OCH_LINEAR_SLOTS] : &none);
    args[n++] = och_gpu_tensor("kcache", turns ? &c->out[OCH_LINEAR_KCACHE] : &none);
    args[n++] = och_gpu_tensor("vcache", turns ? &c->out[OCH_LINEAR_VCACHE] : &none);
    args[n++] = och_gpu_int("head_dim", turns ? c->attr.linear.post.kv.head_dim : 32); /* rows one behind another */
    args[n++] = och_gpu_tensor(row ? "yq" : "y", &c->out[0]);
    if (row) {
        args[n++] = ring_rows("rq", &w[0], row);
        args[n++] = ring_rows("rk", &w[1], row);
        args[n++] = ring_rows("rv", &w[2], row);
        args[n++] = och_gpu_tensor("yk", &c->out[1]);
        args[n++] = och_gpu_tensor("yv", &c->out[2]);
    } else {
        args[n++] = och_gpu_weight("wk", &w[1]);
        args[n++] = och_gpu_weight("wv", &w[2]);
    }
    return och_gpu_launch_beside(j->ctx, kernel, args, n, beside(j, row), err);
}

/* A product alone, by way of LDS. och_gpu_absent() as for own(), and where rows do not go so. */
static och_status ring_alone(och_gpu_job *j, och_err *err) {
    const och_op_call *c = j->c;
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    const och_gpu_kernel *kernel;
    och_tensor x;
    uint64_t row;
    int groups;
    OCH_TRY(ring_alone_kernel(j->ctx->queue->device, c, j->normed, &row, &groups, &kernel, err));
    OCH_TRY(och_gpu_acts_for(j, w, &x, err));
    och_kl_actual args[] = {och_gpu_weight("w", w),
                            ring_rows("rows", w, row),
                            och_gpu_tensor("x", &x),
                            och_gpu_vector("bias", &c->in[OCH_LINEAR_B0]),
                            och_gpu_tensor("residual", &c->in[OCH_LINEAR_RESIDUAL]),
                            och_gpu_squares_arg(j),
                            och_gpu_tensor("y", &c->out[0]),
                            och_gpu_int("groups", groups),
                            och_gpu_eps_arg(j)};
    return och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err);
}

och_status och_gpu_row_reads(och_gpu_job *j, och_err *err) {
    const och_device *d = j->ctx->queue->device;
    const och_tensor *codes = och_op_xnormed(j->c);
    const och_gpu_kernel *kernel;
    if (!och_op_takes_normed(codes, j->x.rows, j->ctx) || !reads_normed(d, j->c)) return OCH_OK;
    och_status st = reader_kernel(d, j->c, &kernel, err);
    if (st == OCH_OK) j->normed = codes;
    return och_gpu_unless_absent(st, err);
}

och_status och_gpu_row_run(och_gpu_job *j, const och_tensor *codes, bool *out_posted, och_err *err) {
    const och_op_ctx *ctx = j->ctx;
    const och_op_call *c = j->c;
    if (och_op_one_row(c, ctx)) {
        och_status st = three(j, true, err);
        *out_posted = st == OCH_OK;
        if (!och_gpu_absent(st)) return st;
        och_err_clear(err);
    }
    if (owns(ctx->queue->device, c, ctx->batch_invariant)) {
        och_status st = own(j, err);
        if (!och_gpu_absent(st)) return st;
        och_err_clear(err);
    }
    if (codes) return coded_vec(j, codes, err);
    if (j->x.rows == 1 && !ctx->batch_invariant && c->attr.linear.n_weights == 1) return ring_alone(j, err);
    bool all = j->x.rows == 1 && !ctx->batch_invariant && !och_tensor_present(&c->in[OCH_LINEAR_RESIDUAL]) && och_gpu_together(c);
    return all ? three(j, false, err) : OCH_UNAVAILABLE;
}

/* och_gpu_absent() as for own(). */
och_status och_gpu_row_normed(och_gpu_job *j, const och_tensor *codes, och_err *err) {
    const och_op_call *c = j->c;
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    const och_gpu_kernel *kernel;
    och_tensor x;
    uint64_t row;
    OCH_TRY(ring_unless_retuned(j, OCH_GPU_RING_CODES, &row, &kernel, err));
    if (!row) OCH_TRY(normed_kernel(j->ctx->queue->device, c, &kernel, err));
    OCH_TRY(och_gpu_acts_for(j, w, &x, err));
    och_kl_actual args[9] = {och_gpu_weight("w", w),
                             och_gpu_tensor("x", &x),
                             och_gpu_vector("bias", &c->in[OCH_LINEAR_B0]),
                             och_gpu_tensor("residual", &c->in[OCH_LINEAR_RESIDUAL]),
                             och_gpu_vector("norm", &c->in[OCH_LINEAR_YNORM]),
                             och_gpu_tensor("y", &c->out[0]),
                             och_gpu_codes_arg("codes", codes, 1, w->rows),
                             squares_of(codes, w->rows)};
    if (row) args[8] = ring_rows("rows", w, row);
    return och_gpu_launch_beside(j->ctx, kernel, args, row ? 9 : 8, beside(j, row), err);
}
