/* Reading the values of a GGUF header: typed getters by key, elements of arrays. */
#include "file/gguf.h"
#include "file/gguf_priv.h"

#include "base/size.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* What a value is, for a message: "i32 -1", "string of 5 bytes", "array of 3 string". */
static const char *describe(const och_gguf_value *v, char *buf, size_t n) {
    switch (v->type) {
    case OCH_GGUF_U8:
    case OCH_GGUF_U16:
    case OCH_GGUF_U32:
    case OCH_GGUF_U64: snprintf(buf, n, "%s %" PRIu64, och_gguf_type_name(v->type), v->u64); break;
    case OCH_GGUF_I8:
    case OCH_GGUF_I16:
    case OCH_GGUF_I32:
    case OCH_GGUF_I64: snprintf(buf, n, "%s %" PRId64, och_gguf_type_name(v->type), v->i64); break;
    case OCH_GGUF_F32:
    case OCH_GGUF_F64: snprintf(buf, n, "%s %g", och_gguf_type_name(v->type), v->f64); break;
    case OCH_GGUF_BOOL: snprintf(buf, n, "bool %s", v->b ? "true" : "false"); break;
    case OCH_GGUF_STRING: snprintf(buf, n, "string of %zu bytes", v->len); break;
    default: snprintf(buf, n, "array of %" PRIu64 " %s", v->count, och_gguf_type_name(v->elem_type));
    }
    return buf;
}

static och_status absent(const och_gguf *g, const char *key, bool required, const char *expected, och_err *err) {
    if (!required) return OCH_OK;
    return och_err_set(err, OCH_NOTFOUND, "%s: key '%s': expected %s, found no such key", och_gguf_path(g), key, expected);
}

static och_status mismatch(const och_gguf *g, const och_gguf_value *v, const char *expected, och_err *err) {
    char buf[64], show[OCH_NAME_SHOW_BYTES];
    return och_err_set(err, OCH_CORRUPT, "%s: key '%s': expected %s, found %s", och_gguf_path(g),
                       och_name_show(show, v->key, strlen(v->key)), expected, describe(v, buf, sizeof buf));
}

static bool is_unsigned(och_gguf_type t) {
    return t == OCH_GGUF_U8 || t == OCH_GGUF_U16 || t == OCH_GGUF_U32 || t == OCH_GGUF_U64;
}
static bool is_signed(och_gguf_type t) {
    return t == OCH_GGUF_I8 || t == OCH_GGUF_I16 || t == OCH_GGUF_I32 || t == OCH_GGUF_I64;
}

och_status och_gguf_get_u64(const och_gguf *g, const char *key, bool required, uint64_t *inout_v, och_err *err) {
    static const char expected[] = "an integer that is not negative";
    const och_gguf_value *v = och_gguf_find(g, key);
    if (!v) return absent(g, key, required, expected, err);
    if (is_unsigned(v->type)) *inout_v = v->u64;
    else if (is_signed(v->type) && v->i64 >= 0) *inout_v = (uint64_t)v->i64;
    else return mismatch(g, v, expected, err);
    return OCH_OK;
}

och_status och_gguf_get_i64(const och_gguf *g, const char *key, bool required, int64_t *inout_v, och_err *err) {
    static const char expected[] = "an integer of 64 bits with sign";
    const och_gguf_value *v = och_gguf_find(g, key);
    if (!v) return absent(g, key, required, expected, err);
    if (is_signed(v->type)) *inout_v = v->i64;
    else if (is_unsigned(v->type) && v->u64 <= INT64_MAX) *inout_v = (int64_t)v->u64;
    else return mismatch(g, v, expected, err);
    return OCH_OK;
}

och_status och_gguf_get_f64(const och_gguf *g, const char *key, bool required, double *inout_v, och_err *err) {
    static const char expected[] = "a finite number";
    const och_gguf_value *v = och_gguf_find(g, key);
    if (!v) return absent(g, key, required, expected, err);
    if ((v->type == OCH_GGUF_F32 || v->type == OCH_GGUF_F64) && isfinite(v->f64)) *inout_v = v->f64;
    else if (is_signed(v->type)) *inout_v = (double)v->i64;
    else if (is_unsigned(v->type)) *inout_v = (double)v->u64;
    else return mismatch(g, v, expected, err);
    return OCH_OK;
}

och_status och_gguf_get_bool(const och_gguf *g, const char *key, bool required, bool *inout_v, och_err *err) {
    const och_gguf_value *v = och_gguf_find(g, key);
    if (!v) return absent(g, key, required, "a bool", err);
    if (v->type != OCH_GGUF_BOOL) return mismatch(g, v, "a bool", err);
    *inout_v = v->b;
    return OCH_OK;
}

och_status och_gguf_get_str(const och_gguf *g, const char *key, bool required, const char **inout_str, och_err *err) {
    static const char expected[] = "a string without NUL bytes";
    const och_gguf_value *v = och_gguf_find(g, key);
    if (!v) return absent(g, key, required, expected, err);
    if (v->type != OCH_GGUF_STRING || strlen(v->str) != v->len) return mismatch(g, v, expected, err);
    *inout_str = v->str;
    return OCH_OK;
}

och_status och_gguf_get_array(const och_gguf *g, const char *key, bool required, och_gguf_type elem_type,
                              const och_gguf_value **out_v, och_err *err) {
    char expected[48] = "an array";
    *out_v = NULL;
    if (elem_type != OCH_GGUF_TYPE_COUNT_) snprintf(expected, sizeof expected, "an array of %s", och_gguf_type_name(elem_type));
    const och_gguf_value *v = och_gguf_find(g, key);
    if (!v) return absent(g, key, required, expected, err);
    if (v->type != OCH_GGUF_ARRAY || (elem_type != OCH_GGUF_TYPE_COUNT_ && v->elem_type != elem_type))
        return mismatch(g, v, expected, err);
    *out_v = v;
    return OCH_OK;
}

/* A cursor that stands at element i of an array of strings or arrays. */
static bool seek_element(const och_gguf_value *v, uint64_t i, och_cursor *out_c) {
    *out_c = och_cursor_view(v->data, v->size_bytes);
    if (v->type != OCH_GGUF_ARRAY || i >= v->count) return false;
    uint64_t at = 0;
    if (v->marks) {
        at = i / OCH_GGUF_MARK_EVERY * OCH_GGUF_MARK_EVERY;
        if (!och_cursor_seek(out_c, v->marks[i / OCH_GGUF_MARK_EVERY])) return false;
    }
    for (; at < i; at++)
        if (!och_gguf_skip_element(out_c, v->elem_type, 2)) return false;
    return true;
}

bool och_gguf_array_str(const och_gguf_value *v, uint64_t i, const char **out_str, size_t *out_len) {
    och_cursor c;
    uint64_t n;
    const void *p = NULL;
    *out_str = NULL;
    *out_len = 0;
    if (v->elem_type != OCH_GGUF_STRING || !seek_element(v, i, &c)) return false;
    if (!och_cursor_u64(&c, &n) || !och_cursor_bytes(&c, n, &p)) return false;
    *out_str = p;
    *out_len = (size_t)n;
    return true;
}

bool och_gguf_str_next(och_gguf_str_iter *it, const char **out_str, size_t *out_len) {
    const och_gguf_value *v = it->value;
    uint64_t n;
    const void *p = NULL;
    *out_str = NULL;
    *out_len = 0;
    if (v->type != OCH_GGUF_ARRAY || v->elem_type != OCH_GGUF_STRING || it->i >= v->count) return false;
    och_cursor c = och_cursor_view(v->data, v->size_bytes);
    if (!och_cursor_seek(&c, it->pos) || !och_cursor_u64(&c, &n) || !och_cursor_bytes(&c, n, &p)) return false;
    it->pos = c.pos;
    it->i++;
    *out_str = p;
    *out_len = (size_t)n;
    return true;
}

static bool fixed_element(const och_gguf_value *v, uint64_t i, uint64_t *out_bits) {
    uint32_t n_bytes = v->type == OCH_GGUF_ARRAY ? och_gguf_type_bytes((uint32_t)v->elem_type) : 0;
    *out_bits = 0;
    if (!n_bytes || i >= v->count || (i + 1) * n_bytes > v->size_bytes) return false;
    *out_bits = och_load_le(v->data + i * n_bytes, (int)n_bytes);
    return true;
}

bool och_gguf_array_f32(const och_gguf_value *v, uint64_t i, float *out_v) {
    uint64_t bits;
    *out_v = 0;
    if (!fixed_element(v, i, &bits)) return false;
    if (v->elem_type == OCH_GGUF_F32) {
        uint32_t half = (uint32_t)bits;
        memcpy(out_v, &half, 4);
        return true;
    }
    if (v->elem_type != OCH_GGUF_F64) return false;
    double d;
    memcpy(&d, &bits, 8);
    /* a finite double beyond float's range converts to infinity, as IEEE rounds */
    *out_v = d > 3.4028235677973366e38 ? INFINITY : d < -3.4028235677973366e38 ? -INFINITY : (float)d;
    return true;
}

bool och_gguf_array_i64(const och_gguf_value *v, uint64_t i, int64_t *out_v) {
    uint64_t bits;
    *out_v = 0;
    if (!fixed_element(v, i, &bits)) return false;
    switch (v->elem_type) {
    case OCH_GGUF_U8:
    case OCH_GGUF_U16:
    case OCH_GGUF_U32:
    case OCH_GGUF_BOOL: *out_v = (int64_t)bits; return true;
    case OCH_GGUF_I8: *out_v = (int8_t)bits; return true;
    case OCH_GGUF_I16: *out_v = (int16_t)bits; return true;
    case OCH_GGUF_I32: *out_v = (int32_t)bits; return true;
    case OCH_GGUF_I64: *out_v = (int64_t)bits; return true;
    case OCH_GGUF_U64:
        if (bits > INT64_MAX) return false;
        *out_v = (int64_t)bits;
        return true;
    default: return false;
    }
}

bool och_gguf_array_sub(const och_gguf_value *v, uint64_t i, och_gguf_value *out_v) {
    och_cursor c;
    uint32_t elem;
    uint64_t n;
    memset(out_v, 0, sizeof *out_v);
    if (v->elem_type != OCH_GGUF_ARRAY || !seek_element(v, i, &c)) return false;
    och_cursor end = c;
    if (!och_gguf_skip_element(&end, OCH_GGUF_ARRAY, 2)) return false;
    if (!och_cursor_u32(&c, &elem) || !och_cursor_u64(&c, &n)) return false;
    *out_v = (och_gguf_value){.key = "", .type = OCH_GGUF_ARRAY, .elem_type = (och_gguf_type)elem, .count = n,
                              .data = c.data + c.pos, .size_bytes = end.pos - c.pos};
    return true;
}
