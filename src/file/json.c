#include "file/json.h"

#include "base/alloc.h"
#include "file/mapping.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

/* What the archive of jansson sees as stdin when Ochre is linked as a shared object; CMakeLists.txt says why. Only
 * json_loadf compares with it, and Ochre reads documents from memory. */
extern void *och_jansson_stdin;
void *och_jansson_stdin;

/* jansson does not survive a failed allocation while it reads: a string loses characters and an assertion ends the process.
 * So a load never lets one return: it jumps back here, and what the load had allocated so far, kept in a ring, is freed. */
typedef struct block {
    struct block *prev, *next; /* the ring of the load that made it; of itself alone outside a load */
} block;

typedef struct load {
    block ring;
    jmp_buf failed;
} load;

static _Thread_local load *active;

static void *json_alloc(size_t n) {
    block *b = n <= SIZE_MAX - sizeof *b ? och_malloc(sizeof *b + n) : NULL;
    if (!b) {
        if (active) longjmp(active->failed, 1);
        return NULL;
    }
    b->prev = b->next = b;
    if (active) {
        b->next = active->ring.next;
        b->prev = &active->ring;
        b->next->prev = b->prev->next = b;
    }
    return b + 1;
}

static void json_release(void *p) {
    if (!p) return;
    block *b = (block *)p - 1;
    b->prev->next = b->next;
    b->next->prev = b->prev;
    och_free(b);
}

static void init_once(void) { json_set_alloc_funcs(json_alloc, json_release); }

/* NULL with *out_no_memory set, or with the parser's error in *e. The load is the caller's: after a jump, a variable of the
 * function that called setjmp would have no certain value (C17 7.13.2.1). */
static json_t *load_text(load *l, const void *data, size_t size, size_t flags, json_error_t *e, bool *out_no_memory) {
    l->ring.prev = l->ring.next = &l->ring;
    *out_no_memory = false;
    if (setjmp(l->failed)) {
        active = NULL;
        while (l->ring.next != &l->ring) json_release(l->ring.next + 1);
        *out_no_memory = true;
        return NULL;
    }
    active = l;
    json_t *root = json_loadb(data, size, flags, e);
    active = NULL;
    l->ring.prev->next = l->ring.next; /* what the document holds goes on without the ring's head */
    l->ring.next->prev = l->ring.prev;
    return root;
}

void och_json_init(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, init_once);
}

/* jansson's parser recurses, up to 2048 levels; this limit keeps it, and whoever walks the tree, far from that. */
static och_status check_depth(const char *name, const char *p, size_t n, och_err *err) {
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        char c = p[i];
        if (in_string) {
            if (c == '\\') i++;
            else if (c == '"') in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > OCH_JSON_MAX_DEPTH)
                return och_err_set(err, OCH_CORRUPT, "%s: JSON: expected a nesting of at most %d, found more at byte %zu",
                                   name, OCH_JSON_MAX_DEPTH, i);
        } else if (c == ']' || c == '}') {
            depth--;
        }
    }
    return OCH_OK;
}

och_status och_json_load_memory(const char *name, const void *data, size_t size, och_json *out_doc, och_err *err) {
    static const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY;
    json_error_t e;
    *out_doc = (och_json){0};
    och_json_init();
    OCH_TRY(check_depth(name, data, size, err));
    char *copy = och_strdup(name);
    if (!copy) return och_err_nomem(err, strlen(name) + 1, "a path");
    load l;
    bool no_memory;
    json_t *root = load_text(&l, data, size, flags, &e, &no_memory);
    if (!root && !no_memory && json_error_code(&e) == json_error_numeric_overflow)
        root = load_text(&l, data, size, flags | JSON_DECODE_INT_AS_REAL, &e, &no_memory);
    if (!root) {
        och_free(copy);
        if (no_memory) return och_err_nomem(err, size, "a JSON document");
        return och_err_set(err, OCH_CORRUPT, "%s: line %d, column %d: expected JSON, found: %s", name, e.line, e.column,
                           e.text);
    }
    out_doc->root = root;
    out_doc->name = copy;
    return OCH_OK;
}

och_status och_json_load(const char *path, uint64_t max_bytes, och_json *out_doc, och_err *err) {
    och_mapping *m;
    *out_doc = (och_json){0};
    if (!max_bytes || max_bytes > OCH_JSON_MAX_BYTES) max_bytes = OCH_JSON_MAX_BYTES;
    OCH_TRY(och_mapping_open(path, &m, err));
    och_status st;
    if (m->size > max_bytes)
        st = och_err_set(err, OCH_RANGE, "%s: size: expected at most %" PRIu64 " bytes of JSON, found %" PRIu64, path,
                         max_bytes, m->size);
    else
        st = och_json_load_memory(path, m->data, (size_t)m->size, out_doc, err);
    och_mapping_close(m);
    return st;
}

void och_json_deinit(och_json *doc) {
    json_decref(doc->root);
    och_free(doc->name);
    *doc = (och_json){0};
}

static json_t *step(json_t *v, const char *seg, size_t n) {
    if (json_is_object(v)) return json_object_getn(v, seg, n);
    if (!json_is_array(v) || n == 0 || n > 9) return NULL;
    size_t i = 0;
    for (size_t k = 0; k < n; k++) {
        if (seg[k] < '0' || seg[k] > '9') return NULL;
        i = i * 10 + (size_t)(seg[k] - '0');
    }
    return json_array_get(v, i);
}

json_t *och_json_find(const och_json *doc, const char *path) {
    json_t *v = doc->root;
    for (const char *p = path; v;) {
        size_t n = strcspn(p, ".");
        v = step(v, p, n);
        if (!p[n]) break;
        p += n + 1;
    }
    return v;
}

const char *och_json_type_name(const json_t *v) {
    switch (v ? json_typeof(v) : JSON_NULL) {
    case JSON_OBJECT: return "object";
    case JSON_ARRAY: return "array";
    case JSON_STRING: return "string";
    case JSON_INTEGER: return "integer";
    case JSON_REAL: return "real";
    case JSON_TRUE: return "true";
    case JSON_FALSE: return "false";
    case JSON_NULL: break;
    }
    return "null";
}

/* *out_v is NULL when there is nothing to read and that is no error. */
static och_status look_up(const och_json *doc, const char *path, bool required, const char *expected, json_t **out_v,
                          och_err *err) {
    *out_v = och_json_find(doc, path);
    if (*out_v && !json_is_null(*out_v)) return OCH_OK;
    const char *found = *out_v ? "null" : "no such key";
    *out_v = NULL;
    if (!required) return OCH_OK;
    return och_err_set(err, OCH_NOTFOUND, "%s: '%s': expected %s, found %s", doc->name, path, expected, found);
}

static och_status mismatch(const och_json *doc, const char *path, const char *expected, const json_t *v, och_err *err) {
    if (json_is_integer(v))
        return och_err_set(err, OCH_CORRUPT, "%s: '%s': expected %s, found %lld", doc->name, path, expected,
                           (long long)json_integer_value(v));
    if (json_is_real(v))
        return och_err_set(err, OCH_CORRUPT, "%s: '%s': expected %s, found %g", doc->name, path, expected,
                           json_real_value(v));
    return och_err_set(err, OCH_CORRUPT, "%s: '%s': expected %s, found %s", doc->name, path, expected,
                       och_json_type_name(v));
}

static bool whole(const json_t *v, int64_t *out_v) {
    *out_v = 0;
    if (json_is_integer(v)) {
        *out_v = json_integer_value(v);
        return true;
    }
    double d = json_is_real(v) ? json_real_value(v) : 0.5;
    if (!(fabs(d) <= 0x1p53) || d != floor(d)) return false;
    *out_v = (int64_t)d;
    return true;
}

och_status och_json_get_i64(const och_json *doc, const char *path, bool required, int64_t *inout_v, och_err *err) {
    json_t *v;
    int64_t n;
    OCH_TRY(look_up(doc, path, required, "an integer", &v, err));
    if (!v) return OCH_OK;
    if (!whole(v, &n)) return mismatch(doc, path, "an integer", v, err);
    *inout_v = n;
    return OCH_OK;
}

och_status och_json_get_u64(const och_json *doc, const char *path, bool required, uint64_t *inout_v, och_err *err) {
    static const char expected[] = "an integer that is not negative";
    json_t *v;
    int64_t n;
    OCH_TRY(look_up(doc, path, required, expected, &v, err));
    if (!v) return OCH_OK;
    if (!whole(v, &n) || n < 0) return mismatch(doc, path, expected, v, err);
    *inout_v = (uint64_t)n;
    return OCH_OK;
}

och_status och_json_get_f64(const och_json *doc, const char *path, bool required, double *inout_v, och_err *err) {
    json_t *v;
    OCH_TRY(look_up(doc, path, required, "a number", &v, err));
    if (!v) return OCH_OK;
    if (!json_is_number(v)) return mismatch(doc, path, "a number", v, err);
    *inout_v = json_number_value(v);
    return OCH_OK;
}

och_status och_json_get_bool(const och_json *doc, const char *path, bool required, bool *inout_v, och_err *err) {
    json_t *v;
    OCH_TRY(look_up(doc, path, required, "true or false", &v, err));
    if (!v) return OCH_OK;
    if (!json_is_boolean(v)) return mismatch(doc, path, "true or false", v, err);
    *inout_v = json_is_true(v);
    return OCH_OK;
}

och_status och_json_get_str(const och_json *doc, const char *path, bool required, const char **inout_str, och_err *err) {
    json_t *v;
    OCH_TRY(look_up(doc, path, required, "a string", &v, err));
    if (!v) return OCH_OK;
    if (!json_is_string(v)) return mismatch(doc, path, "a string", v, err);
    *inout_str = json_string_value(v);
    return OCH_OK;
}

och_status och_json_get_object(const och_json *doc, const char *path, bool required, json_t **out_v, och_err *err) {
    OCH_TRY(look_up(doc, path, required, "an object", out_v, err));
    if (!*out_v || json_is_object(*out_v)) return OCH_OK;
    och_status st = mismatch(doc, path, "an object", *out_v, err);
    *out_v = NULL;
    return st;
}

och_status och_json_get_array(const och_json *doc, const char *path, bool required, json_t **out_v, och_err *err) {
    OCH_TRY(look_up(doc, path, required, "an array", out_v, err));
    if (!*out_v || json_is_array(*out_v)) return OCH_OK;
    och_status st = mismatch(doc, path, "an array", *out_v, err);
    *out_v = NULL;
    return st;
}
