/* Layouts of matrix fragments: which element of a tile each lane holds in each of its elements.
 *
 * All extents are powers of two, so a layout is a table of bits, written as text: "c0 c1 c2 c3 r0|r1 r2 r3" says that
 * the bits of the lane number, lowest first, are bits 0 to 3 of the column and bit 0 of the row, and those of the
 * element number bits 1 to 3 of the row. "-" is a lane bit that changes nothing: the element is held twice. For A and
 * for B (as Bt: its rows are the columns of C) a column is an index of the sum, written k. */
#ifndef OCH_KL_FRAGMENT_H
#define OCH_KL_FRAGMENT_H

#include <stdbool.h>
#include <stdint.h>

#define OCH_KL_FRAGMENT_BITS 8

typedef struct och_kl_fragment_bit {
    char axis; /* 'r' row, 'c' column (k), '-' none */
    uint8_t bit;
} och_kl_fragment_bit;

typedef struct och_kl_fragment {
    int n_lane_bits, n_elem_bits;
    och_kl_fragment_bit lane[OCH_KL_FRAGMENT_BITS], elem[OCH_KL_FRAGMENT_BITS];
} och_kl_fragment;

/* False: malformed. */
bool och_kl_fragment_parse(const char *text, och_kl_fragment *out_f);
/* Row and column of what a lane holds as an element. */
void och_kl_fragment_at(const och_kl_fragment *f, unsigned lane, unsigned elem, uint32_t *out_row, uint32_t *out_col);
/* Whether every element of rows x cols is held by the same number of (lane, element) pairs, and how many: 0, not so. */
unsigned och_kl_fragment_copies(const och_kl_fragment *f, uint32_t rows, uint32_t cols);
/* Since a sum may run in any order as long as A and B agree: the same layout with k renumbered so that the element bits among
 * it come first, and loads from memory are wide. Both layouts of an instruction keep agreeing. */
bool och_kl_fragment_pack_k(och_kl_fragment *a, och_kl_fragment *b);
/* Rows become columns, and columns rows. */
void och_kl_fragment_turn(och_kl_fragment *f);

#endif
