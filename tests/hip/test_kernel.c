#include "kernels.h"

static void axpy_body(void) {
    enum { N = 1000 };
    float x[N], y[N], *dx, *dy, a = 3;
    int n = N;
    for (int i = 0; i < N; i++) x[i] = (float)i, y[i] = 1;
    hipFunction_t f = get(load(), "axpy");
    OK(H(hipMalloc)((void **)&dx, sizeof x));
    OK(H(hipMalloc)((void **)&dy, sizeof y));
    OK(H(hipMemcpy)(dx, x, sizeof x, hipMemcpyHostToDevice));
    OK(H(hipMemcpy)(dy, y, sizeof y, hipMemcpyHostToDevice));
    void *params[] = {&a, &dx, &dy, &n};
    OK(H(hipModuleLaunchKernel)(f, 4, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
    struct { float a; int pad; float *x, *y; int n; } packed = {1, 0, dx, dy, N};
    size_t bytes = sizeof packed;
    void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &packed, HIP_LAUNCH_PARAM_BUFFER_SIZE, &bytes, HIP_LAUNCH_PARAM_END};
    OK(H(hipModuleLaunchKernel)(f, 4, 1, 1, 256, 1, 1, 0, NULL, NULL, extra));
    /* work-items rather than workgroups */
    OK(H(hipExtModuleLaunchKernel)(f, N, 1, 1, 256, 1, 1, 0, NULL, NULL, extra, NULL, NULL, 0));
    OK(H(hipMemcpy)(y, dy, sizeof y, hipMemcpyDeviceToHost));
    for (int i = 0; i < N; i++) CHECK(y[i] == 1 + 5 * (float)i);
}
TEST(axpy_gfx1100, "", NULL) { axpy_body(); }
TEST(axpy_gfx1151, "OCHRE_SIM_BOARD=gfx1151", NULL) { axpy_body(); }
TEST(axpy_gfx1201, "OCHRE_SIM_BOARD=gfx1201", NULL) { axpy_body(); }
TEST(axpy_gfx942, "OCHRE_SIM_BOARD=gfx942", NULL) { axpy_body(); }
TEST(axpy_deterministic, "OCHRE_SIM_DETERMINISTIC=1", NULL) { axpy_body(); }

TEST(a_target_without_code, "OCHRE_SIM_BOARD=gfx1030", NULL) {
    hipModule_t m;
    GIVES(hipErrorNoBinaryForGpu, H(hipModuleLoadData)(&m, read_file("kernels.hipfb")));
}

TEST(modules, "OCHRE_SIM_HIP_VERSION=7.2", NULL) {
    hipModule_t m = load();
    hipFunction_t f;
    GIVES(hipErrorNotFound, H(hipModuleGetFunction)(&f, m, "nothing"));
    unsigned n = 0;
    OK(H(hipModuleGetFunctionCount)(&n, m));
    CHECK(n == 9);
    int *d, v = 0, *out;
    size_t bytes;
    OK(H(hipModuleGetGlobal)((void **)&d, &bytes, m, "answer"));
    CHECK(bytes == 4);
    OK(H(hipMemcpy)(&v, d, 4, hipMemcpyDeviceToHost));
    CHECK(v == 42);
    v = 43;
    OK(H(hipMemcpy)(d, &v, 4, hipMemcpyHostToDevice));
    OK(H(hipMalloc)((void **)&out, 4));
    void *params[] = {&out};
    OK(H(hipModuleLaunchKernel)(get(m, "read_answer"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    OK(H(hipMemcpy)(&v, out, 4, hipMemcpyDeviceToHost));
    CHECK(v == 43);
    GIVES(hipErrorNotFound, H(hipModuleGetGlobal)((void **)&d, &bytes, m, "question"));
    OK(H(hipFuncGetAttribute)(&v, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, get(m, "bounded")));
    CHECK(v == 64);
    OK(H(hipModuleUnload)(m));
    GIVES(hipErrorInvalidHandle, H(hipModuleUnload)(m));
    GIVES(hipErrorInvalidHandle, H(hipModuleGetFunction)(&f, m, "axpy"));
    GIVES(hipErrorFileNotFound, H(hipModuleLoad)(&m, "/nonexistent"));
    static const char junk[64] = "this is no code object";
    GIVES(hipErrorInvalidImage, H(hipModuleLoadData)(&m, junk));
}

TEST(the_library_api, "OCHRE_SIM_HIP_VERSION=7.2", NULL) {
    hipLibrary_t l, l2;
    hipKernel_t k;
    hipFunction_t f;
    unsigned n;
    void *image = read_file("kernels.hipfb");
    OK(H(hipLibraryLoadData)(&l, image, NULL, NULL, 0, NULL, NULL, 0));
    OK(H(hipLibraryGetKernelCount)(&n, l));
    CHECK(n == 9);
    OK(H(hipLibraryGetKernel)(&k, l, "read_answer"));
    GIVES(hipErrorNotFound, H(hipLibraryGetKernel)(&k, l, "nothing"));
    OK(H(hipKernelGetFunction)(&f, k));
    const char *name;
    OK(H(hipKernelGetName)(&name, k));
    CHECK(!strcmp(name, "read_answer"));
    OK(H(hipKernelGetLibrary)(&l2, k));
    CHECK(l == l2);
    int *out, v = 0;
    OK(H(hipMalloc)((void **)&out, 4));
    void *params[] = {&out};
    OK(H(hipModuleLaunchKernel)(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    OK(H(hipLaunchKernel)((void *)k, (dim3){1, 1, 1}, (dim3){1, 1, 1}, params, 0, NULL)); /* a kernel handle launches itself */
    OK(H(hipMemcpy)(&v, out, 4, hipMemcpyDeviceToHost));
    CHECK(v == 42);
    size_t offset, size;
    OK(H(hipKernelGetParamInfo)(k, 0, &offset, &size));
    CHECK(offset == 0 && size == 8);
    GIVES(hipErrorInvalidValue, H(hipKernelGetParamInfo)(k, 1, &offset, &size));
    OK(H(hipLibraryUnload)(l));
    GIVES(hipErrorInvalidHandle, H(hipLibraryUnload)(l));
    GIVES(hipErrorInvalidValue, H(hipLibraryLoadFromFile)(&l, "/nonexistent", NULL, NULL, 0, NULL, NULL, 0));
}

/* What a compiled program does before main and in its stubs. */
static char read_answer_stub, answer_shadow;
static void *managed_shadow;
static int managed_init = 30;
TEST(registration, "OCHRE_SIM_BOARD=gfx1151+gfx1100", NULL) {
    static struct { uint32_t magic, version; const void *binary; void *unused; } wrapper = {0x48495046, 1, NULL, NULL};
    wrapper.binary = read_file("kernels.hipfb");
    void **fat = H(__hipRegisterFatBinary)(&wrapper);
    H(__hipRegisterFunction)(fat, &read_answer_stub, (char *)"read_answer", "read_answer", -1u, NULL, NULL, NULL, NULL, NULL);
    static char read_managed_stub;
    H(__hipRegisterFunction)(fat, &read_managed_stub, (char *)"read_managed", "read_managed", -1u, NULL, NULL, NULL, NULL,
                             NULL);
    H(__hipRegisterVar)(fat, &answer_shadow, (char *)"answer", (char *)"answer", 0, 4, 0, 0);
    H(__hipRegisterManagedVar)(fat, &managed_shadow, &managed_init, "managed_pointer", 4, 4);
    CHECK(*(int *)managed_shadow == 30);
    for (int device = 0; device < 2; device++) {
        int *out, v = 0, set = 7 + device;
        OK(H(hipSetDevice)(device));
        OK(H(hipMalloc)((void **)&out, 4));
        OK(H(hipMemcpyToSymbol)(&answer_shadow, &set, 4, 0, hipMemcpyHostToDevice));
        void *params[] = {&out};
        dim3 grid, block;
        size_t shared;
        hipStream_t stream;
        OK(H(__hipPushCallConfiguration)((dim3){1, 1, 1}, (dim3){1, 1, 1}, 0, NULL));
        OK(H(__hipPopCallConfiguration)(&grid, &block, &shared, &stream));
        OK(H(hipLaunchKernel)(&read_answer_stub, grid, block, params, shared, stream));
        OK(H(hipMemcpy)(&v, out, 4, hipMemcpyDeviceToHost));
        CHECK(v == 7 + device);
        *(int *)managed_shadow = 50 + device;
        OK(H(hipLaunchKernel)(&read_managed_stub, grid, block, params, 0, NULL));
        OK(H(hipMemcpy)(&v, out, 4, hipMemcpyDeviceToHost));
        CHECK(v == 51 + device);
        size_t size;
        OK(H(hipGetSymbolSize)(&size, &answer_shadow));
        CHECK(size == 4);
        OK(H(hipMemcpyFromSymbol)(&v, &answer_shadow, 4, 0, hipMemcpyDeviceToHost));
        CHECK(v == 7 + device);
        GIVES(hipErrorInvalidValue, H(hipMemcpyFromSymbol)(&v, &answer_shadow, 4, 1, hipMemcpyDeviceToHost));
        hipFuncAttributes a;
        OK(H(hipFuncGetAttributes)(&a, &read_answer_stub));
        CHECK(a.maxThreadsPerBlock == 1024);
    }
    GIVES(hipErrorMissingConfiguration, H(__hipPopCallConfiguration)(&(dim3){0, 0, 0}, &(dim3){0, 0, 0}, &(size_t){0},
                                                                     &(hipStream_t){NULL}));
    GIVES(hipErrorInvalidDeviceFunction, H(hipLaunchKernel)(&answer_shadow, (dim3){1, 1, 1}, (dim3){1, 1, 1}, NULL, 0, NULL));
    GIVES(hipErrorInvalidSymbol, H(hipMemcpyToSymbol)(&read_answer_stub, &managed_init, 4, 0, hipMemcpyHostToDevice));
    H(__hipUnregisterFatBinary)(fat);
}

TEST(dynamic_lds, "", NULL) {
    int v[128], *d;
    for (int i = 0; i < 128; i++) v[i] = i;
    OK(H(hipMalloc)((void **)&d, sizeof v));
    OK(H(hipMemcpy)(d, v, sizeof v, hipMemcpyHostToDevice));
    void *params[] = {&d};
    OK(H(hipModuleLaunchKernel)(get(load(), "reverse"), 1, 1, 1, 128, 1, 1, sizeof v, NULL, params, NULL));
    OK(H(hipMemcpy)(v, d, sizeof v, hipMemcpyDeviceToHost));
    for (int i = 0; i < 128; i++) CHECK(v[i] == 127 - i);
}

static void shapes(int zero, int many, int over_bound) {
    hipModule_t m = load();
    int *d;
    OK(H(hipMalloc)((void **)&d, 4096));
    void *params[] = {&d};
    hipFunction_t f = get(m, "count"), b = get(m, "bounded");
    GIVES(zero, H(hipModuleLaunchKernel)(f, 0, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
    GIVES(many, H(hipModuleLaunchKernel)(f, 1, 1, 1, 1024, 2, 1, 0, NULL, params, NULL));
    GIVES(over_bound, H(hipModuleLaunchKernel)(b, 1, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
    GIVES(hipErrorInvalidValue, H(hipModuleLaunchKernel)(f, 1, 1, 1, 64, 1, 1, 65537, NULL, params, NULL));
    GIVES(hipErrorInvalidValue, H(hipModuleLaunchKernel)(f, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL));
    OK(H(hipModuleLaunchKernel)(b, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
    OK(H(hipDeviceSynchronize)());
}
/* What each refusal says on standard error. */
static void refusals(void) {
    unsigned *d;
    void *params[] = {&d};
    hipFunction_t f = get(load(), "count"), b = get(load(), "bounded");
    OK(H(hipMalloc)((void **)&d, 4));
    (void)H(hipModuleLaunchKernel)(f, 1, 1, 1, 2048, 1, 1, 0, NULL, params, NULL);
    (void)H(hipModuleLaunchKernel)(f, 1, 1, 1, 64, 1, 1, 1 << 20, NULL, params, NULL);
    (void)H(hipModuleLaunchKernel)(b, 1, 1, 1, 128, 1, 1, 0, NULL, params, NULL);
    (void)H(hipModuleLaunchKernel)(f, 1, 0, 1, 64, 1, 1, 0, NULL, params, NULL);
    (void)H(hipModuleLaunchKernel)(f, 1u << 31, 1, 1, 64, 1, 1, 0, NULL, params, NULL);
    (void)H(hipModuleLaunchCooperativeKernel)(f, 97, 1, 1, 1024, 1, 1, 0, NULL, params);
}
static void refusals_say_the_limit(void **state) {
    (void)state;
    static const char *const parts[] = {
        "launch of count refused (hipErrorInvalidValue): a block of 2048 x 1 x 1 threads: at most 1024",
        "1048576 bytes of dynamic shared memory beside 0 static ones: gfx1100 has 65536 for a block",
        "launch of bounded refused (hipErrorLaunchFailure): a block of 128 threads: the kernel is compiled for at most 64",
        "dimension 1 of the grid is 0", "dimension 0 of the grid has 137438953472 threads",
        "a cooperative grid of 97 blocks: gfx1100 holds 96 at once"};
    char said[4096];
    assert_int_equal(in_process("", NULL, refusals, said, sizeof said), 0);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(said, parts[i])) fail_msg("expected \"%s\" in: %s", parts[i], said);
}

TEST(refused_shapes_6, "OCHRE_SIM_HIP_VERSION=6.3", NULL) {
    shapes(hipErrorInvalidConfiguration, hipErrorInvalidValue, hipErrorLaunchFailure);
}
TEST(refused_shapes_7, "OCHRE_SIM_HIP_VERSION=7.2", NULL) {
    shapes(hipErrorInvalidValue, hipErrorInvalidConfiguration, hipErrorInvalidConfiguration);
}

static void fault(const char *kernel, void *arg, int expected) {
    hipModule_t m = load();
    void *params[] = {&arg}, *p;
    hipFunction_t other = get(m, "count");
    OK(H(hipModuleLaunchKernel)(get(m, kernel), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL)); /* the launch itself succeeds */
    GIVES(expected, H(hipDeviceSynchronize)());
    GIVES(expected, H(hipMalloc)(&p, 4)); /* and the device stays broken */
    GIVES(expected, H(hipModuleLaunchKernel)(other, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
}
static void bad_address(void) { fault("store_at", (void *)0x123456789000, hipErrorIllegalAddress); }
static void freed_address(void) {
    void *p;
    OK(H(hipMalloc)(&p, 64));
    OK(H(hipFree)(p));
    fault("store_at", p, hipErrorIllegalAddress);
}
static void trapped(void) { fault("trap", NULL, hipErrorLaunchFailure); }
static void endless(void) {
    void *p;
    OK(H(hipMalloc)(&p, 64));
    OK(H(hipMemset)(p, 0, 64));
    fault("forever", p, hipErrorLaunchTimeOut);
}
static void once(const char *env, void (*body)(void), const char *text) {
    char err[8192];
    int status = in_process(env, NULL, body, err, sizeof err);
    if (status) fprintf(stderr, "%s", err);
    assert_int_equal(status, 0);
    char *at = strstr(err, text);
    if (!at) fprintf(stderr, "no \"%s\" in: %s", text, err);
    assert_non_null(at);
    assert_null(strstr(at + 1, "ochre-sim:")); /* one report */
}
static void faults_surface_at_the_next_call(void **state) {
    (void)state;
    once("", bad_address, "store_at");
    once("", freed_address, "store_at");
    once("OCHRE_SIM_BOARD=gfx942", trapped, "trap");
    once("OCHRE_SIM_BUDGET=100000", endless, "forever");
}
TEST(a_reset_device_is_in_order_again, "", NULL) {
    fault("store_at", (void *)0x123456789000, hipErrorIllegalAddress);
    void *p;
    OK(H(hipDeviceReset)());
    OK(H(hipMalloc)(&p, 4));
}

TEST(occupancy, "", NULL) {
    int blocks = 0, grid = 0, block = 0;
    hipFunction_t f = get(load(), "axpy");
    OK(H(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, f, 256, 0));
    CHECK(blocks == 8); /* 8 waves a workgroup, 16 a SIMD, 4 SIMDs a WGP */
    OK(H(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, f, 256, 65536));
    CHECK(blocks == 2);
    OK(H(hipModuleOccupancyMaxPotentialBlockSize)(&grid, &block, f, 0, 0));
    CHECK(block == 1024 && grid == 2 * 48);
    size_t lds;
    OK(H(hipOccupancyAvailableDynamicSMemPerBlock)(&lds, f, 4, 256));
    CHECK(lds == 32768);
}

TEST(cooperative_launches_are_bounded, "", NULL) {
    unsigned *d, v = 0;
    OK(H(hipMalloc)((void **)&d, 4));
    OK(H(hipMemset)(d, 0, 4));
    void *params[] = {&d};
    hipFunction_t f = get(load(), "count");
    OK(H(hipModuleLaunchCooperativeKernel)(f, 96, 1, 1, 1024, 1, 1, 0, NULL, params));
    GIVES(hipErrorCooperativeLaunchTooLarge, H(hipModuleLaunchCooperativeKernel)(f, 97, 1, 1, 1024, 1, 1, 0, NULL, params));
    OK(H(hipMemcpy)(&v, d, 4, hipMemcpyDeviceToHost));
    CHECK(v == 96 * 1024);
}

TEST(one_launch_on_several_devices, "OCHRE_SIM_BOARD=gfx1100+gfx942", NULL) {
    hipFunctionLaunchParams list[2];
    hipStream_t streams[2];
    unsigned *d[2], v;
    void *params[2][1];
    for (int i = 0; i < 2; i++) {
        OK(H(hipSetDevice)(i));
        OK(H(hipStreamCreate)(&streams[i]));
        OK(H(hipMalloc)((void **)&d[i], 4));
        OK(H(hipMemset)(d[i], 0, 4));
        params[i][0] = &d[i];
        list[i] = (hipFunctionLaunchParams){get(load(), "count"), (unsigned)i + 1, 1, 1, 64, 1, 1, 0, streams[i], params[i]};
    }
    OK(H(hipModuleLaunchCooperativeKernelMultiDevice)(list, 2, 0));
    for (int i = 0; i < 2; i++) {
        OK(H(hipStreamSynchronize)(streams[i]));
        OK(H(hipMemcpy)(&v, d[i], 4, hipMemcpyDeviceToHost));
        CHECK(v == 64 * ((unsigned)i + 1));
    }
    list[1] = list[0];
    GIVES(hipErrorInvalidDevice, H(hipModuleLaunchCooperativeKernelMultiDevice)(list, 2, 0)); /* a device once */
    GIVES(hipErrorInvalidValue, H(hipModuleLaunchCooperativeKernelMultiDevice)(list, 3, 0));
    /* a function is of one device */
    GIVES(hipErrorInvalidHandle, H(hipModuleLaunchKernel)(list[0].function, 1, 1, 1, 1, 1, 1, 0, streams[1], params[0], NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(axpy_gfx1100), cmocka_unit_test(axpy_gfx1151), cmocka_unit_test(axpy_gfx1201),
            cmocka_unit_test(axpy_gfx942),
        cmocka_unit_test(axpy_deterministic), cmocka_unit_test(a_target_without_code), cmocka_unit_test(modules),
        cmocka_unit_test(the_library_api), cmocka_unit_test(registration), cmocka_unit_test(dynamic_lds),
        cmocka_unit_test(refusals_say_the_limit), cmocka_unit_test(refused_shapes_6), cmocka_unit_test(refused_shapes_7),
            cmocka_unit_test(faults_surface_at_the_next_call),
        cmocka_unit_test(a_reset_device_is_in_order_again), cmocka_unit_test(occupancy),
        cmocka_unit_test(cooperative_launches_are_bounded), cmocka_unit_test(one_launch_on_several_devices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
