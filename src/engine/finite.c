#include "engine/finite.h"

#include "base/alloc.h"
#include "base/size.h"
#include "quant/planes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Index of the first number that is not finite, n when all are: the greatest exponent is found without a branch an element. */
static int64_t first_bad(const float *x, int64_t n) {
    const uint32_t exponent = 0x7f800000u;
    uint32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], 4);
        bits &= exponent;
        most = bits > most ? bits : most;
    }
    if (most != exponent) return n;
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return i;
    return n;
}

/* The same of numbers of bf16. */
static int64_t first_bad_half(const uint16_t *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if ((x[i] & 0x7f80) == 0x7f80) return i;
    return n;
}

/* Looks at an f32 operand where it lies, or at a copy. halves: its rows are bf16 (op/op.h). */
static och_status look(och_session *s, const och_tensor *t, bool halves, int64_t *out_row, int64_t *out_col, och_err *err) {
    const och_device_vtable *v = s->model->device->vtable;
    *out_row = -1;
    if (t->dtype != OCH_DTYPE_F32 || t->rows <= 0 || t->cols <= 0) return OCH_OK;
    uint64_t bytes = (uint64_t)(t->rows - 1) * t->row_bytes + (uint64_t)t->cols * 4;
    char *copy = t->host ? NULL : och_malloc(bytes);
    if (!t->host && !copy) return och_err_nomem(err, bytes, "a look at a step's values");
    och_status st = copy ? v->copy_to_host(s->queue, copy, t->addr, bytes, err) : OCH_OK;
    if (st == OCH_OK) st = v->synchronise(s->queue, err);
    const char *at = copy ? copy : t->host;
    for (int64_t r = 0; st == OCH_OK && r < t->rows && *out_row < 0; r++) {
        const void *row = at + (uint64_t)r * t->row_bytes;
        int64_t i = halves ? first_bad_half(row, t->cols) : first_bad(row, t->cols);
        if (i == t->cols) continue;
        *out_row = r;
        *out_col = i;
    }
    och_free(copy);
    return st;
}

/* The same of codes, of which the call wrote n_rows: as the numbers that they stand for. */
static och_status look_at_codes(och_session *s, const och_tensor *codes, int64_t n_rows, int64_t cols, int64_t *out_row,
                                int64_t *out_col, och_err *err) {
    const och_device_vtable *v = s->model->device->vtable;
    uint64_t bytes = (uint64_t)n_rows * codes->row_bytes;
    char *copy = och_malloc(bytes);
    float *row = och_malloc_array((size_t)cols, sizeof *row);
    och_status st = copy && row ? v->copy_to_host(s->queue, copy, codes->addr, bytes, err)
                                : och_err_nomem(err, bytes, "a look at a step's codes");
    if (st == OCH_OK) st = v->synchronise(s->queue, err);
    *out_row = -1;
    for (int64_t r = 0; st == OCH_OK && r < n_rows && *out_row < 0; r++) {
        och_planes_act_decode_row(copy + (uint64_t)r * codes->row_bytes, (uint64_t)cols, row);
        int64_t i = first_bad(row, cols);
        if (i == cols) continue;
        *out_row = r;
        *out_col = i;
    }
    och_free(row);
    och_free(copy);
    return st;
}

static och_status find_culprit(och_session *s, const och_op_ctx *ctx, const och_plan_layout *layout, const och_plan_extent *extent,
                               och_err *err) {
    for (int i = 0; i < s->plan.n_ops; i++) {
        const och_plan_op *o = &s->plan.ops[i];
        och_op_call call;
        och_plan_call(&s->plan, layout, i, *extent, s->arena.addr, s->arena.host, &call);
        OCH_TRY(och_op_run(ctx, o->provider, &call, err));
        for (int k = 0; k < OCH_OP_MAX_OUT; k++) {
            int64_t row, col;
            /* State is looked at through what attention makes of it: most of it belongs to other steps. */
            if (o->out[k] < 0 || s->plan.bufs[o->out[k]].kind == OCH_PLAN_STATE) continue;
            const och_tensor *ycodes = och_op_ycodes(&call), *codes = ycodes ? och_op_codes(ycodes, call.out[0].rows) : NULL;
            if (codes && k == 0) continue; /* y was not written */
            if (k && call.op == OCH_OP_LINEAR && och_op_one_row(&call, ctx)) continue; /* nor were rows that went into the state */
            if (codes && &call.out[k] == codes)
                OCH_TRY(look_at_codes(s, codes, call.out[0].rows, call.out[0].cols, &row, &col, err));
            else {
                bool halves = call.op == OCH_OP_LINEAR && och_op_halves(call.attr.linear.y_halves, call.out[0].rows, ctx);
                OCH_TRY(look(s, &call.out[k], halves, &row, &col, err));
            }
            if (row < 0) continue;
            char where[32] = "outside the layers";
            if (o->layer >= 0) snprintf(where, sizeof where, "layer %d", o->layer);
            return och_err_set(err, OCH_DEVICE, "step: logits: expected finite numbers; the first that is not is made by record %d, %s, "
                               "op %s by provider %s: %s, row %lld, column %lld", i, where, och_op_name(o->op), o->provider->name,
                               s->plan.bufs[o->out[k]].name, (long long)row, (long long)col);
        }
    }
    return och_err_set(err, OCH_DEVICE, "step: logits: expected finite numbers; they were not, and are in a second run of the same step: "
                       "the device computes one thing and another");
}

och_status och_step_check_finite(och_session *s, const och_op_ctx *ctx, const och_plan_layout *layout, const och_plan_extent *extent,
                                 int64_t n_rows, bool sampled, och_err *err) {
    bool good = true;
    if (sampled) {
        const int32_t *ids = s->ids.host ? s->ids.host : s->ids_pinned.host;
        for (int64_t r = 0; r < n_rows; r++) good &= ids[r] >= 0;
    } else {
        const float *logits = s->logits.host ? s->logits.host : s->logits_host;
        int64_t n = n_rows * s->model->config.n_vocab;
        good = first_bad(logits, n) == n;
    }
    if (good) return OCH_OK;
    return find_culprit(s, ctx, layout, extent, err);
}
