/* ATTENTION over paged keys and values.
 *
 * The positions of a sequence are cut in chunks of OCH_CPU_ATTN_CHUNK. A unit, one query row and head, takes from each
 * chunk it sees a partial softmax, and merges them in the order of positions (Dao et al. 2022, section 3.1). The cuts
 * depend on positions alone, so that a row's bytes depend neither on the rows beside it nor on threads. An item is a
 * span of consecutive rows of one sequence and one key head; with few items (decode) the chunks of an item are spread
 * over the members, and merged after a barrier by the same steps. */
#include "op/cpu/attention.h"

#include <string.h>

#define CHUNK OCH_CPU_ATTN_CHUNK
#define UNITS OCH_CPU_ATTN_UNITS

typedef struct job {
    const och_op_call *call;
    const och_cpu_kernels *kernels;
    const och_attr_attention *a;
    int group;         /* query heads a key head */
    int heads_at_once; /* of them in one item */
    int heads_items;   /* items a span */
    int span_rows;
    bool split;
    int64_t n_items, max_chunks;
    uint8_t *member_mem;
    size_t member_bytes;
    float *parts; /* split: [item][chunk][unit] of a part: max, sum, acc */
} job;

/* An item: heads [head, head + heads) of a span; unit r * heads + i is row r and head `head + i`. */
typedef struct item {
    och_cpu_span s;
    int head, heads, kv_head;
    int chunk_begin, chunk_end;
} item;

static item item_of(const job *j, och_cpu_span s, int index) {
    item it = {.s = s, .kv_head = index / (j->heads_items / j->a->kv.n_kv_heads)};
    int within = index % (j->heads_items / j->a->kv.n_kv_heads) * j->heads_at_once;
    it.head = it.kv_head * j->group + within;
    it.heads = j->group - within < j->heads_at_once ? j->group - within : j->heads_at_once;
    it.chunk_begin = och_cpu_first_seen(j->a, s.first_position) / CHUNK;
    it.chunk_end = (s.first_position + s.n_rows - 1) / CHUNK + 1;
    return it;
}

static int units_of(const item *it) { return it->s.n_rows * it->heads; }

static float *result(const job *j, const item *it, int u) {
    return och_cpu_attended(j->call, it->s.row + u / it->heads, it->head + u % it->heads);
}

static void chunk_of(const job *j, const item *it, int chunk, och_cpu_attn_chunk *c) {
    const och_attr_attention *a = j->a;
    const int base = chunk * CHUNK;
    c->k_dtype = j->call->in[OCH_ATTENTION_K].dtype;
    c->v_dtype = j->call->in[OCH_ATTENTION_V].dtype;
    c->k_stride = a->kv.block_tokens;
    c->head_dim = a->kv.head_dim;
    c->scale = a->scale;
    c->softcap = a->softcap;
    c->n_units = units_of(it);
    int first = CHUNK, last = 0;
    for (int u = 0; u < c->n_units; u++) {
        int position = it->s.first_position + u / it->heads;
        int begin = och_cpu_first_seen(a, position) - base, end = position + 1 - base;
        c->begin[u] = begin < 0 ? 0 : begin;
        c->end[u] = end > CHUNK ? CHUNK : end;
        c->q[u] = och_cpu_query(j->call, it->s.row + u / it->heads, it->head + u % it->heads);
        if (c->begin[u] >= c->end[u]) continue;
        if (c->begin[u] < first) first = c->begin[u];
        if (c->end[u] > last) last = c->end[u];
    }
    c->first = first & ~15;
    c->n_positions = last;
    for (int t = c->first; t < last; t += 16)
        och_cpu_kv_at(j->call, it->s.seq, it->kv_head, base + t, &c->k[t / 16], &c->v[t / 16]);
}

/* ---- items one after the other ---- */

static void attend(const job *j, const item *it, float *mem) {
    const int64_t d = j->a->kv.head_dim;
    och_cpu_attn_part part[UNITS], total[UNITS];
    const int n = units_of(it);
    for (int u = 0; u < n; u++) {
        part[u].acc = mem + u * d;
        total[u] = (och_cpu_attn_part){-__builtin_inff(), 0, mem + (UNITS + u) * d};
        memset(total[u].acc, 0, (size_t)d * sizeof(float));
    }
    for (int chunk = it->chunk_begin; chunk < it->chunk_end; chunk++) {
        och_cpu_attn_chunk c;
        chunk_of(j, it, chunk, &c);
        j->kernels->attn_chunk(&c, part);
        for (int u = 0; u < n; u++) j->kernels->attn_merge(&total[u], &part[u], d);
    }
    for (int u = 0; u < n; u++) j->kernels->attn_finish(&total[u], result(j, it, u), d);
}

void och_cpu_attention_one(const och_op_call *c, const och_cpu_kernels *kernels, int64_t row, int head, float *mem) {
    const och_attr_attention *a = &c->attr.attention;
    const job j = {.call = c, .kernels = kernels, .a = a};
    item it = {.s = och_cpu_span_at(c, row, 1), .head = head, .heads = 1, .kv_head = head / (a->n_heads / a->kv.n_kv_heads)};
    it.chunk_begin = och_cpu_first_seen(a, it.s.first_position) / CHUNK;
    it.chunk_end = it.s.first_position / CHUNK + 1;
    attend(&j, &it, mem);
}

static void clear_row(const job *j, int64_t row) {
    const och_tensor *y = &j->call->out[0];
    memset(och_cpu_row(y, row), 0, (size_t)y->cols * sizeof(float));
}

static void whole_member(void *arg, const och_pool_member *me) {
    const job *j = arg;
    float *mem = (float *)(void *)(j->member_mem + (size_t)me->index * j->member_bytes);
    int64_t number = 0;
    for (int64_t row = 0; row < j->call->out[0].rows;) {
        och_cpu_span s = och_cpu_span_at(j->call, row, j->span_rows);
        row += s.n_rows;
        if (s.seq < 0) {
            if (number++ % me->n == me->index) clear_row(j, s.row);
            continue;
        }
        /* dealt in turn: later rows see more keys */
        for (int i = 0; i < j->heads_items; i++)
            if (number++ % me->n == me->index) {
                item it = item_of(j, s, i);
                attend(j, &it, mem);
            }
    }
}

/* ---- few items: chunks spread over the members ---- */

static och_cpu_attn_part stored_part(const job *j, int64_t number, int64_t chunk, int u, float **out_numbers) {
    const int64_t d = j->a->kv.head_dim, size = d + 16;
    float *p = j->parts + ((number * j->max_chunks + chunk) * UNITS + u) * size;
    *out_numbers = p;
    return (och_cpu_attn_part){p[0], p[1], p + 16};
}

static void split_member(void *arg, const och_pool_member *me) {
    const job *j = arg;
    const int64_t d = j->a->kv.head_dim;
    for (int phase = 0; phase < 2; phase++) {
        int64_t number = 0, total = 0, at = 0, begin = 0, end = 0;
        /* phase 0: a run of chunks each; phase 1: units in turn */
        for (int64_t row = 0; row < j->call->out[0].rows && phase == 0; row++) {
            och_cpu_span s = och_cpu_span_at(j->call, row, j->span_rows);
            if (s.seq < 0) continue;
            item it = item_of(j, s, 0);
            total += (int64_t)(it.chunk_end - it.chunk_begin) * j->heads_items;
        }
        och_cpu_share(total, me, &begin, &end);
        for (int64_t row = 0; row < j->call->out[0].rows; row++) {
            och_cpu_span s = och_cpu_span_at(j->call, row, j->span_rows);
            if (s.seq < 0) {
                if (phase == 0 && me->index == 0) clear_row(j, row);
                continue;
            }
            for (int i = 0; i < j->heads_items; i++, number++) {
                item it = item_of(j, s, i);
                const int n = units_of(&it);
                if (phase == 0) {
                    for (int chunk = it.chunk_begin; chunk < it.chunk_end; chunk++, at++) {
                        if (at < begin || at >= end) continue;
                        och_cpu_attn_part part[UNITS];
                        float *numbers[UNITS];
                        for (int u = 0; u < n; u++)
                            part[u] = stored_part(j, number, chunk - it.chunk_begin, u, &numbers[u]);
                        och_cpu_attn_chunk c;
                        chunk_of(j, &it, chunk, &c);
                        j->kernels->attn_chunk(&c, part);
                        for (int u = 0; u < n; u++) {
                            numbers[u][0] = part[u].max;
                            numbers[u][1] = part[u].sum;
                        }
                    }
                    continue;
                }
                for (int u = 0; u < n; u++, at++) {
                    if (at % me->n != me->index) continue;
                    float *mem = (float *)(void *)(j->member_mem + (size_t)me->index * j->member_bytes), *numbers;
                    och_cpu_attn_part sum = {-__builtin_inff(), 0, mem};
                    memset(mem, 0, (size_t)d * sizeof(float));
                    for (int chunk = 0; chunk < it.chunk_end - it.chunk_begin; chunk++) {
                        och_cpu_attn_part part = stored_part(j, number, chunk, u, &numbers);
                        j->kernels->attn_merge(&sum, &part, d);
                    }
                    j->kernels->attn_finish(&sum, result(j, &it, u), d);
                }
            }
        }
        if (phase == 0) och_pool_barrier(me);
    }
}

/* ---- the call ---- */

static job job_of(const och_device *device, const och_op_call *c) {
    const och_attr_attention *a = &c->attr.attention;
    job j = {.call = c, .kernels = och_cpu_kernels_get(device), .a = a, .group = a->n_heads / a->kv.n_kv_heads};
    const int members = och_pool_size(och_cpu_pool((och_device *)(uintptr_t)device));
    j.heads_at_once = j.group < UNITS ? j.group : UNITS;
    j.heads_items = (j.group + j.heads_at_once - 1) / j.heads_at_once * a->kv.n_kv_heads;
    j.span_rows = UNITS / j.heads_at_once;
    j.n_items = c->out[0].rows * j.heads_items;
    j.split = members > 1 && j.n_items < 2 * members;
    if (j.split) j.span_rows = 1;
    int64_t positions = c->in[OCH_ATTENTION_TABLES].cols * a->kv.block_tokens;
    if (a->window > 0 && positions > a->window) positions = a->window;
    j.max_chunks = positions / CHUNK + 2;
    j.member_bytes = (size_t)(2 * UNITS * a->kv.head_dim) * sizeof(float);
    return j;
}

static uint64_t parts_bytes(const job *j, int64_t items) {
    return (uint64_t)(items * j->max_chunks * UNITS * (j->a->kv.head_dim + 16)) * sizeof(float);
}

uint64_t och_cpu_attention_scratch(const och_device *device, const och_op_call *c) {
    job j = job_of(device, c);
    uint64_t members = (uint64_t)och_pool_size(och_cpu_pool((och_device *)(uintptr_t)device));
    int64_t items = j.n_items < (int64_t)(2 * members) - 1 ? j.n_items : (int64_t)(2 * members) - 1;
    uint64_t bytes = members * j.member_bytes;
    if (members > 1) bytes += parts_bytes(&j, items);
#if defined(__x86_64__)
    if (och_cpu_attention_amx_serves(device, c)) {
        uint64_t amx = och_cpu_attention_amx_scratch(device, c);
        if (amx > bytes) bytes = amx;
    }
#endif
    return bytes;
}

/* Every number that leads to memory is looked at before any is followed. */
static och_status check_ids(const och_op_call *c, och_err *err) {
    const och_attr_attention *a = &c->attr.attention;
    const och_tensor *tables = &c->in[OCH_ATTENTION_TABLES], *seqs = &c->in[OCH_ATTENTION_SEQS];
    const int64_t bt = a->kv.block_tokens, n_blocks = c->in[OCH_ATTENTION_K].rows;
    for (int64_t row = 0; row < seqs->rows;) {
        och_cpu_span s = och_cpu_span_at(c, row, INT32_MAX);
        row += s.n_rows;
        if (s.seq < 0) continue;
        if (s.seq >= tables->rows)
            return och_err_set(err, OCH_RANGE, "op attention, operand seqs: row %lld: expected a sequence below %lld, found %d",
                               (long long)s.row, (long long)tables->rows, s.seq);
        int64_t last = (int64_t)s.first_position + s.n_rows - 1, first = och_cpu_first_seen(a, s.first_position);
        int64_t longest = last - och_cpu_first_seen(a, (int)last) + 1;
        if (s.first_position < 0 || longest > tables->cols * bt)
            return och_err_set(err, OCH_RANGE,
                               "op attention, operand positions: row %lld: expected a position whose span fits %lld tokens of "
                               "table, found %lld and window %d",
                               (long long)s.row, (long long)(tables->cols * bt), (long long)last, a->window);
        const int32_t *table = (const int32_t *)(const void *)((const char *)tables->host + (uint64_t)s.seq * tables->row_bytes);
        for (int64_t b = first / bt; b <= last / bt; b++)
            if (table[b % tables->cols] < 0 || table[b % tables->cols] >= n_blocks)
                return och_err_set(err, OCH_RANGE,
                                   "op attention, operand tables: sequence %d, entry %lld: expected a block of 0 to %lld, found %d",
                                   s.seq, (long long)(b % tables->cols), (long long)n_blocks - 1, table[b % tables->cols]);
    }
    return OCH_OK;
}

och_status och_cpu_attention_run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    if (c->out[0].rows == 0) return OCH_OK;
    OCH_TRY(check_ids(c, err));
    const och_device *device = ctx->queue->device;
    och_pool *pool = och_cpu_pool(ctx->queue->device);
    uint64_t members = (uint64_t)och_pool_size(pool), used;
#if defined(__x86_64__)
    if (!ctx->batch_invariant && och_cpu_attention_amx_serves(device, c)) {
        used = och_cpu_attention_amx_scratch(device, c);
        if (used > ctx->scratch_bytes) goto small;
        och_cpu_attention_amx_run(ctx, c);
        return OCH_OK;
    }
#endif
    job j = job_of(device, c);
    used = members * j.member_bytes;
    j.member_mem = ctx->scratch;
    if (j.split) {
        j.parts = (float *)(void *)(j.member_mem + used);
        used += parts_bytes(&j, j.n_items);
    }
    if (used > ctx->scratch_bytes) goto small;
    och_pool_run(pool, j.split ? split_member : whole_member, &j);
    return OCH_OK;
small:
    return och_err_set(err, OCH_INTERNAL, "op attention: %llu bytes of scratch are needed, %llu were given",
                       (unsigned long long)used, (unsigned long long)ctx->scratch_bytes);
}

och_status och_cpu_attention_supports(const och_device *device, const och_op_call *c, och_err *err) {
    OCH_TRY(och_cpu_supports(device, c, err));
    const och_attr_kv *kv = &c->attr.attention.kv;
    if (kv->block_tokens % 16 || kv->head_dim % 16)
        return och_err_set(err, OCH_UNSUPPORTED, "expected block_tokens and head_dim in multiples of 16, found %d and %d",
                           kv->block_tokens, kv->head_dim);
    return OCH_OK;
}
