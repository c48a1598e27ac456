/* The kernels of a device: made at first use, by name and specialisation, and kept until the device goes. */
#include "op/gpu/gpu.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/size.h"
#include "jit/jit.h"
#include "kl/builtin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BINDINGS 24
#define SPEC_BYTES 256

typedef struct entry {
    struct entry *next; /* in its bucket */
    uint64_t hash;
    och_gpu_kernel kernel;
    och_module *module; /* owned; NULL: making it failed, as `failure` says */
    och_err failure;
    char name[OCH_KL_NAME_BYTES];
    char spec[SPEC_BYTES]; /* as asked for */
} entry;

#define BUCKETS 256

typedef struct store {
    och_device *device; /* the device that owns the store */
    och_kl_profile profile;
    och_jit *jit; /* owned */
    pthread_mutex_t lock;
    entry *buckets[BUCKETS];
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
    for (int i = 0; i < BUCKETS; i++)
        for (entry *e = s->buckets[i], *next; e; e = next) {
            next = e->next;
            if (e->module) s->device->vtable->module_unload(e->module);
            och_free(e);
        }
    och_jit_destroy(s->jit);
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
        st = s ? och_kl_profile_init(&s->profile, d->info.arch, d->info.wave_size, err) : och_err_nomem(err, sizeof *s, "a device's kernels");
        if (st == OCH_OK) st = och_jit_create(&(och_jit_options){0}, &s->jit, err);
        if (st == OCH_OK) {
            s->device = d;
            pthread_mutex_init(&s->lock, NULL);
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
            return och_err_set(err, OCH_INTERNAL, "a kernel's parameters: expected NAME=VALUE, at most %d, found '%s'", MAX_BINDINGS, p);
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

static och_status make(store *s, entry *e, och_err *err) {
    char spec[SPEC_BYTES];
    memcpy(spec, e->spec, sizeof spec);
    och_kl_binding bindings[MAX_BINDINGS];
    int n_bindings;
    const och_kl_unit *unit;
    OCH_TRY(parse_spec(spec, bindings, &n_bindings, err));
    OCH_TRY(find_unit(e->name, &unit, err));
    och_strbuf diag, text, record;
    och_strbuf_init(&diag);
    och_strbuf_init(&text);
    och_strbuf_init(&record);
    och_kl_code *code = NULL;
    och_jit_artifact *artifact = NULL;
    och_jit_arg layout[3 * OCH_KL_MAX_ARGS + OCH_KL_MAX_SIZES];
    och_status st;
    OCH_TRY_GOTO(och_kl_specialise(unit, e->name, bindings, n_bindings, &s->profile, &code, &diag, err));
    OCH_TRY_GOTO(och_kl_emit(code, &text, err));
    const och_kl_signature *sig = och_kl_code_signature(code);
    OCH_TRY_GOTO(och_kl_signature_write(sig, &record, err));
    och_jit_request q = {.kernel = e->name, .specialisation = sig->spec, .text = text.data, .text_bytes = text.size,
                         .file_name = e->name, .target = s->profile.target.name, .wave_size = s->profile.wave,
                         .dialect = s->profile.target.target->vendor == OCH_VENDOR_NVIDIA ? OCH_JIT_CUDA : OCH_JIT_HIP,
                         .symbol = sig->entry, .has_layout = true, .kernarg_bytes = sig->args_bytes, .args = layout,
                         .n_args = layout_of(sig, layout), .record = record.data, .record_bytes = record.size};
    if (s->device->info.code_object_version == 4) q.code_object_version = 4;
    OCH_TRY_GOTO(och_jit_get(s->jit, &q, &artifact, &diag, err));
    OCH_TRY_GOTO(och_kl_signature_read(artifact->record, artifact->record_bytes, &e->kernel.signature, err));
    OCH_TRY_GOTO(s->device->vtable->module_load(s->device, artifact->code, artifact->code_bytes, &e->module, err));
    st = s->device->vtable->module_function(e->module, e->kernel.signature.entry, &e->kernel.function, err);
    if (st != OCH_OK) {
        s->device->vtable->module_unload(e->module);
        e->module = NULL;
    }
done:
    if (st != OCH_OK && diag.size) och_log(OCH_LOG_INFO, "kernel %s, %s, for %s:\n%s", e->name, e->spec, s->profile.target.name, och_strbuf_str(&diag));
    och_jit_artifact_destroy(artifact);
    och_kl_code_destroy(code);
    och_strbuf_deinit(&diag);
    och_strbuf_deinit(&text);
    och_strbuf_deinit(&record);
    return st;
}

och_status och_gpu_kernel_get(const och_device *d, const char *kernel, const och_gpu_kernel **out_kernel, och_err *err,
                              const char *spec, ...) {
    *out_kernel = NULL;
    char text[SPEC_BYTES];
    va_list args;
    va_start(args, spec);
    int n = vsnprintf(text, sizeof text, spec, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof text || strlen(kernel) >= OCH_KL_NAME_BYTES)
        return och_err_set(err, OCH_INTERNAL, "kernel %s: its parameters take more than %zu bytes", kernel, sizeof text - 1);
    store *s;
    OCH_TRY(store_of(d, &s, err));
    uint64_t hash = hash_of(kernel, text);
    och_status st = OCH_OK;
    pthread_mutex_lock(&s->lock);
    entry *e = s->buckets[hash % BUCKETS];
    while (e && (e->hash != hash || strcmp(e->name, kernel) || strcmp(e->spec, text))) e = e->next;
    if (!e) {
        e = och_calloc(1, sizeof *e);
        if (!e) {
            pthread_mutex_unlock(&s->lock);
            return och_err_nomem(err, sizeof *e, "a kernel's entry");
        }
        e->hash = hash;
        snprintf(e->name, sizeof e->name, "%s", kernel);
        memcpy(e->spec, text, sizeof text);
        make(s, e, &e->failure);
        e->next = s->buckets[hash % BUCKETS];
        s->buckets[hash % BUCKETS] = e;
    }
    if (e->module) *out_kernel = &e->kernel;
    else {
        st = och_err_set_native(err, e->failure.status, e->failure.native_code, "%s", e->failure.message);
        och_err_prefix(err, "kernel %s (%s)", kernel, text);
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}
