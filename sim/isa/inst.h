/* A decoded instruction: what the bytes say, before any meaning. The decoder (decode.c, one file an encoding format) fills
 * it from our own tables; everything after it works on these fields and never looks at bytes again. */
#ifndef SIM_ISA_INST_H
#define SIM_ISA_INST_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Instruction sets that differ in encoding or meaning. gfx1100 to 1103 are one, gfx1150 to 1153 one, gfx1200 and 1201 one;
 * gfx1250 has its place reserved. */
typedef enum sim_isa {
    SIM_GFX906, SIM_GFX908, SIM_GFX90A, SIM_GFX942, SIM_GFX950, SIM_GFX1030, SIM_GFX1100, SIM_GFX1150, SIM_GFX1200,
    SIM_GFX1250, SIM_N_ISA
} sim_isa;
#define SIM_BIT(isa) (1u << (isa))
#define SIM_GCN (SIM_BIT(SIM_GFX906) | SIM_BIT(SIM_GFX908) | SIM_BIT(SIM_GFX90A) | SIM_BIT(SIM_GFX942) | SIM_BIT(SIM_GFX950))
#define SIM_GFX11 (SIM_BIT(SIM_GFX1100) | SIM_BIT(SIM_GFX1150))
#define SIM_GFX10_ON (SIM_BIT(SIM_GFX1030) | SIM_GFX11 | SIM_BIT(SIM_GFX1200) | SIM_BIT(SIM_GFX1250))

typedef enum sim_format {
    SIM_SOP1, SIM_SOP2, SIM_SOPC, SIM_SOPK, SIM_SOPP, SIM_SMEM,
    SIM_VOP1, SIM_VOP2, SIM_VOPC, SIM_VOP3, SIM_VOP3SD, SIM_VOP3P, SIM_VOP3PX2, SIM_VOPD, SIM_VINTERP, SIM_LDSDIR,
    SIM_DS, SIM_FLAT, SIM_GLOBAL, SIM_SCRATCH, SIM_MUBUF, SIM_MTBUF, SIM_MIMG, SIM_EXP, SIM_N_FORMAT
} sim_format; /* gfx12's VBUFFER, VIMAGE, VSAMPLE, VFLAT, ... decode to the same formats: MUBUF or MTBUF, MIMG, FLAT, ... */

/* What the bits of an operand mean; a constant is converted by it. PK_*: packed in 32 bits or in a tuple of registers. */
typedef enum sim_type {
    SIM_T_ANY, SIM_T_B8, SIM_T_B16, SIM_T_B32, SIM_T_B64, SIM_T_B96, SIM_T_B128, SIM_T_BN,
    SIM_T_U8, SIM_T_U16, SIM_T_U24, SIM_T_U32, SIM_T_U64, SIM_T_I8, SIM_T_I16, SIM_T_I24, SIM_T_I32, SIM_T_I64,
    SIM_T_F16, SIM_T_BF16, SIM_T_F32, SIM_T_F64, SIM_T_FP8, SIM_T_BF8, SIM_T_FP6, SIM_T_BF6, SIM_T_FP4,
    SIM_T_PK_F16, SIM_T_PK_BF16, SIM_T_PK_U16, SIM_T_PK_I16, SIM_T_PK_F32, SIM_T_PK_B32, SIM_T_PK_8, SIM_T_PK_4,
    SIM_T_M64, /* a lane mask: 32 or 64 bits by the wave size */
    SIM_T_MATRIX, SIM_T_RSRC, SIM_N_TYPE
} sim_type;

/* Scalar register numbers, the same for every target whatever its encoding. NULL reads 0; a write to it goes nowhere. */
enum {
    SIM_S_FLAT_SCRATCH_LO = 102, /* gfx9 only: there 102..105 are not general registers */
    SIM_S_XNACK_MASK_LO = 104,
    SIM_S_VCC_LO = 106, SIM_S_VCC_HI = 107,
    SIM_S_TTMP0 = 108, /* .. 123 */
    SIM_S_M0 = 124, SIM_S_NULL = 125, SIM_S_EXEC_LO = 126, SIM_S_EXEC_HI = 127,
    /* not registers of the file: read through sim_special_read, never written (SCC excepted, by instructions' own means) */
    SIM_S_SHARED_BASE = 128, SIM_S_SHARED_LIMIT, SIM_S_PRIVATE_BASE, SIM_S_PRIVATE_LIMIT, SIM_S_POPS,
    SIM_S_VCCZ, SIM_S_EXECZ, SIM_S_SCC, SIM_S_FLAT_SCR_LO /* gfx12 src_flat_scratch_base */, SIM_S_FLAT_SCR_HI,
    SIM_N_SREG
};

typedef enum sim_kind {
    SIM_K_NONE,
    SIM_K_VGPR,   /* reg 0..255 vector registers, 256..511 accumulation registers (one file) */
    SIM_K_SGPR,   /* reg: scalar register number above, specials included */
    SIM_K_CONST,  /* value holds the bits, already converted to `type` and, for 64-bit types, extended by its rules */
    SIM_K_LDS_DIRECT
} sim_kind;

typedef struct sim_operand {
    uint8_t kind;      /* sim_kind */
    uint8_t type;      /* sim_type */
    uint16_t reg;
    uint8_t n_dwords;  /* registers it spans, at least 1 */
    bool literal;      /* CONST from a literal dword rather than an inline constant */
    bool neg, abs;     /* float modifiers of VOP3 and DPP/SDWA; for VOP3P neg is neg_lo */
    bool neg_hi;       /* VOP3P */
    bool hi;           /* 16-bit operand in the register's upper half: op_sel, or true16's .h; for VOP3P op_sel */
    bool opsel_hi;     /* VOP3P: where the high half of the operation comes from */
    uint8_t sdwa_sel;  /* SDWA: 0..3 byte, 4,5 word, 6 dword */
    bool sdwa_sext;
    uint64_t value;
} sim_operand;

typedef enum sim_lanes { SIM_LANES_PLAIN, SIM_LANES_DPP16, SIM_LANES_DPP8, SIM_LANES_SDWA } sim_lanes;

typedef struct sim_row sim_row;

typedef struct sim_inst {
    const sim_row *row;    /* NULL: not an instruction of this target */
    const char *mnemonic;  /* as an assembler writes it, with no _e32/_e64 suffix: "v_add_f32" */
    const char *meaning;   /* AMD's name in this target's manual, upper case, no encoding suffix: "V_ADD_F32" */
    uint32_t offset;       /* bytes from the start of the code */
    uint32_t words[6];     /* the encoding */
    uint8_t n_words;
    uint8_t format;        /* sim_format */
    uint16_t opcode;
    uint8_t isa;           /* sim_isa */

    /* Operands by role; kind NONE where the instruction has none.
     *  VALU: dst, sdst (mask or carry out: VCC or SGPR), src[0..2]; the carry or mask in of VOP2's forms is src[2].
     *        V_FMAC and alike do not list the destination as a source; FMAMK/FMAAK: the literal is src[1] or src[2].
     *        V_DIV_FMAS reads VCC besides (no operand says so); gfx9's V_CMPX writes EXEC besides sdst.
     *        VOP3's op_sel[i] is src[i].hi even where there is no source i (fp8 byte selects), op_sel[3] is dst_hi.
     *  SALU: dst, src[0..1] (src[2] for FMAAK and FMAMK); simm16 for SOPK and SOPP. SOPK's compares, SETREG and waits read
     *        their register: it is src[0].
     *  SMEM: dst (or data for stores), base (sbase), soffset, offset.
     *  FLAT, GLOBAL, SCRATCH: dst, addr (vaddr), saddr, data, offset.
     *        Atomics of every memory format have data, and dst too if they return the old value.
     *  DS: dst, addr, data, data1, offset (offset0), offset1.
     *  MUBUF, MTBUF: dst or data (vdata), addr (vaddr), base (srsrc), soffset, offset.
     *  MIMG: dst or data, vaddr[n_vaddr] (a register each; gfx9 does not encode the dimension: 4 there), base (srsrc), samp.
     *        Opcodes from 256 are gfx12's VSAMPLE.
     *  VOP3PX2: src[0..2] and scale[0..1]. */
    sim_operand dst, sdst, src[3];
    sim_operand addr, saddr, data, data1, base, soffset, samp, scale[2];
    sim_operand vaddr[13];
    uint8_t n_vaddr;
    int32_t offset_imm;    /* immediate offset, sign-extended where the format says so */
    uint8_t offset1;       /* DS */
    bool two_offsets;      /* DS: two addresses, offset_imm and offset1 in units of the data (times 64 for st64) */
    int32_t simm16;        /* SOPK, SOPP (sign-extended) */

    bool clamp;
    uint8_t omod;          /* 0, 1: *2, 2: *4, 3: /2 */
    bool dst_hi;           /* op_sel[3], or true16 .h destination */
    uint8_t lanes;         /* sim_lanes: a permutation or selection on src0 */
    uint16_t dpp_ctrl;     /* DPP16 */
    uint8_t row_mask, bank_mask;
    bool bound_ctrl, fetch_inactive;
    uint8_t dpp8[8];
    uint8_t sdwa_dst_sel, sdwa_dst_unused; /* unused: 0 pad, 1 sext, 2 preserve */
    uint8_t cbsz, abid, blgp;              /* MFMA */
    bool index_key[4];                     /* SWMMAC: op_sel */
    uint8_t bitop3;                        /* V_BITOP3: the truth table, at index S0 << 2 | S1 << 1 | S2 */

    bool glc, slc, dlc, scc_bit, nv, lds, gds, offen, idxen, tfe, lwe, unorm, a16, d16, r128, sve;
    uint8_t scope, th;     /* gfx12 cache policy; older targets: derived from glc/slc/dlc/sc0/sc1 by the consumer */
    uint8_t buf_format, dmask, dim;
    bool is_store, is_atomic; /* of memory formats */

    const struct sim_inst *dual; /* VOPD: this is X, dual is Y (owned by the caller's array: see sim_decode) */
} sim_inst;

/* A row of a decoding table: an instruction of one or more targets in one format. The tables are
 * sim/isa/tables/<format>.def. */
struct sim_row {
    const char *mnemonic, *meaning;
    uint8_t format;
    uint16_t opcode;
    uint32_t isas; /* SIM_BIT set */
};

/* Decodes one instruction at code[pos .. n_bytes). out_y receives a VOPD's second half and must outlive *out_x.
 * CORRUPT: bytes end inside it, or no such encoding on this target; the message has the offset and the words. Never reads
 * outside the buffer, never crashes, whatever the bytes. */
och_status sim_decode(sim_isa isa, unsigned wave_size, const uint8_t *code, size_t n_bytes, size_t pos, sim_inst *out_x,
                      sim_inst *out_y, och_err *err) OCH_WARN_UNUSED;

/* Assembler text as LLVM prints it, for reports and for the comparison with LLVM in tests. Writes at most n bytes. */
const char *sim_inst_print(const sim_inst *inst, unsigned wave_size, char *buf, size_t n);

/* All rows of the tables, for generated documentation and coverage tests; NULL past the end. */
const sim_row *sim_row_at(size_t i);

#endif
