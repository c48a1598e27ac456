/* What a container gives for each tensor, whether it was GGUF or safetensors. */
#ifndef OCH_FILE_TENSORS_H
#define OCH_FILE_TENSORS_H

#include "base/dtype.h"
#include "base/status.h"
#include "file/mapping.h"

#define OCH_FILE_MAX_RANK 4

typedef struct och_file_tensor {
    const char *name; /* owned by the container, NUL-terminated */
    och_dtype dtype;  /* NONE: a type that this program does not know; see raw_type and type_name */
    int rank;         /* 0 (scalar, safetensors only) .. 4; above 4 (safetensors only) the tensor is listed but not usable */
    uint64_t shape[OCH_FILE_MAX_RANK]; /* row-major, outermost first: a GGUF matrix ne = {cols, rows} is {rows, cols};
                                        * entries past rank are 1 */
    uint64_t size_bytes; /* dtype NONE in a GGUF: the distance to the next tensor or the file's end, an upper bound */
    const void *data;    /* borrowed from the mapping; aligned as the container says, which is not always the element */
    const char *path;    /* borrowed from the mapping: the file that holds the tensor */
    uint64_t file_offset; /* of data in that file */
    const och_mapping *mapping;
    uint32_t raw_type;     /* GGUF type number; 0 for safetensors */
    const char *type_name; /* "Q4_1", "IQ2_XXS", "F8_E4M3", "type 77"; owned by the container or static */
} och_file_tensor;

/* OK when the tensor's dtype is known and its rank is at most 4; else UNSUPPORTED, naming file, tensor and type. */
och_status och_file_tensor_check(const och_file_tensor *t, och_err *err) OCH_WARN_UNUSED;
/* "[32, 64]" into buf (a rank above 4 prints "rank N"); returns buf. */
const char *och_file_tensor_shape_str(const och_file_tensor *t, char *buf, size_t buf_bytes);

#endif
