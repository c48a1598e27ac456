/* Timing products, for ochre tune. */
#ifndef OCH_OP_BLAS_TIME_H
#define OCH_OP_BLAS_TIME_H

#include "dev/dev.h"
#include "op/blas/store.h"

/* One product with a weight [m, k] of that type: the medians of rounds in which both ways take turns, host time of the launches
 * included, on generated numbers, the weight rotated among copies that do not fit the device's cache together. UNSUPPORTED where
 * the library does not take it. Nothing is stored. */
och_status och_blas_measure(och_queue *q, och_dtype dtype, int64_t m, int64_t k, int64_t rows, och_blas_time *out_time,
                            och_err *err) OCH_WARN_UNUSED;

#endif
