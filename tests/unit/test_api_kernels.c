/* The public API of kernels where a program outside the tree cannot look: that nothing is left behind, whatever fails; threads;
 * streams that stay their owner's; outputs that were declared; code from a bundle. What programs see: tests/outside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <ochre/kernels.h>
#include <pthread.h>

#include "base/alloc.h"
#include "base/spawn.h"
#include "base/strbuf.h"
#include "dev/dev.h"

static char cache_dir[256];
static const char *board = "sim:gfx1100";
static ochre_error e;
static bool compiles;

static const char hip_text[] = "extern \"C\" __global__ void axpy(float *y, const float *x, float a, int n) {\n"
                               "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                               "  if (i < n) y[i] += a * x[i];\n"
                               "}\n";
static const char ok_text[] = "kernel scale(x: in buf<f32>[n], y: out buf<f32>[n] over x, a: f32)\n"
                              "  param WAVES: int = 2\n"
                              "  launch grid(1) waves(WAVES)\n"
                              "{ for i in group.lanes(n) { y[i] = a * x[i]; } }\n";

static void need_compiler(void) {
    if (compiles) return;
    print_message("skipped: no clang\n");
    skip();
}

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) != OCHRE_OK) fail_msg("%s: %s\n%s", #call, e.message, ochre_program_log(NULL));                     \
    } while (0)

static ochre_program *compile(ochre_device *d, ochre_language language, const char *text) {
    ochre_program_options o = OCHRE_PROGRAM_OPTIONS_INIT;
    ochre_program *p;
    o.language = language;
    OK(ochre_program_compile(d, text, strlen(text), &o, &p, &e));
    return p;
}

static ochre_argument by_name(const char *name, uint64_t address, int64_t n) {
    ochre_argument a = {.name = name, .address = address, .dims = {n}};
    return a;
}

/* A whole use of the API; false: it failed with a message, and gave everything back. */
static bool whole_use(void) {
    enum { N = 64 };
    ochre_device *d = NULL;
    ochre_program *p = NULL;
    ochre_buffer *b = NULL;
    ochre_kernel *k;
    float x[N], y[N];
    bool good = false;
    for (int i = 0; i < N; i++) x[i] = (float)i;
    e = (ochre_error){0};
    if (ochre_device_open(board, &d, &e) == OCHRE_OK && ochre_program_compile(d, ok_text, strlen(ok_text), NULL, &p, &e) == OCHRE_OK &&
        ochre_program_kernel(p, "scale", &k, &e) == OCHRE_OK && ochre_buffer_create(d, sizeof x, &b, &e) == OCHRE_OK &&
        ochre_buffer_write(b, 0, x, sizeof x, &e) == OCHRE_OK) {
        uint64_t at = ochre_buffer_address(b);
        ochre_argument a[] = {by_name("x", at, N), by_name("y", at, N), {.name = "a", .real = -2}};
        good = ochre_kernel_launch(k, NULL, a, 3, &e) == OCHRE_OK && ochre_buffer_read(b, 0, y, sizeof y, &e) == OCHRE_OK;
        for (int i = 0; i < N && good; i++) assert_true(y[i] == -2.0f * (float)i);
    }
    if (!good && (!e.message[0] || e.status == OCHRE_OK)) fail_msg("a failure without a message");
    ochre_buffer_destroy(b);
    ochre_program_destroy(p);
    ochre_device_close(d);
    return good;
}

static void nothing_stays(void **state) {
    (void)state;
    need_compiler();
    assert_true(whole_use());
    int64_t live = och_alloc_live(); /* what the process keeps: an instance of the simulator */
    uint64_t bytes, count;
    for (int i = 0; i < 3; i++) assert_true(whole_use());
    assert_int_equal(och_alloc_live(), live);
    och_buf_live(&bytes, &count);
    assert_int_equal(count, 0);
}

/* Every single allocation refused: a message, nothing lost, and the next try works. */
static void no_memory(void **state) {
    (void)state;
    need_compiler();
    assert_true(whole_use());
    int64_t live = och_alloc_live();
    uint64_t failed = 0, all = 0;
    for (uint64_t n = 1;; n++) {
        och_alloc_fail_at(n);
        bool good = whole_use();
        all = och_alloc_count();
        och_alloc_fail_at(0);
        assert_int_equal(och_alloc_live(), live);
        if (all < n) break;
        failed += !good;
    }
    print_message("%llu of %llu allocations are needed\n", (unsigned long long)failed, (unsigned long long)all);
    assert_true(all > 50 && failed > all / 2); /* what is not needed: notes, what is asked for twice */
    assert_true(whole_use());
}

/* Handles outlive what they came from, in any order. */
static void lives(void **state) {
    (void)state;
    need_compiler();
    ochre_device *d;
    ochre_kernel *k;
    ochre_buffer *b;
    ochre_device_info info = {.size_bytes = sizeof info};
    OK(ochre_device_open(board, &d, &e));
    ochre_program *p = compile(d, OCHRE_LANGUAGE_HIP, hip_text);
    OK(ochre_buffer_create(d, 4, &b, &e));
    OK(ochre_device_describe(d, &info, &e));
    assert_string_equal(info.name, board);
    assert_true(info.simulated && info.wave_size == 32 && !strcmp(info.target, "gfx1100") && info.runtime_library[0]);
    ochre_device_close(d);
    OK(ochre_program_kernel(p, "axpy", &k, &e));
    uint64_t at = ochre_buffer_address(b);
    float one = 1, a = 3, got;
    int n = 1;
    const void *args[] = {&at, &at, &a, &n};
    const uint32_t grid[] = {1, 1, 1};
    OK(ochre_buffer_write(b, 0, &one, 4, &e));
    OK(ochre_kernel_launch_raw(k, NULL, grid, grid, 0, args, 4, &e));
    ochre_program_destroy(p);
    OK(ochre_buffer_read(b, 0, &got, 4, &e));
    assert_true(got == 4);
    ochre_buffer_destroy(b);
}

/* A struct of a smaller size is filled as far as it goes; of a larger one the rest stays. */
static void sizes(void **state) {
    (void)state;
    ochre_device *d;
    struct {
        ochre_device_info info;
        int more;
    } x = {.info = {.size_bytes = sizeof x}, .more = 77};
    OK(ochre_device_open("cpu", &d, &e));
    OK(ochre_device_describe(d, &x.info, &e));
    assert_true(x.more == 77 && x.info.size_bytes == sizeof x && x.info.wave_size == 0 && !x.info.runtime_library[0]);
    memset(&x.info, 0xEE, sizeof x.info);
    x.info.size_bytes = offsetof(ochre_device_info, product);
    OK(ochre_device_describe(d, &x.info, &e));
    assert_string_equal(x.info.name, "cpu:0");
    assert_int_equal((uint8_t)(uintptr_t)x.info.product, 0xEE);
    ochre_device_close(d);
}

/* ---- streams ---- */

typedef struct runtime {
    void *library;
    int (*set_device)(int), (*create)(void **), (*synchronize)(void *), (*destroy)(void *), (*query)(void *);
} runtime;

static void find(const runtime *r, const char *name, void *out) {
    void *f = dlsym(r->library, name);
    assert_non_null(f);
    memcpy(out, &f, sizeof f);
}

static void open_runtime(ochre_device *d, runtime *r) {
    ochre_device_info info = {.size_bytes = sizeof info};
    OK(ochre_device_describe(d, &info, &e));
    r->library = dlopen(info.runtime_library, RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(r->library);
    find(r, "hipSetDevice", &r->set_device);
    find(r, "hipStreamCreate", &r->create);
    find(r, "hipStreamSynchronize", &r->synchronize);
    find(r, "hipStreamDestroy", &r->destroy);
    find(r, "hipStreamQuery", &r->query);
    assert_int_equal(r->set_device(info.runtime_device), 0);
}

/* A queue over somebody's stream: what is given to it runs in the stream's order, and the stream stays. */
static void wrapped(void **state) {
    (void)state;
    och_err err = {0};
    och_device *d;
    och_queue *q;
    assert_int_equal(och_device_open("cpu", NULL, &d, &err), OCH_OK);
    assert_int_equal(d->vtable->queue_wrap(d, &err, &q, &err), OCH_UNSUPPORTED);
    assert_null(q);
    och_device_release(d);
    och_err_clear(&err);
    assert_int_equal(och_device_open("null", NULL, &d, &err), OCH_OK);
    assert_int_equal(d->vtable->queue_wrap(d, &err, &q, &err), OCH_UNSUPPORTED);
    och_device_release(d);

    ochre_device *pub;
    runtime r;
    void *stream;
    och_err_clear(&err);
    OK(ochre_device_open(board, &pub, &e));
    open_runtime(pub, &r);
    assert_int_equal(och_device_open(board, NULL, &d, &err), OCH_OK);
    const och_device_vtable *v = d->vtable;
    assert_int_equal(r.create(&stream), 0);
    enum { N = 5 << 20 }; /* pageable memory goes through more than both halves of the queue's own */
    uint8_t *bytes = malloc(N), *back = malloc(N);
    for (int i = 0; i < N; i++) bytes[i] = (uint8_t)(i * 7 >> 3);
    och_buf b;
    assert_int_equal(och_buf_alloc(d, N, OCH_MEM_DEVICE, &b, &err), OCH_OK);
    assert_int_equal(v->queue_wrap(d, stream, &q, &err), OCH_OK);
    assert_ptr_equal(q->device, d);
    assert_int_equal(v->copy_to_device(q, b.addr, bytes, N, &err), OCH_OK);
    v->queue_destroy(q); /* its copies still run */
    assert_int_equal(v->queue_wrap(d, stream, &q, &err), OCH_OK);
    assert_int_equal(v->copy_to_host(q, back, b.addr, N, &err), OCH_OK);
    assert_int_equal(v->synchronise(q, &err), OCH_OK);
    assert_memory_equal(bytes, back, N);
    v->queue_destroy(q);
    assert_int_equal(r.query(stream), 0); /* it is there, and idle */
    assert_int_equal(r.destroy(stream), 0);
    free(bytes);
    free(back);
    och_buf_free(&b);
    och_device_release(d);
    dlclose(r.library);
    ochre_device_close(pub);
}

typedef struct worker {
    ochre_device *d;
    ochre_kernel *axpy, *scale;
    runtime *r;
    int id;
    bool own_stream, good;
} worker;

static void *launch_many(void *arg) {
    enum { N = 128, ROUNDS = 20 };
    worker *w = arg;
    ochre_error we = {0};
    ochre_buffer *x, *y;
    void *stream = NULL;
    float hx[N], hy[N];
    if (w->own_stream && (w->r->set_device(0) || w->r->create(&stream))) return NULL;
    for (int i = 0; i < N; i++) hx[i] = (float)(i + w->id), hy[i] = 0;
    if (ochre_buffer_create(w->d, sizeof hx, &x, &we) || ochre_buffer_create(w->d, sizeof hy, &y, &we) ||
        ochre_buffer_write(x, 0, hx, sizeof hx, &we) || ochre_buffer_write(y, 0, hy, sizeof hy, &we))
        return NULL;
    uint64_t ax = ochre_buffer_address(x), ay = ochre_buffer_address(y);
    float a = 1;
    int n = N;
    const void *args[] = {&ay, &ax, &a, &n};
    const uint32_t grid[] = {2, 1, 1}, group[] = {64, 1, 1};
    ochre_argument named[] = {by_name("x", ay, N), by_name("y", ay, N), {.name = "a", .real = 0.5}};
    bool good = true;
    for (int i = 0; i < ROUNDS && good; i++)
        good = !ochre_kernel_launch_raw(w->axpy, stream, grid, group, 0, args, 4, &we) && !ochre_kernel_launch(w->scale, stream, named, 3, &we);
    if (stream) good = good && !w->r->synchronize(stream) && !w->r->destroy(stream);
    good = good && !ochre_buffer_read(y, 0, hy, sizeof hy, &we);
    /* v = (v + x) / 2, twenty times from 0: x (1 - 2^-20), exact in float for x below 16; the last bits may go for others */
    for (int i = 0; i < N && good; i++) {
        float want = 0;
        for (int k = 0; k < ROUNDS; k++) want = (want + hx[i]) * 0.5f;
        good = hy[i] == want;
    }
    ochre_buffer_destroy(x);
    ochre_buffer_destroy(y);
    w->good = good;
    return NULL;
}

/* Kernels of one program on streams of several threads, and on the device's own. */
static void threads(void **state) {
    (void)state;
    need_compiler();
    enum { THREADS = 4 };
    ochre_device *d;
    runtime r;
    pthread_t t[THREADS];
    worker w[THREADS];
    ochre_kernel *axpy, *scale;
    OK(ochre_device_open(board, &d, &e));
    open_runtime(d, &r);
    ochre_program *hip = compile(d, OCHRE_LANGUAGE_HIP, hip_text), *ok = compile(d, OCHRE_LANGUAGE_OK, ok_text);
    OK(ochre_program_kernel(hip, "axpy", &axpy, &e));
    OK(ochre_program_kernel(ok, "scale", &scale, &e));
    for (int i = 0; i < THREADS; i++) {
        w[i] = (worker){d, axpy, scale, &r, i, i % 2 == 1, false};
        assert_int_equal(pthread_create(&t[i], NULL, launch_many, &w[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(t[i], NULL);
        assert_true(w[i].good);
    }
    ochre_program_destroy(hip);
    ochre_program_destroy(ok);
    dlclose(r.library);
    ochre_device_close(d);
}

/* ---- what a kernel tells ---- */

static void arguments(void **state) {
    (void)state;
    need_compiler();
    ochre_device *d;
    ochre_kernel *k;
    ochre_argument_info i;
    ochre_kernel_info info = {.size_bytes = sizeof info};
    OK(ochre_device_open(board, &d, &e));
    ochre_program *p = compile(d, OCHRE_LANGUAGE_HIP, hip_text);
    OK(ochre_program_kernel(p, "axpy", &k, &e));
    static const uint32_t offsets[] = {0, 8, 16, 20}, bytes[] = {8, 8, 4, 4};
    assert_int_equal(ochre_kernel_argument_count(k), 4);
    for (uint32_t at = 0; at < 4; at++) {
        OK(ochre_kernel_argument(k, at, &i, &e));
        assert_true(i.offset_bytes == offsets[at] && i.size_bytes == bytes[at] && i.is_buffer == (at < 2) && !i.is_output && !i.in_place);
    }
    const uint32_t second[] = {1}, first[] = {0};
    OK(ochre_kernel_declare_outputs(k, second, 1, &e));
    OK(ochre_kernel_declare_outputs(k, first, 1, &e)); /* anew */
    OK(ochre_kernel_argument(k, 0, &i, &e));
    assert_true(i.is_output && i.in_place);
    OK(ochre_kernel_argument(k, 1, &i, &e));
    assert_false(i.is_output);
    OK(ochre_kernel_declare_outputs(k, NULL, 0, &e));
    OK(ochre_kernel_argument(k, 0, &i, &e));
    assert_false(i.is_output);
    ochre_program_destroy(p);

    ochre_program_options o = OCHRE_PROGRAM_OPTIONS_INIT;
    const ochre_param params[] = {{"WAVES", "4"}};
    o.params = params, o.n_params = 1, o.wave_size = 64, o.file_name = "scale.ok";
    OK(ochre_program_compile(d, ok_text, strlen(ok_text), &o, &p, &e));
    OK(ochre_program_kernel(p, "scale", &k, &e));
    OK(ochre_kernel_describe(k, &info, &e));
    assert_string_equal(info.name, "scale");
    assert_string_equal(info.target, "gfx1100");
    assert_true(info.wave_size == 64 && info.threads == 256 && info.registers > 0 && info.spills == 0);
    static const char *const names[] = {"x", "y", "a"}, *const types[] = {"f32", "f32", "f32"};
    for (size_t at = 0; at < 3; at++) {
        OK(ochre_kernel_argument(k, at, &i, &e));
        assert_string_equal(i.name, names[at]);
        assert_string_equal(i.type, types[at]);
        assert_true(i.rank == (at < 2) && i.is_buffer == (at < 2) && i.is_input == (at != 1) && i.is_output == (at == 1));
        assert_int_equal(i.in_place, at == 1);
    }
    ochre_program_destroy(p);
    ochre_device_close(d);
}

/* A bundle of several targets: the one for the device is taken. */
static void bundles(void **state) {
    (void)state;
    och_strbuf clang = {0};
    if (!och_spawn_find("clang-22", &clang)) {
        print_message("skipped: no clang-22\n");
        skip();
    }
    char path[300];
    snprintf(path, sizeof path, "%s.hip", cache_dir);
    const char *argv[] = {och_strbuf_str(&clang), "-x", "hip", "--offload-device-only", "--gpu-bundle-output", "-nogpulib", "-nogpuinc", "-O3",
                          "-mcode-object-version=5", "--offload-arch=gfx1100", "--offload-arch=gfx1030", "-o", "-", path, NULL}; /* a file: each target reads it anew */
    const char text[] = "extern \"C\" __attribute__((global)) void put(int *p) { *p = 42; }\n";
    FILE *to = fopen(path, "w");
    assert_true(to && fputs(text, to) >= 0 && fclose(to) == 0);
    och_spawn_result made;
    och_err err = {0};
    assert_int_equal(och_spawn_run(&(och_spawn){.argv = argv}, &made, &err), OCH_OK);
    remove(path);
    if (made.exit_status) fail_msg("%s", och_strbuf_str(&made.err));
    static const char *const boards[] = {"sim:gfx1100", "sim:gfx1030"};
    for (int i = 0; i < 2; i++) {
        ochre_device *d;
        ochre_program *p;
        ochre_kernel *k;
        ochre_kernel_info info = {.size_bytes = sizeof info};
        ochre_buffer *b;
        int got = 0;
        const uint32_t one[] = {1, 1, 1};
        OK(ochre_device_open(boards[i], &d, &e));
        OK(ochre_program_load(d, made.out.data, made.out.size, &p, &e));
        OK(ochre_program_kernel(p, "put", &k, &e));
        OK(ochre_kernel_describe(k, &info, &e));
        assert_string_equal(info.target, boards[i] + 4);
        OK(ochre_buffer_create(d, 4, &b, &e));
        uint64_t at = ochre_buffer_address(b);
        const void *args[] = {&at};
        OK(ochre_kernel_launch_raw(k, NULL, one, one, 0, args, 1, &e));
        OK(ochre_buffer_read(b, 0, &got, 4, &e));
        assert_int_equal(got, 42);
        ochre_buffer_destroy(b);
        ochre_program_destroy(p);
        ochre_device_close(d);
    }
    ochre_device *d;
    ochre_program *p;
    OK(ochre_device_open("sim:gfx942", &d, &e));
    assert_int_equal(ochre_program_load(d, made.out.data, made.out.size, &p, &e), OCHRE_UNSUPPORTED);
    assert_true(strstr(e.message, "gfx1100") && strstr(e.message, "gfx1030") && strstr(e.message, "gfx942"));
    ochre_device_close(d);
    och_spawn_result_deinit(&made);
    och_strbuf_deinit(&clang);
}

/* A fault is told, by the kernel's name; the program goes on. */
static void a_fault(void **state) {
    (void)state;
    need_compiler();
    ochre_device *d;
    ochre_kernel *k;
    ochre_error why = {0};
    OK(ochre_device_open("sim:gfx1201", &d, &e));
    ochre_program *p = compile(d, OCHRE_LANGUAGE_HIP, hip_text);
    OK(ochre_program_kernel(p, "axpy", &k, &e));
    uint64_t nowhere = 0x10;
    float a = 1;
    int n = 1;
    const void *args[] = {&nowhere, &nowhere, &a, &n};
    const uint32_t one[] = {1, 1, 1};
    ochre_status st = ochre_kernel_launch_raw(k, NULL, one, one, 0, args, 4, &why);
    if (st == OCHRE_OK) st = ochre_device_synchronise(d, &why);
    assert_int_equal(st, OCHRE_DEVICE);
    assert_non_null(strstr(why.message, "axpy"));
    ochre_program_destroy(p);
    ochre_device_close(d);
}

int main(void) {
    och_strbuf clang = {0};
    compiles = och_spawn_find("clang-22", &clang) || och_spawn_find("clang-19", &clang);
    och_strbuf_deinit(&clang);
    snprintf(cache_dir, sizeof cache_dir, "/tmp/ochre-api-kernels.%ld", (long)getpid());
    setenv("OCHRE_SIM_LIBRARY", OCHRE_BUILD_DIR "/sim/libamdhip64.so", 0);
    setenv("OCHRE_CACHE_DIR", cache_dir, 1);
    unsetenv("OCHRE_PACK");
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes),   cmocka_unit_test(nothing_stays), cmocka_unit_test(no_memory),
                                       cmocka_unit_test(lives),   cmocka_unit_test(wrapped),       cmocka_unit_test(threads),
                                       cmocka_unit_test(arguments), cmocka_unit_test(bundles),     cmocka_unit_test(a_fault)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[320];
    snprintf(command, sizeof command, "rm -rf '%s'", cache_dir);
    return system(command) || failed;
}
