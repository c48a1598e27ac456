/* Vector clocks, sparse: what is known of which waves. A set is immutable and shared; NULL is the empty one. */
#ifndef SIM_EXEC_CHECK_CLOCK_H
#define SIM_EXEC_CHECK_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sim_clock {
    uint32_t refs;
    uint32_t n;
    struct {
        uint32_t wave, time; /* by wave, ascending; time of what is known last */
    } at[];
} sim_clock;

sim_clock *sim_clock_keep(sim_clock *c);
void sim_clock_drop(sim_clock *c);
uint32_t sim_clock_time(const sim_clock *c, uint32_t wave);
/* *to becomes the union. False: out of memory, *to is as it was. */
bool sim_clock_join(sim_clock **to, sim_clock *from);
bool sim_clock_join_wave(sim_clock **to, uint32_t wave, uint32_t time);

#endif
