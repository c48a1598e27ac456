/* VOPD: two operations in one instruction (wave32), each bound as the instruction it would be alone. Both read before either
 * writes: where one's destination is a source of the other, that other runs first; where it is so both ways, the first
 * result waits. */
#include "isa/valu.h"

#include <string.h>

static const char *dual_name(const char *meaning, char *buf, size_t n) {
    size_t len = strlen(meaning);
    if (len >= n) return meaning;
    if (!strncmp(meaning, "V_DUAL_", 7)) {
        memcpy(buf, "V_", 2);
        memcpy(buf + 2, meaning + 7, len - 6);
        return buf;
    }
    return meaning;
}

static const sim_uop *in_order(sim_wave *w, const sim_uop *u) {
    const sim_uop *half = u->core;
    half[0].fn(w, &half[0]);
    half[1].fn(w, &half[1]);
    return u + 1;
}

static const sim_uop *crossed(sim_wave *w, const sim_uop *u) {
    const sim_uop *half = u->core;
    uint32_t *d = SIM_ROW(w, half[0].d), old[32], first[32];
    memcpy(old, d, sizeof old);
    half[0].fn(w, &half[0]);
    memcpy(first, d, sizeof first);
    memcpy(d, old, sizeof old);
    half[1].fn(w, &half[1]);
    memcpy(d, first, sizeof first);
    return u + 1;
}

/* Does an operation read a vector register? What it accumulates into is its own. */
static bool reads(const sim_inst *inst, uint32_t reg) {
    for (int i = 0; i < 3; i++)
        if (inst->src[i].kind == SIM_K_VGPR && inst->src[i].reg == reg) return true;
    return inst->dst.reg == reg;
}

sim_bound sim_bind_vopd(sim_binder *b, const sim_inst *inst, sim_uop *u) {
    const sim_inst *y = inst->dual;
    if (!y || sim_bind_lanes(b) != 32) return SIM_BOUND_NO;
    char buf[48];
    int xi = sim_vrow_find(dual_name(inst->meaning, buf, sizeof buf));
    int yi = sim_vrow_find(dual_name(y->meaning, buf, sizeof buf));
    if (xi < 0 || yi < 0) return SIM_BOUND_NO;
    sim_uop half[2] = {0};
    sim_bound r = sim_bind_vrow(b, inst, xi, &half[0]);
    if (r == SIM_BOUND_UOP) r = sim_bind_vrow(b, y, yi, &half[1]);
    if (r != SIM_BOUND_UOP) return r;
    const bool x_first = !reads(y, inst->dst.reg), y_first = !reads(inst, y->dst.reg);
    sim_bind_halves(b, &half[x_first || !y_first ? 0 : 1], &half[x_first || !y_first ? 1 : 0]);
    u->inst = inst;
    u->fn = x_first || y_first ? in_order : crossed;
    return SIM_BOUND_UOP;
}
