#include "dev/dev.h"

#include "base/env.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "dev/capture.h"
#include "dev/trace.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define OCH_BACKEND(name, table) extern const och_backend table;
#include "dev/backends.def"
#undef OCH_BACKEND

static const och_backend *const backends[] = {
#define OCH_BACKEND(name, table) &table,
#include "dev/backends.def"
#undef OCH_BACKEND
};

/* Two rows of one name do not compile. */
enum {
#define OCH_BACKEND(name, table) BACKEND_##name,
#include "dev/backends.def"
#undef OCH_BACKEND
    N_BACKENDS
};

#define SLOTS(X)                                                                                                       \
    X(destroy) X(alloc) X(free) X(memory) X(unified_memory) X(queue_create) X(queue_wrap) X(queue_destroy)             \
    X(synchronise) X(copy_to_device) X(copy_to_host) X(copy) X(copy_peer) X(fill) X(event_create) X(event_destroy) X(event_record)    \
    X(event_query) X(event_wait_host) X(event_wait_queue) X(module_load) X(module_unload) X(module_function)           \
    X(launch) X(lend) X(capture_begin) X(capture_end) X(graph_replay) X(graph_destroy) X(all_reduce_f32)

static const struct {
    const char *name;
    size_t offset;
} slots[] = {
#define X(slot) {#slot, offsetof(och_device_vtable, slot)},
    SLOTS(X)
#undef X
};
static_assert(sizeof slots / sizeof slots[0] * sizeof(void (*)(void)) == sizeof(och_device_vtable),
              "SLOTS names every member of och_device_vtable");

/* The allocations of all devices. */
static _Atomic uint64_t live_bytes;
static _Atomic uint64_t live_count;

int och_backend_count(void) { return N_BACKENDS; }
const och_backend *och_backend_at(int i) { return i >= 0 && i < N_BACKENDS ? backends[i] : NULL; }

och_status och_device_check(const och_device *d, och_err *err) {
    if (!d || !d->vtable) return och_err_set(err, OCH_INTERNAL, "a device without a table of functions");
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
        void (*f)(void);
        memcpy(&f, (const char *)d->vtable + slots[i].offset, sizeof f);
        if (!f)
            return och_err_set(err, OCH_INTERNAL, "device %s:%d: slot %s of its table is empty: what a device cannot do "
                               "is a function that returns unsupported", d->info.backend, d->info.index, slots[i].name);
    }
    return OCH_OK;
}

/* How much of a reason is the reason: what to do about it stands behind its first semicolon, and is for errors of that backend and
 * for `ochre doctor`, not for lists of several. */
static int reason_size(const char *text) { return (int)strcspn(text, ";"); }

/* The names that open would accept, as "cpu:0, null:0, auto"; a backend that cannot count is named with its reason. */
static void list_names(och_strbuf *out) {
    for (int i = 0; i < N_BACKENDS; i++) {
        int n = 0;
        och_err why;
        och_err_clear(&why);
        if (backends[i]->count(&n, &why) != OCH_OK) {
            och_strbuf_printf(out, "%s (none: %.*s), ", backends[i]->name, reason_size(why.message), why.message);
            continue;
        }
        if (n > 1) och_strbuf_printf(out, "%s:0 to %s:%d, ", backends[i]->name, backends[i]->name, n - 1);
        else if (n == 1) och_strbuf_printf(out, "%s:0, ", backends[i]->name);
    }
    och_strbuf_puts(out, "sim:gfx1151 and other simulated boards, auto");
}

static och_status refuse_name(const char *name, och_status st, const char *why, och_err *err) {
    och_strbuf names;
    och_strbuf_init(&names);
    list_names(&names);
    st = och_err_set(err, st, "device '%s': %s; expected one of: %s", name, why,
                     names.failed ? "(out of memory)" : och_strbuf_str(&names));
    och_strbuf_deinit(&names);
    return st;
}

/* What a backend opened: its table is complete, and it is what was asked for. */
static och_status accept(const och_backend *b, int index, och_device **out_device, och_err *err) {
    och_dev_info *info = &(*out_device)->info;
    och_status st = och_device_check(*out_device, err);
    if (st == OCH_OK && (strcmp(info->backend, b->name) || (index >= 0 && info->index != index)))
        st = och_err_set(err, OCH_INTERNAL, "backend %s: device %d calls itself %s:%d", b->name, index, info->backend,
                         info->index);
    if (st != OCH_OK) { /* not released: a table that failed the check may have no destroy */
        *out_device = NULL;
        return st;
    }
    info->unified = (*out_device)->vtable->unified_memory(*out_device);
    if (!info->label[0]) snprintf(info->label, sizeof info->label, "%s:%d", info->backend, info->index);
    och_capture_policy(info);
    och_trace_attach(*out_device);
    return OCH_OK;
}

static const och_dev_options default_options;

static och_status open_checked(const och_backend *b, int index, const och_dev_options *options, och_device **out_device,
                               och_err *err) {
    OCH_TRY(b->open(index, options ? options : &default_options, out_device, err));
    return accept(b, index, out_device, err);
}

/* What `auto` prefers, best last; negative: never chosen on its own. */
static int auto_rank(och_dev_kind kind) {
    switch (kind) {
        case OCH_DEV_CPU: return 0;
        case OCH_DEV_INTEGRATED: return 1;
        case OCH_DEV_DISCRETE: return 2;
        case OCH_DEV_SIMULATED:
        case OCH_DEV_NULL: return -1;
    }
    return -1;
}

bool och_dev_preferred(const och_dev_info *a, const och_dev_info *b) {
    int rank_a = auto_rank(a->kind), rank_b = auto_rank(b->kind);
    if (rank_a < 0 || rank_a != rank_b) return rank_a > rank_b && rank_a >= 0;
    /* backends are met in their order: the first one's devices come before all of the next one's */
    if (strcmp(a->backend, b->backend) != 0) return false;
    if (a->bandwidth_gbps != b->bandwidth_gbps) return a->bandwidth_gbps > b->bandwidth_gbps;
    return a->memory_limit_bytes > b->memory_limit_bytes;
}

/* A device that does not open is passed over with a message: `auto` must find what works. Why there is no GPU is kept for the
 * one line that tells of falling back to the CPU, and whole for the error where that is not allowed. */
static och_status open_auto(const och_dev_options *options, och_device **out_device, och_err *err) {
    och_device *best = NULL;
    och_err first;
    bool must = (options && options->require_gpu) || och_env_wish(OCH_ENV_OCHRE_REQUIRE_GPU) > 0;
    och_strbuf why_none;
    och_err_clear(&first);
    och_strbuf_init(&why_none);
    for (int i = 0; i < N_BACKENDS; i++) {
        int n = 0;
        och_err why;
        och_err_clear(&why);
        if (i == BACKEND_null || i == BACKEND_sim) continue; /* never chosen: not even started */
        if (backends[i]->count(&n, &why) != OCH_OK)
            och_strbuf_printf(&why_none, "%s%.*s", why_none.size ? "; " : "",
                              must ? (int)strlen(why.message) : reason_size(why.message), why.message);
        for (int k = 0; k < n; k++) {
            och_device *d;
            och_err_clear(&why);
            if (open_checked(backends[i], k, options, &d, &why) != OCH_OK) {
                och_log(OCH_LOG_INFO, "device %s:%d is passed over: %s", backends[i]->name, k, why.message);
                och_strbuf_printf(&why_none, "%s%s", why_none.size ? "; " : "", why.message);
                if (first.status == OCH_OK) first = why;
                continue;
            }
            bool better = best ? och_dev_preferred(&d->info, &best->info) : auto_rank(d->info.kind) >= 0;
            if (!better && d->info.kind == OCH_DEV_SIMULATED)
                och_strbuf_printf(&why_none, "%s%s is simulated", why_none.size ? "; " : "", d->info.label);
            och_device *drop = better ? best : d;
            if (better) best = d;
            och_device_release(drop);
        }
    }
    och_status st = OCH_OK;
    const char *text = why_none.failed ? "out of memory" : why_none.size ? och_strbuf_str(&why_none) : "none is there";
    if (best && auto_rank(best->info.kind) == 0 && must) {
        st = och_err_set(err, OCH_UNAVAILABLE, "device 'auto': a GPU is required, and there is none: %s", text);
        och_device_release(best);
        best = NULL;
    } else if (best && auto_rank(best->info.kind) == 0)
        och_log(OCH_LOG_WARN, "no GPU is used, falling back to the CPU: %s; see: ochre doctor", text);
    else if (!best && first.status != OCH_OK) st = och_err_set(err, first.status, "device 'auto': %s", first.message);
    else if (!best) st = och_err_set(err, OCH_UNAVAILABLE, "device 'auto': no backend offers a device that computes");
    och_strbuf_deinit(&why_none);
    *out_device = best;
    return st;
}

och_status och_device_open(const char *name, const och_dev_options *options, och_device **out_device, och_err *err) {
    *out_device = NULL;
    if (!name || !*name) return refuse_name("", OCH_INVALID, "an empty name", err);
    if (!strcmp(name, "auto")) return open_auto(options, out_device, err);
    size_t n_name = strcspn(name, ":");
    for (int i = 0; i < N_BACKENDS; i++) {
        const och_backend *b = backends[i];
        if (strlen(b->name) != n_name || memcmp(b->name, name, n_name) != 0) continue;
        int index = 0, n = 0;
        if (name[n_name]) {
            const char *digits = name + n_name + 1;
            size_t n_digits = strspn(digits, "0123456789");
            bool is_index = n_digits && n_digits <= 6 && !digits[n_digits];
            if (!is_index && b->open_named && *digits) {
                OCH_TRY(b->open_named(digits, options ? options : &default_options, out_device, err));
                return accept(b, -1, out_device, err);
            }
            if (!is_index) return refuse_name(name, OCH_INVALID, "the index after ':' is not a small whole number", err);
            for (size_t k = 0; k < n_digits; k++) index = index * 10 + (digits[k] - '0');
        }
        /* a backend that has other names for its devices also knows why one is missing */
        if (b->open_named) return open_checked(b, index, options, out_device, err);
        OCH_TRY(b->count(&n, err));
        if (!n) return refuse_name(name, OCH_UNAVAILABLE, "this backend finds no device", err);
        if (index >= n) return refuse_name(name, OCH_RANGE, "no device of this index", err);
        return open_checked(b, index, options, out_device, err);
    }
    return refuse_name(name, OCH_NOTFOUND, "no such backend", err);
}

och_device *och_device_retain(och_device *d) {
    if (d) __atomic_fetch_add(&d->refcount, 1, __ATOMIC_RELAXED);
    return d;
}

void och_device_release(och_device *d) {
    if (!d || __atomic_fetch_sub(&d->refcount, 1, __ATOMIC_ACQ_REL) != 1) return;
    if (d->companion) d->companion_destroy(d->companion);
    if (d->attachment) d->attachment_destroy(d->attachment);
    d->vtable->destroy(d);
}

och_status och_buf_alloc(och_device *d, uint64_t size_bytes, och_mem_kind kind, och_buf *out_buf, och_err *err) {
    memset(out_buf, 0, sizeof *out_buf);
    if (kind != OCH_MEM_DEVICE && kind != OCH_MEM_PINNED)
        return och_err_set(err, OCH_INVALID, "device %s: unknown kind of memory %d", d->info.label, (int)kind);
    if (!size_bytes)
        return och_err_set(err, OCH_INVALID, "device %s: an allocation of 0 bytes", d->info.label);
    och_buf b = {0};
    OCH_TRY(d->vtable->alloc(d, size_bytes, kind, &b, err));
    b.device = d;
    b.size_bytes = size_bytes;
    b.kind = kind;
    bool host_wanted = kind == OCH_MEM_PINNED || d->vtable->unified_memory(d);
    if (!b.addr.value || b.addr.value % OCH_DEV_ALIGN_BYTES || (b.host != NULL) != host_wanted) {
        uint64_t at = b.addr.value;
        d->vtable->free(d, &b);
        return och_err_set(err, OCH_INTERNAL, "device %s: allocation of %llu bytes at 0x%llx: expected an address "
                           "aligned to %d and %s host pointer", d->info.label, (unsigned long long)size_bytes, (unsigned long long)at, OCH_DEV_ALIGN_BYTES,
                           host_wanted ? "a" : "no");
    }
    atomic_fetch_add(&live_bytes, size_bytes);
    atomic_fetch_add(&live_count, 1);
    *out_buf = b;
    return OCH_OK;
}

void och_buf_free(och_buf *b) {
    if (!b || !b->device) return;
    atomic_fetch_sub(&live_bytes, b->size_bytes);
    atomic_fetch_sub(&live_count, 1);
    b->device->vtable->free(b->device, b);
    memset(b, 0, sizeof *b);
}

void och_buf_live(uint64_t *out_bytes, uint64_t *out_count) {
    *out_bytes = atomic_load(&live_bytes);
    *out_count = atomic_load(&live_count);
}

void *och_dev_host(const och_device *d, och_dev_addr a) {
    return d->vtable->unified_memory(d) ? (void *)(uintptr_t)a.value : NULL;
}
