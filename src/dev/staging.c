#include "dev/staging.h"

#include "base/alloc.h"
#include "base/size.h"

#define STAGE_BYTES ((uint64_t)4 << 20)

och_status och_dev_copy_peer_staged(och_queue *q, och_device *dst_dev, och_dev_addr dst, och_device *src_dev,
                                    och_dev_addr src, uint64_t n_bytes, och_err *err) {
    if (q->device != dst_dev && q->device != src_dev)
        return och_err_set(err, OCH_INVALID, "peer copy %s:%d to %s:%d on a queue of %s:%d: expected a queue of either",
                           src_dev->info.backend, src_dev->info.index, dst_dev->info.backend, dst_dev->info.index,
                           q->device->info.backend, q->device->info.index);
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
