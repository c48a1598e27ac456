/* See cross.def. Lanes that are off neither write nor, but for the forms that say so, are read. */
#include "exec/bind.h"

#include "isa/valu.h"
#include "isa/valu_math.h"

#include <string.h>

static uint64_t active(const sim_wave *w) { return SIM_EXEC(w) & w->exec_full; }

static uint32_t scalar_src(const sim_wave *w, const sim_uop *u, int i) {
    uint32_t tmp[SIM_MAX_LANES];
    return u->sk[i] == SIM_SRC_SCALAR ? w->s[u->s[i]] : sim_src_rows(w, u, i, 1, tmp)[0];
}

static const sim_uop *readfirstlane(sim_wave *w, const sim_uop *u) {
    uint32_t tmp[SIM_MAX_LANES];
    const uint32_t *s = sim_src_rows(w, u, 0, 1, tmp);
    uint64_t e = active(w);
    sim_swrite(w, u->d, s[e ? __builtin_ctzll(e) : 0]);
    return u + 1;
}
static const sim_uop *readlane(sim_wave *w, const sim_uop *u) {
    uint32_t tmp[SIM_MAX_LANES];
    const uint32_t *s = sim_src_rows(w, u, 0, 1, tmp);
    sim_swrite(w, u->d, s[scalar_src(w, u, 1) & (w->lanes - 1u)]);
    return u + 1;
}
static const sim_uop *writelane(sim_wave *w, const sim_uop *u) { /* whatever EXEC says */
    SIM_ROW(w, u->d)[scalar_src(w, u, 1) & (w->lanes - 1u)] = scalar_src(w, u, 0);
    return u + 1;
}

/* permlane16: op_sel[0] is fetch_inactive, op_sel[1] bound_ctrl: an inactive source reads 0, else the lane keeps its own. */
static const sim_uop *permlane(sim_wave *w, const sim_uop *u, bool across, bool per_lane) {
    uint32_t tmp[2][SIM_MAX_LANES], res[SIM_MAX_LANES];
    const uint32_t *s = sim_src_rows(w, u, 0, 1, tmp[0]);
    const uint32_t *sel = per_lane ? sim_src_rows(w, u, 1, 1, tmp[1]) : NULL;
    uint64_t lanesel = per_lane ? 0 : (uint64_t)scalar_src(w, u, 1) | (uint64_t)scalar_src(w, u, 2) << 32;
    const uint64_t e = active(w);
    const bool fetch_inactive = u->flags & 1, bound_ctrl = u->flags & 2;
    uint64_t mask = e;
    for (unsigned i = 0; i < w->lanes; i++) {
        unsigned row = i & ~15u, k = per_lane ? sel[i] & 15 : (unsigned)(lanesel >> (i & 15) * 4 & 15);
        unsigned from = (across ? row ^ 16 : row) | k;
        bool valid = fetch_inactive || e >> from & 1;
        res[i] = valid ? s[from] : 0;
        if (!valid && !bound_ctrl) mask &= ~(1ull << i);
    }
    sim_valu_store(w, u->d, res, 1, mask);
    return u + 1;
}
static const sim_uop *permlane16(sim_wave *w, const sim_uop *u) { return permlane(w, u, false, false); }
static const sim_uop *permlanex16(sim_wave *w, const sim_uop *u) { return permlane(w, u, true, false); }
static const sim_uop *permlane16_var(sim_wave *w, const sim_uop *u) { return permlane(w, u, false, true); }
static const sim_uop *permlanex16_var(sim_wave *w, const sim_uop *u) { return permlane(w, u, true, true); }

static const sim_uop *permlane64(sim_wave *w, const sim_uop *u) {
    if (w->lanes != 64) return u + 1;
    uint32_t tmp[SIM_MAX_LANES], res[SIM_MAX_LANES];
    const uint32_t *s = sim_src_rows(w, u, 0, 1, tmp);
    for (unsigned i = 0; i < 64; i++) res[i] = s[i ^ 32];
    sim_valu_store(w, u->d, res, 1, active(w));
    return u + 1;
}

/* Odd rows of the destination change places with even rows of the source (and halves of the wave likewise). A pair takes
 * part where both its lanes are on, or with fetch_inactive the one that is on takes what the other has. */
static const sim_uop *lane_swap(sim_wave *w, const sim_uop *u, unsigned width) {
    uint32_t *d = SIM_ROW(w, u->d), *s = SIM_ROW(w, u->s[0]);
    const uint64_t e = active(w);
    const bool fetch_inactive = u->flags & 1, bound_ctrl = u->flags & 2;
    for (unsigned i = 0; i < w->lanes; i++) {
        if (i & width) continue;
        unsigned j = i + width;
        uint32_t from_d = d[j], from_s = s[i];
        bool lo = e >> i & 1, hi = e >> j & 1;
        if (lo && (hi || fetch_inactive || bound_ctrl)) s[i] = hi || fetch_inactive ? from_d : 0;
        if (hi && (lo || fetch_inactive || bound_ctrl)) d[j] = lo || fetch_inactive ? from_s : 0;
    }
    return u + 1;
}
static const sim_uop *permlane16_swap(sim_wave *w, const sim_uop *u) { return lane_swap(w, u, 16); }
static const sim_uop *permlane32_swap(sim_wave *w, const sim_uop *u) { return lane_swap(w, u, 32); }

static void swap_rows(const sim_wave *w, uint32_t *a, uint32_t *b) {
    const uint64_t e = active(w);
    for (unsigned i = 0; i < w->lanes; i++)
        if (e >> i & 1) {
            uint32_t t = a[i];
            a[i] = b[i];
            b[i] = t;
        }
}
static const sim_uop *swap32(sim_wave *w, const sim_uop *u) {
    swap_rows(w, SIM_ROW(w, u->d), SIM_ROW(w, u->s[0]));
    return u + 1;
}
static const sim_uop *swap16(sim_wave *w, const sim_uop *u) {
    uint32_t *a = SIM_ROW(w, u->d), *b = SIM_ROW(w, u->s[0]);
    const unsigned sa = u->inst->dst_hi ? 16 : 0, sb = u->inst->src[0].hi ? 16 : 0;
    const uint64_t e = active(w);
    for (unsigned i = 0; i < w->lanes; i++)
        if (e >> i & 1) {
            uint32_t x = a[i] >> sa & 0xffff, y = b[i] >> sb & 0xffff;
            a[i] = (a[i] & ~(0xffffu << sa)) | y << sa;
            b[i] = (b[i] & ~(0xffffu << sb)) | x << sb;
        }
    return u + 1;
}

/* Registers by number: from the instruction, plus M0. */
static uint32_t *row_at(sim_wave *w, uint32_t offset, uint32_t more) {
    uint64_t reg = (uint64_t)(offset / (w->lanes * 4u)) + more;
    return reg < w->n_vgprs ? w->v + reg * w->lanes : NULL;
}
static const sim_uop *beyond(sim_wave *w, const sim_uop *u) {
    return sim_wave_fault(w, u, SIM_FAULT_ILLEGAL, -1, 0, 0, false, "a vector register beyond those allocated, by M0");
}
static const sim_uop *move(sim_wave *w, const sim_uop *u, uint32_t more_s, uint32_t more_d) {
    uint32_t tmp[SIM_MAX_LANES], *d = row_at(w, u->d, more_d);
    const uint32_t *s = u->sk[0] == SIM_SRC_ROW ? row_at(w, u->s[0], more_s) : sim_src_rows(w, u, 0, 1, tmp);
    if (!d || !s) return beyond(w, u);
    uint32_t res[SIM_MAX_LANES];
    memcpy(res, s, w->lanes * 4);
    sim_valu_store(w, (uint32_t)((uint8_t *)d - (uint8_t *)w->v), res, 1, active(w));
    return u + 1;
}
static const sim_uop *movreld(sim_wave *w, const sim_uop *u) { return move(w, u, 0, w->s[SIM_S_M0]); }
static const sim_uop *movrels(sim_wave *w, const sim_uop *u) { return move(w, u, w->s[SIM_S_M0], 0); }
static const sim_uop *movrelsd(sim_wave *w, const sim_uop *u) { return move(w, u, w->s[SIM_S_M0], w->s[SIM_S_M0]); }
static const sim_uop *movrelsd2(sim_wave *w, const sim_uop *u) {
    return move(w, u, w->s[SIM_S_M0] & 0x3ff, w->s[SIM_S_M0] >> 16 & 0x3ff);
}
static const sim_uop *swaprel(sim_wave *w, const sim_uop *u) {
    uint32_t *s = row_at(w, u->s[0], w->s[SIM_S_M0] & 0x3ff), *d = row_at(w, u->d, w->s[SIM_S_M0] >> 16 & 0x3ff);
    if (!d || !s) return beyond(w, u);
    swap_rows(w, d, s);
    return u + 1;
}
/* gfx9: V_MOV_B32 while MODE.GPR_IDX_EN: M0[7:0] is added to the source (M0 bit 12) or the destination (bit 15). */
const sim_uop *sim_valu_indexed_mov(sim_wave *w, const sim_uop *u) {
    uint32_t m0 = w->s[SIM_S_M0], index = m0 & 255;
    return move(w, u, m0 >> 12 & 1 ? index : 0, m0 >> 15 & 1 ? index : 0);
}

/* Interpolation: the parameters of a quad are in its lanes 0 to 2. Halves are f16; a result in f16 may be rounded to zero. */
static float parameter(const uint32_t *s, unsigned lane, const sim_operand *o, bool half) {
    uint32_t x = s[lane];
    float f = half ? sim_f16_to_f32((uint16_t)(o->hi ? x >> 16 : x)) : sim_u2f(x);
    return o->neg ? -f : f;
}
static const sim_uop *interp(sim_wave *w, const sim_uop *u, bool p2, bool half, int rounding) {
    const sim_inst *inst = u->inst;
    const uint32_t *s[3];
    uint32_t tmp[3][SIM_MAX_LANES], res[SIM_MAX_LANES];
    const uint32_t *old = SIM_ROW(w, u->d);
    for (int i = 0; i < 3; i++) s[i] = sim_src_rows(w, u, i, 1, tmp[i]);
    for (unsigned l = 0; l < w->lanes; l++) {
        unsigned quad = l & ~3u;
        float a = parameter(s[0], quad + (p2 ? 2 : 1), &inst->src[0], half), b = parameter(s[1], l, &inst->src[1], false);
        float c = p2 ? parameter(s[2], l, &inst->src[2], false) : parameter(s[2], quad, &inst->src[2], half);
        float r = fmaf(a, b, c);
        if (r != r) r = a != a ? sim_quiet32(a) : b != b ? sim_quiet32(b) : c != c ? sim_quiet32(c) : SIM_NEG_NAN32;
        if (inst->clamp) r = !(r > 0.0f) ? 0.0f : r > 1.0f ? 1.0f : r;
        if (!(p2 && half)) {
            res[l] = sim_f2u(r);
            continue;
        }
        uint32_t h = sim_f32_to_f16_mode(r, rounding < 0 ? (int)(w->mode >> 2 & 3) : rounding);
        res[l] = inst->dst_hi ? (old[l] & 0xffff) | h << 16 : (old[l] & 0xffff0000) | h;
    }
    sim_valu_store(w, u->d, res, 1, active(w));
    return u + 1;
}
static const sim_uop *interp_p10(sim_wave *w, const sim_uop *u) { return interp(w, u, false, false, -1); }
static const sim_uop *interp_p2(sim_wave *w, const sim_uop *u) { return interp(w, u, true, false, -1); }
static const sim_uop *interp_p10_f16(sim_wave *w, const sim_uop *u) { return interp(w, u, false, true, -1); }
static const sim_uop *interp_p2_f16(sim_wave *w, const sim_uop *u) { return interp(w, u, true, true, -1); }
static const sim_uop *interp_p2_rtz_f16(sim_wave *w, const sim_uop *u) { return interp(w, u, true, true, 3); }

static const struct { const char *name; sim_uop_fn *fn; } rows[] = {
#define L(n, f) {#n, f},
#include "isa/cross.def"
#undef L
};
enum { N_ROWS = sizeof rows / sizeof *rows };

sim_bound sim_bind_cross(sim_binder *b, const sim_inst *inst, sim_uop *u) {
    switch (inst->format) {
    case SIM_VOP1: case SIM_VOP2: case SIM_VOP3: case SIM_VINTERP: break;
    default: return SIM_BOUND_NO;
    }
    size_t k = 0;
    while (k < N_ROWS && strcmp(rows[k].name, inst->meaning)) k++;
    if (k == N_ROWS || inst->lanes != SIM_LANES_PLAIN) return SIM_BOUND_NO;
    if (!rows[k].fn) return SIM_BOUND_NOTHING;
    u->inst = inst;
    u->fn = rows[k].fn;
    u->core = NULL;
    u->n_src = 3;
    for (int i = 0; i < 3; i++)
        if (!sim_bind_src(b, u, i, &inst->src[i], 1)) return SIM_BOUND_FAILED;
    if (inst->dst.kind == SIM_K_SGPR) u->d = inst->dst.reg;
    else if (inst->dst.kind == SIM_K_VGPR) u->d = sim_bind_row(b, inst->dst.reg);
    else return SIM_BOUND_NO;
    bool both_rows = !strncmp(inst->meaning, "V_SWAP", 6) || strstr(inst->meaning, "_SWAP_");
    if (both_rows && (u->sk[0] != SIM_SRC_ROW || inst->dst.kind != SIM_K_VGPR)) return SIM_BOUND_NO;
    u->flags = (uint8_t)(sim_inst_op_sel(inst) & 3);
    if (inst->fetch_inactive) u->flags |= 1;
    if (inst->bound_ctrl) u->flags |= 2;
    return SIM_BOUND_UOP;
}

bool sim_meaning_at_cross(size_t i, sim_meaning *out) {
    if (i >= N_ROWS) return false;
    *out = (sim_meaning){rows[i].name, SIM_EXACT, NULL};
    return true;
}
