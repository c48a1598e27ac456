/* A kernel of the language, specialised, as a request to the JIT: the one place where the two meet, so that what compiles a
 * kernel, what packs it and what looks it up ask for the same thing. */
#ifndef OCH_JIT_KERNEL_H
#define OCH_JIT_KERNEL_H

#include "base/hash.h"
#include "jit/jit.h"
#include "kl/kl.h"

#define OCH_JIT_KERNEL_MAX_ARGS (3 * OCH_KL_MAX_ARGS + OCH_KL_MAX_SIZES)

typedef struct och_jit_kernel {
    och_jit_request request; /* borrows from what follows */
    och_kl_signature signature;
    och_strbuf text, record; /* record: the signature's bytes */
    och_jit_arg args[OCH_JIT_KERNEL_MAX_ARGS];
    char source_id[OCH_HASH_HEX_BYTES]; /* of the texts of the unit's files, and of what makes code of them */
} och_jit_kernel;

/* Specialises and emits. The kernel must not move while its request is in use. Errors as of och_kl_specialise, with their text
 * in `diag`. Deinit in any case. */
OCH_WARN_UNUSED och_status och_jit_kernel_init(och_jit_kernel *k, const och_kl_unit *unit, const char *kernel,
                                               const och_kl_binding *bindings, int n_bindings,
                                               const och_kl_profile *profile, och_strbuf *diag, och_err *err);
/* The source_id of each of the unit's kernels. */
void och_jit_source_id(const och_kl_unit *unit, char out_hex[OCH_HASH_HEX_BYTES]);
void och_jit_kernel_deinit(och_jit_kernel *k); /* a zeroed one is allowed */

#endif
