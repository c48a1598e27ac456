/* For backends: peer copies and reductions that work between any devices, through host memory. */
#ifndef OCH_DEV_STAGING_H
#define OCH_DEV_STAGING_H

#include "dev/dev.h"

/* As the slot copy_peer. Runs after q's earlier work, and is complete when it returns. */
och_status och_dev_copy_peer_staged(och_queue *q, och_device *dst_dev, och_dev_addr dst, och_device *src_dev,
                                    och_dev_addr src, uint64_t n_bytes, och_err *err) OCH_WARN_UNUSED;
/* As the slot all_reduce_f32, over queues of any devices. Runs after the queues' earlier work, and is complete when it
 * returns. */
och_status och_dev_all_reduce_staged(och_queue *const *queues, const och_dev_addr *buffers, int n_devices, uint64_t count,
                                     och_reduce op, och_err *err) OCH_WARN_UNUSED;

#endif
