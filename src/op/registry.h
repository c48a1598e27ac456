/* The registry's parts that its tests reach: the list and the choice, over any set of providers. */
#ifndef OCH_OP_REGISTRY_H
#define OCH_OP_REGISTRY_H

#include "op/op.h"

#define OCH_OP_MAX_PROVIDERS 96

typedef struct och_op_table {
    const och_op_provider *rows;
    const int *count;
} och_op_table;

/* Tables of faster providers, in order (providers.c); the references come before them. */
extern const och_op_table och_op_tables[];
extern const int och_op_table_count;

/* INTERNAL, naming it: too many providers, two with one (name, op, backend), or one without name, backend, supports or
 * run, or weight_layout without weight_pack. */
och_status och_op_providers_check(const och_op_provider *const *providers, int n, och_err *err) OCH_WARN_UNUSED;
/* och_op_select over a given list. */
och_status och_op_select_from(const och_op_provider *const *providers, int n, const och_device *device,
                              const och_op_call *call, const char *only, const och_op_provider **out_provider,
                              och_err *err) OCH_WARN_UNUSED;
/* Whether one provider takes the call on the device: backend, host-readable memory where it needs that, its predicate.
 * OK, UNSUPPORTED with the reason, or what the predicate failed with. */
och_status och_op_provider_supports(const och_op_provider *provider, const och_device *device, const och_op_call *call,
                                    och_err *err) OCH_WARN_UNUSED;
/* A small call of the op without addresses that passes och_op_check, to ask predicates with: weights of `dtype` in the
 * layout that `provider` (NULL: native) wants on `device`. False: dtype is no weight format. (probe.c) */
bool och_op_probe(const och_op_provider *provider, const och_device *device, och_op_id op, och_dtype dtype,
                  och_op_call *out_call);
/* True for ops that read a weight of any format. */
bool och_op_has_weight(och_op_id op);
/* Counts a call as och_op_run does (stats.c). */
void och_op_stats_count(const och_op_ctx *ctx, const och_op_provider *provider, const och_op_call *call, double seconds);
bool och_op_stats_timing(void);
bool och_op_stats_counting(void);

#endif
