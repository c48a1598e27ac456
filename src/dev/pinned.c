#include "dev/pinned.h"

#include "base/alloc.h"

#include <string.h>

/* The number of spans that begin at or before `at`. */
static size_t until(const och_pinned *p, uintptr_t at) {
    size_t low = 0, high = p->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (p->spans[mid].at <= at) low = mid + 1;
        else high = mid;
    }
    return low;
}

bool och_pinned_add(och_pinned *p, void *at, uint64_t n_bytes) {
    pthread_mutex_lock(&p->lock);
    bool good = p->n < p->capacity;
    if (!good) {
        size_t more = p->capacity ? p->capacity * 2 : 64;
        och_pinned_span *s = och_realloc_array(p->spans, more, sizeof *s);
        if (s) p->spans = s, p->capacity = more, good = true;
    }
    if (good) {
        size_t i = until(p, (uintptr_t)at);
        memmove(p->spans + i + 1, p->spans + i, (p->n - i) * sizeof *p->spans);
        p->spans[i] = (och_pinned_span){(uintptr_t)at, n_bytes};
        p->n++;
    }
    pthread_mutex_unlock(&p->lock);
    return good;
}

void och_pinned_remove(och_pinned *p, void *at) {
    pthread_mutex_lock(&p->lock);
    size_t i = until(p, (uintptr_t)at);
    if (i && p->spans[i - 1].at == (uintptr_t)at) {
        memmove(p->spans + i - 1, p->spans + i, (p->n - i) * sizeof *p->spans);
        if (!--p->n) {
            och_free(p->spans);
            p->spans = NULL;
            p->capacity = 0;
        }
    }
    pthread_mutex_unlock(&p->lock);
}

bool och_pinned_has(och_pinned *p, const void *where, uint64_t n_bytes) {
    uintptr_t at = (uintptr_t)where;
    pthread_mutex_lock(&p->lock);
    size_t i = until(p, at);
    bool inside = i && at - p->spans[i - 1].at <= p->spans[i - 1].n_bytes &&
                  n_bytes <= p->spans[i - 1].n_bytes - (at - p->spans[i - 1].at);
    pthread_mutex_unlock(&p->lock);
    return inside;
}
