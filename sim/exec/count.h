/* Classes of instructions. */
#ifndef SIM_EXEC_COUNT_H
#define SIM_EXEC_COUNT_H

#include "isa/inst.h"

typedef enum sim_class {
#define SIM_CLASS(id, name) SIM_CLASS_##id,
#include "exec/count_class.def"
#undef SIM_CLASS
    SIM_N_CLASS
} sim_class;

sim_class sim_class_of(const sim_inst *inst);
const char *sim_class_name(sim_class c);

#endif
