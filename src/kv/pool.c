#include "kv/blocks.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdlib.h>

struct och_kv_pool {
    uint32_t n_blocks, n_free, peak;
    int32_t first_free;
    uint64_t refs_sum;
    uint32_t *refs;
    int32_t *next; /* the free list, through the free blocks */
    och_kv_evict_fn evict;
    void *evict_user;
};

och_status och_kv_pool_create(uint32_t n_blocks, och_kv_pool **out_pool, och_err *err) {
    *out_pool = NULL;
    if (n_blocks == 0 || n_blocks > INT32_MAX)
        return och_err_set(err, OCH_RANGE, "state pool: expected 1 to %d blocks, found %" PRIu32, INT32_MAX, n_blocks);
    och_kv_pool *p = och_calloc(1, sizeof *p);
    if (!p) return och_err_nomem(err, sizeof *p, "a state pool");
    p->refs = och_calloc(n_blocks, sizeof *p->refs);
    p->next = och_malloc_array(n_blocks, sizeof *p->next);
    if (!p->refs || !p->next) {
        och_kv_pool_destroy(p);
        return och_err_nomem(err, (uint64_t)n_blocks * 8, "the block list of a state pool");
    }
    p->n_blocks = p->n_free = n_blocks;
    for (uint32_t i = 0; i < n_blocks; i++) p->next[i] = i + 1 < n_blocks ? (int32_t)i + 1 : OCH_KV_NONE;
    *out_pool = p;
    return OCH_OK;
}

void och_kv_pool_destroy(och_kv_pool *p) {
    if (!p) return;
    och_free(p->refs);
    och_free(p->next);
    och_free(p);
}

void och_kv_pool_set_evict(och_kv_pool *p, och_kv_evict_fn fn, void *user) {
    p->evict = fn;
    p->evict_user = user;
}

bool och_kv_pool_make_room(och_kv_pool *p, uint64_t n_blocks) {
    while (p->n_free < n_blocks)
        if (!p->evict || !p->evict(p->evict_user)) return false;
    return true;
}

int32_t och_kv_block_allocate(och_kv_pool *p) {
    if (!och_kv_pool_make_room(p, 1)) return OCH_KV_NONE;
    int32_t b = p->first_free;
    p->first_free = p->next[b];
    p->n_free--;
    if (p->n_blocks - p->n_free > p->peak) p->peak = p->n_blocks - p->n_free;
    p->refs[b] = 1;
    p->refs_sum++;
    return b;
}

/* A wrong id here would let two sequences write one block: never go on. */
static void check_held(const och_kv_pool *p, int32_t b) {
    if (b < 0 || (uint32_t)b >= p->n_blocks || p->refs[b] == 0) abort();
}

void och_kv_block_retain(och_kv_pool *p, int32_t b) {
    check_held(p, b);
    p->refs[b]++;
    p->refs_sum++;
}

void och_kv_block_release(och_kv_pool *p, int32_t b) {
    check_held(p, b);
    p->refs_sum--;
    if (--p->refs[b]) return;
    p->next[b] = p->first_free;
    p->first_free = b;
    p->n_free++;
}

uint32_t och_kv_block_refs(const och_kv_pool *p, int32_t b) {
    return b >= 0 && (uint32_t)b < p->n_blocks ? p->refs[b] : 0;
}

uint32_t och_kv_pool_blocks(const och_kv_pool *p) { return p->n_blocks; }
uint32_t och_kv_pool_free(const och_kv_pool *p) { return p->n_free; }
uint32_t och_kv_pool_peak(const och_kv_pool *p) { return p->peak; }
uint64_t och_kv_pool_refs_sum(const och_kv_pool *p) { return p->refs_sum; }
