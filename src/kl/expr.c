/* Expressions: names, operators, fields. */
#include "kl/spec.h"

#include <math.h>
#include <string.h>

static bool lookup_const(och_kl_spec *s, const och_kl_decl *d, och_kl_val *out) {
    for (const och_kl_frame *f = s->frame; f; f = f->outer)
        if (f->fn == d) return och_kl_error(s->diag, d->pos, "the constant %s is made of itself", d->name);
    och_kl_frame frame = {d, s->frame};
    och_kl_binding_node *scope = s->scope;
    bool only = s->constants_only;
    s->frame = &frame;
    s->scope = NULL;
    s->constants_only = true;
    bool ok = och_kl_eval(s, d->expr, out);
    s->frame = frame.outer;
    s->scope = scope;
    s->constants_only = only;
    if (!ok) return false;
    if (out->kind != OCH_KL_V_INT && out->kind != OCH_KL_V_REAL &&
        (out->kind != OCH_KL_V_IR || out->level != OCH_KL_L_CONST))
        return och_kl_error(s->diag, d->expr->pos, "%s is no constant", d->name);
    return true;
}

static bool eval_name(och_kl_spec *s, const och_kl_expr *e, och_kl_val *out) {
    const char *name = e->u.name;
    och_kl_binding_node *b = och_kl_lookup(s, name);
    if (b) {
        *out = b->val;
        return out->kind != OCH_KL_V_BAD;
    }
    const och_kl_decl *d = och_kl_find_decl(s, OCH_KL_D_CONST, name);
    if (d) return lookup_const(s, d, out);
    d = och_kl_find_decl(s, OCH_KL_D_FORMAT, name);
    if (!d) d = och_kl_find_decl(s, OCH_KL_D_ACT, name);
    if (d) {
        *out = (och_kl_val){.kind = OCH_KL_V_FORMAT, .decl = d};
        return true;
    }
    och_kl_type t;
    if (och_kl_type_find(name, &t)) {
        *out = (och_kl_val){.kind = OCH_KL_V_TYPE, .type = t};
        return true;
    }
    int space = !strcmp(name, "group") ? 'g' : !strcmp(name, "wave") ? 'w' : !strcmp(name, "thread") ? 't' : 0;
    if (space) {
        *out = (och_kl_val){.kind = OCH_KL_V_SPACE, .space = space};
        return true;
    }
    if (s->in_format && (!strcmp(name, "unit") || !strcmp(name, "block")))
        return och_kl_format_field(s, e->pos, s->in_format, name, out);
    if (och_kl_find_decl(s, OCH_KL_D_FN, name))
        return och_kl_error(s->diag, e->pos, "%s is a function: %s(...) calls it", name, name);
    return och_kl_unknown(s, e->pos, "name", name);
}

/* ---- operators ---- */

static const char *op_text(int op, char buf[3]) {
    static const char *const names[] = {"==", "!=", "<=", ">=", "&&", "||", "<<", ">>"};
    if (op >= OCH_KL_OP_EQ) return names[op - OCH_KL_OP_EQ];
    buf[0] = (char)op;
    buf[1] = 0;
    return buf;
}
static bool is_comparison(int op) {
    return op == '<' || op == '>' || op == OCH_KL_OP_EQ || op == OCH_KL_OP_NE || op == OCH_KL_OP_LE ||
           op == OCH_KL_OP_GE;
}

/* Two numbers without a type. */
static bool fold_numbers(och_kl_spec *s, och_kl_pos pos, int op, const och_kl_val *a, const och_kl_val *b,
                         och_kl_val *out) {
    char t[3];
    if (a->kind == OCH_KL_V_REAL || b->kind == OCH_KL_V_REAL) {
        double x = a->kind == OCH_KL_V_REAL ? a->real : (double)a->integer,
               y = b->kind == OCH_KL_V_REAL ? b->real : (double)b->integer;
        switch (op) {
        case '+':
            *out = och_kl_val_real(x + y);
            return true;
        case '-':
            *out = och_kl_val_real(x - y);
            return true;
        case '*':
            *out = och_kl_val_real(x * y);
            return true;
        case '/':
            *out = och_kl_val_real(x / y);
            return true;
        case '<':
            *out = och_kl_val_bool(s, pos, x < y);
            return true;
        case '>':
            *out = och_kl_val_bool(s, pos, x > y);
            return true;
        case OCH_KL_OP_LE:
            *out = och_kl_val_bool(s, pos, x <= y);
            return true;
        case OCH_KL_OP_GE:
            *out = och_kl_val_bool(s, pos, x >= y);
            return true;
        case OCH_KL_OP_EQ:
            *out = och_kl_val_bool(s, pos, x == y);
            return true;
        case OCH_KL_OP_NE:
            *out = och_kl_val_bool(s, pos, x != y);
            return true;
        default:
            return och_kl_error(s->diag, pos, "%s takes integers", op_text(op, t));
        }
    }
    int64_t x = a->integer, y = b->integer, r = 0;
    bool over = false;
    switch (op) {
    case '+':
        over = __builtin_add_overflow(x, y, &r);
        break;
    case '-':
        over = __builtin_sub_overflow(x, y, &r);
        break;
    case '*':
        over = __builtin_mul_overflow(x, y, &r);
        break;
    case '/':
    case '%':
        if (!y) return och_kl_error(s->diag, pos, "division by 0");
        if (y == -1) {
            over = op == '/' && __builtin_sub_overflow((int64_t)0, x, &r);
            if (op == '%') r = 0;
        } else
            r = op == '/' ? x / y : x % y;
        break;
    case '&':
        r = x & y;
        break;
    case '|':
        r = x | y;
        break;
    case '^':
        r = x ^ y;
        break;
    case OCH_KL_OP_SHL:
        over = y < 0 || y > 62 || x < 0 || x > (INT64_MAX >> y);
        if (!over) r = x << y;
        break;
    case OCH_KL_OP_SHR:
        over = y < 0 || y > 63;
        if (!over) r = x >> y;
        break;
    case '<':
        *out = och_kl_val_bool(s, pos, x < y);
        return true;
    case '>':
        *out = och_kl_val_bool(s, pos, x > y);
        return true;
    case OCH_KL_OP_LE:
        *out = och_kl_val_bool(s, pos, x <= y);
        return true;
    case OCH_KL_OP_GE:
        *out = och_kl_val_bool(s, pos, x >= y);
        return true;
    case OCH_KL_OP_EQ:
        *out = och_kl_val_bool(s, pos, x == y);
        return true;
    case OCH_KL_OP_NE:
        *out = och_kl_val_bool(s, pos, x != y);
        return true;
    default:
        return och_kl_error(s->diag, pos, "%s takes bool", op_text(op, t));
    }
    if (over)
        return och_kl_error(s->diag, pos, "%lld %s %lld does not fit 64 bits", (long long)x, op_text(op, t),
                            (long long)y);
    *out = och_kl_val_int(r);
    return true;
}

static uint64_t multiple_of(int op, const och_kl_val *a, const och_kl_val *b) {
    int64_t k;
    switch (op) {
    case '+':
    case '-':
        return och_kl_gcd(a->multiple, b->multiple);
    case '*': {
        uint64_t r;
        return __builtin_mul_overflow(a->multiple, b->multiple, &r) ? 1 : r;
    }
    case '/':
        return och_kl_const_int(b, &k) && k > 0 && a->multiple % (uint64_t)k == 0 && a->multiple
                   ? a->multiple / (uint64_t)k
                   : 1;
    case OCH_KL_OP_SHL:
        return och_kl_const_int(b, &k) && k >= 0 && k < 31 && a->multiple < (1ull << 31) ? a->multiple << k : 1;
    default:
        return 1;
    }
}

/* thread / 32 and the like: the same in each cluster. */
static och_kl_level level_of(int op, const och_kl_val *a, const och_kl_val *b) {
    och_kl_level l = och_kl_join(a->level, b->level);
    int64_t k;
    if (a->counts_lanes && och_kl_const_int(b, &k) && k > 0) {
        if (op == OCH_KL_OP_SHR && k < 31)
            k = (int64_t)1 << k;
        else if (op != '/')
            return l;
        int lanes = k % 32 == 0 ? 32 : k % 16 == 0 ? 16 : k % 8 == 0 ? 8 : 0;
        if (lanes) return och_kl_cluster_level(lanes);
    }
    return l;
}

bool och_kl_binary_val(och_kl_spec *s, och_kl_pos pos, int op, och_kl_val a, och_kl_val b, och_kl_val *out) {
    char t[3], x[64];
    if (a.kind == OCH_KL_V_BAD || b.kind == OCH_KL_V_BAD) return false;
    bool na = och_kl_is_number(&a), nb = och_kl_is_number(&b);
    bool choice = a.kind == OCH_KL_V_CHOICE || b.kind == OCH_KL_V_CHOICE;
    if (na && nb && !choice) return fold_numbers(s, pos, op, &a, &b, out);
    if (a.kind == OCH_KL_V_TYPE && b.kind == OCH_KL_V_TYPE && (op == OCH_KL_OP_EQ || op == OCH_KL_OP_NE)) {
        *out = och_kl_val_bool(s, pos, och_kl_same(a.type, b.type) == (op == OCH_KL_OP_EQ));
        return true;
    }
    if (a.kind == OCH_KL_V_FORMAT && b.kind == OCH_KL_V_FORMAT && (op == OCH_KL_OP_EQ || op == OCH_KL_OP_NE)) {
        *out = och_kl_val_bool(s, pos, (a.decl == b.decl) == (op == OCH_KL_OP_EQ));
        return true;
    }
    bool shift = op == OCH_KL_OP_SHL || op == OCH_KL_OP_SHR;
    if (shift) {
        if (!och_kl_to_value(s, pos, a, &a)) return false;
        if (b.kind == OCH_KL_V_CHOICE) nb = false;
        if (!nb && !och_kl_to_value(s, pos, b, &b)) return false;
        if (!nb && !och_kl_base_is_int(b.ir->type.base))
            return och_kl_error(s->diag, pos, "%s takes an integer amount, found %s", op_text(op, t),
                                och_kl_val_text(&b, x));
        if (nb && b.kind == OCH_KL_V_INT) b.integer &= och_kl_base_bytes(a.ir->type.base) * 8 - 1;
        och_kl_val amount;
        if (!och_kl_base_is_int(a.ir->type.base))
            return och_kl_error(s->diag, pos, "%s takes integers, found %s", op_text(op, t), och_kl_val_text(&a, x));
        if (!och_kl_convert_val(s, pos, a.ir->type, b, &amount)) return false;
        amount.multiple = b.multiple;
        b = amount;
    } else if (!och_kl_unify(s, pos, &a, &b, op_text(op, t)))
        return false;
    och_kl_type ty = a.ir->type;
    if (och_kl_is_storage(ty.base)) {
        och_kl_error(s->diag, pos, "%s is for storage only: no arithmetic", och_kl_base_names[ty.base]);
        och_kl_note(s->diag, pos, "%s(...) converts", och_kl_base_names[och_kl_arithmetic(ty.base)]);
        return false;
    }
    bool is_float = och_kl_base_is_float(ty.base), is_bool = ty.base == OCH_KL_BOOL;
    if (is_comparison(op)) {
        if (ty.lanes > 1)
            return och_kl_error(s->diag, pos, "%s compares scalars, found %s", op_text(op, t), och_kl_val_text(&a, x));
        if (is_bool && op != OCH_KL_OP_EQ && op != OCH_KL_OP_NE)
            return och_kl_error(s->diag, pos, "%s compares numbers, found bool", op_text(op, t));
    } else if (is_bool)
        return och_kl_error(s->diag, pos, "%s takes numbers, found bool: && || ! are for bool", op_text(op, t));
    else if (is_float && !(op == '+' || op == '-' || op == '*' || op == '/'))
        return och_kl_error(s->diag, pos, "%s takes integers, found %s", op_text(op, t), och_kl_val_text(&a, x));
    int64_t kb;
    if ((op == '/' || op == '%') && !is_float && och_kl_is_int(b.ir, &kb) && kb == 0)
        return och_kl_error(s->diag, pos, "division by 0");
    och_kl_level level = level_of(op, &a, &b);
    uint64_t multiple = is_float || is_bool || is_comparison(op) ? 1 : multiple_of(op, &a, &b);
    *out = och_kl_val_ir(och_kl_binary(s->code, pos, op, a.ir, b.ir), level);
    if (out->ir && out->ir->kind != OCH_KL_X_INT) out->multiple = multiple;
    return out->ir != NULL;
}

/* e under a condition: its statements go to the body of `branch`. */
static bool eval_branch(och_kl_spec *s, const och_kl_expr *e, och_kl_level level, och_kl_list *list, och_kl_val *out) {
    och_kl_list *outer = s->list;
    och_kl_level control = s->control;
    bool dirty[2] = {s->scratch_dirty[0], s->scratch_dirty[1]};
    s->list = list;
    s->control = och_kl_join(control, level);
    bool ok = och_kl_eval(s, e, out);
    if (ok && out->kind == OCH_KL_V_REG && out->n_at == out->slot->var->n_dims)
        ok = och_kl_to_value(s, e->pos, *out, out);
    s->list = outer;
    s->control = control;
    if (list->first)
        och_kl_scratch_unknown(s);
    else
        s->scratch_dirty[0] = dirty[0], s->scratch_dirty[1] = dirty[1];
    return ok;
}

static och_kl_var *temporary(och_kl_spec *s, och_kl_pos pos, och_kl_type t, och_kl_level level, och_kl_ir *value,
                             och_kl_list *list) {
    och_kl_var *v = och_kl_new_var(s->code, "t", t, OCH_KL_REG, NULL, 0);
    och_kl_ins *i = v ? och_kl_ins_new(s->code, list, OCH_KL_I_DECLARE, pos) : NULL;
    if (!i) return NULL;
    v->uniformity = och_kl_level_uniformity(level);
    i->var = v;
    i->value = value;
    return v;
}
static bool assign_temporary(och_kl_spec *s, och_kl_pos pos, och_kl_list *list, och_kl_var *v, och_kl_ir *value) {
    och_kl_ins *i = och_kl_ins_new(s->code, list, OCH_KL_I_ASSIGN, pos);
    if (!i) return false;
    i->var = v;
    i->value = value;
    return true;
}

static bool eval_logical(och_kl_spec *s, const och_kl_expr *e, och_kl_val *out) {
    bool is_and = e->u.op == OCH_KL_OP_AND;
    const char *what = is_and ? "&&" : "||";
    och_kl_val a, b;
    int64_t k;
    if (!och_kl_eval(s, e->a, &a) || !och_kl_to_bool(s, e->a->pos, a, what, &a)) return false;
    if (och_kl_is_int(a.ir, &k)) {
        if ((k != 0) != is_and) {
            *out = a;
            return true;
        }
        return och_kl_eval(s, e->b, &b) && och_kl_to_bool(s, e->b->pos, b, what, out);
    }
    och_kl_ins *branch = och_kl_loose(s, OCH_KL_I_IF, e->pos);
    if (!branch || !eval_branch(s, e->b, a.level, &branch->body, &b) || !och_kl_to_bool(s, e->b->pos, b, what, &b))
        return false;
    och_kl_level level = och_kl_join(a.level, b.level);
    if (!branch->body.first && !b.ir->effects) {
        *out = och_kl_val_ir(och_kl_binary(s->code, e->pos, e->u.op, a.ir, b.ir), level);
        return out->ir != NULL;
    }
    och_kl_var *t = temporary(s, e->pos, a.ir->type, level, a.ir, s->list);
    if (!t || !assign_temporary(s, e->pos, &branch->body, t, b.ir)) return false;
    branch->value = och_kl_use(s->code, e->pos, t);
    if (!is_and) branch->value = och_kl_unary(s->code, e->pos, '!', branch->value);
    och_kl_insert_after(s->list, s->list->last, branch);
    *out = och_kl_val_ir(och_kl_use(s->code, e->pos, t), level);
    return out->ir != NULL;
}

static bool eval_select(och_kl_spec *s, const och_kl_expr *e, och_kl_val *out) {
    och_kl_val c, a, b;
    int64_t k;
    if (!och_kl_eval(s, e->a, &c) || !och_kl_to_bool(s, e->a->pos, c, "a condition", &c)) return false;
    if (och_kl_is_int(c.ir, &k)) return och_kl_eval(s, k ? e->b : e->c, out);
    och_kl_ins *branch = och_kl_loose(s, OCH_KL_I_IF, e->pos);
    if (!branch || !eval_branch(s, e->b, c.level, &branch->body, &a) ||
        !eval_branch(s, e->c, c.level, &branch->other, &b))
        return false;
    if (och_kl_is_number(&a) && och_kl_is_number(&b) && !branch->body.first && !branch->other.first) {
        /* The place decides which type. */
        och_kl_val *sides = och_kl_alloc(s, 2, sizeof *sides);
        och_kl_ir *cond = sides && !och_kl_is_stable(c.ir) ? och_kl_keep(s, e->pos, "c", c.ir, c.level) : c.ir;
        if (!sides || !cond) return false;
        sides[0] = a;
        sides[1] = b;
        *out = (och_kl_val){.kind = OCH_KL_V_CHOICE,
                            .ir = cond,
                            .level = och_kl_join(c.level, och_kl_join(a.level, b.level)),
                            .sides = sides,
                            .multiple = och_kl_gcd(a.multiple, b.multiple)};
        return true;
    }
    if (!och_kl_unify(s, e->pos, &a, &b, "the sides of ?:")) return false;
    och_kl_level level = och_kl_join(c.level, och_kl_join(a.level, b.level));
    uint64_t multiple = och_kl_gcd(a.multiple, b.multiple);
    if (!branch->body.first && !branch->other.first && !a.ir->effects && !b.ir->effects && !och_kl_has_load(a.ir) &&
        !och_kl_has_load(b.ir)) {
        *out = och_kl_val_ir(och_kl_select(s->code, e->pos, c.ir, a.ir, b.ir), level);
    } else {
        och_kl_var *t = temporary(s, e->pos, a.ir->type, level, NULL, s->list);
        if (!t || !assign_temporary(s, e->pos, &branch->body, t, a.ir) ||
            !assign_temporary(s, e->pos, &branch->other, t, b.ir))
            return false;
        branch->value = c.ir;
        och_kl_insert_after(s->list, s->list->last, branch);
        *out = och_kl_val_ir(och_kl_use(s->code, e->pos, t), level);
    }
    out->multiple = multiple;
    return out->ir != NULL;
}

static bool is_lane(const och_kl_expr *e) {
    return e->kind == OCH_KL_E_FIELD && !strcmp(e->u.name, "lane") && e->a->kind == OCH_KL_E_NAME &&
           !strcmp(e->a->u.name, "wave");
}
/* Every wave has lanes 0 to 30. */
static bool names_lanes(const och_kl_expr *a, const och_kl_expr *b) {
    return is_lane(a) && b->kind == OCH_KL_E_INT && b->u.integer > 30;
}

static bool eval_binary(och_kl_spec *s, const och_kl_expr *e, och_kl_val *out) {
    if (e->u.op == OCH_KL_OP_AND || e->u.op == OCH_KL_OP_OR) return eval_logical(s, e, out);
    if (names_lanes(e->a, e->b) || names_lanes(e->b, e->a)) {
        och_kl_error(s->diag, e->pos, "%llu counts lanes: waves have another number of them on other targets",
                     (unsigned long long)(is_lane(e->a) ? e->b : e->a)->u.integer);
        och_kl_note(s->diag, e->pos, "wave.first is lane 0; wave.size is their number");
        return false;
    }
    const och_kl_expr *operands[2] = {e->a, e->b};
    och_kl_val v[2];
    return och_kl_eval_list(s, operands, 2, v) && och_kl_binary_val(s, e->pos, e->u.op, v[0], v[1], out);
}

static bool eval_unary(och_kl_spec *s, const och_kl_expr *e, och_kl_val *out) {
    och_kl_val a;
    char buf[64];
    if (!och_kl_eval(s, e->a, &a)) return false;
    if (e->u.op == '!') {
        if (!och_kl_to_bool(s, e->pos, a, "!", &a)) return false;
        *out = och_kl_val_ir(och_kl_unary(s->code, e->pos, '!', a.ir), a.level);
        return out->ir != NULL;
    }
    if (a.kind == OCH_KL_V_REAL && e->u.op == '-') {
        *out = och_kl_val_real(-a.real);
        return true;
    }
    if (a.kind == OCH_KL_V_INT) {
        if (e->u.op == '-' && a.integer == INT64_MIN)
            return och_kl_error(s->diag, e->pos, "-(%lld) does not fit 64 bits", (long long)a.integer);
        *out = och_kl_val_int(e->u.op == '-' ? (int64_t)(0 - (uint64_t)a.integer) : ~a.integer);
        return true;
    }
    if (!och_kl_to_value(s, e->pos, a, &a)) return false;
    och_kl_base b = a.ir->type.base;
    bool ok = e->u.op == '-' ? och_kl_base_is_int(b) || och_kl_base_is_float(b) : och_kl_base_is_int(b);
    if (!ok || och_kl_is_storage(b))
        return och_kl_error(s->diag, e->pos, "%c does not take %s", e->u.op, och_kl_val_text(&a, buf));
    *out = och_kl_val_ir(och_kl_unary(s->code, e->pos, e->u.op, a.ir), a.level);
    if (e->u.op == '-') out->multiple = a.multiple;
    return out->ir != NULL;
}

static bool eval_field(och_kl_spec *s, const och_kl_expr *e, och_kl_val *out) {
    och_kl_val a;
    char buf[64];
    if (!och_kl_eval(s, e->a, &a)) return false;
    const char *name = e->u.name;
    och_kl_type i32 = och_kl_type_of(OCH_KL_I32, 1);
    int waves = s->sig->waves;
    switch (a.kind) {
    case OCH_KL_V_SPACE:
        if (!s->in_kernel) return och_kl_error(s->diag, e->pos, "the machine is known in a kernel's body only");
        if (a.space == 'g' && (!strcmp(name, "id") || !strcmp(name, "count"))) {
            *out = (och_kl_val){.kind = OCH_KL_V_AXES, .space = name[0]};
            return true;
        }
        if (a.space == 'g' && !strcmp(name, "size")) {
            *out = och_kl_val_int(s->sig->threads);
            return true;
        }
        if (a.space == 'g' && !strcmp(name, "waves_count")) {
            *out = och_kl_val_int(waves);
            return true;
        }
        if (a.space == 't' && !strcmp(name, "id")) {
            *out = och_kl_val_ir(och_kl_thread_id(s, e->pos), OCH_KL_L_LANE);
            out->counts_lanes = true;
            return out->ir != NULL;
        }
        if (a.space == 'w' && !strcmp(name, "id")) {
            *out = och_kl_val_ir(och_kl_wave_id(s, e->pos), OCH_KL_L_WAVE);
            return out->ir != NULL;
        }
        if (a.space == 'w' && !strcmp(name, "size")) {
            *out = och_kl_val_int(s->profile.wave);
            return true;
        }
        if (a.space == 'w' && !strcmp(name, "lane")) {
            *out = och_kl_val_ir(och_kl_lane(s, e->pos), OCH_KL_L_LANE);
            out->counts_lanes = true;
            return out->ir != NULL;
        }
        if (a.space == 'w' && !strcmp(name, "first")) {
            och_kl_ir *zero = och_kl_i32(s, e->pos, 0);
            *out = och_kl_val_ir(och_kl_binary(s->code, e->pos, OCH_KL_OP_EQ, och_kl_lane(s, e->pos), zero),
                                 OCH_KL_L_LANE);
            return out->ir != NULL;
        }
        if (a.space == 'c' && !strcmp(name, "id")) {
            och_kl_val t = och_kl_val_ir(och_kl_thread_id(s, e->pos), OCH_KL_L_LANE);
            t.counts_lanes = true;
            return och_kl_binary_val(s, e->pos, '/', t, och_kl_val_int(a.cluster), out);
        }
        if (a.space == 'c' && !strcmp(name, "lane")) {
            och_kl_val t = och_kl_val_ir(och_kl_lane(s, e->pos), OCH_KL_L_LANE);
            return och_kl_binary_val(s, e->pos, '&', t, och_kl_val_int(a.cluster - 1), out);
        }
        {
            static const char *const known[4][8] = {
                {"id", "count", "size", "waves_count", "lanes", "waves", "barrier", "sum"},
                {"id", "size", "lane", "first", "lanes", "sum", "uniform", "shuffle"},
                {"id"},
                {"id", "lane", "lanes", "sum", "max", "min"}};
            int which = a.space == 'g' ? 0 : a.space == 'w' ? 1 : a.space == 't' ? 2 : 3;
            static const char *const names[] = {"group", "wave", "thread", "a cluster"};
            och_kl_guess g;
            och_kl_guess_init(&g, name);
            for (int i = 0; i < 8; i++) och_kl_guess_offer(&g, known[which][i]);
            const char *best = och_kl_guess_best(&g);
            if (best)
                return och_kl_error(s->diag, e->pos, "%s has no \"%s\": did you mean \"%s\"?", names[which], name,
                                    best);
            return och_kl_error(s->diag, e->pos, "%s has no \"%s\"", names[which], name);
        }
    case OCH_KL_V_AXES: {
        int axis = !strcmp(name, "x") ? 0 : !strcmp(name, "y") ? 1 : !strcmp(name, "z") ? 2 : -1;
        if (axis < 0)
            return och_kl_error(s->diag, e->pos, "group.%s has .x, .y and .z, found \"%s\"",
                                a.space == 'i' ? "id" : "count", name);
        och_kl_ir *x =
            och_kl_call(s->code, e->pos, a.space == 'i' ? OCH_KL_F_GROUP_ID : OCH_KL_F_GROUP_COUNT, i32, axis, NULL, 0);
        *out = och_kl_val_ir(x, OCH_KL_L_GROUP);
        return x != NULL;
    }
    case OCH_KL_V_FORMAT:
        return och_kl_format_field(s, e->pos, a.decl, name, out);
    case OCH_KL_V_UNIT:
        return och_kl_unit_field(s, e->pos, &a, name, out);
    case OCH_KL_V_BUFFER:
        if (!strcmp(name, "present")) {
            if (!a.buf->optional) {
                *out = och_kl_val_bool(s, e->pos, true);
                return out->ir != NULL;
            }
            och_kl_ir *p = och_kl_use(s->code, e->pos, a.buf->var);
            *out =
                och_kl_val_ir(och_kl_call(s->code, e->pos, OCH_KL_F_PRESENT, och_kl_type_of(OCH_KL_BOOL, 1), 0, &p, 1),
                              OCH_KL_L_GROUP);
            return out->ir != NULL;
        }
        return och_kl_error(s->diag, e->pos, "a buffer has no field \"%s\": there is .present, and .row(i) for a row",
                            name);
    case OCH_KL_V_BAD:
        return false;
    default:
        return och_kl_error(s->diag, e->pos, "%s has no field \"%s\"", och_kl_val_text(&a, buf), name);
    }
}

static bool eval_one(och_kl_spec *s, const och_kl_expr *e, och_kl_val *out) {
    switch (e->kind) {
    case OCH_KL_E_INT:
        if (e->u.integer > INT64_MAX) return och_kl_error(s->diag, e->pos, "the number does not fit 63 bits");
        *out = och_kl_val_int((int64_t)e->u.integer);
        return true;
    case OCH_KL_E_FLOAT:
        *out = och_kl_val_real(e->u.real);
        return true;
    case OCH_KL_E_BOOL:
        *out = och_kl_val_bool(s, e->pos, e->u.integer != 0);
        return out->ir != NULL;
    case OCH_KL_E_STRING:
        *out = (och_kl_val){.kind = OCH_KL_V_STRING, .text = e->u.name};
        return true;
    case OCH_KL_E_NAME:
        return eval_name(s, e, out);
    case OCH_KL_E_UNARY:
        return eval_unary(s, e, out);
    case OCH_KL_E_BINARY:
        return eval_binary(s, e, out);
    case OCH_KL_E_SELECT:
        return eval_select(s, e, out);
    case OCH_KL_E_INDEX:
        return och_kl_index(s, e, out);
    case OCH_KL_E_FIELD:
        return eval_field(s, e, out);
    case OCH_KL_E_CALL:
        return och_kl_eval_call(s, e, out);
    case OCH_KL_E_LAMBDA:
        return och_kl_error(s->diag, e->pos, "(...) => e stands in map and each of a tile only");
    }
    return false;
}

bool och_kl_eval(och_kl_spec *s, const och_kl_expr *e, och_kl_val *out) {
    *out = (och_kl_val){.kind = OCH_KL_V_BAD};
    if (!och_kl_enter_node(s, e->pos)) return false;
    bool ok = eval_one(s, e, out);
    och_kl_leave_node(s);
    return ok;
}

bool och_kl_eval_value(och_kl_spec *s, const och_kl_expr *e, och_kl_val *out) {
    return och_kl_eval(s, e, out) && och_kl_to_value(s, e->pos, *out, out);
}

bool och_kl_eval_list(och_kl_spec *s, const och_kl_expr *const *e, int n, och_kl_val *out) {
    enum { MAX = 32 };
    och_kl_ins *tails[MAX];
    if (n > MAX) return och_kl_error(s->diag, e[0]->pos, "more than %d arguments", MAX);
    for (int i = 0; i < n; i++) {
        if (!och_kl_eval(s, e[i], &out[i])) return false;
        tails[i] = s->list ? s->list->last : NULL;
    }
    for (int i = n - 2; i >= 0; i--) {
        if (!s->list || s->list->last == tails[i]) continue;
        och_kl_val v = out[i];
        if (v.kind == OCH_KL_V_REG && v.slot->var->n_dims && v.n_at == v.slot->var->n_dims &&
            !och_kl_to_value(s, e[i]->pos, v, &v))
            return false;
        if (v.kind != OCH_KL_V_IR || och_kl_is_stable(v.ir)) continue;
        och_kl_slot *slot = och_kl_slot_new(s, "t", v.ir->type, NULL, 0, true, v.level);
        och_kl_ins *d = slot ? och_kl_loose(s, OCH_KL_I_DECLARE, e[i]->pos) : NULL;
        if (!d) return false;
        d->var = slot->var;
        d->value = v.ir;
        och_kl_insert_after(s->list, tails[i], d);
        uint64_t multiple = v.multiple;
        out[i] = och_kl_val_ir(och_kl_use(s->code, e[i]->pos, slot->var), v.level);
        out[i].multiple = multiple;
    }
    return true;
}

bool och_kl_eval_const_int(och_kl_spec *s, const och_kl_expr *e, const char *what, int64_t *out) {
    och_kl_val v;
    char buf[64];
    if (!och_kl_eval(s, e, &v)) return false;
    if (och_kl_const_int(&v, out) && !(v.kind == OCH_KL_V_IR && v.ir->type.base == OCH_KL_BOOL)) return true;
    return och_kl_error(s->diag, e->pos, "%s must be a constant integer, found %s", what, och_kl_val_text(&v, buf));
}

bool och_kl_eval_const_bool(och_kl_spec *s, const och_kl_expr *e, const char *what, bool *out) {
    och_kl_val v;
    char buf[64];
    int64_t k;
    if (!och_kl_eval(s, e, &v)) return false;
    if (v.kind == OCH_KL_V_IR && v.ir->type.base == OCH_KL_BOOL && och_kl_is_int(v.ir, &k)) {
        *out = k != 0;
        return true;
    }
    return och_kl_error(s->diag, e->pos, "%s must be a constant bool, found %s", what, och_kl_val_text(&v, buf));
}
