#include "support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static void nap_ms(int ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}
/* Goes on when it is let, which is after the host has looked. */
static _Atomic int let = 1;
static void slow(void *flag) {
    nap_ms(60);
    for (int i = 0; i < 30000 && !atomic_load(&let); i++) nap_ms(1);
    atomic_store((_Atomic int *)flag, 1);
}
typedef struct seen { _Atomic int *flag; int value; } seen;
static void look(void *p) { ((seen *)p)->value = atomic_load(((seen *)p)->flag); }

TEST(a_stream_keeps_its_order_and_the_host_goes_on, "", NULL) {
    hipStream_t s;
    _Atomic int flag = 0;
    seen after = {&flag, -1};
    OK(H(hipStreamCreate)(&s));
    OK(H(hipStreamQuery)(s));
    atomic_store(&let, 0);
    OK(H(hipLaunchHostFunc)(s, slow, (void *)&flag));
    OK(H(hipLaunchHostFunc)(s, look, &after));
    GIVES(hipErrorNotReady, H(hipStreamQuery)(s));
    CHECK(atomic_load(&flag) == 0);
    atomic_store(&let, 1);
    OK(H(hipStreamSynchronize)(s));
    OK(H(hipStreamQuery)(s));
    CHECK(after.value == 1);
    OK(H(hipStreamDestroy)(s));
    GIVES(hipErrorContextIsDestroyed, H(hipStreamSynchronize)(s));
}

/* Whether work given to `second` waits for work given to `first` before it: that of `first` gives the other a second. */
typedef struct pair { _Atomic int ended; _Atomic int value; } pair;
static void slow_of_pair(void *p) {
    for (int i = 0; i < 1000 && atomic_load(&((pair *)p)->value) < 0; i++) nap_ms(1);
    atomic_store(&((pair *)p)->ended, 1);
}
static void look_of_pair(void *p) { atomic_store(&((pair *)p)->value, atomic_load(&((pair *)p)->ended)); }
static int waits(hipStream_t first, hipStream_t second) {
    pair p = {0, -1};
    OK(H(hipLaunchHostFunc)(first, slow_of_pair, &p));
    OK(H(hipLaunchHostFunc)(second, look_of_pair, &p));
    OK(H(hipDeviceSynchronize)());
    return atomic_load(&p.value);
}

TEST(the_null_stream_and_blocking_streams_wait_for_each_other, "", NULL) {
    hipStream_t a, b, free_;
    OK(H(hipStreamCreate)(&a));
    OK(H(hipStreamCreate)(&b));
    OK(H(hipStreamCreateWithFlags)(&free_, hipStreamNonBlocking));
    CHECK(waits(a, NULL) == 1);
    CHECK(waits(NULL, a) == 1);
    CHECK(waits(a, b) == 0);
    CHECK(waits(free_, NULL) == 0);
    CHECK(waits(NULL, free_) == 0);
    CHECK(waits(hipStreamPerThread, NULL) == 1);
    CHECK(waits(a, hipStreamPerThread) == 0);
}

TEST(spt_calls_use_the_threads_own_stream, "", NULL) {
    _Atomic int flag = 0;
    seen after = {&flag, -1};
    OK(H(hipLaunchHostFunc_spt)(NULL, slow, (void *)&flag));
    OK(H(hipLaunchHostFunc)(hipStreamPerThread, look, &after));
    OK(H(hipStreamSynchronize_spt)(NULL));
    CHECK(after.value == 1);
}

TEST(events_order_streams_and_tell_time, "", NULL) {
    hipStream_t a, b;
    hipEvent_t e, start;
    float ms = -1;
    _Atomic int flag = 0;
    seen after = {&flag, -1};
    OK(H(hipStreamCreateWithFlags)(&a, hipStreamNonBlocking));
    OK(H(hipStreamCreateWithFlags)(&b, hipStreamNonBlocking));
    OK(H(hipEventCreate)(&e));
    OK(H(hipEventCreate)(&start));
    OK(H(hipEventQuery)(e)); /* never recorded */
    GIVES(hipErrorInvalidHandle, H(hipEventElapsedTime)(&ms, start, e));
    OK(H(hipEventRecord)(start, a));
    atomic_store(&let, 0);
    OK(H(hipLaunchHostFunc)(a, slow, (void *)&flag));
    OK(H(hipEventRecord)(e, a));
    GIVES(hipErrorNotReady, H(hipEventQuery)(e));
    GIVES(hipErrorNotReady, H(hipEventElapsedTime)(&ms, start, e));
    OK(H(hipStreamWaitEvent)(b, e, 0));
    OK(H(hipLaunchHostFunc)(b, look, &after));
    atomic_store(&let, 1);
    OK(H(hipStreamSynchronize)(b));
    CHECK(after.value == 1);
    OK(H(hipEventSynchronize)(e));
    OK(H(hipEventElapsedTime)(&ms, start, e));
    CHECK(ms >= 59 && ms < 60000);
    hipEvent_t untimed;
    OK(H(hipEventCreateWithFlags)(&untimed, hipEventDisableTiming));
    OK(H(hipEventRecord)(untimed, a));
    OK(H(hipEventSynchronize)(untimed));
    GIVES(hipErrorInvalidHandle, H(hipEventElapsedTime)(&ms, start, untimed));
    OK(H(hipEventDestroy)(e));
    GIVES(hipErrorInvalidHandle, H(hipEventQuery)(e));
    GIVES(hipErrorInvalidValue, H(hipEventCreateWithFlags)(&e, 0x123450));
}

static void callback(hipStream_t stream, hipError_t status, void *user) {
    (void)stream;
    *(int *)user = 100 + (int)status;
}

TEST(callbacks_priorities_flags, "", NULL) {
    hipStream_t s;
    int low, high, got = 0, p;
    unsigned flags;
    OK(H(hipDeviceGetStreamPriorityRange)(&low, &high));
    CHECK(high < low);
    OK(H(hipStreamCreateWithPriority)(&s, hipStreamNonBlocking, high - 5));
    OK(H(hipStreamGetPriority)(s, &p));
    CHECK(p == high);
    OK(H(hipStreamGetFlags)(s, &flags));
    CHECK(flags == hipStreamNonBlocking);
    OK(H(hipStreamAddCallback)(s, callback, &got, 0));
    OK(H(hipStreamSynchronize)(s));
    CHECK(got == 100);
    GIVES(hipErrorInvalidValue, H(hipStreamAddCallback)(s, NULL, &got, 0));
    GIVES(hipErrorInvalidHandle, H(hipStreamDestroy)(NULL));
}

TEST(values_are_waited_for_and_written, "", NULL) {
    hipStream_t a, b;
    uint32_t *v;
    OK(H(hipStreamCreateWithFlags)(&a, hipStreamNonBlocking));
    OK(H(hipStreamCreateWithFlags)(&b, hipStreamNonBlocking));
    OK(H(hipHostMalloc)((void **)&v, 64, 0));
    memset(v, 0, 64);
    OK(H(hipStreamWaitValue32)(a, v, 0xF0, hipStreamWaitValueAnd, 0xFF));
    OK(H(hipStreamWriteValue64)(a, v + 2, 77, 0));
    nap_ms(30);
    GIVES(hipErrorNotReady, H(hipStreamQuery)(a));
    OK(H(hipStreamWriteValue32)(b, v, 0xF00, 0)); /* masked out */
    OK(H(hipStreamSynchronize)(b));
    nap_ms(30);
    GIVES(hipErrorNotReady, H(hipStreamQuery)(a));
    OK(H(hipStreamWriteValue32)(b, v, 0x10, 0));
    OK(H(hipStreamSynchronize)(a));
    CHECK(v[2] == 77);
    GIVES(hipErrorInvalidValue, H(hipStreamWaitValue32)(a, v, 0, 9, ~0u));
}

static void *worker(void *arg) {
    (void)arg;
    for (int i = 0; i < 30; i++) {
        hipStream_t s;
        hipEvent_t e;
        void *d;
        int v = i, w = -1;
        OK(H(hipStreamCreate)(&s));
        OK(H(hipEventCreate)(&e));
        OK(H(hipMalloc)(&d, 4));
        OK(H(hipMemcpyAsync)(d, &v, 4, hipMemcpyHostToDevice, s));
        OK(H(hipEventRecord)(e, s));
        OK(H(hipStreamWaitEvent)(hipStreamPerThread, e, 0));
        OK(H(hipMemcpyAsync)(&w, d, 4, hipMemcpyDeviceToHost, hipStreamPerThread));
        OK(H(hipStreamSynchronize)(hipStreamPerThread));
        CHECK(w == v);
        OK(H(hipFree)(d));
        OK(H(hipEventDestroy)(e));
        OK(H(hipStreamDestroy)(s));
    }
    return NULL;
}

TEST(threads_share_a_device, "", NULL) {
    pthread_t t[6];
    for (int i = 0; i < 6; i++) CHECK(!pthread_create(&t[i], NULL, worker, NULL));
    for (int i = 0; i < 6; i++) pthread_join(t[i], NULL);
    OK(H(hipDeviceSynchronize)());
}

TEST(one_order_when_deterministic, "OCHRE_SIM_DETERMINISTIC=1", NULL) {
    hipStream_t s;
    _Atomic int flag = 0;
    OK(H(hipStreamCreate)(&s));
    OK(H(hipLaunchHostFunc)(s, slow, (void *)&flag));
    CHECK(atomic_load(&flag) == 1); /* run where it was queued */
    OK(H(hipStreamQuery)(s));
}

TEST(a_counting_clock, "OCHRE_SIM_CLOCK=count", NULL) {
    hipEvent_t a, b;
    void *d;
    float ms;
    OK(H(hipEventCreate)(&a));
    OK(H(hipEventCreate)(&b));
    OK(H(hipMalloc)(&d, 1600000));
    OK(H(hipEventRecord)(a, NULL));
    OK(H(hipMemsetAsync)(d, 0, 1600000, NULL));
    OK(H(hipEventRecord)(b, NULL));
    OK(H(hipEventSynchronize)(b));
    OK(H(hipEventElapsedTime)(&ms, a, b));
    CHECK(fabsf(ms - 0.1f) < 1e-6f); /* 16 bytes a tick, 1 ns a tick */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_keeps_its_order_and_the_host_goes_on),
        cmocka_unit_test(the_null_stream_and_blocking_streams_wait_for_each_other),
        cmocka_unit_test(spt_calls_use_the_threads_own_stream), cmocka_unit_test(events_order_streams_and_tell_time),
        cmocka_unit_test(callbacks_priorities_flags), cmocka_unit_test(values_are_waited_for_and_written),
        cmocka_unit_test(threads_share_a_device), cmocka_unit_test(one_order_when_deterministic),
            cmocka_unit_test(a_counting_clock)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
