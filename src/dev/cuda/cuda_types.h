/* The driver API's types and numbers, as far as this backend uses them, declared here: no header of CUDA's is included. Names
 * are CUDA's own. Only this folder includes it. */
#ifndef OCH_DEV_CUDA_TYPES_H
#define OCH_DEV_CUDA_TYPES_H

#include <stddef.h>
#include <stdint.h>

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

typedef enum CUresult {
#define CUDA_ERROR(name, value, sticky) name = value,
#define CUDA_ERRORS
#include "dev/cuda/cuda_consts.def"
#undef CUDA_ERRORS
#undef CUDA_ERROR
} CUresult;

#define CUDA_CONST(name, value) name = value,
typedef enum CUdevice_attribute {
#define CUDA_ATTRIBUTES
#include "dev/cuda/cuda_consts.def"
#undef CUDA_ATTRIBUTES
} CUdevice_attribute;
typedef enum CUfunction_attribute {
#define CUDA_FUNCTION_ATTRIBUTES
#include "dev/cuda/cuda_consts.def"
#undef CUDA_FUNCTION_ATTRIBUTES
} CUfunction_attribute;
typedef enum CUjit_option {
#define CUDA_JIT_OPTIONS
#include "dev/cuda/cuda_consts.def"
#undef CUDA_JIT_OPTIONS
} CUjit_option;
typedef enum CUstreamCaptureMode {
#define CUDA_CAPTURE_MODES
#include "dev/cuda/cuda_consts.def"
#undef CUDA_CAPTURE_MODES
} CUstreamCaptureMode;
typedef enum CUlaunchAttributeID {
#define CUDA_LAUNCH_ATTRIBUTES
#include "dev/cuda/cuda_consts.def"
#undef CUDA_LAUNCH_ATTRIBUTES
} CUlaunchAttributeID;
enum {
#define CUDA_FLAGS
#include "dev/cuda/cuda_consts.def"
#undef CUDA_FLAGS
};
#undef CUDA_CONST

typedef struct CUlaunchAttribute {
    CUlaunchAttributeID id;
    char pad[4];
    union {
        char pad[64];
        int programmaticStreamSerializationAllowed;
        unsigned int sharedMemCarveout;
    } value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig {
    unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned int numAttrs;
} CUlaunchConfig;

#endif
