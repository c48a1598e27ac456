/* The decoding tables as the decoder sees them: a row with its operands, and the index from opcode to row. */
#ifndef SIM_ISA_DECODE_ROW_H
#define SIM_ISA_DECODE_ROW_H

#include "isa/inst.h"

/* What an operand is for. */
typedef enum sim_role {
    SIM_R_NONE, SIM_R_DST, SIM_R_SDST, SIM_R_SRC0, SIM_R_SRC1, SIM_R_SRC2, SIM_R_ADDR, SIM_R_SADDR, SIM_R_DATA, SIM_R_DATA1,
    SIM_R_BASE, SIM_R_SOFF, SIM_R_SAMP, SIM_R_SCALE0, SIM_R_SCALE1
} sim_role;

/* How its field is read. */
typedef enum sim_class {
    SIM_C_ANY,  /* as the format says: a source, a scalar register */
    SIM_C_V,    /* a vector register */
    SIM_C_VACC, /* a vector or, by a bit of the encoding, an accumulation register */
    SIM_C_ACC,  /* an accumulation register */
    SIM_C_S,    /* a scalar register where the format has a vector register */
    SIM_C_VCC,  /* VCC, with no field of its own */
    SIM_C_VCCX, /* what V_CMPX writes in the short form: VCC (and EXEC) on gfx9, EXEC later */
    SIM_C_EXEC,
    SIM_C_LIT,  /* the literal after the instruction */
    SIM_C_IMM   /* the field's bits are the value */
} sim_class;

enum {
    SIM_F_SUFFIX = 1,  /* the assembler's name carries _e32 or _e64 */
    SIM_F_LITERAL = 2, /* always has a literal */
    SIM_F_STORE = 4,
    SIM_F_ATOMIC = 8,
    SIM_F_MFMA = 16
};

typedef struct sim_row_op {
    uint8_t role, type;
    uint8_t n;    /* dwords of registers */
    bool half;    /* 16 bits: a register's half can be named */
    uint8_t cls;
} sim_row_op;

typedef struct sim_entry {
    sim_row row; /* first: a sim_inst's row is its entry */
    uint8_t flags;
    sim_row_op op[6];
} sim_entry;

extern const sim_entry sim_entries[];
extern const size_t sim_n_entries;

/* The entry of an opcode, or NULL. `format` is the encoding's: VOP3 for VOP3SD too; MIMG opcodes from 256 are gfx12's
 * VSAMPLE. */
const sim_entry *sim_entry_find(sim_isa isa, sim_format format, unsigned opcode);

static inline const sim_entry *sim_entry_of(const sim_inst *inst) {
    return (const sim_entry *)(const void *)inst->row;
}

/* 9, 10, 11 or 12: which generation's layouts a target has. */
unsigned sim_isa_gen(sim_isa isa);
const char *sim_isa_name(sim_isa isa);

#endif
