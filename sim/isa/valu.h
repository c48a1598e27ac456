/* Vector ALU instructions: rows, lane functions and what they share. A row says an instruction's operand types and its
 * expression for one lane (valu_*.def); the expression becomes a lane function ("core": a loop over chunks of 32 lanes) in
 * three builds, generic, AVX2 and AVX-512, chosen at run time. */
#ifndef SIM_ISA_VALU_H
#define SIM_ISA_VALU_H

#include "exec/bind.h"

/* Types of a row's operands, as the lane function takes them. */
typedef enum sim_vt {
    SIM_VT_N,                          /* none */
    SIM_VT_U32, SIM_VT_I32, SIM_VT_F32,
    SIM_VT_U16, SIM_VT_I16, SIM_VT_F16, SIM_VT_BF16,
    SIM_VT_U64, SIM_VT_I64, SIM_VT_F64,
    SIM_VT_PU16, SIM_VT_PI16, SIM_VT_PF16, SIM_VT_PBF16, /* two halves of a dword */
    SIM_VT_PF32,                       /* two dwords of a pair */
    SIM_VT_MIX,                        /* f32, or a half of a dword as f16 (mixed-precision operations) */
    SIM_VT_FB, SIM_VT_HB, SIM_VT_DB,   /* f32, f16, f64 that the core takes as bits: modifiers are a float's */
    SIM_VT_M,                          /* a lane mask (destination of compares) */
    SIM_VT_U128,                       /* four rows */
    SIM_VT_S                           /* a scalar register pair, read once: not by rows */
} sim_vt;

/* What else a row says. */
enum {
    SIM_V_NAN = 1 << 0,    /* a NaN result is an operand's, quieted, the first in source order; else the default */
    SIM_V_FLUSH = 1 << 1,  /* the result is flushed where the mode flushes (operations that copy rather than compute) */
    SIM_V_CIN = 1 << 2,    /* src[2] is a lane mask */
    SIM_V_COUT = 1 << 3,   /* a lane mask goes to sdst */
    SIM_V_ACC = 1 << 4,    /* the destination is the last source */
    SIM_V_KEEP9 = 1 << 5,  /* a 16-bit result that keeps the upper half on gfx9 too */
    SIM_V_HALF = 1 << 6,   /* writes 16 bits whatever its type says: op_sel chooses the half (conversions to two bytes) */
    SIM_V_BYTE = 1 << 7,   /* writes one byte: op_sel[3:2] chooses it */
    SIM_V_RAW = 1 << 8,    /* neg, abs, op_sel, omod are the instruction's own business (bitop3, iu8, scaled conversions) */
    SIM_V_SRCHALF = 1 << 9, /* src0 is a half that op_sel chooses though its type is wider */
    SIM_V_SRCBYTE = 1 << 10, /* src0 is a byte that op_sel[1:0] chooses (in reverse order of its bits) */
    SIM_V_VCCIN = 1 << 11, /* VCC is a mask in, beside three sources */
    SIM_V_MIXED = 1 << 12, /* sources and result are floats of different widths */
    SIM_V_DSTHI = 1 << 13  /* writes the upper half */
};

typedef struct sim_vrow {
    const char *name;      /* AMD's name without encoding suffix; "NAME!" is what clamp makes of an integer operation */
    uint8_t td, t[3];      /* sim_vt */
    uint32_t flags;
    const char *bound;     /* NULL: exact */
} sim_vrow;

/* What a core works on. Sources and destination may be the same rows: an iteration reads its lane before it writes it. */
typedef struct sim_vargs {
    const uint32_t *s[3];
    uint32_t *d;
    unsigned lanes;
    uint64_t cin, cout;    /* lane masks */
    uint32_t imm;          /* of the row: a truth table, signedness, ... */
    bool ieee;             /* MODE.IEEE, or what stands for it */
    bool flush;            /* denormals of the row's type are flushed */
    bool gcn;              /* gfx9's choice of two NaNs */
    bool ovfl;             /* MODE.FP16_OVFL: what is too large for the small format becomes its largest number */
    bool fnuz;             /* fp8 and bf8 without infinities and negative zero (gfx942) */
    uint64_t exec;
} sim_vargs;

typedef void sim_vcore(sim_vargs *a);

/* Moves lanes of `mask` from res to rows at d. */
typedef void sim_vstore(uint32_t *d, const uint32_t *res, unsigned rows, unsigned lanes, uint64_t mask);

typedef struct sim_vcode {
    sim_vcore *core;
    /* Direct handlers, for wave32 and wave64; NULL: none. */
    sim_uop_fn *hot[2];        /* sources are rows and constants as they are */
    sim_uop_fn *hot_scalar[2]; /* ... and scalar registers of the file */
    sim_uop_fn *hot_altered;   /* ... and special ones, and altered (SIM_A_*) */
    const sim_vrow *row;
    sim_vstore *store;      /* of the level */
} sim_vcode;

extern const sim_vrow sim_vrows[];
extern const size_t sim_n_vrows;
/* Indexed as sim_vrows. */
extern const sim_vcode sim_vcode_generic[];
#if defined __x86_64__
extern const sim_vcode sim_vcode_avx2[];
extern const sim_vcode sim_vcode_avx512[];
extern sim_uop_fn *const sim_vadd64_avx512[2]; /* for wave32 and wave64: see sim_valu_fused */
#endif

/* The row of a name or alias: an index, or -1. */
int sim_vrow_find(const char *name);
/* The code of the level that the host has. */
const sim_vcode *sim_vcode_at(int row);

static inline unsigned sim_vt_rows(unsigned t) {
    if (t == SIM_VT_U128) return 4;
    return t == SIM_VT_U64 || t == SIM_VT_I64 || t == SIM_VT_F64 || t == SIM_VT_DB || t == SIM_VT_PF32 ? 2 : 1;
}
static inline bool sim_vt_is16(unsigned t) { return (t >= SIM_VT_U16 && t <= SIM_VT_BF16) || t == SIM_VT_HB; }

/* What a uop of this class holds: core: its sim_vcode; flags below; imm: the scalar destination of a mask, or a truth table
 * (SIM_V_RAW); d: destination row, or the scalar register of a compare. */
enum {
    SIM_U_KEEP16 = 1,  /* 16-bit result: the other half stays */
    SIM_U_DSTHI = 2,   /* ... and goes to the upper half */
    SIM_U_CMPX = 4,    /* a compare that writes EXEC */
    SIM_U_CMPX_BOTH = 8, /* ... and its scalar destination */
    SIM_U_ALTERED = 16 /* some source is altered: without its direct handler the operation needs the general one */
};
/* What a direct handler does to source i on its way (u->aux[i]); 0: nothing. */
enum {
    SIM_A_NEG = 1,
    SIM_A_ABS = 2,
    SIM_A_HI = 4,      /* 16 bits: the upper half; packed: what the lower half is made of; pair: the upper dword, ... */
    SIM_A_OTHER = 8,   /* packed, pair: the upper half is made of the lower one */
    SIM_A_NEG_HI = 16, /* packed, pair */
    SIM_A_HALF = 32,   /* SIM_VT_MIX: a half (SIM_A_HI: the upper) as f16 */
    SIM_A_DPP = 64     /* source 0: lanes come from others first; the uop after this one is the sim_dpp_map */
};
/* Where each lane reads while all lanes are on; SIM_DPP_ZERO: nowhere, it reads 0. Takes the place of a uop. */
enum { SIM_DPP_ZERO = 255 };
typedef struct sim_dpp_map {
    uint8_t from[SIM_MAX_LANES];
} sim_dpp_map;
_Static_assert(sizeof(sim_dpp_map) <= sizeof(sim_uop), "a map takes the place of a uop");
static inline const sim_vrow *sim_uop_vrow(const sim_uop *u) {
    return ((const sim_vcode *)u->core)->row;
}

/* A handler that does u's work and that of the uop after it, and returns u + 2; NULL: none. The second stays as it is, for
 * those who jump to it. */
sim_uop_fn *sim_valu_fused(const sim_uop *u, unsigned lanes);

/* Handlers. plain: no modifier, any EXEC. general: modifiers, DPP, SDWA, halves, omod, clamp. */
const sim_uop *sim_valu_plain(sim_wave *w, const sim_uop *u);
const sim_uop *sim_valu_general(sim_wave *w, const sim_uop *u);
/* The rest of a direct handler's work from lane `first` on, where a NaN or the mode asks for care. */
const sim_uop *sim_valu_resume(sim_wave *w, const sim_uop *u, unsigned first);
const sim_uop *sim_valu_general_from(sim_wave *w, const sim_uop *u, unsigned first);
/* Runs the core under the rounding and flushing that the row's types have in MODE. a->s, d, lanes, cin, imm are set. */
void sim_valu_run(sim_wave *w, const sim_vcode *code, const sim_vrow *row, sim_vargs *a);
/* Moves lanes of `mask` from res to the row(s) at byte offset d. */
void sim_valu_store(sim_wave *w, uint32_t d, const uint32_t *res, unsigned rows, uint64_t mask);
/* Results of a run to where they go: masks to scalar registers, rows to the destination at `mask`. */
void sim_valu_finish(sim_wave *w, const sim_uop *u, const sim_vrow *row, const sim_vargs *a, uint32_t *res, uint64_t mask);

/* V_MOV_B32 of gfx9 while register indexing is on (cross.c). */
const sim_uop *sim_valu_indexed_mov(sim_wave *w, const sim_uop *u);

/* Binding of what is not a row: pairs, scalar results, scaled conversions. */
sim_bound sim_bind_vopd(sim_binder *b, const sim_inst *inst, sim_uop *u);
/* An instruction as row i_row. */
sim_bound sim_bind_vrow(sim_binder *b, const sim_inst *inst, int i_row, sim_uop *u);
sim_bound sim_bind_vscale(sim_binder *b, const sim_inst *inst, sim_uop *u);
bool sim_meaning_at_vscale(size_t i, sim_meaning *out);
/* DPP by a direct handler: u is bound as that handler's, which is then run with EXEC cut to the lanes that write. */
void sim_bind_dpp(sim_binder *b, const sim_inst *inst, sim_uop *u);
/* Whether an instruction's operands need the general handler. */
bool sim_valu_is_plain(const sim_inst *inst, const sim_vrow *row);
/* op_sel[3:0], whatever operands it belongs to. */
unsigned sim_inst_op_sel(const sim_inst *inst);

#endif
