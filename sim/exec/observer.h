/* Observers: what watches a launch instruction by instruction (counters, optional checks). A launch with observers runs on
 * one host thread, workgroups in dispatch order; one without pays nothing. */
#ifndef SIM_EXEC_OBSERVER_H
#define SIM_EXEC_OBSERVER_H

#include "exec/launch.h"
#include "exec/wave.h"

typedef struct sim_observer sim_observer;
struct sim_observer {
    /* All may be NULL. enter and leave: the host thread turns to this group, or away from it (a group that waits is left and
     * entered again). before: false stops the wave, after sim_wave_fault. after: the instruction has run without a fault. */
    void (*group_start)(sim_observer *o, sim_group *g);
    void (*group_enter)(sim_observer *o, sim_group *g);
    void (*group_leave)(sim_observer *o, sim_group *g);
    void (*group_end)(sim_observer *o, sim_group *g);
    bool (*before)(sim_observer *o, sim_wave *w, const sim_uop *u);
    bool (*after)(sim_observer *o, sim_wave *w, const sim_uop *u);
    /* The launch is over, well or not; frees the observer. */
    void (*end)(sim_observer *o, const sim_launch_state *s);
};

#define SIM_MAX_OBSERVERS 6

/* Makes the observers that the environment asks for (OCHRE_SIM_COUNT, OCHRE_SIM_CHECK); *out_n 0: none. INVALID: an unknown
 * name; the message lists the known ones. */
och_status sim_observers_create(const sim_launch *l, sim_observer **out, int *out_n, och_err *err) OCH_WARN_UNUSED;

/* The wait that stands before a uop (s_waitcnt and its like have no uop of their own): outstanding loads and stores allowed
 * after it, SIM_NO_WAIT where none is asked for. Of all waits since the uop before. */
#define SIM_NO_WAIT 255
typedef enum sim_scope { SIM_SCOPE_WAVE, SIM_SCOPE_GROUP, SIM_SCOPE_DEVICE, SIM_SCOPE_SYSTEM } sim_scope;
typedef struct sim_wait {
    uint8_t loads, stores, lds, scalar; /* vmcnt or loadcnt; vscnt or storecnt (gfx9: vmcnt counts both); lgkm or ds, km */
    uint8_t wb, inv; /* caches written back and invalidated there: sim_scope; SIM_NO_WAIT: none */
} sim_wait;
sim_wait sim_program_wait(const sim_program *p, const sim_uop *u);

#endif
