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

#endif
