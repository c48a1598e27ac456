/* Grids and requirements: small programs over sizes, run by the host before a launch; and what a requirement says about
 * the multiples that sizes are of. */
#include "kl/lex.h"
#include "kl/spec.h"

#include <stdio.h>
#include <string.h>

/* ---- as written ---- */

typedef struct text_out {
    char *buf;
    size_t n, at;
} text_out;

static void put(text_out *o, const char *s) {
    for (; *s && o->at + 1 < o->n; s++) o->buf[o->at++] = *s;
    o->buf[o->at] = 0;
}

static int rank_of(int op) {
    switch (op) {
    case OCH_KL_OP_OR:
        return 1;
    case OCH_KL_OP_AND:
        return 2;
    case '|':
        return 3;
    case '^':
        return 4;
    case '&':
        return 5;
    case OCH_KL_OP_EQ:
    case OCH_KL_OP_NE:
        return 6;
    case '<':
    case '>':
    case OCH_KL_OP_LE:
    case OCH_KL_OP_GE:
        return 7;
    case OCH_KL_OP_SHL:
    case OCH_KL_OP_SHR:
        return 8;
    case '+':
    case '-':
        return 9;
    default:
        return 10;
    }
}

static void print(text_out *o, const och_kl_expr *e, int around) {
    static const char *const words[] = {"==", "!=", "<=", ">=", "&&", "||", "<<", ">>"};
    char num[OCH_KL_REAL_BYTES];
    switch (e->kind) {
    case OCH_KL_E_INT:
        snprintf(num, sizeof num, "%llu", (unsigned long long)e->u.integer);
        put(o, num);
        return;
    case OCH_KL_E_FLOAT:
        och_kl_real_text(e->u.real, 6, num);
        put(o, num);
        return;
    case OCH_KL_E_BOOL:
        put(o, e->u.integer ? "true" : "false");
        return;
    case OCH_KL_E_STRING:
        put(o, "\"");
        put(o, e->u.name);
        put(o, "\"");
        return;
    case OCH_KL_E_NAME:
        put(o, e->u.name);
        return;
    case OCH_KL_E_UNARY: {
        char op[2] = {(char)e->u.op, 0};
        put(o, op);
        print(o, e->a, 11);
        return;
    }
    case OCH_KL_E_BINARY: {
        char op[2] = {(char)e->u.op, 0};
        int rank = rank_of(e->u.op);
        if (rank < around) put(o, "(");
        print(o, e->a, rank);
        put(o, " ");
        put(o, e->u.op >= OCH_KL_OP_EQ ? words[e->u.op - OCH_KL_OP_EQ] : op);
        put(o, " ");
        print(o, e->b, rank + 1);
        if (rank < around) put(o, ")");
        return;
    }
    case OCH_KL_E_SELECT:
        if (around) put(o, "(");
        print(o, e->a, 1);
        put(o, " ? ");
        print(o, e->b, 1);
        put(o, " : ");
        print(o, e->c, 0);
        if (around) put(o, ")");
        return;
    case OCH_KL_E_FIELD:
        print(o, e->a, 12);
        put(o, ".");
        put(o, e->u.name);
        return;
    case OCH_KL_E_INDEX:
    case OCH_KL_E_CALL:
        print(o, e->a, 12);
        put(o, e->kind == OCH_KL_E_CALL ? "(" : "[");
        for (const och_kl_expr *a = e->args; a; a = a->next) {
            print(o, a, 0);
            if (a->next) put(o, ", ");
        }
        put(o, e->kind == OCH_KL_E_CALL ? ")" : "]");
        return;
    case OCH_KL_E_LAMBDA:
        put(o, "(...)");
        return;
    }
}

void och_kl_text_of(const och_kl_expr *e, char *buf, size_t n) {
    text_out o = {buf, n, 0};
    buf[0] = 0;
    print(&o, e, 0);
}

/* ---- programs ---- */

typedef struct part {
    bool is_const; /* value; nothing was added to the program */
    int64_t value;
    int at; /* else: where it begins in the program */
} part;

static bool insert_step(och_kl_spec *s, och_kl_pos pos, och_kl_rule *r, int at, och_kl_step_op op, int64_t value) {
    if (r->n_steps == OCH_KL_MAX_STEPS)
        return och_kl_error(s->diag, pos, "too long for a rule of the host: %d steps at most", OCH_KL_MAX_STEPS);
    memmove(&r->steps[at + 1], &r->steps[at], (size_t)(r->n_steps - at) * sizeof r->steps[0]);
    r->steps[at].op = op;
    r->steps[at].value = value;
    r->n_steps++;
    return true;
}
static bool add_step(och_kl_spec *s, och_kl_pos pos, och_kl_rule *r, och_kl_step_op op, int64_t value) {
    return insert_step(s, pos, r, r->n_steps, op, value);
}

static bool fold(och_kl_spec *s, och_kl_pos pos, och_kl_step_op op, int64_t a, int64_t b, int64_t *out) {
    bool over = false;
    switch (op) {
    case OCH_KL_R_ADD:
        over = __builtin_add_overflow(a, b, out);
        break;
    case OCH_KL_R_SUB:
        over = __builtin_sub_overflow(a, b, out);
        break;
    case OCH_KL_R_MUL:
        over = __builtin_mul_overflow(a, b, out);
        break;
    case OCH_KL_R_DIV:
    case OCH_KL_R_MOD:
    case OCH_KL_R_CEIL_DIV:
        if (!b || (a == INT64_MIN && b == -1)) return och_kl_error(s->diag, pos, "division by 0");
        *out = op == OCH_KL_R_DIV ? a / b : op == OCH_KL_R_MOD ? a % b : a / b + (a % b != 0 && (a < 0) == (b < 0));
        break;
    case OCH_KL_R_MIN:
        *out = a < b ? a : b;
        break;
    case OCH_KL_R_MAX:
        *out = a > b ? a : b;
        break;
    case OCH_KL_R_EQ:
        *out = a == b;
        break;
    case OCH_KL_R_NE:
        *out = a != b;
        break;
    case OCH_KL_R_LT:
        *out = a < b;
        break;
    case OCH_KL_R_LE:
        *out = a <= b;
        break;
    case OCH_KL_R_AND:
        *out = a && b;
        break;
    case OCH_KL_R_OR:
        *out = a || b;
        break;
    default:
        return och_kl_error(s->diag, pos, "no such rule");
    }
    return !over || och_kl_error(s->diag, pos, "the number does not fit 64 bits");
}

/* The program for a op b; what is constant was not put in yet. */
static bool two(och_kl_spec *s, och_kl_pos pos, och_kl_rule *r, och_kl_step_op op, part a, part b, part *out) {
    if (a.is_const && b.is_const) {
        out->is_const = true;
        return fold(s, pos, op, a.value, b.value, &out->value);
    }
    if (a.is_const && !insert_step(s, pos, r, b.at, OCH_KL_R_CONST, a.value)) return false;
    if (b.is_const && !add_step(s, pos, r, OCH_KL_R_CONST, b.value)) return false;
    *out = (part){false, 0, a.is_const ? b.at : a.at};
    return add_step(s, pos, r, op, 0);
}

static bool gen(och_kl_spec *s, const och_kl_expr *e, och_kl_rule *r, part *out);

static bool gen_two(och_kl_spec *s, const och_kl_expr *a, const och_kl_expr *b, och_kl_pos pos, och_kl_rule *r,
                    och_kl_step_op op, part *out) {
    part x, y;
    return gen(s, a, r, &x) && gen(s, b, r, &y) && two(s, pos, r, op, x, y, out);
}

static bool gen_call(och_kl_spec *s, const och_kl_expr *e, och_kl_rule *r, part *out, bool *out_is) {
    static const struct {
        const char *name;
        och_kl_step_op op;
    } calls[] = {
        {"ceil_div", OCH_KL_R_CEIL_DIV}, {"min", OCH_KL_R_MIN}, {"max", OCH_KL_R_MAX}, {"round_up", OCH_KL_R_MUL}};
    *out_is = false;
    if (e->a->kind != OCH_KL_E_NAME) return true;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (strcmp(calls[i].name, e->a->u.name)) continue;
        *out_is = true;
        if (och_kl_count_args(e->args) != 2)
            return och_kl_error(s->diag, e->pos, "%s takes 2 arguments", calls[i].name);
        const och_kl_expr *a = e->args, *b = a->next;
        if (i < 3) return gen_two(s, a, b, e->pos, r, calls[i].op, out);
        part q, d;
        return gen_two(s, a, b, e->pos, r, OCH_KL_R_CEIL_DIV, &q) && gen(s, b, r, &d) &&
               two(s, e->pos, r, OCH_KL_R_MUL, q, d, out);
    }
    return true;
}

static bool gen(och_kl_spec *s, const och_kl_expr *e, och_kl_rule *r, part *out) {
    char buf[64];
    if (!och_kl_count(s, e->pos)) return false;
    *out = (part){false, 0, r->n_steps};
    if (e->kind == OCH_KL_E_NAME) {
        och_kl_binding_node *b = och_kl_lookup(s, e->u.name);
        if (b && b->val.size > 0) return add_step(s, e->pos, r, OCH_KL_R_SIZE, b->val.size - 1);
        if (b && b->val.size < 0) {
            och_kl_base t = b->val.ir->type.base;
            if (!och_kl_base_is_int(t) && t != OCH_KL_BOOL)
                return och_kl_error(s->diag, e->pos, "%s is %s: the host computes with integers here", e->u.name,
                                    och_kl_base_names[t]);
            return add_step(s, e->pos, r, OCH_KL_R_SCALAR, -b->val.size - 1);
        }
    }
    if (e->kind == OCH_KL_E_UNARY && e->u.op == '!') {
        part a;
        if (!gen(s, e->a, r, &a)) return false;
        *out = a;
        out->value = !a.value;
        return a.is_const || add_step(s, e->pos, r, OCH_KL_R_NOT, 0);
    }
    if (e->kind == OCH_KL_E_UNARY && e->u.op == '-') {
        part a, zero = {true, 0, 0};
        return gen(s, e->a, r, &a) && two(s, e->pos, r, OCH_KL_R_SUB, zero, a, out);
    }
    if (e->kind == OCH_KL_E_BINARY) {
        static const struct {
            int op;
            och_kl_step_op step;
            bool swapped;
        } ops[] = {
            {'+', OCH_KL_R_ADD, false},         {'-', OCH_KL_R_SUB, false},        {'*', OCH_KL_R_MUL, false},
            {'/', OCH_KL_R_DIV, false},         {'%', OCH_KL_R_MOD, false},        {OCH_KL_OP_EQ, OCH_KL_R_EQ, false},
            {OCH_KL_OP_NE, OCH_KL_R_NE, false}, {'<', OCH_KL_R_LT, false},         {OCH_KL_OP_LE, OCH_KL_R_LE, false},
            {'>', OCH_KL_R_LE, true},           {OCH_KL_OP_GE, OCH_KL_R_LT, true}, {OCH_KL_OP_AND, OCH_KL_R_AND, false},
            {OCH_KL_OP_OR, OCH_KL_R_OR, false}};
        for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
            if (ops[i].op != e->u.op) continue;
            och_kl_val ta, tb; /* types and formats compare as constants */
            if (e->a->kind == OCH_KL_E_NAME && e->b->kind == OCH_KL_E_NAME &&
                (e->u.op == OCH_KL_OP_EQ || e->u.op == OCH_KL_OP_NE) && och_kl_lookup(s, e->a->u.name) &&
                (och_kl_lookup(s, e->a->u.name)->val.kind == OCH_KL_V_TYPE ||
                 och_kl_lookup(s, e->a->u.name)->val.kind == OCH_KL_V_FORMAT)) {
                int64_t k;
                och_kl_val c;
                if (!och_kl_eval(s, e->a, &ta) || !och_kl_eval(s, e->b, &tb) ||
                    !och_kl_binary_val(s, e->pos, e->u.op, ta, tb, &c))
                    return false;
                if (!och_kl_const_int(&c, &k)) return och_kl_error(s->diag, e->pos, "this is no constant");
                *out = (part){true, k, 0};
                return true;
            }
            /* a > b is !(a <= b): the operands stay in order */
            if (!gen_two(s, e->a, e->b, e->pos, r, ops[i].step, out)) return false;
            if (!ops[i].swapped) return true;
            out->value = !out->value;
            return out->is_const || add_step(s, e->pos, r, OCH_KL_R_NOT, 0);
        }
    }
    if (e->kind == OCH_KL_E_SELECT) {
        part c;
        int at = r->n_steps;
        if (!gen(s, e->a, r, &c)) return false;
        if (!c.is_const)
            return och_kl_error(s->diag, e->pos, "the condition of ?: must be known when specialised, here");
        r->n_steps = at;
        return gen(s, c.value ? e->b : e->c, r, out);
    }
    if (e->kind == OCH_KL_E_CALL) {
        bool is;
        if (!gen_call(s, e, r, out, &is)) return false;
        if (is) return true;
    }
    och_kl_val v;
    if (!och_kl_eval(s, e, &v)) return false;
    out->is_const = och_kl_const_int(&v, &out->value);
    return out->is_const ||
           och_kl_error(s->diag, e->pos, "expected a size, an integer argument or a constant, found %s",
                        och_kl_val_text(&v, buf));
}

bool och_kl_rule_of(och_kl_spec *s, const och_kl_expr *e, och_kl_rule *out, bool *out_const, int64_t *out_value) {
    part p = {0};
    memset(out, 0, sizeof *out);
    och_kl_text_of(e, out->text, sizeof out->text);
    if (!gen(s, e, out, &p)) return false;
    *out_const = p.is_const;
    *out_value = p.value;
    return !p.is_const || add_step(s, e->pos, out, OCH_KL_R_CONST, p.value);
}

/* ---- what a requirement says ---- */

static void fact(och_kl_spec *s, const och_kl_expr *size, const och_kl_expr *multiple) {
    och_kl_rule scratch = {0};
    part p = {0};
    och_kl_binding_node *b = size->kind == OCH_KL_E_NAME ? och_kl_lookup(s, size->u.name) : NULL;
    if (!b || b->val.size <= 0) return;
    int errors = s->diag->n_errors;
    if (!gen(s, multiple, &scratch, &p) || s->diag->n_errors != errors || !p.is_const || p.value < 1) return;
    uint64_t *m = &s->size_multiples[b->val.size - 1], k = (uint64_t)p.value;
    k /= och_kl_gcd(*m, k);
    if (*m < (1ull << 31) && k < (1ull << 31)) *m *= k;
}

static void facts(och_kl_spec *s, const och_kl_expr *e) {
    if (e->kind != OCH_KL_E_BINARY) return;
    if (e->u.op == OCH_KL_OP_AND) {
        facts(s, e->a);
        facts(s, e->b);
        return;
    }
    if (e->u.op != OCH_KL_OP_EQ) return;
    const och_kl_expr *a = e->a, *b = e->b;
    for (int i = 0; i < 2; i++) {
        if (a->kind == OCH_KL_E_BINARY && a->u.op == '%' && b->kind == OCH_KL_E_INT && b->u.integer == 0)
            fact(s, a->a, a->b);
        else
            fact(s, a, b);
        const och_kl_expr *t = a;
        a = b;
        b = t;
    }
}

bool och_kl_require(och_kl_spec *s, const och_kl_expr *e) {
    och_kl_rule r;
    bool is_const;
    int64_t value;
    if (!och_kl_rule_of(s, e, &r, &is_const, &value)) return false;
    if (is_const) return value || och_kl_error(s->diag, e->pos, "these parameters do not meet: require %s", r.text);
    if (s->sig->n_rules == OCH_KL_MAX_RULES)
        return och_kl_error(s->diag, e->pos, "more than %d requirements", OCH_KL_MAX_RULES);
    s->sig->rules[s->sig->n_rules++] = r;
    facts(s, e);
    return true;
}
