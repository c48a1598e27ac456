/* Specialisation, from inside: what its files share. A kernel's statements are lowered in order into the code's IR
 * while names are resolved, constants computed, functions inlined and types checked. A variable may get a value that
 * fewer see as the same further down than where it is read; so the whole is lowered again, starting from what is known
 * by then, until nothing rises.
 *
 * Functions that return bool have reported the error when they return false. */
#ifndef OCH_KL_SPEC_H
#define OCH_KL_SPEC_H

#include "kl/diag.h"
#include "kl/ir.h"

/* Who sees the same value, finer than och_kl_uniformity: the clusters are told apart. Greater: fewer. */
typedef enum och_kl_level {
    OCH_KL_L_CONST,
    OCH_KL_L_GROUP,
    OCH_KL_L_WAVE,
    OCH_KL_L_C32,
    OCH_KL_L_C16,
    OCH_KL_L_C8,
    OCH_KL_L_LANE
} och_kl_level;
static inline och_kl_level och_kl_join(och_kl_level a, och_kl_level b) {
    return a > b ? a : b;
}
och_kl_uniformity och_kl_level_uniformity(och_kl_level l);
const char *och_kl_level_name(och_kl_level l); /* "lane", "wave-uniform", ... */
och_kl_level och_kl_cluster_level(int lanes);

typedef enum och_kl_val_kind {
    OCH_KL_V_BAD, /* of what failed to check: every use fails without another message */
    OCH_KL_V_VOID,
    OCH_KL_V_INT, /* a number without a type yet */
    OCH_KL_V_REAL,
    OCH_KL_V_CHOICE, /* c ? 1 : 2: one of two numbers, `sides`; `ir` is the condition */
    OCH_KL_V_IR,     /* a value */
    OCH_KL_V_REG,    /* a variable, or what is left of an array behind `n_at` indices */
    OCH_KL_V_STRING,
    OCH_KL_V_TYPE,   /* `type` */
    OCH_KL_V_FORMAT, /* `decl`: a format or an act */
    OCH_KL_V_BUFFER, /* `buf`, behind n_at = 0 indices */
    OCH_KL_V_ROW,    /* `buf` and `ir`: the row's first byte */
    OCH_KL_V_UNIT,   /* `unit` */
    OCH_KL_V_LDS,    /* `lds` behind n_at indices, `ir`: the flat element (NULL: 0) */
    OCH_KL_V_SPACE,  /* `space`, `cluster` */
    OCH_KL_V_AXES,   /* group.id, group.count: `space` 'i' or 'c' */
    OCH_KL_V_SUB,    /* x.sub(r, c): `buf`, `ir` first row, `ir2` first column */
    OCH_KL_V_TILE,   /* `tile` */
    OCH_KL_V_ROWVEC  /* `rowvec`: of acc.row_max(), acc.rows() */
} och_kl_val_kind;

typedef struct och_kl_slot {
    och_kl_var *var;
    och_kl_level level;
    int id; /* in the table that lasts from one lowering to the next; -1: the level is final */
    bool read;
    uint64_t multiple;
} och_kl_slot;

typedef struct och_kl_buffer {
    const och_kl_arg_ast *ast;
    och_kl_arg *arg;
    och_kl_arg_kind kind;
    bool in, out, optional, aliased, written;
    bool steady; /* a weight, or said to be: what runs before does not write it */
    och_kl_var *var;
    och_kl_base elem;          /* BUFFER */
    const och_kl_decl *format; /* WEIGHT, ACT */
    int rank;
    och_kl_ir *dims[3]; /* i64 */
    uint64_t multiples[3];
    och_kl_ir *strides[2]; /* i64: elements, or bytes of WEIGHT and ACT */
    och_kl_ir *planes[OCH_KL_MAX_PLANES]; /* u32: where each begins in a row */
} och_kl_buffer;

typedef struct och_kl_lds {
    och_kl_var *var; /* dims with the padding */
    och_kl_base elem;
    int rank;
    uint32_t dims[3], pad; /* as written; elements added to the last */
    bool swizzled;         /* the 16-byte pieces of a row lie where och_kl_swizzle_of() says */
} och_kl_lds;

/* A unit of a format, whose planes are loaded where unit() stands when they are first asked for. */
typedef struct och_kl_bundle {
    och_kl_buffer *buf;
    och_kl_ir *row, *index; /* first byte of the row (i64; i32 in LDS), number of the unit (u32): simple */
    och_kl_level level;
    bool streamed;
    och_kl_lds *staged; /* not NULL: the row's bytes lie there */
    och_kl_list *list; /* the loads go into it behind `anchor` */
    och_kl_ins *anchor;
    och_kl_list *outer; /* not NULL: they are declared in it, behind `outer_anchor`, and assigned there */
    och_kl_ins *outer_anchor;
    och_kl_pos pos;
    och_kl_ir *loaded[OCH_KL_MAX_PLANES];
} och_kl_bundle;

struct och_kl_tile;
struct och_kl_rowvec;

typedef struct och_kl_val {
    och_kl_val_kind kind;
    och_kl_level level;
    uint64_t multiple; /* of integers: divides the value; 0: it is 0 */
    uint32_t columns;  /* of a SUB: so many, in matrices one behind another; 0: a matrix's */
    bool streamed;     /* of a SUB: units are read once */
    bool inside;       /* of a SUB: all of it is in the buffer */
    int64_t integer;
    double real;
    och_kl_ir *ir, *ir2;
    struct och_kl_val *sides;
    och_kl_slot *slot;
    int n_at;
    uint32_t at[3];
    och_kl_type type;
    const och_kl_decl *decl;
    const char *text;
    och_kl_buffer *buf;
    och_kl_lds *lds;
    och_kl_bundle *unit;
    struct och_kl_tile *tile;
    struct och_kl_rowvec *rowvec;
    bool counts_lanes;  /* the number of a thread or of a lane, itself */
    int space, cluster; /* 'g' group, 'w' wave, 't' thread, 'c' cluster */
    int size;           /* number of a size + 1, of a scalar argument - 1 (negative); 0: neither */
} och_kl_val;

typedef struct och_kl_binding_node {
    const char *name;
    och_kl_pos pos;
    och_kl_val val;
    bool fixed; /* let, parameters: not assigned */
    struct och_kl_binding_node *next;
} och_kl_binding_node;

typedef struct och_kl_loop {
    int id; /* in the table of levels */
    och_kl_level level, around;
    struct och_kl_loop *outer;
} och_kl_loop;

typedef struct och_kl_frame { /* a function being inlined */
    const och_kl_decl *fn;
    struct och_kl_frame *outer;
} och_kl_frame;

typedef struct och_kl_alone och_kl_alone; /* lower_copy.c */
typedef struct och_kl_pipe {
    och_kl_list *before; /* what is added to it stands before the pipeline */
    int first_var;       /* number of the first variable of it */
    bool copied;         /* a copy went by itself */
    och_kl_alone *alone;
} och_kl_pipe;

typedef struct och_kl_spec {
    const och_kl_unit *unit;
    const och_kl_decl *kernel;
    const och_kl_binding *bindings;
    int n_bindings;
    och_kl_profile profile;
    och_kl_code *code;
    och_kl_signature *sig;
    och_kl_diag *diag;
    och_kl_binding_node *scope;   /* innermost first */
    const och_kl_decl *in_format; /* functions of this format are known by their names */
    och_kl_list *list;            /* where instructions go */
    och_kl_list prologue;         /* before the kernel's first */
    och_kl_level control;         /* of the conditions around */
    och_kl_level skipped;         /* lanes that have left this turn of the loop */
    och_kl_loop *loop;
    och_kl_frame *frame;
    int depth;           /* of blocks in the kernel */
    bool constants_only; /* no run-time value may come out of an expression */
    bool in_kernel;
    bool awaited;    /* an await() stands in the kernel */
    bool released;   /* a release() does */
    bool read_early; /* something beside weights was read before it */
    bool fenced;     /* a fence of the device's scope or the system's stands in it */
    och_kl_level *levels; /* of variables and loops, by number; lasts over the lowerings. Owned */
    int n_levels, cap_levels, next_level;
    bool again;
    uint64_t n_nodes;
    bool too_many; /* of them: it was said */
    int nested; /* expressions and statements that are being looked at, one in another, through calls and constants */
    och_kl_buffer *buffers;
    int n_buffers;
    uint64_t size_multiples[OCH_KL_MAX_SIZES];
    struct och_kl_scratch { /* LDS of reductions */
        och_kl_var *var;
        och_kl_base elem;
        uint32_t slots; /* elements in each half */
        struct och_kl_scratch *next;
    } * scratch;
    bool scratch_dirty[2]; /* a half may still be read by another wave */
    int scratch_turn;
    /* In a stage: stores to LDS are kept for after `do`, and what they need is declared outside of the conditions. */
    och_kl_list *deferred, *stage_outer;
    struct och_kl_pipe *pipe; /* in the stage of a pipeline whose copies may go by themselves; else NULL */
    bool one_slot; /* in the stage of a pipeline of depth 1: a store before `do` would be to what `do` reads */
    const och_kl_list *pipe_do; /* the statements of `do` themselves, not those of a block in it; NULL: not in `do` */
    och_kl_ins *stage_ins;       /* the coming step's stage, where `do` says when it begins; NULL: it has begun */
    bool stage_copies;           /* and it ends a group of copies */
    struct och_kl_tile *pending; /* of which products are under way that the next barrier waits for */
    struct och_kl_tile *turned[4]; /* the same of those whose second factor is turned, which may be several */
    int n_turned;
    int n_pending;               /* how many, counted since `do` began */
    bool waited;                 /* since then something stood there that such products may not be under way at */
    const struct och_kl_tile_at *tile_at; /* the element of which map or each is at */
    const struct och_kl_tile *tile;
} och_kl_spec;

#define OCH_KL_MAX_NODES 2000000u
#define OCH_KL_MAX_THREADS 1024 /* of a workgroup */
/* What .lanes(n) and .waves(n) share is counted in i32, and the last turn of a thread ends behind n. */
#define OCH_KL_MOST_SHARED (INT32_MAX - OCH_KL_MAX_THREADS)

/* ---- spec.c ---- */
/* Counts a node; false: too many. */
bool och_kl_count(och_kl_spec *s, och_kl_pos pos);
/* Goes into a node, with the C stack that it takes; false: too deep. och_kl_leave_node is called where this is true. */
bool och_kl_enter_node(och_kl_spec *s, och_kl_pos pos);
void och_kl_leave_node(och_kl_spec *s);
void *och_kl_alloc(och_kl_spec *s, size_t count, size_t size);

/* ---- scope.c ---- */
bool och_kl_bind(och_kl_spec *s, const char *name, och_kl_pos pos, och_kl_val v, bool fixed);
och_kl_binding_node *och_kl_lookup(och_kl_spec *s, const char *name);
const och_kl_decl *och_kl_find_decl(och_kl_spec *s, och_kl_decl_kind kind, const char *name);
/* "unknown name", with what was meant. */
bool och_kl_unknown(och_kl_spec *s, och_kl_pos pos, const char *what, const char *name);
/* A level that lasts: slot number, what is known of it so far. */
int och_kl_level_new(och_kl_spec *s, och_kl_level *out_level);
void och_kl_level_raise(och_kl_spec *s, int id, och_kl_level l);
/* A register variable. fixed: its level is `level`; else it is found by what is assigned. */
och_kl_slot *och_kl_slot_new(och_kl_spec *s, const char *name, och_kl_type t, const uint32_t *dims, int n_dims,
                             bool fixed, och_kl_level level);
void och_kl_slot_raise(och_kl_spec *s, och_kl_slot *slot, och_kl_level level);

/* ---- type.c ---- */
bool och_kl_base_find(const char *name, och_kl_base *out); /* f32 ... i64, bool, also storage types */
bool och_kl_type_find(const char *name, och_kl_type *out); /* f32x4 too */
bool och_kl_is_storage(och_kl_base b);                     /* bf16 fp8 bf8 i8 u8 i16 u16 */
och_kl_base och_kl_arithmetic(och_kl_base b);              /* what a storage type is loaded as */
const char *och_kl_type_text(och_kl_type t, char buf[24]);
const char *och_kl_val_text(const och_kl_val *v, char buf[64]); /* "f32", "a buffer", ... */
static inline bool och_kl_same(och_kl_type a, och_kl_type b) {
    return a.base == b.base && a.lanes == b.lanes;
}
static inline bool och_kl_is_number(const och_kl_val *v) {
    return v->kind == OCH_KL_V_INT || v->kind == OCH_KL_V_REAL || v->kind == OCH_KL_V_CHOICE;
}
och_kl_val och_kl_val_int(int64_t v);
och_kl_val och_kl_val_real(double v);
och_kl_val och_kl_val_bool(och_kl_spec *s, och_kl_pos pos, bool v);
och_kl_val och_kl_val_ir(och_kl_ir *ir, och_kl_level level);
/* A value of type t from v: numbers take it, i32 and u32 widen to i64; else an error that names `what`. */
bool och_kl_to_type(och_kl_spec *s, och_kl_pos pos, och_kl_val v, och_kl_type t, const char *what, och_kl_val *out);
/* A value with a type of its own: i32 or f32 for numbers; variables are read. */
bool och_kl_to_value(och_kl_spec *s, och_kl_pos pos, och_kl_val v, och_kl_val *out);
/* What is stored in a buffer or LDS of element type b: storage types convert. */
bool och_kl_to_stored(och_kl_spec *s, och_kl_pos pos, och_kl_val v, och_kl_base b, int lanes, och_kl_val *out);
bool och_kl_convert_val(och_kl_spec *s, och_kl_pos pos, och_kl_type t, och_kl_val v, och_kl_val *out); /* T(e) */
bool och_kl_to_bool(och_kl_spec *s, och_kl_pos pos, och_kl_val v, const char *what, och_kl_val *out);
/* An index: i32, u32 or i64 scalar. */
bool och_kl_to_index(och_kl_spec *s, och_kl_pos pos, och_kl_val v, och_kl_val *out);
bool och_kl_const_int(const och_kl_val *v, int64_t *out);
/* Both of one type for an operator; vectors take scalars. */
bool och_kl_unify(och_kl_spec *s, och_kl_pos pos, och_kl_val *a, och_kl_val *b, const char *what);
uint64_t och_kl_gcd(uint64_t a, uint64_t b);
bool och_kl_resolve_type(och_kl_spec *s, const och_kl_type_ast *t, och_kl_type *out); /* a scalar or vector type */

/* ---- expr.c ---- */
bool och_kl_eval(och_kl_spec *s, const och_kl_expr *e, och_kl_val *out);
bool och_kl_eval_value(och_kl_spec *s, const och_kl_expr *e, och_kl_val *out); /* and to_value */
bool och_kl_eval_const_int(och_kl_spec *s, const och_kl_expr *e, const char *what, int64_t *out);
bool och_kl_eval_const_bool(och_kl_spec *s, const och_kl_expr *e, const char *what, bool *out);
/* Several operands in order; one that a later one's statements could change is kept in a variable. */
bool och_kl_eval_list(och_kl_spec *s, const och_kl_expr *const *e, int n, och_kl_val *out);
bool och_kl_binary_val(och_kl_spec *s, och_kl_pos pos, int op, och_kl_val a, och_kl_val b, och_kl_val *out);

/* ---- lower.c: instructions, and values in variables ---- */
och_kl_level och_kl_control(const och_kl_spec *s);
/* A fixed variable with the value, unless it is simple already (constant, fixed variable). */
och_kl_ir *och_kl_keep(och_kl_spec *s, och_kl_pos pos, const char *name, och_kl_ir *x, och_kl_level level);
och_kl_val och_kl_keep_val(och_kl_spec *s, och_kl_pos pos, const char *name, och_kl_val v);
bool och_kl_is_stable(const och_kl_ir *x); /* no statement can change it */
bool och_kl_has_load(const och_kl_ir *x);
void och_kl_insert_after(och_kl_list *l, och_kl_ins *after, och_kl_ins *x); /* after NULL: first */
/* The instruction alone, in no list. */
och_kl_ins *och_kl_loose(och_kl_spec *s, och_kl_ins_kind kind, och_kl_pos pos);
void och_kl_do(och_kl_spec *s, och_kl_pos pos, och_kl_ir *call);
void och_kl_barrier(och_kl_spec *s, och_kl_pos pos);
void och_kl_scratch_unknown(och_kl_spec *s); /* control came from somewhere else */
bool och_kl_need_group(och_kl_spec *s, och_kl_pos pos, const char *what);
bool och_kl_need_wave(och_kl_spec *s, och_kl_pos pos, const char *what);
bool och_kl_need_cluster(och_kl_spec *s, och_kl_pos pos, const char *what, int lanes);
static inline och_kl_ir *och_kl_i32(och_kl_spec *s, och_kl_pos pos, int64_t v) {
    return och_kl_int(s->code, pos, och_kl_type_of(OCH_KL_I32, 1), v);
}
static inline och_kl_ir *och_kl_u32(och_kl_spec *s, och_kl_pos pos, int64_t v) {
    return och_kl_int(s->code, pos, och_kl_type_of(OCH_KL_U32, 1), v);
}
static inline och_kl_ir *och_kl_i64(och_kl_spec *s, och_kl_pos pos, int64_t v) {
    return och_kl_int(s->code, pos, och_kl_type_of(OCH_KL_I64, 1), v);
}
och_kl_ir *och_kl_thread_id(och_kl_spec *s, och_kl_pos pos);
och_kl_ir *och_kl_lane(och_kl_spec *s, och_kl_pos pos);
och_kl_ir *och_kl_wave_id(och_kl_spec *s, och_kl_pos pos);

/* ---- lower_mem.c: buffers, rows, LDS, atomics ---- */
/* A place in memory: what an index or load names. */
typedef struct och_kl_place {
    och_kl_mem mem;
    och_kl_level level; /* of the index */
    och_kl_buffer *buf; /* NULL: LDS */
} och_kl_place;
bool och_kl_index(och_kl_spec *s, const och_kl_expr *e, och_kl_val *out); /* E_INDEX as a value or a part of an array */
/* e as a place in memory that may be written; false in *out_is: it is none (no error). */
bool och_kl_place_of(och_kl_spec *s, const och_kl_expr *e, och_kl_place *out, bool *out_is);
bool och_kl_row(och_kl_spec *s, och_kl_pos pos, const och_kl_val *buf, const och_kl_expr *args, bool clamped,
                och_kl_val *out);
bool och_kl_row_method(och_kl_spec *s, const och_kl_expr *e, const och_kl_val *base, const char *name, bool *out_is,
                       och_kl_val *out);
bool och_kl_load_place(och_kl_spec *s, och_kl_pos pos, const och_kl_place *p, och_kl_val *out);
bool och_kl_store_place(och_kl_spec *s, och_kl_pos pos, och_kl_place *p, och_kl_val v);
bool och_kl_atomic(och_kl_spec *s, const och_kl_expr *e, const char *name, bool *out_is, och_kl_val *out);
/* Byte i * bytes of a row, in 64 bits. AMD: multiplied in 32, unsigned, so that the row stays in scalar registers beside a
 * 32-bit offset of the lane, which is how its loads take them. NVIDIA: in 64, where a loop's counter becomes a pointer. */
och_kl_ir *och_kl_scaled(och_kl_spec *s, och_kl_pos pos, och_kl_ir *i, uint32_t bytes);
och_kl_ir *och_kl_row_offset(och_kl_spec *s, och_kl_pos pos, och_kl_buffer *b, och_kl_ir *const *index, int n,
                             bool clamped); /* bytes */
/* A value in a variable of the stage's outermost block, set where it stands; outside of stages the value itself. */
och_kl_ir *och_kl_carry(och_kl_spec *s, och_kl_pos pos, const char *name, och_kl_ir *x);
/* Stores to LDS, or keeps the store for the end of the stage. */
void och_kl_emit_store(och_kl_spec *s, och_kl_pos pos, const och_kl_mem *m, och_kl_ir *value);
/* Whether LDS may be written here and now, not behind `do`; else the error is reported. */
bool och_kl_may_store_lds(och_kl_spec *s, och_kl_pos pos);
och_kl_lds *och_kl_lds_new(och_kl_spec *s, const char *name, och_kl_base elem, const uint32_t *dims, int rank,
                           bool pad);

/* ---- lower_reduce.c: reductions, shuffles, votes ---- */
bool och_kl_space_method(och_kl_spec *s, const och_kl_expr *e, const och_kl_val *space, const char *name,
                         och_kl_val *out);

/* ---- format.c ---- */
bool och_kl_format_facts(och_kl_spec *s, const och_kl_decl *d, int64_t *out_unit, int64_t *out_block);
bool och_kl_format_field(och_kl_spec *s, och_kl_pos pos, const och_kl_decl *d, const char *name, och_kl_val *out);
bool och_kl_format_planes(och_kl_spec *s, och_kl_buffer *b); /* where they begin, into the prologue */
bool och_kl_staged_unit(och_kl_spec *s, const och_kl_expr *e, const och_kl_val *row, och_kl_val *out);
bool och_kl_unit_of(och_kl_spec *s, const och_kl_expr *e, const och_kl_val *row, bool streamed, och_kl_val *out);
och_kl_bundle *och_kl_bundle_new(och_kl_spec *s, och_kl_pos pos, och_kl_buffer *b, och_kl_ir *row, och_kl_ir *unit,
                                 och_kl_level level, bool streamed);
bool och_kl_unit_field(och_kl_spec *s, och_kl_pos pos, const och_kl_val *unit, const char *name, och_kl_val *out);
bool och_kl_put(och_kl_spec *s, const och_kl_expr *e, const och_kl_val *row);

/* ---- call.c, call_math.c ---- */
bool och_kl_eval_call(och_kl_spec *s, const och_kl_expr *e, och_kl_val *out);
/* args: as many as fn takes, which the caller has seen to. */
bool och_kl_inline(och_kl_spec *s, och_kl_pos pos, const och_kl_decl *fn, const och_kl_decl *format, och_kl_val *args,
                   och_kl_val *out);
/* A function of the language. *out_is false: no such name. */
bool och_kl_builtin(och_kl_spec *s, const och_kl_expr *e, const char *name, bool *out_is, och_kl_val *out);
void och_kl_offer_builtins(och_kl_guess *g);
int och_kl_count_args(const och_kl_expr *args);
bool och_kl_has(const och_kl_profile *p, const char *capability, bool *out);

/* ---- stmt.c, stmt_loop.c, lower_pipe.c, lower_copy.c, lower_tile.c ---- */
bool och_kl_stmts(och_kl_spec *s, const och_kl_stmt *first); /* in a scope of its own */
bool och_kl_stmt_one(och_kl_spec *s, const och_kl_stmt *x);
bool och_kl_stmt_for(och_kl_spec *s, const och_kl_stmt *x);
bool och_kl_stmt_while(och_kl_spec *s, const och_kl_stmt *x);
bool och_kl_stmt_pipeline(och_kl_spec *s, const och_kl_stmt *x);
bool och_kl_stmt_stage(och_kl_spec *s, const och_kl_stmt *x);
bool och_kl_stmt_copy(och_kl_spec *s, const och_kl_stmt *x);
bool och_kl_var_tile(och_kl_spec *s, const och_kl_stmt *x);
void och_kl_end_products(och_kl_spec *s, och_kl_pos pos); /* waits for what is pending */
bool och_kl_tile_method(och_kl_spec *s, const och_kl_expr *e, const och_kl_val *tile, const char *name,
                        och_kl_val *out);
bool och_kl_rowvec_method(och_kl_spec *s, const och_kl_expr *e, const och_kl_val *v, const char *name, och_kl_val *out);
bool och_kl_rowvec_index(och_kl_spec *s, const och_kl_expr *e, const och_kl_val *v, och_kl_val *out);

/* ---- bounds.c ---- */
/* Rules for the host on what is shared, once all is lowered. */
bool och_kl_bound_shares(och_kl_spec *s);

/* ---- rule.c ---- */
bool och_kl_rule_of(och_kl_spec *s, const och_kl_expr *e, och_kl_rule *out, bool *out_const, int64_t *out_value);
bool och_kl_require(och_kl_spec *s, const och_kl_expr *e);
void och_kl_text_of(const och_kl_expr *e, char *buf, size_t n); /* as written */

#endif
