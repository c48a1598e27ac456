/* Queues and copies. Pageable memory needs no staging of this backend's: the driver copies it through pinned memory of its own,
 * and has read all of it when the call returns. */
#include "dev/cuda/cuda.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/size.h"
#include "dev/staging.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- queues ---- */

void och_cuda_queue_retain(cuda_queue *q) { __atomic_fetch_add(&q->refcount, 1, __ATOMIC_RELAXED); }

void och_cuda_queue_release(cuda_queue *q) {
    if (!q || __atomic_fetch_sub(&q->refcount, 1, __ATOMIC_ACQ_REL) != 1) return;
    pthread_mutex_destroy(&q->lock);
    och_free(q);
}

static och_status new_queue(och_device *d, cuda_queue **out_queue, och_err *err) {
    cuda_queue *q = och_calloc(1, sizeof *q);
    *out_queue = q;
    if (!q) return och_err_nomem(err, sizeof *q, "a queue");
    q->base.device = d;
    q->refcount = 1;
    och_capture_init(&q->capture, &q->base, och_cuda_capture_drop);
    pthread_mutex_init(&q->lock, NULL);
    return OCH_OK;
}

och_status och_cuda_queue_create(och_device *d, och_queue **out_queue, och_err *err) {
    cuda_queue *q;
    *out_queue = NULL;
    OCH_TRY(och_capture_refuse(NULL, d, "queue create", err));
    OCH_TRY(och_cuda_enter(d, "queue create", err));
    OCH_TRY(new_queue(d, &q, err));
    CUresult e = cuda_api_of(d)->cuStreamCreate(&q->stream, CU_STREAM_NON_BLOCKING);
    if (e != CUDA_SUCCESS) {
        och_cuda_queue_release(q);
        return och_cuda_fail(d, e, err, "queue create");
    }
    *out_queue = &q->base;
    return OCH_OK;
}

och_status och_cuda_queue_wrap(och_device *d, void *stream, och_queue **out_queue, och_err *err) {
    cuda_queue *q;
    *out_queue = NULL;
    OCH_TRY(och_capture_refuse(NULL, d, "queue wrap", err));
    OCH_TRY(och_cuda_enter(d, "queue wrap", err));
    OCH_TRY(new_queue(d, &q, err));
    q->stream = stream;
    q->wrapped = true;
    *out_queue = &q->base;
    return OCH_OK;
}

void och_cuda_queue_destroy(och_queue *queue) {
    cuda_queue *q = cuda_queue_of(queue);
    const och_device *d = queue->device;
    och_capture_abandon("queue destroy");
    och_err lost;
    och_err_clear(&lost);
    if (och_cuda_enter_quietly(d) && !q->wrapped) {
        if (och_cuda_synchronise(queue, &lost) != OCH_OK) /* nobody is left to be told */
            och_log(OCH_LOG_WARN, "%s (found when the queue was destroyed)", lost.message);
        (void)cuda_api_of(d)->cuStreamDestroy_v2(q->stream);
    }
    q->stream = NULL;
    och_cuda_queue_release(q);
}

och_status och_cuda_synchronise(och_queue *queue, och_err *err) {
    cuda_queue *q = cuda_queue_of(queue);
    OCH_TRY(och_capture_refuse(&q->capture, queue->device, "synchronise", err));
    OCH_TRY(och_cuda_enter(queue->device, "synchronise", err));
    CUresult e = cuda_api_of(queue->device)->cuStreamSynchronize(q->stream);
    if (e != CUDA_SUCCESS) return och_cuda_fail_on(q, e, err, "synchronise");
    pthread_mutex_lock(&q->lock);
    q->ring.n = 0;
    pthread_mutex_unlock(&q->lock);
    return OCH_OK;
}

/* ---- copies ---- */

static och_status check_addr(const och_queue *q, const char *op, const char *side, och_dev_addr a, uint64_t n_bytes,
                             och_err *err) {
    uint64_t end;
    if (a.value && och_u64_add(a.value, n_bytes, &end)) return OCH_OK;
    return och_err_set(err, OCH_DEVICE, "device %s: %s of %" PRIu64 " bytes: the %s address is 0x%" PRIx64,
                       q->device->info.label, op, n_bytes, side, a.value);
}

static och_status check_host(cuda_queue *q, const char *op, const void *host, uint64_t n_bytes, och_err *err) {
    if (!host)
        return och_err_set(err, OCH_INVALID, "device %s: %s: the host pointer is NULL", q->base.device->info.label, op);
    /* what a graph holds is the address, and pageable memory is copied at the call */
    if (och_capture_here() && !och_cuda_is_pinned(host, n_bytes)) {
        char what[80];
        snprintf(what, sizeof what, "%s of pageable memory", op);
        return och_capture_refuse(&q->capture, q->base.device, what, err);
    }
    return OCH_OK;
}

static och_status copy_to_device(och_queue *queue, och_dev_addr dst, const void *src, uint64_t n_bytes, och_err *err) {
    cuda_queue *q = cuda_queue_of(queue);
    if (!n_bytes) return OCH_OK;
    OCH_TRY(check_host(q, "copy to device", src, n_bytes, err));
    OCH_TRY(check_addr(queue, "copy to device", "destination", dst, n_bytes, err));
    OCH_TRY(och_cuda_enter(queue->device, "copy to device", err));
    CUresult e = cuda_api_of(queue->device)->cuMemcpyHtoDAsync_v2(dst.value, src, (size_t)n_bytes, q->stream);
    if (e == CUDA_SUCCESS) return OCH_OK;
    return och_cuda_fail_on(q, e, err, "copy to device of %" PRIu64 " bytes to 0x%" PRIx64, n_bytes, dst.value);
}

och_status och_cuda_copy_to_device(och_queue *queue, och_dev_addr dst, const void *src, uint64_t n_bytes, och_err *err) {
    och_capture *c = &cuda_queue_of(queue)->capture;
    OCH_TRY(och_capture_admit(c, "copy to device", err));
    return och_capture_result(c, "copy to device", copy_to_device(queue, dst, src, n_bytes, err));
}

static och_status copy_to_host(och_queue *queue, void *dst, och_dev_addr src, uint64_t n_bytes, och_err *err) {
    cuda_queue *q = cuda_queue_of(queue);
    if (!n_bytes) return OCH_OK;
    OCH_TRY(check_host(q, "copy to host", dst, n_bytes, err));
    OCH_TRY(check_addr(queue, "copy to host", "source", src, n_bytes, err));
    OCH_TRY(och_cuda_enter(queue->device, "copy to host", err));
    CUresult e = cuda_api_of(queue->device)->cuMemcpyDtoHAsync_v2(dst, src.value, (size_t)n_bytes, q->stream);
    if (e == CUDA_SUCCESS) return OCH_OK;
    return och_cuda_fail_on(q, e, err, "copy to host of %" PRIu64 " bytes from 0x%" PRIx64, n_bytes, src.value);
}

och_status och_cuda_copy_to_host(och_queue *queue, void *dst, och_dev_addr src, uint64_t n_bytes, och_err *err) {
    och_capture *c = &cuda_queue_of(queue)->capture;
    OCH_TRY(och_capture_admit(c, "copy to host", err));
    return och_capture_result(c, "copy to host", copy_to_host(queue, dst, src, n_bytes, err));
}

static och_status copy(och_queue *queue, och_dev_addr dst, och_dev_addr src, uint64_t n_bytes, och_err *err) {
    cuda_queue *q = cuda_queue_of(queue);
    if (!n_bytes) return OCH_OK;
    OCH_TRY(check_addr(queue, "copy", "destination", dst, n_bytes, err));
    OCH_TRY(check_addr(queue, "copy", "source", src, n_bytes, err));
    OCH_TRY(och_cuda_enter(queue->device, "copy", err));
    /* either side may be pinned memory of the host: an address says whose it is */
    CUresult e = cuda_api_of(queue->device)->cuMemcpyAsync(dst.value, src.value, (size_t)n_bytes, q->stream);
    if (e == CUDA_SUCCESS) return OCH_OK;
    return och_cuda_fail_on(q, e, err, "copy of %" PRIu64 " bytes from 0x%" PRIx64 " to 0x%" PRIx64, n_bytes, src.value,
                            dst.value);
}

och_status och_cuda_copy(och_queue *queue, och_dev_addr dst, och_dev_addr src, uint64_t n_bytes, och_err *err) {
    och_capture *c = &cuda_queue_of(queue)->capture;
    OCH_TRY(och_capture_admit(c, "copy", err));
    return och_capture_result(c, "copy", copy(queue, dst, src, n_bytes, err));
}

/* Boards that can reach each other copy without the host. Once a pair; where it does not work the driver goes through the
 * host by itself. Both contexts are there. */
static void reach(cuda_device *from, const cuda_device *to) {
    const cuda_api *a = &from->lib->api;
    uint64_t bit = (uint64_t)1 << (to->base.info.index & 63);
    int can = 0;
    if (!a->cuDeviceCanAccessPeer || !a->cuCtxEnablePeerAccess ||
        __atomic_fetch_or(&from->peers, bit, __ATOMIC_RELAXED) & bit)
        return;
    if (och_cuda_enter_quietly(&from->base) && a->cuDeviceCanAccessPeer(&can, from->device, to->device) == CUDA_SUCCESS && can)
        (void)a->cuCtxEnablePeerAccess(to->context, 0); /* it may be so already */
}

och_status och_cuda_copy_peer(och_queue *queue, och_device *dst_dev, och_dev_addr dst, och_device *src_dev, och_dev_addr src,
                              uint64_t n_bytes, och_err *err) {
    cuda_queue *q = cuda_queue_of(queue);
    const cuda_api *a = cuda_api_of(queue->device);
    bool ours = och_cuda_is(dst_dev) && och_cuda_is(src_dev) && (queue->device == dst_dev || queue->device == src_dev);
    if (ours && cuda_of(dst_dev)->device == cuda_of(src_dev)->device) return och_cuda_copy(queue, dst, src, n_bytes, err);
    OCH_TRY(och_capture_refuse(&q->capture, queue->device, "peer copy", err));
    if (!ours || !a->cuMemcpyPeerAsync) return och_dev_copy_peer_staged(queue, dst_dev, dst, src_dev, src, n_bytes, err);
    if (!n_bytes) return OCH_OK;
    OCH_TRY(check_addr(queue, "peer copy", "destination", dst, n_bytes, err));
    OCH_TRY(check_addr(queue, "peer copy", "source", src, n_bytes, err));
    OCH_TRY(och_cuda_enter(queue->device == dst_dev ? src_dev : dst_dev, "peer copy", err));
    OCH_TRY(och_cuda_enter(queue->device, "peer copy", err));
    reach(cuda_of(dst_dev), cuda_of(src_dev));
    reach(cuda_of(src_dev), cuda_of(dst_dev));
    OCH_TRY(och_cuda_enter(queue->device, "peer copy", err));
    CUresult e = a->cuMemcpyPeerAsync(dst.value, cuda_of(dst_dev)->context, src.value, cuda_of(src_dev)->context,
                                      (size_t)n_bytes, q->stream);
    if (e == CUDA_SUCCESS) return OCH_OK;
    return och_cuda_fail_on(q, e, err, "peer copy of %" PRIu64 " bytes from %s to %s", n_bytes, src_dev->info.label,
                            dst_dev->info.label);
}

static och_status fill(och_queue *queue, och_dev_addr dst, uint8_t byte, uint64_t n_bytes, och_err *err) {
    cuda_queue *q = cuda_queue_of(queue);
    if (!n_bytes) return OCH_OK;
    OCH_TRY(check_addr(queue, "fill", "destination", dst, n_bytes, err));
    OCH_TRY(och_cuda_enter(queue->device, "fill", err));
    CUresult e = cuda_api_of(queue->device)->cuMemsetD8Async(dst.value, byte, (size_t)n_bytes, q->stream);
    if (e == CUDA_SUCCESS) return OCH_OK;
    return och_cuda_fail_on(q, e, err, "fill of %" PRIu64 " bytes at 0x%" PRIx64, n_bytes, dst.value);
}

och_status och_cuda_fill(och_queue *queue, och_dev_addr dst, uint8_t byte, uint64_t n_bytes, och_err *err) {
    och_capture *c = &cuda_queue_of(queue)->capture;
    OCH_TRY(och_capture_admit(c, "fill", err));
    return och_capture_result(c, "fill", fill(queue, dst, byte, n_bytes, err));
}
