/* A built-in kernel by name, with arguments by name, on a device: host arrays are copied there, and back after the launch. */
#ifndef OCH_TESTS_KERNEL_RIG_H
#define OCH_TESTS_KERNEL_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/env.h"
#include "op/gpu/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KERNEL_RIG_BUFS 16

typedef struct kernel_rig {
    och_device *device;
    och_queue *queue;
    int n;
    struct {
        och_buf buf;
        void *host;
        size_t bytes;
    } at[KERNEL_RIG_BUFS];
} kernel_rig;

static inline void kernel_rig_ok(och_status st, const och_err *err, const char *what) {
    if (st != OCH_OK) fail_msg("%s: %s: %s", what, och_status_name(st), err->message);
}

static inline void kernel_rig_open(kernel_rig *k, const char *device) {
    och_err err = {0};
    memset(k, 0, sizeof *k);
    kernel_rig_ok(och_device_open(device, &(och_dev_options){0}, &k->device, &err), &err, device);
    kernel_rig_ok(k->device->vtable->queue_create(k->device, &k->queue, &err), &err, device);
}

static inline void kernel_rig_close(kernel_rig *k) {
    k->device->vtable->queue_destroy(k->queue);
    och_device_release(k->device);
}

/* A matrix that the kernel reads or writes; row_bytes 0: dense. cols 0: a vector of `rows` elements. */
static inline och_kl_actual kernel_rig_rows(kernel_rig *k, const char *name, void *host, int64_t rows, int64_t cols,
                                            uint64_t row_bytes) {
    och_err err = {0};
    assert_true(k->n < KERNEL_RIG_BUFS);
    size_t bytes = (size_t)row_bytes * (size_t)rows;
    och_buf *b = &k->at[k->n].buf;
    kernel_rig_ok(och_buf_alloc(k->device, bytes ? bytes : 1, OCH_MEM_DEVICE, b, &err), &err, name);
    k->at[k->n].host = host;
    k->at[k->n++].bytes = bytes;
    if (bytes) kernel_rig_ok(k->device->vtable->copy_to_device(k->queue, b->addr, host, bytes, &err), &err, name);
    return och_gpu_matrix(name, b->addr, rows, cols, row_bytes);
}
static inline och_kl_actual kernel_rig_f32(kernel_rig *k, const char *name, float *host, int64_t rows, int64_t cols) {
    return kernel_rig_rows(k, name, host, rows, cols, (uint64_t)cols * 4);
}
static inline och_kl_actual kernel_rig_i32(kernel_rig *k, const char *name, int32_t *host, int64_t rows, int64_t cols) {
    return kernel_rig_rows(k, name, host, rows, cols, (uint64_t)cols * 4);
}
static inline och_kl_actual kernel_rig_vector(kernel_rig *k, const char *name, float *host, int64_t n) {
    och_kl_actual a = kernel_rig_rows(k, name, host, 1, n, (uint64_t)n * 4);
    a.dims[0] = n;
    a.dims[1] = 0;
    a.row_bytes[0] = 0;
    return a;
}

/* Launches, copies every array back, and forgets them. */
static inline void kernel_rig_run(kernel_rig *k, const char *kernel, const char *spec, const och_kl_actual *args, int n_args) {
    och_err err = {0};
    const och_gpu_kernel *code;
    och_op_ctx ctx = {.queue = k->queue};
    kernel_rig_ok(och_gpu_kernel_get(k->device, kernel, &code, &err, "%s", spec), &err, kernel);
    kernel_rig_ok(och_gpu_launch(&ctx, code, args, n_args, &err), &err, kernel);
    for (int i = 0; i < k->n; i++)
        if (k->at[i].bytes)
            kernel_rig_ok(k->device->vtable->copy_to_host(k->queue, k->at[i].host, k->at[i].buf.addr, k->at[i].bytes, &err),
                          &err, kernel);
    kernel_rig_ok(k->device->vtable->synchronise(k->queue, &err), &err, kernel);
    for (int i = 0; i < k->n; i++) och_buf_free(&k->at[i].buf);
    k->n = 0;
}

#endif
