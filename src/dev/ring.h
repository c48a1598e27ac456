/* For backends: names of kernels that were launched and are not yet known to have run, newest last: what a fault is blamed on.
 * Guarded by whoever owns it. */
#ifndef OCH_DEV_RING_H
#define OCH_DEV_RING_H

#include <stddef.h>
#include <stdint.h>

#define OCH_RING_NAMES 8
#define OCH_RING_NAME_BYTES 64

typedef struct och_ring {
    char names[OCH_RING_NAMES][OCH_RING_NAME_BYTES];
    uint64_t n; /* launched since the queue was last seen to be done; 0 empties it */
} och_ring;

void och_ring_add(och_ring *r, const char *name);
void och_ring_join(och_ring *r, const och_ring *more);
/* "; caused by kernel a", or the last of several with `hint` behind them ("OCHRE_HIP_SYNC=1 names the one"), or "" for none. */
void och_ring_blame(const och_ring *r, const char *hint, char *out, size_t n_bytes);

#endif
