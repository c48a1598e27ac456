/* Whole rows of a weight that a pipeline copies to LDS, where their units are read (staged), what is done while the first of them are on
 * their way (then), and copies of what lies inside (sub_inside): tests/kl/staged.ok for NVIDIA on threads of the host, with copies that
 * go by themselves as late as they may, against products in double precision; on simulated boards: tests/hip/test_kl_memory.c. */
#include "unit/kl_host.h"

#include "base/size.h"
#include "quant/format.h"
#include "quant/planes.h"

static char *source(void) {
    static char text[1 << 16];
    FILE *f = fopen(OCHRE_TEST_DIR "/kl/staged.ok", "rb");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

/* A matrix in planes, and its values (both to be freed). */
static uint8_t *matrix(och_dtype format, int64_t m, int64_t k, uint64_t *out_row, float **out_values) {
    assert_true(och_planes_row_bytes(format, (uint64_t)k, out_row));
    uint8_t *w = calloc((size_t)m, (size_t)*out_row), *raw = calloc((size_t)k, 8);
    float *row = calloc((size_t)k, 4);
    *out_values = calloc((size_t)(m * k), 4);
    for (int64_t i = 0; i < m; i++) {
        och_err err;
        for (int64_t c = 0; c < k; c++) row[c] = (float)random_one();
        assert_int_equal(och_format_encode_row(format, row, raw, (uint64_t)k, &err), OCH_OK);
        och_planes_pack(format, 1, k, raw, w + i * (int64_t)*out_row, 0, 1);
        och_planes_decode_row(format, (uint64_t)k, w + i * (int64_t)*out_row, *out_values + i * k);
    }
    free(raw), free(row);
    return w;
}

/* ---- rows ---- */

typedef struct rows {
    const char *spec;
    och_dtype format;
    int m, k, b;
} rows;

/* Depths with and without copies by themselves, of one and of several turns, whole turns and such that only some lanes take part in;
 * m that ends within a step and before a workgroup's last one. */
static const rows all_rows[] = {
    {"F=Q4_K,ROW=304,DEPTH=3,WAVES=4", OCH_DTYPE_Q4_K, 64, 512, 2},
    {"F=Q8_0,ROW=272,DEPTH=4,WAVES=2", OCH_DTYPE_Q8_0, 96, 256, 1},
    {"F=Q6_K,ROW=432,DEPTH=2,WAVES=8", OCH_DTYPE_Q6_K, 32, 512, 1},
    {"F=Q8_0,ROW=272,DEPTH=1,WAVES=4", OCH_DTYPE_Q8_0, 64, 256, 2},
    {"F=Q4_K,ROW=304,DEPTH=8,WAVES=1", OCH_DTYPE_Q4_K, 32, 512, 1}, /* fewer steps than are copied ahead */
    {"F=Q4_K,ROW=304,DEPTH=3,WAVES=4,INSIDE=false", OCH_DTYPE_Q4_K, 72, 512, 1},
    {"F=Q6_K,ROW=432,DEPTH=4,WAVES=2,INSIDE=false", OCH_DTYPE_Q6_K, 8, 512, 2},
};

static void rows_job(const rows *c, const made *mk, job *j, double **want) {
    uint64_t row;
    float *values;
    int m = c->m, k = c->k, b = c->b, units = k / 32, x_row = k + 8 * units;
    random_state = 21;
    memset(j, 0, sizeof *j);
    uint8_t *w = matrix(c->format, m, k, &row, &values);
    assert_int_equal((uint64_t)m * row % 128, 0);
    /* Of w the kernel reads nothing; of its bytes nothing behind the last piece. */
    memset(buffer(j, 16, false), 0xff, 16);
    memcpy(buffer(j, m * (int64_t)row, false), w, (size_t)m * row);
    uint8_t *x = buffer(j, b * x_row, false);
    float *f = buffer(j, 8, false);
    buffer(j, 4 * b * m, true);
    f[0] = 1.5f, f[1] = -0.25f;
    j->shape.threads = mk->threads;
    j->shape.grid_x = (m + 31) / 32;
    j->shape.grid_y = b;
    och_strbuf_printf(&j->rest, ", %d, 32, %d, %d, %d, %d, %d, %d, 2", (int)row, x_row, m, m, k, (int)((uint64_t)m * row / 128), b);
    *want = calloc((size_t)(b * m), sizeof **want);
    for (int i = 0; i < b; i++) {
        int8_t *q = (int8_t *)x + i * x_row;
        for (int u = 0; u < units; u++) {
            float d = (float)(0.5 + 0.25 * random_one());
            int32_t sum = 0;
            for (int e = 0; e < 32; e++) sum += q[32 * u + e] = (int8_t)(127 * random_one());
            memcpy(x + i * x_row + k + 4 * u, &d, 4);
            memcpy(x + i * x_row + k + 4 * units + 4 * u, &sum, 4);
            for (int r = 0; r < m; r++)
                for (int e = 32 * u; e < 32 * u + 32; e++) (*want)[i * m + r] += -0.375 * (double)d * q[e] * (double)values[r * k + e];
        }
    }
    free(w), free(values);
}

static void rows_are_right(void **state) {
    (void)state;
    for (size_t i = 0; i < OCH_COUNT(all_rows); i++) {
        const rows *c = &all_rows[i];
        made m;
        job j;
        double *want;
        specialise("staged.ok", source(), "rows", "sm_90", c->spec, &m);
        assert_int_equal(!strstr(m.text, "och_copy_async("), strstr(c->spec, "DEPTH=1") != NULL);
        rows_job(c, &m, &j, &want);
        if (!program(&m, &j)) skip();
        for (int late = 0; late < 2; late++) {
            if (!ran(&j, late, false)) fail_msg("%s: the text was found out", c->spec);
            double e = error_of(j.data[4], want, (size_t)(c->b * c->m));
            if (!(e < 1e-10)) fail_msg("%s, late %d: error %g", c->spec, late, e);
        }
        free(want), free(m.text);
        job_end(&j);
    }
}

static const struct {
    int of;
    const char *word, *instead;
} wrong_rows[] = {
    {0, "och_copy_wait<1>(", "och_copy_wait<2>("}, /* read before it is there */
    {0, "now * 608", "fill * 608"},                /* another step's place */
    {0, "j * 76", "j * 75"},                       /* another row */
    {0, "(i32)u_", "(i32)1 + (i32)u_"},            /* another unit */
    {1, "first + next * 17", "first + p * 17"},    /* rows of a step before */
    {2, "och_copy_wait<0>(", "och_copy_wait<1>("},
    {2, "factor = one", "f32 other = one"},        /* what `then` finds is not what `do` knows */
};

static void wrong_rows_are_found(void **state) {
    (void)state;
    for (size_t i = 0; i < OCH_COUNT(wrong_rows); i++) {
        const rows *c = &all_rows[wrong_rows[i].of];
        made m;
        job j;
        double *want;
        specialise("staged.ok", source(), "rows", "sm_90", c->spec, &m);
        rows_job(c, &m, &j, &want);
        change(&m, wrong_rows[i].word, wrong_rows[i].instead);
        if (!program(&m, &j)) skip();
        if (ran(&j, true, false) && error_of(j.data[4], want, (size_t)(c->b * c->m)) < 1e-6)
            fail_msg("%s with %s: not found out", c->spec, wrong_rows[i].instead);
        free(want), free(m.text);
        job_end(&j);
    }
}

/* ---- parts ---- */

static const struct {
    const char *spec;
    och_dtype format;
    int n, k, at, col;
} all_parts[] = {
    {"F=F16", OCH_DTYPE_F16, 32, 256, 0, 0},
    {"F=F16,DEPTH=3,WAVES=4,SUB=2", OCH_DTYPE_F16, 50, 512, 18, 14}, /* to the last row and column */
    {"F=F16,DEPTH=1", OCH_DTYPE_F16, 41, 256, 9, 1},
    {"F=F16,DEPTH=1,WAVES=4", OCH_DTYPE_F16, 32, 256, 0, 6}, /* lanes that have nothing to copy */
    {"F=Q8_0,WAVES=1,SUB=2", OCH_DTYPE_Q8_0, 40, 256, 8, 6},
    {"F=Q4_K,DEPTH=4,WAVES=4", OCH_DTYPE_Q4_K, 33, 512, 1, 3},
};

static void parts_are_right(void **state) {
    (void)state;
    for (size_t i = 0; i < OCH_COUNT(all_parts); i++) {
        int n = all_parts[i].n, k = all_parts[i].k, at = all_parts[i].at, col = 32 * all_parts[i].col;
        made mk;
        job j = {0};
        uint64_t row;
        float *values;
        specialise("staged.ok", source(), "parts", "sm_90", all_parts[i].spec, &mk);
        random_state = 4;
        uint8_t *w = matrix(all_parts[i].format, n, k, &row, &values);
        uint16_t *x = buffer(&j, 2 * n * k, false);
        memcpy(buffer(&j, n * (int64_t)row, false), w, (size_t)n * row);
        buffer(&j, 4 * 32 * 64, true), buffer(&j, 4 * 32 * 64, true);
        for (int e = 0; e < n * k; e++) x[e] = half_of((float)random_one(), false);
        j.shape.threads = mk.threads;
        j.shape.grid_x = j.shape.grid_y = 1;
        och_strbuf_printf(&j.rest, ", %d, %d, 64, 64, %d, %d, %d, %d", k, (int)row, n, k, at, col / 32);
        if (!program(&mk, &j)) skip();
        for (int late = 0; late < 2; late++) {
            if (!ran(&j, late, false)) fail_msg("%s: the text was found out", all_parts[i].spec);
            for (int e = 0; e < 32 * 64; e++) {
                int from = (at + e / 64) * k + col + e % 64;
                float y = ((float *)j.data[2])[e], z = ((float *)j.data[3])[e];
                if (y != value_of(x[from], false) || !(fabsf(z - values[from]) <= 2e-3f * fabsf(values[from]) + 2e-3f * (all_parts[i].format == OCH_DTYPE_Q4_K)))
                    fail_msg("%s, late %d: element %d: expected %g and %g, found %g and %g", all_parts[i].spec, late, e, (double)value_of(x[from], false),
                             (double)values[from], (double)y, (double)z);
            }
        }
        free(w), free(values), free(mk.text);
        job_end(&j);
    }
}

/* ---- products around `then` ---- */

/* y = 3 a' b' + a'' b'', of a' the first 64 columns: products that are begun before the pipeline and in `then`, which reads the tile too. */
static const char around_text[] =
    "kernel around(a: in buf<f16>[n, k], b: in buf<f16>[m, k], y: out buf<f32>[n, m])\n"
    "  require k % 8 == 0\n"
    "  launch grid(1) waves(4)\n"
    "{\n"
    "  lds A: f16[4][64][64] swizzle;\n"
    "  lds B: f16[4][128][64] swizzle;\n"
    "  lds C: f16[64][64] swizzle;\n"
    "  lds D: f16[128][64] swizzle;\n"
    "  var acc: acc_tile<f32, 64, 128> = 0;\n"
    "  copy C <- a.sub(0, 0);\n"
    "  copy D <- b.sub(0, 0);\n"
    "  group.barrier();\n"
    "  acc.mma(C, D);\n"
    "  pipeline kk in 64..i32(k) step 64 depth 4 {\n"
    "    stage { copy A[stage_slot] <- a.sub_inside(0, kk); copy B[stage_slot] <- b.sub_inside(0, kk); }\n"
    "    then { acc.map((i, j, v) => 2.0 * v); acc.mma(C, D); }\n"
    "    do { acc.mma(A[stage_slot], B[stage_slot]); }\n"
    "  }\n"
    "  acc.each((i, j, v) => { y[i, j] = v; });\n"
    "}\n";

static void products_around_then(void **state) {
    (void)state;
    enum { N = 64, M = 128, K = 384 };
    static const char *const changes[][2] = {{NULL, NULL}, {"och_copy_wait<2>(", "och_copy_wait<3>("}, {"och_group_wait<0>(", "och_group_wait<1>("}};
    for (size_t i = 0; i < OCH_COUNT(changes); i++) {
        made mk;
        job j = {0};
        double worst = 0, *want = calloc(N * M, sizeof *want);
        specialise("around.ok", around_text, "around", "sm_90", "", &mk);
        assert_true(mk.own_target);
        if (changes[i][0]) change(&mk, changes[i][0], changes[i][1]);
        random_state = 9;
        uint16_t *a = buffer(&j, 2 * N * K, false), *b = buffer(&j, 2 * M * K, false);
        buffer(&j, 4 * N * M, true);
        j.shape.threads = mk.threads;
        j.shape.grid_x = j.shape.grid_y = 1;
        och_strbuf_printf(&j.rest, ", %d, %d, %d, %d, %d, %d", K, K, M, N, K, M);
        for (int e = 0; e < N * K; e++) a[e] = half_of((float)random_one(), false);
        for (int e = 0; e < M * K; e++) b[e] = half_of((float)random_one(), false);
        for (int r = 0; r < N; r++)
            for (int c = 0; c < M; c++)
                for (int e = 0; e < K; e++)
                    want[r * M + c] += (e < 64 ? 3 : 1) * (double)value_of(a[r * K + e], false) * (double)value_of(b[c * K + e], false);
        if (!program(&mk, &j)) skip();
        for (int late = 0; late < 4; late++) worst = fmax(worst, ran(&j, late & 1, late & 2) ? error_of(j.data[2], want, N * M) : (double)INFINITY);
        if ((worst < 1e-11) != !changes[i][0]) fail_msg("%s: error %g", changes[i][0] ? changes[i][1] : "as it is", worst);
        free(want), free(mk.text);
        job_end(&j);
    }
}

/* ---- texts ---- */

/* What `then` does stands between the first copies and the wait for them, and so does a kernel's own wait; where the text says that all
 * is inside nothing looks at bounds. */
static void order_in_the_text(void **state) {
    (void)state;
    made m;
    specialise("staged.ok", source(), "rows", "sm_90", "F=Q4_K", &m);
    const char *body = strstr(m.text, "extern \"C\""), *copy = strstr(body, "och_copy_async("), *await = strstr(body, "och_await("), *x = strstr(body, "(const u8 *)f"),
               *wait = strstr(body, "och_copy_wait<1>("), *use = strstr(body, "(const u8 *)&R[0]"), *loop = strstr(body, "for (i32 p = ");
    assert_true(copy && await && x && wait && use && loop);
    assert_true(copy < await && await < x && x < wait && wait < loop && loop < use);
    assert_null(strstr(body, ": 0u);")); /* no copy of 0 bytes */
    assert_null(strstr(body, "(const u8 *)w"));
    free(m.text);
    specialise("staged.ok", source(), "rows", "sm_90", "F=Q4_K,INSIDE=false", &m);
    assert_non_null(strstr(strstr(m.text, "extern \"C\""), ": 0u);"));
    free(m.text);
    specialise("staged.ok", source(), "parts", "sm_90", "F=F16,DEPTH=1,WAVES=1", &m); /* through registers, in whole turns */
    assert_null(strstr(strstr(m.text, "extern \"C\""), "och_splat<u32x4>(0u)"));
    free(m.text);
}

/* A part that lies inside and one that may not, of one buffer in one array, are not taken for one another. */
static void both_in_the_text(void **state) {
    (void)state;
    static const char text[] = "kernel both(x: in buf<f16>[n, k], y: out buf<f16>[n, k])\n"
                               "  require k % 8 == 0\n"
                               "  launch grid(1) waves(1)\n"
                               "{\n"
                               "  lds A: f16[4][16][64];\n"
                               "  pipeline p in 0..8 step 1 depth 2 {\n"
                               "    stage {\n"
                               "      copy A[2 * stage_slot] <- x.sub_inside(0, 64 * p);\n"
                               "      copy A[2 * stage_slot + 1] <- x.sub(0, 64 * p);\n"
                               "    }\n"
                               "    do { y[0, p] = f16(f32(A[2 * stage_slot][1][0])); }\n"
                               "  }\n"
                               "}\n";
    made m;
    int always = 0, asked = 0;
    specialise("both.ok", text, "both", "sm_90", "", &m);
    for (const char *p = strstr(m.text, "extern \"C\""); (p = strstr(p, "och_copy_async(")); p++) {
        const char *end = strchr(p, ';');
        if (!strncmp(end - 6, ", 16u)", 6)) always++;
        else if (!strncmp(end - 11, "? 16u : 0u)", 11)) asked++;
    }
    assert_true(always == asked && always > 0);
    free(m.text);
}

/* For each kind of target the text compiles; where nothing goes by itself, and with waves of 64. */
static void texts_compile(void **state) {
    (void)state;
    static const struct {
        const char *target;
        int wave;
    } targets[] = {{"gfx1151", 32}, {"gfx1151", 64}, {"gfx942", 64}, {"gfx1030", 32}, {"sm_90", 32}, {"sm_80", 32}};
    for (size_t t = 0; t < OCH_COUNT(targets); t++)
        for (size_t i = 0; i < OCH_COUNT(all_rows); i += 2) {
            made m;
            och_kl_profile p;
            och_err err = {0};
            assert_int_equal(och_kl_profile_init(&p, targets[t].target, targets[t].wave, &err), OCH_OK);
            specialise_for(&p, "staged.ok", source(), "rows", all_rows[i].spec, &m);
            free(compile_any(&p, m.text));
            free(m.text);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_in_the_text), cmocka_unit_test(both_in_the_text),     cmocka_unit_test(texts_compile),
        cmocka_unit_test(rows_are_right),    cmocka_unit_test(wrong_rows_are_found), cmocka_unit_test(parts_are_right),
        cmocka_unit_test(products_around_then),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
