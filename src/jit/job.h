/* A request, checked and completed: what a compiler, the key and the packs read. */
#ifndef OCH_JIT_JOB_H
#define OCH_JIT_JOB_H

#include "jit/jit.h"
#include "target/target.h"

typedef struct och_jit_job {
    const och_jit_request *request; /* borrowed */
    och_target_id target;
    int wave_size, opt_level;
    int code_object_version; /* 0 for targets that have none */
    const char *kernel, *specialisation, *source_id, *file_name; /* borrowed, never NULL */
    char label[160];         /* "matvec F=Q4_K for gfx1151": for messages */
} och_jit_job;

/* INVALID: a wave size, level, version or dialect that the target does not have; NOTFOUND: the target. */
och_status och_jit_job_init(const och_jit_request *request, och_jit_job *out_job, och_err *err) OCH_WARN_UNUSED;

/* The text as a compiler gets it: the prelude where `with_prelude` is set and the request asks for it, a #line that names the
 * file, the request's text. */
och_status och_jit_job_text(const och_jit_job *job, bool with_prelude, och_strbuf *out, och_err *err) OCH_WARN_UNUSED;

/* HIP's and CUDA's own words for a clang that includes nothing (jit/prelude.c). */
const char *och_jit_prelude(och_jit_dialect dialect);

#endif
