/* Each check of the witness is shown by a kernel that commits the crime, and by a clean twin that is not accused: the kernels
 * are tests/isa/crimes, built for three targets that differ in waves, caches and stores. */
#include "base/alloc.h"
#include "load/module.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h wants those above */
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUT_WORDS 4096

static const char *const boards[] = {"gfx1100", "gfx942", "gfx1201"};

typedef struct run {
    const char *file, *kernel, *checks; /* checks: OCHRE_SIM_CHECK; NULL: none */
    uint32_t grid, block;
    uint64_t arg;                       /* the second argument */
    uint32_t dynamic_lds;
    uint64_t out_words;                 /* 0: OUT_WORDS */
    bool free_first;
    const char *board;                  /* set by the caller */
} run;

typedef struct result {
    och_status status;
    int fault;
    char message[OCH_ERR_MESSAGE_BYTES];
    uint32_t out[OUT_WORDS];
} result;

static uint8_t *read_file(const char *path, size_t *out_n) {
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("cannot open %s", path);
    fseek(f, 0, SEEK_END);
    *out_n = (size_t)ftell(f);
    rewind(f);
    uint8_t *p = och_malloc(*out_n);
    assert_non_null(p);
    assert_int_equal(fread(p, 1, *out_n, f), *out_n);
    fclose(f);
    return p;
}

static void env(const char *name, const char *value) {
    if (value) setenv(name, value, 1);
    else unsetenv(name);
}

static void launch(const run *r, result *out) {
    char path[512];
    och_err e = {0};
    const sim_board *board;
    sim_space *space;
    sim_module *m;
    const sim_kernel *k = NULL;
    memset(out, 0, sizeof *out);
    snprintf(path, sizeof path, "%s/tests/golden/sim/crimes/%s-%s.hsaco", OCHRE_SOURCE_DIR, r->file, r->board);
    size_t n;
    uint8_t *image = read_file(path, &n);
    assert_int_equal(sim_board_find(r->board, &board, &e), OCH_OK);
    assert_int_equal(sim_space_create(&space, &e), OCH_OK);
    if (sim_module_load(space, board, 0, image, n, &m, &e) != OCH_OK) fail_msg("%s: %s", path, e.message);
    if (sim_module_kernel(m, r->kernel, &k, &e) != OCH_OK) fail_msg("%s on %s: %s", r->kernel, r->board, e.message);
    uint64_t buf, args_addr, words = r->out_words ? r->out_words : OUT_WORDS, arg = r->arg;
    assert_int_equal(sim_space_alloc(space, words * 4, 256, SIM_MEM_DEVICE, 0, true, &buf, &e), OCH_OK);
    memset(sim_space_host(space, buf, words * 4), 0, words * 4);
    sim_launch l = {.kernel = k, .isa = board->isa, .board = board, .space = space, .grid = {r->grid, 1, 1},
                    .block = {r->block, 1, 1}, .grid_items = {(uint64_t)r->grid * r->block, 1, 1},
                    .dynamic_lds_bytes = r->dynamic_lds};
    uint32_t arg_bytes = sim_module_kernel_info(m, k)->kernarg_bytes;
    assert_int_equal(sim_space_alloc(space, arg_bytes ? arg_bytes : 16, 256, SIM_MEM_KERNARG, 0, true, &args_addr, &e), OCH_OK);
    l.kernarg_addr = args_addr;
    void *args[2] = {&buf, &arg};
    const sim_hidden hidden = {.dynamic_lds_bytes = r->dynamic_lds};
    assert_int_equal(sim_module_fill_args(m, k, &l, &hidden, args, NULL, 0, sim_space_host(space, args_addr, arg_bytes), &e), OCH_OK);
    if (r->free_first) assert_int_equal(sim_space_free(space, buf, &e), OCH_OK);
    env("OCHRE_SIM_CHECK", r->checks);
    /* Without a check workgroups run on several threads, and spin as long as the host keeps the one they wait for from running. */
    const bool endless = !strcmp(r->kernel, "infinite_loop") || !strcmp(r->kernel, "deadlock"); /* one workgroup each */
    env("OCHRE_SIM_BUDGET", r->checks || endless ? "200000" : "400000000");
    och_err failed = {0};
    out->status = sim_launch_run(&l, NULL, &failed);
    env("OCHRE_SIM_CHECK", NULL);
    out->fault = failed.native_code;
    snprintf(out->message, sizeof out->message, "%s", failed.message);
    if (!r->free_first) memcpy(out->out, sim_space_host(space, buf, words * 4), (words < OUT_WORDS ? words : OUT_WORDS) * 4);
    if (getenv("OCHRE_TEST_VERBOSE")) printf("  %s on %s: %s\n", r->kernel, r->board, *failed.message ? failed.message : "runs");
    sim_module_unload(m);
    sim_space_destroy(space);
    och_free(image);
}

/* Every check that is not weak: a clean kernel is accused by none. Weak changes results of wrong kernels alone. */
static void clean(run r, void (*right)(const run *r, const result *got)) {
    static const char *const checks[] = {NULL, "all", "uninit", "race", "weak", "barrier"};
    for (size_t b = 0; b < sizeof boards / sizeof *boards; b++)
        for (size_t c = 0; c < sizeof checks / sizeof *checks; c++) {
            result got;
            r.board = boards[b];
            r.checks = checks[c];
            launch(&r, &got);
            if (got.status != OCH_OK)
                fail_msg("%s on %s is accused (OCHRE_SIM_CHECK=%s): %s", r.kernel, r.board, checks[c] ? checks[c] : "", got.message);
            if (right) right(&r, &got);
        }
}

/* Each of `parts` (separated by |) must be in the message. */
static void crime(run r, och_status status, int fault, const char *parts) {
    for (size_t b = 0; b < sizeof boards / sizeof *boards; b++) {
        result got;
        r.board = boards[b];
        launch(&r, &got);
        if (got.status != status) fail_msg("%s on %s: status %d, expected %d: %s", r.kernel, r.board, got.status, status, got.message);
        if (fault && got.fault != fault) fail_msg("%s on %s: fault %d, expected %d: %s", r.kernel, r.board, got.fault, fault, got.message);
        char copy[256];
        snprintf(copy, sizeof copy, "%s", parts);
        for (char *p = strtok(copy, "|"); p; p = strtok(NULL, "|"))
            if (!strstr(got.message, p)) fail_msg("%s on %s: expected \"%s\" in: %s", r.kernel, r.board, p, got.message);
    }
}

#define OF(f, k, c, g, b, ...) ((run){.file = f, .kernel = k, .checks = c, .grid = g, .block = b, __VA_ARGS__})

static void global_out_of_bounds(void **s) {
    (void)s;
    crime(OF("memory", "global_out_of_bounds", NULL, 1, 64, .out_words = 64), OCH_DEVICE, SIM_FAULT_MEMORY,
          "global_out_of_bounds|global_store|lane |write of 4 bytes|of 256 bytes|0 bytes past its end");
    clean(OF("memory", "global_out_of_bounds_clean", NULL, 1, 64, .out_words = 64), NULL);
}
static void lds_out_of_bounds(void **s) {
    (void)s;
    crime(OF("memory", "lds_out_of_bounds", NULL, 1, 64), OCH_DEVICE, SIM_FAULT_LDS, "ds_|the workgroup has 256 bytes");
    clean(OF("memory", "lds_out_of_bounds_clean", NULL, 1, 64), NULL);
}
static void use_after_free(void **s) {
    (void)s;
    crime(OF("memory", "use_after_free", NULL, 1, 64, .free_first = true), OCH_DEVICE, SIM_FAULT_FREED,
          "freed|lane 0|inside freed device allocation");
    clean(OF("memory", "use_after_free_clean", NULL, 1, 64), NULL);
}
static void misaligned_atomic(void **s) {
    (void)s;
    crime(OF("memory", "misaligned_atomic", NULL, 1, 64), OCH_DEVICE, SIM_FAULT_MISALIGNED, "atomic_add|alignment");
    clean(OF("memory", "misaligned_atomic_clean", NULL, 1, 64), NULL);
}
static void write_to_code(void **s) {
    (void)s;
    crime(OF("memory", "write_to_code", NULL, 1, 64), OCH_DEVICE, SIM_FAULT_READONLY, "read-only|code allocation");
    clean(OF("memory", "write_to_code_clean", NULL, 1, 64), NULL);
}
static void scratch_overflow(void **s) {
    (void)s;
    crime(OF("memory", "scratch_overflow", NULL, 1, 64, .arg = 1), OCH_DEVICE, SIM_FAULT_SCRATCH, "a lane has ");
    clean(OF("memory", "scratch_overflow_clean", NULL, 1, 64, .arg = 1), NULL);
}

static void barrier_not_reached(void **s) {
    (void)s;
    crime(OF("progress", "barrier_not_reached", "barrier", 1, 128), OCH_DEVICE, SIM_FAULT_DEADLOCK, "barrier");
    clean(OF("progress", "barrier_not_reached_clean", NULL, 1, 128), NULL);
}
static void deadlock(void **s) {
    (void)s;
    crime(OF("progress", "deadlock", NULL, 1, 128), OCH_DEVICE, SIM_FAULT_BUDGET, "waves of workgroup (0, 0, 0)|: 0 waits at the barrier, 0x|s_barrier");
    clean(OF("progress", "deadlock_clean", NULL, 1, 128), NULL);
}
static void infinite_loop(void **s) {
    (void)s;
    crime(OF("progress", "infinite_loop", NULL, 1, 64), OCH_DEVICE, SIM_FAULT_BUDGET, "budget");
    clean(OF("progress", "infinite_loop_clean", NULL, 1, 64), NULL);
}
static void trap(void **s) {
    (void)s;
    crime(OF("progress", "trap", NULL, 1, 64), OCH_DEVICE, SIM_FAULT_TRAP, "s_trap");
    clean(OF("progress", "trap_clean", NULL, 1, 64), NULL);
}
static void jump_off_code(void **s) {
    (void)s;
    crime(OF("progress", "jump_off_code", NULL, 1, 64, .arg = 0x123400), OCH_DEVICE, SIM_FAULT_PC, "0x123400");
    clean(OF("progress", "jump_off_code_clean", NULL, 1, 64), NULL);
}

static void too_many_threads(void **s) {
    (void)s;
    crime(OF("limits", "too_many_threads", NULL, 1, 65), OCH_INVALID, 0, "65|launch bounds");
    crime(OF("limits", "too_many_threads", NULL, 1, 2048), OCH_INVALID, 0, "2048");
    clean(OF("limits", "too_many_threads", NULL, 1, 64), NULL);
}
static void too_much_lds(void **s) {
    (void)s;
    crime(OF("limits", "too_much_lds", NULL, 1, 64, .dynamic_lds = 65537), OCH_RANGE, 0, "65537|65536");
    clean(OF("limits", "too_much_lds", NULL, 1, 64, .dynamic_lds = 256), NULL);
}
static void too_many_registers(void **s) {
    (void)s;
    crime(OF("registers", "too_many_registers", NULL, 1, 1024), OCH_RANGE, 0, "256 registers");
    clean(OF("registers", "too_many_registers", NULL, 1, 256), NULL);
    crime(OF("registers", "register_not_allocated", NULL, 1, 64), OCH_CORRUPT, 0, "v40|allocates");
}
static void wrong_target(void **s) {
    (void)s;
    char path[512];
    och_err e = {0};
    const sim_board *board;
    sim_space *space;
    sim_module *m;
    size_t n;
    snprintf(path, sizeof path, "%s/tests/golden/sim/crimes/limits-gfx1201.hsaco", OCHRE_SOURCE_DIR);
    uint8_t *image = read_file(path, &n);
    assert_int_equal(sim_board_find("gfx1100", &board, &e), OCH_OK);
    assert_int_equal(sim_space_create(&space, &e), OCH_OK);
    assert_int_equal(sim_module_load(space, board, 0, image, n, &m, &e), OCH_UNSUPPORTED);
    assert_non_null(strstr(e.message, "gfx1100"));
    assert_non_null(strstr(e.message, "gfx1201"));
    sim_space_destroy(space);
    och_free(image);
}

static void uninit(void **s) {
    (void)s;
    crime(OF("uninit", "uninit_register", "uninit", 1, 64), OCH_DEVICE, SIM_FAULT_UNINITIALIZED,
          "global_store|the value stored comes from v|v40|a register that nothing has written");
    crime(OF("uninit", "uninit_address", "uninit", 1, 64), OCH_DEVICE, SIM_FAULT_UNINITIALIZED, "the address comes from v|v40");
    crime(OF("uninit", "uninit_branch", "uninit", 1, 64), OCH_DEVICE, SIM_FAULT_UNINITIALIZED, "v40");
    crime(OF("uninit", "uninit_scalar_branch", "uninit", 1, 64), OCH_DEVICE, SIM_FAULT_UNINITIALIZED, "branch|s40");
    crime(OF("uninit", "uninit_lds", "uninit", 1, 64), OCH_DEVICE, SIM_FAULT_UNINITIALIZED,
          "global_store|ds_|LDS that nothing has written");
    crime(OF("uninit", "uninit_scratch", "uninit", 1, 64, .arg = 3), OCH_DEVICE, SIM_FAULT_UNINITIALIZED,
          "global_store|scratch that nothing has written");
    crime(OF("uninit", "uninit_select", "uninit", 1, 64), OCH_DEVICE, SIM_FAULT_UNINITIALIZED, "global_store|v40");
    crime(OF("uninit", "uninit_masked", "uninit", 1, 64), OCH_DEVICE, SIM_FAULT_UNINITIALIZED, "branch|s40");
    crime(OF("uninit", "uninit_exchanged", "uninit", 1, 64), OCH_DEVICE, SIM_FAULT_UNINITIALIZED, "global_store");
    static const char *const good[] = {"uninit_register_clean", "uninit_address_clean", "uninit_branch_clean",
                                       "uninit_scalar_branch_clean", "uninit_lds_clean", "uninit_scratch_clean",
                                       "uninit_harmless_clean", "uninit_padding_clean", "uninit_select_clean",
                                       "uninit_masked_clean", "uninit_exchanged_clean"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) clean(OF("uninit", good[i], NULL, 1, 64, .arg = 3), NULL);
}

/* What out[0] and the rest must be. */
static uint32_t last_block_sum(const run *r) { return r->grid * (r->grid + 1) / 2; }
static bool last_block_right(const run *r, const result *got) { return got->out[0] == last_block_sum(r); }
static bool wide_right(const run *r, const result *got) {
    uint32_t sum = 0;
    for (uint32_t g = 0; g < r->grid; g++)
        for (uint32_t t = 0; t < r->block; t++) sum += g + t;
    return got->out[0] == sum;
}
static bool flag_right(const run *r, const result *got) { return (void)r, got->out[0] == 42; }
static bool neighbours_right(const run *r, const result *got) {
    for (uint32_t g = 0; g < r->grid; g++)
        for (uint32_t t = 0; t < r->block; t++)
            if (got->out[2 + (r->grid + g) * r->block + t] != (g + 2) % r->grid * r->block + t) return false;
    return true;
}
static void must(const run *r, const result *got, bool right) {
    if (!right) fail_msg("%s on %s computes something else (OCHRE_SIM_CHECK=%s): %u", r->kernel, r->board, r->checks ? r->checks : "",
                         got->out[0]);
}
static void last_block_must(const run *r, const result *got) { must(r, got, last_block_right(r, got)); }
static void wide_must(const run *r, const result *got) { must(r, got, wide_right(r, got)); }
static void flag_must(const run *r, const result *got) { must(r, got, flag_right(r, got)); }
static void neighbours_must(const run *r, const result *got) { must(r, got, neighbours_right(r, got)); }

static void race_lds(void **s) {
    (void)s;
    crime(OF("race", "race_lds", "race", 1, 128), OCH_DEVICE, SIM_FAULT_RACE, "ds_|no barrier between them|of workgroup (0, 0, 0), wave ");
    crime(OF("race", "race_lds_flat", "race", 1, 128), OCH_DEVICE, SIM_FAULT_RACE, "flat_|no barrier between them");
    crime(OF("race", "race_lds_reuse", "race", 1, 128), OCH_DEVICE, SIM_FAULT_RACE, "ds_|no barrier between them");
    clean(OF("race", "race_lds_clean", NULL, 1, 128), NULL);
    clean(OF("race", "race_lds_atomic_clean", NULL, 1, 128), NULL);
    clean(OF("race", "race_lds_flag_clean", NULL, 1, 128), NULL);
}
static void race_lds_unoptimised(void **s) {
    (void)s;
    crime(OF("race_o0", "race_o0_sum", "race", 1, 128), OCH_DEVICE, SIM_FAULT_RACE, "no barrier between them");
    crime(OF("race_o0", "race_o0_reuse", "race", 1, 128), OCH_DEVICE, SIM_FAULT_RACE, "no barrier between them");
    clean(OF("race_o0", "race_o0_sum_clean", NULL, 1, 128), NULL);
    clean(OF("race_o0", "race_o0_flag_set_clean", NULL, 1, 128), NULL);
    clean(OF("race_o0", "race_o0_flag_late_clean", NULL, 1, 128), NULL);
}
static void race_global(void **s) {
    (void)s;
    crime(OF("race", "race_global", "race", 4, 128), OCH_DEVICE, SIM_FAULT_RACE, "global_store|no barrier between them");
    crime(OF("race", "race_global_groups", "race", 4, 64), OCH_DEVICE, SIM_FAULT_RACE,
          "workgroup (1, 0, 0)|of workgroup (0, 0, 0)|no release and acquire");
    clean(OF("race", "race_global_flag_clean", NULL, 1, 128), flag_must);
    clean(OF("race", "race_global_clean", NULL, 4, 128), NULL);
    clean(OF("race", "race_global_groups_clean", NULL, 4, 64), NULL);
}

/* An atomic made of a plain load and compare-and-swap is no race with itself; what else reads its word is one. */
static uint32_t bits(float x) {
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}
static void swaps_must(const run *r, const result *got) {
    const uint32_t n = r->grid * r->block;
    must(r, got, got->out[0] == bits((float)n) && got->out[2 + 5] == bits((float)n / 32));
}
static void race_swap(void **s) {
    (void)s;
    clean(OF("race_swap", "race_swap_clean", NULL, 4, 128), swaps_must);
    clean(OF("race_swap", "race_swap_made_clean", NULL, 4, 128), swaps_must);
    crime(OF("race_swap", "race_swap_read", "race", 4, 64), OCH_DEVICE, SIM_FAULT_RACE,
          "in global memory, not ordered with the ");
    crime(OF("race_swap", "race_swap_read_lds", "race", 1, 128), OCH_DEVICE, SIM_FAULT_RACE,
          "in LDS, not ordered with the | of 4 bytes at LDS address 0x0");
    crime(OF("race_swap", "race_swap_early", "race", 2, 64), OCH_DEVICE, SIM_FAULT_RACE, "not ordered with the ");
    crime(OF("race_swap", "race_swap_other", "race", 4, 64), OCH_DEVICE, SIM_FAULT_RACE,
          "not ordered with the ");
}

/* Under weak memory the kernel ends well and its result is wrong. */
static void wrong_when_weak(run r, const char *only, bool (*right)(const run *r, const result *got)) {
    for (size_t b = 0; b < sizeof boards / sizeof *boards; b++) {
        if (only && strcmp(only, boards[b])) continue;
        result got;
        r.board = boards[b];
        r.checks = "weak";
        launch(&r, &got);
        if (got.status != OCH_OK) fail_msg("%s on %s: %s", r.kernel, r.board, got.message);
        if (right(&r, &got)) fail_msg("%s on %s: the missing fence does not show", r.kernel, r.board);
        result again;
        launch(&r, &again);
        assert_memory_equal(got.out, again.out, sizeof got.out);
    }
}

static void missing_fence(void **s) {
    (void)s;
    run narrow = OF("race", "missing_fence", "race", 8, 64, .arg = 8), wide = OF("race", "missing_fence_wide", "race", 8, 128, .arg = 8);
    run flag = OF("race", "missing_fence_flag", "race", 2, 64), grid = OF("race", "race_grid_barrier", "race", 8, 128, .arg = 8);
    crime(narrow, OCH_DEVICE, SIM_FAULT_RACE, "no release and acquire");
    crime(wide, OCH_DEVICE, SIM_FAULT_RACE, "no release and acquire");
    crime(flag, OCH_DEVICE, SIM_FAULT_RACE, "no release and acquire");
    crime(grid, OCH_DEVICE, SIM_FAULT_RACE, "no release and acquire");
    wrong_when_weak(narrow, NULL, last_block_right);
    wrong_when_weak(flag, NULL, flag_right);
    /* gfx10 and later wait for stores at every workgroup barrier: there this crime has no victim. */
    wrong_when_weak(wide, "gfx942", wide_right);
    wrong_when_weak(grid, "gfx942", neighbours_right);
    clean(OF("race", "missing_fence_clean", NULL, 8, 64, .arg = 8), last_block_must);
    clean(OF("race", "missing_fence_wide_clean", NULL, 8, 128, .arg = 8), wide_must);
    clean(OF("race", "missing_fence_flag_clean", NULL, 2, 64), flag_must);
    clean(OF("race", "race_grid_barrier_clean", NULL, 8, 128, .arg = 8), neighbours_must);
}

static bool lock_right(const run *r, const result *got) { return got->out[0] == 3 * r->grid * (r->grid + 1) / 2; }
static void lock_must(const run *r, const result *got) { must(r, got, lock_right(r, got)); }

/* Half an order is none: a release that nobody acquires, an acquire of what nobody released, a scope too narrow. */
static void half_fences(void **s) {
    (void)s;
    static const char *const crimes[] = {"missing_release", "missing_acquire", "narrow_scope"};
    static const char *const good[] = {"missing_release_clean", "missing_acquire_clean", "narrow_scope_clean"};
    for (size_t i = 0; i < sizeof crimes / sizeof *crimes; i++) {
        crime(OF("race", crimes[i], "race", 2, 64), OCH_DEVICE, SIM_FAULT_RACE, "no release and acquire");
        clean(OF("race", good[i], NULL, 2, 64), flag_must);
    }
    crime(OF("race", "unordered_lock", "race", 8, 64), OCH_DEVICE, SIM_FAULT_RACE, "no release and acquire");
    clean(OF("race", "unordered_lock_clean", NULL, 8, 64), lock_must);
    clean(OF("race", "missing_fence_acq_rel_clean", NULL, 8, 64, .arg = 8), last_block_must);
    wrong_when_weak(OF("race", "missing_release", NULL, 2, 64), NULL, flag_right);
    crime(OF("race", "skipped_release", "race", 2, 64), OCH_DEVICE, SIM_FAULT_RACE, "no release and acquire");
    wrong_when_weak(OF("race", "skipped_release", NULL, 2, 64), NULL, flag_right);
    for (size_t b = 0; b < sizeof boards / sizeof *boards; b++) {
        run r = OF("race", "eventual_store", "weak", 2, 64, .board = boards[b]);
        result got;
        launch(&r, &got);
        assert_int_equal(got.status, OCH_OK);
        flag_must(&r, &got);
    }
}

static void memory_of_one_target(void **s) {
    (void)s;
    result got;
    run r = OF("race", "missing_write_back", "race", 2, 64, .board = "gfx942");
    launch(&r, &got);
    assert_int_equal(got.fault, SIM_FAULT_RACE);
    wrong_when_weak(r, "gfx942", flag_right);
    /* Targets that tell plain stores apart keep this one back for as long as its group sleeps. */
    for (int i = 0; i < 2; i++) {
        run between = OF("race", "hidden_store_between", "weak", 2, 64, .board = i ? "gfx1201" : "gfx942");
        launch(&between, &got);
        assert_int_equal(got.status, OCH_OK);
        assert_int_equal(got.out[3], 1);
        assert_int_equal(got.out[1], 100);
    }
}

static void unknown_check(void **s) {
    (void)s;
    run r = OF("limits", "too_many_threads", "barrier,sense", 1, 64, .board = "gfx1100");
    result got;
    launch(&r, &got);
    assert_int_equal(got.status, OCH_INVALID);
    assert_non_null(strstr(got.message, "sense"));
    assert_non_null(strstr(got.message, "uninit"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(global_out_of_bounds), cmocka_unit_test(lds_out_of_bounds), cmocka_unit_test(use_after_free),
        cmocka_unit_test(misaligned_atomic), cmocka_unit_test(write_to_code), cmocka_unit_test(scratch_overflow),
        cmocka_unit_test(barrier_not_reached), cmocka_unit_test(deadlock), cmocka_unit_test(infinite_loop),
        cmocka_unit_test(trap), cmocka_unit_test(jump_off_code), cmocka_unit_test(too_many_threads),
        cmocka_unit_test(too_much_lds), cmocka_unit_test(too_many_registers), cmocka_unit_test(wrong_target),
        cmocka_unit_test(uninit), cmocka_unit_test(race_lds),
        cmocka_unit_test(race_lds_unoptimised), cmocka_unit_test(race_global), cmocka_unit_test(race_swap), cmocka_unit_test(missing_fence),
        cmocka_unit_test(half_fences), cmocka_unit_test(memory_of_one_target),
        cmocka_unit_test(unknown_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
