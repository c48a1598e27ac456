/* A provider for the null device, of the tests alone: a board whose memory the host may not dereference and whose work is
 * deferred, and that computes by fetching its operands, running the reference on them and storing what came out. Weights are
 * planes. Through it the rig is tested where there is no board: every case goes to a device and back. */
#ifndef OCH_TESTS_OP_EMULATED_H
#define OCH_TESTS_OP_EMULATED_H

#include "conform/support/op_run.h"
#include "quant/planes.h"

static och_layout emulated_layout(const och_device *d, och_dtype t, int64_t rows, int64_t cols, uint64_t *out_bytes) {
    (void)d;
    uint64_t row;
    assert_true(och_planes_row_bytes(t, (uint64_t)cols, &row));
    *out_bytes = row * (uint64_t)rows;
    return OCH_LAYOUT_PLANES;
}

static const och_op_provider *emulated_reference(och_op_id op) {
    for (int i = 0; i < och_op_provider_count(); i++)
        if (och_op_provider_at(i)->op == op && och_op_provider_at(i)->priority < 0) return och_op_provider_at(i);
    return NULL;
}

static och_status emulated_supports(const och_device *d, const och_op_call *c, och_err *err) {
    (void)d;
    for (int i = 0; i < RIG_OPERANDS; i++) {
        const och_tensor *t = rig_operand((och_op_call *)(uintptr_t)c, i);
        bool weight = (c->op == OCH_OP_EMBED && i == OCH_EMBED_TABLE) ||
                      (c->op == OCH_OP_LINEAR && i >= OCH_LINEAR_W0 && i < OCH_LINEAR_W0 + OCH_LINEAR_MAX_WEIGHTS);
        if (!t) continue;
        if (t->host) return och_err_set(err, OCH_INVALID, "a host pointer on a device that is not unified");
        if (weight && t->layout != OCH_LAYOUT_PLANES) return och_err_set(err, OCH_UNSUPPORTED, "reads weights in planes only");
    }
    return OCH_OK;
}

/* The operand's rows in host memory; planes become float rows. */
static och_status emulated_fetch(och_queue *q, och_tensor *t, och_err *err) {
    if (!t->rows || !t->cols) return OCH_OK;
    uint64_t row = t->row_bytes, planes = 0;
    if (t->layout == OCH_LAYOUT_PLANES) {
        assert_true(och_planes_row_bytes(t->dtype, (uint64_t)t->cols, &planes));
        row = (uint64_t)t->cols * sizeof(float);
    }
    uint64_t last = 0;
    assert_true(planes || och_dtype_row_bytes(t->dtype, (uint64_t)t->cols, &last));
    uint64_t n_bytes = planes ? planes * (uint64_t)t->rows : row * (uint64_t)(t->rows - 1) + last;
    char *raw = och_malloc_array((size_t)n_bytes, 1);
    assert_non_null(raw);
    OCH_TRY(q->device->vtable->copy_to_host(q, raw, t->addr, n_bytes, err));
    OCH_TRY(q->device->vtable->synchronise(q, err));
    t->host = raw;
    if (!planes) return OCH_OK;
    float *rows = och_malloc_array((size_t)(t->rows * t->cols), sizeof *rows);
    assert_non_null(rows);
    for (int64_t i = 0; i < t->rows; i++)
        och_planes_decode_row(t->dtype, (uint64_t)t->cols, raw + (uint64_t)i * planes, rows + i * t->cols);
    och_free(raw);
    t->host = rows;
    t->dtype = OCH_DTYPE_F32;
    t->layout = OCH_LAYOUT_NATIVE;
    t->row_bytes = row;
    return OCH_OK;
}

static och_status emulated_run(const och_op_ctx *ctx, const och_op_call *call, och_err *err) {
    och_op_call c = *call;
    const och_op_provider *reference = emulated_reference(c.op);
    const och_device_vtable *v = ctx->queue->device->vtable;
    for (int i = 0; i < RIG_OPERANDS; i++)
        if (rig_operand(&c, i)) OCH_TRY(emulated_fetch(ctx->queue, rig_operand(&c, i), err));
    och_op_ctx inner = {.queue = ctx->queue, .reference_asked = true};
    inner.scratch_bytes = reference->scratch_bytes ? reference->scratch_bytes(ctx->queue->device, &c) : 0;
    inner.scratch = och_malloc_array((size_t)inner.scratch_bytes + 1, 1);
    assert_non_null(inner.scratch);
    och_status st = reference->run(&inner, &c, err);
    och_free(inner.scratch);
    for (int o = 0; o < OCH_OP_MAX_OUT && st == OCH_OK; o++) {
        const och_tensor *t = &c.out[o];
        uint64_t row;
        if (!och_tensor_present(t) || !t->cols) continue;
        assert_true(och_dtype_row_bytes(t->dtype, (uint64_t)t->cols, &row));
        for (int64_t i = 0; i < t->rows && st == OCH_OK; i++)
            st = v->copy_to_device(ctx->queue, och_dev_addr_add(t->addr, (uint64_t)i * t->row_bytes), rig_bytes(t, i), row,
                                   err);
    }
    if (st == OCH_OK) st = v->synchronise(ctx->queue, err);
    for (int i = 0; i < RIG_OPERANDS; i++)
        if (rig_operand(&c, i)) och_free(rig_operand(&c, i)->host);
    return st;
}

static const och_op_provider emulated_providers[OCH_OP_COUNT_] = {
#define OCH_OP(sym, text, operands)                                                                                    \
    {.name = "emulated", .backend = "null", .op = OCH_OP_##sym, .supports = emulated_supports, .run = emulated_run,    \
     .weight_layout = OCH_OP_##sym == OCH_OP_EMBED || OCH_OP_##sym == OCH_OP_LINEAR ? emulated_layout : NULL,          \
     .weight_pack = OCH_OP_##sym == OCH_OP_EMBED || OCH_OP_##sym == OCH_OP_LINEAR ? och_planes_pack : NULL},
#include "op/ops.def"
#undef OCH_OP
};

#endif
