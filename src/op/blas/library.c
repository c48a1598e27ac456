/* Where the libraries may be, and opening them. */
#include "op/blas/library.h"

#include "base/size.h"
#include "base/spawn.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { CUBLASLT, HIPBLASLT, N_KINDS };

/* Newest first. Wheels of PyTorch carry hipBLASLt without a number. */
static const char *const cublaslt_names[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
static const char *const hipblaslt_names[] = {"libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so"};

static const och_blas_kind kinds[N_KINDS] = {
#include "op/blas/kinds.def"
};

static const struct {
    const char *name;
    size_t offset;
} calls[] = {
#define OCH_BLAS_CALL(name, params) {#name, offsetof(och_blas_api, name)},
#include "op/blas/calls.def"
#undef OCH_BLAS_CALL
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    bool tried, opened;
    och_attempts attempts; /* for the life of the process */
    och_blas_library lib;
} all[N_KINDS];

/* ---- places ---- */

/* Folders of a pattern that have the library, the last in order first, since that is the newest; those without are not told. */
static void add_glob(och_attempts *a, const och_blas_kind *k, const char *place, const char *root, const char *at) {
    char pattern[512];
    glob_t g;
    if (!root || snprintf(pattern, sizeof pattern, "%s/%s", root, at) >= (int)sizeof pattern) return;
    if (glob(pattern, GLOB_ONLYDIR, NULL, &g) != 0) return;
    for (size_t i = g.gl_pathc; i-- > 0;) och_attempts_add_files(a, &k->names, place, g.gl_pathv[i]);
    globfree(&g);
}

static void add_system(och_attempts *a, const och_blas_kind *k, const char *place, const char *at) {
    char root[512];
    add_glob(a, k, place, och_system_path("", root, sizeof root), at);
}

/* Where the interpreter that PATH finds was installed. */
static void add_python_of_path(och_attempts *a, const och_blas_kind *k, const char *const *packages) {
    och_strbuf program = {0};
    if (och_spawn_find("python3", &program)) {
        char *slash = strrchr(program.data, '/');
        if (slash && slash - program.data >= 4 && !strncmp(slash - 4, "/bin", 4)) {
            slash[-4] = 0;
            for (; *packages; packages++) add_glob(a, k, "python3 in PATH", program.data, *packages);
        }
    }
    och_strbuf_deinit(&program);
}

static void add_python(och_attempts *a, const och_blas_kind *k, const char *const *packages) {
    static const char *const homes[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};
    char local[512];
    const char *home = och_env_foreign("HOME");
    for (size_t i = 0; i < OCH_COUNT(homes); i++)
        for (const char *const *p = packages; *p; p++) add_glob(a, k, homes[i], och_env_foreign(homes[i]), *p);
    add_python_of_path(a, k, packages);
    bool fits = home && snprintf(local, sizeof local, "%s/.local", home) < (int)sizeof local;
    for (const char *const *p = packages; fits && *p; p++) add_glob(a, k, "Python packages of the user", local, *p);
    for (const char *const *p = packages; *p; p++) {
        add_glob(a, k, "Python packages", och_system_path("/usr/local", local, sizeof local), *p);
        add_glob(a, k, "Python packages", och_system_path("/usr", local, sizeof local), *p);
    }
}

static void add_loader(och_attempts *a, const och_blas_kind *k) {
    if (och_env_get(OCH_ENV_OCHRE_SYSTEM_ROOT)) return; /* the loader knows of no other root */
    for (size_t i = 0; i < k->names.n; i++) (void)och_attempt_add(a, "the loader's search", k->names.names[i]);
}

static void search_cuda(och_attempts *a, const och_blas_kind *k) {
    static const char *const packages[] = {"lib/python3*/site-packages/nvidia/*/lib", "lib/python3*/dist-packages/nvidia/*/lib", NULL};
    static const char *const toolkit[] = {"lib64", "lib", "targets/*-linux/lib"};
    for (size_t i = 0; i < OCH_COUNT(toolkit); i++) add_glob(a, k, "CUDA_PATH", och_env_foreign("CUDA_PATH"), toolkit[i]);
    add_python(a, k, packages);
    add_loader(a, k);
    add_system(a, k, "installed", "usr/local/cuda/lib64");
    add_system(a, k, "installed", "usr/local/cuda-*/lib64");
    add_system(a, k, "installed", "usr/local/cuda*/targets/*-linux/lib");
    add_system(a, k, "distribution", "usr/lib/*-linux-gnu");
    add_system(a, k, "distribution", "usr/lib64");
}

static void search_hip(och_attempts *a, const och_blas_kind *k, const och_dev_info *info) {
    static const char *const packages[] = {"lib/python3*/site-packages/_rocm_sdk_*/lib", "lib/python3*/site-packages/torch/lib",
                                           "lib/python3*/dist-packages/torch/lib", NULL};
    static const char *const prefixes[] = {"ROCM_PATH", "HIP_PATH"};
    char folder[512];
    snprintf(folder, sizeof folder, "%s", info->library);
    char *slash = strrchr(folder, '/');
    if (slash) *slash = 0;
    if (slash) och_attempts_add_files(a, &k->names, "the runtime's folder", folder);
    for (size_t i = 0; i < OCH_COUNT(prefixes); i++) add_glob(a, k, prefixes[i], och_env_foreign(prefixes[i]), "lib");
    add_python(a, k, packages);
    add_system(a, k, "installed", "opt/rocm/lib");
    add_system(a, k, "installed", "opt/rocm-*/lib");
    add_system(a, k, "installed", "opt/rocm/core-*/lib");
    add_system(a, k, "distribution", "usr/lib/*-linux-gnu");
    add_system(a, k, "distribution", "usr/lib64");
    add_loader(a, k);
}

static void search(och_attempts *a, const och_blas_kind *k, const och_dev_info *info) {
    const char *v = och_env_get(k->override);
    if (v) {
        och_attempts_add_named(a, &k->names, och_env_name(k->override), v);
        return;
    }
    if ((v = och_env_foreign("LD_LIBRARY_PATH"))) och_attempts_add_files(a, &k->names, "LD_LIBRARY_PATH", v);
    if (k == &kinds[CUBLASLT]) search_cuda(a, k);
    else search_hip(a, k, info);
}

/* ---- opening ---- */

static bool fail(och_attempt *t, och_find find, const char *why, const char *what) {
    t->find = find;
    snprintf(t->why, sizeof t->why, "%s%s", why, what);
    return false;
}

static bool open_file(och_attempt *t, const och_blas_kind *k, och_blas_library *lib) {
    char symbol[80];
    Dl_info at;
    memset(lib, 0, sizeof *lib);
    lib->kind = k;
    lib->handle = dlopen(t->path, RTLD_NOW | RTLD_LOCAL);
    if (!lib->handle) {
        const char *e = dlerror();
        return fail(t, strchr(t->path, '/') ? OCH_FIND_BROKEN : OCH_FIND_ABSENT, "cannot be opened: ", e ? e : "no reason given");
    }
    /* ISO C has no cast from void * to a function pointer; POSIX says that the bytes are the same. */
    for (size_t i = 0; i < OCH_COUNT(calls); i++) {
        snprintf(symbol, sizeof symbol, "%s%s", k->prefix, calls[i].name);
        void *p = dlsym(lib->handle, symbol);
        if (!p) return fail(t, OCH_FIND_TOO_OLD, "it lacks ", symbol);
        memcpy((char *)&lib->api + calls[i].offset, &p, sizeof p);
        if (dladdr(p, &at) && at.dli_fname) snprintf(lib->path, sizeof lib->path, "%s", at.dli_fname);
    }
    snprintf(symbol, sizeof symbol, "%sGetVersion", k->prefix);
    if (!(lib->get_version = dlsym(lib->handle, symbol))) return fail(t, OCH_FIND_TOO_OLD, "it lacks ", symbol);
    t->find = OCH_FIND_OPENED;
    return true;
}

int och_blas_version(const och_blas_library *lib, void *handle) {
    if (lib->kind == &kinds[CUBLASLT]) {
        size_t (*get)(void);
        memcpy(&get, &lib->get_version, sizeof get);
        return (int)get();
    }
    int (*get)(void *handle, int *out_version);
    int version = 0;
    memcpy(&get, &lib->get_version, sizeof get);
    return get(handle, &version) ? 0 : version;
}

void och_blas_version_text(const och_blas_kind *kind, int version, char *out, size_t n_bytes) {
    if (!version) snprintf(out, n_bytes, "of unknown version");
    else snprintf(out, n_bytes, "%d.%d.%d", version / kind->major_unit, version % kind->major_unit / 100, version % 100);
}

/* Two runtimes in one process know nothing of each other's streams and memory. */
static och_status check_runtime(const och_blas_library *lib, const och_dev_info *info, och_err *err) {
    void *bound = dlsym(lib->handle, lib->kind->runtime_call), *own = NULL, *runtime;
    if (!bound) return OCH_OK; /* it is not linked to one */
    if (info->library_open[0] && (runtime = dlopen(info->library_open, RTLD_NOW | RTLD_NOLOAD))) {
        own = dlsym(runtime, lib->kind->runtime_call);
        dlclose(runtime);
    }
    if (own == bound) return OCH_OK;
    Dl_info at = {0};
    bool known = dladdr(bound, &at) && at.dli_fname;
    return och_err_set(err, OCH_UNSUPPORTED, "%.200s is linked to the runtime %.200s, and the device is served by %.200s", lib->path,
                       known ? at.dli_fname : "of another file", info->library);
}

static int kind_of(const char *backend) {
    return !strcmp(backend, "cuda") ? CUBLASLT : !strcmp(backend, "hip") || !strcmp(backend, "sim") ? HIPBLASLT : -1;
}

const och_blas_kind *och_blas_kind_of(const char *backend) {
    int k = kind_of(backend);
    return k < 0 ? NULL : &kinds[k];
}

const och_attempts *och_blas_library_attempts(const char *backend) {
    int k = kind_of(backend);
    return k < 0 ? NULL : &all[k].attempts;
}

och_status och_blas_library_for(const och_dev_info *info, const och_blas_library **out_lib, och_err *err) {
    int i = kind_of(info->backend);
    *out_lib = NULL;
    if (i < 0) return och_err_set(err, OCH_UNSUPPORTED, "no library serves devices of %s", info->backend);
    const och_blas_kind *k = &kinds[i];
    if (info->kind == OCH_DEV_SIMULATED && !och_env_get(k->override))
        return och_err_set(err, OCH_UNSUPPORTED, "a simulated board has the library that %s names", och_env_name(k->override));
    och_status st = OCH_OK;
    pthread_mutex_lock(&lock);
    och_attempts *a = &all[i].attempts;
    if (!all[i].tried) {
        all[i].tried = true;
        search(a, k, info);
        for (size_t n = 0; n < a->n && !all[i].opened; n++)
            if (!a->at[n].why[0]) all[i].opened = open_file(&a->at[n], k, &all[i].lib);
    }
    if (all[i].opened) {
        *out_lib = &all[i].lib;
    } else {
        const och_attempt *told = NULL; /* one that is there and does not serve says most */
        for (size_t n = 0; n < a->n; n++)
            if (!told || (told->find == OCH_FIND_ABSENT && a->at[n].find != OCH_FIND_ABSENT)) told = &a->at[n];
        if (told && (told->find != OCH_FIND_ABSENT || och_env_get(k->override)))
            st = och_err_set(err, OCH_UNSUPPORTED, "%s: %.200s: %.300s", k->name, told->path, told->why);
        else st = och_err_set(err, OCH_UNSUPPORTED, "no %s was found (%s names one)", k->names.what, och_env_name(k->override));
    }
    pthread_mutex_unlock(&lock);
    if (st == OCH_OK) st = check_runtime(*out_lib, info, err);
    if (st != OCH_OK) *out_lib = NULL;
    return st;
}
