#include "hip/hip.h"

#include "base/env.h"
#include "exec/settings.h"
#include "target/target.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

sim_hip_state sim_hip = {.lock = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

/* ---- handles: an open-addressing set ---- */
typedef struct slot { const void *p; sim_handle_kind kind; } slot;
static struct { slot *slots; size_t n_slots, n_used; } handles; /* n_used counts tombstones (p set, kind NONE) too */

static size_t hash_of(const void *p) { return (size_t)(((uintptr_t)p >> 4) * 0x9E3779B97F4A7C15ull >> 20); }

static slot *find_slot(const void *p) {
    if (!handles.n_slots) return NULL;
    for (size_t i = hash_of(p);; i++) {
        slot *s = &handles.slots[i & (handles.n_slots - 1)];
        if (!s->p) return NULL;
        if (s->p == p && s->kind != SIM_H_NONE) return s;
    }
}

static void put_slot(slot *slots, size_t n, const void *p, sim_handle_kind kind) {
    size_t i = hash_of(p);
    while (slots[i & (n - 1)].p) i++;
    slots[i & (n - 1)] = (slot){p, kind};
}

bool sim_handle_add(void *p, sim_handle_kind kind) {
    if ((handles.n_used + 1) * 2 > handles.n_slots) {
        size_t live = 0;
        for (size_t i = 0; i < handles.n_slots; i++) live += handles.slots[i].kind != SIM_H_NONE;
        size_t n = 256;
        while (n < (live + 1) * 4) n *= 2;
        slot *slots = och_calloc(n, sizeof *slots);
        if (!slots) return false;
        for (size_t i = 0; i < handles.n_slots; i++)
            if (handles.slots[i].kind != SIM_H_NONE) put_slot(slots, n, handles.slots[i].p, handles.slots[i].kind);
        och_free(handles.slots);
        handles.slots = slots, handles.n_slots = n, handles.n_used = live;
    }
    put_slot(handles.slots, handles.n_slots, p, kind);
    handles.n_used++;
    return true;
}

void sim_handle_remove(void *p) {
    slot *s = find_slot(p);
    if (s) s->kind = SIM_H_NONE;
}

bool sim_handle_is(const void *p, sim_handle_kind kind) {
    slot *s = p ? find_slot(p) : NULL;
    return s && s->kind == kind;
}

void sim_handle_each(sim_handle_kind kind, void (*fn)(void *arg, void *p), void *arg) {
    for (size_t i = 0; i < handles.n_slots; i++)
        if (handles.slots[i].kind == kind) fn(arg, (void *)(uintptr_t)handles.slots[i].p);
}

/* ---- signals ---- */
sim_signal *sim_signal_new(void) {
    sim_signal *s = och_calloc(1, sizeof *s);
    if (s) s->refs = 1;
    return s;
}
sim_signal *sim_signal_ref(sim_signal *s) {
    if (s) atomic_fetch_add(&s->refs, 1);
    return s;
}
void sim_signal_unref(sim_signal *s) {
    if (s && atomic_fetch_sub(&s->refs, 1) == 1) och_free(s);
}

/* ---- devices ---- */
static int hex_digit(char c) { return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c - '0'; }

static void apply_quirks(sim_device *d, const sim_quirks *q) {
    if (q->q[SIM_QUIRK_no_pageable].on) d->board.integrated = true, d->board.pageable = false;
    if (q->q[SIM_QUIRK_no_managed].on) {
        d->board.integrated = true;
        d->board.managed = d->board.concurrent_managed = false;
    }
    if (q->q[SIM_QUIRK_memory].on) d->board.memory_bytes = q->q[SIM_QUIRK_memory].value;
    d->total_bytes = d->limit_bytes = d->board.memory_bytes;
    if (q->q[SIM_QUIRK_carveout].on) {
        d->total_bytes = q->q[SIM_QUIRK_carveout].value;
        d->limit_bytes = d->total_bytes + q->q[SIM_QUIRK_carveout].extra;
    }
}

static void device_setup(sim_device *d, int physical, const sim_board *board) {
    d->board = *board;
    /* "gfx90a", "gfx1151": the last two digits are minor (decimal here) and stepping (hexadecimal) */
    size_t n = strlen(board->key);
    d->major = 0;
    for (size_t i = 3; i + 2 < n; i++) d->major = d->major * 10 + hex_digit(board->key[i]);
    d->minor = hex_digit(board->key[n - 2]);
    d->stepping = hex_digit(board->key[n - 1]);
    d->xccs = board->isa == SIM_GFX942 || board->isa == SIM_GFX950 ? 8 : 1;
    d->target_vgprs = (SIM_BIT(board->isa) & (SIM_BIT(SIM_GFX90A) | SIM_BIT(SIM_GFX942) | SIM_BIT(SIM_GFX950))) ? 512 : 256;
    d->board.pci_bus = board->pci_bus + physical;
    d->limits[0] = 1024, d->limits[1] = 1 << 20, d->limits[2] = 8 << 20;
}

/* "gfx1100x4+gfx1103" */
static och_status parse_boards(const char *text, sim_device *devices, int *n, och_err *err) {
    for (const char *s = text; *s;) {
        size_t len = strcspn(s, "+");
        char key[64];
        unsigned long count = 1;
        const char *x = memchr(s, 'x', len);
        /* the x of "gfx" belongs to the name */
        if (x && x - s < 3) x = memchr(s + 3, 'x', len > 3 ? len - 3 : 0);
        size_t name = x ? (size_t)(x - s) : len;
        if (!len || name >= sizeof key) return och_err_set(err, OCH_INVALID, "OCHRE_SIM_BOARD: \"%s\" is not KEY[xN][+KEY...]",
                                                           text);
        memcpy(key, s, name);
        key[name] = 0;
        if (x) {
            char *end;
            count = strtoul(x + 1, &end, 10);
            if (end != s + len || x + 1 == end || count < 1 || count > SIM_HIP_MAX_DEVICES)
                return och_err_set(err, OCH_INVALID, "OCHRE_SIM_BOARD: \"%s\": a count of 1 to %d follows x", text,
                                   SIM_HIP_MAX_DEVICES);
        }
        const sim_board *board;
        och_status st = sim_board_find(key, &board, err);
        if (st != OCH_OK) return och_err_prefix(err, "OCHRE_SIM_BOARD");
        for (; count; count--) {
            if (*n == SIM_HIP_MAX_DEVICES)
                return och_err_set(err, OCH_INVALID, "OCHRE_SIM_BOARD: \"%s\" names more than %d boards", text,
                                   SIM_HIP_MAX_DEVICES);
            device_setup(&devices[*n], *n, board);
            (*n)++;
        }
        s += len;
        if (*s == '+' && !*++s)
            return och_err_set(err, OCH_INVALID, "OCHRE_SIM_BOARD: \"%s\": a board follows +", text);
    }
    return OCH_OK;
}

void sim_device_uuid(const sim_device *d, char out[17]) {
    snprintf(out, 17, "%08x%08x", (unsigned)(d->major << 16 | d->minor << 8 | d->stepping), (unsigned)d->board.pci_bus);
}

/* Keeps the devices that `list` names, in its order; the list ends at the first entry that names none, as in HIP. */
static void filter(const char *list, sim_device *devices, int *n) {
    if (!list) return;
    sim_device kept[SIM_HIP_MAX_DEVICES];
    bool taken[SIM_HIP_MAX_DEVICES] = {false};
    int n_kept = 0;
    while (n_kept < *n) {
        while (*list == ' ') list++;
        size_t len = strcspn(list, ",");
        int found = -1;
        if (!strncmp(list, "GPU-", 4)) {
            for (int i = 0; i < *n; i++) {
                char id[17];
                sim_device_uuid(&devices[i], id);
                if (len == 20 && !memcmp(list + 4, id, 16)) found = i;
            }
        } else if (len) {
            char *end;
            long v = strtol(list, &end, 10);
            if (end == list + len && v >= 0 && v < *n) found = (int)v;
        }
        if (found < 0 || taken[found]) break;
        taken[found] = true;
        kept[n_kept++] = devices[found];
        if (!list[len]) break;
        list += len + 1;
    }
    memcpy(devices, kept, (size_t)n_kept * sizeof *kept);
    *n = n_kept;
}

/* The version asked for, or that of the name that the library was opened by. */
static int claimed_version(och_err *err) {
    const char *v = och_env_get(OCH_ENV_OCHRE_SIM_HIP_VERSION);
    if (v) {
        if (!strcmp(v, "5.2")) return 50200;
        if (!strcmp(v, "6.3")) return 60300;
        if (!strcmp(v, "7.2")) return 70200;
        och_err_set(err, OCH_INVALID, "OCHRE_SIM_HIP_VERSION: \"%s\" is not 5.2, 6.3 or 7.2", v);
        return 0;
    }
    Dl_info info;
    if (dladdr(&sim_hip, &info) && info.dli_fname) {
        size_t n = strlen(info.dli_fname);
        if (n > 5 && !strcmp(info.dli_fname + n - 5, ".so.5")) return 50200;
        if (n > 5 && !strcmp(info.dli_fname + n - 5, ".so.7")) return 70200;
    }
    return 60300;
}

/* Everything that the environment says, judged: the boards, SIM_HIP_MAX_DEVICES at most. */
static och_status settings(sim_device *devices, int *n, sim_quirks *quirks, int *version, bool *count_clock, och_err *err) {
    if (!(*version = claimed_version(err))) return err->status;
    const char *clock = och_env_get(OCH_ENV_OCHRE_SIM_CLOCK);
    *count_clock = clock && !strcmp(clock, "count");
    if (clock && !*count_clock && strcmp(clock, "host") != 0)
        return och_err_set(err, OCH_INVALID, "OCHRE_SIM_CLOCK: \"%s\" is not host or count", clock);
    OCH_TRY(sim_quirks_parse(och_env_get(OCH_ENV_OCHRE_SIM_QUIRKS), quirks, err));
    OCH_TRY(sim_settings_judge(err));
    const char *boards = och_env_get(OCH_ENV_OCHRE_SIM_BOARD);
    return parse_boards(boards ? boards : "gfx1100", devices, n, err);
}

int sim_ochreSimJudge(char *message, size_t n) {
    och_err err;
    och_err_clear(&err);
    int n_devices = 0, version;
    bool count_clock;
    sim_quirks quirks;
    sim_device *devices = och_calloc(SIM_HIP_MAX_DEVICES, sizeof *devices);
    och_status st = devices ? settings(devices, &n_devices, &quirks, &version, &count_clock, &err)
                            : och_err_nomem(&err, SIM_HIP_MAX_DEVICES * sizeof *devices, "devices");
    och_free(devices);
    if (message && n) snprintf(message, n, "%s", st == OCH_OK ? "" : err.message);
    return st;
}

static void initialise(void) {
    och_err err;
    och_err_clear(&err);
    och_env_warn_unknown();
    och_status st = OCH_NOMEM;
    int n = 0;
    sim_hip.trace = och_env_flag(OCH_ENV_OCHRE_SIM_TRACE);
    sim_device *devices = och_calloc(SIM_HIP_MAX_DEVICES, sizeof *devices);
    if (!devices) {
        st = och_err_nomem(&err, SIM_HIP_MAX_DEVICES * sizeof *devices, "devices");
        goto done;
    }
    OCH_TRY_GOTO(settings(devices, &n, &sim_hip.quirks, &sim_hip.version, &sim_hip.count_clock, &err));
    filter(och_env_get(OCH_ENV_ROCR_VISIBLE_DEVICES), devices, &n);
    const char *hip = och_env_get(OCH_ENV_HIP_VISIBLE_DEVICES);
    filter(hip ? hip : och_env_get(OCH_ENV_CUDA_VISIBLE_DEVICES), devices, &n);
    OCH_TRY_GOTO(sim_space_create(&sim_hip.space, &err));
    for (int i = 0; i < n; i++) {
        devices[i].ordinal = i;
        apply_quirks(&devices[i], &sim_hip.quirks);
    }
    sim_hip.devices = devices;
    sim_hip.n_devices = n;
    devices = NULL;
done:
    if (st != OCH_OK) {
        sim_hip.failed = st;
        fprintf(stderr, "ochre-sim: %s\n", err.message);
    }
    och_free(devices);
}

bool sim_hip_init(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, initialise);
    return sim_hip.failed == OCH_OK;
}

hipError_t sim_quirk_count(sim_quirk_id id, _Atomic uint64_t *counter, hipError_t fallback) {
    const sim_quirk *q = &sim_hip.quirks.q[id];
    if (!q->on || atomic_fetch_add(counter, 1) + 1 != q->value) return hipSuccess;
    return q->has_extra ? (hipError_t)q->extra : fallback;
}

sim_device *sim_device_at(int ordinal) {
    return ordinal >= 0 && ordinal < sim_hip.n_devices ? &sim_hip.devices[ordinal] : NULL;
}

sim_device *sim_device_current(void) {
    sim_thread *t = sim_thread_get();
    return t ? sim_device_at(t->device) : NULL;
}

int sim_location_device(hipMemLocation location) {
    return location.type == hipMemLocationTypeDevice ? location.id
           : location.type == hipMemLocationTypeInvalid ? hipInvalidDeviceId : hipCpuDeviceId;
}

void sim_device_break(sim_device *d, hipError_t e) {
    if (d->broken == hipSuccess) d->broken = e;
}

/* ---- threads ---- */
static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static bool thread_key_made;

static void thread_end(void *p) {
    sim_thread *t = p;
    if (t->own) {
        pthread_mutex_lock(&sim_hip.lock);
        for (int i = 0; i < sim_hip.n_devices; i++)
            if (t->own[i]) sim_stream_release(t->own[i]);
        pthread_mutex_unlock(&sim_hip.lock);
        och_free(t->own);
    }
    och_free(t->args);
    sim_declared_drop(t);
    och_free(t);
}

static void make_key(void) { thread_key_made = pthread_key_create(&thread_key, thread_end) == 0; }

sim_thread *sim_thread_get(void) {
    pthread_once(&thread_once, make_key);
    if (!thread_key_made) return NULL;
    sim_thread *t = pthread_getspecific(thread_key);
    if (t) return t;
    t = och_calloc(1, sizeof *t);
    if (!t) return NULL;
    static _Atomic uint64_t next;
    t->id = atomic_fetch_add(&next, 1) + 1;
    if (pthread_setspecific(thread_key, t)) {
        och_free(t);
        return NULL;
    }
    return t;
}

/* A runtime whose finalizer hangs is one of the field's quirks. */
__attribute__((destructor)) static void finalise(void) {
    if (sim_hip.quirks.q[SIM_QUIRK_finalizer_hangs].on)
        for (;;) pause();
}
