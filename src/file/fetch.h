/* Downloading a file whole or not at all.
 *
 * The bytes go to PATH.part, what is known of them (URL, ETag, size) to PATH.part.meta; an interrupted download goes on
 * from there when the server still has the same file (Range with If-Range, strong ETags only). Only a file of the right
 * length, and of the right SHA-256 where one is known, is renamed to PATH. */
#ifndef OCH_FILE_FETCH_H
#define OCH_FILE_FETCH_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct och_fetch_request {
    const char *url;    /* https, or http to a loopback address */
    const char *path;   /* final name; its folder exists */
    const char *sha256; /* 64 hexadecimal digits; NULL: what the server states in X-Linked-ETag, if anything */
    int max_retries;    /* failures in a row that brought nothing new */
    uint64_t first_wait_ms; /* before the first retry; doubles, up to 30 s */
    /* Both may be NULL. progress: total 0 while unknown; false stops (CANCELLED, the part is kept). note: one line, about
     * a retry or a restart. */
    bool (*progress)(void *user, uint64_t done, uint64_t total);
    void (*note)(void *user, const char *text);
    void *user;
} och_fetch_request;

typedef struct och_fetch_result {
    uint64_t size_bytes;
    uint64_t resumed_from; /* bytes that were there when the last connection began */
    char sha256[65];       /* of the file */
    bool is_verified;      /* a digest was known, and is equal */
} och_fetch_result;

/* INVALID (a URL that is refused), UNAVAILABLE (no libcurl), IO (network, disk), NOTFOUND (404), CORRUPT (length or digest
 * differ; nothing is kept), CANCELLED, NOMEM. */
och_status och_fetch(const och_fetch_request *r, och_fetch_result *out_result, och_err *err) OCH_WARN_UNUSED;

/* Refuses what is not https, or http to a loopback host, and URLs with control characters, spaces, backslashes or credentials. */
och_status och_fetch_check_url(const char *url, och_err *err) OCH_WARN_UNUSED;

#endif
