/* The sampler against distributions worked out by hand, and its draws against exact probabilities by chi-square. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/rng.h"
#include "base/size.h"
#include "base/weight.h"
#include "engine/sampler.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_VOCAB 5000

static uint64_t scratch[(MAX_VOCAB + 1024) * 5 / 2 + 4096 + 8];

static uint32_t sample_h(const och_sampler_params *p, const float *logits, uint32_t vocab, const int32_t *history,
                         size_t n_history, uint64_t position) {
    uint32_t id = 12345;
    och_err err;
    och_err_clear(&err);
    if (och_sample(p, logits, vocab, history, n_history, position, scratch, sizeof scratch, &id, &err) != OCH_OK)
        fail_msg("%s", err.message);
    return id;
}
static uint32_t sample(const och_sampler_params *p, const float *logits, uint32_t vocab, uint64_t position) {
    return sample_h(p, logits, vocab, NULL, 0, position);
}

/* Random123, tests/kat_vectors, lines "philox4x32 10" */
static void philox_known_answers(void **s) {
    (void)s;
    static const uint32_t v[3][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8},
        {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD},
        {0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0, 0xD16CFE09, 0x94FDCCEB, 0x5001E420,
         0x24126EA1}};
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        och_philox4x32(v[i], v[i] + 4, out);
        assert_memory_equal(out, v[i] + 6, sizeof out);
    }
    /* counter and key words are where the header says: the first 53 bits of the block above */
    uint64_t position = (uint64_t)0x85A308D3 << 32 | 0x243F6A88, seed = (uint64_t)0x299F31D0 << 32 | 0xA4093822;
    uint32_t counter[4] = {0x243F6A88, 0x85A308D3, 7, 0}, out[4];
    och_philox4x32(counter, v[2] + 4, out);
    assert_true(och_rng_uniform(seed, position, 7) ==
                (double)(((uint64_t)out[0] << 32 | out[1]) >> 11) / 9007199254740992.0);
    for (uint64_t i = 0; i < 10000; i++) {
        double u = och_rng_uniform(3, i, 0);
        assert_true(u >= 0 && u < 1);
    }
}

static void greedy_takes_the_lowest_of_ties(void **s) {
    (void)s;
    static float x[MAX_VOCAB];
    och_sampler_params p = och_sampler_defaults();
    const uint32_t sizes[] = {1, 2, 3, 1023, 1024, 1025, 2048, 4999};
    for (size_t k = 0; k < OCH_COUNT(sizes); k++) {
        uint32_t n = sizes[k];
        for (uint32_t at = 0; at < n; at += at < 40 || at + 40 > n ? 1 : 37) {
            for (uint32_t i = 0; i < n; i++) x[i] = -3 - (float)(i % 7);
            x[at] = -2;
            if (at + 1 < n) x[n - 1] = -2;
            assert_int_equal(sample(&p, x, n, 0), at);
        }
    }
    const float zeros[] = {-1, -0.0f, 0.0f, -0.0f}, maxes[] = {-FLT_MAX, FLT_MAX, FLT_MAX},
                low[] = {-FLT_MAX, -FLT_MAX};
    assert_int_equal(sample(&p, zeros, 4, 0), 1); /* -0 equals +0 */
    assert_int_equal(sample(&p, maxes, 3, 0), 1);
    assert_int_equal(sample(&p, low, 2, 0), 0);
    /* needs no scratch, and none of the other settings matters */
    p.top_k = 1, p.top_p = 0.1f, p.min_p = 1;
    uint32_t id;
    assert_int_equal(och_sample(&p, maxes, 3, NULL, 0, 0, NULL, 0, &id, NULL), OCH_OK);
    assert_int_equal(id, 1);
}

static void not_finite_is_an_error(void **s) {
    (void)s;
    static float x[3000];
    static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    static const uint32_t at[] = {0, 5, 1023, 1024, 2047, 2999};
    och_sampler_params p = och_sampler_defaults();
    for (int t = 0; t < 2; t++, p.temperature = 1)
        for (size_t b = 0; b < OCH_COUNT(bad); b++)
            for (size_t k = 0; k < OCH_COUNT(at); k++) {
                memset(x, 0, sizeof x);
                x[at[k]] = bad[b];
                if (at[k] < 2999) x[2999] = NAN; /* only the first is named */
                uint32_t id = 9;
                char want[32];
                och_err err;
                och_err_clear(&err);
                assert_int_equal(och_sample(&p, x, 3000, NULL, 0, 0, scratch, sizeof scratch, &id, &err), OCH_CORRUPT);
                assert_int_equal(id, 0);
                snprintf(want, sizeof want, "at id %u", at[k]);
                assert_non_null(strstr(err.message, want));
            }
}

static void wrong_parameters_are_named(void **s) {
    (void)s;
    static const struct { och_sampler_params p; const char *message; } cases[] = {
#define P .top_p = 1, .repetition_penalty = 1
        {{P, .temperature = -1}, "temperature: expected a finite number from 0, found -1"},
        {{P, .temperature = INFINITY}, "temperature: expected a finite number from 0, found inf"},
        {{P, .temperature = NAN}, NULL},
        {{P, .top_k = -1}, "top_k: expected 0 (off) or more, found -1"},
        {{.repetition_penalty = 1, .top_p = 0}, "top_p: expected more than 0 and at most 1, found 0"},
        {{.repetition_penalty = 1, .top_p = 1.5f}, "top_p: expected more than 0 and at most 1, found 1.5"},
        {{.repetition_penalty = 1, .top_p = NAN}, NULL},
        {{P, .min_p = -0.5f}, "min_p: expected 0 to 1, found -0.5"},
        {{P, .min_p = 2}, "min_p: expected 0 to 1, found 2"},
        {{.top_p = 1, .repetition_penalty = 0}, "repetition_penalty: expected a finite number above 0, found 0"},
        {{P, .frequency_penalty = INFINITY}, "frequency_penalty: expected a finite number, found inf"},
        {{P, .presence_penalty = NAN}, NULL},
        {{P, .penalty_last_n = -2}, "penalty_last_n: expected -1 (all), 0 (none) or more, found -2"},
#undef P
    };
    float x[2] = {0, 1};
    uint32_t id;
    for (size_t i = 0; i < OCH_COUNT(cases); i++) {
        och_err err;
        och_err_clear(&err);
        assert_int_equal(och_sampler_validate(&cases[i].p, &err), OCH_RANGE);
        if (cases[i].message) assert_string_equal(err.message, cases[i].message);
        assert_int_equal(och_sample(&cases[i].p, x, 2, NULL, 0, 0, scratch, sizeof scratch, &id, NULL), OCH_RANGE);
    }
    och_sampler_params p = och_sampler_defaults();
    assert_int_equal(och_sampler_validate(&p, NULL), OCH_OK);
    p.temperature = 1;
    assert_int_equal(och_sample(&p, x, 0, NULL, 0, 0, scratch, sizeof scratch, &id, NULL), OCH_RANGE);
    assert_int_equal(och_sample(&p, x, 2, NULL, 0, 0, scratch, och_sampler_scratch_bytes(2) - 1, &id, NULL), OCH_RANGE);
    assert_int_equal(och_sample(&p, x, 2, NULL, 0, 0, scratch, och_sampler_scratch_bytes(2), &id, NULL), OCH_OK);
}

/* Each penalty shows itself in what greedy picks on either side of the threshold worked out by hand. */
static void penalties_by_hand(void **s) {
    (void)s;
    och_sampler_params p = och_sampler_defaults();
    const int32_t history[] = {0, 0, 0, 1, -5, 99};

    /* repetition 2: id 0 goes from 4 to 2 */
    p.repetition_penalty = 2;
    assert_int_equal(sample_h(&p, (const float[]){4, -9, 1.999f}, 3, history, 6, 0), 0);
    assert_int_equal(sample_h(&p, (const float[]){4, -9, 2.001f}, 3, history, 6, 0), 2);
    /* a negative logit is multiplied: -1 becomes -2; once only, although id 0 stands there three times */
    assert_int_equal(sample_h(&p, (const float[]){-1, -9, -1.999f}, 3, history, 6, 0), 2);
    assert_int_equal(sample_h(&p, (const float[]){-1, -9, -2.001f}, 3, history, 6, 0), 0);

    /* frequency 0.5: id 0 loses 1.5, id 1 loses 0.5 */
    p = och_sampler_defaults();
    p.frequency_penalty = 0.5f;
    assert_int_equal(sample_h(&p, (const float[]){4, -9, 2.499f}, 3, history, 6, 0), 0);
    assert_int_equal(sample_h(&p, (const float[]){4, -9, 2.501f}, 3, history, 6, 0), 2);
    assert_int_equal(sample_h(&p, (const float[]){-9, 3, 2.499f}, 3, history, 6, 0), 1);
    assert_int_equal(sample_h(&p, (const float[]){-9, 3, 2.501f}, 3, history, 6, 0), 2);

    /* presence 0.5: both lose 0.5 */
    p = och_sampler_defaults();
    p.presence_penalty = 0.5f;
    assert_int_equal(sample_h(&p, (const float[]){4, -9, 3.499f}, 3, history, 6, 0), 0);
    assert_int_equal(sample_h(&p, (const float[]){4, -9, 3.501f}, 3, history, 6, 0), 2);

    /* together, in the order of the header: 6 / 2 - 3 * 0.25 - 0.5 = 1.75 (not (6 - 1.25) / 2 = 2.375) */
    p.repetition_penalty = 2, p.frequency_penalty = 0.25f;
    assert_int_equal(sample_h(&p, (const float[]){6, -9, 1.749f}, 3, history, 6, 0), 0);
    assert_int_equal(sample_h(&p, (const float[]){6, -9, 1.751f}, 3, history, 6, 0), 2);

    /* a window of 4 of {0, 0, 0, 1, -5, 99} sees one 0 and one 1; of 3, no 0; of 0, nothing; -1, all */
    p = och_sampler_defaults();
    p.frequency_penalty = 1;
    const struct { int32_t last_n; float loss; } windows[] = {{4, 1}, {5, 2}, {6, 3}, {64, 3}, {-1, 3}, {3, 0}, {0, 0}};
    for (size_t i = 0; i < OCH_COUNT(windows); i++) {
        p.penalty_last_n = windows[i].last_n;
        assert_int_equal(sample_h(&p, (const float[]){9, -9, 8.999f - windows[i].loss}, 3, history, 6, 0), 0);
        assert_int_equal(sample_h(&p, (const float[]){9, -9, 9.001f - windows[i].loss}, 3, history, 6, 0), 2);
    }
    /* a negative penalty rewards; an extreme one puts an id last and stays finite */
    p.penalty_last_n = 64, p.frequency_penalty = -1;
    assert_int_equal(sample_h(&p, (const float[]){0, -9, 2.5f}, 3, history, 6, 0), 0);
    p.frequency_penalty = FLT_MAX;
    assert_int_equal(sample_h(&p, (const float[]){9, 5, -1000}, 3, history, 6, 0), 2);
    p.temperature = 1;
    assert_int_equal(sample_h(&p, (const float[]){9, 5, -1000}, 3, history, 6, 0), 2);
}

/* ---- distributions ---- */

/* Upper tail of chi-square by the Wilson-Hilferty normal approximation (1931): z = ((x/k)^(1/3) - (1 - 2/9k)) /
 * sqrt(2/9k). 4.5 sigma of a fixed seed: a wrong distribution is far beyond it, a right one does not reach it. */
static void draws_follow(const och_sampler_params *params, const float *logits, uint32_t vocab, const double *want,
                         uint32_t n_draws) {
    uint32_t *count = calloc(vocab, sizeof *count);
    for (uint32_t i = 0; i < n_draws; i++) count[sample(params, logits, vocab, i)]++;
    double chi = 0, pooled_want = 0, pooled_got = 0;
    int k = -1;
    for (uint32_t i = 0; i < vocab; i++) {
        if (want[i] == 0) {
            assert_int_equal(count[i], 0);
        } else if (want[i] * n_draws < 10) { /* small cells together */
            pooled_want += want[i] * n_draws, pooled_got += count[i];
        } else {
            double e = want[i] * n_draws, d = count[i] - e;
            chi += d * d / e, k++;
        }
    }
    if (pooled_want >= 5) chi += (pooled_got - pooled_want) * (pooled_got - pooled_want) / pooled_want, k++;
    free(count);
    if (k < 1) return;
    double a = 2.0 / (9 * k), z = (cbrt(chi / k) - (1 - a)) / sqrt(a);
    if (z > 4.5 || z < -4.5) fail_msg("chi-square %g with %d degrees of freedom: %g sigma", chi, k, z);
}

/* logits whose softmax is 0.4 0.3 0.15 0.1 0.05, out of order; a constant added to all changes nothing */
static const double probs[5] = {0.1, 0.4, 0.05, 0.3, 0.15};
static void logits_of_probs(float *x, double shift) {
    for (int i = 0; i < 5; i++) x[i] = (float)(log(probs[i]) + shift);
}

static void distributions_by_hand(void **s) {
    (void)s;
    static const struct { float t; int32_t k; float top_p, min_p; double want[5]; } cases[] = {
        {1, 0, 1, 0, {0.1, 0.4, 0.05, 0.3, 0.15}},
        {1, 3, 1, 0, {0, 0.4 / 0.85, 0, 0.3 / 0.85, 0.15 / 0.85}},
        {1, 1, 1, 0, {0, 1, 0, 0, 0}},
        {1, 9, 1, 0, {0.1, 0.4, 0.05, 0.3, 0.15}},
        {1, 0, 0.69f, 0, {0, 0.4 / 0.7, 0, 0.3 / 0.7, 0}},          /* 0.4, 0.7: reached by the second */
        {1, 0, 0.71f, 0, {0, 0.4 / 0.85, 0, 0.3 / 0.85, 0.15 / 0.85}},
        {1, 0, 1e-6f, 0, {0, 1, 0, 0, 0}},                          /* at least one */
        {1, 0, 0.9999f, 0, {0.1, 0.4, 0.05, 0.3, 0.15}},
        /* top-p counts within what top-k left: of 0.4/0.7, 0.3/0.7 the first alone has 0.571 */
        {1, 2, 0.57f, 0, {0, 1, 0, 0, 0}},
        {1, 2, 0.58f, 0, {0, 0.4 / 0.7, 0, 0.3 / 0.7, 0}},
        {1, 0, 0.57f, 0, {0, 0.4 / 0.7, 0, 0.3 / 0.7, 0}},          /* without top-k the same top-p keeps two */
        {1, 0, 1, 0.2f, {0.1 / 0.95, 0.4 / 0.95, 0, 0.3 / 0.95, 0.15 / 0.95}}, /* 0.05 < 0.2 * 0.4 */
        {1, 0, 1, 0.38f, {0, 0.4 / 0.7, 0, 0.3 / 0.7, 0}},          /* 0.15 < 0.38 * 0.4 = 0.152 */
        {1, 0, 1, 0.37f, {0, 0.4 / 0.85, 0, 0.3 / 0.85, 0.15 / 0.85}},
        {1, 0, 1, 1, {0, 1, 0, 0, 0}},
        {1, 4, 0.99f, 0.38f, {0, 0.4 / 0.7, 0, 0.3 / 0.7, 0}},      /* min-p last */
        /* temperature 0.5 squares the weights: 1 16 0.25 9 2.25, sum 28.5 */
        {0.5f, 0, 1, 0, {1 / 28.5, 16 / 28.5, 0.25 / 28.5, 9 / 28.5, 2.25 / 28.5}},
        /* ... before top-p: 16 / 28.5 = 0.561 alone reaches 0.55, where 0.4 would not */
        {0.5f, 0, 0.55f, 0, {0, 1, 0, 0, 0}},
        {0.5f, 2, 1, 0, {0, 16 / 25.0, 0, 9 / 25.0, 0}},
    };
    for (size_t c = 0; c < OCH_COUNT(cases); c++)
        for (int shift = 0; shift < 3; shift++) {
            och_sampler_params p = och_sampler_defaults();
            p.temperature = cases[c].t, p.top_k = cases[c].k, p.top_p = cases[c].top_p, p.min_p = cases[c].min_p;
            p.seed = 1000 + c;
            float x[5];
            logits_of_probs(x, shift == 0 ? 0 : shift == 1 ? 80 : -30);
            draws_follow(&p, x, 5, cases[c].want, shift ? 1500 : 6000);
        }
}

static void large_vocabularies(void **s) {
    (void)s;
    static float x[MAX_VOCAB];
    static double w[MAX_VOCAB];
    for (int flat = 0; flat < 2; flat++) {
        double sum = 0;
        for (int i = 0; i < MAX_VOCAB; i++) {
            /* a permutation of a falling curve, or nearly flat so that top-p keeps thousands */
            int rank = (int)((long)i * 1237 % MAX_VOCAB);
            x[i] = flat ? -(float)rank * 1e-4f : -3 * logf(1 + (float)rank);
            sum += w[i] = exp((double)x[i]);
        }
        for (int i = 0; i < MAX_VOCAB; i++) w[i] /= sum;
        och_sampler_params p = och_sampler_defaults();
        p.temperature = 1, p.seed = 77;
        draws_follow(&p, x, MAX_VOCAB, w, 5000);
        /* the tail that top-k and top-p cut, by rank in double */
        for (int mode = 0; mode < 3; mode++) {
            static double cut[MAX_VOCAB];
            double kept = 0, reached = 0;
            int n_kept = 0;
            p.top_k = mode == 0 ? 300 : 0, p.top_p = mode == 1 ? 0.9f : mode == 2 ? 0.6f : 1;
            memset(cut, 0, sizeof cut);
            static int by_rank[MAX_VOCAB];
            for (int i = 0; i < MAX_VOCAB; i++) by_rank[(long)i * 1237 % MAX_VOCAB] = i;
            for (int r = 0; r < MAX_VOCAB; r++) {
                if (mode == 0 ? r >= 300 : reached >= (double)p.top_p) break;
                reached += w[by_rank[r]];
                cut[by_rank[r]] = w[by_rank[r]];
                kept += w[by_rank[r]];
                n_kept++;
            }
            for (int i = 0; i < MAX_VOCAB; i++) cut[i] /= kept;
            if (flat && mode == 1) assert_true(n_kept > 3000);
            /* one id at the edge may fall to either side by rounding: give it the benefit */
            draws_follow(&p, x, MAX_VOCAB, cut, 2500);
        }
    }
}

static void ties_at_the_edge_of_top_k_take_the_lower_id(void **s) {
    (void)s;
    static float x[3000];
    for (int i = 0; i < 3000; i++) x[i] = 0;
    x[1500] = 1;
    och_sampler_params p = och_sampler_defaults();
    p.temperature = 1, p.top_k = 3;
    bool seen[3000] = {false};
    for (uint64_t i = 0; i < 2000; i++) seen[sample(&p, x, 3000, i)] = true;
    for (int i = 0; i < 3000; i++) assert_int_equal(seen[i], i == 0 || i == 1 || i == 1500);
}

/* Against a sort, with the best ids spread over the blocks in every way; a high temperature shows all that is left. */
static void small_top_k_equals_a_sort(void **s) {
    (void)s;
    static float x[MAX_VOCAB];
    uint64_t r = 88172645463325252u;
    for (int trial = 0; trial < 40; trial++) {
        for (int i = 0; i < MAX_VOCAB; i++) {
            r ^= r << 13, r ^= r >> 7, r ^= r << 17;
            x[i] = (float)(r % 3000) * 0.01f; /* with ties */
        }
        uint32_t k = 1 + (uint32_t)trial % 4;
        bool want[MAX_VOCAB] = {false}, seen[MAX_VOCAB] = {false};
        for (uint32_t n = 0; n < k; n++) {
            int best = -1;
            for (int i = 0; i < MAX_VOCAB; i++)
                if (!want[i] && (best < 0 || x[i] > x[best])) best = i;
            want[best] = true;
        }
        och_sampler_params p = och_sampler_defaults();
        p.temperature = 1000, p.top_k = (int32_t)k;
        for (uint64_t i = 0; i < 150; i++) seen[sample(&p, x, MAX_VOCAB, i)] = true;
        assert_memory_equal(seen, want, sizeof seen);
    }
}

static void draws_are_a_function_of_seed_and_position(void **s) {
    (void)s;
    static float x[1000];
    for (int i = 0; i < 1000; i++) x[i] = (float)(i * 31 % 17) * 0.1f;
    och_sampler_params p = och_sampler_defaults();
    p.temperature = 0.8f, p.top_p = 0.95f, p.seed = 42;
    uint32_t a[64];
    int same_position = 0, same_seed = 0;
    for (uint64_t i = 0; i < 64; i++) a[i] = sample(&p, x, 1000, i);
    for (uint64_t i = 64; i-- > 0;) { /* in another order, after other work, with dirty scratch */
        memset(scratch, 0xA5, sizeof scratch);
        assert_int_equal(sample(&p, x, 1000, i), a[i]);
        if (i) same_position += a[i] == a[i - 1];
    }
    p.seed = 43;
    for (uint64_t i = 0; i < 64; i++) same_seed += sample(&p, x, 1000, i) == a[i];
    assert_true(same_position < 8 && same_seed < 8);
}

static void extreme_values_keep_their_meaning(void **s) {
    (void)s;
    och_sampler_params p = och_sampler_defaults();
    const float wide[] = {-FLT_MAX, FLT_MAX, 0, FLT_MAX};
    static const double halves[] = {0, 0.5, 0, 0.5};
    p.temperature = 1;
    draws_follow(&p, wide, 4, halves, 4000);
    p.top_k = 3;
    draws_follow(&p, wide, 4, halves, 4000);
    p.top_k = 0, p.top_p = 0.999f;
    draws_follow(&p, wide, 4, halves, 4000);
    /* a tiny temperature is greedy, ties shared; a huge one is uniform */
    p = och_sampler_defaults();
    p.temperature = FLT_TRUE_MIN;
    const float close[] = {1, 1.0000001f, -5};
    for (uint64_t i = 0; i < 100; i++) assert_int_equal(sample(&p, close, 3, i), 1);
    p.temperature = FLT_MAX;
    static const double thirds[] = {1.0 / 3, 1.0 / 3, 1.0 / 3};
    draws_follow(&p, close, 3, thirds, 6000);
    const float one[] = {-7};
    assert_int_equal(sample(&p, one, 1, 5), 0);
}

static void exp_is_accurate(void **s) {
    (void)s;
    double worst = 0;
    for (double x = 0; x > -87; x -= 1.0 / 4099) {
        double want = exp((double)(float)x), got = (double)och_exp_neg((float)x);
        worst = fmax(worst, fabs(got - want) / want);
    }
    print_message("worst relative error %.3g\n", worst);
    assert_true(worst < 3e-7);
    assert_true(och_exp_neg(0) == 1 && och_exp_neg(-0.0f) == 1);
    assert_true(och_exp_neg(-87.5f) == 0 && och_exp_neg(-FLT_MAX) == 0 && och_exp_neg(-INFINITY) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_known_answers),
        cmocka_unit_test(greedy_takes_the_lowest_of_ties),
        cmocka_unit_test(not_finite_is_an_error),
        cmocka_unit_test(wrong_parameters_are_named),
        cmocka_unit_test(penalties_by_hand),
        cmocka_unit_test(distributions_by_hand),
        cmocka_unit_test(large_vocabularies),
        cmocka_unit_test(ties_at_the_edge_of_top_k_take_the_lower_id),
        cmocka_unit_test(small_top_k_equals_a_sort),
        cmocka_unit_test(draws_are_a_function_of_seed_and_position),
        cmocka_unit_test(extreme_values_keep_their_meaning),
        cmocka_unit_test(exp_is_accurate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
