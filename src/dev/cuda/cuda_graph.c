/* Graphs: what a queue was given between begin and end, replayed as one. The rules are dev.h's, checked by dev/capture.h. */
#include "dev/cuda/cuda.h"

#include "base/alloc.h"

const char *och_cuda_graphs_lack(const cuda_api *a) {
    return !a->cuStreamBeginCapture_v2        ? "cuStreamBeginCapture_v2"
           : !a->cuStreamEndCapture           ? "cuStreamEndCapture"
           : !a->cuGraphInstantiateWithFlags  ? "cuGraphInstantiateWithFlags"
           : !a->cuGraphLaunch                ? "cuGraphLaunch"
           : !a->cuGraphExecDestroy           ? "cuGraphExecDestroy"
           : !a->cuGraphDestroy               ? "cuGraphDestroy"
                                              : NULL;
}

och_status och_cuda_capture_begin(och_queue *queue, och_err *err) {
    cuda_queue *q = cuda_queue_of(queue);
    const cuda_api *a = cuda_api_of(queue->device);
    const char *missing = och_cuda_graphs_lack(a);
    if (missing)
        return och_err_set(err, OCH_UNSUPPORTED, "device %s: graph capture: %s lacks %s", queue->device->info.label,
                           queue->device->info.runtime, missing);
    OCH_TRY(och_capture_may_begin(&q->capture, q->wrapped, err));
    OCH_TRY(och_cuda_enter(queue->device, "graph capture begin", err));
    /* of this thread alone: what other threads do to the device must not spoil it */
    CUresult e = a->cuStreamBeginCapture_v2(q->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    if (e != CUDA_SUCCESS) return och_cuda_fail_on(q, e, err, "graph capture begin");
    och_capture_begun(&q->capture);
    q->captured.n = 0;
    return OCH_OK;
}

void och_cuda_capture_drop(och_queue *queue) {
    const cuda_api *a = cuda_api_of(queue->device);
    CUgraph graph = NULL;
    /* a capture that the driver gave up itself ends with an error, and ends */
    if (och_cuda_enter_quietly(queue->device) &&
        a->cuStreamEndCapture(cuda_queue_of(queue)->stream, &graph) == CUDA_SUCCESS && graph)
        (void)a->cuGraphDestroy(graph);
}

och_status och_cuda_capture_end(och_queue *queue, och_graph **out_graph, och_err *err) {
    cuda_queue *q = cuda_queue_of(queue);
    const cuda_api *a = cuda_api_of(queue->device);
    CUgraph graph = NULL;
    *out_graph = NULL;
    OCH_TRY(och_capture_finish(&q->capture, err));
    OCH_TRY(och_cuda_enter(queue->device, "graph capture end", err));
    CUresult e = a->cuStreamEndCapture(q->stream, &graph);
    if (e != CUDA_SUCCESS) return och_cuda_fail_on(q, e, err, "graph capture end");
    och_graph *g = och_calloc(1, sizeof *g);
    och_status st = OCH_OK;
    if (!g) {
        st = och_err_nomem(err, sizeof *g, "a graph");
        goto done;
    }
    g->device = queue->device;
    g->kernels = q->captured;
    const char *call = "cuGraphInstantiateWithFlags";
    e = a->cuGraphInstantiateWithFlags(&g->exec, graph, 0);
    if (e == CUDA_SUCCESS) {
        call = "cuEventCreate";
        e = a->cuEventCreate(&g->done, CU_EVENT_DISABLE_TIMING);
        if (e != CUDA_SUCCESS) (void)a->cuGraphExecDestroy(g->exec);
    }
    if (e == CUDA_SUCCESS) *out_graph = g;
    else {
        st = och_cuda_fail(queue->device, e, err, "graph capture end: %s", call);
        och_free(g);
    }
done:
    (void)a->cuGraphDestroy(graph);
    return st;
}

och_status och_cuda_graph_replay(och_queue *queue, och_graph *g, och_err *err) {
    cuda_queue *q = cuda_queue_of(queue);
    const cuda_api *a = cuda_api_of(queue->device);
    OCH_TRY(och_capture_refuse(&q->capture, queue->device, "graph replay", err));
    if (!g) return och_err_set(err, OCH_INVALID, "device %s: graph replay: no graph", queue->device->info.label);
    if (g->device != queue->device)
        return och_err_set(err, OCH_INVALID, "device %s: graph replay: the graph belongs to device %s",
                           queue->device->info.label, g->device->info.label);
    OCH_TRY(och_cuda_enter(queue->device, "graph replay", err));
    CUresult e = CUDA_SUCCESS;
    if (g->last && g->last != q) e = a->cuStreamWaitEvent(q->stream, g->done, 0);
    if (e == CUDA_SUCCESS) e = a->cuGraphLaunch(g->exec, q->stream);
    if (e == CUDA_SUCCESS) {
        pthread_mutex_lock(&q->lock);
        och_ring_join(&q->ring, &g->kernels); /* before the next call, which may be told already what they did */
        pthread_mutex_unlock(&q->lock);
        e = a->cuEventRecord(g->done, q->stream);
    }
    if (e != CUDA_SUCCESS) return och_cuda_fail_on(q, e, err, "graph replay");
    g->last = q;
    return cuda_of(queue->device)->synchronous ? och_cuda_synchronise(queue, err) : OCH_OK;
}

och_status och_cuda_graph_destroy(och_graph *g, och_err *err) {
    if (!g) return OCH_OK;
    const cuda_api *a = cuda_api_of(g->device);
    och_capture_abandon("graph destroy");
    och_status st = och_cuda_enter(g->device, "graph destroy", err);
    if (st == OCH_OK) {
        CUresult e = a->cuEventSynchronize(g->done), gone = a->cuGraphExecDestroy(g->exec);
        (void)a->cuEventDestroy_v2(g->done);
        if (e == CUDA_SUCCESS) e = gone;
        if (e != CUDA_SUCCESS) st = och_cuda_fail(g->device, e, err, "graph destroy");
    }
    och_free(g);
    return st;
}
