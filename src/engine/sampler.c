#include "engine/sampler.h"

#include "base/half.h"
#include "base/rng.h"
#include "base/size.h"
#include "base/weight.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

och_sampler_params och_sampler_defaults(void) {
    return (och_sampler_params){.top_p = 1, .repetition_penalty = 1, .penalty_last_n = 64};
}

och_status och_sampler_validate(const och_sampler_params *p, och_err *err) {
#define FIELD(ok, field, allowed)                                                                                      \
    if (!(ok)) return och_err_set(err, OCH_RANGE, #field ": expected " allowed ", found %g", (double)p->field)
    FIELD(p->temperature >= 0 && isfinite(p->temperature), temperature, "a finite number from 0");
    FIELD(p->top_k >= 0, top_k, "0 (off) or more");
    FIELD(p->top_p > 0 && p->top_p <= 1, top_p, "more than 0 and at most 1");
    FIELD(p->min_p >= 0 && p->min_p <= 1, min_p, "0 to 1");
    FIELD(p->repetition_penalty > 0 && isfinite(p->repetition_penalty), repetition_penalty, "a finite number above 0");
    FIELD(isfinite(p->frequency_penalty), frequency_penalty, "a finite number");
    FIELD(isfinite(p->presence_penalty), presence_penalty, "a finite number");
    FIELD(p->penalty_last_n >= -1, penalty_last_n, "-1 (all), 0 (none) or more");
#undef FIELD
    return OCH_OK;
}

bool och_sampler_penalises(const och_sampler_params *p, size_t n_history) {
    return n_history && p->penalty_last_n != 0 &&
           (p->repetition_penalty != 1 || p->frequency_penalty != 0 || p->presence_penalty != 0);
}

/* ---- scratch ---- */

/* Passes go over whole blocks of a constant size, so that the compiler turns them into vector code; the arrays are
 * padded to blocks with ids that weigh nothing. */
#define BLOCK 1024
#define LANES 8 /* partial sums, for vector code: a block's weights are whole multiples of 2^-40 below 2^10, exact in any order */
#define BIN_BITS 12
#define BINS (1 << BIN_BITS)

typedef struct scratch {
    uint32_t n_blocks;
    float *z;         /* [n_blocks * BLOCK] penalised, then scaled logits: 0 for the best */
    float *w;         /* [n_blocks * BLOCK] exp(z), cut to multiples of 2^-40 */
    uint64_t *keys;   /* [n_blocks * BLOCK] what a selection works on */
    uint32_t *ids;    /* [n_blocks * BLOCK] candidates, rising */
    uint32_t *count;  /* of the history; overlies keys, which come later */
    uint64_t *bins;   /* [BINS] */
    uint64_t *block_sum; /* [n_blocks] */
} scratch;

static size_t blocks_of(uint32_t vocab) { return ((size_t)vocab + BLOCK - 1) / BLOCK; }

size_t och_sampler_scratch_bytes(uint32_t vocab) {
    size_t per_id = 2 * sizeof(float) + sizeof(uint32_t) + sizeof(uint64_t);
    return blocks_of(vocab) * (BLOCK * per_id + sizeof(uint64_t)) + BINS * sizeof(uint64_t);
}

static scratch carve(void *p, uint32_t vocab) {
    scratch s;
    size_t n = blocks_of(vocab) * BLOCK;
    s.n_blocks = (uint32_t)blocks_of(vocab);
    s.keys = p;
    s.bins = s.keys + n;
    s.block_sum = s.bins + BINS;
    s.z = (float *)(s.block_sum + s.n_blocks);
    s.w = s.z + n;
    s.ids = (uint32_t *)(s.w + n);
    s.count = (uint32_t *)s.keys;
    return s;
}

/* ---- passes over the vocabulary ---- */

/* Orders floats as signed integers; -0 counts as +0. */
static inline int32_t ordered(float f) {
    int32_t i = (int32_t)och_f32_bits(f + 0.0f);
    return i ^ (int32_t)((uint32_t)(i >> 31) >> 1);
}

static inline void block_max(const float *x, int32_t *out_key, uint32_t *out_magnitude) {
    int32_t key = INT32_MIN;
    int32_t magnitude = 0;
    for (int i = 0; i < BLOCK; i++) {
        int32_t k = ordered(x[i]), m = (int32_t)(och_f32_bits(x[i]) & 0x7FFFFFFF);
        key = k > key ? k : key;
        magnitude = m > magnitude ? m : magnitude;
    }
    *out_key = key;
    *out_magnitude = (uint32_t)magnitude;
}

/* The first id of the greatest logit. CORRUPT when a logit is not finite. */
static och_status greatest(const float *x, uint32_t n, uint32_t *out_id, och_err *err) {
    int32_t best = INT32_MIN;
    uint32_t best_at = 0;
    float tail[BLOCK];
    for (uint32_t at = 0; at < n; at += BLOCK) {
        const float *b = x + at;
        if (n - at < BLOCK) {
            for (uint32_t i = 0; i < BLOCK; i++) tail[i] = i < n - at ? b[i] : -FLT_MAX;
            b = tail;
        }
        int32_t key;
        uint32_t magnitude;
        block_max(b, &key, &magnitude);
        if (magnitude >= 0x7F800000u) {
            uint32_t i = 0;
            while (isfinite(b[i])) i++;
            return och_err_set(err, OCH_CORRUPT, "logits: expected finite numbers, found %f at id %" PRIu32,
                               (double)b[i], at + i);
        }
        if (key > best) best = key, best_at = at;
    }
    while (ordered(x[best_at]) != best) best_at++;
    *out_id = best_at;
    return OCH_OK;
}

static void penalise(const och_sampler_params *p, float *z, uint32_t *count, uint32_t vocab, const int32_t *history,
                     size_t n_history) {
    size_t n = p->penalty_last_n < 0 ? n_history : OCH_MIN(n_history, (size_t)p->penalty_last_n);
    const int32_t *ids = history + (n_history - n);
    for (size_t i = 0; i < n; i++)
        if ((uint32_t)ids[i] < vocab) count[ids[i]] = 0;
    for (size_t i = 0; i < n; i++)
        if ((uint32_t)ids[i] < vocab) count[ids[i]]++;
    for (size_t i = 0; i < n; i++) {
        uint32_t id = (uint32_t)ids[i];
        if (id >= vocab || count[id] == 0) continue;
        float v = z[id];
        v = v > 0 ? v / p->repetition_penalty : v * p->repetition_penalty;
        v = v - p->frequency_penalty * (float)count[id] - p->presence_penalty;
        /* extreme penalties stay finite: they mean first or last, not an error */
        z[id] = v > FLT_MAX ? FLT_MAX : v < -FLT_MAX ? -FLT_MAX : isnan(v) ? -FLT_MAX : v;
        count[id] = 0;
    }
}

/* ---- candidates ---- */

/* The greatest becomes 0, so that no temperature can overflow. What lies further off than a float reaches weighs 0 and
 * ranks with the lowest. */
static void scale_block(const float *restrict x, float top, float temperature, float *restrict z) {
    for (int i = 0; i < BLOCK; i++) {
        float v = (x[i] - top) / temperature;
        z[i] = v < -FLT_MAX ? -FLT_MAX : v;
    }
}

static void weigh_block(const float *restrict z, float *restrict w) {
    for (int i = 0; i < BLOCK; i++) w[i] = och_weight_cut(och_exp_neg(z[i]));
}

static void scale_and_weigh(const scratch *s, const float *logits, uint32_t vocab, float top, float temperature) {
    for (uint32_t b = 0; b < s->n_blocks; b++) {
        uint32_t at = b * BLOCK, n = OCH_MIN(BLOCK, vocab - at);
        float pad[BLOCK];
        const float *x = logits + at;
        if (n < BLOCK) {
            memcpy(pad, x, n * sizeof *pad);
            for (uint32_t i = n; i < BLOCK; i++) pad[i] = top;
            x = pad;
        }
        /* x may be z itself, where penalties were applied: aside, then back */
        float z[BLOCK];
        scale_block(x, top, temperature, z);
        weigh_block(z, s->w + at);
        memcpy(s->z + at, z, sizeof z);
        for (uint32_t i = n; i < BLOCK; i++) s->z[at + i] = -FLT_MAX, s->w[at + i] = 0;
    }
}

/* Greater is better: the greater logit, then the lower id. */
static inline uint64_t make_key(float z, uint32_t id) {
    return (uint64_t)((uint32_t)ordered(z) ^ 0x80000000u) << 32 | (uint32_t)~id;
}
static inline uint32_t key_id(uint64_t key) { return ~(uint32_t)key; }

static void sort_falling(uint64_t *k, uint32_t n) {
    for (uint32_t i = 1; i < n; i++) {
        uint64_t v = k[i];
        uint32_t j = i;
        for (; j > 0 && k[j - 1] < v; j--) k[j] = k[j - 1];
        k[j] = v;
    }
}

/* The greatest bin such that it and all bins above it hold at least `need`, which all together do; *sum is what those above
 * hold, and grows from what it was. */
static uint32_t edge_bin(const uint64_t *bins, uint64_t need, uint64_t *sum) {
    uint32_t b = BINS - 1;
    while (b > 0 && *sum + bins[b] < need) *sum += bins[b--];
    return b;
}

static inline uint64_t weight_of(const scratch *s, uint32_t id) { return och_weight_fixed(s->w[id]); }

/* The greatest key T such that those of s->keys[0, n) from T up number at least `need` or, if weighted, weigh at least
 * `need`, which all together do. A selection by the key's bits, twelve at a time: what lies in the edge's bin is all that the
 * next round looks at. s->keys is consumed. */
static uint64_t edge(const scratch *s, uint32_t n, uint64_t need, bool weighted) {
    uint64_t sum = 0;
    for (int shift = 64 - BIN_BITS; n > 32; shift -= BIN_BITS) {
        uint32_t kept = 0;
        memset(s->bins, 0, BINS * sizeof *s->bins);
        for (uint32_t i = 0; i < n; i++)
            s->bins[s->keys[i] >> shift & (BINS - 1)] += weighted ? weight_of(s, key_id(s->keys[i])) : 1;
        uint32_t bin = edge_bin(s->bins, need, &sum);
        for (uint32_t i = 0; i < n; i++)
            if ((s->keys[i] >> shift & (BINS - 1)) == bin) s->keys[kept++] = s->keys[i];
        n = kept;
    }
    sort_falling(s->keys, n);
    for (uint32_t i = 0; i + 1 < n; i++) {
        sum += weighted ? weight_of(s, key_id(s->keys[i])) : 1;
        if (sum >= need) return s->keys[i];
    }
    return s->keys[n - 1];
}

static uint64_t edge_of_candidates(const scratch *s, uint32_t n, uint64_t need, bool weighted) {
    for (uint32_t i = 0; i < n; i++) s->keys[i] = make_key(s->z[s->ids[i]], s->ids[i]);
    return edge(s, n, need, weighted);
}

/* Drops candidates below a key; returns how many are left. */
static uint32_t keep_from(const scratch *s, uint32_t n, uint64_t floor) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t id = s->ids[i];
        s->ids[kept] = id;
        kept += make_key(s->z[id], id) >= floor;
    }
    return kept;
}

static uint32_t top_k(const scratch *s, uint32_t vocab, uint32_t k) {
    /* The kth greatest of the blocks' maxima bounds the kth greatest of all from below, and few lie above it. */
    uint64_t floor = 0;
    if (k < s->n_blocks) {
        for (uint32_t b = 0; b < s->n_blocks; b++) {
            int32_t key;
            uint32_t magnitude;
            block_max(s->z + b * BLOCK, &key, &magnitude);
            s->keys[b] = (uint64_t)((uint32_t)key ^ 0x80000000u) << 32 | (uint32_t)~b;
        }
        floor = edge(s, s->n_blocks, k, false) >> 32 << 32;
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < vocab; i++) {
        s->ids[n] = i;
        n += make_key(s->z[i], i) >= floor;
    }
    return keep_from(s, n, edge_of_candidates(s, n, k, false));
}

static uint64_t sum_block(const float *w) {
    double lanes[LANES] = {0}, sum = 0;
    for (int i = 0; i < BLOCK; i += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] += (double)w[i + l];
    for (int l = 0; l < LANES; l++) sum += lanes[l];
    return (uint64_t)(sum * 0x1p40);
}

static uint64_t sum_all(const scratch *s) {
    uint64_t total = 0;
    for (uint32_t b = 0; b < s->n_blocks; b++) total += s->block_sum[b] = sum_block(s->w + b * BLOCK);
    return total;
}

static uint64_t sum_candidates(const scratch *s, uint32_t n) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < n; i++) total += weight_of(s, s->ids[i]);
    return total;
}

/* Ids of at least this weight. */
static uint32_t candidates_of_weight(const scratch *s, uint32_t vocab, double least) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < vocab; i++) {
        s->ids[n] = i;
        n += (double)s->w[i] >= least;
    }
    return n;
}

/* The candidate in which a walk by rising id passes its target. The greatest weighs 1, so there is one. */
static uint32_t draw_candidate(const scratch *s, uint32_t n, uint32_t best, uint64_t random) {
    uint64_t target = och_weight_target(random, sum_candidates(s, n)), walked = 0;
    for (uint32_t i = 0; i < n; i++) {
        walked += weight_of(s, s->ids[i]);
        if (walked > target) return s->ids[i];
    }
    return best;
}

static uint32_t draw_any(const scratch *s, uint32_t vocab, uint32_t best, uint64_t random) {
    uint64_t target = och_weight_target(random, sum_all(s)), walked = 0;
    for (uint32_t b = 0; b < s->n_blocks; walked += s->block_sum[b++]) {
        if (walked + s->block_sum[b] <= target) continue;
        for (uint32_t id = b * BLOCK; id < vocab; id++) {
            walked += weight_of(s, id);
            if (walked > target) return id;
        }
    }
    return best;
}

och_status och_sample(const och_sampler_params *p, const float *logits, uint32_t vocab, const int32_t *history,
                      size_t n_history, uint64_t position, void *scratch_mem, size_t scratch_bytes, uint32_t *out_id,
                      och_err *err) {
    *out_id = 0;
    OCH_TRY(och_sampler_validate(p, err));
    if (vocab == 0 || vocab > OCH_WEIGHT_MAX_IDS)
        return och_err_set(err, OCH_RANGE, "sampling: expected a vocabulary of 1 to %u, found %" PRIu32 " logits", OCH_WEIGHT_MAX_IDS, vocab);
    uint32_t best;
    OCH_TRY(greatest(logits, vocab, &best, err));
    bool penalties = och_sampler_penalises(p, n_history);
    if (p->temperature == 0 && !penalties) {
        *out_id = best;
        return OCH_OK;
    }
    if (scratch_bytes < och_sampler_scratch_bytes(vocab))
        return och_err_set(err, OCH_RANGE, "sampling: expected %zu bytes of scratch, found %zu",
                           och_sampler_scratch_bytes(vocab), scratch_bytes);
    scratch s = carve(scratch_mem, vocab);
    if (penalties) {
        memcpy(s.z, logits, vocab * sizeof(float));
        penalise(p, s.z, s.count, vocab, history, n_history);
        logits = s.z;
        OCH_TRY(greatest(logits, vocab, &best, err));
        if (p->temperature == 0) {
            *out_id = best;
            return OCH_OK;
        }
    }
    scale_and_weigh(&s, logits, vocab, logits[best], p->temperature);
    uint64_t random = och_rng_bits(p->seed, position, 0);
    bool all = true; /* until something is cut off, no list of candidates is made */
    uint32_t n = vocab;
    if (p->top_k > 0 && (uint32_t)p->top_k < vocab) {
        n = top_k(&s, vocab, (uint32_t)p->top_k);
        all = false;
    }
    if (p->top_p < 1) {
        uint64_t total = all ? sum_all(&s) : sum_candidates(&s, n), need = och_weight_needed(p->top_p, total);
        /* ids that all together weigh at most half of what may be missing cannot be needed to reach top-p */
        if (all) n = candidates_of_weight(&s, vocab, (double)(total - need) * 0x1p-40 / vocab / 2);
        n = keep_from(&s, n, edge_of_candidates(&s, n, need, true));
        all = false;
    }
    if (p->min_p > 0) { /* the greatest weight is 1 */
        float least = och_weight_cut(p->min_p);
        if (all) n = candidates_of_weight(&s, vocab, (double)least);
        else {
            uint32_t kept = 0;
            for (uint32_t i = 0; i < n; i++)
                if (s.w[s.ids[i]] >= least) s.ids[kept++] = s.ids[i];
            n = kept;
        }
        all = false;
    }
    *out_id = all ? draw_any(&s, vocab, best, random) : draw_candidate(&s, n, best, random);
    return OCH_OK;
}
