/* The tile variant of ATTENTION, for prefill: queries and keys, then weights and values, as bfloat16 products.
 *
 * Each side is cut in a high and a low bfloat16 (exact for float16 keys and values; 16 bits of queries and weights), and
 * three of the four products are taken, so that scores and sums keep about 16 bits. Positions go in chunks of CHUNK with
 * a running maximum (Dao et al. 2022, algorithm 1); cuts depend on positions alone, and a row's tile neighbours do not
 * touch its sums. A unit is a query row and a head; 16 units make a tile, two tiles go together. */
#include "op/cpu/attention.h"
#include "op/cpu/linear_amx.h"

#include "op/cpu/simd_avx512.h"
#include "op/cpu/math.inc.h"

#define CHUNK 128
#define SPAN_ROWS 32
#define MAX_HEADS 16 /* of one key head that go together */
#define TILE 512     /* bfloat16 elements of a tile */
#define PARTS 2

/* Rows a sequence from which tiles pay. */
#define MIN_ROWS 16

typedef struct job {
    const och_op_call *call;
    int group, heads_at_once, heads_items;
    uint8_t *mem;
    size_t member_bytes;
} job;

/* A member's memory. Tiles are [part][...][TILE]. */
typedef struct workspace {
    uint16_t *q[PARTS]; /* [unit tile][32 dims] */
    uint16_t *k[PARTS]; /* [32 dims][16 positions], pairs of dims interleaved */
    uint16_t *v[PARTS]; /* [32 positions][16 dims], pairs of positions interleaved */
    uint16_t *p[PARTS]; /* [unit tile of the pair][32 positions] */
    float *s;           /* [32][CHUNK] scores of a pair of unit tiles */
    float *t;           /* [4][256] sums of a chunk */
    float *o;           /* [unit][head_dim] */
    float *max, *sum;   /* [unit] */
    float *plain;       /* for och_cpu_attention_one */
} workspace;

static int heads_at_once(const och_attr_attention *a) {
    int group = a->n_heads / a->kv.n_kv_heads;
    return group < MAX_HEADS ? group : MAX_HEADS;
}

static size_t workspace_layout(const och_attr_attention *a, uint8_t *mem, workspace *out_w) {
    const size_t d = (size_t)a->kv.head_dim, units = ((size_t)(SPAN_ROWS * heads_at_once(a)) + 31) & ~(size_t)31;
    size_t at = 0;
#define PLACE(field, n)                                                                                                \
    do {                                                                                                               \
        if (mem) out_w->field = (void *)(mem + at);                                                                    \
        at += och_cpu_round64((n) * sizeof *out_w->field);                                                             \
    } while (0)
    for (int part = 0; part < PARTS; part++) {
        PLACE(q[part], units * d);
        PLACE(k[part], CHUNK * d);
        PLACE(v[part], CHUNK * d);
        PLACE(p[part], (size_t)32 * CHUNK);
    }
    PLACE(s, (size_t)32 * CHUNK);
    PLACE(t, (size_t)4 * 256);
    PLACE(o, units * d);
    PLACE(max, units);
    PLACE(sum, units);
    PLACE(plain, OCH_CPU_ATTENTION_ONE_FLOATS(d));
#undef PLACE
    return at;
}

bool och_cpu_attention_amx_serves(const och_device *device, const och_op_call *c) {
    /* by shapes alone, so that rows of one call never differ in variant */
    return och_cpu_device_isa(device) == OCH_CPU_AMX && c->in[OCH_ATTENTION_K].dtype != OCH_DTYPE_F32 &&
           c->attr.attention.kv.head_dim % 32 == 0 &&
           c->out[0].rows >= MIN_ROWS * (c->in[OCH_ATTENTION_TABLES].rows > 0 ? c->in[OCH_ATTENTION_TABLES].rows : 1);
}

uint64_t och_cpu_attention_amx_scratch(const och_device *device, const och_op_call *c) {
    workspace w;
    return (uint64_t)och_pool_size(och_cpu_pool((och_device *)(uintptr_t)device)) *
           workspace_layout(&c->attr.attention, NULL, &w);
}

/* High and low part of 32 numbers. The high part is cut off, not rounded: one operation, and the low part's rounding is
 * what remains either way. */
SIMD_INLINE void put_parts(vf a, vf b, uint16_t *high, uint16_t *low) {
    const __m512 mask = _mm512_castsi512_ps(_mm512_set1_epi32((int)0xFFFF0000u));
    const vf ah = _mm512_and_ps(a, mask), bh = _mm512_and_ps(b, mask);
    _mm512_storeu_si512(high, (__m512i)_mm512_cvtne2ps_pbh(bh, ah));
    _mm512_storeu_si512(low, (__m512i)_mm512_cvtne2ps_pbh(vf_sub(b, bh), vf_sub(a, ah)));
}

/* The same of two rows of 16, element by element side by side: a row of a right-hand tile. */
SIMD_INLINE void put_pairs(vf even, vf odd, uint16_t *high, uint16_t *low) {
    const __m512i mix = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5,
                                         20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    __m512i h = _mm512_permutexvar_epi16(mix, (__m512i)_mm512_cvtne2ps_pbh(odd, even));
    _mm512_storeu_si512(high, h);
    even = vf_sub(even, _mm512_castsi512_ps(_mm512_slli_epi32(h, 16)));
    odd = vf_sub(odd, _mm512_castsi512_ps(_mm512_and_si512(h, _mm512_set1_epi32((int)0xFFFF0000u))));
    _mm512_storeu_si512(low, _mm512_permutexvar_epi16(mix, (__m512i)_mm512_cvtne2ps_pbh(odd, even)));
}

SIMD_INLINE vf load(och_dtype dtype, const void *p, int64_t i) {
    if (dtype == OCH_DTYPE_F8_E4M3) return vf_load_e4m3((const uint8_t *)p + i);
    return dtype == OCH_DTYPE_F16 ? vf_load_f16((const uint16_t *)p + i) : vf_load_bf16((const uint16_t *)p + i);
}

typedef struct item {
    och_cpu_span s;
    int head, heads, kv_head, n_units;
} item;

static void load_queries(const job *j, const item *it, const workspace *w) {
    const och_attr_attention *a = &j->call->attr.attention;
    const int64_t dims = a->kv.head_dim / 32;
    const vf scale = vf_set1(a->scale);
    for (int u = 0; u < ((it->n_units + 31) & ~31); u++) {
        const float *q = u < it->n_units ? och_cpu_query(j->call, it->s.row + u / it->heads, it->head + u % it->heads) : NULL;
        for (int64_t i = 0; i < dims; i++) {
            int64_t at = (u / 16 * dims + i) * TILE + u % 16 * 32;
            vf lo = q ? vf_mul(vf_load(q + 32 * i), scale) : vf_zero(), hi = q ? vf_mul(vf_load(q + 32 * i + 16), scale) : vf_zero();
            put_parts(lo, hi, w->q[0] + at, w->q[1] + at);
        }
    }
}

/* Keys and values of positions [first, last) of the chunk at `base`. Values past the end are 0, since a weight of 0 does
 * not hide what is not a number; keys past the end only reach scores that are masked. */
static void load_keys_values(const job *j, const item *it, const workspace *w, int base, int first, int last) {
    const och_attr_kv *kv = &j->call->attr.attention.kv;
    const och_dtype dtype = j->call->in[OCH_ATTENTION_K].dtype;
    const int64_t d = kv->head_dim, bt = kv->block_tokens;
    for (int t = first & ~31; t < last; t += 16) {
        uint16_t *vh = w->v[0] + t / 32 * (d / 16) * TILE + t % 32 / 2 * 32, *vl = w->v[1] + (vh - w->v[0]);
        if (t + 16 <= first) { /* in the same tile as others, but seen by none: may not exist */
            for (int64_t g = 0; g < d / 16; g++)
                for (int r = 0; r < 8; r++) put_pairs(vf_zero(), vf_zero(), vh + g * TILE + r * 32, vl + g * TILE + r * 32);
            continue;
        }
        const void *k, *v;
        och_cpu_kv_at(j->call, it->s.seq, it->kv_head, base + t, &k, &v);
        for (int64_t i = 0; i < d; i += 2) {
            int64_t at = (i / 32 * (CHUNK / 16) + t / 16) * TILE + i % 32 / 2 * 32;
            put_pairs(load(dtype, k, i * bt), load(dtype, k, (i + 1) * bt), w->k[0] + at, w->k[1] + at);
        }
        for (int64_t g = 0; g < d / 16; g++)
            for (int r = 0; r < 8; r++)
                put_pairs(t + 2 * r < last ? load(dtype, v, 2 * r * d + 16 * g) : vf_zero(),
                          t + 2 * r + 1 < last ? load(dtype, v, (2 * r + 1) * d + 16 * g) : vf_zero(),
                          vh + g * TILE + r * 32, vl + g * TILE + r * 32);
    }
    if ((last + 15) / 16 % 2) { /* the other half of the last tile of values */
        int t = (last + 15) & ~15;
        uint16_t *vh = w->v[0] + t / 32 * (d / 16) * TILE + 8 * 32, *vl = w->v[1] + (vh - w->v[0]);
        for (int64_t g = 0; g < d / 16; g++)
            for (int r = 0; r < 8; r++) put_pairs(vf_zero(), vf_zero(), vh + g * TILE + r * 32, vl + g * TILE + r * 32);
    }
}

/* (rows a0, a1) x (columns b0, b1) over n steps, tiles of a side `step` apart; high x high + low x high + high x low.
 * `low` is where the low part lies from the high part. */
typedef struct side {
    const uint16_t *x0, *x1;
    int64_t step, low;
} side;

static void multiply(side a, side b, int64_t n) {
    /* the loads of tiles are not known to the compiler as reads of memory */
    __asm__ volatile("" ::: "memory");
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t i = 0; i < n; i++) {
        const uint16_t *a0 = a.x0 + i * a.step, *a1 = a.x1 + i * a.step, *b0 = b.x0 + i * b.step, *b1 = b.x1 + i * b.step;
        _tile_loadd(4, a0 + a.low, 64);
        _tile_loadd(5, a1 + a.low, 64);
        _tile_loadd(6, b0, 64);
        _tile_loadd(7, b1, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        _tile_loadd(4, a0, 64);
        _tile_loadd(5, a1, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        _tile_loadd(6, b0 + b.low, 64);
        _tile_loadd(7, b1 + b.low, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
}

/* Softmax of a unit's row of scores, groups [g0, g1) of 16 positions; `begin` and `end`: what it sees of the chunk.
 * Writes its row of p, and gives the factor for what was summed before. */
static float softmax_row(const och_attr_attention *a, float *s, int g0, int g1, int begin, int end, uint16_t *ph, uint16_t *pl,
                         float *max_io, float *sum_io) {
    vf max = vf_set1(-__builtin_inff()), sum = vf_zero();
    for (int g = g0; g < g1; g++) {
        vf x = vf_load(s + 16 * g);
        const bool cut = begin > 16 * g || end < 16 * (g + 1);
        if (a->softcap > 0) x = vf_mul(vf_set1(a->softcap), vf_tanh(vf_div(x, vf_set1(a->softcap))));
        if (cut) x = vf_keep_range(x, begin - 16 * g, end - 16 * g);
        if (cut || a->softcap > 0) vf_store(s + 16 * g, x);
        max = vf_max(x, max); /* in this order a score that is NaN leaves max as it is; its weight will be NaN */
    }
    const float old = *max_io, chunk = vf_hmax(max), new = chunk > old ? chunk : old, base = new == -__builtin_inff() ? 0 : new;
    const vf m = vf_set1(base);
    for (int g = g0 & ~1; g < g1; g += 2) {
        vf lo = g < g0 ? vf_zero() : vf_exp_below(vf_sub(vf_load(s + 16 * g), m));
        vf hi = g + 1 < g1 ? vf_exp_below(vf_sub(vf_load(s + 16 * (g + 1)), m)) : vf_zero();
        sum = vf_add(sum, vf_add(lo, hi));
        put_parts(lo, hi, ph + g / 2 * TILE, pl + g / 2 * TILE);
    }
    float factor = _mm512_cvtss_f32(vf_exp_below(vf_set1(old - base)));
    *max_io = new;
    *sum_io = *sum_io * factor + vf_sum(sum);
    return factor;
}

static void attend_pair(const job *j, const item *it, const workspace *w, int unit, int base, int first, int last) {
    const och_attr_attention *a = &j->call->attr.attention;
    const int64_t d = a->kv.head_dim, dims = d / 32;
    const int n = it->n_units - unit < 32 ? it->n_units - unit : 32;
    /* what these units see of the chunk */
    const int row0 = it->s.first_position + unit / it->heads, row1 = it->s.first_position + (unit + n - 1) / it->heads;
    int begin = och_cpu_first_seen(a, row0) - base, end = row1 + 1 - base;
    if (begin < first) begin = first;
    if (end > last) end = last;
    if (begin >= end) return;
    const int g0 = begin / 16, g1 = (end + 15) / 16;
    const side q = {w->q[0] + unit / 16 * dims * TILE, w->q[0] + (unit / 16 + 1) * dims * TILE, TILE, w->q[1] - w->q[0]};
    for (int g = g0; g < g1; g += 2) {
        /* an odd last group is computed twice rather than leaving half a tile pair undefined */
        const int h = g + 1 < g1 ? g + 1 : g;
        const side k = {w->k[0] + g * TILE, w->k[0] + h * TILE, CHUNK / 16 * TILE, w->k[1] - w->k[0]};
        multiply(q, k, dims);
        _tile_stored(0, w->s + 16 * g, CHUNK * sizeof(float));
        _tile_stored(2, w->s + 16 * CHUNK + 16 * g, CHUNK * sizeof(float));
        _tile_stored(1, w->s + 16 * h, CHUNK * sizeof(float));
        _tile_stored(3, w->s + 16 * CHUNK + 16 * h, CHUNK * sizeof(float));
    }
    float factor[32];
    for (int u = 0; u < 32; u++) {
        const int64_t at = u / 16 * (CHUNK / 32) * TILE + u % 16 * 32;
        if (u >= n) { /* fills up the tile */
            for (int g = g0 / 2; g < (g1 + 1) / 2; g++)
                put_parts(vf_zero(), vf_zero(), w->p[0] + at + g * TILE, w->p[1] + at + g * TILE);
            continue;
        }
        const int position = it->s.first_position + (unit + u) / it->heads;
        factor[u] = softmax_row(a, w->s + u * CHUNK, g0, g1, och_cpu_first_seen(a, position) - base, position + 1 - base,
                                w->p[0] + at, w->p[1] + at, &w->max[unit + u], &w->sum[unit + u]);
    }
    const int p0 = g0 / 2, steps = (g1 + 1) / 2 - p0;
    const side p = {w->p[0] + p0 * TILE, w->p[0] + (CHUNK / 32 + p0) * TILE, TILE, w->p[1] - w->p[0]};
    for (int64_t g = 0; g < d / 16; g += 2) {
        const side v = {w->v[0] + (p0 * (d / 16) + g) * TILE, w->v[0] + (p0 * (d / 16) + g + 1) * TILE, d / 16 * TILE,
                        w->v[1] - w->v[0]};
        multiply(p, v, steps);
        _tile_stored(0, w->t, 64);
        _tile_stored(1, w->t + 256, 64);
        _tile_stored(2, w->t + 512, 64);
        _tile_stored(3, w->t + 768, 64);
        for (int u = 0; u < n; u++) {
            float *o = w->o + (unit + u) * d + 16 * g;
            const float *t = w->t + u / 16 * 512 + u % 16 * 16;
            const vf f = vf_set1(factor[u]);
            vf_store(o, vf_fma(vf_load(o), f, vf_load(t)));
            vf_store(o + 16, vf_fma(vf_load(o + 16), f, vf_load(t + 256)));
        }
    }
}

static void attend(const job *j, const item *it, const workspace *w) {
    const och_attr_attention *a = &j->call->attr.attention;
    const int64_t d = a->kv.head_dim;
    load_queries(j, it, w);
    memset(w->o, 0, (size_t)(it->n_units * d) * sizeof(float));
    for (int u = 0; u < it->n_units; u++) {
        w->max[u] = -__builtin_inff();
        w->sum[u] = 0;
    }
    const int begin = och_cpu_first_seen(a, it->s.first_position), end = it->s.first_position + it->s.n_rows;
    for (int base = begin / CHUNK * CHUNK; base < end; base += CHUNK) {
        const int first = begin > base ? begin - base : 0, last = end - base < CHUNK ? end - base : CHUNK;
        load_keys_values(j, it, w, base, first, last);
        for (int unit = 0; unit < it->n_units; unit += 32) attend_pair(j, it, w, unit, base, first, last);
    }
    for (int u = 0; u < it->n_units; u++) {
        const int64_t row = it->s.row + u / it->heads;
        float *y = och_cpu_attended(j->call, row, it->head + u % it->heads);
        const vf inv = vf_set1(1.0f / w->sum[u]);
        /* What is not finite in a tile reaches units that do not see it, and an infinity in two parts is NaN: what that has
         * touched is done again without tiles. */
        vf odd = vf_mul(inv, vf_zero());
        for (int64_t i = 0; i < d; i += 16) odd = vf_fma(vf_load(w->o + u * d + i), vf_zero(), odd);
        if (vf_sum(odd) != 0) {
            och_cpu_attention_one(j->call, &och_cpu_kernels_avx512, row, it->head + u % it->heads, w->plain);
            continue;
        }
        for (int64_t i = 0; i < d; i += 16) vf_store(y + i, vf_mul(vf_load(w->o + u * d + i), inv));
    }
}

static void member(void *arg, const och_pool_member *me) {
    const job *j = arg;
    const och_tensor *y = &j->call->out[0];
    const och_attr_attention *a = &j->call->attr.attention;
    workspace w;
    workspace_layout(a, j->mem + (size_t)me->index * j->member_bytes, &w);
    och_cpu_amx_begin();
    int64_t number = 0;
    for (int64_t row = 0; row < y->rows;) {
        const och_cpu_span s = och_cpu_span_at(j->call, row, SPAN_ROWS);
        row += s.n_rows;
        for (int i = 0; i < (s.seq < 0 ? 1 : j->heads_items); i++, number++) {
            /* dealt forth and back, since later rows see more keys */
            const int64_t turn = number % (2 * me->n);
            if ((turn < me->n ? turn : 2 * me->n - 1 - turn) != me->index) continue;
            if (s.seq < 0) {
                memset(och_cpu_row(y, s.row), 0, (size_t)y->cols * sizeof(float));
                continue;
            }
            const int a_head = j->heads_items / a->kv.n_kv_heads, within = i % a_head * j->heads_at_once;
            item it = {.s = s, .kv_head = i / a_head};
            it.head = it.kv_head * j->group + within;
            it.heads = j->group - within < j->heads_at_once ? j->group - within : j->heads_at_once;
            it.n_units = s.n_rows * it.heads;
            attend(j, &it, &w);
        }
    }
    och_cpu_amx_end();
}

void och_cpu_attention_amx_run(const och_op_ctx *ctx, const och_op_call *c) {
    const och_attr_attention *a = &c->attr.attention;
    workspace w;
    job j = {.call = c, .group = a->n_heads / a->kv.n_kv_heads, .heads_at_once = heads_at_once(a), .mem = ctx->scratch,
             .member_bytes = workspace_layout(a, NULL, &w)};
    j.heads_items = (j.group + j.heads_at_once - 1) / j.heads_at_once * a->kv.n_kv_heads;
    och_pool_run(och_cpu_pool(ctx->queue->device), member, &j);
}
