/* EMBED: rows of a table, by id. */
#include "op/def.h"

#include "quant/format.h"

#include <math.h>

static och_status check(const och_op_call *c, och_err *err) {
    const och_tensor *ids = &c->in[OCH_EMBED_IDS], *table = &c->in[OCH_EMBED_TABLE];
    OCH_TRY(och_op_expect(c, och_in(OCH_EMBED_IDS), OCH_DTYPE_I32, -1, 1, err));
    OCH_TRY(och_op_expect_weight(c, och_in(OCH_EMBED_TABLE), -1, -1, err));
    OCH_TRY(och_op_expect(c, och_out(0), OCH_DTYPE_F32, ids->rows, table->cols, err));
    if (!isfinite(c->attr.embed.scale))
        return och_err_set(err, OCH_INVALID, "op embed: expected a finite scale, found %g", (double)c->attr.embed.scale);
    return och_op_expect_overlap(c, 0, -1, -1, err);
}

static void cost(const och_op_call *c, uint64_t *out_bytes, uint64_t *out_flops) {
    och_tensor rows = c->in[OCH_EMBED_TABLE];
    rows.rows = c->in[OCH_EMBED_IDS].rows;
    *out_bytes = och_op_tensor_bytes(&c->in[OCH_EMBED_IDS]) + och_op_tensor_bytes(&rows) +
                 och_op_tensor_bytes(&c->out[0]);
    *out_flops = c->attr.embed.scale == 1.0f ? 0 : (uint64_t)(c->out[0].rows * c->out[0].cols);
}

static och_status supports(const och_device *device, const och_op_call *c, och_err *err) {
    (void)device;
    return och_op_supports_weight(&c->in[OCH_EMBED_TABLE], "embed", err);
}

static och_status run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    (void)ctx;
    const och_tensor *ids = &c->in[OCH_EMBED_IDS], *table = &c->in[OCH_EMBED_TABLE], *y = &c->out[0];
    float scale = c->attr.embed.scale;
    for (int64_t i = 0; i < ids->rows; i++) {
        int32_t id = och_op_row_i32(ids, i);
        if (id < 0 || id >= table->rows)
            return och_op_fail(c, och_in(OCH_EMBED_IDS), OCH_RANGE, err, "row %lld: expected an id of 0 to %lld, found %d",
                               (long long)i, (long long)table->rows - 1, id);
    }
    for (int64_t i = 0; i < ids->rows; i++) {
        float *dst = och_op_row_f32_mut(y, i);
        const char *src = (const char *)table->host + (uint64_t)och_op_row_i32(ids, i) * table->row_bytes;
        och_format_decode_row(table->dtype, src, dst, (uint64_t)table->cols);
        if (scale != 1.0f)
            for (int64_t j = 0; j < table->cols; j++) dst[j] *= scale;
    }
    return OCH_OK;
}

const och_op_def och_op_def_EMBED = {check, cost, {OCH_OP_REFERENCE_ROW(EMBED), .supports = supports, .run = run}};
