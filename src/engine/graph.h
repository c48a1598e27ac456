/* Captured decode steps: a graph a batch bucket.
 *
 * A step that takes one token of each of n sequences is padded to the next bucket's rows (tokens of no sequence, which store
 * nothing and whose logits nobody reads). A bucket's first step is an ordinary one: it makes what is made at first use. Its
 * second is recorded, inputs coming from and logits going to memory that stays, and from then on the bucket's steps replay
 * what was recorded. Nothing that a step's launches take from the host depends on more than the bucket: lengths, positions,
 * tables and ids are read on the device. */
#ifndef OCH_ENGINE_GRAPH_H
#define OCH_ENGINE_GRAPH_H

#include "op/op.h"
#include "op/plan.h"

struct och_session;

typedef enum och_graphs_wish {
    OCH_GRAPHS_AUTO, /* OCHRE_GRAPHS, else the device's policy */
    OCH_GRAPHS_ON,   /* an error where they cannot be */
    OCH_GRAPHS_OFF
} och_graphs_wish;

#define OCH_GRAPH_MAX_ROWS 256 /* steps of more are ordinary ones */
#define OCH_GRAPH_MAX_BUCKETS 9

typedef enum och_bucket_state { OCH_BUCKET_COLD, OCH_BUCKET_WARM, OCH_BUCKET_CAPTURED, OCH_BUCKET_REFUSED } och_bucket_state;

typedef struct och_bucket {
    int64_t rows; /* tokens and rows of logits that its steps are padded to */
    och_bucket_state state;
    int n_failures;      /* captures that were abandoned */
    och_graph *graph;    /* owned, CAPTURED */
    uint64_t n_launches; /* kernels in it */
} och_bucket;

typedef struct och_graphs {
    bool used;
    char reason[200]; /* why, or why not */
    och_bucket buckets[OCH_GRAPH_MAX_BUCKETS]; /* ascending */
    och_bucket sampling[OCH_GRAPH_MAX_BUCKETS]; /* the same, of steps that end with tokens instead of logits */
    int n_buckets;
} och_graphs;

/* What the steps of a session were, and together those of all sessions of the process. */
typedef struct och_step_stats {
    uint64_t steps;
    uint64_t decode_steps; /* that a bucket holds, of sessions that use graphs or not */
    uint64_t captures, replays, refusals;
    uint64_t launches;     /* kernels given to the device one by one; those of replays are not among them */
    uint64_t graph_launches; /* kernels that replays ran */
    uint64_t device_samples, host_samples; /* tokens that steps chose there and here; those that ochre_sample did are not among them */
    uint64_t bytes_in, bytes_out; /* copied to the device as steps' inputs, and from it as what came out */
    double host_seconds;   /* of steps, without what was waited for the device */
    double seconds;        /* of steps */
} och_step_stats;
och_step_stats och_step_stats_all(void);
void och_step_stats_add(const och_step_stats *more);
void och_step_stats_reset(void);

/* Decides whether the session uses graphs, and its buckets. Its plan is complete. UNSUPPORTED where they are asked for and cannot
 * be, with the reason. */
och_status och_graphs_init(struct och_session *s, och_graphs_wish wish, och_err *err) OCH_WARN_UNUSED;
/* Before the memory that they name goes. */
void och_graphs_deinit(struct och_session *s);

/* The bucket of a step of n spans of one token each, which the device samples or not; NULL: no bucket holds it. */
och_bucket *och_graphs_bucket(struct och_session *s, int64_t n_tokens, bool samples);

/* Records what `give` gives the queue, which is what a step of the bucket does between writing inputs and waiting. On failure
 * err names the call, nothing was run, the queue is an ordinary one, and the bucket has to be warmed again; a bucket that fails
 * repeatedly is REFUSED. */
och_status och_graphs_capture(struct och_session *s, och_bucket *b, och_status (*give)(void *user, och_err *err), void *user,
                              och_err *err) OCH_WARN_UNUSED;

#endif
