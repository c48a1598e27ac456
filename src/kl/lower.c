/* Instructions, values kept in variables, and where control may stand for operations of many lanes. */
#include "kl/spec.h"

#include <string.h>

och_kl_level och_kl_control(const och_kl_spec *s) {
    return och_kl_join(s->control, s->skipped);
}

och_kl_ins *och_kl_loose(och_kl_spec *s, och_kl_ins_kind kind, och_kl_pos pos) {
    och_kl_list none = {0};
    return och_kl_ins_new(s->code, &none, kind, pos);
}

void och_kl_insert_after(och_kl_list *l, och_kl_ins *after, och_kl_ins *x) {
    if (after) {
        x->next = after->next;
        after->next = x;
    } else {
        x->next = l->first;
        l->first = x;
    }
    if (!x->next) l->last = x;
}

static bool is_simple(const och_kl_ir *x) {
    return x->kind == OCH_KL_X_INT || x->kind == OCH_KL_X_REAL ||
           (x->kind == OCH_KL_X_VAR && x->var->fixed && !x->var->n_dims) ||
           ((x->kind == OCH_KL_X_ELEM || (x->kind == OCH_KL_X_BUILD && x->n_args == 1)) &&
            is_simple(x->args[0]));
}

bool och_kl_is_stable(const och_kl_ir *x) {
    if (x->kind == OCH_KL_X_VAR) return x->var->fixed;
    if (x->kind == OCH_KL_X_LOAD && (!x->mem.base->read_only || !och_kl_is_stable(x->mem.index))) return false;
    if (x->effects) return false;
    for (int i = 0; i < x->n_args; i++)
        if (!och_kl_is_stable(x->args[i])) return false;
    return true;
}

bool och_kl_has_load(const och_kl_ir *x) {
    if (x->kind == OCH_KL_X_LOAD) return true;
    for (int i = 0; i < x->n_args; i++)
        if (och_kl_has_load(x->args[i])) return true;
    return false;
}

och_kl_ir *och_kl_keep(och_kl_spec *s, och_kl_pos pos, const char *name, och_kl_ir *x, och_kl_level level) {
    if (!x || is_simple(x)) return x;
    och_kl_slot *slot = och_kl_slot_new(s, name, x->type, NULL, 0, true, level);
    och_kl_ins *d = slot && s->list ? och_kl_ins_new(s->code, s->list, OCH_KL_I_DECLARE, pos) : NULL;
    if (!d) return NULL;
    d->var = slot->var;
    d->value = x;
    return och_kl_use(s->code, pos, slot->var);
}

och_kl_val och_kl_keep_val(och_kl_spec *s, och_kl_pos pos, const char *name, och_kl_val v) {
    och_kl_val w = v;
    switch (v.kind) {
    case OCH_KL_V_IR:
        w = och_kl_val_ir(och_kl_keep(s, pos, name, v.ir, v.level), v.level);
        w.multiple = v.multiple;
        w.size = v.size;
        w.counts_lanes = v.counts_lanes;
        return w;
    case OCH_KL_V_ROW:
    case OCH_KL_V_LDS:
        if (v.ir) w.ir = och_kl_keep(s, pos, name, v.ir, v.level);
        if (v.ir && !w.ir) w.kind = OCH_KL_V_BAD;
        return w;
    case OCH_KL_V_SUB:
        w.ir = och_kl_keep(s, pos, name, v.ir, v.level);
        w.ir2 = och_kl_keep(s, pos, name, v.ir2, v.level);
        if (!w.ir || !w.ir2) w.kind = OCH_KL_V_BAD;
        return w;
    default:
        return v;
    }
}

void och_kl_do(och_kl_spec *s, och_kl_pos pos, och_kl_ir *call) {
    och_kl_ins *i = call ? och_kl_ins_new(s->code, s->list, OCH_KL_I_DO, pos) : NULL;
    if (i) i->value = call;
}

void och_kl_barrier(och_kl_spec *s, och_kl_pos pos) {
    /* One wave meets nobody, but its lanes must still see each other's writes: the emitter knows what that takes. */
    s->waited = true;
    och_kl_end_products(s, pos); /* of what may be written behind it */
    och_kl_ins_new(s->code, s->list, OCH_KL_I_BARRIER, pos);
    s->scratch_dirty[0] = s->scratch_dirty[1] = false;
}

void och_kl_scratch_unknown(och_kl_spec *s) {
    s->scratch_dirty[0] = s->scratch_dirty[1] = true;
}

static bool need(och_kl_spec *s, och_kl_pos pos, const char *what, och_kl_level most, const char *where) {
    if (!s->in_kernel) return och_kl_error(s->diag, pos, "%s is for a kernel's body", what);
    och_kl_level l = och_kl_control(s);
    if (l <= most) return true;
    och_kl_error(s->diag, pos, "%s stands under control that is %s", what, och_kl_level_name(l));
    och_kl_note(s->diag, pos, "%s", where);
    return false;
}

bool och_kl_need_group(och_kl_spec *s, och_kl_pos pos, const char *what) {
    och_kl_level most = s->sig->waves == 1 ? OCH_KL_L_WAVE : OCH_KL_L_GROUP;
    return need(s, pos, what, most,
                "the whole workgroup must come here together: conditions, loop bounds, breaks and returns around it "
                "must be uniform in the workgroup");
}
bool och_kl_need_wave(och_kl_spec *s, och_kl_pos pos, const char *what) {
    return need(
        s, pos, what, OCH_KL_L_WAVE,
        "a whole wave must come here together: conditions, loop bounds and breaks around it must be wave-uniform");
}
bool och_kl_need_cluster(och_kl_spec *s, och_kl_pos pos, const char *what, int lanes) {
    return need(
        s, pos, what, och_kl_cluster_level(lanes),
        "a whole cluster must come here together: conditions and loop bounds around it must be the same in its lanes");
}

och_kl_ir *och_kl_thread_id(och_kl_spec *s, och_kl_pos pos) {
    return och_kl_call(s->code, pos, OCH_KL_F_THREAD_ID, och_kl_type_of(OCH_KL_I32, 1), 0, NULL, 0);
}
och_kl_ir *och_kl_lane(och_kl_spec *s, och_kl_pos pos) {
    return och_kl_call(s->code, pos, OCH_KL_F_LANE, och_kl_type_of(OCH_KL_I32, 1), 0, NULL, 0);
}
och_kl_ir *och_kl_wave_id(och_kl_spec *s, och_kl_pos pos) {
    if (s->sig->waves == 1) return och_kl_i32(s, pos, 0);
    return och_kl_call(s->code, pos, OCH_KL_F_WAVE_ID, och_kl_type_of(OCH_KL_I32, 1), 0, NULL, 0);
}
