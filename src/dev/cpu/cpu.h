/* The CPU as a device: memory is the host's, a queue runs work at once on the device's thread pool. */
#ifndef OCH_DEV_CPU_CPU_H
#define OCH_DEV_CPU_CPU_H

#include "base/thread.h"
#include "dev/dev.h"

/* Highest instruction set of this machine that a provider may use, in ascending order within an architecture.
 * OCHRE_CPU_ISA lowers it. */
typedef enum och_cpu_isa {
    OCH_CPU_GENERIC,
    OCH_CPU_AVX2,   /* AVX2, FMA, F16C, BMI2 */
    OCH_CPU_AVX512, /* F, BW, DQ, VL, VNNI, VBMI, BF16 */
    OCH_CPU_AMX,    /* AVX512 and AMX-TILE, -INT8, -BF16, allowed by the kernel */
    OCH_CPU_NEON    /* ASIMD with dot product and half precision */
} och_cpu_isa;

const char *och_cpu_isa_name(och_cpu_isa isa);
och_cpu_isa och_cpu_isa_detect(void);

/* The pool of a device whose backend is "cpu". */
och_pool *och_cpu_pool(och_device *d);
och_cpu_isa och_cpu_device_isa(const och_device *d);

#endif
