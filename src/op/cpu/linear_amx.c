#include "op/cpu/linear_amx.h"

#include "op/cpu/simd_avx512.h"
#include "op/cpu/weights.inc.h"

#define TILE_BYTES 1024 /* 16 rows of 64 bytes */

static bool is_float(och_dtype t) { return t == OCH_DTYPE_F16 || t == OCH_DTYPE_BF16; }
/* float16 is the sum of two bfloat16 exactly. */
static int weight_parts(och_dtype t) { return t == OCH_DTYPE_F16 ? 2 : 1; }

static int64_t k_tiles_of(const och_op_call *c) { return (c->in[OCH_LINEAR_X].cols + 31) / 32; }
static int act_parts(const och_op_call *c) {
    int parts = 1;
    for (int i = 0; i < c->attr.linear.n_weights; i++) {
        och_dtype t = c->in[OCH_LINEAR_W0 + i].dtype;
        int n = t == OCH_DTYPE_F16 ? 3 : t == OCH_DTYPE_BF16 ? 2 : 1;
        if (n > parts) parts = n;
    }
    return parts;
}

/* Products of parts: those before the first with a part that a format lacks. Quantised 1, bfloat16 2, float16 all. */
static const struct {
    uint8_t act, weight;
} passes[] = {{0, 0}, {1, 0}, {0, 1}, {1, 1}, {2, 0}};
#define N_PASSES 5
static int n_passes(och_dtype t) { return t == OCH_DTYPE_F16 ? N_PASSES : t == OCH_DTYPE_BF16 ? 2 : 1; }
static uint64_t part_bytes(const och_op_call *c, int64_t n) {
    return (uint64_t)((n + 15) / 16) * (uint64_t)k_tiles_of(c) * TILE_BYTES;
}

bool och_cpu_amx_serves(const och_op_call *c) {
    for (int i = 0; i < c->attr.linear.n_weights; i++)
        if (c->in[OCH_LINEAR_W0 + i].dtype == OCH_DTYPE_F32) return false;
    return true;
}

uint64_t och_cpu_amx_act_bytes(const och_op_call *c, int64_t n) { return (uint64_t)act_parts(c) * part_bytes(c, n); }

uint64_t och_cpu_amx_member_bytes(const och_op_call *c) {
    return (uint64_t)(act_parts(c) > 1 ? 2 : 1) * 2 * (uint64_t)k_tiles_of(c) * TILE_BYTES;
}

void och_cpu_amx_act_init(och_cpu_amx_act *a, const och_op_call *c, int64_t n, void *mem) {
    *a = (och_cpu_amx_act){.n = n, .k = c->in[OCH_LINEAR_X].cols, .k_tiles = k_tiles_of(c)};
    a->n_parts = act_parts(c);
    for (int i = 0; i < a->n_parts; i++) a->part[i] = (uint16_t *)(void *)((uint8_t *)mem + (uint64_t)i * part_bytes(c, n));
}

void och_cpu_amx_store_row(const och_cpu_amx_act *a, int64_t row, const float *x) {
    int64_t at = (row / 16) * a->k_tiles * 512 + (row % 16) * 32;
    for (int64_t kt = 0; kt < a->k_tiles; kt++, at += 512) {
        int64_t left = a->k - 32 * kt;
        vf lo = vf_zero(), hi = vf_zero();
        if (x && left >= 32) {
            lo = vf_load(x + 32 * kt);
            hi = vf_load(x + 32 * kt + 16);
        } else if (x) {
            lo = vf_load_n(x + 32 * kt, left < 16 ? (int)left : 16);
            if (left > 16) hi = vf_load_n(x + 32 * kt + 16, (int)left - 16);
        }
        for (int part = 0;; part++) {
            _mm512_storeu_si512(a->part[part] + at, (__m512i)_mm512_cvtne2ps_pbh(hi, lo));
            if (part + 1 == a->n_parts) break;
            lo = vf_sub(lo, vf_load_bf16(a->part[part] + at));
            hi = vf_sub(hi, vf_load_bf16(a->part[part] + at + 16));
        }
    }
}

void och_cpu_amx_begin(void) {
    /* Palette 1, every tile 16 rows of 64 bytes. Static: the intrinsic tells the compiler of the first bytes only, and
     * stores to the others would be dropped. */
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t column_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1, .column_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&config);
}

void och_cpu_amx_end(void) { _tile_release(); }

/* Two columns of k, sixteen rows each, as one row of a B tile: row n's pair in lane n. */
SIMD_INLINE __m512i pair_columns(vf even, vf odd) {
    const __m512i mix = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5,
                                         20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(mix, (__m512i)_mm512_cvtne2ps_pbh(odd, even));
}

SIMD_INLINE void decode_integer(const och_cpu_format f, const uint8_t *panel, int64_t nb, uint8_t *out) {
    const panel_view v = panel_view_of(f, panel, nb);
    const __m512i byte = _mm512_set1_epi32(255);
    for (int64_t b = 0; b < nb; b++, out += TILE_BYTES) {
        vf d[2], m[2];
        panel_scales(f, &v, b, d, m);
        if (f.offset) {
            m[0] = vf_mul(d[0], vf_set1(-(float)f.offset));
            if (format_halves(f)) m[1] = vf_mul(d[1], vf_set1(-(float)f.offset));
        }
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) {
            const int h = format_halves(f) ? j / 4 : 0;
            vb q = panel_quad(f, &v, b, j);
            vf x0 = vf_fma(vf_from_vi(_mm512_and_si512(q, byte)), d[h], m[h]);
            vf x1 = vf_fma(vf_from_vi(_mm512_and_si512(vb_shr(q, 8), byte)), d[h], m[h]);
            vf x2 = vf_fma(vf_from_vi(_mm512_and_si512(vb_shr(q, 16), byte)), d[h], m[h]);
            vf x3 = vf_fma(vf_from_vi(vb_shr(q, 24)), d[h], m[h]);
            _mm512_storeu_si512(out + 128 * j, pair_columns(x0, x1));
            _mm512_storeu_si512(out + 128 * j + 64, pair_columns(x2, x3));
        }
    }
}

static void decode_float(och_dtype dtype, const uint8_t *panel, int64_t k, int64_t k_tiles, uint8_t *high, uint8_t *low) {
    for (int64_t i = 0; i < 32 * k_tiles; i += 2) {
        vf x[2] = {vf_zero(), vf_zero()};
        for (int s = 0; s < 2 && i + s < k; s++) {
            const uint8_t *p = panel + (i + s) * 32;
            x[s] = dtype == OCH_DTYPE_F16 ? vf_load_f16(p) : vf_load_bf16(p);
        }
        __m512i rounded = pair_columns(x[0], x[1]);
        _mm512_storeu_si512(high + 32 * i, rounded);
        if (!low) continue;
        vf even = _mm512_castsi512_ps(_mm512_slli_epi32(rounded, 16));
        vf odd = _mm512_castsi512_ps(_mm512_and_si512(rounded, _mm512_set1_epi32((int)0xFFFF0000u)));
        _mm512_storeu_si512(low + 32 * i, pair_columns(vf_sub(x[0], even), vf_sub(x[1], odd)));
    }
}

#define X(sym, low, high, off, sc, book)                                                                               \
    static void decode_##sym(const uint8_t *panel, int64_t nb, uint8_t *out) {                                         \
        const och_cpu_format f = {low, high, off, sc, book, 0};                                                        \
        decode_integer(f, panel, nb, out);                                                                             \
    }
OCH_CPU_FORMATS(X)
#undef X

static void (*const decoders[OCH_DTYPE_COUNT_])(const uint8_t *, int64_t, uint8_t *) = {
#define X(sym, low, high, off, sc, book) [OCH_DTYPE_##sym] = decode_##sym,
    OCH_CPU_FORMATS(X)
#undef X
};

/* A panel's tiles in a member's memory: the high part, then the low. */
static uint8_t *panel_tiles(const och_cpu_amx_act *a, void *mem, int panel, int part) {
    int64_t parts = a->n_parts > 1 ? 2 : 1;
    return (uint8_t *)mem + (panel * parts + part) * a->k_tiles * TILE_BYTES;
}

void och_cpu_amx_load_panels(const och_cpu_amx_act *a, const och_cpu_amx_panels *p, void *mem) {
    for (int i = 0; i < p->n; i++) {
        uint8_t *high = panel_tiles(a, mem, i, 0), *low = panel_tiles(a, mem, i, 1);
        if (is_float(p->dtype[i]))
            decode_float(p->dtype[i], p->packed[i], a->k, a->k_tiles, high, weight_parts(p->dtype[i]) == 2 ? low : NULL);
        else
            decoders[p->dtype[i]](p->packed[i], a->k / OCH_CPU_BLOCK, high);
    }
}

/* Tiles: sums 0..3 as (rows 0-15, 16-31) x (panel 0, 1), activations 4 and 5, weights 6 and 7. */
static void multiply_2x2(const uint16_t *a0, const uint16_t *a1, const uint8_t *b0, const uint8_t *b1, int64_t k_tiles) {
    for (int64_t kt = 0; kt < k_tiles; kt++) {
        _tile_loadd(4, a0 + 512 * kt, 64);
        _tile_loadd(6, b0 + TILE_BYTES * kt, 64);
        _tile_loadd(5, a1 + 512 * kt, 64);
        _tile_loadd(7, b1 + TILE_BYTES * kt, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
}
static void multiply_1x2(const uint16_t *a0, const uint8_t *b0, const uint8_t *b1, int64_t k_tiles) {
    for (int64_t kt = 0; kt < k_tiles; kt++) {
        _tile_loadd(4, a0 + 512 * kt, 64);
        _tile_loadd(6, b0 + TILE_BYTES * kt, 64);
        _tile_loadd(7, b1 + TILE_BYTES * kt, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
    }
}
static void multiply_panel_0(const uint16_t *a0, const uint16_t *a1, const uint8_t *b, int64_t k_tiles) {
    for (int64_t kt = 0; kt < k_tiles; kt++) {
        _tile_loadd(4, a0 + 512 * kt, 64);
        _tile_loadd(6, b + TILE_BYTES * kt, 64);
        _tile_dpbf16ps(0, 4, 6);
        if (!a1) continue;
        _tile_loadd(5, a1 + 512 * kt, 64);
        _tile_dpbf16ps(2, 5, 6);
    }
}
static void multiply_panel_1(const uint16_t *a0, const uint16_t *a1, const uint8_t *b, int64_t k_tiles) {
    for (int64_t kt = 0; kt < k_tiles; kt++) {
        _tile_loadd(4, a0 + 512 * kt, 64);
        _tile_loadd(7, b + TILE_BYTES * kt, 64);
        _tile_dpbf16ps(1, 4, 7);
        if (!a1) continue;
        _tile_loadd(5, a1 + 512 * kt, 64);
        _tile_dpbf16ps(3, 5, 7);
    }
}

void och_cpu_amx_multiply(const och_cpu_amx_act *a, const och_cpu_amx_panels *p, int64_t row, int n_rows, void *mem,
                          float *t0, float *t1) {
    /* the loads of tiles are not known to the compiler as reads of memory */
    __asm__ volatile("" ::: "memory");
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    const int64_t tile_row = row / 16 * a->k_tiles * 512, next = a->k_tiles * 512;
    for (int pass = 0; pass < N_PASSES; pass++) {
        const int act_part = passes[pass].act, part = passes[pass].weight;
        const bool runs[2] = {pass < n_passes(p->dtype[0]), p->n > 1 && pass < n_passes(p->dtype[1])};
        if (!runs[0] && !runs[1]) continue;
        const uint16_t *a0 = a->part[act_part] + tile_row, *a1 = n_rows > 16 ? a0 + next : NULL;
        const uint8_t *b0 = panel_tiles(a, mem, 0, part), *b1 = panel_tiles(a, mem, 1, part);
        if (runs[0] && runs[1] && a1) multiply_2x2(a0, a1, b0, b1, a->k_tiles);
        else if (runs[0] && runs[1]) multiply_1x2(a0, b0, b1, a->k_tiles);
        else if (runs[0]) multiply_panel_0(a0, a1, b0, a->k_tiles);
        else multiply_panel_1(a0, a1, b1, a->k_tiles);
    }
    _tile_stored(0, t0, 64);
    if (n_rows > 16) _tile_stored(2, t0 + 256, 64);
    if (p->n < 2) return;
    _tile_stored(1, t1, 64);
    if (n_rows > 16) _tile_stored(3, t1 + 256, 64);
}
