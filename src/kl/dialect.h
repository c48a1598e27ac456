/* A dialect: what the emitter prints around and below the code it prints itself, which is the same for all of them. Operations
 * that a dialect or a target says in its own way are functions och_..., printed before the kernel, and only those that the
 * kernel calls (with what they call in turn). */
#ifndef OCH_KL_DIALECT_H
#define OCH_KL_DIALECT_H

#include "kl/ir.h"

/* The pieces of a prologue, in the order they are printed. */
typedef enum och_kl_piece {
    OCH_KL_P_VECTOR,
    OCH_KL_P_F16,
    OCH_KL_P_BITS,
    OCH_KL_P_SPLAT,
    OCH_KL_P_CONVERT,
    OCH_KL_P_EACH,
    OCH_KL_P_SLICE,
    OCH_KL_P_CONCAT,
    OCH_KL_P_GET,
    OCH_KL_P_GET_STREAM,
    OCH_KL_P_PUT,
    OCH_KL_P_PUT_STREAM,
    OCH_KL_P_THREAD,
    OCH_KL_P_LANE,
    OCH_KL_P_GROUP_ID,
    OCH_KL_P_GROUP_COUNT,
    OCH_KL_P_MIN,
    OCH_KL_P_MAX,
    OCH_KL_P_ABS,
    OCH_KL_P_FMA,
    OCH_KL_P_SQRT,
    OCH_KL_P_RCP,
    OCH_KL_P_RSQRT,
    OCH_KL_P_EXP2,
    OCH_KL_P_LOG2,
    OCH_KL_P_FLOOR,
    OCH_KL_P_CEIL,
    OCH_KL_P_ROUND,
    OCH_KL_P_TRUNC,
    OCH_KL_P_COPYSIGN,
    OCH_KL_P_ISNAN,
    OCH_KL_P_ISINF,
    OCH_KL_P_ISFINITE,
    OCH_KL_P_TO_BF16,
    OCH_KL_P_FROM_BF16,
    OCH_KL_P_FP8_FIELDS,
    OCH_KL_P_TO_FP8,
    OCH_KL_P_FROM_FP8,
    OCH_KL_P_TO_BF8,
    OCH_KL_P_FROM_BF8,
    OCH_KL_P_MULHI,
    OCH_KL_P_CLZ,
    OCH_KL_P_CTZ,
    OCH_KL_P_POPCOUNT,
    OCH_KL_P_BFE,
    OCH_KL_P_SBFE,
    OCH_KL_P_PERM,
    OCH_KL_P_DOT4_SS,
    OCH_KL_P_DOT4_US,
    OCH_KL_P_DOT4_UU,
    OCH_KL_P_DOT8_US4,
    OCH_KL_P_DOT2,
    OCH_KL_P_PACK4_I8,
    OCH_KL_P_UNPACK4_I8,
    OCH_KL_P_UNPACK4_U8,
    OCH_KL_P_WORDS,
    OCH_KL_P_FIRST,
    OCH_KL_P_READ,
    OCH_KL_P_DPP,
    OCH_KL_P_SWAP_HALVES,
    OCH_KL_P_LANE_XOR,
    OCH_KL_P_SHUFFLE_XOR,
    OCH_KL_P_SHUFFLE,
    OCH_KL_P_BROADCAST,
    OCH_KL_P_FOLD_TOP,
    OCH_KL_P_FOLD,
    OCH_KL_P_WAVE_SUM,
    OCH_KL_P_WAVE_MAX,
    OCH_KL_P_WAVE_MIN,
    OCH_KL_P_WAVE_SCAN,
    OCH_KL_P_MMA_SS,
    OCH_KL_P_MMA_US,
    OCH_KL_P_BALLOT,
    OCH_KL_P_BARRIER,
    OCH_KL_P_BARRIER_ALL,
    OCH_KL_P_FENCE,
    OCH_KL_P_ATOMIC_ADD,
    OCH_KL_P_ATOMIC_MIN,
    OCH_KL_P_ATOMIC_MAX,
    OCH_KL_P_ATOMIC_OR,
    OCH_KL_P_ATOMIC_AND,
    OCH_KL_P_ATOMIC_EXCHANGE,
    OCH_KL_P_ATOMIC_CAS,
    OCH_KL_P_ATOMIC_LOAD,
    OCH_KL_P_ATOMIC_STORE,
    OCH_KL_P_SHARED,
    OCH_KL_P_COPY_ASYNC,
    OCH_KL_P_COPY_GROUPS,
    OCH_KL_P_LOAD_MATRIX,
    OCH_KL_P_LOAD_TURNED,
    OCH_KL_P_HALVES,
    OCH_KL_P_GROUP_PLACE,
    OCH_KL_P_GROUP_STEPS,
    OCH_KL_P_GROUP_HOLD,
    OCH_KL_P_AWAIT,
    OCH_KL_P_COUNT_
} och_kl_piece;

/* What of a profile a piece may depend on, beside the target's instructions. */
enum {
    OCH_KL_WHEN_WAVE32 = 1 << 0,  /* the code's waves */
    OCH_KL_WHEN_WAVE64 = 1 << 1,
    OCH_KL_WHEN_ROWS = 1 << 2,    /* DPP row_xmask, v_permlanex16: targets that know wave32 */
    OCH_KL_WHEN_HALVES = 1 << 3,  /* v_permlane64 */
    OCH_KL_WHEN_FNUZ = 1 << 4,    /* fp8 and bf8 are the FNUZ encodings; else OCP */
    OCH_KL_WHEN_CVT_FP8 = 1 << 5  /* and the target converts them */
};

#define OCH_KL_PIECE_DEPS 6

/* The first row of a piece whose conditions hold is printed; a piece without such a row needs no text. */
typedef struct och_kl_piece_row {
    och_kl_piece piece;
    uint32_t ops, when; /* all of these OCH_* instructions and OCH_KL_WHEN_* */
    och_kl_piece deps[OCH_KL_PIECE_DEPS]; /* 0 (VECTOR, which every one may use) ends the list */
    const char *text;
} och_kl_piece_row;

typedef struct och_kl_dialect {
    const char *name;       /* "HIP C++" */
    const char *head;       /* before everything */
    const char *vector;     /* format of a vector's typedef: element, lanes, element, lanes */
    const char *f16;        /* typedef of f16; NULL: piece F16 */
    /* A kernel's attributes. occupancy: as in och_kl_code. */
    void (*launch)(och_strbuf *out, const och_kl_signature *s, const och_target *t, int occupancy);
    uint32_t lds_static_bytes; /* the most LDS that code may have of its own; 0: as much as there is */
    const char *release;    /* for targets with OCH_DEPENDENT_LAUNCH: what is launched after may start */
    const char *lds_block;  /* what is given at the launch beyond that: bytes called och_lds; format, of their alignment */
    const och_kl_piece_row *rows;
    int n_rows;
} och_kl_dialect;

extern const och_kl_dialect och_kl_dialect_hip, och_kl_dialect_cuda;

const och_kl_dialect *och_kl_dialect_of(const och_kl_profile *p);
/* NULL: no text. */
const och_kl_piece_row *och_kl_piece_find(const och_kl_dialect *d, och_kl_piece piece, const och_kl_profile *p);

#endif
