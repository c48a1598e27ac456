/* Operands from fields: canonical register numbers, and constants in their operand's type. */
#include "isa/decode_int.h"

sim_operand *sim_role_operand(sim_inst *inst, unsigned role) {
    switch (role) {
    case SIM_R_DST: return &inst->dst;
    case SIM_R_SDST: return &inst->sdst;
    case SIM_R_SRC0: return &inst->src[0];
    case SIM_R_SRC1: return &inst->src[1];
    case SIM_R_SRC2: return &inst->src[2];
    case SIM_R_ADDR: return &inst->addr;
    case SIM_R_SADDR: return &inst->saddr;
    case SIM_R_DATA: return &inst->data;
    case SIM_R_DATA1: return &inst->data1;
    case SIM_R_BASE: return &inst->base;
    case SIM_R_SOFF: return &inst->soffset;
    case SIM_R_SAMP: return &inst->samp;
    case SIM_R_SCALE0: return &inst->scale[0];
    case SIM_R_SCALE1: return &inst->scale[1];
    default: return NULL;
    }
}

static sim_operand plain(const sim_decoder *d, const sim_row_op *op, sim_kind kind, unsigned reg) {
    unsigned n = op->type == SIM_T_M64 ? d->wave_size / 32 : op->n;
    return (sim_operand){.kind = (uint8_t)kind, .type = op->type, .reg = (uint16_t)reg, .n_dwords = (uint8_t)(n ? n : 1),
                         .sdwa_sel = 6};
}

sim_operand sim_make_vgpr(const sim_decoder *d, const sim_row_op *op, unsigned reg) {
    return plain(d, op, SIM_K_VGPR, reg);
}

sim_operand sim_make_sgpr(sim_decoder *d, const sim_row_op *op, unsigned raw) {
    unsigned reg = raw & 127;
    if (reg == 124 || reg == 125) {
        if (d->gen >= 11) reg = reg == 124 ? SIM_S_NULL : SIM_S_M0;
        else if (d->gen == 9 && reg == 125) d->bad = true; /* no NULL there */
    }
    return plain(d, op, SIM_K_SGPR, reg);
}

sim_operand sim_make_vcc(const sim_decoder *d, const sim_row_op *op) {
    return plain(d, op, SIM_K_SGPR, SIM_S_VCC_LO);
}

sim_operand sim_make_exec(const sim_decoder *d, const sim_row_op *op) {
    return plain(d, op, SIM_K_SGPR, SIM_S_EXEC_LO);
}

/* 64 bits wide, whatever the number means. */
static bool is_wide(const sim_row_op *op) {
    switch (op->type) {
    case SIM_T_B64:
    case SIM_T_U64:
    case SIM_T_I64:
    case SIM_T_F64:
    case SIM_T_M64: return true;
    default: return false;
    }
}

static uint64_t int_const(const sim_row_op *op, int32_t v) {
    if (is_wide(op)) return (uint64_t)(int64_t)v;
    return (uint32_t)v; /* 16-bit types read the low half */
}

/* Codes 240..248: 0.5, -0.5, 1, -1, 2, -2, 4, -4, 1/(2 pi). */
static uint64_t float_const(const sim_row_op *op, unsigned code) {
    static const uint16_t f16[9] = {0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118};
    static const uint32_t f32[9] = {0x3f000000, 0xbf000000, 0x3f800000, 0xbf800000, 0x40000000,
                                    0xc0000000, 0x40800000, 0xc0800000, 0x3e22f983};
    static const uint64_t f64[9] = {0x3fe0000000000000, 0xbfe0000000000000, 0x3ff0000000000000,
                                    0xbff0000000000000, 0x4000000000000000, 0xc000000000000000,
                                    0x4010000000000000, 0xc010000000000000, 0x3fc45f306dc9c882};
    unsigned i = code - 240;
    if (op->half && op->type != SIM_T_BF16) return f16[i]; /* integers of 16 bits too */
    switch (op->type) {
    case SIM_T_F16:
    case SIM_T_PK_F16: return f16[i]; /* the low half; the high half is 0 */
    case SIM_T_BF16:
    case SIM_T_PK_BF16: return f32[i] >> 16;
    default: return is_wide(op) ? f64[i] : f32[i];
    }
}

sim_operand sim_make_imm(const sim_row_op *op, uint64_t value) {
    return (sim_operand){.kind = SIM_K_CONST, .type = op->type, .n_dwords = op->n ? op->n : 1, .value = value, .sdwa_sel = 6};
}

/* A literal of a 64-bit float is its high dword; signed integers are sign-extended, all else zero-extended. */
sim_operand sim_make_literal(const sim_row_op *op, uint32_t literal) {
    uint64_t v = literal;
    if (op->type == SIM_T_F64) v <<= 32;
    else if (op->type == SIM_T_I64) v = (uint64_t)(int64_t)(int32_t)literal;
    sim_operand o = sim_make_imm(op, v);
    o.literal = true;
    return o;
}

sim_operand sim_make_ssrc(sim_decoder *d, const sim_row_op *op, unsigned raw) {
    if (raw < 128) return sim_make_sgpr(d, op, raw);
    if (raw <= 192) return sim_make_imm(op, int_const(op, (int)raw - 128));
    if (raw <= 208) return sim_make_imm(op, int_const(op, 192 - (int)raw));
    if (raw >= 240 && raw <= 248) return sim_make_imm(op, float_const(op, raw));
    unsigned special = 0;
    switch (raw) {
    case 235: special = SIM_S_SHARED_BASE; break;
    case 236: special = SIM_S_SHARED_LIMIT; break;
    case 237: special = SIM_S_PRIVATE_BASE; break;
    case 238: special = SIM_S_PRIVATE_LIMIT; break;
    case 239: special = SIM_S_POPS; break;
    case 251: special = SIM_S_VCCZ; break;
    case 252: special = SIM_S_EXECZ; break;
    case 253: special = SIM_S_SCC; break;
    case 254:
        if (d->gen <= 10) return plain(d, op, SIM_K_LDS_DIRECT, 0);
        break;
    case 255: return sim_make_literal(op, sim_take_literal(d));
    default: break;
    }
    if (special) return plain(d, op, SIM_K_SGPR, special);
    d->bad = true;
    return plain(d, op, SIM_K_NONE, 0);
}

sim_operand sim_make_src(sim_decoder *d, const sim_row_op *op, unsigned raw) {
    return raw >= 256 ? sim_make_vgpr(d, op, raw - 256) : sim_make_ssrc(d, op, raw);
}
