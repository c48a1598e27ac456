/* Philox4x32-10, a counter-based generator: the same (key, counter) gives the same four words on every machine, in any
 * order. Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section 3.2. */
#ifndef OCH_BASE_RNG_H
#define OCH_BASE_RNG_H

#include <stdint.h>

static inline void och_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c0 = n0, c1 = (uint32_t)p1, c2 = n2, c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u; /* the golden ratio and sqrt(3)-1 (Weyl sequence) */
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* 53 random bits, the upper ones of 64 (the others are 0): a function of (seed, position, stream) alone. */
static inline uint64_t och_rng_bits(uint64_t seed, uint64_t position, uint32_t stream) {
    uint32_t counter[4] = {(uint32_t)position, (uint32_t)(position >> 32), stream, 0};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, r[4];
    och_philox4x32(counter, key, r);
    return ((uint64_t)r[0] << 32 | r[1]) & ~(uint64_t)0x7ff;
}

/* The same bits as a number in [0, 1). */
static inline double och_rng_uniform(uint64_t seed, uint64_t position, uint32_t stream) {
    return (double)(och_rng_bits(seed, position, stream) >> 11) * 0x1p-53;
}

#endif
