/* libcuda: found, opened, checked. Looked for once, in the order of och_cuda_search; a library that was opened stays until the
 * process ends, since its threads may be in it. */
#ifndef OCH_DEV_CUDA_LIB_H
#define OCH_DEV_CUDA_LIB_H

#include "base/status.h"
#include "base/strbuf.h"
#include "dev/cuda/cuda_types.h"
#include "dev/library.h"

#include <stdbool.h>

typedef struct cuda_api {
#define CUDA_SYM(need, since, name, params) CUresult(*name) params;
#include "dev/cuda/cuda_syms.def"
#undef CUDA_SYM
} cuda_api;

typedef struct cuda_lib {
    cuda_api api;
    int version;      /* as cuDriverGetVersion says: 13000 is CUDA 13.0, the newest that the driver serves */
    char driver[32];  /* the driver's own release, "580.159.04"; "" where nothing tells */
    int n_devices;
    CUresult count_error; /* why there is none */
    char path[512];
    char opened[512]; /* what dlopen takes to get at it */
} cuda_lib;

/* The library, opened at the first call; UNAVAILABLE says what was tried, and why nothing serves. Borrowed. */
och_status och_cuda_lib(cuda_lib **out_lib, och_err *err) OCH_WARN_UNUSED;
/* What that call tried, in order; borrowed, empty before it. */
const och_attempts *och_cuda_lib_attempts(void);
/* Whether it was opened: its finalizer runs when the process exits. */
bool och_cuda_any_opened(void);

/* The candidates in order: files that exist, and folders without one. */
void och_cuda_search(och_attempts *out);
/* Appends the optional calls that the library lacks, each as "cuGraphInstantiateWithFlags (CUDA 11.4)"; how many. */
size_t och_cuda_lib_missing(const cuda_lib *lib, och_strbuf *out);
/* The target whose code a device of this compute capability runs best: its own, or of the same major number the nearest lower
 * one, whose code it runs too. NOTFOUND lists the known ones. */
och_status och_cuda_target(int major, int minor, char *out, size_t n_bytes, och_err *err) OCH_WARN_UNUSED;
/* "13.0" */
void och_cuda_version_text(int version, char *out, size_t n_bytes);
/* "CUDA 13.0 (driver 580.159.04)" */
void och_cuda_lib_text(const cuda_lib *lib, char *out, size_t n_bytes);
/* "CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected" */
void och_cuda_error_text(const cuda_lib *lib, CUresult e, char *out, size_t n_bytes);
/* One sentence that says why the library shows no device, as far as this machine tells: what the error means, variables that
 * hide devices, device nodes and permissions; "" when nothing is known. */
void och_cuda_explain_no_device(const cuda_lib *lib, och_strbuf *out);
/* Appends "NAME=value" of each variable that hides devices, joined by " and ". */
void och_cuda_hiding_variables(och_strbuf *out);

#endif
