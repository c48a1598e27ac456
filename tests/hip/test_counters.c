/* ochreSimDeclare: the floor of a launch's traffic, in the counters' report. */
#include "kernels.h"

enum { N = 1 << 16, BYTES = N * 4 };

typedef struct buffers { float *x, *y; } buffers;

static buffers make(void) {
    buffers b;
    OK(H(hipMalloc)((void **)&b.x, BYTES));
    OK(H(hipMalloc)((void **)&b.y, BYTES));
    return b;
}

/* y += x: x and y are read, y is written; every line misses once, and the one that holds the arguments. */
static void axpy(buffers b, int expected) {
    float a = 1;
    int n = N;
    void *params[] = {&a, &b.x, &b.y, &n};
    unsigned threads = expected ? 2048 : 256;
    GIVES(expected, H(hipModuleLaunchKernel)(get(load(), "axpy"), N / 256, 1, 1, threads, 1, 1, 0, NULL, params, NULL));
    OK(H(hipDeviceSynchronize)());
}

static void nothing_is_declared_body(void) { axpy(make(), 0); }

static void all_is_declared_body(void) {
    buffers b = make();
    OK(H(ochreSimDeclare)(b.x, BYTES, SIM_DECLARE_READ));
    OK(H(ochreSimDeclare)(b.y, BYTES, SIM_DECLARE_READ | SIM_DECLARE_WRITTEN));
    axpy(b, 0);
}

static void half_is_declared_body(void) {
    buffers b = make();
    OK(H(ochreSimDeclare)(b.x + N / 2, BYTES / 2, SIM_DECLARE_READ));
    OK(H(ochreSimDeclare)(b.y, BYTES / 2, SIM_DECLARE_WRITTEN));
    axpy(b, 0);
}

static void one_launch_takes_it_body(void) {
    buffers b = make();
    OK(H(ochreSimDeclare)(b.x, 128, SIM_DECLARE_READ));
    axpy(b, hipErrorInvalidValue); /* a refused one too */
    axpy(b, 0);
}

static void a_node_keeps_it_body(void) {
    buffers b = make();
    float a = 1;
    int n = N;
    void *params[] = {&a, &b.x, &b.y, &n};
    hipKernelNodeParams k = {.func = get(load(), "axpy"), .gridDim = {N / 256, 1, 1}, .blockDim = {256, 1, 1},
                             .kernelParams = params};
    hipGraph_t g;
    hipGraphNode_t node;
    hipGraphExec_t exec;
    OK(H(hipGraphCreate)(&g, 0));
    OK(H(ochreSimDeclare)(b.x, BYTES, SIM_DECLARE_READ));
    OK(H(hipGraphAddKernelNode)(&node, g, NULL, 0, &k));
    OK(H(hipGraphInstantiate)(&exec, g, NULL, NULL, 0));
    for (int i = 0; i < 2; i++) OK(H(hipGraphLaunch)(exec, NULL));
    OK(H(hipDeviceSynchronize)());
}

static void refusals_body(void) {
    buffers b = make();
    GIVES(hipErrorInvalidValue, H(ochreSimDeclare)(b.x, 0, SIM_DECLARE_READ));
    GIVES(hipErrorInvalidValue, H(ochreSimDeclare)(b.x, BYTES, 0));
    GIVES(hipErrorInvalidValue, H(ochreSimDeclare)(b.x, BYTES, 4));
    GIVES(hipErrorInvalidValue, H(ochreSimDeclare)(NULL, 4, SIM_DECLARE_READ));
    GIVES(hipErrorInvalidValue, H(ochreSimDeclare)(b.x + 1, BYTES, SIM_DECLARE_READ));
    OK(H(hipFree)(b.x));
    GIVES(hipErrorInvalidValue, H(ochreSimDeclare)(b.x, BYTES, SIM_DECLARE_READ));
}

static char text[16384];
static int times(const char *what) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p++) n++;
    return n;
}
#define RUN(body, how)                                                                                                         \
    assert_int_equal(in_process("OCHRE_SIM_BOARD=gfx1100 OCHRE_SIM_COUNT=" how, NULL, body##_body, text, sizeof text), 0)

static void nothing_is_declared(void **state) {
    (void)state;
    RUN(nothing_is_declared, "text");
    assert_int_equal(times("DRAM bytes  read 524416  written 0 "), 1);
    assert_int_equal(times("arguments point into allocations of 524288 bytes   DRAM bytes over that 1.000\n"), 1);
    RUN(nothing_is_declared, "json");
    assert_int_equal(times("\"argument_bytes\": 524288, \"dram_over_arguments\": 1.0002,"), 1);
    assert_int_equal(times("floor"), 0);
}
static void all_is_declared(void **state) {
    (void)state;
    RUN(all_is_declared, "text");
    assert_int_equal(times("floor 524288 bytes  (declared: read 524288  written 262144)   DRAM bytes over it 1.000\n"), 1);
    RUN(all_is_declared, "json");
    assert_int_equal(times("\"floor_bytes\": 524288, \"floor_bytes_read\": 524288, \"floor_bytes_written\": 262144, "
                           "\"dram_over_floor\": 1.0002,"), 1);
    assert_int_equal(times("arguments"), 0);
}
static void half_is_declared(void **state) {
    (void)state;
    RUN(half_is_declared, "json");
    assert_int_equal(times("\"floor_bytes\": 262144, \"floor_bytes_read\": 131072, \"floor_bytes_written\": 131072, "
                           "\"dram_over_floor\": 2.0005,"), 1);
}
static void one_launch_takes_it(void **state) {
    (void)state;
    RUN(one_launch_takes_it, "text");
    assert_int_equal(times("declared"), 0);
    assert_int_equal(times("arguments point into"), 1);
}
static void a_node_keeps_it(void **state) {
    (void)state;
    RUN(a_node_keeps_it, "text");
    assert_int_equal(times("floor 262144 bytes"), 2);
}
static void refusals(void **state) {
    (void)state;
    RUN(refusals, "text");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_declared), cmocka_unit_test(all_is_declared),
                                       cmocka_unit_test(half_is_declared),    cmocka_unit_test(one_launch_takes_it),
                                       cmocka_unit_test(a_node_keeps_it),     cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
