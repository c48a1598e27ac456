/* Copies of tiles from buffers and weights into LDS.
 *
 * In a pipeline they are issued before `do`, and what goes through registers is stored after it; without one at once. What changes
 * nothing goes by itself where the target copies so (lower_pipe.c says when). */
#include "kl/spec.h"
#include "kl/tile.h"

#include <string.h>

static och_kl_type scalar(och_kl_base b) {
    return och_kl_type_of(b, 1);
}

typedef struct copy {
    och_kl_pos pos;
    och_kl_lds *lds;
    och_kl_ir *slot; /* flat element where the matrix begins; NULL: 0 */
    uint32_t rows, cols;
    och_kl_val sub;
    uint32_t wide;       /* elements a lane takes at once */
    uint32_t pieces;     /* of a row */
    uint32_t n;          /* of all rows and matrices */
    uint32_t matrices;   /* one behind another, the columns' parts */
    och_kl_list *stores; /* where they go: behind `do` in a stage */
} copy_state;

/* Piece number `turn` of this lane: row and piece of the row, of which matrix (NULL: of the only one). Pure, so that it can stand on
 * both sides of `do`. Lanes beside one another are in one matrix, whose swizzle is for them. */
static void piece_of(och_kl_spec *s, const copy_state *c, uint32_t turn, och_kl_ir **out_matrix, och_kl_ir **out_row,
                     och_kl_ir **out_piece, och_kl_ir **out_inside) {
    uint32_t threads = (uint32_t)s->sig->threads, each = c->n / c->matrices;
    och_kl_ir *id = och_kl_thread_id(s, c->pos), *pieces = och_kl_i32(s, c->pos, c->pieces);
    och_kl_ir *i = och_kl_binary(s->code, c->pos, '+', id, och_kl_i32(s, c->pos, (int64_t)turn * threads));
    *out_matrix = NULL;
    if (c->matrices > 1) {
        bool part_of = each % threads == 0 && threads % c->pieces == 0, whole = !part_of && threads % each == 0;
        och_kl_ir *in = whole ? id : i, *of = och_kl_i32(s, c->pos, each);
        *out_matrix = part_of ? och_kl_i32(s, c->pos, turn / (each / threads)) : och_kl_binary(s->code, c->pos, '/', in, of);
        if (whole) *out_matrix = och_kl_binary(s->code, c->pos, '+', *out_matrix, och_kl_i32(s, c->pos, (int64_t)turn * (threads / each)));
        in = part_of ? och_kl_binary(s->code, c->pos, '+', id, och_kl_i32(s, c->pos, (int64_t)(turn % (each / threads)) * threads))
                     : och_kl_binary(s->code, c->pos, '%', in, of);
        *out_row = och_kl_binary(s->code, c->pos, '/', in, pieces);
        *out_piece = och_kl_binary(s->code, c->pos, '%', part_of ? id : in, pieces);
        *out_inside =
            (turn + 1) * threads > c->n ? och_kl_binary(s->code, c->pos, '<', i, och_kl_i32(s, c->pos, c->n)) : NULL;
        return;
    }
    if (threads % c->pieces == 0) {
        *out_row = och_kl_binary(s->code, c->pos, '+', och_kl_binary(s->code, c->pos, '/', id, pieces),
                                 och_kl_i32(s, c->pos, (int64_t)turn * (threads / c->pieces)));
        *out_piece = och_kl_binary(s->code, c->pos, '%', id, pieces);
    } else {
        *out_row = och_kl_binary(s->code, c->pos, '/', i, pieces);
        *out_piece = och_kl_binary(s->code, c->pos, '%', i, pieces);
    }
    *out_inside =
        (turn + 1) * threads > c->n ? och_kl_binary(s->code, c->pos, '<', i, och_kl_i32(s, c->pos, c->n)) : NULL;
}

/* Element of the array where row, col of the matrix lies; col begins a piece of 16 bytes, or what is stored stays within one. */
static och_kl_ir *place_in(och_kl_spec *s, const copy_state *c, och_kl_ir *row, och_kl_ir *col) {
    const och_kl_lds *l = c->lds;
    uint32_t stride = l->dims[l->rank - 1] + l->pad, bytes = och_kl_base_bytes(l->elem);
    if (l->swizzled && row && col)
        col = och_kl_binary(s->code, c->pos, '^', col, och_kl_swizzle_of(s->code, c->pos, row, c->cols * bytes, 16 / bytes));
    och_kl_ir *at = och_kl_binary(s->code, c->pos, '+',
                                  och_kl_binary(s->code, c->pos, '*', row, och_kl_i32(s, c->pos, stride)), col);
    return c->slot ? och_kl_binary(s->code, c->pos, '+', c->slot, at) : at;
}

/* Whether rows of `from` may go to the matrix by themselves, in pieces of 16 bytes: they become what they are. */
static bool goes_alone(const och_kl_spec *s, const copy_state *c, och_kl_base from) {
    const och_kl_lds *l = c->lds;
    uint32_t bytes = och_kl_base_bytes(l->elem);
    return s->pipe && from == l->elem && c->cols * bytes % 16 == 0 && (l->dims[l->rank - 1] + l->pad) * bytes % 16 == 0 &&
           c->sub.multiple % (16 / bytes) == 0;
}

/* What of a copy by itself stays the same from step to step, in variables before the pipeline: found again by what it is made of.
 * Where the step says which row the matrix begins at it is made there; but what lies inside is the same for a lane wherever the
 * matrix begins. */
struct och_kl_alone {
    const och_kl_buffer *buf;
    const och_kl_lds *lds;
    och_kl_ir *row;    /* of the buffer, where the matrix begins; NULL: all of it is inside, wherever that is */
    och_kl_ir *base;   /* i64: first byte of the lane's first row, in a matrix that begins at `row`, or at row 0 */
    och_kl_ir *inside; /* u32: bit t: the row that the lane copies in turn t exists, in the buffer and in the matrix; without `row`: NULL */
    och_kl_ir *col;    /* i32: the lane's first column */
    och_kl_ir *to;     /* i32: element where the lane's first piece goes */
    struct och_kl_alone *next;
};

/* Declared before the pipeline, and the same all through it. */
static bool is_outside(const och_kl_spec *s, const och_kl_ir *x) {
    return x->kind == OCH_KL_X_INT || (x->kind == OCH_KL_X_VAR && x->var->fixed && !x->var->n_dims && x->var->id < s->pipe->first_var);
}
static bool is_same(const och_kl_ir *a, const och_kl_ir *b) {
    return a->kind == b->kind && (a->kind == OCH_KL_X_INT ? a->integer == b->integer : a->var == b->var);
}

/* Rows a turn goes on, pieces of a row. */
typedef struct split {
    uint32_t pieces, per, step, n;
} split;

static och_kl_alone *alone_of(och_kl_spec *s, const copy_state *c, const split *t) {
    och_kl_buffer *b = c->sub.buf;
    och_kl_code *code = s->code;
    och_kl_pos pos = c->pos;
    och_kl_ir *begin = c->sub.inside ? NULL : c->sub.ir;
    bool stays = !begin || is_outside(s, begin);
    for (och_kl_alone *x = stays ? s->pipe->alone : NULL; x; x = x->next)
        if (x->buf == b && x->lds == c->lds && !x->row == !begin && (!begin || is_same(x->row, begin))) return x;
    och_kl_alone *x = och_kl_alloc(s, 1, sizeof *x);
    if (!x) return NULL;
    *x = (och_kl_alone){.buf = b, .lds = c->lds, .row = begin, .next = s->pipe->alone};
    och_kl_list *list = s->list;
    if (stays) {
        s->pipe->alone = x;
        s->list = s->pipe->before;
    }
    och_kl_ir *id = och_kl_thread_id(s, pos);
    och_kl_ir *row = och_kl_keep(s, pos, "row", och_kl_binary(code, pos, '/', id, och_kl_i32(s, pos, t->pieces)), OCH_KL_L_LANE);
    och_kl_ir *piece = och_kl_binary(code, pos, '%', id, och_kl_i32(s, pos, t->pieces));
    x->col = och_kl_keep(s, pos, "col", och_kl_binary(code, pos, '*', piece, och_kl_i32(s, pos, t->per)), OCH_KL_L_LANE);
    och_kl_type i64 = scalar(OCH_KL_I64), u64 = scalar(OCH_KL_U64);
    och_kl_ir *at = row ? och_kl_convert(code, pos, i64, row) : NULL;
    if (begin && at) at = och_kl_binary(code, pos, '+', och_kl_convert(code, pos, i64, begin), at);
    at = och_kl_keep(s, pos, "at", at, OCH_KL_L_LANE);
    x->base = at ? och_kl_keep(s, pos, "base", och_kl_row_offset(s, pos, b, &at, 1, false), OCH_KL_L_LANE) : NULL;
    och_kl_ir *bits = och_kl_u32(s, pos, 0);
    for (uint32_t i = 0; i < t->n && at && row && begin; i++) {
        och_kl_ir *r = och_kl_binary(code, pos, '+', at, och_kl_i64(s, pos, (int64_t)i * t->step));
        och_kl_ir *in = och_kl_binary(code, pos, '<', och_kl_convert(code, pos, u64, r), och_kl_convert(code, pos, u64, b->dims[0]));
        if ((i + 1) * t->step > c->rows) {
            och_kl_ir *own = och_kl_binary(code, pos, '+', row, och_kl_i32(s, pos, (int64_t)i * t->step));
            in = och_kl_binary(code, pos, OCH_KL_OP_AND, in, och_kl_binary(code, pos, '<', own, och_kl_i32(s, pos, c->rows)));
        }
        bits = och_kl_binary(code, pos, '|', bits, och_kl_select(code, pos, in, och_kl_u32(s, pos, 1u << i), och_kl_u32(s, pos, 0)));
    }
    if (begin) x->inside = och_kl_keep(s, pos, "inside", bits, OCH_KL_L_LANE);
    copy_state first = *c;
    first.slot = NULL;
    x->to = row && x->col ? och_kl_keep(s, pos, "to", place_in(s, &first, row, x->col), OCH_KL_L_LANE) : NULL;
    s->list = list;
    return x->base && (x->inside || !begin) && x->to && x->col ? x : NULL;
}

/* The rows of `elem` copied in pieces of 16 bytes that go by themselves, zeros where there is no such row or, from `end` on, column.
 * *out_done false: they cannot be, and nothing was done. */
static bool copy_alone(och_kl_spec *s, const copy_state *c, och_kl_base elem, och_kl_ir *end, bool *out_done) {
    och_kl_code *code = s->code;
    och_kl_pos pos = c->pos;
    const och_kl_lds *l = c->lds;
    uint32_t bytes = och_kl_base_bytes(elem), threads = (uint32_t)s->sig->threads, stride = l->dims[l->rank - 1] + l->pad;
    split t = {.pieces = c->cols * bytes / 16, .per = 16 / bytes};
    *out_done = false;
    if (!goes_alone(s, c, elem) || threads % t.pieces) return true;
    t.step = threads / t.pieces;
    t.n = (c->rows + t.step - 1) / t.step;
    /* Turns keep what a swizzle xors, and the bits of their rows have a word. */
    if ((l->swizzled && t.step % 8 && t.n > 1) || t.n > 32) return true;
    *out_done = true;
    const och_kl_alone *x = alone_of(s, c, &t);
    if (!x) return false;
    och_kl_type i64 = scalar(OCH_KL_I64), u64 = scalar(OCH_KL_U64);
    uint32_t scale = c->sub.buf->kind == OCH_KL_A_BUFFER ? bytes : 1; /* strides of buffers count elements */
    och_kl_ir *k = och_kl_binary(code, pos, '+', och_kl_convert(code, pos, i64, c->sub.ir2), och_kl_convert(code, pos, i64, x->col));
    k = och_kl_keep(s, pos, "at", k, OCH_KL_L_LANE);
    if (!k) return false;
    och_kl_ir *rows = NULL, *begin = NULL; /* bits of those that exist, or the first byte of the matrix's first row */
    if (x->row) {
        och_kl_ir *there = och_kl_binary(code, pos, '<', och_kl_convert(code, pos, u64, k), och_kl_convert(code, pos, u64, end));
        rows = och_kl_keep(s, pos, "rows", och_kl_select(code, pos, there, x->inside, och_kl_u32(s, pos, 0)), OCH_KL_L_LANE);
    } else {
        och_kl_ir *each = och_kl_binary(code, pos, '*', c->sub.buf->strides[0], och_kl_i64(s, pos, scale));
        begin = och_kl_binary(code, pos, '*', och_kl_convert(code, pos, i64, c->sub.ir), each);
        begin = och_kl_keep(s, pos, "begin", begin, c->sub.level);
    }
    och_kl_ir *to = c->slot ? och_kl_binary(code, pos, '+', c->slot, x->to) : x->to;
    to = och_kl_keep(s, pos, "to", to, OCH_KL_L_LANE);
    if (!(x->row ? rows : begin) || !to) return false;
    och_kl_ir *in_row = och_kl_binary(code, pos, '*', och_kl_convert(code, pos, scalar(OCH_KL_U32), k), och_kl_u32(s, pos, bytes));
    for (uint32_t i = 0; i < t.n; i++) {
        if (!och_kl_count(s, pos)) return false;
        och_kl_ir *all = och_kl_u32(s, pos, 16);
        if (rows) {
            och_kl_ir *bit = och_kl_binary(code, pos, '&', rows, och_kl_u32(s, pos, 1u << i));
            bit = och_kl_binary(code, pos, OCH_KL_OP_NE, bit, och_kl_u32(s, pos, 0));
            /* No address is looked at for 0 bytes: it may be that of a row that is not there. */
            all = och_kl_select(code, pos, bit, all, och_kl_u32(s, pos, 0));
        }
        och_kl_ir *down = och_kl_binary(code, pos, '*', c->sub.buf->strides[0], och_kl_i64(s, pos, (int64_t)i * t.step * scale));
        och_kl_ir *from = och_kl_binary(code, pos, '+', x->base, down);
        if (begin) from = och_kl_binary(code, pos, '+', from, begin);
        och_kl_ir *args[2] = {och_kl_binary(code, pos, '+', to, och_kl_i32(s, pos, (int64_t)i * t.step * stride)), all};
        och_kl_ir *call = args[0] && args[1] ? och_kl_call(code, pos, OCH_KL_F_COPY_ASYNC, scalar(OCH_KL_VOID), 0, args, 2) : NULL;
        if (!call || !from) return false;
        call->mem = (och_kl_mem){.base = c->sub.buf->var, .elem = OCH_KL_U32, .lanes = 4, .align_bytes = 16, .bytes = true};
        call->mem.index = och_kl_binary(code, pos, '+', from, och_kl_convert(code, pos, i64, in_row));
        call->var = l->var;
        och_kl_list *list = s->list;
        if ((i + 1) * t.step > c->rows) {
            och_kl_ins *guard = och_kl_ins_new(code, list, OCH_KL_I_IF, pos);
            och_kl_ir *row = och_kl_binary(code, pos, '/', och_kl_thread_id(s, pos), och_kl_i32(s, pos, t.pieces));
            if (!guard) return false;
            guard->value = och_kl_binary(code, pos, '<', row, och_kl_i32(s, pos, (int64_t)c->rows - (int64_t)i * t.step));
            s->list = &guard->body;
        }
        och_kl_do(s, pos, call);
        s->list = list;
    }
    s->pipe->copied = true;
    if (c->sub.buf->arg->align_bytes < 16) c->sub.buf->arg->align_bytes = 16;
    return !code->failed;
}

/* x stored at row, col of the matrix (NULL: the first), where `inside` holds (NULL: everywhere). */
static bool store_piece(och_kl_spec *s, const copy_state *c, och_kl_list *to, och_kl_ir *matrix, och_kl_ir *row, och_kl_ir *col,
                        och_kl_ir *x) {
    const och_kl_lds *l = c->lds;
    uint32_t stride = l->dims[l->rank - 1] + l->pad, bytes = och_kl_base_bytes(l->elem), align = 16;
    och_kl_ir *at = place_in(s, c, row, col);
    if (matrix) at = och_kl_binary(s->code, c->pos, '+', at, och_kl_binary(s->code, c->pos, '*', matrix, och_kl_i32(s, c->pos, (int64_t)c->rows * stride)));
    och_kl_ins *i = at && x ? och_kl_ins_new(s->code, to, OCH_KL_I_STORE, c->pos) : NULL;
    if (!i) return false;
    while (align > bytes && ((uint32_t)x->type.lanes * bytes % align || stride * bytes % align)) align /= 2;
    i->mem = (och_kl_mem){.base = l->var, .elem = l->elem, .lanes = x->type.lanes, .align_bytes = align, .index = at};
    i->value = x;
    return true;
}

/* first + i as i64, and whether it is inside: compared as unsigned, since what comes before the first is outside too. */
static och_kl_ir *position(och_kl_spec *s, och_kl_pos pos, och_kl_ir *first, och_kl_ir *i, och_kl_ir *extent,
                           och_kl_ir **out_inside) {
    och_kl_type i64 = scalar(OCH_KL_I64);
    och_kl_ir *at = och_kl_binary(s->code, pos, '+', och_kl_convert(s->code, pos, i64, first),
                                  och_kl_convert(s->code, pos, i64, i));
    at = och_kl_keep(s, pos, "at", at, OCH_KL_L_LANE);
    och_kl_type u64 = scalar(OCH_KL_U64);
    *out_inside = at ? och_kl_binary(s->code, pos, '<', och_kl_convert(s->code, pos, u64, at),
                                     och_kl_convert(s->code, pos, u64, extent))
                     : NULL;
    return at;
}

static bool copy_buffer(och_kl_spec *s, copy_state *c) {
    och_kl_buffer *b = c->sub.buf;
    och_kl_pos pos = c->pos;
    och_kl_code *code = s->code;
    uint32_t from = och_kl_base_bytes(b->elem), to = och_kl_base_bytes(c->lds->elem);
    c->wide = from >= 4 ? 16 / from : 8;
    if (from == 1 && to == 1) c->wide = 16;
    while (c->wide > 1 &&
           (c->cols % c->wide || b->multiples[1] % c->wide || c->sub.multiple % c->wide || c->wide * to > 32))
        c->wide /= 2;
    uint32_t bytes = c->wide * from;
    if (b->multiples[1] % (16 / from) == 0) {
        bool done;
        if (!copy_alone(s, c, b->elem, b->dims[1], &done)) return false;
        if (done) return true;
    }
    if (b->arg->align_bytes < bytes) b->arg->align_bytes = bytes;
    c->pieces = c->cols / c->wide;
    c->n = c->rows * c->pieces;
    uint32_t turns = (c->n + (uint32_t)s->sig->threads - 1) / (uint32_t)s->sig->threads;
    bool words = bytes >= 4;
    och_kl_type raw =
        words ? och_kl_type_of(OCH_KL_U32, (int)(bytes / 4)) : och_kl_type_of(och_kl_arithmetic(b->elem), (int)c->wide);
    for (uint32_t t = 0; t < turns; t++) {
        if (!och_kl_count(s, pos)) return false;
        och_kl_ir *matrix, *row, *piece, *inside, *row_in, *col_in;
        piece_of(s, c, t, &matrix, &row, &piece, &inside);
        och_kl_ir *col = och_kl_binary(code, pos, '*', piece, och_kl_i32(s, pos, c->wide));
        och_kl_ir *r = position(s, pos, c->sub.ir, row, b->dims[0], &row_in),
                  *k = position(s, pos, c->sub.ir2, col, b->dims[1], &col_in);
        /* The load is always made, of a piece that exists; what lies outside becomes 0. */
        bool all = c->sub.inside && !inside; /* but not what lanes load that copy nothing in the last turn */
        och_kl_ir *base = r ? och_kl_row_offset(s, pos, b, &r, 1, !all) : NULL;
        och_kl_ir *in_row = och_kl_convert(code, pos, scalar(OCH_KL_U32), k);
        if (!all) in_row = och_kl_select(code, pos, col_in, in_row, och_kl_u32(s, pos, 0));
        in_row = och_kl_binary(code, pos, '*', in_row, och_kl_u32(s, pos, from));
        och_kl_mem m = {.base = b->var,
                        .elem = words ? OCH_KL_U32 : b->elem,
                        .lanes = words ? raw.lanes : (uint8_t)c->wide,
                        .align_bytes = bytes,
                        .bytes = true};
        m.index =
            base ? och_kl_binary(code, pos, '+', base, och_kl_convert(code, pos, scalar(OCH_KL_I64), in_row)) : NULL;
        if (!m.index) return false;
        och_kl_ir *x = och_kl_load(code, pos, &m);
        if (!x) return false;
        x->uniformity = OCH_KL_U_LANE;
        x = och_kl_convert(code, pos, raw, x);
        x = och_kl_keep(s, pos, "x", x, OCH_KL_L_LANE);
        if (!all)
            x = och_kl_select(code, pos, och_kl_binary(code, pos, OCH_KL_OP_AND, row_in, col_in), x, och_kl_int(code, pos, raw, 0));
        x = och_kl_carry(s, pos, "x", x);
        och_kl_ir *matrix2, *row2, *piece2, *inside2;
        piece_of(s, c, t, &matrix2, &row2, &piece2, &inside2);
        och_kl_list *list = s->list, *deferred = s->deferred;
        s->list = c->stores;
        s->deferred = NULL;
        if (inside2) {
            och_kl_ins *guard = och_kl_ins_new(code, s->list, OCH_KL_I_IF, pos);
            if (!guard) return false;
            guard->value = inside2;
            s->list = &guard->body;
        }
        if (words) x = och_kl_bitcast(code, pos, och_kl_type_of(b->elem, (int)c->wide), x);
        och_kl_val v;
        bool ok =
            och_kl_convert_val(s, pos, och_kl_type_of(c->lds->elem, (int)c->wide), och_kl_val_ir(x, OCH_KL_L_LANE),
                               &v) &&
            store_piece(s, c, s->list, matrix2, row2, och_kl_binary(code, pos, '*', piece2, och_kl_i32(s, pos, c->wide)), v.ir);
        s->list = list;
        s->deferred = deferred;
        if (!ok) return false;
    }
    return true;
}

/* A format whose units are eight elements of one type and nothing else, which decode gives as they are. */
static bool is_plain(const och_kl_decl *f, const och_kl_decl *decode, int64_t unit, och_kl_base *out_elem) {
    const och_kl_plane_ast *p = f->planes;
    const och_kl_stmt *body = decode->body;
    if (unit != 8 || !p || p->next || p->per_block || p->count != 8 || !och_kl_base_find(p->elem, out_elem)) return false;
    if (!decode->args || !body || body->next || body->kind != OCH_KL_S_RETURN || !body->expr) return false;
    const och_kl_expr *e = body->expr;
    if (e->kind == OCH_KL_E_CALL && e->a && e->a->kind == OCH_KL_E_NAME && !strcmp(e->a->u.name, "f32x8") && e->args && !e->args->next)
        e = e->args;
    return e->kind == OCH_KL_E_FIELD && !strcmp(e->u.name, p->name) && e->a->kind == OCH_KL_E_NAME &&
           !strcmp(e->a->u.name, decode->args->name);
}

static bool by_matrices(och_kl_spec *s, const copy_state *c);

static bool copy_weight(och_kl_spec *s, copy_state *c) {
    och_kl_buffer *b = c->sub.buf;
    och_kl_pos pos = c->pos;
    och_kl_code *code = s->code;
    int64_t unit, block;
    if (b->kind != OCH_KL_A_WEIGHT)
        return och_kl_error(s->diag, pos, "%s is an actbuf: only buffers and weights are copied", b->ast->name);
    if (!och_kl_format_facts(s, b->format, &unit, &block)) return false;
    const och_kl_decl *decode = b->format->fns;
    while (decode && strcmp(decode->name, "decode")) decode = decode->next;
    if (!decode) return och_kl_error(s->diag, pos, "the format %s has no decode", b->format->name);
    if (unit % 8)
        return och_kl_error(s->diag, pos, "a unit of %s, %lld, is no multiple of 8", b->format->name, (long long)unit);
    if (c->cols % (uint64_t)unit)
        return och_kl_error(s->diag, pos, "%u columns are no whole number of units of %s, %lld", c->cols,
                            b->format->name, (long long)unit);
    if (c->sub.multiple % (uint64_t)unit)
        return och_kl_error(s->diag, pos, "the first column must be known to be a multiple of %s's unit, %lld",
                            b->format->name, (long long)unit);
    och_kl_base elem;
    if (is_plain(b->format, decode, unit, &elem)) {
        if (c->matrices > 1) return by_matrices(s, c);
        /* Rows end with a whole unit. */
        och_kl_ir *end = och_kl_binary(code, pos, '+', b->dims[1], och_kl_i64(s, pos, unit - 1));
        end = och_kl_binary(code, pos, '&', end, och_kl_i64(s, pos, ~(unit - 1)));
        bool done;
        if (!end || !copy_alone(s, c, elem, end, &done)) return false;
        if (done) return true;
    }
    /* In halves more than `near` gives is lost. */
    for (const och_kl_decl *f = c->lds->elem == OCH_KL_F16 || c->lds->elem == OCH_KL_BF16 ? b->format->fns : NULL; f; f = f->next)
        if (!strcmp(f->name, "near")) decode = f;
    c->wide = (uint32_t)unit;
    c->pieces = c->cols / c->wide;
    c->n = c->rows * c->pieces * c->matrices;
    uint32_t turns = (c->n + (uint32_t)s->sig->threads - 1) / (uint32_t)s->sig->threads;
    och_kl_ir *first = och_kl_convert(code, pos, scalar(OCH_KL_I64), c->sub.ir2);
    first = och_kl_keep(s, pos, "u0", och_kl_binary(code, pos, '/', first, och_kl_i64(s, pos, unit)), c->sub.level);
    och_kl_ir *units = och_kl_binary(code, pos, '+', b->dims[1], och_kl_i64(s, pos, unit - 1));
    units =
        och_kl_keep(s, pos, "units", och_kl_binary(code, pos, '/', units, och_kl_i64(s, pos, unit)), OCH_KL_L_GROUP);
    if (!first || !units) return false;
    for (uint32_t t = 0; t < turns; t++) {
        if (!och_kl_count(s, pos)) return false;
        och_kl_ir *matrix, *row, *piece, *inside, *row_in, *unit_in;
        piece_of(s, c, t, &matrix, &row, &piece, &inside);
        if (matrix) piece = och_kl_binary(code, pos, '+', och_kl_binary(code, pos, '*', matrix, och_kl_i32(s, pos, c->pieces)), piece);
        och_kl_ir *r = position(s, pos, c->sub.ir, row, b->dims[0], &row_in),
                  *u = position(s, pos, first, piece, units, &unit_in);
        bool all = c->sub.inside && !inside; /* as above */
        och_kl_ir *base = r ? och_kl_row_offset(s, pos, b, &r, 1, !all) : NULL;
        och_kl_ir *there = och_kl_convert(code, pos, scalar(OCH_KL_U32), u), *in = NULL;
        if (!all) {
            there = och_kl_select(code, pos, unit_in, there, och_kl_u32(s, pos, 0));
            in = och_kl_keep(s, pos, "in", och_kl_binary(code, pos, OCH_KL_OP_AND, row_in, unit_in), OCH_KL_L_LANE);
            in = och_kl_carry(s, pos, "in", in);
        }
        och_kl_bundle *bundle =
            base && there && (in || all) ? och_kl_bundle_new(s, pos, b, base, there, OCH_KL_L_LANE, c->sub.streamed) : NULL;
        if (!bundle) return false;
        och_kl_ir *matrix2, *row2, *piece2, *inside2;
        piece_of(s, c, t, &matrix2, &row2, &piece2, &inside2);
        och_kl_list *list = s->list, *deferred = s->deferred;
        s->list = c->stores;
        s->deferred = NULL;
        och_kl_level control = s->control;
        if (inside2) {
            och_kl_ins *guard = och_kl_ins_new(code, s->list, OCH_KL_I_IF, pos);
            if (!guard) return false;
            guard->value = inside2;
            s->list = &guard->body;
            s->control = OCH_KL_L_LANE;
        }
        bool ok = true;
        for (int64_t i = 0; i < unit / 8 && ok; i++) {
            och_kl_val args[2] = {{.kind = OCH_KL_V_UNIT, .unit = bundle, .level = OCH_KL_L_LANE}, och_kl_val_int(i)},
                       v;
            if (decode->args == NULL || decode->args->next == NULL || decode->args->next->next)
                ok = och_kl_error(s->diag, decode->pos, "%s takes a unit and a number", decode->name);
            ok = ok && och_kl_inline(s, pos, decode, b->format, args, &v);
            if (ok && (v.kind != OCH_KL_V_IR || v.ir->type.lanes != 8))
                ok = och_kl_error(s->diag, decode->pos, "%s gives a vector of 8", decode->name);
            if (!ok) break;
            och_kl_ir *x = och_kl_keep(s, pos, "x", v.ir, OCH_KL_L_LANE);
            ok = x && och_kl_convert_val(s, pos, och_kl_type_of(c->lds->elem, 8), och_kl_val_ir(x, OCH_KL_L_LANE), &v);
            /* Zeros outside, in words: there are fewer of them. */
            const och_kl_type words = och_kl_type_of(OCH_KL_U32, 2 * (int)och_kl_base_bytes(c->lds->elem));
            if (ok) x = och_kl_keep(s, pos, "x", och_kl_bitcast(code, pos, words, v.ir), OCH_KL_L_LANE);
            x = ok && x && in ? och_kl_select(code, pos, in, x, och_kl_int(code, pos, words, 0)) : x;
            ok = ok && x;
            ok = ok && (v = och_kl_val_ir(och_kl_bitcast(code, pos, och_kl_type_of(c->lds->elem, 8), x), OCH_KL_L_LANE), true);
            och_kl_ir *col = och_kl_binary(code, pos, '*', piece2, och_kl_i32(s, pos, unit));
            col = och_kl_binary(code, pos, '+', col, och_kl_i32(s, pos, 8 * i));
            ok = ok && store_piece(s, c, s->list, matrix2, row2, col, v.ir);
        }
        s->control = control;
        s->list = list;
        s->deferred = deferred;
        if (!ok) return false;
    }
    return true;
}

/* Each by itself. */
static bool by_matrices(och_kl_spec *s, const copy_state *c) {
    uint32_t each = c->rows * (c->lds->dims[c->lds->rank - 1] + c->lds->pad);
    for (uint32_t m = 0; m < c->matrices; m++) {
        copy_state one = *c;
        och_kl_ir *at = och_kl_i32(s, c->pos, (int64_t)m * each);
        one.matrices = 1;
        one.slot = c->slot ? och_kl_binary(s->code, c->pos, '+', c->slot, at) : at;
        one.sub.ir2 = och_kl_binary(s->code, c->pos, '+', c->sub.ir2, och_kl_int(s->code, c->pos, c->sub.ir2->type, (int64_t)m * c->cols));
        one.sub.multiple = och_kl_gcd(c->sub.multiple, c->cols);
        if (!one.slot || !one.sub.ir2) return false;
        if (!(c->sub.buf->kind == OCH_KL_A_BUFFER ? copy_buffer(s, &one) : copy_weight(s, &one))) return false;
    }
    return true;
}

bool och_kl_stmt_copy(och_kl_spec *s, const och_kl_stmt *x) {
    och_kl_val t;
    char buf[64];
    copy_state c = {.pos = x->pos};
    if (!och_kl_need_group(s, x->pos, "copy")) return false;
    if (!och_kl_eval(s, x->target, &t) || !och_kl_eval(s, x->expr, &c.sub)) return false;
    if (t.kind != OCH_KL_V_LDS || t.lds->rank - t.n_at != 2)
        return och_kl_error(s->diag, x->target->pos, "copy fills a matrix in LDS, found %s",
                            t.kind == OCH_KL_V_LDS ? "one of another rank" : och_kl_val_text(&t, buf));
    if (c.sub.kind != OCH_KL_V_SUB)
        return och_kl_error(s->diag, x->expr->pos, "copy takes x.sub(row, column), found %s",
                            och_kl_val_text(&c.sub, buf));
    c.sub = och_kl_keep_val(s, x->pos, "from", c.sub);
    if (c.sub.kind == OCH_KL_V_BAD) return false;
    if (!c.sub.buf->in) return och_kl_error(s->diag, x->expr->pos, "%s is `out`: it is not read", c.sub.buf->ast->name);
    s->read_early |= !c.sub.buf->steady && !s->awaited;
    c.lds = t.lds;
    c.slot = och_kl_carry(s, x->pos, "slot", t.ir);
    c.rows = t.lds->dims[t.lds->rank - 2];
    c.cols = t.lds->dims[t.lds->rank - 1];
    c.stores = s->deferred ? s->deferred : s->list;
    if (!s->deferred && !och_kl_may_store_lds(s, x->pos)) return false;
    if (t.ir && !c.slot) return false;
    c.matrices = c.sub.columns ? c.sub.columns / c.cols : 1;
    uint32_t all = t.lds->rank == 3 ? t.lds->dims[0] : 1;
    if (c.sub.columns % c.cols || !c.matrices || all % c.matrices)
        return och_kl_error(s->diag, x->expr->pos, "%u columns: expected a multiple of the matrix's %u, in a number of matrices that divides the array's %u",
                            c.sub.columns, c.cols, all);
    bool ok = c.sub.buf->kind == OCH_KL_A_WEIGHT ? copy_weight(s, &c) : c.matrices > 1 ? by_matrices(s, &c) : copy_buffer(s, &c);
    return ok && !s->code->failed;
}
