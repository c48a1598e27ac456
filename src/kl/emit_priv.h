/* The emitter from inside. */
#ifndef OCH_KL_EMIT_PRIV_H
#define OCH_KL_EMIT_PRIV_H

#include "base/arena.h"
#include "base/strbuf.h"
#include "kl/dialect.h"

typedef struct och_kl_emitter {
    const och_kl_code *c;
    const och_kl_dialect *dialect;
    och_strbuf *out;    /* the kernel */
    och_arena arena;    /* names */
    const char **names; /* by a variable's id; NULL: not printed yet */
    bool *at_least_0;   /* by a variable's id: its value is never negative */
    bool *is_count;     /* and it is a sum of products of such (och_kl_is_count) */
    const char **taken; /* hash table of names */
    size_t n_taken;     /* a power of two */
    uint32_t types[OCH_KL_BASE_COUNT_];                /* bit log2(lanes): the vector type is used */
    bool pieces[OCH_KL_P_COUNT_];
    const struct och_kl_matrix **matrices; /* used rows; NULL-terminated */
    int n_matrices;
    bool group_matrices[2][2][33]; /* [turned][bf16][n / 8]: used instructions of four waves */
    int indent;
    const och_kl_file *file; /* of the line that the next one printed is taken for */
    uint32_t line;
    const char *broken; /* what is wrong with the code; NULL: nothing */
    bool failed;        /* memory */
} och_kl_emitter;

void och_kl_need(och_kl_emitter *e, och_kl_piece piece);
/* "f32x4"; notes that the type is used. */
const char *och_kl_type_name(och_kl_emitter *e, och_kl_type t, char buf[24]);
const char *och_kl_var_name(och_kl_emitter *e, const och_kl_var *v);

/* ---- emit_expr.c ---- */
/* Precedences of C++; greater binds less. */
enum {
    OCH_KL_PREC_ATOM,
    OCH_KL_PREC_UNARY,
    OCH_KL_PREC_MUL,
    OCH_KL_PREC_ADD,
    OCH_KL_PREC_SHIFT,
    OCH_KL_PREC_REL,
    OCH_KL_PREC_EQ,
    OCH_KL_PREC_AND,
    OCH_KL_PREC_XOR,
    OCH_KL_PREC_OR,
    OCH_KL_PREC_LAND,
    OCH_KL_PREC_LOR,
    OCH_KL_PREC_ANY
};
/* Prints x, in parentheses where it binds less than `prec`. */
void och_kl_emit_expr(och_kl_emitter *e, const och_kl_ir *x, int prec);
/* A pointer to the element or vector at mem (to void, or to T with `typed`). */
void och_kl_emit_address(och_kl_emitter *e, const och_kl_mem *m, bool typed, bool written);
/* "name[index]" where mem is an element of an array in LDS; false: it is something else, and nothing is printed. */
bool och_kl_emit_element(och_kl_emitter *e, const och_kl_mem *m);
/* Bytes that mem's address is a multiple of, as far as what is read or written there can make use of it. */
uint32_t och_kl_mem_align(const och_kl_mem *m);
bool och_kl_is_at_least_0(const och_kl_emitter *e, const och_kl_ir *x);
bool och_kl_is_count(const och_kl_emitter *e, const och_kl_ir *x);

/* ---- emit_call.c ---- */
void och_kl_emit_call(och_kl_emitter *e, const och_kl_ir *x, int prec);

#endif
