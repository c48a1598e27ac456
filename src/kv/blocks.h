/* State blocks: a pool of block ids with reference counts, and the tables by which sequences name them. No device
 * memory and no device is known here; a block id becomes an address in the op that reads it.
 *
 * Ids are 0 .. n_blocks-1. Whoever holds an id in a table (or in the prefix index) holds one reference. A block with
 * more than one reference is read-only: reserve gives the writer a fresh one and a copy order. Nothing allocates
 * memory after create, so a step never does. Not thread-safe: one scheduler owns a pool. */
#ifndef OCH_KV_BLOCKS_H
#define OCH_KV_BLOCKS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define OCH_KV_NONE (-1)

/* ---- pool ---- */

typedef struct och_kv_pool och_kv_pool;

/* n_blocks of 1 .. 2^31-1. The caller destroys it after every sequence and index that uses it. */
OCH_WARN_UNUSED och_status och_kv_pool_create(uint32_t n_blocks, och_kv_pool **out_pool, och_err *err);
void och_kv_pool_destroy(och_kv_pool *pool); /* NULL is fine */

/* A block with one reference, or OCH_KV_NONE when none is free. O(1). */
int32_t och_kv_block_allocate(och_kv_pool *pool);
void och_kv_block_retain(och_kv_pool *pool, int32_t block);
void och_kv_block_release(och_kv_pool *pool, int32_t block); /* the last one frees it */
uint32_t och_kv_block_refs(const och_kv_pool *pool, int32_t block);

uint32_t och_kv_pool_blocks(const och_kv_pool *pool);
uint32_t och_kv_pool_free(const och_kv_pool *pool);
uint32_t och_kv_pool_peak(const och_kv_pool *pool);     /* most blocks in use at once since create */
uint64_t och_kv_pool_refs_sum(const och_kv_pool *pool); /* all references, for checks */

/* Called when a pool runs dry: frees at least one block that nobody but the callee references and returns true, or
 * false. The prefix index registers itself here; NULL takes it away. */
typedef bool (*och_kv_evict_fn)(void *user);
void och_kv_pool_set_evict(och_kv_pool *pool, och_kv_evict_fn fn, void *user);
/* Evicts until n_blocks are free; false when that many cannot be had. */
bool och_kv_pool_make_room(och_kv_pool *pool, uint64_t n_blocks);

/* ---- groups ---- */

typedef enum och_kv_kind {
    OCH_KV_PAGED, /* logical block b at entry b; grows to max_context */
    OCH_KV_RING,  /* sliding window: logical block b at entry b % table_len */
    OCH_KV_SLOT   /* one block a sequence whatever its length: recurrent and convolution state */
} och_kv_kind;

/* Layers whose state has one shape and one lifetime share a group. */
typedef struct och_kv_group_desc {
    och_kv_kind kind;
    uint32_t block_tokens;    /* tokens a block holds (ignored for SLOT) */
    uint32_t window;          /* RING: a token attends to itself and window-1 tokens before it */
    uint32_t max_step_tokens; /* RING: most tokens one step may add */
    uint32_t max_context;     /* most tokens of a sequence */
} och_kv_group_desc;

/* Entries of a table: PAGED ceil(max_context / block); RING ceil((window + max_step_tokens) / block) + 1, but no more
 * than PAGED would need; SLOT 1. 0 for a description that makes no sense. */
uint32_t och_kv_table_len(const och_kv_group_desc *g);

/* ---- sequences ---- */

typedef struct och_kv_seq och_kv_seq;

/* Device work that a reserve asks for: copy block src to block dst of that group, whole, before the step writes. */
typedef struct och_kv_copy {
    uint32_t group;
    int32_t src, dst;
} och_kv_copy;

/* One table a group, filled with OCH_KV_NONE. pools[g] serves group g (one pool may serve several groups whose blocks
 * have the same size). groups and pools are copied; 1 to 16 groups. */
OCH_WARN_UNUSED och_status och_kv_seq_create(const och_kv_group_desc *groups, och_kv_pool *const *pools,
                                             uint32_t n_groups, och_kv_seq **out_seq, och_err *err);
void och_kv_seq_destroy(och_kv_seq *seq); /* releases its blocks; NULL is fine */

/* A sequence with the same contents; every block is shared. What `seq` had reserved and not committed is void
 * afterwards (its last block is shared now) and is not carried over: reserve again before the next step. */
OCH_WARN_UNUSED och_status och_kv_seq_fork(och_kv_seq *seq, och_kv_seq **out_seq, och_err *err);

/* Copies that one reserve can ask for at most: one a group. */
uint32_t och_kv_seq_max_copies(const och_kv_seq *seq);

/* Makes positions [length, length + n_new_tokens) writable: every block they fall in is held by this sequence alone.
 * A shared block that keeps earlier positions gets a copy order, which must be carried out before the step writes, and
 * which is given once. All or nothing: on error the sequence has not changed (an index may have evicted).
 * RANGE: beyond max_context or a ring's max_step_tokens, or copies_cap below max_copies; NOMEM: a pool has too few free
 * blocks (the message says how many are free and how many are needed). Repeating a reserve costs nothing. The block of
 * a SLOT group at length 0 holds garbage: the op that starts from nothing does not read it. */
OCH_WARN_UNUSED och_status och_kv_seq_reserve(och_kv_seq *seq, uint32_t n_new_tokens, och_kv_copy *copies,
                                              uint32_t copies_cap, uint32_t *out_n_copies, och_err *err);

/* The step has written n tokens, all of them reserved. */
OCH_WARN_UNUSED och_status och_kv_seq_commit(och_kv_seq *seq, uint32_t n_tokens, och_err *err);

/* Drops positions from `length` on and releases blocks that hold nothing else. RANGE when length exceeds the present
 * one or when a ring has already given away what position `length` would attend to (reserving counts as overwriting);
 * a SLOT group can only be truncated to 0 (it has no history) or to the present length. Nothing changes on error. */
OCH_WARN_UNUSED och_status och_kv_seq_truncate(och_kv_seq *seq, uint32_t length, och_err *err);

/* Gives n full blocks whose contents are known (a prefix hit) to a sequence that is empty, whose length is then
 * n * block_tokens. On OK the references that the caller held pass to the sequence. Only for sequences of one PAGED
 * group; INVALID otherwise, RANGE beyond max_context. */
OCH_WARN_UNUSED och_status och_kv_seq_adopt_take(och_kv_seq *seq, const int32_t *blocks, uint32_t n_blocks,
                                                 och_err *err);

uint32_t och_kv_seq_length(const och_kv_seq *seq);
uint32_t och_kv_seq_groups(const och_kv_seq *seq);
const och_kv_group_desc *och_kv_seq_group(const och_kv_seq *seq, uint32_t group);
/* The table as it is uploaded: table_len ids, position p in entry (p / block_tokens) % table_len; OCH_KV_NONE where
 * nothing is. The pointer stays valid until destroy. */
const int32_t *och_kv_seq_table(const och_kv_seq *seq, uint32_t group, uint32_t *out_len);
/* The oldest position that is still resident in a group: 0 for PAGED. */
uint32_t och_kv_seq_oldest(const och_kv_seq *seq, uint32_t group);

#endif
