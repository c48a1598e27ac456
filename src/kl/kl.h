/* The kernel language (docs/kernel-language.md): text to a syntax tree, a kernel with its parameters fixed for a target to
 * typed code, and that to HIP C++ or CUDA C++ that includes no header.
 *
 *     och_kl_parse -> och_kl_unit -> och_kl_specialise -> och_kl_code (IR and signature) -> och_kl_emit -> text
 *
 * Diagnostics are collected as text in a strbuf: "file:line:col: error: ...", the line, a caret, notes. */
#ifndef OCH_KL_KL_H
#define OCH_KL_KL_H

#include "base/strbuf.h"
#include "target/target.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct och_kl_unit och_kl_unit;
typedef struct och_kl_code och_kl_code; /* ir.h */

/* Finds the text of `use "name"`. Returns false when there is none. The text is copied before anything else is asked for. */
typedef struct och_kl_loader {
    bool (*find)(void *self, const char *name, const char *used_by, const char **out_text, size_t *out_bytes);
    void *self;
} och_kl_loader;

/* COMPILE with diagnostics in `diag`; err holds the first one. loader NULL: the built-in kernels alone (builtin.h). */
OCH_WARN_UNUSED och_status och_kl_parse(const char *name, const char *text, size_t n_bytes, const och_kl_loader *loader,
                                        och_kl_unit **out_unit, och_strbuf *diag, och_err *err);
void och_kl_unit_destroy(och_kl_unit *u); /* NULL is allowed */

/* What a code is made for. */
typedef struct och_kl_profile {
    och_target_id target;
    int wave; /* lanes: 32 or 64, one of target->waves */
} och_kl_profile;
/* wave 0: the target's default. INVALID: a wave size that the target has not. */
OCH_WARN_UNUSED och_status och_kl_profile_init(och_kl_profile *p, const char *target, int wave, och_err *err);

/* A parameter's value: "F" = "Q4_K", "WAVES" = "4", "ADD1" = "true". */
typedef struct och_kl_binding {
    const char *name, *value;
} och_kl_binding;

/* Part of a code's identity (jit/kernel.h): goes up with every change of what the same source becomes, so that packs of before
 * are known to be stale. */
#define OCH_KL_EMITTER 4
/* The first clang with every builtin that the text for AMD's targets uses (__builtin_elementwise_fma). */
#define OCH_KL_CLANG_MIN 17

#define OCH_KL_NAME_BYTES 48
#define OCH_KL_MAX_ARGS 24
#define OCH_KL_MAX_SIZES 16
#define OCH_KL_MAX_RULES 24
#define OCH_KL_MAX_STEPS 24
#define OCH_KL_MAX_PLANES 16

/* A small program over sizes and constants, for grids and requires: a stack machine on int64. */
typedef enum och_kl_step_op {
    OCH_KL_R_CONST,
    OCH_KL_R_SIZE,
    OCH_KL_R_SCALAR,
    OCH_KL_R_ADD,
    OCH_KL_R_SUB,
    OCH_KL_R_MUL,
    OCH_KL_R_DIV,
    OCH_KL_R_MOD,
    OCH_KL_R_CEIL_DIV,
    OCH_KL_R_MIN,
    OCH_KL_R_MAX,
    OCH_KL_R_EQ,
    OCH_KL_R_NE,
    OCH_KL_R_LT,
    OCH_KL_R_LE,
    OCH_KL_R_AND,
    OCH_KL_R_OR,
    OCH_KL_R_NOT
} och_kl_step_op;
typedef struct och_kl_rule {
    char text[96]; /* as written, for messages */
    int n_steps;
    struct {
        och_kl_step_op op;
        int64_t value; /* the constant, the size's or the scalar argument's index */
    } steps[OCH_KL_MAX_STEPS];
} och_kl_rule;

typedef enum och_kl_arg_kind { OCH_KL_A_BUFFER, OCH_KL_A_WEIGHT, OCH_KL_A_ACT, OCH_KL_A_SCALAR } och_kl_arg_kind;

typedef struct och_kl_arg {
    char name[OCH_KL_NAME_BYTES];
    och_kl_arg_kind kind;
    bool in, out, optional;
    bool in_place; /* inout, or named by `over`, or has it: what is written may be what was read */
    uint32_t over; /* the arguments, bit by their numbers, that may be this very memory: what `over` says, from both sides */
    char type[OCH_KL_NAME_BYTES]; /* storage type, format's or act's name, scalar type */
    uint32_t elem_bytes;          /* BUFFER, SCALAR */
    uint32_t align_bytes;         /* that addresses and row strides must have: the widest access */
    int n_planes;                 /* WEIGHT, ACT: of a row of k elements, each in ceil(k / span) entries of `bytes`, up to a */
    struct {                      /* multiple of 16 bytes */
        uint32_t bytes, span;
    } planes[OCH_KL_MAX_PLANES];
    int rank;                     /* 0 for a scalar */
    och_kl_rule dims[3];          /* each a size (one SIZE step) or a constant expression */
    uint32_t offset, bytes;       /* of the pointer or the scalar in the kernel's arguments */
    uint32_t stride_offset[2];    /* i64 strides in elements (bytes for WEIGHT and ACT) of dimensions 0 .. rank - 2 */
} och_kl_arg;

typedef struct och_kl_signature {
    char kernel[OCH_KL_NAME_BYTES]; /* as in the source */
    char entry[160];                /* the symbol */
    char spec[256];                 /* "F=Q4_K,B=1,ROWS=2": every parameter, in order */
    char target[OCH_TARGET_NAME_BYTES];
    int wave, waves, threads;       /* lanes; waves and work-items of a workgroup */
    uint32_t lds_bytes, args_bytes;
    bool waits;                     /* the code itself waits, before anything else, for the kernels launched before it */
    uint32_t lds_launch_bytes;      /* lds_bytes where they are given at the launch and are none of the code's own; else 0 */
    int n_args, n_sizes, n_rules;
    och_kl_arg args[OCH_KL_MAX_ARGS];
    char sizes[OCH_KL_MAX_SIZES][OCH_KL_NAME_BYTES];
    uint32_t size_offset[OCH_KL_MAX_SIZES]; /* i64 each */
    och_kl_rule grid[3];
    och_kl_rule rules[OCH_KL_MAX_RULES];
} och_kl_signature;

/* Type-checks the kernel with its parameters fixed. COMPILE with diagnostics; NOTFOUND: no such kernel (the message lists
 * them); INVALID: a binding that is unknown, missing or out of its range. */
OCH_WARN_UNUSED och_status och_kl_specialise(const och_kl_unit *u, const char *kernel, const och_kl_binding *bindings,
                                             int n_bindings, const och_kl_profile *profile, och_kl_code **out_code,
                                             och_strbuf *diag, och_err *err);
void och_kl_code_destroy(och_kl_code *c);
/* Whether the code is of its target alone: of sm_90 the code is sm_90a's, which later devices do not take. */
bool och_kl_code_own_target(const och_kl_code *code);
const och_kl_signature *och_kl_code_signature(const och_kl_code *c);

/* Appends the text: HIP C++ for AMD targets, CUDA C++ for NVIDIA's. */
OCH_WARN_UNUSED och_status och_kl_emit(const och_kl_code *c, och_strbuf *text, och_err *err);

/* Signatures as bytes, for cache entries and packs. read: CORRUPT for anything malformed. */
OCH_WARN_UNUSED och_status och_kl_signature_write(const och_kl_signature *s, och_strbuf *out, och_err *err);
OCH_WARN_UNUSED och_status och_kl_signature_read(const void *bytes, size_t n_bytes, och_kl_signature *out_s, och_err *err);

/* One argument of a launch, by name. */
typedef struct och_kl_actual {
    const char *name;
    uint64_t addr;         /* buffers; 0: absent (optional ones only) */
    int64_t dims[3];       /* buffers: extents, as many as the argument's rank */
    uint64_t row_bytes[2]; /* of dimensions 0 .. rank - 2; 0: dense */
    int64_t integer;       /* integer and bool scalars */
    double real;           /* float scalars */
} och_kl_actual;

#define OCH_KL_MAX_ARG_BYTES 1024

typedef struct och_kl_packed {
    uint32_t grid[3], group[3];
    uint32_t lds_bytes; /* beyond what the code has of its own */
    uint32_t n_bytes;
    unsigned char args[OCH_KL_MAX_ARG_BYTES];
} och_kl_packed;

/* Checks that every argument is there once, that extents agree, alignment and requires, and lays the arguments out. The
 * message of a failure names kernel, argument, expected and found. A grid with a 0 is OK: nothing is to be launched. */
OCH_WARN_UNUSED och_status och_kl_pack(const och_kl_signature *s, const och_kl_actual *actuals, int n_actuals,
                                       och_kl_packed *out_packed, och_err *err);

/* Kernels that a unit's own file declares, not those of the files that it uses: each kernel has one file, whose text it is known by. */
int och_kl_kernel_count(const och_kl_unit *u);
const char *och_kl_kernel_name(const och_kl_unit *u, int i);

#endif
