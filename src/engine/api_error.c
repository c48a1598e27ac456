/* What every function of the public API does with errors and with structs that say their size. */
#include "engine/api_error.h"

#include "base/size.h"

#include <string.h>

ochre_status och_api_give(const och_err *e, och_status st, ochre_error *out) {
    if (out) {
        memset(out, 0, sizeof *out);
        out->status = (ochre_status)st;
        if (st != OCH_OK) {
            out->native_code = e->native_code;
            memcpy(out->message, e->message[0] ? e->message : och_status_name(st),
                   e->message[0] ? sizeof out->message : strlen(och_status_name(st)) + 1);
        }
    }
    return (ochre_status)st;
}

och_status och_api_need(const void *p, const char *what, och_err *err) {
    return p ? OCH_OK : och_err_set(err, OCH_INVALID, "%s: expected a pointer, found NULL", what);
}

/* A caller built against an older header passes a shorter struct: what it does not have keeps its default. */
och_status och_api_read_options(void *dst, size_t dst_bytes, const void *src, const char *what, och_err *err) {
    if (!src) return OCH_OK;
    size_t n;
    memcpy(&n, src, sizeof n);
    if (n < sizeof n || n > 4096)
        return och_err_set(err, OCH_INVALID, "%s: size_bytes: expected the size of the struct, found %zu: use the initialiser", what, n);
    memcpy(dst, src, OCH_MIN(n, dst_bytes));
    return OCH_OK;
}

och_status och_api_write_struct(void *dst, const void *full, size_t full_bytes, const char *what, och_err *err) {
    size_t n;
    memcpy(&n, dst, sizeof n);
    if (n < sizeof n || n > 4096) return och_err_set(err, OCH_INVALID, "%s: size_bytes: expected %zu, found %zu", what, full_bytes, n);
    size_t copied = OCH_MIN(n, full_bytes);
    memcpy((char *)dst + sizeof n, (const char *)full + sizeof n, copied - sizeof n);
    return OCH_OK;
}
