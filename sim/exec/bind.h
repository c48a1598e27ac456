/* Binding: from a decoded instruction to a uop. Each class of instructions has one function that knows the meanings of its
 * class (rows in sim/isa/<class>.def); bind.c asks them in turn. */
#ifndef SIM_EXEC_BIND_H
#define SIM_EXEC_BIND_H

#include "exec/wave.h"

typedef struct sim_binder sim_binder;

typedef enum sim_bound {
    SIM_BOUND_NO,      /* not of this class, or no meaning here: the next class is asked; none: unmodelled */
    SIM_BOUND_UOP,     /* *out_u is complete but for index and target */
    SIM_BOUND_NOTHING, /* the instruction has no effect on results: no uop */
    SIM_BOUND_FAILED   /* out of memory: err is set */
} sim_bound;

/* How faithfully a row's result equals the hardware's. */
typedef enum sim_exactness { SIM_EXACT, SIM_APPROX /* bound in ULP or absolute, in the row */ } sim_exactness;

typedef struct sim_meaning { /* what a class says of a meaning's name, for reports and documentation */
    const char *name;
    sim_exactness exactness;
    const char *bound; /* "1 ULP", ...; NULL when exact */
} sim_meaning;

/* For class functions: the highest instruction set of the host the handlers may use: 0 generic, 1 AVX2, 2 AVX-512. */
int sim_host_level(void);
unsigned sim_bind_lanes(const sim_binder *b);
sim_isa sim_bind_isa(const sim_binder *b);

/* Fills u->s[i], u->sk[i] from an operand of n_rows dwords (a constant gets its rows). False: out of memory. */
bool sim_bind_src(sim_binder *b, sim_uop *u, int i, const sim_operand *op, unsigned n_rows);
/* The byte offset of a vector register's row. */
uint32_t sim_bind_row(const sim_binder *b, uint32_t reg);

/* Keeps two uops for the one being bound: it finds them at u->core when it runs. */
void sim_bind_halves(sim_binder *b, const sim_uop *x, const sim_uop *y);

/* The classes. Each is defined in the file named after it. */
sim_bound sim_bind_salu(sim_binder *b, const sim_inst *inst, sim_uop *out_u);   /* SOP1 SOP2 SOPC SOPK, SOPP but control */
sim_bound sim_bind_valu(sim_binder *b, const sim_inst *inst, sim_uop *out_u);   /* VOP1 VOP2 VOPC VOP3 VOP3SD VOP3P VOPD */
sim_bound sim_bind_cross(sim_binder *b, const sim_inst *inst, sim_uop *out_u);  /* readlane, permlane, ... (lanes meet) */
sim_bound sim_bind_matrix(sim_binder *b, const sim_inst *inst, sim_uop *out_u); /* WMMA, SWMMAC, MFMA, SMFMAC, acc moves */
sim_bound sim_bind_lds(sim_binder *b, const sim_inst *inst, sim_uop *out_u);    /* DS */
sim_bound sim_bind_memory(sim_binder *b, const sim_inst *inst, sim_uop *out_u); /* FLAT GLOBAL SCRATCH MUBUF MTBUF SMEM */
sim_bound sim_bind_image(sim_binder *b, const sim_inst *inst, sim_uop *out_u);  /* MIMG */
sim_bound sim_bind_control(sim_binder *b, const sim_inst *inst, sim_uop *out_u); /* branches, barriers, end, sleep, messages */

/* The meanings of each class, for documentation and coverage; false past the end. */
bool sim_meaning_at_salu(size_t i, sim_meaning *out);
bool sim_meaning_at_valu(size_t i, sim_meaning *out);
bool sim_meaning_at_cross(size_t i, sim_meaning *out);
bool sim_meaning_at_matrix(size_t i, sim_meaning *out);
bool sim_meaning_at_lds(size_t i, sim_meaning *out);
bool sim_meaning_at_memory(size_t i, sim_meaning *out);
bool sim_meaning_at_image(size_t i, sim_meaning *out);
bool sim_meaning_at_control(size_t i, sim_meaning *out);

#endif
