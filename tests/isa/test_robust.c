/* What a code object must not be able to do to the host: registers past the last one, scratch and grids that no board has,
 * loops without an end; and allocations that fail while a module is loaded, bound and launched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "exec/run.h"
#include "isa/memory_format.h"
#include "isa/valu_math.h"
#include "load/module.h"
#include "unit/obj_file.h"

#include <fenv.h>
#include <stdlib.h>
#include <string.h>

#define ENDPGM_9 0xbf810000u
#define ENDPGM_11 0xbfb00000u
#define CODE_ADDR 0x7f0000000000ull

static och_status make(sim_isa isa, unsigned lanes, const uint32_t *words, size_t n, sim_program **p, och_err *e) {
    *e = (och_err){0};
    return sim_program_create(isa, lanes, (const uint8_t *)words, n * 4, CODE_ADDR, 0, NULL, 0, p, e);
}

/* Operands that begin in the file and end past it: refused before anything runs. */
static void registers_past_the_last_one(void **state) {
    (void)state;
    static const struct {
        const char *text;
        sim_isa isa;
        uint32_t words[4];
        unsigned n;
    } cases[] = {
        {"global_load_b128 v[254:257], v[0:1], off", SIM_GFX1100, {0xdc5e0000, 0xfe7c0000, ENDPGM_11}, 3},
        {"global_load_b64 v[0:1], v[255:256], off", SIM_GFX1100, {0xdc560000, 0x007c00ff, ENDPGM_11}, 3},
        {"ds_load_b64 v[255:256], v0", SIM_GFX1100, {0xd9d80000, 0xff000000, ENDPGM_11}, 3},
        {"v_add_f64 v[255:256], v[0:1], v[2:3]", SIM_GFX1100, {0xd72700ff, 0x00020500, ENDPGM_11}, 3},
        {"s_load_b512 s[116:131], s[0:1]", SIM_GFX1100, {0xf4101d00, 0xf8000000, ENDPGM_11}, 3},
        {"v_mfma_f32_32x32x1f32 a[241:272]", SIM_GFX908, {0xd3c000f1, 0x04020300, ENDPGM_9}, 3},
        {"global_load_dwordx4 v[253:256]", SIM_GFX90A, {0xdc5c8000, 0xfd7f0000, ENDPGM_9}, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sim_program *p;
        och_err e;
        och_status st = make(cases[i].isa, SIM_BIT(cases[i].isa) & SIM_GCN ? 64 : 32, cases[i].words, cases[i].n, &p, &e);
        if (st != OCH_UNSUPPORTED || p || !strstr(e.message, "past the last"))
            fail_msg("%s: expected it to be refused, found status %d, \"%s\"", cases[i].text, (int)st, e.message);
    }
}

/* A limit far below a slice is kept, alone and in a launch. */
static void a_loop_without_an_end(void **state) {
    (void)state;
    static const uint32_t words[] = {0xbf800000, 0xbfa0fffe, ENDPGM_11}; /* s_nop; s_branch to it */
    sim_program *p;
    sim_wave *w;
    och_err e;
    assert_int_equal(make(SIM_GFX1100, 32, words, 3, &p, &e), OCH_OK);
    assert_int_equal(sim_wave_create(SIM_GFX1100, 32, 4, 64, 0, NULL, &w, &e), OCH_OK);
    assert_int_equal(sim_run_wave(p, w, 1000, &e), OCH_DEVICE);
    assert_int_equal(e.native_code, SIM_FAULT_BUDGET);
    assert_in_range(w->n_executed, 1000, 3000);
    sim_wave_destroy(w);
    const sim_board *board;
    sim_space *space;
    uint64_t n;
    assert_int_equal(sim_board_find("gfx1100", &board, &e), OCH_OK);
    assert_int_equal(sim_space_create(&space, &e), OCH_OK);
    sim_kernel k = {.name = "loop", .program = p, .wave_size = 32, .n_vgprs = 8, .max_flat_workgroup_size = 1024};
    sim_launch l = {.kernel = &k, .isa = SIM_GFX1100, .board = board, .space = space, .grid = {1, 1, 1}, .block = {64, 1, 1},
                    .grid_items = {64, 1, 1}};
    setenv("OCHRE_SIM_BUDGET", "1000", 1);
    e = (och_err){0};
    assert_int_equal(sim_launch_run(&l, &n, &e), OCH_DEVICE);
    unsetenv("OCHRE_SIM_BUDGET");
    assert_int_equal(e.native_code, SIM_FAULT_BUDGET);
    assert_in_range(n, 1000, 6000);
    sim_space_destroy(space);
    sim_program_destroy(p);
}

static void launches_that_no_board_has(void **state) {
    (void)state;
    static const uint32_t words[] = {ENDPGM_11};
    sim_program *p;
    const sim_board *board;
    sim_space *space;
    och_err e = {0};
    assert_int_equal(make(SIM_GFX1100, 32, words, 1, &p, &e), OCH_OK);
    assert_int_equal(sim_board_find("gfx1100", &board, &e), OCH_OK);
    assert_int_equal(sim_space_create(&space, &e), OCH_OK);
    sim_kernel k = {.name = "nothing", .program = p, .wave_size = 32, .n_vgprs = 8, .max_flat_workgroup_size = 1024};
    sim_launch l = {.kernel = &k, .isa = SIM_GFX1100, .board = board, .space = space, .grid = {1, 1, 1}, .block = {32, 1, 1},
                    .grid_items = {32, 1, 1}};
    assert_int_equal(sim_launch_run(&l, NULL, &e), OCH_OK);
    /* 15 bits of 256 bytes a wave */
    k.scratch_bytes = 32767u * 256 / 32 & ~3u;
    assert_int_equal(sim_launch_run(&l, NULL, &e), OCH_OK);
    k.scratch_bytes += 8;
    e = (och_err){0};
    assert_int_equal(sim_launch_run(&l, NULL, &e), OCH_RANGE);
    assert_non_null(strstr(e.message, "scratch"));
    k.scratch_bytes = UINT32_MAX;
    k.dynamic_stack = true;
    e = (och_err){0};
    assert_int_equal(sim_launch_run(&l, NULL, &e), OCH_RANGE);
    k.scratch_bytes = 0;
    k.dynamic_stack = false;
    for (int d = 0; d < 3; d++) {
        l.grid[d] = UINT32_MAX;
        l.grid_items[d] = (uint64_t)UINT32_MAX * l.block[d];
    }
    e = (och_err){0};
    assert_int_equal(sim_launch_run(&l, NULL, &e), OCH_RANGE);
    assert_non_null(strstr(e.message, "grid"));
    sim_space_destroy(space);
    sim_program_destroy(p);
}

/* Descriptors may hold any pair of data and number format: one without a meaning is no format. */
static void formats_without_a_meaning(void **state) {
    (void)state;
    static const uint8_t bytes[16] = {0xff, 0x80, 0x7f, 1, 0xff, 0xff, 0xff, 0x7f};
    unsigned n = 0;
    for (unsigned f = 0; f < 128; f++) {
        sim_typed t = sim_typed_of(SIM_GFX90A, f);
        uint32_t v[4];
        uint8_t out[16];
        if (!sim_typed_bytes(t)) continue;
        sim_typed_read(t, bytes, v);
        sim_typed_write(t, out, v);
        n++;
    }
    assert_in_range(n, 80, 110);
    assert_int_equal(sim_typed_bytes(sim_typed_of(SIM_GFX90A, SIM_DF_8_8_8_8 | SIM_NF_FLOAT << 4)), 0);
    assert_int_equal(sim_typed_bytes(sim_typed_of(SIM_GFX90A, SIM_DF_16 | SIM_NF_FLOAT << 4)), 2);
}

/* A wave may run under any rounding: reducing the argument must end all the same, at the same place. */
static void cosine_under_any_rounding(void **state) {
    (void)state;
    static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    static volatile const float turns[] = {0.1f, 0.4f, 0.6f, 0.9f, -0.9f, 1.5f, -255.6f, 3.75f};
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++)
        for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
            double want_cos = cos(turns[i] * 6.28318530717958647693), want_sin = sin(turns[i] * 6.28318530717958647693);
            fesetround(modes[m]);
            float c = sim_cos_f32(turns[i]), n = sim_sin_f32(turns[i]);
            fesetround(FE_TONEAREST);
            if (fabs(c - want_cos) > 1e-6 || fabs(n - want_sin) > 1e-6)
                fail_msg("%g turns, rounding %d: cosine %g for %g, sine %g for %g", (double)turns[i], modes[m], (double)c, want_cos,
                         (double)n, want_sin);
        }
}

/* A 64-bit source that is no register of the file: both of its dwords count. */
static void wide_special_sources(void **state) {
    (void)state;
    static const uint32_t words[] = {0x7cbc04eb, ENDPGM_11}; /* v_cmp_ge_u64_e32 vcc, src_shared_base, v[2:3] */
    sim_program *p;
    sim_wave *w;
    och_err e;
    assert_int_equal(make(SIM_GFX1100, 64, words, 2, &p, &e), OCH_OK);
    assert_int_equal(sim_wave_create(SIM_GFX1100, 64, 4, 64, 0, NULL, &w, &e), OCH_OK);
    for (unsigned l = 0; l < 64; l++) {
        uint64_t x = l % 3 == 0 ? SIM_SHARED_BASE - 1 : l % 3 == 1 ? SIM_SHARED_BASE : SIM_SHARED_BASE + (1ull << 32);
        w->v[2 * 64 + l] = (uint32_t)x;
        w->v[3 * 64 + l] = (uint32_t)(x >> 32);
    }
    assert_int_equal(sim_run_wave(p, w, 0, &e), OCH_OK);
    for (unsigned l = 0; l < 64; l++) assert_int_equal(SIM_VCC(w) >> l & 1, l % 3 < 2);
    sim_wave_destroy(w);
    sim_program_destroy(p);
}

/* ---- allocations that fail ---- */

typedef struct trial {
    const char *file, *board, *kernel;
    obj_file image;
    sim_space *space;
    och_status status;
    och_err err;
    uint64_t n_allocations; /* until the launch was over */
} trial;

/* axpy with four elements, from file to result, in a space of its own (which remembers what was freed); the nth allocation
 * fails (0: none). */
static void load_and_launch(trial *t, uint64_t n_fails) {
    const sim_board *board;
    const sim_kernel *k;
    sim_module *m = NULL;
    uint64_t buffer = 0;
    och_err *e = &t->err;
    *e = (och_err){0};
    assert_int_equal(sim_board_find(t->board, &board, e), OCH_OK);
    assert_int_equal(sim_space_create(&t->space, e), OCH_OK);
    och_alloc_fail_at(n_fails);
    och_status st = sim_module_load(t->space, board, 0, t->image.bytes, t->image.n_bytes, &m, e);
    if (st == OCH_OK) st = sim_module_kernel(m, t->kernel, &k, e);
    if (st == OCH_OK) st = sim_space_alloc(t->space, 8192, 256, SIM_MEM_DEVICE, 0, true, &buffer, e);
    if (st == OCH_OK) {
        float a = 2, *x = (float *)(uintptr_t)buffer;
        uint64_t px = buffer, py = buffer + 1024;
        int n = 4;
        for (int i = 0; i < 4; i++) x[i] = (float)i, x[256 + i] = 1;
        void *args[] = {&a, &px, &py, &n};
        sim_launch l = {.kernel = k, .isa = board->isa, .board = board, .space = t->space, .grid = {1, 1, 1},
                        .block = {64, 1, 1}, .grid_items = {64, 1, 1}, .kernarg_addr = buffer + 4096};
        st = sim_module_fill_args(m, k, &l, NULL, args, NULL, 0, (void *)(uintptr_t)l.kernarg_addr, e);
        if (st == OCH_OK) st = sim_launch_run(&l, NULL, e);
        if (st == OCH_OK)
            for (int i = 0; i < 4; i++) assert_true(x[256 + i] == 1 + 2 * (float)i);
    }
    t->status = st;
    t->n_allocations = och_alloc_count();
    och_alloc_fail_at(0); /* what is released from here on is not to fail */
    if (buffer) assert_int_equal(sim_space_free(t->space, buffer, NULL), OCH_OK);
    sim_module_unload(m);
    sim_space_destroy(t->space);
}

static void nth_allocation_fails(trial t) {
    t.image = obj_file_read(t.file);
    load_and_launch(&t, 0); /* worker threads, and what is made once for the process, are made now */
    if (t.status != OCH_OK) fail_msg("%s: %s", t.file, t.err.message);
    load_and_launch(&t, 0);
    uint64_t total = t.n_allocations, failed = 0, tried = 0;
    assert_true(total > 10);
    int64_t live = och_alloc_live();
    for (uint64_t n = 1; n <= total + 1; n += n < 60 ? 1 : 1 + total / 100) {
        load_and_launch(&t, n);
        tried++;
        if (t.status != OCH_OK) {
            failed++;
            if (t.status != OCH_NOMEM || !t.err.message[0])
                fail_msg("%s: allocation %llu failed: expected out of memory with a message, found status %d: %s", t.file,
                         (unsigned long long)n, (int)t.status, t.err.message);
        }
        load_and_launch(&t, 0); /* workers have their memory again */
        assert_int_equal(t.status, OCH_OK);
        if (och_alloc_live() != live)
            fail_msg("%s: allocation %llu failed: %lld allocations leak", t.file, (unsigned long long)n,
                     (long long)(och_alloc_live() - live));
    }
    print_message("%s: %llu allocations, %llu made to fail, %llu ended in an error\n", t.file, (unsigned long long)total,
                  (unsigned long long)tried, (unsigned long long)failed);
    assert_true(failed * 10 >= tried * 7);
    obj_file_free(&t.image);
}

static void allocations_of_a_code_object(void **state) {
    (void)state;
    nth_allocation_fails((trial){.file = "v5-gfx1100.co", .board = "gfx1100", .kernel = "axpy"});
}
static void allocations_of_a_compressed_bundle(void **state) {
    (void)state;
    nth_allocation_fails((trial){.file = "bundle-v3.ccob", .board = "gfx906", .kernel = "axpy"});
}

int main(void) {
    setenv("OCHRE_SIM_THREADS", "1", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registers_past_the_last_one),     cmocka_unit_test(a_loop_without_an_end),
        cmocka_unit_test(launches_that_no_board_has),      cmocka_unit_test(formats_without_a_meaning),
        cmocka_unit_test(cosine_under_any_rounding),       cmocka_unit_test(wide_special_sources),
        cmocka_unit_test(allocations_of_a_code_object),    cmocka_unit_test(allocations_of_a_compressed_bundle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
