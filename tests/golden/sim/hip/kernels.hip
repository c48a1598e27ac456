// Kernels of the runtime's tests. kernels.hipfb and kernels6.hipfb are this file:
//   for v in 5 6; do clang-22 -x hip --offload-device-only -nogpulib -nogpuinc -O2 -mcode-object-version=$v \
//     --offload-arch=gfx1100 --offload-arch=gfx1151 --offload-arch=gfx1201 --offload-arch=gfx942:sramecc+:xnack- kernels.hip -o out.hipfb; done
#define GLOBAL extern "C" __attribute__((global))
#define DEVICE __attribute__((device))
#define SHARED __attribute__((shared))

static DEVICE unsigned item() {
    return __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + __builtin_amdgcn_workitem_id_x();
}

GLOBAL void axpy(float a, const float *x, float *y, int n) {
    int i = item();
    if (i < n) y[i] += a * x[i];
}

DEVICE int answer = 42;
DEVICE int *managed_pointer;
GLOBAL void read_answer(int *out) { *out = answer; }
GLOBAL void read_managed(int *out) { *out = *managed_pointer + 1; }

GLOBAL void reverse(int *v) {
    extern SHARED int block[];
    unsigned t = __builtin_amdgcn_workitem_id_x(), n = __builtin_amdgcn_workgroup_size_x();
    block[t] = v[t];
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    v[t] = block[n - 1 - t];
}

GLOBAL void store_at(int *p) { *p = 1; }

GLOBAL void count(unsigned *counter) { __hip_atomic_fetch_add(counter, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }

GLOBAL void __attribute__((amdgpu_flat_work_group_size(1, 64))) bounded(int *p) { p[item()] = 7; }

GLOBAL void trap() { __builtin_trap(); }

GLOBAL void forever(volatile int *p) {
    while (!*p) {}
}
