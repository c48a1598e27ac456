/* Products whose second factor lies as it is multiplied (mma_t), tiles as first factors, row vectors in registers, and the kernel that is
 * made of them, attention_rows: texts for NVIDIA on threads of the host, with what PTX does in them in the words of the ISA's manual
 * (cuda_host.hh), against sums in double precision. And texts with one word of them changed are found out. */
#include "unit/kl_host.h"

/* ---- products ---- */

/* S = A B, times what a row vector says of its rows, times C. */
static const char products_text[] =
    "kernel products(a: in buf<T>[n, k], b: in buf<T>[k, m], c: in buf<T>[m, p], f: in buf<f32>[n, f1], z: out buf<f32>[n, m],\n"
    "                y: out buf<f32>[n, p])\n"
    "  param T: elem, N: int, K: int, M: int, P: int, WAVES: int\n"
    "  launch grid(1) waves(WAVES)\n"
    "{\n"
    "  lds A: T[N][K] pad auto;\n"
    "  lds B: T[K][M] pad auto;\n"
    "  lds C: T[M][P] pad auto;\n"
    "  for i in group.lanes(N * K) { A[i / K][i % K] = a[i / K, i % K]; }\n"
    "  for i in group.lanes(K * M) { B[i / M][i % M] = b[i / M, i % M]; }\n"
    "  for i in group.lanes(M * P) { C[i / P][i % P] = c[i / P, i % P]; }\n"
    "  group.barrier();\n"
    "  var S: acc_tile<f32, N, M, WAVES, 1> = 0;\n"
    "  var O: acc_tile<f32, N, P, WAVES, 1> = 0;\n"
    "  S.mma_t(A, B);\n"
    "  let r = S.rows(3.0);\n"
    "  let first = S.rows(0);\n"
    "  first.map((i, v) => i32(f[i, 1]));\n"
    "  let sum = S.row_sum();\n"
    "  r.map((i, v) => f[i, 0] * v + sum[i] + f32(first[i] - i));\n"
    "  S.map((i, j, v) => v * r[i]);\n"
    "  S.each((i, j, v) => { z[i, j] = v; });\n"
    "  O.mma_t(S, C);\n"
    "  O.each((i, j, v) => { y[i, j] = v; });\n"
    "}\n";

typedef struct product {
    const char *target, *spec;
    bool bf16;
    int n, k, m, p;
} product;

static void product_job(const product *c, const made *mk, job *j, double **z_want, double **y_want) {
    int n = c->n, k = c->k, m = c->m, p = c->p;
    memset(j, 0, sizeof *j);
    uint16_t *a = buffer(j, 2 * n * k, false), *b = buffer(j, 2 * k * m, false), *cc = buffer(j, 2 * m * p, false);
    float *f = buffer(j, 8 * n, false);
    buffer(j, 4 * n * m, true), buffer(j, 4 * n * p, true);
    j->shape.threads = mk->threads;
    j->shape.grid_x = j->shape.grid_y = 1;
    och_strbuf_printf(&j->rest, ", %d, %d, %d, 2, %d, %d, %d, %d, %d, %d, 2", k, m, p, m, p, n, k, m, p);
    random_state = 5;
    for (int i = 0; i < n * k; i++) a[i] = half_of((float)random_one(), c->bf16);
    for (int i = 0; i < k * m; i++) b[i] = half_of((float)random_one(), c->bf16);
    for (int i = 0; i < m * p; i++) cc[i] = half_of((float)random_one(), c->bf16);
    for (int i = 0; i < n; i++) f[2 * i] = (float)random_one(), f[2 * i + 1] = (float)(i % 5);
    double *z = *z_want = calloc((size_t)(n * m), sizeof *z), *y = *y_want = calloc((size_t)(n * p), sizeof *y);
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int q = 0; q < m; q++) {
            for (int e = 0; e < k; e++) z[i * m + q] += (double)value_of(a[i * k + e], c->bf16) * (double)value_of(b[e * m + q], c->bf16);
            sum += z[i * m + q];
        }
        for (int q = 0; q < m; q++) z[i * m + q] *= 3.0 * (double)f[2 * i] + sum + i % 5 - i;
        for (int q = 0; q < p; q++)
            for (int e = 0; e < m; e++)
                y[i * p + q] += (double)value_of(half_of((float)z[i * m + e], c->bf16), c->bf16) * (double)value_of(cc[e * p + q], c->bf16);
    }
}

static const product products[] = {
    {"sm_80", "T=f16,N=32,K=16,M=16,P=32,WAVES=2", false, 32, 16, 16, 32},
    {"sm_80", "T=bf16,N=64,K=48,M=32,P=16,WAVES=2", true, 64, 48, 32, 16},
    {"sm_90", "T=f16,N=64,K=32,M=48,P=64,WAVES=4", false, 64, 32, 48, 64},
};

/* A tile of few rows, which lies across its instruction's: what is done to its elements, rows and matrix in LDS. */
static const char across_text[] =
    "kernel across(a: in buf<f16>[n, k], b: in buf<f16>[m, k], z: out buf<f32>[n, m], y: out buf<f32>[n, m])\n"
    "  launch grid(1) waves(8)\n"
    "{\n"
    "  lds A: f16[16][64] swizzle;\n"
    "  lds B: f16[128][64] swizzle;\n"
    "  lds P: f16[16][128] pad auto;\n"
    "  copy A <- a.sub(0, 0);\n"
    "  copy B <- b.sub(0, 0);\n"
    "  group.barrier();\n"
    "  var S: acc_tile<f32, 16, 128> = 0;\n"
    "  S.mma(A, B);\n"
    "  let top = S.row_max();\n"
    "  let sum = S.row_sum();\n"
    "  S.map((i, j, v) => v + 0.5 * top[i] - 0.125 * sum[i] + f32(i) * 0.25);\n"
    "  S.each((i, j, v) => { z[i, j] = v; });\n"
    "  S.to_lds(P);\n"
    "  group.barrier();\n"
    "  for i in group.lanes(16 * 16) {\n"
    "    let v = f32x8(P[i / 16].load8(i % 16));\n"
    "    static for j in 0..8 { y[i / 16, 8 * (i % 16) + j] = v[j]; }\n"
    "  }\n"
    "}\n";

static void tiles_across_are_right(void **state) {
    (void)state;
    enum { N = 16, M = 128, K = 64 };
    made mk;
    job j = {0};
    specialise("across.ok", across_text, "across", "sm_90", "", &mk);
    assert_non_null(strstr(mk.text, "wgmma.mma_async.sync.aligned.m64n16k16"));
    uint16_t *a = buffer(&j, 2 * N * K, false), *b = buffer(&j, 2 * M * K, false);
    buffer(&j, 4 * N * M, true), buffer(&j, 4 * N * M, true);
    j.shape.threads = mk.threads;
    j.shape.grid_x = j.shape.grid_y = 1;
    och_strbuf_printf(&j.rest, ", %d, %d, %d, %d, %d, %d, %d", K, K, M, M, N, K, M);
    random_state = 3;
    for (int i = 0; i < N * K; i++) a[i] = half_of((float)random_one(), false);
    for (int i = 0; i < M * K; i++) b[i] = half_of((float)random_one(), false);
    double z[N * M] = {0};
    for (int i = 0; i < N; i++) {
        double top = -INFINITY, sum = 0;
        for (int q = 0; q < M; q++) {
            for (int e = 0; e < K; e++) z[i * M + q] += (double)value_of(a[i * K + e], false) * (double)value_of(b[q * K + e], false);
            top = fmax(top, z[i * M + q]);
            sum += z[i * M + q];
        }
        for (int q = 0; q < M; q++) z[i * M + q] += 0.5 * top - 0.125 * sum + 0.25 * i;
    }
    if (!program(&mk, &j)) skip();
    for (int late = 0; late < 2; late++) {
        if (!ran(&j, late, late)) fail_msg("a tile across: the text was found out");
        double ez = error_of(j.data[2], z, N * M), ey = error_of(j.data[3], z, N * M);
        if (!(ez < 1e-11) || !(ey < 1e-6)) fail_msg("a tile across: errors %g and %g", ez, ey);
    }
    free(mk.text);
    job_end(&j);
}

static void products_are_right(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
        const product *c = &products[i];
        made m;
        job j;
        double *z, *y;
        specialise("products.ok", products_text, "products", c->target, c->spec, &m);
        const char *turned = strstr(m.text, "och_load_turned(const void *p)"); /* whose instruction is taken out */
        assert_non_null(turned);
        assert_ptr_equal(strstr(turned, "ldmatrix"), strstr(turned, "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}"));
        product_job(c, &m, &j, &z, &y);
        if (!program(&m, &j)) skip();
        for (int late = 0; late < 2; late++) {
            if (!ran(&j, late, late)) fail_msg("%s: the text was found out", c->spec);
            double ez = error_of(j.data[4], z, (size_t)(c->n * c->m)), ey = error_of(j.data[5], y, (size_t)(c->n * c->p));
            /* Elements of S near a border of two halves may become the other one. */
            if (!(ez < 1e-11) || !(ey < (c->bf16 ? 1e-7 : 1e-8))) fail_msg("%s: errors %g and %g", c->spec, ez, ey);
        }
        free(z), free(y), free(m.text);
        job_end(&j);
    }
}

/* One word of a text instead of another. */
static const struct {
    int of;
    const char *word, *instead;
} wrong_products[] = {
    {0, "och_load_turned(", "och_load_matrix("}, /* B as it is not multiplied */
    {0, "lane & 15", "lane & 7"},                /* words of A, and of B turned, in another order */
    {1, "lane >> 4", "lane >> 3"},
    {2, "row + 8", "row"},                       /* a row vector's other row */
};

static void wrong_products_are_found(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof wrong_products / sizeof wrong_products[0]; i++) {
        const product *c = &products[wrong_products[i].of];
        made m;
        job j;
        double *z, *y;
        specialise("products.ok", products_text, "products", c->target, c->spec, &m);
        product_job(c, &m, &j, &z, &y);
        change(&m, wrong_products[i].word, wrong_products[i].instead);
        if (!program(&m, &j)) skip();
        if (ran(&j, false, false) && error_of(j.data[5], y, (size_t)(c->n * c->p)) < 1e-3)
            fail_msg("%s with %s: not found out", c->spec, wrong_products[i].instead);
        free(z), free(y), free(m.text);
        job_end(&j);
    }
}

/* ---- attention ---- */

typedef struct attention {
    const char *target, *cut; /* BM, WAVES, STAGES */
    bool bf16;
    int dim, group, kv_heads, block, window;
    float cap;
    int length[2], tokens[2], padding;
    char odd;    /* 'q', 'k', 'v': a number there that is none, of the first sequence's position `at` */
    int at;
    double bound;
} attention;

static void attention_job(const attention *c, const made *mk, int tok, job *j, double **want) {
    int heads = c->group * c->kv_heads, cols = heads * c->dim, n = c->tokens[0] + c->tokens[1] + c->padding;
    int longest = c->length[0] > c->length[1] ? c->length[0] : c->length[1], tl = (longest + c->block - 1) / c->block;
    int n_blocks = 29, kr = n_blocks * c->kv_heads * c->dim, vr = n_blocks * c->kv_heads * c->block;
    memset(j, 0, sizeof *j);
    float *q = buffer(j, 4 * n * cols, false);
    uint16_t *k = buffer(j, 2 * kr * c->block, false), *v = buffer(j, 2 * vr * c->dim, false);
    int32_t *tables = buffer(j, 4 * 2 * tl, false), *seqs = buffer(j, 4 * n, false), *at = buffer(j, 4 * n, false);
    buffer(j, 4 * n * cols, true);
    float scale = (float)(1 / sqrt(c->dim));
    j->shape.threads = mk->threads;
    j->shape.grid_x = c->kv_heads;
    j->shape.grid_y = (n + tok - 1) / tok;
    och_strbuf_printf(&j->rest, ", %d, %d, %d, %d, 1, 1, %d, %d, %d, %d, %d, 2, %d, (f32)%.9g, (f32)%.9g, %d, %d, %d", cols, c->block, c->dim, tl, cols, n,
                      cols, kr, vr, tl, (double)scale, (double)c->cap, c->window, c->kv_heads, heads);
    random_state = 11;
    for (int i = 0; i < n * cols; i++) q[i] = (float)(3 * random_one());
    memset(k, 0xff, (size_t)(2 * kr * c->block)); /* what no token owns is no number */
    memset(v, 0xff, (size_t)(2 * vr * c->dim));
    for (int s = 0; s < 2; s++)
        for (int b = 0; b < tl; b++) tables[s * tl + b] = b * c->block < c->length[s] ? (7 * (s * tl + b) + 3) % n_blocks : -1;
    assert_true(2 * tl <= n_blocks);
    int i = 0;
    for (int s = 0; s < 2; s++) {
        for (int p = 0; p < c->length[s]; p++)
            for (int h = 0; h < c->kv_heads; h++)
                for (int d = 0; d < c->dim; d++) {
                    int64_t at_head = (int64_t)tables[s * tl + p / c->block] * c->kv_heads + h;
                    k[(at_head * c->dim + d) * c->block + p % c->block] = half_of((float)(2 * random_one()), c->bf16);
                    v[(at_head * c->block + p % c->block) * c->dim + d] = half_of((float)random_one(), c->bf16);
                }
        for (int p = c->length[s] - c->tokens[s]; p < c->length[s]; p++, i++) seqs[i] = s, at[i] = p;
    }
    for (; i < n; i++) seqs[i] = -1, at[i] = 0;
    int64_t odd_head = (int64_t)tables[c->at / c->block] * c->kv_heads;
    if (c->odd == 'q') q[5] = INFINITY;
    if (c->odd == 'k') k[(odd_head * c->dim + 5) * c->block + c->at % c->block] = half_of(NAN, c->bf16);
    if (c->odd == 'v') v[(odd_head * c->block + c->at % c->block) * c->dim + 5] = half_of(INFINITY, c->bf16);
    double *y = *want = calloc((size_t)(n * cols), sizeof *y), *w = calloc((size_t)longest, sizeof *w);
    for (i = 0; i < n; i++)
        for (int h = 0; h < heads && seqs[i] >= 0; h++) {
            double top = -INFINITY, sum = 0;
            int first = c->window && at[i] - c->window + 1 > 0 ? at[i] - c->window + 1 : 0;
            for (int p = first; p <= at[i]; p++) {
                int64_t head = (int64_t)tables[seqs[i] * tl + p / c->block] * c->kv_heads + h / c->group;
                double s = 0;
                for (int d = 0; d < c->dim; d++)
                    s += (double)q[i * cols + h * c->dim + d] * (double)value_of(k[(head * c->dim + d) * c->block + p % c->block], c->bf16);
                s *= (double)scale;
                if (c->cap > 0) s = (double)c->cap * tanh(s / (double)c->cap);
                w[p] = s;
                top = fmax(top, s);
            }
            for (int p = first; p <= at[i]; p++) sum += w[p] = exp(w[p] - top);
            for (int p = first; p <= at[i]; p++) {
                int64_t head = (int64_t)tables[seqs[i] * tl + p / c->block] * c->kv_heads + h / c->group;
                for (int d = 0; d < c->dim; d++)
                    y[i * cols + h * c->dim + d] += w[p] / sum * (double)value_of(v[(head * c->block + p % c->block) * c->dim + d], c->bf16);
            }
        }
    free(w);
}

/* Rows that ought to be numbers and are none, or the other way round, count as errors; the others' error. */
static double attention_error(const float *found, const double *want, size_t n) {
    double error = 0, all = 1e-30;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(want[i]) && !isfinite(found[i])) continue;
        double d = (double)found[i] - want[i];
        if (!isfinite(d)) return INFINITY;
        error += d * d;
        all += want[i] * want[i];
    }
    return error / all;
}

static const attention attentions[] = {
    /* several steps, all see most of them; rows that are no token's */
    {"sm_80", "BM=64,WAVES=4,STAGES=2", false, 32, 3, 1, 32, 0, 0, {150, 20}, {30, 12}, 1, 0, 0, 1e-6},
    {"sm_80", "BM=32,WAVES=2,STAGES=1", true, 64, 4, 2, 16, 21, 0, {70, 40}, {9, 5}, 0, 0, 0, 3e-5},
    {"sm_90", "BM=128,WAVES=8,STAGES=2,STEP=128", false, 128, 8, 1, 32, 0, 15.0f, {150, 3}, {11, 3}, 0, 0, 0, 1e-6},
    {"sm_90", "BM=128,WAVES=8,STAGES=2,STEP=128", true, 64, 4, 1, 32, 50, 0, {280, 30}, {25, 30}, 3, 0, 0, 3e-5},
    {"sm_90", "BM=128,WAVES=8,STAGES=2,STEP=64", false, 256, 2, 1, 32, 0, 0, {150, 0}, {70, 0}, 0, 0, 0, 1e-6},
    {"sm_90", "BM=64,WAVES=4,STAGES=3,STEP=64", false, 96, 2, 1, 16, 0, 0, {200, 30}, {25, 30}, 0, 'v', 190, 1e-6},
    {"sm_80", "BM=32,WAVES=2,STAGES=2", false, 32, 2, 1, 16, 0, 0, {40, 3}, {24, 3}, 0, 'q', 0, 1e-6},
    {"sm_80", "BM=32,WAVES=2,STAGES=2", false, 32, 2, 1, 16, 0, 0, {40, 3}, {24, 3}, 0, 'k', 30, 1e-6},
    {"sm_80", "BM=32,WAVES=2,STAGES=2", false, 32, 2, 1, 16, 0, 0, {40, 3}, {24, 3}, 0, 'v', 30, 1e-6},
    {"sm_80", "BM=32,WAVES=2,STAGES=2", false, 32, 2, 1, 16, 0, 0, {90, 3}, {24, 3}, 0, 'v', 5, 1e-6},
};

static int tokens_of(const attention *c) { return atoi(strstr(c->cut, "BM=") + 3) / c->group; }

static void attention_text(const attention *c, made *m) {
    char spec[256];
    snprintf(spec, sizeof spec, "T=%s,HD=%d,GG=%d,BT=%d,CAP=%d,%s", c->bf16 ? "bf16" : "f16", c->dim, c->group, c->block, c->cap > 0,
             c->cut);
    specialise("attention_rows.ok", NULL, "attention_rows", c->target, spec, m);
    /* Where all is finite the slow way behind would set right what is wrong. */
    if (!c->odd) change(m, "och_isfinite(odd)", "true");
}

static void attention_is_right(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof attentions / sizeof attentions[0]; i++) {
        const attention *c = &attentions[i];
        made m;
        job j;
        double *want;
        attention_text(c, &m);
        attention_job(c, &m, tokens_of(c), &j, &want);
        if (!program(&m, &j)) skip();
        for (int late = 0; late < 2; late++) {
            if (!ran(&j, late, late)) fail_msg("case %zu: the text was found out", i);
            double e = attention_error(j.data[6], want, (size_t)j.shape.bytes[6] / 4);
            if (!(e <= c->bound)) fail_msg("case %zu, late %d: error %g, expected at most %g", i, late, e, c->bound);
        }
        free(want), free(m.text);
        job_end(&j);
    }
}

static const struct {
    int of;
    const char *word, *instead;
} wrong_attentions[] = {
    {0, "och_copy_wait<0>(", "och_copy_wait<1>("}, /* read before it is there */
    {0, "och_exp2(", "(1.0f+"},
    {8, "och_isfinite(odd)", "true"},              /* an odd number that not all see is not looked after */
    {2, "och_group_place<64, 512>(", "och_group_place<64, 256>("}, /* matrices of K beside one another */
    {2, "och_group_place<128, 256>(", "och_group_place<128>("},
    {2, "och_group_place<64, 512>(", "och_group_place<128, 512>("}, /* another swizzle than that of the copies */
    {2, "+ 640ull", "+ 642ull"},                   /* another row of V */
    {3, "och_barrier_all(", "och_barrier("},       /* not for what reads past the lanes */
    {3, "och_group_wait<0>(", "och_group_wait<1>("},
    {5, "och_group_begin()", "(void)0"},
};

static void wrong_attentions_are_found(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof wrong_attentions / sizeof wrong_attentions[0]; i++) {
        const attention *c = &attentions[wrong_attentions[i].of];
        made m;
        job j;
        double *want;
        attention_text(c, &m);
        attention_job(c, &m, tokens_of(c), &j, &want);
        change(&m, wrong_attentions[i].word, wrong_attentions[i].instead);
        if (!program(&m, &j)) skip();
        if (ran(&j, true, true) && attention_error(j.data[6], want, (size_t)j.shape.bytes[6] / 4) <= c->bound)
            fail_msg("case %d with %s: not found out", wrong_attentions[i].of, wrong_attentions[i].instead);
        free(want), free(m.text);
        job_end(&j);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_across_are_right),
        cmocka_unit_test(products_are_right),
        cmocka_unit_test(wrong_products_are_found),
        cmocka_unit_test(attention_is_right),
        cmocka_unit_test(wrong_attentions_are_found),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
