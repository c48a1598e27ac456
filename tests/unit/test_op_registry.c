#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/size.h"
#include "base/thread.h"
#include "dev/dev.h"
#include "op/op.h"
#include "op/registry.h"
#include "quant/capability.h"
#include "quant/format.h"

#include <pthread.h>
#include <string.h>

static och_device *cpu, *null_device;

static int open_devices(void **s) {
    (void)s;
    och_dev_options options = {.n_threads = 1};
    return och_device_open("cpu", &options, &cpu, NULL) || och_device_open("null", &options, &null_device, NULL);
}
static int close_devices(void **s) {
    (void)s;
    och_device_release(cpu);
    och_device_release(null_device);
    return 0;
}

static void assert_says(const och_err *err, const char *text) {
    if (!strstr(err->message, text)) fail_msg("expected \"%s\" in: %s", text, err->message);
}

/* ---- providers of the test's own ---- */

static int asked[8];
static och_status takes(const och_device *d, const och_op_call *c, och_err *err) {
    (void)d, (void)c, (void)err;
    asked[0]++;
    return OCH_OK;
}
static och_status declines(const och_device *d, const och_op_call *c, och_err *err) {
    (void)d, (void)c;
    asked[1]++;
    return och_err_set(err, OCH_UNSUPPORTED, "columns are not a multiple of 77");
}
static och_status fails(const och_device *d, const och_op_call *c, och_err *err) {
    (void)d, (void)c;
    asked[2]++;
    return och_err_set(err, OCH_DEVICE, "the board fell off");
}
static och_status runs(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    (void)ctx, (void)c, (void)err;
    return OCH_OK;
}
static och_layout layout(const och_device *d, och_dtype t, int64_t rows, int64_t cols, uint64_t *out_bytes) {
    (void)d, (void)t;
    *out_bytes = (uint64_t)(rows * cols);
    return OCH_LAYOUT_NATIVE;
}

static const och_op_provider slow = {"slow", "*", -5, OCH_OP_ADD, .supports = takes, .run = runs};
static const och_op_provider fast = {"fast", "cpu", 10, OCH_OP_ADD, .supports = takes, .run = runs};
static const och_op_provider picky = {"picky", "cpu", 20, OCH_OP_ADD, .supports = declines, .run = runs};
static const och_op_provider broken = {"broken", "cpu", 30, OCH_OP_ADD, .supports = fails, .run = runs};
static const och_op_provider other_op = {"fast", "cpu", 99, OCH_OP_GLU, .supports = takes, .run = runs};
static const och_op_provider elsewhere = {"fast", "moon", 99, OCH_OP_ADD, .supports = takes, .run = runs};
static const och_op_provider shadow = {"fast", "cpu", -7, OCH_OP_ADD, .supports = declines, .run = runs};
static const och_op_provider nameless = {NULL, "cpu", 1, OCH_OP_ADD, .supports = takes, .run = runs};
static const och_op_provider blind = {"blind", "cpu", 1, OCH_OP_ADD, .run = runs};
static const och_op_provider idle = {"idle", "cpu", 1, OCH_OP_ADD, .supports = takes};
static const och_op_provider half_packed = {"half", "cpu", 1, OCH_OP_LINEAR, .supports = takes, .run = runs,
                                            .weight_layout = layout};

static och_op_call add_call(void) {
    och_op_call c;
    och_op_probe(NULL, cpu, OCH_OP_ADD, OCH_DTYPE_NONE, &c);
    return c;
}

static void the_list_of_this_build_is_sound(void **s) {
    (void)s;
    const och_op_provider *list[OCH_OP_MAX_PROVIDERS];
    och_err err = {0};
    int n = och_op_provider_count();
    assert_true(n >= OCH_OP_COUNT_ && n <= OCH_OP_MAX_PROVIDERS);
    for (int i = 0; i < n; i++) list[i] = och_op_provider_at(i);
    if (och_op_providers_check(list, n, &err) != OCH_OK) fail_msg("%s", err.message);
    assert_null(och_op_provider_at(n));
    assert_null(och_op_provider_at(-1));
    /* Every op has a reference below zero, for any device. */
    for (int op = 0; op < OCH_OP_COUNT_; op++) {
        const och_op_provider *p = och_op_provider_at(op);
        assert_int_equal(p->op, op);
        assert_string_equal(p->name, "reference");
        assert_string_equal(p->backend, "*");
        assert_true(p->priority < 0);
    }
    for (int i = OCH_OP_COUNT_; i < n; i++) assert_true(list[i]->priority > 0);
}

static void duplicates_overflow_and_gaps_are_refused(void **s) {
    (void)s;
    och_err err = {0};
    const och_op_provider *distinct[] = {&slow, &fast, &picky, &other_op, &elsewhere};
    assert_int_equal(och_op_providers_check(distinct, 5, &err), OCH_OK);
    const och_op_provider *twice[] = {&slow, &fast, &picky, &shadow};
    assert_int_equal(och_op_providers_check(twice, 4, &err), OCH_INTERNAL);
    assert_says(&err, "op providers 1 and 3: both are fast for op add on backend cpu");
    const och_op_provider *many[OCH_OP_MAX_PROVIDERS + 1];
    for (int i = 0; i <= OCH_OP_MAX_PROVIDERS; i++) many[i] = &slow;
    och_err_clear(&err);
    assert_int_equal(och_op_providers_check(many, OCH_OP_MAX_PROVIDERS + 1, &err), OCH_INTERNAL);
    assert_says(&err, "expected at most");
    static const och_op_provider *const bad[] = {&nameless, &blind, &idle, &half_packed, NULL};
    for (int i = 0; i < 5; i++) {
        och_err_clear(&err);
        assert_int_equal(och_op_providers_check(&bad[i], 1, &err), OCH_INTERNAL);
    }
}

static void the_highest_priority_that_takes_the_call_wins(void **s) {
    (void)s;
    const och_op_provider *list[] = {&slow, &elsewhere, &fast, &other_op, &picky}, *p;
    och_op_call c = add_call();
    och_err err = {0};
    memset(asked, 0, sizeof asked);
    assert_int_equal(och_op_select_from(list, 5, cpu, &c, NULL, &p, &err), OCH_OK);
    assert_ptr_equal(p, &fast);
    assert_int_equal(asked[0], 1); /* slow was not asked */
    assert_int_equal(asked[1], 1); /* picky declined first */
    assert_int_equal(err.status, OCH_OK);
    assert_int_equal(och_op_select_from(list, 5, cpu, &c, "slow", &p, &err), OCH_OK);
    assert_ptr_equal(p, &slow);
}

static void only_unsupported_lets_the_next_try(void **s) {
    (void)s;
    const och_op_provider *list[] = {&slow, &fast, &broken}, *p = &slow;
    och_op_call c = add_call();
    och_err err = {0};
    assert_int_equal(och_op_select_from(list, 3, cpu, &c, NULL, &p, &err), OCH_DEVICE);
    assert_null(p);
    assert_says(&err, "op add, provider broken: the board fell off");
}

static const char long_reason[] =
    "asks for what is not here, as it says at some length, for a compiler has much to say of a text that it does not take: the file, "
    "the line, the column, what it expected there and what it found, then the same for each of the lines that the first one led to, "
    "the flags that it was called with, the folder that it was called in, and at last the sentence that somebody would need to read: "
    "the library is too old, which must not be lost";
static och_status wordy(const och_device *d, const och_op_call *c, och_err *err) {
    (void)d;
    (void)c;
    return och_err_set(err, OCH_UNSUPPORTED, "%s", long_reason);
}

/* A reason is told to its end where there is room; where there is not, it says that it was cut, and help still follows. */
static void reasons_are_told_whole_or_cut_visibly(void **s) {
    (void)s;
    const och_op_provider talker = {.name = "talker", .backend = "cpu", .priority = 9, .op = OCH_OP_ADD, .supports = wordy, .run = runs};
    const och_op_provider other = {.name = "other", .backend = "cpu", .priority = 8, .op = OCH_OP_ADD, .supports = wordy, .run = runs};
    const och_op_provider *list[] = {&picky, &talker, &other}, *p;
    och_op_call c = add_call();
    och_err err = {0};
    assert_int_equal(och_op_select_from(list, 2, cpu, &c, NULL, &p, &err), OCH_UNSUPPORTED);
    assert_says(&err, "(picky: columns are not a multiple of 77; talker: asks for what");
    assert_says(&err, "the library is too old, which must not be lost); another weight");
    och_err_clear(&err);
    assert_int_equal(och_op_select_from(list, 3, cpu, &c, NULL, &p, &err), OCH_UNSUPPORTED);
    assert_says(&err, "(picky: columns are not a multiple of 77; talker: asks for what");
    assert_says(&err, "...; other: asks for what");
    assert_says(&err, "...); another weight");
    assert_true(strlen(err.message) > sizeof err.message - 16);
}

static void only_restricts_and_does_not_fall_back(void **s) {
    (void)s;
    const och_op_provider *list[] = {&slow, &fast, &picky}, *p;
    och_op_call c = add_call();
    och_err err = {0};
    assert_int_equal(och_op_select_from(list, 3, cpu, &c, "picky", &p, &err), OCH_UNSUPPORTED);
    assert_null(p);
    assert_says(&err, "op add on device cpu:0");
    assert_says(&err, "picky: columns are not a multiple of 77");
    assert_says(&err, "OCHRE_OP_ONLY");
    assert_null(strstr(err.message, "slow"));
    och_err_clear(&err);
    assert_int_equal(och_op_select(cpu, &c, "no such", &p, &err), OCH_UNSUPPORTED);
    assert_says(&err, "none is registered");
    assert_int_equal(och_op_select(cpu, &c, "reference", &p, NULL), OCH_OK);
    assert_string_equal(p->name, "reference");
}

static void a_device_without_unified_memory_refuses(void **s) {
    (void)s;
    assert_false(null_device->vtable->unified_memory(null_device));
    for (int op = 0; op < OCH_OP_COUNT_; op++) {
        och_op_call c;
        const och_op_provider *p;
        och_err err = {0};
        assert_true(och_op_probe(NULL, null_device, (och_op_id)op, OCH_DTYPE_Q8_0, &c));
        assert_int_equal(och_op_select(null_device, &c, NULL, &p, &err), OCH_UNSUPPORTED);
        assert_null(p);
        assert_says(&err, och_op_name((och_op_id)op));
        assert_says(&err, "on device null:0");
        assert_says(&err, "reference: the host may not dereference this device's memory");
        assert_says(&err, "a kernel of this op for backend null would help");
    }
    /* Any provider that claims to serve every device is held to it, whatever its priority. */
    static const och_op_provider everywhere = {"everywhere", "*", 50, OCH_OP_ADD, .supports = takes, .run = runs};
    static const och_op_provider at_home = {"home", "null", 1, OCH_OP_ADD, .supports = takes, .run = runs};
    const och_op_provider *list[] = {&everywhere, &at_home}, *p;
    och_op_call c = add_call();
    assert_int_equal(och_op_select_from(list, 2, null_device, &c, NULL, &p, NULL), OCH_OK);
    assert_ptr_equal(p, &at_home);
}

/* ---- checks ---- */

static och_op_call probe(och_op_id op) {
    och_op_call c;
    assert_true(och_op_probe(NULL, cpu, op, OCH_DTYPE_Q4_0, &c));
    return c;
}

/* Codes of rows: what they must look like, what they may not stand beside, and that only a provider whose row says so gets them. */
static void codes_are_checked(void **s) {
    (void)s;
    static const och_op_provider plain = {"plain", "*", 50, OCH_OP_LINEAR, .supports = takes, .run = runs};
    static const och_op_provider taking = {"taking", "*", 10, OCH_OP_LINEAR, .supports = takes, .run = runs, .takes_codes = true};
    const och_op_provider *list[] = {&plain, &taking}, *p;
    och_op_call c = probe(OCH_OP_LINEAR);
    och_err err = {0};
    int64_t k = c.in[OCH_LINEAR_X].cols, row = k + k / 32 * 8; /* codes; a scale and a sum a block */
    assert_int_equal(k % 128, 0);
    assert_int_equal(och_op_select_from(list, 2, cpu, &c, NULL, &p, NULL), OCH_OK);
    assert_ptr_equal(p, &plain);
    const och_tensor codes = {.dtype = OCH_DTYPE_U8, .rows = OCH_OP_CODES_ROWS, .cols = row, .row_bytes = (uint64_t)row};
    och_op_call with = c;
    with.in[OCH_LINEAR_XCODES] = codes;
    assert_int_equal(och_op_check(&with, &err), OCH_OK);
    assert_int_equal(och_op_select_from(list, 2, cpu, &with, NULL, &p, NULL), OCH_OK);
    assert_ptr_equal(p, &taking);
    assert_int_equal(och_op_select_from(list, 1, cpu, &with, NULL, &p, &err), OCH_UNSUPPORTED);
    assert_says(&err, "takes no codes of activations");
    assert_int_equal(och_op_select(cpu, &with, NULL, &p, NULL), OCH_UNSUPPORTED); /* the host's providers and the reference */
    uint64_t bytes[2], flops;
    och_op_cost(&c, &bytes[0], &flops);
    och_op_cost(&with, &bytes[1], &flops);
    assert_int_equal(bytes[0], bytes[1]); /* of x or of its codes */

    och_err_clear(&err);
    och_op_call d = with;
    d.in[OCH_LINEAR_XCODES].rows = 1;
    assert_int_equal(och_op_check(&d, NULL), OCH_INVALID);
    d = with;
    d.in[OCH_LINEAR_XCODES].cols -= 4;
    assert_int_equal(och_op_check(&d, NULL), OCH_INVALID);
    d = with;
    d.in[OCH_LINEAR_XCODES].row_bytes += 4;
    assert_int_equal(och_op_check(&d, NULL), OCH_INVALID);
    d = with;
    d.in[OCH_LINEAR_NORM] = (och_tensor){.dtype = OCH_DTYPE_F32, .rows = 1, .cols = k, .row_bytes = (uint64_t)k * 4};
    assert_int_equal(och_op_check(&d, NULL), OCH_INVALID); /* those are of another kind */
    d = with;
    d.in[OCH_LINEAR_W0].dtype = OCH_DTYPE_F32;
    d.in[OCH_LINEAR_W0].row_bytes = (uint64_t)k * 4;
    assert_int_equal(och_op_check(&d, &err), OCH_INVALID);
    assert_says(&err, "pair with codes");
    och_err_clear(&err);
    d = c;
    d.out[OCH_LINEAR_YCODES] = codes;
    assert_int_equal(och_op_check(&d, &err), OCH_INVALID);
    assert_says(&err, "without a gate");
    assert_null(och_op_codes(&codes, OCH_OP_CODES_ROWS + 1));
    assert_ptr_equal(och_op_codes(&codes, OCH_OP_CODES_ROWS), &codes);
    assert_null(och_op_codes(&c.in[OCH_LINEAR_XCODES], 1));
}

/* The same of codes through a norm: one row of them, with the squares of its blocks behind, of one product without a gate. */
static void codes_through_a_norm_are_checked(void **s) {
    (void)s;
    static const och_op_provider plain = {"plain", "*", 50, OCH_OP_LINEAR, .supports = takes, .run = runs};
    static const och_op_provider taking = {"taking", "*", 10, OCH_OP_LINEAR, .supports = takes, .run = runs, .takes_codes = true};
    const och_op_provider *list[] = {&plain, &taking}, *p;
    och_op_call c = probe(OCH_OP_LINEAR);
    och_err err = {0};
    int64_t k = c.in[OCH_LINEAR_X].cols, row = k + k / 32 * 8;
    c.in[OCH_LINEAR_W0].rows = c.out[0].cols = 160; /* five blocks, of which the squares take eight places */
    c.out[0].row_bytes = 160 * 4;
    const och_tensor xcodes = {.dtype = OCH_DTYPE_U8, .rows = 1, .cols = row + k / 32 * 4, .row_bytes = (uint64_t)(row + k / 32 * 4)},
                     ycodes = {.dtype = OCH_DTYPE_U8, .rows = 1, .cols = 160 + 2 * 32 + 32, .row_bytes = 160 + 2 * 32 + 32};
    och_tensor t;
    uint64_t at, bytes[2], flops;
    assert_true(och_op_normed_codes(160, &t, &at));
    assert_int_equal(at, 160 + 2 * 32);
    assert_int_equal(t.cols, ycodes.cols);
    assert_false(och_op_normed_codes(40, &t, &at));
    och_op_call reads = c, writes = c;
    reads.in[OCH_LINEAR_NORM] = (och_tensor){.dtype = OCH_DTYPE_F32, .rows = 1, .cols = k, .row_bytes = (uint64_t)k * 4};
    reads.attr.linear.norm.eps = 1e-5f;
    och_op_cost(&reads, &bytes[0], &flops);
    reads.in[OCH_LINEAR_XCODES] = xcodes;
    och_op_cost(&reads, &bytes[1], &flops);
    assert_int_equal(bytes[0], bytes[1]);
    writes.in[OCH_LINEAR_YNORM] = (och_tensor){.dtype = OCH_DTYPE_F32, .rows = 1, .cols = 160, .row_bytes = 160 * 4};
    writes.out[OCH_LINEAR_YCODES] = ycodes;
    const och_op_call good[] = {reads, writes};
    for (int i = 0; i < 2; i++) {
        if (och_op_check(&good[i], &err) != OCH_OK) fail_msg("%s", err.message);
        assert_int_equal(och_op_select_from(list, 2, cpu, &good[i], NULL, &p, NULL), OCH_OK);
        assert_ptr_equal(p, &taking);
        assert_int_equal(och_op_select(cpu, &good[i], NULL, &p, NULL), OCH_UNSUPPORTED);
        assert_null(och_op_xcodes(&good[0])); /* neither is in place of its row */
        assert_null(och_op_ycodes(&good[1]));
    }
    assert_ptr_equal(och_op_xnormed(&reads), &reads.in[OCH_LINEAR_XCODES]);
    assert_ptr_equal(och_op_ynormed(&writes), &writes.out[OCH_LINEAR_YCODES]);
    assert_null(och_op_xnormed(&writes));
    assert_null(och_op_ynormed(&reads));
    const och_op_ctx ctx = {0}, invariant = {.batch_invariant = true};
    assert_true(och_op_takes_normed(&xcodes, 1, &ctx));
    assert_false(och_op_takes_normed(&xcodes, 2, &ctx) || och_op_takes_normed(&xcodes, 1, &invariant) || och_op_takes_normed(NULL, 1, &ctx));

    och_op_call bad[7] = {reads, reads, writes, writes, writes, writes, writes};
    bad[0].in[OCH_LINEAR_XCODES].rows = OCH_OP_CODES_ROWS;
    bad[1].in[OCH_LINEAR_W0].dtype = OCH_DTYPE_F32;
    bad[1].in[OCH_LINEAR_W0].row_bytes = (uint64_t)k * 4;
    bad[2].out[OCH_LINEAR_YCODES].cols -= 16;
    bad[3].out[OCH_LINEAR_YCODES].dtype = OCH_DTYPE_NONE;
    bad[4].in[OCH_LINEAR_YNORM].cols = 128;
    bad[5].attr.linear.n_weights = 2;
    bad[5].attr.linear.glu = OCH_ACT_SILU;
    bad[5].in[OCH_LINEAR_W0 + 1] = bad[5].in[OCH_LINEAR_W0];
    bad[6].in[OCH_LINEAR_W0].rows = bad[6].out[0].cols = bad[6].in[OCH_LINEAR_YNORM].cols = 80;
    bad[6].out[0].row_bytes = bad[6].in[OCH_LINEAR_YNORM].row_bytes = 80 * 4;
    static const char *const says[] = {"xcodes", "pair with codes", "ycodes", "ynorm", "ynorm", "ynorm", "whole blocks"};
    for (int i = 0; i < 7; i++) {
        och_err_clear(&err);
        if (och_op_check(&bad[i], &err) != OCH_INVALID) fail_msg("case %d was taken", i);
        assert_says(&err, says[i]);
    }
}

/* The same of halves. */
static void halves_are_checked(void **s) {
    (void)s;
    static const och_op_provider plain = {"plain", "*", 50, OCH_OP_LINEAR, .supports = takes, .run = runs, .takes_codes = true};
    static const och_op_provider taking = {"taking", "*", 10, OCH_OP_LINEAR, .supports = takes, .run = runs, .takes_halves = true};
    const och_op_provider *list[] = {&plain, &taking}, *p;
    och_op_call c = probe(OCH_OP_LINEAR);
    och_err err = {0};
    c.in[OCH_LINEAR_W0].dtype = OCH_DTYPE_BF16;
    c.in[OCH_LINEAR_W0].row_bytes = (uint64_t)c.in[OCH_LINEAR_W0].cols * 2;
    assert_int_equal(och_op_select_from(list, 2, cpu, &c, NULL, &p, NULL), OCH_OK);
    assert_ptr_equal(p, &plain);
    c.attr.linear.x_halves = true;
    assert_int_equal(och_op_select_from(list, 2, cpu, &c, NULL, &p, NULL), OCH_OK);
    assert_ptr_equal(p, &taking);
    assert_int_equal(och_op_select_from(list, 1, cpu, &c, NULL, &p, &err), OCH_UNSUPPORTED);
    assert_says(&err, "takes no halves");
    assert_int_equal(och_op_select(cpu, &c, NULL, &p, NULL), OCH_UNSUPPORTED); /* the host's providers and the reference */
    och_op_call d = c;
    och_err_clear(&err);
    d.in[OCH_LINEAR_W0].dtype = OCH_DTYPE_F16;
    assert_int_equal(och_op_check(&d, &err), OCH_INVALID);
    assert_says(&err, "weights of BF16 beside halves");
    och_err_clear(&err);
    d = c;
    d.in[OCH_LINEAR_NORM] = (och_tensor){.dtype = OCH_DTYPE_F32, .rows = 1, .cols = c.in[OCH_LINEAR_X].cols,
                                         .row_bytes = (uint64_t)c.in[OCH_LINEAR_X].cols * 4};
    assert_int_equal(och_op_check(&d, &err), OCH_INVALID);
    assert_says(&err, "neither a norm nor codes");
    och_err_clear(&err);
    d = c;
    d.attr.linear.x_halves = false, d.attr.linear.y_halves = true;
    assert_int_equal(och_op_check(&d, &err), OCH_INVALID);
    assert_says(&err, "without a gate");
    och_op_ctx ctx = {.batch_invariant = false};
    assert_true(och_op_halves(true, OCH_OP_HALVES_ROWS, &ctx));
    assert_false(och_op_halves(true, OCH_OP_HALVES_ROWS - 1, &ctx));
    assert_false(och_op_halves(false, OCH_OP_HALVES_ROWS, &ctx));
    ctx.batch_invariant = true;
    assert_false(och_op_halves(true, OCH_OP_HALVES_ROWS, &ctx));
}

/* The same of one row that a product does whole, and of the op that then has nothing to do. */
static void one_row_is_checked(void **s) {
    (void)s;
    static const och_op_provider plain = {"plain", "*", 50, OCH_OP_LINEAR, .supports = takes, .run = runs, .takes_codes = true};
    static const och_op_provider taking = {"taking", "*", 10, OCH_OP_LINEAR, .supports = takes, .run = runs, .takes_one_row = true};
    static const och_op_provider post = {"post", "*", 50, OCH_OP_QKV_POST, .supports = takes, .run = runs};
    const och_op_provider *list[] = {&plain, &taking, &post}, *p;
    och_err err = {0};
    och_op_call q = probe(OCH_OP_QKV_POST), c = probe(OCH_OP_LINEAR), d;
    for (int i = OCH_QKV_POST_QNORM; i <= OCH_QKV_POST_KNORM; i++) q.in[i].dtype = OCH_DTYPE_NONE;
    q.out[0] = q.in[OCH_QKV_POST_Q];
    for (int i = 0; i < 3; i++) {
        och_tensor w = c.in[OCH_LINEAR_W0];
        w.rows = q.in[i].cols;
        c.in[OCH_LINEAR_W0 + i] = w;
        c.out[i] = q.in[i];
        c.in[OCH_LINEAR_B0 + i].dtype = OCH_DTYPE_NONE;
    }
    int64_t n = q.in[0].rows;
    c.in[OCH_LINEAR_X].rows = n;
    c.in[OCH_LINEAR_RESIDUAL].dtype = OCH_DTYPE_NONE;
    c.attr.linear.n_weights = 3;
    c.attr.linear.glu = OCH_ACT_NONE;
    assert_int_equal(och_op_check(&q, &err), OCH_OK);
    assert_int_equal(och_op_check(&c, &err), OCH_OK);
    och_op_call with = c, marked = q;
    with.attr.linear.post = q.attr.qkv_post;
    with.in[OCH_LINEAR_TABLE] = q.in[OCH_QKV_POST_TABLE];
    with.in[OCH_LINEAR_SLOTS] = q.in[OCH_QKV_POST_SLOTS];
    with.out[OCH_LINEAR_KCACHE] = q.out[1];
    with.out[OCH_LINEAR_VCACHE] = q.out[2];
    marked.attr.qkv_post.one_row_done = true;
    if (och_op_check(&with, &err) != OCH_OK || och_op_check(&marked, &err) != OCH_OK) fail_msg("%s", err.message);
    assert_int_equal(och_op_select_from(list, 3, cpu, &c, NULL, &p, NULL), OCH_OK);
    assert_ptr_equal(p, &plain);
    assert_int_equal(och_op_select_from(list, 3, cpu, &with, NULL, &p, NULL), OCH_OK);
    assert_ptr_equal(p, &taking);
    assert_int_equal(och_op_select_from(list, 1, cpu, &with, NULL, &p, &err), OCH_UNSUPPORTED);
    assert_says(&err, "to a kernel of its own");
    och_err_clear(&err);
    assert_int_equal(och_op_select_from(list, 3, cpu, &q, NULL, &p, NULL), OCH_OK);
    assert_int_equal(och_op_select_from(list, 3, cpu, &marked, NULL, &p, &err), OCH_UNSUPPORTED);
    assert_int_equal(och_op_select(cpu, &with, NULL, &p, NULL), OCH_UNSUPPORTED); /* the host's providers and the reference */
    assert_int_equal(och_op_select(cpu, &marked, NULL, &p, NULL), OCH_UNSUPPORTED);

    /* One row's bytes are one call's: all that is read and written, and k and v in the state's type alone. */
    uint64_t bytes[4], flops[4];
    och_op_call *calls[] = {&c, &q, &with, &marked};
    for (int rows = 1; rows < 3; rows++) {
        for (int i = 0; i < 4; i++) {
            och_op_call one = *calls[i];
            bool product = one.op == OCH_OP_LINEAR;
            one.in[0].rows = one.out[0].rows = rows;
            for (int k = 1; k < 3; k++) *(product ? &one.out[k].rows : &one.in[k].rows) = rows;
            for (int k = product ? OCH_LINEAR_TABLE : OCH_QKV_POST_TABLE, end = k + 2; k < end; k++) one.in[k].rows = rows;
            och_op_cost(&one, &bytes[i], &flops[i]);
        }
        uint64_t between = 8 * (uint64_t)(q.in[0].cols + 2 * q.in[1].cols); /* written, and read again */
        if (rows == 1 && (bytes[2] != bytes[0] + bytes[1] - between || bytes[3] || flops[2] != flops[0] + flops[1] || flops[3]))
            fail_msg("one row: %llu and %llu bytes", (unsigned long long)bytes[2], (unsigned long long)bytes[3]);
        if (rows > 1 && (bytes[2] != bytes[0] || bytes[3] != bytes[1] || flops[2] != flops[0] || flops[3] != flops[1]))
            fail_msg("more rows: %llu and %llu bytes", (unsigned long long)bytes[2], (unsigned long long)bytes[3]);
    }

    static const struct {
        const char *says;
        int what;
    } wrong[] = {{"three weights beside slots", 0}, {"beside slots: op qkv_post, operand q", 1}, {"beside slots: op qkv_post, operand table", 2},
                 {"beside slots: op qkv_post, operand slots", 3}, {"beside slots: op qkv_post, operand vcache", 4}, {"none without slots", 5},
                 {"operand kcache: expected none without slots", 6}, {"no norm where a product does one row", 7}, {"q's memory", 8}};
    for (size_t i = 0; i < OCH_COUNT(wrong); i++) {
        och_err_clear(&err);
        d = wrong[i].what < 7 ? with : marked;
        switch (wrong[i].what) {
        case 0:
            d.attr.linear.n_weights = 2;
            d.in[OCH_LINEAR_W0 + 2].dtype = d.out[2].dtype = OCH_DTYPE_NONE;
            break;
        case 1: d.attr.linear.post.rope.n_heads *= 2; break;
        case 2: d.in[OCH_LINEAR_TABLE].cols -= 2; break;
        case 3: d.in[OCH_LINEAR_SLOTS].rows++; break;
        case 4: d.out[OCH_LINEAR_VCACHE].rows++; break;
        case 5: d.in[OCH_LINEAR_SLOTS].dtype = OCH_DTYPE_NONE; break;
        case 6: d.in[OCH_LINEAR_TABLE].dtype = d.in[OCH_LINEAR_SLOTS].dtype = OCH_DTYPE_NONE; break;
        case 7: d.in[OCH_QKV_POST_QNORM] = (och_tensor){.dtype = OCH_DTYPE_F32, .rows = 1, .cols = q.attr.qkv_post.kv.head_dim,
                                                        .row_bytes = (uint64_t)q.attr.qkv_post.kv.head_dim * 4}; break;
        default: d.out[0].addr.value = 1 << 20; break;
        }
        assert_int_equal(och_op_check(&d, &err), OCH_INVALID);
        assert_says(&err, wrong[i].says);
    }
    och_op_ctx ctx = {.batch_invariant = false};
    with.in[OCH_LINEAR_X].rows = marked.in[0].rows = 1;
    assert_true(och_op_one_row(&with, &ctx) && och_op_one_row(&marked, &ctx) && !och_op_one_row(&c, &ctx) && !och_op_one_row(&q, &ctx));
    ctx.batch_invariant = true;
    assert_false(och_op_one_row(&with, &ctx) || och_op_one_row(&marked, &ctx));
    ctx.batch_invariant = false;
    with.in[OCH_LINEAR_X].rows = marked.in[0].rows = 2;
    assert_false(och_op_one_row(&with, &ctx) || och_op_one_row(&marked, &ctx));
}

static void every_probe_is_sound_and_every_operand_is_asked_for(void **s) {
    (void)s;
    for (int op = 0; op < OCH_OP_COUNT_; op++) {
        och_op_call c = probe((och_op_id)op);
        och_err err = {0};
        if (och_op_check(&c, &err) != OCH_OK) fail_msg("%s", err.message);
        for (int i = 0; i < OCH_OP_MAX_IN + OCH_OP_MAX_OUT; i++) {
            och_op_call d = c;
            och_tensor *t = i < OCH_OP_MAX_IN ? &d.in[i] : &d.out[i - OCH_OP_MAX_IN];
            och_err_clear(&err);
            if (och_tensor_present(t)) { /* none of those that a probe has is optional */
                t->dtype = OCH_DTYPE_NONE;
                assert_int_equal(och_op_check(&d, &err), OCH_INVALID);
                assert_says(&err, och_op_name((och_op_id)op));
                d = c;
                t->rows = -1;
                och_err_clear(&err);
                assert_int_equal(och_op_check(&d, &err), OCH_RANGE);
                d = c;
                t->cols++;
                t->row_bytes += 1024;
                assert_true(och_op_check(&d, NULL) != OCH_OK || (op == OCH_OP_ATTENTION && i == OCH_ATTENTION_TABLES) ||
                            (op == OCH_OP_SAMPLE && i == OCH_SAMPLE_LOGITS));
                d = c;
                t->row_bytes -= 1;
                assert_int_equal(och_op_check(&d, NULL), OCH_INVALID);
                d = c;
                t->dtype = OCH_DTYPE_I64;
                assert_int_equal(och_op_check(&d, NULL), OCH_INVALID);
                d = c;
                t->dtype = (och_dtype)77;
                assert_int_equal(och_op_check(&d, NULL), OCH_INVALID);
            } else {
                *t = (och_tensor){.dtype = OCH_DTYPE_F32, .rows = 3, .cols = 3, .row_bytes = 12};
                assert_int_equal(och_op_check(&d, &err), OCH_INVALID);
            }
        }
    }
}

static void attributes_are_checked(void **s) {
    (void)s;
    och_err err = {0};
    och_op_call c = probe(OCH_OP_ATTENTION);
    c.attr.attention.n_heads = 3; /* 2 kv heads */
    assert_int_equal(och_op_check(&c, &err), OCH_INVALID);
    assert_says(&err, "a multiple of 2 query heads, found 3");
    c = probe(OCH_OP_ATTENTION);
    c.attr.attention.window = -1;
    assert_int_equal(och_op_check(&c, NULL), OCH_INVALID);
    c = probe(OCH_OP_ATTENTION);
    c.attr.attention.kv.block_tokens = 0;
    assert_int_equal(och_op_check(&c, NULL), OCH_INVALID);
    c = probe(OCH_OP_ROPE);
    c.attr.rope.rot_dim = 63;
    assert_int_equal(och_op_check(&c, NULL), OCH_INVALID);
    c = probe(OCH_OP_ROPE);
    c.attr.rope.rot_dim = 66;
    assert_int_equal(och_op_check(&c, NULL), OCH_INVALID);
    c = probe(OCH_OP_RMS_NORM);
    c.attr.rms_norm.eps = -1.0f;
    assert_int_equal(och_op_check(&c, NULL), OCH_INVALID);
    c.attr.rms_norm.eps = 0.0f / 0.0f;
    assert_int_equal(och_op_check(&c, NULL), OCH_INVALID);
    c = probe(OCH_OP_GLU);
    c.attr.glu.act = OCH_ACT_NONE;
    assert_int_equal(och_op_check(&c, NULL), OCH_INVALID);
    c = probe(OCH_OP_LINEAR);
    c.attr.linear.n_weights = 0;
    assert_int_equal(och_op_check(&c, NULL), OCH_INVALID);
    c = probe(OCH_OP_LINEAR);
    c.attr.linear.glu = OCH_ACT_SILU; /* one weight */
    assert_int_equal(och_op_check(&c, NULL), OCH_INVALID);
    c = probe(OCH_OP_LINEAR);
    c.in[OCH_LINEAR_B0 + 1] = (och_tensor){.dtype = OCH_DTYPE_F32, .rows = 1, .cols = 64, .row_bytes = 256};
    assert_int_equal(och_op_check(&c, NULL), OCH_INVALID);
    /* Q4_K has blocks of 256 */
    c = probe(OCH_OP_LINEAR);
    c.in[OCH_LINEAR_W0].dtype = OCH_DTYPE_Q4_K;
    c.in[OCH_LINEAR_W0].cols = c.in[OCH_LINEAR_X].cols = 480;
    och_err_clear(&err);
    assert_int_equal(och_op_check(&c, &err), OCH_INVALID);
    assert_says(&err, "op linear, operand w0: expected a multiple of 256 columns for Q4_K, found 480");
    c = probe(OCH_OP_EMBED);
    c.op = (och_op_id)99;
    assert_int_equal(och_op_check(&c, NULL), OCH_INVALID);
}

static void place(och_tensor *t, uint64_t at) { t->addr.value = at; }

static void overlaps_are_checked(void **s) {
    (void)s;
    och_err err = {0};
    och_op_call c = add_call(); /* [1, 512] of 2048 bytes */
    place(&c.in[0], 0x1000);
    place(&c.in[1], 0x2000);
    place(&c.out[0], 0x1000);
    assert_int_equal(och_op_check(&c, NULL), OCH_OK); /* y is a */
    place(&c.out[0], 0x2000);
    assert_int_equal(och_op_check(&c, NULL), OCH_OK); /* y is b */
    place(&c.out[0], 0x1000 + 4);
    assert_int_equal(och_op_check(&c, &err), OCH_INVALID);
    assert_says(&err, "op add, operand y: expected memory of its own, found that it overlaps a");
    place(&c.out[0], 0x1000 + 2048);
    assert_int_equal(och_op_check(&c, NULL), OCH_OK);
    place(&c.out[0], 0x1000 - 4);
    assert_int_equal(och_op_check(&c, NULL), OCH_INVALID);
    place(&c.out[0], 0x1000 - 2048);
    assert_int_equal(och_op_check(&c, NULL), OCH_OK);

    och_op_call g = probe(OCH_OP_GATHER);
    place(&g.in[OCH_GATHER_X], 0x1000);
    place(&g.out[0], 0x1000);
    assert_int_equal(och_op_check(&g, NULL), OCH_INVALID);

    och_op_call l = probe(OCH_OP_LINEAR); /* y [1, 64] may be the residual, never x */
    l.in[OCH_LINEAR_RESIDUAL] = l.out[0];
    place(&l.in[OCH_LINEAR_X], 0x1000);
    place(&l.in[OCH_LINEAR_RESIDUAL], 0x2000);
    place(&l.out[0], 0x2000);
    assert_int_equal(och_op_check(&l, NULL), OCH_OK);
    place(&l.out[0], 0x1000);
    assert_int_equal(och_op_check(&l, NULL), OCH_INVALID);

    /* Columns of one wider matrix: q and k of [4, 256] rows that lie 1024 bytes apart. */
    och_op_call r = probe(OCH_OP_ROPE); /* [1, 128] */
    r.in[OCH_ROPE_X].rows = r.in[OCH_ROPE_TABLE].rows = r.out[0].rows = 4;
    r.in[OCH_ROPE_X].row_bytes = r.out[0].row_bytes = 1024;
    place(&r.in[OCH_ROPE_X], 0x10000);
    place(&r.out[0], 0x10000 + 512);
    assert_int_equal(och_op_check(&r, NULL), OCH_OK);
    place(&r.out[0], 0x10000 + 508);
    assert_int_equal(och_op_check(&r, NULL), OCH_INVALID);
    place(&r.out[0], 0x10000 + 1024 - 512); /* ends where the next row begins */
    assert_int_equal(och_op_check(&r, NULL), OCH_OK);
    place(&r.out[0], 0x10000 + 1024 - 508);
    assert_int_equal(och_op_check(&r, NULL), OCH_INVALID);
    place(&r.out[0], 0x10000 - 512);
    assert_int_equal(och_op_check(&r, NULL), OCH_OK);
    place(&r.out[0], 0x10000 - 508);
    assert_int_equal(och_op_check(&r, NULL), OCH_INVALID);

    /* The two caches are never the same memory. */
    och_op_call k = probe(OCH_OP_KV_WRITE);
    place(&k.out[0], 0x10000);
    place(&k.out[1], 0x10000);
    assert_int_equal(och_op_check(&k, NULL), OCH_INVALID);
}

static void the_cost_is_the_floor(void **s) {
    (void)s;
    uint64_t bytes, flops;
    /* x [1,512] f32, w [64,512] of 16 blocks of 18 bytes a row, y [1,64] f32 */
    och_op_call l = probe(OCH_OP_LINEAR);
    och_op_cost(&l, &bytes, &flops);
    assert_int_equal(bytes, 2048 + 64 * 16 * 18 + 256);
    assert_int_equal(flops, 2 * 64 * 512);
    /* ids, one row of the table, y */
    och_op_call e = probe(OCH_OP_EMBED);
    och_op_cost(&e, &bytes, &flops);
    assert_int_equal(bytes, 4 + 16 * 18 + 2048);
    och_op_call a = add_call();
    och_op_cost(&a, &bytes, &flops);
    assert_int_equal(bytes, 3 * 2048);
    assert_int_equal(flops, 512);
    /* k, v, slot; each element once in f16 */
    och_op_call k = probe(OCH_OP_KV_WRITE);
    och_op_cost(&k, &bytes, &flops);
    assert_int_equal(bytes, 2 * 512 + 4 + 2 * 256);
    /* Three tokens of one sequence, window of 4: positions 5, 6, 7 read 2..7: 6 tokens of 2 heads of 64 f16, k and v;
     * 12 pairs. Then a padding token. */
    static int32_t seqs[] = {0, 0, 0, -1}, positions[] = {5, 6, 7, 0};
    och_op_call t = probe(OCH_OP_ATTENTION);
    t.attr.attention.window = 4;
    t.in[OCH_ATTENTION_Q].rows = t.out[0].rows = t.in[OCH_ATTENTION_SEQS].rows = t.in[OCH_ATTENTION_POSITIONS].rows = 4;
    t.in[OCH_ATTENTION_SEQS].host = seqs;
    t.in[OCH_ATTENTION_POSITIONS].host = positions;
    assert_int_equal(och_op_check(&t, NULL), OCH_OK);
    och_op_cost(&t, &bytes, &flops);
    assert_int_equal(bytes, 2 * 4 * 512 + 16 + 16 + 16 + 2 * 6 * 128 * 2);
    assert_int_equal(flops, 4 * 12 * 128);
}

/* ---- predicates and the capability table ---- */

static void predicates_equal_the_table(void **s) {
    (void)s;
    for (int i = 0; i < och_op_provider_count(); i++) {
        const och_op_provider *p = och_op_provider_at(i);
        if (!och_op_has_weight(p->op)) continue;
        bool any = strcmp(p->backend, "*") == 0;
        if (!any && strcmp(p->backend, cpu->info.backend) != 0) continue;
        for (int t = 0; t < OCH_DTYPE_COUNT_; t++) {
            och_op_call c;
            och_err err = {0};
            bool takes_it = och_op_probe(p, cpu, p->op, (och_dtype)t, &c) &&
                            och_op_provider_supports(p, cpu, &c, &err) == OCH_OK;
            och_verdict v = och_capability(p->name, cpu->info.arch, (och_dtype)t, och_op_name(p->op))->verdict;
            bool table = v == OCH_VERDICT_NATIVE || v == OCH_VERDICT_DECODE_IN_KERNEL;
            if (takes_it != table)
                fail_msg("op %s, provider %s, %s: the table says %s, the predicate says %s (%s)", och_op_name(p->op),
                         p->name, och_dtype_name((och_dtype)t), och_verdict_name(v), takes_it ? "yes" : "no", err.message);
        }
    }
    /* Vectors (norm weights, biases) are F32 to every op; the table converts the rest at load. */
    for (int t = 0; t < OCH_DTYPE_COUNT_; t++) {
        och_op_call c = probe(OCH_OP_RMS_NORM);
        c.in[OCH_RMS_NORM_W].dtype = (och_dtype)t;
        if (!och_dtype_row_bytes((och_dtype)t, 512, &c.in[OCH_RMS_NORM_W].row_bytes)) continue;
        bool native = och_capability("reference", "", (och_dtype)t, "vector")->verdict == OCH_VERDICT_NATIVE;
        assert_int_equal(och_op_check(&c, NULL) == OCH_OK, native);
    }
}

/* ---- running and counting ---- */

typedef struct bench {
    och_queue *queue;
    och_buf buf;
    och_op_call call;
} bench;

static void bench_open(bench *b) {
    assert_int_equal(cpu->vtable->queue_create(cpu, &b->queue, NULL), OCH_OK);
    assert_int_equal(och_buf_alloc(cpu, 3 * 2048, OCH_MEM_DEVICE, &b->buf, NULL), OCH_OK);
    memset(b->buf.host, 0, 3 * 2048);
    b->call = add_call();
    och_tensor *t[] = {&b->call.in[0], &b->call.in[1], &b->call.out[0]};
    for (int i = 0; i < 3; i++) {
        t[i]->host = (char *)b->buf.host + i * 2048;
        t[i]->addr = och_dev_addr_add(b->buf.addr, (uint64_t)i * 2048);
    }
}
static void bench_close(bench *b) {
    och_buf_free(&b->buf);
    cpu->vtable->queue_destroy(b->queue);
}

static void falls_to_the_reference_are_counted(void **s) {
    (void)s;
    bench b;
    bench_open(&b);
    const och_op_provider *reference;
    assert_int_equal(och_op_select(cpu, &b.call, "reference", &reference, NULL), OCH_OK);
    och_op_ctx ctx = {.queue = b.queue};
    och_op_stats_reset();
    assert_int_equal(och_op_run(&ctx, reference, &b.call, NULL), OCH_OK);
    assert_int_equal(och_op_run(&ctx, reference, &b.call, NULL), OCH_OK);
    assert_int_equal(och_op_reference_hits(), 2);
    ctx.reference_asked = true;
    assert_int_equal(och_op_run(&ctx, reference, &b.call, NULL), OCH_OK);
    assert_int_equal(och_op_reference_hits(), 2);
    ctx.reference_asked = false;
    assert_int_equal(och_op_run(&ctx, &fast, &b.call, NULL), OCH_OK);
    assert_int_equal(och_op_reference_hits(), 2);
    och_op_stats_reset();
    assert_int_equal(och_op_reference_hits(), 0);
    /* The reference does not follow a pointer that is not there. */
    och_op_call blind_call = b.call;
    och_err err = {0};
    blind_call.in[1].host = NULL;
    assert_int_equal(och_op_run(&ctx, reference, &blind_call, &err), OCH_INVALID);
    assert_says(&err, "op add, operand b: expected memory that the host may read");
    assert_int_equal(och_op_reference_hits(), 0);
    bench_close(&b);
}

static void statistics_are_rows_by_cost(void **s) {
    (void)s;
    bench b;
    bench_open(&b);
    och_op_call gather = probe(OCH_OP_GATHER), glu = probe(OCH_OP_GLU);
    gather.in[OCH_GATHER_X].host = b.buf.host;
    gather.out[0].host = (char *)b.buf.host + 2048;
    gather.in[OCH_GATHER_ROWS].host = (char *)b.buf.host + 4096; /* zeros */
    glu.in[OCH_GLU_GATE].host = b.buf.host;
    glu.in[OCH_GLU_UP].host = (char *)b.buf.host + 2048;
    glu.out[0].host = (char *)b.buf.host + 4096;
    och_op_ctx ctx = {.queue = b.queue, .reference_asked = true};
    och_op_stat rows[8];
    och_op_stats_enable(false);
    och_op_stats_reset();
    assert_int_equal(och_op_stats(rows, 8), 0);
    for (int i = 0; i < 3; i++) assert_int_equal(och_op_run(&ctx, och_op_provider_at(OCH_OP_ADD), &b.call, NULL), OCH_OK);
    assert_int_equal(och_op_run(&ctx, och_op_provider_at(OCH_OP_GATHER), &gather, NULL), OCH_OK);
    ctx.reference_asked = false;
    for (int i = 0; i < 2; i++) assert_int_equal(och_op_run(&ctx, och_op_provider_at(OCH_OP_GLU), &glu, NULL), OCH_OK);
    assert_int_equal(och_op_stats(rows, 8), 3);
    /* 3 * 6144, 2 * 6144, 2 * 2048 + 4 */
    static const och_op_id order[] = {OCH_OP_ADD, OCH_OP_GLU, OCH_OP_GATHER};
    static const uint64_t calls[] = {3, 2, 1}, n_bytes[] = {18432, 12288, 4100};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rows[i].op, order[i]);
        assert_string_equal(rows[i].device, "cpu:0");
        assert_string_equal(rows[i].provider, "reference");
        assert_int_equal(rows[i].calls, calls[i]);
        assert_int_equal(rows[i].bytes, n_bytes[i]);
        assert_int_equal(rows[i].reference_tier, i == 1);
        assert_true(rows[i].seconds == 0.0);
    }
    /* Fewer places than rows: the most expensive. */
    och_op_stat one[1];
    assert_int_equal(och_op_stats(one, 1), 3);
    assert_int_equal(one[0].op, OCH_OP_ADD);
    assert_int_equal(och_op_stats(NULL, 0), 3);
    /* With timing, seconds come first in the order. */
    och_op_stats_enable(true);
    och_op_stats_reset();
    assert_int_equal(och_op_run(&ctx, och_op_provider_at(OCH_OP_GATHER), &gather, NULL), OCH_OK);
    assert_int_equal(och_op_stats(rows, 8), 1);
    assert_true(rows[0].seconds >= 0.0 && rows[0].seconds < 10.0);
    och_op_stats_enable(false);
    och_op_stats_reset();
    bench_close(&b);
}

enum { CALLS = 200, COUNTS = 100000, RUNNERS = 4 };

static void *runner(void *arg) {
    (void)arg;
    bench b;
    bench_open(&b);
    och_op_ctx ctx = {.queue = b.queue};
    for (int i = 0; i < CALLS; i++)
        if (och_op_run(&ctx, och_op_provider_at(OCH_OP_ADD), &b.call, NULL) != OCH_OK) return (void *)1;
    /* The counting alone, close enough together to collide. */
    for (int i = 0; i < COUNTS; i++) och_op_stats_count(&ctx, och_op_provider_at(OCH_OP_ADD), &b.call, 0.0);
    bench_close(&b);
    return NULL;
}

static void counting_loses_nothing_between_threads(void **s) {
    (void)s;
    och_op_stats_enable(false);
    och_op_stats_reset();
    pthread_t threads[RUNNERS];
    for (int i = 0; i < RUNNERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, runner, NULL), 0);
    for (int i = 0; i < RUNNERS; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        assert_null(bad);
    }
    och_op_stat rows[2];
    assert_int_equal(och_op_stats(rows, 2), 1);
    assert_int_equal(rows[0].calls, (CALLS + COUNTS) * RUNNERS);
    assert_int_equal(rows[0].bytes, UINT64_C(6144) * (CALLS + COUNTS) * RUNNERS);
    assert_int_equal(och_op_reference_hits(), (CALLS + COUNTS) * RUNNERS);
    och_op_stats_reset();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_of_this_build_is_sound),
        cmocka_unit_test(duplicates_overflow_and_gaps_are_refused),
        cmocka_unit_test(the_highest_priority_that_takes_the_call_wins),
        cmocka_unit_test(only_unsupported_lets_the_next_try),
        cmocka_unit_test(reasons_are_told_whole_or_cut_visibly),
        cmocka_unit_test(only_restricts_and_does_not_fall_back),
        cmocka_unit_test(a_device_without_unified_memory_refuses),
        cmocka_unit_test(every_probe_is_sound_and_every_operand_is_asked_for),
        cmocka_unit_test(codes_are_checked),
        cmocka_unit_test(codes_through_a_norm_are_checked),
        cmocka_unit_test(halves_are_checked), cmocka_unit_test(one_row_is_checked),
        cmocka_unit_test(attributes_are_checked),
        cmocka_unit_test(overlaps_are_checked),
        cmocka_unit_test(the_cost_is_the_floor),
        cmocka_unit_test(predicates_equal_the_table),
        cmocka_unit_test(falls_to_the_reference_are_counted),
        cmocka_unit_test(statistics_are_rows_by_cost),
        cmocka_unit_test(counting_loses_nothing_between_threads),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
