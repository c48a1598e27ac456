#include "support.h"

TEST(copies_in_every_direction, "", NULL) {
    unsigned char in[300], out[300];
    for (int i = 0; i < 300; i++) in[i] = (unsigned char)(i * 7);
    void *a, *b;
    OK(H(hipMalloc)(&a, 300));
    OK(H(hipMalloc)(&b, 300));
    OK(H(hipMemcpy)(a, in, 300, hipMemcpyHostToDevice));
    OK(H(hipMemcpy)(b, a, 300, hipMemcpyDeviceToDevice));
    OK(H(hipMemcpy)(out, b, 300, hipMemcpyDeviceToHost));
    CHECK(!memcmp(in, out, 300));
    memset(out, 0, 300);
    OK(H(hipMemcpy)(out, (char *)b + 10, 100, hipMemcpyDefault));
    CHECK(!memcmp(in + 10, out, 100));
    OK(H(hipMemcpy)(out, in, 300, hipMemcpyHostToHost));
    CHECK(!memcmp(in, out, 300));
    OK(H(hipMemcpyHtoD)(a, in, 5));
    OK(H(hipMemcpyDtoD)(b, a, 5));
    OK(H(hipMemcpyDtoH)(out, b, 5));
    CHECK(!memcmp(in, out, 5));
    GIVES(hipErrorInvalidMemcpyDirection, H(hipMemcpy)(out, in, 3, (hipMemcpyKind)77));
    GIVES(hipErrorInvalidValue, H(hipMemcpy)(out, in, 3, hipMemcpyHostToDevice)); /* neither is HIP's */
    GIVES(hipErrorInvalidValue, H(hipMemcpy)(out, a, 301, hipMemcpyDeviceToHost)); /* past the allocation */
    GIVES(hipErrorInvalidValue, H(hipMemcpy)(NULL, a, 3, hipMemcpyDeviceToHost));
    OK(H(hipMemcpy)(out, a, 0, hipMemcpyDeviceToHost));
    OK(H(hipFree)(a));
    GIVES(hipErrorInvalidValue, H(hipMemcpy)(out, a, 3, hipMemcpyDeviceToHost)); /* freed */
    GIVES(hipErrorInvalidValue, H(hipFree)(a));
    GIVES(hipErrorInvalidValue, H(hipFree)((char *)b + 4));
    OK(H(hipFree)(NULL));
    OK(H(hipFree)(b));
}

/* Addresses that allocations have, but none now: beside one, before the first, in a hole left by one. And memory of the
 * host's that was HIP's for a while. */
TEST(addresses_of_no_allocation, "", NULL) {
    static unsigned char host[64], was_registered[4096];
    void *a, *pinned;
    OK(H(hipMalloc)(&a, 4096));
    OK(H(hipHostMalloc)(&pinned, 4096, 0));
    void *bad[] = {(char *)a + 4096, (char *)a + 8000, (char *)a - 64, (char *)a + (1ull << 30), (char *)pinned + 4096,
                   (char *)pinned + (1ull << 30)};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        GIVES(hipErrorInvalidValue, H(hipMemcpy)(host, bad[i], 1, hipMemcpyDeviceToHost));
        GIVES(hipErrorInvalidValue, H(hipMemcpy)(host, bad[i], 1, hipMemcpyDefault));
        GIVES(hipErrorInvalidValue, H(hipMemcpy)(bad[i], host, 1, hipMemcpyHostToDevice));
        GIVES(hipErrorInvalidValue, H(hipMemcpy)(a, bad[i], 1, hipMemcpyDeviceToDevice));
        GIVES(hipErrorInvalidValue, H(hipMemcpy2D)(host, 8, bad[i], 8, 8, 2, hipMemcpyDeviceToHost));
        GIVES(hipErrorInvalidValue, H(hipMemset)(bad[i], 0, 1));
    }
    OK(H(hipHostRegister)(was_registered, sizeof was_registered, 0));
    OK(H(hipHostUnregister)(was_registered));
    was_registered[7] = 9;
    OK(H(hipMemcpy)(a, was_registered, 64, hipMemcpyHostToDevice));
    OK(H(hipMemcpy)(host, a, 64, hipMemcpyDeviceToHost));
    CHECK(host[7] == 9);
}

TEST(rectangles, "", NULL) {
    unsigned char host[8 * 16], back[8 * 16];
    for (int i = 0; i < 128; i++) host[i] = (unsigned char)i;
    void *d;
    size_t pitch;
    OK(H(hipMallocPitch)(&d, &pitch, 10, 5));
    CHECK(pitch >= 10 && pitch % 256 == 0);
    OK(H(hipMemset2D)(d, pitch, 0xEE, 10, 5));
    OK(H(hipMemcpy2D)(d, pitch, host, 16, 10, 5, hipMemcpyHostToDevice));
    memset(back, 0, sizeof back);
    OK(H(hipMemcpy2D)(back, 16, d, pitch, 10, 5, hipMemcpyDeviceToHost));
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 16; x++) CHECK(back[y * 16 + x] == (y < 5 && x < 10 ? host[y * 16 + x] : 0));
    GIVES(hipErrorInvalidPitchValue, H(hipMemcpy2D)(back, 9, d, pitch, 10, 5, hipMemcpyDeviceToHost));
    OK(H(hipFree)(d));
    /* a box of 3 slices out of a larger one */
    hipPitchedPtr p;
    OK(H(hipMalloc3D)(&p, (hipExtent){12, 4, 5}));
    CHECK(p.xsize == 12 && p.ysize == 4);
    OK(H(hipMemset3D)(p, 0, (hipExtent){12, 4, 5}));
    unsigned char box[3 * 2 * 6], got[5 * 4 * 12];
    for (size_t i = 0; i < sizeof box; i++) box[i] = (unsigned char)(i + 1);
    hipMemcpy3DParms c = {.srcPtr = {box, 6, 6, 2}, .dstPtr = p, .dstPos = {3, 1, 2}, .extent = {6, 2, 3},
                          .kind = hipMemcpyHostToDevice};
    OK(H(hipMemcpy3D)(&c));
    hipMemcpy3DParms r = {.srcPtr = p, .dstPtr = {got, 12, 12, 4}, .extent = {12, 4, 5}, .kind = hipMemcpyDeviceToHost};
    OK(H(hipMemcpy3D)(&r));
    for (int z = 0; z < 5; z++)
        for (int y = 0; y < 4; y++)
            for (int x = 0; x < 12; x++) {
                bool in = z >= 2 && y >= 1 && y < 3 && x >= 3 && x < 9;
                CHECK(got[(z * 4 + y) * 12 + x] == (in ? box[((z - 2) * 2 + y - 1) * 6 + x - 3] : 0));
            }
}

TEST(fills, "", NULL) {
    void *d;
    OK(H(hipMalloc)(&d, 64));
    unsigned char b[64];
    OK(H(hipMemset)(d, 0x1AB, 64)); /* one byte of it */
    OK(H(hipMemsetD16)((char *)d + 2, 0xBEEF, 3));
    OK(H(hipMemsetD32)((char *)d + 8, 0x12345678, 2));
    OK(H(hipMemcpy)(b, d, 64, hipMemcpyDeviceToHost));
    CHECK(b[0] == 0xAB && b[63] == 0xAB && b[2] == 0xEF && b[3] == 0xBE && b[7] == 0xBE && b[8] == 0x78 && b[15] == 0x12 &&
          b[16] == 0xAB);
    GIVES(hipErrorInvalidValue, H(hipMemset)(d, 0, 65));
    GIVES(hipErrorInvalidValue, H(hipMemset)(b, 0, 4)); /* memory that HIP does not know */
    GIVES(hipErrorInvalidValue, H(hipMemsetD32)((char *)d + 2, 0, 1));
}

static void check_types(int host, int device, bool unregistered_ok) {
    void *d, *h;
    hipPointerAttribute_t a;
    int local;
    OK(H(hipMalloc)(&d, 100));
    OK(H(hipHostMalloc)(&h, 100, hipHostMallocMapped));
    OK(H(hipPointerGetAttributes)(&a, (char *)d + 50));
    CHECK((int)a.type == device && a.device == 0 && a.devicePointer == (char *)d + 50 && !a.hostPointer && !a.isManaged);
    OK(H(hipPointerGetAttributes)(&a, h));
    CHECK((int)a.type == host && a.hostPointer == h && a.devicePointer == h && a.allocationFlags == hipHostMallocMapped);
    GIVES(unregistered_ok ? hipSuccess : hipErrorInvalidValue, H(hipPointerGetAttributes)(&a, &local));
    if (unregistered_ok) CHECK(a.type == hipMemoryTypeUnregistered);
    void *base;
    size_t size;
    OK(H(hipMemGetAddressRange)(&base, &size, (char *)d + 99));
    CHECK(base == d && size == 100);
    GIVES(hipErrorNotFound, H(hipMemGetAddressRange)(&base, &size, &local));
    uint64_t range = 0;
    OK(H(hipPointerGetAttribute)(&range, HIP_POINTER_ATTRIBUTE_RANGE_SIZE, (char *)d + 1));
    CHECK(range == 100);
}
TEST(memory_types_were_renumbered_5, "OCHRE_SIM_HIP_VERSION=5.2", NULL) { check_types(0, 1, false); }
TEST(memory_types_were_renumbered_6, "OCHRE_SIM_HIP_VERSION=6.3", NULL) { check_types(1, 2, true); }

TEST(host_memory, "", NULL) {
    void *h, *dev;
    unsigned flags;
    OK(H(hipHostMalloc)(&h, 4096, hipHostMallocPortable));
    memset(h, 3, 4096);
    OK(H(hipHostGetDevicePointer)(&dev, h, 0));
    OK(H(hipHostGetFlags)(&flags, h));
    CHECK(flags == hipHostMallocPortable);
    OK(H(hipHostFree)(h));
    GIVES(hipErrorInvalidValue, H(hipHostFree)(h));
    GIVES(hipErrorInvalidValue, H(hipHostMalloc)(&h, 64, hipHostMallocCoherent | hipHostMallocNonCoherent));
    char *mine = malloc(1000);
    OK(H(hipHostRegister)(mine, 1000, 0));
    GIVES(hipErrorHostMemoryAlreadyRegistered, H(hipHostRegister)(mine, 1000, 0));
    OK(H(hipHostGetDevicePointer)(&dev, mine, 0));
    CHECK(dev == mine);
    OK(H(hipMemset)(mine, 9, 1000));
    CHECK(mine[999] == 9);
    OK(H(hipHostUnregister)(mine));
    GIVES(hipErrorHostMemoryNotRegistered, H(hipHostUnregister)(mine));
    free(mine);
}

TEST(managed_memory_on_an_apu, "OCHRE_SIM_BOARD=gfx1151", NULL) {
    int *m, *d, v;
    OK(H(hipMallocManaged)((void **)&m, 400, hipMemAttachGlobal));
    m[99] = 5; /* the host's own */
    hipPointerAttribute_t a;
    OK(H(hipPointerGetAttributes)(&a, m));
    CHECK(a.isManaged && a.type == hipMemoryTypeManaged);
    OK(H(hipMemAdvise)(m, 400, hipMemAdviseSetReadMostly, 0));
    OK(H(hipMemAdvise)(m, 400, hipMemAdviseSetPreferredLocation, hipCpuDeviceId));
    OK(H(hipMemRangeGetAttribute)(&v, 4, hipMemRangeAttributeReadMostly, m, 400));
    CHECK(v == 1);
    OK(H(hipMemRangeGetAttribute)(&v, 4, hipMemRangeAttributePreferredLocation, m, 400));
    CHECK(v == hipCpuDeviceId);
    OK(H(hipMemPrefetchAsync)(m, 400, 0, NULL));
    OK(H(hipMemRangeGetAttribute)(&v, 4, hipMemRangeAttributeLastPrefetchLocation, m, 400));
    CHECK(v == 0);
    GIVES(hipErrorInvalidDevice, H(hipMemPrefetchAsync)(m, 400, 3, NULL));
    /* an APU's device memory is the host's too */
    OK(H(hipMalloc)((void **)&d, 4));
    *d = 17;
    OK(H(hipMemcpy)(&v, d, 4, hipMemcpyDeviceToHost));
    CHECK(v == 17);
    GIVES(hipErrorInvalidValue, H(hipMallocManaged)((void **)&m, 0, hipMemAttachGlobal));
    GIVES(hipErrorInvalidValue, H(hipMallocManaged)((void **)&m, 4, 9));
}

static void touch_device_memory(void) {
    volatile int *d;
    OK(H(hipMalloc)((void **)&d, 4));
    *d = 1;
}
static void a_discrete_boards_memory_is_not_the_hosts(void **state) {
    (void)state;
    int status = in_process("OCHRE_SIM_BOARD=gfx1100", NULL, touch_device_memory, NULL, 0);
    assert_true(status != 0 && status != 2 && status != 3);
    assert_int_equal(in_process("OCHRE_SIM_BOARD=gfx1103", NULL, touch_device_memory, NULL, 0), 0);
}

TEST(memory_is_counted, "OCHRE_SIM_QUIRKS=memory=64M", NULL) {
    size_t f, t, f2;
    void *a, *b;
    OK(H(hipMemGetInfo)(&f, &t));
    CHECK(t == 64u << 20 && f == t);
    OK(H(hipMalloc)(&a, 40u << 20));
    OK(H(hipMemGetInfo)(&f2, &t));
    CHECK(f - f2 == 40u << 20);
    GIVES(hipErrorOutOfMemory, H(hipMalloc)(&b, 30u << 20));
    CHECK(!b);
    OK(H(hipFree)(a));
    OK(H(hipMalloc)(&b, 30u << 20));
}

TEST(pools, "", NULL) {
    hipMemPool_t pool, now;
    hipMemPoolProps props = {.allocType = hipMemAllocationTypePinned, .location = {hipMemLocationTypeDevice, 0}};
    OK(H(hipMemPoolCreate)(&pool, &props));
    OK(H(hipDeviceGetMemPool)(&now, 0));
    CHECK(now != pool);
    OK(H(hipDeviceSetMemPool)(0, pool));
    OK(H(hipDeviceGetMemPool)(&now, 0));
    CHECK(now == pool);
    hipStream_t s;
    OK(H(hipStreamCreate)(&s));
    void *a, *b;
    uint64_t used = 9;
    OK(H(hipMallocAsync)(&a, 1000, s));
    OK(H(hipMallocFromPoolAsync)(&b, 24, pool, s));
    OK(H(hipMemPoolGetAttribute)(pool, hipMemPoolAttrUsedMemCurrent, &used));
    CHECK(used == 1024);
    OK(H(hipMemsetAsync)(a, 1, 1000, s));
    OK(H(hipFreeAsync)(a, s));
    OK(H(hipFreeAsync)(b, s));
    OK(H(hipStreamSynchronize)(s));
    OK(H(hipMemPoolGetAttribute)(pool, hipMemPoolAttrUsedMemCurrent, &used));
    CHECK(used == 0);
    OK(H(hipMemPoolGetAttribute)(pool, hipMemPoolAttrUsedMemHigh, &used));
    CHECK(used == 1024);
    GIVES(hipErrorInvalidValue, H(hipFreeAsync)(a, s));
    OK(H(hipMemPoolDestroy)(pool));
    GIVES(hipErrorInvalidValue, H(hipMemPoolDestroy)(pool));
}

TEST(arrays_hold_what_is_copied, "", NULL) {
    hipChannelFormatDesc d = H(hipCreateChannelDesc)(32, 0, 0, 0, hipChannelFormatKindFloat);
    hipArray_t a;
    float in[6][10], out[6][10];
    for (int i = 0; i < 60; i++) in[i / 10][i % 10] = (float)i;
    OK(H(hipMallocArray)(&a, &d, 10, 6, 0));
    OK(H(hipMemcpy2DToArray)(a, 0, 0, in, 40, 40, 6, hipMemcpyHostToDevice));
    memset(out, 0, sizeof out);
    OK(H(hipMemcpy2DFromArray)(out, 40, a, 8, 1, 12, 2, hipMemcpyDeviceToHost)); /* 3 elements from (2, 1) */
    CHECK(out[0][0] == 12 && out[0][2] == 14 && out[1][0] == 22 && out[0][3] == 0);
    OK(H(hipMemcpyFromArray)(out, a, 0, 0, sizeof out, hipMemcpyDeviceToHost));
    CHECK(!memcmp(in, out, sizeof out));
    GIVES(hipErrorInvalidValue, H(hipMemcpy2DToArray)(a, 4, 0, in, 40, 40, 6, hipMemcpyHostToDevice));
    hipChannelFormatDesc q;
    hipExtent e;
    unsigned flags;
    OK(H(hipArrayGetInfo)(&q, &e, &flags, a));
    CHECK(q.x == 32 && q.f == hipChannelFormatKindFloat && e.width == 10 && e.height == 6 && !e.depth);
    OK(H(hipFreeArray)(a));
    GIVES(hipErrorContextIsDestroyed, H(hipFreeArray)(a));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_in_every_direction), cmocka_unit_test(addresses_of_no_allocation),
        cmocka_unit_test(rectangles), cmocka_unit_test(fills),
        cmocka_unit_test(memory_types_were_renumbered_5), cmocka_unit_test(memory_types_were_renumbered_6),
        cmocka_unit_test(host_memory), cmocka_unit_test(managed_memory_on_an_apu),
        cmocka_unit_test(a_discrete_boards_memory_is_not_the_hosts), cmocka_unit_test(memory_is_counted),
            cmocka_unit_test(pools),
        cmocka_unit_test(arrays_hold_what_is_copied)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
