/* The public API of kernels: text to code by the language and the JIT, code to launches by the seam. */
#include <ochre/kernels.h>

#include "base/alloc.h"
#include "base/size.h"
#include "dev/dev.h"
#include "engine/api_error.h"
#include "jit/kernel.h"
#include "obj/obj.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct ochre_device {
    och_device *d; /* retained */
    pthread_mutex_t lock; /* of the device's own stream */
    och_queue *queue;     /* that stream */
    och_jit *jit;         /* shared; NULL until the first program */
    _Atomic int refs;
};

struct ochre_buffer {
    ochre_device *device; /* retained */
    och_buf buf;
};

/* An argument of a kernel whose text says nothing about it but what the code's metadata do. */
typedef struct raw_argument {
    char name[64], type[64];
    uint32_t offset, size;
    bool is_buffer, is_output;
} raw_argument;

struct ochre_kernel {
    ochre_program *program; /* the one it is part of */
    och_function *function;
    char name[160]; /* as asked for */
    const och_kl_signature *signature; /* the program's; NULL: not of the language */
    raw_argument *arguments; /* owned */
    size_t n_arguments;
    uint32_t args_bytes, max_threads, lds_bytes, registers, spills, scratch_bytes;
    int wave_size;
};

struct ochre_program {
    ochre_device *device; /* retained */
    och_module *module;
    void *code; /* owned copy */
    size_t code_bytes;
    char target[OCH_TARGET_NAME_BYTES];
    char *log; /* owned */
    och_kl_signature *signature; /* owned; NULL: not of the language */
    ochre_kernel *kernels; /* owned */
    size_t n_kernels;
};

/* What the compiler said of the last failure in this thread: there is no program to ask. */
static _Thread_local char last_log[8192];

/* ---- devices ---- */

static void release(ochre_device *d) {
    if (!d || atomic_fetch_sub(&d->refs, 1) != 1) return;
    if (d->queue) d->d->vtable->queue_destroy(d->queue);
    och_jit_unshare(d->jit);
    och_device_release(d->d);
    pthread_mutex_destroy(&d->lock);
    och_free(d);
}

static ochre_device *retain(ochre_device *d) {
    atomic_fetch_add(&d->refs, 1);
    return d;
}

ochre_status ochre_device_open(const char *name, ochre_device **out_device, ochre_error *error) {
    och_err e;
    och_err_clear(&e);
    och_status st = och_api_need(out_device, "device_open: out_device", &e);
    if (st != OCH_OK) return och_api_give(&e, st, error);
    *out_device = NULL;
    ochre_device *d = och_calloc(1, sizeof *d);
    if (!d) return och_api_give(&e, och_err_nomem(&e, sizeof *d, "a device"), error);
    d->refs = 1;
    pthread_mutex_init(&d->lock, NULL);
    const och_dev_options options = {.require_gpu = true}; /* of "auto" */
    st = och_device_open(name ? name : "auto", &options, &d->d, &e);
    if (st == OCH_OK) st = d->d->vtable->queue_create(d->d, &d->queue, &e);
    if (st == OCH_OK) *out_device = d;
    else release(d);
    return och_api_give(&e, st, error);
}

void ochre_device_close(ochre_device *device) { release(device); }

ochre_status ochre_device_describe(const ochre_device *device, ochre_device_info *info, ochre_error *error) {
    och_err e;
    och_err_clear(&e);
    och_status st = och_api_need(device, "device_describe: device", &e);
    if (st == OCH_OK) st = och_api_need(info, "device_describe: info", &e);
    if (st != OCH_OK) return och_api_give(&e, st, error);
    const och_dev_info *d = &device->d->info;
    const ochre_device_info full = {
        .name = d->label, .product = d->name, .target = d->arch, .memory_bytes = d->memory_bytes, .compute_units = d->n_compute_units,
        .wave_size = d->wave_size, .lds_bytes = d->lds_bytes, .unified = d->unified, .simulated = d->kind == OCH_DEV_SIMULATED,
        .runtime_library = d->library_open, .runtime_device = d->library_index};
    return och_api_give(&e, och_api_write_struct(info, &full, sizeof full, "device_describe", &e), error);
}

/* Waits for the device's own stream, with its lock held. */
static och_status wait_own(ochre_device *d, och_err *e) { return d->d->vtable->synchronise(d->queue, e); }

/* Before what its work may use goes. What went wrong there is told by the stream's next call. */
static void settle(ochre_device *d) {
    och_err ignored;
    och_err_clear(&ignored);
    pthread_mutex_lock(&d->lock);
    if (wait_own(d, &ignored) != OCH_OK) och_err_clear(&ignored);
    pthread_mutex_unlock(&d->lock);
}

ochre_status ochre_device_synchronise(ochre_device *device, ochre_error *error) {
    och_err e;
    och_err_clear(&e);
    och_status st = och_api_need(device, "device_synchronise: device", &e);
    if (st != OCH_OK) return och_api_give(&e, st, error);
    pthread_mutex_lock(&device->lock);
    st = wait_own(device, &e);
    pthread_mutex_unlock(&device->lock);
    return och_api_give(&e, st, error);
}

/* ---- buffers ---- */

ochre_status ochre_buffer_create(ochre_device *device, uint64_t size_bytes, ochre_buffer **out_buffer, ochre_error *error) {
    och_err e;
    och_err_clear(&e);
    och_status st = och_api_need(device, "buffer_create: device", &e);
    if (st == OCH_OK) st = och_api_need(out_buffer, "buffer_create: out_buffer", &e);
    if (st != OCH_OK) return och_api_give(&e, st, error);
    *out_buffer = NULL;
    if (!size_bytes)
        return och_api_give(&e, och_err_set(&e, OCH_RANGE, "buffer_create: size_bytes: expected at least 1, found 0"), error);
    ochre_buffer *b = och_calloc(1, sizeof *b);
    if (!b) return och_api_give(&e, och_err_nomem(&e, sizeof *b, "a buffer"), error);
    st = och_buf_alloc(device->d, size_bytes, OCH_MEM_DEVICE, &b->buf, &e);
    if (st == OCH_OK) {
        b->device = retain(device);
        *out_buffer = b;
    } else {
        och_free(b);
    }
    return och_api_give(&e, st, error);
}

void ochre_buffer_destroy(ochre_buffer *b) {
    if (!b) return;
    settle(b->device);
    och_buf_free(&b->buf);
    release(b->device);
    och_free(b);
}

uint64_t ochre_buffer_address(const ochre_buffer *b) { return b ? b->buf.addr.value : 0; }
void *ochre_buffer_host(const ochre_buffer *b) { return b && b->device->d->info.unified ? b->buf.host : NULL; }

static och_status check_range(const ochre_buffer *b, const void *p, uint64_t offset, uint64_t n, const char *what, och_err *e) {
    if (!b) return och_err_set(e, OCH_INVALID, "%s: buffer: expected a pointer, found NULL", what);
    if (!p && n) return och_err_set(e, OCH_INVALID, "%s: expected a pointer to %llu bytes, found NULL", what, (unsigned long long)n);
    if (n > b->buf.size_bytes || offset > b->buf.size_bytes - n)
        return och_err_set(e, OCH_RANGE, "%s: expected a range in %llu bytes, found %llu bytes at %llu", what,
                           (unsigned long long)b->buf.size_bytes, (unsigned long long)n, (unsigned long long)offset);
    return OCH_OK;
}

ochre_status ochre_buffer_write(ochre_buffer *b, uint64_t offset_bytes, const void *src, uint64_t n_bytes, ochre_error *error) {
    och_err e;
    och_err_clear(&e);
    och_status st = check_range(b, src, offset_bytes, n_bytes, "buffer_write", &e);
    if (st != OCH_OK || !n_bytes) return och_api_give(&e, st, error);
    ochre_device *d = b->device;
    pthread_mutex_lock(&d->lock);
    st = d->d->vtable->copy_to_device(d->queue, och_dev_addr_add(b->buf.addr, offset_bytes), src, n_bytes, &e);
    if (st == OCH_OK) st = wait_own(d, &e);
    pthread_mutex_unlock(&d->lock);
    return och_api_give(&e, st, error);
}

ochre_status ochre_buffer_read(const ochre_buffer *b, uint64_t offset_bytes, void *dst, uint64_t n_bytes, ochre_error *error) {
    och_err e;
    och_err_clear(&e);
    och_status st = check_range(b, dst, offset_bytes, n_bytes, "buffer_read", &e);
    if (st != OCH_OK || !n_bytes) return och_api_give(&e, st, error);
    ochre_device *d = b->device;
    pthread_mutex_lock(&d->lock);
    st = d->d->vtable->copy_to_host(d->queue, dst, och_dev_addr_add(b->buf.addr, offset_bytes), n_bytes, &e);
    if (st == OCH_OK) st = wait_own(d, &e);
    pthread_mutex_unlock(&d->lock);
    return och_api_give(&e, st, error);
}

/* ---- programs ---- */

static och_status take_kernel(const och_obj_kernel *from, ochre_program *p, ochre_kernel *k, och_err *e) {
    if (strlen(from->name) >= sizeof k->name)
        return och_err_set(e, OCH_RANGE, "program: kernel %.80s...: expected a name of at most %zu bytes, found %zu", from->name,
                           sizeof k->name - 1, strlen(from->name));
    strcpy(k->name, from->name);
    k->program = p;
    k->wave_size = (int)from->wave_size;
    k->max_threads = from->max_flat_workgroup_size;
    k->lds_bytes = from->group_bytes;
    k->registers = from->vgprs;
    k->spills = from->vgpr_spills;
    k->scratch_bytes = from->private_bytes;
    k->arguments = och_calloc(OCH_MAX(from->n_args, 1), sizeof *k->arguments);
    if (!k->arguments) return och_err_nomem(e, from->n_args * sizeof *k->arguments, "a kernel's arguments");
    for (size_t i = 0; i < from->n_args; i++) {
        const och_obj_arg *a = &from->args[i];
        uint32_t end;
        if (a->kind >= OCH_ARG_HIDDEN_FIRST && a->kind != OCH_ARG_UNKNOWN) continue;
        if (__builtin_add_overflow(a->offset, a->size, &end) || end > 65536)
            return och_err_set(e, OCH_CORRUPT, "program: kernel %s, argument %zu: expected it in the first 65536 bytes of the arguments, "
                               "found %u bytes at %u", k->name, i, a->size, a->offset);
        raw_argument *r = &k->arguments[k->n_arguments++];
        snprintf(r->name, sizeof r->name, "%s", a->name);
        snprintf(r->type, sizeof r->type, "%s", a->type_name[0] ? a->type_name : a->value_kind);
        r->offset = a->offset;
        r->size = a->size;
        r->is_buffer = a->kind == OCH_ARG_GLOBAL_BUFFER;
        k->args_bytes = OCH_MAX(k->args_bytes, end);
    }
    return OCH_OK;
}

static och_status take_kernels(const och_obj *o, ochre_program *p, och_err *e) {
    p->kernels = och_calloc(OCH_MAX(o->n_kernels, 1), sizeof *p->kernels);
    if (!p->kernels) return och_err_nomem(e, o->n_kernels * sizeof *p->kernels, "a program's kernels");
    for (size_t i = 0; i < o->n_kernels; i++) OCH_TRY(take_kernel(&o->kernels[i], p, &p->kernels[p->n_kernels++], e));
    return OCH_OK;
}

/* Kernels of the code that the device runs, from its metadata. */
static och_status list_kernels(ochre_program *p, och_err *e) {
    och_obj_bundle bundle = {0};
    och_obj *o = NULL;
    och_target_id device, code;
    och_status st = och_target_find(p->device->d->info.arch, &device, e);
    if (st == OCH_OK && device.target->vendor == OCH_VENDOR_NVIDIA) { /* for one target, which the seam found to be this one */
        snprintf(p->target, sizeof p->target, "%s", device.name);
        OCH_TRY(och_obj_parse_nvidia(p->code, p->code_bytes, &o, e));
        st = take_kernels(o, p, e);
        och_obj_destroy(o);
        return st;
    }
    OCH_TRY(och_obj_bundle_open(p->code, p->code_bytes, &bundle, e));
    const och_obj_entry *best = NULL; /* as the seam chooses: what says most of those that serve */
    for (size_t i = 0; i < bundle.n_entries && st == OCH_OK; i++) {
        const och_obj_entry *x = &bundle.entries[i];
        if (x->target[0] && och_target_find(x->target, &code, NULL) == OCH_OK && och_target_serves(&code, &device) &&
            (!best || strlen(x->target) > strlen(best->target)))
            best = x;
    }
    if (st == OCH_OK && !best) st = och_err_set(e, OCH_UNSUPPORTED, "program: none of its code is for %s", p->device->d->info.arch);
    if (st == OCH_OK) st = och_obj_parse(best->bytes, best->n_bytes, &o, e);
    if (st == OCH_OK) {
        snprintf(p->target, sizeof p->target, "%s", o->target);
        st = take_kernels(o, p, e);
    }
    och_obj_destroy(o);
    och_obj_bundle_close(&bundle);
    return st;
}

static och_status finish(ochre_program *p, const void *code, size_t n, const char *log, och_err *e) {
    const och_device_vtable *v = p->device->d->vtable;
    OCH_TRY(v->module_load(p->device->d, code, n, &p->module, e)); /* refuses what is for another device */
    p->code = och_malloc(OCH_MAX(n, 1));
    p->log = och_strdup(log);
    if (!p->code || !p->log) return och_err_nomem(e, n, "a program's code");
    memcpy(p->code, code, n);
    p->code_bytes = n;
    OCH_TRY(list_kernels(p, e));
    for (size_t i = 0; i < p->n_kernels; i++) {
        ochre_kernel *k = &p->kernels[i];
        OCH_TRY(v->module_function(p->module, k->name, &k->function, e));
        if (!p->signature || strcmp(p->signature->entry, k->name)) continue;
        k->signature = p->signature;
        strcpy(k->name, p->signature->kernel);
    }
    return OCH_OK;
}

/* The only kernel of a unit, or the one that is named. */
static och_status pick(const och_kl_unit *u, const char *named, const char **out_name, och_err *e) {
    int n = och_kl_kernel_count(u);
    *out_name = named ? named : n == 1 ? och_kl_kernel_name(u, 0) : NULL;
    if (*out_name) return OCH_OK;
    if (!n) return och_err_set(e, OCH_INVALID, "program_compile: the text has no kernel");
    char list[400] = "";
    for (int i = 0; i < n; i++) {
        size_t at = strlen(list);
        snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", och_kl_kernel_name(u, i));
    }
    return och_err_set(e, OCH_INVALID, "program_compile: kernel: the text has %d, name one of them: %s", n, list);
}

static void set_common(ochre_program *p, const ochre_program_options *o, och_jit_request *q) {
    q->opt_level = o->optimisation;
    q->flags = o->flags;
    q->n_flags = o->n_flags;
    q->newest_code_object_version = p->device->d->info.code_object_version;
}

static och_status compile_ok(ochre_program *p, och_jit *jit, const char *text, size_t n, const ochre_program_options *o, och_strbuf *log,
                             och_err *e) {
    const och_dev_info *info = &p->device->d->info;
    och_kl_profile profile;
    och_kl_unit *unit = NULL;
    och_jit_artifact *artifact = NULL;
    const char *kernel;
    och_status st;
    och_kl_binding *bindings = och_calloc(OCH_MAX(o->n_params, 1), sizeof *bindings);
    och_jit_kernel *k = och_calloc(1, sizeof *k);
    p->signature = och_malloc(sizeof *p->signature);
    if (!bindings || !k || !p->signature) {
        st = och_err_nomem(e, o->n_params * sizeof *bindings + sizeof *k, "a kernel");
        goto done;
    }
    for (size_t i = 0; i < o->n_params; i++) bindings[i] = (och_kl_binding){o->params[i].name, o->params[i].value};
    OCH_TRY_GOTO(och_kl_profile_init(&profile, info->arch, o->wave_size ? o->wave_size : info->wave_size, e));
    OCH_TRY_GOTO(och_kl_parse(o->file_name ? o->file_name : "program", text, n, NULL, &unit, log, e));
    OCH_TRY_GOTO(pick(unit, o->kernel, &kernel, e));
    OCH_TRY_GOTO(och_jit_kernel_init(k, unit, kernel, bindings, (int)o->n_params, &profile, log, e));
    set_common(p, o, &k->request);
    OCH_TRY_GOTO(och_jit_get(jit, &k->request, &artifact, log, e));
    *p->signature = k->signature;
    st = finish(p, artifact->code, artifact->code_bytes, artifact->log, e);
done:
    och_jit_artifact_destroy(artifact);
    if (k) och_jit_kernel_deinit(k);
    och_free(k);
    och_kl_unit_destroy(unit);
    och_free(bindings);
    return st;
}

static och_status compile_text(ochre_program *p, och_jit *jit, const char *text, size_t n, const ochre_program_options *o,
                               och_strbuf *log, och_err *e) {
    const och_dev_info *info = &p->device->d->info;
    och_jit_request q = {.text = text, .text_bytes = n, .file_name = o->file_name ? o->file_name : "program", .prelude = true,
                         .target = info->arch, .wave_size = o->wave_size ? o->wave_size : info->wave_size};
    och_jit_artifact *artifact;
    (void)och_jit_dialect_of((int)o->language, &q.dialect); /* checked */
    set_common(p, o, &q);
    OCH_TRY(och_jit_get(jit, &q, &artifact, log, e));
    och_status st = finish(p, artifact->code, artifact->code_bytes, artifact->log, e);
    och_jit_artifact_destroy(artifact);
    return st;
}

static och_status check_options(const ochre_device *device, const char *text, size_t n, const ochre_program_options *o, och_err *e) {
    och_jit_dialect dialect;
    if (o->language != OCHRE_LANGUAGE_OK && !och_jit_dialect_of((int)o->language, &dialect))
        return och_err_set(e, OCH_INVALID, "program_compile: language: expected one of ochre_language, found %d", (int)o->language);
    if (o->optimisation < 0 || o->optimisation > 3)
        return och_err_set(e, OCH_RANGE, "program_compile: optimisation: expected 0 to 3, found %d", o->optimisation);
    if (o->wave_size && o->wave_size != 32 && o->wave_size != 64)
        return och_err_set(e, OCH_RANGE, "program_compile: wave_size: expected 0, 32 or 64, found %d", o->wave_size);
    if (o->n_params > 256)
        return och_err_set(e, OCH_RANGE, "program_compile: n_params: expected at most 256, found %zu", o->n_params);
    if (o->n_params) OCH_TRY(och_api_need(o->params, "program_compile: params", e));
    for (size_t i = 0; i < o->n_params; i++)
        if (!o->params[i].name || !o->params[i].value)
            return och_err_set(e, OCH_INVALID, "program_compile: params[%zu]: expected a name and a value, found NULL", i);
    if (o->n_flags) OCH_TRY(och_api_need(o->flags, "program_compile: flags", e));
    for (size_t i = 0; i < o->n_flags; i++)
        if (!o->flags[i]) return och_err_set(e, OCH_INVALID, "program_compile: flags[%zu]: expected a flag, found NULL", i);
    if (o->language != OCHRE_LANGUAGE_OK && (o->kernel || o->n_params))
        return och_err_set(e, OCH_INVALID, "program_compile: %s: is for the kernel language alone: all kernels of other text are in one "
                           "program", o->kernel ? "kernel" : "params");
    if (memchr(text, 0, n))
        return och_err_set(e, OCH_INVALID, "program_compile: text: expected %zu bytes of text, found a NUL at %zu", n, strnlen(text, n));
    if (!device->d->info.wave_size)
        return och_err_set(e, OCH_UNSUPPORTED, "program_compile: device %s runs no kernels", device->d->info.label);
    return OCH_OK;
}

static och_status new_program(ochre_device *device, ochre_program **out, och_err *e) {
    *out = och_calloc(1, sizeof **out);
    if (!*out) return och_err_nomem(e, sizeof **out, "a program");
    (*out)->device = retain(device);
    return OCH_OK;
}

/* The JIT that the device shares with others of its runtime, from the first program on. */
static och_status jit_of(ochre_device *device, och_jit **out, och_err *e) {
    pthread_mutex_lock(&device->lock);
    och_status st = device->jit ? OCH_OK : och_jit_share(device->d->info.library, &device->jit, e);
    *out = device->jit;
    pthread_mutex_unlock(&device->lock);
    return st;
}

ochre_status ochre_program_compile(ochre_device *device, const char *text, size_t text_bytes, const ochre_program_options *options,
                                   ochre_program **out_program, ochre_error *error) {
    och_err e;
    och_err_clear(&e);
    last_log[0] = 0;
    ochre_program_options o = OCHRE_PROGRAM_OPTIONS_INIT;
    och_status st = och_api_need(out_program, "program_compile: out_program", &e);
    if (st == OCH_OK) *out_program = NULL;
    if (st == OCH_OK) st = och_api_need(device, "program_compile: device", &e);
    if (st == OCH_OK) st = och_api_need(text, "program_compile: text", &e);
    if (st == OCH_OK) st = och_api_read_options(&o, sizeof o, options, "program_compile", &e);
    if (st == OCH_OK) st = check_options(device, text, text_bytes, &o, &e);
    och_jit *jit = NULL, *own = NULL;
    const och_jit_options chosen = {.compiler = o.compiler, .hiprtc_library = device && device->d->info.library[0] ? device->d->info.library : NULL};
    if (st == OCH_OK) st = o.compiler ? och_jit_create(&chosen, &own, &e) : jit_of(device, &jit, &e);
    ochre_program *p = NULL;
    if (st == OCH_OK) st = new_program(device, &p, &e);
    och_strbuf log = {0};
    if (st == OCH_OK)
        st = o.language == OCHRE_LANGUAGE_OK ? compile_ok(p, own ? own : jit, text, text_bytes, &o, &log, &e)
                                             : compile_text(p, own ? own : jit, text, text_bytes, &o, &log, &e);
    if (st == OCH_OK) *out_program = p;
    else {
        snprintf(last_log, sizeof last_log, "%s", och_strbuf_str(&log));
        ochre_program_destroy(p);
    }
    och_strbuf_deinit(&log);
    och_jit_destroy(own);
    return och_api_give(&e, st, error);
}

ochre_status ochre_program_load(ochre_device *device, const void *code, size_t code_bytes, ochre_program **out_program,
                                ochre_error *error) {
    och_err e;
    och_err_clear(&e);
    och_status st = och_api_need(out_program, "program_load: out_program", &e);
    if (st == OCH_OK) *out_program = NULL;
    if (st == OCH_OK) st = och_api_need(device, "program_load: device", &e);
    if (st == OCH_OK) st = och_api_need(code, "program_load: code", &e);
    if (st == OCH_OK && !code_bytes) st = och_err_set(&e, OCH_INVALID, "program_load: code_bytes: expected a code object, found 0 bytes");
    ochre_program *p = NULL;
    if (st == OCH_OK) st = new_program(device, &p, &e);
    if (st == OCH_OK) st = finish(p, code, code_bytes, "", &e);
    if (st == OCH_OK) *out_program = p;
    else ochre_program_destroy(p);
    return och_api_give(&e, st, error);
}

void ochre_program_destroy(ochre_program *p) {
    if (!p) return;
    if (p->module) {
        settle(p->device);
        p->device->d->vtable->module_unload(p->module);
    }
    for (size_t i = 0; i < p->n_kernels; i++) och_free(p->kernels[i].arguments);
    och_free(p->kernels);
    och_free(p->signature);
    och_free(p->code);
    och_free(p->log);
    release(p->device);
    och_free(p);
}

const char *ochre_program_log(const ochre_program *p) { return p ? p->log : last_log; }

const void *ochre_program_code(const ochre_program *p, size_t *out_bytes) {
    if (out_bytes) *out_bytes = p ? p->code_bytes : 0;
    return p ? p->code : NULL;
}

size_t ochre_program_kernel_count(const ochre_program *p) { return p ? p->n_kernels : 0; }

const char *ochre_program_kernel_name(const ochre_program *p, size_t i) { return p && i < p->n_kernels ? p->kernels[i].name : NULL; }

ochre_status ochre_program_kernel(ochre_program *p, const char *name, ochre_kernel **out_kernel, ochre_error *error) {
    och_err e;
    och_err_clear(&e);
    och_status st = och_api_need(out_kernel, "program_kernel: out_kernel", &e);
    if (st == OCH_OK) *out_kernel = NULL;
    if (st == OCH_OK) st = och_api_need(p, "program_kernel: program", &e);
    if (st == OCH_OK) st = och_api_need(name, "program_kernel: name", &e);
    if (st != OCH_OK) return och_api_give(&e, st, error);
    char list[400] = "";
    for (size_t i = 0; i < p->n_kernels && !*out_kernel; i++) {
        if (!strcmp(p->kernels[i].name, name)) *out_kernel = &p->kernels[i];
        size_t at = strlen(list);
        snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", p->kernels[i].name);
    }
    if (!*out_kernel) st = och_err_set(&e, OCH_NOTFOUND, "program: has no kernel %.160s; it has %s", name, list[0] ? list : "none");
    return och_api_give(&e, st, error);
}

/* ---- kernels ---- */

size_t ochre_kernel_argument_count(const ochre_kernel *k) {
    return !k ? 0 : k->signature ? (size_t)k->signature->n_args : k->n_arguments;
}

ochre_status ochre_kernel_argument(const ochre_kernel *k, size_t i, ochre_argument_info *out_info, ochre_error *error) {
    och_err e;
    och_err_clear(&e);
    och_status st = och_api_need(out_info, "kernel_argument: out_info", &e);
    if (st == OCH_OK) memset(out_info, 0, sizeof *out_info);
    if (st == OCH_OK) st = och_api_need(k, "kernel_argument: kernel", &e);
    if (st == OCH_OK && i >= ochre_kernel_argument_count(k))
        st = och_err_set(&e, OCH_RANGE, "kernel %s: expected an argument below %zu, found %zu", k->name, ochre_kernel_argument_count(k), i);
    if (st != OCH_OK) return och_api_give(&e, st, error);
    if (k->signature) {
        const och_kl_arg *a = &k->signature->args[i];
        bool is_buffer = a->kind != OCH_KL_A_SCALAR;
        *out_info = (ochre_argument_info){a->name, a->type, a->bytes, a->offset, a->rank, is_buffer, a->in || !is_buffer, a->out,
                                          a->out && a->in_place};
    } else {
        const raw_argument *a = &k->arguments[i];
        *out_info = (ochre_argument_info){a->name, a->type, a->size, a->offset, 0, a->is_buffer, true, a->is_output, a->is_output};
    }
    return och_api_give(&e, OCH_OK, error);
}

ochre_status ochre_kernel_declare_outputs(ochre_kernel *k, const uint32_t *arguments, size_t n_arguments, ochre_error *error) {
    och_err e;
    och_err_clear(&e);
    och_status st = och_api_need(k, "kernel_declare_outputs: kernel", &e);
    if (st == OCH_OK && n_arguments) st = och_api_need(arguments, "kernel_declare_outputs: arguments", &e);
    if (st == OCH_OK && k->signature) st = och_err_set(&e, OCH_INVALID, "kernel %s: its text says which buffers it writes", k->name);
    for (size_t i = 0; i < n_arguments && st == OCH_OK; i++) {
        uint32_t at = arguments[i];
        if (at >= k->n_arguments)
            st = och_err_set(&e, OCH_RANGE, "kernel %s: expected an argument below %zu, found %u", k->name, k->n_arguments, at);
        else if (!k->arguments[at].is_buffer)
            st = och_err_set(&e, OCH_INVALID, "kernel %s, argument %u: expected a buffer, found %s", k->name, at, k->arguments[at].type);
    }
    if (st != OCH_OK) return och_api_give(&e, st, error);
    for (size_t i = 0; i < k->n_arguments; i++) k->arguments[i].is_output = false;
    for (size_t i = 0; i < n_arguments; i++) k->arguments[arguments[i]].is_output = true;
    return och_api_give(&e, OCH_OK, error);
}

ochre_status ochre_kernel_describe(const ochre_kernel *k, ochre_kernel_info *info, ochre_error *error) {
    och_err e;
    och_err_clear(&e);
    och_status st = och_api_need(k, "kernel_describe: kernel", &e);
    if (st == OCH_OK) st = och_api_need(info, "kernel_describe: info", &e);
    if (st != OCH_OK) return och_api_give(&e, st, error);
    const ochre_kernel_info full = {
        .name = k->name, .target = k->program->target, .wave_size = k->wave_size,
        .threads = k->signature ? (uint32_t)k->signature->threads : k->max_threads, .lds_bytes = k->lds_bytes,
        .registers = k->registers, .spills = k->spills, .scratch_bytes = k->scratch_bytes};
    return och_api_give(&e, och_api_write_struct(info, &full, sizeof full, "kernel_describe", &e), error);
}

/* On the stream that was given, or on the device's own. */
static och_status launch(ochre_kernel *k, void *stream, const och_launch *l, och_err *e) {
    ochre_device *d = k->program->device;
    const och_device_vtable *v = d->d->vtable;
    och_queue *q;
    if (!stream) {
        pthread_mutex_lock(&d->lock);
        och_status st = v->launch(d->queue, k->function, l, e);
        pthread_mutex_unlock(&d->lock);
        return st;
    }
    OCH_TRY(v->queue_wrap(d->d, stream, &q, e));
    och_status st = v->launch(q, k->function, l, e);
    v->queue_destroy(q);
    return st;
}

ochre_status ochre_kernel_launch(ochre_kernel *k, void *stream, const ochre_argument *arguments, size_t n_arguments,
                                 ochre_error *error) {
    och_err e;
    och_err_clear(&e);
    och_kl_actual actuals[OCH_KL_MAX_ARGS];
    och_kl_packed packed;
    och_status st = och_api_need(k, "kernel_launch: kernel", &e);
    if (st == OCH_OK && n_arguments) st = och_api_need(arguments, "kernel_launch: arguments", &e);
    if (st == OCH_OK && !k->signature)
        st = och_err_set(&e, OCH_INVALID, "kernel %s: is not of the kernel language, or was loaded as code: launch it with "
                         "ochre_kernel_launch_raw", k->name);
    if (st == OCH_OK && n_arguments > OCH_KL_MAX_ARGS)
        st = och_err_set(&e, OCH_RANGE, "kernel %s: expected %d arguments, found %zu", k->name, k->signature->n_args, n_arguments);
    for (size_t i = 0; i < n_arguments && st == OCH_OK; i++) {
        const ochre_argument *a = &arguments[i];
        if (!a->name) st = och_err_set(&e, OCH_INVALID, "kernel %s: arguments[%zu]: expected a name, found NULL", k->name, i);
        actuals[i] = (och_kl_actual){.name = a->name, .addr = a->address, .integer = a->integer, .real = a->real};
        memcpy(actuals[i].dims, a->dims, sizeof actuals[i].dims);
        memcpy(actuals[i].row_bytes, a->row_bytes, sizeof actuals[i].row_bytes);
    }
    if (st == OCH_OK) st = och_kl_pack(k->signature, actuals, (int)n_arguments, &packed, &e);
    if (st == OCH_OK && packed.grid[0] && packed.grid[1] && packed.grid[2]) {
        const och_launch l = {.grid = {packed.grid[0], packed.grid[1], packed.grid[2]},
                              .group = {packed.group[0], packed.group[1], packed.group[2]}, .lds_bytes = packed.lds_bytes,
                              .args = packed.args, .args_bytes = packed.n_bytes};
        st = launch(k, stream, &l, &e);
    }
    return och_api_give(&e, st, error);
}

static och_status check_raw(const ochre_kernel *k, const uint32_t group[3], uint32_t lds_bytes, const void *const *arguments, size_t n,
                            och_err *e) {
    const och_dev_info *info = &k->program->device->d->info;
    if (k->signature)
        return och_err_set(e, OCH_INVALID, "kernel %s: is of the kernel language: launch it with ochre_kernel_launch", k->name);
    if (n != k->n_arguments) return och_err_set(e, OCH_INVALID, "kernel %s: expected %zu arguments, found %zu", k->name, k->n_arguments, n);
    if (n) OCH_TRY(och_api_need(arguments, "kernel_launch_raw: arguments", e));
    for (size_t i = 0; i < n; i++)
        if (!arguments[i])
            return och_err_set(e, OCH_INVALID, "kernel %s, argument %zu: expected a pointer to its %u bytes, found NULL", k->name, i,
                               k->arguments[i].size);
    uint64_t threads = 1;
    for (int i = 0; i < 3; i++) threads *= OCH_MIN(group[i], 65536u); /* three of them fit */
    if (k->max_threads && threads > k->max_threads)
        return och_err_set(e, OCH_RANGE, "kernel %s: expected at most %u work-items a workgroup, as it was compiled, found %llu", k->name,
                           k->max_threads, (unsigned long long)threads);
    if (info->lds_bytes && (uint64_t)k->lds_bytes + lds_bytes > info->lds_bytes)
        return och_err_set(e, OCH_RANGE, "kernel %s: expected at most %u bytes of LDS, found %u of its own and %u more", k->name,
                           info->lds_bytes, k->lds_bytes, lds_bytes);
    return OCH_OK;
}

ochre_status ochre_kernel_launch_raw(ochre_kernel *k, void *stream, const uint32_t grid[3], const uint32_t group[3], uint32_t lds_bytes,
                                     const void *const *arguments, size_t n_arguments, ochre_error *error) {
    och_err e;
    och_err_clear(&e);
    och_status st = och_api_need(k, "kernel_launch_raw: kernel", &e);
    if (st == OCH_OK) st = och_api_need(grid, "kernel_launch_raw: grid", &e);
    if (st == OCH_OK) st = och_api_need(group, "kernel_launch_raw: group", &e);
    if (st == OCH_OK) st = check_raw(k, group, lds_bytes, arguments, n_arguments, &e);
    if (st != OCH_OK) return och_api_give(&e, st, error);
    unsigned char *block = k->args_bytes ? och_calloc(1, k->args_bytes) : NULL;
    if (k->args_bytes && !block) return och_api_give(&e, och_err_nomem(&e, k->args_bytes, "a launch's arguments"), error);
    for (size_t i = 0; i < n_arguments; i++) memcpy(block + k->arguments[i].offset, arguments[i], k->arguments[i].size);
    const och_launch l = {.grid = {grid[0], grid[1], grid[2]}, .group = {group[0], group[1], group[2]}, .lds_bytes = lds_bytes,
                          .args = block, .args_bytes = k->args_bytes};
    st = launch(k, stream, &l, &e);
    och_free(block);
    return och_api_give(&e, st, error);
}
