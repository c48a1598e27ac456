/* Boards as rows: figures that the targets' table has too are the same there; quirks parse. */
#include "board/board.h"
#include "board/quirk.h"
#include "target/target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void boards_agree_with_their_targets(void **state) {
    (void)state;
    size_t n = 0;
    for (const sim_board *b; (b = sim_board_at(n)); n++) {
        och_target_id id;
        och_err err = {0};
        assert_int_equal(och_target_find(b->target, &id, &err), OCH_OK);
        const och_target *t = id.target;
        assert_string_equal(b->key, t->name);
        assert_string_equal(b->target, id.name); /* named whole, canonical */
        assert_int_equal(t->xnack && id.xnack == OCH_FEATURE_ANY, 0); /* a board says which */
        assert_int_equal(t->sramecc && id.sramecc == OCH_FEATURE_ANY, 0);
        assert_int_equal(b->wave_size, t->wave_default);
        assert_int_equal(b->lds_group_bytes, t->lds_workgroup_bytes);
        assert_int_equal(b->lds_unit_bytes, t->lds_unit_bytes);
        assert_int_equal(b->compute_units, b->multiprocessors * (unsigned)t->lds_unit_cus);
        assert_int_equal(b->vgprs_simd, b->wave_size == 32 ? t->vgprs_lane_w32 : t->vgprs_lane_w64);
        assert_int_equal(b->waves_simd_max, t->waves_simd_max);
        assert_int_equal(b->simds_cu, t->simds_cu);
        if (t->apu != OCH_MAYBE) assert_int_equal(b->integrated, t->apu == OCH_YES);
        assert_int_equal(b->vgpr_granule_w32 != 0, (t->waves & OCH_WAVE32) != 0);
        const sim_board *found;
        assert_int_equal(sim_board_find(b->key, &found, &err), OCH_OK);
        assert_ptr_equal(found, b);
    }
    assert_int_equal(n, 16);
    och_err err = {0};
    const sim_board *none;
    assert_int_equal(sim_board_find("gfx1031", &none, &err), OCH_NOTFOUND);
    assert_non_null(strstr(err.message, "gfx1030, gfx1100"));
}

static void figures_of_products_are_those_of_their_boards(void **state) {
    (void)state;
    static const struct { const char *key, *product; } pairs[] = {
        {"gfx906", "Radeon Instinct MI50"}, {"gfx908", "Instinct MI100"}, {"gfx90a", "Instinct MI210"},
            {"gfx942", "Instinct MI300X"},
        {"gfx950", "Instinct MI355X"}, {"gfx1100", "Radeon RX 7900 XTX"}, {"gfx1200", "Radeon RX 9060 XT"},
            {"gfx1201", "Radeon RX 9070 XT"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const sim_board *b;
        och_err err = {0};
        assert_int_equal(sim_board_find(pairs[i].key, &b, &err), OCH_OK);
        const och_board *o = och_board_find(pairs[i].product);
        assert_non_null(o);
        assert_int_equal(b->compute_units, o->compute_units);
        assert_int_equal(b->multiprocessors, o->multiprocessors);
        assert_int_equal(b->memory_bytes, o->memory_bytes);
        assert_int_equal(b->l2_bytes, o->l2_bytes);
        assert_int_equal(b->clock_khz, o->clock_mhz * 1000);
        if (o->mall_bytes >= 0) assert_int_equal(b->mall_bytes, o->mall_bytes);
        if (o->bus_bits >= 0) assert_int_equal(b->bus_bits, o->bus_bits);
    }
}

static void quirks_parse(void **state) {
    (void)state;
    sim_quirks q;
    och_err err = {0};
    assert_int_equal(sim_quirks_parse(NULL, &q, &err), OCH_OK);
    assert_false(q.q[SIM_QUIRK_memory].on);
    assert_int_equal(sim_quirks_parse("memory=3G,,fail_copy=0x10:700,no_managed", &q, &err), OCH_OK);
    assert_true(q.q[SIM_QUIRK_memory].on && q.q[SIM_QUIRK_memory].value == 3ull << 30 && !q.q[SIM_QUIRK_memory].has_extra);
    assert_true(q.q[SIM_QUIRK_fail_copy].value == 16 && q.q[SIM_QUIRK_fail_copy].has_extra &&
                q.q[SIM_QUIRK_fail_copy].extra == 700);
    assert_true(q.q[SIM_QUIRK_no_managed].on && !q.q[SIM_QUIRK_no_pageable].on);
    assert_int_equal(sim_quirks_parse("fail_alloc=2:hipErrorIllegalAddress,lost_at=1:hipErrorUnknown", &q, &err), OCH_OK);
    assert_true(q.q[SIM_QUIRK_fail_alloc].value == 2 && q.q[SIM_QUIRK_fail_alloc].extra == 700);
    assert_true(q.q[SIM_QUIRK_lost_at].has_extra && q.q[SIM_QUIRK_lost_at].extra == 999);
    static const char *const bad[] = {"nothing", "memory", "memory=", "memory=x", "memory=1Q", "memory=1G2", "no_managed=1",
                                      "fail_copy=1:", "fail_copy=1:hipErrorNone", "fail_copy=1:hipError",
                                      "carveout=1:hipErrorUnknown",
                                      "memoryx=1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        och_err_clear(&err);
        assert_int_equal(sim_quirks_parse(bad[i], &q, &err), OCH_INVALID);
        assert_non_null(strstr(err.message, "OCHRE_SIM_QUIRKS"));
    }
    for (int i = 0; i < SIM_QUIRK_COUNT_; i++) assert_true(*sim_quirk_name((sim_quirk_id)i) && *sim_quirk_doc((sim_quirk_id)i));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(boards_agree_with_their_targets),
                                       cmocka_unit_test(figures_of_products_are_those_of_their_boards),
                                           cmocka_unit_test(quirks_parse)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
