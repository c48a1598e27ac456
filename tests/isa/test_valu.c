/* Vector and scalar arithmetic on hand-made instructions: the host's IEEE arithmetic, exact integers, values worked by hand,
 * and the three builds of every lane function against each other. */
#include "isa/valu.h"
#include "isa/valu_math.h"

#include "hand.h"

#include <fenv.h>
#include <math.h>

static uint64_t rng_state = 0x853c49e6748fea9bull;
static uint32_t rnd(void) {
    rng_state = rng_state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(rng_state >> 32) ^ (uint32_t)(rng_state >> 13);
}
/* Numbers of every kind, special ones often. */
static uint32_t rnd_bits(void) {
    static const uint32_t special[] = {0, 0x80000000, 1, 0x80000001, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000,
                                       0xffc00001, 0x7f800001, 0xff812345, 0x007fffff, 0x00800000, 0x7f7fffff, 0x3c003c00,
                                       0x7c007c00, 0xfc017e00, 0x7bff0400, 0x80007fff, 0xffffffff, 0x7fffffff, 0x4b000000,
                                       0x5f000000, 0x43800000, 0x477fe000, 0x38800000, 0x33000000};
    uint32_t r = rnd();
    if (r % 3 == 0) return special[rnd() % (sizeof special / sizeof *special)];
    if (r % 3 == 1) return rnd();
    return (rnd() & 0x807fffff) | (100 + rnd() % 56) << 23;
}

static hand *make_hand(sim_isa isa, unsigned lanes) {
    hand *h = hand_make(isa, lanes);
    sim_wave_mode_set(&h->w);
    return h;
}
static sim_inst *make(hand *h, const char *meaning, sim_format format, unsigned n_src) {
    memset(&h->inst, 0, sizeof h->inst);
    h->inst.meaning = meaning;
    h->inst.format = (uint8_t)format;
    h->inst.dst = hand_v(8, 1);
    for (unsigned i = 0; i < n_src; i++) {
        h->inst.src[i] = hand_v(16 + 8 * i, 1);
        h->inst.src[i].opsel_hi = true;
    }
    return &h->inst;
}
static uint32_t run3(hand *h, const char *meaning, uint32_t a, uint32_t b, uint32_t c) {
    make(h, meaning, SIM_VOP3, 3);
    for (unsigned l = 0; l < h->w.lanes; l++) {
        HAND_V(h, 16, l) = a;
        HAND_V(h, 24, l) = b;
        HAND_V(h, 32, l) = c;
    }
    assert_int_equal(hand_run(h, sim_bind_valu), SIM_FAULT_NONE);
    for (unsigned l = 1; l < h->w.lanes; l++) assert_int_equal(HAND_V(h, 8, l), HAND_V(h, 8, 0));
    return HAND_V(h, 8, 0);
}

/* ---- the three builds ---- */

static void levels_agree(void **s) {
    (void)s;
#if defined __x86_64__
    const sim_vcode *levels[3] = {sim_vcode_generic, sim_vcode_avx2, sim_vcode_avx512};
    static uint32_t src[3][4 * 64], res[3][4 * 64];
    int n_levels = sim_host_level() + 1;
    for (size_t r = 0; r < sim_n_vrows; r++) {
        const sim_vrow *row = &sim_vrows[r];
        for (int round = 0; round < 60; round++) {
            for (int i = 0; i < 3; i++)
                for (int k = 0; k < 4 * 64; k++) src[i][k] = rnd_bits();
            uint64_t out[3], cin = (uint64_t)rnd() << 32 | rnd();
            unsigned lanes = round & 1 ? 64 : 32;
            uint32_t imm = rnd() & 255;
            for (int l = 0; l < n_levels; l++) {
                memset(res[l], 0, sizeof res[l]);
                sim_vargs a = {.s = {src[0], src[1], src[2]}, .d = res[l], .lanes = lanes, .cin = cin, .imm = imm,
                               .ieee = round & 2, .gcn = round & 4, .fnuz = round & 8, .flush = round & 16};
                levels[l][r].core(&a);
                out[l] = a.cout;
            }
            for (int l = 1; l < n_levels; l++) {
                if (out[l] == out[0] && !memcmp(res[l], res[0], sizeof res[0])) continue;
                for (unsigned k = 0; k < 4 * lanes; k++)
                    if (res[l][k] != res[0][k])
                        fail_msg("%s, lane %u, level %d: %08x, not %08x, of %08x %08x %08x", row->name, k, l, res[l][k],
                                 res[0][k], src[0][k % lanes], src[1][k % lanes], src[2][k % lanes]);
                fail_msg("%s, level %d: masks differ", row->name, l);
            }
        }
    }
#endif
}

/* ---- f32 against the host ---- */

static void f32_arithmetic(void **s) {
    (void)s;
    static const struct {
        const char *name;
        int n;
    } ops[] = {{"V_ADD_F32", 2}, {"V_SUB_F32", 2}, {"V_MUL_F32", 2}, {"V_FMA_F32", 3}};
    for (unsigned lanes = 32; lanes <= 64; lanes += 32) {
        hand *h = make_hand(SIM_GFX1100, lanes);
        for (int o = 0; o < 4; o++)
            for (int round = 0; round < 200; round++) {
                make(h, ops[o].name, SIM_VOP3, (unsigned)ops[o].n);
                uint32_t in[3][64];
                for (unsigned l = 0; l < lanes; l++)
                    for (int i = 0; i < 3; i++) HAND_V(h, 16 + 8 * i, l) = in[i][l] = rnd_bits();
                if (round & 1) h->inst.dst = hand_v(16 + 8 * (rnd() % 3), 1); /* over a source */
                uint64_t exec = round & 2 ? (uint64_t)rnd() << 32 | rnd() : ~0ull;
                exec &= h->w.exec_full;
                h->w.s[SIM_S_EXEC_LO] = (uint32_t)exec;
                h->w.s[SIM_S_EXEC_HI] = (uint32_t)(exec >> 32);
                uint32_t old[64];
                for (unsigned l = 0; l < lanes; l++) old[l] = HAND_V(h, h->inst.dst.reg, l);
                assert_int_equal(hand_run(h, sim_bind_valu), SIM_FAULT_NONE);
                for (unsigned l = 0; l < lanes; l++) {
                    float a = sim_u2f(in[0][l]), b = sim_u2f(in[1][l]), c = sim_u2f(in[2][l]);
                    float r = o == 0 ? a + b : o == 1 ? a - b : o == 2 ? a * b : fmaf(a, b, c);
                    uint32_t want = sim_f2u(r);
                    if (isnan(r)) { /* an operand's, quiet, in source order; else the default */
                        want = 0xffc00000;
                        for (int i = ops[o].n - 1; i >= 0; i--)
                            if ((in[i][l] & 0x7fffffff) > 0x7f800000) want = in[i][l] | 0x400000;
                    }
                    if (!(exec >> l & 1)) want = old[l];
                    if (HAND_V(h, h->inst.dst.reg, l) != want)
                        fail_msg("%s lane %u: %08x, expected %08x, of %08x %08x %08x", ops[o].name, l,
                                 HAND_V(h, h->inst.dst.reg, l), want, in[0][l], in[1][l], in[2][l]);
                }
            }
        hand_free(h);
    }
}

/* ---- f16: exact sums in units of 2^-48, rounded once ---- */

static __int128 f16_units(uint16_t x) {
    int e = x >> 10 & 31;
    __int128 m = (x & 0x3ff) | (e ? 0x400 : 0);
    m <<= (e ? e - 1 : 0) + 24; /* a unit of the last place of a denormal is 2^-24 */
    return x & 0x8000 ? -m : m;
}
static uint16_t round_units(__int128 v, bool negative_zero, int mode) {
    if (v == 0) return negative_zero ? 0x8000 : 0;
    bool neg = v < 0;
    unsigned __int128 m = neg ? (unsigned __int128)-v : (unsigned __int128)v;
    int top = 127;
    while (!(m >> top & 1)) top--;
    int e = top - 48 < -14 ? -14 : top - 48, cut = e - 10 + 48;
    unsigned __int128 q = m >> cut, rest = m & (((unsigned __int128)1 << cut) - 1), half = (unsigned __int128)1 << (cut - 1);
    bool away = (mode == 1 && !neg) || (mode == 2 && neg);
    if (mode == 0 ? rest > half || (rest == half && (q & 1)) : away && rest) q++;
    uint32_t code = (uint32_t)((unsigned)(e + 14) << 10) + (uint32_t)q;
    if (code >= 0x7c00) code = mode == 0 || away ? 0x7c00 : 0x7bff;
    return (uint16_t)(code | (neg ? 0x8000 : 0));
}

static void f16_fused(void **s) {
    (void)s;
    hand *h = make_hand(SIM_GFX1100, 32);
    for (int mode = 0; mode < 4; mode++) {
        h->w.mode = 0xf0u | (uint32_t)mode << 2;
        uint32_t host = __builtin_ia32_stmxcsr();
        sim_wave_mode_changed(&h->w);
        for (int round = 0; round < 3000; round++) {
            make(h, "V_FMA_F16", SIM_VOP3, 3);
            uint16_t in[3][32];
            for (int l = 0; l < 32; l++)
                for (int i = 0; i < 3; i++) {
                    uint16_t x = (uint16_t)rnd();
                    if (round & 1) x = (uint16_t)((x & 0x8fff) | (rnd() % 2 ? 0x3000 : 0x0000)); /* near each other */
                    if ((x & 0x7c00) == 0x7c00) x &= 0xbfff;
                    if (rnd() % 8 == 0) x &= 0xfc00;
                    in[i][l] = x;
                    HAND_V(h, 16 + 8 * i, l) = x | 0xabcd0000u;
                }
            assert_int_equal(hand_run(h, sim_bind_valu), SIM_FAULT_NONE);
            for (int l = 0; l < 32; l++) {
                __int128 p = (f16_units(in[0][l]) >> 24) * (f16_units(in[1][l]) >> 24), c = f16_units(in[2][l]);
                bool psign = (in[0][l] ^ in[1][l]) >> 15, csign = in[2][l] >> 15;
                bool both_zero = p == 0 && c == 0;
                bool nz = both_zero ? (psign == csign ? psign : mode == 2) : mode == 2;
                uint16_t want = round_units(p + c, nz, mode), got = (uint16_t)HAND_V(h, 8, l);
                if (got != want) {
                    __builtin_ia32_ldmxcsr(host);
                    fail_msg("fma %04x %04x %04x, mode %d: %04x, expected %04x", in[0][l], in[1][l], in[2][l], mode, got, want);
                }
            }
        }
        __builtin_ia32_ldmxcsr(host);
    }
    hand_free(h);
}

/* ---- values worked by hand ---- */

static void by_hand(void **s) {
    (void)s;
    hand *h = make_hand(SIM_GFX1100, 32);
    static const struct {
        const char *name;
        uint32_t a, b, c, want;
    } t[] = {
        {"V_ADD_F32", 0x7f800000, 0xff800000, 0, 0xffc00000},
        {"V_ADD_F32", 0x7f800001, 0x7fc12345, 0, 0x7fc00001},
        {"V_MIN_F32", 0x80000000, 0, 0, 0x80000000},
        {"V_MIN_F32", 0, 0x80000000, 0, 0x80000000},
        {"V_MAX_F32", 0x80000000, 0, 0, 0},
        {"V_MAX_F32", 0x7fc00000, 0x3f800000, 0, 0x3f800000},
        {"V_MED3_F32", 0x3f800000, 0x40400000, 0x40000000, 0x40000000},
        {"V_MED3_F32", 0x7fc00000, 0x40400000, 0x40000000, 0x40000000},
        {"V_MAXIMUM_F32", 0x7fc00000, 0x3f800000, 0, 0x7fc00000},
        {"V_MUL_DX9_ZERO_F32", 0, 0x7f800000, 0, 0},
        {"V_CVT_I32_F32", 0x4f000000, 0, 0, 0x7fffffff},
        {"V_CVT_I32_F32", 0xff800000, 0, 0, 0x80000000},
        {"V_CVT_I32_F32", 0x7fc00000, 0, 0, 0},
        {"V_CVT_I32_F32", 0xbfc00000, 0, 0, 0xffffffff},
        {"V_CVT_U32_F32", 0x4f800000, 0, 0, 0xffffffff},
        {"V_CVT_U32_F32", 0x4f7fffff, 0, 0, 0xffffff00},
        {"V_CVT_U32_F32", 0xbf800000, 0, 0, 0},
        {"V_FRACT_F32", 0xb2800000, 0, 0, 0x3f7fffff}, /* -2^-26 */
        {"V_RNDNE_F32", 0x40200000, 0, 0, 0x40000000}, /* 2.5 */
        {"V_FREXP_MANT_F32", 0x41200000, 0, 0, 0x3f200000}, /* 10 = 0.625 * 16 */
        {"V_FREXP_EXP_I32_F32", 0x41200000, 0, 0, 4},
        {"V_LDEXP_F32", 0x3f800000, 0xffffff6b, 0, 1}, /* 2^-149 */
        {"V_LOG_F32", 0x41000000, 0, 0, 0x40400000},
        {"V_LOG_F32", 0, 0, 0, 0xff800000},
        {"V_LOG_F32", 1, 0, 0, 0xff800000}, /* a denormal counts as zero */
        {"V_EXP_F32", 0xc2fe0000, 0, 0, 0}, /* 2^-127 is denormal */
        {"V_RCP_F32", 0x80000000, 0, 0, 0xff800000},
        {"V_RSQ_F32", 0x40800000, 0, 0, 0x3f000000},
        {"V_SIN_F32", 0x3e800000, 0, 0, 0x3f800000}, /* a quarter turn */
        {"V_SIN_F32", 0x43808000, 0, 0, 0}, /* 257: outside */
        {"V_COS_F32", 0x43808000, 0, 0, 0x3f800000},
        {"V_COS_F32", 0x3f000000, 0, 0, 0xbf800000},
        {"V_BFE_U32", 0xdeadbeef, 8, 8, 0xbe},
        {"V_BFE_I32", 0xdeadbeef, 8, 8, 0xffffffbe},
        {"V_BFE_I32", 0xdeadbeef, 8, 0, 0},
        {"V_ALIGNBIT_B32", 0x11223344, 0x55667788, 40, 0x44556677},
        {"V_PERM_B32", 0x80112233, 0x44d56677, 0x0d0c0b04, 0xff00ff33},
        {"V_PERM_B32", 0x80112233, 0x44d56677, 0x00050702, 0x772280d5},
        {"V_LERP_U8", 0x01ff0203, 0x02ff0303, 0x01010000, 0x02ff0203},
        {"V_SAD_U8", 0x01020304, 0x04030201, 10, 18},
        {"V_MAD_I32_I24", 0x00800000, 2, 5, 0xff000005},
        {"V_MUL_HI_U32", 0xffffffff, 0xffffffff, 0, 0xfffffffe},
        {"V_MBCNT_LO_U32_B32", 0, 7, 0, 7},
        {"V_CVT_PK_I16_I32", 0x12345, 0xffff0000, 0, 0x80007fff},
        {"V_CVT_PK_RTZ_F16_F32", 0x3f801fff, 0xbf801fff, 0, 0xbc003c00},
        {"V_DIV_FIXUP_F32", 0x3f800000, 0, 0x3f800000, 0x7f800000},
        {"V_DIV_FIXUP_F32", 0x3f800000, 0xc0000000, 0x3f800000, 0xbf800000},
        {"V_CLS_I32", 0xfffffff0, 0, 0, 28},
        {"V_CTZ_I32_B32", 0, 0, 0, 0xffffffff},
        {"V_MAD_U32_U16", 0xffff, 0xffff, 1, 0xfffe0002},
        {"V_CVT_F32_F16", 0x7c01, 0, 0, 0x7fc02000}, /* a signalling NaN */
        {"V_CVT_F32_F16", 1, 0, 0, 0x33800000},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        uint32_t got = run3(h, t[i].name, t[i].a, t[i].b, t[i].c);
        if (got != t[i].want) fail_msg("%s %08x %08x %08x: %08x, expected %08x", t[i].name, t[i].a, t[i].b, t[i].c, got, t[i].want);
    }
    /* 2 / pi begins 0.A2F9836E4E441529FC; the first segment is its first 53 bits. */
    uint64_t bits = sim_d2u(sim_trig_preop(1.0, 0));
    assert_int_equal(bits, 0x3fe45f306dc9c882ull);
    /* e4m3: 448 is the largest and even, so that 464, the tie with what would come next, goes to it. */
    assert_int_equal(sim_f32_to_small(448.0f, SIM_FP8, false), 0x7e);
    assert_int_equal(sim_f32_to_small(464.0f, SIM_FP8, false), 0x7e);
    assert_int_equal(sim_f32_to_small(465.0f, SIM_FP8, false), 0x7f);
    assert_int_equal(sim_f32_to_small(465.0f, SIM_FP8, true), 0x7e);
    assert_int_equal(sim_f32_to_small(240.0f, SIM_FP8_FNUZ, false), 0x7f);
    assert_int_equal(sim_f32_to_small(-0.0f, SIM_FP8_FNUZ, false), 0);
    assert_int_equal(sim_f32_to_small(0x1p-9f, SIM_FP8, false), 1);
    assert_int_equal(sim_f32_to_small(0x1.8p-9f, SIM_FP8, false), 2);
    assert_int_equal(sim_f32_to_small(5.0f, SIM_FP4, false), 6);
    assert_int_equal(sim_f32_to_small(-7.0f, SIM_FP4, false), 15);
    for (int f = 0; f < SIM_N_SMALL; f++) { /* every code comes back */
        unsigned n = f <= SIM_BF8_FNUZ ? 256 : f == SIM_FP4 ? 16 : 64;
        for (unsigned c = 0; c < n; c++) {
            float x = sim_small_to_f32(c, (sim_small)f);
            if (x == x && !isinf(x)) assert_int_equal(sim_f32_to_small(x, (sim_small)f, false), c);
        }
    }
    hand_free(h);
}

/* ---- modifiers and lanes ---- */

static void modifiers(void **s) {
    (void)s;
    hand *h = make_hand(SIM_GFX1100, 32);
    sim_inst *x = make(h, "V_ADD_F32", SIM_VOP3, 2);
    x->src[0].abs = x->src[0].neg = true;
    for (int l = 0; l < 32; l++) HAND_V(h, 16, l) = sim_f2u(-3.0f), HAND_V(h, 24, l) = sim_f2u(1.0f);
    hand_run(h, sim_bind_valu);
    assert_int_equal(HAND_V(h, 8, 5), sim_f2u(-2.0f));
    x->clamp = true;
    x->src[0].neg = false;
    hand_run(h, sim_bind_valu);
    assert_int_equal(HAND_V(h, 8, 5), sim_f2u(1.0f));
    /* omod works only where denormals are flushed */
    x->clamp = false;
    x->omod = 1;
    hand_run(h, sim_bind_valu);
    assert_int_equal(HAND_V(h, 8, 5), sim_f2u(4.0f));
    h->w.mode = 0;
    sim_wave_mode_set(&h->w);
    hand_run(h, sim_bind_valu);
    assert_int_equal(HAND_V(h, 8, 5), sim_f2u(8.0f));
    h->w.mode = 0xf0;
    sim_wave_mode_set(&h->w);
    /* row_shr:1 with the first lane of each row kept, or zero */
    x = make(h, "V_MOV_B32", SIM_VOP1, 1);
    x->lanes = SIM_LANES_DPP16;
    x->dpp_ctrl = 0x111;
    x->row_mask = x->bank_mask = 15;
    for (int l = 0; l < 32; l++) HAND_V(h, 16, l) = 100u + (unsigned)l, HAND_V(h, 8, l) = 7;
    hand_run(h, sim_bind_valu);
    assert_int_equal(HAND_V(h, 8, 0), 7);
    assert_int_equal(HAND_V(h, 8, 16), 7);
    assert_int_equal(HAND_V(h, 8, 15), 114);
    x->bound_ctrl = true;
    hand_run(h, sim_bind_valu);
    assert_int_equal(HAND_V(h, 8, 16), 0);
    x->dpp_ctrl = 0x1b; /* quad_perm:[3,2,1,0] */
    hand_run(h, sim_bind_valu);
    assert_int_equal(HAND_V(h, 8, 4), 107);
    x->dpp_ctrl = 0x153; /* row_share:3 */
    hand_run(h, sim_bind_valu);
    assert_int_equal(HAND_V(h, 8, 20), 119);
    /* SDWA: byte 2, sign-extended, to the upper word, the rest preserved */
    h->w.isa = SIM_GFX90A;
    x = make(h, "V_MOV_B32", SIM_VOP1, 1);
    x->lanes = SIM_LANES_SDWA;
    x->src[0].sdwa_sel = 2;
    x->src[0].sdwa_sext = true;
    x->sdwa_dst_sel = 5;
    x->sdwa_dst_unused = 2;
    for (int l = 0; l < 32; l++) HAND_V(h, 16, l) = 0x11f03344, HAND_V(h, 8, l) = 0xaaaabbbb;
    hand_run(h, sim_bind_valu);
    assert_int_equal(HAND_V(h, 8, 9), 0xfff0bbbb);
    h->w.isa = SIM_GFX1100;
    /* the halves of a packed addition: low from high, high from low, one negated */
    x = make(h, "V_PK_ADD_F16", SIM_VOP3P, 2);
    x->src[0].hi = true;
    x->src[0].opsel_hi = false;
    x->src[1].neg_hi = true;
    for (int l = 0; l < 32; l++) HAND_V(h, 16, l) = 0x40003c00, HAND_V(h, 24, l) = 0x42003c00; /* (1, 2) and (1, 3) */
    hand_run(h, sim_bind_valu);
    assert_int_equal(HAND_V(h, 8, 1), 0xc0004200); /* 2 + 1, 1 - 3 */
    /* a 64-bit result over half of its source */
    x = make(h, "V_LSHLREV_B64", SIM_VOP3, 2);
    x->dst = hand_v(25, 2);
    x->src[1] = hand_v(24, 2);
    for (int l = 0; l < 32; l++) HAND_V(h, 16, l) = 36, HAND_V(h, 24, l) = 0x12345678, HAND_V(h, 25, l) = 0x9abcdef0;
    hand_run(h, sim_bind_valu);
    assert_int_equal(HAND_V(h, 25, 3), 0);
    assert_int_equal(HAND_V(h, 26, 3), 0x23456780);
    hand_free(h);
}

static void pairs(void **s) {
    (void)s;
    hand *h = make_hand(SIM_GFX1100, 32);
    sim_inst y = {.meaning = "V_DUAL_MOV_B32", .format = SIM_VOPD, .dst = hand_v(17, 1), .src = {hand_v(16, 1)}};
    for (int partial = 0; partial < 2; partial++) {
        sim_inst *x = make(h, "V_DUAL_MOV_B32", SIM_VOPD, 0); /* an exchange: both read first */
        x->dst = hand_v(16, 1);
        x->src[0] = hand_v(17, 1);
        x->dual = &y;
        h->w.s[SIM_S_EXEC_LO] = partial ? 0xfffffff0 : 0xffffffff;
        for (int l = 0; l < 32; l++) HAND_V(h, 16, l) = 1, HAND_V(h, 17, l) = 2;
        assert_int_equal(hand_run(h, sim_bind_valu), SIM_FAULT_NONE);
        assert_int_equal(HAND_V(h, 16, 31), 2);
        assert_int_equal(HAND_V(h, 17, 31), 1);
        assert_int_equal(HAND_V(h, 16, 0), partial ? 1 : 2);
    }
    hand_free(h);
}

static void masks(void **s) {
    (void)s;
    hand *h = make_hand(SIM_GFX90A, 64);
    sim_inst *x = make(h, "V_CMP_LT_I32", SIM_VOP3, 2);
    x->dst = HAND_NONE;
    x->sdst = hand_s(20, 2);
    for (int l = 0; l < 64; l++) HAND_V(h, 16, l) = (uint32_t)l, HAND_V(h, 24, l) = 40;
    hand_run(h, sim_bind_valu);
    assert_int_equal(h->w.s[20], 0xffffffff);
    assert_int_equal(h->w.s[21], 0xff);
    h->w.s[SIM_S_EXEC_LO] = 0xf;
    h->w.s[SIM_S_EXEC_HI] = 0;
    hand_run(h, sim_bind_valu);
    assert_int_equal(h->w.s[20], 0xf);
    assert_int_equal(h->w.s[21], 0);
    h->w.s[SIM_S_EXEC_LO] = h->w.s[SIM_S_EXEC_HI] = 0xffffffff;
    x = make(h, "V_ADD_CO_U32", SIM_VOP3SD, 2);
    x->sdst = hand_s(SIM_S_VCC_LO, 2);
    for (int l = 0; l < 64; l++) HAND_V(h, 16, l) = 0xfffffff0, HAND_V(h, 24, l) = (uint32_t)l;
    hand_run(h, sim_bind_valu);
    assert_int_equal(h->w.s[SIM_S_VCC_LO], 0xffff0000);
    assert_int_equal(h->w.s[SIM_S_VCC_HI], 0xffffffff);
    x = make(h, "V_ADDC_CO_U32", SIM_VOP2, 2);
    x->sdst = hand_s(SIM_S_VCC_LO, 2);
    x->src[2] = hand_s(SIM_S_VCC_LO, 2);
    for (int l = 0; l < 64; l++) HAND_V(h, 16, l) = 0xffffffff, HAND_V(h, 24, l) = 0;
    hand_run(h, sim_bind_valu);
    assert_int_equal(HAND_V(h, 8, 15), 0xffffffff);
    assert_int_equal(HAND_V(h, 8, 16), 0);
    assert_int_equal(h->w.s[SIM_S_VCC_LO], 0xffff0000);
    hand_free(h);
}

/* ---- scalar ---- */

static uint32_t salu(hand *h, const char *meaning, sim_format f, uint32_t a, uint32_t b) {
    memset(&h->inst, 0, sizeof h->inst);
    h->inst.meaning = meaning;
    h->inst.format = (uint8_t)f;
    h->inst.dst = hand_s(10, 1);
    h->inst.src[0] = hand_s(20, 1);
    h->inst.src[1] = (sim_operand){.kind = SIM_K_CONST, .value = b, .n_dwords = 1};
    h->w.s[20] = a;
    assert_int_equal(hand_run(h, sim_bind_salu), SIM_FAULT_NONE);
    return h->w.s[10];
}

static void scalars(void **s) {
    (void)s;
    hand *h = make_hand(SIM_GFX1100, 32);
    assert_int_equal(salu(h, "S_ADD_I32", SIM_SOP2, 0x7fffffff, 1), 0x80000000);
    assert_int_equal(h->w.scc, 1);
    assert_int_equal(salu(h, "S_SUB_U32", SIM_SOP2, 5, 6), 0xffffffff);
    assert_int_equal(h->w.scc, 1);
    assert_int_equal(salu(h, "S_BFE_I32", SIM_SOP2, 0xdeadbeef, 8 | 8 << 16), 0xffffffbe);
    assert_int_equal(salu(h, "S_BFE_U32", SIM_SOP2, 0xdeadbeef, 32 << 16), 0xdeadbeef);
    assert_int_equal(salu(h, "S_FLBIT_I32", SIM_SOP1, 0xfffffff0, 0), 28);
    assert_int_equal(salu(h, "S_WQM_B32", SIM_SOP1, 0x00010200, 0), 0x000f0f00);
    assert_int_equal(salu(h, "S_QUADMASK_B32", SIM_SOP1, 0x00010200, 0), 0x14);
    assert_int_equal(salu(h, "S_MUL_HI_I32", SIM_SOP2, 0x80000000, 2), 0xffffffff);
    assert_int_equal(salu(h, "S_PACK_LH_B32_B16", SIM_SOP2, 0x11112222, 0x33334444), 0x33332222);
    h->w.s[SIM_S_EXEC_LO] = 0xff;
    assert_int_equal(salu(h, "S_AND_NOT1_SAVEEXEC_B32", SIM_SOP1, 0xff0f, 0), 0xff);
    assert_int_equal(h->w.s[SIM_S_EXEC_LO], 0xff00);
    assert_int_equal(h->w.scc, 1);
    h->w.s[SIM_S_EXEC_LO] = 0xffffffff;
    /* MODE's f32 denormal field, read back and set: both leave the rest alone */
    uint32_t host = __builtin_ia32_stmxcsr();
    salu(h, "S_SETREG_B32", SIM_SOPK, 0, 0);
    h->inst.simm16 = (int16_t)(1 | 4 << 6 | 1 << 11);
    h->w.s[20] = 0;
    h->w.mode = 0x3f0;
    hand_run(h, sim_bind_salu);
    uint32_t now = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(host);
    assert_int_equal(h->w.mode, 0x3c0);
    assert_int_equal(now & 0x8040, 0x8040);
    hand_free(h);
}

static void lanes_meet(void **s) {
    (void)s;
    hand *h = make_hand(SIM_GFX1100, 32);
    sim_inst *x = make(h, "V_READLANE_B32", SIM_VOP3, 2);
    x->dst = hand_s(10, 1);
    x->src[1] = hand_s(20, 1);
    h->w.s[20] = 37; /* modulo the wave */
    for (int l = 0; l < 32; l++) HAND_V(h, 16, l) = 100u + (unsigned)l;
    hand_run(h, sim_bind_cross);
    assert_int_equal(h->w.s[10], 105);
    h->w.s[SIM_S_EXEC_LO] = 0xf0;
    x = make(h, "V_READFIRSTLANE_B32", SIM_VOP1, 1);
    x->dst = hand_s(10, 1);
    hand_run(h, sim_bind_cross);
    assert_int_equal(h->w.s[10], 104);
    h->w.s[SIM_S_EXEC_LO] = 0xffffffff;
    x = make(h, "V_PERMLANEX16_B32", SIM_VOP3, 1); /* lanes of the other row, in reverse */
    x->src[1] = hand_s(20, 1);
    x->src[2] = hand_s(21, 1);
    h->w.s[20] = 0x89abcdef;
    h->w.s[21] = 0x01234567;
    hand_run(h, sim_bind_cross);
    assert_int_equal(HAND_V(h, 8, 0), 131);
    assert_int_equal(HAND_V(h, 8, 31), 100);
    hand_free(h);
}

/* ---- DPP: the direct handlers against the general one ---- */

static void dpp_direct(void **s) {
    (void)s;
    static const struct {
        const char *name;
        unsigned n;
        bool is_float;
    } ops[] = {{"V_MOV_B32", 1, false}, {"V_ADD_F32", 2, true},   {"V_ADD_NC_U32", 2, false}, {"V_FMAC_F32", 2, true},
               {"V_MAX_F16", 2, true},  {"V_CMP_LT_F32", 2, true}, {"V_MIN_I32", 2, false},     {"V_AND_B32", 2, false}};
    static const uint16_t ctrls[] = {0xb1,  0x4e,  0x1b,  0x101, 0x107, 0x111, 0x118, 0x121, 0x12f, 0x130, 0x134, 0x138,
                                     0x13c, 0x140, 0x141, 0x142, 0x143, 0x150, 0x15a, 0x161, 0x16f};
    const size_t n_ctrls = sizeof ctrls / sizeof *ctrls;
    int direct = 0;
    for (int round = 0; round < 8000; round++) {
        const unsigned lanes = round & 1 ? 64 : 32, o = rnd() % 8, ctrl = ctrls[rnd() % n_ctrls];
        hand *h = make_hand(lanes == 64 ? SIM_GFX90A : SIM_GFX1100, lanes);
        make(h, ops[o].name, SIM_VOP2, ops[o].n);
        h->inst.lanes = SIM_LANES_DPP16;
        h->inst.dpp_ctrl = (uint16_t)ctrl;
        if (rnd() % 8 == 0) {
            h->inst.lanes = SIM_LANES_DPP8;
            for (int i = 0; i < 8; i++) h->inst.dpp8[i] = rnd() & 7;
        }
        h->inst.bound_ctrl = rnd() & 1;
        h->inst.fetch_inactive = rnd() % 4 == 0;
        h->inst.row_mask = rnd() & 1 ? 15 : rnd() & 15;
        h->inst.bank_mask = rnd() & 1 ? 15 : rnd() & 15;
        if (ops[o].is_float) {
            h->inst.src[0].neg = rnd() % 4 == 0;
            h->inst.src[0].abs = rnd() % 4 == 0;
        }
        if (rnd() % 4 == 0) h->inst.dst = h->inst.src[0]; /* in place */
        if (!strncmp(ops[o].name, "V_CMP", 5)) h->inst.sdst = hand_s(SIM_S_VCC_LO, lanes / 32), h->inst.dst = HAND_NONE;
        const uint64_t exec = (rnd() & 1 ? ~0ull : (uint64_t)rnd() << 32 | rnd()) & h->w.exec_full;
        h->w.s[SIM_S_EXEC_LO] = (uint32_t)exec;
        h->w.s[SIM_S_EXEC_HI] = (uint32_t)(exec >> 32);
        for (unsigned i = 0; i < HAND_VGPRS * lanes; i++) h->v[i] = rnd_bits();
        static uint32_t before[HAND_VGPRS * SIM_MAX_LANES], after[HAND_VGPRS * SIM_MAX_LANES];
        memcpy(before, h->v, sizeof before);
        assert_int_equal(hand_run(h, sim_bind_valu), SIM_FAULT_NONE);
        direct += h->u[0].fn != sim_valu_general;
        memcpy(after, h->v, sizeof after);
        const uint64_t vcc = SIM_VCC(&h->w);
        assert_true((SIM_EXEC(&h->w) & h->w.exec_full) == exec);
        memcpy(h->v, before, sizeof before);
        (void)sim_valu_general(&h->w, h->u[0].fn == sim_valu_general ? &h->u[0] : h->halves);
        assert_true(vcc == SIM_VCC(&h->w));
        if (memcmp(h->v, after, sizeof after))
            fail_msg("%s, ctrl %x, lanes %u, exec %llx: not as the general handler", ops[o].name, ctrl, lanes,
                     (unsigned long long)exec);
        hand_free(h);
    }
    assert_true(direct > 7000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_agree), cmocka_unit_test(f32_arithmetic), cmocka_unit_test(f16_fused),
        cmocka_unit_test(by_hand),      cmocka_unit_test(modifiers),      cmocka_unit_test(pairs),
        cmocka_unit_test(masks),        cmocka_unit_test(scalars),        cmocka_unit_test(lanes_meet),
        cmocka_unit_test(dpp_direct),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
