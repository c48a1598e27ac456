// malloc and free in a kernel. heap.hipfb:
//   clang-19 -x hip --offload-device-only -nogpuinc --rocm-path=/usr --rocm-device-lib-path=/usr/lib/x86_64-linux-gnu/amdgcn/bitcode \
//     -O2 -mcode-object-version=5 --offload-arch=gfx1030 --offload-arch=gfx90a heap.hip -o heap.hipfb
extern "C" __attribute__((device)) void *__ockl_dm_alloc(unsigned long);
extern "C" __attribute__((device)) void __ockl_dm_dealloc(unsigned long);

extern "C" __attribute__((global)) void use(int *out) {
    int t = __builtin_amdgcn_workitem_id_x(), sum = 0;
    int *small = (int *)__ockl_dm_alloc(64), *large = (int *)__ockl_dm_alloc(5000);
    for (int i = 0; i < 16; i++) small[i] = t * i;
    large[1249] = 7;
    for (int i = 0; i < 16; i++) sum += small[i];
    out[t] = sum + large[1249];
    __ockl_dm_dealloc((unsigned long)small);
    __ockl_dm_dealloc((unsigned long)large);
}
