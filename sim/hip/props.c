/* Attributes (hip_attrs.def) and the two layouts of properties, which are filled from the attributes. */
#include "hip/hip.h"

#include <stdio.h>
#include <string.h>

enum { CLOCK_KHZ = 100000 /* s_memrealtime's and wall_clock64's */ };

static int clamp_int(uint64_t v) { return v > INT32_MAX ? INT32_MAX : (int)v; }
/* A multiprocessor is a WGP where multiprocessors are fewer than compute units. */
static unsigned cus_mp(const sim_board *b) { return b->compute_units / b->multiprocessors; }
static int max_threads_mp(const sim_board *b) {
    return (int)(cus_mp(b) * b->simds_cu * b->waves_simd_max * b->wave_size);
}
static int max_blocks_mp(const sim_board *b) { return (int)(cus_mp(b) * b->simds_cu * b->waves_simd_max); }
static int regs_mp(const sim_board *b) { return clamp_int((uint64_t)b->vgprs_simd * b->wave_size * b->simds_cu * cus_mp(b)); }
static int lds_mp(const sim_board *b) { return (int)b->lds_unit_bytes; }

/* False: the number is no attribute of this runtime. */
static bool attribute(const sim_device *d, int number, int *out) {
    const sim_board *b = &d->board;
#define NO_ATTR (known = false, 0)
    bool known = true;
    switch (number) {
#define HIP_ATTR(name, value, expr)                                                                                            \
    case hipDeviceAttribute##name: *out = (int)(expr); return known;
#include "hip/hip_attrs.def"
#undef HIP_ATTR
    default: return false;
    }
}

hipError_t sim_hipDeviceGetAttribute(int *pi, hipDeviceAttribute_t attr, int deviceId) {
    sim_device *d = sim_device_at(deviceId);
    if (!pi) return hipErrorInvalidValue;
    if (!d) return hipErrorInvalidDevice;
    int v;
    if (!attribute(d, (int)attr, &v)) return hipErrorInvalidValue;
    *pi = v;
    return hipSuccess;
}

static int get(const sim_device *d, hipDeviceAttribute_t a) {
    int v = 0;
    return attribute(d, (int)a, &v) ? v : 0;
}

/* gcnArchName as rocminfo and the compiler print the target. */
static void arch_name(const sim_device *d, char *out, size_t n) { snprintf(out, n, "%s", d->board.target); }

/* Everything of HIP's feature list but the float exchange in LDS, thread fences of the system and dynamic parallelism. */
static hipDeviceArch_t features(void) { return 0xFFFFu & ~(1u << 12 | 1u << 13); }

/* Fields that both layouts have, each from the attribute beside it. */
#define COMMON_FIELDS(X)                                                                                                       \
    X(regsPerBlock, MaxRegistersPerBlock) X(warpSize, WarpSize) X(maxThreadsPerBlock, MaxThreadsPerBlock)                      \
    X(clockRate, ClockRate) X(memoryClockRate, MemoryClockRate) X(memoryBusWidth, MemoryBusWidth)                              \
    X(totalConstMem, TotalConstantMemory) X(major, ComputeCapabilityMajor) X(minor, ComputeCapabilityMinor)                    \
    X(multiProcessorCount, MultiprocessorCount) X(l2CacheSize, L2CacheSize)                                                    \
    X(maxThreadsPerMultiProcessor, MaxThreadsPerMultiProcessor) X(computeMode, ComputeMode)                                    \
    X(clockInstructionRate, ClockInstructionRate) X(concurrentKernels, ConcurrentKernels) X(pciDomainID, PciDomainID)          \
    X(pciBusID, PciBusId) X(pciDeviceID, PciDeviceId) X(maxSharedMemoryPerMultiProcessor, MaxSharedMemoryPerMultiprocessor)    \
    X(isMultiGpuBoard, IsMultiGpuBoard) X(canMapHostMemory, CanMapHostMemory) X(integrated, Integrated)                        \
    X(cooperativeLaunch, CooperativeLaunch) X(cooperativeMultiDeviceLaunch, CooperativeMultiDeviceLaunch)                      \
    X(maxTexture1DLinear, MaxTexture1DLinear) X(maxTexture1D, MaxTexture1DWidth) X(maxTexture2D[0], MaxTexture2DWidth)         \
    X(maxTexture2D[1], MaxTexture2DHeight) X(maxTexture3D[0], MaxTexture3DWidth) X(maxTexture3D[1], MaxTexture3DHeight)        \
    X(maxTexture3D[2], MaxTexture3DDepth) X(memPitch, MaxPitch) X(textureAlignment, TextureAlignment)                          \
    X(texturePitchAlignment, TexturePitchAlignment) X(kernelExecTimeoutEnabled, KernelExecTimeout)                             \
    X(ECCEnabled, EccEnabled) X(tccDriver, TccDriver) X(isLargeBar, IsLargeBar) X(asicRevision, AsicRevision)                  \
    X(managedMemory, ManagedMemory) X(directManagedMemAccessFromHost, DirectManagedMemAccessFromHost)                          \
    X(concurrentManagedAccess, ConcurrentManagedAccess) X(pageableMemoryAccess, PageableMemoryAccess)                          \
    X(pageableMemoryAccessUsesHostPageTables, PageableMemoryAccessUsesHostPageTables) X(maxGridSize[0], MaxGridDimX)           \
    X(maxGridSize[1], MaxGridDimY) X(maxGridSize[2], MaxGridDimZ) X(maxThreadsDim[0], MaxBlockDimX)                            \
    X(maxThreadsDim[1], MaxBlockDimY) X(maxThreadsDim[2], MaxBlockDimZ)
#define NEWER_FIELDS(X)                                                                                                        \
    X(asyncEngineCount, AsyncEngineCount) X(deviceOverlap, DeviceOverlap) X(unifiedAddressing, UnifiedAddressing)              \
    X(maxTexture1DLayered[0], MaxTexture1DWidth) X(maxTexture1DLayered[1], MaxTexture1DLayered)                                \
    X(maxTexture2DLayered[0], MaxTexture2DWidth) X(maxTexture2DLayered[1], MaxTexture2DHeight)                                 \
    X(maxTexture2DLayered[2], MaxTexture2DLayered) X(maxSurface1D, MaxSurface1D) X(maxSurface2D[0], MaxSurface2D)              \
    X(maxSurface2D[1], MaxSurface2D) X(maxSurface3D[0], MaxSurface3D) X(maxSurface3D[1], MaxSurface3D)                         \
    X(maxSurface3D[2], MaxSurface3D) X(surfaceAlignment, SurfaceAlignment)                                                     \
    X(streamPrioritiesSupported, StreamPrioritiesSupported) X(sharedMemPerMultiprocessor, SharedMemPerMultiprocessor)          \
    X(regsPerMultiprocessor, MaxRegistersPerMultiprocessor) X(hostNativeAtomicSupported, HostNativeAtomicSupported)            \
    X(canUseHostPointerForRegisteredMem, CanUseHostPointerForRegisteredMem) X(sharedMemPerBlockOptin, SharedMemPerBlockOptin)  \
    X(maxBlocksPerMultiProcessor, MaxBlocksPerMultiProcessor) X(hostRegisterSupported, HostRegisterSupported)                  \
    X(memoryPoolsSupported, MemoryPoolsSupported)
#define FILL(field, attr) p->field = get(d, hipDeviceAttribute##attr);

hipError_t sim_hipGetDevicePropertiesR0000(hipDeviceProp_tR0000 *p, int device) {
    sim_device *d = sim_device_at(device);
    if (!p) return hipErrorInvalidValue;
    if (!d) return hipErrorInvalidDevice;
    memset(p, 0, sizeof *p);
    COMMON_FIELDS(FILL)
    snprintf(p->name, sizeof p->name, "%s", d->board.name);
    arch_name(d, p->gcnArchName, sizeof p->gcnArchName);
    p->gcnArch = d->major * 100 + d->minor * 10 + d->stepping;
    p->totalGlobalMem = d->total_bytes;
    p->sharedMemPerBlock = d->board.lds_group_bytes;
    p->arch = features();
    return hipSuccess;
}

hipError_t sim_hipGetDevicePropertiesR0600(hipDeviceProp_tR0600 *p, int device) {
    sim_device *d = sim_device_at(device);
    if (!p) return hipErrorInvalidValue;
    if (!d) return hipErrorInvalidDevice;
    memset(p, 0, sizeof *p);
    COMMON_FIELDS(FILL)
    NEWER_FIELDS(FILL)
    snprintf(p->name, sizeof p->name, "%s", d->board.name);
    arch_name(d, p->gcnArchName, sizeof p->gcnArchName);
    char uuid[17];
    sim_device_uuid(d, uuid);
    memcpy(p->uuid.bytes, uuid, 16);
    p->totalGlobalMem = d->total_bytes;
    p->sharedMemPerBlock = d->board.lds_group_bytes;
    p->arch = features();
    return hipSuccess;
}

/* The device that meets most of what is asked for, as far as the request says anything. */
static hipError_t choose(int *device, size_t memory, int major, int minor, int multiprocessors) {
    if (!device) return hipErrorInvalidValue;
    if (!sim_hip.n_devices) return hipErrorNoDevice;
    int best = -1;
    *device = 0;
    for (int i = 0; i < sim_hip.n_devices; i++) {
        const sim_device *d = &sim_hip.devices[i];
        int score = 0;
        if (memory && d->total_bytes >= memory) score++;
        if (major && (d->major > major || (d->major == major && d->minor >= minor))) score++;
        if (multiprocessors && (int)d->board.multiprocessors >= multiprocessors) score++;
        if (score > best) best = score, *device = i;
    }
    return hipSuccess;
}
hipError_t sim_hipChooseDeviceR0000(int *device, const hipDeviceProp_tR0000 *p) {
    return p ? choose(device, p->totalGlobalMem, p->major, p->minor, p->multiProcessorCount) : hipErrorInvalidValue;
}
hipError_t sim_hipChooseDeviceR0600(int *device, const hipDeviceProp_tR0600 *p) {
    return p ? choose(device, p->totalGlobalMem, p->major, p->minor, p->multiProcessorCount) : hipErrorInvalidValue;
}
