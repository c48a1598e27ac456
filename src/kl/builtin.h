/* The kernel files that came with the program. They are in the binary; OCHRE_KERNELS_DIR names a directory, for who
 * writes kernels: a file there stands for the built-in one of its name, or beside those; what is not there is the binary's. */
#ifndef OCH_KL_BUILTIN_H
#define OCH_KL_BUILTIN_H

#include "base/status.h"
#include "kl/kl.h"

/* The library that is part of every unit. */
#define OCH_KL_LIBRARY "math.ok"

typedef struct och_kl_builtins och_kl_builtins;

/* NOTFOUND, IO: the directory that the environment names cannot be read. INVALID: two of the files declare a kernel of one
 * name. */
OCH_WARN_UNUSED och_status och_kl_builtins_open(och_kl_builtins **out_b, och_err *err);
void och_kl_builtins_close(och_kl_builtins *b); /* NULL is allowed */

/* The directory that the environment names, or NULL. */
const char *och_kl_builtins_dir(const och_kl_builtins *b);
/* Files in the order of their names. */
int och_kl_builtins_count(const och_kl_builtins *b);
const char *och_kl_builtins_name(const och_kl_builtins *b, int i); /* "matvec.ok" */
/* The text, which lives until close. */
bool och_kl_builtins_find(const och_kl_builtins *b, const char *name, const char **out_text, size_t *out_bytes);

/* Parses a file of a directory: what it uses is looked up beside the file that uses it, then among the built-in ones. As
 * och_kl_parse; NOTFOUND, IO: the file itself. */
OCH_WARN_UNUSED och_status och_kl_parse_file(const char *path, och_kl_unit **out_unit, och_strbuf *diag, och_err *err);
/* Parses a built-in file by name. NOTFOUND lists those there are. */
OCH_WARN_UNUSED och_status och_kl_parse_builtin(const char *name, och_kl_unit **out_unit, och_strbuf *diag, och_err *err);

#endif
