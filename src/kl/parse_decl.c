/* Declarations. */
#include "kl/builtin.h"
#include "kl/parse_priv.h"

#include <string.h>

static och_kl_decl *make(och_kl_parser *p, och_kl_decl_kind kind) {
    och_kl_decl *d = och_kl_new(p, sizeof *d);
    if (d) d->kind = kind;
    return d;
}

/* A name that stands twice in one list. */
static void check_twice(och_kl_parser *p, const char *what, const char *name, och_kl_pos pos, const char *other,
                        och_kl_pos first) {
    if (p->panic || name != other) return;
    och_kl_report(p->diag, pos, "%s '%s' is declared twice", what, name);
    och_kl_note(p->diag, first, "first here");
}

static void check_count(och_kl_parser *p, const char *what, och_kl_pos pos, int n) {
    if (n >= OCH_KL_MAX_LIST) och_kl_fail(p, pos, "expected at most %d %ss", OCH_KL_MAX_LIST, what);
}

static och_kl_arg_ast *arguments(och_kl_parser *p, bool of_kernel) {
    och_kl_arg_ast *first = NULL, **tail = &first;
    if (!och_kl_expect(p, '(', "after the name") || och_kl_accept(p, ')')) return NULL;
    do {
        och_kl_arg_ast *a = och_kl_new(p, sizeof *a);
        if (!a) return NULL;
        a->name = och_kl_expect_name(p, "an argument's name", &a->pos);
        int n_before = 0;
        for (const och_kl_arg_ast *i = first; i; i = i->next, n_before++)
            check_twice(p, "argument", a->name, a->pos, i->name, i->pos);
        check_count(p, "argument", a->pos, n_before);
        if (of_kernel ? och_kl_expect(p, ':', "and a type after the argument's name") : och_kl_accept(p, ':')) {
            a->dir = och_kl_at_word(p, "in") ? OCH_KL_DIR_IN : och_kl_at_word(p, "out") ? OCH_KL_DIR_OUT
                   : och_kl_at_word(p, "inout") ? OCH_KL_DIR_INOUT : OCH_KL_DIR_VALUE;
            if (a->dir != OCH_KL_DIR_VALUE && !of_kernel)
                och_kl_fail(p, och_kl_here(p), "a function's argument has no direction: it is what the caller gives");
            if (a->dir != OCH_KL_DIR_VALUE && !p->panic) p->t++;
            if (a->dir != OCH_KL_DIR_VALUE && och_kl_accept(p, '?')) a->optional = true;
            if (a->dir != OCH_KL_DIR_VALUE && och_kl_at_word(p, "steady")) {
                if (a->dir != OCH_KL_DIR_IN) och_kl_fail(p, och_kl_here(p), "only an 'in' buffer is steady: a kernel writes the others");
                if (!p->panic) p->t++;
                a->steady = true;
            }
            a->type = och_kl_parse_type(p);
            if (och_kl_at_word(p, "over")) {
                if (a->dir != OCH_KL_DIR_OUT) och_kl_fail(p, och_kl_here(p), "only an 'out' buffer may lie over others");
                if (!p->panic) p->t++;
                och_kl_name **over = &a->over;
                do {
                    och_kl_name *n = och_kl_new(p, sizeof *n);
                    if (!n) return NULL;
                    n->name = och_kl_expect_name(p, "a buffer's name after 'over'", &n->pos);
                    *over = n, over = &n->next;
                    /* A comma before NAME: begins the next argument. */
                } while (!(och_kl_at(p, ',') && p->t[1].kind == OCH_KL_T_NAME && p->t[2].kind == ':') && och_kl_accept(p, ','));
            }
        }
        *tail = a, tail = &a->next;
    } while (och_kl_accept(p, ','));
    och_kl_expect(p, ')', "after the arguments");
    return p->panic ? NULL : first;
}

static void parameters(och_kl_parser *p, och_kl_decl *d) {
    och_kl_param_ast **tail = &d->params;
    while (*tail) tail = &(*tail)->next;
    do {
        och_kl_param_ast *a = och_kl_new(p, sizeof *a);
        if (!a) return;
        a->name = och_kl_expect_name(p, "a parameter's name", &a->pos);
        int n_before = 0;
        for (const och_kl_param_ast *i = d->params; i; i = i->next, n_before++)
            check_twice(p, "parameter", a->name, a->pos, i->name, i->pos);
        for (const och_kl_arg_ast *i = d->args; i; i = i->next) check_twice(p, "parameter", a->name, a->pos, i->name, i->pos);
        check_count(p, "parameter", a->pos, n_before);
        och_kl_expect(p, ':', "and a kind after the parameter's name");
        if (och_kl_accept_word(p, "elem")) a->kind = OCH_KL_P_ELEM;
        else if (och_kl_accept_word(p, "format")) a->kind = OCH_KL_P_FORMAT;
        else if (och_kl_accept_word(p, "int")) a->kind = OCH_KL_P_INT;
        else if (och_kl_accept_word(p, "bool")) a->kind = OCH_KL_P_BOOL;
        else {
            a->kind = OCH_KL_P_INT, a->ranged = true;
            och_kl_pos pos = och_kl_here(p);
            a->lo = och_kl_parse_expr(p);
            if (och_kl_at(p, OCH_KL_T_DOTS)) {
                p->t++;
                a->hi = och_kl_parse_expr(p);
            } else
                och_kl_fail(p, pos, "expected a parameter's kind: elem, format, int, bool, or lo..hi");
        }
        if (och_kl_accept(p, '=')) a->default_value = och_kl_parse_expr(p);
        if (p->panic) return;
        *tail = a, tail = &a->next;
    } while (och_kl_accept(p, ','));
}

static och_kl_expr **expressions(och_kl_parser *p, och_kl_expr **tail) {
    do {
        och_kl_expr *e = och_kl_parse_expr(p);
        if (!e) return tail;
        *tail = e, tail = &e->next;
    } while (och_kl_accept(p, ','));
    return tail;
}

static void launch(och_kl_parser *p, och_kl_decl *d) {
    int n = 0;
    if (p->panic) return;
    och_kl_pos pos = och_kl_here(p);
    och_kl_expect_word(p, "grid", "after 'launch'");
    och_kl_expect(p, '(', "after 'grid'");
    if (!p->panic) expressions(p, &d->grid);
    och_kl_expect(p, ')', "after the grid");
    for (const och_kl_expr *e = d->grid; e; e = e->next) n++;
    if (n > 3) och_kl_fail(p, pos, "expected a grid of one to three dimensions, found %d", n);
    och_kl_expect_word(p, "waves", "after the grid");
    och_kl_expect(p, '(', "after 'waves'");
    if (!p->panic) d->waves = och_kl_parse_expr(p);
    och_kl_expect(p, ')', "after the number of waves");
    if (p->panic || !och_kl_accept_word(p, "occupancy")) return;
    och_kl_expect(p, '(', "after 'occupancy'");
    if (!p->panic) d->occupancy = och_kl_parse_expr(p);
    och_kl_expect(p, ')', "after the number of waves a SIMD");
}

static och_kl_decl *kernel(och_kl_parser *p) {
    och_kl_decl *d = make(p, OCH_KL_D_KERNEL);
    och_kl_expr **requires_;
    if (!d) return NULL;
    d->name = och_kl_expect_name(p, "a kernel's name", &d->pos);
    d->args = arguments(p, true);
    requires_ = &d->requires_;
    while (!p->panic && !och_kl_at(p, '{')) {
        if (och_kl_accept_word(p, "param")) parameters(p, d);
        else if (och_kl_accept_word(p, "require")) requires_ = expressions(p, requires_);
        else if (och_kl_at_word(p, "launch")) {
            if (d->waves) och_kl_fail(p, och_kl_here(p), "expected one launch, found a second");
            if (!p->panic) p->t++;
            launch(p, d);
        } else
            och_kl_expected(p, "'param', 'require', 'launch' or the kernel's body");
    }
    if (!p->panic && !d->waves) och_kl_report(p->diag, d->pos, "kernel '%s' has no launch: launch grid(x) waves(n)", d->name);
    och_kl_parse_body(p, &d->body, "before the kernel's body");
    return d;
}

static och_kl_decl *function(och_kl_parser *p) {
    och_kl_decl *d = make(p, OCH_KL_D_FN);
    if (!d) return NULL;
    d->name = och_kl_expect_name(p, "a function's name", &d->pos);
    d->args = arguments(p, false);
    if (och_kl_accept(p, OCH_KL_T_ARROW)) d->result = och_kl_parse_type(p);
    och_kl_parse_body(p, &d->body, "before the function's body");
    return d;
}

static och_kl_plane_ast *plane(och_kl_parser *p) {
    och_kl_plane_ast *a = och_kl_new(p, sizeof *a);
    och_kl_pos pos;
    if (!a) return NULL;
    a->name = och_kl_expect_name(p, "a plane's name", &a->pos);
    och_kl_expect(p, ':', "and a storage type after the plane's name");
    a->elem = och_kl_expect_name(p, "a storage type", &pos);
    if (och_kl_accept(p, '[')) {
        uint64_t n = 0;
        pos = och_kl_here(p);
        if (!och_kl_at(p, OCH_KL_T_INT)) och_kl_expected(p, "a whole number");
        else if (!och_kl_lex_int(p->file->text + p->t->at, p->t->length, &n) || n < 1 || n > 4096)
            och_kl_fail(p, pos, "expected a count from 1 to 4096");
        else p->t++;
        a->count = (uint32_t)n;
        och_kl_expect(p, ']', "after the count");
    }
    och_kl_expect_word(p, "per", "after the plane's type");
    if (och_kl_accept_word(p, "block")) a->per_block = true;
    else och_kl_expect_word(p, "unit", "or 'block' after 'per'");
    och_kl_expect_end(p, "the plane");
    return a;
}

static och_kl_decl *format(och_kl_parser *p, bool is_act) {
    och_kl_decl *d = make(p, is_act ? OCH_KL_D_ACT : OCH_KL_D_FORMAT);
    och_kl_plane_ast **planes;
    och_kl_decl **fns;
    och_kl_pos open, pos;
    if (!d) return NULL;
    d->name = och_kl_expect_name(p, is_act ? "an activation format's name" : "a format's name", &d->pos);
    open = och_kl_here(p);
    och_kl_expect(p, '{', "after the name");
    planes = &d->planes, fns = &d->fns;
    while (!p->panic && !och_kl_accept(p, '}')) {
        int n = 0;
        pos = och_kl_here(p);
        if (och_kl_at(p, OCH_KL_T_END)) och_kl_fail(p, open, "this '{' has no '}'");
        else if (och_kl_at_word(p, "block") || och_kl_at_word(p, "unit")) {
            och_kl_expr **to = och_kl_at_word(p, "block") ? &d->block : &d->unit;
            if (*to) och_kl_fail(p, pos, "'%s' stands twice", to == &d->block ? "block" : "unit");
            if (!p->panic) p->t++;
            *to = och_kl_parse_expr(p);
            och_kl_expect_end(p, to == &d->block ? "the block" : "the unit");
        } else if (!is_act && och_kl_accept_word(p, "act")) {
            if (d->act) och_kl_fail(p, pos, "'act' stands twice");
            d->act = och_kl_expect_name(p, "an activation format's name", &pos);
            och_kl_expect_end(p, "the activation format");
        } else if (och_kl_accept_word(p, "plane")) {
            och_kl_plane_ast *a = plane(p);
            if (!a) break;
            for (const och_kl_plane_ast *i = d->planes; i; i = i->next, n++)
                check_twice(p, "plane", a->name, a->pos, i->name, i->pos);
            check_count(p, "plane", a->pos, n);
            *planes = a, planes = &a->next;
        } else if (!is_act && och_kl_accept_word(p, "fn")) {
            och_kl_decl *f = function(p);
            if (!f) break;
            for (const och_kl_decl *i = d->fns; i; i = i->next, n++)
                check_twice(p, "function", f->name, f->pos, i->name, i->pos);
            check_count(p, "function", f->pos, n);
            *fns = f, fns = &f->next;
        } else
            och_kl_expected(p, is_act ? "'unit', 'block' or 'plane'" : "'unit', 'block', 'act', 'plane' or 'fn'");
    }
    if (!p->panic && !d->unit) och_kl_report(p->diag, d->pos, "%s '%s' has no unit", is_act ? "act" : "format", d->name);
    if (!p->panic && !d->planes) och_kl_report(p->diag, d->pos, "%s '%s' has no planes", is_act ? "act" : "format", d->name);
    return d;
}

static och_kl_decl *constant(och_kl_parser *p) {
    och_kl_decl *d = make(p, OCH_KL_D_CONST);
    if (!d) return NULL;
    d->name = och_kl_expect_name(p, "a constant's name", &d->pos);
    och_kl_expect(p, '=', "after the constant's name");
    d->expr = och_kl_parse_expr(p);
    och_kl_expect_end(p, "the constant");
    return d;
}

static void use(och_kl_parser *p, och_kl_use ***tail) {
    och_kl_use *u = och_kl_new(p, sizeof *u);
    if (!u) return;
    u->by = p->file;
    u->name = och_kl_expect_string(p, "a file's name in quotes after 'use'", &u->pos);
    och_kl_expect_end(p, "the file's name");
    if (!p->panic) **tail = u, *tail = &u->next;
}

/* All declarations of a unit share one space of names. */
static bool declare(och_kl_parser *p, och_kl_decl *d) {
    och_kl_interned *i = och_kl_interned_of(p, d->name, strlen(d->name));
    if (!i) return false;
    if (i->decl && i->decl->pos.file != p->file && !strcmp(p->file->name, OCH_KL_LIBRARY)) { /* nobody asked for it */
        och_kl_report(p->diag, i->decl->pos, "'%s' is declared twice: by %s too, which is part of every unit", d->name, p->file->name);
        return false;
    }
    if (i->decl) {
        och_kl_report(p->diag, d->pos, "'%s' is declared twice", d->name);
        och_kl_note(p->diag, i->decl->pos, "first here");
        return false;
    }
    i->decl = d;
    return true;
}

void och_kl_parse_decls(och_kl_parser *p, och_kl_decl ***tail, och_kl_use ***uses_tail) {
    while (p->t->kind != OCH_KL_T_END && !p->nomem && !och_kl_diag_full(p->diag)) {
        const och_kl_token *begin = p->t;
        och_kl_decl *d = NULL;
        if (och_kl_accept_word(p, "kernel")) d = kernel(p);
        else if (och_kl_accept_word(p, "fn")) d = function(p);
        else if (och_kl_accept_word(p, "format")) d = format(p, false);
        else if (och_kl_accept_word(p, "act")) d = format(p, true);
        else if (och_kl_accept_word(p, "const")) d = constant(p);
        else if (och_kl_accept_word(p, "use")) use(p, uses_tail);
        else och_kl_expected(p, "a declaration (use, const, fn, format, act, kernel)");
        if (p->panic) och_kl_recover(p, begin, false);
        else if (d && declare(p, d)) **tail = d, *tail = &d->next;
    }
}
