/* Passes over a plan: each rewrites records into fused ones that compute the same values, where the device has a provider
 * for the fused form that is no worse than those of the parts. */
#ifndef OCH_ENGINE_PASSES_H
#define OCH_ENGINE_PASSES_H

#include "op/plan.h"

/* Runs all passes in their order; select providers anew afterwards. Returns how many records went away. `only` as for
 * och_op_select. */
int och_passes_run(och_plan *p, const och_device *device, const char *only);

#endif
