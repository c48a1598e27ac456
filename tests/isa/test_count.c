/* Counters of a launch: what is an instruction, and the floor of the traffic. */
#include "exec/count.h"
#include "exec/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* gfx1100. The branch that is not taken goes into the literal of the instruction after it, which is one itself: the layout
 * needs a link from that instruction over the literal to the end. */
static const uint32_t jump_into_literal[] = {
    0xbf078000, /* s_cmp_lg_u32 s0, 0 with s0 below: not equal, scc 1 */
    0xbfa10001, /* s_cbranch_scc0, to the literal */
    0xbe8200ff, /* s_mov_b32 s2, literal */
    0x7e020302, /* the literal: v_mov_b32 v1, v2 */
    0xbfb00000, /* s_endpgm */
};

static void run_counted(const uint32_t *words, size_t n_bytes, const char *json_path) {
    och_err e = {0};
    sim_space *space;
    const sim_board *board;
    sim_program *program;
    uint64_t code, args;
    assert_int_equal(sim_space_create(&space, &e), OCH_OK);
    assert_int_equal(sim_board_find("gfx1100", &board, &e), OCH_OK);
    assert_int_equal(sim_space_alloc(space, n_bytes, 256, SIM_MEM_CODE, 0, true, &code, &e), OCH_OK);
    assert_int_equal(sim_space_alloc(space, 64, 256, SIM_MEM_KERNARG, 0, true, &args, &e), OCH_OK);
    if (sim_program_create(SIM_GFX1100, 32, (const uint8_t *)words, n_bytes, code, 0, NULL, 0, &program, &e) != OCH_OK)
        fail_msg("%s", e.message);
    memcpy(sim_space_host(space, code, n_bytes), words, n_bytes);
    sim_kernel k = {.name = "k", .program = program, .wave_size = 32, .rsrc2 = 2u << 1, .properties = 1u << 3 | 1u << 10,
                    .n_vgprs = 16, .max_flat_workgroup_size = 1024};
    sim_launch l = {.kernel = &k, .isa = SIM_GFX1100, .board = board, .space = space, .grid = {1, 1, 1}, .block = {32, 1, 1},
                    .grid_items = {32, 1, 1}, .kernarg_addr = args};
    setenv("OCHRE_SIM_COUNT", json_path, 1);
    och_status st = sim_launch_run(&l, NULL, &e);
    unsetenv("OCHRE_SIM_COUNT");
    if (st != OCH_OK) fail_msg("%s", e.message);
    sim_program_destroy(program);
    sim_space_destroy(space);
}

static void links_are_no_instructions(void **state) {
    (void)state;
    char path[] = "/tmp/ochre-count-XXXXXX", text[4096] = "";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    run_counted(jump_into_literal, sizeof jump_into_literal, path);
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    unlink(path);
    assert_true(n > 0);
    assert_non_null(strstr(text, "\"salu\": 2,"));
    assert_non_null(strstr(text, "\"branch\": 1,"));
    assert_non_null(strstr(text, "\"valu\": 0,"));
    assert_null(strstr(text, "floor"));
}

static void a_floor_counts_each_byte_once(void **state) {
    (void)state;
    och_err e = {0};
    sim_floor f;
    assert_int_equal(sim_floor_of(NULL, 0, &f, &e), OCH_OK);
    assert_true(f.read == 0 && f.written == 0 && f.either == 0);
    const sim_buffer b[] = {
        {.addr = 1000, .n_bytes = 100, .written = true},             /* [1000, 1100) */
        {.addr = 100, .n_bytes = 50, .read = true},                  /* [100, 150) */
        {.addr = 120, .n_bytes = 100, .read = true},                 /* [120, 220): 30 of them twice */
        {.addr = 130, .n_bytes = 5, .read = true},                   /* inside */
        {.addr = 200, .n_bytes = 100, .read = true, .written = true} /* [200, 300): 20 of them read already */
    };
    assert_int_equal(sim_floor_of(b, sizeof b / sizeof *b, &f, &e), OCH_OK);
    assert_int_equal(f.read, 200);    /* [100, 300) */
    assert_int_equal(f.written, 200); /* [200, 300), [1000, 1100) */
    assert_int_equal(f.either, 300);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(links_are_no_instructions),
                                       cmocka_unit_test(a_floor_counts_each_byte_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
