/* Products by a vendor's library (docs/blas.md): what a device has of it, and single products.
 *
 * A library may make things at its first call and at the first product of a kind: memory, code that it loads. None of that may
 * happen while a graph is recorded. A handle is made when a plan asks whether the library serves it; a product that was never
 * run is not taken while the thread records (UNSUPPORTED), and the provider then launches kernels of its own. */
#ifndef OCH_OP_BLAS_BLAS_H
#define OCH_OP_BLAS_BLAS_H

#include "op/blas/library.h"
#include "op/blas/store.h"
#include "op/op.h"

#include <stdbool.h>

#define OCH_BLAS_WORKSPACE_BYTES (UINT64_C(32) << 20) /* what cuBLAS's manual advises for sm_90, and enough for others */

typedef enum och_blas_mode { OCH_BLAS_AUTO, OCH_BLAS_NEVER, OCH_BLAS_ALWAYS } och_blas_mode;
/* OCHRE_BLAS; INVALID for another word. */
och_status och_blas_mode_get(och_blas_mode *out_mode, och_err *err) OCH_WARN_UNUSED;

/* A device's handle of its library, kept with the device. */
typedef struct och_blas och_blas;

/* Made at the first call, which no graph may hold: UNSUPPORTED then, as where there is no library, with the reason. Borrowed. */
och_status och_blas_of(const och_device *device, och_blas **out_blas, och_err *err) OCH_WARN_UNUSED;
const char *och_blas_label(const och_blas *blas); /* "cuBLASLt 13.1.0" */
const char *och_blas_path(const och_blas *blas);
/* What measurements on this device are stored under. */
void och_blas_key_of(const och_device *device, const och_blas *blas, och_blas_key *out_key);
/* Measured times of the device; read from the store at the first call, and again after och_blas_forget_times. */
const och_blas_times *och_blas_times_of(const och_device *device, och_blas *blas);
void och_blas_forget_times(och_blas *blas);

/* y[n, m] = x[n, k] w[m, k]^T [+ c[n, m]], sums in float32; rows lie ld_* elements apart. */
typedef struct och_blas_product {
    bool bf16; /* x and w; else f16. y and c are f32 */
    bool adds; /* c is there; it may be y */
    int64_t n, m, k, ld_x, ld_w, ld_c, ld_y;
    och_dev_addr x, w, c, y;
} och_blas_product;

/* Whether the library takes products of this shape and alignment, and, where the thread records, has run one. UNSUPPORTED. */
och_status och_blas_ready(och_queue *q, och_blas *blas, const och_blas_product *p, och_err *err) OCH_WARN_UNUSED;
/* Puts one on the queue. workspace: OCH_BLAS_WORKSPACE_BYTES that nothing else uses meanwhile. */
och_status och_blas_multiply(och_queue *q, och_blas *blas, const och_blas_product *p, och_dev_addr workspace,
                             och_err *err) OCH_WARN_UNUSED;

/* The provider of LINEAR. */
och_status och_blas_linear_supports(const och_device *device, const och_op_call *call, och_err *err);
och_status och_blas_linear_run(const och_op_ctx *ctx, const och_op_call *call, och_err *err);
uint64_t och_blas_linear_scratch(const och_device *device, const och_op_call *call);
/* The call by the library, whatever is faster: UNSUPPORTED, before anything is launched, where it cannot. */
och_status och_blas_linear(const och_op_ctx *ctx, const och_op_call *call, och_err *err) OCH_WARN_UNUSED;
/* For tests: the most bytes of decoded weights and of sums that are made at a time; 0: the default. Not while products run. */
void och_blas_set_slab_bytes(uint64_t n_bytes);
/* Fewest rows at which the library is taken where nothing was measured. */
int64_t och_blas_rows(och_dtype weight);

extern const och_op_provider och_op_blas_providers[];
extern const int och_op_blas_provider_count;

#endif
