/* SAMPLE: every way of cutting off, over logits that are usual, tied, equal, one among none, as many alike on top as a kernel may keep
 * aside, in falling steps, amid ties, or no numbers, in rows that lie apart. The engine's sampler, which selects where the reference sorts, is the oracle; on a board the reference is another. */
#ifndef OCH_TESTS_OPS_SAMPLE_H
#define OCH_TESTS_OPS_SAMPLE_H

#include "conform/support/op_run.h"
#include "engine/sampler.h"

enum { SAMPLE_KINDS = 14, SAMPLE_WAYS = 4 * 4 * 5 * 4 };

/* Whether the row's logits are all finite. */
static bool sample_logits(rng *g, float *x, int64_t v, int kind) {
    int64_t at = (int64_t)(rng_u64(g) % (uint64_t)v);
    for (int64_t j = 0; j < v; j++) {
        float z = 3.0f * rng_gauss(g);
        x[j] = kind == 1 ? floorf(z) : kind == 2 ? 1.5f : kind == 3 ? -1e30f : kind == 4 ? z * 1e3f : kind == 5 ? z * 0.01f : z;
    }
    if (kind >= 9 && kind <= 11) /* 2047 to 2049 on top, or all, then the rest, some of them tied too */
        for (int64_t j = 0; j < v; j++) x[(j * 7919 + at) % v] = j < 2038 + kind ? 4.0f : 3.0f + 0.125f * (float)(j % 5);
    if (kind == 12) /* one of each weight down to none and on */
        for (int64_t j = 0; j < v; j++) x[(at + j) % v] = -60.0f * (float)j / (float)v;
    if (kind == 13) /* ties, of which the first are kept, around what is greater */
        for (int64_t j = 0; j < v; j++) x[j] = j >= v / 2 % 100 && j < v / 2 % 100 + 20 ? 1.01f : 1.0f;
    if (kind == 3) x[at] = 1e30f; /* one among none */
    if (kind == 6) x[at] = NAN, x[v - 1] = INFINITY;
    if (kind == 7) x[at] = -INFINITY;
    if (kind == 8) x[at] = x[v / 2] = x[0] + 40.0f; /* two that are all */
    return kind != 6 && kind != 7;
}

static och_sampler_params sample_way(int i) {
    static const float temperatures[] = {0.0f, 1.0f, 0.6f, 4.0f}, top_ps[] = {1.0f, 0.9f, 0.3f, 1e-9f, 1e-14f},
                       min_ps[] = {0.0f, 0.05f, 1e-6f, 1.0f};
    static const int32_t top_ks[] = {0, 40, 1, 1000};
    och_sampler_params p = och_sampler_defaults();
    p.temperature = temperatures[i % 4];
    p.top_k = top_ks[i / 4 % 4];
    p.top_p = top_ps[i / 16 % 5];
    p.min_p = min_ps[i / 80 % 4];
    return p;
}

static void sample_put(const och_sampler_params *p, uint64_t position, float *numbers, int32_t *draws) {
    numbers[OCH_SAMPLE_TEMPERATURE] = p->temperature;
    numbers[OCH_SAMPLE_TOP_P] = p->top_p;
    numbers[OCH_SAMPLE_MIN_P] = p->min_p;
    draws[OCH_SAMPLE_TOP_K] = p->top_k;
    draws[OCH_SAMPLE_SEED] = (int32_t)(uint32_t)p->seed;
    draws[OCH_SAMPLE_SEED + 1] = (int32_t)(uint32_t)(p->seed >> 32);
    draws[OCH_SAMPLE_POSITION] = (int32_t)(uint32_t)position;
    draws[OCH_SAMPLE_POSITION + 1] = (int32_t)(uint32_t)(position >> 32);
}

static och_op_call sample_call(rig *r, int64_t n, int64_t v) {
    och_op_call c = rig_call(OCH_OP_SAMPLE);
    c.in[OCH_SAMPLE_LOGITS] = rig_tensor(r, OCH_DTYPE_F32, n, v, 12);
    c.in[OCH_SAMPLE_NUMBERS] = rig_tensor(r, OCH_DTYPE_F32, n, OCH_SAMPLE_N_NUMBERS, 0);
    c.in[OCH_SAMPLE_DRAWS] = rig_tensor(r, OCH_DTYPE_I32, n, OCH_SAMPLE_N_DRAWS, 4);
    c.out[0] = rig_tensor(r, OCH_DTYPE_I32, n, 1, 8);
    return c;
}

static void sample_cases(rig *r) {
    static const int64_t shapes[][2] = {{1, 200},    {17, 2000},  {300, 500},  {513, 600},   {2048, 100},  {2049, 100},
                                        {4096, 100}, {5000, 200}, {32000, 26}, {49152, 26}, {151936, 8}, {262144, 8}};
    r->nmse = 0.0;
    uint64_t seed = 37000;
    int way = 0;
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        int64_t v = shapes[s][0], n = shapes[s][1];
        if (n * v > RIG_MAX_PRODUCT) n = 1 + RIG_MAX_PRODUCT / v;
        rng g = {seed++};
        size_t scratch_bytes = och_sampler_scratch_bytes((uint32_t)v);
        void *scratch = och_malloc_aligned(scratch_bytes, 64);
        och_op_call c = sample_call(r, n, v);
        och_sampler_params *p = och_malloc_array((size_t)n, sizeof *p);
        uint64_t *position = och_malloc_array((size_t)n, sizeof *position);
        assert_true(scratch && p && position);
        for (int64_t i = 0; i < n; i++) {
            (void)sample_logits(&g, rig_row(&c.in[OCH_SAMPLE_LOGITS], i), v, (int)(i % SAMPLE_KINDS));
            way += 7; /* meets all, and each with each kind */
            p[i] = sample_way(way % SAMPLE_WAYS);
            p[i].seed = i % 5 ? rng_u64(&g) : (uint64_t)i;
            position[i] = i % 3 ? rng_u64(&g) : (uint64_t)i;
            sample_put(&p[i], position[i], rig_row(&c.in[OCH_SAMPLE_NUMBERS], i), rig_int(&c.in[OCH_SAMPLE_DRAWS], i));
        }
        if (rig_ran(r, &c, false, "sample"))
            for (int64_t i = 0; i < n; i++) {
                och_err err;
                uint32_t id;
                const float *x = rig_row(&c.in[OCH_SAMPLE_LOGITS], i);
                int64_t odd = 0, found = *rig_int(&c.out[0], i);
                och_err_clear(&err);
                while (odd < v && isfinite(x[odd])) odd++;
                och_status st = och_sample(&p[i], x, (uint32_t)v, NULL, 0, position[i], scratch, scratch_bytes, &id, &err);
                assert_int_equal(st, odd < v ? OCH_CORRUPT : OCH_OK);
                int64_t expected = odd < v ? -1 - odd : (int64_t)id;
                if (found != expected)
                    fail_msg("row %lld of %lld ids, logits of kind %d, temperature %g, top_k %d, top_p %g, min_p %g: expected %lld, found %lld",
                             (long long)i, (long long)v, (int)(i % SAMPLE_KINDS), (double)p[i].temperature, p[i].top_k,
                             (double)p[i].top_p, (double)p[i].min_p, (long long)expected, (long long)found);
            }
        och_free_aligned(scratch);
        och_free(p);
        och_free(position);
        rig_reset(r);
    }
    if (!is_reference(r->who)) return;
    static const float bad[][3] = {{-1, 1, 0}, {NAN, 1, 0}, {INFINITY, 1, 0}, {1, 0, 0}, {1, 1.5f, 0}, {1, 1, -0.5f}, {1, 1, 2}, {1, 1, 0}};
    for (int i = 0; i < 8; i++) {
        och_err err;
        rng g = {1};
        och_sampler_params good = och_sampler_defaults();
        och_op_call c = sample_call(r, 2, 4);
        for (int k = 0; k < 2; k++) {
            (void)sample_logits(&g, rig_row(&c.in[OCH_SAMPLE_LOGITS], k), 4, 0);
            sample_put(&good, 0, rig_row(&c.in[OCH_SAMPLE_NUMBERS], k), rig_int(&c.in[OCH_SAMPLE_DRAWS], k));
        }
        memcpy(rig_row(&c.in[OCH_SAMPLE_NUMBERS], 1), bad[i], sizeof bad[i]);
        if (i == 7) rig_int(&c.in[OCH_SAMPLE_DRAWS], 1)[OCH_SAMPLE_TOP_K] = -1;
        assert_int_equal(rig_run(r, &c, false, &err), OCH_RANGE);
        assert_non_null(strstr(err.message, "operand numbers: row 1"));
        rig_reset(r);
    }
}

/* A row alone has the token that it has in company. */
static void sample_alone(rig *r) {
    enum { N = 60, V = 3001 };
    r->nmse = 0.0;
    rng g = {38000};
    och_op_call c = sample_call(r, N, V);
    for (int i = 0; i < N; i++) {
        och_sampler_params p = sample_way(i * 5 % SAMPLE_WAYS);
        p.seed = 5;
        (void)sample_logits(&g, rig_row(&c.in[OCH_SAMPLE_LOGITS], i), V, i % 4 % 3);
        sample_put(&p, 9, rig_row(&c.in[OCH_SAMPLE_NUMBERS], i), rig_int(&c.in[OCH_SAMPLE_DRAWS], i));
    }
    if (!rig_ran(r, &c, false, "sample")) return;
    for (int i = 0; i < N; i += 7) {
        och_op_call d = sample_call(r, 1, V);
        for (int o = 0; o < 3; o++) memcpy(d.in[o].host, rig_bytes(&c.in[o], i), (size_t)d.in[o].cols * 4);
        assert_true(rig_ran(r, &d, true, "a row alone"));
        assert_int_equal(*rig_int(&d.out[0], 0), *rig_int(&c.out[0], i));
    }
}

#endif
