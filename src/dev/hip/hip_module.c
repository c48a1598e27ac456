/* Code objects and launches. */
#include "dev/hip/hip.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/strbuf.h"
#include "obj/obj.h"
#include "target/target.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The entry of a bundle, or the bare object, that the device runs: of those that serve it the one whose name says most. */
static och_status choose(const och_device *d, const och_obj_bundle *bundle, const och_obj_entry **out_entry, och_err *err) {
    const och_obj_entry *best = NULL;
    och_target_id device, code;
    och_strbuf have = {0};
    bool known = och_target_find(d->info.arch, &device, NULL) == OCH_OK;
    for (size_t i = 0; i < bundle->n_entries; i++) {
        const och_obj_entry *e = &bundle->entries[i];
        if (!e->target[0]) continue; /* the host's */
        och_strbuf_printf(&have, "%s%s", have.size ? ", " : "", e->target);
        /* a device that no row knows runs what is built for its very name */
        bool serves = known ? och_target_find(e->target, &code, NULL) == OCH_OK && och_target_serves(&code, &device)
                            : !strcmp(e->target, d->info.arch);
        if (serves && (!best || strlen(e->target) > strlen(best->target))) best = e;
    }
    *out_entry = best;
    och_status st = OCH_OK;
    if (!best)
        st = och_err_set(err, OCH_UNSUPPORTED, "device %s: module load: the code is for %s, this device is %s", d->info.label,
                         have.size ? och_strbuf_str(&have) : "no AMD GPU", d->info.arch);
    och_strbuf_deinit(&have);
    return st;
}

static och_status refused(och_module *m, const char *call, hipError_t e, och_err *err) {
    const och_device *d = m->device;
    char version[32];
    och_hip_version_text(hip_of(d)->lib->version, version, sizeof version);
    return och_hip_fail(d, e, err, "module load: HIP %s refused (%s) %s; it is known to take version %d and older", version, call,
                        m->what, d->info.code_object_version);
}

och_status och_hip_module_load(och_device *d, const void *image, size_t n_bytes, och_module **out_module, och_err *err) {
    const hip_api *a = hip_api_of(d);
    och_obj_bundle bundle = {0};
    och_obj *obj = NULL;
    och_status st;
    const och_obj_entry *entry;
    *out_module = NULL;
    OCH_TRY(och_capture_refuse(NULL, d, "module load", err));
    if (!image || !n_bytes) return och_err_set(err, OCH_INVALID, "device %s: module load: no bytes", d->info.label);
    if (och_obj_bundle_open(image, n_bytes, &bundle, err) != OCH_OK)
        return och_err_prefix(err, "device %s: module load", d->info.label);
    och_module *m = och_calloc(1, sizeof *m);
    if (!m) {
        st = och_err_nomem(err, sizeof *m, "a module");
        goto done;
    }
    m->device = d;
    pthread_mutex_init(&m->lock, NULL);
    OCH_TRY_GOTO(choose(d, &bundle, &entry, err));
    if (och_obj_parse(entry->bytes, entry->n_bytes, &obj, err) != OCH_OK) {
        st = och_err_prefix(err, "device %s: module load", d->info.label);
        goto done;
    }
    snprintf(m->what, sizeof m->what, "a code object of version %u for %s", obj->version, obj->target);
    m->image = och_malloc_aligned(entry->n_bytes, 4096);
    if (!m->image) {
        st = och_err_nomem(err, entry->n_bytes, "a code object");
        goto done;
    }
    memcpy(m->image, entry->bytes, entry->n_bytes);
    och_hip_enter(d);
    hipError_t e;
    if (hip_of(d)->lib->kernels_of_libraries) {
        unsigned count;
        e = a->hipLibraryLoadData(&m->library, m->image, NULL, NULL, 0, NULL, NULL, 0);
        if (e != hipSuccess) m->library = NULL;
        /* libraries are built when they are first asked for something; what is wrong is to be told here */
        else e = a->hipLibraryGetKernelCount(&count, m->library);
        if (e != hipSuccess) st = refused(m, "hipLibraryLoadData", e, err);
    } else {
        e = a->hipModuleLoadData(&m->module, m->image);
        if (e != hipSuccess) m->module = NULL, st = refused(m, "hipModuleLoadData", e, err);
    }
    if (e == hipSuccess) st = OCH_OK;
done:
    och_obj_destroy(obj);
    och_obj_bundle_close(&bundle);
    if (st == OCH_OK) *out_module = m;
    else och_hip_module_unload(m);
    return st;
}

void och_hip_module_unload(och_module *m) {
    if (!m) return;
    och_capture_abandon("module unload");
    const hip_api *a = hip_api_of(m->device);
    och_hip_enter(m->device);
    if (m->library) (void)a->hipLibraryUnload(m->library);
    if (m->module) (void)a->hipModuleUnload(m->module);
    (void)a->hipGetLastError();
    for (hip_function *f = m->functions, *next; f; f = next) {
        next = f->next;
        och_free(f);
    }
    och_free_aligned(m->image);
    pthread_mutex_destroy(&m->lock);
    och_free(m);
}

och_status och_hip_module_function(och_module *m, const char *name, och_function **out_function, och_err *err) {
    const hip_api *a = hip_api_of(m->device);
    och_status st = OCH_OK;
    *out_function = NULL;
    OCH_TRY(och_capture_refuse(NULL, m->device, "module function", err));
    pthread_mutex_lock(&m->lock);
    hip_function *f = m->functions;
    while (f && strcmp(f->base.name, name) != 0) f = f->next;
    if (!f) {
        och_hip_enter(m->device);
        hipFunction_t found = NULL;
        hipKernel_t kernel = NULL;
        hipError_t e = m->library ? a->hipLibraryGetKernel(&kernel, m->library, name)
                                  : a->hipModuleGetFunction(&found, m->module, name);
        if (e == hipSuccess && m->library) e = a->hipKernelGetFunction(&found, kernel);
        if (e != hipSuccess) {
            st = och_hip_fail(m->device, e, err, "module function: kernel %s in %s", name, m->what);
            if (e == hipErrorNotFound) st = OCH_NOTFOUND;
            if (st == OCH_NOTFOUND && err) err->status = st;
        } else if (!(f = och_calloc(1, sizeof *f + strlen(name) + 1))) {
            st = och_err_nomem(err, sizeof *f + strlen(name) + 1, "a function");
        } else {
            memcpy(f + 1, name, strlen(name) + 1);
            f->base.name = (const char *)(f + 1);
            f->device = hip_of(m->device);
            f->function = found;
            f->next = m->functions;
            m->functions = f;
        }
    }
    pthread_mutex_unlock(&m->lock);
    if (st == OCH_OK) *out_function = &f->base;
    return st;
}

static och_status check_launch(const och_queue *q, const hip_function *f, const och_launch *l, och_err *err) {
    const och_dev_info *i = &q->device->info;
    uint64_t group = 1;
    for (int k = 0; k < 3; k++) {
        if (!l->grid[k] || !l->group[k])
            return och_err_set(err, OCH_INVALID, "device %s: launch of kernel %s: grid %u x %u x %u of groups of %u x %u x %u: no "
                               "dimension may be 0", i->label, f->base.name, l->grid[0], l->grid[1], l->grid[2], l->group[0],
                               l->group[1], l->group[2]);
        if ((uint64_t)l->grid[k] * l->group[k] > UINT32_MAX)
            return och_err_set(err, OCH_RANGE, "device %s: launch of kernel %s: dimension %d has %u groups of %u work-items: at most "
                               "2^32 - 1 work-items", i->label, f->base.name, k, l->grid[k], l->group[k]);
        group *= OCH_MIN(l->group[k], 65536u); /* three of them fit */
    }
    if (i->max_group && group > i->max_group)
        return och_err_set(err, OCH_RANGE, "device %s: launch of kernel %s: a group of %" PRIu64 " work-items, at most %u", i->label,
                           f->base.name, group, i->max_group);
    if (i->lds_bytes && l->lds_bytes > i->lds_bytes)
        return och_err_set(err, OCH_RANGE, "device %s: launch of kernel %s: %u bytes of LDS, at most %u", i->label, f->base.name,
                           l->lds_bytes, i->lds_bytes);
    if (l->args_bytes && !l->args)
        return och_err_set(err, OCH_INVALID, "device %s: launch of kernel %s: %zu bytes of arguments at NULL", i->label, f->base.name,
                           l->args_bytes);
    return OCH_OK;
}

static och_status launch(och_queue *queue, och_function *function, const och_launch *l, och_err *err) {
    hip_queue *q = hip_queue_of(queue);
    hip_function *f = (hip_function *)function;
    const hip_api *a = hip_api_of(queue->device);
    OCH_TRY(check_launch(queue, f, l, err));
    if (f->device->lib != hip_of(queue->device)->lib || f->device->ordinal != hip_of(queue->device)->ordinal)
        return och_err_set(err, OCH_INVALID, "device %s: launch of kernel %s: it was loaded on device %s", queue->device->info.label,
                           f->base.name, f->device->base.info.label);
    size_t n_bytes = l->args_bytes;
    void *extra[] = {(void *)HIP_LAUNCH_PARAM_BUFFER_POINTER_, (void *)(uintptr_t)l->args, (void *)HIP_LAUNCH_PARAM_BUFFER_SIZE_,
                     &n_bytes, (void *)HIP_LAUNCH_PARAM_END_};
    och_hip_enter(queue->device);
    hipError_t e = a->hipModuleLaunchKernel(f->function, l->grid[0], l->grid[1], l->grid[2], l->group[0], l->group[1], l->group[2],
                                            l->lds_bytes, q->stream, NULL, n_bytes ? extra : NULL);
    if (e != hipSuccess)
        return och_hip_fail_on(q, e, err, "launch of kernel %s, grid %u x %u x %u of groups of %u x %u x %u, %u bytes of LDS",
                               f->base.name, l->grid[0], l->grid[1], l->grid[2], l->group[0], l->group[1], l->group[2],
                               l->lds_bytes);
    pthread_mutex_lock(&q->lock);
    bool records = och_capture_records(&q->capture);
    och_ring_add(records ? &q->captured : &q->ring, f->base.name);
    pthread_mutex_unlock(&q->lock);
    if (f->device->synchronous && !records) return och_hip_synchronise(queue, err);
    return OCH_OK;
}

och_status och_hip_launch(och_queue *queue, och_function *function, const och_launch *l, och_err *err) {
    och_capture *c = &hip_queue_of(queue)->capture;
    OCH_TRY(och_capture_admit(c, "launch", err));
    return och_capture_result(c, "launch", launch(queue, function, l, err));
}

static och_status lend(och_queue *queue, const char *name, och_status (*give)(void *user, void *stream, och_err *err), void *user,
                       och_err *err) {
    hip_queue *q = hip_queue_of(queue);
    och_hip_enter(queue->device);
    OCH_TRY(give(user, q->stream, err));
    bool records = och_capture_records(&q->capture);
    pthread_mutex_lock(&q->lock);
    och_ring_add(records ? &q->captured : &q->ring, name);
    pthread_mutex_unlock(&q->lock);
    return hip_of(queue->device)->synchronous && !records ? och_hip_synchronise(queue, err) : OCH_OK;
}

och_status och_hip_lend(och_queue *queue, const char *name, och_status (*give)(void *user, void *stream, och_err *err), void *user,
                        och_err *err) {
    och_capture *c = &hip_queue_of(queue)->capture;
    OCH_TRY(och_capture_admit(c, name, err));
    return och_capture_result(c, name, lend(queue, name, give, user, err));
}
