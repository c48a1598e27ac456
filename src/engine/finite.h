/* Numbers that are none: a step whose logits hold an infinity or a NaN ends with the first record that made one. */
#ifndef OCH_ENGINE_FINITE_H
#define OCH_ENGINE_FINITE_H

#include "engine/session.h"

/* Looks at the first n_rows rows of logits on the host (a bucket's padding has some more), or, of a step that the device sampled,
 * at its tokens, which are negative where logits are not finite; OK when all are. Else runs the step's records once more, each
 * followed by a look at what it wrote (the step's inputs and places in the state are as they were), and returns DEVICE naming the
 * first record, layer and operand with a number that is not finite. */
och_status och_step_check_finite(och_session *s, const och_op_ctx *ctx, const och_plan_layout *layout,
                                 const och_plan_extent *extent, int64_t n_rows, bool sampled, och_err *err) OCH_WARN_UNUSED;

#endif
