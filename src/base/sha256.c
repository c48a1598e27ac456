#include "base/sha256.h"

#include <string.h>

/* FIPS 180-4, 4.2.2: the first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotr(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void compress(uint32_t state[8], const uint8_t *p) {
    uint32_t w[64], s[8];
    for (int t = 0; t < 16; t++)
        w[t] = (uint32_t)p[4 * t] << 24 | (uint32_t)p[4 * t + 1] << 16 | (uint32_t)p[4 * t + 2] << 8 | p[4 * t + 3];
    for (int t = 16; t < 64; t++) {
        uint32_t s0 = rotr(w[t - 15], 7) ^ rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t s1 = rotr(w[t - 2], 17) ^ rotr(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    memcpy(s, state, sizeof s);
    for (int t = 0; t < 64; t++) {
        uint32_t sum1 = rotr(s[4], 6) ^ rotr(s[4], 11) ^ rotr(s[4], 25);
        uint32_t ch = (s[4] & s[5]) ^ (~s[4] & s[6]);
        uint32_t t1 = s[7] + sum1 + ch + k[t] + w[t];
        uint32_t sum0 = rotr(s[0], 2) ^ rotr(s[0], 13) ^ rotr(s[0], 22);
        uint32_t maj = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += t1;
        s[0] = t1 + sum0 + maj;
    }
    for (int i = 0; i < 8; i++) state[i] += s[i];
}

void och_sha256_init(och_sha256 *h) {
    /* 5.3.3: the square roots of the first 8 primes */
    static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(h->state, first, sizeof first);
    h->size_bytes = 0;
}

void och_sha256_update(och_sha256 *h, const void *bytes, size_t n_bytes) {
    const uint8_t *p = bytes;
    size_t held = h->size_bytes % 64;
    h->size_bytes += n_bytes;
    if (held) {
        size_t n = 64 - held < n_bytes ? 64 - held : n_bytes;
        memcpy(h->block + held, p, n);
        p += n;
        n_bytes -= n;
        if (held + n < 64) return;
        compress(h->state, h->block);
    }
    for (; n_bytes >= 64; p += 64, n_bytes -= 64) compress(h->state, p);
    if (n_bytes) memcpy(h->block, p, n_bytes);
}

void och_sha256_hex(och_sha256 *h, char out_hex[65]) {
    static const char digits[] = "0123456789abcdef";
    uint8_t tail[72] = {0x80};
    uint64_t n_bits = h->size_bytes * 8;
    size_t held = h->size_bytes % 64, zeros = held < 56 ? 55 - held : 119 - held;
    for (int i = 0; i < 8; i++) tail[1 + zeros + (size_t)i] = (uint8_t)(n_bits >> (56 - 8 * i));
    och_sha256_update(h, tail, 1 + zeros + 8);
    for (int i = 0; i < 64; i++) out_hex[i] = digits[h->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    out_hex[64] = 0;
}

bool och_sha256_is_hex(const char *s) { return strspn(s, "0123456789abcdefABCDEF") == 64 && s[64] == 0; }
