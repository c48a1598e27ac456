/* What the command processor sets up before a wave's first instruction: LLVM AMDGPUUsage, "Initial Kernel Execution State". */
#include "exec/control.h"
#include "exec/program.h"
#include "exec/state.h"

#include <string.h>

enum { /* kernel_code_properties */
    PROP_PRIVATE_SEGMENT_BUFFER = 1 << 0,
    PROP_DISPATCH_PTR = 1 << 1,
    PROP_QUEUE_PTR = 1 << 2,
    PROP_KERNARG_SEGMENT_PTR = 1 << 3,
    PROP_DISPATCH_ID = 1 << 4,
    PROP_FLAT_SCRATCH_INIT = 1 << 5,
    PROP_PRIVATE_SEGMENT_SIZE = 1 << 6
};

static size_t round_up(size_t n, size_t align) { return (n + align - 1) / align * align; }

static bool is_gcn(sim_isa isa) { return SIM_BIT(isa) & SIM_GCN; }
/* Scratch is addressed by architected registers: no setup by the kernel. */
static bool architected_scratch(sim_isa isa) { return isa >= SIM_GFX942 && isa != SIM_GFX1030; }
static bool packed_work_item_ids(sim_isa isa) { return isa >= SIM_GFX90A && isa != SIM_GFX1030; }

size_t sim_block_bytes(const sim_launch_state *s) {
    size_t lanes = s->l->kernel->wave_size;
    size_t n = round_up(sizeof(sim_block) + s->waves_group * sizeof(sim_wave), 64);
    n += (size_t)s->waves_group * s->n_rows * lanes * 4;
    n = round_up(n + s->lds_bytes, 64) + 64;
    return n + (size_t)s->waves_group * s->scratch_lane_bytes * lanes + 64;
}

/* The scratch resource that buffer instructions of gfx906, 908, 90a and gfx10.3 use: swizzled dwords, lane by lane. */
static void scratch_resource(const sim_wave *w, uint32_t *r) {
    uint64_t base = (uint64_t)(uintptr_t)w->scratch;
    r[0] = (uint32_t)base;
    r[1] = ((uint32_t)(base >> 32) & 0xffff) | 1u << 31;                      /* swizzle enable */
    r[2] = 0xffffffffu;
    r[3] = 1u << 23 | (w->lanes == 64 ? 3u : 2u) << 21;                        /* add lane id; index stride */
    if (w->isa == SIM_GFX1030) r[3] |= 0x14u << 12 | 1u << 24 | 2u << 28 | 4u | 5u << 3 | 6u << 6 | 7u << 9;
}

static void set_scalars(sim_wave *w, const sim_launch_state *s, const sim_group *g) {
    const sim_launch *l = s->l;
    const sim_kernel *k = l->kernel;
    uint32_t n = 0, p = k->properties;
    uint32_t *r = w->s;
    if (p & PROP_PRIVATE_SEGMENT_BUFFER) {
        scratch_resource(w, r + n);
        n += 4;
    }
#define PAIR(bit, value)                                                                                               \
    if (p & (bit)) {                                                                                                   \
        uint64_t x_ = (value);                                                                                         \
        r[n] = (uint32_t)x_;                                                                                           \
        r[n + 1] = (uint32_t)(x_ >> 32);                                                                               \
        n += 2;                                                                                                        \
    }
    PAIR(PROP_DISPATCH_PTR, l->dispatch_ptr)
    PAIR(PROP_QUEUE_PTR, l->queue_ptr)
    PAIR(PROP_KERNARG_SEGMENT_PTR, l->kernarg_addr)
    PAIR(PROP_DISPATCH_ID, l->dispatch_id)
    PAIR(PROP_FLAT_SCRATCH_INIT, (uint64_t)(uintptr_t)w->scratch)
#undef PAIR
    if (p & PROP_PRIVATE_SEGMENT_SIZE) r[n++] = s->scratch_lane_bytes;
    uint32_t preload = k->kernarg_preload & 0x7f, from = k->kernarg_preload >> 7 & 0x1ff;
    const uint32_t *args = preload ? sim_space_host(l->space, l->kernarg_addr + from * 4u, preload * 4u) : NULL;
    for (uint32_t i = 0; args && i < preload && n < 16; i++) r[n++] = args[i];
    /* System registers begin after as many user registers as the descriptor says. */
    uint32_t user = k->rsrc2 >> 1 & 31;
    if (user > n) n = user;
    bool ids_in_ttmp = l->isa == SIM_GFX1200 || l->isa == SIM_GFX1250;
    if (ids_in_ttmp) {
        r[SIM_S_TTMP0 + 9] = g->id[0];
        r[SIM_S_TTMP0 + 7] = (g->id[1] & 0xffff) | g->id[2] << 16;
        r[SIM_S_TTMP0 + 8] = w->wave_id << 25;
    } else {
        if (k->rsrc2 >> 7 & 1) r[n++] = g->id[0];
        if (k->rsrc2 >> 8 & 1) r[n++] = g->id[1];
        if (k->rsrc2 >> 9 & 1) r[n++] = g->id[2];
        if (k->rsrc2 >> 10 & 1) r[n++] = (w->wave_id == 0 ? 1u << 31 : 0) | s->waves_group;
    }
    /* The wave's offset in scratch: the base above is the wave's own already. */
    if (k->rsrc2 & 1 && !architected_scratch(l->isa)) r[n++] = 0;
    r[SIM_S_M0] = is_gcn(l->isa) ? 0xffffffffu : 0;
}

static void set_work_items(sim_wave *w, const sim_launch_state *s, const sim_group *g) {
    const sim_launch *l = s->l;
    uint64_t exec = 0;
    uint32_t size[3]; /* of this group: the last one of a dimension may be partial */
    for (int d = 0; d < 3; d++) {
        uint64_t left = l->grid_items[d] - (uint64_t)g->id[d] * l->block[d];
        size[d] = left < l->block[d] ? (uint32_t)left : l->block[d];
    }
    uint32_t n_components = l->kernel->rsrc2 >> 11 & 3; /* 0: x, 1: x and y, 2: all */
    uint32_t total = size[0] * size[1] * size[2], first = w->wave_id * w->lanes;
    uint32_t x = 0, y = 0, z = 0;
    if (total) x = first % size[0], y = first / size[0] % size[1], z = first / (size[0] * size[1]);
    for (uint32_t lane = 0; lane < w->lanes && first + lane < total; lane++) {
        exec |= 1ull << lane;
        if (packed_work_item_ids(l->isa)) {
            w->v[lane] = x | y << 10 | z << 20;
        } else {
            w->v[lane] = x;
            if (n_components >= 1) w->v[w->lanes + lane] = y;
            if (n_components >= 2) w->v[2u * w->lanes + lane] = z;
        }
        if (++x == size[0]) {
            x = 0;
            if (++y == size[1]) y = 0, z++;
        }
    }
    w->s[SIM_S_EXEC_LO] = (uint32_t)exec;
    w->s[SIM_S_EXEC_HI] = (uint32_t)(exec >> 32);
}

static uint32_t initial_mode(const sim_kernel *k, sim_isa isa) {
    /* rsrc1: float round 13:12 and 15:14, denorm 17:16 and 19:18, dx10_clamp 21, ieee 23 (gfx12 has neither) */
    uint32_t m = k->rsrc1 >> 12 & 0xff;
    if (isa == SIM_GFX1200 || isa == SIM_GFX1250) return m;
    return m | (k->rsrc1 >> 21 & 1) << 8 | (k->rsrc1 >> 23 & 1) << 9;
}

void sim_block_start(sim_block *b, sim_launch_state *s, uint64_t flat_id) {
    const sim_launch *l = s->l;
    const sim_kernel *k = l->kernel;
    size_t lanes = k->wave_size, capacity = b->capacity;
    size_t head = round_up(sizeof *b + s->waves_group * sizeof(sim_wave), 64);
    size_t row_bytes = (size_t)s->n_rows * lanes * 4;
    memset(b, 0, head);
    b->capacity = capacity;
    sim_group *g = &b->group;
    g->launch = s;
    g->flat_id = flat_id;
    g->id[0] = (uint32_t)(flat_id % l->grid[0]);
    g->id[1] = (uint32_t)(flat_id / l->grid[0] % l->grid[1]);
    g->id[2] = (uint32_t)(flat_id / l->grid[0] / l->grid[1]);
    uint32_t items = 1;
    for (int d = 0; d < 3; d++) {
        uint64_t left = l->grid_items[d] - (uint64_t)g->id[d] * l->block[d];
        items *= left < l->block[d] ? (uint32_t)left : l->block[d];
    }
    g->n_waves = (uint32_t)((items + lanes - 1) / lanes);
    g->n_live = g->n_waves;
    g->waves = (sim_wave *)(void *)((uint8_t *)b + sizeof *b);
    uint8_t *rows = (uint8_t *)b + head;
    g->lds = rows + s->waves_group * row_bytes;
    g->lds_bytes = s->lds_bytes;
    uint8_t *scratch = (uint8_t *)b + round_up(head + s->waves_group * row_bytes + s->lds_bytes, 64);
    memset(rows, 0, g->n_waves * row_bytes);
    memset(g->lds, 0, s->lds_bytes);
    for (uint32_t i = 0; i < g->n_waves; i++) {
        sim_wave *w = &g->waves[i];
        w->v = (uint32_t *)(void *)(rows + i * row_bytes);
        w->lanes = (uint8_t)lanes;
        w->isa = (uint8_t)l->isa;
        w->n_vgprs = s->n_rows;
        w->exec_full = lanes == 64 ? ~0ull : 0xffffffffull;
        w->group = g;
        w->program = k->program;
        w->consts = sim_program_consts(k->program);
        w->pc = sim_program_entry(k->program);
        w->scratch = scratch + i * (size_t)s->scratch_lane_bytes * lanes;
        w->scratch_lane_bytes = s->scratch_lane_bytes;
        w->wave_id = i;
        w->mode = initial_mode(k, l->isa);
        sim_wave_mode_set(w);
        set_scalars(w, s, g);
        set_work_items(w, s, g);
    }
}
