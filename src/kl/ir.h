/* Typed code of one specialised kernel: what the emitter prints. Everything of the language that is more than C has become
 * these few nodes: parameters are constants, functions inlined, static loops unrolled, rows, planes, tiles and pipelines are
 * addresses, loads, matrix instructions and barriers.
 *
 * Nodes live in the code's arena and are never shared between two parents where they have effects. The constructors below
 * fold constants, and return NULL (with code->failed) only when memory is refused. */
#ifndef OCH_KL_IR_H
#define OCH_KL_IR_H

#include "base/arena.h"
#include "kl/ast.h"
#include "kl/kl.h"

typedef enum och_kl_base {
    OCH_KL_VOID, OCH_KL_BOOL, OCH_KL_I8, OCH_KL_U8, OCH_KL_I16, OCH_KL_U16, OCH_KL_I32, OCH_KL_U32, OCH_KL_I64, OCH_KL_U64,
    OCH_KL_F16, OCH_KL_BF16, OCH_KL_F32, OCH_KL_FP8, OCH_KL_BF8, OCH_KL_BASE_COUNT_
} och_kl_base;

typedef struct och_kl_type {
    och_kl_base base;
    uint8_t lanes; /* 1: a scalar; 2, 4, 8, 16, 32 */
} och_kl_type;

/* Who sees the same value. Greater: fewer. */
typedef enum och_kl_uniformity { OCH_KL_U_CONST, OCH_KL_U_GROUP, OCH_KL_U_WAVE, OCH_KL_U_LANE } och_kl_uniformity;

/* `extra` of atomics and fences. */
typedef enum och_kl_memory_scope {
    OCH_KL_SCOPE_WAVE,
    OCH_KL_SCOPE_GROUP,
    OCH_KL_SCOPE_DEVICE,
    OCH_KL_SCOPE_SYSTEM
} och_kl_memory_scope;

typedef enum och_kl_space { OCH_KL_REG, OCH_KL_LDS, OCH_KL_GLOBAL } och_kl_space;

typedef struct och_kl_var {
    const char *name; /* as written; the emitter makes it unique with `id` */
    int id;
    och_kl_type type;  /* of an element */
    och_kl_space space; /* REG: a variable; LDS: a shared array; GLOBAL: a pointer that came as an argument */
    int n_dims;        /* REG and LDS arrays */
    uint32_t dims[3];
    bool fixed;        /* never assigned after its declaration */
    bool read_only;    /* GLOBAL: no store of this kernel goes through it */
    bool aliased;      /* GLOBAL: named by `over`, or an output that has one, or what others write and a fence lets be seen:
                          memory that is not this pointer's alone (no restrict, no read-only loads) */
    och_kl_uniformity uniformity;
    bool steady;       /* a buffer that nothing before writes: och_await lets it be */
    bool held;         /* and, no weight, read where the text says: a compiler would move it behind the wait */
    bool argument;     /* a parameter of the kernel (pointer, scalar, stride or size), at `offset` in the arguments; scalars */
    uint32_t offset;   /* and sizes are fixed REG variables. Parameters are created in the order of their offsets. */
    struct och_kl_var *next;
} och_kl_var;

typedef enum och_kl_ir_kind {
    OCH_KL_X_INT,     /* integer; type any integer or BOOL */
    OCH_KL_X_REAL,    /* real; type F32 or F16 */
    OCH_KL_X_VAR,     /* var, with constant indices in `at` for REG arrays; GLOBAL: the pointer itself (only below LOAD,
                         STORE) */
    OCH_KL_X_UNARY,   /* op: '-', '!', '~' */
    OCH_KL_X_BINARY,  /* op as in ast.h; by element on vectors of equal type; comparisons give BOOL (scalars only) */
    OCH_KL_X_SELECT,  /* args: condition (scalar BOOL), a, b: both may be evaluated */
    OCH_KL_X_CONVERT, /* args[0] to type, by element; storage types allowed on either side */
    OCH_KL_X_BITCAST, /* same number of bits */
    OCH_KL_X_BUILD,   /* a vector from `n_args` scalars, or from one scalar (splat) */
    OCH_KL_X_ELEM,    /* element `integer` of args[0] */
    OCH_KL_X_SLICE,   /* elements integer .. integer + lanes - 1 of args[0] */
    OCH_KL_X_CONCAT,  /* vectors of one type end to end */
    OCH_KL_X_LOAD,    /* mem */
    OCH_KL_X_CALL     /* intrinsic (intrinsics.def) with args */
} och_kl_ir_kind;

typedef struct och_kl_ir och_kl_ir;

/* `lanes` elements of `elem` from element `index` of a pointer or an LDS array (flat); index i64 for GLOBAL, i32 for LDS. */
typedef struct och_kl_mem {
    och_kl_var *base;
    och_kl_base elem;   /* as stored; a value of it is CONVERTed by the caller's code */
    uint8_t lanes;
    uint32_t align_bytes; /* known alignment */
    bool streamed;      /* non-temporal */
    bool bytes;         /* index counts bytes (planes), not elements */
    och_kl_ir *index;
} och_kl_mem;

typedef enum och_kl_intrinsic {
#define OCH_KL_INTRINSIC(sym, name, n_args, effect) OCH_KL_F_##sym,
#include "kl/intrinsics.def"
#undef OCH_KL_INTRINSIC
    OCH_KL_F_COUNT_
} och_kl_intrinsic;

struct och_kl_ir {
    och_kl_ir_kind kind;
    och_kl_type type;
    och_kl_uniformity uniformity;
    och_kl_pos pos;
    int64_t integer;
    double real;
    och_kl_var *var;
    uint32_t at[3];
    int op;
    och_kl_intrinsic intrinsic;
    int extra; /* an intrinsic's constant: scope, cluster size, matrix row (matrix.def) */
    och_kl_mem mem; /* LOAD, atomics, copies, LOAD_MATRIX and GROUP_PLACE */
    int n_args;
    och_kl_ir **args;
    bool effects; /* a call that is never moved or dropped stands in it */
};

typedef enum och_kl_ins_kind {
    OCH_KL_I_DECLARE, /* var (REG), value or NULL; arrays: every element from value (splat) */
    OCH_KL_I_ASSIGN,  /* var, at, value */
    OCH_KL_I_STORE,   /* mem, value: already of the stored type */
    OCH_KL_I_DO,      /* value: a call for its effect */
    OCH_KL_I_IF,      /* value, body, other */
    OCH_KL_I_FOR,     /* var (declared here) from value while < limit, += step (constant or expression); body */
    OCH_KL_I_WHILE,   /* value, body */
    OCH_KL_I_BLOCK,   /* body */
    OCH_KL_I_BARRIER, /* workgroup: LDS and global of the group */
    OCH_KL_I_BREAK, OCH_KL_I_CONTINUE, OCH_KL_I_RETURN
} och_kl_ins_kind;

typedef struct och_kl_ins och_kl_ins;
typedef struct och_kl_list {
    och_kl_ins *first, *last;
} och_kl_list;

struct och_kl_ins {
    och_kl_ins_kind kind;
    och_kl_pos pos; /* for #line */
    och_kl_var *var;
    uint32_t at[3];
    och_kl_ir *value, *limit, *step;
    och_kl_mem mem;
    och_kl_list body, other;
    bool share; /* FOR: over a share of lanes or of waves: the host keeps `limit` far enough from the end of 31 bits */
    och_kl_ins *next;
};

struct och_kl_code {
    och_arena arena;
    bool failed; /* memory was refused */
    och_kl_profile profile;
    och_kl_signature signature;
    int occupancy; /* waves a SIMD that the compiler is to leave registers for; 0: its own choice; -1: nothing was said */
    och_kl_var *vars, *last_var; /* all, in order of creation: arguments first */
    och_kl_var *lds;  /* the LDS arrays among them are also counted in signature.lds_bytes */
    int n_vars;
    och_kl_list body;
    uint32_t used[(OCH_KL_F_COUNT_ + 31) / 32]; /* intrinsics that occur: the emitter prints the helpers of these only */
};

/* ---- types ---- */
extern const char *const och_kl_base_names[OCH_KL_BASE_COUNT_]; /* "f32", ... */
uint32_t och_kl_base_bytes(och_kl_base b); /* 0 for VOID; BOOL 1 */
bool och_kl_base_is_int(och_kl_base b);    /* BOOL is none */
bool och_kl_base_is_signed(och_kl_base b); /* of integers */
bool och_kl_base_is_float(och_kl_base b);  /* F16, BF16, F32, FP8, BF8 */
static inline och_kl_type och_kl_type_of(och_kl_base b, int lanes) { return (och_kl_type){b, (uint8_t)lanes}; }

/* An empty code (no signature yet), owned by the caller: och_kl_code_destroy. */
OCH_WARN_UNUSED och_status och_kl_code_create(const och_kl_profile *profile, och_kl_code **out_code, och_err *err);

/* ---- constructors (ir.c); pos and, where not said, uniformity (that of the operands) are filled ---- */
och_kl_ir *och_kl_int(och_kl_code *c, och_kl_pos pos, och_kl_type t, int64_t v);
och_kl_ir *och_kl_real(och_kl_code *c, och_kl_pos pos, och_kl_type t, double v); /* a vector type: splat */
och_kl_ir *och_kl_use(och_kl_code *c, och_kl_pos pos, och_kl_var *v); /* a scalar or vector variable */
och_kl_ir *och_kl_use_at(och_kl_code *c, och_kl_pos pos, och_kl_var *v, const uint32_t at[3]);
och_kl_ir *och_kl_unary(och_kl_code *c, och_kl_pos pos, int op, och_kl_ir *a);
och_kl_ir *och_kl_binary(och_kl_code *c, och_kl_pos pos, int op, och_kl_ir *a, och_kl_ir *b); /* equal types */
och_kl_ir *och_kl_select(och_kl_code *c, och_kl_pos pos, och_kl_ir *cond, och_kl_ir *a, och_kl_ir *b);
och_kl_ir *och_kl_convert(och_kl_code *c, och_kl_pos pos, och_kl_type t, och_kl_ir *a);
och_kl_ir *och_kl_bitcast(och_kl_code *c, och_kl_pos pos, och_kl_type t, och_kl_ir *a);
och_kl_ir *och_kl_build(och_kl_code *c, och_kl_pos pos, och_kl_type t, och_kl_ir *const *elems, int n);
och_kl_ir *och_kl_elem(och_kl_code *c, och_kl_pos pos, och_kl_ir *a, int i);
och_kl_ir *och_kl_slice(och_kl_code *c, och_kl_pos pos, och_kl_ir *a, int first, int lanes);
och_kl_ir *och_kl_concat(och_kl_code *c, och_kl_pos pos, och_kl_ir *const *parts, int n);
och_kl_ir *och_kl_load(och_kl_code *c, och_kl_pos pos, const och_kl_mem *mem); /* type: mem's elem x lanes */
och_kl_ir *och_kl_call(och_kl_code *c, och_kl_pos pos, och_kl_intrinsic f, och_kl_type t, int extra,
                       och_kl_ir *const *args, int n);
och_kl_var *och_kl_new_var(och_kl_code *c, const char *name, och_kl_type t, och_kl_space space, const uint32_t *dims,
                           int n_dims);
och_kl_ins *och_kl_ins_new(och_kl_code *c, och_kl_list *to, och_kl_ins_kind kind, och_kl_pos pos);
/* Whether a call of f was made. */
bool och_kl_uses(const och_kl_code *c, och_kl_intrinsic f);
/* Constant value of a node, when it is one. */
bool och_kl_is_int(const och_kl_ir *x, int64_t *out_v);

#endif
