/* Specialisation: types, uniformity, rules, unrolling, signatures, on small texts. What is refused with which words is tested by
 * tests/kl/wrong; here stand pairs that differ in what matters, and what the code and the signature hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "kl/ir.h"
#include "kl/kl.h"

typedef struct made {
    och_kl_unit *unit;
    och_kl_code *code;
    och_strbuf diag;
    och_err err;
    och_status st;
} made;

static made specialise(const char *text, const char *bindings, const char *target, int wave) {
    made m = {0};
    och_err err = {0};
    if (och_kl_parse("t.ok", text, strlen(text), NULL, &m.unit, &m.diag, &err) != OCH_OK) fail_msg("%s", och_strbuf_str(&m.diag));
    och_kl_profile p;
    assert_int_equal(och_kl_profile_init(&p, target, wave, &err), OCH_OK);
    char words[256];
    snprintf(words, sizeof words, "%s", bindings);
    och_kl_binding b[8];
    int n = 0;
    for (char *w = strtok(words, ","); w; w = strtok(NULL, ",")) {
        char *eq = strchr(w, '=');
        *eq = 0;
        b[n++] = (och_kl_binding){w, eq + 1};
    }
    m.st = och_kl_specialise(m.unit, "k", b, n, &p, &m.code, &m.diag, &m.err);
    return m;
}
static void release(made *m) {
    och_kl_code_destroy(m->code);
    och_kl_unit_destroy(m->unit);
    och_strbuf_deinit(&m->diag);
}

/* A kernel over x, y and i32 k with this body. */
static made body(const char *head, const char *text, const char *bindings) {
    char all[4096];
    snprintf(all, sizeof all,
             "fn same(v) { return v; }\n"
             "kernel k(x: in buf<f32>[n, d], ks: in buf<i32>[n], y: out buf<f32>[n, d], h: inout buf<f16>[n, d], a: f32, c: i32)\n"
             "  param WAVES: int = 4%s launch grid(n) waves(WAVES)\n{ %s }\n",
             head, text);
    return specialise(all, bindings, "gfx1151", 0);
}
static void accepts(const char *head, const char *text) {
    made m = body(head, text, "");
    if (m.st != OCH_OK) fail_msg("%s\n%s", text, och_strbuf_str(&m.diag));
    release(&m);
}
static void refuses_with(const char *head, const char *text, const char *words, const char *bindings) {
    made m = body(head, text, bindings);
    if (m.st == OCH_OK) fail_msg("accepted: %s", text);
    if (!strstr(och_strbuf_str(&m.diag), words)) fail_msg("%s\nexpected \"%s\" in:\n%s", text, words, och_strbuf_str(&m.diag));
    assert_int_equal(m.st, OCH_COMPILE);
    assert_null(m.code);
    release(&m);
}
static void refuses(const char *text, const char *words) { refuses_with("", text, words, ""); }

static void numbers_take_their_place(void **state) {
    (void)state;
    accepts("", "y[0, 0] = 1; h[0, 0] = 2; h[0, 1] = 0.5; let v = a * 2; let i = c + 1; let w = d + 1; let s = c > 0 ? 1 : 2; y[0, 1] = c > 0 ? 1 : 0.5;");
}

static void types(void **state) {
    (void)state;
    accepts("", "let v = a * f32(c); let w = d * c; let u = u32(c) + 1; h[0, 0] = f16(a); let e = f32x4(a, 1, 2, c > 1 ? 3 : 4)[3] + a;");
    accepts("", "let m = same(a) + f32(same(c)); var z: f32[2][3] = 0; static for i in 0..2, j in 0..3 { z[i][j] += a; } let q = bits<u32>(a) >> 3;");
    refuses("let v = a * c;", "f32 beside i32");
    refuses("h[0, 0] = a;", "expected f16, found f32");
    refuses("var i = 1; i = 1.5;", "expected i32");
    refuses("let u = u32(c) + c;", "u32 beside i32");
    refuses("let v = f32x4(a) + f32x2(a);", "f32x4 beside f32x2");
    refuses("if c { }", "expected bool");
    refuses("let b = true; let v = b + 1;", "expected bool, found the number 1");
    refuses("let q = bits<u64>(a);", "u64 has 64 bits, f32 has 32");
    refuses("var z: f32[2]; z = 1;", "assigned by element");
}

/* Control, and what may stand in it: a pair for each rule. */
static void uniformity(void **state) {
    (void)state;
    accepts("", "if group.id.x == 0 && c > 3 { group.barrier(); }");
    refuses("if thread.id == 0 { group.barrier(); }", "different in each lane");
    refuses("if wave.id == 0 { group.barrier(); }", "uniform in a wave only");
    accepts("", "if wave.id == 0 { let s = wave.sum(a); }");
    refuses("if wave.first { let s = wave.sum(a); }", "different in each lane");
    /* A load of what is only read, at a uniform index, is uniform; of anything else it is not. */
    accepts("", "if ks[group.id.x] > 3 { group.barrier(); }");
    refuses("if ks[thread.id] > 3 { group.barrier(); }", "different in each lane");
    refuses("if f32(h[0, 0]) > 3.0 { group.barrier(); }", "different in each lane");
    accepts("", "if group.uniform(f32(h[0, 0])) > 3.0 { group.barrier(); }");
    /* A variable is as uniform as the last that is assigned, wherever. */
    accepts("", "var v = 0; for i in 0..10 { if v == 3 { group.barrier(); } v = c; }");
    refuses("var v = 0; for i in 0..10 { if v == 3 { group.barrier(); } v = thread.id; }", "different in each lane");
    refuses("var v = 0; var w = 0; var u = 0; for i in 0..10 { if v == 3 { group.barrier(); } v = w; w = u; u = thread.id; }", "different in each lane");
    refuses("var v = 0; if thread.id > 4 { v = 1; } if v == 0 { group.barrier(); }", "different in each lane");
    refuses("var v = 0; if wave.id > 1 { v = 1; } if v == 0 { group.barrier(); }", "uniform in a wave only");
    /* Who left a loop is away to its end, and back behind it. */
    refuses("for i in 0..10 { group.barrier(); if thread.id == i { break; } }", "different in each lane");
    accepts("", "for i in 0..10 { if thread.id == i { break; } } group.barrier();");
    refuses("for i in 0..10 { if thread.id == i { continue; } group.barrier(); }", "different in each lane");
    accepts("", "for i in 0..10 { group.barrier(); if thread.id == i { continue; } y[0, 0] = 1; }");
    refuses("while y[0, thread.id] > 0.0 { group.barrier(); y[0, 0] = 1; }", "");
    refuses("var i = thread.id; while i < 10 { group.barrier(); i += 1; }", "different in each lane");
    refuses("if thread.id > 3 { return; }", "different in each lane");
    accepts("", "if c > 3 { return; } group.barrier();");
    /* Shares: their turns differ, unless they come out even. */
    refuses("for i in group.lanes(d) { group.barrier(); }", "different in each lane");
    refuses("for i in group.lanes(100) { group.barrier(); }", "different in each lane");
    accepts("", "for i in group.lanes(1024) { group.barrier(); }");
    accepts("", "for i in group.waves(d) { let s = wave.sum(a); }");
    refuses("for i in group.waves(d) { group.barrier(); }", "uniform in a wave only");
    accepts("", "for i in group.waves(8) { group.barrier(); }");
    /* Clusters. */
    accepts("", "if thread.id / 16 == 3 { let s = cluster(16).sum(a); let t = cluster(8).sum(a); }");
    refuses("if thread.id / 8 == 3 { let s = cluster(16).sum(a); }", "uniform in clusters of 8 lanes only");
    accepts("", "let t = thread.id; if t / 32 == 3 { let s = cluster(32).sum(a); }");
    accepts("", "if cluster(16).sum(c) == 3 { let s = cluster(16).max(a); }");
    refuses("if cluster(8).sum(c + thread.id) == 3 { let s = wave.max(a); }", "uniform in clusters of 8 lanes only");
    /* Both sides of && and ?: are conditions. */
    refuses("let b = thread.id > 3 && group.sum(a) > 1.0;", "different in each lane");
    accepts("", "let b = c > 3 && group.sum(a) > 1.0;");
    /* One wave is the group. */
    made m = body("", "if wave.any(thread.id > 3) { group.barrier(); }", "WAVES=1");
    assert_int_equal(m.st, OCH_OK);
    release(&m);
    refuses("if wave.any(thread.id > 3) { group.barrier(); }", "uniform in a wave only");
}

static void memory(void **state) {
    (void)state;
    refuses("let v = x.row(0).load4(0);", "require d % 4 == 0");
    accepts(" require d % 4 == 0", "let v = x.row(0).load4(0);");
    refuses_with(" require d % 4 == 0", "let v = x.row(0).load8(0);", "multiple of 8", "");
    accepts(" require d % 4 == 0, d % 6 == 0, d % (2 * WAVES) == 0", "let v = x.row(0).load8(0);");
    accepts(" require c > 3 && d == 64", "let v = x.row(0).load16(0);");
    refuses("x[0, 0] = 1;", "it is not written");
    refuses("let v = y[0, 0];", "nothing is in it");
    accepts("", "y[0, 0] = 1; let v = y[0, 0];");
    refuses("let v = x[0];", "2 dimensions, found 1 index");
    refuses("var r: f32[4] = 0; for i in 0..4 { r[i] = 1; }", "known when compiled");
    refuses("let v = f32x4(a)[4];", "element 4 of a vector of 4");
}

static void unrolling(void **state) {
    (void)state;
    made m = body("", "var s: i32[4] = 0; static for i in 0..4, j in 0..3 { s[i] += c * j; }", "");
    assert_int_equal(m.st, OCH_OK);
    int assigned = 0;
    for (const och_kl_ins *i = m.code->body.first; i; i = i->next) {
        assert_int_not_equal(i->kind, OCH_KL_I_FOR);
        assigned += i->kind == OCH_KL_I_ASSIGN;
    }
    assert_int_equal(assigned, 12);
    release(&m);
    refuses("static for i in 0..d { }", "constant integer");
    refuses("var s = 0; static for i in 0..2000, j in 0..2000 { s += i; }", "unrolled too far");
    accepts("", "static if WAVES == 3 { nonsense(); } else { y[0, 0] = 1; }");
    refuses("if WAVES == 3 { nonsense(); }", "unknown function");
    refuses("static for i in 0..3 { break; }", "in no loop");
}

/* ---- the signature ---- */

static const char sized[] = "const TWO = 2;\n"
                            "kernel k(x: in buf<T>[n, d], z: in? buf<f32>[l, n, HD], y: out buf<f32>[n, d] over x, b: bool, h: f16, s: f32, i: i64)\n"
                            "  param T: elem = f16, HD: int, ON: bool = true, R: 1..4 = TWO\n"
                            "  require d % 8 == 0, HD % 2 == 0, HD > 1, HD >= R, n > 3 || i != 5 && d <= 4 * n\n"
                            "  launch grid(ceil_div(n, R), round_up(d, 8) / 8, max(2, i)) waves(R)\n"
                            "{ lds A: f32[10]; y[0, 0] = f32(x.row(0).load8(0)[0]) + s; }\n";

static int64_t value_of(const och_kl_rule *r, const int64_t *sizes, int64_t scalar) {
    int64_t st[32];
    int n = 0;
    for (int i = 0; i < r->n_steps; i++) {
        int64_t b = n > 0 ? st[n - 1] : 0, a = n > 1 ? st[n - 2] : 0, v = r->steps[i].value;
        switch (r->steps[i].op) {
        case OCH_KL_R_CONST: st[n++] = v; break;
        case OCH_KL_R_SIZE: st[n++] = sizes[v]; break;
        case OCH_KL_R_SCALAR: st[n++] = scalar; break;
        case OCH_KL_R_NOT: st[n - 1] = !b; break;
        case OCH_KL_R_ADD: st[--n - 1] = a + b; break;
        case OCH_KL_R_SUB: st[--n - 1] = a - b; break;
        case OCH_KL_R_MUL: st[--n - 1] = a * b; break;
        case OCH_KL_R_DIV: st[--n - 1] = a / b; break;
        case OCH_KL_R_MOD: st[--n - 1] = a % b; break;
        case OCH_KL_R_CEIL_DIV: st[--n - 1] = (a + b - 1) / b; break;
        case OCH_KL_R_MIN: st[--n - 1] = a < b ? a : b; break;
        case OCH_KL_R_MAX: st[--n - 1] = a > b ? a : b; break;
        case OCH_KL_R_EQ: st[--n - 1] = a == b; break;
        case OCH_KL_R_NE: st[--n - 1] = a != b; break;
        case OCH_KL_R_LT: st[--n - 1] = a < b; break;
        case OCH_KL_R_LE: st[--n - 1] = a <= b; break;
        case OCH_KL_R_AND: st[--n - 1] = a && b; break;
        case OCH_KL_R_OR: st[--n - 1] = a || b; break;
        }
    }
    assert_int_equal(n, 1);
    return st[0];
}

static void signatures(void **state) {
    (void)state;
    made m = specialise(sized, "HD=64,R=3", "gfx942", 0);
    if (m.st != OCH_OK) fail_msg("%s%s", och_strbuf_str(&m.diag), m.err.message);
    const och_kl_signature *s = och_kl_code_signature(m.code);
    assert_string_equal(s->spec, "T=f16,HD=64,ON=true,R=3");
    assert_string_equal(s->entry, "k_T_f16_HD_64_ON_true_R_3");
    assert_string_equal(s->target, "gfx942");
    assert_int_equal(s->wave, 64);
    assert_int_equal(s->waves, 3);
    assert_int_equal(s->threads, 192);
    assert_int_equal(s->lds_bytes, 48);
    assert_int_equal(s->n_args, 7);
    assert_int_equal(s->n_sizes, 3);
    assert_string_equal(s->sizes[0], "n");
    assert_string_equal(s->sizes[1], "d");
    assert_string_equal(s->sizes[2], "l");
    /* three pointers, strides of x (1), z (2), y (1), three sizes, then bool, f16, f32, i64 */
    static const uint32_t at[7] = {0, 8, 16, 80, 82, 84, 88};
    for (int i = 0; i < 7; i++) assert_int_equal(s->args[i].offset, at[i]);
    assert_int_equal(s->args[0].stride_offset[0], 24);
    assert_int_equal(s->args[1].stride_offset[0], 32);
    assert_int_equal(s->args[1].stride_offset[1], 40);
    assert_int_equal(s->args[2].stride_offset[0], 48);
    for (int i = 0; i < 3; i++) assert_int_equal(s->size_offset[i], 56 + 8 * i);
    assert_int_equal(s->args_bytes, 96);
    assert_int_equal(s->args[0].align_bytes, 16); /* load8 of f16 */
    assert_true(s->args[0].in && !s->args[0].out && !s->args[0].optional);
    assert_true(s->args[1].optional);
    assert_true(!s->args[2].in && s->args[2].out);
    assert_int_equal(s->args[1].dims[2].steps[0].op, OCH_KL_R_CONST);
    assert_int_equal(s->args[1].dims[2].steps[0].value, 64);
    int64_t sizes[3] = {10, 24, 2};
    assert_int_equal(value_of(&s->grid[0], sizes, 7), 4);
    assert_int_equal(value_of(&s->grid[1], sizes, 7), 3);
    assert_int_equal(value_of(&s->grid[2], sizes, 7), 7);
    assert_int_equal(value_of(&s->grid[2], sizes, -7), 2);
    assert_string_equal(s->rules[0].text, "d % 8 == 0");
    assert_int_equal(value_of(&s->rules[0], sizes, 7), 1);
    sizes[1] = 25;
    assert_int_equal(value_of(&s->rules[0], sizes, 7), 0);
    assert_string_equal(s->rules[1].text, "n > 3 || i != 5 && d <= 4 * n");
    sizes[0] = 3;
    assert_int_equal(value_of(&s->rules[1], sizes, 5), 0);
    assert_int_equal(value_of(&s->rules[1], sizes, 6), 0);
    sizes[1] = 12;
    assert_int_equal(value_of(&s->rules[1], sizes, 6), 1);
    /* x and y may be one memory */
    int aliased = 0, read_only = 0;
    for (const och_kl_var *v = m.code->vars; v; v = v->next) aliased += v->aliased, read_only += v->read_only;
    assert_int_equal(aliased, 2);
    assert_int_equal(read_only, 1);
    release(&m);
}

static void bindings(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
    } wrong[] = {{"", "HD is missing"},          {"HD=64,X=1", "no parameter X: there are T, HD, ON, R"}, {"HD=64,HD=65", "given twice"},
                 {"HD=x", "expected an integer"}, {"HD=64,R=5", "expected 1 to 4, found 5"},             {"HD=64,T=f33", "expected a storage type"},
                 {"HD=64,ON=1", "true or false"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        made m = specialise(sized, wrong[i].text, "gfx1151", 0);
        assert_int_equal(m.st, OCH_INVALID);
        if (!strstr(m.err.message, wrong[i].words)) fail_msg("%s: %s", wrong[i].text, m.err.message);
        release(&m);
    }
    made m = specialise(sized, "HD=63", "gfx1151", 0);
    assert_int_equal(m.st, OCH_COMPILE);
    assert_non_null(strstr(och_strbuf_str(&m.diag), "require HD % 2 == 0"));
    release(&m);
    och_kl_profile p;
    och_err err = {0};
    assert_int_equal(och_kl_profile_init(&p, "gfx942", 32, &err), OCH_INVALID);
    assert_int_equal(och_kl_profile_init(&p, "gfx1151", 64, NULL), OCH_OK);
    assert_int_equal(p.wave, 64);
}

/* Memory refused at any point ends in NOMEM with nothing left behind. */
static void refused_memory(void **state) {
    (void)state;
    och_kl_unit *u;
    och_strbuf diag = {0};
    och_err err = {0};
    assert_int_equal(och_kl_parse("t.ok", sized, strlen(sized), NULL, &u, &diag, &err), OCH_OK);
    och_kl_profile p;
    assert_int_equal(och_kl_profile_init(&p, "gfx1151", 0, &err), OCH_OK);
    och_kl_binding b = {"HD", "64"};
    int64_t live = och_alloc_live();
    for (uint64_t n = 1;; n++) {
        och_kl_code *c;
        och_err_clear(&err);
        och_alloc_fail_at(n);
        och_status st = och_kl_specialise(u, "k", &b, 1, &p, &c, NULL, &err);
        bool past = och_alloc_count() < n;
        och_alloc_fail_at(0);
        if (st == OCH_OK) och_kl_code_destroy(c);
        else assert_int_equal(st, OCH_NOMEM);
        assert_int_equal(och_alloc_live(), live);
        if (past) break;
    }
    och_kl_unit_destroy(u);
    och_strbuf_deinit(&diag);
}

/* Waves a SIMD in the dialect's own words; a multiprocessor has four SIMDs. */
static void occupancy(void **state) {
    (void)state;
    static const struct {
        const char *target, *bindings, *says;
    } cases[] = {
        {"sm_90", "WAVES=4,N=8", " __launch_bounds__(128, 8) "},   {"sm_90", "WAVES=8,N=8", " __launch_bounds__(256, 4) "},
        {"sm_90", "WAVES=4,N=0", " __launch_bounds__(128) "},      {"sm_90", "WAVES=4,N=99", " __launch_bounds__(128, 16) "},
        {"sm_89", "WAVES=4,N=99", " __launch_bounds__(128, 12) "}, {"sm_90", "WAVES=16,N=2", " __launch_bounds__(512, 1) "},
        {"gfx1151", "WAVES=4,N=8", "(128, 128), amdgpu_waves_per_eu(8)))"}, {"gfx942", "WAVES=4,N=99", "(256, 256), amdgpu_waves_per_eu(8)))"},
        {"gfx1151", "WAVES=4,N=0", "amdgpu_flat_work_group_size(128, 128)))"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        made m = specialise("kernel k(y: out buf<f32>[n]) param WAVES: int, N: int launch grid(n) waves(WAVES) occupancy(N) { y[0] = 0.0; }",
                            cases[i].bindings, cases[i].target, 0);
        och_strbuf text = {0};
        assert_int_equal(m.st, OCH_OK);
        assert_int_equal(och_kl_emit(m.code, &text, &m.err), OCH_OK);
        if (!strstr(och_strbuf_str(&text), cases[i].says)) fail_msg("%s %s: no %s", cases[i].target, cases[i].bindings, cases[i].says);
        och_strbuf_deinit(&text);
        release(&m);
    }
    for (int i = 0; i < 2; i++) { /* nothing said */
        made m = specialise("kernel k(y: out buf<f32>[n]) launch grid(n) waves(4) { y[0] = 0.0; }", "", i ? "gfx1151" : "sm_90", 0);
        och_strbuf text = {0};
        assert_int_equal(m.st, OCH_OK);
        assert_int_equal(och_kl_emit(m.code, &text, &m.err), OCH_OK);
        assert_non_null(strstr(och_strbuf_str(&text), i ? "amdgpu_flat_work_group_size(128, 128)))" : " __launch_bounds__(128, 1) "));
        och_strbuf_deinit(&text);
        release(&m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_take_their_place), cmocka_unit_test(types), cmocka_unit_test(uniformity), cmocka_unit_test(memory), cmocka_unit_test(unrolling),
                                       cmocka_unit_test(signatures), cmocka_unit_test(occupancy), cmocka_unit_test(bindings), cmocka_unit_test(refused_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
