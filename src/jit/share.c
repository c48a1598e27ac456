/* One JIT for the devices of a runtime: packs are opened once, compilers are looked for once. */
#include "jit/jit.h"

#include "base/alloc.h"

#include <ochre/kernels.h>
#include <pthread.h>
#include <string.h>

typedef struct shared {
    struct shared *next;
    och_jit *jit;
    int users;
    char library[]; /* "" for none */
} shared;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static shared *all;

och_status och_jit_share(const char *runtime_library, och_jit **out_jit, och_err *err) {
    const char *library = runtime_library ? runtime_library : "";
    och_status st = OCH_OK;
    *out_jit = NULL;
    pthread_mutex_lock(&lock);
    shared *s = all;
    while (s && strcmp(s->library, library) != 0) s = s->next;
    if (!s) {
        size_t n = strlen(library) + 1;
        s = och_calloc(1, sizeof *s + n);
        const och_jit_options options = {.hiprtc_library = library[0] ? library : NULL};
        st = s ? och_jit_create(&options, &s->jit, err) : och_err_nomem(err, sizeof *s + n, "a shared JIT");
        if (st == OCH_OK) {
            memcpy(s->library, library, n);
            s->next = all;
            all = s;
        } else {
            och_free(s);
        }
    }
    if (st == OCH_OK) {
        s->users++;
        *out_jit = s->jit;
    }
    pthread_mutex_unlock(&lock);
    return st;
}

void och_jit_unshare(och_jit *jit) {
    if (!jit) return;
    pthread_mutex_lock(&lock);
    shared **at = &all, *s;
    while ((s = *at)->jit != jit) at = &s->next;
    if (--s->users == 0) *at = s->next;
    else s = NULL;
    pthread_mutex_unlock(&lock);
    if (!s) return;
    och_jit_destroy(s->jit);
    och_free(s);
}

bool och_jit_dialect_of(int language, och_jit_dialect *out_dialect) {
    *out_dialect = language == OCHRE_LANGUAGE_CUDA ? OCH_JIT_CUDA : OCH_JIT_HIP;
    return language == OCHRE_LANGUAGE_HIP || language == OCHRE_LANGUAGE_CUDA;
}
