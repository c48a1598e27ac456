/* VOPD: two operations in one instruction (wave32). Both read before either writes: where X's destination is no source of
 * Y they run one after the other; else X's result waits. A uop holds both: X in d, s, sk; Y's row number in aux[0] and aux[1],
 * its first source in s[2] and sk[2]; its second and its destination are vector registers, in imm. A literal that X or Y
 * multiplies or adds is in the instruction. */
#include "isa/valu.h"

#include <string.h>

enum { NEEDS_TMP = 1 };

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

typedef struct half {
    const sim_vcode *code;
    const sim_vrow *row;
    const uint32_t *s[3];
    uint64_t cin;
    uint32_t literal[32];
} half;

static void run_half(sim_wave *w, const half *h, uint32_t *d) {
    sim_vargs a = {.s = {h->s[0], h->s[1], h->s[2]}, .d = d, .lanes = 32, .cin = h->cin};
    sim_valu_run(w, h->code, h->row, &a);
}

/* Sources by the row: a, b, then a literal, the accumulator, or VCC. */
static void third(sim_wave *w, half *h, const sim_inst *inst, const uint32_t *dst) {
    h->s[2] = dst;
    if (h->row->t[2] == SIM_VT_M) {
        h->cin = sim_mask_read(w, inst->src[2].kind == SIM_K_SGPR ? inst->src[2].reg : SIM_S_VCC_LO);
        return;
    }
    if (h->row->t[2] == SIM_VT_N || h->row->flags & SIM_V_ACC) return;
    int k = inst->src[1].kind == SIM_K_CONST && inst->src[1].literal ? 1 : 2; /* fmamk: the second operand is the literal */
    for (int i = 0; i < 32; i++) h->literal[i] = (uint32_t)inst->src[k].value;
    if (k == 1) {
        h->s[2] = h->s[1];
        h->s[1] = h->literal;
    } else {
        h->s[2] = h->literal;
    }
}

/* One half through its direct handler, as the instruction it would be alone. */
static inline void direct(sim_wave *w, const sim_vcode *code, const sim_vrow *row, uint32_t d, uint32_t s0, uint8_t sk0,
                          uint32_t s1) {
    const bool mask = row->t[2] == SIM_VT_M;
    sim_uop one = {.core = (void *)(uintptr_t)code,
                   .d = d,
                   .s = {s0, s1, mask ? SIM_S_VCC_LO : d},
                   .sk = {sk0, SIM_SRC_ROW, mask ? SIM_SRC_SCALAR : SIM_SRC_ROW}};
    (sk0 < SIM_SRC_SCALAR ? code->hot : code->hot_scalar)(w, &one);
}

static const sim_uop *dual_direct(sim_wave *w, const sim_uop *u) {
    int yi = u->aux[0] | u->aux[1] << 8;
    direct(w, u->core, sim_uop_vrow(u), u->d, u->s[0], u->sk[0], u->s[1]);
    direct(w, sim_vcode_at(yi), &sim_vrows[yi], (u->imm & 0xffff) * 128, u->s[2], u->sk[2], (u->imm >> 16) * 128);
    return u + 1;
}

static const sim_uop *dual(sim_wave *w, const sim_uop *u) {
    uint32_t tx[SIM_MAX_LANES], ty[SIM_MAX_LANES], rx[32], ry[32];
    uint32_t *dy_row = SIM_ROW(w, (u->imm & 0xffff) * 128), *dx_row = SIM_ROW(w, u->d);
    half x = {.code = u->core, .row = sim_uop_vrow(u)}, y;
    int yi = u->aux[0] | u->aux[1] << 8;
    y.code = sim_vcode_at(yi);
    y.row = &sim_vrows[yi];
    y.cin = 0;
    x.s[0] = sim_src_rows(w, u, 0, 1, tx);
    x.s[1] = SIM_ROW(w, u->s[1]);
    third(w, &x, u->inst, dx_row);
    y.s[0] = sim_src_rows(w, u, 2, 1, ty);
    y.s[1] = SIM_ROW(w, (u->imm >> 16) * 128);
    third(w, &y, u->inst->dual, dy_row);
    const uint64_t mask = SIM_EXEC(w) & w->exec_full;
    if (mask == w->exec_full) {
        uint32_t *d = u->flags & NEEDS_TMP ? rx : dx_row;
        run_half(w, &x, d);
        run_half(w, &y, dy_row);
        if (d == rx) memcpy(dx_row, rx, sizeof rx);
        return u + 1;
    }
    run_half(w, &x, rx);
    run_half(w, &y, ry);
    sim_valu_store(w, u->d, rx, 1, mask);
    sim_valu_store(w, (u->imm & 0xffff) * 128, ry, 1, mask);
    return u + 1;
}

/* Whether a half has no literal beside two operands, and a direct handler. */
static bool has_direct(int row) {
    const sim_vrow *r = &sim_vrows[row];
    bool third_known = r->t[2] == SIM_VT_N || r->t[2] == SIM_VT_M || (r->flags & SIM_V_ACC);
    return third_known && sim_vcode_at(row)->hot;
}

/* The vector register of the second operand (fmamk's is the third), or 0: none. */
static uint32_t second_vgpr(const sim_inst *inst) {
    for (int i = 1; i < 3; i++)
        if (inst->src[i].kind == SIM_K_VGPR) return inst->src[i].reg;
    return 0;
}

sim_bound sim_bind_vopd(sim_binder *b, const sim_inst *inst, sim_uop *u) {
    const sim_inst *y = inst->dual;
    if (!y || sim_bind_lanes(b) != 32) return SIM_BOUND_NO;
    char buf[48];
    int xi = sim_vrow_find(dual_name(inst->meaning, buf, sizeof buf));
    int yi = sim_vrow_find(dual_name(y->meaning, buf, sizeof buf));
    if (xi < 0 || yi < 0 || inst->dst.kind != SIM_K_VGPR || y->dst.kind != SIM_K_VGPR) return SIM_BOUND_NO;
    u->inst = inst;
    u->fn = dual;
    u->core = (void *)(uintptr_t)sim_vcode_at(xi);
    u->d = sim_bind_row(b, inst->dst.reg);
    if (!sim_bind_src(b, u, 0, &inst->src[0], 1)) return SIM_BOUND_FAILED;
    if (!sim_bind_src(b, u, 2, &y->src[0], 1)) return SIM_BOUND_FAILED;
    u->sk[1] = SIM_SRC_ROW;
    u->s[1] = sim_bind_row(b, second_vgpr(inst));
    u->imm = (uint32_t)y->dst.reg | second_vgpr(y) << 16;
    u->aux[0] = (uint8_t)yi;
    u->aux[1] = (uint8_t)(yi >> 8);
    u->n_src = 3;
    u->flags = 0;
    for (int i = 0; i < 3; i++)
        if (y->src[i].kind == SIM_K_VGPR && y->src[i].reg == inst->dst.reg) u->flags |= NEEDS_TMP;
    if ((sim_vrows[yi].flags & SIM_V_ACC) && y->dst.reg == inst->dst.reg) u->flags |= NEEDS_TMP;
    if (!(u->flags & NEEDS_TMP) && has_direct(xi) && has_direct(yi)) u->fn = dual_direct;
    return SIM_BOUND_UOP;
}
