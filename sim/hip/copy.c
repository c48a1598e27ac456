/* Copies of every shape: each becomes one op of rows, planes and pitches. */
#include "hip/hip.h"

#include "hip/graph.h"

#include <string.h>

hipError_t sim_run_op(hipStream_t stream, sim_op *op, bool sync) {
    pthread_mutex_lock(&sim_hip.lock);
    sim_stream *s;
    hipError_t e = sim_stream_resolve(stream, &s);
    if (e != hipSuccess) sim_op_unref(op);
    else e = sync ? sim_submit_wait(s, op) : sim_submit(s, op, NULL);
    pthread_mutex_unlock(&sim_hip.lock);
    return e;
}

static bool kind_ok(hipMemcpyKind kind) { return (unsigned)kind <= hipMemcpyDefault || kind == hipMemcpyDeviceToDeviceNoCU; }

/* A copy whose source and destination are both memory that HIP does not know is one from host to host. */
static hipError_t check_kind(const void *dst, const void *src, hipMemcpyKind kind) {
    if (!kind_ok(kind)) return hipErrorInvalidMemcpyDirection;
    if (kind != hipMemcpyHostToHost && kind != hipMemcpyDefault && !sim_is_known(dst) &&
        !sim_is_known(src)) return hipErrorInvalidValue;
    return hipSuccess;
}

/* Bytes that a box of rows spans from its first byte. False: it overflows. */
static bool span(const sim_box *b, size_t row, size_t rows, size_t slices, uint64_t *out) {
    uint64_t y, z;
    return och_u64_mul(b->pitch, rows - 1, &y) && och_u64_mul(b->slice, slices - 1, &z) && och_u64_add(y, z, &y) &&
           och_u64_add(y, row, out);
}

static bool fits(const sim_box *b, size_t row, size_t rows, size_t slices) {
    uint64_t bytes;
    return span(b, row, rows, slices, &bytes) && sim_host_of(b->base, bytes);
}

static hipError_t make(const sim_box *dst, const sim_box *src, size_t row, size_t rows, size_t slices, hipMemcpyKind kind,
                       sim_op **out) {
    hipError_t e = check_kind(dst->base, src->base, kind);
    if (e != hipSuccess) return e;
    if (!fits(dst, row, rows, slices) || !fits(src, row, rows, slices)) return hipErrorInvalidValue;
    e = sim_quirk_count(SIM_QUIRK_fail_copy, &sim_hip.n_copies, hipErrorInvalidValue);
    if (e != hipSuccess) return e;
    sim_op *op = sim_op_new(SIM_OP_COPY);
    if (!op) return hipErrorOutOfMemory;
    op->u.copy.dst = *dst;
    op->u.copy.src = *src;
    op->u.copy.row = row;
    op->u.copy.rows = rows;
    op->u.copy.slices = slices;
    op->u.copy.kind = kind;
    *out = op;
    return hipSuccess;
}

/* Memory that the device cannot reach is staged by the host: such a copy has ended when the call returns. */
static bool staged(const sim_op *op) { return !sim_is_known(op->u.copy.dst.base) || !sim_is_known(op->u.copy.src.base); }

static hipError_t submit_copy(hipStream_t stream, sim_op *op, bool sync) {
    if (!sync) {
        pthread_mutex_lock(&sim_hip.lock);
        sim_stream *s;
        hipError_t e = sim_stream_resolve(stream, &s);
        bool captured = e == hipSuccess && s->capture;
        pthread_mutex_unlock(&sim_hip.lock);
        sync = !captured && staged(op);
    }
    return sim_run_op(stream, op, sync);
}

hipError_t sim_copy_make(void *dst, const void *src, size_t n, hipMemcpyKind kind, sim_op **out) {
    if (!dst || !src) return hipErrorInvalidValue;
    sim_box to = {dst, n, n}, from = {(void *)(uintptr_t)src, n, n};
    hipError_t e = make(&to, &from, n, 1, 1, kind, out);
    if (e != hipSuccess) return e;
    (*out)->u.copy.linear = true;
    (*out)->u.copy.params = (hipMemcpy3DParms){.srcPtr = {(void *)(uintptr_t)src, n, n, 1}, .dstPtr = {dst, n, n, 1},
                                               .extent = {n, 1, 1}, .kind = kind};
    return hipSuccess;
}

hipError_t sim_copy(void *dst, const void *src, size_t n, hipMemcpyKind kind, hipStream_t stream, bool sync) {
    if (!n) return kind_ok(kind) ? hipSuccess : hipErrorInvalidMemcpyDirection;
    sim_op *op;
    hipError_t e = sim_copy_make(dst, src, n, kind, &op);
    return e == hipSuccess ? submit_copy(stream, op, sync) : e;
}

hipError_t sim_copy_peer(void *dst, int dst_device, const void *src, int src_device, size_t n, hipStream_t stream, bool sync) {
    if (!sim_device_at(dst_device) || !sim_device_at(src_device)) return hipErrorInvalidDevice;
    if (!dst || !src) return hipErrorInvalidValue;
    return sim_copy(dst, src, n, hipMemcpyDeviceToDevice, stream, sync);
}

hipError_t sim_copy_symbol(const void *symbol, void *host, size_t n, size_t offset, hipMemcpyKind kind, hipStream_t stream,
                           bool sync, bool to) {
    uint64_t addr;
    size_t bytes;
    if (!symbol) return hipErrorInvalidSymbol;
    hipError_t e = sim_host_variable(symbol, &addr, &bytes);
    if (e != hipSuccess) return e;
    if (!host || offset > bytes || n > bytes - offset) return hipErrorInvalidValue;
    if (kind == hipMemcpyHostToHost || (kind == hipMemcpyDeviceToHost && to) || (kind == hipMemcpyHostToDevice && !to))
        return hipErrorInvalidMemcpyDirection;
    if (!n) return hipSuccess;
    void *at = (void *)(uintptr_t)(addr + offset);
    sim_op *op;
    e = to ? sim_copy_make(at, host, n, kind, &op) : sim_copy_make(host, at, n, kind, &op);
    if (e != hipSuccess) return e;
    op->u.copy.symbol = symbol;
    op->u.copy.to_symbol = to;
    return submit_copy(stream, op, sync);
}

hipError_t sim_hipGetSymbolAddress(void **devPtr, const void *symbol) {
    uint64_t addr;
    size_t bytes;
    if (!devPtr) return hipErrorInvalidValue;
    hipError_t e = sim_host_variable(symbol, &addr, &bytes);
    if (e == hipSuccess) *devPtr = (void *)(uintptr_t)addr;
    return e;
}

hipError_t sim_hipGetSymbolSize(size_t *size, const void *symbol) {
    uint64_t addr;
    return size ? sim_host_variable(symbol, &addr, size) : hipErrorInvalidValue;
}

hipError_t sim_copy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height, hipMemcpyKind kind,
                      hipStream_t stream, bool sync) {
    if (!width || !height) return kind_ok(kind) ? hipSuccess : hipErrorInvalidMemcpyDirection;
    if (!dst || !src) return hipErrorInvalidValue;
    if (width > dpitch || width > spitch) return hipErrorInvalidPitchValue;
    hipMemcpy3DParms p = {.srcPtr = {(void *)(uintptr_t)src, spitch, width, height}, .dstPtr = {dst, dpitch, width, height},
                          .extent = {width, height, 1}, .kind = kind};
    return sim_copy3d(&p, stream, sync);
}

static size_t array_texel(hipArray_const_t a) {
    return (size_t)(a->desc.x + a->desc.y + a->desc.z + a->desc.w) / 8;
}

/* The box of an array or a pitched pointer at pos; x counts elements of an array, bytes of a pointer. */
static hipError_t box_of(hipArray_t array, hipPitchedPtr ptr, hipPos pos, size_t row, size_t rows, size_t slices,
                         sim_box *out) {
    if (array) {
        if (!sim_handle_is(array, SIM_H_ARRAY)) return hipErrorInvalidHandle;
        size_t texel = array_texel(array), pitch = (array->width * texel + 255) / 256 * 256;
        size_t height = array->height ? array->height : 1, depth = array->depth ? array->depth : 1;
        if (pos.x * texel + row > array->width * texel || pos.y + rows > height ||
            pos.z + slices > depth) return hipErrorInvalidValue;
        *out = (sim_box){(uint8_t *)array->data + pos.z * pitch * height + pos.y * pitch + pos.x * texel, pitch,
                         pitch * height};
        return hipSuccess;
    }
    if (!ptr.ptr) return hipErrorInvalidValue;
    size_t pitch = ptr.pitch ? ptr.pitch : row;
    if (pos.x + row > pitch) return hipErrorInvalidPitchValue;
    size_t height = ptr.ysize ? ptr.ysize : rows;
    if (slices > 1 && pos.y + rows > height) return hipErrorInvalidValue;
    *out = (sim_box){(uint8_t *)ptr.ptr + pos.z * pitch * height + pos.y * pitch + pos.x, pitch, pitch * height};
    return hipSuccess;
}

hipError_t sim_copy3d_make(const hipMemcpy3DParms *p, sim_op **out) {
    if (!p || (p->srcArray && p->srcPtr.ptr) || (p->dstArray && p->dstPtr.ptr)) return hipErrorInvalidValue;
    /* an extent is in elements where an array takes part, else in bytes */
    hipArray_t array = p->dstArray ? p->dstArray : p->srcArray;
    pthread_mutex_lock(&sim_hip.lock);
    hipError_t e = hipSuccess;
    sim_box dst, src;
    size_t row = p->extent.width;
    if (array && !sim_handle_is(array, SIM_H_ARRAY)) e = hipErrorInvalidHandle;
    if (e == hipSuccess && array) row *= array_texel(array);
    if (e == hipSuccess) e = box_of(p->dstArray, p->dstPtr, p->dstPos, row, p->extent.height, p->extent.depth, &dst);
    if (e == hipSuccess) e = box_of(p->srcArray, p->srcPtr, p->srcPos, row, p->extent.height, p->extent.depth, &src);
    pthread_mutex_unlock(&sim_hip.lock);
    if (e == hipSuccess) e = make(&dst, &src, row, p->extent.height, p->extent.depth, p->kind, out);
    if (e != hipSuccess) return e;
    (*out)->u.copy.params = *p;
    (*out)->u.copy.arrays[0] = p->dstArray;
    (*out)->u.copy.arrays[1] = p->srcArray;
    return hipSuccess;
}

hipError_t sim_copy3d(const hipMemcpy3DParms *p, hipStream_t stream, bool sync) {
    if (!p) return hipErrorInvalidValue;
    if (!p->extent.width || !p->extent.height || !p->extent.depth) return hipSuccess;
    sim_op *op;
    hipError_t e = sim_copy3d_make(p, &op);
    return e == hipSuccess ? submit_copy(stream, op, sync) : e;
}

/* A side of the driver calls' descriptors: positions in bytes. */
typedef struct side {
    hipMemoryType type;
    const void *host;
    hipDeviceptr_t device;
    hipArray_t array;
    size_t x, y, z, pitch, height;
} side;

static hipError_t side_box(const side *s, size_t row, size_t rows, size_t slices, sim_box *out) {
    /* the numbers of hipMemoryType, old or new */
    bool old = !sim_hip_at_least(6);
    bool array = s->array && s->type == (old ? (hipMemoryType)hipMemoryTypeArray_5 : hipMemoryTypeArray);
    bool host = s->type == (old ? (hipMemoryType)hipMemoryTypeHost_5 : hipMemoryTypeHost);
    if (array) {
        if (!sim_handle_is(s->array, SIM_H_ARRAY)) return hipErrorInvalidHandle;
        size_t texel = array_texel(s->array);
        if (s->x % texel) return hipErrorInvalidValue;
        return box_of(s->array, (hipPitchedPtr){NULL, 0, 0, 0}, (hipPos){s->x / texel, s->y, s->z}, row, rows, slices, out);
    }
    const void *p = host && s->host ? s->host : s->device ? s->device : s->host;
    return box_of(NULL, (hipPitchedPtr){(void *)(uintptr_t)p, s->pitch ? s->pitch : s->x + row, row,
                                        s->height ? s->height : s->y + rows},
                  (hipPos){s->x, s->y, s->z}, row, rows, slices, out);
}

static hipError_t copy_sides(const side *dst, const side *src, size_t row, size_t rows, size_t slices, hipStream_t stream,
                             bool sync) {
    if (!row || !rows || !slices) return hipSuccess;
    sim_box to, from;
    pthread_mutex_lock(&sim_hip.lock);
    hipError_t e = side_box(dst, row, rows, slices, &to);
    if (e == hipSuccess) e = side_box(src, row, rows, slices, &from);
    pthread_mutex_unlock(&sim_hip.lock);
    sim_op *op;
    if (e == hipSuccess) e = make(&to, &from, row, rows, slices, hipMemcpyDefault, &op);
    return e == hipSuccess ? submit_copy(stream, op, sync) : e;
}

hipError_t sim_copy_param2d(const hip_Memcpy2D *p, hipStream_t stream, bool sync) {
    if (!p) return hipErrorInvalidValue;
    side dst = {p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray, p->dstXInBytes, p->dstY, 0, p->dstPitch, 0};
    side src = {p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray, p->srcXInBytes, p->srcY, 0, p->srcPitch, 0};
    return copy_sides(&dst, &src, p->WidthInBytes, p->Height, 1, stream, sync);
}

hipError_t sim_copy_param3d(const HIP_MEMCPY3D *p, hipStream_t stream, bool sync) {
    if (!p) return hipErrorInvalidValue;
    side dst = {p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray, p->dstXInBytes, p->dstY, p->dstZ, p->dstPitch,
                p->dstHeight};
    side src = {p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray, p->srcXInBytes, p->srcY, p->srcZ, p->srcPitch,
                p->srcHeight};
    return copy_sides(&dst, &src, p->WidthInBytes, p->Height, p->Depth, stream, sync);
}

/* Positions of the runtime's array copies are in bytes and rows. */
static side array_side(hipArray_const_t a, size_t x, size_t y) {
    return (side){sim_hip_at_least(6) ? hipMemoryTypeArray : (hipMemoryType)hipMemoryTypeArray_5, NULL, NULL,
                  (hipArray_t)(uintptr_t)a, x, y, 0, 0, 0};
}
static side pointer_side(const void *p, size_t pitch) {
    return (side){sim_hip_at_least(6) ? hipMemoryTypeHost : (hipMemoryType)hipMemoryTypeHost_5, p, NULL, NULL, 0, 0, 0, pitch,
                  0};
}

hipError_t sim_copy_to_array(hipArray_t dst, size_t x, size_t y, const void *src, size_t spitch, size_t width, size_t height,
                             hipMemcpyKind kind, hipStream_t stream, bool sync) {
    if (!dst || !src) return hipErrorInvalidValue;
    if (!kind_ok(kind)) return hipErrorInvalidMemcpyDirection;
    side to = array_side(dst, x, y), from = pointer_side(src, spitch);
    return copy_sides(&to, &from, width, height, 1, stream, sync);
}

hipError_t sim_copy_from_array(void *dst, size_t dpitch, hipArray_const_t src, size_t x, size_t y, size_t width, size_t height,
                               hipMemcpyKind kind, hipStream_t stream, bool sync) {
    if (!dst || !src) return hipErrorInvalidValue;
    if (!kind_ok(kind)) return hipErrorInvalidMemcpyDirection;
    side to = pointer_side(dst, dpitch), from = array_side(src, x, y);
    return copy_sides(&to, &from, width, height, 1, stream, sync);
}

hipError_t sim_hipMemcpy2DArrayToArray(hipArray_t dst, size_t wOffsetDst, size_t hOffsetDst, hipArray_const_t src,
                                       size_t wOffsetSrc, size_t hOffsetSrc, size_t width, size_t height, hipMemcpyKind kind) {
    if (!dst || !src) return hipErrorInvalidValue;
    if (!kind_ok(kind)) return hipErrorInvalidMemcpyDirection;
    side to = array_side(dst, wOffsetDst, hOffsetDst), from = array_side(src, wOffsetSrc, hOffsetSrc);
    return copy_sides(&to, &from, width, height, 1, NULL, true);
}

hipError_t sim_hipMemcpyAtoA(hipArray_t dstArray, size_t dstOffset, hipArray_t srcArray, size_t srcOffset, size_t ByteCount) {
    return sim_hipMemcpy2DArrayToArray(dstArray, dstOffset, 0, srcArray, srcOffset, 0, ByteCount, 1, hipMemcpyDeviceToDevice);
}

/* n bytes from (x, y) on, running on over the array's rows. */
hipError_t sim_copy_array_linear(hipArray_t array, size_t x, size_t y, void *linear, size_t n, hipMemcpyKind kind,
                                 hipStream_t stream, bool sync, bool to_array) {
    if (!array || !linear) return hipErrorInvalidValue;
    if (!kind_ok(kind)) return hipErrorInvalidMemcpyDirection;
    pthread_mutex_lock(&sim_hip.lock);
    bool ok = sim_handle_is(array, SIM_H_ARRAY);
    size_t width = ok ? array->width * array_texel(array) : 0;
    pthread_mutex_unlock(&sim_hip.lock);
    if (!ok) return hipErrorInvalidHandle;
    uint8_t *p = linear;
    while (n) {
        if (x >= width) return hipErrorInvalidValue;
        size_t rows = x == 0 && n >= width ? n / width : 1, row = rows > 1 ? width : n < width - x ? n : width - x;
        side a = array_side(array, x, y), l = pointer_side(p, row);
        hipError_t e = to_array ? copy_sides(&a, &l, row, rows, 1, stream, sync) : copy_sides(&l, &a, row, rows, 1, stream,
                sync);
        if (e != hipSuccess) return e;
        p += row * rows, n -= row * rows, y += rows, x = 0;
    }
    return hipSuccess;
}

/* ---- fills ---- */
hipError_t sim_fill_make(void *dst, size_t pitch, uint32_t value, unsigned elem, size_t width, size_t height, size_t depth,
                         size_t slice_rows, sim_op **out) {
    uint64_t row, rows, bytes;
    if (!dst || (elem != 1 && elem != 2 && elem != 4) || (uintptr_t)dst % elem) return hipErrorInvalidValue;
    if (!och_u64_mul(width, elem, &row) || (height > 1 && pitch < row)) return hipErrorInvalidValue;
    if (height == 1 && depth == 1) pitch = row;
    if (!slice_rows) slice_rows = height;
    if (!och_u64_mul(slice_rows, depth - 1, &rows) || !och_u64_add(rows, height - 1, &rows) || !och_u64_mul(rows, pitch,
            &bytes) ||
        !och_u64_add(bytes, row, &bytes))
        return hipErrorInvalidValue;
    /* memory that HIP does not know is no destination */
    if (!sim_is_known(dst) || !sim_host_of(dst, bytes)) return hipErrorInvalidValue;
    sim_op *op = sim_op_new(SIM_OP_FILL);
    if (!op) return hipErrorOutOfMemory;
    op->u.fill.dst = dst;
    op->u.fill.pitch = pitch;
    op->u.fill.value = elem == 1 ? value & 0xFF : elem == 2 ? value & 0xFFFF : value;
    op->u.fill.elem = elem;
    op->u.fill.width = width;
    op->u.fill.height = height;
    op->u.fill.depth = depth;
    op->u.fill.slice_rows = slice_rows;
    *out = op;
    return hipSuccess;
}

hipError_t sim_fill(void *dst, size_t pitch, uint32_t value, unsigned elem, size_t width, size_t height, size_t depth,
                    size_t slice_rows, hipStream_t stream, bool sync) {
    if (!width || !height || !depth) return hipSuccess;
    sim_op *op;
    hipError_t e = sim_fill_make(dst, pitch, value, elem, width, height, depth, slice_rows, &op);
    return e == hipSuccess ? sim_run_op(stream, op, sync) : e;
}

hipError_t sim_fill3d(hipPitchedPtr dst, uint32_t value, hipExtent extent, hipStream_t stream, bool sync) {
    if (extent.depth > 1 && dst.ysize < extent.height) return hipErrorInvalidValue;
    return sim_fill(dst.ptr, dst.pitch, value, 1, extent.width, extent.height, extent.depth, dst.ysize, stream, sync);
}
