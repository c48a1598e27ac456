/* A code object on a simulated board: segments in the space, relocations applied, symbols found, kernels ready to launch. */
#ifndef SIM_LOAD_MODULE_H
#define SIM_LOAD_MODULE_H

#include "exec/launch.h"
#include "obj/obj.h"

typedef struct sim_module sim_module;

/* What a launch's hidden arguments are filled from. Zero: not provided (the argument becomes 0). */
typedef struct sim_hidden {
    uint64_t printf_buffer, hostcall_buffer, multigrid_sync, heap, default_queue, completion_action, queue_ptr;
    uint32_t dynamic_lds_bytes;
    uint64_t private_base, shared_base; /* apertures: the high dwords go in */
} sim_hidden;

/* image: an ELF code object, an uncompressed or compressed offload bundle, or a HIP fat binary's contents; n_bytes 0: the
 * size is found from the image's own headers. Picks the entry that serves board->target as the runtime does (xnack and
 * sramecc), else UNSUPPORTED with both names. The image is copied. */
och_status sim_module_load(sim_space *space, const sim_board *board, int device, const void *image, size_t n_bytes,
                           sim_module **out_module, och_err *err) OCH_WARN_UNUSED;
void sim_module_unload(sim_module *m);

size_t sim_module_n_kernels(const sim_module *m);
const char *sim_module_kernel_name(const sim_module *m, size_t i);
/* By name, with or without ".kd". The program is decoded and bound at the first call for a kernel: UNSUPPORTED if it reaches
 * an instruction without a meaning here. Thread-safe. The kernel lives as long as the module. */
och_status sim_module_kernel(sim_module *m, const char *name, const sim_kernel **out_kernel, och_err *err) OCH_WARN_UNUSED;
/* A device variable: address and size. NOTFOUND. */
och_status sim_module_global(sim_module *m, const char *name, uint64_t *out_addr, uint64_t *out_size, och_err *err)
    OCH_WARN_UNUSED;

/* The parsed code object, as long as the module lives. */
const och_obj *sim_module_object(const sim_module *m);
/* The metadata of a kernel: arguments in order (obj/obj.h). */
const och_obj_kernel *sim_module_kernel_info(const sim_module *m, const sim_kernel *k);
/* Writes the kernel-argument segment (info->kernarg_bytes bytes at dst): explicit arguments from `args` (hipModuleLaunch's
 * kernelParams: a pointer each) or, when args is NULL, from packed bytes; then every hidden argument that the kernel
 * declares. INVALID: a packed buffer shorter than the explicit arguments. */
och_status sim_module_fill_args(const sim_module *m, const sim_kernel *k, const sim_launch *launch, const sim_hidden *hidden,
                                void *const *args, const void *packed, size_t packed_bytes, void *dst, och_err *err)
    OCH_WARN_UNUSED;

#endif
