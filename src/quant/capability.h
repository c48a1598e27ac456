/* Which backend does what with which weight format: one table (capability.def), read by dispatch, by `inspect` and by
 * the tests that hold the op layer's predicates equal to it. Backends and targets are strings: a row is data, and no
 * code path here knows a device by name. */
#ifndef OCH_QUANT_CAPABILITY_H
#define OCH_QUANT_CAPABILITY_H

#include "base/dtype.h"
#include "base/status.h"

typedef enum och_verdict {
    OCH_VERDICT_NATIVE,           /* the hardware multiplies this format as stored */
    OCH_VERDICT_DECODE_IN_KERNEL, /* the kernel unpacks it as it reads */
    OCH_VERDICT_CONVERT_AT_LOAD,  /* the loader rewrites it as `convert_to` */
    OCH_VERDICT_REJECT            /* refused, with `message` */
} och_verdict;

typedef struct och_capability_row {
    const char *backend; /* a provider: "reference", "cpu", "kernel"; "*" = any */
    const char *target;  /* a target's base name; "*" = any */
    const char *op;      /* "linear", "embed", "vector" (norm weights, biases); "*" = any */
    och_dtype dtype;     /* NONE = any */
    och_verdict verdict;
    och_dtype convert_to; /* NONE unless CONVERT_AT_LOAD */
    const char *message;  /* "" unless REJECT: what would help */
} och_capability_row;

/* Never NULL: the most specific row wins (backend, then target, op and dtype count), and a pair that no row names is
 * the table's last row, a REJECT. target may be NULL or "" for a backend that has none. */
const och_capability_row *och_capability(const char *backend, const char *target, och_dtype dtype, const char *op);

/* OK unless rejected; then UNSUPPORTED with a message that names op, dtype, backend and target and says what would
 * help. */
OCH_WARN_UNUSED och_status och_capability_check(const char *backend, const char *target, och_dtype dtype,
                                                const char *op, och_err *err);

/* "native", "decode in kernel", "convert at load", "reject". */
const char *och_verdict_name(och_verdict v);

/* Rows in table order; NULL past the end. */
const och_capability_row *och_capability_at(size_t i);

#endif
