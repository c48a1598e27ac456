/* Launches that run on the thread that launches them: workgroups that wait for each other, and ones that take longer than
 * was expected. */
#include "exec/launch.h"
#include "exec/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* Lane 0 adds 1 to the counter that the first argument points at, and waits until it has reached the second. */
static const uint32_t meet[] = {
    0xf4040100, 0xf8000000, 0xf4000180, 0xf8000008, 0xbefe0081, 0x7e000280, 0x7e020281, 0xbf89fc07,
    0xdcd60000, 0x00040100, 0xdc524000, 0x02040000, 0xbf8903f7, 0x7e0e0502, 0xbf0a0607, 0xbfa2fffa,
    0xbfb00000,
};
/* Counts down from 0x40000. */
static const uint32_t count_down[] = {
    0xbe8400ff, 0x00040000, 0x81848104, 0xbf078004, 0xbfa2fffd, 0xbfb00000,
};

static sim_space *space;
static const sim_board *board;

static sim_program *bind(const uint32_t *words, size_t n_bytes) {
    och_err e = {0};
    sim_program *p;
    if (sim_program_create(SIM_GFX1100, 32, (const uint8_t *)words, n_bytes, 0x1000, 0, NULL, 0, &p, &e) != OCH_OK)
        fail_msg("%s", e.message);
    return p;
}
static uint64_t launch(sim_program *p, uint32_t groups, uint64_t args) {
    och_err e = {0};
    uint64_t n = 0;
    const sim_kernel k = {.name = "k", .program = p, .wave_size = 32, .rsrc2 = 2 << 1, .properties = 1 << 3, .n_vgprs = 8};
    const sim_launch l = {.kernel = &k, .isa = SIM_GFX1100, .board = board, .space = space, .grid = {groups, 1, 1},
                          .block = {32, 1, 1}, .grid_items = {(uint64_t)groups * 32, 1, 1}, .kernarg_addr = args};
    if (sim_launch_run(&l, &n, &e) != OCH_OK) fail_msg("%s", e.message);
    return n;
}
static void expect_ns(sim_program *p, uint32_t ns) { atomic_store(sim_program_group_ns(p), ns); }

static void groups_that_wait(void **unused) {
    (void)unused;
    och_err e = {0};
    uint64_t counter, args;
    assert_int_equal(sim_space_alloc(space, 4, 256, SIM_MEM_DEVICE, 0, true, &counter, &e), OCH_OK);
    assert_int_equal(sim_space_alloc(space, 16, 256, SIM_MEM_KERNARG, 0, true, &args, &e), OCH_OK);
    uint32_t *at = sim_space_host(space, counter, 4);
    sim_program *p = bind(meet, sizeof meet);
    for (int round = 0; round < 40; round++) {
        const uint32_t groups = 1 + (uint32_t)round % 5;
        const uint64_t n = groups;
        *at = 0;
        memcpy(sim_space_host(space, args, 16), &counter, 8);
        memcpy((uint8_t *)sim_space_host(space, args, 16) + 8, &n, 8);
        expect_ns(p, round & 1 ? 1 : 0); /* the launcher's own, or the workers' */
        (void)launch(p, groups, args);
        assert_int_equal(*at, groups);
    }
    sim_program_destroy(p);
}

static void longer_than_expected(void **unused) {
    (void)unused;
    sim_program *p = bind(count_down, sizeof count_down);
    for (int round = 0; round < 4; round++) {
        const uint32_t groups = round < 2 ? 1 : 24;
        expect_ns(p, round & 1);
        assert_int_equal(launch(p, groups, 0), groups * (2 + 3 * 0x40000ull));
        assert_true(atomic_load(sim_program_group_ns(p)) > 1000); /* is known now */
    }
    sim_program_destroy(p);
}

int main(void) {
    och_err e = {0};
    if (sim_board_find("gfx1100", &board, &e) != OCH_OK || sim_space_create(&space, &e) != OCH_OK) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_that_wait),
        cmocka_unit_test(longer_than_expected),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    sim_space_destroy(space);
    return rc;
}
