// printf and a failed assertion from kernels, with the device libraries' calls to the host linked in. printf.hipfb:
//   clang-19 -x hip --offload-device-only -nogpuinc --rocm-path=/usr --rocm-device-lib-path=/usr/lib/x86_64-linux-gnu/amdgcn/bitcode \
//     -O2 -mcode-object-version=5 --offload-arch=gfx1030 --offload-arch=gfx90a printf.hip -o printf.hipfb
extern "C" __attribute__((device)) int printf(const char *, ...);
extern "C" __attribute__((device)) unsigned long __ockl_fprintf_stderr_begin();
extern "C" __attribute__((device)) unsigned long __ockl_fprintf_append_string_n(unsigned long, const char *, unsigned long, unsigned);

extern "C" __attribute__((global)) void say(int n, double x, int *out) {
    int t = __builtin_amdgcn_workitem_id_x();
    if (t % 2) out[t] = printf("%3d of %d: %-6s|%6.2f|%c|%#x|%lld|%*d|%%\n", t, n, "odd", x * t, 'a' + t, 255, -5000000000ll, 4, t);
    else out[t] = printf("even %s\n", t ? "a string that is longer than one packet of seven words holds, so that it is split" : "");
}

extern "C" __attribute__((global)) void complain() {
    unsigned long m = __ockl_fprintf_stderr_begin();
    __ockl_fprintf_append_string_n(m, "kernel: assertion failed\n", 26, 1);
    __builtin_trap();
}
