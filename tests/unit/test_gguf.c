/* GGUF files that are right: what the reader says of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "file/gguf.h"
#include "unit/file_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static och_gguf *open_built(och_strbuf *b) {
    och_err e = {0};
    och_gguf *g;
    och_status st = och_gguf_open_memory("mem.gguf", b->data, b->size, &g, &e);
    if (st != OCH_OK) fail_msg("%s", e.message);
    return g;
}

static void every_value_type(void **s) {
    (void)s;
    for (uint32_t version = 2; version <= 3; version++) {
        och_strbuf b = {0};
        build_whole_gguf(&b, version);
        och_gguf *g = open_built(&b);
        assert_int_equal(och_gguf_version(g), version);
        assert_int_equal(och_gguf_n_kv(g), 18);
        assert_int_equal(och_gguf_alignment(g), 32);
        assert_string_equal(och_gguf_kv(g, 0)->key, "general.architecture");
        assert_string_equal(och_gguf_find(g, "general.architecture")->str, "llama");
        assert_int_equal(och_gguf_find(g, "general.architecture")->len, 5);
        assert_int_equal(och_gguf_find(g, "a.u8")->u64, 200);
        assert_int_equal(och_gguf_find(g, "a.i8")->i64, -5);
        assert_int_equal(och_gguf_find(g, "a.u16")->u64, 60000);
        assert_int_equal(och_gguf_find(g, "a.i16")->i64, -1234);
        assert_true(och_gguf_find(g, "a.u32")->u64 == 4000000000u);
        assert_int_equal(och_gguf_find(g, "a.i32")->i64, -70000);
        assert_true(och_gguf_find(g, "a.f32")->f64 == 1.5);
        assert_true(och_gguf_find(g, "a.bool")->b);
        assert_true(och_gguf_find(g, "a.u64")->u64 == UINT64_C(1) << 63);
        assert_true(och_gguf_find(g, "a.i64")->i64 == INT64_MIN);
        assert_true(och_gguf_find(g, "a.f64")->f64 == -0.125);
        for (uint64_t i = 0; i < 12; i++) {
            static const och_gguf_type types[] = {OCH_GGUF_STRING, OCH_GGUF_U8,  OCH_GGUF_I8,  OCH_GGUF_U16,
                                                  OCH_GGUF_I16,    OCH_GGUF_U32, OCH_GGUF_I32, OCH_GGUF_F32,
                                                  OCH_GGUF_BOOL,   OCH_GGUF_U64, OCH_GGUF_I64, OCH_GGUF_F64};
            assert_int_equal(och_gguf_kv(g, i)->type, types[i]);
        }
        assert_null(och_gguf_find(g, "a.u"));
        assert_null(och_gguf_kv(g, 18));
        och_gguf_close(g);
        och_strbuf_deinit(&b);
    }
}

static void arrays(void **s) {
    (void)s;
    och_strbuf b = {0};
    build_whole_gguf(&b, 3);
    och_gguf *g = open_built(&b);
    const och_gguf_value *v = och_gguf_find(g, "l.f32");
    float f;
    int64_t n;
    const char *p;
    size_t len;
    assert_int_equal(v->count, 3);
    assert_true(och_gguf_array_f32(v, 1, &f) && f == -2.0f);
    assert_true(och_gguf_array_f32(v, 2, &f) && f == 1e6f);
    assert_false(och_gguf_array_f32(v, 3, &f));
    assert_false(och_gguf_array_i64(v, 0, &n));
    assert_false(och_gguf_array_str(v, 0, &p, &len));
    v = och_gguf_find(g, "l.i32");
    assert_true(och_gguf_array_i64(v, 1, &n) && n == -7);
    assert_false(och_gguf_array_i64(v, 2, &n));
    assert_false(och_gguf_array_f32(v, 0, &f));
    v = och_gguf_find(g, "l.bool");
    assert_true(och_gguf_array_i64(v, 1, &n) && n == 1);

    /* strings in order and at random agree with how they were built */
    v = och_gguf_find(g, "l.str");
    och_gguf_str_iter it = och_gguf_str_iter_view(v);
    for (int i = 0; i < 100; i++) {
        const char *q;
        size_t qlen;
        assert_true(och_gguf_str_next(&it, &p, &len));
        assert_true(och_gguf_array_str(v, (uint64_t)(99 - i), &q, &qlen));
        assert_int_equal(len, i % 31);
        assert_int_equal(qlen, (99 - i) % 31);
        if (len) assert_int_equal(p[len - 1], 'a' + i % 26);
        if (qlen) assert_int_equal(q[0], 'a' + (99 - i) % 26);
    }
    assert_false(och_gguf_str_next(&it, &p, &len));
    assert_false(och_gguf_array_str(v, 100, &p, &len));

    och_gguf_value sub;
    v = och_gguf_find(g, "l.nest");
    assert_int_equal(v->elem_type, OCH_GGUF_ARRAY);
    assert_true(och_gguf_array_sub(v, 0, &sub) && sub.count == 2);
    assert_true(och_gguf_array_i64(&sub, 1, &n) && n == 8);
    assert_true(och_gguf_array_sub(v, 1, &sub) && sub.count == 1);
    assert_true(och_gguf_array_str(&sub, 0, &p, &len) && len == 4 && !memcmp(p, "deep", 4));
    assert_false(och_gguf_array_sub(v, 2, &sub));
    assert_int_equal(och_gguf_find(g, "l.empty")->count, 0);
    /* a scalar is no array */
    assert_false(och_gguf_array_i64(och_gguf_find(g, "a.u8"), 0, &n));
    och_gguf_close(g);
    och_strbuf_deinit(&b);
}

static void tensors_are_row_major_views(void **s) {
    (void)s;
    och_strbuf b = {0};
    char text[64];
    build_whole_gguf(&b, 3);
    och_gguf *g = open_built(&b);
    assert_int_equal(och_gguf_n_tensors(g), 3);
    const och_file_tensor *t = och_gguf_find_tensor(g, "mat");
    assert_ptr_equal(t, och_gguf_tensor(g, 1));
    assert_int_equal(t->dtype, OCH_DTYPE_F32);
    assert_int_equal(t->rank, 2);
    assert_true(t->shape[0] == 3 && t->shape[1] == 4 && t->shape[2] == 1 && t->shape[3] == 1);
    assert_int_equal(t->size_bytes, 48);
    assert_int_equal(t->file_offset, b.size - 132 + 32);
    assert_int_equal(((const uint8_t *)t->data)[0], 32);
    assert_string_equal(t->path, "mem.gguf");
    assert_string_equal(t->type_name, "F32");
    assert_string_equal(och_file_tensor_shape_str(t, text, sizeof text), "[3, 4]");
    assert_int_equal(och_file_tensor_check(t, NULL), OCH_OK);
    t = och_gguf_find_tensor(g, "q");
    assert_int_equal(t->dtype, OCH_DTYPE_Q4_0);
    assert_int_equal(t->size_bytes, 36);
    assert_null(och_gguf_find_tensor(g, "nor"));
    assert_null(och_gguf_tensor(g, 3));
    och_gguf_close(g);
    och_strbuf_deinit(&b);
}

static void alignment_is_honoured(void **s) {
    (void)s;
    och_strbuf b = {0};
    put_header(&b, 3, 2, 1);
    put_key(&b, "general.alignment", 4), put_u32(&b, 256);
    put_tensor(&b, &(built_tensor){"a", 1, {1}, 0, 0});
    put_tensor(&b, &(built_tensor){"b", 1, {1}, 0, 256});
    put_data(&b, 256, 260);
    och_gguf *g = open_built(&b);
    assert_int_equal(och_gguf_alignment(g), 256);
    assert_int_equal(och_gguf_data_offset(g), 256);
    assert_int_equal(och_gguf_find_tensor(g, "b")->file_offset, 512);
    och_gguf_close(g);
    och_strbuf_deinit(&b);
}

static void unknown_tensor_types_are_listed(void **s) {
    (void)s;
    och_strbuf b = {0};
    och_err e = {0};
    put_header(&b, 3, 3, 0);
    put_tensor(&b, &(built_tensor){"last", 1, {256}, 777, 128});
    put_tensor(&b, &(built_tensor){"first", 1, {256}, 16, 0});
    put_tensor(&b, &(built_tensor){"mid", 1, {4}, 0, 96});
    put_data(&b, 32, 200);
    och_gguf *g = open_built(&b);
    const och_file_tensor *t = och_gguf_find_tensor(g, "first");
    assert_int_equal(t->dtype, OCH_DTYPE_NONE);
    assert_int_equal(t->raw_type, 16);
    assert_int_equal(t->size_bytes, 96);
    assert_int_equal(och_file_tensor_check(t, &e), OCH_UNSUPPORTED);
    assert_string_equal(e.message,
                        "mem.gguf: tensor 'first': type: expected one that this program reads, found IQ2_XXS");
    t = och_gguf_find_tensor(g, "last");
    assert_int_equal(t->size_bytes, 72);
    assert_string_equal(t->type_name, "type 777");
    och_gguf_close(g);
    och_strbuf_deinit(&b);
}

static void a_file_without_tensors_or_keys(void **s) {
    (void)s;
    och_strbuf b = {0};
    put_header(&b, 3, 0, 0);
    och_gguf *g = open_built(&b);
    assert_int_equal(och_gguf_n_kv(g), 0);
    assert_int_equal(och_gguf_n_tensors(g), 0);
    assert_null(och_gguf_find(g, "x"));
    assert_null(och_gguf_find_tensor(g, "x"));
    och_gguf_close(g);
    och_strbuf_deinit(&b);
}

static void long_names_are_taken(void **s) {
    (void)s;
    och_strbuf b = {0};
    char name[OCH_GGUF_MAX_TENSOR_NAME + 1];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    put_header(&b, 3, 1, 0);
    put_tensor(&b, &(built_tensor){name, 1, {1}, 0, 0});
    put_data(&b, 32, 4);
    och_gguf *g = open_built(&b);
    assert_non_null(och_gguf_find_tensor(g, name));
    och_gguf_close(g);
    och_strbuf_deinit(&b);
}

static void getters_convert_and_refuse(void **s) {
    (void)s;
    och_strbuf b = {0};
    build_whole_gguf(&b, 3);
    och_gguf *g = open_built(&b);
    och_err e = {0};
    uint64_t u = 42;
    int64_t i = 42;
    double d = 42;
    bool t = false;
    const char *str = "default";
    const och_gguf_value *v;
    assert_int_equal(och_gguf_get_u64(g, "a.u32", true, &u, &e), OCH_OK);
    assert_true(u == 4000000000u);
    assert_int_equal(och_gguf_get_u64(g, "absent", false, &u, &e), OCH_OK);
    assert_true(u == 4000000000u);
    assert_int_equal(och_gguf_get_i64(g, "a.u16", true, &i, &e), OCH_OK);
    assert_int_equal(i, 60000);
    assert_int_equal(och_gguf_get_f64(g, "a.f32", true, &d, &e), OCH_OK);
    assert_true(d == 1.5);
    assert_int_equal(och_gguf_get_f64(g, "a.i8", true, &d, &e), OCH_OK);
    assert_true(d == -5);
    assert_int_equal(och_gguf_get_bool(g, "a.bool", true, &t, &e), OCH_OK);
    assert_true(t);
    assert_int_equal(och_gguf_get_str(g, "general.architecture", true, &str, &e), OCH_OK);
    assert_string_equal(str, "llama");
    assert_int_equal(och_gguf_get_array(g, "l.str", true, OCH_GGUF_STRING, &v, &e), OCH_OK);
    assert_int_equal(v->count, 100);
    assert_int_equal(och_gguf_get_array(g, "absent", false, OCH_GGUF_STRING, &v, &e), OCH_OK);
    assert_null(v);
    assert_int_equal(e.status, OCH_OK);

    struct {
        och_status got, want;
        const char *message;
    } cases[] = {
        {och_gguf_get_u64(g, "absent", true, &u, &e), OCH_NOTFOUND,
         "mem.gguf: key 'absent': expected an integer that is not negative, found no such key"},
    };
    assert_int_equal(cases[0].got, cases[0].want);
    assert_string_equal(e.message, cases[0].message);
#define REFUSED(call, text)                                                                                            \
    do {                                                                                                               \
        och_err_clear(&e);                                                                                             \
        assert_int_equal(call, OCH_CORRUPT);                                                                           \
        assert_string_equal(e.message, "mem.gguf: key " text);                                                         \
    } while (0)
    REFUSED(och_gguf_get_u64(g, "a.i8", false, &u, &e), "'a.i8': expected an integer that is not negative, found i8 -5");
    REFUSED(och_gguf_get_u64(g, "a.f32", false, &u, &e), "'a.f32': expected an integer that is not negative, found f32 1.5");
    REFUSED(och_gguf_get_u64(g, "a.bool", false, &u, &e),
            "'a.bool': expected an integer that is not negative, found bool true");
    REFUSED(och_gguf_get_i64(g, "a.u64", false, &i, &e),
            "'a.u64': expected an integer of 64 bits with sign, found u64 9223372036854775808");
    REFUSED(och_gguf_get_f64(g, "general.architecture", false, &d, &e),
            "'general.architecture': expected a finite number, found string of 5 bytes");
    REFUSED(och_gguf_get_bool(g, "a.u8", false, &t, &e), "'a.u8': expected a bool, found u8 200");
    REFUSED(och_gguf_get_str(g, "l.str", false, &str, &e),
            "'l.str': expected a string without NUL bytes, found array of 100 string");
    REFUSED(och_gguf_get_array(g, "l.i32", false, OCH_GGUF_STRING, &v, &e),
            "'l.i32': expected an array of string, found array of 2 i32");
    REFUSED(och_gguf_get_array(g, "a.i32", false, OCH_GGUF_TYPE_COUNT_, &v, &e),
            "'a.i32': expected an array, found i32 -70000");
#undef REFUSED
    och_gguf_close(g);
    och_strbuf_deinit(&b);
}

static void strings_with_a_nul_have_a_length(void **s) {
    (void)s;
    och_strbuf b = {0};
    och_err e = {0};
    const char *str = NULL;
    put_header(&b, 3, 0, 1);
    put_key(&b, "k", 8), put_u64(&b, 3), och_strbuf_append(&b, "a\0b", 3);
    och_gguf *g = open_built(&b);
    assert_int_equal(och_gguf_find(g, "k")->len, 3);
    assert_memory_equal(och_gguf_find(g, "k")->str, "a\0b", 4);
    assert_int_equal(och_gguf_get_str(g, "k", true, &str, &e), OCH_CORRUPT);
    assert_string_equal(e.message, "mem.gguf: key 'k': expected a string without NUL bytes, found string of 3 bytes");
    assert_null(str);
    och_gguf_close(g);
    och_strbuf_deinit(&b);
}

/* Pages of the mapping that are resident for this process. */
static uint64_t resident_bytes(const och_mapping *m) {
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[512];
    uint64_t kib = 0;
    bool mine = false;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        unsigned long first, last;
        unsigned long long n;
        if (sscanf(line, "%lx-%lx ", &first, &last) == 2)
            mine = first >= (uintptr_t)m->data && last <= ((uintptr_t)m->data + m->size + 4095) / 4096 * 4096;
        else if (mine && sscanf(line, "Rss: %llu kB", &n) == 1) kib += n;
    }
    fclose(f);
    return kib * 1024;
}

static void opening_touches_only_the_header(void **s) {
    (void)s;
    char path[] = "/tmp/ochre-test-XXXXXX";
    int fd = mkstemp(path);
    och_strbuf b = {0};
    och_err e = {0};
    och_gguf *g;
    const uint64_t rows = 65536, header = 4096;
    put_header(&b, 3, 1, 0);
    put_tensor(&b, &(built_tensor){"big", 2, {1024, rows}, 0, header - 96}); /* 256 MiB, a hole in the file */
    assert_true(b.size <= 96);
    assert_int_equal(write(fd, b.data, b.size), b.size);
    assert_int_equal(ftruncate(fd, (off_t)(header + rows * 4096)), 0);
    close(fd);
    int64_t live = och_alloc_live();
    assert_int_equal(och_gguf_open(path, &g, &e), OCH_OK);
    assert_int_equal(och_gguf_find_tensor(g, "big")->size_bytes, rows * 4096);
    assert_true(resident_bytes(och_gguf_mapping(g)) <= 256 * 1024); /* what the kernel maps around a fault */
    assert_true(och_alloc_live() - live <= 10);
    och_gguf_close(g);
    assert_int_equal(och_alloc_live(), live);
    unlink(path);
    och_strbuf_deinit(&b);
}

static void large_vocabularies_open_in_milliseconds(void **s) {
    (void)s;
    och_strbuf b = {0};
    put_header(&b, 3, 0, 1);
    put_key(&b, "tokenizer.ggml.tokens", 9), put_u32(&b, 8), put_u64(&b, 262144);
    for (int i = 0; i < 262144; i++) {
        char text[24];
        snprintf(text, sizeof text, "token%d", i);
        put_str(&b, text);
    }
    clock_t t0 = clock(); /* of this process: the machine may be busy */
    och_gguf *g = open_built(&b);
    const och_gguf_value *v = och_gguf_find(g, "tokenizer.ggml.tokens");
    const char *p;
    size_t n, total = 0;
    och_gguf_str_iter it = och_gguf_str_iter_view(v);
    while (och_gguf_str_next(&it, &p, &n)) total += n;
    for (uint64_t i = 0; i < 262144; i += 3) {
        assert_true(och_gguf_array_str(v, i * 7919 % 262144, &p, &n));
        total += n;
    }
    double seconds = (double)(clock() - t0) / CLOCKS_PER_SEC;
    print_message("[          ] opened and read 262144 strings in %.1f ms\n", seconds * 1e3);
    assert_true(total > 262144 * 6);
    assert_true(seconds < 1.0); /* far above what it takes, far below what a walk per string would */
    och_gguf_close(g);
    och_strbuf_deinit(&b);
}

/* What gguf-py (GGUFReader) says of the model that `ochre pull smollm2-135m` brings; skipped where it is not there. */
static void a_real_model_reads_as_another_reader_says(void **s) {
    (void)s;
    static const char path[] = OCHRE_SOURCE_DIR "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
    och_gguf *g;
    och_err e = {0};
    const och_gguf_value *tokens;
    const char *p;
    size_t n;
    if (access(path, R_OK) != 0) skip();
    if (och_gguf_open(path, &g, &e) != OCH_OK) fail_msg("%s", e.message);
    assert_int_equal(och_gguf_version(g), 3);
    assert_int_equal(och_gguf_n_tensors(g), 272);
    assert_int_equal(och_gguf_n_kv(g), 33);
    static const struct {
        const char *name;
        och_dtype dtype;
        uint64_t rows, cols, offset, size;
    } rows[] = {{"token_embd.weight", OCH_DTYPE_Q8_0, 49152, 576, 1785664, 30081024},
                {"blk.9.attn_q.weight", OCH_DTYPE_Q4_1, 576, 576, 98083648, 207360},
                {"blk.9.attn_v.weight", OCH_DTYPE_Q4_1, 192, 576, 98291008, 69120}};
    for (size_t i = 0; i < 3; i++) {
        const och_file_tensor *t = och_gguf_find_tensor(g, rows[i].name);
        assert_non_null(t);
        assert_int_equal(t->dtype, rows[i].dtype);
        assert_true(t->rank == 2 && t->shape[0] == rows[i].rows && t->shape[1] == rows[i].cols);
        assert_true(t->file_offset == rows[i].offset && t->size_bytes == rows[i].size);
    }
    assert_int_equal(och_gguf_get_array(g, "tokenizer.ggml.tokens", true, OCH_GGUF_STRING, &tokens, &e), OCH_OK);
    assert_int_equal(tokens->count, 49152);
    assert_true(och_gguf_array_str(tokens, 1, &p, &n) && n == 12 && !memcmp(p, "<|im_start|>", 12));
    assert_true(och_gguf_array_str(tokens, 6, &p, &n) && n == 10 && !memcmp(p, "<filename>", 10));
    och_gguf_close(g);
}

static void probing_tells_gguf_from_others(void **s) {
    (void)s;
    char path[] = "/tmp/ochre-test-XXXXXX";
    int fd = mkstemp(path);
    assert_false(och_gguf_probe(path));
    assert_int_equal(write(fd, "GGUF", 4), 4);
    assert_true(och_gguf_probe(path));
    close(fd);
    unlink(path);
    assert_false(och_gguf_probe(path));
    assert_false(och_gguf_probe("/tmp"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_type),
        cmocka_unit_test(arrays),
        cmocka_unit_test(tensors_are_row_major_views),
        cmocka_unit_test(alignment_is_honoured),
        cmocka_unit_test(unknown_tensor_types_are_listed),
        cmocka_unit_test(a_file_without_tensors_or_keys),
        cmocka_unit_test(long_names_are_taken),
        cmocka_unit_test(getters_convert_and_refuse),
        cmocka_unit_test(strings_with_a_nul_have_a_length),
        cmocka_unit_test(opening_touches_only_the_header),
        cmocka_unit_test(large_vocabularies_open_in_milliseconds),
        cmocka_unit_test(a_real_model_reads_as_another_reader_says),
        cmocka_unit_test(probing_tells_gguf_from_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
