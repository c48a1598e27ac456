#include "dev/staging.h"

#include "base/alloc.h"
#include "base/size.h"

#include <inttypes.h>
#include <math.h>

#define STAGE_BYTES ((uint64_t)4 << 20)

och_status och_dev_copy_peer_staged(och_queue *q, och_device *dst_dev, och_dev_addr dst, och_device *src_dev,
                                    och_dev_addr src, uint64_t n_bytes, och_err *err) {
    if (q->device != dst_dev && q->device != src_dev)
        return och_err_set(err, OCH_INVALID, "peer copy %s to %s on a queue of %s: expected a queue of either",
                           src_dev->info.label, dst_dev->info.label, q->device->info.label);
    const och_device_vtable *from = src_dev->vtable, *to = dst_dev->vtable;
    if (src_dev == dst_dev) return from->copy(q, dst, src, n_bytes, err);
    if (!n_bytes) return OCH_OK;

    /* the other side's copies need a queue of that device; q's own earlier work comes first since its half is on q */
    och_device *other = q->device == src_dev ? dst_dev : src_dev;
    och_queue *other_queue = NULL;
    uint64_t size = OCH_MIN(n_bytes, STAGE_BYTES);
    char *stage = och_malloc((size_t)size);
    if (!stage) return och_err_nomem(err, size, "the staging buffer of a peer copy");
    och_status st;
    OCH_TRY_GOTO(other->vtable->queue_create(other, &other_queue, err));
    och_queue *src_queue = q->device == src_dev ? q : other_queue, *dst_queue = q->device == src_dev ? other_queue : q;
    for (uint64_t at = 0, n; at < n_bytes; at += n) {
        n = OCH_MIN(n_bytes - at, size);
        OCH_TRY_GOTO(from->copy_to_host(src_queue, stage, och_dev_addr_add(src, at), n, err));
        OCH_TRY_GOTO(from->synchronise(src_queue, err));
        OCH_TRY_GOTO(to->copy_to_device(dst_queue, och_dev_addr_add(dst, at), stage, n, err));
        OCH_TRY_GOTO(to->synchronise(dst_queue, err));
    }
done:
    if (other_queue) other->vtable->queue_destroy(other_queue);
    och_free(stage);
    return st;
}

och_status och_dev_all_reduce_staged(och_queue *const *queues, const och_dev_addr *buffers, int n_devices, uint64_t count,
                                     och_reduce op, och_err *err) {
    if (n_devices < 1 || (op != OCH_REDUCE_SUM && op != OCH_REDUCE_MAX))
        return och_err_set(err, OCH_INVALID, "all-reduce: expected at least 1 device and sum or max, found %d devices and "
                           "operation %d", n_devices, (int)op);
    for (int i = 0; i < n_devices; i++)
        if (count && (!buffers[i].value || buffers[i].value % sizeof(float)))
            return och_err_set(err, OCH_DEVICE, "all-reduce: buffer %d at 0x%" PRIx64 ": expected an address aligned to 4", i,
                               buffers[i].value);
    if (!count) return OCH_OK;
    uint64_t piece = OCH_MIN(count, STAGE_BYTES / sizeof(float));
    float *sum = och_malloc_array(2 * (size_t)piece, sizeof *sum);
    if (!sum) return och_err_nomem(err, 2 * piece * sizeof *sum, "the staging buffer of an all-reduce");
    float *next = sum + piece;
    och_status st = OCH_OK;
    for (uint64_t at = 0, n; at < count; at += n) {
        n = OCH_MIN(count - at, piece);
        for (int i = 0; i < n_devices; i++) {
            const och_device_vtable *v = queues[i]->device->vtable;
            float *to = i ? next : sum;
            OCH_TRY_GOTO(v->copy_to_host(queues[i], to, och_dev_addr_add(buffers[i], at * sizeof *sum), n * sizeof *sum, err));
            OCH_TRY_GOTO(v->synchronise(queues[i], err));
            for (uint64_t k = 0; i && k < n; k++) {
                if (op == OCH_REDUCE_SUM) sum[k] += next[k];
                else if (isnan(next[k]) || next[k] > sum[k]) sum[k] = next[k];
            }
        }
        for (int i = 0; i < n_devices; i++)
            OCH_TRY_GOTO(queues[i]->device->vtable->copy_to_device(queues[i], och_dev_addr_add(buffers[i], at * sizeof *sum), sum,
                                                                   n * sizeof *sum, err));
        /* `sum` is read until here */
        for (int i = 0; i < n_devices; i++) OCH_TRY_GOTO(queues[i]->device->vtable->synchronise(queues[i], err));
    }
done:
    och_free(sum);
    return st;
}
