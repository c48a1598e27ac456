/* Devices and contexts. */
#include "hip/hip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

hipError_t sim_hipInit(unsigned int flags) {
    if (flags) return hipErrorInvalidValue;
    return sim_hip.n_devices ? hipSuccess : hipErrorNoDevice;
}

/* major * 10,000,000 + minor * 100,000 + patch */
static int version_number(void) {
    return sim_hip_at_least(7) ? 70200000 : sim_hip_at_least(6) ? 60300000 : 50200000;
}

hipError_t sim_hipDriverGetVersion(int *driverVersion) {
    if (!driverVersion) return hipErrorInvalidValue;
    *driverVersion = version_number();
    return hipSuccess;
}
hipError_t sim_hipRuntimeGetVersion(int *runtimeVersion) { return sim_hipDriverGetVersion(runtimeVersion); }

hipError_t sim_hipGetDeviceCount(int *count) {
    if (!count) return hipErrorInvalidValue;
    *count = sim_hip.n_devices;
    return sim_hip.n_devices ? hipSuccess : hipErrorNoDevice;
}

hipError_t sim_hipSetDevice(int deviceId) {
    if (!sim_device_at(deviceId)) return hipErrorInvalidDevice;
    sim_thread_get()->device = deviceId;
    return hipSuccess;
}

hipError_t sim_hipGetDevice(int *deviceId) {
    if (!deviceId) return hipErrorInvalidValue;
    if (!sim_hip.n_devices) return hipErrorNoDevice;
    *deviceId = sim_thread_get()->device;
    return hipSuccess;
}

hipError_t sim_hipSetValidDevices(int *device_arr, int len) {
    if (len < 0 || (len && !device_arr)) return hipErrorInvalidValue;
    for (int i = 0; i < len; i++)
        if (!sim_device_at(device_arr[i])) return hipErrorInvalidDevice;
    if (len) sim_thread_get()->device = device_arr[0];
    return hipSuccess;
}

hipError_t sim_hipInitDevice(int device, unsigned int deviceFlags, unsigned int flags) {
    if (!sim_device_at(device)) return hipErrorInvalidDevice;
    if (flags > 1) return hipErrorInvalidValue;
    if (flags) sim_hip.devices[device].flags = deviceFlags;
    return hipSuccess;
}

hipError_t sim_hipDeviceGet(hipDevice_t *device, int ordinal) {
    if (!device) return hipErrorInvalidValue;
    if (!sim_device_at(ordinal)) return hipErrorInvalidDevice;
    *device = ordinal;
    return hipSuccess;
}

hipError_t sim_hipDeviceGetName(char *name, int len, hipDevice_t device) {
    sim_device *d = sim_device_at(device);
    if (!d) return hipErrorInvalidDevice;
    if (!name || len <= 0) return hipErrorInvalidValue;
    snprintf(name, (size_t)len, "%s", d->board.name);
    return hipSuccess;
}

hipError_t sim_hipDeviceTotalMem(size_t *bytes, hipDevice_t device) {
    sim_device *d = sim_device_at(device);
    if (!d) return hipErrorInvalidDevice;
    if (!bytes) return hipErrorInvalidValue;
    *bytes = d->total_bytes;
    return hipSuccess;
}

hipError_t sim_hipDeviceComputeCapability(int *major, int *minor, hipDevice_t device) {
    sim_device *d = sim_device_at(device);
    if (!d) return hipErrorInvalidDevice;
    if (!major || !minor) return hipErrorInvalidValue;
    *major = d->major;
    *minor = d->minor;
    return hipSuccess;
}

hipError_t sim_hipDeviceGetPCIBusId(char *pciBusId, int len, int device) {
    sim_device *d = sim_device_at(device);
    if (!d) return hipErrorInvalidDevice;
    if (!pciBusId || len < 0) return hipErrorInvalidValue;
    snprintf(pciBusId, (size_t)len, "%04x:%02x:%02x.0", 0, (unsigned)d->board.pci_bus, 0);
    return hipSuccess;
}

hipError_t sim_hipDeviceGetByPCIBusId(int *device, const char *pciBusId) {
    if (!device || !pciBusId) return hipErrorInvalidValue;
    unsigned domain, bus, dev, fn;
    if (sscanf(pciBusId, "%x:%x:%x.%x", &domain, &bus, &dev, &fn) != 4) return hipErrorInvalidValue;
    for (int i = 0; i < sim_hip.n_devices; i++)
        if (sim_hip.devices[i].board.pci_bus == (int)bus) {
            *device = i;
            return hipSuccess;
        }
    return hipErrorInvalidDevice;
}

hipError_t sim_hipDeviceGetUuid(hipUUID *uuid, hipDevice_t device) {
    sim_device *d = sim_device_at(device);
    if (!d) return hipErrorInvalidDevice;
    if (!uuid) return hipErrorInvalidValue;
    char text[17];
    sim_device_uuid(d, text);
    memcpy(uuid->bytes, text, 16);
    return hipSuccess;
}

hipError_t sim_hipDeviceSynchronize(void) {
    sim_device *d = sim_device_current();
    pthread_mutex_lock(&sim_hip.lock);
    sim_device_wait(d);
    hipError_t e = d->broken;
    pthread_mutex_unlock(&sim_hip.lock);
    return e;
}

static bool free_device_memory(void *arg, const sim_range *r) {
    struct { int device; uint64_t *addrs; size_t n, room; } *list = arg;
    const sim_alloc *a = r->user;
    if (r->device != list->device || !a || a->registered || r->kind == SIM_MEM_CODE || r->kind == SIM_MEM_KERNARG) return true;
    if (list->n < list->room) list->addrs[list->n] = r->lo;
    list->n++;
    return true;
}

/* Frees the device's memory; its streams go on, and a broken device is in order again. */
hipError_t sim_hipDeviceReset(void) {
    sim_device *d = sim_device_current();
    if (!d) return hipErrorNoDevice;
    pthread_mutex_lock(&sim_hip.lock);
    sim_device_wait(d);
    pthread_mutex_unlock(&sim_hip.lock);
    struct { int device; uint64_t *addrs; size_t n, room; } list = {d->ordinal, NULL, 0, 0};
    sim_space_each(sim_hip.space, free_device_memory, &list);
    if (list.n && (list.addrs = och_malloc_array(list.n, sizeof *list.addrs))) {
        list.room = list.n, list.n = 0;
        sim_space_each(sim_hip.space, free_device_memory, &list);
        for (size_t i = 0; i < OCH_MIN(list.n, list.room); i++) (void)sim_memory_free(list.addrs[i]);
        och_free(list.addrs);
    }
    pthread_mutex_lock(&sim_hip.lock);
    d->broken = hipSuccess;
    d->peers = 0;
    d->flags = 0;
    pthread_mutex_unlock(&sim_hip.lock);
    return hipSuccess;
}

/* ---- flags, limits, configurations that a simulated board ignores but remembers ---- */
hipError_t sim_hipSetDeviceFlags(unsigned flags) {
    const unsigned known = hipDeviceScheduleMask | hipDeviceMapHost | hipDeviceLmemResizeToMax;
    sim_device *d = sim_device_current();
    if (!d) return hipErrorNoDevice;
    unsigned schedule = flags & hipDeviceScheduleMask;
    if ((flags & ~known) || (schedule & (schedule - 1))) return hipErrorInvalidValue;
    d->flags = flags;
    return hipSuccess;
}

hipError_t sim_hipGetDeviceFlags(unsigned int *flags) {
    sim_device *d = sim_device_current();
    if (!flags) return hipErrorInvalidValue;
    if (!d) return hipErrorNoDevice;
    *flags = d->flags;
    return hipSuccess;
}

hipError_t sim_hipDeviceSetLimit(hipLimit_t limit, size_t value) {
    sim_device *d = sim_device_current();
    if ((unsigned)limit >= OCH_COUNT(d->limits)) return hipErrorUnsupportedLimit;
    d->limits[limit] = value;
    return hipSuccess;
}

hipError_t sim_hipDeviceGetLimit(size_t *pValue, hipLimit_t limit) {
    sim_device *d = sim_device_current();
    if (!pValue) return hipErrorInvalidValue;
    if (!d) return hipErrorNoDevice;
    if ((unsigned)limit >= OCH_COUNT(d->limits)) return hipErrorUnsupportedLimit;
    *pValue = d->limits[limit];
    return hipSuccess;
}

hipError_t sim_hipDeviceSetCacheConfig(hipFuncCache_t cacheConfig) {
    return (unsigned)cacheConfig <= hipFuncCachePreferEqual ? hipSuccess : hipErrorInvalidValue;
}
hipError_t sim_hipDeviceGetCacheConfig(hipFuncCache_t *cacheConfig) {
    if (!cacheConfig) return hipErrorInvalidValue;
    *cacheConfig = hipFuncCachePreferNone;
    return hipSuccess;
}
hipError_t sim_hipDeviceSetSharedMemConfig(hipSharedMemConfig config) {
    return (unsigned)config <= hipSharedMemBankSizeEightByte ? hipSuccess : hipErrorInvalidValue;
}
hipError_t sim_hipDeviceGetSharedMemConfig(hipSharedMemConfig *pConfig) {
    if (!pConfig) return hipErrorInvalidValue;
    *pConfig = hipSharedMemBankSizeFourByte;
    return hipSuccess;
}
hipError_t sim_hipProfilerStart(void) { return hipErrorNotSupported; }
hipError_t sim_hipProfilerStop(void) { return hipErrorNotSupported; }

/* ---- peers: every simulated board reaches every other ---- */
hipError_t sim_hipDeviceCanAccessPeer(int *canAccessPeer, int deviceId, int peerDeviceId) {
    if (!canAccessPeer) return hipErrorInvalidValue;
    if (!sim_device_at(deviceId) || !sim_device_at(peerDeviceId)) return hipErrorInvalidDevice;
    *canAccessPeer = deviceId != peerDeviceId;
    return hipSuccess;
}

hipError_t sim_hipDeviceEnablePeerAccess(int peerDeviceId, unsigned int flags) {
    sim_device *d = sim_device_current();
    if (flags) return hipErrorInvalidValue;
    if (!sim_device_at(peerDeviceId) || peerDeviceId == d->ordinal) return hipErrorInvalidDevice;
    if (d->peers >> peerDeviceId & 1) return hipErrorPeerAccessAlreadyEnabled;
    d->peers |= 1ull << peerDeviceId;
    return hipSuccess;
}

hipError_t sim_hipDeviceDisablePeerAccess(int peerDeviceId) {
    sim_device *d = sim_device_current();
    if (!sim_device_at(peerDeviceId)) return hipErrorInvalidDevice;
    if (!(d->peers >> peerDeviceId & 1)) return hipErrorPeerAccessNotEnabled;
    d->peers &= ~(1ull << peerDeviceId);
    return hipSuccess;
}

hipError_t sim_hipDeviceGetP2PAttribute(int *value, hipDeviceP2PAttr attr, int srcDevice, int dstDevice) {
    if (!value) return hipErrorInvalidValue;
    if (srcDevice == dstDevice || !sim_device_at(srcDevice) || !sim_device_at(dstDevice)) return hipErrorInvalidDevice;
    if ((unsigned)attr > hipDevP2PAttrHipArrayAccessSupported) return hipErrorInvalidValue;
    *value = attr != hipDevP2PAttrPerformanceRank;
    return hipSuccess;
}

hipError_t sim_hipExtGetLinkTypeAndHopCount(int device1, int device2, uint32_t *linktype, uint32_t *hopcount) {
    if (!linktype || !hopcount) return hipErrorInvalidValue;
    if (device1 == device2 || !sim_device_at(device1) || !sim_device_at(device2)) return hipErrorInvalidDevice;
    *linktype = 2; /* PCI express */
    *hopcount = 1;
    return hipSuccess;
}

/* ---- contexts: a device's primary one stands for all of them ---- */
static sim_device *of_ctx(hipCtx_t ctx) {
    for (int i = 0; i < sim_hip.n_devices; i++)
        if ((void *)ctx == (void *)&sim_hip.devices[i]) return &sim_hip.devices[i];
    return NULL;
}

hipError_t sim_hipCtxCreate(hipCtx_t *ctx, unsigned int flags, hipDevice_t device) {
    sim_device *d = sim_device_at(device);
    if (!ctx) return hipErrorInvalidValue;
    if (!d) return hipErrorInvalidDevice;
    d->flags = flags;
    *ctx = (hipCtx_t)(void *)d;
    return sim_hipCtxPushCurrent(*ctx);
}

hipError_t sim_hipCtxDestroy(hipCtx_t ctx) {
    sim_device *d = of_ctx(ctx);
    if (!d) return hipErrorInvalidValue;
    sim_thread *t = sim_thread_get();
    if (t->n_ctx && t->ctx[t->n_ctx - 1] == d->ordinal) t->n_ctx--;
    return hipSuccess;
}

hipError_t sim_hipCtxPushCurrent(hipCtx_t ctx) {
    sim_device *d = of_ctx(ctx);
    sim_thread *t = sim_thread_get();
    if (!d) return hipErrorInvalidContext;
    if (t->n_ctx == (int)OCH_COUNT(t->ctx)) return hipErrorOutOfMemory;
    t->ctx[t->n_ctx++] = d->ordinal;
    t->device = d->ordinal;
    return hipSuccess;
}

hipError_t sim_hipCtxPopCurrent(hipCtx_t *ctx) {
    sim_thread *t = sim_thread_get();
    if (!t->n_ctx) return hipErrorInvalidContext;
    if (ctx) *ctx = (hipCtx_t)(void *)&sim_hip.devices[t->ctx[t->n_ctx - 1]];
    t->n_ctx--;
    if (t->n_ctx) t->device = t->ctx[t->n_ctx - 1];
    return hipSuccess;
}

hipError_t sim_hipCtxSetCurrent(hipCtx_t ctx) {
    sim_thread *t = sim_thread_get();
    if (!ctx) {
        if (t->n_ctx) t->n_ctx--;
        return hipSuccess;
    }
    sim_device *d = of_ctx(ctx);
    if (!d) return hipErrorInvalidContext;
    if (t->n_ctx) t->n_ctx--;
    return sim_hipCtxPushCurrent(ctx);
}

hipError_t sim_hipCtxGetCurrent(hipCtx_t *ctx) {
    sim_device *d = sim_device_current();
    if (!ctx) return hipErrorInvalidValue;
    *ctx = (hipCtx_t)(void *)d;
    return hipSuccess;
}

hipError_t sim_hipCtxGetApiVersion(hipCtx_t ctx, int *apiVersion) {
    if (!apiVersion || (ctx && !of_ctx(ctx))) return hipErrorInvalidValue;
    *apiVersion = 4;
    return hipSuccess;
}

hipError_t sim_hipCtxGetFlags(unsigned int *flags) { return sim_hipGetDeviceFlags(flags); }

hipError_t sim_hipCtxEnablePeerAccess(hipCtx_t peerCtx, unsigned int flags) {
    sim_device *d = of_ctx(peerCtx);
    return d ? sim_hipDeviceEnablePeerAccess(d->ordinal, flags) : hipErrorInvalidContext;
}

hipError_t sim_hipCtxDisablePeerAccess(hipCtx_t peerCtx) {
    sim_device *d = of_ctx(peerCtx);
    return d ? sim_hipDeviceDisablePeerAccess(d->ordinal) : hipErrorInvalidContext;
}

hipError_t sim_hipDevicePrimaryCtxGetState(hipDevice_t dev, unsigned int *flags, int *active) {
    sim_device *d = sim_device_at(dev);
    if (!d) return hipErrorInvalidDevice;
    if (!flags || !active) return hipErrorInvalidValue;
    *flags = d->flags;
    *active = sim_device_current() == d;
    return hipSuccess;
}

hipError_t sim_hipDevicePrimaryCtxRetain(hipCtx_t *pctx, hipDevice_t dev) {
    sim_device *d = sim_device_at(dev);
    if (!d) return hipErrorInvalidDevice;
    if (!pctx) return hipErrorInvalidValue;
    d->ctx_refs++;
    *pctx = (hipCtx_t)(void *)d;
    return hipSuccess;
}

hipError_t sim_hipDevicePrimaryCtxRelease(hipDevice_t dev) {
    sim_device *d = sim_device_at(dev);
    if (!d) return hipErrorInvalidDevice;
    if (d->ctx_refs) d->ctx_refs--;
    return hipSuccess;
}

hipError_t sim_hipDevicePrimaryCtxSetFlags(hipDevice_t dev, unsigned int flags) {
    (void)flags;
    return sim_device_at(dev) ? hipErrorContextAlreadyInUse : hipErrorInvalidDevice;
}

/* What HIP's own callers know a call by. */
const char *sim_hipApiName(uint32_t id) {
    static const char *const names[] = {
#define HIP_API(node, flags, name, params, args) #name,
#define HIP_ALIAS(node, flags, name, body, params, args) #name,
#define HIP_SPT(node, flags, name, body, params, args) #name,
#define HIP_RET(node, ret, name, params, args) #name,
#define HIP_VOID(node, name, params, args) #name,
#define HIP_NOT(node, name, why) #name,
#include "hip/hip_syms.def"
    };
    return id < OCH_COUNT(names) ? names[id] : "unknown";
}
