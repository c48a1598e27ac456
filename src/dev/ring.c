#include "dev/ring.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void och_ring_add(och_ring *r, const char *name) {
    char *to = r->names[r->n++ % OCH_RING_NAMES];
    size_t n = strnlen(name, OCH_RING_NAME_BYTES - 1); /* at every launch: copied, not formatted */
    memcpy(to, name, n);
    to[n] = 0;
}

void och_ring_join(och_ring *r, const och_ring *more) {
    uint64_t first = more->n > OCH_RING_NAMES ? more->n - OCH_RING_NAMES : 0;
    r->n += first; /* those whose names are gone still count */
    for (uint64_t i = first; i < more->n; i++) och_ring_add(r, more->names[i % OCH_RING_NAMES]);
}

void och_ring_blame(const och_ring *r, const char *hint, char *out, size_t n_bytes) {
    uint64_t first = r->n > OCH_RING_NAMES ? r->n - OCH_RING_NAMES : 0;
    size_t at = 0;
    out[0] = 0;
    if (r->n == 1) snprintf(out, n_bytes, "; caused by kernel %s", r->names[0]);
    if (r->n <= 1) return;
    at = (size_t)snprintf(out, n_bytes,
                          "; caused by one of %s%" PRIu64 " kernels launched since the queue was last done, oldest "
                          "first: %s",
                          first ? "the last of " : "", r->n, first ? "..., " : "");
    for (uint64_t i = first; i < r->n && at < n_bytes; i++)
        at += (size_t)snprintf(out + at, n_bytes - at, "%s%s", i > first ? ", " : "", r->names[i % OCH_RING_NAMES]);
    if (at < n_bytes) snprintf(out + at, n_bytes - at, " (%s)", hint);
}
