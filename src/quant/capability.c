#include "quant/capability.h"

#include "base/size.h"

#include <stdbool.h>
#include <string.h>

#define OCH_DTYPE_ANY OCH_DTYPE_NONE

static const och_capability_row rows[] = {
#define OCH_CAP(backend, target, op, dtype, verdict, to, message)                                                      \
    {backend, target, op, OCH_DTYPE_##dtype, OCH_VERDICT_##verdict, OCH_DTYPE_##to, message},
#include "quant/capability.def"
#undef OCH_CAP
};

static bool any(const char *s) { return s[0] == '*' && !s[1]; }
static bool fits(const char *pattern, const char *s) { return any(pattern) || !strcmp(pattern, s); }

/* The backend weighs most: what one backend says about all targets beats what all backends say about one. */
static int specificity(const och_capability_row *r) {
    return 8 * !any(r->backend) + 4 * !any(r->target) + 2 * (r->dtype != OCH_DTYPE_NONE) + !any(r->op);
}

const och_capability_row *och_capability(const char *backend, const char *target, och_dtype dtype, const char *op) {
    const och_capability_row *best = &rows[OCH_COUNT(rows) - 1];
    if (!target) target = "";
    for (size_t i = 0; i < OCH_COUNT(rows); i++) {
        const och_capability_row *r = &rows[i];
        if (fits(r->backend, backend) && fits(r->target, target) && fits(r->op, op) &&
            (r->dtype == OCH_DTYPE_NONE || r->dtype == dtype) && specificity(r) > specificity(best))
            best = r;
    }
    return best;
}

och_status och_capability_check(const char *backend, const char *target, och_dtype dtype, const char *op,
                                och_err *err) {
    const och_capability_row *r = och_capability(backend, target, dtype, op);
    if (r->verdict != OCH_VERDICT_REJECT) return OCH_OK;
    return och_err_set(err, OCH_UNSUPPORTED, "%s of %s weights on %s%s%s: %s", op, och_dtype_name(dtype), backend,
                       target && target[0] ? " " : "", target ? target : "", r->message);
}

const char *och_verdict_name(och_verdict v) {
    switch (v) {
    case OCH_VERDICT_NATIVE: return "native";
    case OCH_VERDICT_DECODE_IN_KERNEL: return "decode in kernel";
    case OCH_VERDICT_CONVERT_AT_LOAD: return "convert at load";
    case OCH_VERDICT_REJECT: return "reject";
    }
    return "?";
}

const och_capability_row *och_capability_at(size_t i) { return i < OCH_COUNT(rows) ? &rows[i] : NULL; }
