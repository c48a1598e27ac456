/* An instruction as LLVM's disassembler writes it. */
#include "isa/print_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void sim_put(sim_text *t, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(t->at, (size_t)(t->end - t->at) + 1, fmt, ap);
    va_end(ap);
    if (n < 0) return;
    t->at = (size_t)n > (size_t)(t->end - t->at) ? t->end : t->at + n;
}

void sim_put_sep(sim_text *t) {
    sim_put(t, t->n_operands++ ? ", " : " ");
}

static void put_range(sim_text *t, const char *prefix, unsigned reg, unsigned n) {
    if (n <= 1) sim_put(t, "%s%u", prefix, reg);
    else sim_put(t, "%s[%u:%u]", prefix, reg, reg + n - 1);
}

static void put_pair(sim_text *t, const char *name, unsigned n, bool high) {
    if (n == 2 && !high) sim_put(t, "%s", name);
    else sim_put(t, "%s_%s", name, high ? "hi" : "lo");
}

static void put_sgpr(sim_text *t, const sim_inst *x, unsigned reg, unsigned n) {
    static const char *const specials[SIM_N_SREG - SIM_S_SHARED_BASE] = {
        "src_shared_base", "src_shared_limit", "src_private_base", "src_private_limit", "src_pops_exiting_wave_id",
        "src_vccz", "src_execz", "src_scc", "src_flat_scratch_base_lo", "src_flat_scratch_base_hi"};
    bool gfx9 = sim_isa_gen((sim_isa)x->isa) == 9;
    if (reg >= SIM_S_SHARED_BASE) sim_put(t, "%s", reg < SIM_N_SREG ? specials[reg - SIM_S_SHARED_BASE] : "?");
    else if (reg == SIM_S_M0) sim_put(t, "m0");
    else if (reg == SIM_S_NULL) sim_put(t, "null");
    else if (reg >= SIM_S_EXEC_LO) put_pair(t, "exec", n, reg == SIM_S_EXEC_HI);
    else if (reg == SIM_S_VCC_LO || reg == SIM_S_VCC_HI) put_pair(t, "vcc", n, reg == SIM_S_VCC_HI);
    else if (reg >= SIM_S_TTMP0) put_range(t, "ttmp", reg - SIM_S_TTMP0, n);
    else if (gfx9 && reg >= SIM_S_XNACK_MASK_LO) put_pair(t, "xnack_mask", n, reg & 1);
    else if (gfx9 && reg >= SIM_S_FLAT_SCRATCH_LO) put_pair(t, "flat_scratch", n, reg & 1);
    else put_range(t, "s", reg, n);
}

/* Inline constants by value; false: the value is none of the type's. */
static bool put_inline(sim_text *t, const sim_operand *o) {
    static const char *const names[9] = {"0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0", "0.15915494"};
    static const uint16_t f16[9] = {0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118};
    static const uint32_t f32[9] = {0x3f000000, 0xbf000000, 0x3f800000, 0xbf800000, 0x40000000,
                                    0xc0000000, 0x40800000, 0xc0800000, 0x3e22f983};
    static const uint64_t f64[9] = {0x3fe0000000000000, 0xbfe0000000000000, 0x3ff0000000000000,
                                    0xbff0000000000000, 0x4000000000000000, 0xc000000000000000,
                                    0x4010000000000000, 0xc010000000000000, 0x3fc45f306dc9c882};
    bool wide = o->type == SIM_T_F64 || o->type == SIM_T_B64 || o->type == SIM_T_U64 || o->type == SIM_T_I64 ||
                o->type == SIM_T_M64;
    bool half = o->type == SIM_T_F16 || o->type == SIM_T_PK_F16, bf = o->type == SIM_T_BF16 || o->type == SIM_T_PK_BF16;
    int64_t v = wide ? (int64_t)o->value : (int32_t)(uint32_t)o->value;
    if (o->literal && (o->type == SIM_T_F16 || o->type == SIM_T_BF16 || o->type == SIM_T_I16 || o->type == SIM_T_U16 ||
                       o->type == SIM_T_B16))
        v = (int16_t)o->value;
    if (v >= -16 && v <= 64) {
        sim_put(t, "%d", (int)v);
        return true;
    }
    for (int i = 0; i < 9; i++) {
        uint64_t f = wide ? f64[i] : half ? f16[i] : bf ? f32[i] >> 16 : f32[i];
        if (o->value != f) continue;
        sim_put(t, "%s", i == 8 && wide ? "0.15915494309189532" : names[i]);
        return true;
    }
    return false;
}

static void put_const(sim_text *t, const sim_operand *o) {
    uint64_t v = o->value;
    if (!o->literal) {
        if (!put_inline(t, o)) sim_put(t, "0x%llx", (unsigned long long)v);
        return;
    }
    char scratch[64];
    sim_text probe = {scratch, scratch + sizeof scratch - 1, 0};
    bool inlinable = put_inline(&probe, o);
    if (o->type == SIM_T_F64) v >>= 32;
    bool i16 = o->type == SIM_T_I16 || o->type == SIM_T_U16 || o->type == SIM_T_B16;
    v &= i16 ? 0xffff : 0xffffffff;
    sim_put(t, inlinable ? "lit(0x%llx)" : "0x%llx", (unsigned long long)v);
}

static void put_reg(sim_text *t, const sim_inst *x, const sim_operand *o) {
    switch (o->kind) {
    case SIM_K_VGPR: put_range(t, o->reg >= 256 ? "a" : "v", o->reg & 255, o->n_dwords); break;
    case SIM_K_SGPR: put_sgpr(t, x, o->reg, o->n_dwords); break;
    case SIM_K_LDS_DIRECT: sim_put(t, "src_lds_direct"); break;
    case SIM_K_CONST: put_const(t, o); break;
    default: sim_put(t, "off");
    }
}

/* gfx11 names the halves of registers. */
static bool names_halves(const sim_inst *x) {
    return sim_isa_gen((sim_isa)x->isa) == 11 && x->format != SIM_VOP3P && x->format != SIM_VOP3SD && x->format != SIM_VOPD;
}

static const sim_row_op *row_op(const sim_inst *x, unsigned role) {
    const sim_row_op *o = sim_entry_of(x)->op;
    for (int i = 0; i < 6; i++)
        if (o[i].role == role) return o + i;
    return NULL;
}

/* A source or destination of the vector ALU with its modifiers. */
static void put_valu(sim_text *t, const sim_inst *x, const sim_operand *o, unsigned role) {
    const sim_row_op *r = row_op(x, role);
    bool mods = x->format != SIM_VOP3P || strstr(x->mnemonic, "_mix");
    bool neg = mods && o->neg, abs = mods && o->abs, word = neg && !abs && o->kind == SIM_K_CONST;
    sim_put_sep(t);
    if (word) sim_put(t, "neg(");
    else if (neg) sim_put(t, "-");
    if (abs) sim_put(t, "|");
    if (o->sdwa_sext) sim_put(t, "sext(");
    put_reg(t, x, o);
    if (o->kind == SIM_K_VGPR && r && r->half && names_halves(x)) sim_put(t, o->hi ? ".h" : ".l");
    if (o->sdwa_sext) sim_put(t, ")");
    if (abs) sim_put(t, "|");
    if (word) sim_put(t, ")");
}

static void put_list(sim_text *t, const char *name, const bool *bits, int n) {
    sim_put(t, " %s:[", name);
    for (int i = 0; i < n; i++) sim_put(t, i ? ",%d" : "%d", bits[i]);
    sim_put(t, "]");
}

static bool any(const bool *bits, int n) {
    for (int i = 0; i < n; i++)
        if (bits[i]) return true;
    return false;
}

static int n_sources(const sim_inst *x) {
    int n = 0;
    for (int i = 0; i < 3; i++)
        if (x->src[i].kind) n = i + 1;
    return n;
}

static void put_dpp(sim_text *t, const sim_inst *x) {
    bool gfx90 = sim_isa_gen((sim_isa)x->isa) == 9;
    if (x->lanes == SIM_LANES_DPP8) {
        sim_put(t, " dpp8:[");
        for (int i = 0; i < 8; i++) sim_put(t, i ? ",%d" : "%d", x->dpp8[i]);
        sim_put(t, "]");
        if (x->fetch_inactive) sim_put(t, " fi:1");
        return;
    }
    unsigned c = x->dpp_ctrl;
    if (c <= 0xff) sim_put(t, " quad_perm:[%u,%u,%u,%u]", c & 3, c >> 2 & 3, c >> 4 & 3, c >> 6 & 3);
    else if (c >= 0x101 && c <= 0x10f) sim_put(t, " row_shl:%u", c & 15);
    else if (c >= 0x111 && c <= 0x11f) sim_put(t, " row_shr:%u", c & 15);
    else if (c >= 0x121 && c <= 0x12f) sim_put(t, " row_ror:%u", c & 15);
    else if (c == 0x130) sim_put(t, " wave_shl:1");
    else if (c == 0x134) sim_put(t, " wave_rol:1");
    else if (c == 0x138) sim_put(t, " wave_shr:1");
    else if (c == 0x13c) sim_put(t, " wave_ror:1");
    else if (c == 0x140) sim_put(t, " row_mirror");
    else if (c == 0x141) sim_put(t, " row_half_mirror");
    else if (c == 0x142 && gfx90) sim_put(t, " row_bcast:15");
    else if (c == 0x143 && gfx90) sim_put(t, " row_bcast:31");
    else if (c >= 0x150 && c <= 0x15f) sim_put(t, gfx90 ? " row_newbcast:%u" : " row_share:%u", c & 15);
    else if (c >= 0x160 && c <= 0x16f) sim_put(t, " row_xmask:%u", c & 15);
    else sim_put(t, " dpp_ctrl:0x%x", c);
    sim_put(t, " row_mask:0x%x bank_mask:0x%x", x->row_mask, x->bank_mask);
    if (x->bound_ctrl) sim_put(t, " bound_ctrl:1");
    if (x->fetch_inactive) sim_put(t, " fi:1");
}

static void put_sdwa(sim_text *t, const sim_inst *x) {
    static const char *const sel[8] = {"BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD", "?"};
    static const char *const unused[4] = {"UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE", "?"};
    bool whole = strstr(x->mnemonic, "_fp8") || strstr(x->mnemonic, "_bf8"); /* those select bytes of the source alone */
    if (x->format != SIM_VOPC && x->dst.kind && !whole)
        sim_put(t, " dst_sel:%s dst_unused:%s", sel[x->sdwa_dst_sel & 7], unused[x->sdwa_dst_unused & 3]);
    if (x->src[0].kind) sim_put(t, " src0_sel:%s", sel[x->src[0].sdwa_sel & 7]);
    if (x->src[1].kind && x->format != SIM_VOP1) sim_put(t, " src1_sel:%s", sel[x->src[1].sdwa_sel & 7]);
}

static void put_out(sim_text *t, const sim_inst *x) {
    if (x->bitop3) sim_put(t, x->bitop3 > 64 ? " bitop3:0x%x" : x->bitop3 < 10 ? " bitop3:%u" : " bitop3:0x%x", x->bitop3);
    if (x->clamp) sim_put(t, " clamp");
    if (x->omod) sim_put(t, x->omod == 1 ? " mul:2" : x->omod == 2 ? " mul:4" : " div:2");
}

static bool selects_byte(const char *m) {
    return strstr(m, "v_cvt_f32_fp8") || strstr(m, "v_cvt_f32_bf8") || strstr(m, "v_cvt_sr_fp8") || strstr(m, "v_cvt_sr_bf8");
}

static void put_op_sel(sim_text *t, const sim_inst *x) {
    int n = n_sources(x);
    bool bits[4] = {x->src[0].hi, x->src[1].hi, x->src[2].hi, false};
    if (strstr(x->mnemonic, "v_cndmask")) return;
    if (sim_isa_gen((sim_isa)x->isa) == 12 && x->lanes == SIM_LANES_PLAIN && selects_byte(x->mnemonic)) {
        unsigned byte = strstr(x->mnemonic, "_sr_") ? x->src[2].hi + 2u * x->dst_hi : x->src[1].hi + 2u * x->src[0].hi;
        if (byte) sim_put(t, " byte_sel:%u", byte);
        return;
    }
    if (strstr(x->mnemonic, "v_permlane") && strstr(x->mnemonic, "_swap")) {
        if (x->bound_ctrl) sim_put(t, " bound_ctrl:1");
        if (x->fetch_inactive) sim_put(t, " fi:1");
        return;
    }
    /* The addend is the destination; the byte's number has two bits. */
    if (strstr(x->mnemonic, "v_fmac") || strstr(x->mnemonic, "v_cvt_sr_")) n = 3;
    if (strstr(x->mnemonic, "v_permlane")) n = 2;
    else bits[n++] = x->dst_hi;
    if (any(bits, n)) put_list(t, "op_sel", bits, n);
}

static void put_packed(sim_text *t, const sim_inst *x) {
    int n = n_sources(x);
    bool mix = strstr(x->mnemonic, "_mix"), sel[3], hi[3], lo_neg[3], hi_neg[3];
    bool matrix = strstr(x->mnemonic, "wmma") || strstr(x->mnemonic, "swmmac");
    bool all_hi = true;
    for (int i = 0; i < 3; i++) {
        sel[i] = x->src[i].hi, hi[i] = x->src[i].opsel_hi, lo_neg[i] = x->src[i].neg, hi_neg[i] = x->src[i].neg_hi;
        all_hi = all_hi && (i >= n || hi[i]);
    }
    if (strstr(x->mnemonic, "swmmac")) {
        unsigned key = sel[0] + 2u * sel[1];
        if (key) sim_put(t, " index_key:%u", key);
    } else if (any(sel, n)) put_list(t, "op_sel", sel, n);
    if (mix ? any(hi, n) : !all_hi && !matrix) put_list(t, "op_sel_hi", hi, n);
    if (mix) return;
    if (any(lo_neg, n)) put_list(t, "neg_lo", lo_neg, n);
    if (any(hi_neg, n)) put_list(t, "neg_hi", hi_neg, n);
}

static void put_mfma(sim_text *t, const sim_inst *x) {
    bool f64 = strstr(x->mnemonic, "_f64"), neg[3] = {x->blgp & 1, x->blgp >> 1 & 1, x->blgp >> 2 & 1};
    bool neg64 = f64 && x->isa >= SIM_GFX942;
    if (x->format == SIM_VOP3PX2) {
        bool sel[3] = {x->scale[0].hi, x->scale[1].hi, false}, hi[3] = {x->scale[0].opsel_hi, x->scale[1].opsel_hi, false};
        if (any(sel, 3)) put_list(t, "op_sel", sel, 3);
        put_list(t, "op_sel_hi", hi, 3);
    }
    if (x->cbsz) sim_put(t, " cbsz:%u", x->cbsz);
    if (x->abid && x->format != SIM_VOP3PX2) sim_put(t, " abid:%u", x->abid);
    if (neg64 && x->blgp) put_list(t, "neg", neg, 3);
    else if (x->blgp) sim_put(t, " blgp:%u", x->blgp);
}

static void put_valu_inst(sim_text *t, const sim_inst *x) {
    static const uint8_t roles[3] = {SIM_R_SRC0, SIM_R_SRC1, SIM_R_SRC2};
    bool long_form = x->format == SIM_VOP3 || x->format == SIM_VOP3SD;
    bool dpp = x->lanes == SIM_LANES_DPP16 || x->lanes == SIM_LANES_DPP8;
    const char *suffix = "";
    if (long_form || x->format == SIM_VOP3P) suffix = dpp ? "_e64_dpp" : sim_entry_of(x)->flags & SIM_F_SUFFIX ? "_e64" : "";
    else if (dpp) suffix = "_dpp";
    else if (x->lanes == SIM_LANES_SDWA) suffix = "_sdwa";
    else if (sim_entry_of(x)->flags & SIM_F_SUFFIX) suffix = "_e32";
    sim_put(t, "%s%s", x->mnemonic, suffix);
    if (x->dst.kind) {
        sim_operand d = x->dst;
        d.hi = x->dst_hi;
        put_valu(t, x, &d, SIM_R_DST);
    }
    bool implicit_exec = x->sdst.reg == SIM_S_EXEC_LO && strstr(x->mnemonic, "v_cmpx") && sim_isa_gen((sim_isa)x->isa) >= 10;
    if (x->sdst.kind && !implicit_exec) put_valu(t, x, &x->sdst, SIM_R_SDST);
    for (int i = 0; i < 3; i++)
        if (x->src[i].kind && !(x->format == SIM_VOPD && x->src[i].type == SIM_T_M64)) put_valu(t, x, &x->src[i], roles[i]);
    if (x->format == SIM_VOP3PX2)
        for (int i = 0; i < 2; i++) put_valu(t, x, &x->scale[i], SIM_R_SCALE0 + (unsigned)i);
    if (sim_entry_of(x)->flags & SIM_F_MFMA) {
        put_mfma(t, x);
        return;
    }
    if (x->format == SIM_VOP3P) put_packed(t, x);
    else if (x->format == SIM_VOP3 || x->format == SIM_VINTERP) put_op_sel(t, x);
    put_out(t, x);
    if (x->format == SIM_VINTERP) sim_put(t, " wait_exp:%u", x->offset1);
    if (dpp) put_dpp(t, x);
    else if (x->lanes == SIM_LANES_SDWA) put_sdwa(t, x);
}

static void put_scalar(sim_text *t, const sim_inst *x) {
    sim_put(t, "%s", x->mnemonic);
    bool setreg = strstr(x->mnemonic, "s_setreg");
    if (setreg) sim_put_sep(t), sim_put_hwreg(t, x);
    if (x->dst.kind) sim_put_sep(t), put_reg(t, x, &x->dst);
    if (strstr(x->mnemonic, "s_getreg")) {
        sim_put_sep(t), sim_put_hwreg(t, x);
        return;
    }
    for (int i = 0; i < 3; i++) {
        if (!x->src[i].kind) continue;
        sim_put_sep(t);
        if (!strcmp(x->mnemonic, "s_set_gpr_idx_on") && i == 1) sim_put(t, "0x%x", (unsigned)x->src[i].value);
        else if (x->format == SIM_SOPK && x->src[i].literal) {
            if (!put_inline(t, &x->src[i])) sim_put(t, "0x%x", (unsigned)x->src[i].value);
        } else if (strstr(x->mnemonic, "s_sendmsg_rtn")) sim_put_message(t, x, (unsigned)x->src[i].value);
        else put_reg(t, x, &x->src[i]);
    }
    if (x->format == SIM_SOPK && !setreg) sim_put_sep(t), sim_put_simm16(t, x);
}

static bool sopp_has_imm(const char *m) {
    static const char *const none[] = {"s_endpgm", "s_barrier", "s_code_end", "s_wakeup", "s_icache_inv", "s_ttracedata",
                                       "s_set_gpr_idx_off", "s_endpgm_saved", "s_endpgm_ordered_ps_done",
                                       "s_barrier_leave", "s_wait_idle"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (!strcmp(m, none[i])) return false;
    return true;
}

static void put_smem(sim_text *t, const sim_inst *x) {
    sim_put(t, "%s", x->mnemonic);
    if (x->dst.kind && !x->is_atomic) sim_put_sep(t), put_reg(t, x, &x->dst);
    if (x->data.kind && x->data.kind != SIM_K_CONST) sim_put_sep(t), put_reg(t, x, &x->data);
    if (x->base.kind) sim_put_sep(t), put_reg(t, x, &x->base);
    if (!row_op(x, SIM_R_SOFF)) {
        sim_put_cache(t, x);
        return;
    }
    int32_t o = x->offset_imm;
    unsigned gen = sim_isa_gen((sim_isa)x->isa);
    char offset[16];
    snprintf(offset, sizeof offset, "%s0x%x", o < 0 ? "-" : "", o < 0 ? 0u - (unsigned)o : (unsigned)o);
    sim_put_sep(t);
    if (x->soffset.kind) {
        put_reg(t, x, &x->soffset);
        if (o || (gen == 9 && x->words[0] >> 17 & 1)) sim_put(t, " offset:%s", offset);
    } else if ((gen == 10 || gen == 11) && !o) sim_put(t, "null");
    else sim_put(t, "%s", offset);
    if (x->data.kind == SIM_K_CONST) sim_put_sep(t), sim_put(t, "%u", (unsigned)x->data.value);
    sim_put_cache(t, x);
}

static void put_ds(sim_text *t, const sim_inst *x) {
    static const uint8_t roles[4] = {SIM_R_DST, SIM_R_ADDR, SIM_R_DATA, SIM_R_DATA1};
    const sim_operand *ops[4] = {&x->dst, &x->addr, &x->data, &x->data1};
    sim_put(t, "%s", x->mnemonic);
    for (int i = 0; i < 4; i++)
        if (row_op(x, roles[i])) sim_put_sep(t), put_reg(t, x, ops[i]);
    if (x->offset_imm && !strcmp(x->mnemonic, "ds_swizzle_b32")) {
        sim_put(t, " offset:"), sim_put_swizzle(t, (unsigned)x->offset_imm);
    } else if (x->offset_imm) sim_put(t, x->two_offsets ? " offset0:%d" : " offset:%d", (int)x->offset_imm);
    if (x->two_offsets && x->offset1) sim_put(t, " offset1:%u", x->offset1);
    if (x->gds) sim_put(t, " gds");
}

static void put_flat(sim_text *t, const sim_inst *x) {
    sim_put(t, "%s", x->mnemonic);
    if (x->dst.kind) sim_put_sep(t), put_reg(t, x, &x->dst);
    if (row_op(x, SIM_R_ADDR) && !(x->format != SIM_SCRATCH && !x->addr.kind)) sim_put_sep(t), put_reg(t, x, &x->addr);
    if (x->data.kind) sim_put_sep(t), put_reg(t, x, &x->data);
    if (row_op(x, SIM_R_SADDR)) sim_put_sep(t), put_reg(t, x, &x->saddr);
    if (x->offset_imm && (row_op(x, SIM_R_ADDR) || row_op(x, SIM_R_SADDR))) sim_put(t, " offset:%d", (int)x->offset_imm);
    sim_put_cache(t, x);
    if (x->lds) sim_put(t, " lds");
}

static void put_buffer(sim_text *t, const sim_inst *x) {
    sim_put(t, "%s", x->mnemonic);
    if (x->dst.kind || x->data.kind) sim_put_sep(t), put_reg(t, x, x->data.kind ? &x->data : &x->dst);
    if (x->base.kind) {
        sim_put_sep(t), put_reg(t, x, &x->addr);
        sim_put_sep(t), put_reg(t, x, &x->base);
        sim_put_sep(t), put_reg(t, x, &x->soffset);
        if (x->format == SIM_MTBUF) sim_put(t, " format:%u", x->buf_format);
        if (x->idxen) sim_put(t, " idxen");
        if (x->offen) sim_put(t, " offen");
        if (x->offset_imm) sim_put(t, " offset:%d", (int)x->offset_imm);
    }
    sim_put_cache(t, x);
    if (x->tfe) sim_put(t, " tfe");
    if (x->lds) sim_put(t, " lds");
}

static void put_image(sim_text *t, const sim_inst *x) {
    static const char *const dims[8] = {"1D", "2D", "3D", "CUBE", "1D_ARRAY", "2D_ARRAY", "2D_MSAA", "2D_MSAA_ARRAY"};
    unsigned gen = sim_isa_gen((sim_isa)x->isa);
    sim_put(t, "%s", x->mnemonic);
    sim_put_sep(t), put_reg(t, x, x->data.kind ? &x->data : &x->dst);
    sim_put_sep(t);
    /* One run of registers, or (always on gfx12, by an extra dword before) registers named one by one. */
    bool run = gen == 9 || (gen < 12 && x->n_words == 2 && x->vaddr[0].reg + x->n_vaddr <= 256);
    if (x->n_vaddr > 1 && run) put_range(t, "v", x->vaddr[0].reg, x->n_vaddr);
    else if (x->n_vaddr == 1) put_range(t, "v", x->vaddr[0].reg, 1);
    else {
        /* From gfx11 on the last register named begins the rest. */
        unsigned named = gen == 12 ? (x->opcode >= 256 ? 4 : 5) : gen == 11 ? 5 : 13;
        sim_put(t, "[");
        for (unsigned i = 0; i < x->n_vaddr && i < named; i++) {
            sim_put(t, i ? ", " : "");
            put_range(t, "v", x->vaddr[i].reg, i + 1 == named ? x->n_vaddr - i : 1);
        }
        sim_put(t, "]");
    }
    sim_put_sep(t), put_sgpr(t, x, x->base.reg, 8); /* r128 is only a modifier of the text */
    if (x->samp.kind) sim_put_sep(t), put_reg(t, x, &x->samp);
    if (x->dmask) sim_put(t, " dmask:0x%x", x->dmask);
    if (gen >= 10) sim_put(t, " dim:SQ_RSRC_IMG_%s", dims[x->dim & 7]);
    if (x->unorm) sim_put(t, " unorm");
    sim_put_cache(t, x);
    if (x->r128) sim_put(t, " r128");
    if (x->a16) sim_put(t, " a16");
    if (x->tfe) sim_put(t, " tfe");
    if (x->lwe) sim_put(t, " lwe");
    if (gen == 9 && x->sve) sim_put(t, " da");
    if (x->d16) sim_put(t, " d16");
}

static void put_target(sim_text *t, unsigned v) {
    if (v < 8) sim_put(t, "mrt%u", v);
    else if (v == 8) sim_put(t, "mrtz");
    else if (v == 9) sim_put(t, "null");
    else if (v >= 12 && v <= 16) sim_put(t, "pos%u", v - 12);
    else if (v == 20) sim_put(t, "prim");
    else if (v == 21 || v == 22) sim_put(t, "dual_src_blend%u", v - 21);
    else if (v >= 32) sim_put(t, "param%u", v - 32);
    else sim_put(t, "invalid_target_%u", v);
}

static void put_other(sim_text *t, const sim_inst *x) {
    unsigned gen = sim_isa_gen((sim_isa)x->isa);
    sim_put(t, "%s", x->mnemonic);
    if (x->format == SIM_LDSDIR) {
        sim_put_sep(t), put_reg(t, x, &x->dst);
        if (x->opcode == 0) sim_put(t, ", attr%d.%c", (int)x->offset_imm >> 2, "xyzw"[x->offset_imm & 3]);
        sim_put(t, gen == 12 ? " wait_va_vdst:%u" : " wait_vdst:%u", x->offset1);
        if (gen == 12) sim_put(t, " wait_vm_vsrc:%d", x->glc);
        return;
    }
    const sim_operand *ops[4] = {&x->src[0], &x->src[1], &x->src[2], &x->data};
    sim_put(t, " "), put_target(t, x->buf_format);
    t->n_operands = 0;
    for (int i = 0; i < 4; i++) {
        sim_put(t, i ? ", " : " ");
        if (x->dmask >> i & 1) put_reg(t, x, ops[i]);
        else sim_put(t, "off");
    }
    if (x->sve) sim_put(t, " done");
}

const char *sim_inst_print(const sim_inst *inst, unsigned wave_size, char *buf, size_t n) {
    (void)wave_size; /* operands carry it in their widths */
    if (n == 0) return buf;
    sim_text t = {buf, buf + n - 1, 0};
    *buf = 0;
    if (!inst->row) {
        sim_put(&t, "unknown encoding");
        return buf;
    }
    switch (inst->format) {
    case SIM_SOP1:
    case SIM_SOP2:
    case SIM_SOPC:
    case SIM_SOPK: put_scalar(&t, inst); break;
    case SIM_SOPP:
        sim_put(&t, "%s", inst->mnemonic);
        if (sopp_has_imm(inst->mnemonic) || (inst->simm16 && !strcmp(inst->mnemonic, "s_endpgm")))
            sim_put_sep(&t), sim_put_simm16(&t, inst);
        break;
    case SIM_SMEM: put_smem(&t, inst); break;
    case SIM_VOPD:
        put_valu_inst(&t, inst);
        if (!inst->dual) break;
        sim_put(&t, " :: ");
        t.n_operands = 0;
        put_valu_inst(&t, inst->dual);
        break;
    case SIM_DS: put_ds(&t, inst); break;
    case SIM_FLAT:
    case SIM_GLOBAL:
    case SIM_SCRATCH: put_flat(&t, inst); break;
    case SIM_MUBUF:
    case SIM_MTBUF: put_buffer(&t, inst); break;
    case SIM_MIMG: put_image(&t, inst); break;
    case SIM_LDSDIR:
    case SIM_EXP: put_other(&t, inst); break;
    default: put_valu_inst(&t, inst);
    }
    return buf;
}
