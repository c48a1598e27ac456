/* Products by instructions of four waves (wgmma): the text of kernels/matmul.ok for sm_90 is run on threads of the host, with what PTX
 * does in it in the words of the ISA's manual (cuda_host.hh), against products in double precision. Copies and products run at once or
 * as late as they may; and texts with one wait, fence or piece out of its place are found out. */
#include "unit/kl_host.h"

#include "kl/builtin.h"
#include "kl/matrix.h"
#include "quant/format.h"
#include "quant/planes.h"

#define TEXT_BYTES (1 << 19)

/* ---- the text ---- */

typedef struct one {
    const char *spec; /* "F=BF16,W=bf16,..." */
    int64_t n, m, k;
    double bound;     /* normalised mean square error: 0 where all products and sums are exact enough */
} one;

typedef struct made {
    char *text, entry[256];
    och_kl_signature s;
    och_dtype dtype;
    bool bf16;
} made;

static void specialise(const one *o, made *out) {
    och_err err = {0};
    och_strbuf diag = {0};
    och_kl_unit *u;
    och_kl_code *c;
    och_kl_profile p;
    och_kl_binding b[16];
    int n = 0;
    char spec[256];
    memset(out, 0, sizeof *out);
    snprintf(spec, sizeof spec, "%s", o->spec);
    for (char *at = strtok(spec, ","); at; at = strtok(NULL, ",")) {
        char *value = strchr(at, '=');
        *value++ = 0;
        b[n++] = (och_kl_binding){at, value};
        if (!strcmp(at, "T")) out->bf16 = !strcmp(value, "bf16");
        if (!strcmp(at, "F"))
            for (size_t i = 0; och_format_at(i); i++)
                if (!strcmp(och_format_at(i)->name, value)) out->dtype = och_format_at(i)->dtype;
    }
    assert_int_equal(och_kl_parse_builtin("matmul.ok", &u, &diag, &err), OCH_OK);
    assert_int_equal(och_kl_profile_init(&p, "sm_90", 0, &err), OCH_OK);
    if (och_kl_specialise(u, "matmul", b, n, &p, &c, &diag, &err) != OCH_OK) fail_msg("%s%s", och_strbuf_str(&diag), err.message);
    out->text = emitted(c);
    out->s = *och_kl_code_signature(c);
    assert_true(och_kl_code_own_target(c));
    snprintf(out->entry, sizeof out->entry, "%s", out->s.entry);
    och_kl_code_destroy(c);
    och_kl_unit_destroy(u);
    och_strbuf_deinit(&diag);
}

/* The text for the host, and a call of the kernel. */
static void for_host(const made *m, och_strbuf *out) {
    text_for_host(m->text, "cuda_host_matmul.hh", out);
    const char *t = m->bf16 ? "u16" : "f16";
    och_strbuf_printf(out,
                      "static void kernel() {\n    const i64 m = shape.m;\n    typedef const %s *acts;\n"
                      "    %s((acts)a_data, scale_data, (decltype(weights_of(&%s)))w_data, bias_data, residual_data, y_data,\n"
                      "       shape.a_row, 1, shape.w_row, m, m, shape.n, shape.k, m);\n}\n",
                      t, m->entry, m->entry);
}

/* ---- a run ---- */

static uint64_t random_state;
static double random_one(void) { /* -1 .. 1 */
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(int32_t)(random_state >> 32) / 2147483648.0;
}
static uint16_t bf16_of(float x) {
    uint32_t u;
    memcpy(&u, &x, 4);
    return (uint16_t)(u >> 16);
}

/* Operands into the file, and what the product is. */
static double *operands(const one *o, const made *mk, const char *path) {
    int64_t a_row = (o->k + 31) / 32 * 32;
    uint64_t w_row;
    assert_true(och_planes_row_bytes(mk->dtype, (uint64_t)o->k, &w_row));
    uint16_t *a = calloc((size_t)(o->n * a_row), 2);
    float *av = calloc((size_t)(o->n * o->k), 4), *wv = calloc((size_t)(o->m * o->k), 4), *row = calloc((size_t)o->k, 4);
    uint8_t *w = calloc((size_t)o->m, (size_t)w_row), *raw = calloc((size_t)o->k, 8);
    float *rest = calloc((size_t)(o->n + o->m + o->n * o->m), 4);
    double *want = calloc((size_t)(o->n * o->m), sizeof *want);
    random_state = 7;
    for (int64_t i = 0; i < o->n; i++)
        for (int64_t c = 0; c < a_row; c++) {
            float x = (float)random_one();
            och_err err;
            if (mk->bf16) a[i * a_row + c] = bf16_of(x);
            else assert_int_equal(och_format_encode_row(OCH_DTYPE_F16, &x, &a[i * a_row + c], 1, &err), OCH_OK);
            if (c < o->k) och_format_decode_row(mk->bf16 ? OCH_DTYPE_BF16 : OCH_DTYPE_F16, &a[i * a_row + c], &av[i * o->k + c], 1);
        }
    for (int64_t j = 0; j < o->m; j++) {
        och_err err;
        for (int64_t c = 0; c < o->k; c++) row[c] = (float)random_one();
        assert_int_equal(och_format_encode_row(mk->dtype, row, raw, (uint64_t)o->k, &err), OCH_OK);
        och_planes_pack(mk->dtype, 1, o->k, raw, w + j * (int64_t)w_row, 0, 1);
        och_planes_decode_row(mk->dtype, (uint64_t)o->k, w + j * (int64_t)w_row, wv + j * o->k);
    }
    float *scale = rest, *bias = rest + o->n, *residual = bias + o->m;
    for (int64_t i = 0; i < o->n + o->m + o->n * o->m; i++) rest[i] = (float)random_one();
    for (int64_t i = 0; i < o->n; i++)
        for (int64_t j = 0; j < o->m; j++) {
            double s = 0;
            for (int64_t c = 0; c < o->k; c++) s += (double)av[i * o->k + c] * (double)wv[j * o->k + c];
            want[i * o->m + j] = s * (double)scale[i] + (double)bias[j] + (double)residual[i * o->m + j];
        }
    const char *bm = strstr(o->spec, "BM="), *bn = strstr(o->spec, "BN=");
    int64_t rows = atoll(bm + 3), cols = atoll(bn + 3);
    int64_t shape[8] = {o->n, o->m, o->k, a_row, (int64_t)w_row, mk->s.threads, (o->n + rows - 1) / rows, (o->m + cols - 1) / cols};
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(shape, sizeof shape, 1, f);
    fwrite(a, 2, (size_t)(o->n * a_row), f);
    fwrite(w, (size_t)w_row, (size_t)o->m, f);
    fwrite(rest, 4, (size_t)(o->n + o->m + o->n * o->m), f);
    assert_int_equal(fclose(f), 0);
    free(a), free(av), free(wv), free(row), free(w), free(raw), free(rest);
    return want;
}

/* Normalised mean square error; infinite where the run found the text out. */
static double run(const one *o, const double *want, bool late_copies, bool late_products) {
    char exe[64], in[64], out[64];
    path_of("exe", exe), path_of("in", in), path_of("out", out);
    const char *argv[] = {exe, in, out, late_copies ? "1" : "0", late_products ? "1" : "0", NULL};
    och_spawn s = {.argv = argv};
    och_spawn_result r;
    och_err err = {0};
    assert_int_equal(och_spawn_run(&s, &r, &err), OCH_OK);
    int status = r.exit_status;
    assert_true(status == 0 || status == 1);
    och_spawn_result_deinit(&r);
    size_t n = (size_t)(o->n * o->m);
    float *y = calloc(n, 4);
    FILE *f = fopen(out, "rb");
    assert_non_null(f);
    assert_int_equal(fread(y, 4, n, f), n);
    fclose(f);
    double error = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)y[i] - want[i];
        error += d * d;
        all += want[i] * want[i];
    }
    free(y);
    return status || isnan(error) ? INFINITY : error / all;
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
        char in[64];
        och_strbuf text = {0};
        specialise(o, &m);
        for_host(&m, &text);
        path_of("in", in);
        if (!compile_for_host(&text)) skip();
        double *want = operands(o, &m, in);
        for (int late = 0; late < 4; late++) {
            double e = run(o, want, late & 1, late & 2);
            if (!(e <= o->bound)) fail_msg("%s, late %d: error %g, expected at most %g", o->spec, late, e, o->bound);
        }
        free(want);
        free(m.text);
        och_strbuf_deinit(&text);
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
        char in[64];
        och_strbuf text = {0}, changed = {0};
        specialise(o, &m);
        for_host(&m, &text);
        const char *p = strstr(och_strbuf_str(&text), "extern \"C\"");
        assert_non_null(p);
        och_strbuf_append(&changed, text.data, (size_t)(p - text.data));
        int n = 0;
        for (const char *at; (at = strstr(p, faults[i].word)); p = at + strlen(faults[i].word), n++) {
            och_strbuf_append(&changed, p, (size_t)(at - p));
            och_strbuf_puts(&changed, faults[i].instead);
        }
        och_strbuf_puts(&changed, p);
        if (!n) fail_msg("%s: no %s in the text", o->spec, faults[i].word);
        if (!compile_for_host(&changed)) skip();
        path_of("in", in);
        double *want = operands(o, &m, in), worst = 0;
        for (int late = 0; late < 4; late++) worst = fmax(worst, run(o, want, late & 1, late & 2));
        if (worst <= o->bound) fail_msg("%s with %s: not found out", o->spec, faults[i].instead);
        free(want);
        free(m.text);
        och_strbuf_deinit(&text);
        och_strbuf_deinit(&changed);
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
        const char *target, *spec[6];
    } plain[] = {{"sm_80", {"F=F16", "BM=128", "BN=128", "BK=64", "WAVES=8"}},  /* another target */
                 {"sm_90", {"F=F16", "BM=64", "BN=64", "BK=64", "WAVES=2"}},    /* half a group */
                 {"sm_90", {"F=BF16", "W=bf16", "BM=128", "BN=128", "BK=64", "WAVES=8"}}, /* f16 by bf16 */
                 {"sm_90", {"F=F16", "BM=32", "BN=128", "BK=64", "WAVES=4"}},   /* too few rows */
                 {"sm_90", {"F=F16", "BM=64", "BN=64", "BK=128", "WAVES=4"}}};  /* rows wider than a swizzle */
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        och_err err = {0};
        och_strbuf diag = {0};
        och_kl_unit *u;
        och_kl_code *c;
        och_kl_profile p;
        och_kl_binding b[6];
        char text[6][32];
        int n = 0;
        for (; n < 6 && plain[i].spec[n]; n++) {
            snprintf(text[n], sizeof text[n], "%s", plain[i].spec[n]);
            char *value = strchr(text[n], '=');
            *value++ = 0;
            b[n] = (och_kl_binding){text[n], value};
        }
        assert_int_equal(och_kl_parse_builtin("matmul.ok", &u, &diag, &err), OCH_OK);
        assert_int_equal(och_kl_profile_init(&p, plain[i].target, 0, &err), OCH_OK);
        assert_int_equal(och_kl_specialise(u, "matmul", b, n, &p, &c, &diag, &err), OCH_OK);
        char *t = emitted(c);
        assert_false(och_kl_code_own_target(c));
        assert_null(strstr(t, "wgmma"));
        assert_non_null(strstr(t, "mma.sync"));
        free(t);
        och_kl_code_destroy(c);
        och_kl_unit_destroy(u);
        och_strbuf_deinit(&diag);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_instruction),
        cmocka_unit_test(others_stay),
        cmocka_unit_test(products_are_right),
        cmocka_unit_test(faults_are_found),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
