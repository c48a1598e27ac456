#include "board/board.h"

#include "base/size.h"
#include "base/strbuf.h"

#include <string.h>

static const sim_board boards[] = {
#define SIM_BOARD(key_, name_, target_, isa_, wave, cus, mps, simds, waves, vgprs, g32, g64, lds, lds_unit, lds_granule, mem,  \
                  l2, mall, mhz, mem_mhz, bus, integrated_, managed_, concurrent, pageable_)                                   \
    {.key = key_, .name = name_, .target = target_, .isa = SIM_##isa_, .wave_size = wave, .compute_units = cus,                \
     .multiprocessors = mps, .simds_cu = simds, .waves_simd_max = waves, .vgprs_simd = vgprs, .vgpr_granule_w32 = g32,         \
     .vgpr_granule_w64 = g64, .lds_group_bytes = lds, .lds_unit_bytes = lds_unit, .lds_granule_bytes = lds_granule,            \
     .memory_bytes = mem, .l2_bytes = l2, .mall_bytes = mall, .clock_khz = (mhz) * 1000u,       \
     .memory_clock_khz = (mem_mhz) * 1000u, \
     .bus_bits = bus, .integrated = integrated_, .managed = managed_, .concurrent_managed = concurrent, .pageable = pageable_, \
     .pci_bus = 3},
#include "board/boards.def"
#undef SIM_BOARD
};

const sim_board *sim_board_at(size_t i) { return i < OCH_COUNT(boards) ? &boards[i] : NULL; }

och_status sim_board_find(const char *key, const sim_board **out_board, och_err *err) {
    *out_board = NULL;
    for (size_t i = 0; i < OCH_COUNT(boards); i++)
        if (!strcmp(boards[i].key, key)) {
            *out_board = &boards[i];
            return OCH_OK;
        }
    och_strbuf known;
    och_strbuf_init(&known);
    for (size_t i = 0; i < OCH_COUNT(boards); i++) och_strbuf_printf(&known, "%s%s", i ? ", " : "", boards[i].key);
    och_err_set(err, OCH_NOTFOUND, "no simulated board \"%s\"; known: %s", key, och_strbuf_str(&known));
    och_strbuf_deinit(&known);
    return OCH_NOTFOUND;
}
