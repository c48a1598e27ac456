/* A GGUF header from any bytes; of what opens, everything is read through every accessor. */
#include "base/alloc.h"
#include "file/gguf.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned sink;

static void check(bool ok) {
    if (!ok) abort();
}

static void eat(const void *p, size_t n) {
    const uint8_t *bytes = p;
    for (size_t i = 0; i < n; i++) sink += bytes[i];
}

static void read_array(const och_gguf_value *v, int depth) {
    const char *str;
    size_t len;
    float f;
    int64_t n;
    och_gguf_value sub;
    uint64_t step = v->count > 256 ? v->count / 256 : 1; /* every element of a short array, a sample of a long one */
    for (uint64_t i = 0; i < v->count; i += step) {
        if (och_gguf_array_str(v, i, &str, &len)) eat(str, len);
        if (och_gguf_array_f32(v, i, &f)) eat(&f, sizeof f);
        if (och_gguf_array_i64(v, i, &n)) eat(&n, sizeof n);
        if (depth < 4 && och_gguf_array_sub(v, i, &sub)) read_array(&sub, depth + 1);
    }
    check(!och_gguf_array_str(v, v->count, &str, &len) && !och_gguf_array_f32(v, v->count, &f) &&
          !och_gguf_array_i64(v, v->count, &n) && !och_gguf_array_sub(v, v->count, &sub));
    if (v->elem_type == OCH_GGUF_STRING) {
        uint64_t count = 0;
        och_gguf_str_iter it = och_gguf_str_iter_view(v);
        while (och_gguf_str_next(&it, &str, &len)) eat(str, len), count++;
        check(count == v->count);
    }
    eat(v->data, v->size_bytes);
}

static void read_value(const och_gguf *g, const och_gguf_value *v) {
    uint64_t u;
    int64_t n;
    double d;
    bool b;
    const char *str;
    const och_gguf_value *array;
    check(och_gguf_find(g, v->key) == v);
    (void)!och_gguf_get_u64(g, v->key, true, &u, NULL);
    (void)!och_gguf_get_i64(g, v->key, true, &n, NULL);
    (void)!och_gguf_get_f64(g, v->key, true, &d, NULL);
    (void)!och_gguf_get_bool(g, v->key, true, &b, NULL);
    if (och_gguf_get_str(g, v->key, true, &str, NULL) == OCH_OK) check(strlen(str) == v->len);
    if (och_gguf_get_array(g, v->key, true, OCH_GGUF_TYPE_COUNT_, &array, NULL) == OCH_OK) read_array(array, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    och_err err = {0};
    och_gguf *g;
    int64_t live = och_alloc_live();
    och_status st = och_gguf_open_memory("fuzz.gguf", data, size, &g, &err);
    check(st == err.status && (st == OCH_OK) == (g != NULL));
    if (st != OCH_OK) {
        check(strstr(err.message, "fuzz.gguf: ") == err.message);
        check(strstr(err.message, ": expected ") && strstr(err.message, "found "));
    } else {
        char text[128];
        for (uint64_t i = 0; i < och_gguf_n_kv(g); i++) read_value(g, och_gguf_kv(g, i));
        for (uint64_t i = 0; i < och_gguf_n_tensors(g); i++) {
            const och_file_tensor *t = och_gguf_tensor(g, i);
            check(och_gguf_find_tensor(g, t->name) == t);
            check(t->file_offset + t->size_bytes <= size);
            eat(t->data, t->size_bytes);
            eat(text, strlen(och_file_tensor_shape_str(t, text, sizeof text)));
            (void)!och_file_tensor_check(t, NULL);
        }
        och_gguf_close(g);
    }
    check(och_alloc_live() == live);
    return 0;
}
