/* How many workgroups a multiprocessor holds: waves, registers and LDS each set a bound. Granules are the board's. */
#include "hip/launch.h"

static uint32_t granule(const sim_kernel *k, const sim_board *b) { return k->wave_size == 32 ? b->vgpr_granule_w32
                                                                  : b->vgpr_granule_w64; }

int sim_blocks_mp(hipFunction_t f, unsigned threads, size_t dynamic_lds) {
    const sim_kernel *k = f->kernel;
    const sim_board *b = &f->module->dev->board;
    if (!threads || threads > 1024) return 0;
    uint64_t lds = k->lds_bytes + dynamic_lds;
    if (lds > b->lds_group_bytes) return 0;
    uint32_t waves = (threads + k->wave_size - 1) / k->wave_size;
    /* registers a lane: the figure of the table counts lanes of the default wave */
    uint32_t file = b->vgprs_simd * b->wave_size / k->wave_size, g = granule(k, b) ? granule(k, b) : 1;
    uint32_t each = (k->n_vgprs + k->n_agprs + g - 1) / g * g;
    uint32_t waves_simd = b->waves_simd_max;
    if (each) waves_simd = OCH_MIN(waves_simd, file / each);
    /* a workgroup's waves lie on the SIMDs of one unit of LDS: a compute unit, or a WGP */
    uint32_t units = b->compute_units / b->multiprocessors, simds = b->simds_cu * units;
    uint32_t blocks = waves_simd * simds / waves;
    if (lds) {
        uint64_t grain = b->lds_granule_bytes ? b->lds_granule_bytes : 1, rounded = (lds + grain - 1) / grain * grain;
        blocks = OCH_MIN(blocks, (uint32_t)(b->lds_unit_bytes / rounded));
    }
    return (int)blocks;
}

hipError_t sim_occupancy_blocks(int *out_blocks, hipFunction_t f, int block_size, size_t dynamic_lds) {
    if (!out_blocks || block_size <= 0) return hipErrorInvalidValue;
    hipFunction_t g;
    if (!f || sim_function_any(f, &g) != hipSuccess) return hipErrorInvalidDeviceFunction;
    unsigned most = g->kernel->max_flat_workgroup_size ? g->kernel->max_flat_workgroup_size : 1024;
    *out_blocks = (unsigned)block_size > most ? 0 : sim_blocks_mp(g, (unsigned)block_size, dynamic_lds);
    return hipSuccess;
}

hipError_t sim_occupancy_size(int *out_grid, int *out_block, hipFunction_t f, size_t dynamic_lds, int limit) {
    if (!out_grid || !out_block || limit < 0) return hipErrorInvalidValue;
    hipFunction_t g;
    if (!f || sim_function_any(f, &g) != hipSuccess) return hipErrorInvalidDeviceFunction;
    unsigned wave = g->kernel->wave_size, most = g->kernel->max_flat_workgroup_size ? g->kernel->max_flat_workgroup_size : 1024;
    if (limit && (unsigned)limit < most) most = (unsigned)limit;
    /* the size with most resident threads, the largest of equal ones */
    unsigned best = 0, best_threads = 0, best_blocks = 0;
    for (unsigned size = most; size; size = size > wave ? (size - 1) / wave * wave : 0) {
        unsigned blocks = (unsigned)sim_blocks_mp(g, size, dynamic_lds);
        if (blocks * size > best_threads) best = size, best_threads = blocks * size, best_blocks = blocks;
    }
    if (!best) return hipErrorInvalidValue;
    *out_block = (int)best;
    *out_grid = (int)(best_blocks * g->module->dev->board.multiprocessors);
    return hipSuccess;
}

hipError_t sim_hipOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, const void *f, int numBlocks, int blockSize) {
    hipFunction_t g;
    if (!dynamicSmemSize || numBlocks <= 0 || blockSize <= 0) return hipErrorInvalidValue;
    hipError_t e = sim_function_any(f, &g);
    if (e != hipSuccess) return e;
    const sim_board *b = &g->module->dev->board;
    uint64_t share = b->lds_unit_bytes / (unsigned)numBlocks / b->lds_granule_bytes * b->lds_granule_bytes;
    share = OCH_MIN(share, b->lds_group_bytes);
    *dynamicSmemSize = share > g->kernel->lds_bytes ? share - g->kernel->lds_bytes : 0;
    return hipSuccess;
}
