/* OCHRE_SIM_CHECK=race: two waves touch the same byte of LDS or of global memory, one of them writes, not both atomically,
 * and nothing orders them.
 *
 * Waves carry vector clocks. `known` is what has happened before; `shown` the part of it that the device can see, since a
 * store that no release of device scope has covered is known to the workgroup alone. Barriers join both. An atomic, or what
 * looks like an atomic store, leaves `shown` at its address (and `known` for its own workgroup); who reads it atomically
 * has `seen` that, and knows it after an acquire: the invalidation of the caches in between. What each target's release and
 * acquire are, check_order.h says. In LDS, whose operations are in order, every atomic is both, and so is a load that
 * a small loop repeats at one address. Unoptimised code hides that in reloads of everything: there a load of a loop is taken
 * for one that waits until the wave shows that it is not (find_maybes).
 *
 * An atomic that the target lacks, or that the program makes itself, is a plain load and a compare-and-swap at its address. A
 * plain load that meets only atomic writes unordered is therefore a suspect for a while: the wave's compare-and-swap there
 * makes it a part of the atomic; a barrier, the wave's end or SUSPECT_STEPS instructions without one make it a race.
 *
 * Memory remembers for each eight bytes the last two writers and two readers, so that some races go unseen; none is
 * invented by it. */
#include "base/alloc.h"
#include "exec/access.h"
#include "exec/check_clock.h"
#include "exec/check_order.h"
#include "exec/observers.h"
#include "exec/program.h"
#include "exec/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WRITERS 2
#define READERS 2
/* Cells remembered; past it all is forgotten and begins anew. */
#define CELLS_MAX (1u << 22)
/* Addresses with a clock; past it global memory is no longer judged. */
#define MARKS_MAX (1u << 20)
#define POLL_UOPS 16
#define MAYBE_UOPS 512
#define REPEATS 4
#define PENDING 16
#define SUSPECTS 256
#define SUSPECT_STEPS 4096

enum { WRITE = 1, ATOMIC = 2 };

typedef struct touch {
    uint32_t wave; /* number in the launch + 1; 0: none */
    uint32_t time;
    uint32_t uop;
    uint8_t mask, kind, lane;
} touch;

typedef struct cell {
    uint64_t key; /* address / 8 + 1 */
    touch w[WRITERS], r[READERS];
} cell;

typedef struct mark { /* what an atomic write left at its address */
    uint64_t key;       /* address + 1 */
    sim_clock *shown;
    sim_clock *known;   /* for the group that wrote last */
    uint64_t group;
} mark;

typedef struct suspect { /* a plain load beside another wave's atomic write */
    uint64_t cell;      /* address / 8 */
    uint64_t addr;
    uint32_t uop, n_bytes, step;
    touch other;
    uint8_t mask, lane;
    bool lds;
} suspect;

typedef struct wave_clock {
    sim_clock *known, *shown, *seen;
    uint32_t now;
    bool touched;      /* something was recorded at `now` */
    bool stored;       /* a store that was not waited for */
    bool waits;        /* at a barrier, until its next instruction */
    const sim_uop *prev;
    uint32_t n_steps;  /* stores outside scratch and barriers so far */
    struct repeat { uint32_t uop, addr, n_steps; } repeats[REPEATS]; /* its latest loads that may be polls; uop + 1 */
    uint64_t pending[PENDING]; /* keys of marks that it has read */
    unsigned n_pending;
    suspect *suspects; /* [SUSPECTS]; NULL until needed */
    uint32_t n_suspects, step;
} wave_clock;

typedef struct meeting { /* what waves bring to a barrier */
    uint32_t phase;
    sim_clock *known, *shown, *seen;
} meeting;

typedef struct group_clock {
    struct group_clock *next;
    const sim_group *group;
    uint32_t n_waves, lds_bytes;
    wave_clock *waves;
    meeting at[2];
    cell *lds;              /* [lds_bytes / 8 + 1] */
    sim_clock **lds_marks;  /* [lds_bytes / 4 + 1]; NULL until needed */
} group_clock;

typedef struct race {
    sim_observer base; /* first */
    const sim_launch *l;
    uint32_t waves_group;
    sim_release release;
    bool marks_stores, lost, silent; /* lost: out of memory, nothing more is judged; silent: nor is global memory */
    group_clock *groups, *now;
    bool *polls;            /* [uops]: loads that a small loop repeats at one address */
    bool *maybes;           /* [uops]: loads of unoptimised loops that have not shown to be none */
    cell *cells;
    uint32_t cells_capacity, cells_used;
    mark *marks;
    uint32_t marks_capacity, marks_used;
    sim_access access;
    char text[512];
} race;

static uint32_t wave_number(const race *o, const sim_wave *w) {
    return (uint32_t)(w->group->flat_id * o->waves_group + w->wave_id) + 1;
}

/* ---- tables ---- */

static uint32_t hash(uint64_t key, uint32_t capacity) { return (uint32_t)(key * 0x9e3779b97f4a7c15ull >> 32) & (capacity - 1); }

#define TABLE(type, name, field)                                                                                       \
    static bool name##_grow(race *o) {                                                                                 \
        uint32_t n = o->field##_capacity, more = n ? n * 2 : 1024;                                                     \
        type *t = och_calloc(more, sizeof *t);                                                                         \
        if (!t) return false;                                                                                          \
        for (uint32_t i = 0; i < n; i++) {                                                                             \
            if (!o->field[i].key) continue;                                                                            \
            uint32_t at = hash(o->field[i].key, more);                                                                 \
            while (t[at].key) at = (at + 1) & (more - 1);                                                              \
            t[at] = o->field[i];                                                                                       \
        }                                                                                                              \
        och_free(o->field);                                                                                            \
        o->field = t;                                                                                                  \
        o->field##_capacity = more;                                                                                    \
        return true;                                                                                                   \
    }                                                                                                                  \
    static type *name##_find(race *o, uint64_t key, bool make) {                                                       \
        if (o->field##_capacity)                                                                                       \
            for (uint32_t i = hash(key, o->field##_capacity); o->field[i].key; i = (i + 1) & (o->field##_capacity - 1)) \
                if (o->field[i].key == key) return &o->field[i];                                                       \
        if (!make) return NULL;                                                                                        \
        if (o->field##_used * 2 >= o->field##_capacity && !name##_grow(o)) return NULL;                                \
        uint32_t i = hash(key, o->field##_capacity);                                                                   \
        while (o->field[i].key) i = (i + 1) & (o->field##_capacity - 1);                                               \
        o->field##_used++;                                                                                             \
        memset(&o->field[i], 0, sizeof o->field[i]);                                                                   \
        o->field[i].key = key;                                                                                         \
        return &o->field[i];                                                                                           \
    }
TABLE(cell, cell, cells)
TABLE(mark, mark, marks)

/* ---- clocks ---- */

static void lose(race *o, bool good) {
    if (!good) o->lost = true;
}

/* The time that stands for all that this wave has done so far. */
static uint32_t done_time(wave_clock *v) {
    if (v->touched) {
        v->touched = false;
        v->now++;
    }
    return v->now - 1;
}

/* Release: what the device can see of this wave's knowledge. */
static void show(race *o, const sim_wave *w, wave_clock *v) {
    lose(o, sim_clock_join_wave(&v->shown, wave_number(o, w), done_time(v)));
    if (o->release != SIM_RELEASE_STORES) lose(o, sim_clock_join(&v->shown, v->known));
}
static void show_if_waited(race *o, const sim_wave *w, wave_clock *v) {
    if (o->release != SIM_RELEASE_BACK && !v->stored) show(o, w, v);
}

static void see_pending(race *o, wave_clock *v) {
    for (unsigned i = 0; i < v->n_pending; i++) {
        const mark *m = mark_find(o, v->pending[i], false);
        if (m) lose(o, sim_clock_join(&v->seen, m->shown));
    }
    v->n_pending = 0;
}

static void acquire(race *o, wave_clock *v) {
    see_pending(o, v);
    lose(o, sim_clock_join(&v->known, v->seen));
    lose(o, sim_clock_join(&v->shown, v->seen));
}

static void bring(race *o, const sim_wave *w, wave_clock *v, group_clock *g) {
    uint32_t phase = w->group->phase + 1;
    meeting *m = &g->at[phase & 1];
    if (m->phase != phase) {
        sim_clock_drop(m->known);
        sim_clock_drop(m->shown);
        sim_clock_drop(m->seen);
        *m = (meeting){.phase = phase};
    }
    show_if_waited(o, w, v);
    see_pending(o, v);
    lose(o, sim_clock_join(&m->known, v->known));
    lose(o, sim_clock_join_wave(&m->known, wave_number(o, w), done_time(v)));
    lose(o, sim_clock_join(&m->shown, v->shown));
    lose(o, sim_clock_join(&m->seen, v->seen));
}

static void meet(race *o, const sim_wave *w, wave_clock *v, group_clock *g) {
    const meeting *m = &g->at[w->barrier_target & 1];
    if (m->phase != w->barrier_target) return;
    lose(o, sim_clock_join(&v->known, m->known));
    lose(o, sim_clock_join(&v->shown, m->shown));
    lose(o, sim_clock_join(&v->seen, m->seen));
}

/* An atomic access of global memory. */
static void mark_global(race *o, const sim_wave *w, wave_clock *v, uint64_t addr, bool reads, bool writes) {
    if (writes) show_if_waited(o, w, v);
    mark *m = mark_find(o, addr + 1, writes);
    if (!m) {
        lose(o, !writes);
        return;
    }
    if (reads) {
        if (m->known && m->group == w->group->flat_id) lose(o, sim_clock_join(&v->known, m->known));
        bool there = false;
        for (unsigned i = 0; i < v->n_pending; i++) there |= v->pending[i] == addr + 1;
        if (!there && v->n_pending == PENDING) see_pending(o, v);
        if (!there) v->pending[v->n_pending++] = addr + 1;
    }
    if (!writes) return;
    lose(o, sim_clock_join(&m->shown, v->shown));
    if (m->group != w->group->flat_id || !m->known) {
        sim_clock_drop(m->known);
        m->known = NULL;
        m->group = w->group->flat_id;
    }
    lose(o, sim_clock_join(&m->known, v->known));
    lose(o, sim_clock_join_wave(&m->known, wave_number(o, w), done_time(v)));
    if (o->marks_used > MARKS_MAX) o->silent = true;
}

static void mark_lds(race *o, const sim_wave *w, wave_clock *v, uint32_t addr) {
    group_clock *g = o->now;
    if (addr >= w->group->lds_bytes) return;
    if (!g->lds_marks) g->lds_marks = och_calloc(w->group->lds_bytes / 4 + 1, sizeof *g->lds_marks);
    if (!g->lds_marks) {
        o->lost = true;
        return;
    }
    sim_clock **m = &g->lds_marks[addr / 4];
    lose(o, sim_clock_join(&v->known, *m));
    lose(o, sim_clock_join(m, v->known));
    lose(o, sim_clock_join_wave(m, wave_number(o, w), done_time(v)));
}

/* ---- judging ---- */

typedef struct accused { /* the access that is accused; the other one is a touch */
    const sim_uop *u;
    uint64_t addr;
    uint32_t n_bytes;
    unsigned lane;
    bool store, lds;
} accused;

static bool accuse(race *o, sim_wave *w, const accused *a, const touch *t) {
    uint64_t group = (t->wave - 1) / o->waves_group;
    const sim_launch *l = o->l;
    const sim_uop *other = sim_program_uop(w->program, t->uop);
    char text[128];
    sim_inst_print(other->inst, w->lanes, text, sizeof text);
    snprintf(o->text, sizeof o->text,
             "in %s, not ordered with the %s%s by \"%s\" (code offset 0x%x) of workgroup (%" PRIu64 ", %" PRIu64 ", %" PRIu64
             "), wave %u: %s",
             a->lds ? "LDS" : "global memory", t->kind & ATOMIC ? "atomic " : "", t->kind & WRITE ? "write" : "read", text, other->inst->offset, group % l->grid[0],
             group / l->grid[0] % l->grid[1], group / l->grid[0] / l->grid[1], (t->wave - 1) % o->waves_group,
             group == w->group->flat_id ? "no barrier between them"
                                        : "no release and acquire of device scope between them");
    sim_wave_fault(w, a->u, SIM_FAULT_RACE, (int)a->lane, a->addr, a->n_bytes, a->store, o->text);
    return false;
}

static bool before_now(const wave_clock *v, const touch *t) { return sim_clock_time(v->known, t->wave) >= t->time; }

/* May these two meet unordered? Where atomic stores look like plain ones, a plain store beside an atomic access may be one. */
static bool fine(const touch *a, uint8_t kind, bool marks_stores) {
    if (!((a->kind | kind) & WRITE)) return true;
    if (a->kind & kind & ATOMIC) return true;
    if (marks_stores || !((a->kind ^ kind) & ATOMIC)) return false;
    return (a->kind & ATOMIC ? kind : a->kind) & WRITE;
}

static void record(touch *list, unsigned n, const wave_clock *v, const touch *t) {
    unsigned at = n;
    for (unsigned i = 0; i < n; i++)
        if (list[i].wave == t->wave && list[i].kind == t->kind) at = i;
    if (at < n) {
        uint8_t more = list[at].time == t->time ? list[at].mask : 0;
        list[at] = *t;
        list[at].mask |= more;
        return;
    }
    for (unsigned i = 0; i < n && at == n; i++)
        if (!list[i].wave || (before_now(v, &list[i]) && !(list[i].mask & ~t->mask))) at = i;
    if (at == n) {
        memmove(&list[1], &list[0], (n - 1) * sizeof *list);
        at = 0;
    }
    list[at] = *t;
}

/* A suspect of this wave; out of memory, or too many: it goes free. */
static void suspect_add(wave_clock *v, const suspect *s) {
    if (!v->suspects) v->suspects = och_calloc(SUSPECTS, sizeof *v->suspects);
    if (!v->suspects || v->n_suspects == SUSPECTS) return;
    for (uint32_t i = 0; i < v->n_suspects; i++)
        if (v->suspects[i].cell == s->cell && v->suspects[i].lds == s->lds && v->suspects[i].uop == s->uop) return;
    v->suspects[v->n_suspects] = *s;
    v->suspects[v->n_suspects++].step = v->step;
}

/* The wave's compare-and-swap: its plain loads of these bytes were part of it. */
static void suspect_clear(wave_clock *v, cell *c, uint64_t at, const touch *t, bool lds) {
    for (unsigned i = 0; i < READERS; i++)
        if (c->r[i].wave == t->wave && !(c->r[i].mask &= (uint8_t)~t->mask)) c->r[i].wave = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n_suspects; i++) {
        suspect s = v->suspects[i];
        if (s.cell == at && s.lds == lds) s.mask &= (uint8_t)~t->mask;
        if (s.mask) v->suspects[n++] = s;
    }
    v->n_suspects = n;
}

/* `all`: the wave does what no compare-and-swap does. False: one of its suspects is guilty. */
static bool suspect_judge(race *o, sim_wave *w, wave_clock *v, bool all) {
    for (uint32_t i = 0; i < v->n_suspects; i++) {
        const suspect *s = &v->suspects[i];
        if (!all && v->step - s->step <= SUSPECT_STEPS) continue;
        const accused a = {sim_program_uop(w->program, s->uop), s->addr, s->n_bytes, s->lane, false, s->lds};
        return accuse(o, w, &a, &s->other);
    }
    return true;
}

/* The wave that made this touch, while it may still go on to a compare-and-swap; NULL: it has passed a point after which not. */
static wave_clock *wave_of(race *o, const touch *t) {
    uint64_t group = (t->wave - 1) / o->waves_group;
    uint32_t i = (t->wave - 1) % o->waves_group;
    for (group_clock *c = o->groups; c; c = c->next)
        if (c->group->flat_id == group)
            return c->group->waves[i].state == SIM_WAVE_DONE || c->waves[i].waits ? NULL : &c->waves[i];
    return NULL;
}

/* An unordered pair of which one is a plain read and the other an atomic write. False: to be accused now. */
static bool suspected(race *o, const sim_uop *u, wave_clock *v, const touch *x, const touch *t, unsigned lane, uint64_t addr,
                      bool lds) {
    if ((x->kind ^ t->kind) != (WRITE | ATOMIC) || (x->kind && t->kind)) return false;
    suspect s = {.cell = addr / 8, .addr = addr, .uop = u->index, .n_bytes = o->access.n_bytes, .other = *x, .mask = t->mask,
                 .lane = (uint8_t)lane, .lds = lds};
    if (t->kind) { /* the other one is the reader */
        if (!(v = wave_of(o, x))) return false;
        s.uop = x->uop;
        s.other = *t;
        s.mask = x->mask & t->mask;
        s.lane = x->lane;
        s.addr = addr / 8 * 8 + (unsigned)__builtin_ctz(s.mask);
        s.n_bytes = (uint32_t)__builtin_popcount(s.mask);
    }
    suspect_add(v, &s);
    return true;
}

static bool judge(race *o, sim_wave *w, const sim_uop *u, wave_clock *v, cell *c, unsigned lane, uint64_t addr, touch *t,
                  bool lds) {
    if (t->kind == (WRITE | ATOMIC) && strstr(u->inst->meaning, "CMP")) suspect_clear(v, c, addr / 8, t, lds);
    for (unsigned i = 0; i < WRITERS + READERS; i++) {
        touch *x = i < WRITERS ? &c->w[i] : &c->r[i - WRITERS];
        if (!x->wave || x->wave == t->wave || !(x->mask & t->mask)) continue;
        if (fine(x, t->kind, !lds && o->marks_stores)) {
            /* A repeated load of LDS sees the flag that another wave's plain store has set. */
            if (lds && (t->kind & ATOMIC) && x->kind == WRITE && !before_now(v, x)) {
                const wave_clock *other = &o->now->waves[(x->wave - 1) % o->waves_group];
                lose(o, sim_clock_join(&v->known, other->known));
                lose(o, sim_clock_join_wave(&v->known, x->wave, x->time));
            }
            continue;
        }
        if (!before_now(v, x)) {
            if (suspected(o, u, v, x, t, lane, addr, lds)) continue;
            const accused a = {u, addr, o->access.n_bytes, lane, t->kind & WRITE, lds};
            return accuse(o, w, &a, x);
        }
        if (t->kind & WRITE && !(x->mask & ~t->mask)) x->wave = 0; /* whoever is ordered with this one is with that one */
    }
    if (t->kind & WRITE) record(c->w, WRITERS, v, t);
    else record(c->r, READERS, v, t);
    v->touched = true;
    return true;
}

static bool one(race *o, sim_wave *w, const sim_uop *u, wave_clock *v, unsigned lane, uint64_t addr, uint8_t kind, bool lds) {
    for (uint64_t at = addr, end = addr + o->access.n_bytes; at < end; at = (at / 8 + 1) * 8) {
        uint64_t first = at / 8 * 8;
        unsigned mask = (end - first >= 8 ? 0xffu : (1u << (end - first)) - 1) & (0xffu << (at - first));
        cell *c;
        if (lds) {
            if (end > w->group->lds_bytes) return true; /* a fault of its own */
            c = o->now->lds ? &o->now->lds[at / 8] : NULL;
        } else {
            if (o->cells_used > CELLS_MAX) {
                memset(o->cells, 0, o->cells_capacity * sizeof *o->cells);
                o->cells_used = 0;
            }
            c = cell_find(o, at / 8 + 1, true);
        }
        if (!c) {
            o->lost = true;
            return true;
        }
        touch t = {.wave = wave_number(o, w), .time = v->now, .uop = u->index, .mask = (uint8_t)mask, .kind = kind,
                   .lane = (uint8_t)lane};
        if (!judge(o, w, u, v, c, lane, at > addr ? at : addr, &t, lds)) return false;
    }
    return true;
}

/* A load that may be a poll: is it still, at this address? All its lanes must read one word of LDS, the same every time, and
 * the wave do nothing between that others could see. */
static bool still_maybe(race *o, wave_clock *v, const sim_uop *u) {
    const sim_access *a = &o->access;
    unsigned first = (unsigned)__builtin_ctzll(a->mask);
    bool uniform = !a->second && a->n_bytes <= 8;
    for (unsigned l = first; uniform && l < SIM_MAX_LANES; l++)
        if (a->mask >> l & 1) uniform = a->space[l] == SIM_ACCESS_LDS && a->addr[l] == a->addr[first];
    if (!uniform) return a->space[first] != SIM_ACCESS_LDS; /* what loads scratch or global memory says nothing yet */
    for (unsigned i = 0; i < REPEATS; i++)
        if (v->repeats[i].uop == u->index + 1)
            return v->repeats[i].addr == (uint32_t)a->addr[first] && v->repeats[i].n_steps == v->n_steps;
    memmove(&v->repeats[1], &v->repeats[0], sizeof v->repeats - sizeof v->repeats[0]);
    v->repeats[0] = (struct repeat){u->index + 1, (uint32_t)a->addr[first], v->n_steps};
    return true;
}

static bool before(sim_observer *ob, sim_wave *w, const sim_uop *u) {
    race *o = (race *)(void *)ob;
    group_clock *g = o->now;
    if (!g || o->lost || sim_check_is_link(u)) return true;
    wave_clock *v = &g->waves[w->wave_id];
    const sim_inst *inst = u->inst;
    sim_wait passed = sim_check_passed(w, v->prev, u);
    v->prev = u;
    v->step++;
    if (v->n_suspects && !suspect_judge(o, w, v, inst->format <= SIM_SOPP && (!strncmp(inst->meaning, "S_BARRIER", 9) ||
                                                                             !strncmp(inst->meaning, "S_ENDPGM", 8))))
        return false;
    if (v->waits) {
        v->waits = false;
        meet(o, w, v, g);
    }
    if (passed.stores == 0) v->stored = false;
    if (passed.wb != SIM_NO_WAIT && passed.wb >= SIM_SCOPE_DEVICE && o->release == SIM_RELEASE_BACK) show(o, w, v);
    else if (passed.stores == 0) show_if_waited(o, w, v);
    if (passed.inv != SIM_NO_WAIT && passed.inv >= SIM_SCOPE_DEVICE) acquire(o, v);
    if (inst->format <= SIM_SOPP) {
        const char *m = inst->meaning;
        if (!strncmp(m, "S_BARRIER", 9)) {
            v->n_steps++;
            if (m[9] == 0 || !strncmp(m, "S_BARRIER_SIGNAL", 16)) bring(o, w, v, g);
            if (m[9] == 0 || !strcmp(m, "S_BARRIER_WAIT")) v->waits = true;
        }
        return true;
    }
    sim_access *a = &o->access;
    if (!sim_access_of(w, inst, a) || !a->mask) return true;
    if (o->maybes[u->index]) o->maybes[u->index] = still_maybe(o, v, u);
    const bool maybe = o->maybes[u->index] && a->space[__builtin_ctzll(a->mask)] == SIM_ACCESS_LDS;
    const bool poll = a->load && (o->polls[u->index] || maybe);
    const bool atomic = a->atomic || poll || (!a->scalar && sim_access_coherent(inst));
    const bool reads = a->load && (!a->atomic || inst->dst.kind != SIM_K_NONE), writes = a->store;
    /* One lane's store, or one right after a release: if stores are not told apart it may be a flag. */
    const bool flag = writes && !atomic && !o->marks_stores && (!(a->mask & (a->mask - 1)) || passed.stores == 0);
    bool global = false, stepped = false;
    const uint8_t access = writes ? WRITE : 0, kind = (uint8_t)(access | (atomic ? ATOMIC : 0));
    /* Cache policy, which a flat access of LDS may carry, means nothing there. */
    const uint8_t lds_kind = (uint8_t)(access | (a->atomic || poll ? ATOMIC : 0));
    for (unsigned l = 0; l < SIM_MAX_LANES; l++) {
        if (!(a->mask >> l & 1) || a->space[l] == SIM_ACCESS_SCRATCH) continue;
        if (writes) stepped = true;
        if (a->space[l] == SIM_ACCESS_LDS) {
            if (a->atomic || poll) mark_lds(o, w, v, (uint32_t)a->addr[l]);
            if (!one(o, w, u, v, l, a->addr[l], lds_kind, true)) return false;
            if (a->second && !one(o, w, u, v, l, (uint32_t)(a->addr[l] + a->second), lds_kind, true)) return false;
        } else if (!o->silent) {
            global = true;
            if (atomic || flag) mark_global(o, w, v, a->addr[l], reads, writes);
            if (!one(o, w, u, v, l, a->addr[l], kind, false)) return false;
        }
    }
    if (global && writes && !a->atomic) v->stored = true;
    v->n_steps += stepped;
    return true;
}

/* ---- groups ---- */

static void group_start(sim_observer *ob, sim_group *g) {
    race *o = (race *)(void *)ob;
    group_clock *c = och_calloc(1, sizeof *c);
    if (c) c->waves = och_calloc(g->n_waves, sizeof *c->waves);
    if (c && g->lds_bytes) c->lds = och_calloc(g->lds_bytes / 8 + 1, sizeof *c->lds);
    if (!c || !c->waves || (g->lds_bytes && !c->lds)) {
        if (c) och_free(c->waves);
        och_free(c);
        o->lost = true;
        return;
    }
    for (uint32_t i = 0; i < g->n_waves; i++) c->waves[i].now = 1;
    c->group = g;
    c->n_waves = g->n_waves;
    c->lds_bytes = g->lds_bytes;
    c->next = o->groups;
    o->groups = c;
}

static void group_enter(sim_observer *ob, sim_group *g) {
    race *o = (race *)(void *)ob;
    o->now = NULL;
    for (group_clock *c = o->groups; c && !o->now; c = c->next)
        if (c->group == g) o->now = c;
}

static void drop(race *o, group_clock *c) {
    for (group_clock **p = &o->groups; *p; p = &(*p)->next)
        if (*p == c) {
            *p = c->next;
            break;
        }
    if (o->now == c) o->now = NULL;
    for (uint32_t i = 0; i < c->n_waves; i++) {
        sim_clock_drop(c->waves[i].known);
        sim_clock_drop(c->waves[i].shown);
        sim_clock_drop(c->waves[i].seen);
        och_free(c->waves[i].suspects);
    }
    for (int i = 0; i < 2; i++) {
        sim_clock_drop(c->at[i].known);
        sim_clock_drop(c->at[i].shown);
        sim_clock_drop(c->at[i].seen);
    }
    for (uint32_t i = 0; c->lds_marks && i < c->lds_bytes / 4 + 1; i++) sim_clock_drop(c->lds_marks[i]);
    och_free(c->lds_marks);
    och_free(c->lds);
    och_free(c->waves);
    och_free(c);
}

static void group_end(sim_observer *ob, sim_group *g) {
    race *o = (race *)(void *)ob;
    for (group_clock *c = o->groups; c; c = c->next)
        if (c->group == g) {
            drop(o, c);
            return;
        }
}

static void end(sim_observer *ob, const sim_launch_state *s) {
    race *o = (race *)(void *)ob;
    if (s && (o->lost || o->silent))
        fprintf(stderr, "ochre: OCHRE_SIM_CHECK: race: %s: %s\n", o->l->kernel->name,
                o->lost ? "out of memory: not judged to its end" : "too many atomic addresses: global memory not judged to its end");
    while (o->groups) drop(o, o->groups);
    for (uint32_t i = 0; i < o->marks_capacity; i++) {
        sim_clock_drop(o->marks[i].shown);
        sim_clock_drop(o->marks[i].known);
    }
    och_free(o->marks);
    och_free(o->cells);
    och_free(o->polls);
    och_free(o->maybes);
    och_free(o);
}

static bool overlap(const sim_operand *a, const sim_operand *b) {
    if (a->kind != b->kind || (a->kind != SIM_K_VGPR && a->kind != SIM_K_SGPR)) return false;
    return a->reg < b->reg + (b->n_dwords ? b->n_dwords : 1) && b->reg < a->reg + (a->n_dwords ? a->n_dwords : 1);
}

/* Loads that a small loop repeats at an address which the loop does not change: one wave waits there for another. */
static void find_polls(race *o, const sim_program *p) {
    for (size_t i = 0; i < sim_program_n_uops(p); i++) {
        const sim_uop *u = sim_program_uop(p, i), *first = u->target;
        if (!first || sim_check_is_link(u) || first > u || u - first > POLL_UOPS) continue;
        const sim_uop *load = NULL;
        unsigned n_memory = 0;
        for (const sim_uop *t = first; t < u; t++)
            if (!sim_check_is_link(t) && (t->inst->format >= SIM_DS || t->inst->format == SIM_SMEM)) load = t, n_memory++;
        if (n_memory != 1 || load->inst->is_store || load->inst->is_atomic) continue;
        const sim_inst *l = load->inst;
        const sim_operand *from[] = {&l->addr, &l->saddr, &l->base, &l->soffset};
        bool moves = false;
        for (const sim_uop *t = first; t < u; t++)
            for (const sim_inst *x = sim_check_is_link(t) ? NULL : t->inst; x; x = x->dual)
                for (size_t k = 0; k < sizeof from / sizeof *from; k++) moves |= overlap(&x->dst, from[k]) || overlap(&x->sdst, from[k]);
        if (!moves) o->polls[load->index] = true;
    }
}

/* Loads of LDS, and of what may be LDS, in loops of code that keeps its variables in scratch: the loop's own condition goes
 * through memory there, and nothing but its repetition tells a load that waits for another wave. */
static void find_maybes(race *o, const sim_program *p) {
    for (size_t i = 0; i < sim_program_n_uops(p); i++) {
        const sim_uop *u = sim_program_uop(p, i), *first = u->target;
        if (!first || sim_check_is_link(u) || first > u || u - first > MAYBE_UOPS) continue;
        for (const sim_uop *t = first; t < u; t++)
            if (!sim_check_is_link(t) && (t->inst->format == SIM_DS || t->inst->format == SIM_FLAT) && !t->inst->is_store &&
                !t->inst->is_atomic)
                o->maybes[t->index] = true;
    }
}

och_status sim_check_race_create(const sim_launch *l, sim_observer **out, och_err *err) {
    *out = NULL;
    race *o = och_calloc(1, sizeof *o);
    size_t n = sim_program_n_uops(l->kernel->program);
    if (o) o->polls = och_calloc(n + 1, sizeof *o->polls);
    if (o) o->maybes = och_calloc(n + 1, sizeof *o->maybes);
    if (!o || !o->polls || !o->maybes) {
        if (o) och_free(o->polls);
        if (o) och_free(o->maybes);
        och_free(o);
        return och_err_nomem(err, n, "a check");
    }
    o->base = (sim_observer){.group_start = group_start, .group_enter = group_enter, .group_end = group_end, .before = before,
                             .end = end};
    o->l = l;
    o->waves_group = (l->block[0] * l->block[1] * l->block[2] + l->kernel->wave_size - 1) / l->kernel->wave_size;
    o->release = sim_check_release(l->kernel, l->isa);
    o->marks_stores = sim_check_marks_stores(l->isa);
    find_polls(o, l->kernel->program);
    if (l->kernel->scratch_bytes || l->kernel->dynamic_stack) find_maybes(o, l->kernel->program);
    *out = &o->base;
    return OCH_OK;
}
