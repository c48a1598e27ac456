/* For backends: memory that the host may touch and that a device copies from and to without staging, of all devices of a
 * runtime. Any thread. */
#ifndef OCH_DEV_PINNED_H
#define OCH_DEV_PINNED_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct och_pinned_span {
    uintptr_t at;
    uint64_t n_bytes;
} och_pinned_span;

typedef struct och_pinned {
    pthread_mutex_t lock;
    och_pinned_span *spans; /* owned, ascending; none are held when all were removed */
    size_t n, capacity;
} och_pinned;

#define OCH_PINNED_INIT {.lock = PTHREAD_MUTEX_INITIALIZER}

bool och_pinned_add(och_pinned *p, void *at, uint64_t n_bytes); /* false: no memory */
void och_pinned_remove(och_pinned *p, void *at);
/* Whether all of [at, at + n_bytes) is within one span. */
bool och_pinned_has(och_pinned *p, const void *at, uint64_t n_bytes);

#endif
