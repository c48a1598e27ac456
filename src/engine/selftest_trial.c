#include "engine/selftest.h"

#include "base/alloc.h"
#include "base/half.h"
#include "base/log.h"
#include "base/size.h"
#include "base/thread.h"
#include "dev/trace.h"
#include "quant/format.h"
#include "quant/fp8.h"
#include "quant/planes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of numbers of 8 bits: of a block's greatest, the root of 12 of a step of 127, which may be several times the block's mean. */
#define CODES_BOUND 1e-3

enum { N_OPERANDS = OCH_OP_MAX_IN + OCH_OP_MAX_OUT, DISTINCT_ROWS = 61 };

static och_tensor *operand(och_op_call *c, int i) {
    och_tensor *t = i < OCH_OP_MAX_IN ? &c->in[i] : &c->out[i - OCH_OP_MAX_IN];
    return och_tensor_present(t) && t->rows > 0 && t->cols > 0 ? t : NULL;
}

/* ---- operands ---- */

/* Rows of any type: a weight format's, a state's, or small integers. */
static void decode(och_dtype t, const void *src, float *dst, uint64_t n) {
    if (t == OCH_DTYPE_I32)
        for (uint64_t j = 0; j < n; j++) dst[j] = (float)((const int32_t *)src)[j];
    else if (t != OCH_DTYPE_F8_E4M3) och_format_decode_row(t, src, dst, n);
    else
        for (uint64_t j = 0; j < n; j++) dst[j] = och_e4m3_to_f32(((const uint8_t *)src)[j]);
}
static och_status encode(och_dtype t, const float *src, void *dst, uint64_t n, och_err *err) {
    if (t != OCH_DTYPE_F8_E4M3) return och_format_encode_row(t, src, dst, n, err);
    for (uint64_t j = 0; j < n; j++) ((uint8_t *)dst)[j] = och_f32_to_e4m3(src[j]);
    return OCH_OK;
}

static float uniform(uint64_t *x) { /* of [-1, 1); xorshift64, Marsaglia 2003 */
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return (float)(*x >> 40) * 0x1p-23f - 1.0f;
}

static bool is_weight(const och_op_call *c, int i) {
    return (c->op == OCH_OP_EMBED && i == OCH_EMBED_TABLE) ||
           (c->op == OCH_OP_LINEAR && i >= OCH_LINEAR_W0 && i < OCH_LINEAR_W0 + OCH_LINEAR_MAX_WEIGHTS);
}

static const och_attr_kv *kv_of(const och_op_call *c) {
    return c->op == OCH_OP_ATTENTION  ? &c->attr.attention.kv
           : c->op == OCH_OP_LINEAR   ? &c->attr.linear.post.kv
           : c->op == OCH_OP_QKV_POST ? &c->attr.qkv_post.kv
                                      : &c->attr.kv_write;
}

/* What element j of row r of an id operand is. */
static int32_t id_of(const och_op_call *c, int i, int64_t r, int64_t j) {
    switch (c->op) {
    case OCH_OP_EMBED: return (int32_t)((r * 7 + 3) % c->in[OCH_EMBED_TABLE].rows);
    case OCH_OP_GATHER: return (int32_t)((c->in[OCH_GATHER_X].rows - 1) - r % c->in[OCH_GATHER_X].rows);
    case OCH_OP_KV_WRITE:
    case OCH_OP_LINEAR:
    case OCH_OP_QKV_POST: { /* other blocks first, so that a slot's two parts both matter */
        const och_tensor *cache = &c->out[c->op == OCH_OP_LINEAR ? OCH_LINEAR_KCACHE : c->op == OCH_OP_QKV_POST];
        int64_t block = kv_of(c)->block_tokens;
        return (int32_t)((cache->rows - 1 - r / block % cache->rows) * block + r % block);
    }
    case OCH_OP_ATTENTION: {
        const och_tensor *tables = &c->in[OCH_ATTENTION_TABLES];
        int64_t n_blocks = c->in[OCH_ATTENTION_K].rows, capacity = tables->cols * kv_of(c)->block_tokens,
                position = capacity - 1 - r * 3;
        if (i == OCH_ATTENTION_TABLES) return (int32_t)(n_blocks - 1 - (r * tables->cols + j) % n_blocks);
        if (i == OCH_ATTENTION_SEQS) return (int32_t)(r % tables->rows);
        return (int32_t)OCH_MAX(position, 0);
    }
    case OCH_OP_SAMPLE: return j == OCH_SAMPLE_TOP_K ? (r & 1 ? 40 : 0) : (int32_t)(r * 7919 + j * 104729);
    default: return 0;
    }
}

/* Ways of sampling go round: greedily, then with more and more cut off. */
static void fill_numbers(float *dst, int64_t r) {
    dst[OCH_SAMPLE_TEMPERATURE] = r % 6 ? 0.3f * (float)(r % 6) : 0.0f;
    dst[OCH_SAMPLE_TOP_P] = r % 6 < 2 ? 1.0f : 1.0f - 0.1f * (float)(r % 6);
    dst[OCH_SAMPLE_MIN_P] = r % 6 < 4 ? 0.0f : 0.05f;
}

static void fill_floats(const och_op_call *c, int i, float *dst, int64_t n, uint64_t *x) {
    bool table = (c->op == OCH_OP_ROPE && i == OCH_ROPE_TABLE) || (c->op == OCH_OP_QKV_POST && i == OCH_QKV_POST_TABLE) ||
                 (c->op == OCH_OP_LINEAR && i == OCH_LINEAR_TABLE);
    bool norm = (c->op == OCH_OP_RMS_NORM && i == OCH_RMS_NORM_W) ||
                (c->op == OCH_OP_LINEAR && (i == OCH_LINEAR_NORM || i == OCH_LINEAR_YNORM)) ||
                (c->op == OCH_OP_QKV_POST && (i == OCH_QKV_POST_QNORM || i == OCH_QKV_POST_KNORM));
    for (int64_t j = 0; j < n; j++) {
        float v = uniform(x);
        if (norm) v = 1.0f + 0.5f * v;
        dst[j] = is_weight(c, i) ? 0.05f * v : v;
    }
    for (int64_t j = 0; table && j < n / 2; j++) { /* cosines, then sines */
        double angle = 3.0 * (double)dst[j];
        dst[j] = (float)cos(angle);
        dst[n / 2 + j] = (float)sin(angle);
    }
}

void och_trial_fill(const och_op_call *shape, int i, void *host, uint64_t seed) {
    const och_tensor *t = operand((och_op_call *)(uintptr_t)shape, i);
    if (!t) return;
    uint64_t x = (seed + (uint64_t)i + 1) * 0x9e3779b97f4a7c15u | 1;
    float *row = t->dtype == OCH_DTYPE_I32 ? NULL : och_malloc_array((size_t)t->cols, sizeof *row);
    for (int64_t r = 0; r < t->rows; r++) {
        char *dst = (char *)host + (uint64_t)r * t->row_bytes;
        if (t->dtype == OCH_DTYPE_I32) {
            for (int64_t j = 0; j < t->cols; j++) ((int32_t *)(void *)dst)[j] = id_of(shape, i, r, j);
            continue;
        }
        if (!row) return; /* zeros: the comparison holds all the same */
        if (is_weight(shape, i) && r >= DISTINCT_ROWS) { /* coding is slow, and rows meet no other's */
            memcpy(dst, dst - DISTINCT_ROWS * t->row_bytes, t->row_bytes);
            continue;
        }
        och_err ignored;
        och_err_clear(&ignored);
        fill_floats(shape, i, row, t->cols, &x);
        if (shape->op == OCH_OP_SAMPLE && i == OCH_SAMPLE_NUMBERS) fill_numbers(row, r);
        if (encode(t->dtype, row, dst, (uint64_t)t->cols, &ignored) != OCH_OK) memset(dst, 0, t->row_bytes);
    }
    och_free(row);
}

/* ---- a trial ---- */

typedef struct trial {
    och_queue *q;
    const och_device_vtable *v;
    const och_op_provider *provider;
    och_op_call host, dev;           /* the same operands in both memories */
    uint64_t at[N_OPERANDS], bytes[N_OPERANDS]; /* in the image of the device's memory */
    char *image, *native;            /* owned: what the device gets, and back; what the reference reads */
    uint64_t native_at[N_OPERANDS];
    uint64_t image_bytes, native_bytes;
    och_buf buf, scratch, copies, counters;
    void *ref_scratch; /* owned */
    const och_tensor *ynormed; /* codes of y through a norm that the call writes; NULL: none */
} trial;

static uint64_t align256(uint64_t n) { return (n + 255) & ~UINT64_C(255); }

/* Sizes and layouts of both copies. */
static och_status lay_out(trial *t, och_err *err) {
    for (int i = 0; i < N_OPERANDS; i++) {
        och_tensor *h = operand(&t->host, i), *d = operand(&t->dev, i);
        uint64_t n;
        if (!h) continue;
        if (!och_u64_mul(h->row_bytes, (uint64_t)h->rows, &n))
            return och_err_set(err, OCH_RANGE, "trial of op %s: operand %d: its size overflows", och_op_name(t->host.op), i);
        t->native_at[i] = t->native_bytes;
        t->native_bytes = align256(t->native_bytes + n);
        t->bytes[i] = n;
        if (is_weight(&t->host, i) && t->provider->weight_layout) {
            uint64_t packed;
            d->layout = t->provider->weight_layout(t->q->device, d->dtype, d->rows, d->cols, &packed);
            if (d->layout != OCH_LAYOUT_NATIVE) t->bytes[i] = packed;
        }
        t->at[i] = t->image_bytes;
        t->image_bytes = align256(t->image_bytes + t->bytes[i]);
    }
    return OCH_OK;
}

/* The codes of x. */
static void fill_codes(const och_op_call *c) {
    const och_tensor *x = &c->in[OCH_LINEAR_X], *codes = och_op_codes(och_op_xcodes(c), x->rows);
    for (int64_t r = 0; codes && r < x->rows; r++) {
        const void *row = (const char *)x->host + (uint64_t)r * x->row_bytes;
        och_planes_act_encode_row(row, (uint64_t)x->cols, (char *)codes->host + (uint64_t)r * codes->row_bytes);
    }
}

/* What codes through a norm stand for, and the squares behind them, of a row of k elements. */
static void through_norm(const float *row, const och_tensor *norm, bool add_one, float *out, float *squares) {
    const float *w = norm->host;
    for (int64_t j = 0; j < norm->cols; j++) {
        out[j] = row[j] * (w[j] + (add_one ? 1.0f : 0.0f));
        squares[j / 32] = (j % 32 ? squares[j / 32] : 0.0f) + row[j] * row[j];
    }
}

/* Codes of x through its norm. */
static och_status fill_normed(const och_op_call *c, och_err *err) {
    const och_tensor *x = &c->in[OCH_LINEAR_X], *codes = och_op_xnormed(c);
    och_tensor t;
    uint64_t at;
    float *row = och_malloc_array((size_t)x->cols, sizeof *row);
    if (!row || !och_op_normed_codes(x->cols, &t, &at)) {
        och_free(row);
        return och_err_nomem(err, (uint64_t)x->cols * sizeof *row, "a trial's codes");
    }
    through_norm(x->host, &c->in[OCH_LINEAR_NORM], c->attr.linear.norm.add_one, row, (float *)(void *)((char *)codes->host + at));
    och_planes_act_encode_row(row, (uint64_t)x->cols, codes->host);
    och_free(row);
    return OCH_OK;
}

static och_status make(trial *t, uint64_t seed, och_err *err) {
    t->native = och_malloc_aligned(t->native_bytes, 256);
    t->image = och_malloc_aligned(t->image_bytes, 256);
    if (!t->native || !t->image) return och_err_nomem(err, t->native_bytes + t->image_bytes, "a trial's operands");
    memset(t->native, 0, t->native_bytes);
    memset(t->image, 0, t->image_bytes);
    OCH_TRY(och_buf_alloc(t->q->device, t->image_bytes, OCH_MEM_DEVICE, &t->buf, err));
    for (int i = 0; i < N_OPERANDS; i++) {
        och_tensor *h = operand(&t->host, i), *d = operand(&t->dev, i);
        if (!h) continue;
        h->host = t->native + t->native_at[i];
        h->addr.value = (uintptr_t)h->host;
        d->addr = och_dev_addr_add(t->buf.addr, t->at[i]);
        d->host = t->buf.host ? (char *)t->buf.host + t->at[i] : NULL;
        if (i < OCH_OP_MAX_IN) och_trial_fill(&t->host, i, h->host, seed);
        if (h == och_op_xcodes(&t->host)) fill_codes(&t->host); /* after x */
        if (h == och_op_xnormed(&t->host)) OCH_TRY(fill_normed(&t->host, err));
        if (d->layout != OCH_LAYOUT_NATIVE)
            t->provider->weight_pack(d->dtype, d->rows, d->cols, h->host, t->image + t->at[i], 0, d->rows);
        else memcpy(t->image + t->at[i], h->host, t->bytes[i]);
    }
    OCH_TRY(t->v->copy_to_device(t->q, t->buf.addr, t->image, t->image_bytes, err));
    return t->v->synchronise(t->q, err);
}

static och_status run_reference(trial *t, bool batch_invariant, och_err *err) {
    const och_op_provider *reference = NULL;
    for (int i = 0; i < och_op_provider_count(); i++)
        if (och_op_provider_at(i)->op == t->host.op && och_op_provider_at(i)->priority < 0) reference = och_op_provider_at(i);
    if (!reference) return och_err_set(err, OCH_INTERNAL, "op %s has no reference", och_op_name(t->host.op));
    uint64_t n = reference->scratch_bytes ? reference->scratch_bytes(t->q->device, &t->host) : 0;
    och_op_ctx ctx = {.queue = t->q, .scratch_bytes = n, .batch_invariant = batch_invariant, .reference_asked = true};
    if (n && !(t->ref_scratch = och_malloc_aligned(n, 64))) return och_err_nomem(err, n, "a trial's scratch");
    ctx.scratch = t->ref_scratch;
    return reference->run(&ctx, &t->host, err);
}

static double compare(const trial *t, int o, double *error_sum, double *square_sum) {
    const och_tensor *y = operand((och_op_call *)(uintptr_t)&t->host, o);
    float found[256], expected[256];
    for (int64_t r = 0; r < y->rows; r++)
        for (int64_t c = 0; c < y->cols; c += 256) {
            uint64_t n = (uint64_t)OCH_MIN(y->cols - c, 256), size = och_dtype_get(y->dtype)->block_bytes;
            uint64_t at = (uint64_t)r * y->row_bytes + (uint64_t)c * size;
            decode(y->dtype, t->image + t->at[o] + at, found, n);
            decode(y->dtype, (const char *)y->host + at, expected, n);
            for (uint64_t j = 0; j < n; j++) {
                double d = (double)found[j] - (double)expected[j];
                if (!isfinite(d)) return INFINITY;
                *error_sum += d * d;
                *square_sum += (double)expected[j] * (double)expected[j];
            }
        }
    return 0.0;
}

/* Codes of y become the numbers that they stand for, where y would have been written; whether they did. */
static bool decode_codes(trial *t) {
    const och_tensor *y = &t->host.out[0], *codes = och_op_ycodes(&t->host);
    if (!codes || !och_op_codes(codes, y->rows)) return false;
    int from = OCH_OP_MAX_IN + (int)(codes - t->host.out);
    for (int64_t r = 0; r < y->rows; r++)
        och_planes_act_decode_row(t->image + t->at[from] + (uint64_t)r * codes->row_bytes, (uint64_t)y->cols,
                                  (float *)(void *)(t->image + t->at[OCH_OP_MAX_IN] + (uint64_t)r * y->row_bytes));
    return true;
}

static double nmse_of(const float *found, const float *expected, int64_t n) {
    double error = 0.0, square = 0.0;
    for (int64_t j = 0; j < n; j++) {
        double d = (double)found[j] - (double)expected[j];
        if (!isfinite(d)) return INFINITY;
        error += d * d;
        square += (double)expected[j] * (double)expected[j];
    }
    return error > 0.0 ? (square > 0.0 ? error / square : INFINITY) : 0.0;
}

/* Codes of y through a norm, and their squares, against those of the reference's y. */
static och_status judge_normed(const trial *t, och_trial *out, och_err *err) {
    const och_tensor *y = &t->host.out[0], *codes = t->ynormed;
    const char *found = t->image + t->at[OCH_OP_MAX_IN + (int)(codes - t->host.out)];
    int64_t k = y->cols;
    och_tensor tensor;
    uint64_t at;
    float *row = och_malloc_array((size_t)k, 3 * sizeof *row);
    if (!row || !och_op_normed_codes(k, &tensor, &at)) {
        och_free(row);
        return och_err_nomem(err, (uint64_t)k * 3 * sizeof *row, "a trial's codes");
    }
    float *expected = row + k, *squares = expected + k;
    och_planes_act_decode_row(found, (uint64_t)k, row);
    through_norm(y->host, &t->host.in[OCH_LINEAR_YNORM], t->host.attr.linear.ynorm_add_one, expected, squares);
    double by_codes = nmse_of(row, expected, k), by_squares = nmse_of((const float *)(const void *)(found + at), squares, k / 32);
    out->bound = OCH_MAX(out->bound, CODES_BOUND);
    out->nmse = OCH_MAX(out->nmse, OCH_MAX(by_codes, by_squares));
    och_free(row);
    return OCH_OK;
}

static och_status judge(trial *t, const och_op_ctx *ctx, och_trial *out, och_err *err) {
    bool stored = t->host.op == OCH_OP_LINEAR && och_op_one_row(&t->host, ctx); /* what y_1 and y_2 are, nothing says */
    if (decode_codes(t)) out->bound = OCH_MAX(out->bound, CODES_BOUND);
    for (int o = OCH_OP_MAX_IN; o < N_OPERANDS; o++) {
        double error = 0.0, square = 0.0;
        const och_tensor *y = operand(&t->host, o);
        if (!y || y == och_op_ycodes(&t->host) || y == och_op_ynormed(&t->host)) continue;
        if (stored && (o == OCH_OP_MAX_IN + 1 || o == OCH_OP_MAX_IN + 2)) continue;
        double bad = compare(t, o, &error, &square);
        double nmse = bad > 0.0 ? bad : error > 0.0 ? (square > 0.0 ? error / square : INFINITY) : 0.0;
        out->nmse = OCH_MAX(out->nmse, nmse);
    }
    return t->ynormed ? judge_normed(t, out, err) : OCH_OK;
}

/* ---- time ---- */

enum { MAX_COPIES = 64, TIMINGS = 5 };

/* So many copies of the operands that, taken in turn, none is still in the device's cache; 1 where it states none. */
static och_status copy_operands(trial *t, int n_runs, int *out_n, och_err *err) {
    const och_device *d = t->q->device;
    uint64_t stride = t->image_bytes, n = d->info.l2_bytes ? 4 * d->info.l2_bytes / stride + 2 : 1, free_bytes, total_bytes;
    OCH_TRY(t->v->memory(t->q->device, &free_bytes, &total_bytes, err));
    n = OCH_MIN(n, OCH_MIN((uint64_t)n_runs, MAX_COPIES));
    n = OCH_MIN(n, free_bytes / 2 / stride);
    *out_n = 1;
    if (n < 2) return OCH_OK;
    OCH_TRY(och_buf_alloc(t->q->device, (n - 1) * stride, OCH_MEM_DEVICE, &t->copies, err));
    for (uint64_t i = 0; i + 1 < n; i++)
        OCH_TRY(t->v->copy(t->q, och_dev_addr_add(t->copies.addr, i * stride), t->buf.addr, stride, err));
    *out_n = (int)n;
    return t->v->synchronise(t->q, err);
}

static och_status run_in_turn(trial *t, const och_op_ctx *ctx, int n_runs, int n_copies, och_err *err) {
    for (int i = 0; i < n_runs; i++) {
        och_op_call c = t->dev;
        int copy = i % n_copies;
        for (int o = 0; copy && o < N_OPERANDS; o++) {
            och_tensor *x = operand(&c, o);
            if (!x) continue;
            uint64_t at = (uint64_t)(copy - 1) * t->image_bytes + t->at[o];
            x->addr = och_dev_addr_add(t->copies.addr, at);
            x->host = t->copies.host ? (char *)t->copies.host + at : NULL;
        }
        OCH_TRY(t->provider->run(ctx, &c, err));
    }
    return OCH_OK;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The runs as one graph where the device has those, so that the host's part of a launch is not what is measured. */
static och_status time_runs(trial *t, const och_op_ctx *ctx, int n_runs, och_trial *out, och_err *err) {
    int n_copies;
    och_graph *graph = NULL;
    och_err why = {0};
    double seconds[TIMINGS];
    OCH_TRY(copy_operands(t, n_runs, &n_copies, err));
    OCH_TRY(run_in_turn(t, ctx, n_runs, n_copies, err)); /* warm, and every kernel loaded */
    OCH_TRY(t->v->synchronise(t->q, err));
    if (t->provider->has_kernels && t->v->capture_begin(t->q, &why) == OCH_OK) {
        och_status st = run_in_turn(t, ctx, n_runs, n_copies, &why), end = t->v->capture_end(t->q, &graph, &why);
        if (st != OCH_OK || end != OCH_OK) och_log(OCH_LOG_INFO, "timed without a graph: %s", why.message);
    }
    och_status st = OCH_OK;
    for (int i = -1; i < TIMINGS && st == OCH_OK; i++) {
        double begin = och_now_seconds();
        st = graph ? t->v->graph_replay(t->q, graph, err) : run_in_turn(t, ctx, n_runs, n_copies, err);
        if (st == OCH_OK) st = t->v->synchronise(t->q, err);
        if (i >= 0) seconds[i] = (och_now_seconds() - begin) / n_runs;
    }
    if (graph) (void)!t->v->graph_destroy(graph, &why);
    OCH_TRY(st);
    qsort(seconds, TIMINGS, sizeof *seconds, by_value);
    out->seconds = seconds[TIMINGS / 2];
    out->n_copies = n_copies;
    out->graph = graph != NULL;
    return OCH_OK;
}

static och_status run_provider(trial *t, const och_trial_options *o, och_trial *out, och_err *err) {
    uint64_t n = t->provider->scratch_bytes ? t->provider->scratch_bytes(t->q->device, &t->dev) : 0;
    if (n) {
        OCH_TRY(och_buf_alloc(t->q->device, n, OCH_MEM_DEVICE, &t->scratch, err));
        OCH_TRY(t->v->fill(t->q, t->scratch.addr, 0xff, n, err)); /* NaN: what is read before it is written shows */
    }
    OCH_TRY(och_buf_alloc(t->q->device, OCH_OP_COUNTERS * 4, OCH_MEM_DEVICE, &t->counters, err));
    OCH_TRY(t->v->fill(t->q, t->counters.addr, 0, OCH_OP_COUNTERS * 4, err));
    och_op_ctx ctx = {.queue = t->q, .scratch = t->scratch.host, .scratch_addr = t->scratch.addr, .scratch_bytes = n,
                      .counters = t->counters.addr, .batch_invariant = o->batch_invariant, .reference_asked = t->provider->priority < 0};
    och_trace_names(out->kernels, sizeof out->kernels);
    och_status st = t->provider->run(&ctx, &t->dev, err); /* not counted: it is no call of a model */
    och_trace_names(NULL, 0);
    OCH_TRY(st);
    for (int i = OCH_OP_MAX_IN; i < N_OPERANDS; i++)
        if (operand(&t->dev, i))
            OCH_TRY(t->v->copy_to_host(t->q, t->image + t->at[i], operand(&t->dev, i)->addr, t->bytes[i], err));
    OCH_TRY(t->v->synchronise(t->q, err));
    OCH_TRY(run_reference(t, o->batch_invariant, err));
    const och_tensor *ynormed = och_op_ynormed(&t->host);
    if (och_op_takes_normed(ynormed, t->host.in[OCH_LINEAR_X].rows, &ctx)) t->ynormed = ynormed;
    OCH_TRY(judge(t, &ctx, out, err));
    och_op_cost(&t->host, &out->floor_bytes, &out->flops);
    return o->n_runs && out->nmse <= out->bound ? time_runs(t, &ctx, o->n_runs, out, err) : OCH_OK;
}

/* A number between two of the cache's may go to either. */
static double cache_bound(const och_tensor *cache) { return cache->dtype == OCH_DTYPE_F8_E4M3 ? 1e-3 : 1e-6; }

static double bound_of(const och_op_call *c) {
    double bound;
    switch (c->op) {
    case OCH_OP_EMBED:
    case OCH_OP_ADD:
    case OCH_OP_GATHER: return 1e-12;
    case OCH_OP_RMS_NORM:
    case OCH_OP_ROPE:
    case OCH_OP_GLU: return 1e-10;
    case OCH_OP_KV_WRITE:
    case OCH_OP_SAMPLE: return 0.0;
    case OCH_OP_QKV_POST: return cache_bound(&c->out[1]);
    case OCH_OP_ATTENTION: return c->in[OCH_ATTENTION_K].dtype == OCH_DTYPE_BF16 ? 5e-4 : 5e-5;
    case OCH_OP_LINEAR:
        bound = c->in[OCH_LINEAR_W0].dtype == OCH_DTYPE_F32 ? 1e-9 : 5e-4;
        return och_op_asks_one_row(c) ? OCH_MAX(bound, cache_bound(&c->out[OCH_LINEAR_KCACHE])) : bound;
    case OCH_OP_COUNT_: break;
    }
    return 0.0;
}

och_status och_trial_run(och_queue *q, const och_op_call *shape, const och_trial_options *options, och_trial *out,
                         och_err *err) {
    trial t = {.q = q, .v = q->device->vtable, .provider = options->provider, .host = *shape, .dev = *shape};
    *out = (och_trial){.bound = bound_of(shape)};
    if (!t.provider) OCH_TRY(och_op_select_packer(q->device, shape, NULL, &t.provider, err));
    out->provider = t.provider;
    och_status st;
    OCH_TRY_GOTO(lay_out(&t, err));
    OCH_TRY_GOTO(make(&t, options->seed, err));
    st = run_provider(&t, options, out, err);
done:
    och_buf_free(&t.copies);
    och_buf_free(&t.scratch);
    och_buf_free(&t.counters);
    och_buf_free(&t.buf);
    och_free_aligned(t.ref_scratch);
    och_free_aligned(t.image);
    och_free_aligned(t.native);
    return st;
}
