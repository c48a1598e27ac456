/* Expressions: one printer for all dialects. */
#include "kl/emit_priv.h"

#include "base/size.h"
#include "kl/lex.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put(och_kl_emitter *e, const char *s) { och_strbuf_puts(e->out, s); }

/* ---- constants ---- */

static void emit_int(och_kl_emitter *e, och_kl_base b, int64_t v, int prec) {
    bool paren = v < 0 && prec < OCH_KL_PREC_UNARY;
    switch (b) {
    case OCH_KL_BOOL: put(e, v ? "true" : "false"); break;
    case OCH_KL_U32: och_strbuf_printf(e->out, "%" PRIu32 "u", (uint32_t)v); break;
    case OCH_KL_U64: och_strbuf_printf(e->out, "%" PRIu64 "ull", (uint64_t)v); break;
    case OCH_KL_I64:
        if (v == INT64_MIN) put(e, "(-9223372036854775807ll - 1)");
        else och_strbuf_printf(e->out, paren ? "(%" PRId64 "ll)" : "%" PRId64 "ll", v);
        break;
    case OCH_KL_I32:
        if (v == INT32_MIN) put(e, "(-2147483647 - 1)");
        else och_strbuf_printf(e->out, paren ? "(%" PRId64 ")" : "%" PRId64, v);
        break;
    default:
        if (prec < OCH_KL_PREC_UNARY) put(e, "(");
        och_strbuf_printf(e->out, v < 0 ? "(%s)(%" PRId64 ")" : "(%s)%" PRId64, och_kl_base_names[b], v);
        if (prec < OCH_KL_PREC_UNARY) put(e, ")");
    }
}

static void emit_real(och_kl_emitter *e, och_kl_base b, double v, int prec) {
    if (isnan(v) || isinf(v)) {
        och_kl_need(e, OCH_KL_P_BITS);
        if (b == OCH_KL_F16) put(e, "(f16)");
        put(e, isnan(v) ? "och_bits<f32>(0x7fc00000u)" : v > 0 ? "och_bits<f32>(0x7f800000u)" : "och_bits<f32>(0xff800000u)");
        return;
    }
    char s[OCH_KL_REAL_BYTES];
    och_kl_f32_text((float)v, s);
    bool paren = prec < OCH_KL_PREC_UNARY && (signbit(v) || b == OCH_KL_F16);
    och_strbuf_printf(e->out, "%s%s%s%sf%s", paren ? "(" : "", b == OCH_KL_F16 ? "(f16)" : "", s, strpbrk(s, ".e") ? "" : ".0",
                      paren ? ")" : "");
}

/* ---- operators ---- */

static int op_prec(int op) {
    switch (op) {
    case '*': case '/': case '%': return OCH_KL_PREC_MUL;
    case '+': case '-': return OCH_KL_PREC_ADD;
    case OCH_KL_OP_SHL: case OCH_KL_OP_SHR: return OCH_KL_PREC_SHIFT;
    case '<': case '>': case OCH_KL_OP_LE: case OCH_KL_OP_GE: return OCH_KL_PREC_REL;
    case OCH_KL_OP_EQ: case OCH_KL_OP_NE: return OCH_KL_PREC_EQ;
    case '&': return OCH_KL_PREC_AND;
    case '^': return OCH_KL_PREC_XOR;
    case '|': return OCH_KL_PREC_OR;
    case OCH_KL_OP_AND: return OCH_KL_PREC_LAND;
    default: return OCH_KL_PREC_LOR;
    }
}

static const char *op_text(int op, char buf[2]) {
    switch (op) {
    case OCH_KL_OP_EQ: return "==";
    case OCH_KL_OP_NE: return "!=";
    case OCH_KL_OP_LE: return "<=";
    case OCH_KL_OP_GE: return ">=";
    case OCH_KL_OP_AND: return "&&";
    case OCH_KL_OP_OR: return "||";
    case OCH_KL_OP_SHL: return "<<";
    case OCH_KL_OP_SHR: return ">>";
    default:
        buf[0] = (char)op;
        buf[1] = 0;
        return buf;
    }
}

/* A shift's amount counts modulo the width. */
static void emit_amount(och_kl_emitter *e, const och_kl_ir *x) {
    char name[24];
    int mask = 8 * (int)och_kl_base_bytes(x->type.base) - 1;
    int64_t v;
    const och_kl_ir *one = x->kind == OCH_KL_X_BUILD && x->n_args == 1 ? x->args[0] : x;
    if (och_kl_is_int(one, &v) && v >= 0 && v <= mask) {
        och_kl_emit_expr(e, x, OCH_KL_PREC_UNARY);
        return;
    }
    put(e, "(");
    och_kl_emit_expr(e, x, OCH_KL_PREC_UNARY);
    put(e, " & ");
    if (x->type.lanes > 1) {
        och_kl_need(e, OCH_KL_P_SPLAT);
        och_strbuf_printf(e->out, "och_splat<%s>(", och_kl_type_name(e, x->type, name));
        emit_int(e, x->type.base, mask, OCH_KL_PREC_UNARY);
        put(e, ")");
    } else emit_int(e, x->type.base, mask, OCH_KL_PREC_UNARY);
    put(e, ")");
}

static void emit_binary(och_kl_emitter *e, const och_kl_ir *x, int prec) {
    int p = op_prec(x->op), left = p, right = p - 1;
    char buf[2];
    /* Few know how these bind among each other: only one's own kind goes without parentheses. */
    if (p == OCH_KL_PREC_SHIFT || (p >= OCH_KL_PREC_AND && p <= OCH_KL_PREC_OR)) {
        const och_kl_ir *a = x->args[0];
        right = OCH_KL_PREC_UNARY;
        left = a->kind == OCH_KL_X_BINARY && a->op == x->op && p != OCH_KL_PREC_SHIFT ? p : OCH_KL_PREC_UNARY;
    } else if (p >= OCH_KL_PREC_REL && p <= OCH_KL_PREC_EQ) left = right = OCH_KL_PREC_ADD;
    else if (p == OCH_KL_PREC_LOR) {
        const och_kl_ir *a = x->args[0];
        left = a->kind == OCH_KL_X_BINARY && a->op == x->op ? p : OCH_KL_PREC_EQ;
        right = OCH_KL_PREC_EQ;
    } else if (p == OCH_KL_PREC_LAND) right = OCH_KL_PREC_EQ;
    if (p > prec) put(e, "(");
    och_kl_emit_expr(e, x->args[0], left);
    och_strbuf_printf(e->out, " %s ", op_text(x->op, buf));
    if (p == OCH_KL_PREC_SHIFT) emit_amount(e, x->args[1]);
    else och_kl_emit_expr(e, x->args[1], right);
    if (p > prec) put(e, ")");
}

/* ---- conversions ---- */

static bool is_soft_float(och_kl_base b) { return b == OCH_KL_BF16 || b == OCH_KL_FP8 || b == OCH_KL_BF8; }

static void emit_convert(och_kl_emitter *e, const och_kl_ir *x, int prec) {
    static const och_kl_piece to[OCH_KL_BASE_COUNT_] = {
        [OCH_KL_BF16] = OCH_KL_P_TO_BF16, [OCH_KL_FP8] = OCH_KL_P_TO_FP8, [OCH_KL_BF8] = OCH_KL_P_TO_BF8};
    static const och_kl_piece from[OCH_KL_BASE_COUNT_] = {
        [OCH_KL_BF16] = OCH_KL_P_FROM_BF16, [OCH_KL_FP8] = OCH_KL_P_FROM_FP8, [OCH_KL_BF8] = OCH_KL_P_FROM_BF8};
    och_kl_type t = x->type, s = x->args[0]->type;
    char name[24];
    /* What has no arithmetic goes by way of f32: two nodes printed as one. */
    if ((is_soft_float(t.base) && s.base != OCH_KL_F32) || (is_soft_float(s.base) && t.base != OCH_KL_F32)) {
        och_kl_ir mid = {.kind = OCH_KL_X_CONVERT, .type = {OCH_KL_F32, t.lanes}, .n_args = 1, .args = x->args};
        och_kl_ir *arg = &mid;
        och_kl_ir outer = {.kind = OCH_KL_X_CONVERT, .type = t, .n_args = 1, .args = &arg};
        emit_convert(e, &outer, prec);
        return;
    }
    if (is_soft_float(t.base) || is_soft_float(s.base)) {
        och_kl_base b = is_soft_float(t.base) ? t.base : s.base;
        const char *way = is_soft_float(t.base) ? "to" : "from";
        och_kl_need(e, is_soft_float(t.base) ? to[b] : from[b]);
        if (t.lanes > 1) {
            och_kl_need(e, OCH_KL_P_EACH);
            och_strbuf_printf(e->out, "och_each<%s, %d>(", och_kl_type_name(e, t, name), t.lanes);
            och_kl_emit_expr(e, x->args[0], OCH_KL_PREC_ANY);
            och_strbuf_printf(e->out, ", och_%s_%s)", way, och_kl_base_names[b]);
            return;
        }
        och_strbuf_printf(e->out, "och_%s_%s(", way, och_kl_base_names[b]);
        och_kl_emit_expr(e, x->args[0], OCH_KL_PREC_ANY);
        put(e, ")");
        return;
    }
    if (t.lanes > 1) {
        och_kl_need(e, OCH_KL_P_CONVERT);
        och_strbuf_printf(e->out, "och_convert<%s, %d>(", och_kl_type_name(e, t, name), t.lanes);
        och_kl_emit_expr(e, x->args[0], OCH_KL_PREC_ANY);
        put(e, ")");
        return;
    }
    if (prec < OCH_KL_PREC_UNARY) put(e, "(");
    och_strbuf_printf(e->out, "(%s)", och_kl_type_name(e, t, name));
    och_kl_emit_expr(e, x->args[0], OCH_KL_PREC_UNARY);
    if (prec < OCH_KL_PREC_UNARY) put(e, ")");
}

/* ---- vectors ---- */

static void emit_build(och_kl_emitter *e, const och_kl_ir *x) {
    char name[24];
    och_kl_type_name(e, x->type, name);
    if (x->n_args == 1) {
        och_kl_need(e, OCH_KL_P_SPLAT);
        och_strbuf_printf(e->out, "och_splat<%s>(", name);
        och_kl_emit_expr(e, x->args[0], OCH_KL_PREC_ANY);
        put(e, ")");
        return;
    }
    och_strbuf_printf(e->out, "%s{", name);
    for (int i = 0; i < x->n_args; i++) {
        if (i) put(e, ", ");
        och_kl_emit_expr(e, x->args[i], OCH_KL_PREC_ANY);
    }
    put(e, "}");
}

/* Halves put together, and their halves. */
static void emit_concat(och_kl_emitter *e, och_kl_type part, och_kl_ir *const *parts, int n) {
    char name[24];
    if (n == 1) {
        och_kl_emit_expr(e, parts[0], OCH_KL_PREC_ANY);
        return;
    }
    och_kl_need(e, OCH_KL_P_CONCAT);
    int lanes = part.lanes * n;
    och_strbuf_printf(e->out, "och_concat<%s, %d>(", och_kl_type_name(e, och_kl_type_of(part.base, lanes), name), lanes / 2);
    emit_concat(e, part, parts, n / 2);
    put(e, ", ");
    emit_concat(e, part, parts + n / 2, n / 2);
    put(e, ")");
}

/* ---- memory ---- */

bool och_kl_is_at_least_0(const och_kl_emitter *e, const och_kl_ir *x) {
    const och_kl_ir *a = x->n_args > 0 ? x->args[0] : NULL, *b = x->n_args > 1 ? x->args[1] : NULL;
    if (x->type.base == OCH_KL_U8 || x->type.base == OCH_KL_U16 || x->type.base == OCH_KL_U32) return true;
    switch (x->kind) {
    case OCH_KL_X_INT: return x->integer >= 0;
    case OCH_KL_X_VAR: return e->at_least_0[x->var->id];
    case OCH_KL_X_BINARY:
        switch (x->op) {
        case '+': case '*': case '/': case '|': return och_kl_is_at_least_0(e, a) && och_kl_is_at_least_0(e, b);
        case '%': case OCH_KL_OP_SHL: case OCH_KL_OP_SHR: return och_kl_is_at_least_0(e, a);
        case '&': return och_kl_is_at_least_0(e, a) || och_kl_is_at_least_0(e, b);
        default: return false;
        }
    case OCH_KL_X_SELECT: return och_kl_is_at_least_0(e, b) && och_kl_is_at_least_0(e, x->args[2]);
    case OCH_KL_X_CONVERT:
        return och_kl_base_is_int(a->type.base) && och_kl_base_bytes(a->type.base) <= och_kl_base_bytes(x->type.base) &&
               (och_kl_base_bytes(a->type.base) < och_kl_base_bytes(x->type.base) || och_kl_base_is_signed(a->type.base)) &&
               och_kl_is_at_least_0(e, a);
    case OCH_KL_X_CALL:
        switch (x->intrinsic) {
        case OCH_KL_F_GROUP_ID: case OCH_KL_F_GROUP_COUNT: case OCH_KL_F_THREAD_ID: case OCH_KL_F_WAVE_ID: case OCH_KL_F_LANE:
        case OCH_KL_F_CLZ: case OCH_KL_F_CTZ: case OCH_KL_F_POPCOUNT: return true;
        case OCH_KL_F_MIN: return och_kl_is_at_least_0(e, a) && och_kl_is_at_least_0(e, b);
        case OCH_KL_F_MAX: return och_kl_is_at_least_0(e, a) || och_kl_is_at_least_0(e, b);
        case OCH_KL_F_FIRST: return och_kl_is_at_least_0(e, a);
        default: return false;
        }
    default: return false;
    }
}

/* Whether x is a sum of products of counts, so that none of its parts is larger than the whole: what wraps around is no
 * place in memory. */
static bool is_count(const och_kl_emitter *e, const och_kl_ir *x) {
    switch (x->kind) {
    case OCH_KL_X_INT: return x->integer >= 0 && x->integer <= INT32_MAX;
    case OCH_KL_X_VAR: return e->is_count[x->var->id];
    case OCH_KL_X_BINARY:
        switch (x->op) {
        case '+': case '*': case '/': case '|': return is_count(e, x->args[0]) && is_count(e, x->args[1]);
        case '%': case OCH_KL_OP_SHL: case OCH_KL_OP_SHR: return is_count(e, x->args[0]);
        case '&': return is_count(e, x->args[0]) || is_count(e, x->args[1]);
        default: return false;
        }
    case OCH_KL_X_CONVERT: return och_kl_base_is_int(x->args[0]->type.base) && is_count(e, x->args[0]);
    case OCH_KL_X_CALL: return och_kl_base_is_signed(x->type.base) && och_kl_is_at_least_0(e, x);
    default: return false;
    }
}
bool och_kl_is_count(const och_kl_emitter *e, const och_kl_ir *x) { return is_count(e, x); }

/* An address is a pointer, plus what the whole wave shares (64 bits: a scalar register pair), plus a lane's own
 * distance within the row (32 bits, never negative: a vector register), plus a constant: the form of the load
 * instructions. */
#define MAX_TERMS 24
typedef struct terms {
    const och_kl_ir *wide[MAX_TERMS], *lane[MAX_TERMS];
    int n_wide, n_lane;
    int64_t constant;
} terms;

/* x: i32 or u32, at least 0. */
static void split_lane(const och_kl_emitter *e, const och_kl_ir *x, terms *t) {
    int64_t v;
    if (och_kl_is_int(x, &v)) t->constant += v;
    else if (x->kind == OCH_KL_X_BINARY && x->op == '+' && is_count(e, x) && t->n_wide + t->n_lane < MAX_TERMS - 2) {
        split_lane(e, x->args[0], t);
        split_lane(e, x->args[1], t);
    } else if (x->uniformity == OCH_KL_U_LANE) t->lane[t->n_lane++] = x;
    else t->wide[t->n_wide++] = x;
}

static void split_index(const och_kl_emitter *e, const och_kl_ir *x, terms *t) {
    int64_t v;
    if (och_kl_is_int(x, &v)) {
        t->constant += v;
        return;
    }
    if (x->kind == OCH_KL_X_BINARY && x->op == '+' && t->n_wide + t->n_lane < MAX_TERMS - 4) {
        split_index(e, x->args[0], t);
        split_index(e, x->args[1], t);
        return;
    }
    if (x->kind == OCH_KL_X_CONVERT && x->uniformity == OCH_KL_U_LANE && t->n_lane < MAX_TERMS - 4) {
        const och_kl_ir *a = x->args[0];
        if (a->type.base == OCH_KL_U32 || (a->type.base == OCH_KL_I32 && och_kl_is_at_least_0(e, a))) {
            split_lane(e, a, t);
            return;
        }
    }
    t->wide[t->n_wide++] = x;
}

static void emit_scaled(och_kl_emitter *e, const och_kl_ir *x, uint32_t scale, const char *suffix) {
    if (scale == 1) {
        och_kl_emit_expr(e, x, OCH_KL_PREC_MUL);
        return;
    }
    och_kl_emit_expr(e, x, OCH_KL_PREC_UNARY);
    och_strbuf_printf(e->out, " * %" PRIu32 "%s", scale, suffix);
}

void och_kl_emit_address(och_kl_emitter *e, const och_kl_mem *m, bool typed, bool written) {
    const char *base = och_kl_var_name(e, m->base), *name = och_kl_base_names[m->elem];
    if (m->base->space == OCH_KL_LDS) {
        if (m->bytes) {
            och_strbuf_printf(e->out, "(const u8 *)&%s[0] + ", base);
            och_kl_emit_expr(e, m->index, OCH_KL_PREC_UNARY);
            return;
        }
        if (typed && m->elem != m->base->type.base) och_strbuf_printf(e->out, "(%s *)", name);
        och_strbuf_printf(e->out, "&%s[", base);
        och_kl_emit_expr(e, m->index, OCH_KL_PREC_ANY);
        put(e, "]");
        return;
    }
    uint32_t scale = m->bytes ? 1 : och_kl_base_bytes(m->elem);
    terms t = {0};
    split_index(e, m->index, &t);
    const char *qualifier = written ? "" : "const ";
    if (typed) och_strbuf_printf(e->out, "(%s%s *)(", qualifier, name);
    och_strbuf_printf(e->out, "(%su8 *)%s", qualifier, base);
    for (int i = 0; i < t.n_wide; i++) {
        bool narrow = och_kl_base_bytes(t.wide[i]->type.base) < 8;
        put(e, narrow ? " + (i64)" : " + ");
        if (narrow && scale == 1) och_kl_emit_expr(e, t.wide[i], OCH_KL_PREC_UNARY);
        else emit_scaled(e, t.wide[i], scale, "ll");
    }
    for (int i = 0; i < t.n_lane; i++) {
        put(e, " + ");
        bool cast = t.lane[i]->type.base != OCH_KL_U32, whole = scale != 1;
        if (whole) put(e, "(u32)(");
        if (cast) put(e, "(u32)");
        och_kl_emit_expr(e, t.lane[i], cast || whole ? OCH_KL_PREC_UNARY : OCH_KL_PREC_MUL);
        if (whole) och_strbuf_printf(e->out, " * %" PRIu32 "u)", scale);
    }
    if (t.constant) och_strbuf_printf(e->out, " + %" PRId64, t.constant * (int64_t)scale);
    if (typed) put(e, ")");
}

bool och_kl_emit_element(och_kl_emitter *e, const och_kl_mem *m) {
    if (m->base->space != OCH_KL_LDS || m->bytes || m->lanes != 1 || m->elem != m->base->type.base) return false;
    och_strbuf_printf(e->out, "%s[", och_kl_var_name(e, m->base));
    och_kl_emit_expr(e, m->index, OCH_KL_PREC_ANY);
    put(e, "]");
    return true;
}

uint32_t och_kl_mem_align(const och_kl_mem *m) {
    uint32_t element = och_kl_base_bytes(m->elem), all = element * m->lanes;
    return OCH_MIN(m->align_bytes ? m->align_bytes : element, all);
}

static void emit_load(och_kl_emitter *e, const och_kl_ir *x) {
    const och_kl_mem *m = &x->mem;
    char name[24];
    if (och_kl_emit_element(e, m)) return;
    och_kl_need(e, m->streamed ? OCH_KL_P_GET_STREAM : OCH_KL_P_GET);
    och_strbuf_printf(e->out, "och_get%s<%s, %" PRIu32 ">(", m->streamed ? "_stream" : "", och_kl_type_name(e, x->type, name),
                      och_kl_mem_align(m));
    och_kl_emit_address(e, m, false, false);
    put(e, ")");
}

/* ---- all ---- */

static void emit_var(och_kl_emitter *e, const och_kl_ir *x) {
    put(e, och_kl_var_name(e, x->var));
    if (x->var->space == OCH_KL_REG)
        for (int i = 0; i < x->var->n_dims; i++) och_strbuf_printf(e->out, "[%" PRIu32 "]", x->at[i]);
}

void och_kl_emit_expr(och_kl_emitter *e, const och_kl_ir *x, int prec) {
    char name[24];
    switch (x->kind) {
    case OCH_KL_X_INT: emit_int(e, x->type.base, x->integer, prec); break;
    case OCH_KL_X_REAL: emit_real(e, x->type.base, x->real, prec); break;
    case OCH_KL_X_VAR: emit_var(e, x); break;
    case OCH_KL_X_UNARY:
        if (prec < OCH_KL_PREC_UNARY) put(e, "(");
        och_strbuf_printf(e->out, "%c", x->op);
        och_kl_emit_expr(e, x->args[0], OCH_KL_PREC_ATOM);
        if (prec < OCH_KL_PREC_UNARY) put(e, ")");
        break;
    case OCH_KL_X_BINARY: emit_binary(e, x, prec); break;
    case OCH_KL_X_SELECT:
        if (prec < OCH_KL_PREC_ANY) put(e, "(");
        och_kl_emit_expr(e, x->args[0], OCH_KL_PREC_LOR);
        put(e, " ? ");
        och_kl_emit_expr(e, x->args[1], OCH_KL_PREC_LOR);
        put(e, " : ");
        och_kl_emit_expr(e, x->args[2], OCH_KL_PREC_LOR);
        if (prec < OCH_KL_PREC_ANY) put(e, ")");
        break;
    case OCH_KL_X_CONVERT: emit_convert(e, x, prec); break;
    case OCH_KL_X_BITCAST:
        och_kl_need(e, OCH_KL_P_BITS);
        och_strbuf_printf(e->out, "och_bits<%s>(", och_kl_type_name(e, x->type, name));
        och_kl_emit_expr(e, x->args[0], OCH_KL_PREC_ANY);
        put(e, ")");
        break;
    case OCH_KL_X_BUILD: emit_build(e, x); break;
    case OCH_KL_X_ELEM:
        och_kl_emit_expr(e, x->args[0], OCH_KL_PREC_ATOM);
        och_strbuf_printf(e->out, "[%" PRId64 "]", x->integer);
        break;
    case OCH_KL_X_SLICE:
        och_kl_need(e, OCH_KL_P_SLICE);
        och_strbuf_printf(e->out, "och_slice<%s, %d>(", och_kl_type_name(e, x->type, name), x->type.lanes);
        och_kl_emit_expr(e, x->args[0], OCH_KL_PREC_ANY);
        och_strbuf_printf(e->out, ", %" PRId64 ")", x->integer);
        break;
    case OCH_KL_X_CONCAT: emit_concat(e, x->args[0]->type, x->args, x->n_args); break;
    case OCH_KL_X_LOAD: emit_load(e, x); break;
    case OCH_KL_X_CALL: och_kl_emit_call(e, x, prec); break;
    }
}
