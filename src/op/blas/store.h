/* Times of products that were measured (ochre tune), in one file of the cache's folder: under device, architecture, driver,
 * library and Ochre's version, then format and shape. */
#ifndef OCH_OP_BLAS_STORE_H
#define OCH_OP_BLAS_STORE_H

#include "base/dtype.h"
#include "base/status.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct och_blas_key {
    char device[128], arch[64], driver[160], library[64], ochre[32];
} och_blas_key;

typedef struct och_blas_time {
    och_dtype dtype; /* of the weight [m, k] */
    int64_t m, k, rows;
    double kernel_us, library_us;
} och_blas_time;

typedef struct och_blas_times {
    och_blas_time *at; /* owned */
    size_t n, capacity;
} och_blas_times;

typedef struct och_blas_record {
    och_blas_key key;
    och_blas_time time;
} och_blas_record;

typedef struct och_blas_records {
    och_blas_record *at; /* owned */
    size_t n, capacity;
} och_blas_records;

void och_blas_times_deinit(och_blas_times *t);
void och_blas_records_deinit(och_blas_records *r);
och_status och_blas_times_add(och_blas_times *t, const och_blas_time *time, och_err *err) OCH_WARN_UNUSED;

/* FOLDER/blas.json; NOTFOUND where no variable names a folder. */
och_status och_blas_store_path(och_strbuf *out, och_err *err) OCH_WARN_UNUSED;
/* All of the file; none where there is no file. CORRUPT names what is wrong with it. */
och_status och_blas_store_read(och_blas_records *out, och_err *err) OCH_WARN_UNUSED;
/* Those of the key. *out_stale: those of the same device under another driver, library or version. */
och_status och_blas_store_find(const och_blas_key *key, och_blas_times *out, size_t *out_stale, och_err *err) OCH_WARN_UNUSED;
/* Puts times in the place of what the file has of the device under other drivers, libraries and versions, and of the same shapes
 * under this key. A file that is corrupt is written anew, one that cannot be read is not; processes and threads that put at once
 * lose nothing. The oldest of a great many records go (OCH_GPU_FILE_MOST). */
och_status och_blas_store_put(const och_blas_key *key, const och_blas_times *times, och_err *err) OCH_WARN_UNUSED;
/* Whether that would be possible, asked before what takes minutes. */
och_status och_blas_store_try_put(och_err *err) OCH_WARN_UNUSED;
/* Removes the file; *out_removed: whether there was one. */
och_status och_blas_store_clear(bool *out_removed, och_err *err) OCH_WARN_UNUSED;

/* Times of a shape at the number of rows nearest by ratio; NULL where the shape was not measured. */
const och_blas_time *och_blas_times_near(const och_blas_times *t, och_dtype dtype, int64_t m, int64_t k, int64_t rows);

#endif
