/* Simulated boards as rows (boards.def): what HIP's properties and attributes say of them and what bounds a launch. */
#ifndef SIM_BOARD_BOARD_H
#define SIM_BOARD_BOARD_H

#include "base/status.h"
#include "isa/inst.h"

typedef struct sim_board {
    const char *key;              /* what OCHRE_SIM_BOARD names: "gfx1151" */
    const char *name;             /* marketing name, as hipDeviceProp_t.name */
    const char *target;           /* whole target name: "gfx942:sramecc+:xnack-" */
    sim_isa isa;
    uint32_t wave_size;           /* warpSize */
    uint32_t compute_units, multiprocessors, simds_cu, waves_simd_max;
    uint32_t vgprs_simd;          /* registers a SIMD lane, in wave_size */
    uint32_t vgpr_granule_w32, vgpr_granule_w64;
    uint32_t lds_group_bytes, lds_unit_bytes, lds_granule_bytes;
    uint64_t memory_bytes, l2_bytes, mall_bytes;
    uint32_t clock_khz, memory_clock_khz, bus_bits;
    bool integrated, managed, concurrent_managed, pageable;
    int32_t pci_bus;
} sim_board;

const sim_board *sim_board_at(size_t i);
/* NOTFOUND: the message lists the known keys. */
och_status sim_board_find(const char *key, const sim_board **out_board, och_err *err) OCH_WARN_UNUSED;

#endif
