/* How products are cut: what is known without the tables' figures, which are measured. And what scratch they ask for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "quant/planes.h"
#include "base/size.h"
#include "op/gpu/cuts.h"
#include "op/gpu/gpu.h"

static const char *const archs[] = {"sm_90", "sm_86", "sm_120", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151"};
static const och_dtype formats[] = {OCH_DTYPE_F16, OCH_DTYPE_BF16, OCH_DTYPE_Q4_K, OCH_DTYPE_Q8_0, OCH_DTYPE_Q6_K};
static const int units[] = {1, 40, 132, 304};
static const int64_t weight_rows[] = {1, 100, 1024, 4096, 28672, 151936};

static och_device device_of(const char *arch, int n_units) {
    och_device d = {0};
    strcpy(d.info.arch, arch);
    d.info.n_compute_units = n_units;
    return d;
}

/* Goes before the parameters that each kernel has. */
static void is_prefix(const char *spec) { assert_true(!*spec || spec[strlen(spec) - 1] == ','); }

/* The way that a number of rows has is for that number, that format and that device, and is wide enough. */
static void fits(const och_device *d, och_dtype format, int64_t m, int64_t n, const och_gpu_tiles *t) {
    is_prefix(t->spec), is_prefix(t->three), is_prefix(t->pair);
    /* A call's scratch has activations as its products take them, together or apart. */
    assert_true(!*t->three || !strstr(t->three, "T=bf16") == !strstr(t->spec, "T=bf16"));
    assert_true(!*t->pair || !strstr(t->pair, "T=bf16") == !strstr(t->spec, "T=bf16"));
    if (!t->arch) return;
    assert_int_equal(strncmp(d->info.arch, t->arch, strlen(t->arch)), 0);
    assert_true(t->format == format || t->format == OCH_DTYPE_NONE);
    assert_true(!t->most || n <= t->most);
    if (!t->bm) return;
    int64_t bm = (int64_t)t->bm, bn = (int64_t)t->bn, n_tiles = (n + bm - 1) / bm * ((m + bn - 1) / bn);
    assert_true(16 * n_tiles >= 15 * (int64_t)d->info.n_compute_units); /* nearly all have one */
}

/* What a specialisation says of a parameter. */
static int64_t said(const char *spec, const char *name) {
    const char *p = strstr(spec, name);
    assert_non_null(p);
    return strtoll(p + strlen(name), NULL, 10);
}

/* Activations are as those of products apart, whose scratch a call has; nearly all units have a tile. */
static void together_fits(const och_device *d, const och_gpu_tiles *apart, int64_t m, int64_t n, int n_weights, const char *spec) {
    is_prefix(spec);
    if (!*spec) return;
    assert_true(!strstr(spec, "T=bf16") == !strstr(apart->spec, "T=bf16"));
    assert_true(!strstr(spec, "JOINT=true") == (n_weights != 2));
    int64_t bm = said(spec, "BM="), bn = said(spec, "BN="), per = (n_weights == 2 ? 1 : 3) * ((m + bn - 1) / bn);
    assert_true(4 * ((n + bm - 1) / bm) * per >= 3 * (int64_t)d->info.n_compute_units);
}
static void split_fits(const och_device *d, och_dtype format, const och_gpu_tiles *apart, int64_t m, int64_t k, int64_t n, const och_gpu_split *s) {
    if (!s) return;
    is_prefix(s->spec);
    assert_true(s->format == format && s->parts > 1 && k >= s->least && !strncmp(d->info.arch, s->arch, strlen(s->arch)));
    assert_true(!strstr(s->spec, "T=bf16") == !strstr(apart->spec, "T=bf16"));
    assert_true((int64_t)s->bm == said(s->spec, "BM=") && (int64_t)s->bn == said(s->spec, "BN="));
    int64_t bm = (int64_t)s->bm, bn = (int64_t)s->bn, all = (n + bm - 1) / bm * ((m + bn - 1) / bn) * (int64_t)s->parts, n_units = d->info.n_compute_units;
    assert_true(all <= n_units && 4 * all >= 3 * n_units);
}

/* A plan that asks for the kernels of the numbers that och_gpu_tiles_next() gives has asked for those of each number between. */
static void every_way_is_met(void **state) {
    (void)state;
    static const int64_t from[] = {1, 5, 9}, mosts[] = {1, 9, 40, 64, 200, 1000, 2049};
    for (size_t a = 0; a < OCH_COUNT(archs) * OCH_COUNT(formats) * OCH_COUNT(units) * OCH_COUNT(weight_rows); a++) {
        och_dtype format = formats[a / OCH_COUNT(archs) % OCH_COUNT(formats)];
        int64_t m = weight_rows[a / OCH_COUNT(archs) / OCH_COUNT(formats) % OCH_COUNT(weight_rows)];
        och_device d = device_of(archs[a % OCH_COUNT(archs)],
                                 units[a / OCH_COUNT(archs) / OCH_COUNT(formats) / OCH_COUNT(weight_rows)]);
        for (size_t f = 0; f < OCH_COUNT(from) * OCH_COUNT(mosts); f++) {
            int64_t first = from[f % OCH_COUNT(from)], most = mosts[f / OCH_COUNT(from)], steps = 0;
            const och_gpu_tiles *met[64];
            const och_gpu_split *splits[64];
            const char *two[64], *three[64];
            int64_t ms[3] = {m, m, m}, k = 16384;
            if (first > most) continue;
            for (int64_t n = first; n; n = och_gpu_tiles_next(n, most)) {
                assert_true(n <= most && steps < (int64_t)OCH_COUNT(met));
                splits[steps] = och_gpu_split_of(&d, format, m, k, n);
                two[steps] = och_gpu_together_of(&d, format, ms, 2, n);
                three[steps] = och_gpu_together_of(&d, format, ms, 3, n);
                met[steps++] = och_gpu_tiles_of(&d, format, m, n);
            }
            for (int64_t n = first; n <= most; n++) {
                const och_gpu_tiles *t = och_gpu_tiles_of(&d, format, m, n);
                const och_gpu_split *s = och_gpu_split_of(&d, format, m, k, n);
                const char *both = och_gpu_together_of(&d, format, ms, 2, n), *all = och_gpu_together_of(&d, format, ms, 3, n);
                fits(&d, format, m, n, t);
                together_fits(&d, t, m, n, 2, both), together_fits(&d, t, m, n, 3, all);
                split_fits(&d, format, t, m, k, n, s);
                int64_t i = 0;
                while (i < steps && met[i] != t) i++;
                bool asked[3] = {false};
                for (int64_t x = 0; x < steps; x++) asked[0] |= splits[x] == s, asked[1] |= two[x] == both, asked[2] |= three[x] == all;
                assert_true(asked[0] && asked[1] && asked[2]);
                if (i == steps) fail_msg("%s, %d units: %lld rows are cut as %s, which no number asked for is", d.info.arch,
                                         (int)d.info.n_compute_units, (long long)n, t->spec);
            }
        }
    }
}

static int64_t columns_of_rounds(const och_device *d, const char *spec, const int64_t m[3], int64_t n) {
    int64_t bm = said(spec, "BM="), bn = said(spec, "BN="), tiles = 0;
    for (int i = 0; i < 3; i++) tiles += (n + bm - 1) / bm * ((m[i] + bn - 1) / bn);
    return (tiles + d->info.n_compute_units - 1) / d->info.n_compute_units * bm * bn;
}

/* Queries, keys and values of a model of 8B: there is more than one way, and each number of rows has about the least rounds of tiles times what a tile is. */
static void rounds_are_few(void **state) {
    (void)state;
    och_device d = device_of("sm_90", 132);
    const int64_t m[3] = {4096, 1024, 1024};
    const char *seen[8];
    int n_seen = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t n = 512; n <= 8192; n += 64) {
            const char *spec = och_gpu_together_of(&d, OCH_DTYPE_BF16, m, 3, n);
            int i = 0;
            while (i < n_seen && seen[i] != spec) i++;
            if (i == n_seen) seen[n_seen++] = spec;
            for (i = 0; i < n_seen; i++)
                assert_true(15 * columns_of_rounds(&d, spec, m, n) <= 16 * columns_of_rounds(&d, seen[i], m, n));
        }
    assert_true(n_seen > 1);
}

/* What no table has goes the kernels' own way. */
static void unknown_devices(void **state) {
    (void)state;
    och_device d = device_of("unknown", 64);
    assert_int_equal(och_gpu_few_rows(&d, 8), 8);
    assert_null(och_gpu_own_cut_of(&d));
    for (size_t f = 0; f < OCH_COUNT(formats); f++) {
        assert_string_equal(och_gpu_row_cut(&d, formats[f], 1 << 20, f % 2), "");
        assert_string_equal(och_gpu_codes_cut(&d, formats[f], f % 2), "");
        assert_null(och_gpu_post_cut(&d, formats[f], false));
        assert_string_equal(och_gpu_post_cut(&d, formats[f], true), "");
        assert_null(och_gpu_ring_of(&d, formats[f], false));
        const och_gpu_ring *ring = och_gpu_ring_of(&d, formats[f], true);
        assert_true(ring && !*ring->gate && !*ring->three && !*ring->brief && !*ring->lengthy);
        assert_null(och_gpu_alone_cut(&d, formats[f], 4096, 1 << 20, false));
        assert_string_equal(och_gpu_alone_cut(&d, formats[f], OCH_GPU_ALONE_COLS, 1, true), "");
        assert_null(och_gpu_alone_cut(&d, formats[f], OCH_GPU_ALONE_COLS + 32, 1 << 20, true));
        assert_null(och_gpu_norm_codes_cut(&d, formats[f], false));
        assert_string_equal(och_gpu_norm_codes_cut(&d, formats[f], true), "");
        const och_gpu_tiles *t = och_gpu_tiles_of(&d, formats[f], 1 << 20, 1 << 20);
        assert_true(!*t->spec && !*t->three && !*t->pair);
    }
}

static void known_devices(void **state) {
    (void)state;
    for (size_t a = 0; a < OCH_COUNT(archs); a++) {
        och_device d = device_of(archs[a], 132);
        const och_gpu_own_cut *own = och_gpu_own_cut_of(&d);
        assert_true(!own || (own->most_cols > 0 && own->early >= 0));
        assert_in_range(och_gpu_few_rows(&d, 8), 0, 8);
        for (size_t f = 0; f < OCH_COUNT(formats) * 2; f++) {
            och_dtype format = formats[f / 2];
            is_prefix(och_gpu_row_cut(&d, format, 1 << 20, f % 2));
            assert_string_equal(och_gpu_row_cut(&d, format, 0, f % 2), ""); /* rows of the table have a least number */
            const char *codes = och_gpu_codes_cut(&d, format, f % 2);
            if (codes) is_prefix(codes);
            const char *post = och_gpu_post_cut(&d, format, false), *asked = och_gpu_post_cut(&d, format, true);
            is_prefix(asked);
            assert_true(!post || post == asked);
            const och_gpu_ring *ring = och_gpu_ring_of(&d, format, true);
            is_prefix(ring->gate), is_prefix(ring->three), is_prefix(ring->brief), is_prefix(ring->lengthy);
            for (int64_t cols = 32; cols <= 4 * OCH_GPU_ALONE_COLS; cols *= 2) {
                const char *wish = och_gpu_alone_cut(&d, format, cols, 1, true);
                if (!wish) continue;
                is_prefix(wish);
                assert_in_range(och_gpu_ring_groups(&d, wish), 132, 4 * 132);
            }
            is_prefix(och_gpu_norm_codes_cut(&d, format, true));
        }
    }
}

static uint64_t ring_lds(och_gpu_ring_kind kind, const char *cut, och_dtype format, int64_t cols) {
    uint64_t row;
    assert_true(och_planes_row_bytes(format, (uint64_t)cols, &row));
    return och_gpu_ring_lds(kind, cut, row, cols) + 1024; /* which the system keeps of each workgroup */
}

/* Workgroups whose number the tables rest on have room beside each other. sm_90: 233472 bytes of shared memory a multiprocessor, of which
 * the system keeps 1024 a workgroup (CUDA C++ Programming Guide, "Compute Capabilities"). */
static void neighbours_have_room(void **state) {
    (void)state;
    enum { SM = 233472 };
    static const struct {
        och_dtype format;
        int64_t cols;
        const char *cut;
    } alone[] = {
#define OCH_ALONE(arch, format, cols, rows, spec) {format, cols, spec},
#include "op/gpu/alone.def"
#undef OCH_ALONE
    };
    och_device d = device_of("sm_90", 132);
    for (size_t i = 0; i < OCH_COUNT(alone); i++) {
        uint64_t groups = (uint64_t)och_gpu_ring_groups(&d, alone[i].cut) / 132, bytes = ring_lds(OCH_GPU_RING_ALONE, alone[i].cut, alone[i].format, alone[i].cols);
        if (groups * bytes > SM)
            fail_msg("%s of rows of %d: expected %d workgroups to fit into %d bytes, each takes %d", alone[i].cut, (int)alone[i].cols, (int)groups, SM, (int)bytes);
    }
    for (size_t f = 0; f < OCH_COUNT(formats); f++) {
        const och_gpu_ring *ring = och_gpu_ring_of(&d, formats[f], false);
        if (!ring || !ring->whole) continue;
        /* two gates; a gate beside what comes before it, which has a multiprocessor to itself */
        uint64_t gate = ring_lds(OCH_GPU_RING_GATE, ring->gate, formats[f], 4096), o = ring_lds(OCH_GPU_RING_CODES, ring->brief, formats[f], 4096);
        assert_in_range(2 * gate, 0, SM);
        assert_in_range(gate + o, 0, SM);
        assert_in_range(2 * o, SM + 1, 2 * SM);
    }
}

/* Few short rows were faster in registers, and of long ones no fewer were measured than the table says; longer rows than it has are not
 * taken, whatever is asked. */
static void alone_where_measured(void **state) {
    (void)state;
    och_device d = device_of("sm_90", 132);
    assert_null(och_gpu_alone_cut(&d, OCH_DTYPE_Q4_K, 4096, 8191, false));
    assert_non_null(och_gpu_alone_cut(&d, OCH_DTYPE_Q4_K, 4096, 8192, false));
    assert_non_null(och_gpu_alone_cut(&d, OCH_DTYPE_Q4_K, 4096, 32, true));
    assert_null(och_gpu_alone_cut(&d, OCH_DTYPE_Q4_K, 4128, 1023, false));
    assert_non_null(och_gpu_alone_cut(&d, OCH_DTYPE_Q4_K, 4128, 1024, false));
    assert_null(och_gpu_alone_cut(&d, OCH_DTYPE_Q4_K, 16384 + 32, 1 << 20, true));
    assert_null(och_gpu_alone_cut(&d, OCH_DTYPE_Q8_0, 4096, 1 << 20, false));
    assert_int_equal(och_gpu_ring_groups(&d, och_gpu_alone_cut(&d, OCH_DTYPE_Q4_K, 8192, 8192, false)), 2 * 132);
    assert_int_equal(och_gpu_ring_groups(&d, ""), 132);
}

/* Shapes whose scratch is no number of 64 bits ask for more than any device has, and none asks for less than its activations. */
static void scratch_does_not_wrap(void **state) {
    (void)state;
    static const int bits[] = {0, 4, 13, 20, 31, 40, 50, 59, 62};
    och_device d = device_of("sm_90", 132);
    for (size_t f = 0; f < OCH_COUNT(formats); f++)
        for (size_t i = 0; i < OCH_COUNT(bits) * OCH_COUNT(bits) * OCH_COUNT(bits); i++)
            for (int gate = 0; gate < 2; gate++) {
                int64_t n = INT64_C(1) << bits[i % OCH_COUNT(bits)], k = INT64_C(1) << OCH_MAX(bits[i / OCH_COUNT(bits) % OCH_COUNT(bits)], 8),
                        m = INT64_C(1) << bits[i / OCH_COUNT(bits) / OCH_COUNT(bits)];
                och_op_call c = {.op = OCH_OP_LINEAR};
                c.attr.linear.n_weights = gate ? 2 : 1;
                c.attr.linear.glu = gate ? OCH_ACT_SILU : OCH_ACT_NONE;
                c.in[OCH_LINEAR_X] = (och_tensor){.dtype = OCH_DTYPE_F32, .rows = n, .cols = k};
                for (int w = 0; w <= gate; w++)
                    c.in[OCH_LINEAR_W0 + w] = (och_tensor){.dtype = formats[f], .layout = OCH_LAYOUT_PLANES, .rows = m, .cols = k};
                long double least = (long double)n * ((long double)k + (gate ? 8.0L * (long double)m : 0.0L));
                if ((long double)och_gpu_linear_scratch(&d, &c) < least && least < 0x1p64L)
                    fail_msg("format %d: %lld rows of %lld, %lld of the weight: too little", (int)formats[f], (long long)n, (long long)k, (long long)m);
                if (least >= 0x1p64L) assert_true(och_gpu_linear_scratch(&d, &c) == UINT64_MAX);
            }
}

/* A layout's scratch is asked for with the most rows that a step may have, and has to do for each number of them. */
static void scratch_does_for_fewer_rows(void **state) {
    (void)state;
    och_device d = device_of("sm_90", 132);
    int met = 0;
    for (size_t f = 0; f < 2; f++)
        for (int64_t m = 1024; m <= 8192; m += 1024) {
            och_op_call c = {.op = OCH_OP_LINEAR};
            c.attr.linear.n_weights = 1;
            c.in[OCH_LINEAR_W0] = (och_tensor){.dtype = f ? OCH_DTYPE_F16 : OCH_DTYPE_BF16, .layout = OCH_LAYOUT_PLANES, .rows = m, .cols = 14336};
            uint64_t parts = 0;
            for (int64_t n = 65; n <= 1024; n++) {
                const och_gpu_split *s = och_gpu_split_of(&d, c.in[OCH_LINEAR_W0].dtype, m, 14336, n);
                if (s) parts = OCH_MAX(parts, s->parts * (uint64_t)n * (uint64_t)m * 4), met++;
                c.in[OCH_LINEAR_X] = (och_tensor){.dtype = OCH_DTYPE_F32, .rows = n, .cols = 14336};
                assert_true(och_gpu_linear_scratch(&d, &c) >= parts);
            }
        }
    assert_true(met > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_way_is_met), cmocka_unit_test(unknown_devices), cmocka_unit_test(known_devices),
                                       cmocka_unit_test(alone_where_measured), cmocka_unit_test(neighbours_have_room), cmocka_unit_test(rounds_are_few),
                                       cmocka_unit_test(scratch_does_not_wrap), cmocka_unit_test(scratch_does_for_fewer_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
