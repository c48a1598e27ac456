// Images of the targets that encode the dimension: loads, stores and samples.
#include "common.h"
typedef vec<float, 4> f4;
typedef vec<int, 4> i4;
#if defined(__GFX10__) || defined(__GFX11__) || defined(__GFX12__)
GLOBAL void images(f4 *o, __amdgpu_texture_t t, const i4 *s, const float *c, const int *n) {
    int x = n[TID], y = n[TID + 1], z = n[TID + 2];
    float u = c[TID], v = c[TID + 1], w = c[TID + 2];
    o[0] = __builtin_amdgcn_image_load_1d_v4f32_i32(15, x, t, 0, 0);
    o[1] = __builtin_amdgcn_image_load_2d_v4f32_i32(15, x, y, t, 0, 0);
    o[2] = __builtin_amdgcn_image_load_2darray_v4f32_i32(7, x, y, z, t, 0, 0);
    o[3] = __builtin_amdgcn_image_load_3d_v4f32_i32(15, z, y, x, t, 0, 0);
    o[4].x = __builtin_amdgcn_image_load_2d_f32_i32(1, x, y, t, 0, 0);
    __builtin_amdgcn_image_store_2d_v4f32_i32(o[5], 15, x, y, t, 0, 0);
    __builtin_amdgcn_image_store_1d_v4f32_i32(o[6], 15, x, t, 0, 0);
    o[7] = __builtin_amdgcn_image_sample_2d_v4f32_f32(15, u, v, t, s[0], false, 0, 0);
    o[8] = __builtin_amdgcn_image_sample_1d_v4f32_f32(15, u, t, s[0], false, 0, 0);
    o[9] = __builtin_amdgcn_image_sample_3d_v4f32_f32(15, w, v, u, t, s[1], false, 0, 0);
    o[10] = __builtin_amdgcn_image_sample_2darray_v4f32_f32(3, u, v, w, t, s[0], true, 0, 0);
}
#endif
