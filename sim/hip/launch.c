/* Launches in every form; all end in sim_launch_make. */
#include "hip/launch.h"

#include "exec/title.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Codes of refused shapes changed at 7.0. */
static hipError_t zero_shape(void) { return sim_hip_at_least(7) ? hipErrorInvalidValue : hipErrorInvalidConfiguration; }
static hipError_t too_many(void) { return sim_hip_at_least(7) ? hipErrorInvalidConfiguration : hipErrorInvalidValue; }

/* Says which limit a launch breaks: HIP's error alone does not. */
__attribute__((format(printf, 3, 4))) static hipError_t refuse(const sim_launch_request *r, hipError_t e, const char *fmt, ...) {
    char title[256], why[256];
    va_list list;
    va_start(list, fmt);
    vsnprintf(why, sizeof why, fmt, list);
    va_end(list);
    fprintf(stderr, "ochre-sim: launch of %s refused (%s): %s\n", sim_kernel_title(r->f->kernel->name, title, sizeof title),
            sim_hipGetErrorName(e), why);
    return e;
}

static hipError_t check_shape(const sim_launch_request *r) {
    const sim_kernel *k = r->f->kernel;
    const sim_board *b = &r->f->module->dev->board;
    uint64_t threads = 1, blocks = 1;
    for (int i = 0; i < 3; i++) {
        if (!r->grid[i] || !r->block[i])
            return refuse(r, zero_shape(), "dimension %d of the %s is 0", i, r->block[i] ? "grid" : "block");
        uint64_t items = r->in_items ? r->grid[i] : r->grid[i] * r->block[i];
        if (items > UINT32_MAX)
            return refuse(r, hipErrorInvalidConfiguration, "dimension %d of the grid has %" PRIu64 " threads: at most %u", i, items,
                          UINT32_MAX);
        if (!och_u64_mul(threads, r->block[i], &threads)) threads = UINT64_MAX;
        blocks *= r->in_items ? och_u64_ceil_div(r->grid[i], r->block[i]) : r->grid[i];
    }
    if (threads > 1024)
        return refuse(r, too_many(), "a block of %u x %u x %u threads: at most 1024", r->block[0], r->block[1], r->block[2]);
    if (k->max_flat_workgroup_size && threads > k->max_flat_workgroup_size)
        return refuse(r, sim_hip_at_least(7) ? hipErrorInvalidConfiguration : hipErrorLaunchFailure,
                      "a block of %" PRIu64 " threads: the kernel is compiled for at most %u (__launch_bounds__)", threads,
                      k->max_flat_workgroup_size);
    for (int i = 0; i < 3; i++)
        if (k->reqd_workgroup_size[i] && k->reqd_workgroup_size[i] != r->block[i])
            return refuse(r, hipErrorInvalidConfiguration, "dimension %d of the block is %u: the kernel is compiled for %u", i,
                          r->block[i], k->reqd_workgroup_size[i]);
    if (r->lds_bytes > b->lds_group_bytes || k->lds_bytes + r->lds_bytes > b->lds_group_bytes)
        return refuse(r, hipErrorInvalidValue, "%zu bytes of dynamic shared memory beside %u static ones: %s has %u for a block",
                      r->lds_bytes, k->lds_bytes, b->key, b->lds_group_bytes);
    if (r->cooperative) {
        uint64_t resident = (uint64_t)sim_blocks_mp(r->f, (unsigned)threads, r->lds_bytes) * b->multiprocessors;
        if (blocks > resident)
            return refuse(r, hipErrorCooperativeLaunchTooLarge, "a cooperative grid of %" PRIu64 " blocks: %s holds %" PRIu64 " at once",
                          blocks, b->key, resident);
    }
    return hipSuccess;
}

/* {pointer, buffer, size, &bytes, end} */
static bool read_extra(void **extra, const void **out, size_t *out_bytes) {
    const void *buffer = NULL;
    const size_t *bytes = NULL;
    for (int i = 0; i < 4 && extra[i] != HIP_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == HIP_LAUNCH_PARAM_BUFFER_POINTER) buffer = extra[i + 1];
        else if (extra[i] == HIP_LAUNCH_PARAM_BUFFER_SIZE) bytes = extra[i + 1];
        else return false;
    }
    *out = buffer;
    *out_bytes = bytes ? *bytes : 0;
    return bytes ? buffer || !*bytes : !buffer;
}

static hipError_t fill_op(const sim_launch_request *r, sim_op *op) {
    hipFunction_t f = r->f;
    sim_device *d = f->module->dev;
    const och_obj_kernel *info = f->info;
    sim_launch *l = &op->u.kernel.launch;
    *l = (sim_launch){.kernel = f->kernel, .isa = d->board.isa, .board = &d->board, .space = sim_hip.space,
                      .dynamic_lds_bytes = (uint32_t)r->lds_bytes, .cooperative = r->cooperative, .device = d->ordinal};
    for (int i = 0; i < 3; i++) {
        l->block[i] = r->block[i];
        l->grid[i] = (uint32_t)(r->in_items ? och_u64_ceil_div(r->grid[i], r->block[i]) : r->grid[i]);
        l->grid_items[i] = r->in_items ? r->grid[i] : r->grid[i] * r->block[i];
    }
    sim_hidden hidden = {.dynamic_lds_bytes = (uint32_t)r->lds_bytes};
    hipError_t e = sim_hidden_fill(d, info, &hidden);
    if (e != hipSuccess) return e;
    hidden.multigrid_sync = r->multigrid;
    l->queue_ptr = hidden.queue_ptr;
    size_t n_explicit = 0;
    while (n_explicit < info->n_args && info->args[n_explicit].kind < OCH_ARG_HIDDEN_FIRST) n_explicit++;
    const void *packed = NULL;
    size_t packed_bytes = 0;
    void **params = r->params;
    if (!params && r->extra && !read_extra(r->extra, &packed, &packed_bytes)) return hipErrorInvalidValue;
    if (params && r->extra) return hipErrorInvalidValue;
    if (!params && !r->extra && n_explicit) return hipErrorInvalidValue;
    op->u.kernel.kernarg_bytes = info->kernarg_bytes;
    op->u.kernel.kernarg = och_calloc(1, info->kernarg_bytes ? info->kernarg_bytes : 1);
    op->u.kernel.n_params = n_explicit;
    op->u.kernel.params = och_malloc_array(n_explicit + 1, sizeof(void *));
    if (!op->u.kernel.kernarg || !op->u.kernel.params) return hipErrorOutOfMemory;
    for (size_t i = 0; i < n_explicit; i++) op->u.kernel.params[i] = op->u.kernel.kernarg + info->args[i].offset;
    och_err err;
    och_err_clear(&err);
    och_status st = sim_module_fill_args(f->module->mod, f->kernel, l, &hidden, params, packed, packed_bytes,
                                         op->u.kernel.kernarg, &err);
    if (st == OCH_OK) return hipSuccess;
    och_log(OCH_LOG_ERROR, "%s", err.message);
    return st == OCH_NOMEM ? hipErrorOutOfMemory : hipErrorInvalidValue;
}

static hipError_t make(const sim_launch_request *r, sim_op **out) {
    hipError_t e = check_shape(r);
    if (e != hipSuccess) return e;
    sim_op *op = sim_op_new(SIM_OP_KERNEL);
    if (!op) return hipErrorOutOfMemory;
    e = fill_op(r, op);
    if (e == hipSuccess) e = sim_declared_take(op, r->f->info);
    pthread_mutex_lock(&sim_hip.lock);
    if (e == hipSuccess && ((r->start && !sim_handle_is(r->start, SIM_H_EVENT)) ||
                            (r->stop && !sim_handle_is(r->stop, SIM_H_EVENT))))
        e = hipErrorInvalidHandle;
    if (e != hipSuccess) sim_op_unref(op);
    else {
        op->u.kernel.f = r->f;
        op->u.kernel.host = r->host ? r->host : (void *)r->f;
        sim_module_ref(r->f->module);
        if (r->start) sim_event_ref(op->u.kernel.start = r->start);
        if (r->stop) sim_event_ref(op->u.kernel.stop = r->stop);
        *out = op;
    }
    pthread_mutex_unlock(&sim_hip.lock);
    return e;
}

hipError_t sim_launch_make(const sim_launch_request *r, sim_op **out) {
    hipError_t e = make(r, out);
    sim_thread *t = sim_thread_get();
    if (t) sim_declared_drop(t); /* of a launch that was refused */
    return e;
}

hipError_t sim_launch_submit(const sim_launch_request *r, hipStream_t stream) {
    hipError_t e = sim_quirk_count(SIM_QUIRK_fail_launch, &sim_hip.n_launches, hipErrorLaunchFailure);
    if (e != hipSuccess) return e;
    pthread_mutex_lock(&sim_hip.lock);
    sim_stream *s;
    e = sim_stream_resolve(stream, &s);
    if (e == hipSuccess && s->dev != r->f->module->dev) e = hipErrorInvalidHandle;
    pthread_mutex_unlock(&sim_hip.lock);
    sim_op *op;
    if (e == hipSuccess) e = sim_launch_make(r, &op);
    return e == hipSuccess ? sim_run_op(stream, op, false) : e;
}

static hipError_t function_handle(hipFunction_t f, hipFunction_t *out) {
    if (!f) return hipErrorInvalidHandle;
    hipError_t e = sim_function_any(f, out);
    return e == hipErrorInvalidDeviceFunction ? hipErrorInvalidHandle : e;
}

hipError_t sim_hipModuleLaunchKernel(hipFunction_t f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                                     unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                                     unsigned int sharedMemBytes, hipStream_t stream, void **kernelParams, void **extra) {
    sim_launch_request r = {.grid = {gridDimX, gridDimY, gridDimZ}, .block = {blockDimX, blockDimY, blockDimZ},
                            .lds_bytes = sharedMemBytes, .params = kernelParams, .extra = extra};
    hipError_t e = function_handle(f, &r.f);
    return e == hipSuccess ? sim_launch_submit(&r, stream) : e;
}

hipError_t sim_hipModuleLaunchCooperativeKernel(hipFunction_t f, unsigned int gridDimX, unsigned int gridDimY,
                                                unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                                unsigned int blockDimZ, unsigned int sharedMemBytes, hipStream_t stream,
                                                void **kernelParams) {
    sim_launch_request r = {.grid = {gridDimX, gridDimY, gridDimZ}, .block = {blockDimX, blockDimY, blockDimZ},
                            .lds_bytes = sharedMemBytes, .params = kernelParams, .cooperative = true, .multigrid = 1};
    hipError_t e = function_handle(f, &r.f);
    return e == hipSuccess ? sim_launch_submit(&r, stream) : e;
}

hipError_t sim_hipExtModuleLaunchKernel(hipFunction_t f, uint32_t globalWorkSizeX, uint32_t globalWorkSizeY,
                                        uint32_t globalWorkSizeZ, uint32_t localWorkSizeX, uint32_t localWorkSizeY,
                                        uint32_t localWorkSizeZ, size_t sharedMemBytes, hipStream_t hStream,
                                            void **kernelParams,
                                        void **extra, hipEvent_t startEvent, hipEvent_t stopEvent, uint32_t flags) {
    (void)flags; /* any-order launches run in order here */
    sim_launch_request r = {.grid = {globalWorkSizeX, globalWorkSizeY, globalWorkSizeZ}, .in_items = true,
                            .block = {localWorkSizeX, localWorkSizeY, localWorkSizeZ}, .lds_bytes = sharedMemBytes,
                            .params = kernelParams, .extra = extra, .start = startEvent, .stop = stopEvent};
    hipError_t e = function_handle(f, &r.f);
    return e == hipSuccess ? sim_launch_submit(&r, hStream) : e;
}

static hipError_t launch_host(const void *host, dim3 grid, dim3 block, void **args, size_t lds, hipStream_t stream,
                              bool cooperative,
                              hipEvent_t start, hipEvent_t stop) {
    sim_launch_request r = {.host = (void *)(uintptr_t)host, .grid = {grid.x, grid.y, grid.z}, .block = {block.x, block.y,
            block.z},
                            .lds_bytes = lds, .params = args, .cooperative = cooperative, .multigrid = cooperative,
                                .start = start,
                            .stop = stop};
    hipError_t e = sim_function_any(host, &r.f);
    return e == hipSuccess ? sim_launch_submit(&r, stream) : e;
}

hipError_t sim_hipLaunchKernel(const void *function_address, dim3 numBlocks, dim3 dimBlocks, void **args, size_t sharedMemBytes,
                               hipStream_t stream) {
    return launch_host(function_address, numBlocks, dimBlocks, args, sharedMemBytes, stream, false, NULL, NULL);
}

hipError_t sim_hipExtLaunchKernel(const void *function_address, dim3 numBlocks, dim3 dimBlocks, void **args,
                                  size_t sharedMemBytes,
                                  hipStream_t stream, hipEvent_t startEvent, hipEvent_t stopEvent, int flags) {
    (void)flags;
    return launch_host(function_address, numBlocks, dimBlocks, args, sharedMemBytes, stream, false, startEvent, stopEvent);
}

hipError_t sim_hipLaunchCooperativeKernel(const void *f, dim3 gridDim, dim3 blockDimX, void **kernelParams,
                                          unsigned int sharedMemBytes, hipStream_t stream) {
    return launch_host(f, gridDim, blockDimX, kernelParams, sharedMemBytes, stream, true, NULL, NULL);
}

static bool wants_cooperative(const hipLaunchAttribute *attrs, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        if (attrs[i].id == hipLaunchAttributeCooperative) return attrs[i].value.cooperative != 0;
    return false;
}

hipError_t sim_hipLaunchKernelExC(const hipLaunchConfig_t *config, const void *fPtr, void **args) {
    if (!config || (config->numAttrs && !config->attrs)) return hipErrorInvalidConfiguration;
    return launch_host(fPtr, config->gridDim, config->blockDim, args, config->dynamicSmemBytes, config->stream,
                       wants_cooperative(config->attrs, config->numAttrs), NULL, NULL);
}

hipError_t sim_hipDrvLaunchKernelEx(const HIP_LAUNCH_CONFIG *config, hipFunction_t f, void **params, void **extra) {
    if (!config || (config->numAttrs && !config->attrs)) return hipErrorInvalidConfiguration;
    sim_launch_request r = {.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
                            .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
                            .lds_bytes = config->sharedMemBytes, .params = params, .extra = extra,
                            .cooperative = wants_cooperative(config->attrs, config->numAttrs)};
    r.multigrid = r.cooperative;
    hipError_t e = function_handle(f, &r.f);
    return e == hipSuccess ? sim_launch_submit(&r, config->hStream) : e;
}

void sim__ZN8hip_impl22hipLaunchKernelGGLImplEmRK4dim3S2_jP12ihipStream_tPPv(uintptr_t function_address, const dim3 *numBlocks,
                                                                             const dim3 *dimBlocks, uint32_t sharedMemBytes,
                                                                             hipStream_t stream, void **kernarg) {
    hipFunction_t f;
    if (!sim_hip_init() || sim_function_any((void *)function_address, &f) != hipSuccess) return;
    (void)sim_hipModuleLaunchKernel(f, numBlocks->x, numBlocks->y, numBlocks->z, dimBlocks->x, dimBlocks->y, dimBlocks->z,
                                    sharedMemBytes, stream, NULL, kernarg);
}
