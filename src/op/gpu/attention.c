/* Attention over paged state (kernels/attention.ok, attention_rows.ok). Few tokens, or `batch_invariant`: each token's
 * positions are cut into splits, whose results are merged; their size and number follow from the device, the table's capacity
 * and the window, never from what a step holds. Many tokens of a sequence: tiles of them on matrix instructions, where the
 * cache holds halves or less anyway.
 *
 * Splits' results of a token with a long table are megabytes: a step's tokens go through them in slices of as many as fit into
 * PART_BYTES, one slice's results after another's in the same scratch. */
#include "op/gpu/gpu.h"

#include "base/size.h"
#include "op/gpu/cuts.h"

#include <stdio.h>
#include <string.h>

#define LARGEST_CHUNK 512
#define LEAST_CHUNK 32
#define AT_ONCE 7 /* with more workgroups of a compute unit splits are longer, or kernels made otherwise (attention_many.def) */
#define PART_WAVES 4 /* of a workgroup */
#define PART_BYTES (UINT64_C(64) << 20)

/* Query heads that a workgroup takes: the most that divide the group and leave registers for their sums. */
static int heads_together(const och_attr_attention *a) {
    int group = a->n_heads / a->kv.n_kv_heads, most = a->kv.head_dim > 128 ? 4 : 8;
    while (group % most) most--;
    return most;
}

/* Positions that a token may see, and those before them in the first one's block, from which splits begin. */
static int64_t reach_of(const och_op_call *c) {
    const och_attr_attention *a = &c->attr.attention;
    int64_t reach = c->in[OCH_ATTENTION_TABLES].cols * a->kv.block_tokens;
    return a->window > 0 ? OCH_MIN(reach, (int64_t)a->window) + a->kv.block_tokens : reach;
}

static int64_t splits_in(int64_t reach, int chunk) { return OCH_MAX((reach + chunk - 1) / chunk, 1); }

/* One cache of tens of MiB still has what one launch leaves for the next, whatever is read meanwhile. (32 MiB are eight caches.) */
static bool large_cache(const och_device *d) { return d->info.l2_bytes > UINT64_C(32) << 20; }

/* Whether what the splits of a token leave for the merge is little beside what they read: else it costs memory's time twice,
 * unless it is in the device's cache by then (of which a part may be one of several, beside the others). */
static bool little_is_left(const och_device *d, const och_op_call *c, int chunk) {
    const och_attr_attention *a = &c->attr.attention;
    uint64_t row = 0, left = (uint64_t)splits_in(reach_of(c), chunk) * (uint64_t)a->n_heads * (uint64_t)(a->kv.head_dim + 4) * 4;
    (void)och_dtype_row_bytes(c->in[OCH_ATTENTION_K].dtype, (uint64_t)a->kv.head_dim, &row);
    uint64_t read = (uint64_t)reach_of(c) * (uint64_t)a->kv.n_kv_heads * row * 2;
    return left <= read / 40 || (large_cache(d) ? left <= d->info.l2_bytes / 8 : left + read <= d->info.l2_bytes / 4);
}

/* Whether splits of so many positions hold whole blocks, and their lanes divide a head's elements. */
static bool chunk_fits(const och_device *d, const och_op_call *c, int chunk) {
    const och_attr_attention *a = &c->attr.attention;
    int shares = 4 * PART_WAVES * OCH_MAX(d->info.wave_size, 32) / chunk;
    return chunk % a->kv.block_tokens == 0 && (a->kv.head_dim % 8 || a->kv.head_dim % (8 * OCH_MAX(shares, 1)) == 0);
}

/* Positions of a split: where those leave much for the merge more, and fewer as long as compute units lack workgroups. What a large
 * cache says was measured (docs/performance.md), the others' numbers were not. */
static int chunk_of(const och_device *d, const och_op_call *c) {
    const och_attr_attention *a = &c->attr.attention;
    int64_t reach = reach_of(c), columns = a->n_heads / heads_together(a);
    int best = LARGEST_CHUNK, least = 128, each = 4; /* workgroups of a compute unit */
    if (large_cache(d)) best = 128, least = LEAST_CHUNK, each = 3;
    while (best < LARGEST_CHUNK && !(chunk_fits(d, c, best) && little_is_left(d, c, best))) best *= 2;
    for (int chunk = best / 2; chunk >= least && columns * splits_in(reach, best) < each * (int64_t)d->info.n_compute_units; chunk /= 2)
        if (chunk_fits(d, c, chunk) && little_is_left(d, c, chunk)) best = chunk;
    /* Longer ones where they are as many as run at once all the same: each begins with q and ends with a row for the merge. */
    while (large_cache(d) && best < LARGEST_CHUNK && chunk_fits(d, c, 2 * best) &&
           columns * splits_in(reach, 2 * best) > AT_ONCE * (int64_t)d->info.n_compute_units)
        best *= 2;
    return best;
}

/* How a token's positions are split: asked once a call. */
typedef struct cut {
    int chunk;      /* positions of a split */
    int64_t splits; /* of a token */
    bool many;      /* more than AT_ONCE workgroups of a compute unit */
} cut;

static cut cut_of(const och_device *d, const och_op_call *c) {
    const och_attr_attention *a = &c->attr.attention;
    int chunk = chunk_of(d, c);
    int64_t splits = splits_in(reach_of(c), chunk), workgroups = a->n_heads / heads_together(a) * splits;
    return (cut){chunk, splits, workgroups > AT_ONCE * (int64_t)d->info.n_compute_units};
}

/* What attention_part is made with beside where splits are many. */
static const char *many_of(const och_device *d) {
#define OCH_ATTENTION_MANY(arch, spec) {arch, spec},
    static const struct {
        const char *arch, *spec;
    } rows[] = {
#include "op/gpu/attention_many.def"
    };
#undef OCH_ATTENTION_MANY
    size_t i = OCH_GPU_FIND_ROW(d, rows, 0);
    return i < OCH_COUNT(rows) ? rows[i].spec : "";
}

/* last: what makes it merge too, "" or one of by_last(). */
static och_status part_kernel(const och_device *d, const och_op_call *c, const cut *s, const char *last, const och_gpu_kernel **out_k,
                              och_err *err) {
    const och_attr_attention *a = &c->attr.attention;
    char cache[OCH_GPU_CACHE_SPEC_BYTES];
    och_gpu_cache_spec(d, c->in[OCH_ATTENTION_K].dtype, cache);
    char plain[160];
    snprintf(plain, sizeof plain, "%s,HD=%d,GG=%d,BT=%d,CHUNK=%d,WAVES=%d%s", cache, a->kv.head_dim, heads_together(a), a->kv.block_tokens,
             s->chunk, PART_WAVES, last);
    return och_gpu_kernel_cut(d, "attention_part", plain, s->many ? many_of(d) : "", out_k, err);
}

/* Lanes of a merge, where splits are so many that more than a part's workgroup has read their rows; else 0. A turn of memory reads 16 of
 * them for each 128 lanes. */
static int wide_merge(const och_device *d, const cut *s) {
    if (!large_cache(d)) return 0;
    return s->splits >= 64 ? 512 : s->splits > 16 ? 256 : 0;
}

/* What attention_part is made with to merge what it leaves; NULL: a launch of its own does, whose sums those are. */
static const char *by_last(const och_device *d, const cut *s, bool codes) {
    if (!och_gpu_wish_of(d).attention_last || wide_merge(d, s)) return NULL;
    return codes ? ",LAST=true,CODES=true" : ",LAST=true";
}

static och_status merge_kernel(const och_device *d, const och_op_call *c, const cut *s, bool codes, const och_gpu_kernel **out_k,
                               och_err *err) {
    char plain[40], wide[32] = "";
    snprintf(plain, sizeof plain, "HD=%d%s", c->attr.attention.kv.head_dim, codes ? ",CODES=true" : "");
    int lanes = wide_merge(d, s);
    if (lanes) snprintf(wide, sizeof wide, ",WAVES=%d%s", lanes / OCH_MAX(d->info.wave_size, 32), lanes > 256 ? ",TABLE=512" : "");
    return och_gpu_kernel_cut(d, "attention_merge", plain, wide, out_k, err);
}

/* Tokens of one sequence that fill enough of a tile's rows: a tile goes through one sequence after another. */
#define TILES_FROM 9

static bool tiles_fit(const och_op_call *c) {
    const och_attr_attention *a = &c->attr.attention;
    och_dtype t = c->in[OCH_ATTENTION_K].dtype;
    return t != OCH_DTYPE_F32 && a->kv.head_dim % 16 == 0 && a->kv.head_dim <= 256 &&
           a->kv.block_tokens % 16 == 0;
}

/* Waves and positions a step such that the tiles fit into 64 KiB of LDS. */
static och_status tiles_kernel(const och_device *d, const och_op_call *c, const och_gpu_kernel **out_k, och_err *err) {
    const och_attr_attention *a = &c->attr.attention;
    char cache[OCH_GPU_CACHE_SPEC_BYTES];
    och_gpu_cache_spec(d, c->in[OCH_ATTENTION_K].dtype, cache);
    return och_gpu_kernel_get(d, "attention_tiles", out_k, err, "%s,HD=%d,BT=%d,KT=%d,WAVES=%d", cache, a->kv.head_dim,
                              a->kv.block_tokens, a->kv.block_tokens % 32 ? 16 : 32, a->kv.head_dim > 128 ? 2 : 4);
}

/* Of blocks of at most so many tokens LDS holds four. */
#define ROWS_LARGEST_BLOCK 32

static uint64_t state_block_bytes(const och_attr_attention *a) {
    return (uint64_t)a->kv.n_kv_heads * (uint64_t)a->kv.head_dim * (uint64_t)a->kv.block_tokens * 2;
}

/* How attention_rows is cut for a call; NULL: it does not take it, or tiles are better. It takes halves, in blocks one behind
 * another, so that rows of all of them are one matrix. */
static const char *rows_of_call(const och_device *d, const och_op_call *c) {
#define OCH_ATTENTION_ROWS(arch, most, spec) {arch, most, spec},
    static const struct {
        const char *arch;
        int most;
        const char *spec;
    } rows[] = {
#include "op/gpu/attention_rows.def"
    };
#undef OCH_ATTENTION_ROWS
    const och_attr_attention *a = &c->attr.attention;
    const och_tensor *k = &c->in[OCH_ATTENTION_K], *v = &c->in[OCH_ATTENTION_V];
    if (!tiles_fit(c) || (k->dtype != OCH_DTYPE_F16 && k->dtype != OCH_DTYPE_BF16) || a->kv.block_tokens > ROWS_LARGEST_BLOCK ||
        k->row_bytes != state_block_bytes(a) || v->row_bytes != state_block_bytes(a))
        return NULL;
    for (size_t i = OCH_GPU_FIND_ROW(d, rows, 0); i < OCH_COUNT(rows); i = OCH_GPU_FIND_ROW(d, rows, i + 1))
        if (a->kv.head_dim <= rows[i].most) return rows[i].spec;
    return NULL;
}

/* och_gpu_absent(): tiles are the way. */
static och_status rows_kernel(const och_device *d, const och_op_call *c, const och_gpu_kernel **out_k, och_err *err) {
    const och_attr_attention *a = &c->attr.attention;
    const char *rows = rows_of_call(d, c);
    char cache[OCH_GPU_CACHE_SPEC_BYTES];
    if (!rows) return OCH_UNAVAILABLE;
    och_gpu_cache_spec(d, c->in[OCH_ATTENTION_K].dtype, cache);
    cache[strcspn(cache, ",")] = 0; /* of the cache's facts the first: its type */
    return och_gpu_kernel_get(d, "attention_rows", out_k, err, "%s,%sHD=%d,GG=%d,BT=%d,CAP=%d", cache, rows, a->kv.head_dim,
                              heads_together(a), a->kv.block_tokens, a->softcap > 0.0f);
}

och_status och_gpu_attention_supports(const och_device *d, const och_op_call *c, och_err *err) {
    const och_attr_attention *a = &c->attr.attention;
    /* A workgroup has at least 128 lanes; those with four elements each hold a head. */
    int most = a->kv.head_dim % 4 ? 128 : 512;
    if (a->kv.head_dim > most)
        return och_err_set(err, OCH_UNSUPPORTED, "takes heads of at most %d elements, these have %d", most, a->kv.head_dim);
    if (LARGEST_CHUNK % a->kv.block_tokens)
        return och_err_set(err, OCH_UNSUPPORTED, "takes blocks of a number of tokens that divides %d, these have %d",
                           LARGEST_CHUNK,
                           a->kv.block_tokens);
    const cut s = cut_of(d, c);
    if (och_tensor_present(&c->out[OCH_ATTENTION_YCODES])) {
        if (a->kv.head_dim % 32 || !och_gpu_wish_of(d).next_codes)
            return och_err_set(err, OCH_UNSUPPORTED, "writes no codes of heads of %d elements, or of any", a->kv.head_dim);
        OCH_TRY(och_gpu_codes_kernel(d, err));
        och_status made = merge_kernel(d, c, &s, true, NULL, err);
        if (made != OCH_OK && !och_gpu_absent(made)) return made;
        och_err_clear(err);
    }
    for (int codes = 0; codes <= och_tensor_present(&c->out[OCH_ATTENTION_YCODES]); codes++) {
        const char *last = by_last(d, &s, codes);
        och_status made = last ? part_kernel(d, c, &s, last, NULL, err) : OCH_OK;
        if (made != OCH_OK && !och_gpu_absent(made)) return made;
        och_err_clear(err);
    }
    och_status rows = rows_kernel(d, c, NULL, err);
    if (rows != OCH_OK && !och_gpu_absent(rows)) return rows;
    och_err_clear(err);
    if (rows != OCH_OK && tiles_fit(c)) OCH_TRY(tiles_kernel(d, c, NULL, err));
    OCH_TRY(part_kernel(d, c, &s, "", NULL, err));
    return merge_kernel(d, c, &s, false, NULL, err);
}

/* Rows of `part` that a token takes, and bytes of a row. Heads are at most 2^16 of at most 512 elements, positions 2^31. */
static uint64_t token_rows(const och_op_call *c, const cut *s) {
    return (uint64_t)c->attr.attention.n_heads * (uint64_t)s->splits;
}
static uint64_t part_row_bytes(const och_op_call *c) { return (uint64_t)(c->attr.attention.kv.head_dim + 4) * 4; }

/* Tokens of a slice: one at least. */
static int64_t slice_tokens(const och_op_call *c, const cut *s) {
    uint64_t fit = PART_BYTES / (token_rows(c, s) * part_row_bytes(c));
    return OCH_MIN(c->in[OCH_ATTENTION_Q].rows, (int64_t)OCH_MAX(fit, 1));
}

uint64_t och_gpu_attention_scratch(const och_device *d, const och_op_call *c) {
    const cut s = cut_of(d, c);
    return (uint64_t)slice_tokens(c, &s) * token_rows(c, &s) * part_row_bytes(c) + 256;
}

/* The arguments that both forms share, in args[0 .. 9]. */
enum { SHARED = 10 };
static void shared_args(const och_op_call *c, och_kl_actual *args) {
    const och_attr_attention *a = &c->attr.attention;
    const och_kl_actual shared[SHARED] = {
        och_gpu_tensor("q", &c->in[OCH_ATTENTION_Q]), och_gpu_tensor("kcache", &c->in[OCH_ATTENTION_K]),
        och_gpu_tensor("vcache", &c->in[OCH_ATTENTION_V]), och_gpu_tensor("tables", &c->in[OCH_ATTENTION_TABLES]),
        och_gpu_tensor("seqs", &c->in[OCH_ATTENTION_SEQS]), och_gpu_tensor("positions", &c->in[OCH_ATTENTION_POSITIONS]),
        och_gpu_real("scale", (double)a->scale), och_gpu_real("cap", (double)a->softcap), och_gpu_int("window", a->window),
        och_gpu_int("heads", a->n_heads)};
    memcpy(args, shared, sizeof shared);
}

/* Rows [first, first + n) of a tensor with a row a token. */
static och_tensor rows_of(const och_tensor *t, int64_t first, int64_t n) {
    och_tensor r = *t;
    r.addr = och_dev_addr_add(t->addr, (uint64_t)first * t->row_bytes);
    r.host = NULL;
    r.rows = n;
    return r;
}

/* In place too: a slice's q is read before its y is written, and no other slice's is either. */
static och_status splits(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    static const int by_token[] = {OCH_ATTENTION_Q, OCH_ATTENTION_SEQS, OCH_ATTENTION_POSITIONS};
    const och_attr_attention *a = &c->attr.attention;
    const och_gpu_kernel *part_k, *merge_k, *last_k = NULL;
    och_gpu_scratch scratch = {ctx->scratch_addr, 0, ctx->scratch_bytes};
    och_dev_addr part;
    const och_device *d = ctx->queue->device;
    const cut by = cut_of(d, c);
    int64_t n = c->in[OCH_ATTENTION_Q].rows, slice = slice_tokens(c, &by);
    const och_tensor *codes = och_op_codes(&c->out[OCH_ATTENTION_YCODES], n);
    const och_tensor none = {.dtype = OCH_DTYPE_NONE};
    bool made = codes != NULL; /* by the merge: there may be a pack without that, and no compiler */
    if (!n) return OCH_OK;
    OCH_TRY(part_kernel(d, c, &by, "", &part_k, err));
    och_status st = merge_kernel(d, c, &by, made, &merge_k, err);
    if (och_gpu_absent(st) && made) {
        made = false;
        och_err_clear(err);
        st = merge_kernel(d, c, &by, made, &merge_k, err);
    }
    OCH_TRY(st);
    /* Where each token's heads have a counter, and there is code for it. */
    const char *last = ctx->counters.value && slice * (a->n_heads / heads_together(a)) <= OCH_OP_COUNTERS ? by_last(d, &by, made) : NULL;
    if (last && och_gpu_absent(st = part_kernel(d, c, &by, last, &last_k, err))) {
        last_k = NULL;
        och_err_clear(err);
        st = OCH_OK;
    }
    OCH_TRY(st);
    if (last_k) part_k = last_k;
    OCH_TRY(och_gpu_take(&scratch, (uint64_t)slice * token_rows(c, &by) * part_row_bytes(c), &part, err));
    for (int64_t at = 0; at < n; at += slice) {
        och_op_call s = *c;
        int64_t rows = OCH_MIN(n - at, slice);
        for (int i = 0; i < (int)OCH_COUNT(by_token); i++) s.in[by_token[i]] = rows_of(&c->in[by_token[i]], at, rows);
        s.out[0] = rows_of(&c->out[0], at, rows);
        och_tensor here = none;
        if (made) here = rows_of(codes, at, rows);
        const och_kl_actual y = och_gpu_tensor("y", made ? &none : &s.out[0]),
                            as_codes = och_gpu_codes_arg("codes", made ? &here : NULL, rows, s.out[0].cols);
        och_kl_actual args[SHARED + 8];
        shared_args(&s, args);
        args[SHARED] = och_gpu_int("kv_heads", a->kv.n_kv_heads);
        args[SHARED + 1] = och_gpu_matrix("part", part, rows * (int64_t)token_rows(c, &by), a->kv.head_dim + 4, part_row_bytes(c));
        args[SHARED + 2] = och_gpu_int("splits", by.splits);
        args[SHARED + 3] = och_gpu_tensor("kpast", n == 1 ? &c->in[OCH_ATTENTION_K] : &none);
        args[SHARED + 4] = och_gpu_tensor("vpast", n == 1 ? &c->in[OCH_ATTENTION_V] : &none);
        args[SHARED + 5] = (och_kl_actual){.name = "arrived", .addr = last_k ? ctx->counters.value : 0, .dims = {last_k ? OCH_OP_COUNTERS : 0}};
        args[SHARED + 6] = last_k ? y : (och_kl_actual){.name = "y"};
        args[SHARED + 7] = last_k ? as_codes : (och_kl_actual){.name = "codes"};
        OCH_TRY(och_gpu_launch_beside(ctx, part_k, args, SHARED + 8, OCH_LDS_AS_BEFORE, err));
        if (last_k) continue;
        och_kl_actual merge[] = {args[SHARED + 1],
                                 och_gpu_tensor("seqs", &s.in[OCH_ATTENTION_SEQS]),
                                 och_gpu_tensor("positions", &s.in[OCH_ATTENTION_POSITIONS]),
                                 y,
                                 as_codes,
                                 args[SHARED + 2],
                                 och_gpu_int("window", a->window),
                                 och_gpu_int("chunk", by.chunk),
                                 och_gpu_int("block", a->kv.block_tokens)};
        OCH_TRY(och_gpu_launch_beside(ctx, merge_k, merge, OCH_COUNT(merge), OCH_LDS_AS_BEFORE, err));
    }
    return codes && !made ? och_gpu_codes_of(ctx, &c->out[0], codes, err) : OCH_OK;
}

och_status och_gpu_attention_run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    const och_attr_attention *a = &c->attr.attention;
    const och_gpu_kernel *k;
    och_kl_actual args[SHARED + 2];
    if (c->in[OCH_ATTENTION_Q].rows < TILES_FROM * OCH_MAX(ctx->n_runs, 1) || ctx->batch_invariant || !tiles_fit(c) ||
        och_op_codes(&c->out[OCH_ATTENTION_YCODES], c->in[OCH_ATTENTION_Q].rows))
        return splits(ctx, c, err);
    shared_args(c, args);
    args[SHARED] = och_gpu_int("kv_heads", a->kv.n_kv_heads);
    args[SHARED + 1] = och_gpu_tensor("y", &c->out[0]);
    och_status rows = rows_kernel(ctx->queue->device, c, &k, err);
    if (rows == OCH_OK) {
        for (int i = 0; i < 2; i++) {
            const och_tensor *t = &c->in[i ? OCH_ATTENTION_V : OCH_ATTENTION_K];
            int64_t cols = i ? a->kv.head_dim : a->kv.block_tokens;
            args[1 + i] = och_gpu_matrix(i ? "vcache" : "kcache", t->addr, t->rows * (t->cols / cols), cols, (uint64_t)cols * 2);
        }
        return och_gpu_launch(ctx, k, args, SHARED + 2, err);
    }
    if (!och_gpu_absent(rows)) return rows;
    och_err_clear(err);
    OCH_TRY(tiles_kernel(ctx->queue->device, c, &k, err));
    return och_gpu_launch(ctx, k, args, SHARED + 2, err);
}
