/* What the op conformance cases share: a device with buffers, fixed-seed numbers, and running a call by a provider.
 * Included by one test executable. */
#ifndef OCH_TESTS_OP_RIG_H
#define OCH_TESTS_OP_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/half.h"
#include "dev/cpu/cpu.h"
#include "op/op.h"
#include "quant/format.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The sanitizer builds leave the largest products to the release build: they are after addresses, not values. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RIG_MAX_PRODUCT 300000
#else
#define RIG_MAX_PRODUCT INT64_MAX
#endif

/* ---- numbers ---- */

typedef struct rng {
    uint64_t state;
} rng;

static inline uint64_t rng_u64(rng *r) { /* splitmix64: Steele, Lea, Flood 2014 */
    uint64_t z = (r->state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}
static inline double rng_unit(rng *r) { return ((double)(rng_u64(r) >> 11) + 0.5) * 0x1p-53; }
static inline int rng_below(rng *r, int n) { return (int)(rng_u64(r) % (uint64_t)n); }
static inline float rng_gauss(rng *r) {
    double u = rng_unit(r), v = rng_unit(r);
    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
}
static inline void rng_fill(rng *r, float *x, int64_t n, double scale) {
    for (int64_t i = 0; i < n; i++) x[i] = (float)(scale * rng_gauss(r));
}

/* ---- who is tested ---- */

typedef struct subject {
    const char *provider; /* its name */
    const char *isa;      /* OCHRE_CPU_ISA while the device is opened; NULL: as it is */
    char label[64];
} subject;

static inline bool is_reference(const subject *s) { return strcmp(s->provider, "reference") == 0; }

/* ---- a device and its memory ---- */

#define RIG_MAX_BUFS 128
#define RIG_FILL 0xA5

typedef struct rig {
    const subject *who;
    och_device *dev;
    och_queue *queue;
    och_buf bufs[RIG_MAX_BUFS];
    int n_bufs;
    int n_run, n_unsupported;
    char reason[OCH_ERR_MESSAGE_BYTES]; /* of the last UNSUPPORTED */
} rig;

static inline void rig_ok(och_status st, const och_err *err, const char *what) {
    if (st != OCH_OK) fail_msg("%s: %s: %s", what, och_status_name(st), err->message);
}

/* Where skips are written (a test's own output is silenced). */
static FILE *rig_notes;

static inline void rig_skips(const char *fmt, ...) OCH_PRINTF(1, 2);
static inline void rig_skips(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    fprintf(rig_notes, "             skip, unsupported: ");
    vfprintf(rig_notes, fmt, args);
    fprintf(rig_notes, "\n");
    fflush(rig_notes);
    va_end(args);
}

/* Skips the test (with the reason) where this machine does not reach the instruction set asked for. */
static inline void rig_open(rig *r, const subject *who, int n_threads) {
    memset(r, 0, sizeof *r);
    r->who = who;
    och_err err;
    och_err_clear(&err);
    if (who->isa) setenv("OCHRE_CPU_ISA", who->isa, 1);
    else unsetenv("OCHRE_CPU_ISA");
    och_dev_options options = {.n_threads = n_threads};
    rig_ok(och_device_open("cpu", &options, &r->dev, &err), &err, "open cpu");
    if (who->isa && strcmp(och_cpu_isa_name(och_cpu_device_isa(r->dev)), who->isa) != 0) {
        rig_skips("this machine reaches %s, not %s", och_cpu_isa_name(och_cpu_device_isa(r->dev)), who->isa);
        och_device_release(r->dev);
        skip();
    }
    rig_ok(r->dev->vtable->queue_create(r->dev, &r->queue, &err), &err, "create a queue");
}

static inline void rig_reset(rig *r) {
    for (int i = 0; i < r->n_bufs; i++) och_buf_free(&r->bufs[i]);
    r->n_bufs = 0;
}

/* Says what was not run and why; a test that could run nothing is a skip. */
static inline void rig_close(rig *r) {
    rig_reset(r);
    r->dev->vtable->queue_destroy(r->queue);
    och_device_release(r->dev);
    if (r->n_unsupported)
        rig_skips("%d of %d calls, the last: %s", r->n_unsupported, r->n_unsupported + r->n_run, r->reason);
    if (r->n_unsupported && !r->n_run) skip();
}

static inline och_buf *rig_buf(rig *r, uint64_t size_bytes) {
    assert_true(r->n_bufs < RIG_MAX_BUFS);
    och_err err;
    och_err_clear(&err);
    och_buf *b = &r->bufs[r->n_bufs];
    rig_ok(och_buf_alloc(r->dev, size_bytes ? size_bytes : 1, OCH_MEM_DEVICE, b, &err), &err, "allocate");
    r->n_bufs++;
    assert_non_null(b->host);
    memset(b->host, RIG_FILL, size_bytes ? size_bytes : 1);
    return b;
}

/* pad_bytes lie between rows and must survive every op. */
static inline och_tensor rig_tensor(rig *r, och_dtype dtype, int64_t rows, int64_t cols, uint64_t pad_bytes) {
    uint64_t row;
    assert_true(och_dtype_row_bytes(dtype, (uint64_t)cols, &row));
    och_buf *b = rig_buf(r, (row + pad_bytes) * (uint64_t)rows);
    return (och_tensor){.dtype = dtype, .rows = rows, .cols = cols, .row_bytes = row + pad_bytes, .addr = b->addr,
                        .host = b->host};
}

static inline float *rig_row(const och_tensor *t, int64_t row) {
    return (float *)((char *)t->host + (uint64_t)row * t->row_bytes);
}
static inline int32_t *rig_int(const och_tensor *t, int64_t row) {
    return (int32_t *)((char *)t->host + (uint64_t)row * t->row_bytes);
}
static inline const void *rig_bytes(const och_tensor *t, int64_t row) {
    return (const char *)t->host + (uint64_t)row * t->row_bytes;
}

static inline och_tensor rig_f32(rig *r, int64_t rows, int64_t cols, const float *values) {
    och_tensor t = rig_tensor(r, OCH_DTYPE_F32, rows, cols, 0);
    if (values && rows > 0 && cols > 0) memcpy(t.host, values, (size_t)(rows * cols) * sizeof *values);
    return t;
}
static inline och_tensor rig_i32(rig *r, int64_t rows, int64_t cols, const int32_t *values) {
    och_tensor t = rig_tensor(r, OCH_DTYPE_I32, rows, cols, 0);
    if (values && rows > 0 && cols > 0) memcpy(t.host, values, (size_t)(rows * cols) * sizeof *values);
    return t;
}
static inline och_tensor rig_random(rig *r, rng *g, int64_t rows, int64_t cols, double scale, uint64_t pad_bytes) {
    och_tensor t = rig_tensor(r, OCH_DTYPE_F32, rows, cols, pad_bytes);
    for (int64_t i = 0; i < rows; i++) rng_fill(g, rig_row(&t, i), cols, scale);
    return t;
}
/* A weight of any format, encoded from random values. */
static inline och_tensor rig_weight(rig *r, rng *g, och_dtype dtype, int64_t rows, int64_t cols, double scale) {
    och_tensor t = rig_tensor(r, dtype, rows, cols, 0);
    float *row = och_malloc_array((size_t)cols, sizeof *row);
    assert_non_null(row);
    for (int64_t i = 0; i < rows; i++) {
        och_err err;
        och_err_clear(&err);
        rng_fill(g, row, cols, scale);
        rig_ok(och_format_encode_row(dtype, row, (char *)t.host + (uint64_t)i * t.row_bytes, (uint64_t)cols, &err), &err,
               "encode a weight row");
    }
    och_free(row);
    return t;
}
static inline void rig_decode(const och_tensor *w, int64_t row, float *dst) {
    och_format_decode_row(w->dtype, rig_bytes(w, row), dst, (uint64_t)w->cols);
}

/* The padding of every row still holds what it was filled with. */
static inline void rig_check_padding(const och_tensor *t) {
    uint64_t row;
    if (!och_tensor_present(t) || t->layout != OCH_LAYOUT_NATIVE || !t->cols) return;
    assert_true(och_dtype_row_bytes(t->dtype, (uint64_t)t->cols, &row));
    for (int64_t i = 0; i < t->rows; i++)
        for (uint64_t j = row; j < t->row_bytes; j++)
            if (((const uint8_t *)t->host)[(uint64_t)i * t->row_bytes + j] != RIG_FILL)
                fail_msg("row %lld: the padding at byte %llu was written", (long long)i, (unsigned long long)j);
}

/* ---- calls ---- */

static inline och_op_call rig_call(och_op_id op) {
    och_op_call c;
    memset(&c, 0, sizeof c);
    c.op = op;
    for (int i = 0; i < OCH_OP_MAX_IN; i++) c.in[i].dtype = OCH_DTYPE_NONE;
    for (int i = 0; i < OCH_OP_MAX_OUT; i++) c.out[i].dtype = OCH_DTYPE_NONE;
    return c;
}

static inline const och_op_provider *rig_provider(const rig *r, och_op_id op) {
    for (int i = 0; i < och_op_provider_count(); i++) {
        const och_op_provider *p = och_op_provider_at(i);
        if (p->op == op && strcmp(p->name, r->who->provider) == 0 &&
            (strcmp(p->backend, "*") == 0 || strcmp(p->backend, r->dev->info.backend) == 0))
            return p;
    }
    return NULL;
}

/* Gives a LINEAR call's weights the layout that the provider wants, packing in two pieces where there is room for two. */
static inline void rig_pack(rig *r, const och_op_provider *p, och_op_call *c) {
    if (!p->weight_layout) return;
    for (int i = 0; i < c->attr.linear.n_weights; i++) {
        och_tensor *w = &c->in[OCH_LINEAR_W0 + i];
        uint64_t n_bytes = 0;
        och_layout layout = p->weight_layout(r->dev, w->dtype, w->rows, w->cols, &n_bytes);
        if (layout == OCH_LAYOUT_NATIVE) continue;
        och_buf *b = rig_buf(r, n_bytes);
        int64_t mid = w->rows > 64 ? (w->rows / 2 + 63) / 64 * 64 : 0;
        if (mid) p->weight_pack(w->dtype, w->rows, w->cols, w->host, b->host, mid, w->rows);
        p->weight_pack(w->dtype, w->rows, w->cols, w->host, b->host, 0, mid ? mid : w->rows);
        w->layout = layout;
        w->addr = b->addr;
        w->host = b->host;
        w->row_bytes = 0;
    }
}

/* Runs the call by the subject's provider. Scratch is exactly as large as asked for and full of NaN. OCH_UNSUPPORTED is
 * counted with its reason. */
static inline och_status rig_run(rig *r, och_op_call *c, bool invariant, och_err *err) {
    och_err_clear(err);
    const och_op_provider *p = rig_provider(r, c->op);
    if (!p) {
        r->n_unsupported++;
        snprintf(r->reason, sizeof r->reason, "provider %s has no %s", r->who->provider, och_op_name(c->op));
        return OCH_UNSUPPORTED;
    }
    och_status st = och_op_check(c, err);
    if (st != OCH_OK) return st;
    if (c->op == OCH_OP_LINEAR) rig_pack(r, p, c);
    st = p->supports(r->dev, c, err);
    if (st != OCH_OK) {
        if (st != OCH_UNSUPPORTED) fail_msg("supports: %s: %s", och_status_name(st), err->message);
        r->n_unsupported++;
        snprintf(r->reason, sizeof r->reason, "%s", err->message);
        return st;
    }
    uint64_t n_bytes = p->scratch_bytes ? p->scratch_bytes(r->dev, c) : 0;
    och_buf scratch = {0};
    if (n_bytes) {
        rig_ok(och_buf_alloc(r->dev, n_bytes, OCH_MEM_DEVICE, &scratch, err), err, "allocate scratch");
        memset(scratch.host, 0xFF, n_bytes);
    }
    och_op_ctx ctx = {.queue = r->queue, .scratch = scratch.host, .scratch_addr = scratch.addr, .scratch_bytes = n_bytes,
                      .batch_invariant = invariant, .reference_asked = true};
    st = och_op_run(&ctx, p, c, err);
    if (st == OCH_OK) st = r->dev->vtable->synchronise(r->queue, err);
    och_buf_free(&scratch);
    r->n_run++;
    if (st == OCH_OK)
        for (int i = 0; i < OCH_OP_MAX_OUT; i++) rig_check_padding(&c->out[i]);
    return st;
}

/* True when it ran; false when it is unsupported; any other outcome fails the test. */
static inline bool rig_ran(rig *r, och_op_call *c, bool invariant, const char *what) {
    och_err err;
    och_status st = rig_run(r, c, invariant, &err);
    if (st != OCH_OK && st != OCH_UNSUPPORTED) fail_msg("%s: %s: %s", what, och_status_name(st), err.message);
    return st == OCH_OK;
}

/* ---- comparisons ---- */

static inline void rig_near(double found, double expected, double tolerance, const char *what, int64_t row, int64_t col) {
    if (!(fabs(found - expected) <= tolerance))
        fail_msg("%s: [%lld, %lld]: expected %.9g within %.3g, found %.9g", what, (long long)row, (long long)col, expected,
                 tolerance, found);
}
static inline void rig_near_all(const och_tensor *y, const float *expected, double tolerance, const char *what) {
    for (int64_t i = 0; i < y->rows; i++)
        for (int64_t j = 0; j < y->cols; j++)
            rig_near(rig_row(y, i)[j], expected[i * y->cols + j], tolerance, what, i, j);
}
/* Row a of x and row b of y hold the same bytes. */
static inline void rig_same_row(const och_tensor *x, int64_t a, const och_tensor *y, int64_t b, const char *what) {
    assert_int_equal(x->cols, y->cols);
    if (memcmp(rig_row(x, a), rig_row(y, b), (size_t)x->cols * sizeof(float)) == 0) return;
    for (int64_t j = 0; j < x->cols; j++)
        if (memcmp(rig_row(x, a) + j, rig_row(y, b) + j, sizeof(float)) != 0)
            fail_msg("%s: row %lld as row %lld, column %lld: expected the same bytes, found %.9g and %.9g", what,
                     (long long)a, (long long)b, (long long)j, (double)rig_row(x, a)[j], (double)rig_row(y, b)[j]);
}

#endif
