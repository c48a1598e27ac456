/* Expressions and types. */
#include "kl/parse_priv.h"

#include <string.h>

/* From the weakest to the strongest. */
static const struct {
    int op, level;
} levels[] = {{OCH_KL_OP_OR, 1}, {OCH_KL_OP_AND, 2}, {'|', 3}, {'^', 4}, {'&', 5}, {OCH_KL_OP_EQ, 6}, {OCH_KL_OP_NE, 6},
              {'<', 7}, {'>', 7}, {OCH_KL_OP_LE, 7}, {OCH_KL_OP_GE, 7}, {OCH_KL_OP_SHL, 8}, {OCH_KL_OP_SHR, 8},
              {'+', 9}, {'-', 9}, {'*', 10}, {'/', 10}, {'%', 10}};
/* Inside <...> a '>' ends the list: only what binds stronger may stand there without parentheses. */
#define LEVEL_IN_ANGLES 9

static int level_of(int op) {
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++)
        if (levels[i].op == op) return levels[i].level;
    return 0;
}

static och_kl_expr *make(och_kl_parser *p, och_kl_expr_kind kind, och_kl_pos pos) {
    och_kl_expr *e = och_kl_new(p, sizeof *e);
    if (e) e->kind = kind, e->pos = pos;
    return e;
}

/* Recursion is limited by depth, but a + b + c ... grows a tree without any. */
static och_kl_expr *measured(och_kl_parser *p, och_kl_expr *e) {
    uint32_t h = 0;
    if (!e || p->panic) return NULL;
    const och_kl_expr *below[] = {e->a, e->b, e->c};
    for (int i = 0; i < 3; i++)
        if (below[i] && below[i]->height > h) h = below[i]->height;
    for (const och_kl_expr *i = e->args; i; i = i->next)
        if (i->height > h) h = i->height;
    for (const och_kl_stmt *i = e->body; i; i = i->next)
        if (i->height > h) h = i->height;
    e->height = h + 1;
    if (e->height + p->depth <= OCH_KL_MAX_HEIGHT) return e;
    och_kl_fail(p, e->pos, "this expression is nested too deeply: at most %d levels", OCH_KL_MAX_HEIGHT);
    return NULL;
}

/* Where an expression begins. */
static och_kl_pos start_of(const och_kl_expr *e) {
    while (e->kind == OCH_KL_E_FIELD) e = e->a;
    return e->pos;
}

/* (i, j, v) => */
static bool at_lambda(const och_kl_parser *p) {
    const och_kl_token *t = p->t;
    if (t->kind != '(') return false;
    do {
        if ((++t)->kind != OCH_KL_T_NAME) return false;
        t++;
    } while (t->kind == ',');
    return t->kind == ')' && t[1].kind == OCH_KL_T_LAMBDA;
}

/* NAME<u32, 4>( as in bits<u32>(e): a comparison of a comparison with something in parentheses would mean nothing. */
static bool at_angles(const och_kl_parser *p) {
    const och_kl_token *t = p->t;
    if (t->kind != '<') return false;
    do {
        t++;
        if (t->kind != OCH_KL_T_NAME && t->kind != OCH_KL_T_INT) return false;
        t++;
        while (t->kind == '.' && t[1].kind == OCH_KL_T_NAME) t += 2;
    } while (t->kind == ',');
    return t->kind == '>' && t[1].kind == '(';
}

/* NAME {, NAME} */
static och_kl_name *names(och_kl_parser *p, const char *what) {
    och_kl_name *first = NULL, **tail = &first;
    do {
        och_kl_name *n = och_kl_new(p, sizeof *n);
        if (!n) return NULL;
        n->name = och_kl_expect_name(p, what, &n->pos);
        *tail = n, tail = &n->next;
    } while (och_kl_accept(p, ','));
    return p->panic ? NULL : first;
}

static och_kl_expr *parse_binary(och_kl_parser *p, int level);

static och_kl_expr *lambda(och_kl_parser *p) {
    och_kl_expr *e = make(p, OCH_KL_E_LAMBDA, och_kl_here(p));
    if (!e) return NULL;
    p->t++;
    e->params = names(p, "a parameter's name");
    och_kl_expect(p, ')', "");
    och_kl_expect(p, OCH_KL_T_LAMBDA, "");
    if (och_kl_at(p, '{')) {
        och_kl_parse_body(p, &e->body, "after '=>'");
        return measured(p, e);
    }
    e->a = och_kl_parse_expr(p);
    return measured(p, e);
}

/* Arguments up to `end`, which is consumed; NAME: e among them where `named`. */
static och_kl_expr *arguments(och_kl_parser *p, int end, bool named) {
    och_kl_expr *first = NULL, **tail = &first;
    if (och_kl_accept(p, end)) return NULL;
    do {
        const char *name = NULL;
        och_kl_pos pos;
        if (named && och_kl_at(p, OCH_KL_T_NAME) && p->t[1].kind == ':') {
            name = och_kl_expect_name(p, "an argument's name", &pos);
            och_kl_expect(p, ':', "");
        }
        och_kl_expr *e = och_kl_parse_expr(p);
        if (!e) return NULL;
        e->arg_name = name;
        *tail = e, tail = &e->next;
    } while (och_kl_accept(p, ','));
    och_kl_expect(p, end, end == ')' ? "after the arguments" : "after the index");
    return p->panic ? NULL : first;
}

/* <...>, from the '<' on. */
static och_kl_type_ast *angles(och_kl_parser *p) {
    och_kl_type_ast *first = NULL, **tail = &first;
    och_kl_expect(p, '<', "");
    do {
        och_kl_type_ast *t = och_kl_new(p, sizeof *t);
        if (!t) return NULL;
        t->pos = och_kl_here(p);
        och_kl_expr *e = parse_binary(p, LEVEL_IN_ANGLES);
        if (!e) return NULL;
        if (e->kind == OCH_KL_E_NAME) t->name = e->u.name;
        else t->value = e;
        *tail = t, tail = &t->next;
    } while (och_kl_accept(p, ','));
    och_kl_expect(p, '>', "");
    return p->panic ? NULL : first;
}

static och_kl_expr *number(och_kl_parser *p) {
    const och_kl_token *t = p->t;
    bool whole = t->kind == OCH_KL_T_INT;
    och_kl_expr *e = make(p, whole ? OCH_KL_E_INT : OCH_KL_E_FLOAT, och_kl_here(p));
    if (!e) return NULL;
    const char *text = p->file->text + t->at;
    if (whole ? !och_kl_lex_int(text, t->length, &e->u.integer) : !och_kl_lex_float(text, t->length, &e->u.real)) {
        och_kl_fail(p, e->pos, "expected a number%s, found '%.*s'", whole ? " of at most 64 bits" : "",
                    (int)(t->length < 40 ? t->length : 40), text);
        return NULL;
    }
    p->t++;
    return e;
}

static och_kl_expr *primary(och_kl_parser *p) {
    och_kl_expr *e;
    if (p->panic) return NULL;
    switch (p->t->kind) {
    case OCH_KL_T_INT:
    case OCH_KL_T_FLOAT: return measured(p, number(p));
    case OCH_KL_T_STRING:
        if (!(e = make(p, OCH_KL_E_STRING, och_kl_here(p)))) return NULL;
        e->u.name = och_kl_expect_string(p, "a text", &e->pos);
        return measured(p, e);
    case '(':
        if (at_lambda(p)) return lambda(p);
        p->t++;
        e = och_kl_parse_expr(p);
        och_kl_expect(p, ')', "");
        return p->panic ? NULL : e;
    case OCH_KL_T_NAME: break;
    default: och_kl_expected(p, "an expression"); return NULL;
    }
    if (och_kl_word(p, p->t, "true") || och_kl_word(p, p->t, "false")) {
        if (!(e = make(p, OCH_KL_E_BOOL, och_kl_here(p)))) return NULL;
        e->u.integer = och_kl_word(p, p->t, "true");
        p->t++;
        return measured(p, e);
    }
    if (!(e = make(p, OCH_KL_E_NAME, och_kl_here(p)))) return NULL;
    e->u.name = och_kl_expect_name(p, "an expression", &e->pos);
    return measured(p, e);
}

static och_kl_expr *call(och_kl_parser *p, och_kl_expr *callee) {
    och_kl_expr *e = make(p, OCH_KL_E_CALL, och_kl_pos_span(start_of(callee), callee->pos));
    if (!e) return NULL;
    e->a = callee;
    if (och_kl_at(p, '<')) e->targs = angles(p);
    och_kl_expect(p, '(', "");
    if (!p->panic) e->args = arguments(p, ')', true);
    return measured(p, e);
}

static och_kl_expr *index_of(och_kl_parser *p, och_kl_expr *a) {
    och_kl_expr *e = make(p, OCH_KL_E_INDEX, start_of(a));
    int n = 0;
    if (!e) return NULL;
    och_kl_expect(p, '[', "");
    if (och_kl_at(p, ']')) och_kl_expected(p, "an index");
    e->a = a;
    if (!p->panic) e->args = arguments(p, ']', false);
    if (p->panic) return NULL;
    e->pos = och_kl_pos_span(e->pos, och_kl_token_pos(p->file, p->t - 1));
    for (const och_kl_expr *i = e->args; i; i = i->next) n++;
    if (n > 3) och_kl_fail(p, e->pos, "expected at most three indices, found %d", n);
    return measured(p, e);
}

static och_kl_expr *field(och_kl_parser *p, och_kl_expr *a) {
    och_kl_expr *e = make(p, OCH_KL_E_FIELD, och_kl_here(p));
    if (!e) return NULL;
    p->t++;
    e->a = a;
    e->pos = och_kl_here(p);
    if (!och_kl_at(p, OCH_KL_T_NAME)) { /* behind a dot no word is reserved */
        och_kl_expected(p, "a name after '.'");
        return NULL;
    }
    e->u.name = och_kl_intern(p, p->file->text + p->t->at, p->t->length);
    p->t++;
    return measured(p, e);
}

och_kl_expr *och_kl_parse_postfix(och_kl_parser *p) {
    och_kl_expr *e = primary(p);
    while (e && !p->panic) {
        if (och_kl_at(p, '.')) e = field(p, e);
        else if (och_kl_at(p, '[')) e = index_of(p, e);
        else if (och_kl_at(p, '(') || (e->kind == OCH_KL_E_NAME && at_angles(p))) {
            if (e->kind != OCH_KL_E_NAME && e->kind != OCH_KL_E_FIELD) {
                och_kl_fail(p, och_kl_here(p), "expected a function's name before '('");
                return NULL;
            }
            e = call(p, e);
        } else
            break;
    }
    return p->panic ? NULL : e;
}

static och_kl_expr *unary(och_kl_parser *p) {
    if (!och_kl_at(p, '-') && !och_kl_at(p, '!') && !och_kl_at(p, '~')) return och_kl_parse_postfix(p);
    och_kl_expr *e = make(p, OCH_KL_E_UNARY, och_kl_here(p));
    if (!e || !och_kl_enter(p)) return NULL;
    e->u.op = p->t->kind;
    p->t++;
    e->a = unary(p);
    och_kl_leave(p);
    return measured(p, e);
}

static och_kl_expr *parse_binary(och_kl_parser *p, int level) {
    if (!och_kl_enter(p)) return NULL;
    och_kl_expr *a = unary(p);
    while (a && !p->panic) {
        int op = p->t->kind, l = level_of(op);
        if (!l || l < level) break;
        och_kl_expr *e = make(p, OCH_KL_E_BINARY, och_kl_here(p));
        if (!e) break;
        p->t++;
        e->u.op = op;
        e->a = a;
        e->b = parse_binary(p, l + 1);
        a = measured(p, e);
    }
    och_kl_leave(p);
    return p->panic ? NULL : a;
}

och_kl_expr *och_kl_parse_expr(och_kl_parser *p) {
    och_kl_expr *cond = parse_binary(p, 1);
    if (!cond || !och_kl_at(p, '?')) return cond;
    och_kl_expr *e = make(p, OCH_KL_E_SELECT, och_kl_here(p));
    if (!e || !och_kl_enter(p)) return NULL;
    p->t++;
    e->a = cond;
    e->b = och_kl_parse_expr(p);
    och_kl_expect(p, ':', "of '?'");
    e->c = och_kl_parse_expr(p);
    och_kl_leave(p);
    return measured(p, e);
}

och_kl_type_ast *och_kl_parse_type(och_kl_parser *p) {
    och_kl_type_ast *t = och_kl_new(p, sizeof *t);
    och_kl_expr **tail;
    if (!t) return NULL;
    t->name = och_kl_expect_name(p, "a type", &t->pos);
    if (och_kl_at(p, '<')) t->args = angles(p);
    if (p->panic) return NULL;
    tail = &t->dims;
    t->matrix = !strcmp(t->name, "buf") || !strcmp(t->name, "qbuf") || !strcmp(t->name, "actbuf");
    for (bool first = true; och_kl_accept(p, '['); first = false) {
        if (!first && t->matrix) {
            p->t--;
            och_kl_fail(p, och_kl_here(p), "expected one pair of brackets: [n, d]");
            return NULL;
        }
        if (och_kl_at(p, ']')) och_kl_expected(p, "an extent");
        *tail = p->panic ? NULL : arguments(p, ']', false);
        if (p->panic) return NULL;
        int n = 0;
        for (; *tail; tail = &(*tail)->next) n++;
        if (n > (t->matrix ? 3 : 1)) {
            if (t->matrix) och_kl_fail(p, t->pos, "expected at most three dimensions, found %d", n);
            else och_kl_fail(p, t->pos, "expected one extent in each pair of brackets, as in f32[2][4]; found %d in one", n);
            return NULL;
        }
    }
    return t;
}
