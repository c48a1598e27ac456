/* Formats: where planes lie, units whose fields are loaded once, writing units. */
#include "kl/spec.h"

#include <string.h>

#define MAX_PLANES OCH_KL_MAX_PLANES

static och_kl_type scalar(och_kl_base b) {
    return och_kl_type_of(b, 1);
}

static bool const_of(och_kl_spec *s, const och_kl_decl *d, const och_kl_expr *e, const char *what, int64_t *out) {
    och_kl_binding_node *scope = s->scope;
    bool only = s->constants_only;
    s->scope = NULL;
    s->constants_only = true;
    bool ok = och_kl_eval_const_int(s, e, what, out);
    s->scope = scope;
    s->constants_only = only;
    if (!ok) return false;
    if (*out < 1 || *out > 65536)
        return och_kl_error(s->diag, e->pos, "%s of %s must be 1 to 65536, found %lld", what, d->name, (long long)*out);
    return true;
}

bool och_kl_format_facts(och_kl_spec *s, const och_kl_decl *d, int64_t *out_unit, int64_t *out_block) {
    if (!d->unit) return och_kl_error(s->diag, d->pos, "%s says no unit", d->name);
    if (!const_of(s, d, d->unit, "the unit", out_unit)) return false;
    *out_block = *out_unit;
    if (d->block && !const_of(s, d, d->block, "the block", out_block)) return false;
    if (*out_block % *out_unit)
        return och_kl_error(s->diag, d->block->pos, "a block of %s, %lld, is no whole number of units of %lld", d->name,
                            (long long)*out_block, (long long)*out_unit);
    return true;
}

bool och_kl_format_field(och_kl_spec *s, och_kl_pos pos, const och_kl_decl *d, const char *name, och_kl_val *out) {
    int64_t unit, block;
    if (!strcmp(name, "unit") || !strcmp(name, "block")) {
        if (!och_kl_format_facts(s, d, &unit, &block)) return false;
        *out = och_kl_val_int(name[0] == 'u' ? unit : block);
        return true;
    }
    if (!strcmp(name, "act") && d->kind == OCH_KL_D_FORMAT) {
        if (!d->act) return och_kl_error(s->diag, pos, "%s names no act format", d->name);
        const och_kl_decl *a = och_kl_find_decl(s, OCH_KL_D_ACT, d->act);
        if (!a) return och_kl_error(s->diag, d->pos, "%s pairs with \"%s\", which is no act format", d->name, d->act);
        *out = (och_kl_val){.kind = OCH_KL_V_FORMAT, .decl = a};
        return true;
    }
    for (const och_kl_decl *f = d->fns; f; f = f->next)
        if (!strcmp(f->name, name))
            return och_kl_error(s->diag, pos, "%s.%s is a function: it is called", d->name, name);
    return och_kl_error(s->diag, pos, "%s has no \"%s\": there are unit, block%s", d->name, name,
                        d->kind == OCH_KL_D_FORMAT ? ", act and its functions" : "");
}

/* Elements and bytes of a plane's entry. */
static bool plane_facts(och_kl_spec *s, const och_kl_plane_ast *p, och_kl_base *out_base, int *out_lanes,
                        uint32_t *out_bytes) {
    if (!och_kl_base_find(p->elem, out_base) || *out_base == OCH_KL_BOOL)
        return och_kl_error(s->diag, p->pos, "\"%s\" is no storage type", p->elem);
    int n = p->count ? (int)p->count : 1;
    if (n != 1 && n != 2 && n != 4 && n != 8 && n != 16 && n != 32)
        return och_kl_error(s->diag, p->pos, "a plane holds 1, 2, 4, 8, 16 or 32 elements an entry, found %d", n);
    *out_lanes = n;
    *out_bytes = och_kl_base_bytes(*out_base) * (uint32_t)n;
    return true;
}

bool och_kl_format_planes(och_kl_spec *s, och_kl_buffer *b) {
    const och_kl_decl *d = b->format;
    och_kl_pos pos = b->ast->pos;
    int64_t unit, block;
    if (!och_kl_format_facts(s, d, &unit, &block)) return false;
    och_kl_list *outer = s->list;
    s->list = &s->prologue;
    och_kl_ir *k = och_kl_convert(s->code, pos, scalar(OCH_KL_U32), b->dims[b->rank - 1]);
    och_kl_ir *at = och_kl_u32(s, pos, 0);
    int i = 0;
    bool ok = true;
    for (const och_kl_plane_ast *p = d->planes; p && ok; p = p->next, i++) {
        och_kl_base base;
        int lanes;
        uint32_t bytes;
        if (i == MAX_PLANES) ok = och_kl_error(s->diag, p->pos, "more than %d planes", MAX_PLANES);
        if (!ok || !plane_facts(s, p, &base, &lanes, &bytes)) {
            ok = false;
            break;
        }
        int64_t span = p->per_block ? block : unit;
        b->arg->planes[i].bytes = bytes;
        b->arg->planes[i].span = (uint32_t)span;
        b->arg->n_planes = i + 1;
        b->planes[i] = at = och_kl_keep(s, pos, p->name, at, OCH_KL_L_GROUP);
        if (!p->next) break;
        och_kl_ir *entries = k;
        if (span > 1)
            entries =
                och_kl_binary(s->code, pos, '/', och_kl_binary(s->code, pos, '+', k, och_kl_u32(s, pos, span - 1)),
                              och_kl_u32(s, pos, span));
        och_kl_ir *size = och_kl_binary(s->code, pos, '*', entries, och_kl_u32(s, pos, bytes));
        if (bytes % 16)
            size = och_kl_binary(s->code, pos, '&', och_kl_binary(s->code, pos, '+', size, och_kl_u32(s, pos, 15)),
                                 och_kl_u32(s, pos, ~15u));
        at = och_kl_binary(s->code, pos, '+', at, size);
        if (!at) ok = false;
    }
    s->list = outer;
    b->arg->align_bytes = 16;
    return ok && !s->code->failed;
}

och_kl_bundle *och_kl_bundle_new(och_kl_spec *s, och_kl_pos pos, och_kl_buffer *b, och_kl_ir *row, och_kl_ir *unit,
                                 och_kl_level level, bool streamed) {
    och_kl_bundle *u = och_kl_alloc(s, 1, sizeof *u);
    if (!u || !row || !unit) return NULL;
    u->buf = b;
    u->level = level;
    u->streamed = streamed;
    u->pos = pos;
    u->row = och_kl_keep(s, pos, "row", row, level);
    u->index = s->stage_outer ? och_kl_carry(s, pos, "u", unit) : och_kl_keep(s, pos, "u", unit, level);
    u->list = s->list;
    u->anchor = s->list->last;
    if (s->stage_outer) {
        u->outer = s->stage_outer;
        u->outer_anchor = s->stage_outer->last;
    }
    return u->row && u->index ? u : NULL;
}

/* Bytes of a row of k elements. */
static bool row_bytes(och_kl_spec *s, const och_kl_decl *d, int64_t k, int64_t *out) {
    int64_t unit, block;
    if (!och_kl_format_facts(s, d, &unit, &block)) return false;
    *out = 0;
    for (const och_kl_plane_ast *p = d->planes; p; p = p->next) {
        och_kl_base base;
        int lanes;
        uint32_t bytes;
        int64_t span = p->per_block ? block : unit;
        if (!plane_facts(s, p, &base, &lanes, &bytes)) return false;
        *out += ((k + span - 1) / span * bytes + 15) / 16 * 16;
    }
    return true;
}

/* row.staged(A, first, u): unit u of a row whose bytes were copied to an array in LDS, from its element `first` on. Of the row itself
 * only the format and the length are looked at. */
bool och_kl_staged_unit(och_kl_spec *s, const och_kl_expr *e, const och_kl_val *row, och_kl_val *out) {
    och_kl_val v[3];
    char buf[64];
    int64_t k;
    if (row->buf->kind == OCH_KL_A_BUFFER)
        return och_kl_error(s->diag, e->pos, "%s has no units: it is a plain buffer", row->buf->ast->name);
    if (och_kl_count_args(e->args) != 3)
        return och_kl_error(s->diag, e->pos, "staged takes the array in LDS that holds the row, the row's first element in it, and the unit's number");
    const och_kl_expr *args[3] = {e->args, e->args->next, e->args->next->next};
    if (!och_kl_eval_list(s, args, 3, v)) return false;
    och_kl_lds *l = v[0].lds;
    if (v[0].kind != OCH_KL_V_LDS) return och_kl_error(s->diag, args[0]->pos, "staged takes an array in LDS, found %s", och_kl_val_text(&v[0], buf));
    if (l->elem != OCH_KL_U32 || l->pad)
        return och_kl_error(s->diag, args[0]->pos, "%s is %s%s: whole rows lie in arrays of u32 without padding", l->var->name,
                            l->pad ? "padded" : "of ", l->pad ? "" : och_kl_base_names[l->elem]);
    for (int i = 1; i < 3; i++) {
        if (!och_kl_to_index(s, args[i]->pos, v[i], &v[i])) return false;
        if (och_kl_const_int(&v[i], &k) && k < 0) return och_kl_error(s->diag, args[i]->pos, "an index is not negative, found %lld", (long long)k);
    }
    /* Elements from where the array, or the part of it, begins. */
    int64_t elements = 1, begin = 0, bytes = 4;
    for (int i = v[0].n_at; i < l->rank; i++) elements *= l->dims[i];
    if (och_kl_gcd(v[1].multiple, v[0].n_at ? (uint64_t)elements : 0) % 4)
        return och_kl_error(s->diag, args[1]->pos, "a row begins at a multiple of 16 bytes: its first element must be known to be a multiple of 4");
    (void)och_kl_const_int(&v[1], &begin);
    if (och_kl_is_int(row->buf->dims[row->buf->rank - 1], &k) && !row_bytes(s, row->buf->format, k, &bytes)) return false;
    if (begin + bytes / 4 > elements)
        return och_kl_error(s->diag, args[1]->pos, "a row of %s has %lld bytes: from element %lld on there are %lld", row->buf->ast->name, (long long)bytes,
                            (long long)begin, (long long)(elements - begin) * 4);
    och_kl_ir *first = och_kl_convert(s->code, e->pos, scalar(OCH_KL_I32), v[1].ir);
    if (v[0].ir) first = och_kl_binary(s->code, e->pos, '+', v[0].ir, first);
    first = och_kl_binary(s->code, e->pos, '*', first, och_kl_i32(s, e->pos, 4));
    och_kl_level level = och_kl_join(och_kl_join(v[0].level, v[1].level), v[2].level);
    och_kl_ir *u = och_kl_convert(s->code, e->pos, scalar(OCH_KL_U32), v[2].ir);
    och_kl_bundle *b = och_kl_bundle_new(s, e->pos, row->buf, first, u, level, false);
    if (!b) return false;
    b->staged = l;
    *out = (och_kl_val){.kind = OCH_KL_V_UNIT, .unit = b, .level = level};
    return true;
}

bool och_kl_unit_of(och_kl_spec *s, const och_kl_expr *e, const och_kl_val *row, bool streamed, och_kl_val *out) {
    och_kl_val i;
    if (row->buf->kind == OCH_KL_A_BUFFER)
        return och_kl_error(s->diag, e->pos, "%s has no units: it is a plain buffer", row->buf->ast->name);
    if (och_kl_count_args(e->args) != 1) return och_kl_error(s->diag, e->pos, "unit takes the unit's number");
    if (!och_kl_eval(s, e->args, &i) || !och_kl_to_index(s, e->args->pos, i, &i)) return false;
    if (!row->buf->in) return och_kl_error(s->diag, e->pos, "%s is `out`: it is not read", row->buf->ast->name);
    s->read_early |= !row->buf->steady && !s->awaited;
    och_kl_level level = och_kl_join(och_kl_join(row->level, i.level), OCH_KL_L_GROUP);
    och_kl_ir *u = och_kl_convert(s->code, e->pos, scalar(OCH_KL_U32), i.ir);
    och_kl_bundle *b = och_kl_bundle_new(s, e->pos, row->buf, row->ir, u, level, streamed);
    if (!b) return false;
    *out = (och_kl_val){.kind = OCH_KL_V_UNIT, .unit = b, .level = level};
    return true;
}

/* Where entry u of a plane is, in bytes: i64, or i32 of a row in LDS. */
static och_kl_ir *entry(och_kl_spec *s, och_kl_pos pos, och_kl_buffer *b, int plane, const och_kl_plane_ast *p,
                        och_kl_ir *row, och_kl_ir *u, uint32_t bytes) {
    int64_t unit = 1, block = 1;
    if (!och_kl_format_facts(s, b->format, &unit, &block)) return NULL;
    if (p->per_block && block != unit) u = och_kl_binary(s->code, pos, '/', u, och_kl_u32(s, pos, block / unit));
    och_kl_ir *first = och_kl_convert(s->code, pos, row->type, b->planes[plane]), *at;
    if (row->type.base == OCH_KL_I32) at = och_kl_binary(s->code, pos, '*', och_kl_convert(s->code, pos, row->type, u), och_kl_i32(s, pos, bytes));
    else at = och_kl_scaled(s, pos, u, bytes);
    return och_kl_binary(s->code, pos, '+', och_kl_binary(s->code, pos, '+', row, first), at);
}

static uint32_t entry_align(uint32_t bytes) {
    uint32_t a = 1;
    while (a < 16 && bytes % (2 * a) == 0) a *= 2;
    return a;
}

bool och_kl_unit_field(och_kl_spec *s, och_kl_pos pos, const och_kl_val *v, const char *name, och_kl_val *out) {
    och_kl_bundle *u = v->unit;
    och_kl_buffer *b = u->buf;
    if (!strcmp(name, "index")) {
        int64_t unit, block;
        if (!och_kl_format_facts(s, b->format, &unit, &block)) return false;
        och_kl_ir *i = och_kl_binary(s->code, pos, '%', u->index, och_kl_u32(s, pos, block / unit));
        *out = och_kl_val_ir(och_kl_convert(s->code, pos, scalar(OCH_KL_I32), i), u->level);
        return out->ir != NULL;
    }
    int n = 0;
    for (const och_kl_plane_ast *p = b->format->planes; p; p = p->next, n++) {
        if (strcmp(p->name, name)) continue;
        och_kl_base base;
        int lanes;
        uint32_t bytes;
        if (!plane_facts(s, p, &base, &lanes, &bytes)) return false;
        och_kl_level level = b->var->read_only && !u->staged ? u->level : OCH_KL_L_LANE;
        if (!u->loaded[n]) {
            och_kl_mem m = {.base = u->staged ? u->staged->var : b->var,
                            .elem = base,
                            .lanes = (uint8_t)lanes,
                            .align_bytes = entry_align(bytes),
                            .streamed = u->streamed,
                            .bytes = true};
            m.index = entry(s, u->pos, b, n, p, u->row, u->index, bytes);
            if (!m.index) return false;
            m.index->uniformity = och_kl_level_uniformity(u->level);
            och_kl_ir *x = och_kl_load(s->code, u->pos, &m);
            if (!x) return false;
            x->uniformity = och_kl_level_uniformity(level);
            /* Kept as stored: the registers hold bytes, not what they become. */
            och_kl_var *var = och_kl_new_var(s->code, name, x->type, OCH_KL_REG, NULL, 0);
            och_kl_ins *d = var ? och_kl_loose(s, OCH_KL_I_DECLARE, u->pos) : NULL;
            if (!d) return false;
            var->uniformity = och_kl_level_uniformity(level);
            d->var = var;
            if (u->outer) {
                och_kl_insert_after(u->outer, u->outer_anchor, d);
                u->outer_anchor = d;
                d = och_kl_loose(s, OCH_KL_I_ASSIGN, u->pos);
                if (!d) return false;
                d->var = var;
            } else
                var->fixed = true;
            d->value = x;
            och_kl_insert_after(u->list, u->anchor, d);
            u->anchor = d;
            u->loaded[n] = och_kl_use(s->code, u->pos, var);
        }
        och_kl_ir *x = u->loaded[n] ? och_kl_use(s->code, pos, u->loaded[n]->var) : NULL;
        och_kl_base as = base == OCH_KL_F16
                             ? OCH_KL_F32
                             : och_kl_arithmetic(base); /* scales and the like are computed with in f32 */
        *out = och_kl_val_ir(och_kl_convert(s->code, pos, och_kl_type_of(as, lanes), x), level);
        return out->ir != NULL;
    }
    och_kl_guess g;
    och_kl_guess_init(&g, name);
    for (const och_kl_plane_ast *p = b->format->planes; p; p = p->next) och_kl_guess_offer(&g, p->name);
    och_kl_guess_offer(&g, "index");
    const char *best = och_kl_guess_best(&g);
    if (best)
        return och_kl_error(s->diag, pos, "a unit of %s has no \"%s\": did you mean \"%s\"?", b->format->name, name,
                            best);
    return och_kl_error(s->diag, pos, "a unit of %s has no \"%s\"", b->format->name, name);
}

bool och_kl_put(och_kl_spec *s, const och_kl_expr *e, const och_kl_val *row) {
    och_kl_buffer *b = row->buf;
    const och_kl_expr *args[MAX_PLANES + 1];
    och_kl_val v[MAX_PLANES + 1], i;
    int n = 0;
    if (b->kind == OCH_KL_A_BUFFER)
        return och_kl_error(s->diag, e->pos, "%s has no units: it is a plain buffer", b->ast->name);
    if (!b->out) return och_kl_error(s->diag, e->pos, "%s is `in`: it is not written", b->ast->name);
    for (const och_kl_expr *a = e->args; a; a = a->next) {
        if (n > MAX_PLANES) return och_kl_error(s->diag, a->pos, "more arguments than planes");
        if (n && !a->arg_name)
            return och_kl_error(s->diag, a->pos, "put takes the unit's number, then PLANE: value for each plane");
        args[n++] = a;
    }
    if (!n || args[0]->arg_name) return och_kl_error(s->diag, e->pos, "put takes the unit's number first");
    if (!och_kl_eval_list(s, args, n, v) || !och_kl_to_index(s, args[0]->pos, v[0], &i)) return false;
    och_kl_ir *base_row = och_kl_keep(s, e->pos, "row", row->ir, row->level);
    och_kl_ir *u = och_kl_keep(s, e->pos, "u", och_kl_convert(s->code, e->pos, scalar(OCH_KL_U32), i.ir), i.level);
    if (!base_row || !u) return false;
    bool given[MAX_PLANES + 1] = {false};
    int plane = 0;
    for (const och_kl_plane_ast *p = b->format->planes; p; p = p->next, plane++) {
        int at = 1;
        while (at < n && strcmp(args[at]->arg_name, p->name)) at++;
        if (at == n)
            return och_kl_error(s->diag, e->pos, "put gives no %s: every plane of %s is written", p->name,
                                b->format->name);
        if (given[at]) return och_kl_error(s->diag, args[at]->pos, "%s is given twice", p->name);
        given[at] = true;
        och_kl_base base;
        int lanes;
        uint32_t bytes;
        och_kl_val w;
        if (!plane_facts(s, p, &base, &lanes, &bytes) || !och_kl_to_stored(s, args[at]->pos, v[at], base, lanes, &w))
            return false;
        och_kl_mem m = {
            .base = b->var, .elem = base, .lanes = (uint8_t)lanes, .align_bytes = entry_align(bytes), .bytes = true};
        m.index = entry(s, e->pos, b, plane, p, base_row, u, bytes);
        if (!m.index) return false;
        och_kl_emit_store(s, e->pos, &m, w.ir);
    }
    for (int at = 1; at < n; at++)
        if (!given[at])
            return och_kl_error(s->diag, args[at]->pos, "%s has no plane \"%s\", or it is given twice", b->format->name,
                                args[at]->arg_name);
    b->written = true;
    return !s->code->failed;
}
