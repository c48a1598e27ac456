/* Between the files of `ochre kernels`. */
#ifndef OCH_MAIN_KERNELS_H
#define OCH_MAIN_KERNELS_H

#include "jit/jit.h"
#include "kl/ast.h"
#include "kl/kl.h"
#include "main/main.h"

#define OCH_KERNELS_MAX_BINDINGS 32

/* The files that a command works on: the built-in ones, or those that the user named. */
typedef struct och_kernel_files {
    och_kl_unit **units; /* owned; the kernels meant are those of each unit's first file */
    int n;
} och_kernel_files;

/* paths NULL: the built-in files. -1, or the exit code after a message (diagnostics of a file are printed). */
int och_kernel_files_open(och_kernel_files *files, const char *const *paths, int n_paths) OCH_WARN_UNUSED;
void och_kernel_files_close(och_kernel_files *files);

/* What comments say of a kernel's code. */
enum {
    OCH_KERNEL_DECODE = 1 << 0, /* it may not spill */
    OCH_KERNEL_MATRIX = 1 << 1, /* its products are matrix instructions, where the target has them */
    OCH_KERNEL_DOT4 = 1 << 2    /* with weights that pair with activations of 8 bits they are dot products of four bytes */
};

/* A kernel and values of its parameters. */
typedef struct och_kernel_spec {
    const och_kl_unit *unit;
    const och_kl_decl *kernel;
    uint32_t marks; /* OCH_KERNEL_* */
    int n_bindings;
    och_kl_binding bindings[OCH_KERNELS_MAX_BINDINGS];
    char text[256]; /* what the bindings borrow from */
} och_kernel_spec;

typedef struct och_kernel_specs {
    och_kernel_spec *items; /* owned */
    size_t n, capacity;
    bool failed; /* memory was refused */
} och_kernel_specs;

/* The specialisations that the comments above a kernel name:
 *     // check: F=Q4_K,F16 B=1,8      the first value of each, then each further value of one with the first ones of the rest
 *     // pack: F=Q4_K,F16 B=1,8       every combination
 *     // decode, // matrix, // dot4    as OCH_KERNEL_* say; a line each
 * `all`: every combination of both (for packs, and of check where there is no pack). COMPILE with a message for a comment that
 * says nothing that makes sense. */
och_status och_kernel_specs_of(const och_kl_unit *unit, const och_kl_decl *kernel, bool all, och_kernel_specs *out, och_err *err) OCH_WARN_UNUSED;
/* "KERNEL NAME=VALUE,VALUE ..." a line, every combination; a '#' begins a comment. */
och_status och_kernel_specs_read(const char *path, const och_kernel_files *files, och_kernel_specs *out, och_err *err) OCH_WARN_UNUSED;
void och_kernel_specs_deinit(och_kernel_specs *specs);
/* Parameters that have one value only in all of n texts "A=x,B=y" of the kernel's parameters, after commas; an empty text for
 * none. Empty texts are passed over. */
void och_kernel_specs_single(const och_kl_decl *kernel, const char *const *texts, size_t n, och_strbuf *out);
/* The value of a parameter in such a text; its length, 0 for none. */
size_t och_kernel_value(const char *text, const char *name, const char **out_value);

/* A line of warning for each `// check:` in the unit's first file that is not above a kernel. */
void och_kernel_specs_astray(const och_kl_unit *unit, och_strbuf *out);
/* A kernel of the unit by name: of its first file, or of those that it uses; NULL: none. */
const och_kl_decl *och_kernel_named(const och_kl_unit *unit, const char *name);
/* Kernels of the unit's first file, in order; NULL past the last. */
const och_kl_decl *och_kernel_next(const och_kl_unit *unit, const och_kl_decl *after);

/* ---- many kernels for many targets (kernels_many.c) ---- */

#define OCH_KERNELS_MAX_TARGETS 64

typedef struct och_kernel_outcome {
    och_status status;
    bool from_cache;
    och_jit_resources resources;
    uint32_t n_matrix, n_dot4; /* instructions, where a mark had the code looked at */
    double seconds;            /* its share of what its neighbours took that were compiled with it */
    char parameters[256];      /* every parameter with its value; empty where they could not be told */
    char message[320];
} och_kernel_outcome;

struct och_jit_kernel;

typedef struct och_kernels_job {
    och_kernel_specs specs;
    och_kl_profile targets[OCH_KERNELS_MAX_TARGETS];
    int n_targets;
    och_jit *jit;
    och_jit *ptx;                     /* where `look` is set, for NVIDIA's targets */
    och_kernel_outcome *outcomes;     /* of specification i and target t: [i * n_targets + t] */
    bool look;                        /* at what code is made of; NVIDIA's targets are compiled to PTX by clang */
    bool keep;                        /* artifacts, each of a compilation of its own; else neighbours are compiled together, in
                                         namespaces of one text: most of what a small kernel takes is the compiler's start */
    och_jit_artifact **artifacts;     /* of `keep` */
    struct och_jit_kernel **kernels;
    struct och_kernels_progress *progress;
} och_kernels_job;

/* "gfx1151,sm_90"; -1, or the exit code after a message. */
int och_kernels_job_targets(och_kernels_job *j, const char *command, const char *list);
/* The specialisations of the kernels that were named, or of all; from a list (NULL: the comments). -1, or the exit code. */
int och_kernels_job_collect(och_kernels_job *j, const char *command, const och_kernel_files *files, const char *list, bool all,
                            const char *const *names, int n_names);
/* Compiles all, on as many threads (0: one a CPU), telling how far it is on stderr. -1, or the exit code. */
int och_kernels_job_run(och_kernels_job *j, int32_t threads, bool no_cache);
void och_kernels_job_deinit(och_kernels_job *j);

/* ---- code (kernels_code.c, kernels_lanes.c) ---- */

/* Appends the instructions as llvm-objdump prints them, PTX as it is. UNAVAILABLE: no llvm-objdump, with what was tried. */
och_status och_kernel_disassemble(const och_jit_artifact *a, och_strbuf *out, och_err *err) OCH_WARN_UNUSED;
/* Whether the kernel's marks say anything of the instructions. `parameters` as in an outcome. */
bool och_kernel_is_marked(const och_kernel_spec *s, const char *parameters);
/* Whether a disassembly has of this kernel what its marks say; counts of instructions. COMPILE: it has not. */
och_status och_kernel_look(const och_kernel_spec *s, const char *parameters, const char *entry, const och_kl_profile *p, const och_strbuf *text,
                           uint32_t *out_n_matrix, uint32_t *out_n_dot4, och_err *err) OCH_WARN_UNUSED;
/* A line for each number in the unit's first file that counts a wave's lanes. */
size_t och_kernel_lane_counts(const och_kl_unit *unit, och_strbuf *out);

int och_cmd_kernels_test(int argc, char **argv);
int och_cmd_kernels_check(int argc, char **argv);
int och_cmd_kernels_pack(int argc, char **argv);

#endif
