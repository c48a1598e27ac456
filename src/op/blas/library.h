/* Vendors' libraries of matrix products: found, opened, checked. cuBLASLt serves devices cuda:..., hipBLASLt devices hip:...; a
 * simulated board has the hipBLASLt that OCHRE_HIPBLASLT names and no other. A library is looked for once and stays open until the
 * process ends. */
#ifndef OCH_OP_BLAS_LIBRARY_H
#define OCH_OP_BLAS_LIBRARY_H

#include "base/env.h"
#include "dev/dev.h"
#include "dev/library.h"

#include <stddef.h>
#include <stdint.h>

typedef struct och_blas_api {
#define OCH_BLAS_CALL(name, params) int(*name) params;
#include "op/blas/calls.def"
#undef OCH_BLAS_CALL
} och_blas_api;

/* What differs between the two beyond the names. The numbers are enumerators of the public headers that kinds.def names. */
typedef struct och_blas_kind {
    const char *name;   /* "cuBLASLt" */
    const char *prefix; /* of its calls: "cublasLt" */
    och_env_id override;
    och_library_names names;
    const char *runtime_call; /* a call of the runtime that it may be linked to: it must be the device's own */
    int oldest, major_unit;   /* as it counts versions */
    int type_f32, type_f16, type_bf16, compute_f32, op_none, op_transpose;
    int desc_trans_a, desc_trans_b;
    int pref_workspace, pref_align_a; /* b, c and d follow; negative: it has none */
    size_t result_bytes, result_workspace, result_state; /* of what the heuristic returns, which begins with the algorithm */
} och_blas_kind;

#define OCH_BLAS_RESULT_BYTES 128 /* room for any kind's */

typedef struct och_blas_library {
    const och_blas_kind *kind;
    och_blas_api api;
    void *get_version; /* not in the table: see och_blas_version */
    void *handle;      /* of dlopen */
    char path[512];
} och_blas_library;

/* What is known of the library for devices of a backend; NULL: there is none. */
const och_blas_kind *och_blas_kind_of(const char *backend);
/* The library for a device, opened at the first call. UNSUPPORTED: none serves it, with what was found. Borrowed. */
och_status och_blas_library_for(const och_dev_info *info, const och_blas_library **out_lib, och_err *err) OCH_WARN_UNUSED;
/* What that call tried for devices of this backend; borrowed; NULL for a backend that has no such library. */
const och_attempts *och_blas_library_attempts(const char *backend);
/* What an own handle of the library says that it is, as the library counts; 0: unknown. */
int och_blas_version(const och_blas_library *lib, void *handle);
/* "13.1.0" */
void och_blas_version_text(const och_blas_kind *kind, int version, char *out, size_t n_bytes);

#endif
