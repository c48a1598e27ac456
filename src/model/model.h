/* A model in memory: constants, weights as its device wants them, tokenizer.
 *
 * Weights are views of the mapped file where the device can read that memory and the op's provider wants the file's
 * layout; else each is packed or uploaded once, and the pages of the file that it came from are given back, so that one
 * copy stays resident. Vectors (norms, biases) are held as float32. */
#ifndef OCH_MODEL_MODEL_H
#define OCH_MODEL_MODEL_H

#include "dev/dev.h"
#include "file/tensors.h"
#include "model/arch.h"
#include "tok/tok.h"

typedef struct och_weight {
    och_role role;
    int layer; /* -1 outside the layers */
    char name[96];      /* in the file */
    och_dtype file_dtype;
    uint64_t file_bytes;
    och_tensor tensor;  /* what ops are given */
    och_buf buf;        /* owned memory, empty for a view of the file or of a shared buffer */
    uint64_t held_bytes; /* as it lies in memory, a view of the file included; 0 where another weight's memory serves */
} och_weight;

typedef bool (*och_load_progress)(void *user, const char *phase, uint64_t done, uint64_t total);

typedef struct och_model_options {
    const char *only;           /* provider, as for och_op_select; NULL: any */
    och_load_progress progress; /* false stops with OCH_CANCELLED; may be NULL */
    void *user;
    bool measure; /* only learn what it would hold: no weight is read or allocated, tensors have no addresses */
} och_model_options;

struct och_model {
    const och_arch *arch;
    och_config config;
    och_device *device; /* retained */
    och_tok *tok;       /* owned; NULL: the file brings none */
    char *path;         /* owned */
    char *only;         /* owned; NULL: any provider */
    och_gguf *gguf;             /* owned; one of the two containers */
    struct och_safetensors *st; /* owned */
    och_weight *weights; /* owned */
    int n_weights;
    int32_t *index;      /* owned; [OCH_ROLE_COUNT_][n_layers + 1]: number of the weight, -1 */
    och_buf vectors;     /* all float32 vectors */
    void *synthetic;     /* mapped region that stands for a file */
    uint64_t synthetic_bytes;
    uint64_t n_parameters, weight_bytes;
    bool measured; /* opened to be measured: nothing of it can run */
};

/* path: a GGUF file or a Hugging Face folder. Retains the device. */
och_status och_model_open(const char *path, och_device *device, const och_model_options *options, och_model **out_model,
                          och_err *err) OCH_WARN_UNUSED;
/* Named shapes with generated weights of one format, for benchmarks. An unknown shape lists the known ones. */
och_status och_model_open_synthetic(const char *shape, och_dtype format, och_device *device,
                                    const och_model_options *options, och_model **out_model, och_err *err) OCH_WARN_UNUSED;
int och_model_shape_count(void);
const char *och_model_shape_name(int i);
void och_model_close(och_model *m); /* NULL is allowed */

/* NULL where the model has none. layer -1 for roles outside the layers. */
const och_tensor *och_model_weight(const och_model *m, och_role role, int layer);
const och_weight *och_model_find(const och_model *m, och_role role, int layer);

#endif
