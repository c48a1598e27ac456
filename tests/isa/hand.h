/* Hand-made instructions and waves: single instructions without a decoder. */
#ifndef TESTS_ISA_HAND_H
#define TESTS_ISA_HAND_H

#include "base/alloc.h"
#include "exec/binder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { HAND_VGPRS = 64 };

typedef struct hand {
    sim_space *space;
    sim_worker worker;
    sim_range ranges[4];
    sim_group group;
    sim_wave w;
    sim_inst inst;
    sim_uop u[2];
    sim_uop halves[2]; /* of a pair */
    uint32_t v[HAND_VGPRS * SIM_MAX_LANES];
    uint8_t lds[8192];
    uint8_t scratch[64 * 256];
} hand;

static inline hand *hand_make(sim_isa isa, unsigned lanes) {
    och_err err = {0};
    hand *h = och_calloc(1, sizeof *h);
    assert_non_null(h);
    assert_int_equal(sim_space_create(&h->space, &err), OCH_OK);
    h->worker = (sim_worker){.space = h->space, .ranges = h->ranges, .n_ranges = 4};
    h->group = (sim_group){.n_waves = 1, .waves = &h->w, .lds = h->lds, .lds_bytes = sizeof h->lds};
    h->w = (sim_wave){.v = h->v, .lanes = (uint8_t)lanes, .isa = (uint8_t)isa, .n_vgprs = HAND_VGPRS, .group = &h->group,
                      .worker = &h->worker, .scratch = h->scratch, .scratch_lane_bytes = 256, .mode = 0xf0,
                      .exec_full = lanes == 64 ? ~(uint64_t)0 : 0xffffffffu};
    h->w.s[SIM_S_EXEC_LO] = 0xffffffffu;
    h->w.s[SIM_S_EXEC_HI] = lanes == 64 ? 0xffffffffu : 0;
    return h;
}
static inline void hand_free(hand *h) {
    sim_space_destroy(h->space);
    och_free(h);
}

static inline sim_operand hand_v(unsigned reg, unsigned n) {
    return (sim_operand){.kind = SIM_K_VGPR, .reg = (uint16_t)reg, .n_dwords = (uint8_t)n};
}
static inline sim_operand hand_s(unsigned reg, unsigned n) {
    return (sim_operand){.kind = SIM_K_SGPR, .reg = (uint16_t)reg, .n_dwords = (uint8_t)n};
}
#define HAND_NONE ((sim_operand){.kind = SIM_K_NONE, .n_dwords = 1})
#define HAND_V(h, reg, lane) ((h)->v[(reg) * (h)->w.lanes + (lane)])

static inline uint64_t hand_alloc(hand *h, uint64_t bytes) {
    och_err err = {0};
    uint64_t a = 0;
    assert_int_equal(sim_space_alloc(h->space, bytes, 256, SIM_MEM_DEVICE, 0, false, &a, &err), OCH_OK);
    return a;
}
static inline void *hand_host(hand *h, uint64_t addr, uint64_t bytes) {
    void *p = sim_space_host(h->space, addr, bytes);
    assert_non_null(p);
    return p;
}
/* A 64-bit address in a pair of vector registers. */
static inline void hand_addr(hand *h, unsigned reg, unsigned lane, uint64_t addr) {
    HAND_V(h, reg, lane) = (uint32_t)addr;
    HAND_V(h, reg + 1, lane) = (uint32_t)(addr >> 32);
}

typedef sim_bound hand_bind(sim_binder *b, const sim_inst *inst, sim_uop *u);
static inline sim_bound hand_bound(hand *h, hand_bind *bind) {
    struct sim_binder b = {.isa = (sim_isa)h->w.isa, .lanes = h->w.lanes};
    memset(h->u, 0, sizeof h->u);
    h->u[0].index = 1;
    h->inst.isa = h->w.isa;
    sim_bound r = bind(&b, &h->inst, &h->u[0]);
    if (b.has_halves) {
        memcpy(h->halves, b.halves, sizeof h->halves);
        h->u[0].core = h->halves;
    }
    return r;
}
/* Binds h->inst and runs it once: the kind of the fault, NONE if there was none. */
static inline sim_fault_kind hand_run(hand *h, hand_bind *bind) {
    h->w.fault = (sim_fault){0};
    h->w.state = SIM_WAVE_RUN;
    assert_int_equal(hand_bound(h, bind), SIM_BOUND_UOP);
    const sim_uop *next = h->u[0].fn(&h->w, &h->u[0]);
    if (h->w.fault.kind) {
        assert_null(next);
        assert_int_equal(h->w.state, SIM_WAVE_FAULT);
    } else {
        assert_ptr_equal(next, &h->u[1]);
    }
    return (sim_fault_kind)h->w.fault.kind;
}

#endif
