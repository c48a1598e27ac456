/* OCHRE_SIM_CHECK=barrier: a barrier that some waves of the workgroup never reach. The hardware does not wait for a wave that
 * has ended, so that such a kernel runs; the language calls it undefined, and another compiler or target may hang. */
#include "base/alloc.h"
#include "exec/observers.h"

#include <string.h>

static bool before(sim_observer *o, sim_wave *w, const sim_uop *u) {
    (void)o;
    if (!u->inst || u->inst->meaning[0] != 'S') return true;
    const char *m = u->inst->meaning;
    const sim_group *g = w->group;
    if (!strncmp(m, "S_ENDPGM", 8) && g->n_signalled > 0) {
        sim_wave_fault(w, u, SIM_FAULT_DEADLOCK, -1, 0, 0, false,
                       "this wave ends while others of its workgroup wait at a barrier for it");
        return false;
    }
    if ((!strcmp(m, "S_BARRIER") || !strncmp(m, "S_BARRIER_SIGNAL", 16)) && g->n_live < g->n_waves) {
        sim_wave_fault(w, u, SIM_FAULT_DEADLOCK, -1, 0, 0, false,
                       "a barrier that waves of this workgroup which have ended never reached");
        return false;
    }
    return true;
}

static void end(sim_observer *o, const sim_launch_state *s) {
    (void)s;
    och_free(o);
}

och_status sim_check_barrier_create(const sim_launch *l, sim_observer **out, och_err *err) {
    (void)l;
    *out = och_calloc(1, sizeof **out);
    if (!*out) return och_err_nomem(err, sizeof **out, "a check");
    **out = (sim_observer){.before = before, .end = end};
    return OCH_OK;
}
