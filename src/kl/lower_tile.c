/* Tiles: statements and methods over what tile.h does. */
#include "kl/tile.h"

#include "base/size.h"
#include "kl/spec.h"

#include <string.h>

static bool failed(och_kl_spec *s, och_kl_pos pos, och_status st, const och_err *err) {
    if (st == OCH_NOMEM) {
        s->code->failed = true;
        return false;
    }
    return och_kl_error(s->diag, pos, "%s", err->message);
}

static bool tile_extent(och_kl_spec *s, const och_kl_type_ast *t, const char *what, uint32_t *out) {
    int64_t v;
    och_kl_expr name = {.kind = OCH_KL_E_NAME, .pos = t->pos, .u.name = t->name};
    if (!och_kl_eval_const_int(s, t->name ? &name : t->value, what, &v)) return false;
    if (v < 1 || v > 65536) return och_kl_error(s->diag, t->pos, "%s is 1 to 65536, found %lld", what, (long long)v);
    *out = (uint32_t)v;
    return true;
}

bool och_kl_var_tile(och_kl_spec *s, const och_kl_stmt *x) {
    const och_kl_type_ast *a[5] = {NULL};
    int n = 0;
    for (const och_kl_type_ast *t = x->type->args; t; t = t->next) {
        if (n == 5)
            return och_kl_error(s->diag, t->pos, "acc_tile<T, rows, columns[, waves along rows, along columns]>");
        a[n++] = t;
    }
    if (n != 3 && n != 5)
        return och_kl_error(s->diag, x->type->pos, "acc_tile<T, rows, columns[, waves along rows, along columns]>");
    och_kl_type t;
    uint32_t rows, cols, wr = 0, wc = 0;
    if (!och_kl_need_group(s, x->pos, "a tile") || !och_kl_resolve_type(s, a[0], &t)) return false;
    if (!tile_extent(s, a[1], "a tile's number of rows", &rows) ||
        !tile_extent(s, a[2], "a tile's number of columns", &cols))
        return false;
    if (n == 5 && (!tile_extent(s, a[3], "the number of waves along rows", &wr) ||
                   !tile_extent(s, a[4], "the number of waves along columns", &wc)))
        return false;
    if (t.lanes > 1) return och_kl_error(s->diag, a[0]->pos, "a tile's elements are f32 or i32");
    och_kl_val v = {0};
    if (x->expr && (!och_kl_eval(s, x->expr, &v) || !och_kl_to_type(s, x->expr->pos, v, t, x->name, &v))) return false;
    och_kl_tile *tile;
    och_err err = {0};
    och_status st =
        och_kl_tile_create(s->code, s->list, x->pos, x->name, t.base, rows, cols, wr, wc, v.ir, &tile, &err);
    if (st != OCH_OK) return failed(s, x->pos, st, &err);
    return och_kl_bind(s, x->name, x->pos, (och_kl_val){.kind = OCH_KL_V_TILE, .tile = tile}, false);
}

/* A matrix in LDS, behind the indices that are left over for its slot. */
static bool matrix_of(och_kl_spec *s, const och_kl_expr *e, och_kl_tile_lds *out) {
    och_kl_val v;
    char buf[64];
    if (!och_kl_eval(s, e, &v)) return false;
    if (v.kind != OCH_KL_V_LDS)
        return och_kl_error(s->diag, e->pos, "expected a matrix in LDS, found %s", och_kl_val_text(&v, buf));
    const och_kl_lds *l = v.lds;
    if (l->rank - v.n_at != 2)
        return och_kl_error(s->diag, e->pos, "expected a matrix: %s has %d dimensions left", l->var->name,
                            l->rank - v.n_at);
    och_kl_level most = s->sig->waves == 1 ? OCH_KL_L_WAVE : OCH_KL_L_GROUP;
    if (v.level > most)
        return och_kl_error(s->diag, e->pos, "which matrix of %s is %s: it must be uniform in the workgroup",
                            l->var->name, och_kl_level_name(v.level));
    *out = (och_kl_tile_lds){.lds = l->var,
                             .rows = l->dims[l->rank - 2],
                             .depth = l->dims[l->rank - 1],
                             .stride = l->dims[l->rank - 1] + l->pad,
                             .swizzled = l->swizzled,
                             .matrices = l->rank > 2 ? l->dims[0] : 1};
    if (v.ir) out->offset = och_kl_keep(s, e->pos, "at", v.ir, v.level);
    return !v.ir || out->offset;
}

static void end_straight(och_kl_spec *s, och_kl_pos pos) {
    if (!s->pending) return;
    if (s->pending->pending) s->waited = true;
    och_kl_tile_wait(s->code, s->list, pos, s->pending);
    s->pending = NULL;
}

void och_kl_end_products(och_kl_spec *s, och_kl_pos pos) {
    for (int i = 0; i < s->n_turned; i++) och_kl_tile_wait(s->code, s->list, pos, s->turned[i]);
    s->n_turned = 0;
    end_straight(s, pos);
}

typedef struct element_call {
    och_kl_spec *s;
    const och_kl_expr *lambda;
    const och_kl_tile *tile;
    och_kl_type type; /* of a value */
} element_call;

/* Binds (i, j, v) or (i, j, v, u), u of the other tile, of a row vector's elements (i, v), and lowers the lambda. */
static bool element(element_call *c, och_kl_list *to, const och_kl_tile_at *at, och_kl_val *out) {
    och_kl_spec *s = c->s;
    const och_kl_expr *l = c->lambda;
    const och_kl_tile_at *outer_at = s->tile_at;
    const och_kl_tile *outer_tile = s->tile;
    och_kl_list *list = s->list;
    och_kl_binding_node *scope = s->scope;
    och_kl_loop *loop = s->loop;
    s->tile_at = at;
    s->tile = c->tile;
    s->list = to;
    s->loop = NULL;
    s->depth++;
    const och_kl_name *p = l->params;
    och_kl_ir *const part[4] = {at->row, at->col ? at->col : at->value, at->value, at->beside};
    och_kl_val v[4];
    bool ok = och_kl_count(s, l->pos);
    for (int i = 0; i < (at->beside ? 4 : at->col ? 3 : 2) && ok; i++, p = p->next) {
        v[i] = och_kl_val_ir(part[i], OCH_KL_L_LANE);
        ok = v[i].kind != OCH_KL_V_BAD && och_kl_bind(s, p->name, p->pos, v[i], true);
    }
    if (ok && out)
        ok = och_kl_eval(s, l->a, out) &&
             och_kl_to_type(s, l->a->pos, *out, c->type, "map", out);
    else if (ok && l->a) {
        och_kl_val ignored;
        ok = och_kl_eval(s, l->a, &ignored);
    } else if (ok)
        ok = och_kl_stmts(s, l->body);
    s->depth--;
    s->loop = loop;
    s->scope = scope;
    s->list = list;
    s->tile_at = outer_at;
    s->tile = outer_tile;
    return ok;
}

static och_kl_ir *map_element(void *self, och_kl_list *to, const och_kl_tile_at *at) {
    och_kl_val v;
    return element(self, to, at, &v) ? v.ir : NULL;
}
static bool each_element(void *self, och_kl_list *to, const och_kl_tile_at *at) {
    return element(self, to, at, NULL);
}

bool och_kl_tile_method(och_kl_spec *s, const och_kl_expr *e, const och_kl_val *v, const char *name, och_kl_val *out) {
    och_kl_tile *t = v->tile;
    och_err err = {0};
    och_status st;
    int n = och_kl_count_args(e->args);
    *out = (och_kl_val){.kind = OCH_KL_V_VOID};
    enum { MMA, MAP, EACH, ROW_MAX, ROW_SUM, TO_LDS, MMA_T, ROWS, COLUMNS, N_METHODS };
    static const char *const known[] = {"mma", "map", "each", "row_max", "row_sum", "to_lds", "mma_t", "rows", "columns"};
    static const int takes[] = {2, 1, 1, 0, 0, 1, 2, 1, 2};
    int m = 0;
    while (m < N_METHODS && strcmp(known[m], name)) m++;
    if (m == N_METHODS) {
        och_kl_guess g;
        och_kl_guess_init(&g, name);
        for (int i = 0; i < N_METHODS; i++) och_kl_guess_offer(&g, known[i]);
        const char *best = och_kl_guess_best(&g);
        if (best) return och_kl_error(s->diag, e->pos, "a tile has no .%s(...): did you mean \"%s\"?", name, best);
        return och_kl_error(s->diag, e->pos,
                            "a tile has no .%s(...): there are mma, mma_t, map, each, row_max, row_sum, rows, columns, to_lds", name);
    }
    if (n != takes[m] && !(m == MAP && n == 2))
        return och_kl_error(s->diag, e->pos, "%s takes %d %s, found %d", name, takes[m],
                            takes[m] == 1 ? "argument" : "arguments", n);
    char what[24] = "a tile's ";
    strcat(what, name);
    if (!och_kl_need_group(s, e->pos, what)) return false;
    if (m) s->waited = true;
    if (m) end_straight(s, e->pos);
    else if (s->n_turned) och_kl_end_products(s, e->pos);
    if (m == COLUMNS) {
        int64_t first, columns;
        och_kl_tile *some;
        if (!och_kl_eval_const_int(s, e->args, "the first column", &first) || !och_kl_eval_const_int(s, e->args->next, "the number of columns", &columns))
            return false;
        st = och_kl_tile_columns(s->code, t, first, columns, &some, &err);
        if (st == OCH_OK) *out = (och_kl_val){.kind = OCH_KL_V_TILE, .tile = some};
    } else if (m == MMA_T) {
        och_kl_tile_lds a, b;
        och_kl_val of;
        const och_kl_expr *first = e->args;
        bool by_name = first->kind == OCH_KL_E_NAME || first->kind == OCH_KL_E_CALL;
        if (by_name && !och_kl_eval(s, first, &of)) return false;
        bool is_tile = by_name && of.kind == OCH_KL_V_TILE;
        if ((!is_tile && !matrix_of(s, first, &a)) || !matrix_of(s, first->next, &b)) return false;
        if (is_tile) st = och_kl_tile_mma_tile(s->code, s->list, e->pos, t, of.tile, &b, &err);
        else st = och_kl_tile_mma_turned(s->code, s->list, e->pos, t, &a, &b, &err);
        if (t->pending) {
            int i = 0;
            while (i < s->n_turned && s->turned[i] != t) i++;
            if (i == (int)OCH_COUNT(s->turned)) och_kl_end_products(s, e->pos);
            else s->turned[i] = t, s->n_turned += i == s->n_turned;
            if (s->list != s->pipe_do) och_kl_end_products(s, e->pos);
        }
    } else if (m == ROWS) {
        och_kl_val v0;
        och_kl_rowvec *r;
        if (!och_kl_eval(s, e->args, &v0) || !och_kl_to_value(s, e->args->pos, v0, &v0)) return false;
        if (v0.kind != OCH_KL_V_IR || v0.ir->type.lanes != 1)
            return och_kl_error(s->diag, e->args->pos, "rows takes what each element begins with, a number");
        st = och_kl_tile_rows(s->code, s->list, e->pos, t, name, v0.ir, &r, &err);
        if (st == OCH_OK) *out = (och_kl_val){.kind = OCH_KL_V_ROWVEC, .rowvec = r, .level = OCH_KL_L_LANE};
    } else if (m == 0) {
        och_kl_tile_lds a, b;
        if (!matrix_of(s, e->args, &a) || !matrix_of(s, e->args->next, &b)) return false;
        if (s->pending != t) och_kl_end_products(s, e->pos);
        st = och_kl_tile_mma(s->code, s->list, e->pos, t, &a, &b, &err);
        s->pending = t;
        s->n_pending++;
        if (s->list != s->pipe_do) och_kl_end_products(s, e->pos);
    } else if (m == 1 || m == 2) {
        const och_kl_expr *l = n == 2 ? e->args->next : e->args;
        och_kl_val other = {0};
        int params = 0, expected = n == 2 ? 4 : 3;
        if (n == 2 && !och_kl_eval(s, e->args, &other)) return false;
        if (n == 2 && other.kind != OCH_KL_V_TILE)
            return och_kl_error(s->diag, e->args->pos, "map takes another tile, whose elements are read, and (i, j, v, u) => e");
        if (l->kind != OCH_KL_E_LAMBDA) return och_kl_error(s->diag, l->pos, "%s takes (i, j, v) => ...", name);
        for (const och_kl_name *p = l->params; p; p = p->next) params++;
        if (params != expected)
            return och_kl_error(s->diag, l->pos, "%s takes a function of row, column and value%s, found %d names", name,
                                n == 2 ? " and the other tile's" : "", params);
        if (m == 1 && !l->a)
            return och_kl_error(s->diag, l->pos, "map takes a value: (i, j, v) => e; each takes statements");
        element_call c = {s, l, t, och_kl_type_of(t->base, 1)};
        int errors = s->diag->n_errors;
        if (m == 1)
            st = och_kl_tile_map(s->code, s->list, e->pos, t, n == 2 ? other.tile : NULL, map_element, &c, &err);
        else
            st = och_kl_tile_each(s->code, s->list, e->pos, t, each_element, &c, &err);
        if (s->diag->n_errors != errors || s->n_nodes > OCH_KL_MAX_NODES) return false;
    } else if (m == 3 || m == 4) {
        och_kl_rowvec *r;
        if (m == 3)
            st = och_kl_tile_row_max(s->code, s->list, e->pos, t, name, &r, &err);
        else
            st = och_kl_tile_row_sum(s->code, s->list, e->pos, t, name, &r, &err);
        if (st == OCH_OK) *out = (och_kl_val){.kind = OCH_KL_V_ROWVEC, .rowvec = r, .level = OCH_KL_L_LANE};
    } else {
        och_kl_tile_lds p;
        if (!matrix_of(s, e->args, &p) || !och_kl_may_store_lds(s, e->pos)) return false;
        st = och_kl_tile_to_lds(s->code, s->list, e->pos, t, &p, &err);
    }
    return st == OCH_OK || failed(s, e->pos, st, &err);
}

bool och_kl_rowvec_method(och_kl_spec *s, const och_kl_expr *e, const och_kl_val *v, const char *name, och_kl_val *out) {
    *out = (och_kl_val){.kind = OCH_KL_V_VOID};
    const och_kl_expr *l = e->args;
    int params = 0;
    if (strcmp(name, "map")) return och_kl_error(s->diag, e->pos, "a row vector has no .%s(...): there is map", name);
    if (och_kl_count_args(l) != 1 || l->kind != OCH_KL_E_LAMBDA || !l->a)
        return och_kl_error(s->diag, e->pos, "a row vector's map takes (i, v) => e");
    for (const och_kl_name *p = l->params; p; p = p->next) params++;
    if (params != 2)
        return och_kl_error(s->diag, l->pos, "a row vector's map takes a function of row and value, found %d names", params);
    if (s->tile_at) return och_kl_error(s->diag, e->pos, "a row vector is not changed in map or each");
    if (!och_kl_need_group(s, e->pos, "a row vector's map")) return false;
    element_call c = {s, l, v->rowvec->tile, v->rowvec->var->type};
    int errors = s->diag->n_errors;
    och_err err = {0};
    och_status st = och_kl_rowvec_map(s->code, s->list, e->pos, v->rowvec, map_element, &c, &err);
    if (s->diag->n_errors != errors || s->n_nodes > OCH_KL_MAX_NODES) return false;
    return st == OCH_OK || failed(s, e->pos, st, &err);
}

bool och_kl_rowvec_index(och_kl_spec *s, const och_kl_expr *e, const och_kl_val *v, och_kl_val *out) {
    och_kl_val i;
    if (!s->tile_at)
        return och_kl_error(s->diag, e->pos,
                            "a row vector is read in map and each of a tile: m[i], i the element's row");
    if (e->args->next || !och_kl_eval(s, e->args, &i))
        return och_kl_error(s->diag, e->pos, "a row vector takes one index, the element's row");
    if (i.kind != OCH_KL_V_IR || i.ir != s->tile_at->row)
        return och_kl_error(s->diag, e->args->pos,
                            "a row vector is read at the row of the element: the first name of (i, j, v)");
    if (!och_kl_rowvec_fits(v->rowvec, s->tile))
        return och_kl_error(s->diag, e->pos, "this row vector belongs to tiles of another shape or another split");
    *out = och_kl_val_ir(och_kl_rowvec_at(s->code, e->pos, v->rowvec, s->tile_at), OCH_KL_L_LANE);
    return out->ir != NULL;
}
