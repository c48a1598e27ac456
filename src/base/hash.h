/* 128-bit XXH3 (xxHash), for keys and checksums: it tells apart what chance changed, not what an enemy forged. */
#ifndef OCH_BASE_HASH_H
#define OCH_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OCH_HASH_HEX_BYTES 33 /* 32 digits and a NUL */

typedef struct och_hash128 {
    uint64_t low, high;
} och_hash128;

typedef struct och_hash {
    _Alignas(64) unsigned char state[640]; /* xxHash's own */
} och_hash;

void och_hash_init(och_hash *h);
void och_hash_update(och_hash *h, const void *bytes, size_t n_bytes);
/* A part of a key: its length comes first, as 8 bytes of low order first, so that no two lists of parts give one stream. */
void och_hash_part(och_hash *h, const void *bytes, size_t n_bytes);
och_hash128 och_hash_digest(const och_hash *h);

och_hash128 och_hash_bytes(const void *bytes, size_t n_bytes);
static inline bool och_hash_equal(och_hash128 a, och_hash128 b) { return a.low == b.low && a.high == b.high; }
/* Lower-case digits, the high half first. */
void och_hash_hex(och_hash128 hash, char out_hex[OCH_HASH_HEX_BYTES]);

#endif
