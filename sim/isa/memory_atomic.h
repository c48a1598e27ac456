/* Atomic operations as a function from the old value to the new, and their application to host memory. */
#ifndef SIM_ISA_MEMORY_ATOMIC_H
#define SIM_ISA_MEMORY_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

typedef enum sim_atomic_op {
    SIM_AT_SWAP, SIM_AT_CMPSWAP, SIM_AT_ADD, SIM_AT_SUB, SIM_AT_RSUB, SIM_AT_SMIN, SIM_AT_UMIN, SIM_AT_SMAX, SIM_AT_UMAX,
    SIM_AT_AND, SIM_AT_OR, SIM_AT_XOR, SIM_AT_INC, SIM_AT_DEC, SIM_AT_MSKOR, SIM_AT_WRAP, SIM_AT_SUB_CLAMP, SIM_AT_COND_SUB,
    SIM_AT_FADD, SIM_AT_FMIN, SIM_AT_FMAX, SIM_AT_FCMPSWAP,
    SIM_AT_FMIN_NUM, SIM_AT_FMAX_NUM, /* gfx12: a NaN gives way to a number, -0 is below +0 */
    SIM_AT_PK_ADD_F16, SIM_AT_PK_ADD_BF16,
    SIM_AT_64 = 64 /* added: 64 bits wide */
} sim_atomic_op;

/* The new value. data2: the comparand of a compare-and-swap, the second operand of MSKOR and WRAP. Values of 32 bits are
 * in the lower half. */
uint64_t sim_atomic_apply(unsigned op, uint64_t old, uint64_t data, uint64_t data2);

/* Floating-point atomics round to nearest even whatever MODE says; denormals: kept, or (flush) taken and given as zero.
 * Returns what sim_atomic_fp_end needs. */
uint32_t sim_atomic_fp_begin(bool flush);
void sim_atomic_fp_end(uint32_t saved);
static inline bool sim_atomic_is_fp(unsigned op) { return (op & 63) >= SIM_AT_FADD; }

/* Applies it to host memory, atomically among host threads (p is naturally aligned); returns the old value. */
uint64_t sim_atomic_host(unsigned op, void *p, uint64_t data, uint64_t data2);
/* The same for memory that only this thread touches. */
uint64_t sim_atomic_plain(unsigned op, void *p, uint64_t data, uint64_t data2);

static inline unsigned sim_atomic_bytes(unsigned op) { return op & SIM_AT_64 ? 8 : 4; }
static inline bool sim_atomic_has_second(unsigned op) {
    op &= 63;
    return op == SIM_AT_CMPSWAP || op == SIM_AT_FCMPSWAP || op == SIM_AT_MSKOR || op == SIM_AT_WRAP;
}

#endif
