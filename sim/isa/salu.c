/* Scalar ALU: one handler a row of salu.def. A constant is in the uop: u->s[i] for 32 bits, the instruction's operand for 64.
 * Hardware registers of s_getreg are those that programs read for their results: MODE, STATUS, TRAPSTS, LDS_ALLOC, the
 * cycle counter; the others read 0. */
#include "isa/valu_math.h"

#include "exec/bind.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static inline uint32_t src32(const sim_wave *w, const sim_uop *u, int i) {
    if (u->sk[i] == SIM_SRC_SCALAR) return w->s[u->s[i]];
    return u->sk[i] == SIM_SRC_CONST ? u->s[i] : sim_sread(w, u->s[i]);
}
static inline uint64_t src64(const sim_wave *w, const sim_uop *u, int i) {
    return u->sk[i] == SIM_SRC_CONST ? u->inst->src[i].value : sim_sread64(w, u->s[i]);
}

static inline uint32_t width_mask32(uint32_t b) { return (b >> 16 & 127) >= 32 ? UINT32_MAX : (1u << (b >> 16 & 127)) - 1; }
static inline uint64_t width_mask64(uint32_t b) { return (b >> 16 & 127) >= 64 ? UINT64_MAX : (1ull << (b >> 16 & 127)) - 1; }
static inline int32_t bfe_i32(int32_t a, uint32_t b) {
    uint32_t n = b >> 16 & 127, x = (uint32_t)(a >> (b & 31)) & width_mask32(b);
    if (!n || n >= 32) return (int32_t)x;
    uint32_t sign = 1u << (n - 1);
    return (int32_t)((x ^ sign) - sign);
}
static inline int64_t bfe_i64(int64_t a, uint32_t b) {
    uint32_t n = b >> 16 & 127;
    uint64_t x = (uint64_t)(a >> (b & 63)) & width_mask64(b);
    if (!n || n >= 64) return (int64_t)x;
    uint64_t sign = 1ull << (n - 1);
    return (int64_t)((x ^ sign) - sign);
}
static inline uint32_t brev32(uint32_t x) { return sim_brev32(x); }
static inline uint64_t brev64(uint64_t x) { return (uint64_t)sim_brev32((uint32_t)x) << 32 | sim_brev32((uint32_t)(x >> 32)); }
static inline uint64_t any_of_quads(uint64_t x) { /* bit 0 of each four: any of them */
    x |= x >> 2;
    x |= x >> 1;
    return x & 0x1111111111111111ull;
}
static inline uint64_t wqm(uint64_t x) { return any_of_quads(x) * 15; }
static inline uint64_t quadmask(uint64_t x) {
    x = any_of_quads(x);
    uint64_t r = 0;
    for (int i = 0; i < 16; i++) r |= (x >> 4 * i & 1) << i;
    return r;
}
static inline uint64_t spread(uint32_t v) { /* bit i to bit 2i */
    uint64_t x = v;
    x = (x | x << 16) & 0x0000ffff0000ffffull;
    x = (x | x << 8) & 0x00ff00ff00ff00ffull;
    x = (x | x << 4) & 0x0f0f0f0f0f0f0f0full;
    x = (x | x << 2) & 0x3333333333333333ull;
    return (x | x << 1) & 0x5555555555555555ull;
}

#define CT_N int
#define CT_U32 uint32_t
#define CT_I32 int32_t
#define CT_U64 uint64_t
#define CT_I64 int64_t
#define CT_F32 float
#define CT_F16 float
#define CT_FB uint32_t
#define CT_HB uint32_t
#define SRC_N(i) 0
#define SRC_U32(i) src32(w, u, i)
#define SRC_I32(i) (int32_t)src32(w, u, i)
#define SRC_U64(i) src64(w, u, i)
#define SRC_I64(i) (int64_t)src64(w, u, i)
#define SRC_F32(i) sim_u2f(src32(w, u, i))
#define SRC_F16(i) sim_f16_to_f32((uint16_t)src32(w, u, i))
#define SRC_FB(i) src32(w, u, i)
#define SRC_HB(i) (src32(w, u, i) & 0xffff)
#define PUT_N(x_) (void)(x_)
#define PUT_U32(x_) sim_swrite(w, u->d, (x_))
#define PUT_I32(x_) sim_swrite(w, u->d, (uint32_t)(x_))
#define PUT_U64(x_) sim_swrite64(w, u->d, (x_))
#define PUT_I64(x_) sim_swrite64(w, u->d, (uint64_t)(x_))
#define PUT_F32(x_) sim_swrite(w, u->d, sim_f2u(x_))
#define PUT_F16(x_) sim_swrite(w, u->d, sim_f32_to_f16_mode((x_), (int)(w->mode >> 2 & 3)))
#define PUT_FB(x_) PUT_U32(x_)
#define PUT_HB(x_) PUT_U32(x_)
#define OLD32 sim_sread(w, u->d)
#define OLD64 sim_sread64(w, u->d)
#define KEEP w->scc

static float fix_nan(float r, float a, float b, float c) {
    if (r == r) return r;
    return a != a ? sim_quiet32(a) : b != b ? sim_quiet32(b) : c != c ? sim_quiet32(c) : SIM_NEG_NAN32;
}

#define Z(n, td, ta, tb, ex, sc)                                                                                       \
    static const sim_uop *do_##n(sim_wave *w, const sim_uop *u) {                                                      \
        const CT_##ta a = SRC_##ta(0);                                                                                 \
        const CT_##tb b = SRC_##tb(1);                                                                                 \
        const int32_t k = (int32_t)u->imm;                                                                             \
        const CT_##td d = (CT_##td)(ex);                                                                               \
        (void)a, (void)b, (void)k;                                                                                     \
        w->scc = (uint8_t)(sc);                                                                                        \
        PUT_##td(d);                                                                                                   \
        return u + 1;                                                                                                  \
    }
#define F(n, td, ta, tb, tc, ex)                                                                                       \
    static const sim_uop *do_##n(sim_wave *w, const sim_uop *u) {                                                      \
        const CT_##ta a = SRC_##ta(0);                                                                                 \
        const CT_##tb b = SRC_##tb(1);                                                                                 \
        const CT_##tc c = SRC_##tc(2);                                                                                 \
        (void)b, (void)c;                                                                                              \
        PUT_##td(fix_nan((ex), a, (float)b, (float)c));                                                                \
        return u + 1;                                                                                                  \
    }
#define E32(n, ex, out)                                                                                                \
    static const sim_uop *do_##n(sim_wave *w, const sim_uop *u) {                                                      \
        const uint32_t a = src32(w, u, 0), e = w->s[SIM_S_EXEC_LO], next = (ex);                                         \
        w->s[SIM_S_EXEC_LO] = next;                                                                                   \
        sim_swrite(w, u->d, (out));                                                                                    \
        w->scc = next != 0;                                                                                           \
        return u + 1;                                                                                                  \
    }
#define E64(n, ex, out)                                                                                                \
    static const sim_uop *do_##n(sim_wave *w, const sim_uop *u) {                                                      \
        const uint64_t a = src64(w, u, 0), e = SIM_EXEC(w), next = (ex);                                                 \
        w->s[SIM_S_EXEC_LO] = (uint32_t)next;                                                                            \
        w->s[SIM_S_EXEC_HI] = (uint32_t)(next >> 32);                                                                    \
        sim_swrite64(w, u->d, (out));                                                                                  \
        w->scc = next != 0;                                                                                              \
        return u + 1;                                                                                                  \
    }
#define A(alias, n)
#define Y(n, f)
#include "isa/salu.def"
#undef Z
#undef F
#undef E32
#undef E64
#undef A
#undef Y

/* Hardware registers, by number. */
static bool gfx12(const sim_wave *w) { return w->isa >= SIM_GFX1200; }

static uint32_t hwreg_read(const sim_wave *w, const sim_uop *u, uint32_t id) {
    const uint64_t exec = SIM_EXEC(w) & w->exec_full;
    const uint64_t vcc = w->lanes == 64 ? SIM_VCC(w) : w->s[SIM_S_VCC_LO];
    switch (id) {
    case 1: return w->mode;
    case 2: /* STATUS: SCC 0, EXECZ 9, VCCZ 10, IN_TG 11, VALID 16 */
        return (gfx12(w) ? 0u : w->scc) | (exec == 0) << 9 | (vcc == 0) << 10 | (w->group && w->group->n_waves > 1) << 11 |
               1u << 16;
    case 3: return gfx12(w) ? 0 : w->trapsts;
    case 4: return gfx12(w) ? (uint32_t)w->scc << 9 : w->hw_id; /* gfx12: STATE_PRIV */
    case 6: { /* LDS_ALLOC: base 0; size in 20:12, in units of 128 dwords (64 on gfx9) */
        uint32_t unit = w->isa <= SIM_GFX950 ? 256 : 512;
        return ((w->group ? (w->group->lds_bytes + unit - 1) / unit : 0) & 0x1ff) << 12;
    }
    case 18: return gfx12(w) ? w->trapsts : 0; /* EXCP_FLAG_USER */
    case 23: return w->isa > SIM_GFX950 ? w->hw_id : 0;
    case 29: return w->isa > SIM_GFX950 ? (uint32_t)((w->n_executed + u->index) * 4) & (gfx12(w) ? UINT32_MAX : 0xfffff) : 0;
    case 30: return gfx12(w) ? (uint32_t)((w->n_executed + u->index) * 4 >> 32) : 0;
    default: return 0;
    }
}
static void hwreg_write(sim_wave *w, uint32_t id, uint32_t mask, uint32_t value) {
    switch (id) {
    case 1:
        if (gfx12(w)) mask &= ~0x300u; /* neither DX10_CLAMP nor IEEE */
        w->mode = (w->mode & ~mask) | (value & mask);
        sim_wave_mode_changed(w);
        break;
    case 3:
        if (!gfx12(w)) w->trapsts = (w->trapsts & ~mask) | (value & mask);
        break;
    case 18:
        if (gfx12(w)) w->trapsts = (w->trapsts & ~mask) | (value & mask);
        break;
    default: break; /* not for programs to change */
    }
}
static const sim_uop *getreg(sim_wave *w, const sim_uop *u) {
    uint32_t id = u->imm & 63, offset = u->imm >> 6 & 31, size = (u->imm >> 11 & 31) + 1;
    uint32_t mask = size == 32 ? UINT32_MAX : (1u << size) - 1;
    sim_swrite(w, u->d, hwreg_read(w, u, id) >> offset & mask);
    return u + 1;
}
static const sim_uop *set_register(sim_wave *w, const sim_uop *u, uint32_t value) {
    uint32_t id = u->imm & 63, offset = u->imm >> 6 & 31, size = (u->imm >> 11 & 31) + 1;
    uint32_t mask = (size == 32 ? UINT32_MAX : (1u << size) - 1) << offset;
    hwreg_write(w, id, mask, value << offset);
    return u + 1;
}
static const sim_uop *setreg(sim_wave *w, const sim_uop *u) { return set_register(w, u, src32(w, u, 0)); }
static const sim_uop *setreg_imm(sim_wave *w, const sim_uop *u) { return set_register(w, u, src32(w, u, 0)); }
static const sim_uop *round_mode(sim_wave *w, const sim_uop *u) {
    w->mode = (w->mode & ~0xfu) | (u->imm & 15);
    sim_wave_mode_changed(w);
    return u + 1;
}
static const sim_uop *denorm_mode(sim_wave *w, const sim_uop *u) {
    w->mode = (w->mode & ~0xf0u) | (u->imm & 15) << 4;
    sim_wave_mode_changed(w);
    return u + 1;
}

/* Registers by number in M0. */
static const sim_uop *out_of_file(sim_wave *w, const sim_uop *u) {
    return sim_wave_fault(w, u, SIM_FAULT_ILLEGAL, -1, 0, 0, false, "a scalar register beyond the file, by M0");
}
static bool in_file(uint32_t reg, uint32_t n) { return reg < SIM_S_VCC_LO && n <= SIM_S_VCC_LO - reg; }

static const sim_uop *movrels32(sim_wave *w, const sim_uop *u) {
    uint32_t r = u->s[0] + w->s[SIM_S_M0];
    if (!in_file(r, 1)) return out_of_file(w, u);
    sim_swrite(w, u->d, w->s[r]);
    return u + 1;
}
static const sim_uop *movrels64(sim_wave *w, const sim_uop *u) {
    uint32_t r = u->s[0] + w->s[SIM_S_M0];
    if (!in_file(r, 2)) return out_of_file(w, u);
    sim_swrite64(w, u->d, sim_sread64(w, r));
    return u + 1;
}
static const sim_uop *movreld32(sim_wave *w, const sim_uop *u) {
    uint32_t r = u->d + w->s[SIM_S_M0];
    if (!in_file(r, 1)) return out_of_file(w, u);
    w->s[r] = src32(w, u, 0);
    return u + 1;
}
static const sim_uop *movreld64(sim_wave *w, const sim_uop *u) {
    uint32_t r = u->d + w->s[SIM_S_M0];
    if (!in_file(r, 2)) return out_of_file(w, u);
    sim_swrite64(w, r, src64(w, u, 0));
    return u + 1;
}
static const sim_uop *movrelsd2(sim_wave *w, const sim_uop *u) {
    uint32_t from = u->s[0] + (w->s[SIM_S_M0] & 0x3ff), to = u->d + (w->s[SIM_S_M0] >> 16 & 0x3ff);
    if (!in_file(from, 1) || !in_file(to, 1)) return out_of_file(w, u);
    w->s[to] = w->s[from];
    return u + 1;
}

/* gfx9's vector register indexing: V_MOV_B32 looks at MODE.GPR_IDX_EN (27) and M0. */
static const sim_uop *gpr_idx_on(sim_wave *w, const sim_uop *u) {
    w->mode |= 1u << 27;
    w->s[SIM_S_M0] = (w->s[SIM_S_M0] & 0xffff0f00) | (src32(w, u, 0) & 255) | (u->imm & 15) << 12;
    return u + 1;
}
static const sim_uop *gpr_idx_off(sim_wave *w, const sim_uop *u) {
    w->mode &= ~(1u << 27);
    return u + 1;
}
static const sim_uop *gpr_idx_mode(sim_wave *w, const sim_uop *u) {
    w->s[SIM_S_M0] = (w->s[SIM_S_M0] & 0xffff0fff) | (u->imm & 15) << 12;
    return u + 1;
}
static const sim_uop *gpr_idx_idx(sim_wave *w, const sim_uop *u) {
    w->s[SIM_S_M0] = (w->s[SIM_S_M0] & 0xffffff00) | (src32(w, u, 0) & 255);
    return u + 1;
}

typedef struct salu_row {
    const char *name;
    sim_uop_fn *fn;
    const char *alias_of;
} salu_row;

#define Z(n, ...) {#n, do_##n, NULL},
#define F Z
#define E32 Z
#define E64 Z
#define Y(n, f) {#n, f, NULL},
#define A(alias, n) {#alias, NULL, #n},
static const salu_row rows[] = {
#include "isa/salu.def"
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static salu_row sorted[N_ROWS];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int compare(const void *a, const void *b) { return strcmp(((const salu_row *)a)->name, ((const salu_row *)b)->name); }
static void build(void) {
    memcpy(sorted, rows, sizeof rows);
    for (size_t i = 0; i < N_ROWS; i++)
        for (size_t j = 0; sorted[i].alias_of && j < N_ROWS; j++)
            if (!strcmp(rows[j].name, rows[i].alias_of)) sorted[i].fn = rows[j].fn;
    qsort(sorted, N_ROWS, sizeof *sorted, compare);
}

static void bind_src(const sim_operand *o, sim_uop *u, int i) {
    u->sk[i] = SIM_SRC_CONST;
    u->s[i] = (uint32_t)o->value;
    if (o->kind == SIM_K_SGPR) {
        u->sk[i] = o->reg < 128 ? SIM_SRC_SCALAR : SIM_SRC_SPECIAL;
        u->s[i] = o->reg;
    }
}

sim_bound sim_bind_salu(sim_binder *b, const sim_inst *inst, sim_uop *u) {
    (void)b;
    switch (inst->format) {
    case SIM_SOP1: case SIM_SOP2: case SIM_SOPC: case SIM_SOPK: case SIM_SOPP: break;
    default: return SIM_BOUND_NO;
    }
    pthread_once(&once, build);
    salu_row key = {.name = inst->meaning};
    const salu_row *row = bsearch(&key, sorted, N_ROWS, sizeof *sorted, compare);
    if (!row) return SIM_BOUND_NO;
    if (!row->fn) return SIM_BOUND_NOTHING;
    u->inst = inst;
    u->fn = row->fn;
    u->d = inst->dst.kind == SIM_K_SGPR ? inst->dst.reg : SIM_S_NULL;
    for (int i = 0; i < 3; i++) bind_src(&inst->src[i], u, i);
    u->n_src = 3;
    u->imm = (uint32_t)inst->simm16;
    const char *m = inst->meaning;
    if (!strncmp(m, "S_FMAC_", 7)) bind_src(&inst->dst, u, 2);
    if (inst->format == SIM_SOPK && inst->src[0].kind == SIM_K_NONE && !strncmp(m, "S_CMPK", 6)) bind_src(&inst->dst, u, 0);
    if (!strcmp(m, "S_SETREG_B32") && inst->src[0].kind == SIM_K_NONE) bind_src(&inst->dst, u, 0);
    if (!strcmp(m, "S_SET_GPR_IDX_ON")) u->imm = inst->words[0] >> 8 & 15; /* the field itself, not an operand */
    return SIM_BOUND_UOP;
}

bool sim_meaning_at_salu(size_t i, sim_meaning *out) {
    if (i >= N_ROWS) return false;
    *out = (sim_meaning){rows[i].name, SIM_EXACT, NULL};
    return true;
}
