/* The kernel-argument segment: explicit arguments as the caller gives them, hidden ones from the launch. Meanings:
 * AMDGPUUsage, "Kernel Argument Metadata" (.value_kind); where HIP is free to choose, what its runtime chooses. */
#include "load/module.h"

#include "base/size.h"

#include <string.h>

/* HIP launches always have three dimensions. */
#define GRID_DIMS 3

static uint64_t hidden_value(och_obj_arg_kind kind, const sim_launch *l, const sim_hidden *h) {
    int axis = 0;
    switch (kind) {
    case OCH_ARG_HIDDEN_BLOCK_COUNT_Z:
    case OCH_ARG_HIDDEN_GROUP_SIZE_Z:
    case OCH_ARG_HIDDEN_REMAINDER_Z: axis = 2; break;
    case OCH_ARG_HIDDEN_BLOCK_COUNT_Y:
    case OCH_ARG_HIDDEN_GROUP_SIZE_Y:
    case OCH_ARG_HIDDEN_REMAINDER_Y: axis = 1; break;
    default: break;
    }
    uint64_t block = l->block[axis] ? l->block[axis] : 1;
    uint64_t items = l->grid_items[axis] ? l->grid_items[axis] : l->grid[axis] * block;
    switch (kind) {
    case OCH_ARG_HIDDEN_BLOCK_COUNT_X:
    case OCH_ARG_HIDDEN_BLOCK_COUNT_Y:
    case OCH_ARG_HIDDEN_BLOCK_COUNT_Z: return items / block; /* whole workgroups; the partial one is the remainder */
    case OCH_ARG_HIDDEN_GROUP_SIZE_X:
    case OCH_ARG_HIDDEN_GROUP_SIZE_Y:
    case OCH_ARG_HIDDEN_GROUP_SIZE_Z: return block;
    case OCH_ARG_HIDDEN_REMAINDER_X:
    case OCH_ARG_HIDDEN_REMAINDER_Y:
    case OCH_ARG_HIDDEN_REMAINDER_Z: return items % block;
    case OCH_ARG_HIDDEN_GRID_DIMS: return GRID_DIMS;
    case OCH_ARG_HIDDEN_PRINTF_BUFFER: return h->printf_buffer;
    case OCH_ARG_HIDDEN_HOSTCALL_BUFFER: return h->hostcall_buffer;
    case OCH_ARG_HIDDEN_DEFAULT_QUEUE: return h->default_queue;
    case OCH_ARG_HIDDEN_COMPLETION_ACTION: return h->completion_action;
    case OCH_ARG_HIDDEN_MULTIGRID_SYNC_ARG: return h->multigrid_sync;
    case OCH_ARG_HIDDEN_HEAP_V1: return h->heap;
    case OCH_ARG_HIDDEN_DYNAMIC_LDS_SIZE: return h->dynamic_lds_bytes ? h->dynamic_lds_bytes : l->dynamic_lds_bytes;
    case OCH_ARG_HIDDEN_PRIVATE_BASE: return h->private_base >> 32;
    case OCH_ARG_HIDDEN_SHARED_BASE: return h->shared_base >> 32;
    case OCH_ARG_HIDDEN_QUEUE_PTR: return h->queue_ptr ? h->queue_ptr : l->queue_ptr;
    default: return 0; /* a global offset, which HIP does not have, or none */
    }
}

och_status sim_module_fill_args(const sim_module *m, const sim_kernel *k, const sim_launch *launch, const sim_hidden *hidden,
                                void *const *args, const void *packed, size_t packed_bytes, void *dst, och_err *err) {
    const och_obj_kernel *info = sim_module_kernel_info(m, k);
    static const sim_hidden none;
    uint8_t *out = dst;
    size_t n_explicit = 0;
    if (!hidden) hidden = &none;
    if (info->kernarg_bytes) memset(out, 0, info->kernarg_bytes);
    for (size_t i = 0; i < info->n_args; i++) {
        const och_obj_arg *a = &info->args[i];
        if (a->kind == OCH_ARG_UNKNOWN)
            return och_err_set(err, OCH_UNSUPPORTED,
                               "kernel '%.200s': argument %zu is a %.60s, which this version does not know", info->name, i,
                               a->value_kind);
        if (a->kind >= OCH_ARG_HIDDEN_FIRST) {
            uint64_t v = hidden_value(a->kind, launch, hidden);
            for (uint32_t b = 0; b < a->size && b < 8; b++) out[a->offset + b] = (uint8_t)(v >> (8 * b));
            continue;
        }
        const uint8_t *from;
        if (args) {
            from = args[n_explicit];
            if (!from && a->size)
                return och_err_set(err, OCH_INVALID,
                                   "kernel '%.200s': argument %zu: expected a pointer to %u bytes, found NULL", info->name,
                                   n_explicit, a->size);
        } else {
            if (!packed || packed_bytes < (uint64_t)a->offset + a->size)
                return och_err_set(err, OCH_INVALID,
                                   "kernel '%.200s': expected at least %llu bytes of packed arguments, found %zu", info->name,
                                   (unsigned long long)a->offset + a->size, packed ? packed_bytes : 0);
            from = (const uint8_t *)packed + a->offset;
        }
        if (a->size) memcpy(out + a->offset, from, a->size);
        n_explicit++;
    }
    return OCH_OK;
}
