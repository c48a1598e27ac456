/* Where a kernel waits for those before it: what may be read earlier, and what no compiler may read earlier. */
#include "unit/kl_support.h"

#include "base/size.h"

static const char early[] = "kernel k(x: in buf<f32>[n], w: in steady buf<f32>[n], y: out buf<f32>[n])\n"
                            "  launch grid(1) waves(1)\n"
                            "{\n"
                            "  let a = w[thread.id];\n"
                            "  await();\n"
                            "  y[thread.id] = x[thread.id] * a;\n"
                            "}\n";

static const char let_go[] = "kernel k(x: in buf<f32>[n], y: out buf<f32>[n])\n"
                             "  launch grid(1) waves(1)\n"
                             "{\n"
                             "  await();\n"
                             "  release();\n"
                             "  y[thread.id] = x[thread.id];\n"
                             "}\n";

static char *text_for(const char *source, const char *target) {
    och_err err = {0};
    och_strbuf diag = {0};
    och_kl_unit *u;
    och_kl_code *c;
    och_kl_profile p;
    if (och_kl_parse("k.ok", source, strlen(source), NULL, &u, &diag, &err) != OCH_OK) fail_msg("%s%s", och_strbuf_str(&diag), err.message);
    assert_int_equal(och_kl_profile_init(&p, target, 0, &err), OCH_OK);
    if (och_kl_specialise(u, "k", NULL, 0, &p, &c, &diag, &err) != OCH_OK) fail_msg("%s%s", och_strbuf_str(&diag), err.message);
    char *text = emitted(c);
    och_kl_code_destroy(c);
    och_kl_unit_destroy(u);
    och_strbuf_deinit(&diag);
    return text;
}

/* What may have been written just before goes through the wait: its pointers come out of it, and no load through them can stand
 * in front. What is steady does not, and is read where the kernel says. */
static void what_is_steady_is_read_early(void **s) {
    (void)s;
    char *text = text_for(early, "sm_90"), *body = strstr(text, "extern \"C\"");
    assert_non_null(body);
    const char *wait = strstr(body, "och_await("), *w = strstr(body, "(const u8 *)w"), *x = strstr(body, "(const u8 *)x");
    if (!wait || !w || !x) fail_msg("%s", body);
    assert_true(w < wait && wait < x);
    const char *held = strstr(body, "w = och_behind(w);"); /* else a load from `const` and `restrict` is moved behind the wait */
    assert_true(held && held < w && !strstr(body, "x = och_behind(x);"));
    assert_memory_equal(wait, "och_await(x, y);", 16);
    assert_null(strstr(wait + 1, "och_await("));
    free(text);
}

/* What is launched after a kernel may start where it begins, or where it says so: there, once. */
static void what_comes_next_starts_where_it_says(void **s) {
    (void)s;
    static const char go[] = "griddepcontrol.launch_dependents";
    char *text = text_for(early, "sm_90"), *body = strstr(text, "extern \"C\"");
    const char *at = strstr(body, go);
    assert_true(at && at < strstr(body, "och_await(") && !strstr(at + 1, go));
    free(text);
    text = text_for(let_go, "sm_90");
    body = strstr(text, "extern \"C\"");
    at = strstr(body, go);
    assert_true(at && at > strstr(body, "och_await(") && at < strstr(body, "(const u8 *)x") && !strstr(at + 1, go));
    free(text);
}

/* Where one kernel follows another there is nothing to wait for. */
static void others_do_not_wait(void **s) {
    (void)s;
    static const char *const targets[] = {"gfx1151", "gfx942", "sm_80"};
    for (size_t i = 0; i < OCH_COUNT(targets); i++) {
        for (int k = 0; k < 2; k++) {
            char *text = text_for(k ? let_go : early, targets[i]);
            if (strstr(text, "och_await") || strstr(text, "griddepcontrol")) fail_msg("%s: %s", targets[i], text);
            free(text);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_steady_is_read_early), cmocka_unit_test(what_comes_next_starts_where_it_says),
                                       cmocka_unit_test(others_do_not_wait)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
