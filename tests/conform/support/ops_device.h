/* What holds of a device rather than of one op: its provider takes what the capability table says, its memory is where the
 * backend says, and the reference tier serves it exactly when the host may dereference that memory. */
#ifndef OCH_TESTS_OPS_DEVICE_H
#define OCH_TESTS_OPS_DEVICE_H

#include "conform/support/op_run.h"

#include "op/registry.h"
#include "quant/capability.h"

static void device_capabilities(rig *r) {
    if (!rig_provider_exists(r->who)) {
        rig_skips("no provider yet: none is called %s", r->who->provider);
        skip();
    }
    for (int op = 0; op < OCH_OP_COUNT_; op++) {
        const och_op_provider *p = rig_provider(r, (och_op_id)op);
        if (!p || p->priority < 0 || !och_op_has_weight((och_op_id)op)) continue;
        for (int t = 0; t < OCH_DTYPE_COUNT_; t++) {
            och_op_call c;
            och_err err = {0};
            bool takes_it = och_op_probe(p, r->dev, (och_op_id)op, (och_dtype)t, &c);
            takes_it = takes_it && och_op_provider_supports(p, r->dev, &c, &err) == OCH_OK;
            och_verdict v = och_capability(p->name, r->dev->info.arch, (och_dtype)t, och_op_name((och_op_id)op))->verdict;
            bool table = v == OCH_VERDICT_NATIVE || v == OCH_VERDICT_DECODE_IN_KERNEL;
            if (takes_it != table)
                fail_msg("op %s, provider %s, %s: the table says %s, the predicate says %s (%s)", och_op_name((och_op_id)op),
                         p->name, och_dtype_name((och_dtype)t), och_verdict_name(v), takes_it ? "yes" : "no", err.message);
            r->n_run++;
        }
    }
}

/* With the reference asked for by name: it runs, or the refusal names op and device. */
static void device_reference(rig *r) {
    bool unified = r->dev->vtable->unified_memory(r->dev);
    for (int op = 0; op < OCH_OP_COUNT_; op++) {
        och_op_call c;
        assert_true(och_op_probe(NULL, r->dev, (och_op_id)op, OCH_DTYPE_Q8_0, &c));
        const och_op_provider *p = NULL;
        och_err err = {0};
        och_status st = och_op_select(r->dev, &c, "reference", &p, &err);
        if (unified) {
            assert_int_equal(st, OCH_OK);
            assert_string_equal(p->name, "reference");
        } else {
            assert_int_equal(st, OCH_UNSUPPORTED);
            if (!strstr(err.message, och_op_name((och_op_id)op)) || !strstr(err.message, r->dev->info.backend))
                fail_msg("expected the op's name and the device's in: %s", err.message);
        }
        r->n_run++;
    }
    if (!unified) return;
    /* The board's own memory under the host's feet: the same bytes as on the CPU. */
    static const subject reference = {.device = "", .provider = "reference", .label = "reference"};
    const subject *who = r->who;
    r->who = &reference;
    rng g = {50000};
    for (int v = 0; v < 4; v++) {
        och_op_call c = rig_call(v % 2 ? OCH_OP_LINEAR : OCH_OP_ADD);
        c.in[0] = rig_random(r, &g, 5, 96, 1.0, 0);
        if (c.op == OCH_OP_ADD) c.in[1] = rig_random(r, &g, 5, 96, 1.0, 0);
        else c.in[OCH_LINEAR_W0] = rig_weight(r, &g, OCH_DTYPE_Q4_1, 96, 96, 0.1), c.attr.linear.n_weights = 1;
        c.out[0] = rig_tensor(r, OCH_DTYPE_F32, 5, 96, 0);
        r->nmse = 0.0;
        assert_true(rig_ran(r, &c, false, "the reference on a board"));
        rig_reset(r);
    }
    r->who = who;
}

/* A kernel writes and the host reads the same address without a copy exactly where the backend states unified memory. */
static void device_memory(rig *r) {
    enum { N = 3, D = 320 };
    och_err err = {0};
    const och_device_vtable *v = r->dev->vtable;
    rng g = {51000};
    och_op_call c = rig_call(OCH_OP_ADD);
    c.in[0] = rig_random(r, &g, N, D, 1.0, 0);
    c.in[1] = rig_random(r, &g, N, D, 1.0, 0);
    c.out[0] = rig_tensor(r, OCH_DTYPE_F32, N, D, 0);
    const rig_mem *m = rig_find(r, c.out[0].host);
    assert_int_equal(m->buf.host != NULL, v->unified_memory(r->dev));
    assert_int_equal(och_dev_host(r->dev, m->buf.addr) != NULL, v->unified_memory(r->dev));
    if (!m->buf.host) {
        r->n_run++;
        return; /* every other case goes by copies there */
    }
    assert_int_equal((uintptr_t)m->buf.host, m->buf.addr.value);
    const och_op_provider *p = rig_provider(r, OCH_OP_ADD);
    if (!p) return;
    rig_ok(p->supports(r->dev, &c, &err), &err, "supports");
    och_op_ctx ctx = {.queue = r->queue};
    rig_ok(och_op_run(&ctx, p, &c, &err), &err, "run");
    rig_ok(v->synchronise(r->queue, &err), &err, "synchronise");
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j < D; j++)
            rig_near(rig_row(&c.out[0], i)[j], rig_row(&c.in[0], i)[j] + rig_row(&c.in[1], i)[j], 0.0, "read in place", i, j);
    r->n_run++;
    rig_reset(r);
}

/* ---- tensors of more than 4 GiB: a few rows of them hold something ---- */

/* False, with a note, where the device has not that much memory. */
static bool far_alloc(rig *r, uint64_t n_bytes, och_buf *out_buf) {
    och_err err = {0};
    och_status st = och_buf_alloc(r->dev, n_bytes, OCH_MEM_DEVICE, out_buf, &err);
    if (st == OCH_OK) return true;
    if (st != OCH_NOMEM) fail_msg("allocate: %s: %s", och_status_name(st), err.message);
    r->n_unsupported++;
    snprintf(r->reason, sizeof r->reason, "%s", err.message);
    return false;
}

static void far_copy(rig *r, och_dev_addr at, void *host, uint64_t n_bytes, bool to_device) {
    och_err err = {0};
    const och_device_vtable *v = r->dev->vtable;
    rig_ok(to_device ? v->copy_to_device(r->queue, at, host, n_bytes, &err)
                     : v->copy_to_host(r->queue, host, at, n_bytes, &err), &err, "copy");
    rig_ok(v->synchronise(r->queue, &err), &err, "synchronise");
}

/* Without the rig's way there and back, which would copy it all. */
static bool far_run(rig *r, const och_op_call *c) {
    och_err err = {0};
    const och_op_provider *p = rig_provider(r, c->op);
    if (!p || p->supports(r->dev, c, &err) == OCH_UNSUPPORTED) {
        r->n_unsupported++;
        snprintf(r->reason, sizeof r->reason, "%s", p ? err.message : "no provider yet");
        return false;
    }
    och_op_ctx ctx = {.queue = r->queue};
    rig_ok(och_op_check(c, &err), &err, "check");
    rig_ok(och_op_run(&ctx, p, c, &err), &err, "run");
    rig_ok(r->dev->vtable->synchronise(r->queue, &err), &err, "synchronise");
    r->n_run++;
    return true;
}

static void device_far(rig *r) {
    enum { N = 4, D = 64, K = 8192, V = 600000 };
    const uint64_t stride = UINT64_C(3) << 29;
    float a[N][D], b[N][D], y[N][D];
    rng g = {52000};
    rng_fill(&g, &a[0][0], N * D, 1.0);
    rng_fill(&g, &b[0][0], N * D, 1.0);
    och_buf far, near, other;
    if (!far_alloc(r, (N - 1) * stride + D * 4, &far)) return;
    if (!far_alloc(r, sizeof b, &near) || !far_alloc(r, sizeof y, &other)) fail_msg("no memory left");
    och_tensor rows = {.dtype = OCH_DTYPE_F32, .rows = N, .cols = D, .row_bytes = stride, .addr = far.addr};
    och_tensor small = {.dtype = OCH_DTYPE_F32, .rows = N, .cols = D, .row_bytes = D * 4, .addr = near.addr}, out = small;
    out.addr = other.addr;
    for (int i = 0; i < N; i++) far_copy(r, och_dev_addr_add(far.addr, (uint64_t)i * stride), a[i], D * 4, true);
    far_copy(r, near.addr, b, sizeof b, true);
    /* Read rows far apart, then write them. */
    och_op_call c = rig_call(OCH_OP_ADD);
    c.in[0] = rows;
    c.in[1] = small;
    c.out[0] = out;
    if (far_run(r, &c)) {
        far_copy(r, other.addr, y, sizeof y, false);
        for (int i = 0; i < N; i++)
            for (int j = 0; j < D; j++) rig_near(y[i][j], a[i][j] + b[i][j], 0.0, "rows far apart", i, j);
        c.in[0] = out;
        c.out[0] = rows;
        assert_true(far_run(r, &c));
        for (int i = 0; i < N; i++) far_copy(r, och_dev_addr_add(far.addr, (uint64_t)i * stride), y[i], D * 4, false);
        for (int i = 0; i < N; i++)
            for (int j = 0; j < D; j++)
                rig_near(y[i][j], (float)(a[i][j] + b[i][j]) + b[i][j], 0.0, "rows written far apart", i, j);
    }
    och_buf_free(&far);
    och_buf_free(&near);
    och_buf_free(&other);
    /* Rows of a table, at its ends and on both sides of 4 GiB. */
    const och_op_provider *p = rig_provider(r, OCH_OP_EMBED);
    if (!p || !p->weight_layout) return;
    uint64_t n_bytes = 0, file;
    och_layout layout = p->weight_layout(r->dev, OCH_DTYPE_Q8_0, V, K, &n_bytes);
    assert_true(och_dtype_row_bytes(OCH_DTYPE_Q8_0, K, &file));
    uint64_t row_bytes = n_bytes / V, middle = (UINT64_C(1) << 32) / row_bytes;
    int32_t ids[N] = {0, (int32_t)middle - 1, (int32_t)middle + 1, V - 1};
    if (!far_alloc(r, n_bytes, &far)) return;
    if (!far_alloc(r, sizeof ids, &near) || !far_alloc(r, (uint64_t)N * K * 4, &other)) fail_msg("no memory left");
    float *values = och_malloc_array((size_t)N * K, sizeof *values), *decoded = och_malloc_array(K, sizeof *decoded);
    uint8_t *raw = och_malloc_array((size_t)file * N, 1), *packed = och_malloc_array((size_t)row_bytes, 1);
    assert_true(values && decoded && raw && packed);
    rng_fill(&g, values, N * K, 0.1);
    for (int i = 0; i < N; i++) {
        och_err err = {0};
        rig_ok(och_format_encode_row(OCH_DTYPE_Q8_0, values + i * K, raw + (uint64_t)i * file, K, &err), &err, "encode");
        p->weight_pack(OCH_DTYPE_Q8_0, 1, K, raw + (uint64_t)i * file, packed, 0, 1);
        far_copy(r, och_dev_addr_add(far.addr, (uint64_t)ids[i] * row_bytes), packed, row_bytes, true);
    }
    far_copy(r, near.addr, ids, sizeof ids, true);
    c = rig_call(OCH_OP_EMBED);
    c.attr.embed.scale = 1.0f;
    c.in[OCH_EMBED_IDS] = (och_tensor){.dtype = OCH_DTYPE_I32, .rows = N, .cols = 1, .row_bytes = 4, .addr = near.addr};
    c.in[OCH_EMBED_TABLE] = (och_tensor){.dtype = OCH_DTYPE_Q8_0, .layout = layout, .rows = V, .cols = K, .addr = far.addr};
    c.out[0] = (och_tensor){.dtype = OCH_DTYPE_F32, .rows = N, .cols = K, .row_bytes = K * 4, .addr = other.addr};
    if (far_run(r, &c)) {
        far_copy(r, other.addr, values, (uint64_t)N * K * 4, false);
        for (int i = 0; i < N; i++) {
            och_format_decode_row(OCH_DTYPE_Q8_0, raw + (uint64_t)i * file, decoded, K);
            for (int j = 0; j < K; j++) rig_near(values[i * K + j], decoded[j], 0.0, "rows of a large table", i, j);
        }
    }
    och_free(values);
    och_free(decoded);
    och_free(raw);
    och_free(packed);
    och_buf_free(&far);
    och_buf_free(&near);
    och_buf_free(&other);
}

#endif
