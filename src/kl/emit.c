#include "kl/emit_priv.h"
#include "kl/matrix.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void put(och_kl_emitter *e, const char *s) { och_strbuf_puts(e->out, s); }

void och_kl_need(och_kl_emitter *e, och_kl_piece piece) {
    if (e->pieces[piece]) return;
    e->pieces[piece] = true;
    const och_kl_piece_row *row = och_kl_piece_find(e->dialect, piece, &e->c->profile);
    for (int i = 0; row && i < OCH_KL_PIECE_DEPS && row->deps[i]; i++) och_kl_need(e, row->deps[i]);
    char name[24];
    if (piece == OCH_KL_P_DOT2) och_kl_type_name(e, och_kl_type_of(OCH_KL_F16, 2), name);
    if (piece == OCH_KL_P_PACK4_I8) och_kl_type_name(e, och_kl_type_of(OCH_KL_F32, 4), name);
    if (piece == OCH_KL_P_UNPACK4_I8) och_kl_type_name(e, och_kl_type_of(OCH_KL_I32, 4), name);
    if (piece == OCH_KL_P_GROUP_STEPS) och_kl_type_name(e, och_kl_type_of(OCH_KL_F32, 4), name);
    if (piece == OCH_KL_P_GROUP_HOLD) och_kl_type_name(e, och_kl_type_of(OCH_KL_F32, 4), name);
    if (piece == OCH_KL_P_LOAD_MATRIX || piece == OCH_KL_P_LOAD_TURNED || piece == OCH_KL_P_GROUP_HOLD) och_kl_type_name(e, och_kl_type_of(OCH_KL_U32, 4), name);
    if (piece == OCH_KL_P_UNPACK4_U8) och_kl_type_name(e, och_kl_type_of(OCH_KL_U32, 4), name);
}

const char *och_kl_type_name(och_kl_emitter *e, och_kl_type t, char buf[24]) {
    if (t.lanes <= 1) return och_kl_base_names[t.base];
    unsigned log = 0;
    while (1u << log < t.lanes) log++;
    e->types[t.base] |= 1u << log;
    snprintf(buf, 24, "%sx%d", och_kl_base_names[t.base], t.lanes);
    return buf;
}

/* The types and pieces that a matrix instruction's function is made of. */
static void need_matrix(och_kl_emitter *e, const och_kl_matrix *m) {
    char name[24];
    och_kl_type_name(e, och_kl_type_of(m->in, och_kl_matrix_a_lanes(m)), name);
    och_kl_type_name(e, och_kl_type_of(m->in, och_kl_matrix_b_lanes(m)), name);
    och_kl_type_name(e, och_kl_type_of(m->out, och_kl_matrix_c_lanes(m)), name);
    och_kl_need(e, OCH_KL_P_BITS);
    if (m->form == OCH_KL_M_MMA_SYNC || m->in == OCH_KL_I8) och_kl_need(e, OCH_KL_P_WORDS);
    if (m->form != OCH_KL_M_PLAIN) return;
    if (m->in == OCH_KL_F16) och_kl_need(e, OCH_KL_P_DOT2);
    if (m->in == OCH_KL_I8) och_kl_need(e, OCH_KL_P_DOT4_SS);
    if (m->in == OCH_KL_BF16) och_kl_need(e, OCH_KL_P_FMA);
    if (m->in == OCH_KL_BF16) och_kl_need(e, OCH_KL_P_FROM_BF16);
}

/* ---- names ---- */

static const char *const reserved[] = {
    "alignas",   "alignof",  "and",      "and_eq",    "asm",          "auto",          "bitand",
    "bitor",     "bool",     "break",    "case",      "catch",        "char",          "char16_t",
    "char32_t",  "class",    "compl",    "const",     "const_cast",   "constexpr",     "continue",
    "decltype",  "default",  "delete",   "do",        "double",       "dynamic_cast",  "else",
    "enum",      "explicit", "export",   "extern",    "false",        "float",         "for",
    "friend",    "goto",     "if",       "inline",    "int",          "long",          "mutable",
    "namespace", "new",      "noexcept", "not",       "not_eq",       "nullptr",       "operator",
    "or",        "or_eq",    "private",  "protected", "public",       "register",      "reinterpret_cast",
    "return",    "short",    "signed",   "sizeof",    "static",       "static_assert", "static_cast",
    "struct",    "switch",   "template", "this",      "thread_local", "throw",         "true",
    "try",       "typedef",  "typeid",   "typename",  "typeof",       "union",         "unsigned",
    "using",     "virtual",  "void",     "volatile",  "wchar_t",      "while",         "xor",
    "xor_eq",    "i8",       "u8",       "i16",       "u16",          "i32",           "u32",
    "i64",       "u64",      "f16",      "bf16",      "f32",          "fp8",           "bf8",
    "linux",     "unix"};

/* Enters a name; false when it is there already. */
static bool take(och_kl_emitter *e, const char *name) {
    size_t i = 0;
    for (const char *p = name; *p; p++) i = i * 31 + (unsigned char)*p;
    i *= 0x9E3779B97F4A7C15u;
    i = i >> 32 & (e->n_taken - 1);
    for (; e->taken[i]; i = (i + 1) & (e->n_taken - 1))
        if (strcmp(e->taken[i], name) == 0) return false;
    e->taken[i] = name;
    return true;
}

const char *och_kl_var_name(och_kl_emitter *e, const och_kl_var *v) {
    if (e->names[v->id]) return e->names[v->id];
    char text[OCH_KL_NAME_BYTES + 64];
    /* Ours begin with och_; two underscores are the compiler's, and so may be a name of capitals (macros: NULL). */
    bool capitals = v->name[0] && v->name[1] && !v->name[strspn(v->name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")];
    bool ours = strncmp(v->name, "och_", 4) == 0 || strncmp(v->name, "OCH_", 4) == 0 || strstr(v->name, "__") ||
                v->name[0] == '_' || capitals;
    snprintf(text, sizeof text, "%s%.*s", ours ? "v_" : "", OCH_KL_NAME_BYTES, v->name);
    if (ours)
        for (char *p = text; (p = strstr(p, "__"));) memmove(p, p + 1, strlen(p));
    const char *name = och_arena_strndup(&e->arena, text, strlen(text));
    if (name && !take(e, name)) {
        size_t n = strlen(text);
        for (int tries = 0;; tries++) {
            snprintf(text + n, sizeof text - n, tries ? "_%d_%d" : "_%d", v->id, tries);
            name = och_arena_strndup(&e->arena, text, strlen(text));
            if (!name || take(e, name)) break;
        }
    }
    if (!name) {
        e->failed = true;
        return "";
    }
    e->names[v->id] = name;
    return name;
}

/* ---- lines ---- */

static void newline(och_kl_emitter *e) {
    put(e, "\n");
    e->line++;
}

/* Begins a line for an instruction; says where it comes from unless the compiler counts there by itself. */
static void begin(och_kl_emitter *e, const och_kl_pos *pos) {
    if (pos && pos->file && (pos->file != e->file || pos->line != e->line)) {
        och_strbuf_printf(e->out, "#line %" PRIu32 " ", pos->line);
        och_strbuf_json(e->out, pos->file->name, strlen(pos->file->name));
        put(e, "\n");
        e->file = pos->file;
        e->line = pos->line;
    }
    for (int i = 0; i < e->indent; i++) put(e, "    ");
}

/* ---- instructions ---- */

static void emit_list(och_kl_emitter *e, const och_kl_list *l);

static void emit_body(och_kl_emitter *e, const och_kl_list *l) {
    put(e, " {");
    newline(e);
    e->indent++;
    emit_list(e, l);
    e->indent--;
    begin(e, NULL);
    put(e, "}");
}

static bool is_zero(const och_kl_ir *x) {
    if (x->kind == OCH_KL_X_BUILD && x->n_args == 1) x = x->args[0];
    return (x->kind == OCH_KL_X_INT && x->integer == 0) || (x->kind == OCH_KL_X_REAL && x->real == 0 && !(1 / x->real < 0));
}

/* Every element of an array from one value. */
static void emit_fill(och_kl_emitter *e, const och_kl_ins *x, const char *name, const char *type) {
    const och_kl_var *v = x->var;
    newline(e);
    begin(e, NULL);
    put(e, "{");
    newline(e);
    e->indent++;
    begin(e, NULL);
    och_strbuf_printf(e->out, "const %s och_fill = ", type);
    och_kl_emit_expr(e, x->value, OCH_KL_PREC_ANY);
    put(e, ";");
    newline(e);
    for (int d = 0; d < v->n_dims; d++) {
        begin(e, NULL);
        och_strbuf_printf(e->out, "_Pragma(\"unroll\") for (int och_%c = 0; och_%c < %" PRIu32 "; och_%c++)", 'a' + d,
                          'a' + d, v->dims[d], 'a' + d);
        newline(e);
    }
    begin(e, NULL);
    och_strbuf_printf(e->out, "    %s", name);
    for (int d = 0; d < v->n_dims; d++) och_strbuf_printf(e->out, "[och_%c]", 'a' + d);
    put(e, " = och_fill;");
    newline(e);
    e->indent--;
    begin(e, NULL);
    put(e, "}");
}

static void emit_declare(och_kl_emitter *e, const och_kl_ins *x) {
    och_kl_var *v = x->var;
    char buf[24];
    const char *type = och_kl_type_name(e, v->type, buf), *name = och_kl_var_name(e, v);
    if (v->fixed && v->n_dims == 0 && x->value) {
        e->at_least_0[v->id] = och_kl_is_at_least_0(e, x->value);
        e->is_count[v->id] = och_kl_is_count(e, x->value);
    }
    /* The value is in front of its name's scope: it may hold one of the same name. */
    och_strbuf_printf(e->out, "%s%s %s", v->fixed && v->n_dims == 0 && x->value ? "const " : "", type, name);
    for (int d = 0; d < v->n_dims; d++) och_strbuf_printf(e->out, "[%" PRIu32 "]", v->dims[d]);
    if (!x->value) put(e, ";");
    else if (v->n_dims == 0) {
        put(e, " = ");
        och_kl_emit_expr(e, x->value, OCH_KL_PREC_ANY);
        put(e, ";");
    } else if (is_zero(x->value)) put(e, " = {};");
    else {
        put(e, ";");
        emit_fill(e, x, name, type);
    }
}

/* A bound that is no constant or fixed variable is computed once, before the loop. */
static bool is_fixed(const och_kl_ir *x) {
    return x->kind == OCH_KL_X_INT || (x->kind == OCH_KL_X_VAR && x->var->fixed);
}

static void emit_for(och_kl_emitter *e, const och_kl_ins *x) {
    och_kl_var *v = x->var;
    char buf[24];
    const char *type = och_kl_type_name(e, v->type, buf), *name = och_kl_var_name(e, v);
    e->at_least_0[v->id] = och_kl_is_at_least_0(e, x->value) && (!x->step || och_kl_is_at_least_0(e, x->step));
    e->is_count[v->id] = och_kl_is_count(e, x->value) && (!x->step || och_kl_is_count(e, x->step));
    och_strbuf_printf(e->out, "for (%s %s = ", type, name);
    och_kl_emit_expr(e, x->value, OCH_KL_PREC_ANY);
    if (!is_fixed(x->limit)) {
        put(e, ", och_end = ");
        och_kl_emit_expr(e, x->limit, OCH_KL_PREC_ANY);
    }
    if (x->step && !is_fixed(x->step)) {
        put(e, ", och_step = ");
        och_kl_emit_expr(e, x->step, OCH_KL_PREC_ANY);
    }
    och_strbuf_printf(e->out, "; %s < ", name);
    if (is_fixed(x->limit)) och_kl_emit_expr(e, x->limit, OCH_KL_PREC_ADD);
    else put(e, "och_end");
    int64_t one;
    if (!x->step || (och_kl_is_int(x->step, &one) && one == 1)) och_strbuf_printf(e->out, "; %s++)", name);
    else {
        och_strbuf_printf(e->out, "; %s += ", name);
        if (is_fixed(x->step)) och_kl_emit_expr(e, x->step, OCH_KL_PREC_ANY);
        else put(e, "och_step");
        put(e, ")");
    }
    emit_body(e, &x->body);
}

static void emit_store(och_kl_emitter *e, const och_kl_ins *x) {
    const och_kl_mem *m = &x->mem;
    char name[24];
    if (och_kl_emit_element(e, m)) {
        put(e, " = ");
        och_kl_emit_expr(e, x->value, OCH_KL_PREC_ANY);
        put(e, ";");
        return;
    }
    och_kl_need(e, m->streamed ? OCH_KL_P_PUT_STREAM : OCH_KL_P_PUT);
    /* The type is written: nothing is deduced from what the value happens to be. */
    och_strbuf_printf(e->out, "och_put%s<%s, %" PRIu32 ">(", m->streamed ? "_stream" : "",
                      och_kl_type_name(e, och_kl_type_of(m->elem, m->lanes), name), och_kl_mem_align(m));
    och_kl_emit_address(e, m, false, true);
    put(e, ", ");
    och_kl_emit_expr(e, x->value, OCH_KL_PREC_ANY);
    put(e, ");");
}

static bool uses_groups(const och_kl_emitter *e) { return och_kl_uses(e->c, OCH_KL_F_GROUP_MMA); }

static void emit_ins(och_kl_emitter *e, const och_kl_ins *x) {
    begin(e, &x->pos);
    switch (x->kind) {
    case OCH_KL_I_DECLARE: emit_declare(e, x); break;
    case OCH_KL_I_ASSIGN:
        put(e, och_kl_var_name(e, x->var));
        for (int d = 0; d < x->var->n_dims; d++) och_strbuf_printf(e->out, "[%" PRIu32 "]", x->at[d]);
        put(e, " = ");
        och_kl_emit_expr(e, x->value, OCH_KL_PREC_ANY);
        put(e, ";");
        break;
    case OCH_KL_I_STORE: emit_store(e, x); break;
    case OCH_KL_I_DO:
        och_kl_emit_expr(e, x->value, OCH_KL_PREC_ANY);
        put(e, ";");
        break;
    case OCH_KL_I_IF:
        put(e, "if (");
        och_kl_emit_expr(e, x->value, OCH_KL_PREC_ANY);
        put(e, ")");
        emit_body(e, &x->body);
        if (x->other.first) {
            put(e, " else");
            emit_body(e, &x->other);
        }
        break;
    case OCH_KL_I_FOR: emit_for(e, x); break;
    case OCH_KL_I_WHILE:
        put(e, "while (");
        och_kl_emit_expr(e, x->value, OCH_KL_PREC_ANY);
        put(e, ")");
        emit_body(e, &x->body);
        break;
    case OCH_KL_I_BLOCK: emit_body(e, &x->body); break;
    case OCH_KL_I_BARRIER:
        if (uses_groups(e)) {
            och_kl_need(e, OCH_KL_P_BARRIER_ALL);
            put(e, "och_barrier_all();");
        } else {
            och_kl_need(e, OCH_KL_P_BARRIER);
            put(e, "och_barrier();");
        }
        break;
    case OCH_KL_I_BREAK: put(e, "break;"); break;
    case OCH_KL_I_CONTINUE: put(e, "continue;"); break;
    case OCH_KL_I_RETURN: put(e, "return;"); break;
    }
    newline(e);
}

static void emit_list(och_kl_emitter *e, const och_kl_list *l) {
    for (const och_kl_ins *x = l->first; x; x = x->next) emit_ins(e, x);
}

/* ---- the kernel ---- */

/* Parameters lie in the arguments as C lays them out; the signature was made before and must agree. */
static void emit_parameters(och_kl_emitter *e) {
    const och_kl_signature *s = &e->c->signature;
    uint32_t at = 0;
    bool first = true;
    for (const och_kl_var *v = e->c->vars; v; v = v->next) {
        if (!v->argument) continue;
        uint32_t size = v->space == OCH_KL_GLOBAL ? 8 : och_kl_base_bytes(v->type.base);
        at = (at + size - 1) / size * size;
        if (at != v->offset) e->broken = "a parameter's offset is not where C puts it";
        at += size;
        put(e, first ? "\n    " : ",\n    ");
        first = false;
        if (v->space == OCH_KL_GLOBAL)
            och_strbuf_printf(e->out, "%s%s *%s", v->read_only ? "const " : "", och_kl_base_names[v->type.base],
                              v->aliased ? "" : "__restrict__ ");
        else {
            och_strbuf_printf(e->out, "const %s ", och_kl_base_names[v->type.base]);
            /* Sizes and strides are counts. */
            if (v->type.base == OCH_KL_I64) e->at_least_0[v->id] = e->is_count[v->id] = true;
            for (int i = 0; i < s->n_args; i++)
                if (s->args[i].kind == OCH_KL_A_SCALAR && s->args[i].offset == v->offset)
                    e->at_least_0[v->id] = e->is_count[v->id] = false;
        }
        put(e, och_kl_var_name(e, v));
    }
    if (at > s->args_bytes) e->broken = "the parameters take more than the signature's argument bytes";
}

/* The arrays in LDS, each from a multiple of 16 bytes on (spec.c counts them so). */
static void emit_lds(och_kl_emitter *e) {
    uint64_t at = 0;
    if (e->c->signature.lds_launch_bytes) {
        begin(e, NULL);
        int align = uses_groups(e) ? OCH_KL_GROUP_ALIGN : 16;
        och_strbuf_printf(e->out, e->dialect->lds_block, align);
        newline(e);
    }
    for (const och_kl_var *v = e->c->vars; v; v = v->next) {
        if (v->space != OCH_KL_LDS) continue;
        const char *type = och_kl_base_names[v->type.base], *name = och_kl_var_name(e, v);
        uint64_t n = 1;
        for (int d = 0; d < v->n_dims; d++) n *= v->dims[d];
        begin(e, NULL);
        if (e->c->signature.lds_launch_bytes)
            och_strbuf_printf(e->out, "%s *const %s = (%s *)(och_lds + %" PRIu64 ");", type, name, type, at);
        else och_strbuf_printf(e->out, "alignas(16) __shared__ %s %s[%" PRIu64 "];", type, name, n);
        newline(e);
        at += (n * och_kl_base_bytes(v->type.base) * v->type.lanes + 15) / 16 * 16;
    }
}

static void emit_kernel(och_kl_emitter *e) {
    const och_kl_signature *s = &e->c->signature;
    put(e, "extern \"C\" __global__ ");
    e->dialect->launch(e->out, s, e->c->profile.target.target, e->c->occupancy);
    och_strbuf_printf(e->out, " void %s(", s->entry);
    emit_parameters(e);
    put(e, ") {\n");
    e->indent = 1;
    if (s->waits) {
        if (!och_kl_uses(e->c, OCH_KL_F_RELEASE)) {
            begin(e, NULL);
            put(e, e->dialect->release);
            put(e, ";");
            newline(e);
        }
        for (och_kl_var *v = e->c->vars; v; v = v->next) {
            if (!v->held) continue;
            och_kl_need(e, OCH_KL_P_AWAIT);
            begin(e, NULL);
            och_strbuf_printf(e->out, "%s = och_behind(%s);", och_kl_var_name(e, v), och_kl_var_name(e, v));
            newline(e);
        }
    }
    emit_lds(e);
    emit_list(e, &e->c->body);
    put(e, "}\n");
}

static void emit_prologue(och_kl_emitter *e, och_strbuf *text) {
    const och_kl_signature *s = &e->c->signature;
    och_strbuf_printf(text, "// %s %s\n// %s, %s, waves of %d\n\n%s", s->kernel, s->spec, e->dialect->name, s->target,
                      s->wave, e->dialect->head);
    och_strbuf_puts(text, "typedef signed char i8;\n"
                          "typedef unsigned char u8, fp8, bf8;\n"
                          "typedef short i16;\n"
                          "typedef unsigned short u16, bf16;\n"
                          "typedef int i32;\n"
                          "typedef unsigned int u32;\n"
                          "typedef long long i64;\n"
                          "typedef unsigned long long u64;\n"
                          "typedef float f32;\n");
    if (e->dialect->f16) och_strbuf_puts(text, e->dialect->f16);
    for (int p = OCH_KL_P_VECTOR; p <= OCH_KL_P_F16; p++) {
        const och_kl_piece_row *row = e->pieces[p] ? och_kl_piece_find(e->dialect, (och_kl_piece)p, &e->c->profile) : NULL;
        if (row) och_strbuf_puts(text, row->text);
    }
    for (int b = 0; b < OCH_KL_BASE_COUNT_; b++)
        for (int log = 1; log <= 6; log++)
            if (e->types[b] & 1u << log) {
                /* Both dialects name element and lanes; where the vector's name stands differs. */
                const char *name = och_kl_base_names[b];
                if (e->dialect == &och_kl_dialect_hip)
                    och_strbuf_printf(text, e->dialect->vector, name, name, 1 << log, 1 << log);
                else och_strbuf_printf(text, e->dialect->vector, name, 1 << log, name, 1 << log);
            }
    och_strbuf_printf(text, "enum { OCH_WAVE = %d, OCH_THREADS = %d };\n\n", s->wave, s->threads);
    for (int p = OCH_KL_P_F16 + 1; p < OCH_KL_P_COUNT_; p++) {
        const och_kl_piece_row *row = e->pieces[p] ? och_kl_piece_find(e->dialect, (och_kl_piece)p, &e->c->profile) : NULL;
        if (!row) continue;
        och_strbuf_puts(text, row->text);
        och_strbuf_puts(text, "\n");
    }
    for (int i = 0; i < e->n_matrices; i++) {
        och_kl_matrix_text(e->matrices[i], text);
        och_strbuf_puts(text, "\n");
    }
    for (int b = 0; b < 4; b++)
        for (uint32_t n = 1; n <= 32; n++)
            if (e->group_matrices[b / 2][b % 2][n]) {
                och_kl_group_matrix_text(b % 2 ? OCH_KL_BF16 : OCH_KL_F16, 8 * n, b / 2, text);
                och_strbuf_puts(text, "\n");
            }
}

och_status och_kl_emit(const och_kl_code *c, och_strbuf *text, och_err *err) {
    och_status st = OCH_OK;
    if (c->failed) return och_err_nomem(err, 0, "the code of a kernel");
    och_strbuf body;
    och_strbuf_init(&body);
    och_kl_emitter e = {.c = c, .dialect = och_kl_dialect_of(&c->profile), .out = &body};
    och_arena_init(&e.arena);
    size_t n_names = (size_t)c->n_vars + sizeof reserved / sizeof reserved[0];
    for (e.n_taken = 64; e.n_taken < 4 * n_names;) e.n_taken *= 2;
    e.names = och_arena_alloc(&e.arena, (size_t)c->n_vars + 1, sizeof *e.names);
    e.at_least_0 = och_arena_alloc(&e.arena, (size_t)c->n_vars + 1, sizeof *e.at_least_0);
    e.is_count = och_arena_alloc(&e.arena, (size_t)c->n_vars + 1, sizeof *e.is_count);
    e.taken = och_arena_alloc(&e.arena, e.n_taken, sizeof *e.taken);
    if (!e.names || !e.at_least_0 || !e.is_count || !e.taken) {
        st = och_err_nomem(err, e.n_taken * sizeof *e.taken, "the names of a kernel");
        goto done;
    }
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++) take(&e, reserved[i]);
    och_kl_need(&e, OCH_KL_P_VECTOR);
    och_kl_need(&e, OCH_KL_P_F16);
    emit_kernel(&e);
    if (e.broken) {
        st = och_err_set(err, OCH_INTERNAL, "kernel %s: %s", c->signature.kernel, e.broken);
        goto done;
    }
    for (int i = 0; i < e.n_matrices; i++) need_matrix(&e, e.matrices[i]);
    emit_prologue(&e, text);
    och_strbuf_append(text, body.data, body.size);
    if (e.failed || body.failed || text->failed) st = och_err_nomem(err, body.size, "the text of a kernel");
done:
    och_arena_deinit(&e.arena);
    och_strbuf_deinit(&body);
    return st;
}
