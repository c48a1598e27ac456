/* The floor of a launch's traffic: each input once, each output once. */
#include "base/alloc.h"
#include "exec/count.h"

#include <stdlib.h>
#include <string.h>

static int by_addr(const void *a, const void *b) {
    const sim_buffer *x = a, *y = b;
    return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* Bytes of the union of those that are read (1), written (2), either (3); b is sorted. */
static uint64_t bytes_of(const sim_buffer *b, size_t n, unsigned uses) {
    uint64_t sum = 0, to = 0;
    for (size_t i = 0; i < n; i++) {
        if (!(uses & 1 && b[i].read) && !(uses & 2 && b[i].written)) continue;
        uint64_t lo = b[i].addr > to ? b[i].addr : to, hi = b[i].addr + b[i].n_bytes;
        if (hi <= lo) continue;
        sum += hi - lo;
        to = hi;
    }
    return sum;
}

och_status sim_floor_of(const sim_buffer *buffers, size_t n, sim_floor *out, och_err *err) {
    *out = (sim_floor){0};
    if (!n) return OCH_OK;
    sim_buffer *b = och_malloc_array(n, sizeof *b);
    if (!b) return och_err_nomem(err, n * sizeof *b, "buffers of a launch");
    memcpy(b, buffers, n * sizeof *b);
    qsort(b, n, sizeof *b, by_addr);
    *out = (sim_floor){.read = bytes_of(b, n, 1), .written = bytes_of(b, n, 2), .either = bytes_of(b, n, 3)};
    och_free(b);
    return OCH_OK;
}
