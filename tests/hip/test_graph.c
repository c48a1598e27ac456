#include "kernels.h"

#include <pthread.h>

static void add_one(void *p) { ++*(int *)p; }
static void times_ten(void *p) { *(int *)p *= 10; }

TEST(a_captured_stream_runs_again_and_again, "", NULL) {
    hipStream_t s;
    hipGraph_t g;
    hipGraphExec_t x;
    unsigned *d, v;
    int calls = 0;
    hipFunction_t f = get(load(), "count");
    OK(H(hipMalloc)((void **)&d, 4));
    void *params[] = {&d};
    OK(H(hipStreamCreate)(&s));
    OK(H(hipStreamBeginCapture)(s, hipStreamCaptureModeGlobal));
    hipStreamCaptureStatus status;
    OK(H(hipStreamIsCapturing)(s, &status));
    CHECK(status == hipStreamCaptureStatusActive);
    OK(H(hipMemsetAsync)(d, 0, 4, s));
    OK(H(hipModuleLaunchKernel)(f, 2, 1, 1, 50, 1, 1, 0, s, params, NULL));
    OK(H(hipLaunchHostFunc)(s, add_one, &calls));
    OK(H(hipStreamEndCapture)(s, &g));
    CHECK(calls == 0);
    size_t n = 0, e = 0;
    OK(H(hipGraphGetNodes)(g, NULL, &n));
    OK(H(hipGraphGetEdges)(g, NULL, NULL, &e));
    CHECK(n == 3 && e == 2);
    hipGraphNode_t nodes[3];
    hipGraphNodeType t[3];
    OK(H(hipGraphGetNodes)(g, nodes, &n));
    for (int i = 0; i < 3; i++) OK(H(hipGraphNodeGetType)(nodes[i], &t[i]));
    CHECK(t[0] == hipGraphNodeTypeMemset && t[1] == hipGraphNodeTypeKernel && t[2] == hipGraphNodeTypeHost);
    OK(H(hipGraphInstantiate)(&x, g, NULL, NULL, 0));
    OK(H(hipGraphDestroy)(g)); /* what was instantiated lives on */
    for (int i = 0; i < 5; i++) {
        OK(H(hipGraphLaunch)(x, s));
        OK(H(hipStreamSynchronize)(s));
        OK(H(hipMemcpy)(&v, d, 4, hipMemcpyDeviceToHost));
        CHECK(v == 100 && calls == i + 1);
    }
    OK(H(hipGraphExecDestroy)(x));
    GIVES(hipErrorInvalidValue, H(hipGraphLaunch)(x, s));
}

TEST(a_capture_spreads_over_streams_by_events, "", NULL) {
    hipStream_t a, b;
    hipEvent_t fork_, join_;
    hipGraph_t g;
    int v = 1;
    OK(H(hipStreamCreate)(&a));
    OK(H(hipStreamCreate)(&b));
    OK(H(hipEventCreate)(&fork_));
    OK(H(hipEventCreate)(&join_));
    OK(H(hipStreamBeginCapture)(a, hipStreamCaptureModeThreadLocal));
    OK(H(hipLaunchHostFunc)(a, add_one, &v));
    OK(H(hipEventRecord)(fork_, a));
    GIVES(hipErrorStreamCaptureUnsupported, H(hipEventQuery)(fork_)); /* and this spoils the capture */
    GIVES(hipErrorStreamCaptureInvalidated, H(hipStreamEndCapture)(a, &g));
    CHECK(!g);
    OK(H(hipStreamBeginCapture)(a, hipStreamCaptureModeThreadLocal));
    OK(H(hipLaunchHostFunc)(a, add_one, &v));
    OK(H(hipEventRecord)(fork_, a));
    OK(H(hipStreamWaitEvent)(b, fork_, 0));
    OK(H(hipLaunchHostFunc)(b, times_ten, &v));
    hipStreamCaptureStatus status;
    OK(H(hipStreamIsCapturing)(b, &status));
    CHECK(status == hipStreamCaptureStatusActive);
    GIVES(hipErrorStreamCaptureUnmatched, H(hipStreamEndCapture)(b, &g));
    GIVES(hipErrorStreamCaptureInvalidated, H(hipStreamEndCapture)(a, &g));
    OK(H(hipStreamBeginCapture)(a, hipStreamCaptureModeThreadLocal));
    OK(H(hipLaunchHostFunc)(a, add_one, &v));
    OK(H(hipEventRecord)(fork_, a));
    OK(H(hipStreamWaitEvent)(b, fork_, 0));
    OK(H(hipLaunchHostFunc)(b, times_ten, &v));
    OK(H(hipEventRecord)(join_, b));
    OK(H(hipStreamWaitEvent)(a, join_, 0));
    OK(H(hipLaunchHostFunc)(a, add_one, &v));
    OK(H(hipStreamEndCapture)(a, &g));
    OK(H(hipStreamIsCapturing)(b, &status));
    CHECK(status == hipStreamCaptureStatusNone);
    hipGraphExec_t x;
    OK(H(hipGraphInstantiateWithFlags)(&x, g, 0));
    OK(H(hipGraphLaunch)(x, a));
    OK(H(hipStreamSynchronize)(a));
    CHECK(v == (1 + 1) * 10 + 1);
    /* work that does not come back */
    OK(H(hipStreamBeginCapture)(a, hipStreamCaptureModeRelaxed));
    OK(H(hipEventRecord)(fork_, a));
    OK(H(hipStreamWaitEvent)(b, fork_, 0));
    OK(H(hipLaunchHostFunc)(b, add_one, &v));
    GIVES(hipErrorStreamCaptureUnjoined, H(hipStreamEndCapture)(a, &g));
    CHECK(!g);
}

/* A forbidden call fails with HIP's error, and the capture fails with it. */
static hipStream_t stream;
static void begin(hipStreamCaptureMode mode) { OK(H(hipStreamBeginCapture)(stream, mode)); }
static void spoiled(void) {
    hipStreamCaptureStatus status;
    hipGraph_t g = (hipGraph_t)1;
    OK(H(hipStreamIsCapturing)(stream, &status));
    CHECK(status == hipStreamCaptureStatusInvalidated);
    int v = 0;
    GIVES(hipErrorStreamCaptureInvalidated, H(hipLaunchHostFunc)(stream, add_one, &v));
    GIVES(hipErrorStreamCaptureInvalidated, H(hipStreamEndCapture)(stream, &g));
    CHECK(!g);
    OK(H(hipLaunchHostFunc)(stream, add_one, &v)); /* the stream is usable again */
    OK(H(hipStreamSynchronize)(stream));
    CHECK(v == 1);
}
static void intact(void) {
    hipGraph_t g;
    OK(H(hipStreamEndCapture)(stream, &g));
    OK(H(hipGraphDestroy)(g));
}
static void *malloc_elsewhere(void *out) {
    void *p;
    *(hipError_t *)out = H(hipMalloc)(&p, 4);
    return NULL;
}
static hipError_t in_thread(void *(*fn)(void *)) {
    pthread_t t;
    hipError_t e = hipErrorUnknown;
    CHECK(!pthread_create(&t, NULL, fn, &e));
    pthread_join(t, NULL);
    return e;
}
static void *end_elsewhere(void *out) {
    hipGraph_t g;
    *(hipError_t *)out = H(hipStreamEndCapture)(stream, &g);
    return NULL;
}
TEST(forbidden_calls_poison_a_capture, "", NULL) {
    void *p, *q;
    OK(H(hipStreamCreate)(&stream));
    OK(H(hipMalloc)(&q, 64));
    begin(hipStreamCaptureModeGlobal);
    GIVES(hipErrorStreamCaptureUnsupported, H(hipMalloc)(&p, 4));
    spoiled();
    begin(hipStreamCaptureModeGlobal);
    GIVES(hipErrorStreamCaptureUnsupported, H(hipDeviceSynchronize)());
    spoiled();
    begin(hipStreamCaptureModeGlobal);
    GIVES(hipErrorStreamCaptureUnsupported, H(hipStreamSynchronize)(stream));
    spoiled();
    begin(hipStreamCaptureModeRelaxed);
    GIVES(hipErrorStreamCaptureImplicit, H(hipMemcpy)(q, &p, 8, hipMemcpyHostToDevice)); /* the null stream */
    spoiled();
    begin(hipStreamCaptureModeThreadLocal);
    GIVES(hipErrorStreamCaptureUnsupported, H(hipMallocManaged)(&p, 4, hipMemAttachGlobal));
    spoiled();
    /* modes: relaxed allows it, global forbids other threads too, thread-local does not */
    begin(hipStreamCaptureModeRelaxed);
    OK(H(hipMalloc)(&p, 4));
    intact();
    begin(hipStreamCaptureModeThreadLocal);
    OK(in_thread(malloc_elsewhere));
    intact();
    begin(hipStreamCaptureModeGlobal);
    GIVES(hipErrorStreamCaptureUnsupported, in_thread(malloc_elsewhere));
    spoiled();
    begin(hipStreamCaptureModeGlobal);
    hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
    OK(H(hipThreadExchangeStreamCaptureMode)(&mode));
    CHECK(mode == hipStreamCaptureModeGlobal);
    OK(H(hipMalloc)(&p, 4));
    OK(H(hipThreadExchangeStreamCaptureMode)(&mode));
    intact();
    begin(hipStreamCaptureModeGlobal);
    GIVES(hipErrorStreamCaptureWrongThread, in_thread(end_elsewhere));
    intact();
    begin(hipStreamCaptureModeGlobal);
    GIVES(hipErrorIllegalState, H(hipStreamBeginCapture)(stream, hipStreamCaptureModeGlobal));
    intact();
    GIVES(hipErrorStreamCaptureUnsupported, H(hipStreamBeginCapture)(NULL, hipStreamCaptureModeGlobal));
    hipGraph_t g;
    GIVES(hipErrorIllegalState, H(hipStreamEndCapture)(stream, &g));
    /* an event from outside, and two captures that meet */
    hipStream_t other;
    hipEvent_t e;
    OK(H(hipStreamCreateWithFlags)(&other, hipStreamNonBlocking));
    OK(H(hipEventCreate)(&e));
    OK(H(hipEventRecord)(e, other));
    begin(hipStreamCaptureModeRelaxed);
    GIVES(hipErrorStreamCaptureIsolation, H(hipStreamWaitEvent)(stream, e, 0));
    spoiled();
    begin(hipStreamCaptureModeRelaxed);
    OK(H(hipStreamBeginCapture)(other, hipStreamCaptureModeRelaxed));
    OK(H(hipEventRecord)(e, other));
    GIVES(hipErrorStreamCaptureMerge, H(hipStreamWaitEvent)(stream, e, 0));
    GIVES(hipErrorStreamCaptureInvalidated, H(hipStreamEndCapture)(other, &g));
    spoiled();
    GIVES(hipErrorCapturedEvent, H(hipEventSynchronize)(e));
}

TEST(graphs_by_hand, "", NULL) {
    enum { N = 64 };
    float x[N], y[N], *dx, *dy, a = 2;
    int n = N, done = 0;
    for (int i = 0; i < N; i++) x[i] = (float)i, y[i] = -1;
    OK(H(hipMalloc)((void **)&dx, sizeof x));
    OK(H(hipMalloc)((void **)&dy, sizeof y));
    hipGraph_t g, clone, child;
    hipGraphNode_t up, clear, run, down, tell, empty, sub, k2;
    OK(H(hipGraphCreate)(&g, 0));
    OK(H(hipGraphAddMemcpyNode1D)(&up, g, NULL, 0, dx, x, sizeof x, hipMemcpyHostToDevice));
    hipMemsetParams fill = {.dst = dy, .elementSize = 4, .width = N, .height = 1, .value = 0x3F800000}; /* 1.0f */
    OK(H(hipGraphAddMemsetNode)(&clear, g, NULL, 0, &fill));
    void *params[] = {&a, &dx, &dy, &n};
    hipKernelNodeParams k = {.func = get(load(), "axpy"), .gridDim = {1, 1, 1}, .blockDim = {N, 1, 1}, .kernelParams = params},
        kq;
    hipGraphNode_t both[] = {up, clear};
    OK(H(hipGraphAddKernelNode)(&run, g, both, 2, &k));
    OK(H(hipGraphAddMemcpyNode1D)(&down, g, &run, 1, y, dy, sizeof y, hipMemcpyDeviceToHost));
    hipHostNodeParams h = {add_one, &done};
    OK(H(hipGraphAddHostNode)(&tell, g, &down, 1, &h));
    OK(H(hipGraphAddEmptyNode)(&empty, g, &tell, 1));
    OK(H(hipGraphCreate)(&child, 0));
    OK(H(hipGraphAddHostNode)(&sub, child, NULL, 0, &h));
    OK(H(hipGraphAddChildGraphNode)(&sub, g, &empty, 1, child));
    OK(H(hipGraphDestroy)(child));
    OK(H(hipGraphKernelNodeGetParams)(run, &kq));
    CHECK(kq.func == k.func && kq.blockDim.x == N && *(float *)kq.kernelParams[0] == 2 && *(int *)kq.kernelParams[3] == N);
    hipGraphExec_t e;
    OK(H(hipGraphInstantiate)(&e, g, NULL, NULL, 0));
    OK(H(hipGraphLaunch)(e, NULL));
    OK(H(hipDeviceSynchronize)());
    CHECK(done == 2);
    for (int i = 0; i < N; i++) CHECK(y[i] == 1 + 2 * (float)i);
    /* other arguments in what is instantiated; the graph keeps its own */
    a = 5;
    OK(H(hipGraphExecKernelNodeSetParams)(e, run, &k));
    OK(H(hipGraphLaunch)(e, NULL));
    OK(H(hipDeviceSynchronize)());
    for (int i = 0; i < N; i++) CHECK(y[i] == 1 + 5 * (float)i);
    OK(H(hipGraphKernelNodeGetParams)(run, &kq));
    CHECK(*(float *)kq.kernelParams[0] == 2);
    /* disabled: nothing is added */
    OK(H(hipGraphNodeSetEnabled)(e, run, 0));
    OK(H(hipGraphLaunch)(e, NULL));
    OK(H(hipDeviceSynchronize)());
    for (int i = 0; i < N; i++) CHECK(y[i] == 1);
    OK(H(hipGraphNodeSetEnabled)(e, run, 1));
    /* update from a clone with other parameters; then with another shape */
    OK(H(hipGraphClone)(&clone, g));
    OK(H(hipGraphNodeFindInClone)(&k2, run, clone));
    a = 7;
    OK(H(hipGraphKernelNodeSetParams)(k2, &k));
    hipGraphNode_t bad;
    hipGraphExecUpdateResult result;
    OK(H(hipGraphExecUpdate)(e, clone, &bad, &result));
    CHECK(result == hipGraphExecUpdateSuccess);
    OK(H(hipGraphLaunch)(e, NULL));
    OK(H(hipDeviceSynchronize)());
    for (int i = 0; i < N; i++) CHECK(y[i] == 1 + 7 * (float)i);
    OK(H(hipGraphAddEmptyNode)(&empty, clone, NULL, 0));
    GIVES(hipErrorGraphExecUpdateFailure, H(hipGraphExecUpdate)(e, clone, &bad, &result));
    CHECK(result == hipGraphExecUpdateErrorTopologyChanged);
    /* edges; a cycle is refused */
    GIVES(hipErrorInvalidValue, H(hipGraphAddDependencies)(g, &up, &run, 1)); /* there already */
    OK(H(hipGraphAddDependencies)(g, &tell, &up, 1));
    hipGraphExec_t never;
    GIVES(hipErrorInvalidValue, H(hipGraphInstantiate)(&never, g, NULL, NULL, 0));
    OK(H(hipGraphRemoveDependencies)(g, &tell, &up, 1));
    size_t n_roots = 0;
    OK(H(hipGraphGetRootNodes)(g, NULL, &n_roots));
    CHECK(n_roots == 2);
    OK(H(hipGraphDestroyNode)(clear));
    OK(H(hipGraphGetRootNodes)(g, NULL, &n_roots));
    CHECK(n_roots == 1);
    GIVES(hipErrorInvalidValue, H(hipGraphDestroyNode)(clear));
    OK(H(hipGraphExecDestroy)(e));
    OK(H(hipGraphDestroy)(g));
    OK(H(hipGraphDestroy)(clone));
    GIVES(hipErrorInvalidValue, H(hipGraphDestroy)(g));
}

TEST(events_in_graphs, "", NULL) {
    hipGraph_t g;
    hipGraphNode_t first, record;
    hipGraphExec_t e;
    hipEvent_t ev;
    hipStream_t a, b;
    int v = 0;
    OK(H(hipStreamCreateWithFlags)(&a, hipStreamNonBlocking));
    OK(H(hipStreamCreateWithFlags)(&b, hipStreamNonBlocking));
    OK(H(hipEventCreate)(&ev));
    OK(H(hipGraphCreate)(&g, 0));
    hipHostNodeParams h = {add_one, &v};
    OK(H(hipGraphAddHostNode)(&first, g, NULL, 0, &h));
    OK(H(hipGraphAddEventRecordNode)(&record, g, &first, 1, ev));
    OK(H(hipGraphInstantiate)(&e, g, NULL, NULL, 0));
    OK(H(hipGraphLaunch)(e, a));
    OK(H(hipStreamWaitEvent)(b, ev, 0));
    OK(H(hipLaunchHostFunc)(b, times_ten, &v));
    OK(H(hipStreamSynchronize)(b));
    CHECK(v == 10);
    hipEvent_t q;
    OK(H(hipGraphEventRecordNodeGetEvent)(record, &q));
    CHECK(q == ev);
}

TEST(memory_of_graphs, "", NULL) {
    hipGraph_t g;
    hipGraphNode_t alloc, fill, release;
    hipGraphExec_t e;
    OK(H(hipGraphCreate)(&g, 0));
    hipMemAllocNodeParams p = {.poolProps = {.allocType = hipMemAllocationTypePinned, .location = {hipMemLocationTypeDevice,
            0}}, .bytesize = 256};
    OK(H(hipGraphAddMemAllocNode)(&alloc, g, NULL, 0, &p));
    CHECK(p.dptr);
    hipMemsetParams m = {.dst = p.dptr, .elementSize = 1, .width = 256, .height = 1, .value = 9};
    OK(H(hipGraphAddMemsetNode)(&fill, g, &alloc, 1, &m));
    OK(H(hipGraphInstantiate)(&e, g, NULL, NULL, 0));
    OK(H(hipGraphLaunch)(e, NULL));
    unsigned char got[256];
    OK(H(hipMemcpy)(got, p.dptr, 256, hipMemcpyDeviceToHost));
    CHECK(got[0] == 9 && got[255] == 9);
    GIVES(hipErrorInvalidValue, H(hipGraphLaunch)(e, NULL)); /* not freed since */
    OK(H(hipFree)(p.dptr));
    OK(H(hipGraphLaunch)(e, NULL));
    OK(H(hipFreeAsync)(p.dptr, NULL));
    OK(H(hipGraphAddMemFreeNode)(&release, g, &fill, 1, p.dptr));
    OK(H(hipGraphExecDestroy)(e));
    OK(H(hipGraphInstantiate)(&e, g, NULL, NULL, 0));
    for (int i = 0; i < 3; i++) OK(H(hipGraphLaunch)(e, NULL));
    OK(H(hipDeviceSynchronize)());
    /* captured allocations are the same */
    hipStream_t s;
    void *q;
    hipGraph_t g2;
    OK(H(hipStreamCreate)(&s));
    OK(H(hipStreamBeginCapture)(s, hipStreamCaptureModeGlobal));
    OK(H(hipMallocAsync)(&q, 64, s));
    OK(H(hipMemsetAsync)(q, 1, 64, s));
    OK(H(hipFreeAsync)(q, s));
    OK(H(hipStreamEndCapture)(s, &g2));
    size_t n;
    OK(H(hipGraphGetNodes)(g2, NULL, &n));
    CHECK(n == 3);
    OK(H(hipGraphInstantiate)(&e, g2, NULL, NULL, 0));
    OK(H(hipGraphLaunch)(e, s));
    OK(H(hipStreamSynchronize)(s));
}

static void node_types(int kernel, int fill, int empty) {
    hipGraph_t g;
    hipGraphNode_t n;
    hipGraphNodeType t;
    void *d;
    int v = 0;
    OK(H(hipMalloc)(&d, 64));
    OK(H(hipGraphCreate)(&g, 0));
    OK(H(hipGraphAddEmptyNode)(&n, g, NULL, 0));
    OK(H(hipGraphNodeGetType)(n, &t));
    CHECK((int)t == empty);
    void *params[] = {&d};
    hipKernelNodeParams k = {.func = get(load(), "count"), .gridDim = {1, 1, 1}, .blockDim = {1, 1, 1}, .kernelParams = params};
    OK(H(hipGraphAddKernelNode)(&n, g, NULL, 0, &k));
    OK(H(hipGraphNodeGetType)(n, &t));
    CHECK((int)t == kernel);
    hipMemsetParams old = {.dst = d, .elementSize = 4, .height = 1, .pitch = 64, .value = 3, .width = 4};
    hipMemsetParams_7 now = {.dst = d, .pitch = 64, .value = 3, .elementSize = 4, .width = 4, .height = 1};
    OK(H(hipGraphAddMemsetNode)(&n, g, NULL, 0, fill == 2 && v == 0 && getenv("SEVEN") ? (void *)&now : (void *)&old));
    OK(H(hipGraphNodeGetType)(n, &t));
    CHECK((int)t == fill);
    hipMemsetParams got;
    OK(H(hipGraphMemsetNodeGetParams)(n, &got));
    CHECK(!memcmp(&got, getenv("SEVEN") ? (void *)&now : (void *)&old, 8) && got.dst == d);
    if (getenv("SEVEN")) CHECK(((hipMemsetParams_7 *)&got)->width == 4 && ((hipMemsetParams_7 *)&got)->elementSize == 4);
    else CHECK(got.width == 4 && got.elementSize == 4);
}
TEST(node_types_were_renumbered_5, "OCHRE_SIM_HIP_VERSION=5.2", NULL) { node_types(1, 3, 6); }
TEST(node_types_were_renumbered_6, "OCHRE_SIM_HIP_VERSION=6.3", NULL) { node_types(0, 2, 5); }
TEST(fill_parameters_were_reordered_7, "OCHRE_SIM_HIP_VERSION=7.2 SEVEN=1", NULL) { node_types(0, 2, 5); }

TEST(user_objects_live_with_their_graphs, "", NULL) {
    int destroyed = 0;
    hipUserObject_t o;
    hipGraph_t g;
    hipGraphExec_t e;
    hipGraphNode_t n;
    OK(H(hipGraphCreate)(&g, 0));
    OK(H(hipGraphAddEmptyNode)(&n, g, NULL, 0));
    OK(H(hipUserObjectCreate)(&o, &destroyed, add_one, 1, 1));
    OK(H(hipGraphRetainUserObject)(g, o, 1, 1 /* moves the caller's reference */));
    OK(H(hipGraphInstantiate)(&e, g, NULL, NULL, 0));
    OK(H(hipGraphDestroy)(g));
    CHECK(destroyed == 0);
    OK(H(hipGraphExecDestroy)(e));
    CHECK(destroyed == 1);
    GIVES(hipErrorInvalidValue, H(hipUserObjectRelease)(o, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_captured_stream_runs_again_and_again), cmocka_unit_test(a_capture_spreads_over_streams_by_events),
        cmocka_unit_test(forbidden_calls_poison_a_capture), cmocka_unit_test(graphs_by_hand),
            cmocka_unit_test(events_in_graphs),
        cmocka_unit_test(memory_of_graphs), cmocka_unit_test(node_types_were_renumbered_5),
        cmocka_unit_test(node_types_were_renumbered_6), cmocka_unit_test(fill_parameters_were_reordered_7),
        cmocka_unit_test(user_objects_live_with_their_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
