/* Builds container files byte by byte, from the formats' descriptions and not through the readers under test: for the
 * unit and fault tests and for the seed corpora. */
#ifndef OCH_TEST_FILE_BUILD_H
#define OCH_TEST_FILE_BUILD_H

#include "base/strbuf.h"

#include <stdint.h>
#include <string.h>

typedef struct built_tensor {
    const char *name;
    uint32_t n_dims;
    uint64_t ne[5];
    uint32_t type;
    uint64_t offset;
} built_tensor;

static inline void put_le(och_strbuf *b, uint64_t v, int n_bytes) {
    for (int i = 0; i < n_bytes; i++) {
        uint8_t byte = (uint8_t)(v >> (8 * i));
        och_strbuf_append(b, &byte, 1);
    }
}
static inline void put_u32(och_strbuf *b, uint32_t v) { put_le(b, v, 4); }
static inline void put_u64(och_strbuf *b, uint64_t v) { put_le(b, v, 8); }
static inline void put_f32(och_strbuf *b, float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    put_u32(b, u);
}
static inline void put_f64(och_strbuf *b, double f) {
    uint64_t u;
    memcpy(&u, &f, 8);
    put_u64(b, u);
}
static inline void put_str(och_strbuf *b, const char *s) {
    put_u64(b, strlen(s));
    och_strbuf_puts(b, s);
}
static inline void put_header(och_strbuf *b, uint32_t version, uint64_t n_tensors, uint64_t n_kv) {
    och_strbuf_puts(b, "GGUF");
    put_u32(b, version);
    put_u64(b, n_tensors);
    put_u64(b, n_kv);
}
static inline void put_key(och_strbuf *b, const char *key, uint32_t type) {
    put_str(b, key);
    put_u32(b, type);
}
static inline void put_tensor(och_strbuf *b, const built_tensor *t) {
    put_str(b, t->name);
    put_u32(b, t->n_dims);
    for (uint32_t d = 0; d < t->n_dims && d < 5; d++) put_u64(b, t->ne[d]);
    put_u32(b, t->type);
    put_u64(b, t->offset);
}
/* Zero bytes up to a multiple of align, then n bytes 0, 1, 2, ... */
static inline void put_data(och_strbuf *b, size_t align, size_t n) {
    while (b->size % align) och_strbuf_append(b, "", 1);
    for (size_t i = 0; i < n; i++) {
        uint8_t byte = (uint8_t)i;
        och_strbuf_append(b, &byte, 1);
    }
}

/* A file with one key-value of every type, arrays of several, a nested one, and three tensors:
 * "norm" F32 {8} at 0 (32 bytes), "mat" F32 {4, 3} at 32 (48 bytes), "q" Q4_0 {32, 2} at 96 (36 bytes); 132 bytes of data. */
static inline void build_whole_gguf(och_strbuf *b, uint32_t version) {
    static const built_tensor tensors[] = {{"norm", 1, {8}, 0, 0}, {"mat", 2, {4, 3}, 0, 32}, {"q", 2, {32, 2}, 2, 96}};
    put_header(b, version, 3, 18);
    put_key(b, "general.architecture", 8), put_str(b, "llama");
    put_key(b, "a.u8", 0), put_le(b, 200, 1);
    put_key(b, "a.i8", 1), put_le(b, (uint64_t)-5, 1);
    put_key(b, "a.u16", 2), put_le(b, 60000, 2);
    put_key(b, "a.i16", 3), put_le(b, (uint64_t)-1234, 2);
    put_key(b, "a.u32", 4), put_u32(b, 4000000000u);
    put_key(b, "a.i32", 5), put_u32(b, (uint32_t)-70000);
    put_key(b, "a.f32", 6), put_f32(b, 1.5f);
    put_key(b, "a.bool", 7), put_le(b, 1, 1);
    put_key(b, "a.u64", 10), put_u64(b, UINT64_C(1) << 63);
    put_key(b, "a.i64", 11), put_u64(b, (uint64_t)INT64_MIN);
    put_key(b, "a.f64", 12), put_f64(b, -0.125);
    put_key(b, "l.f32", 9), put_u32(b, 6), put_u64(b, 3), put_f32(b, 0.5f), put_f32(b, -2), put_f32(b, 1e6f);
    put_key(b, "l.i32", 9), put_u32(b, 5), put_u64(b, 2), put_u32(b, 7), put_u32(b, (uint32_t)-7);
    put_key(b, "l.bool", 9), put_u32(b, 7), put_u64(b, 2), put_le(b, 0, 1), put_le(b, 1, 1);
    put_key(b, "l.str", 9), put_u32(b, 8), put_u64(b, 100);
    for (int i = 0; i < 100; i++) {
        char text[32];
        memset(text, 'a' + i % 26, sizeof text);
        text[i % 31] = 0;
        put_str(b, text);
    }
    put_key(b, "l.nest", 9), put_u32(b, 9), put_u64(b, 2);
    put_u32(b, 0), put_u64(b, 2), put_le(b, 9, 1), put_le(b, 8, 1);
    put_u32(b, 8), put_u64(b, 1), put_str(b, "deep");
    put_key(b, "l.empty", 9), put_u32(b, 8), put_u64(b, 0);
    for (int i = 0; i < 3; i++) put_tensor(b, &tensors[i]);
    put_data(b, 32, 132);
}

/* A safetensors file: header text, then n bytes 0, 1, 2, ... */
static inline void build_safetensors(och_strbuf *b, const char *header, size_t n) {
    put_str(b, header);
    for (size_t i = 0; i < n; i++) {
        uint8_t byte = (uint8_t)i;
        och_strbuf_append(b, &byte, 1);
    }
}

#define WHOLE_SAFETENSORS                                                                                              \
    "{\"__metadata__\":{\"format\":\"pt\",\"who\":\"\\u00e9\"},"                                                       \
    "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"                                               \
    "\"scalar\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[24,26]},"                                            \
    "\"none\":{\"dtype\":\"BF16\",\"shape\":[0,7],\"data_offsets\":[26,26]},"                                          \
    "\"fp8\":{\"dtype\":\"F8_E4M3\",\"shape\":[4],\"data_offsets\":[26,30]},"                                          \
    "\"five\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,2],\"data_offsets\":[30,32]}}"

#endif
