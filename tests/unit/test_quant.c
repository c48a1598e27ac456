/* Codecs: against blocks worked out by hand, against values written by gguf-py (tests/golden/formats.safetensors), and
 * against error bounds that follow from each format's step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/half.h"
#include "base/size.h"
#include "quant/codec.h"
#include "quant/format.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef FORMATS_GOLDEN
#define FORMATS_GOLDEN OCHRE_TEST_DIR "/golden/formats.safetensors"
#endif

/* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016 */
static uint64_t rng_state = 88172645463325252u;
static uint32_t rnd(void) {
    rng_state ^= rng_state >> 12, rng_state ^= rng_state << 25, rng_state ^= rng_state >> 27;
    return (uint32_t)(rng_state * 2685821657736338717u >> 32);
}
static float uniform(float lo, float hi) { return lo + (hi - lo) * (float)(rnd() >> 8) * 0x1p-24f; }

static void put_f16(uint8_t *p, float v) {
    uint16_t h = och_f32_to_f16(v);
    memcpy(p, &h, 2);
}

static void every_row_is_whole(void **s) {
    (void)s;
    size_t n = 0;
    for (const och_format *f; (f = och_format_at(n)); n++) {
        assert_ptr_equal(och_format_get(f->dtype), f);
        assert_string_equal(f->name, och_dtype_name(f->dtype));
        assert_int_equal(f->block_elems, och_dtype_get(f->dtype)->block_elems);
        assert_int_equal(f->block_bytes, och_dtype_get(f->dtype)->block_bytes);
        assert_true(f->sub_elems == 0 || f->block_elems % f->sub_elems == 0);
        assert_int_equal(f->scale == OCH_SCALE_NONE, f->scale_dir == OCH_SCALE_DIR_NONE);
        for (int i = 0; i < 2; i++) assert_true(f->f16_at[i] + 2 <= (int)f->block_bytes);
        uint64_t bytes;
        assert_true(och_act_row_bytes(f->act, 256, &bytes));
        assert_int_equal(bytes, f->act == OCH_ACT_F32 ? 1024 : f->act == OCH_ACT_BF16 ? 512 : 8 * 40);
    }
    assert_int_equal(n, 15);
    assert_null(och_format_get(OCH_DTYPE_I32));
    assert_null(och_format_get(OCH_DTYPE_NONE));
    uint64_t bytes = 1;
    assert_false(och_act_row_bytes(OCH_ACT_Q8_32S, 33, &bytes));
    assert_int_equal(bytes, 0);
}

static void float_formats_by_hand(void **s) {
    (void)s;
    const uint8_t f16[] = {0x00, 0x3C, 0x00, 0xC0, 0x01, 0x00, 0xFF, 0x7B, 0x00, 0x80};
    float v[5];
    och_format_decode_row(OCH_DTYPE_F16, f16, v, 5);
    assert_true(v[0] == 1 && v[1] == -2 && v[2] == 0x1p-24f && v[3] == 65504 && och_f32_bits(v[4]) == 0x80000000u);
    const uint8_t bf16[] = {0x80, 0x3F, 0x49, 0xC0, 0x01, 0x00};
    och_format_decode_row(OCH_DTYPE_BF16, bf16, v, 3);
    assert_true(v[0] == 1 && v[1] == -3.140625f && och_f32_bits(v[2]) == 0x10000);
}

/* d = 0.5, q[i] = i for the low nibbles and 15 - i for the high ones */
static void fill_nibbles(uint8_t *qs) {
    for (int i = 0; i < 16; i++) qs[i] = (uint8_t)(i | (15 - i) << 4);
}
static int nib(int i) { return i < 16 ? i : 31 - i; }

static void blocks_of_32_by_hand(void **s) {
    (void)s;
    uint8_t b[40] = {0};
    float v[32];

    put_f16(b, 0.5f), fill_nibbles(b + 2);
    och_format_decode_row(OCH_DTYPE_Q4_0, b, v, 32);
    for (int i = 0; i < 32; i++) assert_true(v[i] == 0.5f * (float)(nib(i) - 8));

    put_f16(b, 0.5f), put_f16(b + 2, -3), fill_nibbles(b + 4);
    och_format_decode_row(OCH_DTYPE_Q4_1, b, v, 32);
    for (int i = 0; i < 32; i++) assert_true(v[i] == 0.5f * (float)nib(i) - 3);

    /* qh = 0x80000005: elements 0, 2 and 31 have their fifth bit */
    put_f16(b, -2), b[2] = 5, b[3] = b[4] = 0, b[5] = 0x80, fill_nibbles(b + 6);
    och_format_decode_row(OCH_DTYPE_Q5_0, b, v, 32);
    for (int i = 0; i < 32; i++) {
        int hi = i == 0 || i == 2 || i == 31 ? 16 : 0;
        assert_true(v[i] == -2.0f * (float)(nib(i) + hi - 16));
    }

    put_f16(b, 2), put_f16(b + 2, 100), b[4] = 5, b[5] = b[6] = 0, b[7] = 0x80, fill_nibbles(b + 8);
    och_format_decode_row(OCH_DTYPE_Q5_1, b, v, 32);
    for (int i = 0; i < 32; i++) {
        int hi = i == 0 || i == 2 || i == 31 ? 16 : 0;
        assert_true(v[i] == 2.0f * (float)(nib(i) + hi) + 100);
    }

    put_f16(b, 0.25f);
    for (int i = 0; i < 32; i++) b[2 + i] = (uint8_t)(int8_t)(i * 8 - 128);
    och_format_decode_row(OCH_DTYPE_Q8_0, b, v, 32);
    for (int i = 0; i < 32; i++) assert_true(v[i] == 0.25f * (float)(i * 8 - 128));

    static const int table[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    put_f16(b, 2), fill_nibbles(b + 2);
    och_format_decode_row(OCH_DTYPE_IQ4_NL, b, v, 32);
    for (int i = 0; i < 32; i++) assert_true(v[i] == 2.0f * (float)table[nib(i)]);

    static const float e2m1[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, 0, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    static const struct { uint8_t e; float scale; } scales[] = {
        {127, 1}, {128, 2}, {120, 0x1p-7f}, {0, 0x1p-127f}, {1, 0x1p-126f}, {2, 0x1p-125f}, {252, 0x1p125f}};
    fill_nibbles(b + 1);
    for (size_t k = 0; k < OCH_COUNT(scales); k++) {
        b[0] = scales[k].e;
        och_format_decode_row(OCH_DTYPE_MXFP4, b, v, 32);
        for (int i = 0; i < 32; i++) assert_true(v[i] == e2m1[nib(i)] * scales[k].scale);
    }
}

/* One K block each with a distinct element marked, so that every index formula is pinned in a few places. */
static void k_blocks_by_hand(void **s) {
    (void)s;
    uint8_t b[210];
    float v[256];

    /* Q2_K: element 200 is in half 1, j = 2, l = 8: bits 4-5 of qs[40]; its sub-block is 12 */
    memset(b, 0, sizeof b);
    b[12] = 5 | 3 << 4, b[16 + 40] = 3 << 4;
    put_f16(b + 80, 0.5f), put_f16(b + 82, 0.25f);
    och_format_decode_row(OCH_DTYPE_Q2_K, b, v, 256);
    for (int i = 0; i < 256; i++)
        assert_true(v[i] == (i == 200 ? 0.5f * 5 * 3 - 0.25f * 3 : i / 16 == 12 ? -0.75f : 0));

    /* Q3_K: hmask all set, so q = 0 but at element 77 (half 0, j = 2, l = 13): bits 4-5 of qs[13] = 2, sub-block 4.
     * The 6 bits of sub-scale 4: low in scales[4] & 15, high in bits 2-3 of scales[8]. 45 - 32 = 13 = 0b101101: low
     * 13, high 2 */
    memset(b, 0, sizeof b);
    memset(b, 0xFF, 32);
    b[32 + 13] = 2 << 4, b[96 + 4] = 13, b[96 + 8] = 2 << 2;
    put_f16(b + 108, 0.5f);
    och_format_decode_row(OCH_DTYPE_Q3_K, b, v, 256);
    for (int i = 0; i < 256; i++) assert_true(v[i] == (i == 77 ? 0.5f * 13 * 2 : 0));
    b[13] &= (uint8_t)~(1 << 2); /* hmask bit 4 * 0 + 2 of l = 13 cleared: 2 - 4 = -2 */
    och_format_decode_row(OCH_DTYPE_Q3_K, b, v, 256);
    assert_true(v[77] == 0.5f * 13 * -2);
    /* sub-scale 15: low 4 = scales[7] >> 4, high 2 = bits 6-7 of scales[11]; 0b110001 = 49 -> 17; element 255 */
    b[96 + 7] = 1 << 4, b[96 + 11] = 3 << 6, b[32 + 63] = 1 << 6;
    och_format_decode_row(OCH_DTYPE_Q3_K, b, v, 256);
    assert_true(v[255] == 0.5f * 17 * 1);

    /* Q4_K: sub-block 1 scale 33 (scales[1]), min 7 (scales[5]); sub-block 6 scale 0b100101 = 37 and min 0b110010 = 50:
     * low 4 bits in scales[10] = 5 | 2 << 4, high 2 in scales[2] >> 6 = 2 and scales[6] >> 6 = 3 */
    memset(b, 0, sizeof b);
    put_f16(b, 0.5f), put_f16(b + 2, 0.125f);
    b[4 + 1] = 33, b[4 + 5] = 7, b[4 + 10] = 5 | 2 << 4, b[4 + 2] = 2 << 6, b[4 + 6] = 3 << 6;
    b[16 + 3] = 9 << 4;        /* element 35: block 1, l = 3 */
    b[16 + 96 + 31] = 14;      /* element 223: block 6, l = 31 */
    och_format_decode_row(OCH_DTYPE_Q4_K, b, v, 256);
    for (int i = 0; i < 256; i++) {
        float want = i / 32 == 1 ? -0.125f * 7 : i / 32 == 6 ? -0.125f * 50 : 0;
        if (i == 35) want += 0.5f * 33 * 9;
        if (i == 223) want += 0.5f * 37 * 14;
        assert_true(v[i] == want);
    }

    /* Q5_K: the same scales; element 223 has its fifth bit: bit 6 of qh[31] */
    uint8_t c[176] = {0};
    memcpy(c, b, 16), memcpy(c + 48, b + 16, 128), c[16 + 31] = 1 << 6;
    och_format_decode_row(OCH_DTYPE_Q5_K, c, v, 256);
    assert_true(v[223] == 0.5f * 37 * 30 - 0.125f * 50 && v[35] == 0.5f * 33 * 9 - 0.125f * 7 && v[222] == -6.25f);

    /* Q6_K: q = 32 everywhere (qh = 0b10 fields) but element 170: half 1, k = 1, l = 10: low nibble of ql[64 + 42],
     * bits 2-3 of qh[42]; code 0b110101 = 53 -> 21; sub-block 10 has scale -100. Element 250: k = 3, l = 26: high
     * nibble of ql[64 + 58], bits 6-7 of qh[58]; code 0 -> -32; sub-block 15 has scale 127 */
    memset(b, 0, sizeof b);
    memset(b + 128, 0xAA, 64);
    b[106] = 5, b[128 + 42] = (uint8_t)(0xAA | 3 << 2), b[128 + 58] = 0x2A;
    b[192 + 10] = (uint8_t)-100, b[192 + 15] = 127;
    put_f16(b + 208, -0.5f);
    och_format_decode_row(OCH_DTYPE_Q6_K, b, v, 256);
    for (int i = 0; i < 256; i++)
        assert_true(v[i] == (i == 170 ? -0.5f * -100 * 21 : i == 250 ? -0.5f * 127 * -32 : 0));
}

/* ---- values written by gguf-py ---- */

static unsigned char *golden, *golden_data;

/* Enough of safetensors for a file of flat names, so that this test does not rest on src/file. */
static const void *golden_tensor(const char *fmt, const char *suffix, size_t *out_bytes) {
    char key[64];
    snprintf(key, sizeof key, "\"%s.%s\"", fmt, suffix);
    char *at = strstr((char *)golden + 8, key);
    assert_non_null(at);
    at = strstr(at, "\"data_offsets\"");
    assert_non_null(at);
    at = strchr(at, '[');
    char *end;
    unsigned long a = strtoul(at + 1, &end, 10), b = strtoul(strchr(end, ',') + 1, NULL, 10);
    *out_bytes = b - a;
    return golden_data + a;
}

static void equal_to_gguf_py_to_the_last_bit(void **s) {
    (void)s;
    FILE *f = fopen(FORMATS_GOLDEN, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    golden = calloc(1, (size_t)size + 1);
    assert_int_equal(fread(golden, 1, (size_t)size, f), size);
    fclose(f);
    uint64_t header;
    memcpy(&header, golden, 8);
    golden_data = golden + 8 + header;
    for (size_t k = 1; k < 15; k++) {
        const och_format *fmt = och_format_at(k);
        size_t raw_bytes, f32_bytes;
        const void *raw = golden_tensor(fmt->name, "raw", &raw_bytes);
        const uint8_t *want = golden_tensor(fmt->name, "f32", &f32_bytes);
        size_t n = f32_bytes / 4;
        assert_true(n > 0 && n / fmt->block_elems * fmt->block_bytes == raw_bytes);
        float *got = malloc(f32_bytes);
        och_format_decode_row(fmt->dtype, raw, got, n);
        for (size_t i = 0; i < n; i++) {
            float w;
            memcpy(&w, want + 4 * i, 4);
            /* the sign of a zero is not part of the value: 0 * -d against an integer zero */
            if (w == got[i] || (isnan(w) && isnan(got[i]))) continue;
            fail_msg("%s element %zu: expected %a, found %a", fmt->name, i, (double)w, (double)got[i]);
        }
        free(got);
    }
    free(golden);
}

/* ---- encode ---- */

/* What the worst element may differ by, from the block's own range: half a step, plus what rounding d to f16 and the
 * sub-scales to integers can cost at the far end of the range. */
static double bound(och_dtype t, const float *x, int n) {
    double lo = 0, hi = 0;
    for (int i = 0; i < n; i++) lo = fmin(lo, x[i]), hi = fmax(hi, x[i]);
    double amax = fmax(-lo, hi), range = hi - lo, f16 = 1.0 / 1024;
    switch (t) {
    case OCH_DTYPE_F32: return 0;
    case OCH_DTYPE_F16: return amax * 0x1p-11 + 0x1p-25;
    case OCH_DTYPE_BF16: return amax * 0x1p-8;
    case OCH_DTYPE_Q4_0: return amax / 8 * (1 + f16 * 8); /* +8 does not exist: a full step at one end */
    case OCH_DTYPE_Q4_1: return range / 15 * (0.5 + f16 * 30);
    case OCH_DTYPE_Q5_0: return amax / 16 * (1 + f16 * 16);
    case OCH_DTYPE_Q5_1: return range / 31 * (0.5 + f16 * 62);
    case OCH_DTYPE_Q8_0: return amax / 127 * (0.5 + f16 * 127);
    case OCH_DTYPE_Q2_K: return range / 3 * 0.5 + range / 15 * 0.5 + range / 15 * 0.5 + range * f16;
    case OCH_DTYPE_Q3_K: return amax / 4 * 1 + amax / 32 * 0.5 + amax / 32 + amax * f16;
    case OCH_DTYPE_Q4_K: return range / 15 * 0.5 + range / 63 + range * f16;
    case OCH_DTYPE_Q5_K: return range / 31 * 0.5 + range / 63 + range * f16;
    case OCH_DTYPE_Q6_K: return amax / 32 * 1 + amax / 128 * 0.5 + amax / 128 + amax * f16;
    case OCH_DTYPE_IQ4_NL: return amax / 127 * 14.5 + amax * f16; /* 113 against +127: 14, and the widest gap is 24 */
    case OCH_DTYPE_MXFP4: return amax * 0.25;                     /* 4 to 6, or saturation from 8 to 6 */
    default: return -1;
    }
}

static void encode_keeps_its_error_bound(void **s) {
    (void)s;
    static const float ranges[][2] = {{-1, 1}, {-0.02f, 0.01f}, {0, 3}, {5, 6}, {-6, -5}, {-1000, 1000}, {-1, 30}};
    for (size_t k = 0; k < 15; k++) {
        const och_format *f = och_format_at(k);
        double sum_err = 0, sum_sq = 0;
        for (int trial = 0; trial < 200; trial++) {
            float x[256], y[256];
            uint8_t enc[1024];
            const float *r = ranges[trial % (int)OCH_COUNT(ranges)];
            for (int i = 0; i < 256; i++) x[i] = uniform(r[0], r[1]);
            assert_int_equal(och_format_encode_row(f->dtype, x, enc, 256, NULL), OCH_OK);
            och_format_decode_row(f->dtype, enc, y, 256);
            for (int b = 0; b < 256; b += (int)f->block_elems) {
                double lim = bound(f->dtype, x + b, (int)f->block_elems);
                for (int i = b; i < b + (int)f->block_elems; i++) {
                    if (fabs((double)x[i] - y[i]) > lim * (1 + 1e-6))
                        fail_msg("%s: %g became %g, bound %g", f->name, (double)x[i], (double)y[i], lim);
                    if (trial % (int)OCH_COUNT(ranges) == 0) {
                        sum_err += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
                        sum_sq += (double)x[i] * x[i];
                    }
                }
            }
        }
        /* Signal to noise for a uniform signal in [-1, 1]: 6.02 dB a bit of the code, less 5 for scales, one-sided
         * codes and (IQ4_NL, MXFP4) steps that are not uniform. */
        static const int code_bits[15] = {24, 11, 8, 4, 4, 5, 5, 8, 2, 3, 4, 5, 6, 4, 4};
        double snr = sum_err > 0 ? 10 * log10(sum_sq / sum_err) : 200;
        print_message("%-7s %6.3f bits a weight, %6.2f dB\n", f->name, f->block_bytes * 8.0 / f->block_elems, snr);
        assert_true(snr > 6.02 * code_bits[k] - 5);
    }
}

static void encode_of_representable_values_is_exact(void **s) {
    (void)s;
    float x[256], y[256];
    uint8_t enc[512];
    /* codes -8..7 times 0.5, with -8 present; codes 0..15 times 0.25 minus 2; -127..127 times 0.5 */
    for (int i = 0; i < 256; i++) x[i] = 0.5f * (float)(i % 16 - 8);
    assert_int_equal(och_format_encode_row(OCH_DTYPE_Q4_0, x, enc, 256, NULL), OCH_OK);
    och_format_decode_row(OCH_DTYPE_Q4_0, enc, y, 256);
    assert_memory_equal(x, y, sizeof x);
    for (int i = 0; i < 256; i++) x[i] = 0.25f * (float)(i % 16) - 2;
    for (int k = 0; k < 2; k++) {
        och_dtype t = k ? OCH_DTYPE_Q5_1 : OCH_DTYPE_Q4_1;
        if (k)
            for (int i = 0; i < 256; i++) x[i] = 0.25f * (float)(i % 32) - 2;
        assert_int_equal(och_format_encode_row(t, x, enc, 256, NULL), OCH_OK);
        och_format_decode_row(t, enc, y, 256);
        assert_memory_equal(x, y, sizeof x);
    }
    for (int i = 0; i < 256; i++) x[i] = i % 32 == 31 ? 63.5f : 0.5f * (float)(i % 32 * 7 - 110);
    assert_int_equal(och_format_encode_row(OCH_DTYPE_Q8_0, x, enc, 256, NULL), OCH_OK);
    och_format_decode_row(OCH_DTYPE_Q8_0, enc, y, 256);
    assert_memory_equal(x, y, sizeof x);
    static const float e2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    for (int i = 0; i < 256; i++) x[i] = e2m1[i % 8] * (i & 8 ? -0.125f : 0.125f) + 0.0f;
    assert_int_equal(och_format_encode_row(OCH_DTYPE_MXFP4, x, enc, 256, NULL), OCH_OK);
    och_format_decode_row(OCH_DTYPE_MXFP4, enc, y, 256);
    for (int i = 0; i < 256; i++) assert_true(x[i] == y[i]);
}

static void edges_of_scale(void **s) {
    (void)s;
    static const float mags[] = {0, 0x1p-149f, 0x1p-126f, 0x1p-40f, 0x1p-24f, 0x1p-14f, 1e4f};
    for (size_t k = 0; k < 15; k++) {
        const och_format *f = och_format_at(k);
        for (size_t m = 0; m < OCH_COUNT(mags); m++) {
            for (int sign = -1; sign <= 1; sign += 2) {
                float x[256], y[256];
                uint8_t enc[1024];
                uint64_t bad;
                for (int i = 0; i < 256; i++) x[i] = (float)sign * mags[m] * (float)(i % 5 != 0);
                assert_int_equal(och_format_encode_row(f->dtype, x, enc, 256, NULL), OCH_OK);
                assert_int_equal(och_format_validate_row(f->dtype, enc, 256, &bad, NULL), OCH_OK);
                assert_true(bad == UINT64_MAX);
                och_format_decode_row(f->dtype, enc, y, 256);
                /* f16's own last place bounds what tiny scales lose: half of 2^-24, times the widest code and
                 * sub-scale; half of 2^-128 for MXFP4. A minimum keeps zero only as well as f16 rounds the range. */
                double lim = f->dtype == OCH_DTYPE_F32     ? 0
                             : f->dtype == OCH_DTYPE_MXFP4 ? 0x1p-129
                                                           : 0x1p-25 * 129 * 63 + (double)mags[m] * 0x1p-10;
                if (f->dtype == OCH_DTYPE_IQ4_NL) lim += (double)mags[m] / 120; /* its table has no zero: 1 of 127 */
                for (int i = 0; i < 256; i++) {
                    if (!(fabs((double)x[i] - y[i]) <= fabs((double)x[i]) * 0.5 + lim))
                        fail_msg("%s: %a became %a", f->name, (double)x[i], (double)y[i]);
                }
            }
        }
        /* too great for an f16 scale, or for an f16 element: refused; not finite: refused with its place */
        float x[256] = {0};
        uint8_t enc[1024];
        och_err err;
        och_err_clear(&err);
        x[70] = 3e38f;
        bool fits = f->dtype == OCH_DTYPE_F32 || f->dtype == OCH_DTYPE_BF16 || f->dtype == OCH_DTYPE_MXFP4;
        assert_int_equal(och_format_encode_row(f->dtype, x, enc, 256, &err), fits ? OCH_OK : OCH_RANGE);
        if (!fits) assert_non_null(strstr(err.message, "element"));
        och_err_clear(&err);
        x[70] = NAN;
        assert_int_equal(och_format_encode_row(f->dtype, x, enc, 256, &err), OCH_RANGE);
        assert_non_null(strstr(err.message, "element 70"));
    }
    /* the greatest floats saturate in MXFP4, where the next exponent would overflow */
    float top[32] = {FLT_MAX, -FLT_MAX, 0x1p127f}, back[32];
    uint8_t mx[17];
    assert_int_equal(och_format_encode_row(OCH_DTYPE_MXFP4, top, mx, 32, NULL), OCH_OK);
    och_format_decode_row(OCH_DTYPE_MXFP4, mx, back, 32);
    assert_true(back[0] == 0x1.8p127f && back[1] == -0x1.8p127f && back[2] == 0x1p127f && back[3] == 0);
    /* a negative d of a file is a value like any other */
    uint8_t b[18];
    float v[32];
    put_f16(b, -0x1p-24f), memset(b + 2, 0xF0, 16);
    och_format_decode_row(OCH_DTYPE_Q4_0, b, v, 32);
    assert_true(v[0] == 0x1p-21f && v[31] == -0x7p-24f);
}

static void what_is_not_finite_is_flagged(void **s) {
    (void)s;
    static const uint8_t bad_f16[][2] = {{0x00, 0x7C}, {0x00, 0xFC}, {0x01, 0x7C}, {0xFF, 0xFF}};
    for (size_t k = 0; k < 15; k++) {
        const och_format *f = och_format_at(k);
        uint8_t row[4 * 256 * 4];
        uint64_t n = 4 * (uint64_t)f->block_elems, bad;
        int places = 0;
        for (int place = 0; place < 2; place++) {
            if (f->scale != OCH_SCALE_NONE && f->f16_at[place] < 0) continue;
            if (f->scale == OCH_SCALE_NONE && (place || f->dtype != OCH_DTYPE_F16)) continue;
            places++;
            for (size_t v = 0; v < OCH_COUNT(bad_f16); v++) {
                for (uint64_t at = 0; at < 4; at++) {
                    memset(row, 0x3C, sizeof row);
                    memcpy(row + at * f->block_bytes + (f->f16_at[place] > 0 ? f->f16_at[place] : 0), bad_f16[v], 2);
                    och_err err;
                    och_err_clear(&err);
                    assert_int_equal(och_format_validate_row(f->dtype, row, n, &bad, &err), OCH_CORRUPT);
                    assert_int_equal(bad, at);
                    assert_non_null(strstr(err.message, f->name));
                }
            }
        }
        int want = f->scale == OCH_SCALE_F16_MIN || f->scale == OCH_SCALE_F16_SUB_MIN ? 2
                   : f->scale == OCH_SCALE_E8M0 || f->dtype == OCH_DTYPE_F32 || f->dtype == OCH_DTYPE_BF16 ? 0 : 1;
        assert_int_equal(places, want);
        memset(row, 0x3C, sizeof row);
        assert_int_equal(och_format_validate_row(f->dtype, row, n, &bad, NULL), OCH_OK);
    }
    uint64_t bad;
    float f32[3] = {1, 3.4e38f, INFINITY};
    assert_int_equal(och_format_validate_row(OCH_DTYPE_F32, f32, 3, &bad, NULL), OCH_CORRUPT);
    assert_int_equal(bad, 2);
    f32[1] = -NAN;
    assert_int_equal(och_format_validate_row(OCH_DTYPE_F32, f32, 3, &bad, NULL), OCH_CORRUPT);
    assert_int_equal(bad, 1);
    const uint8_t bf16[] = {0x7F, 0x7F, 0x80, 0xFF};
    assert_int_equal(och_format_validate_row(OCH_DTYPE_BF16, bf16, 2, &bad, NULL), OCH_CORRUPT);
    assert_int_equal(bad, 1);

    /* MXFP4: 255 always; 254 from code 2 up (1 * 2^127 is finite, 1.5 too, 2 is not); 253 from 4 up */
    static const struct { uint8_t e, code; bool ok; } mx[] = {
        {255, 0, false}, {255, 1, false}, {254, 3, true}, {254, 4, false}, {254, 11, true}, {254, 12, false},
        {253, 5, true},  {253, 6, false}, {253, 14, false}, {252, 7, true}, {0, 7, true}};
    for (size_t k = 0; k < OCH_COUNT(mx); k++) {
        for (int place = 0; place < 32; place += 31) { /* a low nibble, a high nibble */
            uint8_t b[34] = {127, 0};
            b[17] = mx[k].e;
            b[18 + place % 16] = (uint8_t)(place < 16 ? mx[k].code : mx[k].code << 4);
            assert_int_equal(och_format_validate_row(OCH_DTYPE_MXFP4, b, 64, &bad, NULL),
                             mx[k].ok ? OCH_OK : OCH_CORRUPT);
            assert_true(bad == (mx[k].ok ? UINT64_MAX : 1));
            float v[32];
            och_format_decode_row(OCH_DTYPE_MXFP4, b + 17, v, 32);
            for (int i = 0; i < 32; i++) assert_false(isnan(v[i]));
            if (mx[k].e != 255) assert_int_equal(mx[k].ok, isfinite(v[place]));
        }
    }
}

static void wrong_requests_are_refused(void **s) {
    (void)s;
    och_err err;
    float x[64] = {0};
    uint8_t enc[64];
    uint64_t bad;
    och_err_clear(&err);
    assert_int_equal(och_format_encode_row(OCH_DTYPE_I32, x, enc, 32, &err), OCH_UNSUPPORTED);
    assert_string_equal(err.message, "I32 is no weight format");
    och_err_clear(&err);
    assert_int_equal(och_format_encode_row(OCH_DTYPE_Q4_0, x, enc, 33, &err), OCH_RANGE);
    assert_string_equal(err.message, "Q4_0: expected a row of whole blocks of 32 elements, found 33");
    assert_int_equal(och_format_validate_row(OCH_DTYPE_Q4_K, enc, 32, &bad, NULL), OCH_RANGE);
    assert_int_equal(och_format_validate_row(OCH_DTYPE_Q4_0, enc, 0, &bad, NULL), OCH_OK);
}

static void activations_are_rounded_to_nearest_even(void **s) {
    (void)s;
    float x[64] = {0}, y[64];
    och_q8_32s q[2];
    x[0] = 127, x[1] = -127, x[2] = 2.5f, x[3] = 3.5f, x[4] = -2.5f, x[5] = 100.4f;
    och_q8_32s_encode_row(x, q, 64);
    assert_true(q[0].d == 1 && q[1].d == 0 && q[1].sum == 0);
    assert_int_equal(q[0].q[0], 127);
    assert_int_equal(q[0].q[1], -127);
    assert_int_equal(q[0].q[2], 2);
    assert_int_equal(q[0].q[3], 4);
    assert_int_equal(q[0].q[4], -2);
    assert_int_equal(q[0].q[5], 100);
    assert_int_equal(q[0].sum, 2 + 4 - 2 + 100);
    och_q8_32s_decode_row(q, y, 64);
    assert_true(y[3] == 4 && y[40] == 0);
    assert_int_equal(sizeof(och_q8_32s), 40);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_whole),
        cmocka_unit_test(float_formats_by_hand),
        cmocka_unit_test(blocks_of_32_by_hand),
        cmocka_unit_test(k_blocks_by_hand),
        cmocka_unit_test(equal_to_gguf_py_to_the_last_bit),
        cmocka_unit_test(encode_keeps_its_error_bound),
        cmocka_unit_test(encode_of_representable_values_is_exact),
        cmocka_unit_test(edges_of_scale),
        cmocka_unit_test(what_is_not_finite_is_flagged),
        cmocka_unit_test(wrong_requests_are_refused),
        cmocka_unit_test(activations_are_rounded_to_nearest_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
