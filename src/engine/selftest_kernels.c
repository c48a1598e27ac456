/* The check of a session's kernels: the plan's records, made small and each kind once. */
#include "engine/selftest.h"

#include "base/alloc.h"
#include "base/env.h"
#include "base/log.h"
#include "base/size.h"
#include "base/thread.h"
#include "quant/format.h"
#include "quant/planes.h"

#include <string.h>

/* As many as make the kernel of the record: whether they are whole vectors must stay. */
static int64_t few(int64_t n, int64_t most) { return n <= most ? n : n % 4 ? most - 1 : most; }

static void set_cols(och_tensor *t, int64_t cols) {
    if (!och_tensor_present(t)) return;
    t->cols = cols;
    t->row_bytes = (uint64_t)cols * 4;
}

static void shrink_kv(och_attr_kv *kv, och_tensor *k, och_tensor *v, int64_t blocks) {
    kv->n_kv_heads = 1;
    och_tensor *caches[] = {k, v};
    for (int i = 0; i < 2; i++) {
        caches[i]->rows = blocks;
        caches[i]->cols = (int64_t)kv->head_dim * kv->block_tokens;
        caches[i]->row_bytes = (uint64_t)caches[i]->cols * och_dtype_get(caches[i]->dtype)->block_bytes;
    }
}

static void set_normed(och_tensor *t, int64_t k) {
    uint64_t squares;
    if (och_tensor_present(t) && !och_op_normed_codes(k, t, &squares)) t->dtype = OCH_DTYPE_NONE; /* of whole blocks it can */
}

static void set_codes(och_tensor *t, int64_t k) {
    if (!och_tensor_present(t) || !och_planes_act_row_bytes((uint64_t)k, &t->row_bytes)) return;
    t->cols = (int64_t)t->row_bytes;
}

/* Two heads of q, one of k and of v. */
static void shrink_heads(och_op_call *c) {
    och_attr_qkv_post *a = &c->attr.linear.post;
    shrink_kv(&a->kv, &c->out[OCH_LINEAR_KCACHE], &c->out[OCH_LINEAR_VCACHE], 2);
    a->rope.n_heads = 2;
    for (int i = 0; i < 3; i++) {
        c->in[OCH_LINEAR_W0 + i].rows = (i ? 1 : 2) * (int64_t)a->kv.head_dim;
        set_cols(&c->in[OCH_LINEAR_B0 + i], c->in[OCH_LINEAR_W0 + i].rows);
        set_cols(&c->out[i], c->in[OCH_LINEAR_W0 + i].rows);
    }
}

/* The record's call with as little of everything as leaves its kernels the same. */
static void shrink(och_op_call *c) {
    switch (c->op) {
    case OCH_OP_EMBED:
        c->in[OCH_EMBED_TABLE].rows = OCH_MIN(c->in[OCH_EMBED_TABLE].rows, 32);
        break;
    case OCH_OP_LINEAR:
        for (int i = 0; i < c->attr.linear.n_weights; i++) {
            och_tensor *w = &c->in[OCH_LINEAR_W0 + i];
            w->rows = och_tensor_present(&c->out[OCH_LINEAR_YCODES]) ? 64 : few(w->rows, 32);
            set_cols(&c->in[OCH_LINEAR_B0 + i], w->rows);
            set_cols(&c->out[i], w->rows);
            if (i == 0) set_cols(&c->in[OCH_LINEAR_RESIDUAL], w->rows);
        }
        if (och_op_ynormed(c)) set_normed(&c->out[OCH_LINEAR_YCODES], c->in[OCH_LINEAR_W0].rows);
        else set_codes(&c->out[OCH_LINEAR_YCODES], c->in[OCH_LINEAR_W0].rows);
        set_cols(&c->in[OCH_LINEAR_YNORM], c->in[OCH_LINEAR_W0].rows);
        if (och_op_asks_one_row(c)) shrink_heads(c);
        break;
    case OCH_OP_RMS_NORM: {
        int64_t cols = OCH_MIN(c->in[OCH_RMS_NORM_X].cols, 2 * c->in[OCH_RMS_NORM_W].cols);
        set_cols(&c->in[OCH_RMS_NORM_X], cols);
        set_cols(&c->in[OCH_RMS_NORM_RESIDUAL], cols);
        set_cols(&c->out[0], cols);
        break;
    }
    case OCH_OP_ROPE:
        c->attr.rope.n_heads = OCH_MIN(c->attr.rope.n_heads, 2);
        set_cols(&c->in[OCH_ROPE_X], (int64_t)c->attr.rope.n_heads * c->attr.rope.head_dim);
        set_cols(&c->out[0], c->in[OCH_ROPE_X].cols);
        break;
    case OCH_OP_KV_WRITE:
        shrink_kv(&c->attr.kv_write, &c->out[0], &c->out[1], 2);
        set_cols(&c->in[OCH_KV_WRITE_K], c->attr.kv_write.head_dim);
        set_cols(&c->in[OCH_KV_WRITE_V], c->attr.kv_write.head_dim);
        break;
    case OCH_OP_QKV_POST:
        shrink_kv(&c->attr.qkv_post.kv, &c->out[1], &c->out[2], 2);
        c->attr.qkv_post.rope.n_heads = 2;
        set_cols(&c->in[OCH_QKV_POST_Q], 2 * (int64_t)c->attr.qkv_post.kv.head_dim);
        set_cols(&c->in[OCH_QKV_POST_K], c->attr.qkv_post.kv.head_dim);
        set_cols(&c->in[OCH_QKV_POST_V], c->attr.qkv_post.kv.head_dim);
        set_cols(&c->out[0], c->in[OCH_QKV_POST_Q].cols);
        break;
    case OCH_OP_ATTENTION: {
        och_attr_attention *a = &c->attr.attention;
        a->n_heads /= a->kv.n_kv_heads;
        shrink_kv(&a->kv, &c->in[OCH_ATTENTION_K], &c->in[OCH_ATTENTION_V], 2);
        set_cols(&c->in[OCH_ATTENTION_Q], (int64_t)a->n_heads * a->kv.head_dim);
        set_cols(&c->out[0], c->in[OCH_ATTENTION_Q].cols);
        set_codes(&c->out[OCH_ATTENTION_YCODES], c->out[0].cols);
        set_cols(&c->in[OCH_ATTENTION_TABLES], 2);
        c->in[OCH_ATTENTION_TABLES].rows = 1;
        break;
    }
    case OCH_OP_GLU:
    case OCH_OP_ADD:
    case OCH_OP_GATHER: {
        int64_t cols = few(c->out[0].cols, 256);
        set_cols(&c->in[0], cols);
        if (c->op != OCH_OP_GATHER) set_cols(&c->in[1], cols);
        set_cols(&c->out[0], cols);
        break;
    }
    case OCH_OP_SAMPLE: set_cols(&c->in[OCH_SAMPLE_LOGITS], OCH_MIN(c->in[OCH_SAMPLE_LOGITS].cols, 5000)); break;
    case OCH_OP_COUNT_: break;
    }
    /* A trial packs by itself. */
    for (int i = 0; i < OCH_OP_MAX_IN; i++) {
        och_tensor *t = &c->in[i];
        t->addr.value = 0;
        t->host = NULL;
        if (t->layout == OCH_LAYOUT_NATIVE || !och_tensor_present(t)) continue;
        t->layout = OCH_LAYOUT_NATIVE;
        (void)och_dtype_row_bytes(t->dtype, (uint64_t)t->cols, &t->row_bytes); /* it was loaded so */
    }
    for (int i = 0; i < OCH_OP_MAX_OUT; i++) {
        c->out[i].addr.value = 0;
        c->out[i].host = NULL;
    }
}

/* Numbers of rows for which a provider may launch other kernels. */
static const int linear_rows[] = {1, 4, 8, 9}, other_rows[] = {2}, sample_rows[] = {6}; /* ways of sampling */

/* `plain`: without codes of y, as a call of more rows than those are for. */
static och_status check_record(const och_session *s, int record, int rows, bool plain, och_op_call *seen, int *n_seen,
                               och_err *err) {
    const och_op_provider *p = s->plan.ops[record].provider;
    och_op_call c;
    memset(&c, 0, sizeof c); /* calls are compared as bytes */
    och_plan_call(&s->plan, NULL, record, (och_plan_extent){rows, rows, 1}, (och_dev_addr){0}, NULL, &c);
    if (plain) c.out[OCH_ATTENTION_YCODES].dtype = OCH_DTYPE_NONE;
    shrink(&c);
    for (int i = 0; i < *n_seen; i++)
        if (!memcmp(&seen[i], &c, sizeof c)) return OCH_OK;
    memcpy(&seen[(*n_seen)++], &c, sizeof c);
    och_trial t;
    och_trial_options o = {.provider = p, .batch_invariant = s->options.batch_invariant, .seed = 1};
    och_status st = och_trial_run(s->queue, &c, &o, &t, err);
    if (st != OCH_OK) {
        och_err_prefix(err, "check of op %s by provider %s%s%s", och_op_name(c.op), p->name,
                       t.kernels[0] ? ", kernels " : "", t.kernels);
        return st;
    }
    if (t.nmse <= t.bound) return OCH_OK;
    return och_err_set(
        err, OCH_DEVICE,
        "device %s computes op %s wrongly: among its kernels %s: expected a normalised mean square error of "
        "at most %.1e against the reference, found %.3e (%d rows); a compiler or driver of another version may "
        "help; OCHRE_KERNEL_CHECK=0 goes on all the same",
        s->model->device->info.label, och_op_name(c.op), t.kernels[0] ? t.kernels : p->name, t.bound, t.nmse, rows);
}

och_status och_selftest_kernels(const och_session *s, och_err *err) {
    const char *wish = och_env_get(OCH_ENV_OCHRE_KERNEL_CHECK);
    if (s->model->measured || (wish && !strcmp(wish, "0"))) return OCH_OK;
    int n_seen = 0, n_asked = 0;
    double begin = och_now_seconds();
    for (int i = 0; i < s->plan.n_ops; i++) n_asked += s->plan.ops[i].provider->has_kernels;
    if (!n_asked) return OCH_OK;
    och_op_call *seen = och_malloc_array((size_t)n_asked * OCH_COUNT(linear_rows), sizeof *seen);
    if (!seen) return och_err_nomem(err, (uint64_t)n_asked * OCH_COUNT(linear_rows) * sizeof *seen, "the check of kernels");
    och_status st = OCH_OK;
    for (int i = 0; i < s->plan.n_ops && st == OCH_OK; i++) {
        const och_plan_op *o = &s->plan.ops[i];
        if (!o->provider->has_kernels) continue;
        bool linear = o->op == OCH_OP_LINEAR;
        const int *rows = linear ? linear_rows : o->op == OCH_OP_SAMPLE ? sample_rows : other_rows;
        for (size_t k = 0; st == OCH_OK && k < (linear ? OCH_COUNT(linear_rows) : OCH_COUNT(other_rows)); k++)
            if (k == 0 || rows[k] <= s->options.max_step_tokens) st = check_record(s, i, rows[k], false, seen, &n_seen, err);
        if (st == OCH_OK && o->op == OCH_OP_ATTENTION && o->out[OCH_ATTENTION_YCODES] >= 0)
            st = check_record(s, i, other_rows[0], true, seen, &n_seen, err);
    }
    och_free(seen);
    if (st == OCH_OK)
        och_log(OCH_LOG_DEBUG, "kernels of %s: %d calls checked in %.1f ms", s->model->device->info.label, n_seen,
                (och_now_seconds() - begin) * 1e3);
    return st;
}
