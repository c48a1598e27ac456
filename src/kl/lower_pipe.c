/* Pipelines, and copies of tiles from buffers into LDS.
 *
 * A pipeline of depth D holds D steps in LDS. While `do` works at step t, the loads of step t + D - 1 are under way:
 * they are issued before `do` into registers, and stored to LDS after it. With D = 1 there is one place: a barrier
 * stands between `do` and the stores. Every turn ends with a barrier. `do` may say where in it the loads are issued (`stage;`): behind
 * products that are only begun, the addresses cost nothing.
 *
 * Where the target copies by itself (has(async_copy)) and D > 1, copies that change nothing go without registers: what a turn
 * issues is a group, and before its barrier each lane waits until all but the youngest D - 2 of its groups have arrived, which
 * leaves that of the next step among the arrived. A turn that has nothing to issue ends a group too, so that the count holds.
 *
 * Products that are only begun (tile_group.c) are waited for before the turn's barrier. With D of 4 and more, where nothing else is
 * done to a large tile, those of step t may still be under way at it: it ends those of step t - 1, whose place is filled again in the
 * turn after. The loads are then a step less ahead. */
#include "kl/spec.h"
#include "kl/tile.h"

#include <string.h>

static och_kl_type scalar(och_kl_base b) {
    return och_kl_type_of(b, 1);
}

typedef struct pipe {
    const och_kl_stmt *x;
    och_kl_type type;
    uint64_t multiple; /* of every step's kk */
} pipe_state;

/* Lowers stage or do with kk and stage_slot bound. */
static bool part(och_kl_spec *s, const pipe_state *p, const och_kl_stmt *body, och_kl_list *list, och_kl_ir *kk,
                 och_kl_val slot) {
    och_kl_list *outer = s->list;
    och_kl_binding_node *scope = s->scope;
    och_kl_loop *loop = s->loop;
    s->list = list;
    s->loop = NULL;
    s->depth++;
    och_kl_val k = och_kl_val_ir(kk, OCH_KL_L_GROUP);
    k.multiple = p->multiple;
    bool ok = k.kind != OCH_KL_V_BAD && och_kl_bind(s, p->x->names->name, p->x->names->pos, k, true) &&
              och_kl_bind(s, "stage_slot", p->x->pos, slot, true) && och_kl_stmts(s, body);
    s->depth--;
    s->loop = loop;
    s->scope = scope;
    s->list = outer;
    return ok;
}

static och_kl_ins *add_if(och_kl_spec *s, och_kl_pos pos, och_kl_ir *cond) {
    och_kl_ins *i = cond ? och_kl_loose(s, OCH_KL_I_IF, pos) : NULL;
    if (i) i->value = cond;
    return i;
}

static bool bounds(och_kl_spec *s, const och_kl_stmt *x, och_kl_val *a, och_kl_val *b, och_kl_val *step,
                   int64_t *depth) {
    const och_kl_range *r = x->ranges;
    char buf[64];
    if (!r || !r->b || r->next || x->names->next)
        return och_kl_error(s->diag, x->pos, "a pipeline takes one range a..b");
    const och_kl_expr *e[3] = {r->a, r->b, r->step};
    och_kl_val v[3];
    if (!och_kl_eval_list(s, e, r->step ? 3 : 2, v)) return false;
    *a = v[0];
    *b = v[1];
    *step = r->step ? v[2] : och_kl_val_int(1);
    if (!och_kl_unify(s, x->pos, a, b, "the bounds of a pipeline")) return false;
    och_kl_type t = a->ir->type;
    if (t.lanes > 1 || (t.base != OCH_KL_I32 && t.base != OCH_KL_I64))
        return och_kl_error(s->diag, r->a->pos, "a pipeline counts in i32 or i64, found %s", och_kl_val_text(a, buf));
    int64_t k;
    if (och_kl_const_int(step, &k) && k < 1)
        return och_kl_error(s->diag, x->pos, "a step is at least 1, found %lld", (long long)k);
    if (!och_kl_to_type(s, r->step ? r->step->pos : x->pos, *step, t, "the step", step)) return false;
    och_kl_level most = s->sig->waves == 1 ? OCH_KL_L_WAVE : OCH_KL_L_GROUP,
                 l = och_kl_join(a->level, och_kl_join(b->level, step->level));
    if (l > most)
        return och_kl_error(s->diag, x->pos, "the bounds of a pipeline are %s: they must be uniform in the workgroup",
                            och_kl_level_name(l));
    *depth = 2;
    if (x->depth && !och_kl_eval_const_int(s, x->depth, "the depth", depth)) return false;
    if (*depth < 1 || *depth > 8)
        return och_kl_error(s->diag, x->depth->pos, "a pipeline is 1 to 8 deep, found %lld", (long long)*depth);
    a->ir = och_kl_keep(s, x->pos, "first", a->ir, a->level);
    b->ir = och_kl_keep(s, x->pos, "end", b->ir, b->level);
    step->ir = och_kl_keep(s, x->pos, "step", step->ir, step->level);
    return a->ir && b->ir && step->ir;
}

static void group_of_copies(och_kl_spec *s, och_kl_pos pos) {
    och_kl_do(s, pos, och_kl_call(s->code, pos, OCH_KL_F_COPY_COMMIT, scalar(OCH_KL_VOID), 0, NULL, 0));
}
static void wait_for_copies(och_kl_spec *s, och_kl_pos pos, int64_t most) {
    och_kl_do(s, pos, och_kl_call(s->code, pos, OCH_KL_F_COPY_WAIT, scalar(OCH_KL_VOID), (int)most, NULL, 0));
}

/* A pipeline's loop, whose parts are put together. */
typedef struct pipe_turn {
    och_kl_ins *loop, *work; /* `do` */
    och_kl_var *k, *slot;    /* slot: the place that `do` reads; NULL with depth 1: 0 */
    och_kl_val now;          /* it, in this turn */
    och_kl_tile *pending;    /* of which `do` has begun products */
    och_kl_tile *behind;     /* the same, where they may end a turn later */
    int n_behind;            /* of a turn */
    och_kl_ins *stage;       /* which `do` itself puts where it belongs */
    bool copies;
} pipe_turn;

/* The loop without a body but for the place. */
static bool open_turn(och_kl_spec *s, const pipe_state *p, int64_t depth, pipe_turn *t) {
    och_kl_code *c = s->code;
    och_kl_pos pos = p->x->pos;
    if (depth > 1) {
        t->slot = och_kl_new_var(c, "slot", scalar(OCH_KL_I32), OCH_KL_REG, NULL, 0);
        och_kl_ins *d = t->slot ? och_kl_ins_new(c, s->list, OCH_KL_I_DECLARE, pos) : NULL;
        if (!d) return false;
        t->slot->uniformity = OCH_KL_U_GROUP;
        d->var = t->slot;
        d->value = och_kl_i32(s, pos, 0);
    }
    t->loop = och_kl_loose(s, OCH_KL_I_FOR, pos);
    t->k = och_kl_new_var(c, p->x->names->name, p->type, OCH_KL_REG, NULL, 0);
    if (!t->loop || !t->k) return false;
    t->k->fixed = true;
    t->k->uniformity = OCH_KL_U_GROUP;
    t->now = och_kl_val_int(0);
    och_kl_list *outer = s->list;
    s->list = &t->loop->body;
    if (t->slot) t->now = och_kl_val_ir(och_kl_keep(s, pos, "now", och_kl_use(c, pos, t->slot), OCH_KL_L_GROUP), OCH_KL_L_GROUP);
    s->list = outer;
    return t->now.kind != OCH_KL_V_BAD;
}

/* `do`, in a block that stands nowhere yet. */
static bool lower_do(och_kl_spec *s, const pipe_state *p, pipe_turn *t) {
    och_kl_pos pos = p->x->pos;
    const och_kl_list *outer = s->pipe_do;
    och_kl_ins *outer_stage = s->stage_ins;
    och_kl_scratch_unknown(s);
    t->work = och_kl_loose(s, OCH_KL_I_BLOCK, pos);
    if (!t->work) return false;
    s->pipe_do = &t->work->body;
    s->stage_ins = t->stage;
    s->stage_copies = t->copies;
    s->n_pending = 0;
    s->waited = false;
    bool ok = part(s, p, p->x->body, &t->work->body, och_kl_use(s->code, pos, t->k), t->now);
    och_kl_list *list = s->list;
    och_kl_tile *straight = s->pending;
    s->pending = NULL;
    s->list = &t->work->body;
    och_kl_end_products(s, pos); /* those that may not go on behind it */
    s->list = list;
    s->pending = straight;
    s->pipe_do = outer;
    s->stage_ins = outer_stage;
    t->pending = s->pending;
    s->pending = NULL;
    return ok;
}

bool och_kl_stmt_stage(och_kl_spec *s, const och_kl_stmt *x) {
    if (!s->pipe_do || s->list != s->pipe_do || !s->stage_ins)
        return och_kl_error(s->diag, x->pos, "stage; stands once, directly in a pipeline's do");
    och_kl_insert_after(s->list, s->list->last, s->stage_ins);
    s->stage_ins = NULL;
    if (s->stage_copies) group_of_copies(s, x->pos);
    return !s->code->failed;
}

static bool says_where(const och_kl_stmt *body) {
    for (; body; body = body->next)
        if (body->kind == OCH_KL_S_STAGE) return true;
    return false;
}

bool och_kl_stmt_pipeline(och_kl_spec *s, const och_kl_stmt *x) {
    och_kl_val a, b, step;
    int64_t depth;
    och_kl_pos pos = x->pos;
    och_kl_code *c = s->code;
    if (s->deferred) return och_kl_error(s->diag, pos, "a stage holds no pipeline");
    if (!och_kl_need_group(s, pos, "a pipeline") || !bounds(s, x, &a, &b, &step, &depth)) return false;
    pipe_state p = {x, a.ir->type, och_kl_gcd(a.multiple, step.multiple)};
    int64_t ahead = depth == 1 ? 1 : depth - 1;
    bool has = false, alone = depth > 1 && och_kl_has(&s->profile, "async_copy", &has) && has;
    pipe_turn t = {0};
    och_kl_pipe own = {.before = s->list, .first_var = c->n_vars};
    /* What was read from these arrays before is read. */
    och_kl_barrier(s, pos);
    bool own_place = says_where(x->body), first_do = alone && !own_place && depth >= 4 && (s->profile.target.target->ops & OCH_GROUP_MATRIX);
    if (first_do) {
        if (!open_turn(s, &p, depth, &t) || !lower_do(s, &p, &t)) return false;
        if (t.pending && t.pending->pending && !s->waited && och_kl_tile_is_long(t.pending)) {
            t.behind = t.pending;
            t.n_behind = s->n_pending;
            ahead--;
        }
    }
    s->pipe = alone ? &own : NULL;
    for (int64_t i = 0; i < (depth == 1 ? 1 : ahead); i++) {
        och_kl_ir *kk =
            och_kl_binary(c, pos, '+', a.ir, och_kl_binary(c, pos, '*', step.ir, och_kl_int(c, pos, p.type, i)));
        kk = och_kl_keep(s, pos, x->names->name, kk, OCH_KL_L_GROUP);
        och_kl_ins *first = kk ? add_if(s, pos, och_kl_binary(c, pos, '<', kk, b.ir)) : NULL;
        if (!first || !part(s, &p, x->other, &first->body, kk, och_kl_val_int(i))) {
            s->pipe = NULL;
            return false;
        }
        och_kl_insert_after(s->list, s->list->last, first);
        if (own.copied) group_of_copies(s, pos);
    }
    if (own.copied) wait_for_copies(s, pos, ahead - 1);
    och_kl_barrier(s, pos);
    if (!first_do && !open_turn(s, &p, depth, &t)) return false;
    och_kl_ins *loop = t.loop;
    och_kl_var *k = t.k, *rd = t.slot;
    loop->var = k;
    loop->value = a.ir;
    loop->limit = b.ir;
    loop->step = step.ir;
    och_kl_list *outer = s->list;
    s->list = &loop->body;
    och_kl_val slot_rd = t.now, slot_wr = och_kl_val_int(0);
    if (rd) {
        och_kl_ir *r = t.now.ir, *w;
        if (t.behind) {
            och_kl_ir *early = och_kl_binary(c, pos, '<', r, och_kl_i32(s, pos, depth - ahead));
            w = och_kl_select(c, pos, early, och_kl_binary(c, pos, '+', r, och_kl_i32(s, pos, ahead)),
                              och_kl_binary(c, pos, '-', r, och_kl_i32(s, pos, depth - ahead)));
        } else {
            och_kl_ir *before = och_kl_binary(c, pos, '-', r, och_kl_i32(s, pos, 1));
            och_kl_ir *zero = och_kl_binary(c, pos, OCH_KL_OP_EQ, r, och_kl_i32(s, pos, 0));
            w = och_kl_select(c, pos, zero, och_kl_i32(s, pos, depth - 1), before);
        }
        slot_wr = och_kl_val_ir(och_kl_keep(s, pos, "fill", w, OCH_KL_L_GROUP), OCH_KL_L_GROUP);
    }
    och_kl_ir *kk = och_kl_use(c, pos, k);
    och_kl_ir *next =
        och_kl_binary(c, pos, '+', kk, och_kl_binary(c, pos, '*', step.ir, och_kl_int(c, pos, p.type, ahead)));
    next = och_kl_keep(s, pos, "next", next, OCH_KL_L_GROUP);
    och_kl_ir *more = next ? och_kl_keep(s, pos, "more", och_kl_binary(c, pos, '<', next, b.ir), OCH_KL_L_GROUP) : NULL;
    och_kl_ins *pre = add_if(s, pos, more), *post = add_if(s, pos, more);
    bool ok = pre && post && slot_rd.kind != OCH_KL_V_BAD && slot_wr.kind != OCH_KL_V_BAD;
    if (ok) {
        s->stage_outer = &loop->body;
        s->deferred = &post->body;
        s->one_slot = depth == 1;
        ok = part(s, &p, x->other, &pre->body, next, slot_wr);
        s->stage_outer = NULL;
        s->deferred = NULL;
        s->one_slot = false;
        if (own_place) {
            t.stage = pre;
            t.copies = own.copied;
        } else {
            och_kl_insert_after(s->list, s->list->last, pre);
            if (own.copied) group_of_copies(s, pos);
        }
        s->pipe = NULL;
        if (!first_do && !lower_do(s, &p, &t)) ok = false;
        if (t.work) och_kl_insert_after(s->list, s->list->last, t.work);
        if (!t.behind) s->pending = t.pending;
        if (depth == 1) och_kl_barrier(s, pos);
        och_kl_insert_after(s->list, s->list->last, post);
        if (own.copied) wait_for_copies(s, pos, ahead - 1);
        if (t.behind) och_kl_tile_wait_for(c, s->list, pos, t.behind, t.n_behind);
        och_kl_barrier(s, pos);
        if (rd) {
            och_kl_ir *up = och_kl_binary(c, pos, '+', slot_rd.ir, och_kl_i32(s, pos, 1));
            och_kl_ir *last = och_kl_binary(c, pos, OCH_KL_OP_EQ, slot_rd.ir, och_kl_i32(s, pos, depth - 1));
            och_kl_ins *set = och_kl_ins_new(c, s->list, OCH_KL_I_ASSIGN, pos);
            if (!set) return false;
            set->var = rd;
            set->value = och_kl_select(c, pos, last, och_kl_i32(s, pos, 0), up);
        }
    }
    s->pipe = NULL;
    s->list = outer;
    och_kl_insert_after(s->list, s->list->last, loop);
    if (t.behind) {
        s->pending = t.behind;
        och_kl_barrier(s, pos);
    }
    och_kl_scratch_unknown(s);
    return ok && !c->failed;
}

/* ---- copies ---- */

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
 * Where the step says which row the matrix begins at it is made there. */
struct och_kl_alone {
    const och_kl_buffer *buf;
    const och_kl_lds *lds;
    och_kl_ir *row;    /* of the buffer, where the matrix begins */
    och_kl_ir *base;   /* i64: first byte of the lane's first row */
    och_kl_ir *inside; /* u32: bit t: the row that the lane copies in turn t exists, in the buffer and in the matrix */
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
    bool stays = is_outside(s, c->sub.ir);
    for (och_kl_alone *x = stays ? s->pipe->alone : NULL; x; x = x->next)
        if (x->buf == b && x->lds == c->lds && is_same(x->row, c->sub.ir)) return x;
    och_kl_alone *x = och_kl_alloc(s, 1, sizeof *x);
    if (!x) return NULL;
    *x = (och_kl_alone){.buf = b, .lds = c->lds, .row = c->sub.ir, .next = s->pipe->alone};
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
    och_kl_ir *at = row ? och_kl_binary(code, pos, '+', och_kl_convert(code, pos, i64, c->sub.ir), och_kl_convert(code, pos, i64, row)) : NULL;
    at = och_kl_keep(s, pos, "at", at, OCH_KL_L_LANE);
    x->base = at ? och_kl_keep(s, pos, "base", och_kl_row_offset(s, pos, b, &at, 1, false), OCH_KL_L_LANE) : NULL;
    och_kl_ir *bits = och_kl_u32(s, pos, 0);
    for (uint32_t i = 0; i < t->n && at && row; i++) {
        och_kl_ir *r = och_kl_binary(code, pos, '+', at, och_kl_i64(s, pos, (int64_t)i * t->step));
        och_kl_ir *in = och_kl_binary(code, pos, '<', och_kl_convert(code, pos, u64, r), och_kl_convert(code, pos, u64, b->dims[0]));
        if ((i + 1) * t->step > c->rows) {
            och_kl_ir *own = och_kl_binary(code, pos, '+', row, och_kl_i32(s, pos, (int64_t)i * t->step));
            in = och_kl_binary(code, pos, OCH_KL_OP_AND, in, och_kl_binary(code, pos, '<', own, och_kl_i32(s, pos, c->rows)));
        }
        bits = och_kl_binary(code, pos, '|', bits, och_kl_select(code, pos, in, och_kl_u32(s, pos, 1u << i), och_kl_u32(s, pos, 0)));
    }
    x->inside = och_kl_keep(s, pos, "inside", bits, OCH_KL_L_LANE);
    copy_state first = *c;
    first.slot = NULL;
    x->to = row && x->col ? och_kl_keep(s, pos, "to", place_in(s, &first, row, x->col), OCH_KL_L_LANE) : NULL;
    s->list = list;
    return x->base && x->inside && x->to && x->col ? x : NULL;
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
    och_kl_ir *k = och_kl_binary(code, pos, '+', och_kl_convert(code, pos, i64, c->sub.ir2), och_kl_convert(code, pos, i64, x->col));
    k = och_kl_keep(s, pos, "at", k, OCH_KL_L_LANE);
    och_kl_ir *there = k ? och_kl_binary(code, pos, '<', och_kl_convert(code, pos, u64, k), och_kl_convert(code, pos, u64, end)) : NULL;
    och_kl_ir *rows = och_kl_keep(s, pos, "rows", och_kl_select(code, pos, there, x->inside, och_kl_u32(s, pos, 0)), OCH_KL_L_LANE);
    och_kl_ir *to = c->slot ? och_kl_binary(code, pos, '+', c->slot, x->to) : x->to;
    to = och_kl_keep(s, pos, "to", to, OCH_KL_L_LANE);
    if (!rows || !to) return false;
    och_kl_ir *in_row = och_kl_binary(code, pos, '*', och_kl_convert(code, pos, scalar(OCH_KL_U32), k), och_kl_u32(s, pos, bytes));
    uint32_t scale = c->sub.buf->kind == OCH_KL_A_BUFFER ? bytes : 1; /* strides of buffers count elements */
    for (uint32_t i = 0; i < t.n; i++) {
        if (!och_kl_count(s, pos)) return false;
        och_kl_ir *bit = och_kl_binary(code, pos, '&', rows, och_kl_u32(s, pos, 1u << i));
        bit = och_kl_binary(code, pos, OCH_KL_OP_NE, bit, och_kl_u32(s, pos, 0));
        och_kl_ir *down = och_kl_binary(code, pos, '*', c->sub.buf->strides[0], och_kl_i64(s, pos, (int64_t)i * t.step * scale));
        och_kl_ir *from = och_kl_binary(code, pos, '+', x->base, down);
        /* No address is looked at for 0 bytes: it may be that of a row that is not there. */
        och_kl_ir *args[2] = {och_kl_binary(code, pos, '+', to, och_kl_i32(s, pos, (int64_t)i * t.step * stride)),
                              och_kl_select(code, pos, bit, och_kl_u32(s, pos, 16), och_kl_u32(s, pos, 0))};
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
        och_kl_ir *base = r ? och_kl_row_offset(s, pos, b, &r, 1, true) : NULL;
        och_kl_ir *in_row =
            och_kl_select(code, pos, col_in, och_kl_convert(code, pos, scalar(OCH_KL_U32), k), och_kl_u32(s, pos, 0));
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
        x = och_kl_select(code, pos, och_kl_binary(code, pos, OCH_KL_OP_AND, row_in, col_in), x,
                          och_kl_int(code, pos, raw, 0));
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
        och_kl_ir *base = r ? och_kl_row_offset(s, pos, b, &r, 1, true) : NULL;
        och_kl_ir *there =
            och_kl_select(code, pos, unit_in, och_kl_convert(code, pos, scalar(OCH_KL_U32), u), och_kl_u32(s, pos, 0));
        och_kl_ir *in = och_kl_carry(
            s, pos, "in",
            och_kl_keep(s, pos, "in", och_kl_binary(code, pos, OCH_KL_OP_AND, row_in, unit_in), OCH_KL_L_LANE));
        och_kl_bundle *bundle =
            base && there && in ? och_kl_bundle_new(s, pos, b, base, there, OCH_KL_L_LANE, c->sub.streamed) : NULL;
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
            ok = ok && och_kl_inline(s, pos, decode, b->format, args, 2, &v);
            if (ok && (v.kind != OCH_KL_V_IR || v.ir->type.lanes != 8))
                ok = och_kl_error(s->diag, decode->pos, "%s gives a vector of 8", decode->name);
            if (!ok) break;
            och_kl_ir *x = och_kl_keep(s, pos, "x", v.ir, OCH_KL_L_LANE);
            ok = x && och_kl_convert_val(s, pos, och_kl_type_of(c->lds->elem, 8), och_kl_val_ir(x, OCH_KL_L_LANE), &v);
            /* Zeros outside, in words: there are fewer of them. */
            const och_kl_type words = och_kl_type_of(OCH_KL_U32, 2 * (int)och_kl_base_bytes(c->lds->elem));
            if (ok) x = och_kl_keep(s, pos, "x", och_kl_bitcast(code, pos, words, v.ir), OCH_KL_L_LANE);
            x = ok && x ? och_kl_select(code, pos, in, x, och_kl_int(code, pos, words, 0)) : NULL;
            ok = x && (v = och_kl_val_ir(och_kl_bitcast(code, pos, och_kl_type_of(c->lds->elem, 8), x), OCH_KL_L_LANE), true);
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
