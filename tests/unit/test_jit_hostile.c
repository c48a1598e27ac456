/* Compilers that misbehave, and a cache's folder in which something else stands: each ends with a message that names
 * it. */
#include "jit_support.h"

#include "base/spawn.h"
#include "base/thread.h"

#include <sys/types.h>

static och_jit *open_jit(const char *compiler, uint64_t timeout_ns) {
    och_jit *jit;
    och_err e = {0};
    assert_ok(och_jit_create(
                  &(och_jit_options){.compiler = compiler, .only_these_packs = true, .compile_timeout_ns = timeout_ns},
                  &jit, &e),
              e);
    return jit;
}

static void refused_within(uint64_t timeout_ns, const char *compiler, och_status status, const char *what) {
    och_jit *jit = open_jit(compiler, timeout_ns);
    och_jit_request q = good_request();
    och_jit_artifact *a;
    och_err e = {0};
    och_status st = och_jit_get(jit, &q, &a, NULL, &e);
    if (st != status || a)
        fail_msg("%s: expected %s, found %s: %s", what, och_status_name(status), och_status_name(st), e.message);
    assert_has(e.message, what);
    assert_has(e.message, compiler);
    och_jit_destroy(jit);
}

static void refused(const char *compiler, och_status status, const char *what) { refused_within(0, compiler, status, what); }

static void compilers_that_misbehave(void **s) {
    static const struct {
        const char *body;
        och_status status;
        const char *what;
    } rows[] = {
        {"cat > /dev/null", OCH_COMPILE, "reported no error and gave no code"},
        {"cat > /dev/null; echo 'a:1:1: error: no' >&2", OCH_COMPILE, "reported no error and gave no code"},
        {"cat > /dev/null; exit 3", OCH_COMPILE, "ended with status 3 and no message"},
        {"kill -SEGV $$", OCH_COMPILE, "signal 11"},
        {"echo hello", OCH_CORRUPT, "what clang 22.1.0"},
        {"cat > /dev/null; head -c 3000000 /dev/zero", OCH_CORRUPT, "what clang 22.1.0"},
        {"cat > /dev/null; printf '\\177ELF'; head -c 5000 /dev/zero", OCH_CORRUPT, "what clang 22.1.0"},
        {"cat > /dev/null; cat " CORPUS "v5-gfx1100.co", OCH_CORRUPT,
         "expected code for gfx1151, found code for gfx1100"},
    };
    (void)s;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fresh();
        refused(make_compiler("bad", "22.1.0", rows[i].body), rows[i].status, rows[i].what);
        struct stat sb; /* nothing of it is kept */
        assert_int_not_equal(stat(at("cache/v1/tmp"), &sb) == 0 ? rmdir(at("cache/v1/tmp")) : 0, -1);
    }
    fresh(); /* the wait is for this one alone: a loaded machine may take its time for the others */
    refused_within(2000000000, make_compiler("bad", "22.1.0", "exec sleep 1000"), OCH_UNAVAILABLE, "not done after 2.0 s");
}

static void versions_that_are_none(void **s) {
    static const char *const versions[] = {"-5", "", "99999999999999999999999999.1", "x", "10000"};
    (void)s;
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        refused(make_compiler("bad", versions[i], "exit 0"), OCH_UNAVAILABLE, "it does not say a version of clang");
}

/* A compiler that has much to say still compiles, and what it said is not kept without end. */
static void much_is_said(void **s) {
    (void)s;
    fresh();
    och_jit *jit = open_jit(make_compiler("loud", "22.1.0", "cat > /dev/null; yes 'a:1:1: warning: again' | head -c 20000000 >&2; cat " GOOD_OBJECT), 0);
    och_jit_request q = good_request();
    och_jit_artifact *a;
    och_err e = {0};
    assert_ok(och_jit_get(jit, &q, &a, NULL, &e), e);
    assert_true(strlen(a->log) > 1000000 && strlen(a->log) < 1100000);
    assert_has(a->log + strlen(a->log) - 40, "bytes more");
    och_jit_artifact_destroy(a);
    och_jit_destroy(jit);
}

/* A hipRTC of the form that there is, that answers what `how` says. */
static const char library[] =
    "#include <stddef.h>\n#include <string.h>\n"
    "int hiprtcCreateProgram(void **p, const char *t, const char *n, int a, const char **b, const char **c) { *p = &p; "
    "return HOW == 1 ? 7 : 0; }\n"
    "int hiprtcCompileProgram(void *p, int n, const char **o) { return HOW == 2 || HOW == 3 ? 6 : 0; }\n"
    "int hiprtcDestroyProgram(void **p) { return 0; }\n"
    "int hiprtcGetProgramLogSize(void *p, size_t *n) { *n = HOW == 4 ? (size_t)-1 : HOW == 5 ? (size_t)1 << 45 : 0; "
    "return 0; }\n"
    "int hiprtcGetProgramLog(void *p, char *l) { return 0; }\n"
    "const char *hiprtcGetErrorString(int e) { return HOW == 3 ? NULL : \"as it was made to\"; }\n"
    "int hiprtcVersion(int *a, int *b) { *a = 9, *b = 0; return 0; }\n"
    "int hiprtcGetCodeSize(void *p, size_t *n) { *n = HOW == 6 ? (size_t)-1 : HOW == 7 ? (size_t)1 << 45 : HOW == 8 ? "
    "0 : 10; return 0; }\n"
    "int hiprtcGetCode(void *p, char *c) { if (HOW < 6) memcpy(c, \"0123456789\", 10); return 0; }\n";

static void libraries_that_misbehave(void **s) {
    static const char *const expected[] = {"",
                                           "making the program: as it was made to",
                                           "as it was made to",
                                           "no reason given",
                                           "",
                                           "",
                                           "found 18446744073709551615",
                                           "found 35184372088832",
                                           ""};
    (void)s;
    och_strbuf path = {0};
    if (!och_spawn_find("cc", &path)) {
        och_strbuf_deinit(&path);
        skip();
    }
    for (int how = 1; how <= 8; how++) {
        char name[32], define[32], file[300];
        snprintf(name, sizeof name, "librtc%d.so", how);
        snprintf(define, sizeof define, "-DHOW=%d", how);
        snprintf(file, sizeof file, "%s", at(name));
        const char *argv[] = {path.data, "-shared", "-fPIC", "-w", "-x", "c", define, "-", "-o", file, NULL};
        och_spawn_result made;
        och_err e = {0};
        assert_ok(
            och_spawn_run(&(och_spawn){.argv = argv, .input = library, .input_bytes = strlen(library)}, &made, &e), e);
        assert_int_equal(made.exit_status, 0);
        och_spawn_result_deinit(&made);
        setenv("OCHRE_HIPRTC", file, 1);
        och_compilers *all;
        assert_ok(och_compilers_create("hiprtc", NULL, &all, &e), e);
        const och_candidate *c = och_compilers_at(all, 0);
        assert_string_equal(c->place, file);
        assert_int_equal(c->state, *expected[how] ? OCH_CANDIDATE_UNFIT : OCH_CANDIDATE_FOUND);
        if (*expected[how]) assert_has(c->detail, expected[how]);
        och_compilers_destroy(all);
    }
    unsetenv("OCHRE_HIPRTC");
    och_strbuf_deinit(&path);
}

/* ---- the folder ---- */

static const char *const files[] = {"code", "record", "log", "manifest", "committed"};

static void put_pipe(const char *path) {
    assert_true(unlink(path) == 0 && mkfifo(path, 0600) == 0);
}
static void put_link(const char *path) {
    assert_true(unlink(path) == 0 && symlink("/dev/zero", path) == 0);
}
static void put_folder(const char *path) {
    assert_true(unlink(path) == 0 && mkdir(path, 0700) == 0);
}
static void put_nothing(const char *path) {
    assert_int_equal(unlink(path), 0);
}
static void put_empty(const char *path) {
    assert_int_equal(truncate(path, 0), 0);
}
static void put_giant(const char *path) {
    assert_int_equal(truncate(path, (off_t)1 << 40), 0);
} /* a hole */

/* Something else in the place of each file of an entry: it is made again, and nobody waits for it or reads it to its
 * end. */
static void other_things_in_an_entry(void **s) {
    static void (*const puts_[])(const char *) = {put_pipe, put_link, put_folder, put_nothing, put_empty, put_giant};
    (void)s;
    och_err e = {0};
    for (size_t how = 0; how < sizeof puts_ / sizeof *puts_; how++)
        for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
            if (puts_[how] == put_empty && !strcmp(files[f], "record")) continue;
            fresh();
            och_jit *jit = open_jit(make_good_compiler(), 0);
            och_jit_request q = good_request();
            och_jit_artifact *a;
            char path[700];
            assert_ok(och_jit_get(jit, &q, &a, NULL, &e), e);
            snprintf(path, sizeof path, "%s/%s", a->place, files[f]);
            och_jit_artifact_destroy(a);
            puts_[how](path);
            start_listening();
            double began = och_now_seconds();
            och_cache *c;
            och_cache_totals totals;
            assert_ok(och_cache_open(NULL, 0, &c, &e), e);
            assert_ok(och_cache_list(c, NULL, NULL, &totals, &e), e);
            assert_int_equal(totals.corrupt, 1);
            och_cache_close(c);
            assert_ok(och_jit_get(jit, &q, &a, NULL, &e), e);
            if (a->origin != OCH_JIT_FROM_COMPILER) fail_msg("%zu %s: from %d", how, files[f], (int)a->origin);
            och_jit_artifact_destroy(a);
            assert_said("discarded and made again");
            assert_true(och_now_seconds() - began < 20);
            stop_listening();
            och_jit_destroy(jit);
        }
}

/* A lock's name that is a link does not make a file elsewhere; what cannot be locked is compiled and not kept. */
static void other_things_as_a_lock(void **s) {
    (void)s;
    och_err e = {0};
    for (int how = 0; how < 3; how++) {
        fresh();
        och_jit *jit = open_jit(make_good_compiler(), 0);
        och_jit_request q = good_request();
        och_jit_artifact *a;
        assert_ok(och_jit_get(jit, &q, &a, NULL, &e), e);
        och_strbuf lock = {0};
        och_strbuf_printf(&lock, "%s/locks%s", at("cache/v1"), strrchr(a->place, '/'));
        remove_tree(a->place);
        och_jit_artifact_destroy(a);
        if (how == 0) assert_int_equal(symlink(at("elsewhere"), lock.data), 0);
        if (how == 1) assert_int_equal(mkdir(lock.data, 0700), 0);
        if (how == 2) assert_int_equal(mkfifo(lock.data, 0600), 0);
        start_listening();
        assert_ok(och_jit_get(jit, &q, &a, NULL, &e), e);
        assert_int_equal(a->origin, OCH_JIT_FROM_COMPILER);
        if (how < 2) assert_said("compiled kernels are not kept");
        stop_listening();
        och_jit_artifact_destroy(a);
        struct stat sb;
        assert_int_not_equal(lstat(at("elsewhere"), &sb), 0);
        och_strbuf_deinit(&lock);
        och_jit_destroy(jit);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compilers_that_misbehave),
        cmocka_unit_test(versions_that_are_none),
        cmocka_unit_test(much_is_said),
        cmocka_unit_test(libraries_that_misbehave),
        cmocka_unit_test(other_things_in_an_entry),
        cmocka_unit_test(other_things_as_a_lock),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
