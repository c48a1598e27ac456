/* Code objects on simulated boards: what is where in memory, what a kernel's registers are, what its arguments become.
 * Addresses and register fields were read by LLVM's tools from tests/golden/obj; what follows from them is worked by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "exec/program.h"
#include "load/apply.h"
#include "load/module.h"
#include "unit/obj_file.h"

#include <pthread.h>
#include <string.h>

static sim_space *space;

static const sim_board *board(const char *key) {
    const sim_board *b;
    och_err e = {0};
    if (sim_board_find(key, &b, &e) != OCH_OK) fail_msg("%s", e.message);
    return b;
}

static och_status try_load(const char *file, const sim_board *b, sim_module **out_m, och_err *e) {
    obj_file f = obj_file_read(file);
    och_err_clear(e);
    och_status st = sim_module_load(space, b, 3, f.bytes, f.n_bytes, out_m, e);
    memset(f.bytes, 0xEE, f.n_bytes); /* the image was copied */
    obj_file_free(&f);
    if (st != OCH_OK && *out_m) fail_msg("a module beside an error");
    return st;
}
static sim_module *load(const char *file, const char *key) {
    sim_module *m;
    och_err e;
    if (try_load(file, board(key), &m, &e) != OCH_OK) fail_msg("%s on %s: %s", file, key, e.message);
    return m;
}
static void refused(const char *file, const sim_board *b, och_status status, const char *words) {
    sim_module *m;
    och_err e;
    och_status st = try_load(file, b, &m, &e);
    if (st != status || !strstr(e.message, words))
        fail_msg("%s on %s: expected status %d and '%s', found %d: %s", file, b->key, status, words, st, e.message);
}

static uint64_t read_le(uint64_t addr, int n) {
    const uint8_t *p = sim_space_host(space, addr, (uint64_t)n);
    assert_non_null(p);
    uint64_t v = 0;
    for (int i = 0; i < n; i++) v |= (uint64_t)p[i] << (8 * i);
    return v;
}
static uint64_t global(sim_module *m, const char *name, uint64_t size) {
    uint64_t addr, n;
    och_err e = {0};
    if (sim_module_global(m, name, &addr, &n, &e) != OCH_OK) fail_msg("%s", e.message);
    assert_int_equal(n, size);
    return addr;
}

static void variables_and_relocations(void **s) {
    (void)s;
    sim_module *m = load("relocs.co", "gfx1201");
    uint64_t places = global(m, "places", 24), outside = global(m, "outside", 4);
    uint64_t base = places - 0x40b8; /* where the object's address 0 is */
    assert_int_equal(base % 4096, 0);
    assert_int_equal(outside, base + 0x40d0);
    assert_int_equal(read_le(outside, 4), 42);
    assert_int_equal(read_le(places, 8), outside);            /* ABS64 */
    assert_int_equal(read_le(places + 8, 8), places + 8);     /* RELATIVE64: places + 8 */
    assert_int_equal(read_le(places + 16, 8), base + 0x1e00); /* RELATIVE64: helper */
    assert_int_equal(read_le(base, 4), 0x464C457F);           /* the first segment holds the header */
    sim_range r;
    assert_true(sim_space_find(space, places, &r));
    assert_int_equal(r.lo, base);
    assert_int_equal(r.hi, base + 0x40d4);
    assert_int_equal(r.kind, SIM_MEM_CODE);
    assert_int_equal(r.device, 3);
    sim_module_unload(m);
    assert_true(!sim_space_find(space, places, &r) || r.freed);

    m = load("v5-gfx1100.co", "gfx1100");
    uint64_t counter = global(m, "counter", 4);
    assert_int_equal(read_le(counter, 4), 7);
    assert_int_equal(read_le(global(m, "where", 8), 8), counter);
    assert_int_equal(read_le(global(m, "table", 16) + 12, 4), 4);
    base = counter - 0x4830;
    assert_int_equal(read_le(global(m, "operations", 16), 8), base + 0x2200);
    assert_int_equal(read_le(global(m, "operations", 16) + 8, 8), base + 0x2234);
    assert_int_equal(read_le(base + 0x3830, 8), 0); /* memory without file bytes */
    uint64_t addr, n;
    och_err e = {0};
    assert_int_equal(sim_module_global(m, "axpy", &addr, &n, &e), OCH_NOTFOUND); /* a function */
    assert_non_null(strstr(e.message, "no variable 'axpy'"));
    assert_int_equal(sim_module_global(m, "nothing", &addr, &n, NULL), OCH_NOTFOUND);
    sim_module_unload(m);
}

/* A second load gets memory that was used before. */
static void memory_that_is_used_again_is_cleared(void **s) {
    (void)s;
    sim_space_set_poison(space, true);
    sim_module *m = load("v5-gfx1100.co", "gfx1100");
    sim_space_set_poison(space, false);
    uint64_t base = global(m, "counter", 4) - 0x4830;
    assert_int_equal(read_le(base + 0x1200, 8), 0);
    assert_int_equal(read_le(base + 0x3830, 8), 0);
    assert_int_equal(read_le(base + 0x4870, 1), 0);
    sim_module_unload(m);
}

static void modules_that_are_refused(void **s) {
    (void)s;
    refused("undefined.co", board("gfx1201"), OCH_NOTFOUND, "symbol 'outside' is not defined");
    refused("v5-gfx1100.co", board("gfx1201"), OCH_UNSUPPORTED,
            "expected code for gfx1201 (the board gfx1201), found code for gfx1100");
    refused("v5-gfx1100.co", board("gfx1101"), OCH_UNSUPPORTED, "gfx1101");
    refused("v6-gfx9-generic.co", board("gfx906"), OCH_UNSUPPORTED,
            "expected code for gfx906:sramecc+:xnack- (the board gfx906), found code for gfx9-generic:xnack+");
    refused("bundle-v3.ccob", board("gfx1100"), OCH_UNSUPPORTED, "found code for gfx906, gfx9-generic:xnack+");
    refused("kernels.hip", board("gfx1100"), OCH_CORRUPT, "neither");
    sim_board xnack = *board("gfx90a");
    xnack.target = "gfx90a:sramecc+:xnack+";
    refused("v4-gfx90a.co", &xnack, OCH_UNSUPPORTED, "found code for gfx90a:sramecc+:xnack-");
    sim_board no_ecc = *board("gfx90a");
    no_ecc.target = "gfx90a:sramecc-:xnack-";
    refused("v4-gfx90a.co", &no_ecc, OCH_UNSUPPORTED, "expected code for gfx90a:sramecc-:xnack-");
}

/* Which entry was taken shows in the version of the code object: 4 for gfx906, 6 for the generic one. */
static void the_entry_that_serves_best(void **s) {
    (void)s;
    static const char *const files[] = {"bundle.hipfb", "bundle-v1.ccob", "bundle-v2.ccob", "bundle-v3.ccob"};
    sim_board xnack = *board("gfx906"), vega = *board("gfx906");
    xnack.target = "gfx906:sramecc+:xnack+"; /* both entries serve it */
    vega.target = "gfx900:xnack+";           /* the generic one alone */
    for (size_t i = 0; i < 4; i++) {
        sim_module *m = load(files[i], "gfx906");
        assert_int_equal(global(m, "counter", 4) % 4096, 0xb80);
        sim_module_unload(m);
        och_err e;
        assert_int_equal(try_load(files[i], &xnack, &m, &e), OCH_OK);
        assert_int_equal(global(m, "counter", 4) % 4096, 0xb80);
        sim_module_unload(m);
        assert_int_equal(try_load(files[i], &vega, &m, &e), OCH_OK);
        assert_int_equal(global(m, "counter", 4) % 4096, 0xe80);
        sim_module_unload(m);
    }
}

/* ---- kernels ---- */

static const sim_kernel *kernel(sim_module *m, const char *name) {
    const sim_kernel *k;
    och_err e = {0};
    if (sim_module_kernel(m, name, &k, &e) != OCH_OK) fail_msg("%s", e.message);
    return k;
}

static void kernels_by_name(void **s) {
    (void)s;
    sim_module *m = load("v5-gfx1100.co", "gfx1100");
    assert_int_equal(sim_module_n_kernels(m), 3);
    assert_string_equal(sim_module_kernel_name(m, 0), "dispatch");
    const sim_kernel *k = kernel(m, "rotate"), *none;
    assert_string_equal(k->name, "rotate");
    assert_ptr_equal(kernel(m, "rotate.kd"), k);
    assert_ptr_not_equal(kernel(m, "axpy"), k);
    assert_string_equal(sim_module_kernel_info(m, k)->symbol, "rotate.kd");
    och_err e = {0};
    assert_int_equal(sim_module_kernel(m, "rot", &none, &e), OCH_NOTFOUND);
    assert_non_null(strstr(e.message, "no kernel 'rot' among the 3"));
    assert_null(none);
    assert_int_equal(sim_module_kernel(m, "rotates", &none, NULL), OCH_NOTFOUND);
    assert_int_equal(sim_module_kernel(m, "", &none, NULL), OCH_NOTFOUND);
    assert_int_equal(sim_module_kernel(m, ".kd", &none, NULL), OCH_NOTFOUND);
    sim_module_unload(m);
}

/* Registers: GRANULATED_WORKITEM_VGPR_COUNT + 1 times 4 (gfx9), 8 (gfx90a and later CDNA), 8 or 4 (gfx10 and later, wave32
 * or wave64); gfx90a's accumulation registers begin at (rsrc3 5:0 + 1) * 4. */
static void registers_of_kernels(void **s) {
    (void)s;
    static const struct {
        const char *file, *board, *kernel;
        uint32_t wave, vgprs, agprs, acc, lds, scratch, flat;
        bool dynamic;
    } rows[] = {
        {"v4-gfx90a.co", "gfx90a", "product", 64, 28, 12, 28, 0, 0, 1024, false},
        {"v4-gfx90a.co", "gfx90a", "rotate", 64, 4, 4, 4, 256, 0, 64, false},
        {"v5-gfx1100.co", "gfx1100", "dispatch", 32, 48, 0, 0, 0, 0, 1024, true},
        {"v5-gfx1100.co", "gfx1100", "axpy", 32, 8, 0, 0, 0, 0, 1024, false},
        {"v6-gfx1151-wave64.co", "gfx1151", "axpy", 64, 4, 0, 0, 0, 0, 1024, false},
        {"v6-gfx1151-wave64.co", "gfx1151", "rotate", 64, 8, 0, 0, 256, 0, 64, false},
        {"bundle.hipfb", "gfx906", "rotate", 64, 8, 0, 0, 256, 0, 64, false},
        {"relocs.co", "gfx1201", "all", 64, 12, 0, 0, 1024, 36, 512, true},
        {"relocs.co", "gfx1201", "plain", 32, 32, 0, 0, 0, 0, 1024, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sim_module *m = load(rows[i].file, rows[i].board);
        const sim_kernel *k = kernel(m, rows[i].kernel);
        assert_int_equal(k->wave_size, rows[i].wave);
        assert_int_equal(k->n_vgprs, rows[i].vgprs);
        assert_int_equal(k->n_agprs, rows[i].agprs);
        assert_int_equal(k->acc_offset, rows[i].acc);
        assert_int_equal(k->lds_bytes, rows[i].lds);
        assert_int_equal(k->scratch_bytes, rows[i].scratch);
        assert_int_equal(k->max_flat_workgroup_size, rows[i].flat);
        assert_int_equal(k->dynamic_stack, rows[i].dynamic);
        const och_obj_kernel *info = sim_module_kernel_info(m, k);
        assert_int_equal(k->rsrc1, info->rsrc1);
        assert_int_equal(k->rsrc2, info->rsrc2);
        assert_int_equal(k->rsrc3, info->rsrc3);
        assert_int_equal(k->properties, info->properties);
        assert_memory_equal(k->reqd_workgroup_size, info->reqd_workgroup_size, sizeof k->reqd_workgroup_size);
        sim_module_unload(m);
    }
}

/* What a pointer may lead to is part of the programs of the kernels that call through pointers, and of no others. */
static void functions_behind_pointers(void **s) {
    (void)s;
    sim_module *m = load("v5-gfx1100.co", "gfx1100");
    uint64_t base = global(m, "counter", 4) - 0x4830;
    const sim_kernel *k = kernel(m, "dispatch");
    const sim_uop *entry = sim_program_at(k->program, base + 0x2300);
    assert_ptr_equal(entry, sim_program_entry(k->program));
    assert_non_null(sim_program_at(k->program, base + 0x2200));
    assert_non_null(sim_program_at(k->program, base + 0x2234));
    assert_null(sim_program_at(k->program, base + 0x2400)); /* axpy: a kernel is no function */
    sim_module_unload(m);

    m = load("relocs.co", "gfx1201");
    base = global(m, "places", 24) - 0x40b8;
    k = kernel(m, "all"); /* may call what it likes */
    assert_non_null(sim_program_at(k->program, base + 0x1e00));
    assert_null(sim_program_at(k->program, base + 0x1f00)); /* nothing names its address */
    assert_null(sim_program_at(k->program, base + 0x2000));
    k = kernel(m, "plain"); /* calls nothing by pointers: pays for nobody's instructions and registers */
    assert_null(sim_program_at(k->program, base + 0x1e00));
    assert_null(sim_program_at(k->program, base + 0x1f00));
    assert_null(sim_program_at(k->program, base + 0x1d00));
    sim_module_unload(m);

    m = load("v4-gfx1030-clang14.co", "gfx1030"); /* says it by 16 KiB of scratch alone */
    base = global(m, "counter", 4) - 0x4270;
    k = kernel(m, "dispatch");
    assert_int_equal(k->scratch_bytes, 16384);
    assert_false(k->dynamic_stack);
    assert_non_null(sim_program_at(k->program, base + 0x1d00));
    assert_non_null(sim_program_at(k->program, base + 0x1d38));
    assert_null(sim_program_at(kernel(m, "axpy")->program, base + 0x1d00));
    sim_module_unload(m);
}

typedef struct asker {
    sim_module *m;
    const sim_kernel *k;
    pthread_t thread;
} asker;
static void *ask(void *arg) {
    asker *a = arg;
    if (sim_module_kernel(a->m, "rotate", &a->k, NULL) != OCH_OK) a->k = NULL;
    return NULL;
}

static void kernels_asked_for_by_many_threads(void **s) {
    (void)s;
    asker a[8];
    sim_module *m = load("v5-gfx1100.co", "gfx1100");
    for (int i = 0; i < 8; i++) {
        a[i] = (asker){.m = m};
        assert_int_equal(pthread_create(&a[i].thread, NULL, ask, &a[i]), 0);
    }
    for (int i = 0; i < 8; i++) pthread_join(a[i].thread, NULL);
    for (int i = 0; i < 8; i++) assert_true(a[i].k && a[i].k == a[0].k && a[i].k->program == a[0].k->program);
    sim_module_unload(m);
}

/* ---- arguments ---- */

static void every_hidden_argument(void **s) {
    (void)s;
    sim_module *m = load("relocs.co", "gfx1201");
    const sim_kernel *k = kernel(m, "all");
    sim_launch l = {.kernel = k,
                    .grid = {3, 2, 7},
                    .block = {64, 4, 2},
                    .grid_items = {2 * 64 + 10, 8, 13},
                    .dynamic_lds_bytes = 4000,
                    .queue_ptr = 0x1111};
    sim_hidden h = {.printf_buffer = 0x1000000000000001,
                    .hostcall_buffer = 0x1000000000000002,
                    .multigrid_sync = 0x1000000000000003,
                    .heap = 0x1000000000000004,
                    .default_queue = 0x1000000000000005,
                    .completion_action = 0x1000000000000006,
                    .queue_ptr = 0x1000000000000007,
                    .private_base = 0x1234567800000000,
                    .shared_base = 0x9ABCDEF000000000};
    uint64_t in = 0x1122334455667788;
    uint32_t lds = 0xAABBCCDD, n = 99;
    void *args[] = {&in, &lds, &n};
    uint8_t got[281];
    memset(got, 0xEE, sizeof got);
    och_err e = {0};
    if (sim_module_fill_args(m, k, &l, &h, args, NULL, 0, got, &e) != OCH_OK) fail_msg("%s", e.message);
    static const struct {
        unsigned at, size;
        uint64_t value;
    } want[] = {{0, 8, 0x1122334455667788}, {8, 4, 0xAABBCCDD}, {12, 4, 99},
                {16, 4, 2}, {20, 4, 2}, {24, 4, 6},       /* whole workgroups */
                {28, 2, 64}, {30, 2, 4}, {32, 2, 2},      /* their size */
                {34, 2, 10}, {36, 2, 0}, {38, 2, 1},      /* work-items of the partial one */
                {40, 8, 0}, {48, 8, 0}, {56, 8, 0},       /* offsets: none in HIP */
                {64, 2, 3},                               /* dimensions: always three in HIP */
                {66, 6, 0}, {72, 8, 0x1000000000000001}, {80, 8, 0x1000000000000002}, {88, 8, 0x1000000000000003},
                {96, 8, 0x1000000000000004}, {104, 8, 0x1000000000000005}, {112, 8, 0x1000000000000006}, {120, 4, 4000},
                {124, 8, 0}, {208, 4, 0x12345678}, {212, 4, 0x9ABCDEF0}, {216, 8, 0x1000000000000007}, {224, 8, 0},
                {272, 8, 0}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        uint64_t v = 0;
        for (unsigned b = 0; b < want[i].size; b++) v |= (uint64_t)got[want[i].at + b] << (8 * b);
        if (v != want[i].value)
            fail_msg("byte %u: expected 0x%llx, found 0x%llx", want[i].at, (unsigned long long)want[i].value,
                     (unsigned long long)v);
    }
    assert_int_equal(got[280], 0xEE); /* not a byte more */

    l.grid_items[0] = l.grid_items[1] = l.grid_items[2] = 0; /* not given: whole workgroups */
    assert_int_equal(sim_module_fill_args(m, k, &l, NULL, args, NULL, 0, got, &e), OCH_OK);
    assert_int_equal(got[16], 3);
    assert_int_equal(got[24], 7);
    assert_int_equal(got[34], 0);
    assert_int_equal(got[72], 0); /* no buffers */
    assert_int_equal(got[216], 0x11);
    sim_module_unload(m);
}

static void packed_arguments(void **s) {
    (void)s;
    sim_module *m = load("v4-gfx90a.co", "gfx90a");
    const sim_kernel *k = kernel(m, "rotate"); /* 16 bytes, a pointer, a byte: 25 */
    sim_launch l = {.kernel = k, .grid = {1, 1, 1}, .block = {64, 1, 1}, .grid_items = {64, 1, 1}};
    uint8_t packed[64], got[28];
    for (int i = 0; i < 64; i++) packed[i] = (uint8_t)(i + 1);
    memset(got, 0xEE, sizeof got);
    och_err e = {0};
    assert_int_equal(sim_module_fill_args(m, k, &l, NULL, NULL, packed, 25, got, &e), OCH_OK);
    assert_memory_equal(got, packed, 25);
    assert_int_equal(got[25] | got[26] | got[27], 0);
    assert_int_equal(sim_module_fill_args(m, k, &l, NULL, NULL, packed, 24, got, &e), OCH_INVALID);
    assert_non_null(strstr(e.message, "'rotate': expected at least 25 bytes of packed arguments, found 24"));
    och_err_clear(&e);
    assert_int_equal(sim_module_fill_args(m, k, &l, NULL, NULL, NULL, 0, got, &e), OCH_INVALID);
    void *args[] = {packed, NULL, packed};
    och_err_clear(&e);
    assert_int_equal(sim_module_fill_args(m, k, &l, NULL, args, NULL, 0, got, &e), OCH_INVALID);
    assert_non_null(strstr(e.message, "argument 1: expected a pointer to 8 bytes, found NULL"));
    sim_module_unload(m);
}

/* ---- relocations one by one ---- */

static void relocation_types(void **s) {
    (void)s;
    /* The image's 32 bytes are at 0x1000 in the object and at 0x7F0000001000 on the device; the place is its byte 16. */
    static const uint64_t lo = 0x1000, base = 0x7F0000001000, symbol = 0x7F0200003004;
    static const struct {
        uint32_t type;
        int64_t addend;
        int bytes;
        uint64_t value;
    } rows[] = {{0, 0, 0, 0},
                {1, 8, 4, 0x0000300C},           /* ABS32_LO */
                {2, 8, 4, 0x00007F02},           /* ABS32_HI */
                {3, 8, 8, 0x7F020000300C},       /* ABS64 */
                {5, -4, 8, 0x1FF0},              /* REL64: S + A - P, with the symbol moved near */
                {10, 4, 4, 0x00001FF8},          /* REL32_LO */
                {11, 4, 4, 0},                   /* REL32_HI */
                {4, 4, 4, 0x00001FF8},          /* REL32 */
                {13, 0x2345, 8, 0x7F0000002345}, /* RELATIVE64: B + A */
                {14, 0, 2, 0x07FC}};             /* REL16: (0x1FF4 - 4) / 4 */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool near = rows[i].type >= 4 && rows[i].type != 13;
        uint8_t image[32];
        memset(image, 0xEE, sizeof image);
        och_obj_reloc r = {.addr = 0x1010, .type = rows[i].type, .symbol = "x", .addend = rows[i].addend};
        och_err e = {0};
        if (sim_reloc_apply(&r, image, 32, lo, base, near ? base + 0x2004 : symbol, &e) != OCH_OK) fail_msg("%s", e.message);
        uint64_t v = 0;
        for (int b = 0; b < rows[i].bytes; b++) v |= (uint64_t)image[16 + b] << (8 * b);
        assert_int_equal(v, rows[i].value);
        for (int b = 16 + rows[i].bytes; b < 32; b++) assert_int_equal(image[b], 0xEE);
        assert_int_equal(image[15], 0xEE);
    }
    uint8_t image[32] = {0};
    och_err e = {0};
    och_obj_reloc r = {.addr = 0x1019, .type = 3, .symbol = "x"};
    assert_int_equal(sim_reloc_apply(&r, image, 32, lo, base, symbol, &e), OCH_CORRUPT); /* its last byte is outside */
    assert_non_null(strstr(e.message, "R_AMDGPU_ABS64: expected 8 bytes at 0x1019"));
    r.addr = 0xFFF;
    assert_int_equal(sim_reloc_apply(&r, image, 32, lo, base, symbol, NULL), OCH_CORRUPT);
    r = (och_obj_reloc){.addr = 0x1000, .type = 4, .symbol = "far"};
    och_err_clear(&e);
    assert_int_equal(sim_reloc_apply(&r, image, 32, lo, base, symbol, &e), OCH_CORRUPT);
    assert_non_null(strstr(e.message, "R_AMDGPU_REL32 at 0x1000 to 'far': expected a value of 32 bits"));
    r.type = 6;
    assert_int_equal(sim_reloc_apply(&r, image, 32, lo, base, symbol, NULL), OCH_CORRUPT);
    assert_int_equal(sim_reloc_apply(&r, image, 32, lo, base, 0xFFFFFFFF, NULL), OCH_OK);
    for (uint32_t type = 7; type <= 9; type++) { /* through the global offset table: a linker's */
        r.type = type;
        assert_int_equal(sim_reloc_apply(&r, image, 32, lo, base, symbol, NULL), OCH_UNSUPPORTED);
    }
}

static void every_allocation_fails_once(void **s) {
    (void)s;
    obj_file f = obj_file_read("bundle-v2.ccob");
    const sim_board *b = board("gfx906");
    sim_module *m;
    och_err e;
    uint64_t n = 1;
    for (;; n++) {
        och_err_clear(&e);
        och_alloc_fail_at(n);
        och_status st = sim_module_load(space, b, 0, f.bytes, f.n_bytes, &m, &e);
        bool reached = och_alloc_count() >= n;
        och_alloc_fail_at(0);
        sim_module_unload(m);
        if (!reached) {
            assert_int_equal(st, OCH_OK);
            break;
        }
        if (st != OCH_OK && st != OCH_NOMEM) fail_msg("allocation %llu: status %d: %s", (unsigned long long)n, st, e.message);
        if (st != OCH_OK) assert_null(m);
    }
    assert_true(n > 20);
    obj_file_free(&f);
}

static int set_up(void **s) {
    (void)s;
    return sim_space_create(&space, NULL) == OCH_OK ? 0 : -1;
}
static int tear_down(void **s) {
    (void)s;
    sim_space_destroy(space);
    return och_alloc_live() == 0 ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_and_relocations),
        cmocka_unit_test(memory_that_is_used_again_is_cleared),
        cmocka_unit_test(modules_that_are_refused),
        cmocka_unit_test(the_entry_that_serves_best),
        cmocka_unit_test(kernels_by_name),
        cmocka_unit_test(registers_of_kernels),
        cmocka_unit_test(functions_behind_pointers),
        cmocka_unit_test(kernels_asked_for_by_many_threads),
        cmocka_unit_test(every_hidden_argument),
        cmocka_unit_test(packed_arguments),
        cmocka_unit_test(relocation_types),
        cmocka_unit_test(every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
