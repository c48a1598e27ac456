/* What the files of the public API share. Internal to them. */
#ifndef OCH_ENGINE_API_ERROR_H
#define OCH_ENGINE_API_ERROR_H

#include <ochre/ochre.h>

#include "base/status.h"

/* Fills the caller's record (NULL is allowed) and returns the status. */
ochre_status och_api_give(const och_err *e, och_status st, ochre_error *out);
/* INVALID, naming it, for a NULL pointer. */
och_status och_api_need(const void *p, const char *what, och_err *err) OCH_WARN_UNUSED;
/* Copies a caller's struct of options, whose first member is its size_bytes, over the defaults in dst; src NULL: nothing. */
och_status och_api_read_options(void *dst, size_t dst_bytes, const void *src, const char *what, och_err *err) OCH_WARN_UNUSED;
/* Copies as much of `full` as the caller's struct, whose first member is its size_bytes, has room for; size_bytes stays. */
och_status och_api_write_struct(void *dst, const void *full, size_t full_bytes, const char *what, och_err *err) OCH_WARN_UNUSED;

#endif
