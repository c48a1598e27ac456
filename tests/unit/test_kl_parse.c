#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "kl/builtin.h"
#include "kl/lex.h"
#include "kl/unit_print.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct parsed {
    och_kl_unit *unit;
    och_strbuf diag;
    och_err err;
    och_status status;
} parsed;

static parsed parse(const char *text) {
    parsed r = {0};
    r.status = och_kl_parse("t.ok", text, strlen(text), NULL, &r.unit, &r.diag, &r.err);
    assert_int_equal(r.unit != NULL, r.status == OCH_OK);
    assert_int_equal(r.status, r.err.status);
    return r;
}

static void done(parsed *r) {
    och_kl_unit_destroy(r->unit);
    och_strbuf_deinit(&r->diag);
}

/* The tree's text. */
static void prints(const char *text, const char *expected) {
    parsed r = parse(text);
    och_strbuf out = {0};
    if (r.status != OCH_OK) fail_msg("%s", och_strbuf_str(&r.diag));
    och_kl_print_unit(r.unit, &out);
    assert_string_equal(och_strbuf_str(&out), expected);
    och_strbuf_deinit(&out);
    done(&r);
}

/* The text of all diagnostics. */
static void says(const char *text, const char *expected) {
    parsed r = parse(text);
    assert_int_equal(r.status, OCH_COMPILE);
    assert_string_equal(och_strbuf_str(&r.diag), expected);
    done(&r);
}

/* An expression's text, as the value of a constant. */
static void expr(const char *text, const char *expected) {
    char in[512], out[512];
    snprintf(in, sizeof in, "const c = %s;", text);
    snprintf(out, sizeof out, "const c = %s;\n", expected);
    prints(in, out);
}

static void expressions(void **s) {
    (void)s;
    expr("1+2*3", "1 + 2 * 3");
    expr("(1+2)*3", "(1 + 2) * 3");
    expr("a-b-c", "a - b - c");
    expr("a-(b-c)", "a - (b - c)");
    expr("a<<1+b&c|d^e&&f||g", "a << 1 + b & c | d ^ e && f || g");
    expr("(a||b)&&c", "(a || b) && c");
    expr("a==b!=(c<=d)", "a == b != c <= d");
    expr("(a<b)>(c?d:e)", "(a < b) > (c ? d : e)");
    expr("a<-b", "a < -b");
    expr("- -a", "--a");
    expr("-(a+b)", "-(a + b)");
    expr("!~-x", "!~-x");
    expr("a?b:c?d:e", "a ? b : c ? d : e");
    expr("(a?b:c)?d:e", "(a ? b : c) ? d : e");
    expr("x.row(i).load4(j)[2].y", "x.row(i).load4(j)[2].y");
    expr("x[i,j,k]", "x[i, j, k]");
    expr("(a+b)[0]", "(a + b)[0]");
    expr("bits<u32>(e)", "bits<u32>(e)");
    expr("vec<T,4>(a)+b", "vec<T, 4>(a) + b");
    expr("f(q:1,d:a?b:c)", "f(q: 1, d: a ? b : c)");
    expr("t.map((i,j,v)=>v*2)", "t.map((i, j, v) => v * 2)");
    expr("w.if.for.in", "w.if.for.in");
    expr("true||false", "true || false");
    expr("0x10+0b101+1_000", "16 + 5 + 1000");
    expr("1e3", "1000.0");
    expr("1.5e-3", "0.0015");
    expr("0.1", "0.1");
    expr("3.0e38", "3e+38");
    expr("18446744073709551615", "18446744073709551615");
}

static void declarations(void **s) {
    (void)s;
    prints("use \"math.ok\"; const A=1;", "const A = 1;\n");
    prints("kernel k(x:in buf<T>[n,d],r:in? buf<f32>[2*n],q:in qbuf<F>[m,k],y:out buf<f32>[n,d] over x,r,a:actbuf<F.act>[b,k],e:f32)"
           "param T:elem=f32,F:format,B:1..8=1,C:int,Z:bool=true require n%4==0,B<4 launch grid(n,ceil_div(d,2),1)waves(W*2){}",
           "kernel k(x: in buf<T>[n, d], r: in? buf<f32>[2 * n], q: in qbuf<F>[m, k], y: out buf<f32>[n, d] over x, r, "
           "a: actbuf<F.act>[b, k], e: f32)\n"
           "  param T: elem = f32, F: format, B: 1..8 = 1, C: int, Z: bool = true\n"
           "  require n % 4 == 0, B < 4\n"
           "  launch grid(n, ceil_div(d, 2), 1) waves(W * 2)\n"
           "{\n}\n");
    prints("fn f(a,b:f32x4)->f32{return a;}fn g(){return;}", "fn f(a, b: f32x4) -> f32 {\n  return a;\n}\nfn g() {\n  return;\n}\n");
    prints("act q{unit 32;plane q:u32[8]per unit;}format Q{block 256;unit 32;act q;plane d:f16 per block;fn dot(w,a)->f32{return 1.0;}}",
           "act q {\n  unit 32;\n  plane q: u32[8] per unit;\n}\n"
           "format Q {\n  block 256;\n  unit 32;\n  act q;\n  plane d: f16 per block;\n  fn dot(w, a) -> f32 {\n    return 1.0;\n  }\n}\n");
}

static void body(const char *text, const char *expected) {
    char in[1024], out[1024];
    snprintf(in, sizeof in, "fn f() { %s }", text);
    snprintf(out, sizeof out, "fn f() {\n%s}\n", expected);
    prints(in, out);
}

static void statements(void **s) {
    (void)s;
    body("let a=1;var b=2;var c:f32[4][B];var d:acc_tile<f32,BM,BN*2> =0;", "  let a = 1;\n  var b = 2;\n  var c: f32[4][B];\n"
         "  var d: acc_tile<f32, BM, BN * 2> = 0;\n");
    body("lds A:f16[2][BM][BK]pad auto;lds B:f32[4];lds C:f16[64][64]swizzle;",
         "  lds A: f16[2][BM][BK] pad auto;\n  lds B: f32[4];\n  lds C: f16[64][64] swizzle;\n");
    body("a=1;a+=1;a[1]-=1;a*=1;a/=1;a%=1;a&=1;a|=1;a^=1;a<<=1;a>>=1;", "  a = 1;\n  a += 1;\n  a[1] -= 1;\n  a *= 1;\n  a /= 1;\n"
         "  a %= 1;\n  a &= 1;\n  a |= 1;\n  a ^= 1;\n  a <<= 1;\n  a >>= 1;\n");
    body("if a{b();}else if c{}else{d();}static if e{}else static if f{}", "  if a {\n    b();\n  } else if c {\n  } else {\n    d();\n  }\n"
         "  static if e {\n  } else static if f {\n  }\n");
    body("for i in 0..n step 2{continue;}for i in wave.lanes(n){break;}while a<b{;}",
         "  for i in 0..n step 2 {\n    continue;\n  }\n  for i in wave.lanes(n) {\n    break;\n  }\n  while a < b {\n  }\n");
    body("static for r in 0..R,c in 1..C{}", "  static for r in 0..R, c in 1..C {\n  }\n");
    body("pipeline k in 0..n step 4 depth 2{stage{copy A[s]<-x.sub(r,k);}do{m(A);}}",
         "  pipeline k in 0..n step 4 depth 2 {\n    stage {\n      copy A[s] <- x.sub(r, k);\n    }\n    do {\n      m(A);\n    }\n  }\n");
    body("pipeline k in 0..n depth 2{stage{s();}then{await();}do{}}",
         "  pipeline k in 0..n depth 2 {\n    stage {\n      s();\n    }\n    then {\n      await();\n    }\n    do {\n    }\n  }\n");
    body("let then=1;", "  let then = 1;\n");
    body("acc.each((i,j,v)=>{x[i]=v;});{let copy=1;}", "  acc.each((i, j, v) => {\n    x[i] = v;\n  });\n  {\n    let copy = 1;\n  }\n");
    body("assert(a==1,\"a text\");", "  assert(a == 1, \"a text\");\n");
}

/* Positions: what the carets of later errors point at. */
static void positions(void **s) {
    (void)s;
    parsed r = parse("fn f(x) {\n\tlet y = wave.sum(x[1, 2] + 3.25);\n}\n");
    assert_int_equal(r.status, OCH_OK);
    const och_kl_stmt *let = r.unit->decls->body;
    assert_int_equal(let->pos.line, 2);
    assert_int_equal(let->pos.column, 6); /* y */
    const och_kl_expr *call = let->expr, *sum = call->args, *index = sum->a;
    assert_int_equal(call->pos.column, 10);
    assert_int_equal(call->pos.length, 8); /* wave.sum */
    assert_int_equal(call->a->pos.column, 15);
    assert_int_equal(sum->pos.column, 27);
    assert_int_equal(index->pos.column, 19);
    assert_int_equal(index->pos.length, 7);
    assert_int_equal(sum->b->pos.length, 4);
    assert_ptr_equal(r.unit->files->next->next, NULL); /* this one and the library */
    assert_string_equal(r.unit->files->next->name, OCH_KL_LIBRARY);
    done(&r);
}

static void diagnostics(void **s) {
    (void)s;
    says("const a = 1 +;\n", "t.ok:1:14: error: expected an expression, found ';'\n    const a = 1 +;\n                 ^\n");
    /* Tabs stay, and a character of several bytes is one column of the caret's line. */
    says("const a = 1;\n\t\t/* \xc3\xa4 */ const b = 2 3;\n",
         "t.ok:2:24: error: expected ';' after the constant, found '3'\n    \t\t/* \xc3\xa4 */ const b = 2 3;\n    \t\t                    ^\n");
    /* A ';' that is missing at a line's end is missing there, and costs nothing else. */
    says("fn f() {\n  let a = 1\n  let b = 2;\n  let c = ;\n}\n",
         "t.ok:2:12: error: expected ';' after the value\n      let a = 1\n               ^\n"
         "t.ok:4:11: error: expected an expression, found ';'\n      let c = ;\n              ^\n");
    says("kernel k(x: buf<f32>[n) launch grid(1) waves(1) {}\nfn g() { let 3 = 4; }\n",
         "t.ok:1:23: error: expected ']' after the index, found ')'\n    kernel k(x: buf<f32>[n) launch grid(1) waves(1) {}\n"
         "                          ^\n"
         "t.ok:2:14: error: expected a name after 'let', found '3'\n    fn g() { let 3 = 4; }\n                 ^\n");
    says("fn f() { if a { b(); }\n", "t.ok:1:8: error: this '{' has no '}'\n    fn f() { if a { b(); }\n           ^\n");
    says("fn f() { let if = 1; }\n",
         "t.ok:1:14: error: expected a name after 'let', found 'if', a reserved word\n    fn f() { let if = 1; }\n                 ^~\n");
    says("fn f() { a + b; }\n", "t.ok:1:12: error: a value alone does nothing: expected a call or an assignment\n    fn f() { a + b; }\n"
         "               ^\n");
    says("const a = 1;\nconst a = 2;\n", "t.ok:2:7: error: 'a' is declared twice\n    const a = 2;\n          ^\n"
         "t.ok:1:7: note: first here\n    const a = 1;\n          ^\n");
    says("const \x01" "a = 1;\n", "t.ok:1:7: error: unexpected byte 0x01\n    const ?a = 1;\n          ^\n");
    says("/* open", "t.ok:1:1: error: this comment has no end\n    /* open\n    ^~\n");
    says("const a = 99999999999999999999;", "t.ok:1:11: error: expected a number of at most 64 bits, found '99999999999999999999'\n"
         "    const a = 99999999999999999999;\n              ^~~~~~~~~~~~~~~~~~~~\n");
    says("use \"nothing.ok\";\n", "t.ok:1:5: error: cannot find \"nothing.ok\" among the built-in kernels\n    use \"nothing.ok\";\n"
         "        ^~~~~~~~~~~~\n");
    says("use \"mth.ok\";\n", "t.ok:1:5: error: cannot find \"mth.ok\" among the built-in kernels\n    use \"mth.ok\";\n"
         "        ^~~~~~~~\nt.ok:1:5: note: did you mean \"math.ok\"?\n    use \"mth.ok\";\n        ^~~~~~~~\n");
    says("use \"../math.ok\";\n", "t.ok:1:5: error: expected a file's name without a path, found \"../math.ok\"\n    use \"../math.ok\";\n"
         "        ^~~~~~~~~~~~\n");
}

/* Each statement that is wrong is reported once, up to the limit. */
static void recovery(void **s) {
    (void)s;
    och_strbuf text = {0};
    for (int i = 0; i < 30; i++) och_strbuf_printf(&text, "fn f%d() { if a { let x = ]; } y[ = 2; good(); }\n", i);
    parsed r = parse(text.data);
    int n = 0;
    for (const char *at = r.diag.data; (at = strstr(at, ": error: ")); at++) n++;
    assert_int_equal(n, OCH_KL_MAX_ERRORS);
    assert_non_null(strstr(r.diag.data, "t.ok:5:34: error"));
    assert_string_equal(r.err.message, "t.ok:1:26: error: expected an expression, found ']'");
    done(&r);
    och_strbuf_deinit(&text);
}

/* begin (n times) middle end (n times): too deep, and nothing breaks. */
static void deep(const char *before, const char *begin, const char *middle, const char *end, const char *after) {
    static const int counts[] = {10, 20000};
    for (int k = 0; k < 2; k++) {
        och_strbuf text = {0};
        och_strbuf_puts(&text, before);
        for (int i = 0; i < counts[k]; i++) och_strbuf_puts(&text, begin);
        och_strbuf_puts(&text, middle);
        for (int i = 0; i < counts[k]; i++) och_strbuf_puts(&text, end);
        och_strbuf_puts(&text, after);
        parsed r = parse(text.data);
        if (k == 0 && r.status != OCH_OK) fail_msg("%s", och_strbuf_str(&r.diag));
        if (k == 1) assert_non_null(strstr(och_strbuf_str(&r.diag), "nested too deeply: at most 160 levels"));
        done(&r);
        och_strbuf_deinit(&text);
    }
}

static void depth(void **s) {
    (void)s;
    deep("const a = ", "(", "1", ")", ";");
    deep("const a = ", "-", "1", "", ";");
    deep("const a = 1", "+1", "", "", ";");
    deep("const a = ", "1+(", "1", ")", ";");
    deep("const a = x", ".y", "", "", ";");
    deep("const a = x", "[0]", "", "", ";");
    deep("const a = ", "f(", "1", ")", ";");
    deep("const a = ", "b?", "1", ":1", ";");
    deep("const a = ", "b?1:", "1", "", ";");
    deep("fn f() ", "{", "", "}", "");
    deep("fn f() {", "if a {", "", "}", "}");
    deep("fn f() {", "if a {} else ", "{}", "", "}");
    deep("fn f() {", "for i in 0..1 {", "", "}", "}");
    deep("fn f() {", "a.each((i)=>{", "", "});", "}");
    deep("fn f() {", "a.each((i)=>", "1", ")", ";}");
    deep("fn f() {", "{ a(1+1+1+1+1+1+1+1);", "", "}", "}");
}

static bool beside(void *self, const char *name, const char *used_by, const char **out_text, size_t *out_bytes) {
    static const char *const files[][2] = {{"a.ok", "use \"b.ok\"; use \"a.ok\"; use \"t.ok\"; const A = 1;"},
                                           {"b.ok", "use \"a.ok\"; use \"elementwise.ok\"; const B = 1;"},
                                           {"wrong.ok", "const = 1;"},
                                           {"math.ok", "const SHADOW = 1;"},
                                           {"twice.ok", "const A = 2;"}};
    (void)used_by;
    (*(int *)self)++;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (!strcmp(files[i][0], name)) {
            *out_text = files[i][1], *out_bytes = strlen(files[i][1]);
            return true;
        }
    return false;
}

static const och_kl_decl *find(const och_kl_unit *u, const char *name) {
    for (const och_kl_decl *d = u->decls; d; d = d->next)
        if (!strcmp(d->name, name)) return d;
    return NULL;
}

static void uses(void **s) {
    (void)s;
    int asked = 0;
    const och_kl_loader loader = {beside, &asked};
    och_kl_unit *u;
    och_strbuf diag = {0};
    och_err err = {0};
    const char *text = "use \"a.ok\"; const C = 1;";
    if (och_kl_parse("t.ok", text, strlen(text), &loader, &u, &diag, &err) != OCH_OK) fail_msg("%s", err.message);
    assert_int_equal(asked, 3); /* a, b, elementwise: the last uses math as a built-in file, and that means the built-in one */
    assert_non_null(find(u, "A"));
    assert_non_null(find(u, "B"));
    assert_non_null(find(u, "C"));
    assert_null(find(u, "SHADOW"));
    assert_string_equal(find(u, "add")->pos.file->name, "elementwise.ok");
    assert_string_equal(find(u, "exp")->pos.file->name, "math.ok");
    assert_int_equal(och_kl_kernel_count(u), 0); /* add is elementwise.ok's */
    assert_null(och_kl_kernel_name(u, 0));
    och_kl_unit_destroy(u);
    text = "use \"wrong.ok\";";
    assert_int_equal(och_kl_parse("t.ok", text, strlen(text), &loader, &u, &diag, &err), OCH_COMPILE);
    assert_string_equal(err.message, "wrong.ok:1:7: error: expected a constant's name, found '='");
    och_strbuf_clear(&diag);
    och_err_clear(&err);
    text = "use \"a.ok\"; use \"twice.ok\";";
    assert_int_equal(och_kl_parse("t.ok", text, strlen(text), &loader, &u, &diag, &err), OCH_COMPILE);
    assert_string_equal(err.message, "twice.ok:1:7: error: 'A' is declared twice");
    assert_non_null(strstr(diag.data, "a.ok:1:43: note: first here"));
    och_err_clear(&err);
    text = "const sin = 1;"; /* the library is nobody's fault */
    assert_int_equal(och_kl_parse("t.ok", text, strlen(text), &loader, &u, &diag, &err), OCH_COMPILE);
    assert_string_equal(err.message, "t.ok:1:7: error: 'sin' is declared twice: by math.ok too, which is part of every unit");
    och_strbuf_deinit(&diag);
}

/* Every built-in file parses, and print(parse(x)) parses to the same print. */
static void round_trip(void **s) {
    (void)s;
    och_kl_builtins *b;
    och_err err = {0};
    assert_int_equal(och_kl_builtins_open(&b, &err), OCH_OK);
    assert_true(och_kl_builtins_count(b) >= 5);
    for (int i = 0; i < och_kl_builtins_count(b); i++) {
        const char *name = och_kl_builtins_name(b, i);
        och_kl_unit *u = NULL;
        och_strbuf diag = {0}, one = {0}, two = {0};
        if (i) assert_true(strcmp(och_kl_builtins_name(b, i - 1), name) < 0);
        if (och_kl_parse_builtin(name, &u, &diag, &err) != OCH_OK) fail_msg("%s\n%s", err.message, och_strbuf_str(&diag));
        och_kl_print_unit(u, &one);
        och_kl_unit_destroy(u);
        parsed r = {0};
        /* Its own name, so that the library is not added to itself. */
        r.status = och_kl_parse(name, one.data, one.size, NULL, &r.unit, &r.diag, &r.err);
        if (r.status != OCH_OK) fail_msg("%s\n%s", r.err.message, och_strbuf_str(&r.diag));
        och_kl_print_unit(r.unit, &two);
        assert_string_equal(och_strbuf_str(&one), och_strbuf_str(&two));
        done(&r);
        och_strbuf_deinit(&diag);
        och_strbuf_deinit(&one);
        och_strbuf_deinit(&two);
    }
    och_kl_builtins_close(b);
    och_kl_unit *u;
    assert_int_equal(och_kl_parse_builtin("none.ok", &u, NULL, &err), OCH_NOTFOUND);
    assert_non_null(strstr(err.message, "no built-in kernel file none.ok; there are: "));
}

static void write_file(const char *dir, const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void directories(void **s) {
    (void)s;
    char dir[] = "/tmp/ochre-kl-XXXXXX", path[512];
    och_kl_unit *u;
    och_strbuf diag = {0};
    och_err err = {0};
    assert_non_null(mkdtemp(dir));
    write_file(dir, "main.ok", "use \"part.ok\"; use \"elementwise.ok\";");
    write_file(dir, "part.ok", "const PART = 1;");
    write_file(dir, "math.ok", "const OTHER = 1;");
    snprintf(path, sizeof path, "%s/main.ok", dir);
    if (och_kl_parse_file(path, &u, &diag, &err) != OCH_OK) fail_msg("%s", err.message);
    assert_non_null(find(u, "PART"));
    assert_non_null(find(u, "exp"));
    assert_null(find(u, "OTHER"));
    assert_string_equal(u->files->name, path);
    och_kl_unit_destroy(u);
    /* Before the built-in ones. */
    assert_int_equal(setenv("OCHRE_KERNELS_DIR", dir, 1), 0);
    if (och_kl_parse_builtin("part.ok", &u, &diag, &err) != OCH_OK) fail_msg("%s", err.message);
    assert_non_null(find(u, "OTHER"));
    assert_null(find(u, "exp"));
    och_kl_unit_destroy(u);
    /* What the directory has not, the program has: a file that is asked for, one that is used, the library. */
    if (och_kl_parse_builtin("elementwise.ok", &u, &diag, &err) != OCH_OK) fail_msg("%s", err.message);
    assert_non_null(find(u, "OTHER"));
    och_kl_unit_destroy(u);
    snprintf(path, sizeof path, "%s/math.ok", dir);
    assert_int_equal(unlink(path), 0);
    if (och_kl_parse_builtin("main.ok", &u, &diag, &err) != OCH_OK) fail_msg("%s", err.message);
    assert_non_null(find(u, "PART"));
    assert_non_null(find(u, "exp"));
    och_kl_unit_destroy(u);
    och_kl_builtins *b;
    bool has_own = false, has_math = false;
    assert_int_equal(och_kl_builtins_open(&b, &err), OCH_OK);
    assert_string_equal(och_kl_builtins_dir(b), dir);
    for (int i = 0; i < och_kl_builtins_count(b); i++) {
        has_own |= !strcmp(och_kl_builtins_name(b, i), "part.ok");
        has_math |= !strcmp(och_kl_builtins_name(b, i), "math.ok");
        if (i) assert_true(strcmp(och_kl_builtins_name(b, i - 1), och_kl_builtins_name(b, i)) < 0);
    }
    assert_true(has_own && has_math);
    och_kl_builtins_close(b);
    /* Of two files that declare a kernel of one name neither is taken, whichever is asked for. */
    write_file(dir, "part.ok", "// kernel fill\nconst PART = 1;\nkernel fill(y: out buf<f32>[n, 1]) launch grid(n) waves(1) { y[group.id.x, 0] = 0.0; }");
    assert_int_equal(och_kl_builtins_open(&b, &err), OCH_INVALID);
    assert_non_null(strstr(err.message, "kernel fill: expected one file that declares it, found elementwise.ok and part.ok (OCHRE_KERNELS_DIR: "));
    och_err_clear(&err);
    assert_int_equal(och_kl_parse_builtin("norm.ok", &u, &diag, &err), OCH_INVALID);
    och_err_clear(&err);
    write_file(dir, "part.ok", "/* kernel fill( */ const PART = 1;\n// kernel fill(");
    assert_int_equal(och_kl_builtins_open(&b, &err), OCH_OK);
    och_kl_builtins_close(b);
    write_file(dir, "main.ok", "use \"absent.ok\";");
    och_strbuf_clear(&diag);
    assert_int_equal(och_kl_parse_builtin("main.ok", &u, &diag, &err), OCH_COMPILE);
    assert_non_null(strstr(diag.data, "cannot find \"absent.ok\" among the built-in kernels nor in /tmp/ochre-kl-"));
    och_err_clear(&err);
    assert_int_equal(och_kl_parse_builtin("none.ok", &u, &diag, &err), OCH_NOTFOUND);
    assert_non_null(strstr(err.message, dir));
    och_err_clear(&err);
    assert_int_equal(setenv("OCHRE_KERNELS_DIR", "/nowhere", 1), 0);
    assert_int_equal(och_kl_parse_builtin("part.ok", &u, &diag, &err), OCH_NOTFOUND);
    assert_string_equal(err.message, "OCHRE_KERNELS_DIR: /nowhere: No such file or directory");
    assert_int_equal(unsetenv("OCHRE_KERNELS_DIR"), 0);
    static const char *const names[] = {"main.ok", "part.ok", "math.ok"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
    och_strbuf_deinit(&diag);
}

/* Every beginning of a file, and the file without each of its bytes: an answer, and no memory lost. */
static void mangled(void **s) {
    (void)s;
    och_kl_builtins *b;
    const char *text;
    size_t n_bytes;
    int64_t live = och_alloc_live();
    assert_int_equal(och_kl_builtins_open(&b, NULL), OCH_OK);
    assert_true(och_kl_builtins_find(b, "elementwise.ok", &text, &n_bytes));
    char *copy = malloc(n_bytes + 1);
    for (size_t i = 0; i < n_bytes; i += 3) {
        och_kl_unit *u;
        och_strbuf diag = {0};
        och_err err = {0};
        och_status st = och_kl_parse("x.ok", text, i, NULL, &u, &diag, &err);
        assert_true(st == OCH_OK || (st == OCH_COMPILE && diag.size > 0 && err.status == OCH_COMPILE));
        och_kl_unit_destroy(u);
        memcpy(copy, text, i);
        memcpy(copy + i, text + i + 1, n_bytes - i - 1);
        och_err_clear(&err);
        st = och_kl_parse("x.ok", copy, n_bytes - 1, NULL, &u, &diag, &err);
        assert_true(st == OCH_OK || st == OCH_COMPILE);
        och_kl_unit_destroy(u);
        och_strbuf_deinit(&diag);
    }
    free(copy);
    och_kl_builtins_close(b);
    assert_int_equal(och_alloc_live(), live);
}

static void allocations(void **s) {
    (void)s;
    static const char text[] = "use \"elementwise.ok\"; const A = 1; const A = 2; fn f() { let x = ]; }";
    int64_t live = och_alloc_live();
    for (uint64_t n = 1;; n++) {
        och_kl_unit *u;
        och_strbuf diag = {0};
        och_err err = {0};
        och_alloc_fail_at(n);
        och_status st = och_kl_parse("t.ok", text, sizeof text - 1, NULL, &u, &diag, &err);
        uint64_t count = och_alloc_count();
        och_alloc_fail_at(0);
        assert_null(u);
        och_strbuf_deinit(&diag);
        assert_int_equal(och_alloc_live(), live);
        if (count < n) {
            assert_int_equal(st, OCH_COMPILE);
            break;
        }
        if (st != OCH_NOMEM && st != OCH_COMPILE) fail_msg("allocation %d: %s", (int)n, err.message);
    }
    for (uint64_t n = 1;; n++) {
        och_kl_unit *u;
        och_err err = {0};
        och_alloc_fail_at(n);
        och_status st = och_kl_parse_builtin("elementwise.ok", &u, NULL, &err);
        uint64_t count = och_alloc_count();
        och_alloc_fail_at(0);
        och_kl_unit_destroy(u);
        assert_int_equal(och_alloc_live(), live);
        if (count < n) {
            assert_int_equal(st, OCH_OK);
            break;
        }
        if (st != OCH_NOMEM) fail_msg("allocation %d: %s", (int)n, err.message);
    }
}

static void numbers(void **s) {
    (void)s;
    uint64_t u;
    double d;
    assert_true(och_kl_lex_int("0xffffffffffffffff", 18, &u) && u == UINT64_MAX);
    assert_false(och_kl_lex_int("0x10000000000000000", 19, &u));
    assert_false(och_kl_lex_int("0b2", 3, &u));
    assert_false(och_kl_lex_int("12a", 3, &u));
    assert_false(och_kl_lex_int("0x", 2, &u));
    assert_false(och_kl_lex_int("1_", 2, &u));
    assert_true(och_kl_lex_float("1_0.5e1", 7, &d) && d == 105.0);
    assert_false(och_kl_lex_float("1.0e999", 7, &d));
    assert_false(och_kl_lex_float("1.0f", 4, &d));
}

/* Texts of numbers are the same wherever the program runs: no part of a kernel may depend on the host's locale. */
static void locales(void **s) {
    (void)s;
    static const char *const points[][3] = {{"1,5e+10", ",", "1.5e+10"}, {"-0,001", ",", "-0.001"}, {"1\xd9\xab" "25", "\xd9\xab", "1.25"},
                                            {"17", ",", "17"},           {"2.5", ".", "2.5"},      {"inf", ",", "inf"}};
    char text[OCH_KL_REAL_BYTES];
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        strcpy(text, points[i][0]);
        och_kl_plain_point(text, points[i][1]);
        assert_string_equal(text, points[i][2]);
    }
    static const char *const names[] = {"C", "de_DE.UTF-8", "fr_FR.UTF-8", "es_ES.UTF-8", "pt_BR.UTF-8", "ru_RU.UTF-8", "fa_IR.UTF-8"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!setlocale(LC_NUMERIC, names[i])) continue; /* not on this machine */
        double v;
        och_kl_f32_text(0.1f, text);
        assert_string_equal(text, "0.1");
        och_kl_f32_text(-16777216.0f * 3, text);
        assert_string_equal(text, "-5.033165e+07");
        och_kl_f32_text(1.17549435e-38f, text);
        assert_string_equal(text, "1.1754944e-38");
        och_kl_real_text(1234.5678, 6, text);
        assert_string_equal(text, "1234.57");
        assert_true(och_kl_lex_float("2.5e-3", 6, &v) && v == 2.5e-3);
        parsed r = parse("kernel k(y: out buf<f32>[n])\n  launch grid(1) waves(1)\n{ y[0] = 1.5; y[1] = 1e-9; }\n");
        och_kl_profile profile;
        och_kl_code *code;
        och_strbuf out = {0};
        assert_int_equal(och_kl_profile_init(&profile, "gfx1100", 0, &r.err), OCH_OK);
        assert_int_equal(och_kl_specialise(r.unit, "k", NULL, 0, &profile, &code, &r.diag, &r.err), OCH_OK);
        assert_int_equal(och_kl_emit(code, &out, &r.err), OCH_OK);
        assert_non_null(strstr(och_strbuf_str(&out), ", 1.5f);"));
        assert_non_null(strstr(och_strbuf_str(&out), ", 1e-09f);"));
        och_kl_code_destroy(code);
        och_strbuf_deinit(&out);
        done(&r);
    }
    setlocale(LC_NUMERIC, "C");
}

static void guesses(void **s) {
    (void)s;
    static const char *const names[] = {"row_clamped", "load4", "load8", "store4", "sum"};
    static const char *const cases[][2] = {{"row_clampd", "row_clamped"}, {"laod4", "load4"}, {"sums", "sum"}, {"zebra", NULL}, {"x", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        och_kl_guess g;
        och_kl_guess_init(&g, cases[i][0]);
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) och_kl_guess_offer(&g, names[k]);
        const char *best = och_kl_guess_best(&g);
        if (cases[i][1]) assert_string_equal(best, cases[i][1]);
        else assert_null(best);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expressions), cmocka_unit_test(declarations), cmocka_unit_test(statements),  cmocka_unit_test(positions),
        cmocka_unit_test(diagnostics), cmocka_unit_test(recovery),     cmocka_unit_test(depth),       cmocka_unit_test(uses),
        cmocka_unit_test(round_trip),  cmocka_unit_test(directories),  cmocka_unit_test(mangled),     cmocka_unit_test(allocations),
        cmocka_unit_test(numbers),     cmocka_unit_test(guesses),     cmocka_unit_test(locales),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
