#include "engine/passes.h"

#include "base/size.h"
#include "quant/format.h"
#include "quant/planes.h"

#include <string.h>

#define MAX_READERS 4 /* of a value that is handed on as codes */

typedef struct pass_env {
    och_plan *p;
    const och_device *device;
    const char *only;
} pass_env;

/* Priority of the provider that would run the record, INT32_MIN when none would. */
static int priority(const pass_env *e, int i) {
    och_op_call call;
    const och_op_provider *provider;
    och_plan_call(e->p, NULL, i, (och_plan_extent){3, 2, 1}, (och_dev_addr){0}, NULL, &call);
    if (och_op_check(&call, NULL) != OCH_OK || och_op_select(e->device, &call, e->only, &provider, NULL) != OCH_OK) return INT32_MIN;
    return provider->priority;
}

/* Replaces record i by `fused` and removes the others, if the fused form is served no worse than the parts were. */
static bool replace(const pass_env *e, int i, const och_plan_op *fused, const int *gone, int n_gone) {
    int worst = priority(e, i);
    for (int g = 0; g < n_gone; g++) worst = OCH_MIN(worst, priority(e, gone[g]));
    och_plan_op before = e->p->ops[i];
    e->p->ops[i] = *fused;
    if (priority(e, i) < worst || worst == INT32_MIN) {
        e->p->ops[i] = before;
        return false;
    }
    for (int g = n_gone - 1; g >= 0; g--) och_plan_remove_op(e->p, gone[g]); /* ascending, all above or below i */
    return true;
}

/* Nobody but records [begin, end) reads it, and it is a value of the step. */
static bool private_to(const och_plan *p, och_plan_ref ref, int begin, int end) {
    return ref >= 0 && p->bufs[ref].kind == OCH_PLAN_ARENA &&
           och_plan_count_reads(p, ref, 0, p->n_ops) == och_plan_count_reads(p, ref, begin, end);
}

static bool same_norm(const och_attr_rms_norm *a, const och_attr_rms_norm *b) {
    return a->eps == b->eps && a->add_one == b->add_one;
}

static bool plain_linear(const och_plan_op *o) {
    return o->op == OCH_OP_LINEAR && o->attr.attr.linear.glu == OCH_ACT_NONE && o->in[OCH_LINEAR_RESIDUAL] < 0;
}

/* linear(x, w0), linear(x, w1), ... -> linear(x, w0, w1, ...) */
static int group_linears(const pass_env *e) {
    int removed = 0;
    for (int i = 0; i + 1 < e->p->n_ops; i++) {
        const och_plan_op *a = &e->p->ops[i], *b = &e->p->ops[i + 1];
        if (!plain_linear(a) || !plain_linear(b) || a->in[OCH_LINEAR_X] != b->in[OCH_LINEAR_X] ||
            a->in[OCH_LINEAR_NORM] != b->in[OCH_LINEAR_NORM] || b->attr.attr.linear.n_weights != 1)
            continue;
        int n = a->attr.attr.linear.n_weights;
        if (n == OCH_LINEAR_MAX_WEIGHTS) continue;
        och_plan_op f = *a;
        f.in[OCH_LINEAR_W0 + n] = b->in[OCH_LINEAR_W0];
        f.in[OCH_LINEAR_B0 + n] = b->in[OCH_LINEAR_B0];
        f.out[n] = b->out[0];
        f.attr.attr.linear.n_weights = n + 1;
        if (replace(e, i, &f, (int[]){i + 1}, 1)) removed++, i--;
    }
    return removed;
}

/* linear(x, gate, up), glu -> linear with glu */
static int fuse_glu(const pass_env *e) {
    int removed = 0;
    for (int i = 0; i + 1 < e->p->n_ops; i++) {
        const och_plan_op *a = &e->p->ops[i], *g = &e->p->ops[i + 1];
        if (!plain_linear(a) || a->attr.attr.linear.n_weights != 2 || g->op != OCH_OP_GLU || g->in[OCH_GLU_GATE] != a->out[0] ||
            g->in[OCH_GLU_UP] != a->out[1] || !private_to(e->p, a->out[0], i + 1, i + 2) || !private_to(e->p, a->out[1], i + 1, i + 2))
            continue;
        och_plan_op f = *a;
        f.attr.attr.linear.glu = g->attr.attr.glu.act;
        f.out[0] = g->out[0];
        f.out[1] = OCH_PLAN_NONE;
        removed += replace(e, i, &f, (int[]){i + 1}, 1);
    }
    return removed;
}

/* norm, linear(norm) -> linear with norm */
static int fuse_norm(const pass_env *e) {
    int removed = 0;
    for (int i = 0; i + 1 < e->p->n_ops; i++) {
        const och_plan_op *n = &e->p->ops[i], *a = &e->p->ops[i + 1];
        if (n->op != OCH_OP_RMS_NORM || n->in[OCH_RMS_NORM_RESIDUAL] >= 0 || a->op != OCH_OP_LINEAR ||
            a->in[OCH_LINEAR_X] != n->out[0] || a->in[OCH_LINEAR_NORM] >= 0 || n->in[OCH_RMS_NORM_X] == n->out[0] ||
            !private_to(e->p, n->out[0], i + 1, i + 2))
            continue;
        och_plan_op f = *a;
        f.in[OCH_LINEAR_X] = n->in[OCH_RMS_NORM_X];
        f.in[OCH_LINEAR_NORM] = n->in[OCH_RMS_NORM_W];
        f.attr.attr.linear.norm = n->attr.attr.rms_norm;
        if (replace(e, i + 1, &f, (int[]){i}, 1)) removed++, i--;
    }
    return removed;
}

/* linear or norm, then add of its result -> the same with the residual */
static int fuse_residual(const pass_env *e) {
    int removed = 0;
    for (int i = 0; i + 1 < e->p->n_ops; i++) {
        const och_plan_op *a = &e->p->ops[i], *s = &e->p->ops[i + 1];
        bool linear = plain_linear(a) && a->attr.attr.linear.n_weights == 1;
        bool norm = a->op == OCH_OP_RMS_NORM && a->in[OCH_RMS_NORM_RESIDUAL] < 0;
        if ((!linear && !norm) || s->op != OCH_OP_ADD || !private_to(e->p, a->out[0], i + 1, i + 2)) continue;
        och_plan_ref other = s->in[0] == a->out[0] ? s->in[1] : s->in[1] == a->out[0] ? s->in[0] : OCH_PLAN_NONE;
        if (other < 0 || other == a->out[0]) continue;
        och_plan_op f = *a;
        f.in[linear ? OCH_LINEAR_RESIDUAL : OCH_RMS_NORM_RESIDUAL] = other;
        f.out[0] = s->out[0];
        removed += replace(e, i, &f, (int[]){i + 1}, 1);
    }
    return removed;
}

/* [norm q, norm k,] rope q, rope k, kv_write -> qkv_post */
static int fuse_qkv_post(const pass_env *e) {
    int removed = 0;
    for (int i = 0; i + 2 < e->p->n_ops; i++) {
        const och_plan_op *o = &e->p->ops[i];
        bool norms = o[0].op == OCH_OP_RMS_NORM && o[1].op == OCH_OP_RMS_NORM;
        int first = norms ? 2 : 0;
        if (i + first + 2 >= e->p->n_ops) break;
        const och_plan_op *rq = &o[first], *rk = &o[first + 1], *w = &o[first + 2];
        if (rq->op != OCH_OP_ROPE || rk->op != OCH_OP_ROPE || w->op != OCH_OP_KV_WRITE ||
            rq->in[OCH_ROPE_TABLE] != rk->in[OCH_ROPE_TABLE] || w->in[OCH_KV_WRITE_K] != rk->out[0] || rk->in[OCH_ROPE_X] != rk->out[0] ||
            !private_to(e->p, rk->out[0], i, i + first + 3))
            continue;
        if (norms && (o[0].out[0] != rq->in[OCH_ROPE_X] || o[1].out[0] != rk->in[OCH_ROPE_X] || o[0].in[OCH_RMS_NORM_X] != o[0].out[0] ||
                      o[1].in[OCH_RMS_NORM_X] != o[1].out[0] || o[0].in[OCH_RMS_NORM_RESIDUAL] >= 0 ||
                      o[1].in[OCH_RMS_NORM_RESIDUAL] >= 0 ||
                      !same_norm(&o[0].attr.attr.rms_norm, &o[1].attr.attr.rms_norm)))
            continue;
        och_plan_op f = *w;
        f.op = OCH_OP_QKV_POST;
        for (int j = 0; j < OCH_OP_MAX_IN; j++) f.in[j] = OCH_PLAN_NONE;
        f.in[OCH_QKV_POST_Q] = rq->in[OCH_ROPE_X];
        f.in[OCH_QKV_POST_K] = rk->in[OCH_ROPE_X];
        f.in[OCH_QKV_POST_V] = w->in[OCH_KV_WRITE_V];
        f.in[OCH_QKV_POST_QNORM] = norms ? o[0].in[OCH_RMS_NORM_W] : OCH_PLAN_NONE;
        f.in[OCH_QKV_POST_KNORM] = norms ? o[1].in[OCH_RMS_NORM_W] : OCH_PLAN_NONE;
        f.in[OCH_QKV_POST_TABLE] = rq->in[OCH_ROPE_TABLE];
        f.in[OCH_QKV_POST_SLOTS] = w->in[OCH_KV_WRITE_SLOTS];
        f.out[0] = rq->out[0];
        f.out[1] = w->out[0];
        f.out[2] = w->out[1];
        memset(&f.attr, 0, sizeof f.attr);
        f.attr.attr.qkv_post.kv = w->attr.attr.kv_write;
        f.attr.attr.qkv_post.rope = rq->attr.attr.rope;
        if (norms) f.attr.attr.qkv_post.norm = o[0].attr.attr.rms_norm;
        int gone[4], n_gone = first + 2;
        for (int g = 0; g < n_gone; g++) gone[g] = i + g;
        if (replace(e, i + n_gone, &f, gone, n_gone)) removed += n_gone;
    }
    return removed;
}

static void set_one_row(och_plan_op *a, och_plan_op *w, bool on) {
    a->in[OCH_LINEAR_TABLE] = on ? w->in[OCH_QKV_POST_TABLE] : OCH_PLAN_NONE;
    a->in[OCH_LINEAR_SLOTS] = on ? w->in[OCH_QKV_POST_SLOTS] : OCH_PLAN_NONE;
    a->out[OCH_LINEAR_KCACHE] = on ? w->out[1] : OCH_PLAN_NONE;
    a->out[OCH_LINEAR_VCACHE] = on ? w->out[2] : OCH_PLAN_NONE;
    memset(&a->attr.attr.linear.post, 0, sizeof a->attr.attr.linear.post);
    if (on) a->attr.attr.linear.post = w->attr.attr.qkv_post;
    w->attr.attr.qkv_post.one_row_done = on;
}

/* linear(x, q, k, v), qkv_post without norms -> the same, of which the first does one row whole (op/op.h) */
static void hand_on_one_row(const pass_env *e) {
    for (int i = 0; i + 1 < e->p->n_ops; i++) {
        och_plan_op *a = &e->p->ops[i], *w = &e->p->ops[i + 1];
        if (!plain_linear(a) || a->attr.attr.linear.n_weights != 3 || w->op != OCH_OP_QKV_POST || w->in[OCH_QKV_POST_Q] != a->out[0] ||
            w->in[OCH_QKV_POST_K] != a->out[1] || w->in[OCH_QKV_POST_V] != a->out[2] || w->out[0] != a->out[0] ||
            w->in[OCH_QKV_POST_QNORM] >= 0 || w->in[OCH_QKV_POST_KNORM] >= 0 || !private_to(e->p, a->out[1], i + 1, i + 2) ||
            !private_to(e->p, a->out[2], i + 1, i + 2))
            continue;
        int worst[] = {priority(e, i), priority(e, i + 1)};
        set_one_row(a, w, true);
        if (priority(e, i) < worst[0] || priority(e, i + 1) < worst[1] || worst[0] == INT32_MIN) set_one_row(a, w, false);
    }
}

static bool all_codes(const och_plan *p, const och_plan_op *o) {
    for (int i = 0; i < o->attr.attr.linear.n_weights; i++)
        if (och_format_get(p->bufs[o->in[OCH_LINEAR_W0 + i]].tensor.dtype)->act != OCH_ACT_Q8_32S) return false;
    return true;
}

static bool all_bf16(const och_plan *p, const och_plan_op *o) {
    for (int i = 0; i < o->attr.attr.linear.n_weights; i++)
        if (p->bufs[o->in[OCH_LINEAR_W0 + i]].tensor.dtype != OCH_DTYPE_BF16) return false;
    return true;
}

/* Whether all that reads what record i leaves in `ref` are products of it, without a norm, that `fits`; them, into `readers`. */
static bool read_by_products(const och_plan *p, int i, och_plan_ref ref, bool (*fits)(const och_plan *, const och_plan_op *),
                             int readers[MAX_READERS], int *out_n) {
    *out_n = 0;
    for (int k = i + 1; k < p->n_ops; k++) {
        const och_plan_op *o = &p->ops[k];
        int n = och_plan_count_reads(p, ref, k, k + 1);
        for (int j = 0; j < OCH_OP_MAX_OUT; j++)
            if (o->out[j] == ref) return false;
        if (!n) continue;
        if (n > 1 || *out_n == MAX_READERS || o->op != OCH_OP_LINEAR || o->in[OCH_LINEAR_X] != ref || o->in[OCH_LINEAR_NORM] >= 0 ||
            o->in[OCH_LINEAR_XCODES] >= 0 || !fits(p, o))
            return false;
        readers[(*out_n)++] = k;
    }
    return *out_n > 0;
}

/* gate or attention, then products of its result alone -> the same by way of codes (op/op.h) */
static void hand_on_codes(const pass_env *e) {
    och_plan *p = e->p;
    for (int i = 0; i < p->n_ops; i++) {
        och_plan_op *o = &p->ops[i];
        bool gate = o->op == OCH_OP_LINEAR && o->attr.attr.linear.glu != OCH_ACT_NONE;
        och_plan_ref y = o->out[0];
        int readers[MAX_READERS], n, worst[MAX_READERS + 1];
        uint64_t row;
        if ((!gate && o->op != OCH_OP_ATTENTION) || y < 0 || p->bufs[y].kind != OCH_PLAN_ARENA || p->bufs[y].tensor.cols % 32 ||
            !read_by_products(p, i, y, all_codes, readers, &n) || !och_planes_act_row_bytes((uint64_t)p->bufs[y].tensor.cols, &row))
            continue;
        worst[n] = priority(e, i);
        for (int k = 0; k < n; k++) worst[k] = priority(e, readers[k]);
        och_tensor t = {.dtype = OCH_DTYPE_U8, .rows = OCH_OP_CODES_ROWS, .cols = (int64_t)row, .row_bytes = row};
        och_plan_ref codes = och_plan_add_bound(p, OCH_PLAN_ARENA, OCH_ROWS_FIXED, &t, "%.*s.codes", OCH_PLAN_NAME_BYTES - 8,
                                                p->bufs[y].name);
        if (codes < 0) return; /* the plan has failed, and says so */
        int at = gate ? OCH_LINEAR_YCODES : OCH_ATTENTION_YCODES;
        o->out[at] = codes;
        bool taken = priority(e, i) >= worst[n] && worst[n] != INT32_MIN;
        for (int k = 0; k < n; k++) {
            p->ops[readers[k]].in[OCH_LINEAR_XCODES] = codes;
            taken = taken && priority(e, readers[k]) >= worst[k];
        }
        if (taken) continue;
        o->out[at] = OCH_PLAN_NONE;
        for (int k = 0; k < n; k++) p->ops[readers[k]].in[OCH_LINEAR_XCODES] = OCH_PLAN_NONE;
        p->n_bufs--; /* the last, of which nothing knows any more */
    }
}

/* Products that norm what record i leaves in `ref` as the first of them does, weights of codes alone, until it is written again. */
static int read_through_a_norm(const och_plan *p, int i, och_plan_ref ref, int readers[MAX_READERS]) {
    int n = 0;
    for (int k = i + 1; k < p->n_ops && n < MAX_READERS; k++) {
        const och_plan_op *o = &p->ops[k], *first = &p->ops[n ? readers[0] : k];
        if (o->op == OCH_OP_LINEAR && o->in[OCH_LINEAR_X] == ref && o->in[OCH_LINEAR_NORM] >= 0 && o->in[OCH_LINEAR_XCODES] < 0 &&
            p->bufs[o->in[OCH_LINEAR_NORM]].kind == OCH_PLAN_WEIGHT && all_codes(p, o) &&
            o->in[OCH_LINEAR_NORM] == first->in[OCH_LINEAR_NORM] &&
            same_norm(&o->attr.attr.linear.norm, &first->attr.attr.linear.norm))
            readers[n++] = k;
        for (int j = 0; j < OCH_OP_MAX_OUT; j++)
            if (o->out[j] == ref) return n;
    }
    return n;
}

static void set_normed(och_plan *p, int i, const int *readers, int n, och_plan_ref codes) {
    const och_plan_op *r = &p->ops[readers[0]];
    p->ops[i].out[OCH_LINEAR_YCODES] = codes;
    p->ops[i].in[OCH_LINEAR_YNORM] = codes < 0 ? OCH_PLAN_NONE : r->in[OCH_LINEAR_NORM];
    p->ops[i].attr.attr.linear.ynorm_add_one = codes >= 0 && r->attr.attr.linear.norm.add_one;
    for (int k = 0; k < n; k++) p->ops[readers[k]].in[OCH_LINEAR_XCODES] = codes;
}

/* product, then products of its result behind a norm -> the same by way of codes through the norm (op/op.h) */
static void hand_on_normed(const pass_env *e) {
    och_plan *p = e->p;
    for (int i = 0; i < p->n_ops; i++) {
        const och_plan_op *o = &p->ops[i];
        och_plan_ref y = o->out[0];
        int readers[MAX_READERS], n, worst[MAX_READERS + 1];
        och_tensor t;
        uint64_t squares;
        if (o->op != OCH_OP_LINEAR || o->attr.attr.linear.glu != OCH_ACT_NONE || o->attr.attr.linear.n_weights != 1 || y < 0 ||
            p->bufs[y].kind != OCH_PLAN_ARENA || !och_op_normed_codes(p->bufs[y].tensor.cols, &t, &squares) ||
            !(n = read_through_a_norm(p, i, y, readers)))
            continue;
        worst[n] = priority(e, i);
        for (int k = 0; k < n; k++) worst[k] = priority(e, readers[k]);
        och_plan_ref codes = och_plan_add_bound(p, OCH_PLAN_ARENA, OCH_ROWS_FIXED, &t, "%.*s.normed", OCH_PLAN_NAME_BYTES - 8,
                                                p->bufs[y].name);
        if (codes < 0) return; /* the plan has failed, and says so */
        set_normed(p, i, readers, n, codes);
        bool taken = priority(e, i) >= worst[n] && worst[n] != INT32_MIN;
        for (int k = 0; k < n; k++) taken = taken && priority(e, readers[k]) >= worst[k];
        if (taken) continue;
        set_normed(p, i, readers, n, OCH_PLAN_NONE);
        p->n_bufs--; /* the last, of which nothing knows any more */
    }
}

static void set_halves(och_plan *p, int i, const int *readers, int n, bool halves) {
    p->ops[i].attr.attr.linear.y_halves = halves;
    for (int k = 0; k < n; k++) p->ops[readers[k]].attr.attr.linear.x_halves = halves;
}

/* gate, then products of its result alone with weights of BF16 -> the same by way of halves (op/op.h) */
static void hand_on_halves(const pass_env *e) {
    och_plan *p = e->p;
    for (int i = 0; i < p->n_ops; i++) {
        const och_plan_op *o = &p->ops[i];
        och_plan_ref y = o->out[0];
        int readers[MAX_READERS], n, worst[MAX_READERS + 1];
        if (o->op != OCH_OP_LINEAR || o->attr.attr.linear.glu == OCH_ACT_NONE || y < 0 || p->bufs[y].kind != OCH_PLAN_ARENA ||
            p->bufs[y].tensor.cols % 8 || !read_by_products(p, i, y, all_bf16, readers, &n))
            continue;
        worst[n] = priority(e, i);
        for (int k = 0; k < n; k++) worst[k] = priority(e, readers[k]);
        set_halves(p, i, readers, n, true);
        bool taken = priority(e, i) >= worst[n] && worst[n] != INT32_MIN;
        for (int k = 0; k < n; k++) taken = taken && priority(e, readers[k]) >= worst[k];
        if (!taken) set_halves(p, i, readers, n, false);
    }
}

/* Passes look at neighbours, so that those which take records away go before those which only mark what is left. */
int och_passes_run(och_plan *p, const och_device *device, const char *only) {
    if (p->failed) return 0;
    pass_env e = {p, device, only};
    int removed = group_linears(&e); /* first: a gate is of two products in a record, and a norm goes into one record alone */
    removed += fuse_glu(&e); /* these four take no records from one another, and could stand in any order */
    removed += fuse_norm(&e);
    removed += fuse_residual(&e);
    removed += fuse_qkv_post(&e);
    hand_on_one_row(&e); /* from the three products that are one record to the one that fuse_qkv_post made */
    hand_on_codes(&e); /* from what fuse_glu made, to products that are left without a norm */
    hand_on_normed(&e); /* to those that fuse_norm gave one, from what adds the residual by now: never the same readers */
    hand_on_halves(&e); /* as hand_on_codes, beside weights that read none */
    return removed;
}
