/* The text that instructions are printed into, and the pieces that the printer's files share. */
#ifndef SIM_ISA_PRINT_TEXT_H
#define SIM_ISA_PRINT_TEXT_H

#include "isa/decode_row.h"

typedef struct sim_text {
    char *at, *end; /* end: the last byte, kept for the terminator */
    unsigned n_operands;
} sim_text;

void sim_put(sim_text *t, const char *fmt, ...) OCH_PRINTF(2, 3);
/* ", " or, before the first operand, " ". */
void sim_put_sep(sim_text *t);

/* The immediate of SOPP and SOPK, where an assembler has names for it. */
void sim_put_simm16(sim_text *t, const sim_inst *x);
void sim_put_hwreg(sim_text *t, const sim_inst *x);
void sim_put_message(sim_text *t, const sim_inst *x, unsigned imm);
void sim_put_swizzle(sim_text *t, unsigned v);
/* Cache policy of the memory formats. */
void sim_put_cache(sim_text *t, const sim_inst *x);

#endif
