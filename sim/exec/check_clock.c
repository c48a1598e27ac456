#include "exec/check_clock.h"

#include "base/alloc.h"

#include <string.h>

sim_clock *sim_clock_keep(sim_clock *c) {
    if (c) c->refs++;
    return c;
}

void sim_clock_drop(sim_clock *c) {
    if (c && --c->refs == 0) och_free(c);
}

static size_t lower(const sim_clock *c, uint32_t wave) {
    size_t lo = 0, hi = c->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (c->at[mid].wave < wave) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

uint32_t sim_clock_time(const sim_clock *c, uint32_t wave) {
    if (!c) return 0;
    size_t i = lower(c, wave);
    return i < c->n && c->at[i].wave == wave ? c->at[i].time : 0;
}

static bool holds(const sim_clock *a, const sim_clock *b) {
    if (a->n < b->n) return false;
    size_t i = 0;
    for (size_t k = 0; k < b->n; k++) {
        if (b->n * 16u < a->n) {
            if (sim_clock_time(a, b->at[k].wave) < b->at[k].time) return false;
            continue;
        }
        while (i < a->n && a->at[i].wave < b->at[k].wave) i++;
        if (i == a->n || a->at[i].wave != b->at[k].wave || a->at[i].time < b->at[k].time) return false;
    }
    return true;
}

static sim_clock *make(size_t n) {
    sim_clock *c = och_malloc(sizeof *c + n * sizeof c->at[0]);
    if (c) c->refs = 1, c->n = (uint32_t)n;
    return c;
}

static void replace(sim_clock **to, sim_clock *by) {
    sim_clock_drop(*to);
    *to = by;
}

bool sim_clock_join(sim_clock **to, sim_clock *from) {
    sim_clock *a = *to;
    if (!from || a == from || (a && holds(a, from))) return true;
    if (!a || holds(from, a)) {
        replace(to, sim_clock_keep(from));
        return true;
    }
    sim_clock *c = make((size_t)a->n + from->n);
    if (!c) return false;
    size_t n = 0, i = 0, k = 0;
    while (i < a->n || k < from->n) {
        if (k == from->n || (i < a->n && a->at[i].wave < from->at[k].wave)) c->at[n++] = a->at[i++];
        else if (i == a->n || from->at[k].wave < a->at[i].wave) c->at[n++] = from->at[k++];
        else {
            c->at[n] = a->at[i].time > from->at[k].time ? a->at[i] : from->at[k];
            n++, i++, k++;
        }
    }
    c->n = (uint32_t)n;
    replace(to, c);
    return true;
}

bool sim_clock_join_wave(sim_clock **to, uint32_t wave, uint32_t time) {
    sim_clock *a = *to;
    size_t n = a ? a->n : 0, i = a ? lower(a, wave) : 0;
    bool there = i < n && a->at[i].wave == wave;
    if (there && a->at[i].time >= time) return true;
    if (there && a->refs == 1) {
        a->at[i].time = time;
        return true;
    }
    sim_clock *c = make(n + !there);
    if (!c) return false;
    if (i) memcpy(c->at, a->at, i * sizeof a->at[0]);
    c->at[i].wave = wave;
    c->at[i].time = time;
    if (n > i + there) memcpy(&c->at[i + 1], &a->at[i + there], (n - i - there) * sizeof a->at[0]);
    replace(to, c);
    return true;
}
