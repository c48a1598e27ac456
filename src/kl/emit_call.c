/* Calls: an intrinsic is a function of the prologue, or a few characters. */
#include "kl/emit_priv.h"
#include "kl/matrix.h"

#include <inttypes.h>

/* How a call is written. */
typedef enum form {
    F_PLAIN,  /* name(args) */
    F_EXTRA,  /* name<extra>(args): an axis, lanes */
    F_UPPER,  /* the first argument is unsigned whatever it was, and the result the call's type: bit operations */
    F_ATOMIC, /* name<scope>(address, args) */
    F_OTHER   /* in code below */
} form;

static const struct {
    och_kl_piece piece;
    form form;
    const char *name;
} calls[OCH_KL_F_COUNT_] = {
    [OCH_KL_F_GROUP_ID] = {OCH_KL_P_GROUP_ID, F_EXTRA, "group_id"},
    [OCH_KL_F_GROUP_COUNT] = {OCH_KL_P_GROUP_COUNT, F_EXTRA, "group_count"},
    [OCH_KL_F_THREAD_ID] = {OCH_KL_P_THREAD, F_PLAIN, "thread"},
    [OCH_KL_F_WAVE_ID] = {OCH_KL_P_THREAD, F_OTHER, NULL},
    [OCH_KL_F_LANE] = {OCH_KL_P_LANE, F_PLAIN, "lane"},
    [OCH_KL_F_ABS] = {OCH_KL_P_ABS, F_PLAIN, "abs"},
    [OCH_KL_F_MIN] = {OCH_KL_P_MIN, F_PLAIN, "min"},
    [OCH_KL_F_MAX] = {OCH_KL_P_MAX, F_PLAIN, "max"},
    [OCH_KL_F_FMA] = {OCH_KL_P_FMA, F_PLAIN, "fma"},
    [OCH_KL_F_SQRT] = {OCH_KL_P_SQRT, F_PLAIN, "sqrt"},
    [OCH_KL_F_RCP] = {OCH_KL_P_RCP, F_PLAIN, "rcp"},
    [OCH_KL_F_RSQRT] = {OCH_KL_P_RSQRT, F_PLAIN, "rsqrt"},
    [OCH_KL_F_EXP2] = {OCH_KL_P_EXP2, F_PLAIN, "exp2"},
    [OCH_KL_F_LOG2] = {OCH_KL_P_LOG2, F_PLAIN, "log2"},
    [OCH_KL_F_FLOOR] = {OCH_KL_P_FLOOR, F_PLAIN, "floor"},
    [OCH_KL_F_CEIL] = {OCH_KL_P_CEIL, F_PLAIN, "ceil"},
    [OCH_KL_F_ROUND] = {OCH_KL_P_ROUND, F_PLAIN, "round"},
    [OCH_KL_F_TRUNC] = {OCH_KL_P_TRUNC, F_PLAIN, "trunc"},
    [OCH_KL_F_COPYSIGN] = {OCH_KL_P_COPYSIGN, F_PLAIN, "copysign"},
    [OCH_KL_F_ISNAN] = {OCH_KL_P_ISNAN, F_PLAIN, "isnan"},
    [OCH_KL_F_ISINF] = {OCH_KL_P_ISINF, F_PLAIN, "isinf"},
    [OCH_KL_F_ISFINITE] = {OCH_KL_P_ISFINITE, F_PLAIN, "isfinite"},
    [OCH_KL_F_MULHI] = {OCH_KL_P_MULHI, F_PLAIN, "mulhi"},
    [OCH_KL_F_CLZ] = {OCH_KL_P_CLZ, F_UPPER, "clz"},
    [OCH_KL_F_CTZ] = {OCH_KL_P_CTZ, F_UPPER, "ctz"},
    [OCH_KL_F_POPCOUNT] = {OCH_KL_P_POPCOUNT, F_UPPER, "popcount"},
    [OCH_KL_F_BFE] = {OCH_KL_P_BFE, F_UPPER, "bfe"},
    [OCH_KL_F_SBFE] = {OCH_KL_P_SBFE, F_UPPER, "sbfe"},
    [OCH_KL_F_PERM] = {OCH_KL_P_PERM, F_PLAIN, "perm"},
    [OCH_KL_F_DOT4_SS] = {OCH_KL_P_DOT4_SS, F_PLAIN, "dot4_ss"},
    [OCH_KL_F_DOT4_US] = {OCH_KL_P_DOT4_US, F_PLAIN, "dot4_us"},
    [OCH_KL_F_DOT4_UU] = {OCH_KL_P_DOT4_UU, F_PLAIN, "dot4_uu"},
    [OCH_KL_F_DOT8_US4] = {OCH_KL_P_DOT8_US4, F_PLAIN, "dot8_us4"},
    [OCH_KL_F_DOT2] = {OCH_KL_P_DOT2, F_PLAIN, "dot2"},
    [OCH_KL_F_PACK4_I8] = {OCH_KL_P_PACK4_I8, F_PLAIN, "pack4_i8"},
    [OCH_KL_F_UNPACK4_I8] = {OCH_KL_P_UNPACK4_I8, F_PLAIN, "unpack4_i8"},
    [OCH_KL_F_UNPACK4_U8] = {OCH_KL_P_UNPACK4_U8, F_PLAIN, "unpack4_u8"},
    [OCH_KL_F_WAVE_SUM] = {OCH_KL_P_WAVE_SUM, F_EXTRA, "wave_sum"},
    [OCH_KL_F_WAVE_MAX] = {OCH_KL_P_WAVE_MAX, F_EXTRA, "wave_max"},
    [OCH_KL_F_WAVE_MIN] = {OCH_KL_P_WAVE_MIN, F_EXTRA, "wave_min"},
    [OCH_KL_F_WAVE_SCAN] = {OCH_KL_P_WAVE_SCAN, F_EXTRA, "wave_scan"},
    [OCH_KL_F_SHUFFLE] = {OCH_KL_P_SHUFFLE, F_EXTRA, "shuffle"},
    [OCH_KL_F_SHUFFLE_XOR] = {OCH_KL_P_SHUFFLE_XOR, F_OTHER, NULL},
    [OCH_KL_F_BROADCAST] = {OCH_KL_P_BROADCAST, F_OTHER, NULL},
    [OCH_KL_F_FIRST] = {OCH_KL_P_FIRST, F_PLAIN, "first"},
    [OCH_KL_F_MMA_SS] = {OCH_KL_P_MMA_SS, F_PLAIN, "mma_ss"},
    [OCH_KL_F_MMA_US] = {OCH_KL_P_MMA_US, F_PLAIN, "mma_us"},
    [OCH_KL_F_BALLOT] = {OCH_KL_P_BALLOT, F_PLAIN, "ballot"},
    [OCH_KL_F_AWAIT] = {OCH_KL_P_AWAIT, F_OTHER, NULL},
    [OCH_KL_F_RELEASE] = {OCH_KL_P_VECTOR, F_OTHER, NULL},
    [OCH_KL_F_FENCE] = {OCH_KL_P_FENCE, F_EXTRA, "fence"},
    [OCH_KL_F_ATOMIC_ADD] = {OCH_KL_P_ATOMIC_ADD, F_ATOMIC, "atomic_add"},
    [OCH_KL_F_ATOMIC_MIN] = {OCH_KL_P_ATOMIC_MIN, F_ATOMIC, "atomic_min"},
    [OCH_KL_F_ATOMIC_MAX] = {OCH_KL_P_ATOMIC_MAX, F_ATOMIC, "atomic_max"},
    [OCH_KL_F_ATOMIC_OR] = {OCH_KL_P_ATOMIC_OR, F_ATOMIC, "atomic_or"},
    [OCH_KL_F_ATOMIC_AND] = {OCH_KL_P_ATOMIC_AND, F_ATOMIC, "atomic_and"},
    [OCH_KL_F_ATOMIC_EXCHANGE] = {OCH_KL_P_ATOMIC_EXCHANGE, F_ATOMIC, "atomic_exchange"},
    [OCH_KL_F_ATOMIC_CAS] = {OCH_KL_P_ATOMIC_CAS, F_ATOMIC, "atomic_cas"},
    [OCH_KL_F_ATOMIC_LOAD] = {OCH_KL_P_ATOMIC_LOAD, F_ATOMIC, "atomic_load"},
    [OCH_KL_F_ATOMIC_STORE] = {OCH_KL_P_ATOMIC_STORE, F_ATOMIC, "atomic_store"},
    [OCH_KL_F_PRESENT] = {OCH_KL_P_VECTOR, F_OTHER, NULL},
    [OCH_KL_F_MMA] = {OCH_KL_P_VECTOR, F_OTHER, NULL},
    [OCH_KL_F_COPY_ASYNC] = {OCH_KL_P_COPY_ASYNC, F_OTHER, NULL},
    [OCH_KL_F_COPY_COMMIT] = {OCH_KL_P_COPY_GROUPS, F_PLAIN, "copy_commit"},
    [OCH_KL_F_COPY_WAIT] = {OCH_KL_P_COPY_GROUPS, F_EXTRA, "copy_wait"},
    [OCH_KL_F_LOAD_MATRIX] = {OCH_KL_P_LOAD_MATRIX, F_OTHER, NULL},
    [OCH_KL_F_GROUP_PLACE] = {OCH_KL_P_GROUP_PLACE, F_OTHER, NULL},
    [OCH_KL_F_GROUP_WORDS] = {OCH_KL_P_GROUP_HOLD, F_PLAIN, "group_words"},
    [OCH_KL_F_GROUP_HOLD] = {OCH_KL_P_GROUP_HOLD, F_OTHER, NULL},
    [OCH_KL_F_GROUP_BEGIN] = {OCH_KL_P_GROUP_STEPS, F_PLAIN, "group_begin"},
    [OCH_KL_F_GROUP_MMA] = {OCH_KL_P_GROUP_STEPS, F_OTHER, NULL},
    [OCH_KL_F_GROUP_END] = {OCH_KL_P_GROUP_STEPS, F_PLAIN, "group_end"},
    [OCH_KL_F_GROUP_WAIT] = {OCH_KL_P_GROUP_STEPS, F_OTHER, NULL},
    [OCH_KL_F_HALVES] = {OCH_KL_P_HALVES, F_OTHER, NULL},
};

static void put(och_kl_emitter *e, const char *s) { och_strbuf_puts(e->out, s); }

static void emit_args(och_kl_emitter *e, const och_kl_ir *x) {
    for (int i = 0; i < x->n_args; i++) {
        if (i) put(e, ", ");
        och_kl_emit_expr(e, x->args[i], OCH_KL_PREC_ANY);
    }
}

static bool is_unsigned(och_kl_base b) { return och_kl_base_is_int(b) && !och_kl_base_is_signed(b); }

static void emit_bits(och_kl_emitter *e, const och_kl_ir *x, const char *name, int prec) {
    char type[24];
    bool cast = x->type.base != OCH_KL_I32 && !(x->intrinsic == OCH_KL_F_BFE && x->type.base == OCH_KL_U32);
    if (cast) och_strbuf_printf(e->out, prec < OCH_KL_PREC_UNARY ? "((%s)" : "(%s)", och_kl_type_name(e, x->type, type));
    och_strbuf_printf(e->out, "och_%s(", name);
    for (int i = 0; i < x->n_args; i++) {
        if (i) put(e, ", ");
        if (is_unsigned(x->args[i]->type.base)) och_kl_emit_expr(e, x->args[i], OCH_KL_PREC_ANY);
        else {
            put(e, "(u32)");
            och_kl_emit_expr(e, x->args[i], OCH_KL_PREC_UNARY);
        }
    }
    put(e, cast && prec < OCH_KL_PREC_UNARY ? "))" : ")");
}

/* thread / lanes is the same for a wave, which no compiler sees. */
static void emit_wave_id(och_kl_emitter *e) {
    if (e->c->signature.waves == 1) {
        put(e, "0");
        return;
    }
    och_kl_need(e, OCH_KL_P_FIRST);
    put(e, "och_first(och_thread() / OCH_WAVE)");
}

static void emit_shuffle_xor(och_kl_emitter *e, const och_kl_ir *x) {
    int64_t mask;
    if (och_kl_is_int(x->args[1], &mask)) {
        och_strbuf_printf(e->out, "och_shuffle_xor<%d>(", (int)(mask & (e->c->profile.wave - 1)));
        och_kl_emit_expr(e, x->args[0], OCH_KL_PREC_ANY);
        put(e, ")");
        return;
    }
    och_kl_need(e, OCH_KL_P_SHUFFLE);
    och_kl_need(e, OCH_KL_P_LANE);
    och_strbuf_printf(e->out, "och_shuffle<%d>(", x->extra ? x->extra : e->c->profile.wave);
    och_kl_emit_expr(e, x->args[0], OCH_KL_PREC_ANY);
    put(e, ", och_lane() ^ (i32)");
    och_kl_emit_expr(e, x->args[1], OCH_KL_PREC_UNARY);
    put(e, ")");
}

static void emit_broadcast(och_kl_emitter *e, const och_kl_ir *x) {
    if (x->extra == 0 || x->extra == e->c->profile.wave) put(e, "och_broadcast(");
    else {
        och_kl_need(e, OCH_KL_P_SHUFFLE);
        och_strbuf_printf(e->out, "och_shuffle<%d>(", x->extra);
    }
    emit_args(e, x);
    put(e, ")");
}

static void emit_mma(och_kl_emitter *e, const och_kl_ir *x) {
    const och_kl_matrix *m = och_kl_matrix_at(x->extra);
    for (int i = 0;; i++) {
        if (i == e->n_matrices) {
            const och_kl_matrix **grown = och_arena_alloc(&e->arena, (size_t)i + 2, sizeof *grown);
            if (!grown) {
                e->failed = true;
                return;
            }
            for (int j = 0; j < i; j++) grown[j] = e->matrices[j];
            grown[i] = m;
            e->matrices = grown;
            e->n_matrices++;
        }
        if (e->matrices[i] == m) break;
    }
    och_strbuf_printf(e->out, "och_mma_%s(", m->name);
    emit_args(e, x);
    put(e, ")");
}

static void emit_group_mma(och_kl_emitter *e, const och_kl_ir *x) {
    bool bf16 = x->extra & OCH_KL_GROUP_BF16;
    bool turned = x->extra & OCH_KL_GROUP_TURNED;
    uint32_t n = (uint32_t)(x->extra & ~(OCH_KL_GROUP_BF16 | OCH_KL_GROUP_TURNED));
    char name[OCH_KL_GROUP_NAME_BYTES];
    e->group_matrices[turned][bf16][n / 8] = true;
    och_strbuf_printf(e->out, "%s(&%s[%u], ", och_kl_group_matrix_name(bf16 ? OCH_KL_BF16 : OCH_KL_F16, n, turned, name),
                      och_kl_var_name(e, x->var), (unsigned)x->at[0]);
    emit_args(e, x);
    put(e, ")");
}

static void emit_copy_async(och_kl_emitter *e, const och_kl_ir *x) {
    och_strbuf_printf(e->out, "och_copy_async(&%s[", och_kl_var_name(e, x->var));
    och_kl_emit_expr(e, x->args[0], OCH_KL_PREC_ANY);
    put(e, "], ");
    och_kl_emit_address(e, &x->mem, false, false);
    put(e, ", ");
    och_kl_emit_expr(e, x->args[1], OCH_KL_PREC_ANY);
    put(e, ")");
}

/* Of pointers with restrict a compiler knows better than to let the wait stand in the way of a load: those that what came before
 * may have written go through it. */
static void emit_await(och_kl_emitter *e) {
    bool first = true;
    put(e, "och_await(");
    for (const och_kl_var *v = e->c->vars; v; v = v->next) {
        if (!v->argument || v->space != OCH_KL_GLOBAL || v->steady) continue;
        put(e, first ? "" : ", ");
        put(e, och_kl_var_name(e, v));
        first = false;
    }
    put(e, ")");
}

static void emit_halves(och_kl_emitter *e, const och_kl_ir *x) {
    char name[24];
    och_strbuf_printf(e->out, "och_halves<%s, %d>(", och_kl_type_name(e, x->type, name), x->type.lanes);
    och_kl_emit_expr(e, x->args[0], OCH_KL_PREC_ANY);
    put(e, ")");
}

void och_kl_emit_call(och_kl_emitter *e, const och_kl_ir *x, int prec) {
    och_kl_intrinsic f = x->intrinsic;
    const char *name = calls[f].name;
    if (f == OCH_KL_F_LOAD_MATRIX && x->extra) och_kl_need(e, OCH_KL_P_LOAD_TURNED);
    else if (f != OCH_KL_F_PRESENT && f != OCH_KL_F_MMA) och_kl_need(e, calls[f].piece);
    switch (calls[f].form) {
    case F_PLAIN:
        och_strbuf_printf(e->out, "och_%s(", name);
        emit_args(e, x);
        put(e, ")");
        break;
    case F_EXTRA:
        och_strbuf_printf(e->out, "och_%s<%d>(", name, x->extra);
        emit_args(e, x);
        put(e, ")");
        break;
    case F_UPPER: emit_bits(e, x, name, prec); break;
    case F_ATOMIC:
        och_strbuf_printf(e->out, "och_%s<%d>(", name, x->extra);
        och_kl_emit_address(e, &x->mem, true, f != OCH_KL_F_ATOMIC_LOAD);
        if (x->n_args) put(e, ", ");
        emit_args(e, x);
        put(e, ")");
        break;
    case F_OTHER:
        if (f == OCH_KL_F_WAVE_ID) emit_wave_id(e);
        else if (f == OCH_KL_F_SHUFFLE_XOR) emit_shuffle_xor(e, x);
        else if (f == OCH_KL_F_BROADCAST) emit_broadcast(e, x);
        else if (f == OCH_KL_F_MMA) emit_mma(e, x);
        else if (f == OCH_KL_F_COPY_ASYNC) emit_copy_async(e, x);
        else if (f == OCH_KL_F_HALVES) emit_halves(e, x);
        else if (f == OCH_KL_F_AWAIT) emit_await(e);
        else if (f == OCH_KL_F_RELEASE) put(e, e->dialect->release);
        else if (f == OCH_KL_F_GROUP_MMA) emit_group_mma(e, x);
        else if (f == OCH_KL_F_GROUP_WAIT) och_strbuf_printf(e->out, "och_group_wait<%d>(%s)", x->extra, och_kl_var_name(e, x->var));
        else if (f == OCH_KL_F_GROUP_HOLD) och_strbuf_printf(e->out, "och_group_hold(%s)", och_kl_var_name(e, x->var));
        else if (f == OCH_KL_F_GROUP_PLACE) {
            och_strbuf_printf(e->out, "och_group_place<%d", x->extra % 256);
            if (x->extra > 256) och_strbuf_printf(e->out, ", %d", x->extra / 256);
            put(e, ">(");
            och_kl_emit_address(e, &x->mem, false, false);
            put(e, ")");
        }
        else if (f == OCH_KL_F_LOAD_MATRIX) {
            put(e, x->extra ? "och_load_turned(" : "och_load_matrix(");
            och_kl_emit_address(e, &x->mem, false, false);
            put(e, ")");
        }
        else { /* PRESENT */
            if (prec < OCH_KL_PREC_EQ) put(e, "(");
            put(e, och_kl_var_name(e, x->args[0]->var));
            put(e, " != nullptr");
            if (prec < OCH_KL_PREC_EQ) put(e, ")");
        }
        break;
    }
}
