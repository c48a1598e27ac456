/* The calls to the host that the device libraries make: what kernels print, and their malloc. */
#include "kernels.h"

#include <fcntl.h>

static hipFunction_t printing(const char *kernel) {
    hipModule_t m;
    OK(H(hipModuleLoadData)(&m, read_file("printf.hipfb")));
    return get(m, kernel);
}

static void say(void) {
    int n = 5, *d, got[5];
    double x = 1.25;
    char path[] = "/tmp/ochre-printf-XXXXXX", text[4096];
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    unlink(path);
    OK(H(hipMalloc)((void **)&d, sizeof got));
    fflush(stdout);
    int before = dup(1);
    dup2(fd, 1);
    void *params[] = {&n, &x, &d};
    OK(H(hipModuleLaunchKernel)(printing("say"), 1, 1, 1, 5, 1, 1, 0, NULL, params, NULL));
    OK(H(hipMemcpy)(got, d, sizeof got, hipMemcpyDeviceToHost));
    fflush(stdout);
    dup2(before, 1);
    ssize_t bytes = pread(fd, text, sizeof text - 1, 0);
    CHECK(bytes > 0);
    text[bytes] = 0;
    size_t total = 0;
    for (int t = 0; t < 5; t++) {
        char line[256];
        if (t % 2) snprintf(line, sizeof line, "%3d of %d: %-6s|%6.2f|%c|%#x|%lld|%*d|%%\n", t, n, "odd", x * t, 'a' + t, 255,
                            -5000000000ll, 4, t);
        else snprintf(line, sizeof line, "even %s\n",
                      t ? "a string that is longer than one packet of seven words holds, so that it is split" : "");
        if (!strstr(text, line)) fprintf(stderr, "no \"%s\" in:\n%s", line, text);
        CHECK(strstr(text, line));
        CHECK(got[t] == (int)strlen(line)); /* what printf returns */
        total += strlen(line);
    }
    CHECK(total == (size_t)bytes);
}
TEST(say_gfx1030, "OCHRE_SIM_BOARD=gfx1030", NULL) { say(); }
TEST(say_gfx90a, "OCHRE_SIM_BOARD=gfx90a", NULL) { say(); }

static void complain(void) {
    OK(H(hipModuleLaunchKernel)(printing("complain"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, (void *[]){HIP_LAUNCH_PARAM_END}));
    GIVES(hipErrorLaunchFailure, H(hipDeviceSynchronize)());
}
static void an_assertion_is_printed_and_breaks_the_device(void **state) {
    (void)state;
    char text[8192];
    int status = in_process("OCHRE_SIM_BOARD=gfx90a", NULL, complain, text, sizeof text);
    if (status) fprintf(stderr, "%s", text);
    assert_int_equal(status, 0);
    assert_non_null(strstr(text, "kernel: assertion failed\n"));
    assert_non_null(strstr(text, "ochre-sim: complain"));
}

/* The other protocol: records in a buffer, formats in the code object's metadata. */
static void buffered(void) {
    char path[] = "/tmp/ochre-printf-XXXXXX", text[4096];
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    unlink(path);
    hipModule_t m;
    OK(H(hipModuleLoadData)(&m, read_file("printf_buffer.hsaco")));
    fflush(stdout);
    dup2(fd, 1);
    for (int i = 0; i < 2; i++) OK(H(hipModuleLaunchKernel)(get(m, "say"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    OK(H(hipDeviceSynchronize)());
    fflush(stdout);
    ssize_t bytes = pread(fd, text, sizeof text - 1, 0);
    CHECK(bytes > 0);
    text[bytes] = 0;
    if (strcmp(text, "42 and  2.5 say :hello:\n0x2a 42\n42 and  2.5 say :hello:\n0x2a 42\n") != 0) fprintf(stderr, "%s", text),
        _exit(2);
}
TEST(records_in_a_buffer, "", NULL) { buffered(); }

static void heap(void) {
    hipModule_t m;
    int *d, got[64];
    OK(H(hipModuleLoadData)(&m, read_file("heap.hipfb")));
    OK(H(hipMalloc)((void **)&d, sizeof got));
    void *params[] = {&d};
    for (int i = 0; i < 3; i++) {
        OK(H(hipMemset)(d, 0, sizeof got));
        OK(H(hipModuleLaunchKernel)(get(m, "use"), 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
        OK(H(hipMemcpy)(got, d, sizeof got, hipMemcpyDeviceToHost));
        for (int t = 0; t < 64; t++) CHECK(got[t] == t * 120 + 7);
    }
}
TEST(heap_gfx1030, "OCHRE_SIM_BOARD=gfx1030", NULL) { heap(); }
TEST(heap_gfx90a, "OCHRE_SIM_BOARD=gfx90a", NULL) { heap(); }

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(say_gfx1030), cmocka_unit_test(say_gfx90a),
                                       cmocka_unit_test(records_in_a_buffer), cmocka_unit_test(heap_gfx1030),
                                       cmocka_unit_test(heap_gfx90a),
                                       cmocka_unit_test(an_assertion_is_printed_and_breaks_the_device)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
