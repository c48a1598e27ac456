/* What .lanes(n) and .waves(n) share is counted in 32 bits: n comes from sizes and scalars, which the host has, so that it can
 * refuse a launch whose n is too large. Where n is made of them by the host's arithmetic, that is the rule; where it is not (a
 * variable, a loop's number), each of them is bounded. What is loaded from memory, nobody bounds. */
#include "kl/spec.h"

#include <stdio.h>
#include <string.h>

typedef struct flow {
    och_kl_spec *s;
    uint64_t *from;      /* by a variable's id: the sizes (bit i) and scalars (bit OCH_KL_MAX_SIZES + i) that it is made of */
    const och_kl_ir **is; /* by a variable's id: what a fixed one is; NULL: not known */
    bool again;
} flow;

/* The number of the size that an argument of the code is, or of the scalar; false: it is neither. */
static bool argument_of(const flow *f, const och_kl_var *v, bool *out_size, int *out_i) {
    const och_kl_signature *sig = &f->s->code->signature;
    *out_size = true;
    for (*out_i = 0; *out_i < sig->n_sizes; ++*out_i)
        if (sig->size_offset[*out_i] == v->offset) return true;
    *out_size = false;
    for (*out_i = 0; *out_i < sig->n_args; ++*out_i)
        if (sig->args[*out_i].kind == OCH_KL_A_SCALAR && sig->args[*out_i].offset == v->offset)
            return och_kl_base_is_int(v->type.base);
    return false;
}

/* a < b ? a : b and the like: '<' for the lesser of both, '>' for the greater one; 0: it is none. */
static int choice_of(const och_kl_ir *x) {
    if (x->kind == OCH_KL_X_CALL) return x->intrinsic == OCH_KL_F_MIN ? '<' : x->intrinsic == OCH_KL_F_MAX ? '>' : 0;
    const och_kl_ir *c = x->kind == OCH_KL_X_SELECT ? x->args[0] : NULL;
    if (!c || c->kind != OCH_KL_X_BINARY || (c->op != '<' && c->op != '>')) return 0;
    return c->args[0] == x->args[1] && c->args[1] == x->args[2] ? c->op : 0;
}

/* The sizes and scalars that can make a value large. */
static uint64_t sources(const flow *f, const och_kl_ir *x) {
    uint64_t all = 0;
    int first = 0, i;
    bool is_size;
    int64_t v;
    switch (x->kind) {
    case OCH_KL_X_VAR:
        if (!x->var->argument) return f->from[x->var->id];
        return argument_of(f, x->var, &is_size, &i) ? 1ull << (is_size ? i : OCH_KL_MAX_SIZES + i) : 0;
    case OCH_KL_X_LOAD:
        return 0;
    case OCH_KL_X_BINARY:
        if ((x->op == '%' || x->op == '&') && och_kl_is_int(x->args[1], &v) && v >= 0) return 0;
        if (x->type.base == OCH_KL_BOOL) return 0;
        break;
    case OCH_KL_X_SELECT:
        first = 1;
        break;
    default:
        break;
    }
    bool least = choice_of(x) == '<';
    for (i = first; i < x->n_args; i++) {
        uint64_t one = sources(f, x->args[i]);
        if (least && !one) return 0;
        all |= one;
    }
    return all;
}

static void note(flow *f, const och_kl_var *v, const och_kl_ir *x) {
    uint64_t more = x ? sources(f, x) & ~f->from[v->id] : 0;
    f->from[v->id] |= more;
    f->again |= more != 0;
}

static void follow(flow *f, const och_kl_list *l) {
    for (const och_kl_ins *i = l->first; i; i = i->next) {
        if (i->kind == OCH_KL_I_DECLARE || i->kind == OCH_KL_I_ASSIGN || i->kind == OCH_KL_I_FOR) note(f, i->var, i->value);
        if (i->kind == OCH_KL_I_FOR) note(f, i->var, i->limit);
        if (i->kind == OCH_KL_I_DECLARE && i->var->fixed && !i->var->n_dims) f->is[i->var->id] = i->value;
        follow(f, &i->body);
        follow(f, &i->other);
    }
}

/* ---- a value as a rule of the host ---- */

static bool step(och_kl_rule *r, och_kl_step_op op, int64_t value) {
    if (r->n_steps == OCH_KL_MAX_STEPS) return false;
    r->steps[r->n_steps].op = op;
    r->steps[r->n_steps++].value = value;
    return true;
}

static bool text(och_kl_rule *r, const char *s) {
    if (strlen(r->text) + strlen(s) >= sizeof r->text) return false;
    strcat(r->text, s);
    return true;
}

static bool rule_of(const flow *f, const och_kl_ir *x, bool inner, och_kl_rule *r) {
    char number[24];
    int64_t v;
    if (x->type.lanes != 1 || !och_kl_base_is_int(x->type.base)) return false;
    if (och_kl_is_int(x, &v)) {
        snprintf(number, sizeof number, "%lld", (long long)v);
        return step(r, OCH_KL_R_CONST, v) && text(r, number);
    }
    if (x->kind == OCH_KL_X_CONVERT) return rule_of(f, x->args[0], inner, r);
    if (x->kind == OCH_KL_X_VAR) {
        bool is_size;
        int i;
        if (!x->var->argument) return f->is[x->var->id] && rule_of(f, f->is[x->var->id], inner, r);
        return argument_of(f, x->var, &is_size, &i) && step(r, is_size ? OCH_KL_R_SIZE : OCH_KL_R_SCALAR, i) &&
               text(r, is_size ? f->s->code->signature.sizes[i] : f->s->code->signature.args[i].name);
    }
    int choice = choice_of(x);
    if (choice) {
        int at = x->kind == OCH_KL_X_SELECT;
        return text(r, choice == '<' ? "min(" : "max(") && rule_of(f, x->args[at], false, r) && text(r, ", ") &&
               rule_of(f, x->args[at + 1], false, r) && text(r, ")") &&
               step(r, choice == '<' ? OCH_KL_R_MIN : OCH_KL_R_MAX, 0);
    }
    if (x->kind != OCH_KL_X_BINARY) return false;
    static const char ops[] = "+-*/%";
    static const och_kl_step_op steps[] = {OCH_KL_R_ADD, OCH_KL_R_SUB, OCH_KL_R_MUL, OCH_KL_R_DIV, OCH_KL_R_MOD};
    const char *op = x->op > 0 && x->op < 128 ? strchr(ops, x->op) : NULL;
    if (!op) return false;
    char around[4] = {' ', *op, ' ', 0};
    return (!inner || text(r, "(")) && rule_of(f, x->args[0], true, r) && text(r, around) &&
           rule_of(f, x->args[1], true, r) && (!inner || text(r, ")")) && step(r, steps[op - ops], 0);
}

/* ---- rules that say nothing new ---- */

/* What the rules so far allow a size at most. */
static int64_t most_of(const och_kl_signature *sig, och_kl_step_op op, int64_t i) {
    int64_t most = INT64_MAX;
    for (int r = 0; r < sig->n_rules; r++) {
        const och_kl_rule *x = &sig->rules[r];
        if (x->n_steps == 3 && x->steps[0].op == op && x->steps[0].value == i && x->steps[1].op == OCH_KL_R_CONST &&
            x->steps[2].op == OCH_KL_R_LE && x->steps[1].value < most)
            most = x->steps[1].value;
    }
    return most;
}

/* The largest value of a program over sizes, as far as it is seen; INT64_MAX: any. */
static int64_t most(const och_kl_signature *sig, const och_kl_rule *r) {
    int64_t lo[OCH_KL_MAX_STEPS], hi[OCH_KL_MAX_STEPS];
    int n = 0;
    for (int i = 0; i < r->n_steps; i++) {
        och_kl_step_op op = r->steps[i].op;
        int64_t v = r->steps[i].value;
        if (op <= OCH_KL_R_SCALAR) {
            lo[n] = op == OCH_KL_R_CONST ? v : op == OCH_KL_R_SIZE ? 0 : INT64_MIN;
            hi[n] = op == OCH_KL_R_CONST ? v : most_of(sig, op, v);
            n++;
            continue;
        }
        int64_t la = lo[n - 2], ha = hi[n - 2], lb = lo[n - 1], hb = hi[n - 1], l = INT64_MIN, h = INT64_MAX;
        n--;
        switch (op) {
        case OCH_KL_R_ADD:
            if (__builtin_add_overflow(ha, hb, &h)) h = INT64_MAX;
            if (__builtin_add_overflow(la, lb, &l)) l = INT64_MIN;
            break;
        case OCH_KL_R_SUB:
            if (__builtin_sub_overflow(ha, lb, &h)) h = INT64_MAX;
            break;
        case OCH_KL_R_MUL:
            if (la < 0 || lb < 0) break;
            l = 0;
            if (__builtin_mul_overflow(ha, hb, &h)) h = INT64_MAX;
            break;
        case OCH_KL_R_DIV:
            if (la < 0 || lb < 1) break;
            l = 0;
            h = ha / lb;
            break;
        case OCH_KL_R_MOD:
            if (la < 0 || lb < 1) break;
            l = 0;
            h = hb - 1;
            break;
        case OCH_KL_R_MIN:
            l = la < lb ? la : lb;
            h = ha < hb ? ha : hb;
            break;
        case OCH_KL_R_MAX:
            l = la > lb ? la : lb;
            h = ha > hb ? ha : hb;
            break;
        default:
            break;
        }
        lo[n - 1] = l;
        hi[n - 1] = h;
    }
    return hi[0];
}

static bool add(och_kl_spec *s, och_kl_pos pos, och_kl_rule *r) {
    och_kl_signature *sig = s->sig;
    char end[24];
    if (most(sig, r) <= OCH_KL_MOST_SHARED) return true;
    snprintf(end, sizeof end, " <= %d", OCH_KL_MOST_SHARED);
    if (!text(r, end) || !step(r, OCH_KL_R_CONST, OCH_KL_MOST_SHARED) || !step(r, OCH_KL_R_LE, 0)) return false;
    for (int i = 0; i < sig->n_rules; i++)
        if (!strcmp(sig->rules[i].text, r->text)) return true;
    if (sig->n_rules == OCH_KL_MAX_RULES)
        return och_kl_error(s->diag, pos, "more than %d requirements, those on what is shared included",
                            OCH_KL_MAX_RULES);
    sig->rules[sig->n_rules++] = *r;
    return true;
}

static bool bound(flow *f, const och_kl_ins *i) {
    och_kl_spec *s = f->s;
    och_kl_rule r = {0};
    int errors = s->diag->n_errors;
    uint64_t from = sources(f, i->limit);
    if (!from) return true;
    if (rule_of(f, i->limit, false, &r) && add(s, i->pos, &r)) return true;
    if (s->diag->n_errors != errors) return false;
    for (int k = 0; k < OCH_KL_MAX_SIZES + OCH_KL_MAX_ARGS; k++) {
        if (!(from >> k & 1)) continue;
        bool size = k < OCH_KL_MAX_SIZES;
        int at = size ? k : k - OCH_KL_MAX_SIZES;
        r = (och_kl_rule){0};
        step(&r, size ? OCH_KL_R_SIZE : OCH_KL_R_SCALAR, at);
        text(&r, size ? s->sig->sizes[at] : s->sig->args[at].name);
        if (!add(s, i->pos, &r)) return false;
    }
    return true;
}

static bool bound_all(flow *f, const och_kl_list *l) {
    for (const och_kl_ins *i = l->first; i; i = i->next)
        if ((i->kind == OCH_KL_I_FOR && i->share && !bound(f, i)) || !bound_all(f, &i->body) || !bound_all(f, &i->other))
            return false;
    return true;
}

bool och_kl_bound_shares(och_kl_spec *s) {
    flow f = {.s = s};
    f.from = och_kl_alloc(s, (size_t)s->code->n_vars + 1, sizeof *f.from);
    f.is = och_kl_alloc(s, (size_t)s->code->n_vars + 1, sizeof *f.is);
    if (!f.from || !f.is) return false;
    do {
        f.again = false;
        follow(&f, &s->code->body);
    } while (f.again);
    return bound_all(&f, &s->code->body);
}
