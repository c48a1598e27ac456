/* Signatures as bytes and the arguments of a launch: what is refused, and where the bytes come to lie. */
#include "unit/kl_support.h"

/* kernel k(x: in buf<f32>[n, d], w: in? buf<f32>[d], y: out buf<f32>[n, d], eps: f32, steps: i32), require d % 4 == 0 */
static och_kl_rule size_rule(const char *text, int64_t i) {
    och_kl_rule r = {.n_steps = 1, .steps = {{OCH_KL_R_SIZE, i}}};
    snprintf(r.text, sizeof r.text, "%s", text);
    return r;
}
static och_kl_rule one_rule(void) { return (och_kl_rule){.text = "1", .n_steps = 1, .steps = {{OCH_KL_R_CONST, 1}}}; }

static och_kl_signature *make(void) {
    static och_kl_signature s;
    memset(&s, 0, sizeof s);
    snprintf(s.kernel, sizeof s.kernel, "k");
    snprintf(s.entry, sizeof s.entry, "k_WAVES_4");
    snprintf(s.spec, sizeof s.spec, "WAVES=4");
    snprintf(s.target, sizeof s.target, "gfx1151");
    s.args[2].over = 1, s.args[0].over = 4;
    s.wave = 32, s.waves = 4, s.threads = 128, s.args_bytes = 64;
    s.n_args = 5, s.n_sizes = 2, s.n_rules = 1;
    const char *names[] = {"x", "w", "y", "eps", "steps"};
    for (int i = 0; i < 5; i++) {
        och_kl_arg *a = &s.args[i];
        snprintf(a->name, sizeof a->name, "%s", names[i]);
        snprintf(a->type, sizeof a->type, "%s", i == 4 ? "i32" : "f32");
        a->kind = i < 3 ? OCH_KL_A_BUFFER : OCH_KL_A_SCALAR;
        a->elem_bytes = 4, a->align_bytes = i < 3 ? 16 : 4;
        a->in = i != 2, a->out = i == 2, a->optional = i == 1;
        a->rank = i == 1 ? 1 : i < 3 ? 2 : 0;
        a->bytes = i < 3 ? 8 : 4;
        a->offset = i < 3 ? 8u * (uint32_t)i : 24 + 4 * (uint32_t)(i - 3);
        if (a->rank == 2) a->dims[0] = size_rule("n", 0);
        if (a->rank) a->dims[a->rank - 1] = size_rule("d", 1);
    }
    s.args[0].stride_offset[0] = 32, s.args[2].stride_offset[0] = 40;
    snprintf(s.sizes[0], sizeof s.sizes[0], "n");
    snprintf(s.sizes[1], sizeof s.sizes[1], "d");
    s.size_offset[0] = 48, s.size_offset[1] = 56;
    s.grid[0] = size_rule("n", 0), s.grid[1] = s.grid[2] = one_rule();
    s.rules[0] = (och_kl_rule){.text = "d % 4 == 0", .n_steps = 5,
                               .steps = {{OCH_KL_R_SIZE, 1}, {OCH_KL_R_CONST, 4}, {OCH_KL_R_MOD, 0}, {OCH_KL_R_CONST, 0}, {OCH_KL_R_EQ, 0}}};
    return &s;
}

static void goes_out_and_comes_back(void **state) {
    (void)state;
    och_kl_signature *s = make(), *back = calloc(1, sizeof *back);
    och_strbuf b = {0}, again = {0};
    och_err err = {0};
    assert_int_equal(och_kl_signature_write(s, &b, &err), OCH_OK);
    assert_int_equal(och_kl_signature_read(b.data, b.size, back, &err), OCH_OK);
    assert_memory_equal(s, back, sizeof *s);
    /* every shorter text, and a longer one, is refused */
    for (size_t n = 0; n < b.size; n++) {
        och_err_clear(&err);
        assert_int_equal(och_kl_signature_read(b.data, n, back, &err), OCH_CORRUPT);
    }
    och_strbuf_append(&b, "", 1);
    assert_int_equal(och_kl_signature_read(b.data, b.size, back, &err), OCH_CORRUPT);
    /* what would make packing write or read beyond its arrays */
    for (int i = 0; i < 12; i++) {
        s = make();
        switch (i) {
        case 0: s->args[0].offset = 60; break;
        case 1: s->args[0].stride_offset[0] = 57; break;
        case 2: s->size_offset[1] = 60; break;
        case 3: s->args_bytes = OCH_KL_MAX_ARG_BYTES + 1; break;
        case 4: s->grid[0].steps[0].value = 2; break;        /* no such size */
        case 5: s->rules[0].steps[0].op = OCH_KL_R_ADD; break; /* of nothing */
        case 6: s->rules[0].n_steps = 4; break;              /* two numbers left */
        case 7: s->args[3].bytes = 1; break;                 /* an f32 of one byte */
        case 8: s->args[2].over = 1u << 5; break;            /* no such argument */
        case 9: s->args[0].n_planes = 1, s->args[0].planes[0].span = 1; break; /* of a plain buffer */
        case 10: s->args[0].kind = OCH_KL_A_WEIGHT, s->args[0].n_planes = 1; break; /* a span of 0 */
        default: s->args[0].align_bytes = 24; break;
        }
        och_strbuf_clear(&again);
        assert_int_equal(och_kl_signature_write(s, &again, &err), OCH_OK);
        och_err_clear(&err);
        if (och_kl_signature_read(again.data, again.size, back, &err) != OCH_CORRUPT) fail_msg("wrong signature %d was taken", i);
    }
    och_strbuf_deinit(&b);
    och_strbuf_deinit(&again);
    free(back);
}

static och_kl_actual good[5];
static och_kl_actual *actuals(void) {
    memset(good, 0, sizeof good);
    good[0] = (och_kl_actual){.name = "x", .addr = 0x10000, .dims = {3, 8}, .row_bytes = {48}};
    good[1] = (och_kl_actual){.name = "w"};
    good[2] = (och_kl_actual){.name = "y", .addr = 0x20000, .dims = {3, 8}};
    good[3] = (och_kl_actual){.name = "eps", .real = 0.5};
    good[4] = (och_kl_actual){.name = "steps", .integer = -7};
    return good;
}

static int64_t at(const och_kl_packed *p, uint32_t offset) {
    int64_t v;
    memcpy(&v, p->args + offset, 8);
    return v;
}

static void lays_arguments_out(void **state) {
    (void)state;
    static och_kl_packed p;
    och_err err = {0};
    assert_int_equal(och_kl_pack(make(), actuals(), 5, &p, &err), OCH_OK);
    assert_int_equal(p.n_bytes, 64);
    assert_int_equal(at(&p, 0), 0x10000);
    assert_int_equal(at(&p, 8), 0);
    assert_int_equal(at(&p, 16), 0x20000);
    float eps;
    int32_t steps;
    memcpy(&eps, p.args + 24, 4);
    memcpy(&steps, p.args + 28, 4);
    assert_true(eps == 0.5f);
    assert_int_equal(steps, -7);
    assert_int_equal(at(&p, 32), 12); /* elements from row to row */
    assert_int_equal(at(&p, 40), 8);  /* dense */
    assert_int_equal(at(&p, 48), 3);
    assert_int_equal(at(&p, 56), 8);
    assert_int_equal(p.grid[0], 3);
    assert_int_equal(p.grid[1], 1);
    assert_int_equal(p.group[0], 128);
    good[0].dims[0] = good[2].dims[0] = 0; /* nothing to do is fine */
    assert_int_equal(och_kl_pack(make(), good, 5, &p, &err), OCH_OK);
    assert_int_equal(p.grid[0], 0);
}

static void says_what_is_wrong(void **state) {
    (void)state;
    static och_kl_packed p;
    for (int i = 0; i < 12; i++) {
        och_err err = {0};
        och_kl_actual *a = actuals();
        int n = 5;
        const char *words = "";
        switch (i) {
        case 0: a[0].name = "z"; words = "no argument z"; break;
        case 1: a[1].name = "x"; words = "argument x is given twice"; break;
        case 2: n = 4; words = "argument steps is not given"; break;
        case 3: a[0].addr = 0; words = "argument x: expected an address"; break;
        case 4: a[0].addr += 8; words = "multiple of 16, found 0x10008"; break;
        case 5: a[0].row_bytes[0] = 40; words = "multiple of 16 bytes apart, found 40"; break;
        case 6: a[0].row_bytes[0] = 16; words = "at least 32 bytes apart, found 16"; break;
        case 7: a[2].dims[1] = 12; words = "expected d = 8 as argument x has it, found 12"; break;
        case 8: a[0].dims[1] = a[2].dims[1] = 6; words = "d % 4 == 0"; break;
        case 9: a[4].integer = 1ll << 40; words = "type i32, found 1099511627776"; break;
        case 10: a[0].dims[1] = a[2].dims[1] = 1ll << 30; a[0].row_bytes[0] = 0; words = "less than 4 GiB, found 4294967296"; break;
        default: a[0].dims[0] = -1; words = "expected an extent from 0, found -1"; break;
        }
        och_status st = och_kl_pack(make(), a, n, &p, &err);
        if (st == OCH_OK || !strstr(err.message, words) || !strstr(err.message, "kernel k")) fail_msg("case %d: %s lacks \"%s\"", i, err.message, words);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(goes_out_and_comes_back), cmocka_unit_test(lays_arguments_out), cmocka_unit_test(says_what_is_wrong)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
