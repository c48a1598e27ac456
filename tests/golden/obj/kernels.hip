// What the .co files beside this one are made of: README.md says how.
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))

__device__ int counter = 7;
__device__ int table[4] = {1, 2, 3, 4};
extern "C" __device__ int *where = &counter;
extern "C" __device__ float scratchpad[256];

#ifdef POINTERS
__device__ __attribute__((noinline)) int twice(int x) { return x * 2 + counter; }
__device__ __attribute__((noinline)) int thrice(int x) { return x * 3 + table[x & 3]; }
__device__ int (*operations[2])(int) = {twice, thrice};
extern "C" __global__ void dispatch(int *o, int which) { *o = operations[which](*o); }
#endif

extern "C" __global__ void axpy(float a, const float *x, float *y, int n) {
    int i = __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + __builtin_amdgcn_workitem_id_x();
    if (i < n) y[i] += a * x[i];
}

struct pair { short a; double b; };
extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(64, 64)))
void rotate(struct pair p, int *o, char c) {
    __shared__ int s[64];
    int i = __builtin_amdgcn_workitem_id_x();
    s[i] = *where + table[i & 3] + p.a + c;
    __builtin_amdgcn_fence(5, "workgroup");
    __builtin_amdgcn_s_barrier();
    o[i] = s[(i + 1) & 63] + (int)p.b;
}

#ifdef ACCUMULATE
typedef float f32x16 __attribute__((ext_vector_type(16)));
extern "C" __global__ void product(const float *a, const float *b, f32x16 *c) {
    int i = __builtin_amdgcn_workitem_id_x();
    f32x16 acc = c[i];
    for (int k = 0; k < 8; k++) acc = __builtin_amdgcn_mfma_f32_32x32x2f32(a[k * 64 + i], b[k * 64 + i], acc, 0, 0, 0);
    asm volatile("v_accvgpr_write_b32 a5, %0" ::"v"(acc.x) : "a5");
    c[i] = acc;
}
#endif
