/* The library API: code objects as libraries whose kernels serve any device, loaded on each at its first use there. */
#include "hip/hip.h"

#include <string.h>

struct ihipKernel_t {
    struct ihipKernel_t *next;
    hipLibrary_t library;
    char *name;
};
struct ihipLibrary_t {
    void *image;
    size_t n_bytes;
    hipModule_t modules[SIM_HIP_MAX_DEVICES];
    struct ihipKernel_t *kernels; /* handles given out so far */
};

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_library(hipLibrary_t l) {
    pthread_mutex_lock(&sim_hip.lock);
    bool ok = sim_handle_is(l, SIM_H_LIBRARY);
    pthread_mutex_unlock(&sim_hip.lock);
    return ok;
}
static bool is_kernel(hipKernel_t k) {
    pthread_mutex_lock(&sim_hip.lock);
    bool ok = sim_handle_is(k, SIM_H_KERNEL);
    pthread_mutex_unlock(&sim_hip.lock);
    return ok;
}

static hipError_t module_of(hipLibrary_t l, hipModule_t *out) {
    sim_device *d = sim_device_current();
    if (!d) return hipErrorNoDevice;
    pthread_mutex_lock(&load_lock);
    hipError_t e = hipSuccess;
    if (!l->modules[d->ordinal]) e = sim_module_open(d, l->image, l->n_bytes, &l->modules[d->ordinal]);
    *out = l->modules[d->ordinal];
    pthread_mutex_unlock(&load_lock);
    return e;
}

/* Takes bytes (n 0: their size is in the image, which then stays the caller's). */
static hipError_t library_new(void *image, size_t n, hipLibrary_t *out) {
    hipLibrary_t l = och_calloc(1, sizeof *l);
    if (!l) return hipErrorOutOfMemory;
    l->image = image;
    l->n_bytes = n;
    pthread_mutex_lock(&sim_hip.lock);
    bool ok = sim_handle_add(l, SIM_H_LIBRARY);
    pthread_mutex_unlock(&sim_hip.lock);
    if (!ok) {
        och_free(l);
        return hipErrorOutOfMemory;
    }
    *out = l;
    return hipSuccess;
}

hipError_t sim_hipLibraryLoadData(hipLibrary_t *library, const void *code, hipJitOption *jitOptions, void **jitOptionsValues,
                                  unsigned int numJitOptions, hipLibraryOption *libraryOptions, void **libraryOptionValues,
                                  unsigned int numLibraryOptions) {
    (void)jitOptions, (void)jitOptionsValues, (void)libraryOptionValues;
    if (!library || !code || numJitOptions || (numLibraryOptions && !libraryOptions)) return hipErrorInvalidValue;
    /* an image carries no length: its bundle tells where it ends; it is copied when it is loaded, which is now */
    hipError_t e = library_new((void *)(uintptr_t)code, 0, library);
    if (e != hipSuccess) return e;
    hipModule_t m;
    e = module_of(*library, &m);
    /* an image that is refused is so again, and says so, when a kernel of it is asked for: as where loading is lazy */
    if (e != hipErrorOutOfMemory) return hipSuccess;
    (void)sim_hipLibraryUnload(*library);
    return e;
}

hipError_t sim_hipLibraryLoadFromFile(hipLibrary_t *library, const char *fileName, hipJitOption *jitOptions,
                                      void **jitOptionsValues,
                                      unsigned int numJitOptions, hipLibraryOption *libraryOptions, void **libraryOptionValues,
                                      unsigned int numLibraryOptions) {
    (void)jitOptions, (void)jitOptionsValues, (void)libraryOptionValues;
    if (!library || !fileName || numJitOptions || (numLibraryOptions && !libraryOptions)) return hipErrorInvalidValue;
    void *bytes;
    size_t n;
    hipError_t e = sim_file_read(fileName, &bytes, &n);
    if (e != hipSuccess) return e == hipErrorFileNotFound ? hipErrorInvalidValue : e;
    e = library_new(bytes, n, library);
    if (e != hipSuccess) och_free(bytes);
    return e;
}

hipError_t sim_hipLibraryUnload(hipLibrary_t library) {
    if (!is_library(library)) return hipErrorInvalidHandle;
    pthread_mutex_lock(&sim_hip.lock);
    sim_handle_remove(library);
    for (int i = 0; i < SIM_HIP_MAX_DEVICES; i++)
        if (library->modules[i]) {
            sim_device_wait(library->modules[i]->dev);
            sim_module_unref(library->modules[i]);
        }
    while (library->kernels) {
        hipKernel_t k = library->kernels;
        library->kernels = k->next;
        sim_handle_remove(k);
        och_free(k->name);
        och_free(k);
    }
    pthread_mutex_unlock(&sim_hip.lock);
    if (library->n_bytes) och_free(library->image);
    och_free(library);
    return hipSuccess;
}

static hipError_t kernel_handle(hipLibrary_t l, const char *name, hipKernel_t *out) {
    pthread_mutex_lock(&sim_hip.lock);
    hipKernel_t k = l->kernels;
    while (k && strcmp(k->name, name) != 0) k = k->next;
    if (!k) {
        k = och_calloc(1, sizeof *k);
        if (!k || !(k->name = och_strdup(name)) || !sim_handle_add(k, SIM_H_KERNEL)) {
            if (k) och_free(k->name);
            och_free(k);
            pthread_mutex_unlock(&sim_hip.lock);
            return hipErrorOutOfMemory;
        }
        k->library = l;
        k->next = l->kernels;
        l->kernels = k;
    }
    pthread_mutex_unlock(&sim_hip.lock);
    *out = k;
    return hipSuccess;
}

hipError_t sim_hipLibraryGetKernel(hipKernel_t *pKernel, hipLibrary_t library, const char *name) {
    if (!pKernel || !name) return hipErrorInvalidValue;
    if (!is_library(library)) return hipErrorInvalidHandle;
    hipModule_t m;
    hipFunction_t f;
    hipError_t e = module_of(library, &m);
    if (e == hipSuccess) e = sim_module_function(m, name, &f);
    return e == hipSuccess ? kernel_handle(library, name, pKernel) : e;
}

hipError_t sim_hipLibraryGetKernelCount(unsigned int *count, hipLibrary_t library) {
    if (!count) return hipErrorInvalidValue;
    if (!is_library(library)) return hipErrorInvalidHandle;
    hipModule_t m;
    hipError_t e = module_of(library, &m);
    if (e == hipSuccess) *count = (unsigned)sim_module_n_kernels(m->mod);
    return e;
}

hipError_t sim_hipLibraryEnumerateKernels(hipKernel_t *kernels, unsigned int numKernels, hipLibrary_t library) {
    if (!kernels || !numKernels) return hipErrorInvalidValue;
    if (!is_library(library)) return hipErrorInvalidHandle;
    hipModule_t m;
    hipError_t e = module_of(library, &m);
    for (size_t i = 0; e == hipSuccess && i < numKernels && i < sim_module_n_kernels(m->mod); i++)
        e = kernel_handle(library, sim_module_kernel_name(m->mod, i), &kernels[i]);
    return e;
}

hipError_t sim_hipLibraryGetGlobal(void **dptr, size_t *bytes, hipLibrary_t library, const char *name) {
    if ((!dptr && !bytes) || !name) return hipErrorInvalidValue;
    if (!is_library(library)) return hipErrorInvalidHandle;
    hipModule_t m;
    hipError_t e = module_of(library, &m);
    if (e != hipSuccess) return e;
    uint64_t addr, size;
    och_err err;
    och_err_clear(&err);
    if (sim_module_global(m->mod, name, &addr, &size, &err) != OCH_OK) return hipErrorNotFound;
    if (dptr) *dptr = (void *)(uintptr_t)addr;
    if (bytes) *bytes = size;
    return hipSuccess;
}

/* Managed variables need the program's registration, which a library has not. */
hipError_t sim_hipLibraryGetManaged(void **dptr, size_t *bytes, hipLibrary_t library, const char *name) {
    if ((!dptr && !bytes) || !name) return hipErrorInvalidValue;
    return is_library(library) ? hipErrorNotFound : hipErrorInvalidHandle;
}

hipError_t sim_kernel_function(hipKernel_t k, hipFunction_t *out) {
    if (!is_kernel(k)) return hipErrorInvalidHandle;
    hipModule_t m;
    hipError_t e = module_of(k->library, &m);
    return e == hipSuccess ? sim_module_function(m, k->name, out) : e;
}

hipError_t sim_hipKernelGetFunction(hipFunction_t *pFunc, hipKernel_t kernel) {
    return pFunc ? sim_kernel_function(kernel, pFunc) : hipErrorInvalidValue;
}

hipError_t sim_hipKernelGetName(const char **name, hipKernel_t kernel) {
    if (!name) return hipErrorInvalidValue;
    if (!is_kernel(kernel)) return hipErrorInvalidHandle;
    *name = kernel->name;
    return hipSuccess;
}

hipError_t sim_hipKernelGetLibrary(hipLibrary_t *library, hipKernel_t kernel) {
    if (!library) return hipErrorInvalidValue;
    if (!is_kernel(kernel)) return hipErrorInvalidHandle;
    *library = kernel->library;
    return hipSuccess;
}

hipError_t sim_hipKernelGetParamInfo(hipKernel_t kernel, size_t paramIndex, size_t *paramOffset, size_t *paramSize) {
    hipFunction_t f;
    if (!paramOffset) return hipErrorInvalidValue;
    hipError_t e = sim_kernel_function(kernel, &f);
    if (e != hipSuccess) return e;
    if (paramIndex >= f->info->n_args || f->info->args[paramIndex].kind >= OCH_ARG_HIDDEN_FIRST) return hipErrorInvalidValue;
    *paramOffset = f->info->args[paramIndex].offset;
    if (paramSize) *paramSize = f->info->args[paramIndex].size;
    return hipSuccess;
}

hipError_t sim_hipKernelGetAttribute(int *pi, hipFunction_attribute attrib, hipKernel_t kernel, hipDevice_t dev) {
    sim_thread *t = sim_thread_get();
    if (!sim_device_at(dev)) return hipErrorInvalidDevice;
    int before = t->device;
    t->device = dev;
    hipFunction_t f;
    hipError_t e = sim_kernel_function(kernel, &f);
    t->device = before;
    return e == hipSuccess ? sim_hipFuncGetAttribute(pi, attrib, f) : e;
}
