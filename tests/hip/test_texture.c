/* Textures and surfaces through compiled kernels. */
#include "kernels.h"

static hipModule_t m;
static void launch(const char *kernel, unsigned threads, void **params) {
    if (!m) OK(H(hipModuleLoadData)(&m, read_file("texture.hipfb")));
    OK(H(hipModuleLaunchKernel)(get(m, kernel), 1, 1, 1, threads, 1, 1, 0, NULL, params, NULL));
    OK(H(hipDeviceSynchronize)());
}

enum { W = 9, HEIGHT = 5 };
static float texels[HEIGHT][W];

static hipArray_t filled(unsigned flags) {
    hipArray_t a;
    hipChannelFormatDesc d = H(hipCreateChannelDesc)(32, 0, 0, 0, hipChannelFormatKindFloat);
    for (int i = 0; i < W * HEIGHT; i++) texels[i / W][i % W] = (float)(i * i % 101);
    OK(H(hipMallocArray)(&a, &d, W, HEIGHT, flags));
    OK(H(hipMemcpy2DToArray)(a, 0, 0, texels, W * 4, W * 4, HEIGHT, hipMemcpyHostToDevice));
    return a;
}

static void sample_at(hipTextureObject_t t, unsigned n, const float *at, float *out) {
    float *da, *dout;
    OK(H(hipMalloc)((void **)&da, n * 8));
    OK(H(hipMalloc)((void **)&dout, n * 4));
    OK(H(hipMemcpy)(da, at, n * 8, hipMemcpyHostToDevice));
    void *params[] = {&t, &da, &dout};
    launch("sample", n, params);
    OK(H(hipMemcpy)(out, dout, n * 4, hipMemcpyDeviceToHost));
}

static void textures(void) {
    hipArray_t a = filled(0);
    hipResourceDesc r = {.resType = hipResourceTypeArray, .res.array.array = a}, rq;
    hipTextureDesc d = {.addressMode = {hipAddressModeClamp, hipAddressModeBorder, hipAddressModeClamp}}, dq;
    hipTextureObject_t t;
    OK(H(hipCreateTextureObject)(&t, &r, &d, NULL));
    float at[W * HEIGHT * 2], out[W * HEIGHT];
    for (int i = 0; i < W * HEIGHT; i++) at[2 * i] = (float)(i % W) + 0.25f, at[2 * i + 1] = (float)(i / W) + 0.75f;
    at[0] = -3, at[1] = 1.5f;      /* clamped to the row's first */
    at[2] = 2.5f, at[3] = -1;      /* the border: zero */
    sample_at(t, W * HEIGHT, at, out);
    CHECK(out[0] == texels[1][0] && out[1] == 0);
    for (int i = 2; i < W * HEIGHT; i++) CHECK(out[i] == texels[i / W][i % W]);
    OK(H(hipGetTextureObjectResourceDesc)(&rq, t));
    OK(H(hipGetTextureObjectTextureDesc)(&dq, t));
    CHECK(rq.res.array.array == a && dq.addressMode[1] == hipAddressModeBorder);
    OK(H(hipDestroyTextureObject)(t));
    GIVES(hipErrorInvalidValue, H(hipDestroyTextureObject)(t));
    /* linear filter between texel centres, coordinates from 0 to 1 */
    d = (hipTextureDesc){.addressMode = {hipAddressModeWrap, hipAddressModeClamp}, .filterMode = hipFilterModeLinear,
                         .normalizedCoords = 1};
    OK(H(hipCreateTextureObject)(&t, &r, &d, NULL));
    float mid[4] = {3.0f / W, 2.5f / HEIGHT, 1 + 4.5f / W, 3.5f / HEIGHT};
    sample_at(t, 2, mid, out);
    CHECK(fabsf(out[0] - (texels[2][2] + texels[2][3]) / 2) < 0.5f && fabsf(out[1] - texels[3][4]) < 0.5f);
    /* the nearest texel, where the device library rounds coordinates by the size that it finds beside the resource */
    d.filterMode = hipFilterModePoint;
    OK(H(hipCreateTextureObject)(&t, &r, &d, NULL));
    float wrapped[W * HEIGHT * 2];
    for (int i = 0; i < W * HEIGHT; i++) {
        wrapped[2 * i] = ((float)(i % W) + 0.4f) / W + (float)(i % 3) - 1;
        wrapped[2 * i + 1] = ((float)(i / W) + 0.6f) / HEIGHT;
    }
    sample_at(t, W * HEIGHT, wrapped, out);
    for (int i = 0; i < W * HEIGHT; i++) CHECK(out[i] == texels[i / W][i % W]);
    /* memory with a pitch */
    size_t pitch;
    float *p;
    OK(H(hipMallocPitch)((void **)&p, &pitch, W * 4, HEIGHT));
    OK(H(hipMemcpy2D)(p, pitch, texels, W * 4, W * 4, HEIGHT, hipMemcpyHostToDevice));
    r = (hipResourceDesc){.resType = hipResourceTypePitch2D, .res.pitch2D = {p, {32, 0, 0, 0, hipChannelFormatKindFloat}, W,
                                                                             HEIGHT, pitch}};
    d = (hipTextureDesc){.addressMode = {hipAddressModeClamp, hipAddressModeClamp}};
    OK(H(hipCreateTextureObject)(&t, &r, &d, NULL));
    at[0] = 0.5f, at[1] = 0.5f, at[2] = 1.5f, at[3] = 0.5f;
    sample_at(t, W * HEIGHT, at, out);
    for (int i = 0; i < W * HEIGHT; i++) CHECK(out[i] == texels[i / W][i % W]);
    /* plain memory */
    int *lin, numbers[64], got[32];
    for (int i = 0; i < 64; i++) numbers[i] = 1000 - i * 7;
    OK(H(hipMalloc)((void **)&lin, sizeof numbers));
    OK(H(hipMemcpy)(lin, numbers, sizeof numbers, hipMemcpyHostToDevice));
    r = (hipResourceDesc){.resType = hipResourceTypeLinear, .res.linear = {lin, {32, 0, 0, 0, hipChannelFormatKindSigned},
                                                                           sizeof numbers}};
    OK(H(hipCreateTextureObject)(&t, &r, &d, NULL));
    int *dout;
    OK(H(hipMalloc)((void **)&dout, sizeof got));
    void *params[] = {&t, &dout};
    launch("fetch", 32, params);
    OK(H(hipMemcpy)(got, dout, sizeof got, hipMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++) CHECK(got[i] == numbers[2 * i]);
    /* what cannot be */
    d.filterMode = hipFilterModeLinear;
    GIVES(hipErrorInvalidValue, H(hipCreateTextureObject)(&t, &r, &d, NULL)); /* integers are not filtered */
    GIVES(hipErrorInvalidValue, H(hipCreateTextureObject)(&t, NULL, &d, NULL));
}

/* Boards without the instructions say so. */
TEST(no_images, "OCHRE_SIM_BOARD=gfx942", NULL) {
    int supported = 1;
    OK(H(hipDeviceGetAttribute)(&supported, hipDeviceAttributeImageSupport, 0));
    CHECK(!supported);
    hipArray_t a = filled(0);
    hipResourceDesc r = {.resType = hipResourceTypeArray, .res.array.array = a};
    hipTextureDesc d = {.addressMode = {hipAddressModeClamp}};
    hipTextureObject_t t;
    GIVES(hipErrorNotSupported, H(hipCreateTextureObject)(&t, &r, &d, NULL));
}
TEST(images, "OCHRE_SIM_BOARD=gfx90a", NULL) {
    int supported = 0;
    OK(H(hipDeviceGetAttribute)(&supported, hipDeviceAttributeImageSupport, 0));
    CHECK(supported == 1);
}

static void surfaces(void) {
    hipArray_t a = filled(hipArraySurfaceLoadStore);
    hipResourceDesc r = {.resType = hipResourceTypeArray, .res.array.array = a};
    hipSurfaceObject_t s;
    fn__Z22hipCreateSurfaceObjectPP13__hip_surfacePK15hipResourceDesc *create =
        H(_Z22hipCreateSurfaceObjectPP13__hip_surfacePK15hipResourceDesc);
    OK(create(&s, &r));
    int w = W;
    void *params[] = {&s, &w};
    launch("store", W * HEIGHT, params);
    float out[HEIGHT][W];
    OK(H(hipMemcpy2DFromArray)(out, W * 4, a, 0, 0, W * 4, HEIGHT, hipMemcpyDeviceToHost));
    for (int i = 0; i < W * HEIGHT; i++) CHECK(out[i / W][i % W] == (float)(3 * i));
    OK(H(_Z23hipDestroySurfaceObjectP13__hip_surface)(s));
}

TEST(textures_gfx1030, "OCHRE_SIM_BOARD=gfx1030", NULL) { textures(); }
TEST(textures_gfx90a, "OCHRE_SIM_BOARD=gfx90a", NULL) { textures(); }
TEST(surfaces_gfx1030, "OCHRE_SIM_BOARD=gfx1030", NULL) { surfaces(); }
TEST(surfaces_gfx90a, "OCHRE_SIM_BOARD=gfx90a", NULL) { surfaces(); }

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(textures_gfx1030), cmocka_unit_test(textures_gfx90a),
                                       cmocka_unit_test(no_images), cmocka_unit_test(images),
                                       cmocka_unit_test(surfaces_gfx1030), cmocka_unit_test(surfaces_gfx90a)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
