/* What is defined in the waves of a group; for the files check_uninit*.c alone. */
#ifndef SIM_EXEC_CHECK_UNINIT_H
#define SIM_EXEC_CHECK_UNINIT_H

#include "exec/access.h"
#include "exec/observer.h"

#define SIM_UNINIT_ROWS 512

/* How an instruction's result depends on its sources; found once for each uop. */
typedef enum sim_uninit_kind {
    SIM_UK_NOTHING,  /* nothing is known of it: what it writes counts as defined */
    /* scalar ALU */
    SIM_UK_S_AND, SIM_UK_S_OR, SIM_UK_S_XOR, SIM_UK_S_MOV, SIM_UK_S_CSELECT, SIM_UK_S_ANY, SIM_UK_S_MASK_EXEC, SIM_UK_S_WREXEC,
    /* control */
    SIM_UK_SCC, SIM_UK_VCC, SIM_UK_EXEC, SIM_UK_JUMP,
    /* vector ALU: all sources; the same, bit for bit; one of them at least; by bits of a mask; a byte permutation; dword by dword from the low one */
    SIM_UK_ALL, SIM_UK_COPY, SIM_UK_ONE, SIM_UK_CNDMASK, SIM_UK_PERM, SIM_UK_LOW_FIRST, SIM_UK_DEFINES,
    SIM_UK_READLANE, SIM_UK_READFIRSTLANE, SIM_UK_WRITELANE, SIM_UK_SWAP, SIM_UK_CROSS, SIM_UK_SWAP_CROSS, SIM_UK_MOVREL,
    SIM_UK_DUAL,
    /* memory */
    SIM_UK_SMEM, SIM_UK_MEMORY, SIM_UK_DS_LANES
} sim_uninit_kind;

typedef struct sim_uninit_class {
    uint8_t kind;
    bool not0, not1, not_result; /* S_AND, S_OR, S_XOR: of complements */
    bool sets_scc, acc;          /* acc: the destination is a source too */
} sim_uninit_class;

typedef struct sim_uninit_wave {
    uint64_t v[SIM_UNINIT_ROWS];  /* lanes whose dword is defined */
    uint32_t *bits;               /* [n_rows][lanes]: of a lane that is not, which bits: scalar masks are kept in lanes */
    uint32_t n_rows, lanes;
    uint32_t s[128];              /* bits that are undefined */
    uint32_t v_from[SIM_UNINIT_ROWS], s_from[128]; /* uop + 1 that brought what is undefined; 0: never written */
    bool scc;                     /* undefined */
    uint32_t scc_from;
    uint8_t *scratch;             /* [scratch_lane_bytes][lanes]: undefined bits of the byte */
} sim_uninit_wave;

typedef struct sim_uninit_group {
    struct sim_uninit_group *next;
    const sim_group *group;
    uint32_t n_waves;
    sim_uninit_wave *waves;
    uint8_t *lds;                 /* [lds_bytes]: written */
} sim_uninit_group;

typedef struct sim_uninit {
    sim_observer base; /* first */
    const sim_launch *l;
    sim_uninit_group *groups, *now;
    sim_uninit_class *classes;    /* [uops] */
    bool lost;
    sim_access access;
    char text[512];
} sim_uninit;

sim_uninit_class sim_uninit_class_of(const sim_uop *u);

/* Bits of a scalar operand's k-th dword that are undefined. */
uint32_t sim_uninit_scalar(const sim_wave *w, const sim_uninit_wave *v, const sim_operand *o, unsigned k);
/* Lanes for which a vector ALU's source dword is defined. */
uint64_t sim_uninit_lanes(const sim_wave *w, const sim_uninit_wave *v, const sim_operand *o, unsigned k);

/* Undefined bits of a lane's dword. */
uint32_t sim_uninit_lane_bits(const sim_uninit_wave *v, uint32_t reg, unsigned lane);
void sim_uninit_set_lane(sim_uninit_wave *v, uint32_t reg, unsigned lane, uint32_t undefined, uint32_t from);

/* Carry what is undefined through an instruction. False: the wave was accused. */
bool sim_uninit_salu(sim_uninit *o, sim_wave *w, sim_uninit_wave *v, const sim_uop *u, const sim_uninit_class *c);
bool sim_uninit_valu(sim_uninit *o, sim_wave *w, sim_uninit_wave *v, const sim_uop *u, const sim_uninit_class *c);

/* Stops the wave: `what` is decided by something undefined, whose operand and origin are given (NULL: none). */
bool sim_uninit_accuse(sim_uninit *o, sim_wave *w, const sim_uop *u, int lane, const char *what, const sim_operand *which,
                       unsigned k, uint32_t from);

#endif
