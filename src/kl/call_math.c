/* The functions of the language: arithmetic, bits, dot products, packing, conditions, sizes. */
#include "kl/spec.h"

#include <string.h>

static och_kl_type scalar(och_kl_base b) {
    return och_kl_type_of(b, 1);
}

typedef enum shape {
    F32_1,   /* f32 scalars to f32 */
    FLOATS,  /* f32, f16 and vectors of them */
    NUMBERS, /* those, and integers */
    TEST     /* f32 or f16 to bool */
} shape;

static const struct {
    const char *name;
    och_kl_intrinsic f;
    int n;
    shape shape;
} simple[] = {{"sqrt", OCH_KL_F_SQRT, 1, F32_1},       {"rcp", OCH_KL_F_RCP, 1, F32_1},
              {"rsqrt", OCH_KL_F_RSQRT, 1, F32_1},     {"exp2", OCH_KL_F_EXP2, 1, F32_1},
              {"log2", OCH_KL_F_LOG2, 1, F32_1},       {"floor", OCH_KL_F_FLOOR, 1, F32_1},
              {"ceil", OCH_KL_F_CEIL, 1, F32_1},       {"round", OCH_KL_F_ROUND, 1, F32_1},
              {"trunc", OCH_KL_F_TRUNC, 1, F32_1},     {"copysign", OCH_KL_F_COPYSIGN, 2, F32_1},
              {"fma", OCH_KL_F_FMA, 3, FLOATS},        {"abs", OCH_KL_F_ABS, 1, NUMBERS},
              {"min", OCH_KL_F_MIN, 2, NUMBERS},       {"max", OCH_KL_F_MAX, 2, NUMBERS},
              {"isnan", OCH_KL_F_ISNAN, 1, TEST},      {"isinf", OCH_KL_F_ISINF, 1, TEST},
              {"isfinite", OCH_KL_F_ISFINITE, 1, TEST}};

/* Functions whose arguments have fixed types; 0 ends. */
enum { T_U32 = 1, T_I32, T_F32, T_F16X2, T_F32X4, T_I32X4, T_U32X4 };
static const struct {
    const char *name;
    och_kl_intrinsic f;
    uint8_t result, args[3];
} fixed[] = {{"dot4_ss", OCH_KL_F_DOT4_SS, T_I32, {T_U32, T_U32, T_I32}},
             {"dot4_us", OCH_KL_F_DOT4_US, T_I32, {T_U32, T_U32, T_I32}},
             {"dot4_uu", OCH_KL_F_DOT4_UU, T_I32, {T_U32, T_U32, T_I32}},
             {"dot8_us4", OCH_KL_F_DOT8_US4, T_I32, {T_U32, T_U32, T_I32}},
             {"dot2", OCH_KL_F_DOT2, T_F32, {T_F16X2, T_F16X2, T_F32}},
             {"pack4_i8", OCH_KL_F_PACK4_I8, T_U32, {T_F32X4}},
             {"unpack4_i8", OCH_KL_F_UNPACK4_I8, T_I32X4, {T_U32}},
             {"unpack4_u8", OCH_KL_F_UNPACK4_U8, T_U32X4, {T_U32}},
             {"perm", OCH_KL_F_PERM, T_U32, {T_U32, T_U32, T_U32}}};

static och_kl_type fixed_type(int t) {
    switch (t) {
    case T_U32:
        return scalar(OCH_KL_U32);
    case T_I32:
        return scalar(OCH_KL_I32);
    case T_F32:
        return scalar(OCH_KL_F32);
    case T_F16X2:
        return och_kl_type_of(OCH_KL_F16, 2);
    case T_F32X4:
        return och_kl_type_of(OCH_KL_F32, 4);
    case T_I32X4:
        return och_kl_type_of(OCH_KL_I32, 4);
    default:
        return och_kl_type_of(OCH_KL_U32, 4);
    }
}

static const char *const others[] = {"clamp",       "mulhi",
                                     "clz",         "ctz",
                                     "popcount",    "bfe",
                                     "sbfe",        "nibbles_lo",
                                     "nibbles_hi",  "has",
                                     "ceil_div",    "round_up",
                                     "assert",      "fence",
                                     "bits",        "cluster",
                                     "atomic_add",  "atomic_min",
                                     "atomic_max",  "atomic_or",
                                     "atomic_and",  "atomic_exchange",
                                     "atomic_cas",  "atomic_load",
                                     "atomic_store", "await",
                                     "release"};

void och_kl_offer_builtins(och_kl_guess *g) {
    for (size_t i = 0; i < sizeof simple / sizeof *simple; i++) och_kl_guess_offer(g, simple[i].name);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) och_kl_guess_offer(g, fixed[i].name);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) och_kl_guess_offer(g, others[i]);
}

bool och_kl_has(const och_kl_profile *p, const char *capability, bool *out) {
    const och_target *t = p->target.target;
    uint32_t wave = p->wave == 32 ? OCH_WAVE32 : OCH_WAVE64;
    bool nvidia = t->vendor == OCH_VENDOR_NVIDIA;
    if (!strcmp(capability, "matrix"))
        *out = t->matrix != OCH_MATRIX_NONE && (t->matrix_waves & wave);
    else if (!strcmp(capability, "dot4"))
        *out = nvidia || (t->ops & (OCH_DOT4_I8 | OCH_DOT4_IU8));
    else if (!strcmp(capability, "packed_f16"))
        *out = nvidia || (t->ops & OCH_PK_FMA_F16);
    else if (!strcmp(capability, "fp8"))
        *out = t->fp8 != OCH_FP8_NONE && (nvidia || (t->ops & OCH_CVT_FP8));
    else if (!strcmp(capability, "async_copy"))
        *out = nvidia;
    else if (!strcmp(capability, "atomic_f32"))
        *out = nvidia || (t->ops & OCH_ATOMIC_ADD_F32);
    else
        return false;
    return true;
}

static bool args_of(och_kl_spec *s, const och_kl_expr *e, const char *name, int want, const och_kl_expr **args,
                    och_kl_val *v) {
    int n = och_kl_count_args(e->args);
    if (n != want)
        return och_kl_error(s->diag, e->pos, "%s takes %d %s, found %d", name, want,
                            want == 1 ? "argument" : "arguments", n);
    const och_kl_expr *a = e->args;
    for (int i = 0; i < n; i++, a = a->next) args[i] = a;
    return och_kl_eval_list(s, args, n, v);
}

/* All of one type. */
static bool unify_all(och_kl_spec *s, och_kl_pos pos, och_kl_val *v, int n, const char *name) {
    for (int i = 1; i < n; i++)
        if (!och_kl_unify(s, pos, &v[0], &v[i], name)) return false;
    for (int i = 1; i < n - 1; i++) /* an earlier one may have been a number, or narrower */
        if (!och_kl_unify(s, pos, &v[0], &v[i], name)) return false;
    return n > 1 || och_kl_to_value(s, pos, v[0], &v[0]);
}

static och_kl_level join_all(const och_kl_val *v, int n) {
    och_kl_level l = OCH_KL_L_CONST;
    for (int i = 0; i < n; i++) l = och_kl_join(l, v[i].level);
    return l;
}

static bool min_max(och_kl_spec *s, och_kl_pos pos, bool is_max, och_kl_val a, och_kl_val b, const char *name,
                    och_kl_val *out) {
    char buf[64];
    if (a.kind == OCH_KL_V_INT && b.kind == OCH_KL_V_INT) {
        *out = och_kl_val_int((a.integer > b.integer) == is_max ? a.integer : b.integer);
        return true;
    }
    och_kl_val v[2] = {a, b};
    if (!unify_all(s, pos, v, 2, name)) return false;
    och_kl_base base = v[0].ir->type.base;
    if (base == OCH_KL_BOOL || och_kl_is_storage(base))
        return och_kl_error(s->diag, pos, "%s does not take %s", name, och_kl_val_text(&v[0], buf));
    och_kl_level level = join_all(v, 2);
    och_kl_ir *x, *args[2] = {v[0].ir, v[1].ir};
    int64_t ka, kb;
    if (base == OCH_KL_I64 || base == OCH_KL_U64 || (och_kl_is_int(args[0], &ka) && och_kl_is_int(args[1], &kb))) {
        /* Both stand twice: in variables. */
        args[0] = och_kl_keep(s, pos, "a", args[0], v[0].level);
        args[1] = och_kl_keep(s, pos, "b", args[1], v[1].level);
        x = och_kl_select(s->code, pos, och_kl_binary(s->code, pos, is_max ? '>' : '<', args[0], args[1]), args[0],
                          args[1]);
    } else
        x = och_kl_call(s->code, pos, is_max ? OCH_KL_F_MAX : OCH_KL_F_MIN, args[0]->type, 0, args, 2);
    uint64_t multiple = och_kl_gcd(v[0].multiple, v[1].multiple);
    *out = och_kl_val_ir(x, level);
    if (x && x->kind != OCH_KL_X_INT && och_kl_base_is_int(base)) out->multiple = multiple;
    return x != NULL;
}

static bool simple_call(och_kl_spec *s, const och_kl_expr *e, size_t m, och_kl_val *out) {
    const och_kl_expr *args[3];
    och_kl_val v[3];
    och_kl_ir *x[3];
    char buf[64];
    const char *name = simple[m].name;
    int n = simple[m].n;
    och_kl_intrinsic f = simple[m].f;
    if (!args_of(s, e, name, n, args, v)) return false;
    if (f == OCH_KL_F_MIN || f == OCH_KL_F_MAX) return min_max(s, e->pos, f == OCH_KL_F_MAX, v[0], v[1], name, out);
    if (f == OCH_KL_F_ABS && v[0].kind == OCH_KL_V_INT) {
        if (v[0].integer == INT64_MIN)
            return och_kl_error(s->diag, e->pos, "abs(%lld) does not fit 64 bits", (long long)v[0].integer);
        *out = och_kl_val_int(v[0].integer < 0 ? -v[0].integer : v[0].integer);
        return true;
    }
    if (simple[m].shape != NUMBERS && simple[m].shape != TEST)
        for (int i = 0; i < n; i++)
            if (v[i].kind == OCH_KL_V_INT) v[i] = och_kl_val_real((double)v[i].integer);
    if (!unify_all(s, e->pos, v, n, name)) return false;
    och_kl_type t = v[0].ir->type;
    och_kl_level level = join_all(v, n);
    bool is_float = t.base == OCH_KL_F32 || t.base == OCH_KL_F16;
    switch (simple[m].shape) {
    case F32_1:
        if (t.base != OCH_KL_F32 || t.lanes != 1)
            return och_kl_error(s->diag, e->pos, "%s takes f32, found %s", name, och_kl_val_text(&v[0], buf));
        break;
    case FLOATS:
        if (!is_float)
            return och_kl_error(s->diag, e->pos, "%s takes f32, f16 and vectors of them, found %s", name,
                                och_kl_val_text(&v[0], buf));
        break;
    case TEST:
        if (!is_float || t.lanes != 1)
            return och_kl_error(s->diag, e->pos, "%s takes f32 or f16, found %s", name, och_kl_val_text(&v[0], buf));
        if (t.base == OCH_KL_F16)
            v[0] = och_kl_val_ir(och_kl_convert(s->code, e->pos, scalar(OCH_KL_F32), v[0].ir), level);
        t = scalar(OCH_KL_BOOL);
        break;
    case NUMBERS: /* abs */
        if (t.base == OCH_KL_I32 || t.base == OCH_KL_I64) {
            och_kl_val kept = och_kl_keep_val(s, e->pos, "x", v[0]), minus;
            if (kept.kind == OCH_KL_V_BAD) return false;
            minus = och_kl_val_ir(och_kl_unary(s->code, e->pos, '-', kept.ir), level);
            return minus.ir && min_max(s, e->pos, true, kept, minus, name, out);
        }
        if (!is_float) return och_kl_error(s->diag, e->pos, "%s does not take %s", name, och_kl_val_text(&v[0], buf));
        break;
    }
    for (int i = 0; i < n; i++) x[i] = v[i].ir;
    *out = och_kl_val_ir(och_kl_call(s->code, e->pos, f, t, 0, x, n), level);
    return out->ir != NULL;
}

static bool fixed_call(och_kl_spec *s, const och_kl_expr *e, size_t m, och_kl_val *out) {
    const och_kl_expr *args[3];
    och_kl_val v[3];
    och_kl_ir *x[3];
    int n = 0;
    while (n < 3 && fixed[m].args[n]) n++;
    if (!args_of(s, e, fixed[m].name, n, args, v)) return false;
    for (int i = 0; i < n; i++) {
        if (!och_kl_to_type(s, args[i]->pos, v[i], fixed_type(fixed[m].args[i]), fixed[m].name, &v[i])) return false;
        x[i] = v[i].ir;
    }
    *out =
        och_kl_val_ir(och_kl_call(s->code, e->pos, fixed[m].f, fixed_type(fixed[m].result), 0, x, n), join_all(v, n));
    return out->ir != NULL;
}

/* clz, ctz, popcount: of 32 bits an intrinsic, of 64 two. */
static bool count_bits(och_kl_spec *s, const och_kl_expr *e, och_kl_intrinsic f, const char *name, och_kl_val *out) {
    const och_kl_expr *args[1];
    och_kl_val v[1];
    char buf[64];
    och_kl_pos pos = e->pos;
    if (!args_of(s, e, name, 1, args, v) || !och_kl_to_value(s, pos, v[0], &v[0])) return false;
    och_kl_base b = v[0].ir->type.base;
    if (v[0].ir->type.lanes != 1 || (b != OCH_KL_I32 && b != OCH_KL_U32 && b != OCH_KL_I64 && b != OCH_KL_U64))
        return och_kl_error(s->diag, pos, "%s takes a 32 or 64 bit integer, found %s", name,
                            och_kl_val_text(&v[0], buf));
    och_kl_type u32 = scalar(OCH_KL_U32), i32 = scalar(OCH_KL_I32);
    och_kl_ir *r;
    if (b == OCH_KL_I32 || b == OCH_KL_U32) {
        och_kl_ir *x = och_kl_convert(s->code, pos, u32, v[0].ir);
        r = och_kl_call(s->code, pos, f, i32, 0, &x, 1);
    } else {
        och_kl_ir *x = och_kl_convert(s->code, pos, scalar(OCH_KL_U64), och_kl_keep(s, pos, "x", v[0].ir, v[0].level));
        och_kl_ir *hi = och_kl_convert(
            s->code, pos, u32,
            och_kl_binary(s->code, pos, OCH_KL_OP_SHR, x, och_kl_int(s->code, pos, scalar(OCH_KL_U64), 32)));
        och_kl_ir *lo = och_kl_convert(s->code, pos, u32, x);
        hi = och_kl_keep(s, pos, "hi", hi, v[0].level);
        lo = och_kl_keep(s, pos, "lo", lo, v[0].level);
        if (!hi || !lo) return false;
        och_kl_ir *a = och_kl_call(s->code, pos, f, i32, 0, &hi, 1), *c = och_kl_call(s->code, pos, f, i32, 0, &lo, 1);
        if (f == OCH_KL_F_POPCOUNT)
            r = och_kl_binary(s->code, pos, '+', a, c);
        else {
            och_kl_ir *first = f == OCH_KL_F_CLZ ? hi : lo, *nf = f == OCH_KL_F_CLZ ? a : c,
                      *ns = f == OCH_KL_F_CLZ ? c : a;
            och_kl_ir *zero = och_kl_binary(s->code, pos, OCH_KL_OP_EQ, first, och_kl_u32(s, pos, 0));
            r = och_kl_select(s->code, pos, zero, och_kl_binary(s->code, pos, '+', ns, och_kl_i32(s, pos, 32)), nf);
        }
    }
    *out = och_kl_val_ir(r, v[0].level);
    return r != NULL;
}

static bool bit_field(och_kl_spec *s, const och_kl_expr *e, bool is_signed, och_kl_val *out) {
    const och_kl_expr *args[3];
    och_kl_val v[3];
    och_kl_ir *x[3];
    const char *name = is_signed ? "sbfe" : "bfe";
    if (!args_of(s, e, name, 3, args, v)) return false;
    och_kl_type t = scalar(is_signed ? OCH_KL_I32 : OCH_KL_U32);
    for (int i = 0; i < 3; i++) {
        char buf[64];
        if (och_kl_is_number(&v[i])) {
            if (!och_kl_convert_val(s, args[i]->pos, i ? scalar(OCH_KL_U32) : t, v[i], &v[i])) return false;
        } else if (!och_kl_to_value(s, args[i]->pos, v[i], &v[i]))
            return false;
        och_kl_type vt = v[i].ir->type;
        if (vt.lanes != 1 || (vt.base != OCH_KL_I32 && vt.base != OCH_KL_U32))
            return och_kl_error(s->diag, args[i]->pos, "%s takes i32 or u32, found %s", name,
                                och_kl_val_text(&v[i], buf));
        x[i] = och_kl_convert(s->code, args[i]->pos, i ? scalar(OCH_KL_U32) : t, v[i].ir);
    }
    *out = och_kl_val_ir(och_kl_call(s->code, e->pos, is_signed ? OCH_KL_F_SBFE : OCH_KL_F_BFE, t, 0, x, 3),
                         join_all(v, 3));
    return out->ir != NULL;
}

static bool mulhi(och_kl_spec *s, const och_kl_expr *e, och_kl_val *out) {
    const och_kl_expr *args[2];
    och_kl_val v[2];
    char buf[64];
    if (!args_of(s, e, "mulhi", 2, args, v) || !unify_all(s, e->pos, v, 2, "mulhi")) return false;
    och_kl_type t = v[0].ir->type;
    if (t.lanes != 1 || (t.base != OCH_KL_I32 && t.base != OCH_KL_U32))
        return och_kl_error(s->diag, e->pos, "mulhi takes i32 or u32, found %s", och_kl_val_text(&v[0], buf));
    och_kl_ir *x[2] = {v[0].ir, v[1].ir};
    *out = och_kl_val_ir(och_kl_call(s->code, e->pos, OCH_KL_F_MULHI, t, 0, x, 2), join_all(v, 2));
    return out->ir != NULL;
}

static bool nibbles(och_kl_spec *s, const och_kl_expr *e, bool high, och_kl_val *out) {
    const och_kl_expr *args[1];
    och_kl_val v[1];
    char buf[64];
    if (!args_of(s, e, high ? "nibbles_hi" : "nibbles_lo", 1, args, v)) return false;
    if (och_kl_is_number(&v[0]) ? !och_kl_to_type(s, e->pos, v[0], scalar(OCH_KL_U32), "nibbles", &v[0])
                                : !och_kl_to_value(s, e->pos, v[0], &v[0]))
        return false;
    if (v[0].ir->type.base != OCH_KL_U32)
        return och_kl_error(s->diag, e->pos, "nibbles are taken of u32, found %s", och_kl_val_text(&v[0], buf));
    och_kl_type t = v[0].ir->type;
    och_kl_ir *x = v[0].ir;
    if (high) x = och_kl_binary(s->code, e->pos, OCH_KL_OP_SHR, x, och_kl_int(s->code, e->pos, t, 4));
    *out =
        och_kl_val_ir(och_kl_binary(s->code, e->pos, '&', x, och_kl_int(s->code, e->pos, t, 0x0f0f0f0f)), v[0].level);
    return out->ir != NULL;
}

/* ceil_div(a, b), round_up(a, b) of numbers that are not negative. */
static bool sizes(och_kl_spec *s, const och_kl_expr *e, bool round_up, och_kl_val *out) {
    const och_kl_expr *args[2];
    och_kl_val v[2], t, one = och_kl_val_int(1);
    const char *name = round_up ? "round_up" : "ceil_div";
    if (!args_of(s, e, name, 2, args, v)) return false;
    if (v[0].kind == OCH_KL_V_INT && v[1].kind == OCH_KL_V_INT) {
        int64_t a = v[0].integer, b = v[1].integer;
        if (b < 1 || a < 0)
            return och_kl_error(s->diag, e->pos, "%s(%lld, %lld): expected a number from 0 on and a divisor from 1 on",
                                name, (long long)a, (long long)b);
        int64_t q = a / b + (a % b != 0);
        if (round_up && __builtin_mul_overflow(q, b, &q))
            return och_kl_error(s->diag, e->pos, "round_up(%lld, %lld) does not fit 64 bits", (long long)a,
                                (long long)b);
        *out = och_kl_val_int(q);
        return true;
    }
    v[1] = och_kl_keep_val(s, e->pos, "d", v[1]);
    if (!och_kl_binary_val(s, e->pos, '-', v[1], one, &t) || !och_kl_binary_val(s, e->pos, '+', v[0], t, &t) ||
        !och_kl_binary_val(s, e->pos, '/', t, v[1], out))
        return false;
    if (!round_up) return true;
    return och_kl_binary_val(s, e->pos, '*', *out, v[1], out);
}

static bool assertion(och_kl_spec *s, const och_kl_expr *e, och_kl_val *out) {
    bool holds;
    const och_kl_expr *text = e->args ? e->args->next : NULL;
    if (och_kl_count_args(e->args) != 2 || text->kind != OCH_KL_E_STRING)
        return och_kl_error(s->diag, e->pos, "assert takes a condition and a text");
    *out = (och_kl_val){.kind = OCH_KL_V_VOID};
    if (!och_kl_eval_const_bool(s, e->args, "what is asserted", &holds)) return false;
    return holds || och_kl_error(s->diag, e->pos, "%s", text->u.name);
}

bool och_kl_builtin(och_kl_spec *s, const och_kl_expr *e, const char *name, bool *out_is, och_kl_val *out) {
    *out_is = true;
    for (size_t i = 0; i < sizeof simple / sizeof *simple; i++)
        if (!strcmp(simple[i].name, name)) return simple_call(s, e, i, out);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (!strcmp(fixed[i].name, name)) return fixed_call(s, e, i, out);
    if (!strcmp(name, "clamp")) {
        const och_kl_expr *args[3];
        och_kl_val v[3], low;
        return args_of(s, e, name, 3, args, v) && min_max(s, e->pos, true, v[0], v[1], name, &low) &&
               min_max(s, e->pos, false, low, v[2], name, out);
    }
    if (!strcmp(name, "mulhi")) return mulhi(s, e, out);
    if (!strcmp(name, "clz")) return count_bits(s, e, OCH_KL_F_CLZ, name, out);
    if (!strcmp(name, "ctz")) return count_bits(s, e, OCH_KL_F_CTZ, name, out);
    if (!strcmp(name, "popcount")) return count_bits(s, e, OCH_KL_F_POPCOUNT, name, out);
    if (!strcmp(name, "bfe")) return bit_field(s, e, false, out);
    if (!strcmp(name, "sbfe")) return bit_field(s, e, true, out);
    if (!strcmp(name, "nibbles_lo")) return nibbles(s, e, false, out);
    if (!strcmp(name, "nibbles_hi")) return nibbles(s, e, true, out);
    if (!strcmp(name, "ceil_div")) return sizes(s, e, false, out);
    if (!strcmp(name, "round_up")) return sizes(s, e, true, out);
    if (!strcmp(name, "assert")) return assertion(s, e, out);
    if (!strcmp(name, "has")) {
        bool has;
        if (och_kl_count_args(e->args) != 1 || e->args->kind != OCH_KL_E_NAME ||
            !och_kl_has(&s->profile, e->args->u.name, &has))
            return och_kl_error(s->diag, e->pos,
                                "has takes one of matrix, dot4, packed_f16, fp8, async_copy, atomic_f32");
        *out = och_kl_val_bool(s, e->pos, has);
        return out->ir != NULL;
    }
    return och_kl_atomic(s, e, name, out_is, out);
}
