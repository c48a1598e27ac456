/* Tests in processes of their own, for what a process has once (libraries, environment): TEST(name) { ... } is a cmocka test whose body
 * a child runs. What fails ends the child, with a line on standard error. */
#ifndef OCH_TEST_IN_CHILD_H
#define OCH_TEST_IN_CHILD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/env.h"
#include "base/status.h"

static och_err err;

#define CHECK(c)                                                                                                               \
    do {                                                                                                                       \
        if (!(c)) fprintf(stderr, "%s:%d: %s; the last message: %s\n", __FILE__, __LINE__, #c, err.message), _exit(1);         \
    } while (0)
#define OK(call)                                                                                                               \
    do {                                                                                                                       \
        och_err_clear(&err);                                                                                                   \
        if ((call) != OCH_OK) fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, err.message), _exit(1);            \
    } while (0)
#define FAILS(status, call)                                                                                                    \
    do {                                                                                                                       \
        och_err_clear(&err);                                                                                                   \
        CHECK((call) == (status));                                                                                             \
        CHECK(err.message[0]);                                                                                                 \
    } while (0)
static inline void says(const char *part) {
    if (!strstr(err.message, part)) fprintf(stderr, "expected \"%s\" in: %s\n", part, err.message), _exit(1);
}

/* Whether fn ran to its end in a child. */
static inline bool ends_in_child(void (*fn)(void)) {
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        fn();
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status);
}
#define TEST(name)                                                                                                             \
    static void name##_body(void);                                                                                             \
    static void name(void **state) {                                                                                           \
        (void)state;                                                                                                           \
        if (!ends_in_child(name##_body)) fail_msg("failed, as written above");                                                 \
    }                                                                                                                          \
    static void name##_body(void)

/* ---- a cache's folder of the test's own, with the kernels of this build's ---- */

static char cache[256];
static inline void own_cache(void) {
    char link[512];
    snprintf(cache, sizeof cache, "/tmp/ochre-test-XXXXXX");
    CHECK(mkdtemp(cache));
    CHECK(och_env_set("OCHRE_CACHE_DIR", cache));
    snprintf(link, sizeof link, "%s/v1", cache);
    (void)mkdir(OCHRE_BUILD_DIR "/kernel-cache", 0777);
    (void)mkdir(OCHRE_BUILD_DIR "/kernel-cache/v1", 0777);
    CHECK(symlink(OCHRE_BUILD_DIR "/kernel-cache/v1", link) == 0);
}
/* Once the test's own files are gone from it: no temporary one is left. */
static inline void remove_cache(void) {
    char link[512];
    snprintf(link, sizeof link, "%s/v1", cache);
    unlink(link);
    CHECK(rmdir(cache) == 0);
}

#endif
