/* Opens a library and resolves the table of calls. */
#include "dev/hip/hip_lib.h"

#include "base/alloc.h"
#include "base/env.h"
#include "base/log.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { REQUIRED, OPTIONAL };
static const struct {
    const char *name;
    int need, since;
    size_t offset;
} symbols[] = {
#define HIP_SYM(need, since, name, params) {#name, need, since, offsetof(hip_api, name)},
#define HIP_SYM_TEXT(need, since, name, params) HIP_SYM(need, since, name, params)
#include "dev/hip/hip_syms.def"
#undef HIP_SYM
#undef HIP_SYM_TEXT
};

enum { PROPERTIES_hipGetDeviceProperties, PROPERTIES_hipGetDevicePropertiesR0600 };
static const hip_runtime runtimes[] = {
#define HIP_RUNTIME(from, properties, bytes, arch, object) {from, PROPERTIES_##properties != 0, bytes, arch, object},
#include "dev/hip/hip_runtimes.def"
#undef HIP_RUNTIME
};
/* The oldest release that the table of calls was compared with. */
#define OLDEST 502

static _Atomic bool any_opened;
bool och_hip_any_opened(void) { return any_opened; }

void och_hip_version_text(int version, char *out, size_t n_bytes) {
    snprintf(out, n_bytes, "%d.%d.%d", version / 10000000, version / 100000 % 100, version % 100000);
}

static bool fail(och_attempt *t, och_find find, const char *fmt, const char *a, const char *b) {
    t->find = find;
    snprintf(t->why, sizeof t->why, fmt, a, b);
    return false;
}

size_t och_hip_lib_missing(const hip_lib *lib, och_strbuf *out) {
    size_t n = 0;
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *p;
        memcpy(&p, (const char *)&lib->api + symbols[i].offset, sizeof p);
        if (!p) och_strbuf_printf(out, "%s%s (HIP %d.%d)", n++ ? ", " : "", symbols[i].name, symbols[i].since / 100, symbols[i].since % 100);
    }
    return n;
}

/* The release, major * 100 + minor. A runtime that cannot start does not always tell; then its file's name does. */
static int release_of(const hip_lib *lib) {
    if (lib->version) return lib->version / 10000000 * 100 + lib->version / 100000 % 100;
    char real_path[PATH_MAX];
    const char *so = realpath(lib->path, real_path) ? strstr(real_path, ".so.") : NULL;
    int major = 0, minor = 0;
    if (so && sscanf(so, ".so.%d.%d", &major, &minor) >= 1 && major < 100 && minor < 100) return major * 100 + minor;
    return lib->api.hipGetDevicePropertiesR0600 ? 600 : OLDEST;
}

static bool same_file(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

bool och_hip_lib_open_file(const char *path, hip_lib *out_lib, och_attempt *out_attempt) {
    och_attempt scratch, *t = out_attempt ? out_attempt : &scratch;
    hip_lib *lib = out_lib;
    memset(lib, 0, sizeof *lib);
    t->why[0] = 0;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *e = dlerror();
        bool bare = !strchr(path, '/');
        size_t n = strlen(path);
        if (e && !strncmp(e, path, n) && !strncmp(e + n, ": ", 2)) e += n + 2; /* it is named already */
        return fail(t, bare ? OCH_FIND_ABSENT : OCH_FIND_BROKEN, "cannot be opened: %s%s", e ? e : "no reason given", "");
    }
    any_opened = true;
    /* where the loader found it */
    snprintf(lib->path, sizeof lib->path, "%s", path);
    void *known = dlsym(handle, "hipInit");
    Dl_info at;
    if (known && dladdr(known, &at) && at.dli_fname && !strncmp(path, "libamdhip64", 11))
        snprintf(lib->path, sizeof lib->path, "%s", at.dli_fname);
    memcpy(lib->opened, lib->path, sizeof lib->opened);
    const char *missing = NULL;
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *p = dlsym(handle, symbols[i].name);
        memcpy((char *)&lib->api + symbols[i].offset, &p, sizeof p);
        if (!p && symbols[i].need == REQUIRED && !missing) missing = symbols[i].name;
    }
    char version[32] = "of unknown version";
    if (lib->api.hipRuntimeGetVersion && lib->api.hipRuntimeGetVersion(&lib->version) == hipSuccess)
        och_hip_version_text(lib->version, version, sizeof version);
    else lib->version = 0;
    t->version = lib->version;
    if (missing) return fail(t, OCH_FIND_TOO_OLD, "HIP %s lacks %s", version, missing);
    int release = release_of(lib);
    if (release < OLDEST) return fail(t, OCH_FIND_TOO_OLD, "HIP %s is older than 5.2%s", version, "");
    for (size_t i = 0; i < sizeof runtimes / sizeof runtimes[0]; i++)
        if (runtimes[i].from <= release) lib->runtime = &runtimes[i];
    if (lib->runtime->new_properties && !lib->api.hipGetDevicePropertiesR0600)
        return fail(t, OCH_FIND_TOO_OLD, "HIP %s lacks %s", version, "hipGetDevicePropertiesR0600");
    const hip_api *a = &lib->api;
    lib->kernels_of_libraries = a->hipLibraryLoadData && a->hipLibraryUnload && a->hipLibraryGetKernel &&
                                a->hipLibraryGetKernelCount && a->hipKernelGetFunction;
    char sim[512];
    lib->simulated = och_hip_sim_path(sim, sizeof sim, NULL) == OCH_OK && same_file(sim, lib->path);
    t->find = OCH_FIND_OPENED;
    return true;
}

void och_hip_lib_count(hip_lib *lib) {
    lib->count_error = lib->api.hipInit(0);
    hipError_t e = lib->api.hipGetDeviceCount(&lib->n_devices);
    if (e != hipSuccess || lib->n_devices < 0) lib->n_devices = 0;
    /* releases differ in which of the two tells that there is no device, and with which number */
    if (lib->n_devices) lib->count_error = hipSuccess;
    else if (e != hipSuccess) lib->count_error = e;
    (void)lib->api.hipGetLastError();
}

/* ---- the library of hip:... ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static och_attempts attempts;
static hip_lib real;
static enum { UNTRIED, OPENED, NOTHING } real_state;

const och_attempts *och_hip_lib_attempts(void) { return &attempts; }

static och_status nothing_serves(och_err *err) {
    const och_attempt *broken = NULL;
    for (size_t i = 0; i < attempts.n && !broken; i++)
        if (attempts.at[i].find != OCH_FIND_ABSENT) broken = &attempts.at[i];
    static const char install[] = "install ROCm 5.2 or newer (Debian: libamdhip64-5; AMD's packages: hip-runtime-amd; pip: rocm), "
                                  "or name a libamdhip64 in OCHRE_HIP_LIBRARY";
    if (broken)
        return och_err_set(err, OCH_UNAVAILABLE, "%s cannot serve: %s; %s", broken->path, broken->why, install);
    och_strbuf places = {0};
    size_t told = 0;
    for (size_t i = 0; i < attempts.n; i++) {
        if (!strchr(attempts.at[i].path, '/') || (told && places.size > 240)) continue;
        och_strbuf_printf(&places, "%s%s", told++ ? ", " : "", attempts.at[i].path);
    }
    if (told < attempts.n) och_strbuf_puts(&places, ", ... (ochre doctor lists all)");
    och_status st = och_err_set(err, OCH_UNAVAILABLE, "no libamdhip64 (.so.7, .so.6, .so.5, .so) in %s; %s",
                                places.failed ? "(out of memory)" : och_strbuf_str(&places), install);
    och_strbuf_deinit(&places);
    return st;
}

och_status och_hip_lib(hip_lib **out_lib, och_err *err) {
    *out_lib = NULL;
    pthread_mutex_lock(&lock);
    och_status st = OCH_OK;
    if (real_state == UNTRIED) {
        attempts.n = 0;
        attempts.failed = false;
        och_hip_search(&attempts);
        if (attempts.failed) {
            st = och_err_nomem(err, attempts.capacity * sizeof *attempts.at, "the list of HIP libraries");
            goto done;
        }
        real_state = NOTHING;
        for (size_t i = 0; i < attempts.n && real_state == NOTHING; i++)
            if (!attempts.at[i].why[0] && och_hip_lib_open_file(attempts.at[i].path, &real, &attempts.at[i])) real_state = OPENED;
        if (real_state == OPENED) och_hip_lib_count(&real);
    }
    if (real_state == OPENED) *out_lib = &real;
    else st = nothing_serves(err);
done:
    pthread_mutex_unlock(&lock);
    return st;
}
