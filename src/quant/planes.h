/* Planes: how weights and activations lie in the memory of a device whose lanes read side by side.
 *
 * A row of a matrix [rows, k] is a sequence of planes (planes.def); a plane holds one field of all units, or of all blocks,
 * of the row, contiguous, so that lanes that take consecutive units read consecutive pieces of 2 to 32 bytes. Every
 * plane starts at a multiple of 16 bytes within the row and a row takes a multiple of 16 bytes; what lies between is 0.
 * A row of F32, F16 or BF16 whose k is no multiple of 8 is filled with zeros to a whole unit. Rows follow one another.
 *
 * Nothing here allocates; packing may run in several threads on different rows. */
#ifndef OCH_QUANT_PLANES_H
#define OCH_QUANT_PLANES_H

#include "base/dtype.h"

#include <stdbool.h>
#include <stdint.h>

#define OCH_PLANES_ALIGN 16 /* bytes, of a plane within its row and of a row */
#define OCH_PLANES_MAX 4    /* planes a format */

typedef enum och_plane_elem {
    OCH_PLANE_F32,
    OCH_PLANE_F16,
    OCH_PLANE_BF16,
    OCH_PLANE_I8,
    OCH_PLANE_U8,
    OCH_PLANE_I32,
    OCH_PLANE_U32
} och_plane_elem;

typedef struct och_plane {
    const char *name;    /* "q4", "d", ... */
    och_plane_elem elem;
    uint32_t count;      /* elements of this type an entry */
    uint32_t bytes;      /* of an entry */
    uint32_t span;       /* elements of the row that an entry stands for: 8, 32 or 256 */
} och_plane;

/* Planes of a format; 0 for a dtype that has none. */
int och_planes_count(och_dtype t);
/* NULL past the last. */
const och_plane *och_planes_at(och_dtype t, int i);
/* Number of the plane of that name; -1: none. */
int och_planes_find(och_dtype t, const char *name);

/* Bytes of a row. False: the dtype has no planes, k is 0 or no whole number of the format's blocks, or the size overflows. */
bool och_planes_row_bytes(och_dtype t, uint64_t k, uint64_t *out_bytes);
/* Where plane i starts in a row and how many bytes hold its entries (the gap to the next plane not counted). False as
 * above, or for a plane that is not there. */
bool och_planes_plane(och_dtype t, uint64_t k, int i, uint64_t *out_offset, uint64_t *out_bytes);

/* Rows [row_begin, row_end) of the matrix at src, in the file's layout, into the matrix of planes at dst; both point at row
 * 0 and need no alignment. The signature is that of och_op_provider.weight_pack. That t has planes, that k is
 * whole blocks and that the rows exist is the caller's contract; a breach aborts rather than writing past the end. */
void och_planes_pack(och_dtype t, int64_t rows, int64_t k, const void *src, void *dst, int64_t row_begin, int64_t row_end);

/* Decodes a row of planes (`row` points at it, `dst` takes k floats): the values of och_format_decode_row on the file's row,
 * to the last bit. It reads a field at a time and shares nothing with packing but planes.def: the reference for kernels
 * that read planes. */
void och_planes_decode_row(och_dtype t, uint64_t k, const void *row, float *dst);

/* ---- activations: Q8_32S as planes; k is a multiple of 32 ---- */

const och_plane *och_planes_act_at(int i); /* q, d, sum; NULL past the last */
bool och_planes_act_row_bytes(uint64_t k, uint64_t *out_bytes);
bool och_planes_act_plane(uint64_t k, int i, uint64_t *out_offset, uint64_t *out_bytes);
/* The blocks of och_q8_32s_encode_row, as planes. */
void och_planes_act_encode_row(const float *src, uint64_t k, void *dst);
void och_planes_act_decode_row(const void *row, uint64_t k, float *dst);

#endif
