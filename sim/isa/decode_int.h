/* What the decoder's files share: the instruction being read, and how its operands are made. */
#ifndef SIM_ISA_DECODE_INT_H
#define SIM_ISA_DECODE_INT_H

#include "isa/decode_row.h"

typedef struct sim_decoder {
    sim_isa isa;
    unsigned gen;        /* sim_isa_gen */
    unsigned wave_size;
    uint32_t w[6];       /* dwords from the start of the instruction, zeros past the end of the code */
    unsigned n_have;     /* how many of them the code has */
    unsigned n;          /* dwords taken so far; more than n_have: the code ends inside the instruction */
    bool bad;            /* no such encoding */
    bool has_literal;
    uint32_t literal;
} sim_decoder;

#define SIM_BITS(word, hi, lo) ((word) >> (lo) & (0xffffffffu >> (31 - (hi) + (lo))))

static inline int32_t sim_sext(uint32_t v, unsigned bits) {
    return (int32_t)(v << (32 - bits)) >> (32 - bits);
}

static inline uint32_t sim_take(sim_decoder *d) {
    return d->n < 6 ? d->w[d->n++] : 0;
}
static inline uint32_t sim_take_literal(sim_decoder *d) {
    if (!d->has_literal) {
        d->literal = sim_take(d);
        d->has_literal = true;
    }
    return d->literal;
}

/* The operand of the instruction that a role names; NULL for none. */
sim_operand *sim_role_operand(sim_inst *inst, unsigned role);

/* Operands from raw fields. `op` gives type and width. */
sim_operand sim_make_vgpr(const sim_decoder *d, const sim_row_op *op, unsigned reg);
sim_operand sim_make_sgpr(sim_decoder *d, const sim_row_op *op, unsigned raw); /* 0..127 */
sim_operand sim_make_ssrc(sim_decoder *d, const sim_row_op *op, unsigned raw); /* 0..255 */
sim_operand sim_make_src(sim_decoder *d, const sim_row_op *op, unsigned raw);  /* 0..511 */
sim_operand sim_make_vcc(const sim_decoder *d, const sim_row_op *op);
sim_operand sim_make_exec(const sim_decoder *d, const sim_row_op *op);
sim_operand sim_make_literal(const sim_row_op *op, uint32_t literal);
sim_operand sim_make_imm(const sim_row_op *op, uint64_t value);

/* The formats. Each reads its dwords (w[0] is taken already), sets opcode, row and all fields, or d->bad. */
void sim_decode_salu(sim_decoder *d, sim_inst *x, sim_format f);
void sim_decode_smem(sim_decoder *d, sim_inst *x);
void sim_decode_vop12c(sim_decoder *d, sim_inst *x, sim_format f);
void sim_decode_vop3(sim_decoder *d, sim_inst *x);
void sim_decode_vop3p(sim_decoder *d, sim_inst *x);
void sim_decode_vop3px2(sim_decoder *d, sim_inst *x);
void sim_decode_vopd(sim_decoder *d, sim_inst *x, sim_inst *y);
void sim_decode_vinterp(sim_decoder *d, sim_inst *x);
void sim_decode_ldsdir(sim_decoder *d, sim_inst *x);
void sim_decode_ds(sim_decoder *d, sim_inst *x);
void sim_decode_flat(sim_decoder *d, sim_inst *x);
void sim_decode_buffer(sim_decoder *d, sim_inst *x, bool typed);
void sim_decode_image(sim_decoder *d, sim_inst *x, bool sample);
void sim_decode_exp(sim_decoder *d, sim_inst *x);

/* Sets row, names and opcode from the table; false and d->bad: there is none. */
bool sim_decode_row(sim_decoder *d, sim_inst *x, sim_format f, unsigned opcode);

#endif
