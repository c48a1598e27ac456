/* Compilers: which is taken, what it is told, what becomes of what it says; and code against what was asked. Scripts stand for
 * compilers; where a real clang, hipRTC or NVRTC is there, it is tried too. */
#include "unit/jit_support.h"

#include "base/size.h"
#include "base/thread.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

static char *path_before;

static int setup(void **s) {
    if (make_folder(s)) return 1;
    path_before = strdup(getenv("PATH"));
    return 0;
}

static int teardown(void **s) {
    setenv("PATH", path_before, 1);
    free(path_before);
    return remove_folder(s);
}

/* ---- which ---- */

static const och_candidate *pick(och_compilers *all, och_jit_request q, och_err *e) {
    och_jit_job job;
    const och_candidate *c = NULL;
    och_err_clear(e);
    assert_ok(och_jit_job_init(&q, &job, e), *e);
    och_status st = och_compilers_pick(all, &job, &c, e);
    assert_int_equal(st, e->status);
    return c;
}

static och_compilers *list(const char *only) {
    och_compilers *all;
    och_err e = {0};
    assert_ok(och_compilers_create(only, NULL, &all, &e), e);
    return all;
}

static void the_order(void **s) {
    (void)s;
    och_jit_request q = good_request();
    och_err e;
    mkdir(at("bin"), 0700);
    mkdir(at("home"), 0700);
    setenv("PATH", at("bin"), 1);
    /* of those that are there, in the order that is stated; each is taken away in turn */
#define BELOW(python) "venv/lib/" python "/site-packages/_rocm_sdk_core/lib/llvm/bin/clang"
    static const char *const places[] = {"mine", "rocm/llvm/bin/clang", BELOW("python3.11"), BELOW("python3.9"), /* the newer first */
                                         "bin/amdclang++", "bin/clang-22", "bin/clang-19", "bin/clang"};
#undef BELOW
    for (size_t i = 0; i < OCH_COUNT(places); i++)
        for (const char *slash = strchr(places[i], '/'); slash; slash = strchr(slash + 1, '/')) {
            char name[128];
            snprintf(name, sizeof name, "%.*s", (int)(slash - places[i]), places[i]);
            mkdir(at(name), 0700);
        }
    setenv("OCHRE_CLANG", at("mine"), 1);
    setenv("ROCM_PATH", at("rocm/"), 1);
    setenv("VIRTUAL_ENV", at("venv"), 1);
    for (size_t i = 0; i < OCH_COUNT(places); i++) make_compiler(places[i], "22.1.0", "false");
    for (size_t i = 0; i < OCH_COUNT(places); i++) {
        och_compilers *all = list("clang");
        const och_candidate *c = pick(all, q, &e);
        if (!c) fail_msg("%s: %s", places[i], e.message);
        assert_string_equal(c->path, at(places[i]));
        assert_string_equal(c->version, "scripted clang version 22.1.0 (a test)");
        assert_int_equal(c->clang_major, 22);
        och_compilers_destroy(all);
        unlink(at(places[i]));
    }
    och_compilers *all = list("clang");
    assert_null(pick(all, q, &e));
    assert_int_equal(e.status, OCH_UNAVAILABLE);
    och_compilers_destroy(all);
    unsetenv("OCHRE_CLANG");
    unsetenv("ROCM_PATH");
    unsetenv("VIRTUAL_ENV");
}

static void too_old_or_no_clang_at_all(void **s) {
    (void)s;
    och_jit_request q = good_request();
    och_err e;
    setenv("PATH", at("bin"), 1);
    make_compiler("bin/amdclang++", "18.0.0", "false");
    make_compiler("bin/clang-22", "what", "false");
    make_compiler("bin/clang-19", "19.1.7", "false");
    write_text(at("bin/clang-21"), "#!/nonexistent/interpreter\n");
    chmod(at("bin/clang-21"), 0755);
    och_compilers *all = list("clang");
    const och_candidate *c = pick(all, q, &e);
    assert_non_null(c);
    assert_string_equal(c->path, at("bin/clang-19"));
    /* it is there, and does not know the target; the message says all */
    q.target = "gfx950", q.wave_size = 0;
    assert_null(pick(all, q, &e));
    assert_int_equal(e.status, OCH_UNSUPPORTED);
    assert_has(e.message, "clang 18.0.0, older than 19");
    assert_has(e.message, "gfx950 needs one of clang 20");
    assert_has(e.message, "it does not say a version of clang");
    och_strbuf text = {0};
    och_jit *jit;
    assert_ok(och_jit_create(&(och_jit_options){.compiler = "clang", .only_these_packs = true}, &jit, &e), e);
    och_jit_describe(jit, &text);
    assert_has(text.data, "compiler clang: clang-19 (PATH): found");
    assert_has(text.data, "compiler clang: clang-20 (PATH): not there");
    assert_has(text.data, "pack: none found");
    assert_has(text.data, at("cache"));
    och_jit_destroy(jit);
    och_strbuf_deinit(&text);
    och_compilers_destroy(all);
    och_err_clear(&e);
    assert_int_equal(och_compilers_create("gcc", NULL, &all, &e), OCH_INVALID);
    assert_has(e.message, "gcc");
    remove_tree(at("bin"));
    setenv("PATH", path_before, 1);
}

/* ---- what it is told ---- */

static void arguments_of(och_jit_request q, och_strbuf *out) {
    och_jit_job job;
    och_err e = {0};
    och_candidate c = {.row = &och_compiler_clang};
    och_strbuf_clear(out);
    assert_ok(och_jit_job_init(&q, &job, &e), e);
    assert_ok(och_compiler_clang.arguments(&c, &job, out, &e), e);
    for (size_t i = 0; i < out->size; i++)
        if (!out->data[i]) out->data[i] = ' ';
}

static void what_clang_is_told(void **s) {
    (void)s;
    och_strbuf b = {0};
    och_jit_request q = {.target = "gfx942:sramecc+:xnack-"};
    arguments_of(q, &b);
    static const char *const always[] = {"-x hip ", "--offload-device-only ", "-nogpulib ", "-nogpuinc ", "-ffp-contract=off ", "-O3 ", "-o - - "};
    for (size_t i = 0; i < OCH_COUNT(always); i++) assert_has(b.data, always[i]);
    assert_has(b.data, "--offload-arch=gfx942:sramecc+:xnack- ");
    assert_has(b.data, "-mcode-object-version=5 ");
    assert_null(strstr(b.data, "wavefrontsize64"));
    q.code_object_version = 4, q.opt_level = 2, q.n_flags = 1, q.flags = (const char *const[]){"-DN=3"};
    arguments_of(q, &b);
    assert_has(b.data, "-mcode-object-version=4 ");
    assert_has(b.data, "-O2 ");
    assert_has(b.data, "-DN=3 ");
    q = (och_jit_request){.target = "gfx1100", .wave_size = 64};
    arguments_of(q, &b);
    assert_has(b.data, "-mwavefrontsize64 ");
    q.wave_size = 0;
    arguments_of(q, &b);
    assert_has(b.data, "-mno-wavefrontsize64 ");
    q.target = "gfx11-generic";
    arguments_of(q, &b);
    assert_has(b.data, "-mcode-object-version=6 ");
    q = (och_jit_request){.target = "sm_90", .dialect = OCH_JIT_CUDA};
    arguments_of(q, &b);
    assert_has(b.data, "-x cuda --cuda-device-only -S -nocudalib -nocudainc ");
    assert_has(b.data, "--cuda-gpu-arch=sm_90 ");
    assert_null(strstr(b.data, "code-object"));
    och_strbuf_deinit(&b);
}

static void wrong_requests(void **s) {
    (void)s;
    static const struct {
        och_jit_request q;
        och_status status;
        const char *says;
    } cases[] = {
        {{.target = "gfx1"}, OCH_NOTFOUND, "unknown target"},
        {{.target = "gfx942", .wave_size = 32}, OCH_INVALID, "a wave of 64 lanes, found 32"},
        {{.target = "gfx1100", .wave_size = 16}, OCH_INVALID, "a wave of 32 or 64 lanes, found 16"},
        {{.target = "gfx11-generic", .code_object_version = 5}, OCH_INVALID, "code object version 6"},
        {{.target = "gfx1100", .code_object_version = 3}, OCH_INVALID, "version 4, 5 or 6, found 3"},
        {{.target = "gfx1100", .opt_level = 4}, OCH_INVALID, "1 to 3, found 4"},
        {{.target = "gfx1100", .text = "", .dialect = OCH_JIT_CUDA}, OCH_INVALID, "HIP dialect"},
        {{.target = "sm_90", .text = "", .dialect = OCH_JIT_HIP}, OCH_INVALID, "CUDA dialect"},
        {{.target = "gfx1100", .has_layout = true}, OCH_INVALID, "symbol"},
        {{.kernel = "k"}, OCH_INVALID, "no target"},
    };
    for (size_t i = 0; i < OCH_COUNT(cases); i++) {
        och_jit_job job;
        och_err e = {0};
        if (och_jit_job_init(&cases[i].q, &job, &e) != cases[i].status) fail_msg("case %zu: %s", i, e.message);
        assert_has(e.message, cases[i].says);
    }
}

/* ---- what it says ---- */

static och_status get(const char *compiler, och_jit_request q, och_jit_options o, och_jit_artifact **a, och_strbuf *log, och_err *e) {
    och_jit *jit;
    o.compiler = compiler, o.only_these_packs = true;
    och_err_clear(e);
    assert_ok(och_jit_create(&o, &jit, e), *e);
    och_status st = och_jit_get(jit, &q, a, log, e);
    assert_int_equal(st, e->status);
    if (st != OCH_OK) assert_null(*a);
    och_jit_destroy(jit);
    return st;
}

static void diagnostics(void **s) {
    (void)s;
    fresh();
    och_jit_artifact *a;
    och_strbuf log = {0};
    och_err e;
    och_jit_request q = good_request();
    const char *c = make_compiler("clang", "22.0.0",
                                  "cat > /dev/null; echo 'a.ok:1:1: warning: first' >&2; echo 'a.ok:3:7: error: expected ;' >&2; echo '  x' >&2; exit 1");
    assert_int_equal(get(c, q, (och_jit_options){0}, &a, &log, &e), OCH_COMPILE);
    assert_string_equal(e.message, "axpy T=f32 for gfx1151: a.ok:3:7: error: expected ;");
    assert_string_equal(log.data, "a.ok:1:1: warning: first\na.ok:3:7: error: expected ;\n  x\n");
    och_strbuf_deinit(&log);
    c = make_compiler("clang", "22.0.0", "cat > /dev/null; kill -SEGV $$");
    assert_int_equal(get(c, q, (och_jit_options){0}, &a, NULL, &e), OCH_COMPILE);
    assert_has(e.message, "ended by signal 11");
    c = make_compiler("clang", "22.0.0", "exit 3");
    assert_int_equal(get(c, q, (och_jit_options){0}, &a, NULL, &e), OCH_COMPILE);
    assert_has(e.message, "status 3");
    c = make_compiler("clang", "22.0.0", "cat > /dev/null");
    assert_int_equal(get(c, q, (och_jit_options){0}, &a, NULL, &e), OCH_COMPILE);
    assert_has(e.message, "gave no code");
    c = make_compiler("clang", "22.0.0", "cat; echo not a code object");
    assert_int_equal(get(c, q, (och_jit_options){0}, &a, NULL, &e), OCH_CORRUPT);
    c = make_compiler("clang", "22.0.0", "exec sleep 1000");
    double began = och_now_seconds();
    assert_int_equal(get(c, q, (och_jit_options){.compile_timeout_ns = 300000000}, &a, NULL, &e), OCH_UNAVAILABLE);
    assert_has(e.message, "not done after 0.3 s");
    atomic_bool cancel;
    atomic_init(&cancel, true);
    assert_int_equal(get(c, q, (och_jit_options){.cancel = &cancel}, &a, NULL, &e), OCH_CANCELLED);
    assert_true(och_now_seconds() - began < 200);
    /* none of them left anything in the cache */
    och_cache *cache;
    och_cache_totals t;
    assert_int_equal(e.status, OCH_CANCELLED);
    och_err_clear(&e);
    assert_ok(och_cache_open(NULL, 0, &cache, &e), e);
    assert_ok(och_cache_verify(cache, NULL, NULL, &t, &e), e);
    assert_int_equal(t.entries + t.corrupt + t.leftovers, 0);
    och_cache_close(cache);
}

static void the_text_reaches_it(void **s) {
    (void)s;
    char body[1024];
    snprintf(body, sizeof body, "cat > %s; echo \"$@\" > %s; echo $CCC_OVERRIDE_OPTIONS >> %s; cat %s", at("input"), at("told"), at("told"), GOOD_OBJECT);
    const char *c = make_compiler("clang", "22.0.0", body);
    och_jit_artifact *a;
    och_err e;
    och_jit_request q = good_request();
    size_t n;
    q.file_name = "a \"b\\c";
    setenv("OCHRE_JIT_KEEP", at("keep"), 1);
    setenv("CCC_OVERRIDE_OPTIONS", "#x", 1);
    assert_ok(get(c, q, (och_jit_options){.no_cache = true}, &a, NULL, &e), e);
    unsetenv("OCHRE_JIT_KEEP");
    unsetenv("CCC_OVERRIDE_OPTIONS");
    char *input = (char *)read_all(at("input"), &n), *told = (char *)read_all(at("told"), &n);
    assert_string_equal(input, "#line 1 \"a \\\"b\\\\c\"\nthe text\n");
    assert_has(told, "--offload-arch=gfx1151");
    assert_null(strstr(told, "#x"));
    free(told);
    free(input);
    q.prelude = true;
    och_jit_artifact_destroy(a);
    assert_ok(get(c, q, (och_jit_options){.no_cache = true}, &a, NULL, &e), e);
    input = (char *)read_all(at("input"), &n);
    assert_has(input, "#define __global__");
    assert_has(input, "\n#line 1 \"a \\\"b\\\\c\"\nthe text\n");
    free(input);
    och_jit_artifact_destroy(a);
    /* what is kept: text, log and code */
    int found = 0;
    DIR *d = opendir(at("keep"));
    assert_non_null(d);
    for (struct dirent *f; (f = readdir(d));) {
        char *end = strrchr(f->d_name, '.');
        if (!strcmp(end, ".hip") || !strcmp(end, ".log") || !strcmp(end, ".hsaco")) found++;
        if (*f->d_name != '.') assert_has(f->d_name, "axpy-gfx1151-w64-");
    }
    closedir(d);
    assert_int_equal(found, 3);
}

/* Where clang writes between its steps: a folder of this compilation's, gone after it however it ended. */
static void what_clang_leaves(void **s) {
    (void)s;
    static const char *const ends[] = {"echo ended > %s; cat %s", "echo error: no >&2; exit 1; : %s %s", "kill -KILL $$; : %s %s",
                                       "exec sleep 1000; : %s %s"};
    static const och_status expected[] = {OCH_OK, OCH_COMPILE, OCH_COMPILE, OCH_UNAVAILABLE};
    assert_int_equal(mkdir(at("between"), 0700), 0);
    setenv("TMPDIR", at("between"), 1);
    for (int i = 0; i < 4; i++) {
        char end[512], body[1024];
        snprintf(end, sizeof end, ends[i], at("ended"), GOOD_OBJECT);
        snprintf(body, sizeof body, "cat > /dev/null; echo x > $TMPDIR/--gfx1151-0.o; echo y > $TMPDIR/two; ls $TMPDIR/.. > %s; %s", at("seen"), end);
        const char *c = make_compiler("clang", "22.0.0", body);
        och_jit_artifact *a;
        och_err e;
        size_t n;
        assert_int_equal(get(c, good_request(), (och_jit_options){.no_cache = true, .compile_timeout_ns = i == 3 ? 3000000000 : 0}, &a, NULL, &e), expected[i]);
        if (i == 0) och_jit_artifact_destroy(a);
        char *seen = (char *)read_all(at("seen"), &n);
        assert_has(seen, "ochre-clang-");
        free(seen);
        unlink(at("seen"));
        assert_int_equal(rmdir(at("between")), 0); /* empty */
        assert_int_equal(mkdir(at("between"), 0700), 0);
        /* With a cache it is in the cache, under the entry's lock: what is left where this process is killed is swept there. */
        fresh();
        assert_int_equal(get(c, good_request(), (och_jit_options){.compile_timeout_ns = i == 3 ? 3000000000 : 0}, &a, NULL, &e), expected[i]);
        if (i == 0) och_jit_artifact_destroy(a);
        seen = (char *)read_all(at("seen"), &n);
        assert_null(strstr(seen, "ochre-clang-"));
        assert_int_equal(strspn(seen, "0123456789abcdef"), OCH_JIT_KEY_BYTES - 1);
        free(seen);
        och_cache *cache;
        och_cache_totals t;
        och_err_clear(&e);
        assert_ok(och_cache_open(NULL, 0, &cache, &e), e);
        assert_ok(och_cache_verify(cache, NULL, NULL, &t, &e), e);
        assert_int_equal(t.leftovers, 0);
        och_cache_close(cache);
    }
    setenv("TMPDIR", at("not/there"), 1);
    och_jit_artifact *a;
    och_err e;
    assert_int_equal(get(make_good_compiler(), good_request(), (och_jit_options){.no_cache = true}, &a, NULL, &e), OCH_IO);
    assert_has(e.message, "no folder could be made there for clang");
    unsetenv("TMPDIR");
}

/* ---- code against what was asked ---- */

static och_status check(const char *file, och_jit_request q, och_checked *out, och_err *e) {
    och_jit_job job;
    char path[512];
    size_t n;
    snprintf(path, sizeof path, "%s%s", CORPUS, file);
    uint8_t *code = read_all(path, &n);
    och_err_clear(e);
    assert_ok(och_jit_job_init(&q, &job, e), *e);
    och_status st = och_jit_check(code, n, OCH_JIT_HSACO, &job, &job.target, job.code_object_version, out, e);
    free(code);
    return st;
}

static void code_objects(void **s) {
    (void)s;
    static const och_jit_arg args[] = {{0, 4}, {8, 8}, {16, 8}, {24, 4}}, moved[] = {{0, 4}, {4, 8}, {16, 8}, {24, 4}}, wide[] = {{0, 4}, {8, 8}, {16, 8}, {24, 8}};
    const och_jit_request good = {.target = "gfx1151", .wave_size = 64, .code_object_version = 6, .symbol = "axpy", .has_layout = true, .args = args, .n_args = 4, .kernarg_bytes = 28};
    const char *file = "v6-gfx1151-wave64.co";
    och_checked out;
    och_err e;
    och_jit_request q = good;
    assert_ok(check(file, q, &out, &e), e);
    assert_true(out.resources.known && out.resources.vgprs && out.resources.max_workgroup);
    assert_int_equal(out.code_object_version, 6);
    q.symbol = NULL, q.has_layout = false;
    assert_ok(check(file, q, &out, &e), e);
    assert_false(out.resources.known); /* two kernels: of which? */
#define REFUSED(change, ...)                                                                                           \
    do {                                                                                                               \
        const char *const says[] = {__VA_ARGS__};                                                                      \
        q = good;                                                                                                      \
        change;                                                                                                        \
        assert_int_equal(check(file, q, &out, &e), OCH_CORRUPT);                                                       \
        for (size_t i_ = 0; i_ < OCH_COUNT(says); i_++) assert_has(e.message, says[i_]);                               \
    } while (0)
    REFUSED(q.target = "gfx1100", "expected code for gfx1100, found code for gfx1151");
    REFUSED(q.wave_size = 32, "expected waves of 32 lanes, found 64");
    REFUSED(q.code_object_version = 5, "expected code object version 5, found version 6");
    REFUSED(q.symbol = "axpx", "expected a kernel axpx", "axpy");
    REFUSED(q.n_args = 3, "expected 3 arguments, found 4");
    REFUSED(q.args = moved, "argument 1", "expected 8 bytes at 4, found 8 bytes at 8");
    REFUSED(q.args = wide, "argument 3", "expected 8 bytes at 24, found 4 bytes at 24");
    REFUSED(q.kernarg_bytes = 32, "expected 32 bytes of arguments, found 28");
#undef REFUSED
    /* features are part of the name */
    q = (och_jit_request){.target = "gfx90a:sramecc+:xnack-", .code_object_version = 4};
    assert_ok(check("v4-gfx90a.co", q, &out, &e), e);
    q.target = "gfx90a:sramecc+:xnack+";
    assert_int_equal(check("v4-gfx90a.co", q, &out, &e), OCH_CORRUPT);
    q.target = "gfx90a";
    assert_int_equal(check("v4-gfx90a.co", q, &out, &e), OCH_CORRUPT);
    /* one that asks for hidden_hostcall */
    q = (och_jit_request){.target = "gfx1100"};
    assert_int_equal(check("v5-gfx1100.co", q, &out, &e), OCH_UNSUPPORTED);
    assert_has(e.message, "dispatch asks for hidden_hostcall");
}

static void ptx(void **s) {
    (void)s;
    static const och_jit_arg args[] = {{0, 8}, {8, 4}, {16, 24}, {40, 2}};
    const char *text = "//\n.version 8.8\n.target sm_90, debug\n.address_size 64\n.visible .entry other(\n.param .u32 p\n)\n{ ret; }\n"
                       ".visible .entry k(\n\t.param .u64 .ptr .global .align 1 k_param_0, /* a */\n\t.param .u32 k_param_1,\n"
                       "\t.param .align 8 .b8 k_param_2[24],\n\t.param .u16 k_param_3 // last\n)\n{ ret; }\n.entry none()\n{ret;}\n";
    const och_jit_request good = {.target = "sm_90", .dialect = OCH_JIT_CUDA, .symbol = "k", .has_layout = true, .args = args, .n_args = 4, .kernarg_bytes = 42};
    static const struct {
        const char *target, *symbol;
        size_t n_args;
        uint32_t bytes;
        const char *says; /* NULL: good */
    } cases[] = {{"sm_90", "k", 4, 42, NULL},
                 {"sm_90", "none", 0, 0, NULL},
                 {"sm_80", "k", 4, 42, "found PTX for \"sm_90\""},
                 {"sm_90", "kk", 4, 42, "no such entry"},
                 {"sm_90", "k", 3, 42, "expected 3 arguments, found 4"},
                 {"sm_90", "k", 4, 40, "expected 40 bytes of arguments, found 42"},
                 {"sm_90", "other", 4, 42, "expected 4 arguments, found 1"}};
    och_jit_job job;
    och_checked out;
    och_err e = {0};
    for (size_t i = 0; i < OCH_COUNT(cases); i++) {
        och_jit_request q = good;
        q.target = cases[i].target, q.symbol = cases[i].symbol, q.n_args = cases[i].n_args, q.kernarg_bytes = cases[i].bytes;
        och_err_clear(&e);
        assert_ok(och_jit_job_init(&q, &job, &e), e);
        och_status st = och_jit_check(text, strlen(text), OCH_JIT_PTX, &job, &job.target, 0, &out, &e);
        if (!cases[i].says) assert_ok(st, e);
        else {
            assert_int_equal(st, OCH_CORRUPT);
            assert_has(e.message, cases[i].says);
        }
    }
    /* cut anywhere, it is refused or read, and nothing beyond it is touched */
    och_jit_request q = good;
    assert_ok((och_err_clear(&e), och_jit_job_init(&q, &job, &e)), e);
    for (size_t n = 0; n < strlen(text); n++) {
        char *cut = malloc(n + 1);
        memcpy(cut, text, n);
        cut[n] = 0;
        och_err_clear(&e);
        (void)!och_jit_check(cut, n, OCH_JIT_PTX, &job, &job.target, 0, &out, &e);
        free(cut);
    }
    och_err_clear(&e);
    assert_int_equal(och_jit_check(text, strlen(text), OCH_JIT_HSACO, &job, &job.target, 0, &out, &e), OCH_CORRUPT);
    och_err_clear(&e);
    assert_int_equal(och_jit_check(text, strlen(text), OCH_JIT_CUBIN, &job, &job.target, 0, &out, &e), OCH_CORRUPT);
}

/* ---- real ones ---- */

static const char hip_text[] = "extern \"C\" __global__ void k(float *p, int n) {\n"
                               "  __shared__ float t[256];\n"
                               "  int i = threadIdx.x + blockIdx.x * blockDim.x, unused;\n"
                               "  t[threadIdx.x] = p[i]; __syncthreads();\n"
                               "  if (i < n) p[i] = t[threadIdx.x ^ 1] * 2.0f + gridDim.x;\n"
                               "  atomicAdd(p, 1.0f);\n"
                               "}\n";
static const och_jit_arg k_args[] = {{0, 8}, {8, 4}};

static och_jit_request real_request(const char *target) {
    bool cuda = target[0] == 's';
    static const char *const flags[] = {"-Wall"};
    return (och_jit_request){.kernel = "k", .symbol = "k", .text = hip_text, .text_bytes = sizeof hip_text - 1, .file_name = "k.hip", .prelude = true,
                             .target = target, .dialect = cuda ? OCH_JIT_CUDA : OCH_JIT_HIP, .flags = flags, .n_flags = cuda ? 0 : 1, .has_layout = true,
                             .args = k_args, .n_args = 2, .kernarg_bytes = 12};
}

static void a_real_clang(void **s) {
    (void)s;
    fresh();
    setenv("PATH", path_before, 1);
    och_compilers *all = list("clang");
    och_err e;
    const och_candidate *c = pick(all, real_request("gfx950"), &e);
    och_compilers_destroy(all);
    if (!c) {
        print_message("skipped: %s\n", e.message);
        skip();
    }
    och_jit_artifact *a;
    static const char *const targets[] = {"gfx906", "gfx90a:sramecc+:xnack-", "gfx942:sramecc+:xnack-", "gfx950", "gfx1030", "gfx1100", "gfx1151", "gfx1201", "gfx11-generic"};
    for (size_t i = 0; i < OCH_COUNT(targets); i++) {
        assert_ok(get("clang", real_request(targets[i]), (och_jit_options){0}, &a, NULL, &e), e);
        assert_string_equal(a->target, targets[i]);
        assert_int_equal(a->code_object_version, strstr(targets[i], "generic") ? 6 : 5);
        assert_has(a->log, "k.hip:3:50: warning: unused variable 'unused'");
        assert_int_equal(a->resources.lds_bytes, 1024);
        assert_int_equal(a->resources.vgpr_spills, 0);
        och_jit_artifact_destroy(a);
    }
    for (int wave = 32; wave <= 64; wave += 32) { /* selectable, and what was selected */
        och_jit_request q = real_request("gfx1100");
        q.wave_size = wave, q.code_object_version = 4;
        assert_ok(get("clang", q, (och_jit_options){0}, &a, NULL, &e), e);
        assert_int_equal(a->wave_size, wave);
        assert_int_equal(a->code_object_version, 4);
        och_jit_artifact_destroy(a);
    }
    assert_ok(get("clang", real_request("sm_80"), (och_jit_options){0}, &a, NULL, &e), e);
    assert_int_equal(a->kind, OCH_JIT_PTX);
    assert_has((const char *)a->code, ".target sm_80");
    och_jit_artifact_destroy(a);
    /* an error of the text, by its own line */
    och_strbuf log = {0};
    och_jit_request q = real_request("gfx1100");
    q.text = "__global__ void f() {\n  undeclared = 1;\n}\n", q.text_bytes = strlen(q.text);
    assert_int_equal(get("clang", q, (och_jit_options){0}, &a, &log, &e), OCH_COMPILE);
    assert_has(e.message, "k.hip:2:3: error: use of undeclared identifier 'undeclared'");
    assert_has(log.data, "1 error generated");
    och_strbuf_deinit(&log);
    /* a layout that is not the text's */
    q = real_request("gfx1100");
    static const och_jit_arg wrong[] = {{0, 8}, {8, 8}};
    q.args = wrong, q.kernarg_bytes = 16;
    assert_int_equal(get("clang", q, (och_jit_options){0}, &a, NULL, &e), OCH_CORRUPT);
    assert_has(e.message, "argument 1 of k: expected 8 bytes at 8, found 4 bytes at 8");
}

/* The simulator's library, where it was built, and the distribution's libamdhip64, which is old. */
static void real_hiprtcs(void **s) {
    (void)s;
    fresh();
    const char *sim = OCHRE_BUILD_DIR "/sim/libamdhip64.so";
    static const char *const old_targets[] = {"gfx906", "gfx90a:sramecc+:xnack-", "gfx1151"};
    och_jit_artifact *a;
    och_err e;
    int tried = 0;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* the libraries are not of this build's kind, or bring an LLVM with allocations of its own */
#endif
    /* The old one first: the other's name is then what the system's libraries are looked for by. */
    void *old = dlopen("libamdhip64.so.5", RTLD_NOW | RTLD_LOCAL);
    if (old && dlsym(old, "hiprtcCompileProgram")) {
        setenv("OCHRE_HIPRTC", "libamdhip64.so.5", 1);
        for (size_t i = 0; i < OCH_COUNT(old_targets); i++) {
            och_status st = get("hiprtc", real_request(old_targets[i]), (och_jit_options){0}, &a, NULL, &e);
            if (i < 2) { /* it makes version 4, and that is what is asked of it */
                assert_ok(st, e);
                assert_int_equal(a->code_object_version, 4);
                och_jit_artifact_destroy(a);
            } else { /* it would end the process */
                assert_int_equal(st, OCH_UNSUPPORTED);
                assert_has(e.message, "gfx1151");
            }
        }
        och_jit_request q = real_request("gfx906");
        q.code_object_version = 5;
        assert_int_equal(get("hiprtc", q, (och_jit_options){0}, &a, NULL, &e), OCH_UNSUPPORTED);
        assert_has(e.message, "version 4 at most");
        q.code_object_version = 0;
        q.clang_min = 17;
        assert_int_equal(get("hiprtc", q, (och_jit_options){0}, &a, NULL, &e), OCH_UNSUPPORTED);
        assert_has(e.message, "the text needs one of clang 17");
        unsetenv("OCHRE_HIPRTC");
        tried++;
    }
    if (access(sim, R_OK) == 0 && system("command -v clang-22 > /dev/null 2>&1") == 0) {
        och_strbuf log = {0};
        assert_ok(get("hiprtc", real_request("gfx1151"), (och_jit_options){.hiprtc_library = sim}, &a, &log, &e), e);
        assert_has(a->compiler, "hiprtc of clang ");
        assert_has(a->compiler, sim);
        assert_has(a->log, "unused variable 'unused'");
        assert_int_equal(a->code_object_version, 5);
        och_jit_artifact_destroy(a);
        och_jit_request q = real_request("gfx1100");
        q.text = "__global__ void f() { undeclared = 1; }", q.text_bytes = strlen(q.text);
        och_strbuf_clear(&log);
        assert_int_equal(get("hiprtc", q, (och_jit_options){.hiprtc_library = sim}, &a, &log, &e), OCH_COMPILE);
        assert_has(e.message, "error: use of undeclared identifier 'undeclared'");
        assert_has(och_strbuf_str(&log), "undeclared");
        och_strbuf_deinit(&log);
        tried++;
    }
    if (!tried) {
        print_message("skipped: no hipRTC is here\n");
        skip();
    }
}

/* A library that says that it is an old hipRTC, slow to compile, which ends the process where it is asked for gfx1030. */
static const char slow_hiprtc[] =
    "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n"
    "static const char code[] = \"clang version 15.0.0\";\n"
    "static int inside;\n"
    "int hiprtcCreateProgram(void **p, const char *t, const char *n, int k, const char **h, const char **i) { *p = &inside; return 0; }\n"
    "int hiprtcCompileProgram(void *p, int n, const char **o) {\n"
    "  for (int i = 0; i < n; i++) if (strstr(o[i], \"gfx1030\")) exit(3);\n"
    "  if (inside++) return 7;\n"
    "  usleep(30000);\n"
    "  inside--;\n"
    "  return 0;\n"
    "}\n"
    "int hiprtcDestroyProgram(void **p) { return 0; }\n"
    "int hiprtcGetProgramLogSize(void *p, size_t *n) { *n = 0; return 0; }\n"
    "int hiprtcGetProgramLog(void *p, char *l) { return 0; }\n"
    "const char *hiprtcGetErrorString(int e) { return e == 7 ? \"two at once\" : \"an error\"; }\n"
    "int hiprtcVersion(int *a, int *b) { *a = 5, *b = 2; return 0; }\n"
    "int hiprtcGetCodeSize(void *p, size_t *n) { *n = sizeof code; return 0; }\n"
    "int hiprtcGetCode(void *p, char *c) { memcpy(c, code, sizeof code); return 0; }\n";

/* hipRTCs, first that of a text, in a file of a name that no other has: none is ever closed. NULL: no compiler for this machine. Until
 * OCHRE_HIPRTC is unset. */
static och_compilers *list_made(const char *library, const char *text) {
    char command[700];
    write_text(at("made.c"), text);
    snprintf(command, sizeof command, "cc -w -shared -fPIC -o %s/%s %s/made.c 2> /dev/null", folder, library, folder);
    if (system(command)) return NULL;
    setenv("OCHRE_HIPRTC", at(library), 1);
    return list("hiprtc");
}

typedef struct busy {
    const och_candidate *c;
    atomic_bool stop, failed;
} busy;

static const och_target *target_named(const char *name) {
    och_target_id id;
    och_err e = {0};
    assert_ok(och_target_find(name, &id, &e), e);
    return id.target;
}

static void *keep_compiling(void *arg) {
    busy *b = arg;
    while (!atomic_load(&b->stop)) {
        och_jit_request q = real_request("gfx900");
        och_jit_job job;
        och_err e = {0};
        och_compiled made = {0};
        if (och_jit_job_init(&q, &job, &e) != OCH_OK || och_compile(b->c, &job, &(och_compile_limits){0}, &made, &e) != OCH_OK)
            atomic_store(&b->failed, true);
        och_compiled_deinit(&made);
        usleep(2000); /* a lock that is let go and taken at once is nobody else's */
    }
    return NULL;
}

static void on_alarm(int n) { (void)n; }

/* Whether an old hipRTC survives a target is found out in a copy of the process: while other threads compile with it, and
 * while signals arrive. */
static void targets_of_an_old_hiprtc(void **s) {
    (void)s;
    fresh();
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* a copy of a process with threads is not for them */
#endif
    och_compilers *all = list_made("libslow.so", slow_hiprtc);
    if (!all) skip();
    och_err e = {0};
    const och_candidate *c = pick(all, real_request("gfx900"), &e);
    assert_non_null(c);
    assert_has(c->place, "libslow.so");
    assert_int_equal(c->clang_major, 15);
    busy b = {.c = c};
    pthread_t threads[2];
    for (size_t i = 0; i < OCH_COUNT(threads); i++) assert_int_equal(pthread_create(&threads[i], NULL, keep_compiling, &b), 0);
    struct sigaction act = {.sa_handler = on_alarm}, before; /* without SA_RESTART */
    sigaction(SIGALRM, &act, &before);
    const struct itimerval often = {{0, 3000}, {0, 3000}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    double start = och_now_seconds();
    static const char *const known[] = {"gfx906", "gfx90a", "gfx908", "gfx1010", "gfx1012"};
    for (size_t i = 0; i < OCH_COUNT(known); i++)
        if (!c->row->knows(c, target_named(known[i]))) fail_msg("%s is not known", known[i]);
    assert_false(c->row->knows(c, target_named("gfx1030")));
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    atomic_store(&b.stop, true);
    for (size_t i = 0; i < OCH_COUNT(threads); i++) pthread_join(threads[i], NULL);
    assert_false(atomic_load(&b.failed));
    assert_true(och_now_seconds() - start < 45); /* a child that hangs is given up after a minute */
    och_compilers_destroy(all);
    unsetenv("OCHRE_HIPRTC");
}

/* A library that takes its first text, which is the probe, and says something of each. */
static const char refusing_hiprtc[] =
    "#include <string.h>\n"
    "static const char code[] = \"clang version 19.0.0\", log[] = \"t.hip:1: error: not that\";\n"
    "static int taken;\n"
    "int hiprtcCreateProgram(void **p, const char *t, const char *n, int k, const char **h, const char **i) { *p = &taken; return 0; }\n"
    "int hiprtcCompileProgram(void *p, int n, const char **o) { return taken++ ? 6 : 0; }\n"
    "int hiprtcDestroyProgram(void **p) { return 0; }\n"
    "int hiprtcGetProgramLogSize(void *p, size_t *n) { *n = sizeof log; return 0; }\n"
    "int hiprtcGetProgramLog(void *p, char *l) { memcpy(l, log, sizeof log); return 0; }\n"
    "const char *hiprtcGetErrorString(int e) { return \"an error\"; }\n"
    "int hiprtcVersion(int *a, int *b) { *a = 7, *b = 0; return 0; }\n"
    "int hiprtcGetCodeSize(void *p, size_t *n) { *n = sizeof code; return 0; }\n"
    "int hiprtcGetCode(void *p, char *c) { memcpy(c, code, sizeof code); return 0; }\n";

/* Whichever allocation is refused while a library refuses a text: the status is the message's. */
static void the_first_error_is_told(void **s) {
    (void)s;
    fresh();
    och_compilers *all = list_made("librefusing.so", refusing_hiprtc);
    if (!all) skip();
    och_err e = {0};
    och_jit_request q = real_request("gfx1100");
    const och_candidate *c = pick(all, q, &e);
    if (!c) fail_msg("%s", e.message);
    och_jit_job job;
    assert_ok(och_jit_job_init(&q, &job, &e), e);
    uint64_t n_memory = 0;
    for (uint64_t n = 1;; n++) {
        och_compiled made;
        och_err_clear(&e);
        och_alloc_fail_at(n);
        och_status st = och_compile(c, &job, &(och_compile_limits){0}, &made, &e);
        uint64_t count = och_alloc_count();
        och_alloc_fail_at(0);
        och_compiled_deinit(&made);
        if (st != e.status) fail_msg("allocation %d: %s, which says: %s", (int)n, och_status_name(st), e.message);
        if (st == OCH_COMPILE) assert_has(e.message, "error: not that");
        else assert_int_equal(st, OCH_NOMEM);
        n_memory += st == OCH_NOMEM;
        if (count < n) break;
    }
    assert_true(n_memory > 2);
    och_compilers_destroy(all);
    unsetenv("OCHRE_HIPRTC");
}

static void a_real_nvrtc(void **s) {
    (void)s;
    fresh();
    och_compilers *all = list("nvrtc");
    och_err e;
    const och_candidate *c = pick(all, real_request("sm_90"), &e);
    och_compilers_destroy(all);
    if (!c) {
        print_message("skipped: %s\n", e.message);
        skip();
    }
    och_jit_artifact *a;
    assert_ok(get("nvrtc", real_request("sm_90"), (och_jit_options){0}, &a, NULL, &e), e);
    assert_int_equal(a->kind, OCH_JIT_CUBIN);
    assert_has(a->compiler, "nvrtc 1");
    och_jit_artifact_destroy(a);
    och_jit_request q = real_request("sm_90");
    q.text = "__global__ void f() { undeclared = 1; }", q.text_bytes = strlen(q.text);
    assert_int_equal(get("nvrtc", q, (och_jit_options){0}, &a, NULL, &e), OCH_COMPILE);
    assert_has(e.message, "undeclared");
    q = real_request("sm_90");
    static const char *const flags[] = {"-fno-such-flag"};
    q.flags = flags, q.n_flags = 1;
    assert_int_equal(get("nvrtc", q, (och_jit_options){0}, &a, NULL, &e), OCH_UNSUPPORTED);
    assert_has(e.message, "-fno-such-flag");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order),           cmocka_unit_test(too_old_or_no_clang_at_all),
        cmocka_unit_test(what_clang_is_told),  cmocka_unit_test(wrong_requests),
        cmocka_unit_test(diagnostics),         cmocka_unit_test(the_text_reaches_it), cmocka_unit_test(what_clang_leaves),
        cmocka_unit_test(code_objects),        cmocka_unit_test(ptx),
        cmocka_unit_test(a_real_clang),        cmocka_unit_test(real_hiprtcs), cmocka_unit_test(targets_of_an_old_hiprtc),
        cmocka_unit_test(the_first_error_is_told), cmocka_unit_test(a_real_nvrtc),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
