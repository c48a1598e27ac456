/* Nodes made and changed by hand. An op is immutable: changing a node gives it another op. */
#include "hip/graph.h"
#include "hip/launch.h"

#include <string.h>

static hipError_t done(hipError_t e) {
    pthread_mutex_unlock(&sim_hip.lock);
    return e;
}

/* Adds op (taken) to graph behind deps. */
static hipError_t add(hipGraphNode_t *out, hipGraph_t graph, const hipGraphNode_t *deps, size_t n_deps, sim_op *op) {
    pthread_mutex_lock(&sim_hip.lock);
    hipError_t e = hipSuccess;
    if (!out || !sim_handle_is(graph, SIM_H_GRAPH) || (n_deps && !deps)) e = hipErrorInvalidValue;
    for (size_t i = 0; e == hipSuccess && i < n_deps; i++) {
        if (!sim_graph_has(graph, deps[i])) e = hipErrorInvalidValue;
        for (size_t j = 0; j < i; j++)
            if (deps[i] == deps[j]) e = hipErrorInvalidValue;
    }
    if (e == hipSuccess) e = sim_graph_add(graph, deps, n_deps, op, out);
    else sim_op_unref(op);
    return done(e);
}

/* The op of a node of a kind, with a reference. */
static hipError_t op_of(hipGraphNode_t node, sim_op_kind kind, sim_op **out) {
    pthread_mutex_lock(&sim_hip.lock);
    if (!sim_handle_is(node, SIM_H_NODE) || node->op->kind != kind) return done(hipErrorInvalidValue);
    *out = sim_op_ref(node->op);
    return done(hipSuccess);
}

static void drop(sim_op *op) {
    pthread_mutex_lock(&sim_hip.lock);
    sim_op_unref(op);
    pthread_mutex_unlock(&sim_hip.lock);
}

/* Where a change goes: the node itself, or its image in an instantiated graph. */
static hipError_t replace(hipGraphExec_t exec, hipGraphNode_t node, sim_op_kind kind, sim_op *op) {
    pthread_mutex_lock(&sim_hip.lock);
    hipError_t e = hipErrorInvalidValue;
    hipGraphNode_t at = NULL;
    if (exec) {
        if (sim_handle_is(exec, SIM_H_EXEC))
            for (size_t i = 0; i < exec->graph->n_nodes; i++)
                if (exec->graph->nodes[i]->original == node) at = exec->graph->nodes[i];
    } else if (sim_handle_is(node, SIM_H_NODE)) at = node;
    if (at && at->op->kind == kind) {
        sim_op_unref(at->op);
        at->op = op;
        e = hipSuccess;
    } else sim_op_unref(op);
    return done(e);
}

/* ---- kernels ---- */
static hipError_t kernel_op(const hipKernelNodeParams *p, sim_op **out) {
    if (!p || !p->func) return hipErrorInvalidValue;
    if (p->kernelParams && p->extra) return hipErrorInvalidValue;
    sim_launch_request r = {.host = p->func, .grid = {p->gridDim.x, p->gridDim.y, p->gridDim.z},
                            .block = {p->blockDim.x, p->blockDim.y, p->blockDim.z}, .lds_bytes = p->sharedMemBytes,
                            .params = p->kernelParams, .extra = p->extra};
    hipError_t e = sim_function_any(p->func, &r.f);
    return e == hipSuccess ? sim_launch_make(&r, out) : e;
}

hipError_t sim_hipGraphAddKernelNode(hipGraphNode_t *pGraphNode, hipGraph_t graph, const hipGraphNode_t *pDependencies,
                                     size_t numDependencies, const hipKernelNodeParams *pNodeParams) {
    sim_op *op;
    hipError_t e = kernel_op(pNodeParams, &op);
    return e == hipSuccess ? add(pGraphNode, graph, pDependencies, numDependencies, op) : e;
}

hipError_t sim_hipGraphKernelNodeGetParams(hipGraphNode_t node, hipKernelNodeParams *pNodeParams) {
    sim_op *op;
    if (!pNodeParams) return hipErrorInvalidValue;
    hipError_t e = op_of(node, SIM_OP_KERNEL, &op);
    if (e != hipSuccess) return e;
    const sim_launch *l = &op->u.kernel.launch;
    *pNodeParams = (hipKernelNodeParams){.blockDim = {l->block[0], l->block[1], l->block[2]}, .func = op->u.kernel.host,
                                         .gridDim = {l->grid[0], l->grid[1], l->grid[2]}, .kernelParams = op->u.kernel.params,
                                         .sharedMemBytes = l->dynamic_lds_bytes};
    drop(op);
    return hipSuccess;
}

static hipError_t set_kernel(hipGraphExec_t exec, hipGraphNode_t node, const hipKernelNodeParams *p) {
    sim_op *op;
    hipError_t e = kernel_op(p, &op);
    return e == hipSuccess ? replace(exec, node, SIM_OP_KERNEL, op) : e;
}
hipError_t sim_hipGraphKernelNodeSetParams(hipGraphNode_t node, const hipKernelNodeParams *pNodeParams) {
    return set_kernel(NULL, node, pNodeParams);
}
hipError_t sim_hipGraphExecKernelNodeSetParams(hipGraphExec_t hGraphExec, hipGraphNode_t node,
                                               const hipKernelNodeParams *pNodeParams) {
    return hGraphExec ? set_kernel(hGraphExec, node, pNodeParams) : hipErrorInvalidValue;
}

hipError_t sim_hipGraphKernelNodeSetAttribute(hipGraphNode_t hNode, hipLaunchAttributeID attr,
                                              const hipLaunchAttributeValue *value) {
    if (!value) return hipErrorInvalidValue;
    sim_op *op;
    hipError_t e = op_of(hNode, SIM_OP_KERNEL, &op);
    if (e != hipSuccess) return e;
    pthread_mutex_lock(&sim_hip.lock);
    if (attr == hipLaunchAttributePriority) hNode->priority = value->priority;
    else if (attr == hipLaunchAttributeCooperative) e = value->cooperative == op->u.kernel.launch.cooperative ? hipSuccess
        : hipErrorNotSupported;
    else e = attr == hipLaunchAttributeAccessPolicyWindow ? hipSuccess : hipErrorInvalidValue;
    sim_op_unref(op);
    return done(e);
}

hipError_t sim_hipGraphKernelNodeGetAttribute(hipGraphNode_t hNode, hipLaunchAttributeID attr, hipLaunchAttributeValue *value) {
    if (!value) return hipErrorInvalidValue;
    sim_op *op;
    hipError_t e = op_of(hNode, SIM_OP_KERNEL, &op);
    if (e != hipSuccess) return e;
    memset(value, 0, sizeof *value);
    pthread_mutex_lock(&sim_hip.lock);
    if (attr == hipLaunchAttributePriority) value->priority = hNode->priority;
    else if (attr == hipLaunchAttributeCooperative) value->cooperative = op->u.kernel.launch.cooperative;
    else e = attr == hipLaunchAttributeAccessPolicyWindow ? hipSuccess : hipErrorInvalidValue;
    sim_op_unref(op);
    return done(e);
}

hipError_t sim_hipGraphKernelNodeCopyAttributes(hipGraphNode_t hSrc, hipGraphNode_t hDst) {
    sim_op *a, *b;
    hipError_t e = op_of(hSrc, SIM_OP_KERNEL, &a);
    if (e != hipSuccess) return e;
    e = op_of(hDst, SIM_OP_KERNEL, &b);
    if (e == hipSuccess) {
        hDst->priority = hSrc->priority;
        drop(b);
    }
    drop(a);
    return e;
}

/* ---- copies ---- */
hipError_t sim_hipGraphAddMemcpyNode(hipGraphNode_t *pGraphNode, hipGraph_t graph, const hipGraphNode_t *pDependencies,
                                     size_t numDependencies, const hipMemcpy3DParms *pCopyParams) {
    sim_op *op;
    hipError_t e = sim_copy3d_make(pCopyParams, &op);
    return e == hipSuccess ? add(pGraphNode, graph, pDependencies, numDependencies, op) : e;
}

hipError_t sim_hipGraphAddMemcpyNode1D(hipGraphNode_t *pGraphNode, hipGraph_t graph, const hipGraphNode_t *pDependencies,
                                       size_t numDependencies, void *dst, const void *src, size_t count, hipMemcpyKind kind) {
    sim_op *op;
    hipError_t e = count ? sim_copy_make(dst, src, count, kind, &op) : hipErrorInvalidValue;
    return e == hipSuccess ? add(pGraphNode, graph, pDependencies, numDependencies, op) : e;
}

hipError_t sim_hipGraphMemcpyNodeGetParams(hipGraphNode_t node, hipMemcpy3DParms *pNodeParams) {
    sim_op *op;
    if (!pNodeParams) return hipErrorInvalidValue;
    hipError_t e = op_of(node, SIM_OP_COPY, &op);
    if (e != hipSuccess) return e;
    *pNodeParams = op->u.copy.params;
    drop(op);
    return hipSuccess;
}

static hipError_t set_copy(hipGraphExec_t exec, hipGraphNode_t node, hipError_t made, sim_op *op) {
    return made == hipSuccess ? replace(exec, node, SIM_OP_COPY, op) : made;
}
hipError_t sim_hipGraphMemcpyNodeSetParams(hipGraphNode_t node, const hipMemcpy3DParms *pNodeParams) {
    sim_op *op = NULL;
    hipError_t e = sim_copy3d_make(pNodeParams, &op);
    return set_copy(NULL, node, e, op);
}
hipError_t sim_hipGraphExecMemcpyNodeSetParams(hipGraphExec_t hGraphExec, hipGraphNode_t node, hipMemcpy3DParms *pNodeParams) {
    sim_op *op = NULL;
    hipError_t e = hGraphExec ? sim_copy3d_make(pNodeParams, &op) : hipErrorInvalidValue;
    return set_copy(hGraphExec, node, e, op);
}
hipError_t sim_hipGraphMemcpyNodeSetParams1D(hipGraphNode_t node, void *dst, const void *src, size_t count,
                                             hipMemcpyKind kind) {
    sim_op *op = NULL;
    hipError_t e = count ? sim_copy_make(dst, src, count, kind, &op) : hipErrorInvalidValue;
    return set_copy(NULL, node, e, op);
}
hipError_t sim_hipGraphExecMemcpyNodeSetParams1D(hipGraphExec_t hGraphExec, hipGraphNode_t node, void *dst, const void *src,
                                                 size_t count, hipMemcpyKind kind) {
    sim_op *op = NULL;
    hipError_t e = count && hGraphExec ? sim_copy_make(dst, src, count, kind, &op) : hipErrorInvalidValue;
    return set_copy(hGraphExec, node, e, op);
}

static hipError_t symbol_op(const void *symbol, void *other, size_t count, size_t offset, hipMemcpyKind kind, bool to,
                            sim_op **out) {
    uint64_t addr;
    size_t bytes;
    hipError_t e = sim_host_variable(symbol, &addr, &bytes);
    if (e != hipSuccess) return e;
    if (!other || !count || offset > bytes || count > bytes - offset) return hipErrorInvalidValue;
    void *at = (void *)(uintptr_t)(addr + offset);
    e = to ? sim_copy_make(at, other, count, kind, out) : sim_copy_make(other, at, count, kind, out);
    if (e != hipSuccess) return e;
    (*out)->u.copy.symbol = symbol;
    (*out)->u.copy.to_symbol = to;
    return hipSuccess;
}

hipError_t sim_hipGraphAddMemcpyNodeToSymbol(hipGraphNode_t *pGraphNode, hipGraph_t graph, const hipGraphNode_t *pDependencies,
                                             size_t numDependencies, const void *symbol, const void *src, size_t count,
                                             size_t offset, hipMemcpyKind kind) {
    sim_op *op;
    hipError_t e = symbol_op(symbol, (void *)(uintptr_t)src, count, offset, kind, true, &op);
    return e == hipSuccess ? add(pGraphNode, graph, pDependencies, numDependencies, op) : e;
}
hipError_t sim_hipGraphAddMemcpyNodeFromSymbol(hipGraphNode_t *pGraphNode, hipGraph_t graph,
                                               const hipGraphNode_t *pDependencies,
                                               size_t numDependencies, void *dst, const void *symbol, size_t count,
                                                   size_t offset,
                                               hipMemcpyKind kind) {
    sim_op *op;
    hipError_t e = symbol_op(symbol, dst, count, offset, kind, false, &op);
    return e == hipSuccess ? add(pGraphNode, graph, pDependencies, numDependencies, op) : e;
}
hipError_t sim_hipGraphMemcpyNodeSetParamsToSymbol(hipGraphNode_t node, const void *symbol, const void *src, size_t count,
                                                   size_t offset, hipMemcpyKind kind) {
    sim_op *op = NULL;
    hipError_t e = symbol_op(symbol, (void *)(uintptr_t)src, count, offset, kind, true, &op);
    return set_copy(NULL, node, e, op);
}
hipError_t sim_hipGraphMemcpyNodeSetParamsFromSymbol(hipGraphNode_t node, void *dst, const void *symbol, size_t count,
                                                     size_t offset,
                                                     hipMemcpyKind kind) {
    sim_op *op = NULL;
    hipError_t e = symbol_op(symbol, dst, count, offset, kind, false, &op);
    return set_copy(NULL, node, e, op);
}
hipError_t sim_hipGraphExecMemcpyNodeSetParamsToSymbol(hipGraphExec_t hGraphExec, hipGraphNode_t node, const void *symbol,
                                                       const void *src, size_t count, size_t offset, hipMemcpyKind kind) {
    sim_op *op = NULL;
    hipError_t e = hGraphExec ? symbol_op(symbol, (void *)(uintptr_t)src, count, offset, kind, true,
                                          &op) : hipErrorInvalidValue;
    return set_copy(hGraphExec, node, e, op);
}
hipError_t sim_hipGraphExecMemcpyNodeSetParamsFromSymbol(hipGraphExec_t hGraphExec, hipGraphNode_t node, void *dst,
                                                         const void *symbol, size_t count, size_t offset, hipMemcpyKind kind) {
    sim_op *op = NULL;
    hipError_t e = hGraphExec ? symbol_op(symbol, dst, count, offset, kind, false, &op) : hipErrorInvalidValue;
    return set_copy(hGraphExec, node, e, op);
}

/* ---- fills ---- */
/* The order of the parameters' fields changed at 7.0. */
static hipMemsetParams read_fill(const hipMemsetParams *p) {
    if (!sim_hip_at_least(7)) return *p;
    hipMemsetParams_7 n;
    memcpy(&n, p, sizeof n);
    return (hipMemsetParams){n.dst, n.elementSize, n.height, n.pitch, n.value, n.width};
}

static hipError_t fill_op(const hipMemsetParams *given, sim_op **out) {
    if (!given) return hipErrorInvalidValue;
    hipMemsetParams p = read_fill(given);
    if (!p.width || !p.height) return hipErrorInvalidValue;
    return sim_fill_make(p.dst, p.pitch, p.value, p.elementSize, p.width, p.height, 1, 0, out);
}

hipError_t sim_hipGraphAddMemsetNode(hipGraphNode_t *pGraphNode, hipGraph_t graph, const hipGraphNode_t *pDependencies,
                                     size_t numDependencies, const hipMemsetParams *pMemsetParams) {
    sim_op *op;
    hipError_t e = fill_op(pMemsetParams, &op);
    return e == hipSuccess ? add(pGraphNode, graph, pDependencies, numDependencies, op) : e;
}

hipError_t sim_hipGraphMemsetNodeGetParams(hipGraphNode_t node, hipMemsetParams *pNodeParams) {
    sim_op *op;
    if (!pNodeParams) return hipErrorInvalidValue;
    hipError_t e = op_of(node, SIM_OP_FILL, &op);
    if (e != hipSuccess) return e;
    if (sim_hip_at_least(7)) {
        hipMemsetParams_7 n = {op->u.fill.dst, op->u.fill.pitch, op->u.fill.value, op->u.fill.elem, op->u.fill.width,
                               op->u.fill.height};
        memcpy(pNodeParams, &n, sizeof n);
    } else
        *pNodeParams = (hipMemsetParams){op->u.fill.dst, op->u.fill.elem, op->u.fill.height, op->u.fill.pitch, op->u.fill.value,
                                         op->u.fill.width};
    drop(op);
    return hipSuccess;
}

static hipError_t set_fill(hipGraphExec_t exec, hipGraphNode_t node, const hipMemsetParams *p) {
    sim_op *op;
    hipError_t e = fill_op(p, &op);
    return e == hipSuccess ? replace(exec, node, SIM_OP_FILL, op) : e;
}
hipError_t sim_hipGraphMemsetNodeSetParams(hipGraphNode_t node, const hipMemsetParams *pNodeParams) {
    return set_fill(NULL, node, pNodeParams);
}
hipError_t sim_hipGraphExecMemsetNodeSetParams(hipGraphExec_t hGraphExec, hipGraphNode_t node,
                                               const hipMemsetParams *pNodeParams) {
    return hGraphExec ? set_fill(hGraphExec, node, pNodeParams) : hipErrorInvalidValue;
}

/* ---- host functions ---- */
static hipError_t host_op(const hipHostNodeParams *p, sim_op **out) {
    if (!p || !p->fn) return hipErrorInvalidValue;
    if (!(*out = sim_op_new(SIM_OP_HOST))) return hipErrorOutOfMemory;
    (*out)->u.host.fn = p->fn;
    (*out)->u.host.user = p->userData;
    return hipSuccess;
}

hipError_t sim_hipGraphAddHostNode(hipGraphNode_t *pGraphNode, hipGraph_t graph, const hipGraphNode_t *pDependencies,
                                   size_t numDependencies, const hipHostNodeParams *pNodeParams) {
    sim_op *op;
    hipError_t e = host_op(pNodeParams, &op);
    return e == hipSuccess ? add(pGraphNode, graph, pDependencies, numDependencies, op) : e;
}
hipError_t sim_hipGraphHostNodeGetParams(hipGraphNode_t node, hipHostNodeParams *pNodeParams) {
    sim_op *op;
    if (!pNodeParams) return hipErrorInvalidValue;
    hipError_t e = op_of(node, SIM_OP_HOST, &op);
    if (e != hipSuccess) return e;
    *pNodeParams = (hipHostNodeParams){op->u.host.fn, op->u.host.user};
    drop(op);
    return hipSuccess;
}
static hipError_t set_host(hipGraphExec_t exec, hipGraphNode_t node, const hipHostNodeParams *p) {
    sim_op *op;
    hipError_t e = host_op(p, &op);
    return e == hipSuccess ? replace(exec, node, SIM_OP_HOST, op) : e;
}
hipError_t sim_hipGraphHostNodeSetParams(hipGraphNode_t node, const hipHostNodeParams *pNodeParams) {
    return set_host(NULL, node, pNodeParams);
}
hipError_t sim_hipGraphExecHostNodeSetParams(hipGraphExec_t hGraphExec, hipGraphNode_t node,
                                             const hipHostNodeParams *pNodeParams) {
    return hGraphExec ? set_host(hGraphExec, node, pNodeParams) : hipErrorInvalidValue;
}

/* ---- nothing, child graphs ---- */
hipError_t sim_hipGraphAddEmptyNode(hipGraphNode_t *pGraphNode, hipGraph_t graph, const hipGraphNode_t *pDependencies,
                                    size_t numDependencies) {
    sim_op *op = sim_op_new(SIM_OP_EMPTY);
    return op ? add(pGraphNode, graph, pDependencies, numDependencies, op) : hipErrorOutOfMemory;
}

static hipError_t child_op(hipGraph_t child, const struct ihipGraph *parent, sim_op **out) {
    sim_op *op = sim_op_new(SIM_OP_GRAPH);
    if (!op) return hipErrorOutOfMemory;
    pthread_mutex_lock(&sim_hip.lock);
    hipError_t e = sim_handle_is(child, SIM_H_GRAPH) && child != parent ? sim_graph_copy(child, &op->u.child.graph)
        : hipErrorInvalidValue;
    if (e != hipSuccess) {
        op->u.child.graph = NULL;
        sim_op_unref(op);
    } else {
        op->u.child.graph->child = true;
        *out = op;
    }
    return done(e);
}

hipError_t sim_hipGraphAddChildGraphNode(hipGraphNode_t *pGraphNode, hipGraph_t graph, const hipGraphNode_t *pDependencies,
                                         size_t numDependencies, hipGraph_t childGraph) {
    sim_op *op;
    hipError_t e = child_op(childGraph, graph, &op);
    return e == hipSuccess ? add(pGraphNode, graph, pDependencies, numDependencies, op) : e;
}
hipError_t sim_hipGraphChildGraphNodeGetGraph(hipGraphNode_t node, hipGraph_t *pGraph) {
    sim_op *op;
    if (!pGraph) return hipErrorInvalidValue;
    hipError_t e = op_of(node, SIM_OP_GRAPH, &op);
    if (e != hipSuccess) return e;
    *pGraph = op->u.child.graph;
    drop(op);
    return hipSuccess;
}
hipError_t sim_hipGraphExecChildGraphNodeSetParams(hipGraphExec_t hGraphExec, hipGraphNode_t node, hipGraph_t childGraph) {
    sim_op *op;
    if (!hGraphExec) return hipErrorInvalidValue;
    hipError_t e = child_op(childGraph, NULL, &op);
    return e == hipSuccess ? replace(hGraphExec, node, SIM_OP_GRAPH, op) : e;
}

/* ---- events ---- */
static hipError_t event_op(sim_op_kind kind, hipEvent_t event, sim_op **out) {
    sim_op *op = sim_op_new(kind);
    if (!op) return hipErrorOutOfMemory;
    pthread_mutex_lock(&sim_hip.lock);
    if (!sim_handle_is(event, SIM_H_EVENT)) {
        sim_op_unref(op);
        return done(hipErrorInvalidValue);
    }
    sim_event_ref(event);
    op->u.event = event;
    *out = op;
    return done(hipSuccess);
}
static hipError_t add_event(sim_op_kind kind, hipGraphNode_t *out, hipGraph_t graph, const hipGraphNode_t *deps, size_t n_deps,
                            hipEvent_t event) {
    sim_op *op;
    hipError_t e = event_op(kind, event, &op);
    return e == hipSuccess ? add(out, graph, deps, n_deps, op) : e;
}
static hipError_t get_event(sim_op_kind kind, hipGraphNode_t node, hipEvent_t *out) {
    sim_op *op;
    if (!out) return hipErrorInvalidValue;
    hipError_t e = op_of(node, kind, &op);
    if (e != hipSuccess) return e;
    *out = op->u.event;
    drop(op);
    return hipSuccess;
}
static hipError_t set_event(sim_op_kind kind, hipGraphExec_t exec, hipGraphNode_t node, hipEvent_t event) {
    sim_op *op;
    hipError_t e = event_op(kind, event, &op);
    return e == hipSuccess ? replace(exec, node, kind, op) : e;
}

hipError_t sim_hipGraphAddEventRecordNode(hipGraphNode_t *pGraphNode, hipGraph_t graph, const hipGraphNode_t *pDependencies,
                                          size_t numDependencies, hipEvent_t event) {
    return add_event(SIM_OP_RECORD, pGraphNode, graph, pDependencies, numDependencies, event);
}
hipError_t sim_hipGraphAddEventWaitNode(hipGraphNode_t *pGraphNode, hipGraph_t graph, const hipGraphNode_t *pDependencies,
                                        size_t numDependencies, hipEvent_t event) {
    return add_event(SIM_OP_WAIT, pGraphNode, graph, pDependencies, numDependencies, event);
}
hipError_t sim_hipGraphEventRecordNodeGetEvent(hipGraphNode_t node, hipEvent_t *event_out) {
    return get_event(SIM_OP_RECORD, node, event_out);
}
hipError_t sim_hipGraphEventWaitNodeGetEvent(hipGraphNode_t node, hipEvent_t *event_out) {
    return get_event(SIM_OP_WAIT, node, event_out);
}
hipError_t sim_hipGraphEventRecordNodeSetEvent(hipGraphNode_t node, hipEvent_t event) {
    return set_event(SIM_OP_RECORD, NULL, node, event);
}
hipError_t sim_hipGraphEventWaitNodeSetEvent(hipGraphNode_t node, hipEvent_t event) {
    return set_event(SIM_OP_WAIT, NULL, node, event);
}
hipError_t sim_hipGraphExecEventRecordNodeSetEvent(hipGraphExec_t hGraphExec, hipGraphNode_t hNode, hipEvent_t event) {
    return hGraphExec ? set_event(SIM_OP_RECORD, hGraphExec, hNode, event) : hipErrorInvalidValue;
}
hipError_t sim_hipGraphExecEventWaitNodeSetEvent(hipGraphExec_t hGraphExec, hipGraphNode_t hNode, hipEvent_t event) {
    return hGraphExec ? set_event(SIM_OP_WAIT, hGraphExec, hNode, event) : hipErrorInvalidValue;
}

/* ---- memory ---- */
hipError_t sim_hipGraphAddMemAllocNode(hipGraphNode_t *pGraphNode, hipGraph_t graph, const hipGraphNode_t *pDependencies,
                                       size_t numDependencies, hipMemAllocNodeParams *pNodeParams) {
    if (!pNodeParams || !pNodeParams->bytesize || pNodeParams->poolProps.allocType != hipMemAllocationTypePinned)
        return hipErrorInvalidValue;
    sim_device *d = sim_device_at(pNodeParams->poolProps.location.id);
    if (pNodeParams->poolProps.location.type != hipMemLocationTypeDevice || !d) return hipErrorInvalidValue;
    sim_graph_mem *m;
    hipError_t e = sim_graph_mem_new(d, pNodeParams->bytesize, &m);
    if (e != hipSuccess) return e;
    sim_op *op = sim_op_new(SIM_OP_ALLOC);
    if (!op) {
        pthread_mutex_lock(&sim_hip.lock);
        sim_graph_mem_unref(m);
        return done(hipErrorOutOfMemory);
    }
    pNodeParams->dptr = (void *)(uintptr_t)m->addr;
    op->u.memory.addr = m->addr;
    op->u.memory.mem = m;
    op->u.memory.params = *pNodeParams;
    return add(pGraphNode, graph, pDependencies, numDependencies, op);
}

hipError_t sim_hipGraphMemAllocNodeGetParams(hipGraphNode_t node, hipMemAllocNodeParams *pNodeParams) {
    sim_op *op;
    if (!pNodeParams) return hipErrorInvalidValue;
    hipError_t e = op_of(node, SIM_OP_ALLOC, &op);
    if (e != hipSuccess) return e;
    *pNodeParams = op->u.memory.params;
    drop(op);
    return hipSuccess;
}

hipError_t sim_hipGraphAddMemFreeNode(hipGraphNode_t *pGraphNode, hipGraph_t graph, const hipGraphNode_t *pDependencies,
                                      size_t numDependencies, void *dev_ptr) {
    sim_op *op = sim_op_new(SIM_OP_FREE);
    if (!op) return hipErrorOutOfMemory;
    pthread_mutex_lock(&sim_hip.lock);
    sim_graph_mem *m = sim_graph_mem_find((uint64_t)(uintptr_t)dev_ptr);
    if (!m) {
        sim_op_unref(op);
        return done(hipErrorInvalidValue);
    }
    m->refs++;
    op->u.memory.mem = m;
    op->u.memory.addr = m->addr;
    pthread_mutex_unlock(&sim_hip.lock);
    return add(pGraphNode, graph, pDependencies, numDependencies, op);
}

hipError_t sim_hipGraphMemFreeNodeGetParams(hipGraphNode_t node, void *dev_ptr) {
    sim_op *op;
    if (!dev_ptr) return hipErrorInvalidValue;
    hipError_t e = op_of(node, SIM_OP_FREE, &op);
    if (e != hipSuccess) return e;
    *(void **)dev_ptr = (void *)(uintptr_t)op->u.memory.addr;
    drop(op);
    return hipSuccess;
}
