/* Parses and validates a GGUF header. Owns the mapping, the names and string values (arena), the two tables and their
 * indexes; arrays stay in the mapping. Tables grow with what was really parsed, never by what a count claims. */
#include "file/gguf.h"

#include "base/alloc.h"
#include "base/size.h"
#include "file/gguf_priv.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEADER_BYTES = 24, MAX_DIMS = 4 };

static const char *const type_names[OCH_GGUF_TYPE_COUNT_] = {"u8",     "i8",    "u16",  "i16",    "u32",   "i32", "f32",
                                                             "bool",   "string", "array", "u64",  "i64",   "f64"};
static const uint8_t type_bytes[OCH_GGUF_TYPE_COUNT_] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

const char *och_gguf_type_name(och_gguf_type t) { return (unsigned)t < OCH_GGUF_TYPE_COUNT_ ? type_names[t] : "?"; }

uint32_t och_gguf_type_bytes(uint32_t t) { return t < OCH_GGUF_TYPE_COUNT_ ? type_bytes[t] : 0; }

/* The types of a tensor record that dtype.def has no row for, so that a message can name them (ggml-org/ggml ggml.h). */
const char *och_gguf_tensor_type_name(uint32_t raw_type) {
    static const struct {
        uint32_t raw;
        const char *name;
    } others[] = {{9, "Q8_1"},   {15, "Q8_K"},    {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"},
                  {21, "IQ3_S"}, {22, "IQ2_S"},   {23, "IQ4_XS"},  {29, "IQ1_M"},  {34, "TQ1_0"},   {35, "TQ2_0"},
                  {40, "NVFP4"}};
    och_dtype t = och_dtype_from_gguf(raw_type);
    if (t != OCH_DTYPE_NONE) return och_dtype_name(t);
    for (size_t i = 0; i < OCH_COUNT(others); i++)
        if (others[i].raw == raw_type) return others[i].name;
    return NULL;
}

static och_status truncated(const och_gguf *g, const och_cursor *c, const char *where, const char *field, uint64_t n,
                            och_err *err) {
    return och_err_set(err, OCH_CORRUPT,
                       "%s: %s: %s: expected %" PRIu64 " bytes at offset %" PRIu64 ", found %" PRIu64
                       " before the end of the file",
                       g->map->path, where, field, n, c->pos, och_cursor_left(c));
}

/* A length-prefixed string, borrowed from the mapping. */
static och_status read_str(const och_gguf *g, och_cursor *c, const char *where, const char *field, uint64_t max,
                           const char **out_s, uint64_t *out_n, och_err *err) {
    const void *p;
    *out_s = "";
    if (!och_cursor_u64(c, out_n)) return truncated(g, c, where, field, 8, err);
    if (*out_n > och_cursor_left(c))
        return och_err_set(err, OCH_CORRUPT,
                           "%s: %s: %s: expected a length of at most %" PRIu64
                           " (the bytes left in the file), found %" PRIu64 " at offset %" PRIu64,
                           g->map->path, where, field, och_cursor_left(c), *out_n, c->pos - 8);
    if (*out_n > max)
        return och_err_set(err, OCH_CORRUPT,
                           "%s: %s: %s: expected a length of at most %" PRIu64 ", found %" PRIu64 " at offset %" PRIu64,
                           g->map->path, where, field, max, *out_n, c->pos - 8);
    (void)och_cursor_bytes(c, *out_n, &p);
    *out_s = p;
    return OCH_OK;
}

/* A key or a tensor name: not empty, no NUL inside, copied. */
static och_status read_name(och_gguf *g, och_cursor *c, const char *where, const char *field, uint64_t max,
                            const char **out_name, och_err *err) {
    const char *s;
    uint64_t n;
    *out_name = NULL;
    OCH_TRY(read_str(g, c, where, field, max, &s, &n, err));
    if (n == 0 || memchr(s, 0, (size_t)n))
        return och_err_set(err, OCH_CORRUPT, "%s: %s: %s: expected a name without NUL bytes, found %s", g->map->path,
                           where, field, n ? "one with a NUL" : "an empty one");
    *out_name = och_arena_strndup(&g->arena, s, (size_t)n);
    return *out_name ? OCH_OK : och_err_nomem(err, n + 1, "a name");
}

bool och_gguf_skip_element(och_cursor *c, och_gguf_type t, int depth) {
    uint64_t n, bytes;
    uint32_t elem;
    if (t == OCH_GGUF_STRING) return och_cursor_u64(c, &n) && och_cursor_skip(c, n);
    if (t != OCH_GGUF_ARRAY || depth > OCH_GGUF_MAX_ARRAY_DEPTH) return false;
    if (!och_cursor_u32(c, &elem) || !och_cursor_u64(c, &n)) return false;
    if (och_gguf_type_bytes(elem)) return och_u64_mul(n, och_gguf_type_bytes(elem), &bytes) && och_cursor_skip(c, bytes);
    for (uint64_t i = 0; i < n; i++)
        if (!och_gguf_skip_element(c, (och_gguf_type)elem, depth + 1)) return false;
    return true;
}

static och_status check_bool(const och_gguf *g, const char *where, const uint8_t *p, uint64_t n, uint64_t offset,
                             och_err *err) {
    for (uint64_t i = 0; i < n; i++)
        if (p[i] > 1)
            return och_err_set(err, OCH_CORRUPT, "%s: %s: bool: expected 0 or 1, found %u at offset %" PRIu64,
                               g->map->path, where, p[i], offset + i);
    return OCH_OK;
}

/* Validates an array whose element type field comes next and describes it in *v. Depth counts from 1. */
static och_status read_array(och_gguf *g, och_cursor *c, const char *where, int depth, och_gguf_value *v, och_err *err) {
    uint32_t elem;
    uint64_t n;
    if (depth > OCH_GGUF_MAX_ARRAY_DEPTH)
        return och_err_set(err, OCH_CORRUPT, "%s: %s: array: expected a nesting of at most %d, found more at offset %" PRIu64,
                           g->map->path, where, OCH_GGUF_MAX_ARRAY_DEPTH, c->pos);
    if (!och_cursor_u32(c, &elem)) return truncated(g, c, where, "array element type", 4, err);
    if (elem >= OCH_GGUF_TYPE_COUNT_)
        return och_err_set(err, OCH_CORRUPT,
                           "%s: %s: array element type: expected 0 to %d, found %" PRIu32 " at offset %" PRIu64,
                           g->map->path, where, OCH_GGUF_TYPE_COUNT_ - 1, elem, c->pos - 4);
    if (!och_cursor_u64(c, &n)) return truncated(g, c, where, "array count", 8, err);
    /* the least that an element takes: a string is a length, an array is a type and a count */
    uint64_t least = elem == OCH_GGUF_STRING ? 8 : elem == OCH_GGUF_ARRAY ? 12 : och_gguf_type_bytes(elem);
    if (n > och_cursor_left(c) / least)
        return och_err_set(err, OCH_CORRUPT,
                           "%s: %s: array count: expected at most %" PRIu64 " elements of type %s in the %" PRIu64
                           " bytes left in the file, found %" PRIu64 " at offset %" PRIu64,
                           g->map->path, where, och_cursor_left(c) / least, type_names[elem], och_cursor_left(c), n,
                           c->pos - 8);
    uint64_t start = c->pos;
    v->elem_type = (och_gguf_type)elem;
    v->count = n;
    v->data = c->data + start;
    if (elem != OCH_GGUF_STRING && elem != OCH_GGUF_ARRAY) {
        (void)och_cursor_skip(c, n * least);
        if (elem == OCH_GGUF_BOOL) OCH_TRY(check_bool(g, where, v->data, n, start, err));
    } else {
        uint64_t *marks = NULL;
        if (depth == 1 && n > OCH_GGUF_MARK_EVERY) {
            uint64_t n_marks = och_u64_ceil_div(n, OCH_GGUF_MARK_EVERY);
            marks = och_arena_alloc(&g->arena, (size_t)n_marks, sizeof *marks);
            if (!marks) return och_err_nomem(err, n_marks * sizeof *marks, "the marks of an array");
        }
        for (uint64_t i = 0; i < n; i++) {
            if (marks && i % OCH_GGUF_MARK_EVERY == 0) marks[i / OCH_GGUF_MARK_EVERY] = c->pos - start;
            if (elem == OCH_GGUF_STRING) {
                const char *s;
                uint64_t len;
                OCH_TRY(read_str(g, c, where, "array string", UINT64_MAX, &s, &len, err));
            } else {
                och_gguf_value inner = {0};
                OCH_TRY(read_array(g, c, where, depth + 1, &inner, err));
            }
        }
        v->marks = marks;
    }
    v->size_bytes = c->pos - start;
    return OCH_OK;
}

static och_status read_value(och_gguf *g, och_cursor *c, const char *where, och_gguf_value *v, och_err *err) {
    uint32_t type;
    if (!och_cursor_u32(c, &type)) return truncated(g, c, where, "value type", 4, err);
    if (type >= OCH_GGUF_TYPE_COUNT_)
        return och_err_set(err, OCH_CORRUPT, "%s: %s: value type: expected 0 to %d, found %" PRIu32 " at offset %" PRIu64,
                           g->map->path, where, OCH_GGUF_TYPE_COUNT_ - 1, type, c->pos - 4);
    v->type = (och_gguf_type)type;
    if (type == OCH_GGUF_ARRAY) return read_array(g, c, where, 1, v, err);
    if (type == OCH_GGUF_STRING) {
        const char *s;
        uint64_t n;
        OCH_TRY(read_str(g, c, where, "string", UINT64_MAX, &s, &n, err));
        v->str = och_arena_strndup(&g->arena, s, (size_t)n);
        v->len = (size_t)n;
        return v->str ? OCH_OK : och_err_nomem(err, n + 1, "a string value");
    }
    uint64_t u, offset = c->pos;
    int n_bytes = type_bytes[type];
    if (!och_cursor_le(c, n_bytes, &u)) return truncated(g, c, where, type_names[type], (uint64_t)n_bytes, err);
    switch (type) {
    case OCH_GGUF_I8: v->i64 = (int8_t)u; break;
    case OCH_GGUF_I16: v->i64 = (int16_t)u; break;
    case OCH_GGUF_I32: v->i64 = (int32_t)u; break;
    case OCH_GGUF_I64: v->i64 = (int64_t)u; break;
    case OCH_GGUF_F32: {
        uint32_t bits = (uint32_t)u;
        float f;
        memcpy(&f, &bits, 4);
        v->f64 = (double)f;
        break;
    }
    case OCH_GGUF_F64: memcpy(&v->f64, &u, 8); break;
    case OCH_GGUF_BOOL:
        OCH_TRY(check_bool(g, where, c->data + offset, 1, offset, err));
        v->b = u != 0;
        break;
    default: v->u64 = u;
    }
    return OCH_OK;
}

/* Room for one more element of `size` bytes in a table that doubles. */
static och_status make_room(void **table, uint64_t n, uint64_t *capacity, size_t size, const char *what, och_err *err) {
    if (n < *capacity) return OCH_OK;
    uint64_t wider = *capacity ? *capacity * 2 : 32;
    void *p = och_realloc_array(*table, (size_t)wider, size);
    if (!p) return och_err_nomem(err, wider * size, what);
    *table = p;
    *capacity = wider;
    return OCH_OK;
}

static och_status read_kvs(och_gguf *g, och_cursor *c, uint64_t n, och_err *err) {
    uint64_t capacity = 0;
    char where[OCH_NAME_SHOW_BYTES + 32], show[OCH_NAME_SHOW_BYTES];
    for (uint64_t i = 0; i < n; i++) {
        void *table = g->kv;
        bool is_new;
        OCH_TRY(make_room(&table, i, &capacity, sizeof *g->kv, "the key-values", err));
        g->kv = table;
        och_gguf_value *v = &g->kv[i];
        memset(v, 0, sizeof *v);
        snprintf(where, sizeof where, "key-value %" PRIu64, i);
        OCH_TRY(read_name(g, c, where, "key", OCH_GGUF_MAX_KEY, &v->key, err));
        OCH_TRY(och_name_index_add(&g->keys, v->key, (uint32_t)i, &is_new, err));
        snprintf(where, sizeof where, "key '%s'", och_name_show(show, v->key, strlen(v->key)));
        if (!is_new) {
            uint32_t first;
            (void)och_name_index_find(&g->keys, v->key, &first);
            return och_err_set(err, OCH_CORRUPT,
                               "%s: %s: expected each key once, found it as key-value %" PRIu32 " and %" PRIu64,
                               g->map->path, where, first, i);
        }
        OCH_TRY(read_value(g, c, where, v, err));
        g->n_kv = i + 1;
    }
    return OCH_OK;
}

static och_status read_alignment(och_gguf *g, och_err *err) {
    g->alignment = 32;
    const och_gguf_value *v = och_gguf_find(g, "general.alignment");
    if (!v) return OCH_OK;
    OCH_TRY(och_gguf_get_u64(g, "general.alignment", true, &g->alignment, err));
    if (g->alignment < 8 || g->alignment > UINT32_MAX || (g->alignment & (g->alignment - 1)))
        return och_err_set(err, OCH_CORRUPT,
                           "%s: key 'general.alignment': expected a power of two from 8 to 2^31, found %" PRIu64,
                           g->map->path, g->alignment);
    return OCH_OK;
}

/* Reads one tensor record; the offset stays relative to the data section until that is known. */
static och_status read_tensor(och_gguf *g, och_cursor *c, uint64_t i, och_file_tensor *t, och_err *err) {
    char where[OCH_NAME_SHOW_BYTES + 32], show[OCH_NAME_SHOW_BYTES];
    uint32_t n_dims;
    uint64_t ne[MAX_DIMS], n_elems = 1;
    snprintf(where, sizeof where, "tensor %" PRIu64, i);
    OCH_TRY(read_name(g, c, where, "name", OCH_GGUF_MAX_TENSOR_NAME, &t->name, err));
    snprintf(where, sizeof where, "tensor '%s'", och_name_show(show, t->name, strlen(t->name)));
    if (!och_cursor_u32(c, &n_dims)) return truncated(g, c, where, "n_dims", 4, err);
    if (n_dims < 1 || n_dims > MAX_DIMS)
        return och_err_set(err, OCH_CORRUPT, "%s: %s: n_dims: expected 1 to %d, found %" PRIu32 " at offset %" PRIu64,
                           g->map->path, where, MAX_DIMS, n_dims, c->pos - 4);
    for (uint32_t d = 0; d < n_dims; d++) {
        if (!och_cursor_u64(c, &ne[d])) return truncated(g, c, where, "dimension", 8, err);
        if (ne[d] == 0)
            return och_err_set(err, OCH_CORRUPT,
                               "%s: %s: dimension %" PRIu32 ": expected at least 1, found 0 at offset %" PRIu64,
                               g->map->path, where, d, c->pos - 8);
        if (!och_u64_mul(n_elems, ne[d], &n_elems) || n_elems > INT64_MAX)
            return och_err_set(err, OCH_CORRUPT,
                               "%s: %s: dimension %" PRIu32
                               ": expected fewer than 2^63 elements in all, found %" PRIu64 " at offset %" PRIu64,
                               g->map->path, where, d, ne[d], c->pos - 8);
    }
    if (!och_cursor_u32(c, &t->raw_type)) return truncated(g, c, where, "type", 4, err);
    if (!och_cursor_u64(c, &t->file_offset)) return truncated(g, c, where, "offset", 8, err);

    t->rank = (int)n_dims;
    for (int d = 0; d < MAX_DIMS; d++) t->shape[d] = d < t->rank ? ne[t->rank - 1 - d] : 1;
    t->dtype = och_dtype_from_gguf(t->raw_type);
    t->type_name = och_gguf_tensor_type_name(t->raw_type);
    if (!t->type_name) {
        char number[24];
        int n = snprintf(number, sizeof number, "type %" PRIu32, t->raw_type);
        t->type_name = och_arena_strndup(&g->arena, number, (size_t)n);
        if (!t->type_name) return och_err_nomem(err, (uint64_t)n, "a type name");
    }
    if (t->dtype != OCH_DTYPE_NONE && !och_dtype_bytes(t->dtype, n_elems / ne[0], ne[0], &t->size_bytes))
        return och_err_set(err, OCH_CORRUPT,
                           "%s: %s: dimension 0: expected a multiple of %" PRIu32 " (the block of %s) and fewer than 2^64 "
                           "bytes in all, found %" PRIu64,
                           g->map->path, where, och_dtype_get(t->dtype)->block_elems, t->type_name, ne[0]);
    if (t->file_offset % g->alignment)
        return och_err_set(err, OCH_CORRUPT,
                           "%s: %s: offset: expected a multiple of %" PRIu64 " (general.alignment), found %" PRIu64,
                           g->map->path, where, g->alignment, t->file_offset);
    return OCH_OK;
}

static och_status read_tensors(och_gguf *g, och_cursor *c, uint64_t n, och_err *err) {
    uint64_t capacity = 0;
    char show[OCH_NAME_SHOW_BYTES];
    for (uint64_t i = 0; i < n; i++) {
        void *table = g->tensors;
        bool is_new;
        OCH_TRY(make_room(&table, i, &capacity, sizeof *g->tensors, "the tensor records", err));
        g->tensors = table;
        och_file_tensor *t = &g->tensors[i];
        memset(t, 0, sizeof *t);
        OCH_TRY(read_tensor(g, c, i, t, err));
        OCH_TRY(och_name_index_add(&g->names, t->name, (uint32_t)i, &is_new, err));
        if (!is_new) {
            uint32_t first;
            (void)och_name_index_find(&g->names, t->name, &first);
            return och_err_set(err, OCH_CORRUPT,
                               "%s: tensor '%s': expected each name once, found it as tensor %" PRIu32 " and %" PRIu64,
                               g->map->path, och_name_show(show, t->name, strlen(t->name)), first, i);
        }
        g->n_tensors = i + 1;
    }
    return OCH_OK;
}

static int by_offset(const void *a, const void *b, void *ctx) {
    const och_file_tensor *t = ctx;
    uint64_t x = t[*(const uint32_t *)a].file_offset, y = t[*(const uint32_t *)b].file_offset;
    return (x > y) - (x < y);
}

/* Extents against the file and against each other; gives every tensor its bytes. */
static och_status place_tensors(och_gguf *g, och_err *err) {
    och_status st = OCH_OK;
    char show[OCH_NAME_SHOW_BYTES], show2[OCH_NAME_SHOW_BYTES];
    uint64_t n = g->n_tensors, size = g->map->size;
    if (!n) return OCH_OK;
    uint32_t *order = och_malloc_array((size_t)n, sizeof *order);
    if (!order) return och_err_nomem(err, n * sizeof *order, "the order of tensors");
    for (uint64_t i = 0; i < n; i++) {
        och_file_tensor *t = &g->tensors[i];
        order[i] = (uint32_t)i;
        uint64_t room = g->data_offset <= size ? size - g->data_offset : 0;
        if (t->file_offset > room || t->size_bytes > room - t->file_offset || g->data_offset > size) {
            st = och_err_set(err, OCH_CORRUPT,
                             "%s: tensor '%s': offset: expected offset + size within the %" PRIu64
                             " bytes of tensor data in the file, found %" PRIu64 " + %" PRIu64,
                             g->map->path, och_name_show(show, t->name, strlen(t->name)), room, t->file_offset,
                             t->size_bytes);
            goto done;
        }
        t->file_offset += g->data_offset;
        t->data = g->map->data + t->file_offset;
        t->path = g->map->path;
        t->mapping = g->map;
    }
    qsort_r(order, (size_t)n, sizeof *order, by_offset, g->tensors);
    for (uint64_t i = 0; i < n; i++) {
        och_file_tensor *t = &g->tensors[order[i]];
        const och_file_tensor *next = i + 1 < n ? &g->tensors[order[i + 1]] : NULL;
        uint64_t next_offset = next ? next->file_offset : size;
        if (t->dtype == OCH_DTYPE_NONE) t->size_bytes = next_offset - t->file_offset;
        if (next && (t->size_bytes > next_offset - t->file_offset || t->file_offset == next_offset)) {
            st = och_err_set(err, OCH_CORRUPT,
                             "%s: tensor '%s': offset: expected no overlap, found bytes %" PRIu64 " to %" PRIu64
                             " of the file against tensor '%s' from byte %" PRIu64,
                             g->map->path, och_name_show(show, t->name, strlen(t->name)), t->file_offset,
                             t->file_offset + t->size_bytes, och_name_show(show2, next->name, strlen(next->name)),
                             next_offset);
            goto done;
        }
    }
done:
    och_free(order);
    return st;
}

static och_status check_count(const och_gguf *g, const och_cursor *c, const char *field, uint64_t n, uint64_t least_bytes,
                              uint64_t max, och_err *err) {
    uint64_t fits = och_cursor_left(c) / least_bytes;
    if (n <= OCH_MIN(fits, max)) return OCH_OK;
    return och_err_set(err, OCH_CORRUPT,
                       "%s: header: %s: expected at most %" PRIu64 " (%s), found %" PRIu64, g->map->path, field,
                       OCH_MIN(fits, max), fits < max ? "what the file has room for" : "the limit of this program", n);
}

static och_status parse(och_gguf *g, och_err *err) {
    const char *path = g->map->path;
    och_cursor c = och_cursor_view(g->map->data, g->map->size);
    const void *magic;
    uint64_t n_tensors, n_kv;
    if (g->map->size < 4 || !och_cursor_bytes(&c, 4, &magic) || memcmp(magic, "GGUF", 4)) {
        if (g->map->size >= 4 && !memcmp(g->map->data, "FUGG", 4))
            return och_err_set(err, OCH_UNSUPPORTED, "%s: magic: expected a little-endian GGUF file, found a big-endian one",
                               path);
        char found[32] = "";
        for (uint64_t i = 0; i < g->map->size && i < 4; i++)
            snprintf(found + 3 * i, 4, " %02x", g->map->data[i]);
        return och_err_set(err, OCH_CORRUPT, "%s: magic: expected 'GGUF' (47 47 55 46) at the start of the file, found%s",
                           path, g->map->size ? found : " an empty file");
    }
    if (!och_cursor_u32(&c, &g->version)) return truncated(g, &c, "header", "version", 4, err);
    if (g->version != 2 && g->version != 3) {
        /* the usual sign of a big-endian file: its version reads as 0x03000000 */
        if (g->version && !(g->version & 0xFFFF))
            return och_err_set(err, OCH_UNSUPPORTED,
                               "%s: header: version: expected a little-endian file, found a big-endian one (0x%08" PRIx32 ")",
                               path, g->version);
        return och_err_set(err, OCH_UNSUPPORTED, "%s: header: version: expected 2 or 3, found %" PRIu32 "%s", path,
                           g->version, g->version == 1 ? " (convert the model again with a current converter)" : "");
    }
    if (!och_cursor_u64(&c, &n_tensors)) return truncated(g, &c, "header", "tensor_count", 8, err);
    if (!och_cursor_u64(&c, &n_kv)) return truncated(g, &c, "header", "metadata_kv_count", 8, err);
    /* a key-value takes at least a length, a byte of key, a type and a byte of value; a record a length, a byte of name,
     * n_dims, one dimension, a type and an offset */
    OCH_TRY(check_count(g, &c, "metadata_kv_count", n_kv, 8 + 1 + 4 + 1, OCH_GGUF_MAX_KV, err));
    OCH_TRY(check_count(g, &c, "tensor_count", n_tensors, 8 + 1 + 4 + 8 + 4 + 8, OCH_GGUF_MAX_TENSORS, err));
    OCH_TRY(read_kvs(g, &c, n_kv, err));
    OCH_TRY(read_alignment(g, err));
    OCH_TRY(read_tensors(g, &c, n_tensors, err));
    if (!och_u64_align(c.pos, g->alignment, &g->data_offset)) g->data_offset = g->map->size;
    if (!n_tensors) g->data_offset = OCH_MIN(g->data_offset, g->map->size);
    return place_tensors(g, err);
}

/* Takes the mapping, whatever happens. */
static och_status open_take(och_mapping *map, och_gguf **out_g, och_err *err) {
    och_gguf *g = och_calloc(1, sizeof *g);
    if (!g) {
        och_mapping_close(map);
        return och_err_nomem(err, sizeof *g, "a GGUF file");
    }
    g->map = map;
    och_arena_init(&g->arena);
    och_name_index_init(&g->keys);
    och_name_index_init(&g->names);
    och_status st = parse(g, err);
    if (st != OCH_OK) {
        och_gguf_close(g);
        return st;
    }
    *out_g = g;
    return OCH_OK;
}

och_status och_gguf_open(const char *path, och_gguf **out_g, och_err *err) {
    och_mapping *map;
    *out_g = NULL;
    OCH_TRY(och_mapping_open(path, &map, err));
    return open_take(map, out_g, err);
}

och_status och_gguf_open_memory(const char *name, const void *data, uint64_t size, och_gguf **out_g, och_err *err) {
    och_mapping *map;
    *out_g = NULL;
    OCH_TRY(och_mapping_open_memory(name, data, size, &map, err));
    return open_take(map, out_g, err);
}

void och_gguf_close(och_gguf *g) {
    if (!g) return;
    och_name_index_deinit(&g->keys);
    och_name_index_deinit(&g->names);
    och_free(g->kv);
    och_free(g->tensors);
    och_arena_deinit(&g->arena);
    och_mapping_close(g->map);
    och_free(g);
}

bool och_gguf_probe(const char *path) {
    char magic[4];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return false;
    bool yes = read(fd, magic, sizeof magic) == (ssize_t)sizeof magic && !memcmp(magic, "GGUF", 4);
    close(fd);
    return yes;
}

const char *och_gguf_path(const och_gguf *g) { return g->map->path; }
const och_mapping *och_gguf_mapping(const och_gguf *g) { return g->map; }
uint32_t och_gguf_version(const och_gguf *g) { return g->version; }
uint64_t och_gguf_alignment(const och_gguf *g) { return g->alignment; }
uint64_t och_gguf_data_offset(const och_gguf *g) { return g->data_offset; }
uint64_t och_gguf_n_tensors(const och_gguf *g) { return g->n_tensors; }
const och_file_tensor *och_gguf_tensor(const och_gguf *g, uint64_t i) { return i < g->n_tensors ? &g->tensors[i] : NULL; }
uint64_t och_gguf_n_kv(const och_gguf *g) { return g->n_kv; }
const och_gguf_value *och_gguf_kv(const och_gguf *g, uint64_t i) { return i < g->n_kv ? &g->kv[i] : NULL; }

const och_file_tensor *och_gguf_find_tensor(const och_gguf *g, const char *name) {
    uint32_t i;
    return och_name_index_find(&g->names, name, &i) ? &g->tensors[i] : NULL;
}

const och_gguf_value *och_gguf_find(const och_gguf *g, const char *key) {
    uint32_t i;
    return och_name_index_find(&g->keys, key, &i) ? &g->kv[i] : NULL;
}
