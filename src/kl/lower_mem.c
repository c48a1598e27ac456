/* Memory: elements, rows and wide pieces of buffers; arrays in LDS; atomics.
 *
 * Buffers are addressed in bytes: a row by 64 bits, within a row by 32, unsigned (och_kl_scaled). A buffer of one dimension has
 * no rows: 64 bits. */
#include "kl/spec.h"
#include "kl/tile.h"

#include <stdio.h>
#include <string.h>

static och_kl_type scalar(och_kl_base b) {
    return och_kl_type_of(b, 1);
}

static och_kl_ir *to_i64(och_kl_spec *s, och_kl_pos pos, och_kl_ir *x) {
    return x ? och_kl_convert(s->code, pos, scalar(OCH_KL_I64), x) : NULL;
}

och_kl_ir *och_kl_scaled(och_kl_spec *s, och_kl_pos pos, och_kl_ir *i, uint32_t bytes) {
    i = och_kl_convert(s->code, pos, scalar(OCH_KL_U32), i);
    if (s->profile.target.target->vendor == OCH_VENDOR_NVIDIA)
        return och_kl_binary(s->code, pos, '*', to_i64(s, pos, i), och_kl_i64(s, pos, bytes));
    return to_i64(s, pos, och_kl_binary(s->code, pos, '*', i, och_kl_u32(s, pos, bytes)));
}

och_kl_ir *och_kl_row_offset(och_kl_spec *s, och_kl_pos pos, och_kl_buffer *b, och_kl_ir *const *index, int n,
                             bool clamped) {
    och_kl_ir *sum = NULL;
    for (int i = 0; i < n; i++) {
        och_kl_ir *at = to_i64(s, pos, index[i]);
        if (clamped && at) {
            /* As unsigned: a negative number is beyond the end too. */
            och_kl_ir *ua = och_kl_convert(s->code, pos, scalar(OCH_KL_U64), at);
            och_kl_ir *ud = och_kl_convert(s->code, pos, scalar(OCH_KL_U64), b->dims[i]);
            och_kl_ir *last = och_kl_binary(s->code, pos, '-', b->dims[i], och_kl_i64(s, pos, 1));
            at = och_kl_select(s->code, pos, och_kl_binary(s->code, pos, '<', ua, ud), at, last);
        }
        och_kl_ir *part = och_kl_binary(s->code, pos, '*', at, b->strides[i]);
        sum = i ? och_kl_binary(s->code, pos, '+', sum, part) : part;
    }
    if (b->kind == OCH_KL_A_BUFFER)
        sum = och_kl_binary(s->code, pos, '*', sum, och_kl_i64(s, pos, och_kl_base_bytes(b->elem)));
    return sum;
}

static uint32_t wide_align(uint32_t bytes) {
    return bytes > 16 ? 16 : bytes;
}

/* The piece number j of `lanes` elements in what begins at byte `row` (NULL: a buffer of one dimension). */
static bool global_place(och_kl_spec *s, och_kl_pos pos, och_kl_buffer *b, och_kl_ir *row, och_kl_level level,
                         const och_kl_val *j, int lanes, och_kl_place *out) {
    uint32_t bytes = och_kl_base_bytes(b->elem) * (uint32_t)lanes;
    och_kl_ir *index;
    if (row) {
        index = och_kl_binary(s->code, pos, '+', row, och_kl_scaled(s, pos, j->ir, bytes));
    } else {
        och_kl_ir *at = j->ir;
        if (at->type.base == OCH_KL_I32) at = och_kl_convert(s->code, pos, scalar(OCH_KL_U32), at);
        index = och_kl_binary(s->code, pos, '*', to_i64(s, pos, at), och_kl_i64(s, pos, bytes));
    }
    if (!index) return false;
    uint32_t align = wide_align(bytes);
    if (b->arg->align_bytes < align) b->arg->align_bytes = align;
    *out = (och_kl_place){.mem = {.base = b->var,
                                  .elem = b->elem,
                                  .lanes = (uint8_t)lanes,
                                  .align_bytes = align,
                                  .bytes = true,
                                  .index = index},
                          .level = och_kl_join(level, j->level),
                          .buf = b};
    index->uniformity = index->kind == OCH_KL_X_INT ? OCH_KL_U_CONST : och_kl_level_uniformity(out->level);
    return true;
}

/* A wide piece of a row is whole only where the row's length is a multiple of its width. */
static bool check_width(och_kl_spec *s, och_kl_pos pos, och_kl_buffer *b, int lanes) {
    int last = b->rank - 1;
    if (b->multiples[last] % (uint64_t)lanes == 0) return true;
    const char *size = b->arg->dims[last].text;
    och_kl_error(s->diag, pos, "%d elements at once: rows of %s must be known to be a multiple of %d long", lanes,
                 b->ast->name, lanes);
    och_kl_note(s->diag, pos, "require %s %% %d == 0", size, lanes);
    return false;
}

/* The column of a swizzled row, where its piece lies. Matrices are multiples of eight rows: the row's number among all of them says
 * what its own does. */
static och_kl_ir *swizzled(och_kl_spec *s, och_kl_pos pos, const och_kl_val *v, och_kl_ir *col) {
    uint32_t bytes = och_kl_base_bytes(v->lds->elem), cols = v->lds->dims[v->lds->rank - 1];
    och_kl_ir *row = v->ir ? och_kl_binary(s->code, pos, '/', v->ir, och_kl_i32(s, pos, cols)) : NULL;
    return row ? och_kl_binary(s->code, pos, '^', col, och_kl_swizzle_of(s->code, pos, row, cols * bytes, 16 / bytes)) : col;
}

static bool lds_place(och_kl_spec *s, och_kl_pos pos, const och_kl_val *v, const och_kl_val *j, int lanes,
                      och_kl_place *out) {
    och_kl_lds *l = v->lds;
    och_kl_ir *at = och_kl_convert(s->code, pos, scalar(OCH_KL_I32), j->ir);
    if (lanes > 1) at = och_kl_binary(s->code, pos, '*', at, och_kl_i32(s, pos, lanes));
    if (l->swizzled && (uint32_t)lanes * och_kl_base_bytes(l->elem) > 16)
        return och_kl_error(s->diag, pos, "the rows of %s are swizzled: at most 16 bytes are side by side", l->var->name);
    if (l->swizzled && at) at = swizzled(s, pos, v, at);
    if (v->ir && at) at = och_kl_binary(s->code, pos, '+', v->ir, at);
    if (!at) return false;
    uint32_t bytes = och_kl_base_bytes(l->elem), align = wide_align(bytes * (uint32_t)lanes);
    uint32_t row = (l->dims[l->rank - 1] + l->pad) * bytes;
    while (l->rank > 1 && row % align) align /= 2;
    *out = (och_kl_place){
        .mem = {.base = l->var, .elem = l->elem, .lanes = (uint8_t)lanes, .align_bytes = align, .index = at},
        .level = och_kl_join(v->level, j->level)};
    return true;
}

/* One more index of an array in LDS: v.ir is the flat element so far. */
static bool lds_step(och_kl_spec *s, och_kl_pos pos, const och_kl_val *v, const och_kl_val *i, och_kl_val *out) {
    och_kl_lds *l = v->lds;
    int64_t k, stride = 1;
    if (och_kl_const_int(i, &k) && (k < 0 || k >= (int64_t)l->dims[v->n_at]))
        return och_kl_error(s->diag, pos, "index %lld of an extent of %u", (long long)k, l->dims[v->n_at]);
    if (l->swizzled && v->n_at == l->rank - 2 && l->dims[v->n_at] % 8)
        return och_kl_error(s->diag, pos, "the rows of %s are swizzled: they are indexed where a matrix has a multiple of 8, found %u", l->var->name,
                            l->dims[v->n_at]);
    for (int d = v->n_at + 1; d < l->rank; d++) stride *= l->dims[d] + (d == l->rank - 1 ? l->pad : 0);
    och_kl_ir *at = och_kl_convert(s->code, pos, scalar(OCH_KL_I32), i->ir);
    if (l->swizzled && v->n_at == l->rank - 1 && at) at = swizzled(s, pos, v, at);
    at = och_kl_binary(s->code, pos, '*', at, och_kl_i32(s, pos, stride));
    if (v->ir) at = och_kl_binary(s->code, pos, '+', v->ir, at);
    *out = *v;
    out->ir = at;
    out->n_at++;
    out->level = och_kl_join(v->level, i->level);
    return at != NULL;
}

static bool not_negative(och_kl_spec *s, och_kl_pos pos, const och_kl_val *i) {
    int64_t k;
    return !och_kl_const_int(i, &k) || k >= 0 ||
           och_kl_error(s->diag, pos, "an index is not negative, found %lld", (long long)k);
}

/* The indices of an E_INDEX, as indices. */
static bool eval_indices(och_kl_spec *s, const och_kl_expr *e, och_kl_val *base, och_kl_val *idx, int *out_n) {
    const och_kl_expr *all[8] = {e->a};
    och_kl_val v[8];
    int n = 1;
    for (const och_kl_expr *a = e->args; a; a = a->next) {
        if (n == 8) return och_kl_error(s->diag, e->pos, "more than 7 indices");
        all[n++] = a;
    }
    if (!och_kl_eval_list(s, all, n, v)) return false;
    *base = v[0];
    for (int i = 1; i < n; i++)
        if (!och_kl_to_index(s, all[i]->pos, v[i], &idx[i - 1]) || !not_negative(s, all[i]->pos, &idx[i - 1]))
            return false;
    *out_n = n - 1;
    return true;
}

static bool index_reg(och_kl_spec *s, const och_kl_expr *e, och_kl_val base, const och_kl_val *idx, int n,
                      och_kl_val *out) {
    const och_kl_var *v = base.slot->var;
    const och_kl_expr *a = e->args;
    for (int i = 0; i < n; i++, a = a->next) {
        int64_t k;
        if (!och_kl_const_int(&idx[i], &k)) {
            och_kl_error(s->diag, a->pos, "an index of %s must be known when compiled: it lives in registers", v->name);
            och_kl_note(s->diag, a->pos, "a `static for` variable is; an array in LDS takes any index");
            return false;
        }
        if (base.n_at == v->n_dims) {
            och_kl_val whole;
            if (i != n - 1 || v->type.lanes == 1)
                return och_kl_error(s->diag, a->pos, "%s has %d %s", v->name, v->n_dims,
                                    v->n_dims == 1 ? "dimension" : "dimensions");
            if (k < 0 || k >= v->type.lanes)
                return och_kl_error(s->diag, a->pos, "element %lld of a vector of %d", (long long)k, v->type.lanes);
            if (!och_kl_to_value(s, e->pos, base, &whole)) return false;
            *out = och_kl_val_ir(och_kl_elem(s->code, e->pos, whole.ir, (int)k), whole.level);
            return out->ir != NULL;
        }
        if (k < 0 || k >= (int64_t)v->dims[base.n_at])
            return och_kl_error(s->diag, a->pos, "index %lld of an extent of %u", (long long)k, v->dims[base.n_at]);
        base.at[base.n_at++] = (uint32_t)k;
    }
    *out = base;
    return true;
}

/* A place of a buffer, row or LDS array; *out_part: fewer indices than the LDS array has. */
static bool place_from(och_kl_spec *s, const och_kl_expr *e, const och_kl_val *base, const och_kl_val *idx, int n,
                       och_kl_place *out, bool *out_part, och_kl_val *out_val) {
    *out_part = false;
    if (base->kind == OCH_KL_V_LDS) {
        och_kl_val v = *base;
        if (v.n_at + n > v.lds->rank)
            return och_kl_error(s->diag, e->pos, "%s has %d %s", v.lds->var->name, v.lds->rank,
                                v.lds->rank == 1 ? "dimension" : "dimensions");
        for (int i = 0; i < n; i++)
            if (!lds_step(s, e->pos, &v, &idx[i], &v)) return false;
        *out_val = v;
        *out_part = v.n_at < v.lds->rank;
        if (*out_part) return true;
        *out = (och_kl_place){.mem = {.base = v.lds->var,
                                      .elem = v.lds->elem,
                                      .lanes = 1,
                                      .align_bytes = och_kl_base_bytes(v.lds->elem),
                                      .index = v.ir},
                              .level = v.level};
        return true;
    }
    och_kl_buffer *b = base->buf;
    if (b->kind != OCH_KL_A_BUFFER)
        return och_kl_error(s->diag, e->pos, "%s has no elements to index: .row(i).unit(u) reads it", b->ast->name);
    if (base->kind == OCH_KL_V_ROW) {
        if (n != 1) return och_kl_error(s->diag, e->pos, "a row takes one index, found %d", n);
        return global_place(s, e->pos, b, base->ir, base->level, &idx[0], 1, out);
    }
    if (n != b->rank)
        return och_kl_error(s->diag, e->pos, "%s has %d %s, found %d %s", b->ast->name, b->rank,
                            b->rank == 1 ? "dimension" : "dimensions", n, n == 1 ? "index" : "indices");
    och_kl_ir *row = NULL, *at[2];
    och_kl_level level = OCH_KL_L_GROUP;
    for (int i = 0; i < n - 1; i++) {
        at[i] = idx[i].ir;
        level = och_kl_join(level, idx[i].level);
    }
    if (n > 1 && !(row = och_kl_row_offset(s, e->pos, b, at, n - 1, false))) return false;
    return global_place(s, e->pos, b, row, level, &idx[n - 1], 1, out);
}

static bool may_read(och_kl_spec *s, och_kl_pos pos, const och_kl_buffer *b) {
    s->read_early |= !b->steady && !s->awaited;
    if (b->in || b->written) return true;
    och_kl_error(s->diag, pos, "%s is `out`: nothing is in it before this kernel writes", b->ast->name);
    och_kl_note(s->diag, b->ast->pos, "`inout` reads and writes");
    return false;
}

bool och_kl_load_place(och_kl_spec *s, och_kl_pos pos, const och_kl_place *p, och_kl_val *out) {
    if (p->buf && !may_read(s, pos, p->buf)) return false;
    och_kl_level level = p->buf && p->mem.base->read_only ? och_kl_join(p->level, OCH_KL_L_GROUP) : OCH_KL_L_LANE;
    och_kl_ir *x = och_kl_load(s->code, pos, &p->mem);
    if (!x) return false;
    x->uniformity = och_kl_level_uniformity(level);
    x = och_kl_convert(s->code, pos, och_kl_type_of(och_kl_arithmetic(p->mem.elem), p->mem.lanes), x);
    *out = och_kl_val_ir(x, level);
    return x != NULL;
}

och_kl_ir *och_kl_carry(och_kl_spec *s, och_kl_pos pos, const char *name, och_kl_ir *x) {
    if (!x || !s->stage_outer || x->kind == OCH_KL_X_INT || x->kind == OCH_KL_X_REAL) return x;
    och_kl_var *v = och_kl_new_var(s->code, name, x->type, OCH_KL_REG, NULL, 0);
    och_kl_ins *d = v ? och_kl_ins_new(s->code, s->stage_outer, OCH_KL_I_DECLARE, pos) : NULL;
    och_kl_ins *a = d ? och_kl_ins_new(s->code, s->list, OCH_KL_I_ASSIGN, pos) : NULL;
    if (!a) return NULL;
    v->uniformity = x->uniformity;
    d->var = a->var = v;
    a->value = x;
    return och_kl_use(s->code, pos, v);
}

bool och_kl_may_store_lds(och_kl_spec *s, och_kl_pos pos) {
    if (!s->one_slot) return true;
    och_kl_error(s->diag, pos, "this writes LDS before `do`, which reads it: the pipeline has one slot");
    och_kl_note(s->diag, pos, "depth 2 or more would be right, or a store outside of loops whose turns are not known");
    return false;
}

void och_kl_emit_store(och_kl_spec *s, och_kl_pos pos, const och_kl_mem *m, och_kl_ir *value) {
    och_kl_mem mem = *m;
    och_kl_list *to = s->list;
    if (s->deferred && mem.base->space == OCH_KL_LDS) {
        mem.index = och_kl_carry(s, pos, "at", mem.index);
        value = och_kl_carry(s, pos, "v", value);
        to = s->deferred;
    }
    och_kl_ins *i = value && mem.index ? och_kl_ins_new(s->code, to, OCH_KL_I_STORE, pos) : NULL;
    if (!i) return;
    i->mem = mem;
    i->value = value;
}

bool och_kl_store_place(och_kl_spec *s, och_kl_pos pos, och_kl_place *p, och_kl_val v) {
    if (p->buf && !p->buf->out) {
        och_kl_error(s->diag, pos, "%s is `in`: it is not written", p->buf->ast->name);
        och_kl_note(s->diag, p->buf->ast->pos, "`out` or `inout` would be");
        return false;
    }
    if (!p->buf && !s->deferred && !och_kl_may_store_lds(s, pos)) return false;
    och_kl_val w;
    if (!och_kl_to_stored(s, pos, v, p->mem.elem, p->mem.lanes, &w)) return false;
    if (p->buf) p->buf->written = true;
    och_kl_emit_store(s, pos, &p->mem, w.ir);
    return !s->code->failed;
}

bool och_kl_index(och_kl_spec *s, const och_kl_expr *e, och_kl_val *out) {
    och_kl_val base, idx[8];
    char buf[64];
    int n;
    if (!eval_indices(s, e, &base, idx, &n)) return false;
    switch (base.kind) {
    case OCH_KL_V_REG:
        return index_reg(s, e, base, idx, n, out);
    case OCH_KL_V_IR: {
        int64_t k;
        if (base.ir->type.lanes == 1)
            return och_kl_error(s->diag, e->pos, "%s has no elements", och_kl_val_text(&base, buf));
        if (n != 1 || !och_kl_const_int(&idx[0], &k))
            return och_kl_error(s->diag, e->args->pos, "an element of a vector is named by one constant");
        if (k < 0 || k >= base.ir->type.lanes)
            return och_kl_error(s->diag, e->args->pos, "element %lld of a vector of %d", (long long)k,
                                base.ir->type.lanes);
        *out = och_kl_val_ir(och_kl_elem(s->code, e->pos, base.ir, (int)k), base.level);
        return out->ir != NULL;
    }
    case OCH_KL_V_BUFFER:
    case OCH_KL_V_ROW:
    case OCH_KL_V_LDS: {
        och_kl_place p;
        bool part;
        if (!place_from(s, e, &base, idx, n, &p, &part, out)) return false;
        return part || och_kl_load_place(s, e->pos, &p, out);
    }
    case OCH_KL_V_ROWVEC:
        return och_kl_rowvec_index(s, e, &base, out);
    case OCH_KL_V_BAD:
        return false;
    default:
        return och_kl_error(s->diag, e->pos, "%s has no elements", och_kl_val_text(&base, buf));
    }
}

bool och_kl_place_of(och_kl_spec *s, const och_kl_expr *e, och_kl_place *out, bool *out_is) {
    *out_is = false;
    if (e->kind != OCH_KL_E_INDEX) return true;
    /* Whose element it is shows without evaluating anything: the name at its root. */
    const och_kl_expr *root = e;
    while (root->kind == OCH_KL_E_INDEX) root = root->a;
    if (root->kind == OCH_KL_E_NAME) {
        och_kl_binding_node *b = och_kl_lookup(s, root->u.name);
        if (b && b->val.kind != OCH_KL_V_BUFFER && b->val.kind != OCH_KL_V_ROW && b->val.kind != OCH_KL_V_LDS)
            return b->val.kind != OCH_KL_V_BAD;
    }
    och_kl_val base, idx[8], part_val;
    bool part;
    char buf[64];
    int n;
    if (!eval_indices(s, e, &base, idx, &n)) return false;
    if (base.kind != OCH_KL_V_BUFFER && base.kind != OCH_KL_V_ROW && base.kind != OCH_KL_V_LDS)
        return och_kl_error(s->diag, e->pos, "%s is no place that can be written", och_kl_val_text(&base, buf));
    if (!place_from(s, e, &base, idx, n, out, &part, &part_val)) return false;
    if (part)
        return och_kl_error(s->diag, e->pos, "%s needs %d more %s", part_val.lds->var->name,
                            part_val.lds->rank - part_val.n_at,
                            part_val.lds->rank - part_val.n_at == 1 ? "index" : "indices");
    *out_is = true;
    return true;
}

bool och_kl_row(och_kl_spec *s, och_kl_pos pos, const och_kl_val *v, const och_kl_expr *args, bool clamped,
                och_kl_val *out) {
    och_kl_buffer *b = v->buf;
    const och_kl_expr *e[2] = {NULL};
    och_kl_val idx[2];
    och_kl_ir *at[2];
    int n = och_kl_count_args(args);
    if (b->rank < 2) return och_kl_error(s->diag, pos, "%s has one dimension: it has no rows", b->ast->name);
    if (n != b->rank - 1)
        return och_kl_error(s->diag, pos, "a row of %s takes %d %s, found %d", b->ast->name, b->rank - 1,
                            b->rank == 2 ? "index" : "indices", n);
    e[0] = args;
    e[1] = args->next;
    if (!och_kl_eval_list(s, e, n, idx)) return false;
    och_kl_level level = OCH_KL_L_GROUP;
    for (int i = 0; i < n; i++) {
        if (!och_kl_to_index(s, e[i]->pos, idx[i], &idx[i]) || (!clamped && !not_negative(s, e[i]->pos, &idx[i])))
            return false;
        at[i] = idx[i].ir;
        level = och_kl_join(level, idx[i].level);
    }
    *out = (och_kl_val){.kind = OCH_KL_V_ROW, .buf = b, .level = level};
    out->ir = och_kl_row_offset(s, pos, b, at, n, clamped);
    if (out->ir && out->ir->kind != OCH_KL_X_INT) out->ir->uniformity = och_kl_level_uniformity(level);
    return out->ir != NULL;
}

bool och_kl_row_method(och_kl_spec *s, const och_kl_expr *e, const och_kl_val *base, const char *name, bool *out_is,
                       och_kl_val *out) {
    static const struct {
        const char *name;
        int lanes;
        bool store, stream;
    } methods[] = {
        {"load2", 2, false, false},       {"load4", 4, false, false},       {"load8", 8, false, false},
        {"load16", 16, false, false},     {"load_stream", 1, false, true},  {"load2_stream", 2, false, true},
        {"load4_stream", 4, false, true}, {"load8_stream", 8, false, true}, {"load16_stream", 16, false, true},
        {"store2", 2, true, false},       {"store4", 4, true, false},       {"store8", 8, true, false},
        {"store16", 16, true, false},     {"store_stream", 1, true, true},  {"store2_stream", 2, true, true},
        {"store4_stream", 4, true, true}, {"store8_stream", 8, true, true}, {"store16_stream", 16, true, true}};
    size_t m = 0;
    while (m < sizeof methods / sizeof *methods && strcmp(methods[m].name, name)) m++;
    *out_is = m < sizeof methods / sizeof *methods;
    if (!*out_is) return true;
    int want = methods[m].store ? 2 : 1, n = och_kl_count_args(e->args), lanes = methods[m].lanes;
    if (n != want)
        return och_kl_error(s->diag, e->pos, "%s takes %d %s, found %d", name, want,
                            want == 1 ? "argument" : "arguments", n);
    const och_kl_expr *args[2] = {e->args, e->args->next};
    och_kl_val v[2], j;
    if (!och_kl_eval_list(s, args, n, v) || !och_kl_to_index(s, args[0]->pos, v[0], &j)) return false;
    och_kl_place p;
    if (base->kind == OCH_KL_V_LDS) {
        och_kl_lds *l = base->lds;
        if (base->n_at != l->rank - 1)
            return och_kl_error(s->diag, e->pos, "%s needs %d more %s before .%s", l->var->name,
                                l->rank - 1 - base->n_at, l->rank - 1 - base->n_at == 1 ? "index" : "indices", name);
        if (l->dims[l->rank - 1] % (uint32_t)lanes)
            return och_kl_error(s->diag, e->pos, "%d elements at once: the last extent of %s, %u, is no multiple of %d",
                                lanes, l->var->name, l->dims[l->rank - 1], lanes);
        if (!lds_place(s, e->pos, base, &j, lanes, &p)) return false;
    } else {
        och_kl_buffer *b = base->buf;
        if (b->kind != OCH_KL_A_BUFFER)
            return och_kl_error(s->diag, e->pos, "%s is read by .row(i).unit(u)", b->ast->name);
        if (base->kind == OCH_KL_V_BUFFER && b->rank != 1)
            return och_kl_error(s->diag, e->pos, "%s has rows: %s.row(i).%s(...)", b->ast->name, b->ast->name, name);
        if (!check_width(s, e->pos, b, lanes)) return false;
        if (!global_place(s, e->pos, b, base->kind == OCH_KL_V_ROW ? base->ir : NULL, base->level, &j, lanes, &p))
            return false;
    }
    p.mem.streamed = methods[m].stream && base->kind != OCH_KL_V_LDS;
    if (!methods[m].store) return och_kl_load_place(s, e->pos, &p, out);
    *out = (och_kl_val){.kind = OCH_KL_V_VOID};
    return och_kl_store_place(s, e->pos, &p, v[1]);
}

/* ---- atomics ---- */

static bool scope_of(och_kl_spec *s, const och_kl_expr *e, int *out) {
    static const char *const names[] = {"wave", "group", "device", "system"};
    if (e->kind == OCH_KL_E_NAME)
        for (int i = 0; i < 4; i++)
            if (!strcmp(e->u.name, names[i])) {
                *out = i;
                return true;
            }
    return och_kl_error(s->diag, e->pos, "expected a scope: wave, group, device or system");
}

/* In a kernel without one, spec.c puts it first. Nothing that came before may be missed, nor written over. */
static bool await(och_kl_spec *s, const och_kl_expr *e) {
    if (e->args) return och_kl_error(s->diag, e->pos, "await takes nothing");
    if (!s->in_kernel || s->list != &s->code->body)
        return och_kl_error(s->diag, e->pos, "await stands in a kernel's body itself, under no condition and in no loop");
    if (s->awaited) return och_kl_error(s->diag, e->pos, "expected one await, found a second");
    if (s->read_early) return och_kl_error(s->diag, e->pos, "await stands behind a read of what the kernels before may still write");
    for (int i = 0; i < s->n_buffers; i++)
        if (s->buffers[i].written)
            return och_kl_error(s->diag, e->pos, "await stands behind a write of %s", s->buffers[i].ast->name);
    s->awaited = true;
    if (s->sig->waits)
        och_kl_do(s, e->pos, och_kl_call(s->code, e->pos, OCH_KL_F_AWAIT, scalar(OCH_KL_VOID), 0, NULL, 0));
    return true;
}

/* In a kernel without one, emit.c puts it first. */
static bool release(och_kl_spec *s, const och_kl_expr *e) {
    if (e->args) return och_kl_error(s->diag, e->pos, "release takes nothing");
    if (!s->in_kernel || s->list != &s->code->body)
        return och_kl_error(s->diag, e->pos, "release stands in a kernel's body itself, under no condition and in no loop");
    if (s->released) return och_kl_error(s->diag, e->pos, "expected one release, found a second");
    s->released = true;
    if (s->sig->waits)
        och_kl_do(s, e->pos, och_kl_call(s->code, e->pos, OCH_KL_F_RELEASE, scalar(OCH_KL_VOID), 0, NULL, 0));
    return true;
}

bool och_kl_atomic(och_kl_spec *s, const och_kl_expr *e, const char *name, bool *out_is, och_kl_val *out) {
    static const struct {
        const char *name;
        och_kl_intrinsic f;
        int values;
    } all[] = {{"atomic_add", OCH_KL_F_ATOMIC_ADD, 1},    {"atomic_min", OCH_KL_F_ATOMIC_MIN, 1},
               {"atomic_max", OCH_KL_F_ATOMIC_MAX, 1},    {"atomic_or", OCH_KL_F_ATOMIC_OR, 1},
               {"atomic_and", OCH_KL_F_ATOMIC_AND, 1},    {"atomic_exchange", OCH_KL_F_ATOMIC_EXCHANGE, 1},
               {"atomic_cas", OCH_KL_F_ATOMIC_CAS, 2},    {"atomic_load", OCH_KL_F_ATOMIC_LOAD, 0},
               {"atomic_store", OCH_KL_F_ATOMIC_STORE, 1}};
    char buf[64];
    if (!strcmp(name, "fence")) {
        int scope;
        *out_is = true;
        if (och_kl_count_args(e->args) != 1) return och_kl_error(s->diag, e->pos, "fence takes a scope");
        if (!scope_of(s, e->args, &scope)) return false;
        if (!s->in_kernel) return och_kl_error(s->diag, e->pos, "fence is for a kernel's body");
        if (scope >= 2) s->fenced = true;
        och_kl_do(s, e->pos,
                  och_kl_call(s->code, e->pos, OCH_KL_F_FENCE, och_kl_type_of(OCH_KL_VOID, 1), scope, NULL, 0));
        *out = (och_kl_val){.kind = OCH_KL_V_VOID};
        return true;
    }
    if (!strcmp(name, "await")) {
        *out_is = true;
        *out = (och_kl_val){.kind = OCH_KL_V_VOID};
        return await(s, e);
    }
    if (!strcmp(name, "release")) {
        *out_is = true;
        *out = (och_kl_val){.kind = OCH_KL_V_VOID};
        return release(s, e);
    }
    size_t m = 0;
    while (m < sizeof all / sizeof *all && strcmp(all[m].name, name)) m++;
    *out_is = m < sizeof all / sizeof *all;
    if (!*out_is) return true;
    och_kl_intrinsic f = all[m].f;
    int n = och_kl_count_args(e->args), values = all[m].values, scope = 2;
    if (n < 1 + values || n > 2 + values)
        return och_kl_error(s->diag, e->pos, "%s takes a place%s and a scope, found %d arguments", name,
                            values == 0   ? ""
                            : values == 1 ? ", a value"
                                          : ", what is expected, a value",
                            n);
    och_kl_place p;
    bool is;
    if (!och_kl_place_of(s, e->args, &p, &is)) return false;
    if (!is) return och_kl_error(s->diag, e->args->pos, "%s takes an element of a buffer or of an array in LDS", name);
    p.mem.index = och_kl_keep(s, e->pos, "at", p.mem.index, p.level);
    och_kl_base b = p.mem.elem;
    bool whole = b == OCH_KL_I32 || b == OCH_KL_U32 || b == OCH_KL_U64,
         plain = f == OCH_KL_F_ATOMIC_LOAD || f == OCH_KL_F_ATOMIC_STORE || f == OCH_KL_F_ATOMIC_EXCHANGE;
    if (!whole && !(b == OCH_KL_F32 && (f == OCH_KL_F_ATOMIC_ADD || plain)))
        return och_kl_error(s->diag, e->pos, "%s does not work on %s: it takes i32, u32 or u64%s", name,
                            och_kl_base_names[b], f == OCH_KL_F_ATOMIC_ADD || plain ? ", or f32" : "");
    if (p.buf && f != OCH_KL_F_ATOMIC_LOAD && !p.buf->out)
        return och_kl_error(s->diag, e->args->pos, "%s is `in`: it is not written", p.buf->ast->name);
    if (p.buf && f == OCH_KL_F_ATOMIC_LOAD && !may_read(s, e->args->pos, p.buf)) return false;
    if (!p.buf && f != OCH_KL_F_ATOMIC_LOAD && !och_kl_may_store_lds(s, e->pos)) return false;
    const och_kl_expr *arg = e->args->next;
    och_kl_ir *v[2];
    for (int i = 0; i < values; i++, arg = arg->next) {
        och_kl_val x;
        if (!och_kl_eval(s, arg, &x) || !och_kl_to_type(s, arg->pos, x, scalar(b), name, &x)) return false;
        v[i] = x.ir;
    }
    if (arg && !scope_of(s, arg, &scope)) return false;
    bool is_store = f == OCH_KL_F_ATOMIC_STORE;
    och_kl_ir *call =
        och_kl_call(s->code, e->pos, f, is_store ? och_kl_type_of(OCH_KL_VOID, 1) : scalar(b), scope, v, values);
    if (!call) return false;
    call->mem = p.mem;
    call->uniformity = OCH_KL_U_LANE;
    if (p.buf && f != OCH_KL_F_ATOMIC_LOAD) p.buf->written = true;
    if (is_store) {
        och_kl_do(s, e->pos, call);
        *out = (och_kl_val){.kind = OCH_KL_V_VOID};
        return true;
    }
    *out = och_kl_val_ir(och_kl_keep(s, e->pos, "old", call, OCH_KL_L_LANE), OCH_KL_L_LANE);
    if (!out->ir) return och_kl_error(s->diag, e->pos, "%s: %s", name, och_kl_val_text(out, buf));
    return true;
}

och_kl_lds *och_kl_lds_new(och_kl_spec *s, const char *name, och_kl_base elem, const uint32_t *dims, int rank,
                           bool pad) {
    och_kl_lds *l = och_kl_alloc(s, 1, sizeof *l);
    if (!l) return NULL;
    l->elem = elem;
    l->rank = rank;
    uint32_t with_pad[3] = {0}, bytes = och_kl_base_bytes(elem);
    for (int i = 0; i < rank; i++) l->dims[i] = with_pad[i] = dims[i];
    if (pad && rank > 1) {
        /* An odd number of 16-byte pieces a row: rows that are read side by side begin in different banks. */
        uint32_t pieces = (dims[rank - 1] * bytes + 15) / 16;
        pieces |= 1;
        l->pad = pieces * 16 / bytes - dims[rank - 1];
        with_pad[rank - 1] += l->pad;
    }
    l->var = och_kl_new_var(s->code, name, och_kl_type_of(elem, 1), OCH_KL_LDS, with_pad, rank);
    return l->var ? l : NULL;
}
