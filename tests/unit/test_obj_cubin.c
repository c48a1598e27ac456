/* Code for NVIDIA's devices: a cubin put together here section by section, and PTX; then each of them cut short and with bytes
 * changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "conform/support/ptx_text.h"
#include "obj/obj.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static och_err err;
static unsigned char file[4096];
static size_t n_file;

static void put32(unsigned char *p, uint32_t v) { memcpy(p, &v, 4); }
static void put16(unsigned char *p, unsigned v) { p[0] = (unsigned char)v, p[1] = (unsigned char)(v >> 8); }

/* Sections: names, code of k, code of a function, description of k, LDS of k, facts of all, symbols and their names. */
static void make_cubin(void) {
    enum { NAMES = 1, TEXT, FUNCTION, INFO, SHARED, FACTS, SYMBOLS, STRINGS, N };
    static const char names[] = "\0.shstrtab\0.text.k\0.text.f\0.nv.info.k\0.nv.shared.k\0.nv.info\0.symtab\0.strtab";
    static const char strings[] = "\0k\0f";
    Elf64_Shdr s[N] = {{0}};
    size_t at = sizeof(Elf64_Ehdr);
    memset(file, 0, sizeof file);
    const char *name = names + 1;
    for (int i = 1; i < N; i++) {
        s[i].sh_name = (uint32_t)(name - names);
        s[i].sh_type = i == SYMBOLS ? SHT_SYMTAB : i == NAMES || i == STRINGS ? SHT_STRTAB : SHT_PROGBITS;
        s[i].sh_offset = at;
        name += strlen(name) + 1;
        unsigned char *p = file + at;
        if (i == NAMES) memcpy(p, names, sizeof names), at += sizeof names;
        if (i == STRINGS) memcpy(p, strings, sizeof strings), at += sizeof strings;
        if (i == TEXT || i == FUNCTION) at += 16;
        if (i == SYMBOLS) { /* none, f, k */
            Elf64_Sym f = {.st_name = 3}, k = {.st_name = 1};
            memcpy(p + sizeof f, &f, sizeof f);
            memcpy(p + 2 * sizeof f, &k, sizeof k);
            at += 3 * sizeof f;
        }
        if (i == INFO) { /* three parameters, the last first; a record of 16 bits; the group */
            static const unsigned parameters[][3] = {{2, 16, 4}, {1, 8, 1}, {0, 0, 8}}; /* number, offset, size */
            for (int a = 0; a < 3; a++, p += 16) {
                p[0] = 4, p[1] = 0x17, put16(p + 2, 12);
                put16(p + 8, parameters[a][0]), put16(p + 10, parameters[a][1]);
                put32(p + 12, parameters[a][2] << 18 | 0x1f000);
            }
            p[0] = 3, p[1] = 0x1b, put16(p + 2, 255), p += 4;
            p[0] = 4, p[1] = 0x05, put16(p + 2, 12), put32(p + 4, 64), put32(p + 8, 2), put32(p + 12, 1), p += 16;
            at = (size_t)(p - file);
        }
        if (i == FACTS) { /* registers of k and of f, the frame of k */
            static const unsigned facts[][3] = {{0x2f, 2, 40}, {0x2f, 1, 99}, {0x11, 2, 24}};
            for (int a = 0; a < 3; a++, p += 12) p[0] = 4, p[1] = (unsigned char)facts[a][0], put16(p + 2, 8), put32(p + 4, facts[a][1]), put32(p + 8, facts[a][2]);
            at = (size_t)(p - file);
        }
        s[i].sh_size = at - s[i].sh_offset;
        if (i == SHARED) s[i].sh_type = SHT_NOBITS, s[i].sh_size = 1024;
        if (i == SYMBOLS) s[i].sh_link = STRINGS;
    }
    at = (at + 7) & ~(size_t)7;
    Elf64_Ehdr h = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1}, .e_machine = 190, .e_shoff = at, .e_shentsize = sizeof *s,
                    .e_shnum = N, .e_shstrndx = NAMES};
    memcpy(file, &h, sizeof h);
    memcpy(file + at, s, sizeof s);
    n_file = at + sizeof s;
}

static och_obj *parse(const void *bytes, size_t n) {
    och_obj *o;
    och_err_clear(&err);
    if (och_obj_parse_nvidia(bytes, n, &o, &err) != OCH_OK) fail_msg("%s", err.message);
    return o;
}

static void is(const och_obj_kernel *k, const char *name, size_t n, const uint32_t (*args)[2]) {
    assert_string_equal(k->name, name);
    assert_int_equal(k->n_args, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(k->args[i].offset, args[i][0]);
        assert_int_equal(k->args[i].size, args[i][1]);
        assert_int_equal(k->args[i].kind, args[i][1] == 8 ? OCH_ARG_GLOBAL_BUFFER : OCH_ARG_BY_VALUE);
    }
}

static void a_cubin(void **state) {
    (void)state;
    make_cubin();
    och_obj *o = parse(file, n_file);
    assert_int_equal(o->n_kernels, 1); /* f is none */
    const och_obj_kernel *k = &o->kernels[0];
    is(k, "k", 3, (const uint32_t[][2]){{0, 8}, {8, 1}, {16, 4}});
    assert_int_equal(k->vgprs, 40);
    assert_int_equal(k->private_bytes, 24);
    assert_int_equal(k->group_bytes, 1024);
    assert_int_equal(k->max_flat_workgroup_size, 128);
    assert_int_equal(k->kernarg_bytes, 20);
    assert_int_equal(k->wave_size, 32);
    och_obj_destroy(o);
}

static void ptx(void **state) {
    (void)state;
    och_obj *o = parse(ptx_text, sizeof ptx_text - 1);
    assert_int_equal(o->n_kernels, 4);
    is(&o->kernels[0], "put", 3, (const uint32_t[][2]){{0, 8}, {8, 4}, {12, 4}});
    is(&o->kernels[1], "twice", 2, (const uint32_t[][2]){{0, 8}, {8, 4}});
    is(&o->kernels[3], "nothing", 0, NULL);
    och_obj_destroy(o);
    static const char odd[] = ".entry k(.param .align 4 .b8 k_s[12], /* a , ) */ .param .u64 .ptr .global .align 16 k_p) {}";
    o = parse(odd, sizeof odd - 1);
    assert_int_equal(o->kernels[0].n_args, 2);
    assert_int_equal(o->kernels[0].args[0].size, 12);
    assert_int_equal(o->kernels[0].args[1].offset, 16);
    och_obj_destroy(o);
    static const char *const bad[] = {".entry k(.param .u99 a) {}", ".entry k(.param .u32 a", ".entry k(.param .b8 a[0])", ".entry k(x)"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        och_err_clear(&err);
        assert_int_equal(och_obj_parse_nvidia(bad[i], strlen(bad[i]), &o, &err), OCH_CORRUPT);
        assert_non_null(strstr(err.message, "the parameters of k"));
        assert_null(o);
    }
}

/* Nothing outside the bytes is read (a sanitizer sees it), and what fails says so. */
static void broken(void **state) {
    (void)state;
    make_cubin();
    static unsigned char whole[4096];
    memcpy(whole, file, n_file);
    uint32_t noise = 1;
    size_t n_corrupt = 0;
    for (size_t round = 0; round < n_file + 20000; round++) {
        size_t n = round < n_file ? round : n_file;
        unsigned char *p = malloc(n ? n : 1); /* of exactly that size */
        assert_non_null(p);
        memcpy(p, whole, n);
        for (int i = 0; round >= n_file && i < 3; i++) {
            noise = noise * 1664525 + 1013904223;
            p[noise % n] = (unsigned char)(noise >> 24);
            noise = noise * 1664525 + 1013904223;
        }
        och_obj *o;
        och_err_clear(&err);
        och_status st = och_obj_parse_nvidia(p, n, &o, &err);
        if (st != OCH_OK) {
            assert_int_equal(st, OCH_CORRUPT);
            assert_true(*err.message && !o);
            n_corrupt++;
        }
        och_obj_destroy(o);
        free(p);
    }
    assert_true(n_corrupt > n_file / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_cubin), cmocka_unit_test(ptx), cmocka_unit_test(broken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
