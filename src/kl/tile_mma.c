/* What tiles do with LDS: fragments of A and Bt out of it, C into it. */
#include "kl/tile_priv.h"

/* Elements one after another in the lowest element bits, along columns. */
static uint32_t run_of(const och_kl_fragment *f) {
    int n = 0;
    while (n < f->n_elem_bits && f->elem[n].axis == 'c' && f->elem[n].bit == n) n++;
    return 1u << n;
}

/* A fragment of an operand: its first element is at `at` (the lane's) + shift. */
static och_kl_ir *load_fragment(och_kl_code *c, och_kl_pos pos, const och_kl_fragment *f, const och_kl_tile_lds *o,
                                och_kl_var *at, uint32_t shift) {
    uint32_t bytes = och_kl_base_bytes(o->lds->type.base), run = run_of(f), n = 1u << f->n_elem_bits, most = 16 / bytes;
    /* All the k of a row that a lane holds lie side by side: loads are as wide as they may be, though the instruction may want
     * them in several registers between others. */
    uint32_t wide = 1;
    for (int i = 0; i < f->n_elem_bits; i++)
        if (f->elem[i].axis == 'c') wide *= 2;
    if (wide > most) wide = most;
    if (run > wide) run = wide;
    och_kl_ir *parts[64];
    for (uint32_t e = 0; e < n; e += run) {
        uint32_t row, k;
        och_kl_fragment_at(f, 0, e, &row, &k);
        och_kl_mem m = {.base = o->lds, .elem = o->lds->type.base, .lanes = (uint8_t)wide, .align_bytes = wide * bytes};
        m.index = och_kl_binary(c, pos, '+', och_kl_use(c, pos, at),
                                och_kl_tile_i32(c, pos, shift + row * o->stride + k / wide * wide));
        parts[e / run] = och_kl_slice(c, pos, och_kl_load(c, pos, &m), (int)(k % wide), (int)run);
        if (!parts[e / run]) return NULL;
    }
    return och_kl_concat(c, pos, parts, (int)(n / run));
}

static och_status check_operand(const och_kl_tile_lds *o, const char *what, uint32_t rows, och_kl_base type, och_err *err) {
    uint32_t unit = type == OCH_KL_I8 ? 16 : 8, step = type == OCH_KL_I8 ? 32 : 16;
    if (o->rows != rows) return och_err_set(err, OCH_INVALID, "%s has %u rows, expected the tile's %u", what, o->rows, rows);
    if (!o->depth || o->depth % step)
        return och_err_set(err, OCH_INVALID, "%s has %u columns, expected a multiple of %u", what, o->depth, step);
    if (o->stride < o->depth || o->stride % unit)
        return och_err_set(err, OCH_INVALID,
                           "the rows of %s are %u elements apart, expected a multiple of %u of at least %u", what,
                           o->stride, unit, o->depth);
    return OCH_OK;
}

/* Where a lane's first element lies: offset + (wave's row + its own) * stride + its own k. */
static och_kl_var *operand_at(och_kl_code *c, och_kl_list *to, och_kl_pos pos, const char *name,
                              const och_kl_fragment *f, const och_kl_tile_lds *o, och_kl_var *first_row,
                              och_kl_var *lane) {
    och_kl_ir *row = och_kl_binary(c, pos, '+', och_kl_use(c, pos, first_row), och_kl_tile_lane_part(c, pos, f, lane, 'r'));
    och_kl_ir *x = och_kl_binary(c, pos, '*', row, och_kl_tile_i32(c, pos, o->stride));
    x = och_kl_binary(c, pos, '+', x, och_kl_tile_lane_part(c, pos, f, lane, 'c'));
    if (o->offset) x = och_kl_binary(c, pos, '+', o->offset, x);
    return och_kl_tile_let(c, to, pos, name, x);
}

och_status och_kl_tile_mma(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t, const och_kl_tile_lds *a,
                           const och_kl_tile_lds *bt, och_err *err) {
    och_kl_base in = a->lds->type.base;
    if (bt->lds->type.base != in)
        return och_err_set(err, OCH_INVALID, "mma of %s and %s: expected one type", och_kl_base_names[in],
                           och_kl_base_names[bt->lds->type.base]);
    bool fits = t->base == OCH_KL_F32 ? in == OCH_KL_F16 || in == OCH_KL_BF16 : in == OCH_KL_I8;
    if (!fits)
        return och_err_set(err, OCH_INVALID, "mma of %s into a tile of %s: expected %s", och_kl_base_names[in],
                           och_kl_base_names[t->base], t->base == OCH_KL_F32 ? "f16 or bf16" : "i8");
    OCH_TRY(check_operand(a, "A", t->rows, in, err));
    OCH_TRY(check_operand(bt, "Bt", t->cols, in, err));
    if (a->depth != bt->depth)
        return och_err_set(err, OCH_INVALID, "A has %u columns and Bt %u: expected as many", a->depth, bt->depth);
    const och_kl_matrix *m = och_kl_matrix_find(&c->profile, in, t->matrix->m, t->matrix->n, a->depth);
    och_kl_fragment fa, fb;
    if (!m || !och_kl_fragment_parse(m->a, &fa) || !och_kl_fragment_parse(m->b, &fb) || !och_kl_fragment_pack_k(&fa, &fb))
        return och_err_set(err, OCH_INTERNAL, "no row of matrix.def is for %s with %u x %u fragments",
                           och_kl_base_names[in], t->matrix->m, t->matrix->n);
    och_kl_var *a_at = operand_at(c, to, pos, "a_at", &fa, a, t->wave_row0, t->lane);
    och_kl_var *b_at = operand_at(c, to, pos, "b_at", &fb, bt, t->wave_col0, t->lane);
    och_kl_var **b = och_arena_alloc(&c->arena, t->frag_cols, sizeof *b);
    if (!b) c->failed = true;
    const och_kl_type type = och_kl_type_of(t->base, och_kl_matrix_c_lanes(m));
    for (uint32_t k = 0; k < a->depth && !c->failed; k += m->k) {
        for (uint32_t fc = 0; fc < t->frag_cols; fc++)
            b[fc] = och_kl_tile_let(c, to, pos, "b", load_fragment(c, pos, &fb, bt, b_at, fc * m->n * bt->stride + k));
        for (uint32_t fr = 0; fr < t->frag_rows; fr++) {
            och_kl_var *av = och_kl_tile_let(c, to, pos, "a", load_fragment(c, pos, &fa, a, a_at, fr * m->m * a->stride + k));
            for (uint32_t fc = 0; fc < t->frag_cols && !c->failed; fc++) {
                uint32_t at = fr * t->frag_cols + fc;
                och_kl_ir *args[3] = {och_kl_use(c, pos, av), och_kl_use(c, pos, b[fc]), och_kl_tile_use(c, pos, t->acc, at)};
                och_kl_tile_assign(c, to, pos, t->acc, at,
                                   och_kl_call(c, pos, OCH_KL_F_MMA, type, och_kl_matrix_index(m), args, 3));
            }
        }
    }
    return och_kl_tile_done(c, err);
}

och_status och_kl_tile_to_lds(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t, const och_kl_tile_lds *p,
                              och_err *err) {
    if (p->rows != t->rows || p->depth != t->cols)
        return och_err_set(err, OCH_INVALID, "P is %u x %u, expected the tile's %u x %u", p->rows, p->depth, t->rows, t->cols);
    if (p->stride < p->depth)
        return och_err_set(err, OCH_INVALID, "the rows of P are %u elements apart, expected at least %u", p->stride,
                           p->depth);
    och_kl_base out = p->lds->type.base;
    och_kl_tile_layout l;
    och_kl_tile_layout_of(t->matrix, &l);
    /* Side by side in registers and in LDS: stored together where the rows' distance keeps them aligned. */
    uint32_t run = run_of(&l.f);
    if (p->stride % run) run = 1;
    och_kl_ir *x = och_kl_binary(c, pos, '*', och_kl_use(c, pos, t->row0), och_kl_tile_i32(c, pos, p->stride));
    x = och_kl_binary(c, pos, '+', x, och_kl_use(c, pos, t->col0));
    if (p->offset) x = och_kl_binary(c, pos, '+', p->offset, x);
    och_kl_var *at = och_kl_tile_let(c, to, pos, "p_at", x);
    for (uint32_t fr = 0; fr < t->frag_rows; fr++)
        for (uint32_t fc = 0; fc < t->frag_cols; fc++)
            for (uint32_t e = 0; e < l.n_elems && !c->failed; e += run) {
                och_kl_ir *v = och_kl_slice(c, pos, och_kl_tile_use(c, pos, t->acc, fr * t->frag_cols + fc), (int)e, (int)run);
                v = och_kl_convert(c, pos, och_kl_type_of(out, (int)run), v);
                uint32_t shift = (fr * t->matrix->m + l.row[e]) * p->stride + fc * t->matrix->n + l.col[e];
                och_kl_ins *i = v ? och_kl_ins_new(c, to, OCH_KL_I_STORE, pos) : NULL;
                if (!i) break;
                i->mem = (och_kl_mem){
                    .base = p->lds, .elem = out, .lanes = (uint8_t)run, .align_bytes = run * och_kl_base_bytes(out)};
                i->mem.index = och_kl_binary(c, pos, '+', och_kl_use(c, pos, at), och_kl_tile_i32(c, pos, shift));
                i->value = v;
            }
    return och_kl_tile_done(c, err);
}
