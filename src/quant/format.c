#include "quant/format.h"

#include "base/half.h"
#include "base/size.h"
#include "quant/codec.h"

#include <inttypes.h>
#include <stdlib.h>

/* Block sizes have one home, dtype.def. */
enum {
#define OCH_DTYPE(sym, name, gguf, elems, bytes, st) ELEMS_##sym = elems, BYTES_##sym = bytes,
#include "base/dtype.def"
#undef OCH_DTYPE
};

static const och_format formats[] = {
#define OCH_FORMAT(sym, sub, scale, dir, nibble, f0, f1, layout, act, codec)                                           \
    {OCH_DTYPE_##sym,     #sym,                  ELEMS_##sym,          BYTES_##sym, sub,      OCH_SCALE_##scale,       \
     OCH_SCALE_DIR_##dir, OCH_NIBBLE_##nibble, layout, {f0, f1}, OCH_ACT_##act, och_##codec##_decode,                  \
     och_##codec##_encode},
#include "quant/format.def"
#undef OCH_FORMAT
};

const och_format *och_format_get(och_dtype t) {
    for (size_t i = 0; i < OCH_COUNT(formats); i++)
        if (formats[i].dtype == t) return &formats[i];
    return NULL;
}

const och_format *och_format_at(size_t i) { return i < OCH_COUNT(formats) ? &formats[i] : NULL; }

const char *och_act_format_name(och_act_format a) {
    switch (a) {
    case OCH_ACT_F32: return "F32";
    case OCH_ACT_BF16: return "BF16";
    case OCH_ACT_Q8_32S: return "Q8_32S";
    }
    return "?";
}

bool och_act_row_bytes(och_act_format a, uint64_t n, uint64_t *out_bytes) {
    *out_bytes = 0;
    switch (a) {
    case OCH_ACT_F32: return och_u64_mul(n, 4, out_bytes);
    case OCH_ACT_BF16: return och_u64_mul(n, 2, out_bytes);
    case OCH_ACT_Q8_32S: return n % 32 == 0 && och_u64_mul(n / 32, sizeof(och_q8_32s), out_bytes);
    }
    return false;
}

void och_format_decode_row(och_dtype t, const void *src, float *dst, uint64_t n_elems) {
    const och_format *f = och_format_get(t);
    if (!f || n_elems % f->block_elems) abort();
    f->decode(src, dst, n_elems / f->block_elems);
}

static och_status find_row(och_dtype t, uint64_t n_elems, const och_format **out_f, och_err *err) {
    *out_f = och_format_get(t);
    if (!*out_f) return och_err_set(err, OCH_UNSUPPORTED, "%s is no weight format", och_dtype_name(t));
    if (n_elems % (*out_f)->block_elems)
        return och_err_set(err, OCH_RANGE, "%s: expected a row of whole blocks of %" PRIu32 " elements, found %" PRIu64,
                           (*out_f)->name, (*out_f)->block_elems, n_elems);
    return OCH_OK;
}

static bool f16_finite(const uint8_t *p) { return (p[1] & 0x7C) != 0x7C; }

/* Whether a block, or an element of a float format, decodes to finite numbers. */
static bool block_finite(const och_format *f, const uint8_t *p) {
    switch (f->dtype) {
    case OCH_DTYPE_F32: return (p[3] & 0x7F) != 0x7F || !(p[2] & 0x80);
    case OCH_DTYPE_BF16: return (p[1] & 0x7F) != 0x7F || !(p[0] & 0x80);
    case OCH_DTYPE_F16: return f16_finite(p);
    default: break;
    }
    if (f->scale == OCH_SCALE_E8M0) {
        if (p[0] < 253) return true; /* 6 * 2^125 is finite */
        if (p[0] == 255) return false;
        for (int i = 1; i <= 16; i++) {
            float half = och_e8m0_half(p[0]);
            if (!isfinite((float)och_e2m1_doubled[p[i] & 15] * half)) return false;
            if (!isfinite((float)och_e2m1_doubled[p[i] >> 4] * half)) return false;
        }
        return true;
    }
    for (int i = 0; i < 2; i++)
        if (f->f16_at[i] >= 0 && !f16_finite(p + f->f16_at[i])) return false;
    return true;
}

static uint64_t first_bad(const och_format *f, const uint8_t *src, uint64_t n_blocks) {
    for (uint64_t b = 0; b < n_blocks; b++)
        if (!block_finite(f, src + b * f->block_bytes)) return b;
    return UINT64_MAX;
}

och_status och_format_validate_row(och_dtype t, const void *src, uint64_t n_elems, uint64_t *out_bad_index,
                                   och_err *err) {
    const och_format *f;
    *out_bad_index = UINT64_MAX;
    OCH_TRY(find_row(t, n_elems, &f, err));
    *out_bad_index = first_bad(f, src, n_elems / f->block_elems);
    if (*out_bad_index == UINT64_MAX) return OCH_OK;
    return och_err_set(err, OCH_CORRUPT, "%s: %s %" PRIu64 " holds a value or a scale that is not finite", f->name,
                       f->block_elems == 1 ? "element" : "block", *out_bad_index);
}

och_status och_format_encode_row(och_dtype t, const float *src, void *dst, uint64_t n_elems, och_err *err) {
    const och_format *f;
    OCH_TRY(find_row(t, n_elems, &f, err));
    for (uint64_t i = 0; i < n_elems; i++)
        if (!isfinite(src[i]))
            return och_err_set(err, OCH_RANGE, "%s: expected finite values, found %f at element %" PRIu64, f->name,
                               (double)src[i], i);
    f->encode(src, dst, n_elems / f->block_elems);
    uint64_t bad = first_bad(f, dst, n_elems / f->block_elems);
    if (bad != UINT64_MAX)
        return och_err_set(err, OCH_RANGE, "%s: the values of block %" PRIu64 " (elements from %" PRIu64
                           ") exceed what the format can scale", f->name, bad, bad * f->block_elems);
    return OCH_OK;
}

void och_q8_32s_encode_row(const float *src, och_q8_32s *dst, uint64_t n_elems) {
    for (uint64_t b = 0; b < n_elems / 32; b++, src += 32, dst++) {
        dst->d = fabsf(och_signed_max(src, 32)) / 127;
        dst->sum = 0;
        for (int i = 0; i < 32; i++) {
            dst->q[i] = (int8_t)och_nearest(src[i], dst->d, -127, 127);
            dst->sum += dst->q[i];
        }
    }
}

void och_q8_32s_decode_row(const och_q8_32s *src, float *dst, uint64_t n_elems) {
    for (uint64_t b = 0; b < n_elems / 32; b++, src++, dst += 32)
        for (int i = 0; i < 32; i++) dst[i] = src->d * (float)src->q[i];
}
