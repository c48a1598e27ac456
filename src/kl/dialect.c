#include "kl/dialect.h"

#define FN "static __device__ __forceinline__ "
#define N_ROWS(rows) ((int)(sizeof(rows) / sizeof(rows)[0]))

/* What C++ itself says. */
/* Rows that all dialects share, looked at after a dialect's own. */
static const och_kl_piece_row shared_rows[] = {
    {OCH_KL_P_EACH,
     0,
     0,
     {0},
     "template <class R, int N, class V, class F> " FN "R och_each(V v, F f) {\n"
     "    R r;\n"
     "#pragma unroll\n"
     "    for (int i = 0; i < N; i++) r[i] = f(v[i]);\n"
     "    return r;\n"
     "}\n"},
    {OCH_KL_P_SLICE,
     0,
     0,
     {0},
     "template <class R, int N, class V> " FN "R och_slice(V v, int first) {\n"
     "    R r;\n"
     "#pragma unroll\n"
     "    for (int i = 0; i < N; i++) r[i] = v[first + i];\n"
     "    return r;\n"
     "}\n"},
    {OCH_KL_P_CONCAT,
     0,
     0,
     {0},
     "template <class R, int N, class V> " FN "R och_concat(V a, V b) { // N elements each\n"
     "    R r;\n"
     "#pragma unroll\n"
     "    for (int i = 0; i < N; i++) {\n"
     "        r[i] = a[i];\n"
     "        r[N + i] = b[i];\n"
     "    }\n"
     "    return r;\n"
     "}\n"},
    {OCH_KL_P_LANE, 0, 0, {OCH_KL_P_THREAD}, FN "i32 och_lane() { return och_thread() & (OCH_WAVE - 1); }\n"},
    {OCH_KL_P_MULHI,
     0,
     0,
     {0},
     FN "i32 och_mulhi(i32 a, i32 b) { return (i32)((i64)a * b >> 32); }\n" FN
        "u32 och_mulhi(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }\n"},
    {OCH_KL_P_BFE,
     0,
     0,
     {0},
     FN "u32 och_bfe(u32 x, u32 at, u32 n) { return n > 31 ? x >> (at & 31) : x >> (at & 31) & ((1u << n) - 1); }\n"},
    {OCH_KL_P_SBFE,
     0,
     0,
     {0},
     FN "i32 och_sbfe(u32 x, u32 at, u32 n) { return n ? (i32)(x << (32 - at - n & 31)) >> (32 - n & 31) : 0; }\n"},
    {OCH_KL_P_DOT4_SS,
     0,
     0,
     {0},
     FN "i32 och_dot4_ss(u32 a, u32 b, i32 c) {\n"
        "#pragma unroll\n"
        "    for (int i = 0; i < 32; i += 8) c += (i32)(i8)(a >> i) * (i32)(i8)(b >> i);\n"
        "    return c;\n"
        "}\n"},
    {OCH_KL_P_DOT4_US,
     0,
     0,
     {0},
     FN "i32 och_dot4_us(u32 a, u32 b, i32 c) {\n"
        "#pragma unroll\n"
        "    for (int i = 0; i < 32; i += 8) c += (i32)(u8)(a >> i) * (i32)(i8)(b >> i);\n"
        "    return c;\n"
        "}\n"},
    {OCH_KL_P_DOT4_UU,
     0,
     0,
     {0},
     FN "i32 och_dot4_uu(u32 a, u32 b, i32 c) {\n"
        "#pragma unroll\n"
        "    for (int i = 0; i < 32; i += 8) c += (i32)(u8)(a >> i) * (i32)(u8)(b >> i);\n"
        "    return c;\n"
        "}\n"},
    {OCH_KL_P_DOT8_US4,
     0,
     0,
     {0},
     FN "i32 och_dot8_us4(u32 a, u32 b, i32 c) {\n"
        "#pragma unroll\n"
        "    for (int i = 0; i < 32; i += 4) c += (i32)(a >> i & 15) * ((i32)(b << (28 - i)) >> 28);\n"
        "    return c;\n"
        "}\n"},
    {OCH_KL_P_DOT2,
     0,
     0,
     {OCH_KL_P_FMA},
     FN "f32 och_dot2(f16x2 a, f16x2 b, f32 c) { return och_fma((f32)a[0], (f32)b[0], och_fma((f32)a[1], (f32)b[1], "
        "c)); }\n"},
    /* max before min: a NaN becomes the least. */
    {OCH_KL_P_PACK4_I8,
     0,
     0,
     {OCH_KL_P_MIN, OCH_KL_P_MAX, OCH_KL_P_ROUND},
     FN "u32 och_pack4_i8(f32x4 v) {\n"
        "    u32 r = 0;\n"
        "#pragma unroll\n"
        "    for (int i = 0; i < 4; i++) r |= ((u32)(i32)och_min(och_max(och_round(v[i]), -128.0f), 127.0f) & 255) << "
        "8 * i;\n"
        "    return r;\n"
        "}\n"},
    {OCH_KL_P_UNPACK4_I8,
     0,
     0,
     {0},
     FN "i32x4 och_unpack4_i8(u32 u) { return i32x4{(i32)(u << 24) >> 24, (i32)(u << 16) >> 24, (i32)(u << 8) >> 24, "
        "(i32)u >> 24}; }\n"},
    {OCH_KL_P_UNPACK4_U8,
     0,
     0,
     {0},
     FN "u32x4 och_unpack4_u8(u32 u) { return u32x4{u & 255, u >> 8 & 255, u >> 16 & 255, u >> 24}; }\n"},

    /* bf16: to nearest even; a NaN stays one. */
    {OCH_KL_P_TO_BF16,
     0,
     0,
     {OCH_KL_P_BITS},
     FN "bf16 och_to_bf16(f32 x) {\n"
        "    const u32 u = och_bits<u32>(x);\n"
        "    return (bf16)((x != x ? u | 0x400000u : u + 0x7fffu + (u >> 16 & 1)) >> 16);\n"
        "}\n"},
    {OCH_KL_P_FROM_BF16,
     0,
     0,
     {OCH_KL_P_BITS},
     FN "f32 och_from_bf16(bf16 x) { return och_bits<f32>((u32)x << 16); }\n"},
    /* Eight-bit floats of M mantissa bits, by arithmetic: values beyond the largest become the largest, NaN stays NaN.
     */
    {OCH_KL_P_FP8_FIELDS,
     0,
     0,
     {OCH_KL_P_BITS, OCH_KL_P_MIN, OCH_KL_P_ROUND},
     "template <int M, int BIAS> " FN "u32 och_to_f8_bits(f32 magnitude, f32 largest) {\n"
     "    const f32 x = och_min(magnitude, largest);\n"
     "    const u32 u = och_bits<u32>(x);\n"
     "    const u32 normal = (u + (1u << (22 - M)) - 1 + (u >> (23 - M) & 1)) >> (23 - M);\n"
     "    const u32 small = (u32)(i32)och_round(x * och_bits<f32>((u32)(127 + BIAS + M - 1) << 23));\n"
     "    return u < (u32)(128 - BIAS) << 23 ? small : normal - ((u32)(127 - BIAS) << M);\n"
     "}\n"
     "template <int M, int BIAS> " FN "f32 och_from_f8_bits(u32 magnitude, u32 sign) {\n"
     "    const f32 normal = och_bits<f32>((magnitude << (23 - M)) + ((u32)(127 - BIAS) << 23));\n"
     "    const f32 small = (f32)(i32)magnitude * och_bits<f32>((u32)(127 - BIAS - M + 1) << 23);\n"
     "    return och_bits<f32>(och_bits<u32>(magnitude < 1u << M ? small : normal) | sign << 31);\n"
     "}\n"},
    {OCH_KL_P_TO_FP8,
     0,
     OCH_KL_WHEN_FNUZ,
     {OCH_KL_P_FP8_FIELDS, OCH_KL_P_ABS},
     FN "fp8 och_to_fp8(f32 x) { // E4M3 FNUZ\n"
        "    const u32 m = och_to_f8_bits<3, 8>(och_abs(x), 240.0f);\n"
        "    return (fp8)(x != x ? 0x80u : m ? m | och_bits<u32>(x) >> 24 & 128 : 0u);\n"
        "}\n"},
    {OCH_KL_P_TO_FP8,
     0,
     0,
     {OCH_KL_P_FP8_FIELDS, OCH_KL_P_ABS},
     FN
     "fp8 och_to_fp8(f32 x) { // E4M3 OCP\n"
     "    return (fp8)((x != x ? 0x7fu : och_to_f8_bits<3, 7>(och_abs(x), 448.0f)) | (och_bits<u32>(x) >> 24 & 128));\n"
     "}\n"},
    {OCH_KL_P_FROM_FP8,
     0,
     OCH_KL_WHEN_FNUZ,
     {OCH_KL_P_FP8_FIELDS},
     FN "f32 och_from_fp8(fp8 x) { return x == 0x80 ? och_bits<f32>(0x7fc00000u) : och_from_f8_bits<3, 8>(x & 127u, x "
        ">> 7); }\n"},
    {OCH_KL_P_FROM_FP8,
     0,
     0,
     {OCH_KL_P_FP8_FIELDS},
     FN "f32 och_from_fp8(fp8 x) { return (x & 127) == 127 ? och_bits<f32>(0x7fc00000u) : och_from_f8_bits<3, 7>(x & "
        "127u, x >> 7); }\n"},
    {OCH_KL_P_TO_BF8,
     0,
     OCH_KL_WHEN_FNUZ,
     {OCH_KL_P_FP8_FIELDS, OCH_KL_P_ABS},
     FN "bf8 och_to_bf8(f32 x) { // E5M2 FNUZ\n"
        "    const u32 m = och_to_f8_bits<2, 16>(och_abs(x), 57344.0f);\n"
        "    return (bf8)(x != x ? 0x80u : m ? m | och_bits<u32>(x) >> 24 & 128 : 0u);\n"
        "}\n"},
    {OCH_KL_P_TO_BF8,
     0,
     0,
     {OCH_KL_P_FP8_FIELDS, OCH_KL_P_ABS},
     FN "bf8 och_to_bf8(f32 x) { // E5M2 OCP\n"
        "    return (bf8)((x != x ? 0x7eu : och_to_f8_bits<2, 15>(och_abs(x), 57344.0f)) | (och_bits<u32>(x) >> 24 & "
        "128));\n"
        "}\n"},
    {OCH_KL_P_FROM_BF8,
     0,
     OCH_KL_WHEN_FNUZ,
     {OCH_KL_P_FP8_FIELDS},
     FN "f32 och_from_bf8(bf8 x) { return x == 0x80 ? och_bits<f32>(0x7fc00000u) : och_from_f8_bits<2, 16>(x & 127u, x "
        ">> 7); }\n"},
    {OCH_KL_P_FROM_BF8,
     0,
     0,
     {OCH_KL_P_BITS, OCH_KL_P_F16},
     FN
     "f32 och_from_bf8(bf8 x) { return (f32)och_bits<f16>((u16)(x << 8)); } // E5M2 OCP: the upper half of an f16\n"},

    /* Values of any size go from lane to lane a word at a time. */
    {OCH_KL_P_WORDS,
     0,
     0,
     {OCH_KL_P_BITS},
     "template <int N> struct och_words { i32 w[N]; };\n"
     "template <class T, class F> " FN "T och_by_words(T x, F f) {\n"
     "    if constexpr (sizeof(T) >= 4) {\n"
     "        auto b = och_bits<och_words<sizeof(T) / 4>>(x);\n"
     "#pragma unroll\n"
     "        for (int i = 0; i < (int)sizeof(T) / 4; i++) b.w[i] = f(b.w[i]);\n"
     "        return och_bits<T>(b);\n"
     "    } else if constexpr (sizeof(T) == 2) {\n"
     "        return och_bits<T>((u16)f((i32)och_bits<u16>(x)));\n"
     "    } else {\n"
     "        return (T)f((i32)x);\n"
     "    }\n"
     "}\n"},
    {OCH_KL_P_SHUFFLE_XOR,
     0,
     0,
     {OCH_KL_P_WORDS, OCH_KL_P_LANE_XOR},
     "template <int M, class T> " FN "T och_shuffle_xor(T x) {\n"
     "    return och_by_words(x, [](i32 w) { return och_lane_xor<M>(w); });\n"
     "}\n"},
    {OCH_KL_P_BROADCAST,
     0,
     0,
     {OCH_KL_P_WORDS, OCH_KL_P_READ},
     "template <class T> " FN "T och_broadcast(T x, i32 lane) {\n"
     "    return och_by_words(x, [=](i32 w) { return och_read(w, lane); });\n"
     "}\n"},
    /* The order of a reduction is that of neighbours, pairs, quads and so on, whatever moves the values. */
    {OCH_KL_P_FOLD,
     0,
     0,
     {OCH_KL_P_WORDS, OCH_KL_P_FOLD_TOP},
     "template <int N, class T, class F> " FN "T och_fold(T x, F f) {\n"
     "    if constexpr (N > 1) x = f(x, och_by_words(x, [](i32 w) { return och_near<1>(w); }));\n"
     "    if constexpr (N > 2) x = f(x, och_by_words(x, [](i32 w) { return och_near<2>(w); }));\n"
     "    if constexpr (N > 4) x = f(x, och_by_words(x, [](i32 w) { return och_near<4>(w); }));\n"
     "    if constexpr (N > 8) x = f(x, och_by_words(x, [](i32 w) { return och_near<8>(w); }));\n"
     "    return och_fold_top<N>(x, f);\n"
     "}\n"},
    {OCH_KL_P_WAVE_SUM,
     0,
     0,
     {OCH_KL_P_FOLD},
     "template <int N, class T> " FN "T och_wave_sum(T x) {\n"
     "    return och_fold<N>(x, [](T a, T b) { return (T)(a + b); });\n"
     "}\n"},
    {OCH_KL_P_WAVE_MAX,
     0,
     0,
     {OCH_KL_P_FOLD, OCH_KL_P_MAX},
     "template <int N, class T> " FN "T och_wave_max(T x) {\n"
     "    return och_fold<N>(x, [](T a, T b) { return och_max(a, b); });\n"
     "}\n"},
    {OCH_KL_P_WAVE_MIN,
     0,
     0,
     {OCH_KL_P_FOLD, OCH_KL_P_MIN},
     "template <int N, class T> " FN "T och_wave_min(T x) {\n"
     "    return och_fold<N>(x, [](T a, T b) { return och_min(a, b); });\n"
     "}\n"},
    {OCH_KL_P_WAVE_SCAN,
     0,
     0,
     {OCH_KL_P_SHUFFLE, OCH_KL_P_LANE},
     "template <int N, class T> " FN "T och_wave_scan(T x) {\n"
     "    const i32 lane = och_lane() & (N - 1);\n"
     "#pragma unroll\n"
     "    for (int d = 1; d < N; d *= 2) {\n"
     "        const T y = och_shuffle<N>(x, lane - d);\n"
     "        if (lane >= d) x = (T)(y + x);\n"
     "    }\n"
     "    return x;\n"
     "}\n"},
    /* Of each lane's elements of the result, in rows l / 4 and l / 4 + 8 and columns l % 4 * 2 and the next, where the four lanes of a
     * row have four bytes of it each, and the four of a column. */
#define MMA(name, dot)                                                                                                             \
    FN "i32x4 " name "(u32x4 a, u32x2 b, i32x4 c) {\n"                                                                            \
       "    const i32 lane = och_lane() & 31;\n"                                                                                  \
       "#pragma unroll 1\n"                                                                                                       \
       "    for (int k = 0; k < 4; k++) {\n"                                                                                      \
       "        const u32x4 x = och_shuffle<32>(a, (lane & ~3) + k);\n"                                                           \
       "#pragma unroll\n"                                                                                                         \
       "        for (int j = 0; j < 2; j++) {\n"                                                                                  \
       "            const u32x2 y = och_shuffle<32>(b, (lane % 4 * 2 + j) * 4 + k);\n"                                            \
       "            c[j] = " dot "(x[2], y[1], " dot "(x[0], y[0], c[j]));\n"                                                     \
       "            c[j + 2] = " dot "(x[3], y[1], " dot "(x[1], y[0], c[j + 2]));\n"                                             \
       "        }\n"                                                                                                              \
       "    }\n"                                                                                                                  \
       "    return c;\n"                                                                                                          \
       "}\n"
    {OCH_KL_P_MMA_SS, 0, 0, {OCH_KL_P_SHUFFLE, OCH_KL_P_LANE, OCH_KL_P_DOT4_SS}, MMA("och_mma_ss", "och_dot4_ss")},
    {OCH_KL_P_MMA_US, 0, 0, {OCH_KL_P_SHUFFLE, OCH_KL_P_LANE, OCH_KL_P_DOT4_US}, MMA("och_mma_us", "och_dot4_us")},
    {OCH_KL_P_HALVES,
     0,
     0,
     {OCH_KL_P_F16, OCH_KL_P_FROM_BF16},
     "template <class R, int N, class V> " FN "R och_halves(V v) {\n"
     "    R r;\n"
     "#pragma unroll\n"
     "    for (int i = 0; i < N; i++) r[i] = (f16)och_from_bf16(v[i]);\n"
     "    return r;\n"
     "}\n"},
};

const och_kl_dialect *och_kl_dialect_of(const och_kl_profile *p) {
    return p->target.target->vendor == OCH_VENDOR_AMD ? &och_kl_dialect_hip : &och_kl_dialect_cuda;
}

static uint32_t facts(const och_kl_profile *p) {
    const och_target *t = p->target.target;
    uint32_t f = p->wave == 64 ? OCH_KL_WHEN_WAVE64 : OCH_KL_WHEN_WAVE32;
    if (t->waves & OCH_WAVE32) f |= OCH_KL_WHEN_ROWS;
    if (t->matrix == OCH_MATRIX_WMMA_GFX11 || t->matrix == OCH_MATRIX_WMMA_GFX12 || t->matrix == OCH_MATRIX_WMMA_GFX125)
        f |= OCH_KL_WHEN_HALVES; /* they came with the same generation */
    if (t->fp8 == OCH_FP8_FNUZ) f |= OCH_KL_WHEN_FNUZ;
    if (t->ops & OCH_CVT_FP8) f |= OCH_KL_WHEN_CVT_FP8;
    return f;
}

static const och_kl_piece_row *find_in(const och_kl_piece_row *rows, int n, och_kl_piece piece, uint32_t ops, uint32_t when) {
    for (int i = 0; i < n; i++)
        if (rows[i].piece == piece && (rows[i].ops & ops) == rows[i].ops && (rows[i].when & when) == rows[i].when)
            return &rows[i];
    return NULL;
}

const och_kl_piece_row *och_kl_piece_find(const och_kl_dialect *d, och_kl_piece piece, const och_kl_profile *p) {
    uint32_t ops = p->target.target->ops, when = facts(p);
    const och_kl_piece_row *row = find_in(d->rows, d->n_rows, piece, ops, when);
    return row ? row : find_in(shared_rows, N_ROWS(shared_rows), piece, ops, when);
}
