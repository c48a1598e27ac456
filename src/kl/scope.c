/* Names, and how many see the same value of a variable. */
#include "base/alloc.h"
#include "kl/spec.h"

#include <string.h>

#define LOOKED_AT_A_NODE 64 /* names that take as long as a node */

och_kl_uniformity och_kl_level_uniformity(och_kl_level l) {
    return l == OCH_KL_L_CONST   ? OCH_KL_U_CONST
           : l == OCH_KL_L_GROUP ? OCH_KL_U_GROUP
           : l == OCH_KL_L_WAVE  ? OCH_KL_U_WAVE
                                 : OCH_KL_U_LANE;
}

const char *och_kl_level_name(och_kl_level l) {
    static const char *const names[] = {"constant",
                                        "uniform in the workgroup",
                                        "uniform in a wave only",
                                        "uniform in clusters of 32 lanes only",
                                        "uniform in clusters of 16 lanes only",
                                        "uniform in clusters of 8 lanes only",
                                        "different in each lane"};
    return names[l];
}

och_kl_level och_kl_cluster_level(int lanes) {
    return lanes >= 32 ? OCH_KL_L_C32 : lanes >= 16 ? OCH_KL_L_C16 : lanes >= 8 ? OCH_KL_L_C8 : OCH_KL_L_LANE;
}

och_kl_binding_node *och_kl_lookup(och_kl_spec *s, const char *name) {
    uint32_t steps = 0;
    och_kl_binding_node *b = s->scope;
    while (b && strcmp(b->name, name) != 0) b = b->next, steps++;
    s->n_nodes += steps / LOOKED_AT_A_NODE; /* thousands of names in one scope, looked through again and again, are work too */
    return b;
}

bool och_kl_bind(och_kl_spec *s, const char *name, och_kl_pos pos, och_kl_val v, bool fixed) {
    och_kl_binding_node *b = och_kl_alloc(s, 1, sizeof *b);
    if (!b) return false;
    *b = (och_kl_binding_node){name, pos, v, fixed, s->scope};
    s->scope = b;
    return true;
}

const och_kl_decl *och_kl_find_decl(och_kl_spec *s, och_kl_decl_kind kind, const char *name) {
    uint32_t steps = 0;
    const och_kl_decl *d = s->unit->decls;
    while (d && (d->kind != kind || strcmp(d->name, name) != 0)) d = d->next, steps++;
    s->n_nodes += steps / LOOKED_AT_A_NODE;
    return d;
}

bool och_kl_unknown(och_kl_spec *s, och_kl_pos pos, const char *what, const char *name) {
    static const char *const elsewhere[][2] = { /* what C, CUDA and Python call it */
        {"inf", "math_inf()"}, {"INF", "math_inf()"}, {"infinity", "math_inf()"}, {"INFINITY", "math_inf()"},
        {"nan", "math_nan()"}, {"NaN", "math_nan()"}, {"NAN", "math_nan()"},
    };
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (!strcmp(name, elsewhere[i][0]))
            return och_kl_error(s->diag, pos, "unknown %s \"%s\": did you mean \"%s\"?", what, name, elsewhere[i][1]);
    och_kl_guess g;
    och_kl_guess_init(&g, name);
    for (const och_kl_binding_node *b = s->scope; b; b = b->next) och_kl_guess_offer(&g, b->name);
    for (const och_kl_decl *d = s->unit->decls; d; d = d->next)
        if (d->kind != OCH_KL_D_KERNEL) och_kl_guess_offer(&g, d->name);
    static const char *const spaces[] = {"group", "wave", "thread", "cluster"};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) och_kl_guess_offer(&g, spaces[i]);
    och_kl_offer_builtins(&g);
    const char *best = och_kl_guess_best(&g);
    if (best) return och_kl_error(s->diag, pos, "unknown %s \"%s\": did you mean \"%s\"?", what, name, best);
    return och_kl_error(s->diag, pos, "unknown %s \"%s\"", what, name);
}

/* ---- levels that last ---- */

int och_kl_level_new(och_kl_spec *s, och_kl_level *out_level) {
    int id = s->next_level++;
    *out_level = OCH_KL_L_CONST;
    if (id >= s->cap_levels) {
        int cap = s->cap_levels ? 2 * s->cap_levels : 256;
        och_kl_level *p = och_realloc_array(s->levels, (size_t)cap, sizeof *p);
        if (!p) {
            s->code->failed = true;
            return -1;
        }
        s->levels = p;
        s->cap_levels = cap;
    }
    if (id >= s->n_levels) {
        s->levels[id] = OCH_KL_L_CONST;
        s->n_levels = id + 1;
    }
    *out_level = s->levels[id];
    return id;
}

void och_kl_level_raise(och_kl_spec *s, int id, och_kl_level l) {
    if (id >= 0 && l > s->levels[id]) s->levels[id] = l;
}

och_kl_slot *och_kl_slot_new(och_kl_spec *s, const char *name, och_kl_type t, const uint32_t *dims, int n_dims,
                             bool fixed, och_kl_level level) {
    och_kl_slot *slot = och_kl_alloc(s, 1, sizeof *slot);
    if (!slot) return NULL;
    slot->id = -1;
    slot->level = level;
    slot->multiple = 1;
    if (!fixed) {
        och_kl_level known;
        slot->id = och_kl_level_new(s, &known);
        slot->level = och_kl_join(known, OCH_KL_L_GROUP);
    }
    slot->var = och_kl_new_var(s->code, name, t, OCH_KL_REG, dims, n_dims);
    if (!slot->var) return NULL;
    slot->var->fixed = fixed;
    slot->var->uniformity = och_kl_level_uniformity(slot->level);
    return slot;
}

void och_kl_slot_raise(och_kl_spec *s, och_kl_slot *slot, och_kl_level level) {
    if (level <= slot->level) return;
    slot->level = level;
    slot->var->uniformity = och_kl_level_uniformity(level);
    och_kl_level_raise(s, slot->id, level);
    if (slot->read) s->again = true;
}
