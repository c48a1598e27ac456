#include "mem/space_list.h"

#include "base/alloc.h"

#include <string.h>

#define CHUNK 96 /* ranges at most: a change copies at most this many and one pointer a chunk */

struct sim_chunk {
    size_t n;
    sim_range r[CHUNK];
};

static size_t chunk_bytes(size_t n) { return sizeof(sim_chunk) - (CHUNK - n) * sizeof(sim_range); }

static sim_chunk *chunk_new(size_t n) {
    sim_chunk *c = och_malloc(chunk_bytes(n));
    if (c) c->n = n;
    return c;
}

static sim_list *list_new(size_t n) {
    sim_list *l = och_malloc(sizeof *l + n * sizeof(sim_chunk *));
    if (!l) return NULL;
    *l = (sim_list){.n_chunks = n};
    return l;
}

sim_list *sim_list_empty(void) { return list_new(0); }

/* Chunks whose first range begins at or below addr. */
static size_t chunks_up_to(const sim_list *l, uint64_t addr) {
    size_t a = 0, b = l->n_chunks;
    while (a < b) {
        size_t m = (a + b) / 2;
        if (l->chunks[m]->r[0].lo <= addr) a = m + 1;
        else b = m;
    }
    return a;
}
static size_t ranges_up_to(const sim_chunk *c, uint64_t addr) {
    size_t a = 0, b = c->n;
    while (a < b) {
        size_t m = (a + b) / 2;
        if (c->r[m].lo <= addr) a = m + 1;
        else b = m;
    }
    return a;
}

bool sim_list_find(const sim_list *l, uint64_t addr, sim_range *out) {
    size_t i = chunks_up_to(l, addr);
    const sim_range *below = NULL, *above = NULL;
    if (i) {
        const sim_chunk *c = l->chunks[i - 1];
        size_t k = ranges_up_to(c, addr);
        below = &c->r[k - 1];
        if (addr < below->hi) { *out = *below; return true; }
        if (k < c->n) above = &c->r[k];
    }
    if (!above && i < l->n_chunks) above = &l->chunks[i]->r[0];
    if (!below && !above) memset(out, 0, sizeof *out);
    else if (!above || (below && addr - below->hi <= above->lo - addr)) *out = *below;
    else *out = *above;
    return false;
}

bool sim_list_from(const sim_list *l, uint64_t from, sim_range *out) {
    size_t i = chunks_up_to(l, from);
    if (i) {
        const sim_chunk *c = l->chunks[i - 1];
        size_t k = ranges_up_to(c, from);
        if (c->r[k - 1].lo == from) { *out = c->r[k - 1]; return true; }
        if (k < c->n) { *out = c->r[k]; return true; }
    }
    if (i == l->n_chunks) return false;
    *out = l->chunks[i]->r[0];
    return true;
}

bool sim_list_overlap(const sim_list *l, uint64_t lo, uint64_t hi, sim_range *out) {
    if (sim_list_find(l, lo, out)) return true;
    return sim_list_from(l, lo, out) && out->lo < hi;
}

/* A list with chunks[at .. at + n_old) replaced by n_new chunks. */
static sim_list *splice(sim_list *l, size_t at, size_t n_old, sim_chunk *const *fresh, size_t n_new) {
    sim_list *next = list_new(l->n_chunks - n_old + n_new);
    if (!next) {
        for (size_t k = 0; k < n_new; k++) och_free(fresh[k]);
        return NULL;
    }
    if (at) memcpy(next->chunks, l->chunks, at * sizeof *l->chunks);
    if (n_new) memcpy(next->chunks + at, fresh, n_new * sizeof *l->chunks);
    size_t rest = l->n_chunks - at - n_old;
    if (rest) memcpy(next->chunks + at + n_new, l->chunks + at + n_old, rest * sizeof *l->chunks);
    l->replaced = n_old ? l->chunks[at] : NULL;
    return next;
}

sim_list *sim_list_insert(sim_list *l, const sim_range *r) {
    sim_chunk *fresh[2];
    if (!l->n_chunks) {
        if (!(fresh[0] = chunk_new(1))) return NULL;
        fresh[0]->r[0] = *r;
        return splice(l, 0, 0, fresh, 1);
    }
    size_t i = chunks_up_to(l, r->lo);
    if (i) i--;
    const sim_chunk *c = l->chunks[i];
    size_t k = ranges_up_to(c, r->lo);
    if (c->n < CHUNK) {
        if (!(fresh[0] = chunk_new(c->n + 1))) return NULL;
        memcpy(fresh[0]->r, c->r, k * sizeof *r);
        fresh[0]->r[k] = *r;
        memcpy(fresh[0]->r + k + 1, c->r + k, (c->n - k) * sizeof *r);
        return splice(l, i, 1, fresh, 1);
    }
    /* Full. Addresses are mostly handed out upwards: a range past the end begins a chunk of its own, else it is halved. */
    size_t cut = k == CHUNK ? CHUNK : CHUNK / 2;
    bool low = k <= cut && cut != CHUNK;
    fresh[0] = chunk_new(cut + low);
    fresh[1] = chunk_new(CHUNK - cut + !low);
    if (!fresh[0] || !fresh[1]) {
        och_free(fresh[0]);
        och_free(fresh[1]);
        return NULL;
    }
    for (size_t s = 0, n = 0; s <= CHUNK; s++, n++) {
        const sim_range *from = s < k ? &c->r[s] : s == k ? r : &c->r[s - 1];
        if (n < fresh[0]->n) fresh[0]->r[n] = *from;
        else fresh[1]->r[n - fresh[0]->n] = *from;
    }
    return splice(l, i, 1, fresh, 2);
}

sim_list *sim_list_remove(sim_list *l, uint64_t lo) {
    size_t i = chunks_up_to(l, lo) - 1;
    const sim_chunk *c = l->chunks[i];
    size_t k = ranges_up_to(c, lo) - 1;
    if (c->n == 1) return splice(l, i, 1, NULL, 0);
    sim_chunk *fresh = chunk_new(c->n - 1);
    if (!fresh) return NULL;
    memcpy(fresh->r, c->r, k * sizeof *c->r);
    memcpy(fresh->r + k, c->r + k + 1, (c->n - k - 1) * sizeof *c->r);
    return splice(l, i, 1, &fresh, 1);
}

sim_list *sim_list_replace(sim_list *l, const sim_range *r) {
    size_t i = chunks_up_to(l, r->lo) - 1;
    const sim_chunk *c = l->chunks[i];
    sim_chunk *fresh = chunk_new(c->n);
    if (!fresh) return NULL;
    memcpy(fresh->r, c->r, c->n * sizeof *c->r);
    fresh->r[ranges_up_to(c, r->lo) - 1] = *r;
    return splice(l, i, 1, &fresh, 1);
}

void sim_list_free_replaced(sim_list *l) {
    och_free(l->replaced);
    och_free(l);
}

void sim_list_destroy(sim_list *l) {
    if (!l) return;
    for (size_t i = 0; i < l->n_chunks; i++) och_free(l->chunks[i]);
    och_free(l);
}
