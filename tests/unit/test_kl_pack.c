/* A launch's arguments from signatures that the language made: where every byte comes to lie, and what is refused. Expected
 * bytes and extents are computed here by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kl/kl.h"

static och_kl_signature sig; /* of the kernel that was made last */
static och_kl_packed packed;
static och_err err;

/* The signature of the text's kernel for a target, after a way through bytes. */
static void make_for(const char *target, const char *text) {
    och_kl_unit *u = NULL;
    och_kl_code *c = NULL;
    och_kl_profile p;
    och_strbuf diag = {0}, bytes = {0};
    och_err_clear(&err);
    assert_int_equal(och_kl_profile_init(&p, target, 0, &err), OCH_OK);
    if (och_kl_parse("t.ok", text, strlen(text), NULL, &u, &diag, &err) != OCH_OK) fail_msg("%s", och_strbuf_str(&diag));
    if (och_kl_specialise(u, och_kl_kernel_name(u, 0), NULL, 0, &p, &c, &diag, &err) != OCH_OK) fail_msg("%s", och_strbuf_str(&diag));
    assert_int_equal(och_kl_signature_write(och_kl_code_signature(c), &bytes, &err), OCH_OK);
    if (och_kl_signature_read(bytes.data, bytes.size, &sig, &err) != OCH_OK) fail_msg("%s", err.message);
    och_kl_code_destroy(c);
    och_kl_unit_destroy(u);
    och_strbuf_deinit(&diag);
    och_strbuf_deinit(&bytes);
}
static void make(const char *text) { make_for("gfx1151", text); }

static och_status pack(const och_kl_actual *a, int n) {
    och_err_clear(&err);
    return och_kl_pack(&sig, a, n, &packed, &err);
}
static void good(const och_kl_actual *a, int n) {
    if (pack(a, n) != OCH_OK) fail_msg("%s", err.message);
}
static void bad(const och_kl_actual *a, int n, och_status want, const char *words) {
    och_status st = pack(a, n);
    if (st != want || err.status != st || !strstr(err.message, words) || !strstr(err.message, sig.kernel))
        fail_msg("expected status %d and \"%s\", found %d: %s", want, words, st, err.message);
}

static const och_kl_arg *arg(const char *name) {
    for (int i = 0; i < sig.n_args; i++)
        if (!strcmp(sig.args[i].name, name)) return &sig.args[i];
    fail_msg("no argument %s", name);
    return NULL;
}
static uint64_t raw(uint32_t offset, uint32_t bytes) {
    uint64_t v = 0;
    assert_true(offset % bytes == 0 && offset + bytes <= packed.n_bytes);
    memcpy(&v, packed.args + offset, bytes);
    return v;
}

/* ---- scalars ---- */

static void scalars(void **state) {
    (void)state;
    make("kernel k(y: out buf<f32>[n], a: f32, b: f16, c: i32, d: u32, e: i64, f: u64, g: bool)\n"
         "  launch grid(n) waves(1)\n"
         "{ y[group.id.x] = a + f32(b) + f32(c) + f32(d) + f32(i32(e)) + f32(u32(f)) + (g ? 1.0 : 0.0); }\n");
    och_kl_actual a[] = {{.name = "y", .addr = 0x1000, .dims = {5}}, {.name = "a", .real = -0.15625},
                         {.name = "b", .real = 1.0 / 3},             {.name = "c", .integer = INT32_MIN},
                         {.name = "d", .integer = UINT32_MAX},       {.name = "e", .integer = INT64_MIN},
                         {.name = "f", .integer = -1},               {.name = "g", .integer = 1}};
    enum { N = sizeof a / sizeof *a };
    good(a, N);
    assert_int_equal(raw(arg("y")->offset, 8), 0x1000);
    assert_int_equal(raw(arg("a")->offset, 4), 0xbe200000); /* -1.25 * 2^-3 */
    assert_int_equal(raw(arg("b")->offset, 2), 0x3555);     /* the half nearest to a third */
    assert_int_equal(raw(arg("c")->offset, 4), 0x80000000);
    assert_int_equal(raw(arg("d")->offset, 4), 0xffffffff);
    assert_true(raw(arg("e")->offset, 8) == (uint64_t)1 << 63);
    assert_true(raw(arg("f")->offset, 8) == UINT64_MAX); /* u64 beyond int64: by its bits */
    assert_int_equal(raw(arg("g")->offset, arg("g")->bytes), 1);
    assert_int_equal(raw(sig.size_offset[0], 8), 5);
    assert_int_equal(arg("b")->bytes, 2);
    static const struct {
        int at;
        int64_t v;
        const char *words;
    } wrong[] = {{3, (int64_t)INT32_MIN - 1, "argument c: expected a value of type i32, found -2147483649"},
                 {3, (int64_t)INT32_MAX + 1, "argument c: expected a value of type i32, found 2147483648"},
                 {4, -1, "argument d: expected a value of type u32, found -1"},
                 {4, (int64_t)UINT32_MAX + 1, "argument d: expected a value of type u32, found 4294967296"},
                 {7, 2, "argument g: expected a value of type bool, found 2"},
                 {7, -1, "argument g: expected a value of type bool, found -1"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        och_kl_actual copy[N];
        memcpy(copy, a, sizeof a);
        copy[wrong[i].at].integer = wrong[i].v;
        bad(copy, N, OCH_RANGE, wrong[i].words);
    }
    a[2].real = 65520; /* half way to what no half holds: infinite */
    good(a, N);
    assert_int_equal(raw(arg("b")->offset, 2), 0x7c00);
}

/* ---- shapes ---- */

static const char three[] = "kernel k(x: in buf<f16>[b, n, d], y: out buf<f16>[b, n, d], w: in? buf<f32>[d], v: in buf<f32>[8])\n"
                            "  require d % 8 == 0, n <= 4096\n"
                            "  launch grid(n, b) waves(2)\n"
                            "{\n"
                            "  let r = x.row(group.id.y, group.id.x);\n"
                            "  let o = y.row(group.id.y, group.id.x);\n"
                            "  for i in group.lanes(d / 8) { o.store8(i, r.load8(i)); }\n"
                            "  if w.present { if thread.id == 0 { y[0, 0, 0] = f16(w[0] + v[0]); } }\n"
                            "}\n";
enum { X, Y, W, V };
static och_kl_actual *shaped(void) {
    static och_kl_actual a[4];
    memset(a, 0, sizeof a);
    a[X] = (och_kl_actual){.name = "x", .addr = 0x100000, .dims = {2, 3, 64}, .row_bytes = {1024, 256}};
    a[Y] = (och_kl_actual){.name = "y", .addr = 0x200000, .dims = {2, 3, 64}};
    a[W] = (och_kl_actual){.name = "w"};
    a[V] = (och_kl_actual){.name = "v", .addr = 0x300000, .dims = {8}};
    return a;
}

static void shapes(void **state) {
    (void)state;
    make(three);
    och_kl_actual *a = shaped();
    good(a, 4);
    /* in elements of two bytes, the outermost first */
    assert_int_equal(raw(arg("x")->stride_offset[0], 8), 512);
    assert_int_equal(raw(arg("x")->stride_offset[1], 8), 128);
    assert_int_equal(raw(arg("y")->stride_offset[0], 8), 192); /* dense: 3 rows of 64 */
    assert_int_equal(raw(arg("y")->stride_offset[1], 8), 64);
    assert_int_equal(raw(arg("w")->offset, 8), 0);
    assert_int_equal(packed.grid[0], 3);
    assert_int_equal(packed.grid[1], 2);
    assert_int_equal(packed.grid[2], 1);
    assert_int_equal(packed.group[0], 64);
    assert_int_equal(packed.group[1], 1);
    assert_int_equal(packed.group[2], 1);
    for (int i = 0; i < sig.n_sizes; i++)
        assert_int_equal(raw(sig.size_offset[i], 8), !strcmp(sig.sizes[i], "b") ? 2 : !strcmp(sig.sizes[i], "n") ? 3 : 64);

    a = shaped(), a[Y].dims[2] = 56;
    bad(a, 4, OCH_INVALID, "argument y, dimension 2: expected d = 64 as argument x has it, found 56");
    a = shaped(), a[Y].dims[0] = 3;
    bad(a, 4, OCH_INVALID, "argument y, dimension 0: expected b = 2 as argument x has it, found 3");
    a = shaped(), a[W].addr = 0x400000, a[W].dims[0] = 32;
    bad(a, 4, OCH_INVALID, "argument w, dimension 0: expected d = 64 as argument x has it, found 32");
    a = shaped(), a[W].dims[0] = 32; /* absent: its extent says nothing */
    good(a, 4);
    a = shaped(), a[V].dims[0] = 9;
    bad(a, 4, OCH_INVALID, "argument v, dimension 0: expected 8, found 9");
    a = shaped(), a[X].dims[1] = a[Y].dims[1] = -1;
    bad(a, 4, OCH_RANGE, "argument x, dimension 1: expected an extent from 0, found -1");
    a = shaped(), a[X].dims[1] = INT64_MIN;
    bad(a, 4, OCH_RANGE, "argument x, dimension 1: expected an extent from 0");
    a = shaped(), a[X].dims[2] = a[Y].dims[2] = 60;
    bad(a, 4, OCH_INVALID, "expected d % 8 == 0, found b = 2, n = 3, d = 60");
    a = shaped(), a[X].dims[1] = a[Y].dims[1] = 4097, a[X].row_bytes[0] = 0;
    bad(a, 4, OCH_INVALID, "expected n <= 4096");
    a = shaped(), a[X].dims[1] = a[Y].dims[1] = 0; /* nothing to do */
    good(a, 4);
    assert_int_equal(packed.grid[0], 0);
    a = shaped(), a[X].dims[1] = a[Y].dims[1] = 0, a[X].addr = a[Y].addr = 0; /* and nothing there */
    good(a, 4);
    a = shaped(), a[V].addr = 0;
    bad(a, 4, OCH_INVALID, "argument v: expected an address, found none");
    /* an extent that has a name is told with its value */
    make("const TAPS = 9;\nkernel k(w: in buf<f32>[TAPS], y: out buf<f32>[n])\n  launch grid(n) waves(1)\n{ y[group.id.x] = w[0]; }\n");
    och_kl_actual taps[] = {{.name = "w", .addr = 0x1000, .dims = {5}}, {.name = "y", .addr = 0x2000, .dims = {4}}};
    bad(taps, 2, OCH_INVALID, "argument w, dimension 0: expected TAPS = 9, found 5");
}

static void huge(void **state) {
    (void)state;
    make(three);
    och_kl_actual *a = shaped();
    for (int d = 0; d < 3; d++) a[X].dims[d] = a[Y].dims[d] = INT64_MAX;
    assert_true(pack(a, 4) != OCH_OK && err.message[0]);
    a = shaped(), a[X].dims[2] = a[Y].dims[2] = (int64_t)1 << 62; /* times two bytes: no more than a row's limit allows */
    assert_true(pack(a, 4) == OCH_RANGE || err.status == OCH_INVALID);
    a = shaped(), a[X].dims[0] = a[Y].dims[0] = (int64_t)1 << 61;
    bad(a, 4, OCH_RANGE, "its size overflows");
    a = shaped(), a[X].row_bytes[0] = UINT64_MAX - 15; /* 2 rows of it wrap */
    bad(a, 4, OCH_RANGE, "argument x: its size overflows");
    /* a grid that no launch takes */
    make("kernel k(x: out buf<u8>[n, d])\n  launch grid(n * 4) waves(1)\n{ x[group.id.x / 4, 0] = 1; }\n");
    och_kl_actual y = {.name = "x", .addr = 0x1000, .dims = {(int64_t)1 << 30, 1}};
    bad(&y, 1, OCH_RANGE, "expected a grid of at most 2147483647 workgroups a side, found n * 4");
    y.dims[0] = INT64_MAX / 2;
    bad(&y, 1, OCH_RANGE, "expected a grid");
    y.dims[0] = 7;
    good(&y, 1);
    assert_int_equal(packed.grid[0], 28);
}

static void alignment(void **state) {
    (void)state;
    make(three);
    och_kl_actual *a = shaped();
    assert_int_equal(arg("x")->align_bytes, 16); /* load8 of halves */
    assert_int_equal(arg("v")->align_bytes, 4);
    for (unsigned off = 1; off < 16; off++) {
        a = shaped(), a[X].addr += off;
        bad(a, 4, OCH_INVALID, "argument x: expected an address that is a multiple of 16");
    }
    a = shaped(), a[V].addr += 2;
    bad(a, 4, OCH_INVALID, "argument v: expected an address that is a multiple of 4, found 0x300002");
    a = shaped(), a[V].addr += 4;
    good(a, 4);
    a = shaped(), a[X].row_bytes[1] = 136;
    bad(a, 4, OCH_INVALID, "argument x: expected rows a multiple of 16 bytes apart, found 136");
    a = shaped(), a[X].row_bytes[1] = 112;
    bad(a, 4, OCH_INVALID, "argument x: expected rows at least 128 bytes apart, found 112");
    a = shaped(), a[X].row_bytes[0] = 752; /* of planes: 3 rows 256 apart */
    bad(a, 4, OCH_INVALID, "argument x: expected rows at least 768 bytes apart, found 752");
    a = shaped(), a[X].row_bytes[0] = 768;
    good(a, 4);
    /* one row: its distance matters to nobody, and planes are as far apart as the row is long */
    a = shaped(), a[X].dims[1] = a[Y].dims[1] = 1, a[X].row_bytes[1] = 16, a[X].row_bytes[0] = 16;
    bad(a, 4, OCH_INVALID, "argument x: expected rows at least 128 bytes apart, found 16");
    a[X].row_bytes[0] = 128;
    good(a, 4);
}

/* ---- the same memory ---- */

static void apart(void **state) {
    (void)state;
    make(three);
    /* x: 2 planes 1024 apart, 3 rows 256 apart of 128 bytes: 1024 + 2 * 256 + 128 = 1664 bytes; y: 2 * 3 * 128 = 768 */
    och_kl_actual *a = shaped();
    a[Y].addr = a[X].addr + 1664;
    good(a, 4);
    a[Y].addr = a[X].addr + 1648;
    bad(a, 4, OCH_INVALID, "expected argument y, which is written, apart from x, found both at 0x100670 (768 bytes) and 0x100000 (1664 bytes)");
    a[Y].addr = a[X].addr - 768;
    good(a, 4);
    a[Y].addr = a[X].addr - 752;
    bad(a, 4, OCH_INVALID, "expected argument y, which is written, apart from x");
    a[Y].addr = a[X].addr;
    bad(a, 4, OCH_INVALID, "expected argument y, which is written, apart from x");
    /* what is only read may be read twice */
    a = shaped(), a[W].addr = a[V].addr = a[X].addr, a[W].dims[0] = 64;
    good(a, 4);
    /* of no rows there is nothing to overlap */
    a = shaped(), a[Y].addr = a[X].addr, a[X].dims[0] = a[Y].dims[0] = 0;
    good(a, 4);
}

static void in_place(void **state) {
    (void)state;
    make("kernel k(x: in buf<f32>[n, d], z: in buf<f32>[n, d], y: out buf<f32>[n, d] over x)\n"
         "  launch grid(n) waves(1)\n"
         "{ for i in group.lanes(d) { y[group.id.x, i] = x[group.id.x, i] + z[group.id.x, i]; } }\n");
    och_kl_actual a[] = {{.name = "x", .addr = 0x1000, .dims = {4, 16}}, {.name = "z", .addr = 0x2000, .dims = {4, 16}},
                         {.name = "y", .addr = 0x1000, .dims = {4, 16}}};
    assert_true(arg("x")->in_place && arg("y")->in_place && !arg("z")->in_place);
    good(a, 3);
    a[2].addr = 0x3000; /* it need not be */
    good(a, 3);
    a[2].addr = 0x2000;
    bad(a, 3, OCH_INVALID, "expected argument y, which is written, apart from z");
    /* the very memory: not a part of it, and not rows of another distance */
    a[2].addr = 0x1004;
    bad(a, 3, OCH_INVALID, "expected argument y at argument x's address or apart from it");
    a[2].addr = 0x1000, a[2].row_bytes[0] = 128;
    bad(a, 3, OCH_INVALID, "expected argument y with argument x's distance of rows, 64 bytes, or apart from it, found 128");
    a[0].row_bytes[0] = 128;
    good(a, 3);
    a[0].row_bytes[0] = 0, a[0].dims[0] = a[1].dims[0] = a[2].dims[0] = 1; /* of one row there is no distance */
    good(a, 3);

    /* halves of the same rows: y's are between z's */
    och_kl_actual h[] = {{.name = "x", .addr = 0x1000, .dims = {4, 16}, .row_bytes = {128}}, {.name = "z", .addr = 0x1040, .dims = {4, 16}, .row_bytes = {128}},
                         {.name = "y", .addr = 0x1000, .dims = {4, 16}, .row_bytes = {128}}};
    good(h, 3);
    h[1].addr = 0xfc0;
    good(h, 3);
    h[1].addr = 0x103c;
    bad(h, 3, OCH_INVALID, "expected argument y, which is written, apart from z");
    h[1].addr = 0x1044; /* and so z's end lies in y's next row */
    bad(h, 3, OCH_INVALID, "expected argument y, which is written, apart from z");
    h[1].addr = 0x1040, h[1].row_bytes[0] = 64;
    bad(h, 3, OCH_INVALID, "expected argument y, which is written, apart from z");

    make("kernel k(x: inout buf<f32>[n], y: in buf<f32>[n])\n  launch grid(n) waves(1)\n{ x[group.id.x] += y[group.id.x]; }\n");
    och_kl_actual b[] = {{.name = "x", .addr = 0x1000, .dims = {4}}, {.name = "y", .addr = 0x1000, .dims = {4}}};
    assert_true(arg("x")->in && arg("x")->out && arg("x")->in_place);
    bad(b, 2, OCH_INVALID, "expected argument x, which is written, apart from y");
    b[1].addr = 0x1010;
    good(b, 2);
}

/* ---- weights: rows of planes ---- */

static void weights(void **state) {
    (void)state;
    make("use \"formats.ok\";\n"
         "kernel k(w: in qbuf<Q8_0>[m, k], y: out buf<f32>[m])\n"
         "  launch grid(m) waves(1)\n"
         "{ let u = w.row(group.id.x).unit(0); if thread.id == 0 { y[group.id.x] = f32(u.d); } }\n");
    och_kl_actual a[] = {{.name = "w", .addr = 0x1000, .dims = {4, 64}, .row_bytes = {96}}, {.name = "y", .addr = 0x4000, .dims = {4}}};
    good(a, 2);
    assert_int_equal(raw(arg("w")->stride_offset[0], 8), 96); /* in bytes */
    a[0].row_bytes[0] = 0;
    bad(a, 2, OCH_INVALID, "argument w: expected the bytes of a row of planes, found 0");
    a[0].row_bytes[0] = 100;
    bad(a, 2, OCH_INVALID, "argument w: expected rows a multiple of 16 bytes apart, found 100");
    /* two units of 32 bytes, and two scales of 2 that take 16: 80 bytes, the last row too */
    a[0].row_bytes[0] = 96, a[1].addr = 0x1000 + 3 * 96 + 80 - 4;
    bad(a, 2, OCH_INVALID, "expected argument y, which is written, apart from w");
    a[1].addr = 0x1000 + 3 * 96 + 80;
    good(a, 2);
    a[0].row_bytes[0] = 64;
    bad(a, 2, OCH_INVALID, "argument w: expected rows of Q8_0 of at least 80 bytes, found 64");
    a[0].row_bytes[0] = 80, a[0].dims[1] = 65; /* a unit more: 96 and 16 */
    bad(a, 2, OCH_INVALID, "argument w: expected rows of Q8_0 of at least 112 bytes, found 80");
    a[0].row_bytes[0] = 112, a[1].addr = 0x4000;
    good(a, 2);
    a[0].row_bytes[0] = 64, a[0].dims[0] = 0; /* of no rows */
    a[1].dims[0] = 0;
    good(a, 2);
    a[0].dims[0] = a[1].dims[0] = 4, a[0].dims[1] = INT64_MAX, a[0].row_bytes[0] = 96;
    assert_true(pack(a, 2) != OCH_OK && err.message[0]);
}

/* Which output may lie over which input is said pair by pair. */
static void over(void **state) {
    (void)state;
    make("kernel k(a: in buf<f32>[n], b: in buf<f32>[n], y: out buf<f32>[n] over a, z: out buf<f32>[n] over b)\n"
         "  launch grid(n) waves(1)\n"
         "{ let i = group.id.x; y[i] = a[i] + b[i]; z[i] = 1.0; }\n");
    och_kl_actual x[] = {{.name = "a", .addr = 0x1000, .dims = {4}}, {.name = "b", .addr = 0x2000, .dims = {4}},
                         {.name = "y", .addr = 0x1000, .dims = {4}}, {.name = "z", .addr = 0x2000, .dims = {4}}};
    assert_int_equal(arg("a")->over, 1u << 2);
    assert_int_equal(arg("z")->over, 1u << 1);
    good(x, 4);
    x[2].addr = 0x2000, x[3].addr = 0x3000; /* y over b */
    bad(x, 4, OCH_INVALID, "expected argument y, which is written, apart from b");
    x[2].addr = x[3].addr = 0x5000; /* two outputs */
    bad(x, 4, OCH_INVALID, "which is written, apart from");
    make("kernel k(a: inout buf<f32>[n], b: inout buf<f32>[n])\n  launch grid(n) waves(1)\n"
         "{ a[group.id.x] += 1.0; b[group.id.x] += 2.0; }\n");
    och_kl_actual both[] = {{.name = "a", .addr = 0x1000, .dims = {4}}, {.name = "b", .addr = 0x1000, .dims = {4}}};
    bad(both, 2, OCH_INVALID, "expected argument a, which is written, apart from b");
}

/* What is shared among lanes is counted in i32: the host refuses what would not fit. */
static void shares(void **state) {
    (void)state;
    static const int64_t most = INT32_MAX - 1024;
    static const struct {
        const char *share;
        int64_t n, c, u; /* the largest that are taken */
        const char *words;
    } cases[] = {{"group.lanes(n)", most, 1, 1, "expected n <= 2147482623"},
                 {"wave.lanes(n / 4)", 4 * most + 3, 1, 1, "expected n / 4 <= 2147482623"},
                 {"cluster(8).lanes(n * 2)", most / 2, 1, 1, "expected n * 2 <= 2147482623"},
                 {"group.waves(c)", 1, most, 1, "expected c <= 2147482623"},
                 {"group.lanes(i64(u) + 1)", 1, 1, most - 1, "expected u + 1 <= 2147482623"},
                 {"group.lanes(i32(n))", most, 1, 1, "expected n <= 2147482623"},
                 {"group.lanes(half)", 2 * most + 1, 1, 1, "expected n / 2 <= 2147482623"},
                 {"group.lanes(part)", most, 1, 1, "expected n <= 2147482623"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char all[512];
        snprintf(all, sizeof all,
                 "kernel k(x: in buf<u8>[n], y: out buf<f32>[4], c: i64, u: u32)\n  launch grid(1) waves(2)\n"
                 "{ let half = n / 2; var part = n; if c > 1 { part -= 1; }\n  for i in %s { y[0] = f32(x[i]); } }\n",
                 cases[i].share);
        make(all);
        och_kl_actual a[] = {{.name = "x", .addr = (uint64_t)1 << 40, .dims = {cases[i].n}}, {.name = "y", .addr = 0x1000, .dims = {4}},
                             {.name = "c", .integer = cases[i].c},                           {.name = "u", .integer = cases[i].u}};
        good(a, 4); /* and of one dimension a buffer may be longer than 4 GiB */
        if (cases[i].n > 1) a[0].dims[0]++;
        if (cases[i].c > 1) a[2].integer++;
        if (cases[i].u > 1) a[3].integer++;
        bad(a, 4, OCH_INVALID, cases[i].words);
    }
    /* nothing is asked where it is small whatever n is */
    make("kernel k(x: in buf<f32>[n], y: out buf<f32>[4], c: i64)\n  launch grid(1) waves(2)\n"
         "{ for i in group.lanes(min(n - c, 256)) { y[0] = x[i]; } for i in group.lanes(n % 64) { y[1] = x[i]; } }\n");
    assert_int_equal(sig.n_rules, 0);
    och_kl_actual a[] = {{.name = "x", .addr = (uint64_t)1 << 40, .dims = {(int64_t)1 << 33}}, {.name = "y", .addr = 0x1000, .dims = {4}},
                         {.name = "c", .integer = 5}};
    good(a, 3);
    /* nor twice, nor where a row's length says it */
    make("kernel k(x: in buf<f32>[n, d], y: out buf<f32>[4])\n  launch grid(1) waves(2)\n"
         "{ for i in group.lanes(d / 4) { y[0] = x[0, i]; } for i in group.lanes(n) { y[1] = x[i, 0]; } for i in wave.lanes(n) { y[2] = x[i, 1]; } }\n");
    assert_int_equal(sig.n_rules, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(scalars), cmocka_unit_test(shapes), cmocka_unit_test(huge), cmocka_unit_test(alignment),
                                       cmocka_unit_test(apart), cmocka_unit_test(in_place), cmocka_unit_test(weights),
                                       cmocka_unit_test(over), cmocka_unit_test(shares)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
