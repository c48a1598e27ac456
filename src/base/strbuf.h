/* A growable byte string. Zero-initialise or och_strbuf_init; release with och_strbuf_deinit.
 * An allocation that fails sets `failed` and later appends do nothing: check once at the end. */
#ifndef OCH_BASE_STRBUF_H
#define OCH_BASE_STRBUF_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct och_strbuf {
    char *data;  /* owned, NUL-terminated when not NULL */
    size_t size; /* bytes before the NUL */
    size_t capacity;
    bool failed;
} och_strbuf;

void och_strbuf_init(och_strbuf *b);
void och_strbuf_deinit(och_strbuf *b);
void och_strbuf_clear(och_strbuf *b); /* keeps the memory, clears `failed` */
void och_strbuf_append(och_strbuf *b, const void *bytes, size_t n_bytes);
void och_strbuf_puts(och_strbuf *b, const char *s);
void och_strbuf_printf(och_strbuf *b, const char *fmt, ...) OCH_PRINTF(2, 3);
/* A JSON string literal with quotes; bytes that are not UTF-8 become U+FFFD. */
void och_strbuf_json(och_strbuf *b, const char *s, size_t n_bytes);
/* The text, never NULL; valid until the next call on b. */
const char *och_strbuf_str(const och_strbuf *b);
/* OCH_NOMEM if any append failed. */
och_status och_strbuf_status(const och_strbuf *b, och_err *err) OCH_WARN_UNUSED;

#endif
