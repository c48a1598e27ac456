#include "base/dtype.h"

#include "base/size.h"

#include <string.h>
#include <strings.h>

static const och_dtype_info rows[] = {
#define OCH_DTYPE(sym, name, gguf, elems, bytes, st) {name, gguf, elems, bytes, st},
#include "base/dtype.def"
#undef OCH_DTYPE
};

const och_dtype_info *och_dtype_get(och_dtype t) { return (unsigned)t < OCH_DTYPE_COUNT_ ? &rows[t] : NULL; }

const char *och_dtype_name(och_dtype t) { return (unsigned)t < OCH_DTYPE_COUNT_ ? rows[t].name : "?"; }

och_dtype och_dtype_from_name(const char *name) {
    for (int i = 0; i < OCH_DTYPE_COUNT_; i++)
        if (!strcasecmp(rows[i].name, name)) return (och_dtype)i;
    return OCH_DTYPE_NONE;
}

och_dtype och_dtype_from_gguf(uint32_t gguf_type) {
    for (int i = 0; i < OCH_DTYPE_COUNT_; i++)
        if (rows[i].gguf_type >= 0 && (uint32_t)rows[i].gguf_type == gguf_type) return (och_dtype)i;
    return OCH_DTYPE_NONE;
}

och_dtype och_dtype_from_safetensors(const char *name) {
    for (int i = 0; i < OCH_DTYPE_COUNT_; i++)
        if (rows[i].safetensors[0] && !strcmp(rows[i].safetensors, name)) return (och_dtype)i;
    return OCH_DTYPE_NONE;
}

bool och_dtype_row_bytes(och_dtype t, uint64_t cols, uint64_t *out_bytes) {
    const och_dtype_info *d = och_dtype_get(t);
    *out_bytes = 0;
    return d && cols % d->block_elems == 0 && och_u64_mul(cols / d->block_elems, d->block_bytes, out_bytes);
}

bool och_dtype_bytes(och_dtype t, uint64_t n_rows, uint64_t cols, uint64_t *out_bytes) {
    uint64_t row;
    return och_dtype_row_bytes(t, cols, &row) && och_u64_mul(row, n_rows, out_bytes);
}
