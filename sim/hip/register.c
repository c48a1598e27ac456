/* What a compiled program registers before main: fat binaries, kernels, variables. Nothing is loaded until it is used. */
#include "hip/hip.h"

#include <stdio.h>
#include <string.h>

#define FAT_MAGIC 0x48495046u /* "FPIH" in memory */

typedef struct fat_wrapper {
    uint32_t magic, version;
    const void *binary;
    void *unused;
} fat_wrapper;

typedef enum symbol_kind { SYMBOL_FUNCTION, SYMBOL_VARIABLE, SYMBOL_MANAGED } symbol_kind;
typedef struct fat_binary fat_binary;
typedef struct symbol {
    struct symbol *next;       /* of the hash chain */
    const void *host;
    symbol_kind kind;
    fat_binary *fat;
    char *name;
    size_t size;
    struct symbol *next_managed; /* of the fat binary */
    void **pointer;              /* managed: the program's pointer */
} symbol;

struct fat_binary {
    const void *image;
    hipModule_t modules[SIM_HIP_MAX_DEVICES];
    hipError_t failed[SIM_HIP_MAX_DEVICES];
    symbol *managed;
};

#define N_CHAINS 1024
static symbol *chains[N_CHAINS];
/* Loading is once a device; its own lock, taken before sim_hip.lock. */
static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;

static symbol **chain_of(const void *p) { return &chains[((uintptr_t)p >> 3) * 0x9E3779B97F4A7C15ull >> 54]; }

void **sim___hipRegisterFatBinary(const void *data) {
    const fat_wrapper *w = data;
    if (!w || w->magic != FAT_MAGIC || w->version != 1) {
        fprintf(stderr, "ochre-sim: __hipRegisterFatBinary: expected magic 0x%x version 1, found 0x%x version %u\n", FAT_MAGIC,
                w ? w->magic : 0, w ? w->version : 0);
        return NULL;
    }
    fat_binary *f = och_calloc(1, sizeof *f);
    if (f) f->image = w->binary;
    return (void **)f;
}

static symbol *add_symbol(void **modules, const void *host, symbol_kind kind, const char *name, size_t size) {
    if (!modules || !host || !name) return NULL;
    symbol *s = och_calloc(1, sizeof *s);
    char *copy = och_strdup(name);
    if (!s || !copy) {
        och_free(s);
        och_free(copy);
        fprintf(stderr, "ochre-sim: out of memory while %s is registered\n", name);
        return NULL;
    }
    s->host = host;
    s->kind = kind;
    s->fat = (fat_binary *)modules;
    s->name = copy;
    s->size = size;
    pthread_mutex_lock(&load_lock);
    symbol **chain = chain_of(host);
    s->next = *chain;
    *chain = s;
    pthread_mutex_unlock(&load_lock);
    return s;
}

void sim___hipRegisterFunction(void **modules, const void *hostFunction, char *deviceFunction, const char *deviceName,
                               unsigned int threadLimit, uint3 *tid, uint3 *bid, dim3 *blockDim, dim3 *gridDim, int *wSize) {
    (void)deviceFunction, (void)threadLimit, (void)tid, (void)bid, (void)blockDim, (void)gridDim, (void)wSize;
    add_symbol(modules, hostFunction, SYMBOL_FUNCTION, deviceName, 0);
}

void sim___hipRegisterVar(void **modules, void *var, char *hostVar, char *deviceVar, int ext, size_t size, int constant,
                          int global) {
    (void)hostVar, (void)ext, (void)constant, (void)global;
    add_symbol(modules, var, SYMBOL_VARIABLE, deviceVar, size);
}

void sim___hipRegisterSurface(void **modules, void *var, char *hostVar, char *deviceVar, int type, int ext) {
    (void)hostVar, (void)type, (void)ext;
    add_symbol(modules, var, SYMBOL_VARIABLE, deviceVar, 8);
}

void sim___hipRegisterTexture(void **modules, void *var, char *hostVar, char *deviceVar, int type, int norm, int ext) {
    (void)hostVar, (void)type, (void)norm, (void)ext;
    add_symbol(modules, var, SYMBOL_VARIABLE, deviceVar, 8);
}

/* The host may use a managed variable before any call: its memory is made now. */
void sim___hipRegisterManagedVar(void *hipModule, void **pointer, void *init_value, const char *name, size_t size,
                                 unsigned align) {
    if (!pointer || !sim_hip_init() || !sim_hip.n_devices) return;
    uint64_t addr;
    if (sim_memory_alloc(&sim_hip.devices[0], size, align < 256 ? 256 : align, SIM_MEM_MANAGED, hipMemAttachGlobal,
                         &addr) != hipSuccess) {
        fprintf(stderr, "ochre-sim: no memory for the managed variable %s (%zu bytes)\n", name, size);
        return;
    }
    *pointer = (void *)(uintptr_t)addr;
    if (init_value) memcpy(*pointer, init_value, size);
    symbol *s = add_symbol(hipModule, pointer, SYMBOL_MANAGED, name, size);
    if (!s) return;
    s->pointer = pointer;
    s->next_managed = s->fat->managed;
    s->fat->managed = s;
}

/* Gives the device's pointers of managed variables their values. */
static void set_managed(fat_binary *f, hipModule_t m) {
    for (symbol *s = f->managed; s; s = s->next_managed) {
        uint64_t addr, size;
        och_err err;
        och_err_clear(&err);
        if (sim_module_global(m->mod, s->name, &addr, &size, &err) != OCH_OK) continue; /* not used by the device code */
        uint64_t *at = size >= 8 ? sim_space_host(sim_hip.space, addr, 8) : NULL;
        if (at) memcpy(at, s->pointer, 8);
    }
}

/* The fat binary's module on d, loaded at its first use. load_lock held. */
static hipError_t module_on(fat_binary *f, sim_device *d, hipModule_t *out) {
    int i = d->ordinal;
    if (!f->modules[i] && f->failed[i] == hipSuccess) {
        f->failed[i] = sim_module_open(d, f->image, 0, &f->modules[i]);
        if (f->modules[i]) set_managed(f, f->modules[i]);
    }
    *out = f->modules[i];
    return f->failed[i];
}

static hipError_t find_symbol(const void *host, bool function, symbol **out_symbol, hipModule_t *out_module) {
    sim_device *d = sim_device_current();
    hipError_t missing = function ? hipErrorInvalidDeviceFunction : hipErrorInvalidSymbol;
    if (!d) return hipErrorNoDevice;
    pthread_mutex_lock(&load_lock);
    symbol *s = *chain_of(host);
    while (s && (s->host != host || (s->kind == SYMBOL_FUNCTION) != function)) s = s->next;
    hipError_t e = s ? module_on(s->fat, d, out_module) : missing;
    pthread_mutex_unlock(&load_lock);
    *out_symbol = s;
    return e;
}

hipError_t sim_host_function_get(const void *host, hipFunction_t *out) {
    symbol *s;
    hipModule_t m;
    if (!host) return hipErrorInvalidDeviceFunction;
    hipError_t e = find_symbol(host, true, &s, &m);
    if (e == hipErrorNoBinaryForGpu || e != hipSuccess) return e;
    e = sim_module_function(m, s->name, out);
    return e == hipErrorNotFound ? hipErrorInvalidDeviceFunction : e;
}

hipFunction_t sim_host_function(const void *host) {
    hipFunction_t f;
    return sim_function_any(host, &f) == hipSuccess ? f : NULL;
}

hipError_t sim_host_variable(const void *host, uint64_t *out_addr, size_t *out_bytes) {
    symbol *s;
    hipModule_t m;
    if (!host) return hipErrorInvalidSymbol;
    hipError_t e = find_symbol(host, false, &s, &m);
    if (e != hipSuccess) return e;
    if (s->kind == SYMBOL_MANAGED) {
        *out_addr = (uint64_t)(uintptr_t)*s->pointer;
        *out_bytes = s->size;
        return hipSuccess;
    }
    uint64_t size;
    och_err err;
    och_err_clear(&err);
    if (sim_module_global(m->mod, s->name, out_addr, &size, &err) != OCH_OK) return hipErrorInvalidSymbol;
    *out_bytes = size;
    return hipSuccess;
}

/* At exit, or when a library that registered is closed. */
void sim___hipUnregisterFatBinary(void **modules) {
    fat_binary *f = (fat_binary *)modules;
    if (!f) return;
    pthread_mutex_lock(&load_lock);
    for (size_t i = 0; i < N_CHAINS; i++)
        for (symbol **p = &chains[i]; *p;) {
            symbol *s = *p;
            if (s->fat != f) {
                p = &s->next;
                continue;
            }
            *p = s->next;
            if (s->kind == SYMBOL_MANAGED) (void)sim_memory_free((uint64_t)(uintptr_t)*s->pointer);
            och_free(s->name);
            och_free(s);
        }
    pthread_mutex_unlock(&load_lock);
    pthread_mutex_lock(&sim_hip.lock);
    for (int i = 0; i < SIM_HIP_MAX_DEVICES; i++)
        if (f->modules[i]) {
            sim_device_wait(f->modules[i]->dev);
            sim_module_unref(f->modules[i]);
        }
    pthread_mutex_unlock(&sim_hip.lock);
    och_free(f);
}

/* ---- launches in the compiler's form ---- */
hipError_t sim___hipPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem, hipStream_t stream) {
    sim_thread *t = sim_thread_get();
    if (t->n_config == (int)OCH_COUNT(t->config)) return hipErrorOutOfMemory;
    t->config[t->n_config++] = (struct sim_call_config){gridDim, blockDim, sharedMem, stream};
    return hipSuccess;
}

hipError_t sim___hipPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem, hipStream_t *stream) {
    sim_thread *t = sim_thread_get();
    if (!t->n_config) return hipErrorMissingConfiguration;
    struct sim_call_config *c = &t->config[--t->n_config];
    *gridDim = c->grid;
    *blockDim = c->block;
    *sharedMem = c->shared;
    *stream = c->stream;
    return hipSuccess;
}

hipError_t sim_hipConfigureCall(dim3 gridDim, dim3 blockDim, size_t sharedMem, hipStream_t stream) {
    sim_thread *t = sim_thread_get();
    t->args_bytes = 0;
    return sim___hipPushCallConfiguration(gridDim, blockDim, sharedMem, stream);
}

hipError_t sim_hipSetupArgument(const void *arg, size_t size, size_t offset) {
    sim_thread *t = sim_thread_get();
    if (!arg || !t->n_config) return hipErrorInvalidValue;
    if (offset + size > t->args_bytes) {
        uint8_t *p = och_realloc(t->args, offset + size);
        if (!p) return hipErrorOutOfMemory;
        memset(p + t->args_bytes, 0, offset + size - t->args_bytes);
        t->args = p;
        t->args_bytes = offset + size;
    }
    memcpy((uint8_t *)t->args + offset, arg, size);
    return hipSuccess;
}

hipError_t sim_hipLaunchByPtr(const void *func) {
    sim_thread *t = sim_thread_get();
    dim3 grid, block;
    size_t shared;
    hipStream_t stream;
    hipError_t e = sim___hipPopCallConfiguration(&grid, &block, &shared, &stream);
    hipFunction_t f;
    if (e == hipSuccess) e = sim_host_function_get(func, &f);
    if (e != hipSuccess) return e;
    void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, t->args, HIP_LAUNCH_PARAM_BUFFER_SIZE, &t->args_bytes,
                     HIP_LAUNCH_PARAM_END};
    return sim_hipModuleLaunchKernel(f, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared, stream, NULL,
                                     extra);
}
