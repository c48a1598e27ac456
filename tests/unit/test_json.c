#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "file/json.h"
#include "file/write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char text[] =
    "{\"hidden_size\":576,\"tie\":true,\"name\":\"x\\u00e9\",\"eps\":1e-5,\"none\":null,\"neg\":-3,\"frac\":2.5,\"whole\":"
    "8.0,"
    "\"text_config\":{\"rope_theta\":10000,\"deep\":{\"a\":[1,{\"b\":\"c\"}]}},\"archs\":[\"First\",\"Second\"]}";

static och_json load(const char *s) {
    och_json doc;
    och_err e = {0};
    if (och_json_load_memory("config.json", s, strlen(s), &doc, &e) != OCH_OK) fail_msg("%s", e.message);
    return doc;
}

static void paths_and_getters(void **s) {
    (void)s;
    och_json doc = load(text);
    och_err e = {0};
    uint64_t u = 1;
    int64_t i = 1;
    double d = 1;
    bool b = false;
    const char *str = "kept";
    json_t *v;
    assert_int_equal(och_json_get_u64(&doc, "hidden_size", true, &u, &e), OCH_OK);
    assert_int_equal(u, 576);
    assert_int_equal(och_json_get_f64(&doc, "text_config.rope_theta", true, &d, &e), OCH_OK);
    assert_true(d == 10000);
    assert_int_equal(och_json_get_f64(&doc, "eps", true, &d, &e), OCH_OK);
    assert_true(d == 1e-5);
    assert_int_equal(och_json_get_i64(&doc, "neg", true, &i, &e), OCH_OK);
    assert_int_equal(i, -3);
    assert_int_equal(och_json_get_u64(&doc, "whole", true, &u, &e), OCH_OK);
    assert_int_equal(u, 8);
    assert_int_equal(och_json_get_bool(&doc, "tie", true, &b, &e), OCH_OK);
    assert_true(b);
    assert_int_equal(och_json_get_str(&doc, "archs.1", true, &str, &e), OCH_OK);
    assert_string_equal(str, "Second");
    assert_int_equal(och_json_get_str(&doc, "text_config.deep.a.1.b", true, &str, &e), OCH_OK);
    assert_string_equal(str, "c");
    assert_int_equal(och_json_get_array(&doc, "archs", true, &v, &e), OCH_OK);
    assert_int_equal(json_array_size(v), 2);
    assert_int_equal(och_json_get_object(&doc, "text_config", true, &v, &e), OCH_OK);
    assert_int_equal(json_object_size(v), 2);
    /* absent and null leave the default, and an object is NULL */
    assert_int_equal(och_json_get_str(&doc, "nothing", false, &str, &e), OCH_OK);
    assert_int_equal(och_json_get_str(&doc, "none", false, &str, &e), OCH_OK);
    assert_string_equal(str, "c");
    assert_int_equal(och_json_get_object(&doc, "none", false, &v, &e), OCH_OK);
    assert_null(v);
    assert_null(och_json_find(&doc, "archs.2"));
    assert_null(och_json_find(&doc, "archs.x"));
    assert_null(och_json_find(&doc, "archs."));
    assert_null(och_json_find(&doc, "hidden_size.x"));
    assert_null(och_json_find(&doc, ""));
    assert_true(json_is_null(och_json_find(&doc, "none")));
    och_json_deinit(&doc);
    och_json_deinit(&doc);
}

static void getters_name_file_path_expected_and_found(void **s) {
    (void)s;
    och_json doc = load(text);
    och_err e;
    uint64_t u = 7;
    int64_t i;
    double d;
    bool b;
    const char *str;
    json_t *v;
#define REFUSED(call, status, want)                                                                                    \
    do {                                                                                                               \
        och_err_clear(&e);                                                                                             \
        assert_int_equal(call, status);                                                                                \
        assert_string_equal(e.message, "config.json: " want);                                                          \
    } while (0)
    REFUSED(och_json_get_u64(&doc, "text_config.x", true, &u, &e), OCH_NOTFOUND,
            "'text_config.x': expected an integer that is not negative, found no such key");
    REFUSED(och_json_get_f64(&doc, "none", true, &d, &e), OCH_NOTFOUND, "'none': expected a number, found null");
    REFUSED(och_json_get_u64(&doc, "neg", false, &u, &e), OCH_CORRUPT,
            "'neg': expected an integer that is not negative, found -3");
    REFUSED(och_json_get_i64(&doc, "frac", false, &i, &e), OCH_CORRUPT, "'frac': expected an integer, found 2.5");
    REFUSED(och_json_get_f64(&doc, "tie", false, &d, &e), OCH_CORRUPT, "'tie': expected a number, found true");
    REFUSED(och_json_get_bool(&doc, "hidden_size", false, &b, &e), OCH_CORRUPT,
            "'hidden_size': expected true or false, found 576");
    REFUSED(och_json_get_str(&doc, "archs", false, &str, &e), OCH_CORRUPT, "'archs': expected a string, found array");
    REFUSED(och_json_get_object(&doc, "archs.0", false, &v, &e), OCH_CORRUPT,
            "'archs.0': expected an object, found string");
    assert_null(v);
    REFUSED(och_json_get_array(&doc, "text_config", false, &v, &e), OCH_CORRUPT,
            "'text_config': expected an array, found object");
#undef REFUSED
    assert_int_equal(u, 7);
    och_json_deinit(&doc);
}

static void integers_beyond_64_bits_become_reals(void **s) {
    (void)s;
    och_json doc = load("{\"model_max_length\":1000000000000000019884624838656,\"pad\":3,\"min\":-9223372036854775809}");
    och_err e = {0};
    double d;
    uint64_t u;
    assert_int_equal(och_json_get_f64(&doc, "model_max_length", true, &d, &e), OCH_OK);
    assert_true(d > 0.99e30 && d < 1.01e30);
    assert_int_equal(och_json_get_u64(&doc, "pad", true, &u, &e), OCH_OK);
    assert_int_equal(u, 3);
    assert_int_equal(och_json_get_u64(&doc, "model_max_length", true, &u, &e), OCH_CORRUPT);
    assert_string_equal(e.message, "config.json: 'model_max_length': expected an integer that is not negative, found 1e+30");
    och_json_deinit(&doc);
    /* beyond 2^53 a real no longer says which integer was meant */
    doc = load("{\"a\":9007199254740992.0,\"b\":9007199254740994.0}");
    och_err_clear(&e);
    assert_int_equal(och_json_get_u64(&doc, "a", true, &u, &e), OCH_OK);
    assert_true(u == UINT64_C(1) << 53);
    assert_int_equal(och_json_get_u64(&doc, "b", true, &u, &e), OCH_CORRUPT);
    och_json_deinit(&doc);
}

static void broken_text_has_line_and_column(void **s) {
    (void)s;
    static const struct {
        const char *text;
        int line;
        const char *word; /* that the library's part of the message must hold */
    } cases[] = {
        {"", 1, "end of file"},         {"{\"a\":\n 1,}", 2, "'}'"}, {"{\"a\":1,\"a\":2}", 1, "duplicate"},
        {"{\"a\":\"\\u0000\"}", 1, "\\u0000"}, {"{\"a\":1e999}", 1, "overflow"}, {"{\"a\":\"\xff\"}", 1, "0xff"},
        {"[\n\n NaN]", 3, "NaN"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        och_json doc;
        och_err e = {0};
        int64_t live = och_alloc_live();
        assert_int_equal(och_json_load_memory("config.json", cases[i].text, strlen(cases[i].text), &doc, &e), OCH_CORRUPT);
        char want[64];
        snprintf(want, sizeof want, "config.json: line %d, column ", cases[i].line);
        if (strncmp(e.message, want, strlen(want)) || !strstr(e.message, ": expected JSON, found: ") ||
            !strstr(e.message, cases[i].word))
            fail_msg("%s", e.message);
        assert_null(doc.root);
        assert_int_equal(och_alloc_live(), live);
    }
}

static void depth_and_size_are_limited(void **s) {
    (void)s;
    och_json doc;
    och_err e = {0};
    char deep[200];
    memset(deep, '[', 64);
    memset(deep + 64, ']', 64);
    assert_int_equal(och_json_load_memory("d", deep, 128, &doc, &e), OCH_OK);
    och_json_deinit(&doc);
    memset(deep, '[', 65);
    memset(deep + 65, ']', 65);
    assert_int_equal(och_json_load_memory("d", deep, 130, &doc, &e), OCH_CORRUPT);
    assert_string_equal(e.message, "d: JSON: expected a nesting of at most 64, found more at byte 64");
    /* brackets inside strings nest nothing, and an escaped quote does not end one */
    och_err_clear(&e);
    memset(deep, '[', sizeof deep);
    memcpy(deep, "[\"\\\"", 4);
    memcpy(deep + sizeof deep - 2, "\"]", 2);
    assert_int_equal(och_json_load_memory("d", deep, sizeof deep, &doc, &e), OCH_OK);
    och_json_deinit(&doc);

    char path[] = "/tmp/ochre-test-XXXXXX", want[128];
    close(mkstemp(path));
    assert_int_equal(och_write_file(path, "[1,2,3]", 7, &e), OCH_OK);
    assert_int_equal(och_json_load(path, 0, &doc, &e), OCH_OK);
    assert_string_equal(doc.name, path);
    och_json_deinit(&doc);
    assert_int_equal(och_json_load(path, 6, &doc, &e), OCH_RANGE);
    snprintf(want, sizeof want, "%s: size: expected at most 6 bytes of JSON, found 7", path);
    assert_string_equal(e.message, want);
    unlink(path);
    och_err_clear(&e);
    assert_int_equal(och_json_load(path, 0, &doc, &e), OCH_NOTFOUND);
}

static void memory_goes_through_our_allocator(void **s) {
    (void)s;
    int64_t live = och_alloc_live();
    och_json doc = load(text);
    assert_true(och_alloc_live() - live > 20);
    och_json_deinit(&doc);
    assert_int_equal(och_alloc_live(), live);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_and_getters),
        cmocka_unit_test(getters_name_file_path_expected_and_found),
        cmocka_unit_test(integers_beyond_64_bits_become_reals),
        cmocka_unit_test(broken_text_has_line_and_column),
        cmocka_unit_test(depth_and_size_are_limited),
        cmocka_unit_test(memory_goes_through_our_allocator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
