/* Counters of a launch (OCHRE_SIM_COUNT): instructions by class, memory traffic, LDS conflicts, occupancy, bytes in flight.
 *
 * Traffic is what "Numbers that mean something" in docs/simulator.md defines: DRAM bytes are 128-byte lines that miss an LRU
 * cache of the board's L2 size, workgroups in dispatch order; beside them lines that miss an LRU of 16 KiB that each
 * workgroup starts empty with. No seconds: this is not a timing model. */
#include "base/alloc.h"
#include "base/env.h"
#include "base/strbuf.h"
#include "exec/access.h"
#include "exec/check_order.h"
#include "exec/count.h"
#include "exec/observers.h"
#include "exec/program.h"
#include "exec/state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LINE 128
#define GROUP_CACHE_BYTES 16384
#define LDS_BANKS 32

/* ---- an LRU set of lines: an open-addressed table whose entries form a list by last use ---- */

typedef struct lru {
    uint64_t *line;     /* [size]; 0: empty (a line is its number + 1) */
    uint32_t *prev, *next; /* [size + 1]: slot numbers; entry `size` is the list's anchor */
    uint32_t size;      /* a power of two, at least twice the capacity */
    uint32_t capacity, used;
} lru;

static bool lru_create(lru *c, uint64_t bytes) {
    memset(c, 0, sizeof *c);
    uint64_t lines = bytes / LINE;
    c->capacity = lines ? (uint32_t)lines : 1;
    c->size = 16;
    while (c->size < 2 * c->capacity) c->size *= 2;
    c->line = och_calloc(c->size, sizeof *c->line);
    c->prev = och_malloc_array(c->size + 1, sizeof *c->prev);
    c->next = och_malloc_array(c->size + 1, sizeof *c->next);
    if (!c->line || !c->prev || !c->next) return false;
    c->prev[c->size] = c->next[c->size] = c->size;
    return true;
}
static void lru_destroy(lru *c) {
    och_free(c->line);
    och_free(c->prev);
    och_free(c->next);
}
static void lru_clear(lru *c) {
    memset(c->line, 0, c->size * sizeof *c->line);
    c->used = 0;
    c->prev[c->size] = c->next[c->size] = c->size;
}
static uint32_t lru_home(const lru *c, uint64_t key) { return (uint32_t)((key * 0x9e3779b97f4a7c15ull) >> 32) & (c->size - 1); }
static void lru_link(lru *c, uint32_t slot) { /* as the most recent */
    uint32_t first = c->next[c->size];
    c->next[slot] = first;
    c->prev[slot] = c->size;
    c->prev[first] = slot;
    c->next[c->size] = slot;
}
static void lru_unlink(lru *c, uint32_t slot) {
    c->next[c->prev[slot]] = c->next[slot];
    c->prev[c->next[slot]] = c->prev[slot];
}
static void lru_move(lru *c, uint32_t from, uint32_t to) { /* the entry changes its slot */
    c->line[to] = c->line[from];
    c->prev[to] = c->prev[from];
    c->next[to] = c->next[from];
    c->next[c->prev[to]] = to;
    c->prev[c->next[to]] = to;
}
static void lru_remove(lru *c, uint32_t hole) {
    lru_unlink(c, hole);
    for (uint32_t i = (hole + 1) & (c->size - 1); c->line[i]; i = (i + 1) & (c->size - 1)) {
        uint32_t home = lru_home(c, c->line[i]);
        if (((i - home) & (c->size - 1)) < ((i - hole) & (c->size - 1))) continue;
        lru_move(c, i, hole);
        hole = i;
    }
    c->line[hole] = 0;
    c->used--;
}
/* Touches a line; true: it was not there. */
static bool lru_miss(lru *c, uint64_t line) {
    uint64_t key = line + 1;
    uint32_t i = lru_home(c, key);
    for (; c->line[i]; i = (i + 1) & (c->size - 1))
        if (c->line[i] == key) {
            lru_unlink(c, i);
            lru_link(c, i);
            return false;
        }
    if (c->used == c->capacity) {
        lru_remove(c, c->prev[c->size]);
        for (i = lru_home(c, key); c->line[i]; i = (i + 1) & (c->size - 1)) {}
    }
    c->line[i] = key;
    c->used++;
    lru_link(c, i);
    return true;
}

/* ---- classes ---- */

static const char *const class_names[SIM_N_CLASS] = {
#define SIM_CLASS(id, name) name,
#include "exec/count_class.def"
#undef SIM_CLASS
};
const char *sim_class_name(sim_class c) { return class_names[c]; }

static bool begins(const char *s, const char *with) { return !strncmp(s, with, strlen(with)); }

sim_class sim_class_of(const sim_inst *i) {
    const char *m = i->meaning;
    switch (i->format) {
    case SIM_SOPP:
    case SIM_SOP1:
    case SIM_SOP2:
    case SIM_SOPC:
    case SIM_SOPK:
        if (strstr(m, "BRANCH") || strstr(m, "PC_B64") || strstr(m, "CALL")) return SIM_CLASS_BRANCH;
        if (begins(m, "S_BARRIER")) return SIM_CLASS_BARRIER;
        return i->format == SIM_SOPP ? SIM_CLASS_CONTROL : SIM_CLASS_SALU;
    case SIM_SMEM: return SIM_CLASS_SMEM;
    case SIM_DS: return SIM_CLASS_LDS;
    case SIM_SCRATCH: return SIM_CLASS_SCRATCH;
    case SIM_FLAT:
    case SIM_GLOBAL:
    case SIM_MUBUF:
    case SIM_MTBUF:
    case SIM_MIMG: return i->is_atomic ? SIM_CLASS_ATOMIC : i->is_store ? SIM_CLASS_STORE : SIM_CLASS_LOAD;
    case SIM_VOP3P:
    case SIM_VOP3PX2:
        if (strstr(m, "MFMA") || strstr(m, "WMMA") || strstr(m, "SMFMAC") || strstr(m, "SWMMAC")) return SIM_CLASS_MATRIX;
        if (strstr(m, "DOT")) return SIM_CLASS_DOT;
        return SIM_CLASS_PACKED;
    case SIM_VOPD: return SIM_CLASS_DUAL;
    default:
        if (begins(m, "V_RCP") || begins(m, "V_RSQ") || begins(m, "V_SQRT") || begins(m, "V_EXP") || begins(m, "V_LOG") ||
            begins(m, "V_SIN") || begins(m, "V_COS"))
            return SIM_CLASS_TRANS;
        if (strstr(m, "_F64")) return SIM_CLASS_F64;
        if (strstr(m, "DOT")) return SIM_CLASS_DOT;
        return SIM_CLASS_VALU;
    }
}

/* ---- the observer ---- */

typedef struct counter {
    sim_observer base; /* first */
    const sim_launch *l;
    uint64_t by_class[SIM_N_CLASS];
    lru l2, group_cache;
    const sim_group *group;        /* whose lines group_cache holds */
    uint64_t dram_read_lines, dram_write_lines, group_miss_lines, requested_bytes_read, requested_bytes_written;
    uint64_t lds_accesses, lds_conflict_cycles, bank_dwords;
    uint64_t flight_bytes, flight_loads; /* of the wave that is in its first stretch of loads */
    uint64_t max_flight_bytes, max_flight_loads;
    uint32_t *flight;              /* [waves of the group]: bytes outstanding; UINT32_MAX: its first wait has come */
    uint32_t *flight_n;
} counter;

static void touch(counter *c, uint64_t addr, uint32_t n_bytes, bool store) {
    for (uint64_t line = addr / LINE; line <= (addr + n_bytes - 1) / LINE; line++) {
        if (lru_miss(&c->group_cache, line)) c->group_miss_lines++;
        if (lru_miss(&c->l2, line)) {
            if (store) c->dram_write_lines++;
            else c->dram_read_lines++;
        }
    }
}

/* Cycles beyond the fewest: lanes are served 32 dwords at a time, one distinct dword a bank and cycle. */
static void lds_conflicts(counter *c, const sim_access *a) {
    uint32_t dwords = (a->n_bytes + 3) / 4, lanes_at_once = LDS_BANKS / dwords;
    if (!lanes_at_once) lanes_at_once = 1;
    for (unsigned first = 0; first < SIM_MAX_LANES; first += lanes_at_once) {
        uint64_t seen[LDS_BANKS][8]; /* distinct dwords of a bank; more than 8 are compared no further */
        uint32_t n[LDS_BANKS] = {0}, worst = 0;
        for (unsigned l = first; l < first + lanes_at_once && l < SIM_MAX_LANES; l++) {
            if (!(a->mask >> l & 1) || a->space[l] != SIM_ACCESS_LDS) continue;
            for (uint32_t d = 0; d < dwords; d++) {
                uint64_t dword = a->addr[l] / 4 + d;
                uint32_t bank = (uint32_t)(dword % LDS_BANKS), k = 0;
                while (k < n[bank] && k < 8 && seen[bank][k] != dword) k++;
                if (k < n[bank] && k < 8) continue;
                if (n[bank] < 8) seen[bank][n[bank]] = dword;
                if (++n[bank] > worst) worst = n[bank];
            }
        }
        if (worst > 1) c->lds_conflict_cycles += worst - 1;
    }
    c->lds_accesses++;
}

static bool count_before(sim_observer *o, sim_wave *w, const sim_uop *u) {
    counter *c = (counter *)(void *)o;
    uint32_t *flight = &c->flight[w->wave_id];
    if (*flight != UINT32_MAX) {
        sim_wait wait = sim_program_wait(w->program, u);
        if (wait.loads != SIM_NO_WAIT && c->flight_n[w->wave_id]) {
            if (*flight > c->max_flight_bytes) c->max_flight_bytes = *flight;
            if (c->flight_n[w->wave_id] > c->max_flight_loads) c->max_flight_loads = c->flight_n[w->wave_id];
            *flight = UINT32_MAX;
        }
    }
    if (sim_check_is_link(u)) return true; /* it bears the instruction before it, which has been counted */
    c->by_class[sim_class_of(u->inst)]++;
    sim_access a;
    if (!sim_access_of(w, u->inst, &a)) return true;
    bool lds = false;
    unsigned n_lanes = 0;
    for (unsigned l = 0; l < w->lanes; l++) {
        if (!(a.mask >> l & 1)) continue;
        if (a.space[l] == SIM_ACCESS_GLOBAL) {
            touch(c, a.addr[l], a.n_bytes, a.store && !a.load);
            n_lanes++;
        }
        lds |= a.space[l] == SIM_ACCESS_LDS;
    }
    if (n_lanes) {
        if (a.load) c->requested_bytes_read += (uint64_t)n_lanes * a.n_bytes;
        if (a.store) c->requested_bytes_written += (uint64_t)n_lanes * a.n_bytes;
        if (a.load && !a.scalar && *flight != UINT32_MAX) {
            *flight += n_lanes * a.n_bytes;
            c->flight_n[w->wave_id]++;
        }
    }
    if (lds) lds_conflicts(c, &a);
    return true;
}

static void count_group_enter(sim_observer *o, sim_group *g) {
    counter *c = (counter *)(void *)o;
    if (c->group == g) return;
    c->group = g;
    lru_clear(&c->group_cache);
}
static void count_group_start(sim_observer *o, sim_group *g) {
    counter *c = (counter *)(void *)o;
    c->group = NULL;
    for (uint32_t i = 0; i < g->n_waves; i++) c->flight[i] = c->flight_n[i] = 0;
}

static double over_floor(const counter *c, uint64_t floor) {
    return (double)((c->dram_read_lines + c->dram_write_lines) * LINE) / (double)floor;
}

static void print_floor(const counter *c, const sim_floor *f, och_strbuf *t) {
    if (!f->either) return;
    if (c->l->declared)
        och_strbuf_printf(t, "ochre:   floor %" PRIu64 " bytes  (declared: read %" PRIu64 "  written %" PRIu64
                          ")   DRAM bytes over it %.3f\n", f->either, f->read, f->written, over_floor(c, f->either));
    else
        och_strbuf_printf(t, "ochre:   arguments point into allocations of %" PRIu64 " bytes   DRAM bytes over that %.3f\n",
                          f->either, over_floor(c, f->either));
}

static void print_text(const counter *c, const sim_launch_state *s, och_strbuf *t, uint32_t groups_cu, uint32_t waves_simd) {
    const sim_launch *l = c->l;
    och_strbuf_printf(t, "ochre: simulated: %s on %s, %u x %u x %u workgroups of %u x %u x %u\n", l->kernel->name,
                      l->board->target, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2]);
    och_strbuf_puts(t, "ochre:   instructions");
    for (int k = 0; k < SIM_N_CLASS; k++)
        if (c->by_class[k]) och_strbuf_printf(t, "  %s %" PRIu64, class_names[k], c->by_class[k]);
    och_strbuf_printf(t, "\nochre:   DRAM bytes  read %" PRIu64 "  written %" PRIu64 "  (L2 of %" PRIu64
                      " bytes)   workgroup misses %" PRIu64 " bytes   requested  read %" PRIu64 "  written %" PRIu64 "\n",
                      c->dram_read_lines * LINE, c->dram_write_lines * LINE, l->board->l2_bytes, c->group_miss_lines * LINE,
                      c->requested_bytes_read, c->requested_bytes_written);
    sim_floor f;
    och_err ignored = {0};
    if (sim_floor_of(l->buffers, l->n_buffers, &f, &ignored) == OCH_OK) print_floor(c, &f, t);
    och_strbuf_printf(t, "ochre:   LDS accesses %" PRIu64 "  conflict cycles %" PRIu64 "   registers %u  accumulation %u  LDS %u"
                      "  scratch a lane %u\n", c->lds_accesses, c->lds_conflict_cycles, l->kernel->n_vgprs, l->kernel->n_agprs,
                      s->lds_bytes, s->scratch_lane_bytes);
    och_strbuf_printf(t, "ochre:   occupancy  %u waves a SIMD  %u workgroups a multiprocessor   in flight before the first wait  "
                      "%" PRIu64 " loads  %" PRIu64 " bytes a wave  %" PRIu64 " bytes a multiprocessor\n",
                      waves_simd, groups_cu, c->max_flight_loads, c->max_flight_bytes,
                      c->max_flight_bytes * groups_cu * s->waves_group);
}

static void print_json(const counter *c, const sim_launch_state *s, och_strbuf *t, uint32_t groups_cu, uint32_t waves_simd) {
    const sim_launch *l = c->l;
    och_strbuf_puts(t, "{\"evidence\": \"simulated\", \"kernel\": ");
    och_strbuf_json(t, l->kernel->name, strlen(l->kernel->name));
    och_strbuf_printf(t, ", \"target\": \"%s\", \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], \"instructions\": {",
                      l->board->target, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2]);
    for (int k = 0; k < SIM_N_CLASS; k++)
        och_strbuf_printf(t, "%s\"%s\": %" PRIu64, k ? ", " : "", class_names[k], c->by_class[k]);
    och_strbuf_printf(t, "}, \"dram_bytes_read\": %" PRIu64 ", \"dram_bytes_written\": %" PRIu64
                      ", \"l2_bytes\": %" PRIu64 ", \"workgroup_miss_bytes\": %" PRIu64 ", \"requested_bytes_read\": %" PRIu64
                      ", \"requested_bytes_written\": %" PRIu64,
                      c->dram_read_lines * LINE, c->dram_write_lines * LINE, l->board->l2_bytes, c->group_miss_lines * LINE,
                      c->requested_bytes_read, c->requested_bytes_written);
    sim_floor f;
    och_err ignored = {0};
    if (sim_floor_of(l->buffers, l->n_buffers, &f, &ignored) == OCH_OK && f.either) {
        if (l->declared)
            och_strbuf_printf(t, ", \"floor_bytes\": %" PRIu64 ", \"floor_bytes_read\": %" PRIu64
                              ", \"floor_bytes_written\": %" PRIu64 ", \"dram_over_floor\": %.4f", f.either, f.read,
                              f.written, over_floor(c, f.either));
        else
            och_strbuf_printf(t, ", \"argument_bytes\": %" PRIu64 ", \"dram_over_arguments\": %.4f", f.either,
                              over_floor(c, f.either));
    }
    och_strbuf_printf(t, ", \"lds_accesses\": %" PRIu64 ", \"lds_conflict_cycles\": %" PRIu64
                      ", \"vgprs\": %u, \"agprs\": %u, \"lds_bytes\": %u, \"scratch_lane_bytes\": %u, \"waves_simd\": %u"
                      ", \"groups_multiprocessor\": %u, \"loads_in_flight_wave\": %" PRIu64 ", \"bytes_in_flight_wave\": %" PRIu64
                      ", \"bytes_in_flight_multiprocessor\": %" PRIu64 "}\n",
                      c->lds_accesses, c->lds_conflict_cycles, l->kernel->n_vgprs, l->kernel->n_agprs, s->lds_bytes,
                      s->scratch_lane_bytes, waves_simd, groups_cu, c->max_flight_loads, c->max_flight_bytes,
                      c->max_flight_bytes * groups_cu * s->waves_group);
}

static void destroy(counter *c) {
    lru_destroy(&c->l2);
    lru_destroy(&c->group_cache);
    och_free(c->flight);
    och_free(c->flight_n);
    och_free(c);
}

static void count_end(sim_observer *o, const sim_launch_state *s) {
    counter *c = (counter *)(void *)o;
    if (s) {
        const char *how = och_env_get(OCH_ENV_OCHRE_SIM_COUNT);
        uint32_t threads = c->l->block[0] * c->l->block[1] * c->l->block[2];
        uint32_t groups = sim_occupancy_groups(c->l->board, c->l->kernel, threads, c->l->dynamic_lds_bytes);
        uint32_t waves = sim_occupancy_waves(c->l->board, c->l->kernel, threads, c->l->dynamic_lds_bytes);
        och_strbuf t = {0};
        bool text = !how || !strcmp(how, "1") || !strcmp(how, "text");
        if (text) print_text(c, s, &t, groups, waves);
        else print_json(c, s, &t, groups, waves);
        FILE *f = text || !strcmp(how, "json") ? stderr : fopen(how, "a");
        if (!f) fprintf(stderr, "ochre: OCHRE_SIM_COUNT: cannot open %s\n", how);
        else if (fputs(och_strbuf_str(&t), f) < 0 || (f != stderr && fclose(f)))
            fprintf(stderr, "ochre: OCHRE_SIM_COUNT: cannot write %s\n", how);
        och_strbuf_deinit(&t);
    }
    destroy(c);
}

och_status sim_count_judge(const char *how, och_err *err) {
    static const char *const words[] = {"0", "1", "text", "json"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!how || !strcmp(how, words[i])) return OCH_OK;
    if (!strpbrk(how, "/."))
        return och_err_set(err, OCH_INVALID, "OCHRE_SIM_COUNT: \"%s\" is neither text nor json; a file is known by a slash or a dot "
                           "in its name", how);
    FILE *f = fopen(how, "a");
    if (!f || fclose(f)) return och_err_set(err, OCH_IO, "OCHRE_SIM_COUNT: cannot write %s: %s", how, strerror(errno));
    return OCH_OK;
}

och_status sim_count_create(const sim_launch *l, sim_observer **out, och_err *err) {
    *out = NULL;
    counter *c = och_calloc(1, sizeof *c);
    if (!c) return och_err_nomem(err, sizeof *c, "counters");
    c->base = (sim_observer){.group_start = count_group_start, .group_enter = count_group_enter, .before = count_before,
                             .end = count_end};
    c->l = l;
    c->flight = och_calloc(64, sizeof *c->flight);
    c->flight_n = och_calloc(64, sizeof *c->flight_n);
    bool made = lru_create(&c->l2, l->board->l2_bytes ? l->board->l2_bytes : 4 << 20);
    made = lru_create(&c->group_cache, GROUP_CACHE_BYTES) && made;
    if (!made || !c->flight || !c->flight_n) {
        destroy(c);
        return och_err_nomem(err, l->board->l2_bytes, "counters");
    }
    *out = &c->base;
    return OCH_OK;
}
