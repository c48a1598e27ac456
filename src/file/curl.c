#include "file/curl.h"

#include "base/env.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static och_curl curl;
static och_status status;
static och_err error;

/* Symbols are function pointers, which C does not convert to from void *; POSIX says that the bytes are the same. */
static const char *resolve(void *lib) {
#define X(result, name, args)                                                                                          \
    {                                                                                                                  \
        void *p = dlsym(lib, "curl_" #name);                                                                           \
        if (!p) return "curl_" #name;                                                                                  \
        memcpy(&curl.name, &p, sizeof p);                                                                              \
    }
    OCH_CURL_FUNCTIONS(X)
#undef X
    return NULL;
}

static void open_once(void) {
    const char *names[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl-nss.so.4", "libcurl.so"};
    size_t n_names = sizeof names / sizeof *names;
    const char *asked = och_env_get(OCH_ENV_OCHRE_LIBCURL);
    char tried[384] = "";
    if (asked) {
        names[0] = asked;
        n_names = 1;
    }
    for (size_t i = 0; i < n_names; i++) {
        size_t at = strlen(tried);
        void *lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (!lib) {
            const char *why = dlerror();
            /* "NAME: cannot open ..." for a name that is not there; anything else is said whole */
            bool absent = why && strstr(why, "No such file");
            snprintf(tried + at, sizeof tried - at, "%s%s%s%s%s", at ? ", " : "", names[i], absent ? "" : " (",
                     absent ? "" : why ? why : "?", absent ? "" : ")");
            continue;
        }
        const char *missing = resolve(lib);
        if (missing) {
            snprintf(tried + at, sizeof tried - at, "%s%s (it has no %s)", at ? ", " : "", names[i], missing);
            dlclose(lib);
            continue;
        }
        curl.file = names[i];
        int rc = curl.global_init(OCH_CURL_GLOBAL_DEFAULT);
        if (rc != OCH_CURLE_OK)
            status = och_err_set_native(&error, OCH_UNAVAILABLE, rc, "%s: curl_global_init: %s", names[i],
                                        curl.easy_strerror(rc));
        return;
    }
    status = och_err_set(&error, OCH_UNAVAILABLE,
                         "downloads need libcurl, and none could be opened; tried %s%s; install it (apt-get install libcurl4) or "
                         "set OCHRE_LIBCURL to its file",
                         tried, asked ? " (from OCHRE_LIBCURL)" : "");
}

och_status och_curl_open(const och_curl **out_curl, och_err *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    *out_curl = NULL;
    (void)pthread_once(&once, open_once);
    if (status != OCH_OK) return och_err_set_native(err, status, error.native_code, "%s", error.message);
    *out_curl = &curl;
    return OCH_OK;
}
