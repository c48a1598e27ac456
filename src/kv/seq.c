/* Sequences: a table a group.
 *
 * A group's resident logical blocks are [first, end): PAGED keeps first at 0; RING loses its oldest block when a new
 * one takes its entry. The blocks that hold committed positions are [first, blocks(length)); those up to `end` are
 * reserved. */
#include "kv/blocks.h"

#include "base/alloc.h"
#include "base/size.h"

#include <inttypes.h>
#include <string.h>

#define MAX_GROUPS 16

typedef struct group {
    och_kv_group_desc desc;
    och_kv_pool *pool;
    int32_t *table; /* inside the sequence's own allocation */
    uint32_t table_len;
    uint32_t first, end;
} group;

struct och_kv_seq {
    uint32_t n_groups;
    uint32_t length;
    uint32_t reserved; /* positions below this are writable or written */
    group groups[MAX_GROUPS];
    int32_t tables[];
};

static uint64_t ceil_blocks(const group *g, uint64_t tokens) {
    return g->desc.kind == OCH_KV_SLOT ? tokens > 0 : och_u64_ceil_div(tokens, g->desc.block_tokens);
}

static int32_t *entry(group *g, uint32_t logical) { return &g->table[logical % g->table_len]; }

uint32_t och_kv_table_len(const och_kv_group_desc *d) {
    if (d->max_context == 0) return 0;
    if (d->kind == OCH_KV_SLOT) return 1;
    if (d->block_tokens == 0) return 0;
    uint64_t paged = och_u64_ceil_div(d->max_context, d->block_tokens);
    if (d->kind == OCH_KV_PAGED) return (uint32_t)paged;
    if (d->kind != OCH_KV_RING || d->window == 0 || d->max_step_tokens == 0) return 0;
    /* One block more than window and step fill, since both may begin inside a block. */
    uint64_t ring = och_u64_ceil_div((uint64_t)d->window + d->max_step_tokens, d->block_tokens) + 1;
    return (uint32_t)OCH_MIN(paged, ring);
}

och_status och_kv_seq_create(const och_kv_group_desc *groups, och_kv_pool *const *pools, uint32_t n_groups,
                             och_kv_seq **out_seq, och_err *err) {
    *out_seq = NULL;
    if (n_groups == 0 || n_groups > MAX_GROUPS)
        return och_err_set(err, OCH_RANGE, "sequence: expected 1 to %d state groups, found %" PRIu32, MAX_GROUPS,
                           n_groups);
    uint64_t entries = 0;
    for (uint32_t i = 0; i < n_groups; i++) {
        uint32_t len = och_kv_table_len(&groups[i]);
        if (len == 0)
            return och_err_set(err, OCH_RANGE,
                               "state group %" PRIu32 ": expected a known kind and sizes above 0, found "
                               "kind %d, block of %" PRIu32 ", window %" PRIu32 ", step %" PRIu32 ", context %" PRIu32,
                               i, (int)groups[i].kind, groups[i].block_tokens, groups[i].window,
                               groups[i].max_step_tokens, groups[i].max_context);
        entries += len;
    }
    size_t bytes = sizeof(och_kv_seq) + entries * sizeof(int32_t);
    och_kv_seq *s = och_malloc(bytes);
    if (!s) return och_err_nomem(err, bytes, "the block tables of a sequence");
    memset(s, 0, sizeof *s);
    s->n_groups = n_groups;
    memset(s->tables, 0xFF, entries * sizeof(int32_t)); /* OCH_KV_NONE */
    int32_t *at = s->tables;
    for (uint32_t i = 0; i < n_groups; i++) {
        group *g = &s->groups[i];
        g->desc = groups[i];
        g->pool = pools[i];
        g->table = at;
        g->table_len = och_kv_table_len(&groups[i]);
        at += g->table_len;
    }
    *out_seq = s;
    return OCH_OK;
}

/* Gives back the logical blocks from `end` on. */
static void drop_from(group *g, uint32_t end) {
    while (g->end > end) {
        int32_t *e = entry(g, --g->end);
        och_kv_block_release(g->pool, *e);
        *e = OCH_KV_NONE;
    }
}

void och_kv_seq_destroy(och_kv_seq *s) {
    if (!s) return;
    for (uint32_t i = 0; i < s->n_groups; i++) {
        group *g = &s->groups[i];
        drop_from(g, g->first);
    }
    och_free(s);
}

och_status och_kv_seq_fork(och_kv_seq *seq, och_kv_seq **out_seq, och_err *err) {
    och_kv_group_desc descs[MAX_GROUPS];
    och_kv_pool *pools[MAX_GROUPS];
    for (uint32_t i = 0; i < seq->n_groups; i++) descs[i] = seq->groups[i].desc, pools[i] = seq->groups[i].pool;
    OCH_TRY(och_kv_seq_create(descs, pools, seq->n_groups, out_seq, err));
    och_kv_seq *s = *out_seq;
    s->length = s->reserved = seq->reserved = seq->length;
    for (uint32_t i = 0; i < seq->n_groups; i++) {
        group *from = &seq->groups[i], *to = &s->groups[i];
        to->first = from->first;
        to->end = (uint32_t)OCH_MAX(ceil_blocks(from, seq->length), from->first);
        for (uint32_t b = to->first; b < to->end; b++) {
            *entry(to, b) = *entry(from, b);
            och_kv_block_retain(to->pool, *entry(to, b));
        }
    }
    return OCH_OK;
}

uint32_t och_kv_seq_max_copies(const och_kv_seq *s) { return s->n_groups; }

/* The block that position `length` falls in, when earlier positions live in it too and somebody else reads it. */
static bool copies_last(group *g, uint32_t length, uint32_t *out_logical) {
    uint32_t keeps = g->desc.kind == OCH_KV_SLOT ? length : length % g->desc.block_tokens;
    *out_logical = g->desc.kind == OCH_KV_SLOT ? 0 : length / g->desc.block_tokens;
    return keeps && och_kv_block_refs(g->pool, *entry(g, *out_logical)) > 1;
}

/* Blocks that must come from the pool to reach `end`. An entry of a ring whose old block is ours alone is reused. */
static uint64_t blocks_needed(group *g, uint32_t length, uint32_t end) {
    uint32_t logical;
    uint64_t need = copies_last(g, length, &logical);
    for (uint32_t b = g->end; b < end; b++) {
        int32_t held = *entry(g, b);
        need += held == OCH_KV_NONE || och_kv_block_refs(g->pool, held) > 1;
    }
    return need;
}

static och_status check_reserve(const och_kv_seq *s, uint32_t n, uint32_t copies_cap, och_err *err) {
    for (uint32_t i = 0; i < s->n_groups; i++) {
        const och_kv_group_desc *d = &s->groups[i].desc;
        if (n > d->max_context - s->length)
            return och_err_set(err, OCH_RANGE,
                               "sequence of %" PRIu32 " tokens: %" PRIu32 " more exceed the context of %" PRIu32,
                               s->length, n, d->max_context);
        if (d->kind == OCH_KV_RING && n > d->max_step_tokens)
            return och_err_set(err, OCH_RANGE,
                               "state group %" PRIu32 ": a step of %" PRIu32 " tokens exceeds the %" PRIu32
                               " that its ring was made for",
                               i, n, d->max_step_tokens);
    }
    if (copies_cap < s->n_groups)
        return och_err_set(err, OCH_RANGE, "reserve: expected room for %" PRIu32 " copy orders, found %" PRIu32,
                           s->n_groups, copies_cap);
    return OCH_OK;
}

och_status och_kv_seq_reserve(och_kv_seq *s, uint32_t n, och_kv_copy *copies, uint32_t copies_cap,
                              uint32_t *out_n_copies, och_err *err) {
    *out_n_copies = 0;
    if (n == 0) return OCH_OK;
    OCH_TRY(check_reserve(s, n, copies_cap, err));
    uint64_t need[MAX_GROUPS];
    uint32_t end[MAX_GROUPS];
    for (uint32_t i = 0; i < s->n_groups; i++) {
        group *g = &s->groups[i];
        end[i] = (uint32_t)OCH_MAX(ceil_blocks(g, (uint64_t)s->length + n), g->end);
        need[i] = blocks_needed(g, s->length, end[i]);
    }
    for (uint32_t i = 0; i < s->n_groups; i++) {
        och_kv_pool *pool = s->groups[i].pool;
        uint64_t total = 0;
        for (uint32_t j = 0; j < s->n_groups; j++)
            if (s->groups[j].pool == pool) total += need[j];
        if (!och_kv_pool_make_room(pool, total))
            return och_err_set(err, OCH_NOMEM, "state pool: %" PRIu32 " of %" PRIu32 " blocks are free, and %" PRIu64
                               " are needed for %" PRIu32 " more tokens", och_kv_pool_free(pool),
                               och_kv_pool_blocks(pool), total, n);
    }
    /* From here on nothing can fail. */
    for (uint32_t i = 0; i < s->n_groups; i++) {
        group *g = &s->groups[i];
        uint32_t last;
        if (copies_last(g, s->length, &last)) {
            int32_t *e = entry(g, last), src = *e;
            *e = och_kv_block_allocate(g->pool);
            och_kv_block_release(g->pool, src);
            copies[(*out_n_copies)++] = (och_kv_copy){i, src, *e};
        }
        for (; g->end < end[i]; g->end++) {
            int32_t *e = entry(g, g->end);
            if (*e != OCH_KV_NONE) {
                g->first = g->end - g->table_len + 1;
                if (och_kv_block_refs(g->pool, *e) == 1) continue;
                och_kv_block_release(g->pool, *e);
            }
            *e = och_kv_block_allocate(g->pool);
        }
    }
    s->reserved = OCH_MAX(s->reserved, s->length + n);
    return OCH_OK;
}

och_status och_kv_seq_commit(och_kv_seq *s, uint32_t n, och_err *err) {
    if (n > s->reserved - s->length)
        return och_err_set(err, OCH_RANGE,
                           "commit: expected at most the %" PRIu32 " tokens that are reserved, found %" PRIu32,
                           s->reserved - s->length, n);
    s->length += n;
    return OCH_OK;
}

och_status och_kv_seq_truncate(och_kv_seq *s, uint32_t length, och_err *err) {
    if (length > s->length)
        return och_err_set(err, OCH_RANGE, "truncate: expected at most the length %" PRIu32 ", found %" PRIu32,
                           s->length, length);
    for (uint32_t i = 0; i < s->n_groups; i++) {
        const group *g = &s->groups[i];
        if (g->desc.kind == OCH_KV_SLOT && length != 0 && length != s->length)
            return och_err_set(err, OCH_RANGE, "truncate to %" PRIu32 ": state group %" PRIu32
                               " keeps no history, only 0 or the length %" PRIu32 " can be had", length, i, s->length);
        if (g->desc.kind != OCH_KV_RING || length == 0) continue;
        uint32_t attends = length >= g->desc.window ? length - g->desc.window + 1 : 0;
        if (och_kv_seq_oldest(s, i) > attends)
            return och_err_set(err, OCH_RANGE,
                               "truncate to %" PRIu32 ": state group %" PRIu32 " needs position %" PRIu32
                               " and its ring begins at %" PRIu32,
                               length, i, attends, och_kv_seq_oldest(s, i));
    }
    s->length = s->reserved = length;
    for (uint32_t i = 0; i < s->n_groups; i++) {
        group *g = &s->groups[i];
        if (length) {
            drop_from(g, (uint32_t)ceil_blocks(g, length));
        } else {
            drop_from(g, g->first);
            g->first = g->end = 0;
        }
    }
    return OCH_OK;
}

och_status och_kv_seq_adopt_take(och_kv_seq *s, const int32_t *blocks, uint32_t n_blocks, och_err *err) {
    group *g = &s->groups[0];
    if (s->n_groups != 1 || g->desc.kind != OCH_KV_PAGED || s->length || g->end)
        return och_err_set(err, OCH_INVALID, "adopting blocks: expected an empty sequence of one paged group, found %"
                           PRIu32 " groups and %" PRIu32 " tokens", s->n_groups, s->length);
    if ((uint64_t)n_blocks * g->desc.block_tokens > g->desc.max_context)
        return och_err_set(err, OCH_RANGE,
                           "adopting %" PRIu32 " blocks of %" PRIu32 " tokens: the context has %" PRIu32, n_blocks,
                           g->desc.block_tokens, g->desc.max_context);
    for (uint32_t i = 0; i < n_blocks; i++) g->table[i] = blocks[i];
    g->end = n_blocks;
    s->length = s->reserved = n_blocks * g->desc.block_tokens;
    return OCH_OK;
}

uint32_t och_kv_seq_length(const och_kv_seq *s) { return s->length; }
uint32_t och_kv_seq_groups(const och_kv_seq *s) { return s->n_groups; }

const och_kv_group_desc *och_kv_seq_group(const och_kv_seq *s, uint32_t i) { return &s->groups[i].desc; }

const int32_t *och_kv_seq_table(const och_kv_seq *s, uint32_t i, uint32_t *out_len) {
    *out_len = s->groups[i].table_len;
    return s->groups[i].table;
}

uint32_t och_kv_seq_oldest(const och_kv_seq *s, uint32_t i) {
    const group *g = &s->groups[i];
    return g->desc.kind == OCH_KV_RING ? g->first * g->desc.block_tokens : 0;
}
