/* What a memory instruction is about to touch, lane by lane: for counters and for the optional checks. Computed from the
 * decoded operands before the instruction runs. */
#ifndef SIM_EXEC_ACCESS_H
#define SIM_EXEC_ACCESS_H

#include "exec/wave.h"

typedef enum sim_access_space { SIM_ACCESS_NONE, SIM_ACCESS_GLOBAL, SIM_ACCESS_LDS, SIM_ACCESS_SCRATCH } sim_access_space;

typedef struct sim_access {
    uint8_t space[SIM_MAX_LANES]; /* of each active lane: flat ones differ */
    uint64_t addr[SIM_MAX_LANES]; /* device address, or byte of LDS or of the lane's scratch */
    uint64_t mask;                /* lanes that access */
    uint32_t n_bytes;             /* a lane */
    bool load, store, atomic;     /* an atomic is both */
    bool scalar;                  /* one access for the wave: lane 0 of the arrays */
    uint32_t second;              /* DS 2addr forms: distance in bytes (modulo 2^32) to a second access of n_bytes; 0: none */
} sim_access;

/* False: not an access of memory. */
bool sim_access_of(const sim_wave *w, const sim_inst *inst, sim_access *out);

/* Loads and stores whose order or coherence the program asked for: atomics, and accesses with device or system scope. */
bool sim_access_coherent(const sim_inst *inst);

#endif
