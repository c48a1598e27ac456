/* Immediates with names: waits, delays, hardware registers, messages, cache policies. */
#include "isa/print_text.h"

#include <string.h>

static bool is(const sim_inst *x, const char *name) {
    return !strcmp(x->mnemonic, name);
}

static void put_counter(sim_text *t, const char *name, unsigned v, unsigned max, bool all, bool *some) {
    if (v == max && !all) return;
    sim_put(t, "%s%s(%u)", *some ? " " : "", name, v);
    *some = true;
}

static void put_waitcnt(sim_text *t, unsigned gen, unsigned v) {
    unsigned vm, exp, lgkm, vm_max = 63, lgkm_max = gen == 9 ? 15 : 63;
    if (gen >= 11) {
        exp = v & 7, lgkm = v >> 4 & 63, vm = v >> 10 & 63;
    } else {
        vm = (v & 15) | (v >> 14 & 3) << 4, exp = v >> 4 & 7, lgkm = v >> 8 & lgkm_max;
    }
    bool all = vm == vm_max && exp == 7 && lgkm == lgkm_max, some = false;
    put_counter(t, "vmcnt", vm, vm_max, all, &some);
    put_counter(t, "expcnt", exp, 7, all, &some);
    put_counter(t, "lgkmcnt", lgkm, lgkm_max, all, &some);
}

static void put_delay(sim_text *t, unsigned v) {
    static const char *const ids[16] = {"NO_DEP", "VALU_DEP_1", "VALU_DEP_2", "VALU_DEP_3", "VALU_DEP_4", "TRANS32_DEP_1",
                                        "TRANS32_DEP_2", "TRANS32_DEP_3", "FMA_ACCUM_CYCLE_1", "SALU_CYCLE_1",
                                        "SALU_CYCLE_2", "SALU_CYCLE_3"};
    static const char *const skips[8] = {"SAME", "NEXT", "SKIP_1", "SKIP_2", "SKIP_3", "SKIP_4"};
    unsigned id0 = v & 15, skip = v >> 4 & 7, id1 = v >> 7 & 15;
    if (v >> 11 || !ids[id0] || !skips[skip] || !ids[id1]) {
        sim_put(t, "0x%x", v);
        return;
    }
    bool some = false;
    if (id0 || v == 0) sim_put(t, "instid0(%s)", ids[id0]), some = true;
    if (skip) sim_put(t, "%sinstskip(%s)", some ? " | " : "", skips[skip]), some = true;
    if (id1) sim_put(t, "%sinstid1(%s)", some ? " | " : "", ids[id1]);
}

/* The counters of S_WAITCNT_DEPCTR, S_WAIT_ALU: those that wait for something, from the top as LLVM lists them. */
static void put_depctr(sim_text *t, unsigned v) {
    static const struct { const char *name; uint8_t lo, bits; } fields[] = {
        {"hold_cnt", 7, 1}, {"sa_sdst", 0, 1}, {"va_vdst", 12, 4}, {"va_sdst", 9, 3},
        {"va_ssrc", 8, 1}, {"va_vcc", 1, 1}, {"vm_vsrc", 2, 3}};
    unsigned unused = 0xffff;
    bool some = false;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) unused &= ~(((1u << fields[i].bits) - 1) << fields[i].lo);
    if ((v & unused) != unused && (v & unused) != 0x20 && (v & unused) != 0) {
        sim_put(t, "0x%x", v);
        return;
    }
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        unsigned max = (1u << fields[i].bits) - 1, f = v >> fields[i].lo & max;
        if (f == max) continue;
        sim_put(t, "%sdepctr_%s(%u)", some ? " " : "", fields[i].name, f);
        some = true;
    }
    if (!some) sim_put(t, "0x%x", v);
}

void sim_put_message(sim_text *t, const sim_inst *x, unsigned imm) {
    static const struct { uint8_t gen_min, gen_max, id; const char *name; } messages[] = {
        {9, 12, 1, "MSG_INTERRUPT"}, {9, 10, 2, "MSG_GS"}, {9, 10, 3, "MSG_GS_DONE"}, {11, 12, 2, "MSG_HS_TESSFACTOR"},
        {11, 12, 3, "MSG_DEALLOC_VGPRS"}, {9, 10, 4, "MSG_SAVEWAVE"}, {9, 12, 5, "MSG_STALL_WAVE_GEN"},
        {9, 12, 6, "MSG_HALT_WAVES"}, {9, 10, 7, "MSG_ORDERED_PS_DONE"}, {9, 9, 8, "MSG_EARLY_PRIM_DEALLOC"},
        {9, 12, 9, "MSG_GS_ALLOC_REQ"}, {9, 10, 10, "MSG_GET_DOORBELL"}, {11, 12, 128, "MSG_RTN_GET_DOORBELL"},
        {11, 12, 129, "MSG_RTN_GET_DDID"}, {11, 12, 130, "MSG_RTN_GET_TMA"}, {11, 12, 131, "MSG_RTN_GET_REALTIME"},
        {11, 12, 132, "MSG_RTN_SAVE_WAVE"}, {11, 12, 133, "MSG_RTN_GET_TBA"}, {12, 12, 134, "MSG_RTN_GET_TBA_TO_PC"},
        {12, 12, 135, "MSG_RTN_GET_SE_AID_ID"}};
    unsigned gen = sim_isa_gen((sim_isa)x->isa);
    unsigned id = gen >= 11 ? imm & 255 : imm & 15;
    if (imm == id)
        for (size_t i = 0; i < sizeof messages / sizeof *messages; i++)
            if (messages[i].id == id && gen >= messages[i].gen_min && gen <= messages[i].gen_max) {
                sim_put(t, "sendmsg(%s)", messages[i].name);
                return;
            }
    if (gen >= 11) sim_put(t, "sendmsg(%u, 0, 0)", id);
    else sim_put(t, "sendmsg(%u, %u, %u)", imm & 15, imm >> 4 & 7, imm >> 8 & 3);
}

void sim_put_hwreg(sim_text *t, const sim_inst *x) {
    static const struct { uint8_t gen_min, gen_max, id; const char *name; } regs[] = {
        {9, 11, 1, "MODE"}, {12, 12, 1, "MODE"}, {9, 12, 2, "STATUS"}, {9, 11, 3, "TRAPSTS"}, {9, 9, 4, "HW_ID"},
        {12, 12, 4, "STATE_PRIV"}, {9, 12, 5, "GPR_ALLOC"}, {9, 12, 6, "LDS_ALLOC"}, {9, 11, 7, "IB_STS"},
        {9, 9, 15, "SH_MEM_BASES"}, {10, 11, 15, "SH_MEM_BASES"}, {9, 9, 16, "TBA_LO"}, {9, 9, 17, "TBA_HI"},
        {9, 9, 18, "TMA_LO"}, {9, 9, 19, "TMA_HI"}, {12, 12, 17, "EXCP_FLAG_PRIV"}, {12, 12, 18, "EXCP_FLAG_USER"},
        {12, 12, 19, "TRAP_CTRL"}, {10, 12, 20, "FLAT_SCR_LO"}, {10, 12, 21, "FLAT_SCR_HI"}, {10, 10, 22, "XNACK_MASK"},
        {10, 12, 23, "HW_ID1"}, {10, 12, 24, "HW_ID2"}, {10, 10, 25, "POPS_PACKER"}, {11, 11, 26, "PERF_SNAPSHOT_DATA"},
        {10, 11, 29, "SHADER_CYCLES"}, {12, 12, 29, "SHADER_CYCLES_LO"}, {12, 12, 30, "SHADER_CYCLES_HI"}};
    unsigned v = (unsigned)x->simm16 & 0xffff, id = v & 63, offset = v >> 6 & 31, width = (v >> 11 & 31) + 1;
    unsigned gen = sim_isa_gen((sim_isa)x->isa);
    const char *name = NULL;
    for (size_t i = 0; i < sizeof regs / sizeof *regs; i++)
        if (regs[i].id == id && gen >= regs[i].gen_min && gen <= regs[i].gen_max) name = regs[i].name;
    if (id == 20 && (x->isa == SIM_GFX942 || x->isa == SIM_GFX950)) name = "XCC_ID";
    if (id >= 21 && id <= 24 && (x->isa == SIM_GFX942 || x->isa == SIM_GFX950)) name = NULL;
    if (name) sim_put(t, gen == 12 && id < 16 && id != 7 ? "hwreg(HW_REG_WAVE_%s" : "hwreg(HW_REG_%s", name);
    else sim_put(t, "hwreg(%u", id);
    if (offset || width != 32) sim_put(t, ", %u, %u", offset, width);
    sim_put(t, ")");
}

/* DS_SWIZZLE_B32's pattern. */
void sim_put_swizzle(sim_text *t, unsigned v) {
    unsigned and = v & 31, or = v >> 5 & 31, xor = v >> 10 & 31, group = 32 - and;
    bool pow2 = group && !(group & (group - 1));
    if (v & 0x8000 && v < 0x8100) sim_put(t, "swizzle(QUAD_PERM,%u,%u,%u,%u)", v & 3, v >> 2 & 3, v >> 4 & 3, v >> 6 & 3);
    else if (v & 0x8000) sim_put(t, "%u", v);
    else if (and == 31 && or == 0 && xor && !(xor & (xor - 1))) sim_put(t, "swizzle(SWAP,%u)", xor);
    else if (and == 31 && or == 0 && xor && !(xor & (xor + 1))) sim_put(t, "swizzle(REVERSE,%u)", xor + 1);
    else if (group > 1 && pow2 && or < group && !xor) sim_put(t, "swizzle(BROADCAST,%u,%u)", group, or);
    else {
        char mask[6] = "";
        for (int i = 4, k = 0; i >= 0; i--, k++) {
            bool a = and >> i & 1, o = or >> i & 1, x = xor >> i & 1;
            mask[k] = a && !o ? (x ? 'i' : 'p') : (o != x ? '1' : '0');
        }
        sim_put(t, "swizzle(BITMASK_PERM,\"%s\")", mask);
    }
}

void sim_put_simm16(sim_text *t, const sim_inst *x) {
    unsigned v = (unsigned)x->simm16 & 0xffff, gen = sim_isa_gen((sim_isa)x->isa);
    if (is(x, "s_waitcnt")) put_waitcnt(t, gen, v);
    else if (is(x, "s_delay_alu")) put_delay(t, v);
    else if (is(x, "s_waitcnt_depctr") || is(x, "s_wait_alu")) put_depctr(t, v);
    else if (is(x, "s_sendmsg") || is(x, "s_sendmsghalt")) sim_put_message(t, x, v);
    else if (strstr(x->mnemonic, "branch") || is(x, "s_call_b64") || is(x, "s_nop") || is(x, "s_sleep") || is(x, "s_trap") ||
             is(x, "s_setprio") || is(x, "s_sethalt") || is(x, "s_barrier_wait") || is(x, "s_set_gpr_idx_mode") ||
             is(x, "s_endpgm"))
        sim_put(t, v <= 64 || strstr(x->mnemonic, "branch") || is(x, "s_call_b64") || is(x, "s_endpgm") ? "%u" : "0x%x", v);
    else sim_put(t, "0x%x", v);
}

static void put_gfx12_cache(sim_text *t, const sim_inst *x) {
    static const char *const scopes[4] = {"SCOPE_CU", "SCOPE_SE", "SCOPE_DEV", "SCOPE_SYS"};
    static const char *const loads[8] = {"", "NT", "HT", "LU", "NT_RT", "RT_NT", "NT_HT", NULL};
    static const char *const stores[8] = {"", "NT", "HT", "RT_WB", "NT_RT", "RT_NT", "NT_HT", "NT_WB"};
    unsigned th = x->th, scope = x->scope;
    if (x->is_atomic) {
        if (th >> 1) {
            if (th & 4 && !(th & 1) && scope >= 2) sim_put(t, " th:TH_ATOMIC_CASCADE_%s", th & 2 ? "NT" : "RT");
            else if (th & 4) sim_put(t, " th:TH_ATOMIC_0x%x", th);
            else sim_put(t, " th:TH_ATOMIC_NT%s", th & 1 ? "_RETURN" : "");
        } else if (th & 1) sim_put(t, " th:TH_ATOMIC_RETURN");
    } else if (th) {
        bool store = x->is_store;
        const char *name = store ? stores[th] : loads[th];
        if (th == 3) name = store ? (scope == 3 ? "BYPASS" : "RT_WB") : scope == 3 ? "BYPASS" : "LU";
        if (name) sim_put(t, " th:TH_%s_%s", store ? "STORE" : "LOAD", name);
        else sim_put(t, " th:0x%x", th);
    }
    if (scope) sim_put(t, " scope:%s", scopes[scope]);
    if (x->nv) sim_put(t, " nv");
}

void sim_put_cache(sim_text *t, const sim_inst *x) {
    sim_isa isa = (sim_isa)x->isa;
    if (sim_isa_gen(isa) == 12) {
        put_gfx12_cache(t, x);
    } else if (isa == SIM_GFX942 || isa == SIM_GFX950) {
        bool smem = x->format == SIM_SMEM;
        if (x->glc) sim_put(t, smem ? " glc" : " sc0");
        if (x->slc) sim_put(t, " nt");
        if (x->scc_bit) sim_put(t, " sc1");
    } else {
        if (x->glc) sim_put(t, " glc");
        if (x->slc) sim_put(t, " slc");
        if (x->dlc) sim_put(t, " dlc");
        if (x->scc_bit) sim_put(t, " scc");
        if (x->nv && x->format != SIM_SMEM) sim_put(t, " nv");
    }
}
