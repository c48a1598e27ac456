/* Row vectors: maxima and sums along the columns of a tile. */
#include "kl/tile_priv.h"

#include <string.h>

/* Rows of a tile from the lane's first (row0) to that of a slot. */
static uint32_t row_of(const och_kl_tile *t, const och_kl_tile_layout *l, uint32_t slot) {
    return slot / l->n_slots * t->row_step + l->slot_row[slot % l->n_slots];
}

/* Declared at the end of `to`, where initial (NULL: not initialised) is known. NULL: memory. */
static och_kl_rowvec *declare_rowvec(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t, const char *name, och_kl_type type,
                                     och_kl_ir *initial) {
    och_kl_rowvec *r = och_arena_alloc(&c->arena, 1, sizeof *r);
    och_kl_var *v = och_kl_new_var(c, name, type, OCH_KL_REG, &t->n_row_slots, 1);
    och_kl_ins *declare = r && v ? och_kl_ins_new(c, to, OCH_KL_I_DECLARE, pos) : NULL;
    if (!declare) {
        c->failed = true;
        return NULL;
    }
    v->uniformity = OCH_KL_U_LANE;
    declare->var = v;
    declare->value = initial;
    *r = (och_kl_rowvec){.tile = t, .var = v};
    return r;
}

static och_kl_ir *combine(och_kl_code *c, och_kl_pos pos, bool sum, och_kl_ir *a, och_kl_ir *b) {
    if (!a || !b) return NULL;
    if (sum) return och_kl_binary(c, pos, '+', a, b);
    return och_kl_call(c, pos, OCH_KL_F_MAX, a->type, 0, (och_kl_ir *[]){a, b}, 2);
}

/* Over the lanes that hold other columns of the same row. Where these are neighbours it is a reduction of a cluster. */
static void over_lanes(och_kl_code *c, och_kl_list *to, och_kl_pos pos, const och_kl_tile_layout *l, och_kl_var *v,
                       uint32_t slot, bool sum) {
    int n = 0;
    while (n < l->f.n_lane_bits && l->f.lane[n].axis == 'c') n++;
    bool neighbours = true;
    for (int i = n; i < l->f.n_lane_bits; i++)
        if (l->f.lane[i].axis == 'c') neighbours = false;
    if (neighbours) {
        och_kl_ir *x = och_kl_tile_use(c, pos, v, slot);
        if (n && x)
            och_kl_tile_assign(
                c, to, pos, v, slot,
                och_kl_call(c, pos, sum ? OCH_KL_F_WAVE_SUM : OCH_KL_F_WAVE_MAX, x->type, 1 << n, &x, 1));
        return;
    }
    for (int i = 0; i < l->f.n_lane_bits; i++) {
        if (l->f.lane[i].axis != 'c') continue;
        och_kl_ir *args[2] = {och_kl_tile_use(c, pos, v, slot), och_kl_tile_i32(c, pos, 1 << i)};
        if (!args[0]) return;
        och_kl_ir *other = och_kl_call(c, pos, OCH_KL_F_SHUFFLE_XOR, args[0]->type, c->profile.wave, args, 2);
        och_kl_tile_assign(c, to, pos, v, slot, combine(c, pos, sum, och_kl_tile_use(c, pos, v, slot), other));
    }
}

/* Over the waves along the columns: each writes its part, and all read all of them in one order. */
static void over_waves(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t, const och_kl_tile_layout *l,
                       och_kl_var *v, bool sum) {
    if (!t->scratch)
        t->scratch = och_kl_new_var(c, "row_parts", och_kl_type_of(t->base, 1), OCH_KL_LDS,
                                    (uint32_t[]){t->wave_cols, t->rows}, 2);
    och_kl_ir *col = och_kl_tile_lane_part(c, pos, &l->f, t->lane, 'c');
    och_kl_ir *first = col ? och_kl_binary(c, pos, OCH_KL_OP_EQ, col, och_kl_tile_i32(c, pos, 0)) : NULL;
    if (!t->scratch || !first) return;
    och_kl_ir *part =
        och_kl_binary(c, pos, '/', och_kl_use(c, pos, t->wave_col0), och_kl_tile_i32(c, pos, t->cols / t->wave_cols));
    och_kl_var *mine =
        och_kl_tile_let(c, to, pos, "part_at",
                        och_kl_binary(c, pos, '+', och_kl_use(c, pos, t->row0),
                                      och_kl_binary(c, pos, '*', part, och_kl_tile_i32(c, pos, t->rows))));
    och_kl_ins_new(c, to, OCH_KL_I_BARRIER, pos); /* the parts of the reduction before have been read */
    och_kl_ins *cond = och_kl_ins_new(c, to, OCH_KL_I_IF, pos);
    if (!cond) return;
    cond->value = first;
    och_kl_mem m = {.base = t->scratch, .elem = t->base, .lanes = 1, .align_bytes = och_kl_base_bytes(t->base)};
    for (uint32_t s = 0; s < t->n_row_slots; s++) {
        och_kl_ins *i = och_kl_ins_new(c, &cond->body, OCH_KL_I_STORE, pos);
        if (!i) return;
        i->mem = m;
        i->mem.index = och_kl_binary(c, pos, '+', och_kl_use(c, pos, mine), och_kl_tile_i32(c, pos, row_of(t, l, s)));
        i->value = och_kl_tile_use(c, pos, v, s);
    }
    och_kl_ins_new(c, to, OCH_KL_I_BARRIER, pos);
    for (uint32_t s = 0; s < t->n_row_slots; s++) {
        och_kl_ir *x = NULL;
        for (uint32_t w = 0; w < t->wave_cols; w++) {
            m.index = och_kl_binary(c, pos, '+', och_kl_use(c, pos, t->row0), och_kl_tile_i32(c, pos, w * t->rows + row_of(t, l, s)));
            och_kl_ir *y = och_kl_load(c, pos, &m);
            x = w ? combine(c, pos, sum, x, y) : y;
        }
        och_kl_tile_assign(c, to, pos, v, s, x);
    }
}

static och_status reduce(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t, const char *name, bool sum,
                         och_kl_rowvec **out_v, och_err *err) {
    *out_v = NULL;
    och_kl_tile_layout l;
    och_kl_tile_layout_of(t->matrix, t->across, &l);
    och_kl_tile_touch(c, to, pos, t);
    och_kl_rowvec *r = declare_rowvec(c, to, pos, t, name, och_kl_type_of(t->base, 1), NULL);
    if (!r) return och_kl_tile_done(c, err);
    och_kl_var *v = r->var;
    for (uint32_t s = 0; s < t->n_row_slots && !c->failed; s++) {
        och_kl_ir *x = NULL;
        for (uint32_t fc = 0; fc < t->frag_cols; fc++)
            for (uint32_t e = 0; e < l.n_elems; e++) {
                if (l.slot[e] != s % l.n_slots) continue;
                och_kl_ir *y = och_kl_elem(c, pos, och_kl_tile_use(c, pos, t->acc, och_kl_tile_frag(t, s / l.n_slots, fc)), (int)e);
                x = x ? combine(c, pos, sum, x, y) : y;
            }
        och_kl_tile_assign(c, to, pos, v, s, x);
        over_lanes(c, to, pos, &l, v, s, sum);
    }
    if (t->wave_cols > 1) over_waves(c, to, pos, t, &l, v, sum);
    *out_v = r;
    return och_kl_tile_done(c, err);
}

och_status och_kl_tile_row_max(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t, const char *name,
                               och_kl_rowvec **out_v, och_err *err) {
    return reduce(c, to, pos, t, name, false, out_v, err);
}
och_status och_kl_tile_row_sum(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t, const char *name,
                               och_kl_rowvec **out_v, och_err *err) {
    return reduce(c, to, pos, t, name, true, out_v, err);
}

och_status och_kl_tile_rows(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t, const char *name, och_kl_ir *initial,
                            och_kl_rowvec **out_v, och_err *err) {
    *out_v = NULL;
    och_kl_tile_touch(c, to, pos, t);
    *out_v = declare_rowvec(c, to, pos, t, name, initial->type, initial);
    return och_kl_tile_done(c, err);
}

och_status och_kl_rowvec_map(och_kl_code *c, och_kl_list *to, och_kl_pos pos, const och_kl_rowvec *v, och_kl_tile_map_fn value,
                             void *self, och_err *err) {
    och_kl_tile_layout l;
    och_kl_tile_layout_of(v->tile->matrix, v->tile->across, &l);
    for (uint32_t s = 0; s < v->tile->n_row_slots && !c->failed; s++) {
        och_kl_tile_at at = {.row_slot = s, .value = och_kl_tile_use(c, pos, v->var, s)};
        at.row = och_kl_binary(c, pos, '+', och_kl_use(c, pos, v->tile->row0),
                               och_kl_tile_i32(c, pos, row_of(v->tile, &l, s)));
        if (c->failed) break;
        och_kl_ir *x = value(self, to, &at);
        if (!x)
            return c->failed ? och_kl_tile_done(c, err)
                             : och_err_set(err, OCH_COMPILE, "the function of a row vector's elements does not compile");
        och_kl_tile_assign(c, to, pos, v->var, s, x);
    }
    return och_kl_tile_done(c, err);
}

bool och_kl_rowvec_fits(const och_kl_rowvec *v, const och_kl_tile *t) {
    const och_kl_tile *u = v->tile;
    return u->rows == t->rows && u->wave_rows == t->wave_rows && u->by_fours == t->by_fours && u->across == t->across &&
           u->matrix->m == t->matrix->m && strcmp(u->matrix->c, t->matrix->c) == 0;
}

och_kl_ir *och_kl_rowvec_at(och_kl_code *c, och_kl_pos pos, const och_kl_rowvec *v, const och_kl_tile_at *at) {
    return och_kl_tile_use(c, pos, v->var, at->row_slot);
}
