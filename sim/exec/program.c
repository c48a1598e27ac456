/* From code to uops: what is reachable from a kernel is decoded, bound, and laid out in address order.
 *
 * Reachability follows branches, calls and address arithmetic on s_getpc_b64 (how compilers form addresses of functions);
 * functions whose addresses lie in memory come as extra entries. */
#include "exec/program.h"

#include "base/alloc.h"
#include "base/size.h"
#include "exec/binder.h"
#include "exec/control.h"
#include "exec/observer.h"
#include "isa/valu.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 128
/* A loop of at most so many uops with a load that others' writes can reach counts as waiting. */
#define SPIN_UOPS 64

typedef struct inst_chunk {
    struct inst_chunk *next;
    size_t used;
    sim_inst inst[CHUNK];
} inst_chunk;

struct sim_program {
    sim_isa isa;
    unsigned lanes;
    uint64_t addr;
    size_t n_words;
    sim_wait *waits; /* [n_uops] what is waited for before each */
    int32_t *at; /* [n_words]: uop that runs when control reaches this word; -1: none */
    sim_uop *uops;
    size_t n_uops;
    uint8_t *consts; /* aligned rows */
    inst_chunk *insts;
    const sim_uop *entry;
    uint32_t n_vgprs, n_agprs; /* one more than the highest register named */
    uint32_t n_own_vgprs;      /* the same, without what only the extra entries reach */
    _Atomic uint32_t group_ns;
};

typedef struct builder {
    sim_program *p;
    const uint8_t *code;
    size_t n_bytes;
    sim_binder binder;
    sim_inst **list; /* decoded, in the order found */
    size_t n_list, list_capacity;
    bool *gpr_idx;   /* beside list: under relative register mode */
    uint32_t *work;  /* entries still to be followed */
    size_t n_work, work_capacity;
    sim_unmodelled first[3];
    size_t n_unmodelled;
    och_err *err;
} builder;

static och_status push_work(builder *b, uint64_t offset) {
    if (offset >= b->n_bytes || offset % 4 || b->p->at[offset / 4] != -1) return OCH_OK;
    if (b->n_work == b->work_capacity) {
        size_t more = b->work_capacity ? b->work_capacity * 2 : 64;
        uint32_t *w = och_realloc_array(b->work, more, sizeof *w);
        if (!w) return och_err_nomem(b->err, more * sizeof *w, "code entries");
        b->work = w;
        b->work_capacity = more;
    }
    b->work[b->n_work++] = (uint32_t)offset;
    return OCH_OK;
}

static och_status new_inst(builder *b, sim_inst **out_x, sim_inst **out_y) {
    inst_chunk *c = b->p->insts;
    if (!c || c->used + 2 > CHUNK) {
        c = och_malloc(sizeof *c);
        if (!c) return och_err_nomem(b->err, sizeof *c, "decoded instructions");
        c->next = b->p->insts;
        c->used = 0;
        b->p->insts = c;
    }
    *out_x = &c->inst[c->used];
    *out_y = &c->inst[c->used + 1];
    memset(*out_x, 0, 2 * sizeof **out_x);
    return OCH_OK;
}

static och_status list_add(builder *b, sim_inst *inst, bool gpr_idx) {
    if (b->n_list == b->list_capacity) {
        size_t more = b->list_capacity ? b->list_capacity * 2 : 256;
        sim_inst **l = och_realloc_array(b->list, more, sizeof *l);
        if (!l) return och_err_nomem(b->err, more * sizeof *l, "instruction list");
        b->list = l;
        bool *g = och_realloc_array(b->gpr_idx, more, sizeof *g);
        if (!g) return och_err_nomem(b->err, more * sizeof *g, "instruction list");
        b->gpr_idx = g;
        b->list_capacity = more;
    }
    b->gpr_idx[b->n_list] = gpr_idx;
    b->list[b->n_list++] = inst;
    return OCH_OK;
}

static void unmodelled(builder *b, const char *text, const uint32_t *words, unsigned n_words, uint32_t offset) {
    if (b->n_unmodelled < 3) {
        sim_unmodelled *u = &b->first[b->n_unmodelled];
        snprintf(u->text, sizeof u->text, "%s", text);
        memset(u->words, 0, sizeof u->words);
        memcpy(u->words, words, (n_words > 4 ? 4 : n_words) * 4);
        u->offset = offset;
    }
    b->n_unmodelled++;
}

/* Registers whose value is known while a straight run is followed: addresses made from s_getpc_b64. */
typedef struct known {
    uint32_t value[128];
    bool is[128];
    int carry; /* of the last addition; -1: unknown */
} known;

static bool known_read(const known *k, const sim_operand *o, uint32_t *out) {
    if (o->kind == SIM_K_CONST) {
        *out = (uint32_t)o->value;
        return true;
    }
    if (o->kind != SIM_K_SGPR || o->reg >= 128 || !k->is[o->reg]) return false;
    *out = k->value[o->reg];
    return true;
}

static void forget(known *k, const sim_operand *o) {
    if (o->kind != SIM_K_SGPR) return;
    for (unsigned i = 0; i < o->n_dwords && o->reg + i < 128; i++) k->is[o->reg + i] = false;
}

static void set32(known *k, uint32_t reg, uint32_t value) {
    if (reg >= 128) return;
    k->is[reg] = true;
    k->value[reg] = value;
}

static bool is(const sim_inst *i, const char *meaning) { return !strcmp(i->meaning, meaning); }

/* Follows one scalar instruction's effect on known registers. */
static och_status track(builder *b, known *k, const sim_inst *i, uint64_t after) {
    uint32_t x, y;
    if (is(i, "S_GETPC_B64")) {
        set32(k, i->dst.reg, (uint32_t)after);
        set32(k, i->dst.reg + 1u, (uint32_t)(after >> 32));
        return OCH_OK;
    }
    if ((is(i, "S_ADD_U32") || is(i, "S_ADD_CO_U32") || is(i, "S_ADD_I32") || is(i, "S_ADD_CO_I32")) &&
        known_read(k, &i->src[0], &x) && known_read(k, &i->src[1], &y)) {
        k->carry = x + y < x;
        set32(k, i->dst.reg, x + y);
        return OCH_OK;
    }
    if ((is(i, "S_ADDC_U32") || is(i, "S_ADD_CO_CI_U32")) && k->carry >= 0 && known_read(k, &i->src[0], &x) &&
        known_read(k, &i->src[1], &y)) {
        set32(k, i->dst.reg, x + y + (uint32_t)k->carry);
        if (i->dst.reg > 0 && k->is[i->dst.reg - 1])
            OCH_TRY(push_work(b, ((uint64_t)(x + y + (uint32_t)k->carry) << 32 | k->value[i->dst.reg - 1]) - b->p->addr));
        return OCH_OK;
    }
    if ((is(i, "S_ADD_NC_U64") || is(i, "S_ADD_U64")) && known_read(k, &i->src[0], &x)) {
        bool good = i->src[1].kind == SIM_K_CONST && i->src[0].kind == SIM_K_SGPR && i->src[0].reg < 127 &&
                    k->is[i->src[0].reg + 1];
        if (good) {
            uint64_t sum = ((uint64_t)k->value[i->src[0].reg + 1] << 32 | x) + i->src[1].value;
            set32(k, i->dst.reg, (uint32_t)sum);
            set32(k, i->dst.reg + 1u, (uint32_t)(sum >> 32));
            return push_work(b, sum - b->p->addr);
        }
    }
    if (is(i, "S_SEXT_I32_I16") && known_read(k, &i->src[0], &x)) {
        set32(k, i->dst.reg, (uint32_t)(int32_t)(int16_t)x);
        return OCH_OK;
    }
    if (is(i, "S_MOV_B32") && known_read(k, &i->src[0], &x)) {
        set32(k, i->dst.reg, x);
        return OCH_OK;
    }
    if (is(i, "S_MOV_B64") && i->src[0].kind == SIM_K_SGPR && i->src[0].reg < 127 && k->is[i->src[0].reg] &&
        k->is[i->src[0].reg + 1]) {
        set32(k, i->dst.reg, k->value[i->src[0].reg]);
        set32(k, i->dst.reg + 1u, k->value[i->src[0].reg + 1]);
        return OCH_OK;
    }
    if (i->format == SIM_SOP1 || i->format == SIM_SOP2 || i->format == SIM_SOPK || i->format == SIM_SOPC) k->carry = -1;
    forget(k, &i->dst);
    forget(k, &i->sdst);
    return OCH_OK;
}

static void note_registers(sim_program *p, const sim_operand *o) {
    if (o->kind == SIM_K_VGPR) {
        uint32_t end = o->reg + (o->n_dwords ? o->n_dwords : 1u);
        if (o->reg < 256 && end > p->n_vgprs) p->n_vgprs = end > 256 ? 256 : end;
        if (o->reg >= 256 && end - 256 > p->n_agprs) p->n_agprs = end - 256;
    }
}

/* Every operand ends inside its file: vector, accumulation or scalar registers (of which NULL has no neighbours). */
static bool operand_fits(const sim_operand *o) {
    if (o->kind == SIM_K_VGPR) return o->reg % 256u + o->n_dwords <= 256;
    return o->kind != SIM_K_SGPR || o->reg >= 128 || o->reg == SIM_S_NULL || o->reg + o->n_dwords <= 128;
}

static bool registers_fit(const sim_inst *i) {
    const sim_operand *all[] = {&i->dst,  &i->sdst,  &i->src[0], &i->src[1],  &i->src[2], &i->addr,     &i->saddr,
                                &i->data, &i->data1, &i->base,   &i->soffset, &i->samp,   &i->scale[0], &i->scale[1]};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (!operand_fits(all[k])) return false;
    for (int k = 0; k < i->n_vaddr; k++)
        if (!operand_fits(&i->vaddr[k])) return false;
    return true;
}

static void note_all(sim_program *p, const sim_inst *i) {
    note_registers(p, &i->dst);
    for (int k = 0; k < 3; k++) note_registers(p, &i->src[k]);
    note_registers(p, &i->addr);
    note_registers(p, &i->data);
    note_registers(p, &i->data1);
    note_registers(p, &i->scale[0]);
    note_registers(p, &i->scale[1]);
    for (int k = 0; k < i->n_vaddr; k++) note_registers(p, &i->vaddr[k]);
}

/* Decodes the straight run at `offset` until it ends or joins what is known. */
static och_status follow(builder *b, uint32_t offset) {
    sim_program *p = b->p;
    known k = {.carry = -1};
    bool gpr_idx = false;
    while (offset < b->n_bytes && p->at[offset / 4] == -1) {
        sim_inst *x = NULL, *y = NULL;
        OCH_TRY(new_inst(b, &x, &y));
        och_err e;
        och_err_clear(&e);
        if (sim_decode(p->isa, p->lanes, b->code, b->n_bytes, offset, x, y, &e) != OCH_OK) {
            uint32_t words[2] = {0};
            memcpy(words, b->code + offset, OCH_MIN(sizeof words, b->n_bytes - offset) & ~(size_t)3);
            unmodelled(b, "unknown encoding", words, 2, offset);
            p->at[offset / 4] = -2;
            return OCH_OK;
        }
        if (!registers_fit(x) || (x->dual && !registers_fit(x->dual))) {
            unmodelled(b, "registers past the last one", x->words, x->n_words, offset);
            p->at[offset / 4] = -2;
            return OCH_OK;
        }
        p->insts->used += x->dual ? 2 : 1;
        p->at[offset / 4] = (int32_t)b->n_list;
        note_all(p, x);
        if (x->dual) note_all(p, x->dual);
        OCH_TRY(list_add(b, x, gpr_idx && x->format >= SIM_VOP1 && x->format <= SIM_VOP3P));
        uint32_t after = offset + x->n_words * 4u;
        if (x->format == SIM_SOPP || x->format == SIM_SOP1 || x->format == SIM_SOPK || x->format == SIM_SOP2 ||
            x->format == SIM_SOPC) {
            if (is(x, "S_SET_GPR_IDX_ON")) gpr_idx = true;
            if (is(x, "S_SET_GPR_IDX_OFF")) gpr_idx = false;
            bool branch = !strncmp(x->meaning, "S_CBRANCH_", 10) || is(x, "S_BRANCH") || is(x, "S_CALL_B64");
            if (branch) OCH_TRY(push_work(b, (uint64_t)((int64_t)after + (int64_t)x->simm16 * 4)));
            if (is(x, "S_BRANCH") || !strncmp(x->meaning, "S_ENDPGM", 8) || is(x, "S_SETPC_B64") || is(x, "S_CODE_END") ||
                is(x, "S_RFE_B64"))
                return OCH_OK;
            if (is(x, "S_SWAPPC_B64") || is(x, "S_CALL_B64"))
                memset(&k, 0, sizeof k), k.carry = -1;
            else
                OCH_TRY(track(b, &k, x, p->addr + after));
        } else {
            forget(&k, &x->dst);
            forget(&k, &x->sdst);
        }
        offset = after;
    }
    return OCH_OK;
}

static och_status follow_all(builder *b) {
    while (b->n_work) {
        uint32_t offset = b->work[--b->n_work];
        OCH_TRY(follow(b, offset));
    }
    return OCH_OK;
}

static int by_offset(const void *a, const void *b) {
    const sim_inst *x = *(sim_inst *const *)a, *y = *(sim_inst *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static sim_bound bind_one(sim_binder *b, const sim_inst *inst, sim_uop *u) {
    static sim_bound (*const classes[])(sim_binder *, const sim_inst *, sim_uop *) = {
        sim_bind_control, sim_bind_salu, sim_bind_cross, sim_bind_matrix, sim_bind_valu, sim_bind_lds, sim_bind_memory,
        sim_bind_image,
    };
    b->has_halves = false;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        memset(u, 0, sizeof *u);
        u->inst = inst;
        sim_bound r = classes[i](b, inst, u);
        if (r != SIM_BOUND_NO) return r;
    }
    return SIM_BOUND_NO;
}

static bool is_branch(const sim_inst *i) {
    return !strncmp(i->meaning, "S_CBRANCH_", 10) || is(i, "S_BRANCH") || is(i, "S_CALL_B64");
}
static bool falls_through(const sim_inst *i) {
    return !(is(i, "S_BRANCH") || !strncmp(i->meaning, "S_ENDPGM", 8) || is(i, "S_SETPC_B64") || is(i, "S_CODE_END") ||
             is(i, "S_RFE_B64"));
}

/* A load that sees what others write, or an atomic. */
static bool waits_on_memory(const sim_inst *i) {
    if (i->format < SIM_DS && i->format != SIM_SMEM) return false;
    return i->is_atomic || (!i->is_store && (i->glc || i->scc_bit || i->scope >= 2 || i->format == SIM_DS));
}

/* The counters that one wait instruction lets stand; fields of s_waitcnt by target (AMDGPUUsage, "s_waitcnt"). */
static void add_wait(sim_wait *to, const sim_inst *i) {
    uint32_t x = (uint32_t)i->simm16 & 0xffff;
    uint8_t loads = SIM_NO_WAIT, stores = SIM_NO_WAIT, lds = SIM_NO_WAIT, scalar = SIM_NO_WAIT;
    if (is(i, "S_WAITCNT")) {
        uint32_t vm, vm_max, lgkm, lgkm_max;
        if (SIM_BIT(i->isa) & SIM_GFX11) {
            vm = x >> 10, vm_max = 63, lgkm = x >> 4 & 63, lgkm_max = 63;
        } else {
            vm = (x & 15) | (x >> 14 & 3) << 4, vm_max = 63;
            lgkm = i->isa == SIM_GFX1030 ? x >> 8 & 63 : x >> 8 & 15, lgkm_max = i->isa == SIM_GFX1030 ? 63 : 15;
        }
        if (vm < vm_max) loads = (uint8_t)vm;
        if (vm < vm_max && SIM_BIT(i->isa) & SIM_GCN) stores = (uint8_t)vm;
        if (lgkm < lgkm_max) lds = scalar = (uint8_t)lgkm;
    } else if (is(i, "S_WAITCNT_VSCNT") || is(i, "S_WAIT_STORECNT")) {
        stores = (uint8_t)(x & 63);
    } else if (is(i, "S_WAITCNT_VMCNT") || is(i, "S_WAIT_LOADCNT")) {
        loads = (uint8_t)(x & 63);
    } else if (is(i, "S_WAIT_LOADCNT_DSCNT") || is(i, "S_WAIT_STORECNT_DSCNT")) {
        if (is(i, "S_WAIT_LOADCNT_DSCNT")) loads = (uint8_t)(x >> 8 & 63);
        else stores = (uint8_t)(x >> 8 & 63);
        lds = (uint8_t)(x & 63);
    } else if (is(i, "S_WAIT_DSCNT")) {
        lds = (uint8_t)(x & 63);
    } else if (is(i, "S_WAIT_KMCNT")) {
        scalar = (uint8_t)(x & 63);
    } else if (is(i, "S_WAIT_IDLE")) {
        loads = stores = lds = scalar = 0;
    }
    if (loads < to->loads) to->loads = loads;
    if (stores < to->stores) to->stores = stores;
    if (lds < to->lds) to->lds = lds;
    if (scalar < to->scalar) to->scalar = scalar;
}

/* Instructions that write back or invalidate caches, and how far (AMDGPUUsage, the memory models). */
static void add_cache(sim_wait *to, const sim_inst *i) {
    uint8_t wb = SIM_NO_WAIT, inv = SIM_NO_WAIT;
    bool sc = SIM_BIT(i->isa) & (SIM_BIT(SIM_GFX942) | SIM_BIT(SIM_GFX950)); /* scope in two bits: sc0, sc1 */
    uint8_t scope = sc ? (uint8_t)((i->glc ? 1 : 0) | (i->scc_bit ? 2 : 0)) : i->scope;
    if (is(i, "BUFFER_WBL2")) wb = sc ? scope : SIM_SCOPE_SYSTEM;
    if (is(i, "GLOBAL_WB") || is(i, "GLOBAL_WBINV")) wb = scope;
    if (is(i, "GLOBAL_INV") || is(i, "GLOBAL_WBINV") || (sc && is(i, "BUFFER_INV"))) inv = scope;
    if (is(i, "BUFFER_WBINVL1") || is(i, "BUFFER_WBINVL1_VOL") || is(i, "BUFFER_GL1_INV")) inv = SIM_SCOPE_DEVICE;
    if (is(i, "BUFFER_INVL2")) inv = SIM_SCOPE_SYSTEM;
    if (is(i, "BUFFER_GL0_INV")) inv = SIM_SCOPE_GROUP;
    if (wb != SIM_NO_WAIT && (to->wb == SIM_NO_WAIT || to->wb < wb)) to->wb = wb;
    if (inv != SIM_NO_WAIT && (to->inv == SIM_NO_WAIT || to->inv < inv)) to->inv = inv;
}

/* Binds the list in address order. Two passes: uops first, then links and targets, since a link may be needed where code is
 * laid out otherwise than it runs (a jump into the middle of an instruction). */
static och_status layout(builder *b) {
    sim_program *p = b->p;
    size_t n = b->n_list;
    for (size_t i = 0; i < n; i++)
        if (b->gpr_idx[i]) b->list[i]->index_key[3] = true; /* the flag travels with the sort; MFMA's keys are not VALU's */
    if (n) qsort(b->list, n, sizeof *b->list, by_offset);
    size_t capacity = n * 4 + 2;
    p->uops = och_calloc(capacity, sizeof *p->uops);
    if (!p->uops) return och_err_nomem(b->err, capacity * sizeof *p->uops, "bound instructions");
    p->waits = och_malloc_array(capacity, sizeof *p->waits);
    if (!p->waits) return och_err_nomem(b->err, capacity * sizeof *p->waits, "bound instructions");
    memset(p->waits, SIM_NO_WAIT, capacity * sizeof *p->waits);
    for (size_t w = 0; w < p->n_words; w++) p->at[w] = -1;
    /* Wrapped instructions keep their own uop behind the others, and pairs their halves. */
    size_t n_uops = 0, hidden = capacity;
    for (size_t i = 0; i < n; i++) {
        sim_inst *inst = b->list[i];
        bool indexed = inst->index_key[3];
        inst->index_key[3] = false;
        p->at[inst->offset / 4] = (int32_t)n_uops;
        sim_uop u;
        sim_bound r = bind_one(&b->binder, inst, &u);
        if (r == SIM_BOUND_FAILED) return och_err_nomem(b->err, 0, "constants of the kernel");
        if (r == SIM_BOUND_NOTHING && inst->format <= SIM_SOPP) add_wait(&p->waits[n_uops], inst);
        if (r == SIM_BOUND_NOTHING && inst->format >= SIM_FLAT) add_cache(&p->waits[n_uops], inst);
        if (r == SIM_BOUND_NO) unmodelled(b, inst->mnemonic, inst->words, inst->n_words, inst->offset);
        if (r == SIM_BOUND_UOP) {
            if (indexed) {
                if (b->binder.has_halves) { /* DPP, whose direct handler knows its registers */
                    u = b->binder.halves[0];
                    u.fn = sim_valu_general;
                    b->binder.has_halves = false;
                }
                p->uops[--hidden] = u;
                u = (sim_uop){.fn = sim_control_indexed, .inst = inst, .core = &p->uops[hidden]};
            }
            if (b->binder.has_halves) {
                hidden -= 2;
                memcpy(&p->uops[hidden], b->binder.halves, sizeof b->binder.halves);
                u.core = &p->uops[hidden];
            }
            u.index = (uint32_t)n_uops;
            p->uops[n_uops++] = u;
        }
        if (!falls_through(inst)) continue;
        uint32_t after = inst->offset + inst->n_words * 4u;
        if (i + 1 < n && b->list[i + 1]->offset == after) continue;
        /* The next instruction lies elsewhere in the list, or nowhere. */
        p->uops[n_uops] = (sim_uop){.fn = sim_control_off_end, .inst = inst, .imm = after, .index = (uint32_t)n_uops};
        n_uops++;
    }
    if (b->n_unmodelled) return OCH_OK; /* reported by the caller */
    p->uops[n_uops] = (sim_uop){.fn = sim_control_off_end, .inst = n ? b->list[n - 1] : NULL, .index = (uint32_t)n_uops};
    p->n_uops = ++n_uops;
    for (size_t i = 0; i < n_uops; i++) {
        sim_uop *u = &p->uops[i];
        if (u->fn == sim_control_off_end) {
            if (u->imm && u->imm < b->n_bytes && p->at[u->imm / 4] >= 0) {
                u->fn = sim_control_jump;
                u->target = &p->uops[p->at[u->imm / 4]];
            }
            continue;
        }
        if (u->fn == sim_control_indexed) ((sim_uop *)u->core)->index = u->index;
        if (!is_branch(u->inst)) continue;
        uint64_t to = (uint64_t)((int64_t)u->inst->offset + u->inst->n_words * 4 + (int64_t)u->inst->simm16 * 4);
        u->target = to < b->n_bytes && to % 4 == 0 && p->at[to / 4] >= 0 ? &p->uops[p->at[to / 4]] : &p->uops[n_uops - 1];
        if (u->target <= u && u - u->target < SPIN_UOPS)
            for (const sim_uop *t = u->target; t < u; t++)
                if (t->inst && waits_on_memory(t->inst)) u->flags |= SIM_UOP_SPIN;
    }
    /* The last one is no instruction's, and the array is longer than it by a zeroed one at least. */
    for (size_t i = 0; i + 1 < n_uops; i++) {
        sim_uop *u = &p->uops[i];
        sim_uop_fn *pair = sim_valu_fused(u, p->lanes), *end = pair ? NULL : sim_control_fused(u, p->lanes);
        if (end) memcpy(&u->core, &u->fn, sizeof u->core);
        if (pair || end) u->fn = pair ? pair : end;
    }
    return OCH_OK;
}

static och_status report_unmodelled(builder *b) {
    char text[512];
    size_t used = 0;
    for (size_t i = 0; i < OCH_MIN(b->n_unmodelled, (size_t)3) && used < sizeof text; i++) {
        const sim_unmodelled *u = &b->first[i];
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s (encoding %08x %08x) at offset 0x%x", i ? "; " : "",
                                 u->text, u->words[0], u->words[1], u->offset);
    }
    return och_err_set(b->err, OCH_UNSUPPORTED, "%zu instruction%s that the simulator does not model can be reached: %s%s",
                       b->n_unmodelled, b->n_unmodelled == 1 ? "" : "s", text, b->n_unmodelled > 3 ? "; ..." : "");
}

och_status sim_program_create(sim_isa isa, unsigned wave_size, const uint8_t *code, size_t n_bytes, uint64_t addr,
                              uint64_t entry, const uint64_t *extra_entries, size_t n_extra, sim_program **out_program,
                              och_err *err) {
    *out_program = NULL;
    if (wave_size != 32 && wave_size != 64)
        return och_err_set(err, OCH_INVALID, "wave size %u: expected 32 or 64", wave_size);
    if (entry >= n_bytes || entry % 4)
        return och_err_set(err, OCH_CORRUPT, "the kernel begins at offset %" PRIu64 ": expected a multiple of 4 below %zu", entry,
                           n_bytes);
    if (n_bytes > (size_t)INT32_MAX) return och_err_set(err, OCH_RANGE, "code of %zu bytes: expected less than 2 GiB", n_bytes);
    builder b = {.code = code, .n_bytes = n_bytes, .err = err, .binder = {.isa = isa, .lanes = wave_size}};
    och_status st = OCH_OK;
    sim_program *p = b.p = och_calloc(1, sizeof *p);
    if (!p) return och_err_nomem(err, sizeof *p, "a program");
    p->isa = isa;
    p->lanes = wave_size;
    p->addr = addr;
    p->n_words = (n_bytes + 3) / 4;
    p->at = och_malloc_array(p->n_words, sizeof *p->at);
    if (!p->at) {
        st = och_err_nomem(err, p->n_words * sizeof *p->at, "a program");
        goto done;
    }
    memset(p->at, 0xff, p->n_words * sizeof *p->at);
    OCH_TRY_GOTO(push_work(&b, entry));
    OCH_TRY_GOTO(follow_all(&b));
    p->n_own_vgprs = p->n_vgprs;
    for (size_t i = 0; i < n_extra; i++) OCH_TRY_GOTO(push_work(&b, extra_entries[i]));
    OCH_TRY_GOTO(follow_all(&b));
    OCH_TRY_GOTO(layout(&b));
    if (b.n_unmodelled) {
        st = report_unmodelled(&b);
        goto done;
    }
    p->consts = b.binder.const_area;
    b.binder.const_area = NULL;
    p->entry = &p->uops[p->at[entry / 4]];
    *out_program = p;
    p = NULL;
done:
    sim_program_destroy(p);
    och_free(b.list);
    och_free(b.gpr_idx);
    och_free(b.work);
    och_free(b.binder.consts);
    och_free_aligned(b.binder.const_area);
    return st;
}

void sim_program_destroy(sim_program *p) {
    if (!p) return;
    for (inst_chunk *c = p->insts, *next; c; c = next) {
        next = c->next;
        och_free(c);
    }
    och_free(p->at);
    och_free(p->uops);
    och_free(p->waits);
    och_free_aligned(p->consts);
    och_free(p);
}

const sim_uop *sim_program_entry(const sim_program *p) { return p->entry; }

const sim_uop *sim_program_at(const sim_program *p, uint64_t addr) {
    uint64_t offset = addr - p->addr;
    if (offset % 4 || offset / 4 >= p->n_words || p->at[offset / 4] < 0) return NULL;
    return &p->uops[p->at[offset / 4]];
}

uint64_t sim_program_addr_of(const sim_program *p, const sim_uop *u) { return p->addr + (u->inst ? u->inst->offset : 0); }
uint64_t sim_program_addr_after(const sim_program *p, const sim_uop *u) {
    return sim_program_addr_of(p, u) + (u->inst ? u->inst->n_words * 4u : 0);
}
size_t sim_program_n_uops(const sim_program *p) { return p->n_uops; }
const sim_uop *sim_program_uop(const sim_program *p, size_t i) { return &p->uops[i]; }
const uint8_t *sim_program_consts(const sim_program *p) { return p->consts; }
uint32_t sim_program_n_vgprs(const sim_program *p) { return p->n_vgprs; }
uint32_t sim_program_n_own_vgprs(const sim_program *p) { return p->n_own_vgprs; }
uint32_t sim_program_n_agprs(const sim_program *p) { return p->n_agprs; }
_Atomic uint32_t *sim_program_group_ns(sim_program *p) { return &p->group_ns; }

sim_wait sim_program_wait(const sim_program *p, const sim_uop *u) { return p->waits[u->index]; }
