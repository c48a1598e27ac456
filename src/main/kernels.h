/* Between the files of `ochre kernels`. */
#ifndef OCH_MAIN_KERNELS_H
#define OCH_MAIN_KERNELS_H

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

/* A kernel and values of its parameters. */
typedef struct och_kernel_spec {
    const och_kl_unit *unit;
    const och_kl_decl *kernel;
    bool decode; /* marked so: it may not spill */
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
 *     // decode                        no registers may be spilled
 * `all`: every combination of both (for packs, and of check where there is no pack). COMPILE with a message for a comment that
 * says nothing that makes sense. */
och_status och_kernel_specs_of(const och_kl_unit *unit, const och_kl_decl *kernel, bool all, och_kernel_specs *out, och_err *err) OCH_WARN_UNUSED;
/* "KERNEL NAME=VALUE,VALUE ..." a line, every combination; a '#' begins a comment. */
och_status och_kernel_specs_read(const char *path, const och_kernel_files *files, och_kernel_specs *out, och_err *err) OCH_WARN_UNUSED;
void och_kernel_specs_deinit(och_kernel_specs *specs);
/* Parameters for which the specialisations have one value only, after commas; an empty text for none. */
void och_kernel_specs_single(const och_kl_decl *kernel, const och_kernel_spec *specs, size_t n, och_strbuf *out);

/* A line of warning for each `// check:` in the unit's first file that is not above a kernel. */
void och_kernel_specs_astray(const och_kl_unit *unit, och_strbuf *out);
/* A kernel of the unit by name: of its first file, or of those that it uses; NULL: none. */
const och_kl_decl *och_kernel_named(const och_kl_unit *unit, const char *name);
/* Kernels of the unit's first file, in order; NULL past the last. */
const och_kl_decl *och_kernel_next(const och_kl_unit *unit, const och_kl_decl *after);

int och_cmd_kernels_test(int argc, char **argv);
int och_cmd_kernels_check(int argc, char **argv);
int och_cmd_kernels_pack(int argc, char **argv);

#endif
