/* safetensors files and folders, right and wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "file/safetensors.h"
#include "file/write.h"
#include "unit/file_build.h"
#include "unit/temp_dir.h"

#include <glob.h>

static och_status open_bytes(const void *bytes, size_t n, och_safetensors **out_t, och_err *e) {
    och_err_clear(e);
    och_status st = och_safetensors_open_memory("f", bytes, n, out_t, e);
    assert_int_equal(st, e->status);
    if (st != OCH_OK) assert_null(*out_t);
    return st;
}

static void whole_file(void **s) {
    (void)s;
    och_strbuf b = {0};
    och_err e = {0};
    och_safetensors *t;
    char text[64];
    const char *key, *value;
    build_safetensors(&b, WHOLE_SAFETENSORS, 32);
    if (open_bytes(b.data, b.size, &t, &e) != OCH_OK) fail_msg("%s", e.message);
    assert_int_equal(och_safetensors_n_tensors(t), 5);
    assert_int_equal(och_safetensors_n_shards(t), 1);
    const och_file_tensor *x = och_safetensors_find(t, "a");
    assert_int_equal(x->dtype, OCH_DTYPE_F32);
    assert_true(x->rank == 2 && x->shape[0] == 2 && x->shape[1] == 3 && x->shape[2] == 1);
    assert_int_equal(x->size_bytes, 24);
    assert_int_equal(x->file_offset, b.size - 32);
    assert_int_equal(((const uint8_t *)x->data)[5], 5);
    x = och_safetensors_find(t, "scalar");
    assert_true(x->rank == 0 && x->dtype == OCH_DTYPE_F16 && x->size_bytes == 2);
    assert_int_equal(((const uint8_t *)x->data)[0], 24);
    assert_string_equal(och_file_tensor_shape_str(x, text, sizeof text), "[]");
    x = och_safetensors_find(t, "none");
    assert_true(x->rank == 2 && x->size_bytes == 0 && x->shape[0] == 0);
    assert_int_equal(och_file_tensor_check(x, &e), OCH_OK);
    x = och_safetensors_find(t, "fp8");
    assert_int_equal(x->dtype, OCH_DTYPE_NONE);
    assert_int_equal(och_file_tensor_check(x, &e), OCH_UNSUPPORTED);
    assert_string_equal(e.message, "f: tensor 'fp8': type: expected one that this program reads, found F8_E4M3");
    och_err_clear(&e);
    x = och_safetensors_find(t, "five");
    assert_int_equal(x->rank, 5);
    assert_int_equal(och_file_tensor_check(x, &e), OCH_UNSUPPORTED);
    assert_string_equal(e.message, "f: tensor 'five': rank: expected at most 4 dimensions, found 5");
    assert_null(och_safetensors_find(t, "b"));
    assert_null(och_safetensors_find(t, "__metadata__"));
    assert_int_equal(och_safetensors_n_metadata(t), 2);
    och_safetensors_metadata_at(t, 0, &key, &value);
    assert_string_equal(key, "format");
    assert_string_equal(value, "pt");
    assert_string_equal(och_safetensors_metadata(t, "who"), "\xc3\xa9");
    assert_null(och_safetensors_metadata(t, "nobody"));
    och_safetensors_close(t);
    och_strbuf_deinit(&b);
}

static void no_tensors_is_legal(void **s) {
    (void)s;
    och_strbuf b = {0};
    och_err e = {0};
    och_safetensors *t;
    build_safetensors(&b, "{}", 0);
    assert_int_equal(open_bytes(b.data, b.size, &t, &e), OCH_OK);
    assert_int_equal(och_safetensors_n_tensors(t), 0);
    och_safetensors_close(t);
    och_strbuf_deinit(&b);
}

static void broken_headers_say_what_is_wrong(void **s) {
    (void)s;
#define T(shape, offsets) "{\"t\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
    static const struct {
        const char *header;
        size_t n_data;
        const char *message;
    } cases[] = {
        {"{", 0, "f: size: expected at least 10 bytes (a header's length and \"{}\"), found 9"},
        {"[]", 0, "f: header: expected a JSON object, found array"},
        {"{ ", 0, "safetensors header: f: line 1, column 2: expected JSON, found: string or '}' expected near end of file"},
        {"{} x", 0, "safetensors header: f: line 1, column 4: expected JSON, found: end of file expected near 'x'"},
        {"{\"t\":3}", 0, "f: tensor 't': entry: expected an object, found integer"},
        {"{\"t\":{}}", 0, "f: tensor 't': dtype: expected a string, found no such field"},
        {"{\"t\":{\"dtype\":7}}", 0, "f: tensor 't': dtype: expected a string, found integer"},
        {"{\"t\":{\"dtype\":\"F32\"}}", 0, "f: tensor 't': shape: expected an array of integers, found no such field"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[]}}", 0,
         "f: tensor 't': data_offsets: expected an array of two integers, found no such field"},
        {T("[1]", "[0]"), 4, "f: tensor 't': data_offsets: expected an array of two integers, found array"},
        {T("[1]", "[0,\"4\"]"), 4, "f: tensor 't': data_offsets: expected an array of two integers, found string"},
        {T("[1]", "[0,4.0]"), 4, "f: tensor 't': data_offsets: expected an array of two integers, found real"},
        {T("[-1]", "[0,4]"), 4, "f: tensor 't': shape[0]: expected an integer that is not negative, found a negative one"},
        {T("[1,true]", "[0,4]"), 4, "f: tensor 't': shape[1]: expected an integer that is not negative, found true"},
        {T("[1e3]", "[0,4]"), 4, "f: tensor 't': shape[0]: expected an integer that is not negative, found real"},
        {T("[2]", "[0,4]"), 4, "f: tensor 't': data_offsets: expected the bytes of F32 [2], found 4"},
        {T("[4294967296,4294967296]", "[0,4]"), 4,
         "f: tensor 't': data_offsets: expected the bytes of F32 [4294967296, 4294967296], found 4"},
        {T("[4611686018427387904,4]", "[0,0]"), 0,
         "f: tensor 't': data_offsets: expected the bytes of F32 [4611686018427387904, 4], found 0"},
        {T("[1]", "[0,8]"), 4,
         "f: tensor 't': data_offsets: expected 0 <= begin <= end <= 4 (the bytes of data in the file), found [0, 8]"},
        {T("[1]", "[4,0]"), 4,
         "f: tensor 't': data_offsets: expected 0 <= begin <= end <= 4 (the bytes of data in the file), found [4, 0]"},
        {T("[1]", "[-4,0]"), 4,
         "f: tensor 't': data_offsets: expected 0 <= begin <= end <= 4 (the bytes of data in the file), found [-4, 0]"},
        {T("[1]", "[9223372036854775803,9223372036854775807]"), 4,
         "f: tensor 't': data_offsets: expected 0 <= begin <= end <= 4 (the bytes of data in the file), found "
         "[9223372036854775803, 9223372036854775807]"},
        {T("[1]", "[4,8]"), 8,
         "f: tensor 't': data_offsets: expected it to begin at 0, where the data begins, found 4 (a hole)"},
        {T("[1]", "[0,4]"), 6, "f: data: expected the file to end with the last tensor, at byte 66, found 2 bytes more"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[6],\"data_offsets\":[0,6]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],"
         "\"data_offsets\":[4,8]}}",
         8, "f: tensor 'b': data_offsets: expected it to begin at 6, where tensor 'a' ends, found 4 (an overlap)"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],"
         "\"data_offsets\":[4,8]}}",
         8, "f: tensor 'b': data_offsets: expected it to begin at 2, where tensor 'a' ends, found 4 (a hole)"},
        {"{\"a\":{\"dtype\":\"F8_E5M2\",\"shape\":[2],\"data_offsets\":[0,3]}}", 3,
         "f: tensor 'a': data_offsets: expected the bytes of F8_E5M2 [2], found 3"},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1, /* 12 bits are no whole bytes */
         "f: tensor 'a': data_offsets: expected the bytes of F4 [3], found 1"},
        {"{\"__metadata__\":3}", 0, "f: __metadata__: expected an object of strings, found integer"},
        {"{\"__metadata__\":{\"k\":[]}}", 0, "f: __metadata__: 'k': expected a string, found array"},
    };
#undef T
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        och_strbuf b = {0};
        och_err e;
        och_safetensors *t;
        build_safetensors(&b, cases[i].header, cases[i].n_data);
        uint8_t *copy = malloc(b.size);
        memcpy(copy, b.data, b.size);
        och_status st = open_bytes(copy, b.size, &t, &e);
        if (st != OCH_CORRUPT || strcmp(e.message, cases[i].message))
            fail_msg("%s: status %d\n want %s\n got  %s", cases[i].header, st, cases[i].message, e.message);
        free(copy);
        och_strbuf_deinit(&b);
    }
}

static void duplicates_and_depth_are_refused(void **s) {
    (void)s;
    och_strbuf b = {0}, deep = {0};
    och_err e;
    och_safetensors *t;
    build_safetensors(&b,
                      "{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"t\":{\"dtype\":\"U8\",\"shape\":"
                      "[1],\"data_offsets\":[0,1]}}",
                      1);
    assert_int_equal(open_bytes(b.data, b.size, &t, &e), OCH_CORRUPT);
    assert_non_null(strstr(e.message, "duplicate object key"));
    och_strbuf_deinit(&b);
    for (int i = 0; i < 100000; i++) och_strbuf_puts(&deep, "[");
    b = (och_strbuf){0};
    build_safetensors(&b, deep.data, 0);
    assert_int_equal(open_bytes(b.data, b.size, &t, &e), OCH_CORRUPT);
    assert_string_equal(e.message,
                        "safetensors header: f: JSON: expected a nesting of at most 64, found more at byte 64");
    och_strbuf_deinit(&b);
    och_strbuf_deinit(&deep);
}

static void header_length_at_its_extremes(void **s) {
    (void)s;
    static const uint64_t values[] = {0, 1, INT64_MAX, UINT64_MAX, 100000001};
    for (size_t k = 0; k < 5; k++) {
        och_strbuf b = {0};
        och_err e;
        och_safetensors *t;
        char want[160];
        build_safetensors(&b, WHOLE_SAFETENSORS, 32);
        memcpy(b.data, &values[k], 8);
        assert_int_equal(open_bytes(b.data, b.size, &t, &e), OCH_CORRUPT);
        snprintf(want, sizeof want, "f: header length: expected 2 to %zu, found %llu", b.size - 8,
                 (unsigned long long)values[k]);
        assert_string_equal(e.message, want);
        och_strbuf_deinit(&b);
    }
}

static void truncated_anywhere(void **s) {
    (void)s;
    och_strbuf b = {0};
    build_safetensors(&b, WHOLE_SAFETENSORS, 32);
    for (size_t n = 0; n < b.size; n++) {
        och_err e;
        och_safetensors *t;
        uint8_t *copy = malloc(n ? n : 1);
        memcpy(copy, b.data, n);
        int64_t live = och_alloc_live();
        assert_int_equal(open_bytes(copy, n, &t, &e), OCH_CORRUPT);
        assert_int_equal(och_alloc_live(), live);
        if (strncmp(e.message, "f: ", 3) || !strstr(e.message, ": expected ") || !strstr(e.message, "found "))
            fail_msg("%zu bytes: %s", n, e.message);
        free(copy);
    }
    och_strbuf_deinit(&b);
}

/* Files that the safetensors library wrote, whole and cut at every 1% of the file and of the header. */
static void goldens_open_and_their_pieces_do_not(void **s) {
    (void)s;
    glob_t found = {0};
    glob(OCHRE_SOURCE_DIR "/tests/golden/*/model.safetensors", 0, NULL, &found);
    glob(OCHRE_SOURCE_DIR "/tests/golden/*.safetensors", GLOB_APPEND, NULL, &found);
    assert_true(found.gl_pathc > 0);
    for (size_t k = 0; k < found.gl_pathc; k++) {
        och_safetensors *t, *cut;
        och_err e = {0};
        uint64_t header;
        if (och_safetensors_open(found.gl_pathv[k], &t, &e) != OCH_OK) fail_msg("%s", e.message);
        assert_true(och_safetensors_n_tensors(t) > 0);
        const och_mapping *m = och_safetensors_mapping(t, 0);
        memcpy(&header, m->data, 8);
        for (uint64_t percent = 0; percent < 100; percent++)
            for (int part = 0; part < 2; part++) {
                och_err_clear(&e);
                uint64_t n = (part ? 8 + header : m->size) / 100 * percent;
                assert_int_equal(och_safetensors_open_memory(m->path, m->data, n, &cut, &e), OCH_CORRUPT);
                if (!strstr(e.message, m->path) || !strstr(e.message, ": expected ") || !strstr(e.message, "found "))
                    fail_msg("%s", e.message);
            }
        och_safetensors_close(t);
    }
    print_message("[          ] %zu files\n", found.gl_pathc);
    globfree(&found);
}

static void flipped_bytes_never_crash(void **s) {
    (void)s;
    och_strbuf b = {0};
    build_safetensors(&b, WHOLE_SAFETENSORS, 32);
    for (size_t i = 0; i < b.size - 32; i++)
        for (int bit = 0; bit < 8; bit++) {
            och_err e;
            och_safetensors *t = NULL;
            b.data[i] = (char)(b.data[i] ^ 1 << bit);
            (void)open_bytes(b.data, b.size, &t, &e);
            och_safetensors_close(t);
            b.data[i] = (char)(b.data[i] ^ 1 << bit);
        }
    och_strbuf_deinit(&b);
}

static void put_file(const char *name, const char *header, size_t n) {
    och_strbuf b = {0};
    och_err e = {0};
    build_safetensors(&b, header, n);
    assert_int_equal(och_write_file(in_dir(name), b.data, b.size, &e), OCH_OK);
    och_strbuf_deinit(&b);
}

static void put_text(const char *name, const char *text) {
    och_err e = {0};
    assert_int_equal(och_write_file(in_dir(name), text, strlen(text), &e), OCH_OK);
}

#define ONE(name, n) "{\"" name "\":{\"dtype\":\"U8\",\"shape\":[" #n "],\"data_offsets\":[0," #n "]}}"

static void refuse_dir(och_status want, const char *fmt) {
    och_err e = {0};
    och_safetensors *t;
    char message[OCH_ERR_MESSAGE_BYTES];
    int64_t live = och_alloc_live();
    assert_int_equal(och_safetensors_open_dir(dir, &t, &e), want);
    assert_null(t);
    assert_int_equal(och_alloc_live(), live);
    /* every %D stands for the folder */
    char *out = message;
    for (const char *p = fmt; *p;)
        if (p[0] == '%' && p[1] == 'D') out = stpcpy(out, dir), p += 2;
        else *out++ = *p++;
    *out = 0;
    assert_string_equal(e.message, message);
}

static void folders(void **s) {
    (void)s;
    och_err e = {0};
    och_safetensors *t;
    refuse_dir(OCH_NOTFOUND, "%D: expected model.safetensors.index.json or model.safetensors, found neither");

    put_file("model.safetensors", ONE("alone", 3), 3);
    assert_int_equal(och_safetensors_open_dir(dir, &t, &e), OCH_OK);
    assert_int_equal(och_safetensors_find(t, "alone")->size_bytes, 3);
    och_safetensors_close(t);
    assert_int_equal(och_safetensors_open(in_dir("model.safetensors"), &t, &e), OCH_OK);
    och_safetensors_close(t);

    /* the index wins over a single file */
    put_file("m-1.safetensors", ONE("a", 2), 2);
    put_file("m-2.safetensors", ONE("b", 5), 5);
    put_text("model.safetensors.index.json",
             "{\"metadata\":{\"total_size\":7},\"weight_map\":{\"a\":\"m-1.safetensors\",\"b\":\"m-2.safetensors\"}}");
    if (och_safetensors_open_dir(dir, &t, &e) != OCH_OK) fail_msg("%s", e.message);
    assert_int_equal(och_safetensors_n_tensors(t), 2);
    assert_int_equal(och_safetensors_n_shards(t), 2);
    const och_file_tensor *b = och_safetensors_find(t, "b");
    assert_int_equal(b->size_bytes, 5);
    assert_int_equal(((const uint8_t *)b->data)[4], 4);
    assert_ptr_equal(b->mapping, och_safetensors_mapping(t, 1));
    assert_string_equal(b->path, in_dir("m-2.safetensors"));
    och_safetensors_close(t);

    put_text("model.safetensors.index.json", "{\"weight_map\":{\"a\":\"m-1.safetensors\",\"b\":\"m-3.safetensors\"}}");
    refuse_dir(OCH_NOTFOUND,
               "shard 'm-3.safetensors' that the index names: %D/m-3.safetensors: expected a file that can be read, found: No "
               "such file or directory");
    put_text("model.safetensors.index.json",
             "{\"weight_map\":{\"a\":\"m-1.safetensors\",\"c\":\"m-2.safetensors\"}}");
    refuse_dir(OCH_CORRUPT,
               "%D/model.safetensors.index.json: weight_map: 'c': expected the tensor in shard 'm-2.safetensors', found it "
               "in none of the shards");
    put_text("model.safetensors.index.json",
             "{\"weight_map\":{\"a\":\"m-2.safetensors\",\"b\":\"m-1.safetensors\"}}");
    refuse_dir(OCH_CORRUPT,
               "%D/model.safetensors.index.json: weight_map: 'a': expected the tensor in shard 'm-2.safetensors', found it "
               "in %D/m-1.safetensors");
    put_file("m-2.safetensors", ONE("a", 2), 2);
    put_text("model.safetensors.index.json",
             "{\"weight_map\":{\"a\":\"m-1.safetensors\",\"b\":\"m-2.safetensors\"}}");
    refuse_dir(OCH_CORRUPT,
               "%D/m-2.safetensors: tensor 'a': expected it in one shard, found it in %D/m-1.safetensors as well");
    put_text("model.safetensors.index.json", "{\"weight_map\":{\"a\":\"../m-1.safetensors\"}}");
    refuse_dir(OCH_CORRUPT,
               "%D/model.safetensors.index.json: weight_map: 'a': expected the name of a file in the same folder, found "
               "../m-1.safetensors");
    put_text("model.safetensors.index.json", "{\"weight_map\":{\"a\":\"sub/m-1.safetensors\"}}");
    refuse_dir(OCH_CORRUPT,
               "%D/model.safetensors.index.json: weight_map: 'a': expected the name of a file in the same folder, found "
               "sub/m-1.safetensors");
    put_text("model.safetensors.index.json", "{\"weight_map\":{\"a\":5}}");
    refuse_dir(OCH_CORRUPT,
               "%D/model.safetensors.index.json: weight_map: 'a': expected the name of a file in the same folder, found "
               "integer");
    put_text("model.safetensors.index.json", "{\"weight_map\":[]}");
    refuse_dir(OCH_CORRUPT, "%D/model.safetensors.index.json: 'weight_map': expected an object, found array");
    put_text("model.safetensors.index.json", "{}");
    refuse_dir(OCH_NOTFOUND, "%D/model.safetensors.index.json: 'weight_map': expected an object, found no such key");
    /* a shard cut short is named as itself */
    put_text("model.safetensors.index.json", "{\"weight_map\":{\"a\":\"m-1.safetensors\"}}");
    put_file("m-1.safetensors", ONE("a", 2), 1);
    refuse_dir(OCH_CORRUPT,
               "%D/m-1.safetensors: tensor 'a': data_offsets: expected 0 <= begin <= end <= 1 (the bytes of data in the "
               "file), found [0, 2]");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_file),
        cmocka_unit_test(no_tensors_is_legal),
        cmocka_unit_test(broken_headers_say_what_is_wrong),
        cmocka_unit_test(duplicates_and_depth_are_refused),
        cmocka_unit_test(header_length_at_its_extremes),
        cmocka_unit_test(truncated_anywhere),
        cmocka_unit_test(goldens_open_and_their_pieces_do_not),
        cmocka_unit_test(flipped_bytes_never_crash),
        cmocka_unit_test(folders),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
