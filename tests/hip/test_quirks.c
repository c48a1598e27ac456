/* Each quirk of the field (sim/board/quirks.def) does what it says. */
#include "kernels.h"

static int attribute(hipDeviceAttribute_t a) {
    int v = -1;
    OK(H(hipDeviceGetAttribute)(&v, a, 0));
    return v;
}

TEST(no_pageable, "OCHRE_SIM_BOARD=gfx1100 OCHRE_SIM_QUIRKS=no_pageable", NULL) {
    CHECK(attribute(hipDeviceAttributeIntegrated) == 1 && attribute(hipDeviceAttributePageableMemoryAccess) == 0);
}

TEST(no_managed, "OCHRE_SIM_BOARD=gfx1151 OCHRE_SIM_QUIRKS=no_managed", NULL) {
    CHECK(attribute(hipDeviceAttributeIntegrated) == 1);
    CHECK(attribute(hipDeviceAttributeManagedMemory) == 0 && attribute(hipDeviceAttributeConcurrentManagedAccess) == 0);
    void *p;
    hipPointerAttribute_t a;
    OK(H(hipMallocManaged)(&p, 64, hipMemAttachGlobal));
    OK(H(hipPointerGetAttributes)(&a, p));
    CHECK(a.type == hipMemoryTypeHost && !a.isManaged);
}

TEST(carveout, "OCHRE_SIM_BOARD=gfx1151 OCHRE_SIM_QUIRKS=carveout=64M:256M", NULL) {
    hipDeviceProp_tR0600 p;
    size_t f, t;
    void *a;
    OK(H(hipGetDevicePropertiesR0600)(&p, 0));
    CHECK(p.totalGlobalMem == 64u << 20);
    OK(H(hipMemGetInfo)(&f, &t));
    CHECK(t == 320u << 20);
    OK(H(hipMalloc)(&a, 200u << 20)); /* more than the carve-out */
    GIVES(hipErrorOutOfMemory, H(hipMalloc)(&a, 200u << 20));
}

TEST(memory, "OCHRE_SIM_QUIRKS=memory=1000000", NULL) {
    void *a;
    OK(H(hipMalloc)(&a, 1000000));
    GIVES(hipErrorOutOfMemory, H(hipMalloc)(&a, 1));
}

static int load_code(const char *file) {
    hipModule_t m;
    return (int)H(hipModuleLoadData)(&m, read_file(file));
}
TEST(refuses_version_6, "OCHRE_SIM_QUIRKS=no_object=6", NULL) {
    GIVES(hipErrorInvalidImage, load_code("kernels6.hipfb"));
    OK(load_code("kernels.hipfb"));
}
TEST(refuses_version_5, "OCHRE_SIM_QUIRKS=no_object=5", NULL) {
    GIVES(hipErrorInvalidImage, load_code("kernels6.hipfb"));
    GIVES(hipErrorInvalidImage, load_code("kernels.hipfb"));
}
TEST(takes_both_versions, "", NULL) {
    OK(load_code("kernels6.hipfb"));
    OK(load_code("kernels.hipfb"));
}

TEST(fail_alloc, "OCHRE_SIM_QUIRKS=fail_alloc=3", NULL) {
    void *p;
    OK(H(hipMalloc)(&p, 4));
    OK(H(hipHostMalloc)(&p, 4, 0));
    GIVES(hipErrorOutOfMemory, H(hipMalloc)(&p, 4));
    OK(H(hipMalloc)(&p, 4));
}
TEST(fail_alloc_with_an_error, "OCHRE_SIM_QUIRKS=fail_alloc=1:999", NULL) {
    void *p;
    GIVES(999, H(hipMalloc)(&p, 4));
}

TEST(fail_alloc_with_a_named_error, "OCHRE_SIM_QUIRKS=fail_alloc=1:hipErrorIllegalAddress", NULL) {
    void *p;
    GIVES(hipErrorIllegalAddress, H(hipMalloc)(&p, 4));
}

TEST(fail_copy, "OCHRE_SIM_QUIRKS=fail_copy=2:700", NULL) {
    void *p;
    int v = 0;
    OK(H(hipMalloc)(&p, 4));
    OK(H(hipMemcpy)(p, &v, 4, hipMemcpyHostToDevice));
    GIVES(700, H(hipMemcpyAsync)(p, &v, 4, hipMemcpyHostToDevice, NULL));
    OK(H(hipMemcpy)(p, &v, 4, hipMemcpyHostToDevice));
}

TEST(fail_launch, "OCHRE_SIM_QUIRKS=fail_launch=2", NULL) {
    unsigned *d, v = 9;
    hipFunction_t f = get(load(), "count");
    OK(H(hipMalloc)((void **)&d, 4));
    OK(H(hipMemset)(d, 0, 4));
    void *params[] = {&d};
    OK(H(hipModuleLaunchKernel)(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    GIVES(hipErrorLaunchFailure, H(hipModuleLaunchKernel)(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    OK(H(hipModuleLaunchKernel)(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    OK(H(hipMemcpy)(&v, d, 4, hipMemcpyDeviceToHost));
    CHECK(v == 2);
}

TEST(lost_at, "OCHRE_SIM_QUIRKS=lost_at=2:710", NULL) {
    unsigned *d;
    hipFunction_t f = get(load(), "count");
    OK(H(hipMalloc)((void **)&d, 4));
    void *params[] = {&d};
    OK(H(hipModuleLaunchKernel)(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    OK(H(hipDeviceSynchronize)());
    OK(H(hipModuleLaunchKernel)(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    GIVES(710, H(hipDeviceSynchronize)());
    GIVES(710, H(hipMalloc)((void **)&d, 4));
    GIVES(710, H(hipStreamSynchronize)(NULL));
}

TEST(unknown_quirk, "OCHRE_SIM_QUIRKS=no_such", NULL) {
    int n;
    GIVES(hipErrorNotInitialized, H(hipGetDeviceCount)(&n));
}
TEST(quirk_without_its_value, "OCHRE_SIM_QUIRKS=fail_alloc", NULL) {
    int n;
    GIVES(hipErrorNotInitialized, H(hipGetDeviceCount)(&n));
}

/* Every setting is judged when the library starts, and by the function with which a launcher asks before. */
static void judged_body(void) {
    int n;
    char why[512] = "";
    typedef int judge(char *, size_t);
    judge *f = (judge *)(uintptr_t)hip_symbol("ochreSimJudge");
    CHECK(f(why, sizeof why) != 0 && f(NULL, 0) != 0);
    fprintf(stderr, "<%s>", why);
    GIVES(hipErrorNotInitialized, H(hipGetDeviceCount)(&n));
}
static void settings_are_judged(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"OCHRE_SIM_BOARD=gfx1100x4+gfx1", "<OCHRE_SIM_BOARD: no simulated board \"gfx1\"; known: gfx906, "},
        {"OCHRE_SIM_CHECK=race,rase", "<OCHRE_SIM_CHECK: \"rase\" is no check; known are barrier, weak, race, uninit, all>"},
        {"OCHRE_SIM_COUNT=txt", "<OCHRE_SIM_COUNT: \"txt\" is neither text nor json"},
        {"OCHRE_SIM_COUNT=/nonexistent/x", "<OCHRE_SIM_COUNT: cannot write /nonexistent/x: No such file"},
        {"OCHRE_SIM_QUIRKS=fail_alloc=1:hipErrorNone", "<OCHRE_SIM_QUIRKS: "},
        {"OCHRE_SIM_HIP_VERSION=9", "<OCHRE_SIM_HIP_VERSION: \"9\" is not 5.2, 6.3 or 7.2>"},
        {"OCHRE_SIM_CLOCK=sun", "<OCHRE_SIM_CLOCK: "}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char said[2048];
        assert_int_equal(in_process(rows[i][0], NULL, judged_body, said, sizeof said), 0);
        if (!strstr(said, rows[i][1])) fail_msg("%s: expected \"%s\" in: %s", rows[i][0], rows[i][1], said);
    }
}
TEST(good_settings, "OCHRE_SIM_BOARD=gfx1100x2 OCHRE_SIM_CHECK=all OCHRE_SIM_COUNT=json OCHRE_SIM_QUIRKS=memory=1G", NULL) {
    typedef int judge(char *, size_t);
    char why[512] = "x";
    CHECK(((judge *)(uintptr_t)hip_symbol("ochreSimJudge"))(why, sizeof why) == 0 && !*why);
}

/* ochre sim judges them before the program starts: exit status 2, and the option's name. */
static void options_are_judged(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"--board gfx1", "--board: no simulated board \"gfx1\"; known: gfx906"}, {"--check rase", "--check: \"rase\" is no check; known are "},
        {"--count txt", "--count: \"txt\" is neither"}, {"--count /nonexistent/x", "--count: cannot write /nonexistent/x"},
        {"--quirks nothing", "--quirks: no quirk \"nothing\"; known: no_pageable"}, {"--hip-version 9", "--hip-version: \"9\" is not 5.2"}};
    if (access(OCHRE_BUILD_DIR "/ochre", X_OK)) skip();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char command[1024], said[2048];
        snprintf(command, sizeof command, "%s/ochre sim %s -- echo started 2>&1", OCHRE_BUILD_DIR, rows[i][0]);
        FILE *f = popen(command, "r");
        assert_non_null(f);
        said[fread(said, 1, sizeof said - 1, f)] = 0;
        const int status = pclose(f);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 2 || strstr(said, "started") || !strstr(said, rows[i][1]))
            fail_msg("%s: status %d, expected 2 and \"%s\": %s", command, status, rows[i][1], said);
    }
}

/* exit() runs finalizers: with the quirk the process is still there after a while. */
static void finalizer_hangs(void **state) {
    (void)state;
    for (int hang = 0; hang < 2; hang++) {
        fflush(NULL);
        pid_t pid = fork();
        if (!pid) {
            for (int i = 1; i < 32; i++) signal(i, SIG_DFL);
            if (hang) setenv("OCHRE_SIM_QUIRKS", "finalizer_hangs", 1);
            hip_library = dlopen(OCHRE_BUILD_DIR "/sim/libamdhip64.so", RTLD_NOW);
            if (!hip_library || H(hipInit)(0)) _exit(9);
            exit(0);
        }
        int status = 0, waited = 0;
        while (!waited && status < (hang ? 400 : 12000)) { /* two seconds, and a minute for what should end */
            struct timespec t = {0, 5000000};
            nanosleep(&t, NULL);
            int s;
            if (waitpid(pid, &s, WNOHANG) == pid) waited = 1, assert_true(WIFEXITED(s) && !WEXITSTATUS(s));
            status++;
        }
        if (!waited) kill(pid, SIGKILL), waitpid(pid, NULL, 0);
        assert_int_equal(waited, !hang);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_pageable), cmocka_unit_test(no_managed), cmocka_unit_test(carveout), cmocka_unit_test(memory),
        cmocka_unit_test(refuses_version_6), cmocka_unit_test(refuses_version_5), cmocka_unit_test(takes_both_versions),
        cmocka_unit_test(fail_alloc), cmocka_unit_test(fail_alloc_with_an_error),
        cmocka_unit_test(fail_alloc_with_a_named_error), cmocka_unit_test(settings_are_judged), cmocka_unit_test(options_are_judged),
        cmocka_unit_test(good_settings),
        cmocka_unit_test(fail_copy),
        cmocka_unit_test(fail_launch), cmocka_unit_test(lost_at), cmocka_unit_test(unknown_quirk),
        cmocka_unit_test(quirk_without_its_value), cmocka_unit_test(finalizer_hangs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
