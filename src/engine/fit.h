/* Whether a model fits a device, found without reading a weight: a model that is opened to be measured and sessions of it
 * go through the steps of real ones, but take no memory. */
#ifndef OCH_ENGINE_FIT_H
#define OCH_ENGINE_FIT_H

#include "engine/session.h"

typedef struct och_fit {
    uint64_t weight_bytes, paged_bytes, ring_bytes; /* state of full and of sliding layers */
    uint64_t arena_bytes, scratch_bytes, logits_bytes, inputs_bytes;
    uint64_t total_bytes;
    uint64_t free_bytes, limit_bytes; /* of the device, as it says now */
    och_dtype kv_dtype;
    int max_context, max_sequences;
    int greatest_context; /* with which it fits the free memory, at most the model's; 0: not even one token */
} och_fit;

/* m: opened with och_model_options.measure. */
och_status och_fit_measure(och_model *m, const och_session_options *options, och_fit *out_fit, och_err *err) OCH_WARN_UNUSED;

#endif
