/* The syntax tree of a .ok file: what was written, nothing more. Types and uniformity come with specialisation (spec.h).
 *
 * Nodes live in the unit's arena; strings are views of interned names in it. Lists are linked through `next`. */
#ifndef OCH_KL_AST_H
#define OCH_KL_AST_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A place in a source file. Lines and columns (in bytes) count from 1. */
typedef struct och_kl_pos {
    const struct och_kl_file *file;
    uint32_t line, column, length; /* length of what the caret underlines, at least 1 */
} och_kl_pos;

/* No tree is higher than this, statements within statements counted together with the expressions in them: who walks it may
 * recurse. Lists (next) are of any length. */
#define OCH_KL_MAX_HEIGHT 160

typedef struct och_kl_file {
    const char *name;
    const char *text; /* NUL-terminated, owned by the unit */
    size_t n_bytes;
    struct och_kl_file *next;
} och_kl_file;

/* Where `pos` points: a literal, a name; the operator of UNARY, BINARY and SELECT; FIELD: the name behind the dot; INDEX: all
 * of it; CALL: what is called, with what stands before the dot; LAMBDA: its parameters. */
typedef enum och_kl_expr_kind {
    OCH_KL_E_INT,    /* u.integer */
    OCH_KL_E_FLOAT,  /* u.real */
    OCH_KL_E_BOOL,   /* u.integer */
    OCH_KL_E_STRING, /* u.name: of assert */
    OCH_KL_E_NAME,   /* u.name */
    OCH_KL_E_UNARY,  /* u.op: '-', '!', '~'; a */
    OCH_KL_E_BINARY, /* u.op; a, b */
    OCH_KL_E_SELECT, /* a ? b : c */
    OCH_KL_E_INDEX,  /* a[args]: one to three */
    OCH_KL_E_FIELD,  /* a.name */
    OCH_KL_E_CALL,   /* a(args), a.name(args), T(args), bits<T>(a); template arguments in `targs` */
    OCH_KL_E_LAMBDA  /* (i, j, v) => e  or  => { body }: `params`, a or `body` */
} och_kl_expr_kind;

/* Operators: one character, or these. */
enum {
    OCH_KL_OP_EQ = 256,
    OCH_KL_OP_NE,
    OCH_KL_OP_LE,
    OCH_KL_OP_GE,
    OCH_KL_OP_AND,
    OCH_KL_OP_OR,
    OCH_KL_OP_SHL,
    OCH_KL_OP_SHR
};

typedef struct och_kl_type_ast och_kl_type_ast;
typedef struct och_kl_stmt och_kl_stmt;
typedef struct och_kl_expr och_kl_expr;
typedef struct och_kl_name och_kl_name;

struct och_kl_expr {
    och_kl_expr_kind kind;
    och_kl_pos pos;
    union {
        uint64_t integer;
        double real;
        const char *name;
        int op;
    } u;
    och_kl_expr *a, *b, *c;
    och_kl_expr *args;      /* of INDEX and CALL, linked by next */
    const char *arg_name;   /* this expression stands as NAME: e in an argument list (put, sub); NULL without */
    och_kl_type_ast *targs; /* bits<u32>(..) and vector names with parameters */
    och_kl_name *params;
    och_kl_stmt *body;
    och_kl_expr *next;
    uint32_t height; /* of the tree below, statements of a lambda's body included: at most OCH_KL_MAX_HEIGHT */
};

struct och_kl_name {
    const char *name;
    och_kl_pos pos;
    och_kl_name *next;
};

/* NAME, NAME<args>[dims]: f32, f32x4, T, buf<T>[n, d], acc_tile<f32, BM, BN>, f16[2][BM][BK] (brackets each of one
 * expression: `dims` with `matrix` false), buf dims in one pair of brackets (`matrix` true). */
struct och_kl_type_ast {
    const char *name;
    och_kl_pos pos;
    och_kl_type_ast *args; /* types or expressions: `value` set where it is not a bare name */
    och_kl_expr *value;    /* an argument that is an expression; then name is NULL */
    och_kl_expr *dims;
    bool matrix;
    och_kl_type_ast *next;
};

/* `pos`: the name of LET, VAR and LDS; the operator of ASSIGN; that of the expression of EXPR; else the keyword. */
typedef enum och_kl_stmt_kind {
    OCH_KL_S_LET,    /* name, expr */
    OCH_KL_S_VAR,    /* name, type (or NULL), expr (or NULL) */
    OCH_KL_S_LDS,    /* name, type, pad_auto or swizzle */
    OCH_KL_S_ASSIGN, /* target, op ('=' or the operator of a compound assignment), expr */
    OCH_KL_S_EXPR,   /* expr: a call */
    OCH_KL_S_IF,     /* expr, body, other; is_static */
    OCH_KL_S_WHILE,  /* expr, body */
    OCH_KL_S_FOR,    /* names (one, or several for `static for r, b`), ranges (expr list, one a name): a..b or a call
                        x.lanes(n); step; body; is_static */
    OCH_KL_S_BLOCK,  /* body */
    OCH_KL_S_BREAK,
    OCH_KL_S_CONTINUE,
    OCH_KL_S_RETURN,   /* expr or NULL */
    OCH_KL_S_STAGE,    /* where `do` begins the coming step's stage */
    OCH_KL_S_PIPELINE, /* names, ranges, step, depth, stage: `other`, then: `then`, do: `body` */
    OCH_KL_S_COPY      /* copy target <- expr; */
} och_kl_stmt_kind;

/* `a..b` of a for; a alone: a call such as wave.lanes(n). */
typedef struct och_kl_range {
    och_kl_expr *a, *b, *step;
    struct och_kl_range *next;
} och_kl_range;

struct och_kl_stmt {
    och_kl_stmt_kind kind;
    och_kl_pos pos;
    const char *name;
    och_kl_type_ast *type;
    och_kl_expr *target, *expr;
    int op;
    bool is_static, pad_auto, swizzle;
    och_kl_name *names;
    och_kl_range *ranges;
    och_kl_expr *depth;
    och_kl_stmt *body, *other;
    och_kl_stmt *then; /* of a pipeline: between the first copies and the first `do` */
    och_kl_stmt *next;
    uint32_t height; /* as of an expression */
};

typedef enum och_kl_dir { OCH_KL_DIR_VALUE, OCH_KL_DIR_IN, OCH_KL_DIR_OUT, OCH_KL_DIR_INOUT } och_kl_dir;

typedef struct och_kl_arg_ast {
    const char *name;
    och_kl_pos pos;
    och_kl_dir dir; /* VALUE: a scalar, or an argument of a function */
    bool optional;  /* in? */
    bool steady;    /* in steady: no kernel of a step writes it */
    och_kl_type_ast *type; /* NULL: an untyped argument of a function */
    och_kl_name *over; /* `over a, b` after the type of an out buffer: inputs whose memory it may be */
    struct och_kl_arg_ast *next;
} och_kl_arg_ast;

typedef enum och_kl_param_kind { OCH_KL_P_ELEM, OCH_KL_P_FORMAT, OCH_KL_P_INT, OCH_KL_P_BOOL } och_kl_param_kind;

typedef struct och_kl_param_ast {
    const char *name;
    och_kl_pos pos;
    och_kl_param_kind kind;
    bool ranged; /* INT with lo..hi: constant expressions */
    och_kl_expr *lo, *hi;
    och_kl_expr *default_value; /* NULL: must be given */
    struct och_kl_param_ast *next;
} och_kl_param_ast;

typedef struct och_kl_plane_ast {
    const char *name;
    och_kl_pos pos;
    const char *elem;    /* storage type */
    uint32_t count;      /* of T[n]; 0: a scalar T */
    bool per_block;      /* else per unit */
    struct och_kl_plane_ast *next;
} och_kl_plane_ast;

typedef enum och_kl_decl_kind { OCH_KL_D_CONST, OCH_KL_D_FN, OCH_KL_D_FORMAT, OCH_KL_D_ACT, OCH_KL_D_KERNEL } och_kl_decl_kind;

typedef struct och_kl_decl {
    och_kl_decl_kind kind;
    const char *name;
    och_kl_pos pos;
    /* CONST: expr. */
    och_kl_expr *expr;
    /* FN, KERNEL */
    och_kl_arg_ast *args;
    och_kl_type_ast *result; /* FN; NULL: none or inferred */
    och_kl_param_ast *params;
    och_kl_expr *requires_; /* linked by next */
    och_kl_expr *grid;      /* one to three, linked */
    och_kl_expr *waves;
    och_kl_expr *occupancy; /* NULL: not said */
    och_kl_stmt *body;
    /* FORMAT, ACT */
    och_kl_expr *block, *unit; /* constant expressions; block NULL: equal to unit */
    const char *act;
    och_kl_plane_ast *planes;
    struct och_kl_decl *fns;
    struct och_kl_decl *next;
} och_kl_decl;

typedef struct och_kl_unit {
    struct och_arena *arena;
    och_kl_file *files;  /* the first is the one that was asked for */
    och_kl_decl *decls;  /* in order; of all files used */
} och_kl_unit;

#endif
