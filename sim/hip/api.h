/* Every call of the table hip_syms.def: the body sim_<name>, and the shared bodies that its ALIAS rows name. */
#ifndef SIM_HIP_API_H
#define SIM_HIP_API_H

#include "hip/hip_types.h"

#define HIP_API(node, flags, name, params, args) hipError_t sim_##name params;
#define HIP_RET(node, ret, name, params, args) ret sim_##name params;
#define HIP_VOID(node, name, params, args) void sim_##name params;
#define HIP_ALIAS(node, flags, name, body, params, args)
#define HIP_SPT(node, flags, name, body, params, args)
#define HIP_NOT(node, name, why)
#include "hip/hip_syms.def"
#undef HIP_API
#undef HIP_RET
#undef HIP_VOID
#undef HIP_ALIAS
#undef HIP_SPT
#undef HIP_NOT

hipError_t sim_copy(void *dst, const void *src, size_t n, hipMemcpyKind kind, hipStream_t stream, bool sync);
hipError_t sim_copy_peer(void *dst, int dst_device, const void *src, int src_device, size_t n, hipStream_t stream, bool sync);
hipError_t sim_copy_symbol(const void *symbol, void *host, size_t n, size_t offset, hipMemcpyKind kind, hipStream_t stream,
                           bool sync, bool to);
hipError_t sim_copy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height, hipMemcpyKind kind,
                      hipStream_t stream, bool sync);
hipError_t sim_copy3d(const hipMemcpy3DParms *p, hipStream_t stream, bool sync);
hipError_t sim_copy_param2d(const hip_Memcpy2D *p, hipStream_t stream, bool sync);
hipError_t sim_copy_param3d(const HIP_MEMCPY3D *p, hipStream_t stream, bool sync);
hipError_t sim_copy_to_array(hipArray_t dst, size_t x, size_t y, const void *src, size_t spitch, size_t width, size_t height,
                             hipMemcpyKind kind, hipStream_t stream, bool sync);
hipError_t sim_copy_from_array(void *dst, size_t dpitch, hipArray_const_t src, size_t x, size_t y, size_t width, size_t height,
                               hipMemcpyKind kind, hipStream_t stream, bool sync);
hipError_t sim_copy_array_linear(hipArray_t array, size_t x, size_t y, void *linear, size_t n, hipMemcpyKind kind,
                                 hipStream_t stream, bool sync, bool to_array);
hipError_t sim_fill(void *dst, size_t pitch, uint32_t value, unsigned elem, size_t width, size_t height, size_t depth,
                    size_t slice_rows, hipStream_t stream, bool sync);
hipError_t sim_fill3d(hipPitchedPtr dst, uint32_t value, hipExtent extent, hipStream_t stream, bool sync);
hipError_t sim_stream_wait_value(hipStream_t stream, void *ptr, uint64_t value, unsigned flags, uint64_t mask, unsigned bytes);
hipError_t sim_stream_write_value(hipStream_t stream, void *ptr, uint64_t value, unsigned flags, unsigned bytes);
hipError_t sim_module_load_options(hipModule_t *module, const void *image, unsigned n_options);
hipError_t sim_entry_point(const char *symbol, void **out, int version, hipDriverProcAddressQueryResult *status);
hipError_t sim_surface_create(hipSurfaceObject_t *out, const hipResourceDesc *desc);
hipError_t sim_surface_destroy(hipSurfaceObject_t surface);
hipError_t sim_occupancy_blocks(int *out_blocks, hipFunction_t f, int block_size, size_t dynamic_lds);
hipError_t sim_occupancy_size(int *out_grid, int *out_block, hipFunction_t f, size_t dynamic_lds, int limit);
hipError_t sim_malloc_async(void **out, size_t size, hipMemPool_t pool, hipStream_t stream);
hipError_t sim_graph_instantiate(hipGraphExec_t *out, hipGraph_t graph, hipGraphNode_t *error_node, char *log, size_t log_bytes,
                                 unsigned long long flags);
hipError_t sim_error_name(hipError_t e, const char **out);
hipError_t sim_error_string(hipError_t e, const char **out);
hipError_t sim_capture_info(hipStream_t stream, hipStreamCaptureStatus *status, unsigned long long *id, hipGraph_t *graph,
                            const hipGraphNode_t **deps, size_t *n_deps);
hipError_t sim_capture_begin(hipStream_t stream, hipGraph_t graph, const hipGraphNode_t *deps, size_t n_deps,
                             hipStreamCaptureMode mode);

#endif
