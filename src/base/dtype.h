/* Storage types of tensors, as one table (dtype.def). It stands in base since files, formats, devices, ops and models
 * all name types; what a type means as numbers (decode, encode, pairing) is src/quant. */
#ifndef OCH_BASE_DTYPE_H
#define OCH_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum och_dtype {
#define OCH_DTYPE(sym, name, gguf, elems, bytes, st) OCH_DTYPE_##sym,
#include "base/dtype.def"
#undef OCH_DTYPE
    OCH_DTYPE_COUNT_,
    OCH_DTYPE_NONE = 255
} och_dtype;

typedef struct och_dtype_info {
    const char *name;
    int32_t gguf_type;       /* number in a GGUF tensor record; -1: GGUF has none */
    uint32_t block_elems;    /* consecutive elements of a row that share a block */
    uint32_t block_bytes;
    const char *safetensors; /* "" when safetensors has none */
} och_dtype_info;

const och_dtype_info *och_dtype_get(och_dtype t);
const char *och_dtype_name(och_dtype t);                   /* "?" for NONE */
och_dtype och_dtype_from_name(const char *name);           /* case-insensitive; NONE when unknown */
och_dtype och_dtype_from_gguf(uint32_t gguf_type);         /* NONE when unknown */
och_dtype och_dtype_from_safetensors(const char *name);    /* NONE when unknown */
/* Bytes of a row of `cols` elements; false when cols is no whole number of blocks or the product overflows. */
bool och_dtype_row_bytes(och_dtype t, uint64_t cols, uint64_t *out_bytes);
/* Bytes of rows x cols. */
bool och_dtype_bytes(och_dtype t, uint64_t rows, uint64_t cols, uint64_t *out_bytes);

#endif
