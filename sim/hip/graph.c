/* Graphs: nodes, edges, copies, order. */
#include "hip/graph.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

hipError_t sim_graph_new(struct ihipGraph **out) {
    struct ihipGraph *g = och_calloc(1, sizeof *g);
    if (!g || !sim_handle_add(g, SIM_H_GRAPH)) {
        och_free(g);
        return hipErrorOutOfMemory;
    }
    *out = g;
    return hipSuccess;
}

static void node_free(struct hipGraphNode *n) {
    sim_handle_remove(n);
    sim_op_unref(n->op);
    och_free(n->deps);
    och_free(n);
}

void sim_graph_free(struct ihipGraph *g) {
    sim_handle_remove(g);
    for (size_t i = 0; i < g->n_nodes; i++) node_free(g->nodes[i]);
    sim_users_release(g); /* gives the lock up: nothing can find g any more */
    och_free(g->nodes);
    och_free(g);
}

bool sim_graph_has(const struct ihipGraph *g, const struct hipGraphNode *n) {
    return sim_handle_is(n, SIM_H_NODE) && n->graph == g;
}

hipError_t sim_graph_add(struct ihipGraph *g, const hipGraphNode_t *deps, size_t n_deps, sim_op *op, hipGraphNode_t *out) {
    struct hipGraphNode *n = och_calloc(1, sizeof *n);
    struct hipGraphNode **nodes = och_realloc_array(g->nodes, g->n_nodes + 1, sizeof *nodes);
    if (nodes) g->nodes = nodes;
    hipGraphNode_t *copy = och_malloc_array(n_deps ? n_deps : 1, sizeof *copy);
    if (!n || !nodes || !copy || !sim_handle_add(n, SIM_H_NODE)) {
        och_free(n);
        och_free(copy);
        sim_op_unref(op);
        return hipErrorOutOfMemory;
    }
    if (n_deps) memcpy(copy, deps, n_deps * sizeof *copy);
    n->graph = g;
    n->op = op;
    n->deps = copy;
    n->n_deps = n_deps;
    n->id = ++sim_hip.next_id;
    g->nodes[g->n_nodes++] = n;
    *out = n;
    return hipSuccess;
}

static size_t index_of(const struct ihipGraph *g, const struct hipGraphNode *n) {
    size_t i = 0;
    while (i < g->n_nodes && g->nodes[i] != n) i++;
    return i;
}

/* Kahn's: repeatedly the first node, in the order of adding, whose dependencies have all been taken. */
bool sim_graph_order(const struct ihipGraph *g, struct hipGraphNode **order) {
    bool *taken = och_calloc(g->n_nodes ? g->n_nodes : 1, sizeof *taken);
    if (!taken) return false;
    size_t n = 0, from = 0;
    while (n < g->n_nodes) {
        bool any = false;
        for (size_t i = from; i < g->n_nodes; i++) {
            if (taken[i]) continue;
            bool free_to_go = true;
            for (size_t j = 0; j < g->nodes[i]->n_deps && free_to_go; j++) {
                size_t k = index_of(g, g->nodes[i]->deps[j]);
                free_to_go = k < g->n_nodes && taken[k];
            }
            if (!free_to_go) continue;
            taken[i] = any = true;
            order[n++] = g->nodes[i];
        }
        while (from < g->n_nodes && taken[from]) from++;
        if (!any) break;
    }
    och_free(taken);
    return n == g->n_nodes;
}

hipError_t sim_graph_copy(const struct ihipGraph *g, struct ihipGraph **out) {
    struct ihipGraph *c;
    hipError_t e = sim_graph_new(&c);
    if (e != hipSuccess) return e;
    struct hipGraphNode **order = och_malloc_array(g->n_nodes ? g->n_nodes : 1, sizeof *order);
    if (!order) e = hipErrorOutOfMemory;
    else if (!sim_graph_order(g, order)) e = hipErrorInvalidValue;
    for (size_t i = 0; e == hipSuccess && i < g->n_nodes; i++) {
        struct hipGraphNode *from = order[i], *to;
        sim_op *op = sim_op_ref(from->op);
        if (op->kind == SIM_OP_GRAPH) { /* a child is the node's own */
            sim_op_unref(op);
            op = sim_op_new(SIM_OP_GRAPH);
            if (!op) {
                e = hipErrorOutOfMemory;
                break;
            }
            if ((e = sim_graph_copy(from->op->u.child.graph, &op->u.child.graph)) != hipSuccess) {
                op->u.child.graph = NULL;
                sim_op_unref(op);
                break;
            }
            op->u.child.graph->child = true;
        }
        hipGraphNode_t *deps = och_malloc_array(from->n_deps ? from->n_deps : 1, sizeof *deps);
        if (!deps) {
            sim_op_unref(op);
            e = hipErrorOutOfMemory;
            break;
        }
        for (size_t j = 0; j < from->n_deps; j++)
            for (size_t k = 0; k < c->n_nodes; k++)
                if (c->nodes[k]->original == from->deps[j]) deps[j] = c->nodes[k];
        e = sim_graph_add(c, deps, from->n_deps, op, &to);
        och_free(deps);
        if (e != hipSuccess) break;
        to->original = from;
        to->disabled = from->disabled;
        to->priority = from->priority;
    }
    och_free(order);
    if (e == hipSuccess) e = sim_users_share(g, c);
    if (e != hipSuccess) {
        sim_graph_free(c);
        return e;
    }
    c->original = (struct ihipGraph *)(uintptr_t)g;
    *out = c;
    return hipSuccess;
}

/* ---- calls ---- */
static hipError_t done(hipError_t e) {
    pthread_mutex_unlock(&sim_hip.lock);
    return e;
}
static bool open_graph(hipGraph_t g) {
    pthread_mutex_lock(&sim_hip.lock);
    return sim_handle_is(g, SIM_H_GRAPH);
}
static bool open_node(hipGraphNode_t n) {
    pthread_mutex_lock(&sim_hip.lock);
    return sim_handle_is(n, SIM_H_NODE);
}

hipError_t sim_hipGraphCreate(hipGraph_t *pGraph, unsigned int flags) {
    if (!pGraph || flags) return hipErrorInvalidValue;
    pthread_mutex_lock(&sim_hip.lock);
    return done(sim_graph_new(pGraph));
}

hipError_t sim_hipGraphDestroy(hipGraph_t graph) {
    if (!open_graph(graph) || graph->capture || graph->child) return done(hipErrorInvalidValue);
    sim_graph_free(graph);
    return done(hipSuccess);
}

hipError_t sim_hipGraphClone(hipGraph_t *pGraphClone, hipGraph_t originalGraph) {
    if (!pGraphClone) return hipErrorInvalidValue;
    if (!open_graph(originalGraph)) return done(hipErrorInvalidValue);
    return done(sim_graph_copy(originalGraph, pGraphClone));
}

hipError_t sim_hipGraphNodeFindInClone(hipGraphNode_t *pNode, hipGraphNode_t originalNode, hipGraph_t clonedGraph) {
    if (!pNode) return hipErrorInvalidValue;
    if (!open_graph(clonedGraph) || !clonedGraph->original) return done(hipErrorInvalidValue);
    for (size_t i = 0; i < clonedGraph->n_nodes; i++)
        if (clonedGraph->nodes[i]->original == originalNode) {
            *pNode = clonedGraph->nodes[i];
            return done(hipSuccess);
        }
    return done(hipErrorInvalidValue);
}

/* Lists: with no room given the number alone is wanted. */
static hipError_t give(hipGraphNode_t *out, size_t *n, struct hipGraphNode *const *from, size_t n_from) {
    if (out)
        for (size_t i = 0; i < *n; i++) out[i] = i < n_from ? from[i] : NULL;
    if (!out || *n > n_from) *n = n_from;
    return hipSuccess;
}

hipError_t sim_hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *numNodes) {
    if (!numNodes) return hipErrorInvalidValue;
    if (!open_graph(graph)) return done(hipErrorInvalidValue);
    return done(give(nodes, numNodes, graph->nodes, graph->n_nodes));
}

hipError_t sim_hipGraphGetRootNodes(hipGraph_t graph, hipGraphNode_t *pRootNodes, size_t *pNumRootNodes) {
    if (!pNumRootNodes) return hipErrorInvalidValue;
    if (!open_graph(graph)) return done(hipErrorInvalidValue);
    size_t n = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i]->n_deps) continue;
        if (pRootNodes && n < *pNumRootNodes) pRootNodes[n] = graph->nodes[i];
        n++;
    }
    for (size_t i = n; pRootNodes && i < *pNumRootNodes; i++) pRootNodes[i] = NULL;
    if (!pRootNodes || *pNumRootNodes > n) *pNumRootNodes = n;
    return done(hipSuccess);
}

hipError_t sim_hipGraphGetEdges(hipGraph_t graph, hipGraphNode_t *from, hipGraphNode_t *to, size_t *numEdges) {
    if (!numEdges || (!from) != (!to)) return hipErrorInvalidValue;
    if (!open_graph(graph)) return done(hipErrorInvalidValue);
    size_t n = 0;
    for (size_t i = 0; i < graph->n_nodes; i++)
        for (size_t j = 0; j < graph->nodes[i]->n_deps; j++, n++)
            if (from && n < *numEdges) from[n] = graph->nodes[i]->deps[j], to[n] = graph->nodes[i];
    for (size_t i = n; from && i < *numEdges; i++) from[i] = to[i] = NULL;
    if (!from || *numEdges > n) *numEdges = n;
    return done(hipSuccess);
}

hipError_t sim_hipGraphNodeGetDependencies(hipGraphNode_t node, hipGraphNode_t *pDependencies, size_t *pNumDependencies) {
    if (!pNumDependencies) return hipErrorInvalidValue;
    if (!open_node(node)) return done(hipErrorInvalidValue);
    return done(give(pDependencies, pNumDependencies, node->deps, node->n_deps));
}

static bool depends(const struct hipGraphNode *n, const struct hipGraphNode *on) {
    for (size_t i = 0; i < n->n_deps; i++)
        if (n->deps[i] == on) return true;
    return false;
}

hipError_t sim_hipGraphNodeGetDependentNodes(hipGraphNode_t node, hipGraphNode_t *pDependentNodes, size_t *pNumDependentNodes) {
    if (!pNumDependentNodes) return hipErrorInvalidValue;
    if (!open_node(node)) return done(hipErrorInvalidValue);
    size_t n = 0;
    const struct ihipGraph *g = node->graph;
    for (size_t i = 0; i < g->n_nodes; i++)
        if (depends(g->nodes[i], node)) {
            if (pDependentNodes && n < *pNumDependentNodes) pDependentNodes[n] = g->nodes[i];
            n++;
        }
    for (size_t i = n; pDependentNodes && i < *pNumDependentNodes; i++) pDependentNodes[i] = NULL;
    if (!pDependentNodes || *pNumDependentNodes > n) *pNumDependentNodes = n;
    return done(hipSuccess);
}

static void drop_dep(struct hipGraphNode *n, const struct hipGraphNode *dep) {
    size_t k = 0;
    for (size_t i = 0; i < n->n_deps; i++)
        if (n->deps[i] != dep) n->deps[k++] = n->deps[i];
    n->n_deps = k;
}

hipError_t sim_hipGraphAddDependencies(hipGraph_t graph, const hipGraphNode_t *from, const hipGraphNode_t *to,
                                       size_t numDependencies) {
    if (numDependencies && (!from || !to)) return hipErrorInvalidValue;
    if (!open_graph(graph)) return done(hipErrorInvalidValue);
    for (size_t i = 0; i < numDependencies; i++) {
        if (!sim_graph_has(graph, from[i]) || !sim_graph_has(graph, to[i]) || from[i] == to[i] || depends(to[i], from[i]))
            return done(hipErrorInvalidValue);
        hipGraphNode_t *deps = och_realloc_array(to[i]->deps, to[i]->n_deps + 1, sizeof *deps);
        if (!deps) return done(hipErrorOutOfMemory);
        to[i]->deps = deps;
        deps[to[i]->n_deps++] = from[i];
    }
    return done(hipSuccess);
}

hipError_t sim_hipGraphRemoveDependencies(hipGraph_t graph, const hipGraphNode_t *from, const hipGraphNode_t *to,
                                          size_t numDependencies) {
    if (numDependencies && (!from || !to)) return hipErrorInvalidValue;
    if (!open_graph(graph)) return done(hipErrorInvalidValue);
    for (size_t i = 0; i < numDependencies; i++) {
        if (!sim_graph_has(graph, from[i]) || !sim_graph_has(graph, to[i]) ||
            !depends(to[i], from[i])) return done(hipErrorInvalidValue);
        drop_dep(to[i], from[i]);
    }
    return done(hipSuccess);
}

hipError_t sim_hipGraphDestroyNode(hipGraphNode_t node) {
    if (!open_node(node) || node->graph->capture) return done(hipErrorInvalidValue);
    struct ihipGraph *g = node->graph;
    size_t at = index_of(g, node);
    memmove(&g->nodes[at], &g->nodes[at + 1], (g->n_nodes - at - 1) * sizeof *g->nodes);
    g->n_nodes--;
    for (size_t i = 0; i < g->n_nodes; i++) drop_dep(g->nodes[i], node);
    node_free(node);
    return done(hipSuccess);
}

/* The number of a node's kind; 5.2 numbered them otherwise. */
static hipGraphNodeType type_of(const sim_op *op) {
    hipGraphNodeType t;
    switch (op->kind) {
    case SIM_OP_KERNEL: t = hipGraphNodeTypeKernel; break;
    case SIM_OP_COPY:
        t = op->u.copy.symbol ? (op->u.copy.to_symbol ? hipGraphNodeTypeMemcpyToSymbol : hipGraphNodeTypeMemcpyFromSymbol)
                              : hipGraphNodeTypeMemcpy;
        break;
    case SIM_OP_FILL: t = hipGraphNodeTypeMemset; break;
    case SIM_OP_HOST:
    case SIM_OP_CALLBACK: t = hipGraphNodeTypeHost; break;
    case SIM_OP_RECORD: t = hipGraphNodeTypeEventRecord; break;
    case SIM_OP_WAIT: t = hipGraphNodeTypeWaitEvent; break;
    case SIM_OP_ALLOC: t = hipGraphNodeTypeMemAlloc; break;
    case SIM_OP_FREE: t = hipGraphNodeTypeMemFree; break;
    case SIM_OP_GRAPH: t = hipGraphNodeTypeGraph; break;
    case SIM_OP_WAIT_VALUE:
    case SIM_OP_WRITE_VALUE: t = hipGraphNodeTypeBatchMemOp; break;
    default: t = hipGraphNodeTypeEmpty;
    }
    if (sim_hip_at_least(6)) return t;
    if (t <= hipGraphNodeTypeEventRecord) return (hipGraphNodeType)(t + 1);
    return (hipGraphNodeType)(t == hipGraphNodeTypeMemcpyFromSymbol ? 10 : t == hipGraphNodeTypeMemcpyToSymbol ? 11 : (int)t);
}

hipError_t sim_hipGraphNodeGetType(hipGraphNode_t node, hipGraphNodeType *pType) {
    if (!pType) return hipErrorInvalidValue;
    if (!open_node(node)) return done(hipErrorInvalidValue);
    *pType = type_of(node->op);
    return done(hipSuccess);
}

hipError_t sim_hipGraphDebugDotPrint(hipGraph_t graph, const char *path, unsigned int flags) {
    (void)flags;
    static const char *const names[] = {"empty", "kernel", "copy", "fill", "host", "callback", "event record", "event wait",
                                        "alloc",
                                        "free", "graph", "wait value", "write value"};
    if (!path) return hipErrorInvalidValue;
    if (!open_graph(graph)) return done(hipErrorInvalidValue);
    FILE *f = fopen(path, "w");
    if (!f) return done(hipErrorOperatingSystem);
    fprintf(f, "digraph graph_%p {\n", (void *)graph);
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const struct hipGraphNode *n = graph->nodes[i];
        fprintf(f, "  n%" PRIu64 " [label=\"%s%s%s\"];\n", n->id, names[n->op->kind], n->op->kind == SIM_OP_KERNEL ? " " : "",
                n->op->kind == SIM_OP_KERNEL ? n->op->u.kernel.launch.kernel->name : "");
        for (size_t j = 0; j < n->n_deps; j++) fprintf(f, "  n%" PRIu64 " -> n%" PRIu64 ";\n", n->deps[j]->id, n->id);
    }
    fprintf(f, "}\n");
    return done(fclose(f) ? hipErrorOperatingSystem : hipSuccess);
}

/* ---- user objects: what lives as long as the graphs that hold it ---- */
struct hipUserObject {
    void *ptr;
    hipHostFn_t destroy;
    unsigned refs;
};

/* Lock held, given up while the destructor runs. */
static void user_drop(hipUserObject_t o, unsigned count) {
    o->refs = count > o->refs ? 0 : o->refs - count;
    if (o->refs) return;
    sim_handle_remove(o);
    hipHostFn_t fn = o->destroy;
    void *ptr = o->ptr;
    och_free(o);
    pthread_mutex_unlock(&sim_hip.lock);
    fn(ptr);
    pthread_mutex_lock(&sim_hip.lock);
}

void sim_users_release(struct ihipGraph *g) {
    hipUserObject_t *users = g->users;
    size_t n = g->n_users;
    g->users = NULL;
    g->n_users = 0;
    for (size_t i = 0; i < n; i++) user_drop(users[i], 1);
    och_free(users);
}

hipError_t sim_users_share(const struct ihipGraph *from, struct ihipGraph *to) {
    if (!from->n_users) return hipSuccess;
    if (!(to->users = och_malloc_array(from->n_users, sizeof *to->users))) return hipErrorOutOfMemory;
    to->n_users = from->n_users;
    for (size_t i = 0; i < from->n_users; i++) {
        to->users[i] = from->users[i];
        to->users[i]->refs++;
    }
    return hipSuccess;
}

hipError_t sim_hipUserObjectCreate(hipUserObject_t *object_out, void *ptr, hipHostFn_t destroy, unsigned int initialRefcount,
                                   unsigned int flags) {
    if (!object_out || !destroy || !initialRefcount || flags != 1) return hipErrorInvalidValue;
    hipUserObject_t o = och_calloc(1, sizeof *o);
    if (!o) return hipErrorOutOfMemory;
    *o = (struct hipUserObject){ptr, destroy, initialRefcount};
    pthread_mutex_lock(&sim_hip.lock);
    bool ok = sim_handle_add(o, SIM_H_USER);
    if (!ok) och_free(o);
    else *object_out = o;
    return done(ok ? hipSuccess : hipErrorOutOfMemory);
}

hipError_t sim_hipUserObjectRetain(hipUserObject_t object, unsigned int count) {
    pthread_mutex_lock(&sim_hip.lock);
    if (!count || !sim_handle_is(object, SIM_H_USER)) return done(hipErrorInvalidValue);
    object->refs += count;
    return done(hipSuccess);
}

hipError_t sim_hipUserObjectRelease(hipUserObject_t object, unsigned int count) {
    pthread_mutex_lock(&sim_hip.lock);
    if (!count || !sim_handle_is(object, SIM_H_USER)) return done(hipErrorInvalidValue);
    user_drop(object, count);
    return done(hipSuccess);
}

hipError_t sim_hipGraphRetainUserObject(hipGraph_t graph, hipUserObject_t object, unsigned int count, unsigned int flags) {
    if (!count || flags > 1) return hipErrorInvalidValue;
    if (!open_graph(graph) || !sim_handle_is(object, SIM_H_USER)) return done(hipErrorInvalidValue);
    hipUserObject_t *users = och_realloc_array(graph->users, graph->n_users + count, sizeof *users);
    if (!users) return done(hipErrorOutOfMemory);
    graph->users = users;
    for (unsigned i = 0; i < count; i++) users[graph->n_users++] = object;
    if (!flags) object->refs += count; /* else the caller's references move */
    return done(hipSuccess);
}

hipError_t sim_hipGraphReleaseUserObject(hipGraph_t graph, hipUserObject_t object, unsigned int count) {
    if (!count) return hipErrorInvalidValue;
    if (!open_graph(graph) || !sim_handle_is(object, SIM_H_USER)) return done(hipErrorInvalidValue);
    unsigned held = 0;
    size_t k = 0;
    for (size_t i = 0; i < graph->n_users; i++) {
        if (graph->users[i] == object && held < count) held++;
        else graph->users[k++] = graph->users[i];
    }
    graph->n_users = k;
    if (!held) return done(hipErrorInvalidValue);
    user_drop(object, held);
    return done(hipSuccess);
}
