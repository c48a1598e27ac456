/* The pool of host threads that run workgroups. */
#ifndef SIM_EXEC_POOL_H
#define SIM_EXEC_POOL_H

#include <stdbool.h>

/* Threads of the pool: OCHRE_SIM_THREADS, or the CPUs of the process; 1 when deterministic. */
int sim_pool_size(void);
/* OCHRE_SIM_DETERMINISTIC: one order for everything. Callers that queue work run it where it is queued. */
bool sim_deterministic(void);
/* A launch tells on stderr that it goes on, first after so many seconds (10), then each time it has taken twice as long. */
void sim_pool_sign_after(double seconds);

#endif
