/* A pool of threads that run one function together: the caller is member 0.
 *
 * Members spin briefly for the next run before they sleep, since a decode step issues hundreds of short runs. One run
 * at a time; a second caller waits. */
#ifndef OCH_BASE_THREAD_H
#define OCH_BASE_THREAD_H

#include "base/status.h"

typedef struct och_pool och_pool;
typedef struct och_pool_member {
    och_pool *pool;
    int index; /* 0 .. n - 1 */
    int n;     /* members in this run */
} och_pool_member;
typedef void (*och_pool_fn)(void *arg, const och_pool_member *me);

/* n_threads >= 1 counts the caller; 0 means the number of CPUs this process may run on. */
och_status och_pool_create(int n_threads, och_pool **out_pool, och_err *err) OCH_WARN_UNUSED;
void och_pool_destroy(och_pool *pool); /* NULL is allowed */
int och_pool_size(const och_pool *pool);

/* Runs fn in every member and returns when all have returned. */
void och_pool_run(och_pool *pool, och_pool_fn fn, void *arg);
/* Inside a run: returns when every member has called it. */
void och_pool_barrier(const och_pool_member *me);

/* CPUs this process may run on (sched_getaffinity), at least 1. */
int och_cpu_count(void);
/* Seconds of a monotonic clock. */
double och_now_seconds(void);

#endif
