#include "isa/memory_format.h"

#include "base/half.h"

#include <math.h>
#include <string.h>

/* Component widths from the lowest bit up. Names of three and four parts list them from the highest bit down for the packed
 * ones (10_11_11: x is the 11 lowest bits). */
static const struct {
    uint8_t n, bytes, width[4];
} layout[] = {
    [SIM_DF_8] = {1, 1, {8}}, [SIM_DF_16] = {1, 2, {16}}, [SIM_DF_8_8] = {2, 2, {8, 8}}, [SIM_DF_32] = {1, 4, {32}},
    [SIM_DF_16_16] = {2, 4, {16, 16}}, [SIM_DF_10_11_11] = {3, 4, {11, 11, 10}}, [SIM_DF_11_11_10] = {3, 4, {10, 11, 11}},
    [SIM_DF_10_10_10_2] = {4, 4, {2, 10, 10, 10}}, [SIM_DF_2_10_10_10] = {4, 4, {10, 10, 10, 2}},
    [SIM_DF_8_8_8_8] = {4, 4, {8, 8, 8, 8}}, [SIM_DF_32_32] = {2, 8, {32, 32}},
    [SIM_DF_16_16_16_16] = {4, 8, {16, 16, 16, 16}}, [SIM_DF_32_32_32] = {3, 12, {32, 32, 32}},
    [SIM_DF_32_32_32_32] = {4, 16, {32, 32, 32, 32}},
};

unsigned sim_typed_components(sim_typed t) { return t.dfmt <= SIM_DF_32_32_32_32 ? layout[t.dfmt].n : 0; }
unsigned sim_typed_bytes(sim_typed t) { return t.dfmt <= SIM_DF_32_32_32_32 ? layout[t.dfmt].bytes : 0; }

/* The unified numbers run through data formats; each entry is a data format and its number formats in order. */
typedef struct run {
    uint8_t dfmt, n, nfmt[7];
} run;
#define SIX {SIM_NF_UNORM, SIM_NF_SNORM, SIM_NF_USCALED, SIM_NF_SSCALED, SIM_NF_UINT, SIM_NF_SINT}
#define SEVEN {SIM_NF_UNORM, SIM_NF_SNORM, SIM_NF_USCALED, SIM_NF_SSCALED, SIM_NF_UINT, SIM_NF_SINT, SIM_NF_FLOAT}
#define WIDE {SIM_NF_UINT, SIM_NF_SINT, SIM_NF_FLOAT}
static const run gfx10[] = {
    {SIM_DF_8, 6, SIX}, {SIM_DF_16, 7, SEVEN}, {SIM_DF_8_8, 6, SIX}, {SIM_DF_32, 3, WIDE}, {SIM_DF_16_16, 7, SEVEN},
    {SIM_DF_10_11_11, 7, SEVEN}, {SIM_DF_11_11_10, 7, SEVEN}, {SIM_DF_10_10_10_2, 6, SIX}, {SIM_DF_2_10_10_10, 6, SIX},
    {SIM_DF_8_8_8_8, 6, SIX}, {SIM_DF_32_32, 3, WIDE}, {SIM_DF_16_16_16_16, 7, SEVEN}, {SIM_DF_32_32_32, 3, WIDE},
    {SIM_DF_32_32_32_32, 3, WIDE}, {0, 0, {0}},
};
static const run gfx11[] = {
    {SIM_DF_8, 6, SIX}, {SIM_DF_16, 7, SEVEN}, {SIM_DF_8_8, 6, SIX}, {SIM_DF_32, 3, WIDE}, {SIM_DF_16_16, 7, SEVEN},
    {SIM_DF_10_11_11, 1, {SIM_NF_FLOAT}}, {SIM_DF_11_11_10, 1, {SIM_NF_FLOAT}},
    {SIM_DF_10_10_10_2, 4, {SIM_NF_UNORM, SIM_NF_SNORM, SIM_NF_UINT, SIM_NF_SINT}}, {SIM_DF_2_10_10_10, 6, SIX},
    {SIM_DF_8_8_8_8, 6, SIX}, {SIM_DF_32_32, 3, WIDE}, {SIM_DF_16_16_16_16, 7, SEVEN}, {SIM_DF_32_32_32, 3, WIDE},
    {SIM_DF_32_32_32_32, 3, WIDE}, {0, 0, {0}},
};

sim_typed sim_typed_of(sim_isa isa, unsigned format) {
    if (SIM_BIT(isa) & SIM_GCN) {
        sim_typed t = {(uint8_t)(format & 15), (uint8_t)(format >> 4 & 7)};
        bool known = t.dfmt <= SIM_DF_32_32_32_32;
        /* No component of less than ten bits is a float. */
        for (unsigned k = 0; known && t.nfmt == SIM_NF_FLOAT && k < layout[t.dfmt].n; k++) known = layout[t.dfmt].width[k] >= 10;
        return known ? t : (sim_typed){0, 0};
    }
    unsigned at = 1;
    for (const run *r = isa == SIM_GFX1030 ? gfx10 : gfx11; r->n; at += r->n, r++)
        if (format >= at && format < at + r->n) return (sim_typed){r->dfmt, r->nfmt[format - at]};
    return (sim_typed){0, 0};
}
unsigned sim_typed_number(sim_isa isa, sim_typed t) {
    if (SIM_BIT(isa) & SIM_GCN) return t.dfmt | (unsigned)t.nfmt << 4;
    for (unsigned f = 1; f < 80; f++) {
        sim_typed x = sim_typed_of(isa, f);
        if (x.dfmt == t.dfmt && x.nfmt == t.nfmt) return f;
    }
    return 0;
}

/* Small unsigned floats of 10 and 11 bits: five of exponent, no sign. */
static float small_float(uint32_t x, unsigned width) {
    unsigned m = width - 5;
    uint32_t e = x >> m, man = x & ((1u << m) - 1);
    if (e == 31) return man ? NAN : INFINITY;
    if (!e) return ldexpf((float)man, -14 - (int)m);
    return ldexpf((float)(man | 1u << m), (int)e - 15 - (int)m);
}
static uint32_t to_small_float(float f, unsigned width) {
    unsigned m = width - 5;
    if (f != f) return 31u << m | 1u;
    if (!(f > 0)) return 0;
    /* Half has the same exponents; the shorter significand is cut from it, toward zero, infinity kept. */
    uint32_t u = och_f32_bits(f);
    if (isinf(f)) return 31u << m;
    int e = (int)(u >> 23) - 127;
    if (e > 15) return (30u << m) | ((1u << m) - 1);
    if (e < -14) return (uint32_t)ldexpf(f, 14 + (int)m);
    return (uint32_t)(e + 15) << m | (u & 0x7fffffu) >> (23 - m);
}

static uint32_t component(sim_typed t, uint32_t x, unsigned width) {
    int32_t s = width == 32 ? (int32_t)x : (int32_t)(x << (32 - width)) >> (32 - width);
    float max = (float)((1u << (width > 16 ? 16 : width)) - 1);
    switch (t.nfmt) {
    case SIM_NF_UNORM: return och_f32_bits((float)x / max);
    case SIM_NF_SNORM: {
        float f = (float)s / (float)((1u << (width - 1)) - 1);
        return och_f32_bits(f < -1 ? -1 : f);
    }
    case SIM_NF_USCALED: return och_f32_bits((float)x);
    case SIM_NF_SSCALED: return och_f32_bits((float)s);
    case SIM_NF_SINT: return (uint32_t)s;
    case SIM_NF_FLOAT:
        return width == 32 ? x : width == 16 ? och_f32_bits(och_f16_to_f32((uint16_t)x)) : och_f32_bits(small_float(x, width));
    default: return x;
    }
}

static uint32_t round_clamp(float f, float lo, float hi) {
    if (!(f > lo)) f = f != f ? 0 : lo;
    if (f > hi) f = hi;
    return (uint32_t)(int32_t)rintf(f);
}
static uint32_t encode(sim_typed t, uint32_t x, unsigned width) {
    float f = och_f32_from_bits(x);
    uint32_t mask = width == 32 ? 0xffffffffu : (1u << width) - 1;
    float smax = (float)((1u << (width > 16 ? 16 : width - 1)) - 1), umax = (float)((1u << (width > 16 ? 16 : width)) - 1);
    switch (t.nfmt) {
    case SIM_NF_UNORM: return round_clamp((f > 1 ? 1 : f) * umax, 0, umax);
    case SIM_NF_SNORM: return round_clamp((f > 1 ? 1 : f < -1 ? -1 : f) * smax, -smax, smax) & mask;
    case SIM_NF_USCALED: return round_clamp(truncf(f), 0, umax);
    case SIM_NF_SSCALED: return round_clamp(truncf(f), -smax - 1, smax) & mask;
    case SIM_NF_UINT: return x > mask ? mask : x;
    case SIM_NF_SINT: {
        if (width == 32) return x;
        int32_t s = (int32_t)x, top = (int32_t)(mask >> 1);
        return (uint32_t)(s > top ? top : s < -top - 1 ? -top - 1 : s) & mask;
    }
    case SIM_NF_FLOAT: return width == 32 ? x : width == 16 ? och_f32_to_f16(f) : to_small_float(f, width);
    default: return x & mask;
    }
}

void sim_typed_read(sim_typed t, const uint8_t *p, uint32_t out[4]) {
    unsigned n = sim_typed_components(t), bytes = sim_typed_bytes(t), bit = 0;
    out[0] = out[1] = out[2] = 0;
    out[3] = sim_typed_is_int(t) ? 1 : och_f32_bits(1.0f);
    uint32_t w[4] = {0};
    memcpy(w, p, bytes);
    for (unsigned k = 0; k < n; k++) {
        unsigned width = layout[t.dfmt].width[k];
        uint32_t x = w[bit / 32] >> bit % 32;
        if (width < 32) x &= (1u << width) - 1;
        out[k] = component(t, x, width);
        bit += width;
    }
}
void sim_typed_write(sim_typed t, uint8_t *p, const uint32_t in[4]) {
    unsigned n = sim_typed_components(t), bytes = sim_typed_bytes(t), bit = 0;
    uint32_t w[4] = {0};
    for (unsigned k = 0; k < n; k++) {
        unsigned width = layout[t.dfmt].width[k];
        w[bit / 32] |= encode(t, in[k], width) << bit % 32;
        bit += width;
    }
    memcpy(p, w, bytes);
}

uint16_t sim_typed_to16(sim_typed t, uint32_t x) {
    return sim_typed_is_int(t) ? (uint16_t)x : och_f32_to_f16(och_f32_from_bits(x));
}
uint32_t sim_typed_from16(sim_typed t, uint16_t x) {
    if (t.nfmt == SIM_NF_UINT) return x;
    if (t.nfmt == SIM_NF_SINT) return (uint32_t)(int16_t)x;
    return och_f32_bits(och_f16_to_f32(x));
}
