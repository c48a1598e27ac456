/* Calls: conversions, methods, functions of the file (inlined), functions of the language. */
#include "kl/spec.h"

#include <string.h>

int och_kl_count_args(const och_kl_expr *args) {
    int n = 0;
    for (; args; args = args->next) n++;
    return n;
}

/* T(e): a conversion, a splat, or a vector put together. */
static bool construct(och_kl_spec *s, const och_kl_expr *e, och_kl_type t, och_kl_val *out) {
    enum { MAX = 32 };
    const och_kl_expr *args[MAX];
    och_kl_val v[MAX];
    och_kl_ir *parts[MAX];
    char buf[64], tb[24];
    int n = 0;
    for (const och_kl_expr *a = e->args; a; a = a->next) {
        if (n == MAX) return och_kl_error(s->diag, e->pos, "more than %d values", MAX);
        args[n++] = a;
    }
    och_kl_type_text(t, tb);
    if (!n) return och_kl_error(s->diag, e->pos, "%s(...) takes a value", tb);
    if (!och_kl_eval_list(s, args, n, v)) return false;
    if (n == 1) return och_kl_convert_val(s, e->pos, t, v[0], out);
    if (t.lanes == 1) return och_kl_error(s->diag, e->pos, "%s(...) takes one value, found %d", tb, n);
    if (och_kl_is_storage(t.base)) return och_kl_error(s->diag, e->pos, "%s is for storage only", tb);
    int lanes = 0, each = 0;
    och_kl_level level = OCH_KL_L_CONST;
    for (int i = 0; i < n; i++) {
        bool number = och_kl_is_number(&v[i]);
        if (!number && !och_kl_to_value(s, args[i]->pos, v[i], &v[i])) return false;
        int w = number ? 1 : v[i].ir->type.lanes;
        if (each && w != each)
            return och_kl_error(s->diag, args[i]->pos, "%s(...): parts of %d and of %d elements", tb, each, w);
        each = w;
        lanes += w;
        if (!och_kl_to_type(s, args[i]->pos, v[i], och_kl_type_of(t.base, w), tb, &v[i])) return false;
        parts[i] = v[i].ir;
        level = och_kl_join(level, v[i].level);
    }
    if (lanes != t.lanes)
        return och_kl_error(s->diag, e->pos, "%s(...) takes %d elements, found %d", tb, t.lanes, lanes);
    och_kl_ir *x = each == 1 ? och_kl_build(s->code, e->pos, t, parts, n) : och_kl_concat(s->code, e->pos, parts, n);
    *out = och_kl_val_ir(x, level);
    if (!x) return och_kl_error(s->diag, e->pos, "%s", och_kl_val_text(out, buf));
    return true;
}

static bool bits(och_kl_spec *s, const och_kl_expr *e, och_kl_val *out) {
    och_kl_type t;
    och_kl_val v;
    char a[64], b[24];
    if (!e->targs || e->targs->next || och_kl_count_args(e->args) != 1)
        return och_kl_error(s->diag, e->pos, "bits<T>(e) takes one type and one value");
    if (!och_kl_resolve_type(s, e->targs, &t) || !och_kl_eval_value(s, e->args, &v)) return false;
    och_kl_type from = v.ir->type;
    if (from.base == OCH_KL_BOOL || t.base == OCH_KL_BOOL)
        return och_kl_error(s->diag, e->pos, "bool has no bits to keep");
    if (och_kl_base_bytes(t.base) * t.lanes != och_kl_base_bytes(from.base) * from.lanes)
        return och_kl_error(s->diag, e->pos, "%s has %u bits, %s has %u", och_kl_type_text(t, b),
                            och_kl_base_bytes(t.base) * t.lanes * 8, och_kl_val_text(&v, a),
                            och_kl_base_bytes(from.base) * from.lanes * 8);
    *out = och_kl_val_ir(och_kl_bitcast(s->code, e->pos, t, v.ir), v.level);
    return out->ir != NULL;
}

static bool call_fn(och_kl_spec *s, const och_kl_expr *e, const och_kl_decl *fn, const och_kl_decl *format,
                    och_kl_val *out) {
    enum { MAX = 24 };
    const och_kl_expr *args[MAX];
    och_kl_val v[MAX];
    int n = 0, want = 0;
    for (const och_kl_arg_ast *a = fn->args; a; a = a->next) want++;
    for (const och_kl_expr *a = e->args; a; a = a->next) {
        if (n == MAX) return och_kl_error(s->diag, e->pos, "more than %d arguments", MAX);
        args[n++] = a;
    }
    if (n != want) {
        och_kl_error(s->diag, e->pos, "%s takes %d %s, found %d", fn->name, want, want == 1 ? "argument" : "arguments",
                     n);
        och_kl_note(s->diag, fn->pos, "it is declared here");
        return false;
    }
    if (n && !och_kl_eval_list(s, args, n, v)) return false;
    return och_kl_inline(s, e->pos, fn, format, v, out);
}

bool och_kl_inline(och_kl_spec *s, och_kl_pos pos, const och_kl_decl *fn, const och_kl_decl *format, och_kl_val *args,
                   och_kl_val *out) {
    int depth = 0;
    for (const och_kl_frame *f = s->frame; f; f = f->outer, depth++)
        if (f->fn == fn)
            return och_kl_error(s->diag, pos, "%s calls itself: functions are inlined and cannot be recursive",
                                fn->name);
    if (depth > 64) return och_kl_error(s->diag, pos, "calls are more than 64 deep");
    if (!s->list)
        return och_kl_error(s->diag, pos, "%s cannot be called here: only a kernel's body calls functions", fn->name);
    och_kl_frame frame = {fn, s->frame};
    och_kl_binding_node *scope = s->scope;
    och_kl_loop *loop = s->loop;
    const och_kl_decl *in_format = s->in_format;
    bool ok = true;
    s->scope = NULL;
    int i = 0;
    for (const och_kl_arg_ast *a = fn->args; a && ok; a = a->next, i++) {
        och_kl_val v = args[i];
        if (a->type) {
            och_kl_type t;
            s->frame = &frame; /* types of the declaration */
            ok = a->type->matrix || a->type->dims
                     ? och_kl_error(s->diag, a->type->pos,
                                    "an argument of a function is a scalar, a vector, or has no type")
                     : och_kl_resolve_type(s, a->type, &t);
            s->frame = frame.outer;
            char what[96];
            if (ok) {
                size_t k = strlen(a->name);
                if (k > 60) k = 60;
                memcpy(what, "argument ", 9);
                memcpy(what + 9, a->name, k);
                what[9 + k] = 0;
                ok = och_kl_to_type(s, pos, v, t, what, &v);
            }
        } else if (v.kind == OCH_KL_V_REG && v.n_at == v.slot->var->n_dims)
            ok = och_kl_to_value(s, pos, v, &v);
        if (ok && (v.kind == OCH_KL_V_VOID || v.kind == OCH_KL_V_BAD))
            ok = och_kl_error(s->diag, pos, "argument %s has no value", a->name);
        if (ok) {
            v = och_kl_keep_val(s, pos, a->name, v);
            ok = v.kind != OCH_KL_V_BAD && och_kl_bind(s, a->name, a->pos, v, true);
        }
    }
    s->frame = &frame;
    s->loop = NULL;
    s->in_format = format;
    s->depth++;
    *out = (och_kl_val){.kind = OCH_KL_V_VOID};
    for (const och_kl_stmt *x = fn->body; x && ok; x = x->next) {
        if (x->kind == OCH_KL_S_RETURN && !x->next) {
            if (x->expr) ok = och_kl_eval(s, x->expr, out);
            if (ok && out->kind == OCH_KL_V_REG && out->n_at == out->slot->var->n_dims)
                ok = och_kl_to_value(s, x->pos, *out, out);
        } else
            ok = och_kl_stmt_one(s, x);
    }
    och_kl_type t;
    if (ok && fn->result) {
        if (out->kind == OCH_KL_V_VOID)
            ok = och_kl_error(s->diag, fn->pos, "%s says what it returns, and returns nothing", fn->name);
        else
            ok = och_kl_resolve_type(s, fn->result, &t) && och_kl_to_type(s, pos, *out, t, fn->name, out);
    }
    s->depth--;
    s->in_format = in_format;
    s->loop = loop;
    s->scope = scope;
    s->frame = frame.outer;
    if (!ok && !och_kl_diag_full(s->diag) && s->diag->n_errors)
        och_kl_note(s->diag, pos, "%s is called here", fn->name);
    return ok;
}

static bool buffer_method(och_kl_spec *s, const och_kl_expr *e, const och_kl_val *v, const char *name,
                          och_kl_val *out) {
    bool is;
    if (v->kind == OCH_KL_V_BUFFER) {
        if (!strcmp(name, "row")) return och_kl_row(s, e->pos, v, e->args, false, out);
        if (!strcmp(name, "row_clamped")) return och_kl_row(s, e->pos, v, e->args, true, out);
        if (!strcmp(name, "sub") || !strcmp(name, "sub_stream") || !strcmp(name, "sub_inside")) {
            och_kl_val a[2];
            const och_kl_expr *args[2] = {e->args, e->args ? e->args->next : NULL};
            int n = och_kl_count_args(e->args);
            int64_t columns = 0;
            if (n < 2 || n > 3 || v->buf->rank != 2)
                return och_kl_error(s->diag, e->pos,
                                    "%s takes the first row and column, of a buffer of two dimensions, and the number of columns", name);
            if (n == 3 && !och_kl_eval_const_int(s, args[1]->next, "the number of columns", &columns)) return false;
            if (columns < (n == 3) || columns > 65536)
                return och_kl_error(s->diag, args[1]->next->pos, "expected 1 to 65536 columns, found %lld", (long long)columns);
            if (!och_kl_eval_list(s, args, 2, a)) return false;
            bool inside = !strcmp(name, "sub_inside");
            for (int i = 0; i < 2; i++) {
                int64_t at;
                if (!och_kl_to_index(s, args[i]->pos, a[i], &a[i])) return false;
                if (inside && och_kl_const_int(&a[i], &at) && at < 0)
                    return och_kl_error(s->diag, args[i]->pos, "%s %lld is not inside: sub makes zeros of what is not", i ? "column" : "row", (long long)at);
            }
            *out = (och_kl_val){.kind = OCH_KL_V_SUB,
                                .buf = v->buf,
                                .ir = a[0].ir,
                                .ir2 = a[1].ir,
                                .level = och_kl_join(a[0].level, a[1].level),
                                .multiple = a[1].multiple,
                                .columns = (uint32_t)columns,
                                .streamed = !strcmp(name, "sub_stream"),
                                .inside = inside};
            return true;
        }
    }
    if (v->kind == OCH_KL_V_ROW) {
        if (!strcmp(name, "unit") || !strcmp(name, "unit_stream")) return och_kl_unit_of(s, e, v, name[4] != 0, out);
        if (!strcmp(name, "staged")) return och_kl_staged_unit(s, e, v, out);
        if (!strcmp(name, "put")) {
            *out = (och_kl_val){.kind = OCH_KL_V_VOID};
            return och_kl_put(s, e, v);
        }
    }
    if (!och_kl_row_method(s, e, v, name, &is, out)) return false;
    if (is) return true;
    och_kl_guess g;
    och_kl_guess_init(&g, name);
    static const char *const all[] = {"row",    "row_clamped", "sub",          "sub_stream",   "sub_inside",   "unit",         "unit_stream",
                                      "staged", "put",         "load2",        "load4",        "load8",        "load16",       "store2",
                                      "store4", "store8",      "store16",      "load4_stream", "load8_stream", "load16_stream"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) och_kl_guess_offer(&g, all[i]);
    char buf[64];
    const char *best = och_kl_guess_best(&g);
    if (best && strcmp(best, name))
        return och_kl_error(s->diag, e->pos, "%s has no .%s(...): did you mean \"%s\"?", och_kl_val_text(v, buf), name,
                            best);
    return och_kl_error(s->diag, e->pos, "%s has no .%s(...)", och_kl_val_text(v, buf), name);
}

static bool method(och_kl_spec *s, const och_kl_expr *e, och_kl_val *out) {
    const och_kl_expr *f = e->a;
    const char *name = f->u.name;
    och_kl_val v;
    char buf[64];
    if (!och_kl_eval(s, f->a, &v)) return false;
    switch (v.kind) {
    case OCH_KL_V_SPACE:
        return och_kl_space_method(s, e, &v, name, out);
    case OCH_KL_V_FORMAT: {
        och_kl_guess g;
        och_kl_guess_init(&g, name);
        for (const och_kl_decl *d = v.decl->fns; d; d = d->next) {
            if (!strcmp(d->name, name)) return call_fn(s, e, d, v.decl, out);
            och_kl_guess_offer(&g, d->name);
        }
        const char *best = och_kl_guess_best(&g);
        och_kl_error(s->diag, f->pos, "the format %s has no %s", v.decl->name, name);
        if (best) och_kl_note(s->diag, v.decl->pos, "did you mean \"%s\"?", best);
        return false;
    }
    case OCH_KL_V_BUFFER:
    case OCH_KL_V_ROW:
    case OCH_KL_V_LDS:
        return buffer_method(s, e, &v, name, out);
    case OCH_KL_V_TILE:
        return och_kl_tile_method(s, e, &v, name, out);
    case OCH_KL_V_ROWVEC:
        return och_kl_rowvec_method(s, e, &v, name, out);
    case OCH_KL_V_BAD:
        return false;
    default:
        return och_kl_error(s->diag, f->pos, "%s has no .%s(...)", och_kl_val_text(&v, buf), name);
    }
}

bool och_kl_eval_call(och_kl_spec *s, const och_kl_expr *e, och_kl_val *out) {
    const och_kl_expr *f = e->a;
    char buf[64];
    if (f->kind == OCH_KL_E_FIELD) return method(s, e, out);
    if (f->kind != OCH_KL_E_NAME) return och_kl_error(s->diag, e->pos, "only a name or .name can be called");
    const char *name = f->u.name;
    och_kl_binding_node *b = och_kl_lookup(s, name);
    if (b) {
        if (b->val.kind == OCH_KL_V_TYPE) return construct(s, e, b->val.type, out);
        if (b->val.kind == OCH_KL_V_BAD) return false;
        return och_kl_error(s->diag, f->pos, "\"%s\" is %s: it cannot be called", name, och_kl_val_text(&b->val, buf));
    }
    och_kl_type t;
    if (!strcmp(name, "bits")) return bits(s, e, out);
    if (och_kl_type_find(name, &t)) return construct(s, e, t, out);
    if (!strcmp(name, "cluster")) {
        int64_t lanes;
        if (och_kl_count_args(e->args) != 1) return och_kl_error(s->diag, e->pos, "cluster takes a number of lanes");
        if (!och_kl_eval_const_int(s, e->args, "a cluster's lanes", &lanes)) return false;
        if (lanes != 8 && lanes != 16 && lanes != 32) {
            och_kl_error(s->diag, e->args->pos, "a cluster has 8, 16 or 32 lanes, found %lld", (long long)lanes);
            if (lanes == 64)
                och_kl_note(s->diag, e->args->pos,
                            "waves have another number of lanes on other targets: wave.* is for a whole wave");
            return false;
        }
        *out = (och_kl_val){.kind = OCH_KL_V_SPACE, .space = 'c', .cluster = (int)lanes};
        return true;
    }
    if (s->in_format)
        for (const och_kl_decl *d = s->in_format->fns; d; d = d->next)
            if (!strcmp(d->name, name)) return call_fn(s, e, d, s->in_format, out);
    const och_kl_decl *d = och_kl_find_decl(s, OCH_KL_D_FN, name);
    if (d) return call_fn(s, e, d, NULL, out);
    bool is;
    if (!och_kl_builtin(s, e, name, &is, out)) return false;
    if (is) return true;
    return och_kl_unknown(s, f->pos, "function", name);
}
