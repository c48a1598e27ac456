/* The prefix index: finds blocks whose contents are a prompt's beginning. Paged groups only, whole blocks only.
 *
 * A node is one full block of tokens after its parent node; the key is a hash chain, and tokens and parent are
 * compared in full, so that a collision can never serve wrong state. The index holds one reference to each of its
 * blocks. Blocks that nobody else references can be evicted, least recently used first, leaves before parents. Fixed
 * capacity, nothing allocated after create. */
#ifndef OCH_KV_PREFIX_H
#define OCH_KV_PREFIX_H

#include "kv/blocks.h"

typedef struct och_kv_prefix och_kv_prefix;

typedef struct och_kv_prefix_stats {
    uint64_t lookups, hit_blocks, missed_blocks, inserted, evicted;
    uint32_t nodes;
} och_kv_prefix_stats;

/* capacity: most nodes; at least 1. Registers itself as the pool's evictor; destroy it before the pool. */
OCH_WARN_UNUSED och_status och_kv_prefix_create(och_kv_pool *pool, uint32_t block_tokens, uint32_t capacity,
                                                och_kv_prefix **out_index, och_err *err);
void och_kv_prefix_destroy(och_kv_prefix *index); /* releases its references; NULL is fine */

/* Registers the full blocks of tokens[0, n_tokens): blocks[i] holds tokens [i*B, (i+1)*B). A block that is known
 * already under those tokens stays as it was (the caller keeps its own copy). Stops quietly when full and nothing can
 * be evicted. Returns how many of the blocks are in the index afterwards, counted from the first. */
uint32_t och_kv_prefix_insert(och_kv_prefix *index, const int32_t *tokens, uint32_t n_tokens, const int32_t *blocks);

/* The longest known prefix in whole blocks: fills blocks_out[0, result), each with one reference retained for the
 * caller, and marks them used. cap bounds the result. */
uint32_t och_kv_prefix_lookup(och_kv_prefix *index, const int32_t *tokens, uint32_t n_tokens, int32_t *blocks_out,
                              uint32_t cap);

/* Evicts up to n blocks that only the index references; returns how many. */
uint32_t och_kv_prefix_evict(och_kv_prefix *index, uint32_t n);

void och_kv_prefix_get_stats(const och_kv_prefix *index, och_kv_prefix_stats *out_stats);

#endif
