#include "base/thread.h"

#include "base/alloc.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* How long a member spins before it sleeps: longer than the gap between two ops and than sampling between two steps,
 * short enough that an idle engine costs nothing and that a busy machine gets its CPU back. */
#define SPIN_NS 200000
#define SPIN_BURST 64 /* loads between two looks at the clock */
#define LINE 64

/* Each word that is written from another CPU has a line of its own: the waiters of one are not disturbed by the other. */
struct och_pool {
    _Alignas(LINE) _Atomic uint32_t generation; /* counts runs; members wait for it to change */
    och_pool_fn fn;                             /* valid for the generation; on its line, since they are read together */
    void *arg;
    bool stopping;
    _Alignas(LINE) _Atomic uint32_t n_done; /* members other than the caller that finished a run, ever; wraps around */
    _Alignas(LINE) _Atomic uint32_t n_sleeping;
    _Atomic uint32_t caller_sleeps;
    _Alignas(LINE) _Atomic uint32_t barrier_arrived;
    _Atomic uint32_t barrier_phase;
    _Atomic uint32_t barrier_sleeping;
    _Alignas(LINE) pthread_mutex_t caller; /* one run at a time */
    int n;
    int n_started;
    bool spins;
    pthread_t *threads; /* n - 1, owned */
};

typedef struct starter {
    och_pool *pool;
    int index;
} starter;

static inline void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb"); /* yield is a no-op on most cores; isb waits long enough to leave the line alone */
#endif
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

double och_now_seconds(void) { return 1e-9 * (double)now_ns(); }

int och_cpu_count(void) {
    cpu_set_t sets[8]; /* the kernel refuses a mask smaller than its own; one set holds 1024 CPUs */
    memset(sets, 0, sizeof sets);
    if (sched_getaffinity(0, sizeof sets, sets) != 0) return 1;
    int n = CPU_COUNT_S(sizeof sets, sets);
    return n > 0 ? n : 1;
}

/* Returns at once if *word is not `seen`; may return early. */
static void futex_wait(_Atomic uint32_t *word, uint32_t seen) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}
static void futex_wake_all(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }

/* Spins until *word differs from `seen`; false when the time is up. */
static bool spin_while_equal(const och_pool *p, _Atomic uint32_t *word, uint32_t seen) {
    if (atomic_load_explicit(word, memory_order_acquire) != seen) return true;
    if (!p->spins) return false;
    for (uint64_t end = 0;;) {
        for (int i = 0; i < SPIN_BURST; i++) {
            relax();
            if (atomic_load_explicit(word, memory_order_acquire) != seen) return true;
        }
        uint64_t now = now_ns();
        if (!end) end = now + SPIN_NS;
        else if (now >= end) return false;
    }
}

/* Waits until *word differs from `seen`. The sleeper raises *sleepers before the kernel compares the word, and the waker
 * changes the word before it reads *sleepers (both sequentially consistent), so that no wake is lost. */
static void wait_while_equal(const och_pool *p, _Atomic uint32_t *word, uint32_t seen, _Atomic uint32_t *sleepers) {
    if (spin_while_equal(p, word, seen)) return;
    atomic_fetch_add(sleepers, 1);
    while (atomic_load(word) == seen) futex_wait(word, seen);
    atomic_fetch_sub(sleepers, 1);
}

/* n_done at the end of run number `generation`. A count that only grows saves the caller a write to a line that the
 * members own, in every run. */
static uint32_t all_done(const och_pool *p, uint32_t generation) { return generation * ((uint32_t)p->n - 1); }

static void *member_main(void *arg) {
    starter s = *(starter *)arg;
    och_free(arg);
    och_pool *p = s.pool;
    och_pool_member me = {p, s.index, p->n};
    for (uint32_t seen = 0;; seen++) {
        wait_while_equal(p, &p->generation, seen, &p->n_sleeping);
        if (p->stopping) return NULL;
        p->fn(p->arg, &me);
        bool last = atomic_fetch_add(&p->n_done, 1) + 1 == all_done(p, seen + 1);
        if (last && atomic_load(&p->caller_sleeps)) futex_wake_all(&p->n_done);
    }
}

/* Returns the number of the run. */
static uint32_t begin_run(och_pool *p) {
    uint32_t generation = atomic_fetch_add(&p->generation, 1) + 1;
    if (atomic_load(&p->n_sleeping)) futex_wake_all(&p->generation);
    return generation;
}

static och_status start_member(och_pool *p, int index, och_err *err) {
    starter *s = och_malloc(sizeof *s);
    if (!s) return och_err_nomem(err, sizeof *s, "a thread's start record");
    *s = (starter){p, index};
    /* Signals belong to the program's own threads, but for those that a thread's own instruction raises: blocked, they
     * would end the process without asking the program's handler. */
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&p->threads[index - 1], NULL, member_main, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!rc) {
        p->n_started++;
        return OCH_OK;
    }
    och_free(s);
    return och_err_set_native(err, OCH_NOMEM, rc, "could not start thread %d of %d: %s", index + 1, p->n, strerror(rc));
}

och_status och_pool_create(int n_threads, och_pool **out_pool, och_err *err) {
    *out_pool = NULL;
    if (n_threads < 0 || n_threads > OCH_POOL_MAX_THREADS)
        return och_err_set(err, OCH_RANGE, "thread count: expected 0 to %d, found %d", OCH_POOL_MAX_THREADS, n_threads);
    int n_cpus = och_cpu_count(), n = n_threads ? n_threads : n_cpus;
    och_pool *p = och_malloc_aligned(sizeof *p, LINE);
    if (!p) return och_err_nomem(err, sizeof *p, "a thread pool");
    memset(p, 0, sizeof *p);
    p->n = n;
    /* With more members than CPUs spinning only takes time from the member that is waited for. */
    p->spins = n <= n_cpus;
    pthread_mutex_init(&p->caller, NULL);
    och_status st = OCH_OK;
    p->threads = och_calloc((size_t)n, sizeof *p->threads);
    if (!p->threads) st = och_err_nomem(err, (uint64_t)n * sizeof *p->threads, "a thread pool");
    for (int i = 1; i < n && st == OCH_OK; i++) st = start_member(p, i, err);
    if (st != OCH_OK) {
        och_pool_destroy(p);
        return st;
    }
    *out_pool = p;
    return OCH_OK;
}

void och_pool_destroy(och_pool *p) {
    if (!p) return;
    pthread_mutex_lock(&p->caller);
    p->stopping = true;
    (void)begin_run(p);
    pthread_mutex_unlock(&p->caller);
    for (int i = 0; i < p->n_started; i++) pthread_join(p->threads[i], NULL);
    pthread_mutex_destroy(&p->caller);
    och_free(p->threads);
    och_free_aligned(p);
}

int och_pool_size(const och_pool *p) { return p->n; }

void och_pool_run(och_pool *p, och_pool_fn fn, void *arg) {
    pthread_mutex_lock(&p->caller);
    och_pool_member me = {p, 0, p->n};
    if (p->n == 1) {
        fn(arg, &me);
    } else {
        p->fn = fn;
        p->arg = arg;
        uint32_t all = all_done(p, begin_run(p));
        fn(arg, &me);
        for (uint32_t done; (done = atomic_load_explicit(&p->n_done, memory_order_acquire)) != all;)
            wait_while_equal(p, &p->n_done, done, &p->caller_sleeps);
    }
    pthread_mutex_unlock(&p->caller);
}

void och_pool_barrier(const och_pool_member *me) {
    och_pool *p = me->pool;
    if (me->n == 1) return;
    uint32_t phase = atomic_load_explicit(&p->barrier_phase, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&p->barrier_arrived, 1, memory_order_acq_rel) == (uint32_t)me->n - 1) {
        atomic_store_explicit(&p->barrier_arrived, 0, memory_order_relaxed);
        atomic_fetch_add(&p->barrier_phase, 1);
        if (atomic_load(&p->barrier_sleeping)) futex_wake_all(&p->barrier_phase);
        return;
    }
    wait_while_equal(p, &p->barrier_phase, phase, &p->barrier_sleeping);
}

typedef struct loop {
    och_pool_range_fn fn;
    void *arg;
    size_t n_items, chunk;
    _Atomic size_t next;
} loop;

static void run_static(void *arg, const och_pool_member *me) {
    const loop *l = arg;
    size_t begin, end;
    och_pool_range(me, l->n_items, l->chunk, &begin, &end);
    if (begin < end) l->fn(l->arg, begin, end, me);
}

static void run_dynamic(void *arg, const och_pool_member *me) {
    loop *l = arg;
    size_t n_chunks = l->n_items / l->chunk + (l->n_items % l->chunk != 0);
    for (size_t i; (i = atomic_fetch_add_explicit(&l->next, 1, memory_order_relaxed)) < n_chunks;) {
        size_t begin = i * l->chunk, left = l->n_items - begin;
        l->fn(l->arg, begin, begin + (left < l->chunk ? left : l->chunk), me);
    }
}

static void run_loop(och_pool *p, och_pool_fn how, loop *l) {
    if (!l->chunk) l->chunk = 1;
    if (l->n_items > l->chunk && p->n > 1) {
        och_pool_run(p, how, l);
        return;
    }
    och_pool_member alone = {p, 0, 1};
    how(l, &alone);
}

void och_pool_for(och_pool *p, size_t n_items, size_t chunk, och_pool_range_fn fn, void *arg) {
    run_loop(p, run_static, &(loop){.fn = fn, .arg = arg, .n_items = n_items, .chunk = chunk});
}

void och_pool_for_dynamic(och_pool *p, size_t n_items, size_t chunk, och_pool_range_fn fn, void *arg) {
    run_loop(p, run_dynamic, &(loop){.fn = fn, .arg = arg, .n_items = n_items, .chunk = chunk});
}
