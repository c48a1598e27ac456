/* Kernel files that ask for more than is sensible: there is a message, soon, and no stack is used up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/strbuf.h"
#include "base/thread.h"
#include "kl/kl.h"

#define HEAD "kernel k(y: inout buf<f32>[n]) launch grid(1) waves(1) { "

static void parse_and_specialise(const och_strbuf *text, const char *target, och_strbuf *code, och_strbuf *entry,
                                 och_err *err) {
    och_kl_profile profile;
    och_kl_unit *unit;
    och_kl_code *made;
    och_strbuf diag = {0};
    och_err_clear(err);
    assert_int_equal(och_kl_profile_init(&profile, target, 0, err), OCH_OK);
    if (och_kl_parse("t.ok", och_strbuf_str(text), text->size, NULL, &unit, &diag, err) == OCH_OK) {
        if (och_kl_specialise(unit, och_kl_kernel_name(unit, 0), NULL, 0, &profile, &made, &diag, err) == OCH_OK) {
            if (entry) och_strbuf_puts(entry, och_kl_code_signature(made)->entry);
            assert_int_equal(och_kl_emit(made, code, err), OCH_OK);
            och_kl_code_destroy(made);
        }
        och_kl_unit_destroy(unit);
    }
    och_strbuf_deinit(&diag);
}

static void refused(const och_strbuf *text, const char *message) {
    och_err err = {0};
    och_strbuf code = {0};
    double began = och_now_seconds();
    parse_and_specialise(text, "gfx1100", &code, NULL, &err);
    double took = och_now_seconds() - began;
    if (err.status != OCH_COMPILE || !strstr(err.message, message))
        fail_msg("expected \"%s\", found %d \"%s\"", message, err.status, err.message);
    if (took > 60) fail_msg("%s: %.1f s", message, took);
    och_strbuf_deinit(&code);
}

static void put_many(och_strbuf *b, const char *what, int n) {
    for (int i = 0; i < n; i++) och_strbuf_puts(b, what);
}

static void deep(const char *open, const char *close, int levels, bool value) {
    och_strbuf b = {0};
    for (int i = 0; i < 60; i++) {
        och_strbuf_printf(&b, "fn f%d(a: f32) %s{ %s", i, value ? "-> f32 " : "", value ? "return " : "");
        if (i) {
            put_many(&b, open, levels);
            och_strbuf_printf(&b, "f%d(a)%s", i - 1, value ? "" : ";");
            put_many(&b, close, levels);
        } else if (value)
            och_strbuf_puts(&b, "a");
        och_strbuf_puts(&b, value ? "; }\n" : " }\n");
    }
    och_strbuf_puts(&b, HEAD);
    och_strbuf_puts(&b, value ? "y[0] = f59(y[1]); }" : "f59(y[1]); }");
    refused(&b, "nested too deeply, through calls and constants");
    och_strbuf_deinit(&b);
}

static void through_calls(void **state) {
    (void)state;
    deep("(1.0 + ", ")", 75, true);
    deep("-", "", 140, true);
    deep("max(a, ", ")", 75, true);
    deep("f32(i32(", "))", 36, true);
    deep("(a > 1.0 ? ", " : 2.0)", 50, true);
    deep("{ ", " }", 70, false);
    deep("if a > 1.0 { ", " }", 70, false);
    deep("for i in 0..2 { ", " }", 70, false);
    deep("static for i in 0..1 { ", " }", 70, false);
}

static void through_constants(void **state) {
    (void)state;
    och_strbuf b = {0};
    for (int i = 0; i < 20000; i++) och_strbuf_printf(&b, i ? "const c%d = c%d + 1;\n" : "const c%d = 1;\n", i, i - 1);
    och_strbuf_puts(&b, HEAD "y[0] = f32(c19999); }");
    refused(&b, "nested too deeply, through calls and constants");
    och_strbuf_deinit(&b);
}

/* Each turn tells one variable more that it is a lane's. */
static void a_chain_in_a_loop(void **state) {
    (void)state;
    och_strbuf b = {0};
    och_strbuf_puts(&b, HEAD);
    for (int i = 0; i < 500; i++) och_strbuf_printf(&b, "var v%d = 0.0; ", i);
    och_strbuf_puts(&b, "for i in 0..10 { ");
    for (int i = 0; i + 1 < 500; i++) och_strbuf_printf(&b, "v%d = v%d; ", i, i + 1);
    och_strbuf_puts(&b, "v499 = f32(thread.id); } y[0] = v0; }");
    refused(&b, "too large to find out what is uniform");
    och_strbuf_deinit(&b);
}

/* Names are looked for from the last to the first. */
static void a_name_behind_many(void **state) {
    (void)state;
    och_strbuf b = {0};
    och_strbuf_puts(&b, HEAD "let a = y[0];");
    for (int i = 0; i < 30000; i++) och_strbuf_printf(&b, "let b%d=1;", i);
    for (int i = 0; i < 40000; i++) och_strbuf_puts(&b, "y[0]=a;");
    och_strbuf_puts(&b, " }");
    refused(&b, "more than 2000000 nodes");
    och_strbuf_deinit(&b);
}

static void unrolled(void **state) {
    static const char *const loops[] = {"static for i in 0..1000000000 { y[i] = 1.0; }",
                                        "static for i in 0..1000, j in 0..1000, k in 0..1000 { }",
                                        "static for i in -9223372036854775807..9223372036854775807 { }"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        och_strbuf b = {0};
        och_strbuf_printf(&b, HEAD "%s }", loops[i]);
        refused(&b, "unrolled too far");
        och_strbuf_deinit(&b);
    }
}

/* A kernel and its variables may be named as C++, its functions and its macros are. */
static void names_of_others(void **state) {
    static const char *const names[] = {"int",  "abs",      "printf", "threadIdx", "__global__", "__LINE__",
                                        "NULL", "operator", "_",      "i32",       "OCH_WAVE",   "std"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        och_strbuf b = {0}, code = {0}, entry = {0};
        och_err err = {0};
        och_strbuf_printf(&b,
                          "kernel %s(y: inout buf<f32>[n]) launch grid(1) waves(1) { for i in group.lanes(n) { let %s "
                          "= y[i]; y[i] = %s + %s; } }",
                          names[i], names[i], names[i], names[i]);
        parse_and_specialise(&b, i % 2 ? "sm_90" : "gfx1100", &code, &entry, &err);
        if (err.status != OCH_OK) fail_msg("%s: %s", names[i], err.message);
        assert_string_not_equal(och_strbuf_str(&entry), names[i]);
        och_strbuf_clear(&b);
        och_strbuf_printf(&b, " f32 %s = ", names[i]);
        if (strcmp(names[i], "NULL") == 0 || names[i][0] == '_')
            assert_null(strstr(och_strbuf_str(&code), och_strbuf_str(&b)));
        och_strbuf_deinit(&b);
        och_strbuf_deinit(&code);
        och_strbuf_deinit(&entry);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(through_calls),      cmocka_unit_test(through_constants), cmocka_unit_test(a_chain_in_a_loop),
        cmocka_unit_test(a_name_behind_many), cmocka_unit_test(unrolled),          cmocka_unit_test(names_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
