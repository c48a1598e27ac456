/* The bounds-checked reader: the only way that bytes of a file are touched while their layout is still in doubt.
 *
 * Every read is checked in the form `n > size - pos`, which cannot overflow; a read that does not fit returns false,
 * gives 0 and leaves the position where it was. Integers are little-endian and need no alignment.
 *
 * The bytes are usually a mapping: a file that somebody truncates while it is mapped raises SIGBUS, which no check here
 * can see. Replace model files by rename, never by writing into them. */
#ifndef OCH_FILE_CURSOR_H
#define OCH_FILE_CURSOR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct och_cursor {
    const uint8_t *data; /* borrowed */
    uint64_t size;
    uint64_t pos; /* <= size, always */
} och_cursor;

static inline och_cursor och_cursor_view(const void *data, uint64_t size) {
    return (och_cursor){.data = (const uint8_t *)data, .size = size, .pos = 0};
}
static inline uint64_t och_cursor_left(const och_cursor *c) { return c->size - c->pos; }

static inline bool och_cursor_skip(och_cursor *c, uint64_t n) {
    if (n > c->size - c->pos) return false;
    c->pos += n;
    return true;
}
static inline bool och_cursor_seek(och_cursor *c, uint64_t pos) {
    if (pos > c->size) return false;
    c->pos = pos;
    return true;
}
/* A borrowed view of the next n bytes. */
static inline bool och_cursor_bytes(och_cursor *c, uint64_t n, const void **out_p) {
    *out_p = NULL;
    if (n > c->size - c->pos) return false;
    *out_p = c->data ? c->data + c->pos : (const uint8_t *)"";
    c->pos += n;
    return true;
}
static inline bool och_cursor_copy(och_cursor *c, void *out, uint64_t n) {
    if (n > c->size - c->pos) return false;
    if (n) memcpy(out, c->data + c->pos, (size_t)n);
    c->pos += n;
    return true;
}

static inline uint64_t och_load_le(const uint8_t *p, int n_bytes) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (n_bytes == 8) { /* the common case: one load instead of eight */
        uint64_t whole;
        memcpy(&whole, p, 8);
        return whole;
    }
#endif
    uint64_t v = 0;
    for (int i = 0; i < n_bytes; i++) v |= (uint64_t)p[i] << (8 * i);
    return v;
}
static inline bool och_cursor_le(och_cursor *c, int n_bytes, uint64_t *out_v) {
    *out_v = 0;
    if ((uint64_t)n_bytes > c->size - c->pos) return false;
    *out_v = och_load_le(c->data + c->pos, n_bytes);
    c->pos += (uint64_t)n_bytes;
    return true;
}
static inline bool och_cursor_u8(och_cursor *c, uint8_t *out_v) {
    uint64_t v;
    bool ok = och_cursor_le(c, 1, &v);
    *out_v = (uint8_t)v;
    return ok;
}
static inline bool och_cursor_u16(och_cursor *c, uint16_t *out_v) {
    uint64_t v;
    bool ok = och_cursor_le(c, 2, &v);
    *out_v = (uint16_t)v;
    return ok;
}
static inline bool och_cursor_u32(och_cursor *c, uint32_t *out_v) {
    uint64_t v;
    bool ok = och_cursor_le(c, 4, &v);
    *out_v = (uint32_t)v;
    return ok;
}
static inline bool och_cursor_u64(och_cursor *c, uint64_t *out_v) { return och_cursor_le(c, 8, out_v); }
static inline bool och_cursor_f32(och_cursor *c, float *out_v) {
    uint32_t u;
    bool ok = och_cursor_u32(c, &u);
    memcpy(out_v, &u, 4);
    return ok;
}
static inline bool och_cursor_f64(och_cursor *c, double *out_v) {
    uint64_t u;
    bool ok = och_cursor_u64(c, &u);
    memcpy(out_v, &u, 8);
    return ok;
}

#endif
