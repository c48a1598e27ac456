/* ochre targets: what code can be made for. */
#include "main/main.h"

#include "target/target.h"

#include <stdio.h>
#include <string.h>

static const och_usage usage = {
    "targets", "[TARGET] [options]",
    "Lists the targets that kernels are compiled for, or tells all that is known of one: wave sizes, LDS, registers, matrix and dot\n"
    "instructions, the oldest clang. A target is named whole where it has features: gfx942:sramecc+:xnack-. A figure that no source\n"
    "gives is \"?\", one that does not apply \"-\".\n",
    "  ochre targets\n  ochre targets gfx1151\n  ochre targets --json\n"};

static const struct {
    uint32_t bit;
    const char *name;
} matrix_types[] = {{OCH_MT_F32, "f32"}, {OCH_MT_XF32, "xf32"}, {OCH_MT_F64, "f64"}, {OCH_MT_F16, "f16"}, {OCH_MT_BF16, "bf16"},
                    {OCH_MT_BF16_K8, "bf16(k8)"}, {OCH_MT_I8, "i8"}, {OCH_MT_IU8, "iu8"}, {OCH_MT_IU4, "iu4"}, {OCH_MT_FP8, "fp8"},
                    {OCH_MT_BF8, "bf8"}, {OCH_MT_FP6, "fp6"}, {OCH_MT_BF6, "bf6"}, {OCH_MT_FP4, "fp4"}, {OCH_MT_MX, "mx"}},
  ops[] = {{OCH_DOT4_I8, "dot4_i8"}, {OCH_DOT4_IU8, "dot4_iu8"}, {OCH_DOT4_U8, "dot4_u8"}, {OCH_DOT8_I4, "dot8_i4"}, {OCH_DOT8_IU4, "dot8_iu4"},
           {OCH_DOT2_F16, "dot2_f16"}, {OCH_DOT2_BF16, "dot2_bf16"}, {OCH_DOT4_FP8, "dot4_fp8"}, {OCH_PK_FMA_F16, "pk_fma_f16"},
           {OCH_PK_FMA_BF16, "pk_fma_bf16"}, {OCH_PK_FMA_F32, "pk_fma_f32"}, {OCH_VOPD, "vopd"}, {OCH_CVT_FP8, "cvt_fp8"},
           {OCH_CVT_FP4_FP6, "cvt_fp4_fp6"}, {OCH_CVT_PK_BF16, "cvt_pk_bf16"}, {OCH_FMA_MIX, "fma_mix"}, {OCH_MAD_MIX, "mad_mix"},
           {OCH_ATOMIC_ADD_F32, "atomic_add_f32"}, {OCH_SPARSE_MATRIX, "sparse_matrix"}, {OCH_DEPENDENT_LAUNCH, "dependent_launch"}, {OCH_GROUP_MATRIX, "group_matrix"}};

/* The names of the bits that are set, as words or as JSON strings. */
static void put_types(uint32_t bits, bool json, och_strbuf *b) {
    bool any = false;
    for (size_t i = 0; i < sizeof matrix_types / sizeof *matrix_types; i++)
        if (bits & matrix_types[i].bit) {
            och_strbuf_printf(b, json ? "%s\"%s\"" : "%s%s", any ? (json ? ", " : " ") : "", matrix_types[i].name);
            any = true;
        }
}

static void put_ops(uint32_t bits, bool json, och_strbuf *b) {
    bool any = false;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (bits & ops[i].bit) {
            och_strbuf_printf(b, json ? "%s\"%s\"" : "%s%s", any ? (json ? ", " : " ") : "", ops[i].name);
            any = true;
        }
}

static const char *waves_text(uint32_t waves) {
    return waves == (OCH_WAVE32 | OCH_WAVE64) ? "32,64" : waves == OCH_WAVE64 ? "64" : "32";
}

static void put_number(och_strbuf *b, const char *name, int32_t v) {
    if (v == OCH_UNKNOWN || v == OCH_NOT_APPLICABLE) och_strbuf_printf(b, ", \"%s\": null", name);
    else och_strbuf_printf(b, ", \"%s\": %d", name, (int)v);
}

static void put_string(och_strbuf *b, const char *name, const char *v) {
    och_strbuf_printf(b, ", \"%s\": ", name);
    och_strbuf_json(b, v, strlen(v));
}

static void put_json(const och_target *t, och_strbuf *b) {
    och_strbuf_printf(b, "{\"target\": \"%s\", \"vendor\": \"%s\", \"generic\": %s", t->name, t->vendor == OCH_VENDOR_AMD ? "amd" : "nvidia",
                      t->generic ? "true" : "false");
    put_string(b, "family", t->family);
    put_string(b, "products", t->products);
    put_string(b, "apu", och_tri_name(t->apu));
    och_strbuf_printf(b, ", \"waves\": [%s]", waves_text(t->waves));
    put_number(b, "wave_default", t->wave_default);
    put_number(b, "lds_workgroup_bytes", t->lds_workgroup_bytes);
    put_number(b, "vgprs_wave_max", t->vgprs_wave_max);
    put_number(b, "agprs", t->agprs);
    put_number(b, "sgprs_wave", t->sgprs_wave);
    put_number(b, "waves_simd_max", t->waves_simd_max);
    put_number(b, "simds_cu", t->simds_cu);
    put_string(b, "matrix", och_matrix_isa_name(t->matrix));
    och_strbuf_puts(b, ", \"matrix_types\": [");
    put_types(t->matrix_types, true, b);
    och_strbuf_puts(b, "], \"instructions\": [");
    put_ops(t->ops, true, b);
    och_strbuf_puts(b, "]");
    put_string(b, "fp8", och_fp8_encoding_name(t->fp8));
    och_strbuf_printf(b, ", \"xnack\": %s, \"sramecc\": %s", t->xnack ? "true" : "false", t->sramecc ? "true" : "false");
    put_string(b, "generic_target", t->generic_target);
    put_number(b, "clang_min", t->clang_min);
    och_strbuf_printf(b, ", \"clang_removed\": %d, \"code_object_v6\": %s}", (int)t->clang_removed, t->code_object_v6 ? "true" : "false");
}

static void put_row(const och_target *t, och_strbuf *b) {
    char lds[24], vgprs[24];
    och_target_print_num(t->lds_workgroup_bytes, lds, sizeof lds);
    och_target_print_num(t->vgprs_wave_max, vgprs, sizeof vgprs);
    och_strbuf_printf(b, "%-16s %-13s %-6s %7s %6s %-14s %-5s %s\n", t->name, t->family, waves_text(t->waves), lds, vgprs, och_matrix_isa_name(t->matrix),
                      och_fp8_encoding_name(t->fp8), t->products[0] ? t->products : "-");
}

static void put_line(och_strbuf *b, const char *name, int32_t v, const char *unit) {
    char text[24];
    och_strbuf_printf(b, "%-22s %s%s\n", name, och_target_print_num(v, text, sizeof text), v >= 0 ? unit : "");
}

static void put_all(const och_target_id *id, och_strbuf *b) {
    const och_target *t = id->target;
    och_strbuf_printf(b, "%-22s %s%s\n%-22s %s\n%-22s %s\n", "target", id->name, t->generic ? ", generic: one code for several" : "", "family", t->family,
                      "products", t->products[0] ? t->products : "-");
    och_strbuf_printf(b, "%-22s %s, default %d\n", "wave sizes", waves_text(t->waves), (int)t->wave_default);
    put_line(b, "LDS of a workgroup", t->lds_workgroup_bytes, " bytes");
    put_line(b, "LDS of a unit", t->lds_unit_bytes, " bytes");
    put_line(b, "vector registers", t->vgprs_wave_max, " a wave");
    put_line(b, "accumulation registers", t->agprs, "");
    put_line(b, "scalar registers", t->sgprs_wave, " a wave");
    put_line(b, "waves", t->waves_simd_max, " a SIMD");
    put_line(b, "SIMDs", t->simds_cu, " a compute unit");
    och_strbuf_printf(b, "%-22s %s: ", "matrix instructions", och_matrix_isa_name(t->matrix));
    put_types(t->matrix_types, false, b);
    och_strbuf_printf(b, "\n%-22s ", "other instructions");
    put_ops(t->ops, false, b);
    och_strbuf_printf(b, "\n%-22s %s\n", "fp8", och_fp8_encoding_name(t->fp8));
    och_strbuf_printf(b, "%-22s %s%s%s\n", "features", t->sramecc ? "sramecc " : "", t->xnack ? "xnack" : "", !t->sramecc && !t->xnack ? "none" : "");
    if (t->generic_target[0]) och_strbuf_printf(b, "%-22s %s\n", "served by", t->generic_target);
    put_line(b, "clang from", t->clang_min, "");
    if (t->clang_removed) put_line(b, "not in clang from", t->clang_removed, " on");
    if (t->code_object_v6) och_strbuf_printf(b, "%-22s %s\n", "code object", "version 6");
}

int och_cmd_targets(int argc, char **argv) {
    bool json = false;
    const char *name = NULL;
    int n_args = 0;
    const och_opt opts[] = {{"json", 0, OCH_OPT_FLAG, &json, 0, 0, NULL, "one JSON object", NULL}};
    int rc = och_opts_parse(&usage, opts, 1, argc, argv, &name, 1, &n_args);
    if (rc >= 0) return rc;
    och_strbuf b = {0};
    och_target_id id;
    och_err err = {0};
    if (n_args && och_target_find(name, &id, &err) != OCH_OK) return och_main_fail(&err);
    if (n_args && json) {
        put_json(id.target, &b);
        och_strbuf_puts(&b, "\n");
    } else if (n_args) put_all(&id, &b);
    else {
        if (json) och_strbuf_puts(&b, "{\"targets\": [");
        else
            och_strbuf_printf(&b, "%-16s %-13s %-6s %7s %6s %-14s %-5s %s\n", "target", "family", "waves", "lds", "vgprs", "matrix", "fp8", "products");
        for (size_t i = 0; i < och_target_count(); i++) {
            if (json && i) och_strbuf_puts(&b, ", ");
            if (json) put_json(och_target_at(i), &b);
            else put_row(och_target_at(i), &b);
        }
        if (json) och_strbuf_puts(&b, "]}\n");
    }
    if (b.failed) rc = och_main_error("out of memory");
    else fputs(och_strbuf_str(&b), stdout), rc = OCH_EXIT_OK;
    och_strbuf_deinit(&b);
    return rc;
}
