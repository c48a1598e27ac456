/* The address space: allocation, look-up, faults of callers, quarantine, and look-ups while others allocate. */
#include "base/alloc.h"
#include "mem/space.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static sim_space *make(void) {
    och_err err = {0};
    sim_space *s = NULL;
    assert_int_equal(sim_space_create(&s, &err), OCH_OK);
    return s;
}
static uint64_t get(sim_space *s, uint64_t bytes, bool host) {
    och_err err = {0};
    uint64_t a = 0;
    assert_int_equal(sim_space_alloc(s, bytes, 256, SIM_MEM_DEVICE, 0, host, &a, &err), OCH_OK);
    return a;
}

static void test_alloc_find(void **state) {
    (void)state;
    sim_space *s = make();
    sim_range r;
    assert_false(sim_space_find(s, 4096, &r));
    assert_true(r.lo == 0 && r.hi == 0);
    uint64_t g = sim_space_generation(s), a = get(s, 1000, false), b = get(s, 5000, false);
    assert_true(sim_space_generation(s) > g);
    assert_true(a % 256 == 0 && b % 256 == 0 && a + 1000 < b);
    assert_true(sim_space_find(s, a, &r) && r.lo == a && r.hi == a + 1000 && r.serial == 1 && !r.freed);
    assert_true(sim_space_find(s, a + 999, &r) && r.lo == a);
    assert_false(sim_space_find(s, a + 1000, &r));
    assert_true(r.lo == a);
    assert_false(sim_space_find(s, b - 1, &r));
    assert_true(r.lo == b);
    /* Fresh pages are zero and hold what is written, through the view alone. */
    uint8_t *p = sim_space_host(s, a, 1000);
    assert_non_null(p);
    for (int i = 0; i < 1000; i++) assert_int_equal(p[i], 0);
    p[999] = 7;
    assert_int_equal(*(uint8_t *)sim_space_host(s, a + 999, 1), 7);
    assert_null(sim_space_host(s, a + 999, 2));
    assert_null(sim_space_host(s, a + 1000, 1));
    assert_null(sim_space_host(s, a, UINT64_MAX));
    sim_space_destroy(s);
}

static void test_host_visible(void **state) {
    (void)state;
    sim_space *s = make();
    uint64_t a = get(s, 8192, true), d = get(s, 8192, false);
    sim_range r;
    assert_true(sim_space_find(s, a, &r) && r.delta == 0);
    *(volatile int *)(uintptr_t)a = 42;
    assert_int_equal(*(int *)sim_space_host(s, a, 4), 42);
    /* A device address is no host address: dereferencing it ends the process. */
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile int *)(uintptr_t)d = 1;
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    sim_space_destroy(s);
}

static void test_errors(void **state) {
    (void)state;
    sim_space *s = make();
    och_err err = {0};
    uint64_t a = 1;
    assert_int_equal(sim_space_alloc(s, 0, 256, SIM_MEM_DEVICE, 0, false, &a, &err), OCH_INVALID);
    assert_int_equal(a, 0);
    och_err_clear(&err);
    assert_int_equal(sim_space_alloc(s, 16, 48, SIM_MEM_DEVICE, 0, false, &a, &err), OCH_INVALID);
    och_err_clear(&err);
    assert_int_equal(sim_space_alloc(s, UINT64_MAX, 256, SIM_MEM_DEVICE, 0, false, &a, &err), OCH_NOMEM);
    och_err_clear(&err);
    a = get(s, 4096, false);
    assert_int_equal(sim_space_free(s, a + 16, &err), OCH_NOTFOUND);
    assert_non_null(strstr(err.message, "16 bytes inside"));
    och_err_clear(&err);
    assert_int_equal(sim_space_free(s, a, &err), OCH_OK);
    assert_int_equal(sim_space_free(s, a, &err), OCH_NOTFOUND);
    assert_non_null(strstr(err.message, "freed already"));
    och_err_clear(&err);
    assert_int_equal(sim_space_free(s, 64, &err), OCH_NOTFOUND);
    sim_range r;
    assert_true(sim_space_find(s, a + 5, &r) && r.freed);
    assert_null(sim_space_host(s, a, 1));
    sim_space_destroy(s);
}

static void test_register(void **state) {
    (void)state;
    sim_space *s = make();
    och_err err = {0};
    static uint8_t mine[10000];
    sim_range r;
    assert_int_equal(sim_space_register(s, mine + 3, 5000, &err), OCH_OK);
    assert_true(sim_space_find(s, (uint64_t)(uintptr_t)mine + 3, &r) && r.delta == 0 && r.kind == SIM_MEM_PINNED &&
                r.device == -1);
    assert_int_equal(sim_space_register(s, mine + 5002, 10, &err), OCH_INVALID);
    och_err_clear(&err);
    assert_int_equal(sim_space_register(s, mine, 4, &err), OCH_INVALID);
    och_err_clear(&err);
    assert_int_equal(sim_space_free(s, (uint64_t)(uintptr_t)mine + 3, &err), OCH_OK);
    assert_true(sim_space_find(s, (uint64_t)(uintptr_t)mine + 100, &r) && r.freed);
    /* The host may use its memory again: the freed record gives way. */
    assert_int_equal(sim_space_register(s, mine, 8000, &err), OCH_OK);
    assert_true(sim_space_find(s, (uint64_t)(uintptr_t)mine + 100, &r) && !r.freed);
    assert_int_equal(sim_space_register(s, (void *)(uintptr_t)get(s, 64, true), 4, &err), OCH_INVALID);
    sim_space_destroy(s);
}

static void test_mark(void **state) {
    (void)state;
    sim_space *s = make();
    och_err err = {0};
    int tag;
    uint64_t a = get(s, 64, false);
    assert_int_equal(sim_space_mark(s, a, true, 9, &tag, &err), OCH_OK);
    sim_range r;
    assert_true(sim_space_find(s, a, &r) && r.read_only && r.flags == 9 && r.user == &tag);
    assert_int_equal(sim_space_mark(s, a + 1, true, 9, &tag, &err), OCH_NOTFOUND);
    sim_space_set_poison(s, true);
    assert_int_equal(*(uint8_t *)sim_space_host(s, get(s, 64, false), 1), 0xA5);
    sim_space_destroy(s);
}

/* Freed addresses come back only after many others were freed, and then as zeros. */
static void test_quarantine(void **state) {
    (void)state;
    sim_space *s = make();
    och_err err = {0};
    uint64_t first = get(s, 4096, false);
    memset(sim_space_host(s, first, 4096), 1, 4096);
    assert_int_equal(sim_space_free(s, first, &err), OCH_OK);
    int again = 0;
    for (int i = 1; i < 3000 && !again; i++) {
        uint64_t a = get(s, 4096, false);
        if (a == first) {
            again = i;
            assert_int_equal(*(uint8_t *)sim_space_host(s, a, 4096), 0);
        }
        assert_int_equal(sim_space_free(s, a, &err), OCH_OK);
    }
    assert_in_range(again, 1000, 1100);
    sim_space_destroy(s);
}

static bool count_ranges(void *arg, const sim_range *r) {
    assert_false(r->freed);
    return ++*(size_t *)arg < 1000000;
}
/* Ranges that come in no order, between ones that are there. */
static void test_any_order(void **state) {
    (void)state;
    enum { N = 3000 };
    sim_space *s = make();
    och_err err = {0};
    sim_range r;
    for (unsigned i = 0; i < N; i++) {
        uint64_t at = 0x100000 + (i * 1237 % N) * 0x1000ull;
        assert_int_equal(sim_space_register(s, (void *)(uintptr_t)at, 0x800, &err), OCH_OK);
    }
    for (unsigned i = 0; i < N; i++) {
        uint64_t at = 0x100000 + i * 0x1000ull;
        assert_true(sim_space_find(s, at + 0x7ff, &r) && r.lo == at);
        assert_false(sim_space_find(s, at + 0x900, &r));
        assert_true(r.lo == at);
        if (i + 1 < N) {
            assert_false(sim_space_find(s, at + 0xf00, &r));
            assert_true(r.lo == at + 0x1000);
        }
    }
    size_t n = 0;
    sim_space_each(s, count_ranges, &n);
    assert_int_equal(n, N);
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(sim_space_free(s, 0x100000 + (i * 701 % N) * 0x1000ull, &err), OCH_OK);
    n = 0;
    sim_space_each(s, count_ranges, &n);
    assert_int_equal(n, 0);
    sim_space_destroy(s);
}

static bool free_each(void *arg, const sim_range *r) {
    och_err err = {0};
    return sim_space_free(arg, r->lo, &err) == OCH_OK;
}

static void test_many(void **state) {
    (void)state;
    enum { N = 100000 };
    sim_space *s = make();
    static uint64_t a[N];
    for (int i = 0; i < N; i++) a[i] = get(s, 256 + (uint64_t)i % 777, i & 1);
    sim_range r;
    for (int i = 0; i < N; i++) assert_true(sim_space_find(s, a[i] + 255, &r) && r.lo == a[i]);
    for (int i = 0; i < N; i += 2) {
        och_err err = {0};
        assert_int_equal(sim_space_free(s, a[i], &err), OCH_OK);
    }
    for (int i = 1; i < N; i += 2) assert_true(sim_space_find(s, a[i], &r) && !r.freed);
    size_t n = 0;
    sim_space_each(s, count_ranges, &n);
    assert_int_equal(n, N / 2);
    sim_space_each(s, free_each, s);
    n = 0;
    sim_space_each(s, count_ranges, &n);
    assert_int_equal(n, 0);
    sim_space_destroy(s);
}

/* Every allocation that can fail does: nothing leaks, and the space works after. */
static void test_starved(void **state) {
    (void)state;
    int64_t live = och_alloc_live();
    for (uint64_t n = 1; n < 40; n++) {
        och_err err = {0};
        sim_space *s = NULL;
        och_alloc_fail_at(n);
        if (sim_space_create(&s, &err) != OCH_OK) { assert_null(s); continue; }
        uint64_t a = 0, b = 0;
        och_status st = sim_space_alloc(s, 100, 0, SIM_MEM_DEVICE, 0, false, &a, &err);
        if (st == OCH_OK) st = sim_space_alloc(s, 100, 0, SIM_MEM_DEVICE, 0, false, &b, &err);
        if (st == OCH_OK) st = sim_space_free(s, a, &err);
        if (st != OCH_OK) assert_int_equal(st, OCH_NOMEM);
        och_alloc_fail_at(0);
        sim_range r;
        if (b) assert_true(sim_space_find(s, b, &r) && r.lo == b);
        och_err_clear(&err);
        assert_int_equal(sim_space_alloc(s, 100, 0, SIM_MEM_DEVICE, 0, false, &a, &err), OCH_OK);
        sim_space_destroy(s);
    }
    och_alloc_fail_at(0);
    assert_int_equal(och_alloc_live(), live);
}

/* Readers look up ranges that stay while a writer allocates and frees others. */
typedef struct shared {
    sim_space *s;
    uint64_t keep[64];
    atomic_bool stop;
} shared;
static void *reader(void *arg) {
    shared *x = arg;
    size_t bad = 0;
    uint64_t last = 0;
    for (unsigned i = 0; !atomic_load(&x->stop); i++) {
        sim_range r;
        uint64_t a = x->keep[i % 64], g = sim_space_generation(x->s);
        bad += !sim_space_find(x->s, a + 10, &r) || r.lo != a || r.hi != a + 100 || r.freed || g < last;
        last = g;
    }
    return (void *)bad;
}
static void *writer(void *arg) {
    shared *x = arg;
    for (int round = 0; round < 150; round++) {
        uint64_t a[8];
        for (int k = 0; k < 8; k++) a[k] = get(x->s, 5000, k & 1);
        for (int k = 0; k < 8; k++) {
            och_err err = {0};
            assert_int_equal(sim_space_free(x->s, a[k], &err), OCH_OK);
        }
    }
    return NULL;
}
static void test_threads(void **state) {
    (void)state;
    shared x = {.s = make()};
    for (int i = 0; i < 64; i++) x.keep[i] = get(x.s, 100, i & 1);
    pthread_t r[3], w[2];
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&r[i], NULL, reader, &x), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&w[i], NULL, writer, &x), 0);
    for (int i = 0; i < 2; i++) pthread_join(w[i], NULL);
    atomic_store(&x.stop, true);
    for (int i = 0; i < 3; i++) {
        void *bad = NULL;
        pthread_join(r[i], &bad);
        assert_null(bad);
    }
    sim_space_destroy(x.s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc_find), cmocka_unit_test(test_host_visible), cmocka_unit_test(test_errors),
        cmocka_unit_test(test_register),   cmocka_unit_test(test_mark),         cmocka_unit_test(test_quarantine),
        cmocka_unit_test(test_many),       cmocka_unit_test(test_any_order),    cmocka_unit_test(test_starved),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
