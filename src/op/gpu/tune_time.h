/* Timing how products with one row are cut, for ochre tune. */
#ifndef OCH_OP_GPU_TUNE_TIME_H
#define OCH_OP_GPU_TUNE_TIME_H

#include "op/gpu/tune.h"

typedef struct och_gpu_tune_options {
    /* Seconds. NULL: the host's clock, by which simulated devices are not timed (UNSUPPORTED). */
    double (*now)(void *user);
    bool (*stop)(void *user); /* NULL: never; else asked often: true ends it with CANCELLED */
    void *user;
    int most_copies; /* of the weights, 0: as many as it takes that none is in a cache when its turn comes again */
} och_gpu_tune_options;

/* The shapes that a call of one row asks cuts for, by its shapes, formats and attributes: as a plan with a layout of one
 * token has it, addresses not looked at. Each that `inout` does not have is added: the call is run as it is, in a graph
 * where the device has those, on generated numbers, with each row of tune.def in its turn, the weights rotated; medians of
 * rounds in which all take turns. A row that makes the same kernel as an earlier one, is not to be had here, or has other
 * results, is left out. The fastest is timed beside the present choice once more, and is the cut if it is faster in both by
 * more than the middle halves of the times of both differ, together, and by a hundredth. Nothing is stored. CANCELLED: what
 * was finished is in `inout`. */
och_status och_gpu_tune(och_queue *q, const och_op_call *call, const och_gpu_tune_options *options, och_gpu_cut_times *inout,
                        och_err *err) OCH_WARN_UNUSED;

/* Rows of generated numbers like a model's (what matrix units draw, and so their clock, depends on them) in t's type to
 * `to`; of a weight, as planes, n_bytes in all. */
och_status och_gpu_tune_upload(och_queue *q, och_dev_addr to, const och_tensor *t, bool weight, uint64_t n_bytes,
                               och_err *err) OCH_WARN_UNUSED;

#endif
