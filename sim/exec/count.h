/* Counters: classes of instructions, the floor of traffic. */
#ifndef SIM_EXEC_COUNT_H
#define SIM_EXEC_COUNT_H

#include "exec/launch.h"
#include "isa/inst.h"

typedef enum sim_class {
#define SIM_CLASS(id, name) SIM_CLASS_##id,
#include "exec/count_class.def"
#undef SIM_CLASS
    SIM_N_CLASS
} sim_class;

/* Bytes of the buffers that are read, that are written, and of all: what several share counts once. The floor is all of them:
 * a line that is read and then written misses once. NOMEM leaves zeros. */
typedef struct sim_floor {
    uint64_t read, written, either;
} sim_floor;
och_status sim_floor_of(const sim_buffer *buffers, size_t n, sim_floor *out, och_err *err) OCH_WARN_UNUSED;

sim_class sim_class_of(const sim_inst *inst);
const char *sim_class_name(sim_class c);

#endif
