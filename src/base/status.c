#include "base/status.h"

#include <stdio.h>
#include <string.h>

const char *och_status_name(och_status s) {
    switch (s) {
    case OCH_OK: return "ok";
    case OCH_INVALID: return "invalid argument";
    case OCH_RANGE: return "out of range";
    case OCH_NOMEM: return "out of memory";
    case OCH_NOTFOUND: return "not found";
    case OCH_UNSUPPORTED: return "unsupported";
    case OCH_UNAVAILABLE: return "unavailable";
    case OCH_CORRUPT: return "corrupt";
    case OCH_COMPILE: return "compile error";
    case OCH_DEVICE: return "device error";
    case OCH_CANCELLED: return "cancelled";
    case OCH_IO: return "input/output error";
    case OCH_INTERNAL: return "internal error";
    }
    return "unknown status";
}

void och_err_clear(och_err *err) {
    if (!err) return;
    err->status = OCH_OK;
    err->native_code = 0;
    err->message[0] = 0;
}

static och_status set(och_err *err, och_status status, int64_t native_code, const char *fmt, va_list ap) {
    if (err && err->status == OCH_OK) {
        err->status = status;
        err->native_code = native_code;
        vsnprintf(err->message, sizeof err->message, fmt, ap);
    }
    return status;
}

och_status och_err_set(och_err *err, och_status status, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    set(err, status, 0, fmt, ap);
    va_end(ap);
    return status;
}

och_status och_err_set_native(och_err *err, och_status status, int64_t native_code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    set(err, status, native_code, fmt, ap);
    va_end(ap);
    return status;
}

och_status och_err_prefix(och_err *err, const char *fmt, ...) {
    if (!err) return OCH_INTERNAL;
    char whole[2 * OCH_ERR_MESSAGE_BYTES];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(whole, OCH_ERR_MESSAGE_BYTES, fmt, ap);
    va_end(ap);
    if (n < 0) n = 0;
    if (n >= OCH_ERR_MESSAGE_BYTES) n = OCH_ERR_MESSAGE_BYTES - 1;
    snprintf(whole + n, sizeof whole - (size_t)n, ": %s", err->message);
    memcpy(err->message, whole, sizeof err->message);
    err->message[sizeof err->message - 1] = 0;
    return err->status;
}

och_status och_err_nomem(och_err *err, uint64_t size_bytes, const char *what) {
    return och_err_set(err, OCH_NOMEM, "out of memory: could not allocate %llu bytes for %s",
                       (unsigned long long)size_bytes, what);
}
