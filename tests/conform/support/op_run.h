/* Running a call by the subject's provider: packing, the way to a device and back, the reference beside it, comparisons. */
#ifndef OCH_TESTS_OP_RUN_H
#define OCH_TESTS_OP_RUN_H

#include "conform/support/op_rig.h"

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
    for (int i = 0; i < rig_provider_count(); i++) {
        const och_op_provider *p = rig_provider_at(i);
        if (p->op == op && rig_serves(p, r->who, r->dev->info.backend)) return p;
    }
    return NULL;
}

/* Gives a call's weights the layout that the provider wants, packing in two pieces where there is room for two. */
static inline void rig_pack(rig *r, const och_op_provider *p, och_op_call *c) {
    int first = c->op == OCH_OP_EMBED ? OCH_EMBED_TABLE : OCH_LINEAR_W0;
    int n = c->op == OCH_OP_EMBED ? 1 : c->op == OCH_OP_LINEAR ? c->attr.linear.n_weights : 0;
    for (int i = 0; p->weight_layout && i < n; i++) {
        och_tensor *w = &c->in[first + i];
        if (w->layout != OCH_LAYOUT_NATIVE) continue;
        uint64_t n_bytes = 0;
        och_layout layout = p->weight_layout(r->dev, w->dtype, w->rows, w->cols, &n_bytes);
        if (layout == OCH_LAYOUT_NATIVE) continue;
        rig_mem *m = rig_buf(r, n_bytes);
        int64_t mid = w->rows > 64 ? (w->rows / 2 + 63) / 64 * 64 : 0;
        if (mid) p->weight_pack(w->dtype, w->rows, w->cols, w->host, rig_host(m), mid, w->rows);
        p->weight_pack(w->dtype, w->rows, w->cols, w->host, rig_host(m), 0, mid ? mid : w->rows);
        m->native = *w;
        w->layout = layout;
        w->addr = m->buf.addr;
        w->host = rig_host(m);
        w->row_bytes = 0;
    }
}

static inline och_tensor *rig_operand(och_op_call *c, int i) {
    och_tensor *t = i < OCH_OP_MAX_IN ? &c->in[i] : &c->out[i - OCH_OP_MAX_IN];
    return och_tensor_present(t) ? t : NULL;
}
enum { RIG_OPERANDS = OCH_OP_MAX_IN + OCH_OP_MAX_OUT };

/* Marks the memory that a call's operands lie in: 1, and 2 where an output does. */
static inline void rig_used(rig *r, och_op_call *c, char used[RIG_MAX_BUFS]) {
    memset(used, 0, RIG_MAX_BUFS);
    for (int i = 0; i < RIG_OPERANDS; i++) {
        och_tensor *t = rig_operand(c, i);
        rig_mem *m = t ? rig_find(r, t->host) : NULL;
        if (m) used[m - r->mem] |= i < OCH_OP_MAX_IN ? 1 : 2;
    }
}

/* The mirrors to the device. */
static inline void rig_upload(rig *r, och_op_call *c) {
    char used[RIG_MAX_BUFS];
    och_err err;
    och_err_clear(&err);
    rig_used(r, c, used);
    for (int i = 0; i < r->n_mem; i++) {
        const rig_mem *m = &r->mem[i];
        if (used[i] && m->mirror)
            rig_ok(r->dev->vtable->copy_to_device(r->queue, m->buf.addr, m->mirror, m->buf.size_bytes, &err), &err, "copy");
    }
    rig_ok(r->dev->vtable->synchronise(r->queue, &err), &err, "synchronise");
}

/* The device to the mirrors. What holds no output must not have changed. */
static inline void rig_download(rig *r, och_op_call *c) {
    char used[RIG_MAX_BUFS];
    och_err err;
    och_err_clear(&err);
    rig_used(r, c, used);
    for (int i = 0; i < r->n_mem; i++) {
        rig_mem *m = &r->mem[i];
        if (!used[i] || !m->mirror) continue;
        uint8_t *now = och_malloc_array((size_t)m->buf.size_bytes, 1);
        assert_non_null(now);
        rig_ok(r->dev->vtable->copy_to_host(r->queue, now, m->buf.addr, m->buf.size_bytes, &err), &err, "copy");
        rig_ok(r->dev->vtable->synchronise(r->queue, &err), &err, "synchronise");
        if (!(used[i] & 2) && memcmp(now, m->mirror, (size_t)m->buf.size_bytes) != 0)
            fail_msg("%s: op %s wrote into an input", r->what, och_op_name(c->op));
        memcpy(m->mirror, now, (size_t)m->buf.size_bytes);
        och_free(now);
    }
}

/* ---- beside the reference: the same call, on copies of what its operands held before it ran ---- */

typedef struct rig_twin {
    och_op_call call; /* of host memory alone */
    uint8_t *copies[RIG_MAX_BUFS];
} rig_twin;

static inline void rig_twin_make(rig *r, och_op_call *c, rig_twin *twin) {
    memset(twin, 0, sizeof *twin);
    twin->call = *c;
    for (int i = 0; i < RIG_OPERANDS; i++) {
        och_tensor *t = rig_operand(&twin->call, i);
        rig_mem *m = t ? rig_find(r, t->host) : NULL;
        if (!m) continue;
        if (t->layout != OCH_LAYOUT_NATIVE) {
            assert_int_not_equal(m->native.dtype, OCH_DTYPE_NONE);
            *t = m->native;
            m = rig_find(r, t->host);
            assert_non_null(m);
        }
        uint8_t **copy = &twin->copies[m - r->mem];
        if (!*copy) {
            *copy = och_malloc_array((size_t)m->buf.size_bytes, 1);
            assert_non_null(*copy);
            memcpy(*copy, rig_host(m), (size_t)m->buf.size_bytes);
        }
        t->host = *copy + ((const uint8_t *)t->host - (const uint8_t *)rig_host(m));
    }
}

static inline float rig_value(const och_tensor *t, int64_t row, int64_t col) {
    float v;
    if (t->dtype == OCH_DTYPE_F8_E4M3) return rig_e4m3_value(((const uint8_t *)rig_bytes(t, row))[col]);
    if (t->dtype == OCH_DTYPE_I32) return (float)((const int32_t *)rig_bytes(t, row))[col];
    och_format_decode_row(t->dtype, (const char *)rig_bytes(t, row) + col * (t->dtype == OCH_DTYPE_F32 ? 4 : 2), &v, 1);
    return v;
}

/* A mean over fewer numbers says little; each of them is held by its own tolerance anyway. */
#define RIG_NMSE_LEAST 64

static inline void rig_twin_compare(rig *r, const och_op_call *c, rig_twin *twin) {
    const och_op_provider *reference = NULL;
    for (int i = 0; i < och_op_provider_count(); i++)
        if (och_op_provider_at(i)->op == c->op && och_op_provider_at(i)->priority < 0) reference = och_op_provider_at(i);
    assert_non_null(reference);
    och_err err;
    och_err_clear(&err);
    och_device *cpu = r->cpu ? r->cpu : r->dev;
    och_op_ctx ctx = {.queue = r->cpu ? r->cpu_queue : r->queue, .reference_asked = true};
    uint64_t n_bytes = reference->scratch_bytes ? reference->scratch_bytes(cpu, &twin->call) : 0;
    och_buf scratch = {0};
    if (n_bytes) rig_ok(och_buf_alloc(cpu, n_bytes, OCH_MEM_DEVICE, &scratch, &err), &err, "allocate scratch");
    ctx.scratch = scratch.host;
    ctx.scratch_addr = scratch.addr;
    ctx.scratch_bytes = n_bytes;
    rig_ok(och_op_run(&ctx, reference, &twin->call, &err), &err, "the reference");
    och_buf_free(&scratch);
    for (int o = 0; o < OCH_OP_MAX_OUT; o++) {
        const och_tensor *y = &c->out[o], *e = &twin->call.out[o];
        if (!och_tensor_present(y) || !y->rows || !y->cols) continue;
        double square = 0.0, error = 0.0;
        for (int64_t i = 0; i < y->rows; i++)
            for (int64_t j = 0; j < y->cols; j++) {
                double found = rig_value(y, i, j), expected = rig_value(e, i, j);
                if (found == expected || (isnan(found) && isnan(expected))) {
                    if (isfinite(expected)) square += expected * expected;
                    continue;
                }
                if (r->odd_alike && !isfinite(found) && !isfinite(expected)) continue;
                if (r->nmse <= 0.0 || !isfinite(found) || !isfinite(expected))
                    fail_msg("%s: op %s: [%lld, %lld]: the reference gives %.9g, found %.9g", r->what, och_op_name(c->op),
                             (long long)i, (long long)j, expected, found);
                square += expected * expected;
                error += (found - expected) * (found - expected);
            }
        if (error <= 0.0 || y->rows * y->cols < RIG_NMSE_LEAST) continue;
        double nmse = error / square;
        if (!(nmse <= r->nmse))
            fail_msg("%s: op %s: normalised mean square error against the reference: expected at most %.1e, found %.3e",
                     r->what, och_op_name(c->op), r->nmse, nmse);
        if (nmse > r->worst_nmse) {
            r->worst_nmse = nmse;
            r->worst_bound = r->nmse;
        }
    }
}

static inline void rig_twin_free(rig_twin *twin) {
    for (int i = 0; i < RIG_MAX_BUFS; i++) och_free(twin->copies[i]);
}

/* ---- running ---- */

static inline och_buf rig_scratch(rig *r, uint64_t n_bytes) {
    och_buf scratch = {0};
    och_err err;
    och_err_clear(&err);
    if (!n_bytes) return scratch;
    rig_ok(och_buf_alloc(r->dev, n_bytes, OCH_MEM_DEVICE, &scratch, &err), &err, "allocate scratch");
    rig_ok(r->dev->vtable->fill(r->queue, scratch.addr, 0xFF, n_bytes, &err), &err, "fill scratch");
    rig_ok(r->dev->vtable->synchronise(r->queue, &err), &err, "synchronise");
    return scratch;
}

/* As a call found them it has to leave them. */
static inline void rig_counters_are_0(rig *r) {
    static uint32_t counters[OCH_OP_COUNTERS];
    och_err err;
    och_err_clear(&err);
    rig_ok(r->dev->vtable->copy_to_host(r->queue, counters, r->counters.addr, sizeof counters, &err), &err, "read counters");
    rig_ok(r->dev->vtable->synchronise(r->queue, &err), &err, "synchronise");
    for (int i = 0; i < OCH_OP_COUNTERS; i++)
        if (counters[i]) fail_msg("%s: counter %d is left at %u", r->what, i, counters[i]);
}

/* Runs the call by the subject's provider. Scratch is exactly as large as asked for and full of NaN. OCH_UNSUPPORTED is
 * counted with its reason, and a failure on a board. On a device that is not the CPU, and where r->odd_alike, the outputs are
 * held against the reference (r->nmse). */
static inline och_status rig_run(rig *r, och_op_call *c, bool invariant, och_err *err) {
    och_err_clear(err);
    const och_op_provider *p = rig_provider(r, c->op);
    if (!p) {
        r->n_unsupported++;
        snprintf(r->reason, sizeof r->reason, "provider %s has no %s for %s", r->who->provider, och_op_name(c->op),
                 r->dev->info.backend);
        return OCH_UNSUPPORTED;
    }
    och_status st = och_op_check(c, err);
    if (st != OCH_OK) return st;
    rig_pack(r, p, c);
    och_op_call there = *c; /* as the device sees it */
    bool mirrored = !r->dev->vtable->unified_memory(r->dev);
    for (int i = 0; i < RIG_OPERANDS && mirrored; i++)
        if (rig_operand(&there, i)) rig_operand(&there, i)->host = NULL;
    st = r->unasked ? OCH_OK : p->supports(r->dev, &there, err);
    if (st != OCH_OK) {
        if (st != OCH_UNSUPPORTED) fail_msg("supports: %s: %s", och_status_name(st), err->message);
        if (tier_of(r->who) == TIER_BOARD) fail_msg("%s: a board's provider declines no case, found: %s", r->what, err->message);
        r->n_unsupported++;
        snprintf(r->reason, sizeof r->reason, "%s", err->message);
        return st;
    }
    static rig_twin twin;
    bool twinned = (r->cpu || r->odd_alike) && !r->no_twin;
    if (twinned) rig_twin_make(r, c, &twin);
    if (mirrored) rig_upload(r, c);
    uint64_t n_bytes = p->scratch_bytes ? p->scratch_bytes(r->dev, &there) : 0;
    och_buf scratch = rig_scratch(r, n_bytes);
    och_op_ctx ctx = {.queue = r->queue, .scratch = scratch.host, .scratch_addr = scratch.addr, .scratch_bytes = n_bytes, .counters = r->counters.addr,
                      .batch_invariant = invariant, .n_runs = r->n_runs, .reference_asked = true};
    st = och_op_run(&ctx, p, &there, err);
    if (st == OCH_OK) st = r->dev->vtable->synchronise(r->queue, err);
    och_buf_free(&scratch);
    if (st == OCH_OK) rig_counters_are_0(r);
    r->n_run++;
    if (st == OCH_OK) {
        if (mirrored) rig_download(r, c);
        if (twinned) rig_twin_compare(r, c, &twin);
        for (int i = 0; i < OCH_OP_MAX_OUT; i++) rig_check_padding(&c->out[i]);
    }
    if (twinned) rig_twin_free(&twin);
    return st;
}

/* True when it ran; false when it is unsupported; any other outcome fails the test. */
static inline bool rig_ran(rig *r, och_op_call *c, bool invariant, const char *what) {
    och_err err;
    r->what = what;
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
