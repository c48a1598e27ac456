/* Signatures as bytes: numbers little-endian, strings with a length before them, in the order of the struct. */
#include "file/cursor.h"
#include "kl/kl.h"

#include <string.h>

#define MAGIC 0x3453424fu /* "OBS4" */

static void put(och_strbuf *b, uint64_t v, int n_bytes) {
    unsigned char raw[8];
    for (int i = 0; i < n_bytes; i++) raw[i] = (unsigned char)(v >> (8 * i));
    och_strbuf_append(b, raw, (size_t)n_bytes);
}
static void put_str(och_strbuf *b, const char *s) {
    size_t n = strlen(s);
    put(b, n, 2);
    och_strbuf_append(b, s, n);
}
static void put_rule(och_strbuf *b, const och_kl_rule *r) {
    put_str(b, r->text);
    put(b, (uint64_t)r->n_steps, 1);
    for (int i = 0; i < r->n_steps; i++) {
        put(b, (uint64_t)r->steps[i].op, 1);
        put(b, (uint64_t)r->steps[i].value, 8);
    }
}

och_status och_kl_signature_write(const och_kl_signature *s, och_strbuf *out, och_err *err) {
    put(out, MAGIC, 4);
    put_str(out, s->kernel);
    put_str(out, s->entry);
    put_str(out, s->spec);
    put_str(out, s->target);
    put(out, (uint64_t)s->wave, 4);
    put(out, (uint64_t)s->waves, 4);
    put(out, (uint64_t)s->threads, 4);
    put(out, s->lds_bytes, 4);
    put(out, s->lds_launch_bytes, 4);
    put(out, s->waits, 1);
    put(out, s->args_bytes, 4);
    put(out, (uint64_t)s->n_args, 1);
    put(out, (uint64_t)s->n_sizes, 1);
    put(out, (uint64_t)s->n_rules, 1);
    for (int i = 0; i < s->n_args; i++) {
        const och_kl_arg *a = &s->args[i];
        put_str(out, a->name);
        put(out, (uint64_t)a->kind, 1);
        put(out, (uint64_t)(a->in | a->out << 1 | a->optional << 2 | a->in_place << 3), 1);
        put(out, a->over, 4);
        put_str(out, a->type);
        put(out, a->elem_bytes, 4);
        put(out, a->align_bytes, 4);
        put(out, (uint64_t)a->n_planes, 1);
        for (int p = 0; p < a->n_planes; p++) {
            put(out, a->planes[p].bytes, 4);
            put(out, a->planes[p].span, 4);
        }
        put(out, (uint64_t)a->rank, 1);
        for (int d = 0; d < a->rank; d++) put_rule(out, &a->dims[d]);
        put(out, a->offset, 4);
        put(out, a->bytes, 4);
        for (int d = 0; d < 2; d++) put(out, a->stride_offset[d], 4);
    }
    for (int i = 0; i < s->n_sizes; i++) {
        put_str(out, s->sizes[i]);
        put(out, s->size_offset[i], 4);
    }
    for (int i = 0; i < 3; i++) put_rule(out, &s->grid[i]);
    for (int i = 0; i < s->n_rules; i++) put_rule(out, &s->rules[i]);
    return och_strbuf_status(out, err);
}

static bool get(och_cursor *c, int n_bytes, uint64_t most, uint64_t *out_v) {
    return och_cursor_le(c, n_bytes, out_v) && *out_v <= most;
}
static bool get_int(och_cursor *c, int n_bytes, int most, int *out_v) {
    uint64_t v;
    bool ok = get(c, n_bytes, (uint64_t)most, &v);
    *out_v = ok ? (int)v : 0;
    return ok;
}
static bool get_u32(och_cursor *c, uint32_t *out_v) { return och_cursor_u32(c, out_v); }
static bool get_str(och_cursor *c, char *out, size_t size) {
    uint64_t n;
    if (!get(c, 2, size - 1, &n) || !och_cursor_copy(c, out, n)) return false;
    out[n] = 0;
    return strlen(out) == n;
}

/* A rule whose steps leave exactly one number and never take more than there are. */
static bool get_rule(och_cursor *c, int n_sizes, int n_args, och_kl_rule *r) {
    int depth = 0;
    if (!get_str(c, r->text, sizeof r->text) || !get_int(c, 1, OCH_KL_MAX_STEPS, &r->n_steps)) return false;
    for (int i = 0; i < r->n_steps; i++) {
        int op;
        uint64_t v;
        if (!get_int(c, 1, OCH_KL_R_NOT, &op) || !och_cursor_u64(c, &v)) return false;
        r->steps[i].op = (och_kl_step_op)op;
        r->steps[i].value = (int64_t)v;
        if (op == OCH_KL_R_SIZE && v >= (uint64_t)n_sizes) return false;
        if (op == OCH_KL_R_SCALAR && v >= (uint64_t)n_args) return false;
        if (op <= OCH_KL_R_SCALAR) depth++;
        else if (op == OCH_KL_R_NOT ? depth < 1 : depth < 2) return false;
        else if (op != OCH_KL_R_NOT) depth--;
    }
    return depth == 1;
}

static bool inside(uint32_t offset, uint32_t bytes, uint32_t all) { return bytes <= all && offset <= all - bytes; }

static bool get_arg(och_cursor *c, const och_kl_signature *s, och_kl_arg *a) {
    int kind, flags;
    if (!get_str(c, a->name, sizeof a->name) || !get_int(c, 1, OCH_KL_A_SCALAR, &kind) || !get_int(c, 1, 15, &flags) ||
        !get_u32(c, &a->over) || !get_str(c, a->type, sizeof a->type) || !get_u32(c, &a->elem_bytes) ||
        !get_u32(c, &a->align_bytes) || !get_int(c, 1, OCH_KL_MAX_PLANES, &a->n_planes))
        return false;
    for (int p = 0; p < a->n_planes; p++)
        if (!get_u32(c, &a->planes[p].bytes) || !get_u32(c, &a->planes[p].span) || !a->planes[p].span) return false;
    if (!get_int(c, 1, 3, &a->rank) || a->over >> s->n_args) return false;
    a->kind = (och_kl_arg_kind)kind;
    if (a->n_planes && a->kind != OCH_KL_A_WEIGHT && a->kind != OCH_KL_A_ACT) return false;
    a->in = flags & 1;
    a->out = flags >> 1 & 1;
    a->optional = flags >> 2 & 1;
    a->in_place = flags >> 3 & 1;
    for (int d = 0; d < a->rank; d++)
        if (!get_rule(c, s->n_sizes, 0, &a->dims[d])) return false;
    if (!get_u32(c, &a->offset) || !get_u32(c, &a->bytes) || !get_u32(c, &a->stride_offset[0]) ||
        !get_u32(c, &a->stride_offset[1]))
        return false;
    bool scalar = a->kind == OCH_KL_A_SCALAR;
    if (scalar ? a->rank != 0 || !(a->bytes == 1 || a->bytes == 2 || a->bytes == 4 || a->bytes == 8)
               : a->rank < 1 || a->bytes != 8)
        return false;
    if ((!strcmp(a->type, "f32") && scalar && a->bytes != 4) || (!strcmp(a->type, "f16") && scalar && a->bytes != 2))
        return false;
    if (!inside(a->offset, a->bytes, s->args_bytes)) return false;
    for (int d = 0; d + 1 < a->rank; d++)
        if (!inside(a->stride_offset[d], 8, s->args_bytes)) return false;
    /* Powers of two, so that a mask tests them. */
    return a->align_bytes <= 4096 && !(a->align_bytes & (a->align_bytes - 1)) && a->elem_bytes <= 4096;
}

static bool get_all(och_cursor *c, och_kl_signature *s) {
    uint64_t magic, waits;
    if (!get(c, 4, UINT32_MAX, &magic) || magic != MAGIC) return false;
    if (!get_str(c, s->kernel, sizeof s->kernel) || !get_str(c, s->entry, sizeof s->entry) ||
        !get_str(c, s->spec, sizeof s->spec) || !get_str(c, s->target, sizeof s->target) ||
        !get_int(c, 4, 1024, &s->wave) || !get_int(c, 4, 1024, &s->waves) || !get_int(c, 4, 1024, &s->threads) ||
        !get_u32(c, &s->lds_bytes) || !get_u32(c, &s->lds_launch_bytes) || !get(c, 1, 1, &waits) ||
        !get_u32(c, &s->args_bytes) || !get_int(c, 1, OCH_KL_MAX_ARGS, &s->n_args) ||
        !get_int(c, 1, OCH_KL_MAX_SIZES, &s->n_sizes) || !get_int(c, 1, OCH_KL_MAX_RULES, &s->n_rules) ||
        s->args_bytes > OCH_KL_MAX_ARG_BYTES || (s->lds_launch_bytes && s->lds_launch_bytes != s->lds_bytes) || s->wave < 1 || s->threads != s->wave * s->waves)
        return false;
    s->waits = waits;
    for (int i = 0; i < s->n_args; i++)
        if (!get_arg(c, s, &s->args[i])) return false;
    for (int i = 0; i < s->n_sizes; i++)
        if (!get_str(c, s->sizes[i], sizeof s->sizes[i]) || !get_u32(c, &s->size_offset[i]) ||
            !inside(s->size_offset[i], 8, s->args_bytes))
            return false;
    for (int i = 0; i < 3; i++)
        if (!get_rule(c, s->n_sizes, s->n_args, &s->grid[i])) return false;
    for (int i = 0; i < s->n_rules; i++)
        if (!get_rule(c, s->n_sizes, s->n_args, &s->rules[i])) return false;
    return och_cursor_left(c) == 0;
}

och_status och_kl_signature_read(const void *bytes, size_t n_bytes, och_kl_signature *out_s, och_err *err) {
    och_cursor c = och_cursor_view(bytes, n_bytes);
    memset(out_s, 0, sizeof *out_s);
    if (get_all(&c, out_s)) return OCH_OK;
    memset(out_s, 0, sizeof *out_s);
    return och_err_set(
        err, OCH_CORRUPT,
        "a kernel's signature: expected the fields of version 3, found something else at byte %llu of %zu",
        (unsigned long long)c.pos, n_bytes);
}
