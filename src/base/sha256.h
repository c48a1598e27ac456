/* SHA-256 (FIPS 180-4, section 6.2). */
#ifndef OCH_BASE_SHA256_H
#define OCH_BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct och_sha256 {
    uint32_t state[8];
    uint64_t size_bytes;
    uint8_t block[64];
} och_sha256;

void och_sha256_init(och_sha256 *h);
void och_sha256_update(och_sha256 *h, const void *bytes, size_t n_bytes);
/* Ends the hash: 64 lower-case digits and a NUL. h must be initialised again before another use. */
void och_sha256_hex(och_sha256 *h, char out_hex[65]);
/* True for exactly 64 hexadecimal digits of either case. */
bool och_sha256_is_hex(const char *s);

#endif
