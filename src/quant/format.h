/* Weight formats as rows (format.def): what the bytes of a dtype mean as numbers.
 *
 * The decoders are the reference: plain float32 arithmetic, one rounding per operation, no contraction. The order of
 * operations is the one stated at each decoder in format.c and equals ggml's dequantize_row_*, so values equal those of
 * ggml and of gguf-py to the last bit. Nothing here allocates, and nothing here knows a device. */
#ifndef OCH_QUANT_FORMAT_H
#define OCH_QUANT_FORMAT_H

#include "base/dtype.h"
#include "base/status.h"

/* How the scale of a block is stored. */
typedef enum och_scale_type {
    OCH_SCALE_NONE,      /* the element is the value */
    OCH_SCALE_F16,       /* f16 d */
    OCH_SCALE_F16_MIN,   /* f16 d and f16 m: d * q + m */
    OCH_SCALE_F16_SUB,   /* f16 d times an integer sub-scale a sub-block */
    OCH_SCALE_F16_SUB_MIN, /* the same, minus f16 dmin times an integer sub-minimum */
    OCH_SCALE_E8M0       /* 2^(e - 127) */
} och_scale_type;

/* Whether the stored scale multiplies or divides. Every format read today multiplies; the column is there since others
 * (compressed-tensors weight_global_scale) divide, and a mistake there is silent. */
typedef enum och_scale_dir { OCH_SCALE_DIR_NONE, OCH_SCALE_DIR_MULTIPLY, OCH_SCALE_DIR_DIVIDE } och_scale_dir;

/* Which elements of a block share a byte of packed codes. */
typedef enum och_nibble_order {
    OCH_NIBBLE_NONE,   /* an element has its own bytes */
    OCH_NIBBLE_PLUS16, /* low i, high i + 16 of a block of 32 */
    OCH_NIBBLE_PLUS32, /* low i, high i + 32 within each 64 */
    OCH_NIBBLE_QUAD32, /* 2-bit fields: i, i + 32, i + 64, i + 96 within each 128 */
    OCH_NIBBLE_PLUS64  /* low i, high i + 64 within each 128 */
} och_nibble_order;

/* The activation format a weight format pairs with in a product. */
typedef enum och_act_format {
    OCH_ACT_F32,   /* float */
    OCH_ACT_BF16,  /* bfloat16 pairs where the hardware has them; float32 elsewhere */
    OCH_ACT_Q8_32S /* och_q8_32s blocks */
} och_act_format;

/* 32 activations: value[i] = d * q[i]; `sum` = the sum of q, for formats with a minimum or an offset. 40 bytes. */
typedef struct och_q8_32s {
    float d;
    int32_t sum;
    int8_t q[32];
} och_q8_32s;

typedef struct och_format {
    och_dtype dtype;
    const char *name;
    uint32_t block_elems;
    uint32_t block_bytes;
    uint32_t sub_elems; /* elements that share one scale; block_elems where there is no sub-block, 0 without scale */
    och_scale_type scale;
    och_scale_dir scale_dir;
    och_nibble_order nibble;
    const char *layout; /* the bytes of a block, in order */
    int32_t f16_at[2];  /* byte offsets of the f16 scales in a block; -1: none */
    och_act_format act;
    /* n_blocks blocks; src and dst need no alignment beyond that of their C type (src: none). */
    void (*decode)(const uint8_t *src, float *dst, uint64_t n_blocks);
    void (*encode)(const float *src, uint8_t *dst, uint64_t n_blocks);
} och_format;

/* NULL for a dtype that is no weight format (I32, BOOL, ...). */
const och_format *och_format_get(och_dtype t);
/* Rows in the order of format.def, for listings and tests; NULL past the end. */
const och_format *och_format_at(size_t i);

const char *och_act_format_name(och_act_format a);
/* Bytes that n activations take; n is a multiple of 32 for Q8_32S (else false). */
bool och_act_row_bytes(och_act_format a, uint64_t n, uint64_t *out_bytes);

/* n_elems must be a multiple of the block and t a format: both are the caller's contract (a loader checks shapes), and
 * a breach aborts rather than reading past the end. */
void och_format_decode_row(och_dtype t, const void *src, float *dst, uint64_t n_elems);

/* Quantises a row: nearest code under absolute-maximum or min/max scales, K formats with quantised sub-scales. Sound,
 * not the best search. UNSUPPORTED for a dtype without a row, RANGE for a partial block or for an input that is not
 * finite or overflows the scale (the message names the index); dst is then unspecified. */
OCH_WARN_UNUSED och_status och_format_encode_row(och_dtype t, const float *src, void *dst, uint64_t n_elems,
                                                 och_err *err);

/* Flags what would decode to infinity or NaN: float elements that are not finite, block scales d, m, dmin that are not
 * finite, E8M0 0xFF (the format's NaN, which the decoder reads as 2^128, as ggml does) and 0xFD, 0xFE where a product
 * overflows float32. CORRUPT, and *out_bad_index = the first such block (element, for float formats). UNSUPPORTED and
 * RANGE as in encode. *out_bad_index is UINT64_MAX when nothing was flagged. */
OCH_WARN_UNUSED och_status och_format_validate_row(och_dtype t, const void *src, uint64_t n_elems,
                                                   uint64_t *out_bad_index, och_err *err);

/* n is a multiple of 32. d = max|x| / 127, q = nearest, ties to even. An all-zero block has d = 0. */
void och_q8_32s_encode_row(const float *src, och_q8_32s *dst, uint64_t n_elems);
void och_q8_32s_decode_row(const och_q8_32s *src, float *dst, uint64_t n_elems);

#endif
