/* A code object of any content, on the board that the first byte picks: loaded, every kernel bound and launched with a tiny
 * grid and arguments that point at small buffers. It works, or it says why not. */
#include "fuzz_sim.h"

#include "load/module.h"
#include "obj/obj.h"

enum { MAX_KERNELS = 8, MAX_KERNARG = 16384 };
/* A larger image is a fair request for memory, and no news. */
#define MAX_IMAGE (8u << 20)

/* Whether the image asks for little memory; broken ones do. */
static bool is_small(const uint8_t *bytes, size_t size) {
    och_obj_bundle b;
    bool small = true;
    if (och_obj_bundle_open(bytes, size, &b, NULL) != OCH_OK) return true;
    for (size_t i = 0; i < b.n_entries; i++) {
        och_obj *o = NULL;
        if (!b.entries[i].n_bytes || och_obj_parse(b.entries[i].bytes, b.entries[i].n_bytes, &o, NULL) != OCH_OK) continue;
        if (o->n_segments) {
            const och_obj_segment *last = &o->segments[o->n_segments - 1];
            small &= last->addr + last->mem_bytes - o->segments[0].addr <= MAX_IMAGE;
        }
        och_obj_destroy(o);
    }
    och_obj_bundle_close(&b);
    return small;
}

static void launch(sim_module *m, const sim_kernel *k, const sim_board *board, unsigned flags) {
    const och_obj_kernel *info = sim_module_kernel_info(m, k);
    och_err err = {0};
    if (info->kernarg_bytes > MAX_KERNARG) return;
    uint32_t limit = k->max_flat_workgroup_size, threads = limit && limit < k->wave_size * 2u ? limit : k->wave_size * 2u - 3;
    sim_launch l = {.kernel = k, .isa = board->isa, .board = board, .space = fuzz_space, .grid = {2, 1, 1},
                    .block = {threads, 1, 1}, .dynamic_lds_bytes = flags & 16 ? 256 : 0};
    for (int d = 0; d < 3; d++) {
        if (k->reqd_workgroup_size[d]) l.block[d] = k->reqd_workgroup_size[d];
        l.grid_items[d] = (uint64_t)l.grid[d] * l.block[d];
    }
    /* Explicit arguments: pointers to buffers, and small numbers. */
    uint32_t n = info->kernarg_bytes ? info->kernarg_bytes : 1;
    uint8_t *packed = och_calloc(1, n), *segment = och_malloc(n);
    fuzz_check(packed && segment, "no memory");
    for (size_t a = 0; a < info->n_args; a++) {
        const och_obj_arg *arg = &info->args[a];
        uint64_t v = arg->kind == OCH_ARG_BY_VALUE ? 3 + a : (uint64_t)(uintptr_t)fuzz_buffers[a % FUZZ_N_BUFFERS];
        memcpy(packed + arg->offset, &v, arg->size < 8 ? arg->size : 8);
    }
    sim_hidden hidden = {.dynamic_lds_bytes = l.dynamic_lds_bytes, .private_base = SIM_PRIVATE_BASE, .shared_base = SIM_SHARED_BASE};
    if (sim_module_fill_args(m, k, &l, &hidden, NULL, packed, n, segment, &err) == OCH_OK &&
        sim_space_register(fuzz_space, segment, n, &err) == OCH_OK) {
        l.kernarg_addr = (uint64_t)(uintptr_t)segment;
        fuzz_watch(flags & 32);
        och_status st = sim_launch_run(&l, NULL, &err);
        fuzz_watch(false);
        fuzz_check(st == OCH_OK || err.message[0], "a launch that fails without a message");
        fuzz_check(st != OCH_INTERNAL && st != OCH_NOMEM, err.message);
        fuzz_check(sim_space_free(fuzz_space, l.kernarg_addr, &err) == OCH_OK, err.message);
    }
    och_free(packed);
    och_free(segment);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    size_t n_boards = 0;
    while (sim_board_at(n_boards)) n_boards++;
    const sim_board *board = sim_board_at((data[0] & 15) % n_boards);
    unsigned flags = data[0] & 0xf0;
    if (!is_small(data + 1, size - 1)) return 0;
    sim_module *m;
    och_err err = {0};
    och_status st = sim_module_load(fuzz_space, board, 0, data + 1, size - 1, &m, &err);
    if (st != OCH_OK) {
        fuzz_check(!m && err.message[0] && st != OCH_NOMEM && st != OCH_INTERNAL, err.message);
        return 0;
    }
    for (size_t i = 0; i < sim_module_n_kernels(m) && i < MAX_KERNELS; i++) {
        const sim_kernel *k;
        st = sim_module_kernel(m, sim_module_kernel_name(m, i), &k, &err);
        fuzz_check(st == OCH_OK || (!k && err.message[0] && st != OCH_NOMEM && st != OCH_INTERNAL), err.message);
        if (st == OCH_OK) launch(m, k, board, flags);
    }
    const och_obj *o = sim_module_object(m);
    for (size_t i = 0; i < o->n_symbols; i++) {
        uint64_t addr, bytes;
        if (sim_module_global(m, o->symbols[i].name, &addr, &bytes, &err) == OCH_OK)
            fuzz_check(!bytes || sim_space_host(fuzz_space, addr, bytes), "a variable outside the image");
    }
    sim_module_unload(m);
    return 0;
}
