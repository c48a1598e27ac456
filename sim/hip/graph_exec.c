/* Instantiated graphs: a copy in order; a launch is one command that runs its steps. */
#include "hip/graph.h"

#include <stdio.h>
#include <string.h>

static hipError_t done(hipError_t e) {
    pthread_mutex_unlock(&sim_hip.lock);
    return e;
}

/* ---- memory of allocation nodes ---- */
static sim_graph_mem *memories;

hipError_t sim_graph_mem_new(sim_device *d, uint64_t bytes, sim_graph_mem **out) {
    sim_graph_mem *m = och_calloc(1, sizeof *m);
    if (!m) return hipErrorOutOfMemory;
    hipError_t e = sim_memory_alloc(d, bytes, 256, SIM_MEM_DEVICE, 0, &m->addr);
    if (e != hipSuccess) {
        och_free(m);
        return e;
    }
    sim_alloc *a;
    if (sim_memory_find((void *)(uintptr_t)m->addr, NULL, &a)) a->graph = true;
    m->refs = 1;
    m->dev = d;
    m->bytes = bytes;
    pthread_mutex_lock(&sim_hip.lock);
    m->next = memories;
    memories = m;
    d->graph_bytes += bytes;
    if (d->graph_bytes > d->graph_high) d->graph_high = d->graph_bytes;
    *out = m;
    return done(hipSuccess);
}

void sim_graph_mem_unref(sim_graph_mem *m) {
    if (--m->refs) return;
    for (sim_graph_mem **p = &memories; *p; p = &(*p)->next)
        if (*p == m) {
            *p = m->next;
            break;
        }
    m->dev->graph_bytes -= m->bytes;
    uint64_t addr = m->addr;
    och_free(m);
    pthread_mutex_unlock(&sim_hip.lock);
    (void)sim_memory_free(addr);
    pthread_mutex_lock(&sim_hip.lock);
}

sim_graph_mem *sim_graph_mem_find(uint64_t addr) {
    for (sim_graph_mem *m = memories; m; m = m->next)
        if (m->addr == addr) return m;
    return NULL;
}

hipError_t sim_hipDeviceGetGraphMemAttribute(int device, hipGraphMemAttributeType attr, void *value) {
    sim_device *d = sim_device_at(device);
    if (!d) return hipErrorInvalidDevice;
    if (!value || (unsigned)attr > hipGraphMemAttrReservedMemHigh) return hipErrorInvalidValue;
    pthread_mutex_lock(&sim_hip.lock);
    uint64_t used = 0;
    for (sim_graph_mem *m = memories; m; m = m->next)
        if (m->dev == d && m->live) used += m->bytes;
    *(uint64_t *)value = attr == hipGraphMemAttrUsedMemCurrent ? used : attr == hipGraphMemAttrReservedMemCurrent
        ? d->graph_bytes : d->graph_high;
    return done(hipSuccess);
}

hipError_t sim_hipDeviceSetGraphMemAttribute(int device, hipGraphMemAttributeType attr, void *value) {
    sim_device *d = sim_device_at(device);
    if (!d) return hipErrorInvalidDevice;
    /* high marks can be reset, nothing else */
    if (!value || (attr != hipGraphMemAttrUsedMemHigh && attr != hipGraphMemAttrReservedMemHigh) ||
        *(uint64_t *)value) return hipErrorInvalidValue;
    pthread_mutex_lock(&sim_hip.lock);
    d->graph_high = d->graph_bytes;
    return done(hipSuccess);
}

hipError_t sim_hipDeviceGraphMemTrim(int device) { return sim_device_at(device) ? hipSuccess : hipErrorInvalidDevice; }

/* ---- instantiate ---- */
hipError_t sim_graph_instantiate(hipGraphExec_t *out, hipGraph_t graph, hipGraphNode_t *error_node, char *log, size_t log_bytes,
                                 unsigned long long flags) {
    if (error_node) *error_node = NULL;
    if (log && log_bytes) *log = 0;
    if (!out || (flags & ~15ull)) return hipErrorInvalidValue;
    hipGraphExec_t x = och_calloc(1, sizeof *x);
    if (!x) return hipErrorOutOfMemory;
    x->flags = flags;
    pthread_mutex_lock(&sim_hip.lock);
    hipError_t e = sim_handle_is(graph, SIM_H_GRAPH) && !graph->capture ? hipSuccess : hipErrorInvalidValue;
    if (e == hipSuccess && (e = sim_graph_copy(graph, &x->graph)) == hipErrorInvalidValue && log && log_bytes)
        snprintf(log, log_bytes, "the graph has a cycle");
    if (e == hipSuccess && !sim_handle_add(x, SIM_H_EXEC)) {
        sim_graph_free(x->graph);
        e = hipErrorOutOfMemory;
    }
    if (e != hipSuccess) och_free(x);
    else {
        x->graph->child = true; /* not the caller's to destroy */
        *out = x;
    }
    return done(e);
}

hipError_t sim_hipGraphInstantiateWithParams(hipGraphExec_t *pGraphExec, hipGraph_t graph,
                                             hipGraphInstantiateParams *instantiateParams) {
    if (!instantiateParams) return hipErrorInvalidValue;
    hipError_t e = sim_graph_instantiate(pGraphExec, graph, &instantiateParams->errNode_out, NULL, 0, instantiateParams->flags);
    instantiateParams->result_out = e == hipSuccess ? 0 : 1;
    return e;
}

hipError_t sim_hipGraphExecDestroy(hipGraphExec_t graphExec) {
    pthread_mutex_lock(&sim_hip.lock);
    if (!sim_handle_is(graphExec, SIM_H_EXEC)) return done(hipErrorInvalidValue);
    sim_handle_remove(graphExec);
    sim_graph_free(graphExec->graph);
    och_free(graphExec);
    return done(hipSuccess);
}

hipError_t sim_hipGraphExecGetFlags(hipGraphExec_t graphExec, unsigned long long *flags) {
    if (!flags) return hipErrorInvalidValue;
    pthread_mutex_lock(&sim_hip.lock);
    if (!sim_handle_is(graphExec, SIM_H_EXEC)) return done(hipErrorInvalidValue);
    *flags = graphExec->flags;
    return done(hipSuccess);
}

static hipGraphNode_t image_of(hipGraphExec_t x, hipGraphNode_t node) {
    if (!sim_handle_is(x, SIM_H_EXEC)) return NULL;
    for (size_t i = 0; i < x->graph->n_nodes; i++)
        if (x->graph->nodes[i]->original == node) return x->graph->nodes[i];
    return NULL;
}

static bool can_be_disabled(const sim_op *op) { return op->kind == SIM_OP_KERNEL || op->kind == SIM_OP_COPY ||
                                               op->kind == SIM_OP_FILL; }

hipError_t sim_hipGraphNodeSetEnabled(hipGraphExec_t hGraphExec, hipGraphNode_t hNode, unsigned int isEnabled) {
    pthread_mutex_lock(&sim_hip.lock);
    hipGraphNode_t n = image_of(hGraphExec, hNode);
    if (!n || !can_be_disabled(n->op)) return done(hipErrorInvalidValue);
    n->disabled = !isEnabled;
    return done(hipSuccess);
}

hipError_t sim_hipGraphNodeGetEnabled(hipGraphExec_t hGraphExec, hipGraphNode_t hNode, unsigned int *isEnabled) {
    if (!isEnabled) return hipErrorInvalidValue;
    pthread_mutex_lock(&sim_hip.lock);
    hipGraphNode_t n = image_of(hGraphExec, hNode);
    if (!n || !can_be_disabled(n->op)) return done(hipErrorInvalidValue);
    *isEnabled = !n->disabled;
    return done(hipSuccess);
}

/* ---- update: the same shape with other parameters ---- */
static hipGraphExecUpdateResult compare(const struct hipGraphNode *old, const struct hipGraphNode *now) {
    const sim_op *a = old->op, *b = now->op;
    if (a->kind != b->kind) return hipGraphExecUpdateErrorNodeTypeChanged;
    if (a->kind == SIM_OP_KERNEL && a->u.kernel.f->module->dev != b->u.kernel.f->module->dev)
        return hipGraphExecUpdateErrorUnsupportedFunctionChange;
    if (a->kind == SIM_OP_COPY && a->u.copy.kind != b->u.copy.kind) return hipGraphExecUpdateErrorParametersChanged;
    if ((a->kind == SIM_OP_ALLOC || a->kind == SIM_OP_FREE) && a->u.memory.mem != b->u.memory.mem)
        return hipGraphExecUpdateErrorNotSupported;
    return hipGraphExecUpdateSuccess;
}

hipError_t sim_hipGraphExecUpdate(hipGraphExec_t hGraphExec, hipGraph_t hGraph, hipGraphNode_t *hErrorNode_out,
                                  hipGraphExecUpdateResult *updateResult_out) {
    if (!hErrorNode_out || !updateResult_out) return hipErrorInvalidValue;
    *hErrorNode_out = NULL;
    *updateResult_out = hipGraphExecUpdateError;
    pthread_mutex_lock(&sim_hip.lock);
    if (!sim_handle_is(hGraphExec, SIM_H_EXEC) || !sim_handle_is(hGraph, SIM_H_GRAPH)) return done(hipErrorInvalidValue);
    struct ihipGraph *now;
    hipError_t e = sim_graph_copy(hGraph, &now); /* in order, as the instantiated one is */
    if (e != hipSuccess) return done(e);
    struct ihipGraph *old = hGraphExec->graph;
    hipGraphExecUpdateResult r = now->n_nodes == old->n_nodes ? hipGraphExecUpdateSuccess
        : hipGraphExecUpdateErrorTopologyChanged;
    for (size_t i = 0; r == hipGraphExecUpdateSuccess && i < now->n_nodes; i++) {
        const struct hipGraphNode *a = old->nodes[i], *b = now->nodes[i];
        r = compare(a, b);
        if (r == hipGraphExecUpdateSuccess && a->n_deps != b->n_deps) r = hipGraphExecUpdateErrorTopologyChanged;
        for (size_t j = 0; r == hipGraphExecUpdateSuccess && j < a->n_deps; j++) {
            size_t ka = 0, kb = 0;
            while (old->nodes[ka] != a->deps[j]) ka++;
            while (now->nodes[kb] != b->deps[j]) kb++;
            if (ka != kb) r = hipGraphExecUpdateErrorTopologyChanged;
        }
        if (r != hipGraphExecUpdateSuccess) *hErrorNode_out = b->original;
    }
    *updateResult_out = r;
    if (r == hipGraphExecUpdateSuccess) {
        for (size_t i = 0; i < now->n_nodes; i++) {
            /* nodes stay known under both graphs' handles: the originals' are kept */
            now->nodes[i]->disabled = old->nodes[i]->disabled;
            now->nodes[i]->original = old->nodes[i]->original;
        }
        now->child = true;
        hGraphExec->graph = now;
        sim_graph_free(old);
    } else sim_graph_free(now);
    return done(r == hipGraphExecUpdateSuccess ? hipSuccess : hipErrorGraphExecUpdateFailure);
}

/* ---- launch ---- */
static size_t count_steps(const struct ihipGraph *g) {
    size_t n = 0;
    for (size_t i = 0; i < g->n_nodes; i++) n += g->nodes[i]->op->kind == SIM_OP_GRAPH
        ? count_steps(g->nodes[i]->op->u.child.graph) : 1;
    return n;
}

static bool add_steps(const struct ihipGraph *g, sim_stream *s, sim_graph_run *run) {
    for (size_t i = 0; i < g->n_nodes; i++) {
        sim_op *op = g->nodes[i]->op;
        if (op->kind == SIM_OP_GRAPH) { /* a copy, hence in order */
            if (!add_steps(op->u.child.graph, s, run)) return false;
            continue;
        }
        if (g->nodes[i]->disabled) continue;
        struct sim_run_step *step = &run->steps[run->n];
        if (op->kind == SIM_OP_RECORD) {
            if (!(step->signal = sim_signal_new())) return false;
            sim_event_set(op->u.event, s, step->signal, false);
        } else if (op->kind == SIM_OP_WAIT) step->signal = sim_signal_ref(op->u.event->signal);
        step->op = sim_op_ref(op);
        run->n++;
    }
    return true;
}

hipError_t sim_graph_run_make(const struct ihipGraph *g, sim_stream *s, bool top, sim_graph_run **out) {
    (void)top;
    sim_graph_run *run = och_calloc(1, sizeof *run);
    size_t n = count_steps(g);
    if (run) run->steps = och_calloc(n ? n : 1, sizeof *run->steps);
    if (!run || !run->steps || !add_steps(g, s, run)) {
        if (run && run->steps) sim_graph_run_free(run);
        else och_free(run);
        return hipErrorOutOfMemory;
    }
    *out = run;
    return hipSuccess;
}

void sim_graph_run_free(sim_graph_run *run) {
    for (size_t i = 0; i < run->n; i++) {
        sim_op_unref(run->steps[i].op);
        sim_signal_unref(run->steps[i].signal);
    }
    och_free(run->steps);
    och_free(run);
}

static void finish_step(struct sim_run_step *step, sim_stream *s, uint64_t begin) {
    pthread_mutex_lock(&sim_hip.lock);
    step->signal->begin_ns = begin;
    step->signal->end_ns = sim_clock_ns(s->dev);
    step->signal->done = true;
    pthread_cond_broadcast(&sim_hip.done);
    pthread_mutex_unlock(&sim_hip.lock);
}

hipError_t sim_graph_run_all(sim_graph_run *run, sim_stream *s) {
    hipError_t e = hipSuccess;
    for (size_t i = 0; i < run->n; i++) {
        struct sim_run_step *step = &run->steps[i];
        uint64_t begin = sim_clock_ns(s->dev);
        if (step->op->kind == SIM_OP_WAIT) {
            pthread_mutex_lock(&sim_hip.lock);
            if (step->signal) sim_wait(step->signal);
            pthread_mutex_unlock(&sim_hip.lock);
        } else if (e == hipSuccess) e = sim_op_run(step->op, s);
        /* whoever waits for the event goes on, also after an error: the device says it */
        if (step->op->kind == SIM_OP_RECORD) finish_step(step, s, begin);
    }
    return e;
}

hipError_t sim_hipGraphLaunch(hipGraphExec_t graphExec, hipStream_t stream) {
    pthread_mutex_lock(&sim_hip.lock);
    sim_stream *s;
    hipError_t e = sim_handle_is(graphExec, SIM_H_EXEC) ? sim_stream_resolve(stream, &s) : hipErrorInvalidValue;
    if (e != hipSuccess) return done(e);
    if (s->capture) { /* becomes a child of what is captured */
        sim_op *op = sim_op_new(SIM_OP_GRAPH);
        if (!op) return done(hipErrorOutOfMemory);
        if ((e = sim_graph_copy(graphExec->graph, &op->u.child.graph)) != hipSuccess) {
            op->u.child.graph = NULL;
            sim_op_unref(op);
            return done(e);
        }
        op->u.child.graph->child = true;
        return done(sim_capture_add(s, op));
    }
    /* what an earlier launch allocated must have been freed, by the graph, the caller, or here when so flagged */
    for (size_t i = 0; i < graphExec->graph->n_nodes; i++) {
        const sim_op *op = graphExec->graph->nodes[i]->op;
        if (op->kind != SIM_OP_ALLOC || !op->u.memory.mem->live) continue;
        sim_stream_wait(s);
        if (!op->u.memory.mem->live) continue;
        if (!(graphExec->flags & hipGraphInstantiateFlagAutoFreeOnLaunch)) return done(hipErrorInvalidValue);
        op->u.memory.mem->live = false;
    }
    sim_graph_run *run;
    e = sim_graph_run_make(graphExec->graph, s, true, &run);
    return done(e == hipSuccess ? sim_submit_run(s, run) : e);
}

hipError_t sim_hipGraphUpload(hipGraphExec_t graphExec, hipStream_t stream) {
    pthread_mutex_lock(&sim_hip.lock);
    sim_stream *s;
    return done(sim_handle_is(graphExec, SIM_H_EXEC) ? sim_stream_resolve(stream, &s) : hipErrorInvalidValue);
}
