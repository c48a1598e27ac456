/* Running a wave, alone or for the launcher, and saying what went wrong. */
#include "exec/run.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/strbuf.h"
#include "exec/control.h"
#include "exec/observer.h"
#include "exec/title.h"
#include "mem/around.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* Instructions a lone wave runs before its limit is looked at. */
#define SLICE (1 << 20)
/* An address below is taken for a null pointer and an offset. */
#define NULL_BYTES 65536u

#if defined(__x86_64__)
#define HOST_CSR 0x1f80u /* round to nearest, denormals, no traps: what sim_wave_mode_set makes of the usual MODE */
uint32_t sim_run_enter(void) {
    uint32_t old = _mm_getcsr();
    _mm_setcsr(HOST_CSR);
    return old;
}
void sim_run_leave(uint32_t old) { _mm_setcsr(old); }
#else
uint32_t sim_run_enter(void) { return 0; }
void sim_run_leave(uint32_t old) { (void)old; }
#endif

/* The same loop with everyone who watches. An observer's own arithmetic runs under the wave's rounding: none does any. */
static void observed(sim_wave *w, const sim_uop *u) {
    sim_worker *k = w->worker;
    while (u) {
        for (int i = 0; i < k->n_observers; i++)
            if (k->observers[i]->before && !k->observers[i]->before(k->observers[i], w, u)) return;
        const sim_uop *next = u->fn(w, u);
        if (w->state == SIM_WAVE_FAULT) return;
        for (int i = 0; i < k->n_observers; i++)
            if (k->observers[i]->after && !k->observers[i]->after(k->observers[i], w, u)) return;
        if (k->give_way && next) {
            if (next == u + 1) w->n_executed += (uint64_t)(next - w->block);
            w->block = next;
            w->state = SIM_WAVE_YIELD;
            w->pc = next;
            return;
        }
        u = next;
    }
}

void sim_wave_resume(sim_wave *w, sim_worker *worker, int64_t slice) {
    w->worker = worker;
    w->block = w->pc;
    w->budget = slice;
    w->spins = 0;
    w->state = SIM_WAVE_RUN;
#if defined(__x86_64__)
    /* Reading or loading the control word takes longer than many instructions: waves that meet at barriers would feel it. */
    if (w->mxcsr != HOST_CSR) _mm_setcsr(w->mxcsr);
#endif
    const sim_uop *u = w->pc;
    if (worker->n_observers) observed(w, u);
    else
        while (u) u = u->fn(w, u);
#if defined(__x86_64__)
    if (w->mxcsr != HOST_CSR) _mm_setcsr(HOST_CSR);
#endif
    if (w->state == SIM_WAVE_FAULT && w->pc >= w->block) w->n_executed += (uint64_t)(w->pc - w->block);
}

/* A wave that is not in a launch brings its group, its worker and its memory in one piece. */
typedef struct lone {
    sim_wave wave; /* first: a wave's address is its lone's */
    sim_group group;
    sim_worker worker;
    uint32_t *rows;
} lone;

och_status sim_wave_create(sim_isa isa, unsigned lanes, uint32_t n_vgprs, uint32_t lds_bytes, uint32_t scratch_lane_bytes,
                           const sim_space *space, sim_wave **out_w, och_err *err) {
    *out_w = NULL;
    if (lanes != 32 && lanes != 64) return och_err_set(err, OCH_INVALID, "a wave of %u lanes: expected 32 or 64", lanes);
    lone *l = och_calloc(1, sizeof *l);
    if (!l) return och_err_nomem(err, sizeof *l, "a wave");
    sim_wave *w = &l->wave;
    size_t row_bytes = (size_t)n_vgprs * lanes * 4, scratch = (size_t)scratch_lane_bytes * lanes;
    w->v = och_malloc_aligned(row_bytes ? row_bytes : 64, 64);
    l->group.lds = och_calloc(1, lds_bytes ? lds_bytes : 1);
    w->scratch = och_calloc(1, scratch ? scratch : 1);
    if (!w->v || !l->group.lds || !w->scratch) {
        sim_wave_destroy(w);
        return och_err_nomem(err, row_bytes + lds_bytes + scratch, "a wave's registers, LDS and scratch");
    }
    memset(w->v, 0, row_bytes);
    w->lanes = (uint8_t)lanes;
    w->isa = (uint8_t)isa;
    w->n_vgprs = n_vgprs;
    w->scratch_lane_bytes = scratch_lane_bytes;
    w->exec_full = lanes == 64 ? ~0ull : 0xffffffffull;
    w->s[SIM_S_EXEC_LO] = 0xffffffffu;
    w->s[SIM_S_EXEC_HI] = lanes == 64 ? 0xffffffffu : 0;
    w->mode = 0xf0u | (isa == SIM_GFX1200 || isa == SIM_GFX1250 ? 0 : 0x300u);
    w->group = &l->group;
    w->worker = &l->worker;
    l->group.waves = w;
    l->group.n_waves = l->group.n_live = 1;
    l->group.lds_bytes = lds_bytes;
    l->worker.space = space;
    *out_w = w;
    return OCH_OK;
}

void sim_wave_destroy(sim_wave *w) {
    if (!w) return;
    lone *l = (lone *)(void *)w;
    och_free_aligned(w->v);
    och_free(l->group.lds);
    och_free(w->scratch);
    och_free(l->worker.ranges);
    och_free(l);
}

och_status sim_run_wave(sim_program *p, sim_wave *w, uint64_t max_instructions, och_err *err) {
    lone *l = (lone *)(void *)w;
    if (sim_program_n_vgprs(p) > w->n_vgprs || (sim_program_n_agprs(p) && 256 + sim_program_n_agprs(p) > w->n_vgprs))
        return och_err_set(err, OCH_RANGE, "the program names v%u and a%u, the wave has %u rows", sim_program_n_vgprs(p),
                           sim_program_n_agprs(p), w->n_vgprs);
    size_t n = sim_program_n_uops(p);
    if (l->worker.n_ranges < n) {
        och_free(l->worker.ranges);
        l->worker.ranges = och_calloc(n, sizeof *l->worker.ranges);
        l->worker.n_ranges = l->worker.ranges ? (uint32_t)n : 0;
        if (!l->worker.ranges) return och_err_nomem(err, n * sizeof *l->worker.ranges, "ranges");
    } else {
        memset(l->worker.ranges, 0, n * sizeof *l->worker.ranges);
    }
    w->program = p;
    w->consts = sim_program_consts(p);
    w->pc = sim_program_entry(p);
    memset(&w->fault, 0, sizeof w->fault);
    w->n_executed = 0;
    l->group.n_live = 1;
    uint64_t limit = max_instructions ? max_instructions : (uint64_t)1 << 32;
    for (;;) {
        sim_wave_mode_set(w);
        uint32_t host = sim_run_enter();
        sim_wave_resume(w, &l->worker, limit < SLICE ? (int64_t)limit : SLICE);
        sim_run_leave(host);
        if (w->state == SIM_WAVE_DONE) return OCH_OK;
        if (w->state == SIM_WAVE_YIELD && w->n_executed >= limit) {
            w->state = SIM_WAVE_FAULT;
            w->fault = (sim_fault){.kind = SIM_FAULT_BUDGET, .lane = -1, .inst = w->pc->inst};
        }
        if (w->state == SIM_WAVE_BARRIER) w->fault = (sim_fault){.kind = SIM_FAULT_DEADLOCK, .lane = -1, .inst = sim_wave_stands_at(w)};
        if (w->state == SIM_WAVE_FAULT || w->state == SIM_WAVE_BARRIER) {
            char text[OCH_ERR_MESSAGE_BYTES];
            sim_fault_describe(w, "the program", l->worker.space, text, sizeof text);
            return och_err_set_native(err, OCH_DEVICE, w->fault.kind, "%s", text);
        }
    }
}

const char *sim_fault_name(sim_fault_kind kind) {
    switch (kind) {
    case SIM_FAULT_NONE: return "no fault";
    case SIM_FAULT_MEMORY: return "access outside any allocation";
    case SIM_FAULT_MISALIGNED: return "misaligned access";
    case SIM_FAULT_FREED: return "access to freed memory";
    case SIM_FAULT_READONLY: return "write to read-only memory";
    case SIM_FAULT_LDS: return "LDS access outside the workgroup's allocation";
    case SIM_FAULT_SCRATCH: return "scratch access outside the lane's allocation";
    case SIM_FAULT_ILLEGAL: return "illegal instruction";
    case SIM_FAULT_BUDGET: return "instruction budget used up";
    case SIM_FAULT_DEADLOCK: return "deadlock at a barrier";
    case SIM_FAULT_TRAP: return "trap";
    case SIM_FAULT_UNINITIALIZED: return "read of something never written";
    case SIM_FAULT_RACE: return "data race";
    case SIM_FAULT_PC: return "execution left the code";
    case SIM_FAULT_UNALIGNED_REG: return "register out of range";
    }
    return "?";
}

static void describe_range(och_strbuf *s, const sim_range *r) {
    static const char *kinds[] = {"device", "pinned host", "managed", "code", "array", "kernel-argument"};
    och_strbuf_printf(s, "%s%s allocation #%" PRIu64 " of %" PRIu64 " bytes [0x%" PRIx64 ", 0x%" PRIx64 ")", r->freed ? "freed " : "",
                      r->kind < OCH_COUNT(kinds) ? kinds[r->kind] : "?", r->serial, r->hi - r->lo, r->lo, r->hi);
}

/* Is there memory of the process at this address? */
static bool host_has(uint64_t addr) {
    unsigned char resident;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return mincore((void *)(uintptr_t)(addr / page * page), 1, &resident) == 0;
}

/* What lies at an address, or around it. */
static void describe_place(och_strbuf *s, const sim_space *space, uint64_t addr) {
    sim_range r, below, above;
    if (sim_space_find(space, addr, &r)) {
        och_strbuf_puts(s, "; inside ");
        describe_range(s, &r);
        och_strbuf_printf(s, ", at byte %" PRIu64, addr - r.lo);
        return;
    }
    if (addr < NULL_BYTES) {
        och_strbuf_puts(s, "; a null pointer");
        if (addr) och_strbuf_printf(s, " and %" PRIu64 " bytes", addr);
        return;
    }
    if (!sim_space_owns(space, addr, 1) && host_has(addr)) {
        och_strbuf_puts(s, "; memory of the host that is neither pinned (hipHostMalloc, hipHostRegister) nor managed");
        return;
    }
    const unsigned sides = sim_space_around(space, addr, &below, &above);
    if (!sides) och_strbuf_puts(s, "; there is no allocation of data at all");
    if (sides & SIM_BELOW) {
        och_strbuf_puts(s, "; below: ");
        describe_range(s, &below);
        och_strbuf_printf(s, ", %" PRIu64 " bytes past its end", addr - below.hi);
    }
    if (sides & SIM_ABOVE) {
        och_strbuf_puts(s, "; above: ");
        describe_range(s, &above);
        och_strbuf_printf(s, ", %" PRIu64 " bytes before it", above.lo - addr);
    }
}

const sim_inst *sim_wave_stands_at(const sim_wave *w) {
    const sim_uop *u = w->pc;
    /* The wave goes on behind its barrier, which has the uop before. */
    if (u && w->state == SIM_WAVE_BARRIER) u--;
    return u ? u->inst : NULL;
}

/* A race in LDS says so itself. */
static bool of_lds(const sim_fault *f) {
    return f->kind == SIM_FAULT_LDS || (f->kind == SIM_FAULT_RACE && f->what && !strncmp(f->what, "in LDS", 6));
}

void sim_fault_describe(const sim_wave *w, const char *kernel_name, const sim_space *space, char *buf, size_t n) {
    const sim_fault *f = &w->fault;
    och_strbuf s = {0};
    char title[512];
    och_strbuf_printf(&s, "%s: %s", sim_kernel_title(kernel_name, title, sizeof title), sim_fault_name(f->kind));
    if (f->inst) {
        char text[128];
        sim_inst_print(f->inst, w->lanes, text, sizeof text);
        och_strbuf_printf(&s, " at \"%s\" (code offset 0x%x)", text, f->inst->offset);
    }
    const sim_group *g = w->group;
    och_strbuf_printf(&s, ", workgroup (%u, %u, %u), wave %u", g->id[0], g->id[1], g->id[2], w->wave_id);
    if (f->lane >= 0) och_strbuf_printf(&s, ", lane %d", f->lane);
    bool addressed = f->kind == SIM_FAULT_MEMORY || f->kind == SIM_FAULT_MISALIGNED || f->kind == SIM_FAULT_FREED ||
                     f->kind == SIM_FAULT_READONLY || f->kind == SIM_FAULT_LDS || f->kind == SIM_FAULT_SCRATCH ||
                     f->kind == SIM_FAULT_RACE || f->kind == SIM_FAULT_UNINITIALIZED;
    if (addressed && f->size_bytes)
        och_strbuf_printf(&s, ", %s of %u bytes at %s0x%" PRIx64, f->store ? "write" : "read", f->size_bytes,
                          of_lds(f) ? "LDS address " : "", f->addr);
    else if (f->kind == SIM_FAULT_PC && f->addr)
        och_strbuf_printf(&s, ", to 0x%" PRIx64, f->addr);
    if (f->kind == SIM_FAULT_LDS) och_strbuf_printf(&s, "; the workgroup has %u bytes", g->lds_bytes);
    if (f->kind == SIM_FAULT_SCRATCH) och_strbuf_printf(&s, "; a lane has %u bytes", w->scratch_lane_bytes);
    if (f->what && f->kind != SIM_FAULT_LDS) och_strbuf_printf(&s, "; %s", f->what);
    if (space && (f->kind == SIM_FAULT_MEMORY || f->kind == SIM_FAULT_FREED || f->kind == SIM_FAULT_READONLY))
        describe_place(&s, space, f->addr);
    snprintf(buf, n, "%s", och_strbuf_str(&s));
    och_strbuf_deinit(&s);
}
