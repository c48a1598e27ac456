/* DS operations that move data between lanes and touch no memory, and gfx950's transposing reads. */
#include "isa/lds.h"

static unsigned reverse5(unsigned x) {
    return (x & 1) << 4 | (x & 2) << 2 | (x & 4) | (x & 8) >> 2 | (x & 16) >> 4;
}

/* Where lane i reads, by the offset's mode: FFT decomposition, rotation (gfx9 and later), a permutation of four, or the
 * three masks on the lane's number. Modes act within groups of 32 (of 4). */
static unsigned swizzle_from(unsigned i, uint32_t off) {
    unsigned group = i & ~31u, l = i & 31;
    if (off >= 0xe000) {
        unsigned mask = off & 31, j = reverse5(l) >> __builtin_popcount(mask);
        return group | (j | (l & mask));
    }
    if (off >= 0xc000) {
        unsigned keep = off & 31, n = off >> 5 & 31;
        unsigned to = off & 0x400 ? l - n : l + n; /* bit 10: rotate right */
        return group | ((l & keep) | (to & ~keep & 31));
    }
    if (off & 0x8000) return (i & ~3u) | (off >> 2 * (i & 3) & 3);
    return group | (((l & (off & 31)) | (off >> 5 & 31)) ^ (off >> 10 & 31));
}

const sim_uop *sim_lds_swizzle(sim_wave *w, const sim_uop *u) {
    /* Without the group's operand named data the source is the address register. */
    const uint32_t *s = SIM_ROW(w, u->inst->addr.kind == SIM_K_VGPR ? u->s[0] : u->s[2]);
    uint32_t *d = SIM_ROW(w, u->d), t[SIM_MAX_LANES];
    uint64_t exec = sim_mem_exec(w);
    unsigned i;
    memcpy(t, s, 4 * (size_t)w->lanes);
    SIM_EACH_LANE(i, exec) {
        unsigned j = swizzle_from(i, u->imm);
        d[i] = exec >> j & 1 ? t[j] : 0;
    }
    return u + 1;
}

/* Each lane sends; of several that send to one lane the highest wins, lanes that nobody sends to get 0. */
const sim_uop *sim_lds_permute(sim_wave *w, const sim_uop *u) {
    const uint32_t *v = SIM_ROW(w, u->s[0]), *s = SIM_ROW(w, u->s[2]);
    uint32_t *d = SIM_ROW(w, u->d), t[SIM_MAX_LANES] = {0};
    uint64_t exec = sim_mem_exec(w);
    unsigned n = sim_lds_span(w), i;
    SIM_EACH_LANE(i, exec) t[(i & ~(n - 1)) | ((v[i] + u->imm) / 4 & (n - 1))] = s[i];
    SIM_EACH_LANE(i, exec) d[i] = t[i];
    return u + 1;
}

/* Each lane fetches; from a lane that is off it gets 0 (FI: its value all the same). */
const sim_uop *sim_lds_bpermute(sim_wave *w, const sim_uop *u) {
    const uint32_t *v = SIM_ROW(w, u->s[0]), *s = SIM_ROW(w, u->s[2]);
    uint32_t *d = SIM_ROW(w, u->d), t[SIM_MAX_LANES];
    uint64_t exec = sim_mem_exec(w), from = sim_lds_bpermute_from(w, u);
    unsigned n = sim_lds_span(w), i;
    memcpy(t, s, 4 * (size_t)w->lanes);
    SIM_EACH_LANE(i, exec) {
        unsigned j = (i & ~(n - 1)) | ((v[i] + u->imm) / 4 & (n - 1));
        d[i] = from >> j & 1 ? t[j] : 0;
    }
    return u + 1;
}

static uint32_t bits_at(const uint8_t *p, unsigned bit, unsigned n) {
    uint32_t x = 0;
    for (unsigned k = 0; k < n; k++) x |= (uint32_t)(p[(bit + k) / 8] >> (bit + k) % 8 & 1) << k;
    return x;
}
static void bits_put(uint8_t *p, unsigned bit, unsigned n, uint32_t x) {
    for (unsigned k = 0; k < n; k++) {
        uint8_t m = (uint8_t)(1u << (bit + k) % 8);
        p[(bit + k) / 8] = (uint8_t)(x >> k & 1 ? p[(bit + k) / 8] | m : p[(bit + k) / 8] & ~m);
    }
}

/* Sixteen lanes together read a block of n rows (n elements of 16, 8, 4 or 6 bits fill a lane's 64 or 96) and 16 columns
 * in row order, a row being 16 / n lanes; lane l gets column l: element e comes from row e. */
const sim_uop *sim_lds_transpose(sim_wave *w, const sim_uop *u) {
    unsigned size = ((const sim_lds_row *)u->core)->data, bytes = size == 6 ? 12 : 8, n = bytes * 8 / size, i;
    const uint32_t *v = SIM_ROW(w, u->s[0]);
    uint32_t *d = SIM_ROW(w, u->d);
    uint64_t exec = sim_mem_exec(w);
    uint8_t in[SIM_MAX_LANES][12];
    memset(in, 0, sizeof in);
    SIM_EACH_LANE(i, exec) {
        const uint8_t *p = sim_mem_lds(w, u, (int)i, v[i] + u->imm, bytes, false);
        if (!p) return NULL;
        memcpy(in[i], p, bytes);
    }
    SIM_EACH_LANE(i, exec) {
        uint8_t out[12] = {0};
        unsigned group = i & ~15u, l = i & 15;
        for (unsigned e = 0; e < n; e++)
            bits_put(out, e * size, size, bits_at(in[group + e * (16 / n) + l / n], l % n * size, size));
        for (unsigned k = 0; k < bytes / 4; k++) memcpy(d + k * w->lanes + i, out + 4 * k, 4);
    }
    return u + 1;
}
