/* The public API of kernels, used wrongly and from many threads: there is a status with a message, and nothing is lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ochre/kernels.h>
#include <pthread.h>

#include "base/alloc.h"
#include "base/spawn.h"
#include "base/strbuf.h"

static const char text[] =
    "kernel scale(x: in buf<f32>[n, d], y: out buf<f32>[n, d] over x, a: f32) require d % 4 == 0 launch grid(n) "
    "waves(2)\n"
    "{ let r = group.id.x; for i in group.lanes(d / 4) { y.row(r).store4(i, f32x4(a) * x.row(r).load4(i)); } }\n"
    "kernel spin(y: inout buf<i32>[n], rounds: i32) launch grid(n) waves(1)\n"
    "{ var k = y[group.id.x]; for i in 0..rounds { k = k * 1664525 + 1013904223; } group.barrier(); if wave.first { "
    "y[group.id.x] = k; } }\n"
    "kernel far(y: out buf<f32>[n], at: i64) launch grid(1) waves(1) { if wave.first { y[at] = 1.0; } }\n"
    "kernel maybe(x: in? buf<f32>[n], y: out buf<f32>[n]) launch grid(ceil_div(n, 64)) waves(1)\n"
    "{ for i in group.lanes(n) { if x.present { y[i] = x[i]; } else { y[i] = 7.0; } } }\n";
static const char hip_text[] =
    "extern \"C\" __global__ void put(int *y, int v, unsigned char c, double d) { y[threadIdx.x] = v + c + (int)d; }\n"
    "extern \"C\" __global__ void none() {}\n";

static void need_compiler(void) {
    och_strbuf path = {0};
    bool found =
        och_spawn_find("clang-22", &path) || och_spawn_find("clang-19", &path) || och_spawn_find("clang", &path);
    och_strbuf_deinit(&path);
    if (!found) skip();
}

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) != OCHRE_OK) fail_msg("%s: %s", #call, e.message);                                                  \
    } while (0)
/* The status, and a message that says `what`. */
#define REFUSED(call, expected, what)                                                                                  \
    do {                                                                                                               \
        memset(&e, 0, sizeof e);                                                                                       \
        ochre_status found_ = (call);                                                                                  \
        if (found_ != (expected) || !strstr(e.message, what))                                                          \
            fail_msg("%s: expected %d and \"%s\", found %d \"%s\"", #call, (int)(expected), what, (int)found_,         \
                     e.message);                                                                                       \
    } while (0)

static ochre_program *compile(ochre_device *d, const char *kernel) {
    ochre_error e = {0};
    ochre_program *p = NULL;
    ochre_program_options o = OCHRE_PROGRAM_OPTIONS_INIT;
    o.kernel = kernel;
    OK(ochre_program_compile(d, text, strlen(text), &o, &p, &e));
    return p;
}

static ochre_kernel *kernel_of(ochre_program *p, const char *name) {
    ochre_error e = {0};
    ochre_kernel *k = NULL;
    OK(ochre_program_kernel(p, name, &k, &e));
    return k;
}

static void launches(void **state) {
    (void)state;
    need_compiler();
    ochre_error e = {0};
    ochre_device *d;
    OK(ochre_device_open("sim:gfx1151", &d, &e));
    ochre_buffer *b, *c;
    OK(ochre_buffer_create(d, 1 << 16, &b, &e));
    OK(ochre_buffer_create(d, 1 << 16, &c, &e));
    uint64_t x = ochre_buffer_address(b), y = ochre_buffer_address(c);
    ochre_program *p = compile(d, "scale");
    ochre_kernel *k = kernel_of(p, "scale");
    ochre_argument a[4] = {{.name = "x", .address = x, .dims = {4, 64}},
                           {.name = "y", .address = y, .dims = {4, 64}},
                           {.name = "a", .real = 2},
                           {.name = "a", .real = 2}};
    OK(ochre_kernel_launch(k, NULL, a, 3, &e));
    REFUSED(ochre_kernel_launch(k, NULL, a, 2, &e), OCHRE_INVALID, "argument a is not given");
    REFUSED(ochre_kernel_launch(k, NULL, a, 4, &e), OCHRE_INVALID, "given twice");
    REFUSED(ochre_kernel_launch(k, NULL, a, 1000, &e), OCHRE_RANGE, "expected 3 arguments");
    REFUSED(ochre_kernel_launch(k, NULL, a, SIZE_MAX, &e), OCHRE_RANGE, "expected 3 arguments");
    REFUSED(ochre_kernel_launch(k, NULL, NULL, 3, &e), OCHRE_INVALID, "NULL");
    REFUSED(ochre_kernel_launch(k, NULL, NULL, 0, &e), OCHRE_INVALID, "is not given");
    REFUSED(ochre_kernel_launch(NULL, NULL, a, 3, &e), OCHRE_INVALID, "NULL");
    a[2].name = NULL;
    REFUSED(ochre_kernel_launch(k, NULL, a, 3, &e), OCHRE_INVALID, "NULL");
    a[2].name = "%s%n";
    REFUSED(ochre_kernel_launch(k, NULL, a, 3, &e), OCHRE_INVALID, "%s%n");
    a[2].name = "a";
    a[0].dims[1] = a[1].dims[1] = 63;
    REFUSED(ochre_kernel_launch(k, NULL, a, 3, &e), OCHRE_INVALID, "d % 4");
    a[0].dims[1] = 64, a[1].dims[1] = 60;
    REFUSED(ochre_kernel_launch(k, NULL, a, 3, &e), OCHRE_INVALID, "expected d = 64");
    a[1].dims[1] = 64;
    a[0].dims[0] = a[1].dims[0] = -1;
    REFUSED(ochre_kernel_launch(k, NULL, a, 3, &e), OCHRE_RANGE, "extent");
    a[0].dims[0] = a[1].dims[0] = INT64_MAX;
    REFUSED(ochre_kernel_launch(k, NULL, a, 3, &e), OCHRE_RANGE, "overflows");
    a[0].dims[0] = a[1].dims[0] = (int64_t)1 << 40;
    a[1].address = (uint64_t)1 << 60; /* far enough apart */
    REFUSED(ochre_kernel_launch(k, NULL, a, 3, &e), OCHRE_RANGE, "grid");
    a[1].address = y;
    a[0].dims[0] = a[1].dims[0] = 0; /* nothing to do is done */
    OK(ochre_kernel_launch(k, NULL, a, 3, &e));
    a[0].dims[0] = a[1].dims[0] = 4, a[0].dims[1] = a[1].dims[1] = 0;
    OK(ochre_kernel_launch(k, NULL, a, 3, &e));
    a[0].dims[1] = a[1].dims[1] = 64;
    a[1].address = x; /* over x: allowed */
    OK(ochre_kernel_launch(k, NULL, a, 3, &e));
    a[1].address = x + 16;
    REFUSED(ochre_kernel_launch(k, NULL, a, 3, &e), OCHRE_INVALID, "apart from it");
    a[1].address = y + 4;
    REFUSED(ochre_kernel_launch(k, NULL, a, 3, &e), OCHRE_INVALID, "multiple of 16");
    a[1].address = 0;
    REFUSED(ochre_kernel_launch(k, NULL, a, 3, &e), OCHRE_INVALID, "expected an address");
    a[1].address = y;
    a[0].row_bytes[0] = 8;
    REFUSED(ochre_kernel_launch(k, NULL, a, 3, &e), OCHRE_INVALID, "at least 256 bytes apart");
    a[0].row_bytes[0] = UINT64_MAX - 15;
    REFUSED(ochre_kernel_launch(k, NULL, a, 3, &e), OCHRE_RANGE, "overflows");
    a[0].row_bytes[0] = 0;
    REFUSED(ochre_kernel_launch_raw(k, NULL, (uint32_t[]){1, 1, 1}, (uint32_t[]){64, 1, 1}, 0, NULL, 0, &e),
            OCHRE_INVALID, "launch it with ochre_kernel_launch");
    ochre_program *q = compile(d, "maybe");
    ochre_argument m[2] = {{.name = "y", .address = y, .dims = {100}}, {.name = "x"}};
    OK(ochre_kernel_launch(kernel_of(q, "maybe"), NULL, m, 2, &e));
    float got[100];
    OK(ochre_buffer_read(c, 0, got, sizeof got, &e));
    for (int i = 0; i < 100; i++) assert_true(got[i] == 7.0f);
    ochre_program_destroy(q);
    ochre_program_destroy(p);
    ochre_buffer_destroy(b);
    ochre_buffer_destroy(c);
    ochre_device_close(d);
}

static void raw(void **state) {
    (void)state;
    need_compiler();
    ochre_error e = {0};
    ochre_device *d;
    ochre_program *p;
    ochre_buffer *b;
    OK(ochre_device_open("sim:gfx942", &d, &e));
    OK(ochre_buffer_create(d, 4096, &b, &e));
    ochre_program_options o = OCHRE_PROGRAM_OPTIONS_INIT;
    o.language = OCHRE_LANGUAGE_HIP;
    OK(ochre_program_compile(d, hip_text, strlen(hip_text), &o, &p, &e));
    ochre_kernel *k = kernel_of(p, "put"), *none = kernel_of(p, "none");
    uint64_t at = ochre_buffer_address(b);
    int v = 3;
    unsigned char c = 4;
    double r = 5;
    const void *args[] = {&at, &v, &c, &r};
    uint32_t one[] = {1, 1, 1}, zero[] = {0, 1, 1}, wave[] = {64, 1, 1}, huge[] = {UINT32_MAX, UINT32_MAX, UINT32_MAX},
             much[] = {1025, 1, 1};
    OK(ochre_kernel_launch_raw(k, NULL, one, wave, 0, args, 4, &e));
    int got[64];
    OK(ochre_buffer_read(b, 0, got, sizeof got, &e));
    for (int i = 0; i < 64; i++) assert_int_equal(got[i], 12);
    OK(ochre_kernel_launch_raw(none, NULL, one, one, 0, NULL, 0, &e));
    REFUSED(ochre_kernel_launch_raw(k, NULL, one, wave, 0, args, 3, &e), OCHRE_INVALID, "expected 4 arguments");
    REFUSED(ochre_kernel_launch_raw(k, NULL, one, wave, 0, NULL, 4, &e), OCHRE_INVALID, "NULL");
    args[2] = NULL;
    REFUSED(ochre_kernel_launch_raw(k, NULL, one, wave, 0, args, 4, &e), OCHRE_INVALID, "argument 2");
    args[2] = &c;
    REFUSED(ochre_kernel_launch_raw(k, NULL, one, much, 0, args, 4, &e), OCHRE_RANGE, "at most 1024");
    REFUSED(ochre_kernel_launch_raw(k, NULL, one, huge, 0, args, 4, &e), OCHRE_RANGE, "at most 1024");
    REFUSED(ochre_kernel_launch_raw(k, NULL, one, wave, 1u << 20, args, 4, &e), OCHRE_RANGE, "of LDS");
    REFUSED(ochre_kernel_launch_raw(k, NULL, one, wave, UINT32_MAX, args, 4, &e), OCHRE_RANGE, "of LDS");
    REFUSED(ochre_kernel_launch_raw(k, NULL, NULL, wave, 0, args, 4, &e), OCHRE_INVALID, "grid");
    REFUSED(ochre_kernel_launch_raw(k, NULL, one, NULL, 0, args, 4, &e), OCHRE_INVALID, "group");
    assert_true(ochre_kernel_launch_raw(k, NULL, huge, wave, 0, args, 4, &e) != OCHRE_OK && e.message[0]);
    assert_true(ochre_kernel_launch_raw(k, NULL, one, zero, 0, args, 4, &e) != OCHRE_OK && e.message[0]);
    ochre_status st = ochre_kernel_launch_raw(k, NULL, zero, wave, 0, args, 4, &e); /* nothing, or refused */
    assert_true(st == OCHRE_OK || e.message[0]);
    OK(ochre_device_synchronise(d, &e));
    OK(ochre_kernel_launch_raw(k, NULL, one, wave, 0, args, 4, &e)); /* what was refused left nothing behind */
    OK(ochre_device_synchronise(d, &e));
    ochre_program_destroy(p);
    ochre_buffer_destroy(b);
    ochre_device_close(d);
}

static void texts(void **state) {
    static const char *const bad[] = {"",
                                      " ",
                                      "\n",
                                      "kernel",
                                      "kernel k(",
                                      "\xff\xfe",
                                      "use \"nowhere.ok\";",
                                      "const a = a;",
                                      "fn f() {}",
                                      "/*",
                                      "\"",
                                      "kernel k() launch grid(1) waves(1) {"};
    (void)state;
    need_compiler();
    ochre_error e = {0};
    ochre_device *d;
    ochre_program *p;
    OK(ochre_device_open("sim:gfx1030", &d, &e));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        p = (ochre_program *)d;
        assert_true(ochre_program_compile(d, bad[i], strlen(bad[i]), NULL, &p, &e) != OCHRE_OK && !p && e.message[0]);
        ochre_program_options o = OCHRE_PROGRAM_OPTIONS_INIT;
        o.language = OCHRE_LANGUAGE_HIP;
        o.file_name = "a \"b\"\\\n.hip";
        if (ochre_program_compile(d, bad[i], strlen(bad[i]), &o, &p, &e) ==
            OCHRE_OK) { /* a text of nothing is a program of nothing */
            assert_int_equal(ochre_program_kernel_count(p), 0);
            assert_null(ochre_program_kernel_name(p, 0));
            ochre_program_destroy(p);
        } else
            assert_true(!p && e.message[0]);
    }
    ochre_program_options o = OCHRE_PROGRAM_OPTIONS_INIT;
    REFUSED(ochre_program_compile(d, text, sizeof text, &o, &p, &e), OCHRE_INVALID, "NUL");
    REFUSED(ochre_program_compile(d, text, strlen(text), &o, &p, &e), OCHRE_INVALID, "name one of them");
    o.kernel = "nothing";
    REFUSED(ochre_program_compile(d, text, strlen(text), &o, &p, &e), OCHRE_NOTFOUND, "nothing");
    o.kernel = "scale";
    o.n_params = 1;
    REFUSED(ochre_program_compile(d, text, strlen(text), &o, &p, &e), OCHRE_INVALID, "params");
    ochre_param param = {"WAVES", "4"};
    o.params = &param;
    REFUSED(ochre_program_compile(d, text, strlen(text), &o, &p, &e), OCHRE_INVALID, "WAVES");
    o.n_params = 257;
    REFUSED(ochre_program_compile(d, text, strlen(text), &o, &p, &e), OCHRE_RANGE, "n_params");
    o.n_params = 0, o.wave_size = 48;
    REFUSED(ochre_program_compile(d, text, strlen(text), &o, &p, &e), OCHRE_RANGE, "wave_size");
    o.wave_size = 0, o.optimisation = 9;
    REFUSED(ochre_program_compile(d, text, strlen(text), &o, &p, &e), OCHRE_RANGE, "optimisation");
    o.optimisation = 0, o.compiler = "nobody";
    REFUSED(ochre_program_compile(d, text, strlen(text), &o, &p, &e), OCHRE_INVALID, "nobody");
    o.compiler = "/nowhere/clang";
    REFUSED(ochre_program_compile(d, text, strlen(text), &o, &p, &e), OCHRE_UNAVAILABLE, "/nowhere/clang");
    o.compiler = NULL, o.language = (ochre_language)7;
    REFUSED(ochre_program_compile(d, text, strlen(text), &o, &p, &e), OCHRE_INVALID, "language");
    o.language = OCHRE_LANGUAGE_CUDA, o.kernel = NULL;
    assert_true(ochre_program_compile(d, hip_text, strlen(hip_text), &o, &p, &e) != OCHRE_OK && e.message[0]);
    uint8_t garbage[4096];
    for (size_t i = 0; i < sizeof garbage; i++) garbage[i] = (uint8_t)(i * 131 >> 3);
    for (size_t n = 1; n < sizeof garbage; n = n * 3 + 1)
        assert_true(ochre_program_load(d, garbage, n, &p, &e) != OCHRE_OK && e.message[0]);
    memcpy(garbage, "\177ELF\2\1\1", 7);
    assert_true(ochre_program_load(d, garbage, sizeof garbage, &p, &e) != OCHRE_OK && e.message[0]);
    ochre_device_close(d);
}

/* ---- errors of work that was accepted ---- */

static void late_errors(void **state) {
    (void)state;
    need_compiler();
    ochre_error e = {0};
    ochre_device *d;
    ochre_buffer *b;
    OK(ochre_device_open("sim:gfx1201", &d, &e));
    OK(ochre_buffer_create(d, 4096, &b, &e));
    ochre_program *p = compile(d, "far");
    ochre_argument a[] = {{.name = "y", .address = ochre_buffer_address(b), .dims = {1024}},
                          {.name = "at", .integer = (int64_t)1 << 40}};
    memset(&e, 0, sizeof e);
    ochre_status st = ochre_kernel_launch(kernel_of(p, "far"), NULL, a, 2, &e);
    if (st == OCHRE_OK) st = ochre_device_synchronise(d, &e);
    assert_true(st != OCHRE_OK && strstr(e.message, "far"));
    /* The device may be lost: whatever is asked, there is an answer. */
    float x[4];
    for (int i = 0; i < 3; i++) {
        (void)ochre_buffer_read(b, 0, x, sizeof x, &e);
        (void)ochre_kernel_launch(kernel_of(p, "far"), NULL, a, 2, &e);
        (void)ochre_device_synchronise(d, &e);
    }
    ochre_buffer_destroy(b);
    ochre_program_destroy(p);
    ochre_device_close(d);
}

/* ---- what is given up while it is used ---- */

static void in_flight(void **state) {
    (void)state;
    need_compiler();
    int64_t live = och_alloc_live();
    ochre_error e = {0};
    ochre_device *d;
    OK(ochre_device_open("sim:gfx1100", &d, &e));
    for (int i = 0; i < 8; i++) {
        ochre_buffer *b;
        OK(ochre_buffer_create(d, 4096, &b, &e));
        ochre_program *p = compile(d, "spin");
        ochre_argument a[] = {{.name = "y", .address = ochre_buffer_address(b), .dims = {16}},
                              {.name = "rounds", .integer = 20000}};
        OK(ochre_kernel_launch(kernel_of(p, "spin"), NULL, a, 2, &e));
        if (i % 2)
            ochre_buffer_destroy(b), ochre_program_destroy(p);
        else
            ochre_program_destroy(p), ochre_buffer_destroy(b);
    }
    ochre_buffer *b; /* programs and buffers keep the device */
    OK(ochre_buffer_create(d, 4096, &b, &e));
    ochre_program *p = compile(d, "spin");
    ochre_device_close(d);
    ochre_argument a[] = {{.name = "y", .address = ochre_buffer_address(b), .dims = {16}},
                          {.name = "rounds", .integer = 20000}};
    OK(ochre_kernel_launch(kernel_of(p, "spin"), NULL, a, 2, &e));
    int y[16];
    OK(ochre_buffer_read(b, 0, y, sizeof y, &e));
    ochre_program_destroy(p);
    ochre_buffer_destroy(b);
    (void)live; /* what a backend keeps for good may have come */
}

/* ---- many threads, two devices ---- */

typedef struct worker {
    ochre_device *d;
    int number;
    bool good;
    char why[768];
} worker;

static uint32_t spun(uint32_t k, int rounds) {
    while (rounds-- > 0) k = k * 1664525u + 1013904223u;
    return k;
}

static void *work(void *arg) {
    worker *w = arg;
    ochre_error e = {0};
    ochre_program *p = NULL;
    ochre_kernel *k = NULL;
    ochre_buffer *b = NULL;
    ochre_program_options o = OCHRE_PROGRAM_OPTIONS_INIT;
    o.kernel = "spin";
    w->good = true;
    for (int i = 0; i < 6 && w->good; i++) {
        uint32_t y[32];
        for (uint32_t j = 0; j < 32; j++) y[j] = j + (uint32_t)(w->number * 100 + i);
        ochre_argument a[] = {{.name = "y", .dims = {32}}, {.name = "rounds", .integer = 50 + w->number}};
        w->good = ochre_program_compile(w->d, text, strlen(text), &o, &p, &e) == OCHRE_OK &&
                  ochre_program_kernel(p, "spin", &k, &e) == OCHRE_OK &&
                  ochre_buffer_create(w->d, sizeof y, &b, &e) == OCHRE_OK &&
                  ochre_buffer_write(b, 0, y, sizeof y, &e) == OCHRE_OK;
        if (w->good) {
            a[0].address = ochre_buffer_address(b);
            w->good = ochre_kernel_launch(k, NULL, a, 2, &e) == OCHRE_OK &&
                      ochre_buffer_read(b, 0, y, sizeof y, &e) == OCHRE_OK;
        }
        for (uint32_t j = 0; j < 32 && w->good; j++)
            if (y[j] != spun(j + (uint32_t)(w->number * 100 + i), 50 + w->number)) {
                w->good = false;
                snprintf(e.message, sizeof e.message, "element %u is %u", j, y[j]);
            }
        ochre_buffer_destroy(b);
        ochre_program_destroy(p);
        b = NULL, p = NULL;
    }
    snprintf(w->why, sizeof w->why, "%s", e.message);
    return NULL;
}

static void threads_and_devices(void **state) {
    (void)state;
    need_compiler();
    ochre_error e = {0};
    ochre_device *d[2];
    OK(ochre_device_open("sim:gfx1151", &d[0], &e));
    OK(ochre_device_open("sim:gfx942", &d[1], &e));
    enum { N = 8 };
    pthread_t t[N];
    worker w[N] = {0};
    for (int i = 0; i < N; i++) {
        w[i].d = d[i % 2], w[i].number = i;
        assert_int_equal(pthread_create(&t[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < N; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < N; i++)
        if (!w[i].good) fail_msg("thread %d: %s", i, w[i].why);
    ochre_device_close(d[0]);
    ochre_device_close(d[1]);
}

static void nothing(void **state) {
    (void)state;
    ochre_error e = {0};
    ochre_device *d = NULL;
    ochre_buffer *b = NULL;
    ochre_program *p = NULL;
    ochre_kernel *k = NULL;
    ochre_device_info di = {.size_bytes = sizeof di};
    ochre_kernel_info ki = {.size_bytes = sizeof ki};
    ochre_argument_info ai;
    size_t n = 1;
    ochre_device_close(NULL);
    ochre_buffer_destroy(NULL);
    ochre_program_destroy(NULL);
    assert_true(ochre_buffer_address(NULL) == 0 && !ochre_buffer_host(NULL) && !ochre_program_kernel_count(NULL) &&
                !ochre_program_kernel_name(NULL, 0) && !ochre_program_code(NULL, &n) && !n &&
                !ochre_program_code(NULL, NULL) && ochre_program_log(NULL) && !ochre_kernel_argument_count(NULL));
    assert_true(ochre_device_open("cpu", NULL, &e) == OCHRE_INVALID &&
                ochre_device_open("cpu", NULL, NULL) == OCHRE_INVALID);
    assert_true(ochre_device_describe(NULL, &di, &e) == OCHRE_INVALID &&
                ochre_device_synchronise(NULL, &e) == OCHRE_INVALID);
    assert_true(ochre_buffer_create(NULL, 1, &b, &e) == OCHRE_INVALID &&
                ochre_buffer_write(NULL, 0, &n, 1, &e) == OCHRE_INVALID &&
                ochre_buffer_read(NULL, 0, &n, 1, &e) == OCHRE_INVALID);
    assert_true(ochre_program_compile(NULL, "", 0, NULL, &p, &e) == OCHRE_INVALID &&
                ochre_program_load(NULL, "", 0, &p, &e) == OCHRE_INVALID &&
                ochre_program_kernel(NULL, "", &k, &e) == OCHRE_INVALID);
    assert_true(ochre_kernel_argument(NULL, 0, &ai, &e) == OCHRE_INVALID &&
                ochre_kernel_declare_outputs(NULL, NULL, 0, &e) == OCHRE_INVALID &&
                ochre_kernel_describe(NULL, &ki, &e) == OCHRE_INVALID &&
                ochre_kernel_launch(NULL, NULL, NULL, 0, NULL) == OCHRE_INVALID);
    OK(ochre_device_open("cpu", &d, &e));
    assert_true(ochre_buffer_create(d, 0, &b, &e) != OCHRE_OK &&
                ochre_buffer_create(d, UINT64_MAX, &b, &e) != OCHRE_OK &&
                ochre_buffer_create(d, 8, NULL, &e) == OCHRE_INVALID);
    OK(ochre_buffer_create(d, 8, &b, &e));
    REFUSED(ochre_buffer_write(b, 4, &n, 5, &e), OCHRE_RANGE, "5 bytes at 4");
    REFUSED(ochre_buffer_write(b, UINT64_MAX, &n, 1, &e), OCHRE_RANGE, "1 bytes at");
    REFUSED(ochre_buffer_read(b, 1, &n, UINT64_MAX, &e), OCHRE_RANGE, "at 1");
    REFUSED(ochre_buffer_read(b, 0, NULL, 8, &e), OCHRE_INVALID, "NULL");
    OK(ochre_buffer_read(b, 8, NULL, 0, &e));
    REFUSED(ochre_program_compile(d, text, strlen(text), NULL, &p, &e), OCHRE_UNSUPPORTED, "runs no kernels");
    di.size_bytes = 0;
    assert_true(ochre_device_describe(d, &di, &e) != OCHRE_OK);
    ochre_buffer_destroy(b);
    ochre_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing),
        cmocka_unit_test(launches),
        cmocka_unit_test(raw),
        cmocka_unit_test(texts),
        cmocka_unit_test(late_errors),
        cmocka_unit_test(in_flight),
        cmocka_unit_test(threads_and_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
