/* HIP's types and numbers, as far as this backend uses them, declared here: no HIP header is included. Names are HIP's own,
 * so that a test built beside HIP's headers compares them (tests/unit/test_dev_hip_abi.c). Only this folder includes it. */
#ifndef OCH_DEV_HIP_TYPES_H
#define OCH_DEV_HIP_TYPES_H

#include <stddef.h>
#include <stdint.h>

typedef int hipDevice_t;
typedef void *hipDeviceptr_t;
typedef struct ihipStream_t *hipStream_t;
typedef struct ihipEvent_t *hipEvent_t;
typedef struct ihipModule_t *hipModule_t;
typedef struct ihipModuleSymbol_t *hipFunction_t;
typedef struct ihipGraph *hipGraph_t;
typedef struct hipGraphNode *hipGraphNode_t;
typedef struct hipGraphExec *hipGraphExec_t;
typedef struct ihipLibrary_t *hipLibrary_t;
typedef struct ihipKernel_t *hipKernel_t;

/* Two layouts of one structure; which call fills which, and where the one field used stands, is a row of
 * hip_runtimes.def. */
typedef struct hipDeviceProp_t hipDeviceProp_t;
typedef struct hipDeviceProp_tR0600 hipDeviceProp_tR0600;

#define HIP_CONST(type, name, value) name = value,
typedef enum hipError_t {
#define HIP_ERRORS
#include "dev/hip/hip_consts.def"
#undef HIP_ERRORS
} hipError_t;
typedef enum hipDeviceAttribute_t {
#define HIP_ATTRIBUTES
#include "dev/hip/hip_consts.def"
#undef HIP_ATTRIBUTES
} hipDeviceAttribute_t;
typedef enum hipMemcpyKind {
#define HIP_COPY_KINDS
#include "dev/hip/hip_consts.def"
#undef HIP_COPY_KINDS
} hipMemcpyKind;
typedef enum hipStreamCaptureMode {
#define HIP_CAPTURE_MODES
#include "dev/hip/hip_consts.def"
#undef HIP_CAPTURE_MODES
} hipStreamCaptureMode;
enum {
#define HIP_FLAGS
#define HIP_LAUNCH_PARAMS
#include "dev/hip/hip_consts.def"
#undef HIP_FLAGS
#undef HIP_LAUNCH_PARAMS
};
#undef HIP_CONST

/* Numbers of these two are not used: always none are given. */
typedef enum hipJitOption { hipJitOptionMaxRegisters } hipJitOption;
typedef enum hipLibraryOption_e { hipLibraryHostUniversalFunctionAndDataTable } hipLibraryOption;

#endif
