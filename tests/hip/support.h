/* Tests of the library as a program meets it: opened at run time, a process each, since it reads its environment once. */
#ifndef TESTS_HIP_SUPPORT_H
#define TESTS_HIP_SUPPORT_H

#include "hip/api.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* Types of the exported calls. */
#define HIP_API(node, flags, name, params, args) typedef hipError_t fn_##name params;
#define HIP_ALIAS(node, flags, name, body, params, args) typedef hipError_t fn_##name params;
#define HIP_SPT(node, flags, name, body, params, args) typedef hipError_t fn_##name params;
#define HIP_RET(node, ret, name, params, args) typedef ret fn_##name params;
#define HIP_VOID(node, name, params, args) typedef void fn_##name params;
#define HIP_NOT(node, name, why) typedef hipError_t fn_##name(void);
#include "hip/hip_syms.def"
#undef HIP_API
#undef HIP_ALIAS
#undef HIP_SPT
#undef HIP_RET
#undef HIP_VOID
#undef HIP_NOT

static void *hip_library;
static inline void *hip_symbol(const char *name) {
    void *p = dlsym(hip_library, name);
    if (!p) fprintf(stderr, "%s: no symbol %s\n", dlerror(), name), _exit(3);
    return p;
}
#define H(name) ((fn_##name *)(uintptr_t)hip_symbol(#name))

#define CHECK(x)                                                                                                               \
    do {                                                                                                                       \
        if (!(x)) fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x), _exit(2);                                            \
    } while (0)
#define GIVES(e, x)                                                                                                            \
    do {                                                                                                                       \
        int got_ = (int)(x);                                                                                                   \
        if (got_ != (int)(e))                                                                                                  \
            fprintf(stderr, "%s:%d: %s: expected %d, got %d\n", __FILE__, __LINE__, #x, (int)(e), got_), _exit(2);             \
    } while (0)
#define OK(x) GIVES(hipSuccess, x)

/* Runs body in a process of its own with the library opened. env: "NAME=value" words separated by spaces. The exit status
 * that body's process ends with; stderr goes to err_text when given. */
static inline int in_process(const char *env, const char *file, void (*body)(void), char *err_text, size_t err_bytes) {
    int pipes[2] = {-1, -1};
    if (err_text && pipe(pipes)) return -1;
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        if (err_text) dup2(pipes[1], 2), close(pipes[0]);
        /* cmocka's handlers would go on with the parent's tests here */
        for (int i = 1; i < 32; i++) signal(i, SIG_DFL);
        char *words = strdup(env ? env : "");
        for (char *w = strtok(words, " "); w; w = strtok(NULL, " ")) putenv(w);
        char path[1024];
        snprintf(path, sizeof path, "%s/sim/%s", OCHRE_BUILD_DIR, file ? file : "libamdhip64.so");
        hip_library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!hip_library) fprintf(stderr, "%s\n", dlerror()), _exit(4);
        body();
        fflush(NULL);
        _exit(0);
    }
    if (err_text) {
        close(pipes[1]);
        size_t n = 0;
        ssize_t r;
        while (n + 1 < err_bytes && (r = read(pipes[0], err_text + n, err_bytes - 1 - n)) > 0) n += (size_t)r;
        err_text[n] = 0;
        close(pipes[0]);
    }
    int status;
    if (waitpid(pid, &status, 0) < 0) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* A test that runs `name_body` in a process with this environment. */
#define TEST(name, env, file)                                                                                                  \
    static void name##_body(void);                                                                                             \
    static void name(void **state) {                                                                                           \
        (void)state;                                                                                                           \
        assert_int_equal(in_process(env, file, name##_body, NULL, 0), 0);                                                      \
    }                                                                                                                          \
    static void name##_body(void)

#endif
