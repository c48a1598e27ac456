/* The exported calls: a wrapper around each body for what all share (initialisation, a device that is broken, what a capture
 * forbids, the last error, the trace), made from the table. */
#include "hip/hip.h"

#include <stdio.h>
#include <string.h>

#define HIP_EXPORT __attribute__((visibility("default")))

/* What a call asks for, the flags column of the table. */
typedef enum call_needs {
    NEEDS_E, /* an error query: it is not itself recorded */
    NEEDS_P, /* nothing but initialisation */
    NEEDS_D, /* a device in order */
    NEEDS_U  /* the same, and no capture that forbids it */
} call_needs;

static hipError_t enter(call_needs needs) {
    if (!sim_hip_init()) return sim_hip.failed == OCH_NOMEM ? hipErrorOutOfMemory : hipErrorNotInitialized;
    sim_thread *t = sim_thread_get();
    if (!t) return hipErrorOutOfMemory;
    if (needs <= NEEDS_P) return hipSuccess;
    sim_device *d = sim_device_at(t->device);
    if (!d) return hipErrorNoDevice;
    pthread_mutex_lock(&sim_hip.lock);
    hipError_t e = d->broken;
    if (e == hipSuccess && needs == NEEDS_U) e = sim_capture_forbids();
    pthread_mutex_unlock(&sim_hip.lock);
    return e;
}

static hipError_t leave(call_needs needs, const char *name, hipError_t e) {
    sim_thread *t = sim_thread_get();
    if (t && needs != NEEDS_E) {
        t->last = e;
        if (e != hipSuccess && e != hipErrorNotReady) t->sticky = e;
    }
    if (sim_hip.trace) fprintf(stderr, "ochre-sim: [%llu] %s -> %s\n", t ? (unsigned long long)t->id : 0, name,
                               sim_hipGetErrorName(e));
    return e;
}

/* Inside an _spt call stream 0 is the thread's own stream. */
static void spt(int by) {
    sim_thread *t = sim_thread_get();
    if (t) t->spt += by;
}

/* A row may leave an argument of the call out. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define HIP_API(node, flags, name, params, args)                                                                               \
    HIP_EXPORT hipError_t name params;                                                                                         \
    hipError_t name params {                                                                                                   \
        hipError_t sim_e = enter(NEEDS_##flags);                                                                               \
        return leave(NEEDS_##flags, #name, sim_e == hipSuccess ? sim_##name args : sim_e);                                     \
    }
#define HIP_ALIAS(node, flags, name, body, params, args)                                                                       \
    HIP_EXPORT hipError_t name params;                                                                                         \
    hipError_t name params {                                                                                                   \
        hipError_t sim_e = enter(NEEDS_##flags);                                                                               \
        return leave(NEEDS_##flags, #name, sim_e == hipSuccess ? sim_##body args : sim_e);                                     \
    }
#define HIP_SPT(node, flags, name, body, params, args)                                                                         \
    HIP_EXPORT hipError_t name params;                                                                                         \
    hipError_t name params {                                                                                                   \
        hipError_t sim_e = enter(NEEDS_##flags);                                                                               \
        spt(1);                                                                                                                \
        if (sim_e == hipSuccess) sim_e = sim_##body args;                                                                      \
        spt(-1);                                                                                                               \
        return leave(NEEDS_##flags, #name, sim_e);                                                                             \
    }
#define HIP_RET(node, ret, name, params, args)                                                                                 \
    HIP_EXPORT ret name params;                                                                                                \
    ret name params { return sim_##name args; }
#define HIP_VOID(node, name, params, args)                                                                                     \
    HIP_EXPORT void name params;                                                                                               \
    void name params { sim_##name args; }
#define HIP_NOT(node, name, why)                                                                                               \
    HIP_EXPORT hipError_t name(void);                                                                                          \
    hipError_t name(void) { return leave(NEEDS_P, #name, hipErrorNotSupported); }
#include "hip/hip_syms.def"
#undef HIP_API
#undef HIP_ALIAS
#undef HIP_SPT
#undef HIP_RET
#undef HIP_VOID
#undef HIP_NOT

typedef struct row { const char *name; void *address; } row;
#define HIP_API(node, flags, name, params, args) {#name, (void *)(uintptr_t)name},
#define HIP_ALIAS(node, flags, name, body, params, args) {#name, (void *)(uintptr_t)name},
#define HIP_SPT(node, flags, name, body, params, args) {#name, (void *)(uintptr_t)name},
#define HIP_RET(node, ret, name, params, args) {#name, (void *)(uintptr_t)name},
#define HIP_VOID(node, name, params, args) {#name, (void *)(uintptr_t)name},
#define HIP_NOT(node, name, why) {#name, (void *)(uintptr_t)name},
static const row rows[] = {
#include "hip/hip_syms.def"
};

static void *find(const char *name) {
    for (size_t i = 0; i < OCH_COUNT(rows); i++)
        if (!strcmp(rows[i].name, name)) return rows[i].address;
    return NULL;
}

/* The plain names mean the newer layout to a caller of HIP 6 and later. */
hipError_t sim_entry_point(const char *symbol, void **out, int version, hipDriverProcAddressQueryResult *status) {
    if (!symbol || !*symbol || !out) return hipErrorInvalidValue;
    if (version == 0) version = sim_hip.version / 100;
    void *p = NULL;
    if (version >= 600 && (!strcmp(symbol, "hipGetDeviceProperties") || !strcmp(symbol, "hipChooseDevice"))) {
        char name[64];
        snprintf(name, sizeof name, "%sR0600", symbol);
        p = find(name);
    }
    if (!p && sim_thread_get() && sim_thread_get()->spt) {
        char name[96];
        snprintf(name, sizeof name, "%s_spt", symbol);
        p = find(name);
    }
    if (!p) p = find(symbol);
    *out = p;
    if (status) *status = p ? HIP_GET_PROC_ADDRESS_SUCCESS : HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return p ? hipSuccess : hipErrorInvalidValue;
}
