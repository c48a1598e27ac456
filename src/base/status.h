/* Status codes and the error record that crosses module boundaries.
 *
 * A function that can fail returns och_status and, at a module boundary, fills a caller's och_err. Messages are lower
 * case, without a final period, and say what was expected, what was found and where. The first error wins: cleanup
 * never overwrites a record that already holds one. */
#ifndef OCH_BASE_STATUS_H
#define OCH_BASE_STATUS_H

#include <stdarg.h>
#include <stdint.h>

#define OCH_WARN_UNUSED __attribute__((warn_unused_result))
#define OCH_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Values equal ochre_status of the public API (asserted in src/engine/api.c). */
typedef enum och_status {
    OCH_OK = 0,
    OCH_INVALID = 1,     /* an argument or a request that makes no sense */
    OCH_RANGE = 2,       /* a size or an index outside what is allowed */
    OCH_NOMEM = 3,       /* an allocation failed, or a stated memory limit would be exceeded */
    OCH_NOTFOUND = 4,    /* a file, a tensor, a key does not exist */
    OCH_UNSUPPORTED = 5, /* declined: valid, but not something this provider, device or version does */
    OCH_UNAVAILABLE = 6, /* a library or a device is absent */
    OCH_CORRUPT = 7,     /* bytes that contradict their format */
    OCH_COMPILE = 8,     /* a kernel did not compile */
    OCH_DEVICE = 9,      /* a device reported an error */
    OCH_CANCELLED = 10,  /* the caller asked to stop */
    OCH_IO = 11,         /* the operating system refused a read, a write or a mapping */
    OCH_INTERNAL = 12    /* a broken invariant of our own */
} och_status;

#define OCH_ERR_MESSAGE_BYTES 768

typedef struct och_err {
    och_status status;
    int64_t native_code; /* errno, hipError_t, CUresult, ...; 0 when there is none */
    char message[OCH_ERR_MESSAGE_BYTES];
} och_err;

/* "corrupt", "out of memory", ... */
const char *och_status_name(och_status s);

/* Clears the record. err may be NULL in every function here. */
void och_err_clear(och_err *err);

/* Records status and message unless the record already holds an error; returns status, so that
 * `return och_err_set(err, OCH_CORRUPT, "...")` reads in one line. */
och_status och_err_set(och_err *err, och_status status, const char *fmt, ...) OCH_PRINTF(3, 4);
och_status och_err_set_native(och_err *err, och_status status, int64_t native_code, const char *fmt, ...)
    OCH_PRINTF(4, 5);

/* Puts "PREFIX: " before the message that is there (an outer layer adds its file or tensor); returns the status held. */
och_status och_err_prefix(och_err *err, const char *fmt, ...) OCH_PRINTF(2, 3);

/* The status for a failed allocation of `size_bytes` bytes for `what`. */
och_status och_err_nomem(och_err *err, uint64_t size_bytes, const char *what);

#define OCH_TRY(expr)                                                                                                  \
    do {                                                                                                               \
        och_status och_try_status_ = (expr);                                                                           \
        if (och_try_status_ != OCH_OK) return och_try_status_;                                                         \
    } while (0)

/* For functions with one `done:` label and a local `st`. */
#define OCH_TRY_GOTO(expr)                                                                                             \
    do {                                                                                                               \
        st = (expr);                                                                                                   \
        if (st != OCH_OK) goto done;                                                                                   \
    } while (0)

#endif
