/* OCHRE_SIM_CHECK=weak: a workgroup's plain stores to global memory stay its own until it releases them. A kernel that
 * forgets a fence then computes a wrong result, as it may on a board; this check accuses nobody.
 *
 * A watched launch runs on one host thread. What a group has stored and not released is kept beside memory: when the thread
 * leaves the group the old bytes are put back, when it enters the new ones. Stores become everybody's at a release of device
 * scope (check_order.h), before an atomic of the same address, at the group's end, and at last with age, since no machine
 * hides a store for ever. Where atomic stores look like plain ones the group's last store counts as one: a flag overtakes
 * the data, which is what a missing release allows. After an atomic, or a store that may be a flag, the group gives way while
 * it hides something. */
#include "base/alloc.h"
#include "exec/access.h"
#include "exec/check_order.h"
#include "exec/observers.h"
#include "exec/state.h"

#include <string.h>

/* Turns of its group that a store stays hidden. */
#define AGE_MAX 32
/* Times that a group gives way after a store that may be a flag. */
#define FLAGS_MAX 16
/* Eight-byte cells that a group may hide. */
#define CELLS_MAX (1u << 20)

typedef struct cell {
    uint64_t key; /* address / 8 + 1; 0: free */
    uint8_t old[8], now[8];
    uint8_t mask; /* bytes hidden */
    uint8_t age;
    uint16_t wave;
    uint32_t seq;
} cell;

typedef struct hidden {
    struct hidden *next;
    const sim_group *group;
    cell *cells;
    uint32_t capacity, used; /* capacity: a power of two */
    uint32_t seq;            /* of the group's last write, 1, 2, ... */
    uint32_t n_flags;
    bool last_plain, fresh;  /* fresh: something was hidden since the group gave way */
    bool flag;               /* the store that runs may be a flag: one lane's, with others hidden before it */
    const sim_uop **prev;    /* [waves] */
} hidden;

typedef struct weak {
    sim_observer base; /* first */
    const sim_launch *l;
    sim_release release;
    bool marks_stores, no_memory;
    hidden *groups, *now;
    sim_access access; /* of the store that runs */
    bool storing;
} weak;

static uint32_t home(const hidden *h, uint64_t key) { return (uint32_t)(key * 0x9e3779b97f4a7c15ull >> 32) & (h->capacity - 1); }

static cell *find(hidden *h, uint64_t key) {
    if (!h->capacity) return NULL;
    for (uint32_t i = home(h, key); h->cells[i].key; i = (i + 1) & (h->capacity - 1))
        if (h->cells[i].key == key) return &h->cells[i];
    return NULL;
}

static bool rebuild(hidden *h, uint32_t capacity) {
    cell *old = h->cells;
    uint32_t n = h->capacity;
    cell *c = och_calloc(capacity, sizeof *c);
    if (!c) return false;
    h->cells = c;
    h->capacity = capacity;
    h->used = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!old[i].key || !old[i].mask) continue;
        uint32_t at = home(h, old[i].key);
        while (h->cells[at].key) at = (at + 1) & (capacity - 1);
        h->cells[at] = old[i];
        h->used++;
    }
    och_free(old);
    return true;
}

static cell *add(hidden *h, uint64_t key) {
    cell *c = find(h, key);
    if (c) return c;
    if (h->used * 2 >= h->capacity && !rebuild(h, h->capacity ? h->capacity * 2 : 64)) return NULL;
    uint32_t i = home(h, key);
    while (h->cells[i].key) i = (i + 1) & (h->capacity - 1);
    h->used++;
    h->cells[i] = (cell){.key = key};
    return &h->cells[i];
}

/* Moves the bytes of a cell between memory and it: each byte alone, since allocations may end inside the eight. */
static void get(const weak *o, const cell *c, uint8_t mask, uint8_t *bytes) {
    for (unsigned i = 0; i < 8; i++) {
        const uint8_t *p = mask >> i & 1 ? sim_space_host(o->l->space, (c->key - 1) * 8 + i, 1) : NULL;
        if (p) bytes[i] = *p;
    }
}
static void put(const weak *o, const cell *c, const uint8_t *bytes) {
    uint8_t *whole = c->mask == 0xff ? sim_space_host(o->l->space, (c->key - 1) * 8, 8) : NULL;
    if (whole) {
        memcpy(whole, bytes, 8);
        return;
    }
    for (unsigned i = 0; i < 8; i++) {
        uint8_t *p = c->mask >> i & 1 ? sim_space_host(o->l->space, (c->key - 1) * 8 + i, 1) : NULL;
        if (p) *p = bytes[i];
    }
}

/* Memory holds the new bytes of the group that runs: to release is to forget. wave < 0: of all waves. */
static void forget(hidden *h, int wave) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < h->capacity; i++) {
        if (wave < 0 || h->cells[i].wave == wave) h->cells[i].mask = 0;
        left += h->cells[i].mask != 0;
    }
    if (left == 0) {
        if (h->capacity) memset(h->cells, 0, h->capacity * sizeof *h->cells);
        h->used = 0;
    }
}

static hidden *hidden_of(weak *o, const sim_group *g) {
    for (hidden *h = o->groups; h; h = h->next)
        if (h->group == g) return h;
    return NULL;
}

static void group_start(sim_observer *ob, sim_group *g) {
    weak *o = (weak *)(void *)ob;
    hidden *h = och_calloc(1, sizeof *h);
    if (h) h->prev = och_calloc(g->n_waves, sizeof *h->prev);
    if (!h || !h->prev) {
        och_free(h);
        o->no_memory = true; /* the group's stores are everybody's at once: nothing is hidden, nothing is wrong */
        return;
    }
    h->group = g;
    h->next = o->groups;
    o->groups = h;
}

static void group_enter(sim_observer *ob, sim_group *g) {
    weak *o = (weak *)(void *)ob;
    hidden *h = o->now = hidden_of(o, g);
    if (!h || !h->used) return;
    for (uint32_t i = 0; i < h->capacity; i++) {
        cell *c = &h->cells[i];
        if (!c->mask) continue;
        get(o, c, c->mask, c->old); /* others may have written meanwhile */
        put(o, c, c->now);
    }
}

static void group_leave(sim_observer *ob, sim_group *g) {
    weak *o = (weak *)(void *)ob;
    (void)g;
    hidden *h = o->now;
    o->now = NULL;
    o->storing = false;
    if (!h || !h->used) return;
    for (uint32_t i = 0; i < h->capacity; i++) {
        cell *c = &h->cells[i];
        if (!c->mask) continue;
        bool flag = !o->marks_stores && h->last_plain && c->seq == h->seq;
        if (flag || ++c->age > AGE_MAX) c->mask = 0;
        else put(o, c, c->old);
    }
}

static void drop(weak *o, hidden *h) {
    for (hidden **p = &o->groups; *p; p = &(*p)->next)
        if (*p == h) {
            *p = h->next;
            break;
        }
    och_free(h->cells);
    och_free(h->prev);
    och_free(h);
}

static void group_end(sim_observer *ob, sim_group *g) {
    weak *o = (weak *)(void *)ob;
    hidden *h = hidden_of(o, g);
    if (!h) return;
    for (uint32_t i = 0; i < h->capacity; i++)
        if (h->cells[i].mask) put(o, &h->cells[i], h->cells[i].now);
    drop(o, h);
}

/* The bytes of a lane's access, cell by cell. */
#define EACH_CELL(a, l, key, mask)                                                                                     \
    for (uint64_t at_ = (a)->addr[l], end_ = at_ + (a)->n_bytes, key, mask;                                             \
         at_ < end_ && (key = at_ / 8 + 1,                                                                              \
                        mask = (uint8_t)((end_ - at_ / 8 * 8 >= 8 ? 0xff : (1u << (end_ & 7)) - 1) & (0xffu << (at_ & 7))), 1); \
         at_ = (at_ / 8 + 1) * 8)

static bool before(sim_observer *ob, sim_wave *w, const sim_uop *u) {
    weak *o = (weak *)(void *)ob;
    hidden *h = o->now;
    o->storing = false;
    if (!h || sim_check_is_link(u)) return true;
    sim_wait passed = sim_check_passed(w, h->prev[w->wave_id], u);
    h->prev[w->wave_id] = u;
    if (h->used) {
        bool back = passed.wb != SIM_NO_WAIT && passed.wb >= SIM_SCOPE_DEVICE;
        if (o->release == SIM_RELEASE_BACK ? back : passed.stores == 0)
            forget(h, o->release == SIM_RELEASE_STORES ? (int)w->wave_id : -1);
    }
    sim_access *a = &o->access;
    if (!sim_access_of(w, u->inst, a) || !a->store) return true;
    bool coherent = sim_check_device_coherent(u->inst), global = false;
    h->flag = !coherent && !o->marks_stores && h->used && !(a->mask & (a->mask - 1));
    for (unsigned l = 0; l < SIM_MAX_LANES; l++) {
        if (!(a->mask >> l & 1) || a->space[l] != SIM_ACCESS_GLOBAL) continue;
        if (!global) h->seq++;
        global = true;
        EACH_CELL(a, l, key, mask) {
            cell *c = coherent ? find(h, key) : add(h, key);
            if (!c) continue; /* nothing hidden there, or no memory: the store is everybody's */
            if (coherent) {
                c->mask &= (uint8_t)~mask;
                continue;
            }
            get(o, c, (uint8_t)mask & (uint8_t)~c->mask, c->old);
            get(o, c, (uint8_t)mask, c->now);
            c->mask |= (uint8_t)mask;
            c->age = 0;
            c->wave = (uint16_t)w->wave_id;
            c->seq = h->seq;
        }
    }
    if (!global) return true;
    h->last_plain = !coherent;
    h->fresh |= !coherent;
    o->storing = true;
    if (h->used > CELLS_MAX) forget(h, -1);
    return true;
}

static bool after(sim_observer *ob, sim_wave *w, const sim_uop *u) {
    weak *o = (weak *)(void *)ob;
    hidden *h = o->now;
    if (!h || !o->storing) return true;
    (void)u;
    o->storing = false;
    const sim_access *a = &o->access;
    if (h->last_plain) {
        for (unsigned l = 0; l < SIM_MAX_LANES; l++) {
            if (!(a->mask >> l & 1) || a->space[l] != SIM_ACCESS_GLOBAL) continue;
            EACH_CELL(a, l, key, mask) {
                cell *c = find(h, key);
                if (c) get(o, c, (uint8_t)mask & c->mask, c->now);
            }
        }
        if (h->flag && h->n_flags++ < FLAGS_MAX) w->worker->give_way = true;
    } else if (h->used && h->fresh) {
        h->fresh = false;
        w->worker->give_way = true;
    }
    return true;
}

static void end(sim_observer *ob, const sim_launch_state *s) {
    weak *o = (weak *)(void *)ob;
    (void)s;
    while (o->groups) drop(o, o->groups);
    och_free(o);
}

och_status sim_check_weak_create(const sim_launch *l, sim_observer **out, och_err *err) {
    weak *o = och_calloc(1, sizeof *o);
    *out = NULL;
    if (!o) return och_err_nomem(err, sizeof *o, "a check");
    o->base = (sim_observer){.group_start = group_start, .group_enter = group_enter, .group_leave = group_leave,
                             .group_end = group_end, .before = before, .after = after, .end = end};
    o->l = l;
    o->release = sim_check_release(l->kernel, l->isa);
    o->marks_stores = sim_check_marks_stores(l->isa);
    *out = &o->base;
    return OCH_OK;
}
