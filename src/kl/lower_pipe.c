/* Pipelines. What their stages copy: lower_copy.c.
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
 * `then` stands between the first steps' copies and the wait for them: what it does is hidden behind them.
 *
 * Products that are only begun (tile_group.c) are waited for before the turn's barrier. With D of 4 and more, where nothing else is
 * done to a large tile, those of step t may still be under way at it: it ends those of step t - 1, whose place is filled again in the
 * turn after. The loads are then a step less ahead. Whether it is so is seen by lowering `do` first, which cannot be behind a `then`:
 * that may be where the kernel awaits what `do` reads. */
#include "kl/spec.h"
#include "kl/tile.h"

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

/* `then`, where the pipeline stands, so that a kernel may await in it; it is in no loop, and knows of no step. */
static bool lower_then(och_kl_spec *s, const och_kl_stmt *body) {
    och_kl_loop *loop = s->loop;
    const och_kl_list *outer = s->pipe_do;
    s->loop = NULL;
    s->pipe_do = NULL;
    s->depth++;
    bool ok = och_kl_stmts(s, body);
    s->depth--;
    s->pipe_do = outer;
    s->loop = loop;
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
    bool own_place = says_where(x->body);
    bool first_do = alone && !own_place && !x->then && depth >= 4 && (s->profile.target.target->ops & OCH_GROUP_MATRIX);
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
    s->pipe = NULL;
    if (x->then && !lower_then(s, x->then)) return false;
    s->pipe = alone ? &own : NULL;
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
