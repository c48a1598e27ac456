// A CUDA text's own words, on threads of the host, so that what it does to LDS is seen: tests/unit/test_kl_group.c puts this in front
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
struct product { f32 *c; u64 a, b; int n; bool bf16; };
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
static f32 half_at(u32 at, bool bf16) {
    u16 h;
    memcpy(&h, seen + at, 2);
    if (!bf16) {
        f16 x;
        x.h = h;
        return x;
    }
    u32 u = (u32)h << 16;
    f32 x;
    memcpy(&x, &u, 4);
    return x;
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
static void mark(const product &p, int by) {
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
        for (int k = 0; k < 16; k++) p.c[i] += half_at(byte_of(p.a, row, k), p.bf16) * half_at(byte_of(p.b, col, k), p.bf16);
    }
    if (late_products) mark(p, -1);
}
static void och_group_begin() { begun = true; }
static void och_group_end() { products.commit(); }
static void group_mma(f32 *c, u64 a, u64 b, int n, bool bf16) {
    if (!begun) broken("a product without wgmma.fence before it");
    product p = {c, a, b, n, bf16};
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
HOST_MMA(16) HOST_MMA(32) HOST_MMA(64) HOST_MMA(96) HOST_MMA(128) HOST_MMA(192) HOST_MMA(256)

static inline f32 och_min(f32 a, f32 b) { return fminf(a, b); }
static inline f32 och_max(f32 a, f32 b) { return fmaxf(a, b); }
static inline f32 och_fma(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }

// ---- a launch ----
struct launch {
    i64 n, m, k, a_row, w_row, threads, grid_x, grid_y;
};
static launch shape;
static u8 *a_data, *w_data;
static f32 *scale_data, *bias_data, *residual_data, *y_data;
static void kernel();
// The type of a kernel's third argument.
template <class A, class S, class W, class... R> W weights_of(void (*)(A, S, W, R...));

static void *one_thread(void *number) {
    thread_number = (int)(i64)number;
    for (group_number[1] = 0; group_number[1] < shape.grid_y; group_number[1]++)
        for (group_number[0] = 0; group_number[0] < shape.grid_x; group_number[0]++) {
            kernel();
            if (products.n_items || products.n_groups) broken("a product is not waited for");
            och_copy_wait<0>();
            n_writes = 0;
            meet_all();
        }
    return nullptr;
}

static u8 *bytes(FILE *f, i64 n) {
    u8 *p = (u8 *)aligned_alloc(64, ((size_t)n + 63) / 64 * 64 + 64);
    if (!p || fread(p, 1, (size_t)n, f) != (size_t)n) exit(3);
    return p;
}

int main(int argc, char **argv) { // FILE of the shape and the operands, results' FILE, late copies, late products
    FILE *f = argc == 5 ? fopen(argv[1], "rb") : nullptr;
    if (!f || fread(&shape, sizeof shape, 1, f) != 1) return 3;
    late_copies = argv[3][0] == '1';
    late_products = argv[4][0] == '1';
    a_data = bytes(f, shape.n * shape.a_row * 2);
    w_data = bytes(f, shape.m * shape.w_row);
    scale_data = (f32 *)bytes(f, shape.n * 4);
    bias_data = (f32 *)bytes(f, shape.m * 4);
    residual_data = (f32 *)bytes(f, shape.n * shape.m * 4);
    fclose(f);
    y_data = (f32 *)calloc((size_t)(shape.n * shape.m), 4);
    memset(och_lds, 0xff, sizeof och_lds); // NaN in both kinds of halves
    memset(seen, 0xff, sizeof seen);
    pthread_barrier_init(&meet, nullptr, (unsigned)shape.threads);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 20);
    pthread_t *t = (pthread_t *)calloc((size_t)shape.threads, sizeof *t);
    for (i64 i = 0; i < shape.threads; i++)
        if (pthread_create(&t[i], &small, one_thread, (void *)i)) return 3;
    for (i64 i = 0; i < shape.threads; i++) pthread_join(t[i], nullptr);
    f = fopen(argv[2], "wb");
    if (!f || fwrite(y_data, 4, (size_t)(shape.n * shape.m), f) != (size_t)(shape.n * shape.m) || fclose(f)) return 3;
    return failures ? 1 : 0;
}
