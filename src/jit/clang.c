/* clang and amdclang: spawned by argv, the text through standard input, the code through standard output. */
#include "jit/cache_priv.h"
#include "jit/compiler.h"
#include "jit/places.h"

#include "base/alloc.h"
#include "base/env.h"
#include "base/size.h"
#include "base/spawn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OLDEST 19
#define MAX_VERSION 10000        /* a larger one is none */
#define LOG_BYTES ((size_t)1 << 20) /* of what it says that is kept */
#define VERSION_TIMEOUT_NS 60000000000u

static och_status list(och_compilers *all, const och_compiler_row *row, const char *given, och_err *err) {
    static const char *const below[] = {"llvm/bin/clang", "lib/llvm/bin/clang", "llvm/bin/amdclang++",
                                        "lib/llvm/bin/amdclang++"};
    static const char *const names[] = {"amdclang++", "amdclang", "clang-22", "clang-21", "clang-20", "clang-19", "clang"};
    (void)given;
    const char *first = och_env_get(OCH_ENV_OCHRE_CLANG);
    if (first) OCH_TRY(och_compilers_add(all, row, first, "OCHRE_CLANG", err));
    och_places places;
    OCH_TRY(och_places_rocm(&places, err));
    och_status st = OCH_OK;
    for (size_t i = 0; i < places.n * OCH_COUNT(below) && st == OCH_OK; i++) {
        och_strbuf path = {0};
        och_strbuf_printf(&path, "%s/%s", places.paths[i / OCH_COUNT(below)], below[i % OCH_COUNT(below)]);
        st = och_strbuf_status(&path, err);
        if (st == OCH_OK) st = och_compilers_add(all, row, path.data, places.why[i / OCH_COUNT(below)], err);
        och_strbuf_deinit(&path);
    }
    och_places_deinit(&places);
    for (size_t i = 0; i < OCH_COUNT(names) && st == OCH_OK; i++) st = och_compilers_add(all, row, names[i], "PATH", err);
    return st;
}

static och_status set(char **field, const char *text, size_t n, och_err *err) {
    och_free(*field);
    *field = och_strndup(text, n);
    return *field ? OCH_OK : och_err_nomem(err, n, "a compiler's record");
}

static och_status unfit(och_candidate *c, const char *why, och_err *err) {
    c->state = OCH_CANDIDATE_UNFIT;
    return set(&c->detail, why, strlen(why), err);
}

/* "... clang version 22.1.8 (...)": the number, and where it ends. */
static int parse_version(const char *text, const char **out_number, size_t *out_n) {
    const char *at = strstr(text, "clang version ");
    if (!at) return 0;
    *out_number = at += strlen("clang version ");
    *out_n = strspn(at, "0123456789.");
    long major = *at >= '0' && *at <= '9' ? strtol(at, NULL, 10) : 0;
    return major > 0 && major < MAX_VERSION ? (int)major : 0;
}

static och_status probe(och_candidate *c, och_err *err) {
    och_strbuf path = {0}, label = {0};
    och_spawn_result r = {0};
    och_status st = OCH_OK;
    if (!och_spawn_find(c->place, &path)) {
        st = och_strbuf_status(&path, err);
        c->state = OCH_CANDIDATE_ABSENT;
        goto done;
    }
    OCH_TRY_GOTO(set(&c->path, path.data, path.size, err));
    const char *argv[] = {c->path, "--version", NULL}, *number = "";
    och_err why = {0};
    st = och_spawn_run(&(och_spawn){.argv = argv, .timeout_ns = VERSION_TIMEOUT_NS}, &r, &why);
    if (st == OCH_NOMEM) {
        och_err_set(err, st, "%s", why.message);
        goto done;
    }
    const char *text = och_strbuf_str(&r.out);
    size_t n = 0, line = strcspn(text, "\n");
    int major = st == OCH_OK && r.exit_status == 0 ? parse_version(text, &number, &n) : 0;
    if (!major) {
        st = unfit(c, st != OCH_OK ? why.message : "it does not say a version of clang", err);
        goto done;
    }
    OCH_TRY_GOTO(set(&c->version, text, line, err));
    och_strbuf_printf(&label, "clang %.*s (%s)", (int)n, number, c->path);
    OCH_TRY_GOTO(och_strbuf_status(&label, err));
    OCH_TRY_GOTO(set(&c->label, label.data, label.size, err));
    c->clang_major = major;
    c->state = OCH_CANDIDATE_FOUND;
    if (major < OLDEST) {
        och_strbuf_clear(&label);
        och_strbuf_printf(&label, "clang %.*s, older than %d", (int)n, number, OLDEST);
        OCH_TRY_GOTO(och_strbuf_status(&label, err));
        st = unfit(c, label.data, err);
    }
done:
    och_strbuf_deinit(&path);
    och_strbuf_deinit(&label);
    och_spawn_result_deinit(&r);
    return st;
}

static const char *const common[] = {
    "-std=c++17", "-fdeclspec", "-ffp-contract=off", "-fno-color-diagnostics", "--no-default-config",
    "-Wno-unknown-cuda-version",
};
static const char *const for_hip[] = {"-x", "hip", "--offload-device-only", "--no-gpu-bundle-output", "-nogpulib", "-nogpuinc"};
static const char *const for_cuda[] = {"-x", "cuda", "--cuda-device-only", "-S", "-nocudalib", "-nocudainc"};

/* Variables that change what clang does, and are in no key. */
static const char *const unset[] = {"CCC_OVERRIDE_OPTIONS", "CPATH",          "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH",
                                    "COMPILER_PATH",        "LIBRARY_PATH", "GCC_EXEC_PREFIX", NULL};

static och_status failed(const och_candidate *c, const och_jit_job *job, const och_spawn_result *r, const char *log,
                         och_err *err) {
    if (r->signal)
        return och_err_set(err, OCH_COMPILE, "%s: %s was ended by signal %d (%s)", job->label, c->label, r->signal,
                           strsignal(r->signal));
    const char *line;
    size_t n;
    och_first_diagnostic(log, &line, &n);
    if (!n)
        return och_err_set(err, OCH_COMPILE, "%s: %s ended with status %d and no message", job->label, c->label,
                           r->exit_status);
    return och_err_set(err, OCH_COMPILE, "%s: %.*s", job->label, (int)OCH_MIN(n, 600), line);
}

static void add(och_strbuf *out, const char *argument) { och_strbuf_append(out, argument, strlen(argument) + 1); }

static och_status arguments(const och_candidate *c, const och_jit_job *job, och_strbuf *out, och_err *err) {
    const och_jit_request *q = job->request;
    bool hip = q->dialect == OCH_JIT_HIP;
    char one[OCH_TARGET_NAME_BYTES + 32];
    (void)c;
    const char *const *words = hip ? for_hip : for_cuda;
    for (size_t i = 0; i < (hip ? OCH_COUNT(for_hip) : OCH_COUNT(for_cuda)); i++) add(out, words[i]);
    for (size_t i = 0; i < OCH_COUNT(common); i++) add(out, common[i]);
    snprintf(one, sizeof one, "%s=%s%s", hip ? "--offload-arch" : "--cuda-gpu-arch", job->target.name, !hip && q->own_target ? "a" : "");
    add(out, one);
    snprintf(one, sizeof one, "-O%d", job->opt_level);
    add(out, one);
    snprintf(one, sizeof one, "-mcode-object-version=%d", job->code_object_version);
    if (hip) add(out, one);
    if (hip && job->target.target->waves == (OCH_WAVE32 | OCH_WAVE64))
        add(out, job->wave_size == 64 ? "-mwavefrontsize64" : "-mno-wavefrontsize64");
    for (size_t i = 0; i < q->n_flags; i++) add(out, q->flags[i]);
    add(out, "-o");
    add(out, "-");
    add(out, "-");
    return och_strbuf_status(out, err);
}

/* A folder for what clang writes between its steps ("--gfx1151-....o"): one that was ended leaves it there. `variable` names
 * the folder for it, "TMPDIR=...". */
static och_status name_scratch(const char *given, char *variable, size_t n, och_err *err) {
    const char *folder = given ? given : och_env_get(OCH_ENV_TMPDIR);
    if (!folder || !*folder) folder = "/tmp";
    int size = snprintf(variable, n, "TMPDIR=%s%s", folder, given ? "" : "/ochre-clang-XXXXXX");
    if (size < 0 || (size_t)size >= n) return och_err_set(err, OCH_INVALID, "a folder for clang: expected a shorter path, found %.400s", folder);
    if (!given && !mkdtemp(variable + strlen("TMPDIR=")))
        return och_err_set_native(err, OCH_IO, errno, "%.400s: no folder could be made there for clang: %s", folder, strerror(errno));
    return OCH_OK;
}

static och_status compile(const och_candidate *c, const och_jit_job *job, const och_strbuf *text, const och_strbuf *told,
                          const och_compile_limits *limits, och_compiled *out, och_err *err) {
    size_t n;
    char scratch[4200];
    const char *const set[] = {scratch, NULL};
    const char **argv = och_arguments_split(told, 1, &n);
    if (!argv) return och_err_nomem(err, n * sizeof *argv, "a compiler's arguments");
    argv[0] = c->path;
    och_spawn_result r;
    och_status made = name_scratch(limits->scratch, scratch, sizeof scratch, err);
    if (made != OCH_OK) {
        och_free(argv);
        return made;
    }
    och_status st = och_spawn_run(&(och_spawn){.argv = argv,
                                               .input = text->data,
                                               .input_bytes = text->size,
                                               .unset = unset,
                                               .set = set,
                                               .timeout_ns = limits->timeout_ns,
                                               .cancel = limits->cancel},
                                  &r, err);
    och_free(argv);
    if (!limits->scratch) och_cache_remove_dir(scratch + strlen("TMPDIR="));
    out->log = r.err;
    r.err = (och_strbuf){0};
    if (out->log.size > LOG_BYTES) {
        size_t more = out->log.size - LOG_BYTES;
        out->log.size = LOG_BYTES;
        och_strbuf_printf(&out->log, "\n... and %zu bytes more\n", more);
    }
    if (st == OCH_OK && (r.signal || r.exit_status)) {
        st = failed(c, job, &r, och_strbuf_str(&out->log), err);
    } else if (st == OCH_OK && r.truncated) {
        st = och_err_set(err, OCH_COMPILE, "%s: %s wrote more than can be taken", job->label, c->label);
    } else if (st == OCH_OK) {
        out->kind = job->request->dialect == OCH_JIT_HIP ? OCH_JIT_HSACO : OCH_JIT_PTX;
        out->code = (uint8_t *)r.out.data; /* the buffer's memory becomes the code's */
        out->code_bytes = r.out.size;
        r.out = (och_strbuf){0};
    }
    och_spawn_result_deinit(&r);
    return st;
}

const och_compiler_row och_compiler_clang = {
    .name = "clang",
    .hip = true,
    .cuda = true,
    .needs_prelude = true,
    .looked_for = "19 or newer: OCHRE_CLANG, llvm/bin of ROCM_PATH, of the Python packages of ROCm and of ROCm's own folder, "
                  "amdclang++, clang-22 to clang-19 and clang in PATH",
    .list = list,
    .probe = probe,
    .arguments = arguments,
    .compile = compile,
};
