// Crimes that end a kernel whenever it runs: accesses of memory that is not there, or not so.
#include "crime.h"

// out: 64 words. by: how far past its end the last thread goes (0 in the clean twin: the host passes it).
KERNEL BLOCK(64) global_out_of_bounds(u32 *out) { out[thread() + 1] = thread(); }
KERNEL BLOCK(64) global_out_of_bounds_clean(u32 *out) { out[thread()] = thread(); }

KERNEL BLOCK(64) lds_out_of_bounds(u32 *out, u32 far) {
    SHARED u32 a[64];
    LDS(a)[thread() + far + 64] = 1;
    out[thread()] = LDS(a)[thread()];
}
KERNEL BLOCK(64) lds_out_of_bounds_clean(u32 *out, u32 far) {
    SHARED u32 a[64];
    LDS(a)[63 - thread()] = far;
    barrier();
    out[thread()] = LDS(a)[thread()];
}

// The crime is the host's: it frees `out` first.
KERNEL BLOCK(64) use_after_free(u32 *out) { out[thread()] = thread(); }
KERNEL BLOCK(64) use_after_free_clean(u32 *out) { out[thread()] = thread(); }

KERNEL BLOCK(64) misaligned_atomic(u32 *out) { count((u32 *)((char *)out + 2)); }
KERNEL BLOCK(64) misaligned_atomic_clean(u32 *out) { count(out + 1); }

KERNEL BLOCK(64) write_to_code(u32 *out) { *(volatile u32 *)__builtin_amdgcn_s_getpc() = out[0]; }
KERNEL BLOCK(64) write_to_code_clean(u32 *out) { out[thread()] = *(volatile u32 *)__builtin_amdgcn_s_getpc(); }

KERNEL BLOCK(64) scratch_overflow(u32 *out, u32 far) {
    volatile u32 a[32];
    for (u32 i = 0; i < 32; i++) a[i] = i;
    a[far * 1000] = 1;
    out[thread()] = a[thread() & 31];
}
KERNEL BLOCK(64) scratch_overflow_clean(u32 *out, u32 far) {
    volatile u32 a[32];
    for (u32 i = 0; i < 32; i++) a[i] = i;
    a[far] = 1;
    out[thread()] = a[thread() & 31];
}
