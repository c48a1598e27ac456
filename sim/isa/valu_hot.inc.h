/* The direct handlers of valu_cores.inc.h, which includes this. They work on rows where they stand, at any EXEC. A row has
 * five: for sources that are rows or constants as they are, and for such and scalar registers, each for wave32 and wave64
 * (constant lane counts keep a handler to the registers that it need not save); and one for sources that are negated, halves,
 * and the like (SIM_A_*). What asks for care (a NaN, a mode that the host's control word does not say) goes to
 * sim_valu_resume, which starts at the chunk where care began. */

/* 32 bits at a time: instructions that write EXEC write its halves, and a wide load would wait for narrow stores. */
INLINE bool hot_full(const sim_wave *w, unsigned lanes) {
    return (lanes == 32 ? w->s[SIM_S_EXEC_LO] : w->s[SIM_S_EXEC_LO] & w->s[SIM_S_EXEC_HI]) == ~0u;
}
INLINE uint32_t hot_exec(const sim_wave *w, unsigned h) { return w->s[h ? SIM_S_EXEC_HI : SIM_S_EXEC_LO]; }
#define HOT_FLUSHES(w) (((w)->mode >> 4 & 3) != 3)
/* f16 and f64 have fields of MODE of their own: see sim_valu_run. */
#define HOT_OWN_MODE(t)                                                                                                \
    (VT(t) == VT(F16) || VT(t) == VT(BF16) || VT(t) == VT(HB) || VT(t) == VT(F64) || VT(t) == VT(DB))
#define HOT_REFUSES(w, td, ta)                                                                                         \
    ((HOT_OWN_MODE(td) || HOT_OWN_MODE(ta)) && __builtin_expect(!(w)->mode_plain || ((w)->mxcsr & 0x8040), 0))

/* Lane masks: registers of the file. */
INLINE uint64_t hot_mask(const sim_wave *w, uint32_t reg, unsigned lanes) {
    return lanes == 64 ? (uint64_t)w->s[reg] | (uint64_t)w->s[reg + 1] << 32 : w->s[reg];
}
INLINE void hot_mask_put(sim_wave *w, uint32_t reg, uint64_t m, unsigned lanes) {
    if (reg == SIM_S_NULL) return;
    w->s[reg] = (uint32_t)m;
    if (lanes == 64) w->s[reg + 1] = (uint32_t)(m >> 32);
}

/* An address as one register: a compiler that knows its parts keeps those for the second half of wave64. */
INLINE const uint32_t *pinned(const uint32_t *p) {
    __asm__("" : "+r"(p));
    return p;
}
INLINE uint32_t *hot_dst(const sim_wave *w, const sim_uop *u) {
    uint32_t *p = SIM_ROW(w, u->d);
    __asm__("" : "+r"(p));
    return p;
}
INLINE const uint32_t *hot_row(const sim_wave *w, const sim_uop *u, int i) {
    const uint8_t *base = u->sk[i] == SIM_SRC_ROW ? (const uint8_t *)w->v : w->consts;
    return pinned((const uint32_t *)(const void *)(base + u->s[i]));
}
INLINE void fill_row(uint32_t *t, unsigned lanes, uint32_t x) {
    LANES(k) t[k] = x;
    if (lanes > 32) LANES(k) t[k + 32] = x;
}
INLINE const uint32_t *hot_scalar(const sim_wave *w, const sim_uop *u, int i, unsigned rows, unsigned lanes, uint32_t *tmp) {
    if (u->sk[i] < SIM_SRC_SCALAR) return hot_row(w, u, i);
    fill_row(tmp, lanes, w->s[u->s[i]]);
    if (rows > 1) fill_row(tmp + lanes, lanes, w->s[u->s[i] + 1]);
    return tmp;
}
INLINE void alter_bits(uint32_t *t, const uint32_t *s, unsigned lanes, unsigned shift, uint32_t and_bits, uint32_t xor_bits) {
    for (unsigned h = 0; h < lanes; h += 32) LANES(k) t[h + k] = ((s[h + k] >> shift) & and_bits) ^ xor_bits;
}
/* A packed word of the halves of s that the instruction chose. */
INLINE void alter_packed(uint32_t *t, const uint32_t *s, unsigned lanes, unsigned how) {
    const uint32_t flip = (how & SIM_A_NEG ? 0x8000u : 0) | (how & SIM_A_NEG_HI ? 0x80000000u : 0);
    const unsigned lo = how & SIM_A_HI ? 16 : 0, hi = how & SIM_A_OTHER ? 0 : 16;
    for (unsigned h = 0; h < lanes; h += 32)
        LANES(k) t[h + k] = ((s[h + k] >> lo & 0xffff) | (s[h + k] >> hi & 0xffff) << 16) ^ flip;
}
/* Lanes of a row from where a map says. */
INLINE void dpp_row(uint32_t *t, const uint32_t *s, const sim_dpp_map *m, unsigned lanes) {
#if defined __AVX512F__
    __m512i x[4];
    for (unsigned i = 0; i < lanes; i += 16) x[i / 16] = _mm512_loadu_si512(s + i);
    for (unsigned i = 0; i < lanes; i += 16) {
        const __m512i at = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(m->from + i)));
        const __mmask16 some = _mm512_cmpneq_epi32_mask(at, _mm512_set1_epi32(SIM_DPP_ZERO));
        __m512i r = _mm512_permutex2var_epi32(x[0], at, x[1]);
        if (lanes == 64)
            r = _mm512_mask_mov_epi32(r, _mm512_test_epi32_mask(at, _mm512_set1_epi32(32)),
                                      _mm512_permutex2var_epi32(x[2], at, x[3]));
        _mm512_storeu_si512(t + i, _mm512_maskz_mov_epi32(some, r));
    }
#else
    for (unsigned i = 0; i < lanes; i++) t[i] = m->from[i] == SIM_DPP_ZERO ? 0 : s[m->from[i]];
#endif
}
static __attribute__((noinline)) const uint32_t *hot_altered(const sim_wave *w, const sim_uop *u, int i, unsigned vt,
                                                             uint32_t *tmp) {
    const unsigned how = u->aux[i], lanes = w->lanes, rows = sim_vt_rows(vt);
    uint32_t other[2 * SIM_MAX_LANES];
    const uint32_t *s = sim_src_rows(w, u, i, rows, other);
    if (!how && s != other) return s;
    if (how & SIM_A_DPP) {
        const sim_dpp_map *m = (const sim_dpp_map *)(const void *)(u + 1);
        uint32_t *to = how == SIM_A_DPP ? tmp : other;
        for (unsigned r = 0; r < rows * lanes; r += lanes) {
            if (lanes == 32) dpp_row(to + r, s + r, m, 32);
            else dpp_row(to + r, s + r, m, 64);
        }
        if (how == SIM_A_DPP) return tmp;
        s = other;
    }
    switch (vt) {
    case SIM_VT_F64:
    case SIM_VT_DB:
    case SIM_VT_U64:
    case SIM_VT_I64:
        alter_bits(tmp, s, lanes, 0, ~0u, 0);
        tmp += lanes;
        s += lanes;
        break;
    case SIM_VT_PF32:
        alter_bits(tmp, how & SIM_A_HI ? s + lanes : s, lanes, 0, ~0u, how & SIM_A_NEG ? 0x80000000u : 0);
        alter_bits(tmp + lanes, how & SIM_A_OTHER ? s : s + lanes, lanes, 0, ~0u, how & SIM_A_NEG_HI ? 0x80000000u : 0);
        return tmp;
    case SIM_VT_PU16:
    case SIM_VT_PI16:
    case SIM_VT_PF16:
    case SIM_VT_PBF16: alter_packed(tmp, s, lanes, how); return tmp;
    case SIM_VT_MIX:
        if (how & SIM_A_HALF) {
            for (unsigned h = 0; h < lanes; h += 32) load_f16((float *)(void *)(tmp + h), s + h, how & SIM_A_HI ? 16 : 0);
            s = tmp;
        }
        break;
    default: break;
    }
    const uint32_t sign = sim_vt_is16(vt) ? 0x8000u : 0x80000000u;
    alter_bits(tmp, s, lanes, sim_vt_is16(vt) && how & SIM_A_HI ? 16 : 0, how & SIM_A_ABS ? ~sign : ~0u,
               how & SIM_A_NEG ? sign : 0);
    return rows == 2 ? tmp - lanes : tmp;
}
#define ROWS_OF(t) (VT(t) == VT(U64) || VT(t) == VT(I64) || VT(t) == VT(F64) || VT(t) == VT(DB) ? 2u : 1u)
/* How the sources of a handler are found, a constant where it is used. */
enum { HOT_ROWS, HOT_SCALARS, HOT_ALTERED };
INLINE const uint32_t *hot_source(const sim_wave *w, const sim_uop *u, int i, unsigned vt, unsigned rows, unsigned lanes,
                                  int how, uint32_t *tmp) {
    return how == HOT_ROWS ? hot_row(w, u, i)
           : how == HOT_SCALARS ? hot_scalar(w, u, i, rows, lanes, tmp) : hot_altered(w, u, i, vt, tmp);
}
#define IS_SOURCE(t) (VT(t) != VT(N) && VT(t) != VT(M))

INLINE void hot_store32(sim_wave *w, bool full, uint32_t *d, const uint32_t *r, unsigned h) {
    if (__builtin_expect(full, 1)) ST_U32(d + h, r);
    else masked_store(d + h, r, hot_exec(w, h));
}

/* The five handlers of a row from an inline function do_ID(w, u, lanes, how). */
#define HOT_FAMILY(id)                                                                                                 \
    static const sim_uop *hot32_##id(sim_wave *w, const sim_uop *u) { return do_##id(w, u, 32, HOT_ROWS); }            \
    static const sim_uop *hot64_##id(sim_wave *w, const sim_uop *u) { return do_##id(w, u, 64, HOT_ROWS); }            \
    static const sim_uop *hots32_##id(sim_wave *w, const sim_uop *u) { return do_##id(w, u, 32, HOT_SCALARS); }        \
    static const sim_uop *hots64_##id(sim_wave *w, const sim_uop *u) { return do_##id(w, u, 64, HOT_SCALARS); }        \
    static const sim_uop *hota_##id(sim_wave *w, const sim_uop *u) { return do_##id(w, u, w->lanes, HOT_ALTERED); }

/* A chunk of 16-bit results beside, or above, the halves that stay. */
INLINE void hot_halves(const sim_uop *u, const uint32_t *d, uint32_t *r) {
    if (u->flags & SIM_U_DSTHI) LANES(i) r[i] = r[i] << 16 | (d[i] & 0xffff);
    else if (u->flags & SIM_U_KEEP16) LANES(i) r[i] = r[i] | (d[i] & 0xffff0000);
}
#define IS_16(t)                                                                                                       \
    (VT(t) == VT(U16) || VT(t) == VT(I16) || VT(t) == VT(F16) || VT(t) == VT(BF16) || VT(t) == VT(HB))

#define HOT(id, td, ta, tb, tc, fl, ex)                                                                                \
    INLINE const sim_uop *do_##id(sim_wave *w, const sim_uop *u, const unsigned lanes, const int how) {                \
        if (HOT_REFUSES(w, td, ta)) return sim_valu_resume(w, u, 0);                                                   \
        uint32_t b0_[128], b1_[128], b2_[128];                                                                         \
        const uint32_t *p0_ = hot_source(w, u, 0, VT(ta), ROWS_OF(ta), lanes, how, b0_);                               \
        const uint32_t *p1_ = IS_SOURCE(tb) ? hot_source(w, u, 1, VT(tb), ROWS_OF(tb), lanes, how, b1_) : p0_;         \
        const uint32_t *p2_ = IS_SOURCE(tc) ? hot_source(w, u, 2, VT(tc), ROWS_OF(tc), lanes, how, b2_) : p0_;         \
        const sim_vargs z_ = {.imm = u->imm,                                                                           \
                              .ieee = w->mode >> 9 & 1,                                                                \
                              .gcn = w->isa <= SIM_GFX950,                                                             \
                              .fnuz = w->isa == SIM_GFX942,                                                            \
                              .ovfl = w->mode >> 23 & 1};                                                              \
        CONTEXT(&z_);                                                                                                  \
        uint32_t *d_ = hot_dst(w, u);                                                                                   \
        const uint64_t cin_ = (fl) & SIM_V_CIN ? hot_mask(w, u->s[2], lanes) : 0;                                      \
        const bool full_ = hot_full(w, lanes);                                                                         \
        uint64_t cout_ = 0;                                                                                            \
        (void)p1_, (void)p2_, (void)b1_, (void)b2_;                                                                    \
        for (unsigned h = 0; h < lanes; h += 32) {                                                                     \
            CHUNK(td, ta, tb, tc, fl, ex, p0_ + h, p1_ + h, p2_ + h, (uint32_t)(cin_ >> h));                           \
            if (((fl) & SIM_V_NAN) && __builtin_expect(ANY_NAN_##td(r_), 0)) return sim_valu_resume(w, u, h);          \
            if (((fl) & SIM_V_FLUSH) && !HOT_OWN_MODE(td) && HOT_FLUSHES(w)) FLUSH_##td(r_);                           \
            if ((fl) & SIM_V_COUT) cout_ |= (uint64_t)mask_pack(co_) << h;                                             \
            if (IS_16(td)) {                                                                                           \
                uint32_t e_[32];                                                                                       \
                ST_##td(e_, r_);                                                                                       \
                hot_halves(u, d_ + h, e_);                                                                             \
                hot_store32(w, full_, d_, e_, h);                                                                      \
            } else if (__builtin_expect(full_, 1)) {                                                                   \
                ST_##td(d_ + h, r_);                                                                                   \
            } else {                                                                                                   \
                uint32_t t_[96];                                                                                       \
                const uint32_t m_ = hot_exec(w, h);                                                                    \
                ST_##td(t_, r_);                                                                                       \
                masked_store(d_ + h, t_, m_);                                                                          \
                if (ROWS_OF(td) == 2) masked_store(d_ + h + lanes, t_ + lanes, m_);                                    \
            }                                                                                                          \
        }                                                                                                              \
        if ((fl) & SIM_V_COUT) hot_mask_put(w, u->imm, full_ ? cout_ : cout_ & SIM_EXEC(w), lanes);                    \
        return u + 1;                                                                                                  \
    }                                                                                                                  \
    HOT_FAMILY(id)

/* Sums and differences with carry. Masks stay masks: the next instruction of a chain waits for them. */
#if defined __AVX512F__
enum { CARRY_ADD, CARRY_SUB, CARRY_REV };
#define HOT_CARRY(id, tc, op, ex)                                                                                      \
    INLINE const sim_uop *do_##id(sim_wave *w, const sim_uop *u, const unsigned lanes, const int how) {                \
        return hot_carry(w, u, lanes, how, VT(tc) == VT(M), CARRY_##op);                                               \
    }                                                                                                                  \
    HOT_FAMILY(id)
INLINE const sim_uop *hot_carry(sim_wave *w, const sim_uop *u, const unsigned lanes, const int how, const bool carry_in,
                                const int op) {
    uint32_t b0[64], b1[64];
    const uint32_t *p0 = hot_source(w, u, 0, SIM_VT_U32, 1, lanes, how, b0);
    const uint32_t *p1 = hot_source(w, u, 1, SIM_VT_U32, 1, lanes, how, b1);
    const uint32_t *x = op == CARRY_REV ? p1 : p0, *y = op == CARRY_REV ? p0 : p1;
    uint32_t *d = hot_dst(w, u);
    const uint64_t cin = carry_in ? hot_mask(w, u->s[2], lanes) : 0;
    const bool full = hot_full(w, lanes);
    const __m512i one = _mm512_set1_epi32(1);
    uint64_t cout = 0;
    for (unsigned h = 0; h < lanes; h += 16) {
        const __m512i a = _mm512_loadu_si512(x + h), b = _mm512_loadu_si512(y + h);
        const __mmask16 k = (__mmask16)(cin >> h);
        __m512i r = op == CARRY_ADD ? _mm512_add_epi32(a, b) : _mm512_sub_epi32(a, b);
        __mmask16 out = op == CARRY_ADD ? _mm512_cmplt_epu32_mask(r, a) : _mm512_cmplt_epu32_mask(a, b);
        if (carry_in) {
            out |= op == CARRY_ADD ? _mm512_mask_cmpeq_epi32_mask(k, r, _mm512_set1_epi32(-1))
                                   : _mm512_mask_cmpeq_epi32_mask(k, a, b);
            r = op == CARRY_ADD ? _mm512_mask_add_epi32(r, k, r, one) : _mm512_mask_sub_epi32(r, k, r, one);
        }
        cout |= (uint64_t)out << h;
        if (__builtin_expect(full, 1)) _mm512_storeu_si512(d + h, r);
        else _mm512_mask_storeu_epi32(d + h, (__mmask16)(SIM_EXEC(w) >> h), r);
    }
    hot_mask_put(w, u->imm, full ? cout : cout & SIM_EXEC(w), lanes);
    return u + 1;
}

/* u and the instruction after it, a sum of 64 bits: V_ADD_CO_U32, then V_ADD_CO_CI_U32 with the carries of the first. The
 * first's lanes are stored before the second's are read. Who watches is to see one at a time. */
INLINE const sim_uop *hot_add64(sim_wave *w, const sim_uop *u, const unsigned lanes, sim_uop_fn *alone) {
    const sim_uop *t = u + 1;
    if (__builtin_expect(w->worker->n_observers, 0)) return alone(w, u);
    const uint32_t *a = hot_row(w, u, 0), *b = hot_row(w, u, 1), *x = hot_row(w, t, 0), *y = hot_row(w, t, 1);
    uint32_t *d = hot_dst(w, u), *e = hot_dst(w, t);
    const bool full = hot_full(w, lanes);
    const __m512i ones = _mm512_set1_epi32(-1);
    uint64_t carry = 0, cout = 0;
    for (unsigned h = 0; h < lanes; h += 16) {
        const __mmask16 m = full ? 0xffff : (__mmask16)(SIM_EXEC(w) >> h);
        const __m512i va = _mm512_loadu_si512(a + h), low = _mm512_add_epi32(va, _mm512_loadu_si512(b + h));
        const __mmask16 k = _mm512_cmplt_epu32_mask(low, va);
        if (__builtin_expect(full, 1)) _mm512_storeu_si512(d + h, low);
        else _mm512_mask_storeu_epi32(d + h, m, low);
        const __m512i vx = _mm512_loadu_si512(x + h), sum = _mm512_add_epi32(vx, _mm512_loadu_si512(y + h));
        const __mmask16 out = _mm512_cmplt_epu32_mask(sum, vx) | _mm512_mask_cmpeq_epi32_mask(k, sum, ones);
        const __m512i high = _mm512_mask_sub_epi32(sum, k, sum, ones);
        if (__builtin_expect(full, 1)) _mm512_storeu_si512(e + h, high);
        else _mm512_mask_storeu_epi32(e + h, m, high);
        carry |= (uint64_t)(k & m) << h;
        cout |= (uint64_t)(out & m) << h;
    }
    hot_mask_put(w, u->imm, carry, lanes);
    hot_mask_put(w, t->imm, cout, lanes);
    return u + 2;
}
#else
#define HOT_CARRY(id, tc, op, ex) HOT(id, U32, U32, U32, tc, VT(tc) == VT(M) ? SIM_V_CIN | SIM_V_COUT : SIM_V_COUT, ex)
#endif

/* f32 on both dwords of a pair. */
#define PAIR_HALF(n, ex, out, o)                                                                                       \
    float out[32];                                                                                                     \
    {                                                                                                                  \
        const float *A_ = (const float *)(const void *)(p0_ + (o)), *B_ = (const float *)(const void *)(p1_ + (o));    \
        const float *C_ = (const float *)(const void *)(p2_ + (o));                                                    \
        LANES(i) {                                                                                                     \
            const float a = A_[i], b = B_[i], c = C_[i];                                                               \
            (void)c;                                                                                                   \
            out[i] = (ex);                                                                                             \
        }                                                                                                              \
    }
#define PAIR_HOT(id, n, ex)                                                                                            \
    INLINE const sim_uop *do_##id(sim_wave *w, const sim_uop *u, const unsigned lanes, const int how) {                \
        uint32_t b0_[128], b1_[128], b2_[128];                                                                         \
        const uint32_t *p0_ = hot_source(w, u, 0, SIM_VT_PF32, 2, lanes, how, b0_);                                    \
        const uint32_t *p1_ = hot_source(w, u, 1, SIM_VT_PF32, 2, lanes, how, b1_);                                    \
        const uint32_t *p2_ = (n) > 2 ? hot_source(w, u, 2, SIM_VT_PF32, 2, lanes, how, b2_) : p1_;                    \
        uint32_t *d_ = hot_dst(w, u);                                                                                  \
        const bool full_ = hot_full(w, lanes);                                                                         \
        (void)b2_;                                                                                                     \
        for (unsigned h = 0; h < lanes; h += 32) {                                                                     \
            PAIR_HALF(n, ex, l_, h)                                                                                    \
            PAIR_HALF(n, ex, u_, h + lanes)                                                                            \
            if (__builtin_expect(any_nan_f32(l_) | any_nan_f32(u_), 0)) return sim_valu_resume(w, u, h);               \
            uint32_t e_[32], f_[32];                                                                                   \
            ST_F32(e_, l_);                                                                                            \
            ST_F32(f_, u_);                                                                                            \
            hot_store32(w, full_, d_, e_, h);                                                                          \
            if (__builtin_expect(full_, 1)) ST_U32(d_ + lanes + h, f_);                                                \
            else masked_store(d_ + lanes + h, f_, hot_exec(w, h));                                                     \
        }                                                                                                              \
        return u + 1;                                                                                                  \
    }                                                                                                                  \
    HOT_FAMILY(id)

/* Compares. */
INLINE const sim_uop *hot_mask_out(sim_wave *w, const sim_uop *u, uint64_t m, unsigned lanes) {
    m &= lanes == 64 ? SIM_EXEC(w) : w->s[SIM_S_EXEC_LO];
    if (u->flags & SIM_U_CMPX) {
        w->s[SIM_S_EXEC_LO] = (uint32_t)m;
        if (lanes == 64) w->s[SIM_S_EXEC_HI] = (uint32_t)(m >> 32);
        if (!(u->flags & SIM_U_CMPX_BOTH)) return u + 1;
    }
    hot_mask_put(w, u->d, m, lanes);
    return u + 1;
}
#define CMP_HOT(id, ta, ex)                                                                                            \
    INLINE const sim_uop *do_##id(sim_wave *w, const sim_uop *u, const unsigned lanes, const int how) {                \
        if (HOT_REFUSES(w, ta, ta)) return sim_valu_resume(w, u, 0);                                                   \
        uint32_t b0_[128], b1_[128];                                                                                   \
        const uint32_t *p0_ = hot_source(w, u, 0, VT(ta), ROWS_OF(ta), lanes, how, b0_);                               \
        const uint32_t *p1_ = hot_source(w, u, 1, VT(ta), ROWS_OF(ta), lanes, how, b1_);                               \
        uint64_t out_ = 0;                                                                                             \
        for (unsigned h = 0; h < lanes; h += 32) {                                                                     \
            LD_##ta(A_, p0_ + h);                                                                                      \
            LD_##ta(B_, p1_ + h);                                                                                      \
            uint32_t m_[32];                                                                                           \
            LANES(i) {                                                                                                 \
                const AT_##ta a = A_[i], b = B_[i];                                                                    \
                m_[i] = (ex) ? ~0u : 0;                                                                                \
            }                                                                                                          \
            out_ |= (uint64_t)mask_pack(m_) << h;                                                                      \
        }                                                                                                              \
        return hot_mask_out(w, u, out_, lanes);                                                                        \
    }                                                                                                                  \
    HOT_FAMILY(id)

/* Packed halves. */
#define PT_F16 SIM_VT_PF16
#define PT_BF16 SIM_VT_PBF16
#define PT_HB SIM_VT_PF16
#define PT_U16 SIM_VT_PU16
#define PT_I16 SIM_VT_PI16
#define PK_HOT(id, t, fl, n, ex)                                                                                       \
    INLINE const sim_uop *do_##id(sim_wave *w, const sim_uop *u, const unsigned lanes, const int how) {                \
        if (!w->mode_plain) return sim_valu_resume(w, u, 0);                                                           \
        uint32_t b0_[128], b1_[128], b2_[128];                                                                         \
        const uint32_t *p0_ = hot_source(w, u, 0, PT_##t, 1, lanes, how, b0_);                                         \
        const uint32_t *p1_ = hot_source(w, u, 1, PT_##t, 1, lanes, how, b1_);                                         \
        const uint32_t *p2_ = (n) > 2 ? hot_source(w, u, 2, PT_##t, 1, lanes, how, b2_) : p1_;                         \
        const sim_vargs z_ = {.ieee = w->mode >> 9 & 1, .gcn = w->isa <= SIM_GFX950};                                  \
        CONTEXT(&z_);                                                                                                  \
        uint32_t *d_ = hot_dst(w, u);                                                                                   \
        const bool full_ = hot_full(w, lanes);                                                                         \
        (void)b2_;                                                                                                     \
        for (unsigned h = 0; h < lanes; h += 32, p0_ += 32, p1_ += 32, p2_ += 32) {                                    \
            PK_HALF(t, n, 0, ex, l_)                                                                                   \
            PK_HALF(t, n, 1, ex, u_)                                                                                   \
            if (((fl) & SIM_V_NAN) && __builtin_expect(ANY_NAN_##t(l_) | ANY_NAN_##t(u_), 0))                          \
                return sim_valu_resume(w, u, h);                                                                       \
            uint32_t e_[32], f_[32];                                                                                   \
            STH_##t(e_, l_);                                                                                           \
            STH_##t(f_, u_);                                                                                           \
            LANES(i) e_[i] |= f_[i] << 16;                                                                             \
            hot_store32(w, full_, d_, e_, h);                                                                          \
        }                                                                                                              \
        return u + 1;                                                                                                  \
    }                                                                                                                  \
    HOT_FAMILY(id)

/* Dot products of two halves. */
#define DOT_HOT(id, td, th, tc, fl, ex)                                                                                \
    INLINE const sim_uop *do_##id(sim_wave *w, const sim_uop *u, const unsigned lanes, const int how) {                \
        if (!w->mode_plain) return sim_valu_resume(w, u, 0);                                                           \
        uint32_t b0_[128], b1_[128], b2_[128];                                                                         \
        const uint32_t *p0_ = hot_source(w, u, 0, PT_##th, 1, lanes, how, b0_);                                        \
        const uint32_t *p1_ = hot_source(w, u, 1, PT_##th, 1, lanes, how, b1_);                                        \
        const uint32_t *p2_ = hot_source(w, u, 2, VT(tc), 1, lanes, how, b2_);                                         \
        const sim_vargs z_ = {.gcn = w->isa <= SIM_GFX950};                                                            \
        CONTEXT(&z_);                                                                                                  \
        uint32_t *d_ = hot_dst(w, u);                                                                                   \
        const bool full_ = hot_full(w, lanes);                                                                         \
        for (unsigned h = 0; h < lanes; h += 32) {                                                                     \
            DOT_CHUNK(td, th, tc, ex, p0_ + h, p1_ + h, p2_ + h)                                                       \
            if (((fl) & SIM_V_NAN) && __builtin_expect(ANY_NAN_##td(r_), 0)) return sim_valu_resume(w, u, h);          \
            uint32_t e_[32];                                                                                           \
            ST_##td(e_, r_);                                                                                           \
            hot_store32(w, full_, d_, e_, h);                                                                          \
        }                                                                                                              \
        return u + 1;                                                                                                  \
    }                                                                                                                  \
    HOT_FAMILY(id)
