/* The nth allocation fails while a container is opened, for every n: the answer is NOMEM, and nothing is kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "file/gguf.h"
#include "file/json.h"
#include "file/safetensors.h"
#include "file/write.h"
#include "unit/file_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static och_strbuf gguf, safetensors;
static char dir[64], path[128];

static och_status open_gguf(och_err *e) {
    och_gguf *g;
    och_status st = och_gguf_open_memory("f", gguf.data, gguf.size, &g, e);
    if (st != OCH_OK) assert_null(g);
    och_gguf_close(g);
    return st;
}
static och_status open_safetensors(och_err *e) {
    och_safetensors *t;
    och_status st = och_safetensors_open_memory("f", safetensors.data, safetensors.size, &t, e);
    if (st != OCH_OK) assert_null(t);
    och_safetensors_close(t);
    return st;
}
static och_status open_folder(och_err *e) {
    och_safetensors *t;
    och_status st = och_safetensors_open_dir(dir, &t, e);
    if (st != OCH_OK) assert_null(t);
    och_safetensors_close(t);
    return st;
}
static och_status load_json(och_err *e) {
    static const char text[] = "{\"a\":[1,2.5,\"a string that is long enough to be grown \\u00e9 while it is read\","
                               "{\"k\":null}],\"b\":true}";
    och_json doc;
    och_status st = och_json_load_memory("f", text, sizeof text - 1, &doc, e);
    if (st == OCH_OK)
        assert_string_equal(json_string_value(och_json_find(&doc, "a.2")),
                            "a string that is long enough to be grown \xc3\xa9 while it is read");
    och_json_deinit(&doc);
    return st;
}
static och_status write_file(och_err *e) { return och_write_file(path, "bytes", 5, e); }

static void every_n(och_status (*run)(och_err *)) {
    och_err e = {0};
    assert_int_equal(run(&e), OCH_OK); /* libraries take their first memory here */
    int64_t live = och_alloc_live();
    uint64_t n = 1;
    for (;; n++) {
        och_err_clear(&e);
        och_alloc_fail_at(n);
        och_status st = run(&e);
        bool reached = och_alloc_count() >= n;
        och_alloc_fail_at(0);
        assert_int_equal(och_alloc_live(), live);
        if (!reached) {
            assert_int_equal(st, OCH_OK);
            break;
        }
        if (st != OCH_NOMEM) fail_msg("allocation %llu: status %d: %s", (unsigned long long)n, st, e.message);
        assert_non_null(strstr(e.message, "out of memory"));
    }
    assert_true(n > 2);
    print_message("[          ] %llu allocations\n", (unsigned long long)(n - 1));
}

static void gguf_open(void **s) { (void)s, every_n(open_gguf); }
static void safetensors_open(void **s) { (void)s, every_n(open_safetensors); }
static void json_load(void **s) { (void)s, every_n(load_json); }

static void file_write(void **s) {
    (void)s;
    every_n(write_file);
    unlink(path);
}

static void put(const char *name, const void *bytes, size_t n) {
    och_err e = {0};
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(och_write_file(path, bytes, n, &e), OCH_OK);
}

static void folder_open(void **s) {
    (void)s;
    static const char index[] = "{\"weight_map\":{\"a\":\"s1\",\"scalar\":\"s1\"}}";
    put("s1", safetensors.data, safetensors.size);
    put("model.safetensors.index.json", index, sizeof index - 1);
    every_n(open_folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/s1", dir);
    unlink(path);
}

static int set_up(void **s) {
    (void)s;
    build_whole_gguf(&gguf, 3);
    build_safetensors(&safetensors, WHOLE_SAFETENSORS, 32);
    strcpy(dir, "/tmp/ochre-test-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    snprintf(path, sizeof path, "%s/written", dir);
    return 0;
}
static int tear_down(void **s) {
    (void)s;
    och_strbuf_deinit(&gguf);
    och_strbuf_deinit(&safetensors);
    return rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gguf_open), cmocka_unit_test(safetensors_open), cmocka_unit_test(json_load),
        cmocka_unit_test(file_write), cmocka_unit_test(folder_open),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
