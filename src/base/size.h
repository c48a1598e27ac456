/* Checked size arithmetic. Every size that a file, a user or a shape can influence goes through here. */
#ifndef OCH_BASE_SIZE_H
#define OCH_BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each returns true and writes *out_r when the result fits, false (and 0) when it does not. */
static inline bool och_u64_add(uint64_t a, uint64_t b, uint64_t *out_r) {
    if (__builtin_add_overflow(a, b, out_r)) { *out_r = 0; return false; }
    return true;
}
static inline bool och_u64_mul(uint64_t a, uint64_t b, uint64_t *out_r) {
    if (__builtin_mul_overflow(a, b, out_r)) { *out_r = 0; return false; }
    return true;
}
/* Rounds up to a multiple of `align`, a power of two. */
static inline bool och_u64_align(uint64_t a, uint64_t align, uint64_t *out_r) {
    if (!och_u64_add(a, align - 1, out_r)) return false;
    *out_r &= ~(align - 1);
    return true;
}
static inline uint64_t och_u64_ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

#define OCH_MIN(a, b) ((a) < (b) ? (a) : (b))
#define OCH_MAX(a, b) ((a) > (b) ? (a) : (b))
#define OCH_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
