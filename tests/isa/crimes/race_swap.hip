// OCHRE_SIM_CHECK=race: additions that a target lacks, a plain load and then compare-and-swap until it holds, and what is a race
// beside them.
#include "crime.h"

DEVICE void add(float *p, float x) {
    u32 seen = *(u32 *)p, before;
    do {
        before = seen;
        float sum = __builtin_bit_cast(float, before) + x;
        __hip_atomic_compare_exchange_strong((u32 *)p, &seen, __builtin_bit_cast(u32, sum), __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                             __HIP_MEMORY_SCOPE_AGENT);
    } while (seen != before);
}
DEVICE u32 read(const void *p) { return *(const u32 *)p; }

// All groups add to one word, to many, and to words of LDS.
KERNEL BLOCK(128) race_swap_clean(u32 *out) {
    SHARED float part[2];
    if (thread() < 2) LDS(part)[thread()] = 0;
    barrier();
    add(&part[thread() & 1], 1);
    barrier();
    if (thread() < 2) add((float *)&out[1], part[thread()]);
    add((float *)&out[2 + (thread() & 31)], 1);
    add((float *)out, 1);
}
// The same by the compiler's own loops.
KERNEL BLOCK(128) race_swap_made_clean(u32 *out) {
    __hip_atomic_fetch_add((float *)out, 1.0f, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    __hip_atomic_fetch_add((float *)&out[2 + (thread() & 31)], 1.0f, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    __hip_atomic_fetch_add((double *)out + 20, 1.0, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

// The sum is read without an order: no compare-and-swap follows that load.
KERNEL BLOCK(64) race_swap_read(u32 *out) {
    add((float *)out, 1);
    out[64 + group() * 64 + thread()] = read(out);
}
KERNEL BLOCK(128) race_swap_read_lds(u32 *out) {
    SHARED float sum;
    if (thread() == 0) LDS(&sum)[0] = 0;
    barrier();
    add(&sum, 1);
    out[thread()] = LDS(&sum)[0];
}
// Reads before the others add: theirs is the atomic that finds the load. It is not known yet for what it is.
KERNEL BLOCK(64) race_swap_early(u32 *out) {
    if (group() == 0) {
        out[64 + thread()] = read(out);
        for (u32 i = 0; i < 200; i++) __builtin_amdgcn_s_sleep(1);
    } else {
        add((float *)out, 1);
    }
}
// The word that is swapped is another one.
KERNEL BLOCK(64) race_swap_other(u32 *out) {
    count(out);
    u32 seen = read(out);
    __hip_atomic_compare_exchange_strong(&out[1], &seen, 7, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
