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

sim_uop_fn sim_lds_swizzle, sim_lds_permute, sim_lds_bpermute, sim_lds_transpose;

#endif
