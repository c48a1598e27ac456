/* KV_WRITE: stores the keys and values of tokens in the paged state. */
#include "op/def.h"

#include "base/half.h"
#include "quant/fp8.h"

static och_status check(const och_op_call *c, och_err *err) {
    const och_attr_kv *kv = &c->attr.kv_write;
    int64_t n = c->in[OCH_KV_WRITE_K].rows;
    OCH_TRY(och_op_expect_kv(c, kv, err));
    OCH_TRY(och_op_expect(c, och_in(OCH_KV_WRITE_K), OCH_DTYPE_F32, -1, (int64_t)kv->n_kv_heads * kv->head_dim, err));
    OCH_TRY(och_op_expect(c, och_in(OCH_KV_WRITE_V), OCH_DTYPE_F32, n, (int64_t)kv->n_kv_heads * kv->head_dim, err));
    OCH_TRY(och_op_expect(c, och_in(OCH_KV_WRITE_SLOTS), OCH_DTYPE_I32, n, 1, err));
    for (int i = 0; i < 2; i++) {
        OCH_TRY(och_op_expect_cache(c, och_out(i), kv, err));
        OCH_TRY(och_op_expect_overlap(c, i, -1, -1, err));
    }
    if (c->out[0].dtype != c->out[1].dtype || c->out[0].rows != c->out[1].rows)
        return och_op_fail(c, och_out(1), OCH_INVALID, err, "expected %s and %lld blocks as in kcache, found %s and %lld",
                           och_dtype_name(c->out[0].dtype), (long long)c->out[0].rows, och_dtype_name(c->out[1].dtype),
                           (long long)c->out[1].rows);
    return OCH_OK;
}

static void cost(const och_op_call *c, uint64_t *out_bytes, uint64_t *out_flops) {
    const och_tensor *k = &c->in[OCH_KV_WRITE_K];
    uint64_t elem = och_dtype_get(c->out[0].dtype)->block_bytes;
    *out_bytes = och_op_tensor_bytes(k) + och_op_tensor_bytes(&c->in[OCH_KV_WRITE_V]) +
                 och_op_tensor_bytes(&c->in[OCH_KV_WRITE_SLOTS]) + 2 * elem * (uint64_t)(k->rows * k->cols);
    *out_flops = 0;
}

och_status och_op_check_slots(const och_op_call *c, och_operand slots, const och_tensor *cache, const och_attr_kv *kv,
                              och_err *err) {
    const och_tensor *t = &c->in[slots.index];
    for (int64_t i = 0; i < t->rows; i++) {
        int32_t slot = och_op_row_i32(t, i);
        if (slot >= 0 && slot / kv->block_tokens >= cache->rows)
            return och_op_fail(c, slots, OCH_RANGE, err, "row %lld: expected a block below %lld, found %d (slot %d)",
                               (long long)i, (long long)cache->rows, slot / kv->block_tokens, slot);
    }
    return OCH_OK;
}

static inline void store(const och_tensor *cache, uint64_t i, float x) {
    if (cache->dtype == OCH_DTYPE_F32) ((float *)cache->host)[i] = x;
    else if (cache->dtype == OCH_DTYPE_F8_E4M3) ((uint8_t *)cache->host)[i] = och_f32_to_e4m3(x);
    else ((uint16_t *)cache->host)[i] = cache->dtype == OCH_DTYPE_F16 ? och_f32_to_f16(x) : och_f32_to_bf16(x);
}

void och_op_kv_store(const och_tensor *kcache, const och_tensor *vcache, const och_attr_kv *kv, int64_t slot, int h,
                     const float *k, const float *v) {
    uint64_t d = (uint64_t)kv->head_dim, bt = (uint64_t)kv->block_tokens, elem = och_dtype_get(kcache->dtype)->block_bytes;
    uint64_t block = (uint64_t)slot / bt, t = (uint64_t)slot % bt;
    uint64_t k0 = block * (kcache->row_bytes / elem) + (uint64_t)h * d * bt + t;
    uint64_t v0 = block * (vcache->row_bytes / elem) + ((uint64_t)h * bt + t) * d;
    for (uint64_t i = 0; i < d; i++) {
        store(kcache, k0 + i * bt, k[i]);
        store(vcache, v0 + i, v[i]);
    }
}

static och_status run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    (void)ctx;
    const och_attr_kv *kv = &c->attr.kv_write;
    const och_tensor *slots = &c->in[OCH_KV_WRITE_SLOTS];
    OCH_TRY(och_op_check_slots(c, och_in(OCH_KV_WRITE_SLOTS), &c->out[0], kv, err));
    for (int64_t i = 0; i < slots->rows; i++) {
        int32_t slot = och_op_row_i32(slots, i);
        if (slot < 0) continue;
        const float *k = och_op_row_f32(&c->in[OCH_KV_WRITE_K], i), *v = och_op_row_f32(&c->in[OCH_KV_WRITE_V], i);
        for (int h = 0; h < kv->n_kv_heads; h++)
            och_op_kv_store(&c->out[0], &c->out[1], kv, slot, h, k + (int64_t)h * kv->head_dim,
                            v + (int64_t)h * kv->head_dim);
    }
    return OCH_OK;
}

const och_op_def och_op_def_KV_WRITE = {
    check, cost, {OCH_OP_REFERENCE_ROW(KV_WRITE), .supports = och_op_supports_all, .run = run}};
