// OCHRE_SIM_CHECK=race, and for missing_fence weak too: waves that do not agree on an order.
#include "crime.h"

KERNEL BLOCK(128) race_lds(u32 *out) {
    SHARED u32 a[128];
    LDS(a)[thread()] = thread();
    out[thread()] = LDS(a)[127 - thread()];
}
KERNEL BLOCK(128) race_lds_flat(u32 *out) { /* by flat addresses */
    SHARED volatile u32 a[128];
    a[thread()] = thread();
    out[thread()] = a[127 - thread()];
}
KERNEL BLOCK(128) race_lds_clean(u32 *out) {
    SHARED u32 a[128];
    for (u32 i = 0; i < 3; i++) {
        LDS(a)[thread()] = thread() + i;
        barrier();
        out[thread()] = LDS(a)[127 - thread()];
        barrier();
    }
}

// A second round that writes what the first still reads: the barrier at the loop's end is missing.
KERNEL BLOCK(128) race_lds_reuse(u32 *out) {
    SHARED u32 a[128];
    for (u32 i = 0; i < 3; i++) {
        LDS(a)[thread()] = thread() + i;
        barrier();
        out[thread()] = LDS(a)[127 - thread()];
    }
}
KERNEL BLOCK(128) race_lds_atomic_clean(u32 *out) {
    SHARED u32 a[4];
    if (thread() < 4) LDS(a)[thread()] = 0;
    barrier();
    __hip_atomic_fetch_add(&a[thread() & 3], thread(), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    barrier();
    if (thread() < 4) out[thread()] = LDS(a)[thread()];
}

// One wave waits in LDS for another.
KERNEL BLOCK(128) race_lds_flag_clean(u32 *out) {
    SHARED volatile u32 a;
    SHARED u32 ready;
    if (thread() == 0) __hip_atomic_store(&ready, 0, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    barrier();
    if (thread() == 0) {
        a = 17;
        __hip_atomic_store(&ready, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_WORKGROUP);
    }
    if (thread() >= 64) {
        while (__hip_atomic_load(&ready, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_WORKGROUP) == 0) {}
        out[thread()] = a;
    }
}

// Every group writes the same words; within a group and between groups.
KERNEL BLOCK(128) race_global(u32 *out) { out[thread() & 63] = group() * 1000 + thread(); }
KERNEL BLOCK(128) race_global_clean(u32 *out) { out[group() * 128 + thread()] = thread(); }
KERNEL BLOCK(64) race_global_groups(u32 *out) { out[thread()] = group(); }
KERNEL BLOCK(64) race_global_groups_clean(u32 *out) { count(&out[thread()]); }

// The last group to arrive adds what all have written: out[0] the sum, out[1] the count, out[2 ...] the parts.
template <bool fenced> DEVICE void last_block(u32 *out, u32 n_groups) {
    SHARED u32 last;
    if (thread() == 0) {
        out[2 + group()] = group() + 1;
        if (fenced) fence();
        last = count(&out[1]) == n_groups - 1;
    }
    barrier();
    if (last) {
        if (fenced) fence();
        if (thread() == 0) {
            u32 sum = 0;
            for (u32 i = 0; i < n_groups; i++) sum += out[2 + i];
            out[0] = sum;
        }
    }
}
KERNEL BLOCK(64) missing_fence(u32 *out, u32 n_groups) { last_block<false>(out, n_groups); }
KERNEL BLOCK(64) missing_fence_clean(u32 *out, u32 n_groups) { last_block<true>(out, n_groups); }

// The same with every wave writing, and the barrier between the parts and the count.
template <bool fenced> DEVICE void last_block_wide(u32 *out, u32 n_groups) {
    SHARED u32 last;
    u32 *parts = out + 2;
    parts[group() * 128 + thread()] = group() + thread();
    if (fenced) fence();
    barrier();
    if (thread() == 0) last = count(&out[1]) == n_groups - 1;
    barrier();
    if (last) {
        if (fenced) fence();
        u32 sum = 0;
        for (u32 i = 0; i < n_groups; i++) sum += parts[i * 128 + thread()];
        __hip_atomic_fetch_add(&out[0], sum, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    }
}
KERNEL BLOCK(128) missing_fence_wide(u32 *out, u32 n_groups) { last_block_wide<false>(out, n_groups); }
KERNEL BLOCK(128) missing_fence_wide_clean(u32 *out, u32 n_groups) { last_block_wide<true>(out, n_groups); }

// One group writes, the other waits for its flag. out[0] the result, out[1] the flag, out[2] the data.
template <bool fenced> DEVICE void hand_over(u32 *out) {
    if (thread()) return;
    if (group() == 0) {
        out[2] = 42;
        if (fenced) fence();
        flag(&out[1], 1);
        if (!fenced) { /* what an in-order machine would have done by now */
            for (u32 i = 0; i < 100; i++) __builtin_amdgcn_s_sleep(1);
        }
    } else {
        while (peek(&out[1]) == 0) __builtin_amdgcn_s_sleep(1);
        if (fenced) fence();
        out[0] = out[2];
    }
}
KERNEL BLOCK(64) missing_fence_flag(u32 *out) { hand_over<false>(out); }
KERNEL BLOCK(64) missing_fence_flag_clean(u32 *out) { hand_over<true>(out); }

// A barrier of all groups, twice: each writes a word, then reads its neighbour's, then writes it again.
template <bool fenced> DEVICE void grid_barrier(u32 *arrived, u32 n) {
    barrier();
    if (thread() == 0) {
        if (fenced) fence();
        count(arrived);
        while (peek(arrived) < n) __builtin_amdgcn_s_sleep(1);
        if (fenced) fence();
    }
    barrier();
}
template <bool fenced> DEVICE void neighbours(u32 *out, u32 n_groups) {
    u32 *x = out + 2 + n_groups * 128, *y = out + 2, i = group() * 128 + thread();
    u32 j = (group() + 1) % n_groups * 128 + thread();
    x[i] = i;
    grid_barrier<fenced>(&out[1], n_groups);
    y[i] = x[j];
    grid_barrier<fenced>(&out[1], 2 * n_groups);
    x[i] = y[j];
}
KERNEL BLOCK(128) race_grid_barrier(u32 *out, u32 n_groups) { neighbours<false>(out, n_groups); }
KERNEL BLOCK(128) race_grid_barrier_clean(u32 *out, u32 n_groups) { neighbours<true>(out, n_groups); }

// The same hand-over with one half of the fence, with the wrong scope, and with the language's own release and acquire.
enum { RELEASES = 1, ACQUIRES = 2, NARROW = 4 };
template <int how> DEVICE void hand_over_half(u32 *out) {
    if (thread()) return;
    if (group() == 0) {
        out[2] = 42;
        if (how & NARROW) __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
        else if (how & RELEASES) __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
        flag(&out[1], 1);
    } else {
        while (peek(&out[1]) == 0) __builtin_amdgcn_s_sleep(1);
        if (how & NARROW) __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
        else if (how & ACQUIRES) __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
        out[0] = out[2];
    }
}
KERNEL BLOCK(64) missing_release(u32 *out) { hand_over_half<ACQUIRES>(out); }
KERNEL BLOCK(64) missing_acquire(u32 *out) { hand_over_half<RELEASES>(out); }
KERNEL BLOCK(64) narrow_scope(u32 *out) { hand_over_half<NARROW>(out); }
KERNEL BLOCK(64) missing_release_clean(u32 *out) { hand_over_half<RELEASES | ACQUIRES>(out); }
KERNEL BLOCK(64) missing_acquire_clean(u32 *out) {
    if (thread()) return;
    if (group() == 0) {
        out[2] = 42;
        __hip_atomic_store(&out[1], 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
    } else {
        while (__hip_atomic_load(&out[1], __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) == 0) __builtin_amdgcn_s_sleep(1);
        out[0] = out[2];
    }
}
// System scope does what the device's does, and more.
KERNEL BLOCK(64) narrow_scope_clean(u32 *out) {
    if (thread()) return;
    if (group() == 0) {
        out[2] = 42;
        __hip_atomic_store(&out[1], 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
    } else {
        while (__hip_atomic_load(&out[1], __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM) == 0) __builtin_amdgcn_s_sleep(1);
        out[0] = out[2];
    }
}

// A lock that every group takes three times: out[1] the lock, out[0] what it guards.
template <bool ordered> DEVICE void locked(u32 *out) {
    constexpr int take = ordered ? __ATOMIC_ACQUIRE : __ATOMIC_RELAXED, give = ordered ? __ATOMIC_RELEASE : __ATOMIC_RELAXED;
    if (thread()) return;
    for (u32 i = 0; i < 3; i++) {
        while (__hip_atomic_exchange(&out[1], 1, take, __HIP_MEMORY_SCOPE_AGENT)) __builtin_amdgcn_s_sleep(1);
        out[0] += group() + 1;
        __hip_atomic_store(&out[1], 0, give, __HIP_MEMORY_SCOPE_AGENT);
    }
}
KERNEL BLOCK(64) unordered_lock(u32 *out) { locked<false>(out); }
KERNEL BLOCK(64) unordered_lock_clean(u32 *out) { locked<true>(out); }

// The last group by one atomic that is both: release for what it wrote, acquire for what it reads.
KERNEL BLOCK(64) missing_fence_acq_rel_clean(u32 *out, u32 n_groups) {
    if (thread()) return;
    out[2 + group()] = group() + 1;
    if (__hip_atomic_fetch_add(&out[1], 1, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT) != n_groups - 1) return;
    u32 sum = 0;
    for (u32 i = 0; i < n_groups; i++) sum += out[2 + i];
    out[0] = sum;
}

// gfx942's stores that have come back are in a cache of some of the device's workgroups.
KERNEL BLOCK(64) missing_write_back(u32 *out) {
    if (thread()) return;
    if (group() == 0) {
        out[2] = 42;
#if defined(__gfx942__)
        asm volatile("s_waitcnt vmcnt(0)" : : : "memory");
#endif
        flag(&out[1], 1);
    } else {
        while (peek(&out[1]) == 0) __builtin_amdgcn_s_sleep(1);
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
        out[0] = out[2];
    }
}

// While the first group's store is its own, the second one's additions are not lost: out[2] and out[3] are what it read.
KERNEL BLOCK(64) hidden_store_between(u32 *out) {
    if (thread()) return;
    if (group() == 0) {
        out[1] = 100;
        for (u32 i = 0; i < 8; i++) __builtin_amdgcn_s_sleep(1);
    } else {
        u32 first = count(&out[1]);
        for (u32 i = 0; i < 2; i++) __builtin_amdgcn_s_sleep(1);
        out[3] = count(&out[1]) - first;
    }
}

// One wave waits in global memory for another of its workgroup.
KERNEL BLOCK(128) race_global_flag_clean(u32 *out) {
    if (thread() == 0) {
        out[2] = 42;
        __hip_atomic_store(&out[1], 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_WORKGROUP);
    }
    if (thread() == 64) {
        while (__hip_atomic_load(&out[1], __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_WORKGROUP) == 0) __builtin_amdgcn_s_sleep(1);
        out[0] = out[2];
    }
}

// The release is there, and a branch goes past it.
KERNEL BLOCK(64) skipped_release(u32 *out) {
    if (thread()) return;
    if (group() == 0) {
        out[2] = 42;
#if defined(__gfx942__)
        asm volatile("s_cbranch_execnz 3\n buffer_wbl2 sc1\n s_waitcnt vmcnt(0)" : : : "memory");
#elif defined(__gfx1100__)
        asm volatile("s_cbranch_execnz 1\n s_waitcnt_vscnt null, 0x0" : : : "memory");
#else
        asm volatile("s_cbranch_execnz 1\n s_wait_storecnt 0x0" : : : "memory");
#endif
        flag(&out[1], 1);
    } else {
        while (peek(&out[1]) == 0) __builtin_amdgcn_s_sleep(1);
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
        out[0] = out[2];
    }
}

// No machine keeps a store for ever: each group waits for a word that the other has not released.
KERNEL BLOCK(64) eventual_store(u32 *out) {
    if (thread()) return;
    u32 *mine = &out[1 + group()], *other = &out[2 - group()];
    *mine = 1;
    out[8 + group()] = 1;
    while (peek(other) == 0) __builtin_amdgcn_s_sleep(1);
    out[0] = 42;
}
