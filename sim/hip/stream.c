/* Stream calls. Queues and threads are queue.c's. */
#include "hip/hip.h"

#include "hip/graph.h"

#include <string.h>

enum { PRIORITY_LOW = 1, PRIORITY_HIGH = -1 };

hipError_t sim_hipDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority) {
    if (leastPriority) *leastPriority = PRIORITY_LOW;
    if (greatestPriority) *greatestPriority = PRIORITY_HIGH;
    return hipSuccess;
}

hipError_t sim_hipStreamCreateWithPriority(hipStream_t *stream, unsigned int flags, int priority) {
    if (!stream || (flags & ~(unsigned)hipStreamNonBlocking)) return hipErrorInvalidValue;
    if (priority < PRIORITY_HIGH) priority = PRIORITY_HIGH;
    if (priority > PRIORITY_LOW) priority = PRIORITY_LOW;
    sim_device *d = sim_device_current();
    pthread_mutex_lock(&sim_hip.lock);
    sim_stream *s;
    hipError_t e = sim_stream_new(d, flags, priority, &s);
    if (e == hipSuccess) {
        s->next_of_device = d->streams;
        d->streams = s;
        *stream = s;
    }
    pthread_mutex_unlock(&sim_hip.lock);
    return e;
}

hipError_t sim_hipExtStreamCreateWithCUMask(hipStream_t *stream, uint32_t cuMaskSize, const uint32_t *cuMask) {
    if (!stream || !cuMask || !cuMaskSize) return hipErrorInvalidValue;
    hipError_t e = sim_hipStreamCreateWithPriority(stream, 0, 0);
    if (e != hipSuccess) return e;
    size_t n = cuMaskSize < OCH_COUNT((*stream)->cu_mask) ? cuMaskSize : OCH_COUNT((*stream)->cu_mask);
    memcpy((*stream)->cu_mask, cuMask, n * 4);
    return hipSuccess;
}

/* Resolves under the lock, which is held on success. */
static hipError_t open_stream(hipStream_t h, sim_stream **out) {
    pthread_mutex_lock(&sim_hip.lock);
    hipError_t e = sim_stream_resolve(h, out);
    if (e != hipSuccess) pthread_mutex_unlock(&sim_hip.lock);
    return e;
}
static hipError_t done(hipError_t e) {
    pthread_mutex_unlock(&sim_hip.lock);
    return e;
}

hipError_t sim_hipExtStreamGetCUMask(hipStream_t stream, uint32_t cuMaskSize, uint32_t *cuMask) {
    if (!cuMask || !cuMaskSize) return hipErrorInvalidValue;
    sim_stream *s;
    hipError_t e = open_stream(stream, &s);
    if (e != hipSuccess) return e;
    uint32_t n_cus = s->dev->board.compute_units, any = 0;
    for (size_t i = 0; i < OCH_COUNT(s->cu_mask); i++) any |= s->cu_mask[i];
    if (cuMaskSize < (n_cus + 31) / 32) return done(hipErrorInvalidValue);
    for (uint32_t i = 0; i < cuMaskSize; i++) {
        uint32_t first = i * 32, all = first >= n_cus ? 0 : n_cus - first >= 32 ? ~0u : (1u << (n_cus - first)) - 1;
        cuMask[i] = !any ? all : i < OCH_COUNT(s->cu_mask) ? s->cu_mask[i] & all : 0;
    }
    return done(hipSuccess);
}

hipError_t sim_hipStreamDestroy(hipStream_t stream) {
    if (!stream || stream == hipStreamPerThread || stream == hipStreamLegacy) return hipErrorInvalidHandle;
    sim_stream *s;
    hipError_t e = open_stream(stream, &s);
    if (e != hipSuccess) return e;
    sim_stream_release(s);
    return done(hipSuccess);
}

hipError_t sim_hipStreamSynchronize(hipStream_t stream) {
    sim_stream *s;
    hipError_t e = open_stream(stream, &s);
    if (e != hipSuccess) return e;
    if (s->capture) return done(sim_capture_invalidate(s->capture, hipErrorStreamCaptureUnsupported));
    sim_device *d = s->dev;
    if (s == d->null_stream) {
        if ((e = sim_capture_implicit(d)) != hipSuccess) return done(e);
        /* the null stream comes after the blocking ones */
        for (;;) {
            sim_stream *busy = NULL;
            for (sim_stream *o = d->streams; o && !busy; o = o->next_of_device)
                if (!(o->flags & hipStreamNonBlocking) && !o->capture && !sim_stream_idle(o)) busy = o;
            if (!busy) break;
            sim_stream_wait(busy);
        }
    }
    sim_stream_wait(s);
    return done(d->broken);
}

hipError_t sim_hipStreamQuery(hipStream_t stream) {
    sim_stream *s;
    hipError_t e = open_stream(stream, &s);
    if (e != hipSuccess) return e;
    if (s->capture) return done(sim_capture_invalidate(s->capture, hipErrorStreamCaptureUnsupported));
    e = sim_stream_idle(s) ? s->dev->broken : hipErrorNotReady;
    if (s == s->dev->null_stream && e == hipSuccess)
        for (sim_stream *o = s->dev->streams; o; o = o->next_of_device)
            if (!(o->flags & hipStreamNonBlocking) && !o->capture && !sim_stream_idle(o)) e = hipErrorNotReady;
    return done(e);
}

hipError_t sim_hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned int flags) {
    if (flags & ~(unsigned)hipEventWaitExternal) return hipErrorInvalidValue;
    sim_stream *s;
    hipError_t e = open_stream(stream, &s);
    if (e != hipSuccess) return e;
    if (!sim_handle_is(event, SIM_H_EVENT)) return done(hipErrorInvalidHandle);
    if (s->capture && flags == hipEventWaitExternal) {
        sim_op *op = sim_op_new(SIM_OP_WAIT);
        if (!op) return done(hipErrorOutOfMemory);
        sim_event_ref(event);
        op->u.event = event;
        return done(sim_capture_add(s, op));
    }
    if (event->capture_id) {
        /* the event of a capture draws the stream into it */
        sim_capture *c = NULL;
        for (sim_capture *k = sim_captures; k; k = k->next)
            if (k->id == event->capture_id) c = k;
        if (!c) return done(hipErrorCapturedEvent);
        if (s == s->dev->null_stream) return done(sim_capture_invalidate(c, hipErrorStreamCaptureImplicit));
        return done(sim_capture_join(s, c, event->tips, event->n_tips));
    }
    if (s->capture) return done(sim_capture_invalidate(s->capture, hipErrorStreamCaptureIsolation));
    if (event->signal && !sim_add_pending(s, event->signal)) return done(hipErrorOutOfMemory);
    return done(hipSuccess);
}

hipError_t sim_hipStreamGetFlags(hipStream_t stream, unsigned int *flags) {
    sim_stream *s;
    if (!flags) return hipErrorInvalidValue;
    hipError_t e = open_stream(stream, &s);
    if (e != hipSuccess) return e;
    *flags = s->flags;
    return done(hipSuccess);
}

hipError_t sim_hipStreamGetPriority(hipStream_t stream, int *priority) {
    sim_stream *s;
    if (!priority) return hipErrorInvalidValue;
    hipError_t e = open_stream(stream, &s);
    if (e != hipSuccess) return e;
    *priority = s->priority;
    return done(hipSuccess);
}

hipError_t sim_hipStreamGetDevice(hipStream_t stream, hipDevice_t *device) {
    sim_stream *s;
    if (!device) return hipErrorInvalidValue;
    hipError_t e = open_stream(stream, &s);
    if (e != hipSuccess) return e;
    *device = s->dev->ordinal;
    return done(hipSuccess);
}

hipError_t sim_hipStreamGetId(hipStream_t stream, unsigned long long *streamId) {
    sim_stream *s;
    if (!streamId) return hipErrorInvalidValue;
    hipError_t e = open_stream(stream, &s);
    if (e != hipSuccess) return e;
    *streamId = s->id;
    return done(hipSuccess);
}

int sim_hipGetStreamDeviceId(hipStream_t stream) {
    hipDevice_t d;
    return sim_hip_init() && sim_hipStreamGetDevice(stream, &d) == hipSuccess ? d : -1;
}

hipError_t sim_hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t callback, void *userData, unsigned int flags) {
    if (!callback || flags) return hipErrorInvalidValue;
    sim_stream *s;
    hipError_t e = open_stream(stream, &s);
    if (e != hipSuccess) return e;
    if (s->capture) return done(sim_capture_invalidate(s->capture, hipErrorStreamCaptureUnsupported));
    sim_op *op = sim_op_new(SIM_OP_CALLBACK);
    if (!op) return done(hipErrorOutOfMemory);
    op->u.callback.fn = callback;
    op->u.callback.user = userData;
    op->u.callback.stream = stream;
    return done(sim_submit(s, op, NULL));
}

hipError_t sim_hipLaunchHostFunc(hipStream_t stream, hipHostFn_t fn, void *userData) {
    if (!fn) return hipErrorInvalidValue;
    sim_op *op = sim_op_new(SIM_OP_HOST);
    if (!op) return hipErrorOutOfMemory;
    op->u.host.fn = fn;
    op->u.host.user = userData;
    return sim_run_op(stream, op, false);
}

static hipError_t value_op(sim_op_kind kind, hipStream_t stream, void *ptr, uint64_t value, unsigned flags, uint64_t mask,
                           unsigned bytes) {
    if (!ptr || (uintptr_t)ptr % bytes || !sim_is_known(ptr) || !sim_host_of(ptr, bytes)) return hipErrorInvalidValue;
    sim_op *op = sim_op_new(kind);
    if (!op) return hipErrorOutOfMemory;
    op->u.value.ptr = ptr;
    op->u.value.value = value;
    op->u.value.mask = mask;
    op->u.value.flags = flags;
    op->u.value.bytes = bytes;
    return sim_run_op(stream, op, false);
}

hipError_t sim_stream_wait_value(hipStream_t stream, void *ptr, uint64_t value, unsigned flags, uint64_t mask, unsigned bytes) {
    return flags > hipStreamWaitValueNor ? hipErrorInvalidValue : value_op(SIM_OP_WAIT_VALUE, stream, ptr, value, flags, mask,
                                                                           bytes);
}

hipError_t sim_stream_write_value(hipStream_t stream, void *ptr, uint64_t value, unsigned flags, unsigned bytes) {
    return flags ? hipErrorInvalidValue : value_op(SIM_OP_WRITE_VALUE, stream, ptr, value, 0, ~0ull, bytes);
}
