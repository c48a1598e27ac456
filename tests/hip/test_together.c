/* Two simulated boards and the distribution's own libamdhip64 live in one process without meeting. */
#include "kernels.h"

#define REAL "/usr/lib/x86_64-linux-gnu/libamdhip64.so.5"

static void together(bool real_first) {
    void *real = real_first ? dlopen(REAL, RTLD_NOW | RTLD_LOCAL) : NULL;
    int n = 0, real_n = -1;
    OK(H(hipGetDeviceCount)(&n));
    CHECK(n == 2);
    if (!real_first) real = dlopen(REAL, RTLD_NOW | RTLD_LOCAL);
    if (!real) return;
    fn_hipGetDeviceCount *real_count = (fn_hipGetDeviceCount *)(uintptr_t)dlsym(real, "hipGetDeviceCount");
    fn_hipGetErrorName *real_name = (fn_hipGetErrorName *)(uintptr_t)dlsym(real, "hipGetErrorName");
    CHECK(real_count && real_count != H(hipGetDeviceCount));
    hipError_t e = real_count(&real_n); /* whatever this machine has */
    CHECK(e == hipSuccess || e == hipErrorNoDevice);
    CHECK(!strcmp(real_name(hipErrorNoDevice), H(hipGetErrorName)(hipErrorNoDevice)));
    for (int i = 0; i < 2; i++) {
        unsigned *d, v = 0;
        OK(H(hipSetDevice)(i));
        OK(H(hipMalloc)((void **)&d, 4));
        OK(H(hipMemset)(d, 0, 4));
        void *params[] = {&d};
        OK(H(hipModuleLaunchKernel)(get(load(), "count"), 3, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
        OK(H(hipMemcpy)(&v, d, 4, hipMemcpyDeviceToHost));
        CHECK(v == 192);
    }
    fn_hipGetLastError *real_last = (fn_hipGetLastError *)(uintptr_t)dlsym(real, "hipGetLastError");
    GIVES(hipErrorInvalidSymbol, H(hipGetSymbolAddress)((void *[1]){NULL}, NULL)); /* an error of ours is none of theirs */
    CHECK(real_last() != hipErrorInvalidSymbol);
}
TEST(simulated_first, "OCHRE_SIM_BOARD=gfx1100+gfx1201", NULL) { together(false); }
TEST(real_first, "OCHRE_SIM_BOARD=gfx1100+gfx1201", NULL) { together(true); }

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(simulated_first), cmocka_unit_test(real_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
