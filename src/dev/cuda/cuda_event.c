/* Events. */
#include "dev/cuda/cuda.h"

#include "base/alloc.h"

och_status och_cuda_event_create(och_device *d, och_event **out_event, och_err *err) {
    *out_event = NULL;
    OCH_TRY(och_capture_refuse(NULL, d, "event create", err));
    OCH_TRY(och_cuda_enter(d, "event create", err));
    och_event *v = och_calloc(1, sizeof *v);
    if (!v) return och_err_nomem(err, sizeof *v, "an event");
    v->device = d;
    CUresult e = cuda_api_of(d)->cuEventCreate(&v->event, CU_EVENT_DISABLE_TIMING);
    if (e != CUDA_SUCCESS) {
        och_free(v);
        return och_cuda_fail(d, e, err, "event create");
    }
    pthread_mutex_init(&v->lock, NULL);
    *out_event = v;
    return OCH_OK;
}

void och_cuda_event_destroy(och_event *v) {
    if (!v) return;
    och_capture_abandon("event destroy");
    if (och_cuda_enter_quietly(v->device)) (void)cuda_api_of(v->device)->cuEventDestroy_v2(v->event);
    och_cuda_queue_release(v->queue);
    pthread_mutex_destroy(&v->lock);
    och_free(v);
}

/* The queue that recorded it, retained; NULL: never recorded, and that counts as done. */
static cuda_queue *recorded_by(och_event *v) {
    pthread_mutex_lock(&v->lock);
    cuda_queue *q = v->queue;
    if (q) och_cuda_queue_retain(q);
    pthread_mutex_unlock(&v->lock);
    return q;
}

static och_status same_device(const och_queue *q, const och_event *v, const char *op, och_err *err) {
    if (q->device == v->device) return OCH_OK;
    return och_err_set(err, OCH_INVALID, "device %s: event %s: the event belongs to device %s", q->device->info.label, op,
                       v->device->info.label);
}

och_status och_cuda_event_record(och_queue *queue, och_event *v, och_err *err) {
    cuda_queue *q = cuda_queue_of(queue);
    OCH_TRY(och_capture_refuse(&q->capture, queue->device, "event record", err));
    OCH_TRY(same_device(queue, v, "record", err));
    OCH_TRY(och_cuda_enter(queue->device, "event record", err));
    CUresult e = cuda_api_of(queue->device)->cuEventRecord(v->event, q->stream);
    if (e != CUDA_SUCCESS) return och_cuda_fail_on(q, e, err, "event record");
    och_cuda_queue_retain(q);
    pthread_mutex_lock(&v->lock);
    cuda_queue *old = v->queue;
    v->queue = q;
    pthread_mutex_unlock(&v->lock);
    och_cuda_queue_release(old);
    return OCH_OK;
}

och_status och_cuda_event_query(och_event *v, bool *out_done, och_err *err) {
    *out_done = false;
    OCH_TRY(och_capture_refuse(NULL, v->device, "event query", err));
    OCH_TRY(och_cuda_enter(v->device, "event query", err));
    cuda_queue *q = recorded_by(v);
    och_status st = OCH_OK;
    CUresult e = q ? cuda_api_of(v->device)->cuEventQuery(v->event) : CUDA_SUCCESS;
    if (e == CUDA_SUCCESS) *out_done = true;
    else if (e != CUDA_ERROR_NOT_READY) st = och_cuda_fail_on(q, e, err, "event query");
    och_cuda_queue_release(q);
    return st;
}

och_status och_cuda_event_wait_host(och_event *v, och_err *err) {
    OCH_TRY(och_capture_refuse(NULL, v->device, "event wait", err));
    OCH_TRY(och_cuda_enter(v->device, "event wait", err));
    cuda_queue *q = recorded_by(v);
    if (!q) return OCH_OK;
    CUresult e = cuda_api_of(v->device)->cuEventSynchronize(v->event);
    och_status st = e == CUDA_SUCCESS ? OCH_OK : och_cuda_fail_on(q, e, err, "event wait");
    och_cuda_queue_release(q);
    return st;
}

och_status och_cuda_event_wait_queue(och_queue *queue, och_event *v, och_err *err) {
    OCH_TRY(och_capture_refuse(&cuda_queue_of(queue)->capture, queue->device, "event wait on a queue", err));
    OCH_TRY(same_device(queue, v, "wait", err));
    OCH_TRY(och_cuda_enter(queue->device, "event wait on a queue", err));
    cuda_queue *by = recorded_by(v);
    if (!by) return OCH_OK;
    och_cuda_queue_release(by);
    CUresult e = cuda_api_of(queue->device)->cuStreamWaitEvent(cuda_queue_of(queue)->stream, v->event, 0);
    return e == CUDA_SUCCESS ? OCH_OK : och_cuda_fail_on(cuda_queue_of(queue), e, err, "event wait on a queue");
}
