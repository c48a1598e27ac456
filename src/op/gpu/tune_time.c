/* The cuts of a product, in turns. */
#include "op/gpu/tune_time.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/size.h"
#include "base/thread.h"
#include "dev/trace.h"
#include "op/gpu/gpu.h"
#include "quant/format.h"
#include "quant/planes.h"
#include "target/target.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 9, MOST_CUTS = 24, MOST_COPIES = 512, MOST_RUNS = 512, DISTINCT_ROWS = 61, NAMES_BYTES = 1024 };
#define ROUND_SECONDS 0.003
#define LEAST_GAIN 0.01 /* less is not worth another kernel */
#define BOUND 1e-6      /* of the mean square error between two orders of float32 sums, over the mean square */
#define CODES_BOUND 1e-4 /* a sum that differs in its last bits may be rounded to the next code */

typedef struct candidate {
    const char *cut; /* NULL: the present choice */
    char names[NAMES_BYTES]; /* of the kernels that it launches */
    double seconds[ROUNDS];
    och_graph *graph;
} candidate;

typedef struct bench {
    och_queue *q;
    const och_gpu_tune_options *o;
    och_op_call call;
    och_op_ctx ctx;
    och_buf data, weights, scratch;
    uint64_t w_at[OCH_LINEAR_MAX_WEIGHTS], w_bytes; /* in a copy of the weights, and of one */
    int n_copies, n_runs, next;
    och_gpu_cut_trial trial;
    float *expected, *found; /* owned: results of the present choice, of another */
    candidate c[MOST_CUTS];
    int n;
} bench;

static double now(const bench *b) { return b->o->now ? b->o->now(b->o->user) : och_now_seconds(); }
static och_status go_on(const bench *b, och_err *err) {
    return b->o->stop && b->o->stop(b->o->user) ? och_err_set(err, OCH_CANCELLED, "measuring was stopped") : OCH_OK;
}

/* ---- operands ---- */

static float uniform(uint64_t *s) { /* of [-1, 1); xorshift64, Marsaglia 2003 */
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return (float)(*s >> 40) * 0x1p-23f - 1.0f;
}

och_status och_gpu_tune_upload(och_queue *q, och_dev_addr to, const och_tensor *t, bool weight, uint64_t n_bytes, och_err *err) {
    const och_device_vtable *v = q->device->vtable;
    uint64_t row, native_bytes, seed = weight ? 0x9e3779b97f4a7c15u : 0xd1b54a32d192ed03u;
    och_status st = OCH_OK;
    if (!och_dtype_row_bytes(t->dtype, (uint64_t)t->cols, &row) || !och_u64_mul(row, (uint64_t)t->rows, &native_bytes))
        return och_err_set(err, OCH_RANGE, "%lld rows of %lld overflow", (long long)t->rows, (long long)t->cols);
    char *native = och_malloc_array((size_t)t->rows, row), *image = weight ? och_malloc_array(n_bytes, 1) : native;
    float *values = och_malloc_array((size_t)t->cols, sizeof *values);
    if (!native || !image || !values) {
        st = och_err_nomem(err, native_bytes + n_bytes, "a product's operands");
        goto done;
    }
    for (int64_t r = 0; r < t->rows && st == OCH_OK; r++) {
        char *at = native + (uint64_t)r * row;
        if (r >= DISTINCT_ROWS) { /* coding is slow */
            memcpy(at, at - DISTINCT_ROWS * row, row);
            continue;
        }
        for (int64_t j = 0; j < t->cols; j++) values[j] = (weight ? 0.05f : 1.0f) * uniform(&seed);
        st = och_format_encode_row(t->dtype, values, at, (uint64_t)t->cols, err);
    }
    if (st == OCH_OK && weight) och_planes_pack(t->dtype, t->rows, t->cols, native, image, 0, t->rows);
    if (st == OCH_OK) st = v->copy_to_device(q, to, image, weight ? n_bytes : native_bytes, err);
    if (st == OCH_OK) st = v->synchronise(q, err);
done:
    och_free(values);
    if (weight) och_free(image);
    och_free(native);
    return st;
}

static bool is_weight(int i) { return i >= OCH_LINEAR_W0 && i < OCH_LINEAR_W0 + OCH_LINEAR_MAX_WEIGHTS; }

/* Bytes of all the memory that weights may be kept in near the compute units. */
static uint64_t cache_bytes(const och_device *d) {
    char target[sizeof d->info.arch];
    snprintf(target, sizeof target, "%.*s", (int)strcspn(d->info.arch, ":"), d->info.arch);
    const och_board *board = och_board_find(d->info.name);
    if (!board) board = och_board_find(target);
    uint64_t n = d->info.l2_bytes;
    if (board && board->l2_bytes > 0) n = OCH_MAX(n, (uint64_t)board->l2_bytes);
    if (board && board->mall_bytes > 0) n = OCH_MAX(n, (uint64_t)board->mall_bytes);
    return n;
}

/* Sizes of a copy of the weights, and how many: none is in a cache when its turn comes again. */
static och_status lay_out_weights(bench *b, uint64_t *out_bytes, och_err *err) {
    const och_device *d = b->q->device;
    for (int i = 0; i < b->call.attr.linear.n_weights; i++) {
        och_tensor *w = &b->call.in[OCH_LINEAR_W0 + i];
        uint64_t bytes;
        w->layout = och_gpu_weight_layout(d, w->dtype, w->rows, w->cols, &bytes);
        w->row_bytes = 0;
        b->w_at[i] = b->w_bytes;
        if (w->layout != OCH_LAYOUT_PLANES || !och_u64_add(b->w_bytes, bytes, &b->w_bytes) ||
            !och_u64_align(b->w_bytes, 256, &b->w_bytes))
            return och_err_set(err, OCH_RANGE, "a weight of %lld x %lld overflows", (long long)w->rows, (long long)w->cols);
    }
    int most = b->o->most_copies ? b->o->most_copies : MOST_COPIES;
    b->n_copies = (int)OCH_MIN(4 * cache_bytes(d) / OCH_MAX(b->w_bytes, 1) + 1, (uint64_t)most);
    if (!och_u64_mul(b->w_bytes, (uint64_t)b->n_copies, out_bytes)) return och_err_set(err, OCH_RANGE, "a weight's bytes overflow");
    return OCH_OK;
}

static och_status upload_weights(bench *b, och_err *err) {
    const och_device_vtable *v = b->q->device->vtable;
    for (int i = 0; i < b->call.attr.linear.n_weights; i++) {
        const och_tensor *w = &b->call.in[OCH_LINEAR_W0 + i];
        uint64_t bytes;
        (void)och_gpu_weight_layout(b->q->device, w->dtype, w->rows, w->cols, &bytes);
        OCH_TRY(och_gpu_tune_upload(b->q, och_dev_addr_add(b->weights.addr, b->w_at[i]), w, true, bytes, err));
    }
    for (int i = 1; i < b->n_copies; i++)
        OCH_TRY(v->copy(b->q, och_dev_addr_add(b->weights.addr, (uint64_t)i * b->w_bytes), b->weights.addr, b->w_bytes, err));
    return v->synchronise(b->q, err);
}

/* Everything else, in one buffer; where there is none yet, its bytes are only counted. */
static och_status place(bench *b, uint64_t *out_bytes, och_err *err) {
    uint64_t at = 0, bytes;
    for (int i = 0; i < OCH_OP_MAX_IN + OCH_OP_MAX_OUT; i++) {
        och_tensor *t = i < OCH_OP_MAX_IN ? &b->call.in[i] : &b->call.out[i - OCH_OP_MAX_IN];
        if (is_weight(i) || !och_tensor_present(t)) continue;
        if (b->data.addr.value) {
            t->addr = och_dev_addr_add(b->data.addr, at);
            t->host = b->data.host ? (char *)b->data.host + at : NULL;
            if (i < OCH_OP_MAX_IN && t->dtype == OCH_DTYPE_F32) OCH_TRY(och_gpu_tune_upload(b->q, t->addr, t, false, 0, err));
        }
        if (!och_u64_mul(t->row_bytes, (uint64_t)t->rows, &bytes) || !och_u64_add(at, bytes, &at) || !och_u64_align(at, 256, &at))
            return och_err_set(err, OCH_RANGE, "operand %d overflows", i);
    }
    *out_bytes = at;
    return OCH_OK;
}

static int64_t n_results(const bench *b) {
    int64_t n = 0;
    for (int i = 0; i < OCH_LINEAR_MAX_WEIGHTS; i++) n += och_tensor_present(&b->call.out[i]) ? b->call.out[i].cols : 0;
    return n;
}

static och_status set_up(bench *b, const och_op_call *call, och_err *err) {
    och_device *d = b->q->device;
    uint64_t weights, data, scratch;
    b->call = *call;
    const och_tensor *x = &b->call.in[OCH_LINEAR_X];
    if (call->op != OCH_OP_LINEAR || x->rows != 1)
        return och_err_set(err, OCH_INVALID, "cuts are of products with one row, found %s with %lld", och_op_name(call->op),
                           (long long)x->rows);
    OCH_TRY(lay_out_weights(b, &weights, err));
    OCH_TRY(place(b, &data, err));
    OCH_TRY(och_buf_alloc(d, weights, OCH_MEM_DEVICE, &b->weights, err));
    OCH_TRY(och_buf_alloc(d, data, OCH_MEM_DEVICE, &b->data, err));
    scratch = OCH_MAX(och_gpu_linear_scratch(d, &b->call), 256);
    OCH_TRY(och_buf_alloc(d, scratch, OCH_MEM_DEVICE, &b->scratch, err));
    OCH_TRY(d->vtable->fill(b->q, b->data.addr, 0, data, err));
    OCH_TRY(place(b, &data, err));
    OCH_TRY(upload_weights(b, err));
    b->ctx = (och_op_ctx){.queue = b->q, .scratch = b->scratch.host, .scratch_addr = b->scratch.addr,
                          .scratch_bytes = b->scratch.size_bytes};
    const och_tensor *codes = och_op_codes(och_op_xcodes(&b->call), 1), *normed = och_op_xnormed(&b->call);
    if (codes) OCH_TRY(och_gpu_codes_of(&b->ctx, x, codes, err));
    if (normed)
        OCH_TRY(och_gpu_normed_codes_of(&b->ctx, x, &b->call.in[OCH_LINEAR_NORM], b->call.attr.linear.norm.add_one, normed, err));
    b->expected = och_malloc_array((size_t)n_results(b), sizeof *b->expected);
    b->found = och_malloc_array((size_t)n_results(b), sizeof *b->found);
    if (!b->expected || !b->found) return och_err_nomem(err, (uint64_t)n_results(b) * 8, "a product's results");
    return OCH_OK;
}

/* ---- runs ---- */

static void take(bench *b, const candidate *c, const och_gpu_cut_shape *shape) {
    b->trial.of = shape;
    b->trial.cut = c->cut;
}

static och_status run(bench *b, int n, och_err *err) {
    for (int r = 0; r < n; r++) {
        uint64_t copy = (uint64_t)(b->next++ % b->n_copies) * b->w_bytes;
        for (int i = 0; i < b->call.attr.linear.n_weights; i++) {
            och_tensor *w = &b->call.in[OCH_LINEAR_W0 + i];
            w->addr = och_dev_addr_add(b->weights.addr, copy + b->w_at[i]);
            w->host = b->weights.host ? (char *)b->weights.host + copy + b->w_at[i] : NULL;
        }
        OCH_TRY(och_gpu_linear_run(&b->ctx, &b->call, err));
    }
    return OCH_OK;
}

/* The rows of all results one after the other, or what the codes say. */
static och_status results(bench *b, float *out, och_err *err) {
    const och_device_vtable *v = b->q->device->vtable;
    const och_tensor *codes = och_op_codes(och_op_ycodes(&b->call), 1);
    float *at = out;
    if (codes) {
        char *row = och_malloc_array(codes->row_bytes, 1);
        if (!row) return och_err_nomem(err, codes->row_bytes, "a product's results");
        och_status st = v->copy_to_host(b->q, row, codes->addr, codes->row_bytes, err);
        if (st == OCH_OK) st = v->synchronise(b->q, err);
        if (st == OCH_OK) och_planes_act_decode_row(row, (uint64_t)b->call.out[0].cols, out);
        och_free(row);
        return st;
    }
    for (int i = 0; i < OCH_LINEAR_MAX_WEIGHTS; i++) {
        const och_tensor *y = &b->call.out[i];
        if (!och_tensor_present(y)) continue;
        OCH_TRY(v->copy_to_host(b->q, at, y->addr, (uint64_t)y->cols * 4, err));
        at += y->cols;
    }
    return v->synchronise(b->q, err);
}

/* What an earlier run has left is no result of this one: NaN. */
static och_status spoil(bench *b, och_err *err) {
    const och_device_vtable *v = b->q->device->vtable;
    for (int i = 0; i < OCH_OP_MAX_OUT; i++) {
        const och_tensor *y = &b->call.out[i];
        if (och_tensor_present(y)) OCH_TRY(v->fill(b->q, y->addr, 0xff, (uint64_t)y->rows * y->row_bytes, err));
    }
    return OCH_OK;
}

static bool agree(const bench *b) {
    double error = 0.0, all = 0.0;
    for (int64_t i = 0; i < n_results(b); i++) {
        double d = (double)b->found[i] - (double)b->expected[i];
        error += d * d;
        all += (double)b->expected[i] * (double)b->expected[i];
    }
    return error <= all * (och_op_codes(och_op_ycodes(&b->call), 1) ? CODES_BOUND : BOUND); /* false for NaN */
}

static bool is_new(const bench *b, const candidate *c) {
    for (int i = 0; i < b->n; i++)
        if (!strcmp(b->c[i].names, c->names)) return false;
    return true;
}

/* Runs it once, and keeps it if it is one more way that is right. */
static och_status try_one(bench *b, const och_gpu_cut_shape *shape, const char *cut, och_err *err) {
    candidate *c = &b->c[b->n];
    och_err why = {0};
    memset(c, 0, sizeof *c);
    c->cut = cut;
    take(b, c, shape);
    b->next = 0;
    OCH_TRY(spoil(b, err));
    och_trace_names(c->names, sizeof c->names);
    och_status st = run(b, 1, &why);
    och_trace_names(NULL, 0);
    if (st == OCH_OK) st = b->q->device->vtable->synchronise(b->q, &why);
    if (st == OCH_OK && is_new(b, c)) {
        OCH_TRY(results(b, cut ? b->found : b->expected, err));
        if (!cut || agree(b)) b->n++;
        else och_log(OCH_LOG_WARN, "%s with %s has other results than without, and is not used", och_gpu_cut_kernel(shape->kind),
                     cut);
    } else if (cut && (och_gpu_absent(st) || st == OCH_COMPILE || st == OCH_INVALID)) {
        och_log(OCH_LOG_INFO, "%s", why.message);
    } else if (st != OCH_OK) {
        return och_err_set_native(err, st, why.native_code, "%s", why.message);
    }
    return OCH_OK;
}

/* All are asked for first, so that threads compile them side by side; all have run when times are taken. */
static och_status find_candidates(bench *b, const och_gpu_cut_shape *shape, och_err *err) {
    const char *cut;
    b->n = 0;
    for (size_t i = 0; (cut = och_gpu_cut_at(shape->kind, i)); i++) {
        och_err ignored = {0};
        take(b, &(candidate){.cut = cut}, shape);
        (void)!och_gpu_linear_supports(b->q->device, &b->call, &ignored);
    }
    OCH_TRY(try_one(b, shape, NULL, err));
    for (size_t i = 0; (cut = och_gpu_cut_at(shape->kind, i)) && b->n < MOST_CUTS; i++) {
        OCH_TRY(go_on(b, err));
        OCH_TRY(try_one(b, shape, cut, err));
    }
    return OCH_OK;
}

/* ---- times ---- */

static och_status drop_graphs(bench *b, och_err *err) {
    och_status st = OCH_OK;
    for (int i = 0; i < b->n; i++) {
        och_status one = b->c[i].graph ? b->q->device->vtable->graph_destroy(b->c[i].graph, err) : OCH_OK;
        b->c[i].graph = NULL;
        if (st == OCH_OK) st = one;
    }
    return st;
}

/* As a step runs: from a graph where the device has those, so that the host's part of a launch is not what is measured. */
static och_status record(bench *b, const och_gpu_cut_shape *shape, och_err *err) {
    const och_device_vtable *v = b->q->device->vtable;
    och_err why = {0};
    if (!b->q->device->info.graphs) return OCH_OK;
    for (int i = 0; i < b->n; i++) {
        take(b, &b->c[i], shape);
        b->next = 0;
        och_status st = v->capture_begin(b->q, &why), end = OCH_OK;
        if (st == OCH_OK) {
            st = run(b, b->n_runs, &why);
            end = v->capture_end(b->q, &b->c[i].graph, &why);
        }
        if (st == OCH_OK && end == OCH_OK) continue;
        och_log(OCH_LOG_INFO, "timed without graphs: %s", why.message);
        return drop_graphs(b, err);
    }
    return OCH_OK;
}

static och_status time_one(bench *b, candidate *c, const och_gpu_cut_shape *shape, double *out_seconds, och_err *err) {
    const och_device_vtable *v = b->q->device->vtable;
    take(b, c, shape);
    b->next = 0;
    double begin = now(b);
    OCH_TRY(c->graph ? v->graph_replay(b->q, c->graph, err) : run(b, b->n_runs, err));
    OCH_TRY(v->synchronise(b->q, err));
    *out_seconds = (now(b) - begin) / b->n_runs;
    return OCH_OK;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double median(const candidate *c) { return c->seconds[ROUNDS / 2]; }
static double spread(const candidate *c) { return c->seconds[ROUNDS * 3 / 4] - c->seconds[ROUNDS / 4]; }

/* Rounds of the candidates of the list, each second one the other way round, so that what drifts is everyone's. */
static och_status in_turns(bench *b, const och_gpu_cut_shape *shape, const int *list, int n, och_err *err) {
    double ignored;
    for (int i = 0; i < n; i++) OCH_TRY(time_one(b, &b->c[list[i]], shape, &ignored, err));
    for (int r = 0; r < ROUNDS; r++) {
        OCH_TRY(go_on(b, err));
        for (int i = 0; i < n; i++) {
            candidate *c = &b->c[list[r % 2 ? n - 1 - i : i]];
            OCH_TRY(time_one(b, c, shape, &c->seconds[r], err));
        }
    }
    for (int i = 0; i < n; i++) qsort(b->c[list[i]].seconds, ROUNDS, sizeof(double), by_value);
    return OCH_OK;
}

static bool faster(const candidate *c, const candidate *present) {
    double gain = median(present) - median(c);
    return gain > spread(present) + spread(c) && gain > LEAST_GAIN * median(present);
}

/* How many runs a round has: whole turns of the copies, else the last round's would be the next one's, and in a cache. */
static och_status count_runs(bench *b, const och_gpu_cut_shape *shape, och_err *err) {
    double seconds = 0.0;
    b->n_runs = b->n_copies;
    for (int i = 0; i < 2; i++) OCH_TRY(time_one(b, &b->c[0], shape, &seconds, err)); /* the first warms */
    double turns = ROUND_SECONDS / OCH_MAX(seconds * b->n_copies, 1e-9);
    int most = OCH_MAX(MOST_RUNS / b->n_copies, 1);
    b->n_runs = b->n_copies * (turns <= 1.0 ? 1 : turns >= most ? most : (int)turns);
    return OCH_OK;
}

static och_status compare(bench *b, const och_gpu_cut_shape *shape, och_gpu_cut_time *out, och_err *err) {
    int all[MOST_CUTS], best = 0;
    for (int i = 0; i < b->n; i++) all[i] = i;
    OCH_TRY(count_runs(b, shape, err));
    OCH_TRY(record(b, shape, err));
    OCH_TRY(in_turns(b, shape, all, b->n, err));
    for (int i = 1; i < b->n; i++)
        if (median(&b->c[i]) < median(&b->c[best])) best = i;
    *out = (och_gpu_cut_time){.shape = *shape};
    bool first = best && faster(&b->c[best], &b->c[0]);
    /* The fastest of many is partly the luckiest. */
    if (first) OCH_TRY(in_turns(b, shape, (const int[]){0, best}, 2, err));
    if (first && faster(&b->c[best], &b->c[0])) snprintf(out->cut, sizeof out->cut, "%s", b->c[best].cut);
    out->present_us = median(&b->c[0]) * 1e6;
    out->cut_us = median(&b->c[best]) * 1e6;
    return OCH_OK;
}

static och_status measure(bench *b, och_gpu_cut_times *inout, och_err *err) {
    och_gpu_cut_shape asked[OCH_GPU_TRIAL_SHAPES];
    int n;
    OCH_TRY(run(b, 1, err));
    OCH_TRY(b->q->device->vtable->synchronise(b->q, err));
    n = b->trial.n_asked;
    memcpy(asked, b->trial.asked, sizeof asked);
    for (int i = 0; i < n; i++) {
        och_gpu_cut_time t;
        if (och_gpu_cut_times_find(inout, &asked[i])) continue;
        OCH_TRY(go_on(b, err));
        och_status st = find_candidates(b, &asked[i], err);
        if (st == OCH_OK) och_gpu_kernels_wait(b->q->device); /* of those asked for beside: compilers would take time of launches */
        if (st == OCH_OK) st = compare(b, &asked[i], &t, err);
        och_status dropped = drop_graphs(b, st == OCH_OK ? err : NULL);
        OCH_TRY(st);
        OCH_TRY(dropped);
        if (!(t.present_us > 0.0 && t.cut_us > 0.0))
            return och_err_set(err, OCH_DEVICE, "device %s: no time has passed in a product of %lld x %lld",
                               b->q->device->info.label, (long long)asked[i].m, (long long)asked[i].k);
        OCH_TRY(och_gpu_cut_times_add(inout, &t, err));
    }
    return OCH_OK;
}

och_status och_gpu_tune(och_queue *q, const och_op_call *call, const och_gpu_tune_options *options, och_gpu_cut_times *inout,
                        och_err *err) {
    if (q->device->info.kind == OCH_DEV_SIMULATED && !options->now)
        return och_err_set(err, OCH_UNSUPPORTED, "device %s: seconds of a simulated device say nothing of the device",
                           q->device->info.label);
    bench *b = och_calloc(1, sizeof *b);
    if (!b) return och_err_nomem(err, sizeof *b, "a product's times");
    b->q = q;
    b->o = options;
    och_gpu_tune_try(q->device, &b->trial);
    och_status st = set_up(b, call, err);
    if (st == OCH_OK) st = measure(b, inout, err);
    och_gpu_tune_try(q->device, NULL);
    och_free(b->expected);
    och_free(b->found);
    och_buf_free(&b->scratch);
    och_buf_free(&b->data);
    och_buf_free(&b->weights);
    och_free(b);
    return st;
}
