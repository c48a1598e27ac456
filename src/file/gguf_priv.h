/* What gguf.c (parsing) and gguf_value.c (reading values) share. */
#ifndef OCH_FILE_GGUF_PRIV_H
#define OCH_FILE_GGUF_PRIV_H

#include "base/arena.h"
#include "file/cursor.h"
#include "file/gguf.h"
#include "file/names.h"

#define OCH_GGUF_MARK_EVERY 32

struct och_gguf {
    och_mapping *map; /* owned */
    och_arena arena;  /* names, string values, marks */
    uint32_t version;
    uint64_t alignment, data_offset;
    och_gguf_value *kv; /* owned */
    uint64_t n_kv;
    och_file_tensor *tensors; /* owned */
    uint64_t n_tensors;
    och_name_index keys, names;
};

/* Bytes of a value of fixed size; 0 for strings, arrays and unknown types. */
uint32_t och_gguf_type_bytes(uint32_t t);
/* Steps over one element (a string or an array) of an array that was validated before. */
bool och_gguf_skip_element(och_cursor *c, och_gguf_type t, int depth);

#endif
