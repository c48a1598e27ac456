/* What lies around an address, for reports. */
#ifndef SIM_MEM_AROUND_H
#define SIM_MEM_AROUND_H

#include "mem/space.h"

/* The allocations of data (neither code nor kernel arguments; live ones, or freed and remembered) that end at or below addr and
 * begin above it: which there are, as bits. */
#define SIM_BELOW 1u
#define SIM_ABOVE 2u
unsigned sim_space_around(const sim_space *space, uint64_t addr, sim_range *below, sim_range *above);

#endif
