/* What the simulator tells: reports of faults, and that a long launch goes on. */
#include "exec/launch.h"
#include "exec/pool.h"
#include "exec/program.h"
#include "exec/run.h"
#include "exec/title.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static sim_space *space;
static sim_wave *wave;

static const char *report(sim_fault_kind kind, uint64_t addr, const char *what) {
    static char text[2048];
    wave->fault = (sim_fault){.kind = (uint8_t)kind, .lane = 3, .size_bytes = 4, .addr = addr, .what = what};
    sim_fault_describe(wave, "k", space, text, sizeof text);
    return text;
}
static void says(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("expected \"%s\" in: %s", part, text);
}
static void says_not(const char *text, const char *part) {
    if (strstr(text, part)) fail_msg("\"%s\" in: %s", part, text);
}
static uint64_t alloc(uint64_t n, sim_mem_kind kind) {
    och_err e = {0};
    uint64_t addr;
    assert_int_equal(sim_space_alloc(space, n, 256, kind, 0, true, &addr, &e), OCH_OK);
    return addr;
}

static void places(void **state) {
    (void)state;
    says(report(SIM_FAULT_MEMORY, 1 << 20, NULL), "no allocation of data at all");
    const uint64_t below = alloc(1000, SIM_MEM_DEVICE), code = alloc(4096, SIM_MEM_CODE), args = alloc(64, SIM_MEM_KERNARG);
    const uint64_t above = alloc(2000, SIM_MEM_DEVICE);
    assert_true(below < code && code < args && args < above);
    /* between the code and the arguments: neither is what a kernel's pointer was to point into */
    const char *t = report(SIM_FAULT_MEMORY, code + 4096 + 8, NULL);
    char wanted[128];
    snprintf(wanted, sizeof wanted, "; below: device allocation #1 of 1000 bytes [0x%llx, ", (unsigned long long)below);
    says(t, wanted);
    snprintf(wanted, sizeof wanted, "), %llu bytes past its end; above: device allocation #4 of 2000 bytes [",
             (unsigned long long)(code + 4096 + 8 - below - 1000));
    says(t, wanted);
    snprintf(wanted, sizeof wanted, "), %llu bytes before it", (unsigned long long)(above - code - 4096 - 8));
    says(t, wanted);
    says_not(t, "code allocation");
    /* one side */
    says_not(report(SIM_FAULT_MEMORY, above + 2000, NULL), "above");
    says(report(SIM_FAULT_MEMORY, above + 2000, NULL), "; below: device allocation #4 of 2000 bytes");
    /* inside, code too */
    says(report(SIM_FAULT_READONLY, code + 12, NULL), "; inside code allocation #2 of 4096 bytes");
    says(report(SIM_FAULT_READONLY, code + 12, NULL), "at byte 12");
    och_err e = {0};
    assert_int_equal(sim_space_free(space, below, &e), OCH_OK);
    says(report(SIM_FAULT_FREED, below + 16, NULL), "; inside freed device allocation #1 of 1000 bytes");
    says(report(SIM_FAULT_MEMORY, code + 4096 + 8, NULL), "; below: freed device allocation #1");
}

static void pointers_of_no_allocation(void **state) {
    (void)state;
    int local = 0;
    says(report(SIM_FAULT_MEMORY, 0, NULL), "; a null pointer");
    says_not(report(SIM_FAULT_MEMORY, 0, NULL), "null pointer and");
    says(report(SIM_FAULT_MEMORY, 40, NULL), "; a null pointer and 40 bytes");
    says(report(SIM_FAULT_MEMORY, (uint64_t)(uintptr_t)&local, NULL), "; memory of the host that is neither pinned");
    says_not(report(SIM_FAULT_MEMORY, 0xdead00000000ull, NULL), "memory of the host");
}

static void lds_is_named(void **state) {
    (void)state;
    says(report(SIM_FAULT_LDS, 256, "outside"), "read of 4 bytes at LDS address 0x100; the workgroup has ");
    says(report(SIM_FAULT_RACE, 8, "in LDS, not ordered"), "at LDS address 0x8; in LDS, not ordered");
    says_not(report(SIM_FAULT_RACE, 8, "in global memory, not ordered"), "LDS");
}

static void names(void **state) {
    (void)state;
    char text[64];
    assert_string_equal(sim_kernel_title("plain", text, sizeof text), "plain");
    if (!dlopen("libstdc++.so.6", RTLD_NOW | RTLD_GLOBAL)) skip();
    assert_string_equal(sim_kernel_title("_Z5saxpyfPKfPfi", text, sizeof text), "saxpy(float, float const*, float*, int)");
    assert_string_equal(sim_kernel_title("_Znonsense", text, sizeof text), "_Znonsense");
    assert_string_equal(sim_kernel_title("plain", text, sizeof text), "plain");
    assert_string_equal(sim_kernel_title("_Z5saxpyfPKfPfi", text, 6), "saxpy");
}

/* Runs a kernel that counts down from 2^23, and gives what it writes on stderr. */
static void count_down(double after, char *said, size_t n) {
    static const uint32_t words[] = {0xbe8400ff, 0x00800000, 0x81848104, 0xbf078004, 0xbfa2fffd, 0xbfb00000};
    och_err e = {0};
    const sim_board *board;
    sim_program *p;
    assert_int_equal(sim_board_find("gfx1100", &board, &e), OCH_OK);
    assert_int_equal(sim_program_create(SIM_GFX1100, 32, (const uint8_t *)words, sizeof words, 0x1000, 0, NULL, 0, &p, &e), OCH_OK);
    const sim_kernel k = {.name = "k", .program = p, .wave_size = 32, .rsrc2 = 2 << 1, .n_vgprs = 8};
    const sim_launch l = {.kernel = &k, .isa = SIM_GFX1100, .board = board, .space = space, .grid = {2, 1, 1}, .block = {32, 1, 1},
                          .grid_items = {64, 1, 1}};
    FILE *f = tmpfile();
    const int old = dup(2);
    assert_true(f && old >= 0);
    uint64_t executed = 0;
    fflush(stderr);
    dup2(fileno(f), 2);
    sim_pool_sign_after(after);
    och_status st = sim_launch_run(&l, &executed, &e);
    dup2(old, 2);
    close(old);
    sim_pool_sign_after(10);
    rewind(f);
    said[fread(said, 1, n - 1, f)] = 0;
    fclose(f);
    sim_program_destroy(p);
    assert_int_equal(st, OCH_OK);
    assert_int_equal(executed, 2 * (2 + 3ull * 0x800000)); /* none is counted twice */
}
static void signs_of_life(void **state) {
    (void)state;
    char said[4096];
    count_down(0, said, sizeof said);
    says(said, "ochre-sim: k has run for "); /* 0 s, unless the machine is busy */
    says(said, " of 2 workgroups ended, ");
    count_down(3600, said, sizeof said);
    assert_string_equal(said, "");
}

int main(void) {
    och_err e = {0};
    if (sim_space_create(&space, &e) != OCH_OK || sim_wave_create(SIM_GFX1100, 32, 8, 0, 0, space, &wave, &e) != OCH_OK) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(places), cmocka_unit_test(pointers_of_no_allocation),
                                       cmocka_unit_test(lds_is_named), cmocka_unit_test(names), cmocka_unit_test(signs_of_life)};
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    sim_wave_destroy(wave);
    sim_space_destroy(space);
    return rc;
}
