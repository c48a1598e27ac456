/* The kernels of a device: by name and specialisation, kept until the device goes.
 *
 * A kernel that is asked for is checked and printed at once, so that a plan learns what the language refuses; its text is
 * then compiled by a pool of threads, while the plan asks for others and weights are loaded. Whoever needs the code waits for
 * it, or compiles it himself where no thread has begun. The first kernel of a device is compiled before the answer, so that a
 * machine without a compiler says so when the plan is built. */
#include "op/gpu/gpu.h"

#include "base/alloc.h"
#include "base/env.h"
#include "base/log.h"
#include "base/size.h"
#include "base/thread.h"
#include "dev/capture.h"
#include "jit/kernel.h"
#include "kl/builtin.h"
#include "op/gpu/tune.h"
#include "op/memo.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BINDINGS 24
#define SPEC_BYTES 256

typedef enum state { QUEUED, COMPILING, COMPILED, READY, FAILED } state;

typedef struct entry {
    struct entry *next; /* in its bucket */
    struct entry *next_queued;
    bool in_queue;
    state state;
    uint64_t hash;
    och_gpu_kernel kernel;
    och_jit_kernel *printed;    /* owned, until it is compiled */
    och_jit_artifact *artifact; /* owned, from COMPILED to READY */
    och_module *module;         /* owned, READY */
    och_err failure;            /* FAILED; names the kernel */
    char name[OCH_KL_NAME_BYTES];
    char spec[SPEC_BYTES]; /* as asked for */
} entry;

#define BUCKETS 256
#define MAX_WORKERS 16

typedef struct store {
    och_device *device; /* the device that owns the store */
    och_kl_profile profile;
    och_gpu_wish wish;
    och_gpu_tune_state cuts;
    och_jit *jit; /* shared with the devices of the same runtime */
    pthread_mutex_t lock;
    pthread_cond_t more, done; /* something was queued, or `quit`; something was compiled */
    entry *buckets[BUCKETS];
    entry *first, *last; /* the queue; entries that were taken from its middle are still in it, and no longer QUEUED */
    pthread_t workers[MAX_WORKERS];
    int n_workers, n_idle, max_workers;
    bool first_made, quit;
    atomic_bool cancel; /* of every compilation */
} store;

static _Atomic uint64_t n_lookups, n_begun;
uint64_t och_gpu_kernel_lookups(void) { return atomic_load_explicit(&n_lookups, memory_order_relaxed); }
uint64_t och_gpu_kernels_begun(void) { return atomic_load_explicit(&n_begun, memory_order_relaxed); }

/* The syntax trees of the built-in kernels, shared by all devices, kept for the life of the process. */
static pthread_mutex_t units_lock = PTHREAD_MUTEX_INITIALIZER;
static och_kl_builtins *builtins;
static struct unit_row {
    och_kl_unit *unit;
    const char *kernel;
} *units;
static int n_units, n_files;

static uint64_t hash_of(const char *name, const char *spec) {
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (const char *p = name; *p; p++) h = (h ^ (unsigned char)*p) * 0x100000001b3u;
    h = (h ^ '/') * 0x100000001b3u;
    for (const char *p = spec; *p; p++) h = (h ^ (unsigned char)*p) * 0x100000001b3u;
    return h;
}

/* Parses the next built-in file and lists its kernels. */
static och_status parse_next(och_err *err) {
    och_strbuf diag;
    och_strbuf_init(&diag);
    och_kl_unit *u;
    och_status st = och_kl_parse_builtin(och_kl_builtins_name(builtins, n_files), &u, &diag, err);
    if (st != OCH_OK) och_log(OCH_LOG_ERROR, "%s", och_strbuf_str(&diag));
    och_strbuf_deinit(&diag);
    OCH_TRY(st);
    int n = och_kl_kernel_count(u);
    struct unit_row *more = n ? och_realloc_array(units, (size_t)(n_units + n), sizeof *more) : units;
    if (more) units = more;
    else if (n) st = och_err_nomem(err, (uint64_t)(n_units + n) * sizeof *more, "the built-in kernels' names");
    for (int i = 0; i < n && st == OCH_OK; i++) units[n_units++] = (struct unit_row){u, och_kl_kernel_name(u, i)};
    n_files += st == OCH_OK;
    if (!n || st != OCH_OK) och_kl_unit_destroy(u);
    return st;
}

/* The unit that declares the kernel. */
static och_status find_unit(const char *kernel, const och_kl_unit **out_unit, och_err *err) {
    och_status st = OCH_OK;
    *out_unit = NULL;
    pthread_mutex_lock(&units_lock);
    if (!builtins) st = och_kl_builtins_open(&builtins, err);
    for (int i = 0; st == OCH_OK && !*out_unit; i++) {
        if (i == n_units) {
            if (n_files == och_kl_builtins_count(builtins)) break;
            st = parse_next(err);
            i--;
        } else if (!strcmp(units[i].kernel, kernel)) {
            *out_unit = units[i].unit;
        }
    }
    pthread_mutex_unlock(&units_lock);
    if (st == OCH_OK && !*out_unit) st = och_err_set(err, OCH_INTERNAL, "kernel %s: no built-in file declares it", kernel);
    return st;
}

och_status och_gpu_kernel_source(const char *kernel, char out_hex[OCH_HASH_HEX_BYTES], och_err *err) {
    const och_kl_unit *unit;
    out_hex[0] = 0;
    OCH_TRY(find_unit(kernel, &unit, err));
    och_jit_source_id(unit, out_hex);
    return OCH_OK;
}

static void drop_text(entry *e) {
    if (e->printed) och_jit_kernel_deinit(e->printed);
    och_free(e->printed);
    e->printed = NULL;
}

static void store_destroy(void *p) {
    store *s = p;
    pthread_mutex_lock(&s->lock);
    s->quit = true;
    atomic_store(&s->cancel, true);
    pthread_cond_broadcast(&s->more);
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < s->n_workers; i++) pthread_join(s->workers[i], NULL);
    for (int i = 0; i < BUCKETS; i++)
        for (entry *e = s->buckets[i], *next; e; e = next) {
            next = e->next;
            if (e->module) s->device->vtable->module_unload(e->module);
            och_jit_artifact_destroy(e->artifact);
            drop_text(e);
            och_free(e);
        }
    och_jit_unshare(s->jit);
    och_gpu_tune_deinit(&s->cuts);
    pthread_cond_destroy(&s->more);
    pthread_cond_destroy(&s->done);
    pthread_mutex_destroy(&s->lock);
    och_free(s);
}

static och_gpu_wish read_wish(void) {
    return (och_gpu_wish){.own_codes = och_env_wish(OCH_ENV_OCHRE_OWN_CODES),
                          .next_codes = och_env_wish(OCH_ENV_OCHRE_NEXT_CODES),
                          .one_row = och_env_wish(OCH_ENV_OCHRE_ONE_ROW),
                          .norm_codes = och_env_wish(OCH_ENV_OCHRE_NORM_CODES),
                          .ring = och_env_wish(OCH_ENV_OCHRE_RING),
                          .attention_last = och_env_wish(OCH_ENV_OCHRE_ATTENTION_LAST) > 0};
}

static och_status store_of(const och_device *device, store **out_store, och_err *err) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    /* Providers are asked with a device that they may not change; what they keep with it is not part of what it is. */
    och_device *d = (och_device *)(uintptr_t)device;
    och_status st = OCH_OK;
    pthread_mutex_lock(&lock);
    *out_store = d->attachment;
    if (!*out_store) {
        store *s = och_calloc(1, sizeof *s);
        st = s ? och_kl_profile_init(&s->profile, d->info.arch, d->info.wave_size, err)
               : och_err_nomem(err, sizeof *s, "a device's kernels");
        if (st == OCH_OK) st = och_jit_share(d->info.library, &s->jit, err);
        if (st == OCH_OK) {
            s->device = d;
            s->wish = read_wish();
            s->max_workers = OCH_MIN(och_cpu_count(), MAX_WORKERS);
            pthread_mutex_init(&s->lock, NULL);
            pthread_cond_init(&s->more, NULL);
            pthread_cond_init(&s->done, NULL);
            d->attachment_destroy = store_destroy;
            d->attachment = *out_store = s;
        } else {
            och_free(s);
        }
    }
    pthread_mutex_unlock(&lock);
    return st;
}

och_gpu_wish och_gpu_wish_of(const och_device *d) {
    store *s;
    och_err why; /* which is told to whoever asks for a kernel */
    och_err_clear(&why);
    return store_of(d, &s, &why) == OCH_OK ? s->wish : read_wish();
}

och_gpu_tune_state *och_gpu_tune_of(const och_device *d) {
    store *s;
    och_err why; /* as above */
    och_err_clear(&why);
    return store_of(d, &s, &why) == OCH_OK ? &s->cuts : NULL;
}

/* "A=x,B=y" cut in place. */
static och_status parse_spec(char *spec, och_kl_binding *out, int *out_n, och_err *err) {
    *out_n = 0;
    for (char *p = spec; *p;) {
        char *comma = strchr(p, ','), *equals = strchr(p, '=');
        if (comma) *comma = 0;
        if (!equals || *out_n == MAX_BINDINGS)
            return och_err_set(err, OCH_INTERNAL, "a kernel's parameters: expected NAME=VALUE, at most %d, found '%s'",
                               MAX_BINDINGS, p);
        *equals = 0;
        out[(*out_n)++] = (och_kl_binding){p, equals + 1};
        if (!comma) break;
        p = comma + 1;
    }
    return OCH_OK;
}

static void log_diagnostics(const store *s, const entry *e, const och_strbuf *diag) {
    och_log(OCH_LOG_INFO, "kernel %s, %s, for %s:\n%s", e->name, e->spec, s->profile.target.name, och_strbuf_str(diag));
}

/* Checks and prints the kernel for the store's target. */
static och_status print_kernel(store *s, entry *e, och_err *err) {
    char spec[SPEC_BYTES];
    memcpy(spec, e->spec, sizeof spec);
    och_kl_binding bindings[MAX_BINDINGS];
    int n_bindings;
    const och_kl_unit *unit;
    OCH_TRY(parse_spec(spec, bindings, &n_bindings, err));
    OCH_TRY(find_unit(e->name, &unit, err));
    och_strbuf diag = {0};
    e->printed = och_calloc(1, sizeof *e->printed);
    if (!e->printed) return och_err_nomem(err, sizeof *e->printed, "a kernel's text");
    och_jit_kernel *k = e->printed;
    och_status st = och_jit_kernel_init(k, unit, e->name, bindings, n_bindings, &s->profile, &diag, err);
    if (st == OCH_OK) {
        e->kernel.signature = k->signature;
        k->request.cancel = &s->cancel;
        k->request.newest_code_object_version = s->device->info.code_object_version;
    } else {
        if (diag.size) log_diagnostics(s, e, &diag);
        drop_text(e);
    }
    och_strbuf_deinit(&diag);
    return st;
}

static void fail(entry *e) {
    och_err_prefix(&e->failure, "kernel %s (%s)", e->name, e->spec);
    e->state = FAILED;
}

/* What an entry is for the rest of the device's life: nothing is written to it any more. */
static bool settled(const entry *e) { return e->state == READY || (e->state == FAILED && e->failure.status != OCH_NOMEM); }

/* Of an entry that is settled, or with the lock. */
static och_status answer(const entry *e, const och_gpu_kernel **out_kernel, och_err *err) {
    if (out_kernel) *out_kernel = e->state == READY ? &e->kernel : NULL;
    if (e->state != FAILED) return OCH_OK;
    if (err && err->status == OCH_OK) *err = e->failure;
    return e->failure.status;
}

/* Text to code. Called without the lock; the entry is COMPILING and belongs to the caller. */
static och_status compile(store *s, entry *e, och_err *err) {
    och_strbuf diag = {0};
    och_status st = och_jit_get(s->jit, &e->printed->request, &e->artifact, &diag, err);
    if (st != OCH_OK && diag.size) log_diagnostics(s, e, &diag);
    och_strbuf_deinit(&diag);
    return st;
}

/* The same with the store's bookkeeping; the lock is held before and after, and given up meanwhile. */
static void compile_locked(store *s, entry *e) {
    och_err err;
    och_err_clear(&err);
    e->state = COMPILING;
    pthread_mutex_unlock(&s->lock);
    och_status st = compile(s, e, &err);
    pthread_mutex_lock(&s->lock);
    drop_text(e);
    e->failure = err;
    if (st == OCH_OK) e->state = COMPILED;
    else fail(e);
    pthread_cond_broadcast(&s->done);
}

static void *work(void *p) {
    store *s = p;
    pthread_mutex_lock(&s->lock);
    while (!s->quit) {
        entry *e = s->first;
        if (!e) {
            s->n_idle++;
            pthread_cond_wait(&s->more, &s->lock);
            s->n_idle--;
            continue;
        }
        s->first = e->next_queued;
        if (!s->first) s->last = NULL;
        e->next_queued = NULL;
        e->in_queue = false;
        if (e->state == QUEUED) compile_locked(s, e);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* A store without threads is slower, and as good: who needs a kernel compiles it. */
static void enqueue(store *s, entry *e) {
    if (s->last) s->last->next_queued = e;
    else s->first = e;
    s->last = e;
    e->in_queue = true;
    if (s->n_idle) pthread_cond_signal(&s->more);
    else if (s->n_workers < s->max_workers && pthread_create(&s->workers[s->n_workers], NULL, work, s) == 0) s->n_workers++;
}

/* COMPILED to READY: the code that came may be a pack's, with a record of its own. */
static och_status load(store *s, entry *e, och_err *err) {
    const och_jit_artifact *a = e->artifact;
    OCH_TRY(och_kl_signature_read(a->record, a->record_bytes, &e->kernel.signature, err));
    OCH_TRY(s->device->vtable->module_load(s->device, a->code, a->code_bytes, &e->module, err));
    och_status st = s->device->vtable->module_function(e->module, e->kernel.signature.entry, &e->kernel.function, err);
    if (st == OCH_OK) return st;
    s->device->vtable->module_unload(e->module);
    e->module = NULL;
    return st;
}

/* Prints the kernel, and has it compiled. */
static void begin(store *s, entry *e) {
    atomic_fetch_add_explicit(&n_begun, 1, memory_order_relaxed);
    och_err_clear(&e->failure);
    if (print_kernel(s, e, &e->failure) != OCH_OK) {
        fail(e);
    } else if (!s->first_made) {
        s->first_made = true;
        compile_locked(s, e);
    } else {
        e->state = QUEUED;
        if (!e->in_queue) enqueue(s, e);
    }
}

/* Called with the lock: the entry, begun if it is new, or if there was no memory for it before. */
static och_status entry_of(store *s, const char *kernel, const char *spec, entry **out_e, och_err *err) {
    uint64_t hash = hash_of(kernel, spec);
    entry *e = s->buckets[hash % BUCKETS];
    while (e && (e->hash != hash || strcmp(e->name, kernel) != 0 || strcmp(e->spec, spec) != 0)) e = e->next;
    *out_e = e;
    if (e && e->state == FAILED && !settled(e)) begin(s, e);
    if (e) return OCH_OK;
    e = och_calloc(1, sizeof *e);
    if (!e) return och_err_nomem(err, sizeof *e, "a kernel's entry");
    e->hash = hash;
    snprintf(e->name, sizeof e->name, "%s", kernel);
    snprintf(e->spec, sizeof e->spec, "%s", spec);
    e->next = s->buckets[hash % BUCKETS];
    s->buckets[hash % BUCKETS] = e;
    *out_e = e;
    begin(s, e);
    return OCH_OK;
}

och_status och_gpu_kernel_get(const och_device *d, const char *kernel, const och_gpu_kernel **out_kernel, och_err *err,
                              const char *spec, ...) {
    if (out_kernel) *out_kernel = NULL;
    char text[SPEC_BYTES];
    va_list args;
    och_op_memo *memo = out_kernel ? och_op_memo_used() : NULL;
    och_op_memo_key key;
    if (memo) {
        va_start(args, spec);
        if (!och_op_memo_make_key(&key, kernel, spec, args)) memo = NULL;
        va_end(args);
        const entry *known = memo ? och_op_memo_find(memo, &key) : NULL;
        if (known) return answer(known, out_kernel, err);
    }
    atomic_fetch_add_explicit(&n_lookups, 1, memory_order_relaxed);
    va_start(args, spec);
    int n = vsnprintf(text, sizeof text, spec, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof text || strlen(kernel) >= OCH_KL_NAME_BYTES)
        return och_err_set(err, OCH_INTERNAL, "kernel %s: its parameters take more than %zu bytes", kernel, sizeof text - 1);
    store *s;
    och_status st = store_of(d, &s, err);
    if (st != OCH_OK) {
        och_err_prefix(err, "kernel %s (%s)", kernel, text);
        return st;
    }
    pthread_mutex_lock(&s->lock);
    entry *e;
    st = entry_of(s, kernel, text, &e, err);
    if (st == OCH_OK && out_kernel) {
        if (e->state == QUEUED) compile_locked(s, e);
        while (e->state == COMPILING) pthread_cond_wait(&s->done, &s->lock);
        if (e->state == COMPILED && och_capture_here()) {
            /* what a graph cannot hold says nothing of the kernel: it is there for the next call */
            st = load(s, e, err);
            if (st == OCH_OK) e->state = READY;
        } else if (e->state == COMPILED) {
            if (load(s, e, &e->failure) == OCH_OK) e->state = READY;
            else fail(e);
        }
        if (e->state != COMPILED) {
            och_jit_artifact_destroy(e->artifact);
            e->artifact = NULL;
        }
    }
    if (st != OCH_OK) {
        och_err_prefix(err, "kernel %s (%s)", kernel, text);
    } else {
        st = answer(e, out_kernel, err);
        if (memo && settled(e)) och_op_memo_put(memo, &key, e);
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

void och_gpu_kernels_wait(const och_device *d) {
    store *s;
    och_err why; /* then nothing was asked for */
    och_err_clear(&why);
    if (store_of(d, &s, &why) != OCH_OK) return;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < BUCKETS; i++)
        for (entry *e = s->buckets[i]; e; e = e->next) {
            if (e->state == QUEUED) compile_locked(s, e);
            while (e->state == COMPILING) pthread_cond_wait(&s->done, &s->lock);
        }
    pthread_mutex_unlock(&s->lock);
}

och_status och_gpu_kernel_cut(const och_device *d, const char *kernel, const char *spec, const char *cut, const och_gpu_kernel **out_kernel,
                              och_err *err) {
    och_status st = och_gpu_kernel_get(d, kernel, out_kernel, err, "%s%s", spec, cut);
    if (!och_gpu_absent(st) || !*cut) return st;
    och_err_clear(err);
    return och_gpu_kernel_get(d, kernel, out_kernel, err, "%s", spec);
}
