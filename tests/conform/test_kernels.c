/* Built-in kernels that no op launches, and what is not seen of others through an op, against the host: sampling against the engine's
 * sampler, distributions, layer_norm, conversions, codes and attention over a state of eight bits against double precision. On OCHRE_TEST_DEVICES, else on a simulated
 * board of each wave size. */
#include "conform/support/kernel_numbers.h"

#include "base/half.h"
#include "base/size.h"
#include "engine/sampler.h"
#include "quant/format.h"
#include "quant/planes.h"

#include <math.h>

#define MOST (16 * 5000)
static float x[MOST], y[MOST], z[MOST];

static const int shapes[][2] = {{1, 1}, {3, 7}, {2, 64}, {5, 1000}, {1, 4999}};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

static void distributions(kernel_rig *k) {
    state = 1;
    for (int s = 0; s < N_SHAPES; s++)
        for (int scale = 0; scale < 3; scale++) {
            int n = shapes[s][0], d = shapes[s][1];
            fill(x, (size_t)n * (size_t)d, scale == 2 ? 1e4 : scale ? 30.0 : 1.0);
            och_kl_actual soft[] = {kernel_rig_f32(k, "x", x, n, d), kernel_rig_f32(k, "y", y, n, d)};
            kernel_rig_run(k, "softmax", "WAVES=8", soft, 2);
            och_kl_actual sum[] = {kernel_rig_f32(k, "x", x, n, d), kernel_rig_f32(k, "y", z, n, 1)};
            kernel_rig_run(k, "logsumexp", "WAVES=4", sum, 2);
            for (int i = 0; i < n; i++) {
                const float *row = x + i * d;
                double top = row[0], total = 0;
                for (int j = 1; j < d; j++) top = fmax(top, row[j]);
                for (int j = 0; j < d; j++) total += exp(row[j] - top);
                near(z[i], top + log(total), 4e-7 * (fabs(top) + 1 + log(total)), "logsumexp", i, 0);
                /* The difference to the greatest is rounded: an error of the exponent, which is small where the result is not.
                 */
                for (int j = 0; j < d; j++)
                    near(y[i * d + j], exp(row[j] - top) / total,
                         3e-6 * exp(row[j] - top) / total * (1 + fabs(row[j] - top)) + 1e-37, "softmax", i, j);
            }
        }
}

/* A row with a number that is not finite is none of softmax's, but for -infinity beside others, whose weight is 0; the rows
 * beside it are what they are without it. */
static void odd_distributions(kernel_rig *k) {
    enum { N = 3, D = 1000 };
    static float plain[N * D], plain_sum[N];
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    for (int v = -1; v < 6; v++) {
        state = 9;
        fill(x, N * D, 3.0);
        for (int j = 0; v >= 0 && j < D; j++)
            if (v >= 3 || j == 700) x[D + j] = odd[v % 3];
        och_kl_actual soft[] = {kernel_rig_f32(k, "x", x, N, D), kernel_rig_f32(k, "y", y, N, D)};
        kernel_rig_run(k, "softmax", "WAVES=8", soft, 2);
        och_kl_actual sum[] = {kernel_rig_f32(k, "x", x, N, D), kernel_rig_f32(k, "y", z, N, 1)};
        kernel_rig_run(k, "logsumexp", "WAVES=8", sum, 2);
        if (v < 0) memcpy(plain, y, sizeof plain), memcpy(plain_sum, z, sizeof plain_sum);
        for (int i = 0; i < N; i++) {
            bool bad = v >= 0 && i == 1 && v != 2;
            if (i != 1 && (memcmp(y + i * D, plain + i * D, D * sizeof *y) || z[i] != plain_sum[i]))
                fail_msg("variant %d: row %d is another than without the odd one", v, i);
            if (isfinite(z[i]) == bad) fail_msg("logsumexp, variant %d: row %d is %.9g", v, i, (double)z[i]);
            for (int j = 0; j < D; j++)
                if (isfinite(y[i * D + j]) == bad)
                    fail_msg("softmax, variant %d: [%d, %d] is %.9g", v, i, j, (double)y[i * D + j]);
        }
        if (v == 2) assert_true(y[D + 700] == 0.0f);
    }
}

static void greatest(kernel_rig *k) {
    state = 2;
    static int32_t id[16];
    for (int s = 0; s < N_SHAPES; s++)
        for (int v = 0; v < 6; v++) {
            int n = shapes[s][0], d = shapes[s][1];
            for (int i = 0; i < n * d; i++) x[i] = v == 0 ? -1e30f : v == 1 ? -3.0f : v == 2 ? (i % 2 ? 0.0f : -0.0f) : gauss();
            if (v == 3) for (int i = 0; i < n * d; i++) x[i] = floorf(x[i] * 2); /* many ties */
            if (v == 4) x[n * d - 1] = NAN;
            if (v == 5) x[n * d / 2] = INFINITY, x[n * d - 1] = -INFINITY;
            och_kl_actual args[] = {kernel_rig_f32(k, "x", x, n, d), kernel_rig_i32(k, "y", id, n, 1)};
            kernel_rig_run(k, "argmax", "WAVES=8", args, 2);
            for (int i = 0; i < n; i++) {
                int expected = 0;
                for (int j = 1; j < d; j++)
                    if (x[i * d + j] > x[i * d + expected]) expected = j;
                for (int j = d - 1; j >= 0; j--)
                    if (!isfinite(x[i * d + j])) expected = -1 - j;
                if (id[i] != expected)
                    fail_msg("argmax, variant %d of %d x %d: row %d: expected %d, found %d", v, n, d, i, expected, id[i]);
            }
        }
}

/* ---- sampling: the engine's sampler is the oracle, whose draws are tested against exact probabilities (unit/test_sampler.c)
 * ---- */

enum { ROWS = 16 };

static void draws(kernel_rig *k) {
    static const och_sampler_params kinds[] = {
        {.temperature = 1, .top_p = 1},
        {.temperature = 0, .top_p = 1},
        {.temperature = 0.7f, .top_k = 40, .top_p = 1},
        {.temperature = 0.8f, .top_p = 0.9f},
        {.temperature = 1.3f, .top_p = 0.5f, .min_p = 0.05f},
        {.temperature = 1, .top_p = 1, .min_p = 0.2f},
        {.temperature = 0.6f, .top_k = 20, .top_p = 0.95f, .min_p = 0.01f},
        {.temperature = 2, .top_k = 1, .top_p = 1},
        {.temperature = 0.01f, .top_p = 0.99f},
        {.temperature = 1, .top_k = 7, .top_p = 0.3f},
        {.temperature = 50, .top_k = 100000, .top_p = 0.999f},
    };
    static const int vocabs[] = {1, 2, 33, 513, 4999};
    static uint64_t scratch[(5000 + 1024) * 5 / 2 + 4096 + 8];
    static float numbers[ROWS][3];
    static int32_t how[ROWS][5], id[ROWS]; /* top_k, seed, position */
    state = 3;
    int n_equal = 0, n_all = 0;
    for (int v = 0; v < 5; v++)
        for (int ties = 0; ties < 3; ties++) { /* none, many, nothing else */
            int vocab = vocabs[v], chosen[ROWS];
            assert_true(och_sampler_scratch_bytes((uint32_t)vocab) <= sizeof scratch);
            for (int round = 0; round < 3; round++) {
                fill(x, (size_t)ROWS * (size_t)vocab, 3.0);
                for (int i = 0; ties && i < ROWS * vocab; i++) x[i] = ties == 2 ? 1.5f : floorf(x[i]);
                for (int r = 0; r < ROWS; r++) {
                    const och_sampler_params *p = &kinds[chosen[r] = (r + 16 * round) % (int)(sizeof kinds / sizeof kinds[0])];
                    uint64_t seed = random_u64(), position = r % 3 ? random_u64() : (uint64_t)r;
                    memcpy(numbers[r], (float[3]){p->temperature, p->top_p, p->min_p}, sizeof numbers[r]);
                    how[r][0] = p->top_k;
                    memcpy(how[r] + 1, &seed, 8);
                    memcpy(how[r] + 3, &position, 8);
                }
                och_kl_actual args[] = {kernel_rig_f32(k, "logits", x, ROWS, vocab),
                                        kernel_rig_f32(k, "numbers", numbers[0], ROWS, 3),
                                        kernel_rig_i32(k, "draws", how[0], ROWS, 5), {.name = "part"}, och_gpu_int("parts", 0), kernel_rig_i32(k, "id", id, ROWS, 1)};
                kernel_rig_run(k, "sample", "WAVES=8", args, 6);
                for (int r = 0; r < ROWS; r++) {
                    och_sampler_params p = kinds[chosen[r]];
                    uint64_t position;
                    uint32_t expected;
                    och_err err = {0};
                    p.repetition_penalty = 1;
                    memcpy(&p.seed, how[r] + 1, 8);
                    memcpy(&position, how[r] + 3, 8);
                    kernel_rig_ok(och_sample(&p, x + r * vocab, (uint32_t)vocab, NULL, 0, position, scratch, sizeof scratch,
                                             &expected, &err),
                                  &err, "the sampler");
                    n_all++;
                    n_equal += id[r] == (int32_t)expected;
                    if (id[r] != (int32_t)expected)
                        fail_msg("sample, vocabulary %d, kind %d%s: expected %u, found %d", vocab, chosen[r],
                                 ties ? ", ties" : "", expected, id[r]);
                }
            }
        }
    assert_int_equal(n_equal, n_all);
    /* A logit that is no number is told, in whatever way the row is sampled. */
    fill(x, ROWS * 513, 1.0);
    for (int r = 0; r < ROWS; r++) x[r * 513 + 31 * r] = r % 2 ? NAN : INFINITY;
    och_kl_actual args[] = {kernel_rig_f32(k, "logits", x, ROWS, 513), kernel_rig_f32(k, "numbers", numbers[0], ROWS, 3),
                            kernel_rig_i32(k, "draws", how[0], ROWS, 5), {.name = "part"}, och_gpu_int("parts", 0), kernel_rig_i32(k, "id", id, ROWS, 1)};
    kernel_rig_run(k, "sample", "WAVES=8", args, 6);
    for (int r = 0; r < ROWS; r++) assert_int_equal(id[r], -1 - 31 * r);
}

/* ---- layer_norm, conversions ---- */

/* Every way of sampling names the first number that is not finite. */
static void odd_draws(kernel_rig *k) {
    enum { V = 513, AT = 300 };
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    static float numbers[ROWS][3];
    static int32_t how[ROWS][5], id[ROWS]; /* top_k, seed, position */
    state = 10;
    for (int v = 0; v < 3; v++) {
        fill(x, ROWS * V, 3.0);
        for (int r = 0; r < ROWS; r++) {
            memcpy(numbers[r], (float[3]){r & 1 ? 0.7f : 0.0f, r & 2 ? 0.9f : 1.0f, r & 4 ? 0.1f : 0.0f}, sizeof numbers[r]);
            how[r][0] = r & 8 ? 40 : 0;
            for (int j = 0; j < 4; j++) how[r][1 + j] = r + j;
            if (r % 3) x[r * V + AT] = odd[v], x[r * V + AT + 9] = odd[(v + 1) % 3];
        }
        och_kl_actual args[] = {kernel_rig_f32(k, "logits", x, ROWS, V), kernel_rig_f32(k, "numbers", numbers[0], ROWS, 3),
                                kernel_rig_i32(k, "draws", how[0], ROWS, 5), {.name = "part"}, och_gpu_int("parts", 0), kernel_rig_i32(k, "id", id, ROWS, 1)};
        kernel_rig_run(k, "sample", "WAVES=8", args, 6);
        for (int r = 0; r < ROWS; r++)
            if (r % 3 ? id[r] != -1 - AT : id[r] < 0) fail_msg("variant %d, row %d: found %d", v, r, id[r]);
    }
}

static void layer_norm(kernel_rig *k) {
    state = 4;
    static float w[5000], b[5000];
    for (int s = 0; s < N_SHAPES; s++)
        for (int bias = 0; bias < 2; bias++) {
            int n = shapes[s][0], d = shapes[s][1];
            fill(x, (size_t)n * (size_t)d, 2.0);
            for (int i = 0; i < n * d; i++) x[i] += 3;
            fill(w, (size_t)d, 1.0);
            fill(b, (size_t)d, 1.0);
            och_kl_actual args[] = {kernel_rig_f32(k, "x", x, n, d), kernel_rig_vector(k, "w", w, d),
                                    bias ? kernel_rig_vector(k, "b", b, d) : (och_kl_actual){.name = "b"},
                                    kernel_rig_f32(k, "y", y, n, d), och_gpu_real("eps", 1e-5)};
            kernel_rig_run(k, "layer_norm", "WAVES=4", args, 5);
            for (int i = 0; i < n; i++) {
                double mean = 0, var = 0;
                for (int j = 0; j < d; j++) mean += (double)x[i * d + j] / d;
                for (int j = 0; j < d; j++) var += pow(x[i * d + j] - mean, 2) / d;
                for (int j = 0; j < d; j++) {
                    double e = (x[i * d + j] - mean) / sqrt(var + 1e-5) * w[j];
                    near(y[i * d + j], e + (bias ? b[j] : 0), 4e-6 * (fabs(w[j]) * 4 + fabs(b[j])) + (d == 1 ? 1e-3 : 0),
                         "layer_norm", i, j);
                }
            }
        }
}

static void conversions(kernel_rig *k) {
    state = 5;
    static uint16_t h[MOST];
    for (int s = 0; s < N_SHAPES; s++) {
        int n = shapes[s][0], d = shapes[s][1];
        fill(x, (size_t)n * (size_t)d, 100.0);
        for (int bf = 0; bf < 2; bf++) {
            och_kl_actual to[] = {kernel_rig_f32(k, "x", x, n, d), kernel_rig_rows(k, "y", h, n, d, (uint64_t)d * 2),
                                  och_gpu_real("scale", 0.5)};
            kernel_rig_run(k, "cast", bf ? "S=f32,T=bf16" : "S=f32,T=f16", to, 3);
            for (int i = 0; i < n * d; i++)
                assert_int_equal(h[i], bf ? och_f32_to_bf16(0.5f * x[i]) : och_f32_to_f16(0.5f * x[i]));
            och_kl_actual from[] = {kernel_rig_rows(k, "x", h, n, d, (uint64_t)d * 2), kernel_rig_f32(k, "y", y, n, d),
                                    och_gpu_real("scale", 1.0)};
            kernel_rig_run(k, "cast", bf ? "S=bf16,T=f32" : "S=f16,T=f32", from, 3);
            for (int i = 0; i < n * d; i++) assert_true(y[i] == (bf ? och_bf16_to_f32(h[i]) : och_f16_to_f32(h[i])));
        }
        och_kl_actual filled[] = {kernel_rig_f32(k, "y", y, n, d), och_gpu_real("value", -2.5)};
        kernel_rig_run(k, "fill", "T=f32", filled, 2);
        for (int i = 0; i < n * d; i++) assert_true(y[i] == -2.5f);
    }
}

/* Every format, whole matrices; rows of floats that are no whole units too. */
static void decoding(kernel_rig *k) {
    state = 6;
    static uint8_t file[1 << 16], planes[1 << 16];
    static float expected[4 * 544];
    for (size_t f = 0; och_format_at(f); f++)
        for (int v = 0; v < 2; v++) {
            const och_format *t = och_format_at(f);
            int64_t n = 3, d = v ? 512 : t->block_elems == 1 ? 33 : t->block_elems, unit = t->act == OCH_ACT_Q8_32S ? 32 : 8;
            uint64_t row_file, row_planes;
            och_err err = {0};
            char spec[64];
            assert_true(och_dtype_row_bytes(t->dtype, (uint64_t)d, &row_file) &&
                        och_planes_row_bytes(t->dtype, (uint64_t)d, &row_planes));
            fill(x, (size_t)(n * d), 0.3);
            for (int64_t i = 0; i < n; i++) {
                kernel_rig_ok(och_format_encode_row(t->dtype, x + i * d, file + (uint64_t)i * row_file, (uint64_t)d, &err),
                              &err, t->name);
                och_format_decode_row(t->dtype, file + (uint64_t)i * row_file, expected + i * d, (uint64_t)d);
            }
            och_planes_pack(t->dtype, n, d, file, planes, 0, n);
            for (int half = 0; half < 2; half++) {
                static uint16_t h[4 * 544];
                och_kl_actual args[] = {kernel_rig_rows(k, "w", planes, n, (d + unit - 1) / unit * unit, row_planes),
                                        half ? kernel_rig_rows(k, "y", h, n, d, (uint64_t)d * 2)
                                             : kernel_rig_f32(k, "y", y, n, d)};
                snprintf(spec, sizeof spec, "F=%s,T=%s", t->name, half ? "f16" : "f32");
                kernel_rig_run(k, "dequantise", spec, args, 2);
                for (int64_t i = 0; i < n * d; i++)
                    if (half ? h[i] != och_f32_to_f16(expected[i]) : y[i] != expected[i])
                        fail_msg("dequantise %s: element %lld: expected %.9g, found %.9g", spec, (long long)i,
                                 (double)expected[i], half ? (double)och_f16_to_f32(h[i]) : (double)y[i]);
            }
        }
}

/* Gates that make codes give the same ones however they are cut: which rows a wave takes, what it loads early. */
static void cuts_of_gates(kernel_rig *k) {
    enum { K = 2304, M = 96 };
    static const char *const cuts[] = {"", "EARLY=1,", "EARLY=2,", "EARLY=1,WAVES=4,OCC=8,", "ROWS=2,", "WAVES=4,", "PER=64,", "B=4,", "WAVES=16,"};
    static const och_dtype formats[] = {OCH_DTYPE_Q4_K, OCH_DTYPE_Q8_0, OCH_DTYPE_Q5_1};
    static uint8_t file[M * K * 2], planes[2][M * K * 2], act[K * 2], first[M * 2], found[M * 2];
    static float row[K], bias[2][M];
    och_err err = {0};
    for (size_t f = 0; f < OCH_COUNT(formats); f++) {
        uint64_t row_file, row_planes, row_act, row_codes;
        state = 20 + f;
        assert_true(och_dtype_row_bytes(formats[f], K, &row_file) && och_planes_row_bytes(formats[f], K, &row_planes) &&
                    och_planes_act_row_bytes(K, &row_act) && och_planes_act_row_bytes(M, &row_codes));
        for (int w = 0; w < 2; w++) {
            for (int i = 0; i < M; i++) {
                fill(row, K, 0.1);
                kernel_rig_ok(och_format_encode_row(formats[f], row, file + (uint64_t)i * row_file, K, &err), &err, "a weight");
            }
            och_planes_pack(formats[f], M, K, file, planes[w], 0, M);
            fill(bias[w], M, 1.0);
        }
        fill(row, K, 1.0);
        och_planes_act_encode_row(row, K, act);
        for (size_t c = 0; c < OCH_COUNT(cuts); c++) {
            char spec[80];
            memset(found, 0, sizeof found);
            och_kl_actual args[] = {kernel_rig_rows(k, "w0", planes[0], M, K, row_planes), kernel_rig_rows(k, "w1", planes[1], M, K, row_planes),
                                    kernel_rig_rows(k, "x", act, 1, K, row_act), kernel_rig_vector(k, "bias0", bias[0], M),
                                    kernel_rig_vector(k, "bias1", bias[1], M), kernel_rig_rows(k, "codes", found, 1, M, row_codes),
                                    {.name = "squares"}, och_gpu_real("eps", 0.0)};
            snprintf(spec, sizeof spec, "%sF=%s,ACT=1", cuts[c], och_format_get(formats[f])->name);
            kernel_rig_run(k, "matvec_glu_codes", spec, args, 8);
            if (!c) memcpy(first, found, sizeof first);
            if (memcmp(first, found, (size_t)row_codes) != 0) fail_msg("matvec_glu_codes %s: other codes", spec);
        }
    }
}

/* A product of one row that turns q and k gives them however it is cut: of heads of which the rotation leaves a part, with biases, rows
 * of which lanes have no unit, one or several. */
static void cuts_of_one_row(kernel_rig *k) {
    enum { COLS = 2304, HD = 32, ROT = 24, BT = 16, SLOT = 21, MQ = 2 * HD, M = 4 * HD, STATE = 2 * HD * BT };
    static const char *const cuts[] = {"", "WAVES=8,", "ROWS=2,U=4,", "ROWS=2,WAVES=8,", "U=2,OCC=8,", "EARLY=4,OCC=8,", "EARLY=1,WAVES=8,", "EARLY=3,U=2,", "ROWS=4,",
                                       "SQUARES=true,", "SQUARES=true,EARLY=4,OCC=8,", "SQUARES=true,ROWS=2,"};
    static const och_dtype formats[] = {OCH_DTYPE_Q4_K, OCH_DTYPE_Q8_0, OCH_DTYPE_F32};
    static const char *const names[3][2] = {{"wq", "bq"}, {"wk", "bk"}, {"wv", "bv"}};
    static const int first[4] = {0, MQ, MQ + HD, M};
    static uint8_t file[COLS * 4], planes[M * COLS * 4], act[COLS * 4];
    static float w[M][COLS], row[COLS], bias[M], table[ROT], state_k[STATE], state_v[STATE];
    static float squares[COLS / 32];
    static double sums[M], sizes[M], sum[M], size[M];
    static int32_t slot[1] = {SLOT};
    och_err err = {0};
    for (size_t f = 0; f < OCH_COUNT(formats) * 2; f++) {
        const och_format *t = och_format_get(formats[f / 2]);
        bool half = f % 2;
        int cols = half ? COLS : 512; /* a unit for some lanes alone */
        uint64_t row_file, row_planes, row_act = (uint64_t)cols * 4;
        state = 40 + f;
        assert_true(och_dtype_row_bytes(t->dtype, (uint64_t)cols, &row_file) && och_planes_row_bytes(t->dtype, (uint64_t)cols, &row_planes));
        fill(row, (size_t)cols, 1.0);
        memcpy(act, row, row_act);
        if (t->act == OCH_ACT_Q8_32S) {
            assert_true(och_planes_act_row_bytes((uint64_t)cols, &row_act));
            och_planes_act_encode_row(row, (uint64_t)cols, act);
            och_planes_act_decode_row(act, (uint64_t)cols, row); /* the numbers that codes stand for */
        }
        fill(bias, M, 1.0);
        for (int i = 0; i < M; i++) {
            fill(w[i], (size_t)cols, 0.1);
            kernel_rig_ok(och_format_encode_row(t->dtype, w[i], file, (uint64_t)cols, &err), &err, "a weight");
            och_format_decode_row(t->dtype, file, w[i], (uint64_t)cols);
            och_planes_pack(t->dtype, 1, cols, file, planes + (uint64_t)i * row_planes, 0, 1);
            sums[i] = sizes[i] = 0;
            for (int c = 0; c < cols; c++) sums[i] += (double)w[i][c] * row[c], sizes[i] += fabs((double)w[i][c] * row[c]);
        }
        double factor = 0;
        for (int b = 0; b < cols / 32; b++) squares[b] = (float)(1 + b % 5), factor += squares[b];
        factor = 1 / sqrt(factor / cols + 1e-5);
        for (int i = 0; i < ROT / 2; i++) table[i] = (float)cos(i + 0.5), table[ROT / 2 + i] = (float)sin(i + 0.5);
        for (size_t c = 0; c < OCH_COUNT(cuts); c++) {
            char spec[96];
            och_kl_actual args[15];
            int n = 0;
            bool scaled = strstr(cuts[c], "SQUARES") != NULL;
            if (scaled && t->act != OCH_ACT_Q8_32S) continue;
            for (int i = 0; i < M; i++) {
                sum[i] = sums[i] * (scaled ? factor : 1) + bias[i];
                size[i] = sizes[i] * (scaled ? factor : 1) + fabs((double)bias[i]);
            }
            memset(y, 0, sizeof y);
            memset(state_k, 0, sizeof state_k);
            memset(state_v, 0, sizeof state_v);
            for (int i = 0; i < 3; i++) {
                args[n++] = kernel_rig_rows(k, names[i][0], planes + (uint64_t)first[i] * row_planes, first[i + 1] - first[i], cols, row_planes);
                args[n++] = kernel_rig_vector(k, names[i][1], bias + first[i], first[i + 1] - first[i]);
            }
            args[n++] = kernel_rig_rows(k, "x", act, 1, cols, row_act);
            args[n++] = scaled ? kernel_rig_f32(k, "squares", squares, 1, cols / 32) : (och_kl_actual){.name = "squares"};
            args[n++] = och_gpu_real("eps", 1e-5);
            args[n++] = kernel_rig_f32(k, "table", table, 1, ROT);
            args[n++] = kernel_rig_i32(k, "slots", slot, 1, 1);
            args[n++] = kernel_rig_f32(k, "y", y, 1, MQ);
            args[n++] = kernel_rig_f32(k, "kcache", state_k, 2, STATE / 2);
            args[n++] = kernel_rig_f32(k, "vcache", state_v, 2, STATE / 2);
            args[n++] = och_gpu_int("head_dim", HD);
            snprintf(spec, sizeof spec, "%sF=%s,G=%s,T=f32,BT=%d,HALF=%s", cuts[c], t->name, t->name, BT, half ? "true" : "false");
            kernel_rig_run(k, "matvec_qkv_post", spec, args, n);
            for (int i = 0; i < M; i++) {
                int h = i / HD, e = i % HD, j = half ? e % (ROT / 2) : e / 2, second = half ? e >= ROT / 2 : e % 2;
                int other = h * HD + (half ? (second ? j : j + ROT / 2) : e ^ 1);
                double v = sum[i], near_by = 4e-6 * size[i];
                if (h < 3 && e < ROT) {
                    double co = (double)table[j], si = (double)table[ROT / 2 + j];
                    v = second ? sum[other] * si + sum[i] * co : sum[i] * co - sum[other] * si;
                    near_by += 4e-6 * size[other];
                }
                int at = STATE / 2 * (SLOT / BT);
                float found = h < 2 ? y[i] : h == 2 ? state_k[at + e * BT + SLOT % BT] : state_v[at + SLOT % BT * HD + e];
                near((double)found, v, near_by, spec, h, e);
            }
            for (int i = 0, written = 0; i < STATE; i++) {
                written += (state_k[i] != 0.0f) + (state_v[i] != 0.0f);
                if (i == STATE - 1) assert_int_equal(written, 2 * HD);
            }
        }
    }
}

/* What writes codes of a row for a norm without its factor, and its squares, and what reads them: against products and sums in double. */
enum { NORM_K = 2336, NORM_M = 160, QUADS = 4 * ((NORM_K / 32 + 3) / 4) }; /* blocks that are no whole quads */

typedef struct normed_case {
    const och_format *t;
    uint64_t row_planes, row_act, row_codes;
    uint8_t planes[2 * NORM_M * NORM_K * 2], act[NORM_K * 2], codes[NORM_M * 2];
    float bias[2 * NORM_M], residual[NORM_M], norm[NORM_K], squares[QUADS], own[8];
    double sum[2 * NORM_M], size[2 * NORM_M]; /* of products */
    int cols;
} normed_case;

static void normed_make(normed_case *s, och_dtype t, int cols) {
    static float w[NORM_K], row[NORM_K];
    static uint8_t file[NORM_K * 4];
    uint64_t row_file;
    och_err err = {0};
    s->t = och_format_get(t);
    s->cols = cols;
    assert_true(och_dtype_row_bytes(t, (uint64_t)cols, &row_file) && och_planes_row_bytes(t, (uint64_t)cols, &s->row_planes) &&
                och_planes_act_row_bytes((uint64_t)cols, &s->row_act) && och_planes_act_row_bytes(NORM_M, &s->row_codes));
    fill(row, (size_t)cols, 1.0);
    och_planes_act_encode_row(row, (uint64_t)cols, s->act);
    och_planes_act_decode_row(s->act, (uint64_t)cols, row); /* the numbers that codes stand for */
    fill(s->bias, 2 * NORM_M, 1.0);
    fill(s->residual, NORM_M, 3.0);
    fill(s->norm, NORM_K, 1.0);
    for (int i = 0; i < QUADS; i++) s->squares[i] = i < cols / 32 ? (float)(20 + i % 7) : NAN; /* past the last block: nothing's */
    for (int i = 0; i < 2 * NORM_M; i++) {
        fill(w, (size_t)cols, 0.1);
        kernel_rig_ok(och_format_encode_row(t, w, file, (uint64_t)cols, &err), &err, "a weight");
        och_format_decode_row(t, file, w, (uint64_t)cols);
        och_planes_pack(t, 1, cols, file, s->planes + (uint64_t)i * s->row_planes, 0, 1);
        s->sum[i] = s->size[i] = 0;
        for (int c = 0; c < cols; c++) s->sum[i] += (double)w[c] * row[c], s->size[i] += fabs((double)w[c] * row[c]);
    }
}

static double factor_of(const normed_case *s) {
    double all = 0;
    for (int b = 0; b < s->cols / 32; b++) all += s->squares[b];
    return 1 / sqrt(all / s->cols + 0.5);
}

static och_kl_actual normed_weight(kernel_rig *k, const char *name, normed_case *s, int first, int rows) {
    return kernel_rig_rows(k, name, s->planes + (uint64_t)first * s->row_planes, rows, s->cols, s->row_planes);
}
static och_kl_actual normed_codes(kernel_rig *k, normed_case *s) { return kernel_rig_rows(k, "x", s->act, 1, s->cols, s->row_act); }
static och_kl_actual normed_squares(kernel_rig *k, normed_case *s) {
    return kernel_rig_f32(k, "squares", s->squares, 1, (s->cols / 32 + 3) / 4 * 4);
}

static void normed_writers(kernel_rig *k, normed_case *s) {
    static const char *const cuts[] = {"", "EARLY=4,", "EARLY=1,WAVES=4,ADD1=true,", "WAVES=16,EARLY=2,", "PER=64,", "PER=64,WAVES=4,EARLY=3,"};
    static double v[NORM_M];
    for (size_t c = 0; c < OCH_COUNT(cuts); c++)
        for (int bare = 0; bare < 2; bare++) {
            char spec[80];
            bool adds = strstr(cuts[c], "ADD1") != NULL;
            memset(s->codes, 0, sizeof s->codes);
            memset(s->own, 0, sizeof s->own);
            och_kl_actual args[] = {normed_weight(k, "w", s, 0, NORM_M), normed_codes(k, s),
                                    bare ? (och_kl_actual){.name = "bias"} : kernel_rig_vector(k, "bias", s->bias, NORM_M),
                                    bare ? (och_kl_actual){.name = "residual"} : kernel_rig_f32(k, "residual", s->residual, 1, NORM_M),
                                    kernel_rig_vector(k, "norm", s->norm, NORM_M), kernel_rig_f32(k, "y", y, 1, NORM_M),
                                    kernel_rig_rows(k, "codes", s->codes, 1, NORM_M, s->row_codes), kernel_rig_f32(k, "squares", s->own, 1, 8)};
            snprintf(spec, sizeof spec, "%sF=%s", cuts[c], s->t->name);
            kernel_rig_run(k, "matvec_codes", spec, args, OCH_COUNT(args));
            for (int i = 0; i < NORM_M; i++) {
                near(y[i], s->sum[i] + (bare ? 0 : (double)s->bias[i] + s->residual[i]), 4e-6 * (s->size[i] + 4), spec, 0, i);
                v[i] = (double)y[i] * ((double)s->norm[i] + adds);
            }
            codes_are(s->codes, v, NORM_M, spec, 0);
            for (int b = 0; b < 8; b++) {
                double all = 0;
                for (int i = 32 * b; i < 32 * b + 32 && i < NORM_M; i++) all += (double)y[i] * y[i];
                near(s->own[b], all, 1e-6 * all, spec, -1, b);
            }
        }
}

/* Sums of q, k and v, of which those of v have the second matrix's rows; a lone product; and a gate, as numbers that codes stand for. */
static void normed_readers(kernel_rig *k, normed_case *s) {
    static const char *const vec[] = {"", "EARLY=4,OCC=8,", "ROWS=2,U=2,", "EARLY=2,WAVES=8,"}, *const qkv[] = {"", "ROWS=2,WAVES=8,", "U=2,"},
                *const glu[] = {"", "EARLY=1,OCC=8,", "EARLY=2,WAVES=4,", "ROWS=2,", "PER=64,"};
    static float yv[NORM_M], decoded[NORM_M];
    double by = factor_of(s);
    char spec[96];
    for (size_t c = 0; c < OCH_COUNT(vec); c++) {
        och_kl_actual args[] = {normed_weight(k, "w", s, 0, NORM_M), normed_codes(k, s), kernel_rig_vector(k, "bias", s->bias, NORM_M),
                                kernel_rig_f32(k, "residual", s->residual, 1, NORM_M), normed_squares(k, s), kernel_rig_f32(k, "y", y, 1, NORM_M), och_gpu_real("eps", 0.5)};
        snprintf(spec, sizeof spec, "%sF=%s,SQUARES=true", vec[c], s->t->name);
        kernel_rig_run(k, "matvec", spec, args, OCH_COUNT(args));
        for (int i = 0; i < NORM_M; i++)
            near(y[i], s->sum[i] * by + s->bias[i] + s->residual[i], 4e-6 * (s->size[i] * by + 4), spec, 0, i);
    }
    for (size_t c = 0; c < OCH_COUNT(qkv); c++) {
        och_kl_actual args[] = {normed_weight(k, "wq", s, 0, 96), normed_weight(k, "wk", s, 96, 64), normed_weight(k, "wv", s, NORM_M, NORM_M), normed_codes(k, s),
                                kernel_rig_vector(k, "bq", s->bias, 96), {.name = "bk"}, kernel_rig_vector(k, "bv", s->bias + NORM_M, NORM_M),
                                normed_squares(k, s), kernel_rig_f32(k, "yq", y, 1, 96), kernel_rig_f32(k, "yk", z, 1, 64),
                                kernel_rig_f32(k, "yv", yv, 1, NORM_M), och_gpu_real("eps", 0.5)};
        snprintf(spec, sizeof spec, "%sF=%s,G=%s,SQUARES=true", qkv[c], s->t->name, s->t->name);
        kernel_rig_run(k, "matvec_qkv", spec, args, OCH_COUNT(args));
        for (int i = 0; i < 2 * NORM_M; i++) {
            bool biased = i < 96 || i >= NORM_M;
            near(i < 96 ? y[i] : biased ? yv[i - NORM_M] : z[i - 96], s->sum[i] * by + (biased ? (double)s->bias[i] : 0), 4e-6 * (s->size[i] * by + 2),
                 spec, 0, i);
        }
    }
    for (size_t c = 0; c < OCH_COUNT(glu); c++) {
        och_kl_actual args[] = {normed_weight(k, "w0", s, 0, NORM_M), normed_weight(k, "w1", s, NORM_M, NORM_M), normed_codes(k, s),
                                kernel_rig_vector(k, "bias0", s->bias, NORM_M), kernel_rig_vector(k, "bias1", s->bias + NORM_M, NORM_M),
                                normed_squares(k, s), kernel_rig_rows(k, "codes", s->codes, 1, NORM_M, s->row_codes), och_gpu_real("eps", 0.5)};
        snprintf(spec, sizeof spec, "%sF=%s,ACT=1,SQUARES=true", glu[c], s->t->name);
        kernel_rig_run(k, "matvec_glu_codes", spec, args, OCH_COUNT(args));
        och_planes_act_decode_row(s->codes, NORM_M, decoded);
        for (int b = 0; b < NORM_M / 32; b++) {
            double v[32], top = 0;
            for (int i = 0; i < 32; i++) {
                double g = s->sum[32 * b + i] * by + s->bias[32 * b + i], u = s->sum[NORM_M + 32 * b + i] * by + s->bias[NORM_M + 32 * b + i];
                v[i] = g / (1 + exp(-g)) * u;
                top = fmax(top, fabs(v[i]));
            }
            for (int i = 0; i < 32; i++) near(decoded[32 * b + i], v[i], 0.502 * top / 127, spec, 0, 32 * b + i);
        }
    }
}

static void codes_through_a_norm(kernel_rig *k) {
    static const och_dtype formats[] = {OCH_DTYPE_Q4_K, OCH_DTYPE_Q8_0, OCH_DTYPE_Q5_1};
    static normed_case s;
    static double v[NORM_K];
    for (size_t f = 0; f < OCH_COUNT(formats); f++) {
        state = 60 + f;
        normed_make(&s, formats[f], formats[f] == OCH_DTYPE_Q4_K ? 2304 : NORM_K);
        normed_writers(k, &s);
        normed_readers(k, &s);
    }
    for (int way = 0; way < 3; way++) { /* of rows that are there */
        enum { N = 2 };
        static uint8_t found[N * 2 * NORM_K];
        static float squares[N * QUADS];
        uint64_t row;
        const char *spec = way == 1 ? "ADD1=true" : way == 2 ? "CHUNK=2048,WAVES=8" : "";
        assert_true(och_planes_act_row_bytes(NORM_K, &row));
        fill(x, N * NORM_K, 3.0);
        och_kl_actual args[] = {kernel_rig_f32(k, "x", x, N, NORM_K), kernel_rig_vector(k, "norm", s.norm, NORM_K),
                                kernel_rig_rows(k, "y", found, N, NORM_K, row), kernel_rig_f32(k, "squares", squares, N, QUADS)};
        kernel_rig_run(k, "act_q8_squares", spec, args, OCH_COUNT(args));
        for (int r = 0; r < N; r++) {
            double all = 0;
            for (int j = 0; j < NORM_K; j++) {
                v[j] = (double)x[r * NORM_K + j] * ((double)s.norm[j] + (way == 1));
                all = (j % 32 ? all : 0) + (double)x[r * NORM_K + j] * x[r * NORM_K + j];
                if (j % 32 == 31) near(squares[r * QUADS + j / 32], all, 1e-6 * all, spec, r, j / 32);
            }
            codes_are(found + (uint64_t)r * row, v, NORM_K, spec, r);
        }
    }
}

static void codes_of_rows(kernel_rig *k) {
    enum { N = 3, MOST_D = 4128 };
    static const int widths[] = {32, 160, 1024, 1056, MOST_D};
    static const float odd[] = {NAN, -NAN, INFINITY, -INFINITY};
    static uint8_t found[N * 2 * MOST_D];
    static double v[MOST_D];
    state = 21;
    for (int s = 0; s < (int)OCH_COUNT(widths); s++)
        for (int way = 0; way < 4; way++) { /* plain, by single elements, with a norm, with (1 + w) */
            int d = widths[s];
            uint64_t row;
            char what[64];
            assert_true(och_planes_act_row_bytes((uint64_t)d, &row));
            fill(x, (size_t)(N * d), 3.0);
            fill(y, (size_t)d, 1.0);
            memset(x + d, 0, 32 * sizeof *x); /* a block of zeros */
            for (int i = 0; i < 4 && d > 32 && way < 2; i++) x[2 * d + 37 + i * (d - 64) / 4] = odd[i];
            snprintf(what, sizeof what, "act_q8 of %d, way %d", d, way);
            och_kl_actual args[] = {kernel_rig_f32(k, "x", x, N, d),
                                    way < 2 ? (och_kl_actual){.name = "norm"} : kernel_rig_vector(k, "norm", y, d),
                                    kernel_rig_rows(k, "y", found, N, d, row), och_gpu_real("eps", 1e-5)};
            kernel_rig_run(k, "act_q8", way == 1 ? "WIDE=false" : way == 3 ? "ADD1=true" : "", args, 4);
            for (int r = 0; r < N; r++) {
                double squares = 0;
                for (int j = 0; j < d; j++) squares += (double)x[r * d + j] * x[r * d + j];
                for (int j = 0; j < d; j++)
                    v[j] = way < 2 ? x[r * d + j] : x[r * d + j] / sqrt(squares / d + 1e-5) * ((double)y[j] + (way == 3));
                codes_are(found + (uint64_t)r * row, v, d, what, r);
            }
        }
}

/* ---- a state of eight bits: kv_write, then both forms of attention, against a softmax in double precision ---- */

/* To three bits after the first: E4M3, in either flavour, of numbers up to 240. Below 2^-6 the flavours differ by less than
 * the test sees. */
static float to_e4m3(float v) {
    int e;
    if (v == 0.0f) return v;
    frexpf(v, &e);
    float step = ldexpf(1.0f, e < -5 ? -9 : e - 4);
    return rintf(v / step) * step;
}

static void state_of_bytes(kernel_rig *k) {
    enum { L = 100, HEADS = 6, KV = 2, HD = 64, BT = 32, BLOCKS = 5, QD = HEADS * HD, KD = KV * HD, COLS = KD * BT };
    static float q[L * QD], key[L * KD], value[L * KD], part[L * HEADS * (HD + 4)], found[L * QD];
    static uint8_t kc[BLOCKS * COLS], vc[BLOCKS * COLS];
    static int32_t slots[L], seqs[L], positions[L], table[4] = {3, 0, 4, 1};
    state = 7;
    fill(q, L * QD, 1.0);
    fill(key, L * KD, 1.0);
    fill(value, L * KD, 1.0);
    memset(kc, 0, sizeof kc);
    memset(vc, 0, sizeof vc);
    for (int i = 0; i < L; i++) slots[i] = table[i / BT] * BT + i % BT, positions[i] = i;
    och_kl_actual write[] = {kernel_rig_f32(k, "k", key, L, KD), kernel_rig_f32(k, "v", value, L, KD),
                             kernel_rig_i32(k, "slots", slots, L, 1), kernel_rig_rows(k, "kcache", kc, BLOCKS, COLS, COLS),
                             kernel_rig_rows(k, "vcache", vc, BLOCKS, COLS, COLS), och_gpu_int("head_dim", HD)};
    kernel_rig_run(k, "kv_write", "T=fp8,BT=32", write, 6);
    for (int i = 0; i < L * KD; i++) key[i] = to_e4m3(key[i]), value[i] = to_e4m3(value[i]);
    for (int tiles = 0; tiles < 2; tiles++) {
        int n = tiles ? L : 3, first = L - n;
        och_kl_actual args[] = {kernel_rig_f32(k, "q", q + first * QD, n, QD),
                                kernel_rig_rows(k, "kcache", kc, BLOCKS, COLS, COLS),
                                kernel_rig_rows(k, "vcache", vc, BLOCKS, COLS, COLS),
                                kernel_rig_i32(k, "tables", table, 1, 4),
                                kernel_rig_i32(k, "seqs", seqs + first, n, 1),
                                kernel_rig_i32(k, "positions", positions + first, n, 1),
                                och_gpu_real("scale", 0.125),
                                och_gpu_real("cap", 0.0),
                                och_gpu_int("window", 0),
                                och_gpu_int("kv_heads", KV),
                                och_gpu_int("heads", HEADS),
                                och_gpu_int("splits", 1),
                                tiles ? kernel_rig_f32(k, "y", found, n, QD)
                                      : kernel_rig_f32(k, "part", part, n * HEADS, HD + 4),
                                {.name = "kpast"},
                                {.name = "vpast"},
                                {.name = "arrived"},
                                {.name = "y"},
                                {.name = "codes"}};
        if (tiles) args[11] = args[12];
        kernel_rig_run(k, tiles ? "attention_tiles" : "attention_part", tiles ? "T=fp8,HD=64,BT=32" : "T=fp8,HD=64,GG=3,BT=32",
                       args, tiles ? 12 : 18);
        if (!tiles) {
            och_kl_actual merge[] = {kernel_rig_f32(k, "part", part, n * HEADS, HD + 4),
                                     kernel_rig_i32(k, "seqs", seqs + first, n, 1),
                                     kernel_rig_i32(k, "positions", positions + first, n, 1),
                                     kernel_rig_f32(k, "y", found, n, QD),
                                     {.name = "codes"},
                                     och_gpu_int("splits", 1),
                                     och_gpu_int("window", 0),
                                     och_gpu_int("chunk", 512),
                                     och_gpu_int("block", 32)};
            kernel_rig_run(k, "attention_merge", "HD=64", merge, 9);
        }
        double error = 0, square = 0;
        for (int i = 0; i < n; i++)
            for (int h = 0; h < HEADS; h++) {
                double w[L], sum = 0;
                for (int t = 0; t <= first + i; t++) {
                    double dot = 0;
                    for (int e = 0; e < HD; e++) dot += (double)q[(first + i) * QD + h * HD + e] * key[t * KD + h / 3 * HD + e];
                    sum += w[t] = exp(dot * 0.125);
                }
                for (int e = 0; e < HD; e++) {
                    double o = 0;
                    for (int t = 0; t <= first + i; t++) o += w[t] / sum * value[t * KD + h / 3 * HD + e];
                    error += pow(found[i * QD + h * HD + e] - o, 2);
                    square += o * o;
                }
            }
        if (!(error / square < 1e-5))
            fail_msg("%s: normalised mean square error %.2e", tiles ? "tiles" : "split", error / square);
    }
}

/* A split of one token that is a block which earlier steps have written is read of the state as it was before (kpast, vpast), the
 * token's own block as it is: what either must not read of is NaN there. */
static void state_of_steps(kernel_rig *k) {
    enum { HEADS = 4, KV = 2, GG = HEADS / KV, HD = 128, BT = 32, BLOCKS = 4, L = 3 * BT, QD = HEADS * HD, COLS = KV * HD * BT };
    static float q[QD], part[HEADS * 3 * (HD + 4)], found[QD], at_once[QD], state_of[2][2][BLOCKS * COLS]; /* k or v, now or past */
    static const int owns[] = {0, 31, 32, 40, 63, 64, 95}, windows[] = {0, 1, 33, 50};
    int32_t seq = 0, own, table[3] = {2, 0, 3};
    char spec[80];
    for (size_t o = 0; o < OCH_COUNT(owns); o++)
        for (size_t w = 0; w < OCH_COUNT(windows); w++) {
            state = 17 + o;
            own = owns[o];
            fill(q, QD, 1.0);
            for (int kv = 0; kv < 2; kv++) fill(state_of[kv][0], BLOCKS * COLS, 1.0);
            memcpy(state_of[0][1], state_of[0][0], sizeof state_of[0][0]);
            memcpy(state_of[1][1], state_of[1][0], sizeof state_of[1][0]);
            int first = windows[w] && own >= windows[w] ? own - windows[w] + 1 : 0;
            double expected[QD];
            for (int h = 0; h < HEADS; h++) {
                double weight[L], sum = 0;
                const float *kh = state_of[0][0] + h / GG * HD * BT, *vh = state_of[1][0] + h / GG * HD * BT;
                for (int t = first; t <= own; t++) {
                    double dot = 0;
                    for (int e = 0; e < HD; e++) dot += (double)q[h * HD + e] * (double)kh[table[t / BT] * COLS + e * BT + t % BT];
                    sum += weight[t] = exp(dot * 0.125);
                }
                for (int e = 0; e < HD; e++) {
                    double y_e = 0;
                    for (int t = first; t <= own; t++) y_e += weight[t] / sum * (double)vh[table[t / BT] * COLS + t % BT * HD + e];
                    expected[h * HD + e] = y_e;
                }
            }
            for (int kv = 0; kv < 2; kv++)
                for (int b = 0; b < BLOCKS; b++) {
                    bool before = (b == table[0] && own >= BT) || (b == table[1] && own >= 2 * BT);
                    for (int i = 0; i < COLS; i++) state_of[kv][!before][b * COLS + i] = NAN;
                }
            /* The window's begin does not matter: splits begin where blocks do. By a launch for the merge, then twice by the last
             * workgroup to arrive, to the bit: as it leaves its counters the next launch finds them. */
            int32_t arrived[HEADS / GG] = {0};
            for (int way = 0; way < 3; way++) {
                float *to = way ? at_once : found;
                memset(to, 0xff, sizeof found);
                memset(part, 0xff, sizeof part);
                snprintf(spec, sizeof spec, "T=f32,HD=128,GG=2,BT=32,CHUNK=32,WAVES=%d%s", 128 / k->device->info.wave_size, way ? ",LAST=true" : "");
                och_kl_actual args[] = {kernel_rig_f32(k, "q", q, 1, QD),
                                        kernel_rig_rows(k, "kcache", state_of[0][0], BLOCKS, COLS, COLS * 4),
                                        kernel_rig_rows(k, "vcache", state_of[1][0], BLOCKS, COLS, COLS * 4),
                                        kernel_rig_rows(k, "kpast", state_of[0][1], BLOCKS, COLS, COLS * 4),
                                        kernel_rig_rows(k, "vpast", state_of[1][1], BLOCKS, COLS, COLS * 4),
                                        kernel_rig_i32(k, "tables", table, 1, 3),
                                        kernel_rig_i32(k, "seqs", &seq, 1, 1),
                                        kernel_rig_i32(k, "positions", &own, 1, 1),
                                        kernel_rig_f32(k, "part", part, HEADS * 3, HD + 4),
                                        och_gpu_real("scale", 0.125),
                                        och_gpu_real("cap", 0.0),
                                        och_gpu_int("window", windows[w]),
                                        och_gpu_int("kv_heads", KV),
                                        och_gpu_int("heads", HEADS),
                                        och_gpu_int("splits", 3),
                                        {.name = "arrived"},
                                        {.name = "y"},
                                        {.name = "codes"}};
                if (way) {
                    args[15] = kernel_rig_rows(k, "arrived", arrived, 1, HEADS / GG, sizeof arrived);
                    args[15].dims[0] = HEADS / GG, args[15].dims[1] = 0, args[15].row_bytes[0] = 0;
                    args[16] = kernel_rig_f32(k, "y", to, 1, QD);
                }
                kernel_rig_run(k, "attention_part", spec, args, OCH_COUNT(args));
                if (way) {
                    assert_memory_equal(at_once, found, sizeof found);
                    for (int i = 0; i < HEADS / GG; i++) assert_int_equal(arrived[i], 0);
                    continue;
                }
                och_kl_actual merge[] = {kernel_rig_f32(k, "part", part, HEADS * 3, HD + 4),
                                         kernel_rig_i32(k, "seqs", &seq, 1, 1),
                                         kernel_rig_i32(k, "positions", &own, 1, 1),
                                         kernel_rig_f32(k, "y", to, 1, QD),
                                         {.name = "codes"},
                                         och_gpu_int("splits", 3),
                                         och_gpu_int("window", windows[w]),
                                         och_gpu_int("chunk", 32),
                                         och_gpu_int("block", 32)};
                kernel_rig_run(k, "attention_merge", "HD=128", merge, OCH_COUNT(merge));
                for (int e = 0; e < QD; e++) near(found[e], expected[e], 1e-5, "a state of two steps", own, e);
            }
        }
}

static void digests(kernel_rig *k) {
    enum { N = 3, D = 4096 };
    static uint32_t words[N * D];
    int32_t found[N];
    state = 12;
    for (int i = 0; i < N * D; i++) words[i] = (uint32_t)random_u64();
    for (int v = 0; v < 2; v++) {
        och_kl_actual args[] = {kernel_rig_i32(k, "x", (int32_t *)words, N, D), kernel_rig_i32(k, "y", found, N, 1)};
        kernel_rig_run(k, "digest", v ? "READS=1,WAVES=2" : "READS=8,WAVES=8", args, 2);
        for (int i = 0; i < N; i++) {
            uint32_t sum = 0;
            for (int j = 0; j < D; j++) sum += words[i * D + j];
            assert_int_equal((uint32_t)found[i], sum);
        }
    }
}

/* Products of halves, and what they are without rounding; weights of F16 are their planes. */
enum { TILED_N = 70, TILED_M = 52, TILED_K = 200, TILED_W = 2, TILED_PARTS = 8 };
static struct {
    uint16_t a[TILED_N * TILED_K], w[TILED_W][TILED_M * TILED_K];
    float scale[TILED_N], bias[TILED_W][TILED_M], residual[TILED_N * TILED_M], parts[TILED_PARTS][TILED_N * TILED_M];
} tiled;
static double tiled_sum(int w, int r, int c, int from, int to) {
    double s = 0;
    for (int i = from; i < to; i++) s += (double)och_f16_to_f32(tiled.a[r * TILED_K + i]) * (double)och_f16_to_f32(tiled.w[w][c * TILED_K + i]);
    return s;
}
static void tiled_fill(void) {
    uint64_t row;
    state = 14;
    assert_true(och_planes_row_bytes(OCH_DTYPE_F16, TILED_K, &row) && row == 2 * TILED_K);
    for (int i = 0; i < TILED_N * TILED_K; i++) tiled.a[i] = och_f32_to_f16(gauss());
    for (int i = 0; i < TILED_W * TILED_M * TILED_K; i++) tiled.w[i / (TILED_M * TILED_K)][i % (TILED_M * TILED_K)] = och_f32_to_f16(gauss());
    fill(tiled.scale, TILED_N, 1.0);
    for (int i = 0; i < TILED_W; i++) fill(tiled.bias[i], TILED_M, 1.0);
    fill(tiled.residual, TILED_N * TILED_M, 1.0);
}

/* k in parts, of which the last have less or nothing; and their sum. */
static void parts_of_k(kernel_rig *k) {
    static const struct {
        int parts, step; /* columns of a part */
        const char *spec;
    } ways[] = {{2, 128, "F=F16,BK=64"}, {3, 96, "F=F16,STAGES=3"}, {8, 32, "F=F16,WAVES=2"}, {4, 64, "F=F16,BM=32,BN=32,STAGES=1"}};
    tiled_fill();
    for (size_t i = 0; i < OCH_COUNT(ways); i++) {
        int n_parts = ways[i].parts, step = ways[i].step;
        memset(tiled.parts, 0xff, sizeof tiled.parts);
        och_kl_actual args[] = {kernel_rig_rows(k, "a", tiled.a, TILED_N, TILED_K, 2 * TILED_K), kernel_rig_rows(k, "w", tiled.w[0], TILED_M, TILED_K, 2 * TILED_K),
                                kernel_rig_f32(k, "parts", tiled.parts[0], (int64_t)n_parts * TILED_N, TILED_M)};
        args[2].dims[0] = n_parts, args[2].dims[1] = TILED_N, args[2].dims[2] = TILED_M;
        args[2].row_bytes[0] = 4 * TILED_N * TILED_M, args[2].row_bytes[1] = 4 * TILED_M;
        kernel_rig_run(k, "matmul_part", ways[i].spec, args, OCH_COUNT(args));
        for (int p = 0; p < n_parts; p++)
            for (int r = 0; r < TILED_N; r++)
                for (int c = 0; c < TILED_M; c++)
                    near(tiled.parts[p][r * TILED_M + c], tiled_sum(0, r, c, OCH_MIN(p * step, TILED_K), OCH_MIN((p + 1) * step, TILED_K)), 2e-3,
                         ways[i].spec, r, c);
        for (int bare = 0; bare < 2; bare++) {
            char spec[32];
            snprintf(spec, sizeof spec, "PARTS=%d,V=%d", n_parts, bare ? 1 : 4);
            och_kl_actual of_sum[] = {kernel_rig_f32(k, "parts", tiled.parts[0], (int64_t)n_parts * TILED_N, TILED_M), kernel_rig_f32(k, "scale", tiled.scale, TILED_N, 1),
                                      bare ? (och_kl_actual){.name = "bias"} : kernel_rig_vector(k, "bias", tiled.bias[0], TILED_M),
                                      bare ? (och_kl_actual){.name = "residual"} : kernel_rig_f32(k, "residual", tiled.residual, TILED_N, TILED_M),
                                      kernel_rig_f32(k, "y", y, TILED_N, TILED_M)};
            memcpy(of_sum[0].dims, args[2].dims, sizeof args[2].dims);
            memcpy(of_sum[0].row_bytes, args[2].row_bytes, sizeof args[2].row_bytes);
            kernel_rig_run(k, "matmul_sum", spec, of_sum, OCH_COUNT(of_sum));
            for (int r = 0; r < TILED_N; r++)
                for (int c = 0; c < TILED_M; c++) {
                    double want = tiled_sum(0, r, c, 0, TILED_K) * (double)tiled.scale[r];
                    if (!bare) want += (double)tiled.bias[0][c] + (double)tiled.residual[r * TILED_M + c];
                    near(y[r * TILED_M + c], want, 5e-3, spec, r, c);
                }
        }
    }
}

/* A gate whose two products are columns of one tile. */
static void joint_gates(kernel_rig *k) {
    static const char *const specs[] = {"F=F16,ACT=1,BN=32,JOINT=true", "F=F16,ACT=1,BM=64,BN=64,BK=64,STAGES=1,WAVES=2,JOINT=true"};
    tiled_fill();
    for (size_t i = 0; i < OCH_COUNT(specs); i++) {
        memset(y, 0xff, sizeof y);
        och_kl_actual args[] = {kernel_rig_rows(k, "a", tiled.a, TILED_N, TILED_K, 2 * TILED_K), kernel_rig_f32(k, "scale", tiled.scale, TILED_N, 1),
                                kernel_rig_rows(k, "w0", tiled.w[0], TILED_M, TILED_K, 2 * TILED_K), kernel_rig_rows(k, "w1", tiled.w[1], TILED_M, TILED_K, 2 * TILED_K),
                                i ? (och_kl_actual){.name = "bias0"} : kernel_rig_vector(k, "bias0", tiled.bias[0], TILED_M),
                                kernel_rig_vector(k, "bias1", tiled.bias[1], TILED_M), kernel_rig_f32(k, "y", y, TILED_N, TILED_M)};
        kernel_rig_run(k, "matmul_glu", specs[i], args, OCH_COUNT(args));
        for (int r = 0; r < TILED_N; r++)
            for (int c = 0; c < TILED_M; c++) {
                double gate = tiled_sum(0, r, c, 0, TILED_K) * (double)tiled.scale[r] + (i ? 0 : (double)tiled.bias[0][c]);
                double up = tiled_sum(1, r, c, 0, TILED_K) * (double)tiled.scale[r] + (double)tiled.bias[1][c];
                near(y[r * TILED_M + c], gate / (1 + exp(-gate)) * up, 2e-4 * (1 + fabs(gate)) * (1 + fabs(up)), specs[i], r, c);
            }
    }
}

int main(int argc, char **argv) {
    static const kernel_group groups[] = {{"softmax, logsumexp", distributions}, {"odd distributions", odd_distributions},
                                          {"argmax", greatest}, {"sample", draws}, {"odd draws", odd_draws}, {"layer_norm", layer_norm},
                                          {"cast, fill", conversions}, {"dequantise", decoding}, {"cuts of gates", cuts_of_gates}, {"cuts of one row", cuts_of_one_row}, {"codes of rows", codes_of_rows}, {"codes through a norm", codes_through_a_norm},
                                          {"attention, fp8", state_of_bytes}, {"attention, two steps", state_of_steps}, {"digest", digests}, {"parts of k", parts_of_k}, {"gates of one tile", joint_gates}};
    return kernel_groups_run("kernels", groups, sizeof groups / sizeof groups[0], argc > 1 ? argv[1] : "");
}
