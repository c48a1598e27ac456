/* The body of the fast handlers, included once a host level: GLOBAL and LDS accesses whose lanes all fall in one live range
 * (one 4 GiB window) or in LDS. Everything else goes to the handlers that look at lanes one by one.
 *
 * LEVEL: generic, avx2 or avx512, the suffix of the table's name. */
#include "isa/lds.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)

/* Addresses of a wave: lane i is at host + v[i]; v[i] was checked to lie in [lo, lo + span]. */
typedef struct window {
    uint8_t *host;
    const uint32_t *v;
    uint32_t lo, span;
} window;

/* Are all lanes of the mask in the window? */
static inline bool inside(const window *n, uint64_t mask, unsigned lanes) {
#if defined(__AVX512F__)
    __m512i lo = _mm512_set1_epi32((int)n->lo), span = _mm512_set1_epi32((int)n->span);
    __mmask16 out = 0;
    for (unsigned i = 0; i < lanes; i += 16)
        out |= _mm512_mask_cmpgt_epu32_mask((__mmask16)(mask >> i), _mm512_sub_epi32(_mm512_loadu_si512(n->v + i), lo), span);
    return !out;
#else
    uint32_t out = 0;
    if (mask == (lanes == 64 ? ~(uint64_t)0 : 0xffffffffu)) {
        for (unsigned i = 0; i < lanes; i++) out |= n->v[i] - n->lo > n->span;
    } else {
        for (unsigned i = 0; i < lanes; i++) out |= (n->v[i] - n->lo > n->span) & (uint32_t)(mask >> i & 1);
    }
    return !out;
#endif
}
static inline bool all_equal(const uint32_t *v, uint32_t x, uint64_t mask, unsigned lanes) {
#if defined(__AVX512F__)
    __mmask16 out = 0;
    for (unsigned i = 0; i < lanes; i += 16)
        out |= _mm512_mask_cmpneq_epi32_mask((__mmask16)(mask >> i), _mm512_loadu_si512(v + i), _mm512_set1_epi32((int)x));
    return !out;
#else
    uint32_t out = 0;
    if (mask == (lanes == 64 ? ~(uint64_t)0 : 0xffffffffu)) {
        for (unsigned i = 0; i < lanes; i++) out |= v[i] ^ x;
    } else {
        for (unsigned i = 0; i < lanes; i++) out |= (v[i] ^ x) & (uint32_t) - (int32_t)(mask >> i & 1);
    }
    return !out;
#endif
}
/* Is lane i at v[0] + i * step, for every lane, with no turn past 2^32? */
static inline bool contiguous(const uint32_t *v, uint32_t step, unsigned lanes) {
    if (v[1] - v[0] != step || v[0] > UINT32_MAX - step * lanes) return false;
#if defined(__AVX512F__)
    __m512i iota = _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                      _mm512_set1_epi32((int)step));
    __mmask16 out = 0;
    for (unsigned i = 0; i < lanes; i += 16)
        out |= _mm512_cmpneq_epi32_mask(_mm512_loadu_si512(v + i),
                                        _mm512_add_epi32(iota, _mm512_set1_epi32((int)(v[0] + i * step))));
    return !out;
#else
    uint32_t out = 0;
    for (unsigned i = 0; i < lanes; i++) out |= v[i] ^ (v[0] + i * step);
    return !out;
#endif
}

static inline bool window_of(const sim_wave *w, const sim_range *c, uint64_t base, uint32_t bytes, uint64_t mask, window *out) {
    if (c->hi - c->lo < bytes) return false;
    uint64_t last = c->hi - bytes, lo = c->lo > base ? c->lo - base : 0;
    if (last < base || lo > 0xffffffffu) return false;
    uint64_t hi = last - base < 0xffffffffu ? last - base : 0xffffffffu;
    if (lo > hi) return false;
    out->lo = (uint32_t)lo;
    out->span = (uint32_t)(hi - lo);
    out->host = (uint8_t *)(uintptr_t)(base + (uint64_t)c->delta);
    return w->lanes == 32 ? inside(out, mask, 32) : inside(out, mask, 64);
}

/* GLOBAL: is every lane of the mask in one range that may be used so? */
static inline bool global_window(sim_wave *w, const sim_uop *u, uint32_t bytes, uint64_t mask, bool store, window *out) {
    const uint32_t *v = SIM_ROW(w, u->s[0]);
    uint64_t base = (uint64_t)(int64_t)(int32_t)u->imm;
    unsigned first = (unsigned)__builtin_ctzll(mask);
    out->v = v;
    if (u->s[1] != SIM_S_NULL) {
        base += sim_sread64(w, u->s[1]);
    } else {
        const uint32_t *h = v + w->lanes;
        if (!(w->lanes == 32 ? all_equal(h, h[first], mask, 32) : all_equal(h, h[first], mask, 64))) return false;
        base += (uint64_t)h[first] << 32;
    }
    sim_range *c = sim_mem_cache(w, u);
    if (!window_of(w, c, base, bytes, mask, out)) {
        sim_range r;
        const sim_space *space = sim_wave_space(w);
        uint64_t now = sim_space_generation(space);
        if (!sim_space_find(space, base + v[first], &r) || r.freed) return false;
        if (store && !sim_mem_writable(&r, base + v[first])) return false;
        *c = r;
        c->serial = now;
        if (!window_of(w, c, base, bytes, mask, out)) return false;
    }
    return !(store && c->read_only);
}

static inline bool lds_window(sim_wave *w, const sim_uop *u, uint32_t off, uint32_t bytes, uint64_t mask, window *out) {
    uint32_t need = off + bytes, n = w->group->lds_bytes;
    if (need > n) return false;
    *out = (window){.host = w->group->lds + off, .v = SIM_ROW(w, u->s[0]), .lo = 0, .span = n - need};
    return w->lanes == 32 ? inside(out, mask, 32) : inside(out, mask, 64);
}

#if defined(__AVX512F__)
/* 16 lanes of four dwords: rows of dwords from quarters of registers that hold lanes {0,4,8,12}, {1,5,9,13}, ... */
static inline void transpose4(__m512i x[4]) {
    __m512i a = _mm512_unpacklo_epi32(x[0], x[1]), b = _mm512_unpackhi_epi32(x[0], x[1]);
    __m512i c = _mm512_unpacklo_epi32(x[2], x[3]), d = _mm512_unpackhi_epi32(x[2], x[3]);
    x[0] = _mm512_unpacklo_epi64(a, c);
    x[1] = _mm512_unpackhi_epi64(a, c);
    x[2] = _mm512_unpacklo_epi64(b, d);
    x[3] = _mm512_unpackhi_epi64(b, d);
}
#define LANE128(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
static inline __m512i quarters(const uint8_t *a, const uint8_t *b, const uint8_t *c, const uint8_t *d) {
    __m512i x = _mm512_castsi128_si512(LANE128(a));
    x = _mm512_inserti32x4(x, LANE128(b), 1);
    x = _mm512_inserti32x4(x, LANE128(c), 2);
    return _mm512_inserti32x4(x, LANE128(d), 3);
}
#endif

#if defined(__AVX2__)
#define FLOAT128(p) _mm_loadu_ps((const float *)(const void *)(p))
#endif

/* A kernel that walks through memory comes to what lies ahead of its lanes next; the host's own prefetching stops at each
 * page. What is not there is not fetched, so an allocation's end does not matter. */
static inline void ahead(const uint8_t *p, unsigned bytes) {
    for (unsigned k = 0; k < bytes; k += 64) __builtin_prefetch(p + k);
}

/* Lanes that follow one another in memory, `dwords` each. */
static inline bool can_run(unsigned dwords) { return dwords == 1 || dwords == 2 || dwords == 4; }
static inline void load_run(const uint8_t *p, uint32_t *d, unsigned dwords, unsigned lanes, bool stream) {
    if (stream)
        for (unsigned i = 0; i < lanes; i += 16) ahead(p + (dwords == 1 ? 1024 : 2048) + 4 * dwords * i, 64 * dwords);
    if (dwords == 1) {
#if defined(__AVX512F__)
        for (unsigned i = 0; i < lanes; i += 16) _mm512_storeu_si512(d + i, _mm512_loadu_si512(p + 4 * i));
#else
        memcpy(d, p, 4 * (size_t)lanes);
#endif
        return;
    }
#if defined(__AVX512F__)
    if (dwords == 2) {
        const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
        for (unsigned i = 0; i < lanes; i += 16, p += 128) {
            __m512i a = _mm512_loadu_si512(p), b = _mm512_loadu_si512(p + 64);
            _mm512_storeu_si512(d + i, _mm512_permutex2var_epi32(a, even, b));
            _mm512_storeu_si512(d + lanes + i, _mm512_permutex2var_epi32(a, odd, b));
        }
        return;
    }
    const __m512i first = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
    const __m512i second = _mm512_setr_epi32(2, 6, 10, 14, 18, 22, 26, 30, 3, 7, 11, 15, 19, 23, 27, 31);
    for (unsigned i = 0; i < lanes; i += 16, p += 256) {
        __m512i x0 = _mm512_loadu_si512(p), x1 = _mm512_loadu_si512(p + 64);
        __m512i x2 = _mm512_loadu_si512(p + 128), x3 = _mm512_loadu_si512(p + 192);
        __m512i a = _mm512_permutex2var_epi32(x0, first, x1), b = _mm512_permutex2var_epi32(x0, second, x1);
        __m512i c = _mm512_permutex2var_epi32(x2, first, x3), e = _mm512_permutex2var_epi32(x2, second, x3);
        _mm512_storeu_si512(d + i, _mm512_shuffle_i64x2(a, c, 0x44));
        _mm512_storeu_si512(d + lanes + i, _mm512_shuffle_i64x2(a, c, 0xee));
        _mm512_storeu_si512(d + 2 * lanes + i, _mm512_shuffle_i64x2(b, e, 0x44));
        _mm512_storeu_si512(d + 3 * lanes + i, _mm512_shuffle_i64x2(b, e, 0xee));
    }
#elif defined(__AVX2__)
    if (dwords == 2) {
        for (unsigned i = 0; i < lanes; i += 8, p += 64) {
            __m256 a = _mm256_castps128_ps256(FLOAT128(p)), b = _mm256_castps128_ps256(FLOAT128(p + 16));
            a = _mm256_insertf128_ps(a, FLOAT128(p + 32), 1);
            b = _mm256_insertf128_ps(b, FLOAT128(p + 48), 1);
            _mm256_storeu_ps((float *)(void *)(d + i), _mm256_shuffle_ps(a, b, 0x88));
            _mm256_storeu_ps((float *)(void *)(d + lanes + i), _mm256_shuffle_ps(a, b, 0xdd));
        }
        return;
    }
    for (unsigned i = 0; i < lanes; i += 8, p += 128) {
        __m256 x[4];
        for (unsigned k = 0; k < 4; k++)
            x[k] = _mm256_insertf128_ps(_mm256_castps128_ps256(FLOAT128(p + 16 * k)), FLOAT128(p + 16 * k + 64), 1);
        __m256 a = _mm256_unpacklo_ps(x[0], x[1]), b = _mm256_unpackhi_ps(x[0], x[1]);
        __m256 c = _mm256_unpacklo_ps(x[2], x[3]), e = _mm256_unpackhi_ps(x[2], x[3]);
        _mm256_storeu_ps((float *)(void *)(d + i), _mm256_shuffle_ps(a, c, 0x44));
        _mm256_storeu_ps((float *)(void *)(d + lanes + i), _mm256_shuffle_ps(a, c, 0xee));
        _mm256_storeu_ps((float *)(void *)(d + 2 * lanes + i), _mm256_shuffle_ps(b, e, 0x44));
        _mm256_storeu_ps((float *)(void *)(d + 3 * lanes + i), _mm256_shuffle_ps(b, e, 0xee));
    }
#else
    for (unsigned i = 0; i < lanes; i++, p += 4 * dwords)
        for (unsigned k = 0; k < dwords; k++) memcpy(d + k * lanes + i, p + 4 * k, 4);
#endif
}

static inline void load_lanes(const window *n, uint32_t *d, unsigned dwords, uint64_t mask, unsigned lanes, bool stream) {
    const uint32_t *v = n->v;
    uint8_t *host = n->host;
    bool full = mask == (lanes == 64 ? ~(uint64_t)0 : 0xffffffffu);
    if (full && can_run(dwords) && contiguous(v, 4 * dwords, lanes)) {
        load_run(host + v[0], d, dwords, lanes, stream);
        return;
    }
#if defined(__AVX512F__)
    if (dwords == 1 && contiguous(v, 4, lanes)) { /* lanes that are off have addresses of the same row, and are not read */
        const uint8_t *p = host + v[0]; /* before a result may take the address's place */
        for (unsigned i = 0; i < lanes; i += 16) {
            const __mmask16 m = (__mmask16)(mask >> i);
            _mm512_mask_storeu_epi32(d + i, m, _mm512_maskz_loadu_epi32(m, p + 4 * i));
        }
        return;
    }
    if (dwords == 1 || dwords == 2) {
        /* Indices are signed: they count from the middle of the window's 4 GiB. */
        const uint8_t *mid = host + n->lo + 0x80000000u;
        __m512i bias = _mm512_set1_epi32((int)(n->lo + 0x80000000u));
        if (dwords == 1) {
            for (unsigned i = 0; i < lanes; i += 16) {
                __m512i at = _mm512_sub_epi32(_mm512_loadu_si512(v + i), bias);
                __m512i x = _mm512_mask_i32gather_epi32(_mm512_loadu_si512(d + i), (__mmask16)(mask >> i), at, mid, 1);
                _mm512_storeu_si512(d + i, x);
            }
            return;
        }
        const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
        for (unsigned i = 0; i < lanes; i += 16) {
            __m512i at = _mm512_sub_epi32(_mm512_loadu_si512(v + i), bias), a, b;
            __mmask16 m = (__mmask16)(mask >> i);
            a = _mm512_mask_i32gather_epi64(_mm512_setzero_si512(), (__mmask8)m, _mm512_castsi512_si256(at), mid, 1);
            b = _mm512_mask_i32gather_epi64(_mm512_setzero_si512(), (__mmask8)(m >> 8), _mm512_extracti64x4_epi64(at, 1),
                                            mid, 1);
            _mm512_mask_storeu_epi32(d + i, m, _mm512_permutex2var_epi32(a, even, b));
            _mm512_mask_storeu_epi32(d + lanes + i, m, _mm512_permutex2var_epi32(a, odd, b));
        }
        return;
    }
    if (full && dwords == 4) {
        for (unsigned i = 0; i < lanes; i += 16) {
            __m512i x[4];
            for (unsigned k = 0; k < 4; k++)
                x[k] = quarters(host + v[i + k], host + v[i + k + 4], host + v[i + k + 8], host + v[i + k + 12]);
            transpose4(x);
            for (unsigned k = 0; k < 4; k++) _mm512_storeu_si512(d + k * lanes + i, x[k]);
        }
        return;
    }
#elif defined(__SSE2__)
    if (full && dwords == 4) {
        for (unsigned i = 0; i < lanes; i += 4) {
            __m128 x[4];
            for (unsigned k = 0; k < 4; k++) x[k] = _mm_loadu_ps((const float *)(const void *)(host + v[i + k]));
            _MM_TRANSPOSE4_PS(x[0], x[1], x[2], x[3]);
            for (unsigned k = 0; k < 4; k++) _mm_storeu_ps((float *)(void *)(d + k * lanes + i), x[k]);
        }
        return;
    }
#endif
#if defined(__AVX2__) && !defined(__AVX512F__)
    if (full && dwords == 1) {
        const int *mid = (const int *)(const void *)(host + n->lo + 0x80000000u);
        __m256i bias = _mm256_set1_epi32((int)(n->lo + 0x80000000u));
        for (unsigned i = 0; i < lanes; i += 8) {
            __m256i at = _mm256_sub_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(v + i)), bias);
            _mm256_storeu_si256((__m256i *)(void *)(d + i), _mm256_i32gather_epi32(mid, at, 1));
        }
        return;
    }
#endif
    unsigned i;
    if (full) {
        for (i = 0; i < lanes; i++) {
            const uint8_t *p = host + v[i];
            for (unsigned k = 0; k < dwords; k++) memcpy(d + k * lanes + i, p + 4 * k, 4);
        }
        return;
    }
    SIM_EACH_LANE(i, mask) {
        const uint8_t *p = host + v[i];
        for (unsigned k = 0; k < dwords; k++) memcpy(d + k * lanes + i, p + 4 * k, 4);
    }
}

static inline void store_lanes(const window *n, const uint32_t *s, unsigned dwords, uint64_t mask, unsigned lanes) {
    const uint32_t *v = n->v;
    uint8_t *host = n->host;
    bool full = mask == (lanes == 64 ? ~(uint64_t)0 : 0xffffffffu);
#if defined(__AVX512F__)
    if (!full && dwords == 1 && contiguous(v, 4, lanes)) {
        for (unsigned i = 0; i < lanes; i += 16)
            _mm512_mask_storeu_epi32(host + v[0] + 4 * i, (__mmask16)(mask >> i), _mm512_loadu_si512(s + i));
        return;
    }
#endif
    if (full && dwords == 1 && contiguous(v, 4, lanes)) {
        uint8_t *p = host + v[0];
#if defined(__AVX512F__)
        for (unsigned i = 0; i < lanes; i += 16) _mm512_storeu_si512(p + 4 * i, _mm512_loadu_si512(s + i));
#else
        memcpy(p, s, 4 * (size_t)lanes);
#endif
        return;
    }
#if defined(__SSE2__)
    if (full && dwords == 4) {
        for (unsigned i = 0; i < lanes; i += 4) {
            __m128 x[4];
            for (unsigned k = 0; k < 4; k++) x[k] = _mm_loadu_ps((const float *)(const void *)(s + k * lanes + i));
            _MM_TRANSPOSE4_PS(x[0], x[1], x[2], x[3]);
            for (unsigned k = 0; k < 4; k++) _mm_storeu_ps((float *)(void *)(host + v[i + k]), x[k]);
        }
        return;
    }
#endif
    unsigned i;
    SIM_EACH_LANE(i, mask) {
        uint8_t *p = host + v[i];
        for (unsigned k = 0; k < dwords; k++) memcpy(p + 4 * k, s + k * lanes + i, 4);
    }
}

/* Elements of less than a dword. */
static inline void load_small(const window *n, uint32_t *d, unsigned data, uint64_t mask, unsigned lanes) {
    unsigned i;
    if (mask == (lanes == 64 ? ~(uint64_t)0 : 0xffffffffu)) {
        for (i = 0; i < lanes; i++) d[i] = sim_mem_extend(data, n->host + n->v[i], d[i]);
        return;
    }
    SIM_EACH_LANE(i, mask) d[i] = sim_mem_extend(data, n->host + n->v[i], d[i]);
}
static inline void store_small(const window *n, const uint32_t *s, unsigned data, uint64_t mask, unsigned lanes) {
    unsigned i;
    SIM_EACH_LANE(i, mask) sim_mem_from_rows(data, n->host + n->v[i], s + i, lanes);
}

static inline void load_any(const window *n, uint32_t *d, unsigned data, uint64_t mask, unsigned lanes, bool stream) {
    if (sim_mem_bytes[data] < 4) load_small(n, d, data, mask, lanes);
    else load_lanes(n, d, sim_mem_bytes[data] / 4, mask, lanes, stream);
}
static inline void store_any(const window *n, const uint32_t *s, unsigned data, uint64_t mask, unsigned lanes) {
    if (sim_mem_bytes[data] < 4) store_small(n, s, data, mask, lanes);
    else store_lanes(n, s, sim_mem_bytes[data] / 4, mask, lanes);
}

/* Does lane i hold v[0] + i * step, and h[0] above it (h may be NULL), for every lane? */
static inline bool one_run(const uint32_t *v, const uint32_t *h, uint32_t step, unsigned lanes) {
#if defined(__AVX512F__)
    const __m512i iota = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i steps = _mm512_mullo_epi32(iota, _mm512_set1_epi32((int)step)), next = _mm512_set1_epi32((int)(16 * step));
    __m512i at = _mm512_add_epi32(steps, _mm512_set1_epi32((int)v[0]));
    const __m512i top = _mm512_set1_epi32((int)(h ? h[0] : 0));
    __m512i out = _mm512_xor_si512(at, _mm512_loadu_si512(v));
    for (unsigned i = 0;; i += 16) { /* a | (b ^ c) in one operation */
        if (i) out = _mm512_ternarylogic_epi32(out, at, _mm512_loadu_si512(v + i), 0xf6);
        if (h) out = _mm512_ternarylogic_epi32(out, top, _mm512_loadu_si512(h + i), 0xf6);
        if (i + 16 == lanes) break;
        at = _mm512_add_epi32(at, next);
    }
    return _mm512_test_epi32_mask(out, out) == 0;
#else
    return contiguous(v, step, lanes) && (!h || all_equal(h, h[0], lanes == 64 ? ~(uint64_t)0 : 0xffffffffu, lanes));
#endif
}

/* GLOBAL: where lane 0 is, if every lane is active, they follow one another, and all lie in the range found last. */
static inline __attribute__((always_inline)) const uint8_t *global_run(sim_wave *w, const sim_uop *u, uint32_t bytes,
                                                                       unsigned lanes) {
    const sim_range *c = sim_worker_range(w, u->index);
    if (c->serial != sim_space_generation(sim_wave_space(w))) return NULL;
    if ((w->s[SIM_S_EXEC_LO] & (lanes == 64 ? w->s[SIM_S_EXEC_HI] : ~0u)) != ~0u) return NULL;
    const uint32_t *v = SIM_ROW(w, u->s[0]);
    const uint32_t total = bytes * lanes;
    uint64_t at = (uint64_t)(int64_t)(int32_t)u->imm + v[0];
    if (v[0] > UINT32_MAX - total) return NULL;
    if (u->s[1] != SIM_S_NULL) {
        if (u->s[1] >= 127 || !one_run(v, NULL, bytes, lanes)) return NULL;
        at += (uint64_t)w->s[u->s[1]] | (uint64_t)w->s[u->s[1] + 1] << 32;
    } else {
        if (!one_run(v, v + lanes, bytes, lanes)) return NULL;
        at += (uint64_t)v[lanes] << 32;
    }
    if (at < c->lo || at >= c->hi || total > c->hi - at) return NULL;
    return (const uint8_t *)(uintptr_t)(at + (uint64_t)c->delta);
}

/* A handler has a body for each wave size, so that loops over lanes have a constant length; what is no run is another
 * function's, so that a run needs no stack. */
#define LOAD_RUN(data, lanes)                                                                                                  \
    static const sim_uop *CAT(global_load##lanes##_, data)(sim_wave * w, const sim_uop *u) {                                   \
        const unsigned dwords = sim_mem_bytes[data] / 4;                                                                       \
        const uint8_t *p = can_run(dwords) ? global_run(w, u, 4 * dwords, lanes) : NULL;                                       \
        if (__builtin_expect(!p, 0)) return CAT(global_load_any_, data)(w, u);                                                 \
        load_run(p, SIM_ROW(w, u->d), dwords, lanes, true);                                                                    \
        return u + 1;                                                                                                          \
    }
#define LOADS(data)                                                                                                            \
    static __attribute__((noinline)) const sim_uop *CAT(global_load_any_, data)(sim_wave * w, const sim_uop *u) {              \
        uint64_t mask = sim_mem_exec(w);                                                                                       \
        window n;                                                                                                              \
        if (!mask) return u + 1;                                                                                               \
        if (!global_window(w, u, sim_mem_bytes[data], mask, false, &n)) return sim_mem_global_slow(w, u);                      \
        if (w->lanes == 32) load_any(&n, SIM_ROW(w, u->d), data, mask, 32, true);                                              \
        else load_any(&n, SIM_ROW(w, u->d), data, mask, 64, true);                                                             \
        return u + 1;                                                                                                          \
    }                                                                                                                          \
    LOAD_RUN(data, 32) LOAD_RUN(data, 64)                                                                                      \
    static const sim_uop *CAT(lds_load_, data)(sim_wave * w, const sim_uop *u) {                                               \
        uint64_t mask = sim_mem_exec(w);                                                                                       \
        window n;                                                                                                              \
        if (!lds_window(w, u, u->imm, sim_mem_bytes[data], mask, &n)) return sim_lds_slow(w, u);                               \
        if (w->lanes == 32) load_any(&n, SIM_ROW(w, u->d), data, mask, 32, false);                                             \
        else load_any(&n, SIM_ROW(w, u->d), data, mask, 64, false);                                                            \
        return u + 1;                                                                                                          \
    }
#define STORES(data)                                                                                                           \
    static const sim_uop *CAT(global_store_, data)(sim_wave * w, const sim_uop *u) {                                           \
        uint64_t mask = sim_mem_exec(w);                                                                                       \
        window n;                                                                                                              \
        if (!mask) return u + 1;                                                                                               \
        if (!global_window(w, u, sim_mem_bytes[data], mask, true, &n)) return sim_mem_global_slow(w, u);                       \
        if (w->lanes == 32) store_any(&n, SIM_ROW(w, u->s[2]), data, mask, 32);                                                \
        else store_any(&n, SIM_ROW(w, u->s[2]), data, mask, 64);                                                               \
        return u + 1;                                                                                                          \
    }                                                                                                                          \
    static const sim_uop *CAT(lds_store_, data)(sim_wave * w, const sim_uop *u) {                                              \
        uint64_t mask = sim_mem_exec(w);                                                                                       \
        window n;                                                                                                              \
        if (!lds_window(w, u, u->imm, sim_mem_bytes[data], mask, &n)) return sim_lds_slow(w, u);                               \
        if (w->lanes == 32) store_any(&n, SIM_ROW(w, u->s[2]), data, mask, 32);                                                \
        else store_any(&n, SIM_ROW(w, u->s[2]), data, mask, 64);                                                               \
        return u + 1;                                                                                                          \
    }
/* Two places at two offsets. The first result may overwrite the addresses: they are kept aside. */
#define PAIRS(data)                                                                                                            \
    static const sim_uop *CAT(lds_load2_, data)(sim_wave * w, const sim_uop *u) {                                              \
        uint64_t mask = sim_mem_exec(w);                                                                                       \
        uint32_t a = (u->imm & 0xffff) * 4, b = (u->imm >> 16) * 4, v[SIM_MAX_LANES] = {0};                                    \
        window n;                                                                                                              \
        if (!lds_window(w, u, a > b ? a : b, sim_mem_bytes[data], mask, &n)) return sim_lds_slow2(w, u);                       \
        memcpy(v, n.v, 4 * (size_t)w->lanes);                                                                                  \
        n.v = v;                                                                                                               \
        uint32_t *d = SIM_ROW(w, u->d);                                                                                        \
        for (unsigned k = 0; k < 2; k++) {                                                                                     \
            n.host = w->group->lds + (k ? b : a);                                                                              \
            if (w->lanes == 32) load_lanes(&n, d, sim_mem_bytes[data] / 4, mask, 32, false);                                   \
            else load_lanes(&n, d, sim_mem_bytes[data] / 4, mask, 64, false);                                                  \
            d += sim_mem_bytes[data] / 4 * w->lanes;                                                                           \
        }                                                                                                                      \
        return u + 1;                                                                                                          \
    }                                                                                                                          \
    static const sim_uop *CAT(lds_store2_, data)(sim_wave * w, const sim_uop *u) {                                             \
        uint64_t mask = sim_mem_exec(w);                                                                                       \
        uint32_t a = (u->imm & 0xffff) * 4, b = (u->imm >> 16) * 4;                                                            \
        window n;                                                                                                              \
        if (!lds_window(w, u, a > b ? a : b, sim_mem_bytes[data], mask, &n)) return sim_lds_slow2(w, u);                       \
        for (unsigned k = 0; k < 2; k++) {                                                                                     \
            n.host = w->group->lds + (k ? b : a);                                                                              \
            const uint32_t *s = SIM_ROW(w, k ? u->s[1] : u->s[2]);                                                             \
            if (w->lanes == 32) store_lanes(&n, s, sim_mem_bytes[data] / 4, mask, 32);                                         \
            else store_lanes(&n, s, sim_mem_bytes[data] / 4, mask, 64);                                                        \
        }                                                                                                                      \
        return u + 1;                                                                                                          \
    }
#if defined(__AVX2__)
/* See sim_lds_bpermute: lanes fetch within their 32 (gfx10, gfx11) or the whole wave. */
static const sim_uop *bpermute(sim_wave *w, const sim_uop *u) {
    const uint32_t *v = SIM_ROW(w, u->s[0]), *s = SIM_ROW(w, u->s[2]);
    uint32_t *d = SIM_ROW(w, u->d), r[SIM_MAX_LANES];
    const uint64_t exec = sim_mem_exec(w), from = sim_lds_bpermute_from(w, u);
    const unsigned lanes = w->lanes, span = sim_lds_span(w);
#if defined(__AVX512F__)
    __m512i t[4];
    for (unsigned i = 0; i < lanes; i += 16) t[i / 16] = _mm512_loadu_si512(s + i);
    for (unsigned i = 0; i < lanes; i += 16) {
        const unsigned half = span == 32 ? i / 32 * 2 : 0;
        __m512i at = _mm512_srli_epi32(_mm512_add_epi32(_mm512_loadu_si512(v + i), _mm512_set1_epi32((int)u->imm)), 2);
        __m512i x = _mm512_permutex2var_epi32(t[half], at, t[half + 1]);
        uint32_t is_from = 0xffff;
        if (from != w->exec_full) {
            __m512i bits = _mm512_srlv_epi32(_mm512_set1_epi32((int)(uint32_t)(from >> 16 * half)),
                                             _mm512_and_si512(at, _mm512_set1_epi32(31)));
            is_from = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(1));
        }
        if (span == 64) {
            const __mmask16 upper = _mm512_test_epi32_mask(at, _mm512_set1_epi32(32));
            x = _mm512_mask_blend_epi32(upper, x, _mm512_permutex2var_epi32(t[2], at, t[3]));
            if (from != w->exec_full) {
                __m512i bits = _mm512_srlv_epi32(_mm512_set1_epi32((int)(uint32_t)(from >> 32)),
                                                 _mm512_and_si512(at, _mm512_set1_epi32(31)));
                const __mmask16 is_upper = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(1));
                is_from = (is_from & ~(uint32_t)upper) | (is_upper & upper);
            }
        }
        _mm512_storeu_si512(r + i, _mm512_maskz_mov_epi32((__mmask16)is_from, x));
    }
    for (unsigned i = 0; i < lanes; i += 16)
        _mm512_mask_storeu_epi32(d + i, (__mmask16)(exec >> i), _mm512_loadu_si512(r + i));
#else
    if (exec != w->exec_full || from != w->exec_full) return sim_lds_bpermute(w, u);
    for (unsigned i = 0; i < lanes; i += 8) {
        __m256i at = _mm256_loadu_si256((const __m256i *)(const void *)(v + i));
        at = _mm256_srli_epi32(_mm256_add_epi32(at, _mm256_set1_epi32((int)u->imm)), 2);
        at = _mm256_and_si256(at, _mm256_set1_epi32((int)span - 1));
        const int *base = (const int *)(const void *)(s + (i & ~(span - 1)));
        _mm256_storeu_si256((__m256i *)(void *)(r + i), _mm256_i32gather_epi32(base, at, 4));
    }
    memcpy(d, r, 4 * (size_t)lanes);
#endif
    return u + 1;
}
#endif

#define ALL_LOADS(X)                                                                                                           \
    X(SIM_MD_U8) X(SIM_MD_I8) X(SIM_MD_U16) X(SIM_MD_I16) X(SIM_MD_32) X(SIM_MD_64) X(SIM_MD_96) X(SIM_MD_128)                 \
    X(SIM_MD_U8_LO) X(SIM_MD_I8_LO) X(SIM_MD_16_LO) X(SIM_MD_U8_HI) X(SIM_MD_I8_HI) X(SIM_MD_16_HI)
#define ALL_STORES(X)                                                                                                          \
    X(SIM_MD_U8) X(SIM_MD_U16) X(SIM_MD_32) X(SIM_MD_64) X(SIM_MD_96) X(SIM_MD_128) X(SIM_MD_U8_HI) X(SIM_MD_16_HI)
#define ALL_PAIRS(X) X(SIM_MD_32) X(SIM_MD_64)
ALL_LOADS(LOADS)
ALL_STORES(STORES)
ALL_PAIRS(PAIRS)

const sim_mem_fast CAT(sim_mem_fast_, LEVEL) = {
#define X(data) .global_load[data] = {global_load32_##data, global_load64_##data}, .lds_load[data] = lds_load_##data,
    ALL_LOADS(X)
#undef X
#define X(data) .global_store[data] = global_store_##data, .lds_store[data] = lds_store_##data,
    ALL_STORES(X)
#undef X
#define X(data) .lds_load2[data] = lds_load2_##data, .lds_store2[data] = lds_store2_##data,
    ALL_PAIRS(X)
#undef X
#if defined(__AVX2__)
    .bpermute = bpermute,
#endif
};
