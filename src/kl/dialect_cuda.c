/* CUDA C++ for NVIDIA's targets, as NVRTC and clang take it: PTX where C++ says nothing, no header and no builtin of one
 * compiler alone. */
#include "kl/dialect.h"

#define FN "static __device__ __forceinline__ "

static const och_kl_piece_row rows[] = {
    {OCH_KL_P_VECTOR, 0, 0, {0},
     "template <class T, int N> struct alignas(sizeof(T) * N) och_vector {\n"
     "    T e[N];\n"
     "    __device__ __forceinline__ T &operator[](int i) { return e[i]; }\n"
     "    __device__ __forceinline__ const T &operator[](int i) const { return e[i]; }\n"
     "};\n"
     "#define OCH_OPERATOR(op)                                                                                    \\\n"
     "    template <class T, int N>                                                                               \\\n"
     "    " FN "och_vector<T, N> operator op(och_vector<T, N> a, och_vector<T, N> b) {      \\\n"
     "        och_vector<T, N> r;                                                                                 \\\n"
     "        _Pragma(\"unroll\") for (int i = 0; i < N; i++) r.e[i] = (T)(a.e[i] op b.e[i]);                       \\\n"
     "        return r;                                                                                           \\\n"
     "    }\n"
     "OCH_OPERATOR(+)\nOCH_OPERATOR(-)\nOCH_OPERATOR(*)\nOCH_OPERATOR(/)\nOCH_OPERATOR(%)\n"
     "OCH_OPERATOR(&)\nOCH_OPERATOR(|)\nOCH_OPERATOR(^)\nOCH_OPERATOR(<<)\nOCH_OPERATOR(>>)\n"
     "template <class T, int N> " FN "och_vector<T, N> operator-(och_vector<T, N> a) {\n"
     "    och_vector<T, N> r;\n"
     "#pragma unroll\n"
     "    for (int i = 0; i < N; i++) r.e[i] = (T)-a.e[i];\n"
     "    return r;\n"
     "}\n"
     "template <class T, int N> " FN "och_vector<T, N> operator~(och_vector<T, N> a) {\n"
     "    och_vector<T, N> r;\n"
     "#pragma unroll\n"
     "    for (int i = 0; i < N; i++) r.e[i] = (T)~a.e[i];\n"
     "    return r;\n"
     "}\n"},
    {OCH_KL_P_F16, 0, 0, {0},
     "struct f16 {\n"
     "    u16 h;\n"
     "    f16() = default;\n"
     "    __device__ __forceinline__ explicit f16(f32 x) { asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(x)); }\n"
     "    __device__ __forceinline__ operator f32() const {\n"
     "        f32 r;\n"
     "        asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(r) : \"h\"(h));\n"
     "        return r;\n"
     "    }\n"
     "};\n"
     "#define OCH_F16(op, name)                                                                                   \\\n"
     "    " FN "f16 operator op(f16 a, f16 b) {                                              \\\n"
     "        f16 r;                                                                                              \\\n"
     "        asm(name \" %0, %1, %2;\" : \"=h\"(r.h) : \"h\"(a.h), \"h\"(b.h));                                        \\\n"
     "        return r;                                                                                           \\\n"
     "    }\n"
     "OCH_F16(+, \"add.rn.f16\")\nOCH_F16(-, \"sub.rn.f16\")\nOCH_F16(*, \"mul.rn.f16\")\n" FN
     "f16 operator/(f16 a, f16 b) { return f16((f32)a / (f32)b); } // 24 bits are enough for a second rounding\n" FN
     "f16 operator-(f16 a) {\n"
     "    a.h ^= 0x8000;\n"
     "    return a;\n"
     "}\n"},
    {OCH_KL_P_BITS, 0, 0, {0},
     "template <class R, class T> " FN "R och_bits(T x) {\n"
     "    union {\n"
     "        T from;\n"
     "        R to;\n"
     "    } u;\n"
     "    u.from = x;\n"
     "    return u.to;\n"
     "}\n"},
    {OCH_KL_P_SPLAT, 0, 0, {0},
     "template <class V, class T> " FN "V och_splat(T x) {\n"
     "    V v;\n"
     "#pragma unroll\n"
     "    for (int i = 0; i < (int)(sizeof(V) / sizeof(T)); i++) v[i] = x;\n"
     "    return v;\n"
     "}\n"},
    {OCH_KL_P_CONVERT, 0, 0, {0},
     "template <class T, int N> " FN "T och_element(const och_vector<T, N> &);\n"
     "template <class R, int N, class V> " FN "R och_convert(V v) {\n"
     "    R r;\n"
     "#pragma unroll\n"
     "    for (int i = 0; i < N; i++) r[i] = (decltype(och_element(r)))v[i];\n"
     "    return r;\n"
     "}\n"},
    /* A is the alignment that is known of the address. A vector is fetched in pieces no larger. */
    {OCH_KL_P_GET, 0, 0, {0},
     "template <int N> struct och_bytes_of;\n"
     "template <> struct och_bytes_of<1> { typedef u8 type; };\n"
     "template <> struct och_bytes_of<2> { typedef u16 type; };\n"
     "template <> struct och_bytes_of<4> { typedef u32 type; };\n"
     "template <> struct och_bytes_of<8> { typedef u64 type; };\n"
     "template <> struct och_bytes_of<16> { struct alignas(16) type { u32 w[4]; }; };\n"
     "template <class T, int A> " FN "T och_get(const void *p) {\n"
     "    constexpr int piece = A > 16 ? 16 : A, n = (int)sizeof(T) > piece ? (int)sizeof(T) / piece : 1;\n"
     "    typedef typename och_bytes_of<((int)sizeof(T) < piece ? (int)sizeof(T) : piece)>::type part;\n"
     "    union {\n"
     "        part from[n];\n"
     "        T to;\n"
     "    } u;\n"
     "#pragma unroll\n"
     "    for (int i = 0; i < n; i++) u.from[i] = ((const part *)p)[i];\n"
     "    return u.to;\n"
     "}\n"},
    {OCH_KL_P_GET_STREAM, 0, 0, {OCH_KL_P_GET},
     "template <class T, int A> " FN "T och_get_stream(const void *p) {\n"
     "    if constexpr (A >= 16 && sizeof(T) % 16 == 0) {\n"
     "        union {\n"
     "            u32 from[sizeof(T) / 4];\n"
     "            T to;\n"
     "        } u;\n"
     "#pragma unroll\n"
     "        for (int i = 0; i < (int)sizeof(T) / 4; i += 4)\n"
     "            asm(\"ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4];\"\n"
     "                : \"=r\"(u.from[i]), \"=r\"(u.from[i + 1]), \"=r\"(u.from[i + 2]), \"=r\"(u.from[i + 3])\n"
     "                : \"l\"((const u8 *)p + 4 * i));\n"
     "        return u.to;\n"
     "    } else return och_get<T, A>(p);\n"
     "}\n"},
    {OCH_KL_P_PUT, 0, 0, {OCH_KL_P_GET},
     "template <class T, int A> " FN "void och_put(void *p, T x) {\n"
     "    constexpr int piece = A > 16 ? 16 : A, n = (int)sizeof(T) > piece ? (int)sizeof(T) / piece : 1;\n"
     "    typedef typename och_bytes_of<((int)sizeof(T) < piece ? (int)sizeof(T) : piece)>::type part;\n"
     "    union {\n"
     "        T from;\n"
     "        part to[n];\n"
     "    } u;\n"
     "    u.from = x;\n"
     "#pragma unroll\n"
     "    for (int i = 0; i < n; i++) ((part *)p)[i] = u.to[i];\n"
     "}\n"},
    {OCH_KL_P_PUT_STREAM, 0, 0, {OCH_KL_P_PUT},
     "template <class T, int A> " FN "void och_put_stream(void *p, T x) { och_put<T, A>(p, x); }\n"},
#define SPECIAL(name, reg) FN "i32 " name "() {\n    u32 r;\n    asm(\"mov.u32 %0, " reg ";\" : \"=r\"(r));\n    return (i32)r;\n}\n"
    {OCH_KL_P_THREAD, 0, 0, {0}, SPECIAL("och_thread", "%%tid.x")},
    {OCH_KL_P_GROUP_ID, 0, 0, {0},
     "template <int AXIS> " FN "i32 och_group_id() {\n"
     "    u32 r;\n"
     "    if constexpr (AXIS == 0) asm(\"mov.u32 %0, %%ctaid.x;\" : \"=r\"(r));\n"
     "    else if constexpr (AXIS == 1) asm(\"mov.u32 %0, %%ctaid.y;\" : \"=r\"(r));\n"
     "    else asm(\"mov.u32 %0, %%ctaid.z;\" : \"=r\"(r));\n"
     "    return (i32)r;\n"
     "}\n"},
    {OCH_KL_P_GROUP_COUNT, 0, 0, {0},
     "template <int AXIS> " FN "i32 och_group_count() {\n"
     "    u32 r;\n"
     "    if constexpr (AXIS == 0) asm(\"mov.u32 %0, %%nctaid.x;\" : \"=r\"(r));\n"
     "    else if constexpr (AXIS == 1) asm(\"mov.u32 %0, %%nctaid.y;\" : \"=r\"(r));\n"
     "    else asm(\"mov.u32 %0, %%nctaid.z;\" : \"=r\"(r));\n"
     "    return (i32)r;\n"
     "}\n"},
    {OCH_KL_P_TO_BF16, OCH_CVT_PK_BF16, 0, {0},
     FN "bf16 och_to_bf16(f32 x) {\n"
        "    bf16 r;\n"
        "    asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(r) : \"f\"(x));\n"
        "    return r;\n"
        "}\n"},
    /* Of two values the lower byte is the second's. */
    {OCH_KL_P_TO_FP8, OCH_CVT_FP8, 0, {0},
     FN "fp8 och_to_fp8(f32 x) { // E4M3\n"
        "    u16 r;\n"
        "    asm(\"cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;\" : \"=h\"(r) : \"f\"(0.0f), \"f\"(x));\n"
        "    return (fp8)r;\n"
        "}\n"},

/* Operations of one value and of two, on f32 and f16 and by element on vectors of them. */
#define BY_ELEMENT_1(name)                                                                                                         \
    "template <class T, int N> " FN "och_vector<T, N> " name "(och_vector<T, N> x) {\n"                                           \
    "    och_vector<T, N> r;\n#pragma unroll\n    for (int i = 0; i < N; i++) r.e[i] = " name "(x.e[i]);\n    return r;\n}\n"
#define BY_ELEMENT_2(name)                                                                                                         \
    "template <class T, int N> " FN "och_vector<T, N> " name "(och_vector<T, N> a, och_vector<T, N> b) {\n"                       \
    "    och_vector<T, N> r;\n#pragma unroll\n    for (int i = 0; i < N; i++) r.e[i] = " name "(a.e[i], b.e[i]);\n    return r;\n}\n"
#define F32_1(name, ptx) FN "f32 " name "(f32 x) {\n    f32 r;\n    asm(\"" ptx " %0, %1;\" : \"=f\"(r) : \"f\"(x));\n    return r;\n}\n"
#define F16_1(name, ptx) FN "f16 " name "(f16 x) {\n    f16 r;\n    asm(\"" ptx " %0, %1;\" : \"=h\"(r.h) : \"h\"(x.h));\n    return r;\n}\n"
#define F32_2(name, ptx)                                                                                                           \
    FN "f32 " name "(f32 a, f32 b) {\n    f32 r;\n    asm(\"" ptx " %0, %1, %2;\" : \"=f\"(r) : \"f\"(a), \"f\"(b));\n    return r;\n}\n"
#define F16_2(name, ptx)                                                                                                           \
    FN "f16 " name "(f16 a, f16 b) {\n    f16 r;\n    asm(\"" ptx " %0, %1, %2;\" : \"=h\"(r.h) : \"h\"(a.h), \"h\"(b.h));\n    return r;\n}\n"
#define INTEGER_2(name, op, T) FN T " " name "(" T " a, " T " b) { return a " op " b ? a : b; }\n"
#define INTEGERS_2(name, op) INTEGER_2(name, op, "i32") INTEGER_2(name, op, "u32") INTEGER_2(name, op, "i64") INTEGER_2(name, op, "u64")
    {OCH_KL_P_MIN, 0, 0, {OCH_KL_P_F16, OCH_KL_P_VECTOR},
     F32_2("och_min", "min.f32") F16_2("och_min", "min.f16") INTEGERS_2("och_min", "<") BY_ELEMENT_2("och_min")},
    {OCH_KL_P_MAX, 0, 0, {OCH_KL_P_F16, OCH_KL_P_VECTOR},
     F32_2("och_max", "max.f32") F16_2("och_max", "max.f16") INTEGERS_2("och_max", ">") BY_ELEMENT_2("och_max")},
    {OCH_KL_P_ABS, 0, 0, {OCH_KL_P_F16, OCH_KL_P_VECTOR},
     F32_1("och_abs", "abs.f32") F16_1("och_abs", "abs.f16") FN "i32 och_abs(i32 x) { return x < 0 ? -x : x; }\n" FN
         "i64 och_abs(i64 x) { return x < 0 ? -x : x; }\n" BY_ELEMENT_1("och_abs")},
    {OCH_KL_P_FMA, 0, 0, {OCH_KL_P_F16, OCH_KL_P_VECTOR},
     FN "f32 och_fma(f32 a, f32 b, f32 c) {\n"
        "    f32 r;\n"
        "    asm(\"fma.rn.f32 %0, %1, %2, %3;\" : \"=f\"(r) : \"f\"(a), \"f\"(b), \"f\"(c));\n"
        "    return r;\n"
        "}\n" FN "f16 och_fma(f16 a, f16 b, f16 c) {\n"
        "    f16 r;\n"
        "    asm(\"fma.rn.f16 %0, %1, %2, %3;\" : \"=h\"(r.h) : \"h\"(a.h), \"h\"(b.h), \"h\"(c.h));\n"
        "    return r;\n"
        "}\n"
        "template <class T, int N> " FN "och_vector<T, N> och_fma(och_vector<T, N> a, och_vector<T, N> b, och_vector<T, N> c) {\n"
        "    och_vector<T, N> r;\n"
        "#pragma unroll\n"
        "    for (int i = 0; i < N; i++) r.e[i] = och_fma(a.e[i], b.e[i], c.e[i]);\n"
        "    return r;\n"
        "}\n"},
    {OCH_KL_P_SQRT, 0, 0, {0}, F32_1("och_sqrt", "sqrt.rn.f32")},
    {OCH_KL_P_RCP, 0, 0, {0}, F32_1("och_rcp", "rcp.approx.f32")},
    {OCH_KL_P_RSQRT, 0, 0, {0}, F32_1("och_rsqrt", "rsqrt.approx.f32")},
    {OCH_KL_P_EXP2, 0, 0, {0}, F32_1("och_exp2", "ex2.approx.ftz.f32")},
    /* lg2.approx keeps 22 bits behind the point, which near 1 are few of the result's own. So: a number between sqrt(1/2) and
     * sqrt(2), its logarithm by f * log2(e) + f^2 * a polynomial (minimax, of f = that number - 1), plus its exponent. */
    {OCH_KL_P_LOG2, 0, 0, {OCH_KL_P_BITS, OCH_KL_P_FMA},
     FN "f32 och_log2(f32 x) {\n"
        "    u32 u = och_bits<u32>(x), e = 0;\n"
        "    if (u - 1 >= 0x7f7fffffu) { // 0, less, infinite, no number\n"
        "        f32 r;\n"
        "        asm(\"lg2.approx.f32 %0, %1;\" : \"=f\"(r) : \"f\"(x));\n"
        "        return r;\n"
        "    }\n"
        "    if (u < 0x00800000u) {\n"
        "        u = och_bits<u32>(x * 8388608.0f);\n"
        "        e = 23;\n"
        "    }\n"
        "    const i32 k = (i32)(u - 0x3f3504f3u) >> 23;\n"
        "    const f32 f = och_bits<f32>(u - ((u32)k << 23)) - 1.0f;\n"
        "    f32 q = och_fma(-0.110707246f, f, 0.183549374f);\n"
        "    q = och_fma(q, f, -0.1893906f);\n"
        "    q = och_fma(q, f, 0.204932749f);\n"
        "    q = och_fma(q, f, -0.239871785f);\n"
        "    q = och_fma(q, f, 0.288556814f);\n"
        "    q = och_fma(q, f, -0.360685021f);\n"
        "    q = och_fma(q, f, 0.480898291f);\n"
        "    q = och_fma(q, f, -0.721347511f);\n"
        "    q = och_fma(f * f, q, f * 1.92596303e-8f);\n"
        "    return (f32)(k - (i32)e) + och_fma(f, 1.44269502f, q);\n"
        "}\n"},
    {OCH_KL_P_FLOOR, 0, 0, {0}, F32_1("och_floor", "cvt.rmi.f32.f32") BY_ELEMENT_1("och_floor")},
    {OCH_KL_P_CEIL, 0, 0, {0}, F32_1("och_ceil", "cvt.rpi.f32.f32") BY_ELEMENT_1("och_ceil")},
    {OCH_KL_P_ROUND, 0, 0, {0}, F32_1("och_round", "cvt.rni.f32.f32") BY_ELEMENT_1("och_round")},
    {OCH_KL_P_TRUNC, 0, 0, {0}, F32_1("och_trunc", "cvt.rzi.f32.f32") BY_ELEMENT_1("och_trunc")},
    {OCH_KL_P_COPYSIGN, 0, 0, {0},
     FN "f32 och_copysign(f32 x, f32 y) {\n"
        "    f32 r;\n"
        "    asm(\"copysign.f32 %0, %1, %2;\" : \"=f\"(r) : \"f\"(y), \"f\"(x));\n"
        "    return r;\n"
        "}\n" BY_ELEMENT_2("och_copysign")},
    {OCH_KL_P_ISNAN, 0, 0, {0}, FN "bool och_isnan(f32 x) { return x != x; }\n"},
    {OCH_KL_P_ISINF, 0, 0, {OCH_KL_P_BITS}, FN "bool och_isinf(f32 x) { return (och_bits<u32>(x) & 0x7fffffffu) == 0x7f800000u; }\n"},
    {OCH_KL_P_ISFINITE, 0, 0, {OCH_KL_P_BITS}, FN "bool och_isfinite(f32 x) { return (och_bits<u32>(x) & 0x7f800000u) != 0x7f800000u; }\n"},
#define U32_1(name, ptx) FN "i32 " name "(u32 x) {\n    i32 r;\n    asm(\"" ptx "\" : \"=r\"(r) : \"r\"(x));\n    return r;\n}\n"
    {OCH_KL_P_CLZ, 0, 0, {0}, U32_1("och_clz", "clz.b32 %0, %1;")},
    {OCH_KL_P_CTZ, 0, 0, {0}, U32_1("och_ctz", "{ .reg .b32 t; brev.b32 t, %1; clz.b32 %0, t; }")},
    {OCH_KL_P_POPCOUNT, 0, 0, {0}, U32_1("och_popcount", "popc.b32 %0, %1;")},
    /* prmt takes its four indices from the nibbles of the lower half. */
    {OCH_KL_P_PERM, 0, 0, {0},
     FN "u32 och_perm(u32 hi, u32 lo, u32 selector) {\n"
        "    const u32 s = (selector & 7) | (selector >> 4 & 0x70) | (selector >> 8 & 0x700) | (selector >> 12 & 0x7000);\n"
        "    u32 r;\n"
        "    asm(\"prmt.b32 %0, %1, %2, %3;\" : \"=r\"(r) : \"r\"(lo), \"r\"(hi), \"r\"(s));\n"
        "    return r;\n"
        "}\n"},
#define DP4A(name, ptx)                                                                                                            \
    FN "i32 " name "(u32 a, u32 b, i32 c) {\n"                                                                                    \
       "    i32 r;\n    asm(\"" ptx " %0, %1, %2, %3;\" : \"=r\"(r) : \"r\"(a), \"r\"(b), \"r\"(c));\n    return r;\n}\n"
    {OCH_KL_P_DOT4_SS, OCH_DOT4_I8, 0, {0}, DP4A("och_dot4_ss", "dp4a.s32.s32")},
    {OCH_KL_P_DOT4_US, OCH_DOT4_I8, 0, {0}, DP4A("och_dot4_us", "dp4a.u32.s32")},
    {OCH_KL_P_DOT4_UU, OCH_DOT4_U8, 0, {0}, DP4A("och_dot4_uu", "dp4a.u32.u32")},

    {OCH_KL_P_FIRST, 0, 0, {OCH_KL_P_WORDS},
     "template <class T> " FN "T och_first(T x) {\n"
     "    u32 active, first;\n"
     "    asm volatile(\"activemask.b32 %0;\" : \"=r\"(active));\n"
     "    asm(\"{ .reg .b32 t; brev.b32 t, %1; clz.b32 %0, t; }\" : \"=r\"(first) : \"r\"(active));\n"
     "    return och_by_words(x, [=](i32 w) {\n"
     "        i32 r;\n"
     "        asm volatile(\"shfl.sync.idx.b32 %0, %1, %2, 31, %3;\" : \"=r\"(r) : \"r\"(w), \"r\"(first), \"r\"(active));\n"
     "        return r;\n"
     "    });\n"
     "}\n"},
    {OCH_KL_P_READ, 0, 0, {0},
     FN "i32 och_read(i32 x, i32 lane) {\n"
        "    i32 r;\n"
        "    asm volatile(\"shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;\" : \"=r\"(r) : \"r\"(x), \"r\"(lane));\n"
        "    return r;\n"
        "}\n"},
    {OCH_KL_P_LANE_XOR, 0, 0, {0},
     "template <int M> " FN "i32 och_lane_xor(i32 x) {\n"
     "    i32 r;\n"
     "    asm volatile(\"shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;\" : \"=r\"(r) : \"r\"(x), \"n\"(M));\n"
     "    return r;\n"
     "}\n"},
    {OCH_KL_P_SHUFFLE, 0, 0, {OCH_KL_P_WORDS, OCH_KL_P_LANE, OCH_KL_P_READ},
     "template <int N, class T> " FN "T och_shuffle(T x, i32 lane) {\n"
     "    const i32 from = (och_lane() & ~(N - 1)) | (lane & (N - 1));\n"
     "    return och_by_words(x, [=](i32 w) { return och_read(w, from); });\n"
     "}\n"},
    {OCH_KL_P_FOLD_TOP, 0, 0, {OCH_KL_P_WORDS, OCH_KL_P_LANE_XOR},
     "template <int M> " FN "i32 och_near(i32 x) { return och_lane_xor<M>(x); }\n"
     "template <int N, class T, class F> " FN "T och_fold_top(T x, F f) {\n"
     "    if constexpr (N > 16) x = f(x, och_by_words(x, [](i32 w) { return och_lane_xor<16>(w); }));\n"
     "    return x;\n"
     "}\n"},
#define MMA_BYTES(name, types)                                                                                                     \
    FN "i32x4 " name "(u32x4 a, u32x2 b, i32x4 c) {\n"                                                                            \
       "    asm volatile(\"mma.sync.aligned.m16n8k32.row.col.s32." types ".s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\"\n" \
       "                 : \"+r\"(c[0]), \"+r\"(c[1]), \"+r\"(c[2]), \"+r\"(c[3])\n"                                          \
       "                 : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), \"r\"(b[1]));\n"                \
       "    return c;\n"                                                                                                          \
       "}\n"
    {OCH_KL_P_MMA_SS, 0, 0, {0}, MMA_BYTES("och_mma_ss", "s8.s8")},
    {OCH_KL_P_MMA_US, 0, 0, {0}, MMA_BYTES("och_mma_us", "u8.s8")},
    {OCH_KL_P_BALLOT, 0, 0, {0},
     FN "u64 och_ballot(bool c) {\n"
        "    u32 r;\n"
        "    asm volatile(\"{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }\" : \"=r\"(r) : \"r\"((u32)c));\n"
        "    return r;\n"
        "}\n"},
    {OCH_KL_P_BARRIER, 0, 0, {0},
     FN "void och_barrier() { asm volatile(\"bar.sync 0;\" ::: \"memory\"); }\n"},
    /* PTX ISA, "Async proxy": wgmma reads LDS beside the lanes' way to it. */
    {OCH_KL_P_BARRIER_ALL, 0, 0, {0},
     FN "void och_barrier_all() { // what was written to LDS is there for wgmma too\n"
        "    asm volatile(\"fence.proxy.async.shared::cta; bar.sync 0;\" ::: \"memory\");\n"
        "}\n"},
    /* PTX ISA, "Data Movement and Conversion Instructions": cp.async, ldmatrix; addresses in the shared window are of 32 bits. */
    {OCH_KL_P_SHARED, 0, 0, {0},
     "#ifdef __clang__\n" FN "u32 och_shared(const void *p) { return (u32)(u64)(const __attribute__((address_space(3))) u8 *)p; }\n"
     "#else\n" FN "u32 och_shared(const void *p) { return (u32)__cvta_generic_to_shared(p); }\n"
     "#endif\n"},
    {OCH_KL_P_COPY_ASYNC, 0, 0, {OCH_KL_P_SHARED},
     FN "void och_copy_async(void *to, const void *from, u32 n_bytes) {\n"
        "    asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16, %2;\" ::\"r\"(och_shared(to)), \"l\"(from), \"r\"(n_bytes) : \"memory\");\n"
        "}\n"},
    {OCH_KL_P_COPY_GROUPS, 0, 0, {0},
     FN "void och_copy_commit() { asm volatile(\"cp.async.commit_group;\" ::: \"memory\"); }\n"
        "template <int N> " FN "void och_copy_wait() { asm volatile(\"cp.async.wait_group %0;\" ::\"n\"(N) : \"memory\"); }\n"},
#define LOAD_MATRIX(name, turned)                                                                                                  \
    FN "u32x4 " name "(const void *p) {\n"                                                                                        \
       "    u32x4 r;\n"                                                                                                           \
       "    asm volatile(\"ldmatrix.sync.aligned.m8n8.x4" turned ".shared.b16 {%0, %1, %2, %3}, [%4];\"\n"                       \
       "                 : \"=r\"(r[0]), \"=r\"(r[1]), \"=r\"(r[2]), \"=r\"(r[3])\n"                                              \
       "                 : \"r\"(och_shared(p))\n"                                                                                \
       "                 : \"memory\");\n"                                                                                        \
       "    return r;\n"                                                                                                          \
       "}\n"
    {OCH_KL_P_LOAD_MATRIX, 0, 0, {OCH_KL_P_SHARED}, LOAD_MATRIX("och_load_matrix", "")},
    {OCH_KL_P_LOAD_TURNED, 0, 0, {OCH_KL_P_SHARED}, LOAD_MATRIX("och_load_turned", ".trans")},
    {OCH_KL_P_HALVES, 0, 0, {OCH_KL_P_F16, OCH_KL_P_BITS, OCH_KL_P_WORDS},
     "template <class R, int N, class V> " FN "R och_halves(V v) {\n"
     "    auto w = och_bits<och_words<N / 2>>(v);\n"
     "#pragma unroll\n"
     "    for (int i = 0; i < N / 2; i++) {\n"
     "        const f32 lo = och_bits<f32>(w.w[i] << 16), hi = och_bits<f32>(w.w[i] & 0xffff0000);\n"
     "        asm(\"cvt.rn.f16x2.f32 %0, %1, %2;\" : \"=r\"(w.w[i]) : \"f\"(hi), \"f\"(lo));\n"
     "    }\n"
     "    return och_bits<R>(w);\n"
     "}\n"},
    {OCH_KL_P_AWAIT, OCH_DEPENDENT_LAUNCH, 0, {0}, // each p is another pointer to global memory behind the wait, as far as a compiler can see
     "template <class P> " FN "P och_behind(P p) {\n"
     "#ifdef __clang__\n"
     "    typedef __attribute__((address_space(1))) char *och_global;\n"
     "    och_global g = (och_global)(char *)p;\n"
     "    asm volatile(\"\" : \"+l\"(g) :: \"memory\");\n"
     "    return (P)(char *)g;\n"
     "#else\n"
     "    u64 g = __cvta_generic_to_global(p);\n"
     "    asm volatile(\"\" : \"+l\"(g) :: \"memory\");\n"
     "    return (P)__cvta_global_to_generic(g);\n"
     "#endif\n"
     "}\n"
     "template <class... P> " FN "void och_await(P &...p) {\n"
     "    asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n"
     "    ((p = och_behind(p)), ...);\n"
     "}\n"},
    /* PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions": where a matrix begins in 16 bytes (bits 0 to 13); how far the next
     * one beside it is where rows are k, what is not looked at where columns are and 16 of them within a swizzled row (16 to 29); how
     * far eight rows are apart (32 to 45), the swizzle (62, 63). */
    {OCH_KL_P_GROUP_PLACE, 0, 0, {OCH_KL_P_SHARED},
     "template <int ROW, int NEXT = 1> " FN "u64 och_group_place(const void *p) { // rows of ROW bytes\n"
     "    return (u64)(och_shared(p) >> 4 & 0x3fff) | (u64)NEXT << 16 | (u64)(ROW / 2) << 32 | (u64)(ROW == 128 ? 1 : ROW == 64 ? 2 : 3) << 62;\n"
     "}\n"},
    /* What is read of the accumulators behind a wait may not be read in front of it. */
    {OCH_KL_P_GROUP_STEPS, 0, 0, {0},
     FN "void och_group_begin() { asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\"); }\n" FN
        "void och_group_end() { asm volatile(\"wgmma.commit_group.sync.aligned;\" ::: \"memory\"); }\n"
        "template <int N, int M> " FN "void och_group_wait(f32x4 (&c)[M]) {\n"
        "    asm volatile(\"wgmma.wait_group.sync.aligned %0;\" ::\"n\"(N) : \"memory\");\n"
        "    if constexpr (N == 0) {\n"
        "#pragma unroll\n"
        "        for (int i = 0; i < M; i++) asm volatile(\"\" : \"+f\"(c[i][0]), \"+f\"(c[i][1]), \"+f\"(c[i][2]), \"+f\"(c[i][3])::\"memory\");\n"
        "    }\n"
        "}\n"},
    /* What makes them is done before the instructions begin, not between them. */
    {OCH_KL_P_GROUP_HOLD, 0, 0, {OCH_KL_P_BITS},
     "template <class V> " FN "u32x4 och_group_words(V v) {\n"
     "    u32x4 w = och_bits<u32x4>(v);\n"
     "    asm volatile(\"\" : \"+r\"(w[0]), \"+r\"(w[1]), \"+r\"(w[2]), \"+r\"(w[3]));\n"
     "    return w;\n"
     "}\n"
     "template <int M> " FN "void och_group_hold(f32x4 (&c)[M]) {\n"
     "#pragma unroll\n"
     "    for (int i = 0; i < M; i++) asm volatile(\"\" : \"+f\"(c[i][0]), \"+f\"(c[i][1]), \"+f\"(c[i][2]), \"+f\"(c[i][3]));\n"
     "}\n"},
    {OCH_KL_P_FENCE, 0, 0, {0},
     "template <int SCOPE> " FN "void och_fence() { // 0 wave, 1 group, 2 device, 3 system\n"
     "    if constexpr (SCOPE == 0) asm volatile(\"bar.warp.sync 0xffffffff;\" ::: \"memory\");\n"
     "    else if constexpr (SCOPE == 1) asm volatile(\"fence.acq_rel.cta;\" ::: \"memory\");\n"
     "    else if constexpr (SCOPE == 2) asm volatile(\"fence.acq_rel.gpu;\" ::: \"memory\");\n"
     "    else asm volatile(\"fence.acq_rel.sys;\" ::: \"memory\");\n"
     "}\n"},
/* Scopes wave and group are the thread block's. */
#define BY_SCOPE(before, after)                                                                                                    \
    "    if constexpr (SCOPE < 2) asm volatile(\"" before ".cta" after ";\n"                                                      \
    "    else if constexpr (SCOPE == 2) asm volatile(\"" before ".gpu" after ";\n"                                                \
    "    else asm volatile(\"" before ".sys" after ";\n"
#define RMW(name, op, T, suffix, c)                                                                                                \
    "template <int SCOPE> " FN T " och_atomic_" name "(" T " *p, " T " x) {\n    " T " r;\n" BY_SCOPE(                            \
        "atom.relaxed", "." op "." suffix " %0, [%1], %2;\" : \"=" c "\"(r) : \"l\"(p), \"" c "\"(x) : \"memory\")") "    return r;\n}\n"
#define RMW3(name, op, s32, s64) RMW(name, op, "i32", s32, "r") RMW(name, op, "u32", "u32", "r") RMW(name, op, "u64", s64, "l")
#define RMW_BITS(name, op) RMW(name, op, "i32", "b32", "r") RMW(name, op, "u32", "b32", "r") RMW(name, op, "u64", "b64", "l")
    {OCH_KL_P_ATOMIC_ADD, 0, 0, {0}, RMW3("add", "add", "s32", "u64") RMW("add", "add", "f32", "f32", "f")},
    {OCH_KL_P_ATOMIC_MIN, 0, 0, {0}, RMW3("min", "min", "s32", "u64")},
    {OCH_KL_P_ATOMIC_MAX, 0, 0, {0}, RMW3("max", "max", "s32", "u64")},
    {OCH_KL_P_ATOMIC_OR, 0, 0, {0}, RMW_BITS("or", "or")},
    {OCH_KL_P_ATOMIC_AND, 0, 0, {0}, RMW_BITS("and", "and")},
    {OCH_KL_P_ATOMIC_EXCHANGE, 0, 0, {0}, RMW_BITS("exchange", "exch") RMW("exchange", "exch", "f32", "b32", "f")},
#define CAS(T, suffix, c)                                                                                                          \
    "template <int SCOPE> " FN T " och_atomic_cas(" T " *p, " T " expected, " T " x) {\n    " T " r;\n" BY_SCOPE(                 \
        "atom.relaxed", ".cas." suffix " %0, [%1], %2, %3;\" : \"=" c "\"(r) : \"l\"(p), \"" c "\"(expected), \"" c               \
                        "\"(x) : \"memory\")") "    return r;\n}\n"
    {OCH_KL_P_ATOMIC_CAS, 0, 0, {0}, CAS("i32", "b32", "r") CAS("u32", "b32", "r") CAS("u64", "b64", "l") CAS("f32", "b32", "f")},
#define LOAD(T, suffix, c)                                                                                                         \
    "template <int SCOPE> " FN T " och_atomic_load(const " T " *p) {\n    " T " r;\n" BY_SCOPE(                                   \
        "ld.acquire", "." suffix " %0, [%1];\" : \"=" c "\"(r) : \"l\"(p) : \"memory\")") "    return r;\n}\n"
    {OCH_KL_P_ATOMIC_LOAD, 0, 0, {0}, LOAD("i32", "s32", "r") LOAD("u32", "u32", "r") LOAD("u64", "u64", "l") LOAD("f32", "f32", "f")},
#define STORE(T, suffix, c)                                                                                                        \
    "template <int SCOPE> " FN "void och_atomic_store(" T " *p, " T " x) {\n" BY_SCOPE(                                           \
        "st.release", "." suffix " [%0], %1;\" :: \"l\"(p), \"" c "\"(x) : \"memory\")") "}\n"
    {OCH_KL_P_ATOMIC_STORE, 0, 0, {0}, STORE("i32", "s32", "r") STORE("u32", "u32", "r") STORE("u64", "u64", "l") STORE("f32", "f32", "f")},
};

/* Without a least number of workgroups a multiprocessor ptxas keeps to few registers, and puts a load behind the use of the one
 * before it; told that one is enough, it has them under way together. */
static void launch(och_strbuf *out, const och_kl_signature *s, const och_target *t, int occupancy) {
    int least = occupancy * t->simds_cu / s->waves; /* workgroups; below 0 where nothing was said */
    if (occupancy) och_strbuf_printf(out, "__launch_bounds__(%d, %d)", s->threads, least > 1 ? least : 1);
    else och_strbuf_printf(out, "__launch_bounds__(%d)", s->threads);
}

const och_kl_dialect och_kl_dialect_cuda = {
    .name = "CUDA C++",
    .head = "#line 1 \"prologue\"\n"
            "#ifdef __CUDACC_RTC__\n"
            "#pragma nv_diag_suppress 177 // functions that a kernel has no use for\n"
            "#endif\n"
            "#if defined(__clang__) && !defined(__global__)\n"
            "#define __global__ __attribute__((global))\n"
            "#define __device__ __attribute__((device))\n"
            "#define __shared__ __attribute__((shared))\n"
            "#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))\n"
            "#define __forceinline__ inline __attribute__((always_inline))\n"
            "#endif\n",
    .vector = "typedef och_vector<%s, %d> %sx%d;\n",
    .f16 = NULL,
    .launch = launch,
    .release = "asm volatile(\"griddepcontrol.launch_dependents;\" ::: \"memory\")", /* PTX ISA 7.8 */
    .lds_static_bytes = 49152, /* CUDA C++ Programming Guide, "Compute Capabilities": more must be dynamic */
    .lds_block = "alignas(%d) extern __shared__ u8 och_lds[];",
    .rows = rows,
    .n_rows = (int)(sizeof rows / sizeof rows[0]),
};
