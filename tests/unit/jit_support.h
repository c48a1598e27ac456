/* What the tests of the JIT share: a folder of their own, a compiler that is a script, requests. The script answers like a clang
 * and gives a code object of the corpus, so that the machinery is tested where there is no compiler. */
#ifndef OCH_TESTS_JIT_SUPPORT_H
#define OCH_TESTS_JIT_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/log.h"
#include "jit/cache.h"
#include "jit/check.h"
#include "jit/compiler.h"
#include "jit/jit.h"
#include "jit/pack.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CORPUS OCHRE_TEST_DIR "/golden/obj/"

static char folder[64]; /* one for the program, removed at its end */

static inline char *at(const char *name) { /* a path in the folder, good for the next sixteen calls */
    static char paths[16][256];
    static unsigned next;
    char *p = paths[next++ % 16];
    snprintf(p, sizeof paths[0], "%s/%s", folder, name);
    return p;
}

static inline int make_folder(void **s) {
    (void)s;
    snprintf(folder, sizeof folder, "/tmp/ochre-test-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    /* nothing of the machine's or of the user's takes part */
    setenv("OCHRE_CACHE_DIR", at("cache"), 1);
    setenv("HOME", at("home"), 1);
    static const char *const others[] = {"OCHRE_CLANG",  "OCHRE_HIPRTC", "OCHRE_NVRTC",    "OCHRE_PACK",        "OCHRE_JIT_COMPILER", "ROCM_PATH",
                                         "VIRTUAL_ENV", "CONDA_PREFIX", "XDG_CACHE_HOME", "OCHRE_CACHE_LIMIT", "OCHRE_JIT_KEEP",     "CUDA_PATH"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) unsetenv(others[i]);
    return 0;
}

static inline void remove_tree(const char *path) {
    struct stat sb;
    if (lstat(path, &sb) != 0) return;
    if (S_ISDIR(sb.st_mode)) {
        chmod(path, 0700);
        DIR *d = opendir(path);
        for (struct dirent *e; d && (e = readdir(d));) {
            if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
            och_strbuf below = {0};
            och_strbuf_printf(&below, "%s/%s", path, e->d_name);
            remove_tree(below.data);
            och_strbuf_deinit(&below);
        }
        if (d) closedir(d);
        rmdir(path);
    } else {
        unlink(path);
    }
}

static inline int remove_folder(void **s) {
    (void)s;
    remove_tree(folder);
    return 0;
}

static inline uint8_t *read_all(const char *path, size_t *out_n) {
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s: %s", path, strerror(errno));
    fseek(f, 0, SEEK_END);
    size_t n = (size_t)ftell(f);
    rewind(f);
    uint8_t *bytes = malloc(n + 1);
    assert_int_equal(fread(bytes, 1, n, f), n);
    bytes[n] = 0;
    fclose(f);
    *out_n = n;
    return bytes;
}

static inline void write_all(const char *path, const void *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    if (!f) fail_msg("%s: %s", path, strerror(errno));
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline void write_text(const char *path, const char *text) { write_all(path, text, strlen(text)); }

/* A script in the folder that says that it is a clang of `version`, and runs `body` to compile: its input is the text. */
static inline const char *make_compiler(const char *name, const char *version, const char *body) {
    och_strbuf b = {0};
    och_strbuf_printf(&b,
                      "#!/bin/sh\n"
                      "if [ \"$1\" = --version ]; then echo 'scripted clang version %s (a test)'; exit 0; fi\n"
                      "%s\n",
                      version, body);
    static char path[256]; /* of the last compiler made */
    snprintf(path, sizeof path, "%s", at(name));
    /* renamed into place: a script that is written while another thread forks cannot be executed for a moment */
    char aside[300];
    snprintf(aside, sizeof aside, "%s.new", path);
    write_all(aside, b.data, b.size);
    chmod(aside, 0755);
    rename(aside, path);
    och_strbuf_deinit(&b);
    return path;
}

/* The usual one: notes each compilation in the file "runs", and gives an object of the corpus: gfx1151, wave64, version 6. */
#define GOOD_OBJECT CORPUS "v6-gfx1151-wave64.co"
static inline const char *make_good_compiler(void) {
    char body[1024];
    snprintf(body, sizeof body, "cat > /dev/null; echo run >> %s; echo 'kernel:1:1: warning: from the script' >&2; cat %s", at("runs"), GOOD_OBJECT);
    return make_compiler("clang", "22.1.0", body);
}

static inline int count_runs(void) {
    FILE *f = fopen(at("runs"), "r");
    int n = 0;
    for (int c; f && (c = fgetc(f)) != EOF;) n += c == '\n';
    if (f) fclose(f);
    return n;
}

static inline void fresh(void) { /* forgets what earlier tests left */
    remove_tree(at("cache"));
    unlink(at("runs"));
}

static inline och_jit_request good_request(void) {
    return (och_jit_request){.kernel = "axpy",
                             .specialisation = "T=f32",
                             .source_id = "source-1",
                             .text = "the text\n",
                             .text_bytes = 9,
                             .file_name = "axpy.ok",
                             .target = "gfx1151",
                             .wave_size = 64,
                             .code_object_version = 6,
                             .symbol = "axpy",
                             .record = "rec\0ord",
                             .record_bytes = 7};
}

/* The log of warnings. */
static pthread_mutex_t said_lock = PTHREAD_MUTEX_INITIALIZER;
static och_strbuf said;
static int n_warnings;
static inline void listen(void *ctx, och_log_level level, const char *message) {
    (void)ctx;
    pthread_mutex_lock(&said_lock);
    och_strbuf_printf(&said, "%s\n", message);
    n_warnings += level >= OCH_LOG_WARN;
    pthread_mutex_unlock(&said_lock);
}
static inline void start_listening(void) {
    och_strbuf_deinit(&said);
    n_warnings = 0;
    och_log_set_sink(listen, NULL);
}
static inline void stop_listening(void) {
    och_log_set_sink(NULL, NULL);
    och_strbuf_deinit(&said);
}
#define assert_said(text)                                                                                              \
    do {                                                                                                               \
        if (!strstr(och_strbuf_str(&said), text)) fail_msg("expected a note of \"%s\" in:\n%s", text, och_strbuf_str(&said)); \
    } while (0)
#define assert_has(message, text)                                                                                      \
    do {                                                                                                               \
        if (!strstr(message, text)) fail_msg("expected \"%s\" in: %s", text, message);                                 \
    } while (0)
#define assert_ok(st, e)                                                                                               \
    do {                                                                                                               \
        och_status st_ = (st);                                                                                         \
        if (st_ != OCH_OK) fail_msg("%s: %s", och_status_name(st_), (e).message);                                      \
    } while (0)

#endif
