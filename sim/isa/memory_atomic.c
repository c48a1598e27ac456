#include "isa/memory_atomic.h"

#include "base/half.h"

#include <string.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

static float f32(uint64_t x) { return och_f32_from_bits((uint32_t)x); }
static double f64(uint64_t x) {
    double d;
    memcpy(&d, &x, 8);
    return d;
}
static uint64_t b64(double d) {
    uint64_t x;
    memcpy(&x, &d, 8);
    return x;
}

/* gfx12's minimum and maximum of numbers, as bits: two NaNs give the quieted source. */
static uint64_t num32(bool max, uint64_t old, uint64_t src) {
    float o = f32(old), s = f32(src);
    if (s != s) return o != o ? (src | 0x400000u) : old;
    if (o != o) return src;
    if (o == 0 && s == 0) return max ? (src >> 31 ? old : src) : (src >> 31 ? src : old);
    return (max ? s > o : s < o) ? src : old;
}
static uint64_t num64(bool max, uint64_t old, uint64_t src) {
    double o = f64(old), s = f64(src);
    if (s != s) return o != o ? (src | (uint64_t)1 << 51) : old;
    if (o != o) return src;
    if (o == 0 && s == 0) return max ? (src >> 63 ? old : src) : (src >> 63 ? src : old);
    return (max ? s > o : s < o) ? src : old;
}

static uint64_t apply64(unsigned op, uint64_t o, uint64_t s, uint64_t t) {
    switch (op) {
    case SIM_AT_SWAP: return s;
    case SIM_AT_CMPSWAP: return o == t ? s : o;
    case SIM_AT_ADD: return o + s;
    case SIM_AT_SUB: return o - s;
    case SIM_AT_RSUB: return s - o;
    case SIM_AT_SMIN: return (int64_t)s < (int64_t)o ? s : o;
    case SIM_AT_UMIN: return s < o ? s : o;
    case SIM_AT_SMAX: return (int64_t)s >= (int64_t)o ? s : o;
    case SIM_AT_UMAX: return s >= o ? s : o;
    case SIM_AT_AND: return o & s;
    case SIM_AT_OR: return o | s;
    case SIM_AT_XOR: return o ^ s;
    case SIM_AT_INC: return o >= s ? 0 : o + 1;
    case SIM_AT_DEC: return o == 0 || o > s ? s : o - 1;
    case SIM_AT_MSKOR: return (o & ~s) | t;
    case SIM_AT_FADD: return b64(f64(o) + f64(s));
    case SIM_AT_FMIN: return f64(s) < f64(o) ? s : o;
    case SIM_AT_FMAX: return f64(s) > f64(o) ? s : o;
    case SIM_AT_FCMPSWAP: return f64(o) == f64(t) ? s : o;
    case SIM_AT_FMIN_NUM: return num64(false, o, s);
    case SIM_AT_FMAX_NUM: return num64(true, o, s);
    default: return o;
    }
}

/* The sum of two 11-bit (or 8-bit) significands in 24 bits rounds twice to the same as once. */
static uint32_t pk_f16(uint32_t a, uint32_t b) {
    uint32_t lo = och_f32_to_f16(och_f16_to_f32((uint16_t)a) + och_f16_to_f32((uint16_t)b));
    uint32_t hi = och_f32_to_f16(och_f16_to_f32((uint16_t)(a >> 16)) + och_f16_to_f32((uint16_t)(b >> 16)));
    return lo | hi << 16;
}
static uint32_t pk_bf16(uint32_t a, uint32_t b) {
    uint32_t lo = och_f32_to_bf16(och_bf16_to_f32((uint16_t)a) + och_bf16_to_f32((uint16_t)b));
    uint32_t hi = och_f32_to_bf16(och_bf16_to_f32((uint16_t)(a >> 16)) + och_bf16_to_f32((uint16_t)(b >> 16)));
    return lo | hi << 16;
}

static uint32_t apply32(unsigned op, uint32_t o, uint32_t s, uint32_t t) {
    switch (op) {
    case SIM_AT_SMIN: return (int32_t)s < (int32_t)o ? s : o;
    case SIM_AT_SMAX: return (int32_t)s >= (int32_t)o ? s : o;
    case SIM_AT_WRAP: return o >= s ? o - s : o + t;
    case SIM_AT_SUB_CLAMP: return o < s ? 0 : o - s;
    case SIM_AT_COND_SUB: return o >= s ? o - s : o;
    case SIM_AT_FADD: return och_f32_bits(f32(o) + f32(s));
    case SIM_AT_FMIN: return f32(s) < f32(o) ? s : o;
    case SIM_AT_FMAX: return f32(s) > f32(o) ? s : o;
    case SIM_AT_FCMPSWAP: return f32(o) == f32(t) ? s : o;
    case SIM_AT_FMIN_NUM: return (uint32_t)num32(false, o, s);
    case SIM_AT_FMAX_NUM: return (uint32_t)num32(true, o, s);
    case SIM_AT_PK_ADD_F16: return pk_f16(o, s);
    case SIM_AT_PK_ADD_BF16: return pk_bf16(o, s);
    default: return (uint32_t)apply64(op, o, s, t);
    }
}

uint64_t sim_atomic_apply(unsigned op, uint64_t old, uint64_t data, uint64_t data2) {
    return op & SIM_AT_64 ? apply64(op & 63, old, data, data2)
                          : apply32(op & 63, (uint32_t)old, (uint32_t)data, (uint32_t)data2);
}

uint32_t sim_atomic_fp_begin(bool flush) {
#if defined(__x86_64__)
    uint32_t saved = _mm_getcsr();
    _mm_setcsr(flush ? 0x1f80u | 0x8040u : 0x1f80u);
    return saved;
#else
    (void)flush;
    return 0;
#endif
}
void sim_atomic_fp_end(uint32_t saved) {
#if defined(__x86_64__)
    _mm_setcsr(saved);
#else
    (void)saved;
#endif
}

uint64_t sim_atomic_host(unsigned op, void *p, uint64_t data, uint64_t data2) {
    if (op & SIM_AT_64) {
        uint64_t *q = p, old = __atomic_load_n(q, __ATOMIC_RELAXED);
        switch (op & 63) {
        case SIM_AT_ADD: return __atomic_fetch_add(q, data, __ATOMIC_SEQ_CST);
        case SIM_AT_SUB: return __atomic_fetch_sub(q, data, __ATOMIC_SEQ_CST);
        case SIM_AT_SWAP: return __atomic_exchange_n(q, data, __ATOMIC_SEQ_CST);
        default: break;
        }
        while (!__atomic_compare_exchange_n(q, &old, sim_atomic_apply(op, old, data, data2), true, __ATOMIC_SEQ_CST,
                                            __ATOMIC_RELAXED)) {}
        return old;
    }
    uint32_t *q = p, old = __atomic_load_n(q, __ATOMIC_RELAXED);
    switch (op) {
    case SIM_AT_ADD: return __atomic_fetch_add(q, (uint32_t)data, __ATOMIC_SEQ_CST);
    case SIM_AT_SUB: return __atomic_fetch_sub(q, (uint32_t)data, __ATOMIC_SEQ_CST);
    case SIM_AT_SWAP: return __atomic_exchange_n(q, (uint32_t)data, __ATOMIC_SEQ_CST);
    default: break;
    }
    while (!__atomic_compare_exchange_n(q, &old, (uint32_t)sim_atomic_apply(op, old, data, data2), true, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED)) {}
    return old;
}

uint64_t sim_atomic_plain(unsigned op, void *p, uint64_t data, uint64_t data2) {
    if (op & SIM_AT_64) {
        uint64_t old, now;
        memcpy(&old, p, 8);
        now = sim_atomic_apply(op, old, data, data2);
        memcpy(p, &now, 8);
        return old;
    }
    uint32_t old, now;
    memcpy(&old, p, 4);
    now = (uint32_t)sim_atomic_apply(op, old, data, data2);
    memcpy(p, &now, 4);
    return old;
}
