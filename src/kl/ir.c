#include "kl/ir.h"

#include "base/alloc.h"
#include "base/half.h"

#include <math.h>
#include <string.h>

const char *const och_kl_base_names[OCH_KL_BASE_COUNT_] = {"void", "bool", "i8",  "u8",  "i16",  "u16", "i32", "u32",
                                                           "i64",  "u64",  "f16", "bf16", "f32", "fp8", "bf8"};
static const uint8_t base_bytes[OCH_KL_BASE_COUNT_] = {0, 1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 1, 1};

uint32_t och_kl_base_bytes(och_kl_base b) { return base_bytes[b]; }
bool och_kl_base_is_int(och_kl_base b) { return b >= OCH_KL_I8 && b <= OCH_KL_U64; }
bool och_kl_base_is_signed(och_kl_base b) { return b == OCH_KL_I8 || b == OCH_KL_I16 || b == OCH_KL_I32 || b == OCH_KL_I64; }
bool och_kl_base_is_float(och_kl_base b) { return b >= OCH_KL_F16 && b < OCH_KL_BASE_COUNT_; }

static const uint8_t call_effects[OCH_KL_F_COUNT_] = {
#define OCH_KL_INTRINSIC(sym, name, n_args, effect) effect,
#include "kl/intrinsics.def"
#undef OCH_KL_INTRINSIC
};

och_status och_kl_code_create(const och_kl_profile *profile, och_kl_code **out_code, och_err *err) {
    *out_code = NULL;
    och_kl_code *c = och_calloc(1, sizeof *c);
    if (!c) return och_err_nomem(err, sizeof *c, "the code of a kernel");
    och_arena_init(&c->arena);
    c->profile = *profile;
    *out_code = c;
    return OCH_OK;
}

void och_kl_code_destroy(och_kl_code *c) {
    if (!c) return;
    och_arena_deinit(&c->arena);
    och_free(c);
}

const och_kl_signature *och_kl_code_signature(const och_kl_code *c) { return &c->signature; }

/* ---- constants ---- */

/* v as a value of type b: wrapped around, sign or zero extended to 64 bits. */
static int64_t wrap(och_kl_base b, int64_t v) {
    switch (b) {
    case OCH_KL_BOOL: return v != 0;
    case OCH_KL_I8: return (int8_t)v;
    case OCH_KL_U8: return (uint8_t)v;
    case OCH_KL_I16: return (int16_t)v;
    case OCH_KL_U16: return (uint16_t)v;
    case OCH_KL_I32: return (int32_t)v;
    case OCH_KL_U32: return (uint32_t)v;
    default: return v;
    }
}

/* To binary16 in one rounding: by way of a float rounded to odd, which keeps what the second rounding must know. */
static double to_f16(double v) {
    float f = (float)v;
    if ((double)f != v && !isnan(v) && !isinf(f)) {
        uint32_t u = och_f32_bits(f);
        if (fabs((double)f) > fabs(v)) u--;
        f = och_f32_from_bits(u | 1);
    }
    return (double)och_f16_to_f32(och_f32_to_f16(f));
}

static double round_to(och_kl_base b, double v) {
    if (b == OCH_KL_F16) return to_f16(v);
    if (b == OCH_KL_BF16) return (double)och_bf16_to_f32(och_f32_to_bf16((float)v));
    return (double)(float)v;
}

bool och_kl_is_int(const och_kl_ir *x, int64_t *out_v) {
    if (!x || x->kind != OCH_KL_X_INT) return false;
    *out_v = x->integer;
    return true;
}

static bool same_type(och_kl_type a, och_kl_type b) { return a.base == b.base && a.lanes == b.lanes; }

/* ---- nodes ---- */

static och_kl_ir *node(och_kl_code *c, och_kl_ir_kind kind, och_kl_pos pos, och_kl_type t, och_kl_ir *const *args, int n) {
    for (int i = 0; i < n; i++)
        if (!args[i]) return NULL; /* memory was refused below; `failed` is set */
    och_kl_ir *x = och_arena_alloc(&c->arena, 1, sizeof *x);
    if (x && n) x->args = och_arena_alloc(&c->arena, (size_t)n, sizeof *x->args);
    if (!x || (n && !x->args)) {
        c->failed = true;
        return NULL;
    }
    x->kind = kind;
    x->pos = pos;
    x->type = t;
    x->n_args = n;
    for (int i = 0; i < n; i++) {
        x->args[i] = args[i];
        if (args[i]->uniformity > x->uniformity) x->uniformity = args[i]->uniformity;
        if (args[i]->effects) x->effects = true;
    }
    return x;
}

static och_kl_ir *splat(och_kl_code *c, och_kl_pos pos, och_kl_type t, och_kl_ir *scalar) {
    return t.lanes > 1 ? node(c, OCH_KL_X_BUILD, pos, t, &scalar, 1) : scalar;
}

och_kl_ir *och_kl_int(och_kl_code *c, och_kl_pos pos, och_kl_type t, int64_t v) {
    if (och_kl_base_is_float(t.base)) return och_kl_real(c, pos, t, (double)v);
    och_kl_ir *x = node(c, OCH_KL_X_INT, pos, och_kl_type_of(t.base, 1), NULL, 0);
    if (x) x->integer = wrap(t.base, v);
    return splat(c, pos, t, x);
}

och_kl_ir *och_kl_real(och_kl_code *c, och_kl_pos pos, och_kl_type t, double v) {
    och_kl_ir *x = node(c, OCH_KL_X_REAL, pos, och_kl_type_of(t.base, 1), NULL, 0);
    if (x) x->real = round_to(t.base, v);
    return splat(c, pos, t, x);
}

och_kl_ir *och_kl_use_at(och_kl_code *c, och_kl_pos pos, och_kl_var *v, const uint32_t at[3]) {
    if (!v) return NULL;
    och_kl_ir *x = node(c, OCH_KL_X_VAR, pos, v->type, NULL, 0);
    if (!x) return NULL;
    x->var = v;
    x->uniformity = v->uniformity;
    for (int i = 0; at && i < v->n_dims; i++) x->at[i] = at[i];
    return x;
}

och_kl_ir *och_kl_use(och_kl_code *c, och_kl_pos pos, och_kl_var *v) { return och_kl_use_at(c, pos, v, NULL); }

och_kl_ir *och_kl_unary(och_kl_code *c, och_kl_pos pos, int op, och_kl_ir *a) {
    if (!a) return NULL;
    och_kl_type t = op == '!' ? och_kl_type_of(OCH_KL_BOOL, 1) : a->type;
    if (a->kind == OCH_KL_X_INT) {
        if (op == '!') return och_kl_int(c, pos, t, !a->integer);
        return och_kl_int(c, pos, t, op == '-' ? (int64_t)(0 - (uint64_t)a->integer) : ~a->integer);
    }
    if (a->kind == OCH_KL_X_REAL && op == '-') return och_kl_real(c, pos, t, -a->real);
    och_kl_ir *x = node(c, OCH_KL_X_UNARY, pos, t, &a, 1);
    if (x) x->op = op;
    return x;
}

static bool is_comparison(int op) {
    return op == '<' || op == '>' || op == OCH_KL_OP_EQ || op == OCH_KL_OP_NE || op == OCH_KL_OP_LE || op == OCH_KL_OP_GE;
}

/* False: not to be folded (a division by zero is the program's). */
static bool fold_int(int op, och_kl_base b, int64_t va, int64_t vb, int64_t *out) {
    uint64_t ua = (uint64_t)va, ub = (uint64_t)vb;
    bool is_signed = och_kl_base_is_signed(b);
    uint64_t width = 8 * (uint64_t)base_bytes[b];
    switch (op) {
    case '+': *out = (int64_t)(ua + ub); return true;
    case '-': *out = (int64_t)(ua - ub); return true;
    case '*': *out = (int64_t)(ua * ub); return true;
    case '/':
    case '%':
        if (!vb) return false;
        if (!is_signed) *out = (int64_t)(op == '/' ? ua / ub : ua % ub);
        else if (vb == -1) *out = op == '/' ? (int64_t)(0 - ua) : 0; /* the least integer has no opposite */
        else *out = op == '/' ? va / vb : va % vb;
        return true;
    case '&': *out = va & vb; return true;
    case '|': *out = va | vb; return true;
    case '^': *out = va ^ vb; return true;
    case OCH_KL_OP_SHL: *out = (int64_t)(ua << (ub % width)); return true;
    case OCH_KL_OP_SHR: *out = is_signed ? va >> (ub % width) : (int64_t)(ua >> (ub % width)); return true;
    case OCH_KL_OP_EQ: *out = va == vb; return true;
    case OCH_KL_OP_NE: *out = va != vb; return true;
    case '<': *out = is_signed ? va < vb : ua < ub; return true;
    case '>': *out = is_signed ? va > vb : ua > ub; return true;
    case OCH_KL_OP_LE: *out = is_signed ? va <= vb : ua <= ub; return true;
    case OCH_KL_OP_GE: *out = is_signed ? va >= vb : ua >= ub; return true;
    case OCH_KL_OP_AND: *out = va && vb; return true;
    case OCH_KL_OP_OR: *out = va || vb; return true;
    default: return false;
    }
}

/* Arithmetic in the type itself. In binary16 by way of float: 24 bits are enough that the second rounding does no harm
 * (+ - * /). */
static och_kl_ir *fold_real(och_kl_code *c, och_kl_pos pos, int op, och_kl_base b, double da, double db) {
    float fa = (float)da, fb = (float)db;
    och_kl_type boolean = och_kl_type_of(OCH_KL_BOOL, 1), t = och_kl_type_of(b, 1);
    switch (op) {
    case '+': return och_kl_real(c, pos, t, (double)(fa + fb));
    case '-': return och_kl_real(c, pos, t, (double)(fa - fb));
    case '*': return och_kl_real(c, pos, t, (double)(fa * fb));
    case '/': return och_kl_real(c, pos, t, (double)(fa / fb));
    case '<': return och_kl_int(c, pos, boolean, fa < fb);
    case '>': return och_kl_int(c, pos, boolean, fa > fb);
    case OCH_KL_OP_LE: return och_kl_int(c, pos, boolean, fa <= fb);
    case OCH_KL_OP_GE: return och_kl_int(c, pos, boolean, fa >= fb);
    case OCH_KL_OP_EQ: return och_kl_int(c, pos, boolean, fa == fb);
    case OCH_KL_OP_NE: return och_kl_int(c, pos, boolean, fa != fb);
    default: return NULL;
    }
}

/* x op v, or v op x where `left`, that is known from v alone. NULL: nothing is. */
static och_kl_ir *fold_identity(och_kl_code *c, och_kl_pos pos, int op, och_kl_ir *x, int64_t v, bool left) {
    och_kl_type t = x->type;
    bool drop = !x->effects;
    switch (op) {
    case '+': case '|': case '^': return v == 0 ? x : NULL;
    case '-': case OCH_KL_OP_SHL: case OCH_KL_OP_SHR: return v == 0 && !left ? x : NULL;
    case '*':
        if (v == 1) return x;
        return v == 0 && drop ? och_kl_int(c, pos, t, 0) : NULL;
    case '/': return v == 1 && !left ? x : NULL;
    case '%': return v == 1 && !left && drop ? och_kl_int(c, pos, t, 0) : NULL;
    case '&':
        if (v == wrap(t.base, -1)) return x;
        return v == 0 && drop ? och_kl_int(c, pos, t, 0) : NULL;
    case OCH_KL_OP_AND:
        if (v) return x;
        return drop || left ? och_kl_int(c, pos, t, 0) : NULL;
    case OCH_KL_OP_OR:
        if (!v) return x;
        return drop || left ? och_kl_int(c, pos, t, 1) : NULL;
    default: return NULL;
    }
}

och_kl_ir *och_kl_binary(och_kl_code *c, och_kl_pos pos, int op, och_kl_ir *a, och_kl_ir *b) {
    if (!a || !b) return NULL;
    och_kl_type t = a->type;
    och_kl_type result = is_comparison(op) || op == OCH_KL_OP_AND || op == OCH_KL_OP_OR ? och_kl_type_of(OCH_KL_BOOL, 1) : t;
    int64_t va, vb;
    bool ka = och_kl_is_int(a, &va), kb = och_kl_is_int(b, &vb);
    if (ka && kb) {
        int64_t v;
        if (fold_int(op, t.base, va, vb, &v)) return och_kl_int(c, pos, result, v);
    } else if (ka || kb) {
        och_kl_ir *x = fold_identity(c, pos, op, ka ? b : a, ka ? va : vb, ka);
        if (x || c->failed) return x;
    }
    if (a->kind == OCH_KL_X_REAL && b->kind == OCH_KL_X_REAL) {
        och_kl_ir *x = fold_real(c, pos, op, t.base, a->real, b->real);
        if (x || c->failed) return x;
    }
    och_kl_ir *args[2] = {a, b};
    och_kl_ir *x = node(c, OCH_KL_X_BINARY, pos, result, args, 2);
    if (x) x->op = op;
    return x;
}

och_kl_ir *och_kl_select(och_kl_code *c, och_kl_pos pos, och_kl_ir *cond, och_kl_ir *a, och_kl_ir *b) {
    if (!cond || !a || !b) return NULL;
    int64_t v;
    if (och_kl_is_int(cond, &v) && !(v ? b : a)->effects) return v ? a : b;
    och_kl_ir *args[3] = {cond, a, b};
    return node(c, OCH_KL_X_SELECT, pos, a->type, args, 3);
}

och_kl_ir *och_kl_convert(och_kl_code *c, och_kl_pos pos, och_kl_type t, och_kl_ir *a) {
    if (!a) return NULL;
    if (same_type(t, a->type)) return a;
    if (a->kind == OCH_KL_X_INT && t.lanes == 1) {
        if (t.base == OCH_KL_BOOL || och_kl_base_is_int(t.base)) return och_kl_int(c, pos, t, a->integer);
        if (t.base == OCH_KL_F32) { /* one rounding, from the integer itself */
            float f = a->type.base == OCH_KL_U64 ? (float)(uint64_t)a->integer : (float)a->integer;
            return och_kl_real(c, pos, t, (double)f);
        }
        if (t.base == OCH_KL_F16 && a->integer > -(1ll << 53) && a->integer < (1ll << 53))
            return och_kl_real(c, pos, t, (double)a->integer);
    }
    if (a->kind == OCH_KL_X_REAL && t.lanes == 1) {
        if (t.base == OCH_KL_F32 || t.base == OCH_KL_F16) return och_kl_real(c, pos, t, a->real);
        /* Out of an integer's range the target decides. */
        if ((t.base == OCH_KL_I32 && a->real > -2147483649.0 && a->real < 2147483648.0) ||
            (t.base == OCH_KL_U32 && a->real > -1.0 && a->real < 4294967296.0) ||
            (t.base == OCH_KL_I64 && fabs(a->real) < 0x1p63) || (t.base == OCH_KL_U64 && a->real > -1.0 && a->real < 0x1p63))
            return och_kl_int(c, pos, t, (int64_t)a->real);
    }
    if (a->kind == OCH_KL_X_BUILD && a->n_args == 1 && t.lanes == a->type.lanes)
        return splat(c, pos, t, och_kl_convert(c, pos, och_kl_type_of(t.base, 1), a->args[0]));
    return node(c, OCH_KL_X_CONVERT, pos, t, &a, 1);
}

och_kl_ir *och_kl_bitcast(och_kl_code *c, och_kl_pos pos, och_kl_type t, och_kl_ir *a) {
    if (!a) return NULL;
    if (same_type(t, a->type)) return a;
    if (t.lanes == 1 && a->type.lanes == 1) {
        if (a->kind == OCH_KL_X_INT && och_kl_base_is_int(t.base)) return och_kl_int(c, pos, t, a->integer);
        if (a->kind == OCH_KL_X_INT && t.base == OCH_KL_F32) {
            float f = och_f32_from_bits((uint32_t)a->integer);
            if (!isnan(f)) return och_kl_real(c, pos, t, (double)f);
        }
        if (a->kind == OCH_KL_X_REAL && a->type.base == OCH_KL_F32 && och_kl_base_is_int(t.base) && !isnan(a->real))
            return och_kl_int(c, pos, t, (int64_t)och_f32_bits((float)a->real));
    }
    if (a->kind == OCH_KL_X_BITCAST) return och_kl_bitcast(c, pos, t, a->args[0]);
    return node(c, OCH_KL_X_BITCAST, pos, t, &a, 1);
}

och_kl_ir *och_kl_build(och_kl_code *c, och_kl_pos pos, och_kl_type t, och_kl_ir *const *elems, int n) {
    if (t.lanes == 1) return elems[0];
    return node(c, OCH_KL_X_BUILD, pos, t, elems, n);
}

och_kl_ir *och_kl_elem(och_kl_code *c, och_kl_pos pos, och_kl_ir *a, int i) {
    if (!a) return NULL;
    if (a->type.lanes == 1) return a;
    /* An element of what is put together here, when leaving out the rest loses nothing. */
    if (!a->effects) {
        if (a->kind == OCH_KL_X_BUILD) return a->args[a->n_args == 1 ? 0 : i];
        if (a->kind == OCH_KL_X_SLICE) return och_kl_elem(c, pos, a->args[0], (int)a->integer + i);
        if (a->kind == OCH_KL_X_CONCAT) {
            int lanes = a->args[0]->type.lanes;
            return och_kl_elem(c, pos, a->args[i / lanes], i % lanes);
        }
    }
    och_kl_ir *x = node(c, OCH_KL_X_ELEM, pos, och_kl_type_of(a->type.base, 1), &a, 1);
    if (x) x->integer = i;
    return x;
}

och_kl_ir *och_kl_slice(och_kl_code *c, och_kl_pos pos, och_kl_ir *a, int first, int lanes) {
    if (!a) return NULL;
    if (first == 0 && lanes == a->type.lanes) return a;
    if (lanes == 1) return och_kl_elem(c, pos, a, first);
    och_kl_type t = och_kl_type_of(a->type.base, lanes);
    if (!a->effects) {
        if (a->kind == OCH_KL_X_BUILD)
            return a->n_args == 1 ? splat(c, pos, t, a->args[0]) : och_kl_build(c, pos, t, a->args + first, lanes);
        if (a->kind == OCH_KL_X_SLICE) return och_kl_slice(c, pos, a->args[0], (int)a->integer + first, lanes);
        if (a->kind == OCH_KL_X_CONCAT) {
            int part = a->args[0]->type.lanes;
            if (first / part == (first + lanes - 1) / part)
                return och_kl_slice(c, pos, a->args[first / part], first % part, lanes);
        }
    }
    och_kl_ir *x = node(c, OCH_KL_X_SLICE, pos, t, &a, 1);
    if (x) x->integer = first;
    return x;
}

och_kl_ir *och_kl_concat(och_kl_code *c, och_kl_pos pos, och_kl_ir *const *parts, int n) {
    if (n == 1 || !parts[0]) return parts[0];
    och_kl_type t = och_kl_type_of(parts[0]->type.base, n * parts[0]->type.lanes);
    return node(c, parts[0]->type.lanes == 1 ? OCH_KL_X_BUILD : OCH_KL_X_CONCAT, pos, t, parts, n);
}

och_kl_ir *och_kl_load(och_kl_code *c, och_kl_pos pos, const och_kl_mem *mem) {
    if (!mem->index) return NULL;
    och_kl_ir *x = node(c, OCH_KL_X_LOAD, pos, och_kl_type_of(mem->elem, mem->lanes), NULL, 0);
    if (!x) return NULL;
    x->mem = *mem;
    x->uniformity = mem->index->uniformity > OCH_KL_U_GROUP ? mem->index->uniformity : OCH_KL_U_GROUP;
    x->effects = mem->index->effects;
    return x;
}

/* What a call adds to the uniformity of its arguments, or (wave operations over the whole wave) takes from it. */
static och_kl_uniformity call_uniformity(const och_kl_code *c, och_kl_intrinsic f, int extra, och_kl_uniformity of_args) {
    switch (f) {
    case OCH_KL_F_GROUP_ID: case OCH_KL_F_GROUP_COUNT: case OCH_KL_F_PRESENT: return OCH_KL_U_GROUP;
    case OCH_KL_F_WAVE_ID: case OCH_KL_F_FIRST: case OCH_KL_F_BALLOT: return OCH_KL_U_WAVE;
    case OCH_KL_F_WAVE_SUM: case OCH_KL_F_WAVE_MAX: case OCH_KL_F_WAVE_MIN: case OCH_KL_F_BROADCAST:
        return extra == c->profile.wave ? OCH_KL_U_WAVE : OCH_KL_U_LANE;
    case OCH_KL_F_THREAD_ID: case OCH_KL_F_LANE: case OCH_KL_F_WAVE_SCAN: case OCH_KL_F_SHUFFLE: case OCH_KL_F_SHUFFLE_XOR:
    case OCH_KL_F_ATOMIC_ADD: case OCH_KL_F_ATOMIC_MIN: case OCH_KL_F_ATOMIC_MAX: case OCH_KL_F_ATOMIC_OR:
    case OCH_KL_F_ATOMIC_AND: case OCH_KL_F_ATOMIC_EXCHANGE: case OCH_KL_F_ATOMIC_CAS: case OCH_KL_F_ATOMIC_LOAD:
    case OCH_KL_F_ATOMIC_STORE: case OCH_KL_F_MMA: case OCH_KL_F_LOAD_MATRIX: case OCH_KL_F_GROUP_WORDS: return OCH_KL_U_LANE;
    case OCH_KL_F_GROUP_PLACE: return OCH_KL_U_WAVE;
    default: return of_args;
    }
}

och_kl_ir *och_kl_call(och_kl_code *c, och_kl_pos pos, och_kl_intrinsic f, och_kl_type t, int extra,
                       och_kl_ir *const *args, int n) {
    och_kl_ir *x = node(c, OCH_KL_X_CALL, pos, t, args, n);
    if (!x) return NULL;
    x->intrinsic = f;
    x->extra = extra;
    x->uniformity = call_uniformity(c, f, extra, x->uniformity);
    if (call_effects[f]) x->effects = true;
    c->used[f / 32] |= 1u << f % 32;
    return x;
}

bool och_kl_code_own_target(const och_kl_code *c) { return och_kl_uses(c, OCH_KL_F_GROUP_MMA); }
bool och_kl_uses(const och_kl_code *c, och_kl_intrinsic f) { return c->used[f / 32] >> f % 32 & 1; }

och_kl_var *och_kl_new_var(och_kl_code *c, const char *name, och_kl_type t, och_kl_space space, const uint32_t *dims,
                           int n_dims) {
    och_kl_var *v = och_arena_alloc(&c->arena, 1, sizeof *v);
    if (v) v->name = och_arena_strndup(&c->arena, name, strlen(name));
    if (!v || !v->name) {
        c->failed = true;
        return NULL;
    }
    v->id = c->n_vars++;
    v->type = t;
    v->space = space;
    v->n_dims = n_dims;
    for (int i = 0; i < n_dims; i++) v->dims[i] = dims[i];
    if (space != OCH_KL_REG) v->uniformity = OCH_KL_U_GROUP;
    if (c->last_var) c->last_var->next = v;
    else c->vars = v;
    c->last_var = v;
    return v;
}

och_kl_ins *och_kl_ins_new(och_kl_code *c, och_kl_list *to, och_kl_ins_kind kind, och_kl_pos pos) {
    och_kl_ins *i = och_arena_alloc(&c->arena, 1, sizeof *i);
    if (!i) {
        c->failed = true;
        return NULL;
    }
    i->kind = kind;
    i->pos = pos;
    if (to->last) to->last->next = i;
    else to->first = i;
    to->last = i;
    return i;
}
