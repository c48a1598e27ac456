/* The table of planes, packing and decoding. Packing works on 8 bytes at a time: the file's layouts keep the codes of one
 * bit position of many elements side by side, so that masks and shifts of whole words move them. Words are little endian. */
#include "quant/planes.h"

#include "base/size.h"
#include "quant/codec.h"
#include "quant/format.h"

#include <stdlib.h>
#include <string.h>

/* ---- the table ---- */

enum { BYTES_F32 = 4, BYTES_F16 = 2, BYTES_BF16 = 2, BYTES_I8 = 1, BYTES_U8 = 1, BYTES_I32 = 4, BYTES_U32 = 4 };

static const struct {
    och_dtype dtype;
    och_plane plane;
} rows_of_formats[] = {
#define OCH_ACT_PLANE(name, elem, count, span)
#define OCH_PLANE(fmt, name, elem, count, span)                                                                        \
    {OCH_DTYPE_##fmt, {#name, OCH_PLANE_##elem, count, (count) * BYTES_##elem, span}},
#include "quant/planes.def"
#undef OCH_PLANE
#undef OCH_ACT_PLANE
};

static const och_plane act_planes[] = {
#define OCH_PLANE(fmt, name, elem, count, span)
#define OCH_ACT_PLANE(name, elem, count, span) {#name, OCH_PLANE_##elem, count, (count) * BYTES_##elem, span},
#include "quant/planes.def"
#undef OCH_PLANE
#undef OCH_ACT_PLANE
};

/* Rows of one format follow one another. */
static size_t first_row(och_dtype t) {
    size_t i = 0;
    while (i < OCH_COUNT(rows_of_formats) && rows_of_formats[i].dtype != t) i++;
    return i;
}

const och_plane *och_planes_at(och_dtype t, int i) {
    size_t at = first_row(t) + (size_t)i;
    return i >= 0 && at < OCH_COUNT(rows_of_formats) && rows_of_formats[at].dtype == t ? &rows_of_formats[at].plane : NULL;
}

int och_planes_count(och_dtype t) {
    int n = 0;
    while (och_planes_at(t, n)) n++;
    return n;
}

int och_planes_find(och_dtype t, const char *name) {
    const och_plane *p;
    for (int i = 0; (p = och_planes_at(t, i)); i++)
        if (!strcmp(p->name, name)) return i;
    return -1;
}

const och_plane *och_planes_act_at(int i) { return i >= 0 && i < (int)OCH_COUNT(act_planes) ? &act_planes[i] : NULL; }

/* Moves *at past a plane. */
static bool plane_end(const och_plane *p, uint64_t k, uint64_t *at, uint64_t *out_bytes) {
    return och_u64_mul(och_u64_ceil_div(k, p->span), p->bytes, out_bytes) && och_u64_add(*at, *out_bytes, at) &&
           och_u64_align(*at, OCH_PLANES_ALIGN, at);
}

static bool whole_blocks(och_dtype t, uint64_t k) {
    const och_format *f = och_format_get(t);
    return f && k && k % f->block_elems == 0;
}

bool och_planes_row_bytes(och_dtype t, uint64_t k, uint64_t *out_bytes) {
    uint64_t at = 0, bytes;
    *out_bytes = 0;
    if (!whole_blocks(t, k) || !och_planes_at(t, 0)) return false;
    const och_plane *p;
    for (int i = 0; (p = och_planes_at(t, i)); i++)
        if (!plane_end(p, k, &at, &bytes)) return false;
    *out_bytes = at;
    return true;
}

bool och_planes_plane(och_dtype t, uint64_t k, int i, uint64_t *out_offset, uint64_t *out_bytes) {
    uint64_t at = 0, end = 0;
    *out_offset = *out_bytes = 0;
    if (!whole_blocks(t, k) || !och_planes_at(t, i)) return false;
    for (int j = 0; j <= i; j++) {
        at = end;
        if (!plane_end(och_planes_at(t, j), k, &end, out_bytes)) return false;
    }
    *out_offset = at;
    return true;
}

bool och_planes_act_row_bytes(uint64_t k, uint64_t *out_bytes) {
    uint64_t at = 0, bytes;
    *out_bytes = 0;
    if (!k || k % 32) return false;
    for (size_t i = 0; i < OCH_COUNT(act_planes); i++)
        if (!plane_end(&act_planes[i], k, &at, &bytes)) return false;
    *out_bytes = at;
    return true;
}

bool och_planes_act_plane(uint64_t k, int i, uint64_t *out_offset, uint64_t *out_bytes) {
    uint64_t at = 0, end = 0;
    *out_offset = *out_bytes = 0;
    if (!k || k % 32 || !och_planes_act_at(i)) return false;
    for (int j = 0; j <= i; j++) {
        at = end;
        if (!plane_end(&act_planes[j], k, &end, out_bytes)) return false;
    }
    *out_offset = at;
    return true;
}

/* ---- packing: n_blocks of the file's blocks; to[i] is where plane i of the row starts ---- */

static inline uint64_t load64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}
static inline uint32_t load32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}
static inline void store64(uint8_t *p, uint64_t v) { memcpy(p, &v, 8); }
static inline void store32(uint8_t *p, uint32_t v) { memcpy(p, &v, 4); }

/* The same byte in all eight. */
#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* 32 bytes that hold the nibbles of two units, low and high, become the 16 bytes of each. */
static inline void split_nibbles(const uint8_t *src, uint8_t *low, uint8_t *high) {
    for (int i = 0; i < 16; i += 8) {
        uint64_t a = load64(src + i), b = load64(src + 16 + i);
        store64(low + i, (a & EACH(0x0F)) | (b & EACH(0x0F)) << 4);
        store64(high + i, (a >> 4 & EACH(0x0F)) | (b & EACH(0xF0)));
    }
}

/* 32 bytes that hold two bits of an element in each of four units become the 8 bytes of each. */
static inline void split_pairs(const uint8_t *src, uint8_t *dst) {
    uint64_t a = load64(src), b = load64(src + 8), c = load64(src + 16), d = load64(src + 24);
    for (int j = 0; j < 8; j += 2)
        store64(dst + 4 * j, (a >> j & EACH(3)) | (b >> j & EACH(3)) << 2 | (c >> j & EACH(3)) << 4 | (d >> j & EACH(3)) << 6);
}

/* Bit 8 r + c becomes bit 8 c + r. Warren, Hacker's Delight, second edition, section 7-3. */
static inline uint64_t transpose8(uint64_t x) {
    uint64_t t = (x ^ x >> 7) & UINT64_C(0x00AA00AA00AA00AA);
    x ^= t ^ t << 7;
    t = (x ^ x >> 14) & UINT64_C(0x0000CCCC0000CCCC);
    x ^= t ^ t << 14;
    t = (x ^ x >> 28) & UINT64_C(0x00000000F0F0F0F0);
    return x ^ t ^ t << 28;
}

/* 32 bytes that hold one bit of an element in each of eight units become a word of each. */
static inline void split_bits(const uint8_t *src, uint8_t *dst) {
    uint64_t t[4];
    for (int i = 0; i < 4; i++) t[i] = transpose8(load64(src + 8 * i));
    for (int u = 0; u < 8; u++)
        store32(dst + 4 * u, (uint32_t)((t[0] >> 8 * u & 255) | (t[1] >> 8 * u & 255) << 8 | (t[2] >> 8 * u & 255) << 16 |
                                        (t[3] >> 8 * u & 255) << 24));
}

/* 12 bytes of six-bit scales and minima become pairs of bytes. */
static inline void split_scale_min(const uint8_t *src, uint8_t *dst) {
    uint32_t a = load32(src), b = load32(src + 4), c = load32(src + 8);
    uint32_t scale[2] = {a & 0x3F3F3F3F, (c & 0x0F0F0F0F) | (a >> 2 & 0x30303030)};
    uint32_t min[2] = {b & 0x3F3F3F3F, (c >> 4 & 0x0F0F0F0F) | (b >> 2 & 0x30303030)};
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 4; i++) {
            dst[8 * h + 2 * i] = (uint8_t)(scale[h] >> 8 * i);
            dst[8 * h + 2 * i + 1] = (uint8_t)(min[h] >> 8 * i);
        }
}

/* Blocks of 32 whose fields are those of the planes already: `head` bytes of scale, then high bits, then codes. */
static inline void pack_plain(const uint8_t *s, uint8_t *const *to, uint64_t n, size_t head, size_t high, size_t codes) {
    uint8_t *q = to[0], *h = to[1], *d = to[high ? 2 : 1];
    for (; n--; s += head + high + codes) {
        memcpy(q, s + head + high, codes), q += codes;
        if (high) memcpy(h, s + head, high), h += high;
        memcpy(d, s, head), d += head;
    }
}
static void pack_q4_0(const uint8_t *s, uint8_t *const *to, uint64_t n) { pack_plain(s, to, n, 2, 0, 16); }
static void pack_q4_1(const uint8_t *s, uint8_t *const *to, uint64_t n) { pack_plain(s, to, n, 4, 0, 16); }
static void pack_q5_0(const uint8_t *s, uint8_t *const *to, uint64_t n) { pack_plain(s, to, n, 2, 4, 16); }
static void pack_q5_1(const uint8_t *s, uint8_t *const *to, uint64_t n) { pack_plain(s, to, n, 4, 4, 16); }
static void pack_q8_0(const uint8_t *s, uint8_t *const *to, uint64_t n) { pack_plain(s, to, n, 2, 0, 32); }
static void pack_mxfp4(const uint8_t *s, uint8_t *const *to, uint64_t n) { pack_plain(s, to, n, 1, 0, 16); }

static void pack_q2_k(const uint8_t *s, uint8_t *const *to, uint64_t n) {
    for (uint64_t b = 0; b < n; b++, s += 84) {
        split_pairs(s + 16, to[0] + 64 * b), split_pairs(s + 48, to[0] + 64 * b + 32);
        memcpy(to[1] + 16 * b, s, 16);
        memcpy(to[2] + 4 * b, s + 80, 4);
    }
}

static void pack_q3_k(const uint8_t *s, uint8_t *const *to, uint64_t n) {
    for (uint64_t b = 0; b < n; b++, s += 110) {
        split_pairs(s + 32, to[0] + 64 * b), split_pairs(s + 64, to[0] + 64 * b + 32);
        split_bits(s, to[1] + 32 * b);
        /* 16 scales of 6 bits: the low four in nibbles of 8 bytes, the high two in pairs of 4 bytes */
        uint32_t low[2] = {load32(s + 96), load32(s + 100)}, high = load32(s + 104);
        for (int w = 0; w < 4; w++) {
            uint32_t six = (low[w & 1] >> 4 * (w >> 1) & 0x0F0F0F0F) | (high >> 2 * w & 0x03030303) << 4;
            for (int i = 0; i < 4; i++) to[2][16 * b + (uint64_t)(4 * w + i)] = (uint8_t)((six >> 8 * i & 63) - 32);
        }
        memcpy(to[3] + 2 * b, s + 108, 2);
    }
}

static void pack_q4_k(const uint8_t *s, uint8_t *const *to, uint64_t n) {
    for (uint64_t b = 0; b < n; b++, s += 144) {
        uint8_t *q = to[0] + 128 * b;
        for (int p = 0; p < 4; p++) split_nibbles(s + 16 + 32 * p, q + 32 * p, q + 32 * p + 16);
        split_scale_min(s + 4, to[1] + 16 * b);
        memcpy(to[2] + 4 * b, s, 4);
    }
}

static void pack_q5_k(const uint8_t *s, uint8_t *const *to, uint64_t n) {
    for (uint64_t b = 0; b < n; b++, s += 176) {
        uint8_t *q = to[0] + 128 * b;
        for (int p = 0; p < 4; p++) split_nibbles(s + 48 + 32 * p, q + 32 * p, q + 32 * p + 16);
        split_bits(s + 16, to[1] + 32 * b);
        split_scale_min(s + 4, to[2] + 16 * b);
        memcpy(to[3] + 4 * b, s, 4);
    }
}

static void pack_q6_k(const uint8_t *s, uint8_t *const *to, uint64_t n) {
    for (uint64_t b = 0; b < n; b++, s += 210) {
        for (int half = 0; half < 2; half++) {
            uint8_t *q = to[0] + 128 * b + 64 * half;
            split_nibbles(s + 64 * half, q, q + 32);
            split_nibbles(s + 64 * half + 32, q + 16, q + 48);
            split_pairs(s + 128 + 32 * half, to[1] + 64 * b + 32 * half);
        }
        memcpy(to[2] + 16 * b, s + 192, 16);
        memcpy(to[3] + 2 * b, s + 208, 2);
    }
}

static void pack_2_bytes(const uint8_t *s, uint8_t *const *to, uint64_t n) { memcpy(to[0], s, (size_t)(2 * n)); }
static void pack_4_bytes(const uint8_t *s, uint8_t *const *to, uint64_t n) { memcpy(to[0], s, (size_t)(4 * n)); }

typedef void pack_fn(const uint8_t *src, uint8_t *const *to, uint64_t n_blocks);

static pack_fn *const packers[OCH_DTYPE_COUNT_] = {
    [OCH_DTYPE_F32] = pack_4_bytes,  [OCH_DTYPE_F16] = pack_2_bytes,  [OCH_DTYPE_BF16] = pack_2_bytes,
    [OCH_DTYPE_Q4_0] = pack_q4_0,    [OCH_DTYPE_Q4_1] = pack_q4_1,    [OCH_DTYPE_Q5_0] = pack_q5_0,
    [OCH_DTYPE_Q5_1] = pack_q5_1,    [OCH_DTYPE_Q8_0] = pack_q8_0,    [OCH_DTYPE_Q2_K] = pack_q2_k,
    [OCH_DTYPE_Q3_K] = pack_q3_k,    [OCH_DTYPE_Q4_K] = pack_q4_k,    [OCH_DTYPE_Q5_K] = pack_q5_k,
    [OCH_DTYPE_Q6_K] = pack_q6_k,    [OCH_DTYPE_IQ4_NL] = pack_q4_0,  [OCH_DTYPE_MXFP4] = pack_mxfp4,
};

void och_planes_pack(och_dtype t, int64_t rows, int64_t k, const void *src, void *dst, int64_t row_begin, int64_t row_end) {
    uint64_t src_bytes, dst_bytes, offset[OCH_PLANES_MAX + 1], bytes[OCH_PLANES_MAX];
    int n = och_planes_count(t);
    if (k < 1 || row_begin < 0 || row_begin > row_end || row_end > rows || n > OCH_PLANES_MAX ||
        !och_planes_row_bytes(t, (uint64_t)k, &dst_bytes) || !och_dtype_row_bytes(t, (uint64_t)k, &src_bytes) || !packers[t])
        abort();
    for (int i = 0; i < n; i++)
        if (!och_planes_plane(t, (uint64_t)k, i, &offset[i], &bytes[i])) abort();
    offset[n] = dst_bytes;
    uint64_t block = och_dtype_get(t)->block_elems, n_blocks = (uint64_t)k / block;
    /* The elements that end a float row with a part of a unit. */
    if (block == 1) bytes[0] = src_bytes;
    for (int64_t r = row_begin; r < row_end; r++) {
        uint8_t *row = (uint8_t *)dst + (uint64_t)r * dst_bytes, *to[OCH_PLANES_MAX] = {0};
        for (int i = 0; i < n; i++) {
            to[i] = row + offset[i];
            memset(to[i] + bytes[i], 0, (size_t)(offset[i + 1] - offset[i] - bytes[i]));
        }
        packers[t]((const uint8_t *)src + (uint64_t)r * src_bytes, to, n_blocks);
    }
}

/* ---- decoding: an element at a time, by the definition of each field ---- */

typedef struct fields {
    const uint8_t *v, *q4, *q8, *q2, *h1, *h2, *d, *dm, *e, *s;
} fields;

static fields fields_of(och_dtype t, uint64_t k, const uint8_t *row) {
    fields f = {0};
    struct {
        const char *name;
        const uint8_t **at;
    } names[] = {{"v", &f.v},   {"q4", &f.q4}, {"q8", &f.q8}, {"q2", &f.q2}, {"h1", &f.h1},
                 {"h2", &f.h2}, {"d", &f.d},   {"dm", &f.dm}, {"e", &f.e},   {"s", &f.s}};
    for (int i = 0; i < och_planes_count(t); i++)
        for (size_t j = 0; j < OCH_COUNT(names); j++) {
            uint64_t offset, bytes;
            if (strcmp(names[j].name, och_planes_at(t, i)->name) != 0) continue;
            if (!och_planes_plane(t, k, i, &offset, &bytes)) abort();
            *names[j].at = row + offset;
        }
    return f;
}

/* Element i of unit u. */
static int code_of(const fields *f, uint64_t u, int i) {
    int code = 0, bits = 0;
    if (f->q8) return (int8_t)f->q8[32 * u + (uint64_t)i];
    if (f->q4) code = f->q4[16 * u + (uint64_t)(i % 16)] >> 4 * (i / 16) & 15, bits = 4;
    if (f->q2) code = f->q2[8 * u + (uint64_t)(i % 8)] >> 2 * (i / 8) & 3, bits = 2;
    if (f->h1) code |= (f->h1[4 * u + (uint64_t)(i / 8)] >> i % 8 & 1) << bits;
    if (f->h2) code |= (f->h2[8 * u + (uint64_t)(i % 8)] >> 2 * (i / 8) & 3) << bits;
    return code;
}

void och_planes_decode_row(och_dtype t, uint64_t k, const void *row, float *dst) {
    uint64_t bytes;
    if (!och_planes_row_bytes(t, k, &bytes)) abort();
    fields f = fields_of(t, k, row);
    if (f.v) {
        och_format_decode_row(t, f.v, dst, k); /* elements are kept as they are */
        return;
    }
    for (uint64_t e = 0; e < k; e++) {
        uint64_t u = e / 32, b = e / 256, part = e / 16;
        int q = code_of(&f, u, (int)(e % 32));
        switch (t) {
        case OCH_DTYPE_Q4_0: dst[e] = (float)(q - 8) * och_load_f16(f.d + 2 * u); break;
        case OCH_DTYPE_Q5_0: dst[e] = (float)(q - 16) * och_load_f16(f.d + 2 * u); break;
        case OCH_DTYPE_Q8_0: dst[e] = (float)q * och_load_f16(f.d + 2 * u); break;
        case OCH_DTYPE_Q4_1:
        case OCH_DTYPE_Q5_1: dst[e] = (float)q * och_load_f16(f.dm + 4 * u) + och_load_f16(f.dm + 4 * u + 2); break;
        case OCH_DTYPE_IQ4_NL: dst[e] = och_load_f16(f.d + 2 * u) * (float)och_iq4_nl_table[q]; break;
        case OCH_DTYPE_MXFP4: dst[e] = (float)och_e2m1_doubled[q] * och_e8m0_half(f.e[u]); break;
        case OCH_DTYPE_Q2_K:
            dst[e] = och_load_f16(f.dm + 4 * b) * (float)(f.s[part] & 15) * (float)q -
                     och_load_f16(f.dm + 4 * b + 2) * (float)(f.s[part] >> 4);
            break;
        case OCH_DTYPE_Q3_K: dst[e] = och_load_f16(f.d + 2 * b) * (float)(int8_t)f.s[part] * (float)(q - 4); break;
        case OCH_DTYPE_Q6_K: dst[e] = och_load_f16(f.d + 2 * b) * (float)(int8_t)f.s[part] * (float)(q - 32); break;
        case OCH_DTYPE_Q4_K:
        case OCH_DTYPE_Q5_K:
            dst[e] = och_load_f16(f.dm + 4 * b) * (float)f.s[2 * u] * (float)q -
                     och_load_f16(f.dm + 4 * b + 2) * (float)f.s[2 * u + 1];
            break;
        default: abort();
        }
    }
}

/* ---- activations ---- */

void och_planes_act_encode_row(const float *src, uint64_t k, void *dst) {
    uint64_t bytes, at[3], size[3];
    if (!och_planes_act_row_bytes(k, &bytes)) abort();
    for (int i = 0; i < 3; i++)
        if (!och_planes_act_plane(k, i, &at[i], &size[i])) abort();
    uint8_t *row = dst;
    for (int i = 0; i < 3; i++) {
        uint64_t end = i < 2 ? at[i + 1] : bytes;
        memset(row + at[i] + size[i], 0, (size_t)(end - at[i] - size[i]));
    }
    for (uint64_t u = 0; u < k / 32; u++) {
        och_q8_32s block;
        och_q8_32s_encode_row(src + 32 * u, &block, 32);
        memcpy(row + at[0] + 32 * u, block.q, 32);
        memcpy(row + at[1] + 4 * u, &block.d, 4);
        memcpy(row + at[2] + 4 * u, &block.sum, 4);
    }
}

void och_planes_act_decode_row(const void *row, uint64_t k, float *dst) {
    uint64_t at[2], size;
    for (int i = 0; i < 2; i++)
        if (!och_planes_act_plane(k, i, &at[i], &size)) abort();
    for (uint64_t e = 0; e < k; e++) {
        float d;
        memcpy(&d, (const uint8_t *)row + at[1] + e / 32 * 4, 4);
        dst[e] = d * (float)(int8_t)((const uint8_t *)row)[at[0] + e];
    }
}
