/* HIP C++ for AMD's targets, as clang and hipRTC take it: builtins, no header. */
#include "kl/dialect.h"

#define FN "static __device__ __forceinline__ "

static const och_kl_piece_row rows[] = {
    {OCH_KL_P_BITS, 0, 0, {0}, "template <class R, class T> " FN "R och_bits(T x) { return __builtin_bit_cast(R, x); }\n"},
    {OCH_KL_P_SPLAT, 0, 0, {0}, "template <class V, class T> " FN "V och_splat(T x) { return (V)(x); }\n"},
    {OCH_KL_P_CONVERT, 0, 0, {0},
     "template <class R, int N, class V> " FN "R och_convert(V v) { return __builtin_convertvector(v, R); }\n"},
    /* A is the alignment that is known of the address. */
    {OCH_KL_P_GET, 0, 0, {0},
     "template <class T, int A> " FN "T och_get(const void *p) {\n"
     "    typedef T aligned __attribute__((aligned(A), may_alias));\n"
     "    return *(const aligned *)p;\n"
     "}\n"},
    {OCH_KL_P_GET_STREAM, 0, 0, {0},
     "template <class T, int A> " FN "T och_get_stream(const void *p) {\n"
     "    typedef T aligned __attribute__((aligned(A), may_alias));\n"
     "    return __builtin_nontemporal_load((const aligned *)p);\n"
     "}\n"},
    {OCH_KL_P_PUT, 0, 0, {0},
     "template <class T, int A> " FN "void och_put(void *p, T x) {\n"
     "    typedef T aligned __attribute__((aligned(A), may_alias));\n"
     "    *(aligned *)p = x;\n"
     "}\n"},
    {OCH_KL_P_PUT_STREAM, 0, 0, {0},
     "template <class T, int A> " FN "void och_put_stream(void *p, T x) {\n"
     "    typedef T aligned __attribute__((aligned(A), may_alias));\n"
     "    __builtin_nontemporal_store(x, (aligned *)p);\n"
     "}\n"},
    {OCH_KL_P_THREAD, 0, 0, {0}, FN "i32 och_thread() { return (i32)__builtin_amdgcn_workitem_id_x(); }\n"},
    {OCH_KL_P_GROUP_ID, 0, 0, {0},
     "template <int AXIS> " FN "i32 och_group_id() {\n"
     "    return (i32)(AXIS == 0 ? __builtin_amdgcn_workgroup_id_x()\n"
     "                           : AXIS == 1 ? __builtin_amdgcn_workgroup_id_y() : __builtin_amdgcn_workgroup_id_z());\n"
     "}\n"},
    /* A grid counts work-items along x; the group is one work-item high and deep. */
    {OCH_KL_P_GROUP_COUNT, 0, 0, {0},
     "template <int AXIS> " FN "i32 och_group_count() {\n"
     "    return (i32)(AXIS == 0 ? __builtin_amdgcn_grid_size_x() / OCH_THREADS\n"
     "                           : AXIS == 1 ? __builtin_amdgcn_grid_size_y() : __builtin_amdgcn_grid_size_z());\n"
     "}\n"},
    {OCH_KL_P_TO_BF16, OCH_CVT_PK_BF16, 0, {OCH_KL_P_BITS},
     FN "bf16 och_to_bf16(f32 x) { return och_bits<bf16>((__bf16)x); }\n"},
    /* v_cvt_pk_*: out of range is left to the mode register, so the range is cut before. */
    {OCH_KL_P_TO_FP8, 0, OCH_KL_WHEN_CVT_FP8 | OCH_KL_WHEN_FNUZ, {0},
     FN "fp8 och_to_fp8(f32 x) { // E4M3 FNUZ\n"
        "    const f32 y = x != x ? x : __builtin_amdgcn_fmed3f(x, 240.0f, -240.0f);\n"
        "    return (fp8)__builtin_amdgcn_cvt_pk_fp8_f32(y, 0.0f, 0, false);\n"
        "}\n"},
    {OCH_KL_P_TO_FP8, 0, OCH_KL_WHEN_CVT_FP8, {0},
     FN "fp8 och_to_fp8(f32 x) { // E4M3 OCP\n"
        "    const f32 y = x != x ? x : __builtin_amdgcn_fmed3f(x, 448.0f, -448.0f);\n"
        "    return (fp8)__builtin_amdgcn_cvt_pk_fp8_f32(y, 0.0f, 0, false);\n"
        "}\n"},
    {OCH_KL_P_TO_BF8, 0, OCH_KL_WHEN_CVT_FP8, {0},
     FN "bf8 och_to_bf8(f32 x) { // E5M2\n"
        "    const f32 y = x != x ? x : __builtin_amdgcn_fmed3f(x, 57344.0f, -57344.0f);\n"
        "    return (bf8)__builtin_amdgcn_cvt_pk_bf8_f32(y, 0.0f, 0, false);\n"
        "}\n"},
    {OCH_KL_P_FROM_FP8, 0, OCH_KL_WHEN_CVT_FP8, {0}, FN "f32 och_from_fp8(fp8 x) { return __builtin_amdgcn_cvt_f32_fp8(x, 0); }\n"},
    {OCH_KL_P_FROM_BF8, 0, OCH_KL_WHEN_CVT_FP8, {0}, FN "f32 och_from_bf8(bf8 x) { return __builtin_amdgcn_cvt_f32_bf8(x, 0); }\n"},

    {OCH_KL_P_MIN, 0, 0, {0}, "template <class T> " FN "T och_min(T a, T b) { return __builtin_elementwise_min(a, b); }\n"},
    {OCH_KL_P_MAX, 0, 0, {0}, "template <class T> " FN "T och_max(T a, T b) { return __builtin_elementwise_max(a, b); }\n"},
    {OCH_KL_P_ABS, 0, 0, {0}, "template <class T> " FN "T och_abs(T x) { return __builtin_elementwise_abs(x); }\n"},
    {OCH_KL_P_FMA, 0, 0, {0}, "template <class T> " FN "T och_fma(T a, T b, T c) { return __builtin_elementwise_fma(a, b, c); }\n"},
    {OCH_KL_P_SQRT, 0, 0, {0}, FN "f32 och_sqrt(f32 x) { return __builtin_sqrtf(x); }\n"},
    /* Of the four that follow the target's own instruction is wanted: within one unit in the last place over the normal
     * range; subnormal arguments and results count as 0. */
    {OCH_KL_P_RCP, 0, 0, {0}, FN "f32 och_rcp(f32 x) { return __builtin_amdgcn_rcpf(x); }\n"},
    {OCH_KL_P_RSQRT, 0, 0, {0}, FN "f32 och_rsqrt(f32 x) { return __builtin_amdgcn_rsqf(x); }\n"},
    {OCH_KL_P_EXP2, 0, 0, {0}, FN "f32 och_exp2(f32 x) { return __builtin_amdgcn_exp2f(x); }\n"},
    {OCH_KL_P_LOG2, 0, 0, {0}, FN "f32 och_log2(f32 x) { return __builtin_amdgcn_logf(x); }\n"},
    {OCH_KL_P_FLOOR, 0, 0, {0}, "template <class T> " FN "T och_floor(T x) { return __builtin_elementwise_floor(x); }\n"},
    {OCH_KL_P_CEIL, 0, 0, {0}, "template <class T> " FN "T och_ceil(T x) { return __builtin_elementwise_ceil(x); }\n"},
    {OCH_KL_P_ROUND, 0, 0, {0}, "template <class T> " FN "T och_round(T x) { return __builtin_elementwise_roundeven(x); }\n"},
    {OCH_KL_P_TRUNC, 0, 0, {0}, "template <class T> " FN "T och_trunc(T x) { return __builtin_elementwise_trunc(x); }\n"},
    {OCH_KL_P_COPYSIGN, 0, 0, {0}, "template <class T> " FN "T och_copysign(T x, T y) { return __builtin_elementwise_copysign(x, y); }\n"},
    {OCH_KL_P_ISNAN, 0, 0, {0}, "template <class T> " FN "bool och_isnan(T x) { return __builtin_isnan(x); }\n"},
    {OCH_KL_P_ISINF, 0, 0, {0}, "template <class T> " FN "bool och_isinf(T x) { return __builtin_isinf(x); }\n"},
    {OCH_KL_P_ISFINITE, 0, 0, {0}, "template <class T> " FN "bool och_isfinite(T x) { return __builtin_isfinite(x); }\n"},
    {OCH_KL_P_CLZ, 0, 0, {0}, FN "i32 och_clz(u32 x) { return x ? __builtin_clz(x) : 32; }\n"},
    {OCH_KL_P_CTZ, 0, 0, {0}, FN "i32 och_ctz(u32 x) { return x ? __builtin_ctz(x) : 32; }\n"},
    {OCH_KL_P_POPCOUNT, 0, 0, {0}, FN "i32 och_popcount(u32 x) { return __builtin_popcount(x); }\n"},
    {OCH_KL_P_PERM, 0, 0, {0},
     FN "u32 och_perm(u32 hi, u32 lo, u32 selector) { return __builtin_amdgcn_perm(hi, lo, selector); }\n"},

    {OCH_KL_P_DOT4_SS, OCH_DOT4_IU8, 0, {0},
     FN "i32 och_dot4_ss(u32 a, u32 b, i32 c) { return __builtin_amdgcn_sudot4(true, (i32)a, true, (i32)b, c, false); }\n"},
    {OCH_KL_P_DOT4_SS, OCH_DOT4_I8, 0, {0},
     FN "i32 och_dot4_ss(u32 a, u32 b, i32 c) { return __builtin_amdgcn_sdot4((i32)a, (i32)b, c, false); }\n"},
    {OCH_KL_P_DOT4_US, OCH_DOT4_IU8, 0, {0},
     FN "i32 och_dot4_us(u32 a, u32 b, i32 c) { return __builtin_amdgcn_sudot4(false, (i32)a, true, (i32)b, c, false); }\n"},
    /* a = 128 + a signed byte; 128 b is added as twice 64 b. */
    {OCH_KL_P_DOT4_US, OCH_DOT4_I8, 0, {0},
     FN "i32 och_dot4_us(u32 a, u32 b, i32 c) {\n"
        "    c = __builtin_amdgcn_sdot4((i32)(a ^ 0x80808080u), (i32)b, c, false);\n"
        "    c = __builtin_amdgcn_sdot4(0x40404040, (i32)b, c, false);\n"
        "    return __builtin_amdgcn_sdot4(0x40404040, (i32)b, c, false);\n"
        "}\n"},
    {OCH_KL_P_DOT4_UU, OCH_DOT4_U8, 0, {0},
     FN "i32 och_dot4_uu(u32 a, u32 b, i32 c) { return (i32)__builtin_amdgcn_udot4(a, b, (u32)c, false); }\n"},
    {OCH_KL_P_DOT8_US4, OCH_DOT8_IU4, 0, {0},
     FN "i32 och_dot8_us4(u32 a, u32 b, i32 c) { return __builtin_amdgcn_sudot8(false, (i32)a, true, (i32)b, c, false); }\n"},
    {OCH_KL_P_DOT8_US4, OCH_DOT8_I4, 0, {0},
     FN "i32 och_dot8_us4(u32 a, u32 b, i32 c) {\n"
        "    c = __builtin_amdgcn_sdot8((i32)(a ^ 0x88888888u), (i32)b, c, false);\n"
        "    c = __builtin_amdgcn_sdot8(0x44444444, (i32)b, c, false);\n"
        "    return __builtin_amdgcn_sdot8(0x44444444, (i32)b, c, false);\n"
        "}\n"},
    {OCH_KL_P_DOT2, OCH_DOT2_F16, 0, {0}, FN "f32 och_dot2(f16x2 a, f16x2 b, f32 c) { return __builtin_amdgcn_fdot2(a, b, c, false); }\n"},

    {OCH_KL_P_FIRST, 0, 0, {OCH_KL_P_WORDS},
     "template <class T> " FN "T och_first(T x) {\n"
     "    return och_by_words(x, [](i32 w) { return __builtin_amdgcn_readfirstlane(w); });\n"
     "}\n"},
    {OCH_KL_P_READ, 0, 0, {0}, FN "i32 och_read(i32 x, i32 lane) { return __builtin_amdgcn_readlane(x, lane); }\n"},
    {OCH_KL_P_DPP, 0, 0, {0},
     "template <int CONTROL> " FN "i32 och_dpp(i32 x) { return __builtin_amdgcn_update_dpp(0, x, CONTROL, 15, 15, true); }\n"},
    {OCH_KL_P_SWAP_HALVES, 0, OCH_KL_WHEN_WAVE64 | OCH_KL_WHEN_HALVES, {0},
     FN "i32 och_swap_halves(i32 x) { return (i32)__builtin_amdgcn_permlane64((u32)x); }\n"},
    /* No instruction here reaches the other half of 64 lanes but those that go by way of a scalar. */
    {OCH_KL_P_SWAP_HALVES, 0, OCH_KL_WHEN_WAVE64 | OCH_KL_WHEN_ROWS, {OCH_KL_P_LANE},
     FN "i32 och_swap_halves(i32 x) {\n"
        "    i32 r = x;\n"
        "    const i32 me = och_lane();\n"
        "#pragma unroll\n"
        "    for (int i = 0; i < 32; i++) {\n"
        "        const i32 lower = __builtin_amdgcn_readlane(x, i), upper = __builtin_amdgcn_readlane(x, i + 32);\n"
        "        r = me == i ? upper : me == i + 32 ? lower : r;\n"
        "    }\n"
        "    return r;\n"
        "}\n"},
    {OCH_KL_P_SWAP_HALVES, 0, OCH_KL_WHEN_WAVE64, {OCH_KL_P_LANE},
     FN "i32 och_swap_halves(i32 x) { return __builtin_amdgcn_ds_bpermute((och_lane() ^ 32) * 4, x); }\n"},
    {OCH_KL_P_LANE_XOR, 0, OCH_KL_WHEN_ROWS | OCH_KL_WHEN_WAVE32, {OCH_KL_P_DPP},
     "template <int M> " FN "i32 och_lane_xor(i32 x) {\n"
     "    if constexpr (M == 0) return x;\n"
     "    else if constexpr (M < 4) return och_dpp<M | (1 ^ M) << 2 | (2 ^ M) << 4 | (3 ^ M) << 6>(x); // quad_perm\n"
     "    else if constexpr (M < 16) return och_dpp<0x160 | M>(x); // row_xmask\n"
     "    else return och_lane_xor<M & 15>((i32)__builtin_amdgcn_permlanex16((u32)x, (u32)x, 0x76543210u, 0xfedcba98u, false, false));\n"
     "}\n"},
    {OCH_KL_P_LANE_XOR, 0, OCH_KL_WHEN_ROWS | OCH_KL_WHEN_WAVE64, {OCH_KL_P_DPP, OCH_KL_P_SWAP_HALVES},
     "template <int M> " FN "i32 och_lane_xor(i32 x) {\n"
     "    if constexpr (M == 0) return x;\n"
     "    else if constexpr (M < 4) return och_dpp<M | (1 ^ M) << 2 | (2 ^ M) << 4 | (3 ^ M) << 6>(x); // quad_perm\n"
     "    else if constexpr (M < 16) return och_dpp<0x160 | M>(x); // row_xmask\n"
     "    else if constexpr (M < 32)\n"
     "        return och_lane_xor<M & 15>((i32)__builtin_amdgcn_permlanex16((u32)x, (u32)x, 0x76543210u, 0xfedcba98u, false, false));\n"
     "    else return och_lane_xor<M & 31>(och_swap_halves(x));\n"
     "}\n"},
    {OCH_KL_P_LANE_XOR, 0, 0, {OCH_KL_P_DPP, OCH_KL_P_SWAP_HALVES},
     "template <int M> " FN "i32 och_lane_xor(i32 x) {\n"
     "    if constexpr (M == 0) return x;\n"
     "    else if constexpr (M < 4) return och_dpp<M | (1 ^ M) << 2 | (2 ^ M) << 4 | (3 ^ M) << 6>(x); // quad_perm\n"
     "    else if constexpr (M == 7) return och_dpp<0x141>(x);  // row_half_mirror\n"
     "    else if constexpr (M == 8) return och_dpp<0x128>(x);  // row_ror:8\n"
     "    else if constexpr (M == 15) return och_dpp<0x140>(x); // row_mirror\n"
     "    else if constexpr (M < 32) return __builtin_amdgcn_ds_swizzle(x, M << 10 | 31);\n"
     "    else return och_lane_xor<M & 31>(och_swap_halves(x));\n"
     "}\n"},
    /* ds_bpermute reaches 32 lanes where a wave of 64 is worked on in halves. */
    {OCH_KL_P_SHUFFLE, 0, OCH_KL_WHEN_ROWS | OCH_KL_WHEN_WAVE64, {OCH_KL_P_WORDS, OCH_KL_P_LANE, OCH_KL_P_SWAP_HALVES},
     "template <int N, class T> " FN "T och_shuffle(T x, i32 lane) {\n"
     "    const i32 me = och_lane(), from = (me & ~(N - 1)) | (lane & (N - 1));\n"
     "    return och_by_words(x, [=](i32 w) {\n"
     "        const i32 near = __builtin_amdgcn_ds_bpermute(from * 4, w);\n"
     "        if constexpr (N <= 32) return near;\n"
     "        const i32 far = __builtin_amdgcn_ds_bpermute(from * 4, och_swap_halves(w));\n"
     "        return (from ^ me) & 32 ? far : near;\n"
     "    });\n"
     "}\n"},
    {OCH_KL_P_SHUFFLE, 0, 0, {OCH_KL_P_WORDS, OCH_KL_P_LANE},
     "template <int N, class T> " FN "T och_shuffle(T x, i32 lane) {\n"
     "    const i32 from = (och_lane() & ~(N - 1)) | (lane & (N - 1));\n"
     "    return och_by_words(x, [=](i32 w) { return __builtin_amdgcn_ds_bpermute(from * 4, w); });\n"
     "}\n"},
    /* When quads hold one value, mirroring 8 lanes brings the other quad's, and so on. */
#define NEAR                                                                                                                       \
    "template <int M> " FN "i32 och_near(i32 x) {\n"                                                                              \
    "    if constexpr (M == 1) return och_dpp<0xb1>(x);       // quad_perm 1 0 3 2\n"                                             \
    "    else if constexpr (M == 2) return och_dpp<0x4e>(x);  // quad_perm 2 3 0 1\n"                                             \
    "    else if constexpr (M == 4) return och_dpp<0x141>(x); // row_half_mirror\n"                                               \
    "    else return och_dpp<0x140>(x);                       // row_mirror\n"                                                    \
    "}\n"
#define OTHER_ROW                                                                                                                  \
    "        x = f(x, och_by_words(x, [](i32 w) {\n"                                                                              \
    "            return (i32)__builtin_amdgcn_permlanex16((u32)w, (u32)w, 0x76543210u, 0xfedcba98u, false, false);\n"             \
    "        }));\n"
    {OCH_KL_P_FOLD_TOP, 0, OCH_KL_WHEN_ROWS | OCH_KL_WHEN_WAVE32, {OCH_KL_P_WORDS, OCH_KL_P_DPP, OCH_KL_P_FIRST},
     NEAR "template <int N, class T, class F> " FN "T och_fold_top(T x, F f) {\n"
          "    if constexpr (N > 16) {\n" OTHER_ROW "        return och_first(x);\n"
          "    } else return x;\n"
          "}\n"},
    {OCH_KL_P_FOLD_TOP, 0, OCH_KL_WHEN_ROWS | OCH_KL_WHEN_HALVES, {OCH_KL_P_WORDS, OCH_KL_P_DPP, OCH_KL_P_FIRST, OCH_KL_P_SWAP_HALVES},
     NEAR "template <int N, class T, class F> " FN "T och_fold_top(T x, F f) {\n"
          "    if constexpr (N > 16) {\n" OTHER_ROW "    }\n"
          "    if constexpr (N > 32) {\n"
          "        x = f(x, och_by_words(x, [](i32 w) { return och_swap_halves(w); }));\n"
          "        return och_first(x);\n"
          "    } else return x;\n"
          "}\n"},
    {OCH_KL_P_FOLD_TOP, 0, OCH_KL_WHEN_ROWS, {OCH_KL_P_WORDS, OCH_KL_P_DPP, OCH_KL_P_BROADCAST, OCH_KL_P_FIRST},
     NEAR "template <int N, class T, class F> " FN "T och_fold_top(T x, F f) {\n"
          "    if constexpr (N > 16) {\n" OTHER_ROW "    }\n"
          "    if constexpr (N > 32) return och_first(f(och_broadcast(x, 0), och_broadcast(x, 32)));\n"
          "    else return x;\n"
          "}\n"},
    {OCH_KL_P_FOLD_TOP, 0, 0, {OCH_KL_P_WORDS, OCH_KL_P_DPP, OCH_KL_P_BROADCAST, OCH_KL_P_FIRST},
     NEAR "template <int N, class T, class F> " FN "T och_fold_top(T x, F f) {\n"
          "    if constexpr (N > 32) {\n"
          "        const T a = f(och_broadcast(x, 0), och_broadcast(x, 16)), b = f(och_broadcast(x, 32), och_broadcast(x, 48));\n"
          "        return och_first(f(a, b));\n"
          "    } else if constexpr (N > 16) {\n"
          "        return f(x, och_by_words(x, [](i32 w) { return __builtin_amdgcn_ds_swizzle(w, 16 << 10 | 31); }));\n"
          "    } else return x;\n"
          "}\n"},
    {OCH_KL_P_BALLOT, 0, OCH_KL_WHEN_WAVE64, {0}, FN "u64 och_ballot(bool c) { return __builtin_amdgcn_ballot_w64(c); }\n"},
    {OCH_KL_P_BALLOT, 0, 0, {0}, FN "u64 och_ballot(bool c) { return __builtin_amdgcn_ballot_w32(c); }\n"},

    {OCH_KL_P_BARRIER, 0, 0, {0},
     FN "void och_barrier() {\n"
        "    __builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\");\n"
        "    __builtin_amdgcn_s_barrier();\n"
        "    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"workgroup\");\n"
        "}\n"},
    {OCH_KL_P_FENCE, 0, 0, {0},
     "template <int SCOPE> " FN "void och_fence() { // 0 wave, 1 group, 2 device, 3 system\n"
     "    if constexpr (SCOPE == 0) __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, \"wavefront\");\n"
     "    else if constexpr (SCOPE == 1) __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, \"workgroup\");\n"
     "    else if constexpr (SCOPE == 2) __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, \"agent\");\n"
     "    else __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, \"\");\n"
     "}\n"},
    /* The scopes of __hip_atomic_*: 2 wavefront, 3 workgroup, 4 agent, 5 system. Up to the device's own scope memory is the
     * device's and coarse-grained: there the target's float addition holds. */
    {OCH_KL_P_ATOMIC_ADD, 0, 0, {0},
     "#ifndef __has_extension\n"
     "#define __has_extension(x) 0\n"
     "#endif\n"
     "template <int SCOPE, class T> " FN "T och_atomic_add(T *p, T x) {\n"
     "    if constexpr (SCOPE < 3) {\n"
     "#if __has_extension(clang_atomic_attributes)\n"
     "        [[clang::atomic(no_remote_memory, no_fine_grained_memory, ignore_denormal_mode)]]\n"
     "#endif\n"
     "        { return __hip_atomic_fetch_add(p, x, __ATOMIC_RELAXED, SCOPE + 2); }\n"
     "    } else return __hip_atomic_fetch_add(p, x, __ATOMIC_RELAXED, 5);\n"
     "}\n"},
#define ATOMIC(NAME, CALL)                                                                                                         \
    "template <int SCOPE, class T> " FN "T och_atomic_" NAME "(T *p, T x) { return " CALL "(p, x, __ATOMIC_RELAXED, SCOPE + 2); }\n"
    {OCH_KL_P_ATOMIC_MIN, 0, 0, {0}, ATOMIC("min", "__hip_atomic_fetch_min")},
    {OCH_KL_P_ATOMIC_MAX, 0, 0, {0}, ATOMIC("max", "__hip_atomic_fetch_max")},
    {OCH_KL_P_ATOMIC_OR, 0, 0, {0}, ATOMIC("or", "__hip_atomic_fetch_or")},
    {OCH_KL_P_ATOMIC_AND, 0, 0, {0}, ATOMIC("and", "__hip_atomic_fetch_and")},
    {OCH_KL_P_ATOMIC_EXCHANGE, 0, 0, {0}, ATOMIC("exchange", "__hip_atomic_exchange")},
    {OCH_KL_P_ATOMIC_CAS, 0, 0, {0},
     "template <int SCOPE, class T> " FN "T och_atomic_cas(T *p, T expected, T x) {\n"
     "    __hip_atomic_compare_exchange_strong(p, &expected, x, __ATOMIC_RELAXED, __ATOMIC_RELAXED, SCOPE + 2);\n"
     "    return expected;\n"
     "}\n"},
    {OCH_KL_P_ATOMIC_LOAD, 0, 0, {0},
     "template <int SCOPE, class T> " FN "T och_atomic_load(T *p) { return __hip_atomic_load(p, __ATOMIC_ACQUIRE, SCOPE + 2); }\n"},
    {OCH_KL_P_ATOMIC_STORE, 0, 0, {0},
     "template <int SCOPE, class T> " FN "void och_atomic_store(T *p, T x) { __hip_atomic_store(p, x, __ATOMIC_RELEASE, SCOPE + 2); }\n"},
};

static void launch(och_strbuf *out, const och_kl_signature *s, const och_target *t, int occupancy) {
    (void)t;
    och_strbuf_printf(out, "__attribute__((amdgpu_flat_work_group_size(%d, %d)", s->threads, s->threads);
    if (occupancy > 0) och_strbuf_printf(out, ", amdgpu_waves_per_eu(%d)", occupancy);
    och_strbuf_puts(out, "))");
}

const och_kl_dialect och_kl_dialect_hip = {
    .name = "HIP C++",
    .head = "#ifndef __global__\n"
            "#define __global__ __attribute__((global))\n"
            "#endif\n"
            "#ifndef __device__\n"
            "#define __device__ __attribute__((device))\n"
            "#endif\n"
            "#ifndef __shared__\n"
            "#define __shared__ __attribute__((shared))\n"
            "#endif\n"
            "#ifndef __forceinline__\n"
            "#define __forceinline__ inline __attribute__((always_inline))\n"
            "#endif\n",
    .vector = "typedef %s %sx%d __attribute__((ext_vector_type(%d)));\n",
    .f16 = "typedef _Float16 f16;\n",
    .launch = launch,
    .rows = rows,
    .n_rows = (int)(sizeof rows / sizeof rows[0]),
};
