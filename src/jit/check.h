/* Code against what was asked: a compiler's, a cache's or a pack's is given out only if it is the right one. */
#ifndef OCH_JIT_CHECK_H
#define OCH_JIT_CHECK_H

#include "jit/job.h"

typedef struct och_checked {
    och_jit_resources resources;
    int code_object_version; /* 0 where there is none */
} och_checked;

/* `target` and `version` are what the code must be of: the job's own, or what a pack says of its entry. CORRUPT: it is of
 * another target, wave size, code object version, or argument layout, or holds no kernel of that name; both sides are named.
 * UNSUPPORTED: it asks for hidden_hostcall, which nothing here serves.
 *
 * HSACO: everything is checked. PTX: target, entry, and its parameters by natural alignment. Cubin: entry and parameters. */
och_status och_jit_check(const void *code, size_t n_bytes, och_jit_code_kind kind, const och_jit_job *job,
                         const och_target_id *target, int version, och_checked *out_checked, och_err *err) OCH_WARN_UNUSED;

#endif
