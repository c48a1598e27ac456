/* Rows of lds.def, for sim/isa/lds*.c alone. */
#ifndef SIM_ISA_LDS_H
#define SIM_ISA_LDS_H

#include "isa/memory.h"

typedef enum sim_lds_op {
    SIM_LO_LOAD, SIM_LO_STORE, SIM_LO_LOAD2, SIM_LO_LOAD2_ST64, SIM_LO_STORE2, SIM_LO_STORE2_ST64, SIM_LO_SWAP2,
    SIM_LO_SWAP2_ST64, SIM_LO_ADDTID_LOAD, SIM_LO_ADDTID_STORE, SIM_LO_ATOMIC, SIM_LO_CMPST /* operands in the other order */,
    SIM_LO_CONDXCHG, SIM_LO_SWIZZLE, SIM_LO_PERMUTE, SIM_LO_BPERMUTE, SIM_LO_BPERMUTE_FI, SIM_LO_APPEND, SIM_LO_CONSUME,
    SIM_LO_NOTHING, SIM_LO_TRANSPOSE
} sim_lds_op;

typedef struct sim_lds_row {
    const char *name;
    uint8_t op, data;
} sim_lds_row;

/* Lanes that meet in ds_permute and ds_bpermute: 32 on gfx10 and gfx11 whatever the wave size (each half by itself), else
 * the whole wave. */
static inline unsigned sim_lds_span(const sim_wave *w) {
    return w->isa == SIM_GFX1030 || w->isa == SIM_GFX1100 || w->isa == SIM_GFX1150 ? 32 : w->lanes;
}
/* Lanes that ds_bpermute may fetch from; of others it fetches 0. */
static inline uint64_t sim_lds_bpermute_from(const sim_wave *w, const sim_uop *u) {
    return ((const sim_lds_row *)u->core)->op == SIM_LO_BPERMUTE_FI ? w->exec_full : sim_mem_exec(w);
}

sim_uop_fn sim_lds_swizzle, sim_lds_permute, sim_lds_bpermute, sim_lds_transpose;

#endif
