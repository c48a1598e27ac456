/* Numbers that count a wave's lanes, which a kernel may not write: waves have 32 lanes here and 64 there.
 *
 * The language's checker refuses those that it meets beside wave.lane. This looks further, at what stands for a number of lanes
 * by what it is put together with: thread.id % 32, group.size / 64, wave.id * 32, thread.id >> 5, waves(256 / 64), also by way
 * of a `let`, a const or a parameter's default. A number beside anything else is a number: blocks have 32 elements, too. */
#include "main/kernels.h"

#include <string.h>

#define MAX_LETS 256

typedef struct look {
    const och_kl_unit *unit;
    const och_kl_decl *decl;
    const och_kl_stmt *lets[MAX_LETS]; /* of the declaration, so far */
    int n_lets;
    och_strbuf *out;
    size_t found;
} look;

static bool is_name(const och_kl_expr *e, const char *name) { return e && e->kind == OCH_KL_E_NAME && !strcmp(e->u.name, name); }

static const och_kl_expr *let_of(const look *l, const och_kl_expr *e) {
    for (int i = l->n_lets; e->kind == OCH_KL_E_NAME && i > 0; i--)
        if (!strcmp(l->lets[i - 1]->name, e->u.name)) return l->lets[i - 1]->expr;
    return NULL;
}

/* Numbers threads or waves of the workgroup. */
static bool numbers(const look *l, const och_kl_expr *e, int depth) {
    static const char *const fields[][2] = {{"thread", "id"}, {"wave", "id"}, {"wave", "lane"}, {"group", "size"}, {"group", "waves_count"}};
    if (!e || depth > 8) return false;
    if (e->kind == OCH_KL_E_FIELD)
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            if (is_name(e->a, fields[i][0]) && !strcmp(e->u.name, fields[i][1])) return true;
    if (e->kind == OCH_KL_E_NAME) return numbers(l, let_of(l, e), depth + 1);
    if (e->kind == OCH_KL_E_BINARY && (e->u.op == '+' || e->u.op == '-')) return numbers(l, e->a, depth + 1) || numbers(l, e->b, depth + 1);
    return false;
}

/* The number that an expression is, through names; false: it is none that can be told. */
static bool number(const look *l, const och_kl_expr *e, uint64_t *out, int depth) {
    if (!e || depth > 8) return false;
    if (e->kind == OCH_KL_E_INT) {
        *out = e->u.integer;
        return true;
    }
    if (e->kind == OCH_KL_E_CALL && e->args && !e->args->next && e->a->kind == OCH_KL_E_NAME) return number(l, e->args, out, depth + 1); /* u32(32) */
    if (e->kind != OCH_KL_E_NAME) return false;
    if (let_of(l, e)) return number(l, let_of(l, e), out, depth + 1);
    for (const och_kl_param_ast *p = l->decl->params; p; p = p->next)
        if (!strcmp(p->name, e->u.name)) return number(l, p->default_value, out, depth + 1);
    for (const och_kl_decl *d = l->unit->decls; d; d = d->next)
        if (d->kind == OCH_KL_D_CONST && !strcmp(d->name, e->u.name)) return number(l, d->expr, out, depth + 1);
    return false;
}

static void report(look *l, const och_kl_expr *at, uint64_t n) {
    const och_kl_pos *p = &at->pos;
    och_strbuf_printf(l->out, "%s:%u:%u: error: %llu counts lanes: waves have another number of them on other targets\n", p->file->name, (unsigned)p->line,
                      (unsigned)p->column, (unsigned long long)n);
    l->found++;
}

/* `n` beside a number of threads or waves, on this side of the operator. */
static bool counts(int op, uint64_t n, bool right) {
    switch (op) {
    case '/':
    case '%': return right && (n == 32 || n == 64);
    case '*': return n == 32 || n == 64;
    case '&': return n == 31 || n == 63 || n == ~31u || n == ~63u || n == 32 || n == 64;
    case OCH_KL_OP_SHR:
    case OCH_KL_OP_SHL: return right && (n == 5 || n == 6);
    case '<':
    case '>':
    case OCH_KL_OP_LE:
    case OCH_KL_OP_GE:
    case OCH_KL_OP_EQ:
    case OCH_KL_OP_NE: return n == 31 || n == 32 || n == 63 || n == 64;
    default: return false;
    }
}

static void binary(look *l, const och_kl_expr *e) {
    uint64_t n;
    if (numbers(l, e->a, 0) && number(l, e->b, &n, 0) && counts(e->u.op, n, true)) report(l, e->b, n);
    else if (numbers(l, e->b, 0) && number(l, e->a, &n, 0) && counts(e->u.op, n, false)) report(l, e->a, n);
}

static void statements(look *l, const och_kl_stmt *s);

static void expressions(look *l, const och_kl_expr *e) { /* a list */
    for (; e; e = e->next) {
        if (e->kind == OCH_KL_E_BINARY) binary(l, e);
        expressions(l, e->a);
        expressions(l, e->b);
        expressions(l, e->c);
        expressions(l, e->args);
        statements(l, e->body);
    }
}

static void statements(look *l, const och_kl_stmt *s) {
    int before = l->n_lets;
    for (; s; s = s->next) {
        expressions(l, s->target);
        expressions(l, s->expr);
        expressions(l, s->depth);
        for (const och_kl_range *r = s->ranges; r; r = r->next) {
            expressions(l, r->a);
            expressions(l, r->b);
            expressions(l, r->step);
        }
        if (s->type) expressions(l, s->type->dims);
        statements(l, s->then);
        statements(l, s->body);
        statements(l, s->other);
        if (s->kind == OCH_KL_S_LET && s->expr && l->n_lets < MAX_LETS) l->lets[l->n_lets++] = s;
    }
    l->n_lets = before;
}

/* How many waves: threads by a number of lanes. */
static void waves(look *l, const och_kl_expr *e) { /* a list */
    for (; e; e = e->next) {
        bool divides = e->kind == OCH_KL_E_BINARY && (e->u.op == '/' || e->u.op == OCH_KL_OP_SHR);
        const och_kl_expr *by = divides ? e->b : e->kind == OCH_KL_E_CALL && is_name(e->a, "ceil_div") && e->args ? e->args->next : NULL;
        uint64_t n;
        if (by && number(l, by, &n, 0) && counts(divides ? e->u.op : '/', n, true)) report(l, by, n);
        waves(l, e->a);
        waves(l, e->b);
        waves(l, e->args);
    }
}

static void declarations(look *l, const och_kl_decl *d, const och_kl_file *file) {
    for (; d; d = d->next) {
        if (d->pos.file != file) continue;
        l->decl = d, l->n_lets = 0;
        for (const och_kl_param_ast *p = d->params; p; p = p->next) expressions(l, p->default_value);
        expressions(l, d->expr);
        expressions(l, d->requires_);
        expressions(l, d->grid);
        waves(l, d->waves);
        statements(l, d->body);
        declarations(l, d->fns, file);
    }
}

size_t och_kernel_lane_counts(const och_kl_unit *unit, och_strbuf *out) {
    look l = {.unit = unit, .out = out};
    declarations(&l, unit->decls, unit->files);
    return l.found;
}
