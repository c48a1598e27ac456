/* Running waves outside a launch: for tests of single instructions, and what the launcher is made of. */
#ifndef SIM_EXEC_RUN_H
#define SIM_EXEC_RUN_H

#include "exec/program.h"

/* A lone wave in a group of its own: registers 0, all lanes on, MODE as HIP sets it (round to nearest even, denormals
 * allowed, DX10_CLAMP and IEEE where the target has them). n_vgprs rows (512 with accumulation registers). space may be NULL
 * for programs that touch no memory. */
och_status sim_wave_create(sim_isa isa, unsigned lanes, uint32_t n_vgprs, uint32_t lds_bytes, uint32_t scratch_lane_bytes,
                           const sim_space *space, sim_wave **out_w, och_err *err) OCH_WARN_UNUSED;
void sim_wave_destroy(sim_wave *w);

/* Runs it from the program's entry to s_endpgm. DEVICE: it faulted (err has the report). max_instructions: 0 is 2^32. */
och_status sim_run_wave(sim_program *p, sim_wave *w, uint64_t max_instructions, och_err *err) OCH_WARN_UNUSED;

/* A thread that runs waves has the host's floating-point control word at its default: enter sets it and gives what it was. */
uint32_t sim_run_enter(void);
void sim_run_leave(uint32_t old);

/* Runs a wave until it leaves the loop: w->state says why. The control word is the default before and after. */
void sim_wave_resume(sim_wave *w, sim_worker *worker, int64_t slice);

/* The instruction that the wave waits at or runs next; NULL: none. */
const sim_inst *sim_wave_stands_at(const sim_wave *w);

/* A report of a fault: kernel, instruction, lane, address and what lies there or around it. */
void sim_fault_describe(const sim_wave *w, const char *kernel_name, const sim_space *space, char *buf, size_t n);
const char *sim_fault_name(sim_fault_kind kind);

#endif
