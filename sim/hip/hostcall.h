/* Calls from kernels to the host, and printf's formatting. */
#ifndef SIM_HIP_HOSTCALL_H
#define SIM_HIP_HOSTCALL_H

#include "hip/hip.h"

#include <stdio.h>

bool sim_kernel_calls(const och_obj_kernel *info);
/* Around a kernel that may call: the host serves calls meanwhile. */
void sim_hostcall_begin(void);
void sim_hostcall_end(void);

/* Formats as C's printf does: n words, first the format string (NUL-terminated, whole words), then the arguments: a word each,
 * strings in place. The number of characters, or -1 for a format that the words do not satisfy. */
int sim_printf_write(FILE *out, const uint64_t *words, size_t n);
/* The device's buffer for printf's other protocol, made when first asked for. */
hipError_t sim_printf_buffer(sim_device *d, uint64_t *out_addr);

#endif
