/* The handler for vector instructions with anything beyond plain operands: modifiers, halves, DPP, SDWA, output modifiers.
 * Sources are brought to the form that cores take, in temporaries; results are brought to their place. */
#include "isa/valu.h"
#include "isa/valu_math.h"

#include <string.h>

/* What DPP does to a wave: where each lane reads, and which lanes take part. */
typedef struct lane_map {
    uint8_t from[SIM_MAX_LANES];
    uint64_t zero;    /* lanes that read 0 */
    uint64_t enabled; /* lanes that may write */
} lane_map;

/* The lane that lane i reads, or -1: outside. */
static int dpp16_from(unsigned ctrl, int i, int lanes) {
    const int row = i & ~15, in = i & 15, n = (int)ctrl & 15;
    if (ctrl <= 0xff) return (i & ~3) | (int)(ctrl >> (i & 3) * 2 & 3);
    switch (ctrl >> 4) {
    case 0x10: return in + n < 16 ? i + n : -1;           /* row_shl */
    case 0x11: return in - n >= 0 ? i - n : -1;           /* row_shr */
    case 0x12: return row | ((in - n) & 15);              /* row_ror */
    case 0x13:
        switch (ctrl) {
        case 0x130: return i + 1 < lanes ? i + 1 : -1;    /* wave_shl */
        case 0x134: return (i + 1) & (lanes - 1);         /* wave_rol */
        case 0x138: return i - 1;                         /* wave_shr */
        case 0x13c: return (i - 1) & (lanes - 1);         /* wave_ror */
        default: return -1;
        }
    case 0x14:
        switch (ctrl) {
        case 0x140: return row | (15 - in);               /* row_mirror */
        case 0x141: return (i & ~7) | (7 - (i & 7));      /* row_half_mirror */
        case 0x142: return i > 15 ? row - 1 : -1;         /* row_bcast:15 */
        case 0x143: return i > 31 ? 31 : -1;              /* row_bcast:31 */
        default: return -1;
        }
    case 0x15: return row | n;                            /* row_share, row_newbcast */
    case 0x16: return row | (in ^ n);                     /* row_xmask */
    default: return -1;
    }
}

static void map_lanes(const sim_inst *inst, int lanes, uint64_t exec, lane_map *m) {
    m->zero = 0;
    m->enabled = lanes == 64 ? ~0ull : 0xffffffffull;
    for (int i = 0; i < lanes; i++) {
        if (inst->lanes == SIM_LANES_DPP8) {
            int f = (i & ~7) | (inst->dpp8[i & 7] & 7);
            m->from[i] = (uint8_t)f;
            if (!inst->fetch_inactive && !(exec >> f & 1)) m->zero |= 1ull << i;
            continue;
        }
        int f = dpp16_from(inst->dpp_ctrl, i, lanes);
        bool valid = f >= 0 && (inst->fetch_inactive || exec >> f & 1);
        m->from[i] = (uint8_t)(f < 0 ? 0 : f);
        if (!valid) {
            if (inst->bound_ctrl) m->zero |= 1ull << i;
            else m->enabled &= ~(1ull << i);
        }
        if (!(inst->row_mask >> (i >> 4 & 3) & 1) || !(inst->bank_mask >> (i >> 2 & 3) & 1)) m->enabled &= ~(1ull << i);
    }
}

static bool type_f32(unsigned t) { return t == SIM_VT_F32 || t == SIM_VT_FB; }
static bool type_f64(unsigned t) { return t == SIM_VT_F64 || t == SIM_VT_DB; }
static bool type_f16(unsigned t) { return t == SIM_VT_F16 || t == SIM_VT_HB || t == SIM_VT_BF16; }

static void each(uint32_t *t, unsigned n, uint32_t and_bits, uint32_t xor_bits) {
    for (unsigned i = 0; i < n; i++) t[i] = (t[i] & and_bits) ^ xor_bits;
}

/* Sign bits in one pass. In vectors as wide as those that cores load: narrower stores would not be forwarded to them. */
static void signs_generic(uint32_t *restrict t, const uint32_t *restrict s, unsigned n, uint32_t and_bits, uint32_t xor_bits) {
    for (unsigned i = 0; i < n; i++) t[i] = (s[i] & and_bits) ^ xor_bits;
}
#if defined __x86_64__ && defined __GNUC__ && !defined __clang__
__attribute__((target("avx512f,prefer-vector-width=512"))) static void signs_avx512(uint32_t *restrict t,
                                                                                    const uint32_t *restrict s, unsigned n,
                                                                                    uint32_t and_bits, uint32_t xor_bits) {
    for (unsigned h = 0; h < n; h += 32)
        for (unsigned i = h; i < h + 32; i++) t[i] = (s[i] & and_bits) ^ xor_bits;
}
__attribute__((target("avx2"))) static void signs_avx2(uint32_t *restrict t, const uint32_t *restrict s, unsigned n,
                                                       uint32_t and_bits, uint32_t xor_bits) {
    for (unsigned h = 0; h < n; h += 32)
        for (unsigned i = h; i < h + 32; i++) t[i] = (s[i] & and_bits) ^ xor_bits;
}
#else
#define signs_avx512 signs_generic
#define signs_avx2 signs_generic
#endif
static void signs(uint32_t *t, const uint32_t *s, unsigned n, uint32_t and_bits, uint32_t xor_bits) {
    switch (sim_host_level()) {
    case 2: signs_avx512(t, s, n, and_bits, xor_bits); break;
    case 1: signs_avx2(t, s, n, and_bits, xor_bits); break;
    default: signs_generic(t, s, n, and_bits, xor_bits); break;
    }
}
/* The sign bit of a source whose only modifiers are neg and abs; 0: it has others. */
static uint32_t only_signs(const sim_inst *inst, const sim_vrow *row, const sim_operand *o, unsigned type) {
    if (inst->lanes == SIM_LANES_SDWA || inst->format == SIM_VOP3P || o->hi) return 0;
    if (row->flags & (SIM_V_SRCHALF | SIM_V_SRCBYTE | SIM_V_RAW)) return 0;
    return type_f32(type) ? 0x80000000u : type_f16(type) ? 0x8000u : 0;
}

static void sdwa_select(uint32_t *t, unsigned n, unsigned sel, bool sext) {
    unsigned shift = sel < 4 ? sel * 8 : sel == 5 ? 16 : 0, bits = sel < 4 ? 8 : sel < 6 ? 16 : 32;
    if (bits == 32) return;
    for (unsigned i = 0; i < n; i++) {
        uint32_t x = t[i] << (32 - bits - shift);
        t[i] = sext ? (uint32_t)((int32_t)x >> (32 - bits)) : x >> (32 - bits);
    }
}

/* f16 halves of dwords as f32 (the row for upper halves follows the one for lower ones). */
static void halves(const sim_wave *w, bool upper, const uint32_t *s, uint32_t *d) {
    static _Atomic int row = -1;
    int lower = atomic_load_explicit(&row, memory_order_relaxed);
    if (lower < 0) atomic_store_explicit(&row, lower = sim_vrow_find("SIM_F16_LO"), memory_order_relaxed);
    sim_vargs a = {.s = {s, s, s}, .d = d, .lanes = w->lanes};
    sim_vcode_at(lower + upper)->core(&a);
}

/* Whether a source is used as it is. */
static bool untouched(const sim_inst *inst, const sim_vrow *row, const sim_operand *o, unsigned type) {
    if (inst->lanes == SIM_LANES_SDWA || (row->flags & (SIM_V_SRCHALF | SIM_V_SRCBYTE))) return false;
    if (o->neg || o->abs || o->hi || o->neg_hi) return false;
    if (type == SIM_VT_MIX) return !o->opsel_hi;
    return inst->format != SIM_VOP3P || o->opsel_hi || !((type >= SIM_VT_PU16 && type <= SIM_VT_PBF16) || type == SIM_VT_PF32);
}

/* A source of type t in the form that the core takes; t[] holds four rows. */
static void prepare(const sim_wave *w, const sim_inst *inst, const sim_vrow *row, int i, const sim_operand *o, uint32_t *t) {
    const unsigned lanes = w->lanes, type = row->t[i];
    const bool vop3p = inst->format == SIM_VOP3P;
    if (inst->lanes == SIM_LANES_SDWA && i < 2 && !((row->flags & SIM_V_ACC) && o == &inst->dst))
        sdwa_select(t, lanes, o->sdwa_sel, o->sdwa_sext);
    if (row->flags & SIM_V_RAW) {
        if (sim_vt_is16(type) && o->hi)
            for (unsigned l = 0; l < lanes; l++) t[l] >>= 16;
        return;
    }
    if (i == 0 && (row->flags & SIM_V_SRCHALF) && o->hi)
        for (unsigned l = 0; l < lanes; l++) t[l] >>= 16;
    if (i == 0 && (row->flags & SIM_V_SRCBYTE) && inst->lanes != SIM_LANES_SDWA) {
        unsigned sel = sim_inst_op_sel(inst) & 3, byte = (sel & 1) << 1 | sel >> 1;
        for (unsigned l = 0; l < lanes; l++) t[l] >>= byte * 8;
    }
    if (sim_vt_is16(type) && o->hi)
        for (unsigned l = 0; l < lanes; l++) t[l] >>= 16;
    switch (type) {
    case SIM_VT_PU16: case SIM_VT_PI16: case SIM_VT_PF16: case SIM_VT_PBF16: {
        if (!vop3p) {
            if (o->abs) each(t, lanes, 0x7fff7fff, 0);
            if (o->neg) each(t, lanes, ~0u, 0x80008000);
            return;
        }
        uint32_t flip = (o->neg ? 0x8000u : 0) | (o->neg_hi ? 0x80000000u : 0);
        for (unsigned l = 0; l < lanes; l++) {
            uint32_t lo = o->hi ? t[l] >> 16 : t[l] & 0xffff, hi = o->opsel_hi ? t[l] >> 16 : t[l] & 0xffff;
            t[l] = (lo | hi << 16) ^ flip;
        }
        return;
    }
    case SIM_VT_PF32: {
        if (!strcmp(row->name, "V_PK_MOV_B32")) { /* the dword that goes to the result, first */
            if (o->hi) memcpy(t, t + lanes, lanes * 4);
            return;
        }
        uint32_t lo[SIM_MAX_LANES];
        memcpy(lo, t, lanes * 4);
        if (o->hi) memcpy(t, t + lanes, lanes * 4);
        if (!o->opsel_hi) memcpy(t + lanes, lo, lanes * 4);
        if (o->neg) each(t, lanes, ~0u, 0x80000000);
        if (o->neg_hi) each(t + lanes, lanes, ~0u, 0x80000000);
        return;
    }
    case SIM_VT_MIX: {
        if (o->opsel_hi) {
            uint32_t f[SIM_MAX_LANES];
            halves(w, o->hi, t, f);
            memcpy(t, f, lanes * 4);
        }
        if (o->neg_hi || o->abs) each(t, lanes, 0x7fffffff, 0);
        if (o->neg) each(t, lanes, ~0u, 0x80000000);
        return;
    }
    default: break;
    }
    if (!(o->neg || o->abs)) return;
    uint32_t *top = t;
    uint32_t sign;
    if (type_f32(type)) sign = 0x80000000;
    else if (type_f16(type)) sign = 0x8000;
    else if (type_f64(type)) {
        sign = 0x80000000;
        top = t + lanes;
    } else return;
    if (o->abs) each(top, lanes, ~sign, 0);
    if (o->neg) each(top, lanes, ~0u, sign);
}

static uint32_t clamp16(uint32_t x, bool nan_zero) {
    if ((x & 0x7fff) > 0x7c00) return nan_zero ? 0 : x;
    return x & 0x8000 ? 0 : x > 0x3c00 ? 0x3c00 : x;
}
static float omod32(float x, unsigned omod) {
    float r = omod == 1 ? x * 2.0f : omod == 2 ? x * 4.0f : x * 0.5f;
    return r == 0.0f ? 0.0f : r; /* no negative zero */
}

static uint32_t omod16(uint32_t x, unsigned omod) {
    x = sim_f32_to_f16_mode(omod32(sim_f16_to_f32((uint16_t)x), omod), sim_host_rounding());
    return x & 0x7c00 ? x : 0;
}
static float clamp32(float x, bool nan_zero) {
    return x != x ? (nan_zero ? 0.0f : x) : !(x > 0.0f) ? 0.0f : x > 1.0f ? 1.0f : x;
}

/* Output modifiers: omod (only where denormals are flushed and IEEE is off, as the manuals say), then clamp to 0 .. 1. */
static void modify_result(const sim_wave *w, const sim_inst *inst, const sim_vrow *row, uint32_t *r) {
    const unsigned lanes = w->lanes;
    const bool nan_zero = (w->mode >> 8 & 1) || w->isa >= SIM_GFX1200;
    const unsigned t = row->td;
    const bool wide = type_f32(t) || t == SIM_VT_PF32;
    bool omod = inst->omod && inst->format != SIM_VOP3P && !(w->mode >> 9 & 1) && !(w->mode >> (wide ? 5 : 7) & 1);
    const unsigned n = t == SIM_VT_PF32 ? 2 * lanes : lanes;
    for (unsigned i = 0; (omod || inst->clamp) && i < n; i++) {
        if (wide) {
            float x = sim_u2f(r[i]);
            if (omod) x = omod32(x, inst->omod);
            if (inst->clamp) x = clamp32(x, nan_zero);
            r[i] = sim_f2u(x);
        } else if (type_f16(t) && t != SIM_VT_BF16) {
            uint32_t x = r[i] & 0xffff;
            if (omod) x = omod16(x, inst->omod);
            r[i] = inst->clamp ? clamp16(x, nan_zero) : x;
        } else if (t == SIM_VT_BF16) {
            float x = sim_u2f(r[i] << 16);
            if (inst->clamp) x = clamp32(x, nan_zero);
            r[i] = sim_f2u(x) >> 16;
        } else if (t == SIM_VT_PF16) {
            uint32_t h[2] = {r[i] & 0xffff, r[i] >> 16};
            for (int k = 0; k < 2; k++) {
                if (omod) h[k] = omod16(h[k], inst->omod);
                if (inst->clamp) h[k] = clamp16(h[k], nan_zero);
            }
            r[i] = h[0] | h[1] << 16;
        } else if (t == SIM_VT_PBF16) {
            uint32_t h[2] = {r[i] << 16, r[i] & 0xffff0000};
            for (int k = 0; k < 2; k++) {
                float x = sim_u2f(h[k]);
                if (omod) x = omod32(x, inst->omod);
                if (inst->clamp) x = clamp32(x, nan_zero);
                h[k] = sim_f32_to_bf16(x);
            }
            r[i] = h[0] | h[1] << 16;
        } else if (type_f64(t)) {
            double x = sim_u2d((uint64_t)r[i] | (uint64_t)r[i + lanes] << 32);
            if (omod) {
                x = inst->omod == 1 ? x * 2.0 : inst->omod == 2 ? x * 4.0 : x * 0.5;
                if (x == 0.0) x = 0.0;
            }
            if (inst->clamp) x = x != x ? (nan_zero ? 0.0 : x) : !(x > 0.0) ? 0.0 : x > 1.0 ? 1.0 : x;
            r[i] = (uint32_t)sim_d2u(x);
            r[i + lanes] = (uint32_t)(sim_d2u(x) >> 32);
        }
    }
}

static void sdwa_place(const sim_wave *w, const sim_uop *u, const sim_inst *inst, uint32_t *r) {
    unsigned sel = inst->sdwa_dst_sel;
    if (sel > 5) return;
    unsigned bits = sel < 4 ? 8 : 16, shift = sel < 4 ? sel * 8 : sel == 5 ? 16 : 0;
    uint32_t field = ((1u << bits) - 1) << shift;
    const uint32_t *old = SIM_ROW(w, u->d);
    for (unsigned i = 0; i < w->lanes; i++) {
        uint32_t x = r[i] << shift & field;
        switch (inst->sdwa_dst_unused) {
        case 1: x |= x >> (shift + bits - 1) & 1 && shift + bits < 32 ? ~0u << (shift + bits) : 0; break;
        case 2: x |= old[i] & ~field; break;
        default: break;
        }
        r[i] = x;
    }
}

const sim_uop *sim_valu_general(sim_wave *w, const sim_uop *u) { return sim_valu_general_from(w, u, 0); }

const sim_uop *sim_valu_general_from(sim_wave *w, const sim_uop *u, unsigned first) {
    const sim_inst *inst = u->inst;
    const sim_vrow *row = sim_uop_vrow(u);
    const unsigned lanes = w->lanes;
    uint32_t tmp[3][4 * SIM_MAX_LANES], res[4 * SIM_MAX_LANES];
    sim_vargs a = {.d = res, .lanes = lanes, .imm = u->imm};
    uint64_t mask = SIM_EXEC(w) & w->exec_full & (~0ull << first);
    lane_map map = {.zero = 0};
    const bool dpp = inst->lanes == SIM_LANES_DPP16 || inst->lanes == SIM_LANES_DPP8;
    if (dpp) {
        map_lanes(inst, (int)lanes, SIM_EXEC(w) & w->exec_full, &map);
        mask &= map.enabled;
    }
    for (int i = 0; i < 3; i++) {
        const unsigned t = row->t[i], rows = sim_vt_rows(t);
        if (t == SIM_VT_M) {
            a.cin = sim_mask_read(w, u->s[i]);
            continue;
        }
        a.s[i] = tmp[i];
        if (t == SIM_VT_N) continue;
        const bool acc = (row->flags & SIM_V_ACC) && i == u->n_src - 1;
        const sim_operand *o = acc ? &inst->dst : &inst->src[i];
        const uint32_t *s = sim_src_rows(w, u, i, rows, tmp[i]);
        if (!(i == 0 && dpp) && !acc && untouched(inst, row, o, t)) {
            a.s[i] = s;
            continue;
        }
        uint32_t sign = (i == 0 && dpp) || acc || s == tmp[i] ? 0 : only_signs(inst, row, o, t);
        if (sign) {
            signs(tmp[i], s, lanes, o->abs ? ~sign : ~0u, o->neg ? sign : 0);
            continue;
        }
        if (i == 0 && dpp) {
            uint32_t moved[4 * SIM_MAX_LANES];
            for (unsigned r = 0; r < rows; r++)
                for (unsigned l = 0; l < lanes; l++)
                    moved[r * lanes + l] = map.zero >> l & 1 ? 0 : s[r * lanes + map.from[l]];
            memcpy(tmp[i], moved, rows * lanes * 4);
        } else if (s != tmp[i]) {
            memcpy(tmp[i], s, rows * lanes * 4);
        }
        if (!acc) {
            prepare(w, inst, row, i, o, tmp[i]);
        } else if (sim_vt_is16(t) && inst->dst_hi) {
            for (unsigned l = 0; l < lanes; l++) tmp[i][l] >>= 16;
        } else if (inst->src[2].neg || inst->src[2].abs) {
            prepare(w, inst, row, i, &inst->src[2], tmp[i]);
        }
    }
    if (row->flags & SIM_V_VCCIN) a.cin = SIM_VCC(w);
    sim_valu_run(w, u->core, row, &a);
    if (!(row->flags & SIM_V_RAW)) modify_result(w, inst, row, res);
    if (row->td == SIM_VT_M) {
        sim_valu_finish(w, u, row, &a, res, mask);
        return u + 1;
    }
    if (inst->lanes == SIM_LANES_SDWA && inst->sdwa_dst_sel < 6) {
        sdwa_place(w, u, inst, res);
        sim_valu_store(w, u->d, res, 1, mask);
        if (row->flags & SIM_V_COUT) sim_mask_write(w, u->imm, a.cout & mask);
        return u + 1;
    }
    const uint32_t *old = SIM_ROW(w, u->d);
    if (row->flags & SIM_V_HALF) {
        for (unsigned i = 0; i < lanes; i++)
            res[i] = inst->dst_hi ? (res[i] << 16) | (old[i] & 0xffff) : (res[i] & 0xffff) | (old[i] & 0xffff0000);
    } else if (row->flags & SIM_V_BYTE) {
        unsigned shift = (sim_inst_op_sel(inst) >> 2) * 8;
        for (unsigned i = 0; i < lanes; i++) res[i] = (res[i] & 255) << shift | (old[i] & ~(255u << shift));
    }
    sim_valu_finish(w, u, row, &a, res, mask);
    return u + 1;
}

/* u->core: the operation as a direct handler does it, and the map that it needs; u->s[0..1]: the lanes that may write while
 * all are on; u->flags: DPP_FREE where lanes that are off are read like others, DPP_ZERO where they read as 0. */
enum { DPP_FREE = 1, DPP_ZERO = 2 };
static const sim_uop *dpp_direct(sim_wave *w, const sim_uop *u) {
    struct {
        sim_uop op;
        sim_dpp_map map;
    } some; /* what some lanes' absence makes of it */
    const sim_uop *inner = u->core;
    const uint32_t lo = w->s[SIM_S_EXEC_LO], hi = w->s[SIM_S_EXEC_HI];
    const uint64_t exec = SIM_EXEC(w) & w->exec_full;
    uint64_t enabled = u->s[0] | (uint64_t)u->s[1] << 32;
    if (exec != w->exec_full) {
        memcpy(&some, inner, sizeof some);
        some.op.target = (const sim_uop *)(uintptr_t)exec;
        for (unsigned i = 0; !(u->flags & DPP_FREE) && i < w->lanes; i++) {
            const unsigned from = some.map.from[i];
            if (from == SIM_DPP_ZERO || exec >> from & 1) continue;
            if (u->flags & DPP_ZERO) some.map.from[i] = SIM_DPP_ZERO;
            else enabled &= ~(1ull << i);
        }
        enabled &= exec;
        inner = &some.op;
    }
    w->s[SIM_S_EXEC_LO] = (uint32_t)enabled;
    if (w->lanes == 64) w->s[SIM_S_EXEC_HI] = (uint32_t)(enabled >> 32);
    (void)inner->fn(w, inner);
    w->s[SIM_S_EXEC_LO] = lo;
    w->s[SIM_S_EXEC_HI] = hi;
    return u + 1;
}

static bool is_exec(uint32_t reg) { return reg == SIM_S_EXEC_LO || reg == SIM_S_EXEC_HI; }

void sim_bind_dpp(sim_binder *b, const sim_inst *inst, sim_uop *u) {
    const sim_vrow *row = sim_uop_vrow(u);
    const int lanes = (int)sim_bind_lanes(b);
    bool exec = u->flags & SIM_U_CMPX || (row->td == SIM_VT_M && is_exec(u->d)) || is_exec(u->imm); /* read or written */
    for (int i = 0; i < 3; i++) exec |= u->sk[i] >= SIM_SRC_SCALAR && u->sk[i] != SIM_SRC_NONE && u->s[i] >= SIM_S_EXEC_LO - 1u;
    if (exec) {
        u->fn = sim_valu_general;
        return;
    }
    lane_map m;
    map_lanes(inst, lanes, lanes == 64 ? ~0ull : 0xffffffffull, &m);
    sim_dpp_map map = {{0}};
    for (int i = 0; i < lanes; i++) map.from[i] = m.zero >> i & 1 ? SIM_DPP_ZERO : m.from[i];
    u->aux[0] |= SIM_A_DPP;
    u->flags |= SIM_U_ALTERED;
    sim_uop second = {0};
    memcpy(&second, &map, sizeof map);
    u->target = (const sim_uop *)(uintptr_t)(lanes == 64 ? ~0ull : 0xffffffffull); /* EXEC: see sim_valu_resume */
    sim_bind_halves(b, u, &second);
    u->target = NULL;
    u->fn = dpp_direct;
    u->flags = (uint8_t)(inst->fetch_inactive ? DPP_FREE : inst->lanes == SIM_LANES_DPP8 || inst->bound_ctrl ? DPP_ZERO : 0);
    u->s[0] = (uint32_t)m.enabled;
    u->s[1] = (uint32_t)(m.enabled >> 32);
}
