/* Images: descriptors of every generation, loads, stores, atomics, samples worked by hand, and faults. */
#include "isa/hand.h"
#include "isa/image.h"

#include "base/half.h"

enum { RSRC = 8, SAMP = 20 };
static const sim_isa isas[] = {SIM_GFX906, SIM_GFX1030, SIM_GFX1100, SIM_GFX1200};
static const uint8_t dims[] = {0, 1, 2, 4, 5}; /* by kind, as gfx10 and later encode them */

static void image(hand *h, const char *meaning, const sim_image_fields *f, unsigned n_addr, unsigned dmask) {
    och_err err = {0};
    uint32_t d[16];
    assert_int_equal(sim_image_descriptor((sim_isa)h->w.isa, f, d, &err), OCH_OK);
    memcpy(&h->w.s[RSRC], d, 32);
    memcpy(&h->w.s[SAMP], d + 12, 16);
    h->inst = (sim_inst){.meaning = meaning,
                         .mnemonic = meaning,
                         .format = SIM_MIMG,
                         .base = hand_s(RSRC, 8),
                         .dmask = (uint8_t)dmask,
                         .dim = dims[f->kind],
                         .n_vaddr = (uint8_t)n_addr,
                         .sve = f->kind >= SIM_IMAGE_1D_ARRAY};
    for (unsigned i = 0; i < n_addr; i++) h->inst.vaddr[i] = hand_v(2 + i, 1);
    if (strstr(meaning, "SAMPLE") || strstr(meaning, "GATHER")) h->inst.samp = hand_s(SAMP, 4);
    if (strstr(meaning, "STORE") || strstr(meaning, "ATOMIC")) h->inst.data = hand_v(10, 4);
    else h->inst.dst = hand_v(10, 4);
}
static float f32(uint32_t x) { return och_f32_from_bits(x); }
static uint32_t bits(float f) { return och_f32_bits(f); }

static void test_load_store(void **state) {
    (void)state;
    for (size_t k = 0; k < 4; k++)
        for (unsigned kind = 0; kind < 5; kind++) {
            hand *h = hand_make(isas[k], k ? 32 : 64);
            uint32_t height = kind == SIM_IMAGE_1D || kind == SIM_IMAGE_1D_ARRAY ? 1 : 3, depth = kind >= SIM_IMAGE_3D ? 4 : 1;
            sim_image_fields f = {.kind = (sim_image_kind)kind,
                                  .width = 70,
                                  .height = height,
                                  .depth = depth,
                                  .format = {SIM_DF_32, SIM_NF_UINT}};
            uint32_t pitch = sim_image_pitch(70, f.format), *p;
            assert_int_equal(pitch, 512);
            f.base = hand_alloc(h, (uint64_t)pitch * height * depth);
            p = hand_host(h, f.base, (uint64_t)pitch * height * depth);
            for (unsigned i = 0; i < pitch / 4 * height * depth; i++) p[i] = i;
            unsigned n = kind == SIM_IMAGE_1D ? 1 : kind == SIM_IMAGE_2D || kind == SIM_IMAGE_1D_ARRAY ? 2 : 3;
            for (unsigned i = 0; i < h->w.lanes; i++) HAND_V(h, 2, i) = i * 3, HAND_V(h, 3, i) = i % 3, HAND_V(h, 4, i) = i % 4;
            image(h, "IMAGE_LOAD", &f, n, 1);
            assert_int_equal(hand_run(h, sim_bind_image), SIM_FAULT_NONE);
            for (unsigned i = 0; i < h->w.lanes; i++) {
                uint32_t x = i * 3, y = height == 3 ? i % 3 : 0, z = kind == SIM_IMAGE_1D_ARRAY ? i % 3 : depth > 1 ? i % 4 : 0;
                assert_int_equal(HAND_V(h, 10, i), x < 70 ? (z * height + y) * (pitch / 4) + x : 0);
            }
            image(h, "IMAGE_STORE", &f, n, 1);
            HAND_V(h, 10, 1) = 0x55aa;
            HAND_V(h, 2, 1) = 68; /* no other lane's */
            HAND_V(h, 2, 2) = 70; /* dropped */
            assert_int_equal(hand_run(h, sim_bind_image), SIM_FAULT_NONE);
            uint32_t y = height == 3 ? 1 : 0, z = kind == SIM_IMAGE_1D_ARRAY || depth > 1 ? 1 : 0;
            assert_int_equal(p[(z * height + y) * (pitch / 4) + 68], 0x55aa);
            hand_free(h);
        }
}

static void test_info_atomic(void **state) {
    (void)state;
    for (size_t k = 0; k < 4; k++) {
        hand *h = hand_make(isas[k], k ? 32 : 64);
        sim_image_fields f = {
            .kind = SIM_IMAGE_2D_ARRAY, .width = 300, .height = 20, .depth = 7, .format = {SIM_DF_32, SIM_NF_SINT}};
        f.base = hand_alloc(h, (uint64_t)sim_image_pitch(300, f.format) * 20 * 7);
        image(h, "IMAGE_GET_RESINFO", &f, 1, 15);
        assert_int_equal(hand_run(h, sim_bind_image), SIM_FAULT_NONE);
        assert_int_equal(HAND_V(h, 10, 3), 300);
        assert_int_equal(HAND_V(h, 11, 3), 20);
        assert_int_equal(HAND_V(h, 12, 3), 7);
        assert_int_equal(HAND_V(h, 13, 3), 1);
        image(h, "IMAGE_ATOMIC_ADD", &f, 3, 1);
        h->inst.dst = hand_v(10, 1);
        for (unsigned i = 0; i < h->w.lanes; i++)
            HAND_V(h, 2, i) = 5, HAND_V(h, 3, i) = 6, HAND_V(h, 4, i) = 2, HAND_V(h, 10, i) = 2;
        assert_int_equal(hand_run(h, sim_bind_image), SIM_FAULT_NONE);
        assert_int_equal(HAND_V(h, 10, 31), 62);
        uint32_t *p = hand_host(h, f.base + (2 * 20 + 6) * (uint64_t)sim_image_pitch(300, f.format) + 20, 4);
        assert_int_equal(*p, h->w.lanes * 2);
        hand_free(h);
    }
}

/* 4 by 2 texels of one float. */
static hand *small(sim_isa isa, sim_image_fields *f) {
    hand *h = hand_make(isa, SIM_BIT(isa) & SIM_GCN ? 64 : 32);
    f->kind = SIM_IMAGE_2D, f->width = 4, f->height = 2, f->depth = 1, f->format = (sim_typed){SIM_DF_32, SIM_NF_FLOAT};
    f->base = hand_alloc(h, 1024);
    float *p = hand_host(h, f->base, 1024);
    for (unsigned y = 0; y < 2; y++)
        for (unsigned x = 0; x < 4; x++) p[y * 64 + x] = (float)(10 * y + x);
    h->w.s[SIM_S_EXEC_LO] = 1;
    h->w.s[SIM_S_EXEC_HI] = 0;
    return h;
}
static float sample(hand *h, const char *meaning, const sim_image_fields *f, float x, float y) {
    image(h, meaning, f, 2, 1);
    HAND_V(h, 2, 0) = bits(x), HAND_V(h, 3, 0) = bits(y);
    assert_int_equal(hand_run(h, sim_bind_image), SIM_FAULT_NONE);
    return f32(HAND_V(h, 10, 0));
}
static void test_sample(void **state) {
    (void)state;
    for (size_t k = 0; k < 4; k++) {
        sim_image_fields f = {.unnormalized = true, .address = {SIM_IMAGE_CLAMP, SIM_IMAGE_CLAMP, SIM_IMAGE_CLAMP}};
        hand *h = small(isas[k], &f);
        /* Nearest: the texel that the coordinate is in. */
        assert_true(sample(h, "IMAGE_SAMPLE_LZ", &f, 2.9f, 1.1f) == 12);
        assert_true(sample(h, "IMAGE_SAMPLE_LZ", &f, -5, 0) == 0);
        assert_true(sample(h, "IMAGE_SAMPLE_LZ", &f, 99, 99) == 13);
        /* A coordinate has eight bits of fraction. */
        assert_true(sample(h, "IMAGE_SAMPLE_LZ", &f, 2 - 1.0f / 1024, 1) == 12);
        assert_true(sample(h, "IMAGE_SAMPLE_LZ", &f, 2 - 1.0f / 128, 1) == 11);
        f.unnormalized = false;
        assert_true(sample(h, "IMAGE_SAMPLE", &f, 0.6f, 0.6f) == 12);
        f.address[0] = SIM_IMAGE_WRAP;
        assert_true(sample(h, "IMAGE_SAMPLE", &f, 1.3f, 0) == 1);
        assert_true(sample(h, "IMAGE_SAMPLE", &f, -0.1f, 0) == 3);
        f.address[0] = SIM_IMAGE_MIRROR;
        assert_true(sample(h, "IMAGE_SAMPLE", &f, 1.1f, 0) == 3);
        assert_true(sample(h, "IMAGE_SAMPLE", &f, -0.3f, 0) == 1);
        f.address[0] = SIM_IMAGE_BORDER;
        assert_true(sample(h, "IMAGE_SAMPLE", &f, 1.1f, 0.9f) == 0);
        f.white_border = true;
        assert_true(sample(h, "IMAGE_SAMPLE", &f, 1.1f, 0.9f) == 1);
        /* Linear: texel centres are at halves. */
        f.linear = true, f.unnormalized = true, f.white_border = false, f.address[0] = SIM_IMAGE_CLAMP;
        assert_true(sample(h, "IMAGE_SAMPLE_LZ", &f, 1.5f, 0.5f) == 1);
        assert_true(sample(h, "IMAGE_SAMPLE_LZ", &f, 1.75f, 0.5f) == 1.25f);
        assert_true(sample(h, "IMAGE_SAMPLE_LZ", &f, 2, 1) == 6.5f);
        assert_true(sample(h, "IMAGE_SAMPLE_LZ", &f, 0, 0) == 0);
        assert_true(sample(h, "IMAGE_SAMPLE_LZ", &f, 1.5f + 1.0f / 1024, 0.5f) == 1); /* finer than the weights */
        f.address[0] = SIM_IMAGE_BORDER;
        assert_true(sample(h, "IMAGE_SAMPLE_LZ", &f, 4, 0.5f) == 1.5f);
        /* A level or a bias beside the coordinates changes nothing; an offset does. */
        image(h, "IMAGE_SAMPLE_L", &f, 3, 1);
        HAND_V(h, 2, 0) = bits(1.5f), HAND_V(h, 3, 0) = bits(0.5f), HAND_V(h, 4, 0) = bits(7);
        assert_int_equal(hand_run(h, sim_bind_image), SIM_FAULT_NONE);
        assert_true(f32(HAND_V(h, 10, 0)) == 1);
        image(h, "IMAGE_SAMPLE_B", &f, 3, 1);
        HAND_V(h, 2, 0) = bits(7), HAND_V(h, 3, 0) = bits(1.5f), HAND_V(h, 4, 0) = bits(0.5f);
        assert_int_equal(hand_run(h, sim_bind_image), SIM_FAULT_NONE);
        assert_true(f32(HAND_V(h, 10, 0)) == 1);
        image(h, "IMAGE_SAMPLE_LZ_O", &f, 3, 1);
        HAND_V(h, 2, 0) = 0x3f | 1 << 8; /* -1, 1 */
        assert_int_equal(hand_run(h, sim_bind_image), SIM_FAULT_NONE);
        assert_true(f32(HAND_V(h, 10, 0)) == 10);
        image(h, "IMAGE_SAMPLE_D", &f, 6, 1);
        for (unsigned i = 0; i < 4; i++) HAND_V(h, 2 + i, 0) = bits(9);
        HAND_V(h, 6, 0) = bits(2.5f), HAND_V(h, 7, 0) = bits(1.5f);
        assert_int_equal(hand_run(h, sim_bind_image), SIM_FAULT_NONE);
        assert_true(f32(HAND_V(h, 10, 0)) == 12);
        image(h, "IMAGE_GATHER4_LZ", &f, 2, 1);
        HAND_V(h, 2, 0) = bits(2), HAND_V(h, 3, 0) = bits(1);
        assert_int_equal(hand_run(h, sim_bind_image), SIM_FAULT_NONE);
        static const float want[4] = {11, 12, 2, 1};
        for (unsigned i = 0; i < 4; i++) assert_true(f32(HAND_V(h, 10 + i, 0)) == want[i]);
        hand_free(h);
    }
}

/* Formats that textures of char4, uchar, half2, float4 and normalised reads use. */
static void test_formats(void **state) {
    (void)state;
    static const sim_typed formats[] = {
        {SIM_DF_8, SIM_NF_UINT},   {SIM_DF_8_8, SIM_NF_SINT},    {SIM_DF_8_8_8_8, SIM_NF_UNORM},
        {SIM_DF_16, SIM_NF_SNORM}, {SIM_DF_16_16, SIM_NF_FLOAT}, {SIM_DF_16_16_16_16, SIM_NF_UINT},
        {SIM_DF_32, SIM_NF_SINT},  {SIM_DF_32_32, SIM_NF_FLOAT}, {SIM_DF_32_32_32_32, SIM_NF_UINT}};
    for (size_t k = 0; k < 4; k++)
        for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
            hand *h = hand_make(isas[k], k ? 32 : 64);
            sim_image_fields f = {.kind = SIM_IMAGE_2D, .width = 4, .height = 2, .depth = 1, .format = formats[i]};
            f.base = hand_alloc(h, 512);
            uint8_t *p = hand_host(h, f.base + 256 + sim_typed_bytes(f.format), 16);
            for (unsigned b = 0; b < 16; b++) p[b] = (uint8_t)(17 * b + 3);
            uint32_t want[4];
            sim_typed_read(f.format, p, want);
            h->w.s[SIM_S_EXEC_LO] = 1, h->w.s[SIM_S_EXEC_HI] = 0;
            HAND_V(h, 2, 0) = 1, HAND_V(h, 3, 0) = 1;
            image(h, "IMAGE_LOAD", &f, 2, 15);
            assert_int_equal(hand_run(h, sim_bind_image), SIM_FAULT_NONE);
            for (unsigned c = 0; c < 4; c++) assert_int_equal(HAND_V(h, 10 + c, 0), want[c]);
            image(h, "IMAGE_LOAD", &f, 2, 5); /* x and z, packed */
            h->inst.d16 = true;
            assert_int_equal(hand_run(h, sim_bind_image), SIM_FAULT_NONE);
            assert_int_equal(HAND_V(h, 10, 0), sim_typed_to16(f.format, want[0]) | (uint32_t)sim_typed_to16(f.format, want[2])
                                                                                       << 16);
            hand_free(h);
        }
}

static void test_faults(void **state) {
    (void)state;
    hand *h = hand_make(SIM_GFX1100, 32);
    och_err err = {0};
    sim_image_fields f = {.kind = SIM_IMAGE_2D, .width = 64, .height = 4, .depth = 1, .format = {SIM_DF_32, SIM_NF_UINT}};
    f.base = hand_alloc(h, 256 * 2); /* two of its rows are not there */
    HAND_V(h, 3, 9) = 2;
    image(h, "IMAGE_LOAD", &f, 2, 1);
    assert_int_equal(hand_run(h, sim_bind_image), SIM_FAULT_MEMORY);
    assert_true(h->w.fault.lane == 9 && h->w.fault.addr == f.base + 512 && h->w.fault.size_bytes == 4);
    HAND_V(h, 3, 9) = 1;
    assert_int_equal(hand_run(h, sim_bind_image), SIM_FAULT_NONE);
    assert_int_equal(sim_space_mark(h->space, f.base, true, 0, NULL, &err), OCH_OK);
    image(h, "IMAGE_STORE", &f, 2, 1);
    assert_int_equal(hand_run(h, sim_bind_image), SIM_FAULT_READONLY);
    image(h, "IMAGE_LOAD", &f, 2, 1);
    memset(&h->w.s[RSRC], 0, 32); /* no resource */
    assert_int_equal(hand_run(h, sim_bind_image), SIM_FAULT_ILLEGAL);
    uint32_t d[16];
    f.base += 64;
    assert_int_equal(sim_image_descriptor(SIM_GFX1100, &f, d, &err), OCH_INVALID);
    och_err_clear(&err);
    f.base -= 64, f.width = 70000;
    assert_int_equal(sim_image_descriptor(SIM_GFX1100, &f, d, &err), OCH_RANGE);
    och_err_clear(&err);
    f.width = 64, f.pitch_bytes = 128;
    assert_int_equal(sim_image_descriptor(SIM_GFX1100, &f, d, &err), OCH_RANGE);
    och_err_clear(&err);
    f.pitch_bytes = 0, f.format.dfmt = 0;
    assert_int_equal(sim_image_descriptor(SIM_GFX1100, &f, d, &err), OCH_UNSUPPORTED);
    hand_free(h);
}

/* What tex1Dfetch compiles to: a typed buffer load through the object's first four dwords. */
static void test_buffer(void **state) {
    (void)state;
    for (size_t k = 0; k < 4; k++) {
        hand *h = hand_make(isas[k], k ? 32 : 64);
        och_err err = {0};
        sim_image_fields f = {
            .kind = SIM_IMAGE_BUFFER, .width = 5, .height = 1, .depth = 1, .format = {SIM_DF_8_8, SIM_NF_UINT}};
        f.base = hand_alloc(h, 10);
        uint8_t *p = hand_host(h, f.base, 10);
        for (unsigned i = 0; i < 10; i++) p[i] = (uint8_t)(i + 1);
        uint32_t d[16];
        assert_int_equal(sim_image_descriptor(isas[k], &f, d, &err), OCH_OK);
        memcpy(&h->w.s[RSRC], d, 16);
        h->inst = (sim_inst){.meaning = "BUFFER_LOAD_FORMAT_XYZW",
                             .format = SIM_MUBUF,
                             .dst = hand_v(10, 4),
                             .addr = hand_v(2, 1),
                             .base = hand_s(RSRC, 4),
                             .idxen = true};
        for (unsigned i = 0; i < h->w.lanes; i++) HAND_V(h, 2, i) = i;
        assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
        for (unsigned i = 0; i < 6; i++) {
            assert_int_equal(HAND_V(h, 10, i), i < 5 ? 2 * i + 1 : 0);
            assert_int_equal(HAND_V(h, 11, i), i < 5 ? 2 * i + 2 : 0);
            assert_int_equal(HAND_V(h, 13, i), 1);
        }
        hand_free(h);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load_store), cmocka_unit_test(test_info_atomic), cmocka_unit_test(test_sample),
        cmocka_unit_test(test_formats),    cmocka_unit_test(test_faults),      cmocka_unit_test(test_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
