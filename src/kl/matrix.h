/* Matrix instructions as rows (matrix.def): what computes D = A * B + C of a fragment, on which targets, and where the elements
 * lie (fragment.h). A row of form PLAIN is code that any target runs. */
#ifndef OCH_KL_MATRIX_H
#define OCH_KL_MATRIX_H

#include "kl/fragment.h"
#include "kl/ir.h"

typedef enum och_kl_matrix_form {
    OCH_KL_M_WMMA,     /* builtin(a, b, c) */
    OCH_KL_M_WMMA_IU8, /* builtin(sign of a, a, sign of b, b, c, clamp) */
    OCH_KL_M_MFMA,     /* builtin(a, b, c, no broadcast) */
    OCH_KL_M_MMA_SYNC, /* PTX; `builtin` is the instruction */
    OCH_KL_M_PLAIN     /* dot2, dot4 or fma a lane */
} och_kl_matrix_form;

typedef struct och_kl_matrix {
    const char *name;       /* of the function och_mma_NAME */
    och_matrix_isa isa;     /* NONE: any target of the wave size */
    uint32_t needs, lacks;  /* OCH_MT_*: all of needs, none of lacks */
    uint32_t ops, no_ops;   /* OCH_* instructions: all of ops, none of no_ops */
    int wave;               /* lanes */
    uint32_t m, n, k;
    och_kl_base in, out;    /* elements of A and B, of C and D */
    och_kl_matrix_form form;
    const char *builtin;
    const char *arg_type;   /* C type of the builtin's A and B; */
    int arg_lanes;          /* a vector of so many; 1: a scalar */
    const char *a, *b, *c;  /* layouts as text */
} och_kl_matrix;

/* Rows in order; NULL past the last. The number is MMA's `extra`. */
const och_kl_matrix *och_kl_matrix_at(int i);
int och_kl_matrix_index(const och_kl_matrix *m);
/* Whether a profile may use the row. */
bool och_kl_matrix_serves(const och_kl_matrix *m, const och_kl_profile *p);
/* The row for A and B of `in`, with fragments of m x n (0: any) and a k that divides depth; the first in order. There
 * is one for F16, BF16 and I8 with depth a multiple of 16 (32). NULL otherwise. */
const och_kl_matrix *och_kl_matrix_find(const och_kl_profile *p, och_kl_base in, uint32_t m, uint32_t n, uint32_t depth);

/* Elements a lane holds. */
int och_kl_matrix_a_lanes(const och_kl_matrix *m);
int och_kl_matrix_b_lanes(const och_kl_matrix *m);
int och_kl_matrix_c_lanes(const och_kl_matrix *m);

/* Instructions of four waves (OCH_GROUP_MATRIX): 64 x n of C, n a multiple of 8 up to 256, += 64 x 16 of A and n x 16 of Bt, both f16
 * or bf16 and both in LDS, swizzled, at multiples of GROUP_ALIGN bytes. Of the rows a wave has 16, in fragments as of mma_m16n8k16.
 * `turned`: A is in registers, as mma_m16n8k16 takes it, and B lies as 16 x n: matrices of 16 x a swizzled row side by side. */
#define OCH_KL_GROUP_WAVES 4
#define OCH_KL_GROUP_ROWS 64
#define OCH_KL_GROUP_MOST_COLS 256
#define OCH_KL_GROUP_ALIGN 1024
#define OCH_KL_GROUP_BF16 1024 /* in `extra` of GROUP_MMA, beside n */
#define OCH_KL_GROUP_TURNED 2048
#define OCH_KL_GROUP_NAME_BYTES 48
const char *och_kl_group_matrix_name(och_kl_base in, uint32_t n, bool turned, char buf[OCH_KL_GROUP_NAME_BYTES]);
void och_kl_group_matrix_text(och_kl_base in, uint32_t n, bool turned, och_strbuf *text);

/* The function och_mma_NAME(a, b, c), of the vector types of the language. */
void och_kl_matrix_text(const och_kl_matrix *m, och_strbuf *text);

#endif
