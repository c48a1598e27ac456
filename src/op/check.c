/* Operand checks that all ops share. */
#include "op/def.h"

#include "base/size.h"
#include "quant/capability.h"
#include "quant/format.h"
#include "quant/planes.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Far above any model, far below what could overflow 64 bits in a product of two. */
#define MAX_EXTENT (INT64_C(1) << 31)

static const och_tensor *tensor_of(const och_op_call *call, och_operand o) {
    return o.out ? &call->out[o.index] : &call->in[o.index];
}

bool och_op_operand_name(och_op_id op, och_operand o, char out_name[16], bool *out_optional) {
    out_name[0] = '\0';
    *out_optional = false;
    const char *p = och_op_operands(op);
    if (o.out) {
        p = strchr(p, ';');
        if (!p) return false;
        p++;
    }
    for (int i = 0;; i++) {
        while (*p == ' ') p++;
        if (*p == '\0' || *p == ';') return false;
        const char *end = p;
        while (*end != ' ' && *end != '\0') end++;
        if (i == o.index) {
            *out_optional = *p == '[';
            if (*out_optional) { p++; end--; }
            int n = (int)(end - p);
            snprintf(out_name, 16, "%.*s", n, p);
            return true;
        }
        p = end;
    }
}

och_status och_op_fail(const och_op_call *call, och_operand o, och_status status, och_err *err, const char *fmt, ...) {
    char name[16], text[512];
    bool optional;
    if (!och_op_operand_name(call->op, o, name, &optional)) snprintf(name, sizeof name, "%d", o.index);
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return och_err_set(err, status, "op %s, operand %s: %s", och_op_name(call->op), name, text);
}

static och_status expect_extents(const och_op_call *call, och_operand o, int64_t rows, int64_t cols, och_err *err) {
    const och_tensor *t = tensor_of(call, o);
    if (t->rows < 0 || t->rows > MAX_EXTENT || t->cols < 0 || t->cols > MAX_EXTENT)
        return och_op_fail(call, o, OCH_RANGE, err, "expected extents of 0 to %lld, found [%lld, %lld]",
                           (long long)MAX_EXTENT, (long long)t->rows, (long long)t->cols);
    if ((rows >= 0 && t->rows != rows) || (cols >= 0 && t->cols != cols)) {
        char want[2][24];
        if (rows >= 0) snprintf(want[0], sizeof want[0], "%lld", (long long)rows);
        else snprintf(want[0], sizeof want[0], "any");
        if (cols >= 0) snprintf(want[1], sizeof want[1], "%lld", (long long)cols);
        else snprintf(want[1], sizeof want[1], "any");
        return och_op_fail(call, o, OCH_INVALID, err, "expected shape [%s, %s], found [%lld, %lld]", want[0], want[1],
                           (long long)t->rows, (long long)t->cols);
    }
    return OCH_OK;
}

static och_status expect_stride(const och_op_call *call, och_operand o, och_err *err) {
    const och_tensor *t = tensor_of(call, o);
    uint64_t need, all;
    if (!och_dtype_row_bytes(t->dtype, (uint64_t)t->cols, &need))
        return och_op_fail(call, o, OCH_INVALID, err, "expected a multiple of %u columns for %s, found %lld",
                           och_dtype_get(t->dtype)->block_elems, och_dtype_name(t->dtype), (long long)t->cols);
    const och_dtype_info *d = och_dtype_get(t->dtype);
    uint32_t align = d->block_elems == 1 ? d->block_bytes : 1;
    if (t->row_bytes < need || t->row_bytes % align)
        return och_op_fail(call, o, OCH_INVALID, err,
                           "expected rows of at least %llu bytes in a multiple of %u, found %llu",
                           (unsigned long long)need, align, (unsigned long long)t->row_bytes);
    if (!och_u64_mul(t->row_bytes, (uint64_t)t->rows, &all))
        return och_op_fail(call, o, OCH_RANGE, err, "expected a size that fits 64 bits, found %lld rows of %llu bytes",
                           (long long)t->rows, (unsigned long long)t->row_bytes);
    return OCH_OK;
}

och_status och_op_expect(const och_op_call *call, och_operand o, och_dtype dtype, int64_t rows, int64_t cols,
                         och_err *err) {
    const och_tensor *t = tensor_of(call, o);
    if (t->dtype != dtype)
        return och_op_fail(call, o, OCH_INVALID, err, "expected %s, found %s", och_dtype_name(dtype),
                           och_dtype_name(t->dtype));
    if (t->layout != OCH_LAYOUT_NATIVE)
        return och_op_fail(call, o, OCH_INVALID, err, "expected the native layout, found layout %d", (int)t->layout);
    OCH_TRY(expect_extents(call, o, rows, cols, err));
    return expect_stride(call, o, err);
}

och_status och_op_expect_weight(const och_op_call *call, och_operand o, int64_t rows, int64_t cols, och_err *err) {
    const och_tensor *t = tensor_of(call, o);
    const och_format *f = (unsigned)t->dtype < OCH_DTYPE_COUNT_ ? och_format_get(t->dtype) : NULL;
    if (!f)
        return och_op_fail(call, o, OCH_INVALID, err, "expected a weight format, found %s", och_dtype_name(t->dtype));
    OCH_TRY(expect_extents(call, o, rows, cols, err));
    if (t->rows < 1 || t->cols < 1)
        return och_op_fail(call, o, OCH_INVALID, err, "expected at least one row and column, found [%lld, %lld]",
                           (long long)t->rows, (long long)t->cols);
    if (t->cols % f->block_elems)
        return och_op_fail(call, o, OCH_INVALID, err, "expected a multiple of %u columns for %s, found %lld",
                           f->block_elems, f->name, (long long)t->cols);
    return t->layout == OCH_LAYOUT_NATIVE ? expect_stride(call, o, err) : OCH_OK;
}

och_status och_op_expect_kv(const och_op_call *call, const och_attr_kv *kv, och_err *err) {
    if (kv->n_kv_heads < 1 || kv->head_dim < 1 || kv->block_tokens < 1 || kv->n_kv_heads > 65536 ||
        kv->head_dim > 65536 || kv->block_tokens > 65536)
        return och_err_set(err, OCH_INVALID,
                           "op %s: expected n_kv_heads, head_dim and block_tokens of 1 to 65536, found %d, %d, %d",
                           och_op_name(call->op), kv->n_kv_heads, kv->head_dim, kv->block_tokens);
    return OCH_OK;
}

och_status och_op_expect_cache(const och_op_call *call, och_operand o, const och_attr_kv *kv, och_err *err) {
    const och_tensor *t = tensor_of(call, o);
    if (t->dtype != OCH_DTYPE_F32 && t->dtype != OCH_DTYPE_F16 && t->dtype != OCH_DTYPE_BF16 && t->dtype != OCH_DTYPE_F8_E4M3)
        return och_op_fail(call, o, OCH_INVALID, err, "expected F32, F16, BF16 or F8_E4M3, found %s", och_dtype_name(t->dtype));
    return och_op_expect(call, o, t->dtype, -1, (int64_t)kv->n_kv_heads * kv->head_dim * kv->block_tokens, err);
}

och_status och_op_expect_codes(const och_op_call *call, och_operand o, int64_t k, och_err *err) {
    uint64_t row;
    if (k % 32 || !och_planes_act_row_bytes((uint64_t)k, &row) || row > MAX_EXTENT)
        return och_op_fail(call, o, OCH_INVALID, err, "expected rows of whole blocks of 32 elements, found %lld elements",
                           (long long)k);
    OCH_TRY(och_op_expect(call, o, OCH_DTYPE_U8, OCH_OP_CODES_ROWS, (int64_t)row, err));
    if (tensor_of(call, o)->row_bytes % OCH_PLANES_ALIGN == 0) return OCH_OK;
    return och_op_fail(call, o, OCH_INVALID, err, "expected rows of a multiple of %d bytes, found %llu", OCH_PLANES_ALIGN,
                       (unsigned long long)tensor_of(call, o)->row_bytes);
}

bool och_op_normed_codes(int64_t k, och_tensor *out, uint64_t *out_at) {
    uint64_t row;
    *out = (och_tensor){.dtype = OCH_DTYPE_NONE};
    *out_at = 0;
    if (k <= 0 || k % 32 || !och_planes_act_row_bytes((uint64_t)k, &row) || row > MAX_EXTENT) return false;
    *out_at = row; /* a multiple of 16 */
    row += (uint64_t)(k / 32 + 3) / 4 * 16;
    *out = (och_tensor){.dtype = OCH_DTYPE_U8, .rows = 1, .cols = (int64_t)row, .row_bytes = row};
    return true;
}

och_status och_op_expect_normed(const och_op_call *call, och_operand o, int64_t k, och_err *err) {
    och_tensor t;
    uint64_t squares;
    if (!och_op_normed_codes(k, &t, &squares))
        return och_op_fail(call, o, OCH_INVALID, err, "expected rows of whole blocks of 32 elements, found %lld elements",
                           (long long)k);
    return och_op_expect(call, o, OCH_DTYPE_U8, 1, t.cols, err);
}

och_status och_op_expect_norm(const och_op_call *call, const och_attr_rms_norm *norm, och_err *err) {
    if (!(norm->eps >= 0.0f) || !isfinite(norm->eps))
        return och_err_set(err, OCH_INVALID, "op %s: expected a finite eps of at least 0, found %g",
                           och_op_name(call->op), (double)norm->eps);
    return OCH_OK;
}

och_status och_op_expect_rope(const och_op_call *call, const och_attr_rope *rope, och_err *err) {
    if (rope->n_heads < 1 || rope->head_dim < 1 || rope->n_heads > 65536 || rope->head_dim > 65536 ||
        rope->rot_dim < 0 || rope->rot_dim > rope->head_dim || rope->rot_dim % 2)
        return och_err_set(err, OCH_INVALID,
                           "op %s: expected heads and head_dim of at least 1 and an even rot_dim of at most head_dim, "
                           "found n_heads %d, head_dim %d, rot_dim %d",
                           och_op_name(call->op), rope->n_heads, rope->head_dim, rope->rot_dim);
    if (rope->style != OCH_ROPE_HALF && rope->style != OCH_ROPE_INTERLEAVED)
        return och_err_set(err, OCH_INVALID, "op %s: expected rope style half or interleaved, found %d",
                           och_op_name(call->op), (int)rope->style);
    return OCH_OK;
}

/* Bytes from the address to the end of the last row; 0 when nothing is stored. A provider's packing may be smaller than the
 * file's layout, and how much is the provider's affair: of such a weight only the first byte is known to be taken. */
static uint64_t extent_bytes(const och_tensor *t, uint64_t *out_row) {
    *out_row = 0;
    if (!och_tensor_present(t) || t->addr.value == 0 || t->rows == 0 || t->cols == 0) return 0;
    if (!och_dtype_row_bytes(t->dtype, (uint64_t)t->cols, out_row)) return 0;
    if (t->layout != OCH_LAYOUT_NATIVE) return 1;
    return t->row_bytes * (uint64_t)(t->rows - 1) + *out_row;
}

static bool overlap(const och_tensor *a, const och_tensor *b) {
    uint64_t row_a, row_b, size_a = extent_bytes(a, &row_a), size_b = extent_bytes(b, &row_b);
    if (!size_a || !size_b) return false;
    uint64_t lo = a->addr.value, hi = b->addr.value;
    if (lo >= hi + size_b || hi >= lo + size_a) return false;
    /* Columns of one wider matrix: the spans interleave, the rows need not meet. */
    uint64_t stride = a->row_bytes;
    if (a->layout != OCH_LAYOUT_NATIVE || b->layout != OCH_LAYOUT_NATIVE || stride != b->row_bytes || !stride)
        return true;
    uint64_t d = lo <= hi ? (hi - lo) % stride : (stride - (lo - hi) % stride) % stride; /* b after a, in a row */
    return d < row_a || (d > 0 && stride - d < row_b);
}

och_status och_op_expect_overlap(const och_op_call *call, int out, int allowed, int allowed2, och_err *err) {
    const och_tensor *y = &call->out[out];
    char name[16];
    bool optional;
    for (int i = 0; i < OCH_OP_MAX_IN; i++) {
        const och_tensor *t = &call->in[i];
        if (!overlap(y, t)) continue;
        bool same = t->addr.value == y->addr.value && t->row_bytes == y->row_bytes && t->dtype == y->dtype;
        if (same && (i == allowed || i == allowed2)) continue;
        och_op_operand_name(call->op, och_in(i), name, &optional);
        return och_op_fail(call, och_out(out), OCH_INVALID, err, "expected memory of its own, found that it overlaps %s",
                           name);
    }
    for (int i = 0; i < out; i++) {
        if (!overlap(y, &call->out[i])) continue;
        och_op_operand_name(call->op, och_out(i), name, &optional);
        return och_op_fail(call, och_out(out), OCH_INVALID, err, "expected memory of its own, found that it overlaps %s",
                           name);
    }
    return OCH_OK;
}

och_status och_op_expect_host(const och_op_call *call, och_err *err) {
    for (int i = 0; i < OCH_OP_MAX_IN + OCH_OP_MAX_OUT; i++) {
        och_operand o = i < OCH_OP_MAX_IN ? och_in(i) : och_out(i - OCH_OP_MAX_IN);
        const och_tensor *t = tensor_of(call, o);
        if (och_tensor_present(t) && t->rows > 0 && t->cols > 0 && !t->host)
            return och_op_fail(call, o, OCH_INVALID, err, "expected memory that the host may read, found none");
    }
    return OCH_OK;
}

och_status och_op_supports_all(const och_device *device, const och_op_call *call, och_err *err) {
    (void)device;
    (void)call;
    (void)err;
    return OCH_OK;
}

och_status och_op_supports_weight(const och_tensor *w, const char *op, och_err *err) {
    if (w->layout != OCH_LAYOUT_NATIVE)
        return och_err_set(err, OCH_UNSUPPORTED, "reads weights in the file's layout only");
    OCH_TRY(och_capability_check(OCH_OP_REFERENCE, NULL, w->dtype, op, err));
    const och_capability_row *row = och_capability(OCH_OP_REFERENCE, NULL, w->dtype, op);
    if (row->verdict == OCH_VERDICT_CONVERT_AT_LOAD)
        return och_err_set(err, OCH_UNSUPPORTED, "%s is converted to %s when it is loaded", och_dtype_name(w->dtype),
                           och_dtype_name(row->convert_to));
    return OCH_OK;
}

uint64_t och_op_tensor_bytes(const och_tensor *t) {
    uint64_t n;
    if (!och_tensor_present(t) || t->rows <= 0 || t->cols <= 0) return 0;
    return och_dtype_bytes(t->dtype, (uint64_t)t->rows, (uint64_t)t->cols, &n) ? n : 0;
}

uint64_t och_op_call_bytes(const och_op_call *call) {
    uint64_t n = 0;
    for (int i = 0; i < OCH_OP_MAX_IN; i++) n += och_op_tensor_bytes(&call->in[i]);
    for (int i = 0; i < OCH_OP_MAX_OUT; i++) n += och_op_tensor_bytes(&call->out[i]);
    return n;
}
