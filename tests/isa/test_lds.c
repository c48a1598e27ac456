/* DS: values worked by hand, and each fault. */
#include "isa/hand.h"

static void ds(hand *h, const char *meaning, sim_operand dst, sim_operand addr, sim_operand data, sim_operand data1,
               unsigned off) {
    h->inst = (sim_inst){.meaning = meaning, .mnemonic = meaning, .format = SIM_DS, .dst = dst, .addr = addr, .data = data,
                         .data1 = data1, .offset_imm = (int32_t)off};
}
static uint32_t at32(const uint8_t *p) {
    uint32_t x;
    memcpy(&x, p, 4);
    return x;
}
static void fill(hand *h) {
    for (size_t i = 0; i < sizeof h->lds; i++) h->lds[i] = (uint8_t)(i * 37 + (i >> 8));
}

static void test_load_store(void **state) {
    (void)state;
    static const char *const loads[8] = {"DS_LOAD_B32", "DS_LOAD_B64", "DS_LOAD_B96", "DS_LOAD_B128",
                                         "DS_READ_B32", "DS_READ_B64", "DS_READ_B96", "DS_READ_B128"};
    static const char *const stores[8] = {"DS_STORE_B32", "DS_STORE_B64", "DS_STORE_B96", "DS_STORE_B128",
                                          "DS_WRITE_B32", "DS_WRITE_B64", "DS_WRITE_B96", "DS_WRITE_B128"};
    for (unsigned lanes = 32; lanes <= 64; lanes += 32)
        for (unsigned k = 0; k < 8; k++)
            for (unsigned form = 0; form < 3; form++) {
                hand *h = hand_make(SIM_GFX1100, lanes);
                fill(h);
                unsigned n = k % 4 + 1, step = form == 0 ? 4 * n : form == 1 ? 76 : 33;
                uint64_t mask = form == 2 ? 0x8000000180000001ull : ~0ull;
                h->w.s[SIM_S_EXEC_LO] = (uint32_t)mask;
                if (lanes == 64) h->w.s[SIM_S_EXEC_HI] = (uint32_t)(mask >> 32);
                for (unsigned i = 0; i < lanes; i++) {
                    HAND_V(h, 2, i) = i * step;
                    for (unsigned d = 0; d < 4; d++) HAND_V(h, 10 + d, i) = 9;
                }
                ds(h, loads[k], hand_v(10, n), hand_v(2, 1), HAND_NONE, HAND_NONE, 300);
                assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
                for (unsigned i = 0; i < lanes; i++)
                    for (unsigned d = 0; d < 4; d++)
                        assert_int_equal(HAND_V(h, 10 + d, i),
                                         d < n && mask >> i & 1 ? at32(h->lds + 300 + i * step + 4 * d) : 9);
                for (unsigned i = 0; i < lanes; i++)
                    for (unsigned d = 0; d < 4; d++) HAND_V(h, 10 + d, i) = 1000 * d + i;
                memset(h->lds, 0, sizeof h->lds);
                ds(h, stores[k], HAND_NONE, hand_v(2, 1), hand_v(10, n), HAND_NONE, 300);
                assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
                for (unsigned i = 0; i < lanes; i++)
                    for (unsigned d = 0; d < n; d++)
                        assert_int_equal(at32(h->lds + 300 + i * step + 4 * d), mask >> i & 1 ? 1000 * d + i : 0);
                hand_free(h);
            }
}

/* Addresses that follow one another with some lanes off: a result that takes its address's place, and lanes that are off
 * below address 0. */
static void test_runs_in_part(void **state) {
    (void)state;
    static const char *const loads[4] = {"DS_LOAD_B32", "DS_LOAD_B64", "DS_LOAD_B96", "DS_LOAD_B128"};
    static const char *const stores[4] = {"DS_STORE_B32", "DS_STORE_B64", "DS_STORE_B96", "DS_STORE_B128"};
    static const uint64_t masks[] = {~0ull << 3, 0x7ffffffffffffff8ull, 0xfff0fff0fff0fff8ull};
    for (unsigned lanes = 32; lanes <= 64; lanes += 32)
        for (unsigned k = 0; k < 4 * 3; k++) {
            const unsigned n = k % 4 + 1;
            const uint64_t mask = masks[k / 4];
            hand *h = hand_make(SIM_GFX1100, lanes);
            fill(h);
            h->w.s[SIM_S_EXEC_LO] = (uint32_t)mask;
            if (lanes == 64) h->w.s[SIM_S_EXEC_HI] = (uint32_t)(mask >> 32);
            for (unsigned i = 0; i < lanes; i++) HAND_V(h, 2, i) = (i - 3) * 4 * n;
            ds(h, loads[n - 1], hand_v(2, n), hand_v(2, 1), HAND_NONE, HAND_NONE, 0);
            assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
            for (unsigned i = 0; i < lanes; i++)
                assert_int_equal(HAND_V(h, 2, i), mask >> i & 1 ? at32(h->lds + (i - 3) * 4 * n) : (i - 3) * 4 * n);
            memset(h->lds, 0, sizeof h->lds);
            for (unsigned i = 0; i < lanes; i++) {
                HAND_V(h, 2, i) = (i - 3) * 4 * n;
                for (unsigned d = 0; d < n; d++) HAND_V(h, 10 + d, i) = 1000 * d + i;
            }
            ds(h, stores[n - 1], HAND_NONE, hand_v(2, 1), hand_v(10, n), HAND_NONE, 0);
            assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
            for (unsigned i = 3; i < lanes; i++)
                for (unsigned d = 0; d < n; d++)
                    assert_int_equal(at32(h->lds + (i - 3) * 4 * n + 4 * d), mask >> i & 1 ? 1000 * d + i : 0);
            hand_free(h);
        }
}

static void test_small(void **state) {
    (void)state;
    hand *h = hand_make(SIM_GFX1100, 32);
    h->lds[8] = 0x80, h->lds[9] = 0xff;
    h->w.s[SIM_S_EXEC_LO] = 4;
    HAND_V(h, 2, 2) = 6;
    static const struct {
        const char *name;
        uint32_t want;
    } t[] = {{"DS_LOAD_U8", 0x80}, {"DS_READ_I8", 0xffffff80}, {"DS_LOAD_U16", 0xff80}, {"DS_LOAD_I16", 0xffffff80},
             {"DS_LOAD_U8_D16", 0xaaaa0080}, {"DS_LOAD_I8_D16", 0xaaaaff80}, {"DS_READ_U16_D16", 0xaaaaff80},
             {"DS_LOAD_U8_D16_HI", 0x0080bbbb}, {"DS_LOAD_I8_D16_HI", 0xff80bbbb}, {"DS_LOAD_U16_D16_HI", 0xff80bbbb}};
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        HAND_V(h, 10, 2) = 0xaaaabbbb;
        ds(h, t[i].name, hand_v(10, 1), hand_v(2, 1), HAND_NONE, HAND_NONE, 2);
        assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
        assert_int_equal(HAND_V(h, 10, 2), t[i].want);
    }
    static const struct {
        const char *name;
        uint32_t want;
    } s[] = {{"DS_STORE_B8", 0xeeeeee44},
             {"DS_WRITE_B16", 0xeeee3344},
             {"DS_STORE_B8_D16_HI", 0xeeeeee22},
             {"DS_WRITE_B16_D16_HI", 0xeeee1122}};
    for (size_t i = 0; i < sizeof s / sizeof *s; i++) {
        memset(h->lds + 8, 0xee, 4);
        HAND_V(h, 10, 2) = 0x11223344;
        ds(h, s[i].name, HAND_NONE, hand_v(2, 1), hand_v(10, 1), HAND_NONE, 2);
        assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
        assert_int_equal(at32(h->lds + 8), s[i].want);
    }
    hand_free(h);
}

static void test_two(void **state) {
    (void)state;
    static const struct {
        const char *load, *store, *swap;
        unsigned dwords, unit;
    } t[] = {{"DS_LOAD_2ADDR_B32", "DS_STORE_2ADDR_B32", "DS_STOREXCHG_2ADDR_RTN_B32", 1, 4},
             {"DS_READ2_B64", "DS_WRITE2_B64", "DS_WRXCHG2_RTN_B64", 2, 8},
             {"DS_READ2ST64_B32", "DS_WRITE2ST64_B32", "DS_WRXCHG2ST64_RTN_B32", 1, 256},
             {"DS_LOAD_2ADDR_STRIDE64_B64", "DS_STORE_2ADDR_STRIDE64_B64", "DS_STOREXCHG_2ADDR_STRIDE64_RTN_B64", 2, 512}};
    for (size_t k = 0; k < sizeof t / sizeof *t; k++) {
        hand *h = hand_make(SIM_GFX1100, 32);
        fill(h);
        unsigned n = t[k].dwords;
        for (unsigned i = 0; i < 32; i++) HAND_V(h, 2, i) = i * 16;
        ds(h, t[k].load, hand_v(10, 2 * n), hand_v(2, 1), HAND_NONE, HAND_NONE, 3);
        h->inst.offset1 = 7;
        assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
        for (unsigned i = 0; i < 32; i++)
            for (unsigned d = 0; d < 2 * n; d++)
                assert_int_equal(HAND_V(h, 10 + d, i), at32(h->lds + i * 16 + (d < n ? 3 : 7) * t[k].unit + d % n * 4));
        for (unsigned i = 0; i < 32; i++)
            for (unsigned d = 0; d < 2; d++) HAND_V(h, 20 + d, i) = i + 100 * d, HAND_V(h, 30 + d, i) = i + 7000 + 100 * d;
        ds(h, t[k].swap, hand_v(10, 2 * n), hand_v(2, 1), hand_v(20, n), hand_v(30, n), 0);
        h->inst.offset1 = 1;
        h->w.s[SIM_S_EXEC_LO] = 2;
        uint32_t was0 = at32(h->lds + 16), was1 = at32(h->lds + 16 + t[k].unit);
        assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
        assert_int_equal(HAND_V(h, 10, 1), was0);
        assert_int_equal(HAND_V(h, 10 + n, 1), was1);
        assert_int_equal(at32(h->lds + 16), 1);
        assert_int_equal(at32(h->lds + 16 + t[k].unit), 7001);
        ds(h, t[k].store, HAND_NONE, hand_v(2, 1), hand_v(30, n), hand_v(20, n), 0);
        h->inst.offset1 = 1;
        assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
        assert_int_equal(at32(h->lds + 16), 7001);
        assert_int_equal(at32(h->lds + 16 + t[k].unit), 1);
        h->w.s[SIM_S_EXEC_LO] = 0xffffffff; /* results over the addresses */
        for (unsigned i = 0; i < 32; i++) HAND_V(h, 2, i) = i * 16;
        ds(h, t[k].load, hand_v(2, 2 * n), hand_v(2, 1), HAND_NONE, HAND_NONE, 2);
        h->inst.offset1 = 1;
        assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
        for (unsigned i = 0; i < 32; i++)
            for (unsigned d = 0; d < 2 * n; d++)
                assert_int_equal(HAND_V(h, 2 + d, i), at32(h->lds + i * 16 + (d < n ? 2 : 1) * t[k].unit + d % n * 4));
        /* The second place is outside. */
        for (unsigned i = 0; i < 32; i++) HAND_V(h, 2, i) = 0;
        HAND_V(h, 2, 30) = (uint32_t)sizeof h->lds - t[k].unit;
        assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_LDS);
        assert_int_equal(h->w.fault.lane, 30);
        hand_free(h);
    }
}

static void test_atomics(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint64_t old, a, b, want;
        bool rtn, wide;
    } t[] = {
        {"DS_ADD_U32", 5, 7, 0, 12, false, false},
        {"DS_ADD_RTN_U32", 5, 7, 0, 12, true, false},
        {"DS_RSUB_RTN_U32", 5, 7, 0, 2, true, false},
        {"DS_SUB_U64", 0, 1, 0, ~0ull, false, true},
        {"DS_MSKOR_RTN_B32", 0xff, 0x0f, 0x100, 0x1f0, true, false},
        {"DS_WRAP_RTN_B32", 5, 6, 100, 105, true, false},
        {"DS_WRAP_RTN_B32", 7, 6, 100, 1, true, false},
        {"DS_WRXCHG_RTN_B64", 3, 4, 0, 4, true, true},
        /* gfx9: comparand, value. gfx11: value, comparand. */
        {"DS_CMPST_RTN_B32", 5, 5, 9, 9, true, false},
        {"DS_CMPST_B32", 5, 9, 5, 5, false, false},
        {"DS_CMPSTORE_RTN_B32", 5, 9, 5, 9, true, false},
        {"DS_CMPSTORE_B64", 1ull << 40, 9, 1ull << 40, 9, false, true},
        {"DS_MAX_RTN_I32", 5, 0xffffffff, 0, 5, true, false},
        {"DS_MIN_U64", 1ull << 40, 1ull << 39, 0, 1ull << 39, false, true},
        {"DS_INC_RTN_U32", 7, 7, 0, 0, true, false},
        {"DS_COND_SUB_RTN_U32", 9, 7, 0, 2, true, false},
        {"DS_ADD_F32", 0x3f800000, 0x3f800000, 0, 0x40000000, false, false},
        {"DS_ADD_RTN_F64", 0x3ff0000000000000ull, 0x3ff0000000000000ull, 0, 0x4000000000000000ull, true, true},
        {"DS_MAX_NUM_RTN_F32", 0x7fc00000, 0x3f800000, 0, 0x3f800000, true, false},
        {"DS_PK_ADD_RTN_F16", 0x3c003c00, 0x3c003c00, 0, 0x40004000, true, false},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        hand *h = hand_make(SIM_GFX1200, 32);
        memcpy(h->lds + 80, &t[i].old, 8);
        h->w.s[SIM_S_EXEC_LO] = 1u << 31;
        HAND_V(h, 2, 31) = 64;
        hand_addr(h, 10, 31, t[i].a);
        hand_addr(h, 12, 31, t[i].b);
        ds(h, t[i].name, t[i].rtn ? hand_v(20, 2) : HAND_NONE, hand_v(2, 1), hand_v(10, 1), hand_v(12, 1), 16);
        assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
        uint64_t x = 0;
        memcpy(&x, h->lds + 80, t[i].wide ? 8 : 4);
        assert_true(x == t[i].want);
        if (t[i].rtn) assert_int_equal(HAND_V(h, 20, 31), (uint32_t)t[i].old);
        if (t[i].rtn && t[i].wide) assert_int_equal(HAND_V(h, 21, 31), (uint32_t)(t[i].old >> 32));
        HAND_V(h, 2, 31) = 66;
        assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_MISALIGNED);
        assert_int_equal(h->w.fault.addr, 82);
        HAND_V(h, 2, 31) = sizeof h->lds - 16;
        assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_LDS);
        hand_free(h);
    }
    /* f32 denormals obey MODE. */
    hand *h = hand_make(SIM_GFX1100, 32);
    uint32_t tiny = 1;
    h->w.s[SIM_S_EXEC_LO] = 1;
    HAND_V(h, 10, 0) = 1;
    memcpy(h->lds, &tiny, 4);
    ds(h, "DS_ADD_F32", HAND_NONE, hand_v(2, 1), hand_v(10, 1), HAND_NONE, 0);
    assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
    assert_int_equal(at32(h->lds), 2);
    h->w.mode = 0xc0;
    assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
    assert_int_equal(at32(h->lds), 0);
    hand_free(h);
}

static void test_faults(void **state) {
    (void)state;
    hand *h = hand_make(SIM_GFX1100, 32);
    for (unsigned i = 0; i < 32; i++) HAND_V(h, 2, i) = sizeof h->lds - 4 - 4 * i;
    ds(h, "DS_LOAD_B32", hand_v(10, 1), hand_v(2, 1), HAND_NONE, HAND_NONE, 0);
    assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
    HAND_V(h, 2, 13) = sizeof h->lds - 3;
    assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_LDS);
    assert_true(h->w.fault.lane == 13 && h->w.fault.addr == sizeof h->lds - 3 && h->w.fault.size_bytes == 4 &&
                !h->w.fault.store);
    h->w.s[SIM_S_EXEC_LO] &= ~(1u << 13);
    assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
    h->group.lds_bytes = 0;
    assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_LDS);
    ds(h, "DS_STORE_B64", HAND_NONE, hand_v(2, 1), hand_v(10, 2), HAND_NONE, 65535);
    assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_LDS);
    assert_true(h->w.fault.store && h->w.fault.lane == 0);
    h->w.s[SIM_S_EXEC_LO] = 0;
    ds(h, "DS_LOAD_B128", hand_v(10, 4), hand_v(2, 1), HAND_NONE, HAND_NONE, 0);
    assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
    for (const char *const *n = (const char *const[]){"DS_GWS_BARRIER", "DS_ORDERED_COUNT", "DS_BVH_STACK_RTN_B32", NULL}; *n;
         n++) {
        ds(h, *n, hand_v(10, 1), hand_v(2, 1), hand_v(10, 1), hand_v(12, 1), 0);
        assert_int_equal(hand_bound(h, sim_bind_lds), SIM_BOUND_NO);
    }
    hand_free(h);
}

static void run_swizzle(hand *h, unsigned off) {
    for (unsigned i = 0; i < h->w.lanes; i++) HAND_V(h, 2, i) = i;
    ds(h, "DS_SWIZZLE_B32", hand_v(10, 1), hand_v(2, 1), HAND_NONE, HAND_NONE, off);
    assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
}
static void test_swizzle(void **state) {
    (void)state;
    hand *h = hand_make(SIM_GFX942, 64);
    run_swizzle(h, 0x041f); /* and 0x1f, xor 1: neighbours change places */
    for (unsigned i = 0; i < 64; i++) assert_int_equal(HAND_V(h, 10, i), i ^ 1);
    run_swizzle(h, 0x001c | 2 << 5); /* and 0x1c or 2: broadcast the third of four */
    for (unsigned i = 0; i < 64; i++) assert_int_equal(HAND_V(h, 10, i), (i & ~3u) | 2);
    run_swizzle(h, 0x8000 | 0x1b); /* reverse four */
    for (unsigned i = 0; i < 64; i++) assert_int_equal(HAND_V(h, 10, i), i ^ 3);
    run_swizzle(h, 0xc000 | 5 << 5); /* rotate by 5 within 32 */
    for (unsigned i = 0; i < 64; i++) assert_int_equal(HAND_V(h, 10, i), (i & 32) | ((i + 5) & 31));
    run_swizzle(h, 0xe000); /* bit reversal */
    static const uint8_t fft[8] = {0, 16, 8, 24, 4, 20, 12, 28};
    for (unsigned i = 0; i < 8; i++) assert_int_equal(HAND_V(h, 10, i + 32), fft[i] + 32);
    run_swizzle(h, 0xe01f);
    for (unsigned i = 0; i < 64; i++) assert_int_equal(HAND_V(h, 10, i), i);
    h->w.s[SIM_S_EXEC_LO] = ~8u; /* a lane that is off gives 0 */
    HAND_V(h, 10, 3) = 99;
    run_swizzle(h, 0x041f);
    assert_int_equal(HAND_V(h, 10, 2), 0);
    assert_int_equal(HAND_V(h, 10, 3), 99);
    hand_free(h);
}

static void test_permute(void **state) {
    (void)state;
    static const struct {
        sim_isa isa;
        unsigned lanes, span;
    } t[] = {{SIM_GFX942, 64, 64}, {SIM_GFX1100, 32, 32}, {SIM_GFX1100, 64, 32}, {SIM_GFX1200, 64, 64}};
    for (size_t k = 0; k < sizeof t / sizeof *t; k++) {
        hand *h = hand_make(t[k].isa, t[k].lanes);
        unsigned s = t[k].span;
        for (unsigned i = 0; i < t[k].lanes; i++) HAND_V(h, 2, i) = (i * 7 + 3) * 4 + 1, HAND_V(h, 4, i) = 1000 + i;
        ds(h, "DS_BPERMUTE_B32", hand_v(10, 1), hand_v(2, 1), hand_v(4, 1), HAND_NONE, 4);
        h->w.s[SIM_S_EXEC_LO] = ~(1u << 11); /* lane 1 fetches from 11 */
        HAND_V(h, 10, 11) = 5;
        assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
        for (unsigned i = 0; i < t[k].lanes; i++) {
            unsigned from = (i / s * s) | ((i * 7 + 4) % s);
            assert_int_equal(HAND_V(h, 10, i), i == 11 ? 5 : from == 11 ? 0 : 1000 + from);
        }
        ds(h, "DS_BPERMUTE_FI_B32", hand_v(10, 1), hand_v(2, 1), hand_v(4, 1), HAND_NONE, 4);
        assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
        assert_int_equal(HAND_V(h, 10, 1), 1011);
        /* Sending: the highest of several wins, nobody: 0. */
        for (unsigned i = 0; i < t[k].lanes; i++) HAND_V(h, 2, i) = i < 3 ? 20 : i * 4;
        ds(h, "DS_PERMUTE_B32", hand_v(10, 1), hand_v(2, 1), hand_v(4, 1), HAND_NONE, 0);
        h->w.s[SIM_S_EXEC_LO] = 7;
        h->w.s[SIM_S_EXEC_HI] = 0;
        assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
        assert_int_equal(HAND_V(h, 10, 0), 0);
        h->w.s[SIM_S_EXEC_LO] = 0x27;
        HAND_V(h, 2, 5) = 0;
        assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
        assert_int_equal(HAND_V(h, 10, 0), 1005);
        assert_int_equal(HAND_V(h, 10, 5), 1002);
        hand_free(h);
    }
}

static void test_counters(void **state) {
    (void)state;
    hand *h = hand_make(SIM_GFX1100, 32);
    uint32_t x = 10;
    h->w.s[SIM_S_M0] = 64 << 16;
    memcpy(h->lds + 72, &x, 4);
    h->w.s[SIM_S_EXEC_LO] = 0x111;
    ds(h, "DS_APPEND", hand_v(10, 1), HAND_NONE, HAND_NONE, HAND_NONE, 8);
    assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
    assert_int_equal(HAND_V(h, 10, 4), 10);
    assert_int_equal(HAND_V(h, 10, 5), 0);
    assert_int_equal(at32(h->lds + 72), 13);
    ds(h, "DS_CONSUME", hand_v(10, 1), HAND_NONE, HAND_NONE, HAND_NONE, 8);
    assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
    assert_int_equal(HAND_V(h, 10, 8), 13);
    assert_int_equal(at32(h->lds + 72), 10);
    h->w.s[SIM_S_M0] = 16;
    ds(h, "DS_STORE_ADDTID_B32", HAND_NONE, HAND_NONE, hand_v(10, 1), HAND_NONE, 4);
    assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
    assert_int_equal(at32(h->lds + 20 + 8 * 4), 13);
    /* Bit 31 of each half says whether it is written; it is not stored. */
    HAND_V(h, 2, 0) = 100;
    hand_addr(h, 10, 0, 0x0000000580000007ull);
    memset(h->lds + 104, 0xff, 8);
    h->w.s[SIM_S_EXEC_LO] = 1;
    ds(h, "DS_CONDXCHG32_RTN_B64", hand_v(20, 2), hand_v(2, 1), hand_v(10, 2), HAND_NONE, 7);
    assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
    assert_int_equal(at32(h->lds + 104), 7);
    assert_int_equal(at32(h->lds + 108), 0xffffffff);
    hand_free(h);
}

/* Lanes of sixteen read rows of a block; each gets a column. */
static void test_transpose(void **state) {
    (void)state;
    hand *h = hand_make(SIM_GFX950, 64);
    for (unsigned e = 0; e < 4096; e++) memcpy(h->lds + 2 * e, &(uint16_t){(uint16_t)e}, 2);
    for (unsigned i = 0; i < 64; i++) HAND_V(h, 2, i) = i * 8;
    ds(h, "DS_READ_B64_TR_B16", hand_v(10, 2), hand_v(2, 1), HAND_NONE, HAND_NONE, 0);
    assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
    for (unsigned i = 0; i < 64; i++)
        for (unsigned e = 0; e < 4; e++)
            assert_int_equal(HAND_V(h, 10 + e / 2, i) >> 16 * (e & 1) & 0xffff, i / 16 * 64 + e * 16 + i % 16);
    for (unsigned e = 0; e < 8192; e++) h->lds[e] = (uint8_t)(e % 251);
    ds(h, "DS_READ_B64_TR_B8", hand_v(10, 2), hand_v(2, 1), HAND_NONE, HAND_NONE, 0);
    assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
    for (unsigned i = 0; i < 64; i++)
        for (unsigned e = 0; e < 8; e++)
            assert_int_equal(HAND_V(h, 10 + e / 4, i) >> 8 * (e & 3) & 0xff, (i / 16 * 128 + e * 16 + i % 16) % 251);
    ds(h, "DS_READ_B64_TR_B4", hand_v(10, 2), hand_v(2, 1), HAND_NONE, HAND_NONE, 0);
    assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
    for (unsigned i = 0; i < 64; i++)
        for (unsigned e = 0; e < 16; e++) {
            unsigned nibble = i / 16 * 256 + e * 16 + i % 16;
            assert_int_equal(HAND_V(h, 10 + e / 8, i) >> 4 * (e & 7) & 15, h->lds[nibble / 2] >> 4 * (nibble & 1) & 15);
        }
    for (unsigned i = 0; i < 64; i++) HAND_V(h, 2, i) = i * 12;
    ds(h, "DS_READ_B96_TR_B6", hand_v(10, 3), hand_v(2, 1), HAND_NONE, HAND_NONE, 0);
    assert_int_equal(hand_run(h, sim_bind_lds), SIM_FAULT_NONE);
    for (unsigned i = 0; i < 64; i++)
        for (unsigned e = 0; e < 16; e++) {
            unsigned bit = (i / 16 * 256 + e * 16 + i % 16) * 6, got = 0;
            for (unsigned k = 0; k < 6; k++) got |= (HAND_V(h, 10 + (e * 6 + k) / 32, i) >> (e * 6 + k) % 32 & 1) << k;
            assert_int_equal(got, (h->lds[bit / 8] | h->lds[bit / 8 + 1] << 8) >> bit % 8 & 63);
        }
    hand_free(h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load_store), cmocka_unit_test(test_small),   cmocka_unit_test(test_two),
        cmocka_unit_test(test_runs_in_part),
        cmocka_unit_test(test_atomics),    cmocka_unit_test(test_faults),  cmocka_unit_test(test_swizzle),
        cmocka_unit_test(test_permute),    cmocka_unit_test(test_counters), cmocka_unit_test(test_transpose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
