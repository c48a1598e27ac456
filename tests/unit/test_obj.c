/* Code objects made by LLVM 22 (tests/golden/obj) against what LLVM's own tools read in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "obj/obj.h"
#include "unit/obj_file.h"

#include <elf.h>
#include <string.h>

static och_obj *parse(const obj_file *f) {
    och_obj *o;
    och_err e = {0};
    if (och_obj_parse(f->bytes, f->n_bytes, &o, &e) != OCH_OK) fail_msg("%s", e.message);
    return o;
}

/* From llvm-readelf -h -n and, for the descriptor, the bytes of .rodata as llvm-objdump -s prints them. */
static const struct {
    const char *file, *target;
    unsigned version;
    uint32_t e_flags;
    const char *kernel;
    uint64_t descriptor, entry;
    uint32_t group, private_bytes, kernarg, rsrc1, rsrc2, rsrc3, properties, wave, sgprs, vgprs, agprs, flat;
    bool dynamic_stack, uniform;
    size_t n_args;
} kernels[] = {
    {"v4-gfx90a.co", "gfx90a:sramecc+:xnack-", 4, 0xe3f, "axpy",
     0xa40, 0x1b00, 0, 0, 28, 0x00af0040, 0x90, 0, 0x000b, 64, 11, 4, 0, 1024, 0, 0, 4},
    {"v4-gfx90a.co", "gfx90a:sramecc+:xnack-", 4, 0xe3f, "rotate",
     0xa80, 0x1c00, 256, 0, 28, 0x00af0000, 0x8c, 0, 0x0009, 64, 7, 4, 0, 64, 0, 0, 3},
    {"v4-gfx90a.co", "gfx90a:sramecc+:xnack-", 4, 0xe3f, "product",
     0xac0, 0x1d00, 0, 0, 24, 0x00af0004, 0x8c, 6, 0x0009, 64, 6, 34, 6, 1024, 0, 0, 3},
    {"v5-gfx1100.co", "gfx1100", 5, 0x41, "dispatch",
     0x1140, 0x2300, 0, 0, 272, 0xe0af0005, 0x139b, 0x20, 0x0c1e, 32, 38, 41, 0, 1024, 1, 1, 21},
    {"v5-gfx1100.co", "gfx1100", 5, 0x41, "axpy",
     0x1180, 0x2400, 0, 0, 288, 0xe0af0000, 0x9e, 0x20, 0x0408, 32, 18, 4, 0, 1024, 0, 1, 17},
    {"v5-gfx1100.co", "gfx1100", 5, 0x41, "rotate",
     0x11c0, 0x2500, 256, 0, 28, 0xe0af0000, 0x9e, 0x20, 0x0408, 32, 8, 5, 0, 64, 0, 1, 3},
    {"v6-gfx1151-wave64.co", "gfx1151", 6, 0x4a, "axpy",
     0xb00, 0x1c00, 0, 0, 288, 0xe0af0000, 0x84, 0x20, 0x0008, 64, 10, 4, 0, 1024, 0, 1, 17},
    {"v6-gfx1151-wave64.co", "gfx1151", 6, 0x4a, "rotate",
     0xb40, 0x1d00, 256, 0, 28, 0xe0af0001, 0x84, 0x20, 0x0008, 64, 8, 5, 0, 64, 0, 1, 3},
    {"v6-gfx9-generic.co", "gfx9-generic:xnack+", 6, 0x1000351, "axpy",
     0xac0, 0x1c00, 0, 0, 288, 0x00af0040, 0x8c, 0, 0x0009, 64, 11, 4, 0, 1024, 0, 1, 17},
    {"v6-gfx9-generic.co", "gfx9-generic:xnack+", 6, 0x1000351, "rotate",
     0xb00, 0x1d00, 256, 0, 28, 0x00af0041, 0x8c, 0, 0x0009, 64, 12, 6, 0, 64, 0, 1, 3},
    {"relocs.co", "gfx1201", 5, 0x4e, "all",
     0xc00, 0x1d00, 1024, 36, 280, 0xe00c0002, 0x88, 0, 0x080a, 64, 12, 9, 0, 512, 1, 1, 27},
    {"relocs.co", "gfx1201", 5, 0x4e, "plain",
     0xc40, 0x2000, 0, 0, 0, 0xe00c0003, 0x80, 0, 0x0400, 32, 4, 25, 0, 1024, 0, 0, 0},
};

static void kernels_and_descriptors(void **s) {
    (void)s;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        obj_file f = obj_file_read(kernels[i].file);
        och_obj *o = parse(&f);
        obj_file_free(&f); /* the object keeps nothing of it */
        const och_obj_kernel *k = NULL;
        for (size_t n = 0; n < o->n_kernels; n++)
            if (!strcmp(o->kernels[n].name, kernels[i].kernel)) k = &o->kernels[n];
        if (!k) fail_msg("%s: no %s", kernels[i].file, kernels[i].kernel);
        assert_string_equal(o->target, kernels[i].target);
        assert_int_equal(o->version, kernels[i].version);
        assert_int_equal(o->e_flags, kernels[i].e_flags);
        char symbol[64];
        snprintf(symbol, sizeof symbol, "%s.kd", kernels[i].kernel);
        assert_string_equal(k->symbol, symbol);
        assert_int_equal(k->descriptor_addr, kernels[i].descriptor);
        assert_int_equal(k->entry_addr, kernels[i].entry);
        assert_int_equal(k->group_bytes, kernels[i].group);
        assert_int_equal(k->private_bytes, kernels[i].private_bytes);
        assert_int_equal(k->kernarg_bytes, kernels[i].kernarg);
        assert_int_equal(k->rsrc1, kernels[i].rsrc1);
        assert_int_equal(k->rsrc2, kernels[i].rsrc2);
        assert_int_equal(k->rsrc3, kernels[i].rsrc3);
        assert_int_equal(k->properties, kernels[i].properties);
        assert_int_equal(k->kernarg_preload, 0);
        assert_int_equal(k->wave_size, kernels[i].wave);
        assert_int_equal(k->sgprs, kernels[i].sgprs);
        assert_int_equal(k->vgprs, kernels[i].vgprs);
        assert_int_equal(k->agprs, kernels[i].agprs);
        assert_int_equal(k->max_flat_workgroup_size, kernels[i].flat);
        assert_int_equal(k->dynamic_stack, kernels[i].dynamic_stack);
        assert_int_equal(k->uniform_workgroup, kernels[i].uniform);
        assert_int_equal(k->n_args, kernels[i].n_args);
        och_obj_destroy(o);
    }
}

typedef struct expected_arg {
    uint32_t offset, size;
    const char *value_kind;
    och_obj_arg_kind kind;
} expected_arg;

static void check_args(const och_obj_kernel *k, const expected_arg *a, size_t n) {
    assert_int_equal(k->n_args, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(k->args[i].offset, a[i].offset);
        assert_int_equal(k->args[i].size, a[i].size);
        assert_string_equal(k->args[i].value_kind, a[i].value_kind);
        assert_int_equal(k->args[i].kind, a[i].kind);
    }
}

static void arguments_of_a_compiler(void **s) {
    (void)s;
    static const expected_arg dispatch[] = {
        {0, 8, "global_buffer", OCH_ARG_GLOBAL_BUFFER},
        {8, 4, "by_value", OCH_ARG_BY_VALUE},
        {16, 4, "hidden_block_count_x", OCH_ARG_HIDDEN_BLOCK_COUNT_X},
        {20, 4, "hidden_block_count_y", OCH_ARG_HIDDEN_BLOCK_COUNT_Y},
        {24, 4, "hidden_block_count_z", OCH_ARG_HIDDEN_BLOCK_COUNT_Z},
        {28, 2, "hidden_group_size_x", OCH_ARG_HIDDEN_GROUP_SIZE_X},
        {30, 2, "hidden_group_size_y", OCH_ARG_HIDDEN_GROUP_SIZE_Y},
        {32, 2, "hidden_group_size_z", OCH_ARG_HIDDEN_GROUP_SIZE_Z},
        {34, 2, "hidden_remainder_x", OCH_ARG_HIDDEN_REMAINDER_X},
        {36, 2, "hidden_remainder_y", OCH_ARG_HIDDEN_REMAINDER_Y},
        {38, 2, "hidden_remainder_z", OCH_ARG_HIDDEN_REMAINDER_Z},
        {56, 8, "hidden_global_offset_x", OCH_ARG_HIDDEN_GLOBAL_OFFSET_X},
        {64, 8, "hidden_global_offset_y", OCH_ARG_HIDDEN_GLOBAL_OFFSET_Y},
        {72, 8, "hidden_global_offset_z", OCH_ARG_HIDDEN_GLOBAL_OFFSET_Z},
        {80, 2, "hidden_grid_dims", OCH_ARG_HIDDEN_GRID_DIMS},
        {96, 8, "hidden_hostcall_buffer", OCH_ARG_HIDDEN_HOSTCALL_BUFFER},
        {104, 8, "hidden_multigrid_sync_arg", OCH_ARG_HIDDEN_MULTIGRID_SYNC_ARG},
        {112, 8, "hidden_heap_v1", OCH_ARG_HIDDEN_HEAP_V1},
        {120, 8, "hidden_default_queue", OCH_ARG_HIDDEN_DEFAULT_QUEUE},
        {128, 8, "hidden_completion_action", OCH_ARG_HIDDEN_COMPLETION_ACTION},
        {216, 8, "hidden_queue_ptr", OCH_ARG_HIDDEN_QUEUE_PTR},
    };
    static const expected_arg rotate[] = {{0, 16, "by_value", OCH_ARG_BY_VALUE},
                                          {16, 8, "global_buffer", OCH_ARG_GLOBAL_BUFFER},
                                          {24, 1, "by_value", OCH_ARG_BY_VALUE}};
    obj_file f = obj_file_read("v5-gfx1100.co");
    och_obj *o = parse(&f);
    assert_int_equal(o->n_kernels, 3);
    check_args(&o->kernels[0], dispatch, sizeof dispatch / sizeof *dispatch);
    check_args(&o->kernels[2], rotate, 3);
    assert_string_equal(o->kernels[2].args[0].name, "");
    assert_int_equal(o->kernels[2].reqd_workgroup_size[0], 0);
    assert_int_equal(o->kernels[2].kernarg_align, 8);
    och_obj_destroy(o);
    obj_file_free(&f);
}

static void metadata_by_hand(void **s) {
    (void)s;
    obj_file f = obj_file_read("relocs.co");
    och_obj *o = parse(&f);
    const och_obj_kernel *k = &o->kernels[0];
    assert_string_equal(k->args[0].name, "in");
    assert_string_equal(k->args[0].type_name, "int*");
    assert_int_equal(k->args[1].kind, OCH_ARG_DYNAMIC_SHARED_POINTER);
    static const och_obj_arg_kind kinds[] = {OCH_ARG_HIDDEN_PRINTF_BUFFER, OCH_ARG_HIDDEN_HOSTCALL_BUFFER,
                                             OCH_ARG_HIDDEN_MULTIGRID_SYNC_ARG, OCH_ARG_HIDDEN_HEAP_V1,
                                             OCH_ARG_HIDDEN_DEFAULT_QUEUE, OCH_ARG_HIDDEN_COMPLETION_ACTION,
                                             OCH_ARG_HIDDEN_DYNAMIC_LDS_SIZE, OCH_ARG_HIDDEN_PRIVATE_BASE,
                                             OCH_ARG_HIDDEN_SHARED_BASE, OCH_ARG_HIDDEN_QUEUE_PTR, OCH_ARG_HIDDEN_NONE};
    for (size_t i = 0; i < 11; i++) assert_int_equal(k->args[16 + i].kind, kinds[i]);
    assert_int_equal(k->sgpr_spills, 3);
    assert_int_equal(k->vgpr_spills, 5);
    assert_int_equal(k->kernarg_align, 16);
    assert_int_equal(k->reqd_workgroup_size[0], 8);
    assert_int_equal(k->reqd_workgroup_size[1], 4);
    assert_int_equal(k->reqd_workgroup_size[2], 2);
    assert_int_equal(o->n_printf, 2);
    assert_string_equal(o->printf_formats[0], "1:1:4:%d\\n");
    assert_string_equal(o->printf_formats[1], "2:2:8:8:%s %f\\n");
    och_obj_destroy(o);
    obj_file_free(&f);
}

static void symbols_and_segments(void **s) {
    (void)s;
    obj_file f = obj_file_read("v5-gfx1100.co");
    och_obj *o = parse(&f);
    assert_int_equal(o->n_symbols, 11);
    const och_obj_symbol *y = och_obj_find_symbol(o, "operations");
    assert_non_null(y);
    assert_int_equal(y->addr, 0x4860);
    assert_int_equal(y->size, 16);
    assert_int_equal(y->type, STT_OBJECT);
    assert_int_equal(y->bind, STB_GLOBAL);
    assert_true(y->defined);
    assert_null(och_obj_find_symbol(o, "operation"));
    assert_null(och_obj_find_symbol(o, "")); /* the null symbol is not one */
    assert_null(och_obj_find_symbol(o, "zzz"));
    static const struct {
        const char *name;
        uint64_t addr;
    } functions[] = {{"_Z5twicei", 0x2200}, {"_Z6thricei", 0x2234}, {"dispatch", 0x2300}, {"axpy", 0x2400}, {"rotate", 0x2500}};
    assert_int_equal(o->n_functions, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(o->functions[i].name, functions[i].name);
        assert_int_equal(o->functions[i].addr, functions[i].addr);
    }
    static const och_obj_segment segments[] = {{0, 0, 0x1200, 0x1200, 1, 0, 0},
                                               {0x2200, 0x1200, 0x580, 0x580, 1, 0, 1},
                                               {0x3780, 0x1780, 0xb0, 0x880, 1, 1, 0},
                                               {0x4830, 0x1830, 0x40, 0x41, 1, 1, 0}};
    assert_int_equal(o->n_segments, 4);
    for (size_t i = 0; i < 4; i++) {
        const och_obj_segment *a = &o->segments[i], *b = &segments[i];
        assert_int_equal(a->addr, b->addr);
        assert_int_equal(a->file_offset, b->file_offset);
        assert_int_equal(a->file_bytes, b->file_bytes);
        assert_int_equal(a->mem_bytes, b->mem_bytes);
        assert_int_equal(a->read, b->read);
        assert_int_equal(a->write, b->write);
        assert_int_equal(a->exec, b->exec);
    }
    assert_int_equal(o->text_addr, 0x2200);
    assert_int_equal(o->text_bytes, 0x580);
    och_obj_destroy(o);
    obj_file_free(&f);
    f = obj_file_read("v6-gfx9-generic.co"); /* stripped: functions come from .dynsym */
    o = parse(&f);
    assert_int_equal(o->n_functions, 2);
    assert_string_equal(o->functions[1].name, "rotate");
    och_obj_destroy(o);
    obj_file_free(&f);
}

static void relocations(void **s) {
    (void)s;
    for (int undefined = 0; undefined < 2; undefined++) {
        obj_file f = obj_file_read(undefined ? "undefined.co" : "relocs.co");
        och_obj *o = parse(&f);
        assert_int_equal(o->n_relocs, 3);
        assert_int_equal(o->relocs[0].type, 13); /* R_AMDGPU_RELATIVE64 */
        assert_int_equal(o->relocs[0].addr, 0x40c0);
        assert_string_equal(o->relocs[0].symbol, "");
        assert_int_equal(o->relocs[0].addend, 0x40c0);
        assert_int_equal(o->relocs[1].addr, 0x40c8);
        assert_int_equal(o->relocs[1].addend, 0x1e00);
        assert_int_equal(o->relocs[2].type, 3); /* R_AMDGPU_ABS64 */
        assert_int_equal(o->relocs[2].addr, 0x40b8);
        assert_string_equal(o->relocs[2].symbol, "outside");
        assert_int_equal(o->relocs[2].symbol_addr, undefined ? 0 : 0x40d0);
        assert_int_equal(o->relocs[2].symbol_defined, !undefined);
        assert_false(o->relocs[2].symbol_weak);
        assert_int_equal(o->relocs[2].addend, 0);
        och_obj_destroy(o);
        obj_file_free(&f);
    }
}

/* ---- bundles ---- */

static och_obj_bundle open_bundle(const void *bytes, size_t n) {
    och_obj_bundle b;
    och_err e = {0};
    if (och_obj_bundle_open(bytes, n, &b, &e) != OCH_OK) fail_msg("%s", e.message);
    return b;
}

static void bundles(void **s) {
    (void)s;
    static const char *const files[] = {"bundle.hipfb", "bundle-v1.ccob", "bundle-v2.ccob", "bundle-v3.ccob"};
    obj_file generic = obj_file_read("v6-gfx9-generic.co");
    for (size_t i = 0; i < 4; i++)
        for (int sized = 0; sized < 2; sized++) {
            obj_file f = obj_file_read(files[i]);
            och_obj_bundle b = open_bundle(f.bytes, sized ? f.n_bytes : 0);
            assert_int_equal(b.n_entries, 3);
            assert_string_equal(b.entries[0].triple, "host-x86_64-unknown-linux-gnu-");
            assert_string_equal(b.entries[0].target, "");
            assert_int_equal(b.entries[0].n_bytes, 0);
            assert_string_equal(b.entries[1].triple, "hipv4-amdgcn-amd-amdhsa--gfx906");
            assert_string_equal(b.entries[1].target, "gfx906");
            assert_int_equal(b.entries[1].n_bytes, 3984);
            assert_string_equal(b.entries[2].target, "gfx9-generic:xnack+");
            assert_int_equal(b.entries[2].n_bytes, generic.n_bytes);
            assert_memory_equal(b.entries[2].bytes, generic.bytes, generic.n_bytes);
            och_obj *o;
            assert_int_equal(och_obj_parse(b.entries[1].bytes, b.entries[1].n_bytes, &o, NULL), OCH_OK);
            assert_string_equal(o->target, "gfx906");
            och_obj_destroy(o);
            assert_int_equal(b.owned != NULL, i > 0);
            och_obj_bundle_close(&b);
            obj_file_free(&f);
        }
    obj_file_free(&generic);
}

static void a_bare_object_is_a_bundle_of_one(void **s) {
    (void)s;
    obj_file f = obj_file_read("v4-gfx90a.co");
    for (int sized = 0; sized < 2; sized++) {
        och_obj_bundle b = open_bundle(f.bytes, sized ? f.n_bytes : 0);
        assert_int_equal(b.n_entries, 1);
        assert_string_equal(b.entries[0].target, "gfx90a:sramecc+:xnack-");
        assert_string_equal(b.entries[0].triple, "hip-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-");
        assert_ptr_equal(b.entries[0].bytes, f.bytes);
        assert_int_equal(b.entries[0].n_bytes, f.n_bytes);
        och_obj_bundle_close(&b);
    }
    obj_file_free(&f);
}

static void several_bundles_one_after_another(void **s) {
    (void)s;
    obj_file a = obj_file_read("bundle.hipfb"), c = obj_file_read("bundle-v2.ccob"), d = obj_file_read("bundle-v1.ccob");
    size_t n = a.n_bytes + c.n_bytes + d.n_bytes + 100;
    uint8_t *all = och_calloc(n, 1);
    assert_non_null(all);
    memcpy(all, c.bytes, c.n_bytes);
    memcpy(all + c.n_bytes + 40, d.bytes, d.n_bytes); /* padding between, and at the end */
    memcpy(all + c.n_bytes + 40 + d.n_bytes, a.bytes, a.n_bytes);
    och_obj_bundle b = open_bundle(all, n);
    assert_int_equal(b.n_entries, 9);
    for (size_t i = 0; i < 9; i += 3) {
        assert_string_equal(b.entries[i + 1].target, "gfx906");
        assert_memory_equal(b.entries[i + 1].bytes, b.entries[1].bytes, 3984);
    }
    och_obj_bundle_close(&b);
    b = open_bundle(all, 0); /* only the first says how long it is */
    assert_int_equal(b.n_entries, 3);
    och_obj_bundle_close(&b);
    och_free(all);
    obj_file_free(&a);
    obj_file_free(&c);
    obj_file_free(&d);
}

/* Entry names of bundlers of other versions. */
static void targets_of_entry_names(void **s) {
    (void)s;
    static const struct {
        const char *id, *target;
    } names[] = {{"hip-amdgcn-amd-amdhsa--gfx900", "gfx900"},
                 {"hipv4-amdgcn-amd-amdhsa-unknown-gfx1100", "gfx1100"},
                 {"hipv4-amdgcn-amd-amdhsa--gfx9-4-generic:sramecc+:xnack-", "gfx9-4-generic:sramecc+:xnack-"},
                 {"hip-spirv64-amd-amdhsa--amdgcnspirv", "amdgcnspirv"},
                 {"host-x86_64-unknown-linux--", ""},
                 {"host-x86_64-unknown-linux-gnu", ""},
                 {"openmp-x86_64", ""}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        uint8_t text[200] = "__CLANG_OFFLOAD_BUNDLE__";
        size_t n = strlen(names[i].id);
        text[24] = 1;
        text[32] = (uint8_t)(56 + n);
        text[40] = 2;
        text[48] = (uint8_t)n;
        memcpy(text + 56, names[i].id, n);
        och_obj_bundle b = open_bundle(text, 56 + n + 2);
        assert_int_equal(b.n_entries, 1);
        assert_string_equal(b.entries[0].triple, names[i].id);
        assert_string_equal(b.entries[0].target, names[i].target);
        assert_ptr_equal(b.entries[0].bytes, text + 56 + n);
        och_obj_bundle_close(&b);
    }
}

/* The longest name that an entry may have, and one more. */
static void long_entry_names(void **s) {
    (void)s;
    for (uint8_t n = 95; n <= 96; n++) {
        uint8_t text[200] = "__CLANG_OFFLOAD_BUNDLE__";
        text[24] = 1;
        text[32] = (uint8_t)(56 + n);
        text[48] = n;
        memset(text + 56, 'h', n);
        memcpy(text + 56, "host", 4);
        och_obj_bundle b;
        och_err e = {0};
        assert_int_equal(och_obj_bundle_open(text, 56u + n, &b, &e), n == 95 ? OCH_OK : OCH_CORRUPT);
        if (n == 95) assert_int_equal(strlen(b.entries[0].triple), 95);
        else assert_non_null(strstr(e.message, "a name of at most 95 bytes, found one of 96"));
        och_obj_bundle_close(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_and_descriptors),
        cmocka_unit_test(arguments_of_a_compiler),
        cmocka_unit_test(metadata_by_hand),
        cmocka_unit_test(symbols_and_segments),
        cmocka_unit_test(relocations),
        cmocka_unit_test(bundles),
        cmocka_unit_test(a_bare_object_is_a_bundle_of_one),
        cmocka_unit_test(several_bundles_one_after_another),
        cmocka_unit_test(targets_of_entry_names),
        cmocka_unit_test(long_entry_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
