/* For backends: runtime libraries that are looked for in many places, what became of each place, and the device nodes behind
 * them. OCHRE_SYSTEM_ROOT stands for / in all of it. */
#ifndef OCH_DEV_LIBRARY_H
#define OCH_DEV_LIBRARY_H

#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum och_find { OCH_FIND_ABSENT, OCH_FIND_BROKEN, OCH_FIND_TOO_OLD, OCH_FIND_OPENED } och_find;

/* What became of one place where the library was looked for. */
typedef struct och_attempt {
    char path[512];    /* a file, or a folder where there was none of the names */
    const char *place; /* "OCHRE_CUDA_LIBRARY", "LD_LIBRARY_PATH", ...: why it was looked at */
    och_find find;
    int version; /* as the runtime counts; 0: unknown */
    char why[320];
} och_attempt;

typedef struct och_attempts {
    och_attempt *at; /* owned */
    size_t n, capacity;
    bool failed; /* out of memory: incomplete */
} och_attempts;

/* The names of a library, the best first: a folder with several has the first as its own. */
typedef struct och_library_names {
    const char *const *names;
    size_t n;
    const char *what; /* "libcuda": for "no libcuda in it" */
} och_library_names;

och_attempt *och_attempt_add(och_attempts *a, const char *place, const char *path); /* NULL: no memory */
bool och_attempts_tried(const och_attempts *a, const char *path); /* it is among them */
/* The files of one folder, or the folder itself as one that has none. */
void och_attempts_add_folder(och_attempts *a, const och_library_names *names, const char *place, const char *folder);
/* The files in the folders of a list separated by colons, and nothing of folders that have none. */
void och_attempts_add_files(och_attempts *a, const och_library_names *names, const char *place, const char *list);
/* A file or a folder that somebody named. */
void och_attempts_add_named(och_attempts *a, const och_library_names *names, const char *place, const char *path);

/* The path `at` below OCHRE_SYSTEM_ROOT; cut where it does not fit. */
const char *och_system_path(const char *at, char *out, size_t n_bytes);

/* Whether this user may read and write the node. */
bool och_node_usable(const char *path);
/* Appends "PATH may not be read and written by this user (mode 660, group video): ..." with what to do. */
void och_node_explain(const char *path, och_strbuf *out);

/* "0000:03:00.0", or without the domain. */
bool och_pci_same(const char *a, const char *b);

#endif
