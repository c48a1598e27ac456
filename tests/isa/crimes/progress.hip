// Crimes of control: kernels that do not end, or end otherwise than they should.
#include "crime.h"

// OCHRE_SIM_CHECK=barrier. The hardware lets the second wave end without the barrier.
KERNEL BLOCK(128) barrier_not_reached(u32 *out) {
    if (thread() < 64) __builtin_amdgcn_s_barrier();
    out[thread()] = 1;
}
KERNEL BLOCK(128) barrier_not_reached_clean(u32 *out) {
    if (thread() < 64) out[thread()] = 1;
    __builtin_amdgcn_s_barrier();
    if (thread() >= 64) out[thread()] = 1;
}

// The second wave waits for a word that the first one writes only after the barrier.
KERNEL BLOCK(128) deadlock(u32 *out) {
    if (thread() >= 64)
        while (peek(out) == 0) {}
    __builtin_amdgcn_s_barrier();
    if (thread() == 0) flag(out, 1);
}
KERNEL BLOCK(128) deadlock_clean(u32 *out) {
    if (thread() == 0) flag(out, 1);
    if (thread() >= 64)
        while (peek(out) == 0) {}
    __builtin_amdgcn_s_barrier();
}

KERNEL BLOCK(64) infinite_loop(u32 *out) {
    for (u32 i = 0;; i++) ((volatile u32 *)out)[thread()] = i;
}
KERNEL BLOCK(64) infinite_loop_clean(u32 *out) {
    for (u32 i = 0; i < 100; i++) ((volatile u32 *)out)[thread()] = i;
}

KERNEL BLOCK(64) trap(u32 *out) {
    if (out[thread()] == 0) __builtin_trap();
    out[thread()] = 1;
}
KERNEL BLOCK(64) trap_clean(u32 *out) {
    if (out[thread()] != 0) __builtin_trap();
    out[thread()] = 1;
}

// `where` is no function.
typedef void function(u32 *);
static __attribute__((device, noinline)) void one(u32 *out) { *out = 1; }
KERNEL BLOCK(64) jump_off_code(u32 *out, function *where) { where(out); }
KERNEL BLOCK(64) jump_off_code_clean(u32 *out, function *where) {
    function *f = where ? where : one;
    f(out + thread());
}
