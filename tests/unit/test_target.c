/* Target and board tables. Every row is held to the facts as they were collected (target_facts.tsv, board_facts.tsv,
 * in the collector's own notation, read here column by column). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "target/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_COLS 48

typedef struct facts {
    FILE *f;
    char header[4096], line[8192];
    char *cols[MAX_COLS], *fields[MAX_COLS];
    int n;
} facts;

static int split(char *line, char **out) {
    int n = 0;
    line[strcspn(line, "\n")] = 0;
    for (char *at = line; at;) {
        assert_true(n < MAX_COLS);
        out[n++] = at;
        at = strchr(at, '\t');
        if (at) *at++ = 0;
    }
    return n;
}

static void facts_open(facts *t, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/unit/%s", OCHRE_TEST_DIR, name);
    t->f = fopen(path, "r");
    assert_non_null(t->f);
    do assert_non_null(fgets(t->header, sizeof t->header, t->f));
    while (t->header[0] == '#');
    t->n = split(t->header, t->cols);
}

static bool facts_next(facts *t) {
    if (!fgets(t->line, sizeof t->line, t->f)) {
        fclose(t->f);
        return false;
    }
    assert_int_equal(split(t->line, t->fields), t->n);
    return true;
}

static const char *get(const facts *t, const char *col) {
    for (int i = 0; i < t->n; i++)
        if (!strcmp(t->cols[i], col)) return t->fields[i];
    fail_msg("no column %s", col);
    return NULL;
}

static double number(const facts *t, const char *col) {
    const char *v = get(t, col);
    return v[0] == '?' ? OCH_UNKNOWN : v[0] == '-' || !strcmp(v, "n") ? OCH_NOT_APPLICABLE : strtod(v, NULL);
}
static bool yes(const facts *t, const char *col) {
    const char *v = get(t, col);
    return v[0] == 'y';
}
static bool has(const facts *t, const char *col, const char *part) { return strstr(get(t, col), part) != NULL; }

#define SAME(a, b)                                                                                                     \
    do {                                                                                                               \
        double a_ = (double)(a), b_ = (double)(b);                                                                     \
        if (a_ != b_) fail_msg("%s: " #a " is %g and should be %g", row->name, a_, b_);                                \
    } while (0)

static bool listed(const char *list, const char *word) { /* a whole word of a comma-separated list */
    size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += n)
        if ((at == list || at[-1] == ',') && (at[n] == ',' || at[n] == 0)) return true;
    return false;
}

static void targets_equal_the_facts(void **s) {
    (void)s;
    facts t;
    size_t i = 0;
    for (facts_open(&t, "target_facts.tsv"); facts_next(&t); i++) {
        const och_target *row = och_target_at(i);
        assert_non_null(row);
        assert_string_equal(row->name, get(&t, "target"));
        assert_memory_equal(row->family, get(&t, "family"), strlen(row->family));
        SAME(row->vendor, OCH_VENDOR_AMD);
        SAME(row->generic, has(&t, "target", "-generic"));
        const char *apu = get(&t, "apu");
        SAME(row->apu, !strcmp(apu, "y") ? OCH_YES : !strcmp(apu, "n") ? OCH_NO : OCH_MAYBE);
        SAME(row->wave_default, number(&t, "wave_default"));
        SAME(row->waves, (unsigned)(has(&t, "wave_selectable", "32 only") || has(&t, "wave_selectable", "32,64")
                                        ? OCH_WAVE32 : 0) |
                             (unsigned)(has(&t, "wave_selectable", "64 only") || has(&t, "wave_selectable", "32,64")
                                            ? OCH_WAVE64 : 0));
        SAME(row->lds_workgroup_bytes, number(&t, "lds_bytes_per_workgroup"));
        SAME(row->lds_unit_bytes, number(&t, "lds_bytes_per_cu"));
        SAME(row->lds_unit_cus, has(&t, "lds_bytes_per_cu", "per WGP") ? 2 : 1);
        SAME(row->vgprs_lane_w32, number(&t, "vgprs_per_simd_lane_w32"));
        SAME(row->vgprs_lane_w64, number(&t, "vgprs_per_simd_lane_w64"));
        SAME(row->unified_vgprs, has(&t, "vgprs_max_per_wave", "unified"));
        /* "512 unified (256 arch VGPR + 256 AGPR)" */
        SAME(row->vgprs_wave_max + (row->unified_vgprs ? row->agprs : 0), number(&t, "vgprs_max_per_wave"));
        SAME(row->agprs, number(&t, "agprs") == OCH_NOT_APPLICABLE ? 0 : number(&t, "agprs"));
        SAME(row->sgprs_wave, number(&t, "sgprs_addressable_per_wave"));
        SAME(row->waves_simd_max, number(&t, "max_waves_per_simd"));
        SAME(row->simds_cu, number(&t, "simds_per_cu"));
        och_matrix_isa m = has(&t, "matrix_isa", "MFMA")            ? OCH_MATRIX_MFMA
                           : has(&t, "matrix_isa", "WMMA-gfx11 ")   ? OCH_MATRIX_WMMA_GFX11
                           : has(&t, "matrix_isa", "WMMA-gfx12 ")   ? OCH_MATRIX_WMMA_GFX12
                           : has(&t, "matrix_isa", "WMMA-gfx12.5 ") ? OCH_MATRIX_WMMA_GFX125
                                                                    : OCH_MATRIX_NONE;
        SAME(row->matrix, m);
        SAME(m == OCH_MATRIX_NONE, !strcmp(get(&t, "matrix_isa"), "none"));
        static const struct { const char *word; uint32_t bit; } types[] = {
            {"f32", OCH_MT_F32},   {"xf32", OCH_MT_XF32}, {"f64", OCH_MT_F64}, {"f16", OCH_MT_F16},
            {"bf16", OCH_MT_BF16}, {"i8", OCH_MT_I8},     {"iu8", OCH_MT_IU8}, {"iu4", OCH_MT_IU4},
            {"fp8", OCH_MT_FP8},   {"bf8", OCH_MT_BF8},   {"fp6", OCH_MT_FP6}, {"bf6", OCH_MT_BF6},
            {"fp4", OCH_MT_FP4},   {"bf16 (K=8 form only)", OCH_MT_BF16_K8}};
        uint32_t want = has(&t, "matrix_input_types", "mx-scaled") ? OCH_MT_MX : 0;
        for (size_t k = 0; k < sizeof types / sizeof *types; k++)
            if (listed(get(&t, "matrix_input_types"), types[k].word)) want |= types[k].bit;
        SAME(row->matrix_types, want);
        const char *mw = get(&t, "wave_matrix_needs_w32_or_w64");
        SAME(row->matrix_waves, (unsigned)(strstr(mw, "w32") ? OCH_WAVE32 : 0) |
                                    (unsigned)(strstr(mw, "w64") ? OCH_WAVE64 : 0));
        static const struct { const char *col; uint32_t bit; } ops[] = {
            {"dot4_i32_i8", OCH_DOT4_I8},     {"dot4_i32_iu8", OCH_DOT4_IU8},   {"dot4_u32_u8", OCH_DOT4_U8},
            {"dot2_f32_f16", OCH_DOT2_F16},   {"dot2_f32_bf16", OCH_DOT2_BF16}, {"dot4_f32_fp8", OCH_DOT4_FP8},
            {"pk_fma_f16", OCH_PK_FMA_F16},   {"pk_fma_bf16", OCH_PK_FMA_BF16}, {"pk_fma_f32", OCH_PK_FMA_F32},
            {"vopd_dual_issue", OCH_VOPD},    {"cvt_fp8", OCH_CVT_FP8},         {"cvt_pk_bf16_f32", OCH_CVT_PK_BF16},
            {"fma_mix", OCH_FMA_MIX},         {"global_atomic_add_f32", OCH_ATOMIC_ADD_F32}};
        want = 0;
        for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) want |= yes(&t, ops[k].col) ? ops[k].bit : 0;
        if (!strcmp(get(&t, "dot8_i4"), "i4")) want |= OCH_DOT8_I4;
        if (!strcmp(get(&t, "dot8_i4"), "iu4")) want |= OCH_DOT8_IU4;
        if (strcmp(get(&t, "cvt_fp4_fp6"), "n")) want |= OCH_CVT_FP4_FP6;
        if (!strcmp(get(&t, "fma_mix"), "mad_mix")) want |= OCH_MAD_MIX;
        if (strcmp(get(&t, "sparse_matrix"), "n")) want |= OCH_SPARSE_MATRIX;
        SAME(row->ops, want);
        const char *fp8 = get(&t, "fp8_encoding");
        SAME(row->fp8, !strcmp(fp8, "OCP") ? OCH_FP8_OCP : !strcmp(fp8, "FNUZ") ? OCH_FP8_FNUZ : OCH_FP8_NONE);
        SAME(row->xnack, yes(&t, "xnack"));
        SAME(row->sramecc, yes(&t, "sramecc"));
        const char *g = get(&t, "generic_target");
        if (!strcmp(g, "-")) assert_string_equal(row->generic_target, "");
        else assert_memory_equal(row->generic_target, g, strcspn(g, " "));
        /* compilers: the oldest that takes it lies between what was tried and failed and what was tried and passed */
        static const int tried[] = {14, 15, 16, 19, 22};
        for (int k = 0; k < 5; k++) {
            char col[16];
            snprintf(col, sizeof col, "clang%d", tried[k]);
            bool ok = get(&t, col)[0] != 'n';
            bool claimed = tried[k] >= row->clang_min && (row->clang_removed == 0 || tried[k] < row->clang_removed);
            /* a generic target that takes only code object 6 was stored as the newest end of its range */
            if (ok != claimed) fail_msg("%s: clang %d %s", row->name, tried[k], ok ? "takes it" : "does not take it");
        }
        SAME(row->clang_removed, has(&t, "llvm_min", "removed by 22") ? 22 : 0);
        SAME(row->code_object_v6, has(&t, "llvm_min", "version=6") || has(&t, "llvm_min", "object v6"));
    }
    assert_int_equal(i, 41);
    assert_int_equal(och_target_count(), 41 + 3);
}

static void boards_equal_the_facts(void **s) {
    (void)s;
    facts t;
    size_t i = 0;
    for (facts_open(&t, "board_facts.tsv"); facts_next(&t); i++) {
        const och_board *row = och_board_at(i);
        assert_non_null(row);
        assert_memory_equal(row->name, get(&t, "board"), strlen(row->name));
        assert_memory_equal(row->arch, get(&t, "arch"), strlen(row->arch));
        och_target_id id;
        assert_int_equal(och_target_find(row->arch, &id, NULL), OCH_OK);
        assert_int_equal(id.target->vendor, row->vendor);
        SAME(row->vendor, strcmp(get(&t, "vendor"), "AMD") ? OCH_VENDOR_NVIDIA : OCH_VENDOR_AMD);
        SAME(row->wave, id.target->wave_default);
        SAME(row->wave, number(&t, "warp_size"));
        SAME(row->compute_units, number(&t, "cus_or_sms"));
        SAME(row->multiprocessors, number(&t, "hip_multiProcessorCount"));
        SAME(row->multiprocessors * row->devices * (row->vendor == OCH_VENDOR_AMD && row->wave == 32 ? 2 : 1),
             row->compute_units);
        SAME(row->clock_mhz, number(&t, "peak_clock_mhz"));
        assert_string_equal(row->memory, get(&t, "mem_type"));
        SAME(row->bus_bits, number(&t, "bus_width_bits"));
        SAME(row->memory_bytes, number(&t, "mem_bytes"));
        SAME(row->bandwidth_gbps, number(&t, "peak_bw_gbps"));
        SAME(row->fp32_tflops, number(&t, "fp32_tflops"));
        SAME(row->fp16_matrix_tflops, number(&t, "fp16_matrix_tflops"));
        SAME(row->bf16_matrix_tflops, number(&t, "bf16_matrix_tflops"));
        SAME(row->fp8_matrix_tflops, number(&t, "fp8_matrix_tflops"));
        SAME(row->int8_tops, number(&t, "int8_tops"));
        SAME(row->int4_tops, number(&t, "int4_tops"));
        SAME(row->fp4_tflops, number(&t, "fp4_tflops"));
        SAME(row->l2_bytes, number(&t, "l2_bytes"));
        SAME(row->mall_bytes, number(&t, "mall_bytes"));
        static const char *const cols[] = {"attr_integrated", "attr_managed_memory", "attr_concurrent_managed",
                                           "attr_pageable_memory_access"};
        const och_tri tris[] = {row->integrated, row->managed_memory, row->concurrent_managed, row->pageable_access};
        for (int k = 0; k < 4; k++) {
            const char *v = get(&t, cols[k]);
            och_tri want = strstr(v, "HSA_XNACK=1") ? OCH_IF_XNACK : v[0] == '1' ? OCH_YES : v[0] == '0' ? OCH_NO
                                                                                                        : OCH_MAYBE;
            SAME(tris[k], want);
        }
    }
    assert_int_equal(i, 22);
    assert_int_equal(och_board_count(), 22);
}

/* Values typed from the manuals' and the programming guide's tables. */
static void rows_by_hand(void **s) {
    (void)s;
    och_target_id id;
    assert_int_equal(och_target_find("gfx942", &id, NULL), OCH_OK);
    assert_true(id.target->fp8 == OCH_FP8_FNUZ && id.target->matrix == OCH_MATRIX_MFMA &&
                id.target->wave_default == 64 && (id.target->matrix_types & OCH_MT_XF32) &&
                id.target->apu == OCH_MAYBE);
    assert_int_equal(och_target_find("gfx950", &id, NULL), OCH_OK);
    assert_true(id.target->fp8 == OCH_FP8_OCP && id.target->lds_workgroup_bytes == 160 * 1024 &&
                !(id.target->matrix_types & OCH_MT_XF32));
    assert_int_equal(och_target_find("gfx1151", &id, NULL), OCH_OK);
    assert_true(id.target->wave_default == 32 && id.target->vgprs_lane_w32 == 1536 && id.target->apu == OCH_YES &&
                id.target->matrix == OCH_MATRIX_WMMA_GFX11 && !(id.target->ops & OCH_DOT4_I8) &&
                (id.target->ops & OCH_DOT4_IU8));
    assert_int_equal(och_target_find("gfx1103", &id, NULL), OCH_OK);
    assert_int_equal(id.target->vgprs_lane_w32, 1024);
    assert_int_equal(och_target_find("gfx1010", &id, NULL), OCH_OK);
    assert_false(id.target->ops & (OCH_DOT4_I8 | OCH_DOT4_IU8 | OCH_DOT2_F16));
    assert_int_equal(och_target_find("sm_90", &id, NULL), OCH_OK);
    assert_true(id.target->lds_workgroup_bytes == 227 * 1024 && id.target->lds_unit_bytes == 228 * 1024 &&
                id.target->vendor == OCH_VENDOR_NVIDIA && id.target->waves_simd_max * id.target->simds_cu == 64);
    assert_int_equal(och_target_find("sm_80", &id, NULL), OCH_OK);
    assert_true(id.target->lds_workgroup_bytes == 163 * 1024 && !(id.target->matrix_types & OCH_MT_FP8) &&
                id.target->waves_simd_max * id.target->simds_cu == 64);
    assert_int_equal(och_target_find("sm_89", &id, NULL), OCH_OK);
    assert_true(id.target->lds_workgroup_bytes == 99 * 1024 && id.target->waves_simd_max * id.target->simds_cu == 48);
}

static void rows_agree_with_themselves(void **s) {
    (void)s;
    for (size_t i = 0; i < och_target_count(); i++) {
        const och_target *row = och_target_at(i);
        for (size_t j = 0; j < i; j++) assert_string_not_equal(row->name, och_target_at(j)->name);
        SAME(row->matrix == OCH_MATRIX_NONE, row->matrix_types == 0);
        SAME(row->matrix == OCH_MATRIX_NONE, row->matrix_waves == 0);
        SAME(row->matrix_waves & ~row->waves, 0);
        SAME(!!(row->ops & OCH_CVT_FP8), row->fp8 != OCH_FP8_NONE);
        assert_true(row->wave_default == 32 ? row->waves & OCH_WAVE32 : row->waves & OCH_WAVE64);
        SAME(row->vgprs_lane_w32 == OCH_NOT_APPLICABLE, !(row->waves & OCH_WAVE32));
        SAME(row->vgprs_lane_w64 == OCH_NOT_APPLICABLE, !(row->waves & OCH_WAVE64));
        if (row->generic) assert_string_equal(row->generic_target, "");
        assert_true(row->name[0] && row->family[0]);
    }
    assert_null(och_target_at(och_target_count()));
    assert_null(och_board_at(och_board_count()));
}

static void whole_names(void **s) {
    (void)s;
    static const struct { const char *in, *canonical; och_feature sramecc, xnack; } good[] = {
        {"gfx942", "gfx942", OCH_FEATURE_ANY, OCH_FEATURE_ANY},
        {"gfx942:sramecc+:xnack-", "gfx942:sramecc+:xnack-", OCH_FEATURE_ON, OCH_FEATURE_OFF},
        {"gfx942:xnack-:sramecc+", "gfx942:sramecc+:xnack-", OCH_FEATURE_ON, OCH_FEATURE_OFF},
        {"gfx90a:xnack+", "gfx90a:xnack+", OCH_FEATURE_ANY, OCH_FEATURE_ON},
        {"gfx9-4-generic:sramecc-", "gfx9-4-generic:sramecc-", OCH_FEATURE_OFF, OCH_FEATURE_ANY},
        {"gfx11-generic", "gfx11-generic", OCH_FEATURE_ANY, OCH_FEATURE_ANY},
        {"sm_90", "sm_90", OCH_FEATURE_ANY, OCH_FEATURE_ANY},
    };
    och_target_id id;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(och_target_find(good[i].in, &id, NULL), OCH_OK);
        assert_string_equal(id.name, good[i].canonical);
        assert_true(id.sramecc == good[i].sramecc && id.xnack == good[i].xnack);
    }
    static const struct { const char *in, *message;
    } bad[] = {
        {"gfx942:", "target \"gfx942:\": expected sramecc+, sramecc-, xnack+ or xnack-, found \"\""},
        {"gfx942:xnack", "target \"gfx942:xnack\": expected sramecc+, sramecc-, xnack+ or xnack-, found \"xnack\""},
        {"gfx942:xnack*", "target \"gfx942:xnack*\": expected sramecc+, sramecc-, xnack+ or xnack-, found \"xnack*\""},
        {"gfx942:tgsplit+",
         "target \"gfx942:tgsplit+\": expected sramecc+, sramecc-, xnack+ or xnack-, found \"tgsplit+\""},
        {"gfx942:xnack+:xnack+", "target \"gfx942:xnack+:xnack+\": feature xnack is given twice"},
        {"gfx1100:xnack+", "target \"gfx1100:xnack+\": gfx1100 has no feature xnack"},
        {"gfx900:sramecc-", "target \"gfx900:sramecc-\": gfx900 has no feature sramecc"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        och_err err;
        och_err_clear(&err);
        assert_int_equal(och_target_find(bad[i].in, &id, &err), OCH_INVALID);
        assert_string_equal(err.message, bad[i].message);
        assert_null(id.target);
    }
}

static void unknown_targets_list_the_known(void **s) {
    (void)s;
    static const struct { const char *name, *generic; } cases[] = {
        {"gfx1154", "gfx11-generic"}, {"gfx1202", "gfx12-generic"}, {"gfx1037", "gfx10-3-generic"},
        {"gfx1014", "gfx10-1-generic"}, {"gfx907", "gfx9-generic"}, {"gfx943", "gfx9-4-generic"},
        {"gfx701", NULL}, {"sm_61", NULL}, {"", NULL}, {"gfx", NULL}, {"gfx94", NULL}, {"GFX942", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        och_target_id id;
        och_err err;
        char want[80];
        och_err_clear(&err);
        assert_int_equal(och_target_find(cases[i].name, &id, &err), OCH_NOTFOUND);
        snprintf(want, sizeof want, "(code for %s may serve it)", cases[i].generic ? cases[i].generic : "");
        if (i < 10) assert_int_equal(strstr(err.message, want) != NULL, cases[i].generic != NULL);
        for (size_t k = 0; k < och_target_count(); k++) assert_non_null(strstr(err.message, och_target_at(k)->name));
    }
}

static void code_serves_devices(void **s) {
    (void)s;
    static const struct { const char *code, *device; bool ok; } cases[] = {
        {"gfx942", "gfx942:sramecc+:xnack-", true},
        {"gfx942:xnack-", "gfx942:sramecc+:xnack-", true},
        {"gfx942:xnack+", "gfx942:sramecc+:xnack-", false},
        {"gfx942:sramecc-", "gfx942:sramecc+:xnack-", false},
        {"gfx942:xnack+", "gfx942", false},
        {"gfx9-4-generic", "gfx942:sramecc+:xnack-", true},
        {"gfx9-4-generic:xnack+", "gfx942:sramecc+:xnack-", false},
        {"gfx9-4-generic", "gfx950", true},
        {"gfx9-4-generic", "gfx90a", false},
        {"gfx11-generic", "gfx1151", true},
        {"gfx11-generic", "gfx1201", false},
        {"gfx1100", "gfx1101", false},
        {"gfx1151", "gfx11-generic", false},
        {"sm_90", "sm_90", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        och_target_id code, device;
        assert_int_equal(och_target_find(cases[i].code, &code, NULL), OCH_OK);
        assert_int_equal(och_target_find(cases[i].device, &device, NULL), OCH_OK);
        assert_int_equal(och_target_serves(&code, &device), cases[i].ok);
    }
}

static void boards_by_name(void **s) {
    (void)s;
    assert_string_equal(och_board_find("radeon rx 7900 xtx")->name, "Radeon RX 7900 XTX");
    assert_string_equal(och_board_find("Radeon RX 7900 XT")->name, "Radeon RX 7900 XT"); /* whole before part */
    assert_string_equal(och_board_find("gfx1100")->name, "Radeon RX 7900 XTX");          /* the first of its target */
    assert_string_equal(och_board_find("MI300X")->name, "Instinct MI300X");
    assert_string_equal(och_board_find("8060S")->arch, "gfx1151");
    assert_string_equal(och_board_find("h200")->arch, "sm_90");
    assert_null(och_board_find("7900")); /* several */
    assert_null(och_board_find("Voodoo"));
    assert_null(och_board_find(""));
}

static void unknown_figures_print_as_such(void **s) {
    (void)s;
    char b[32];
    assert_string_equal(och_target_print_num(OCH_UNKNOWN, b, sizeof b), "?");
    assert_string_equal(och_target_print_num(OCH_NOT_APPLICABLE, b, sizeof b), "-");
    assert_string_equal(och_target_print_num(206158430208.0, b, sizeof b), "206158430208");
    assert_string_equal(och_target_print_num(29.7, b, sizeof b), "29.7");
    assert_string_equal(och_tri_name(OCH_MAYBE), "?");
    assert_string_equal(och_tri_name(OCH_IF_XNACK), "with xnack");
    assert_string_equal(och_matrix_isa_name(OCH_MATRIX_WMMA_GFX125), "WMMA (gfx12.5)");
    assert_string_equal(och_fp8_encoding_name(OCH_FP8_FNUZ), "FNUZ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets_equal_the_facts),
        cmocka_unit_test(boards_equal_the_facts),
        cmocka_unit_test(rows_by_hand),
        cmocka_unit_test(rows_agree_with_themselves),
        cmocka_unit_test(whole_names),
        cmocka_unit_test(unknown_targets_list_the_known),
        cmocka_unit_test(code_serves_devices),
        cmocka_unit_test(boards_by_name),
        cmocka_unit_test(unknown_figures_print_as_such),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
