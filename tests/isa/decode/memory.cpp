// Loads and stores of all widths, atomics, LDS, scratch, calls, control flow.
#include "common.h"

#define MOVE(T, name) \
    GLOBAL void name(T *o, const T *a, int n) { \
        SHARED T tile[256]; \
        int t = TID, i = GID; \
        tile[t] = a[i]; \
        __builtin_amdgcn_s_barrier(); \
        o[i] = tile[255 - t]; \
        o[i + n] = a[n * 3 + 5]; \
    }
MOVE(u8, move8)
MOVE(short, move16)
MOVE(u32, move32)
MOVE(u64, move64)
MOVE(__attribute__((__vector_size__(12))) float, move96)
typedef vec<float, 4> f32x4;
MOVE(f32x4, move128)

struct big { int v[40]; };
DEVICE __attribute__((noinline)) int sum(const big *b, int k) {
    int s = 0;
    for (int i = 0; i < 40; i++) s += b->v[i] * k;
    return s;
}
DEVICE __attribute__((noinline)) double half_of(double x, int depth) {
    return depth > 0 ? half_of(x * 0.5, depth - 1) + 1.0 : x;
}
GLOBAL void calls(int *o, const int *a, double *d) {
    big b;
    int t = GID;
    for (int i = 0; i < 40; i++) b.v[(i * 7 + t) % 40] = a[t + i];
    o[t] = sum(&b, a[0]);
    d[t] = half_of(d[t], o[t] & 3);
}

GLOBAL void atomics(int *i, u32 *u, float *f, double *d, u64 *l, int *o) {
    SHARED int s[64];
    int t = TID;
    s[t & 63] = 0;
    __builtin_amdgcn_s_barrier();
    o[0] = __hip_atomic_fetch_add(i, t, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_fetch_max(i + 1, t, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    __hip_atomic_fetch_min(u + 2, (u32)t, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_WORKGROUP);
    __hip_atomic_fetch_and(u + 3, (u32)t, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_fetch_or(u + 4, (u32)t, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_fetch_xor(u + 5, (u32)t, __ATOMIC_SEQ_CST, __HIP_MEMORY_SCOPE_SYSTEM);
    o[1] = __hip_atomic_exchange(i + 6, t, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    int e = 5;
    o[2] = __hip_atomic_compare_exchange_strong(i + 7, &e, t, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_fetch_add(f, 1.5f, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_fetch_add(d, 1.5, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    o[3] = (int)__hip_atomic_fetch_add(l, (u64)t, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    u64 el = 9;
    __hip_atomic_compare_exchange_strong(l + 1, &el, (u64)t, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_fetch_add(s + 1, t, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    o[4] = __hip_atomic_fetch_max(s + 2, t, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_WORKGROUP);
    int es = 1;
    __hip_atomic_compare_exchange_strong(s + 3, &es, t, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    __hip_atomic_store(i + 8, t, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
    o[5] = __hip_atomic_load(i + 9, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM);
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent");
    __builtin_nontemporal_store(t, o + 6);
    o[7] = __builtin_nontemporal_load(i + 10) + s[t & 31];
}

GLOBAL void flat(int **table, int k) {
    SHARED int s[64];
    int local[9] = {1, 2, 3, k, k + 1, 6, 7, 8, 9};
    int *p = k > 5 ? s : k > 3 ? local : table[0];
    p[k] += local[k & 7];
    p[k + 1] = s[TID & 63];
    __hip_atomic_fetch_add(p, 3, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    s[TID & 63] = *p;
    ((volatile short *)p)[3] = 5;
    ((volatile i8 *)p)[9] = ((volatile i8 *)p)[11];
    ((volatile u8 *)p)[13] = ((volatile u8 *)p)[12];
    *(volatile vec<int, 4> *)(p + 16) = *(volatile vec<int, 4> *)(p + 32);
}

GLOBAL void control(int *o, const int *a, int n) {
    int t = GID, s = 0;
    while (s < n) {
        switch (a[s + t] & 15) {
        case 0: s += 3; break;
        case 1: s += a[s]; break;
        case 2: s ^= 5; break;
        case 3: s = s * 7 + 1; break;
        case 9: s -= 11; break;
        case 12: s += n; goto out;
        default: s++;
        }
        if (s % 13 == t) continue;
        if (a[s] < 0) break;
    }
out:
    o[t] = s;
    if (t == 7 && n < 0) __builtin_trap();
}
