/* Products by instructions of four waves, whose operands come out of LDS as they lie there (PTX ISA, "Asynchronous Warpgroup Level
 * Matrix Instructions").
 *
 * What `swizzle` makes of a matrix whose rows are 32, 64 or 128 bytes is what the instruction's swizzles of as many bytes are: a
 * piece of 16 bytes lies where the row's bits are xored to its number, the lowest bit first of which eight rows fill all banks. */
#include "kl/tile_priv.h"

/* Bytes of LDS before an array: they lie in the order of their variables, each from 16 bytes on. */
static uint64_t lds_offset(const och_kl_code *c, const och_kl_var *of) {
    uint64_t at = 0;
    for (const och_kl_var *v = c->vars; v && v != of; v = v->next) {
        if (v->space != OCH_KL_LDS) continue;
        uint64_t bytes = och_kl_base_bytes(v->type.base) * v->type.lanes;
        for (int i = 0; i < v->n_dims; i++) bytes *= v->dims[i];
        at += (bytes + 15) / 16 * 16;
    }
    return at;
}

static uint32_t row_bytes(const och_kl_tile_lds *o) { return o->depth * och_kl_base_bytes(o->lds->type.base); }

static bool operand_fits(const och_kl_code *c, const och_kl_tile_lds *o) {
    uint32_t row = row_bytes(o);
    return o->swizzled && o->stride == o->depth && (row == 32 || row == 64 || row == 128) &&
           lds_offset(c, o->lds) % OCH_KL_GROUP_ALIGN == 0;
}

/* Fours of waves along rows and columns: as few columns of them as an instruction's width allows, since every instruction reads
 * its 64 rows of A again. */
static bool split(const och_kl_tile *t, uint32_t fours, uint32_t *out_rows, uint32_t *out_cols) {
    for (uint32_t cols = 1; cols <= fours; cols++) {
        uint32_t rows = fours / cols;
        if (fours % cols || t->rows % (OCH_KL_GROUP_ROWS * rows) || t->cols % (16 * cols) || t->cols / cols > OCH_KL_GROUP_MOST_COLS) continue;
        *out_rows = rows;
        *out_cols = cols;
        return true;
    }
    return false;
}

/* A tile of too few rows for an instruction, with 64 columns a four: they are the instruction's rows, which are Bt's then. */
static bool lay_across(och_kl_code *c, och_kl_pos pos, och_kl_tile *t, uint32_t fours) {
    if (t->rows % 16 || t->rows > OCH_KL_GROUP_MOST_COLS || t->cols != OCH_KL_GROUP_ROWS * fours) return false;
    for (int i = 0; i < 4; i++)
        if (!t->declares[i]) return false;
    och_kl_tile_layout l;
    och_kl_tile_layout_of(t->matrix, true, &l);
    och_kl_ir *col = och_kl_binary(c, pos, '*', och_kl_use(c, pos, t->wave), och_kl_tile_i32(c, pos, t->matrix->m));
    och_kl_ir *row_in = och_kl_tile_lane_part(c, pos, &l.f, t->lane, 'r'), *col_in = och_kl_tile_lane_part(c, pos, &l.f, t->lane, 'c');
    if (!col || !row_in || !col_in) return false;
    t->declares[0]->value = och_kl_tile_i32(c, pos, 0);
    t->declares[1]->value = col;
    t->declares[2]->value = och_kl_binary(c, pos, '+', och_kl_use(c, pos, t->wave_row0), row_in);
    t->declares[3]->value = och_kl_binary(c, pos, '+', och_kl_use(c, pos, t->wave_col0), col_in);
    t->by_fours = t->across = t->settled = true;
    t->wave_rows = 1;
    t->wave_cols = fours * OCH_KL_GROUP_WAVES;
    t->row_step = t->matrix->n;
    t->frag_rows = t->rows / t->matrix->n;
    t->frag_cols = t->acc_cols = 1;
    t->n_row_slots = t->frag_rows * l.n_slots;
    return !c->failed;
}

bool och_kl_tile_by_fours(och_kl_code *c, och_kl_pos pos, och_kl_tile *t, const och_kl_tile_lds *a, const och_kl_tile_lds *bt) {
    uint32_t waves = t->wave_rows * t->wave_cols, fours = waves / OCH_KL_GROUP_WAVES, rows, cols;
    if (!(c->profile.target.target->ops & OCH_GROUP_MATRIX) || t->base != OCH_KL_F32 || a->lds->type.base != bt->lds->type.base) return false;
    if (t->matrix->m != 16 || t->matrix->n != 8 || !operand_fits(c, a) || !operand_fits(c, bt)) return false;
    if (t->by_fours) return true;
    /* 16 rows a wave are the same ones either way; a split that is given and one matrix are for those that begin out of registers. */
    bool same = t->wave_cols == 1 && t->frag_rows == 1 && bt->rows < t->cols && t->cols <= OCH_KL_GROUP_MOST_COLS;
    if (t->settled || (t->given_split && !same) || waves % OCH_KL_GROUP_WAVES) return false;
    if (!split(t, fours, &rows, &cols)) return lay_across(c, pos, t, fours);
    och_kl_ir *four = och_kl_binary(c, pos, '/', och_kl_use(c, pos, t->wave), och_kl_tile_i32(c, pos, OCH_KL_GROUP_WAVES));
    och_kl_ir *in_four = och_kl_binary(c, pos, '%', och_kl_use(c, pos, t->wave), och_kl_tile_i32(c, pos, OCH_KL_GROUP_WAVES));
    och_kl_ir *row = och_kl_binary(c, pos, '*', och_kl_binary(c, pos, '/', four, och_kl_tile_i32(c, pos, cols)),
                                   och_kl_tile_i32(c, pos, t->rows / rows));
    row = och_kl_binary(c, pos, '+', row, och_kl_binary(c, pos, '*', in_four, och_kl_tile_i32(c, pos, t->matrix->m)));
    four = och_kl_binary(c, pos, '/', och_kl_use(c, pos, t->wave), och_kl_tile_i32(c, pos, OCH_KL_GROUP_WAVES));
    och_kl_ir *col = och_kl_binary(c, pos, '*', och_kl_binary(c, pos, '%', four, och_kl_tile_i32(c, pos, cols)),
                                   och_kl_tile_i32(c, pos, t->cols / cols));
    if (!row || !col || !t->declares[0] || !t->declares[1]) return false;
    t->declares[0]->value = row;
    t->declares[1]->value = col;
    t->by_fours = t->settled = true;
    t->wave_rows = waves / cols;
    t->wave_cols = cols;
    t->row_step = OCH_KL_GROUP_ROWS;
    och_kl_tile_layout l;
    och_kl_tile_layout_of(t->matrix, false, &l);
    t->frag_rows = t->rows / rows / OCH_KL_GROUP_ROWS;
    t->frag_cols = t->acc_cols = t->cols / cols / t->matrix->n;
    t->n_row_slots = t->frag_rows * l.n_slots;
    return true;
}

/* Where an operand's rows from `first` on begin, as the instruction takes it. */
static och_kl_var *place(och_kl_code *c, och_kl_list *to, och_kl_pos pos, const char *name, const och_kl_tile_lds *o, och_kl_ir *first,
                         uint32_t next) {
    och_kl_ir *x = och_kl_call(c, pos, OCH_KL_F_GROUP_PLACE, och_kl_type_of(OCH_KL_U64, 1), (int)(row_bytes(o) + 256 * (next / 16)), NULL, 0);
    och_kl_ir *at = och_kl_binary(c, pos, '*', first, och_kl_tile_i32(c, pos, o->stride));
    if (o->offset) at = och_kl_binary(c, pos, '+', o->offset, at);
    if (!x || !at) return NULL;
    och_kl_base elem = o->lds->type.base;
    x->mem = (och_kl_mem){.base = o->lds, .elem = elem, .lanes = (uint8_t)(16 / och_kl_base_bytes(elem)), .align_bytes = 16, .index = at};
    return och_kl_tile_let(c, to, pos, name, x);
}

static och_kl_ir *moved(och_kl_code *c, och_kl_pos pos, och_kl_var *place_of, uint64_t bytes) {
    och_kl_ir *x = och_kl_use(c, pos, place_of);
    return bytes ? och_kl_binary(c, pos, '+', x, och_kl_int(c, pos, och_kl_type_of(OCH_KL_U64, 1), (int64_t)(bytes / 16))) : x;
}

static och_kl_ir *act(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_intrinsic f, int extra, och_kl_ir *const *args, int n) {
    och_kl_ir *x = och_kl_call(c, pos, f, och_kl_type_of(OCH_KL_VOID, 1), extra, args, n);
    och_kl_ins *i = x ? och_kl_ins_new(c, to, OCH_KL_I_DO, pos) : NULL;
    if (i) i->value = x;
    return i ? x : NULL;
}

void och_kl_tile_group_mma(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t, const och_kl_tile_lds *a,
                           const och_kl_tile_lds *bt) {
    uint32_t n = t->across ? t->rows : t->cols / t->wave_cols, bytes = och_kl_base_bytes(a->lds->type.base);
    uint32_t turns = t->across ? 1 : t->frag_rows;
    int extra = (int)n + (a->lds->type.base == OCH_KL_BF16 ? OCH_KL_GROUP_BF16 : 0);
    och_kl_ir *in_four = och_kl_binary(c, pos, '%', och_kl_use(c, pos, t->wave), och_kl_tile_i32(c, pos, OCH_KL_GROUP_WAVES));
    och_kl_ir *first = och_kl_binary(c, pos, '-', och_kl_use(c, pos, t->across ? t->wave_col0 : t->wave_row0),
                                     och_kl_binary(c, pos, '*', in_four, och_kl_tile_i32(c, pos, t->matrix->m)));
    och_kl_ir *other = t->across ? och_kl_tile_i32(c, pos, 0) : och_kl_use(c, pos, t->wave_col0);
    if (t->across) {
        const och_kl_tile_lds *x = a;
        a = bt;
        bt = x;
    }
    och_kl_var *from_a = place(c, to, pos, "a_place", a, first, 0), *from_b = place(c, to, pos, "b_place", bt, other, 0);
    if (!from_a || !from_b) return;
    (void)act(c, to, pos, OCH_KL_F_GROUP_BEGIN, 0, NULL, 0);
    for (uint32_t k = 0; k < a->depth; k += 16)
        for (uint32_t fr = 0; fr < turns && !c->failed; fr++) {
            och_kl_ir *args[2] = {moved(c, pos, from_a, ((uint64_t)fr * OCH_KL_GROUP_ROWS * a->stride + k) * bytes),
                                  moved(c, pos, from_b, (uint64_t)k * bytes)};
            och_kl_ir *x = act(c, to, pos, OCH_KL_F_GROUP_MMA, extra, args, 2);
            if (!x) return;
            x->var = t->acc;
            x->at[0] = fr * t->frag_cols;
        }
    (void)act(c, to, pos, OCH_KL_F_GROUP_END, 0, NULL, 0);
    t->pending = true;
}

static uint32_t matrix_bytes(const och_kl_tile_lds *o) { return o->rows * row_bytes(o); }

/* A wave's 16 rows are then those of 64 that the instruction gives it: the split stays. */
bool och_kl_tile_turned_by_fours(const och_kl_code *c, const och_kl_tile *t, const och_kl_tile_lds *b) {
    uint32_t next = matrix_bytes(b) / 16;
    return (c->profile.target.target->ops & OCH_GROUP_MATRIX) && t->base == OCH_KL_F32 && t->matrix->m == 16 && t->matrix->n == 8 &&
           !t->by_fours && !t->whole && t->wave_cols == 1 && t->wave_rows % OCH_KL_GROUP_WAVES == 0 && t->frag_rows == 1 &&
           t->cols <= OCH_KL_GROUP_MOST_COLS && operand_fits(c, b) && next < 1 << 14;
}

void och_kl_tile_group_turned(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t, och_kl_var *const *a, uint32_t n,
                              const och_kl_tile_lds *b) {
    int extra = (int)t->cols + OCH_KL_GROUP_TURNED + (b->lds->type.base == OCH_KL_BF16 ? OCH_KL_GROUP_BF16 : 0);
    uint32_t beside = t->cols / b->depth, matrix = matrix_bytes(b);
    och_kl_var *from = place(c, to, pos, "b_place", b, och_kl_tile_i32(c, pos, 0), matrix);
    och_kl_ir *hold = t->pending ? NULL : act(c, to, pos, OCH_KL_F_GROUP_HOLD, 0, NULL, 0);
    if (!from || (!hold && !t->pending)) return;
    if (hold) hold->var = t->acc;
    (void)act(c, to, pos, OCH_KL_F_GROUP_BEGIN, 0, NULL, 0);
    for (uint32_t i = 0; i < n && !c->failed; i++) {
        uint32_t row = 16 * i;
        och_kl_ir *args[2] = {och_kl_use(c, pos, a[i]), moved(c, pos, from, (uint64_t)(row / b->rows * beside) * matrix + (uint64_t)(row % b->rows) * row_bytes(b))};
        och_kl_ir *x = act(c, to, pos, OCH_KL_F_GROUP_MMA, extra, args, 2);
        if (!x) return;
        x->var = t->acc;
    }
    (void)act(c, to, pos, OCH_KL_F_GROUP_END, 0, NULL, 0);
    t->pending = true;
}

void och_kl_tile_wait_for(och_kl_code *c, och_kl_list *to, och_kl_pos pos, och_kl_tile *t, int most) {
    och_kl_ir *x = act(c, to, pos, OCH_KL_F_GROUP_WAIT, most, NULL, 0);
    if (x) x->var = t->acc;
}

/* 64 x 128 a four and more: of smaller tiles a multiprocessor has several workgroups, which fill each other's gaps. */
bool och_kl_tile_is_long(const och_kl_tile *t) { return t->by_fours && t->frag_rows * t->frag_cols >= 16; }
