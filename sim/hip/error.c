#include "hip/hip.h"

static const struct {
    hipError_t value;
    const char *name, *text;
} rows[] = {
#define HIP_ERROR(name, value, text) {name, #name, text},
#include "hip/hip_errors.def"
#undef HIP_ERROR
};

const char *sim_hipGetErrorName(hipError_t hip_error) {
    for (size_t i = 0; i < OCH_COUNT(rows); i++)
        if (rows[i].value == hip_error) return rows[i].name;
    return "hipErrorUnknown";
}

const char *sim_hipGetErrorString(hipError_t hipError) {
    for (size_t i = 0; i < OCH_COUNT(rows); i++)
        if (rows[i].value == hipError) return rows[i].text;
    return "unknown error";
}

static bool known(hipError_t e) {
    for (size_t i = 0; i < OCH_COUNT(rows); i++)
        if (rows[i].value == e) return true;
    return false;
}

hipError_t sim_error_name(hipError_t e, const char **out) {
    if (!out || !known(e)) return hipErrorInvalidValue;
    *out = sim_hipGetErrorName(e);
    return hipSuccess;
}

hipError_t sim_error_string(hipError_t e, const char **out) {
    if (!out || !known(e)) return hipErrorInvalidValue;
    *out = sim_hipGetErrorString(e);
    return hipSuccess;
}

/* Until 6.x the result of the latest call, whatever it was; from 7.0 on the latest real error. */
static hipError_t *slot_of(sim_thread *t) { return sim_hip_at_least(7) ? &t->sticky : &t->last; }

hipError_t sim_hipPeekAtLastError(void) {
    sim_thread *t = sim_thread_get();
    return t ? *slot_of(t) : hipErrorOutOfMemory;
}

hipError_t sim_hipGetLastError(void) {
    sim_thread *t = sim_thread_get();
    if (!t) return hipErrorOutOfMemory;
    hipError_t e = *slot_of(t);
    t->last = t->sticky = hipSuccess;
    return e;
}

hipError_t sim_hipExtGetLastError(void) {
    sim_thread *t = sim_thread_get();
    if (!t) return hipErrorOutOfMemory;
    hipError_t e = t->last;
    t->last = hipSuccess;
    return e;
}
