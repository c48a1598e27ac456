/* Specialisation: parameters, the signature, and lowering until nothing rises. */
#include "kl/spec.h"

#include "base/alloc.h"
#include "kl/dialect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LOWERINGS 64 /* each raises levels of variables; kernels take two or three */
#define MAX_ALL_NODES (4 * (uint64_t)OCH_KL_MAX_NODES) /* of all lowerings */
#define MAX_NESTED 400   /* a kernel's own statements and expressions are nested less than 50 deep */

void *och_kl_alloc(och_kl_spec *s, size_t count, size_t size) {
    void *p = och_arena_alloc(&s->code->arena, count, size);
    if (!p) s->code->failed = true;
    return p;
}

bool och_kl_count(och_kl_spec *s, och_kl_pos pos) {
    if (s->code->failed) return false;
    if (++s->n_nodes <= OCH_KL_MAX_NODES) return true;
    if (s->too_many) return false;
    s->too_many = true;
    return och_kl_error(s->diag, pos, "more than %u nodes: unrolled too far", OCH_KL_MAX_NODES);
}

bool och_kl_enter_node(och_kl_spec *s, och_kl_pos pos) {
    if (!och_kl_count(s, pos)) return false;
    if (s->nested == MAX_NESTED)
        return och_kl_error(s->diag, pos, "this is nested too deeply, through calls and constants: at most %d levels",
                            MAX_NESTED);
    s->nested++;
    return true;
}

void och_kl_leave_node(och_kl_spec *s) { s->nested--; }

/* ---- parameters ---- */

static const char *const elems[] = {"f32", "f16", "bf16", "fp8", "bf8", "i8", "u8", "i16", "u16", "i32", "u32", "i64"};

static const och_kl_binding *given(const och_kl_spec *s, const char *name) {
    for (int i = 0; i < s->n_bindings; i++)
        if (!strcmp(s->bindings[i].name, name)) return &s->bindings[i];
    return NULL;
}

static const char *kind_text(const och_kl_param_ast *p) {
    return p->kind == OCH_KL_P_ELEM     ? "a storage type"
           : p->kind == OCH_KL_P_FORMAT ? "a format"
           : p->kind == OCH_KL_P_BOOL   ? "true or false"
                                        : "an integer";
}

/* The names that a value may have, behind a message: "; there are f32, f16"; nothing where they are no names. */
static void put_known(const och_kl_spec *s, const och_kl_param_ast *p, char *buf, size_t n) {
    size_t at = 0;
    buf[0] = 0;
    if (p->kind == OCH_KL_P_ELEM)
        for (size_t i = 0; i < sizeof elems / sizeof *elems && at < n; i++)
            at += (size_t)snprintf(buf + at, n - at, "%s%s", i ? ", " : "; there are ", elems[i]);
    if (p->kind == OCH_KL_P_FORMAT)
        for (const och_kl_decl *d = s->unit->decls; d && at < n; d = d->next)
            if (d->kind == OCH_KL_D_FORMAT) at += (size_t)snprintf(buf + at, n - at, "%s%s", at ? ", " : "; there are ", d->name);
}

/* The value of a binding, as text. INVALID where it is none. */
static och_status parse_value(och_kl_spec *s, const och_kl_param_ast *p, const char *text, och_kl_val *out,
                              och_err *err) {
    och_status bad = OCH_INVALID;
    if (p->kind == OCH_KL_P_ELEM) {
        for (size_t i = 0; i < sizeof elems / sizeof *elems; i++)
            if (!strcmp(elems[i], text)) {
                *out = (och_kl_val){.kind = OCH_KL_V_TYPE};
                och_kl_base_find(text, &out->type.base);
                out->type.lanes = 1;
                return OCH_OK;
            }
    } else if (p->kind == OCH_KL_P_FORMAT) {
        const och_kl_decl *d = och_kl_find_decl(s, OCH_KL_D_FORMAT, text);
        if (d) {
            *out = (och_kl_val){.kind = OCH_KL_V_FORMAT, .decl = d};
            return OCH_OK;
        }
    } else if (p->kind == OCH_KL_P_BOOL) {
        if (!strcmp(text, "true") || !strcmp(text, "false")) {
            *out = och_kl_val_bool(s, p->pos, text[0] == 't');
            return OCH_OK;
        }
    } else {
        char *end;
        errno = 0;
        long long v = strtoll(text, &end, 0);
        if (*text && !*end && !errno) {
            *out = och_kl_val_int(v);
            return OCH_OK;
        }
    }
    char known[320];
    put_known(s, p, known, sizeof known);
    return och_err_set(err, bad, "kernel %s, parameter %s: expected %s, found \"%s\"%s", s->kernel->name, p->name, kind_text(p),
                       text, known);
}

static bool value_text(const och_kl_val *v, char *buf, size_t n) {
    int64_t k;
    if (v->kind == OCH_KL_V_TYPE) return snprintf(buf, n, "%s", och_kl_base_names[v->type.base]) < (int)n;
    if (v->kind == OCH_KL_V_FORMAT) return snprintf(buf, n, "%s", v->decl->name) < (int)n;
    if (v->kind == OCH_KL_V_IR && och_kl_is_int(v->ir, &k))
        return snprintf(buf, n, "%s", k ? "true" : "false") < (int)n;
    return snprintf(buf, n, "%lld", (long long)v->integer) < (int)n;
}

static bool default_value(och_kl_spec *s, const och_kl_param_ast *p, och_kl_val *v) {
    char buf[64];
    if (!och_kl_eval(s, p->default_value, v)) return false;
    int64_t k;
    bool ok = p->kind == OCH_KL_P_ELEM ? v->kind == OCH_KL_V_TYPE && v->type.lanes == 1 &&
                                             v->type.base != OCH_KL_BOOL && v->type.base != OCH_KL_U64
              : p->kind == OCH_KL_P_FORMAT ? v->kind == OCH_KL_V_FORMAT && v->decl->kind == OCH_KL_D_FORMAT
              : p->kind == OCH_KL_P_BOOL
                  ? v->kind == OCH_KL_V_IR && v->ir->type.base == OCH_KL_BOOL && och_kl_is_int(v->ir, &k)
                  : och_kl_const_int(v, &k);
    if (!ok)
        return och_kl_error(s->diag, p->default_value->pos, "the default of %s must be %s, found %s", p->name,
                            kind_text(p), och_kl_val_text(v, buf));
    if (p->kind == OCH_KL_P_INT) {
        och_kl_const_int(v, &k);
        *v = och_kl_val_int(k);
    }
    return true;
}

static och_status bind_params(och_kl_spec *s, och_err *err) {
    const och_kl_decl *k = s->kernel;
    och_kl_signature *sig = s->sig;
    for (int i = 0; i < s->n_bindings; i++) {
        const och_kl_param_ast *p = k->params;
        while (p && strcmp(p->name, s->bindings[i].name)) p = p->next;
        if (!p) {
            char known[256] = "";
            for (p = k->params; p; p = p->next) {
                size_t at = strlen(known);
                snprintf(known + at, sizeof known - at, "%s%s", at ? ", " : "", p->name);
            }
            return och_err_set(err, OCH_INVALID, "kernel %s has no parameter %s: there are %s", k->name,
                               s->bindings[i].name, *known ? known : "none");
        }
        if (given(s, s->bindings[i].name) != &s->bindings[i])
            return och_err_set(err, OCH_INVALID, "kernel %s: parameter %s is given twice", k->name, p->name);
    }
    /* Without parameters the name alone would be an identifier of C++, and may be a word of it, or a function's that the
     * compiler knows. */
    int at = snprintf(sig->entry, sizeof sig->entry, "%s%s", k->name, k->params ? "" : "_ok");
    size_t spec = 0;
    uint64_t hash = 1469598103934665603ull;
    bool longer = false;
    for (const och_kl_param_ast *p = k->params; p; p = p->next) {
        const och_kl_binding *b = given(s, p->name);
        och_kl_val v;
        if (b)
            OCH_TRY(parse_value(s, p, b->value, &v, err));
        else if (!p->default_value)
            return och_err_set(err, OCH_INVALID, "kernel %s: parameter %s is missing: it has no default, and takes %s",
                               k->name, p->name, kind_text(p));
        else if (!default_value(s, p, &v))
            return OCH_COMPILE;
        if (p->kind == OCH_KL_P_INT && p->ranged) {
            int64_t lo, hi;
            if (!och_kl_eval_const_int(s, p->lo, "a bound", &lo) || !och_kl_eval_const_int(s, p->hi, "a bound", &hi))
                return OCH_COMPILE;
            if (v.integer < lo || v.integer > hi)
                return och_err_set(err, OCH_INVALID, "kernel %s, parameter %s: expected %lld to %lld, found %lld",
                                   k->name, p->name, (long long)lo, (long long)hi, (long long)v.integer);
        }
        if (!och_kl_bind(s, p->name, p->pos, v, true)) return OCH_NOMEM;
        char text[OCH_KL_NAME_BYTES];
        if (!value_text(&v, text, sizeof text))
            return och_err_set(err, OCH_RANGE, "kernel %s, parameter %s: the value's name is longer than %d bytes",
                               k->name, p->name, OCH_KL_NAME_BYTES - 1);
        int n = snprintf(sig->spec + spec, sizeof sig->spec - spec, "%s%s=%s", spec ? "," : "", p->name, text);
        if (n < 0 || (size_t)n >= sizeof sig->spec - spec)
            return och_err_set(err, OCH_RANGE, "kernel %s: its parameters take more than %zu bytes", k->name,
                               sizeof sig->spec - 1);
        spec += (size_t)n;
        for (char *c = text; *c; c++)
            if (*c == '-') *c = 'm';
        if (!longer) {
            n = snprintf(sig->entry + at, sizeof sig->entry - (size_t)at, "_%s_%s", p->name, text);
            if (n < 0 || (size_t)n >= sizeof sig->entry - (size_t)at)
                longer = true;
            else
                at += n;
        }
    }
    if (longer) {
        for (const char *c = sig->spec; *c; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211ull;
        if (at > 140) at = 140;
        snprintf(sig->entry + at, sizeof sig->entry - (size_t)at, "_%016llx", (unsigned long long)hash);
    }
    return OCH_OK;
}

/* ---- arguments ---- */

static bool copy_name(och_kl_spec *s, och_kl_pos pos, const char *name, char *out) {
    if (strlen(name) >= OCH_KL_NAME_BYTES)
        return och_kl_error(s->diag, pos, "a name of the signature has at most %d bytes", OCH_KL_NAME_BYTES - 1);
    strcpy(out, name);
    return true;
}

/* The number of a size; it is new where it was not seen. */
static int size_index(och_kl_spec *s, och_kl_pos pos, const char *name) {
    och_kl_signature *sig = s->sig;
    for (int i = 0; i < sig->n_sizes; i++)
        if (!strcmp(sig->sizes[i], name)) return i;
    if (sig->n_sizes == OCH_KL_MAX_SIZES) {
        och_kl_error(s->diag, pos, "more than %d sizes", OCH_KL_MAX_SIZES);
        return -1;
    }
    if (!copy_name(s, pos, name, sig->sizes[sig->n_sizes])) return -1;
    return sig->n_sizes++;
}

static bool dims_of(och_kl_spec *s, const och_kl_arg_ast *a, och_kl_arg *arg, och_kl_buffer *b) {
    int n = 0;
    if (!a->type->matrix || !a->type->dims)
        return och_kl_error(s->diag, a->type->pos, "the sizes of a buffer are written [n, d]");
    for (const och_kl_expr *d = a->type->dims; d; d = d->next, n++) {
        if (n == 3) return och_kl_error(s->diag, d->pos, "a buffer has up to 3 dimensions");
        och_kl_rule *r = &arg->dims[n];
        och_kl_text_of(d, r->text, sizeof r->text);
        r->n_steps = 1;
        if (d->kind == OCH_KL_E_NAME && !och_kl_lookup(s, d->u.name) &&
            !och_kl_find_decl(s, OCH_KL_D_CONST, d->u.name)) {
            int i = size_index(s, d->pos, d->u.name);
            if (i < 0) return false;
            r->steps[0].op = OCH_KL_R_SIZE;
            r->steps[0].value = i;
        } else {
            int64_t v;
            if (!och_kl_eval_const_int(s, d, "an extent of a buffer is a name or a constant: this", &v)) return false;
            if (v < 1) return och_kl_error(s->diag, d->pos, "an extent is at least 1, found %lld", (long long)v);
            r->steps[0].op = OCH_KL_R_CONST;
            r->steps[0].value = v;
            b->multiples[n] = (uint64_t)v;
        }
    }
    arg->rank = b->rank = n;
    return true;
}

static bool arg_type(och_kl_spec *s, const och_kl_arg_ast *a, och_kl_arg *arg, och_kl_buffer *b) {
    const och_kl_type_ast *t = a->type;
    char buf[64];
    if (!t) return och_kl_error(s->diag, a->pos, "an argument of a kernel needs a type");
    bool plain = t->name && !strcmp(t->name, "buf"), weight = t->name && !strcmp(t->name, "qbuf"),
         act = t->name && !strcmp(t->name, "actbuf");
    if (a->dir == OCH_KL_DIR_VALUE) {
        och_kl_type x;
        if (plain || weight || act) return och_kl_error(s->diag, t->pos, "a buffer is `in`, `out` or `inout`");
        if (t->dims || !och_kl_resolve_type(s, t, &x))
            return t->dims ? och_kl_error(s->diag, t->pos, "an argument is a scalar or a buffer") : false;
        if (x.lanes > 1 || och_kl_is_storage(x.base))
            return och_kl_error(s->diag, t->pos, "an argument is f32, f16, i32, u32, i64, u64 or bool");
        arg->kind = OCH_KL_A_SCALAR;
        arg->elem_bytes = arg->bytes = och_kl_base_bytes(x.base);
        b->elem = x.base;
        return copy_name(s, t->pos, och_kl_base_names[x.base], arg->type);
    }
    if (!plain && !weight && !act)
        return och_kl_error(s->diag, t->pos, "`in`, `out` and `inout` stand before buf, qbuf and actbuf");
    if (!t->args || t->args->next) return och_kl_error(s->diag, t->pos, "%s<...> takes one type", t->name);
    arg->kind = b->kind = plain ? OCH_KL_A_BUFFER : weight ? OCH_KL_A_WEIGHT : OCH_KL_A_ACT;
    arg->in = b->in = a->dir != OCH_KL_DIR_OUT;
    arg->out = b->out = a->dir != OCH_KL_DIR_IN;
    arg->optional = b->optional = a->optional;
    b->steady = weight || a->steady;
    if (plain) {
        och_kl_type x;
        if (!och_kl_resolve_type(s, t->args, &x)) return false;
        if (x.lanes > 1 || x.base == OCH_KL_BOOL)
            return och_kl_error(s->diag, t->args->pos, "a buffer holds scalars: .load4 reads several");
        b->elem = x.base;
        arg->elem_bytes = arg->align_bytes = och_kl_base_bytes(x.base);
        if (!copy_name(s, t->args->pos, och_kl_base_names[x.base], arg->type)) return false;
    } else {
        och_kl_val f;
        if (t->args->name) {
            och_kl_expr name = {.kind = OCH_KL_E_NAME, .pos = t->args->pos, .u.name = t->args->name};
            if (!och_kl_eval(s, &name, &f)) return false;
        } else if (!och_kl_eval(s, t->args->value, &f))
            return false;
        if (f.kind != OCH_KL_V_FORMAT || f.decl->kind != (weight ? OCH_KL_D_FORMAT : OCH_KL_D_ACT))
            return och_kl_error(s->diag, t->args->pos, "%s<...> takes %s, found %s", t->name,
                                weight ? "a format" : "an act format", och_kl_val_text(&f, buf));
        b->format = f.decl;
        arg->align_bytes = 16;
        if (!copy_name(s, t->args->pos, f.decl->name, arg->type)) return false;
    }
    arg->bytes = 8;
    if (!dims_of(s, a, arg, b)) return false;
    if (!plain && b->rank != 2) return och_kl_error(s->diag, t->pos, "%s has two dimensions", t->name);
    return true;
}

static och_kl_var *argument(och_kl_spec *s, const char *name, och_kl_base base, och_kl_space space, uint32_t offset) {
    och_kl_var *v = och_kl_new_var(s->code, name, och_kl_type_of(base, 1), space, NULL, 0);
    if (!v) return NULL;
    v->argument = true;
    v->offset = offset;
    v->fixed = space == OCH_KL_REG;
    v->uniformity = OCH_KL_U_GROUP;
    return v;
}

static bool alias(och_kl_spec *s, const och_kl_arg_ast *a, och_kl_buffer *b) {
    for (const och_kl_name *n = a->over; n; n = n->next) {
        och_kl_buffer *other = NULL;
        for (int i = 0; i < s->n_buffers; i++)
            if (!strcmp(s->buffers[i].ast->name, n->name) && s->buffers[i].arg->kind != OCH_KL_A_SCALAR)
                other = &s->buffers[i];
        if (!other) return och_kl_error(s->diag, n->pos, "over: no buffer is named \"%s\"", n->name);
        if (other == b) return och_kl_error(s->diag, n->pos, "over: %s itself", n->name);
        if (other->ast->steady) return och_kl_error(s->diag, n->pos, "over: %s is steady: no kernel writes it", n->name);
        other->aliased = b->aliased = true;
        b->arg->over |= 1u << (other - s->buffers);
        other->arg->over |= 1u << (b - s->buffers);
    }
    return true;
}

/* Pointers, then strides, then sizes, then scalars: the order of the arguments. */
static bool arguments(och_kl_spec *s) {
    const och_kl_decl *k = s->kernel;
    och_kl_signature *sig = s->sig;
    int n = 0;
    for (const och_kl_arg_ast *a = k->args; a; a = a->next) n++;
    if (n > OCH_KL_MAX_ARGS) return och_kl_error(s->diag, k->pos, "more than %d arguments", OCH_KL_MAX_ARGS);
    s->n_buffers = n;
    s->buffers = och_kl_alloc(s, (size_t)n + 1, sizeof *s->buffers);
    if (!s->buffers) return false;
    sig->n_args = n;
    bool ok = true;
    int i = 0;
    for (const och_kl_arg_ast *a = k->args; a; a = a->next, i++) {
        och_kl_buffer *b = &s->buffers[i];
        b->ast = a;
        b->arg = &sig->args[i];
        for (int d = 0; d < 3; d++) b->multiples[d] = 1;
        if (!copy_name(s, a->pos, a->name, b->arg->name) || !arg_type(s, a, b->arg, b)) ok = false;
    }
    i = 0;
    for (const och_kl_arg_ast *a = k->args; a && ok; a = a->next, i++) ok = alias(s, a, &s->buffers[i]);
    if (!ok) return false;
    uint32_t at = 0;
    for (i = 0; i < n; i++) {
        och_kl_buffer *b = &s->buffers[i];
        if (b->arg->kind == OCH_KL_A_SCALAR) continue;
        b->arg->offset = at;
        b->var = argument(s, b->ast->name, b->kind == OCH_KL_A_BUFFER ? b->elem : OCH_KL_U8, OCH_KL_GLOBAL, at);
        if (b->var) b->var->steady = b->steady, b->var->held = b->ast->steady;
        if (!b->var) return false;
        b->var->read_only = b->in && !b->out && !b->aliased;
        b->var->aliased = b->aliased;
        b->arg->in_place = b->aliased || (b->in && b->out);
        at += 8;
    }
    for (i = 0; i < n; i++) {
        och_kl_buffer *b = &s->buffers[i];
        for (int d = 0; d + 1 < b->rank; d++) {
            char name[OCH_KL_NAME_BYTES + 16];
            snprintf(name, sizeof name, b->rank == 2 ? "%s_row" : d ? "%s_row" : "%s_plane", b->ast->name);
            b->arg->stride_offset[d] = at;
            och_kl_var *v = argument(s, name, OCH_KL_I64, OCH_KL_REG, at);
            b->strides[d] = och_kl_use(s->code, b->ast->pos, v);
            if (!b->strides[d]) return false;
            at += 8;
        }
    }
    och_kl_ir *size_ir[OCH_KL_MAX_SIZES];
    for (i = 0; i < sig->n_sizes; i++) {
        sig->size_offset[i] = at;
        och_kl_var *v = argument(s, sig->sizes[i], OCH_KL_I64, OCH_KL_REG, at);
        size_ir[i] = och_kl_use(s->code, k->pos, v);
        if (!size_ir[i]) return false;
        och_kl_val x = och_kl_val_ir(size_ir[i], OCH_KL_L_GROUP);
        x.size = i + 1;
        if (!och_kl_bind(s, v->name, (och_kl_pos){0}, x, true)) return false;
        s->size_multiples[i] = 1;
        at += 8;
    }
    for (i = 0; i < n; i++) {
        och_kl_buffer *b = &s->buffers[i];
        if (och_kl_lookup(s, b->ast->name))
            return och_kl_error(s->diag, b->ast->pos, "\"%s\" is the name of a parameter, a size or another argument",
                                b->ast->name);
        och_kl_val x = {.kind = OCH_KL_V_BUFFER, .buf = b};
        if (b->arg->kind == OCH_KL_A_SCALAR) {
            uint32_t bytes = b->arg->elem_bytes;
            at = (at + bytes - 1) / bytes * bytes;
            b->arg->offset = at;
            och_kl_var *v = argument(s, b->ast->name, b->elem, OCH_KL_REG, at);
            x = och_kl_val_ir(och_kl_use(s->code, b->ast->pos, v), OCH_KL_L_GROUP);
            x.size = -1 - i;
            at += bytes;
        }
        if (x.kind == OCH_KL_V_BAD || !och_kl_bind(s, b->ast->name, b->ast->pos, x, true)) return false;
        for (int d = 0; d < b->rank; d++) {
            const och_kl_rule *r = &b->arg->dims[d];
            b->dims[d] = r->steps[0].op == OCH_KL_R_SIZE ? size_ir[r->steps[0].value]
                                                         : och_kl_i64(s, b->ast->pos, r->steps[0].value);
            if (!b->dims[d]) return false;
        }
    }
    sig->args_bytes = at;
    return true;
}

/* Within a row 32 bits are enough: the host makes sure. */
static bool row_rules(och_kl_spec *s) {
    och_kl_signature *sig = s->sig;
    uint32_t bytes[OCH_KL_MAX_SIZES] = {0};
    for (int i = 0; i < s->n_buffers; i++) {
        const och_kl_buffer *b = &s->buffers[i];
        if (b->rank < 2) continue;
        const och_kl_rule *r = &b->arg->dims[b->rank - 1];
        uint32_t e = b->kind == OCH_KL_A_BUFFER ? och_kl_base_bytes(b->elem) : 4;
        if (e < 2) e = 2; /* the index itself has 31 bits */
        if (r->steps[0].op == OCH_KL_R_SIZE && bytes[r->steps[0].value] < e) bytes[r->steps[0].value] = e;
    }
    for (int i = 0; i < sig->n_sizes; i++) {
        if (!bytes[i]) continue;
        if (sig->n_rules == OCH_KL_MAX_RULES)
            return och_kl_error(s->diag, s->kernel->pos,
                                "more than %d requirements, those on the lengths of rows included", OCH_KL_MAX_RULES);
        och_kl_rule *r = &sig->rules[sig->n_rules++];
        int64_t most = (int64_t)(UINT32_MAX / bytes[i]) - OCH_KL_MAX_THREADS;
        char name[OCH_KL_NAME_BYTES]; /* GCC cannot tell that the two are apart in the signature */
        memcpy(name, sig->sizes[i], sizeof name);
        *r = (och_kl_rule){.n_steps = 3};
        snprintf(r->text, sizeof r->text, "%s <= %lld", name, (long long)most);
        r->steps[0].op = OCH_KL_R_SIZE;
        r->steps[0].value = i;
        r->steps[1].op = OCH_KL_R_CONST;
        r->steps[1].value = most;
        r->steps[2].op = OCH_KL_R_LE;
    }
    return true;
}

static bool geometry(och_kl_spec *s) {
    const och_kl_decl *k = s->kernel;
    och_kl_signature *sig = s->sig;
    int64_t waves = 1;
    if (k->waves && !och_kl_eval_const_int(s, k->waves, "the number of waves", &waves)) return false;
    och_kl_pos pos = k->waves ? k->waves->pos : k->pos;
    if (waves < 1) return och_kl_error(s->diag, pos, "a workgroup has at least one wave, found %lld", (long long)waves);
    if (waves > OCH_KL_MAX_THREADS || waves * s->profile.wave > OCH_KL_MAX_THREADS)
        return och_kl_error(s->diag, pos, "%lld waves of %d lanes are more than %d threads", (long long)waves,
                            s->profile.wave, OCH_KL_MAX_THREADS);
    sig->wave = s->profile.wave;
    sig->waits = s->profile.target.target->ops & OCH_DEPENDENT_LAUNCH;
    sig->waves = (int)waves;
    sig->threads = (int)waves * s->profile.wave;
    int64_t n = 0;
    s->code->occupancy = -1;
    if (!k->occupancy) return true;
    if (!och_kl_eval_const_int(s, k->occupancy, "the number of waves a SIMD", &n)) return false;
    if (n < 0) return och_kl_error(s->diag, k->occupancy->pos, "an occupancy of %lld", (long long)n);
    int most = s->profile.target.target->waves_simd_max;
    s->code->occupancy = n < most ? (int)n : most;
    return true;
}

static bool grids(och_kl_spec *s) {
    int i = 0;
    bool is_const;
    int64_t v;
    if (!s->kernel->grid) return och_kl_error(s->diag, s->kernel->pos, "%s says no grid", s->kernel->name);
    for (const och_kl_expr *g = s->kernel->grid; g; g = g->next, i++) {
        if (i == 3) return och_kl_error(s->diag, g->pos, "a grid has up to 3 dimensions");
        if (!och_kl_rule_of(s, g, &s->sig->grid[i], &is_const, &v)) return false;
        if (is_const && v < 0) return och_kl_error(s->diag, g->pos, "a grid of %lld", (long long)v);
    }
    for (; i < 3; i++) {
        och_kl_rule *r = &s->sig->grid[i];
        strcpy(r->text, "1");
        r->n_steps = 1;
        r->steps[0].op = OCH_KL_R_CONST;
        r->steps[0].value = 1;
    }
    return true;
}

static bool lds_total(och_kl_spec *s) {
    uint64_t total = 0;
    int64_t limit = s->profile.target.target->lds_workgroup_bytes;
    for (const och_kl_var *v = s->code->vars; v; v = v->next) {
        if (v->space != OCH_KL_LDS) continue;
        uint64_t bytes = och_kl_base_bytes(v->type.base) * v->type.lanes;
        for (int i = 0; i < v->n_dims; i++) bytes *= v->dims[i];
        total += (bytes + 15) / 16 * 16;
    }
    if (limit > 0 && total > (uint64_t)limit)
        return och_kl_error(s->diag, s->kernel->pos, "%s takes %llu bytes of LDS: a workgroup of %s has %lld",
                            s->kernel->name, (unsigned long long)total, s->profile.target.target->name,
                            (long long)limit);
    s->sig->lds_bytes = (uint32_t)total;
    uint32_t most = och_kl_dialect_of(&s->profile)->lds_static_bytes;
    s->sig->lds_launch_bytes = most && (total > most || och_kl_uses(s->code, OCH_KL_F_GROUP_MMA)) ? (uint32_t)total : 0;
    return true;
}

static och_status lower(och_kl_spec *s, och_err *err) {
    och_kl_signature *sig = s->sig;
    const och_kl_decl *k = s->kernel;
    if (strlen(k->name) >= sizeof sig->kernel)
        return och_err_set(err, OCH_RANGE, "kernel %.40s...: a name has at most %zu bytes", k->name,
                           sizeof sig->kernel - 1);
    strcpy(sig->kernel, k->name);
    memcpy(sig->target, s->profile.target.name, sizeof sig->target);
    OCH_TRY(bind_params(s, err));
    bool ok = geometry(s) && arguments(s);
    for (const och_kl_expr *r = k->requires_; r && ok; r = r->next) ok = och_kl_require(s, r);
    ok = ok && grids(s) && row_rules(s);
    if (!ok) return OCH_COMPILE;
    for (och_kl_binding_node *b = s->scope; b; b = b->next)
        if (b->val.size > 0) b->val.multiple = s->size_multiples[b->val.size - 1];
    s->in_kernel = true;
    s->list = &s->code->body;
    for (int i = 0; i < s->n_buffers && ok; i++) {
        och_kl_buffer *b = &s->buffers[i];
        for (int d = 0; d < b->rank; d++)
            if (b->arg->dims[d].steps[0].op == OCH_KL_R_SIZE)
                b->multiples[d] = s->size_multiples[b->arg->dims[d].steps[0].value];
        if (b->format) ok = och_kl_format_planes(s, b);
    }
    ok = ok && och_kl_stmts(s, k->body) && lds_total(s);
    /* Behind a fence other workgroups' writes are read: a pointer that says nobody else writes there would hide them. */
    for (int i = 0; i < s->n_buffers && s->fenced; i++)
        if (s->buffers[i].var && s->buffers[i].in && s->buffers[i].out) s->buffers[i].var->aliased = true;
    if (ok && s->sig->waits && !s->awaited) {
        s->list = &s->prologue;
        och_kl_do(s, k->pos, och_kl_call(s->code, k->pos, OCH_KL_F_AWAIT, och_kl_type_of(OCH_KL_VOID, 1), 0, NULL, 0));
    }
    if (s->prologue.first) {
        s->prologue.last->next = s->code->body.first;
        s->code->body.first = s->prologue.first;
        if (!s->code->body.last) s->code->body.last = s->prologue.last;
    }
    if (ok && !och_kl_bound_shares(s)) ok = false;
    for (och_kl_var *v = s->code->vars; v && !s->code->lds; v = v->next)
        if (v->space == OCH_KL_LDS) s->code->lds = v;
    return ok ? OCH_OK : OCH_COMPILE;
}

static const och_kl_decl *find_kernel(const och_kl_unit *u, const char *name, och_err *err) {
    char known[512] = "";
    for (const och_kl_decl *d = u->decls; d; d = d->next) {
        if (d->kind != OCH_KL_D_KERNEL) continue;
        if (!strcmp(d->name, name)) return d;
        size_t at = strlen(known);
        snprintf(known + at, sizeof known - at, "%s%s", at ? ", " : "", d->name);
    }
    och_err_set(err, OCH_NOTFOUND, "no kernel \"%s\": there are %s", name, *known ? known : "none");
    return NULL;
}

och_status och_kl_specialise(const och_kl_unit *u, const char *kernel, const och_kl_binding *bindings, int n_bindings,
                             const och_kl_profile *profile, och_kl_code **out_code, och_strbuf *diag, och_err *err) {
    *out_code = NULL;
    och_kl_spec s = {0};
    och_strbuf text = {0};
    och_err first = {0};
    och_kl_diag d;
    och_status st = OCH_OK;
    och_kl_code *code = NULL;
    const och_kl_decl *k = find_kernel(u, kernel, err);
    if (!k) return OCH_NOTFOUND;
    uint64_t n_nodes = 0;
    for (int turn = 0;; turn++) {
        och_kl_level *levels = s.levels;
        int n_levels = s.n_levels, cap = s.cap_levels;
        s = (och_kl_spec){.unit = u,
                          .kernel = k,
                          .bindings = bindings,
                          .n_bindings = n_bindings,
                          .profile = *profile,
                          .levels = levels,
                          .n_levels = n_levels,
                          .cap_levels = cap};
        och_kl_code_destroy(code);
        och_strbuf_clear(&text);
        och_err_clear(&first);
        och_kl_diag_init(&d, &text, &first);
        st = och_kl_code_create(profile, &code, &first);
        if (st != OCH_OK) break;
        s.code = code;
        s.sig = &code->signature;
        s.diag = &d;
        st = lower(&s, &first);
        if (code->failed) {
            och_err_clear(&first);
            st = och_err_nomem(&first, 0, "the code of a kernel");
            break;
        }
        if (!s.again || (st != OCH_OK && st != OCH_COMPILE)) break;
        n_nodes += s.n_nodes;
        if (turn == MAX_LOWERINGS || n_nodes > MAX_ALL_NODES) {
            och_err_clear(&first);
            st = och_err_set(&first, OCH_COMPILE,
                             "kernel %s: too large to find out what is uniform: %d rounds, %llu nodes; a loop's variables "
                             "that hand values on, each to the one before it, take a round each", kernel, turn + 1,
                             (unsigned long long)n_nodes);
            break;
        }
    }
    if (st == OCH_COMPILE && first.status == OCH_OK)
        och_err_set(&first, OCH_COMPILE, "kernel %s does not compile", kernel);
    if (diag) och_strbuf_append(diag, och_strbuf_str(&text), text.size);
    if (st != OCH_OK) {
        och_err_set(err, st, "%s", first.message);
        och_kl_code_destroy(code);
    } else
        *out_code = code;
    och_strbuf_deinit(&text);
    och_free(s.levels);
    return st;
}

och_status och_kl_profile_init(och_kl_profile *p, const char *target, int wave, och_err *err) {
    *p = (och_kl_profile){0};
    OCH_TRY(och_target_find(target, &p->target, err));
    const och_target *t = p->target.target;
    if (!wave) wave = t->wave_default;
    bool has = (wave == 32 && (t->waves & OCH_WAVE32)) || (wave == 64 && (t->waves & OCH_WAVE64));
    if (!has)
        return och_err_set(err, OCH_INVALID, "%s has no waves of %d lanes: there are%s%s", t->name, wave,
                           t->waves & OCH_WAVE32 ? " 32" : "", t->waves & OCH_WAVE64 ? " 64" : "");
    p->wave = wave;
    return OCH_OK;
}
