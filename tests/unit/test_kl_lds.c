/* LDS beyond what code for a target may have of its own: given at the launch, each array at an offset of one block. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/strbuf.h"
#include "kl/kl.h"

#include <stdio.h>
#include <string.h>

static const char text[] =
    "kernel big(x: in buf<f32>[n], y: out buf<f32>[n])\n"
    "  param N: int\n"
    "  require n <= N\n"
    "  launch grid(1) waves(1)\n"
    "{\n"
    "  lds A: f32[N];\n"
    "  lds B: u8[5];\n"
    "  lds C: f32[4];\n"
    "  for i in group.lanes(n) { A[i] = x[i]; }\n"
    "  for i in group.lanes(5) { B[i] = u8(i); }\n"
    "  for i in group.lanes(4) { C[i] = f32(i); }\n"
    "  group.barrier();\n"
    "  for i in group.lanes(n) { y[i] = A[n - 1 - i] + C[i % 4] + f32(B[i % 5]); }\n"
    "}\n";

/* The signature, and the text as emitted. */
static och_kl_signature specialise(const char *target, const char *n, och_strbuf *out) {
    och_kl_unit *u;
    och_kl_code *c;
    och_kl_profile p;
    och_strbuf diag = {0};
    och_err err = {0};
    const och_kl_binding b = {"N", n};
    if (och_kl_parse("big.ok", text, sizeof text - 1, NULL, &u, &diag, &err) != OCH_OK) fail_msg("%s", och_strbuf_str(&diag));
    if (och_kl_profile_init(&p, target, 0, &err) != OCH_OK) fail_msg("%s", err.message);
    if (och_kl_specialise(u, "big", &b, 1, &p, &c, &diag, &err) != OCH_OK) fail_msg("%s%s", och_strbuf_str(&diag), err.message);
    och_strbuf_clear(out);
    assert_int_equal(och_kl_emit(c, out, &err), OCH_OK);
    och_kl_signature s = *och_kl_code_signature(c);
    och_kl_code_destroy(c);
    och_kl_unit_destroy(u);
    och_strbuf_deinit(&diag);
    return s;
}

static void given_at_the_launch(void **state) {
    (void)state;
    och_strbuf t = {0}, bytes = {0};
    och_err err = {0};
    och_kl_signature s = specialise("sm_90", "15000", &t), read;
    assert_int_equal(s.lds_bytes, 60000 + 16 + 16);
    assert_int_equal(s.lds_launch_bytes, s.lds_bytes);
    assert_non_null(strstr(och_strbuf_str(&t), "extern __shared__"));
    for (int i = 0; i < 3; i++) {
        static const char *const arrays[] = {"f32 *const A = (f32 *)(och_lds + 0);", "u8 *const B = (u8 *)(och_lds + 60000);",
                                             "f32 *const C = (f32 *)(och_lds + 60016);"};
        if (!strstr(och_strbuf_str(&t), arrays[i])) fail_msg("no %s in %s", arrays[i], och_strbuf_str(&t));
    }
    /* what is launched says so, also when the signature comes from a cache */
    assert_int_equal(och_kl_signature_write(&s, &bytes, &err), OCH_OK);
    assert_int_equal(och_kl_signature_read(bytes.data, bytes.size, &read, &err), OCH_OK);
    assert_int_equal(read.lds_launch_bytes, s.lds_bytes);
    const och_kl_actual actuals[] = {{.name = "x", .addr = 4096, .dims = {100}}, {.name = "y", .addr = 8192, .dims = {100}}};
    och_kl_packed p;
    assert_int_equal(och_kl_pack(&read, actuals, 2, &p, &err), OCH_OK);
    assert_int_equal(p.lds_bytes, s.lds_bytes);
    /* all of it or none */
    s.lds_launch_bytes = 16;
    och_strbuf_clear(&bytes);
    assert_int_equal(och_kl_signature_write(&s, &bytes, &err), OCH_OK);
    assert_int_equal(och_kl_signature_read(bytes.data, bytes.size, &read, &err), OCH_CORRUPT);
    och_strbuf_deinit(&t);
    och_strbuf_deinit(&bytes);
}

static void of_its_own(void **state) {
    (void)state;
    static const struct {
        const char *target, *n;
    } cases[] = {{"sm_90", "12000"}, {"gfx1100", "15000"}, {"gfx950", "30000"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        och_strbuf t = {0};
        och_err err = {0};
        och_kl_signature s = specialise(cases[i].target, cases[i].n, &t);
        assert_true(s.lds_bytes > 48000 && s.lds_launch_bytes == 0);
        assert_null(strstr(och_strbuf_str(&t), "och_lds"));
        const och_kl_actual actuals[] = {{.name = "x", .addr = 4096, .dims = {100}}, {.name = "y", .addr = 8192, .dims = {100}}};
        och_kl_packed p;
        assert_int_equal(och_kl_pack(&s, actuals, 2, &p, &err), OCH_OK);
        assert_int_equal(p.lds_bytes, 0);
        och_strbuf_deinit(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(given_at_the_launch), cmocka_unit_test(of_its_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
