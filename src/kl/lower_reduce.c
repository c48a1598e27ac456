/* Operations of many lanes: reductions, votes, shuffles, statements that a value is uniform.
 *
 * Over several waves a reduction goes through LDS: each wave's lane 0 writes its part, a barrier, and all lanes combine
 * the parts in the order of the waves. Two places take turns, so that a second reduction may write while a slow wave
 * still reads the first; where that is not known to be enough, a barrier comes first. */
#include "kl/spec.h"

#include <string.h>

static och_kl_type scalar(och_kl_base b) {
    return och_kl_type_of(b, 1);
}

enum { AND_OR = 1000 }; /* beside OCH_KL_F_*: bits or-ed together */

/* The place of this reduction: `slots` words that no wave reads any more. */
static och_kl_var *scratch(och_kl_spec *s, och_kl_pos pos, uint32_t slots) {
    int turn = s->scratch_turn;
    if (s->scratch_dirty[turn] && !s->scratch_dirty[!turn]) turn = !turn;
    if (s->scratch_dirty[turn]) och_kl_barrier(s, pos);
    struct och_kl_scratch *x = s->scratch;
    for (int i = 0; x && i < turn; i++) x = x->next;
    if (!x) {
        for (;;) { /* both halves, the first created first */
            struct och_kl_scratch **end = &s->scratch;
            int n = 0;
            while (*end) end = &(*end)->next, n++;
            if (n > turn) break;
            struct och_kl_scratch *half = och_kl_alloc(s, 1, sizeof *half);
            uint32_t one = 1;
            if (!half || !(half->var = och_kl_new_var(s->code, "parts", scalar(OCH_KL_U32), OCH_KL_LDS, &one, 1)))
                return NULL;
            *end = half;
        }
        x = s->scratch;
        for (int i = 0; i < turn; i++) x = x->next;
    }
    if (x->var->dims[0] < slots) x->var->dims[0] = slots;
    s->scratch_turn = turn;
    return x->var;
}
static void scratch_read(och_kl_spec *s) {
    s->scratch_dirty[s->scratch_turn] = true;
    s->scratch_turn = !s->scratch_turn;
}

static och_kl_mem word(och_kl_var *v, och_kl_ir *index, int lanes) {
    return (och_kl_mem){.base = v,
                        .elem = OCH_KL_U32,
                        .lanes = (uint8_t)lanes,
                        .align_bytes = lanes >= 4 ? 16 : 4 * (uint32_t)lanes,
                        .index = index};
}

static och_kl_ir *to_word(och_kl_spec *s, och_kl_pos pos, och_kl_ir *x) {
    if (x->type.base == OCH_KL_F16) x = och_kl_convert(s->code, pos, scalar(OCH_KL_F32), x);
    return och_kl_bitcast(s->code, pos, scalar(OCH_KL_U32), x);
}
static och_kl_ir *from_word(och_kl_spec *s, och_kl_pos pos, och_kl_ir *w, och_kl_base b) {
    if (b != OCH_KL_F16) return och_kl_bitcast(s->code, pos, scalar(b), w);
    return och_kl_convert(s->code, pos, scalar(OCH_KL_F16), och_kl_bitcast(s->code, pos, scalar(OCH_KL_F32), w));
}

static och_kl_ir *combine(och_kl_spec *s, och_kl_pos pos, int op, och_kl_ir *a, och_kl_ir *b) {
    if (op == OCH_KL_F_WAVE_SUM) return och_kl_binary(s->code, pos, '+', a, b);
    if (op == AND_OR) return och_kl_binary(s->code, pos, '|', a, b);
    och_kl_ir *args[2] = {a, b};
    return a && b
               ? och_kl_call(s->code, pos, op == OCH_KL_F_WAVE_MAX ? OCH_KL_F_MAX : OCH_KL_F_MIN, a->type, 0, args, 2)
               : NULL;
}

/* The condition's body receives what follows until the list is put back. */
static och_kl_list *begin_if(och_kl_spec *s, och_kl_pos pos, och_kl_ir *cond) {
    och_kl_list *outer = s->list;
    och_kl_ins *i = cond ? och_kl_ins_new(s->code, s->list, OCH_KL_I_IF, pos) : NULL;
    if (!i) return NULL;
    i->value = cond;
    s->list = &i->body;
    return outer;
}

/* Each wave's x, the same in its lanes, combined over the waves. */
static och_kl_ir *over_waves(och_kl_spec *s, och_kl_pos pos, int op, och_kl_ir *x) {
    int waves = s->sig->waves, lanes = x->type.lanes;
    if (waves == 1) return x;
    och_kl_var *v = scratch(s, pos, (uint32_t)(waves * lanes));
    och_kl_list *outer =
        v ? begin_if(s, pos, och_kl_binary(s->code, pos, OCH_KL_OP_EQ, och_kl_lane(s, pos), och_kl_i32(s, pos, 0)))
          : NULL;
    if (!outer) return NULL;
    for (int e = 0; e < lanes; e++) {
        och_kl_ir *at = och_kl_binary(s->code, pos, '*', och_kl_wave_id(s, pos), och_kl_i32(s, pos, lanes));
        at = och_kl_binary(s->code, pos, '+', at, och_kl_i32(s, pos, e));
        och_kl_mem m = word(v, at, 1);
        och_kl_ins *st = at ? och_kl_ins_new(s->code, s->list, OCH_KL_I_STORE, pos) : NULL;
        if (!st) return NULL;
        st->mem = m;
        st->value = to_word(s, pos, och_kl_elem(s->code, pos, x, e));
    }
    s->list = outer;
    och_kl_barrier(s, pos);
    bool wide = lanes == 1 && (waves == 2 || waves == 4 || waves == 8 || waves == 16);
    och_kl_ir *all = NULL, *elems[32];
    if (wide) {
        och_kl_mem m = word(v, och_kl_i32(s, pos, 0), waves);
        all = och_kl_keep(s, pos, "parts", och_kl_load(s->code, pos, &m), OCH_KL_L_GROUP);
        if (!all) return NULL;
    }
    for (int e = 0; e < lanes; e++) {
        och_kl_ir *sum = NULL;
        for (int w = 0; w < waves; w++) {
            och_kl_ir *part;
            if (wide)
                part = och_kl_elem(s->code, pos, all, w);
            else {
                och_kl_mem m = word(v, och_kl_i32(s, pos, w * lanes + e), 1);
                part = och_kl_load(s->code, pos, &m);
            }
            part = part ? from_word(s, pos, part, x->type.base) : NULL;
            sum = w ? combine(s, pos, op, sum, part) : part;
        }
        elems[e] = och_kl_keep(s, pos, "all", sum, OCH_KL_L_GROUP);
        if (!elems[e]) return NULL;
    }
    scratch_read(s);
    return och_kl_build(s->code, pos, x->type, elems, lanes);
}

static bool reducible(och_kl_spec *s, och_kl_pos pos, const och_kl_val *v, const char *what) {
    char buf[64];
    och_kl_base b = v->ir->type.base;
    if (b == OCH_KL_F32 || b == OCH_KL_F16 || b == OCH_KL_I32 || b == OCH_KL_U32) return true;
    return och_kl_error(s->diag, pos, "%s takes f32, f16, i32, u32 and vectors of them, found %s", what,
                        och_kl_val_text(v, buf));
}

static och_kl_ir *bool_to(och_kl_spec *s, och_kl_pos pos, och_kl_ir *c, och_kl_base b) {
    return och_kl_select(s->code, pos, c, och_kl_int(s->code, pos, scalar(b), 1),
                         och_kl_int(s->code, pos, scalar(b), 0));
}
static och_kl_ir *to_bool(och_kl_spec *s, och_kl_pos pos, och_kl_ir *x) {
    return x ? och_kl_binary(s->code, pos, OCH_KL_OP_NE, x, och_kl_int(s->code, pos, x->type, 0)) : NULL;
}

/* f(x[, y]) in a variable; bool goes by way of i32. */
static och_kl_ir *cross(och_kl_spec *s, och_kl_pos pos, och_kl_intrinsic f, int extra, och_kl_ir *x, och_kl_ir *y,
                        och_kl_level level) {
    bool is_bool = x->type.base == OCH_KL_BOOL;
    if (is_bool) x = bool_to(s, pos, x, OCH_KL_I32);
    och_kl_ir *args[2] = {x, y};
    och_kl_ir *r = x ? och_kl_call(s->code, pos, f, x->type, extra, args, y ? 2 : 1) : NULL;
    if (r) r->uniformity = och_kl_level_uniformity(level);
    r = och_kl_keep(s, pos, "w", r, level);
    return is_bool && r ? to_bool(s, pos, r) : r;
}

/* Whether c holds in any lane of the wave. */
static och_kl_ir *wave_any(och_kl_spec *s, och_kl_pos pos, och_kl_ir *c) {
    och_kl_ir *b = och_kl_call(s->code, pos, OCH_KL_F_BALLOT, scalar(OCH_KL_U64), s->profile.wave, &c, 1);
    return to_bool(s, pos, och_kl_keep(s, pos, "votes", b, OCH_KL_L_WAVE));
}

/* wave.mma_ss(a, b, c), wave.mma_us: the product of two matrices whose elements the lanes share, added to a third. */
static bool small_mma(och_kl_spec *s, const och_kl_expr *e, bool is_signed, och_kl_val *out) {
    static const och_kl_type types[3] = {{OCH_KL_U32, 4}, {OCH_KL_U32, 2}, {OCH_KL_I32, 4}};
    const char *what = is_signed ? "wave.mma_ss" : "wave.mma_us";
    const och_kl_expr *args[3];
    och_kl_val v[3];
    och_kl_ir *x[3];
    int n = och_kl_count_args(e->args);
    if (n != 3) return och_kl_error(s->diag, e->pos, "%s takes 3 arguments, found %d", what, n);
    args[0] = e->args;
    for (int i = 1; i < 3; i++) args[i] = args[i - 1]->next;
    if (!och_kl_eval_list(s, args, 3, v)) return false;
    for (int i = 0; i < 3; i++) {
        if (!och_kl_to_type(s, args[i]->pos, v[i], types[i], what, &v[i])) return false;
        x[i] = v[i].ir;
    }
    if (!och_kl_need_wave(s, e->pos, what)) return false;
    och_kl_ir *r = och_kl_call(s->code, e->pos, is_signed ? OCH_KL_F_MMA_SS : OCH_KL_F_MMA_US, types[2], 0, x, 3);
    if (r) r->uniformity = och_kl_level_uniformity(OCH_KL_L_LANE);
    *out = och_kl_val_ir(och_kl_keep(s, e->pos, "c", r, OCH_KL_L_LANE), OCH_KL_L_LANE);
    return out->ir != NULL;
}

bool och_kl_space_method(och_kl_spec *s, const och_kl_expr *e, const och_kl_val *space, const char *name,
                         och_kl_val *out) {
    char what[48], buf[64];
    int sp = space->space, wave = s->profile.wave, n = och_kl_count_args(e->args);
    const char *base = sp == 'g' ? "group" : sp == 'w' ? "wave" : sp == 't' ? "thread" : "cluster";
    size_t k = strlen(base), kn = strlen(name);
    if (kn > 30) kn = 30;
    memcpy(what, base, k);
    what[k] = '.';
    memcpy(what + k + 1, name, kn);
    what[k + 1 + kn] = 0;
    och_kl_pos pos = e->pos;
    bool is_sum = !strcmp(name, "sum"), is_max = !strcmp(name, "max"), is_min = !strcmp(name, "min"),
         is_scan = !strcmp(name, "scan_sum");
    bool any = !strcmp(name, "any"), all = !strcmp(name, "all"), uniform = !strcmp(name, "uniform"),
         broadcast = !strcmp(name, "broadcast");
    bool shuffle = !strcmp(name, "shuffle"), shuffle_xor = !strcmp(name, "shuffle_xor"),
         ballot = !strcmp(name, "ballot");
    bool mma_ss = !strcmp(name, "mma_ss"), mma_us = !strcmp(name, "mma_us");
    bool known = sp == 'g'
                     ? is_sum || is_max || is_min || any || all || uniform || broadcast || !strcmp(name, "barrier")
                 : sp == 'w' ? is_sum || is_max || is_min || is_scan || any || all || uniform || broadcast || shuffle ||
                                   shuffle_xor || ballot || mma_ss || mma_us
                 : sp == 'c' ? is_sum || is_max || is_min || is_scan || any || all || broadcast || shuffle_xor
                             : false;
    if (!known) {
        if (!strcmp(name, "lanes") || !strcmp(name, "waves"))
            return och_kl_error(s->diag, pos, "%s(n) stands in `for i in %s(n)`", what, what);
        och_kl_guess g;
        och_kl_guess_init(&g, name);
        static const char *const names[] = {"sum",      "max",       "min",     "any",         "all",
                                            "uniform",  "broadcast", "shuffle", "shuffle_xor", "ballot",
                                            "scan_sum", "barrier",   "lanes",   "waves",       "mma_ss",
                                            "mma_us"};
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) och_kl_guess_offer(&g, names[i]);
        const char *best = och_kl_guess_best(&g);
        if (best && strcmp(best, name))
            return och_kl_error(s->diag, pos, "%s has no .%s(...): did you mean \"%s\"?", base, name, best);
        return och_kl_error(s->diag, pos, "%s has no .%s(...)", base, name);
    }
    if (!s->in_kernel) return och_kl_error(s->diag, pos, "%s is for a kernel's body", what);
    if (!strcmp(name, "barrier")) {
        if (n) return och_kl_error(s->diag, pos, "%s takes nothing", what);
        if (!och_kl_need_group(s, pos, what)) return false;
        och_kl_barrier(s, pos);
        *out = (och_kl_val){.kind = OCH_KL_V_VOID};
        return true;
    }
    if (mma_ss || mma_us) return small_mma(s, e, mma_ss, out);
    int want = (broadcast && sp != 'g') || shuffle || shuffle_xor ? 2 : 1;
    if (n != want)
        return och_kl_error(s->diag, pos, "%s takes %d %s, found %d", what, want, want == 1 ? "argument" : "arguments",
                            n);
    const och_kl_expr *args[2] = {e->args, e->args->next};
    och_kl_val v[2];
    if (!och_kl_eval_list(s, args, n, v) || !och_kl_to_value(s, args[0]->pos, v[0], &v[0])) return false;
    if (och_kl_is_storage(v[0].ir->type.base))
        return och_kl_error(s->diag, args[0]->pos, "%s is for storage only", och_kl_val_text(&v[0], buf));
    if ((any || all || ballot) && !och_kl_to_bool(s, args[0]->pos, v[0], what, &v[0])) return false;
    och_kl_ir *x = v[0].ir, *y = NULL;
    if (n == 2) {
        och_kl_val i;
        int64_t lane, lanes = sp == 'c' ? space->cluster : 32;
        if (!och_kl_to_index(s, args[1]->pos, v[1], &i)) return false;
        if (och_kl_const_int(&i, &lane) && lane >= lanes) {
            och_kl_error(s->diag, args[1]->pos, "%s of %lld: %s", shuffle_xor ? "a mask" : "lane", (long long)lane,
                         sp == 'c' ? "the cluster has fewer lanes" : "waves have only 32 lanes on some targets");
            if (sp == 'w' && shuffle_xor)
                och_kl_note(s->diag, args[1]->pos, "wave.sum and the like work over a whole wave of any size");
            return false;
        }
        och_kl_level most = sp == 'c' ? och_kl_cluster_level(space->cluster) : OCH_KL_L_WAVE;
        if (!shuffle && i.level > most)
            return och_kl_error(s->diag, args[1]->pos, "%s: the %s is %s", what, shuffle_xor ? "mask" : "lane",
                                och_kl_level_name(i.level));
        y = och_kl_convert(s->code, pos, scalar(OCH_KL_I32), i.ir);
        if (!y) return false;
    }
    if (uniform) {
        och_kl_level l = sp == 'g' ? OCH_KL_L_GROUP : OCH_KL_L_WAVE;
        *out = och_kl_val_ir(cross(s, pos, OCH_KL_F_FIRST, 0, x, NULL, l), l);
        out->multiple = v[0].multiple;
        return out->ir != NULL;
    }
    if (sp == 'g'   ? !och_kl_need_group(s, pos, what)
        : sp == 'w' ? !och_kl_need_wave(s, pos, what)
                    : !och_kl_need_cluster(s, pos, what, space->cluster))
        return false;
    int extra = sp == 'c' && space->cluster < wave ? space->cluster : wave;
    och_kl_level level = sp == 'g' ? OCH_KL_L_GROUP : sp == 'w' ? OCH_KL_L_WAVE : och_kl_cluster_level(space->cluster);
    och_kl_ir *r = NULL;
    if (is_sum || is_max || is_min || is_scan) {
        if (!reducible(s, args[0]->pos, &v[0], what)) return false;
        och_kl_intrinsic f = is_sum   ? OCH_KL_F_WAVE_SUM
                             : is_max ? OCH_KL_F_WAVE_MAX
                             : is_min ? OCH_KL_F_WAVE_MIN
                                      : OCH_KL_F_WAVE_SCAN;
        if (is_scan) level = OCH_KL_L_LANE;
        r = cross(s, pos, f, extra, x, NULL, is_scan ? level : och_kl_join(level, OCH_KL_L_WAVE));
        if (r && sp == 'g') r = over_waves(s, pos, (int)f, r);
    } else if (shuffle || shuffle_xor) {
        level = OCH_KL_L_LANE;
        r = cross(s, pos, shuffle ? OCH_KL_F_SHUFFLE : OCH_KL_F_SHUFFLE_XOR, extra, x, y, level);
    } else if (broadcast && sp != 'g')
        r = cross(s, pos, OCH_KL_F_BROADCAST, extra, x, y, level);
    else if (broadcast) {
        if (s->sig->waves == 1)
            r = cross(s, pos, OCH_KL_F_BROADCAST, wave, x, och_kl_i32(s, pos, 0), OCH_KL_L_GROUP);
        else {
            /* Of thread 0 alone: the other waves' parts are 0 bits. */
            bool is_bool = x->type.base == OCH_KL_BOOL;
            if (is_bool) x = bool_to(s, pos, x, OCH_KL_U32);
            if (!x) return false;
            och_kl_base b = x->type.base;
            if (b != OCH_KL_F32 && b != OCH_KL_F16 && b != OCH_KL_I32 && b != OCH_KL_U32)
                return och_kl_error(s->diag, args[0]->pos, "%s takes f32, f16, i32, u32 or bool, found %s", what,
                                    och_kl_val_text(&v[0], buf));
            int lanes = x->type.lanes;
            och_kl_ir *elems[32];
            x = och_kl_keep(s, pos, "b", x, v[0].level);
            och_kl_var *sv = scratch(s, pos, (uint32_t)lanes);
            och_kl_list *outer = sv && x ? begin_if(s, pos,
                                                    och_kl_binary(s->code, pos, OCH_KL_OP_EQ, och_kl_thread_id(s, pos),
                                                                  och_kl_i32(s, pos, 0)))
                                         : NULL;
            if (!outer) return false;
            for (int i = 0; i < lanes; i++) {
                och_kl_ins *st = och_kl_ins_new(s->code, s->list, OCH_KL_I_STORE, pos);
                if (!st) return false;
                st->mem = word(sv, och_kl_i32(s, pos, i), 1);
                st->value = to_word(s, pos, och_kl_elem(s->code, pos, x, i));
            }
            s->list = outer;
            och_kl_barrier(s, pos);
            for (int i = 0; i < lanes; i++) {
                och_kl_mem m = word(sv, och_kl_i32(s, pos, i), 1);
                och_kl_ir *w = och_kl_load(s->code, pos, &m);
                elems[i] = w ? och_kl_keep(s, pos, "b", from_word(s, pos, w, b), OCH_KL_L_GROUP) : NULL;
                if (!elems[i]) return false;
            }
            scratch_read(s);
            r = och_kl_build(s->code, pos, x->type, elems, lanes);
            if (is_bool) r = to_bool(s, pos, r);
        }
    } else if (ballot) {
        r = och_kl_call(s->code, pos, OCH_KL_F_BALLOT, scalar(OCH_KL_U64), wave, &x, 1);
        r = och_kl_keep(s, pos, "votes", r, OCH_KL_L_WAVE);
    } else { /* any, all */
        if (all) x = och_kl_unary(s->code, pos, '!', x);
        if (!x) return false;
        if (sp == 'c')
            r = to_bool(s, pos, cross(s, pos, OCH_KL_F_WAVE_MAX, extra, bool_to(s, pos, x, OCH_KL_I32), NULL, level));
        else
            r = wave_any(s, pos, x);
        if (r && sp == 'g' && s->sig->waves > 1)
            r = to_bool(s, pos, over_waves(s, pos, AND_OR, bool_to(s, pos, r, OCH_KL_U32)));
        if (all && r) r = och_kl_unary(s->code, pos, '!', r);
    }
    if (!r) return false;
    *out = och_kl_val_ir(r, level);
    return true;
}
