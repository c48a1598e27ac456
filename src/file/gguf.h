/* GGUF containers, versions 2 and 3, little-endian.
 *
 * Format: ggml-org/ggml docs/gguf.md. Opening reads the header alone (key-values and tensor records), validates all of
 * it, and never touches tensor data; strings of arrays are not copied. What is refused: version 1, big-endian files,
 * duplicate keys or tensor names, tensors that overlap, are misaligned or leave the file, dimensions of 0, a row that is
 * no whole number of blocks, lengths beyond the file (before any allocation). A tensor of an unknown type is listed with
 * dtype NONE; using it is the error (och_file_tensor_check).
 *
 * An opened file is immutable: any number of threads may read it. */
#ifndef OCH_FILE_GGUF_H
#define OCH_FILE_GGUF_H

#include "base/status.h"
#include "file/tensors.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OCH_GGUF_MAX_TENSOR_NAME 1024 /* the specification says 64; files in use are longer */
#define OCH_GGUF_MAX_KEY 65535
#define OCH_GGUF_MAX_ARRAY_DEPTH 4
#define OCH_GGUF_MAX_KV (1u << 16)
#define OCH_GGUF_MAX_TENSORS (1u << 20)

typedef enum och_gguf_type {
    OCH_GGUF_U8 = 0,
    OCH_GGUF_I8 = 1,
    OCH_GGUF_U16 = 2,
    OCH_GGUF_I16 = 3,
    OCH_GGUF_U32 = 4,
    OCH_GGUF_I32 = 5,
    OCH_GGUF_F32 = 6,
    OCH_GGUF_BOOL = 7,
    OCH_GGUF_STRING = 8,
    OCH_GGUF_ARRAY = 9,
    OCH_GGUF_U64 = 10,
    OCH_GGUF_I64 = 11,
    OCH_GGUF_F64 = 12,
    OCH_GGUF_TYPE_COUNT_
} och_gguf_type;

typedef struct och_gguf_value {
    const char *key; /* owned by the file, NUL-terminated; "" for an element of a nested array */
    och_gguf_type type;
    union {
        uint64_t u64; /* U8, U16, U32, U64 */
        int64_t i64;  /* I8, I16, I32, I64 */
        double f64;   /* F32, F64 */
        bool b;       /* BOOL */
    };
    const char *str; /* STRING: owned, NUL-terminated; may hold further NULs */
    size_t len;      /* STRING: bytes of str without the final NUL */
    och_gguf_type elem_type; /* ARRAY */
    uint64_t count;          /* ARRAY: elements */
    const uint8_t *data;     /* ARRAY: borrowed, as in the file: little-endian, no alignment; strings as u64 length + bytes */
    uint64_t size_bytes;     /* ARRAY: bytes at data */
    const uint64_t *marks;   /* ARRAY of strings or arrays: offset in data of every 32nd element, owned; NULL: walk */
} och_gguf_value;

typedef struct och_gguf och_gguf;

/* NOTFOUND, IO, CORRUPT, UNSUPPORTED (a version), NOMEM. Release with och_gguf_close. */
och_status och_gguf_open(const char *path, och_gguf **out_g, och_err *err) OCH_WARN_UNUSED;
/* The same on memory that the caller keeps alive; `name` stands for the path. */
och_status och_gguf_open_memory(const char *name, const void *data, uint64_t size, och_gguf **out_g, och_err *err)
    OCH_WARN_UNUSED;
void och_gguf_close(och_gguf *g); /* NULL is allowed; closes the mapping */
/* True when the file starts with a GGUF magic; false when it does not or cannot be read. */
bool och_gguf_probe(const char *path);

const char *och_gguf_path(const och_gguf *g);
const och_mapping *och_gguf_mapping(const och_gguf *g);
uint32_t och_gguf_version(const och_gguf *g);
uint64_t och_gguf_alignment(const och_gguf *g);
uint64_t och_gguf_data_offset(const och_gguf *g); /* where tensor data begins in the file */

uint64_t och_gguf_n_tensors(const och_gguf *g);
const och_file_tensor *och_gguf_tensor(const och_gguf *g, uint64_t i);
const och_file_tensor *och_gguf_find_tensor(const och_gguf *g, const char *name); /* NULL when absent; O(1) */

uint64_t och_gguf_n_kv(const och_gguf *g);
const och_gguf_value *och_gguf_kv(const och_gguf *g, uint64_t i);
const och_gguf_value *och_gguf_find(const och_gguf *g, const char *key); /* NULL when absent; O(1) */

/* Typed getters. A key that is absent is NOTFOUND when required; when not, it is OK and *inout_v stays as the caller set
 * it (the default). A key of another type, or a value that does not fit, is CORRUPT. Messages name file, key, expected
 * and found. u64 takes any integer type that is not negative, i64 any that fits, f64 any float or integer type. */
och_status och_gguf_get_u64(const och_gguf *g, const char *key, bool required, uint64_t *inout_v, och_err *err)
    OCH_WARN_UNUSED;
och_status och_gguf_get_i64(const och_gguf *g, const char *key, bool required, int64_t *inout_v, och_err *err)
    OCH_WARN_UNUSED;
och_status och_gguf_get_f64(const och_gguf *g, const char *key, bool required, double *inout_v, och_err *err)
    OCH_WARN_UNUSED;
och_status och_gguf_get_bool(const och_gguf *g, const char *key, bool required, bool *inout_v, och_err *err)
    OCH_WARN_UNUSED;
/* *inout_str is borrowed from g and NUL-terminated; a string with a NUL inside is CORRUPT here. */
och_status och_gguf_get_str(const och_gguf *g, const char *key, bool required, const char **inout_str, och_err *err)
    OCH_WARN_UNUSED;
/* The array at key; elem_type is checked unless it is OCH_GGUF_TYPE_COUNT_ (any). Absent and not required: *out_v NULL. */
och_status och_gguf_get_array(const och_gguf *g, const char *key, bool required, och_gguf_type elem_type,
                              const och_gguf_value **out_v, och_err *err) OCH_WARN_UNUSED;

/* Elements of an array value; false when i is out of range or the element type does not fit the call. */
/* O(1): at most 31 lengths are walked. Not NUL-terminated, borrowed from the mapping. */
bool och_gguf_array_str(const och_gguf_value *v, uint64_t i, const char **out_str, size_t *out_len);
bool och_gguf_array_f32(const och_gguf_value *v, uint64_t i, float *out_v);   /* F32, F64 (rounded) */
bool och_gguf_array_i64(const och_gguf_value *v, uint64_t i, int64_t *out_v); /* integer types and BOOL; U64 above INT64_MAX: false */
bool och_gguf_array_sub(const och_gguf_value *v, uint64_t i, och_gguf_value *out_v); /* ARRAY of arrays; a borrowed view */

/* Strings in order, each step O(1): och_gguf_str_iter it = och_gguf_str_iter_view(v); while (och_gguf_str_next(&it, ...)) */
typedef struct och_gguf_str_iter {
    const och_gguf_value *value;
    uint64_t i, pos;
} och_gguf_str_iter;
static inline och_gguf_str_iter och_gguf_str_iter_view(const och_gguf_value *v) {
    return (och_gguf_str_iter){.value = v, .i = 0, .pos = 0};
}
bool och_gguf_str_next(och_gguf_str_iter *it, const char **out_str, size_t *out_len);

const char *och_gguf_type_name(och_gguf_type t);       /* "u32", "string", ...; "?" when unknown */
const char *och_gguf_tensor_type_name(uint32_t raw_type); /* "Q4_1", "IQ2_XXS"; NULL when unknown */

#endif
