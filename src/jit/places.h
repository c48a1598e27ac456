/* Where ROCm may be: an override, Python packages, the folder it is installed to by hand, the distribution's. */
#ifndef OCH_JIT_PLACES_H
#define OCH_JIT_PLACES_H

#include "base/status.h"

#include <glob.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct och_places {
    char **paths;     /* folders that exist, without a final slash; owned */
    const char **why; /* "ROCM_PATH", "VIRTUAL_ENV", ...; static */
    size_t n;
} och_places;

/* In order: ROCM_PATH; the ROCm packages (TheRock's: _rocm_sdk_devel, _rocm_sdk_core) of VIRTUAL_ENV, of CONDA_PREFIX and of
 * HOME/.local; where ROCm installs itself, the newest version first. The distribution's own folders are not among them. */
och_status och_places_rocm(och_places *out_places, och_err *err) OCH_WARN_UNUSED;
void och_places_deinit(och_places *places);

/* What a pattern matches, the newest version first: lib-7.10 before lib-7.9. flags: as glob()'s. False: nothing does. To be given to
 * globfree() in either case. */
bool och_places_glob(const char *pattern, int flags, glob_t *out_g);

#endif
