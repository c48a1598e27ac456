/* See valu_scale.def. The scale is the exponent of a float: 2^(e - 127), and NaN for 255; values are divided by it on the way
 * to a small format, multiplied on the way back. What op_sel chooses: the part of the destination (a half for two 8-bit
 * results, a byte for one or for two of 4 bits), or of the source. */
#include "isa/valu.h"
#include "isa/valu_math.h"

#include <math.h>
#include <string.h>

typedef enum wide { F32, F16, BF16 } wide;

typedef struct scale_row {
    const char *name;
    sim_small small;
    wide type;
    uint8_t n;
    bool to, stochastic, two;
} scale_row;

static const scale_row rows[] = {
#define T(name, small, type, n, sr, two) {#name, small, type, n, true, sr, two},
#define R(name, small, type, n) {#name, small, type, n, false, false, false},
#define S(name, f, half)
#include "isa/valu_scale.def"
#undef T
#undef R
#undef S
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static const struct { const char *name; float (*f)(float); bool half; } scalars[] = {
#define T(name, small, type, n, sr, two)
#define R(name, small, type, n)
#define S(name, f, half) {#name, f, half},
#include "isa/valu_scale.def"
#undef T
#undef R
#undef S
};
enum { N_SCALARS = sizeof scalars / sizeof *scalars };

static unsigned small_bits(sim_small f) { return f == SIM_FP4 ? 4 : f == SIM_FP6 || f == SIM_BF6 ? 6 : 8; }

static float wide_value(const uint32_t *s, unsigned lanes, unsigned l, unsigned i, wide type) {
    if (type == F32) return sim_u2f(s[i * lanes + l]);
    uint32_t h = s[i / 2 * lanes + l] >> i % 2 * 16 & 0xffff;
    return type == F16 ? sim_f16_to_f32((uint16_t)h) : sim_u2f(h << 16);
}
static float scaled(float x, int by) {
    double r = (double)x * ldexp(1.0, by);
    if (x == x && fabsf(x) != INFINITY) r = r > 0x1.fffffep127 ? 0x1.fffffep127 : r < -0x1.fffffep127 ? -0x1.fffffep127 : r;
    return (float)r;
}

static void put_bits(uint32_t *d, unsigned lanes, unsigned l, unsigned at, unsigned bits, uint32_t value) {
    for (unsigned done = 0; done < bits;) {
        unsigned word = (at + done) / 32, shift = (at + done) % 32, n = 32 - shift < bits - done ? 32 - shift : bits - done;
        uint32_t field = ((1u << n) - 1) << shift;
        d[word * lanes + l] = (d[word * lanes + l] & ~field) | (value >> done << shift & field);
        done += n;
    }
}
static uint32_t get_bits(const uint32_t *s, unsigned lanes, unsigned l, unsigned at, unsigned bits) {
    uint64_t x = s[at / 32 * lanes + l];
    if (at % 32 + bits > 32) x |= (uint64_t)s[(at / 32 + 1) * lanes + l] << 32;
    return (uint32_t)(x >> at % 32) & ((1u << bits) - 1);
}

/* The rows that an operand of this instruction has. */
static unsigned src_rows(const scale_row *r, int i) {
    if (i > 0) return r->two && i == 1 && r->n == 32 ? 16 : 1;
    if (!r->to) return r->n == 32 ? 6 : 1;
    if (r->two) return r->n / 2;
    return r->type == F32 ? r->n : (r->n + 1) / 2;
}

static const sim_uop *convert(sim_wave *w, const sim_uop *u) {
    const scale_row *r = u->core;
    const unsigned lanes = w->lanes, bits = small_bits(r->small), sel = u->aux[0];
    const uint64_t mask = SIM_EXEC(w) & w->exec_full;
    uint32_t tmp[3][2 * SIM_MAX_LANES];
    const uint32_t *s[3];
    for (int i = 0; i < 3; i++) s[i] = sim_src_rows(w, u, i, src_rows(r, i) > 1 ? 2 : 1, tmp[i]);
    const int scale_src = r->to && (r->stochastic || r->two) ? 2 : 1;
    const bool saturate = w->mode >> 23 & 1;
    uint32_t *d = SIM_ROW(w, u->d);
    for (unsigned l = 0; l < lanes; l++) {
        if (!(mask >> l & 1)) continue;
        uint32_t scale = s[scale_src][l] >> 23 & 255, out[32] = {0};
        int by = (int)scale - 127;
        if (r->to) {
            uint32_t random = r->stochastic ? s[1][l] : 0;
            for (unsigned i = 0; i < r->n; i++) {
                unsigned at = i;
                const uint32_t *from = s[0];
                if (r->two) {
                    from = s[i & 1];
                    at = i / 2;
                } else if (r->n == 1 && r->type != F32) {
                    at = sel & 1; /* the half that op_sel chooses */
                }
                float x = wide_value(from, lanes, l, at, r->type);
                const sim_operand *o = &u->inst->src[r->two ? i & 1 : 0];
                if (o->abs) x = fabsf(x);
                if (o->neg) x = -x;
                x = scale == 255 ? SIM_NAN32 : scaled(x, -by);
                out[i] = r->stochastic ? sim_f32_to_small_sr(x, r->small, random, saturate)
                                       : sim_f32_to_small(x, r->small, saturate);
                if (r->stochastic) random = sim_prng(random);
            }
            unsigned at = 0;
            if (r->n == 2 && bits == 8) at = (sel >> 3) * 16;
            else if (r->n <= 2) at = (sel >> 2) * 8;
            for (unsigned i = 0; i < r->n; i++) put_bits(d, lanes, l, at + i * bits, bits, out[i]);
            continue;
        }
        unsigned at = 0;
        if (r->n == 2 && bits == 8) at = (sel & 1) * 16;
        else if (r->n <= 2) at = (sel & 3) * 8;
        for (unsigned i = 0; i < r->n; i++) {
            float x = sim_small_to_f32(get_bits(s[0], lanes, l, at + i * bits, bits), r->small);
            x = scale == 255 ? SIM_NAN32 : (float)((double)x * ldexp(1.0, by));
            out[i] = r->type == F32 ? sim_f2u(x) : r->type == F16 ? sim_f32_to_f16_mode(x, 0) : sim_f32_to_bf16(x);
        }
        if (r->type == F32)
            for (unsigned i = 0; i < r->n; i++) d[i * lanes + l] = out[i];
        else if (r->n == 1)
            put_bits(d, lanes, l, (sel >> 3) * 16, 16, out[0]);
        else
            for (unsigned i = 0; i < r->n; i++) put_bits(d, lanes, l, i * 16, 16, out[i]);
    }
    return u + 1;
}

static const sim_uop *scalar_function(sim_wave *w, const sim_uop *u) {
    const sim_operand *o = &u->inst->src[0];
    const bool half = scalars[u->aux[0]].half;
    uint32_t tmp[SIM_MAX_LANES], raw = sim_src_rows(w, u, 0, 1, tmp)[0];
    if (half && o->hi) raw >>= 16;
    float x = half ? sim_f16_to_f32((uint16_t)raw) : sim_u2f(raw);
    if (o->abs) x = fabsf(x);
    if (o->neg) x = -x;
    x = scalars[u->aux[0]].f(x);
    if (u->inst->omod && !(w->mode >> (half ? 7 : 5) & 1)) {
        x *= u->inst->omod == 1 ? 2.0f : u->inst->omod == 2 ? 4.0f : 0.5f;
        if (x == 0.0f) x = 0.0f;
    }
    if (u->inst->clamp) x = x > 0.0f ? (x > 1.0f ? 1.0f : x) : 0.0f;
    sim_swrite(w, u->d, half ? sim_f32_to_f16_mode(x, (int)(w->mode >> 2 & 3)) : sim_f2u(x));
    return u + 1;
}

sim_bound sim_bind_vscale(sim_binder *b, const sim_inst *inst, sim_uop *u) {
    if (inst->lanes != SIM_LANES_PLAIN) return SIM_BOUND_NO;
    u->inst = inst;
    u->n_src = 3;
    for (unsigned i = 0; i < N_SCALARS; i++) {
        if (strcmp(scalars[i].name, inst->meaning)) continue;
        if (inst->dst.kind != SIM_K_SGPR) return SIM_BOUND_NO;
        u->d = inst->dst.reg;
        u->aux[0] = (uint8_t)i;
        u->fn = scalar_function;
        return sim_bind_src(b, u, 0, &inst->src[0], 1) ? SIM_BOUND_UOP : SIM_BOUND_FAILED;
    }
    for (unsigned i = 0; i < N_ROWS; i++) {
        if (strcmp(rows[i].name, inst->meaning)) continue;
        if (inst->dst.kind != SIM_K_VGPR) return SIM_BOUND_NO;
        for (int k = 0; k < 3; k++) {
            unsigned n = src_rows(&rows[i], k);
            if (n > 2 && inst->src[k].kind != SIM_K_VGPR) return SIM_BOUND_NO;
            if (!sim_bind_src(b, u, k, &inst->src[k], n > 1 ? 2 : 1)) return SIM_BOUND_FAILED;
        }
        u->core = (void *)(uintptr_t)&rows[i];
        u->d = sim_bind_row(b, inst->dst.reg);
        u->aux[0] = (uint8_t)sim_inst_op_sel(inst);
        u->fn = convert;
        return SIM_BOUND_UOP;
    }
    return SIM_BOUND_NO;
}

bool sim_meaning_at_vscale(size_t i, sim_meaning *out) {
    if (i < N_ROWS) *out = (sim_meaning){rows[i].name, SIM_EXACT, NULL};
    else if (i - N_ROWS < N_SCALARS) *out = (sim_meaning){scalars[i - N_ROWS].name, SIM_APPROX, "1 ULP"};
    else return false;
    return true;
}
