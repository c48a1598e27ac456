/* Graphs and captures (graph.c, graph_node.c, graph_exec.c, capture.c). */
#ifndef SIM_HIP_GRAPH_H
#define SIM_HIP_GRAPH_H

#include "hip/hip.h"

/* Memory of an allocation node: one address for the life of its graphs. */
typedef struct sim_graph_mem {
    int refs;
    sim_device *dev;
    uint64_t addr, bytes;
    bool live; /* allocated by a launch and not yet freed */
    struct sim_graph_mem *next;
} sim_graph_mem;

struct hipGraphNode {
    struct ihipGraph *graph;
    sim_op *op;
    struct hipGraphNode **deps;
    size_t n_deps;
    struct hipGraphNode *original; /* of a clone or of an instantiated graph: the node it was made from */
    uint64_t id;
    bool disabled;
    int priority;
};

struct ihipGraph {
    struct hipGraphNode **nodes; /* in the order they were added */
    size_t n_nodes;
    struct ihipGraph *original;
    sim_capture *capture;        /* being captured into */
    hipUserObject_t *users;
    size_t n_users;
    bool child;                  /* owned by a node: not the caller's to destroy */
};

struct hipGraphExec {
    struct ihipGraph *graph;     /* a copy, in topological order */
    unsigned long long flags;
};

struct sim_capture {
    uint64_t id, thread;
    hipStreamCaptureMode mode;
    hipStreamCaptureStatus status;
    struct ihipGraph *graph;
    bool borrowed;               /* hipStreamBeginCaptureToGraph: the graph is the caller's */
    sim_stream *origin;
    size_t n_streams;            /* that are in it */
    sim_capture *next;           /* of all captures */
};

/* A launch: ops in order, with what events stand for at that moment. */
typedef struct sim_graph_run {
    size_t n;
    struct sim_run_step {
        sim_op *op;              /* referenced */
        sim_signal *signal;      /* RECORD: becomes done; WAIT: is waited for; else NULL */
    } *steps;
} sim_graph_run;

/* Lock held for all of these. */
hipError_t sim_graph_new(struct ihipGraph **out);
void sim_graph_free(struct ihipGraph *g);
hipError_t sim_graph_copy(const struct ihipGraph *g, struct ihipGraph **out);
/* Adds a node; takes op, also on failure. */
hipError_t sim_graph_add(struct ihipGraph *g, const hipGraphNode_t *deps, size_t n_deps, sim_op *op, hipGraphNode_t *out);
void sim_users_release(struct ihipGraph *g);
hipError_t sim_users_share(const struct ihipGraph *from, struct ihipGraph *to);
bool sim_graph_has(const struct ihipGraph *g, const struct hipGraphNode *n);
/* Nodes in an order that keeps every dependency; false: there is a cycle. order has room for n_nodes. */
bool sim_graph_order(const struct ihipGraph *g, struct hipGraphNode **order);
/* Steps of a launch of g in order. */
hipError_t sim_graph_run_make(const struct ihipGraph *g, sim_stream *s, bool top, sim_graph_run **out);
void sim_graph_run_free(sim_graph_run *run);
/* Memory for an allocation node, at an address that stays; lock not held. */
hipError_t sim_graph_mem_new(sim_device *d, uint64_t bytes, sim_graph_mem **out);
void sim_graph_mem_unref(sim_graph_mem *m);
/* The graph allocation at addr, or NULL. */
sim_graph_mem *sim_graph_mem_find(uint64_t addr);

hipError_t sim_graph_run_all(sim_graph_run *run, sim_stream *s); /* no lock */

extern sim_capture *sim_captures; /* all that go on */
hipError_t sim_capture_invalidate(sim_capture *c, hipError_t e);
/* s enters c, or adds to what its next node depends on. */
hipError_t sim_capture_join(sim_stream *s, sim_capture *c, struct hipGraphNode **tips, size_t n_tips);

#endif
