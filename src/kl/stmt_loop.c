/* Loops: `for` over a range or a share of one, `while`, and `static for`, which is unrolled. */
#include "kl/spec.h"

#include <string.h>

static och_kl_type scalar(och_kl_base b) {
    return och_kl_type_of(b, 1);
}

static bool unroll(och_kl_spec *s, const och_kl_stmt *x, const och_kl_name *name, const och_kl_range *r) {
    if (!name) {
        och_kl_loop *loop = s->loop;
        s->loop = NULL;
        s->depth++;
        bool ok = och_kl_stmts(s, x->body);
        s->depth--;
        s->loop = loop;
        return ok;
    }
    int64_t a, b, step = 1;
    if (!r || !r->b) return och_kl_error(s->diag, name->pos, "a static for takes a range a..b for each of its names");
    if (!och_kl_eval_const_int(s, r->a, "a bound of a static for", &a) ||
        !och_kl_eval_const_int(s, r->b, "a bound of a static for", &b))
        return false;
    if (r->step && !och_kl_eval_const_int(s, r->step, "the step of a static for", &step)) return false;
    if (step < 1) return och_kl_error(s->diag, r->step->pos, "a step is at least 1, found %lld", (long long)step);
    och_kl_binding_node *scope = s->scope;
    bool ok = true;
    for (int64_t i = a; i < b && ok; i += step) {
        if (!och_kl_count(s, x->pos)) return false;
        ok = och_kl_bind(s, name->name, name->pos, och_kl_val_int(i), true) && unroll(s, x, name->next, r->next);
        s->scope = scope;
        if ((uint64_t)b - (uint64_t)i <= (uint64_t)step) break;
    }
    return ok;
}

/* The body of a loop whose turns are counted by what is of `trips`. */
static bool body(och_kl_spec *s, const och_kl_stmt *x, och_kl_list *list, och_kl_level trips, och_kl_loop *loop) {
    och_kl_list *outer = s->list;
    och_kl_level control = s->control, skipped = s->skipped;
    loop->around = och_kl_join(och_kl_control(s), trips);
    loop->outer = s->loop;
    s->loop = loop;
    s->control = och_kl_join(och_kl_join(control, trips), loop->level);
    s->list = list;
    s->depth++;
    och_kl_scratch_unknown(s);
    bool ok = och_kl_stmts(s, x->body);
    och_kl_scratch_unknown(s);
    s->depth--;
    s->list = outer;
    s->control = control;
    s->skipped = skipped;
    s->loop = loop->outer;
    return ok;
}

/* x.lanes(n), group.waves(n): where i starts, how far it steps, how many see the same i. */
static bool share(och_kl_spec *s, const och_kl_expr *e, och_kl_ir **out_from, int *out_step, och_kl_level *out_level,
                  const och_kl_expr **out_n) {
    och_kl_val v;
    if (e->kind != OCH_KL_E_CALL || e->a->kind != OCH_KL_E_FIELD)
        return och_kl_error(
            s->diag, e->pos,
            "expected a range a..b, or group.lanes(n), wave.lanes(n), cluster(c).lanes(n), group.waves(n)");
    const char *name = e->a->u.name;
    if (!och_kl_eval(s, e->a->a, &v)) return false;
    bool lanes = !strcmp(name, "lanes"), waves = !strcmp(name, "waves");
    if (v.kind != OCH_KL_V_SPACE || v.space == 't' || !(lanes || (waves && v.space == 'g')))
        return och_kl_error(
            s->diag, e->pos,
            "expected a range a..b, or group.lanes(n), wave.lanes(n), cluster(c).lanes(n), group.waves(n)");
    if (och_kl_count_args(e->args) != 1) return och_kl_error(s->diag, e->pos, "%s takes one number", name);
    if (!s->in_kernel) return och_kl_error(s->diag, e->pos, "%s is for a kernel's body", name);
    *out_n = e->args;
    *out_level = OCH_KL_L_LANE;
    if (waves) {
        *out_from = och_kl_wave_id(s, e->pos);
        *out_step = s->sig->waves;
        *out_level = OCH_KL_L_WAVE;
    } else if (v.space == 'g') {
        *out_from = och_kl_thread_id(s, e->pos);
        *out_step = s->sig->threads;
    } else if (v.space == 'w') {
        *out_from = och_kl_lane(s, e->pos);
        *out_step = s->profile.wave;
    } else {
        *out_from = och_kl_binary(s->code, e->pos, '&', och_kl_lane(s, e->pos), och_kl_i32(s, e->pos, v.cluster - 1));
        *out_step = v.cluster;
    }
    return *out_from != NULL;
}

/* In a stage a share with known turns is written out, so that its stores can wait. */
static bool unrolled_share(och_kl_spec *s, const och_kl_stmt *x, och_kl_ir *from, int64_t step, int64_t n,
                           och_kl_level level) {
    bool ok = true;
    from = och_kl_keep(s, x->pos, x->names->name, from, level);
    if (!from) return false;
    for (int64_t first = 0; first < n && ok; first += step) {
        och_kl_ir *i = och_kl_binary(s->code, x->pos, '+', from, och_kl_i32(s, x->pos, first));
        och_kl_val v = och_kl_keep_val(s, x->pos, x->names->name, och_kl_val_ir(i, level));
        if (v.kind == OCH_KL_V_BAD) return false;
        och_kl_binding_node *scope = s->scope;
        och_kl_loop *loop = s->loop;
        s->loop = NULL;
        och_kl_list *outer = s->list, *deferred = s->deferred;
        och_kl_level control = s->control;
        if (first + step > n) { /* some have none in the last turn */
            och_kl_type boolean = scalar(OCH_KL_BOOL);
            och_kl_var *c = och_kl_new_var(s->code, "c", boolean, OCH_KL_REG, NULL, 0);
            och_kl_ins *d = c ? och_kl_ins_new(s->code, s->stage_outer, OCH_KL_I_DECLARE, x->pos) : NULL;
            och_kl_ins *set = d ? och_kl_ins_new(s->code, s->list, OCH_KL_I_ASSIGN, x->pos) : NULL;
            och_kl_ins *a = set ? och_kl_ins_new(s->code, s->list, OCH_KL_I_IF, x->pos) : NULL;
            och_kl_ins *b = a ? och_kl_ins_new(s->code, s->deferred, OCH_KL_I_IF, x->pos) : NULL;
            if (!b) return false;
            c->uniformity = och_kl_level_uniformity(level);
            d->var = set->var = c;
            d->value = och_kl_int(s->code, x->pos, boolean, 0);
            set->value = och_kl_binary(s->code, x->pos, '<', v.ir, och_kl_i32(s, x->pos, n));
            a->value = och_kl_use(s->code, x->pos, c);
            b->value = och_kl_use(s->code, x->pos, c);
            s->list = &a->body;
            s->deferred = &b->body;
            s->control = och_kl_join(control, level);
        }
        s->depth++;
        ok = och_kl_bind(s, x->names->name, x->names->pos, v, true) && och_kl_stmts(s, x->body);
        s->depth--;
        s->list = outer;
        s->deferred = deferred;
        s->control = control;
        s->scope = scope;
        s->loop = loop;
    }
    return ok;
}

bool och_kl_stmt_for(och_kl_spec *s, const och_kl_stmt *x) {
    if (x->is_static) return unroll(s, x, x->names, x->ranges);
    const och_kl_range *r = x->ranges;
    if (x->names->next || r->next)
        return och_kl_error(s->diag, x->names->next ? x->names->next->pos : x->pos,
                            "only a static for has several names");
    och_kl_val a, b, step = och_kl_val_int(1);
    och_kl_level level, trips;
    och_kl_ir *from, *limit, *by;
    if (!r->b) {
        const och_kl_expr *n = NULL;
        int by_int = 1;
        int64_t known;
        if (r->step || x->ranges->step)
            return och_kl_error(s->diag, r->step->pos, "a share of a range has its own step");
        if (!share(s, r->a, &from, &by_int, &level, &n) || !och_kl_eval(s, n, &b) || !och_kl_to_index(s, n->pos, b, &b))
            return false;
        if (och_kl_is_int(b.ir, &known) && known > OCH_KL_MOST_SHARED)
            return och_kl_error(s->diag, n->pos, "a share is of at most %d, found %lld", OCH_KL_MOST_SHARED,
                                (long long)known);
        limit = och_kl_convert(s->code, n->pos, scalar(OCH_KL_I32), b.ir);
        by = och_kl_i32(s, x->pos, by_int);
        /* Where the turns come out even, all make the same number of them. */
        trips = b.multiple % (uint64_t)by_int == 0 ? b.level : och_kl_join(level, b.level);
        if (s->deferred && och_kl_is_int(limit, &known) && (known + by_int - 1) / by_int <= 256)
            return unrolled_share(s, x, from, by_int, known, level);
        a = och_kl_val_int(0);
    } else {
        const och_kl_expr *e[3] = {r->a, r->b, r->step};
        och_kl_val v[3];
        if (!och_kl_eval_list(s, e, r->step ? 3 : 2, v)) return false;
        a = v[0];
        b = v[1];
        if (r->step) step = v[2];
        if (!och_kl_unify(s, x->pos, &a, &b, "the bounds of a for")) return false;
        och_kl_type t = a.ir->type;
        if (t.lanes > 1 || (t.base != OCH_KL_I32 && t.base != OCH_KL_U32 && t.base != OCH_KL_I64)) {
            char buf[64];
            return och_kl_error(s->diag, r->a->pos, "a for counts in i32, u32 or i64, found %s",
                                och_kl_val_text(&a, buf));
        }
        int64_t k;
        if (och_kl_const_int(&step, &k) && k < 1)
            return och_kl_error(s->diag, r->step->pos, "a step is at least 1, found %lld", (long long)k);
        if (!och_kl_to_type(s, r->step ? r->step->pos : x->pos, step, t, "the step", &step)) return false;
        from = a.ir;
        limit = b.ir;
        by = och_kl_keep(s, x->pos, "step", step.ir, step.level);
        level = och_kl_join(a.level, step.level);
        trips = och_kl_join(level, b.level);
    }
    limit = och_kl_keep(s, x->pos, "end", limit, b.level);
    och_kl_ins *i = limit && by ? och_kl_loose(s, OCH_KL_I_FOR, x->pos) : NULL;
    if (!i) return false;
    och_kl_slot *slot =
        och_kl_slot_new(s, x->names->name, from->type, NULL, 0, true, och_kl_join(level, OCH_KL_L_GROUP));
    if (!slot) return false;
    slot->multiple = r->b ? och_kl_gcd(a.multiple, step.multiple) : 1;
    i->var = slot->var;
    i->value = from;
    i->limit = limit;
    i->step = by;
    i->share = !r->b;
    och_kl_loop loop = {0};
    loop.id = och_kl_level_new(s, &loop.level);
    och_kl_list *deferred = s->deferred;
    s->deferred = NULL; /* in a stage its turns are not known: its stores to LDS come before `do` */
    och_kl_binding_node *scope = s->scope;
    bool ok = och_kl_bind(s, x->names->name, x->names->pos, (och_kl_val){.kind = OCH_KL_V_REG, .slot = slot}, true) &&
              body(s, x, &i->body, trips, &loop);
    s->scope = scope;
    s->deferred = deferred;
    och_kl_insert_after(s->list, s->list->last, i);
    return ok;
}

bool och_kl_stmt_while(och_kl_spec *s, const och_kl_stmt *x) {
    och_kl_ins *w = och_kl_loose(s, OCH_KL_I_WHILE, x->pos);
    if (!w) return false;
    och_kl_loop loop = {0};
    loop.id = och_kl_level_new(s, &loop.level);
    och_kl_list *outer = s->list, *deferred = s->deferred;
    och_kl_level control = s->control;
    s->deferred = NULL;
    s->list = &w->body;
    s->control = och_kl_join(control, loop.level);
    och_kl_scratch_unknown(s);
    och_kl_val c;
    bool ok = och_kl_eval(s, x->expr, &c) && och_kl_to_bool(s, x->expr->pos, c, "the condition of a while", &c);
    s->control = control;
    s->list = outer;
    if (!ok) {
        s->deferred = deferred;
        return false;
    }
    /* Whoever left stays away when the condition is looked at again. */
    if (c.level > och_kl_join(loop.level, och_kl_control(s))) {
        s->again = true;
        och_kl_level_raise(s, loop.id, c.level);
    }
    if (w->body.first) {
        och_kl_ins *leave = och_kl_ins_new(s->code, &w->body, OCH_KL_I_IF, x->pos);
        if (!leave || !och_kl_ins_new(s->code, &leave->body, OCH_KL_I_BREAK, x->pos)) return false;
        leave->value = och_kl_unary(s->code, x->pos, '!', c.ir);
        w->value = och_kl_int(s->code, x->pos, scalar(OCH_KL_BOOL), 1);
    } else
        w->value = c.ir;
    ok = body(s, x, &w->body, c.level, &loop);
    s->deferred = deferred;
    och_kl_insert_after(s->list, s->list->last, w);
    return ok;
}
