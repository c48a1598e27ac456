/* Tiles: acc_tile<f32, BM, BN[, WM, WN]> as registers, matrix instructions and LDS reads.
 *
 * A tile lies over the waves of the workgroup, WM waves along its rows and WN along its columns; a wave holds an array
 * of C fragments of the target's matrix instruction (matrix.def, fragment.h). Everything here appends code to a list;
 * nodes and variables are the code's. Every function may be called only where control is group-uniform (the checker's
 * business): reductions over waves hold barriers.
 *
 * Messages say what was expected and found; the caller adds the place. */
#ifndef OCH_KL_TILE_H
#define OCH_KL_TILE_H

#include "kl/ir.h"

typedef struct och_kl_matrix och_kl_matrix; /* matrix.h */

typedef struct och_kl_tile {
    och_kl_base base;         /* F32 or I32 */
    uint32_t rows, cols;      /* of the whole tile */
    uint32_t wave_rows, wave_cols; /* waves along rows and columns: WM, WN */
    const och_kl_matrix *matrix; /* whose C layout the fragments have */
    uint32_t frag_rows, frag_cols; /* fragments of a wave */
    uint32_t row_step;        /* rows from one fragment of a wave to the next below it */
    bool given_split;         /* the waves along the sides are as the kernel says */
    bool settled;             /* an element has been touched: its place stays */
    bool by_fours;            /* four waves share 64 rows, 16 each: for instructions of four waves */
    bool across;              /* by fours, and 64 columns are what they share: fragments lie with their rows along the columns */
    bool pending;             /* such instructions are under way */
    uint32_t n_row_slots;     /* rows of which a lane holds elements */
    struct och_kl_tile *whole; /* of whose columns these are some; NULL: its own */
    uint32_t first_frag;      /* the fragment in its acc where they begin, of acc_cols a row of fragments */
    uint32_t acc_cols;
    och_kl_var *acc;          /* REG [frag_rows * frag_cols], each a vector of a fragment's elements */
    och_kl_var *lane, *wave;  /* i32 */
    och_kl_ins *declares[4];  /* of wave_row0, wave_col0, row0 and col0 */
    och_kl_var *wave_row0, *wave_col0; /* i32, wave-uniform: the wave's first row and column in the tile */
    och_kl_var *row0, *col0;  /* i32: the lane's */
    och_kl_var *as_operand;   /* LDS [rows][cols + 8] of products whose A it is; NULL until needed */
    och_kl_var *scratch;      /* LDS [wave_cols * rows] of reductions over waves; NULL until needed */
} och_kl_tile;

/* A row vector: one value for each of a tile's rows. Belongs to every tile of as many rows with the same wave_rows. */
typedef struct och_kl_rowvec {
    const och_kl_tile *tile;
    och_kl_var *var; /* REG [n_row_slots] */
} och_kl_rowvec;

/* One element of a lane. */
typedef struct och_kl_tile_at {
    och_kl_ir *row, *col; /* i32, lane values */
    och_kl_ir *value;     /* of the tile's base */
    och_kl_ir *beside;    /* the same element of the other tile; NULL: there is none */
    uint32_t row_slot;    /* constant */
} och_kl_tile_at;

/* A matrix in LDS: rows x depth elements of f16, bf16 or i8, row r at offset + r * stride. */
typedef struct och_kl_tile_lds {
    och_kl_var *lds;
    och_kl_ir *offset; /* i32, group-uniform, a multiple of 8 elements (16 of i8); NULL: 0 */
    uint32_t rows, depth, stride;
    bool swizzled; /* stride is then the depth */
    uint32_t matrices; /* of the array in LDS, one behind another */
} och_kl_tile_lds;

/* Swizzled matrices: piece p (of 16 bytes) of row r lies at piece p ^ f(r), f the bits of r that make the pieces of one number
 * of eight neighbouring rows lie in all banks. This is f(row) in elements, `per` a piece: what is xored to a column of that row. */
och_kl_ir *och_kl_swizzle_of(och_kl_code *c, och_kl_pos pos, och_kl_ir *row, uint32_t row_bytes, uint32_t per);

/* Declares the tile. wave_rows 0: the split is chosen (the one nearest to square fragments whose parts are whole).
 * `initial` is a scalar of the base, NULL: not initialised. INVALID: base, or a shape that does not divide: rows and
 * cols must be multiples of 16 times the waves along them, and wave_rows * wave_cols the workgroup's waves
 * (signature.waves, already set). The tile lives in the code's arena. */
OCH_WARN_UNUSED och_status och_kl_tile_create(och_kl_code *c, och_kl_list *to, och_kl_pos pos, const char *name,
                                              och_kl_base base, uint32_t rows, uint32_t cols, uint32_t wave_rows,
                                              uint32_t wave_cols, och_kl_ir *initial, och_kl_tile **out_tile,
                                              och_err *err);

/* Some columns of a tile that lie in one wave, as a tile of its own: what changes it changes the other. INVALID: columns that are no
 * whole fragments. */
OCH_WARN_UNUSED och_status och_kl_tile_columns(och_kl_code *c, och_kl_tile *t, int64_t first, int64_t n, och_kl_tile **out_tile,
                                               och_err *err);

/* acc[i][j] += sum over k of A[i][k] * Bt[j][k]. A and Bt of one type: f16 or bf16 for an f32 tile, i8 for an i32 one. Where Bt has
 * fewer rows than the tile columns, the matrices that follow it in LDS are the rest. INVALID: types, extents that differ from the tile's, a depth that is no multiple of 16 (f16, bf16) or 32 (i8), a
 * stride that is no multiple of 8 elements (16 of i8). LDS must have been written and a barrier passed.
 * Where the target has instructions of four waves and the operands lie as these want them, the tile is laid out for them at its
 * first use, and what they do is only begun: `pending`. Everything below waits for it first; before LDS is written again somebody
 * must call och_kl_tile_wait. */
OCH_WARN_UNUSED och_status och_kl_tile_mma(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t,
                                           const och_kl_tile_lds *a, const och_kl_tile_lds *bt, och_err *err);

/* acc[i][j] += sum over k of A[i][k] * B[k][j], of f16 or bf16, B in LDS as it lies: depth x the tile's columns. Where B has fewer, the
 * matrices that follow it in LDS are the rest: first those beside it, then those below. A is in LDS, or another tile with the same
 * rows over the same waves, whose elements are converted to B's type: out of registers where the target's fragments allow, else by
 * way of LDS (with barriers). The columns of both tiles lie in one wave. Where the target has instructions of four waves, a wave has
 * 16 rows and B lies as they want it, they are used, and only begun as those of och_kl_tile_mma are. */
OCH_WARN_UNUSED och_status och_kl_tile_mma_turned(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t,
                                                  const och_kl_tile_lds *a, const och_kl_tile_lds *b, och_err *err);
OCH_WARN_UNUSED och_status och_kl_tile_mma_tile(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t, och_kl_tile *a,
                                                const och_kl_tile_lds *b, och_err *err);

/* What is under way has ended when the code goes on; nothing where nothing is. */
void och_kl_tile_wait(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t);
/* Whether a product of t takes so long that it is worth a step less of loads to begin the next one before it has ended. */
bool och_kl_tile_is_long(const och_kl_tile *t);
/* The same of all but the youngest `most` groups of them (what one mma begins is a group). */
void och_kl_tile_wait_for(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t, int most);

/* acc = e for every element: `value` returns the new one (NULL on failure) and may append code to `to` first. `other`: a tile whose
 * elements it reads too, of the same type, shape and split; NULL: none. INVALID: it lies otherwise. */
typedef och_kl_ir *(*och_kl_tile_map_fn)(void *self, och_kl_list *to, const och_kl_tile_at *at);
OCH_WARN_UNUSED och_status och_kl_tile_map(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t, och_kl_tile *other,
                                           och_kl_tile_map_fn value, void *self, och_err *err);
/* The same for effects: what `body` appends. Returns false on failure. */
typedef bool (*och_kl_tile_each_fn)(void *self, och_kl_list *to, const och_kl_tile_at *at);
OCH_WARN_UNUSED och_status och_kl_tile_each(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t,
                                            och_kl_tile_each_fn body, void *self, och_err *err);

/* Maximum or sum over all columns; every lane that holds an element of a row gets the row's value. Takes
 * wave_cols * rows elements of LDS where columns lie over several waves. The order of additions is fixed. */
OCH_WARN_UNUSED och_status och_kl_tile_row_max(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t,
                                               const char *name, och_kl_rowvec **out_v, och_err *err);
OCH_WARN_UNUSED och_status och_kl_tile_row_sum(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t,
                                               const char *name, och_kl_rowvec **out_v, och_err *err);
/* A row vector of t's rows, each `initial` (a scalar). */
OCH_WARN_UNUSED och_status och_kl_tile_rows(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t, const char *name,
                                            och_kl_ir *initial, och_kl_rowvec **out_v, och_err *err);
/* v[i] = value(i, v[i]); `col` is NULL. */
OCH_WARN_UNUSED och_status och_kl_rowvec_map(och_kl_code *c, och_kl_list *to, och_kl_pos pos, const och_kl_rowvec *v,
                                             och_kl_tile_map_fn value, void *self, och_err *err);
/* Whether v may be read in map and each of t. */
bool och_kl_rowvec_fits(const och_kl_rowvec *v, const och_kl_tile *t);
/* v[i] at an element. */
och_kl_ir *och_kl_rowvec_at(och_kl_code *c, och_kl_pos pos, const och_kl_rowvec *v, const och_kl_tile_at *at);

/* P[i][j] = acc[i][j], converted to P's type. P's rows x depth is the tile's rows x cols. No barrier before or after. */
OCH_WARN_UNUSED och_status och_kl_tile_to_lds(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t,
                                              const och_kl_tile_lds *p, och_err *err);

#endif
