/* hipRTC over a clang that is found at run time and spawned by its arguments. Each compilation has a directory of its own,
 * which goes with it. */
#include "hip/hip.h"

#include "base/env.h"
#include "base/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

typedef struct name_expression {
    char *expression, *lowered;
} name_expression;

struct _hiprtcProgram {
    struct _hiprtcProgram *next;
    char *source, *name;
    char **headers, **include_names;
    size_t n_headers;
    name_expression *names;
    size_t n_names;
    bool compiled;
    char *log;
    void *code;
    size_t code_bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct _hiprtcProgram *programs;

static bool is_program(hiprtcProgram p) {
    pthread_mutex_lock(&lock);
    struct _hiprtcProgram *q = programs;
    while (q && q != p) q = q->next;
    pthread_mutex_unlock(&lock);
    return q != NULL;
}

const char *sim_hiprtcGetErrorString(hiprtcResult result) {
    switch (result) {
#define CASE(x) case x: return #x;
    CASE(HIPRTC_SUCCESS) CASE(HIPRTC_ERROR_OUT_OF_MEMORY) CASE(HIPRTC_ERROR_PROGRAM_CREATION_FAILURE)
    CASE(HIPRTC_ERROR_INVALID_INPUT) CASE(HIPRTC_ERROR_INVALID_PROGRAM) CASE(HIPRTC_ERROR_INVALID_OPTION)
    CASE(HIPRTC_ERROR_COMPILATION) CASE(HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE)
    CASE(HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION) CASE(HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION)
    CASE(HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID) CASE(HIPRTC_ERROR_INTERNAL_ERROR) CASE(HIPRTC_ERROR_LINKING)
#undef CASE
    }
    return "HIPRTC_ERROR_INTERNAL_ERROR";
}

hiprtcResult sim_hiprtcVersion(int *major, int *minor) {
    if (!major || !minor) return HIPRTC_ERROR_INVALID_INPUT;
    bool ok = sim_hip_init();
    *major = ok && sim_hip.version ? sim_hip.version / 10000 : 9;
    *minor = ok && sim_hip.version ? sim_hip.version / 100 % 100 : 0;
    return HIPRTC_SUCCESS;
}

static void program_free(struct _hiprtcProgram *p) {
    for (size_t i = 0; i < p->n_headers; i++) {
        och_free(p->headers[i]);
        och_free(p->include_names[i]);
    }
    for (size_t i = 0; i < p->n_names; i++) {
        och_free(p->names[i].expression);
        och_free(p->names[i].lowered);
    }
    och_free(p->headers);
    och_free(p->include_names);
    och_free(p->names);
    och_free(p->source);
    och_free(p->name);
    och_free(p->log);
    och_free(p->code);
    och_free(p);
}

hiprtcResult sim_hiprtcCreateProgram(hiprtcProgram *prog, const char *src, const char *name, int numHeaders,
                                     const char **headers,
                                     const char **includeNames) {
    if (!prog) return HIPRTC_ERROR_INVALID_PROGRAM;
    if (!src || numHeaders < 0 || (numHeaders && (!headers || !includeNames))) return HIPRTC_ERROR_INVALID_INPUT;
    struct _hiprtcProgram *p = och_calloc(1, sizeof *p);
    if (!p) return HIPRTC_ERROR_OUT_OF_MEMORY;
    size_t n = (size_t)numHeaders;
    p->source = och_strdup(src);
    p->name = och_strdup(name && *name ? name : "program");
    p->headers = och_calloc(n + 1, sizeof *p->headers);
    p->include_names = och_calloc(n + 1, sizeof *p->include_names);
    bool ok = p->source && p->name && p->headers && p->include_names;
    for (size_t i = 0; ok && i < n; i++) {
        p->headers[i] = och_strdup(headers[i]);
        p->include_names[i] = och_strdup(includeNames[i]);
        p->n_headers = i + 1;
        ok = p->headers[i] && p->include_names[i];
    }
    if (!ok) {
        program_free(p);
        return HIPRTC_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&lock);
    p->next = programs;
    programs = p;
    pthread_mutex_unlock(&lock);
    *prog = p;
    return HIPRTC_SUCCESS;
}

hiprtcResult sim_hiprtcDestroyProgram(hiprtcProgram *prog) {
    if (!prog) return HIPRTC_ERROR_INVALID_INPUT;
    if (!is_program(*prog)) return HIPRTC_ERROR_INVALID_PROGRAM;
    pthread_mutex_lock(&lock);
    for (struct _hiprtcProgram **p = &programs; *p; p = &(*p)->next)
        if (*p == *prog) {
            *p = (*prog)->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    program_free(*prog);
    *prog = NULL;
    return HIPRTC_SUCCESS;
}

hiprtcResult sim_hiprtcAddNameExpression(hiprtcProgram prog, const char *name_expression_) {
    if (!is_program(prog)) return HIPRTC_ERROR_INVALID_PROGRAM;
    if (!name_expression_) return HIPRTC_ERROR_INVALID_INPUT;
    if (prog->compiled) return HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION;
    for (size_t i = 0; i < prog->n_names; i++)
        if (!strcmp(prog->names[i].expression, name_expression_)) return HIPRTC_SUCCESS;
    name_expression *names = och_realloc_array(prog->names, prog->n_names + 1, sizeof *names);
    if (!names) return HIPRTC_ERROR_OUT_OF_MEMORY;
    prog->names = names;
    names[prog->n_names] = (name_expression){och_strdup(name_expression_), NULL};
    if (!names[prog->n_names].expression) return HIPRTC_ERROR_OUT_OF_MEMORY;
    prog->n_names++;
    return HIPRTC_SUCCESS;
}

/* ---- the compiler ---- */
static const char *const candidates[] = {"clang-22", "clang-21", "clang-20", "clang-19", "clang"};

/* The path of a program, as the shell would find it. */
static bool find_program(const char *name, och_strbuf *out) {
    och_strbuf_clear(out);
    if (strchr(name, '/')) {
        och_strbuf_puts(out, name);
        return !access(name, X_OK);
    }
    const char *path = och_env_get(OCH_ENV_PATH);
    for (const char *p = path ? path : "/usr/bin:/bin"; *p;) {
        size_t n = strcspn(p, ":");
        och_strbuf_clear(out);
        och_strbuf_printf(out, "%.*s/%s", (int)n, p, name);
        if (!out->failed && !access(och_strbuf_str(out), X_OK)) return true;
        p += n + (p[n] == ':');
    }
    return false;
}

static bool find_clang(och_strbuf *out) {
    const char *given = och_env_get(OCH_ENV_OCHRE_SIM_CLANG);
    if (given) return find_program(given, out);
    for (size_t i = 0; i < OCH_COUNT(candidates); i++)
        if (find_program(candidates[i], out)) return true;
    return false;
}

static bool write_file(const char *dir, const char *name, const char *text, const char *tail) {
    och_strbuf path;
    och_strbuf_init(&path);
    och_strbuf_printf(&path, "%s/%s", dir, name);
    /* a header may be named with folders */
    for (char *p = path.data ? path.data + strlen(dir) + 1 : NULL; p && (p = strchr(p, '/')); p++) {
        *p = 0;
        (void)mkdir(path.data, 0700);
        *p = '/';
    }
    FILE *f = path.failed ? NULL : fopen(och_strbuf_str(&path), "w");
    bool ok = f && fputs(text, f) >= 0 && (!tail || fputs(tail, f) >= 0);
    if (f && fclose(f)) ok = false;
    och_strbuf_deinit(&path);
    return ok;
}

static void remove_tree(const char *dir) {
    const char *argv[] = {"rm", "-rf", "--", dir, NULL};
    pid_t pid;
    if (!posix_spawnp(&pid, "rm", NULL, NULL, (char *const *)(uintptr_t)argv, environ))
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {}
}

/* Runs argv with both outputs in file `log`; the exit status, or -1. */
static int run(const char *const *argv, const char *log) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t pid;
    int rc = posix_spawn(&pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ), status = -1;
    posix_spawn_file_actions_destroy(&actions);
    if (rc) return -1;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* What a program may use without including a header: hipRTC's sources include none. */
static const char prelude[] =
    "#define __global__ __attribute__((global))\n"
    "#define __device__ __attribute__((device))\n"
    "#define __host__ __attribute__((host))\n"
    "#define __shared__ __attribute__((shared))\n"
    "#define __constant__ __attribute__((constant))\n"
    "#define __forceinline__ inline __attribute__((always_inline))\n"
    "#define __noinline__ __attribute__((noinline))\n"
    "#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))\n"
    "#define HIP_DYNAMIC_SHARED(type, var) extern __shared__ type var[];\n"
    "#define __HIPCC_RTC__ 1\n"
    "typedef __SIZE_TYPE__ size_t;\n"
    "typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long int64_t;\n"
    "typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t; "
    "typedef unsigned long uint64_t;\n"
    "struct dim3 { unsigned x, y, z; };\n"
    "#define OCHRE_COORDINATE(name, xx, yy, zz) struct __ochre_##name { \\\n"
    "  __declspec(property(get = gx)) unsigned x; __declspec(property(get = gy)) unsigned y; __declspec(property(get = gz)) "
    "unsigned z; \\\n"
    "  __device__ static unsigned gx() { return xx; } __device__ static unsigned gy() { return yy; } __device__ static "
    "unsigned gz() { return zz; } }; static const __device__ __ochre_##name name{};\n"
    "#define OCHRE_GRID(d) (__builtin_amdgcn_grid_size_##d() / __builtin_amdgcn_workgroup_size_##d())\n"
    "OCHRE_COORDINATE(threadIdx, __builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(), "
    "__builtin_amdgcn_workitem_id_z())\n"
    "OCHRE_COORDINATE(blockIdx, __builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(), "
    "__builtin_amdgcn_workgroup_id_z())\n"
    "OCHRE_COORDINATE(blockDim, __builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(), "
    "__builtin_amdgcn_workgroup_size_z())\n"
    "OCHRE_COORDINATE(gridDim, OCHRE_GRID(x), OCHRE_GRID(y), OCHRE_GRID(z))\n"
    "static inline __device__ void __syncthreads() { __builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\"); "
    "__builtin_amdgcn_s_barrier(); __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"workgroup\"); }\n"
    "template <class T> static inline __device__ T atomicAdd(T *p, T v) { return __hip_atomic_fetch_add(p, v, "
    "__ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }\n";

/* Options of NVRTC's and hipRTC's own spelling become clang's, or nothing. */
static void add_option(const char **argv, size_t *n, const char *o, bool *has_arch) {
    if (!strncmp(o, "--gpu-architecture=", 19)) {
        *has_arch = true;
        argv[(*n)++] = o; /* replaced by the caller */
        return;
    }
    if (!strncmp(o, "--offload-arch=", 15)) *has_arch = true;
    if (!strcmp(o, "-fgpu-rdc") || !strncmp(o, "-default-device", 15) || !strcmp(o, "--use_fast_math")) {
        if (*o == '-' && o[1] == '-') argv[(*n)++] = "-ffast-math";
        return;
    }
    argv[(*n)++] = o;
}

/* An expression's kernel is kept, and named, by a variable of known name that holds its address. */
static void name_tail(const struct _hiprtcProgram *p, och_strbuf *b) {
    for (size_t i = 0; i < p->n_names; i++)
        och_strbuf_printf(b,
                          "\nextern \"C\" __attribute__((device)) __attribute__((used)) const void *__ochre_name_%zu = "
                          "(const void *)(%s);\n",
                          i, p->names[i].expression);
}

static hiprtcResult lowered_names(struct _hiprtcProgram *p) {
    och_obj *obj = NULL;
    och_err err;
    och_err_clear(&err);
    if (!p->n_names) return HIPRTC_SUCCESS;
    if (och_obj_parse(p->code, p->code_bytes, &obj, &err) != OCH_OK) return HIPRTC_ERROR_INTERNAL_ERROR;
    hiprtcResult r = HIPRTC_SUCCESS;
    for (size_t i = 0; i < p->n_names && r == HIPRTC_SUCCESS; i++) {
        char holder[40];
        snprintf(holder, sizeof holder, "__ochre_name_%zu", i);
        uint64_t at = 0;
        const char *found = NULL;
        for (size_t k = 0; k < obj->n_symbols; k++)
            if (!strcmp(obj->symbols[k].name, holder)) at = obj->symbols[k].addr;
        /* its relocation names the kernel's descriptor, or where that is */
        for (size_t k = 0; k < obj->n_relocs && at; k++) {
            const och_obj_reloc *rel = &obj->relocs[k];
            if (rel->addr != at) continue;
            uint64_t target = *rel->symbol ? rel->symbol_addr : (uint64_t)rel->addend;
            for (size_t j = 0; j < obj->n_symbols; j++) {
                const och_obj_symbol *s = &obj->symbols[j];
                if (s->defined && (*rel->symbol ? !strcmp(s->name, rel->symbol) : s->addr == target)) found = s->name;
            }
        }
        if (!found) r = HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
        else {
            size_t n = strlen(found);
            if (n > 3 && !strcmp(found + n - 3, ".kd")) n -= 3;
            if (!(p->names[i].lowered = och_strndup(found, n))) r = HIPRTC_ERROR_OUT_OF_MEMORY;
        }
    }
    och_obj_destroy(obj);
    return r;
}

static hiprtcResult compile_in(struct _hiprtcProgram *p, const char *dir, int n_options, const char **options) {
    och_strbuf clang, arch, tail, source, object, log;
    och_strbuf *all[] = {&clang, &arch, &tail, &source, &object, &log};
    for (size_t i = 0; i < OCH_COUNT(all); i++) och_strbuf_init(all[i]);
    hiprtcResult r = HIPRTC_ERROR_INTERNAL_ERROR;
    const char **argv = och_calloc((size_t)n_options + 40, sizeof *argv);
    if (!argv) {
        r = HIPRTC_ERROR_OUT_OF_MEMORY;
        goto done;
    }
    if (!find_clang(&clang)) {
        p->log = och_strdup("no clang was found in PATH (OCHRE_SIM_CLANG names one)\n");
        r = HIPRTC_ERROR_COMPILATION;
        goto done;
    }
    name_tail(p, &tail);
    och_strbuf_printf(&source, "%s/program.hip", dir);
    och_strbuf_printf(&object, "%s/program.hsaco", dir);
    och_strbuf_printf(&log, "%s/log", dir);
    bool ok = !source.failed && !object.failed && !log.failed && !tail.failed && write_file(dir, "prelude.h", prelude, NULL) &&
              write_file(dir, "program.hip", p->source, och_strbuf_str(&tail)) &&
              write_file(dir, "hip/hip_runtime.h", "/* what hipRTC's sources need is there already */\n", NULL);
    for (size_t i = 0; ok && i < p->n_headers; i++) ok = write_file(dir, p->include_names[i], p->headers[i], NULL);
    if (!ok) goto done;
    size_t n = 0;
    bool has_arch = false;
    argv[n++] = och_strbuf_str(&clang);
    static const char *const fixed[] = {"-x", "hip", "--offload-device-only", "--no-gpu-bundle-output", "-nogpulib",
                                        "-nogpuinc",
                                        "-O3", "-std=c++17", "-fdeclspec", "-mcode-object-version=5",
                                        "-Wno-unused-command-line-argument", "-include"};
    for (size_t i = 0; i < OCH_COUNT(fixed); i++) argv[n++] = fixed[i];
    och_strbuf prelude_path;
    och_strbuf_init(&prelude_path);
    och_strbuf_printf(&prelude_path, "%s/prelude.h", dir);
    argv[n++] = och_strbuf_str(&prelude_path);
    argv[n++] = "-I";
    argv[n++] = dir;
    for (int i = 0; i < n_options; i++) {
        add_option(argv, &n, options[i], &has_arch);
        if (!strncmp(argv[n - 1], "--gpu-architecture=", 19)) {
            och_strbuf_printf(&arch, "--offload-arch=%s", argv[n - 1] + 19);
            argv[n - 1] = och_strbuf_str(&arch);
        }
    }
    if (!has_arch) {
        sim_device *d = sim_hip_init() ? sim_device_current() : NULL;
        och_strbuf_printf(&arch, "--offload-arch=%s", d ? d->board.target : "gfx1100");
        argv[n++] = och_strbuf_str(&arch);
    }
    argv[n++] = "-o";
    argv[n++] = och_strbuf_str(&object);
    argv[n++] = och_strbuf_str(&source);
    int status = run(argv, och_strbuf_str(&log));
    och_strbuf_deinit(&prelude_path);
    void *bytes;
    size_t n_bytes;
    if (sim_file_read(och_strbuf_str(&log), &bytes, &n_bytes) == hipSuccess) {
        p->log = och_strndup(bytes, n_bytes);
        och_free(bytes);
    }
    if (status != 0) {
        r = HIPRTC_ERROR_COMPILATION;
        goto done;
    }
    if (sim_file_read(och_strbuf_str(&object), &p->code, &p->code_bytes) != hipSuccess) goto done;
    r = lowered_names(p);
done:
    och_free(argv);
    for (size_t i = 0; i < OCH_COUNT(all); i++) och_strbuf_deinit(all[i]);
    return r;
}

hiprtcResult sim_hiprtcCompileProgram(hiprtcProgram prog, int numOptions, const char **options) {
    if (!is_program(prog)) return HIPRTC_ERROR_INVALID_PROGRAM;
    if (numOptions < 0 || (numOptions && !options)) return HIPRTC_ERROR_INVALID_INPUT;
    for (int i = 0; i < numOptions; i++)
        if (!options[i]) return HIPRTC_ERROR_INVALID_OPTION;
    const char *tmp = och_env_get(OCH_ENV_TMPDIR);
    och_strbuf dir;
    och_strbuf_init(&dir);
    och_strbuf_printf(&dir, "%s/ochre-rtc-XXXXXX", tmp ? tmp : "/tmp");
    if (dir.failed || !mkdtemp(dir.data)) {
        och_strbuf_deinit(&dir);
        return HIPRTC_ERROR_INTERNAL_ERROR;
    }
    och_free(prog->log);
    och_free(prog->code);
    prog->log = NULL;
    prog->code = NULL;
    prog->code_bytes = 0;
    hiprtcResult r = compile_in(prog, dir.data, numOptions, options);
    prog->compiled = r == HIPRTC_SUCCESS;
    remove_tree(dir.data);
    och_strbuf_deinit(&dir);
    return r;
}

hiprtcResult sim_hiprtcGetLoweredName(hiprtcProgram prog, const char *name_expression_, const char **lowered_name) {
    if (!is_program(prog)) return HIPRTC_ERROR_INVALID_PROGRAM;
    if (!name_expression_ || !lowered_name) return HIPRTC_ERROR_INVALID_INPUT;
    if (!prog->compiled) return HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION;
    for (size_t i = 0; i < prog->n_names; i++)
        if (!strcmp(prog->names[i].expression, name_expression_) && prog->names[i].lowered) {
            *lowered_name = prog->names[i].lowered;
            return HIPRTC_SUCCESS;
        }
    return HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
}

hiprtcResult sim_hiprtcGetProgramLogSize(hiprtcProgram prog, size_t *logSizeRet) {
    if (!is_program(prog)) return HIPRTC_ERROR_INVALID_PROGRAM;
    if (!logSizeRet) return HIPRTC_ERROR_INVALID_INPUT;
    *logSizeRet = prog->log ? strlen(prog->log) + 1 : 1;
    return HIPRTC_SUCCESS;
}

hiprtcResult sim_hiprtcGetProgramLog(hiprtcProgram prog, char *log) {
    if (!is_program(prog)) return HIPRTC_ERROR_INVALID_PROGRAM;
    if (!log) return HIPRTC_ERROR_INVALID_INPUT;
    strcpy(log, prog->log ? prog->log : "");
    return HIPRTC_SUCCESS;
}

hiprtcResult sim_hiprtcGetCodeSize(hiprtcProgram prog, size_t *codeSizeRet) {
    if (!is_program(prog) || !prog->compiled) return HIPRTC_ERROR_INVALID_PROGRAM;
    if (!codeSizeRet) return HIPRTC_ERROR_INVALID_INPUT;
    *codeSizeRet = prog->code_bytes;
    return HIPRTC_SUCCESS;
}

hiprtcResult sim_hiprtcGetCode(hiprtcProgram prog, char *code) {
    if (!is_program(prog) || !prog->compiled) return HIPRTC_ERROR_INVALID_PROGRAM;
    if (!code) return HIPRTC_ERROR_INVALID_INPUT;
    memcpy(code, prog->code, prog->code_bytes);
    return HIPRTC_SUCCESS;
}
