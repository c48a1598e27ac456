// What the simulator's benchmark runs: compiled by clang-22 for each target, without headers or device libraries.
#define KERNEL extern "C" __attribute__((global)) void
#define DEVICE static __attribute__((device)) inline
#define SHARED __attribute__((shared))
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef int i32x4 __attribute__((ext_vector_type(4)));

DEVICE unsigned lane() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE unsigned group() { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE float wave_sum(float v, int width) {
    for (int m = width / 2; m; m /= 2)
        v += __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute((int)((lane() ^ m) * 4), __builtin_bit_cast(int, v)));
    return v;
}

// y = w x, a row of k (a multiple of 128 and of 4 waves) to each workgroup of one wave: the shape of a decode step.
KERNEL __attribute__((amdgpu_flat_work_group_size(32, 32))) matvec32(const float *w, const float *x, float *y, int k) {
    const f32x4 *row = (const f32x4 *)(w + (long)group() * k), *v = (const f32x4 *)x;
    f32x4 acc = 0;
    for (int i = lane(); i < k / 4; i += 32) acc += row[i] * v[i];
    float s = wave_sum(acc.x + acc.y + acc.z + acc.w, 32);
    if (lane() == 0) y[group()] = s;
}
KERNEL __attribute__((amdgpu_flat_work_group_size(64, 64))) matvec64(const float *w, const float *x, float *y, int k) {
    const f32x4 *row = (const f32x4 *)(w + (long)group() * k), *v = (const f32x4 *)x;
    f32x4 acc = 0;
    for (int i = lane(); i < k / 4; i += 64) acc += row[i] * v[i];
    float s = wave_sum(acc.x + acc.y + acc.z + acc.w, 64);
    if (lane() == 0) y[group()] = s;
}

// int8 dot products, four at a time.
KERNEL __attribute__((amdgpu_flat_work_group_size(32, 64))) dot8(const int *w, const int *x, int *y, int k) {
    const i32x4 *row = (const i32x4 *)(w + (long)group() * k), *v = (const i32x4 *)x;
    int acc = 0;
    for (int i = lane(); i < k / 4; i += 32) {
        i32x4 a = row[i], b = v[i];
#if defined(__gfx942__) || defined(__gfx90a__)
#define DOT(p, q, c) __builtin_amdgcn_sdot4(p, q, c, false)
#else
#define DOT(p, q, c) __builtin_amdgcn_sudot4(true, p, true, q, c, false)
#endif
        acc = DOT(a.x, b.x, acc);
        acc = DOT(a.y, b.y, acc);
        acc = DOT(a.z, b.z, acc);
        acc = DOT(a.w, b.w, acc);
    }
    y[group() * 64 + lane()] = acc;
}

// A tree sum in LDS, again and again.
KERNEL __attribute__((amdgpu_flat_work_group_size(256, 256))) lds_sum(const float *x, float *y, int rounds) {
    SHARED float t[256];
    float total = 0;
    for (int r = 0; r < rounds; r++) {
        t[lane()] = x[lane()] + (float)r;
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
        __builtin_amdgcn_s_barrier();
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
        for (unsigned n = 128; n; n /= 2) {
            if (lane() < n) t[lane()] += t[lane() + n];
            __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
            __builtin_amdgcn_s_barrier();
            __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
        }
        total += t[0];
        __builtin_amdgcn_s_barrier();
    }
    y[group() * 256 + lane()] = total;
}

#if defined(__gfx1151__) || defined(__gfx1100__)
typedef _Float16 f16x16 __attribute__((ext_vector_type(16)));
typedef float f32x8 __attribute__((ext_vector_type(8)));
// One 16 x 16 tile a wave, k steps of 16: A [16, k] and B [16, k] row-major.
KERNEL __attribute__((amdgpu_flat_work_group_size(32, 32))) wmma(const _Float16 *a, const _Float16 *b, float *c, int k) {
    f32x8 acc = {0};
    const f16x16 *pa = (const f16x16 *)(a + (long)(lane() % 16) * k), *pb = (const f16x16 *)(b + (long)(lane() % 16) * k);
    for (int i = 0; i < k / 16; i++) acc = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(pa[i], pb[i], acc);
    for (int i = 0; i < 8; i++) c[group() * 256 + (i * 2 + lane() / 16) * 16 + lane() % 16] = acc[i];
}
#endif
#if defined(__gfx942__) || defined(__gfx90a__)
typedef _Float16 f16x4 __attribute__((ext_vector_type(4)));
typedef float f32x16 __attribute__((ext_vector_type(16)));
// One 32 x 32 tile a wave, k steps of 8.
KERNEL __attribute__((amdgpu_flat_work_group_size(64, 64))) mfma(const _Float16 *a, const _Float16 *b, float *c, int k) {
    f32x16 acc = {0};
    const _Float16 *pa = a + (long)(lane() % 32) * k + lane() / 32 * 4, *pb = b + (long)(lane() % 32) * k + lane() / 32 * 4;
    for (int i = 0; i < k; i += 8)
        acc = __builtin_amdgcn_mfma_f32_32x32x8f16(*(const f16x4 *)(pa + i), *(const f16x4 *)(pb + i), acc, 0, 0, 0);
    for (int i = 0; i < 16; i++) c[group() * 1024 + (i / 4 * 8 + lane() / 32 * 4 + i % 4) * 32 + lane() % 32] = acc[i];
}
#endif
