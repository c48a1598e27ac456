/* What the classes of instructions share when they are bound and run: sources, constant rows, special registers, MODE. */
#include "exec/binder.h"

#include "base/alloc.h"
#include "base/env.h"

#include <string.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

int sim_host_level(void) {
    static _Atomic int level = -1;
    int l = atomic_load_explicit(&level, memory_order_relaxed);
    if (l >= 0) return l;
    l = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) l = 1;
    if (l == 1 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni") &&
        __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512bf16"))
        l = 2;
#endif
    const char *cap = och_env_get(OCH_ENV_OCHRE_SIM_ISA);
    if (cap && !strcmp(cap, "generic")) l = 0;
    if (cap && !strcmp(cap, "avx2") && l > 1) l = 1;
    atomic_store_explicit(&level, l, memory_order_relaxed);
    return l;
}

unsigned sim_bind_lanes(const sim_binder *b) { return b->lanes; }
sim_isa sim_bind_isa(const sim_binder *b) { return b->isa; }

uint32_t sim_bind_row(const sim_binder *b, uint32_t reg) { return reg * b->lanes * 4; }

/* The byte offset of a constant's rows: an equal one that is there already, or a new one. */
static bool const_rows(sim_binder *b, uint64_t value, unsigned n_rows, uint32_t *out_offset) {
    if (n_rows > 2) n_rows = 2; /* wider operands take no constants but matrix accumulators, which broadcast themselves */
    for (size_t i = 0; i < b->n_consts; i++)
        if (b->consts[i].value == value && b->consts[i].n_rows >= n_rows) {
            *out_offset = b->consts[i].offset;
            return true;
        }
    if (b->n_consts == b->consts_capacity) {
        size_t more = b->consts_capacity ? b->consts_capacity * 2 : 32;
        sim_const *p = och_realloc_array(b->consts, more, sizeof *p);
        if (!p) return false;
        b->consts = p;
        b->consts_capacity = more;
    }
    size_t row_bytes = (size_t)b->lanes * 4, need = b->const_bytes + n_rows * row_bytes;
    if (need > b->const_capacity) {
        size_t more = need * 2;
        uint8_t *p = och_malloc_aligned(more, 64);
        if (!p) return false;
        if (b->const_bytes) memcpy(p, b->const_area, b->const_bytes);
        och_free_aligned(b->const_area);
        b->const_area = p;
        b->const_capacity = more;
    }
    uint32_t *row = (uint32_t *)(void *)(b->const_area + b->const_bytes);
    for (unsigned r = 0; r < n_rows; r++)
        for (unsigned i = 0; i < b->lanes; i++) row[r * b->lanes + i] = (uint32_t)(value >> 32 * r);
    b->consts[b->n_consts++] = (sim_const){.value = value, .n_rows = n_rows, .offset = (uint32_t)b->const_bytes};
    *out_offset = (uint32_t)b->const_bytes;
    b->const_bytes = need;
    return true;
}

bool sim_bind_src(sim_binder *b, sim_uop *u, int i, const sim_operand *op, unsigned n_rows) {
    switch (op->kind) {
    case SIM_K_VGPR:
        u->sk[i] = SIM_SRC_ROW;
        u->s[i] = sim_bind_row(b, op->reg);
        return true;
    case SIM_K_SGPR:
        u->sk[i] = op->reg < 128 ? SIM_SRC_SCALAR : SIM_SRC_SPECIAL;
        u->s[i] = op->reg;
        return true;
    case SIM_K_CONST:
        u->sk[i] = SIM_SRC_CONST;
        return const_rows(b, op->value, n_rows, &u->s[i]);
    default:
        u->sk[i] = SIM_SRC_NONE;
        u->s[i] = 0;
        return true;
    }
}

void sim_bind_halves(sim_binder *b, const sim_uop *x, const sim_uop *y) {
    b->halves[0] = *x;
    b->halves[1] = *y;
    b->has_halves = true;
}

const uint32_t *sim_src_rows(const sim_wave *w, const sim_uop *u, int i, unsigned n_rows, uint32_t *tmp) {
    switch (u->sk[i]) {
    case SIM_SRC_ROW: return SIM_ROW(w, u->s[i]);
    case SIM_SRC_CONST: return (const uint32_t *)(const void *)(w->consts + u->s[i]);
    case SIM_SRC_SCALAR:
    case SIM_SRC_SPECIAL: {
        uint64_t value = n_rows > 1 ? sim_sread64(w, u->s[i]) : sim_sread(w, u->s[i]);
        for (unsigned r = 0; r < n_rows; r++) {
            uint32_t x = r < 2 ? (uint32_t)(value >> 32 * r) : sim_sread(w, u->s[i] + r);
            uint32_t *t = tmp + r * w->lanes;
            for (unsigned h = 0; h < w->lanes; h += 32)
                for (unsigned l = 0; l < 32; l++) t[h + l] = x;
        }
        return tmp;
    }
    default: memset(tmp, 0, (size_t)n_rows * w->lanes * 4); return tmp;
    }
}

uint64_t sim_special_read64(const sim_wave *w, uint32_t reg) {
    switch (reg) {
    case SIM_S_SHARED_BASE: return SIM_SHARED_BASE;
    case SIM_S_SHARED_LIMIT: return SIM_SHARED_BASE + 0xffffffffu;
    case SIM_S_PRIVATE_BASE: return SIM_PRIVATE_BASE;
    case SIM_S_PRIVATE_LIMIT: return SIM_PRIVATE_BASE + 0xffffffffu;
    case SIM_S_VCCZ: return (w->lanes == 64 ? SIM_VCC(w) : w->s[SIM_S_VCC_LO]) == 0;
    case SIM_S_EXECZ: return (SIM_EXEC(w) & w->exec_full) == 0;
    case SIM_S_SCC: return w->scc;
    /* the address that architected flat scratch starts at: only differences of it are of use to a program */
    case SIM_S_FLAT_SCR_LO: return (uint64_t)(uintptr_t)w->scratch;
    case SIM_S_FLAT_SCR_HI: return (uint64_t)(uintptr_t)w->scratch >> 32;
    default: return 0;
    }
}

uint32_t sim_special_read(const sim_wave *w, uint32_t reg) { return (uint32_t)sim_special_read64(w, reg); }

void sim_wave_mode_set(sim_wave *w) {
    static const uint32_t rc[4] = {0, 2, 1, 3}; /* nearest, +inf, -inf, zero -> MXCSR.RC */
    uint32_t m = w->mode;
    uint32_t x = 0x1f80u | rc[m & 3] << 13;
    if (!(m >> 4 & 1)) x |= 0x0040u; /* denormal inputs are zero */
    if (!(m >> 5 & 1)) x |= 0x8000u; /* denormal results are zero */
    w->mxcsr = x;
    w->mode_plain = (m & 0xf) == 0 && (m >> 6 & 3) == 3;
}

void sim_wave_mode_changed(sim_wave *w) {
    sim_wave_mode_set(w);
#if defined(__x86_64__)
    _mm_setcsr(w->mxcsr);
#endif
}

const sim_uop *sim_wave_fault(sim_wave *w, const sim_uop *u, sim_fault_kind kind, int lane, uint64_t addr, uint32_t size_bytes,
                              bool store, const char *what) {
    if (w->fault.kind == SIM_FAULT_NONE)
        w->fault = (sim_fault){.kind = (uint8_t)kind, .store = store, .lane = (int16_t)lane, .size_bytes = size_bytes,
                               .addr = addr, .inst = u ? u->inst : NULL, .what = what};
    w->state = SIM_WAVE_FAULT;
    w->pc = u;
    return NULL;
}
