#include "base/thread.h"

#include "base/alloc.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

/* About 50 microseconds: longer than the gap between two ops of a decode step, shorter than a scheduler tick. */
#define SPIN_LIMIT 20000

struct och_pool {
    int n;
    pthread_t *threads; /* n - 1, owned */
    int n_started;
    pthread_mutex_t caller; /* one run at a time */
    pthread_mutex_t lock;   /* guards sleeping */
    pthread_cond_t wake;
    _Atomic uint32_t generation; /* a run began */
    _Atomic int n_sleeping;
    _Atomic int n_running; /* members other than the caller still in this run */
    _Atomic int barrier_arrived;
    _Atomic uint32_t barrier_phase;
    _Atomic bool stopping;
    int spin_limit;
    och_pool_fn fn;
    void *arg;
};

typedef struct starter {
    och_pool *pool;
    int index;
} starter;

static inline void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

double och_now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int och_cpu_count(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    int n = CPU_COUNT(&set);
    return n > 0 ? n : 1;
}

static void wait_for_run(och_pool *p, uint32_t seen) {
    for (int i = 0; i < p->spin_limit; i++) {
        if (atomic_load_explicit(&p->generation, memory_order_acquire) != seen) return;
        relax();
    }
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->n_sleeping, 1);
    while (atomic_load(&p->generation) == seen) pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->n_sleeping, 1);
    pthread_mutex_unlock(&p->lock);
}

static void *member_main(void *arg) {
    starter s = *(starter *)arg;
    och_free(arg);
    och_pool *p = s.pool;
    och_pool_member me = {p, s.index, p->n};
    for (uint32_t seen = 0;;) {
        wait_for_run(p, seen);
        seen = atomic_load_explicit(&p->generation, memory_order_acquire);
        if (atomic_load(&p->stopping)) return NULL;
        p->fn(p->arg, &me);
        atomic_fetch_sub_explicit(&p->n_running, 1, memory_order_release);
    }
}

static void begin_run(och_pool *p) {
    atomic_fetch_add(&p->generation, 1);
    if (atomic_load(&p->n_sleeping) > 0) {
        pthread_mutex_lock(&p->lock);
        pthread_cond_broadcast(&p->wake);
        pthread_mutex_unlock(&p->lock);
    }
}

och_status och_pool_create(int n_threads, och_pool **out_pool, och_err *err) {
    *out_pool = NULL;
    if (n_threads < 0 || n_threads > 1024)
        return och_err_set(err, OCH_RANGE, "thread count: expected 0 to 1024, found %d", n_threads);
    int n = n_threads ? n_threads : och_cpu_count();
    och_pool *p = och_calloc(1, sizeof *p);
    if (!p) return och_err_nomem(err, sizeof *p, "a thread pool");
    p->n = n;
    /* With more threads than CPUs spinning only steals the time of the member that is waited for. */
    p->spin_limit = n <= och_cpu_count() ? SPIN_LIMIT : 0;
    pthread_mutex_init(&p->caller, NULL);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    p->threads = och_calloc((size_t)n, sizeof *p->threads);
    if (!p->threads) {
        och_pool_destroy(p);
        return och_err_nomem(err, (uint64_t)n * sizeof *p->threads, "a thread pool");
    }
    for (int i = 1; i < n; i++) {
        starter *s = och_malloc(sizeof *s);
        if (!s) {
            och_pool_destroy(p);
            return och_err_nomem(err, sizeof *s, "a thread's start record");
        }
        *s = (starter){p, i};
        int rc = pthread_create(&p->threads[i - 1], NULL, member_main, s);
        if (rc) {
            och_free(s);
            och_pool_destroy(p);
            return och_err_set_native(err, OCH_NOMEM, rc, "could not start thread %d of %d: %s", i, n, strerror(rc));
        }
        p->n_started++;
    }
    *out_pool = p;
    return OCH_OK;
}

void och_pool_destroy(och_pool *p) {
    if (!p) return;
    atomic_store(&p->stopping, true);
    begin_run(p);
    for (int i = 0; i < p->n_started; i++) pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->caller);
    och_free(p->threads);
    och_free(p);
}

int och_pool_size(const och_pool *p) { return p->n; }

void och_pool_run(och_pool *p, och_pool_fn fn, void *arg) {
    pthread_mutex_lock(&p->caller);
    och_pool_member me = {p, 0, p->n};
    p->fn = fn;
    p->arg = arg;
    atomic_store(&p->n_running, p->n - 1);
    if (p->n > 1) begin_run(p);
    fn(arg, &me);
    for (int i = 0; atomic_load_explicit(&p->n_running, memory_order_acquire) > 0; i++) {
        if (i < p->spin_limit * 64) relax();
        else sched_yield();
    }
    pthread_mutex_unlock(&p->caller);
}

void och_pool_barrier(const och_pool_member *me) {
    och_pool *p = me->pool;
    if (me->n == 1) return;
    uint32_t phase = atomic_load_explicit(&p->barrier_phase, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&p->barrier_arrived, 1, memory_order_acq_rel) == me->n - 1) {
        atomic_store_explicit(&p->barrier_arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&p->barrier_phase, phase + 1, memory_order_release);
        return;
    }
    for (int i = 0; atomic_load_explicit(&p->barrier_phase, memory_order_acquire) == phase; i++) {
        if (i < p->spin_limit * 64) relax();
        else sched_yield();
    }
}
