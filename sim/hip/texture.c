/* Arrays, texture and surface objects. An object is the resource and sampler that compiled kernels load: isa/image.h. */
#include "hip/hip.h"

#include "isa/image.h"

#include <string.h>

/* The public part first: until 5.x programs read its fields. */
typedef struct sim_array {
    hipArray array;
    unsigned flags;
    sim_device *dev;
} sim_array;

typedef struct texture {
    struct texture *next;
    uint64_t addr;
    bool surface;
    hipResourceDesc resource;
    hipTextureDesc desc;
    hipResourceViewDesc view;
    bool has_view;
} texture;
static texture *textures; /* guarded by sim_hip.lock */

static hipError_t done(hipError_t e) {
    pthread_mutex_unlock(&sim_hip.lock);
    return e;
}

/* ---- channel formats ---- */
hipChannelFormatDesc sim_hipCreateChannelDesc(int x, int y, int z, int w, hipChannelFormatKind f) {
    return (hipChannelFormatDesc){x, y, z, w, f};
}

/* Components are 8, 16 or 32 bits, equal, and 1, 2 or 4 of them. */
static bool channels_of(const hipChannelFormatDesc *d, unsigned *bits, unsigned *n) {
    *bits = (unsigned)d->x;
    *n = !d->y ? 1 : !d->z ? 2 : !d->w ? 3 : 4;
    if ((d->y && d->y != d->x) || (d->z && d->z != d->x) || (d->w && d->w != d->x)) return false;
    if (d->f == hipChannelFormatKindFloat && d->x == 8) return false;
    return (d->x == 8 || d->x == 16 || d->x == 32) && *n != 3 && (unsigned)d->f <= hipChannelFormatKindFloat;
}

static bool typed_of(const hipChannelFormatDesc *d, hipTextureReadMode mode, sim_typed *out) {
    static const uint8_t formats[3][3] = {/* 8, 16, 32 bits by 1, 2, 4 components */
                                          {SIM_DF_8, SIM_DF_8_8, SIM_DF_8_8_8_8},
                                          {SIM_DF_16, SIM_DF_16_16, SIM_DF_16_16_16_16},
                                          {SIM_DF_32, SIM_DF_32_32, SIM_DF_32_32_32_32}};
    unsigned bits, n;
    if (!channels_of(d, &bits, &n)) return false;
    bool norm = mode == hipReadModeNormalizedFloat && bits <= 16;
    if (mode == hipReadModeNormalizedFloat && bits > 16 && d->f != hipChannelFormatKindFloat) return false;
    out->dfmt = formats[bits == 8 ? 0 : bits == 16 ? 1 : 2][n == 4 ? 2 : n - 1];
    out->nfmt = d->f == hipChannelFormatKindFloat      ? SIM_NF_FLOAT
                : d->f == hipChannelFormatKindUnsigned ? (norm ? SIM_NF_UNORM : SIM_NF_UINT)
                                                       : (norm ? SIM_NF_SNORM : SIM_NF_SINT);
    return true;
}

static bool desc_of(hipArray_Format format, unsigned n, hipChannelFormatDesc *out) {
    int bits;
    hipChannelFormatKind f;
    switch (format) {
    case HIP_AD_FORMAT_UNSIGNED_INT8: bits = 8, f = hipChannelFormatKindUnsigned; break;
    case HIP_AD_FORMAT_UNSIGNED_INT16: bits = 16, f = hipChannelFormatKindUnsigned; break;
    case HIP_AD_FORMAT_UNSIGNED_INT32: bits = 32, f = hipChannelFormatKindUnsigned; break;
    case HIP_AD_FORMAT_SIGNED_INT8: bits = 8, f = hipChannelFormatKindSigned; break;
    case HIP_AD_FORMAT_SIGNED_INT16: bits = 16, f = hipChannelFormatKindSigned; break;
    case HIP_AD_FORMAT_SIGNED_INT32: bits = 32, f = hipChannelFormatKindSigned; break;
    case HIP_AD_FORMAT_HALF: bits = 16, f = hipChannelFormatKindFloat; break;
    case HIP_AD_FORMAT_FLOAT: bits = 32, f = hipChannelFormatKindFloat; break;
    default: return false;
    }
    if (n != 1 && n != 2 && n != 4) return false;
    *out = (hipChannelFormatDesc){bits, n > 1 ? bits : 0, n > 2 ? bits : 0, n > 3 ? bits : 0, f};
    return true;
}

static hipArray_Format format_of(const hipChannelFormatDesc *d) {
    if (d->f == hipChannelFormatKindFloat) return d->x == 16 ? HIP_AD_FORMAT_HALF : HIP_AD_FORMAT_FLOAT;
    int base = d->x == 8 ? 1 : d->x == 16 ? 2 : 3;
    return (hipArray_Format)(d->f == hipChannelFormatKindUnsigned ? base : base + 7);
}

/* ---- arrays ---- */
static hipError_t array_new(hipArray **out, const hipChannelFormatDesc *desc, hipExtent extent, unsigned flags, bool driver) {
    unsigned bits, n;
    if (!out || !desc) return hipErrorInvalidValue;
    *out = NULL;
    if (!extent.width || !channels_of(desc, &bits, &n)) return hipErrorInvalidValue;
    if (flags & ~(unsigned)(hipArrayLayered | hipArraySurfaceLoadStore | hipArrayTextureGather))
        return hipErrorNotSupported; /* cube maps */
    if (extent.width > 16384 || extent.height > 16384 || extent.depth > 8192) return hipErrorInvalidValue;
    bool layered = flags & hipArrayLayered;
    if (!extent.height && extent.depth && !layered) return hipErrorInvalidValue;
    uint64_t pitch = (extent.width * (bits / 8) * n + 255) / 256 * 256;
    uint64_t bytes = pitch * (extent.height ? extent.height : 1) * (extent.depth ? extent.depth : 1), addr;
    sim_device *d = sim_device_current();
    hipError_t e = sim_memory_alloc(d, bytes, 256, SIM_MEM_ARRAY, flags, &addr);
    if (e != hipSuccess) return e;
    sim_array *a = och_calloc(1, sizeof *a);
    pthread_mutex_lock(&sim_hip.lock);
    bool ok = a && sim_handle_add(a, SIM_H_ARRAY);
    pthread_mutex_unlock(&sim_hip.lock);
    if (!ok) {
        och_free(a);
        (void)sim_memory_free(addr);
        return hipErrorOutOfMemory;
    }
    a->array = (hipArray){.data = (void *)(uintptr_t)addr, .desc = *desc, .type = flags, .width = (unsigned)extent.width,
                          .height = (unsigned)extent.height, .depth = (unsigned)extent.depth, .Format = format_of(desc),
                          .NumChannels = n, .isDrv = driver,
                          .textureType = layered ? (extent.height ? 0xF2 : 0xF1) : extent.depth ? 3 : extent.height ? 2 : 1};
    a->flags = flags;
    a->dev = d;
    *out = &a->array;
    return hipSuccess;
}

hipError_t sim_hipMallocArray(hipArray **array, const hipChannelFormatDesc *desc, size_t width, size_t height,
                              unsigned int flags) {
    return array_new(array, desc, (hipExtent){width, height, 0}, flags, false);
}
hipError_t sim_hipMalloc3DArray(hipArray **array, const hipChannelFormatDesc *desc, hipExtent extent, unsigned int flags) {
    return array_new(array, desc, extent, flags, false);
}
hipError_t sim_hipArray3DCreate(hipArray **array, const HIP_ARRAY3D_DESCRIPTOR *p) {
    hipChannelFormatDesc desc;
    if (!p || !desc_of(p->Format, p->NumChannels, &desc)) return hipErrorInvalidValue;
    return array_new(array, &desc, (hipExtent){p->Width, p->Height, p->Depth}, p->Flags, true);
}
hipError_t sim_hipArrayCreate(hipArray **pHandle, const HIP_ARRAY_DESCRIPTOR *p) {
    hipChannelFormatDesc desc;
    if (!p || !desc_of(p->Format, p->NumChannels, &desc)) return hipErrorInvalidValue;
    return array_new(pHandle, &desc, (hipExtent){p->Width, p->Height, 0}, 0, true);
}

hipError_t sim_hipFreeArray(hipArray *array) {
    if (!array) return hipErrorInvalidValue;
    pthread_mutex_lock(&sim_hip.lock);
    if (!sim_handle_is(array, SIM_H_ARRAY)) return done(hipErrorContextIsDestroyed);
    sim_handle_remove(array);
    sim_device_wait(((sim_array *)array)->dev);
    pthread_mutex_unlock(&sim_hip.lock);
    hipError_t e = sim_memory_free((uint64_t)(uintptr_t)array->data);
    och_free(array);
    return e;
}

static bool open_array(hipArray_const_t a) {
    pthread_mutex_lock(&sim_hip.lock);
    return sim_handle_is(a, SIM_H_ARRAY);
}

hipError_t sim_hipArrayGetInfo(hipChannelFormatDesc *desc, hipExtent *extent, unsigned int *flags, hipArray_t array) {
    if (!open_array(array)) return done(hipErrorInvalidHandle);
    if (desc) *desc = array->desc;
    if (extent) *extent = (hipExtent){array->width, array->height, array->depth};
    if (flags) *flags = ((sim_array *)array)->flags;
    return done(hipSuccess);
}
hipError_t sim_hipArrayGetDescriptor(HIP_ARRAY_DESCRIPTOR *p, hipArray_t array) {
    if (!p) return hipErrorInvalidValue;
    if (!open_array(array)) return done(hipErrorInvalidHandle);
    *p = (HIP_ARRAY_DESCRIPTOR){array->width, array->height, array->Format, array->NumChannels};
    return done(hipSuccess);
}
hipError_t sim_hipArray3DGetDescriptor(HIP_ARRAY3D_DESCRIPTOR *p, hipArray_t array) {
    if (!p) return hipErrorInvalidValue;
    if (!open_array(array)) return done(hipErrorInvalidHandle);
    *p = (HIP_ARRAY3D_DESCRIPTOR){array->width, array->height, array->depth, array->Format, array->NumChannels,
                                  ((sim_array *)array)->flags};
    return done(hipSuccess);
}
hipError_t sim_hipGetChannelDesc(hipChannelFormatDesc *desc, hipArray_const_t array) {
    if (!desc) return hipErrorInvalidValue;
    if (!open_array(array)) return done(hipErrorInvalidHandle);
    *desc = array->desc;
    return done(hipSuccess);
}
hipError_t sim_hipDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements, const hipChannelFormatDesc *fmtDesc,
                                                   int device) {
    if (!maxWidthInElements || !fmtDesc) return hipErrorInvalidValue;
    if (!sim_device_at(device)) return hipErrorInvalidDevice;
    *maxWidthInElements = 1u << 27;
    return hipSuccess;
}

/* ---- objects ---- */
static sim_image_address address_of(hipTextureAddressMode m) {
    return m == hipAddressModeWrap ? SIM_IMAGE_WRAP : m == hipAddressModeMirror ? SIM_IMAGE_MIRROR
           : m == hipAddressModeBorder ? SIM_IMAGE_BORDER : SIM_IMAGE_CLAMP;
}

/* What the resource's memory is. Lock held. */
static hipError_t resource_fields(const hipResourceDesc *r, sim_image_fields *f, hipChannelFormatDesc *channel) {
    f->width = f->height = f->depth = 1;
    switch (r->resType) {
    case hipResourceTypeArray: {
        hipArray_t a = r->res.array.array;
        if (!sim_handle_is(a, SIM_H_ARRAY)) return hipErrorInvalidValue;
        bool layered = ((sim_array *)a)->flags & hipArrayLayered;
        f->kind = layered ? (a->height ? SIM_IMAGE_2D_ARRAY : SIM_IMAGE_1D_ARRAY) : a->depth ? SIM_IMAGE_3D : a->height
            ? SIM_IMAGE_2D
                  : SIM_IMAGE_1D;
        f->base = (uint64_t)(uintptr_t)a->data;
        f->width = a->width;
        if (a->height) f->height = a->height;
        if (a->depth) f->depth = a->depth;
        *channel = a->desc;
        return hipSuccess;
    }
    case hipResourceTypeLinear: {
        *channel = r->res.linear.desc;
        unsigned bits, n;
        if (!r->res.linear.devPtr || !channels_of(channel, &bits, &n)) return hipErrorInvalidValue;
        f->kind = SIM_IMAGE_BUFFER;
        f->base = (uint64_t)(uintptr_t)r->res.linear.devPtr;
        uint64_t width = r->res.linear.sizeInBytes / (bits / 8 * n);
        if (!width || width > UINT32_MAX) return hipErrorInvalidValue;
        f->width = (uint32_t)width;
        break;
    }
    case hipResourceTypePitch2D:
        *channel = r->res.pitch2D.desc;
        if (!r->res.pitch2D.devPtr || !r->res.pitch2D.width || !r->res.pitch2D.height) return hipErrorInvalidValue;
        f->kind = SIM_IMAGE_2D;
        f->base = (uint64_t)(uintptr_t)r->res.pitch2D.devPtr;
        f->width = (uint32_t)r->res.pitch2D.width;
        f->height = (uint32_t)r->res.pitch2D.height;
        f->pitch_bytes = (uint32_t)r->res.pitch2D.pitchInBytes;
        break;
    case hipResourceTypeMipmappedArray: return hipErrorNotSupported;
    default: return hipErrorInvalidValue;
    }
    return sim_is_known((void *)(uintptr_t)f->base) ? hipSuccess : hipErrorInvalidValue;
}

/* From gfx942 on the instructions are gone. */
bool sim_has_images(const sim_board *board) { return board->isa != SIM_GFX942 && board->isa != SIM_GFX950; }

static hipError_t object_new(const hipResourceDesc *r, const hipTextureDesc *t, const hipResourceViewDesc *v, bool surface,
                             void **out) {
    if (!out || !r) return hipErrorInvalidValue;
    sim_image_fields f = {.unnormalized = !t->normalizedCoords, .linear = t->filterMode == hipFilterModeLinear};
    hipChannelFormatDesc channel;
    if (t->sRGB || v || !sim_has_images(&sim_device_current()->board)) return hipErrorNotSupported;
    pthread_mutex_lock(&sim_hip.lock);
    hipError_t e = resource_fields(r, &f, &channel);
    pthread_mutex_unlock(&sim_hip.lock);
    if (e != hipSuccess) return e;
    if (!typed_of(&channel, t->readMode, &f.format)) return hipErrorInvalidValue;
    if (f.linear && sim_typed_is_int(f.format)) return hipErrorInvalidValue;
    for (int i = 0; i < 3; i++) {
        f.address[i] = (uint8_t)address_of(t->addressMode[i]);
        /* repeating needs normalized coordinates; without them the edge is what is read */
        if (f.unnormalized && (f.address[i] == SIM_IMAGE_WRAP || f.address[i] == SIM_IMAGE_MIRROR))
            f.address[i] = SIM_IMAGE_CLAMP;
    }
    bool white = true, zero = true;
    for (int i = 0; i < 4; i++) white &= t->borderColor[i] == 1.0f, zero &= t->borderColor[i] == 0.0f;
    if (!white && !zero) return hipErrorNotSupported;
    f.white_border = white;
    sim_device *d = sim_device_current();
    uint32_t words[16];
    och_err err;
    och_err_clear(&err);
    och_status st = sim_image_descriptor(d->board.isa, &f, words, &err);
    uint64_t addr = 0;
    if (st == OCH_OK) st = sim_space_alloc(sim_hip.space, sizeof words + 16, 256, SIM_MEM_KERNARG, d->ordinal, true, &addr,
                                           &err);
    texture *x = st == OCH_OK ? och_calloc(1, sizeof *x) : NULL;
    void *host = st == OCH_OK ? sim_space_host(sim_hip.space, addr, sizeof words + 16) : NULL;
    if (!x || !host) {
        if (addr && sim_space_free(sim_hip.space, addr, NULL) != OCH_OK) och_log(OCH_LOG_WARN,
                                                                                 "a texture's descriptor was not freed");
        och_free(x);
        if (st != OCH_OK) och_log(OCH_LOG_ERROR, "%s", err.message);
        return st == OCH_UNSUPPORTED ? hipErrorNotSupported : st == OCH_INVALID || st == OCH_RANGE ? hipErrorInvalidValue
            : hipErrorOutOfMemory;
    }
    memset(host, 0, sizeof words + 16);
    memcpy(host, words, sizeof words);
    x->addr = addr;
    x->surface = surface;
    x->resource = *r;
    x->desc = *t;
    pthread_mutex_lock(&sim_hip.lock);
    x->next = textures;
    textures = x;
    *out = (void *)(uintptr_t)addr;
    return done(hipSuccess);
}

/* Lock held. */
static texture **find(const void *object, bool surface) {
    for (texture **p = &textures; *p; p = &(*p)->next)
        if ((*p)->addr == (uint64_t)(uintptr_t)object && (*p)->surface == surface) return p;
    return NULL;
}

static hipError_t object_free(const void *object, bool surface) {
    if (!object) return hipSuccess;
    pthread_mutex_lock(&sim_hip.lock);
    texture **p = find(object, surface);
    if (!p) return done(hipErrorInvalidValue);
    texture *x = *p;
    *p = x->next;
    pthread_mutex_unlock(&sim_hip.lock);
    och_err err;
    och_err_clear(&err);
    och_status st = sim_space_free(sim_hip.space, x->addr, &err);
    och_free(x);
    return st == OCH_OK ? hipSuccess : hipErrorInvalidValue;
}

hipError_t sim_hipCreateTextureObject(hipTextureObject_t *pTexObject, const hipResourceDesc *pResDesc,
                                      const hipTextureDesc *pTexDesc,
                                      const hipResourceViewDesc *pResViewDesc) {
    void *p;
    if (!pTexObject || !pTexDesc) return hipErrorInvalidValue;
    hipError_t e = object_new(pResDesc, pTexDesc, pResViewDesc, false, &p);
    if (e == hipSuccess) *pTexObject = p;
    return e;
}
hipError_t sim_hipDestroyTextureObject(hipTextureObject_t textureObject) { return object_free(textureObject, false); }

hipError_t sim_surface_create(hipSurfaceObject_t *out, const hipResourceDesc *desc) {
    hipTextureDesc t = {.filterMode = hipFilterModePoint, .readMode = hipReadModeElementType};
    void *p;
    if (!out || !desc || desc->resType != hipResourceTypeArray) return hipErrorInvalidValue;
    hipError_t e = object_new(desc, &t, NULL, true, &p);
    if (e == hipSuccess) *out = p;
    return e;
}
hipError_t sim_surface_destroy(hipSurfaceObject_t surface) { return object_free(surface, true); }

hipError_t sim_hipGetTextureObjectResourceDesc(hipResourceDesc *pResDesc, hipTextureObject_t textureObject) {
    if (!pResDesc) return hipErrorInvalidValue;
    pthread_mutex_lock(&sim_hip.lock);
    texture **p = find(textureObject, false);
    if (p) *pResDesc = (*p)->resource;
    return done(p ? hipSuccess : hipErrorInvalidValue);
}
hipError_t sim_hipGetTextureObjectTextureDesc(hipTextureDesc *pTexDesc, hipTextureObject_t textureObject) {
    if (!pTexDesc) return hipErrorInvalidValue;
    pthread_mutex_lock(&sim_hip.lock);
    texture **p = find(textureObject, false);
    if (p) *pTexDesc = (*p)->desc;
    return done(p ? hipSuccess : hipErrorInvalidValue);
}
hipError_t sim_hipGetTextureObjectResourceViewDesc(hipResourceViewDesc *pResViewDesc, hipTextureObject_t textureObject) {
    if (!pResViewDesc) return hipErrorInvalidValue;
    pthread_mutex_lock(&sim_hip.lock);
    texture **p = find(textureObject, false);
    return done(p && (*p)->has_view ? hipSuccess : hipErrorInvalidValue); /* views are not built */
}

/* ---- the driver's descriptors ---- */
static hipError_t runtime_resource(const HIP_RESOURCE_DESC *d, hipResourceDesc *out) {
    memset(out, 0, sizeof *out);
    out->resType = d->resType;
    switch (d->resType) {
    case hipResourceTypeArray: out->res.array.array = d->res.array.hArray; return hipSuccess;
    case hipResourceTypeLinear:
        out->res.linear.devPtr = d->res.linear.devPtr;
        out->res.linear.sizeInBytes = d->res.linear.sizeInBytes;
        return desc_of(d->res.linear.format, d->res.linear.numChannels, &out->res.linear.desc) ? hipSuccess
            : hipErrorInvalidValue;
    case hipResourceTypePitch2D:
        out->res.pitch2D.devPtr = d->res.pitch2D.devPtr;
        out->res.pitch2D.width = d->res.pitch2D.width;
        out->res.pitch2D.height = d->res.pitch2D.height;
        out->res.pitch2D.pitchInBytes = d->res.pitch2D.pitchInBytes;
        return desc_of(d->res.pitch2D.format, d->res.pitch2D.numChannels, &out->res.pitch2D.desc) ? hipSuccess
            : hipErrorInvalidValue;
    default: return hipErrorNotSupported;
    }
}

hipError_t sim_hipTexObjectCreate(hipTextureObject_t *pTexObject, const HIP_RESOURCE_DESC *pResDesc,
                                  const HIP_TEXTURE_DESC *pTexDesc,
                                  const HIP_RESOURCE_VIEW_DESC *pResViewDesc) {
    if (!pTexObject || !pResDesc || !pTexDesc) return hipErrorInvalidValue;
    if (pResViewDesc) return hipErrorNotSupported;
    hipResourceDesc r;
    hipError_t e = runtime_resource(pResDesc, &r);
    if (e != hipSuccess) return e;
    hipTextureDesc t = {.filterMode = pTexDesc->filterMode, .maxAnisotropy = pTexDesc->maxAnisotropy,
                        .readMode = pTexDesc->flags & HIP_TRSF_READ_AS_INTEGER ? hipReadModeElementType
                            : hipReadModeNormalizedFloat,
                        .normalizedCoords = (pTexDesc->flags & HIP_TRSF_NORMALIZED_COORDINATES) != 0,
                        .sRGB = (pTexDesc->flags & HIP_TRSF_SRGB) != 0, .mipmapFilterMode = pTexDesc->mipmapFilterMode,
                        .mipmapLevelBias = pTexDesc->mipmapLevelBias, .minMipmapLevelClamp = pTexDesc->minMipmapLevelClamp,
                        .maxMipmapLevelClamp = pTexDesc->maxMipmapLevelClamp};
    memcpy(t.addressMode, pTexDesc->addressMode, sizeof t.addressMode);
    memcpy(t.borderColor, pTexDesc->borderColor, sizeof t.borderColor);
    /* a 32-bit integer is never normalized */
    const hipChannelFormatDesc *c = r.resType == hipResourceTypeArray ? NULL
                                    : r.resType == hipResourceTypeLinear ? &r.res.linear.desc : &r.res.pitch2D.desc;
    if (!c) {
        pthread_mutex_lock(&sim_hip.lock);
        if (!sim_handle_is(r.res.array.array, SIM_H_ARRAY)) return done(hipErrorInvalidValue);
        c = &r.res.array.array->desc;
        pthread_mutex_unlock(&sim_hip.lock);
    }
    if (c->x == 32) t.readMode = hipReadModeElementType;
    void *p;
    e = object_new(&r, &t, NULL, false, &p);
    if (e == hipSuccess) *pTexObject = p;
    return e;
}

hipError_t sim_hipTexObjectGetResourceDesc(HIP_RESOURCE_DESC *pResDesc, hipTextureObject_t texObject) {
    hipResourceDesc r;
    if (!pResDesc) return hipErrorInvalidValue;
    hipError_t e = sim_hipGetTextureObjectResourceDesc(&r, texObject);
    if (e != hipSuccess) return e;
    memset(pResDesc, 0, sizeof *pResDesc);
    pResDesc->resType = r.resType;
    hipChannelFormatDesc *c = NULL;
    unsigned bits, n;
    if (r.resType == hipResourceTypeArray) pResDesc->res.array.hArray = r.res.array.array;
    else if (r.resType == hipResourceTypeLinear) {
        c = &r.res.linear.desc;
        pResDesc->res.linear.devPtr = r.res.linear.devPtr;
        pResDesc->res.linear.sizeInBytes = r.res.linear.sizeInBytes;
        pResDesc->res.linear.format = format_of(c);
        if (channels_of(c, &bits, &n)) pResDesc->res.linear.numChannels = n;
    } else {
        c = &r.res.pitch2D.desc;
        pResDesc->res.pitch2D.devPtr = r.res.pitch2D.devPtr;
        pResDesc->res.pitch2D.width = r.res.pitch2D.width;
        pResDesc->res.pitch2D.height = r.res.pitch2D.height;
        pResDesc->res.pitch2D.pitchInBytes = r.res.pitch2D.pitchInBytes;
        pResDesc->res.pitch2D.format = format_of(c);
        if (channels_of(c, &bits, &n)) pResDesc->res.pitch2D.numChannels = n;
    }
    return hipSuccess;
}

hipError_t sim_hipTexObjectGetTextureDesc(HIP_TEXTURE_DESC *pTexDesc, hipTextureObject_t texObject) {
    hipTextureDesc t;
    if (!pTexDesc) return hipErrorInvalidValue;
    hipError_t e = sim_hipGetTextureObjectTextureDesc(&t, texObject);
    if (e != hipSuccess) return e;
    memset(pTexDesc, 0, sizeof *pTexDesc);
    memcpy(pTexDesc->addressMode, t.addressMode, sizeof t.addressMode);
    memcpy(pTexDesc->borderColor, t.borderColor, sizeof t.borderColor);
    pTexDesc->filterMode = t.filterMode;
    pTexDesc->flags = (t.readMode == hipReadModeElementType ? HIP_TRSF_READ_AS_INTEGER : 0) |
                      (t.normalizedCoords ? HIP_TRSF_NORMALIZED_COORDINATES : 0) | (t.sRGB ? HIP_TRSF_SRGB : 0);
    pTexDesc->maxAnisotropy = t.maxAnisotropy;
    return hipSuccess;
}

hipError_t sim_hipTexObjectGetResourceViewDesc(HIP_RESOURCE_VIEW_DESC *pResViewDesc, hipTextureObject_t texObject) {
    hipResourceViewDesc v;
    return pResViewDesc ? sim_hipGetTextureObjectResourceViewDesc(&v, texObject) : hipErrorInvalidValue;
}
