/* Modules and their functions. */
#include "hip/hip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Why a code object was refused, as HIP says it; the text goes to stderr, since HIP's codes say little. */
static hipError_t load_code(const och_err *err) {
    fprintf(stderr, "ochre-sim: %s\n", err->message);
    switch (err->status) {
    case OCH_NOMEM: return hipErrorOutOfMemory;
    case OCH_UNSUPPORTED: return hipErrorNoBinaryForGpu;
    default: return hipErrorInvalidImage;
    }
}

/* A quirk: runtimes too old for a code object version refuse it. */
static hipError_t refuse_version(const void *image, size_t n_bytes) {
    const sim_quirk *q = &sim_hip.quirks.q[SIM_QUIRK_no_object];
    if (!q->on) return hipSuccess;
    och_obj_bundle bundle;
    och_err err;
    och_err_clear(&err);
    if (och_obj_bundle_open(image, n_bytes, &bundle, &err) != OCH_OK) return load_code(&err);
    hipError_t e = hipSuccess;
    for (size_t i = 0; i < bundle.n_entries; i++) {
        const och_obj_entry *entry = &bundle.entries[i];
        /* EI_ABIVERSION: 2 is version 4, 3 version 5, 4 version 6 */
        if (entry->target[0] && entry->n_bytes > 8 && entry->bytes[8] + 2u >= q->value) {
            fprintf(stderr, "ochre-sim: code object version %u refused, as OCHRE_SIM_QUIRKS asks\n", entry->bytes[8] + 2u);
            e = hipErrorInvalidImage;
            break;
        }
    }
    och_obj_bundle_close(&bundle);
    return e;
}

hipError_t sim_module_open(sim_device *dev, const void *image, size_t n_bytes, hipModule_t *out) {
    hipError_t e = refuse_version(image, n_bytes);
    if (e != hipSuccess) return e;
    hipModule_t m = och_calloc(1, sizeof *m);
    if (!m) return hipErrorOutOfMemory;
    och_err err;
    och_err_clear(&err);
    if (sim_module_load(sim_hip.space, &dev->board, dev->ordinal, image, n_bytes, &m->mod, &err) != OCH_OK) {
        och_free(m);
        return load_code(&err);
    }
    m->dev = dev;
    m->refs = 1;
    *out = m;
    return hipSuccess;
}

void sim_module_ref(hipModule_t m) { m->refs++; }

void sim_module_unref(hipModule_t m) {
    if (!m || --m->refs) return;
    while (m->functions) {
        hipFunction_t f = m->functions;
        m->functions = f->next;
        sim_handle_remove(f);
        och_free(f);
    }
    sim_module_unload(m->mod);
    och_free(m);
}

hipError_t sim_module_function(hipModule_t m, const char *name, hipFunction_t *out) {
    const sim_kernel *k;
    och_err err;
    och_err_clear(&err);
    och_status st = sim_module_kernel(m->mod, name, &k, &err);
    if (st == OCH_NOTFOUND) return hipErrorNotFound;
    if (st != OCH_OK) {
        fprintf(stderr, "ochre-sim: %s\n", err.message);
        return st == OCH_NOMEM ? hipErrorOutOfMemory : st == OCH_UNSUPPORTED ? hipErrorNotSupported : hipErrorInvalidImage;
    }
    pthread_mutex_lock(&sim_hip.lock);
    hipFunction_t f = m->functions;
    while (f && f->kernel != k) f = f->next;
    if (!f) {
        f = och_calloc(1, sizeof *f);
        if (!f || !sim_handle_add(f, SIM_H_FUNCTION)) {
            och_free(f);
            pthread_mutex_unlock(&sim_hip.lock);
            return hipErrorOutOfMemory;
        }
        f->module = m;
        f->kernel = k;
        f->info = sim_module_kernel_info(m->mod, k);
        f->carveout = -1;
        f->next = m->functions;
        m->functions = f;
    }
    pthread_mutex_unlock(&sim_hip.lock);
    *out = f;
    return hipSuccess;
}

static bool is_module(hipModule_t m) {
    pthread_mutex_lock(&sim_hip.lock);
    bool ok = sim_handle_is(m, SIM_H_MODULE);
    pthread_mutex_unlock(&sim_hip.lock);
    return ok;
}

static hipError_t load_bytes(hipModule_t *module, const void *image, size_t n_bytes) {
    hipModule_t m;
    hipError_t e = sim_module_open(sim_device_current(), image, n_bytes, &m);
    if (e != hipSuccess) return e;
    pthread_mutex_lock(&sim_hip.lock);
    bool ok = sim_handle_add(m, SIM_H_MODULE);
    if (!ok) sim_module_unref(m);
    pthread_mutex_unlock(&sim_hip.lock);
    if (!ok) return hipErrorOutOfMemory;
    *module = m;
    return hipSuccess;
}

hipError_t sim_hipModuleLoadData(hipModule_t *module, const void *image) {
    return module && image ? load_bytes(module, image, 0) : hipErrorInvalidValue;
}

hipError_t sim_module_load_options(hipModule_t *module, const void *image, unsigned n_options) {
    (void)n_options; /* compilers' options: nothing is compiled */
    return sim_hipModuleLoadData(module, image);
}

hipError_t sim_file_read(const char *path, void **out, size_t *out_bytes) {
    FILE *f = fopen(path, "rb");
    if (!f) return hipErrorFileNotFound;
    struct stat st;
    if (fstat(fileno(f), &st) || !S_ISREG(st.st_mode)) {
        fclose(f);
        return hipErrorFileNotFound;
    }
    size_t n = (size_t)st.st_size;
    void *bytes = och_malloc(n + 1);
    if (!bytes) {
        fclose(f);
        return hipErrorOutOfMemory;
    }
    bool ok = fread(bytes, 1, n, f) == n;
    fclose(f);
    if (!ok || !n) {
        och_free(bytes);
        return ok ? hipErrorInvalidImage : hipErrorFileNotFound;
    }
    *out = bytes;
    *out_bytes = n;
    return hipSuccess;
}

hipError_t sim_hipModuleLoad(hipModule_t *module, const char *fname) {
    if (!module || !fname) return hipErrorInvalidValue;
    void *bytes;
    size_t n;
    hipError_t e = sim_file_read(fname, &bytes, &n);
    if (e != hipSuccess) return e;
    e = load_bytes(module, bytes, n);
    och_free(bytes);
    return e;
}

hipError_t sim_hipModuleUnload(hipModule_t module) {
    if (!is_module(module)) return hipErrorInvalidHandle;
    pthread_mutex_lock(&sim_hip.lock);
    sim_handle_remove(module);
    sim_device_wait(module->dev);
    sim_module_unref(module);
    pthread_mutex_unlock(&sim_hip.lock);
    return hipSuccess;
}

hipError_t sim_hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *kname) {
    if (!function || !kname || !*kname) return hipErrorInvalidValue;
    if (!is_module(module)) return hipErrorInvalidHandle;
    return sim_module_function(module, kname, function);
}

hipError_t sim_hipModuleGetFunctionCount(unsigned int *count, hipModule_t mod) {
    if (!count) return hipErrorInvalidValue;
    if (!is_module(mod)) return hipErrorInvalidHandle;
    *count = (unsigned)sim_module_n_kernels(mod->mod);
    return hipSuccess;
}

hipError_t sim_hipModuleEnumerateFunctions(hipFunction_t *functions, unsigned int numFunctions, hipModule_t mod) {
    if (!functions || !numFunctions) return hipErrorInvalidValue;
    if (!is_module(mod)) return hipErrorInvalidHandle;
    size_t n = sim_module_n_kernels(mod->mod);
    for (size_t i = 0; i < n && i < numFunctions; i++) {
        hipError_t e = sim_module_function(mod, sim_module_kernel_name(mod->mod, i), &functions[i]);
        if (e != hipSuccess) return e;
    }
    return hipSuccess;
}

hipError_t sim_hipModuleGetGlobal(hipDeviceptr_t *dptr, size_t *bytes, hipModule_t hmod, const char *name) {
    if ((!dptr && !bytes) || !name) return hipErrorInvalidValue;
    if (!is_module(hmod)) return hipErrorInvalidHandle;
    uint64_t addr, size;
    och_err err;
    och_err_clear(&err);
    if (sim_module_global(hmod->mod, name, &addr, &size, &err) != OCH_OK) return hipErrorNotFound;
    if (dptr) *dptr = (void *)(uintptr_t)addr;
    if (bytes) *bytes = size;
    return hipSuccess;
}

/* ---- what a function says of itself ---- */
hipError_t sim_function_any(const void *f, hipFunction_t *out) {
    pthread_mutex_lock(&sim_hip.lock);
    bool handle = sim_handle_is(f, SIM_H_FUNCTION), kernel = sim_handle_is(f, SIM_H_KERNEL);
    pthread_mutex_unlock(&sim_hip.lock);
    if (handle) {
        *out = (hipFunction_t)(uintptr_t)f;
        return hipSuccess;
    }
    if (kernel) return sim_kernel_function((hipKernel_t)(uintptr_t)f, out);
    return sim_host_function_get(f, out);
}

static hipError_t function_of(const void *f, hipFunction_t *out) {
    return f ? sim_function_any(f, out) : hipErrorInvalidDeviceFunction;
}

static int value_of(hipFunction_t f, hipFunction_attribute attrib, bool *ok) {
    const sim_board *b = &f->module->dev->board;
    int dynamic = (int)b->lds_group_bytes - (int)f->kernel->lds_bytes;
    switch (attrib) {
    case HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return (int)f->kernel->max_flat_workgroup_size;
    case HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: return (int)f->kernel->lds_bytes;
    case HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: return 0;
    case HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: return (int)f->kernel->scratch_bytes;
    case HIP_FUNC_ATTRIBUTE_NUM_REGS: return (int)f->info->vgprs;
    case HIP_FUNC_ATTRIBUTE_PTX_VERSION:
    case HIP_FUNC_ATTRIBUTE_BINARY_VERSION: return f->module->dev->major * 10 + f->module->dev->minor;
    case HIP_FUNC_ATTRIBUTE_CACHE_MODE_CA: return 0;
    case HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: return f->max_dynamic_lds ? f->max_dynamic_lds : dynamic;
    case HIP_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: return f->carveout < 0 ? 0 : f->carveout;
    default: *ok = false; return 0;
    }
}

hipError_t sim_hipFuncGetAttribute(int *value, hipFunction_attribute attrib, hipFunction_t hfunc) {
    hipFunction_t f;
    if (!value) return hipErrorInvalidValue;
    hipError_t e = function_of(hfunc, &f);
    if (e != hipSuccess) return e;
    bool ok = true;
    int v = value_of(f, attrib, &ok);
    if (!ok) return hipErrorInvalidValue;
    *value = v;
    return hipSuccess;
}

hipError_t sim_hipFuncGetAttributes(hipFuncAttributes *attr, const void *func) {
    hipFunction_t f;
    if (!attr) return hipErrorInvalidValue;
    hipError_t e = function_of(func, &f);
    if (e != hipSuccess) return e;
    bool ok = true;
    memset(attr, 0, sizeof *attr);
    attr->binaryVersion = value_of(f, HIP_FUNC_ATTRIBUTE_BINARY_VERSION, &ok);
    attr->localSizeBytes = (size_t)value_of(f, HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &ok);
    attr->maxDynamicSharedSizeBytes = value_of(f, HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &ok);
    attr->maxThreadsPerBlock = value_of(f, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &ok);
    attr->numRegs = value_of(f, HIP_FUNC_ATTRIBUTE_NUM_REGS, &ok);
    attr->preferredShmemCarveout = value_of(f, HIP_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, &ok);
    attr->ptxVersion = attr->binaryVersion;
    attr->sharedSizeBytes = (size_t)value_of(f, HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &ok);
    return hipSuccess;
}

hipError_t sim_hipFuncSetAttribute(const void *func, hipFuncAttribute attr, int value) {
    hipFunction_t f;
    hipError_t e = function_of(func, &f);
    if (e != hipSuccess) return e;
    int most = (int)f->module->dev->board.lds_group_bytes - (int)f->kernel->lds_bytes;
    switch (attr) {
    case hipFuncAttributeMaxDynamicSharedMemorySize:
        if (value < 0 || value > most) return hipErrorInvalidValue;
        f->max_dynamic_lds = value;
        return hipSuccess;
    case hipFuncAttributePreferredSharedMemoryCarveout:
        if (value < -1 || value > 100) return hipErrorInvalidValue;
        f->carveout = value;
        return hipSuccess;
    default: return hipErrorInvalidValue;
    }
}

hipError_t sim_hipFuncSetCacheConfig(const void *func, hipFuncCache_t config) {
    hipFunction_t f;
    if ((unsigned)config > hipFuncCachePreferEqual) return hipErrorInvalidValue;
    return function_of(func, &f);
}

hipError_t sim_hipFuncSetSharedMemConfig(const void *func, hipSharedMemConfig config) {
    hipFunction_t f;
    if ((unsigned)config > hipSharedMemBankSizeEightByte) return hipErrorInvalidValue;
    return function_of(func, &f);
}

hipError_t sim_hipGetFuncBySymbol(hipFunction_t *functionPtr, const void *symbolPtr) {
    if (!functionPtr) return hipErrorInvalidValue;
    return sim_host_function_get(symbolPtr, functionPtr);
}

const char *sim_hipKernelNameRef(const hipFunction_t f) {
    hipFunction_t g;
    return f && sim_hip_init() && sim_function_any(f, &g) == hipSuccess ? g->kernel->name : NULL;
}

const char *sim_hipKernelNameRefByPtr(const void *hostFunction, hipStream_t stream) {
    (void)stream;
    hipFunction_t f;
    return hostFunction && sim_hip_init() && sim_host_function_get(hostFunction, &f) == hipSuccess ? f->kernel->name : NULL;
}
