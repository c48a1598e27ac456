/* Statements. */
#include "kl/parse_priv.h"

#include <string.h>

static och_kl_stmt *statement(och_kl_parser *p);

static och_kl_stmt *make(och_kl_parser *p, och_kl_stmt_kind kind, och_kl_pos pos) {
    och_kl_stmt *s = och_kl_new(p, sizeof *s);
    if (s) s->kind = kind, s->pos = pos;
    return s;
}

static uint32_t higher(uint32_t h, const och_kl_expr *e) {
    return e && e->height > h ? e->height : h;
}

static och_kl_stmt *measured(och_kl_parser *p, och_kl_stmt *s) {
    uint32_t h = higher(higher(higher(0, s->target), s->expr), s->depth);
    for (const och_kl_range *r = s->ranges; r; r = r->next) h = higher(higher(higher(h, r->a), r->b), r->step);
    for (const och_kl_stmt *i = s->body; i; i = i->next)
        if (i->height > h) h = i->height;
    for (const och_kl_stmt *i = s->other; i; i = i->next)
        if (i->height > h) h = i->height;
    for (const och_kl_stmt *i = s->then; i; i = i->next)
        if (i->height > h) h = i->height;
    s->height = h + 1;
    if (!p->panic && s->height + p->depth > OCH_KL_MAX_HEIGHT)
        och_kl_fail(p, s->pos, "this is nested too deeply: at most %d levels", OCH_KL_MAX_HEIGHT);
    return p->panic ? NULL : s;
}

bool och_kl_parse_body(och_kl_parser *p, och_kl_stmt **out_body, const char *after) {
    och_kl_stmt **tail = out_body;
    *out_body = NULL;
    och_kl_pos open = och_kl_here(p);
    if (!och_kl_expect(p, '{', after) || !och_kl_enter(p)) return false;
    while (!och_kl_at(p, '}')) {
        const och_kl_token *begin = p->t;
        if (och_kl_at(p, OCH_KL_T_END) || (p->t->column == 1 && (och_kl_at_word(p, "kernel") || och_kl_at_word(p, "fn")))) {
            och_kl_fail(p, open, "this '{' has no '}'");
            break;
        }
        och_kl_stmt *s = statement(p);
        if (s) *tail = s, tail = &s->next;
        if (p->nomem || och_kl_diag_full(p->diag)) {
            p->panic = true;
            break;
        }
        if (p->panic) och_kl_recover(p, begin, true);
    }
    och_kl_leave(p);
    return och_kl_accept(p, '}');
}

static och_kl_stmt *let(och_kl_parser *p) {
    och_kl_stmt *s = make(p, OCH_KL_S_LET, och_kl_here(p));
    if (!s) return NULL;
    p->t++;
    s->name = och_kl_expect_name(p, "a name after 'let'", &s->pos);
    if (och_kl_at(p, ':')) och_kl_fail(p, och_kl_here(p), "a let has the type of its value: write let %s = T(e);", s->name);
    och_kl_expect(p, '=', "after the name: a let has a value");
    s->expr = och_kl_parse_expr(p);
    och_kl_expect_end(p, "the value");
    return measured(p, s);
}

static och_kl_stmt *var(och_kl_parser *p) {
    och_kl_stmt *s = make(p, OCH_KL_S_VAR, och_kl_here(p));
    if (!s) return NULL;
    p->t++;
    s->name = och_kl_expect_name(p, "a name after 'var'", &s->pos);
    if (och_kl_accept(p, ':')) s->type = och_kl_parse_type(p);
    if (!p->panic && !s->type && !och_kl_at(p, '=')) och_kl_expected(p, "': type' or '= value' after the name");
    if (och_kl_accept(p, '=')) s->expr = och_kl_parse_expr(p);
    och_kl_expect_end(p, "the variable");
    return measured(p, s);
}

static och_kl_stmt *lds(och_kl_parser *p) {
    och_kl_stmt *s = make(p, OCH_KL_S_LDS, och_kl_here(p));
    if (!s) return NULL;
    p->t++;
    s->name = och_kl_expect_name(p, "a name after 'lds'", &s->pos);
    och_kl_expect(p, ':', "after the name");
    s->type = och_kl_parse_type(p);
    if (och_kl_accept_word(p, "pad")) {
        och_kl_expect_word(p, "auto", "after 'pad'");
        s->pad_auto = true;
    } else if (och_kl_accept_word(p, "swizzle")) s->swizzle = true;
    if (och_kl_at(p, '=')) och_kl_fail(p, och_kl_here(p), "LDS has no first value: its lanes must store one");
    och_kl_expect_end(p, "the array");
    return measured(p, s);
}

static och_kl_stmt *if_(och_kl_parser *p, och_kl_pos pos, bool is_static) {
    och_kl_stmt *s = make(p, OCH_KL_S_IF, pos);
    if (!s || !och_kl_enter(p)) return NULL;
    p->t++;
    s->is_static = is_static;
    s->expr = och_kl_parse_expr(p);
    och_kl_parse_body(p, &s->body, "after the condition");
    if (och_kl_accept_word(p, "else")) {
        pos = och_kl_here(p);
        if (och_kl_at_word(p, "if")) s->other = if_(p, pos, false);
        else if (och_kl_at_word(p, "static") && och_kl_word(p, p->t + 1, "if")) {
            p->t++;
            s->other = if_(p, pos, true);
        } else
            och_kl_parse_body(p, &s->other, "or 'if' after 'else'");
    }
    och_kl_leave(p);
    return measured(p, s);
}

/* NAME in a..b [step s], or NAME in x.lanes(n). */
static void ranges(och_kl_parser *p, och_kl_stmt *s, bool several) {
    och_kl_name **names = &s->names;
    och_kl_range **tail = &s->ranges;
    do {
        och_kl_name *n = och_kl_new(p, sizeof *n);
        och_kl_range *r = och_kl_new(p, sizeof *r);
        if (!n || !r) return;
        n->name = och_kl_expect_name(p, "a loop variable's name", &n->pos);
        if (!och_kl_expect_word(p, "in", "after the loop variable")) return;
        r->a = och_kl_parse_expr(p);
        if (p->panic) return;
        if (och_kl_accept(p, OCH_KL_T_DOTS)) {
            r->b = och_kl_parse_expr(p);
            if (och_kl_accept_word(p, "step")) r->step = och_kl_parse_expr(p);
        } else if (r->a->kind != OCH_KL_E_CALL)
            och_kl_expected(p, "'..' (a..b, b not included) or a share as wave.lanes(n)");
        *names = n, names = &n->next;
        *tail = r, tail = &r->next;
        if (!several && och_kl_at(p, ',')) och_kl_fail(p, och_kl_here(p), "only a static for has several variables");
    } while (och_kl_accept(p, ','));
}

static och_kl_stmt *for_(och_kl_parser *p, och_kl_pos pos, bool is_static) {
    och_kl_stmt *s = make(p, OCH_KL_S_FOR, pos);
    if (!s) return NULL;
    p->t++;
    s->is_static = is_static;
    ranges(p, s, is_static);
    och_kl_parse_body(p, &s->body, "after the range");
    return measured(p, s);
}

static och_kl_stmt *while_(och_kl_parser *p) {
    och_kl_stmt *s = make(p, OCH_KL_S_WHILE, och_kl_here(p));
    if (!s) return NULL;
    p->t++;
    s->expr = och_kl_parse_expr(p);
    och_kl_parse_body(p, &s->body, "after the condition");
    return measured(p, s);
}

static och_kl_stmt *pipeline(och_kl_parser *p) {
    och_kl_stmt *s = make(p, OCH_KL_S_PIPELINE, och_kl_here(p));
    if (!s) return NULL;
    p->t++;
    ranges(p, s, false);
    if (!p->panic && !s->ranges->b) och_kl_fail(p, s->ranges->a->pos, "expected a..b: a pipeline has steps");
    och_kl_expect_word(p, "depth", "after the range");
    s->depth = och_kl_parse_expr(p);
    och_kl_expect(p, '{', "after the depth");
    och_kl_expect_word(p, "stage", "in a pipeline");
    och_kl_parse_body(p, &s->other, "after 'stage'");
    if (och_kl_accept_word(p, "then")) och_kl_parse_body(p, &s->then, "after 'then'");
    och_kl_expect_word(p, "do", "after the stage");
    och_kl_parse_body(p, &s->body, "after 'do'");
    och_kl_expect(p, '}', "after the body of 'do'");
    return measured(p, s);
}

static och_kl_stmt *copy(och_kl_parser *p) {
    och_kl_stmt *s = make(p, OCH_KL_S_COPY, och_kl_here(p));
    if (!s) return NULL;
    p->t++;
    s->target = och_kl_parse_postfix(p);
    /* Two tokens, so that a<-b stays a comparison. */
    if (!p->panic && !(och_kl_at(p, '<') && p->t[1].kind == '-' && p->t[1].at == p->t->at + 1))
        och_kl_expected(p, "'<-' after the tile");
    else if (!p->panic) p->t += 2;
    s->expr = och_kl_parse_expr(p);
    och_kl_expect_end(p, "the copy");
    return measured(p, s);
}

static och_kl_stmt *simple(och_kl_parser *p) {
    och_kl_stmt *s = make(p, OCH_KL_S_EXPR, och_kl_here(p));
    if (!s) return NULL;
    och_kl_expr *e = och_kl_parse_expr(p);
    if (!e) return NULL;
    if (!och_kl_at(p, '=') && !och_kl_at(p, OCH_KL_T_ASSIGN)) {
        if (e->kind != OCH_KL_E_CALL) och_kl_fail(p, e->pos, "a value alone does nothing: expected a call or an assignment");
        s->pos = e->pos, s->expr = e;
        och_kl_expect_end(p, "the call");
        return measured(p, s);
    }
    if (e->kind != OCH_KL_E_NAME && e->kind != OCH_KL_E_INDEX && e->kind != OCH_KL_E_FIELD)
        och_kl_fail(p, e->pos, "expected a variable or an element before '%.*s'", (int)p->t->length, p->file->text + p->t->at);
    s->kind = OCH_KL_S_ASSIGN, s->pos = och_kl_here(p), s->target = e;
    s->op = p->t->kind == '=' ? '=' : p->t->op;
    if (!p->panic) p->t++;
    s->expr = och_kl_parse_expr(p);
    if (och_kl_at(p, '=') || och_kl_at(p, OCH_KL_T_ASSIGN))
        och_kl_fail(p, och_kl_here(p), "an assignment has no value: write two");
    och_kl_expect_end(p, "the assignment");
    return measured(p, s);
}

static och_kl_stmt *jump(och_kl_parser *p, och_kl_stmt_kind kind) {
    och_kl_stmt *s = make(p, kind, och_kl_here(p));
    if (!s) return NULL;
    p->t++;
    if (kind == OCH_KL_S_RETURN && !och_kl_at(p, ';')) s->expr = och_kl_parse_expr(p);
    och_kl_expect_end(p, kind == OCH_KL_S_RETURN ? "'return'" : kind == OCH_KL_S_BREAK ? "'break'" : kind == OCH_KL_S_STAGE ? "'stage'" : "'continue'");
    return measured(p, s);
}

static och_kl_stmt *statement(och_kl_parser *p) {
    och_kl_pos pos = och_kl_here(p);
    if (p->t->kind == '{') {
        och_kl_stmt *s = make(p, OCH_KL_S_BLOCK, pos);
        if (!s) return NULL;
        och_kl_parse_body(p, &s->body, "");
        return measured(p, s);
    }
    if (och_kl_at_word(p, "let")) return let(p);
    if (och_kl_at_word(p, "var")) return var(p);
    if (och_kl_at_word(p, "lds")) return lds(p);
    if (och_kl_at_word(p, "if")) return if_(p, pos, false);
    if (och_kl_at_word(p, "while")) return while_(p);
    if (och_kl_at_word(p, "for")) return for_(p, pos, false);
    if (och_kl_at_word(p, "break")) return jump(p, OCH_KL_S_BREAK);
    if (och_kl_at_word(p, "continue")) return jump(p, OCH_KL_S_CONTINUE);
    if (och_kl_at_word(p, "return")) return jump(p, OCH_KL_S_RETURN);
    if (och_kl_at_word(p, "pipeline")) return pipeline(p);
    if (och_kl_at_word(p, "stage") && p->t[1].kind == ';') return jump(p, OCH_KL_S_STAGE);
    if (och_kl_at_word(p, "copy") && p->t[1].kind == OCH_KL_T_NAME) return copy(p);
    if (och_kl_accept_word(p, "static")) {
        if (och_kl_at_word(p, "if")) return if_(p, pos, true);
        if (och_kl_at_word(p, "for")) return for_(p, pos, true);
        och_kl_expected(p, "'if' or 'for' after 'static'");
        return NULL;
    }
    if (och_kl_accept(p, ';')) return NULL; /* an empty statement */
    return simple(p);
}
