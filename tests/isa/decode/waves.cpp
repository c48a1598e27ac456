// What lanes do together, and what waves ask of the machine.
#include "common.h"

GLOBAL void lanes(int *o, const int *a) {
    int t = TID, x = a[t];
    o[0] = __builtin_amdgcn_readfirstlane(x) + __builtin_amdgcn_readlane(x, 5);
    o[1] = __builtin_amdgcn_wave_reduce_max_i32(x, 0);
    o[t + 64] = __builtin_amdgcn_ds_bpermute(t * 4, x) + __builtin_amdgcn_ds_permute(t * 8, x) +
                __builtin_amdgcn_ds_swizzle(x, 0x041f) + __builtin_amdgcn_mbcnt_lo(~0u, 0) + __builtin_amdgcn_mbcnt_hi(~0u, 1);
    o[t + 128] = __builtin_amdgcn_mov_dpp(x, 0xb1, 0xf, 0xf, true) + __builtin_amdgcn_update_dpp(7, x, 0x111, 0xf, 0xe, false) +
                 __builtin_amdgcn_update_dpp(0, x, 0x140, 0xf, 0xf, true) +
                         __builtin_amdgcn_update_dpp(x, x, 0x124, 0xa, 0xf, false);
    int y = x;
    y += __builtin_amdgcn_update_dpp(0, y, 0x112, 0xf, 0xf, true);
    y = y > __builtin_amdgcn_update_dpp(y, y, 0x141, 0xf, 0xf, false) ? y : 3;
    float f = (float)y;
    f += __builtin_bit_cast(float, __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(int, f), 0x11f, 0xf, 0xf, true));
    o[t + 192] = y + (int)f;
#if defined(__GFX10__) || defined(__GFX11__) || defined(__GFX12__)
    o[t + 256] = __builtin_amdgcn_permlane16(x, y, 0x76543210, 0xfedcba98, false, true) +
                 __builtin_amdgcn_permlanex16(x, y, 3, 4, true, false) + __builtin_amdgcn_mov_dpp8(x, 0x688c6b) +
                 __builtin_amdgcn_update_dpp(7, x, 0x155, 0xf, 0xf, false) +
                         __builtin_amdgcn_update_dpp(7, x, 0x163, 0xf, 0xf, false);
#else
    o[t + 256] = __builtin_amdgcn_update_dpp(7, x, 0x142, 0xa, 0xf, false) +
            __builtin_amdgcn_update_dpp(7, x, 0x138, 0xf, 0xf, false);
#endif
#if defined(__gfx950__)
    auto p = __builtin_amdgcn_permlane32_swap(x, y, false, true);
    auto q = __builtin_amdgcn_permlane16_swap(x, y, false, false);
    o[t + 320] = p[0] + p[1] + q[0] + q[1];
#endif
    u64 m = __builtin_amdgcn_ballot_w64(x > 3);
    o[t + 384] = (int)m + (int)(m >> 32);
}

GLOBAL void machine(u64 *o, int n) {
    o[0] = __builtin_readcyclecounter() + __builtin_amdgcn_s_getreg(0x1801) + __builtin_amdgcn_s_getreg(0xf805);
    __builtin_amdgcn_s_sleep(3);
    __builtin_amdgcn_s_setprio(2);
    __builtin_amdgcn_sched_barrier(0);
    __builtin_amdgcn_s_setreg(0x0801, __builtin_amdgcn_readfirstlane(n));
    __builtin_amdgcn_s_setreg(0x1801, 15);
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_s_barrier();
    o[1] = __builtin_amdgcn_s_getpc() + __builtin_amdgcn_workgroup_id_z() + __builtin_amdgcn_workitem_id_y() +
           __builtin_amdgcn_workitem_id_z() + __builtin_amdgcn_grid_size_x();
    o[2] = __builtin_amdgcn_is_shared((void *)o[3]) + __builtin_amdgcn_is_private((void *)o[4]);
    __builtin_amdgcn_s_sendmsg(1, 0);
    __builtin_amdgcn_s_dcache_inv();
}

GLOBAL void dots(int *o, const int *a, float *f, const vec<f16, 2> *h) {
    int t = TID;
#if !defined(__GFX11__) && !defined(__GFX12__)
    o[t] = __builtin_amdgcn_sdot4(a[t], a[t + 1], 3, false) + __builtin_amdgcn_sdot8(a[t], a[t + 1], 3, true) +
           __builtin_amdgcn_sdot2(__builtin_bit_cast(vec<short, 2>, a[t]),
                                   __builtin_bit_cast(vec<short, 2>, a[t + 1]), o[t], false);
#else
    o[t] = __builtin_amdgcn_sudot4(true, a[t], false, a[t + 1], 3, false) +
           __builtin_amdgcn_sudot8(true, a[t], true, a[t + 1], 3, true);
#endif
    o[t + 9] = __builtin_amdgcn_udot4(a[t], a[t + 1], o[t], false) + __builtin_amdgcn_udot8(a[t], a[t + 1], o[t], true);
    f[t] = __builtin_amdgcn_fdot2(h[t], h[t + 1], f[t], false) + __builtin_amdgcn_fdot2(h[t], h[t + 2], 1.0f, true);
}

#if defined(__gfx942__) || defined(__gfx950__) || defined(__GFX12__)
GLOBAL void fp8(float *f, int *o, const int *a) {
    int t = TID;
    f[t] = __builtin_amdgcn_cvt_f32_fp8(a[t], 0) + __builtin_amdgcn_cvt_f32_fp8(a[t], 3) +
            __builtin_amdgcn_cvt_f32_bf8(a[t], 1);
    vec<float, 2> p = __builtin_amdgcn_cvt_pk_f32_fp8(a[t], true);
    o[t] = __builtin_amdgcn_cvt_pk_fp8_f32(p.x, p.y, o[t], false) + __builtin_amdgcn_cvt_pk_bf8_f32(p.x, f[t], o[t], true) +
           __builtin_amdgcn_cvt_sr_fp8_f32(p.y, a[t], o[t], 2);
}
#endif
