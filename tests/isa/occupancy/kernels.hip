// Kernels whose occupancy is bound by vector registers (a clobbered one makes the count), by scalar ones, by LDS at different
// sizes of a workgroup, by scratch nothing. check.py compares what the compiler and the simulator make of them.
#define KERNEL(name, threads) extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(threads, threads))) void name
#define TID __builtin_amdgcn_workitem_id_x()

#define REGISTERS(n, last, threads) KERNEL(registers_##n##_##threads, threads)(int *p) { p[TID] = 1; asm volatile("" ::: "v" #last); }
REGISTERS(8, 7, 64)
REGISTERS(24, 23, 64)
REGISTERS(25, 24, 64)
REGISTERS(33, 32, 256)
REGISTERS(48, 47, 64)
REGISTERS(64, 63, 256)
REGISTERS(65, 64, 256)
REGISTERS(84, 83, 64)
REGISTERS(96, 95, 1024)
REGISTERS(97, 96, 256)
REGISTERS(128, 127, 1024)
REGISTERS(129, 128, 256)
REGISTERS(168, 167, 64)
REGISTERS(193, 192, 64)
REGISTERS(256, 255, 128)

#define SCALARS(n, last) KERNEL(scalars_##n, 64)(int *p) { p[TID] = 1; asm volatile("" ::: "s" #last); }
SCALARS(80, 79)
SCALARS(96, 95)
SCALARS(102, 101)

#define SHARED(words, threads)                                                                                        \
    KERNEL(lds_##words##_##threads, threads)(int *p) {                                                                \
        __attribute__((shared)) static int l[words];                                                                  \
        l[TID % words] = p[TID];                                                                                      \
        __builtin_amdgcn_s_barrier();                                                                                 \
        p[TID] = l[(TID * 7 + 1) % words];                                                                            \
    }
SHARED(256, 64)
SHARED(1024, 64)
SHARED(1025, 64)
SHARED(2048, 256)
SHARED(4096, 64)
SHARED(4096, 256)
SHARED(4096, 1024)
SHARED(8192, 64)
SHARED(8192, 256)
SHARED(8193, 256)
SHARED(10240, 512)
SHARED(16384, 64)
SHARED(16384, 1024)

KERNEL(spills, 1024)(int *p, int n) {
    int a[64];
    for (int i = 0; i < 64; i++) a[i] = p[i + TID];
    p[TID] = a[n & 63];
}

#if defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__)
#define ACCUMULATION(n, last) KERNEL(accumulation_##n, 64)(int *p) { p[TID] = 1; asm volatile("" ::: "v40", "a" #last); }
ACCUMULATION(32, 31)
ACCUMULATION(100, 99)
ACCUMULATION(256, 255)
#endif
