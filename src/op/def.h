/* An op's definition (one const object a file, src/op/<op>.c) and what those files share: operand checks, host pointers,
 * splitting the reference over the device's threads. Private to the op room; providers of src/op/cpu may use it. */
#ifndef OCH_OP_DEF_H
#define OCH_OP_DEF_H

#include "base/thread.h"
#include "op/op.h"

#include <stdbool.h>
#include <stdint.h>

#define OCH_OP_REFERENCE "reference"
#define OCH_OP_REFERENCE_PRIORITY (-100)

typedef struct och_op_def {
    /* Called when presence is right; dtypes, shapes, attributes, overlaps. */
    och_status (*check)(const och_op_call *call, och_err *err);
    void (*cost)(const och_op_call *call, uint64_t *out_bytes, uint64_t *out_flops);
    och_op_provider reference;
} och_op_def;

#define OCH_OP(sym, name, operands) extern const och_op_def och_op_def_##sym;
#include "op/ops.def"
#undef OCH_OP

/* The fields that every reference provider shares. */
#define OCH_OP_REFERENCE_ROW(sym)                                                                                      \
    .name = OCH_OP_REFERENCE, .backend = "*", .priority = OCH_OP_REFERENCE_PRIORITY, .op = OCH_OP_##sym

/* ---- checks (check.c) ---- */

/* An operand of a call: in[] for `out` false, out[] for true. */
typedef struct och_operand {
    bool out;
    int index;
} och_operand;

static inline och_operand och_in(int i) { return (och_operand){false, i}; }
static inline och_operand och_out(int i) { return (och_operand){true, i}; }

/* Name of operand i from ops.def, without brackets; false past the last. */
bool och_op_operand_name(och_op_id op, och_operand o, char out_name[16], bool *out_optional);

/* NATIVE, the dtype, the shape (-1: any), a row stride that holds a row and keeps elements aligned. */
och_status och_op_expect(const och_op_call *call, och_operand o, och_dtype dtype, int64_t rows, int64_t cols,
                         och_err *err) OCH_WARN_UNUSED;
/* A weight: any dtype that has a format row, whole blocks a row, at least one row. */
och_status och_op_expect_weight(const och_op_call *call, och_operand o, int64_t rows, int64_t cols,
                                och_err *err) OCH_WARN_UNUSED;
/* A cache: F32, F16, BF16 or F8_E4M3, [n_blocks, n_kv_heads * block_tokens * head_dim]. */
och_status och_op_expect_cache(const och_op_call *call, och_operand o, const och_attr_kv *kv,
                               och_err *err) OCH_WARN_UNUSED;
och_status och_op_expect_kv(const och_op_call *call, const och_attr_kv *kv, och_err *err) OCH_WARN_UNUSED;
och_status och_op_expect_norm(const och_op_call *call, const och_attr_rms_norm *norm, och_err *err) OCH_WARN_UNUSED;
och_status och_op_expect_rope(const och_op_call *call, const och_attr_rope *rope, och_err *err) OCH_WARN_UNUSED;
/* Codes of rows of k elements. */
och_status och_op_expect_codes(const och_op_call *call, och_operand o, int64_t k, och_err *err) OCH_WARN_UNUSED;
/* The same of codes through a norm. */
och_status och_op_expect_normed(const och_op_call *call, och_operand o, int64_t k, och_err *err) OCH_WARN_UNUSED;
/* Output o shares no byte with any other operand, but that it may be the same rows as input `allowed` or `allowed2`
 * (-1: none). Operands without an address are skipped: a call can be checked before memory exists. */
och_status och_op_expect_overlap(const och_op_call *call, int out, int allowed, int allowed2,
                                 och_err *err) OCH_WARN_UNUSED;
/* "op NAME, operand OPERAND: " and the rest, as OCH_INVALID or OCH_RANGE. */
och_status och_op_fail(const och_op_call *call, och_operand o, och_status status, och_err *err, const char *fmt, ...)
    OCH_PRINTF(5, 6);
/* Every operand with bytes has a host pointer. */
och_status och_op_expect_host(const och_op_call *call, och_err *err) OCH_WARN_UNUSED;

/* The QKV_POST that a LINEAR with slots does of one row (och_op_one_row), of its results. */
och_op_call och_op_post_of(const och_op_call *linear);

/* Accepts all that och_op_check accepts. */
och_status och_op_supports_all(const och_device *device, const och_op_call *call, och_err *err);
/* Weights lie in the file's layout and the capability table's row of the reference does not refuse the dtype. */
och_status och_op_supports_weight(const och_tensor *w, const char *op, och_err *err);

/* Stored bytes of a tensor, each element once; 0 when absent. */
uint64_t och_op_tensor_bytes(const och_tensor *t);
/* Sum over all operands that are present. */
uint64_t och_op_call_bytes(const och_op_call *call);

/* ---- the reference's means (reference.c) ---- */

static inline const float *och_op_row_f32(const och_tensor *t, int64_t row) {
    return (const float *)((const char *)t->host + (uint64_t)row * t->row_bytes);
}
static inline float *och_op_row_f32_mut(const och_tensor *t, int64_t row) {
    return (float *)((char *)t->host + (uint64_t)row * t->row_bytes);
}
static inline int32_t och_op_row_i32(const och_tensor *t, int64_t row) {
    return *(const int32_t *)((const char *)t->host + (uint64_t)row * t->row_bytes);
}

/* Threads that the reference uses on the device: its pool's where the device is the CPU, else 1. */
int och_op_ref_threads(const och_device *device);
/* Runs fn in each of them. fn takes its share by och_op_ref_share and calls no barrier. */
void och_op_ref_run(const och_op_ctx *ctx, och_pool_fn fn, void *arg);
static inline void och_op_ref_share(int64_t n, const och_pool_member *me, int64_t *out_begin, int64_t *out_end) {
    *out_begin = n * me->index / me->n;
    *out_end = n * (me->index + 1) / me->n;
}

/* Pieces that fused ops are composed of, so that a fused op gives the same bytes as its parts. */
float och_op_act(och_act act, float x);
/* y[0..d) = rms_norm(x[0..d)); y may be x. */
void och_op_rms_norm_group(const float *x, const float *w, float *y, int64_t d, const och_attr_rms_norm *attr);
/* One head; y may be x. */
void och_op_rope_head(const float *x, const float *table, float *y, const och_attr_rope *attr);
/* Stores head h of the token at `slot`. */
void och_op_kv_store(const och_tensor *kcache, const och_tensor *vcache, const och_attr_kv *kv, int64_t slot, int h,
                     const float *k, const float *v);
/* Slots name blocks of the cache. */
och_status och_op_check_slots(const och_op_call *call, och_operand slots, const och_tensor *cache,
                              const och_attr_kv *kv, och_err *err) OCH_WARN_UNUSED;
/* n elements of a cache from element i on, as float. */
void och_op_cache_load(const och_tensor *cache, uint64_t i, float *dst, int64_t n);

#endif
