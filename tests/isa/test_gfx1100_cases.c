/* Programs for gfx1100 whose final registers were checked on hardware by their authors: vectors/gfx1100_cases.txt.zst.
 *
 * Each is a kernel that clears its registers, does its work and stores what it left: v0..v15 of every lane (dword
 * register * lanes + lane), then s0..s15, VCC, SCC, EXEC. It runs as wave32 in one workgroup with 64 KiB of LDS, 64 KiB of
 * scratch a lane and f32 denormals flushed; s[0:1] point to the kernel's argument, the address of a zeroed buffer.
 *
 *   test_gfx1100_cases [FILE [NAME]]   other cases in the same format; one case, with every difference */
#include "exec/launch.h"
#include "exec/program.h"
#include "mem/space.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <inttypes.h>

#include "isa/vector_file.h"

enum { LDS_BYTES = 65536, SCRATCH_BYTES = 65536, SHOWN = 4 };

static const char *file_name, *only;

typedef struct test_case {
    const char *name, *code, *unstable, *out;
    unsigned n_lanes;
} test_case;

static bool stable(const char *list, unsigned offset) {
    for (const char *p = list; *p && *p != '-';) {
        char *end;
        if (strtoul(p, &end, 10) == offset) return false;
        p = *end == ',' ? end + 1 : end;
    }
    return true;
}

static void name_word(char *buf, size_t n, unsigned word, unsigned n_lanes) {
    unsigned s = word - 16 * n_lanes;
    if (word < 16 * n_lanes)
        snprintf(buf, n, "v%u lane %u", word / n_lanes, word % n_lanes);
    else if (s < 16)
        snprintf(buf, n, "s%u", s);
    else
        snprintf(buf, n, "%s", s == 16 ? "vcc" : s == 17 ? "scc" : "exec");
}

static bool run_case(const test_case *c, sim_space *space, const sim_board *board) {
    size_t n_code = strlen(c->code) / 2, n_words = strlen(c->out) / 8;
    uint8_t *code = malloc(n_code);
    sim_program *program = NULL;
    uint64_t code_addr = 0, args_addr = 0, out_addr = 0;
    och_err err = {0};
    unsigned bad = 0;
    assert_non_null(code);
    for (size_t i = 0; i < n_code; i++) code[i] = (uint8_t)hex_value(c->code + 2 * i, 2);
    bool ran = !sim_space_alloc(space, n_code, 256, SIM_MEM_CODE, 0, true, &code_addr, &err) &&
               !sim_space_alloc(space, 8, 256, SIM_MEM_KERNARG, 0, true, &args_addr, &err) &&
               !sim_space_alloc(space, n_words * 4, 256, SIM_MEM_DEVICE, 0, true, &out_addr, &err) &&
               !sim_program_create(SIM_GFX1100, 32, code, n_code, code_addr, 0, NULL, 0, &program, &err);
    if (ran) {
        memcpy(sim_space_host(space, code_addr, n_code), code, n_code);
        memcpy(sim_space_host(space, args_addr, 8), &out_addr, 8);
        memset(sim_space_host(space, out_addr, n_words * 4), 0, n_words * 4);
        sim_kernel k = {.name = c->name,
                        .program = program,
                        .wave_size = 32,
                        .rsrc1 = 31u | 0xc0u << 12 | 1u << 21 | 1u << 23, /* 256 registers; as the assembler's defaults */
                        .rsrc2 = 1u | 2u << 1,                           /* scratch; two user registers */
                        .properties = 1u << 3 | 1u << 10,                /* the argument pointer; wave32 */
                        .scratch_bytes = SCRATCH_BYTES,
                        .n_vgprs = 256,
                        .max_flat_workgroup_size = 1024};
        sim_launch l = {.kernel = &k,
                        .isa = SIM_GFX1100,
                        .board = board,
                        .space = space,
                        .grid = {1, 1, 1},
                        .block = {c->n_lanes, 1, 1},
                        .grid_items = {c->n_lanes, 1, 1},
                        .dynamic_lds_bytes = LDS_BYTES,
                        .kernarg_addr = args_addr};
        ran = !sim_launch_run(&l, NULL, &err);
    }
    if (!ran) {
        printf("  %s: %s\n", c->name, err.message);
        bad = 1;
    } else {
        const uint32_t *got = sim_space_host(space, out_addr, n_words * 4);
        for (unsigned i = 0; i < n_words; i++) {
            uint32_t bytes = (uint32_t)hex_value(c->out + (size_t)i * 8, 8), want = __builtin_bswap32(bytes);
            if (got[i] == want || !stable(c->unstable, i * 4)) continue;
            char where[32];
            name_word(where, sizeof where, i, c->n_lanes);
            if (bad++ < SHOWN || only)
                printf("  %s: %s is %08" PRIx32 ", expected %08" PRIx32 "\n", c->name, where, got[i], want);
        }
    }
    sim_program_destroy(program);
    if (code_addr) assert_int_equal(sim_space_free(space, code_addr, &err), 0);
    if (args_addr) assert_int_equal(sim_space_free(space, args_addr, &err), 0);
    if (out_addr) assert_int_equal(sim_space_free(space, out_addr, &err), 0);
    free(code);
    return bad == 0;
}

static void all_cases(void **s) {
    (void)s;
    char path[512];
    snprintf(path, sizeof path, "%s/isa/vectors/gfx1100_cases.txt.zst", OCHRE_TEST_DIR);
    char *text = read_compressed(file_name ? file_name : path), *save = NULL;
    assert_non_null(text);
    sim_space *space = NULL;
    const sim_board *board = NULL;
    och_err err;
    assert_int_equal(sim_space_create(&space, &err), 0);
    assert_int_equal(sim_board_find("gfx1100", &board, &err), 0);
    unsigned n = 0, failed = 0;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *word = NULL;
        test_case c = {.name = strtok_r(line, " ", &word)};
        c.n_lanes = (unsigned)strtoul(strtok_r(NULL, " ", &word), NULL, 10);
        c.code = strtok_r(NULL, " ", &word);
        c.unstable = strtok_r(NULL, " ", &word);
        c.out = strtok_r(NULL, " ", &word);
        if (only && !strstr(c.name, only)) continue;
        n++;
        if (!run_case(&c, space, board)) failed++;
    }
    printf("%u cases, %u fail\n", n, failed);
    sim_space_destroy(space);
    free(text);
    assert_true(n > 0);
    assert_int_equal(failed, 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest all[] = {cmocka_unit_test(all_cases)};
    if (argc > 1 && strcmp(argv[1], "-")) file_name = argv[1];
    if (argc > 2) only = argv[2];
    return cmocka_run_group_tests(all, NULL, NULL);
}
