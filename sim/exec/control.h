/* What program.c and the launcher need of control flow. */
#ifndef SIM_EXEC_CONTROL_H
#define SIM_EXEC_CONTROL_H

#include "exec/bind.h"

/* uop.flags of branches: the loop that this branch closes looks like waiting for memory that others write. */
#define SIM_UOP_SPIN 1

/* Tells the group that one of its waves ended: barriers no longer wait for it. */
void sim_group_wave_ended(sim_group *g);

/* Uops that are not instructions: a link to u->target; the end of known code; and an instruction under gfx9's relative
 * register mode, whose uop u->core points at. */
const sim_uop *sim_control_jump(sim_wave *w, const sim_uop *u);
const sim_uop *sim_control_off_end(sim_wave *w, const sim_uop *u);
const sim_uop *sim_control_indexed(sim_wave *w, const sim_uop *u);

/* A handler for u and the one or two uops after it, which end a loop: it returns what runs after the last of them. NULL:
 * none. u->core is then to hold u's own handler. The others stay as they are, for those who jump to them. */
sim_uop_fn *sim_control_fused(const sim_uop *u, unsigned lanes);

#endif
