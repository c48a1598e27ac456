/* libcurl, opened at run time: the functions that downloads use and the few numbers of its ABI (curl/curl.h; they never
 * change). Nothing here is needed to build, and nothing else of the program needs libcurl. */
#ifndef OCH_FILE_CURL_H
#define OCH_FILE_CURL_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define OCH_CURL_GLOBAL_DEFAULT 3L

/* name, number */
#define OCH_CURL_OPTIONS(X)                                                                                            \
    X(WRITEDATA, 10001)                                                                                                \
    X(URL, 10002)                                                                                                      \
    X(RANGE, 10007)                                                                                                    \
    X(ERRORBUFFER, 10010)                                                                                              \
    X(USERAGENT, 10018)                                                                                                \
    X(HTTPHEADER, 10023)                                                                                               \
    X(HEADERDATA, 10029)                                                                                               \
    X(XFERINFODATA, 10057)                                                                                             \
    X(NOPROXY, 10177)                                                                                                  \
    X(WRITEFUNCTION, 20011)                                                                                            \
    X(HEADERFUNCTION, 20079)                                                                                           \
    X(XFERINFOFUNCTION, 20219)                                                                                         \
    X(LOW_SPEED_LIMIT, 19)                                                                                             \
    X(LOW_SPEED_TIME, 20)                                                                                              \
    X(NOPROGRESS, 43)                                                                                                  \
    X(FOLLOWLOCATION, 52)                                                                                              \
    X(MAXREDIRS, 68)                                                                                                   \
    X(CONNECTTIMEOUT, 78)                                                                                              \
    X(NOSIGNAL, 99)                                                                                                    \
    X(PROTOCOLS, 181)

/* results that are told apart */
#define OCH_CURL_CODES(X)                                                                                              \
    X(OK, 0)                                                                                                           \
    X(COULDNT_RESOLVE_HOST, 6)                                                                                         \
    X(COULDNT_CONNECT, 7)                                                                                              \
    X(PARTIAL_FILE, 18)                                                                                                \
    X(WRITE_ERROR, 23)                                                                                                 \
    X(OUT_OF_MEMORY, 27)                                                                                               \
    X(OPERATION_TIMEDOUT, 28)                                                                                          \
    X(SSL_CONNECT_ERROR, 35)                                                                                           \
    X(ABORTED_BY_CALLBACK, 42)                                                                                         \
    X(TOO_MANY_REDIRECTS, 47)                                                                                          \
    X(GOT_NOTHING, 52)                                                                                                 \
    X(SEND_ERROR, 55)                                                                                                  \
    X(RECV_ERROR, 56)                                                                                                  \
    X(PEER_FAILED_VERIFICATION, 60)                                                                                    \
    X(SSL_CACERT_BADFILE, 77)                                                                                          \
    X(HTTP2_STREAM, 92)

enum {
#define X(name, number) OCH_CURLOPT_##name = number,
    OCH_CURL_OPTIONS(X)
#undef X
#define X(name, number) OCH_CURLE_##name = number,
        OCH_CURL_CODES(X)
#undef X
            OCH_CURLINFO_RESPONSE_CODE = 0x200002,
    OCH_CURLPROTO_HTTP = 1,
    OCH_CURLPROTO_HTTPS = 2,
    OCH_CURL_ERROR_SIZE = 256
};

typedef struct och_curl_slist och_curl_slist;

/* result, name, arguments: all of them are required */
#define OCH_CURL_FUNCTIONS(X)                                                                                          \
    X(int, global_init, (long flags))                                                                                  \
    X(void *, easy_init, (void))                                                                                       \
    X(int, easy_setopt, (void *curl, int option, ...))                                                                 \
    X(int, easy_perform, (void *curl))                                                                                 \
    X(int, easy_getinfo, (void *curl, int info, ...))                                                                  \
    X(void, easy_cleanup, (void *curl))                                                                                \
    X(const char *, easy_strerror, (int code))                                                                         \
    X(och_curl_slist *, slist_append, (och_curl_slist * list, const char *text))                                       \
    X(void, slist_free_all, (och_curl_slist * list))                                                                   \
    X(char *, version, (void))

typedef struct och_curl {
#define X(result, name, args) result(*name) args;
    OCH_CURL_FUNCTIONS(X)
#undef X
    const char *file; /* what was opened; borrowed */
} och_curl;

/* Opens OCHRE_LIBCURL, or the usual names one after the other; once per process, never closed. UNAVAILABLE names what was
 * tried, what was missing and what to install. */
och_status och_curl_open(const och_curl **out_curl, och_err *err) OCH_WARN_UNUSED;

#endif
