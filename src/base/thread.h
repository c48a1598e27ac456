/* A pool of threads that run one function together: the caller is member 0.
 *
 * Members spin for a fraction of a millisecond before they sleep, since a decode step issues hundreds of short runs;
 * a pool with more members than CPUs does not spin at all. One run at a time: a second caller waits. A run never starts
 * another run on the same pool (it would wait for itself). */
#ifndef OCH_BASE_THREAD_H
#define OCH_BASE_THREAD_H

#include "base/status.h"

#include <stddef.h>

typedef struct och_pool och_pool;
typedef struct och_pool_member {
    och_pool *pool;
    int index; /* 0 .. n - 1 */
    int n;     /* members in this run */
} och_pool_member;
typedef void (*och_pool_fn)(void *arg, const och_pool_member *me);
/* Items [begin, end) of a loop. */
typedef void (*och_pool_range_fn)(void *arg, size_t begin, size_t end, const och_pool_member *me);

#define OCH_POOL_MAX_THREADS 1024

/* n_threads >= 1 counts the caller; 0 means the number of CPUs this process may run on. */
och_status och_pool_create(int n_threads, och_pool **out_pool, och_err *err) OCH_WARN_UNUSED;
/* NULL is allowed. A run in progress is waited for; starting one after this call began is an error of the caller. */
void och_pool_destroy(och_pool *pool);
int och_pool_size(const och_pool *pool);

/* Runs fn in every member and returns when all have returned. */
void och_pool_run(och_pool *pool, och_pool_fn fn, void *arg);
/* Inside a run: returns when every member has called it. */
void och_pool_barrier(const och_pool_member *me);

/* Loops over n_items in pieces of `chunk` items (at least 1). With one piece or less fn runs in the caller alone.
 *   static:  member i gets one contiguous range, a whole number of chunks but for the last; it depends on n_items, chunk
 *            and the pool's size alone. fn is called at most once a member.
 *   dynamic: members take the next chunk from a counter; use where pieces cost differently. The pieces are the same in
 *            every run, which member gets which is not. */
void och_pool_for(och_pool *pool, size_t n_items, size_t chunk, och_pool_range_fn fn, void *arg);
void och_pool_for_dynamic(och_pool *pool, size_t n_items, size_t chunk, och_pool_range_fn fn, void *arg);

/* Inside a run: the range that och_pool_for would give this member. */
static inline void och_pool_range(const och_pool_member *me, size_t n_items, size_t chunk, size_t *out_begin,
                                  size_t *out_end) {
    size_t n_chunks = n_items / chunk + (n_items % chunk != 0);
    size_t each = n_chunks / (size_t)me->n, more = n_chunks % (size_t)me->n, i = (size_t)me->index;
    size_t first = i * each + (i < more ? i : more), last = first + each + (i < more);
    *out_begin = first < n_chunks ? first * chunk : n_items;
    *out_end = last < n_chunks ? last * chunk : n_items;
}

/* CPUs this process may run on (sched_getaffinity), at least 1. */
int och_cpu_count(void);
/* Seconds of a monotonic clock. */
double och_now_seconds(void);

#endif
