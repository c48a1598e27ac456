/* Read-only memory mappings of whole files. */
#ifndef OCH_FILE_MAPPING_H
#define OCH_FILE_MAPPING_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct och_mapping {
    const uint8_t *data; /* never NULL, not even for a file of size 0 */
    uint64_t size;
    char *path;    /* owned; what the caller gave, for messages */
    bool is_mapped; /* false: a view of memory that somebody else owns, or an empty file */
} och_mapping;

/* Maps a regular file (a symbolic link to one is followed). Directories, FIFOs, sockets and devices are refused.
 * NOTFOUND, IO, INVALID (no regular file), NOMEM. Release with och_mapping_close. */
och_status och_mapping_open(const char *path, och_mapping **out_m, och_err *err) OCH_WARN_UNUSED;
/* A mapping that is a view: `data` is borrowed and must outlive it; `name` is copied and stands for the path. */
och_status och_mapping_open_memory(const char *name, const void *data, uint64_t size, och_mapping **out_m, och_err *err)
    OCH_WARN_UNUSED;
void och_mapping_close(och_mapping *m); /* NULL is allowed */

/* Tells the system that the whole pages inside [offset, offset + n) need not stay resident; reading them again gives the
 * same bytes. Out-of-range parts are ignored, as is a view. */
void och_mapping_discard(const och_mapping *m, uint64_t offset, uint64_t n);
/* Asks the system to read [offset, offset + n) ahead. */
void och_mapping_advise_willneed(const och_mapping *m, uint64_t offset, uint64_t n);

#endif
