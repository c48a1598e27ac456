/* hipRTC and NVRTC: libraries of one shape, opened at run time. What differs is the names' beginning, the options, and the
 * calls that give the code. Neither is ever closed again: a runtime that hipRTC lives in has threads and finalizers. */
#include "jit/compiler.h"
#include "jit/places.h"

#include "base/alloc.h"
#include "base/env.h"
#include "base/size.h"
#include "base/spawn.h"
#include "base/thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct program *program_handle;

/* result, name, arguments: both libraries have them; a result of 0 is success */
#define RTC_CALLS(X)                                                                                                   \
    X(int, CreateProgram, (program_handle * out, const char *text, const char *name, int n_headers, const char **headers, \
                           const char **include_names))                                                                \
    X(int, CompileProgram, (program_handle p, int n_options, const char **options))                                    \
    X(int, DestroyProgram, (program_handle * p))                                                                       \
    X(int, GetProgramLogSize, (program_handle p, size_t *out_bytes))                                                   \
    X(int, GetProgramLog, (program_handle p, char *log))                                                               \
    X(const char *, GetErrorString, (int result))                                                                      \
    X(int, Version, (int *major, int *minor))

typedef int (*get_size)(program_handle p, size_t *out_bytes);
typedef int (*get_bytes)(program_handle p, char *bytes);

typedef struct calls {
#define X(result, name, args) result(*name) args;
    RTC_CALLS(X)
#undef X
    get_size code_size;
    get_bytes code;
    och_jit_code_kind kind;
    char tried[256]; /* of an old hipRTC, by the target's row: 'y' and 'n'; under the lock of the candidates */
} calls;

/* Old hipRTCs keep state of a compilation in globals. NVRTC serves any number of threads (its manual, "Thread Safety"). */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

/* Where NVIDIA's packages install. */
#define CUDA_INSTALLED "/usr/local/cuda"

/* ---- looking for them ---- */

static och_status add_matches(och_compilers *all, const och_compiler_row *row, const char *pattern, const char *why,
                              och_err *err) {
    glob_t g;
    och_status st = OCH_OK;
    if (och_places_glob(pattern, 0, &g))
        for (size_t i = 0; i < g.gl_pathc && st == OCH_OK; i++) st = och_compilers_add(all, row, g.gl_pathv[i], why, err);
    globfree(&g);
    return st;
}

static och_status list_hiprtc(och_compilers *all, const och_compiler_row *row, const char *given, och_err *err) {
    static const char *const below[] = {"lib/libhiprtc.so", "lib/libhiprtc.so.[0-9]*", "lib/libamdhip64.so.[56]"};
    static const char *const names[] = {"libhiprtc.so.7", "libhiprtc.so.6",   "libhiprtc.so.5",  "libhiprtc.so",
                                        "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"};
    const char *first = och_env_get(OCH_ENV_OCHRE_HIPRTC);
    if (first) OCH_TRY(och_compilers_add(all, row, first, "OCHRE_HIPRTC", err));
    /* the runtime of CUDA's devices holds no hipRTC */
    const char *name = given ? strrchr(given, '/') : NULL;
    if (given && strncmp(name ? name + 1 : given, "libcuda.", 8) != 0)
        OCH_TRY(och_compilers_add(all, row, given, "the runtime in use", err));
    och_places places;
    OCH_TRY(och_places_rocm(&places, err));
    och_status st = OCH_OK;
    for (size_t i = 0; i < places.n * OCH_COUNT(below) && st == OCH_OK; i++) {
        och_strbuf pattern = {0};
        och_strbuf_printf(&pattern, "%s/%s", places.paths[i / OCH_COUNT(below)], below[i % OCH_COUNT(below)]);
        st = och_strbuf_status(&pattern, err);
        if (st == OCH_OK) st = add_matches(all, row, pattern.data, places.why[i / OCH_COUNT(below)], err);
        och_strbuf_deinit(&pattern);
    }
    och_places_deinit(&places);
    for (size_t i = 0; i < OCH_COUNT(names) && st == OCH_OK; i++)
        st = och_compilers_add(all, row, names[i], "the system's libraries", err);
    return st;
}

/* Where a program of PATH was installed: what its folder bin is in; false where it is not there. */
static bool prefix_of(const char *program, och_strbuf *out) {
    if (!och_spawn_find(program, out)) return false;
    char *slash = strrchr(out->data, '/');
    if (!slash || slash - out->data < 4 || strncmp(slash - 4, "/bin", 4) != 0) return false;
    out->size = (size_t)(slash - 4 - out->data);
    out->data[out->size] = 0;
    return true;
}

/* The libraries of a pattern below a folder; none where `root` is NULL. */
static och_status below(och_compilers *all, const och_compiler_row *row, const char *root, const char *at, const char *why,
                        och_err *err) {
    if (!root) return OCH_OK;
    och_strbuf pattern = {0};
    och_strbuf_printf(&pattern, "%s/%s/libnvrtc.so.1[0-9]", root, at);
    och_status st = och_strbuf_status(&pattern, err);
    if (st == OCH_OK) st = add_matches(all, row, pattern.data, why, err);
    och_strbuf_deinit(&pattern);
    return st;
}

static och_status list_nvrtc(och_compilers *all, const och_compiler_row *row, const char *given, och_err *err) {
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    static const och_env_id homes[] = {OCH_ENV_VIRTUAL_ENV, OCH_ENV_CONDA_PREFIX};
    static const char *const folders[] = {"lib64", "lib", "targets/*-linux/lib"}; /* of a toolkit */
    static const char packages[] = "lib/python3*/site-packages/nvidia/*/lib";
    (void)given;
    const char *first = och_env_get(OCH_ENV_OCHRE_NVRTC);
    if (first) OCH_TRY(och_compilers_add(all, row, first, "OCHRE_NVRTC", err));
    och_strbuf nvcc = {0}, python = {0};
    och_status st = OCH_OK;
    for (size_t i = 0; i < OCH_COUNT(folders) && st == OCH_OK; i++)
        st = below(all, row, och_env_get(OCH_ENV_CUDA_PATH), folders[i], "CUDA_PATH", err);
    for (size_t i = 0; i < OCH_COUNT(homes) && st == OCH_OK; i++)
        st = below(all, row, och_env_get(homes[i]), packages, och_env_name(homes[i]), err);
    bool has_nvcc = prefix_of("nvcc", &nvcc), has_python = prefix_of("python3", &python);
    for (size_t i = 0; i < OCH_COUNT(folders) && st == OCH_OK; i++)
        st = below(all, row, has_nvcc ? nvcc.data : NULL, folders[i], "nvcc in PATH", err);
    if (st == OCH_OK) st = below(all, row, has_python ? python.data : NULL, packages, "python3 in PATH", err);
    if (st == OCH_OK) st = below(all, row, och_env_get(OCH_ENV_HOME), ".local/lib/python3*/site-packages/nvidia/*/lib", "HOME", err);
    for (size_t i = 0; i < OCH_COUNT(names) && st == OCH_OK; i++)
        st = och_compilers_add(all, row, names[i], "the system's libraries", err);
    for (size_t i = 0; i < OCH_COUNT(folders) && st == OCH_OK; i++) st = below(all, row, CUDA_INSTALLED, folders[i], "installed", err);
    if (st == OCH_OK) st = och_strbuf_status(&nvcc, err);
    if (st == OCH_OK) st = och_strbuf_status(&python, err);
    och_strbuf_deinit(&nvcc);
    och_strbuf_deinit(&python);
    return st;
}

static och_status set_text(char **field, och_strbuf *text, och_err *err) {
    och_free(*field);
    *field = och_strdup(och_strbuf_str(text));
    och_status st = och_strbuf_status(text, err);
    if (st == OCH_OK && !*field) st = och_err_nomem(err, text->size, "a compiler's record");
    och_strbuf_clear(text);
    return st;
}

/* ISO C has no cast from void * to a function pointer; POSIX says that the bytes are the same. */
static bool find(void *library, const char *prefix, const char *name, void *out_call, char *missing, size_t n) {
    char symbol[64];
    snprintf(symbol, sizeof symbol, "%s%s", prefix, name);
    void *at = dlsym(library, symbol);
    if (!at) snprintf(missing, n, "it has no %s", symbol);
    memcpy(out_call, &at, sizeof at);
    return at != NULL;
}

/* Opens the library and finds what every row needs. c->calls stays NULL where that fails, with state and detail set. */
static och_status open_library(och_candidate *c, const char *prefix, och_err *err) {
    och_strbuf text = {0};
    och_status st = OCH_OK;
    c->library = dlopen(c->place, RTLD_NOW | RTLD_LOCAL);
    if (!c->library) {
        const char *why = dlerror();
        bool absent = !why || strstr(why, "No such file");
        c->state = absent ? OCH_CANDIDATE_ABSENT : OCH_CANDIDATE_UNFIT;
        och_strbuf_puts(&text, why && !absent ? why : "not there");
        st = set_text(&c->detail, &text, err);
        goto done;
    }
    char missing[96] = "";
    calls *k = och_calloc(1, sizeof *k);
    if (!k) {
        st = och_err_nomem(err, sizeof *k, "a compiler's record");
        goto done;
    }
    bool all = true;
#define X(result, name, args) all = all && find(c->library, prefix, #name, &k->name, missing, sizeof missing);
    RTC_CALLS(X)
#undef X
    /* the form that a device loads as it is comes first */
    char ignored[96];
    k->kind = OCH_JIT_HSACO;
    if (c->row->cuda) {
        k->kind = OCH_JIT_CUBIN;
        if (!find(c->library, prefix, "GetCUBINSize", &k->code_size, ignored, sizeof ignored) ||
            !find(c->library, prefix, "GetCUBIN", &k->code, ignored, sizeof ignored)) {
            k->kind = OCH_JIT_PTX;
            all = all && find(c->library, prefix, "GetPTXSize", &k->code_size, missing, sizeof missing) &&
                  find(c->library, prefix, "GetPTX", &k->code, missing, sizeof missing);
        }
    } else {
        all = all && find(c->library, prefix, "GetCodeSize", &k->code_size, missing, sizeof missing) &&
              find(c->library, prefix, "GetCode", &k->code, missing, sizeof missing);
    }
    if (!all) {
        och_free(k);
        c->state = OCH_CANDIDATE_UNFIT;
        och_strbuf_puts(&text, missing);
        st = set_text(&c->detail, &text, err);
        goto done;
    }
    c->calls = k;
    Dl_info info;
    void *call;
    memcpy(&call, &k->CreateProgram, sizeof call);
    och_strbuf_puts(&text, dladdr(call, &info) && info.dli_fname ? info.dli_fname : c->place);
    st = set_text(&c->path, &text, err);
done:
    och_strbuf_deinit(&text);
    return st;
}

/* ---- compiling ---- */

#define LOG_BYTES ((size_t)64 << 20)
#define CODE_BYTES ((size_t)1 << 30) /* a library that says more is wrong */

static const char *error_text(const calls *k, int rc) {
    const char *text = k->GetErrorString(rc);
    return text ? text : "no reason given";
}

static och_status run(const och_candidate *c, const char *label, const char *text, const char *name, const char **options,
                      int n_options, och_compiled *out, och_err *err) {
    const calls *k = c->calls;
    program_handle p = NULL;
    och_status st = OCH_OK;
    if (!c->row->cuda) pthread_mutex_lock(&one_at_a_time);
    int rc = k->CreateProgram(&p, text, name, 0, NULL, NULL);
    if (rc) {
        st = och_err_set_native(err, OCH_COMPILE, rc, "%s: %s: making the program: %s", label, c->label, error_text(k, rc));
        goto done;
    }
    rc = k->CompileProgram(p, n_options, options);
    size_t n = 0;
    if (!k->GetProgramLogSize(p, &n) && n > 1 && n <= LOG_BYTES) {
        char *log = och_calloc(n + 1, 1);
        if (log && !k->GetProgramLog(p, log)) och_strbuf_puts(&out->log, log);
        st = log ? och_strbuf_status(&out->log, err) : och_err_nomem(err, n, "a compiler's log");
        och_free(log);
    }
    if (st != OCH_OK) goto done;
    if (rc) {
        const char *line;
        och_first_diagnostic(och_strbuf_str(&out->log), &line, &n);
        st = och_err_set_native(err, OCH_COMPILE, rc, "%s: %.*s", label, n ? (int)OCH_MIN(n, 600) : 600,
                                n ? line : error_text(k, rc));
        goto done;
    }
    rc = k->code_size(p, &n);
    if (!rc && n > CODE_BYTES) {
        st = och_err_set(err, OCH_COMPILE, "%s: %s: expected at most %zu bytes of code, found %zu", label, c->label,
                         CODE_BYTES, n);
        goto done;
    }
    if (!rc && !(out->code = och_calloc(n + 1, 1))) {
        st = och_err_nomem(err, n, "code");
        goto done;
    }
    if (!rc) rc = k->code(p, (char *)out->code);
    if (rc)
        st = och_err_set_native(err, OCH_COMPILE, rc, "%s: %s: taking the code: %s", label, c->label, error_text(k, rc));
    else out->code_bytes = n;
    out->kind = k->kind;
    if (k->kind == OCH_JIT_PTX) /* its size counts the final NUL */
        while (out->code_bytes && !out->code[out->code_bytes - 1]) out->code_bytes--;
done:
    if (p) (void)k->DestroyProgram(&p);
    if (!c->row->cuda) pthread_mutex_unlock(&one_at_a_time);
    return st;
}

static void add(och_strbuf *out, const char *argument) { och_strbuf_append(out, argument, strlen(argument) + 1); }

static och_status arguments_hiprtc(const och_candidate *c, const och_jit_job *job, och_strbuf *out, och_err *err) {
    char one[OCH_TARGET_NAME_BYTES + 32];
    (void)c;
    snprintf(one, sizeof one, "--gpu-architecture=%s", job->target.name);
    add(out, one);
    add(out, "-std=c++17");
    add(out, "-ffp-contract=off");
    snprintf(one, sizeof one, "-O%d", job->opt_level);
    add(out, one);
    snprintf(one, sizeof one, "-mcode-object-version=%d", job->code_object_version);
    add(out, one);
    if (job->target.target->waves == (OCH_WAVE32 | OCH_WAVE64))
        add(out, job->wave_size == 64 ? "-mwavefrontsize64" : "-mno-wavefrontsize64");
    for (size_t i = 0; i < job->request->n_flags; i++) add(out, job->request->flags[i]);
    return och_strbuf_status(out, err);
}

/* Flags come in clang's spelling; NVRTC takes definitions alone of them. */
static och_status arguments_nvrtc(const och_candidate *c, const och_jit_job *job, och_strbuf *out, och_err *err) {
    const calls *k = c->calls;
    char one[OCH_TARGET_NAME_BYTES + 32];
    const char *own = job->request->own_target ? "a" : "";
    if (k->kind == OCH_JIT_CUBIN) snprintf(one, sizeof one, "--gpu-architecture=%s%s", job->target.name, own);
    else snprintf(one, sizeof one, "--gpu-architecture=compute_%s%s", job->target.name + strlen("sm_"), own);
    add(out, one);
    add(out, "-std=c++17");
    add(out, "-fmad=false");
    snprintf(one, sizeof one, "--ptxas-options=-O%d", job->opt_level);
    if (k->kind == OCH_JIT_CUBIN) add(out, one);
    for (size_t i = 0; i < job->request->n_flags; i++) {
        const char *flag = job->request->flags[i];
        if (strncmp(flag, "-D", 2) && strncmp(flag, "-U", 2))
            return och_err_set(err, OCH_UNSUPPORTED, "%s: %s takes no flag %s", job->label, c->label, flag);
        add(out, flag);
    }
    return och_strbuf_status(out, err);
}

static och_status compile(const och_candidate *c, const och_jit_job *job, const och_strbuf *text, const och_strbuf *told,
                          const och_compile_limits *limits, och_compiled *out, och_err *err) {
    if (limits->cancel && atomic_load(limits->cancel))
        return och_err_set(err, OCH_CANCELLED, "%s: cancelled before it was compiled", job->label);
    size_t n;
    const char **options = och_arguments_split(told, 0, &n);
    if (!options) return och_err_nomem(err, n * sizeof *options, "a compiler's options");
    och_status st = run(c, job->label, text->data, job->file_name, options, (int)n, out, err);
    och_free(options);
    return st;
}

/* ---- what they are ---- */

#define FIRST_SAFE_CLANG 19 /* of hipRTC; older ones are met with care */
#define PROBE_TIMEOUT_S 60

static const char probe_text[] = "extern \"C\" __attribute__((global)) void ochre_probe(int *p) { *p = 1; }\n";

/* The child's answer: 'y' or 'n'; 'n' too where its end came before one; 0 where nothing came in time. */
static char wait_for_answer(int fd, pid_t pid) {
    char answer = 0;
    double end = och_now_seconds() + PROBE_TIMEOUT_S;
    for (;;) {
        double left = end - och_now_seconds();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int n = poll(&p, 1, left > 0 ? (int)(left * 1000) + 1 : 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        ssize_t got = read(fd, &answer, 1);
        if (got < 0 && errno == EINTR) continue;
        if (!got) answer = 'n'; /* the library ended the process */
        break;
    }
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {}
    return answer;
}

/* Whether compiling the probe for a target leaves the process alive, tried in a process that may die of it: 'y', 'n', or 0
 * where that was not found out. The answer comes through a pipe, and the child is killed whatever it does: no handler of this
 * process's end may run in it. No other thread is within the library when the process is copied: the child would find its
 * state half written, and the lock taken by nobody. */
static char survives(const och_candidate *c, const char *target) {
    int fd[2];
    if (pipe2(fd, O_CLOEXEC) != 0) return 0;
    pthread_mutex_lock(&one_at_a_time);
    pid_t pid = fork();
    pthread_mutex_unlock(&one_at_a_time);
    if (!pid) {
        static const int signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
        char arch[OCH_TARGET_NAME_BYTES + 32];
        const char *options[] = {arch};
        och_compiled made = {0};
        for (size_t i = 0; i < OCH_COUNT(signals); i++) signal(signals[i], SIG_DFL);
        (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        int null = open("/dev/null", O_RDWR);
        for (int i = 1; null >= 0 && i < 3; i++) (void)dup2(null, i);
        snprintf(arch, sizeof arch, "--gpu-architecture=%s", target);
        bool ok = run(c, "a probe", probe_text, "probe", options, 1, &made, NULL) == OCH_OK;
        while (write(fd[1], ok ? "y" : "n", 1) < 0 && errno == EINTR) {}
        for (;;) (void)raise(SIGKILL);
    }
    close(fd[1]);
    char answer = pid > 0 ? wait_for_answer(fd[0], pid) : 0;
    close(fd[0]);
    return answer;
}

/* An old hipRTC does not refuse a target that it does not know: it ends the process. What was not found out is asked again. */
static bool knows_hiprtc(const och_candidate *c, const och_target *target) {
    calls *k = c->calls;
    size_t i = (size_t)(target - och_target_at(0));
    if (c->clang_major >= FIRST_SAFE_CLANG) return true;
    char answer = i < OCH_COUNT(k->tried) ? k->tried[i] : 0;
    if (!answer) answer = survives(c, target->name);
    if (i < OCH_COUNT(k->tried)) k->tried[i] = answer;
    return answer == 'y';
}

/* hipRTC's own version number has been 9.0 for years. The clang that it holds signs what it makes. */
static och_status probe_hiprtc(och_candidate *c, och_err *err) {
    static const char mark[] = "clang version ";
    OCH_TRY(open_library(c, "hiprtc", err));
    if (!c->calls) return OCH_OK;
    const calls *k = c->calls;
    och_strbuf line = {0};
    och_compiled made = {0};
    och_err why = {0};
    och_status st = OCH_OK;
    int major = 0, minor = 0;
    (void)k->Version(&major, &minor);
    och_strbuf_printf(&line, "hiprtc (%s)", c->path);
    OCH_TRY_GOTO(set_text(&c->label, &line, err));
    const char *options[] = {"--gpu-architecture=gfx900"};
    if (run(c, "a probe", probe_text, "probe", options, 1, &made, &why) != OCH_OK) {
        c->state = OCH_CANDIDATE_UNFIT;
        och_strbuf_puts(&line, why.message);
        st = why.status == OCH_NOMEM ? och_err_set(err, OCH_NOMEM, "%s", why.message) : set_text(&c->detail, &line, err);
        goto done;
    }
    const char *at = made.code ? memmem(made.code, made.code_bytes, mark, sizeof mark - 1) : NULL; /* a NUL follows the code */
    const char *number = at ? at + sizeof mark - 1 : "";
    c->clang_major = (int)strtol(number, NULL, 10);
    och_strbuf_printf(&line, "hiprtc %d.%d, %s", major, minor, at ? at : "of no known clang");
    OCH_TRY_GOTO(set_text(&c->version, &line, err));
    och_strbuf_printf(&line, "hiprtc of clang %.*s (%s)", at ? (int)strspn(number, "0123456789.") : 1, at ? number : "?",
                      c->path);
    OCH_TRY_GOTO(set_text(&c->label, &line, err));
    if (c->clang_major && c->clang_major < FIRST_SAFE_CLANG) c->most_version = 4; /* -mcode-object-version changes nothing */
    c->state = OCH_CANDIDATE_FOUND;
done:
    och_strbuf_deinit(&line);
    och_compiled_deinit(&made);
    return st;
}

static och_status probe_nvrtc(och_candidate *c, och_err *err) {
    OCH_TRY(open_library(c, "nvrtc", err));
    if (!c->calls) return OCH_OK;
    const calls *k = c->calls;
    int major = 0, minor = 0;
    (void)k->Version(&major, &minor);
    och_strbuf line = {0};
    och_strbuf_printf(&line, "nvrtc %d.%d", major, minor);
    och_status st = set_text(&c->version, &line, err);
    och_strbuf_printf(&line, "nvrtc %d.%d (%s)", major, minor, c->path);
    if (st == OCH_OK) st = set_text(&c->label, &line, err);
    if (st == OCH_OK) c->state = OCH_CANDIDATE_FOUND;
    och_strbuf_deinit(&line);
    return st;
}

const och_compiler_row och_compiler_hiprtc = {
    .name = "hiprtc",
    .hip = true,
    .looked_for = "OCHRE_HIPRTC, the runtime in use, libhiprtc and libamdhip64 of the same places and of the system",
    .list = list_hiprtc,
    .probe = probe_hiprtc,
    .knows = knows_hiprtc,
    .arguments = arguments_hiprtc,
    .compile = compile,
};

const och_compiler_row och_compiler_nvrtc = {
    .name = "nvrtc",
    .cuda = true,
    .looked_for = "OCHRE_NVRTC, CUDA_PATH, the Python packages of CUDA (of VIRTUAL_ENV, CONDA_PREFIX, python3 in PATH, HOME), nvcc in "
                  "PATH, libnvrtc.so.13, .12 and .so of the system, CUDA's own folder",
    .list = list_nvrtc,
    .probe = probe_nvrtc,
    .arguments = arguments_nvrtc,
    .compile = compile,
};
