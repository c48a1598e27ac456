/* Opens the library and resolves the table of calls. */
#include "dev/cuda/cuda_lib.h"

#include "base/alloc.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUIRED, OPTIONAL };
static const struct {
    const char *name;
    int need, since;
    size_t offset;
} symbols[] = {
#define CUDA_SYM(need, since, name, params) {#name, need, since, offsetof(cuda_api, name)},
#include "dev/cuda/cuda_syms.def"
#undef CUDA_SYM
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static och_attempts attempts;
static cuda_lib the;
static enum { UNTRIED, OPENED, NOTHING } state;
static _Atomic bool any_opened;

bool och_cuda_any_opened(void) { return any_opened; }
const och_attempts *och_cuda_lib_attempts(void) { return &attempts; }

void och_cuda_version_text(int version, char *out, size_t n_bytes) {
    snprintf(out, n_bytes, "%d.%d", version / 1000, version % 1000 / 10);
}

void och_cuda_lib_text(const cuda_lib *lib, char *out, size_t n_bytes) {
    char version[32];
    och_cuda_version_text(lib->version, version, sizeof version);
    snprintf(out, n_bytes, "CUDA %s%s%s%s", version, lib->driver[0] ? " (driver " : "", lib->driver, lib->driver[0] ? ")" : "");
}

void och_cuda_error_text(const cuda_lib *lib, CUresult e, char *out, size_t n_bytes) {
    const char *name = NULL, *text = NULL; /* a number that the driver does not know leaves them */
    if (lib->api.cuGetErrorName(e, &name) != CUDA_SUCCESS) name = NULL;
    if (lib->api.cuGetErrorString(e, &text) != CUDA_SUCCESS) text = NULL;
    snprintf(out, n_bytes, "%s (%d)%s%s", name ? name : "an error without a name", (int)e, text ? ": " : "", text ? text : "");
}

size_t och_cuda_lib_missing(const cuda_lib *lib, och_strbuf *out) {
    size_t n = 0;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *p;
        char since[32];
        memcpy(&p, (const char *)&lib->api + symbols[i].offset, sizeof p);
        if (p) continue;
        och_cuda_version_text(symbols[i].since, since, sizeof since);
        och_strbuf_printf(out, "%s%s (CUDA %s)", n++ ? ", " : "", symbols[i].name, since);
    }
    return n;
}

static bool fail(och_attempt *t, och_find find, const char *fmt, const char *a, const char *b) {
    t->find = find;
    snprintf(t->why, sizeof t->why, fmt, a, b);
    return false;
}

static bool open_file(och_attempt *t) {
    cuda_lib *lib = &the;
    memset(lib, 0, sizeof *lib);
    void *handle = dlopen(t->path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *e = dlerror();
        size_t n = strlen(t->path);
        if (e && !strncmp(e, t->path, n) && !strncmp(e + n, ": ", 2)) e += n + 2; /* it is named already */
        return fail(t, strchr(t->path, '/') ? OCH_FIND_BROKEN : OCH_FIND_ABSENT, "cannot be opened: %s%s",
                    e ? e : "no reason given", "");
    }
    any_opened = true;
    snprintf(lib->path, sizeof lib->path, "%s", t->path);
    void *known = dlsym(handle, "cuInit");
    Dl_info at;
    if (known && dladdr(known, &at) && at.dli_fname && !strchr(t->path, '/'))
        snprintf(lib->path, sizeof lib->path, "%s", at.dli_fname); /* where the loader found it */
    memcpy(lib->opened, lib->path, sizeof lib->opened);
    /* the file that the link leads to carries the driver's release in its name */
    char real[PATH_MAX];
    const char *release = realpath(lib->path, real) ? strstr(real, ".so.") : NULL;
    if (release && strchr(release + 4, '.')) snprintf(lib->driver, sizeof lib->driver, "%.31s", release + 4);
    const char *missing = NULL;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *p = dlsym(handle, symbols[i].name);
        memcpy((char *)&lib->api + symbols[i].offset, &p, sizeof p);
        if (!p && symbols[i].need == REQUIRED && !missing) missing = symbols[i].name;
    }
    char version[32] = "of unknown version";
    if (lib->api.cuDriverGetVersion && lib->api.cuDriverGetVersion(&lib->version) == CUDA_SUCCESS)
        och_cuda_version_text(lib->version, version, sizeof version);
    else lib->version = 0;
    t->version = lib->version;
    if (missing) return fail(t, OCH_FIND_TOO_OLD, "CUDA %s lacks %s", version, missing);
    if (lib->version && lib->version < CUDA_OLDEST)
        return fail(t, OCH_FIND_TOO_OLD, "CUDA %s is older than 11.0%s", version, "");
    t->find = OCH_FIND_OPENED;
    return true;
}

static void count(cuda_lib *lib) {
    lib->count_error = lib->api.cuInit(0);
    if (lib->count_error == CUDA_SUCCESS) lib->count_error = lib->api.cuDeviceGetCount(&lib->n_devices);
    if (lib->count_error != CUDA_SUCCESS || lib->n_devices < 0) lib->n_devices = 0;
    if (!lib->n_devices && lib->count_error == CUDA_SUCCESS) lib->count_error = CUDA_ERROR_NO_DEVICE;
}

static och_status nothing_serves(och_err *err) {
    const och_attempt *broken = NULL;
    for (size_t i = 0; i < attempts.n && !broken; i++)
        if (attempts.at[i].find != OCH_FIND_ABSENT) broken = &attempts.at[i];
    static const char install[] =
        "install NVIDIA's driver for CUDA 11 or newer (in a container: docker run --gpus all), or name a "
        "libcuda.so.1 in OCHRE_CUDA_LIBRARY";
    if (broken) return och_err_set(err, OCH_UNAVAILABLE, "%s cannot serve: %s; %s", broken->path, broken->why, install);
    och_strbuf places = {0};
    size_t told = 0;
    for (size_t i = 0; i < attempts.n; i++) {
        if (!strchr(attempts.at[i].path, '/') || (told && places.size > 200)) continue;
        och_strbuf_printf(&places, "%s%s", told++ ? ", " : "", attempts.at[i].path);
    }
    if (told < attempts.n) och_strbuf_printf(&places, "%s... (ochre doctor lists all)", told ? ", " : "");
    och_status st = och_err_set(err, OCH_UNAVAILABLE, "no libcuda (.so.1, .so) in %s; %s",
                                places.failed ? "(out of memory)" : och_strbuf_str(&places), install);
    och_strbuf_deinit(&places);
    return st;
}

och_status och_cuda_lib(cuda_lib **out_lib, och_err *err) {
    *out_lib = NULL;
    pthread_mutex_lock(&lock);
    och_status st = OCH_OK;
    if (state == UNTRIED) {
        attempts.n = 0;
        attempts.failed = false;
        och_cuda_search(&attempts);
        if (attempts.failed) {
            st = och_err_nomem(err, attempts.capacity * sizeof *attempts.at, "the list of CUDA libraries");
            goto done;
        }
        state = NOTHING;
        for (size_t i = 0; i < attempts.n && state == NOTHING; i++)
            if (!attempts.at[i].why[0] && open_file(&attempts.at[i])) state = OPENED;
        if (state == OPENED) count(&the);
    }
    if (state == OPENED) *out_lib = &the;
    else st = nothing_serves(err);
done:
    pthread_mutex_unlock(&lock);
    return st;
}
