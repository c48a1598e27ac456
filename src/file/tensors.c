#include "file/tensors.h"

#include "file/names.h"

#include <stdio.h>
#include <string.h>

och_status och_file_tensor_check(const och_file_tensor *t, och_err *err) {
    char show[OCH_NAME_SHOW_BYTES];
    if (t->dtype == OCH_DTYPE_NONE)
        return och_err_set(err, OCH_UNSUPPORTED, "%s: tensor '%s': type: expected one that this program reads, found %s",
                           t->path, och_name_show(show, t->name, strlen(t->name)), t->type_name);
    if (t->rank > OCH_FILE_MAX_RANK)
        return och_err_set(err, OCH_UNSUPPORTED, "%s: tensor '%s': rank: expected at most %d dimensions, found %d",
                           t->path, och_name_show(show, t->name, strlen(t->name)), OCH_FILE_MAX_RANK, t->rank);
    return OCH_OK;
}

const char *och_file_tensor_shape_str(const och_file_tensor *t, char *buf, size_t buf_bytes) {
    if (t->rank > OCH_FILE_MAX_RANK) {
        snprintf(buf, buf_bytes, "rank %d", t->rank);
        return buf;
    }
    size_t n = 0;
    for (int i = 0; i < t->rank && n < buf_bytes; i++) {
        int k = snprintf(buf + n, buf_bytes - n, "%s%llu", i ? ", " : "[", (unsigned long long)t->shape[i]);
        if (k < 0) break;
        n += (size_t)k;
    }
    if (n < buf_bytes) snprintf(buf + n, buf_bytes - n, t->rank ? "]" : "[]");
    return buf;
}
