/* Programs run by argv: what reaches them, what comes back, and how they end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/spawn.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static och_spawn_result result;
static och_err error;

static och_status run_with(och_spawn s, const char *const *argv) {
    s.argv = argv;
    och_spawn_result_deinit(&result);
    och_err_clear(&error);
    och_status st = och_spawn_run(&s, &result, &error);
    assert_int_equal(st, error.status);
    return st;
}
#define RUN(options, ...) run_with((och_spawn)options, (const char *const[]){__VA_ARGS__, NULL})
#define NONE {0}
#define O(...) {__VA_ARGS__}

static int setup(void **s) {
    (void)s;
    och_spawn_result_deinit(&result);
    return 0;
}

static void outputs_and_status(void **s) {
    (void)s;
    assert_int_equal(RUN(NONE, "/bin/sh", "-c", "echo out; echo err >&2; exit 7"), OCH_OK);
    assert_string_equal(och_strbuf_str(&result.out), "out\n");
    assert_string_equal(och_strbuf_str(&result.err), "err\n");
    assert_int_equal(result.exit_status, 7);
    assert_int_equal(result.signal, 0);
    assert_int_equal(RUN(NONE, "/bin/sh", "-c", "kill -9 $$"), OCH_OK);
    assert_int_equal(result.signal, SIGKILL);
    assert_int_equal(result.exit_status, -1);
}

static void arguments_are_not_interpreted(void **s) {
    (void)s;
    assert_int_equal(RUN(NONE, "/usr/bin/printf", "%s|%s", "$HOME; echo no `id` 'x\" *", ""), OCH_OK);
    assert_string_equal(och_strbuf_str(&result.out), "$HOME; echo no `id` 'x\" *|");
}

/* More than any pipe holds, both ways at once. */
static void a_megabyte_both_ways(void **s) {
    (void)s;
    size_t n = 3 << 20;
    char *text = malloc(n);
    for (size_t i = 0; i < n; i++) text[i] = (char)(i * 2654435761u >> 7);
    assert_int_equal(RUN(O(.input = text, .input_bytes = n), "/bin/cat"), OCH_OK);
    assert_int_equal(result.out.size, n);
    assert_memory_equal(result.out.data, text, n);
    assert_false(result.truncated);
    assert_int_equal(RUN(O(.input = text, .input_bytes = n, .output_limit_bytes = 1000), "/bin/cat"), OCH_OK);
    assert_int_equal(result.out.size, 1000);
    assert_true(result.truncated);
    /* one that does not read: neither an error nor a SIGPIPE */
    assert_int_equal(RUN(O(.input = text, .input_bytes = n), "/bin/true"), OCH_OK);
    assert_int_equal(result.exit_status, 0);
    sigset_t pending;
    sigpending(&pending);
    assert_false(sigismember(&pending, SIGPIPE));
    free(text);
}

static void what_cannot_start(void **s) {
    (void)s;
    assert_int_equal(RUN(NONE, "/nonexistent/program"), OCH_NOTFOUND);
    assert_non_null(strstr(error.message, "/nonexistent/program"));
    assert_int_equal(RUN(NONE, "/etc/passwd"), OCH_IO);
    assert_int_equal(error.native_code, EACCES);
}

static void ends_in_time_with_its_children(void **s) {
    (void)s;
    uint64_t timeout_ns = 300000000;
    char said[16];
    double began;
    /* a loaded machine may not come to the echo in that time: then longer */
    do {
        began = och_now_seconds();
        assert_int_equal(RUN(O(.timeout_ns = timeout_ns), "/bin/sh", "-c", "sleep 1000 & echo $!; wait"), OCH_UNAVAILABLE);
        assert_true(och_now_seconds() - began < 100);
        assert_true(result.timed_out);
        snprintf(said, sizeof said, "%.1f s", (double)timeout_ns / 1e9);
        assert_non_null(strstr(error.message, said));
        timeout_ns *= 4;
    } while (!result.out.size && timeout_ns < 30000000000);
    pid_t grandchild = atoi(och_strbuf_str(&result.out));
    assert_true(grandchild > 1);
    /* it may be a zombie of init's for a moment */
    bool gone = false;
    for (int i = 0; i < 3000 && !gone; i++) {
        char path[64], line[256] = "";
        snprintf(path, sizeof path, "/proc/%d/stat", (int)grandchild);
        FILE *f = fopen(path, "r");
        gone = !f || !fgets(line, sizeof line, f) || strstr(line, ") Z ");
        if (f) fclose(f);
        if (!gone) usleep(10000);
    }
    assert_true(gone);
    /* one that will not end when asked */
    timeout_ns = 200000000;
    do {
        assert_int_equal(RUN(O(.timeout_ns = timeout_ns), "/bin/sh", "-c", "trap '' TERM; echo on; while :; do sleep 0.05; done"),
                         OCH_UNAVAILABLE);
        timeout_ns *= 4;
    } while (!result.out.size && timeout_ns < 30000000000);
    assert_string_equal(och_strbuf_str(&result.out), "on\n");
    assert_int_equal(result.signal, SIGKILL);
}

static atomic_bool flag;
static void *raise_flag(void *arg) {
    usleep(*(useconds_t *)arg);
    atomic_store(&flag, true);
    return NULL;
}

static void cancelled(void **s) {
    (void)s;
    useconds_t after = 200000;
    do {
        atomic_store(&flag, false);
        pthread_t t;
        pthread_create(&t, NULL, raise_flag, &after);
        double began = och_now_seconds();
        assert_int_equal(RUN(O(.cancel = &flag), "/bin/sh", "-c", "echo begun; exec sleep 1000"), OCH_CANCELLED);
        assert_true(och_now_seconds() - began < 100);
        pthread_join(t, NULL);
        after *= 4;
    } while (!result.out.size && after < 30000000);
    assert_string_equal(och_strbuf_str(&result.out), "begun\n");
    assert_int_equal(RUN(O(.cancel = &flag), "/bin/true"), OCH_CANCELLED);
}

static void nothing_of_ours_reaches_it(void **s) {
    (void)s;
    int leak = open("/dev/null", O_RDONLY); /* without close-on-exec, as others open theirs */
    assert_true(leak > 2);
    assert_true(fcntl(leak, F_DUPFD, 77) == 77);
    sigset_t block, before;
    sigemptyset(&block);
    sigaddset(&block, SIGTERM);
    sigaddset(&block, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &block, &before);
    void (*old)(int) = signal(SIGINT, SIG_IGN);
    /* The shell reads about itself: while it starts a program it blocks signals, and such a program may see that. */
    assert_int_equal(RUN(NONE, "/bin/sh", "-c", "ls /proc/$$/fd | tr '\\n' ' '; while read -r name value; do case $name in "
                                                "SigBlk:|SigIgn:) echo $name $value ;; esac; done < /proc/$$/status"), OCH_OK);
    signal(SIGINT, old);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(leak);
    close(77);
    const char *out = och_strbuf_str(&result.out);
    if (strncmp(out, "0 1 2 ", 6) || strstr(out, "77")) fail_msg("descriptors: %s", out);
    unsigned long long blocked = 1, ignored = 1;
    assert_int_equal(sscanf(strstr(out, "SigBlk"), "SigBlk: %llx SigIgn: %llx", &blocked, &ignored), 2);
    assert_int_equal(blocked, 0);
    assert_int_equal(ignored & (1u << (SIGINT - 1)), 0);
}

static void the_environment(void **s) {
    (void)s;
    setenv("OCHRE_TEST_KEPT", "kept", 1);
    setenv("OCHRE_TEST_GONE", "gone", 1);
    const char *const unset[] = {"OCHRE_TEST_GONE", "OCHRE_TEST_KEP", NULL};
    assert_int_equal(RUN(O(.unset = unset), "/bin/sh", "-c", "echo $OCHRE_TEST_KEPT,$OCHRE_TEST_GONE"), OCH_OK);
    assert_string_equal(och_strbuf_str(&result.out), "kept,\n");
    assert_int_equal(RUN(NONE, "/bin/sh", "-c", "echo $OCHRE_TEST_KEPT,$OCHRE_TEST_GONE"), OCH_OK);
    assert_string_equal(och_strbuf_str(&result.out), "kept,gone\n");
    const char *const set[] = {"OCHRE_TEST_KEPT=other", "OCHRE_TEST_NEW=new", NULL};
    assert_int_equal(RUN(O(.set = set), "/bin/sh", "-c", "echo $OCHRE_TEST_KEPT,$OCHRE_TEST_GONE,$OCHRE_TEST_NEW"), OCH_OK);
    assert_string_equal(och_strbuf_str(&result.out), "other,gone,new\n");
    assert_int_equal(RUN(O(.unset = unset, .set = set), "/bin/sh", "-c", "env | grep -c ^OCHRE_TEST_; echo $OCHRE_TEST_KEPT"), OCH_OK);
    assert_string_equal(och_strbuf_str(&result.out), "2\nother\n");
}

/* What it started and left behind keeps the outputs open; nobody waits for that. */
static void left_behind(void **s) {
    (void)s;
    double began = och_now_seconds();
    assert_int_equal(RUN(NONE, "/bin/sh", "-c", "sleep 60 & echo hi"), OCH_OK);
    assert_true(och_now_seconds() - began < 40);
    assert_string_equal(och_strbuf_str(&result.out), "hi\n");
    assert_int_equal(result.exit_status, 0);
}

/* In a process without standard descriptors a pipe gets their numbers. */
static void without_standard_descriptors(void **s) {
    (void)s;
    pid_t pid = fork();
    if (!pid) {
        close(0), close(1), close(2);
        const char *argv[] = {"/bin/sh", "-c", "cat; echo err >&2; exit 3", NULL};
        och_spawn_result r;
        bool ok = och_spawn_run(&(och_spawn){.argv = argv, .input = "text", .input_bytes = 4}, &r, NULL) == OCH_OK &&
                  r.exit_status == 3 && !strcmp(och_strbuf_str(&r.out), "text") && !strcmp(och_strbuf_str(&r.err), "err\n");
        _exit(ok ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void a_status_that_others_took(void **s) {
    (void)s;
    void (*old)(int) = signal(SIGCHLD, SIG_IGN);
    och_status st = RUN(NONE, "/bin/true");
    signal(SIGCHLD, old);
    assert_int_equal(st, OCH_IO);
    assert_non_null(strstr(error.message, "SIGCHLD"));
}

static void finding(void **s) {
    (void)s;
    char dir[] = "/tmp/ochre-test-XXXXXX", path[128], list[256];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/ochre-not-a-program", dir);
    FILE *f = fopen(path, "w");
    fclose(f);
    snprintf(list, sizeof list, "/nonexistent::%s:/bin:/usr/bin", dir);
    char *old = strdup(getenv("PATH"));
    setenv("PATH", list, 1);
    och_strbuf b = {0};
    assert_true(och_spawn_find("sh", &b));
    assert_string_equal(b.data, "/bin/sh");
    assert_false(och_spawn_find("ochre-not-a-program", &b)); /* it may not be executed */
    chmod(path, 0755);
    assert_true(och_spawn_find("ochre-not-a-program", &b));
    assert_string_equal(b.data, path);
    assert_true(och_spawn_find(path, &b));
    assert_false(och_spawn_find(dir, &b));
    assert_false(och_spawn_find("", &b));
    assert_false(och_spawn_find("ochre-none", &b));
    setenv("PATH", old, 1);
    free(old);
    unlink(path);
    rmdir(dir);
    och_strbuf_deinit(&b);
}

static void memory_refused(void **s) {
    (void)s;
    int64_t live = och_alloc_live();
    for (uint64_t n = 1; n < 8; n++) {
        och_alloc_fail_at(n);
        och_status st = RUN(NONE, "/bin/sh", "-c", "head -c 100000 /dev/zero");
        och_alloc_fail_at(0);
        assert_true(st == OCH_OK || st == OCH_NOMEM);
        assert_true(n > 1 || st == OCH_NOMEM);
        och_spawn_result_deinit(&result);
        assert_int_equal(och_alloc_live(), live);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(outputs_and_status, setup),
        cmocka_unit_test(arguments_are_not_interpreted),
        cmocka_unit_test(a_megabyte_both_ways),
        cmocka_unit_test(what_cannot_start),
        cmocka_unit_test(ends_in_time_with_its_children),
        cmocka_unit_test(cancelled),
        cmocka_unit_test(nothing_of_ours_reaches_it),
        cmocka_unit_test(the_environment),
        cmocka_unit_test(left_behind),
        cmocka_unit_test(without_standard_descriptors),
        cmocka_unit_test(a_status_that_others_took),
        cmocka_unit_test(finding),
        cmocka_unit_test_setup(memory_refused, setup),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    och_spawn_result_deinit(&result);
    return rc;
}
