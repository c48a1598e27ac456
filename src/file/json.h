/* Thin helpers over jansson: documents with limits, and typed getters whose errors name the file and the path inside it.
 *
 * Whoever calls jansson directly includes this header (not jansson.h) and calls och_json_init first, unless a document was
 * loaded here before: it routes jansson's memory through och_malloc. Objects keep the file's order when iterated. */
#ifndef OCH_FILE_JSON_H
#define OCH_FILE_JSON_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OCH_JSON_MAX_BYTES (UINT64_C(1) << 30)
#define OCH_JSON_MAX_DEPTH 64

typedef struct och_json {
    json_t *root; /* owned */
    char *name;   /* owned: the path, for messages */
} och_json;

void och_json_init(void); /* idempotent, any thread */

/* Loads an RFC 8259 document; duplicate keys, depth above OCH_JSON_MAX_DEPTH, embedded NULs and trailing text are
 * CORRUPT with line and column; a file above max_bytes (0: OCH_JSON_MAX_BYTES) is RANGE. Integers beyond 64 bits make all
 * integers of the document reals (tokenizer_config.json writes 10^30), which the getters below accept up to 2^53. */
och_status och_json_load(const char *path, uint64_t max_bytes, och_json *out_doc, och_err *err) OCH_WARN_UNUSED;
och_status och_json_load_memory(const char *name, const void *data, size_t size, och_json *out_doc, och_err *err)
    OCH_WARN_UNUSED;
void och_json_deinit(och_json *doc); /* a zeroed document is allowed */

/* `path` is "text_config.rope_theta"; a segment of digits indexes an array ("architectures.0"). NULL when a segment is
 * absent. The value is borrowed; JSON null is returned as such. */
json_t *och_json_find(const och_json *doc, const char *path);

/* As in gguf.h: absent or null is NOTFOUND when required, else OK with *inout_v as the caller set it; a wrong type or
 * range is CORRUPT. i64 and u64 also take reals that are whole; f64 takes integers. */
och_status och_json_get_u64(const och_json *doc, const char *path, bool required, uint64_t *inout_v, och_err *err)
    OCH_WARN_UNUSED;
och_status och_json_get_i64(const och_json *doc, const char *path, bool required, int64_t *inout_v, och_err *err)
    OCH_WARN_UNUSED;
och_status och_json_get_f64(const och_json *doc, const char *path, bool required, double *inout_v, och_err *err)
    OCH_WARN_UNUSED;
och_status och_json_get_bool(const och_json *doc, const char *path, bool required, bool *inout_v, och_err *err)
    OCH_WARN_UNUSED;
och_status och_json_get_str(const och_json *doc, const char *path, bool required, const char **inout_str, och_err *err)
    OCH_WARN_UNUSED;
/* Borrowed; absent or null and not required: NULL. */
och_status och_json_get_object(const och_json *doc, const char *path, bool required, json_t **out_v, och_err *err)
    OCH_WARN_UNUSED;
och_status och_json_get_array(const och_json *doc, const char *path, bool required, json_t **out_v, och_err *err)
    OCH_WARN_UNUSED;

/* "object", "array", "string", "integer", "real", "true", "false", "null" */
const char *och_json_type_name(const json_t *v);

#endif
