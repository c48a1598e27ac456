/* What the generated programs are written in: the same text for the host and, with DEVICE defined, for a target. W is the
 * wave size, BW the lanes within which ds_bpermute reaches: 32 also in wave64 of gfx10 and gfx11 (the index then names the
 * half, since compilers turn a uniform index into a read of that lane of the whole wave). */
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef _Float16 f16;
typedef __bf16 bf16;
typedef float f32;
typedef double f64;
typedef i16 s2 __attribute__((ext_vector_type(2)));
typedef u16 us2 __attribute__((ext_vector_type(2)));
typedef f16 h2 __attribute__((ext_vector_type(2)));
#define THREADS 128u
#define GROUPS 2u

#ifdef DEVICE
#define HD __attribute__((device)) inline
#define FN static __attribute__((device, noinline))
#define CONSTANT static __attribute__((device)) const
#else
#define HD inline
#define FN static __attribute__((noinline))
#define CONSTANT static const
#endif
CONSTANT u32 zeros[256] = {1, 2, 3, 5, 8, 13, 21, 34};

/* A float of moderate size, sometimes special, from bits. */
static HD f32 small(u32 x) {
    if ((x & 0xff) == 1) return __builtin_inff();
    if ((x & 0xff) == 2) return -0.0f;
    if ((x & 0xff) == 3) return 1e-41f;
    return (f32)((i32)(x >> 8 & 0xffff) - 32768) * 0.0078125f;
}
static HD u32 rotl32(u32 x, u32 n) { return x << n | x >> (-n & 31u); }
static HD u64 rotl64(u64 x, u32 n) { return x << n | x >> (-n & 63u); }
static HD i32 toint32(f64 x) { return x > -2147483648.0 && x < 2147483648.0 ? (i32)x : 0; }
static HD i32 toint16(f64 x) { return x > -32769.0 && x < 32768.0 ? (i32)x : 0; }
static HD i32 toint8(f64 x) { return x > -129.0 && x < 128.0 ? (i32)x : 0; }
#define nonan(x) ((x) == (x) ? (x) : 1)
/* Dot products of bytes. The device uses the instruction itself: clang-22, where it finds the sum for itself, loses the sign of
 * an addend that is subtracted. */
#ifdef DEVICE
#if defined(__GFX11__) || defined(__GFX12__)
static HD i32 dot4s(i32 a, i32 b, i32 c) { return __builtin_amdgcn_sudot4(true, a, true, b, c, false); }
#elif defined(__gfx1030__) || defined(__GFX9__)
static HD i32 dot4s(i32 a, i32 b, i32 c) { return __builtin_amdgcn_sdot4(a, b, c, false); }
#endif
static HD u32 dot4u(u32 a, u32 b, u32 c) { return __builtin_amdgcn_udot4(a, b, c, false); }
#else
static HD i32 dot4s(i32 a, i32 b, i32 c) {
    u32 t = (u32)c;
    for (int i = 0; i < 4; i++) t += (u32)((i32)(i8)((u32)a >> 8 * i) * (i32)(i8)((u32)b >> 8 * i));
    return (i32)t;
}
static HD u32 dot4u(u32 a, u32 b, u32 c) {
    for (int i = 0; i < 4; i++) c += (u32)(u8)(a >> 8 * i) * (u32)(u8)(b >> 8 * i);
    return c;
}
#endif

/* Results as bits; every NaN is the same one. */
static HD u64 bits_i8(i8 x) { return (u8)x; }
static HD u64 bits_u8(u8 x) { return x; }
static HD u64 bits_i16(i16 x) { return (u16)x; }
static HD u64 bits_u16(u16 x) { return x; }
static HD u64 bits_i32(i32 x) { return (u32)x; }
static HD u64 bits_u32(u32 x) { return x; }
static HD u64 bits_i64(i64 x) { return (u64)x; }
static HD u64 bits_u64(u64 x) { return x; }
static HD u64 bits_f16(f16 x) { return x != x ? 0x7e00u : __builtin_bit_cast(u16, x); }
static HD u64 bits_bf16(bf16 x) { return (f32)x != (f32)x ? 0x7fc0u : __builtin_bit_cast(u16, x); }
static HD u64 bits_f32(f32 x) { return x != x ? 0x7fc00000u : __builtin_bit_cast(u32, x); }
static HD u64 bits_f64(f64 x) { return x != x ? 0x7ff8000000000000ull : __builtin_bit_cast(u64, x); }
static HD u64 bits_s2(s2 x) { return __builtin_bit_cast(u32, x); }
static HD u64 bits_us2(us2 x) { return __builtin_bit_cast(u32, x); }
static HD u64 bits_h2(h2 x) { return bits_f16(x.x) | bits_f16(x.y) << 16; }

#ifdef DEVICE
static __attribute__((device)) inline void meet(void) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
#define ATOMIC_add(p, v) __hip_atomic_fetch_add(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define ATOMIC_xor(p, v) __hip_atomic_fetch_xor(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define ATOMIC_or(p, v) __hip_atomic_fetch_or(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define ATOMIC_and(p, v) __hip_atomic_fetch_and(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define ATOMIC_umax(p, v) __hip_atomic_fetch_max(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define ATOMIC_umin(p, v) __hip_atomic_fetch_min(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define ATOMIC_max(p, v) __hip_atomic_fetch_max((i32 *)(p), (i32)(v), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define ATOMIC_min(p, v) __hip_atomic_fetch_min((i32 *)(p), (i32)(v), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define PROGRAM_BEGIN(i, n)                                                                                            \
    extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(THREADS, THREADS))) void k##i(        \
        const u32 *in, u64 *out, u32 *shared_words) {                                                                  \
        __attribute__((shared)) static u32 lds[THREADS * 4];                                                           \
        const u32 tid = __builtin_amdgcn_workitem_id_x();                                                              \
        u64 *my_out = out + __builtin_amdgcn_workgroup_id_x() * (THREADS * (n));                                       \
        u32 *words = shared_words + __builtin_amdgcn_workgroup_id_x() * 64u;                                           \
        in += __builtin_amdgcn_workgroup_id_x() * 256u;                                                                \
        (void)words; (void)lds;                                                                                        \
        struct st##i s_, *s = &s_;                                                                                     \
        init##i(s, tid, in);
#define PHASE(i, k) phase##i##_##k(s, tid, in);
#define PROGRAM_END(i)                                                                                                 \
        store##i(s, tid, my_out);                                                                                      \
    }
#define X_LDS(i, k)                                                                                                    \
    lds[tid] = get##i##_##k(s, tid, in);                                                                               \
    meet();                                                                                                            \
    { u32 v_ = lds[idx##i##_##k(s, tid, in) & (THREADS - 1)]; meet(); put##i##_##k(s, v_); }
#define X_LDS_WIDE(i, k)                                                                                               \
    { typedef u32 u4 __attribute__((ext_vector_type(4)));                                                              \
      u32 g_ = get##i##_##k(s, tid, in);                                                                               \
      ((u4 *)lds)[tid] = (u4){g_, g_ + 1, g_ ^ 7u, g_ * 3u};                                                           \
      meet();                                                                                                          \
      u4 v_ = ((u4 *)lds)[idx##i##_##k(s, tid, in) & (THREADS - 1)];                                                   \
      meet();                                                                                                          \
      put##i##_##k(s, v_.x ^ v_.y * 5u ^ v_.z * 9u ^ v_.w * 17u); }
#define X_BPERMUTE(i, k)                                                                                               \
    put##i##_##k(s, (u32)__builtin_amdgcn_ds_bpermute(                                                                 \
        (i32)(((tid & (W - 1u) & ~(BW - 1u)) | (idx##i##_##k(s, tid, in) & (BW - 1u))) * 4u),                          \
        (i32)get##i##_##k(s, tid, in)));
#define X_BALLOT(i, k)                                                                                                 \
    { u64 m_ = W == 32 ? (u64)__builtin_amdgcn_ballot_w32(get##i##_##k(s, tid, in) & 1u)                               \
                       : (u64)__builtin_amdgcn_ballot_w64(get##i##_##k(s, tid, in) & 1u);                              \
      put##i##_##k(s, (u32)m_ ^ (u32)(m_ >> 32)); }
#define X_FIRST(i, k) put##i##_##k(s, (u32)__builtin_amdgcn_readfirstlane((i32)get##i##_##k(s, tid, in)));
#define X_DPP(i, k, ctrl)                                                                                              \
    put##i##_##k(s, (u32)__builtin_amdgcn_update_dpp((i32)0x5a5a5a5a, (i32)get##i##_##k(s, tid, in), ctrl, 15, 15, false));
#define X_LDS_ATOMIC(i, k, op)                                                                                         \
    if (tid < 16) lds[tid] = tid * 0x1234567u;                                                                         \
    meet();                                                                                                            \
    ATOMIC_##op(&lds[idx##i##_##k(s, tid, in) & 15u], get##i##_##k(s, tid, in));                                       \
    meet();                                                                                                            \
    { u32 v_ = lds[tid & 15u]; meet(); put##i##_##k(s, v_); }
#define X_GLOBAL_ATOMIC(i, k, op)                                                                                      \
    ATOMIC_##op(&words[(k) * 16u + (idx##i##_##k(s, tid, in) & 15u)], get##i##_##k(s, tid, in));                       \
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent");                                                                 \
    meet();                                                                                                            \
    put##i##_##k(s, __hip_atomic_load(&words[(k) * 16u + (tid & 15u)], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT));
#else
/* The host: every thread's variables, phase by phase. */
#define ATOMIC_add(p, v) (*(p) += (v))
#define ATOMIC_xor(p, v) (*(p) ^= (v))
#define ATOMIC_or(p, v) (*(p) |= (v))
#define ATOMIC_and(p, v) (*(p) &= (v))
#define ATOMIC_umax(p, v) (*(p) = *(p) > (v) ? *(p) : (v))
#define ATOMIC_umin(p, v) (*(p) = *(p) < (v) ? *(p) : (v))
#define ATOMIC_max(p, v) (*(p) = (i32)*(p) > (i32)(v) ? *(p) : (v))
#define ATOMIC_min(p, v) (*(p) = (i32)*(p) < (i32)(v) ? *(p) : (v))
#define EACH for (u32 tid = 0; tid < THREADS; tid++)
#define PROGRAM_BEGIN(i, n)                                                                                            \
    static void run##i(u32 group, const u32 *in, u64 *out, u32 *shared_words) {                                        \
        u64 *my_out = out + group * (THREADS * (n));                                                                   \
        u32 *words = shared_words + group * 64u, t_[THREADS], x_[THREADS];                                             \
        (void)words; (void)t_; (void)x_;                                                                               \
        in += group * 256u;                                                                                            \
        static struct st##i s_[THREADS];                                                                               \
        EACH init##i(&s_[tid], tid, in);
#define PHASE(i, k) EACH phase##i##_##k(&s_[tid], tid, in);
#define PROGRAM_END(i)                                                                                                 \
        EACH store##i(&s_[tid], tid, my_out);                                                                          \
    }
#define GET(i, k) EACH { t_[tid] = get##i##_##k(&s_[tid], tid, in); x_[tid] = idx##i##_##k(&s_[tid], tid, in); }
#define X_LDS(i, k) GET(i, k) EACH put##i##_##k(&s_[tid], t_[x_[tid] & (THREADS - 1)]);
#define X_LDS_WIDE(i, k)                                                                                               \
    GET(i, k) EACH { u32 g_ = t_[x_[tid] & (THREADS - 1)];                                                             \
                     put##i##_##k(&s_[tid], g_ ^ (g_ + 1) * 5u ^ (g_ ^ 7u) * 9u ^ (g_ * 3u) * 17u); }
#define X_BPERMUTE(i, k) GET(i, k) EACH put##i##_##k(&s_[tid], t_[(tid & ~(BW - 1u)) | (x_[tid] & (BW - 1u))]);
#define X_BALLOT(i, k)                                                                                                 \
    GET(i, k) EACH { u64 m_ = 0;                                                                                       \
                     for (u32 l = 0; l < W; l++) m_ |= (u64)(t_[(tid & ~(W - 1u)) | l] & 1u) << l;                     \
                     put##i##_##k(&s_[tid], (u32)m_ ^ (u32)(m_ >> 32)); }
#define X_FIRST(i, k) GET(i, k) EACH put##i##_##k(&s_[tid], t_[tid & ~(W - 1u)]);
/* DPP controls within a row of 16: where lane l of the row reads; -1: nowhere, the old value stays. */
static int dpp_source(u32 ctrl, int l) {
    if (ctrl < 0x100) return (l & ~3) | (int)(ctrl >> 2 * (l & 3) & 3);
    int n = (int)(ctrl & 15);
    switch (ctrl & 0x1f0) {
    case 0x100: return l + n < 16 ? l + n : -1;
    case 0x110: return l - n >= 0 ? l - n : -1;
    case 0x120: return (l + 16 - n) & 15;
    default: return ctrl == 0x140 ? 15 - l : (l & 8) | (7 - (l & 7));
    }
}
#define X_DPP(i, k, ctrl)                                                                                              \
    GET(i, k) EACH { int f_ = dpp_source(ctrl, (int)(tid & 15u));                                                      \
                     put##i##_##k(&s_[tid], f_ < 0 ? 0x5a5a5a5au : t_[(tid & ~15u) | (u32)f_]); }
#define X_LDS_ATOMIC(i, k, op)                                                                                         \
    GET(i, k) { u32 l_[16]; for (u32 j = 0; j < 16; j++) l_[j] = j * 0x1234567u;                                       \
                EACH ATOMIC_##op(&l_[x_[tid] & 15u], t_[tid]); EACH put##i##_##k(&s_[tid], l_[tid & 15u]); }
#define X_GLOBAL_ATOMIC(i, k, op)                                                                                      \
    GET(i, k) EACH ATOMIC_##op(&words[(k) * 16u + (x_[tid] & 15u)], t_[tid]);                                          \
    EACH put##i##_##k(&s_[tid], words[(k) * 16u + (tid & 15u)]);
#endif
