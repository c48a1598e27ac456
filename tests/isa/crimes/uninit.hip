// OCHRE_SIM_CHECK=uninit: something never written decides something.
#include "crime.h"

// v40 and s40 are the kernel's, and nothing writes them.
DEVICE u32 never_written() {
    u32 x;
    asm volatile("v_mov_b32 %0, v40" : "=v"(x) : : "v40");
    return x;
}
DEVICE u32 written(u32 y) {
    u32 x;
    asm volatile("v_mov_b32 v40, %1\n v_mov_b32 %0, v40" : "=v"(x) : "v"(y) : "v40");
    return x;
}
DEVICE u32 never_written_scalar() {
    u32 x;
    asm volatile("s_mov_b32 %0, s40" : "=s"(x) : : "s40");
    return x;
}
DEVICE u32 written_scalar(u32 y) {
    u32 x;
    asm volatile("s_mov_b32 s40, %1\n s_mov_b32 %0, s40" : "=s"(x) : "s"(__builtin_amdgcn_readfirstlane(y)) : "s40");
    return x;
}

KERNEL BLOCK(64) uninit_register(u32 *out) { out[thread()] = never_written() * 3; }
KERNEL BLOCK(64) uninit_register_clean(u32 *out) { out[thread()] = written(thread()) * 3; }

KERNEL BLOCK(64) uninit_address(u32 *out) { out[(never_written() ^ thread()) & 63] = 1; }
KERNEL BLOCK(64) uninit_address_clean(u32 *out) { out[(written(5) ^ thread()) & 63] = 1; }

KERNEL BLOCK(64) uninit_branch(u32 *out) {
    if (never_written() == 7) out[thread()] = 1;
}
KERNEL BLOCK(64) uninit_branch_clean(u32 *out) {
    if (written(thread()) == 7) out[thread()] = 1;
}

KERNEL BLOCK(64) uninit_scalar_branch(u32 *out) {
    if (never_written_scalar() == 7) out[thread()] = 1;
}
KERNEL BLOCK(64) uninit_scalar_branch_clean(u32 *out, u32 n) {
    if (written_scalar(n) == 7) out[thread()] = 1;
}

KERNEL BLOCK(64) uninit_lds(u32 *out) {
    SHARED u32 a[128];
    LDS(a)[thread()] = thread();
    barrier();
    out[thread()] = LDS(a)[thread() + 1];
}
KERNEL BLOCK(64) uninit_lds_clean(u32 *out) {
    SHARED u32 a[128];
    LDS(a)[thread()] = thread();
    barrier();
    out[thread()] = LDS(a)[63 - thread()];
}

KERNEL BLOCK(64) uninit_scratch(u32 *out, u32 i) {
    volatile u32 a[32];
    a[i] = 1;
    out[thread()] = a[i + 1];
}
KERNEL BLOCK(64) uninit_scratch_clean(u32 *out, u32 i) {
    volatile u32 a[32];
    a[i] = 1;
    out[thread()] = a[i];
}

// Undefined values that decide nothing: padding, a value selected away, a lane that is off, a sum that is dropped.
struct padded {
    u32 a;
    char b;
    u32 c;
};
KERNEL BLOCK(64) uninit_harmless_clean(u32 *out, u32 n) {
    SHARED padded a[64];
    volatile padded *p = &a[thread()];
    p->a = thread();
    p->b = 1;
    p->c = 3;
    barrier();
    padded q = a[63 - thread()];
    *(padded *)(out + 3 * thread()) = q;
    u32 x = never_written(), y = written(thread());
    u32 z = y < 10 ? y : 3;
    if (thread() >= 32 || n) out[thread() * 3] = z;
    u32 w;
    if (y > 5) w = 3;
    else w = x;
    if (y > 5 && w == 3) out[thread() * 3 + 1] = w;
    asm volatile("" : : "v"(x + y));
}

// One byte of a word is written, and the word copied.
KERNEL BLOCK(64) uninit_padding_clean(u32 *out) {
    SHARED u32 a[64];
    ((volatile __attribute__((address_space(3))) unsigned char *)a)[4 * thread()] = 1;
    barrier();
    out[thread()] = LDS(a)[thread()] & 0xff;
}
KERNEL BLOCK(64) uninit_select_clean(u32 *out) {
    u32 x = never_written(), y = written(thread());
    out[thread()] = y < 1000 ? y : x;
}
KERNEL BLOCK(64) uninit_select(u32 *out) {
    u32 x = never_written(), y = written(thread());
    out[thread()] = y < 10 ? y : x;
}

// Bits that a mask takes away decide nothing, also when the mask has been kept in a lane meanwhile.
KERNEL BLOCK(64) uninit_masked_clean(u32 *out) {
    u32 x;
    asm volatile("s_and_b32 s41, s40, 0xff\n v_writelane_b32 v41, s41, 3\n v_mov_b32 v42, v41\n"
                 "v_readlane_b32 s42, v42, 3\n s_and_b32 %0, s42, 0xff00"
                 : "=s"(x) : : "s40", "s41", "s42", "v41", "v42");
    if (x == 0) out[thread()] = 1;
}
KERNEL BLOCK(64) uninit_masked(u32 *out) {
    u32 x;
    asm volatile("s_and_b32 s41, s40, 0xff\n v_writelane_b32 v41, s41, 3\n v_mov_b32 v42, v41\n"
                 "v_readlane_b32 s42, v42, 3\n s_and_b32 %0, s42, 0xff0"
                 : "=s"(x) : : "s40", "s41", "s42", "v41", "v42");
    if (x == 0) out[thread()] = 1;
}

// Two registers change places: one of them was written.
#if defined(__gfx942__)
#define EXCHANGE "v_swap_b32 v41, v42\n"
#else
#define EXCHANGE "v_dual_mov_b32 v41, v42 :: v_dual_mov_b32 v42, v41\n"
#endif
KERNEL BLOCK(64) uninit_exchanged(u32 *out) {
    u32 x;
    asm volatile("v_mov_b32 v42, 5\n" EXCHANGE "v_mov_b32 %0, v42" : "=v"(x) : : "v41", "v42");
    out[thread()] = x;
}
KERNEL BLOCK(64) uninit_exchanged_clean(u32 *out) {
    u32 x;
    asm volatile("v_mov_b32 v42, 5\n" EXCHANGE "v_mov_b32 %0, v41" : "=v"(x) : : "v41", "v42");
    out[thread()] = x;
}
