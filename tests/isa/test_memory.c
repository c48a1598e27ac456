/* FLAT, GLOBAL, SCRATCH, SMEM: values worked by hand, and each fault. (Buffers: test_buffer.c.) */
#include "isa/hand.h"

#include "base/half.h"
#include "isa/memory_atomic.h"

#include <pthread.h>

static void global(hand *h, const char *meaning, sim_operand dst, sim_operand addr, sim_operand saddr, sim_operand data,
                   int32_t off) {
    h->inst = (sim_inst){.meaning = meaning,
                         .mnemonic = meaning,
                         .format = SIM_GLOBAL,
                         .dst = dst,
                         .addr = addr,
                         .saddr = saddr,
                         .data = data,
                         .offset_imm = off};
}
static void fill(void *p, size_t n) {
    for (size_t i = 0; i < n; i++) ((uint8_t *)p)[i] = (uint8_t)(i * 37 + (i >> 8));
}
static uint32_t at32(const uint8_t *p) {
    uint32_t x;
    memcpy(&x, p, 4);
    return x;
}

/* Every width at contiguous, strided, descending and masked lanes, by both addressings. */
static void load_widths(sim_isa isa, unsigned lanes, const char *const names[4]) {
    hand *h = hand_make(isa, lanes);
    uint64_t a = hand_alloc(h, 65536);
    uint8_t *p = hand_host(h, a, 65536);
    fill(p, 65536);
    static const unsigned dwords[4] = {1, 2, 3, 4};
    for (unsigned k = 0; k < 4; k++)
        for (unsigned form = 0; form < 4; form++)
            for (unsigned saddr = 0; saddr < 2; saddr++)
                for (unsigned part = 0; part < 2; part++) {
                    uint64_t mask = part ? 0x80000000a5a5a5a5ull : ~0ull;
                    h->w.s[SIM_S_EXEC_LO] = (uint32_t)mask;
                    h->w.s[SIM_S_EXEC_HI] = lanes == 64 ? (uint32_t)(mask >> 32) : 0;
                    uint32_t off[64];
                    for (unsigned i = 0; i < lanes; i++) {
                        off[i] = form == 0 ? i * dwords[k] * 4 : form == 1 ? i * 256 + 3 : form == 2 ? (lanes - i) * 20 : 64;
                        if (saddr) HAND_V(h, 2, i) = off[i];
                        else hand_addr(h, 2, i, a + off[i] + 8);
                        for (unsigned d = 0; d < 4; d++) HAND_V(h, 10 + d, i) = 0xdeadbeef;
                    }
                    h->w.s[4] = (uint32_t)(a + 24), h->w.s[5] = (uint32_t)((a + 24) >> 32);
                    global(h, names[k], hand_v(10, dwords[k]), hand_v(2, saddr ? 1 : 2), saddr ? hand_s(4, 2) : HAND_NONE,
                           HAND_NONE, saddr ? -16 : 0);
                    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
                    for (unsigned i = 0; i < lanes; i++)
                        for (unsigned d = 0; d < 4; d++)
                            assert_int_equal(HAND_V(h, 10 + d, i),
                                             d < dwords[k] && mask >> i & 1 ? at32(p + off[i] + 8 + 4 * d) : 0xdeadbeef);
                }
    hand_free(h);
}
static void test_global_load(void **state) {
    (void)state;
    static const char *const rdna[4] = {"GLOBAL_LOAD_B32", "GLOBAL_LOAD_B64", "GLOBAL_LOAD_B96", "GLOBAL_LOAD_B128"};
    static const char *const cdna[4] = {"GLOBAL_LOAD_DWORD", "GLOBAL_LOAD_DWORDX2", "GLOBAL_LOAD_DWORDX3",
                                        "GLOBAL_LOAD_DWORDX4"};
    load_widths(SIM_GFX1100, 32, rdna);
    load_widths(SIM_GFX942, 64, cdna);
}

/* A load whose destination is its own address. */
static void test_load_over_address(void **state) {
    (void)state;
    for (unsigned form = 0; form < 3; form++) {
        hand *h = hand_make(SIM_GFX1100, 32);
        uint64_t a = hand_alloc(h, 4096);
        uint8_t *p = hand_host(h, a, 4096);
        fill(p, 4096);
        for (unsigned i = 0; i < 32; i++) hand_addr(h, 2, i, a + i * (form ? 100 : 16));
        global(h, form == 2 ? "GLOBAL_LOAD_B64" : "GLOBAL_LOAD_B128", hand_v(2, form == 2 ? 2 : 4), hand_v(2, 2), HAND_NONE,
               HAND_NONE, 0);
        assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
        for (unsigned i = 0; i < 32; i++)
            for (unsigned d = 0; d < (form == 2 ? 2u : 4u); d++)
                assert_int_equal(HAND_V(h, 2 + d, i), at32(p + i * (form ? 100 : 16) + 4 * d));
        hand_free(h);
    }
}

static void test_global_store(void **state) {
    (void)state;
    static const char *const names[4] = {"GLOBAL_STORE_B32", "GLOBAL_STORE_B64", "GLOBAL_STORE_B96", "GLOBAL_STORE_B128"};
    for (unsigned lanes = 32; lanes <= 64; lanes += 32)
        for (unsigned k = 0; k < 4; k++)
            for (unsigned form = 0; form < 3; form++) {
                hand *h = hand_make(SIM_GFX1100, lanes);
                uint64_t a = hand_alloc(h, 16384);
                uint8_t *p = hand_host(h, a, 16384);
                uint64_t mask = form == 2 ? 0x1234567812345678ull : ~0ull;
                h->w.s[SIM_S_EXEC_LO] = (uint32_t)mask;
                if (lanes == 64) h->w.s[SIM_S_EXEC_HI] = (uint32_t)(mask >> 32);
                uint32_t step = form == 0 ? 4 * (k + 1) : 200;
                for (unsigned i = 0; i < lanes; i++) {
                    hand_addr(h, 2, i, a + i * step);
                    for (unsigned d = 0; d < 4; d++) HAND_V(h, 10 + d, i) = 0x1000 * d + i + 1;
                }
                global(h, names[k], HAND_NONE, hand_v(2, 2), HAND_NONE, hand_v(10, k + 1), 0);
                assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
                for (unsigned i = 0; i < lanes; i++)
                    for (unsigned d = 0; d <= k; d++)
                        assert_int_equal(at32(p + i * step + 4 * d), mask >> i & 1 ? 0x1000 * d + i + 1 : 0);
                hand_free(h);
            }
}

static void test_small(void **state) {
    (void)state;
    hand *h = hand_make(SIM_GFX1100, 32);
    uint64_t a = hand_alloc(h, 64);
    uint8_t *p = hand_host(h, a, 64);
    p[0] = 0x80, p[1] = 0xff, p[2] = 0x34, p[3] = 0x12;
    h->w.s[SIM_S_EXEC_LO] = 1;
    hand_addr(h, 2, 0, a);
    static const struct {
        const char *name;
        uint32_t want;
    } loads[] = {{"U8", 0x80},
                 {"UBYTE", 0x80},
                 {"I8", 0xffffff80},
                 {"SBYTE", 0xffffff80},
                 {"U16", 0xff80},
                 {"USHORT", 0xff80},
                 {"I16", 0xffffff80},
                 {"SSHORT", 0xffffff80},
                 {"D16_U8", 0xaaaa0080},
                 {"UBYTE_D16", 0xaaaa0080},
                 {"D16_I8", 0xaaaaff80},
                 {"SBYTE_D16", 0xaaaaff80},
                 {"D16_B16", 0xaaaaff80},
                 {"SHORT_D16", 0xaaaaff80},
                 {"D16_HI_U8", 0x0080bbbb},
                 {"UBYTE_D16_HI", 0x0080bbbb},
                 {"D16_HI_I8", 0xff80bbbb},
                 {"SBYTE_D16_HI", 0xff80bbbb},
                 {"D16_HI_B16", 0xff80bbbb},
                 {"SHORT_D16_HI", 0xff80bbbb}};
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++)
        for (unsigned f = 0; f < 3; f++) {
            static const char *const prefix[3] = {"GLOBAL_LOAD_", "FLAT_LOAD_", "SCRATCH_LOAD_"};
            char name[40] = "";
            strcat(strcpy(name, prefix[f]), loads[i].name);
            global(h, name, hand_v(10, 1), hand_v(2, 2), HAND_NONE, HAND_NONE, 0);
            h->inst.format = f == 0 ? SIM_GLOBAL : f == 1 ? SIM_FLAT : SIM_SCRATCH;
            uint32_t keep = HAND_V(h, 2, 0);
            if (f == 2) {
                HAND_V(h, 2, 0) = 8;
                memcpy(h->scratch + 8 * 32, p, 4);
            }
            HAND_V(h, 10, 0) = 0xaaaabbbb;
            assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
            assert_int_equal(HAND_V(h, 10, 0), loads[i].want);
            HAND_V(h, 2, 0) = keep;
        }
    static const struct {
        const char *name;
        uint32_t want;
    } stores[] = {{"B8", 0xeeeeee44},         {"BYTE", 0xeeeeee44},        {"B16", 0xeeee3344},
                  {"SHORT", 0xeeee3344},      {"D16_HI_B8", 0xeeeeee22},   {"BYTE_D16_HI", 0xeeeeee22},
                  {"D16_HI_B16", 0xeeee1122}, {"SHORT_D16_HI", 0xeeee1122}};
    for (size_t i = 0; i < sizeof stores / sizeof *stores; i++) {
        char name[40] = "GLOBAL_STORE_";
        strcat(name, stores[i].name);
        memset(p, 0xee, 8);
        HAND_V(h, 10, 0) = 0x11223344;
        global(h, name, HAND_NONE, hand_v(2, 2), HAND_NONE, hand_v(10, 1), 0);
        assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
        assert_int_equal(at32(p), stores[i].want);
    }
    hand_free(h);
}

/* Small elements of all lanes, side by side and apart. */
static void test_small_lanes(void **state) {
    (void)state;
    for (unsigned lanes = 32; lanes <= 64; lanes += 32)
        for (unsigned step = 1; step < 12; step += 5) {
            hand *h = hand_make(SIM_GFX1100, lanes);
            uint64_t a = hand_alloc(h, 64 * 11 + 2);
            uint8_t *p = hand_host(h, a, 64 * 11 + 2);
            fill(p, 64 * 11 + 2);
            for (unsigned i = 0; i < lanes; i++) hand_addr(h, 2, i, a + i * step), HAND_V(h, 10, i) = 0x55660000 + i;
            global(h, "GLOBAL_LOAD_D16_HI_I8", hand_v(10, 1), hand_v(2, 2), HAND_NONE, HAND_NONE, 1);
            assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
            for (unsigned i = 0; i < lanes; i++)
                assert_int_equal(HAND_V(h, 10, i), (uint32_t)(uint16_t)(int8_t)p[i * step + 1] << 16 | i);
            global(h, "GLOBAL_LOAD_U16", hand_v(2, 1), hand_v(2, 2), HAND_NONE, HAND_NONE, 0);
            assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
            for (unsigned i = 0; i < lanes; i++) assert_int_equal(HAND_V(h, 2, i), p[i * step] | p[i * step + 1] << 8);
            for (unsigned i = 0; i < lanes; i++) hand_addr(h, 2, i, a + i * step), HAND_V(h, 10, i) = i * 0x10001 + 0x770000;
            global(h, "GLOBAL_STORE_D16_HI_B8", HAND_NONE, hand_v(2, 2), HAND_NONE, hand_v(10, 1), 0);
            assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
            for (unsigned i = 0; i < lanes; i++) assert_int_equal(p[i * step], (uint8_t)(i + 0x77));
            hand_addr(h, 2, 3, a + 64 * 11 + 1);
            global(h, "GLOBAL_STORE_B16", HAND_NONE, hand_v(2, 2), HAND_NONE, hand_v(10, 1), 0);
            assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_MEMORY);
            assert_int_equal(h->w.fault.lane, 3);
            hand_free(h);
        }
}

/* Faults name lane, address and size. */
static void expect(hand *h, sim_fault_kind kind, int lane, uint64_t addr, uint32_t size, bool store) {
    assert_int_equal(hand_run(h, sim_bind_memory), kind);
    assert_int_equal(h->w.fault.lane, lane);
    assert_true(h->w.fault.addr == addr);
    assert_int_equal(h->w.fault.size_bytes, size);
    assert_int_equal(h->w.fault.store, store);
    assert_ptr_equal(h->w.fault.inst, &h->inst);
}
static void test_faults(void **state) {
    (void)state;
    hand *h = hand_make(SIM_GFX1100, 32);
    och_err err = {0};
    uint64_t a = hand_alloc(h, 32 * 16), b = hand_alloc(h, 4096);
    for (unsigned i = 0; i < 32; i++) hand_addr(h, 2, i, a + 16 * i);
    global(h, "GLOBAL_LOAD_B128", hand_v(10, 4), hand_v(2, 2), HAND_NONE, HAND_NONE, 0);
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    h->inst.offset_imm = 4; /* the last lane runs over the end */
    expect(h, SIM_FAULT_MEMORY, 31, a + 16 * 31 + 4, 16, false);
    h->inst.offset_imm = -4; /* the first begins before */
    expect(h, SIM_FAULT_MEMORY, 0, a - 4, 16, false);
    h->inst.offset_imm = 0;
    hand_addr(h, 2, 7, 16); /* a null pointer's member */
    expect(h, SIM_FAULT_MEMORY, 7, 16, 16, false);
    h->w.s[SIM_S_EXEC_LO] &= ~(1u << 7); /* off: not its fault */
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    h->w.s[SIM_S_EXEC_LO] = 0xffffffff;
    hand_addr(h, 2, 7, b); /* another allocation is as good */
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    hand_addr(h, 2, 7, a + 16 * 7);
    h->w.s[SIM_S_EXEC_LO] = 0;
    h->inst.offset_imm = 1 << 20;
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    h->w.s[SIM_S_EXEC_LO] = 0xffffffff;
    h->inst.offset_imm = 0;
    /* Read-only. */
    assert_int_equal(sim_space_mark(h->space, a, true, 0, NULL, &err), OCH_OK);
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    global(h, "GLOBAL_STORE_B128", HAND_NONE, hand_v(2, 2), HAND_NONE, hand_v(10, 4), 0);
    expect(h, SIM_FAULT_READONLY, 0, a, 16, true);
    global(h, "GLOBAL_ATOMIC_ADD_U32", HAND_NONE, hand_v(2, 2), HAND_NONE, hand_v(10, 1), 0);
    expect(h, SIM_FAULT_READONLY, 0, a, 4, true);
    /* A part of it may be written. */
    assert_int_equal(sim_space_protect(h->space, a, a + 64, a + 128, &err), OCH_OK);
    h->w.s[SIM_S_EXEC_LO] = 0xf0;
    global(h, "GLOBAL_STORE_B128", HAND_NONE, hand_v(2, 2), HAND_NONE, hand_v(10, 4), 0);
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    global(h, "GLOBAL_ATOMIC_ADD_U32", HAND_NONE, hand_v(2, 2), HAND_NONE, hand_v(10, 1), 0);
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    h->w.s[SIM_S_EXEC_LO] = 0x1f0;
    global(h, "GLOBAL_STORE_B128", HAND_NONE, hand_v(2, 2), HAND_NONE, hand_v(10, 4), 0);
    expect(h, SIM_FAULT_READONLY, 8, a + 128, 16, true);
    h->w.s[SIM_S_EXEC_LO] = 0xf8;
    expect(h, SIM_FAULT_READONLY, 3, a + 48, 16, true);
    global(h, "GLOBAL_STORE_B128", HAND_NONE, hand_v(2, 2), HAND_NONE, hand_v(10, 4), 4);
    h->w.s[SIM_S_EXEC_LO] = 0xf0;
    expect(h, SIM_FAULT_READONLY, 7, a + 16 * 7 + 4, 16, true);
    global(h, "GLOBAL_LOAD_B128", hand_v(10, 4), hand_v(2, 2), HAND_NONE, HAND_NONE, 0);
    h->w.s[SIM_S_EXEC_LO] = 0xffffffff;
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    /* Freed: by the cached range of the same uop too. */
    global(h, "GLOBAL_LOAD_B128", hand_v(10, 4), hand_v(2, 2), HAND_NONE, HAND_NONE, 0);
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    assert_int_equal(sim_space_free(h->space, a, &err), OCH_OK);
    expect(h, SIM_FAULT_FREED, 0, a, 16, false);
    /* Misaligned: loads may, atomics may not. */
    for (unsigned i = 0; i < 32; i++) hand_addr(h, 2, i, b + 1);
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    global(h, "GLOBAL_ATOMIC_ADD_U32", HAND_NONE, hand_v(2, 2), HAND_NONE, hand_v(10, 1), 1);
    expect(h, SIM_FAULT_MISALIGNED, 0, b + 2, 4, true);
    global(h, "GLOBAL_ATOMIC_ADD_U64", HAND_NONE, hand_v(2, 2), HAND_NONE, hand_v(10, 2), 3);
    expect(h, SIM_FAULT_MISALIGNED, 0, b + 4, 8, true);
    hand_free(h);
}

/* Lanes at both sides of a 4 GiB line, and an allocation larger than a window. */
static void test_window(void **state) {
    (void)state;
    hand *h = hand_make(SIM_GFX1100, 32);
    uint64_t a = hand_alloc(h, (uint64_t)9 << 30), line = (a + 0x100000000ull) & ~0xffffffffull;
    uint8_t *p = hand_host(h, a, (uint64_t)9 << 30);
    for (unsigned i = 0; i < 32; i++) {
        uint64_t addr = line + (uint64_t)i * 4 - 64;
        uint32_t x = i + 100;
        memcpy(p + (addr - a), &x, 4);
        hand_addr(h, 2, i, addr);
    }
    global(h, "GLOBAL_LOAD_B32", hand_v(10, 1), hand_v(2, 2), HAND_NONE, HAND_NONE, 0);
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    for (unsigned i = 0; i < 32; i++) assert_int_equal(HAND_V(h, 10, i), i + 100);
    /* Offsets from a scalar base over the whole 4 GiB. */
    for (unsigned k = 0; k < 2; k++) {
        for (unsigned i = 0; i < 32; i++) {
            HAND_V(h, 2, i) = i * 0x08000000u + 0x7f0;
            for (unsigned d = 0; d < 2; d++) {
                uint32_t x = i * 16 + d + 5;
                memcpy(p + HAND_V(h, 2, i) + 4 * d, &x, 4);
            }
        }
        h->w.s[4] = (uint32_t)a, h->w.s[5] = (uint32_t)(a >> 32);
        global(h, k ? "GLOBAL_LOAD_B64" : "GLOBAL_LOAD_B32", hand_v(10, k + 1), hand_v(2, 1), hand_s(4, 2), HAND_NONE, 0);
        assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
        for (unsigned i = 0; i < 32; i++)
            for (unsigned d = 0; d <= k; d++) assert_int_equal(HAND_V(h, 10 + d, i), i * 16 + d + 5);
    }
    hand_free(h);
}

static void test_atomics(void **state) {
    (void)state;
    static const uint32_t one = 0x3f800000, two = 0x40000000, nan = 0x7fc00001;
    static const struct {
        const char *name;
        uint32_t old, data, cmp, want;
    } t[] = {
        {"ADD_U32", 5, 7, 0, 12},
        {"ADD", 0xffffffff, 2, 0, 1},
        {"SUB_U32", 5, 7, 0, 0xfffffffe},
        {"SWAP_B32", 1, 2, 0, 2},
        {"CMPSWAP_B32", 9, 3, 9, 3},
        {"CMPSWAP_B32", 9, 3, 8, 9},
        {"MIN_I32", 5, 0xffffffff, 0, 0xffffffff},
        {"MIN_U32", 5, 0xffffffff, 0, 5},
        {"MAX_I32", 5, 0xffffffff, 0, 5},
        {"MAX_U32", 5, 0xffffffff, 0, 0xffffffff},
        {"SMIN", 5, 0xffffffff, 0, 0xffffffff},
        {"UMAX", 5, 9, 0, 9},
        {"AND_B32", 12, 10, 0, 8},
        {"OR_B32", 12, 10, 0, 14},
        {"XOR_B32", 12, 10, 0, 6},
        {"INC_U32", 5, 5, 0, 0},
        {"INC_U32", 4, 5, 0, 5},
        {"DEC_U32", 0, 5, 0, 5},
        {"DEC_U32", 6, 5, 0, 5},
        {"DEC_U32", 3, 5, 0, 2},
        {"CSUB_U32", 5, 7, 0, 0},
        {"SUB_CLAMP_U32", 9, 7, 0, 2},
        {"COND_SUB_U32", 5, 7, 0, 5},
        {"COND_SUB_U32", 7, 7, 0, 0},
        {"ADD_F32", one, one, 0, two},
        {"MIN_F32", two, one, 0, one},
        {"MAX_F32", two, nan, 0, two},
        {"MAX_NUM_F32", nan, one, 0, one},
        {"MIN_NUM_F32", 0, 0x80000000, 0, 0x80000000},
        {"MAX_NUM_F32", 0x80000000, 0, 0, 0},
        {"MIN_NUM_F32", 0x7f800001, 0x7f800002, 0, 0x7fc00002},
        {"CMPSWAP_F32", 0x80000000, 3, 0, 3},
        {"PK_ADD_F16", 0x3c003c00, 0x40003c00, 0, 0x42004000},
        {"PK_ADD_BF16", 0x3f803f80, 0x40003f80, 0, 0x40404000},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++)
        for (unsigned rtn = 0; rtn < 2; rtn++)
            for (unsigned flat = 0; flat < 4; flat++) { /* global, flat to global, to LDS, to scratch */
                hand *h = hand_make(SIM_GFX1200, 32);
                uint64_t a = hand_alloc(h, 64);
                uint8_t *p = hand_host(h, a, 64);
                if (flat == 2) a = SIM_SHARED_BASE + 64, p = h->lds + 64;
                if (flat == 3) a = SIM_PRIVATE_BASE + 64, p = h->scratch + 64 * 32 + 3 * 4;
                memcpy(p, &t[i].old, 4);
                h->w.s[SIM_S_EXEC_LO] = 8;
                hand_addr(h, 2, 3, a);
                HAND_V(h, 10, 3) = t[i].data;
                HAND_V(h, 11, 3) = t[i].cmp;
                HAND_V(h, 20, 3) = 0x777;
                char name[40] = "GLOBAL_ATOMIC_";
                if (flat) strcpy(name, "FLAT_ATOMIC_");
                strcat(name, t[i].name);
                global(h, name, rtn ? hand_v(20, 1) : HAND_NONE, hand_v(2, 2), HAND_NONE, hand_v(10, 2), 0);
                if (flat) h->inst.format = SIM_FLAT;
                assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
                assert_int_equal(at32(p), t[i].want);
                assert_int_equal(HAND_V(h, 20, 3), rtn ? t[i].old : 0x777);
                hand_free(h);
            }
}

static void test_atomics64(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint64_t old, data, cmp, want;
    } t[] = {{"ADD_X2", 0xffffffffull, 1, 0, 0x100000000ull}, {"CMPSWAP_B64", 1ull << 40, 5, 1ull << 40, 5},
             {"MAX_I64", 5, ~0ull, 0, 5}, {"MIN_I64", 5, ~0ull, 0, ~0ull}, {"DEC_U64", 0, 1ull << 33, 0, 1ull << 33},
             {"ADD_F64", 0x3ff0000000000000ull, 0x3ff0000000000000ull, 0, 0x4000000000000000ull},
             {"MIN_F64", 0x3ff0000000000000ull, 0xbff0000000000000ull, 0, 0xbff0000000000000ull}};
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        hand *h = hand_make(SIM_GFX90A, 64);
        uint64_t a = hand_alloc(h, 64), x;
        uint8_t *p = hand_host(h, a, 64);
        memcpy(p + 8, &t[i].old, 8);
        h->w.s[SIM_S_EXEC_LO] = 0, h->w.s[SIM_S_EXEC_HI] = 1u << 31;
        hand_addr(h, 2, 63, a);
        hand_addr(h, 10, 63, t[i].data);
        hand_addr(h, 12, 63, t[i].cmp);
        char name[40] = "GLOBAL_ATOMIC_";
        strcat(name, t[i].name);
        global(h, name, hand_v(20, 2), hand_v(2, 2), HAND_NONE, hand_v(10, 4), 8);
        assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
        memcpy(&x, p + 8, 8);
        assert_true(x == t[i].want);
        assert_true((HAND_V(h, 20, 63) | (uint64_t)HAND_V(h, 21, 63) << 32) == t[i].old);
        hand_free(h);
    }
}

/* Host threads run workgroups side by side: their atomics are atomic, whatever the operation. */
enum { ROUNDS = 20000 };
static void *pound(void *arg) {
    uint32_t *p = arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        sim_atomic_host(SIM_AT_ADD, &p[0], 1, 0);
        sim_atomic_host(SIM_AT_INC, &p[1], 0xffffffff, 0);
        sim_atomic_host(SIM_AT_FADD, &p[2], 0x3f800000, 0);
        sim_atomic_host(SIM_AT_FADD + SIM_AT_64, &p[4], 0x3ff0000000000000ull, 0);
        sim_atomic_host(SIM_AT_SUB_CLAMP, &p[6], 1, 0);
    }
    return NULL;
}
static void test_atomic_threads(void **state) {
    (void)state;
    _Alignas(8) uint32_t p[8] = {[6] = 2 * ROUNDS + 5};
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, pound, p), 0);
    pound(p);
    pthread_join(other, NULL);
    double d;
    memcpy(&d, &p[4], 8);
    assert_int_equal(p[0], 2 * ROUNDS);
    assert_int_equal(p[1], 2 * ROUNDS);
    assert_true(och_f32_from_bits(p[2]) == 2 * ROUNDS && d == 2 * ROUNDS);
    assert_int_equal(p[6], 5);
}

/* All lanes add to one word: lanes act one after the other. */
static void test_atomic_order(void **state) {
    (void)state;
    hand *h = hand_make(SIM_GFX1100, 32);
    uint64_t a = hand_alloc(h, 64);
    for (unsigned i = 0; i < 32; i++) hand_addr(h, 2, i, a), HAND_V(h, 10, i) = 1;
    global(h, "GLOBAL_ATOMIC_ADD_U32", hand_v(20, 1), hand_v(2, 2), HAND_NONE, hand_v(10, 1), 0);
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    for (unsigned i = 0; i < 32; i++) assert_int_equal(HAND_V(h, 20, i), i);
    assert_int_equal(at32(hand_host(h, a, 4)), 32);
    hand_free(h);
}

static void test_flat_places(void **state) {
    (void)state;
    hand *h = hand_make(SIM_GFX1100, 32);
    uint64_t a = hand_alloc(h, 64);
    uint32_t x = 0x11111111, y = 0x22222222;
    memcpy(hand_host(h, a, 4), &x, 4);
    memcpy(h->lds + 40, &y, 4);
    memcpy(h->scratch + (3 * 32 + 2) * 4, "abcd", 4); /* lane 2's bytes 12 to 15 */
    memcpy(h->scratch + (4 * 32 + 2) * 4, "efgh", 4);
    h->w.s[SIM_S_EXEC_LO] = 7;
    hand_addr(h, 2, 0, a);
    hand_addr(h, 2, 1, SIM_SHARED_BASE + 40);
    hand_addr(h, 2, 2, SIM_PRIVATE_BASE + 14); /* over the end of a dword */
    global(h, "FLAT_LOAD_B32", hand_v(10, 1), hand_v(2, 2), HAND_NONE, HAND_NONE, 0);
    h->inst.format = SIM_FLAT;
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    assert_int_equal(HAND_V(h, 10, 0), x);
    assert_int_equal(HAND_V(h, 10, 1), y);
    assert_memory_equal(&HAND_V(h, 10, 2), "cdef", 4);
    hand_addr(h, 2, 1, SIM_SHARED_BASE + sizeof h->lds - 2);
    expect(h, SIM_FAULT_LDS, 1, sizeof h->lds - 2, 4, false);
    hand_addr(h, 2, 1, a);
    hand_addr(h, 2, 2, SIM_PRIVATE_BASE + 254);
    expect(h, SIM_FAULT_SCRATCH, 2, 254, 4, false);
    /* GLOBAL knows no apertures. */
    h->inst.format = SIM_GLOBAL, h->inst.meaning = "GLOBAL_LOAD_B32";
    expect(h, SIM_FAULT_MEMORY, 2, SIM_PRIVATE_BASE + 254, 4, false);
    hand_free(h);
}

static void test_scratch(void **state) {
    (void)state;
    hand *h = hand_make(SIM_GFX942, 64);
    h->w.s[33] = 16;
    for (unsigned i = 0; i < 64; i++) {
        HAND_V(h, 2, i) = i;
        for (unsigned d = 0; d < 4; d++) HAND_V(h, 10 + d, i) = i * 10 + d;
    }
    global(h, "SCRATCH_STORE_DWORDX4", HAND_NONE, HAND_NONE, hand_s(33, 1), hand_v(10, 4), 8);
    h->inst.format = SIM_SCRATCH;
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    for (unsigned i = 0; i < 64; i++)
        for (unsigned d = 0; d < 4; d++) assert_int_equal(at32(h->scratch + ((24 / 4 + d) * 64 + i) * 4), i * 10 + d);
    /* vaddr + saddr + offset; a null saddr counts nothing. */
    for (unsigned i = 0; i < 64; i++) HAND_V(h, 2, i) = 4;
    global(h, "SCRATCH_LOAD_DWORD", hand_v(20, 1), hand_v(2, 1), hand_s(33, 1), HAND_NONE, 4);
    h->inst.format = SIM_SCRATCH;
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    assert_int_equal(HAND_V(h, 20, 9), 90);
    h->inst.saddr = hand_s(SIM_S_NULL, 1);
    h->inst.offset_imm = 24;
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    assert_int_equal(HAND_V(h, 20, 9), 91);
    /* Each lane another offset, not of whole dwords. */
    for (unsigned i = 0; i < 64; i++) HAND_V(h, 2, i) = i % 7;
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    for (unsigned i = 0; i < 64; i++) {
        uint8_t whole[12];
        for (unsigned d = 0; d < 3; d++) memcpy(whole + 4 * d, h->scratch + ((6 + d) * 64 + i) * 4, 4);
        assert_int_equal(HAND_V(h, 20, i), at32(whole + i % 7));
    }
    HAND_V(h, 2, 5) = 229;
    expect(h, SIM_FAULT_SCRATCH, 5, 253, 4, false);
    HAND_V(h, 2, 5) = 0xffffff00u;
    expect(h, SIM_FAULT_SCRATCH, 5, 0xffffff18u, 4, false);
    hand_free(h);
}

static void test_to_lds(void **state) {
    (void)state;
    hand *h = hand_make(SIM_GFX950, 64);
    uint64_t a = hand_alloc(h, 4096);
    uint8_t *p = hand_host(h, a, 4096);
    fill(p, 4096);
    h->w.s[SIM_S_M0] = 256;
    h->w.s[SIM_S_EXEC_LO] = ~2u;
    for (unsigned i = 0; i < 64; i++) hand_addr(h, 2, i, a + (63 - i) * 16);
    global(h, "GLOBAL_LOAD_LDS_DWORDX4", HAND_NONE, hand_v(2, 2), HAND_NONE, HAND_NONE, 16);
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    for (unsigned i = 0; i < 64; i++) {
        if (i == 1) assert_int_equal(at32(h->lds + 256 + 16 + i * 16), 0);
        else assert_memory_equal(h->lds + 256 + 16 + i * 16, p + 16 + (63 - i) * 16, 16);
    }
    global(h, "GLOBAL_LOAD_LDS_SBYTE", HAND_NONE, hand_v(2, 2), HAND_NONE, HAND_NONE, 0);
    p[0] = 0x90;
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    assert_int_equal(at32(h->lds + 256 + 63 * 4), 0xffffff90);
    h->w.s[SIM_S_M0] = sizeof h->lds - 8;
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_LDS);
    assert_int_equal(h->w.fault.lane, 2);
    hand_free(h);
}

static void smem(hand *h, const char *meaning, sim_operand dst, unsigned base, int32_t off, sim_operand soffset) {
    h->inst = (sim_inst){.meaning = meaning, .mnemonic = meaning, .format = SIM_SMEM, .dst = dst, .base = hand_s(base, 2),
                         .offset_imm = off, .soffset = soffset};
}
static void test_scalar(void **state) {
    (void)state;
    hand *h = hand_make(SIM_GFX1200, 32);
    uint64_t a = hand_alloc(h, 256);
    uint8_t *p = hand_host(h, a, 256);
    fill(p, 256);
    h->w.s[4] = (uint32_t)a, h->w.s[5] = (uint32_t)(a >> 32), h->w.s[6] = 32;
    static const struct {
        const char *name;
        unsigned n;
    } t[] = {{"B32", 1}, {"B64", 2}, {"B96", 3}, {"B128", 4}, {"B256", 8}, {"B512", 16}, {"DWORD", 1}, {"DWORDX16", 16}};
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        char name[32] = "S_LOAD_";
        strcat(name, t[i].name);
        h->w.s[16 + t[i].n] = 0x5555;
        smem(h, name, hand_s(16, t[i].n), 4, -4, hand_s(6, 1));
        assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
        assert_memory_equal(&h->w.s[16], p + 28, 4 * t[i].n);
        assert_int_equal(h->w.s[16 + t[i].n], 0x5555);
    }
    /* The two lowest bits of an address are not looked at. */
    smem(h, "S_LOAD_B32", hand_s(16, 1), 4, 7, HAND_NONE);
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    assert_int_equal(h->w.s[16], at32(p + 4));
    p[9] = 0x81, p[10] = 0xfe, p[11] = 0xff;
    smem(h, "S_LOAD_I8", hand_s(16, 1), 4, 9, HAND_NONE);
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    assert_int_equal(h->w.s[16], 0xffffff81);
    smem(h, "S_LOAD_U16", hand_s(16, 1), 4, 10, HAND_NONE);
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    assert_int_equal(h->w.s[16], 0xfffe);
    smem(h, "S_LOAD_U16", hand_s(16, 1), 4, 9, HAND_NONE);
    expect(h, SIM_FAULT_MISALIGNED, -1, a + 9, 2, false);
    smem(h, "S_LOAD_B128", hand_s(16, 4), 4, 248, HAND_NONE);
    expect(h, SIM_FAULT_MEMORY, -1, a + 248, 16, false);
    /* Buffers: dwords past the end are 0. */
    h->w.s[8] = (uint32_t)a, h->w.s[9] = (uint32_t)(a >> 32), h->w.s[10] = 24, h->w.s[11] = 0;
    smem(h, "S_BUFFER_LOAD_B128", hand_s(16, 4), 8, 16, HAND_NONE);
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    assert_int_equal(h->w.s[17], at32(p + 20));
    assert_int_equal(h->w.s[18] | h->w.s[19], 0);
    h->w.s[9] |= 8 << 16; /* 24 records of 8 bytes */
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    assert_int_equal(h->w.s[19], at32(p + 28));
    /* Stores, atomics, time. */
    h->w.s[20] = 77, h->w.s[21] = 78;
    smem(h, "S_STORE_DWORDX2", hand_s(20, 2), 4, 64, HAND_NONE);
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    assert_int_equal(at32(p + 68), 78);
    smem(h, "S_ATOMIC_ADD", hand_s(20, 1), 4, 68, HAND_NONE);
    h->inst.glc = true;
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    assert_int_equal(at32(p + 68), 78 + 77);
    assert_int_equal(h->w.s[20], 78);
    smem(h, "S_MEMTIME", hand_s(20, 2), 4, 0, HAND_NONE);
    h->inst.base = HAND_NONE;
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    uint64_t t0 = sim_sread64(&h->w, 20);
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    assert_true(sim_sread64(&h->w, 20) >= t0);
    smem(h, "S_DCACHE_INV", HAND_NONE, 4, 0, HAND_NONE);
    assert_int_equal(hand_bound(h, sim_bind_memory), SIM_BOUND_NOTHING);
    smem(h, "S_SCRATCH_LOAD_DWORD", hand_s(20, 1), 4, 0, HAND_NONE);
    assert_int_equal(hand_bound(h, sim_bind_memory), SIM_BOUND_NO);
    hand_free(h);
}

static void test_rest(void **state) {
    (void)state;
    hand *h = hand_make(SIM_GFX1200, 32);
    uint64_t a = hand_alloc(h, 8192);
    uint8_t *p = hand_host(h, a, 8192);
    fill(p, 8192);
    h->w.s[4] = (uint32_t)a, h->w.s[5] = (uint32_t)(a >> 32);
    global(h, "GLOBAL_LOAD_ADDTID_B32", hand_v(10, 1), HAND_NONE, hand_s(4, 2), HAND_NONE, 8);
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    for (unsigned i = 0; i < 32; i++) assert_int_equal(HAND_V(h, 10, i), at32(p + 8 + 4 * i));
    h->w.s[SIM_S_M0] = 0x80000005;
    for (unsigned i = 0; i < 32; i++) hand_addr(h, 2, i, a + 128 * i), HAND_V(h, 21, i) = 3;
    global(h, "GLOBAL_LOAD_BLOCK", hand_v(20, 32), hand_v(2, 2), HAND_NONE, HAND_NONE, 0);
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    assert_int_equal(HAND_V(h, 20, 5), at32(p + 128 * 5));
    assert_int_equal(HAND_V(h, 21, 5), 3);
    assert_int_equal(HAND_V(h, 22, 5), at32(p + 128 * 5 + 8));
    assert_int_equal(HAND_V(h, 51, 5), at32(p + 128 * 5 + 124));
    /* Eight lanes' rows of eight halves, transposed. */
    for (unsigned e = 0; e < 512; e++) memcpy(p + 2 * e, &(uint16_t){(uint16_t)e}, 2);
    for (unsigned i = 0; i < 32; i++) hand_addr(h, 2, i, a + 16 * i);
    global(h, "GLOBAL_LOAD_TR_B128", hand_v(10, 4), hand_v(2, 2), HAND_NONE, HAND_NONE, 0);
    assert_int_equal(hand_run(h, sim_bind_memory), SIM_FAULT_NONE);
    for (unsigned i = 0; i < 32; i++)
        for (unsigned e = 0; e < 8; e++)
            assert_int_equal(HAND_V(h, 10 + e / 2, i) >> 16 * (e & 1) & 0xffff, (i / 8 * 8 + e) * 8 + i % 8);
    global(h, "GLOBAL_LOAD_TR_B64", hand_v(10, 2), hand_v(2, 2), HAND_NONE, HAND_NONE, 0);
    assert_int_equal(hand_bound(h, sim_bind_memory), SIM_BOUND_NO);
    global(h, "GLOBAL_WB", HAND_NONE, HAND_NONE, HAND_NONE, HAND_NONE, 0);
    assert_int_equal(hand_bound(h, sim_bind_memory), SIM_BOUND_NOTHING);
    global(h, "GLOBAL_ATOMIC_ORDERED_ADD_B64", HAND_NONE, hand_v(2, 2), HAND_NONE, hand_v(10, 2), 0);
    assert_int_equal(hand_bound(h, sim_bind_memory), SIM_BOUND_NO);
    sim_meaning m;
    size_t n = 0;
    while (sim_meaning_at_memory(n, &m)) n++;
    assert_in_range(n, 500, 900);
    hand_free(h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_global_load),  cmocka_unit_test(test_load_over_address),
        cmocka_unit_test(test_global_store), cmocka_unit_test(test_small), cmocka_unit_test(test_small_lanes),
        cmocka_unit_test(test_faults),       cmocka_unit_test(test_window),
        cmocka_unit_test(test_atomics),      cmocka_unit_test(test_atomics64),
        cmocka_unit_test(test_atomic_order), cmocka_unit_test(test_atomic_threads), cmocka_unit_test(test_flat_places),
        cmocka_unit_test(test_scratch),      cmocka_unit_test(test_to_lds),
        cmocka_unit_test(test_scalar),       cmocka_unit_test(test_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
