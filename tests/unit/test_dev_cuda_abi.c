/* Where CUDA's own headers are installed: every call of the backend's table has their signature, every number their value.
 * A difference is an error of the compiler. */
#if __has_include(<cuda.h>)
#define CUDA_H <cuda.h>
#elif __has_include("/usr/local/cuda/include/cuda.h")
#define CUDA_H "/usr/local/cuda/include/cuda.h"
#endif

#ifdef CUDA_H
#define __CUDA_API_VERSION_INTERNAL /* names as the library exports them, not the newest behind each */
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#pragma GCC diagnostic ignored "-Wpedantic"
#include <stddef.h>
#include <stdint.h>
#include CUDA_H

#define CUDA_SYM(need, since, name, params)                                                                                    \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), CUresult(*) params), #name);                                \
    _Static_assert((since) <= CUDA_VERSION, #name);
#include "dev/cuda/cuda_syms.def"
#undef CUDA_SYM

#define CUDA_ERROR(name, value, sticky) _Static_assert((int)(name) == (value), #name);
#define CUDA_CONST(name, value) _Static_assert((int)(name) == (value), #name);
#define CUDA_ERRORS
#define CUDA_ATTRIBUTES
#define CUDA_FUNCTION_ATTRIBUTES
#define CUDA_JIT_OPTIONS
#define CUDA_CAPTURE_MODES
#include "dev/cuda/cuda_consts.def"
#undef CUDA_ERRORS
#undef CUDA_ATTRIBUTES
#undef CUDA_FUNCTION_ATTRIBUTES
#undef CUDA_JIT_OPTIONS
#undef CUDA_CAPTURE_MODES

/* Those of its own that the headers have under other names, or as pointers, or not at all. */
#define CU_LAUNCH_PARAM_END_ (intptr_t)CU_LAUNCH_PARAM_END
#define CU_LAUNCH_PARAM_BUFFER_POINTER_ (intptr_t)CU_LAUNCH_PARAM_BUFFER_POINTER
#define CU_LAUNCH_PARAM_BUFFER_SIZE_ (intptr_t)CU_LAUNCH_PARAM_BUFFER_SIZE
#define CUDA_SHARED_UNASKED 49152
#define CUDA_EM_CUDA 190
#define CUDA_OLDEST 11000
#define HAVE_CUDA 1
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Pointers are compared when the test runs. */
static void flags(void **state) {
    (void)state;
#ifdef HAVE_CUDA
#undef CUDA_CONST
#define CUDA_CONST(name, value) assert_int_equal(name, value);
#define CUDA_FLAGS
#include "dev/cuda/cuda_consts.def"
#undef CUDA_FLAGS
#else
    print_message("no header of CUDA is installed\n");
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(flags)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
