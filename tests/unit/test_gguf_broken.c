/* GGUF files that are wrong: each is an error that names the file, the field, what was expected and what was found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "file/gguf.h"
#include "unit/file_build.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Opens from a heap copy of exactly n bytes, so that the sanitizers see a read beyond the end. */
static och_status open_bytes(const char *name, const void *bytes, size_t n, och_err *e) {
    och_gguf *g = NULL;
    uint8_t *copy = malloc(n ? n : 1);
    memcpy(copy, bytes, n);
    int64_t live = och_alloc_live();
    och_err_clear(e);
    och_status st = och_gguf_open_memory(name, copy, n, &g, e);
    assert_int_equal(st, e->status);
    if (st != OCH_OK) assert_null(g);
    och_gguf_close(g);
    assert_int_equal(och_alloc_live(), live);
    free(copy);
    return st;
}

/* The shape of every message, whatever it says. */
static void assert_speaks(const och_err *e, const char *name) {
    if (strncmp(e->message, name, strlen(name)) || !strstr(e->message, ": expected ") || !strstr(e->message, "found ") ||
        strchr(e->message, '\n') || e->message[strlen(e->message) - 1] == '.')
        fail_msg("a message that does not name file, expected and found: %s", e->message);
}

static void assert_refused(och_strbuf *b, och_status want, const char *message) {
    och_err e;
    assert_int_equal(open_bytes("f", b->data, b->size, &e), want);
    assert_speaks(&e, "f: ");
    assert_string_equal(e.message, message);
    och_strbuf_deinit(b);
    *b = (och_strbuf){0};
}

static void truncated_anywhere(void **s) {
    (void)s;
    och_strbuf b = {0};
    och_err e;
    build_whole_gguf(&b, 3);
    assert_int_equal(open_bytes("f", b.data, b.size, &e), OCH_OK);
    for (size_t n = 0; n < b.size; n++) {
        assert_int_equal(open_bytes("f", b.data, n, &e), OCH_CORRUPT);
        assert_speaks(&e, "f: ");
    }
    och_strbuf_deinit(&b);
}

/* Real models and goldens, cut at every 1% of the file and at every 1% of the header; nothing to do where none is. */
static void real_files_truncated_at_every_percent(void **s) {
    (void)s;
    glob_t found = {0};
    int n_files = 0;
    glob(OCHRE_SOURCE_DIR "/models/*.gguf", 0, NULL, &found);
    glob(OCHRE_SOURCE_DIR "/tests/golden/*.gguf", GLOB_APPEND, NULL, &found);
    for (size_t k = 0; k < found.gl_pathc; k++) {
        och_err e = {0};
        och_gguf *g, *cut;
        if (och_gguf_open(found.gl_pathv[k], &g, &e) != OCH_OK) fail_msg("%s", e.message);
        const och_mapping *m = och_gguf_mapping(g);
        for (int part = 0; part < 2; part++) {
            uint64_t whole = part ? och_gguf_data_offset(g) : m->size;
            for (uint64_t percent = 0; percent < 100; percent++) {
                och_err_clear(&e);
                /* straight from the mapping: the readers are shown fewer bytes than there are */
                assert_int_equal(och_gguf_open_memory(m->path, m->data, whole / 100 * percent, &cut, &e), OCH_CORRUPT);
                assert_speaks(&e, m->path);
            }
        }
        n_files++;
        och_gguf_close(g);
    }
    print_message("[          ] %d files\n", n_files);
    globfree(&found);
}

typedef struct field {
    const char *name;
    size_t offset;
    int n_bytes;
} field;

/* Two key-values and two tensors; the places of all fields go to f, their number is returned. */
static int build_fields(och_strbuf *b, field *f) {
    int n = 0;
#define HERE(what, bytes) f[n++] = (field){what, b->size, bytes}
    f[n++] = (field){"magic", 0, 4};
    f[n++] = (field){"version", 4, 4};
    f[n++] = (field){"tensor_count", 8, 8};
    f[n++] = (field){"metadata_kv_count", 16, 8};
    put_header(b, 3, 2, 3);
    HERE("key length", 8);
    put_str(b, "k.arr");
    HERE("value type", 4);
    put_u32(b, 9);
    HERE("array element type", 4);
    put_u32(b, 8);
    HERE("array count", 8);
    put_u64(b, 1);
    HERE("array string length", 8);
    put_str(b, "one");
    put_str(b, "k.str");
    put_u32(b, 8);
    HERE("string length", 8);
    put_str(b, "text");
    put_str(b, "general.alignment");
    HERE("alignment type", 4);
    put_u32(b, 4);
    HERE("alignment", 4);
    put_u32(b, 64);
    HERE("name length", 8);
    put_str(b, "first");
    HERE("n_dims", 4);
    put_u32(b, 2);
    HERE("ne[0]", 8);
    put_u64(b, 32);
    HERE("ne[1]", 8);
    put_u64(b, 2);
    HERE("type", 4);
    put_u32(b, 2);
    HERE("offset", 8);
    put_u64(b, 0);
    put_tensor(b, &(built_tensor){"second", 1, {8}, 0, 64});
    put_data(b, 64, 96);
#undef HERE
    return n;
}

static void every_field_at_its_extremes(void **s) {
    (void)s;
    /* what a changed field may legally turn into: fewer tensors (the rest is data), fewer rows, a type that is
     * not known and only listed; nothing else may open */
    static const struct {
        const char *name;
        int value; /* index into values */
    } may_open[] = {{"tensor_count", 0}, {"tensor_count", 1}, {"array count", 1} /* as it was */, {"ne[1]", 1}, {"type", 2}, {"type", 3},
                    {"offset", 0} /* as it was */};
    static const uint64_t values[] = {0, 1, INT64_MAX, UINT64_MAX};
    for (int i = 0;; i++) {
        field fields[24];
        och_strbuf b = {0};
        och_err e;
        int n = build_fields(&b, fields);
        assert_true(n <= 24);
        if (i == n) {
            assert_int_equal(open_bytes("f", b.data, b.size, &e), OCH_OK);
            och_strbuf_deinit(&b);
            break;
        }
        uint8_t *at = (uint8_t *)b.data + fields[i].offset, kept[8];
        memcpy(kept, at, 8);
        for (int k = 0; k < 4; k++) {
            uint64_t v = k == 2 && fields[i].n_bytes == 4 ? INT32_MAX : values[k];
            bool may = false;
            for (size_t a = 0; a < sizeof may_open / sizeof *may_open; a++)
                may |= !strcmp(may_open[a].name, fields[i].name) && may_open[a].value == k;
            memcpy(at, &v, (size_t)fields[i].n_bytes);
            och_status st = open_bytes("f", b.data, b.size, &e);
            if ((st == OCH_OK) != may)
                fail_msg("field %s value #%d: %s", fields[i].name, k, st == OCH_OK ? "opened" : e.message);
            if (st != OCH_OK) assert_speaks(&e, "f: ");
            memcpy(at, kept, 8);
        }
        och_strbuf_deinit(&b);
    }
}

static void the_fields_are_named(void **s) {
    (void)s;
    static const struct {
        const char *field;
        uint64_t value;
        och_status status;
        const char *message;
    } cases[] = {
        {"magic", 0x46554747, OCH_OK, ""},
        {"magic", 0, OCH_CORRUPT, "f: magic: expected 'GGUF' (47 47 55 46) at the start of the file, found 00 00 00 00"},
        {"magic", 0x47475546, OCH_UNSUPPORTED, "f: magic: expected a little-endian GGUF file, found a big-endian one"},
        {"version", 1, OCH_UNSUPPORTED,
         "f: header: version: expected 2 or 3, found 1 (convert the model again with a current converter)"},
        {"version", 4, OCH_UNSUPPORTED, "f: header: version: expected 2 or 3, found 4"},
        {"version", 0x03000000, OCH_UNSUPPORTED,
         "f: header: version: expected a little-endian file, found a big-endian one (0x03000000)"},
        {"tensor_count", UINT64_MAX, OCH_CORRUPT,
         "f: header: tensor_count: expected at most 9 (what the file has room for), found 18446744073709551615"},
        {"metadata_kv_count", UINT64_C(1) << 40, OCH_CORRUPT,
         "f: header: metadata_kv_count: expected at most 23 (what the file has room for), found 1099511627776"},
        {"key length", 70000, OCH_CORRUPT,
         "f: key-value 0: key: expected a length of at most 320 (the bytes left in the file), found 70000 at offset 24"},
        {"key length", 0, OCH_CORRUPT, "f: key-value 0: key: expected a name without NUL bytes, found an empty one"},
        {"value type", 13, OCH_CORRUPT, "f: key 'k.arr': value type: expected 0 to 12, found 13 at offset 37"},
        {"array element type", 99, OCH_CORRUPT,
         "f: key 'k.arr': array element type: expected 0 to 12, found 99 at offset 41"},
        {"array count", UINT64_MAX, OCH_CORRUPT,
         "f: key 'k.arr': array count: expected at most 37 elements of type string in the 299 bytes left in the file, "
         "found 18446744073709551615 at offset 45"},
        {"array string length", UINT64_MAX - 7, OCH_CORRUPT,
         "f: key 'k.arr': array string: expected a length of at most 291 (the bytes left in the file), found "
         "18446744073709551608 at offset 53"},
        {"string length", 1u << 30, OCH_CORRUPT,
         "f: key 'k.str': string: expected a length of at most 263 (the bytes left in the file), found 1073741824 at "
         "offset 81"},
        {"alignment type", 6, OCH_CORRUPT,
         "f: key 'general.alignment': expected an integer that is not negative, found f32 8.96831e-44"},
        {"alignment", 48, OCH_CORRUPT,
         "f: key 'general.alignment': expected a power of two from 8 to 2^31, found 48"},
        {"alignment", 4, OCH_CORRUPT, "f: key 'general.alignment': expected a power of two from 8 to 2^31, found 4"},
        {"alignment", 128, OCH_CORRUPT,
         "f: tensor 'second': offset: expected a multiple of 128 (general.alignment), found 64"},
        {"n_dims", 5, OCH_CORRUPT, "f: tensor 'first': n_dims: expected 1 to 4, found 5 at offset 139"},
        {"n_dims", 0, OCH_CORRUPT, "f: tensor 'first': n_dims: expected 1 to 4, found 0 at offset 139"},
        {"ne[0]", 0, OCH_CORRUPT, "f: tensor 'first': dimension 0: expected at least 1, found 0 at offset 143"},
        {"ne[0]", 33, OCH_CORRUPT,
         "f: tensor 'first': dimension 0: expected a multiple of 32 (the block of Q4_0) and fewer than 2^64 bytes in all, "
         "found 33"},
        {"ne[1]", UINT64_C(1) << 60, OCH_CORRUPT,
         "f: tensor 'first': dimension 1: expected fewer than 2^63 elements in all, found 1152921504606846976 at offset "
         "151"},
        {"ne[1]", 6, OCH_CORRUPT,
         "f: tensor 'first': offset: expected offset + size within the 96 bytes of tensor data in the file, found 0 + 108"},
        {"ne[1]", 4, OCH_CORRUPT,
         "f: tensor 'first': offset: expected no overlap, found bytes 256 to 328 of the file against tensor 'second' from "
         "byte 320"},
        {"offset", 64, OCH_CORRUPT,
         "f: tensor 'first': offset: expected offset + size within the 96 bytes of tensor data in the file, found 64 + 36"},
        {"offset", 1, OCH_CORRUPT,
         "f: tensor 'first': offset: expected a multiple of 64 (general.alignment), found 1"},
        {"offset", 1 << 20, OCH_CORRUPT,
         "f: tensor 'first': offset: expected offset + size within the 96 bytes of tensor data in the file, found 1048576 "
         "+ 36"},
        {"offset", UINT64_MAX - 63, OCH_CORRUPT,
         "f: tensor 'first': offset: expected offset + size within the 96 bytes of tensor data in the file, found "
         "18446744073709551552 + 36"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        field fields[24];
        och_strbuf b = {0};
        och_err e;
        int n = build_fields(&b, fields), at = 0;
        while (at < n && strcmp(fields[at].name, cases[i].field)) at++;
        assert_true(at < n);
        memcpy(b.data + fields[at].offset, &cases[i].value, (size_t)fields[at].n_bytes);
        och_status st = open_bytes("f", b.data, b.size, &e);
        if (st != cases[i].status || strcmp(e.message, cases[i].message))
            fail_msg("%s = %llu: status %d\n want %s\n got  %s", cases[i].field, (unsigned long long)cases[i].value, st,
                     cases[i].message, e.message);
        och_strbuf_deinit(&b);
    }
}

static void names_and_keys_are_unique_and_sane(void **s) {
    (void)s;
    och_strbuf b = {0};
    put_header(&b, 3, 2, 0);
    put_tensor(&b, &(built_tensor){"same", 1, {1}, 0, 0});
    put_tensor(&b, &(built_tensor){"same", 1, {1}, 0, 32});
    put_data(&b, 32, 64);
    assert_refused(&b, OCH_CORRUPT, "f: tensor 'same': expected each name once, found it as tensor 0 and 1");

    put_header(&b, 3, 0, 3);
    put_key(&b, "k", 0), put_le(&b, 1, 1);
    put_key(&b, "other", 0), put_le(&b, 1, 1);
    put_key(&b, "k", 0), put_le(&b, 1, 1);
    assert_refused(&b, OCH_CORRUPT, "f: key 'k': expected each key once, found it as key-value 0 and 2");

    char name[OCH_GGUF_MAX_TENSOR_NAME + 2];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    put_header(&b, 3, 1, 0);
    put_tensor(&b, &(built_tensor){name, 1, {1}, 0, 0});
    put_data(&b, 32, 4);
    assert_refused(&b, OCH_CORRUPT, "f: tensor 0: name: expected a length of at most 1024, found 1025 at offset 24");

    put_header(&b, 3, 0, 1);
    put_u64(&b, 3), och_strbuf_append(&b, "a\0b", 3), put_u32(&b, 0), put_le(&b, 1, 1);
    assert_refused(&b, OCH_CORRUPT, "f: key-value 0: key: expected a name without NUL bytes, found one with a NUL");

    /* a name cannot write into the terminal through a message */
    put_header(&b, 3, 0, 1);
    put_key(&b, "\033[2Jx\n", 77);
    put_u64(&b, 0);
    assert_refused(&b, OCH_CORRUPT, "f: key '?[2Jx?': value type: expected 0 to 12, found 77 at offset 38");
}

static void arrays_are_confused(void **s) {
    (void)s;
    och_strbuf b = {0};
    /* four floats that claim to be strings: the first "length" is nonsense */
    put_header(&b, 3, 0, 1);
    put_key(&b, "a", 9), put_u32(&b, 8), put_u64(&b, 2);
    for (int i = 0; i < 4; i++) put_f32(&b, 1.0f);
    assert_refused(&b, OCH_CORRUPT,
                   "f: key 'a': array string: expected a length of at most 8 (the bytes left in the file), found "
                   "4575657222473777152 at offset 49");
    /* strings that claim to be 64-bit numbers: what follows is out of step */
    put_header(&b, 3, 0, 2);
    put_key(&b, "a", 9), put_u32(&b, 10), put_u64(&b, 2), put_str(&b, "xy"), put_str(&b, "zw");
    put_key(&b, "b", 0), put_le(&b, 1, 1);
    assert_refused(&b, OCH_CORRUPT,
                   "f: key-value 1: key: expected a length of at most 10 (the bytes left in the file), found "
                   "6299451392 at offset 65");
    put_header(&b, 3, 0, 1);
    put_key(&b, "a", 9), put_u32(&b, 7), put_u64(&b, 3), put_le(&b, 0x020100, 3);
    assert_refused(&b, OCH_CORRUPT, "f: key 'a': bool: expected 0 or 1, found 2 at offset 51");
    put_header(&b, 3, 0, 1);
    put_key(&b, "a", 7), put_le(&b, 255, 1);
    assert_refused(&b, OCH_CORRUPT, "f: key 'a': bool: expected 0 or 1, found 255 at offset 37");
    /* nesting without end, and a nested count that lies */
    put_header(&b, 3, 0, 1);
    put_key(&b, "a", 9);
    for (int i = 0; i < 100; i++) put_u32(&b, 9), put_u64(&b, 1);
    assert_refused(&b, OCH_CORRUPT, "f: key 'a': array: expected a nesting of at most 4, found more at offset 85");
    put_header(&b, 3, 0, 1);
    put_key(&b, "a", 9), put_u32(&b, 9), put_u64(&b, 1), put_u32(&b, 5), put_u64(&b, 1000), put_u64(&b, 0);
    assert_refused(&b, OCH_CORRUPT,
                   "f: key 'a': array count: expected at most 2 elements of type i32 in the 8 bytes left in the file, found "
                   "1000 at offset 53");
}

static void unknown_types_at_one_place_overlap(void **s) {
    (void)s;
    och_strbuf b = {0};
    put_header(&b, 3, 2, 0);
    put_tensor(&b, &(built_tensor){"a", 1, {256}, 16, 0});
    put_tensor(&b, &(built_tensor){"b", 1, {1}, 0, 0});
    put_data(&b, 32, 64);
    och_err e;
    assert_int_equal(open_bytes("f", b.data, b.size, &e), OCH_CORRUPT);
    assert_speaks(&e, "f: ");
    assert_non_null(strstr(e.message, "tensor 'a'"));
    assert_non_null(strstr(e.message, "tensor 'b'"));
    och_strbuf_deinit(&b);
}

static void an_end_that_wraps_around_is_outside(void **s) {
    (void)s;
    och_strbuf b = {0};
    put_header(&b, 3, 1, 0);
    put_tensor(&b, &(built_tensor){"t", 2, {4, (UINT64_C(1) << 60) - 1}, 0, 32}); /* 2^64 - 16 bytes from 32: ends at 16 */
    put_data(&b, 32, 64);
    assert_refused(&b, OCH_CORRUPT,
                   "f: tensor 't': offset: expected offset + size within the 64 bytes of tensor data in the file, found 32 + "
                   "18446744073709551600");
}

static void an_overlap_among_many_is_found(void **s) {
    (void)s;
    och_strbuf b = {0};
    char name[16];
    /* out of order, and number 57 one row longer than its place */
    put_header(&b, 3, 100, 0);
    for (int i = 0; i < 100; i++) {
        int at = i * 37 % 100;
        snprintf(name, sizeof name, "t%d", at);
        put_tensor(&b, &(built_tensor){name, 2, {8, at == 57 ? 2 : 1}, 0, (uint64_t)at * 32});
    }
    put_data(&b, 32, 3200);
    och_err e;
    assert_int_equal(open_bytes("f", b.data, b.size, &e), OCH_CORRUPT);
    assert_non_null(strstr(e.message, "tensor 't57': offset: expected no overlap"));
    assert_non_null(strstr(e.message, "against tensor 't58'"));
    och_strbuf_deinit(&b);
}

static void flipped_bytes_never_crash(void **s) {
    (void)s;
    och_strbuf b = {0};
    och_err e;
    build_whole_gguf(&b, 3);
    for (size_t i = 0; i < b.size - 132; i++) {
        char kept = b.data[i];
        for (int bit = 0; bit < 8; bit++) {
            b.data[i] = (char)(kept ^ 1 << bit);
            if (open_bytes("f", b.data, b.size, &e) != OCH_OK) assert_speaks(&e, "f: ");
        }
        b.data[i] = kept;
    }
    och_strbuf_deinit(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truncated_anywhere),
        cmocka_unit_test(real_files_truncated_at_every_percent),
        cmocka_unit_test(every_field_at_its_extremes),
        cmocka_unit_test(the_fields_are_named),
        cmocka_unit_test(names_and_keys_are_unique_and_sane),
        cmocka_unit_test(arrays_are_confused),
        cmocka_unit_test(unknown_types_at_one_place_overlap),
        cmocka_unit_test(an_end_that_wraps_around_is_outside),
        cmocka_unit_test(an_overlap_among_many_is_found),
        cmocka_unit_test(flipped_bytes_never_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
