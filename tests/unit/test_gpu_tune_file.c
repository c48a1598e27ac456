/* The files of what ochre tune measured (op/gpu/tune_file, tune_store, op/blas/store): several who write at once, more than is kept,
 * numbers that could not be read again, folders that nothing can be written to, and kernels of one's own that are not all of ours.
 * Each test runs in a process of its own. */
#include "unit/in_child.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/size.h"
#include "file/write.h"
#include "kl/builtin.h"
#include "op/blas/store.h"
#include "op/gpu/tune.h"
#include "op/gpu/tune_file.h"

static char cuts_path[300], blas_path[300];

static void own_folder(void) {
    snprintf(cache, sizeof cache, "/tmp/ochre-tuned-XXXXXX");
    CHECK(mkdtemp(cache) && och_env_set("OCHRE_CACHE_DIR", cache));
    snprintf(cuts_path, sizeof cuts_path, "%s/cuts.json", cache);
    snprintf(blas_path, sizeof blas_path, "%s/blas.json", cache);
}
/* A test with a folder of its own, in which nothing is left but the files themselves. */
#define CASE(name)                                                                                                             \
    static void name##_case(void);                                                                                             \
    TEST(name) {                                                                                                               \
        own_folder();                                                                                                          \
        name##_case();                                                                                                         \
        unlink(cuts_path), unlink(blas_path);                                                                                  \
        CHECK(rmdir(cache) == 0);                                                                                              \
    }                                                                                                                          \
    static void name##_case(void)

static const och_dev_info info = {.name = "a board", .arch = "gfx1151", .runtime = "HIP 7.0"};
static const och_blas_key key = {"a board", "gfx1151", "HIP 7.0", "hipBLASLt 1.0.0", "0.1.0"};

static och_gpu_cut_time cut_of(int64_t m) {
    return (och_gpu_cut_time){{OCH_GPU_CUT_VEC, OCH_DTYPE_Q4_K, OCH_DTYPE_Q4_K, m, 2048}, "ROWS=2,", 10.5, 8.25};
}
static och_status put_cut(const och_dev_info *d, och_gpu_cut_time t) {
    return och_gpu_tune_put(d, &(och_gpu_cut_times){&t, 1, 1}, &err);
}
static och_status put_time(och_blas_time t) { return och_blas_store_put(&key, &(och_blas_times){&t, 1, 1}, &err); }
static size_t n_cuts(void) {
    och_gpu_cut_records all;
    OK(och_gpu_tune_read(&all, &err));
    size_t n = all.n;
    och_gpu_cut_records_deinit(&all);
    return n;
}
static size_t n_times(void) {
    och_blas_records all;
    OK(och_blas_store_read(&all, &err));
    size_t n = all.n;
    och_blas_records_deinit(&all);
    return n;
}

/* ---- at once ---- */

enum { WRITERS = 6, PUTS = 12 };

static void puts_many(int writer) {
    for (int i = 0; i < PUTS; i++) {
        och_err own = {0};
        och_gpu_cut_time cut = cut_of(1 + writer * PUTS + i);
        och_blas_time time = {OCH_DTYPE_F16, 1 + writer * PUTS + i, 64, 16, 1, 2};
        if (och_gpu_tune_put(&info, &(och_gpu_cut_times){&cut, 1, 1}, &own) != OCH_OK ||
            och_blas_store_put(&key, &(och_blas_times){&time, 1, 1}, &own) != OCH_OK)
            fprintf(stderr, "%s\n", own.message), _exit(1);
    }
}
static void *puts_many_thread(void *writer) {
    puts_many((int)(intptr_t)writer);
    return NULL;
}

CASE(processes_at_once) {
    pid_t children[WRITERS];
    int status;
    CHECK(!rmdir(cache)); /* who is first makes it */
    for (int i = 0; i < WRITERS; i++) {
        children[i] = fork();
        CHECK(children[i] >= 0);
        if (!children[i]) puts_many(i), _exit(0);
    }
    for (int i = 0; i < WRITERS; i++) CHECK(waitpid(children[i], &status, 0) == children[i] && WIFEXITED(status) && !WEXITSTATUS(status));
    CHECK(n_cuts() == WRITERS * PUTS && n_times() == WRITERS * PUTS);
}

CASE(threads_at_once) {
    pthread_t threads[WRITERS];
    for (int i = 0; i < WRITERS; i++) CHECK(!pthread_create(&threads[i], NULL, puts_many_thread, (void *)(intptr_t)i));
    for (int i = 0; i < WRITERS; i++) CHECK(!pthread_join(threads[i], NULL));
    CHECK(n_cuts() == WRITERS * PUTS && n_times() == WRITERS * PUTS);
}

/* Of one that was ended while it wrote nothing stays, and of others all does. */
CASE(left_behind) {
    static const char *const names[] = {"cuts.json.tmp-1-0", "cuts.json.tmp-99999-7", "blas.json.tmp-1-0", "cuts.json.old", "tuts.json.tmp-1-0"};
    char path[400];
    bool removed;
    for (int way = 0; way < 2; way++) {
        for (size_t i = 0; i < OCH_COUNT(names); i++) {
            snprintf(path, sizeof path, "%s/%s", cache, names[i]);
            OK(och_write_file(path, "{", 1, &err));
        }
        if (!way) {
            OK(put_cut(&info, cut_of(1)));
        } else {
            OK(och_gpu_tune_clear(&removed, &err));
            CHECK(removed);
        }
        for (size_t i = 0; i < OCH_COUNT(names); i++) {
            snprintf(path, sizeof path, "%s/%s", cache, names[i]);
            CHECK((access(path, F_OK) == 0) == (i >= 2));
        }
    }
    OK(och_blas_store_clear(&removed, &err));
    CHECK(!removed);
    for (size_t i = 2; i < OCH_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", cache, names[i]);
        CHECK((unlink(path) == 0) == (i > 2));
    }
}

/* ---- more than is kept ---- */

/* Texts as long as they may be, of characters that take most bytes in a file. */
CASE(a_great_many) {
    enum { N = OCH_GPU_FILE_MOST + 100 };
    och_dev_info wide = info;
    och_blas_key wide_key = key;
    bool removed;
    memset(wide.name, 1, sizeof wide.name - 1), wide.name[sizeof wide.name - 1] = 0;
    memset(wide.arch, 2, sizeof wide.arch - 1), wide.arch[sizeof wide.arch - 1] = 0;
    memset(wide.runtime, 3, sizeof wide.runtime - 1), wide.runtime[sizeof wide.runtime - 1] = 0;
    memcpy(wide_key.device, wide.name, sizeof wide.name);
    memcpy(wide_key.arch, wide.arch, sizeof wide.arch);
    memcpy(wide_key.driver, wide.runtime, sizeof wide.runtime);
    memset(wide_key.library, 4, sizeof wide_key.library - 1);
    och_gpu_cut_times times = {0}, got;
    och_blas_times blas = {0};
    size_t stale;
    for (int i = 0; i < N; i++) {
        och_gpu_cut_time t = cut_of(1 + i);
        och_blas_time b = {OCH_DTYPE_F16, 1 + i, 64, 16, 1, 2};
        OK(och_gpu_cut_times_add(&times, &t, &err));
        OK(och_blas_times_add(&blas, &b, &err));
    }
    OK(och_gpu_tune_put(&wide, &times, &err));
    OK(och_blas_store_put(&wide_key, &blas, &err));
    CHECK(n_cuts() == OCH_GPU_FILE_MOST && n_times() == OCH_GPU_FILE_MOST);
    /* of another board: the oldest make room */
    OK(put_cut(&info, cut_of(7)));
    OK(put_time((och_blas_time){OCH_DTYPE_F16, 7, 64, 16, 1, 2}));
    CHECK(n_cuts() == OCH_GPU_FILE_MOST && n_times() == OCH_GPU_FILE_MOST);
    OK(och_gpu_tune_find(&info, &got, &stale, &err));
    CHECK(got.n == 1 && got.at[0].shape.m == 7);
    och_gpu_cut_times_deinit(&got);
    OK(och_gpu_tune_find(&wide, &got, &stale, &err));
    CHECK(got.n == OCH_GPU_FILE_MOST - 1 && got.at[0].shape.m == N - OCH_GPU_FILE_MOST + 2 && got.at[got.n - 1].shape.m == N);
    och_gpu_cut_times_deinit(&got);
    och_gpu_cut_times_deinit(&times);
    och_blas_times_deinit(&blas);
    OK(och_gpu_tune_clear(&removed, &err));
    CHECK(removed);
}

/* ---- what is not written ---- */

CASE(numbers_that_are_none) {
    static const double bad[] = {0.0, -1.0, NAN, INFINITY, 1e13};
    static const int64_t bad_sizes[] = {0, -1, (int64_t)INT32_MAX + 1};
    OK(put_cut(&info, cut_of(1)));
    OK(put_time((och_blas_time){OCH_DTYPE_F16, 1, 64, 16, 1, 2}));
    for (size_t i = 0; i < OCH_COUNT(bad); i++) {
        och_gpu_cut_time t = cut_of(2);
        t.present_us = bad[i];
        FAILS(OCH_INVALID, put_cut(&info, t));
        t = cut_of(2), t.cut_us = bad[i];
        FAILS(OCH_INVALID, put_cut(&info, t));
        FAILS(OCH_INVALID, put_time((och_blas_time){OCH_DTYPE_F16, 2, 64, 16, bad[i], 2}));
        FAILS(OCH_INVALID, put_time((och_blas_time){OCH_DTYPE_F16, 2, 64, 16, 1, bad[i]}));
    }
    for (size_t i = 0; i < OCH_COUNT(bad_sizes); i++) {
        FAILS(OCH_INVALID, put_cut(&info, cut_of(bad_sizes[i])));
        FAILS(OCH_INVALID, put_time((och_blas_time){OCH_DTYPE_F16, 2, 64, bad_sizes[i], 1, 2}));
    }
    CHECK(n_cuts() == 1 && n_times() == 1);
    /* what is small is not nothing */
    och_gpu_cut_time t = cut_of(3);
    t.present_us = 0.0004, t.cut_us = 1e-9;
    OK(put_cut(&info, t));
    OK(put_time((och_blas_time){OCH_DTYPE_F16, 3, 64, 16, 0.0004, 1e-9}));
    CHECK(n_cuts() == 2 && n_times() == 2);
}

/* ---- where nothing can be written ---- */

static void no_space(void) {
    const struct rlimit limit = {1024, 1024};
    CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR && !setrlimit(RLIMIT_FSIZE, &limit));
    FAILS(OCH_IO, och_gpu_tune_try_put(&err));
    FAILS(OCH_IO, och_blas_store_try_put(&err));
    _exit(0);
}

CASE(nowhere_to_write) {
    char path[400];
    int status;
    OK(put_cut(&info, cut_of(1)));
    OK(och_gpu_tune_try_put(&err));
    OK(och_blas_store_try_put(&err));
    CHECK(n_cuts() == 1 && access(blas_path, F_OK) != 0); /* which writes nothing */
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) no_space();
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
    /* something else has the name */
    CHECK(!mkdir(blas_path, 0777));
    FAILS(OCH_INVALID, och_blas_store_try_put(&err));
    FAILS(OCH_INVALID, put_time((och_blas_time){OCH_DTYPE_F16, 1, 64, 16, 1, 2}));
    CHECK(!rmdir(blas_path));
    CHECK(!unlink(cuts_path) && !mkdir(cuts_path, 0777));
    FAILS(OCH_INVALID, och_gpu_tune_try_put(&err));
    FAILS(OCH_INVALID, put_cut(&info, cut_of(2)));
    CHECK(!rmdir(cuts_path));
    /* a file where a folder would be */
    OK(och_write_file(cuts_path, "", 0, &err));
    snprintf(path, sizeof path, "%s/below", cuts_path);
    CHECK(och_env_set("OCHRE_CACHE_DIR", path));
    FAILS(OCH_IO, och_gpu_tune_try_put(&err));
    FAILS(OCH_IO, och_blas_store_try_put(&err));
    CHECK(och_env_set("OCHRE_CACHE_DIR", cache));
}

/* ---- kernels of one's own ---- */

static void without_ours(void) {
    och_gpu_cut_times got;
    size_t stale;
    OK(och_gpu_tune_find(&info, &got, &stale, &err));
    CHECK(!got.n && stale == 1);
    och_dev_info other = info;
    snprintf(other.name, sizeof other.name, "another");
    FAILS(OCH_INTERNAL, put_cut(&other, cut_of(1))); /* which nothing can have measured */
    CHECK(n_cuts() == 1);
    _exit(0);
}

/* A linear.ok that has no matvec voids what was measured of ours; the rest of the file is as good. */
CASE(a_file_without_the_kernel) {
    och_kl_builtins *b;
    const char *text;
    char dir[400], path[420], own[2048];
    size_t n;
    int status;
    pid_t child = fork(); /* a process reads its kernels once */
    CHECK(child >= 0);
    if (!child) {
        OK(put_cut(&info, cut_of(1)));
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
    snprintf(dir, sizeof dir, "%s.kernels", cache);
    snprintf(path, sizeof path, "%s/linear.ok", dir);
    OK(och_kl_builtins_open(&b, &err));
    CHECK(och_kl_builtins_find(b, "digest.ok", &text, &n));
    CHECK(!mkdir(dir, 0777));
    const char *name = strstr(text, "kernel digest("); /* whose name a file of ours has */
    CHECK(name && n < sizeof own - 8);
    int size = snprintf(own, sizeof own, "%.*skernel of_mine(%s", (int)(name - text), text, name + strlen("kernel digest("));
    OK(och_write_file(path, own, (size_t)size, &err));
    och_kl_builtins_close(b);
    CHECK(och_env_set("OCHRE_KERNELS_DIR", dir));
    child = fork();
    CHECK(child >= 0);
    if (!child) without_ours();
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
    CHECK(!unlink(path) && !rmdir(dir));
}

int main(void) {
    (void)och_env_set("OCHRE_KERNELS_DIR", NULL);
    const struct CMUnitTest tests[] = {cmocka_unit_test(processes_at_once),     cmocka_unit_test(threads_at_once),
                                       cmocka_unit_test(left_behind),           cmocka_unit_test(a_great_many),
                                       cmocka_unit_test(numbers_that_are_none), cmocka_unit_test(nowhere_to_write),
                                       cmocka_unit_test(a_file_without_the_kernel)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
