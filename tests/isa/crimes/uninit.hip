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
    asm volatile("s_mov_b32 s40, %1\n s_mov_b32 %0, s40" : "=s"(x) : "s"(y) : "s40");
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
