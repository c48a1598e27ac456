/* How many workgroups a board holds at once: what launches are bounded by, and what HIP's occupancy calls report. */
#include "exec/state.h"

static uint32_t round_up(uint32_t n, uint32_t align) { return align ? (n + align - 1) / align * align : n; }

/* Waves a SIMD holds by vector registers, by scalar ones (gfx9: 800 a SIMD in units of 16), and at all. */
static uint32_t waves_by_registers(const sim_board *board, const sim_kernel *k) {
    uint32_t granule = k->wave_size == 64 ? board->vgpr_granule_w64 : board->vgpr_granule_w32;
    uint32_t file = board->wave_size == k->wave_size ? board->vgprs_simd
                    : k->wave_size == 64             ? board->vgprs_simd / 2
                                                     : board->vgprs_simd * 2;
    uint32_t used = k->n_vgprs;
    if (board->isa >= SIM_GFX90A && board->isa <= SIM_GFX950) used = k->n_agprs ? k->acc_offset + k->n_agprs : k->n_vgprs;
    else if (k->n_agprs > used) used = k->n_agprs;
    used = round_up(used ? used : 1, granule);
    uint32_t waves = file / used;
    if (SIM_BIT(board->isa) & SIM_GCN) {
        uint32_t sgprs = ((k->rsrc1 >> 6 & 15) / 2 + 1) * 16;
        if (800 / sgprs < waves) waves = 800 / sgprs;
    }
    return waves < board->waves_simd_max ? waves : board->waves_simd_max;
}

/* On gfx10 and later a workgroup runs on a WGP (two compute units) unless the kernel asks for one unit (rsrc1 bit 29). */
static uint32_t units(const sim_board *board) { return board->compute_units / (board->multiprocessors ? board->multiprocessors : 1); }

uint32_t sim_occupancy_groups(const sim_board *board, const sim_kernel *k, uint32_t threads, uint32_t dynamic_lds_bytes) {
    if (!threads) return 0;
    uint32_t waves_group = (threads + k->wave_size - 1) / k->wave_size;
    uint32_t simds = board->simds_cu * (units(board) ? units(board) : 1);
    uint32_t groups = simds * waves_by_registers(board, k) / waves_group;
    uint32_t lds = round_up(k->lds_bytes + dynamic_lds_bytes, board->lds_granule_bytes);
    if (lds && board->lds_unit_bytes / lds < groups) groups = board->lds_unit_bytes / lds;
    /* The barrier unit: 16 multi-wave workgroups a compute unit, 32 a WGP. */
    uint32_t barriers = 16 * (units(board) ? units(board) : 1);
    if (waves_group > 1 && groups > barriers) groups = barriers;
    return groups;
}

uint32_t sim_occupancy_waves(const sim_board *board, const sim_kernel *k, uint32_t threads, uint32_t dynamic_lds_bytes) {
    uint32_t waves = waves_by_registers(board, k);
    uint32_t lds = round_up(k->lds_bytes + dynamic_lds_bytes, board->lds_granule_bytes);
    if (!lds || !threads) return waves;
    uint32_t waves_group = (threads + k->wave_size - 1) / k->wave_size;
    uint32_t simds = board->simds_cu * (units(board) ? units(board) : 1);
    uint32_t by_lds = (board->lds_unit_bytes / lds * waves_group + simds - 1) / simds;
    if (!by_lds) by_lds = 1;
    return by_lds < waves ? by_lds : waves;
}
