/* Packing: from a file's blocks to codes, from codes to panels, and back for single rows. */
#include "op/cpu/pack.h"

#include "base/half.h"

#include <string.h>

static const och_cpu_format formats[OCH_DTYPE_COUNT_] = {
#define X(sym, low, high, off, sc, book) [OCH_DTYPE_##sym] = {low, high, off, sc, book, 0},
    OCH_CPU_FORMATS(X)
#undef X
    [OCH_DTYPE_F32] = {0, 0, 0, OCH_CPU_SCALE_NONE, OCH_CPU_LINEAR, 4},
    [OCH_DTYPE_F16] = {0, 0, 0, OCH_CPU_SCALE_NONE, OCH_CPU_LINEAR, 2},
    [OCH_DTYPE_BF16] = {0, 0, 0, OCH_CPU_SCALE_NONE, OCH_CPU_LINEAR, 2},
};

const och_cpu_format *och_cpu_format_get(och_dtype dtype) {
    if ((unsigned)dtype >= OCH_DTYPE_COUNT_) return NULL;
    const och_cpu_format *f = &formats[dtype];
    return f->low_bits || f->elem_bytes ? f : NULL;
}

bool och_cpu_pack_fits(och_dtype dtype, int64_t cols) {
    return och_cpu_format_get(dtype) && cols > 0 && cols % och_dtype_get(dtype)->block_elems == 0;
}

/* A file's block as codes: 32 or 256 of them, and its scales as stored. */
typedef struct codes {
    uint8_t q[256];
    uint16_t d, m;       /* f16; E8M0: d is the exponent byte */
    uint8_t s[16], n[16]; /* scale and minimum of each sub-block */
} codes;

static uint16_t load_u16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint32_t load_u32(const uint8_t *p) { return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24; }

static void nibbles_16(const uint8_t *p, uint8_t *q) {
    for (int i = 0; i < 16; i++) {
        q[i] = p[i] & 15;
        q[i + 16] = p[i] >> 4;
    }
}
static void fifth_bits(uint32_t high, uint8_t *q) {
    for (int i = 0; i < 32; i++) q[i] |= (uint8_t)((high >> i & 1) << 4);
}
static void from_q4(const uint8_t *p, codes *c) {
    c->d = load_u16(p);
    nibbles_16(p + 2, c->q);
}
static void from_q4_1(const uint8_t *p, codes *c) {
    c->d = load_u16(p);
    c->m = load_u16(p + 2);
    nibbles_16(p + 4, c->q);
}
static void from_q5_0(const uint8_t *p, codes *c) {
    c->d = load_u16(p);
    nibbles_16(p + 6, c->q);
    fifth_bits(load_u32(p + 2), c->q);
}
static void from_q5_1(const uint8_t *p, codes *c) {
    c->d = load_u16(p);
    c->m = load_u16(p + 2);
    nibbles_16(p + 8, c->q);
    fifth_bits(load_u32(p + 4), c->q);
}
static void from_q8_0(const uint8_t *p, codes *c) {
    c->d = load_u16(p);
    for (int i = 0; i < 32; i++) c->q[i] = p[2 + i] ^ 0x80;
}
static void from_mxfp4(const uint8_t *p, codes *c) {
    c->d = p[0];
    nibbles_16(p + 1, c->q);
}

/* Two-bit fields of the K formats: element 128 h + 32 f + l is field f of byte 32 h + l. */
static void fields_2(const uint8_t *p, uint8_t *q) {
    for (int i = 0; i < 256; i++) q[i] = p[(i >> 7) * 32 + (i & 31)] >> 2 * (i >> 5 & 3) & 3;
}
static void from_q2_k(const uint8_t *p, codes *c) {
    for (int i = 0; i < 16; i++) c->s[i] = p[i];
    fields_2(p + 16, c->q);
    c->d = load_u16(p + 80);
    c->m = load_u16(p + 82);
}
static void from_q3_k(const uint8_t *p, codes *c) {
    fields_2(p + 32, c->q);
    for (int i = 0; i < 256; i++) c->q[i] |= (uint8_t)((p[i & 31] >> (i >> 5) & 1) << 2);
    const uint8_t *s = p + 96; /* 16 six-bit scales: 4 low bits in bytes 0..7, 2 high bits in bytes 8..11 */
    for (int i = 0; i < 16; i++) {
        int low = i < 8 ? s[i] & 15 : s[i - 8] >> 4, high = s[8 + (i & 3)] >> 2 * (i >> 2) & 3;
        c->s[i] = (uint8_t)(int8_t)((low | high << 4) - 32);
    }
    c->d = load_u16(p + 108);
}
/* The 12 bytes of six-bit scales and minima of Q4_K and Q5_K. */
static void scales_k4(const uint8_t *p, codes *c) {
    for (int i = 0; i < 4; i++) {
        c->s[i] = p[i] & 63;
        c->n[i] = p[i + 4] & 63;
        c->s[i + 4] = (uint8_t)((p[i + 8] & 15) | (p[i] >> 6) << 4);
        c->n[i + 4] = (uint8_t)(p[i + 8] >> 4 | (p[i + 4] >> 6) << 4);
    }
}
static void nibbles_64(const uint8_t *p, uint8_t *q) {
    for (int i = 0; i < 256; i++) q[i] = p[(i >> 6) * 32 + (i & 31)] >> (i >> 5 & 1) * 4 & 15;
}
static void from_q4_k(const uint8_t *p, codes *c) {
    c->d = load_u16(p);
    c->m = load_u16(p + 2);
    scales_k4(p + 4, c);
    nibbles_64(p + 16, c->q);
}
static void from_q5_k(const uint8_t *p, codes *c) {
    c->d = load_u16(p);
    c->m = load_u16(p + 2);
    scales_k4(p + 4, c);
    nibbles_64(p + 48, c->q);
    for (int i = 0; i < 256; i++) c->q[i] |= (uint8_t)((p[16 + (i & 31)] >> (i >> 5) & 1) << 4);
}
static void from_q6_k(const uint8_t *p, codes *c) {
    for (int i = 0; i < 256; i++) {
        int half = i >> 7, l = i & 31, field = i >> 5 & 3;
        int low = p[half * 64 + (field & 1) * 32 + l] >> (field >> 1) * 4 & 15;
        int high = p[128 + half * 32 + l] >> 2 * field & 3;
        c->q[i] = (uint8_t)(low | high << 4);
    }
    for (int i = 0; i < 16; i++) c->s[i] = p[192 + i];
    c->d = load_u16(p + 208);
}

static void (*const from_file[OCH_DTYPE_COUNT_])(const uint8_t *, codes *) = {
    [OCH_DTYPE_Q4_0] = from_q4,   [OCH_DTYPE_IQ4_NL] = from_q4, [OCH_DTYPE_Q4_1] = from_q4_1,
    [OCH_DTYPE_Q5_0] = from_q5_0, [OCH_DTYPE_Q5_1] = from_q5_1, [OCH_DTYPE_Q8_0] = from_q8_0,
    [OCH_DTYPE_Q2_K] = from_q2_k, [OCH_DTYPE_Q3_K] = from_q3_k, [OCH_DTYPE_Q4_K] = from_q4_k,
    [OCH_DTYPE_Q5_K] = from_q5_k, [OCH_DTYPE_Q6_K] = from_q6_k, [OCH_DTYPE_MXFP4] = from_mxfp4,
};

static uint32_t quad(const uint8_t *q, int j) {
    uint32_t v;
    memcpy(&v, q + 4 * j, 4);
    return v;
}
static void put(uint8_t *section, int reg, int row, uint32_t v) { memcpy(section + reg * 64 + row * 4, &v, 4); }

/* 32 codes of one row into the planes of a block. Codes are bytes, so shifts by a quad's word stay within bytes as long
 * as the bits that leave a byte are masked. */
static void put_codes(const och_cpu_format *f, const uint8_t *q, uint8_t *low, uint8_t *high, int row) {
    const uint32_t ones = 0x01010101u;
    if (f->low_bits == 8) {
        for (int j = 0; j < 8; j++) put(low, j, row, quad(q, j));
    } else if (f->low_bits == 4) {
        for (int j = 0; j < 4; j++)
            put(low, j, row, (quad(q, j) & 15 * ones) | (quad(q, j + 4) & 15 * ones) << 4);
    } else {
        for (int i = 0; i < 2; i++) {
            uint32_t v = 0;
            for (int field = 0; field < 4; field++) v |= (quad(q, 2 * field + i) & 3 * ones) << 2 * field;
            put(low, i, row, v);
        }
    }
    int shift = f->low_bits;
    if (f->high_bits == 1) {
        uint32_t v = 0;
        for (int j = 0; j < 8; j++) v |= (quad(q, j) >> shift & ones) << j;
        put(high, 0, row, v);
    } else if (f->high_bits == 2) {
        for (int i = 0; i < 2; i++) {
            uint32_t v = 0;
            for (int field = 0; field < 4; field++) v |= (quad(q, 2 * field + i) >> shift & 3 * ones) << 2 * field;
            put(high, i, row, v);
        }
    }
}

static void get_codes(const och_cpu_format *f, const uint8_t *low, const uint8_t *high, int row, uint8_t *q) {
    for (int k = 0; k < 32; k++) {
        int j = k / 4, byte = row * 4 + k % 4, v;
        if (f->low_bits == 8) v = low[j * 64 + byte];
        else if (f->low_bits == 4) v = low[(j & 3) * 64 + byte] >> (j >> 2) * 4 & 15;
        else v = low[(j & 1) * 64 + byte] >> 2 * (j >> 1) & 3;
        if (f->high_bits == 1) v |= (high[byte] >> j & 1) << f->low_bits;
        else if (f->high_bits == 2) v |= (high[(j & 1) * 64 + byte] >> 2 * (j >> 1) & 3) << f->low_bits;
        q[k] = (uint8_t)v;
    }
}

static void put_u16(uint8_t *p, uint16_t v) { memcpy(p, &v, 2); }
static float get_f16(const uint8_t *p) {
    uint16_t v;
    memcpy(&v, p, 2);
    return och_f16_to_f32(v);
}

/* Scales of block b (of the row) that come from sub-block `sub` of the file's block. */
static void put_scales(const och_cpu_format *f, const codes *c, int sub, uint8_t *scale, int row) {
    switch (f->scale) {
    case OCH_CPU_SCALE_F16: put_u16(scale + 2 * row, c->d); break;
    case OCH_CPU_SCALE_F16_MIN:
        put_u16(scale + 2 * row, c->d);
        put_u16(scale + 32 + 2 * row, c->m);
        break;
    case OCH_CPU_SCALE_E8M0: scale[row] = (uint8_t)c->d; break;
    case OCH_CPU_SCALE_SUB32_MIN:
        scale[row] = c->s[sub];
        scale[16 + row] = c->n[sub];
        break;
    default:
        scale[row] = c->s[2 * sub];
        scale[16 + row] = c->s[2 * sub + 1];
        break;
    }
}

static void pack_integer(och_dtype dtype, const och_cpu_format *f, int64_t rows, int64_t cols, const uint8_t *src,
                         uint8_t *dst, int64_t row_begin, int64_t row_end) {
    const och_dtype_info *info = och_dtype_get(dtype);
    int64_t nb = cols / OCH_CPU_BLOCK, file_blocks = cols / info->block_elems;
    int subs = (int)info->block_elems / OCH_CPU_BLOCK;
    size_t panel_bytes = och_cpu_panel_bytes(f, cols), row_bytes = (size_t)file_blocks * info->block_bytes;
    size_t nl = och_cpu_low_bytes(f), nh = och_cpu_high_bytes(f), ns = och_cpu_scale_bytes(f), nd = och_cpu_super_bytes(f);
    for (int64_t p = row_begin / OCH_CPU_PANEL; p * OCH_CPU_PANEL < row_end; p++) {
        uint8_t *panel = dst + (size_t)p * panel_bytes;
        uint8_t *low = panel, *high = low + (size_t)nb * nl, *scale = high + (size_t)nb * nh, *super = scale + (size_t)nb * ns;
        if (rows - p * OCH_CPU_PANEL < OCH_CPU_PANEL) memset(panel, 0, panel_bytes);
        else memset(panel + panel_bytes - 64, 0, 64); /* the padding */
        for (int row = 0; row < OCH_CPU_PANEL && p * OCH_CPU_PANEL + row < rows; row++) {
            const uint8_t *in = src + (size_t)(p * OCH_CPU_PANEL + row) * row_bytes;
            for (int64_t fb = 0; fb < file_blocks; fb++, in += info->block_bytes) {
                codes c = {0};
                from_file[dtype](in, &c);
                for (int sub = 0; sub < subs; sub++) {
                    size_t b = (size_t)(fb * subs + sub);
                    put_codes(f, c.q + 32 * sub, low + b * nl, high + b * nh, row);
                    put_scales(f, &c, sub, scale + b * ns, row);
                }
                if (nd) put_u16(super + (size_t)fb * nd + (size_t)(2 * row), c.d);
                if (nd > 32) put_u16(super + (size_t)fb * nd + 32 + (size_t)(2 * row), c.m);
            }
        }
    }
}

static void pack_float(const och_cpu_format *f, int64_t rows, int64_t cols, const uint8_t *src, uint8_t *dst,
                       int64_t row_begin, int64_t row_end) {
    size_t panel_bytes = och_cpu_panel_bytes(f, cols), elem = f->elem_bytes;
    for (int64_t p = row_begin / OCH_CPU_PANEL; p * OCH_CPU_PANEL < row_end; p++) {
        uint8_t *panel = dst + (size_t)p * panel_bytes;
        int64_t here = rows - p * OCH_CPU_PANEL;
        memset(panel + panel_bytes - 64, 0, 64);
        for (int64_t k = 0; k < cols; k++)
            for (int64_t row = 0; row < OCH_CPU_PANEL; row++) {
                uint8_t *out = panel + (size_t)(k * OCH_CPU_PANEL + row) * elem;
                if (row >= here) memset(out, 0, elem);
                else memcpy(out, src + (size_t)((p * OCH_CPU_PANEL + row) * cols + k) * elem, elem);
            }
    }
}

void och_cpu_pack(och_dtype dtype, int64_t rows, int64_t cols, const void *src, void *dst, int64_t row_begin,
                  int64_t row_end) {
    const och_cpu_format *f = och_cpu_format_get(dtype);
    if (f->low_bits) pack_integer(dtype, f, rows, cols, src, dst, row_begin, row_end);
    else pack_float(f, rows, cols, src, dst, row_begin, row_end);
}

static const uint8_t iq4_nl[16] = {OCH_CPU_IQ4_NL_VALUES}, mxfp4[16] = {OCH_CPU_MXFP4_VALUES};

static float e8m0_half(uint8_t e) { return e < 2 ? och_f32_from_bits(0x00200000u << e) : och_f32_from_bits((uint32_t)(e - 1) << 23); }

/* Products and differences in the order of ggml's dequantize_row_*. */
static void unpack_block(const och_cpu_format *f, const uint8_t *q, const uint8_t *scale, const uint8_t *super, int row,
                         float *dst) {
    float d = 0, m = 0;
    if (och_cpu_super_bytes(f)) d = get_f16(super + 2 * row);
    if (och_cpu_super_bytes(f) > 32) m = get_f16(super + 32 + 2 * row);
    for (int k = 0; k < 32; k++) {
        int v = f->codebook == OCH_CPU_IQ4_NL ? iq4_nl[q[k]] : f->codebook == OCH_CPU_MXFP4 ? mxfp4[q[k]] : q[k];
        v -= f->offset;
        int s = scale[k / 16 * 16 + row];
        switch (f->scale) {
        case OCH_CPU_SCALE_F16: dst[k] = (float)v * get_f16(scale + 2 * row); break;
        case OCH_CPU_SCALE_F16_MIN: dst[k] = (float)v * get_f16(scale + 2 * row) + get_f16(scale + 32 + 2 * row); break;
        case OCH_CPU_SCALE_E8M0: dst[k] = (float)v * e8m0_half(scale[row]); break;
        case OCH_CPU_SCALE_SUB32_MIN: dst[k] = d * (float)scale[row] * (float)v - m * (float)scale[16 + row]; break;
        case OCH_CPU_SCALE_SUB16: dst[k] = d * (float)(int8_t)s * (float)v; break;
        default: dst[k] = d * (float)(s & 15) * (float)v - m * (float)(s >> 4); break;
        }
    }
}

void och_cpu_unpack_row(och_dtype dtype, int64_t cols, const void *packed, int64_t row_index, float *dst) {
    const och_cpu_format *f = och_cpu_format_get(dtype);
    const uint8_t *panel = (const uint8_t *)packed + (size_t)(row_index / OCH_CPU_PANEL) * och_cpu_panel_bytes(f, cols);
    int row = (int)(row_index % OCH_CPU_PANEL);
    if (!f->low_bits) {
        for (int64_t k = 0; k < cols; k++) {
            const uint8_t *p = panel + (size_t)(k * OCH_CPU_PANEL + row) * f->elem_bytes;
            if (dtype == OCH_DTYPE_F32) memcpy(&dst[k], p, 4);
            else if (dtype == OCH_DTYPE_F16) dst[k] = get_f16(p);
            else dst[k] = och_bf16_to_f32(load_u16(p));
        }
        return;
    }
    size_t nb = (size_t)(cols / OCH_CPU_BLOCK), nl = och_cpu_low_bytes(f), nh = och_cpu_high_bytes(f), ns = och_cpu_scale_bytes(f);
    const uint8_t *high = panel + nb * nl, *scale = high + nb * nh, *super = scale + nb * ns;
    for (size_t b = 0; b < nb; b++) {
        uint8_t q[32];
        get_codes(f, panel + b * nl, high + b * nh, row, q);
        unpack_block(f, q, scale + b * ns, super + b / 8 * och_cpu_super_bytes(f), row, dst + 32 * b);
    }
}
