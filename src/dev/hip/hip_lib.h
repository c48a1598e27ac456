/* Libraries with libamdhip64's C ABI: found, opened, checked.
 *
 * Two kinds are open side by side: the one that serves hip:..., looked for once in the order of och_hip_search, and
 * instances of the simulator behind sim:.... From then on nothing distinguishes them but `simulated`, which says what file
 * it is and never what it does. A library that was opened stays until the process ends: its threads may be in it. */
#ifndef OCH_DEV_HIP_LIB_H
#define OCH_DEV_HIP_LIB_H

#include "base/status.h"
#include "base/strbuf.h"
#include "dev/hip/hip_types.h"
#include "dev/library.h"

#include <stdbool.h>

typedef struct hip_api {
#define HIP_SYM(need, since, name, params) hipError_t(*name) params;
#define HIP_SYM_TEXT(need, since, name, params) const char *(*name)params;
#include "dev/hip/hip_syms.def"
#undef HIP_SYM
#undef HIP_SYM_TEXT
} hip_api;

/* A row of hip_runtimes.def. */
typedef struct hip_runtime {
    int from; /* major * 100 + minor */
    bool new_properties;
    size_t properties_bytes, arch_offset;
    int code_object_version;
} hip_runtime;

typedef struct hip_lib {
    struct hip_lib *next; /* simulated ones */
    hip_api api;
    const hip_runtime *runtime;
    int version;    /* as hipRuntimeGetVersion says: 60342134 is 6.3.42134 */
    int n_devices;
    hipError_t count_error; /* why there is none */
    bool simulated;
    bool kernels_of_libraries; /* the library API is there and complete */
    char boards[64];           /* of an instance of the simulator */
    char path[512];
    char opened[512]; /* what dlopen gives this instance again for */
} hip_lib;

/* The library of hip:..., opened at the first call; UNAVAILABLE says what was tried, and why nothing serves. Borrowed. */
och_status och_hip_lib(hip_lib **out_lib, och_err *err) OCH_WARN_UNUSED;
/* What that call tried, in order; borrowed, empty before it. */
const och_attempts *och_hip_lib_attempts(void);
/* The instance of the simulator that shows these boards ("gfx1100x2"); NULL: OCHRE_SIM_BOARD, or its default. */
och_status och_hip_sim_lib(const char *boards, hip_lib **out_lib, och_err *err) OCH_WARN_UNUSED;
/* The simulator's file: UNAVAILABLE lists where it was looked for. */
och_status och_hip_sim_path(char *out_path, size_t n_bytes, och_err *err) OCH_WARN_UNUSED;
/* Whether any library was opened: its finalizer runs when the process exits. */
bool och_hip_any_opened(void);

/* Opens one file and fills all but n_devices; on failure out_attempt (NULL is allowed) says what was wrong. */
bool och_hip_lib_open_file(const char *path, hip_lib *out_lib, och_attempt *out_attempt);
/* hipInit and the count of devices. */
void och_hip_lib_count(hip_lib *lib);
/* Appends the optional calls that the library lacks, each as "hipKernelGetFunction (HIP 7.12)"; how many. */
size_t och_hip_lib_missing(const hip_lib *lib, och_strbuf *out);
/* The candidates in order: files that exist, and folders without one. */
void och_hip_search(och_attempts *out);

/* Where AMD's packages install. */
#define OCH_HIP_ROCM "/opt" "/rocm"

/* "6.3.42134" */
void och_hip_version_text(int version, char *out, size_t n_bytes);
/* One sentence that says why a library shows no device, as far as this machine tells: device nodes and permissions,
 * variables that hide devices; "" when nothing is known. */
void och_hip_explain_no_device(const hip_lib *lib, och_strbuf *out);
/* Appends "NAME=value" of each variable that hides devices, joined by " and ". */
void och_hip_hiding_variables(och_strbuf *out);

#endif
