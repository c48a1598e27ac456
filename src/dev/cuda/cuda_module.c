/* Modules and launches. Code is a cubin, an ELF of NVIDIA's, or PTX, which the driver compiles. */
#include "dev/cuda/cuda.h"

#include "base/alloc.h"
#include "base/size.h"

#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LOG_BYTES 4096

/* The driver is told no size, and believes what a header says: sections and segments must lie within the bytes. */
static const char *cubin_fault(const uint8_t *bytes, size_t n_bytes, och_status *out_status) {
    Elf64_Ehdr h;
    uint64_t end;
    *out_status = OCH_CORRUPT;
    if (n_bytes < sizeof h) return "is cut short";
    memcpy(&h, bytes, sizeof h);
    if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_machine != CUDA_EM_CUDA) {
        *out_status = OCH_UNSUPPORTED;
        return "is an ELF file of another machine";
    }
    if (h.e_shnum && (h.e_shentsize != sizeof(Elf64_Shdr) ||
                      !och_u64_add(h.e_shoff, (uint64_t)h.e_shnum * sizeof(Elf64_Shdr), &end) || end > n_bytes))
        return "is cut short, or its table of sections is broken";
    if (h.e_phnum && (h.e_phentsize != sizeof(Elf64_Phdr) ||
                      !och_u64_add(h.e_phoff, (uint64_t)h.e_phnum * sizeof(Elf64_Phdr), &end) || end > n_bytes))
        return "is cut short, or its table of segments is broken";
    for (unsigned i = 0; i < h.e_shnum; i++) {
        Elf64_Shdr s;
        memcpy(&s, bytes + h.e_shoff + i * sizeof s, sizeof s);
        if (s.sh_type != SHT_NOBITS && (!och_u64_add(s.sh_offset, s.sh_size, &end) || end > n_bytes))
            return "is cut short: a section ends behind it";
    }
    return NULL;
}

/* The first line of what the driver's own compiler said. */
static void first_line(const char *log, char *out, size_t n_bytes) {
    size_t n = strcspn(log, "\n");
    snprintf(out, n_bytes, "%s%.*s", n ? ": " : "", (int)OCH_MIN(n, n_bytes), log);
}

static och_status refused(och_module *m, CUresult e, const char *log, och_err *err) {
    const och_device *d = m->device;
    char text[80], line[320];
    const char *hint = "";
    och_cuda_lib_text(cuda_of(d)->lib, text, sizeof text);
    first_line(log, line, sizeof line);
    if (e == CUDA_ERROR_UNSUPPORTED_PTX_VERSION || e == CUDA_ERROR_NO_BINARY_FOR_GPU || e == CUDA_ERROR_INVALID_IMAGE)
        hint = "; the compiler may be newer than the driver";
    if (e == CUDA_ERROR_JIT_COMPILER_NOT_FOUND)
        hint = "; libnvidia-ptxjitcompiler.so.1 of the driver is missing, NVRTC makes code that needs none";
    och_status st = och_cuda_fail(d, e, err, "module load: %s refused %s for %s%s%s", text, m->what, d->info.arch, line, hint);
    if (e == CUDA_ERROR_INVALID_PTX || e == CUDA_ERROR_INVALID_IMAGE) st = OCH_CORRUPT;
    if (e == CUDA_ERROR_UNSUPPORTED_PTX_VERSION || e == CUDA_ERROR_NO_BINARY_FOR_GPU) st = OCH_UNSUPPORTED;
    if (err) err->status = st;
    return st;
}

och_status och_cuda_module_load(och_device *d, const void *image, size_t n_bytes, och_module **out_module, och_err *err) {
    const cuda_api *a = cuda_api_of(d);
    char *log = NULL, *text = NULL;
    och_status st = OCH_OK;
    *out_module = NULL;
    OCH_TRY(och_capture_refuse(NULL, d, "module load", err));
    if (!image || !n_bytes) return och_err_set(err, OCH_INVALID, "device %s: module load: no bytes", d->info.label);
    bool elf = n_bytes >= SELFMAG && !memcmp(image, ELFMAG, SELFMAG);
    st = OCH_CORRUPT;
    const char *fault = elf                                ? cubin_fault(image, n_bytes, &st)
                        : memchr(image, 0, n_bytes - 1) ? "has bytes that no text has"
                                                        : NULL;
    if (fault)
        return och_err_set(err, st, "device %s: module load: the code, %zu bytes, %s: expected a cubin or PTX for %s",
                           d->info.label, n_bytes, fault, d->info.arch);
    st = OCH_OK;
    OCH_TRY(och_cuda_enter(d, "module load", err));
    och_module *m = och_calloc(1, sizeof *m);
    if (!m) return och_err_nomem(err, sizeof *m, "a module");
    m->device = d;
    pthread_mutex_init(&m->lock, NULL);
    snprintf(m->what, sizeof m->what, "%s", elf ? "a cubin" : "PTX");
    if (!(log = och_calloc(1, LOG_BYTES)) || (!elf && !(text = och_calloc(1, n_bytes + 1)))) {
        st = och_err_nomem(err, LOG_BYTES + n_bytes, "a module's text");
        goto done;
    }
    if (text) memcpy(text, image, n_bytes); /* PTX ends with a NUL */
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(LOG_BYTES - 1)};
    CUresult e = a->cuModuleLoadDataEx(&m->module, text ? text : image, 2, options, values);
    if (e != CUDA_SUCCESS) {
        m->module = NULL;
        st = refused(m, e, log, err);
    }
done:
    och_free(log);
    och_free(text);
    if (st == OCH_OK) *out_module = m;
    else och_cuda_module_unload(m);
    return st;
}

void och_cuda_module_unload(och_module *m) {
    if (!m) return;
    och_capture_abandon("module unload");
    if (m->module && och_cuda_enter_quietly(m->device)) (void)cuda_api_of(m->device)->cuModuleUnload(m->module);
    for (cuda_function *f = m->functions, *next; f; f = next) {
        next = f->next;
        och_free(f);
    }
    pthread_mutex_destroy(&m->lock);
    och_free(m);
}

static int fact(const cuda_api *a, CUfunction f, CUfunction_attribute which) {
    int v = 0;
    return a->cuFuncGetAttribute(&v, which, f) == CUDA_SUCCESS ? v : 0;
}

och_status och_cuda_module_function(och_module *m, const char *name, och_function **out_function, och_err *err) {
    const cuda_api *a = cuda_api_of(m->device);
    och_status st = OCH_OK;
    *out_function = NULL;
    OCH_TRY(och_capture_refuse(NULL, m->device, "module function", err));
    OCH_TRY(och_cuda_enter(m->device, "module function", err));
    pthread_mutex_lock(&m->lock);
    cuda_function *f = m->functions;
    while (f && strcmp(f->base.name, name) != 0) f = f->next;
    if (!f) {
        CUfunction found = NULL;
        CUresult e = a->cuModuleGetFunction(&found, m->module, name);
        if (e != CUDA_SUCCESS) {
            st = och_cuda_fail(m->device, e, err, "module function: kernel %s in %s", name, m->what);
            if (e == CUDA_ERROR_NOT_FOUND) st = OCH_NOTFOUND;
            if (st == OCH_NOTFOUND && err) err->status = st;
        } else if (!(f = och_calloc(1, sizeof *f + strlen(name) + 1))) {
            st = och_err_nomem(err, sizeof *f + strlen(name) + 1, "a function");
        } else {
            memcpy(f + 1, name, strlen(name) + 1);
            f->base.name = (const char *)(f + 1);
            f->device = cuda_of(m->device);
            f->function = found;
            /* asked for what it is, a function is loaded now, also by a driver that puts it off (CUDA_MODULE_LOADING=LAZY) */
            f->registers = fact(a, found, CU_FUNC_ATTRIBUTE_NUM_REGS);
            f->local_bytes = fact(a, found, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
            f->static_bytes = fact(a, found, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
            f->max_group = fact(a, found, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
            f->dynamic_bytes = CUDA_SHARED_UNASKED > f->static_bytes ? (uint32_t)(CUDA_SHARED_UNASKED - f->static_bytes) : 0;
            f->next = m->functions;
            m->functions = f;
        }
    }
    pthread_mutex_unlock(&m->lock);
    if (st == OCH_OK) *out_function = &f->base;
    return st;
}

static och_status check_launch(const och_queue *q, const cuda_function *f, const och_launch *l, och_err *err) {
    const och_dev_info *i = &q->device->info;
    const cuda_device *c = f->device;
    uint64_t group = 1;
    for (int k = 0; k < 3; k++) {
        if (!l->grid[k] || !l->group[k])
            return och_err_set(err, OCH_INVALID,
                               "device %s: launch of kernel %s: grid %u x %u x %u of groups of %u x %u x %u: no "
                               "dimension may be 0",
                               i->label, f->base.name, l->grid[0], l->grid[1], l->grid[2], l->group[0], l->group[1],
                               l->group[2]);
        if ((c->max_grid[k] && l->grid[k] > c->max_grid[k]) || (c->max_group[k] && l->group[k] > c->max_group[k]))
            return och_err_set(
                err, OCH_RANGE,
                "device %s: launch of kernel %s: dimension %d has %u groups of %u work-items: at most %u "
                "groups of %u",
                i->label, f->base.name, k, l->grid[k], l->group[k], c->max_grid[k], c->max_group[k]);
        group *= OCH_MIN(l->group[k], 65536u); /* three of them fit */
    }
    uint32_t most = f->max_group ? OCH_MIN((uint32_t)f->max_group, i->max_group ? i->max_group : UINT32_MAX) : i->max_group;
    if (most && group > most)
        return och_err_set(err, OCH_RANGE,
                           "device %s: launch of kernel %s: a group of %" PRIu64
                           " work-items, at most %u (%d registers a "
                           "work-item, %d a group)",
                           i->label, f->base.name, group, most, f->registers, c->max_registers);
    uint64_t shared = (uint64_t)l->lds_bytes + (uint64_t)f->static_bytes;
    if (i->lds_bytes && shared > i->lds_bytes)
        return och_err_set(err, OCH_RANGE,
                           "device %s: launch of kernel %s: %u bytes of shared memory beside %d of its own, at most %u",
                           i->label, f->base.name, l->lds_bytes, f->static_bytes, i->lds_bytes);
    if (l->args_bytes && !l->args)
        return och_err_set(err, OCH_INVALID, "device %s: launch of kernel %s: %zu bytes of arguments at NULL", i->label,
                           f->base.name, l->args_bytes);
    return OCH_OK;
}

/* More shared memory than any kernel may have must be asked for, once a function. */
static och_status allow_shared(och_queue *queue, cuda_function *f, uint32_t n_bytes, och_err *err) {
    if (n_bytes <= __atomic_load_n(&f->dynamic_bytes, __ATOMIC_RELAXED)) return OCH_OK;
    uint32_t most = queue->device->info.lds_bytes - (uint32_t)f->static_bytes; /* check_launch saw that it is that much */
    CUresult e = cuda_api_of(queue->device)
                     ->cuFuncSetAttribute(f->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)most);
    if (e != CUDA_SUCCESS)
        return och_cuda_fail_on(cuda_queue_of(queue), e, err,
                                "launch of kernel %s: asking for %u bytes of shared memory", f->base.name, most);
    __atomic_store_n(&f->dynamic_bytes, most, __ATOMIC_RELAXED);
    return OCH_OK;
}

static och_status launch(och_queue *queue, och_function *function, const och_launch *l, och_err *err) {
    cuda_queue *q = cuda_queue_of(queue);
    cuda_function *f = (cuda_function *)function;
    const cuda_api *a = cuda_api_of(queue->device);
    if (f->device->device != cuda_of(queue->device)->device)
        return och_err_set(err, OCH_INVALID, "device %s: launch of kernel %s: it was loaded on device %s",
                           queue->device->info.label, f->base.name, f->device->base.info.label);
    OCH_TRY(check_launch(queue, f, l, err));
    OCH_TRY(och_cuda_enter(queue->device, "launch", err));
    OCH_TRY(allow_shared(queue, f, l->lds_bytes, err));
    size_t n_bytes = l->args_bytes;
    void *extra[] = {(void *)CU_LAUNCH_PARAM_BUFFER_POINTER_, (void *)(uintptr_t)l->args, (void *)CU_LAUNCH_PARAM_BUFFER_SIZE_,
                     &n_bytes, (void *)CU_LAUNCH_PARAM_END_};
    CUresult e;
    if (l->may_overlap && f->device->overlaps) {
        bool most_lds = f->device->shares_lds && (l->lds_share == OCH_LDS_MOST ||
                                                  (l->lds_share == OCH_LDS_AS_BEFORE && __atomic_load_n(&q->most_lds, __ATOMIC_RELAXED)));
        if (f->device->shares_lds) __atomic_store_n(&q->most_lds, most_lds, __ATOMIC_RELAXED);
        CUlaunchAttribute attrs[] = {{.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                      .value.programmaticStreamSerializationAllowed = 1},
                                     {.id = CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                                      .value.sharedMemCarveout = CU_SHAREDMEM_CARVEOUT_MAX_SHARED}};
        CUlaunchConfig config = {l->grid[0],   l->grid[1], l->grid[2], l->group[0], l->group[1], l->group[2],
                                 l->lds_bytes, q->stream,  attrs,      most_lds ? 2 : 1};
        e = a->cuLaunchKernelEx(&config, f->function, NULL, n_bytes ? extra : NULL);
    } else
        e = a->cuLaunchKernel(f->function, l->grid[0], l->grid[1], l->grid[2], l->group[0], l->group[1], l->group[2],
                              l->lds_bytes, q->stream, NULL, n_bytes ? extra : NULL);
    if (e != CUDA_SUCCESS)
        return och_cuda_fail_on(
            q, e, err,
            "launch of kernel %s, grid %u x %u x %u of groups of %u x %u x %u, %u bytes of shared memory "
            "beside %d of its own, %d registers and %d bytes of local memory a work-item",
            f->base.name, l->grid[0], l->grid[1], l->grid[2], l->group[0], l->group[1], l->group[2], l->lds_bytes,
            f->static_bytes, f->registers, f->local_bytes);
    bool records = och_capture_records(&q->capture);
    pthread_mutex_lock(&q->lock);
    och_ring_add(records ? &q->captured : &q->ring, f->base.name);
    pthread_mutex_unlock(&q->lock);
    return f->device->synchronous && !records ? och_cuda_synchronise(queue, err) : OCH_OK;
}

och_status och_cuda_launch(och_queue *queue, och_function *function, const och_launch *l, och_err *err) {
    och_capture *c = &cuda_queue_of(queue)->capture;
    OCH_TRY(och_capture_admit(c, "launch", err));
    return och_capture_result(c, "launch", launch(queue, function, l, err));
}

static och_status lend(och_queue *queue, const char *name, och_status (*give)(void *user, void *stream, och_err *err), void *user,
                       och_err *err) {
    cuda_queue *q = cuda_queue_of(queue);
    OCH_TRY(och_cuda_enter(queue->device, name, err));
    OCH_TRY(give(user, q->stream, err));
    bool records = och_capture_records(&q->capture);
    pthread_mutex_lock(&q->lock);
    och_ring_add(records ? &q->captured : &q->ring, name);
    pthread_mutex_unlock(&q->lock);
    return cuda_of(queue->device)->synchronous && !records ? och_cuda_synchronise(queue, err) : OCH_OK;
}

och_status och_cuda_lend(och_queue *queue, const char *name, och_status (*give)(void *user, void *stream, och_err *err), void *user,
                        och_err *err) {
    och_capture *c = &cuda_queue_of(queue)->capture;
    OCH_TRY(och_capture_admit(c, name, err));
    return och_capture_result(c, name, lend(queue, name, give, user, err));
}
