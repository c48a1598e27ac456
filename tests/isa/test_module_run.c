/* Kernels of tests/golden/obj from file to result: loaded, their arguments laid out, launched, and compared with what C
 * says of kernels.hip. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "load/module.h"
#include "unit/obj_file.h"

#include <string.h>

static sim_space *space;
static const sim_board *board;
static sim_module *module;

static void open_module(const char *file, const char *key) {
    och_err e = {0};
    obj_file f = obj_file_read(file);
    if (sim_board_find(key, &board, &e) != OCH_OK) fail_msg("%s", e.message);
    if (sim_module_load(space, board, 0, f.bytes, f.n_bytes, &module, &e) != OCH_OK) fail_msg("%s", e.message);
    obj_file_free(&f);
}

static uint64_t device(uint64_t bytes) {
    uint64_t addr;
    och_err e = {0};
    if (sim_space_alloc(space, bytes, 256, SIM_MEM_DEVICE, 0, false, &addr, &e) != OCH_OK) fail_msg("%s", e.message);
    return addr;
}
static void *host(uint64_t addr, uint64_t bytes) {
    void *p = sim_space_host(space, addr, bytes);
    assert_non_null(p);
    return p;
}
static void release(uint64_t addr) { assert_int_equal(sim_space_free(space, addr, NULL), OCH_OK); }

static void run(const char *name, void **args, uint32_t grid, uint32_t block) {
    const sim_kernel *k;
    och_err e = {0};
    if (sim_module_kernel(module, name, &k, &e) != OCH_OK) fail_msg("%s: %s", board->key, e.message);
    sim_launch l = {.kernel = k,
                    .isa = board->isa,
                    .board = board,
                    .space = space,
                    .grid = {grid, 1, 1},
                    .block = {block, 1, 1},
                    .grid_items = {(uint64_t)grid * block, 1, 1}};
    l.kernarg_addr = device(4096);
    /* Code object version 4 takes the workgroup's size from the dispatch packet (HSA: u16 at byte 4). */
    l.dispatch_ptr = device(64);
    uint8_t *packet = host(l.dispatch_ptr, 64);
    packet[4] = (uint8_t)block;
    packet[5] = (uint8_t)(block >> 8);
    packet[6] = packet[8] = 1;
    void *kernarg = host(l.kernarg_addr, 4096);
    if (sim_module_fill_args(module, k, &l, NULL, args, NULL, 0, kernarg, &e) != OCH_OK) fail_msg("%s", e.message);
    if (sim_launch_run(&l, NULL, &e) != OCH_OK) fail_msg("%s on %s: %s", name, board->key, e.message);
    release(l.kernarg_addr);
    release(l.dispatch_ptr);
}

static void axpy(void) {
    enum { N = 1000, ROOM = 1024 };
    uint64_t x = device(ROOM * 4), y = device(ROOM * 4);
    float *hx = host(x, ROOM * 4), *hy = host(y, ROOM * 4), a = 3;
    for (int i = 0; i < ROOM; i++) hx[i] = (float)i, hy[i] = (float)(i % 7);
    int n = N;
    run("axpy", (void *[]){&a, &x, &y, &n}, 4, 256);
    for (int i = 0; i < ROOM; i++) assert_true(hy[i] == (float)(i % 7) + (i < N ? 3.0f * (float)i : 0));
    release(x);
    release(y);
}

static void rotate(void) {
    struct {
        int16_t a;
        double b;
    } p = {-300, 5000.75};
    int8_t c = -5;
    uint64_t o = device(64 * 4);
    int32_t *ho = host(o, 64 * 4);
    run("rotate", (void *[]){&p, &o, &c}, 1, 64);
    for (int i = 0; i < 64; i++) assert_int_equal(ho[i], 7 + ((i + 1) & 3) + 1 - 300 - 5 + 5000);
    release(o);
}

static void every_target(void **s) {
    (void)s;
    static const char *const files[][2] = {{"bundle-v3.ccob", "gfx906"},
                                           {"v4-gfx90a.co", "gfx90a"},
                                           {"v4-gfx1030-clang14.co", "gfx1030"},
                                           {"v5-gfx1100.co", "gfx1100"},
                                           {"v6-gfx1151-wave64.co", "gfx1151"}};
    for (size_t i = 0; i < 5; i++) {
        open_module(files[i][0], files[i][1]);
        axpy();
        rotate();
        sim_module_unload(module);
    }
}

/* Functions that only a table of pointers leads to, in memory that a relocation filled. */
static void calls_through_pointers(void **s) {
    (void)s;
    static const char *const files[][2] = {{"v5-gfx1100.co", "gfx1100"}, {"v4-gfx1030-clang14.co", "gfx1030"}};
    for (size_t i = 0; i < 2; i++) {
        open_module(files[i][0], files[i][1]);
        uint64_t o = device(4);
        int32_t *ho = host(o, 4);
        for (int which = 0; which < 2; which++) {
            *ho = 1234;
            run("dispatch", (void *[]){&o, &which}, 1, 1);
            assert_int_equal(*ho, which ? 1234 * 3 + 3 /* table[1234 & 3] */ : 1234 * 2 + 7);
        }
        release(o);
        sim_module_unload(module);
    }
}

/* A variable that the host writes is what the kernel reads. */
static void variables_are_shared(void **s) {
    (void)s;
    open_module("v6-gfx1151-wave64.co", "gfx1151");
    uint64_t addr, size;
    assert_int_equal(sim_module_global(module, "counter", &addr, &size, NULL), OCH_OK);
    *(int32_t *)host(addr, 4) = 100;
    struct {
        int16_t a;
        double b;
    } p = {0, 0};
    int8_t c = 0;
    uint64_t o = device(64 * 4);
    int32_t *ho = host(o, 64 * 4);
    run("rotate", (void *[]){&p, &o, &c}, 1, 64);
    assert_int_equal(ho[0], 100 + 2);
    release(o);
    sim_module_unload(module);
}

/* v_mfma_f32_32x32x2_f32, eight times: A is [32][2] a step with row lane % 32, column lane / 32; B the transpose; register r
 * of lane l of the result is row r / 4 * 8 + l / 32 * 4 + r % 4, column l % 32 (CDNA2 manual, matrix layouts). */
static void accumulation_registers(void **s) {
    (void)s;
    enum { STEPS = 8, LANES = 64 };
    open_module("v4-gfx90a.co", "gfx90a");
    uint64_t a = device(STEPS * LANES * 4), b = device(STEPS * LANES * 4), c = device(LANES * 64);
    float *ha = host(a, STEPS * LANES * 4), *hb = host(b, STEPS * LANES * 4), *hc = host(c, LANES * 64);
    for (int i = 0; i < STEPS * LANES; i++) ha[i] = (float)(i % 11 - 5), hb[i] = (float)(i % 13 - 6);
    for (int i = 0; i < LANES * 16; i++) hc[i] = (float)(i % 17);
    run("product", (void *[]){&a, &b, &c}, 1, LANES);
    for (int l = 0; l < LANES; l++)
        for (int r = 0; r < 16; r++) {
            int row = r / 4 * 8 + l / 32 * 4 + r % 4, col = l % 32;
            float want = (float)((l * 16 + r) % 17);
            for (int k = 0; k < STEPS; k++)
                for (int j = 0; j < 2; j++) want += ha[k * LANES + j * 32 + row] * hb[k * LANES + j * 32 + col];
            if (hc[l * 16 + r] != want) fail_msg("lane %d register %d: expected %g, found %g", l, r, want, hc[l * 16 + r]);
        }
    release(a);
    release(b);
    release(c);
    sim_module_unload(module);
}

static int set_up(void **s) {
    (void)s;
    return sim_space_create(&space, NULL) == OCH_OK ? 0 : -1;
}
static int tear_down(void **s) {
    (void)s;
    sim_space_destroy(space);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_target),
        cmocka_unit_test(calls_through_pointers),
        cmocka_unit_test(variables_are_shared),
        cmocka_unit_test(accumulation_registers),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
