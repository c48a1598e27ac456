/* ochre_sim_occupancy BOARD CODE-OBJECT KERNEL...: what the simulator makes of each kernel, in workgroups of its launch bound:
 * "KERNEL vgprs V agprs A lds L scratch S granule G waves W", G what LDS is given in, W the waves a SIMD. tests/isa/occupancy
 * compares with the compiler. */
#include "base/alloc.h"
#include "exec/state.h"
#include "load/module.h"

#include <stdio.h>

static int fail(const och_err *e) {
    fprintf(stderr, "ochre_sim_occupancy: %s\n", e->message);
    return 1;
}

int main(int argc, char **argv) {
    och_err e = {0};
    const sim_board *board;
    sim_space *space;
    sim_module *m;
    if (argc < 3) {
        fprintf(stderr, "usage: ochre_sim_occupancy BOARD CODE-OBJECT KERNEL...\n");
        return 2;
    }
    FILE *f = fopen(argv[2], "rb");
    if (!f || fseek(f, 0, SEEK_END)) {
        fprintf(stderr, "ochre_sim_occupancy: cannot read %s\n", argv[2]);
        return 1;
    }
    size_t n = (size_t)ftell(f);
    rewind(f);
    uint8_t *image = och_malloc(n + 1);
    if (!image || fread(image, 1, n, f) != n) return 1;
    fclose(f);
    if (sim_board_find(argv[1], &board, &e) != OCH_OK || sim_space_create(&space, &e) != OCH_OK ||
        sim_module_load(space, board, 0, image, n, &m, &e) != OCH_OK)
        return fail(&e);
    for (int i = 3; i < argc; i++) {
        const sim_kernel *k;
        if (sim_module_kernel(m, argv[i], &k, &e) != OCH_OK) return fail(&e);
        printf("%s vgprs %u agprs %u lds %u scratch %u granule %u waves %u\n", argv[i], k->n_vgprs, k->n_agprs, k->lds_bytes,
               k->scratch_bytes, board->lds_granule_bytes,
               sim_occupancy_waves(board, k, k->max_flat_workgroup_size, 0));
    }
    sim_module_unload(m);
    sim_space_destroy(space);
    och_free(image);
    return 0;
}
