/* Queues, copies, events. */
#include "dev/hip/hip.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/size.h"
#include "dev/staging.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define STAGE_BYTES ((uint64_t)2 << 20) /* a half */

/* Errors that a kernel causes after its launch was accepted, and that meet whatever is called next. */
static bool is_fault(hipError_t e) {
    switch (e) {
        case hipErrorECCNotCorrectable:
        case hipErrorIllegalAddress:
        case hipErrorLaunchTimeOut:
        case hipErrorAssert:
        case hipErrorLaunchFailure:
        case hipErrorUnknown: return true;
        default: return false;
    }
}

och_status och_hip_fail_on(hip_queue *q, hipError_t e, och_err *err, const char *fmt, ...) {
    char what[320], culprits[360] = "";
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    if (is_fault(e)) {
        pthread_mutex_lock(&q->lock);
        och_ring_blame(&q->ring, "OCHRE_HIP_SYNC=1 names the one", culprits, sizeof culprits);
        pthread_mutex_unlock(&q->lock);
        q->fault_told = true;
    }
    och_err first;
    och_err_clear(&first);
    och_status st = och_hip_fail(q->base.device, e, &first, "%s", what);
    return och_err_set_native(err, st, (int64_t)e, "%s%s", first.message, culprits);
}

/* ---- queues ---- */

void och_hip_queue_retain(hip_queue *q) { __atomic_fetch_add(&q->refcount, 1, __ATOMIC_RELAXED); }

void och_hip_queue_release(hip_queue *q) {
    if (!q || __atomic_fetch_sub(&q->refcount, 1, __ATOMIC_ACQ_REL) != 1) return;
    pthread_mutex_destroy(&q->lock);
    och_free(q);
}

static och_status new_queue(och_device *d, hip_queue **out_queue, och_err *err) {
    hip_queue *q = och_calloc(1, sizeof *q);
    *out_queue = q;
    if (!q) return och_err_nomem(err, sizeof *q, "a queue");
    q->base.device = d;
    q->refcount = 1;
    och_capture_init(&q->capture, &q->base, och_hip_capture_drop);
    pthread_mutex_init(&q->lock, NULL);
    return OCH_OK;
}

och_status och_hip_queue_create(och_device *d, och_queue **out_queue, och_err *err) {
    hip_queue *q;
    *out_queue = NULL;
    OCH_TRY(och_capture_refuse(NULL, d, "queue create", err));
    OCH_TRY(new_queue(d, &q, err));
    och_hip_enter(d);
    hipError_t e = hip_api_of(d)->hipStreamCreateWithFlags(&q->stream, hipStreamNonBlocking);
    if (e != hipSuccess) {
        och_hip_queue_release(q);
        return och_hip_fail(d, e, err, "queue create");
    }
    *out_queue = &q->base;
    return OCH_OK;
}

och_status och_hip_queue_wrap(och_device *d, void *stream, och_queue **out_queue, och_err *err) {
    hip_queue *q;
    *out_queue = NULL;
    OCH_TRY(och_capture_refuse(NULL, d, "queue wrap", err));
    OCH_TRY(new_queue(d, &q, err));
    q->stream = stream;
    q->wrapped = true;
    *out_queue = &q->base;
    return OCH_OK;
}

void och_hip_queue_destroy(och_queue *queue) {
    hip_queue *q = hip_queue_of(queue);
    const och_device *d = queue->device;
    const hip_api *a = hip_api_of(d);
    och_capture_abandon("queue destroy");
    och_hip_enter(d);
    och_err lost;
    och_err_clear(&lost);
    bool told = q->fault_told; /* a device that is lost tells the same at every call */
    /* nobody is left to be told */
    if (!q->wrapped && och_hip_synchronise(queue, &lost) != OCH_OK && !told)
        och_log(OCH_LOG_WARN, "%s (found when the queue was destroyed)", lost.message);
    for (int i = 0; i < 2; i++) {
        if (q->wrapped && q->stage_busy[i]) (void)a->hipEventSynchronize(q->stage_event[i]); /* a copy reads what goes now */
        if (q->stage_event[i]) (void)a->hipEventDestroy(q->stage_event[i]);
    }
    if (q->stage) (void)a->hipHostFree(q->stage);
    if (!q->wrapped) (void)a->hipStreamDestroy(q->stream);
    (void)a->hipGetLastError();
    q->stream = NULL;
    och_hip_queue_release(q);
}

och_status och_hip_synchronise(och_queue *queue, och_err *err) {
    hip_queue *q = hip_queue_of(queue);
    OCH_TRY(och_capture_refuse(&q->capture, queue->device, "synchronise", err));
    och_hip_enter(queue->device);
    hipError_t e = hip_api_of(queue->device)->hipStreamSynchronize(q->stream);
    if (e != hipSuccess) return och_hip_fail_on(q, e, err, "synchronise");
    pthread_mutex_lock(&q->lock);
    q->ring.n = 0;
    pthread_mutex_unlock(&q->lock);
    return OCH_OK;
}

/* ---- copies ---- */

static void *ptr(och_dev_addr a) { return (void *)(uintptr_t)a.value; }

/* What no runtime checks: some take address 0 for the host's. */
static och_status check_addr(const och_queue *q, const char *op, const char *side, och_dev_addr a, uint64_t n_bytes, och_err *err) {
    uint64_t end;
    if (a.value && och_u64_add(a.value, n_bytes, &end)) return OCH_OK;
    return och_err_set(err, OCH_DEVICE, "device %s: %s of %" PRIu64 " bytes: the %s address is 0x%" PRIx64, q->device->info.label, op,
                       n_bytes, side, a.value);
}

static och_status no_host_pointer(const och_queue *q, const char *op, och_err *err) {
    return och_err_set(err, OCH_INVALID, "device %s: %s: the host pointer is NULL", q->device->info.label, op);
}

static och_status need_stage(hip_queue *q, const char *op, och_err *err) {
    const hip_api *a = hip_api_of(q->base.device);
    if (q->stage) return OCH_OK;
    hipError_t e = hipSuccess;
    for (int i = 0; i < 2 && e == hipSuccess; i++)
        if (!q->stage_event[i]) e = a->hipEventCreateWithFlags(&q->stage_event[i], hipEventDisableTiming);
    void *stage = NULL;
    if (e == hipSuccess) e = a->hipHostMalloc(&stage, 2 * STAGE_BYTES, hipHostMallocPortable);
    if (e == hipSuccess) {
        q->stage = stage;
        return OCH_OK;
    }
    return och_hip_fail(q->base.device, e, err, "%s: the pinned staging memory of %" PRIu64 " bytes", op, 2 * STAGE_BYTES);
}

/* The half that is used next, when its last copy has ended. */
static hipError_t take_half(hip_queue *q, unsigned *out_half) {
    unsigned half = q->stage_next++ & 1;
    *out_half = half;
    if (!q->stage_busy[half]) return hipSuccess;
    hipError_t e = hip_api_of(q->base.device)->hipEventSynchronize(q->stage_event[half]);
    if (e == hipSuccess) q->stage_busy[half] = false;
    return e;
}

static och_status copy_to_device(och_queue *queue, och_dev_addr dst, const void *src, uint64_t n_bytes, och_err *err) {
    hip_queue *q = hip_queue_of(queue);
    const hip_api *a = hip_api_of(queue->device);
    if (!n_bytes) return OCH_OK;
    if (!src) return no_host_pointer(queue, "copy to device", err);
    OCH_TRY(check_addr(queue, "copy to device", "destination", dst, n_bytes, err));
    och_hip_enter(queue->device);
    hipError_t e = hipSuccess;
    if (och_hip_is_pinned(src, n_bytes)) e = a->hipMemcpyAsync(ptr(dst), src, (size_t)n_bytes, hipMemcpyHostToDevice, q->stream);
    else {
        OCH_TRY(och_capture_refuse(NULL, queue->device, "copy to device from pageable memory", err));
        OCH_TRY(need_stage(q, "copy to device", err));
        for (uint64_t at = 0, n; at < n_bytes && e == hipSuccess; at += n) {
            unsigned half;
            n = OCH_MIN(n_bytes - at, STAGE_BYTES);
            if ((e = take_half(q, &half)) != hipSuccess) break;
            char *stage = q->stage + half * STAGE_BYTES;
            memcpy(stage, (const char *)src + at, (size_t)n);
            e = a->hipMemcpyAsync((char *)ptr(dst) + at, stage, (size_t)n, hipMemcpyHostToDevice, q->stream);
            if (e == hipSuccess) e = a->hipEventRecord(q->stage_event[half], q->stream);
            q->stage_busy[half] = e == hipSuccess;
        }
    }
    if (e == hipSuccess) return OCH_OK;
    return och_hip_fail_on(q, e, err, "copy to device of %" PRIu64 " bytes to 0x%" PRIx64, n_bytes, dst.value);
}

och_status och_hip_copy_to_device(och_queue *queue, och_dev_addr dst, const void *src, uint64_t n_bytes, och_err *err) {
    och_capture *c = &hip_queue_of(queue)->capture;
    OCH_TRY(och_capture_admit(c, "copy to device", err));
    return och_capture_result(c, "copy to device", copy_to_device(queue, dst, src, n_bytes, err));
}

static och_status copy_to_host(och_queue *queue, void *dst, och_dev_addr src, uint64_t n_bytes, och_err *err) {
    hip_queue *q = hip_queue_of(queue);
    const hip_api *a = hip_api_of(queue->device);
    if (!n_bytes) return OCH_OK;
    if (!dst) return no_host_pointer(queue, "copy to host", err);
    OCH_TRY(check_addr(queue, "copy to host", "source", src, n_bytes, err));
    och_hip_enter(queue->device);
    hipError_t e = hipSuccess;
    if (och_hip_is_pinned(dst, n_bytes)) e = a->hipMemcpyAsync(dst, ptr(src), (size_t)n_bytes, hipMemcpyDeviceToHost, q->stream);
    else {
        OCH_TRY(och_capture_refuse(NULL, queue->device, "copy to host into pageable memory", err));
        OCH_TRY(need_stage(q, "copy to host", err));
        /* one half is filled while the other is emptied */
        uint64_t given = 0, taken = 0, sizes[2] = {0, 0};
        unsigned halves[2], n_given = 0, n_taken = 0;
        while (taken < n_bytes && e == hipSuccess) {
            while (given < n_bytes && n_given - n_taken < 2 && e == hipSuccess) {
                unsigned slot = n_given & 1, half;
                if ((e = take_half(q, &half)) != hipSuccess) break;
                sizes[slot] = OCH_MIN(n_bytes - given, STAGE_BYTES);
                halves[slot] = half;
                e = a->hipMemcpyAsync(q->stage + half * STAGE_BYTES, (const char *)ptr(src) + given, (size_t)sizes[slot],
                                      hipMemcpyDeviceToHost, q->stream);
                if (e == hipSuccess) e = a->hipEventRecord(q->stage_event[half], q->stream);
                q->stage_busy[half] = e == hipSuccess;
                given += sizes[slot];
                n_given++;
            }
            if (e != hipSuccess) break;
            unsigned slot = n_taken++ & 1;
            if ((e = a->hipEventSynchronize(q->stage_event[halves[slot]])) != hipSuccess) break;
            q->stage_busy[halves[slot]] = false;
            memcpy((char *)dst + taken, q->stage + halves[slot] * STAGE_BYTES, (size_t)sizes[slot]);
            taken += sizes[slot];
        }
    }
    if (e == hipSuccess) return OCH_OK;
    return och_hip_fail_on(q, e, err, "copy to host of %" PRIu64 " bytes from 0x%" PRIx64, n_bytes, src.value);
}

och_status och_hip_copy_to_host(och_queue *queue, void *dst, och_dev_addr src, uint64_t n_bytes, och_err *err) {
    och_capture *c = &hip_queue_of(queue)->capture;
    OCH_TRY(och_capture_admit(c, "copy to host", err));
    return och_capture_result(c, "copy to host", copy_to_host(queue, dst, src, n_bytes, err));
}

static och_status copy(och_queue *queue, och_dev_addr dst, och_dev_addr src, uint64_t n_bytes, och_err *err) {
    if (!n_bytes) return OCH_OK;
    OCH_TRY(check_addr(queue, "copy", "destination", dst, n_bytes, err));
    OCH_TRY(check_addr(queue, "copy", "source", src, n_bytes, err));
    och_hip_enter(queue->device);
    /* either side may be pinned memory of the host */
    hipError_t e = hip_api_of(queue->device)
                       ->hipMemcpyAsync(ptr(dst), ptr(src), (size_t)n_bytes, hipMemcpyDefault, hip_queue_of(queue)->stream);
    if (e == hipSuccess) return OCH_OK;
    return och_hip_fail_on(hip_queue_of(queue), e, err, "copy of %" PRIu64 " bytes from 0x%" PRIx64 " to 0x%" PRIx64, n_bytes,
                           src.value, dst.value);
}

och_status och_hip_copy(och_queue *queue, och_dev_addr dst, och_dev_addr src, uint64_t n_bytes, och_err *err) {
    och_capture *c = &hip_queue_of(queue)->capture;
    OCH_TRY(och_capture_admit(c, "copy", err));
    return och_capture_result(c, "copy", copy(queue, dst, src, n_bytes, err));
}

/* Boards that can reach each other copy without the host. Once a pair; where it does not work the runtime goes through the
 * host by itself. */
static void reach(hip_device *from, const hip_device *to) {
    const hip_api *a = &from->lib->api;
    uint64_t bit = (uint64_t)1 << (to->ordinal & 63);
    int can = 0;
    if (!a->hipDeviceCanAccessPeer || !a->hipDeviceEnablePeerAccess || __atomic_fetch_or(&from->peers, bit, __ATOMIC_RELAXED) & bit)
        return;
    och_hip_enter(&from->base);
    if (a->hipDeviceCanAccessPeer(&can, from->ordinal, to->ordinal) == hipSuccess && can)
        (void)a->hipDeviceEnablePeerAccess(to->ordinal, 0); /* it may be so already */
    (void)a->hipGetLastError();
}

och_status och_hip_copy_peer(och_queue *queue, och_device *dst_dev, och_dev_addr dst, och_device *src_dev, och_dev_addr src,
                             uint64_t n_bytes, och_err *err) {
    hip_queue *q = hip_queue_of(queue);
    const hip_api *a = hip_api_of(queue->device);
    bool ours = och_hip_is(dst_dev) && och_hip_is(src_dev) && hip_of(dst_dev)->lib == hip_of(src_dev)->lib &&
                (queue->device == dst_dev || queue->device == src_dev);
    if (ours && hip_of(dst_dev)->ordinal == hip_of(src_dev)->ordinal) return och_hip_copy(queue, dst, src, n_bytes, err);
    OCH_TRY(och_capture_refuse(&q->capture, queue->device, "peer copy", err));
    if (!ours || !a->hipMemcpyPeerAsync)
        return och_dev_copy_peer_staged(queue, dst_dev, dst, src_dev, src, n_bytes, err);
    if (!n_bytes) return OCH_OK;
    OCH_TRY(check_addr(queue, "peer copy", "destination", dst, n_bytes, err));
    OCH_TRY(check_addr(queue, "peer copy", "source", src, n_bytes, err));
    reach(hip_of(dst_dev), hip_of(src_dev));
    reach(hip_of(src_dev), hip_of(dst_dev));
    och_hip_enter(queue->device);
    hipError_t e = a->hipMemcpyPeerAsync(ptr(dst), hip_of(dst_dev)->ordinal, ptr(src), hip_of(src_dev)->ordinal, (size_t)n_bytes,
                                         q->stream);
    if (e == hipSuccess) return OCH_OK;
    return och_hip_fail_on(q, e, err, "peer copy of %" PRIu64 " bytes from %s to %s", n_bytes, src_dev->info.label,
                           dst_dev->info.label);
}

static och_status fill(och_queue *queue, och_dev_addr dst, uint8_t byte, uint64_t n_bytes, och_err *err) {
    if (!n_bytes) return OCH_OK;
    OCH_TRY(check_addr(queue, "fill", "destination", dst, n_bytes, err));
    och_hip_enter(queue->device);
    hipError_t e = hip_api_of(queue->device)->hipMemsetAsync(ptr(dst), byte, (size_t)n_bytes, hip_queue_of(queue)->stream);
    if (e == hipSuccess) return OCH_OK;
    return och_hip_fail_on(hip_queue_of(queue), e, err, "fill of %" PRIu64 " bytes at 0x%" PRIx64, n_bytes, dst.value);
}

och_status och_hip_fill(och_queue *queue, och_dev_addr dst, uint8_t byte, uint64_t n_bytes, och_err *err) {
    och_capture *c = &hip_queue_of(queue)->capture;
    OCH_TRY(och_capture_admit(c, "fill", err));
    return och_capture_result(c, "fill", fill(queue, dst, byte, n_bytes, err));
}

/* ---- events ---- */

och_status och_hip_event_create(och_device *d, och_event **out_event, och_err *err) {
    *out_event = NULL;
    OCH_TRY(och_capture_refuse(NULL, d, "event create", err));
    och_event *v = och_calloc(1, sizeof *v);
    if (!v) return och_err_nomem(err, sizeof *v, "an event");
    v->device = d;
    pthread_mutex_init(&v->lock, NULL);
    och_hip_enter(d);
    hipError_t e = hip_api_of(d)->hipEventCreateWithFlags(&v->event, hipEventDisableTiming);
    if (e != hipSuccess) {
        pthread_mutex_destroy(&v->lock);
        och_free(v);
        return och_hip_fail(d, e, err, "event create");
    }
    *out_event = v;
    return OCH_OK;
}

void och_hip_event_destroy(och_event *v) {
    if (!v) return;
    och_capture_abandon("event destroy");
    (void)hip_api_of(v->device)->hipEventDestroy(v->event);
    och_hip_queue_release(v->queue);
    pthread_mutex_destroy(&v->lock);
    och_free(v);
}

/* The queue that recorded it, retained; NULL: never recorded, and that counts as done. */
static hip_queue *recorded_by(och_event *v) {
    pthread_mutex_lock(&v->lock);
    hip_queue *q = v->queue;
    if (q) och_hip_queue_retain(q);
    pthread_mutex_unlock(&v->lock);
    return q;
}

static och_status same_device(const och_queue *q, const och_event *v, const char *op, och_err *err) {
    if (q->device == v->device) return OCH_OK;
    return och_err_set(err, OCH_INVALID, "device %s: event %s: the event belongs to device %s", q->device->info.label, op,
                       v->device->info.label);
}

och_status och_hip_event_record(och_queue *queue, och_event *v, och_err *err) {
    hip_queue *q = hip_queue_of(queue);
    OCH_TRY(och_capture_refuse(&q->capture, queue->device, "event record", err));
    OCH_TRY(same_device(queue, v, "record", err));
    och_hip_enter(queue->device);
    hipError_t e = hip_api_of(queue->device)->hipEventRecord(v->event, q->stream);
    if (e != hipSuccess) return och_hip_fail_on(q, e, err, "event record");
    och_hip_queue_retain(q);
    pthread_mutex_lock(&v->lock);
    hip_queue *old = v->queue;
    v->queue = q;
    pthread_mutex_unlock(&v->lock);
    och_hip_queue_release(old);
    return OCH_OK;
}

och_status och_hip_event_query(och_event *v, bool *out_done, och_err *err) {
    *out_done = false;
    OCH_TRY(och_capture_refuse(NULL, v->device, "event query", err));
    hip_queue *q = recorded_by(v);
    const hip_api *a = hip_api_of(v->device);
    *out_done = true;
    if (!q) return OCH_OK;
    och_hip_enter(v->device);
    hipError_t e = a->hipEventQuery(v->event);
    och_status st = OCH_OK;
    if (e == hipErrorNotReady) {
        *out_done = false;
        (void)a->hipGetLastError(); /* some releases count it as an error of the thread */
    } else if (e != hipSuccess) {
        *out_done = false;
        st = och_hip_fail_on(q, e, err, "event query");
    }
    och_hip_queue_release(q);
    return st;
}

och_status och_hip_event_wait_host(och_event *v, och_err *err) {
    OCH_TRY(och_capture_refuse(NULL, v->device, "event wait", err));
    hip_queue *q = recorded_by(v);
    if (!q) return OCH_OK;
    och_hip_enter(v->device);
    hipError_t e = hip_api_of(v->device)->hipEventSynchronize(v->event);
    och_status st = e == hipSuccess ? OCH_OK : och_hip_fail_on(q, e, err, "event wait");
    och_hip_queue_release(q);
    return st;
}

och_status och_hip_event_wait_queue(och_queue *queue, och_event *v, och_err *err) {
    OCH_TRY(och_capture_refuse(&hip_queue_of(queue)->capture, queue->device, "event wait on a queue", err));
    OCH_TRY(same_device(queue, v, "wait", err));
    hip_queue *by = recorded_by(v);
    if (!by) return OCH_OK;
    och_hip_queue_release(by);
    och_hip_enter(queue->device);
    hipError_t e = hip_api_of(queue->device)->hipStreamWaitEvent(hip_queue_of(queue)->stream, v->event, 0);
    return e == hipSuccess ? OCH_OK : och_hip_fail_on(hip_queue_of(queue), e, err, "event wait on a queue");
}
