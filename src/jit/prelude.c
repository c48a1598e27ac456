/* The words of HIP and CUDA that a text may use without a header of theirs: what hipRTC and NVRTC bring by themselves, over
 * clang's builtins. A clang that is asked for -nogpuinc knows none of them. */
#include "jit/job.h"

#define SHARED_WORDS                                                                                                   \
    "#define __global__ __attribute__((global))\n"                                                                     \
    "#define __device__ __attribute__((device))\n"                                                                     \
    "#define __host__ __attribute__((host))\n"                                                                         \
    "#define __shared__ __attribute__((shared))\n"                                                                     \
    "#define __constant__ __attribute__((constant))\n"                                                                 \
    "#define __forceinline__ inline __attribute__((always_inline))\n"                                                  \
    "#define __noinline__ __attribute__((noinline))\n"                                                                 \
    "#define __restrict__ __restrict\n"                                                                                \
    "typedef __SIZE_TYPE__ size_t;\n"                                                                                  \
    "typedef __INT8_TYPE__ int8_t; typedef __UINT8_TYPE__ uint8_t; typedef __INT16_TYPE__ int16_t;\n"                  \
    "typedef __UINT16_TYPE__ uint16_t; typedef __INT32_TYPE__ int32_t; typedef __UINT32_TYPE__ uint32_t;\n"            \
    "typedef __INT64_TYPE__ int64_t; typedef __UINT64_TYPE__ uint64_t;\n"                                              \
    "#define OCHRE_INDEX(name, vx, vy, vz) struct ochre_##name { \\\n"                                                 \
    "  __device__ static inline unsigned get_x() { return vx; } \\\n"                                                  \
    "  __device__ static inline unsigned get_y() { return vy; } \\\n"                                                  \
    "  __device__ static inline unsigned get_z() { return vz; } \\\n"                                                  \
    "  __declspec(property(get = get_x)) unsigned x; __declspec(property(get = get_y)) unsigned y; \\\n"               \
    "  __declspec(property(get = get_z)) unsigned z; }; static const __device__ ochre_##name name{};\n"

static const char hip[] = SHARED_WORDS
    "#define OCHRE_BOUNDS_1(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))\n"
    "#define OCHRE_BOUNDS_2(threads, waves) __attribute__((amdgpu_flat_work_group_size(1, threads), "
    "amdgpu_waves_per_eu(waves)))\n"
    "#define OCHRE_BOUNDS(a, b, name, ...) name\n"
    "#define __launch_bounds__(...) OCHRE_BOUNDS(__VA_ARGS__, OCHRE_BOUNDS_2, OCHRE_BOUNDS_1, )(__VA_ARGS__)\n"
    "#define OCHRE_GROUPS(d) (__builtin_amdgcn_grid_size_##d() / __builtin_amdgcn_workgroup_size_##d() + "
    "(__builtin_amdgcn_grid_size_##d() % __builtin_amdgcn_workgroup_size_##d() != 0))\n"
    "OCHRE_INDEX(threadIdx, __builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(), "
    "__builtin_amdgcn_workitem_id_z())\n"
    "OCHRE_INDEX(blockIdx, __builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(), "
    "__builtin_amdgcn_workgroup_id_z())\n"
    "OCHRE_INDEX(blockDim, __builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(), "
    "__builtin_amdgcn_workgroup_size_z())\n"
    "OCHRE_INDEX(gridDim, OCHRE_GROUPS(x), OCHRE_GROUPS(y), OCHRE_GROUPS(z))\n"
    "static inline __device__ void __syncthreads() { __builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\"); "
    "__builtin_amdgcn_s_barrier(); __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"workgroup\"); }\n"
    "template <class T> static inline __device__ T atomicAdd(T *p, T v) { return __hip_atomic_fetch_add(p, v, "
    "__ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }\n";

static const char cuda[] = SHARED_WORDS
    "#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))\n"
    "OCHRE_INDEX(threadIdx, __nvvm_read_ptx_sreg_tid_x(), __nvvm_read_ptx_sreg_tid_y(), __nvvm_read_ptx_sreg_tid_z())\n"
    "OCHRE_INDEX(blockIdx, __nvvm_read_ptx_sreg_ctaid_x(), __nvvm_read_ptx_sreg_ctaid_y(), __nvvm_read_ptx_sreg_ctaid_z())\n"
    "OCHRE_INDEX(blockDim, __nvvm_read_ptx_sreg_ntid_x(), __nvvm_read_ptx_sreg_ntid_y(), __nvvm_read_ptx_sreg_ntid_z())\n"
    "OCHRE_INDEX(gridDim, __nvvm_read_ptx_sreg_nctaid_x(), __nvvm_read_ptx_sreg_nctaid_y(), "
    "__nvvm_read_ptx_sreg_nctaid_z())\n"
    "static inline __device__ float atomicAdd(float *p, float v) { return __nvvm_atom_add_gen_f(p, v); }\n"
    "static inline __device__ int atomicAdd(int *p, int v) { return __nvvm_atom_add_gen_i(p, v); }\n"
    "static inline __device__ unsigned atomicAdd(unsigned *p, unsigned v) { return __nvvm_atom_add_gen_i((int *)p, (int)v); "
    "}\n";

const char *och_jit_prelude(och_jit_dialect dialect) { return dialect == OCH_JIT_HIP ? hip : cuda; }
