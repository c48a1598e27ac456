/* Products with weights (kernels/linear.ok, one_row.ok, codes.ok, qkv.ok, ring.ok, matmul.ok): which kernels there are for a call, and its launches. How a kernel is
 * cut on a device is in cuts.c.
 *
 * Up to eight rows (few.def) are matrix-vector products: activations become the format that the weight's pairs with, once a call
 * or, of one row, in each workgroup of the product (own.def), and each wave takes rows of the weight. More rows are tiled products:
 * on f16 activations with a scale a row (bf16 where the tile's instructions want both operands of the weight's type), or, with
 * weights of float32, in float32, which matrix instructions would not keep. `batch_invariant` pins the first, eight rows at a time. */
#include "op/gpu/gpu.h"

#include "base/size.h"
#include "op/gpu/cuts.h"
#include "op/gpu/tune.h"
#include "quant/capability.h"
#include "quant/format.h"
#include "quant/planes.h"

#include <stdio.h>
#include <string.h>

#define MAX_B 8
#define OWN_COLS 16384 /* of x: more would take too much LDS and too many registers */
#define CODES_B 4      /* rows of which products with a gate make codes themselves */
#define RING_COLS 4096  /* of x, whose codes a wave has in registers */
#define OWN_ROWS 4096  /* of weights: with more, or longer ones, a workgroup that makes its own codes takes more for its trouble */

static bool quantised(const och_tensor *w) { return och_format_get(w->dtype)->act == OCH_ACT_Q8_32S; }
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
static const char *yes(bool b) { return b ? "true" : "false"; }

static och_status q8_kernel(const och_device *d, const och_op_call *c, int width, const och_gpu_kernel **out_k, och_err *err) {
    return och_gpu_kernel_get(d, "act_q8", out_k, err, "ADD1=%s,WIDE=%s", yes(c->attr.linear.norm.add_one), yes(width == 4));
}

/* What tiles of halves take as activations. */
typedef enum half_kind { HALF_F16, HALF_BF16, HALF_KINDS } half_kind;

static och_status f16_kernel(const och_device *d, const och_op_call *c, int width, half_kind kind, const och_gpu_kernel **out_k,
                             och_err *err) {
    char row[OCH_GPU_ROW_SPEC_BYTES];
    och_gpu_row_spec(c->in[OCH_LINEAR_X].cols, width, row);
    return och_gpu_kernel_get(d, "act_f16", out_k, err, "ADD1=%s,%s%s", yes(c->attr.linear.norm.add_one), row,
                              kind == HALF_BF16 ? ",T=bf16" : "");
}

/* Many rows that are too short for a wave's lanes to have a unit each. */
static bool short_rows(const och_tensor *w) {
    return w->rows >= 4096 && och_gpu_unit_cols(w) <= 32 * (quantised(w) ? 32 : 8);
}

/* How products with a gate that write y's codes, in workgroups of 32 rows, are cut; NULL: they would be slower than two launches. */
static const char *coded(const och_device *d, const och_op_call *c, int b) {
    int wish = och_gpu_wish_of(d).next_codes;
    /* Of eight rows a workgroup would be all that a compute unit has registers for, and the last round a part of one. */
    if (!wish || b > CODES_B) return NULL;
    const char *cut = och_gpu_codes_cut(d, c->in[OCH_LINEAR_W0].dtype, b == 1);
    return cut || wish < 0 ? cut : "";
}

/* Where compute units have a workgroup each; asked of plans alone, since a record that is tried is made small. */
static bool takes_ycodes(const och_device *d, const och_op_call *c) {
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    bool enough = w->rows / 32 >= (int64_t)d->info.n_compute_units || och_gpu_wish_of(d).next_codes > 0;
    return enough && quantised(w) && w[0].dtype == w[1].dtype && coded(d, c, 1);
}

/* The kernel as `cut` says, or as `otherwise` does where that is not to be had here. */
static och_status cut_kernel(const och_device *d, const char *kernel, const char *cut, const char *otherwise, const char *spec,
                             const och_gpu_kernel **out_k, och_err *err) {
    och_status st = och_gpu_kernel_get(d, kernel, out_k, err, "%s%s", cut, spec);
    if (!och_gpu_absent(st) || cut == otherwise) return st;
    och_err_clear(err);
    return och_gpu_kernel_get(d, kernel, out_k, err, "%s%s", otherwise, spec);
}

/* Of kernels whose activations are codes through a norm. */
#define SQUARES ",SQUARES=true"

static och_status codes_kernel(const och_device *d, const och_op_call *c, int b, bool squares, const och_gpu_kernel **out_k,
                               och_err *err) {
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    const char *known = coded(d, c, b);
    char spec[64];
    if (!known) return och_err_set(err, OCH_UNAVAILABLE, "codes of %d rows are made by a kernel of their own", b);
    const char *cut = b > 1 ? known : och_gpu_tune_cut(d, OCH_GPU_CUT_CODES, w, known);
    snprintf(spec, sizeof spec, "F=%s,ACT=%d,B=%d%s", och_format_get(w->dtype)->name, (int)c->attr.linear.glu, b, squares ? SQUARES : "");
    return cut_kernel(d, "matvec_glu_codes", cut, known, spec, out_k, err);
}

/* `early`: units of a lane to load before what x comes from has ended, 0: as tuned. */
static och_status vec_kernel(const och_device *d, const och_tensor *w, int b, int early, och_act glu, bool invariant, bool squares,
                             const och_gpu_kernel **out_k, och_err *err) {
    const char *f = och_format_get(w->dtype)->name;
    bool alone = b == 1 && !invariant;
    if (glu != OCH_ACT_NONE) {
        const char *plain = "", *cut = alone ? och_gpu_tune_cut(d, OCH_GPU_CUT_GLU, w, plain) : plain;
        char spec[48];
        snprintf(spec, sizeof spec, "F=%s,ACT=%d,B=%d", f, (int)glu, b);
        return cut_kernel(d, "matvec_glu", cut, plain, spec, out_k, err);
    }
    /* Two rounds of clusters for eight rows of x would take more scalar registers than waves of 64 have. */
    if (short_rows(w)) return och_gpu_kernel_get(d, "matvec", out_k, err, "F=%s,B=%d,C=8,PER=%d", f, b, b == MAX_B ? 32 : 64);
    /* A way of one row alone, whose sums then are not those that it has among others. */
    const char *known = alone ? och_gpu_row_cut(d, w->dtype, w->rows, false) : "";
    const char *cut = alone ? och_gpu_tune_cut(d, OCH_GPU_CUT_VEC, w, known) : known;
    bool asks = early && b == 1 && !*known;
    const char *more = squares ? SQUARES : "";
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

/* Three products of one row in one launch, which must not end with another sum than they do apart where that is asked. */
static bool together(const och_op_call *c) {
    const och_attr_linear *a = &c->attr.linear;
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    bool pair = w[2].dtype == w[0].dtype || (w[2].dtype == OCH_DTYPE_Q6_K && quantised(&w[0])); /* as packs hold them */
    return a->n_weights == 3 && a->glu == OCH_ACT_NONE && w[0].dtype == w[1].dtype && pair &&
           !short_rows(&w[0]) && !short_rows(&w[1]) && !short_rows(&w[2]);
}

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
    if (w->cols > most || !quantised(w) || short_rows(w)) return false;
    return a->n_weights == 3 ? together(c) : a->n_weights == 1 || (a->glu != OCH_ACT_NONE && w[0].dtype == w[1].dtype);
}

static bool owns(const och_device *d, const och_op_call *c, bool invariant) {
    const och_tensor *x = &c->in[OCH_LINEAR_X];
    if (x->rows != 1 || invariant || och_op_codes(och_op_xcodes(c), 1) || !may_own(d, c)) return false;
    for (int i = 0; i < c->attr.linear.n_weights; i++) /* a workgroup would read what another has written */
        if (overlap(&c->out[i], x)) return false;
    return true;
}

/* A row that comes as codes leaves such a product nothing to make of it; its weights are on their way as early. */
static int early_of(const och_device *d, const och_op_call *c, int64_t n, bool invariant) {
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
    snprintf(what, sizeof what, "F=%s,ADD1=%s,WIDE=%s,KMAX=%lld,PER=%d", och_format_get(w->dtype)->name, yes(a->norm.add_one),
             yes(width == 4), (long long)most, per);
    if (a->glu != OCH_ACT_NONE)
        return och_gpu_kernel_get(d, "matvec_glu_own", out_k, err, "%s,ACT=%d,EARLY=%d%s", what, (int)a->glu, OCH_MIN(early, 2),
                                  codes ? ",CODES=true" : "");
    if (a->n_weights == 1) return och_gpu_kernel_get(d, "matvec_own", out_k, err, "%s,EARLY=%d", what, early);
    return och_gpu_kernel_get(d, "matvec_qkv_own", out_k, err, "%s,G=%s", what, och_format_get(w[2].dtype)->name);
}

static och_status qkv_kernel(const och_device *d, const och_op_call *c, bool squares, const och_gpu_kernel **out_k, och_err *err) {
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    const char *known = och_gpu_row_cut(d, w->dtype, w->rows, true), *cut = och_gpu_tune_cut(d, OCH_GPU_CUT_QKV, w, known);
    char spec[64];
    snprintf(spec, sizeof spec, "F=%s,G=%s%s", och_format_get(w[0].dtype)->name, och_format_get(w[2].dtype)->name, squares ? SQUARES : "");
    return cut_kernel(d, "matvec_qkv", cut, known, spec, out_k, err);
}

/* ---- rows by way of LDS ---- */

/* Kernels of one row of activations whose weights' rows are copied to LDS some steps ahead (kernels/ring.ok). */
typedef enum ring_kind { RING_GATE, RING_THREE, RING_CODES } ring_kind;

/* How such a kernel is cut for the call's weights, and bytes of a row of theirs; NULL: it takes no such rows, or others are as fast. */
static const char *ring_cut(const och_device *d, const och_op_call *c, ring_kind kind, uint64_t *out_row_bytes) {
    const och_attr_linear *a = &c->attr.linear;
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    int wish = och_gpu_wish_of(d).ring;
    const och_gpu_ring *ring = wish ? och_gpu_ring_of(d, w->dtype, wish > 0) : NULL;
    if (!ring || !quantised(w) || !och_planes_row_bytes(w->dtype, (uint64_t)w->cols, out_row_bytes) || *out_row_bytes % 32) return NULL;
    /* Three steps of eight rows, the kernels' own way; where a table has four of short rows there is more LDS. */
    if (24 * *out_row_bytes + 2 * (uint64_t)w->cols + 1024 > d->info.lds_bytes) return NULL;
    for (int i = 0; i < a->n_weights; i++)
        if (w[i].dtype != w->dtype || w[i].rows % (kind == RING_GATE ? 64 : 32)) return NULL;
    if (kind == RING_CODES) return w->cols % 32 ? NULL : w->cols > RING_COLS ? ring->lengthy : ring->brief;
    /* Activations of a row are in registers. */
    if (w->cols > RING_COLS || w->cols % (32 * d->info.wave_size)) return NULL;
    if (kind == RING_GATE) return a->glu != OCH_ACT_NONE ? ring->gate : NULL;
    const och_attr_qkv_post *p = &a->post;
    bool turns = och_op_asks_one_row(c), half = p->rope.style == OCH_ROPE_HALF;
    if (!together(c) || (turns && (p->kv.head_dim % 32 || (half && p->rope.rot_dim % 32)))) return NULL;
    return ring->three;
}

static bool rings(const och_device *d, const och_op_call *c, ring_kind kind) {
    uint64_t row_bytes;
    return ring_cut(d, c, kind, &row_bytes) != NULL;
}

static och_status ring_kernel(const och_device *d, const och_op_call *c, ring_kind kind, bool turns, bool squares, uint64_t *out_row_bytes,
                              const och_gpu_kernel **out_k, och_err *err) {
    const och_attr_linear *a = &c->attr.linear;
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    const char *cut = ring_cut(d, c, kind, out_row_bytes), *f = och_format_get(w->dtype)->name;
    if (!cut) return och_err_set(err, OCH_UNAVAILABLE, "rows of that kind do not go by way of LDS");
    int row = (int)*out_row_bytes, k = (int)w->cols;
    if (kind == RING_CODES)
        return och_gpu_kernel_get(d, "matvec_codes_ring", out_k, err, "%sF=%s,ROWB=%d,K=%d,ADD1=%s", cut, f, row, k, yes(a->ynorm_add_one));
    if (kind == RING_GATE)
        return och_gpu_kernel_get(d, "matvec_glu_ring", out_k, err, "%sF=%s,ROWB=%d,K=%d,ACT=%d%s", cut, f, row, k, (int)a->glu, squares ? SQUARES : "");
    char post[64] = "";
    if (turns) {
        char cache[OCH_GPU_CACHE_SPEC_BYTES];
        och_gpu_cache_spec(d, c->out[OCH_LINEAR_KCACHE].dtype, cache);
        snprintf(post, sizeof post, ",POST=true,%s,BT=%d,HALF=%s", cache, a->post.kv.block_tokens, yes(a->post.rope.style == OCH_ROPE_HALF));
    }
    return och_gpu_kernel_get(d, "matvec_qkv_ring", out_k, err, "%sF=%s,ROWB=%d,K=%d%s%s", cut, f, row, k, squares ? SQUARES : "", post);
}

/* The products that the tuner has timed are cut as it found. */
static bool retuned(const och_device *d, const och_op_call *c, och_gpu_cut_kind kind, const char *known) {
    return och_gpu_tune_cut(d, kind, &c->in[OCH_LINEAR_W0], known) != known;
}

/* How a call of one row is cut that turns q and k and writes the state; NULL: two launches, or a way of its own, are as fast. */
static const char *posted(const och_device *d, const och_op_call *c) {
    const och_attr_qkv_post *a = &c->attr.linear.post;
    int wish = och_gpu_wish_of(d).one_row;
    bool own = wish < 0 && may_own(d, c) && !och_op_codes(och_op_xcodes(c), 1);
    if (!wish || own || !together(c) || a->kv.head_dim % 16) return NULL; /* heads: whole workgroups */
    return och_gpu_post_cut(d, c->in[OCH_LINEAR_W0].dtype, wish > 0 || rings(d, c, RING_THREE));
}

static och_status post_kernel(const och_device *d, const och_op_call *c, bool squares, const och_gpu_kernel **out_k, och_err *err) {
    const och_attr_qkv_post *a = &c->attr.linear.post;
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    const char *cut = posted(d, c);
    char spec[112], cache[OCH_GPU_CACHE_SPEC_BYTES];
    if (!cut) return och_err_set(err, OCH_UNAVAILABLE, "q, k and v of one row are turned and stored by a kernel of their own");
    och_gpu_cache_spec(d, c->out[OCH_LINEAR_KCACHE].dtype, cache);
    snprintf(spec, sizeof spec, "F=%s,G=%s,%s,BT=%d,HALF=%s%s", och_format_get(w[0].dtype)->name, och_format_get(w[2].dtype)->name, cache,
             a->kv.block_tokens, yes(a->rope.style == OCH_ROPE_HALF), squares ? SQUARES : "");
    return cut_kernel(d, "matvec_qkv_post", cut, cut, spec, out_k, err);
}

/* ---- codes through a norm ---- */

/* How a product that writes them is cut, which reads codes that were made before; NULL: it would be slower than a launch more. */
static const char *normed_cut(const och_device *d, const och_op_call *c) {
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    int wish = och_gpu_wish_of(d).norm_codes;
    bool own = may_own(d, c) && !och_op_codes(och_op_xcodes(c), 1);
    return wish && quantised(w) && !own && !short_rows(w) ? och_gpu_norm_codes_cut(d, w->dtype, wish > 0 || rings(d, c, RING_CODES)) : NULL;
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
    snprintf(spec, sizeof spec, "F=%s,ADD1=%s", och_format_get(w->dtype)->name, yes(c->attr.linear.ynorm_add_one));
    const char *cut = och_gpu_tune_cut(d, OCH_GPU_CUT_NORMED, w, known);
    och_status st = cut_kernel(d, "matvec_codes", cut, known, spec, out_k, err);
    if (!och_gpu_absent(st) || !*known) return st;
    och_err_clear(err);
    return och_gpu_kernel_get(d, "matvec_codes", out_k, err, "%s", spec);
}

static och_status squares_kernel(const och_device *d, bool add_one, const och_gpu_kernel **out_k, och_err *err) {
    return och_gpu_kernel_get(d, "act_q8_squares", out_k, err, "ADD1=%s", yes(add_one));
}

/* Whether a plan has the product read them: where one launch does, beside those that the call is without them. */
static bool reads_normed(const och_device *d, const och_op_call *c) {
    const och_attr_linear *a = &c->attr.linear;
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    int wish = och_gpu_wish_of(d).norm_codes;
    if (!wish || may_own(d, c) || och_op_ynormed(c)) return false;
    if (wish < 0 && !rings(d, c, a->glu != OCH_ACT_NONE ? RING_GATE : RING_THREE)) return false;
    if (a->glu != OCH_ACT_NONE) return och_op_codes(och_op_ycodes(c), 1) && w[0].dtype == w[1].dtype && coded(d, c, 1);
    return a->n_weights == 3 ? together(c) : a->n_weights == 1 && !short_rows(w);
}

static och_status reader_kernel(const och_device *d, const och_op_call *c, const och_gpu_kernel **out_k, och_err *err) {
    if (c->attr.linear.glu != OCH_ACT_NONE) return codes_kernel(d, c, 1, true, out_k, err);
    if (och_op_asks_one_row(c)) return post_kernel(d, c, true, out_k, err);
    if (c->attr.linear.n_weights == 3) return qkv_kernel(d, c, true, out_k, err);
    return vec_kernel(d, &c->in[OCH_LINEAR_W0], 1, 0, OCH_ACT_NONE, false, true, out_k, err);
}

static const och_gpu_tiles *tiles_of(const och_device *d, const och_tensor *w, int64_t n) {
    return och_gpu_tiles_of(d, w->dtype, w->rows, n);
}

static half_kind half_of(const char *cut) { return strstr(cut, "T=bf16") ? HALF_BF16 : HALF_F16; }

static och_status mat_kernel(const och_device *d, const och_tensor *w, int64_t n, const och_gpu_kernel **out_k, half_kind *out_kind,
                             och_err *err) {
    *out_kind = HALF_F16;
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
    bool gate = c->attr.linear.glu != OCH_ACT_NONE, fits = gate ? w[0].dtype == w[1].dtype : together(c);
    if (!halves(w) || !fits) return "";
    const och_gpu_tiles *cut = tiles_of(d, w, n);
    const char *spec = gate ? cut->pair : cut->three;
    if (*spec) return spec;
    int64_t rows[3] = {w[0].rows, w[1].rows, gate ? 0 : w[2].rows};
    return cut->most ? "" : och_gpu_together_of(d, w->dtype, rows, gate ? 2 : 3, n);
}

/* och_gpu_absent(): no, or as for own(). */
static och_status many_kernel(const och_device *d, const och_op_call *c, int64_t n, const och_gpu_kernel **out_k, half_kind *out_kind,
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

/* Of a kernel that a call has another way beside. */
static och_status unless_absent(och_status st, och_err *err) {
    if (!och_gpu_absent(st)) return st;
    och_err_clear(err);
    return OCH_OK;
}

och_status och_gpu_linear_supports(const och_device *d, const och_op_call *c, och_err *err) {
    const och_attr_linear *a = &c->attr.linear;
    uint64_t row_bytes;
    if (och_op_ynormed(c)) {
        if (!writes_normed(d, c)) return och_err_set(err, OCH_UNSUPPORTED, "is no faster where it makes codes for a norm of y");
        OCH_TRY(unless_absent(ring_kernel(d, c, RING_CODES, false, false, &row_bytes, NULL, err), err));
        OCH_TRY(unless_absent(normed_kernel(d, c, NULL, err), err));
        OCH_TRY(squares_kernel(d, a->ynorm_add_one, NULL, err));
    } else if (och_tensor_present(&c->out[OCH_LINEAR_YCODES])) {
        if (!takes_ycodes(d, c)) return och_err_set(err, OCH_UNSUPPORTED, "is no faster where it makes codes of y");
        for (size_t b = 0; b < OCH_COUNT(buckets); b++)
            if (coded(d, c, buckets[b])) OCH_TRY(unless_absent(codes_kernel(d, c, buckets[b], false, NULL, err), err));
        OCH_TRY(unless_absent(ring_kernel(d, c, RING_GATE, false, och_op_xnormed(c), &row_bytes, NULL, err), err));
        OCH_TRY(och_gpu_codes_kernel(d, err));
    }
    if (together(c)) OCH_TRY(unless_absent(ring_kernel(d, c, RING_THREE, och_op_asks_one_row(c), och_op_xnormed(c), &row_bytes, NULL, err), err));
    if (och_op_asks_one_row(c)) {
        if (!posted(d, c)) return och_err_set(err, OCH_UNSUPPORTED, "is no faster where it turns q and k and stores k and v");
        const och_op_call post = och_op_post_of(c);
        OCH_TRY(unless_absent(post_kernel(d, c, false, NULL, err), err));
        OCH_TRY(och_gpu_qkv_post_supports(d, &post, err));
    }
    if (och_op_xnormed(c)) {
        if (!reads_normed(d, c)) return och_err_set(err, OCH_UNSUPPORTED, "reads no codes of x for its norm");
        OCH_TRY(unless_absent(reader_kernel(d, c, NULL, err), err));
    }
    if (together(c)) OCH_TRY(qkv_kernel(d, c, false, NULL, err));
    bool fused = a->glu != OCH_ACT_NONE && c->in[OCH_LINEAR_W0].dtype == c->in[OCH_LINEAR_W0 + 1].dtype, any[HALF_KINDS] = {false};
    for (int i = 0; i < a->n_weights; i++) {
        const och_tensor *w = &c->in[OCH_LINEAR_W0 + i];
        if (w->layout != OCH_LAYOUT_PLANES)
            return och_err_set(err, OCH_UNSUPPORTED, "reads weights in planes only, weight %d is in another layout", i);
        OCH_TRY(och_capability_check("kernel", d->info.arch, w->dtype, "linear", err));
        if (!(fused && i))
            for (size_t b = 0; b < OCH_COUNT(buckets); b++)
                for (int invariant = 0; invariant < 2; invariant++)
                    OCH_TRY(vec_kernel(d, w, buckets[b], 0, fused ? a->glu : OCH_ACT_NONE, invariant, false, NULL, err));
        const och_gpu_tiles *before = NULL;
        const och_gpu_split *split_before = NULL;
        const char *many_before = "";
        int64_t most = OCH_MAX(c->in[OCH_LINEAR_X].rows, few(d, c) + 1);
        for (int64_t n = few(d, c) + 1; n; n = och_gpu_tiles_next(n, most)) {
            half_kind kind;
            const och_gpu_tiles *cut = tiles_of(d, w, n);
            if (cut != before) {
                before = cut;
                OCH_TRY(mat_kernel(d, w, n, NULL, &kind, err));
                any[kind] |= halves(w);
            }
            const och_gpu_split *split = split_of(d, w, n);
            if (split && split != split_before) {
                split_before = split;
                OCH_TRY(unless_absent(part_kernel(d, w, split, NULL, err), err));
                OCH_TRY(unless_absent(sum_kernel(d, split, w->rows % 4 ? 1 : 4, NULL, err), err));
            }
            const char *many = i ? "" : many_cut(d, c, n);
            if (*many && many != many_before) {
                many_before = many;
                OCH_TRY(unless_absent(many_kernel(d, c, n, NULL, &kind, err), err));
            }
        }
        if (quantised(w)) OCH_TRY(q8_kernel(d, c, 4, NULL, err));
        else if (och_tensor_present(&c->in[OCH_LINEAR_NORM]))
            OCH_TRY(och_gpu_norm_kernel(d, w->cols, a->norm.add_one, w->cols % 4 ? 1 : 4, NULL, err));
        else if (w->cols % 8) OCH_TRY(cast_kernel(d, NULL, err));
    }
    for (int kind = 0; kind < HALF_KINDS; kind++)
        if (any[kind]) OCH_TRY(f16_kernel(d, c, c->in[OCH_LINEAR_X].cols % 4 ? 1 : 4, (half_kind)kind, NULL, err));
    int early = early_of(d, c, 1, false);
    for (int i = 0; i < a->n_weights && early; i++)
        OCH_TRY(vec_kernel(d, &c->in[OCH_LINEAR_W0 + i], 1, early, OCH_ACT_NONE, false, false, NULL, err));
    if (may_own(d, c) && !och_tensor_present(&c->in[OCH_LINEAR_XCODES])) {
        OCH_TRY(unless_absent(own_kernel(d, c, 4, NULL, err), err));
    }
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
    uint64_t n = (uint64_t)c->in[OCH_LINEAR_X].rows, m = (uint64_t)c->in[OCH_LINEAR_W0].rows, q8 = 0, f32 = 0, f16[HALF_KINDS] = {0};
    uint64_t all, parts = 0;
    if (k > MOST_SCRATCH_COLS || m > MOST_SCRATCH_COLS) return UINT64_MAX; /* which no device has */
    for (int i = 0; i < a->n_weights; i++) {
        const och_tensor *w = &c->in[OCH_LINEAR_W0 + i];
        if (quantised(w)) q8 = q8_bytes(k);
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
    uint64_t row = q8 + f32 + f16[HALF_F16] + f16[HALF_BF16] + parts;
    /* With a gate: both products as they are, before the activation. */
    if (a->glu != OCH_ACT_NONE) row += 2 * sum_bytes((int64_t)m);
    return och_u64_mul(n, row, &all) && och_u64_add(all, 13 * 256, &all) ? all : UINT64_MAX;
}

/* What a product reads as activations. */
typedef struct acts {
    och_dev_addr q8, f32, f16[HALF_KINDS], scale[HALF_KINDS]; /* value 0: not made */
    uint64_t q8_row_bytes, f32_row_bytes;
} acts;

typedef struct job {
    const och_op_ctx *ctx;
    const och_op_call *c;
    och_gpu_scratch scratch;
    acts acts;
    och_tensor x;
    const och_tensor *normed; /* codes of x through the norm that are read; NULL: none */
    bool many; /* tiles */
} job;

static och_kl_actual norm_arg(const job *j) { return och_gpu_vector("norm", &j->c->in[OCH_LINEAR_NORM]); }
static och_kl_actual eps_arg(const job *j) { return och_gpu_real("eps", (double)j->c->attr.linear.norm.eps); }

/* Of codes through a norm of rows of k elements; NULL: absent. */
static och_kl_actual squares_of(const och_tensor *codes, int64_t k) {
    och_tensor t;
    uint64_t at;
    if (!codes || !och_op_normed_codes(k, &t, &at)) return (och_kl_actual){.name = "squares"};
    return och_gpu_matrix("squares", och_dev_addr_add(codes->addr, at), 1, (int64_t)(t.row_bytes - at) / 4, t.row_bytes - at);
}
static och_kl_actual squares_arg(const job *j) { return squares_of(j->normed, j->x.cols); }

och_status och_gpu_normed_codes_of(const och_op_ctx *ctx, const och_tensor *x, const och_tensor *norm, bool add_one,
                                   const och_tensor *codes, och_err *err) {
    const och_gpu_kernel *k;
    OCH_TRY(squares_kernel(ctx->queue->device, add_one, &k, err));
    och_kl_actual args[] = {och_gpu_tensor("x", x), och_gpu_vector("norm", norm), och_gpu_codes_arg("y", codes, 1, x->cols),
                            squares_of(codes, x->cols)};
    return och_gpu_launch(ctx, k, args, OCH_COUNT(args), err);
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
    OCH_TRY(och_gpu_kernel_get(ctx->queue->device, "act_q8", &k, err, "ADD1=false,WIDE=%s", yes(wide)));
    och_kl_actual args[] = {och_gpu_tensor("x", x), {.name = "norm"}, och_gpu_codes_arg("y", codes, x->rows, x->cols),
                            och_gpu_real("eps", 0.0)};
    return och_gpu_launch(ctx, k, args, OCH_COUNT(args), err);
}

static och_status make_q8(job *j, och_err *err) {
    int64_t k = j->x.cols;
    const och_gpu_kernel *kernel;
    int width = och_gpu_width(k, (const och_tensor *[]){&j->x, &j->c->in[OCH_LINEAR_NORM]}, 2);
    OCH_TRY(q8_kernel(j->ctx->queue->device, j->c, width, &kernel, err));
    OCH_TRY(och_gpu_take(&j->scratch, (uint64_t)j->x.rows * q8_bytes(k), &j->acts.q8, err));
    j->acts.q8_row_bytes = q8_bytes(k);
    och_kl_actual args[] = {och_gpu_tensor("x", &j->x), norm_arg(j), och_gpu_matrix("y", j->acts.q8, j->x.rows, k, q8_bytes(k)),
                            eps_arg(j)};
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
        OCH_TRY(cast_kernel(d, &kernel, err));
        och_kl_actual args[] = {och_gpu_tensor("x", x), y, och_gpu_real("scale", 1.0)};
        return och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err);
    }
    int width = och_gpu_width(x->cols, (const och_tensor *[]){x, norm}, 2);
    OCH_TRY(och_gpu_norm_kernel(d, x->cols, j->c->attr.linear.norm.add_one, width, &kernel, err));
    och_kl_actual args[] = {och_gpu_tensor("x", x), och_gpu_vector("w", norm), {.name = "residual"}, y, eps_arg(j)};
    return och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err);
}

static och_status make_f16(job *j, half_kind kind, och_err *err) {
    int64_t k = j->x.cols, kp = (k + 31) / 32 * 32;
    const och_gpu_kernel *kernel;
    int width = och_gpu_width(k, (const och_tensor *[]){&j->x, &j->c->in[OCH_LINEAR_NORM]}, 2);
    OCH_TRY(f16_kernel(j->ctx->queue->device, j->c, width, kind, &kernel, err));
    OCH_TRY(och_gpu_take(&j->scratch, (uint64_t)j->x.rows * f16_bytes(k), &j->acts.f16[kind], err));
    OCH_TRY(och_gpu_take(&j->scratch, (uint64_t)j->x.rows * 4, &j->acts.scale[kind], err));
    och_kl_actual args[] = {och_gpu_tensor("x", &j->x), norm_arg(j),
                            och_gpu_matrix("y", j->acts.f16[kind], j->x.rows, kp, f16_bytes(k)),
                            och_gpu_matrix("scale", j->acts.scale[kind], j->x.rows, 1, 4), eps_arg(j)};
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

/* Activations of all rows as w reads them, made at the first need, as a tensor whose type is not looked at. */
static och_status acts_for(job *j, const och_tensor *w, och_tensor *out, och_err *err) {
    bool q = quantised(w);
    if (q && !j->acts.q8.value) OCH_TRY(make_q8(j, err));
    if (!q && !j->acts.f32.value) OCH_TRY(make_f32(j, err));
    *out = (och_tensor){.dtype = OCH_DTYPE_F32,
                        .rows = j->x.rows,
                        .cols = och_gpu_unit_cols(w),
                        .addr = q ? j->acts.q8 : j->acts.f32,
                        .row_bytes = q ? j->acts.q8_row_bytes : j->acts.f32_row_bytes};
    return OCH_OK;
}

/* A product whose k is shared out: the sums of each part, then those of all. och_gpu_absent(): as for own(). */
static och_status in_parts(job *j, int i, const och_gpu_split *cut, const och_tensor *residual, const och_tensor *y, och_err *err) {
    const och_tensor *w = &j->c->in[OCH_LINEAR_W0 + i], *bias = &j->c->in[OCH_LINEAR_B0 + i];
    const och_gpu_kernel *part, *sum;
    half_kind kind = half_of(cut->spec);
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

static och_status tiled(job *j, int i, const och_tensor *residual, const och_tensor *y, och_err *err) {
    const och_tensor *w = &j->c->in[OCH_LINEAR_W0 + i];
    const och_gpu_kernel *kernel;
    half_kind kind;
    const och_gpu_split *split = split_of(j->ctx->queue->device, w, j->x.rows);
    if (split) {
        och_status st = in_parts(j, i, split, residual, y, err);
        if (!och_gpu_absent(st)) return st;
        och_err_clear(err);
    }
    OCH_TRY(mat_kernel(j->ctx->queue->device, w, j->x.rows, &kernel, &kind, err));
    if (!halves(w)) {
        och_tensor x;
        OCH_TRY(acts_for(j, w, &x, err));
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

/* Weights, biases and results of kernels for q, k and v, behind n arguments; how many there are then. */
static int three_args(const och_op_call *c, och_kl_actual *args, int n) {
    static const char *const names[3][3] = {{"wq", "bq", "yq"}, {"wk", "bk", "yk"}, {"wv", "bv", "yv"}};
    for (int i = 0; i < 3; i++) {
        args[n++] = och_gpu_weight(names[i][0], &c->in[OCH_LINEAR_W0 + i]);
        args[n++] = och_gpu_vector(names[i][1], &c->in[OCH_LINEAR_B0 + i]);
        args[n++] = och_gpu_tensor(names[i][2], &c->out[i]);
    }
    return n;
}

/* The whole call in one launch, as many_kernel() has it. */
static och_status tiled_together(job *j, och_err *err) {
    const och_op_call *c = j->c;
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    const och_gpu_kernel *kernel;
    half_kind kind;
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
        n = three_args(c, args, n);
    }
    return och_gpu_launch(j->ctx, kernel, args, n, err);
}

static och_status product(job *j, int i, const och_tensor *residual, const och_tensor *y, och_err *err) {
    const och_tensor *w = &j->c->in[OCH_LINEAR_W0 + i];
    if (j->many) return tiled(j, i, residual, y, err);
    och_tensor x;
    OCH_TRY(acts_for(j, w, &x, err));
    for (int64_t at = 0; at < x.rows; at += MAX_B) {
        int64_t n = OCH_MIN(x.rows - at, MAX_B);
        const och_gpu_kernel *kernel;
        int early = early_of(j->ctx->queue->device, j->c, j->x.rows, j->ctx->batch_invariant);
        OCH_TRY(vec_kernel(j->ctx->queue->device, w, bucket(n), early, OCH_ACT_NONE, j->ctx->batch_invariant, j->normed, &kernel, err));
        och_tensor xs = rows_of(&x, at, n), rs = rows_of(residual, at, n), ys = rows_of(y, at, n);
        och_kl_actual args[] = {och_gpu_weight("w", w), och_gpu_tensor("x", &xs),
                                och_gpu_vector("bias", &j->c->in[OCH_LINEAR_B0 + i]), och_gpu_tensor("residual", &rs),
                                squares_arg(j), och_gpu_tensor("y", &ys), eps_arg(j)};
        OCH_TRY(och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err));
    }
    return OCH_OK;
}

/* A row's bytes in pieces of 128, as kernels/ring.ok takes them. */
static och_kl_actual ring_rows(const char *name, const och_tensor *w, uint64_t row_bytes) {
    return och_gpu_matrix(name, w->addr, w->rows * (int64_t)row_bytes / 128, 32, 128);
}

/* These three: och_gpu_absent() as for own(), and where rows do not go by way of LDS. */
static och_status ring_gate(job *j, const och_tensor *codes, och_err *err) {
    const och_op_call *c = j->c;
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    const och_gpu_kernel *kernel;
    och_tensor x;
    uint64_t row;
    if (j->x.rows != 1 || j->ctx->batch_invariant) return OCH_UNAVAILABLE;
    OCH_TRY(ring_kernel(j->ctx->queue->device, c, RING_GATE, false, j->normed, &row, &kernel, err));
    OCH_TRY(acts_for(j, w, &x, err));
    och_kl_actual args[] = {och_gpu_weight("w0", w),
                            ring_rows("rows0", &w[0], row),
                            ring_rows("rows1", &w[1], row),
                            och_gpu_tensor("x", &x),
                            och_gpu_vector("bias0", &c->in[OCH_LINEAR_B0]),
                            och_gpu_vector("bias1", &c->in[OCH_LINEAR_B0 + 1]),
                            squares_arg(j),
                            och_gpu_codes_arg("codes", codes, 1, w->rows),
                            eps_arg(j)};
    return och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err);
}

static och_status ring_three(job *j, bool turns, och_err *err) {
    const och_op_call *c = j->c;
    const och_tensor *w = &c->in[OCH_LINEAR_W0], *table = &c->in[OCH_LINEAR_TABLE], none = {.dtype = OCH_DTYPE_NONE};
    const och_gpu_kernel *kernel;
    och_tensor x;
    uint64_t row;
    OCH_TRY(ring_kernel(j->ctx->queue->device, c, RING_THREE, turns, j->normed, &row, &kernel, err));
    OCH_TRY(acts_for(j, w, &x, err));
    och_kl_actual args[] = {och_gpu_tensor("x", &x),
                            och_gpu_weight("wq", w),
                            ring_rows("rq", &w[0], row),
                            ring_rows("rk", &w[1], row),
                            ring_rows("rv", &w[2], row),
                            och_gpu_vector("bq", &c->in[OCH_LINEAR_B0]),
                            och_gpu_vector("bk", &c->in[OCH_LINEAR_B0 + 1]),
                            och_gpu_vector("bv", &c->in[OCH_LINEAR_B0 + 2]),
                            squares_arg(j),
                            turns && table->cols ? och_gpu_tensor("table", table) : (och_kl_actual){.name = "table"}, /* nothing is turned */
                            och_gpu_tensor("slots", turns ? &c->in[OCH_LINEAR_SLOTS] : &none),
                            och_gpu_tensor("yq", &c->out[0]),
                            och_gpu_tensor("yk", &c->out[1]),
                            och_gpu_tensor("yv", &c->out[2]),
                            och_gpu_tensor("kcache", turns ? &c->out[OCH_LINEAR_KCACHE] : &none),
                            och_gpu_tensor("vcache", turns ? &c->out[OCH_LINEAR_VCACHE] : &none),
                            och_gpu_int("head_dim", turns ? c->attr.linear.post.kv.head_dim : 32), /* rows one behind another */
                            eps_arg(j)};
    return och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err);
}

static och_status ring_codes(job *j, const och_tensor *codes, och_err *err) {
    const och_op_call *c = j->c;
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    const och_gpu_kernel *kernel;
    och_tensor x;
    uint64_t row;
    OCH_TRY(ring_kernel(j->ctx->queue->device, c, RING_CODES, false, false, &row, &kernel, err));
    OCH_TRY(acts_for(j, w, &x, err));
    och_kl_actual args[] = {och_gpu_weight("w", w),
                            ring_rows("rows", w, row),
                            och_gpu_tensor("x", &x),
                            och_gpu_vector("bias", &c->in[OCH_LINEAR_B0]),
                            och_gpu_tensor("residual", &c->in[OCH_LINEAR_RESIDUAL]),
                            och_gpu_vector("norm", &c->in[OCH_LINEAR_YNORM]),
                            och_gpu_tensor("y", &c->out[0]),
                            och_gpu_codes_arg("codes", codes, 1, w->rows),
                            squares_of(codes, w->rows)};
    return och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err);
}

/* Both products, the gate and y's codes in one launch, of at most as many rows as those are for. och_gpu_absent() as for own(), and
 * where two are faster. */
static och_status coded_vec(job *j, const och_tensor *codes, och_err *err) {
    const och_op_call *c = j->c;
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    const och_gpu_kernel *kernel;
    och_tensor x;
    const char *known = coded(j->ctx->queue->device, c, 1);
    if (known && !retuned(j->ctx->queue->device, c, OCH_GPU_CUT_CODES, known)) {
        och_status st = ring_gate(j, codes, err);
        if (!och_gpu_absent(st)) return st;
        och_err_clear(err);
    }
    OCH_TRY(codes_kernel(j->ctx->queue->device, c, bucket(j->x.rows), j->normed, &kernel, err));
    OCH_TRY(acts_for(j, w, &x, err));
    och_kl_actual args[] = {och_gpu_weight("w0", &w[0]),
                            och_gpu_weight("w1", &w[1]),
                            och_gpu_tensor("x", &x),
                            och_gpu_vector("bias0", &c->in[OCH_LINEAR_B0]),
                            och_gpu_vector("bias1", &c->in[OCH_LINEAR_B0 + 1]),
                            squares_arg(j),
                            och_gpu_codes_arg("codes", codes, j->x.rows, w->rows),
                            eps_arg(j)};
    return och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err);
}

/* The product and y's codes through the next norm in one launch, of one row. och_gpu_absent() as for own(). */
static och_status normed_vec(job *j, const och_tensor *codes, och_err *err) {
    const och_op_call *c = j->c;
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    const och_gpu_kernel *kernel;
    och_tensor x;
    const char *known = normed_cut(j->ctx->queue->device, c);
    if (known && !retuned(j->ctx->queue->device, c, OCH_GPU_CUT_NORMED, known)) {
        och_status st = ring_codes(j, codes, err);
        if (!och_gpu_absent(st)) return st;
        och_err_clear(err);
    }
    OCH_TRY(normed_kernel(j->ctx->queue->device, c, &kernel, err));
    OCH_TRY(acts_for(j, w, &x, err));
    och_kl_actual args[] = {och_gpu_weight("w", w),
                            och_gpu_tensor("x", &x),
                            och_gpu_vector("bias", &c->in[OCH_LINEAR_B0]),
                            och_gpu_tensor("residual", &c->in[OCH_LINEAR_RESIDUAL]),
                            och_gpu_vector("norm", &c->in[OCH_LINEAR_YNORM]),
                            och_gpu_tensor("y", &c->out[0]),
                            och_gpu_codes_arg("codes", codes, 1, w->rows),
                            squares_of(codes, w->rows)};
    return och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err);
}

/* Both products and the gate in one launch. */
static och_status gated_vec(job *j, const och_tensor *y, och_err *err) {
    const och_tensor *w0 = &j->c->in[OCH_LINEAR_W0], *w1 = &j->c->in[OCH_LINEAR_W0 + 1];
    och_tensor x;
    OCH_TRY(acts_for(j, w0, &x, err));
    for (int64_t at = 0; at < x.rows; at += MAX_B) {
        int64_t n = OCH_MIN(x.rows - at, MAX_B);
        const och_gpu_kernel *kernel;
        OCH_TRY(vec_kernel(j->ctx->queue->device, w0, bucket(n), 0, j->c->attr.linear.glu, j->ctx->batch_invariant, false, &kernel, err));
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

static och_status qkv(job *j, och_err *err) {
    const och_op_call *c = j->c;
    const och_gpu_kernel *kernel;
    och_tensor x;
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    if (!retuned(j->ctx->queue->device, c, OCH_GPU_CUT_QKV, och_gpu_row_cut(j->ctx->queue->device, w->dtype, w->rows, true))) {
        och_status st = ring_three(j, false, err);
        if (!och_gpu_absent(st)) return st;
        och_err_clear(err);
    }
    OCH_TRY(acts_for(j, &c->in[OCH_LINEAR_W0], &x, err));
    OCH_TRY(qkv_kernel(j->ctx->queue->device, c, j->normed, &kernel, err));
    och_kl_actual args[12] = {och_gpu_tensor("x", &x), squares_arg(j), eps_arg(j)};
    return och_gpu_launch(j->ctx, kernel, args, (size_t)three_args(c, args, 3), err);
}

/* The same, with what qkv_post makes of it. och_gpu_absent() as for own(). */
static och_status qkv_post(job *j, och_err *err) {
    const och_op_call *c = j->c;
    const och_tensor *table = &c->in[OCH_LINEAR_TABLE];
    const och_gpu_kernel *kernel;
    och_tensor x;
    och_status st = ring_three(j, true, err);
    if (!och_gpu_absent(st)) return st;
    och_err_clear(err);
    OCH_TRY(post_kernel(j->ctx->queue->device, c, j->normed, &kernel, err));
    OCH_TRY(acts_for(j, &c->in[OCH_LINEAR_W0], &x, err));
    och_kl_actual args[] = {och_gpu_tensor("x", &x),
                            och_gpu_weight("wq", &c->in[OCH_LINEAR_W0]),
                            och_gpu_weight("wk", &c->in[OCH_LINEAR_W0 + 1]),
                            och_gpu_weight("wv", &c->in[OCH_LINEAR_W0 + 2]),
                            och_gpu_vector("bq", &c->in[OCH_LINEAR_B0]),
                            och_gpu_vector("bk", &c->in[OCH_LINEAR_B0 + 1]),
                            och_gpu_vector("bv", &c->in[OCH_LINEAR_B0 + 2]),
                            squares_arg(j),
                            table->cols ? och_gpu_tensor("table", table) : (och_kl_actual){.name = "table"}, /* nothing is turned */
                            och_gpu_tensor("slots", &c->in[OCH_LINEAR_SLOTS]),
                            och_gpu_tensor("y", &c->out[0]),
                            och_gpu_tensor("kcache", &c->out[OCH_LINEAR_KCACHE]),
                            och_gpu_tensor("vcache", &c->out[OCH_LINEAR_VCACHE]),
                            och_gpu_int("head_dim", c->attr.linear.post.kv.head_dim),
                            eps_arg(j)};
    return och_gpu_launch(j->ctx, kernel, args, OCH_COUNT(args), err);
}

static och_status gated(job *j, const och_tensor *y, och_err *err) {
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

/* The whole call in one launch. och_gpu_absent(): its code is not to be had here. */
static och_status own(job *j, och_err *err) {
    const och_op_call *c = j->c;
    const och_tensor *w = &c->in[OCH_LINEAR_W0];
    const och_gpu_kernel *kernel;
    OCH_TRY(own_kernel(j->ctx->queue->device, c, och_gpu_width(j->x.cols, (const och_tensor *[]){&j->x, &c->in[OCH_LINEAR_NORM]}, 2),
                       &kernel, err));
    och_kl_actual args[] = {och_gpu_tensor("x", &j->x), norm_arg(j), eps_arg(j), {0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}};
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
        n = three_args(c, args, n);
    }
    return och_gpu_launch(j->ctx, kernel, args, (size_t)n, err);
}

static och_status run_rows(job *j, const och_tensor *ycodes, bool *out_posted, och_err *err) {
    const och_op_ctx *ctx = j->ctx;
    const och_op_call *c = j->c;
    const och_tensor none = {.dtype = OCH_DTYPE_NONE};
    if (och_op_one_row(c, ctx)) {
        och_status st = qkv_post(j, err);
        *out_posted = st == OCH_OK;
        if (!och_gpu_absent(st)) return st;
        och_err_clear(err);
    }
    if (owns(ctx->queue->device, c, ctx->batch_invariant)) {
        och_status st = own(j, err);
        if (!och_gpu_absent(st)) return st;
        och_err_clear(err);
    }
    if (ycodes) {
        och_status st = coded_vec(j, ycodes, err);
        if (!och_gpu_absent(st)) return st;
        och_err_clear(err);
    }
    if (j->many && !och_tensor_present(&c->in[OCH_LINEAR_RESIDUAL])) {
        och_status st = tiled_together(j, err);
        if (!och_gpu_absent(st)) return st == OCH_OK && ycodes ? och_gpu_codes_of(ctx, &c->out[0], ycodes, err) : st;
        och_err_clear(err);
    }
    if (c->attr.linear.glu != OCH_ACT_NONE) {
        OCH_TRY(gated(j, &c->out[0], err));
        return ycodes ? och_gpu_codes_of(ctx, &c->out[0], ycodes, err) : OCH_OK;
    }
    if (j->x.rows == 1 && !ctx->batch_invariant && !och_tensor_present(&c->in[OCH_LINEAR_RESIDUAL]) && together(c))
        return qkv(j, err);
    for (int i = 0; i < c->attr.linear.n_weights; i++)
        OCH_TRY(product(j, i, i ? &none : &c->in[OCH_LINEAR_RESIDUAL], &c->out[i], err));
    return OCH_OK;
}

static och_status products(const och_op_ctx *ctx, const och_op_call *c, bool *out_posted, och_err *err) {
    const och_tensor *x = &c->in[OCH_LINEAR_X], *xnormed = och_op_xnormed(c), *ynormed = och_op_ynormed(c);
    const och_tensor *xcodes = och_op_codes(och_op_xcodes(c), x->rows), *ycodes = och_op_codes(och_op_ycodes(c), x->rows);
    job j = {.ctx = ctx,
             .c = c,
             .scratch = {ctx->scratch_addr, 0, ctx->scratch_bytes},
             .x = *x,
             .many = x->rows > few(ctx->queue->device, c) && !ctx->batch_invariant && !xcodes}; /* tiles would read x */
    if (!x->rows) return OCH_OK;
    if (och_op_takes_normed(xnormed, x->rows, ctx) && reads_normed(ctx->queue->device, c)) {
        const och_gpu_kernel *kernel;
        och_status st = reader_kernel(ctx->queue->device, c, &kernel, err);
        if (st != OCH_OK && !och_gpu_absent(st)) return st;
        och_err_clear(err);
        if (st == OCH_OK) xcodes = j.normed = xnormed; /* else x is there */
    }
    if (xcodes) {
        j.acts.q8 = xcodes->addr;
        j.acts.q8_row_bytes = xcodes->row_bytes;
    }
    if (!och_op_takes_normed(ynormed, x->rows, ctx)) return run_rows(&j, ycodes, out_posted, err);
    och_status st = normed_vec(&j, ynormed, err);
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
