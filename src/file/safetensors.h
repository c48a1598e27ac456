/* safetensors containers: one file, or a folder with shards and an index.
 *
 * Format: huggingface/safetensors README, "Format". Opening validates every header; data is memory-mapped and not
 * touched. Tensors of 0 dimensions and of 0 elements are legal. A dtype that this program does not know, and a rank above
 * 4, are listed, and are errors when used (och_file_tensor_check). An opened container is immutable. */
#ifndef OCH_FILE_SAFETENSORS_H
#define OCH_FILE_SAFETENSORS_H

#include "base/status.h"
#include "file/tensors.h"

#include <stdint.h>

#define OCH_SAFETENSORS_MAX_HEADER 100000000u /* the format's own limit */
#define OCH_SAFETENSORS_MAX_SHARDS 4096

typedef struct och_safetensors och_safetensors;

/* NOTFOUND, IO, CORRUPT, NOMEM. Release with och_safetensors_close. */
och_status och_safetensors_open(const char *path, och_safetensors **out_s, och_err *err) OCH_WARN_UNUSED;
/* A Hugging Face folder: model.safetensors.index.json and the shards that it names, else model.safetensors. A shard that is
 * missing, a tensor in two shards, and a tensor that the index puts in a shard that lacks it are CORRUPT (a missing shard
 * NOTFOUND), each named. A tensor of a shard that no index entry names is listed like the others. */
och_status och_safetensors_open_dir(const char *dir, och_safetensors **out_s, och_err *err) OCH_WARN_UNUSED;
/* One file in memory that the caller keeps alive; `name` stands for the path. */
och_status och_safetensors_open_memory(const char *name, const void *data, uint64_t size, och_safetensors **out_s,
                                       och_err *err) OCH_WARN_UNUSED;
void och_safetensors_close(och_safetensors *s); /* NULL is allowed */

const char *och_safetensors_path(const och_safetensors *s); /* the file or the folder */
uint64_t och_safetensors_n_shards(const och_safetensors *s);
const och_mapping *och_safetensors_mapping(const och_safetensors *s, uint64_t shard);
uint64_t och_safetensors_n_tensors(const och_safetensors *s);
const och_file_tensor *och_safetensors_tensor(const och_safetensors *s, uint64_t i);
const och_file_tensor *och_safetensors_find(const och_safetensors *s, const char *name); /* NULL when absent; O(1) */

/* __metadata__ of all shards (an equal key of a later shard is not listed again). NUL-terminated, owned by s. */
uint64_t och_safetensors_n_metadata(const och_safetensors *s);
void och_safetensors_metadata_at(const och_safetensors *s, uint64_t i, const char **out_key, const char **out_value);
const char *och_safetensors_metadata(const och_safetensors *s, const char *key); /* NULL when absent */

#endif
