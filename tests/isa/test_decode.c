/* The decoder: operands by hand from the manuals' encodings, and random bytes, which must never lead it astray. The
 * comparison with LLVM on compiler output is tests/isa/decode/check_llvm.py. */
#include "isa/decode_row.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static sim_inst x, y;
static och_err err;

static och_status decode(sim_isa isa, unsigned wave, const uint32_t *words, size_t n) {
    och_err_clear(&err);
    return sim_decode(isa, wave, (const uint8_t *)words, n * 4, 0, &x, &y, &err);
}
#define DECODE(isa, wave, ...)                                                                                             \
    do {                                                                                                                   \
        const uint32_t w_[] = {__VA_ARGS__};                                                                               \
        assert_int_equal(decode(isa, wave, w_, sizeof w_ / 4), OCH_OK);                                                    \
        assert_int_equal(x.n_words, sizeof w_ / 4);                                                                        \
    } while (0)

static void is_reg(const sim_operand *o, sim_kind kind, unsigned reg, unsigned n) {
    assert_int_equal(o->kind, kind);
    assert_int_equal(o->reg, reg);
    assert_int_equal(o->n_dwords, n);
}
static void is_const(const sim_operand *o, uint64_t value, bool literal) {
    assert_int_equal(o->kind, SIM_K_CONST);
    assert_true(o->value == value);
    assert_int_equal(o->literal, literal);
}

static void names_follow_the_manual(void **state) {
    (void)state;
    DECODE(SIM_GFX1100, 32, 0x1e060400); /* VOP2 op 15, v3, s0, v2 */
    assert_string_equal(x.mnemonic, "v_min_f32");
    assert_string_equal(x.meaning, "V_MIN_F32");
    is_reg(&x.dst, SIM_K_VGPR, 3, 1);
    is_reg(&x.src[0], SIM_K_SGPR, 0, 1);
    is_reg(&x.src[1], SIM_K_VGPR, 2, 1);
    DECODE(SIM_GFX1200, 32, 0x2a060500); /* VOP2 op 21 */
    assert_string_equal(x.meaning, "V_MIN_NUM_F32");
    DECODE(SIM_GFX942, 64, 0x68060500); /* VOP2 op 52 */
    assert_string_equal(x.meaning, "V_ADD_U32");
    DECODE(SIM_GFX1100, 32, 0x4a060500); /* VOP2 op 37 */
    assert_string_equal(x.meaning, "V_ADD_NC_U32");
    DECODE(SIM_GFX1030, 32, 0xf4040102, 0xfa000010); /* s_load_dwordx2 s[4:5], s[4:5], 0x10 */
    assert_string_equal(x.meaning, "S_LOAD_B64");
    assert_string_equal(x.mnemonic, "s_load_dwordx2");
    is_reg(&x.dst, SIM_K_SGPR, 4, 2);
    is_reg(&x.base, SIM_K_SGPR, 4, 2);
    assert_int_equal(x.soffset.kind, SIM_K_NONE);
    assert_int_equal(x.offset_imm, 0x10);
}

static void scalar_registers_are_canonical(void **state) {
    (void)state;
    DECODE(SIM_GFX1100, 32, 0xbe80007c); /* s_mov_b32 s0, null */
    is_reg(&x.src[0], SIM_K_SGPR, SIM_S_NULL, 1);
    DECODE(SIM_GFX1100, 32, 0xbe80007d); /* m0 */
    is_reg(&x.src[0], SIM_K_SGPR, SIM_S_M0, 1);
    DECODE(SIM_GFX1030, 32, 0xbe80037c); /* gfx10: m0 */
    is_reg(&x.src[0], SIM_K_SGPR, SIM_S_M0, 1);
    DECODE(SIM_GFX1030, 32, 0xbe80037d);
    is_reg(&x.src[0], SIM_K_SGPR, SIM_S_NULL, 1);
    const uint32_t none[] = {0xbe80007d}; /* gfx9 has no NULL */
    assert_int_equal(decode(SIM_GFX90A, 64, none, 1), OCH_CORRUPT);
    assert_null(x.row);
    DECODE(SIM_GFX90A, 64, 0xbe820166); /* s_mov_b64 s[2:3], flat_scratch */
    is_reg(&x.src[0], SIM_K_SGPR, SIM_S_FLAT_SCRATCH_LO, 2);
    DECODE(SIM_GFX1100, 64, 0xbe8201eb); /* s_mov_b64 s[2:3], src_shared_base */
    is_reg(&x.src[0], SIM_K_SGPR, SIM_S_SHARED_BASE, 2);
}

static void constants_take_their_operands_type(void **state) {
    (void)state;
    DECODE(SIM_GFX1100, 32, 0x060604f2); /* v_add_f32 v3, 1.0, v2 */
    is_const(&x.src[0], 0x3f800000, false);
    DECODE(SIM_GFX1100, 32, 0x640604f2); /* v_add_f16 v3.l, 1.0, v2.l */
    is_const(&x.src[0], 0x3c00, false);
    DECODE(SIM_GFX1100, 32, 0xbe8201c1); /* s_mov_b64 s[2:3], -1 */
    is_const(&x.src[0], ~0ull, false);
    DECODE(SIM_GFX1100, 32, 0xbe8201f2); /* s_mov_b64 s[2:3], 1.0 */
    is_const(&x.src[0], 0x3ff0000000000000, false);
    DECODE(SIM_GFX1100, 32, 0xbe8201ff, 0x80000000); /* s_mov_b64 s[2:3], 0x80000000: zeros above */
    is_const(&x.src[0], 0x80000000, true);
    DECODE(SIM_GFX1100, 32, 0xd7270000, 0x000204ff, 0x40590000); /* v_add_f64 v[0:1], 100.0, v[2:3] */
    is_const(&x.src[0], 0x4059000000000000, true);
    DECODE(SIM_GFX1100, 32, 0xd7270000, 0x000204c1); /* an integer constant is an integer there too */
    is_const(&x.src[0], ~0ull, false);
    DECODE(SIM_GFX1100, 32, 0xcc0f4000, 0x180204f4); /* v_pk_add_f16 v0, 2.0, v2: the low half */
    is_const(&x.src[0], 0x4000, false);
    DECODE(SIM_GFX1100, 32, 0x580606ff, 0x00000040); /* v_fmamk_f32 v3, lit, 0x40, v3: a literal, though 64 has a code */
    is_const(&x.src[0], 0x40, true);
    is_const(&x.src[1], 0x40, true);
    is_reg(&x.src[2], SIM_K_VGPR, 3, 1);
}

static void halves_carries_and_masks(void **state) {
    (void)state;
    DECODE(SIM_GFX1100, 32, 0x65010581); /* v_add_f16 v0.h, 1, v2.h: bits 7 of vdst and vsrc1 */
    assert_true(x.dst_hi);
    is_reg(&x.dst, SIM_K_VGPR, 0, 1);
    is_reg(&x.src[1], SIM_K_VGPR, 2, 1);
    assert_true(x.src[1].hi);
    DECODE(SIM_GFX1100, 64, 0x40060501); /* v_add_co_ci_u32 v3, vcc, s1, v2, vcc */
    is_reg(&x.sdst, SIM_K_SGPR, SIM_S_VCC_LO, 2);
    is_reg(&x.src[2], SIM_K_SGPR, SIM_S_VCC_LO, 2);
    DECODE(SIM_GFX1100, 32, 0x40060501);
    is_reg(&x.src[2], SIM_K_SGPR, SIM_S_VCC_LO, 1);
    DECODE(SIM_GFX1100, 32, 0x7c220501); /* v_cmp_lt_f32 vcc_lo */
    is_reg(&x.sdst, SIM_K_SGPR, SIM_S_VCC_LO, 1);
    DECODE(SIM_GFX1100, 32, 0x7d220501); /* v_cmpx_lt_f32: EXEC */
    is_reg(&x.sdst, SIM_K_SGPR, SIM_S_EXEC_LO, 1);
    DECODE(SIM_GFX90A, 64, 0x7ca20501); /* gfx9: VCC, and EXEC */
    is_reg(&x.sdst, SIM_K_SGPR, SIM_S_VCC_LO, 2);
}

static void pairs_share_a_literal(void **state) {
    (void)state;
    /* v_dual_mul_f32 v4, 0x12345678, v2 :: v_dual_add_f32 v7, 0x12345678, v3 */
    DECODE(SIM_GFX1100, 32, 0xc8c804ff, 0x040606ff, 0x12345678);
    assert_ptr_equal(x.dual, &y);
    is_const(&x.src[0], 0x12345678, true);
    is_const(&y.src[0], 0x12345678, true);
    is_reg(&x.dst, SIM_K_VGPR, 4, 1);
    is_reg(&y.dst, SIM_K_VGPR, 7, 1); /* the other parity */
    const uint32_t w[] = {0xc8c804ff, 0x040606ff, 0x12345678};
    assert_int_equal(decode(SIM_GFX1100, 64, w, 3), OCH_CORRUPT); /* wave32 only */
    assert_int_equal(decode(SIM_GFX1100, 32, w, 2), OCH_CORRUPT); /* the literal is missing */
    assert_non_null(strstr(err.message, "inside the instruction"));
}

static void memory_operands(void **state) {
    (void)state;
    DECODE(SIM_GFX1100, 32, 0xdc521fff, 0x047c0001); /* global_load_b32 v4, v[1:2], off offset:-1 */
    assert_int_equal(x.offset_imm, -1);
    is_reg(&x.addr, SIM_K_VGPR, 1, 2);
    assert_int_equal(x.saddr.kind, SIM_K_NONE);
    DECODE(SIM_GFX1100, 32, 0xdc520000, 0x04060001); /* saddr s[6:7]: a 32-bit offset in v1 */
    is_reg(&x.addr, SIM_K_VGPR, 1, 1);
    is_reg(&x.saddr, SIM_K_SGPR, 6, 2);
    DECODE(SIM_GFX942, 64, 0xdc508000, 0x84ff0001); /* global_load_dword a132, v[1:2], off */
    is_reg(&x.dst, SIM_K_VGPR, 256 + 132, 1);
    DECODE(SIM_GFX1200, 32, 0xee05007c, 0x00000004, 0xffffff01); /* offset of 24 bits: -1 */
    assert_int_equal(x.offset_imm, -1);
    DECODE(SIM_GFX90A, 64, 0xd8ee0201, 0x04000003); /* ds_read2_b64 v[4:7], v3 offset0:1 offset1:2 */
    assert_true(x.two_offsets);
    assert_int_equal(x.offset_imm, 1);
    assert_int_equal(x.offset1, 2);
    is_reg(&x.dst, SIM_K_VGPR, 4, 4);
    DECODE(SIM_GFX1100, 32, 0xe0500000, 0x00610402); /* buffer_load_b32 v4, ..., s[4:7] tfe: a status dword */
    is_reg(&x.dst, SIM_K_VGPR, 4, 2);
    is_reg(&x.base, SIM_K_SGPR, 4, 4);
}

static void every_row_is_reachable(void **state) {
    (void)state;
    size_t n = 0;
    for (const sim_row *r; (r = sim_row_at(n)); n++) {
        assert_true(r->isas != 0);
        sim_format f = r->format == SIM_VOP3SD ? SIM_VOP3 : (sim_format)r->format;
        for (unsigned isa = 0; isa < SIM_N_ISA; isa++)
            if (r->isas & SIM_BIT(isa)) assert_ptr_equal(sim_entry_find((sim_isa)isa, f, r->opcode), r);
    }
    assert_true(n > 4000);
}

static uint64_t seed = 0x9e3779b97f4a7c15;
static uint32_t random32(void) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (uint32_t)(seed >> 16);
}

/* Exactly as many bytes as there are, in a block of their own, so that a sanitizer sees a read past the end. */
static void random_words(void **state) {
    (void)state;
    static const uint32_t tops[] = {0x7e000000, 0x7c000000, 0xd0000000, 0xd4000000, 0xcc000000, 0xd3000000, 0xd8000000,
                                    0xdc000000, 0xe0000000, 0xe8000000, 0xf0000000, 0xf4000000, 0xc8000000, 0xc0000000,
                                    0xbe000000, 0xbf000000, 0xec000000, 0xc4000000, 0xd3ac0000, 0xe4000000};
    char text[256];
    size_t n_ok = 0;
    for (unsigned round = 0; round < 200000; round++) {
        size_t n = random32() % 24 + 1;
        uint8_t *code = malloc(n);
        assert_non_null(code);
        for (size_t i = 0; i < n; i++) code[i] = (uint8_t)random32();
        if (n >= 4 && round & 1) {
            uint32_t w = (random32() & 0x03ffffff) | tops[random32() % (sizeof tops / sizeof *tops)];
            memcpy(code, &w, 4);
        }
        sim_isa isa = (sim_isa)(random32() % SIM_N_ISA);
        unsigned wave = random32() & 1 ? 32 : 64;
        size_t pos = random32() % 8 ? 0 : random32() % (n + 2);
        och_err_clear(&err);
        och_status st = sim_decode(isa, wave, code, n, pos, &x, &y, &err);
        if (st == OCH_OK) {
            assert_non_null(x.row);
            assert_in_range(x.n_words, 1, 6);
            assert_true(pos + 4u * x.n_words <= n);
            size_t room = random32() % 4 ? sizeof text : random32() % 20 + 1;
            assert_true(strlen(sim_inst_print(&x, wave, text, room)) < room);
            n_ok++;
        } else {
            assert_null(x.row);
            assert_string_not_equal(err.message, "");
        }
        free(code);
    }
    assert_true(n_ok > 20000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_follow_the_manual), cmocka_unit_test(scalar_registers_are_canonical),
        cmocka_unit_test(constants_take_their_operands_type), cmocka_unit_test(halves_carries_and_masks),
        cmocka_unit_test(pairs_share_a_literal), cmocka_unit_test(memory_operands),
        cmocka_unit_test(every_row_is_reachable), cmocka_unit_test(random_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
