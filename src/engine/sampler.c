#include "engine/sampler.h"

#include "base/half.h"
#include "base/size.h"
#include "engine/rng.h"
#include "engine/sampler_exp.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
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

/* ---- scratch ---- */

#define BINS 4096 /* by the upper 12 bits of an ordered key */

typedef struct scratch {
    float *z;        /* [vocab] penalised, then scaled logits */
    uint64_t *keys;  /* [vocab] candidates, best first once sorted */
    uint32_t *count; /* [vocab] of the history; overlies keys, which come later */
    uint32_t *bins;  /* [BINS] */
} scratch;

static size_t aligned(size_t n) { return (n + 63) & ~(size_t)63; }

size_t och_sampler_scratch_bytes(uint32_t vocab) {
    return aligned((size_t)vocab * sizeof(float)) + aligned((size_t)vocab * sizeof(uint64_t)) + BINS * sizeof(uint32_t);
}

static scratch carve(void *p, uint32_t vocab) {
    scratch s;
    char *at = p;
    s.z = (float *)at;
    s.keys = (uint64_t *)(at + aligned((size_t)vocab * sizeof(float)));
    s.count = (uint32_t *)s.keys;
    s.bins = (uint32_t *)(at + aligned((size_t)vocab * sizeof(float)) + aligned((size_t)vocab * sizeof(uint64_t)));
    return s;
}

/* ---- passes over the vocabulary ---- */

/* Blocks of a constant size with integer reductions: the compiler turns these loops into vector code without licence to
 * reorder floating point. */
#define BLOCK 1024

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

/* Greater is better: the greater logit, then the lower id. */
static inline uint64_t make_key(float z, uint32_t id) {
    return (uint64_t)((uint32_t)ordered(z) ^ 0x80000000u) << 32 | (uint32_t)~id;
}
static inline uint32_t key_id(uint64_t key) { return ~(uint32_t)key; }
static inline uint32_t key_bin(uint64_t key) { return (uint32_t)(key >> 52); }

static void sift_down(uint64_t *h, size_t at, size_t n) {
    uint64_t v = h[at];
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && h[child + 1] < h[child]) child++;
        if (h[child] >= v) break;
        h[at] = h[child];
    }
    h[at] = v;
}

/* Heap sort, falling. */
static void sort_falling(uint64_t *h, size_t n) {
    for (size_t i = n / 2; i-- > 0;) sift_down(h, i, n);
    for (size_t i = n; i-- > 1;) {
        uint64_t least = h[0];
        h[0] = h[i], h[i] = least;
        sift_down(h, 0, i);
    }
}

/* The k best ids, best first, in s->keys; returns how many. A histogram of the upper key bits finds the value below which
 * nothing can be among the best, so that only few keys are ever sorted. s->bins is filled by the caller. */
static uint32_t best_k(const scratch *s, uint32_t vocab, uint32_t k) {
    if (k > vocab) k = vocab;
    uint32_t above = 0, bin = BINS;
    while (bin > 0 && above < k) above += s->bins[--bin];
    uint32_t n = 0;
    for (uint32_t i = 0; i < vocab; i++) {
        uint64_t key = make_key(s->z[i], i);
        if (key_bin(key) >= bin) s->keys[n++] = key;
    }
    sort_falling(s->keys, n);
    return k;
}

/* Probabilities, not yet divided by their sum, relative to the best; summed in eight lanes so that the order is fixed. */
static double weight_sum(const float *z, uint32_t n) {
    double lanes[8] = {0};
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int l = 0; l < 8; l++) lanes[l] += (double)och_exp_neg(z[i + l]);
    for (; i < n; i++) lanes[i % 8] += (double)och_exp_neg(z[i]);
    return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

/* Draw from s->keys[0, n), sorted. */
static uint32_t draw_sorted(const scratch *s, uint32_t n, double u) {
    double sum = 0, walked = 0;
    for (uint32_t i = 0; i < n; i++) sum += (double)och_exp_neg(s->z[key_id(s->keys[i])]);
    for (uint32_t i = 0; i < n; i++) {
        walked += (double)och_exp_neg(s->z[key_id(s->keys[i])]);
        if (walked > u * sum) return key_id(s->keys[i]);
    }
    return key_id(s->keys[0]); /* u * sum rounded up to the whole sum */
}

/* Draw by rising id over all of weight at least `floor`. */
static uint32_t draw_all(const float *z, uint32_t vocab, uint32_t best, float floor, double u) {
    double sum = 0, walked = 0;
    if (floor > 0) {
        for (uint32_t i = 0; i < vocab; i++) {
            float w = och_exp_neg(z[i]);
            if (w >= floor) sum += (double)w;
        }
    } else {
        sum = weight_sum(z, vocab);
    }
    for (uint32_t i = 0; i < vocab; i++) {
        float w = och_exp_neg(z[i]);
        if (w < floor) continue;
        walked += (double)w;
        if (walked > u * sum) return i;
    }
    return best;
}

/* How many of the n sorted candidates top-p keeps, `total` being the weight of all that top-k left; n + 1 when the sum is
 * not reached within n. */
static uint32_t reach_top_p(const scratch *s, uint32_t n, double top_p, double total) {
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += (double)och_exp_neg(s->z[key_id(s->keys[i])]);
        if (sum >= top_p * total) return i + 1;
    }
    return n + 1;
}

/* The candidates that top-k and top-p leave, best first in s->keys; returns how many. */
static uint32_t select_sorted(const och_sampler_params *p, const scratch *s, uint32_t vocab) {
    memset(s->bins, 0, BINS * sizeof *s->bins);
    for (uint32_t i = 0; i < vocab; i++) s->bins[key_bin(make_key(s->z[i], i))]++;
    if (p->top_k > 0 && (uint32_t)p->top_k < vocab) {
        uint32_t n = best_k(s, vocab, (uint32_t)p->top_k);
        if (p->top_p == 1) return n;
        double total = 0;
        for (uint32_t i = 0; i < n; i++) total += (double)och_exp_neg(s->z[key_id(s->keys[i])]);
        return OCH_MIN(reach_top_p(s, n, (double)p->top_p, total), n);
    }
    /* top-p alone usually keeps few: sort a few, and more when they do not reach it */
    double total = weight_sum(s->z, vocab);
    for (uint32_t k = 128;; k = k > vocab / 16 ? vocab : k * 16) {
        uint32_t n = best_k(s, vocab, k), kept = reach_top_p(s, n, (double)p->top_p, total);
        if (kept <= n) return kept;
        if (n == vocab) return n;
    }
}

och_status och_sample(const och_sampler_params *p, const float *logits, uint32_t vocab, const int32_t *history,
                      size_t n_history, uint64_t position, void *scratch_mem, size_t scratch_bytes, uint32_t *out_id,
                      och_err *err) {
    *out_id = 0;
    OCH_TRY(och_sampler_validate(p, err));
    if (vocab == 0) return och_err_set(err, OCH_RANGE, "sampling: expected a vocabulary, found 0 logits");
    uint32_t best;
    OCH_TRY(greatest(logits, vocab, &best, err));
    bool penalties = n_history && p->penalty_last_n != 0 &&
                     (p->repetition_penalty != 1 || p->frequency_penalty != 0 || p->presence_penalty != 0);
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
    /* The greatest becomes 0, so that no temperature can overflow. What lies further off than a float reaches has weight
     * 0; its rank is kept above minus infinity. */
    float top = logits[best], temperature = p->temperature;
    for (uint32_t i = 0; i < vocab; i++) {
        float z = (logits[i] - top) / temperature;
        s.z[i] = z < -FLT_MAX ? -FLT_MAX : z;
    }
    double u = och_rng_uniform(p->seed, position, 0);
    if (p->top_p == 1 && (p->top_k == 0 || (uint32_t)p->top_k >= vocab)) {
        *out_id = draw_all(s.z, vocab, best, p->min_p, u);
        return OCH_OK;
    }
    uint32_t n = select_sorted(p, &s, vocab);
    if (p->min_p > 0)
        while (n > 1 && och_exp_neg(s.z[key_id(s.keys[n - 1])]) < p->min_p) n--;
    *out_id = draw_sorted(&s, n, u);
    return OCH_OK;
}
