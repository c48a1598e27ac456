/* Statistics: a cell an (op, device, provider) in a fixed table, counted by relaxed atomics.
 *
 * Nothing is counted but reference-tier hits until statistics are switched on; then a call costs a look-up by numbers
 * (the provider's place in its table, the device's in a short list) and a few additions. */
#include "op/registry.h"

#include "op/def.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define MAX_DEVICES 16 /* devices met later share the last place */

typedef struct cell {
    _Atomic uint64_t calls, bytes, flops, nanoseconds, fallbacks;
} cell;

static cell cells[MAX_DEVICES][OCH_OP_MAX_PROVIDERS];
static struct {
    char label[64];
    bool simulated;
} devices[MAX_DEVICES];
static _Atomic int n_devices; /* entries below it never change */
static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool enabled, timing_on;
static _Atomic uint64_t hits;

/* The provider's number in och_op_provider_at; -1 when it is not of the registry (a test's own). */
static int place_of(const och_op_provider *p) {
    if (och_op_provider_at((int)p->op) == p) return (int)p->op;
    int base = OCH_OP_COUNT_;
    for (int t = 0; t < och_op_table_count; t++) {
        const och_op_provider *rows = och_op_tables[t].rows;
        int n = *och_op_tables[t].count;
        if (p >= rows && p < rows + n) return base + (int)(p - rows);
        base += n;
    }
    return -1;
}

static int find_device(const och_device *d, int n) {
    for (int i = 0; i < n; i++)
        if (strcmp(devices[i].label, d->info.label) == 0) return i;
    return -1;
}

static int device_place(const och_device *d) {
    int i = find_device(d, atomic_load_explicit(&n_devices, memory_order_acquire));
    if (i >= 0) return i;
    pthread_mutex_lock(&devices_lock);
    int n = atomic_load_explicit(&n_devices, memory_order_relaxed);
    i = find_device(d, n);
    if (i < 0 && n == MAX_DEVICES) i = MAX_DEVICES - 1;
    if (i < 0) {
        i = n;
        snprintf(devices[i].label, sizeof devices[i].label, "%s", d->info.label);
        devices[i].simulated = d->info.kind == OCH_DEV_SIMULATED;
        atomic_store_explicit(&n_devices, n + 1, memory_order_release);
    }
    pthread_mutex_unlock(&devices_lock);
    return i;
}

static void add(_Atomic uint64_t *to, uint64_t n) { atomic_fetch_add_explicit(to, n, memory_order_relaxed); }

void och_op_stats_count(const och_op_ctx *ctx, const och_op_provider *p, const och_op_call *call, double seconds) {
    bool fallback = p->priority < 0 && !ctx->reference_asked;
    if (fallback) add(&hits, 1);
    if (!atomic_load_explicit(&enabled, memory_order_relaxed)) return;
    int i = place_of(p);
    if (i < 0 || i >= OCH_OP_MAX_PROVIDERS) return;
    uint64_t bytes, flops;
    och_op_cost(call, &bytes, &flops);
    cell *c = &cells[device_place(ctx->queue->device)][i];
    add(&c->calls, 1);
    add(&c->bytes, bytes);
    add(&c->flops, flops);
    if (fallback) add(&c->fallbacks, 1);
    if (seconds > 0.0) add(&c->nanoseconds, (uint64_t)(seconds * 1e9));
}

bool och_op_stats_timing(void) { return atomic_load_explicit(&timing_on, memory_order_relaxed); }

bool och_op_stats_counting(void) { return atomic_load_explicit(&enabled, memory_order_relaxed); }

void och_op_stats_enable(bool timing) {
    atomic_store(&timing_on, timing);
    atomic_store(&enabled, true);
}

void och_op_stats_reset(void) {
    atomic_store(&hits, 0);
    for (int d = 0; d < MAX_DEVICES; d++)
        for (int p = 0; p < OCH_OP_MAX_PROVIDERS; p++) {
            cell *c = &cells[d][p];
            atomic_store_explicit(&c->calls, 0, memory_order_relaxed);
            atomic_store_explicit(&c->bytes, 0, memory_order_relaxed);
            atomic_store_explicit(&c->flops, 0, memory_order_relaxed);
            atomic_store_explicit(&c->nanoseconds, 0, memory_order_relaxed);
            atomic_store_explicit(&c->fallbacks, 0, memory_order_relaxed);
        }
}

static bool before(const och_op_stat *a, const och_op_stat *b) {
    if (a->seconds != b->seconds) return a->seconds > b->seconds;
    if (a->bytes != b->bytes) return a->bytes > b->bytes;
    return a->calls > b->calls;
}

int och_op_stats(och_op_stat *out_rows, int capacity) {
    int n = 0, kept = 0, n_providers = och_op_provider_count();
    int last_device = atomic_load_explicit(&n_devices, memory_order_acquire);
    for (int d = 0; d < last_device; d++)
        for (int p = 0; p < n_providers && p < OCH_OP_MAX_PROVIDERS; p++) {
            cell *c = &cells[d][p];
            uint64_t calls = atomic_load_explicit(&c->calls, memory_order_relaxed);
            if (!calls) continue;
            n++;
            const och_op_provider *provider = och_op_provider_at(p);
            och_op_stat row = {.op = provider->op, .provider = provider->name, .calls = calls, .simulated = devices[d].simulated};
            _Static_assert(sizeof row.device == sizeof devices[0].label, "labels fit");
            memcpy(row.device, devices[d].label, sizeof row.device);
            row.reference_tier = atomic_load_explicit(&c->fallbacks, memory_order_relaxed) > 0;
            row.bytes = atomic_load_explicit(&c->bytes, memory_order_relaxed);
            row.flops = atomic_load_explicit(&c->flops, memory_order_relaxed);
            row.seconds = 1e-9 * (double)atomic_load_explicit(&c->nanoseconds, memory_order_relaxed);
            /* By insertion, keeping the most expensive when there is not room for all. */
            int at = kept;
            while (at > 0 && before(&row, &out_rows[at - 1])) at--;
            if (at >= capacity) continue;
            if (kept < capacity) kept++;
            memmove(&out_rows[at + 1], &out_rows[at], sizeof *out_rows * (size_t)(kept - 1 - at));
            out_rows[at] = row;
        }
    return n;
}

uint64_t och_op_reference_hits(void) { return atomic_load_explicit(&hits, memory_order_relaxed); }
