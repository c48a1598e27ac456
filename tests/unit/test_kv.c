/* State blocks. The oracle is a simulated memory: every test writes what it means into numbered blocks through the
 * table, carries out the copy orders, and reads every resident position of every sequence back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "kv/blocks.h"
#include "kv/prefix.h"

#include <stdlib.h>
#include <string.h>

static uint64_t rng_state;
static uint32_t rnd(uint32_t n) {
    rng_state ^= rng_state >> 12, rng_state ^= rng_state << 25, rng_state ^= rng_state >> 27;
    return (uint32_t)(rng_state * 2685821657736338717u >> 33) % n;
}

/* ---- pool ---- */

static void pool_counts(void **s) {
    (void)s;
    och_kv_pool *p;
    assert_int_equal(och_kv_pool_create(3, &p, NULL), OCH_OK);
    int32_t a = och_kv_block_allocate(p), b = och_kv_block_allocate(p), c = och_kv_block_allocate(p);
    assert_true(a != b && b != c && a != c && a >= 0 && b >= 0 && c >= 0 && a < 3 && b < 3 && c < 3);
    assert_int_equal(och_kv_block_allocate(p), OCH_KV_NONE);
    och_kv_block_retain(p, b);
    assert_int_equal(och_kv_pool_refs_sum(p), 4);
    och_kv_block_release(p, b);
    assert_int_equal(och_kv_pool_free(p), 0);
    och_kv_block_release(p, b);
    assert_int_equal(och_kv_pool_free(p), 1);
    assert_int_equal(och_kv_block_refs(p, b), 0);
    assert_int_equal(och_kv_block_allocate(p), b);
    assert_int_equal(och_kv_pool_peak(p), 3);
    och_kv_block_release(p, a), och_kv_block_release(p, b), och_kv_block_release(p, c);
    assert_int_equal(och_kv_pool_free(p), och_kv_pool_blocks(p));
    assert_int_equal(och_kv_pool_refs_sum(p), 0);
    och_kv_pool_destroy(p);
    assert_int_equal(och_kv_pool_create(0, &p, NULL), OCH_RANGE);
    assert_null(p);
}

static void table_lengths(void **s) {
    (void)s;
    const struct { och_kv_group_desc d; uint32_t len; } c[] = {
        {{OCH_KV_PAGED, 16, 0, 0, 100}, 7},
        {{OCH_KV_PAGED, 16, 0, 0, 96}, 6},
        {{OCH_KV_RING, 16, 512, 64, 32768}, 37}, /* (512 + 64) / 16 + 1 */
        {{OCH_KV_RING, 16, 510, 1, 32768}, 33},  /* ceil(511 / 16) + 1 */
        {{OCH_KV_RING, 16, 512, 64, 100}, 7},    /* never more than the whole context */
        {{OCH_KV_SLOT, 0, 0, 0, 100}, 1},
        {{OCH_KV_PAGED, 0, 0, 0, 100}, 0},
        {{OCH_KV_PAGED, 16, 0, 0, 0}, 0},
        {{OCH_KV_RING, 16, 0, 1, 100}, 0},
        {{OCH_KV_RING, 16, 8, 0, 100}, 0},
        {{(och_kv_kind)9, 16, 8, 8, 100}, 0},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) assert_int_equal(och_kv_table_len(&c[i].d), c[i].len);
}

/* ---- the simulated memory ---- */

#define MAX_BLOCKS 64
#define MAX_BLOCK_TOKENS 8
#define MAX_CONTEXT 96
#define MAX_SEQS 6
#define MAX_G 3

typedef struct world {
    och_kv_group_desc desc[MAX_G];
    och_kv_pool *pool[MAX_G];
    uint32_t n_groups;
    uint64_t mem[MAX_G][MAX_BLOCKS][MAX_BLOCK_TOKENS];
    och_kv_seq *seq[MAX_SEQS];
    uint64_t tokens[MAX_SEQS][MAX_CONTEXT]; /* what the sequence has committed */
    uint64_t next_token;
} world;

static uint64_t state_after(const uint64_t *tokens, uint32_t n) {
    uint64_t h = 1469598103934665603u;
    for (uint32_t i = 0; i < n; i++) h = (h ^ tokens[i]) * 1099511628211u;
    return h;
}

static void check_contents(world *w) {
    uint64_t held[MAX_G] = {0};
    for (int i = 0; i < MAX_SEQS; i++) {
        if (!w->seq[i]) continue;
        uint32_t len = och_kv_seq_length(w->seq[i]);
        for (uint32_t g = 0; g < w->n_groups; g++) {
            const och_kv_group_desc *d = &w->desc[g];
            uint32_t table_len, oldest = och_kv_seq_oldest(w->seq[i], g);
            const int32_t *t = och_kv_seq_table(w->seq[i], g, &table_len);
            for (uint32_t e = 0; e < table_len; e++)
                if (t[e] != OCH_KV_NONE) {
                    assert_true(och_kv_block_refs(w->pool[g], t[e]) > 0);
                    for (uint32_t g2 = 0; g2 < w->n_groups; g2++) held[g2] += w->pool[g2] == w->pool[g];
                }
            if (d->kind == OCH_KV_SLOT) {
                if (len) assert_int_equal(w->mem[g][t[0]][0], state_after(w->tokens[i], len));
                continue;
            }
            if (d->kind == OCH_KV_PAGED) assert_int_equal(oldest, 0);
            /* the next token must find its whole window */
            if (len) assert_true(oldest <= (len + 1 > d->window && d->kind == OCH_KV_RING ? len + 1 - d->window : 0));
            for (uint32_t p = oldest; p < len; p++) {
                int32_t b = t[p / d->block_tokens % table_len];
                assert_true(b != OCH_KV_NONE);
                assert_int_equal(w->mem[g][b][p % d->block_tokens], w->tokens[i][p]);
            }
        }
    }
    for (uint32_t g = 0; g < w->n_groups; g++) assert_int_equal(och_kv_pool_refs_sum(w->pool[g]), held[g]);
}

/* A step of n tokens of which `keep` are committed. Attention is modelled too: token len + j must find its window as it
 * was before the step, or as the step wrote it. */
static och_status step(world *w, int i, uint32_t n, uint32_t keep) {
    och_kv_copy copies[MAX_G];
    uint32_t n_copies, len = och_kv_seq_length(w->seq[i]);
    uint32_t free_before[MAX_G];
    for (uint32_t g = 0; g < w->n_groups; g++) free_before[g] = och_kv_pool_free(w->pool[g]);
    och_err err;
    och_err_clear(&err);
    och_status st = och_kv_seq_reserve(w->seq[i], n, copies, MAX_G, &n_copies, &err);
    if (st != OCH_OK) {
        assert_true(st == OCH_NOMEM || st == OCH_RANGE);
        assert_true(err.message[0]);
        assert_int_equal(n_copies, 0);
        for (uint32_t g = 0; g < w->n_groups; g++) assert_int_equal(och_kv_pool_free(w->pool[g]), free_before[g]);
        return st;
    }
    for (uint32_t c = 0; c < n_copies; c++) {
        assert_true(copies[c].src != copies[c].dst);
        memcpy(w->mem[copies[c].group][copies[c].dst], w->mem[copies[c].group][copies[c].src],
               sizeof w->mem[0][0]);
    }
    /* again: nothing more to do */
    assert_int_equal(och_kv_seq_reserve(w->seq[i], n, copies, MAX_G, &n_copies, NULL), OCH_OK);
    assert_int_equal(n_copies, 0);
    for (uint32_t j = 0; j < n; j++) w->tokens[i][len + j] = ++w->next_token;
    for (uint32_t g = 0; g < w->n_groups; g++) {
        const och_kv_group_desc *d = &w->desc[g];
        uint32_t table_len;
        const int32_t *t = och_kv_seq_table(w->seq[i], g, &table_len);
        if (d->kind == OCH_KV_SLOT) {
            assert_int_equal(och_kv_block_refs(w->pool[g], t[0]), 1);
            w->mem[g][t[0]][0] = state_after(w->tokens[i], len + keep);
            continue;
        }
        for (uint32_t p = len; p < len + n; p++) {
            int32_t b = t[p / d->block_tokens % table_len];
            assert_int_equal(och_kv_block_refs(w->pool[g], b), 1); /* written by its one owner */
            w->mem[g][b][p % d->block_tokens] = w->tokens[i][p];
        }
        for (uint32_t p = len; p < len + n; p++) { /* what position p attends to is all there, after all writes */
            uint32_t from = d->kind == OCH_KV_RING && p + 1 > d->window ? p + 1 - d->window : 0;
            for (uint32_t q = from; q <= p; q++)
                assert_int_equal(w->mem[g][t[q / d->block_tokens % table_len]][q % d->block_tokens], w->tokens[i][q]);
        }
    }
    assert_int_equal(och_kv_seq_commit(w->seq[i], keep, NULL), OCH_OK);
    return OCH_OK;
}

static void world_end(world *w) {
    for (int i = 0; i < MAX_SEQS; i++) och_kv_seq_destroy(w->seq[i]);
    for (uint32_t g = 0; g < w->n_groups; g++) {
        bool seen = false;
        for (uint32_t h = 0; h < g; h++) seen |= w->pool[h] == w->pool[g];
        if (seen) continue;
        assert_int_equal(och_kv_pool_free(w->pool[g]), och_kv_pool_blocks(w->pool[g]));
        och_kv_pool_destroy(w->pool[g]);
    }
}

static void random_life(uint64_t seed, const och_kv_group_desc *desc, uint32_t n_groups, bool one_pool,
                        uint32_t n_blocks, int n_ops) {
    static world zero;
    world *w = malloc(sizeof *w);
    *w = zero;
    rng_state = seed * 0x9E3779B97F4A7C15u + 1;
    w->n_groups = n_groups;
    for (uint32_t g = 0; g < n_groups; g++) {
        w->desc[g] = desc[g];
        if (g && one_pool) w->pool[g] = w->pool[0];
        else assert_int_equal(och_kv_pool_create(n_blocks, &w->pool[g], NULL), OCH_OK);
    }
    bool slot = false;
    for (uint32_t g = 0; g < n_groups; g++) slot |= desc[g].kind == OCH_KV_SLOT;
    int refused = 0, forks = 0, truncated = 0;
    for (int op = 0; op < n_ops; op++) {
        int i = (int)rnd(MAX_SEQS);
        uint32_t len = w->seq[i] ? och_kv_seq_length(w->seq[i]) : 0;
        switch (w->seq[i] ? rnd(10) : 9) {
        case 0: case 1: case 2: case 3: case 4: {
            uint32_t n = 1 + rnd(7), keep = slot ? n : n - rnd(n < 3 ? n : 3);
            refused += step(w, i, n, keep) != OCH_OK;
            break;
        }
        case 5: { /* truncate; where it is refused, nothing may have changed (checked below) */
            uint32_t to = len - rnd(len < 9 ? len + 1 : 9);
            truncated += och_kv_seq_truncate(w->seq[i], to, NULL) == OCH_OK;
            break;
        }
        case 6: case 7: {
            int j = (int)rnd(MAX_SEQS);
            if (w->seq[j]) break;
            assert_int_equal(och_kv_seq_fork(w->seq[i], &w->seq[j], NULL), OCH_OK);
            memcpy(w->tokens[j], w->tokens[i], sizeof w->tokens[0]);
            forks++;
            break;
        }
        case 8:
            och_kv_seq_destroy(w->seq[i]);
            w->seq[i] = NULL;
            break;
        default:
            if (!w->seq[i] && rnd(4) == 0)
                assert_int_equal(och_kv_seq_create(w->desc, w->pool, n_groups, &w->seq[i], NULL), OCH_OK);
        }
        check_contents(w);
    }
    assert_true(forks > 10 && truncated > 10);
    if (n_blocks < 30) assert_true(refused > 0);
    world_end(w);
    free(w);
}

static void random_lives(void **s) {
    (void)s;
    const och_kv_group_desc paged = {OCH_KV_PAGED, 4, 0, 0, MAX_CONTEXT}, ring = {OCH_KV_RING, 4, 9, 7, MAX_CONTEXT},
                            ring1 = {OCH_KV_RING, 1, 3, 7, MAX_CONTEXT}, wide = {OCH_KV_RING, 8, 5, 7, MAX_CONTEXT},
                            slot = {OCH_KV_SLOT, 0, 0, 0, MAX_CONTEXT}, capped = {OCH_KV_RING, 8, 90, 7, MAX_CONTEXT};
    const struct { och_kv_group_desc d[3]; uint32_t n; bool one_pool; } kinds[] = {
        {{paged}, 1, false},         {{ring}, 1, false},         {{ring1}, 1, false},       {{wide}, 1, false},
        {{slot}, 1, false},          {{capped}, 1, false},       {{paged, ring}, 2, false}, {{ring, paged}, 2, true},
        {{paged, slot, ring}, 3, false}, {{ring, wide, ring1}, 3, true},
    };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (uint64_t seed = 0; seed < 8; seed++)
            random_life(seed + 100 * k, kinds[k].d, kinds[k].n, kinds[k].one_pool, seed % 2 ? 20 : MAX_BLOCKS, 1500);
}

/* Every way to spend six operations out of a small set, on two sequences in a pool of three blocks of two tokens. */
static void exhaustive_small(void **s) {
    (void)s;
    static const och_kv_kind kinds[] = {OCH_KV_PAGED, OCH_KV_RING};
    for (int k = 0; k < 2; k++) {
        och_kv_group_desc d = {kinds[k], 2, 2, 2, 8};
        for (uint32_t code = 0; code < 8 * 8 * 8 * 8 * 8 * 8; code++) {
            static world w, zero;
            w = zero;
            w.n_groups = 1, w.desc[0] = d;
            assert_int_equal(och_kv_pool_create(3, &w.pool[0], NULL), OCH_OK);
            assert_int_equal(och_kv_seq_create(&d, w.pool, 1, &w.seq[0], NULL), OCH_OK);
            uint32_t c = code;
            for (int op = 0; op < 6; op++, c /= 8) {
                int i = (int)(c % 8) / 4;
                if (c % 8 == 7) { /* fork or end the second */
                    if (w.seq[1]) {
                        och_kv_seq_destroy(w.seq[1]);
                        w.seq[1] = NULL;
                    } else {
                        assert_int_equal(och_kv_seq_fork(w.seq[0], &w.seq[1], NULL), OCH_OK);
                        memcpy(w.tokens[1], w.tokens[0], sizeof w.tokens[0]);
                    }
                } else if (w.seq[i]) {
                    uint32_t len = och_kv_seq_length(w.seq[i]), what = c % 8 % 4;
                    och_status st = OCH_OK;
                    if (what < 2) st = step(&w, i, what + 1, what + 1);
                    else if (what == 2) st = step(&w, i, 2, 1);
                    else st = och_kv_seq_truncate(w.seq[i], len ? len - 1 : 0, NULL);
                    assert_true(st == OCH_OK || st == OCH_NOMEM || st == OCH_RANGE);
                }
                check_contents(&w);
            }
            world_end(&w);
        }
    }
}

static void copy_on_write_by_hand(void **s) {
    (void)s;
    och_kv_pool *p;
    och_kv_seq *a, *b;
    och_kv_copy c[1];
    uint32_t n, len;
    och_kv_group_desc d = {OCH_KV_PAGED, 4, 0, 0, 64};
    assert_int_equal(och_kv_pool_create(4, &p, NULL), OCH_OK);
    assert_int_equal(och_kv_seq_create(&d, &p, 1, &a, NULL), OCH_OK);
    assert_int_equal(och_kv_seq_reserve(a, 6, c, 1, &n, NULL), OCH_OK);
    assert_int_equal(n, 0);
    assert_int_equal(och_kv_seq_commit(a, 6, NULL), OCH_OK);
    assert_int_equal(och_kv_seq_fork(a, &b, NULL), OCH_OK);
    assert_int_equal(och_kv_pool_free(p), 2);
    const int32_t *ta = och_kv_seq_table(a, 0, &len), *tb = och_kv_seq_table(b, 0, &len);
    assert_int_equal(len, 16);
    assert_true(ta[0] == tb[0] && ta[1] == tb[1] && ta[2] == OCH_KV_NONE);
    int32_t shared = ta[1];
    /* b writes position 6, in the shared second block: copied. The first block stays shared. */
    assert_int_equal(och_kv_seq_reserve(b, 1, c, 1, &n, NULL), OCH_OK);
    assert_int_equal(n, 1);
    assert_true(c[0].group == 0 && c[0].src == shared && c[0].dst == tb[1] && tb[1] != shared && ta[1] == shared);
    assert_int_equal(och_kv_block_refs(p, ta[0]), 2);
    /* a is alone on its block now: no copy */
    assert_int_equal(och_kv_seq_reserve(a, 2, c, 1, &n, NULL), OCH_OK);
    assert_int_equal(n, 0);
    assert_int_equal(och_kv_seq_commit(a, 2, NULL), OCH_OK);
    /* one block is free; three more tokens fit, seven do not, and the refusal changes nothing */
    och_err err;
    och_err_clear(&err);
    assert_int_equal(och_kv_seq_reserve(a, 7, c, 1, &n, &err), OCH_NOMEM);
    assert_string_equal(err.message, "state pool: 1 of 4 blocks are free, and 2 are needed for 7 more tokens");
    assert_int_equal(och_kv_pool_free(p), 1);
    assert_int_equal(ta[2], OCH_KV_NONE);
    assert_int_equal(och_kv_seq_reserve(a, 4, c, 1, &n, NULL), OCH_OK);
    /* truncation gives blocks back, reserved ones too */
    assert_int_equal(och_kv_seq_truncate(a, 4, NULL), OCH_OK);
    assert_int_equal(och_kv_pool_free(p), 2);
    assert_int_equal(och_kv_seq_commit(a, 1, NULL), OCH_RANGE);
    och_err_clear(&err);
    assert_int_equal(och_kv_seq_truncate(a, 5, &err), OCH_RANGE);
    assert_string_equal(err.message, "truncate: expected at most the length 4, found 5");
    och_err_clear(&err);
    assert_int_equal(och_kv_seq_reserve(a, 61, c, 1, &n, &err), OCH_RANGE);
    assert_string_equal(err.message, "sequence of 4 tokens: 61 more exceed the context of 64");
    assert_int_equal(och_kv_seq_reserve(a, 1, c, 0, &n, NULL), OCH_RANGE);
    /* a fork voids what was reserved */
    och_kv_seq_destroy(b);
    assert_int_equal(och_kv_seq_reserve(a, 1, c, 1, &n, NULL), OCH_OK);
    assert_int_equal(och_kv_seq_fork(a, &b, NULL), OCH_OK);
    assert_int_equal(och_kv_seq_commit(a, 1, NULL), OCH_RANGE);
    och_kv_seq_destroy(a), och_kv_seq_destroy(b);
    assert_int_equal(och_kv_pool_free(p), 4);
    och_kv_pool_destroy(p);
}

static void rings_by_hand(void **s) {
    (void)s;
    och_kv_pool *p;
    och_kv_seq *a;
    och_kv_copy c[1];
    uint32_t n, len;
    och_kv_group_desc d = {OCH_KV_RING, 4, 8, 4, 1000}; /* 4 entries */
    assert_int_equal(och_kv_pool_create(9, &p, NULL), OCH_OK);
    assert_int_equal(och_kv_seq_create(&d, &p, 1, &a, NULL), OCH_OK);
    for (int i = 0; i < 25; i++) {
        assert_int_equal(och_kv_seq_reserve(a, 4, c, 1, &n, NULL), OCH_OK);
        assert_int_equal(och_kv_seq_commit(a, 4, NULL), OCH_OK);
    }
    och_kv_seq_table(a, 0, &len);
    assert_int_equal(len, 4);
    assert_int_equal(9 - och_kv_pool_free(p), 4); /* a hundred tokens in four blocks */
    assert_int_equal(och_kv_seq_oldest(a, 0), 84);
    och_err err;
    och_err_clear(&err);
    assert_int_equal(och_kv_seq_truncate(a, 90, &err), OCH_RANGE); /* would attend to 83 */
    assert_string_equal(err.message, "truncate to 90: state group 0 needs position 83 and its ring begins at 84");
    assert_int_equal(och_kv_seq_length(a), 100);
    assert_int_equal(och_kv_seq_truncate(a, 91, NULL), OCH_OK);
    assert_int_equal(och_kv_seq_oldest(a, 0), 84);
    och_err_clear(&err);
    assert_int_equal(och_kv_seq_reserve(a, 5, c, 1, &n, &err), OCH_RANGE);
    assert_string_equal(err.message, "state group 0: a step of 5 tokens exceeds the 4 that its ring was made for");
    assert_int_equal(och_kv_seq_truncate(a, 0, NULL), OCH_OK);
    assert_int_equal(och_kv_pool_free(p), 9);
    assert_int_equal(och_kv_seq_oldest(a, 0), 0);
    och_kv_seq_destroy(a);
    och_kv_pool_destroy(p);
}

static void wrong_descriptions_are_refused(void **s) {
    (void)s;
    och_kv_pool *p;
    och_kv_seq *a;
    och_err err;
    assert_int_equal(och_kv_pool_create(1, &p, NULL), OCH_OK);
    och_kv_group_desc d = {OCH_KV_PAGED, 0, 0, 0, 64};
    och_err_clear(&err);
    assert_int_equal(och_kv_seq_create(&d, &p, 1, &a, &err), OCH_RANGE);
    assert_null(a);
    assert_non_null(strstr(err.message, "block of 0"));
    assert_int_equal(och_kv_seq_create(&d, &p, 0, &a, NULL), OCH_RANGE);
    assert_int_equal(och_kv_seq_create(&d, &p, 17, &a, NULL), OCH_RANGE);
    och_kv_pool_destroy(p);
}

/* ---- prefix index ---- */

#define B 2
#define PATH 6 /* blocks a prompt */
#define CAP 9

typedef struct entry {
    int32_t tokens[PATH * B];
    uint32_t n_blocks; /* of the path that this entry ends */
    int32_t block;
    uint64_t used;
} entry;

typedef struct model {
    entry e[CAP];
    int n;
    uint64_t clock;
    uint64_t evicted;
} model;

static int model_find(const model *m, const int32_t *tokens, uint32_t n_blocks) {
    for (int i = 0; i < m->n; i++)
        if (m->e[i].n_blocks == n_blocks && !memcmp(m->e[i].tokens, tokens, n_blocks * B * sizeof *tokens)) return i;
    return -1;
}

static bool model_leaf(const model *m, int i) {
    for (int j = 0; j < m->n; j++)
        if (m->e[j].n_blocks == m->e[i].n_blocks + 1 &&
            !memcmp(m->e[j].tokens, m->e[i].tokens, m->e[i].n_blocks * B * sizeof(int32_t)))
            return false;
    return true;
}

/* refs as they were before the index released anything */
static bool model_evict(model *m, const och_kv_pool *p, const entry *keep, const uint32_t *held) {
    int best = -1;
    for (int i = 0; i < m->n; i++) {
        if (keep && keep->n_blocks == m->e[i].n_blocks &&
            !memcmp(keep->tokens, m->e[i].tokens, keep->n_blocks * B * sizeof(int32_t))) continue;
        if (held[m->e[i].block] || !model_leaf(m, i)) continue;
        if (best < 0 || m->e[i].used < m->e[best].used) best = i;
    }
    (void)p;
    if (best < 0) return false;
    m->e[best] = m->e[--m->n];
    m->evicted++;
    return true;
}

static void model_touch(model *m, const int32_t *tokens, uint32_t n) {
    for (; n; n--) m->e[model_find(m, tokens, n)].used = ++m->clock;
}

static void prefix_equals_a_naive_list(void **s) {
    (void)s;
    enum { BLOCKS = 40, HOLDS = 4 };
    for (uint64_t seed = 1; seed <= 20; seed++) {
        rng_state = seed * 0x9E3779B97F4A7C15u;
        och_kv_pool *p;
        och_kv_prefix *x;
        model m = {.n = 0};
        uint32_t held[BLOCKS] = {0}; /* references that the test itself holds */
        int32_t hold[HOLDS][PATH];
        uint32_t n_hold[HOLDS] = {0};
        assert_int_equal(och_kv_pool_create(BLOCKS, &p, NULL), OCH_OK);
        assert_int_equal(och_kv_prefix_create(p, B, CAP, &x, NULL), OCH_OK);
        for (int op = 0; op < 3000; op++) {
            int32_t tokens[PATH * B + 1], got[PATH];
            uint32_t n_tokens = rnd(PATH * B + 2), n_blocks = n_tokens / B;
            for (uint32_t i = 0; i < PATH * B + 1; i++) tokens[i] = (int32_t)rnd(2); /* many common prefixes */
            int h = (int)rnd(HOLDS);
            /* let go of an earlier prompt */
            for (uint32_t i = 0; i < n_hold[h]; i++) och_kv_block_release(p, hold[h][i]), held[hold[h][i]]--;
            n_hold[h] = 0;
            switch (rnd(8)) {
            case 0: {
                uint32_t want = rnd(3), model_done = 0;
                while (model_done < want && model_evict(&m, p, NULL, held)) model_done++;
                assert_int_equal(och_kv_prefix_evict(x, want), model_done);
                break;
            }
            case 1: case 2: { /* look up and hold */
                uint32_t want = 0, cap = rnd(PATH + 1);
                while (want < n_blocks && want < cap && model_find(&m, tokens, want + 1) >= 0) want++;
                assert_int_equal(och_kv_prefix_lookup(x, tokens, n_tokens, got, cap), want);
                for (uint32_t i = 0; i < want; i++) {
                    assert_int_equal(got[i], m.e[model_find(&m, tokens, i + 1)].block);
                    hold[h][i] = got[i], held[got[i]]++;
                }
                n_hold[h] = want;
                model_touch(&m, tokens, want);
                break;
            }
            default: { /* a prompt that computed its own blocks */
                for (uint32_t i = 0; i < n_blocks; i++) {
                    assert_true(och_kv_pool_free(p) > 0);
                    hold[h][i] = och_kv_block_allocate(p), held[hold[h][i]]++;
                }
                n_hold[h] = n_blocks;
                uint32_t want = 0;
                entry path = {.n_blocks = 0};
                memcpy(path.tokens, tokens, sizeof path.tokens);
                for (; want < n_blocks; want++) {
                    if (model_find(&m, tokens, want + 1) < 0) {
                        path.n_blocks = want;
                        if (m.n == CAP && !model_evict(&m, p, &path, held)) break;
                        entry e = path;
                        e.n_blocks = want + 1, e.block = hold[h][want], e.used = ++m.clock;
                        m.e[m.n++] = e;
                    }
                }
                model_touch(&m, tokens, want);
                assert_int_equal(och_kv_prefix_insert(x, tokens, n_tokens, hold[h]), want);
            }
            }
            och_kv_prefix_stats st;
            och_kv_prefix_get_stats(x, &st);
            assert_int_equal(st.nodes, m.n);
            assert_int_equal(st.evicted, m.evicted);
            uint64_t sum = (uint64_t)m.n;
            for (int i = 0; i < BLOCKS; i++) sum += held[i];
            assert_int_equal(och_kv_pool_refs_sum(p), sum);
            for (int i = 0; i < m.n; i++) assert_int_equal(och_kv_block_refs(p, m.e[i].block), held[m.e[i].block] + 1);
        }
        assert_true(m.evicted > 100);
        for (int h = 0; h < HOLDS; h++)
            for (uint32_t i = 0; i < n_hold[h]; i++) och_kv_block_release(p, hold[h][i]);
        och_kv_prefix_destroy(x);
        assert_int_equal(och_kv_pool_free(p), BLOCKS);
        och_kv_pool_destroy(p);
    }
}

static void a_dry_pool_takes_from_the_index(void **s) {
    (void)s;
    och_kv_pool *p;
    och_kv_prefix *x;
    och_kv_seq *a, *b;
    och_kv_copy c[1];
    uint32_t n, len;
    int32_t tokens[8] = {1, 2, 3, 4, 5, 6, 7, 8}, got[4];
    och_kv_group_desc d = {OCH_KV_PAGED, B, 0, 0, 64};
    assert_int_equal(och_kv_pool_create(4, &p, NULL), OCH_OK);
    assert_int_equal(och_kv_prefix_create(p, B, 16, &x, NULL), OCH_OK);
    assert_int_equal(och_kv_seq_create(&d, &p, 1, &a, NULL), OCH_OK);
    assert_int_equal(och_kv_seq_reserve(a, 8, c, 1, &n, NULL), OCH_OK);
    assert_int_equal(och_kv_seq_commit(a, 8, NULL), OCH_OK);
    int32_t third = och_kv_seq_table(a, 0, &len)[2];
    assert_int_equal(och_kv_prefix_insert(x, tokens, 8, och_kv_seq_table(a, 0, &len)), 4);
    och_kv_seq_destroy(a);
    assert_int_equal(och_kv_pool_free(p), 0);
    /* the same prompt but for its last token: three blocks come back, the rest is computed in a block that is evicted
     * */
    tokens[7] = 9;
    assert_int_equal(och_kv_prefix_lookup(x, tokens, 8, got, 4), 3);
    assert_int_equal(got[2], third);
    assert_int_equal(och_kv_seq_create(&d, &p, 1, &b, NULL), OCH_OK);
    assert_int_equal(och_kv_seq_adopt_take(b, got, 3, NULL), OCH_OK);
    assert_int_equal(och_kv_seq_length(b), 6);
    assert_int_equal(och_kv_seq_adopt_take(b, got, 3, NULL), OCH_INVALID);
    assert_int_equal(och_kv_seq_reserve(b, 2, c, 1, &n, NULL), OCH_OK);
    assert_int_equal(n, 0);
    assert_int_equal(och_kv_seq_commit(b, 2, NULL), OCH_OK);
    /* all four are held now: nothing can be evicted for a fifth */
    och_err err;
    och_err_clear(&err);
    assert_int_equal(och_kv_seq_reserve(b, 1, c, 1, &n, &err), OCH_NOMEM);
    /* going back into a block that the index also holds copies it; there must be room for that */
    assert_int_equal(och_kv_seq_truncate(b, 5, NULL), OCH_OK);
    assert_int_equal(och_kv_seq_reserve(b, 1, c, 1, &n, NULL), OCH_OK);
    assert_int_equal(n, 1);
    assert_int_equal(c[0].src, third);
    och_kv_seq_destroy(b);
    och_kv_prefix_destroy(x);
    assert_int_equal(och_kv_pool_free(p), 4);
    och_kv_pool_destroy(p);
}

static void failed_allocations_leave_nothing(void **s) {
    (void)s;
    int64_t live = och_alloc_live();
    for (uint64_t nth = 1;; nth++) {
        och_alloc_fail_at(nth);
        och_kv_pool *p = NULL;
        och_kv_prefix *x = NULL;
        och_kv_seq *a = NULL, *b = NULL;
        och_kv_group_desc d = {OCH_KV_PAGED, B, 0, 0, 64};
        och_status st = och_kv_pool_create(4, &p, NULL);
        if (st == OCH_OK) st = och_kv_prefix_create(p, B, 16, &x, NULL);
        if (st == OCH_OK) st = och_kv_seq_create(&d, &p, 1, &a, NULL);
        if (st == OCH_OK) st = och_kv_seq_fork(a, &b, NULL);
        och_alloc_fail_at(0);
        och_kv_seq_destroy(a), och_kv_seq_destroy(b);
        och_kv_prefix_destroy(x);
        och_kv_pool_destroy(p);
        assert_int_equal(och_alloc_live(), live);
        if (st == OCH_OK) break;
        assert_int_equal(st, OCH_NOMEM);
        assert_true(nth < 20);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pool_counts),
        cmocka_unit_test(table_lengths),
        cmocka_unit_test(copy_on_write_by_hand),
        cmocka_unit_test(rings_by_hand),
        cmocka_unit_test(wrong_descriptions_are_refused),
        cmocka_unit_test(random_lives),
        cmocka_unit_test(exhaustive_small),
        cmocka_unit_test(prefix_equals_a_naive_list),
        cmocka_unit_test(a_dry_pool_takes_from_the_index),
        cmocka_unit_test(failed_allocations_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
