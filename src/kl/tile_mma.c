/* What tiles do with LDS: fragments of A and Bt out of it, C into it. */
#include "kl/tile_priv.h"

/* Elements one after another in the lowest element bits, along columns. */
static uint32_t run_of(const och_kl_fragment *f) {
    int n = 0;
    while (n < f->n_elem_bits && f->elem[n].axis == 'c' && f->elem[n].bit == n) n++;
    return 1u << n;
}

/* f(r) is (r >> shift) & mask. */
static void swizzle_bits(uint32_t row_bytes, uint32_t *out_shift, uint32_t *out_mask) {
    uint32_t pieces = row_bytes / 16, in_all_banks = 8;
    *out_mask = (pieces < in_all_banks ? pieces : in_all_banks) - 1;
    *out_shift = 0;
    for (uint32_t p = pieces; p < in_all_banks; p *= 2) (*out_shift)++;
}

och_kl_ir *och_kl_swizzle_of(och_kl_code *c, och_kl_pos pos, och_kl_ir *row, uint32_t row_bytes, uint32_t per) {
    uint32_t shift, mask;
    swizzle_bits(row_bytes, &shift, &mask);
    if (shift) row = och_kl_binary(c, pos, OCH_KL_OP_SHR, row, och_kl_tile_i32(c, pos, shift));
    return och_kl_binary(c, pos, '*', och_kl_binary(c, pos, '&', row, och_kl_tile_i32(c, pos, mask)),
                         och_kl_tile_i32(c, pos, per));
}

/* An operand as a wave reads it. */
typedef struct operand {
    const och_kl_tile_lds *o;
    och_kl_fragment f;
    bool by_matrix;       /* LOAD_MATRIX reads it */
    bool turned;          /* its rows are k: what is row and what is column in LDS is the other way round */
    uint32_t beside;      /* matrices of it side by side: the rest of them below */
    och_kl_var *at;       /* the lane's first element; of a swizzled matrix its row's first, */
    och_kl_var *col;      /* and its column, xored with what its row asks for */
    uint32_t per;         /* elements of 16 bytes */
} operand;

/* Where the lane's element of (row, k) lies, both constant and added to what the lane says: bits that it leaves 0. */
static och_kl_ir *place(och_kl_code *c, och_kl_pos pos, const operand *p, uint32_t row, uint32_t k) {
    och_kl_ir *at = och_kl_use(c, pos, p->at);
    if (p->turned) {
        uint32_t t = row;
        row = k;
        k = t;
    }
    uint32_t matrix = 0; /* whose first element is so many of them behind */
    if (p->turned) {
        matrix = (row / p->o->rows * p->beside + k / p->o->depth) * p->o->rows * p->o->stride;
        row %= p->o->rows;
        k %= p->o->depth;
    }
    if (!p->o->swizzled) return och_kl_binary(c, pos, '+', at, och_kl_tile_i32(c, pos, matrix + row * p->o->stride + k));
    uint32_t shift, mask;
    swizzle_bits(p->o->depth * och_kl_base_bytes(p->o->lds->type.base), &shift, &mask);
    k ^= (row >> shift & mask) * p->per;
    och_kl_ir *col = och_kl_use(c, pos, p->col);
    if (k) col = och_kl_binary(c, pos, '^', col, och_kl_tile_i32(c, pos, k));
    /* The constant last: it becomes an offset of the instruction. */
    at = och_kl_binary(c, pos, '+', at, col);
    return och_kl_binary(c, pos, '+', at, och_kl_tile_i32(c, pos, matrix + row * p->o->stride));
}

/* A fragment of an operand, rows from `row` and columns from `first` on. */
static och_kl_ir *load_fragment(och_kl_code *c, och_kl_pos pos, const operand *p, uint32_t row, uint32_t first) {
    const och_kl_fragment *f = &p->f;
    uint32_t bytes = och_kl_base_bytes(p->o->lds->type.base), run = run_of(f), n = 1u << f->n_elem_bits, most = 16 / bytes;
    /* All the k of a row that a lane holds lie side by side: loads are as wide as they may be, though the instruction may want
     * them in several registers between others. */
    uint32_t wide = 1;
    for (int i = 0; i < f->n_elem_bits; i++)
        if (f->elem[i].axis == 'c') wide *= 2;
    if (wide > most) wide = most;
    if (p->turned) wide = 1;
    if (run > wide) run = wide;
    och_kl_ir *parts[64];
    for (uint32_t e = 0; e < n; e += run) {
        uint32_t r, k;
        och_kl_fragment_at(f, 0, e, &r, &k);
        och_kl_mem m = {.base = p->o->lds, .elem = p->o->lds->type.base, .lanes = (uint8_t)wide, .align_bytes = wide * bytes};
        m.index = place(c, pos, p, row + r, first + k / wide * wide);
        parts[e / run] = och_kl_slice(c, pos, och_kl_load(c, pos, &m), (int)(k % wide), (int)run);
        if (!parts[e / run]) return NULL;
    }
    if (run == 1) return och_kl_build(c, pos, och_kl_type_of(p->o->lds->type.base, (int)n), parts, (int)n);
    return och_kl_concat(c, pos, parts, (int)(n / run));
}

/* Four words a lane, by LOAD_MATRIX, as a vector of the operand's elements. */
static och_kl_ir *load_matrix(och_kl_code *c, och_kl_list *to, och_kl_pos pos, const operand *p, uint32_t row, uint32_t first) {
    och_kl_ir *x = och_kl_call(c, pos, OCH_KL_F_LOAD_MATRIX, och_kl_type_of(OCH_KL_U32, 4), p->turned, NULL, 0);
    if (!x) return NULL;
    x->mem = (och_kl_mem){.base = p->o->lds, .elem = p->o->lds->type.base, .lanes = (uint8_t)p->per, .align_bytes = 16};
    x->mem.index = place(c, pos, p, row, first);
    och_kl_var *v = x->mem.index ? och_kl_tile_let(c, to, pos, "words", x) : NULL;
    return v ? och_kl_use(c, pos, v) : NULL;
}

static och_kl_ir *as_elements(och_kl_code *c, och_kl_pos pos, const operand *p, och_kl_ir *words, och_kl_base want) {
    if (!words) return NULL;
    och_kl_base own = p->o->lds->type.base;
    int lanes = words->type.base == own ? words->type.lanes : words->type.lanes * 4 / (int)och_kl_base_bytes(own);
    och_kl_ir *x = och_kl_bitcast(c, pos, och_kl_type_of(own, lanes), words);
    if (x && want != own) x = och_kl_call(c, pos, OCH_KL_F_HALVES, och_kl_type_of(want, lanes), 0, &x, 1);
    return x;
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

/* The layouts that LOAD_MATRIX gives: lanes hold a word of a row's 16 bytes, four lanes a row, and the words a lane holds are
 * those of rows 0, 8 and of the second 16 bytes, in that order (A), or of the second 16 bytes (B). */
static bool by_matrix(const och_kl_matrix *m) { return m->form == OCH_KL_M_MMA_SYNC; }

/* Row and column, in pieces of 16 bytes, of the eight rows that a lane names: A's words are (row 0, row 8) x (k 0, k 1), those of two
 * fragments of B (k 0, k 1) x (fragment). */
static void matrix_lane(och_kl_code *c, och_kl_pos pos, och_kl_var *lane, bool is_a, uint32_t rows, och_kl_ir **out_row,
                        och_kl_ir **out_piece) {
    och_kl_ir *l = och_kl_use(c, pos, lane);
    if (is_a) {
        *out_row = och_kl_binary(c, pos, '&', l, och_kl_tile_i32(c, pos, 15));
        *out_piece = och_kl_binary(c, pos, OCH_KL_OP_SHR, l, och_kl_tile_i32(c, pos, 4));
        return;
    }
    och_kl_ir *second = och_kl_binary(c, pos, OCH_KL_OP_SHR, l, och_kl_tile_i32(c, pos, 4));
    *out_row = och_kl_binary(c, pos, '+', och_kl_binary(c, pos, '&', l, och_kl_tile_i32(c, pos, 7)),
                             och_kl_binary(c, pos, '*', second, och_kl_tile_i32(c, pos, rows)));
    *out_piece = och_kl_binary(c, pos, '&', och_kl_binary(c, pos, OCH_KL_OP_SHR, l, och_kl_tile_i32(c, pos, 3)),
                               och_kl_tile_i32(c, pos, 1));
}

/* Where a lane's first element lies: offset + (wave's row + its own) * stride + its own k. */
static void operand_at(och_kl_code *c, och_kl_list *to, och_kl_pos pos, const char *name, operand *p, const och_kl_matrix *m,
                       bool is_a, och_kl_var *first_row, och_kl_var *lane) {
    const och_kl_tile_lds *o = p->o;
    och_kl_ir *row, *col;
    p->per = 16 / och_kl_base_bytes(o->lds->type.base);
    p->by_matrix = by_matrix(m);
    if (p->by_matrix) {
        /* Turned, B's words are (row 0, row 8) x (column 0, column 1) of LDS, as A's are. */
        matrix_lane(c, pos, lane, is_a || p->turned, m->n, &row, &col);
        col = och_kl_binary(c, pos, '*', col, och_kl_tile_i32(c, pos, p->per));
    } else {
        row = och_kl_tile_lane_part(c, pos, &p->f, lane, 'r');
        col = och_kl_tile_lane_part(c, pos, &p->f, lane, 'c');
        if (p->turned) {
            och_kl_ir *t = row;
            row = col;
            col = t;
        }
    }
    /* Lanes beside one another may be in matrices beside one another. */
    och_kl_ir *matrix = NULL;
    if (p->turned && o->depth < m->n) {
        och_kl_var *all = och_kl_tile_let(c, to, pos, "col", col);
        if (!all) return;
        matrix = och_kl_binary(c, pos, '/', och_kl_use(c, pos, all), och_kl_tile_i32(c, pos, o->depth));
        matrix = och_kl_binary(c, pos, '*', matrix, och_kl_tile_i32(c, pos, (int64_t)o->rows * o->stride));
        col = och_kl_binary(c, pos, '%', och_kl_use(c, pos, all), och_kl_tile_i32(c, pos, o->depth));
    }
    if (o->swizzled) {
        och_kl_var *own = och_kl_tile_let(c, to, pos, "own", row);
        if (!own) return;
        row = och_kl_use(c, pos, own);
        col = och_kl_binary(
            c, pos, '^', col,
            och_kl_swizzle_of(c, pos, och_kl_use(c, pos, own), o->depth * och_kl_base_bytes(o->lds->type.base), p->per));
        p->col = och_kl_tile_let(c, to, pos, "col", col);
    }
    och_kl_ir *x = first_row ? och_kl_binary(c, pos, '+', och_kl_use(c, pos, first_row), row) : row;
    x = och_kl_binary(c, pos, '*', x, och_kl_tile_i32(c, pos, o->stride));
    if (!o->swizzled) x = och_kl_binary(c, pos, '+', x, col);
    if (matrix) x = och_kl_binary(c, pos, '+', x, matrix);
    if (o->offset) x = och_kl_binary(c, pos, '+', o->offset, x);
    p->at = och_kl_tile_let(c, to, pos, name, x);
}

/* The fragments of B for one step of k, as variables. */
static void load_b(och_kl_code *c, och_kl_list *to, och_kl_pos pos, const operand *p, const och_kl_matrix *m, uint32_t n, uint32_t k,
                   och_kl_var **b) {
    for (uint32_t fc = 0; fc < n && !c->failed; fc++) {
        if (!p->by_matrix) {
            b[fc] = och_kl_tile_let(c, to, pos, "b", as_elements(c, pos, p, load_fragment(c, pos, p, fc * m->n, k), m->in));
            continue;
        }
        och_kl_ir *words = load_matrix(c, to, pos, p, fc * m->n, k);
        for (int i = 0; i < 2 && words; i++)
            b[fc + (uint32_t)i] =
                och_kl_tile_let(c, to, pos, "b", as_elements(c, pos, p, och_kl_slice(c, pos, words, 2 * i, 2), m->in));
        fc++;
    }
}

/* A's fragment out of two of C side by side (mma.m16n8k16: they are one, a lane), of the accumulators of `a`, as elements of `in`. */
static och_kl_ir *of_tile(och_kl_code *c, och_kl_pos pos, const och_kl_tile *a, uint32_t fr, uint32_t k, och_kl_base in) {
    och_kl_ir *parts[2];
    for (uint32_t i = 0; i < 2; i++) {
        och_kl_ir *x = och_kl_tile_use(c, pos, a->acc, och_kl_tile_frag(a, fr, k / a->matrix->n + i));
        parts[i] = x ? och_kl_convert(c, pos, och_kl_type_of(in, x->type.lanes), x) : NULL;
        if (!parts[i]) return NULL;
    }
    return och_kl_concat(c, pos, parts, 2);
}

/* Of the product's two operands the first is `from`, or `a` in LDS. */
static och_status product(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t, const och_kl_tile *from,
                          const och_kl_tile_lds *a, const och_kl_tile_lds *b_of, bool turned, och_err *err) {
    och_kl_base in = a ? a->lds->type.base : b_of->lds->type.base;
    uint32_t depth = from ? from->cols : a->depth;
    if (t->across)
        return och_err_set(err, OCH_INVALID, "mma into a tile of %u rows that instructions of four waves fill: expected swizzled operands of one type",
                           t->rows);
    och_kl_tile_touch(c, to, pos, t);
    const och_kl_matrix *m = och_kl_matrix_find(&c->profile, in, t->matrix->m, t->matrix->n, depth);
    operand oa = {.o = a}, ob = {.o = b_of, .turned = turned, .beside = turned ? t->cols / b_of->depth : 1};
    if (!m || !och_kl_fragment_parse(m->a, &oa.f) || !och_kl_fragment_parse(m->b, &ob.f) ||
        (!by_matrix(m) && !och_kl_fragment_pack_k(&oa.f, &ob.f)))
        return och_err_set(err, OCH_INTERNAL, "no row of matrix.def is for %s with %u x %u fragments",
                           och_kl_base_names[in], t->matrix->m, t->matrix->n);
    if (a) operand_at(c, to, pos, "a_at", &oa, m, true, t->wave_row0, t->lane);
    operand_at(c, to, pos, "b_at", &ob, m, false, turned ? NULL : t->wave_col0, t->lane);
    och_kl_var **b = och_arena_alloc(&c->arena, t->frag_cols + 1, sizeof *b);
    if (!b) c->failed = true;
    const och_kl_type type = och_kl_type_of(t->base, och_kl_matrix_c_lanes(m));
    for (uint32_t k = 0; k < depth && !c->failed; k += m->k) {
        load_b(c, to, pos, &ob, m, t->frag_cols, k, b);
        for (uint32_t fr = 0; fr < t->frag_rows && !c->failed; fr++) {
            och_kl_ir *x;
            if (from) x = of_tile(c, pos, from, fr, k, in);
            else {
                x = oa.by_matrix ? load_matrix(c, to, pos, &oa, fr * t->row_step, k) : load_fragment(c, pos, &oa, fr * t->row_step, k);
                x = as_elements(c, pos, &oa, x, in);
            }
            och_kl_var *av = och_kl_tile_let(c, to, pos, "a", x);
            for (uint32_t fc = 0; fc < t->frag_cols && !c->failed; fc++) {
                uint32_t at = och_kl_tile_frag(t, fr, fc);
                och_kl_ir *args[3] = {och_kl_use(c, pos, av), och_kl_use(c, pos, b[fc]), och_kl_tile_use(c, pos, t->acc, at)};
                och_kl_tile_assign(c, to, pos, t->acc, at,
                                   och_kl_call(c, pos, OCH_KL_F_MMA, type, och_kl_matrix_index(m), args, 3));
            }
        }
    }
    return och_kl_tile_done(c, err);
}

/* The same by instructions of four waves: all of A first, which begin together. */
static och_status by_fours(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t, const och_kl_tile *from,
                           const och_kl_tile_lds *a, const och_kl_tile_lds *b, och_err *err) {
    const och_kl_type words = och_kl_type_of(OCH_KL_U32, 4);
    uint32_t depth = from ? from->cols : a->depth, n = 0;
    const och_kl_matrix *m = och_kl_matrix_find(&c->profile, b->lds->type.base, t->matrix->m, t->matrix->n, depth);
    operand oa = {.o = a};
    t->settled = true; /* what is under way of it goes on: the next is behind it */
    och_kl_var **parts = och_arena_alloc(&c->arena, depth / 16, sizeof *parts);
    if (!parts || !m) c->failed = true;
    if (a && m) operand_at(c, to, pos, "a_at", &oa, m, true, t->wave_row0, t->lane);
    for (uint32_t k = 0; k < depth && !c->failed; k += 16) {
        och_kl_ir *x = from ? of_tile(c, pos, from, 0, k, b->lds->type.base) : load_matrix(c, to, pos, &oa, 0, k);
        parts[n++] = och_kl_tile_let(c, to, pos, "a", x ? och_kl_call(c, pos, OCH_KL_F_GROUP_WORDS, words, 0, &x, 1) : NULL);
    }
    if (!c->failed) och_kl_tile_group_turned(c, to, pos, t, parts, n, b);
    return och_kl_tile_done(c, err);
}

static och_status check_types(const och_kl_tile *t, och_kl_base in, och_kl_base in_b, och_err *err) {
    bool converts = in == OCH_KL_F16 && in_b == OCH_KL_BF16;
    if (in_b != in && !converts)
        return och_err_set(err, OCH_INVALID, "mma of %s and %s: expected one type, or f16 and bf16", och_kl_base_names[in],
                           och_kl_base_names[in_b]);
    bool fits = t->base == OCH_KL_F32 ? in == OCH_KL_F16 || in == OCH_KL_BF16 : in == OCH_KL_I8;
    if (!fits)
        return och_err_set(err, OCH_INVALID, "mma of %s into a tile of %s: expected %s", och_kl_base_names[in],
                           och_kl_base_names[t->base], t->base == OCH_KL_F32 ? "f16 or bf16" : "i8");
    return OCH_OK;
}

och_status och_kl_tile_mma(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t, const och_kl_tile_lds *a,
                           const och_kl_tile_lds *bt, och_err *err) {
    och_kl_base in = a->lds->type.base;
    OCH_TRY(check_types(t, in, bt->lds->type.base, err));
    OCH_TRY(check_operand(a, "A", t->rows, in, err));
    bool several = bt->rows && bt->rows % 8 == 0 && bt->rows < t->cols && t->cols % bt->rows == 0;
    OCH_TRY(check_operand(bt, "Bt", several ? bt->rows : t->cols, in, err));
    if (several && bt->matrices % (t->cols / bt->rows))
        return och_err_set(err, OCH_INVALID, "%u matrices are Bt, of an array of %u: expected a multiple", t->cols / bt->rows, bt->matrices);
    if (a->depth != bt->depth)
        return och_err_set(err, OCH_INVALID, "A has %u columns and Bt %u: expected as many", a->depth, bt->depth);
    if (och_kl_tile_by_fours(c, pos, t, a, bt)) {
        och_kl_tile_group_mma(c, to, pos, t, a, bt);
        return och_kl_tile_done(c, err);
    }
    return product(c, to, pos, t, NULL, a, bt, false, err);
}

/* B as it lies: its rows are k. */
static och_status check_turned(const och_kl_tile *t, const och_kl_tile_lds *b, uint32_t depth, och_err *err) {
    if (b->lds->type.base != OCH_KL_F16 && b->lds->type.base != OCH_KL_BF16)
        return och_err_set(err, OCH_INVALID, "mma_t of %s: expected f16 or bf16", och_kl_base_names[b->lds->type.base]);
    if (t->wave_cols != 1)
        return och_err_set(err, OCH_INVALID, "mma_t of a tile whose columns lie over %u waves: expected one", t->wave_cols);
    if (!b->depth || b->depth % 16 || t->cols % b->depth)
        return och_err_set(err, OCH_INVALID, "B has %u columns, expected the tile's %u or a part of them, a multiple of 16", b->depth, t->cols);
    if (!b->rows || b->rows % 16 || depth % b->rows)
        return och_err_set(err, OCH_INVALID, "B has %u rows, expected as many as A has columns, %u, or a part of them, a multiple of 16", b->rows,
                           depth);
    uint32_t matrices = t->cols / b->depth * (depth / b->rows);
    if (b->matrices % matrices)
        return och_err_set(err, OCH_INVALID, "%u matrices are B, of an array of %u: expected a multiple", matrices, b->matrices);
    if (b->stride < b->depth || b->stride % 8)
        return och_err_set(err, OCH_INVALID, "the rows of B are %u elements apart, expected a multiple of 8 of at least %u", b->stride,
                           b->depth);
    return OCH_OK;
}

och_status och_kl_tile_mma_turned(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t, const och_kl_tile_lds *a,
                                  const och_kl_tile_lds *b, och_err *err) {
    och_kl_base in = a->lds->type.base;
    OCH_TRY(check_types(t, in, b->lds->type.base, err));
    OCH_TRY(check_operand(a, "A", t->rows, in, err));
    OCH_TRY(check_turned(t, b, a->depth, err));
    if (in == b->lds->type.base && och_kl_tile_turned_by_fours(c, t, b)) return by_fours(c, to, pos, t, NULL, a, b, err);
    return product(c, to, pos, t, NULL, a, b, true, err);
}

och_status och_kl_tile_mma_tile(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t, och_kl_tile *a,
                                const och_kl_tile_lds *b, och_err *err) {
    och_kl_base in = b->lds->type.base;
    OCH_TRY(check_types(t, in, in, err));
    OCH_TRY(check_turned(t, b, a->cols, err));
    if (a == t || a->whole == t || a->base != OCH_KL_F32)
        return och_err_set(err, OCH_INVALID, "A is %s: expected another tile of f32", a == t || a->whole == t ? "the sum itself" : "a tile of i32");
    if (a->rows != t->rows || a->wave_rows != t->wave_rows || a->wave_cols != 1)
        return och_err_set(err, OCH_INVALID, "A is %u x %u over %u x %u waves: expected %u rows over %u x 1", a->rows, a->cols,
                           a->wave_rows, a->wave_cols, t->rows, t->wave_rows);
    const och_kl_matrix *m = och_kl_matrix_find(&c->profile, in, t->matrix->m, t->matrix->n, a->cols);
    och_kl_tile_touch(c, to, pos, a);
    bool in_registers = m && by_matrix(m) && a->matrix->m == m->m && a->matrix->n == m->n && a->row_step == t->row_step;
    if (in_registers && och_kl_tile_turned_by_fours(c, t, b)) return by_fours(c, to, pos, t, a, NULL, b, err);
    if (in_registers)
        return product(c, to, pos, t, a, NULL, b, true, err);
    /* By way of LDS. */
    uint32_t pad = 8;
    if (!a->as_operand || a->as_operand->type.base != in)
        a->as_operand = och_kl_new_var(c, "operand", och_kl_type_of(in, 1), OCH_KL_LDS, (uint32_t[]){a->rows, a->cols + pad}, 2);
    if (!a->as_operand) return och_kl_tile_done(c, err);
    const och_kl_tile_lds in_lds = {.lds = a->as_operand, .rows = a->rows, .depth = a->cols, .stride = a->cols + pad};
    och_kl_ins_new(c, to, OCH_KL_I_BARRIER, pos); /* what was in it before has been read */
    OCH_TRY(och_kl_tile_to_lds(c, to, pos, a, &in_lds, err));
    och_kl_ins_new(c, to, OCH_KL_I_BARRIER, pos);
    return product(c, to, pos, t, NULL, &in_lds, b, true, err);
}

och_status och_kl_tile_to_lds(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t, const och_kl_tile_lds *p,
                              och_err *err) {
    if (p->rows != t->rows || p->depth != t->cols)
        return och_err_set(err, OCH_INVALID, "P is %u x %u, expected the tile's %u x %u", p->rows, p->depth, t->rows, t->cols);
    if (p->stride < p->depth)
        return och_err_set(err, OCH_INVALID, "the rows of P are %u elements apart, expected at least %u", p->stride,
                           p->depth);
    if (p->swizzled) return och_err_set(err, OCH_INVALID, "P is swizzled: expected an array with pad auto or without");
    och_kl_base out = p->lds->type.base;
    och_kl_tile_layout l;
    och_kl_tile_touch(c, to, pos, t);
    och_kl_tile_layout_of(t->matrix, t->across, &l);
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
                och_kl_ir *v = och_kl_slice(c, pos, och_kl_tile_use(c, pos, t->acc, och_kl_tile_frag(t, fr, fc)), (int)e, (int)run);
                v = och_kl_convert(c, pos, och_kl_type_of(out, (int)run), v);
                uint32_t shift = (fr * t->row_step + l.row[e]) * p->stride + fc * t->matrix->n + l.col[e];
                och_kl_ins *i = v ? och_kl_ins_new(c, to, OCH_KL_I_STORE, pos) : NULL;
                if (!i) break;
                i->mem = (och_kl_mem){
                    .base = p->lds, .elem = out, .lanes = (uint8_t)run, .align_bytes = run * och_kl_base_bytes(out)};
                i->mem.index = och_kl_binary(c, pos, '+', och_kl_use(c, pos, at), och_kl_tile_i32(c, pos, shift));
                i->value = v;
            }
    return och_kl_tile_done(c, err);
}
