#include "kl/tile_priv.h"

#include <string.h>

void och_kl_tile_layout_of(const och_kl_matrix *m, bool across, och_kl_tile_layout *out_l) {
    memset(out_l, 0, sizeof *out_l);
    if (!och_kl_fragment_parse(m->c, &out_l->f)) return;
    if (across) och_kl_fragment_turn(&out_l->f);
    out_l->n_elems = 1u << out_l->f.n_elem_bits;
    for (uint32_t e = 0; e < out_l->n_elems; e++) {
        och_kl_fragment_at(&out_l->f, 0, e, &out_l->row[e], &out_l->col[e]);
        uint32_t s = 0;
        while (s < out_l->n_slots && out_l->slot_row[s] != out_l->row[e]) s++;
        if (s == out_l->n_slots) out_l->slot_row[out_l->n_slots++] = out_l->row[e];
        out_l->slot[e] = s;
    }
}

och_kl_ir *och_kl_tile_lane_part(och_kl_code *c, och_kl_pos pos, const och_kl_fragment *f, och_kl_var *lane, char axis) {
    och_kl_ir *sum = NULL;
    for (int i = 0; i < f->n_lane_bits;) {
        int n = 1;
        while (i + n < f->n_lane_bits && f->lane[i + n].axis == f->lane[i].axis &&
               f->lane[i + n].bit == f->lane[i].bit + n)
            n++;
        if (f->lane[i].axis == axis) {
            och_kl_ir *x = och_kl_use(c, pos, lane);
            x = och_kl_binary(c, pos, OCH_KL_OP_SHR, x, och_kl_tile_i32(c, pos, i));
            if (i + n < f->n_lane_bits) x = och_kl_binary(c, pos, '&', x, och_kl_tile_i32(c, pos, (1 << n) - 1));
            x = och_kl_binary(c, pos, '*', x, och_kl_tile_i32(c, pos, 1 << f->lane[i].bit));
            sum = sum ? och_kl_binary(c, pos, '+', sum, x) : x;
        }
        i += n;
    }
    return sum ? sum : och_kl_tile_i32(c, pos, 0);
}

och_kl_var *och_kl_tile_let(och_kl_code *c, och_kl_list *to, och_kl_pos pos, const char *name, och_kl_ir *x) {
    if (!x) return NULL;
    och_kl_var *v = och_kl_new_var(c, name, x->type, OCH_KL_REG, NULL, 0);
    och_kl_ins *i = v ? och_kl_ins_new(c, to, OCH_KL_I_DECLARE, pos) : NULL;
    if (!i) return NULL;
    v->fixed = true;
    v->uniformity = x->uniformity;
    i->var = v;
    i->value = x;
    return v;
}

och_kl_ir *och_kl_tile_use(och_kl_code *c, och_kl_pos pos, och_kl_var *v, uint32_t at) {
    return och_kl_use_at(c, pos, v, (uint32_t[3]){at, 0, 0});
}

void och_kl_tile_assign(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_var *v, uint32_t at, och_kl_ir *x) {
    och_kl_ins *i = x ? och_kl_ins_new(c, to, OCH_KL_I_ASSIGN, pos) : NULL;
    if (!i) return;
    i->var = v;
    i->at[0] = at;
    i->value = x;
}

och_status och_kl_tile_done(const och_kl_code *c, och_err *err) {
    return c->failed ? och_err_nomem(err, 0, "the code of a tile") : OCH_OK;
}

/* The fragment's instruction for parts of rows x cols a wave: of several shapes the first in the table whose parts are
 * whole. */
static const och_kl_matrix *shape_for(const och_kl_profile *p, och_kl_base in, uint32_t rows, uint32_t cols) {
    const och_kl_matrix *m;
    for (int i = 0; (m = och_kl_matrix_at(i)); i++)
        if (m->in == in && rows % m->m == 0 && cols % m->n == 0 && och_kl_matrix_serves(m, p)) return m;
    return NULL;
}

/* The split whose parts have the least sum of sides: what a wave reads of A and Bt for what it computes. Of two such
 * the one with more waves along the rows, so that row reductions stay within a wave. */
static bool choose_split(uint32_t rows, uint32_t cols, uint32_t waves, uint32_t *out_rows, uint32_t *out_cols) {
    uint64_t best = UINT64_MAX;
    for (uint32_t wr = waves; wr; wr--) {
        if (waves % wr || rows % (16 * wr) || cols % (16 * (waves / wr))) continue;
        uint64_t sides = (uint64_t)rows / wr + cols / (waves / wr);
        if (sides < best) {
            best = sides;
            *out_rows = wr;
            *out_cols = waves / wr;
        }
    }
    return best != UINT64_MAX;
}

och_status och_kl_tile_create(och_kl_code *c, och_kl_list *to, och_kl_pos pos, const char *name, och_kl_base base,
                              uint32_t rows, uint32_t cols, uint32_t wave_rows, uint32_t wave_cols, och_kl_ir *initial,
                              och_kl_tile **out_tile, och_err *err) {
    *out_tile = NULL;
    uint32_t waves = (uint32_t)c->signature.waves;
    if (base != OCH_KL_F32 && base != OCH_KL_I32)
        return och_err_set(err, OCH_INVALID, "the elements of a tile are f32 or i32, found %s", och_kl_base_names[base]);
    if (!rows || !cols || rows > 65536 || cols > 65536)
        return och_err_set(err, OCH_INVALID, "a tile of %u x %u: expected 16 to 65536 along each side", rows, cols);
    bool given = wave_rows;
    if (!wave_rows && !choose_split(rows, cols, waves, &wave_rows, &wave_cols))
        return och_err_set(
            err, OCH_INVALID,
            "a tile of %u x %u cannot be split over %u waves: a side must be a multiple of 16 times the waves along it",
            rows, cols, waves);
    if ((uint64_t)wave_rows * wave_cols != waves)
        return och_err_set(err, OCH_INVALID, "a tile over %u x %u waves: expected %u waves, as the kernel launches",
                           wave_rows, wave_cols, waves);
    if (rows % (16 * wave_rows) || cols % (16 * wave_cols))
        return och_err_set(err, OCH_INVALID, "a tile of %u x %u over %u x %u waves: expected a multiple of %u x %u",
                           rows, cols, wave_rows, wave_cols, 16 * wave_rows, 16 * wave_cols);
    const och_kl_matrix *m =
        shape_for(&c->profile, base == OCH_KL_F32 ? OCH_KL_F16 : OCH_KL_I8, rows / wave_rows, cols / wave_cols);
    if (!m) return och_err_set(err, OCH_INTERNAL, "no row of matrix.def is for waves of %d", c->profile.wave);
    och_kl_tile *t = och_arena_alloc(&c->arena, 1, sizeof *t);
    if (!t) c->failed = true;
    if (!t || c->failed) return och_kl_tile_done(c, err);
    och_kl_tile_layout l;
    och_kl_tile_layout_of(m, false, &l);
    t->base = base;
    t->rows = rows;
    t->cols = cols;
    t->wave_rows = wave_rows;
    t->wave_cols = wave_cols;
    t->matrix = m;
    t->frag_rows = rows / wave_rows / m->m;
    t->frag_cols = cols / wave_cols / m->n;
    t->n_row_slots = t->frag_rows * l.n_slots;
    t->acc_cols = t->frag_cols;
    t->row_step = m->m;
    t->given_split = given;

    const och_kl_type i32 = och_kl_type_of(OCH_KL_I32, 1);
    t->lane = och_kl_tile_let(c, to, pos, "lane", och_kl_call(c, pos, OCH_KL_F_LANE, i32, 0, NULL, 0));
    och_kl_var *wave = t->wave = och_kl_tile_let(c, to, pos, "wave", och_kl_call(c, pos, OCH_KL_F_WAVE_ID, i32, 0, NULL, 0));
    och_kl_ir *row = och_kl_binary(c, pos, '/', och_kl_use(c, pos, wave), och_kl_tile_i32(c, pos, wave_cols));
    och_kl_ir *col = och_kl_binary(c, pos, '%', och_kl_use(c, pos, wave), och_kl_tile_i32(c, pos, wave_cols));
    t->wave_row0 = och_kl_tile_let(c, to, pos, "wave_row",
                                   och_kl_binary(c, pos, '*', row, och_kl_tile_i32(c, pos, rows / wave_rows)));
    t->declares[0] = to->last;
    t->wave_col0 = och_kl_tile_let(c, to, pos, "wave_col",
                                   och_kl_binary(c, pos, '*', col, och_kl_tile_i32(c, pos, cols / wave_cols)));
    t->declares[1] = to->last;
    t->row0 = och_kl_tile_let(c, to, pos, "row",
                              och_kl_binary(c, pos, '+', och_kl_use(c, pos, t->wave_row0),
                                            och_kl_tile_lane_part(c, pos, &l.f, t->lane, 'r')));
    t->declares[2] = to->last;
    t->col0 = och_kl_tile_let(c, to, pos, "col",
                              och_kl_binary(c, pos, '+', och_kl_use(c, pos, t->wave_col0),
                                            och_kl_tile_lane_part(c, pos, &l.f, t->lane, 'c')));
    t->declares[3] = to->last;
    const och_kl_type vector = och_kl_type_of(base, (int)l.n_elems);
    t->acc = och_kl_new_var(c, name, vector, OCH_KL_REG, (uint32_t[]){t->frag_rows * t->frag_cols}, 1);
    och_kl_ins *i = t->acc ? och_kl_ins_new(c, to, OCH_KL_I_DECLARE, pos) : NULL;
    if (i) {
        t->acc->uniformity = OCH_KL_U_LANE;
        i->var = t->acc;
        i->value = initial ? och_kl_build(c, pos, vector, &initial, 1) : NULL;
    }
    *out_tile = t;
    return och_kl_tile_done(c, err);
}

och_status och_kl_tile_columns(och_kl_code *c, och_kl_tile *t, int64_t first, int64_t n, och_kl_tile **out_tile, och_err *err) {
    *out_tile = NULL;
    int64_t unit = t->matrix->n > 16 ? t->matrix->n : 16;
    if (t->wave_cols != 1 || t->across)
        return och_err_set(err, OCH_INVALID, "columns of a tile over %u waves along them: expected one, as the kernel says", t->wave_cols);
    if (first < 0 || n < 1 || first % unit || n % unit || first + n > t->cols)
        return och_err_set(err, OCH_INVALID, "columns %lld and %lld more of %u: expected multiples of %lld within", (long long)first, (long long)n,
                           t->cols, (long long)unit);
    och_kl_tile *v = och_arena_alloc(&c->arena, 1, sizeof *v);
    if (!v) c->failed = true;
    else {
        *v = *t;
        v->whole = t->whole ? t->whole : t;
        v->pending = false;
        v->as_operand = v->scratch = NULL;
        v->cols = (uint32_t)n;
        v->frag_cols = (uint32_t)n / t->matrix->n;
        v->first_frag = t->first_frag + (uint32_t)first / t->matrix->n;
        *out_tile = v;
        v->whole->settled = true;
    }
    return och_kl_tile_done(c, err);
}

void och_kl_tile_wait(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t) {
    if (!t->pending) return;
    t->pending = false;
    och_kl_tile_wait_for(c, to, pos, t, 0);
}

/* ---- elements ---- */

static och_kl_tile_at element(och_kl_code *c, och_kl_pos pos, const och_kl_tile *t, const och_kl_tile_layout *l,
                              uint32_t fr, uint32_t fc, uint32_t e) {
    och_kl_tile_at at = {0};
    at.row = och_kl_binary(c, pos, '+', och_kl_use(c, pos, t->row0), och_kl_tile_i32(c, pos, fr * t->row_step + l->row[e]));
    at.col = och_kl_binary(c, pos, '+', och_kl_use(c, pos, t->col0), och_kl_tile_i32(c, pos, fc * t->matrix->n + l->col[e]));
    at.value = och_kl_elem(c, pos, och_kl_tile_use(c, pos, t->acc, och_kl_tile_frag(t, fr, fc)), (int)e);
    at.row_slot = fr * l->n_slots + l->slot[e];
    return at;
}

/* Elements of both are then the same lanes', in the same order. */
static bool lies_as(const och_kl_tile *t, const och_kl_tile *o) {
    return t->base == o->base && t->rows == o->rows && t->cols == o->cols && t->wave_rows == o->wave_rows && t->wave_cols == o->wave_cols &&
           t->matrix == o->matrix && t->by_fours == o->by_fours && t->across == o->across;
}

och_status och_kl_tile_map(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t, och_kl_tile *other,
                           och_kl_tile_map_fn value, void *self, och_err *err) {
    if (other && !lies_as(t, other))
        return och_err_set(err, OCH_INVALID, "a tile of %u x %u over %u x %u waves: expected one that lies as the %u x %u over %u x %u", other->rows,
                           other->cols, other->wave_rows, other->wave_cols, t->rows, t->cols, t->wave_rows, t->wave_cols);
    och_kl_tile_layout l;
    och_kl_tile_layout_of(t->matrix, t->across, &l);
    och_kl_tile_touch(c, to, pos, t);
    if (other) och_kl_tile_touch(c, to, pos, other);
    for (uint32_t fr = 0; fr < t->frag_rows; fr++)
        for (uint32_t fc = 0; fc < t->frag_cols; fc++) {
            och_kl_ir *elems[64];
            for (uint32_t e = 0; e < l.n_elems; e++) {
                och_kl_tile_at at = element(c, pos, t, &l, fr, fc, e);
                if (other) at.beside = element(c, pos, other, &l, fr, fc, e).value;
                if (c->failed) return och_kl_tile_done(c, err);
                elems[e] = value(self, to, &at);
                if (!elems[e])
                    return c->failed
                               ? och_kl_tile_done(c, err)
                               : och_err_set(err, OCH_COMPILE, "the function of a tile's elements does not compile");
            }
            och_kl_tile_assign(c, to, pos, t->acc, och_kl_tile_frag(t, fr, fc),
                               och_kl_build(c, pos, och_kl_type_of(t->base, (int)l.n_elems), elems, (int)l.n_elems));
        }
    return och_kl_tile_done(c, err);
}

och_status och_kl_tile_each(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t, och_kl_tile_each_fn body,
                            void *self, och_err *err) {
    och_kl_tile_layout l;
    och_kl_tile_layout_of(t->matrix, t->across, &l);
    och_kl_tile_touch(c, to, pos, t);
    for (uint32_t fr = 0; fr < t->frag_rows; fr++)
        for (uint32_t fc = 0; fc < t->frag_cols; fc++)
            for (uint32_t e = 0; e < l.n_elems; e++) {
                och_kl_tile_at at = element(c, pos, t, &l, fr, fc, e);
                if (c->failed) return och_kl_tile_done(c, err);
                if (!body(self, to, &at))
                    return c->failed
                               ? och_kl_tile_done(c, err)
                               : och_err_set(err, OCH_COMPILE, "the body over a tile's elements does not compile");
            }
    return och_kl_tile_done(c, err);
}
