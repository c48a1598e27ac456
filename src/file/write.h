/* Atomic file writing: the bytes go to a temporary file in the same folder, which is fsynced and renamed over the final
 * name. Whatever fails (a full disk too), the final name holds the old file or the whole new one, and no temporary is left. */
#ifndef OCH_FILE_WRITE_H
#define OCH_FILE_WRITE_H

#include "base/status.h"

#include <stddef.h>

typedef struct och_writer och_writer;

och_status och_writer_create(const char *path, och_writer **out_w, och_err *err) OCH_WARN_UNUSED;
och_status och_writer_append(och_writer *w, const void *bytes, size_t n_bytes, och_err *err) OCH_WARN_UNUSED;
/* Makes the file visible under its name and destroys w, whether or not it succeeds. */
och_status och_writer_commit_take(och_writer *w, och_err *err) OCH_WARN_UNUSED;
/* Removes the temporary file and destroys w; NULL is allowed. */
void och_writer_destroy(och_writer *w);

/* All of it in one call. */
och_status och_write_file(const char *path, const void *bytes, size_t n_bytes, och_err *err) OCH_WARN_UNUSED;

/* fsync of the folder that holds path, so that a rename in it survives a crash; best effort. */
void och_fsync_parent(const char *path);

#endif
