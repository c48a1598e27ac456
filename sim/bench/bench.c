/* ochre_sim_bench BOARD CODE-OBJECT KERNEL...: wave-instructions a second that the simulator executes (without s_nop,
 * s_waitcnt, s_delay_alu, s_clause), bounds checks on, counters off. One JSON line a kernel. bench/sim.py drives it. */
#include "base/alloc.h"
#include "base/thread.h"
#include "exec/bind.h"
#include "exec/pool.h"
#include "load/module.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct spec {
    const char *name, *kernel;
    uint32_t groups, repeats, threads;  /* repeats: the grid's second dimension, so that a launch is long */
    uint64_t a_bytes, b_bytes, c_bytes; /* the three buffers */
    int32_t k;                          /* the last argument */
} spec;

#define MIB (1u << 20)
static const spec specs[] = {
    {"matvec_cache", "matvec32", 16, 512, 32, 16 * 16384, 16384, 256, 4096},
    {"matvec_64mib", "matvec32", 4096, 1, 32, 64 * MIB, 16384, 16384, 4096},
    {"matvec64_cache", "matvec64", 16, 512, 64, 16 * 16384, 16384, 256, 4096},
    {"matvec64_64mib", "matvec64", 4096, 1, 64, 64 * MIB, 16384, 16384, 4096},
    {"dot8", "dot8", 16, 512, 32, 16 * 16384, 16384, 16 * 256, 4096},
    {"dot8_w64", "dot8", 16, 512, 64, 16 * 16384, 16384, 16 * 256, 4096},
    {"lds_sum", "lds_sum", 32, 4, 256, 1024, 32 * 1024, 0, 50},
    {"wmma", "wmma", 64, 16, 32, 16 * 2048, 16 * 2048, 64 * 1024, 1024},
    {"mfma", "mfma", 64, 4, 64, 32 * 2048, 32 * 2048, 64 * 4096, 1024},
};

static int fail(const och_err *e) {
    fprintf(stderr, "ochre_sim_bench: %s\n", e->message);
    return 1;
}

static int bench_one(sim_space *space, const sim_board *board, sim_module *m, const spec *sp, double seconds) {
    och_err e = {0};
    const sim_kernel *k;
    if (sim_module_kernel(m, sp->kernel, &k, &e) != OCH_OK) return fail(&e);
    uint64_t buf[3] = {0}, args_addr;
    const uint64_t sizes[3] = {sp->a_bytes, sp->b_bytes, sp->c_bytes};
    for (int i = 0; i < 3; i++) {
        if (!sizes[i]) continue;
        if (sim_space_alloc(space, sizes[i], 256, SIM_MEM_DEVICE, 0, true, &buf[i], &e) != OCH_OK) return fail(&e);
        uint8_t *p = sim_space_host(space, buf[i], sizes[i]);
        for (uint64_t j = 0; j < sizes[i] / 2; j++) ((uint16_t *)(void *)p)[j] = (uint16_t)(0x2c00 + (j * 7 & 0x3ff));
    }
    sim_launch l = {.kernel = k, .isa = board->isa, .board = board, .space = space, .grid = {sp->groups, sp->repeats, 1},
                    .block = {sp->threads, 1, 1}, .grid_items = {(uint64_t)sp->groups * sp->threads, sp->repeats, 1}};
    uint32_t arg_bytes = sim_module_kernel_info(m, k)->kernarg_bytes;
    if (sim_space_alloc(space, arg_bytes ? arg_bytes : 16, 256, SIM_MEM_KERNARG, 0, true, &args_addr, &e) != OCH_OK)
        return fail(&e);
    l.kernarg_addr = args_addr;
    int32_t kk = sp->k;
    void *args[4];
    int n = 0;
    for (int i = 0; i < 3; i++)
        if (sizes[i]) args[n++] = &buf[i];
    args[n] = &kk;
    const sim_hidden hidden = {0};
    if (sim_module_fill_args(m, k, &l, &hidden, args, NULL, 0, sim_space_host(space, args_addr, arg_bytes), &e) != OCH_OK)
        return fail(&e);
    uint64_t executed = 0, per_launch = 0;
    if (sim_launch_run(&l, &per_launch, &e) != OCH_OK) return fail(&e); /* warms up */
    double start = och_now_seconds(), elapsed;
    int launches = 0;
    do {
        if (sim_launch_run(&l, &per_launch, &e) != OCH_OK) return fail(&e);
        executed += per_launch;
        launches++;
        elapsed = och_now_seconds() - start;
    } while (elapsed < seconds);
    printf("{\"bench\": \"%s\", \"board\": \"%s\", \"threads\": %d, \"host_isa\": %d, \"launches\": %d, \"instructions\": %" PRIu64
           ", \"seconds\": %.4f, \"million_per_second\": %.1f}\n",
           sp->name, board->key, sim_pool_size(), sim_host_level(), launches, executed, elapsed, (double)executed / elapsed / 1e6);
    fflush(stdout);
    for (int i = 0; i < 3; i++)
        if (buf[i] && sim_space_free(space, buf[i], &e) != OCH_OK) return fail(&e);
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: ochre_sim_bench BOARD CODE-OBJECT SECONDS [BENCH...]\nbenches:");
        for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) fprintf(stderr, " %s", specs[i].name);
        fputc('\n', stderr);
        return 2;
    }
    och_err e = {0};
    const sim_board *board;
    sim_space *space;
    sim_module *m;
    if (sim_board_find(argv[1], &board, &e) != OCH_OK || sim_space_create(&space, &e) != OCH_OK) return fail(&e);
    FILE *f = fopen(argv[2], "rb");
    if (!f) {
        perror(argv[2]);
        return 1;
    }
    size_t capacity = 1 << 22;
    uint8_t *image = och_malloc(capacity);
    size_t n = image ? fread(image, 1, capacity, f) : 0;
    fclose(f);
    if (sim_module_load(space, board, 0, image, n, &m, &e) != OCH_OK) return fail(&e);
    int rc = 0;
    for (size_t i = 0; i < sizeof specs / sizeof *specs && rc == 0; i++) {
        bool wanted = argc == 4;
        for (int j = 4; j < argc; j++) wanted |= !strcmp(argv[j], specs[i].name);
        och_err missing = {0};
        const sim_kernel *k;
        if (wanted && (argc > 4 || sim_module_kernel(m, specs[i].kernel, &k, &missing) == OCH_OK))
            rc = bench_one(space, board, m, &specs[i], strtod(argv[3], NULL));
    }
    sim_module_unload(m);
    sim_space_destroy(space);
    och_free(image);
    return rc;
}
