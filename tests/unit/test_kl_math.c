/* kernels/math.ok against double precision: its text, read by a small interpreter of the language's scalar part, whose exp2, log2,
 * rcp and rsqrt are off by up to one ulp at random, as a target's may be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "unit/kl_math.h"

#include "kl/ast.h"
#include "kl/builtin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind { NUMBER, F32, I32, U32, I64, U64, BOOL, PAIR } kind; /* NUMBER: a literal that takes the other side's type */
typedef struct value {
    kind kind;
    int64_t i; /* I32, I64, BOOL, NUMBER; the bits of U32, U64 */
    float f, g;
} value;

static och_kl_unit *unit;
static bool rough; /* the functions of the target are off */

#define MAX_LOCALS 64
typedef struct scope {
    const char *names[MAX_LOCALS];
    value values[MAX_LOCALS];
    int n;
    bool returned;
    value result;
} scope;

static value eval(scope *s, const och_kl_expr *e);

static value real(float f) {
    return (value){F32, 0, f, 0};
}

static value integer(kind k, int64_t i) {
    switch (k) {
    case I32: i = (int32_t)(uint32_t)(uint64_t)i; break;
    case U32: i = (int64_t)(uint32_t)(uint64_t)i; break;
    default: break;
    }
    return (value){k, i, 0, 0};
}

static value convert(value v, kind to) {
    if (v.kind == to) return v;
    if (to == F32) return real(v.kind == U64 ? (float)(uint64_t)v.i : (float)v.i);
    if (v.kind == F32) {
        double d = v.f;
        assert_true(fabs(d) < 9e18); /* what is beyond has no meaning on any target */
        return integer(to, (int64_t)d);
    }
    return integer(to, v.i);
}

/* Off by -1, 0 or 1 ulp, by a hash of the result. */
static float off(double exact) {
    float f = (float)exact;
    if (!rough || f == 0 || !isfinite(f) || f == 1.0f) return f;
    uint32_t h = bits_of(f) * 2654435761u;
    h ^= h >> 15;
    switch (h % 3) {
    case 0: return nextafterf(f, INFINITY);
    case 1: return nextafterf(f, -INFINITY);
    }
    return f;
}

static value call_fn(const och_kl_decl *fn, const value *args, int n_args) {
    static const struct {
        const char *name;
        kind kind;
    } types[] = {{"f32", F32}, {"i32", I32}, {"u32", U32}, {"i64", I64}, {"u64", U64}, {"bool", BOOL}};
    scope s = {0};
    int i = 0;
    for (const och_kl_arg_ast *a = fn->args; a; a = a->next, i++) {
        assert_true(i < n_args && a->type);
        s.names[s.n] = a->name, s.values[s.n] = args[i];
        for (size_t k = 0; k < sizeof types / sizeof types[0]; k++)
            if (!strcmp(a->type->name, types[k].name)) {
                /* Nothing converts by itself but a literal. */
                assert_true(args[i].kind == types[k].kind || args[i].kind == NUMBER);
                s.values[s.n] = convert(args[i], types[k].kind);
            }
        s.n++;
    }
    assert_int_equal(i, n_args);
    for (const och_kl_stmt *st = fn->body; st; st = st->next) {
        switch (st->kind) {
        case OCH_KL_S_LET:
        case OCH_KL_S_VAR:
            assert_true(s.n < MAX_LOCALS);
            s.values[s.n] = eval(&s, st->expr);
            s.names[s.n++] = st->name;
            break;
        case OCH_KL_S_RETURN: return eval(&s, st->expr);
        case OCH_KL_S_ASSIGN:
        case OCH_KL_S_IF: {
            const och_kl_stmt *from = st, *end = st->next;
            if (st->kind == OCH_KL_S_IF) {
                value c = eval(&s, st->expr);
                assert_int_equal(c.kind, BOOL);
                from = c.i ? st->body : st->other, end = NULL;
            }
            int n = s.n;
            /* One level of statements in an if, and an if of one assignment below: all that the library has. */
            for (const och_kl_stmt *b = from; b != end; b = b->next) {
                const och_kl_stmt *as = b;
                if (b->kind == OCH_KL_S_LET) {
                    assert_true(s.n < MAX_LOCALS);
                    s.values[s.n] = eval(&s, b->expr);
                    s.names[s.n++] = b->name;
                    continue;
                }
                if (b->kind == OCH_KL_S_IF) {
                    if (!eval(&s, b->expr).i) continue;
                    as = b->body;
                    assert_null(as->next);
                }
                assert_int_equal(as->kind, OCH_KL_S_ASSIGN);
                assert_int_equal(as->op, '=');
                int k = s.n - 1;
                while (s.names[k] != as->target->u.name) k--;
                value v = eval(&s, as->expr);
                assert_int_equal(v.kind, s.values[k].kind);
                s.values[k] = v;
            }
            s.n = n;
            break;
        }
        default: fail_msg("%s:%u: a statement that this interpreter has not", st->pos.file->name, (unsigned)st->pos.line);
        }
    }
    fail_msg("%s returns nothing", fn->name);
    return s.result;
}

static value call(scope *s, const och_kl_expr *e) {
    value v[4];
    int n = 0;
    const char *name = e->a->u.name;
    assert_int_equal(e->a->kind, OCH_KL_E_NAME);
    for (const och_kl_expr *a = e->args; a; a = a->next) {
        assert_true(n < 4);
        v[n++] = eval(s, a);
    }
    if (!strcmp(name, "bits")) {
        if (!strcmp(e->targs->name, "u32")) return v[0].kind == F32 ? integer(U32, bits_of(v[0].f)) : integer(U32, v[0].i);
        assert_string_equal(e->targs->name, "f32");
        assert_true(v[0].kind == U32 || v[0].kind == NUMBER);
        return real(of_bits((uint32_t)v[0].i));
    }
    if (!strcmp(name, "f32")) return convert(v[0], F32);
    if (!strcmp(name, "i32")) return convert(v[0], I32);
    if (!strcmp(name, "u32")) return convert(v[0], U32);
    if (!strcmp(name, "i64")) return convert(v[0], I64);
    if (!strcmp(name, "u64")) return convert(v[0], U64);
    if (!strcmp(name, "f32x2")) return (value){PAIR, 0, v[0].f, v[1].f};
    for (const och_kl_decl *d = unit->decls; d; d = d->next)
        if (d->kind == OCH_KL_D_FN && d->name == name) return call_fn(d, v, n);
    for (int i = 0; i < n; i++) assert_int_equal(v[i].kind, F32);
    float a = v[0].f, b = n > 1 ? v[1].f : 0, c = n > 2 ? v[2].f : 0;
    if (!strcmp(name, "fma")) return real(fmaf(a, b, c));
    if (!strcmp(name, "abs")) return real(fabsf(a));
    if (!strcmp(name, "min")) return real(fminf(a, b));
    if (!strcmp(name, "max")) return real(fmaxf(a, b));
    if (!strcmp(name, "trunc")) return real(truncf(a));
    if (!strcmp(name, "copysign")) return real(copysignf(a, b));
    if (!strcmp(name, "isnan")) return integer(BOOL, a != a);
    if (!strcmp(name, "isfinite")) return integer(BOOL, isfinite(a));
    if (!strcmp(name, "exp2")) return real(off(exp2((double)a)));
    if (!strcmp(name, "rcp")) return real(off(1.0 / (double)a));
    if (!strcmp(name, "rsqrt")) return real(off(1.0 / sqrt((double)a)));
    fail_msg("%s:%u: no function %s", e->pos.file->name, (unsigned)e->pos.line, name);
    return v[0];
}

static value shift(value a, value b, bool left) {
    unsigned width = a.kind == I64 || a.kind == U64 ? 64 : 32, by = (unsigned)b.i % width;
    if (left) return integer(a.kind, (int64_t)((uint64_t)a.i << by));
    if (a.kind == U64) return integer(U64, (int64_t)((uint64_t)a.i >> by));
    return integer(a.kind, a.i >> by);
}

static value binary(scope *s, const och_kl_expr *e) {
    value a = eval(s, e->a);
    int op = e->u.op;
    if (op == OCH_KL_OP_AND || op == OCH_KL_OP_OR) {
        assert_int_equal(a.kind, BOOL);
        value b = eval(s, e->b);
        assert_int_equal(b.kind, BOOL);
        return integer(BOOL, op == OCH_KL_OP_AND ? a.i && b.i : a.i || b.i);
    }
    value b = eval(s, e->b);
    if (op == OCH_KL_OP_SHL || op == OCH_KL_OP_SHR) return shift(a.kind == NUMBER ? integer(I32, a.i) : a, b, op == OCH_KL_OP_SHL);
    if (a.kind == NUMBER && b.kind == NUMBER) a = integer(I32, a.i);
    if (a.kind == NUMBER) a = convert(a, b.kind);
    if (b.kind == NUMBER) b = convert(b, a.kind);
    if (a.kind != b.kind) fail_msg("%s:%u:%u: two types", e->pos.file->name, (unsigned)e->pos.line, (unsigned)e->pos.column);
    if (a.kind == F32) {
        switch (op) {
        case '+': return real(a.f + b.f);
        case '-': return real(a.f - b.f);
        case '*': return real(a.f * b.f);
        case '<': return integer(BOOL, a.f < b.f);
        case '>': return integer(BOOL, a.f > b.f);
        case OCH_KL_OP_LE: return integer(BOOL, a.f <= b.f);
        case OCH_KL_OP_GE: return integer(BOOL, a.f >= b.f);
        case OCH_KL_OP_EQ: return integer(BOOL, a.f == b.f);
        case OCH_KL_OP_NE: return integer(BOOL, a.f != b.f);
        }
        fail_msg("an operator on f32");
    }
    uint64_t x = (uint64_t)a.i, y = (uint64_t)b.i;
    bool less = a.kind == U64 ? x < y : a.i < b.i;
    switch (op) {
    case '+': return integer(a.kind, (int64_t)(x + y));
    case '-': return integer(a.kind, (int64_t)(x - y));
    case '*': return integer(a.kind, (int64_t)(x * y));
    case '&': return integer(a.kind, (int64_t)(x & y));
    case '|': return integer(a.kind, (int64_t)(x | y));
    case '<': return integer(BOOL, less);
    case '>': return integer(BOOL, !less && x != y);
    case OCH_KL_OP_LE: return integer(BOOL, less || x == y);
    case OCH_KL_OP_GE: return integer(BOOL, !less);
    case OCH_KL_OP_EQ: return integer(BOOL, x == y);
    case OCH_KL_OP_NE: return integer(BOOL, x != y);
    }
    fail_msg("an operator on integers");
    return a;
}

static value eval(scope *s, const och_kl_expr *e) {
    switch (e->kind) {
    case OCH_KL_E_INT: return (value){NUMBER, (int64_t)e->u.integer, 0, 0};
    case OCH_KL_E_FLOAT: return real((float)e->u.real);
    case OCH_KL_E_NAME:
        for (int i = s->n; i-- > 0;)
            if (s->names[i] == e->u.name) return s->values[i];
        fail_msg("no name %s", e->u.name);
        break;
    case OCH_KL_E_UNARY: {
        value v = eval(s, e->a);
        if (e->u.op == '-') return v.kind == F32 ? real(-v.f) : integer(v.kind, -v.i);
        assert_int_equal(e->u.op, '!');
        return integer(BOOL, !v.i);
    }
    case OCH_KL_E_BINARY: return binary(s, e);
    case OCH_KL_E_SELECT: {
        value c = eval(s, e->a), a = eval(s, e->b), b = eval(s, e->c);
        assert_int_equal(c.kind, BOOL);
        if (a.kind == NUMBER && b.kind != NUMBER) a = convert(a, b.kind);
        if (b.kind == NUMBER && a.kind != NUMBER) b = convert(b, a.kind);
        if (a.kind == NUMBER) a = integer(I32, a.i), b = integer(I32, b.i);
        assert_int_equal(a.kind, b.kind);
        return c.i ? a : b;
    }
    case OCH_KL_E_INDEX: {
        value v = eval(s, e->a);
        assert_int_equal(v.kind, PAIR);
        return real(e->args->u.integer ? v.g : v.f);
    }
    case OCH_KL_E_CALL: return call(s, e);
    default: fail_msg("%s:%u: an expression that this interpreter has not", e->pos.file->name, (unsigned)e->pos.line);
    }
    return (value){0};
}

static float run(const char *name, float x, float y, int n_args) {
    const value args[2] = {real(x), real(y)};
    for (const och_kl_decl *d = unit->decls; d; d = d->next)
        if (d->kind == OCH_KL_D_FN && !strcmp(d->name, name)) return call_fn(d, args, n_args).f;
    fail_msg("no function %s", name);
    return 0;
}

static void sweeps(void **s) {
    (void)s;
    for (int i = 0; i < N_FUNCTIONS; i++) {
        const function *f = &functions[i];
        worst w = {0};
        for (int n = 0; n < 200000; n++) {
            float x, y;
            arguments_of(f, n, &x, &y);
            rough = n >> 2 & 1;
            judge(f, x, y, run(f->name, x, y, f->one ? 1 : 2), &w);
        }
        report(f, &w);
    }
}

static int setup(void **s) {
    och_strbuf diag = {0};
    och_err err = {0};
    (void)s;
    if (och_kl_parse_builtin(OCH_KL_LIBRARY, &unit, &diag, &err) != OCH_OK) fail_msg("%s", och_strbuf_str(&diag));
    och_strbuf_deinit(&diag);
    return 0;
}

static int teardown(void **s) {
    (void)s;
    och_kl_unit_destroy(unit);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sweeps)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
