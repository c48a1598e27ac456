/* Planes: where they lie, against sizes worked out by hand; the fields of K blocks against gguf-py
 * (tests/golden/planes.txt), those of plain blocks by hand; rows against the decoder of the file's layout, bit for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/half.h"
#include "base/size.h"
#include "quant/format.h"
#include "quant/planes.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016 */
static uint64_t rng_state = 88172645463325252u;
static uint32_t rnd(void) {
    rng_state ^= rng_state >> 12, rng_state ^= rng_state << 25, rng_state ^= rng_state >> 27;
    return (uint32_t)(rng_state * 2685821657736338717u >> 32);
}

/* ---- where planes lie ---- */

static void sizes_by_hand(void **s) {
    (void)s;
    static const struct {
        och_dtype t;
        uint64_t k, row;
        int n;
        struct {
            const char *name;
            uint64_t offset, bytes;
        } plane[4];
    } want[] = {
        {OCH_DTYPE_F32, 8, 32, 1, {{"v", 0, 32}}},
        {OCH_DTYPE_F32, 9, 64, 1, {{"v", 0, 64}}},
        {OCH_DTYPE_F16, 24, 48, 1, {{"v", 0, 48}}},
        {OCH_DTYPE_BF16, 1, 16, 1, {{"v", 0, 16}}},
        {OCH_DTYPE_Q4_0, 96, 64, 2, {{"q4", 0, 48}, {"d", 48, 6}}},
        {OCH_DTYPE_Q4_1, 160, 112, 2, {{"q4", 0, 80}, {"dm", 80, 20}}},
        {OCH_DTYPE_Q5_0, 32, 48, 3, {{"q4", 0, 16}, {"h1", 16, 4}, {"d", 32, 2}}},
        {OCH_DTYPE_Q5_1, 128, 96, 3, {{"q4", 0, 64}, {"h1", 64, 16}, {"dm", 80, 16}}},
        {OCH_DTYPE_Q8_0, 576, 624, 2, {{"q8", 0, 576}, {"d", 576, 36}}},
        {OCH_DTYPE_Q2_K, 512, 176, 3, {{"q2", 0, 128}, {"s", 128, 32}, {"dm", 160, 8}}},
        {OCH_DTYPE_Q3_K, 256, 128, 4, {{"q2", 0, 64}, {"h1", 64, 32}, {"s", 96, 16}, {"d", 112, 2}}},
        {OCH_DTYPE_Q4_K, 512, 304, 3, {{"q4", 0, 256}, {"s", 256, 32}, {"dm", 288, 8}}},
        {OCH_DTYPE_Q5_K, 256, 192, 4, {{"q4", 0, 128}, {"h1", 128, 32}, {"s", 160, 16}, {"dm", 176, 4}}},
        {OCH_DTYPE_Q6_K, 2304, 1904, 4, {{"q4", 0, 1152}, {"h2", 1152, 576}, {"s", 1728, 144}, {"d", 1872, 18}}},
        {OCH_DTYPE_IQ4_NL, 64, 48, 2, {{"q4", 0, 32}, {"d", 32, 4}}},
        {OCH_DTYPE_MXFP4, 544, 304, 2, {{"q4", 0, 272}, {"e", 272, 17}}},
    };
    for (size_t i = 0; i < OCH_COUNT(want); i++) {
        uint64_t bytes, offset;
        assert_true(och_planes_row_bytes(want[i].t, want[i].k, &bytes));
        assert_int_equal(bytes, want[i].row);
        assert_int_equal(och_planes_count(want[i].t), want[i].n);
        for (int p = 0; p < want[i].n; p++) {
            assert_true(och_planes_plane(want[i].t, want[i].k, p, &offset, &bytes));
            assert_string_equal(och_planes_at(want[i].t, p)->name, want[i].plane[p].name);
            assert_int_equal(och_planes_find(want[i].t, want[i].plane[p].name), p);
            assert_int_equal(offset, want[i].plane[p].offset);
            assert_int_equal(bytes, want[i].plane[p].bytes);
        }
        assert_false(och_planes_plane(want[i].t, want[i].k, want[i].n, &offset, &bytes));
        assert_false(och_planes_plane(want[i].t, want[i].k, -1, &offset, &bytes));
    }
    uint64_t bytes = 1, offset;
    assert_false(och_planes_row_bytes(OCH_DTYPE_Q4_0, 33, &bytes));
    assert_int_equal(bytes, 0);
    assert_false(och_planes_row_bytes(OCH_DTYPE_Q4_K, 288, &bytes));
    assert_false(och_planes_row_bytes(OCH_DTYPE_F32, 0, &bytes));
    assert_false(och_planes_row_bytes(OCH_DTYPE_F32, UINT64_MAX, &bytes));
    assert_false(och_planes_row_bytes(OCH_DTYPE_I32, 32, &bytes));
    assert_false(och_planes_row_bytes(OCH_DTYPE_NONE, 32, &bytes));
    assert_false(och_planes_plane(OCH_DTYPE_I32, 32, 0, &offset, &bytes));
    assert_null(och_planes_at(OCH_DTYPE_I32, 0));
    assert_int_equal(och_planes_count(OCH_DTYPE_NONE), 0);
    assert_int_equal(och_planes_find(OCH_DTYPE_Q4_0, "q8"), -1);
}

/* Every format; planes that start at 16 and do not meet; what they cost. */
static void sizes_of_all(void **s) {
    (void)s;
    static const uint64_t ks[] = {2048, 2304, 2560, 4096, 5120, 14336};
    const och_format *f;
    char text[2048];
    size_t at = (size_t)snprintf(text, sizeof text, "bytes of a row of planes over those of the file's row\n%-8s", "k");
    for (size_t i = 0; i < OCH_COUNT(ks); i++) at += (size_t)snprintf(text + at, sizeof text - at, "%8d", (int)ks[i]);
    for (size_t i = 0; (f = och_format_at(i)); i++) {
        assert_in_range(och_planes_count(f->dtype), 1, OCH_PLANES_MAX);
        for (uint64_t k = f->block_elems; k <= 16384; k += f->block_elems == 1 ? 173 : f->block_elems) {
            uint64_t row, file, end = 0;
            assert_true(och_planes_row_bytes(f->dtype, k, &row) && och_dtype_row_bytes(f->dtype, k, &file));
            assert_int_equal(row % OCH_PLANES_ALIGN, 0);
            for (int p = 0; p < och_planes_count(f->dtype); p++) {
                uint64_t offset, bytes;
                assert_true(och_planes_plane(f->dtype, k, p, &offset, &bytes));
                assert_true(offset % OCH_PLANES_ALIGN == 0 && offset >= end && offset < end + OCH_PLANES_ALIGN);
                end = offset + bytes;
            }
            assert_true(end <= row && row < end + OCH_PLANES_ALIGN);
            /* Nine blocks of Q3_K end just past a multiple of 16: 1040 bytes for 990. */
            if (f->dtype == OCH_DTYPE_Q3_K && k == 2304) assert_int_equal(row, 1040);
            else if (k >= 2048) assert_true((double)row <= 1.05 * (double)file);
        }
        at += (size_t)snprintf(text + at, sizeof text - at, "\n%-8s", f->name);
        for (size_t j = 0; j < OCH_COUNT(ks); j++) {
            uint64_t row = 0, file = 0;
            assert_true(och_planes_row_bytes(f->dtype, ks[j], &row) && och_dtype_row_bytes(f->dtype, ks[j], &file));
            at += (size_t)snprintf(text + at, sizeof text - at, "%8.4f", (double)row / (double)file);
        }
    }
    print_message("%s\n", text);
}

/* ---- fields, picked here by the words of planes.def ---- */

static const uint8_t *plane_of(och_dtype t, uint64_t k, const uint8_t *row, const char *name) {
    uint64_t offset = 0, bytes;
    int i = och_planes_find(t, name);
    assert_true(i >= 0 && och_planes_plane(t, k, i, &offset, &bytes));
    return row + offset;
}

static unsigned bits2(const uint8_t *unit, int i) { return unit[i & 7] >> ((i >> 3) << 1) & 3u; }
static unsigned bits4(const uint8_t *unit, int i) { return i < 16 ? unit[i] & 15u : unit[i - 16] >> 4; }
static unsigned bit1(const uint8_t *unit, int i) {
    uint32_t word;
    memcpy(&word, unit, 4);
    return word >> i & 1u;
}

static int unhex(int c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

/* Reads a line's bytes; its format and name are as given. */
static size_t golden_line(FILE *f, const char *fmt, const char *name, uint8_t *out, size_t capacity) {
    char a[16], b[16];
    size_t n = 0;
    if (fscanf(f, "%15s %15s ", a, b) != 2) return 0;
    assert_string_equal(a, fmt);
    assert_string_equal(b, name);
    for (int c; (c = fgetc(f)) != EOF && c != '\n';) {
        assert_true(n < capacity);
        int d = fgetc(f);
        out[n++] = (uint8_t)(unhex(c) << 4 | unhex(d));
    }
    return n;
}

static void fields_of_k_blocks(void **s) {
    (void)s;
    FILE *f = fopen(OCHRE_TEST_DIR "/golden/planes.txt", "r");
    assert_non_null(f);
    static const och_dtype formats[] = {OCH_DTYPE_Q2_K, OCH_DTYPE_Q3_K, OCH_DTYPE_Q4_K, OCH_DTYPE_Q5_K, OCH_DTYPE_Q6_K};
    for (size_t i = 0; i < 2 * OCH_COUNT(formats); i++) {
        och_dtype t = formats[i / 2];
        const char *name = och_dtype_name(t);
        const och_format *fmt = och_format_get(t);
        bool mins = fmt->scale == OCH_SCALE_F16_SUB_MIN;
        size_t subs = 256 / fmt->sub_elems;
        uint8_t raw[3 * 256], code[256], scale[16], min[16], row[3 * 512];
        assert_int_equal(golden_line(f, name, "raw", raw + fmt->block_bytes, 256), fmt->block_bytes);
        assert_int_equal(golden_line(f, name, "code", code, 256), 256);
        assert_int_equal(golden_line(f, name, "scale", scale, 16), subs);
        if (mins) assert_int_equal(golden_line(f, name, "min", min, 16), subs);
        /* The block in the middle of three, between ones and zeros. */
        memset(raw, 0xFF, fmt->block_bytes);
        memset(raw + 2 * fmt->block_bytes, 0, fmt->block_bytes);
        och_planes_pack(t, 1, 768, raw, row, 0, 1);
        for (int e = 0; e < 256; e++) {
            int u = 8 + e / 32, l = e % 32;
            unsigned found = 0;
            switch (t) {
            case OCH_DTYPE_Q2_K: found = bits2(plane_of(t, 768, row, "q2") + 8 * u, l); break;
            case OCH_DTYPE_Q3_K:
                found = bits2(plane_of(t, 768, row, "q2") + 8 * u, l) | bit1(plane_of(t, 768, row, "h1") + 4 * u, l) << 2;
                break;
            case OCH_DTYPE_Q4_K: found = bits4(plane_of(t, 768, row, "q4") + 16 * u, l); break;
            case OCH_DTYPE_Q5_K:
                found = bits4(plane_of(t, 768, row, "q4") + 16 * u, l) | bit1(plane_of(t, 768, row, "h1") + 4 * u, l) << 4;
                break;
            default:
                found = bits4(plane_of(t, 768, row, "q4") + 16 * u, l) | bits2(plane_of(t, 768, row, "h2") + 8 * u, l) << 4;
                break;
            }
            if (found != code[e]) fail_msg("%s, element %d: expected code %u, found %u", name, e, code[e], found);
        }
        const uint8_t *p = plane_of(t, 768, row, "s") + 16;
        for (size_t j = 0; j < subs; j++)
            if (t == OCH_DTYPE_Q4_K || t == OCH_DTYPE_Q5_K) {
                assert_int_equal(p[2 * j], scale[j]);
                assert_int_equal(p[2 * j + 1], min[j]);
            } else {
                assert_int_equal(p[j], t == OCH_DTYPE_Q2_K ? scale[j] | min[j] << 4 : scale[j]);
            }
        const uint8_t *file = raw + fmt->block_bytes;
        if (mins) {
            const uint8_t *dm = plane_of(t, 768, row, "dm") + 4;
            assert_memory_equal(dm, file + fmt->f16_at[0], 2);
            assert_memory_equal(dm + 2, file + fmt->f16_at[1], 2);
        } else {
            assert_memory_equal(plane_of(t, 768, row, "d") + 2, file + fmt->f16_at[0], 2);
        }
    }
    assert_int_equal(fgetc(f), EOF);
    fclose(f);
}

/* Two blocks of each format of 32: bytes of the file in, planes out. The file's fields are numbered bytes. */
static void fields_of_plain_blocks(void **s) {
    (void)s;
    static const struct {
        och_dtype t;
        size_t scale, high, codes; /* bytes, in the file's order */
        const char *planes[3];     /* names of the planes of codes, high, scale */
    } want[] = {
        {OCH_DTYPE_Q4_0, 2, 0, 16, {"q4", NULL, "d"}},  {OCH_DTYPE_Q4_1, 4, 0, 16, {"q4", NULL, "dm"}},
        {OCH_DTYPE_Q5_0, 2, 4, 16, {"q4", "h1", "d"}},  {OCH_DTYPE_Q5_1, 4, 4, 16, {"q4", "h1", "dm"}},
        {OCH_DTYPE_Q8_0, 2, 0, 32, {"q8", NULL, "d"}},  {OCH_DTYPE_IQ4_NL, 2, 0, 16, {"q4", NULL, "d"}},
        {OCH_DTYPE_MXFP4, 1, 0, 16, {"q4", NULL, "e"}},
    };
    for (size_t i = 0; i < OCH_COUNT(want); i++) {
        size_t bytes = want[i].scale + want[i].high + want[i].codes;
        uint8_t raw[2 * 40], row[256];
        for (size_t j = 0; j < 2 * bytes; j++) raw[j] = (uint8_t)(j + 1);
        och_planes_pack(want[i].t, 1, 64, raw, row, 0, 1);
        for (size_t b = 0; b < 2; b++) {
            const uint8_t *file = raw + b * bytes;
            assert_memory_equal(plane_of(want[i].t, 64, row, want[i].planes[2]) + b * want[i].scale, file, want[i].scale);
            if (want[i].high)
                assert_memory_equal(plane_of(want[i].t, 64, row, want[i].planes[1]) + b * want[i].high, file + want[i].scale,
                                    want[i].high);
            assert_memory_equal(plane_of(want[i].t, 64, row, want[i].planes[0]) + b * want[i].codes,
                                file + want[i].scale + want[i].high, want[i].codes);
        }
    }
    /* Floats stay as they are, and a part of a unit is filled up. */
    uint8_t raw[11 * 2], row[32];
    for (size_t j = 0; j < sizeof raw; j++) raw[j] = (uint8_t)(j + 1);
    memset(row, 0xA5, sizeof row);
    och_planes_pack(OCH_DTYPE_F16, 1, 11, raw, row, 0, 1);
    assert_memory_equal(row, raw, sizeof raw);
    for (size_t j = sizeof raw; j < 32; j++) assert_int_equal(row[j], 0);
}

/* ---- whole rows ---- */

static bool same(float a, float b) { return (isnan(a) && isnan(b)) || och_f32_bits(a) == och_f32_bits(b); }

/* Random bytes; with `sane`, scales that decode to moderate numbers. */
static void random_blocks(const och_format *f, uint8_t *p, uint64_t n_blocks, bool sane) {
    for (uint64_t i = 0; i < n_blocks * f->block_bytes; i++) p[i] = (uint8_t)rnd();
    for (uint64_t b = 0; sane && b < n_blocks; b++, p += f->block_bytes) {
        for (int i = 0; i < 2; i++)
            if (f->f16_at[i] >= 0) p[f->f16_at[i] + 1] = (uint8_t)(0x20 | (p[f->f16_at[i] + 1] & 0x9F));
        if (f->scale == OCH_SCALE_E8M0) p[0] = (uint8_t)(p[0] % 64 + 96);
        if (f->block_elems == 1) p[f->block_bytes - 1] = (uint8_t)((p[f->block_bytes - 1] & 0x9F) | 0x20);
    }
}

enum { FILL = 0xA5 };

/* One matrix: packed whole, in slices of one, and around a slice nothing is written. */
static void one_matrix(const och_format *f, int64_t rows, uint64_t k, bool sane, size_t skew) {
    uint64_t file = 0, row = 0;
    assert_true(och_dtype_row_bytes(f->dtype, k, &file) && och_planes_row_bytes(f->dtype, k, &row));
    size_t src_bytes = (size_t)file * (size_t)rows, dst_bytes = (size_t)row * (size_t)rows;
    uint8_t *src0 = och_malloc_array(src_bytes + skew, 1), *dst0 = och_malloc_array(dst_bytes + skew, 1);
    uint8_t *again = och_malloc_array(dst_bytes + 32, 1);
    float *a = och_malloc_array((size_t)k, sizeof *a), *b = och_malloc_array((size_t)k, sizeof *b);
    assert_true(src0 && dst0 && again && a && b);
    uint8_t *src = src0 + skew, *dst = dst0 + skew;
    random_blocks(f, src, (uint64_t)rows * k / f->block_elems, sane);
    och_planes_pack(f->dtype, rows, (int64_t)k, src, dst, 0, rows);
    for (int64_t r = 0; r < rows; r++) {
        och_format_decode_row(f->dtype, src + (uint64_t)r * file, a, k);
        och_planes_decode_row(f->dtype, k, dst + (uint64_t)r * row, b);
        for (uint64_t i = 0; i < k; i++)
            if (!same(a[i], b[i]))
                fail_msg("%s, k %d, row %d, element %d: expected %a, found %a", f->name, (int)k, (int)r, (int)i, (double)a[i],
                         (double)b[i]);
        uint64_t end = 0, offset, bytes;
        for (int p = 0; p <= och_planes_count(f->dtype); p++) {
            if (!och_planes_plane(f->dtype, k, p, &offset, &bytes)) offset = row, bytes = 0;
            for (uint64_t i = end; i < offset; i++) assert_int_equal(dst[(uint64_t)r * row + i], 0);
            end = offset + bytes;
        }
    }
    /* The same bytes from rows packed in another order and in two slices; the third is not touched. */
    int64_t cut = rows / 3, cut2 = rows - rows / 4;
    memset(again, FILL, dst_bytes + 32);
    och_planes_pack(f->dtype, rows, (int64_t)k, src, again + 16, cut, cut2);
    for (size_t i = 0; i < dst_bytes + 32; i++) {
        bool inside = i >= 16 + (size_t)cut * row && i < 16 + (size_t)cut2 * row;
        if (again[i] != (inside ? dst[i - 16] : FILL)) fail_msg("%s: byte %d of a slice differs", f->name, (int)i);
    }
    for (int64_t r = rows; r-- > 0;)
        if (r < cut || r >= cut2) och_planes_pack(f->dtype, rows, (int64_t)k, src, again + 16, r, r + 1);
    och_planes_pack(f->dtype, rows, (int64_t)k, src, again + 16, rows, rows);
    assert_memory_equal(again + 16, dst, dst_bytes);
    och_free(src0);
    och_free(dst0);
    och_free(again);
    och_free(a);
    och_free(b);
}

static void rows_equal_the_files(void **s) {
    (void)s;
    const och_format *f;
    for (size_t i = 0; (f = och_format_at(i)); i++) {
        static const int64_t rows[] = {1, 2, 3, 7, 33};
        static const uint64_t blocks[] = {1, 2, 3, 5, 9, 16, 17};
        for (size_t v = 0; v < 35; v++) {
            /* of the formats without blocks, every remainder of a unit */
            uint64_t k = f->block_elems == 1 ? 1 + v * 11 : f->block_elems * blocks[v % 7];
            one_matrix(f, rows[v % 5], k, v % 2, v % 4);
        }
        one_matrix(f, 5, 4096, true, 0);
    }
}

/* Every value of each byte of a block, so that no bit is lost or read twice. */
static void every_bit_counts(void **s) {
    (void)s;
    const och_format *f;
    for (size_t i = 0; (f = och_format_at(i)); i++) {
        uint64_t k = f->block_elems == 1 ? 8 : f->block_elems, n = k / f->block_elems * f->block_bytes, row;
        uint8_t raw[256], a[512], b[512];
        assert_true(och_planes_row_bytes(f->dtype, k, &row) && row <= sizeof a && n <= sizeof raw);
        for (uint64_t j = 0; j < n; j++) raw[j] = (uint8_t)rnd();
        och_planes_pack(f->dtype, 1, (int64_t)k, raw, a, 0, 1);
        for (uint64_t bit = 0; bit < 8 * n; bit++) {
            raw[bit / 8] ^= (uint8_t)(1 << bit % 8);
            och_planes_pack(f->dtype, 1, (int64_t)k, raw, b, 0, 1);
            raw[bit / 8] ^= (uint8_t)(1 << bit % 8);
            int changed = 0;
            for (uint64_t j = 0; j < row; j++) changed += __builtin_popcount((unsigned)(a[j] ^ b[j]));
            /* A scale of Q3_K has had 32 subtracted: its top bit is then a sign, in three places. */
            if (f->dtype == OCH_DTYPE_Q3_K && changed == 3) changed = 1;
            if (changed != 1) fail_msg("%s: bit %d of a block changes %d bits of its planes", f->name, (int)bit, changed);
        }
    }
}

static void breaches_abort(void **s) {
    (void)s;
    static uint8_t src[4096], dst[8192];
    for (int i = 0; i < 6; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            float v[64];
            signal(SIGABRT, SIG_DFL);
            if (i == 0) och_planes_pack(OCH_DTYPE_Q4_0, 1, 33, src, dst, 0, 1);
            if (i == 1) och_planes_pack(OCH_DTYPE_Q4_0, 2, 32, src, dst, 1, 3);
            if (i == 2) och_planes_pack(OCH_DTYPE_Q4_0, 2, 32, src, dst, -1, 1);
            if (i == 3) och_planes_pack(OCH_DTYPE_I32, 2, 32, src, dst, 0, 1);
            if (i == 4) och_planes_pack(OCH_DTYPE_F32, 2, 0, src, dst, 0, 1);
            if (i == 5) och_planes_decode_row(OCH_DTYPE_Q4_K, 32, src, v);
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

/* ---- activations ---- */

static void activations(void **s) {
    (void)s;
    uint64_t bytes, offset;
    static const struct {
        uint64_t k, row, at[3];
    } want[] = {{32, 64, {0, 32, 48}}, {96, 128, {0, 96, 112}}, {576, 736, {0, 576, 656}}, {2048, 2560, {0, 2048, 2304}}};
    static const char *const names[] = {"q", "d", "sum"};
    for (size_t i = 0; i < OCH_COUNT(want); i++) {
        assert_true(och_planes_act_row_bytes(want[i].k, &bytes));
        assert_int_equal(bytes, want[i].row);
        for (int p = 0; p < 3; p++) {
            assert_string_equal(och_planes_act_at(p)->name, names[p]);
            assert_true(och_planes_act_plane(want[i].k, p, &offset, &bytes));
            assert_int_equal(offset, want[i].at[p]);
            assert_int_equal(bytes, want[i].k / 32 * (p ? 4 : 32));
        }
    }
    assert_null(och_planes_act_at(3));
    assert_false(och_planes_act_row_bytes(33, &bytes));
    assert_false(och_planes_act_row_bytes(0, &bytes));
    assert_false(och_planes_act_plane(32, 3, &offset, &bytes));

    /* x[i] = i - 16, and in the second unit -2 x: d = 16/127, and 32/127; q = nearest(x 127 / 16), sums of those */
    float x[96] = {0}, y[96], z[96];
    uint8_t row[128];
    int sum[2] = {0, 0};
    for (int i = 0; i < 32; i++) x[i] = (float)(i - 16), x[32 + i] = -2.0f * x[i];
    memset(row, FILL, sizeof row);
    och_planes_act_encode_row(x, 96, row);
    for (int i = 0; i < 32; i++) {
        int q = (int)nearbyint((i - 16) * 127.0 / 16.0);
        assert_int_equal((int8_t)row[i], q);
        assert_int_equal((int8_t)row[32 + i], -q);
        assert_int_equal(row[64 + i], 0);
        sum[0] += q, sum[1] -= q;
    }
    float d[3];
    int32_t sums[3];
    memcpy(d, row + 96, sizeof d);
    memcpy(sums, row + 112, sizeof sums);
    assert_true(d[0] == 16.0f / 127 && d[1] == 32.0f / 127 && d[2] == 0);
    assert_true(sums[0] == sum[0] && sums[1] == sum[1] && sums[2] == 0);
    for (int i = 0; i < 4; i++) assert_true(row[108 + i] == 0 && row[124 + i] == 0);

    /* The same numbers as blocks give. */
    och_q8_32s blocks[3];
    for (int v = 0; v < 20; v++) {
        for (int i = 0; i < 96; i++) x[i] = (float)(int32_t)rnd() * (v % 2 ? 0x1p-31f : 0x1p-20f);
        och_planes_act_encode_row(x, 96, row);
        och_q8_32s_encode_row(x, blocks, 96);
        och_q8_32s_decode_row(blocks, y, 96);
        och_planes_act_decode_row(row, 96, z);
        assert_memory_equal(y, z, sizeof y);
        memcpy(sums, row + 112, sizeof sums);
        for (int u = 0; u < 3; u++) assert_int_equal(sums[u], blocks[u].sum);
    }
}

/* ---- what kernels declare ---- */

static uint32_t bytes_of_type(const char *type) {
    uint32_t count = 1;
    char name[16];
    assert_in_range(sscanf(type, "%15[a-z0-9][%u]", name, &count), 1, 2);
    return count * (uint32_t)strtoul(name + 1 + (name[0] == 'b'), NULL, 10) / 8; /* f16, u8, bf16: bits follow the letters */
}

/* The planes of kernels/formats.ok, where kernels read them, are those of planes.def: names, order, bytes, what for. */
static void kernels_declare_the_same(void **s) {
    (void)s;
    FILE *f = fopen(OCHRE_SOURCE_DIR "/kernels/formats.ok", "r");
    assert_non_null(f);
    char line[512], word[64], type[64], per[64];
    const char *owner = NULL;
    och_dtype t = OCH_DTYPE_NONE;
    int n = 0, n_formats = 0;
    unsigned unit = 0;
    bool act = false;
    for (bool more = true; more;) {
        more = fgets(line, sizeof line, f) != NULL;
        char *at;
        bool format = more && sscanf(line, "format %63s", word) == 1, is_act = more && sscanf(line, "act %63s", word) == 1;
        if (!more || format || is_act) {
            if (owner) assert_int_equal(n, act ? 3 : och_planes_count(t));
            n = 0;
            owner = NULL;
            if (format) {
                t = och_dtype_from_name(word);
                assert_int_not_equal(och_planes_count(t), 0);
                owner = och_dtype_name(t);
                act = false;
                n_formats++;
            } else if (is_act && !strcmp(word, "q8_32s")) {
                owner = "q8_32s";
                act = true;
            }
        }
        if (!owner || !more) continue;
        if ((at = strstr(line, "unit ")) && strstr(line, ";") && !strstr(line, "plane")) sscanf(at, "unit %u", &unit);
        if (sscanf(line, " plane %63[a-z0-9]: %63s per %63[a-z]", word, type, per) != 3) continue;
        const och_plane *p = act ? och_planes_act_at(n) : och_planes_at(t, n);
        if (!p) fail_msg("%s: plane %s has no row in planes.def", owner, word);
        if (strcmp(p->name, word) != 0) fail_msg("%s: expected plane %d to be %s, found %s", owner, n, p->name, word);
        uint32_t span = !strcmp(per, "unit") ? unit : 256;
        if (p->bytes != bytes_of_type(type) || p->span != span)
            fail_msg("%s.%s: expected %u bytes for %u elements, found %s for %u", owner, word, p->bytes, p->span, type, span);
        n++;
    }
    fclose(f);
    const och_format *all;
    int n_all = 0;
    while ((all = och_format_at((size_t)n_all))) n_all++;
    assert_int_equal(n_formats, n_all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_by_hand),          cmocka_unit_test(sizes_of_all),
        cmocka_unit_test(fields_of_k_blocks),     cmocka_unit_test(fields_of_plain_blocks),
        cmocka_unit_test(rows_equal_the_files),   cmocka_unit_test(every_bit_counts),
        cmocka_unit_test(breaches_abort),         cmocka_unit_test(activations),
        cmocka_unit_test(kernels_declare_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
