/* The binder's state; for bind.c and program.c alone. */
#ifndef SIM_EXEC_BINDER_H
#define SIM_EXEC_BINDER_H

#include "exec/bind.h"

typedef struct sim_const {
    uint64_t value;
    unsigned n_rows;
    uint32_t offset;
} sim_const;

struct sim_binder {
    sim_isa isa;
    unsigned lanes;
    sim_const *consts; /* owned; the area goes to the program */
    size_t n_consts, consts_capacity;
    uint8_t *const_area;
    size_t const_bytes, const_capacity;
    sim_uop halves[2]; /* with has_halves: the uops that a pair's uop runs (u->core points at them once they have a place) */
    bool has_halves;
};

#endif
