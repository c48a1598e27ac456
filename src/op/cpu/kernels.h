/* What the drivers (linear.c, attention.c, elementwise.c) ask of an instruction set: one table of functions each.
 * Within a table a row's result depends on nothing but that row: not on how many rows go together, nor on threads. */
#ifndef OCH_OP_CPU_KERNELS_H
#define OCH_OP_CPU_KERNELS_H

#include "op/cpu/pack.h"
#include "op/op.h"

#define OCH_CPU_MAX_ROWS 8 /* rows of activations a panel function takes at once */

/* Activations as integer dot products want them: for each row and block of 32, x = d q with |q| <= 127, and sums of q
 * for formats with an offset or a minimum. Rows of q are q_stride bytes apart, of the others nb (2 nb) elements. */
typedef struct och_cpu_act {
    int8_t *q;
    float *d;        /* [rows, nb] */
    float *ds;       /* [rows, nb] d * sum of the block's q */
    int32_t *nsum;   /* [rows, nb] minus the sum of q */
    float *ds16;     /* [rows, 2 nb] the same for halves of 16; NULL unless a weight asks */
    int32_t *nsum16; /* [rows, 2 nb] */
    float *x;        /* [rows, k] float32, for float weights; NULL unless a weight asks */
    int64_t k, nb, q_stride;
} och_cpu_act;

/* out[r][16] = row r of act times a panel, r < n_rows <= OCH_CPU_MAX_ROWS, beginning at row `row` of act. `next` is
 * memory that will be read after this panel, of about its size: it is prefetched along the way. */
typedef void (*och_cpu_panel_fn)(const uint8_t *panel, const uint8_t *next, const och_cpu_act *act, int64_t row,
                                 int n_rows, float *out);

/* Where a tile of results goes: 16 columns from `col` of a weight's output. */
typedef struct och_cpu_epilogue {
    float *y;              /* [n, m], the output */
    const float *residual; /* [n, m] or NULL */
    const float *bias, *bias1; /* [m] or NULL; bias1 is of the second weight under glu */
    int64_t m, y_stride, residual_stride; /* in elements */
    och_act glu;           /* NONE: out = t0 [+ bias] [+ residual]; else act(t0) * t1 */
} och_cpu_epilogue;

/* One item of attention over a chunk of keys; see attention.c. */
#define OCH_CPU_ATTN_CHUNK 64 /* positions */
#define OCH_CPU_ATTN_UNITS 16 /* (row, head) pairs that share keys, at once */
typedef struct och_cpu_attn_chunk {
    /* Keys and values of 16 positions each: K [head_dim][16] with rows k_stride elements apart, V [16][head_dim]. */
    const void *k[OCH_CPU_ATTN_CHUNK / 16], *v[OCH_CPU_ATTN_CHUNK / 16];
    int64_t k_stride, head_dim;
    och_dtype k_dtype, v_dtype;
    int first;       /* a multiple of 16: positions of the chunk before it, and their k and v, are not read */
    int n_positions; /* nor are positions from this one on */
    int n_units;
    const float *q[OCH_CPU_ATTN_UNITS];                             /* [head_dim] */
    int begin[OCH_CPU_ATTN_UNITS], end[OCH_CPU_ATTN_UNITS];         /* positions of the chunk that a unit sees */
    float scale, softcap;
} och_cpu_attn_chunk;

/* Partial softmax of a unit: max of the scores, sum of exp(s - max), and sum of exp(s - max) v. */
typedef struct och_cpu_attn_part {
    float max, sum;
    float *acc; /* [head_dim] */
} och_cpu_attn_part;

typedef struct och_cpu_kernels {
    const char *name;
    och_cpu_panel_fn panel[OCH_DTYPE_COUNT_]; /* NULL: the format is not served */
    /* n_rows x 16 results of columns [col, col + 16) and rows [row, row + n_rows); t1 under glu only. Tiles have
     * 16 floats a row. */
    void (*epilogue)(const och_cpu_epilogue *e, int64_t row, int n_rows, int64_t col, const float *t0, const float *t1);
    /* Row `row` of act from x; every array of act that is not NULL is filled. */
    void (*quantise)(const float *x, const och_cpu_act *act, int64_t row);
    /* y = x * rsqrt(mean(x^2) + eps) * (w + add) [+ residual] */
    void (*rms_norm)(const float *x, const float *w, float eps, float add, const float *residual, float *y, int64_t n);
    void (*glu)(och_act act, const float *gate, const float *up, float *y, int64_t n);
    void (*add)(const float *a, const float *b, float *y, int64_t n);
    /* One head; `table`: rot_dim/2 cosines, rot_dim/2 sines. */
    void (*rope)(const och_attr_rope *a, const float *x, const float *table, float *y);
    /* One head of up to 16 tokens at consecutive offsets of a block: K transposed into rows `stride` apart. */
    void (*store_k)(const float *const *rows, int n_rows, void *k, int64_t stride, och_dtype dtype, int64_t head_dim);
    void (*store)(const float *x, void *y, och_dtype dtype, int64_t n);
    void (*attn_chunk)(const och_cpu_attn_chunk *c, och_cpu_attn_part *parts);
    /* total = total merged with part */
    void (*attn_merge)(och_cpu_attn_part *total, const och_cpu_attn_part *part, int64_t head_dim);
    void (*attn_finish)(const och_cpu_attn_part *total, float *y, int64_t head_dim);
} och_cpu_kernels;

extern const och_cpu_kernels och_cpu_kernels_avx512, och_cpu_kernels_avx2, och_cpu_kernels_neon;

/* The table for a device; NULL: none (generic). */
const och_cpu_kernels *och_cpu_kernels_get(const och_device *d);

#endif
