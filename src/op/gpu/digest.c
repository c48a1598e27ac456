/* How fast a device's memory is read: a kernel that does nothing else. */
#include "op/gpu/gpu.h"

#include "base/size.h"
#include "base/thread.h"

enum { ROW_WORDS = 1 << 14, RUNS = 5 };

static och_status passes(och_queue *q, const och_gpu_kernel *k, och_dev_addr words, int64_t rows, och_dev_addr sums, int n,
                         double *out_seconds, och_err *err) {
    const och_kl_actual actuals[] = {och_gpu_matrix("x", words, rows, ROW_WORDS, ROW_WORDS * 4),
                                     och_gpu_matrix("y", sums, rows, 1, 4)};
    const och_op_ctx ctx = {.queue = q};
    double begin = och_now_seconds();
    for (int i = 0; i < n; i++) OCH_TRY(och_gpu_launch(&ctx, k, actuals, 2, err));
    OCH_TRY(q->device->vtable->synchronise(q, err));
    *out_seconds = och_now_seconds() - begin;
    return OCH_OK;
}

och_status och_gpu_read_rate(och_queue *q, uint64_t n_bytes, double *out_bytes_per_second, och_err *err) {
    const och_gpu_kernel *k;
    och_device *d = q->device;
    int64_t rows = (int64_t)(n_bytes / (ROW_WORDS * 4));
    och_buf words = {0}, sums = {0};
    double seconds, best = 0.0;
    *out_bytes_per_second = 0.0;
    if (rows < 1) return och_err_set(err, OCH_INVALID, "rate of reading: expected %d bytes at least", ROW_WORDS * 4);
    OCH_TRY(och_gpu_kernel_get(d, "digest", &k, err, "READS=8"));
    och_status st = och_buf_alloc(d, (uint64_t)rows * ROW_WORDS * 4, OCH_MEM_DEVICE, &words, err);
    if (st == OCH_OK) st = och_buf_alloc(d, (uint64_t)rows * 4, OCH_MEM_DEVICE, &sums, err);
    if (st == OCH_OK) st = d->vtable->fill(q, words.addr, 0x5a, words.size_bytes, err);
    if (st == OCH_OK) st = passes(q, k, words.addr, rows, sums.addr, 1, &seconds, err);
    for (int i = 0; i < RUNS && st == OCH_OK; i++) {
        st = passes(q, k, words.addr, rows, sums.addr, 4, &seconds, err);
        if (st == OCH_OK && seconds > 0.0) best = OCH_MAX(best, 4.0 * (double)words.size_bytes / seconds);
    }
    och_buf_free(&words);
    och_buf_free(&sums);
    if (st == OCH_OK) *out_bytes_per_second = best;
    return st;
}
