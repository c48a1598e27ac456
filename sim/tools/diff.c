/* ochre_sim_diff BOARD CODE-OBJECT HOST-RESULTS: runs the kernels k0, k1, ... of a unit of random programs
 * (tests/isa/diff) on a simulated board and compares every word with what the host computed. One line a program that
 * differs or fails; exit status 1 if there was any. */
#include "base/alloc.h"
#include "load/module.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS 2u
#define THREADS 128u

static uint8_t *read_file(const char *path, size_t *out_n) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    uint8_t *p = och_malloc((size_t)n + 1);
    *out_n = p ? fread(p, 1, (size_t)n, f) : 0;
    fclose(f);
    return p;
}

static int fail(const och_err *e) {
    fprintf(stderr, "ochre_sim_diff: %s\n", e->message);
    return 2;
}

typedef struct unit {
    const sim_board *board;
    sim_space *space;
    sim_module *m;
    uint64_t in;
} unit;

/* The program's words are compared; returns the number that differ, or -1 after a message. */
static int64_t run_one(unit *t, int i, uint32_t n_words, const uint8_t *want, och_err *e) {
    char name[16];
    snprintf(name, sizeof name, "k%d", i);
    const sim_kernel *k;
    uint64_t out, words, args_addr;
    if (sim_module_kernel(t->m, name, &k, e) != OCH_OK) return -1;
    sim_launch l = {.kernel = k, .isa = t->board->isa, .board = t->board, .space = t->space, .grid = {GROUPS, 1, 1},
                    .block = {THREADS, 1, 1}, .grid_items = {GROUPS * THREADS, 1, 1}};
    uint32_t arg_bytes = sim_module_kernel_info(t->m, k)->kernarg_bytes;
    if (sim_space_alloc(t->space, (uint64_t)n_words * 8, 256, SIM_MEM_DEVICE, 0, true, &out, e) != OCH_OK ||
        sim_space_alloc(t->space, 512, 256, SIM_MEM_DEVICE, 0, true, &words, e) != OCH_OK ||
        sim_space_alloc(t->space, arg_bytes ? arg_bytes : 8, 256, SIM_MEM_KERNARG, 0, true, &args_addr, e) != OCH_OK)
        return -1;
    l.kernarg_addr = args_addr;
    void *args[] = {&t->in, &out, &words};
    const sim_hidden hidden = {0};
    int64_t differ = -1;
    if (sim_module_fill_args(t->m, k, &l, &hidden, args, NULL, 0, sim_space_host(t->space, args_addr, arg_bytes), e) == OCH_OK &&
        sim_launch_run(&l, NULL, e) == OCH_OK) {
        const uint8_t *got = sim_space_host(t->space, out, (uint64_t)n_words * 8);
        differ = 0;
        for (uint32_t w = 0; w < n_words; w++) {
            uint64_t g, x;
            memcpy(&g, got + 8ull * w, 8);
            memcpy(&x, want + 8ull * w, 8);
            if (g != x && differ++ == 0)
                printf("k%d: thread %u variable %u: got %016" PRIx64 ", the host has %016" PRIx64 "\n", i,
                       w / (n_words / (GROUPS * THREADS)), w % (n_words / (GROUPS * THREADS)), g, x);
        }
    }
    och_err ignored = {0};
    if (sim_space_free(t->space, out, &ignored) != OCH_OK || sim_space_free(t->space, words, &ignored) != OCH_OK ||
        sim_space_free(t->space, args_addr, &ignored) != OCH_OK)
        return -1;
    return differ;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: ochre_sim_diff BOARD CODE-OBJECT HOST-RESULTS\n");
        return 2;
    }
    och_err e = {0};
    unit t = {0};
    if (sim_board_find(argv[1], &t.board, &e) != OCH_OK || sim_space_create(&t.space, &e) != OCH_OK) return fail(&e);
    size_t n_image, n_want;
    uint8_t *image = read_file(argv[2], &n_image), *want = read_file(argv[3], &n_want);
    if (!image || !want) {
        fprintf(stderr, "ochre_sim_diff: cannot read %s or %s\n", argv[2], argv[3]);
        return 2;
    }
    if (sim_module_load(t.space, t.board, 0, image, n_image, &t.m, &e) != OCH_OK ||
        sim_space_alloc(t.space, 2048, 256, SIM_MEM_DEVICE, 0, true, &t.in, &e) != OCH_OK)
        return fail(&e);
    uint32_t *in = sim_space_host(t.space, t.in, 2048), x = 12345;
    for (int i = 0; i < 512; i++) in[i] = x = x * 1664525u + 1013904223u;
    int programs = 0, bad = 0;
    for (size_t at = 0; at + 4 <= n_want; programs++) {
        uint32_t n;
        memcpy(&n, want + at, 4);
        at += 4;
        if ((n_want - at) / 8 < n) break;
        och_err pe = {0};
        int64_t d = run_one(&t, programs, n, want + at, &pe);
        if (d < 0) printf("k%d: %s\n", programs, pe.message);
        if (d > 0) printf("k%d: %" PRId64 " of %u words differ\n", programs, d, n);
        bad += d != 0;
        at += 8ull * n;
    }
    printf("%s: %d programs, %d differ\n", argv[1], programs, bad);
    return bad != 0;
}
