/* Where HIP's own headers are installed: every call of the backend's table has their signature, every number their value.
 * A difference is an error of the compiler. */
#if __has_include(<hip/hip_runtime_api.h>)
#define __HIP_PLATFORM_AMD__
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <hip/hip_runtime_api.h>
#define HAVE_HIP 1

/* What the headers that are installed may be too old for. */
#if HIP_VERSION_MAJOR < 6
typedef struct hipDeviceProp_tR0600 hipDeviceProp_tR0600;
#endif
#if HIP_VERSION_MAJOR < 7 || (HIP_VERSION_MAJOR == 7 && HIP_VERSION_MINOR < 2)
typedef struct ihipLibrary_t *hipLibrary_t;
typedef struct ihipKernel_t *hipKernel_t;
typedef enum hipLibraryOption_e { hipLibraryHostUniversalFunctionAndDataTable } hipLibraryOption;
#endif

/* One that the headers do not declare is declared by the table alone. */
#define HIP_SYM(need, since, name, params)                                                                                     \
    hipError_t name params;                                                                                                    \
    _Static_assert(__builtin_types_compatible_p(__typeof__(name), hipError_t params), #name);
#define HIP_SYM_TEXT(need, since, name, params)                                                                                \
    const char *name params;                                                                                                   \
    _Static_assert(__builtin_types_compatible_p(__typeof__(name), const char *params), #name);
#include "dev/hip/hip_syms.def"
#undef HIP_SYM
#undef HIP_SYM_TEXT

#define HIP_CONST(type, name, value) _Static_assert((uintptr_t)(name) == (value), #name);
#define HIP_ERRORS
#define HIP_ATTRIBUTES
#define HIP_COPY_KINDS
#define HIP_CAPTURE_MODES
#define HIP_FLAGS
#include "dev/hip/hip_consts.def"
#undef HIP_CONST
#undef HIP_ERRORS
#undef HIP_ATTRIBUTES
#undef HIP_COPY_KINDS
#undef HIP_CAPTURE_MODES
#undef HIP_FLAGS

/* The row of this header's release, by what the structure says of itself. */
#define HIP_RUNTIME(from, properties, bytes, arch, object)                                                                     \
    _Static_assert((from) / 100 * 10 != (HIP_VERSION_MAJOR >= 6 ? 60 : 40) ||                                                  \
                       (sizeof(hipDeviceProp_t) == (bytes) && offsetof(hipDeviceProp_t, gcnArchName) == (arch)),               \
                   #properties);
#include "dev/hip/hip_runtimes.def"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The checks are the compiler's, but for numbers that HIP writes as pointers: those are no constants to every compiler. */
static void headers_agree(void **state) {
    (void)state;
#ifndef HAVE_HIP
    skip();
#else
#define HIP_LAUNCH_PARAMS
#define HIP_LAUNCH_PARAM_BUFFER_POINTER_ HIP_LAUNCH_PARAM_BUFFER_POINTER
#define HIP_LAUNCH_PARAM_BUFFER_SIZE_ HIP_LAUNCH_PARAM_BUFFER_SIZE
#define HIP_LAUNCH_PARAM_END_ HIP_LAUNCH_PARAM_END
#define HIP_CONST(type, name, value) assert_int_equal((type)(name), value);
#include "dev/hip/hip_consts.def"
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(headers_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
