/* Stream capture: work submitted to a stream becomes nodes of a graph. A capture ends where it began; streams enter it by
 * waiting for an event recorded in it, and must have come back by then. */
#include "hip/graph.h"

#include <string.h>

sim_capture *sim_captures;

hipError_t sim_capture_invalidate(sim_capture *c, hipError_t e) {
    c->status = hipStreamCaptureStatusInvalidated;
    return e;
}

/* A call that may not be made while someone captures: which captures count depends on the calling thread's mode. */
hipError_t sim_capture_forbids(void) {
    sim_thread *t = sim_thread_get();
    hipError_t e = hipSuccess;
    if (t->mode == hipStreamCaptureModeRelaxed) return hipSuccess;
    for (sim_capture *c = sim_captures; c; c = c->next) {
        bool own = c->thread == t->id && c->mode != hipStreamCaptureModeRelaxed;
        bool global = t->mode == hipStreamCaptureModeGlobal && c->mode == hipStreamCaptureModeGlobal;
        if (own || global) e = sim_capture_invalidate(c, hipErrorStreamCaptureUnsupported);
    }
    return e;
}

hipError_t sim_capture_implicit(sim_device *dev) {
    hipError_t e = hipSuccess;
    for (sim_stream *s = dev->streams; s; s = s->next_of_device)
        if (s->capture && !(s->flags & hipStreamNonBlocking)) e = sim_capture_invalidate(s->capture,
                                                                                         hipErrorStreamCaptureImplicit);
    return e;
}

static bool set_tips(sim_stream *s, struct hipGraphNode *const *tips, size_t n) {
    struct hipGraphNode **copy = och_malloc_array(n ? n : 1, sizeof *copy);
    if (!copy) return false;
    if (n) memcpy(copy, tips, n * sizeof *copy);
    och_free(s->tips);
    s->tips = copy;
    s->n_tips = n;
    return true;
}

static bool add_tips(sim_stream *s, struct hipGraphNode *const *tips, size_t n) {
    struct hipGraphNode **all = och_malloc_array(s->n_tips + n + 1, sizeof *all);
    if (!all) return false;
    size_t k = 0;
    for (size_t i = 0; i < s->n_tips + n; i++) {
        struct hipGraphNode *t = i < s->n_tips ? s->tips[i] : tips[i - s->n_tips];
        bool known = false;
        for (size_t j = 0; j < k; j++) known |= all[j] == t;
        if (!known) all[k++] = t;
    }
    och_free(s->tips);
    s->tips = all;
    s->n_tips = k;
    return true;
}

hipError_t sim_capture_join(sim_stream *s, sim_capture *c, struct hipGraphNode **tips, size_t n_tips) {
    if (c->status != hipStreamCaptureStatusActive) return hipErrorStreamCaptureInvalidated;
    if (s->capture && s->capture != c) {
        sim_capture_invalidate(s->capture, hipErrorStreamCaptureMerge);
        return sim_capture_invalidate(c, hipErrorStreamCaptureMerge);
    }
    if (!s->capture) {
        if (!set_tips(s, tips, n_tips)) return hipErrorOutOfMemory;
        s->capture = c;
        c->n_streams++;
        return hipSuccess;
    }
    return add_tips(s, tips, n_tips) ? hipSuccess : hipErrorOutOfMemory;
}

hipError_t sim_capture_add(sim_stream *s, sim_op *op) {
    sim_capture *c = s->capture;
    if (c->status != hipStreamCaptureStatusActive) {
        sim_op_unref(op);
        return hipErrorStreamCaptureInvalidated;
    }
    struct hipGraphNode *n;
    hipError_t e = sim_graph_add(c->graph, s->tips, s->n_tips, op, &n);
    if (e == hipSuccess && !set_tips(s, &n, 1)) e = hipErrorOutOfMemory;
    return e == hipSuccess ? e : sim_capture_invalidate(c, e);
}

static void leave(sim_stream *s) {
    if (!s->capture) return;
    s->capture->n_streams--;
    s->capture = NULL;
    och_free(s->tips);
    s->tips = NULL;
    s->n_tips = 0;
}

/* Every stream of every device (and every thread's own). */
static void each_stream(void (*fn)(void *arg, sim_stream *s), void *arg) {
    for (int i = 0; i < sim_hip.n_devices; i++)
        for (sim_stream *s = sim_hip.devices[i].streams, *next; s; s = next) {
            next = s->next_of_device;
            fn(arg, s);
        }
}

static void capture_end(sim_capture *c) {
    for (sim_capture **p = &sim_captures; *p; p = &(*p)->next)
        if (*p == c) {
            *p = c->next;
            break;
        }
    c->graph->capture = NULL;
    och_free(c);
}

static void leave_if(void *arg, sim_stream *s) {
    if (s->capture == arg) leave(s);
}

void sim_capture_drop_stream(sim_stream *s) {
    sim_capture *c = s->capture;
    sim_capture_invalidate(c, hipErrorStreamCaptureInvalidated);
    if (s != c->origin) {
        leave(s);
        return;
    }
    each_stream(leave_if, c);
    struct ihipGraph *g = c->borrowed ? NULL : c->graph;
    capture_end(c);
    if (g) sim_graph_free(g);
}

hipError_t sim_capture_begin(hipStream_t stream, hipGraph_t graph, const hipGraphNode_t *deps, size_t n_deps,
                             hipStreamCaptureMode mode) {
    if ((unsigned)mode > hipStreamCaptureModeRelaxed || (n_deps && (!deps || !graph))) return hipErrorInvalidValue;
    pthread_mutex_lock(&sim_hip.lock);
    sim_stream *s;
    hipError_t e = sim_stream_resolve(stream, &s);
    if (e == hipSuccess && s == s->dev->null_stream) e = hipErrorStreamCaptureUnsupported;
    if (e == hipSuccess && s->capture) e = hipErrorIllegalState;
    if (e == hipSuccess && graph && !sim_handle_is(graph, SIM_H_GRAPH)) e = hipErrorInvalidValue;
    if (e == hipSuccess && graph && graph->capture) e = hipErrorIllegalState;
    for (size_t i = 0; e == hipSuccess && i < n_deps; i++)
        if (!sim_graph_has(graph, deps[i])) e = hipErrorInvalidValue;
    sim_capture *c = e == hipSuccess ? och_calloc(1, sizeof *c) : NULL;
    if (e == hipSuccess && !c) e = hipErrorOutOfMemory;
    if (e == hipSuccess) {
        c->graph = graph;
        c->borrowed = graph != NULL;
        if (!graph) e = sim_graph_new(&c->graph);
        if (e == hipSuccess && !set_tips(s, deps, n_deps)) {
            e = hipErrorOutOfMemory;
            if (!graph) sim_graph_free(c->graph);
        }
    }
    if (e == hipSuccess) {
        c->id = ++sim_hip.next_id;
        c->thread = sim_thread_get()->id;
        c->mode = mode;
        c->status = hipStreamCaptureStatusActive;
        c->origin = s;
        c->n_streams = 1;
        c->graph->capture = c;
        c->next = sim_captures;
        sim_captures = c;
        s->capture = c;
    } else och_free(c);
    pthread_mutex_unlock(&sim_hip.lock);
    return e;
}

/* Whether n is one of, or comes before one of, the nodes in set. */
static bool reaches(struct hipGraphNode *const *set, size_t n_set, const struct hipGraphNode *n) {
    for (size_t i = 0; i < n_set; i++)
        if (set[i] == n || reaches(set[i]->deps, set[i]->n_deps, n)) return true;
    return false;
}

struct join_check { sim_capture *c; bool unjoined; };
static void check_joined(void *arg, sim_stream *s) {
    struct join_check *k = arg;
    if (s->capture != k->c || s == k->c->origin) return;
    for (size_t i = 0; i < s->n_tips; i++)
        if (!reaches(k->c->origin->tips, k->c->origin->n_tips, s->tips[i])) k->unjoined = true;
}

hipError_t sim_hipStreamEndCapture(hipStream_t stream, hipGraph_t *pGraph) {
    if (!pGraph) return hipErrorInvalidValue;
    *pGraph = NULL;
    pthread_mutex_lock(&sim_hip.lock);
    sim_stream *s;
    hipError_t e = sim_stream_resolve(stream, &s);
    if (e == hipSuccess && !s->capture) e = hipErrorIllegalState;
    sim_capture *c = e == hipSuccess ? s->capture : NULL;
    if (c && s != c->origin) {
        e = sim_capture_invalidate(c, hipErrorStreamCaptureUnmatched);
        c = NULL;
    }
    if (c && c->mode != hipStreamCaptureModeRelaxed && c->thread != sim_thread_get()->id) {
        e = hipErrorStreamCaptureWrongThread;
        c = NULL;
    }
    if (c) {
        if (c->status != hipStreamCaptureStatusActive) e = hipErrorStreamCaptureInvalidated;
        else if (c->n_streams > 1) {
            struct join_check k = {c, false};
            each_stream(check_joined, &k);
            if (k.unjoined) e = hipErrorStreamCaptureUnjoined;
        }
        each_stream(leave_if, c);
        struct ihipGraph *g = c->graph;
        bool borrowed = c->borrowed;
        capture_end(c);
        if (e == hipSuccess) *pGraph = g;
        else if (!borrowed) sim_graph_free(g);
    }
    pthread_mutex_unlock(&sim_hip.lock);
    return e;
}

hipError_t sim_capture_info(hipStream_t stream, hipStreamCaptureStatus *status, unsigned long long *id, hipGraph_t *graph,
                            const hipGraphNode_t **deps, size_t *n_deps) {
    if (!status) return hipErrorInvalidValue;
    pthread_mutex_lock(&sim_hip.lock);
    sim_stream *s;
    hipError_t e = sim_stream_resolve(stream, &s);
    if (e == hipSuccess && s == s->dev->null_stream) e = sim_capture_implicit(s->dev);
    if (e == hipSuccess) {
        sim_capture *c = s->capture;
        *status = c ? c->status : hipStreamCaptureStatusNone;
        if (c && c->status == hipStreamCaptureStatusActive) {
            if (id) *id = c->id;
            if (graph) *graph = c->graph;
            if (deps) *deps = s->tips;
            if (n_deps) *n_deps = s->n_tips;
        }
    }
    pthread_mutex_unlock(&sim_hip.lock);
    return e;
}

hipError_t sim_hipStreamUpdateCaptureDependencies(hipStream_t stream, hipGraphNode_t *dependencies, size_t numDependencies,
                                                  unsigned int flags) {
    if (flags > hipStreamSetCaptureDependencies || (numDependencies && !dependencies)) return hipErrorInvalidValue;
    pthread_mutex_lock(&sim_hip.lock);
    sim_stream *s;
    hipError_t e = sim_stream_resolve(stream, &s);
    if (e == hipSuccess && !s->capture) e = hipErrorIllegalState;
    if (e == hipSuccess && s->capture->status != hipStreamCaptureStatusActive) e = hipErrorStreamCaptureInvalidated;
    for (size_t i = 0; e == hipSuccess && i < numDependencies; i++)
        if (!sim_graph_has(s->capture->graph, dependencies[i])) e = hipErrorInvalidValue;
    if (e == hipSuccess && !(flags == hipStreamSetCaptureDependencies ? set_tips(s, dependencies, numDependencies)
                                                                        : add_tips(s, dependencies, numDependencies)))
        e = hipErrorOutOfMemory;
    pthread_mutex_unlock(&sim_hip.lock);
    return e;
}

hipError_t sim_hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode *mode) {
    if (!mode || (unsigned)*mode > hipStreamCaptureModeRelaxed) return hipErrorInvalidValue;
    sim_thread *t = sim_thread_get();
    hipStreamCaptureMode old = t->mode;
    t->mode = *mode;
    *mode = old;
    return hipSuccess;
}
