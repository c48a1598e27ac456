/* For tests of the HIP backend: a process and a folder a case, since libraries are opened once and read their environment once. */
#ifndef TESTS_HIP_BACKEND_H
#define TESTS_HIP_BACKEND_H

#include "conform/support/hip_text.h"
#include "dev/dev.h"
#include "dev/hip/hip.h"

#include "base/log.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include "hip/fake_runtime.h"

#define SIM OCHRE_BUILD_DIR "/sim/"
#define REAL "/usr/lib/x86_64-linux-gnu/libamdhip64.so.5"

static och_err err;
static och_device *d;
static och_queue *q;
static char logged[4096];

#define CHECK(x)                                                                                                               \
    do {                                                                                                                       \
        if (!(x)) fprintf(stderr, "%s:%d: %s\n  message: %s\n  logged: %s\n", __FILE__, __LINE__, #x, err.message, logged), _exit(2); \
    } while (0)
#define HAS(text, part)                                                                                                        \
    do {                                                                                                                       \
        if (!strstr(text, part)) fprintf(stderr, "%s:%d: no \"%s\" in: %s\n", __FILE__, __LINE__, part, text), _exit(2);        \
    } while (0)
#define OK(x) CHECK((x) == OCH_OK)
#define FAILS(want, x)                                                                                                         \
    do {                                                                                                                       \
        och_err_clear(&err);                                                                                                   \
        och_status st_ = (x);                                                                                                  \
        if (st_ != (want) || err.status != (want))                                                                             \
            fprintf(stderr, "%s:%d: %s: expected %s, found %s: %s\n", __FILE__, __LINE__, #x, och_status_name(want),           \
                    och_status_name(st_), err.message), _exit(2);                                                              \
    } while (0)

static inline void keep_log(void *ctx, och_log_level level, const char *message) {
    (void)ctx;
    if (level >= OCH_LOG_WARN) snprintf(logged + strlen(logged), sizeof logged - strlen(logged), "%s\n", message);
}

static char tmp[64]; /* a folder of the running case */

static inline const char *under(const char *path) {
    static char text[4][512];
    static int next;
    char *t = text[next++ & 3];
    snprintf(t, 512, "%s/%s", tmp, path);
    return t;
}

static inline void make_folders(char *path) {
    for (char *s = path + 1; (s = strchr(s, '/')); s++) {
        *s = 0;
        mkdir(path, 0755);
        *s = '/';
    }
}

/* tmp/at, with its folders, as a link to `to`. */
static inline void make_link(const char *at, const char *to) {
    char path[512];
    snprintf(path, sizeof path, "%s", under(at));
    make_folders(path);
    CHECK(symlink(to, path) == 0);
}

static inline void make_file(const char *at, const char *text, mode_t mode) {
    char path[512];
    snprintf(path, sizeof path, "%s", under(at));
    make_folders(path);
    FILE *f = fopen(path, "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0 && chmod(path, mode) == 0);
}

static inline void copy_file(const char *from, const char *at) {
    char path[512], bytes[65536];
    size_t n;
    snprintf(path, sizeof path, "%s", under(at));
    make_folders(path);
    FILE *f = fopen(from, "rb"), *t = fopen(path, "wb");
    CHECK(f && t);
    while ((n = fread(bytes, 1, sizeof bytes, f)) > 0) CHECK(fwrite(bytes, 1, n, t) == n);
    CHECK(fclose(t) == 0);
    fclose(f);
}

static inline void set(const char *name, const char *value) { setenv(name, value, 1); }
static inline void set_under(const char *name, const char *path) { setenv(name, under(path), 1); }

/* Builds the fake runtime at tmp/at; where there is no C compiler the case is skipped. */
#define SKIPPED 77
static inline void make_fake(const char *at, const char *const *macros) {
    char source[512], object[512];
    make_file("fake.c", fake_text, 0644);
    snprintf(source, sizeof source, "%s", under("fake.c"));
    snprintf(object, sizeof object, "%s", under(at));
    make_folders(object);
    char *argv[16] = {"cc", "-w", "-shared", "-fPIC", "-o", object, source};
    int n = 7;
    while (macros && *macros) argv[n++] = (char *)(uintptr_t)*macros++;
    pid_t pid;
    int status;
    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) || waitpid(pid, &status, 0) != pid) _exit(SKIPPED);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) _exit(SKIPPED);
    CHECK(status == 0);
}

/* Runs a case in a process of its own, with a folder of its own and nothing of the environment that matters. */
static inline int in_process(void (*body)(void)) {
    fflush(NULL);
    snprintf(tmp, sizeof tmp, "/tmp/ochre-test-XXXXXX");
    if (!mkdtemp(tmp)) return -1;
    pid_t pid = fork();
    if (!pid) {
        static const char *const names[] = {"LD_LIBRARY_PATH", "ROCM_PATH", "HIP_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "HIP_VISIBLE_DEVICES",
                                            "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "HSA_OVERRIDE_GFX_VERSION",
                                            "OCHRE_HIP_LIBRARY", "OCHRE_SYSTEM_ROOT", "OCHRE_SIM_BOARD", "OCHRE_SIM_QUIRKS",
                                            "OCHRE_SIM_HIP_VERSION", "OCHRE_REQUIRE_GPU", "OCHRE_HIP_SYNC", "OCHRE_SIM_LIBRARY"};
        for (int i = 1; i < 32; i++) signal(i, SIG_DFL); /* not cmocka's */
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
        set_under("HOME", "home");
        och_log_set_sink(keep_log, NULL);
        alarm(300);
        body();
        fflush(NULL);
        _exit(0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    char *argv[] = {"rm", "-rf", tmp, NULL};
    pid_t rm;
    if (posix_spawnp(&rm, "rm", NULL, NULL, argv, environ) == 0) waitpid(rm, NULL, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#define TEST(name)                                                                                                             \
    static void name##_body(void);                                                                                             \
    static void name(void **state) {                                                                                           \
        (void)state;                                                                                                           \
        int rc = in_process(name##_body);                                                                                      \
        if (rc == SKIPPED) skip();                                                                                             \
        assert_int_equal(rc, 0);                                                                                               \
    }                                                                                                                          \
    static void name##_body(void)

static inline void open_with_queue(const char *name) {
    och_err_clear(&err);
    OK(och_device_open(name, NULL, &d, &err));
    OK(d->vtable->queue_create(d, &q, &err));
}

static inline void close_device(void) {
    d->vtable->queue_destroy(q);
    och_device_release(d);
}

static inline och_buf get(uint64_t n, och_mem_kind kind) {
    och_buf b;
    OK(och_buf_alloc(d, n, kind, &b, &err));
    return b;
}

static const char text[] __attribute__((unused)) = KERNEL "void put(unsigned *p) { p[__builtin_amdgcn_workitem_id_x()] = 42; }\n"
                           KERNEL "void wild(unsigned *p) { *(volatile unsigned *)0x123456700000ull = 1; }\n"
                           KERNEL "void calm(unsigned *p) { *p += 1; }\n";

static inline och_module *load(int version) {
    size_t n;
    void *image = hip_text_compile(text, d->info.arch, version, &n);
    if (!image) _exit(SKIPPED);
    och_module *m;
    och_status st = d->vtable->module_load(d, image, n, &m, &err);
    free(image);
    return st == OCH_OK ? m : NULL;
}

static inline och_function *function(och_module *m, const char *name) {
    och_function *f;
    OK(d->vtable->module_function(m, name, &f, &err));
    return f;
}

static inline och_status run(och_function *f, och_buf *b) {
    uint64_t p = b->addr.value;
    return d->vtable->launch(q, f, &(och_launch){{1, 1, 1}, {32, 1, 1}, 0, &p, 8, false, OCH_LDS_BY_DRIVER}, &err);
}

#define SIM_LINK(at) make_link(at, SIM "libamdhip64.so")

#endif
