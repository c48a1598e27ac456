/* The tile variant of LINEAR: activations and decoded weights as bfloat16, products by TDPBF16PS (Intel ISE reference,
 * AMX), sums in float32.
 *
 * A bfloat16 has 8 bits of significand. Quantised weights and their activations are rounded to it; float16 and bfloat16
 * weights are kept exactly (float16 as a high and a low part) and their activations cut in three and two parts, so that
 * 24 and 16 bits remain. float32 weights are declined: their own bits would be lost. */
#ifndef OCH_OP_CPU_LINEAR_AMX_H
#define OCH_OP_CPU_LINEAR_AMX_H

#include "op/op.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct och_cpu_amx_act {
    uint16_t *part[3]; /* high to low: [tile of 16 rows][tile of 32 k][16 rows][32 k] */
    int n_parts;
    int64_t n, k, k_tiles;
} och_cpu_amx_act;

typedef struct och_cpu_amx_panels {
    int n; /* 1 or 2; with 1 the second is not written */
    const uint8_t *packed[2];
    och_dtype dtype[2];
} och_cpu_amx_panels;

/* Whether the call's formats have this variant: all but F32. */
bool och_cpu_amx_serves(const och_op_call *c);
uint64_t och_cpu_amx_act_bytes(const och_op_call *c, int64_t n);
/* Memory of a member for the decoded panels. */
uint64_t och_cpu_amx_member_bytes(const och_op_call *c);
void och_cpu_amx_act_init(och_cpu_amx_act *a, const och_op_call *c, int64_t n, void *mem);
/* x [k], or NULL for a row past the end that fills up a tile. */
void och_cpu_amx_store_row(const och_cpu_amx_act *a, int64_t row, const float *x);

/* Between begin and end the calling thread's tiles are configured. */
void och_cpu_amx_begin(void);
void och_cpu_amx_end(void);
void och_cpu_amx_load_panels(const och_cpu_amx_act *a, const och_cpu_amx_panels *p, void *mem);
/* Rows [row, row + n_rows), n_rows <= 32, times both panels into t0 and t1, 16 floats a row. */
void och_cpu_amx_multiply(const och_cpu_amx_act *a, const och_cpu_amx_panels *p, int64_t row, int n_rows, void *mem,
                          float *t0, float *t1);

#endif
