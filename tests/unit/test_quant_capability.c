/* The capability table: total, unambiguous, and right where the answers were written down by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "quant/capability.h"
#include "quant/format.h"

#include <string.h>

static void every_weight_format_is_read_by_every_provider(void **s) {
    (void)s;
    static const char *const backends[] = {"reference", "cpu", "kernel"};
    static const char *const ops[] = {"linear", "embed"};
    const och_format *f;
    for (size_t i = 0; (f = och_format_at(i)); i++)
        for (int b = 0; b < 3; b++)
            for (int o = 0; o < 2; o++) {
                const och_capability_row *r = och_capability(backends[b], NULL, f->dtype, ops[o]);
                assert_int_equal(r->verdict, f->dtype == OCH_DTYPE_F32 ? OCH_VERDICT_NATIVE
                                                                       : OCH_VERDICT_DECODE_IN_KERNEL);
                assert_int_equal(r->convert_to, OCH_DTYPE_NONE);
                assert_string_equal(r->backend, backends[b]);
                assert_int_equal(och_capability_check(backends[b], "", f->dtype, ops[o], NULL), OCH_OK);
            }
}

static void vectors_become_float(void **s) {
    (void)s;
    assert_int_equal(och_capability("cpu", "", OCH_DTYPE_F32, "vector")->verdict, OCH_VERDICT_NATIVE);
    const och_capability_row *r = och_capability("cpu", "", OCH_DTYPE_BF16, "vector");
    assert_int_equal(r->verdict, OCH_VERDICT_CONVERT_AT_LOAD);
    assert_int_equal(r->convert_to, OCH_DTYPE_F32);
    r = och_capability("kernel", "any", OCH_DTYPE_F16, "vector");
    assert_int_equal(r->verdict, OCH_VERDICT_CONVERT_AT_LOAD);
    assert_int_equal(r->convert_to, OCH_DTYPE_F32);
    assert_int_equal(och_capability("kernel", "any", OCH_DTYPE_Q8_0, "vector")->verdict, OCH_VERDICT_REJECT);
    r = och_capability("reference", "", OCH_DTYPE_Q4_0, "vector");
    assert_int_equal(r->verdict, OCH_VERDICT_REJECT);
    assert_non_null(strstr(r->message, "norm weights"));
}

static void the_rest_is_refused_with_a_message(void **s) {
    (void)s;
    och_err err;
    och_err_clear(&err);
    assert_int_equal(och_capability_check("cpu", NULL, OCH_DTYPE_I32, "linear", &err), OCH_UNSUPPORTED);
    assert_string_equal(err.message, "linear of I32 weights on cpu: an integer tensor is no weight (packed GPTQ or AWQ "
                                     "checkpoints are not read); convert the model to GGUF or to BF16");
    och_err_clear(&err);
    assert_int_equal(och_capability_check("elsewhere", "model9", OCH_DTYPE_Q4_0, "linear", &err), OCH_UNSUPPORTED);
    assert_string_equal(err.message, "linear of Q4_0 weights on elsewhere model9: no kernel reads this format; convert "
                                     "the tensor to F16, Q8_0 or Q4_K");
    assert_int_equal(och_capability("cpu", "", OCH_DTYPE_Q4_0, "no-such-op")->verdict, OCH_VERDICT_REJECT);
    assert_int_equal(och_capability("cpu", "", OCH_DTYPE_NONE, "linear")->verdict, OCH_VERDICT_REJECT);
    static const och_dtype no_weights[] = {OCH_DTYPE_I8,  OCH_DTYPE_I16, OCH_DTYPE_I32, OCH_DTYPE_I64,
                                           OCH_DTYPE_F64, OCH_DTYPE_U8,  OCH_DTYPE_BOOL};
    for (size_t i = 0; i < sizeof no_weights / sizeof *no_weights; i++)
        assert_int_equal(och_capability("cpu", "", no_weights[i], "linear")->verdict, OCH_VERDICT_REJECT);
}

static void rows_agree_with_themselves(void **s) {
    (void)s;
    const och_capability_row *a, *b;
    size_t n = 0;
    for (; (a = och_capability_at(n)); n++) {
        assert_int_equal(a->verdict == OCH_VERDICT_REJECT, a->message[0] != 0);
        assert_int_equal(a->verdict == OCH_VERDICT_CONVERT_AT_LOAD, a->convert_to != OCH_DTYPE_NONE);
        for (size_t j = 0; j < n; j++) {
            b = och_capability_at(j);
            assert_false(a->dtype == b->dtype && !strcmp(a->backend, b->backend) && !strcmp(a->target, b->target) &&
                         !strcmp(a->op, b->op));
        }
        /* a row is found by its own key */
        if (a->dtype != OCH_DTYPE_NONE && strcmp(a->backend, "*") && strcmp(a->op, "*"))
            assert_ptr_equal(och_capability(a->backend, a->target, a->dtype, a->op), a);
        /* a conversion ends in a format that is taken without another one */
        if (a->convert_to != OCH_DTYPE_NONE)
            assert_int_equal(och_capability(a->backend, a->target, a->convert_to, a->op)->verdict, OCH_VERDICT_NATIVE);
    }
    a = och_capability_at(n - 1);
    assert_true(!strcmp(a->backend, "*") && !strcmp(a->op, "*") && a->dtype == OCH_DTYPE_NONE);
    for (int v = OCH_VERDICT_NATIVE; v <= OCH_VERDICT_REJECT; v++)
        assert_string_not_equal(och_verdict_name((och_verdict)v), "?");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_weight_format_is_read_by_every_provider),
        cmocka_unit_test(vectors_become_float),
        cmocka_unit_test(the_rest_is_refused_with_a_message),
        cmocka_unit_test(rows_agree_with_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
