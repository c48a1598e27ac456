/* How products with one row of activations are cut (ROWS, U, EARLY, OCC, WAVES of matvec, matvec_qkv, matvec_glu,
 * matvec_glu_codes, matvec_codes), as measured on the device itself (ochre tune): one file of the cache's folder, under device,
 * architecture, driver and a digest of the kernel's text, then kernel, formats and shape. A device's cuts are read when its
 * first product asks, before anything is recorded; a product that was not measured, or of which nothing was faster, has the
 * choice that it has without (tuned.def, codes.def). */
#ifndef OCH_OP_GPU_TUNE_H
#define OCH_OP_GPU_TUNE_H

#include "base/dtype.h"
#include "base/hash.h"
#include "base/strbuf.h"
#include "op/op.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum och_gpu_cut_kind {
    OCH_GPU_CUT_VEC,   /* matvec */
    OCH_GPU_CUT_QKV,   /* matvec_qkv */
    OCH_GPU_CUT_GLU,   /* matvec_glu */
    OCH_GPU_CUT_CODES, /* matvec_glu_codes */
    OCH_GPU_CUT_NORMED, /* matvec_codes */
    OCH_GPU_CUT_KINDS
} och_gpu_cut_kind;
const char *och_gpu_cut_kernel(och_gpu_cut_kind kind);
/* Rows of tune.def: "ROWS=2,U=4,"; NULL past the last. The first is the kernel's own way. */
const char *och_gpu_cut_at(och_gpu_cut_kind kind, size_t i);

typedef struct och_gpu_cut_shape {
    och_gpu_cut_kind kind;
    och_dtype f, g; /* of the weights; g is that of v in matvec_qkv, else f */
    int64_t m, k;   /* rows of the result, of q, k and v together; columns */
} och_gpu_cut_shape;

#define OCH_GPU_CUT_BYTES 48

typedef struct och_gpu_cut_time {
    och_gpu_cut_shape shape;
    char cut[OCH_GPU_CUT_BYTES]; /* "": none was faster than the present choice by more than times differ */
    double present_us, cut_us;   /* of the present choice, and of the fastest */
} och_gpu_cut_time;

typedef struct och_gpu_cut_times {
    och_gpu_cut_time *at; /* owned */
    size_t n, capacity;
} och_gpu_cut_times;

typedef struct och_gpu_cut_record {
    char device[128], arch[64], driver[160], source[OCH_HASH_HEX_BYTES];
    och_gpu_cut_time time;
} och_gpu_cut_record;

typedef struct och_gpu_cut_records {
    och_gpu_cut_record *at; /* owned */
    size_t n, capacity;
} och_gpu_cut_records;

void och_gpu_cut_times_deinit(och_gpu_cut_times *t);
void och_gpu_cut_records_deinit(och_gpu_cut_records *r);
och_status och_gpu_cut_times_add(och_gpu_cut_times *t, const och_gpu_cut_time *time, och_err *err) OCH_WARN_UNUSED;
/* NULL: not there. */
const och_gpu_cut_time *och_gpu_cut_times_find(const och_gpu_cut_times *t, const och_gpu_cut_shape *shape);

/* ---- the store ---- */

/* All of FOLDER/cuts.json; none where there is no file. CORRUPT names what is wrong with it; NOTFOUND: no variable names a
 * folder. */
och_status och_gpu_tune_read(och_gpu_cut_records *out, och_err *err) OCH_WARN_UNUSED;
/* Those of the device, its driver and the kernels' present texts. *out_stale: others of the device. */
och_status och_gpu_tune_find(const och_dev_info *device, och_gpu_cut_times *out, size_t *out_stale, och_err *err) OCH_WARN_UNUSED;
/* Puts times in the place of what the file has of the device under another driver or of other texts of a kernel, and of the
 * same shapes. A file that is corrupt is written anew, one that cannot be read is not; processes and threads that put at once
 * lose nothing. The oldest of a great many records go (OCH_GPU_FILE_MOST). */
och_status och_gpu_tune_put(const och_dev_info *device, const och_gpu_cut_times *times, och_err *err) OCH_WARN_UNUSED;
/* Whether that would be possible, asked before what takes minutes. */
och_status och_gpu_tune_try_put(och_err *err) OCH_WARN_UNUSED;
/* Removes the file; *out_removed: whether there was one. */
och_status och_gpu_tune_clear(bool *out_removed, och_err *err) OCH_WARN_UNUSED;

/* ---- choosing ---- */

/* How a product with weights w is cut: as stored, a string that lives as long as the device, else `otherwise`. Three weights
 * of QKV, two of GLU and CODES. Any thread. */
const char *och_gpu_tune_cut(const och_device *d, och_gpu_cut_kind kind, const och_tensor *w, const char *otherwise);
/* The file is read anew when the next product asks. Not while products run. */
void och_gpu_tune_forget(const och_device *d);

/* A trial, by one thread and while no other product runs: what is stored is not used, which shapes ask is noted, and one of
 * them has a cut. */
#define OCH_GPU_TRIAL_SHAPES 4
typedef struct och_gpu_cut_trial {
    och_gpu_cut_shape asked[OCH_GPU_TRIAL_SHAPES];
    int n_asked;
    const och_gpu_cut_shape *of; /* NULL: none */
    const char *cut;             /* NULL: as it is without */
} och_gpu_cut_trial;
/* NULL ends it. Borrowed until then. */
void och_gpu_tune_try(const och_device *d, och_gpu_cut_trial *trial);

/* What a device's kernels keep of all this (op/gpu/store.c). */
typedef struct och_gpu_tune_state {
    atomic_bool read;
    och_gpu_cut_times list;
    och_gpu_cut_trial *trial;
} och_gpu_tune_state;
och_gpu_tune_state *och_gpu_tune_of(const och_device *d); /* NULL: the device has no kernels */
void och_gpu_tune_deinit(och_gpu_tune_state *c);
/* What names the text of a built-in kernel: another one has another. */
och_status och_gpu_kernel_source(const char *kernel, char out_hex[OCH_HASH_HEX_BYTES], och_err *err) OCH_WARN_UNUSED;

#endif
