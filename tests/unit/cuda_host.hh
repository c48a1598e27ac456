// A CUDA text's own words, on threads of the host, so that what it does to LDS is seen: tests/unit/kl_host.h puts this in front
// of a text from which every function that holds PTX was taken out. What runs by itself on the device runs here either at once or as
// late as the text's waits allow (`late`), and products read LDS as it was when a lane last fenced what it wrote (PTX ISA: "Async
// proxy", "Asynchronous Warpgroup Level Matrix Instructions", "Data Movement": cp.async).
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define __device__
#define __global__
#define __shared__
#define __forceinline__ inline
#define __launch_bounds__(...)

typedef unsigned char u8;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;

struct f16 {
    u16 h;
    f16() = default;
    explicit f16(f32 x) {
        _Float16 t = (_Float16)x;
        memcpy(&h, &t, 2);
    }
    operator f32() const {
        _Float16 t;
        memcpy(&t, &h, 2);
        return (f32)t;
    }
};
#define HOST_F16(op) \
    static inline f16 operator op(f16 a, f16 b) { return f16((f32)a op(f32) b); }
HOST_F16(+) HOST_F16(-) HOST_F16(*)

enum { LDS_BYTES = 232448, BLOCK = 16, WINDOW = 1024 /* where LDS begins in its window */ };
extern "C" {
alignas(1024) u8 och_lds[LDS_BYTES];
}
static u8 seen[LDS_BYTES];              // what products read
static int reading[LDS_BYTES / BLOCK];  // products that are under way there

static bool late_copies, late_products;
static pthread_barrier_t meet;
static int failures;
static void broken(const char *what) {
    if (__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED) == 0) fprintf(stderr, "%s\n", what);
}

struct copy { u8 *to; const u8 *from; u32 n; };
struct product {
    f32 *c;
    u64 a, b;
    int n;
    bool bf16, turned;
    u16 own[2][16]; // turned: the lane's rows of A
};
template <class T> struct queue { // of groups, the last of which is open
    enum { MOST = 64, GROUPS = 16 };
    T items[MOST * GROUPS];
    int n_items, ends[GROUPS], n_groups;
    void add(const T &x) {
        if (n_items == MOST * GROUPS) { broken("too much is under way"); n_items = 0; }
        items[n_items++] = x;
    }
    void commit() {
        if (n_groups == GROUPS) { broken("too many groups are under way"); n_groups = 0; }
        ends[n_groups++] = n_items;
    }
    template <class F> void keep(int most, F run) {
        int done = n_groups - most;
        if (done <= 0) return;
        int n = ends[done - 1];
        for (int i = 0; i < n; i++) run(items[i]);
        for (int i = n; i < n_items; i++) items[i - n] = items[i];
        for (int i = done; i < n_groups; i++) ends[i - done] = ends[i] - n;
        n_items -= n;
        n_groups = most;
    }
};
struct written { u32 at, n; };
static thread_local int thread_number, group_number[3];
static thread_local queue<copy> copies;
static thread_local queue<product> products;
static thread_local written writes[8192];
static thread_local int n_writes;
static thread_local bool begun;

static bool in_lds(const void *p) { return (const u8 *)p >= och_lds && (const u8 *)p < och_lds + LDS_BYTES; }
static void wrote(const void *p, u32 n) {
    u32 at = (u32)((const u8 *)p - och_lds);
    if (n_writes == 8192) { broken("too many writes without a barrier"); n_writes = 0; }
    writes[n_writes++] = {at, n};
}
static void about_to_write(const void *p, u32 n) {
    u32 at = (u32)((const u8 *)p - och_lds);
    for (u32 i = at / BLOCK; i <= (at + n - 1) / BLOCK; i++)
        if (__atomic_load_n(&reading[i], __ATOMIC_SEQ_CST)) broken("LDS is written while a product reads it");
}

static inline i32 och_thread() { return thread_number; }
template <int AXIS> static i32 och_group_id() { return group_number[AXIS]; }
template <class T> static T och_first(T x) { return x; } // what is asked so is the same in a wave
template <class P> static inline P och_behind(P p) { return p; }
template <class... P> static inline void och_await(P &...) {}
static inline u32 och_shared(const void *p) {
    if (!in_lds(p)) broken("no address of LDS");
    return (u32)((const u8 *)p - och_lds) + WINDOW;
}
static void meet_all() { pthread_barrier_wait(&meet); }
static inline void och_barrier() { meet_all(); }
static inline void och_barrier_all() {
    for (int i = 0; i < n_writes; i++) memcpy(seen + writes[i].at, och_lds + writes[i].at, writes[i].n);
    n_writes = 0;
    meet_all();
}
template <class T, int A> static void och_put(void *p, T x) {
    if ((u64)p % A) broken("a store that is not aligned");
    if (in_lds(p)) about_to_write(p, sizeof x);
    memcpy(p, &x, sizeof x);
    if (in_lds(p)) wrote(p, sizeof x);
}
// An array in LDS, whose elements may be assigned to.
template <class T> struct lds_element {
    T *p;
    operator T() const { return *p; }
    T operator=(T x) const {
        about_to_write(p, sizeof x);
        *p = x;
        wrote(p, sizeof x);
        return x;
    }
    T *operator&() const { return p; }
};
template <class T> struct lds_array {
    T *p;
    lds_element<T> operator[](i64 i) const { return {p + i}; }
};
static void run_copy(const copy &c) {
    if (c.n) memcpy(c.to, c.from, c.n);
    memset(c.to + c.n, 0, 16 - c.n);
    wrote(c.to, 16);
}
static void och_copy_async(void *to, const void *from, u32 n) {
    if ((u64)to % 16 || (n && (u64)from % 16) || n > 16 || !in_lds(to)) broken("a copy that is not aligned");
    about_to_write(to, 16);
    copy c = {(u8 *)to, (const u8 *)from, n};
    if (late_copies) copies.add(c);
    else run_copy(c);
}
static void och_copy_commit() { copies.commit(); }
template <int N> static void och_copy_wait() { copies.keep(N, run_copy); }

// ---- products of four waves ----
static f32 value_of(u16 h, bool bf16) {
    u32 u = (u32)h << 16;
    f32 x;
    if (bf16) memcpy(&x, &u, 4);
    else {
        f16 f;
        f.h = h;
        x = f;
    }
    return x;
}
static f32 half_at(u32 at, bool bf16) {
    u16 h;
    memcpy(&h, seen + at, 2);
    return value_of(h, bf16);
}
// Byte of LDS of (row, k) of a matrix of halves, K-major: eight rows of as many bytes as are swizzled, one such piece after another.
static u32 byte_of(u64 d, int row, int k) {
    u32 kind = (u32)(d >> 62), piece = kind == 1 ? 128 : kind == 2 ? 64 : kind == 3 ? 32 : 16;
    u32 at = (u32)(d & 0x3fff) * 16 + (u32)(row / 8) * ((u32)(d >> 32 & 0x3fff) * 16) + (u32)(row % 8) * piece + (u32)k * 2;
    u32 xors = kind == 1 ? 0x70 : kind == 2 ? 0x30 : kind == 3 ? 0x10 : 0;
    at ^= at >> 3 & xors;
    if (!kind || (d >> 49 & 7) || at < WINDOW || at + 2 > WINDOW + LDS_BYTES) {
        broken("a matrix that is not in LDS, or not swizzled");
        return 0;
    }
    return at - WINDOW;
}
// The same of (k, column) of one that lies as it is multiplied, N-major (the canonical layouts of the same chapter): matrices side by
// side, each of columns that a swizzled row holds, eight rows of it one behind another.
static u32 byte_of_turned(u64 d, int k, int col) {
    u32 kind = (u32)(d >> 62), piece = kind == 1 ? 128 : kind == 2 ? 64 : kind == 3 ? 32 : 16;
    u32 beside = (u32)(d >> 16 & 0x3fff) * 16, below = (u32)(d >> 32 & 0x3fff) * 16, cols = piece / 2;
    u32 at = (u32)(d & 0x3fff) * 16 + (u32)col / cols * beside + (u32)(k / 8) * below + (u32)(k % 8) * piece + (u32)col % cols * 2;
    u32 xors = kind == 1 ? 0x70 : kind == 2 ? 0x30 : kind == 3 ? 0x10 : 0;
    at ^= at >> 3 & xors;
    if (!kind || (d >> 49 & 7) || at < WINDOW || at + 2 > WINDOW + LDS_BYTES) {
        broken("a matrix that is not in LDS, or not swizzled");
        return 0;
    }
    return at - WINDOW;
}
static void mark(const product &p, int by) {
    if (p.turned) {
        for (int k = 0; k < 16; k++)
            for (int col = 0; col < p.n; col += 8) __atomic_fetch_add(&reading[byte_of_turned(p.b, k, col) / BLOCK], by, __ATOMIC_SEQ_CST);
        return;
    }
    for (int row = 0; row < (p.n > 64 ? p.n : 64); row++)
        for (int k = 0; k < 16; k += 8) {
            if (row < 64) __atomic_fetch_add(&reading[byte_of(p.a, row, k) / BLOCK], by, __ATOMIC_SEQ_CST);
            if (row < p.n) __atomic_fetch_add(&reading[byte_of(p.b, row, k) / BLOCK], by, __ATOMIC_SEQ_CST);
        }
}
// A lane's share, as the figure of the accumulators of wgmma.m64nNk16 has it.
static void run_product(const product &p) {
    int wave = thread_number / 32 % 4, lane = thread_number % 32;
    for (int i = 0; i < p.n / 2; i++) {
        int row = 16 * wave + lane / 4 + 8 * (i / 2 % 2), col = 8 * (i / 4) + 2 * (lane % 4) + i % 2;
        for (int k = 0; p.turned && k < 16; k++)
            p.c[i] += value_of(p.own[i / 2 % 2][k], p.bf16) * half_at(byte_of_turned(p.b, k, col), p.bf16);
        for (int k = 0; !p.turned && k < 16; k++) p.c[i] += half_at(byte_of(p.a, row, k), p.bf16) * half_at(byte_of(p.b, col, k), p.bf16);
    }
    if (late_products) mark(p, -1);
}
static void och_group_begin() { begun = true; }
static void och_group_end() { products.commit(); }
static void group_mma(f32 *c, u64 a, u64 b, int n, bool bf16) {
    if (!begun) broken("a product without wgmma.fence before it");
    product p = {c, a, b, n, bf16, false, {}};
    if (!late_products) return run_product(p);
    mark(p, 1);
    products.add(p);
}
template <int N, class V, int M> static void och_group_wait(V (&)[M]) {
    products.keep(N, run_product);
    if (N == 0) begun = false;
}
#define HOST_MMA(n)                                                                                                       \
    template <class V> static void och_group_mma_m64n##n##k16_bf16(V *c, u64 a, u64 b) { group_mma((f32 *)c, a, b, n, true); } \
    template <class V> static void och_group_mma_m64n##n##k16_f16(V *c, u64 a, u64 b) { group_mma((f32 *)c, a, b, n, false); }
HOST_MMA(16) HOST_MMA(32) HOST_MMA(48) HOST_MMA(64) HOST_MMA(96) HOST_MMA(128) HOST_MMA(192) HOST_MMA(208) HOST_MMA(224) HOST_MMA(256)

static inline f32 och_min(f32 a, f32 b) { return fminf(a, b); }
static inline f32 och_max(f32 a, f32 b) { return fmaxf(a, b); }
static inline f32 och_abs(f32 x) { return fabsf(x); }
static inline f32 och_fma(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }
static inline f32 och_exp2(f32 x) { return exp2f(x); }
static inline f32 och_rcp(f32 x) { return 1.0f / x; }
// What is read once is read.
template <class T, int A> static T och_get_stream(const void *p) {
    T x;
    if ((u64)p % (A < 16 ? A : 16)) broken("a load that is not aligned");
    memcpy(&x, p, sizeof x);
    return x;
}
// PTX ISA, "prmt", its indices in bytes as the language has them.
static inline u32 och_perm(u32 hi, u32 lo, u32 selector) {
    u32 r = 0;
    for (int i = 0; i < 4; i++) r |= (u32)((((u64)hi << 32 | lo) >> 8 * (selector >> 8 * i & 7)) & 255) << 8 * i;
    return r;
}
// PTX ISA, "dp4a".
static inline i32 och_dot4_ss(u32 a, u32 b, i32 c) {
    for (int i = 0; i < 4; i++) c += (signed char)(a >> 8 * i) * (signed char)(b >> 8 * i);
    return c;
}
static inline f32 och_copysign(f32 x, f32 y) { return copysignf(x, y); }
static inline u16 och_to_bf16(f32 x) {
    u32 u;
    memcpy(&u, &x, 4);
    if (x != x) return 0x7fff;
    return (u16)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

// ---- what the lanes of a wave do together ----
enum { MOST_WAVES = 16, WORDS = 16 };
static pthread_barrier_t wave_meet[MOST_WAVES];
static u32 exchange[MOST_WAVES][32][WORDS]; // what each lane shows the others
static void meet_wave() { pthread_barrier_wait(&wave_meet[thread_number / 32]); }
template <class T> static void show(int at, const T &x) {
    static_assert(sizeof x % 4 == 0 && sizeof x <= 4 * WORDS, "words");
    memcpy(&exchange[thread_number / 32][thread_number % 32][at], &x, sizeof x);
}
static u32 shown(int lane, int at) { return exchange[thread_number / 32][lane][at]; }
template <int M> static i32 och_lane_xor(i32 x) {
    show(0, x);
    meet_wave();
    i32 r = (i32)shown(thread_number % 32 ^ M, 0);
    meet_wave();
    return r;
}
template <int SCOPE> static void och_fence() { meet_wave(); }
// PTX ISA, "ldmatrix": lane 8 i + r names row r of matrix i; a lane gets of it the halves 2 (lane % 4) and the next of row lane / 4,
// or, turned, those of this number of the rows so called.
static void load_matrix(const void *p, bool turned, u32 out[4]) {
    u32 at = och_shared(p) - WINDOW;
    int lane = thread_number % 32;
    if (at % 16) broken("rows of a matrix that are not aligned");
    show(0, at);
    meet_wave();
    for (int i = 0; i < 4; i++) {
        u16 h[2];
        for (int j = 0; j < 2; j++) {
            int row = turned ? 2 * (lane % 4) + j : lane / 4, col = turned ? lane / 4 : 2 * (lane % 4) + j;
            memcpy(&h[j], och_lds + shown(8 * i + row, 0) + 2 * col, 2);
        }
        out[i] = h[0] | (u32)h[1] << 16;
    }
    meet_wave();
}
template <class V> static V och_load_any(const void *p, bool turned) {
    u32 w[4];
    load_matrix(p, turned, w);
    V v;
    memcpy(&v, w, sizeof v);
    return v;
}
#define och_load_matrix(p) (och_load_any<u32x4>(p, false))
#define och_load_turned(p) (och_load_any<u32x4>(p, true))
// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type": element i of A is row group or group + 8 and column
// 2 (lane % 4) + i % 2, from the fifth on 8 more; B's is that row, of column group; C's rows are A's, its columns 2 (lane % 4) + i % 2.
static u16 shown_half(int lane, int at, int i) { return (u16)(shown(lane, at + i / 2) >> 16 * (i % 2)); }
static u16 half_bits_of_a(int row, int k) {
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 8; i++) {
            int r = i < 2 || (i >= 4 && i < 6) ? lane / 4 : lane / 4 + 8, c = lane % 4 * 2 + (i & 1) + (i >= 4 ? 8 : 0);
            if (r == row && c == k) return shown_half(lane, 0, i);
        }
    abort();
}
static f32 b_at(int k, int col, int at, bool bf16) {
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            int r = lane % 4 * 2 + (i & 1) + (i >= 2 ? 8 : 0);
            if (r == k && lane / 4 == col) return value_of(shown_half(lane, at, i), bf16);
        }
    abort();
}
template <class A, class B, class C> static C wave_mma(A a, B b, C c, bool bf16) {
    int lane = thread_number % 32;
    show(0, a);
    show(4, b);
    meet_wave();
    for (int i = 0; i < 4; i++) {
        int row = i < 2 ? lane / 4 : lane / 4 + 8, col = lane % 4 * 2 + (i & 1);
        for (int k = 0; k < 16; k++) c[i] += value_of(half_bits_of_a(row, k), bf16) * b_at(k, col, 4, bf16);
    }
    meet_wave();
    return c;
}
#define och_mma_mma_m16n8k16_f16(a, b, c) (wave_mma(a, b, c, false))
#define och_mma_mma_m16n8k16_bf16(a, b, c) (wave_mma(a, b, c, true))

// A's fragments for wgmma.m64nNk16 are, in each wave's 16 rows, those for mma.m16n8k16.
template <class A> static void group_mma_turned(f32 *c, A a, u64 b, int n, bool bf16) {
    if (!begun) broken("a product without wgmma.fence before it");
    product p = {c, 0, b, n, bf16, true, {}};
    show(0, a);
    meet_wave();
    for (int r = 0; r < 2; r++)
        for (int k = 0; k < 16; k++) p.own[r][k] = (u16)half_bits_of_a(thread_number % 32 / 4 + 8 * r, k);
    meet_wave();
    if (!late_products) return run_product(p);
    mark(p, 1);
    products.add(p);
}
#define HOST_TURNED(n)                                                                                                              \
    template <class V, class A> static void och_group_mma_m64n##n##k16_bf16_turned(V *c, A a, u64 b) { group_mma_turned((f32 *)c, a, b, n, true); } \
    template <class V, class A> static void och_group_mma_m64n##n##k16_f16_turned(V *c, A a, u64 b) { group_mma_turned((f32 *)c, a, b, n, false); }
HOST_TURNED(32) HOST_TURNED(48) HOST_TURNED(64) HOST_TURNED(96) HOST_TURNED(128) HOST_TURNED(192) HOST_TURNED(256)
#define och_group_words(...) (och_bits<u32x4>(__VA_ARGS__))
template <class V, int M> static void och_group_hold(V (&)[M]) {}

// ---- threads ----
static void on_threads(int n, void *(*one)(void *)) {
    memset(och_lds, 0xff, sizeof och_lds); // NaN in both kinds of halves
    memset(seen, 0xff, sizeof seen);
    if (n > 32 * MOST_WAVES) exit(3);
    pthread_barrier_init(&meet, nullptr, (unsigned)n);
    for (int i = 0; i < n / 32; i++) pthread_barrier_init(&wave_meet[i], nullptr, 32);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 20);
    pthread_t *t = (pthread_t *)calloc((size_t)n, sizeof *t);
    for (i64 i = 0; i < n; i++)
        if (pthread_create(&t[i], &small, one, (void *)i)) exit(3);
    for (int i = 0; i < n; i++) pthread_join(t[i], nullptr);
    free(t);
}
// Between two workgroups.
static void end_of_group() {
    if (products.n_items || products.n_groups) broken("a product is not waited for");
    och_copy_wait<0>();
    n_writes = 0;
    meet_all();
}
static u8 *bytes(FILE *f, i64 n) {
    u8 *p = (u8 *)aligned_alloc(64, ((size_t)n + 63) / 64 * 64 + 64);
    if (!p || fread(p, 1, (size_t)n, f) != (size_t)n) exit(3);
    return p;
}
