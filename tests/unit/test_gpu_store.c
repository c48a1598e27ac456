/* The kernels of a device: what a refused allocation leaves behind, and what is remembered of a failure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/spawn.h"
#include "jit/kernel.h"
#include "jit/pack.h"
#include "kl/builtin.h"
#include "op/gpu/gpu.h"
#include "op/memo.h"

#define OWN_KERNELS 300

static och_err err;

static och_device *open_board(const char *name) {
    och_device *d;
    och_err_clear(&err);
    if (och_device_open(name, NULL, &d, &err) != OCH_OK) fail_msg("%s", err.message);
    return d;
}

static och_status get(const och_device *d, int waves, const och_gpu_kernel **out) {
    och_err_clear(&err);
    return och_gpu_kernel_get(d, "add", out, &err, "V=4,WAVES=%d,CHUNK=1024", waves);
}

/* One refused allocation after another, in getting a first kernel and a second: the message names the kernel, the next try
 * succeeds, and all is given back with the device. */
static void no_memory(void **state) {
    (void)state;
    const och_gpu_kernel *k;
    och_device *d = open_board("sim:gfx1151");
    for (int waves = 2; waves <= 4; waves += 2)
        if (get(d, waves, &k) != OCH_OK) fail_msg("%s", err.message); /* compiled, and in the cache */
    och_device_release(d);
    int64_t live = och_alloc_live();
    uint64_t failed = 0;
    for (uint64_t n = 1;; n++) {
        d = open_board("sim:gfx1151");
        och_alloc_fail_at(n);
        och_status first = get(d, 2, &k);
        assert_true((first == OCH_OK) == (k != NULL));
        if (first != OCH_OK && (first != OCH_NOMEM || !strstr(err.message, "kernel add (V=4,WAVES=2,"))) fail_msg("%s", err.message);
        och_status second = get(d, 4, &k);
        if (second != OCH_OK && (second != OCH_NOMEM || !strstr(err.message, "kernel add (V=4,WAVES=4,"))) fail_msg("%s", err.message);
        uint64_t count = och_alloc_count();
        och_alloc_fail_at(0);
        failed += first != OCH_OK || second != OCH_OK;
        for (int waves = 2; waves <= 4; waves += 2)
            if (get(d, waves, &k) != OCH_OK) fail_msg("after allocation %llu had been refused: %s", (unsigned long long)n, err.message);
        och_device_release(d);
        assert_int_equal(och_alloc_live(), live);
        if (count < n) break;
    }
    assert_true(failed > 20);
}

/* Any number of files with any number of kernels, beside the built-in ones or in place of them. */
static void kernels_of_a_folder(void **state) {
    (void)state;
    och_device *d = open_board("sim:gfx1151");
    for (int i = 0; i < OWN_KERNELS; i += OWN_KERNELS - 1) {
        char name[32];
        snprintf(name, sizeof name, "own_%d", i);
        och_err_clear(&err);
        och_status st = och_gpu_kernel_get(d, name, NULL, &err, "V=%d", 1);
        if (st != OCH_OK && !och_gpu_absent(st)) fail_msg("%s", err.message);
    }
    och_device_release(d);
}

/* A file with so many kernels, which it takes to find those that come behind. */
static void write_own_kernels(const char *folder) {
    char path[320];
    mkdir(folder, 0700);
    snprintf(path, sizeof path, "%s/a_own.ok", folder);
    FILE *f = fopen(path, "w");
    if (!f) abort();
    for (int i = 0; i < OWN_KERNELS; i++)
        fprintf(f, "kernel own_%d(x: out buf<f32>[n])\n  param V: int\n  launch grid(n) waves(1)\n{ x[group.id.x] = f32(V); }\n", i);
    if (fclose(f) != 0) abort();
}

/* What the language refuses is refused again, by name, without being tried again. */
static void a_failure_is_remembered(void **state) {
    (void)state;
    const och_gpu_kernel *k;
    och_device *d = open_board("sim:gfx1151");
    for (int i = 0; i < 2; i++) {
        och_err_clear(&err);
        assert_int_equal(och_gpu_kernel_get(d, "add", &k, &err, "V=4,NONE=%d", 1024), OCH_INVALID);
        assert_null(k);
        assert_non_null(strstr(err.message, "kernel add (V=4,NONE=1024)"));
        och_err_clear(&err);
        assert_int_equal(och_gpu_kernel_get(d, "no_such_kernel", &k, &err, "A=%d", 1), OCH_INTERNAL);
        assert_non_null(strstr(err.message, "no_such_kernel"));
    }
    och_device_release(d);
}

/* Devices of one runtime have one JIT; the last one takes it along. */
static void one_jit(void **state) {
    (void)state;
    och_jit *a, *b, *c;
    int64_t live = och_alloc_live();
    assert_int_equal(och_jit_share("lib/one.so", &a, &err), OCH_OK);
    assert_int_equal(och_jit_share("lib/one.so", &b, &err), OCH_OK);
    assert_int_equal(och_jit_share(NULL, &c, &err), OCH_OK);
    assert_ptr_equal(a, b);
    assert_ptr_not_equal(a, c);
    och_jit_unshare(a);
    assert_int_equal(och_jit_share("lib/one.so", &b, &err), OCH_OK);
    assert_ptr_equal(a, b);
    och_jit_unshare(a);
    och_jit_unshare(b);
    och_jit_unshare(c);
    och_jit_unshare(NULL);
    assert_int_equal(och_alloc_live(), live);
}

/* What the store asks for is what `ochre kernels pack` packs: the same source, by the same name. */
static void known_by_its_source(void **state) {
    (void)state;
    och_strbuf diag = {0};
    och_kl_unit *u, *v;
    och_kl_profile p;
    static och_jit_kernel k, l;
    och_err_clear(&err);
    assert_int_equal(och_kl_profile_init(&p, "gfx1151", 0, &err), OCH_OK);
    const char one[] = "kernel f(x: out buf<f32>[n])\n  launch grid(n) waves(1)\n{ x[group.id.x] = 1.0; }\n";
    const char two[] = "kernel f(x: out buf<f32>[n])\n  launch grid(n) waves(1)\n{ x[group.id.x] = 1.0; } \n";
    assert_int_equal(och_kl_parse("f.ok", one, strlen(one), NULL, &u, &diag, &err), OCH_OK);
    assert_int_equal(och_kl_parse("f.ok", two, strlen(two), NULL, &v, &diag, &err), OCH_OK);
    assert_int_equal(och_jit_kernel_init(&k, u, "f", NULL, 0, &p, &diag, &err), OCH_OK);
    assert_int_equal(och_jit_kernel_init(&l, u, "f", NULL, 0, &p, &diag, &err), OCH_OK);
    assert_string_equal(k.source_id, l.source_id);
    assert_int_equal(strlen(k.source_id), OCH_HASH_HEX_BYTES - 1);
    och_jit_kernel_deinit(&l);
    assert_int_equal(och_jit_kernel_init(&l, v, "f", NULL, 0, &p, &diag, &err), OCH_OK);
    assert_string_not_equal(k.source_id, l.source_id);
    och_jit_kernel_deinit(&k);
    och_jit_kernel_deinit(&l);
    och_kl_unit_destroy(u);
    och_kl_unit_destroy(v);
    och_strbuf_deinit(&diag);
}

/* A pack with `add` alone, as it is without parameters or with these. */
static void make_pack(const char *path, const och_kl_binding *bindings, int n_bindings) {
    static och_jit_kernel kernel;
    och_strbuf diag = {0};
    och_kl_profile p;
    och_kl_unit *u;
    och_jit *jit;
    och_jit_artifact *a;
    och_pack_writer *w;
    och_err_clear(&err);
    assert_int_equal(och_kl_profile_init(&p, "gfx950", 0, &err), OCH_OK);
    assert_int_equal(och_kl_parse_builtin("elementwise.ok", &u, &diag, &err), OCH_OK);
    assert_int_equal(och_jit_kernel_init(&kernel, u, "add", bindings, n_bindings, &p, &diag, &err), OCH_OK);
    assert_int_equal(och_jit_create(&(och_jit_options){.only_these_packs = true, .compiler = "clang"}, &jit, &err), OCH_OK);
    if (och_jit_get(jit, &kernel.request, &a, &diag, &err) != OCH_OK) fail_msg("%s", err.message);
    assert_int_equal(och_pack_writer_create(&w, &err), OCH_OK);
    assert_int_equal(och_pack_writer_add(w, &kernel.request, a, &err), OCH_OK);
    assert_int_equal(och_pack_writer_write(w, path, &err), OCH_OK);
    och_pack_writer_destroy(w);
    och_jit_artifact_destroy(a);
    och_jit_destroy(jit);
    och_jit_kernel_deinit(&kernel);
    och_kl_unit_destroy(u);
    och_strbuf_deinit(&diag);
}

/* What a machine without a compiler has: a pack, and a cache with nothing in it. */
typedef struct packs_only {
    char pack[320], cache[320], *kept;
} packs_only;

static void leave_packs_only(packs_only *m) {
    m->kept = strdup(getenv("OCHRE_CACHE_DIR"));
    snprintf(m->pack, sizeof m->pack, "%s.okpack", m->kept);
    snprintf(m->cache, sizeof m->cache, "%s/empty", m->kept);
    make_pack(m->pack, NULL, 0);
    setenv("OCHRE_PACK", m->pack, 1);
    setenv("OCHRE_CACHE_DIR", m->cache, 1);
    setenv("OCHRE_JIT_COMPILER", "/nonexistent/clang", 1);
}

static void have_all_again(packs_only *m) {
    unsetenv("OCHRE_JIT_COMPILER");
    unsetenv("OCHRE_PACK");
    setenv("OCHRE_CACHE_DIR", m->kept, 1);
    unlink(m->pack);
    free(m->kept);
}

/* A way that no pack has is not to be had where there is no compiler, and where there is one that does not know the board: what has
 * another way takes that. */
static void another_way(void **state) {
    (void)state;
    const och_gpu_kernel *k;
    packs_only m;
    char old[320];
    leave_packs_only(&m);
    snprintf(old, sizeof old, "%s.clang", m.kept);
    FILE *f = fopen(old, "w");
    assert_non_null(f);
    fputs("#!/bin/sh\necho 'scripted clang version 19.1.7 (a test)'\n", f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(old, 0700), 0);
    for (int unfit = 0; unfit < 2; unfit++) {
        if (unfit) setenv("OCHRE_JIT_COMPILER", old, 1);
        och_device *d = open_board("sim:gfx950");
        och_status st = och_gpu_kernel_get(d, "add", &k, &err, "WAVES=%d", 2);
        assert_int_equal(st, unfit ? OCH_UNSUPPORTED : OCH_UNAVAILABLE);
        assert_true(och_gpu_absent(st) && !k);
        och_err_clear(&err);
        if (och_gpu_kernel_cut(d, "add", "V=1", ",WAVES=2", &k, &err) != OCH_OK) fail_msg("%s", err.message);
        assert_non_null(k);
        assert_int_equal(err.message[0], 0);
        /* a mistake is none of it */
        st = och_gpu_kernel_cut(d, "add", "V=1", ",NONE=2", &k, &err);
        assert_true(st == OCH_INVALID && !och_gpu_absent(st));
        och_device_release(d);
    }
    unlink(old);
    have_all_again(&m);
}

/* A step that runs again looks up no kernel, neither what it has nor what it was refused; a refusal says each time what it said. A
 * pack that comes later is one of the next time that the board is opened. */
static void refused_once(void **state) {
    (void)state;
    const och_gpu_kernel *k, *plain = NULL, *cut;
    packs_only m;
    leave_packs_only(&m);
    och_op_memo memo = {0};
    och_op_memo *before = och_op_memo_use(&memo);
    och_device *d = open_board("sim:gfx950");
    och_err first = {0};
    uint64_t begun = 0;
    for (int step = 0; step < 4; step++) {
        uint64_t lookups = och_gpu_kernel_lookups();
        och_err_clear(&err);
        if (och_gpu_kernel_cut(d, "add", "V=1", ",WAVES=2", &k, &err) != OCH_OK) fail_msg("%s", err.message);
        if (!step) plain = k;
        assert_ptr_equal(k, plain);
        assert_int_equal(err.status, OCH_OK);
        och_status st = och_gpu_kernel_get(d, "add", &k, &err, "V=1,WAVES=%d", 2);
        assert_true(st == OCH_UNAVAILABLE && st == err.status && !k);
        assert_int_equal(strncmp(err.message, "kernel add (V=1,WAVES=2): ", 26), 0);
        if (!step) first = err;
        assert_string_equal(err.message, first.message);
        assert_int_equal(och_gpu_kernel_lookups() - lookups, step ? 0 : 3);
        if (!step) begun = och_gpu_kernels_begun();
        if (step == 1) make_pack(m.pack, (const och_kl_binding[]){{"V", "1"}, {"WAVES", "2"}}, 2);
    }
    assert_int_equal(och_gpu_kernels_begun(), begun);
    och_device_release(d);
    memset(&memo, 0, sizeof memo);
    d = open_board("sim:gfx950");
    och_err_clear(&err);
    if (och_gpu_kernel_cut(d, "add", "V=1", ",WAVES=2", &cut, &err) != OCH_OK) fail_msg("%s", err.message);
    assert_int_equal(cut->signature.waves, 2);
    (void)och_op_memo_use(before);
    och_device_release(d);
    have_all_again(&m);
}

/* A file that uses another does not have the other's kernels, which would then be known by both texts. */
static void each_has_one_file(void **state) {
    (void)state;
    och_kl_builtins *all;
    och_strbuf diag = {0};
    int n_glu = 0;
    och_err_clear(&err);
    assert_int_equal(och_kl_builtins_open(&all, &err), OCH_OK);
    for (int i = 0; i < och_kl_builtins_count(all); i++) {
        och_kl_unit *u;
        assert_int_equal(och_kl_parse_builtin(och_kl_builtins_name(all, i), &u, &diag, &err), OCH_OK);
        for (int k = 0; k < och_kl_kernel_count(u); k++)
            if (!strcmp(och_kl_kernel_name(u, k), "glu")) {
                n_glu++; /* blas.ok, linear.ok and one_row.ok use the file */
                assert_string_equal(och_kl_builtins_name(all, i), "elementwise.ok");
            }
        assert_null(och_kl_kernel_name(u, och_kl_kernel_count(u)));
        och_kl_unit_destroy(u);
    }
    assert_int_equal(n_glu, 1);
    och_kl_builtins_close(all);
    och_strbuf_deinit(&diag);
}

int main(void) {
    static char dir[256], own[280];
    och_strbuf clang = {0};
    bool compiles = och_spawn_find("clang-22", &clang) || och_spawn_find("clang-19", &clang);
    och_strbuf_deinit(&clang);
    snprintf(dir, sizeof dir, "/tmp/ochre-gpu-store.%ld", (long)getpid());
    setenv("OCHRE_SIM_LIBRARY", OCHRE_BUILD_DIR "/sim/libamdhip64.so", 0);
    setenv("OCHRE_CACHE_DIR", dir, 1);
    unsetenv("OCHRE_PACK");
    snprintf(own, sizeof own, "%s.kernels", dir);
    write_own_kernels(own);
    setenv("OCHRE_KERNELS_DIR", own, 1);
    const struct CMUnitTest always[] = {cmocka_unit_test(one_jit), cmocka_unit_test(known_by_its_source), cmocka_unit_test(each_has_one_file),
                                        cmocka_unit_test(kernels_of_a_folder), cmocka_unit_test(a_failure_is_remembered)};
    const struct CMUnitTest compiled[] = {cmocka_unit_test(no_memory), cmocka_unit_test(another_way), cmocka_unit_test(refused_once)};
    int failed = cmocka_run_group_tests(always, NULL, NULL);
    if (compiles) failed += cmocka_run_group_tests(compiled, NULL, NULL);
    else print_message("skipped: no clang: no_memory, another_way, refused_once\n");
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s' '%s'", dir, own);
    return system(command) || failed;
}
