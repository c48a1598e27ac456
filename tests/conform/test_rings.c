/* Products of one row of activations whose weights go through LDS (kernels/ring.ok), which no op takes where nothing was measured, against
 * products in double precision, in every way that they can be cut. On OCHRE_TEST_DEVICES, else on a simulated board of each wave size. */
#include "conform/support/kernel_numbers.h"

#include "base/half.h"
#include "op/gpu/cuts.h"
#include "quant/format.h"
#include "quant/fp8.h"

enum { MOST_K = 14336, MOST_M = 448, MOST_BYTES = 5 << 18 };

typedef struct ring_case {
    const och_format *t;
    int k, m, quads; /* columns, rows, sums of squares in whole quads */
    uint64_t row, row_act;
    uint8_t planes[MOST_BYTES], act[2 * MOST_K];
    float bias[MOST_M], squares[MOST_K / 32 + 4];
    double sum[MOST_M], size[MOST_M], factor; /* of products */
} ring_case;

static ring_case s;

static void ring_make(och_dtype t, int k, int m) {
    static float w[MOST_K], row[MOST_K];
    static uint8_t file[MOST_K * 4];
    och_err err = {0};
    uint64_t row_file;
    double all = 0;
    s.t = och_format_get(t);
    s.k = k, s.m = m, s.quads = (k / 32 + 3) / 4 * 4;
    assert_true(och_dtype_row_bytes(t, (uint64_t)k, &row_file) && och_planes_row_bytes(t, (uint64_t)k, &s.row) &&
                och_planes_act_row_bytes((uint64_t)k, &s.row_act) && s.row * (uint64_t)m <= sizeof s.planes);
    fill(row, (size_t)k, 1.0);
    och_planes_act_encode_row(row, (uint64_t)k, s.act);
    och_planes_act_decode_row(s.act, (uint64_t)k, row); /* the numbers that codes stand for */
    fill(s.bias, (size_t)m, 1.0);
    for (int i = 0; i < s.quads; i++) {
        s.squares[i] = i < k / 32 ? (float)(20 + i % 7) : NAN; /* past the last block: nothing's */
        if (i < k / 32) all += (double)s.squares[i];
    }
    s.factor = 1 / sqrt(all / k + 0.5);
    for (int i = 0; i < m; i++) {
        fill(w, (size_t)k, 0.1);
        kernel_rig_ok(och_format_encode_row(t, w, file, (uint64_t)k, &err), &err, "a weight");
        och_format_decode_row(t, file, w, (uint64_t)k);
        och_planes_pack(t, 1, k, file, s.planes + (uint64_t)i * s.row, 0, 1);
        s.sum[i] = s.size[i] = 0;
        for (int c = 0; c < k; c++) {
            double e = (double)w[c] * (double)row[c];
            s.sum[i] += e;
            s.size[i] += fabs(e);
        }
    }
}

/* Rows of the matrix as what is copied: pieces of 128 bytes, the same memory as `weight` then is. */
static och_kl_actual pieces(kernel_rig *k, const char *name, int first, int rows) {
    kernel_rig_rows(k, name, s.planes + (uint64_t)first * s.row, rows, s.k, s.row);
    return och_gpu_matrix(name, k->at[k->n - 1].buf.addr, rows * (int64_t)s.row / 128, 32, 128);
}
static och_kl_actual weight(kernel_rig *k, const char *name, int rows) { /* of the array just made */
    return och_gpu_matrix(name, k->at[k->n - 1].buf.addr, rows, s.k, s.row);
}
static och_kl_actual squares_if(kernel_rig *k, bool scaled) {
    return scaled ? kernel_rig_f32(k, "squares", s.squares, 1, s.quads) : (och_kl_actual){.name = "squares"};
}
static och_kl_actual bias_if(kernel_rig *k, const char *name, bool biased, int first, int rows) {
    return biased ? kernel_rig_vector(k, name, s.bias + first, rows) : (och_kl_actual){.name = name};
}

/* What decides whether a kernel is begun on a device (op/gpu/linear_row.c) says of it what it is. */
static void takes_lds(kernel_rig *k, och_gpu_ring_kind kind, const char *kernel, const char *cut, const char *spec) {
    och_err err = {0};
    const och_gpu_kernel *code;
    kernel_rig_ok(och_gpu_kernel_get(k->device, kernel, &code, &err, "%s", spec), &err, kernel);
    uint64_t expected = och_gpu_ring_lds(kind, cut, s.row, s.k), found = code->signature.lds_bytes;
    if (found != expected)
        fail_msg("%s, %s: %d bytes of LDS, expected %d", kernel, spec, (int)found, (int)expected);
}

/* Arguments whose names begin so are rows, and no others' than the weights': with half as many, or twice, a launch is refused. */
static void are_the_weights(kernel_rig *k, const char *kernel, const char *spec, const och_kl_actual *args, int n, const char *rows) {
    for (int twice = 0; twice < 2; twice++) {
        och_kl_actual changed[20];
        och_kl_packed packed;
        och_err err = {0};
        const och_gpu_kernel *code;
        memcpy(changed, args, (size_t)n * sizeof *args);
        for (int i = 0; i < n; i++)
            if (!strncmp(args[i].name, rows, strlen(rows))) changed[i].dims[0] = twice ? args[i].dims[0] * 2 : args[i].dims[0] / 2;
        kernel_rig_ok(och_gpu_kernel_get(k->device, kernel, &code, &err, "%s", spec), &err, kernel);
        if (och_kl_pack(&code->signature, changed, n, &packed, &err) != OCH_INVALID || !strstr(err.message, "* 128 =="))
            fail_msg("%s, %s: other numbers of %s are taken: %s", kernel, spec, rows, err.message);
    }
}

static double gate_of(int act, double x) {
    return act == 1 ? x / (1 + exp(-x)) : act == 2 ? x / 2 * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))) : x / 2 * (1 + erf(x * 0.7071067811865476));
}

static void gates(kernel_rig *k) {
    enum { M = 128 };
    static const struct {
        och_dtype t;
        int k, act;
        bool biased;
        const char *cut;
    } cases[] = {
        {OCH_DTYPE_Q4_K, 2048, 1, false, ""},
        {OCH_DTYPE_Q4_K, 2048, 1, true, "STEP=8,SQUARES=true,"},
        {OCH_DTYPE_Q4_K, 2048, 2, true, "PER=32,STAGES=5,SQUARES=true,"},
        {OCH_DTYPE_Q4_K, 2048, 3, false, "WAVES=4,STEP=4,PER=32,STAGES=1,"},
        {OCH_DTYPE_Q4_K, 4096, 2, true, "STAGES=2,"},
        {OCH_DTYPE_Q8_0, 2048, 1, true, ""},
        {OCH_DTYPE_Q8_0, 2048, 2, false, "WAVES=4,PER=32,STAGES=4,SQUARES=true,"},
        {OCH_DTYPE_Q4_0, 2048, 2, true, "STEP=8,PER=32,"}, /* more steps ahead than all but one that there are */
        {OCH_DTYPE_Q6_K, 2048, 1, true, "STEP=8,STAGES=2,SQUARES=true,"},
        {OCH_DTYPE_Q5_K, 2048, 1, false, "WAVES=16,STAGES=2,PER=32,"},
    };
    static uint8_t codes[2 * M];
    static float decoded[M];
    static double v[M];
    uint64_t row_codes, at[3], bytes;
    assert_true(och_planes_act_row_bytes(M, &row_codes));
    for (int i = 0; i < 3; i++) assert_true(och_planes_act_plane(M, i, &at[i], &bytes));
    for (size_t c = 0; c < OCH_COUNT(cases); c++) {
        char spec[128];
        bool scaled = strstr(cases[c].cut, "SQUARES") != NULL, biased = cases[c].biased;
        state = 100 + c;
        ring_make(cases[c].t, cases[c].k, 2 * M);
        memset(codes, 0x55, sizeof codes);
        och_kl_actual rows0 = pieces(k, "rows0", 0, M), w0 = weight(k, "w0", M), rows1 = pieces(k, "rows1", M, M);
        och_kl_actual args[] = {rows0, w0, rows1, kernel_rig_rows(k, "x", s.act, 1, s.k, s.row_act), bias_if(k, "bias0", biased, 0, M),
                                bias_if(k, "bias1", biased, M, M), squares_if(k, scaled),
                                kernel_rig_rows(k, "codes", codes, 1, M, row_codes), och_gpu_real("eps", 0.5)};
        snprintf(spec, sizeof spec, "%sF=%s,ACT=%d,ROWB=%d,K=%d", cases[c].cut, s.t->name, cases[c].act, (int)s.row, s.k);
        kernel_rig_run(k, "matvec_glu_ring", spec, args, OCH_COUNT(args));
        takes_lds(k, OCH_GPU_RING_GATE, "matvec_glu_ring", cases[c].cut, spec);
        are_the_weights(k, "matvec_glu_ring", spec, args, OCH_COUNT(args), "rows");
        for (int i = 0; i < M; i++) {
            double by = scaled ? s.factor : 1;
            v[i] = gate_of(cases[c].act, s.sum[i] * by + (biased ? (double)s.bias[i] : 0)) * (s.sum[M + i] * by + (biased ? (double)s.bias[M + i] : 0));
        }
        och_planes_act_decode_row(codes, M, decoded);
        for (int b = 0; b < M / 32; b++) {
            double top = 0;
            float d;
            int32_t total = 0, sum;
            memcpy(&d, codes + at[1] + 4 * b, 4);
            memcpy(&sum, codes + at[2] + 4 * b, 4);
            for (int i = 32 * b; i < 32 * b + 32; i++) top = fmax(top, fabs(v[i])), total += (int8_t)codes[at[0] + (uint64_t)i];
            near((double)d, top / 127, 1e-4 * top / 127, spec, -1, b);
            assert_int_equal(sum, total);
            for (int i = 32 * b; i < 32 * b + 32; i++) near((double)decoded[i], v[i], 0.51 * top / 127, spec, 0, i);
        }
    }
}

/* ---- q, k and v ---- */

enum { HD = 64, Q_HEADS = 3, KV_HEADS = 2, MQ = Q_HEADS * HD, MK = KV_HEADS * HD, M_ALL = MQ + 2 * MK, BLOCKS = 2 };

static double element(const uint8_t *cache, och_dtype t, int i) {
    uint16_t h;
    float f;
    if (t == OCH_DTYPE_F8_E4M3) return (double)och_e4m3_to_f32(cache[i]);
    if (t == OCH_DTYPE_F32) return memcpy(&f, cache + 4 * i, 4), (double)f;
    memcpy(&h, cache + 2 * i, 2);
    return (double)(t == OCH_DTYPE_F16 ? och_f16_to_f32(h) : och_bf16_to_f32(h));
}

/* How far an element may be from v, by its type. */
static double rounding(och_dtype t, double v) {
    return t == OCH_DTYPE_F32 ? 0 : t == OCH_DTYPE_F16 ? fabs(v) * 0x1p-11 + 0x1p-25 : t == OCH_DTYPE_BF16 ? fabs(v) * 0x1p-8 : fabs(v) * 0x1p-4 + 0x1p-10;
}

/* What an attention begins with of row i, by what turns it: rot of a head's elements, halves apart or neighbours. */
static double turned(int i, int rot, bool half, const float *table, const double *sum, const double *size, double *out_tolerance) {
    int first = i / HD * HD, e = i % HD, j = half ? e % (rot ? rot / 2 : 1) : e / 2;
    *out_tolerance = 4e-6 * size[i];
    if (i >= MQ + MK || e >= rot) return sum[i];
    bool second = half ? e >= rot / 2 : e % 2;
    int other = first + (half ? (second ? j : j + rot / 2) : e ^ 1);
    double c = (double)table[j], sn = (double)table[rot / 2 + j];
    *out_tolerance += 4e-6 * size[other];
    return second ? sum[other] * sn + sum[i] * c : sum[i] * c - sum[other] * sn;
}

static void attention_begins(kernel_rig *k) {
    static const struct {
        och_dtype t;
        int k;
        bool post, half, biased;
        int rot, slot, block;
        och_dtype cache;
        const char *cut;
    } cases[] = {
        {OCH_DTYPE_Q4_K, 2048, true, true, true, HD, 21, 16, OCH_DTYPE_F16, ""},
        {OCH_DTYPE_Q4_K, 2048, true, false, false, 24, 37, 32, OCH_DTYPE_F32, "STAGES=2,SQUARES=true,"},
        {OCH_DTYPE_Q4_K, 2048, true, true, true, 32, -1, 16, OCH_DTYPE_F32, ""},
        {OCH_DTYPE_Q4_K, 2048, false, true, true, 0, 0, 16, OCH_DTYPE_F16, "STAGES=5,SQUARES=true,"}, /* more stages than steps */
        {OCH_DTYPE_Q4_K, 2048, false, true, false, 0, 0, 16, OCH_DTYPE_F16, ""},
        {OCH_DTYPE_Q4_K, 4096, true, true, false, 32, 0, 32, OCH_DTYPE_F32, "STAGES=2,SQUARES=true,"}, /* half of each head is turned */
        {OCH_DTYPE_Q8_0, 2048, true, true, true, HD, 31, 32, OCH_DTYPE_BF16, "PER=64,"},
        {OCH_DTYPE_Q8_0, 2048, true, false, true, HD, 5, 32, OCH_DTYPE_F8_E4M3, "WAVES=4,STAGES=4,PER=32,SQUARES=true,"},
        {OCH_DTYPE_Q4_0, 2048, true, true, false, 48, 30, 16, OCH_DTYPE_F8_E4M3, "PER=16,"},
        {OCH_DTYPE_Q4_0, 2048, true, true, true, 0, 3, 16, OCH_DTYPE_F32, ""}, /* nothing is turned */
        {OCH_DTYPE_Q6_K, 2048, true, true, true, HD, 15, 16, OCH_DTYPE_F16, "WAVES=16,STAGES=2,SQUARES=true,PER=32,"},
        {OCH_DTYPE_Q5_K, 2048, false, true, true, 0, 0, 16, OCH_DTYPE_F16, "STAGES=4,"},
    };
    static float found[M_ALL], table[HD];
    static uint8_t cache[2][BLOCKS * MK * 32 * 4];
    static double sum[M_ALL], size[M_ALL];
    for (size_t c = 0; c < OCH_COUNT(cases); c++) {
        bool scaled = strstr(cases[c].cut, "SQUARES") != NULL, post = cases[c].post, biased = cases[c].biased;
        int rot = cases[c].rot, bt = cases[c].block, cols = MK * bt;
        int32_t slot = cases[c].slot;
        och_dtype t = cases[c].cache;
        uint64_t cache_row, one;
        char spec[192], type[OCH_GPU_CACHE_SPEC_BYTES];
        och_kl_actual args[20];
        int n = 0;
        state = 200 + c;
        ring_make(cases[c].t, cases[c].k, M_ALL);
        assert_true(och_dtype_row_bytes(t, (uint64_t)cols, &cache_row) && och_dtype_row_bytes(t, 1, &one));
        for (int i = 0; i < rot / 2; i++) table[i] = (float)cos(i + 0.5), table[rot / 2 + i] = (float)sin(i + 0.5);
        for (int i = 0; i < M_ALL; i++) {
            sum[i] = s.sum[i] * (scaled ? s.factor : 1) + (biased ? (double)s.bias[i] : 0);
            size[i] = s.size[i] * (scaled ? s.factor : 1) + 1;
            found[i] = -77.0f;
        }
        memset(cache, 0x11, sizeof cache);
        args[n++] = pieces(k, "rq", 0, MQ);
        args[n++] = weight(k, "wq", MQ);
        args[n++] = pieces(k, "rk", MQ, MK);
        args[n++] = pieces(k, "rv", MQ + MK, MK);
        args[n++] = kernel_rig_rows(k, "x", s.act, 1, s.k, s.row_act);
        args[n++] = bias_if(k, "bq", biased, 0, MQ);
        args[n++] = bias_if(k, "bk", biased, MQ, MK);
        args[n++] = bias_if(k, "bv", biased, MQ + MK, MK);
        args[n++] = squares_if(k, scaled);
        args[n++] = rot ? kernel_rig_f32(k, "table", table, 1, rot) : (och_kl_actual){.name = "table"};
        args[n++] = post ? kernel_rig_i32(k, "slots", &slot, 1, 1) : (och_kl_actual){.name = "slots"};
        args[n++] = kernel_rig_f32(k, "yq", found, 1, MQ);
        args[n++] = post ? (och_kl_actual){.name = "yk"} : kernel_rig_f32(k, "yk", found + MQ, 1, MK);
        args[n++] = post ? (och_kl_actual){.name = "yv"} : kernel_rig_f32(k, "yv", found + MQ + MK, 1, MK);
        args[n++] = post ? kernel_rig_rows(k, "kcache", cache[0], BLOCKS, cols, cache_row) : (och_kl_actual){.name = "kcache"};
        args[n++] = post ? kernel_rig_rows(k, "vcache", cache[1], BLOCKS, cols, cache_row) : (och_kl_actual){.name = "vcache"};
        args[n++] = och_gpu_int("head_dim", post ? HD : MQ);
        args[n++] = och_gpu_real("eps", 0.5);
        och_gpu_cache_spec(k->device, t, type);
        snprintf(spec, sizeof spec, "%sF=%s,ROWB=%d,K=%d,POST=%s,HALF=%s,BT=%d,%s", cases[c].cut, s.t->name, (int)s.row, s.k, post ? "true" : "false",
                 cases[c].half ? "true" : "false", bt, type);
        kernel_rig_run(k, "matvec_qkv_ring", spec, args, n);
        takes_lds(k, OCH_GPU_RING_THREE, "matvec_qkv_ring", cases[c].cut, spec);
        are_the_weights(k, "matvec_qkv_ring", spec, args, n, "rq");
        for (int v = 0; v < 2 && (biased || !post); v++) /* else how many there are is nowhere said */
            are_the_weights(k, "matvec_qkv_ring", spec, args, n, v ? "rv" : "rk");
        for (int i = 0; i < M_ALL; i++) {
            int h = i < MQ ? 0 : (i - MQ) % MK / HD, e = i % HD, v = i >= MQ + MK;
            double tolerance, expected = turned(i, post ? rot : 0, cases[c].half, table, sum, size, &tolerance);
            if (i < MQ || !post) near((double)found[i], expected, tolerance, spec, i / HD, e);
            else if (slot >= 0) {
                int at = slot / bt * cols + (v ? (h * bt + slot % bt) * HD + e : (h * HD + e) * bt + slot % bt);
                near(element(cache[v], t, at), expected, tolerance + rounding(t, expected), spec, i / HD, e);
                memset(cache[v] + (uint64_t)at * one, 0x11, one);
            }
        }
        /* Nothing else was written. */
        for (size_t i = 0; i < sizeof cache[0]; i++)
            if (cache[0][i] != 0x11 || cache[1][i] != 0x11) fail_msg("%s: byte %zu of the state is another", spec, i);
        if (post)
            for (int i = MQ; i < M_ALL; i++) assert_true(found[i] == -77.0f);
    }
}

/* ---- a row that the next product norms ---- */

static void codes_for_a_norm(kernel_rig *k) {
    enum { M = 96 };
    static const struct {
        och_dtype t;
        int k;
        bool bare, in_place; /* neither bias nor residual; y over the residual */
        const char *cut;
    } cases[] = {
        {OCH_DTYPE_Q4_K, 2304, false, false, ""}, /* lanes without a unit in the last round */
        {OCH_DTYPE_Q4_K, 4096, true, false, "STAGES=2,ADD1=true,"},
        {OCH_DTYPE_Q4_K, 512, false, true, "STAGES=5,"}, /* more stages than steps; less units than lanes */
        {OCH_DTYPE_Q8_0, 1056, false, true, "STAGES=2,ADD1=true,"},
        {OCH_DTYPE_Q4_0, 1056, false, false, "WAVES=16,PARTS=2,STAGES=3,"},
        {OCH_DTYPE_Q4_0, 1056, true, false, "WAVES=16,STAGES=1,"},
        {OCH_DTYPE_Q4_0, 9248, false, false, "WAVES=4,STAGES=2,"}, /* ten rounds of 32 lanes, or five of 64 */
        {OCH_DTYPE_Q6_K, 2048, false, false, "ADD1=true,"},
        {OCH_DTYPE_Q5_K, 2304, true, false, "WAVES=8,PARTS=2,"},
        {OCH_DTYPE_Q4_K, 512, false, false, "LEAST=40000,LATE=true,OCC=8,"}, /* more LDS than it uses */
        {OCH_DTYPE_Q4_K, 2304, false, true, "LEAST=20000,LATE=true,"},       /* less than it uses */
        {OCH_DTYPE_Q4_K, 2304, true, false, "WAVES=16,PARTS=4,HELD=true,STAGES=4,"},
        {OCH_DTYPE_Q4_K, 512, false, false, "WAVES=16,PARTS=2,HELD=true,LEAST=40000,"},
        {OCH_DTYPE_Q4_0, 1056, false, true, "HELD=true,ADD1=true,"},
        {OCH_DTYPE_MXFP4, 14336, false, false, "WAVES=16,PARTS=4,HELD=true,STAGES=2,"},
    };
    static uint8_t codes[2 * M];
    static float y[M], residual[M], norm[M], squares[M / 32 + 1];
    static double v[M];
    uint64_t row_codes;
    assert_true(och_planes_act_row_bytes(M, &row_codes));
    for (size_t c = 0; c < OCH_COUNT(cases); c++) {
        char spec[128];
        bool bare = cases[c].bare, adds = strstr(cases[c].cut, "ADD1") != NULL;
        state = 300 + c;
        ring_make(cases[c].t, cases[c].k, M);
        fill(residual, M, 3.0);
        fill(norm, M, 1.0);
        memcpy(y, residual, sizeof y);
        memset(codes, 0x55, sizeof codes);
        squares[M / 32] = -77.0f;
        och_kl_actual rows = pieces(k, "rows", 0, M), w = weight(k, "w", M), out = kernel_rig_f32(k, "y", y, 1, M);
        och_kl_actual same = och_gpu_matrix("residual", k->at[k->n - 1].buf.addr, 1, M, M * 4);
        och_kl_actual args[] = {rows, w, out, kernel_rig_rows(k, "x", s.act, 1, s.k, s.row_act), bias_if(k, "bias", !bare, 0, M),
                                bare ? (och_kl_actual){.name = "residual"} : cases[c].in_place ? same : kernel_rig_f32(k, "residual", residual, 1, M),
                                kernel_rig_vector(k, "norm", norm, M), kernel_rig_rows(k, "codes", codes, 1, M, row_codes),
                                kernel_rig_f32(k, "squares", squares, 1, M / 32 + 1)};
        snprintf(spec, sizeof spec, "%sF=%s,ROWB=%d,K=%d", cases[c].cut, s.t->name, (int)s.row, s.k);
        kernel_rig_run(k, "matvec_codes_ring", spec, args, OCH_COUNT(args));
        takes_lds(k, OCH_GPU_RING_CODES, "matvec_codes_ring", cases[c].cut, spec);
        are_the_weights(k, "matvec_codes_ring", spec, args, OCH_COUNT(args), "rows");
        for (int i = 0; i < M; i++) {
            near((double)y[i], s.sum[i] + (bare ? 0 : (double)s.bias[i] + (double)residual[i]), 4e-6 * (s.size[i] + 4), spec, 0, i);
            v[i] = (double)y[i] * ((double)norm[i] + adds);
        }
        codes_are(codes, v, M, spec, 0);
        for (int b = 0; b < M / 32; b++) {
            double all = 0;
            for (int i = 32 * b; i < 32 * b + 32; i++) all += (double)y[i] * (double)y[i];
            near((double)squares[b], all, 1e-6 * all, spec, -1, b);
        }
        assert_true(squares[M / 32] == -77.0f);
    }
}

/* ---- a product alone ---- */

static void alone(kernel_rig *k) {
    enum { M = 112 };
    static const struct {
        och_dtype t;
        int k, groups;
        bool bare, in_place; /* neither bias nor residual; y over the residual */
        const char *cut;
    } cases[] = {
        {OCH_DTYPE_Q4_K, 2304, 3, false, false, ""}, /* lanes without a unit in the last round; steps that do not divide */
        {OCH_DTYPE_Q4_K, 2304, 20, true, false, "WAVES=16,PARTS=2,STAGES=2,"}, /* more workgroups than steps */
        {OCH_DTYPE_Q4_K, 4096, 1, false, false, "SQUARES=true,STAGES=2,"},
        {OCH_DTYPE_Q4_K, 512, 5, false, true, "STAGES=5,STEP=16,"}, /* two rounds a step; less units than lanes */
        {OCH_DTYPE_Q4_K, 2304, 2, false, true, "WAVES=16,PARTS=4,STEP=8,"},
        {OCH_DTYPE_Q4_K, 4096, 3, true, false, "PARTS=2,STEP=8,STAGES=1,"},
        {OCH_DTYPE_Q8_0, 1056, 7, false, true, "STAGES=2,"},
        {OCH_DTYPE_Q8_0, 1056, 3, false, false, "WAVES=4,PARTS=2,STEP=8,STAGES=4,SQUARES=true,"},
        {OCH_DTYPE_Q4_0, 1056, 6, true, false, "STAGES=4,OCC=2,"},
        {OCH_DTYPE_Q4_1, 1056, 2, false, false, "STAGES=4,"},
        {OCH_DTYPE_Q5_0, 1056, 3, false, false, "PARTS=2,STEP=8,STAGES=2,OCC=2,"},
        {OCH_DTYPE_Q6_K, 2048, 3, false, false, ""},
        {OCH_DTYPE_Q5_K, 2304, 3, false, false, "PARTS=2,STEP=8,"},
        {OCH_DTYPE_Q3_K, 2304, 3, true, false, "STAGES=4,OCC=2,"},
        {OCH_DTYPE_Q5_1, 1056, 4, false, true, "STAGES=4,OCC=2,"},
        {OCH_DTYPE_IQ4_NL, 1056, 3, false, false, "STAGES=2,OCC=2,"},
        {OCH_DTYPE_MXFP4, 2112, 5, true, false, "PARTS=2,STEP=8,STAGES=2,OCC=2,"},
        {OCH_DTYPE_MXFP4, 14336, 5, false, false, "PARTS=4,STEP=4,STAGES=2,OCC=2,"}, /* as rows over 8,192 are cut */
        {OCH_DTYPE_Q4_K, 14336, 3, false, true, "PARTS=4,STEP=4,STAGES=1,"},
        {OCH_DTYPE_Q4_K, 10240, 2, false, false, "PARTS=4,STEP=4,STAGES=2,OCC=2,SQUARES=true,"}, /* as long as 64 KiB hold two stages */
        {OCH_DTYPE_Q5_1, 10240, 3, true, false, "PARTS=4,STEP=4,STAGES=2,OCC=2,"},
    };
    static float y[M], residual[M];
    for (size_t c = 0; c < OCH_COUNT(cases); c++) {
        char spec[160];
        const char *cut = cases[c].cut;
        bool bare = cases[c].bare, scaled = strstr(cut, "SQUARES") != NULL;
        int cols = cases[c].k;
        state = 400 + c;
        ring_make(cases[c].t, cols, M);
        double factor = scaled ? s.factor : 1;
        fill(residual, M, 3.0);
        memcpy(y, residual, sizeof y);
        och_kl_actual rows = pieces(k, "rows", 0, M), w = weight(k, "w", M), out = kernel_rig_f32(k, "y", y, 1, M);
        och_kl_actual same = och_gpu_matrix("residual", k->at[k->n - 1].buf.addr, 1, M, M * 4);
        och_kl_actual args[] = {rows, w, out, kernel_rig_rows(k, "x", s.act, 1, cols, s.row_act), bias_if(k, "bias", !bare, 0, M),
                                bare ? (och_kl_actual){.name = "residual"} : cases[c].in_place ? same : kernel_rig_f32(k, "residual", residual, 1, M),
                                squares_if(k, scaled), och_gpu_int("groups", cases[c].groups), och_gpu_real("eps", 0.5)};
        snprintf(spec, sizeof spec, "%sF=%s,ROWB=%d,K=%d", cut, s.t->name, (int)s.row, cols);
        kernel_rig_run(k, "matvec_ring", spec, args, OCH_COUNT(args));
        takes_lds(k, OCH_GPU_RING_ALONE, "matvec_ring", cut, spec);
        are_the_weights(k, "matvec_ring", spec, args, OCH_COUNT(args), "rows");
        for (int i = 0; i < M; i++)
            near((double)y[i], s.sum[i] * factor + (bare ? 0 : (double)s.bias[i] + (double)residual[i]), 4e-6 * (s.size[i] * factor + 4), spec, 0, i);
    }
}

int main(int argc, char **argv) {
    static const kernel_group groups[] = {{"gates", gates}, {"what attention begins with", attention_begins}, {"codes for a norm", codes_for_a_norm},
                                          {"a product alone", alone}};
    return kernel_groups_run("rings", groups, OCH_COUNT(groups), argc > 1 ? argv[1] : "");
}
