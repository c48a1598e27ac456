/* MIMG: loads, stores, atomics and samples of linear surfaces (image.h). One level: levels of detail choose nothing. */
#include "isa/image.h"

#include "base/half.h"
#include "isa/memory.h"

#include <math.h>

enum { LOAD, STORE, SAMPLE, GATHER, RESINFO, ATOMIC };
enum { COMPARE = 1, CLAMP = 2, DERIV = 4, LOD = 8, BIAS = 16, ZERO = 32, OFFSET = 64, G16 = 128, MIP = 1 };

typedef struct row {
    const char *name;
    uint8_t op, flags;
} row;
static const row rows[] = {
#define SIM_IMAGE(n, o, f) {"IMAGE_" #n, o, f},
#include "isa/image.def"
#undef SIM_IMAGE
};
#define N_ROWS (sizeof rows / sizeof *rows)

/* What an instruction works on, the same for all lanes. */
typedef struct task {
    sim_image im;
    sim_sampler sm;
    unsigned kind;    /* how coordinates are taken: a sim_image_kind */
    unsigned n_coord;
    bool d16;
} task;

static const uint8_t n_coords[] = {1, 2, 3, 2, 3};

static bool task_of(sim_wave *w, const sim_uop *u, bool sampled, task *t) {
    const sim_inst *inst = u->inst;
    uint32_t r[8] = {0}, s[4] = {0};
    for (unsigned k = 0; k < (inst->r128 ? 4u : 8u); k++) r[k] = sim_sread(w, inst->base.reg + k);
    if (sampled)
        for (unsigned k = 0; k < 4; k++) s[k] = sim_sread(w, inst->samp.reg + k);
    t->im = sim_image_of(w->isa, r);
    t->sm = sim_sampler_of(w->isa, s);
    t->sm.unnormalized |= inst->unorm && sampled;
    t->d16 = inst->d16;
    t->kind = t->im.kind;
    if ((SIM_BIT(w->isa) & SIM_GCN) && !inst->sve) { /* the DA bit: without it an array is its first layer */
        if (t->kind == SIM_IMAGE_1D_ARRAY) t->kind = SIM_IMAGE_1D;
        if (t->kind == SIM_IMAGE_2D_ARRAY) t->kind = SIM_IMAGE_2D;
    }
    if (!(SIM_BIT(w->isa) & SIM_GCN)) {
        static const uint8_t of_dim[8] = {SIM_IMAGE_1D,       SIM_IMAGE_2D,       SIM_IMAGE_3D, 255,
                                          SIM_IMAGE_1D_ARRAY, SIM_IMAGE_2D_ARRAY, 255,          255};
        t->kind = of_dim[inst->dim & 7];
    }
    if (t->im.valid && t->kind != 255) {
        t->n_coord = n_coords[t->kind];
        return true;
    }
    sim_wave_fault(w, u, SIM_FAULT_ILLEGAL, -1, t->im.base, 0, false, "not a linear image of 1D, 2D, 3D or an array of them");
    return false;
}

/* Dword k of a lane's address, whose parts stand in one run of registers or in several. */
static uint32_t address_dword(const sim_wave *w, const sim_inst *inst, unsigned k, unsigned lane) {
    if (SIM_BIT(w->isa) & SIM_GCN) { /* one run, whose length the resource decides */
        size_t reg = (size_t)(inst->n_vaddr ? inst->vaddr[0].reg : 0) + k;
        return reg < w->n_vgprs ? w->v[reg * w->lanes + lane] : 0;
    }
    for (unsigned i = 0; i < inst->n_vaddr; i++) {
        const sim_operand *o = &inst->vaddr[i];
        if (k < o->n_dwords) return w->v[(size_t)(o->reg + k) * w->lanes + lane];
        k -= o->n_dwords;
    }
    return 0;
}
/* Part k of those that a16 packs in pairs, from dword `from` on. */
static uint32_t packed_part(const sim_wave *w, const sim_inst *inst, unsigned from, unsigned k, unsigned lane) {
    if (!inst->a16) return address_dword(w, inst, from + k, lane);
    return address_dword(w, inst, from + k / 2, lane) >> 16 * (k & 1) & 0xffff;
}

/* Texel coordinates (x, y, z) from what the kind calls them; z: a slice or a layer. */
static void place(const task *t, const uint32_t c[3], uint32_t out[3]) {
    out[0] = c[0];
    out[1] = t->kind == SIM_IMAGE_1D || t->kind == SIM_IMAGE_1D_ARRAY ? 0 : c[1];
    out[2] = t->kind == SIM_IMAGE_1D_ARRAY ? c[1] : t->kind == SIM_IMAGE_3D || t->kind == SIM_IMAGE_2D_ARRAY ? c[2] : 0;
}
static bool inside(const task *t, const uint32_t p[3]) {
    return p[0] < t->im.width && p[1] < t->im.height && p[2] < t->im.depth;
}
static uint64_t address_of(const task *t, const uint32_t p[3]) {
    return t->im.base + ((uint64_t)(p[2] + t->im.first_layer) * t->im.height + p[1]) * t->im.pitch_bytes +
           (uint64_t)p[0] * sim_typed_bytes(t->im.format);
}

static void select_components(const task *t, const uint32_t v[4], uint32_t out[4]) {
    uint32_t one = sim_typed_is_int(t->im.format) ? 1 : 0x3f800000u;
    for (unsigned k = 0; k < 4; k++) {
        unsigned s = t->im.select[k];
        out[k] = s == 1 ? one : s >= 4 ? v[s - 4] : 0;
    }
}

/* Puts the components of the mask in registers one after the other (d16: two in one). */
static void put(sim_wave *w, const sim_uop *u, const task *t, unsigned lane, unsigned dmask, const uint32_t v[4]) {
    uint32_t *d = SIM_ROW(w, u->d) + lane;
    unsigned n = 0;
    for (unsigned k = 0; k < 4; k++) {
        if (!(dmask >> k & 1)) continue;
        if (!t->d16) {
            d[n * w->lanes] = v[k];
        } else {
            uint32_t *q = d + n / 2 * w->lanes, h = sim_typed_to16(t->im.format, v[k]);
            *q = n & 1 ? (*q & 0xffffu) | h << 16 : (*q & 0xffff0000u) | h;
        }
        n++;
    }
}

/* False: a fault. */
static bool texel(sim_wave *w, const sim_uop *u, const task *t, int lane, const uint32_t p[3], uint32_t v[4]) {
    const uint8_t *at = sim_mem_at(w, u, sim_mem_cache(w, u), lane, address_of(t, p), sim_typed_bytes(t->im.format), false);
    if (!at) return false;
    sim_typed_read(t->im.format, at, v);
    return true;
}

static const sim_uop *run_load_store(sim_wave *w, const sim_uop *u) {
    const sim_inst *inst = u->inst;
    const row *r = u->core;
    task t;
    if (!task_of(w, u, false, &t)) return NULL;
    unsigned i, bytes = sim_typed_bytes(t.im.format);
    SIM_EACH_LANE(i, sim_mem_exec(w)) {
        uint32_t c[3] = {0}, p[3], v[4] = {0}, out[4] = {0};
        for (unsigned k = 0; k < t.n_coord; k++) c[k] = packed_part(w, inst, 0, k, i);
        bool level0 = !(r->flags & MIP) || packed_part(w, inst, 0, t.n_coord, i) == 0;
        place(&t, c, p);
        bool in = level0 && inside(&t, p);
        if (r->op == LOAD) {
            if (in && !texel(w, u, &t, (int)i, p, v)) return NULL;
            if (in) select_components(&t, v, out);
            put(w, u, &t, i, inst->dmask, out);
            continue;
        }
        if (!in) continue;
        const uint32_t *s = SIM_ROW(w, u->s[2]) + i;
        unsigned n = 0;
        for (unsigned k = 0; k < 4; k++)
            if (inst->dmask >> k & 1) {
                v[k] = t.d16 ? sim_typed_from16(t.im.format, (uint16_t)(s[n / 2 * w->lanes] >> 16 * (n & 1))) : s[n * w->lanes];
                n++;
            }
        uint8_t *at = sim_mem_at(w, u, sim_mem_cache(w, u), (int)i, address_of(&t, p), bytes, true);
        if (!at) return NULL;
        sim_typed_write(t.im.format, at, v);
    }
    return u + 1;
}

static const sim_uop *run_resinfo(sim_wave *w, const sim_uop *u) {
    task t;
    if (!task_of(w, u, false, &t)) return NULL;
    t.d16 = false;
    unsigned i;
    SIM_EACH_LANE(i, sim_mem_exec(w)) {
        bool level0 = address_dword(w, u->inst, 0, i) == 0;
        unsigned k = t.im.kind;
        uint32_t v[4] = {t.im.width, k == SIM_IMAGE_1D_ARRAY ? t.im.depth : k == SIM_IMAGE_1D ? 1 : t.im.height,
                         k == SIM_IMAGE_1D_ARRAY ? 1 : t.im.depth, 1};
        if (!level0) v[0] = v[1] = v[2] = 0;
        put(w, u, &t, i, u->inst->dmask, v);
    }
    return u + 1;
}

static const sim_uop *run_atomic(sim_wave *w, const sim_uop *u) {
    const sim_inst *inst = u->inst;
    unsigned op = ((const row *)u->core)->flags, i, L = w->lanes;
    bool second = sim_atomic_has_second(op), ok = true, is_fp = sim_atomic_is_fp(op);
    if (inst->dmask >= (second ? 15 : 3)) op |= SIM_AT_64;
    unsigned n = sim_atomic_bytes(op), k = n / 4;
    task t;
    if (!task_of(w, u, false, &t)) return NULL;
    const uint32_t *s = SIM_ROW(w, u->s[2]);
    uint32_t *d = SIM_ROW(w, u->d), fp = is_fp ? sim_atomic_fp_begin(false) : 0;
    SIM_EACH_LANE(i, sim_mem_exec(w)) {
        uint32_t c[3] = {0}, p[3];
        for (unsigned j = 0; j < t.n_coord; j++) c[j] = packed_part(w, inst, 0, j, i);
        place(&t, c, p);
        uint64_t old = 0, data = s[i], data2 = second ? s[k * L + i] : 0;
        if (k == 2) data |= (uint64_t)s[L + i] << 32, data2 |= second ? (uint64_t)s[3 * L + i] << 32 : 0;
        if (inside(&t, p) && sim_typed_bytes(t.im.format) == n) {
            uint8_t *at = sim_mem_at(w, u, sim_mem_cache(w, u), (int)i, address_of(&t, p), n, true);
            if (!at) { ok = false; break; }
            old = sim_atomic_host(op, at, data, data2);
        }
        if (u->flags) {
            d[i] = (uint32_t)old;
            if (k == 2) d[L + i] = (uint32_t)(old >> 32);
        }
    }
    if (is_fp) sim_atomic_fp_end(fp);
    return ok ? u + 1 : NULL;
}

/* A texel's coordinate by the address mode; false: the border. */
static bool address_mode(unsigned mode, int64_t i, uint32_t n, uint32_t *out) {
    int64_t m = n;
    switch (mode) {
    case 0: i = ((i % m) + m) % m; break;
    case 1:
        i = ((i % (2 * m)) + 2 * m) % (2 * m);
        if (i >= m) i = 2 * m - 1 - i;
        break;
    case 3: /* mirrored once, then the edge (5 and 7: then the border) */
    case 5:
    case 7:
        if (i < 0) i = -1 - i;
        if (mode == 3) i = i < m ? i : m - 1;
        break;
    case 2: i = i < 0 ? 0 : i < m ? i : m - 1; break;
    default: break; /* 4 and 6: the border */
    }
    *out = (uint32_t)i;
    return i >= 0 && i < m;
}

/* One texel as floats (or integers), through address modes, border and compare. False: a fault. */
static bool fetch(sim_wave *w, const sim_uop *u, const task *t, int lane, const int64_t at[3], const float *ref,
                  uint32_t out[4]) {
    const uint32_t size[3] = {t->im.width, t->im.height, t->im.depth};
    uint32_t p[3], v[4] = {0};
    bool in = true;
    for (unsigned k = 0; k < 3; k++)
        in &= address_mode(k == 2 && t->kind != SIM_IMAGE_3D ? 2 : t->sm.address[k], at[k], size[k], &p[k]);
    if (in) {
        if (!texel(w, u, t, lane, p, v)) return false;
        select_components(t, v, out);
    } else {
        uint32_t one = sim_typed_is_int(t->im.format) ? 1 : 0x3f800000u;
        for (unsigned k = 0; k < 4; k++) out[k] = t->sm.border == 2 || (t->sm.border == 1 && k == 3) ? one : 0;
    }
    if (ref) {
        float x = och_f32_from_bits(out[0]);
        const bool is[8] = {false, *ref < x, *ref == x, *ref <= x, *ref > x, *ref != x, *ref >= x, true};
        out[0] = och_f32_bits(is[t->sm.compare] ? 1.0f : 0.0f);
    }
    return true;
}

static const sim_uop *run_sample(sim_wave *w, const sim_uop *u) {
    const sim_inst *inst = u->inst;
    const row *r = u->core;
    task t;
    if (!task_of(w, u, true, &t)) return NULL;
    /* The address: offsets, bias, reference, derivatives, then the coordinates (and a level or a clamp after them). */
    unsigned spatial = t.kind == SIM_IMAGE_1D || t.kind == SIM_IMAGE_1D_ARRAY ? 1 : t.kind == SIM_IMAGE_3D ? 3 : 2, at = 0;
    unsigned at_offset = at, at_ref, i;
    at += r->flags & OFFSET ? 1 : 0;
    at += r->flags & BIAS ? 1 : 0;
    at_ref = at;
    at += r->flags & COMPARE ? 1 : 0;
    if (r->flags & DERIV) {
        bool packed = r->flags & G16 || (inst->a16 && SIM_BIT(w->isa) & SIM_GCN);
        at += packed ? 2 * ((spatial + 1) / 2) : 2 * spatial;
    }
    const uint32_t size[3] = {t.im.width, t.im.height, t.im.depth};
    SIM_EACH_LANE(i, sim_mem_exec(w)) {
        uint32_t raw[3] = {0}, p[3], acc[4] = {0};
        int32_t off[3] = {0};
        for (unsigned k = 0; k < t.n_coord; k++) {
            raw[k] = packed_part(w, inst, at, k, i);
            if (inst->a16) raw[k] = och_f32_bits(och_f16_to_f32((uint16_t)raw[k]));
        }
        if (r->flags & OFFSET)
            for (unsigned k = 0; k < 3; k++) off[k] = (int32_t)(address_dword(w, inst, at_offset, i) << (26 - 8 * k)) >> 26;
        float ref = r->flags & COMPARE ? och_f32_from_bits(address_dword(w, inst, at_ref, i)) : 0;
        place(&t, raw, p);
        int64_t base[3] = {0};
        float part[3] = {0};
        bool filter = t.sm.linear || r->op == GATHER;
        for (unsigned k = 0; k < 3; k++) {
            float x = och_f32_from_bits(p[k]);
            if (k == 2 && t.kind != SIM_IMAGE_3D) { /* a layer: the nearest, within the array */
                base[2] = x != x || x < 0 ? 0 : x > (float)t.im.depth ? t.im.depth - 1 : (int64_t)rintf(x);
                continue;
            }
            if (k >= spatial && k < 2) continue;
            if (!t.sm.unnormalized) x *= (float)size[k];
            if (x != x) x = 0;
            x = x < -1e9f ? -1e9f : x > 1e9f ? 1e9f : x;
            if (filter && (k < spatial)) {
                /* Eight bits of fraction. */
                float f = rintf((x - 0.5f) * 256.0f), whole = floorf(f / 256.0f);
                base[k] = (int64_t)whole;
                part[k] = (f - whole * 256.0f) / 256.0f;
            } else {
                /* The texel of the coordinate in eight bits of fraction, rounded: the device library, which hands over k / size
                 * for texel k, relies on it where the product comes out just below k. */
                base[k] = (int64_t)floorf(rintf(x * 256.0f) / 256.0f);
            }
            base[k] += off[k];
        }
        const float *cmp = r->flags & COMPARE ? &ref : NULL;
        if (r->op == GATHER) {
            /* One component of the four texels around: (0,1), (1,1), (1,0), (0,0). */
            static const uint8_t dx[4] = {0, 1, 1, 0}, dy[4] = {1, 1, 0, 0};
            unsigned component = cmp || !inst->dmask ? 0 : (unsigned)__builtin_ctz(inst->dmask);
            for (unsigned k = 0; k < 4; k++) {
                const int64_t q[3] = {base[0] + dx[k], base[1] + dy[k], base[2]};
                uint32_t v[4];
                if (!fetch(w, u, &t, (int)i, q, cmp, v)) return NULL;
                acc[k] = v[component];
            }
            put(w, u, &t, i, 15, acc);
            continue;
        }
        if (!filter || sim_typed_is_int(t.im.format)) {
            if (filter)
                for (unsigned k = 0; k < spatial; k++) base[k] += part[k] >= 0.5f; /* integers are not filtered */
            if (!fetch(w, u, &t, (int)i, base, cmp, acc)) return NULL;
            put(w, u, &t, i, inst->dmask, acc);
            continue;
        }
        float sum[4] = {0};
        for (unsigned corner = 0; corner < 1u << spatial; corner++) {
            float weight = 1;
            int64_t q[3] = {base[0], base[1], base[2]};
            for (unsigned k = 0; k < spatial; k++) {
                weight *= corner >> k & 1 ? part[k] : 1 - part[k];
                q[k] += corner >> k & 1;
            }
            if (weight == 0) continue;
            uint32_t v[4];
            if (!fetch(w, u, &t, (int)i, q, cmp, v)) return NULL;
            for (unsigned k = 0; k < 4; k++) sum[k] += weight * och_f32_from_bits(v[k]);
        }
        for (unsigned k = 0; k < 4; k++) acc[k] = och_f32_bits(sum[k]);
        put(w, u, &t, i, inst->dmask, acc);
    }
    return u + 1;
}

sim_bound sim_bind_image(sim_binder *b, const sim_inst *inst, sim_uop *u) {
    if (inst->format != SIM_MIMG) return SIM_BOUND_NO;
    const row *r = NULL;
    for (size_t i = 0; i < N_ROWS && !r; i++)
        if (!strcmp(rows[i].name, inst->meaning)) r = &rows[i];
    if (!r || inst->tfe || inst->lwe) return SIM_BOUND_NO;
    if (inst->base.kind != SIM_K_SGPR || inst->base.reg + 8 > 128) return SIM_BOUND_NO;
    if ((r->op == SAMPLE || r->op == GATHER) && (inst->samp.kind != SIM_K_SGPR || inst->samp.reg + 4 > 128))
        return SIM_BOUND_NO;
    for (unsigned i = 0; i < inst->n_vaddr; i++)
        if (inst->vaddr[i].kind != SIM_K_VGPR) return SIM_BOUND_NO;
    const sim_operand *data = inst->data.kind == SIM_K_VGPR ? &inst->data : &inst->dst;
    const sim_operand *dst = inst->dst.kind == SIM_K_VGPR ? &inst->dst : &inst->data;
    if (data->kind != SIM_K_VGPR) return SIM_BOUND_NO;
    u->inst = inst;
    u->core = (void *)(uintptr_t)r;
    u->d = sim_bind_row(b, dst->reg);
    u->s[2] = sim_bind_row(b, data->reg);
    u->flags = inst->dst.kind == SIM_K_VGPR;
    u->fn = r->op == SAMPLE || r->op == GATHER ? run_sample
            : r->op == RESINFO                 ? run_resinfo
            : r->op == ATOMIC                  ? run_atomic
                                               : run_load_store;
    return SIM_BOUND_UOP;
}

bool sim_meaning_at_image(size_t i, sim_meaning *out) {
    static const sim_meaning all[] = {
#define SIM_IMAGE(n, o, f)                                                                                                     \
    {"IMAGE_" #n, o == SAMPLE ? SIM_APPROX : SIM_EXACT, o == SAMPLE ? "filter weights of 8 bits, sums in f32" : NULL},
#include "isa/image.def"
#undef SIM_IMAGE
    };
    if (i >= sizeof all / sizeof *all) return false;
    *out = all[i];
    return true;
}
