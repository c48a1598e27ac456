/* Sources: LLVM AMDGPUUsage, the memory model tables of each target. */
#include "exec/check_order.h"

#include "exec/control.h"
#include "exec/program.h"

#define SC (SIM_BIT(SIM_GFX942) | SIM_BIT(SIM_GFX950))

bool sim_check_is_link(const sim_uop *u) { return u->fn == sim_control_jump || u->fn == sim_control_off_end || !u->inst; }

sim_wait sim_check_passed(const sim_wave *w, const sim_uop *prev, const sim_uop *u) {
    static const sim_wait none = {SIM_NO_WAIT, SIM_NO_WAIT, SIM_NO_WAIT, SIM_NO_WAIT, SIM_NO_WAIT, SIM_NO_WAIT};
    /* Counting begins anew where a branch was taken: waits have no uop, so that its target may be the next one. */
    if (prev && prev->target == u && w->block == u && !sim_check_is_link(prev)) {
        int64_t to = (int64_t)prev->inst->offset + prev->inst->n_words * 4 + (int64_t)prev->inst->simm16 * 4;
        if (to == (int64_t)u->inst->offset) return none;
    }
    return sim_program_wait(w->program, u);
}

sim_release sim_check_release(const sim_kernel *k, sim_isa isa) {
    if (SIM_BIT(isa) & SC) return SIM_RELEASE_BACK;
    if (SIM_BIT(isa) & SIM_GCN) return SIM_RELEASE_GROUP;
    return k->rsrc1 >> 29 & 1 ? SIM_RELEASE_STORES : SIM_RELEASE_GROUP; /* WGP_MODE */
}

bool sim_check_marks_stores(sim_isa isa) { return SIM_BIT(isa) & SC || isa == SIM_GFX1200 || isa == SIM_GFX1250; }

bool sim_check_device_coherent(const sim_inst *i) {
    if (i->is_atomic) return true;
    if (SIM_BIT(i->isa) & SC) return i->scc_bit;
    if (i->isa == SIM_GFX1200 || i->isa == SIM_GFX1250) return i->scope >= SIM_SCOPE_DEVICE;
    return i->glc && !i->is_store;
}
