/* The lane functions, for one level of the host: the includer sets the compiler's target and SIM_LEVEL, the suffix of the
 * table. A core computes a chunk into an array, looks at NaNs, then stores: see valu.h for what it may assume. */
#include "isa/valu_lane.h"

#define VT(t) SIM_VT_##t
#define GET_N(x, i) 0
#define GET_M(x, i) 0
#define GET_S(x, i) 0
#define GET_(x, i) (x)[i]
#define GET_U32 GET_
#define GET_I32 GET_
#define GET_F32 GET_
#define GET_U16 GET_
#define GET_I16 GET_
#define GET_F16 GET_
#define GET_BF16 GET_
#define GET_U64 GET_
#define GET_I64 GET_
#define GET_F64 GET_
#define GET_FB GET_
#define GET_HB GET_
#define GET_DB GET_
#define GET_MIX GET_
#define AT_N int
#define AT_M int
#define AT_S int
#define AT_U32 uint32_t
#define AT_I32 int32_t
#define AT_F32 float
#define AT_U16 uint32_t
#define AT_I16 int32_t
#define AT_F16 float
#define AT_BF16 float
#define AT_U64 uint64_t
#define AT_I64 int64_t
#define AT_F64 double
#define AT_FB uint32_t
#define AT_HB uint32_t
#define AT_DB uint64_t
#define AT_MIX float
#define LD_PF32(name, p) LD_U32(name, p)
#define GET_PF32 GET_
#define AT_PF32 uint32_t
#define NAN_OF_PF32(x) false
#define QUIET_PF32(x) 0

/* What expressions may use beside a, b, c. */
#define CONTEXT(args)                                                                                                  \
    const bool ie = (args)->ieee, gcn = (args)->gcn, fnuz = (args)->fnuz, ovfl = (args)->ovfl;                          \
    const uint32_t im = (args)->imm;                                                                                   \
    (void)ie, (void)gcn, (void)fnuz, (void)ovfl, (void)im

/* Computes lanes h .. h + 31 into r_ (and co_). */
#define CHUNK(td, ta, tb, tc, fl, ex, p0, p1, p2, cin)                                                                 \
    LD_##ta(A_, p0);                                                                                                   \
    LD_##tb(B_, p1);                                                                                                   \
    LD_##tc(C_, p2);                                                                                                   \
    uint32_t ci_[32], co_[32];                                                                                         \
    if ((fl) & (SIM_V_CIN | SIM_V_VCCIN)) mask_expand(ci_, (cin));                                                     \
    CT_##td r_[32];                                                                                                    \
    LANES(i) {                                                                                                         \
        const AT_##ta a = GET_##ta(A_, i);                                                                             \
        const AT_##tb b = GET_##tb(B_, i);                                                                             \
        const AT_##tc c = GET_##tc(C_, i);                                                                             \
        const uint32_t ci = (fl) & (SIM_V_CIN | SIM_V_VCCIN) ? ci_[i] : 0;                                             \
        const uint32_t ln = h + (unsigned)i;                                                                           \
        bool cb = false;                                                                                               \
        (void)a, (void)b, (void)c, (void)ci, (void)ln, (void)cb;                                                       \
        r_[i] = (CT_##td)(ex);                                                                                         \
        if ((fl) & SIM_V_COUT) co_[i] = 0u - (uint32_t)cb;                                                             \
    }                                                                                                                  \
    (void)co_

/* A NaN among the results becomes an operand's, quieted, or the default. */
#define FIX_NANS(td, ta, tb, tc, t_)                                                                                   \
    for (int i = 0; i < 32; i++)                                                                                       \
        if (IS_NAN_LANE_##td(t_[i]))                                                                                   \
    t_[i] = NAN_OF_##ta(GET_##ta(A_, i)) ? (CT_##td)QUIET_##ta(GET_##ta(A_, i))                                        \
            : NAN_OF_##tb(GET_##tb(B_, i)) ? (CT_##td)QUIET_##tb(GET_##tb(B_, i))                                      \
            : NAN_OF_##tc(GET_##tc(C_, i)) ? (CT_##td)QUIET_##tc(GET_##tc(C_, i)) : (CT_##td)DEFAULT_NAN_##td

#define CORE(id, td, ta, tb, tc, fl, ex)                                                                               \
    static void core_##id(sim_vargs *x) {                                                                              \
        const unsigned lanes = x->lanes;                                                                               \
        CONTEXT(x);                                                                                                    \
        for (unsigned h = 0; h < lanes; h += 32) {                                                                     \
            CHUNK(td, ta, tb, tc, fl, ex, x->s[0] + h, x->s[1] + h, x->s[2] + h, (uint32_t)(x->cin >> h));             \
            if ((fl) & SIM_V_COUT) x->cout |= (uint64_t)mask_pack(co_) << h;                                           \
            if (((fl) & SIM_V_NAN) && __builtin_expect(ANY_NAN_##td(r_), 0)) {                                         \
                CT_##td t_[32];                                                                                        \
                LANES(i) t_[i] = r_[i];                                                                                \
                FIX_NANS(td, ta, tb, tc, t_);                                                                          \
                ST_##td(x->d + h, t_);                                                                                 \
                continue;                                                                                              \
            }                                                                                                          \
            if (((fl) & SIM_V_FLUSH) && x->flush) FLUSH_##td(r_);                                                      \
            ST_##td(x->d + h, r_);                                                                                     \
        }                                                                                                              \
    }

/* Compares: the destination is a scalar register. */
#define CMP_CORE(id, ta, tb, ex)                                                                                       \
    static void core_##id(sim_vargs *x) {                                                                              \
        const unsigned lanes = x->lanes;                                                                               \
        for (unsigned h = 0; h < lanes; h += 32) {                                                                     \
            LD_##ta(A_, x->s[0] + h);                                                                                  \
            LD_##tb(B_, x->s[1] + h);                                                                                  \
            uint32_t m_[32];                                                                                           \
            LANES(i) {                                                                                                 \
                const AT_##ta a = A_[i];                                                                               \
                const AT_##tb b = B_[i];                                                                               \
                (void)a, (void)b;                                                                                      \
                m_[i] = (ex) ? ~0u : 0;                                                                                \
            }                                                                                                          \
            x->cout |= (uint64_t)mask_pack(m_) << h;                                                                   \
        }                                                                                                              \
    }
/* Halves of dwords. */
#define LDH_F16(name, p, half) float name[32]; load_f16(name, (p), (half) * 16)
#define LDH_BF16(name, p, half) float name[32]; LANES(i_) name[i_] = sim_u2f((half) ? (p)[i_] & 0xffff0000 : (p)[i_] << 16)
#define LDH_U16(name, p, half) uint32_t name[32]; LANES(i_) name[i_] = (half) ? (p)[i_] >> 16 : (p)[i_] & 0xffff
#define LDH_HB(name, p, half) LDH_U16(name, p, half)
#define LDH_I16(name, p, half)                                                                                         \
    int32_t name[32]; LANES(i_) name[i_] = (half) ? (int32_t)(p)[i_] >> 16 : (int32_t)((p)[i_] << 16) >> 16
#define STH_F16(d, r) to_f16(d, r)
#define STH_U16(d, r) LANES(i_) (d)[i_] = (r)[i_] & 0xffff
#define STH_HB(d, r) STH_U16(d, r)
#define STH_I16(d, r) LANES(i_) (d)[i_] = (uint32_t)(r)[i_] & 0xffff
#define PK_HALF(t, n, half, ex, out)                                                                                   \
    CT_##t out[32];                                                                                                    \
    {                                                                                                                  \
        LDH_##t(A_, p0_, half);                                                                                        \
        LDH_##t(B_, p1_, half);                                                                                        \
        LDH_##t(C_, (n) > 2 ? p2_ : p1_, half);                                                                        \
        LANES(i) {                                                                                                     \
            const AT_##t a = A_[i], b = B_[i], c = C_[i];                                                              \
            (void)c;                                                                                                   \
            out[i] = (CT_##t)(ex);                                                                                     \
        }                                                                                                              \
    }
#define PK_FIX(t, n, half, t_)                                                                                         \
    {                                                                                                                  \
        LDH_##t(A_, p0_, half);                                                                                        \
        LDH_##t(B_, p1_, half);                                                                                        \
        LDH_##t(C_, (n) > 2 ? p2_ : p1_, half);                                                                        \
        (void)A_, (void)B_, (void)C_;                                                                                  \
        FIX_NANS(t, t, t, t, t_);                                                                                      \
    }
#define PK_CORE(id, t, fl, n, ex)                                                                                      \
    static void core_##id(sim_vargs *x) {                                                                              \
        CONTEXT(x);                                                                                                    \
        for (unsigned h = 0; h < x->lanes; h += 32) {                                                                  \
            const uint32_t *p0_ = x->s[0] + h, *p1_ = x->s[1] + h, *p2_ = (n) > 2 ? x->s[2] + h : p1_;                 \
            (void)p2_;                                                                                                 \
            PK_HALF(t, n, 0, ex, l_)                                                                                   \
            PK_HALF(t, n, 1, ex, u_)                                                                                   \
            if (((fl) & SIM_V_NAN) && (ANY_NAN_##t(l_) || ANY_NAN_##t(u_))) {                                          \
                PK_FIX(t, n, 0, l_)                                                                                    \
                PK_FIX(t, n, 1, u_)                                                                                    \
            }                                                                                                          \
            if (((fl) & SIM_V_FLUSH) && x->flush) {                                                                    \
                FLUSH_##t(l_);                                                                                         \
                FLUSH_##t(u_);                                                                                         \
            }                                                                                                          \
            uint32_t e_[32], f_[32];                                                                                   \
            STH_##t(e_, l_);                                                                                           \
            STH_##t(f_, u_);                                                                                           \
            uint32_t *d_ = x->d + h;                                                                                   \
            LANES(i) d_[i] = e_[i] | f_[i] << 16;                                                                      \
        }                                                                                                              \
    }

/* Dot products of two halves. */
#define DOT_CHUNK(td, th, tc, ex, p0, p1, p2)                                                                          \
    LDH_##th(A0_, p0, 0);                                                                                              \
    LDH_##th(A1_, p0, 1);                                                                                              \
    LDH_##th(B0_, p1, 0);                                                                                              \
    LDH_##th(B1_, p1, 1);                                                                                              \
    LD_##tc(C_, p2);                                                                                                   \
    CT_##td r_[32];                                                                                                    \
    LANES(i) {                                                                                                         \
        const AT_##th a0 = A0_[i], a1 = A1_[i], b0 = B0_[i], b1 = B1_[i];                                              \
        const AT_##tc c = C_[i];                                                                                       \
        r_[i] = (CT_##td)(ex);                                                                                         \
    }
#define DOT_CORE(id, td, th, tc, fl, ex)                                                                               \
    static void core_##id(sim_vargs *x) {                                                                              \
        const unsigned lanes = x->lanes;                                                                               \
        CONTEXT(x);                                                                                                    \
        for (unsigned h = 0; h < lanes; h += 32) {                                                                     \
            DOT_CHUNK(td, th, tc, ex, x->s[0] + h, x->s[1] + h, x->s[2] + h)                                           \
            if (((fl) & SIM_V_NAN) && ANY_NAN_##td(r_))                                                                \
                for (int i = 0; i < 32; i++)                                                                           \
                    if (IS_NAN_LANE_##td(r_[i]))                                                                       \
                        r_[i] = NAN_OF_##th(A0_[i]) ? (CT_##td)QUIET_##th(A0_[i])                                      \
                                : NAN_OF_##th(B0_[i]) ? (CT_##td)QUIET_##th(B0_[i])                                    \
                                : NAN_OF_##th(A1_[i]) ? (CT_##td)QUIET_##th(A1_[i])                                    \
                                : NAN_OF_##th(B1_[i]) ? (CT_##td)QUIET_##th(B1_[i])                                    \
                                : NAN_OF_##tc(C_[i]) ? (CT_##td)QUIET_##tc(C_[i]) : (CT_##td)DEFAULT_NAN_##td;         \
            ST_##td(x->d + h, r_);                                                                                     \
        }                                                                                                              \
    }

#include "isa/valu_hot.inc.h"

/* Written out. */
INLINE void cvt_pk_f16(sim_vargs *x, bool toward_zero) {
    for (unsigned h = 0; h < x->lanes; h += 32) {
        const float *a = (const float *)(const void *)(x->s[0] + h), *b = (const float *)(const void *)(x->s[1] + h);
        uint32_t *d = x->d + h;
#if defined __AVX512F__
        for (int i = 0; i < 32; i += 16) {
            __m512 va = _mm512_loadu_ps(a + i), vb = _mm512_loadu_ps(b + i);
            __m256i lo, hi;
            if (toward_zero) {
                lo = _mm512_cvtps_ph(va, _MM_FROUND_TO_ZERO);
                hi = _mm512_cvtps_ph(vb, _MM_FROUND_TO_ZERO);
            } else {
                lo = _mm512_cvtps_ph(va, _MM_FROUND_TO_NEAREST_INT);
                hi = _mm512_cvtps_ph(vb, _MM_FROUND_TO_NEAREST_INT);
            }
            _mm512_storeu_si512(d + i, _mm512_or_si512(_mm512_cvtepu16_epi32(lo),
                                                       _mm512_slli_epi32(_mm512_cvtepu16_epi32(hi), 16)));
        }
#else
        for (int i = 0; i < 32; i++)
            d[i] = sim_f32_to_f16_mode(a[i], toward_zero ? 3 : 0) |
                   (uint32_t)sim_f32_to_f16_mode(b[i], toward_zero ? 3 : 0) << 16;
#endif
    }
}
static void core_V_CVT_PK_RTZ_F16_F32(sim_vargs *x) { cvt_pk_f16(x, true); }
static void core_V_CVT_PK_F16_F32(sim_vargs *x) { cvt_pk_f16(x, false); }
static void core_V_MQSAD_U32_U8(sim_vargs *x) {
    const unsigned n = x->lanes;
    for (unsigned l = 0; l < n; l++) {
        uint64_t a = (uint64_t)x->s[0][l] | (uint64_t)x->s[0][l + n] << 32;
        uint32_t b = x->s[1][l], r[4];
        for (unsigned i = 0; i < 4; i++) r[i] = sim_msad_u8((uint32_t)(a >> 8 * i), b, x->s[2][l + i * n]);
        for (unsigned i = 0; i < 4; i++) x->d[l + i * n] = r[i];
    }
}
static void core_SIM_F16_LO(sim_vargs *x) {
    for (unsigned h = 0; h < x->lanes; h += 32) {
        float r[32];
        load_f16(r, x->s[0] + h, 0);
        ST_F32(x->d + h, r);
    }
}
static void core_SIM_F16_HI(sim_vargs *x) {
    for (unsigned h = 0; h < x->lanes; h += 32) {
        float r[32];
        load_f16(r, x->s[0] + h, 16);
        ST_F32(x->d + h, r);
    }
}

#define V(n, td, ta, tb, tc, fl, bd, ex) CORE(n, td, ta, tb, tc, fl, ex)
#define VS(n, td, ta, tb, tc, fl, bd, ex) CORE(n##_SAT, td, ta, tb, tc, fl, ex)
#define VH(n, td, ta, tb, tc, fl, bd, ex)                                                                              \
    CORE(n, td, ta, tb, tc, fl, ex)                                                                                    \
    HOT(n, td, ta, tb, tc, fl, ex)
#define VC(n, td, ta, tb, tc, fl, bd, op, ex)                                                                          \
    CORE(n, td, ta, tb, tc, fl, ex)                                                                                    \
    HOT_CARRY(n, tc, op, ex)
#define C(n, t, ex) CMP_CORE(n, t, t, ex)
#define CH(n, t, ex) CMP_CORE(n, t, t, ex) CMP_HOT(n, t, ex)
#define CC(n, ta, tb, ex) CMP_CORE(n, ta, tb, ex)
#define P(n, t, fl, ns, ex) PK_CORE(n, t, fl, ns, ex)
#define PS(n, t, fl, ns, ex) PK_CORE(n##_SAT, t, fl, ns, ex)
#define PH(n, t, fl, ns, ex) PK_CORE(n, t, fl, ns, ex) PK_HOT(n, t, fl, ns, ex)
/* A pair is a row twice as long. */
#define P2(n, base, ns, ex)                                                                                            \
    PAIR_HOT(n, ns, ex)                                                                                                \
    static void core_##n(sim_vargs *x) {                                                                               \
        x->lanes *= 2;                                                                                                 \
        core_##base(x);                                                                                                \
        x->lanes /= 2;                                                                                                 \
    }
#define D(n, td, th, tc, fl, ex) DOT_CORE(n, td, th, tc, fl, ex)
#define DH(n, td, th, tc, fl, ex) DOT_CORE(n, td, th, tc, fl, ex) DOT_HOT(n, td, th, tc, fl, ex)
#define X(n, td, ta, tb, tc, fl, bd)
#define A(alias, n)
#include "isa/valu_rows.def"
#undef V
#undef VS
#undef VH
#undef VC
#undef C
#undef CH
#undef CC
#undef P
#undef PS
#undef PH
#undef P2
#undef D
#undef DH
#undef X

static void store_lanes(uint32_t *d, const uint32_t *res, unsigned rows, unsigned lanes, uint64_t mask) {
    for (unsigned r = 0; r < rows; r++)
        for (unsigned h = 0; h < lanes; h += 32, d += 32, res += 32) masked_store(d, res, (uint32_t)(mask >> h));
}

#define V(n, ...) ROW_##n,
#define VS(n, ...) ROW_##n##_SAT,
#define VH V
#define VC V
#define C V
#define CH V
#define CC V
#define P V
#define PS VS
#define PH V
#define P2 V
#define D V
#define DH V
#define X V
enum {
#include "isa/valu_rows.def"
};
#undef V
#undef VS
#undef VH
#undef VC
#undef C
#undef CH
#undef CC
#undef P
#undef PS
#undef PH
#undef P2
#undef D
#undef DH
#undef X

#define V(n, ...) {.core = core_##n, .row = &sim_vrows[ROW_##n], .store = store_lanes},
#define VS(n, ...) {.core = core_##n##_SAT, .row = &sim_vrows[ROW_##n##_SAT], .store = store_lanes},
#define VH(n, ...)                                                                                                     \
    {.core = core_##n,                                                                                                 \
     .hot = {hot32_##n, hot64_##n},                                                                                    \
     .hot_scalar = {hots32_##n, hots64_##n},                                                                           \
     .hot_altered = hota_##n,                                                                                          \
     .row = &sim_vrows[ROW_##n],                                                                                       \
     .store = store_lanes},
#define VC VH
#define C V
#define CH VH
#define CC V
#define P V
#define PS VS
#define PH VH
#define P2 VH
#define D V
#define DH VH
#define X V
#define CODE_TABLE_2(level) sim_vcode_##level
#define CODE_TABLE(level) CODE_TABLE_2(level)
const sim_vcode CODE_TABLE(SIM_LEVEL)[] = {
#include "isa/valu_rows.def"
};

#if defined __AVX512F__
static const sim_uop *add64_32(sim_wave *w, const sim_uop *u) { return hot_add64(w, u, 32, hot32_V_ADD_CO_U32); }
static const sim_uop *add64_64(sim_wave *w, const sim_uop *u) { return hot_add64(w, u, 64, hot64_V_ADD_CO_U32); }
sim_uop_fn *const sim_vadd64_avx512[2] = {add64_32, add64_64};
#endif
