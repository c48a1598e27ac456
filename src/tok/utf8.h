/* UTF-8 one step at a time. Strict: no overlong forms, no surrogates, nothing above U+10FFFF (Unicode 15, table 3-7).
 */
#ifndef OCH_TOK_UTF8_H
#define OCH_TOK_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum och_utf8_kind {
    OCH_UTF8_OK,    /* a whole character */
    OCH_UTF8_BAD,   /* a maximal subpart of an ill-formed sequence: one U+FFFD in a lossy decode */
    OCH_UTF8_SHORT  /* the text ends inside what could still become a character */
} och_utf8_kind;

/* n >= 1. *out_len is how many bytes the answer is about, at least 1. */
static inline och_utf8_kind och_utf8_step(const unsigned char *p, size_t n, size_t *out_len) {
    unsigned char b = p[0], lo = 0x80, hi = 0xBF;
    size_t need;
    *out_len = 1;
    if (b < 0x80) return OCH_UTF8_OK;
    if (b >= 0xC2 && b <= 0xDF) need = 1;
    else if (b >= 0xE0 && b <= 0xEF) {
        need = 2;
        if (b == 0xE0) lo = 0xA0;
        if (b == 0xED) hi = 0x9F;
    } else if (b >= 0xF0 && b <= 0xF4) {
        need = 3;
        if (b == 0xF0) lo = 0x90;
        if (b == 0xF4) hi = 0x8F;
    } else return OCH_UTF8_BAD;
    for (size_t i = 1; i <= need; i++) {
        *out_len = i;
        if (i >= n) return OCH_UTF8_SHORT;
        if (p[i] < lo || p[i] > hi) return OCH_UTF8_BAD;
        lo = 0x80, hi = 0xBF;
    }
    *out_len = need + 1;
    return OCH_UTF8_OK;
}

/* Bytes of the character at p, or 0 when p[0] starts no whole character. */
static inline size_t och_utf8_len(const unsigned char *p, size_t n) {
    size_t len;
    return och_utf8_step(p, n, &len) == OCH_UTF8_OK ? len : 0;
}

/* The code point of a whole character of `len` bytes. */
static inline uint32_t och_utf8_cp(const unsigned char *p, size_t len) {
    switch (len) {
    case 1: return p[0];
    case 2: return (uint32_t)(p[0] & 0x1F) << 6 | (p[1] & 0x3F);
    case 3: return (uint32_t)(p[0] & 0x0F) << 12 | (uint32_t)(p[1] & 0x3F) << 6 | (p[2] & 0x3F);
    default:
        return (uint32_t)(p[0] & 7) << 18 | (uint32_t)(p[1] & 0x3F) << 12 | (uint32_t)(p[2] & 0x3F) << 6 |
               (p[3] & 0x3F);
    }
}

/* Writes cp (a scalar value) and returns its length. */
static inline size_t och_utf8_put(uint32_t cp, unsigned char *out /* [4] */) {
    if (cp < 0x80) {
        out[0] = (unsigned char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (unsigned char)(0xC0 | cp >> 6);
        out[1] = (unsigned char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (unsigned char)(0xE0 | cp >> 12);
        out[1] = (unsigned char)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (unsigned char)(0x80 | (cp & 0x3F));
        return 3;
    }
    out[0] = (unsigned char)(0xF0 | cp >> 18);
    out[1] = (unsigned char)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (unsigned char)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (unsigned char)(0x80 | (cp & 0x3F));
    return 4;
}

#endif
