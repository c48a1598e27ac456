/* hipRTC over the clang that is found. Skipped where there is none. */
#include "support.h"

static const char source[] = "#include <hip/hip_runtime.h>\n"
                             "#include \"scale.h\"\n"
                             "extern \"C\" __global__ void triple(int *p, int n) {\n"
                             "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                             "    if (i < n) p[i] *= SCALE;\n"
                             "}\n"
                             "template <class T, int N> __global__ void add(T *p) { p[threadIdx.x] += T(N); }\n";

static bool no_clang(void) { return system("command -v clang-22 clang-21 clang-20 clang-19 clang > /dev/null") != 0; }

TEST(compiles_and_runs, "", NULL) {
    if (no_clang()) return;
    hiprtcProgram p;
    const char *headers[] = {"#define SCALE 3\n"}, *names[] = {"scale.h"}, *lowered;
    GIVES(HIPRTC_SUCCESS, H(hiprtcCreateProgram)(&p, source, "test.hip", 1, headers, names));
    GIVES(HIPRTC_SUCCESS, H(hiprtcAddNameExpression)(p, "add<float, 4>"));
    GIVES(HIPRTC_SUCCESS, H(hiprtcAddNameExpression)(p, "add<int, -2>"));
    GIVES(HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION, H(hiprtcGetLoweredName)(p, "add<float, 4>", &lowered));
    const char *options[] = {"--gpu-architecture=gfx1100", "-DUNUSED=1"};
    int r = H(hiprtcCompileProgram)(p, 2, options);
    size_t n;
    if (r) {
        char log[4096];
        GIVES(HIPRTC_SUCCESS, H(hiprtcGetProgramLogSize)(p, &n));
        if (n < sizeof log && !H(hiprtcGetProgramLog)(p, log)) fprintf(stderr, "%s", log);
    }
    GIVES(HIPRTC_SUCCESS, r);
    GIVES(HIPRTC_SUCCESS, H(hiprtcGetCodeSize)(p, &n));
    char *code = malloc(n);
    GIVES(HIPRTC_SUCCESS, H(hiprtcGetCode)(p, code));
    hipModule_t m;
    hipFunction_t f;
    OK(H(hipModuleLoadData)(&m, code));
    int v[100], *d, count = 100;
    for (int i = 0; i < 100; i++) v[i] = i;
    OK(H(hipMalloc)((void **)&d, sizeof v));
    OK(H(hipMemcpy)(d, v, sizeof v, hipMemcpyHostToDevice));
    void *params[] = {&d, &count};
    OK(H(hipModuleGetFunction)(&f, m, "triple"));
    OK(H(hipModuleLaunchKernel)(f, 2, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
    GIVES(HIPRTC_SUCCESS, H(hiprtcGetLoweredName)(p, "add<int, -2>", &lowered));
    OK(H(hipModuleGetFunction)(&f, m, lowered));
    OK(H(hipModuleLaunchKernel)(f, 1, 1, 1, 100, 1, 1, 0, NULL, params, NULL));
    OK(H(hipMemcpy)(v, d, sizeof v, hipMemcpyDeviceToHost));
    for (int i = 0; i < 100; i++) CHECK(v[i] == 3 * i - 2);
    const char *other;
    GIVES(HIPRTC_SUCCESS, H(hiprtcGetLoweredName)(p, "add<float, 4>", &other));
    CHECK(strcmp(other, lowered) != 0);
    GIVES(HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID, H(hiprtcGetLoweredName)(p, "add<int, 9>", &lowered));
    GIVES(HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION, H(hiprtcAddNameExpression)(p, "add<int, 9>"));
    GIVES(HIPRTC_SUCCESS, H(hiprtcDestroyProgram)(&p));
    CHECK(!p);
}

TEST(errors_are_in_the_log, "", NULL) {
    if (no_clang()) return;
    hiprtcProgram p;
    size_t n;
    char log[8192];
    GIVES(HIPRTC_SUCCESS, H(hiprtcCreateProgram)(&p, "__global__ void f() { undeclared = 1; }", NULL, 0, NULL, NULL));
    GIVES(HIPRTC_ERROR_COMPILATION, H(hiprtcCompileProgram)(p, 0, NULL));
    GIVES(HIPRTC_SUCCESS, H(hiprtcGetProgramLogSize)(p, &n));
    CHECK(n < sizeof log);
    GIVES(HIPRTC_SUCCESS, H(hiprtcGetProgramLog)(p, log));
    CHECK(strstr(log, "undeclared"));
    GIVES(HIPRTC_ERROR_INVALID_PROGRAM, H(hiprtcGetCodeSize)(p, &n));
    CHECK(!strcmp(H(hiprtcGetErrorString)(HIPRTC_ERROR_COMPILATION), "HIPRTC_ERROR_COMPILATION"));
}

TEST(no_compiler, "OCHRE_SIM_CLANG=/nonexistent/clang", NULL) {
    hiprtcProgram p;
    char log[512];
    GIVES(HIPRTC_SUCCESS, H(hiprtcCreateProgram)(&p, "__global__ void f() {}", NULL, 0, NULL, NULL));
    GIVES(HIPRTC_ERROR_COMPILATION, H(hiprtcCompileProgram)(p, 0, NULL));
    GIVES(HIPRTC_SUCCESS, H(hiprtcGetProgramLog)(p, log));
    CHECK(strstr(log, "OCHRE_SIM_CLANG"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(compiles_and_runs), cmocka_unit_test(errors_are_in_the_log),
                                       cmocka_unit_test(no_compiler)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
