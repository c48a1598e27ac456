#include "kv/prefix.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <string.h>

#define NIL (-1)

typedef struct node {
    uint64_t hash; /* of the chain from the root to here */
    int32_t parent, chain, older, newer;
    int32_t block;
    uint32_t children;
} node;

/* Unused nodes are chained through `chain`. A child is always touched before its parents, so that the oldest end of
 * the list holds leaves before the nodes they hang from. */
struct och_kv_prefix {
    och_kv_pool *pool;
    uint32_t block_tokens, capacity, n_buckets;
    node *nodes;
    int32_t *tokens;  /* [capacity, block_tokens] */
    int32_t *buckets; /* first node of a chain */
    int32_t unused, oldest, newest;
    och_kv_prefix_stats stats;
};

static bool evict_one(och_kv_prefix *x, int32_t keep);

static bool evict_for_pool(void *user) { return evict_one(user, NIL); }

och_status och_kv_prefix_create(och_kv_pool *pool, uint32_t block_tokens, uint32_t capacity,
                                och_kv_prefix **out_index, och_err *err) {
    *out_index = NULL;
    if (block_tokens == 0 || capacity == 0 || capacity > INT32_MAX / 2)
        return och_err_set(err, OCH_RANGE, "prefix index: expected a block and a capacity above 0, found %" PRIu32
                           " tokens and %" PRIu32 " nodes", block_tokens, capacity);
    och_kv_prefix *x = och_calloc(1, sizeof *x);
    if (!x) return och_err_nomem(err, sizeof *x, "a prefix index");
    for (x->n_buckets = 1; x->n_buckets < capacity;) x->n_buckets *= 2;
    x->pool = pool;
    x->block_tokens = block_tokens;
    x->capacity = capacity;
    x->nodes = och_malloc_array(capacity, sizeof *x->nodes);
    x->tokens = och_malloc_array((size_t)capacity * block_tokens, sizeof *x->tokens);
    x->buckets = och_malloc_array(x->n_buckets, sizeof *x->buckets);
    if (!x->nodes || !x->tokens || !x->buckets) {
        och_free(x->nodes), och_free(x->tokens), och_free(x->buckets), och_free(x);
        return och_err_nomem(err, (uint64_t)capacity * (sizeof(node) + 4 * (uint64_t)block_tokens), "a prefix index");
    }
    memset(x->buckets, 0xFF, x->n_buckets * sizeof *x->buckets); /* NIL */
    for (uint32_t i = 0; i < capacity; i++) x->nodes[i].chain = i + 1 < capacity ? (int32_t)i + 1 : NIL;
    x->oldest = x->newest = NIL;
    och_kv_pool_set_evict(pool, evict_for_pool, x);
    *out_index = x;
    return OCH_OK;
}

void och_kv_prefix_destroy(och_kv_prefix *x) {
    if (!x) return;
    och_kv_pool_set_evict(x->pool, NULL, NULL);
    for (int32_t i = x->oldest; i != NIL; i = x->nodes[i].newer) och_kv_block_release(x->pool, x->nodes[i].block);
    och_free(x->nodes);
    och_free(x->tokens);
    och_free(x->buckets);
    och_free(x);
}

/* The finaliser of MurmurHash3 (Appleby), as a mixing step. */
static uint64_t mix(uint64_t h) {
    h ^= h >> 33, h *= 0xFF51AFD7ED558CCDu, h ^= h >> 33, h *= 0xC4CEB9FE1A85EC53u;
    return h ^ h >> 33;
}

static uint64_t chain_hash(const och_kv_prefix *x, int32_t parent, const int32_t *tokens) {
    uint64_t h = parent == NIL ? 0x9E3779B97F4A7C15u : x->nodes[parent].hash;
    for (uint32_t i = 0; i < x->block_tokens; i++) h = mix(h ^ (uint32_t)tokens[i]) + 0x9E3779B97F4A7C15u;
    return h;
}

static int32_t *bucket_of(och_kv_prefix *x, uint64_t hash) { return &x->buckets[hash & (x->n_buckets - 1)]; }

/* The node of these tokens under this parent; parent and tokens are compared in full. */
static int32_t find(och_kv_prefix *x, int32_t parent, uint64_t hash, const int32_t *tokens) {
    for (int32_t i = *bucket_of(x, hash); i != NIL; i = x->nodes[i].chain)
        if (x->nodes[i].hash == hash && x->nodes[i].parent == parent &&
            !memcmp(x->tokens + (size_t)i * x->block_tokens, tokens, x->block_tokens * sizeof *tokens))
            return i;
    return NIL;
}

static void unlink_use(och_kv_prefix *x, int32_t i) {
    node *n = &x->nodes[i];
    if (n->older != NIL) x->nodes[n->older].newer = n->newer;
    else x->oldest = n->newer;
    if (n->newer != NIL) x->nodes[n->newer].older = n->older;
    else x->newest = n->older;
}

static void link_newest(och_kv_prefix *x, int32_t i) {
    x->nodes[i].newer = NIL;
    x->nodes[i].older = x->newest;
    if (x->newest != NIL) x->nodes[x->newest].newer = i;
    else x->oldest = i;
    x->newest = i;
}

/* From a leaf to its root: parents end up newer. */
static void touch_path(och_kv_prefix *x, int32_t i) {
    for (; i != NIL; i = x->nodes[i].parent) {
        unlink_use(x, i);
        link_newest(x, i);
    }
}

/* `keep` is a node that an insert is about to hang a child on. */
static bool evict_one(och_kv_prefix *x, int32_t keep) {
    for (int32_t i = x->oldest; i != NIL; i = x->nodes[i].newer) {
        node *n = &x->nodes[i];
        if (n->children || i == keep || och_kv_block_refs(x->pool, n->block) != 1) continue;
        int32_t *at = bucket_of(x, n->hash);
        while (*at != i) at = &x->nodes[*at].chain;
        *at = n->chain;
        unlink_use(x, i);
        if (n->parent != NIL) x->nodes[n->parent].children--;
        och_kv_block_release(x->pool, n->block);
        n->chain = x->unused;
        x->unused = i;
        x->stats.nodes--;
        x->stats.evicted++;
        return true;
    }
    return false;
}

uint32_t och_kv_prefix_insert(och_kv_prefix *x, const int32_t *tokens, uint32_t n_tokens, const int32_t *blocks) {
    int32_t parent = NIL;
    uint32_t n = 0;
    for (; n < n_tokens / x->block_tokens; n++, tokens += x->block_tokens) {
        uint64_t hash = chain_hash(x, parent, tokens);
        int32_t i = find(x, parent, hash, tokens);
        if (i == NIL) {
            if (x->unused == NIL && !evict_one(x, parent)) break;
            i = x->unused;
            node *nd = &x->nodes[i];
            x->unused = nd->chain;
            *nd = (node){hash, parent, *bucket_of(x, hash), NIL, NIL, blocks[n], 0};
            *bucket_of(x, hash) = i;
            memcpy(x->tokens + (size_t)i * x->block_tokens, tokens, x->block_tokens * sizeof *tokens);
            och_kv_block_retain(x->pool, blocks[n]);
            if (parent != NIL) x->nodes[parent].children++;
            link_newest(x, i);
            x->stats.nodes++;
            x->stats.inserted++;
        }
        parent = i;
    }
    touch_path(x, parent);
    return n;
}

uint32_t och_kv_prefix_lookup(och_kv_prefix *x, const int32_t *tokens, uint32_t n_tokens, int32_t *blocks_out,
                              uint32_t cap) {
    uint32_t want = n_tokens / x->block_tokens, n = 0;
    int32_t parent = NIL;
    if (want > cap) want = cap;
    for (; n < want; n++, tokens += x->block_tokens) {
        int32_t i = find(x, parent, chain_hash(x, parent, tokens), tokens);
        if (i == NIL) break;
        blocks_out[n] = x->nodes[i].block;
        och_kv_block_retain(x->pool, blocks_out[n]);
        parent = i;
    }
    touch_path(x, parent);
    x->stats.lookups++;
    x->stats.hit_blocks += n;
    x->stats.missed_blocks += want - n;
    return n;
}

uint32_t och_kv_prefix_evict(och_kv_prefix *x, uint32_t n) {
    uint32_t done = 0;
    while (done < n && evict_one(x, NIL)) done++;
    return done;
}

void och_kv_prefix_get_stats(const och_kv_prefix *x, och_kv_prefix_stats *out_stats) { *out_stats = x->stats; }
