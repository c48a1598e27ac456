#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static och_pool *pool_of(int n) {
    och_pool *p;
    och_err e;
    och_err_clear(&e);
    if (och_pool_create(n, &p, &e) != OCH_OK) fail_msg("%s", e.message);
    assert_int_equal(och_pool_size(p), n);
    return p;
}

static void nap(long microseconds) { nanosleep(&(struct timespec){0, microseconds * 1000}, NULL); }

#define MAX 64
typedef struct record {
    int calls[MAX]; /* plain: each member writes its own */
    int n;
    _Atomic int inside, most_inside;
    long sum;
    long nap_us;
    int who_naps;
} record;

static void note(void *arg, const och_pool_member *me) {
    record *r = arg;
    r->calls[me->index]++;
    if (me->index == 0) r->n = me->n;
    if (r->nap_us && (r->who_naps < 0 || r->who_naps == me->index)) nap(r->nap_us);
}

/* More members than this machine has CPUs included. What the members wrote is read without atomics afterwards. */
static void every_member_runs_once(void **s) {
    (void)s;
    static const int sizes[] = {1, 2, 3, 5, 16};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        och_pool *p = pool_of(sizes[k]);
        record r = {0};
        for (int round = 1; round <= 40; round++) {
            och_pool_run(p, note, &r);
            for (int i = 0; i < MAX; i++) assert_int_equal(r.calls[i], i < sizes[k] ? round : 0);
            assert_int_equal(r.n, sizes[k]);
        }
        och_pool_destroy(p);
    }
}

typedef struct meeting {
    int value[MAX];
    _Atomic int wrong;
} meeting;

/* After a barrier each member sees what all wrote before it. */
static void meet(void *arg, const och_pool_member *me) {
    meeting *m = arg;
    for (int round = 1; round <= 20; round++) {
        m->value[me->index] = round;
        och_pool_barrier(me);
        for (int i = 0; i < me->n; i++)
            if (m->value[i] != round) m->wrong++;
        och_pool_barrier(me);
    }
}

static void barriers_separate_phases(void **s) {
    (void)s;
    for (int n = 1; n <= 6; n++) {
        och_pool *p = pool_of(n);
        meeting m = {{0}, 0};
        for (int i = 0; i < 3; i++) och_pool_run(p, meet, &m);
        assert_int_equal(m.wrong, 0);
        och_pool_destroy(p);
    }
}

/* Times the calling thread gave its CPU up on its own: it slept. A spinning thread never does. */
static long sleeps(void) {
    struct rusage u;
    getrusage(RUSAGE_THREAD, &u);
    return u.ru_nvcsw;
}

static void note_sleeps(void *arg, const och_pool_member *me) { ((long *)arg)[me->index] = sleeps(); }

/* A member that waits for the next run sleeps in the end, wakes, and costs nothing meanwhile; so does the caller that
 * waits for a slow member. Two members, so that they spin first. */
static void waits_end_in_sleep(void **s) {
    (void)s;
    for (int n = 2; n <= 3; n++) {
        och_pool *p = pool_of(n);
        long before[3], after[3];
        for (int i = 0; i < 5; i++) {
            int naps = 0; /* where others take the processors, a member spins no more than it is let */
            do {
                och_pool_run(p, note_sleeps, before);
                nap(100000);
                och_pool_run(p, note_sleeps, after);
            } while (after[1] == before[1] && ++naps < 50);
            assert_true(after[1] > before[1]);
        }
        record r = {0};
        r.nap_us = 100000;
        for (r.who_naps = 0; r.who_naps < n; r.who_naps++) {
            long caller = sleeps();
            och_pool_run(p, note, &r);
            assert_true(sleeps() > caller);
        }
        och_pool_destroy(p);
    }
}

static void count_inside(void *arg, const och_pool_member *me) {
    record *r = arg;
    int now = ++r->inside;
    if (now > r->most_inside) r->most_inside = now;
    if (me->index == 0) r->sum++; /* plain: runs of two callers never overlap */
    och_pool_barrier(me);
    r->inside--;
}

typedef struct caller {
    och_pool *pool;
    record *r;
} caller;

static void *call_often(void *arg) {
    caller *c = arg;
    for (int i = 0; i < 50; i++) och_pool_run(c->pool, count_inside, c->r);
    return NULL;
}

static void a_second_caller_waits(void **s) {
    (void)s;
    och_pool *p = pool_of(2);
    record r = {0};
    caller c = {p, &r};
    pthread_t t[3];
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&t[i], NULL, call_often, &c), 0);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    assert_int_equal(r.sum, 150);
    assert_true(r.most_inside <= 2);
    och_pool_destroy(p);
}

static void pools_come_and_go(void **s) {
    (void)s;
    int64_t live = och_alloc_live();
    for (int i = 0; i < 24; i++) {
        och_pool *p = pool_of(1 + i % 4);
        record r = {0};
        if (i % 3) och_pool_run(p, note, &r);
        if (i % 5 == 0) nap(400);
        och_pool_destroy(p);
    }
    och_pool_destroy(NULL);
    assert_int_equal(och_alloc_live(), live);
}

static void creation_fails_cleanly(void **s) {
    (void)s;
    och_pool *p;
    och_err e;
    int64_t live = och_alloc_live();
    for (uint64_t n = 1;; n++) {
        och_err_clear(&e);
        och_alloc_fail_at(n);
        och_status st = och_pool_create(4, &p, &e);
        bool reached = och_alloc_count() >= n;
        och_alloc_fail_at(0);
        if (!reached) {
            assert_int_equal(st, OCH_OK);
            assert_int_equal(n, 6); /* the pool, its list, three starters */
            och_pool_destroy(p);
            break;
        }
        assert_int_equal(st, OCH_NOMEM);
        assert_null(p);
        assert_int_equal(och_alloc_live(), live);
    }
    och_err_clear(&e);
    assert_int_equal(och_pool_create(-1, &p, &e), OCH_RANGE);
    assert_non_null(strstr(e.message, "-1"));
    och_err_clear(&e);
    assert_int_equal(och_pool_create(OCH_POOL_MAX_THREADS + 1, &p, &e), OCH_RANGE);
    och_err_clear(&e);
    assert_int_equal(och_pool_create(0, &p, &e), OCH_OK);
    assert_int_equal(och_pool_size(p), och_cpu_count());
    och_pool_destroy(p);
}

typedef struct loop_record {
    size_t n_items, chunk;
    _Atomic unsigned char seen[4096];
    size_t begin[MAX], end[MAX];
    _Atomic int calls, crooked;
} loop_record;

static void mark(void *arg, size_t begin, size_t end, const och_pool_member *me) {
    loop_record *l = arg;
    l->calls++;
    l->begin[me->index] = begin;
    l->end[me->index] = end;
    if (begin >= end || end > l->n_items || begin % l->chunk || (end % l->chunk && end != l->n_items)) l->crooked++;
    for (size_t i = begin; i < end; i++) l->seen[i]++;
}

static void loops_cover_each_item_once(void **s) {
    (void)s;
    static const size_t items[] = {0, 1, 2, 7, 64, 100, 1000, 4096}, chunks[] = {1, 3, 16, 64, 5000};
    for (int n = 1; n <= 5; n += 2) {
        och_pool *p = pool_of(n);
        for (size_t a = 0; a < sizeof items / sizeof items[0]; a++) {
            for (size_t b = 0; b < sizeof chunks / sizeof chunks[0]; b++) {
                for (int dynamic = 0; dynamic < 2; dynamic++) {
                    static loop_record l, again;
                    memset(&l, 0, sizeof l);
                    l.n_items = items[a];
                    l.chunk = chunks[b];
                    (dynamic ? och_pool_for_dynamic : och_pool_for)(p, l.n_items, l.chunk, mark, &l);
                    for (size_t i = 0; i < sizeof l.seen; i++) assert_int_equal(l.seen[i], i < l.n_items);
                    assert_int_equal(l.crooked, 0);
                    int n_chunks = (int)((l.n_items + l.chunk - 1) / l.chunk);
                    assert_int_equal(l.calls, dynamic ? n_chunks : n_chunks < n ? n_chunks : n);
                    if (dynamic) continue;
                    memset(&again, 0, sizeof again); /* static: the same members get the same ranges */
                    again.n_items = items[a];
                    again.chunk = chunks[b];
                    och_pool_for(p, again.n_items, again.chunk, mark, &again);
                    assert_memory_equal(l.begin, again.begin, sizeof l.begin);
                    assert_memory_equal(l.end, again.end, sizeof l.end);
                }
            }
        }
        och_pool_destroy(p);
    }
}

static void shares_differ_by_one_chunk_at_most(void **s) {
    (void)s;
    for (int n = 1; n < 9; n++) {
        for (size_t items = 0; items < 300; items += 7) {
            size_t chunk = 1 + items % 5, next = 0, least = SIZE_MAX, most = 0;
            for (int i = 0; i < n; i++) {
                size_t begin, end;
                och_pool_member me = {NULL, i, n};
                och_pool_range(&me, items, chunk, &begin, &end);
                assert_int_equal(begin, next);
                next = end;
                size_t share = (end - begin + chunk - 1) / chunk;
                if (share < least) least = share;
                if (share > most) most = share;
            }
            assert_int_equal(next, items);
            assert_true(most - least <= 1);
        }
    }
}

static void look_at_signals(void *arg, const och_pool_member *me) {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    ((int *)arg)[me->index] = sigismember(&mask, SIGINT);
}

static void signals_go_to_the_program(void **s) {
    (void)s;
    och_pool *p = pool_of(3);
    int blocked[3];
    och_pool_run(p, look_at_signals, blocked);
    assert_int_equal(blocked[0], 0);
    assert_int_equal(blocked[1], 1);
    assert_int_equal(blocked[2], 1);
    och_pool_destroy(p);
}

static void cpus_are_those_of_the_affinity_mask(void **s) {
    (void)s;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(och_cpu_count(), CPU_COUNT(&before));
    int first = 0;
    while (!CPU_ISSET(first, &before)) first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    int n = och_cpu_count();
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(n, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_member_runs_once),
        cmocka_unit_test(barriers_separate_phases),
        cmocka_unit_test(waits_end_in_sleep),
        cmocka_unit_test(a_second_caller_waits),
        cmocka_unit_test(pools_come_and_go),
        cmocka_unit_test(creation_fails_cleanly),
        cmocka_unit_test(loops_cover_each_item_once),
        cmocka_unit_test(shares_differ_by_one_chunk_at_most),
        cmocka_unit_test(signals_go_to_the_program),
        cmocka_unit_test(cpus_are_those_of_the_affinity_mask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
