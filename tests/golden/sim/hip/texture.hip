// Reads and writes through texture and surface objects, as HIP's headers call the device libraries. texture.hipfb:
//   clang-19 -x hip --offload-device-only -nogpuinc --rocm-path=/usr --rocm-device-lib-path=/usr/lib/x86_64-linux-gnu/amdgcn/bitcode \
//     -O2 -mcode-object-version=5 --offload-arch=gfx1030 --offload-arch=gfx90a texture.hip -o texture.hipfb
#define DEVICE extern "C" __attribute__((device))
#define CONSTANT __attribute__((address_space(4)))
typedef float float2 __attribute__((ext_vector_type(2)));
typedef float float4 __attribute__((ext_vector_type(4)));
typedef int int2 __attribute__((ext_vector_type(2)));
DEVICE float4 __ockl_image_sample_2D(unsigned CONSTANT *, unsigned CONSTANT *, float2);
DEVICE float4 __ockl_image_load_1Db(unsigned CONSTANT *, int);
DEVICE void __ockl_image_store_2D(unsigned CONSTANT *, int2, float4);

extern "C" __attribute__((global)) void sample(void *texture, const float *at, float *out) {
    int t = __builtin_amdgcn_workitem_id_x();
    unsigned CONSTANT *i = (unsigned CONSTANT *)texture;
    out[t] = __ockl_image_sample_2D(i, i + 12, (float2){at[2 * t], at[2 * t + 1]}).x;
}
extern "C" __attribute__((global)) void fetch(void *texture, int *out) {
    int t = __builtin_amdgcn_workitem_id_x();
    float4 v = __ockl_image_load_1Db((unsigned CONSTANT *)texture, t * 2);
    out[t] = __builtin_bit_cast(int, (float)v.x);
}
extern "C" __attribute__((global)) void store(void *surface, int width) {
    int t = __builtin_amdgcn_workitem_id_x();
    __ockl_image_store_2D((unsigned CONSTANT *)surface, (int2){t % width, t / width}, (float4){(float)(t * 3), 0, 0, 0});
}
