/* Types, and the few conversions that happen by themselves. */
#include "kl/lex.h"
#include "kl/spec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool och_kl_base_find(const char *name, och_kl_base *out) {
    for (int b = OCH_KL_BOOL; b < OCH_KL_BASE_COUNT_; b++)
        if (!strcmp(name, och_kl_base_names[b])) {
            *out = (och_kl_base)b;
            return true;
        }
    return false;
}

bool och_kl_type_find(const char *name, och_kl_type *out) {
    och_kl_base b;
    if (och_kl_base_find(name, &b)) {
        *out = och_kl_type_of(b, 1);
        return true;
    }
    const char *x = strrchr(name, 'x');
    if (!x || x - name > 8) return false;
    char base[12] = "";
    memcpy(base, name, (size_t)(x - name));
    if (!och_kl_base_find(base, &b)) return false;
    static const struct {
        const char *text;
        int lanes;
    } widths[] = {{"2", 2}, {"4", 4}, {"8", 8}, {"16", 16}, {"32", 32}};
    if (b != OCH_KL_F32 && b != OCH_KL_F16 && b != OCH_KL_I32 && b != OCH_KL_U32) return false;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        if (!strcmp(x + 1, widths[i].text)) {
            *out = och_kl_type_of(b, widths[i].lanes);
            return true;
        }
    return false;
}

bool och_kl_is_storage(och_kl_base b) {
    return b == OCH_KL_BF16 || b == OCH_KL_FP8 || b == OCH_KL_BF8 || b == OCH_KL_I8 || b == OCH_KL_U8 ||
           b == OCH_KL_I16 || b == OCH_KL_U16;
}

och_kl_base och_kl_arithmetic(och_kl_base b) {
    switch (b) {
    case OCH_KL_BF16:
    case OCH_KL_FP8:
    case OCH_KL_BF8:
        return OCH_KL_F32;
    case OCH_KL_I8:
    case OCH_KL_I16:
        return OCH_KL_I32;
    case OCH_KL_U8:
    case OCH_KL_U16:
        return OCH_KL_U32;
    default:
        return b;
    }
}

const char *och_kl_type_text(och_kl_type t, char buf[24]) {
    if (t.lanes > 1)
        snprintf(buf, 24, "%sx%d", och_kl_base_names[t.base], t.lanes);
    else
        snprintf(buf, 24, "%s", och_kl_base_names[t.base]);
    return buf;
}

const char *och_kl_val_text(const och_kl_val *v, char buf[64]) {
    char t[24], real[OCH_KL_REAL_BYTES];
    switch (v->kind) {
    case OCH_KL_V_VOID:
        return "nothing";
    case OCH_KL_V_INT:
        snprintf(buf, 64, "the number %lld", (long long)v->integer);
        return buf;
    case OCH_KL_V_REAL:
        och_kl_real_text(v->real, 6, real);
        snprintf(buf, 64, "the number %s", real);
        return buf;
    case OCH_KL_V_CHOICE:
        return "one of two numbers";
    case OCH_KL_V_IR:
        snprintf(buf, 64, "%s", och_kl_type_text(v->ir->type, t));
        return buf;
    case OCH_KL_V_REG:
        if (v->n_at == v->slot->var->n_dims)
            snprintf(buf, 64, "%s", och_kl_type_text(v->slot->var->type, t));
        else
            snprintf(buf, 64, "an array of %s", och_kl_type_text(v->slot->var->type, t));
        return buf;
    case OCH_KL_V_STRING:
        return "a text";
    case OCH_KL_V_TYPE:
        snprintf(buf, 64, "the type %s", och_kl_type_text(v->type, t));
        return buf;
    case OCH_KL_V_FORMAT:
        snprintf(buf, 64, "the format %.40s", v->decl->name);
        return buf;
    case OCH_KL_V_BUFFER:
        return "a buffer";
    case OCH_KL_V_ROW:
        return "a row";
    case OCH_KL_V_UNIT:
        return "a unit";
    case OCH_KL_V_LDS:
        return "an array in LDS";
    case OCH_KL_V_SPACE:
    case OCH_KL_V_AXES:
        return "a part of the machine";
    case OCH_KL_V_SUB:
        return "a part of a buffer";
    case OCH_KL_V_TILE:
        return "a tile";
    case OCH_KL_V_ROWVEC:
        return "a row vector of a tile";
    case OCH_KL_V_BAD:
        break;
    }
    return "an error";
}

uint64_t och_kl_gcd(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t t = a % b;
        a = b;
        b = t;
    }
    return a;
}

och_kl_val och_kl_val_int(int64_t v) {
    return (och_kl_val){.kind = OCH_KL_V_INT, .integer = v, .multiple = v < 0 ? 0 - (uint64_t)v : (uint64_t)v};
}
och_kl_val och_kl_val_real(double v) {
    return (och_kl_val){.kind = OCH_KL_V_REAL, .real = v, .multiple = 1};
}

och_kl_val och_kl_val_ir(och_kl_ir *ir, och_kl_level level) {
    och_kl_val v = {.kind = OCH_KL_V_IR, .ir = ir, .level = level, .multiple = 1};
    if (!ir) v.kind = OCH_KL_V_BAD;
    if (ir && ir->kind == OCH_KL_X_INT)
        v.multiple = ir->integer < 0 ? 0 - (uint64_t)ir->integer : (uint64_t)ir->integer;
    if (ir) ir->uniformity = och_kl_level_uniformity(level);
    if (ir && (ir->kind == OCH_KL_X_INT || ir->kind == OCH_KL_X_REAL))
        v.level = OCH_KL_L_CONST, ir->uniformity = OCH_KL_U_CONST;
    return v;
}

och_kl_val och_kl_val_bool(och_kl_spec *s, och_kl_pos pos, bool v) {
    return och_kl_val_ir(och_kl_int(s->code, pos, och_kl_type_of(OCH_KL_BOOL, 1), v), OCH_KL_L_CONST);
}

bool och_kl_const_int(const och_kl_val *v, int64_t *out) {
    if (v->kind == OCH_KL_V_INT) {
        *out = v->integer;
        return true;
    }
    return v->kind == OCH_KL_V_IR && och_kl_is_int(v->ir, out);
}

/* Whether a number fits an integer type. */
static bool fits(och_kl_base b, int64_t v) {
    switch (b) {
    case OCH_KL_I8:
        return v >= -128 && v <= 127;
    case OCH_KL_U8:
        return v >= 0 && v <= 255;
    case OCH_KL_I16:
        return v >= -32768 && v <= 32767;
    case OCH_KL_U16:
        return v >= 0 && v <= 65535;
    case OCH_KL_I32:
        return v >= INT32_MIN && v <= INT32_MAX;
    case OCH_KL_U32:
        return v >= 0 && v <= (int64_t)UINT32_MAX;
    case OCH_KL_U64:
        return v >= 0;
    default:
        return true;
    }
}

static bool number_to(och_kl_spec *s, och_kl_pos pos, const och_kl_val *v, och_kl_type t, och_kl_val *out) {
    char buf[24];
    if (v->kind == OCH_KL_V_CHOICE) {
        och_kl_val a, b;
        if (!number_to(s, pos, &v->sides[0], t, &a) || !number_to(s, pos, &v->sides[1], t, &b)) return false;
        *out = och_kl_val_ir(och_kl_select(s->code, pos, v->ir, a.ir, b.ir), v->level);
        out->multiple = v->multiple;
        return out->ir != NULL;
    }
    bool integer = v->kind == OCH_KL_V_INT;
    if (och_kl_base_is_int(t.base)) {
        if (!integer) {
            char real[OCH_KL_REAL_BYTES];
            och_kl_real_text(v->real, 6, real);
            return och_kl_error(s->diag, pos, "expected %s, found the number %s: %s(%s) converts",
                                och_kl_type_text(t, buf), real, buf, real);
        }
        if (!fits(t.base, v->integer))
            return och_kl_error(s->diag, pos, "%lld does not fit %s", (long long)v->integer, och_kl_base_names[t.base]);
        *out = och_kl_val_ir(och_kl_int(s->code, pos, t, v->integer), OCH_KL_L_CONST);
        out->multiple = v->multiple;
        return out->ir != NULL;
    }
    if (t.base == OCH_KL_F32 || t.base == OCH_KL_F16) {
        *out = och_kl_val_ir(och_kl_real(s->code, pos, t, integer ? (double)v->integer : v->real), OCH_KL_L_CONST);
        return out->ir != NULL;
    }
    if (och_kl_base_is_float(t.base)) { /* a storage type: of the f32 */
        och_kl_ir *f =
            och_kl_real(s->code, pos, och_kl_type_of(OCH_KL_F32, t.lanes), integer ? (double)v->integer : v->real);
        *out = och_kl_val_ir(och_kl_convert(s->code, pos, t, f), OCH_KL_L_CONST);
        return out->ir != NULL;
    }
    return och_kl_error(s->diag, pos, "expected %s, found a number", och_kl_type_text(t, buf));
}

/* Reads a variable. */
static bool read_reg(och_kl_spec *s, och_kl_pos pos, const och_kl_val *v, och_kl_val *out) {
    char buf[64];
    och_kl_slot *slot = v->slot;
    if (v->n_at != slot->var->n_dims)
        return och_kl_error(s->diag, pos, "%s is no value: it needs %d %s", och_kl_val_text(v, buf),
                            slot->var->n_dims - v->n_at, slot->var->n_dims - v->n_at == 1 ? "index" : "indices");
    slot->read = true;
    *out = och_kl_val_ir(och_kl_use_at(s->code, pos, slot->var, v->at), slot->level);
    out->multiple = slot->multiple;
    out->size = v->size;
    return out->ir != NULL;
}

static bool is_real(const och_kl_val *v) {
    return v->kind == OCH_KL_V_REAL || (v->kind == OCH_KL_V_CHOICE && (is_real(&v->sides[0]) || is_real(&v->sides[1])));
}

bool och_kl_to_value(och_kl_spec *s, och_kl_pos pos, och_kl_val v, och_kl_val *out) {
    char buf[64];
    switch (v.kind) {
    case OCH_KL_V_BAD:
        return false;
    case OCH_KL_V_INT:
        if (!fits(OCH_KL_I32, v.integer))
            return och_kl_error(s->diag, pos, "%lld does not fit i32: u32(%lld) or i64(%lld) says what it is",
                                (long long)v.integer, (long long)v.integer, (long long)v.integer);
        return number_to(s, pos, &v, och_kl_type_of(OCH_KL_I32, 1), out);
    case OCH_KL_V_REAL:
        return number_to(s, pos, &v, och_kl_type_of(OCH_KL_F32, 1), out);
    case OCH_KL_V_CHOICE:
        return number_to(s, pos, &v, och_kl_type_of(is_real(&v) ? OCH_KL_F32 : OCH_KL_I32, 1), out);
    case OCH_KL_V_IR:
        *out = v;
        return v.ir != NULL;
    case OCH_KL_V_REG:
        return read_reg(s, pos, &v, out);
    default:
        return och_kl_error(s->diag, pos, "expected a value, found %s", och_kl_val_text(&v, buf));
    }
}

static bool widen(och_kl_spec *s, och_kl_pos pos, och_kl_val *v) {
    och_kl_val w = och_kl_val_ir(och_kl_convert(s->code, pos, och_kl_type_of(OCH_KL_I64, 1), v->ir), v->level);
    w.multiple = v->multiple;
    *v = w;
    return w.ir != NULL;
}
static bool is_narrow(och_kl_type t) {
    return t.lanes == 1 && (t.base == OCH_KL_I32 || t.base == OCH_KL_U32);
}

bool och_kl_to_type(och_kl_spec *s, och_kl_pos pos, och_kl_val v, och_kl_type t, const char *what, och_kl_val *out) {
    char a[64], b[24];
    if (v.kind == OCH_KL_V_BAD) return false;
    if (och_kl_is_number(&v)) {
        if (t.base == OCH_KL_BOOL)
            return och_kl_error(s->diag, pos, "%s: expected bool, found %s", what, och_kl_val_text(&v, a));
        return number_to(s, pos, &v, t, out);
    }
    if (!och_kl_to_value(s, pos, v, &v)) return false;
    if (!och_kl_same(v.ir->type, t)) {
        if (t.base == OCH_KL_I64 && t.lanes == 1 && is_narrow(v.ir->type)) {
            if (!widen(s, pos, &v)) return false;
        } else {
            och_kl_error(s->diag, pos, "%s: expected %s, found %s", what, och_kl_type_text(t, b),
                         och_kl_val_text(&v, a));
            if (v.ir->type.lanes == t.lanes || v.ir->type.lanes == 1)
                och_kl_note(s->diag, pos, "nothing converts by itself: %s(...) converts", b);
            return false;
        }
    }
    *out = v;
    return true;
}

bool och_kl_to_stored(och_kl_spec *s, och_kl_pos pos, och_kl_val v, och_kl_base b, int lanes, och_kl_val *out) {
    char x[64], y[24];
    och_kl_type t = och_kl_type_of(b, lanes);
    if (och_kl_is_number(&v)) {
        if (!och_kl_is_storage(b)) return och_kl_to_type(s, pos, v, t, "a store", out);
        och_kl_val w;
        if (!och_kl_to_type(s, pos, v, och_kl_type_of(och_kl_arithmetic(b), lanes), "a store", &w)) return false;
        *out = och_kl_val_ir(och_kl_convert(s->code, pos, t, w.ir), w.level);
        return out->ir != NULL;
    }
    if (!och_kl_to_value(s, pos, v, &v)) return false;
    och_kl_type from = v.ir->type;
    if (och_kl_same(from, t)) {
        *out = v;
        return true;
    }
    bool ints = och_kl_base_is_int(b) && (from.base == OCH_KL_I32 || from.base == OCH_KL_U32);
    bool floats = och_kl_base_is_float(b) && from.base == OCH_KL_F32;
    if (from.lanes == lanes && och_kl_is_storage(b) && (ints || floats)) {
        *out = och_kl_val_ir(och_kl_convert(s->code, pos, t, v.ir), v.level);
        return out->ir != NULL;
    }
    if (b == OCH_KL_I64 && lanes == 1 && is_narrow(from)) {
        *out = v;
        return widen(s, pos, out);
    }
    och_kl_error(s->diag, pos, "a store: expected %s, found %s", och_kl_type_text(t, y), och_kl_val_text(&v, x));
    if (from.lanes == lanes)
        och_kl_note(s->diag, pos, "nothing converts by itself: %s(...) converts", och_kl_base_names[b]);
    return false;
}

bool och_kl_to_bool(och_kl_spec *s, och_kl_pos pos, och_kl_val v, const char *what, och_kl_val *out) {
    char a[64];
    if (v.kind == OCH_KL_V_BAD) return false;
    if (v.kind == OCH_KL_V_REG && !och_kl_to_value(s, pos, v, &v)) return false;
    if (v.kind != OCH_KL_V_IR || v.ir->type.base != OCH_KL_BOOL)
        return och_kl_error(s->diag, pos, "%s: expected bool, found %s", what, och_kl_val_text(&v, a));
    *out = v;
    return true;
}

bool och_kl_to_index(och_kl_spec *s, och_kl_pos pos, och_kl_val v, och_kl_val *out) {
    char a[64];
    if (v.kind == OCH_KL_V_INT) {
        *out = och_kl_val_ir(och_kl_int(s->code, pos,
                                        och_kl_type_of(fits(OCH_KL_I32, v.integer) ? OCH_KL_I32 : OCH_KL_I64, 1),
                                        v.integer),
                             OCH_KL_L_CONST);
        out->multiple = v.multiple;
        return out->ir != NULL;
    }
    if (!och_kl_to_value(s, pos, v, &v)) return false;
    if (!is_narrow(v.ir->type) && !och_kl_same(v.ir->type, och_kl_type_of(OCH_KL_I64, 1)))
        return och_kl_error(s->diag, pos, "an index is i32, u32 or i64, found %s", och_kl_val_text(&v, a));
    *out = v;
    return true;
}

static och_kl_val splat(och_kl_spec *s, och_kl_pos pos, och_kl_type t, const och_kl_val *v) {
    return och_kl_val_ir(och_kl_build(s->code, pos, t, &v->ir, 1), v->level);
}

bool och_kl_unify(och_kl_spec *s, och_kl_pos pos, och_kl_val *a, och_kl_val *b, const char *what) {
    char x[64], y[64];
    if (a->kind == OCH_KL_V_BAD || b->kind == OCH_KL_V_BAD) return false;
    bool na = och_kl_is_number(a), nb = och_kl_is_number(b);
    if (na && nb) {
        bool real = is_real(a) || is_real(b);
        och_kl_type t = och_kl_type_of(real ? OCH_KL_F32 : OCH_KL_I32, 1);
        return och_kl_to_type(s, pos, *a, t, what, a) && och_kl_to_type(s, pos, *b, t, what, b);
    }
    if (!na && !och_kl_to_value(s, pos, *a, a)) return false;
    if (!nb && !och_kl_to_value(s, pos, *b, b)) return false;
    if (na) return och_kl_to_type(s, pos, *a, b->ir->type, what, a);
    if (nb) return och_kl_to_type(s, pos, *b, a->ir->type, what, b);
    och_kl_type ta = a->ir->type, tb = b->ir->type;
    if (och_kl_same(ta, tb)) return true;
    och_kl_type wide = och_kl_type_of(OCH_KL_I64, 1);
    if (och_kl_same(ta, wide) && is_narrow(tb)) return widen(s, pos, b);
    if (och_kl_same(tb, wide) && is_narrow(ta)) return widen(s, pos, a);
    if (ta.base == tb.base && ta.lanes == 1) {
        *a = splat(s, pos, tb, a);
        return a->ir != NULL;
    }
    if (ta.base == tb.base && tb.lanes == 1) {
        *b = splat(s, pos, ta, b);
        return b->ir != NULL;
    }
    och_kl_error(s->diag, pos, "%s: %s beside %s", what, och_kl_val_text(a, x), och_kl_val_text(b, y));
    if (ta.lanes == tb.lanes) och_kl_note(s->diag, pos, "nothing converts by itself: %s(...) converts", y);
    return false;
}

bool och_kl_convert_val(och_kl_spec *s, och_kl_pos pos, och_kl_type t, och_kl_val v, och_kl_val *out) {
    char a[64], b[24];
    if (v.kind == OCH_KL_V_BAD) return false;
    if (v.kind == OCH_KL_V_INT && och_kl_base_is_int(t.base)) { /* said so: it wraps around */
        *out = och_kl_val_ir(och_kl_int(s->code, pos, t, v.integer), OCH_KL_L_CONST);
        return out->ir != NULL;
    }
    if (v.kind == OCH_KL_V_REAL && och_kl_base_is_int(t.base)) {
        if (!(fabs(v.real) < 9.2e18) || !fits(t.base, (int64_t)v.real)) {
            char real[OCH_KL_REAL_BYTES];
            och_kl_real_text(v.real, 6, real);
            return och_kl_error(s->diag, pos, "%s does not fit %s", real, och_kl_type_text(t, b));
        }
        *out = och_kl_val_ir(och_kl_int(s->code, pos, t, (int64_t)v.real), OCH_KL_L_CONST);
        return out->ir != NULL;
    }
    if (v.kind == OCH_KL_V_CHOICE) {
        och_kl_val yes, no;
        if (!och_kl_convert_val(s, pos, t, v.sides[0], &yes) || !och_kl_convert_val(s, pos, t, v.sides[1], &no))
            return false;
        *out = och_kl_val_ir(och_kl_select(s->code, pos, v.ir, yes.ir, no.ir), v.level);
        return out->ir != NULL;
    }
    if (v.kind == OCH_KL_V_INT || v.kind == OCH_KL_V_REAL) return och_kl_to_type(s, pos, v, t, "a conversion", out);
    if (!och_kl_to_value(s, pos, v, &v)) return false;
    och_kl_type from = v.ir->type;
    if (from.base == OCH_KL_BOOL && !och_kl_base_is_int(t.base) && t.base != OCH_KL_BOOL && t.base != OCH_KL_F32 &&
        t.base != OCH_KL_F16)
        return och_kl_error(s->diag, pos, "bool does not convert to %s", och_kl_type_text(t, b));
    if (t.base == OCH_KL_BOOL && from.base != OCH_KL_BOOL)
        return och_kl_error(s->diag, pos, "%s does not convert to bool: write a comparison", och_kl_val_text(&v, a));
    if (from.lanes != t.lanes && from.lanes != 1) {
        if (t.lanes != 1)
            return och_kl_error(s->diag, pos, "%s has %d elements, %s has %d", och_kl_val_text(&v, a), from.lanes,
                                och_kl_type_text(t, b), t.lanes);
        t.lanes = from.lanes; /* the name of a scalar type acts by element */
    }
    och_kl_type mid = och_kl_type_of(t.base, from.lanes);
    uint64_t multiple = v.multiple;
    och_kl_ir *x = v.ir;
    if (from.base == OCH_KL_BOOL && t.base != OCH_KL_BOOL) {
        och_kl_ir *one = och_kl_int(s->code, pos, mid, 1), *zero = och_kl_int(s->code, pos, mid, 0);
        x = och_kl_select(s->code, pos, x, one, zero);
    } else {
        /* Storage types meet arithmetic in one step, each with its own arithmetic type. */
        och_kl_base via = och_kl_arithmetic(from.base);
        if (via != from.base && t.base != via) x = och_kl_convert(s->code, pos, och_kl_type_of(via, from.lanes), x);
        och_kl_base in = och_kl_arithmetic(t.base);
        if (in != t.base && x && x->type.base != in && x->type.base != t.base)
            x = och_kl_convert(s->code, pos, och_kl_type_of(in, from.lanes), x);
        x = och_kl_convert(s->code, pos, mid, x);
    }
    if (t.lanes != from.lanes && x) x = och_kl_build(s->code, pos, t, &x, 1);
    *out = och_kl_val_ir(x, v.level);
    if (och_kl_base_is_int(t.base) && och_kl_base_is_int(from.base)) out->multiple = multiple;
    return out->ir != NULL;
}

bool och_kl_resolve_type(och_kl_spec *s, const och_kl_type_ast *t, och_kl_type *out) {
    char buf[64];
    if (!t->name) {
        och_kl_val v;
        if (!och_kl_eval(s, t->value, &v)) return false;
        if (v.kind != OCH_KL_V_TYPE)
            return och_kl_error(s->diag, t->pos, "expected a type, found %s", och_kl_val_text(&v, buf));
        *out = v.type;
        return true;
    }
    och_kl_binding_node *b = och_kl_lookup(s, t->name);
    if (b) {
        if (b->val.kind != OCH_KL_V_TYPE)
            return och_kl_error(s->diag, t->pos, "\"%s\" is %s, not a type", t->name, och_kl_val_text(&b->val, buf));
        *out = b->val.type;
        return true;
    }
    if (och_kl_type_find(t->name, out)) return true;
    och_kl_guess g;
    och_kl_guess_init(&g, t->name);
    for (int i = OCH_KL_BOOL; i < OCH_KL_BASE_COUNT_; i++) och_kl_guess_offer(&g, och_kl_base_names[i]);
    static const char *const more[] = {"f32x2", "f32x4", "f32x8", "f16x2", "f16x4", "f16x8",  "i32x4",
                                       "u32x2", "u32x4", "u32x8", "buf",   "qbuf",  "actbuf", "acc_tile"};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) och_kl_guess_offer(&g, more[i]);
    for (const och_kl_binding_node *n = s->scope; n; n = n->next)
        if (n->val.kind == OCH_KL_V_TYPE) och_kl_guess_offer(&g, n->name);
    const char *best = och_kl_guess_best(&g);
    if (best) return och_kl_error(s->diag, t->pos, "unknown type \"%s\": did you mean \"%s\"?", t->name, best);
    return och_kl_error(s->diag, t->pos, "unknown type \"%s\"", t->name);
}
