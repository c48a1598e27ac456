/* Events. Times are those of the clock that OCHRE_SIM_CLOCK names: the host's, or one that counts executed instructions. */
#include "hip/hip.h"

#include "hip/graph.h"

#include <string.h>

void sim_event_ref(sim_event *e) { e->refs++; }

static void forget_capture(sim_event *e) {
    och_free(e->tips);
    e->tips = NULL;
    e->n_tips = 0;
    e->capture_id = 0;
}

void sim_event_unref(sim_event *e) {
    if (!e || --e->refs) return;
    sim_signal_unref(e->signal);
    forget_capture(e);
    och_free(e);
}

void sim_event_set(sim_event *e, sim_stream *s, sim_signal *signal, bool at_begin) {
    sim_signal_ref(signal);
    sim_signal_unref(e->signal);
    e->signal = signal;
    e->dev = s->dev;
    e->at_begin = at_begin;
    forget_capture(e);
}

hipError_t sim_hipEventCreateWithFlags(hipEvent_t *event, unsigned flags) {
    const unsigned known = hipEventBlockingSync | hipEventDisableTiming | hipEventInterprocess | hipEventReleaseToDevice |
                           hipEventReleaseToSystem | hipEventDisableSystemFence;
    if (!event || (flags & ~known)) return hipErrorInvalidValue;
    if ((flags & hipEventReleaseToDevice) && (flags & hipEventReleaseToSystem)) return hipErrorInvalidValue;
    if ((flags & hipEventInterprocess) && !(flags & hipEventDisableTiming)) return hipErrorInvalidValue;
    sim_event *e = och_calloc(1, sizeof *e);
    if (!e) return hipErrorOutOfMemory;
    e->refs = 1;
    e->flags = flags;
    e->dev = sim_device_current();
    pthread_mutex_lock(&sim_hip.lock);
    bool ok = sim_handle_add(e, SIM_H_EVENT);
    pthread_mutex_unlock(&sim_hip.lock);
    if (!ok) {
        och_free(e);
        return hipErrorOutOfMemory;
    }
    *event = e;
    return hipSuccess;
}

/* Locks and checks the handle; the lock is held on success. */
static hipError_t open_event(hipEvent_t e) {
    pthread_mutex_lock(&sim_hip.lock);
    if (sim_handle_is(e, SIM_H_EVENT)) return hipSuccess;
    pthread_mutex_unlock(&sim_hip.lock);
    return hipErrorInvalidHandle;
}
static hipError_t done(hipError_t e) {
    pthread_mutex_unlock(&sim_hip.lock);
    return e;
}

hipError_t sim_hipEventDestroy(hipEvent_t event) {
    hipError_t e = open_event(event);
    if (e != hipSuccess) return e;
    sim_handle_remove(event);
    sim_event_unref(event);
    return done(hipSuccess);
}

hipError_t sim_hipEventRecordWithFlags(hipEvent_t event, hipStream_t stream, unsigned int flags) {
    if (flags & ~(unsigned)hipEventRecordExternal) return hipErrorInvalidValue;
    hipError_t e = open_event(event);
    if (e != hipSuccess) return e;
    sim_stream *s;
    e = sim_stream_resolve(stream, &s);
    if (e != hipSuccess) return done(e);
    if (s->capture && flags != hipEventRecordExternal) {
        /* no node: the event stands for what the stream has captured so far */
        if (s->capture->status != hipStreamCaptureStatusActive) return done(hipErrorStreamCaptureInvalidated);
        struct hipGraphNode **tips = s->n_tips ? och_malloc_array(s->n_tips, sizeof *tips) : NULL;
        if (s->n_tips && !tips) return done(hipErrorOutOfMemory);
        if (tips) memcpy(tips, s->tips, s->n_tips * sizeof *tips);
        forget_capture(event);
        event->tips = tips;
        event->n_tips = s->n_tips;
        event->capture_id = s->capture->id;
        return done(hipSuccess);
    }
    if (event->dev != s->dev && !s->capture) return done(hipErrorInvalidHandle);
    sim_op *op = sim_op_new(SIM_OP_RECORD);
    if (!op) return done(hipErrorOutOfMemory);
    sim_event_ref(event);
    op->u.event = event;
    return done(sim_submit(s, op, NULL));
}

hipError_t sim_hipEventSynchronize(hipEvent_t event) {
    hipError_t e = open_event(event);
    if (e != hipSuccess) return e;
    if (event->capture_id) return done(hipErrorCapturedEvent);
    if (!event->signal) return done(hipSuccess);
    sim_device *d = event->dev;
    sim_wait(event->signal);
    return done(d->broken);
}

hipError_t sim_hipEventQuery(hipEvent_t event) {
    hipError_t e = open_event(event);
    if (e != hipSuccess) return e;
    if (event->capture_id) return done(hipErrorCapturedEvent);
    return done(!event->signal ? hipSuccess : event->signal->done ? event->dev->broken : hipErrorNotReady);
}

hipError_t sim_hipEventElapsedTime(float *ms, hipEvent_t start, hipEvent_t stop) {
    if (!ms) return hipErrorInvalidValue;
    hipError_t e = open_event(start);
    if (e != hipSuccess) return e;
    if (!sim_handle_is(stop, SIM_H_EVENT) || ((start->flags | stop->flags) & hipEventDisableTiming) || !start->signal ||
        !stop->signal || start->dev != stop->dev)
        return done(hipErrorInvalidHandle);
    if (start->capture_id || stop->capture_id) return done(hipErrorCapturedEvent);
    if (!start->signal->done || !stop->signal->done) return done(hipErrorNotReady);
    uint64_t a = start->at_begin ? start->signal->begin_ns : start->signal->end_ns, b = stop->signal->end_ns;
    *ms = (float)((double)(int64_t)(b - a) * 1e-6);
    return done(hipSuccess);
}
