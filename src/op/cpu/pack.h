/* How the fast CPU provider keeps weights (layout OCH_LAYOUT_CPU_PACKED), the same on every instruction set.
 *
 * Sixteen consecutive rows make a panel. In an integer panel the unit is a quad: 4 consecutive codes of k for each of
 * the 16 rows, 64 bytes with row r in bytes 4r .. 4r+3, so that one byte dot product with four broadcast activations
 * advances sixteen rows and no sum crosses lanes. A block is 32 k, quads 0 .. 7. A panel is these sections, one after
 * the other, each for all blocks:
 *   low    8 bits: 8 registers of 64 bytes, quad j in register j;
 *          4 bits: 4 registers, quad j in the low nibbles of register j, quad j + 4 in its high nibbles;
 *          2 bits: 2 registers, quad j in bits 2(j/2), 2(j/2)+1 of register j % 2;
 *   high   1 bit: 1 register, quad j in bit j;  2 bits: as low;
 *   scale  see och_cpu_scale; 16 rows side by side;
 *   super  for each 256 k: f16 d[16], with a minimum also f16 dmin[16].
 * code = low | high << low_bits. Float panels hold, for each k, 16 elements in the file's type. The panel is padded with
 * zeros to whole 64 bytes, and missing rows of the last panel are zeros. */
#ifndef OCH_OP_CPU_PACK_H
#define OCH_OP_CPU_PACK_H

#include "base/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OCH_CPU_PANEL 16 /* rows */
#define OCH_CPU_BLOCK 32 /* k */

typedef enum och_cpu_scale {
    OCH_CPU_SCALE_NONE,      /* float formats */
    OCH_CPU_SCALE_F16,       /* a block: f16 d[16];               value = d (code - offset) */
    OCH_CPU_SCALE_F16_MIN,   /* a block: f16 d[16], f16 m[16];    value = d code + m */
    OCH_CPU_SCALE_E8M0,      /* a block: u8 e[16];                value = 2^(e - 128) (code - offset) */
    OCH_CPU_SCALE_SUB32_MIN, /* a block: u8 s[16], u8 m[16];      value = d s code - dmin m */
    OCH_CPU_SCALE_SUB16,     /* a block: i8 s[2][16], one a half; value = d s (code - offset) */
    OCH_CPU_SCALE_SUB16_MIN  /* a block: u8 s[2][16], m in the high nibble; value = d (s & 15) code - dmin (s >> 4) */
} och_cpu_scale;

typedef enum och_cpu_codebook {
    OCH_CPU_LINEAR, /* the code is a number */
    OCH_CPU_IQ4_NL, /* the code indexes a table */
    OCH_CPU_MXFP4
} och_cpu_codebook;

typedef struct och_cpu_format {
    uint8_t low_bits;  /* 0: a float format */
    uint8_t high_bits;
    uint8_t offset;    /* subtracted from the code, or from the table's value + offset */
    uint8_t scale;     /* och_cpu_scale */
    uint8_t codebook;  /* och_cpu_codebook */
    uint8_t elem_bytes; /* float formats: bytes an element */
} och_cpu_format;

/* The rows of the table, as macros so that kernels can specialise on constants. */
#define OCH_CPU_FORMATS(X)                                                                                             \
    X(Q4_0, 4, 0, 8, OCH_CPU_SCALE_F16, OCH_CPU_LINEAR)                                                                \
    X(Q4_1, 4, 0, 0, OCH_CPU_SCALE_F16_MIN, OCH_CPU_LINEAR)                                                            \
    X(Q5_0, 4, 1, 16, OCH_CPU_SCALE_F16, OCH_CPU_LINEAR)                                                               \
    X(Q5_1, 4, 1, 0, OCH_CPU_SCALE_F16_MIN, OCH_CPU_LINEAR)                                                            \
    X(Q8_0, 8, 0, 128, OCH_CPU_SCALE_F16, OCH_CPU_LINEAR)                                                              \
    X(Q2_K, 2, 0, 0, OCH_CPU_SCALE_SUB16_MIN, OCH_CPU_LINEAR)                                                          \
    X(Q3_K, 2, 1, 4, OCH_CPU_SCALE_SUB16, OCH_CPU_LINEAR)                                                              \
    X(Q4_K, 4, 0, 0, OCH_CPU_SCALE_SUB32_MIN, OCH_CPU_LINEAR)                                                          \
    X(Q5_K, 4, 1, 0, OCH_CPU_SCALE_SUB32_MIN, OCH_CPU_LINEAR)                                                          \
    X(Q6_K, 4, 2, 32, OCH_CPU_SCALE_SUB16, OCH_CPU_LINEAR)                                                             \
    X(IQ4_NL, 4, 0, 128, OCH_CPU_SCALE_F16, OCH_CPU_IQ4_NL)                                                            \
    X(MXFP4, 4, 0, 16, OCH_CPU_SCALE_E8M0, OCH_CPU_MXFP4)

/* Values of the code books, offset added. IQ4_NL: ggml-org/ggml src/ggml-common.h, kvalues_iq4nl; MXFP4: OCP
 * Microscaling Formats 1.0, table 5 (E2M1), doubled. */
#define OCH_CPU_IQ4_NL_VALUES                                                                                          \
    1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241
#define OCH_CPU_MXFP4_VALUES 16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4

/* NULL for a dtype that is not packed. */
const och_cpu_format *och_cpu_format_get(och_dtype dtype);

/* Bytes a block of each section takes, and where the sections of a panel of `cols` start. */
static inline size_t och_cpu_low_bytes(const och_cpu_format *f) { return (size_t)f->low_bits * 64; }
static inline size_t och_cpu_high_bytes(const och_cpu_format *f) { return (size_t)f->high_bits * 64; }
static inline size_t och_cpu_scale_bytes(const och_cpu_format *f) {
    switch (f->scale) {
    case OCH_CPU_SCALE_F16: return 32;
    case OCH_CPU_SCALE_F16_MIN: return 64;
    case OCH_CPU_SCALE_E8M0: return 16;
    case OCH_CPU_SCALE_NONE: return 0;
    default: return 32;
    }
}
static inline size_t och_cpu_super_bytes(const och_cpu_format *f) {
    switch (f->scale) {
    case OCH_CPU_SCALE_SUB16: return 32;
    case OCH_CPU_SCALE_SUB32_MIN:
    case OCH_CPU_SCALE_SUB16_MIN: return 64;
    default: return 0;
    }
}
static inline size_t och_cpu_panel_bytes(const och_cpu_format *f, int64_t cols) {
    size_t bytes = (size_t)cols * f->elem_bytes * OCH_CPU_PANEL;
    if (f->low_bits)
        bytes = (size_t)(cols / OCH_CPU_BLOCK) * (och_cpu_low_bytes(f) + och_cpu_high_bytes(f) + och_cpu_scale_bytes(f)) +
                (size_t)(cols / 256) * och_cpu_super_bytes(f);
    return (bytes + 63) & ~(size_t)63;
}

/* Whether rows of `cols` can be packed: a whole number of the file's blocks. */
bool och_cpu_pack_fits(och_dtype dtype, int64_t cols);
/* Rows [row_begin, row_end) of src, in the file's layout, into dst, the whole packed weight. row_begin is a multiple of
 * OCH_CPU_PANEL, row_end too or the number of rows. */
void och_cpu_pack(och_dtype dtype, int64_t rows, int64_t cols, const void *src, void *dst, int64_t row_begin,
                  int64_t row_end);
/* Decodes one row of a packed weight: the same values, to the last bit, as och_format_decode_row on the file's row. */
void och_cpu_unpack_row(och_dtype dtype, int64_t cols, const void *packed, int64_t row, float *dst);

#endif
