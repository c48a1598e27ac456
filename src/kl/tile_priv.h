/* Tiles from inside. */
#ifndef OCH_KL_TILE_PRIV_H
#define OCH_KL_TILE_PRIV_H

#include "kl/matrix.h"
#include "kl/tile.h"

/* Layout of a fragment's C, and what of its element number says the row. */
typedef struct och_kl_tile_layout {
    och_kl_fragment f;
    uint32_t n_elems;
    uint32_t row[64], col[64]; /* of each element, in lane 0 */
    uint32_t slot[64];         /* which of the fragment's rows that the lane holds */
    uint32_t n_slots, slot_row[64];
} och_kl_tile_layout;
void och_kl_tile_layout_of(const och_kl_matrix *m, bool across, och_kl_tile_layout *out_l);

static inline och_kl_ir *och_kl_tile_i32(och_kl_code *c, och_kl_pos pos, int64_t v) {
    return och_kl_int(c, pos, och_kl_type_of(OCH_KL_I32, 1), v);
}
/* The bits that the lane number gives to one axis ('r' or 'c'). */
och_kl_ir *och_kl_tile_lane_part(och_kl_code *c, och_kl_pos pos, const och_kl_fragment *f, och_kl_var *lane, char axis);
/* A fixed variable, declared at the end of `to`. NULL: memory. */
och_kl_var *och_kl_tile_let(och_kl_code *c, och_kl_list *to, och_kl_pos pos, const char *name, och_kl_ir *x);
/* v[at] of an array of one dimension. */
och_kl_ir *och_kl_tile_use(och_kl_code *c, och_kl_pos pos, och_kl_var *v, uint32_t at);
void och_kl_tile_assign(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_var *v, uint32_t at, och_kl_ir *x);
och_status och_kl_tile_done(const och_kl_code *c, och_err *err);
/* Before an element is read or written by code of another kind than instructions of four waves. */
static inline void och_kl_tile_touch(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t) {
    och_kl_tile_wait(c, to, pos, t->whole ? t->whole : t);
    t->settled = true;
}
/* Of acc, the fragment in that row and column of them. */
static inline uint32_t och_kl_tile_frag(const och_kl_tile *t, uint32_t fr, uint32_t fc) { return fr * t->acc_cols + t->first_frag + fc; }

/* ---- tile_group.c: instructions of four waves ---- */
/* Whether they may compute acc += A * Bt; the tile is then laid out for them. */
bool och_kl_tile_by_fours(och_kl_code *c, och_kl_pos pos, och_kl_tile *t, const och_kl_tile_lds *a, const och_kl_tile_lds *bt);
/* Begins it. */
void och_kl_tile_group_mma(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t, const och_kl_tile_lds *a,
                           const och_kl_tile_lds *bt);
/* The same of acc += A * B, A in registers: words of 16 columns each, B as och_kl_tile_mma_turned takes it. */
bool och_kl_tile_turned_by_fours(const och_kl_code *c, const och_kl_tile *t, const och_kl_tile_lds *b);
void och_kl_tile_group_turned(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t, och_kl_var *const *a, uint32_t n,
                              const och_kl_tile_lds *b);

#endif
