/* Graphs: what a queue was given between begin and end, replayed as one. */
#include "dev/hip/hip.h"

#include "base/alloc.h"

#include <string.h>

const char *och_hip_graphs_lack(const hip_api *a) {
    return !a->hipStreamBeginCapture  ? "hipStreamBeginCapture"
           : !a->hipStreamEndCapture  ? "hipStreamEndCapture"
           : !a->hipGraphInstantiate  ? "hipGraphInstantiate"
           : !a->hipGraphLaunch       ? "hipGraphLaunch"
           : !a->hipGraphExecDestroy  ? "hipGraphExecDestroy"
           : !a->hipGraphDestroy      ? "hipGraphDestroy"
                                      : NULL;
}

och_status och_hip_capture_begin(och_queue *queue, och_err *err) {
    hip_queue *q = hip_queue_of(queue);
    const hip_api *a = hip_api_of(queue->device);
    const char *missing = och_hip_graphs_lack(a);
    if (missing)
        return och_err_set(err, OCH_UNSUPPORTED, "device %s: graph capture: %s lacks %s", queue->device->info.label,
                           queue->device->info.runtime, missing);
    OCH_TRY(och_capture_may_begin(&q->capture, q->wrapped, err));
    och_hip_enter(queue->device);
    /* of this thread alone: what other threads do to the device must not spoil it */
    hipError_t e = a->hipStreamBeginCapture(q->stream, hipStreamCaptureModeThreadLocal);
    if (e != hipSuccess) return och_hip_fail_on(q, e, err, "graph capture begin");
    och_capture_begun(&q->capture);
    q->captured.n = 0;
    return OCH_OK;
}

void och_hip_capture_drop(och_queue *queue) {
    hip_queue *q = hip_queue_of(queue);
    const hip_api *a = hip_api_of(queue->device);
    hipGraph_t graph = NULL;
    och_hip_enter(queue->device);
    /* a capture that the runtime gave up itself ends with an error, and ends */
    if (a->hipStreamEndCapture(q->stream, &graph) == hipSuccess && graph) (void)a->hipGraphDestroy(graph);
    (void)a->hipGetLastError();
}

och_status och_hip_capture_end(och_queue *queue, och_graph **out_graph, och_err *err) {
    hip_queue *q = hip_queue_of(queue);
    const hip_api *a = hip_api_of(queue->device);
    hipGraph_t graph = NULL;
    *out_graph = NULL;
    OCH_TRY(och_capture_finish(&q->capture, err));
    och_hip_enter(queue->device);
    hipError_t e = a->hipStreamEndCapture(q->stream, &graph);
    if (e != hipSuccess) return och_hip_fail_on(q, e, err, "graph capture end");
    och_graph *g = och_calloc(1, sizeof *g);
    och_status st = OCH_OK;
    if (!g) {
        st = och_err_nomem(err, sizeof *g, "a graph");
        goto done;
    }
    g->device = queue->device;
    g->kernels = q->captured;
    const char *call = "hipGraphInstantiate";
    e = a->hipGraphInstantiate(&g->exec, graph, NULL, NULL, 0);
    if (e == hipSuccess) {
        call = "hipEventCreateWithFlags";
        e = a->hipEventCreateWithFlags(&g->done, hipEventDisableTiming);
        if (e != hipSuccess) (void)a->hipGraphExecDestroy(g->exec);
    }
    if (e == hipSuccess) *out_graph = g;
    else {
        st = och_hip_fail(queue->device, e, err, "graph capture end: %s", call);
        och_free(g);
    }
done:
    (void)a->hipGraphDestroy(graph);
    return st;
}

och_status och_hip_graph_replay(och_queue *queue, och_graph *g, och_err *err) {
    hip_queue *q = hip_queue_of(queue);
    const hip_api *a = hip_api_of(queue->device);
    OCH_TRY(och_capture_refuse(&q->capture, queue->device, "graph replay", err));
    if (!g) return och_err_set(err, OCH_INVALID, "device %s: graph replay: no graph", queue->device->info.label);
    if (g->device != queue->device)
        return och_err_set(err, OCH_INVALID, "device %s: graph replay: the graph belongs to device %s", queue->device->info.label,
                           g->device->info.label);
    och_hip_enter(queue->device);
    hipError_t e = hipSuccess;
    if (g->last && g->last != q) e = a->hipStreamWaitEvent(q->stream, g->done, 0);
    if (e == hipSuccess) e = a->hipGraphLaunch(g->exec, q->stream);
    if (e == hipSuccess) {
        pthread_mutex_lock(&q->lock);
        och_ring_join(&q->ring, &g->kernels); /* before the next call, which may be told already what they did */
        pthread_mutex_unlock(&q->lock);
        e = a->hipEventRecord(g->done, q->stream);
    }
    if (e != hipSuccess) return och_hip_fail_on(q, e, err, "graph replay");
    g->last = q;
    return hip_of(queue->device)->synchronous ? och_hip_synchronise(queue, err) : OCH_OK;
}

och_status och_hip_graph_destroy(och_graph *g, och_err *err) {
    if (!g) return OCH_OK;
    const hip_api *a = hip_api_of(g->device);
    och_capture_abandon("graph destroy");
    och_hip_enter(g->device);
    /* releases differ in what the runtime does with a graph that still runs */
    hipError_t e = a->hipEventSynchronize(g->done), gone = a->hipGraphExecDestroy(g->exec);
    (void)a->hipEventDestroy(g->done);
    if (e == hipSuccess) e = gone;
    och_status st = e == hipSuccess ? OCH_OK : och_hip_fail(g->device, e, err, "graph destroy");
    och_free(g);
    return st;
}
