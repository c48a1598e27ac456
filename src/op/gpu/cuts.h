/* How the kernels of products are cut on a device: which specialisation takes how many rows of which weights, as measured (the tables
 * *.def, whose heads say what their columns are). Which kernels there are, and which of them a call launches, linear.c and linear_row.c say.
 *
 * Rows of a table begin with the first letters of an architecture; of those that are a device's, the first that fits is taken. A
 * specialisation is empty, the kernel's own way, or ends with a comma: "BM=64,BN=64,". All answers are literals or in static memory,
 * and depend on info.arch and info.n_compute_units alone. */
#ifndef OCH_OP_GPU_CUTS_H
#define OCH_OP_GPU_CUTS_H

#include "base/dtype.h"
#include "dev/dev.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first of a table's rows that is the device's, from row `from` on; n: none. Rows begin with a pointer to the letters. */
size_t och_gpu_find_row(const och_device *d, const void *rows, size_t n, size_t row_bytes, size_t from);
#define OCH_GPU_FIND_ROW(d, rows, from) och_gpu_find_row(d, rows, OCH_COUNT(rows), sizeof *(rows), from)

/* Rows of activations up to which products with halves are matrix-vector products (few.def); `otherwise` where no row is the
 * device's. */
int64_t och_gpu_few_rows(const och_device *d, int64_t otherwise);

/* One row of activations and a weight of that format and so many rows: specialisation of matvec, or of matvec_qkv (tuned.def). */
const char *och_gpu_row_cut(const och_device *d, och_dtype format, int64_t weight_rows, bool qkv);

/* Products with a gate that hand on codes, of one row of activations or of a few (codes.def). NULL: the table has the device and not
 * the format, whose codes a kernel of their own makes sooner. */
const char *och_gpu_codes_cut(const och_device *d, och_dtype format, bool one);

/* Products of one row that turn q and k and write the state, beside weights of q and k of that format (post.def). NULL: they were
 * not measured to be faster; where they are asked for all the same they are cut so, or "". */
const char *och_gpu_post_cut(const och_device *d, och_dtype format, bool asked);

/* Products of one row that write codes through a norm (norm_codes.def), `asked` for or where that is faster. NULL: it is not. */
const char *och_gpu_norm_codes_cut(const och_device *d, och_dtype format, bool asked);

/* Products whose weights' rows go by way of LDS (ring.def). */
typedef struct och_gpu_ring {
    const char *arch;
    och_dtype format;
    bool whole; /* all products of a layer go so */
    const char *gate, *three, *brief, *lengthy; /* of matvec_glu_ring, matvec_qkv_ring, matvec_codes_ring for short and long rows */
} och_gpu_ring;
/* NULL: they were not measured to be faster; where they are asked for all the same, the kernels' own ways. */
const och_gpu_ring *och_gpu_ring_of(const och_device *d, och_dtype format, bool asked);
typedef enum och_gpu_ring_kind { OCH_GPU_RING_GATE, OCH_GPU_RING_THREE, OCH_GPU_RING_CODES, OCH_GPU_RING_ALONE } och_gpu_ring_kind;
/* Bytes of LDS that such a kernel takes, cut so, for rows of so many bytes and elements. */
uint64_t och_gpu_ring_lds(och_gpu_ring_kind kind, const char *cut, uint64_t row_bytes, int64_t cols);

/* Products alone whose weights' rows go by way of LDS (alone.def), of weights of so many columns and rows. NULL: they were not measured
 * to be faster; where they are asked for all the same they are cut so, or "" for rows of up to OCH_GPU_ALONE_COLS. */
#define OCH_GPU_ALONE_COLS 8192 /* of what is asked for and not in the table: codes of a row are in registers */
const char *och_gpu_alone_cut(const och_device *d, och_dtype format, int64_t cols, int64_t rows, bool asked);
/* Workgroups that share such a product's rows: as many as run at once. */
int och_gpu_ring_groups(const och_device *d, const char *cut);

/* Products that make their own codes of one row of activations (own.def). */
typedef struct och_gpu_own_cut {
    const char *arch;
    int64_t most_cols; /* up to which that is faster */
    int early;         /* units that a lane loads before what comes before has ended */
} och_gpu_own_cut;
/* NULL: on no row of the device is it faster. */
const och_gpu_own_cut *och_gpu_own_cut_of(const och_device *d);

/* Tiles (tiles.def). */
typedef struct och_gpu_tiles {
    const char *arch;
    och_dtype format;     /* NONE: any */
    int64_t most;         /* rows of activations; 0: any number */
    uint64_t bm, bn;      /* rows of activations and of the weight in a tile; 0: of any number of tiles */
    const char *spec;     /* of matmul */
    const char *three;    /* of matmul_qkv; "": products apart */
    const char *pair;     /* of matmul_glu; "": products apart */
} och_gpu_tiles;
/* n rows of activations with a weight: the first way whose tiles are enough for nearly every compute unit; never NULL. */
const och_gpu_tiles *och_gpu_tiles_of(const och_device *d, och_dtype format, int64_t weight_rows, int64_t n);
/* The same of several products of one launch (together.def), of whose weights those are the rows: specialisation of matmul_glu (two
 * weights) or of matmul_qkv (three). "": products apart. */
const char *och_gpu_together_of(const och_device *d, och_dtype format, const int64_t *weight_rows, int n_weights, int64_t n);
/* Products whose k is shared out (split.def). */
typedef struct och_gpu_split {
    const char *arch;
    och_dtype format;
    uint64_t parts;
    int64_t least;    /* columns of the weight */
    uint64_t bm, bn;
    const char *spec; /* of matmul_part */
} och_gpu_split;
/* n rows of activations with a weight; NULL: k is not shared out. */
const och_gpu_split *och_gpu_split_of(const och_device *d, och_dtype format, int64_t weight_rows, int64_t weight_cols, int64_t n);
/* The number of rows after n (1 or more) to ask for so that from any number on up to `most`, itself asked for, each way that
 * och_gpu_tiles_of(), och_gpu_together_of() and och_gpu_split_of() have is met; 0 behind `most`. */
int64_t och_gpu_tiles_next(int64_t n, int64_t most);

#endif
