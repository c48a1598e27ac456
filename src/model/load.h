/* How a weight comes into memory. Internal to the room. */
#ifndef OCH_MODEL_LOAD_H
#define OCH_MODEL_LOAD_H

#include "base/thread.h"
#include "model/model.h"

typedef struct och_loader {
    och_model *model;
    const och_model_options *options;
    uint64_t done_bytes, total_bytes;
    och_pool *pool; /* packs weights; made by och_load_weights */
} och_loader;

/* Checks dtype and shape against the configuration. */
och_status och_load_check(const och_model *m, const och_weight *w, const och_file_tensor *t, och_err *err) OCH_WARN_UNUSED;
/* Loads all weights whose file tensors are in `sources` (one a weight). */
och_status och_load_weights(och_loader *l, const och_file_tensor *const *sources, och_err *err) OCH_WARN_UNUSED;

/* Adds the weight's slot to the model's index; sources grows alike. */
och_status och_model_add_weight(och_model *m, och_role role, int layer, const char *name, och_err *err) OCH_WARN_UNUSED;
och_status och_model_create(och_device *device, const och_model_options *options, const char *path, och_model **out_model,
                            och_err *err) OCH_WARN_UNUSED;
och_status och_model_index_create(och_model *m, och_err *err) OCH_WARN_UNUSED;

#endif
