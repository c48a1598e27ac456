#include "kl/unit_print.h"

#include "kl/lex.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void print_body(const och_kl_stmt *s, och_strbuf *out, int indent);

static const struct {
    int op, level; /* as in parse_expr.c */
    const char *text;
} operators[] = {{OCH_KL_OP_OR, 1, "||"},
                 {OCH_KL_OP_AND, 2, "&&"},
                 {'|', 3, "|"},
                 {'^', 4, "^"},
                 {'&', 5, "&"},
                 {OCH_KL_OP_EQ, 6, "=="},
                 {OCH_KL_OP_NE, 6, "!="},
                 {'<', 7, "<"},
                 {'>', 7, ">"},
                 {OCH_KL_OP_LE, 7, "<="},
                 {OCH_KL_OP_GE, 7, ">="},
                 {OCH_KL_OP_SHL, 8, "<<"},
                 {OCH_KL_OP_SHR, 8, ">>"},
                 {'+', 9, "+"},
                 {'-', 9, "-"},
                 {'*', 10, "*"},
                 {'/', 10, "/"},
                 {'%', 10, "%"},
                 {'!', 11, "!"},
                 {'~', 11, "~"},
                 {'=', 0, "="}};
#define LEVEL_UNARY 11

static const char *op_text(int op) {
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++)
        if (operators[i].op == op) return operators[i].text;
    return "?";
}

static int level_of(const och_kl_expr *e) {
    if (e->kind == OCH_KL_E_SELECT) return 0;
    if (e->kind == OCH_KL_E_LAMBDA) return -1;
    if (e->kind == OCH_KL_E_UNARY) return LEVEL_UNARY;
    if (e->kind != OCH_KL_E_BINARY) return LEVEL_UNARY + 1;
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++)
        if (operators[i].op == e->u.op) return operators[i].level;
    return 0;
}

static void print_at(const och_kl_expr *e, int level, och_strbuf *out, int indent);

static void print_list(const och_kl_expr *e, och_strbuf *out, int indent) {
    for (const och_kl_expr *first = e; e; e = e->next) {
        if (e != first) och_strbuf_puts(out, ", ");
        if (e->arg_name) och_strbuf_printf(out, "%s: ", e->arg_name);
        print_at(e, -1, out, indent);
    }
}

static void print_names(const och_kl_name *n, och_strbuf *out) {
    for (const och_kl_name *first = n; n; n = n->next) och_strbuf_printf(out, "%s%s", n == first ? "" : ", ", n->name);
}

static void print_angles(const och_kl_type_ast *t, och_strbuf *out, int indent) {
    och_strbuf_puts(out, "<");
    for (const och_kl_type_ast *first = t; t; t = t->next) {
        if (t != first) och_strbuf_puts(out, ", ");
        if (t->name) och_strbuf_puts(out, t->name);
        else print_at(t->value, 9, out, indent); /* what binds weaker than + stands in parentheses */
    }
    och_strbuf_puts(out, ">");
}

/* The shortest text that reads back as the same number, with a mark that it is no integer. */
static void print_real(double v, och_strbuf *out) {
    char text[OCH_KL_REAL_BYTES];
    double back = 0;
    for (int digits = 6; digits <= 17; digits++) {
        och_kl_real_text(v, digits, text);
        if (och_kl_lex_float(text, (uint32_t)strlen(text), &back) && back == v) break;
    }
    och_strbuf_puts(out, text);
    if (!strpbrk(text, ".e")) och_strbuf_puts(out, ".0");
}

static void print_at(const och_kl_expr *e, int level, och_strbuf *out, int indent) {
    int own = level_of(e);
    bool parens = own < level;
    if (parens) och_strbuf_puts(out, "(");
    switch (e->kind) {
    case OCH_KL_E_INT: och_strbuf_printf(out, "%" PRIu64, e->u.integer); break;
    case OCH_KL_E_FLOAT: print_real(e->u.real, out); break;
    case OCH_KL_E_BOOL: och_strbuf_puts(out, e->u.integer ? "true" : "false"); break;
    case OCH_KL_E_STRING: och_strbuf_printf(out, "\"%s\"", e->u.name); break;
    case OCH_KL_E_NAME: och_strbuf_puts(out, e->u.name); break;
    case OCH_KL_E_UNARY:
        och_strbuf_puts(out, op_text(e->u.op));
        print_at(e->a, own, out, indent);
        break;
    case OCH_KL_E_BINARY:
        /* a < b > (c) would read as a call of a<b>. */
        print_at(e->a, own == 7 ? own + 1 : own, out, indent);
        och_strbuf_printf(out, " %s ", op_text(e->u.op));
        print_at(e->b, own + 1, out, indent);
        break;
    case OCH_KL_E_SELECT:
        print_at(e->a, 1, out, indent);
        och_strbuf_puts(out, " ? ");
        print_at(e->b, 0, out, indent);
        och_strbuf_puts(out, " : ");
        print_at(e->c, 0, out, indent);
        break;
    case OCH_KL_E_INDEX:
        print_at(e->a, LEVEL_UNARY + 1, out, indent);
        och_strbuf_puts(out, "[");
        print_list(e->args, out, indent);
        och_strbuf_puts(out, "]");
        break;
    case OCH_KL_E_FIELD:
        print_at(e->a, LEVEL_UNARY + 1, out, indent);
        och_strbuf_printf(out, ".%s", e->u.name);
        break;
    case OCH_KL_E_CALL:
        print_at(e->a, LEVEL_UNARY + 1, out, indent);
        if (e->targs) print_angles(e->targs, out, indent);
        och_strbuf_puts(out, "(");
        print_list(e->args, out, indent);
        och_strbuf_puts(out, ")");
        break;
    case OCH_KL_E_LAMBDA:
        och_strbuf_puts(out, "(");
        print_names(e->params, out);
        och_strbuf_puts(out, ") => ");
        if (e->a) print_at(e->a, -1, out, indent);
        else print_body(e->body, out, indent);
        break;
    }
    if (parens) och_strbuf_puts(out, ")");
}

void och_kl_print_expr(const och_kl_expr *e, och_strbuf *out) {
    print_at(e, -1, out, 0);
}

static void print_type(const och_kl_type_ast *t, och_strbuf *out) {
    och_strbuf_puts(out, t->name);
    if (t->args) print_angles(t->args, out, 0);
    if (t->matrix && t->dims) {
        och_strbuf_puts(out, "[");
        print_list(t->dims, out, 0);
        och_strbuf_puts(out, "]");
    } else
        for (const och_kl_expr *d = t->dims; d; d = d->next) {
            och_strbuf_puts(out, "[");
            print_at(d, -1, out, 0);
            och_strbuf_puts(out, "]");
        }
}

static void print_ranges(const och_kl_stmt *s, och_strbuf *out, int indent) {
    const och_kl_name *n = s->names;
    for (const och_kl_range *r = s->ranges; r; r = r->next, n = n->next) {
        och_strbuf_printf(out, "%s%s in ", r == s->ranges ? "" : ", ", n->name);
        print_at(r->a, 0, out, indent);
        if (r->b) och_strbuf_puts(out, "..");
        if (r->b) print_at(r->b, 0, out, indent);
        if (r->step) och_strbuf_puts(out, " step ");
        if (r->step) print_at(r->step, 0, out, indent);
    }
}

static void print_indent(och_strbuf *out, int indent) {
    for (int i = 0; i < indent; i++) och_strbuf_puts(out, "  ");
}

static void print_typed(const och_kl_stmt *s, const char *word, och_strbuf *out, int indent) {
    och_strbuf_printf(out, "%s %s", word, s->name);
    if (s->type) och_strbuf_puts(out, ": ");
    if (s->type) print_type(s->type, out);
    if (s->pad_auto) och_strbuf_puts(out, " pad auto");
    if (s->swizzle) och_strbuf_puts(out, " swizzle");
    if (s->expr) och_strbuf_puts(out, " = ");
    if (s->expr) print_at(s->expr, -1, out, indent);
    och_strbuf_puts(out, ";");
}

static void print_if(const och_kl_stmt *s, och_strbuf *out, int indent) {
    och_strbuf_puts(out, s->is_static ? "static if " : "if ");
    print_at(s->expr, -1, out, indent);
    och_strbuf_puts(out, " ");
    print_body(s->body, out, indent);
    if (!s->other) return;
    och_strbuf_puts(out, " else ");
    if (s->other->kind == OCH_KL_S_IF && !s->other->next) print_if(s->other, out, indent);
    else print_body(s->other, out, indent);
}

static void print_stmt(const och_kl_stmt *s, och_strbuf *out, int indent) {
    switch (s->kind) {
    case OCH_KL_S_LET: print_typed(s, "let", out, indent); break;
    case OCH_KL_S_VAR: print_typed(s, "var", out, indent); break;
    case OCH_KL_S_LDS: print_typed(s, "lds", out, indent); break;
    case OCH_KL_S_ASSIGN:
        print_at(s->target, LEVEL_UNARY + 1, out, indent);
        och_strbuf_printf(out, " %s%s ", s->op == '=' ? "" : op_text(s->op), "=");
        print_at(s->expr, -1, out, indent);
        och_strbuf_puts(out, ";");
        break;
    case OCH_KL_S_EXPR:
        print_at(s->expr, -1, out, indent);
        och_strbuf_puts(out, ";");
        break;
    case OCH_KL_S_IF: print_if(s, out, indent); break;
    case OCH_KL_S_WHILE:
        och_strbuf_puts(out, "while ");
        print_at(s->expr, -1, out, indent);
        och_strbuf_puts(out, " ");
        print_body(s->body, out, indent);
        break;
    case OCH_KL_S_FOR:
        och_strbuf_puts(out, s->is_static ? "static for " : "for ");
        print_ranges(s, out, indent);
        och_strbuf_puts(out, " ");
        print_body(s->body, out, indent);
        break;
    case OCH_KL_S_BLOCK: print_body(s->body, out, indent); break;
    case OCH_KL_S_BREAK: och_strbuf_puts(out, "break;"); break;
    case OCH_KL_S_CONTINUE: och_strbuf_puts(out, "continue;"); break;
    case OCH_KL_S_STAGE: och_strbuf_puts(out, "stage;"); break;
    case OCH_KL_S_RETURN:
        och_strbuf_puts(out, s->expr ? "return " : "return");
        if (s->expr) print_at(s->expr, -1, out, indent);
        och_strbuf_puts(out, ";");
        break;
    case OCH_KL_S_PIPELINE:
        och_strbuf_puts(out, "pipeline ");
        print_ranges(s, out, indent);
        och_strbuf_puts(out, " depth ");
        print_at(s->depth, 0, out, indent);
        och_strbuf_puts(out, " {\n");
        print_indent(out, indent + 1);
        och_strbuf_puts(out, "stage ");
        print_body(s->other, out, indent + 1);
        och_strbuf_puts(out, "\n");
        print_indent(out, indent + 1);
        if (s->then) {
            och_strbuf_puts(out, "then ");
            print_body(s->then, out, indent + 1);
            och_strbuf_puts(out, "\n");
            print_indent(out, indent + 1);
        }
        och_strbuf_puts(out, "do ");
        print_body(s->body, out, indent + 1);
        och_strbuf_puts(out, "\n");
        print_indent(out, indent);
        och_strbuf_puts(out, "}");
        break;
    case OCH_KL_S_COPY:
        och_strbuf_puts(out, "copy ");
        print_at(s->target, LEVEL_UNARY + 1, out, indent);
        och_strbuf_puts(out, " <- ");
        print_at(s->expr, -1, out, indent);
        och_strbuf_puts(out, ";");
        break;
    }
}

static void print_body(const och_kl_stmt *s, och_strbuf *out, int indent) {
    och_strbuf_puts(out, "{\n");
    for (; s; s = s->next) {
        print_indent(out, indent + 1);
        print_stmt(s, out, indent + 1);
        och_strbuf_puts(out, "\n");
    }
    print_indent(out, indent);
    och_strbuf_puts(out, "}");
}

static void print_args(const och_kl_arg_ast *a, och_strbuf *out) {
    static const char *const dirs[] = {"", "in", "out", "inout"};
    och_strbuf_puts(out, "(");
    for (const och_kl_arg_ast *first = a; a; a = a->next) {
        och_strbuf_printf(out, "%s%s", a == first ? "" : ", ", a->name);
        if (!a->type) continue;
        och_strbuf_printf(out, ": %s%s%s%s", dirs[a->dir], a->optional ? "?" : "", a->dir == OCH_KL_DIR_VALUE ? "" : " ",
                          a->steady ? "steady " : "");
        print_type(a->type, out);
        if (a->over) och_strbuf_puts(out, " over ");
        print_names(a->over, out);
    }
    och_strbuf_puts(out, ")");
}

static void print_params(const och_kl_param_ast *a, och_strbuf *out) {
    static const char *const kinds[] = {"elem", "format", "int", "bool"};
    for (const och_kl_param_ast *first = a; a; a = a->next) {
        och_strbuf_printf(out, "%s%s: ", a == first ? "\n  param " : ", ", a->name);
        if (a->ranged) {
            print_at(a->lo, 0, out, 0);
            och_strbuf_puts(out, "..");
            print_at(a->hi, 0, out, 0);
        } else
            och_strbuf_puts(out, kinds[a->kind]);
        if (a->default_value) och_strbuf_puts(out, " = ");
        if (a->default_value) print_at(a->default_value, 0, out, 0);
    }
}

static void print_kernel(const och_kl_decl *d, och_strbuf *out) {
    och_strbuf_printf(out, "kernel %s", d->name);
    print_args(d->args, out);
    print_params(d->params, out);
    if (d->requires_) och_strbuf_puts(out, "\n  require ");
    print_list(d->requires_, out, 0);
    och_strbuf_puts(out, "\n  launch grid(");
    print_list(d->grid, out, 0);
    och_strbuf_puts(out, ") waves(");
    print_at(d->waves, -1, out, 0);
    if (d->occupancy) {
        och_strbuf_puts(out, ") occupancy(");
        print_at(d->occupancy, -1, out, 0);
    }
    och_strbuf_puts(out, ")\n");
    print_body(d->body, out, 0);
    och_strbuf_puts(out, "\n");
}

static void print_fn(const och_kl_decl *d, och_strbuf *out, int indent) {
    och_strbuf_printf(out, "fn %s", d->name);
    print_args(d->args, out);
    if (d->result) och_strbuf_puts(out, " -> ");
    if (d->result) print_type(d->result, out);
    och_strbuf_puts(out, " ");
    print_body(d->body, out, indent);
    och_strbuf_puts(out, "\n");
}

static void print_format(const och_kl_decl *d, och_strbuf *out) {
    och_strbuf_printf(out, "%s %s {\n", d->kind == OCH_KL_D_ACT ? "act" : "format", d->name);
    const och_kl_expr *sizes[] = {d->block, d->unit};
    for (int i = 0; i < 2; i++) {
        if (!sizes[i]) continue;
        och_strbuf_puts(out, i ? "  unit " : "  block ");
        print_at(sizes[i], -1, out, 1);
        och_strbuf_puts(out, ";\n");
    }
    if (d->act) och_strbuf_printf(out, "  act %s;\n", d->act);
    for (const och_kl_plane_ast *p = d->planes; p; p = p->next) {
        och_strbuf_printf(out, "  plane %s: %s", p->name, p->elem);
        if (p->count) och_strbuf_printf(out, "[%u]", (unsigned)p->count);
        och_strbuf_printf(out, " per %s;\n", p->per_block ? "block" : "unit");
    }
    for (const och_kl_decl *f = d->fns; f; f = f->next) {
        och_strbuf_puts(out, "  ");
        print_fn(f, out, 1);
    }
    och_strbuf_puts(out, "}\n");
}

static void print_decl(const och_kl_decl *d, och_strbuf *out) {
    switch (d->kind) {
    case OCH_KL_D_CONST:
        och_strbuf_printf(out, "const %s = ", d->name);
        print_at(d->expr, -1, out, 0);
        och_strbuf_puts(out, ";\n");
        break;
    case OCH_KL_D_FN: print_fn(d, out, 0); break;
    case OCH_KL_D_KERNEL: print_kernel(d, out); break;
    case OCH_KL_D_FORMAT:
    case OCH_KL_D_ACT: print_format(d, out); break;
    }
}

void och_kl_print_unit(const och_kl_unit *u, och_strbuf *out) {
    for (const och_kl_decl *d = u->decls; d; d = d->next)
        if (d->pos.file == u->files) print_decl(d, out);
}
