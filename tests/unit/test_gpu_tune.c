/* How products with one row are cut (op/gpu/tune): measured with a clock that the test moves, kept, taken by a plan, and
 * dropped when it no longer holds. Seconds of a simulated board mean nothing; which kernel was launched how often does: each
 * launch moves the clock by what the test says that its kernel costs. Each test runs in a process of its own, since a
 * process reads kernels and packs once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/size.h"
#include "dev/trace.h"
#include "engine/session.h"
#include "file/write.h"
#include "jit/kernel.h"
#include "jit/pack.h"
#include "kl/builtin.h"
#include "op/gpu/gpu.h"
#include "op/gpu/tune_time.h"
#include "op/plan.h"
#include "quant/format.h"
#include "quant/planes.h"
#include "unit/clock_board.h"

static void drop_cache(void) {
    bool removed;
    OK(och_gpu_tune_clear(&removed, &err));
    remove_cache();
}

/* ---- products ---- */

enum { M = 96, K = 512 };

typedef struct product {
    och_op_call call;
    och_buf bufs[OCH_OP_MAX_IN + OCH_OP_MAX_OUT], scratch;
    int n_bufs;
    double expected[3 * M]; /* by loops over the decoded weights, activations as they are */
    int n_expected;
    char names[1024]; /* of the kernels of the last run */
} product;

static float random_float(void) {
    static uint64_t seed = 1;
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(seed >> 32) * 0x1p-31f;
}

static och_tensor tensor(product *p, och_dtype t, int64_t rows, int64_t cols, const void *bytes, uint64_t n_bytes) {
    och_buf *b = &p->bufs[p->n_bufs++];
    och_tensor x = {.dtype = t, .rows = rows, .cols = cols};
    OK(och_buf_alloc(device, n_bytes, OCH_MEM_DEVICE, b, &err));
    OK(device->vtable->copy_to_device(queue, b->addr, bytes, n_bytes, &err));
    OK(device->vtable->synchronise(queue, &err));
    x.addr = b->addr, x.host = b->host;
    CHECK(och_dtype_row_bytes(t, (uint64_t)cols, &x.row_bytes));
    return x;
}

static och_tensor weight(product *p, och_dtype t, const float *x, double *out_sums) {
    uint64_t row, bytes;
    float values[K];
    CHECK(och_dtype_row_bytes(t, K, &row));
    CHECK(och_gpu_weight_layout(device, t, M, K, &bytes) == OCH_LAYOUT_PLANES);
    char *native = och_malloc_array(M, row), *image = och_calloc(1, bytes);
    for (int r = 0; r < M; r++) {
        for (int j = 0; j < K; j++) values[j] = random_float();
        OK(och_format_encode_row(t, values, native + (uint64_t)r * row, K, &err));
        och_format_decode_row(t, native + (uint64_t)r * row, values, K);
        out_sums[r] = 0.0;
        for (int j = 0; j < K; j++) out_sums[r] += (double)values[j] * (double)x[j];
    }
    och_planes_pack(t, M, K, native, image, 0, M);
    och_tensor w = tensor(p, t, M, K, image, bytes);
    w.layout = OCH_LAYOUT_PLANES, w.row_bytes = 0;
    och_free(native), och_free(image);
    return w;
}

static och_tensor zeros(product *p, och_dtype t, int64_t rows, int64_t cols) {
    uint64_t row;
    CHECK(och_dtype_row_bytes(t, (uint64_t)cols, &row));
    char *bytes = och_calloc((size_t)rows, row);
    och_tensor x = tensor(p, t, rows, cols, bytes, (uint64_t)rows * row);
    och_free(bytes);
    return x;
}

static double gate(double x) { return x / (1.0 + exp(-x)); }

/* A call that asks for a cut of that kind. */
static void make(product *p, och_gpu_cut_kind kind, och_dtype f, och_dtype g) {
    och_op_call *c = &p->call;
    float x[K];
    double sums[3][M];
    uint64_t row;
    int n = kind == OCH_GPU_CUT_VEC || kind == OCH_GPU_CUT_NORMED ? 1 : kind == OCH_GPU_CUT_QKV ? 3 : 2;
    bool gated = n == 2;
    memset(p, 0, sizeof *p);
    c->op = OCH_OP_LINEAR;
    for (int i = 0; i < OCH_OP_MAX_IN; i++) c->in[i].dtype = OCH_DTYPE_NONE;
    for (int i = 0; i < OCH_OP_MAX_OUT; i++) c->out[i].dtype = OCH_DTYPE_NONE;
    for (int j = 0; j < K; j++) x[j] = 0.1f * random_float();
    c->attr.linear.n_weights = n;
    c->attr.linear.glu = gated ? OCH_ACT_SILU : OCH_ACT_NONE;
    c->in[OCH_LINEAR_X] = tensor(p, OCH_DTYPE_F32, 1, K, x, sizeof x);
    for (int i = 0; i < n; i++) {
        c->in[OCH_LINEAR_W0 + i] = weight(p, i == 2 ? g : f, x, sums[i]);
        if (!gated || !i) c->out[i] = zeros(p, OCH_DTYPE_F32, 1, M);
    }
    if (kind == OCH_GPU_CUT_CODES) {
        CHECK(och_planes_act_row_bytes(M, &row));
        c->out[OCH_LINEAR_YCODES] = zeros(p, OCH_DTYPE_U8, OCH_OP_CODES_ROWS, (int64_t)row);
    }
    if (kind == OCH_GPU_CUT_NORMED) {
        och_tensor codes;
        uint64_t squares;
        CHECK(och_op_normed_codes(M, &codes, &squares));
        c->out[OCH_LINEAR_YCODES] = zeros(p, OCH_DTYPE_U8, 1, codes.cols);
        c->in[OCH_LINEAR_YNORM] = zeros(p, OCH_DTYPE_F32, 1, M);
    }
    for (int i = 0; i < (gated ? 1 : n); i++)
        for (int r = 0; r < M; r++) p->expected[p->n_expected++] = gated ? gate(sums[0][r]) * sums[1][r] : sums[i][r];
    OK(och_buf_alloc(device, OCH_MAX(och_gpu_linear_scratch(device, c), 256), OCH_MEM_DEVICE, &p->scratch, &err));
}
static void drop(product *p) {
    for (int i = 0; i < p->n_bufs; i++) och_buf_free(&p->bufs[i]);
    och_buf_free(&p->scratch);
}
static och_op_ctx context(const product *p) {
    return (och_op_ctx){.queue = queue, .scratch = p->scratch.host, .scratch_addr = p->scratch.addr,
                        .scratch_bytes = p->scratch.size_bytes};
}

static double apart(const float *y, const product *p) {
    double error = 0.0, all = 0.0;
    for (int i = 0; i < p->n_expected; i++) {
        error += ((double)y[i] - p->expected[i]) * ((double)y[i] - p->expected[i]);
        all += p->expected[i] * p->expected[i];
    }
    return error / all;
}

static void read_results(product *p, float *out) {
    const och_tensor *codes = och_op_codes(och_op_ycodes(&p->call), 1);
    char row[4 * M];
    if (codes) {
        OK(device->vtable->copy_to_host(queue, row, codes->addr, codes->row_bytes, &err));
        OK(device->vtable->synchronise(queue, &err));
        och_planes_act_decode_row(row, M, out);
        return;
    }
    for (int i = 0; i * M < p->n_expected; i++)
        OK(device->vtable->copy_to_host(queue, out + (size_t)i * M, p->call.out[i].addr, M * 4, &err));
    OK(device->vtable->synchronise(queue, &err));
}

/* The results, and the names of what was launched. */
static void run(product *p, float *out) {
    och_op_ctx ctx = context(p);
    och_trace_names(p->names, sizeof p->names);
    OK(och_gpu_linear_run(&ctx, &p->call, &err));
    och_trace_names(NULL, 0);
    read_results(p, out);
    if (!(apart(out, p) < 1e-3)) fprintf(stderr, "%s: apart by %g\n", p->names, apart(out, p)), _exit(1); /* of codes of 8 bits */
}

static double differ(const float *a, const float *b, int n) {
    double error = 0.0, all = 0.0;
    for (int i = 0; i < n; i++) {
        error += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        all += (double)a[i] * (double)a[i];
    }
    return error / all;
}

/* "ROWS=2,U=2," as kernels' names have it. */
static const char *in_name(const char *cut) {
    static char text[64];
    size_t n = 0;
    text[n++] = '_';
    for (const char *c = cut; *c && n + 1 < sizeof text; c++) text[n++] = *c == '=' || *c == ',' ? '_' : *c;
    text[n - 1] = 0;
    return text;
}


static void puts_cut(const product *p, och_gpu_cut_kind kind, och_dtype g, const char *cut) {
    const och_tensor *w = &p->call.in[OCH_LINEAR_W0];
    och_gpu_cut_time t = {.shape = {kind, w->dtype, g, kind == OCH_GPU_CUT_QKV ? 3 * M : M, K}, .present_us = 2, .cut_us = 1};
    snprintf(t.cut, sizeof t.cut, "%s", cut);
    OK(och_gpu_tune_put(&device->info, &(och_gpu_cut_times){&t, 1, 1}, &err));
}

/* ---- from the clock to the plan ---- */

/* Measured, kept, taken, in a graph too, and forgotten. */
static void found_kept_taken(const char *board, och_gpu_cut_kind kind, och_dtype f, och_dtype g, const char *cut, double present_us) {
    product p;
    och_gpu_cut_times times = {0}, again = {0};
    float before[3 * M], after[3 * M];
    bool removed;
    uint64_t bytes, count, bytes_before, count_before;
    own_cache();
    if (kind == OCH_GPU_CUT_CODES) CHECK(och_env_set("OCHRE_NEXT_CODES", "1")); /* of so small a product too */
    if (kind == OCH_GPU_CUT_NORMED) CHECK(och_env_set("OCHRE_NORM_CODES", "1"));
    open_board(board);
    make(&p, kind, f, g);
    run(&p, before);
    const char *part = in_name(cut);
    CHECK(!strstr(p.names, part));
    clock_.fast = part, clock_.fast_us = 500;
    och_buf_live(&bytes_before, &count_before);
    OK(och_gpu_tune(queue, &p.call, &options, &times, &err));
    och_buf_live(&bytes, &count);
    CHECK(bytes == bytes_before && count == count_before);
    CHECK(times.n == 1 && !strcmp(times.at[0].cut, cut));
    const och_gpu_cut_shape *s = &times.at[0].shape;
    CHECK(s->kind == kind && s->f == f && s->g == g && s->m == (kind == OCH_GPU_CUT_QKV ? 3 * M : M) && s->k == K);
    CHECK(fabs(times.at[0].present_us - present_us) < 1e-3 && fabs(times.at[0].cut_us - (present_us - 500)) < 1e-3); /* of one run */
    CHECK(clock_.n_replays > 0 || !device->info.graphs);
    CHECK(clock_.n_args == options.most_copies); /* of the weights, and nothing else changes */
    for (size_t i = 0; i < OCH_COUNT(clock_.graphs); i++) CHECK(!clock_.graphs[i].graph);
    int readings = clock_.n_readings; /* what was measured is not measured again */
    OK(och_gpu_tune(queue, &p.call, &options, &times, &err));
    CHECK(times.n == 1 && clock_.n_readings == readings);
    run(&p, after); /* nothing was stored */
    CHECK(!strstr(p.names, part));
    OK(och_gpu_tune_put(&device->info, &times, &err));
    run(&p, after); /* and a plan goes on as it has begun */
    CHECK(!strstr(p.names, part));
    och_gpu_tune_forget(device);
    OK(och_gpu_linear_supports(device, &p.call, &err));
    uint64_t begun = och_gpu_kernels_begun();
    run(&p, after);
    CHECK(strstr(p.names, part) && och_gpu_kernels_begun() == begun); /* the plan asked for it */
    CHECK(differ(before, after, p.n_expected) <= (kind == OCH_GPU_CUT_CODES ? 1e-4 : 1e-6));
    och_gpu_kernels_wait(device); /* the plan asks for more than a run waits for, and a kernel in the making holds memory */
    int64_t live = och_alloc_live();
    OK(och_gpu_tune(queue, &p.call, &options, &again, &err)); /* measured against what is without it */
    CHECK(again.n == 1 && !strcmp(again.at[0].cut, cut) && fabs(again.at[0].present_us - present_us) < 1e-3);
    och_gpu_cut_times_deinit(&again);
    CHECK(och_alloc_live() == live && och_gpu_kernels_begun() == begun);
    och_op_ctx ctx = context(&p);
    och_graph *graph;
    OK(device->vtable->capture_begin(queue, &err));
    och_trace_names(p.names, sizeof p.names);
    OK(och_gpu_linear_run(&ctx, &p.call, &err));
    och_trace_names(NULL, 0);
    OK(device->vtable->capture_end(queue, &graph, &err));
    CHECK(strstr(p.names, part));
    OK(device->vtable->graph_replay(queue, graph, &err));
    float replayed[3 * M];
    read_results(&p, replayed);
    CHECK(!memcmp(after, replayed, (size_t)p.n_expected * sizeof *after));
    OK(device->vtable->graph_destroy(graph, &err));
    if (kind != OCH_GPU_CUT_CODES && kind != OCH_GPU_CUT_NORMED) { /* whose sums have one order whatever the cut */
        ctx.batch_invariant = true;
        och_trace_names(p.names, sizeof p.names);
        OK(och_gpu_linear_run(&ctx, &p.call, &err));
        och_trace_names(NULL, 0);
        CHECK(!strstr(p.names, part));
    }
    OK(och_gpu_tune_clear(&removed, &err));
    CHECK(removed);
    och_gpu_tune_forget(device);
    run(&p, after);
    CHECK(!strstr(p.names, part) && !memcmp(before, after, (size_t)p.n_expected * sizeof *after));
    och_gpu_cut_times_deinit(&times);
    drop(&p);
    close_board();
    drop_cache();
}
TEST(one_matrix) { found_kept_taken("sim:gfx1151", OCH_GPU_CUT_VEC, OCH_DTYPE_Q8_0, OCH_DTYPE_Q8_0, "ROWS=2,U=2,", 2000); }
TEST(one_matrix_discrete) { found_kept_taken("sim:gfx942", OCH_GPU_CUT_VEC, OCH_DTYPE_Q4_K, OCH_DTYPE_Q4_K, "EARLY=2,", 2000); }
TEST(q_k_v) { found_kept_taken("sim:gfx1151", OCH_GPU_CUT_QKV, OCH_DTYPE_Q4_K, OCH_DTYPE_Q6_K, "ROWS=2,U=2,", 2000); }
TEST(gate_and_up) { found_kept_taken("sim:gfx1151", OCH_GPU_CUT_GLU, OCH_DTYPE_F16, OCH_DTYPE_F16, "U=2,", 1000); }
TEST(gate_and_up_to_codes) { found_kept_taken("sim:gfx1151", OCH_GPU_CUT_CODES, OCH_DTYPE_Q4_K, OCH_DTYPE_Q4_K, "WAVES=16,", 2000); }
TEST(one_matrix_through_a_norm) {
    found_kept_taken("sim:gfx942", OCH_GPU_CUT_NORMED, OCH_DTYPE_Q4_K, OCH_DTYPE_Q4_K, "EARLY=1,WAVES=4,", 2000);
}

/* A plan's record: its memo is made with the stored cut. */
TEST(a_plan_takes_it) {
    product p;
    own_cache();
    open_board("sim:gfx1151");
    make(&p, OCH_GPU_CUT_VEC, OCH_DTYPE_F16, OCH_DTYPE_F16);
    puts_cut(&p, OCH_GPU_CUT_VEC, OCH_DTYPE_F16, "ROWS=4,");
    och_plan plan;
    och_plan_init(&plan);
    och_plan_ref x = och_plan_add_bound(&plan, OCH_PLAN_INPUT, OCH_ROWS_FIXED, &p.call.in[OCH_LINEAR_X], "x");
    och_plan_ref w = och_plan_add_bound(&plan, OCH_PLAN_WEIGHT, OCH_ROWS_FIXED, &p.call.in[OCH_LINEAR_W0], "w");
    och_plan_ref y = och_plan_add_bound(&plan, OCH_PLAN_OUTPUT, OCH_ROWS_FIXED, &p.call.out[0], "y");
    och_plan_op *o = och_plan_add_op(&plan, OCH_OP_LINEAR);
    CHECK(o);
    o->in[OCH_LINEAR_X] = x, o->in[OCH_LINEAR_W0] = w, o->out[0] = y;
    o->attr.attr.linear.n_weights = 1;
    OK(och_plan_select(&plan, device, NULL, (och_plan_extent){1, 1, 1}, &err));
    och_op_ctx ctx = context(&p);
    for (int i = 0; i < 2; i++) {
        och_op_call call;
        float out[M];
        OK(device->vtable->fill(queue, p.call.out[0].addr, 0xff, sizeof out, &err));
        och_plan_call(&plan, NULL, 0, (och_plan_extent){1, 1, 1}, (och_dev_addr){0}, NULL, &call);
        och_trace_names(p.names, sizeof p.names);
        OK(och_plan_run(&plan, 0, &ctx, &call, &err));
        och_trace_names(NULL, 0);
        CHECK(strstr(p.names, "_ROWS_4_") && !strchr(p.names, ' '));
        read_results(&p, out);
        CHECK(apart(out, &p) < 1e-6);
    }
    och_plan_deinit(&plan);
    drop(&p);
    close_board();
    drop_cache();
}

/* Of one row whole: its products are cut as those without the rest, where they would go by way of LDS too. */
TEST(a_row_whole_takes_it) {
    static const char *const asked[] = {"OCHRE_ONE_ROW", "OCHRE_RING"};
    for (size_t i = 0; i < OCH_COUNT(asked); i++) CHECK(och_env_set(asked[i], "1"));
    CHECK(och_env_set("OCHRE_KERNEL_CHECK", "0"));
    own_cache();
    open_board("sim:gfx1151");
    const och_model_options mo = {0};
    const och_session_options so = {.max_sequences = 1, .max_context = 64, .max_step_tokens = 8, .max_logits = 1, .graphs = OCH_GRAPHS_OFF};
    static const char *const names[] = {"matvec_qkv_ring", "matvec_qkv_post"};
    static float first[1024];
    och_model *model;
    OK(och_model_open_synthetic("tiny-wide", OCH_DTYPE_Q8_0, device, &mo, &model, &err));
    int n = model->config.n_vocab;
    CHECK(n <= (int)OCH_COUNT(first));
    for (int kept = 0; kept < 2; kept++) {
        static char launched[8192];
        och_session *s;
        int32_t id, token = 7;
        size_t rows;
        if (kept) {
            const och_gpu_cut_time t = {.shape = {OCH_GPU_CUT_QKV, OCH_DTYPE_Q8_0, OCH_DTYPE_Q8_0, 1024 + 2 * 256, 1024}, .cut = "ROWS=2,U=2,",
                                        .present_us = 2, .cut_us = 1};
            OK(och_gpu_tune_put(&device->info, &(och_gpu_cut_times){(och_gpu_cut_time *)&t, 1, 1}, &err));
            och_gpu_tune_forget(device);
        }
        OK(och_session_create(model, &so, &s, &err));
        OK(och_session_sequence_create(s, &id, &err));
        const och_span span = {id, &token, 1, 1};
        uint64_t begun = och_gpu_kernels_begun();
        och_trace_names(launched, sizeof launched);
        OK(och_session_step(s, &span, 1, &err));
        och_trace_names(NULL, 0);
        CHECK(och_gpu_kernels_begun() == begun);
        const char *at = strstr(launched, names[kept]);
        CHECK(at && !strstr(launched, names[!kept]));
        if (kept) CHECK(strstr(at, "_ROWS_2_U_2_"));
        const float *x = och_session_logits(s, &rows);
        CHECK(rows == 1 && (kept || memcpy(first, x, (size_t)n * sizeof *x)));
        CHECK(differ(first, x, n) < 1e-4); /* a sum that differs in its last bits may be rounded to the next code */
        och_session_destroy(s);
    }
    och_model_close(model);
    close_board();
    drop_cache();
    for (size_t i = 0; i < OCH_COUNT(asked); i++) CHECK(och_env_set(asked[i], NULL));
}

/* ---- what is no winner ---- */

static och_gpu_cut_time measured(product *p) {
    och_gpu_cut_times times = {0};
    OK(och_gpu_tune(queue, &p->call, &options, &times, &err));
    CHECK(times.n == 1);
    och_gpu_cut_time t = times.at[0];
    och_gpu_cut_times_deinit(&times);
    return t;
}

TEST(no_winner) {
    product p;
    own_cache();
    open_board("sim:gfx1151");
    make(&p, OCH_GPU_CUT_VEC, OCH_DTYPE_Q8_0, OCH_DTYPE_Q8_0);
    CHECK(!*measured(&p).cut); /* all cost the same */
    int n = 0; /* of the list, of which the first row is the present choice and no further way */
    while (och_gpu_cut_at(OCH_GPU_CUT_VEC, (size_t)n)) n++;
    CHECK(clock_.n_readings == 2 * (2 + n * (1 + 9))); /* two runs that count, then a warm one and nine rounds of each */
    clock_.fast = "_ROWS_1_U_1_C_0_WAVES_4_PER_4_EARLY_0_OCC_4", clock_.fast_us = 500;
    och_gpu_cut_time t = measured(&p); /* the present choice, said otherwise, is no other */
    CHECK(!*t.cut && fabs(t.present_us - 1500) < 1e-3);
    clock_.fast = "_ROWS_2_U_2_";
    CHECK(!strcmp(measured(&p).cut, "ROWS=2,U=2,"));
    clock_.jitter_us = 1600; /* 800 a run, of two in a round */
    CHECK(!*measured(&p).cut);
    clock_.jitter_us = 0;
    clock_.fast_us = 990; /* half of a hundredth of both launches */
    CHECK(!*measured(&p).cut);
    clock_.fast_us = 500;
    clock_.n_fast = 0, clock_.n_fast_until = 23; /* lucky while all take turns */
    CHECK(!*measured(&p).cut && clock_.n_fast > 23);
    clock_.n_fast_until = 0;
    clock_.skips = true; /* nothing is as fast as a kernel that computes nothing */
    t = measured(&p);
    CHECK(!*t.cut && fabs(t.cut_us - 2000) < 1e-3);
    drop(&p);
    close_board();
    drop_cache();
}

TEST(stopped) {
    product p;
    och_gpu_cut_times times = {0};
    uint64_t bytes, count, bytes_before, count_before;
    own_cache();
    open_board("sim:gfx1151");
    make(&p, OCH_GPU_CUT_VEC, OCH_DTYPE_Q8_0, OCH_DTYPE_Q8_0);
    och_buf_live(&bytes_before, &count_before);
    for (int after = 0; after < 22; after += 3) {
        stop_after = after;
        FAILS(OCH_CANCELLED, och_gpu_tune(queue, &p.call, &options, &times, &err));
        CHECK(!times.n && stop_after == -1);
        och_buf_live(&bytes, &count);
        CHECK(bytes == bytes_before && count == count_before);
        for (size_t i = 0; i < OCH_COUNT(clock_.graphs); i++) CHECK(!clock_.graphs[i].graph);
    }
    /* the host's clock says nothing of a simulated device */
    FAILS(OCH_UNSUPPORTED, och_gpu_tune(queue, &p.call, &(och_gpu_tune_options){0}, &times, &err));
    says("seconds of a simulated device");
    p.call.in[OCH_LINEAR_X].rows = 2;
    FAILS(OCH_INVALID, och_gpu_tune(queue, &p.call, &options, &times, &err));
    drop(&p);
    close_board();
    drop_cache();
}

/* One refused allocation after another, in measuring, keeping and looking up: told, or without consequence, and nothing is left. */
TEST(no_memory) {
    product p;
    float y[M];
    own_cache();
    open_board("sim:gfx1151");
    make(&p, OCH_GPU_CUT_VEC, OCH_DTYPE_F16, OCH_DTYPE_F16);
    clock_.fast = "_ROWS_2_U_2_", clock_.fast_us = 500;
    CHECK(!strcmp(measured(&p).cut, "ROWS=2,U=2,")); /* all kernels are loaded */
    puts_cut(&p, OCH_GPU_CUT_VEC, OCH_DTYPE_F16, "U=2,");
    och_gpu_kernels_wait(device); /* those that no run waits for */
    uint64_t begun = och_gpu_kernels_begun();
    int n_refused = 0;
    bool refused = true;
    for (uint64_t n = 1, count; refused; n += n < 40 ? 1 : 4) {
        och_gpu_cut_times times = {0};
        uint64_t bytes, buffers, bytes_before, buffers_before;
        size_t stale;
        och_gpu_tune_forget(device);
        och_buf_live(&bytes_before, &buffers_before);
        int64_t live = och_alloc_live();
        och_err_clear(&err);
        och_alloc_fail_at(n);
        och_status st = och_gpu_tune(queue, &p.call, &options, &times, &err);
        count = och_alloc_count();
        if (st == OCH_OK) {
            st = och_gpu_tune_put(&device->info, &times, &err);
            count = och_alloc_count();
        }
        och_gpu_cut_times_deinit(&times);
        if (st == OCH_OK) {
            st = och_gpu_tune_find(&device->info, &times, &stale, &err);
            count = och_alloc_count();
        }
        och_alloc_fail_at(0);
        refused = count >= n;
        CHECK(st == OCH_OK || (st == OCH_NOMEM && err.message[0]));
        n_refused += st == OCH_NOMEM;
        och_gpu_cut_times_deinit(&times);
        och_gpu_tune_forget(device);
        och_buf_live(&bytes, &buffers);
        CHECK(bytes == bytes_before && buffers == buffers_before);
        CHECK(och_alloc_live() == live && och_gpu_kernels_begun() == begun);
        for (size_t i = 0; i < OCH_COUNT(clock_.graphs); i++) CHECK(!clock_.graphs[i].graph);
        run(&p, y); /* no trial goes on, and the file is whole */
        CHECK(strstr(p.names, "_ROWS_1_U_2_") || strstr(p.names, "_ROWS_2_U_2_"));
    }
    CHECK(n_refused > 20);
    drop(&p);
    close_board();
    drop_cache();
}

/* ---- what holds no longer ---- */

/* In a process that has read no kernel yet. */
static void aside(void (*fn)(void)) { CHECK(ends_in_child(fn)); }

static const char *wanted; /* part of a kernel's name, or what is not to be there, behind '!' */
static void keeps(void) {
    product p;
    open_board("sim:gfx1151");
    make(&p, OCH_GPU_CUT_VEC, OCH_DTYPE_F16, OCH_DTYPE_F16);
    puts_cut(&p, OCH_GPU_CUT_VEC, OCH_DTYPE_F16, "ROWS=4,");
}
static void takes(void) {
    product p;
    float y[M];
    och_gpu_cut_times times;
    size_t stale;
    open_board("sim:gfx1151");
    make(&p, OCH_GPU_CUT_VEC, OCH_DTYPE_F16, OCH_DTYPE_F16);
    run(&p, y);
    CHECK(*wanted == '!' ? !strstr(p.names, wanted + 1) : strstr(p.names, wanted) != NULL);
    OK(och_gpu_tune_find(&device->info, &times, &stale, &err));
    CHECK(times.n == (*wanted != '!') && stale == (*wanted == '!'));
}

TEST(another_text) {
    och_kl_builtins *b;
    char dir[512], path[600];
    const char *text;
    size_t n;
    own_cache();
    aside(keeps);
    wanted = "_ROWS_4_";
    aside(takes);
    OK(och_kl_builtins_open(&b, &err));
    CHECK(och_kl_builtins_find(b, "formats.ok", &text, &n)); /* that linear.ok uses */
    char *longer = och_malloc_array(n + 16, 1);
    int size = snprintf(longer, n + 16, "%.*s// changed\n", (int)n, text);
    snprintf(dir, sizeof dir, "%s.kernels", cache);
    snprintf(path, sizeof path, "%s/formats.ok", dir);
    CHECK(!mkdir(dir, 0777));
    OK(och_write_file(path, longer, (size_t)size, &err));
    och_free(longer);
    och_kl_builtins_close(b);
    CHECK(och_env_set("OCHRE_KERNELS_DIR", dir));
    wanted = "!_ROWS_4_";
    aside(takes);
    CHECK(och_env_set("OCHRE_KERNELS_DIR", NULL));
    wanted = "_ROWS_4_";
    aside(takes);
    CHECK(!unlink(path) && !rmdir(dir));
    drop_cache();
}

/* Of floats, which no other kernel prepares. */
static const struct {
    och_gpu_cut_kind kind;
    och_kl_binding bindings[3];
    const char *cut, *plain;
} packed[] = {{OCH_GPU_CUT_VEC, {{"F", "F32"}, {"B", "1"}}, "ROWS=4,", "matvec_F_F32_B_1_ROWS_1_U_1_"},
              {OCH_GPU_CUT_QKV, {{"F", "F32"}, {"G", "F32"}}, "ROWS=2,", "matvec_qkv_F_F32_G_F32_ROWS_1_U_1_"},
              {OCH_GPU_CUT_GLU, {{"F", "F32"}, {"B", "1"}, {"ACT", "1"}}, "U=2,", "matvec_glu_F_F32_ACT_1_B_1_U_1_"}};

/* And of codes, whose weights are asked for ahead of them where products may make their own. */
static const och_kl_binding ahead[] = {{"EARLY", "1"}, {"F", "Q8_0"}, {"B", "1"}};

static void make_pack(const char *path) {
    static och_jit_kernel kernel;
    och_strbuf diag = {0};
    och_kl_profile profile;
    och_kl_unit *u;
    och_jit *jit;
    och_jit_artifact *a;
    och_pack_writer *w;
    OK(och_kl_profile_init(&profile, "gfx1151", 0, &err));
    OK(och_kl_parse_builtin("linear.ok", &u, &diag, &err));
    OK(och_jit_create(&(och_jit_options){.only_these_packs = true}, &jit, &err));
    OK(och_pack_writer_create(&w, &err));
    for (size_t i = 0; i < OCH_COUNT(packed) + 2; i++) {
        bool own = i < OCH_COUNT(packed);
        const och_kl_binding *bindings = own ? packed[i].bindings : ahead;
        int n = i == OCH_COUNT(packed) || (own && packed[i].bindings[2].name) ? 3 : 2;
        if (i > OCH_COUNT(packed)) bindings = ahead + 1; /* the plain way, which is not wanted */
        const char *name = own ? och_gpu_cut_kernel(packed[i].kind) : "matvec";
        OK(och_jit_kernel_init(&kernel, u, name, bindings, n, &profile, &diag, &err));
        OK(och_jit_get(jit, &kernel.request, &a, &diag, &err));
        OK(och_pack_writer_add(w, &kernel.request, a, &err));
        och_jit_artifact_destroy(a);
        och_jit_kernel_deinit(&kernel);
    }
    OK(och_pack_writer_write(w, path, &err));
    och_pack_writer_destroy(w);
    och_jit_destroy(jit);
    och_kl_unit_destroy(u);
    och_strbuf_deinit(&diag);
}

static void as_without(void) {
    product p;
    float y[M];
    uint64_t row;
    CHECK(och_env_set("OCHRE_OWN_CODES", "1"));
    open_board("sim:gfx1151");
    make(&p, OCH_GPU_CUT_VEC, OCH_DTYPE_Q8_0, OCH_DTYPE_Q8_0);
    CHECK(och_planes_act_row_bytes(K, &row));
    p.call.in[OCH_LINEAR_XCODES] = zeros(&p, OCH_DTYPE_U8, OCH_OP_CODES_ROWS, (int64_t)row);
    puts_cut(&p, OCH_GPU_CUT_VEC, OCH_DTYPE_Q8_0, "ROWS=4,");
    och_op_ctx ctx = context(&p);
    och_trace_names(p.names, sizeof p.names);
    OK(och_gpu_linear_run(&ctx, &p.call, &err));
    och_trace_names(NULL, 0);
    read_results(&p, y);
    CHECK(!strcmp(och_gpu_tune_cut(device, OCH_GPU_CUT_VEC, &p.call.in[OCH_LINEAR_W0], ""), "ROWS=4,"));
    CHECK(strstr(p.names, "matvec_F_Q8_0_") == p.names && strstr(p.names, "_EARLY_1_"));
    drop(&p);
    close_board();
}

/* A pack has the kernels' own way, and nothing makes the stored one: a product is as it would be without. */
TEST(not_to_be_had) {
    char pack[512], link[512];
    own_cache();
    snprintf(pack, sizeof pack, "%s.okpack", cache);
    make_pack(pack);
    snprintf(link, sizeof link, "%s/v1", cache);
    CHECK(!unlink(link));
    CHECK(och_env_set("OCHRE_PACK", pack) && och_env_set("OCHRE_JIT_COMPILER", "/nonexistent/clang"));
    aside(as_without);
    open_board("sim:gfx1151");
    for (size_t i = 0; i < OCH_COUNT(packed); i++) {
        product p;
        float y[3 * M];
        make(&p, packed[i].kind, OCH_DTYPE_F32, OCH_DTYPE_F32);
        puts_cut(&p, packed[i].kind, OCH_DTYPE_F32, packed[i].cut);
        och_gpu_tune_forget(device);
        const char *taken = och_gpu_tune_cut(device, packed[i].kind, &p.call.in[OCH_LINEAR_W0], "");
        CHECK(!strcmp(taken, packed[i].cut)); /* it is what is asked for first */
        run(&p, y);
        CHECK(strstr(p.names, packed[i].plain) == p.names && !strchr(p.names, ' '));
        drop(&p);
    }
    close_board();
    unlink(pack);
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", cache);
    CHECK(!system(command));
}

/* ---- the store ---- */

TEST(records_are_kept) {
    own_cache();
    och_dev_info info = {.name = "a \"board\"", .arch = "gfx1151", .runtime = "HIP 7.0"}, other = info;
    och_gpu_cut_time t[] = {{{OCH_GPU_CUT_VEC, OCH_DTYPE_Q4_K, OCH_DTYPE_Q4_K, 4096, 2048}, "ROWS=2,", 10.5, 8.25},
                            {{OCH_GPU_CUT_QKV, OCH_DTYPE_Q4_K, OCH_DTYPE_Q6_K, 6144, 2048}, "", 4, 4}};
    och_gpu_cut_times put = {t, 2, 2}, got;
    och_gpu_cut_records all;
    size_t stale;
    bool removed;
    OK(och_gpu_tune_find(&info, &got, &stale, &err));
    CHECK(!got.n && !stale);
    OK(och_gpu_tune_put(&info, &put, &err));
    OK(och_gpu_tune_find(&info, &got, &stale, &err));
    CHECK(got.n == 2 && !stale);
    const och_gpu_cut_time *one = och_gpu_cut_times_find(&got, &t[0].shape);
    CHECK(one && !strcmp(one->cut, "ROWS=2,") && one->present_us == 10.5 && one->cut_us == 8.25);
    one = och_gpu_cut_times_find(&got, &t[1].shape);
    CHECK(one && !*one->cut);
    och_gpu_cut_shape s = t[0].shape;
    for (int i = 0; i < 5; i++) { /* each part of a shape counts */
        och_gpu_cut_shape u = s;
        if (i == 0) u.kind = OCH_GPU_CUT_GLU;
        if (i == 1) u.f = OCH_DTYPE_Q8_0;
        if (i == 2) u.g = OCH_DTYPE_Q8_0;
        if (i == 3) u.m = 2048;
        if (i == 4) u.k = 4096;
        CHECK(!och_gpu_cut_times_find(&got, &u));
    }
    och_gpu_cut_times_deinit(&got);
    /* the same shape again takes its place, another joins */
    t[1].shape.m = 4096;
    snprintf(t[0].cut, sizeof t[0].cut, "U=2,");
    OK(och_gpu_tune_put(&info, &put, &err));
    OK(och_gpu_tune_find(&info, &got, &stale, &err));
    CHECK(got.n == 3 && !strcmp(och_gpu_cut_times_find(&got, &s)->cut, "U=2,"));
    och_gpu_cut_times_deinit(&got);
    /* another device stays beside it; another driver, once measured, takes its place */
    snprintf(other.name, sizeof other.name, "another");
    OK(och_gpu_tune_put(&other, &put, &err));
    other = info;
    snprintf(other.runtime, sizeof other.runtime, "HIP 7.1");
    OK(och_gpu_tune_find(&other, &got, &stale, &err));
    CHECK(!got.n && stale == 3);
    OK(och_gpu_tune_put(&other, &put, &err));
    OK(och_gpu_tune_read(&all, &err));
    CHECK(all.n == 4);
    och_gpu_cut_records_deinit(&all);
    /* what the list does not have goes into no kernel's name */
    snprintf(t[0].cut, sizeof t[0].cut, "ROWS=3,");
    OK(och_gpu_tune_put(&other, &put, &err));
    OK(och_gpu_tune_find(&other, &got, &stale, &err));
    CHECK(got.n == 1 && stale == 1);
    och_gpu_cut_times_deinit(&got);
    OK(och_gpu_tune_clear(&removed, &err));
    CHECK(removed);
    OK(och_gpu_tune_clear(&removed, &err));
    CHECK(!removed);
    drop_cache();
}

TEST(a_broken_file) {
#define RECORD(kernel, dtype, m, us)                                                                                           \
    "{\"format\": 1, \"cuts\": [{\"device\": \"d\", \"arch\": \"a\", \"driver\": \"d\", \"source\": \"s\", \"kernel\": \"" kernel      \
    "\", \"dtype\": \"" dtype "\", \"dtype_v\": \"F16\", \"cut\": \"U=2,\", \"m\": " m ", \"k\": 1, \"present_us\": 1, \"cut_us\": " us "}]}"
    static const char *const texts[] = {"", "{", "{\"format\": 2, \"cuts\": []}", "{\"format\": 1}", "{\"format\": 1, \"cuts\": [{}]}",
                                        RECORD("matmul", "F16", "1", "1"), RECORD("matvec", "Q9", "1", "1"),
                                        RECORD("matvec", "F16", "0", "1"), RECORD("matvec", "F16", "1", "-1")};
    product p;
    char path[512];
    float y[M];
    och_gpu_cut_times times;
    size_t stale;
    own_cache();
    snprintf(path, sizeof path, "%s/cuts.json", cache);
    OK(och_write_file(path, RECORD("matvec", "F16", "1", "1"), strlen(RECORD("matvec", "F16", "1", "1")), &err));
    och_gpu_cut_records all;
    OK(och_gpu_tune_read(&all, &err)); /* so it is the one thing each time */
    CHECK(all.n == 1);
    och_gpu_cut_records_deinit(&all);
    open_board("sim:gfx1151");
    make(&p, OCH_GPU_CUT_VEC, OCH_DTYPE_F16, OCH_DTYPE_F16);
    for (size_t i = 0; i < OCH_COUNT(texts); i++) {
        OK(och_write_file(path, texts[i], strlen(texts[i]), &err));
        FAILS(OCH_CORRUPT, och_gpu_tune_find(&device->info, &times, &stale, &err));
        says("cuts.json");
        och_gpu_tune_forget(device);
        run(&p, y); /* with a warning */
        CHECK(strstr(p.names, "_ROWS_1_U_1_"));
    }
    puts_cut(&p, OCH_GPU_CUT_VEC, OCH_DTYPE_F16, "U=4,"); /* written anew */
    och_gpu_tune_forget(device);
    run(&p, y);
    CHECK(strstr(p.names, "_ROWS_1_U_4_"));
    drop(&p);
    close_board();
    drop_cache();
}

/* Each row of the list can be made, for formats of codes and of halves, and is no row twice. */
TEST(the_list) {
    own_cache();
    open_board("sim:gfx1151");
    for (int kind = 0; kind < OCH_GPU_CUT_KINDS; kind++) {
        const char *cut;
        size_t n = 0;
        for (; (cut = och_gpu_cut_at((och_gpu_cut_kind)kind, n)); n++) {
            CHECK(strlen(cut) < OCH_GPU_CUT_BYTES && cut[strlen(cut) - 1] == ',');
            for (size_t i = 0; i < n; i++) CHECK(strcmp(cut, och_gpu_cut_at((och_gpu_cut_kind)kind, i)) != 0);
            for (int q = 0; q < 2; q++) {
                bool one = kind == OCH_GPU_CUT_VEC || kind == OCH_GPU_CUT_NORMED, codes = kind == OCH_GPU_CUT_CODES || kind == OCH_GPU_CUT_NORMED;
                const char *more = kind == OCH_GPU_CUT_QKV ? q ? ",G=Q6_K" : ",G=F16" : one ? "" : ",ACT=1";
                if (codes && !q) continue; /* of halves there are none */
                OK(och_gpu_kernel_get(device, och_gpu_cut_kernel((och_gpu_cut_kind)kind), NULL, &err, "%sF=%s%s", cut, q ? "Q4_K" : "F16",
                                      more));
            }
        }
        CHECK(n > 4 && n < 24);
    }
    close_board();
    drop_cache();
}

int main(void) {
    setenv("OCHRE_SIM_LIBRARY", OCHRE_BUILD_DIR "/sim/libamdhip64.so", 0);
    (void)och_env_set("OCHRE_PACK", NULL);
    (void)och_env_set("OCHRE_KERNELS_DIR", NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_kept), cmocka_unit_test(the_list),    cmocka_unit_test(one_matrix),
        cmocka_unit_test(one_matrix_discrete), cmocka_unit_test(q_k_v),    cmocka_unit_test(gate_and_up),
        cmocka_unit_test(gate_and_up_to_codes), cmocka_unit_test(one_matrix_through_a_norm), cmocka_unit_test(a_plan_takes_it), cmocka_unit_test(a_row_whole_takes_it),
        cmocka_unit_test(no_winner),
        cmocka_unit_test(stopped),          cmocka_unit_test(no_memory),   cmocka_unit_test(another_text), cmocka_unit_test(not_to_be_had),
        cmocka_unit_test(a_broken_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
