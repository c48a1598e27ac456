/* The kernels of a device: by name and specialisation, kept until the device goes.
 *
 * A kernel that is asked for is checked and printed at once, so that a plan learns what the language refuses; its text is
 * then compiled by a pool of threads, while the plan asks for others and weights are loaded. Whoever needs the code waits for
 * it, or compiles it himself where no thread has begun. The first kernel of a device is compiled before the answer, so that a
 * machine without a compiler says so when the plan is built. */
#include "op/gpu/gpu.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/size.h"
#include "base/thread.h"
#include "jit/jit.h"
#include "kl/builtin.h"

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
    state state;
    uint64_t hash;
    och_gpu_kernel kernel;
    och_strbuf text, record;    /* until it is compiled */
    och_jit_artifact *artifact; /* owned, from COMPILED to READY */
    och_module *module;         /* owned, READY */
    och_err failure;            /* FAILED */
    char name[OCH_KL_NAME_BYTES];
    char spec[SPEC_BYTES]; /* as asked for */
} entry;

#define BUCKETS 256
#define MAX_WORKERS 16

typedef struct store {
    och_device *device; /* the device that owns the store */
    och_kl_profile profile;
    och_jit *jit; /* owned */
    pthread_mutex_t lock;
    pthread_cond_t more, done; /* something was queued, or `quit`; something was compiled */
    entry *buckets[BUCKETS];
    entry *first, *last; /* the queue; entries that were taken from its middle are still in it, and no longer QUEUED */
    pthread_t workers[MAX_WORKERS];
    int n_workers, n_idle, max_workers;
    bool first_made, quit;
    atomic_bool cancel; /* the jit's */
} store;

/* The syntax trees of the built-in kernels, shared by all devices, kept for the life of the process. */
static pthread_mutex_t units_lock = PTHREAD_MUTEX_INITIALIZER;
static och_kl_builtins *builtins;
static struct {
    och_kl_unit *unit;
    const char *kernel;
} units[256];
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
    n_files++;
    int n = och_kl_kernel_count(u);
    for (int i = 0; i < n && n_units < (int)OCH_COUNT(units); i++) {
        units[n_units].unit = u;
        units[n_units++].kernel = och_kl_kernel_name(u, i);
    }
    if (!n) och_kl_unit_destroy(u);
    return OCH_OK;
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
            och_strbuf_deinit(&e->text);
            och_strbuf_deinit(&e->record);
            och_free(e);
        }
    och_jit_destroy(s->jit);
    pthread_cond_destroy(&s->more);
    pthread_cond_destroy(&s->done);
    pthread_mutex_destroy(&s->lock);
    och_free(s);
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
        if (st == OCH_OK) st = och_jit_create(&(och_jit_options){.cancel = &s->cancel}, &s->jit, err);
        if (st == OCH_OK) {
            s->device = d;
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

static int compare_offsets(const void *a, const void *b) {
    const och_jit_arg *x = a, *y = b;
    return x->offset_bytes < y->offset_bytes ? -1 : x->offset_bytes > y->offset_bytes;
}

/* Every argument as the code must place it. */
static size_t layout_of(const och_kl_signature *s, och_jit_arg *out) {
    size_t n = 0;
    for (int i = 0; i < s->n_args; i++) {
        const och_kl_arg *a = &s->args[i];
        out[n++] = (och_jit_arg){a->offset, a->bytes};
        for (int j = 0; j + 1 < a->rank; j++) out[n++] = (och_jit_arg){a->stride_offset[j], 8};
    }
    for (int i = 0; i < s->n_sizes; i++) out[n++] = (och_jit_arg){s->size_offset[i], 8};
    qsort(out, n, sizeof *out, compare_offsets);
    return n;
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
    och_strbuf diag;
    och_strbuf_init(&diag);
    och_kl_code *code = NULL;
    och_status st;
    OCH_TRY_GOTO(och_kl_specialise(unit, e->name, bindings, n_bindings, &s->profile, &code, &diag, err));
    OCH_TRY_GOTO(och_kl_emit(code, &e->text, err));
    e->kernel.signature = *och_kl_code_signature(code);
    st = och_kl_signature_write(&e->kernel.signature, &e->record, err);
done:
    if (st != OCH_OK && diag.size)
        och_log(OCH_LOG_INFO, "kernel %s, %s, for %s:\n%s", e->name, e->spec, s->profile.target.name, och_strbuf_str(&diag));
    och_kl_code_destroy(code);
    och_strbuf_deinit(&diag);
    return st;
}

/* Text to code. Called without the lock; the entry is COMPILING and belongs to the caller. */
static och_status compile(store *s, entry *e, och_err *err) {
    och_strbuf diag;
    och_strbuf_init(&diag);
    const och_kl_signature *sig = &e->kernel.signature;
    och_jit_arg layout[3 * OCH_KL_MAX_ARGS + OCH_KL_MAX_SIZES];
    och_jit_request q = {.kernel = e->name, .specialisation = sig->spec, .text = e->text.data, .text_bytes = e->text.size,
                         .file_name = e->name, .target = s->profile.target.name, .wave_size = s->profile.wave,
                         .dialect = s->profile.target.target->vendor == OCH_VENDOR_NVIDIA ? OCH_JIT_CUDA : OCH_JIT_HIP,
                         .symbol = sig->entry, .has_layout = true, .kernarg_bytes = sig->args_bytes, .args = layout,
                         .n_args = layout_of(sig, layout), .record = e->record.data, .record_bytes = e->record.size};
    if (s->device->info.code_object_version == 4) q.code_object_version = 4;
    och_status st = och_jit_get(s->jit, &q, &e->artifact, &diag, err);
    if (st != OCH_OK && diag.size)
        och_log(OCH_LOG_INFO, "kernel %s, %s, for %s:\n%s", e->name, e->spec, s->profile.target.name, och_strbuf_str(&diag));
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
    och_strbuf_deinit(&e->text);
    och_strbuf_deinit(&e->record);
    och_strbuf_init(&e->text);
    och_strbuf_init(&e->record);
    e->state = st == OCH_OK ? COMPILED : FAILED;
    e->failure = err;
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

/* Called with the lock: the entry, printed and queued if it is new. */
static och_status entry_of(store *s, const char *kernel, const char *spec, entry **out_e, och_err *err) {
    uint64_t hash = hash_of(kernel, spec);
    entry *e = s->buckets[hash % BUCKETS];
    while (e && (e->hash != hash || strcmp(e->name, kernel) != 0 || strcmp(e->spec, spec) != 0)) e = e->next;
    *out_e = e;
    if (e) return OCH_OK;
    e = och_calloc(1, sizeof *e);
    if (!e) return och_err_nomem(err, sizeof *e, "a kernel's entry");
    och_strbuf_init(&e->text);
    och_strbuf_init(&e->record);
    e->hash = hash;
    snprintf(e->name, sizeof e->name, "%s", kernel);
    snprintf(e->spec, sizeof e->spec, "%s", spec);
    e->next = s->buckets[hash % BUCKETS];
    s->buckets[hash % BUCKETS] = e;
    *out_e = e;
    if (print_kernel(s, e, &e->failure) != OCH_OK) {
        e->state = FAILED;
    } else if (!s->first_made) {
        s->first_made = true;
        compile_locked(s, e);
    } else {
        enqueue(s, e);
    }
    return OCH_OK;
}

och_status och_gpu_kernel_get(const och_device *d, const char *kernel, const och_gpu_kernel **out_kernel, och_err *err,
                              const char *spec, ...) {
    if (out_kernel) *out_kernel = NULL;
    char text[SPEC_BYTES];
    va_list args;
    va_start(args, spec);
    int n = vsnprintf(text, sizeof text, spec, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof text || strlen(kernel) >= OCH_KL_NAME_BYTES)
        return och_err_set(err, OCH_INTERNAL, "kernel %s: its parameters take more than %zu bytes", kernel, sizeof text - 1);
    store *s;
    OCH_TRY(store_of(d, &s, err));
    pthread_mutex_lock(&s->lock);
    entry *e;
    och_status st = entry_of(s, kernel, text, &e, err);
    if (st == OCH_OK && out_kernel) {
        if (e->state == QUEUED) compile_locked(s, e);
        while (e->state == COMPILING) pthread_cond_wait(&s->done, &s->lock);
        if (e->state == COMPILED) {
            e->state = load(s, e, &e->failure) == OCH_OK ? READY : FAILED;
            och_jit_artifact_destroy(e->artifact);
            e->artifact = NULL;
        }
        *out_kernel = e->state == READY ? &e->kernel : NULL;
    }
    if (st == OCH_OK && e->state == FAILED) {
        st = och_err_set_native(err, e->failure.status, e->failure.native_code, "%s", e->failure.message);
        och_err_prefix(err, "kernel %s (%s)", kernel, text);
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}
