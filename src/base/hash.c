#include "base/hash.h"

#include <stdio.h>
#define XXH_STATIC_LINKING_ONLY /* the state's size: it stands in ours, and nothing is allocated */
#include <xxhash.h>

_Static_assert(sizeof(XXH3_state_t) <= sizeof(och_hash), "xxHash's state has grown");
_Static_assert(_Alignof(XXH3_state_t) <= _Alignof(och_hash), "xxHash's state needs more alignment");

void och_hash_init(och_hash *h) { (void)XXH3_128bits_reset((XXH3_state_t *)h->state); }

void och_hash_update(och_hash *h, const void *bytes, size_t n_bytes) {
    if (n_bytes) (void)XXH3_128bits_update((XXH3_state_t *)h->state, bytes, n_bytes);
}

void och_hash_part(och_hash *h, const void *bytes, size_t n_bytes) {
    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)n_bytes >> (8 * i));
    och_hash_update(h, length, sizeof length);
    och_hash_update(h, bytes, n_bytes);
}

static och_hash128 ours(XXH128_hash_t x) { return (och_hash128){.low = x.low64, .high = x.high64}; }

och_hash128 och_hash_digest(const och_hash *h) { return ours(XXH3_128bits_digest((const XXH3_state_t *)h->state)); }

och_hash128 och_hash_bytes(const void *bytes, size_t n_bytes) { return ours(XXH3_128bits(bytes, n_bytes)); }

void och_hash_hex(och_hash128 hash, char out_hex[OCH_HASH_HEX_BYTES]) {
    snprintf(out_hex, OCH_HASH_HEX_BYTES, "%016llx%016llx", (unsigned long long)hash.high, (unsigned long long)hash.low);
}
