/* Typed code by hand, and compilers for what is emitted from it. */
#ifndef OCH_TEST_KL_SUPPORT_H
#define OCH_TEST_KL_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <math.h>

#include "base/spawn.h"
#include "kl/ir.h"
#include "kl/kl.h"

#define I32 och_kl_type_of(OCH_KL_I32, 1)
#define U32 och_kl_type_of(OCH_KL_U32, 1)
#define I64 och_kl_type_of(OCH_KL_I64, 1)
#define F32 och_kl_type_of(OCH_KL_F32, 1)
#define BOOL och_kl_type_of(OCH_KL_BOOL, 1)

static const och_kl_pos no_pos = {0};

/* Every target with each of its wave sizes: *at, 0 to begin with, is where to go on. False: there was no further one. */
static inline bool next_profile(size_t *at, och_kl_profile *out) {
    for (; *at < 2 * och_target_count(); ++*at) {
        const och_target *t = och_target_at(*at / 2);
        int wave = *at % 2 ? 64 : 32;
        if (!(t->waves & (wave == 32 ? OCH_WAVE32 : OCH_WAVE64))) continue;
        och_err err = {0};
        *out = (och_kl_profile){.wave = wave};
        assert_int_equal(och_target_find(t->name, &out->target, &err), OCH_OK);
        ++*at;
        return true;
    }
    return false;
}

/* A code whose kernel is named k, for a target and a wave size (0: the default), of so many waves. */
static inline och_kl_code *code_for(const char *target, int wave, int waves) {
    och_err err = {0};
    och_kl_profile p = {0};
    assert_int_equal(och_target_find(target, &p.target, &err), OCH_OK);
    p.wave = wave ? wave : p.target.target->wave_default;
    och_kl_code *c;
    assert_int_equal(och_kl_code_create(&p, &c, &err), OCH_OK);
    och_kl_signature *s = &c->signature;
    snprintf(s->kernel, sizeof s->kernel, "k");
    snprintf(s->entry, sizeof s->entry, "k");
    snprintf(s->target, sizeof s->target, "%s", p.target.name);
    s->wave = p.wave;
    s->waves = waves;
    s->threads = p.wave * waves;
    return c;
}

static inline och_kl_var *parameter(och_kl_code *c, const char *name, och_kl_base b, bool pointer, bool read_only) {
    uint32_t size = pointer ? 8 : och_kl_base_bytes(b);
    och_kl_var *v = och_kl_new_var(c, name, och_kl_type_of(b, 1), pointer ? OCH_KL_GLOBAL : OCH_KL_REG, NULL, 0);
    v->argument = true;
    v->fixed = !pointer;
    v->read_only = read_only;
    v->uniformity = OCH_KL_U_GROUP;
    v->offset = (c->signature.args_bytes + size - 1) / size * size;
    c->signature.args_bytes = v->offset + size;
    return v;
}

static inline och_kl_ir *integer(och_kl_code *c, int64_t v) { return och_kl_int(c, no_pos, I32, v); }
static inline och_kl_ir *call_x(och_kl_code *c, och_kl_intrinsic f, och_kl_type t, int extra, int n, och_kl_ir *const *args) {
    return och_kl_call(c, no_pos, f, t, extra, args, n);
}
#define CALL(c, f, t, extra, ...)                                                                                                  \
    call_x(c, OCH_KL_F_##f, t, extra, (int)(sizeof((och_kl_ir *[]){__VA_ARGS__}) / sizeof(och_kl_ir *)), (och_kl_ir *[]){__VA_ARGS__})
#define CALL0(c, f, t, extra) call_x(c, OCH_KL_F_##f, t, extra, 0, NULL)

/* A fixed variable with the value, declared at the end of `to`. */
static inline och_kl_var *declare(och_kl_code *c, och_kl_list *to, const char *name, och_kl_ir *x) {
    och_kl_var *v = och_kl_new_var(c, name, x->type, OCH_KL_REG, NULL, 0);
    v->fixed = true;
    v->uniformity = x->uniformity;
    och_kl_ins *i = och_kl_ins_new(c, to, OCH_KL_I_DECLARE, no_pos);
    i->var = v;
    i->value = x;
    return v;
}

static inline void store_to(och_kl_code *c, och_kl_list *to, och_kl_var *base, och_kl_ir *index, och_kl_ir *value, uint32_t align) {
    och_kl_ins *i = och_kl_ins_new(c, to, OCH_KL_I_STORE, no_pos);
    i->mem = (och_kl_mem){.base = base, .elem = value->type.base, .lanes = value->type.lanes, .align_bytes = align, .index = index};
    i->value = value;
}

static inline och_kl_ir *load_from(och_kl_code *c, och_kl_var *base, och_kl_base elem, int lanes, och_kl_ir *index, uint32_t align) {
    och_kl_mem m = {.base = base, .elem = elem, .lanes = (uint8_t)lanes, .align_bytes = align, .index = index};
    return och_kl_load(c, no_pos, &m);
}

/* Compiles text for a target with the clang of that version, to assembler text (to be freed). NULL: there is none such. Fails the
 * test, with what the compiler said, when it does not compile. */
static inline char *compile(const char *clang, const och_kl_profile *p, const char *text) {
    och_strbuf path = {0};
    if (!och_spawn_find(clang, &path)) {
        och_strbuf_deinit(&path);
        return NULL;
    }
    bool amd = p->target.target->vendor == OCH_VENDOR_AMD;
    char arch[96];
    snprintf(arch, sizeof arch, amd ? "--offload-arch=%s" : "--cuda-gpu-arch=%s", p->target.name);
    const char *argv[24];
    int n = 0;
    argv[n++] = och_strbuf_str(&path);
    argv[n++] = "-x";
    argv[n++] = amd ? "hip" : "cuda";
    argv[n++] = "--cuda-device-only";
    if (amd) {
        argv[n++] = "-nogpulib";
        argv[n++] = "-nogpuinc";
        if (p->wave == 64 && p->target.target->wave_default == 32) argv[n++] = "-mwavefrontsize64";
        argv[n++] = p->target.target->code_object_v6 ? "-mcode-object-version=6" : "-mcode-object-version=5";
    } else {
        argv[n++] = "-nocudalib";
        argv[n++] = "-nocudainc";
        argv[n++] = "-Wno-unknown-cuda-version";
    }
    argv[n++] = arch;
    argv[n++] = "-O3";
    argv[n++] = "-ffp-contract=off";
    argv[n++] = "-Wall";
    argv[n++] = "-Werror";
    argv[n++] = "-Wno-unused-variable";
    argv[n++] = "-Wno-unused-function";
    argv[n++] = "-Wno-unused-but-set-variable";
    argv[n++] = "-S";
    argv[n++] = "-o";
    argv[n++] = "-";
    argv[n++] = "-";
    argv[n] = NULL;
    och_spawn_result r;
    och_err err = {0};
    och_spawn s = {.argv = argv, .input = text, .input_bytes = strlen(text)};
    assert_int_equal(och_spawn_run(&s, &r, &err), OCH_OK);
    if (r.exit_status != 0) {
        print_message("%s", text);
        fail_msg("%s for %s, waves of %d: %s", clang, p->target.name, p->wave, och_strbuf_str(&r.err));
    }
    char *out = strdup(och_strbuf_str(&r.out));
    och_spawn_result_deinit(&r);
    och_strbuf_deinit(&path);
    return out;
}

/* The newest clang that is there and knows the target. */
static inline char *compile_any(const och_kl_profile *p, const char *text) {
    return compile(p->target.target->clang_removed > 0 && p->target.target->clang_removed <= 22 ? "clang-19" : "clang-22", p, text);
}

static inline char *emitted(const och_kl_code *c) {
    och_strbuf text = {0};
    och_err err = {0};
    if (och_kl_emit(c, &text, &err) != OCH_OK) fail_msg("%s", err.message);
    char *s = strdup(och_strbuf_str(&text));
    och_strbuf_deinit(&text);
    return s;
}

#endif
