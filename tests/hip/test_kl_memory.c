/* Buffers, LDS, formats, pipelines and tiles of the kernel language on simulated boards. */
#include "kl_run.h"

#include "quant/format.h"
#include "quant/planes.h"

static void put_as(const char *t, void *p, int i, float v) {
    if (!strcmp(t, "f32")) ((float *)p)[i] = v;
    else ((uint16_t *)p)[i] = t[0] == 'f' ? och_f32_to_f16(v) : och_f32_to_bf16(v);
}
static float get_as(const char *t, const void *p, int i) {
    if (!strcmp(t, "f32")) return ((const float *)p)[i];
    return t[0] == 'f' ? och_f16_to_f32(((const uint16_t *)p)[i]) : och_bf16_to_f32(((const uint16_t *)p)[i]);
}

static void buffers_of(const char *t) {
    enum { L = 2, M = 3, D = 40, N = 48, PITCH = 48 };
    static uint32_t a[N], b[M * PITCH], c[L * M * D], z[M * D];
    static float e[D], y[L * M * PITCH], q[M * D];
    char bind[16];
    int w = strcmp(t, "f32") ? 2 : 4;
    snprintf(bind, sizeof bind, "T=%s", t);
    memset(y, 0, sizeof y);
    for (int i = 0; i < N; i++) put_as(t, a, i, (float)(noise((uint32_t)i) % 64));
    for (int i = 0; i < M * PITCH; i++) put_as(t, b, i, (float)(noise((uint32_t)i + 50) % 64));
    for (int i = 0; i < L * M * D; i++) put_as(t, c, i, (float)(noise((uint32_t)i + 1000) % 64));
    for (int i = 0; i < M * D; i++) put_as(t, z, i, (float)(i % 7));
    for (int i = 0; i < D; i++) e[i] = (float)i / 4;
    run("memory.ok", "buffers", bind, (actual[]){{.name = "a", .host = a, .dims = {N}}, {.name = "b", .host = b, .dims = {M, D}, .row_bytes = (size_t)(PITCH * w)}, {.name = "c", .host = c, .dims = {L, M, D}},
        {.name = "e", .host = e, .dims = {D}}, {.name = "g", .dims = {D}, .absent = true}, {.name = "y", .host = y, .dims = {L, M, D}, .row_bytes = PITCH * 4}, {.name = "z", .host = z, .dims = {M, D}}, {.name = "q", .host = q, .dims = {M, D}}, {0}});
    for (int j = 0; j < L; j++)
        for (int i = 0; i < M; i++)
            for (int k = 0; k < D; k++) {
                float last = get_as(t, b, (M - 1) * PITCH + k);
                CLOSE("y", (j * M + i) * D + k, y[(j * M + i) * PITCH + k], get_as(t, c, (j * M + i) * D + k) + get_as(t, b, i * PITCH + k) + 2 * last + e[k], 0);
            }
    for (int i = 0; i < M; i++)
        for (int k = 0; k < D; k++) {
            CLOSE("z", i * D + k, get_as(t, z, i * D + k), (float)((i * D + k) % 7) + get_as(t, c, i * D + k), 0);
            if (i || k != 3) CLOSE("q", i * D + k, q[i * D + k], get_as(t, b, i * PITCH + k), 0);
        }
}

ON_ALL(buffers) {
    buffers_of("f32");
    buffers_of("f16");
    buffers_of("bf16");
}

ON_ALL(lds_arrays) {
    enum { N = 200 };
    static float x[N], o[N];
    for (int i = 0; i < N; i++) x[i] = (float)(i % 100) + 0.25f;
    run("memory.ok", "lds_arrays", "", (actual[]){{.name = "x", .host = x, .dims = {N}}, {.name = "o", .host = o, .dims = {N}}, {0}});
    for (int i = 0; i < N; i++) {
        int k = i % 192, p = k / 48, r = k / 8 % 6;
        float b = och_bf16_to_f32(och_f32_to_bf16(x[i % 32] * 3)), c = i % 64 < 32 ? (float)(int8_t)x[i % 64] : (float)-(i % 64 - 32);
        float d = i % 8 < 4 ? (float)((i % 8 + 1) * (i % 3)) : x[i % 3];
        CLOSE("o", i, o[i], x[p * 48 + r * 8 + 3] + x[p * 48 + r * 8 + 7] + b + c + d + x[48 + 16 + i % 8], 1e-6);
    }
}

/* ---- the format `pairs`: where its planes lie, by hand ---- */

enum { K = 384, UNITS = K / 32, BLOCKS = K / 128, Q_AT = 0, S_AT = UNITS * 16, D_AT = S_AT + 32, W_ROW = D_AT + 16 }; /* 24 bytes of s, 6 of d */
enum { V_AT = 0, X_S_AT = K, X_ROW = K + UNITS * 4 };

static void fill_weights(uint8_t *w, int rows) {
    memset(w, 0, (size_t)rows * W_ROW);
    for (int r = 0; r < rows; r++) {
        uint8_t *row = w + r * W_ROW;
        for (int i = 0; i < UNITS * 16; i++) row[Q_AT + i] = (uint8_t)noise((uint32_t)(r * 1000 + i));
        for (int i = 0; i < UNITS * 2; i++) row[S_AT + i] = (uint8_t)(noise((uint32_t)(r * 77 + i)) % 5);
        for (int i = 0; i < BLOCKS; i++) {
            uint16_t d = och_f32_to_f16((float)(1 + (r + i) % 4) / 4);
            memcpy(row + D_AT + 2 * i, &d, 2);
        }
    }
}
static float weight(const uint8_t *row, int e) {
    int u = e / 32, i = e % 32;
    uint16_t d;
    memcpy(&d, row + D_AT + u / 4 * 2, 2);
    float scale = och_f16_to_f32(d) * (float)row[S_AT + 2 * u] + (float)(u % 4);
    return scale * (float)(row[Q_AT + u * 16 + i / 2] >> (i % 2 ? 4 : 0) & 15);
}

ON_ALL(formats) {
    enum { M = 5, B = 2 };
    static float x[B * K], y[B * M], z[M * K];
    static uint8_t act[B * X_ROW], w[M * W_ROW];
    for (int i = 0; i < B * K; i++) x[i] = (float)((int)(noise((uint32_t)i) % 255) - 127);
    run("memory.ok", "quantise", "F=pairs", (actual[]){{.name = "x", .host = x, .dims = {B, K}}, {.name = "y", .host = act, .dims = {B, K}, .row_bytes = X_ROW}, {0}});
    for (int r = 0; r < B; r++) {
        for (int i = 0; i < K; i++) SAME("v", r * K + i, (int8_t)act[r * X_ROW + V_AT + i], (int)x[r * K + i]);
        for (int u = 0; u < UNITS; u++) {
            float s;
            memcpy(&s, act + r * X_ROW + X_S_AT + 4 * u, 4);
            CLOSE("s", u, s, u + 0.5, 0);
        }
    }
    fill_weights(w, M);
    run("memory.ok", "product", "F=pairs,B=2", (actual[]){{.name = "w", .host = w, .dims = {M, K}, .row_bytes = W_ROW}, {.name = "x", .host = act, .dims = {B, K}, .row_bytes = X_ROW}, {.name = "y", .host = y, .dims = {B, M}}, {.name = "z", .host = z, .dims = {M, K}}, {0}});
    for (int r = 0; r < M; r++) {
        for (int i = 0; i < K; i++) CLOSE("z", r * K + i, z[r * K + i], och_f16_to_f32(och_f32_to_f16(weight(w + r * W_ROW, i))), 0);
        for (int c = 0; c < B; c++) {
            double t = 0, size = 0;
            for (int i = 0; i < K; i++) {
                double p = (double)weight(w + r * W_ROW, i) * x[c * K + i] * (i / 32 + 0.5);
                t += p, size += fabs(p);
            }
            if (fabs(y[c * M + r] - t) > 1e-6 * size) CLOSE("y", c * M + r, y[c * M + r], t, 1e-6);
        }
    }
}

/* ---- tiles ---- */

static void multiply(const char *bindings, const char *t, int n, int m, int k) {
    static uint32_t a[80 * 160], b[80 * 160];
    static float y[80 * 80];
    for (int i = 0; i < n * k; i++) put_as(t, a, i, (float)(int)(noise((uint32_t)i) % 17) / 8 - 1);
    for (int i = 0; i < m * k; i++) put_as(t, b, i, (float)(int)(noise((uint32_t)i + 9999) % 17) / 8 - 1);
    run("tiles.ok", "multiply", bindings, (actual[]){{.name = "a", .host = a, .dims = {n, k}}, {.name = "b", .host = b, .dims = {m, k}}, {.name = "y", .host = y, .dims = {n, m}}, {0}});
    for (int r = 0; r < n; r++)
        for (int c = 0; c < m; c++) {
            double s = 0;
            for (int i = 0; i < k; i++) s += (double)get_as(t, a, r * k + i) * get_as(t, b, c * k + i);
            double want = 2 * s + (r % 32) - (c % 32);
            if (fabs(y[r * m + c] - want) > 1e-3) CLOSE(bindings, r * m + c, y[r * m + c], want, 1e-5);
        }
}

ON_ALL(pipelines) {
    multiply("S=f16,DEPTH=2", "f16", 45, 50, 96);
    multiply("S=f16,DEPTH=1,WAVES=1", "f16", 32, 33, 70);
    multiply("S=f32,DEPTH=3,WAVES=2", "f32", 33, 31, 100);
    multiply("S=bf16,DEPTH=2,BK=64,WAVES=2", "bf16", 20, 40, 40);
}

/* Twice: with b, and with the same numbers as a format of bf16, which LDS holds as `w_in_lds`. `first`: the row of a that goes with
 * row 0 of the results. */
static void swizzled(const char *bindings, const char *t, int n, int m, int k, int first) {
    static uint32_t a[80 * 160], b[80 * 160], w[80 * 160];
    static float y[80 * 80], z[80 * 80];
    for (int i = 0; i < n * k; i++) put_as(t, a, i, (float)(int)(noise((uint32_t)i) % 17) / 8 - 1);
    for (int i = 0; i < m * k; i++) {
        float v = (float)(int)(noise((uint32_t)i + 9999) % 17) / 8 - 1;
        put_as(t, b, i, v);
        put_as("bf16", w, i, v);
    }
    memset(y, 0xff, sizeof y), memset(z, 0xff, sizeof z);
    run("tiles.ok", "swizzled", bindings,
        (actual[]){{.name = "a", .host = a, .dims = {n, k}},
                   {.name = "b", .host = b, .dims = {m, k}},
                   {.name = "w", .host = w, .dims = {m, k}, .row_bytes = (size_t)k * 2},
                   {.name = "y", .host = y, .dims = {n, m}},
                   {.name = "z", .host = z, .dims = {n, m}},
                   {.name = "first", .integer = first},
                   {0}});
    for (int r = 0; r < n; r++)
        for (int c = 0; c < m; c++) {
            double s = 0;
            for (int i = 0; i < k && r + first >= 0 && r + first < n; i++) s += (double)get_as(t, a, (r + first) * k + i) * get_as(t, b, c * k + i);
            CLOSE(bindings, r * m + c, y[r * m + c], s, 1e-5);
            CLOSE(bindings, r * m + c, z[r * m + c], s, 1e-5);
        }
}

ON_ALL(swizzles) {
    swizzled("S=f16,DEPTH=1", "f16", 45, 50, 96, 0);
    swizzled("S=f16,DEPTH=2,WAVES=1", "f16", 32, 33, 72, 0);
    swizzled("S=f16,DEPTH=3,WAVES=2,BK=64", "f16", 33, 31, 104, -3);
    swizzled("S=f16,W=bf16,DEPTH=4,BK=16,BM=64,BN=64,WAVES=8", "f16", 70, 65, 136, 0);
    swizzled("S=bf16,W=bf16,DEPTH=2,BK=128,WAVES=2", "bf16", 20, 40, 160, 2);
    swizzled("S=bf16,W=bf16,DEPTH=3,BM=64,WAVES=2", "bf16", 9, 80, 8, 0);
    swizzled("S=f16,DEPTH=2,BM=128,BN=128", "f16", 79, 71, 120, 0);
}

static void beside(const char *bindings, int n, int m, int k, int bm, int bn) {
    static uint16_t a[80 * 160], b[2][80 * 160];
    static float y[80 * 80];
    for (int i = 0; i < n * k; i++) put_as("f16", a, i, (float)(int)(noise((uint32_t)i) % 17) / 8 - 1);
    for (int i = 0; i < 2 * m * k; i++) put_as("f16", b[i / (m * k)], i % (m * k), (float)(int)(noise((uint32_t)i + 9999) % 17) / 8 - 1);
    memset(y, 0xff, sizeof y);
    run("tiles.ok", "beside", bindings,
        (actual[]){{.name = "a", .host = a, .dims = {n, k}}, {.name = "b", .host = b[0], .dims = {m, k}}, {.name = "w", .host = b[1], .dims = {m, k}}, {.name = "y", .host = y, .dims = {n, m}}, {0}});
    for (int r = 0; r < n; r++)
        for (int c = 0; c < m; c++) {
            double s[2] = {0};
            for (int i = 0; i < 2 * k; i++) s[i / k] += (double)get_as("f16", a, r * k + i % k) * get_as("f16", b[i / k], c * k + i % k);
            double want = s[0] + 3 * s[1] + r % bm - c % bn;
            if (fabs(y[r * m + c] - want) > 1e-3) CLOSE(bindings, r * m + c, y[r * m + c], want, 1e-5);
        }
}

ON_ALL(matrices_beside) {
    beside("DEPTH=2", 45, 50, 96, 32, 32);
    beside("DEPTH=1,BN=64,BK=16,WAVES=1", 33, 70, 72, 32, 64);
    beside("DEPTH=3,BM=64,BK=64,WAVES=4", 70, 20, 136, 64, 32);
}

ON_ALL(weights) {
    enum { N = 20, M = 29 };
    static float a[N * K], y[N * M], s[2 * N];
    static uint8_t w[M * W_ROW];
    fill_weights(w, M);
    for (int i = 0; i < N * K; i++) a[i] = (float)(int)(noise((uint32_t)i) % 9) / 4 + 0.25f;
    run("tiles.ok", "weights", "", (actual[]){{.name = "a", .host = a, .dims = {N, K}}, {.name = "w", .host = w, .dims = {M, K}, .row_bytes = W_ROW}, {.name = "y", .host = y, .dims = {N, M}}, {.name = "s", .host = s, .dims = {2, N}}, {0}});
    for (int r = 0; r < N; r++) {
        double row[32] = {0}, top = 0, sum = 0;
        for (int c = 0; c < M; c++) {
            for (int i = 0; i < K; i++) row[c] += (double)a[r * K + i] * weight(w + c * W_ROW, i);
            top = fmax(top, row[c]), sum += row[c];
        }
        CLOSE("the greatest", r, s[r], top, 1e-5);
        CLOSE("the sum", r, s[N + r], sum, 1e-5);
        for (int c = 0; c < M; c++) CLOSE("y", r * M + c, y[r * M + c], row[c] / top, 1e-3);
    }
}

/* A copy whose part begins before the matrix, and one that ends behind it. */
ON_ALL(edges) {
    enum { N = 20, M = 29 };
    static float x[N * K], y[32 * 64], z[32 * 64];
    static uint8_t w[M * W_ROW];
    static const int at[][2] = {{-5, -1}, {-40, 3}, {-1, 11}, {7, -2}, {15, 0}, {0, -3}};
    fill_weights(w, M);
    for (int i = 0; i < N * K; i++) x[i] = (float)(1 + i);
    for (size_t t = 0; t < sizeof at / sizeof *at; t++) {
        int r0 = at[t][0], c0 = at[t][1] * 32;
        run("tiles.ok", "edges", "",
            (actual[]){{.name = "x", .host = x, .dims = {N, K}},
                       {.name = "w", .host = w, .dims = {M, K}, .row_bytes = W_ROW},
                       {.name = "y", .host = y, .dims = {32, 64}},
                       {.name = "z", .host = z, .dims = {32, 64}},
                       {.name = "r", .integer = r0},
                       {.name = "c", .integer = at[t][1]},
                       {0}});
        for (int i = 0; i < 32 * 64; i++) {
            int r = r0 + i / 64, c = c0 + i % 64;
            bool in = c >= 0 && c < K && r >= 0;
            CLOSE("y", i, y[i], in && r < N ? x[r * K + c] : 0, 0);
            CLOSE("z", i, z[i], in && r < M ? och_f16_to_f32(och_f32_to_f16(weight(w + r * W_ROW, c))) : 0, 0);
        }
    }
}

/* ---- whole rows in LDS, parts that lie inside ---- */

/* Rows of a format in planes; their bytes. */
static size_t matrix_of(och_dtype format, int m, int k, uint8_t *w, float *values) {
    uint64_t row;
    och_err err = {0};
    static uint8_t raw[8 * 512];
    static float x[512];
    CHECK(och_planes_row_bytes(format, (uint64_t)k, &row));
    for (int r = 0; r < m; r++) {
        for (int i = 0; i < k; i++) x[i] = (float)((int)(noise((uint32_t)(r * k + i)) % 201) - 100) / 100;
        CHECK(och_format_encode_row(format, x, raw, (uint64_t)k, &err) == OCH_OK);
        och_planes_pack(format, 1, k, raw, w + (size_t)r * row, 0, 1);
        och_planes_decode_row(format, (uint64_t)k, w + (size_t)r * row, values + r * k);
    }
    return (size_t)row;
}

static void staged_rows(const char *bindings, och_dtype format, int m, int k) {
    enum { B = 2 };
    static uint8_t w[96 * 432], x[B * (512 + 16 * 8)];
    static float values[96 * 512], y[B * 96], f[2] = {1.5f, -0.25f};
    int units = k / 32, x_row = k + 8 * units;
    size_t row = matrix_of(format, m, k, w, values);
    for (int b = 0; b < B; b++)
        for (int u = 0; u < units; u++) {
            int32_t sum = 0;
            float d = (float)(1 + (u + b) % 5) / 8;
            int8_t *q = (int8_t *)x + b * x_row + 32 * u;
            for (int i = 0; i < 32; i++) sum += q[i] = (int8_t)((int)(noise((uint32_t)(7000 + (b * units + u) * 32 + i)) % 255) - 127);
            memcpy(x + b * x_row + k + 4 * u, &d, 4);
            memcpy(x + b * x_row + k + 4 * units + 4 * u, &sum, 4);
        }
    memset(y, 0xff, sizeof y);
    run("staged.ok", "rows", bindings, (actual[]){{.name = "w", .host = w, .dims = {m, k}, .row_bytes = row}, {.name = "bytes", .host = w, .dims = {(int64_t)((size_t)m * row / 128), 32}},
        {.name = "x", .host = x, .dims = {B, k}, .row_bytes = (size_t)x_row}, {.name = "f", .host = f, .dims = {2}}, {.name = "y", .host = y, .dims = {B, m}}, {0}});
    for (int b = 0; b < B; b++)
        for (int r = 0; r < m; r++) {
            double t = 0, size = 0;
            for (int i = 0; i < k; i++) {
                float d;
                memcpy(&d, x + b * x_row + k + 4 * (i / 32), 4);
                double p = -0.375 * (double)d * (int8_t)x[b * x_row + i] * (double)values[r * k + i];
                t += p, size += fabs(p);
            }
            if (!(fabs((double)y[b * m + r] - t) <= 1e-6 * size)) CLOSE(bindings, b * m + r, (double)y[b * m + r], t, 1e-6);
        }
}

ON_ALL(rows_in_lds) {
    staged_rows("F=Q4_K,ROW=304,DEPTH=3,WAVES=4", OCH_DTYPE_Q4_K, 64, 512);
    staged_rows("F=Q8_0,ROW=272,DEPTH=2,WAVES=1", OCH_DTYPE_Q8_0, 96, 256);
    staged_rows("F=Q6_K,ROW=432,DEPTH=1,WAVES=2", OCH_DTYPE_Q6_K, 32, 512);
    staged_rows("F=Q6_K,ROW=432,DEPTH=8,WAVES=2,INSIDE=false", OCH_DTYPE_Q6_K, 72, 512);
}

static void inside_of(const char *bindings, och_dtype format, int n, int k, int at, int col) {
    static uint8_t w[50 * 1024];
    static uint16_t x[50 * 512];
    static float values[50 * 512], y[32 * 64], z[32 * 64];
    size_t row = matrix_of(format, n, k, w, values);
    for (int i = 0; i < n * k; i++) x[i] = och_f32_to_f16((float)(i % 1021));
    run("staged.ok", "parts", bindings, (actual[]){{.name = "x", .host = x, .dims = {n, k}}, {.name = "w", .host = w, .dims = {n, k}, .row_bytes = row}, {.name = "y", .host = y, .dims = {32, 64}},
        {.name = "z", .host = z, .dims = {32, 64}}, {.name = "at", .integer = at}, {.name = "col", .integer = col}, {0}});
    for (int i = 0; i < 32 * 64; i++) {
        int from = (at + i / 64) * k + 32 * col + i % 64;
        CLOSE("y", i, y[i], (float)(from % 1021), 0);
        if (fabsf(z[i] - values[from]) > 2e-3f) CLOSE("z", i, z[i], values[from], 2e-3);
    }
}

ON_ALL(parts_inside) {
    inside_of("F=F16,DEPTH=1,WAVES=1", OCH_DTYPE_F16, 41, 256, 9, 6);
    inside_of("F=F16,DEPTH=3,WAVES=2,SUB=2", OCH_DTYPE_F16, 50, 512, 18, 14);
    inside_of("F=Q4_K,DEPTH=2,WAVES=1", OCH_DTYPE_Q4_K, 32, 256, 0, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(buffers), cmocka_unit_test(lds_arrays), cmocka_unit_test(formats),
                                       cmocka_unit_test(pipelines), cmocka_unit_test(swizzles), cmocka_unit_test(matrices_beside), cmocka_unit_test(weights), cmocka_unit_test(edges),
                                       cmocka_unit_test(rows_in_lds), cmocka_unit_test(parts_inside)};
    const char *filter = getenv("KL_TEST");
    if (filter) cmocka_set_test_filter(filter);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
