/* A product by the kernels and by the library, in turns. */
#include "op/blas/time.h"

#include "base/size.h"
#include "base/thread.h"
#include "op/blas/blas.h"
#include "op/gpu/gpu.h"
#include "op/gpu/tune_time.h"

#include <stdlib.h>

enum { ROUNDS = 7, MOST_RUNS = 50, MOST_COPIES = 8 };
#define ROUND_SECONDS 0.003

typedef struct bench {
    och_queue *q;
    och_op_call call;
    och_op_ctx ctx;
    och_buf x, y, w, scratch;
    uint64_t w_bytes; /* of a copy of the weight */
    int n_copies, next;
} bench;

static och_status upload(bench *b, const och_tensor *w, const och_tensor *x, och_err *err) {
    const och_device_vtable *v = b->q->device->vtable;
    OCH_TRY(och_gpu_tune_upload(b->q, b->w.addr, w, true, b->w_bytes, err));
    for (int i = 1; i < b->n_copies; i++)
        OCH_TRY(v->copy(b->q, och_dev_addr_add(b->w.addr, (uint64_t)i * b->w_bytes), b->w.addr, b->w_bytes, err));
    return och_gpu_tune_upload(b->q, b->x.addr, x, false, 0, err);
}

static och_status set_up(bench *b, och_dtype t, int64_t m, int64_t k, int64_t rows, och_err *err) {
    och_device *d = b->q->device;
    och_op_call *c = &b->call;
    uint64_t held;
    c->op = OCH_OP_LINEAR;
    for (int i = 0; i < OCH_OP_MAX_IN; i++) c->in[i].dtype = OCH_DTYPE_NONE;
    for (int i = 0; i < OCH_OP_MAX_OUT; i++) c->out[i].dtype = OCH_DTYPE_NONE;
    c->attr.linear.n_weights = 1;
    c->in[OCH_LINEAR_X] = (och_tensor){.dtype = OCH_DTYPE_F32, .rows = rows, .cols = k, .row_bytes = (uint64_t)k * 4};
    c->out[0] = (och_tensor){.dtype = OCH_DTYPE_F32, .rows = rows, .cols = m, .row_bytes = (uint64_t)m * 4};
    c->in[OCH_LINEAR_W0] = (och_tensor){.dtype = t, .rows = m, .cols = k, .layout = OCH_LAYOUT_NATIVE};
    if (!och_dtype_row_bytes(t, (uint64_t)k, &c->in[OCH_LINEAR_W0].row_bytes))
        return och_err_set(err, OCH_INVALID, "%s: rows of %lld are no whole blocks", och_dtype_name(t), (long long)k);
    OCH_TRY(och_op_check(c, err));
    c->in[OCH_LINEAR_W0].layout = och_gpu_weight_layout(d, t, m, k, &b->w_bytes);
    OCH_TRY(och_blas_linear_supports(d, c, err));
    /* enough copies of the weight that none is still in the cache when its turn comes again */
    if (!och_u64_align(b->w_bytes, 256, &b->w_bytes)) return och_err_set(err, OCH_RANGE, "a weight's bytes overflow");
    b->n_copies = (int)OCH_MIN(2 * d->info.l2_bytes / b->w_bytes + 1, MOST_COPIES);
    if (!och_u64_mul(b->w_bytes, (uint64_t)b->n_copies, &held)) return och_err_set(err, OCH_RANGE, "a weight's bytes overflow");
    OCH_TRY(och_buf_alloc(d, held, OCH_MEM_DEVICE, &b->w, err));
    OCH_TRY(och_buf_alloc(d, (uint64_t)rows * (uint64_t)k * 4, OCH_MEM_DEVICE, &b->x, err));
    OCH_TRY(och_buf_alloc(d, (uint64_t)rows * (uint64_t)m * 4, OCH_MEM_DEVICE, &b->y, err));
    OCH_TRY(och_buf_alloc(d, och_blas_linear_scratch(d, c), OCH_MEM_DEVICE, &b->scratch, err));
    OCH_TRY(upload(b, &c->in[OCH_LINEAR_W0], &c->in[OCH_LINEAR_X], err));
    c->in[OCH_LINEAR_X].addr = b->x.addr, c->in[OCH_LINEAR_X].host = b->x.host;
    c->out[0].addr = b->y.addr, c->out[0].host = b->y.host;
    c->in[OCH_LINEAR_W0].row_bytes = 0;
    b->ctx = (och_op_ctx){.queue = b->q, .scratch = b->scratch.host, .scratch_addr = b->scratch.addr,
                          .scratch_bytes = b->scratch.size_bytes};
    return OCH_OK;
}

static och_status time_runs(bench *b, bool library, int n, double *out_seconds, och_err *err) {
    double begin = och_now_seconds();
    for (int i = 0; i < n; i++) {
        och_tensor *w = &b->call.in[OCH_LINEAR_W0];
        uint64_t at = (uint64_t)(b->next++ % b->n_copies) * b->w_bytes;
        w->addr = och_dev_addr_add(b->w.addr, at);
        w->host = b->w.host ? (char *)b->w.host + at : NULL;
        OCH_TRY(library ? och_blas_linear(&b->ctx, &b->call, err) : och_gpu_linear_run(&b->ctx, &b->call, err));
    }
    OCH_TRY(b->q->device->vtable->synchronise(b->q, err));
    *out_seconds = (och_now_seconds() - begin) / n;
    return OCH_OK;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static och_status in_turns(bench *b, och_blas_time *out, och_err *err) {
    double seconds[2][ROUNDS];
    int runs[2];
    for (int i = 0; i < 2; i++) { /* the first loads, the second tells how many make a round */
        OCH_TRY(time_runs(b, i, b->n_copies, &seconds[i][0], err));
        OCH_TRY(time_runs(b, i, b->n_copies, &seconds[i][0], err));
        double fit = ROUND_SECONDS / OCH_MAX(seconds[i][0], 1e-7);
        runs[i] = fit < 1.0 ? 1 : fit > MOST_RUNS ? MOST_RUNS : (int)fit;
    }
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < 2; i++) OCH_TRY(time_runs(b, i, runs[i], &seconds[i][r], err));
    for (int i = 0; i < 2; i++) qsort(seconds[i], ROUNDS, sizeof seconds[i][0], by_value);
    out->kernel_us = seconds[0][ROUNDS / 2] * 1e6;
    out->library_us = seconds[1][ROUNDS / 2] * 1e6;
    return OCH_OK;
}

och_status och_blas_measure(och_queue *q, och_dtype dtype, int64_t m, int64_t k, int64_t rows, och_blas_time *out, och_err *err) {
    bench b = {.q = q};
    *out = (och_blas_time){.dtype = dtype, .m = m, .k = k, .rows = rows};
    och_status st = set_up(&b, dtype, m, k, rows, err);
    if (st == OCH_OK) st = in_turns(&b, out, err);
    och_buf_free(&b.scratch);
    och_buf_free(&b.y);
    och_buf_free(&b.x);
    och_buf_free(&b.w);
    return st;
}
