/* Ops of a device against their references, on generated operands: the trials that `ochre selftest` and `bench op` make, and
 * the check of a session's kernels.
 *
 * The reference runs on the host on copies of the same operands, at that moment: nothing is stored that could be of another
 * version. */
#ifndef OCH_ENGINE_SELFTEST_H
#define OCH_ENGINE_SELFTEST_H

#include "engine/session.h"
#include "op/op.h"

#define OCH_TRIAL_KERNELS_BYTES 512

typedef struct och_trial_options {
    const och_op_provider *provider; /* NULL: the one that a model would get */
    bool batch_invariant;
    uint64_t seed;
    int n_runs; /* that are timed once the result was right; 0: none */
} och_trial_options;

typedef struct och_trial {
    const och_op_provider *provider;
    double nmse;  /* the greatest of the outputs' normalised mean square errors; infinite where a value is not finite */
    double bound; /* the most that this op, with these types, may have */
    uint64_t floor_bytes, flops; /* each input once, each output once, weights as the file has them; operations */
    double seconds; /* of a run, where runs were timed: the median of a few rounds of them */
    int n_copies;   /* of the operands, taken in turn so that none is found in the device's cache */
    bool graph;     /* a round was one graph */
    char kernels[OCH_TRIAL_KERNELS_BYTES]; /* that were launched, in order; "" for a provider without kernels */
} och_trial;

/* Fills what operand i of the call (outputs after inputs) holds, in the file's layout: random numbers of the kind that the op
 * takes there, ids within their ranges. `host` has rows of row_bytes. */
void och_trial_fill(const och_op_call *shape, int i, void *host, uint64_t seed);

/* Runs a call whose operands have shapes but no memory, weights in the file's layout, on memory that it allocates, and
 * compares. The status is that of the device; a wrong result is OK and an nmse above the bound. */
och_status och_trial_run(och_queue *q, const och_op_call *shape, const och_trial_options *options, och_trial *out_trial,
                         och_err *err) OCH_WARN_UNUSED;

/* Each kernel that the session's plan may launch, once, on small operands. DEVICE names kernels that are wrong. Nothing is run
 * for providers without kernels, nor where OCHRE_KERNEL_CHECK is 0. */
och_status och_selftest_kernels(const och_session *s, och_err *err) OCH_WARN_UNUSED;

/* Case i of the built-in set for op conformance; false past the last. `out_name`: "linear Q4_K, 5 rows, norm". */
bool och_selftest_case(int i, och_op_call *out_shape, char *out_name, size_t n_bytes);

#endif
