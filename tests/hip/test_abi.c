/* Where HIP's own headers (5.2) are installed: every call of the table has their signature, every structure their layout. A
 * call that they do not declare is declared here by the table alone. A difference is an error of the compiler. */
#if __has_include(<hip/hip_runtime_api.h>)
#define __HIP_PLATFORM_AMD__
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>
#define HAVE_HIP 1

typedef hipDeviceProp_t hipDeviceProp_tR0000;
typedef struct hipResourceViewDesc hipResourceViewDesc;
/* What came after 5.2, or is C++ there. */
typedef struct hipDeviceProp_tR0600 hipDeviceProp_tR0600;
typedef struct hipUserObject *hipUserObject_t;
typedef struct ihipLibrary_t *hipLibrary_t;
typedef struct ihipKernel_t *hipKernel_t;
typedef int hipDriverProcAddressQueryResult;
typedef int hipDriverEntryPointQueryResult;
typedef int hipGraphMemAttributeType;
typedef hipKernelNodeAttrID hipLaunchAttributeID; /* renamed */
typedef hipKernelNodeAttrValue hipLaunchAttributeValue;
typedef int hipLibraryOption;
typedef struct hipFunctionLaunchParams hipFunctionLaunchParams;
typedef struct hipLaunchConfig_t hipLaunchConfig_t;
typedef struct HIP_LAUNCH_CONFIG HIP_LAUNCH_CONFIG;
typedef struct hipMemAllocNodeParams hipMemAllocNodeParams;
typedef struct hipGraphEdgeData hipGraphEdgeData;
typedef struct hipGraphInstantiateParams hipGraphInstantiateParams;
typedef union hipStreamBatchMemOpParams hipStreamBatchMemOpParams;
typedef enum hipLimit_t hipLimit_t;

typedef struct __hip_surface *hipSurfaceObject_t;

#define HIP_API(node, flags, name, params, args) hipError_t name params;
#define HIP_ALIAS(node, flags, name, body, params, args) hipError_t name params;
#define HIP_SPT(node, flags, name, body, params, args) hipError_t name params;
#define HIP_RET(node, ret, name, params, args) ret name params;
#define HIP_VOID(node, name, params, args) void name params;
#define HIP_NOT(node, name, why)
#include "../../sim/hip/hip_syms.def"

#define HIP_SIZE(type, size) _Static_assert(sizeof(type) == size, #type);
#define HIP_FIELD(type, field, offset) _Static_assert(offsetof(type, field) == offset, #type "." #field);
#define HIP_MEMORY_TYPE memoryType
#include "layout.def"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The checks are the compiler's. */
static void headers_agree(void **state) {
    (void)state;
#ifndef HAVE_HIP
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(headers_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
