/* Products by instructions of four waves (wgmma): the text of kernels/matmul.ok for sm_90 is run on threads of the host, with what PTX
 * does in it in the words of the ISA's manual (cuda_host.hh), against products in double precision. Copies and products run at once or
 * as late as they may; and texts with one wait, fence or piece out of its place are found out. */
#include "unit/kl_host.h"

#include "kl/matrix.h"
#include "quant/format.h"
#include "quant/planes.h"

typedef struct one {
    const char *spec; /* "F=BF16,W=bf16,..." */
    int64_t n, m, k;
    double bound;     /* normalised mean square error: 0 where all products and sums are exact enough */
} one;

/* Value of a parameter that the specialisation has. */
static const char *value(const one *o, const char *name) {
    const char *p = strstr(o->spec, name);
    assert_non_null(p);
    return p + strlen(name);
}

static och_dtype format_of(const one *o) {
    const char *name = value(o, "F=");
    for (size_t i = 0; och_format_at(i); i++)
        if (!strncmp(och_format_at(i)->name, name, strcspn(name, ",")) && !och_format_at(i)->name[strcspn(name, ",")]) return och_format_at(i)->dtype;
    fail_msg("%s: no such format", o->spec);
    return OCH_DTYPE_NONE;
}

/* Rows of random numbers as the format has them, packed into w; what they are then (to be freed). */
static float *weights(och_dtype format, uint8_t *w, int64_t m, int64_t k, uint64_t w_row) {
    float *wv = calloc((size_t)(m * k), 4), *row = calloc((size_t)k, 4);
    uint8_t *raw = calloc((size_t)k, 8);
    for (int64_t i = 0; i < m; i++) {
        och_err err;
        for (int64_t c = 0; c < k; c++) row[c] = (float)random_one();
        assert_int_equal(och_format_encode_row(format, row, raw, (uint64_t)k, &err), OCH_OK);
        och_planes_pack(format, 1, k, raw, w + i * (int64_t)w_row, 0, 1);
        och_planes_decode_row(format, (uint64_t)k, w + i * (int64_t)w_row, wv + i * k);
    }
    free(row), free(raw);
    return wv;
}

/* A call of the kernel, and what the product is (to be freed). */
static double *operands(const one *o, const made *mk, job *j) {
    int64_t n = o->n, m = o->m, k = o->k, a_row = (k + 31) / 32 * 32, rows = atoll(value(o, "BM=")), cols = atoll(value(o, "BN="));
    bool bf16 = strstr(o->spec, "T=bf16");
    och_dtype format = format_of(o);
    uint64_t w_row;
    assert_true(och_planes_row_bytes(format, (uint64_t)k, &w_row));
    memset(j, 0, sizeof *j);
    uint16_t *a = buffer(j, 2 * n * a_row, false);
    float *scale = buffer(j, 4 * n, false);
    uint8_t *w = buffer(j, m * (int64_t)w_row, false);
    float *bias = buffer(j, 4 * m, false), *residual = buffer(j, 4 * n * m, false);
    buffer(j, 4 * n * m, true);
    j->shape.threads = mk->threads;
    j->shape.grid_x = (n + rows - 1) / rows;
    j->shape.grid_y = (m + cols - 1) / cols;
    och_strbuf_printf(&j->rest, ", %d, 1, %d, %d, %d, %d, %d, %d", (int)a_row, (int)w_row, (int)m, (int)m, (int)n, (int)k, (int)m);
    double *want = calloc((size_t)(n * m), sizeof *want);
    random_state = 7;
    for (int64_t i = 0; i < n * a_row; i++) a[i] = half_of((float)random_one(), bf16);
    float *wv = weights(format, w, m, k, w_row);
    for (int64_t i = 0; i < n; i++) scale[i] = (float)random_one();
    for (int64_t i = 0; i < m; i++) bias[i] = (float)random_one();
    for (int64_t i = 0; i < n * m; i++) residual[i] = (float)random_one();
    for (int64_t i = 0; i < n; i++)
        for (int64_t q = 0; q < m; q++) {
            double s = 0;
            for (int64_t c = 0; c < k; c++) s += (double)value_of(a[i * a_row + c], bf16) * (double)wv[q * k + c];
            want[i * m + q] = s * (double)scale[i] + (double)bias[q] + (double)residual[i * m + q];
        }
    free(wv);
    return want;
}

/* The same of matmul_glu, with silu. */
static double *gated_operands(const one *o, const made *mk, job *j) {
    int64_t n = o->n, m = o->m, k = o->k, a_row = (k + 31) / 32 * 32, rows = atoll(value(o, "BM=")), cols = atoll(value(o, "BN="));
    bool bf16 = strstr(o->spec, "T=bf16");
    och_dtype format = format_of(o);
    uint64_t w_row;
    assert_true(och_planes_row_bytes(format, (uint64_t)k, &w_row));
    memset(j, 0, sizeof *j);
    uint16_t *a = buffer(j, 2 * n * a_row, false);
    float *scale = buffer(j, 4 * n, false);
    uint8_t *w[2] = {buffer(j, m * (int64_t)w_row, false), buffer(j, m * (int64_t)w_row, false)};
    float *bias[2] = {buffer(j, 4 * m, false), buffer(j, 4 * m, false)}, *wv[2];
    buffer(j, 4 * n * m, true);
    j->shape.threads = mk->threads;
    j->shape.grid_x = (n + rows - 1) / rows;
    j->shape.grid_y = (m + cols - 1) / cols;
    och_strbuf_printf(&j->rest, ", %d, 1, %d, %d, %d, %d, %d, %d", (int)a_row, (int)w_row, (int)w_row, (int)m, (int)n, (int)k, (int)m);
    double *want = calloc((size_t)(n * m), sizeof *want);
    random_state = 11;
    for (int64_t i = 0; i < n * a_row; i++) a[i] = half_of((float)random_one(), bf16);
    for (int64_t i = 0; i < n; i++) scale[i] = (float)random_one();
    for (int x = 0; x < 2; x++) {
        wv[x] = weights(format, w[x], m, k, w_row);
        for (int64_t i = 0; i < m; i++) bias[x][i] = (float)random_one();
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t q = 0; q < m; q++) {
            double s[2] = {0};
            for (int x = 0; x < 2; x++) {
                for (int64_t c = 0; c < k; c++) s[x] += (double)value_of(a[i * a_row + c], bf16) * (double)wv[x][q * k + c];
                s[x] = s[x] * (double)scale[i] + (double)bias[x][q];
            }
            want[i * m + q] = s[0] / (1 + exp(-s[0])) * s[1];
        }
    free(wv[0]), free(wv[1]);
    return want;
}

/* Infinite where the run found the text out. */
static double run(const job *j, const double *want, bool late_copies, bool late_products) {
    if (!ran(j, late_copies, late_products)) return INFINITY;
    int last = (int)j->shape.n_buffers - 1;
    return error_of(j->data[last], want, (size_t)j->shape.bytes[last] / 4);
}

/* Tiles of which one group has all rows, one or two groups the rows, two the columns; of few rows; each width of swizzled rows; depths with and
 * without products under way at the barrier; rows, columns and k that end within a tile. */
static const one cases[] = {
    {"F=BF16,W=bf16,T=bf16,BM=128,BN=256,BK=64,STAGES=4,WAVES=8", 130, 300, 456, 1e-11},
    {"F=BF16,W=bf16,T=bf16,BM=128,BN=128,BK=64,STAGES=3,WAVES=4", 150, 130, 328, 1e-11},
    {"F=BF16,W=bf16,T=bf16,BM=64,BN=64,BK=32,STAGES=4,WAVES=4", 70, 72, 200, 1e-11},
    {"F=F16,BM=64,BN=128,BK=16,STAGES=2,WAVES=8", 64, 140, 104, 1e-11},
    {"F=F16,BM=256,BN=64,BK=64,STAGES=1,WAVES=8", 256, 64, 192, 1e-11},
    {"F=F16,BM=128,BN=128,BK=64,STAGES=4,WAVES=8", 128, 128, 64, 1e-11}, /* fewer steps than are loaded ahead */
    {"F=BF16,W=bf16,T=bf16,BM=64,BN=32,BK=64,STAGES=8,WAVES=4", 20, 72, 712, 1e-11},
    {"F=Q4_K,BM=128,BN=128,BK=64,STAGES=4,WAVES=8", 100, 130, 512, 1e-6},
    {"F=Q8_0,BM=128,BN=64,BK=64,STAGES=3,WAVES=8", 128, 64, 320, 1e-6},
    {"F=Q6_K,BM=64,BN=64,BK=64,STAGES=2,WAVES=4", 64, 64, 256, 1e-6},
    {"F=BF16,W=bf16,T=bf16,BM=16,BN=64,BK=64,SUB=2,STAGES=4,WAVES=4", 9, 140, 712, 1e-11}, /* 64 columns a group */
    {"F=F16,BM=32,BN=128,BK=32,STAGES=3,WAVES=8", 40, 130, 328, 1e-11},
    {"F=Q4_K,BM=32,BN=64,BK=64,SUB=4,STAGES=2,WAVES=4", 50, 72, 512, 1e-6},
    {"F=Q8_0,BM=64,BN=16,BK=64,SUB=8,STAGES=1,WAVES=4", 20, 40, 640, 1e-6},
    {"F=Q4_K,BM=64,BN=32,BK=64,SUB=4,STAGES=2,WAVES=8", 10, 40, 1280, 1e-6}, /* four matrices a turn of the copy */
    {"F=Q4_K,BM=64,BN=48,BK=64,SUB=8,STAGES=2,WAVES=12", 20, 100, 1280, 1e-6},
    {"F=Q5_K,BM=32,BN=128,BK=64,SUB=3,STAGES=2,WAVES=8", 30, 130, 512, 1e-6},
};

static void products_are_right(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const one *o = &cases[i];
        made m;
        job j;
        specialise("matmul.ok", NULL, "matmul", "sm_90", o->spec, &m);
        assert_true(m.own_target);
        double *want = operands(o, &m, &j);
        if (!program(&m, &j)) skip();
        for (int late = 0; late < 4; late++) {
            double e = run(&j, want, late & 1, late & 2);
            if (!(e <= o->bound)) fail_msg("%s, late %d: error %g, expected at most %g", o->spec, late, e, o->bound);
        }
        free(want), free(m.text);
        job_end(&j);
    }
}

/* Two products with a gate: as columns of one tile, of which the second half's matrix lies behind the first's; as two tiles. */
static const one gates[] = {
    {"F=BF16,ACT=1,W=bf16,T=bf16,BM=128,BN=112,BK=64,STAGES=5,WAVES=8,JOINT=true", 130, 120, 456, 1e-11},
    {"F=F16,ACT=1,BM=64,BN=48,BK=64,STAGES=2,WAVES=4,JOINT=true", 70, 100, 200, 1e-11},
    {"F=Q8_0,ACT=1,BM=64,BN=32,BK=32,STAGES=3,WAVES=4,JOINT=true", 64, 40, 320, 1e-6},
    {"F=F16,ACT=1,BM=64,BN=64,BK=64,STAGES=2,WAVES=4", 70, 100, 200, 1e-11},
    {"F=BF16,ACT=1,W=bf16,T=bf16,BM=16,BN=64,BK=64,SUB=2,STAGES=3,WAVES=4", 9, 70, 328, 1e-11},
};

static void gates_are_right(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof gates / sizeof gates[0]; i++) {
        const one *o = &gates[i];
        made m;
        job j;
        specialise("matmul.ok", NULL, "matmul_glu", "sm_90", o->spec, &m);
        assert_true(m.own_target);
        double *want = gated_operands(o, &m, &j);
        if (!program(&m, &j)) skip();
        for (int late = 0; late < 4; late++) {
            double e = run(&j, want, late & 1, late & 2);
            if (!(e <= o->bound)) fail_msg("%s, late %d: error %g, expected at most %g", o->spec, late, e, o->bound);
        }
        free(want), free(m.text);
        job_end(&j);
    }
}

/* Three products in one launch, the second and third of a quarter and of a third of the first's rows; want: theirs (to be freed). */
static void three_operands(const one *o, const made *mk, job *j, double *want[3]) {
    int64_t n = o->n, m[3] = {o->m, o->m / 4, o->m / 3}, k = o->k, a_row = (k + 31) / 32 * 32, rows = atoll(value(o, "BM=")), cols = atoll(value(o, "BN="));
    bool bf16 = strstr(o->spec, "T=bf16");
    och_dtype format = format_of(o);
    uint64_t w_row;
    uint8_t *w[3];
    float *bias[3];
    assert_true(och_planes_row_bytes(format, (uint64_t)k, &w_row));
    memset(j, 0, sizeof *j);
    uint16_t *a = buffer(j, 2 * n * a_row, false);
    float *scale = buffer(j, 4 * n, false);
    for (int x = 0; x < 3; x++) w[x] = buffer(j, m[x] * (int64_t)w_row, false);
    for (int x = 0; x < 3; x++) bias[x] = buffer(j, 4 * m[x], false);
    for (int x = 0; x < 3; x++) buffer(j, 4 * n * m[x], true);
    j->shape.threads = mk->threads;
    j->shape.grid_x = (n + rows - 1) / rows;
    for (int x = 0; x < 3; x++) j->shape.grid_y += (m[x] + cols - 1) / cols;
    och_strbuf_printf(&j->rest, ", %d, 1, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d", (int)a_row, (int)w_row, (int)w_row, (int)w_row, (int)m[0],
                      (int)m[1], (int)m[2], (int)n, (int)k, (int)m[0], (int)m[1], (int)m[2]);
    random_state = 13;
    for (int64_t i = 0; i < n * a_row; i++) a[i] = half_of((float)random_one(), bf16);
    for (int64_t i = 0; i < n; i++) scale[i] = (float)random_one();
    for (int x = 0; x < 3; x++) {
        float *wv = weights(format, w[x], m[x], k, w_row);
        for (int64_t i = 0; i < m[x]; i++) bias[x][i] = (float)random_one();
        want[x] = calloc((size_t)(n * m[x]), sizeof **want);
        for (int64_t i = 0; i < n; i++)
            for (int64_t q = 0; q < m[x]; q++) {
                double s = 0;
                for (int64_t c = 0; c < k; c++) s += (double)value_of(a[i * a_row + c], bf16) * (double)wv[q * k + c];
                want[x][i * m[x] + q] = s * (double)scale[i] + (double)bias[x][q];
            }
        free(wv);
    }
}

static void three_are_right(void **state) {
    (void)state;
    static const one three[] = {{"F=BF16,G=BF16,W=bf16,T=bf16,BM=128,BN=208,BK=64,STAGES=5,WAVES=8", 130, 240, 328, 1e-11},
                                {"F=F16,G=F16,BM=64,BN=64,BK=64,STAGES=2,WAVES=4", 40, 200, 136, 1e-11}};
    for (size_t i = 0; i < sizeof three / sizeof three[0]; i++) {
        const one *o = &three[i];
        made m;
        job j;
        double *want[3];
        specialise("matmul.ok", NULL, "matmul_qkv", "sm_90", o->spec, &m);
        assert_true(m.own_target);
        three_operands(o, &m, &j, want);
        if (!program(&m, &j)) skip();
        for (int late = 0; late < 4; late++) {
            assert_true(ran(&j, late & 1, late & 2));
            for (int x = 0; x < 3; x++) {
                int at = (int)j.shape.n_buffers - 3 + x;
                double e = error_of(j.data[at], want[x], (size_t)j.shape.bytes[at] / 4);
                if (!(e <= o->bound)) fail_msg("%s, late %d, product %d: error %g, expected at most %g", o->spec, late, x, e, o->bound);
            }
        }
        for (int x = 0; x < 3; x++) free(want[x]);
        free(m.text);
        job_end(&j);
    }
}

/* One word of the kernel's turn instead of another: what it must not be. */
static const struct {
    int of; /* cases */
    const char *word, *instead;
} faults[] = {
    {0, "och_group_wait<1>(", "och_group_wait<2>("},          /* LDS is filled again while it is read */
    {1, "och_group_wait<0>(", "och_group_wait<1>("},
    {0, "och_copy_wait<1>(", "och_copy_wait<2>("},            /* it is read before it is filled */
    {0, "och_barrier_all(", "och_barrier("},                  /* not for what reads past the lanes */
    {7, "och_barrier_all(", "och_barrier("},
    {0, "och_group_begin()", "(void)0"},
    {0, "och_group_place<128>(", "och_group_place<64>("},     /* another swizzle than that of the copies */
    {3, "och_group_place<32>(", "och_group_place<64>("},
    {1, "a_place + 514ull", "a_place + 513ull"},              /* half a step of k */
    {4, "wave / 4 * 128", "wave / 4 * 64"},                   /* rows of another group */
    {11, "wave * 16", "wave / 4 * 64"},                       /* columns of another wave */
    {10, "och_group_wait<0>(", "och_group_wait<1>("},         /* of two products a turn the second */
};

static void faults_are_found(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        const one *o = &cases[faults[i].of];
        made m;
        job j;
        specialise("matmul.ok", NULL, "matmul", "sm_90", o->spec, &m);
        change(&m, faults[i].word, faults[i].instead);
        double *want = operands(o, &m, &j), worst = 0;
        if (!program(&m, &j)) skip();
        for (int late = 0; late < 4; late++) worst = fmax(worst, run(&j, want, late & 1, late & 2));
        if (worst <= o->bound) fail_msg("%s with %s: not found out", o->spec, faults[i].instead);
        free(want), free(m.text);
        job_end(&j);
    }
}

/* The instruction, whose operands nobody above looks at: accumulators in order, then both places. */
static void the_instruction(void **state) {
    (void)state;
    och_strbuf t = {0};
    och_kl_group_matrix_text(OCH_KL_F16, 16, false, &t);
    assert_string_equal(
        och_strbuf_str(&t),
        "static __device__ __forceinline__ void och_group_mma_m64n16k16_f16(f32x4 *c, u64 a, u64 b) {\n"
        "    asm volatile(\"{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {\"\n"
        "                 \"%0, %1, %2, %3, %4, %5, %6, %7\"\n"
        "                 \"}, %8, %9, p, 1, 1, 0, 0; }\"\n"
        "                 : \"+f\"(c[0][0]), \"+f\"(c[0][1]), \"+f\"(c[0][2]), \"+f\"(c[0][3]),\n"
        "                   \"+f\"(c[1][0]), \"+f\"(c[1][1]), \"+f\"(c[1][2]), \"+f\"(c[1][3])\n"
        "                 : \"l\"(a), \"l\"(b));\n}\n");
    och_strbuf_deinit(&t);
}

/* Where an instruction of four waves is not for: the waves' own stays. */
static void others_stay(void **state) {
    (void)state;
    static const struct {
        const char *target, *spec;
    } plain[] = {{"sm_80", "F=F16,BM=128,BN=128,BK=64,WAVES=8"},          /* another target */
                 {"sm_90", "F=F16,BM=64,BN=64,BK=64,WAVES=2"},            /* half a group */
                 {"sm_90", "F=BF16,W=bf16,BM=128,BN=128,BK=64,WAVES=8"},  /* f16 by bf16 */
                 {"sm_90", "F=F16,BM=32,BN=128,BK=64,WAVES=4"},           /* too few rows */
                 {"sm_90", "F=F16,BM=64,BN=64,BK=128,WAVES=4"}};          /* rows wider than a swizzle */
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        made m;
        specialise("matmul.ok", NULL, "matmul", plain[i].target, plain[i].spec, &m);
        assert_false(m.own_target);
        assert_null(strstr(m.text, "wgmma"));
        assert_non_null(strstr(m.text, "mma.sync"));
        free(m.text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_instruction),
        cmocka_unit_test(others_stay),
        cmocka_unit_test(products_are_right),
        cmocka_unit_test(gates_are_right),
        cmocka_unit_test(three_are_right),
        cmocka_unit_test(faults_are_found),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
