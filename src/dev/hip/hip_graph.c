/* Graphs: what a queue was given between begin and end, replayed as one. */
#include "dev/hip/hip.h"

#include "base/alloc.h"

#include <string.h>

static const char *missing_call(const hip_api *a) {
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
    const char *missing = missing_call(a);
    if (missing)
        return och_err_set(err, OCH_UNSUPPORTED, "device %s: graph capture: %s lacks %s", queue->device->info.label,
                           queue->device->info.runtime, missing);
    OCH_TRY(och_hip_refuse_capture(q, "graph capture begin", err));
    och_hip_enter(queue->device);
    /* of this thread alone: what other threads do to the device must not spoil it */
    hipError_t e = a->hipStreamBeginCapture(q->stream, hipStreamCaptureModeThreadLocal);
    if (e != hipSuccess) return och_hip_fail_on(q, e, err, "graph capture begin");
    q->capturing = true;
    q->captured.n = 0;
    return OCH_OK;
}

och_status och_hip_capture_end(och_queue *queue, och_graph **out_graph, och_err *err) {
    hip_queue *q = hip_queue_of(queue);
    const hip_api *a = hip_api_of(queue->device);
    hipGraph_t graph = NULL;
    *out_graph = NULL;
    if (!q->capturing)
        return och_err_set(err, OCH_INVALID, "device %s: graph capture end: the queue records none", queue->device->info.label);
    och_hip_enter(queue->device);
    q->capturing = false;
    hipError_t e = a->hipStreamEndCapture(q->stream, &graph);
    if (e != hipSuccess) return och_hip_fail_on(q, e, err, "graph capture end");
    och_graph *g = och_calloc(1, sizeof *g);
    och_status st = OCH_OK;
    if (!g) st = och_err_nomem(err, sizeof *g, "a graph");
    else {
        g->device = queue->device;
        g->kernels = q->captured;
        e = a->hipGraphInstantiate(&g->exec, graph, NULL, NULL, 0);
        if (e != hipSuccess) {
            st = och_hip_fail(queue->device, e, err, "graph capture end: hipGraphInstantiate");
            och_free(g);
        } else *out_graph = g;
    }
    (void)a->hipGraphDestroy(graph);
    return st;
}

och_status och_hip_graph_replay(och_queue *queue, och_graph *g, och_err *err) {
    hip_queue *q = hip_queue_of(queue);
    if (!g) return och_err_set(err, OCH_INVALID, "device %s: graph replay: no graph", queue->device->info.label);
    if (g->device != queue->device)
        return och_err_set(err, OCH_INVALID, "device %s: graph replay: the graph belongs to device %s", queue->device->info.label,
                           g->device->info.label);
    OCH_TRY(och_hip_refuse_capture(q, "graph replay", err));
    och_hip_enter(queue->device);
    hipError_t e = hip_api_of(queue->device)->hipGraphLaunch(g->exec, q->stream);
    if (e != hipSuccess) return och_hip_fail_on(q, e, err, "graph replay");
    pthread_mutex_lock(&q->lock);
    och_hip_ring_join(&q->ring, &g->kernels);
    pthread_mutex_unlock(&q->lock);
    return hip_of(queue->device)->synchronous ? och_hip_synchronise(queue, err) : OCH_OK;
}

och_status och_hip_graph_destroy(och_graph *g, och_err *err) {
    if (!g) return OCH_OK;
    och_hip_enter(g->device);
    hipError_t e = hip_api_of(g->device)->hipGraphExecDestroy(g->exec);
    och_status st = e == hipSuccess ? OCH_OK : och_hip_fail(g->device, e, err, "graph destroy");
    och_free(g);
    return st;
}
