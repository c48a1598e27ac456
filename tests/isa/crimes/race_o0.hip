// OCHRE_SIM_CHECK=race of unoptimised code: what waits in LDS for another wave, and what only looks like it.
#include "crime.h"

// One wave waits in LDS for another, which is ready before, or after.
template <bool late> DEVICE void wait_in_lds(u32 *out) {
    SHARED volatile u32 a;
    SHARED u32 ready;
    if (thread() == 0) __hip_atomic_store(&ready, 0, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    barrier();
    if (thread() >= 64 == late) {
        if (thread() % 64 == 0) {
            a = 17;
            __hip_atomic_store(&ready, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_WORKGROUP);
        }
    } else {
        while (__hip_atomic_load(&ready, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_WORKGROUP) == 0) {}
        out[thread()] = a;
    }
}
KERNEL BLOCK(128) race_o0_flag_set_clean(u32 *out) { wait_in_lds<false>(out); }
KERNEL BLOCK(128) race_o0_flag_late_clean(u32 *out) { wait_in_lds<true>(out); }

// All lanes read the same word in a loop, another one each time: a sum, and nobody is waited for.
KERNEL BLOCK(128) race_o0_sum(u32 *out) {
    SHARED volatile u32 a[128];
    u32 sum = 0;
    a[thread()] = thread();
    for (u32 i = 0; i < 128; i++) sum += a[i];
    out[thread()] = sum;
}
KERNEL BLOCK(128) race_o0_sum_clean(u32 *out) {
    SHARED volatile u32 a[128];
    u32 sum = 0;
    a[thread()] = thread();
    barrier();
    for (u32 i = 0; i < 128; i++) sum += a[i];
    out[thread()] = sum;
}

// The same word each time, and a barrier between: it is what the barrier is for that is wrong.
KERNEL BLOCK(128) race_o0_reuse(u32 *out) {
    SHARED volatile u32 a;
    u32 sum = 0;
    for (u32 i = 0; i < 3; i++) {
        if (thread() == 0) a = i;
        barrier();
        sum += a;
    }
    out[thread()] = sum;
}
