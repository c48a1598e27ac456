/* What the checks of ordering (race, weak) share: which waits and cache operations a wave passes on its way to a uop, and how
 * a target tells plain stores from those that the program made atomic. */
#ifndef SIM_EXEC_CHECK_ORDER_H
#define SIM_EXEC_CHECK_ORDER_H

#include "exec/observer.h"

/* Not an instruction: a link that the layout of the code needs. */
bool sim_check_is_link(const sim_uop *u);

/* The waits and cache operations between prev, which ran last in this wave (NULL: none), and u: those that stand before u,
 * unless a branch went past them. */
sim_wait sim_check_passed(const sim_wave *w, const sim_uop *prev, const sim_uop *u);

typedef enum sim_release {
    SIM_RELEASE_STORES, /* stores are waited for, a wave its own: gfx10 and later, waves of a workgroup on two CUs */
    SIM_RELEASE_GROUP,  /* the same, but a workgroup's operations stay in order: one CU */
    SIM_RELEASE_BACK    /* caches must be written back: gfx942, gfx950 */
} sim_release;
sim_release sim_check_release(const sim_kernel *k, sim_isa isa);

/* Atomic stores carry their scope in the instruction: elsewhere they look like plain ones. */
bool sim_check_marks_stores(sim_isa isa);

/* A load or store that goes past the caches that only some of the device's workgroups share, or an atomic. */
bool sim_check_device_coherent(const sim_inst *inst);

#endif
