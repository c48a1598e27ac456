/* MUBUF and MTBUF: addresses through descriptors of each generation, range rules, formats, scratch, faults. */
#include "isa/hand.h"
#include "isa/memory_format.h"

#include "base/half.h"

enum { RSRC = 8, SOFF = 20 };
static void buffer(hand *h, const char *meaning, sim_operand reg, int32_t off, bool offen, bool idxen) {
    bool store = strstr(meaning, "STORE"), atomic = strstr(meaning, "ATOMIC");
    h->inst = (sim_inst){.meaning = meaning, .mnemonic = meaning, .format = meaning[0] == 'T' ? SIM_MTBUF : SIM_MUBUF,
                         .dst = store ? HAND_NONE : reg, .data = store || atomic ? reg : HAND_NONE,
                         .addr = offen || idxen ? hand_v(2, (unsigned)offen + idxen) : HAND_NONE, .base = hand_s(RSRC, 4),
                         .soffset = hand_s(SOFF, 1), .offset_imm = off, .offen = offen, .idxen = idxen};
}
static void resource(hand *h, uint64_t base, uint32_t word1, uint32_t n, uint32_t word3) {
    uint32_t *r = &h->w.s[RSRC];
    r[0] = (uint32_t)base, r[1] = (uint32_t)(base >> 32) | word1, r[2] = n, r[3] = word3;
}
static uint32_t at32(const uint8_t *p) {
    uint32_t x;
    memcpy(&x, p, 4);
    return x;
}
static const uint32_t plain3[] = {[SIM_GFX90A] = 0x00027000, [SIM_GFX1030] = 0x31004000, [SIM_GFX1100] = 0x31004000,
                                  [SIM_GFX1200] = 0x31004000};

static void test_raw(void **state) {
    (void)state;
    static const sim_isa isas[] = {SIM_GFX90A, SIM_GFX1030, SIM_GFX1100, SIM_GFX1200};
    for (size_t k = 0; k < 4; k++) {
        hand *h = hand_make(isas[k], k ? 32 : 64);
        uint64_t a = hand_alloc(h, 1024);
        uint8_t *p = hand_host(h, a, 1024);
        for (unsigned i = 0; i < 1024; i++) p[i] = (uint8_t)(i * 13 + 1);
        resource(h, a, 0, 100, plain3[isas[k]]);
        h->w.s[SOFF] = 8;
        for (unsigned i = 0; i < h->w.lanes; i++) HAND_V(h, 2, i) = i * 4;
        buffer(h, "BUFFER_LOAD_B64", hand_v(10, 2), 4, true, false);
        assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
        for (unsigned i = 0; i < h->w.lanes; i++)
            for (unsigned d = 0; d < 2; d++) { /* each dword is in or out by itself */
                unsigned off = 12 + i * 4 + d * 4;
                assert_int_equal(HAND_V(h, 10 + d, i), off + 4 <= 100 ? at32(p + off) : 0);
            }
        buffer(h, "BUFFER_STORE_DWORD", hand_v(10, 1), 4, true, false);
        for (unsigned i = 0; i < h->w.lanes; i++) HAND_V(h, 10, i) = 0xabcd0000 + i;
        uint8_t before = p[100];
        assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
        assert_int_equal(at32(p + 96), 0xabcd0000 + 21);
        assert_int_equal(p[100], before); /* dropped */
        /* An address that the descriptor admits, outside every allocation, is a fault. */
        h->w.s[RSRC + 2] = 2000;
        HAND_V(h, 2, 7) = 1012;
        assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_MEMORY);
        assert_true(h->w.fault.lane == 7 && h->w.fault.addr == a + 1024 && h->w.fault.store);
        /* A constant soffset. */
        buffer(h, "BUFFER_LOAD_UBYTE", hand_v(10, 1), 1, false, false);
        h->inst.soffset = (sim_operand){.kind = SIM_K_CONST, .value = 5, .n_dwords = 1};
        assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
        assert_int_equal(HAND_V(h, 10, 3), p[6]);
        hand_free(h);
    }
}

static void test_structured(void **state) {
    (void)state;
    hand *h = hand_make(SIM_GFX1100, 32);
    uint64_t a = hand_alloc(h, 4096);
    uint8_t *p = hand_host(h, a, 4096);
    for (unsigned i = 0; i < 4096; i += 4) memcpy(p + i, &i, 4);
    h->w.s[SOFF] = 0;
    resource(h, a, 16u << 16, 10, 0x00004000); /* ten records of 16 bytes, OOB_SELECT 0 */
    for (unsigned i = 0; i < 32; i++) HAND_V(h, 2, i) = i, HAND_V(h, 3, i) = i == 5 ? 12 : 4;
    buffer(h, "BUFFER_LOAD_B32", hand_v(10, 1), 4, true, true);
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    for (unsigned i = 0; i < 32; i++) assert_int_equal(HAND_V(h, 10, i), i < 10 && i != 5 ? i * 16 + 8 : 0);
    h->w.s[RSRC + 3] = 0x10004000; /* by the index alone */
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    assert_int_equal(HAND_V(h, 10, 5), 5 * 16 + 16);
    /* Swizzle: 4-byte elements, 32 indices side by side. */
    resource(h, a, 16u << 16 | 1u << 30, 64, 0x10004000 | 2u << 21);
    for (unsigned i = 0; i < 32; i++) HAND_V(h, 2, i) = i + 16;
    buffer(h, "BUFFER_LOAD_B64", hand_v(10, 2), 6 * 4 - 20, false, true);
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    for (unsigned i = 0; i < 32; i++)
        for (unsigned d = 0; d < 2; d++) {
            unsigned index = i + 16, off = 4 + 4 * d;
            assert_int_equal(HAND_V(h, 10 + d, i), (index / 32 * 16 + off) * 32 + index % 32 * 4);
        }
    hand_free(h);
}

/* The scratch descriptor of targets without architected scratch. */
static void test_scratch(void **state) {
    (void)state;
    for (unsigned k = 0; k < 2; k++) {
        hand *h = hand_make(k ? SIM_GFX1030 : SIM_GFX90A, k ? 32 : 64);
        unsigned L = h->w.lanes;
        resource(h, (uint64_t)(uintptr_t)h->scratch, 1u << 31, 0xffffffffu,
                 1u << 23 | (k ? 2u : 3u) << 21 | (k ? 2u << 28 : 0));
        h->w.s[SOFF] = 16 * L; /* the stack pointer counts the wave's bytes */
        for (unsigned i = 0; i < L; i++)
            for (unsigned d = 0; d < 4; d++) HAND_V(h, 10 + d, i) = 100 * i + d;
        buffer(h, "BUFFER_STORE_DWORDX4", hand_v(10, 4), 8, false, false);
        assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
        for (unsigned i = 0; i < L; i++)
            for (unsigned d = 0; d < 4; d++) assert_int_equal(at32(h->scratch + ((6 + d) * L + i) * 4), 100 * i + d);
        for (unsigned i = 0; i < L; i++) HAND_V(h, 2, i) = 10; /* an unaligned dword falls apart */
        h->w.s[SOFF] = 16 * L;
        buffer(h, "BUFFER_LOAD_DWORD", hand_v(20, 1), 0, true, false);
        assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
        assert_int_equal(HAND_V(h, 20, 9), (900 >> 16 | 901 << 16));
        h->inst.offset_imm = 230;
        HAND_V(h, 2, 4) = 12;
        assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_SCRATCH);
        h->w.s[SOFF] = 0;
        assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
        hand_free(h);
    }
}

static void test_atomics(void **state) {
    (void)state;
    hand *h = hand_make(SIM_GFX1100, 32);
    uint64_t a = hand_alloc(h, 64);
    uint8_t *p = hand_host(h, a, 64);
    resource(h, a, 0, 32, plain3[SIM_GFX1100]);
    for (unsigned i = 0; i < 32; i++) HAND_V(h, 2, i) = i < 16 ? 4 : 60, HAND_V(h, 10, i) = 1;
    buffer(h, "BUFFER_ATOMIC_ADD_U32", hand_v(10, 1), 0, true, false);
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    assert_int_equal(at32(p + 4), 16);
    assert_int_equal(at32(p + 60), 0);
    assert_int_equal(HAND_V(h, 10, 15), 15);
    assert_int_equal(HAND_V(h, 10, 16), 0);
    h->inst.dst = HAND_NONE; /* without return */
    HAND_V(h, 10, 0) = 5;
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    assert_int_equal(HAND_V(h, 10, 0), 5);
    HAND_V(h, 2, 3) = 6;
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_MISALIGNED);
    hand_free(h);
}

static void test_to_lds(void **state) {
    (void)state;
    hand *h = hand_make(SIM_GFX90A, 64);
    uint64_t a = hand_alloc(h, 256);
    uint8_t *p = hand_host(h, a, 256);
    for (unsigned i = 0; i < 256; i++) p[i] = (uint8_t)i;
    resource(h, a, 0, 128, plain3[SIM_GFX90A]);
    for (unsigned i = 0; i < 64; i++) HAND_V(h, 2, i) = 4 * (i ^ 1);
    h->w.s[SIM_S_M0] = 1000;
    memset(h->lds, 0xee, sizeof h->lds);
    buffer(h, "BUFFER_LOAD_DWORD", HAND_NONE, 0, true, false);
    h->inst.lds = true;
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    for (unsigned i = 0; i < 64; i++) assert_int_equal(at32(h->lds + 1000 + 4 * i), (i ^ 1) < 32 ? at32(p + 4 * (i ^ 1)) : 0);
    hand_free(h);
}

/* The numbers of formats as the assembler names them. */
static void test_format_numbers(void **state) {
    (void)state;
    static const struct {
        sim_isa isa;
        unsigned number;
        sim_typed t;
    } t[] = {
        {SIM_GFX1030, 1, {SIM_DF_8, SIM_NF_UNORM}},
        {SIM_GFX1030, 13, {SIM_DF_16, SIM_NF_FLOAT}},
        {SIM_GFX1030, 22, {SIM_DF_32, SIM_NF_FLOAT}},
        {SIM_GFX1030, 36, {SIM_DF_10_11_11, SIM_NF_FLOAT}},
        {SIM_GFX1030, 56, {SIM_DF_8_8_8_8, SIM_NF_UNORM}},
        {SIM_GFX1030, 64, {SIM_DF_32_32, SIM_NF_FLOAT}},
        {SIM_GFX1030, 71, {SIM_DF_16_16_16_16, SIM_NF_FLOAT}},
        {SIM_GFX1030, 77, {SIM_DF_32_32_32_32, SIM_NF_FLOAT}},
        {SIM_GFX1100, 22, {SIM_DF_32, SIM_NF_FLOAT}},
        {SIM_GFX1100, 30, {SIM_DF_10_11_11, SIM_NF_FLOAT}},
        {SIM_GFX1100, 42, {SIM_DF_8_8_8_8, SIM_NF_UNORM}},
        {SIM_GFX1200, 50, {SIM_DF_32_32, SIM_NF_FLOAT}},
        {SIM_GFX1200, 57, {SIM_DF_16_16_16_16, SIM_NF_FLOAT}},
        {SIM_GFX1200, 63, {SIM_DF_32_32_32_32, SIM_NF_FLOAT}},
        {SIM_GFX90A, 10 | 4 << 4, {SIM_DF_8_8_8_8, SIM_NF_UINT}},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        sim_typed x = sim_typed_of(t[i].isa, t[i].number);
        assert_true(x.dfmt == t[i].t.dfmt && x.nfmt == t[i].t.nfmt);
        assert_int_equal(sim_typed_number(t[i].isa, t[i].t), t[i].number);
    }
    assert_int_equal(sim_typed_of(SIM_GFX1100, 64).dfmt, SIM_DF_INVALID);
    assert_int_equal(sim_typed_of(SIM_GFX1030, 78).dfmt, SIM_DF_INVALID);
    assert_int_equal(sim_typed_of(SIM_GFX1030, 0).dfmt, SIM_DF_INVALID);
}

static void test_formats(void **state) {
    (void)state;
    static const struct {
        sim_typed t;
        uint8_t bytes[8];
        float f[4];
    } t[] = {
        {{SIM_DF_8_8_8_8, SIM_NF_UNORM}, {0, 255, 51, 102}, {0, 1, 0.2f, 0.4f}},
        {{SIM_DF_8_8, SIM_NF_SNORM}, {0x81, 0x7f}, {-1, 1, 0, 1}},
        {{SIM_DF_8_8, SIM_NF_SNORM}, {0x80, 0x00}, {-1, 0, 0, 1}},
        {{SIM_DF_16_16, SIM_NF_FLOAT}, {0x00, 0x3c, 0x00, 0xc0}, {1, -2, 0, 1}},
        {{SIM_DF_2_10_10_10, SIM_NF_UNORM}, {0xff, 0x03, 0x00, 0xc0}, {1, 0, 0, 1}},
        {{SIM_DF_10_11_11, SIM_NF_FLOAT}, {0xc0, 0x03, 0x1e, 0x78}, {1, 1, 1, 1}},
        {{SIM_DF_16, SIM_NF_USCALED}, {0x34, 0x12}, {0x1234, 0, 0, 1}},
        {{SIM_DF_8, SIM_NF_SSCALED}, {0xfe}, {-2, 0, 0, 1}},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        uint32_t v[4];
        uint8_t back[16];
        sim_typed_read(t[i].t, t[i].bytes, v);
        for (unsigned k = 0; k < 4; k++) assert_true(och_f32_from_bits(v[k]) == t[i].f[k]);
        sim_typed_write(t[i].t, back, v);
        if (t[i].bytes[0] != 0x80) assert_memory_equal(back, t[i].bytes, sim_typed_bytes(t[i].t));
    }
    /* Integers saturate. */
    uint8_t byte;
    sim_typed_write((sim_typed){SIM_DF_8, SIM_NF_UINT}, &byte, (const uint32_t[4]){300});
    assert_int_equal(byte, 255);
    sim_typed_write((sim_typed){SIM_DF_8, SIM_NF_SINT}, &byte, (const uint32_t[4]){(uint32_t)-300});
    assert_int_equal(byte, 0x80);
    hand *h = hand_make(SIM_GFX1100, 32);
    uint64_t a = hand_alloc(h, 256);
    uint8_t *p = hand_host(h, a, 256);
    p[4] = 255, p[5] = 0, p[6] = 51, p[7] = 255;
    h->w.s[SOFF] = 0;
    h->w.s[SIM_S_EXEC_LO] = 2;
    HAND_V(h, 2, 1) = 1;
    /* z, y, x, one through the descriptor's selection. */
    resource(h, a, 4u << 16, 8, 6u | 5u << 3 | 4u << 6 | 1u << 9 | 42u << 12 | 1u << 28);
    buffer(h, "BUFFER_LOAD_FORMAT_XYZW", hand_v(10, 4), 0, false, true);
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    assert_true(och_f32_from_bits(HAND_V(h, 10, 1)) == 0.2f && HAND_V(h, 11, 1) == 0);
    assert_true(och_f32_from_bits(HAND_V(h, 12, 1)) == 1 && och_f32_from_bits(HAND_V(h, 13, 1)) == 1);
    HAND_V(h, 2, 1) = 8; /* out of range */
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    assert_int_equal(HAND_V(h, 12, 1), 0);
    HAND_V(h, 2, 1) = 1;
    resource(h, a, 4u << 16, 8, 4u | 5u << 3 | 6u << 6 | 7u << 9 | 42u << 12 | 1u << 28);
    HAND_V(h, 11, 1) = 0xffffffff;
    buffer(h, "BUFFER_LOAD_D16_FORMAT_XYZ", hand_v(10, 2), 0, false, true);
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    assert_int_equal(HAND_V(h, 10, 1), 0x3c00);
    assert_int_equal(HAND_V(h, 11, 1), 0xffff0000u | och_f32_to_f16(0.2f));
    buffer(h, "TBUFFER_STORE_FORMAT_XY", hand_v(10, 2), 8, false, true);
    h->inst.buf_format = 29; /* 16_16_FLOAT */
    HAND_V(h, 10, 1) = och_f32_bits(1.0f), HAND_V(h, 11, 1) = och_f32_bits(-2.0f);
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    assert_int_equal(at32(p + 12), 0xc0003c00);
    hand_free(h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_raw),     cmocka_unit_test(test_structured), cmocka_unit_test(test_scratch),
        cmocka_unit_test(test_atomics), cmocka_unit_test(test_to_lds),     cmocka_unit_test(test_format_numbers),
        cmocka_unit_test(test_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
