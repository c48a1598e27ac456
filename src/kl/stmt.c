/* Statements, but for loops (stmt_loop.c), pipelines (lower_pipe.c) and copies (lower_copy.c). */
#include "kl/spec.h"

#include <string.h>

bool och_kl_stmts(och_kl_spec *s, const och_kl_stmt *first) {
    och_kl_binding_node *scope = s->scope;
    bool ok = true;
    for (const och_kl_stmt *x = first; x; x = x->next) {
        if (!och_kl_stmt_one(s, x)) ok = false;
        if (s->code->failed || och_kl_diag_full(s->diag) || s->n_nodes > OCH_KL_MAX_NODES) break;
    }
    s->scope = scope;
    return ok && !s->code->failed;
}

static bool stmt_let(och_kl_spec *s, const och_kl_stmt *x) {
    och_kl_val v = {.kind = OCH_KL_V_BAD};
    char buf[64];
    bool ok = och_kl_eval(s, x->expr, &v);
    if (ok && x->type) {
        och_kl_type t;
        ok = och_kl_resolve_type(s, x->type, &t) && och_kl_to_type(s, x->pos, v, t, x->name, &v);
    }
    if (ok && (och_kl_is_number(&v) || (v.kind == OCH_KL_V_REG && v.n_at == v.slot->var->n_dims)))
        ok = och_kl_to_value(s, x->expr->pos, v, &v);
    if (ok && (v.kind == OCH_KL_V_VOID || v.kind == OCH_KL_V_STRING || v.kind == OCH_KL_V_REG ||
               v.kind == OCH_KL_V_SPACE || v.kind == OCH_KL_V_AXES || v.kind == OCH_KL_V_TILE))
        ok = och_kl_error(s->diag, x->expr->pos, "%s: expected a value, found %s", x->name, och_kl_val_text(&v, buf));
    if (ok) {
        v = och_kl_keep_val(s, x->pos, x->name, v);
        ok = v.kind != OCH_KL_V_BAD;
    }
    if (!ok) v = (och_kl_val){.kind = OCH_KL_V_BAD};
    return och_kl_bind(s, x->name, x->pos, v, true) && ok;
}

static bool stmt_var(och_kl_spec *s, const och_kl_stmt *x) {
    if (x->type && x->type->name && !strcmp(x->type->name, "acc_tile")) {
        if (och_kl_var_tile(s, x)) return true;
        och_kl_bind(s, x->name, x->pos, (och_kl_val){.kind = OCH_KL_V_BAD}, false);
        return false;
    }
    och_kl_type t = {0};
    uint32_t dims[3];
    int n_dims = 0;
    uint64_t total = 1;
    bool ok = true;
    char buf[64];
    och_kl_val v = {.kind = OCH_KL_V_VOID};
    if (x->type) {
        ok = och_kl_resolve_type(s, x->type, &t);
        if (ok && x->type->matrix)
            ok = och_kl_error(s->diag, x->type->pos, "an array is written %s[..][..]", x->type->name);
        for (const och_kl_expr *d = x->type->dims; d && ok; d = d->next) {
            int64_t k;
            if (n_dims == 3)
                ok = och_kl_error(s->diag, d->pos, "an array has up to 3 dimensions");
            else if ((ok = och_kl_eval_const_int(s, d, "an extent", &k))) {
                if (k < 1 || k > 4096)
                    ok = och_kl_error(s->diag, d->pos, "an extent of a register array is 1 to 4096, found %lld",
                                      (long long)k);
                else {
                    dims[n_dims++] = (uint32_t)k;
                    total *= (uint64_t)k;
                }
            }
        }
        if (ok && total * t.lanes > 4096)
            ok = och_kl_error(s->diag, x->type->pos, "%llu elements do not fit a lane's registers",
                              (unsigned long long)(total * t.lanes));
        if (ok && och_kl_is_storage(t.base)) {
            ok = och_kl_error(s->diag, x->type->pos, "%s is for storage only", och_kl_base_names[t.base]);
            och_kl_note(s->diag, x->type->pos, "a variable holds %s", och_kl_base_names[och_kl_arithmetic(t.base)]);
        }
    } else if (!x->expr)
        ok = och_kl_error(s->diag, x->pos, "%s needs a type or a value", x->name);
    if (ok && x->expr) {
        ok = och_kl_eval(s, x->expr, &v);
        if (ok && v.kind == OCH_KL_V_INT && x->type && och_kl_base_is_float(t.base))
            v = och_kl_val_real((double)v.integer);
        if (ok)
            ok = x->type ? och_kl_to_type(s, x->expr->pos, v, t, x->name, &v) : och_kl_to_value(s, x->expr->pos, v, &v);
        if (ok && !x->type) {
            t = v.ir->type;
            if (och_kl_is_storage(t.base))
                ok = och_kl_error(s->diag, x->expr->pos, "%s is for storage only: %s(...) converts",
                                  och_kl_val_text(&v, buf), och_kl_base_names[och_kl_arithmetic(t.base)]);
        }
    }
    och_kl_slot *slot = ok ? och_kl_slot_new(s, x->name, t, dims, n_dims, false, OCH_KL_L_CONST) : NULL;
    och_kl_ins *d = slot ? och_kl_ins_new(s->code, s->list, OCH_KL_I_DECLARE, x->pos) : NULL;
    if (!d) {
        och_kl_bind(s, x->name, x->pos, (och_kl_val){.kind = OCH_KL_V_BAD}, false);
        return false;
    }
    d->var = slot->var;
    d->value = v.ir;
    if (v.ir) och_kl_slot_raise(s, slot, och_kl_join(v.level, och_kl_control(s)));
    return och_kl_bind(s, x->name, x->pos, (och_kl_val){.kind = OCH_KL_V_REG, .slot = slot}, false);
}

static bool stmt_lds(och_kl_spec *s, const och_kl_stmt *x) {
    och_kl_type t;
    uint32_t dims[3];
    int n = 0;
    if (s->frame || s->depth) return och_kl_error(s->diag, x->pos, "lds stands at the top of a kernel's body");
    och_kl_bind(s, x->name, x->pos, (och_kl_val){.kind = OCH_KL_V_BAD}, true);
    if (!x->type || !och_kl_resolve_type(s, x->type, &t)) return false;
    if (t.lanes > 1 || t.base == OCH_KL_BOOL)
        return och_kl_error(s->diag, x->type->pos, "an array in LDS holds scalars: .load4 reads several");
    uint64_t total = och_kl_base_bytes(t.base);
    for (const och_kl_expr *d = x->type->dims; d; d = d->next) {
        int64_t k;
        if (n == 3) return och_kl_error(s->diag, d->pos, "an array has up to 3 dimensions");
        if (!och_kl_eval_const_int(s, d, "an extent", &k)) return false;
        if (k < 1 || k > 1 << 20)
            return och_kl_error(s->diag, d->pos, "an extent is 1 to 1048576, found %lld", (long long)k);
        dims[n++] = (uint32_t)k;
        total *= (uint64_t)k;
    }
    if (!n || x->type->matrix)
        return och_kl_error(s->diag, x->type->pos, "an array in LDS is written %s[..][..]",
                            x->type->name ? x->type->name : "T");
    if (total > 1u << 24)
        return och_kl_error(s->diag, x->pos, "%llu bytes of LDS: a workgroup has %d", (unsigned long long)total,
                            s->profile.target.target->lds_workgroup_bytes);
    uint32_t row = dims[n - 1] * och_kl_base_bytes(t.base);
    if (x->swizzle && (n < 2 || och_kl_base_bytes(t.base) > 2 || row < 32 || (row & (row - 1))))
        return och_kl_error(s->diag, x->pos,
                            "swizzle is for matrices of elements of 1 or 2 bytes whose rows are 32, 64, 128, ... bytes, found rows of %u bytes",
                            row);
    och_kl_lds *l = och_kl_lds_new(s, x->name, t.base, dims, n, x->pad_auto);
    if (l) l->swizzled = x->swizzle;
    return l &&
           och_kl_bind(s, x->name, x->pos, (och_kl_val){.kind = OCH_KL_V_LDS, .lds = l, .level = OCH_KL_L_CONST}, true);
}

/* ---- assignments ---- */

/* The variable that e names, with its indices; *out_elem: the element of a vector, -1 for all of it. */
static bool reg_target(och_kl_spec *s, const och_kl_expr *e, och_kl_val *out, int *out_elem) {
    enum { MAX = 8 };
    const och_kl_expr *parts[MAX];
    int n = 0;
    const och_kl_expr *root = e;
    for (; root->kind == OCH_KL_E_INDEX; root = root->a) {
        if (n == MAX) return och_kl_error(s->diag, e->pos, "more than %d indices", MAX);
        parts[n++] = root;
    }
    if (root->kind != OCH_KL_E_NAME) return och_kl_error(s->diag, e->pos, "this cannot be assigned to");
    och_kl_binding_node *b = och_kl_lookup(s, root->u.name);
    char buf[64];
    if (!b) return och_kl_unknown(s, root->pos, "name", root->u.name);
    if (b->val.kind == OCH_KL_V_BAD) return false;
    if (b->val.kind != OCH_KL_V_REG) {
        och_kl_error(s->diag, root->pos,
                     b->val.kind == OCH_KL_V_IR ? "%s does not change" : "%s is %s: it cannot be assigned to", b->name,
                     och_kl_val_text(&b->val, buf));
        if (b->val.kind == OCH_KL_V_IR && b->pos.file) och_kl_note(s->diag, b->pos, "`var %s` would", b->name);
        return false;
    }
    if (b->val.slot->var->fixed) return och_kl_error(s->diag, root->pos, "%s does not change", b->name);
    *out = b->val;
    *out_elem = -1;
    const och_kl_var *v = out->slot->var;
    while (n-- > 0)
        for (const och_kl_expr *a = parts[n]->args; a; a = a->next) {
            int64_t k;
            och_kl_val i;
            if (!och_kl_eval(s, a, &i)) return false;
            if (!och_kl_const_int(&i, &k)) {
                och_kl_error(s->diag, a->pos, "an index of %s must be known when compiled: it lives in registers",
                             v->name);
                och_kl_note(s->diag, a->pos, "a `static for` variable is; an array in LDS takes any index");
                return false;
            }
            int64_t extent = out->n_at < v->n_dims ? (int64_t)v->dims[out->n_at] : v->type.lanes;
            if (*out_elem >= 0 || (out->n_at == v->n_dims && v->type.lanes == 1))
                return och_kl_error(s->diag, a->pos, "%s has %d %s", v->name, v->n_dims,
                                    v->n_dims == 1 ? "dimension" : "dimensions");
            if (k < 0 || k >= extent)
                return och_kl_error(s->diag, a->pos, "index %lld of an extent of %lld", (long long)k,
                                    (long long)extent);
            if (out->n_at < v->n_dims)
                out->at[out->n_at++] = (uint32_t)k;
            else
                *out_elem = (int)k;
        }
    if (out->n_at < v->n_dims)
        return och_kl_error(s->diag, e->pos, "%s needs %d more %s: arrays are assigned by element", v->name,
                            v->n_dims - out->n_at, v->n_dims - out->n_at == 1 ? "index" : "indices");
    return true;
}

/* Before `old += v`: types that differ are told by the whole operator, and what is converted is v. */
static bool sides_fit(och_kl_spec *s, const och_kl_stmt *x, const och_kl_val *old, const och_kl_val *v) {
    char a[64], b[64];
    if (x->op >= OCH_KL_OP_EQ || old->kind != OCH_KL_V_IR || v->kind != OCH_KL_V_IR) return true;
    och_kl_type t = old->ir->type, from = v->ir->type;
    if (t.base == from.base || (t.lanes != from.lanes && from.lanes != 1)) return true;
    if (och_kl_is_storage(t.base) || och_kl_is_storage(from.base)) return true;
    if ((t.base == OCH_KL_I64 || from.base == OCH_KL_I64) && !och_kl_base_is_float(t.base) && !och_kl_base_is_float(from.base))
        return true;
    och_kl_error(s->diag, x->pos, "%c=: %s beside %s", x->op, och_kl_val_text(old, a), och_kl_val_text(v, b));
    if (t.base != OCH_KL_BOOL && from.base != OCH_KL_BOOL)
        och_kl_note(s->diag, x->expr->pos, "nothing converts by itself: %s(...) converts",
                    och_kl_type_text(och_kl_type_of(t.base, from.lanes), a));
    return false;
}

static bool assign_reg(och_kl_spec *s, const och_kl_stmt *x, och_kl_val v) {
    och_kl_val target = {0}, old;
    int elem = -1;
    if (!reg_target(s, x->target, &target, &elem)) return false;
    och_kl_slot *slot = target.slot;
    och_kl_type t = slot->var->type, te = elem < 0 ? t : och_kl_type_of(t.base, 1);
    if (x->op != '=' || elem >= 0) {
        if (!och_kl_to_value(s, x->target->pos, target, &old)) return false;
    }
    if (x->op != '=') {
        och_kl_val part = old;
        if (elem >= 0) part = och_kl_val_ir(och_kl_elem(s->code, x->pos, old.ir, elem), old.level);
        if (!part.ir || !sides_fit(s, x, &part, &v) || !och_kl_binary_val(s, x->pos, x->op, part, v, &v)) return false;
    }
    if (!och_kl_to_type(s, x->expr->pos, v, te, slot->var->name, &v)) return false;
    och_kl_level level = och_kl_join(v.level, och_kl_control(s));
    och_kl_ir *value = v.ir;
    if (elem >= 0) {
        och_kl_ir *parts[32];
        value = och_kl_keep(s, x->pos, "e", value, v.level);
        for (int i = 0; i < t.lanes; i++)
            if (!(parts[i] = i == elem ? value : och_kl_elem(s->code, x->pos, old.ir, i))) return false;
        value = och_kl_build(s->code, x->pos, t, parts, t.lanes);
    }
    och_kl_ins *i = value ? och_kl_ins_new(s->code, s->list, OCH_KL_I_ASSIGN, x->pos) : NULL;
    if (!i) return false;
    i->var = slot->var;
    memcpy(i->at, target.at, sizeof i->at);
    i->value = value;
    och_kl_slot_raise(s, slot, level);
    return true;
}

static bool stmt_assign(och_kl_spec *s, const och_kl_stmt *x) {
    och_kl_val v;
    och_kl_place p;
    bool is;
    if (x->target->kind != OCH_KL_E_NAME && x->target->kind != OCH_KL_E_INDEX)
        return och_kl_error(s->diag, x->target->pos, "this cannot be assigned to");
    if (!och_kl_eval(s, x->expr, &v)) return false;
    if (v.kind == OCH_KL_V_REG && v.n_at == v.slot->var->n_dims && !och_kl_to_value(s, x->expr->pos, v, &v))
        return false;
    och_kl_ins *tail = s->list->last;
    if (!och_kl_place_of(s, x->target, &p, &is)) return false;
    if (!is) return assign_reg(s, x, v);
    if (s->list->last != tail && v.kind == OCH_KL_V_IR && !och_kl_is_stable(v.ir)) {
        och_kl_slot *slot = och_kl_slot_new(s, "t", v.ir->type, NULL, 0, true, v.level);
        och_kl_ins *d = slot ? och_kl_loose(s, OCH_KL_I_DECLARE, x->pos) : NULL;
        if (!d) return false;
        d->var = slot->var;
        d->value = v.ir;
        och_kl_insert_after(s->list, tail, d);
        v = och_kl_val_ir(och_kl_use(s->code, x->pos, slot->var), v.level);
    }
    if (x->op != '=') {
        och_kl_val old;
        p.mem.index = och_kl_keep(s, x->pos, "at", p.mem.index, p.level);
        if (!p.mem.index || !och_kl_load_place(s, x->target->pos, &p, &old) ||
            !sides_fit(s, x, &old, &v) || !och_kl_binary_val(s, x->pos, x->op, old, v, &v))
            return false;
    }
    return och_kl_store_place(s, x->pos, &p, v);
}

/* ---- conditions ---- */

static bool in_list(och_kl_spec *s, const och_kl_stmt *body, och_kl_list *list) {
    och_kl_list *outer = s->list;
    s->list = list;
    s->depth++;
    bool ok = och_kl_stmts(s, body);
    s->depth--;
    s->list = outer;
    return ok;
}

static bool stmt_if(och_kl_spec *s, const och_kl_stmt *x) {
    if (x->is_static) {
        bool c;
        if (!och_kl_eval_const_bool(s, x->expr, "the condition of a static if", &c)) return false;
        s->depth++;
        bool ok = och_kl_stmts(s, c ? x->body : x->other);
        s->depth--;
        return ok;
    }
    och_kl_val c;
    if (!och_kl_eval(s, x->expr, &c) || !och_kl_to_bool(s, x->expr->pos, c, "a condition", &c)) return false;
    och_kl_ins *i = och_kl_loose(s, OCH_KL_I_IF, x->pos);
    if (!i) return false;
    och_kl_level control = s->control;
    /* Stores of a stage wait under the same condition. */
    och_kl_list *deferred = s->deferred;
    och_kl_ins *later = NULL;
    if (deferred) {
        och_kl_var *v = och_kl_new_var(s->code, "c", c.ir->type, OCH_KL_REG, NULL, 0);
        och_kl_ins *d = v ? och_kl_ins_new(s->code, s->stage_outer, OCH_KL_I_DECLARE, x->pos) : NULL;
        och_kl_ins *a = d ? och_kl_ins_new(s->code, s->list, OCH_KL_I_ASSIGN, x->pos) : NULL;
        later = a ? och_kl_loose(s, OCH_KL_I_IF, x->pos) : NULL;
        if (!later) return false;
        v->uniformity = c.ir->uniformity;
        d->var = a->var = v;
        d->value = och_kl_int(s->code, x->pos, c.ir->type, 0);
        a->value = c.ir;
        i->value = och_kl_use(s->code, x->pos, v);
        later->value = och_kl_use(s->code, x->pos, v);
    } else
        i->value = c.ir;
    bool before[2] = {s->scratch_dirty[0], s->scratch_dirty[1]};
    s->control = och_kl_join(control, c.level);
    if (deferred) s->deferred = &later->body;
    bool ok = in_list(s, x->body, &i->body);
    bool after[2] = {s->scratch_dirty[0], s->scratch_dirty[1]};
    s->scratch_dirty[0] = before[0];
    s->scratch_dirty[1] = before[1];
    if (deferred) s->deferred = &later->other;
    if (x->other && !in_list(s, x->other, &i->other)) ok = false;
    s->scratch_dirty[0] |= after[0];
    s->scratch_dirty[1] |= after[1];
    s->control = control;
    s->deferred = deferred;
    och_kl_insert_after(s->list, s->list->last, i);
    if (later && (later->body.first || later->other.first)) och_kl_insert_after(deferred, deferred->last, later);
    return ok;
}

static bool stmt_jump(och_kl_spec *s, const och_kl_stmt *x) {
    const char *what = x->kind == OCH_KL_S_BREAK ? "break" : "continue";
    if (!s->loop)
        return och_kl_error(s->diag, x->pos, "%s stands in no loop%s", what,
                            s->deferred ? "" : " (a static for is none)");
    och_kl_level c = och_kl_control(s);
    if (x->kind == OCH_KL_S_BREAK) {
        if (c > och_kl_join(s->loop->level, s->loop->around)) s->again = true;
        och_kl_level_raise(s, s->loop->id, c);
    } else
        s->skipped = och_kl_join(s->skipped, c);
    return och_kl_ins_new(s->code, s->list, x->kind == OCH_KL_S_BREAK ? OCH_KL_I_BREAK : OCH_KL_I_CONTINUE, x->pos) !=
           NULL;
}

static bool stmt_return(och_kl_spec *s, const och_kl_stmt *x) {
    if (s->frame) return och_kl_error(s->diag, x->pos, "return stands last in a function");
    if (x->expr) return och_kl_error(s->diag, x->expr->pos, "a kernel returns nothing");
    if (s->deferred) return och_kl_error(s->diag, x->pos, "no return in a stage");
    if (!och_kl_need_group(s, x->pos, "return")) return false;
    return och_kl_ins_new(s->code, s->list, OCH_KL_I_RETURN, x->pos) != NULL;
}

static bool one(och_kl_spec *s, const och_kl_stmt *x) {
    och_kl_val v;
    switch (x->kind) {
    case OCH_KL_S_LET:
        return stmt_let(s, x);
    case OCH_KL_S_VAR:
        return stmt_var(s, x);
    case OCH_KL_S_LDS:
        return stmt_lds(s, x);
    case OCH_KL_S_ASSIGN:
        return stmt_assign(s, x);
    case OCH_KL_S_EXPR:
        return och_kl_eval(s, x->expr, &v);
    case OCH_KL_S_IF:
        if (!x->is_static) och_kl_end_products(s, x->pos); /* not on one of two ways only */
        return stmt_if(s, x);
    case OCH_KL_S_WHILE:
        och_kl_end_products(s, x->pos);
        return och_kl_stmt_while(s, x);
    case OCH_KL_S_FOR:
        if (!x->is_static) och_kl_end_products(s, x->pos);
        return och_kl_stmt_for(s, x);
    case OCH_KL_S_BLOCK: {
        och_kl_ins *b = och_kl_ins_new(s->code, s->list, OCH_KL_I_BLOCK, x->pos);
        return b && in_list(s, x->body, &b->body);
    }
    case OCH_KL_S_BREAK:
    case OCH_KL_S_CONTINUE:
        return stmt_jump(s, x);
    case OCH_KL_S_RETURN:
        return stmt_return(s, x);
    case OCH_KL_S_STAGE:
        return och_kl_stmt_stage(s, x);
    case OCH_KL_S_PIPELINE:
        return och_kl_stmt_pipeline(s, x);
    case OCH_KL_S_COPY:
        return och_kl_stmt_copy(s, x);
    }
    return false;
}

bool och_kl_stmt_one(och_kl_spec *s, const och_kl_stmt *x) {
    if (!och_kl_enter_node(s, x->pos)) return false;
    bool ok = one(s, x);
    och_kl_leave_node(s);
    return ok;
}
