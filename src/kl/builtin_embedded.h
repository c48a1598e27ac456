/* What the build generates from kernels/: every .ok file, sorted by name. */
#ifndef OCH_KL_BUILTIN_EMBEDDED_H
#define OCH_KL_BUILTIN_EMBEDDED_H

#include <stddef.h>

typedef struct och_kl_embedded {
    const char *name;
    const unsigned char *text; /* with a NUL behind it */
    size_t n_bytes;
} och_kl_embedded;

extern const och_kl_embedded och_kl_embedded_files[];
extern const int och_kl_embedded_count;

#endif
