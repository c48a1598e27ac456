/* Files of what was measured, in the cache's folder: a JSON object of a format number and one list of records. */
#ifndef OCH_OP_GPU_TUNE_FILE_H
#define OCH_OP_GPU_TUNE_FILE_H

#include "base/strbuf.h"
#include "file/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct och_gpu_file {
    const char *name; /* "blas.json" */
    const char *list; /* "products" */
    int format;
} och_gpu_file;

/* FOLDER/name; NOTFOUND where no variable names a folder. */
och_status och_gpu_file_path(const och_gpu_file *f, och_strbuf *out, och_err *err) OCH_WARN_UNUSED;
/* The document, to deinit in any case, and how many records it has; none where there is no file. CORRUPT names what is
 * wrong. */
och_status och_gpu_file_read(const och_gpu_file *f, och_json *out_doc, size_t *out_n, och_err *err) OCH_WARN_UNUSED;

/* Fields of record i. CORRUPT where one is missing, of another type, or is no such thing: a text of less than n_bytes, a
 * size of 1 to 2^31 - 1, microseconds. */
och_status och_gpu_file_text(const och_gpu_file *f, const och_json *j, size_t i, const char *field, char *out, size_t n_bytes,
                             och_err *err) OCH_WARN_UNUSED;
och_status och_gpu_file_size(const och_gpu_file *f, const och_json *j, size_t i, const char *field, int64_t *out,
                             och_err *err) OCH_WARN_UNUSED;
och_status och_gpu_file_us(const och_gpu_file *f, const och_json *j, size_t i, const char *field, double *out,
                           och_err *err) OCH_WARN_UNUSED;

/* Whether fields so written can be read again. */
bool och_gpu_file_is_size(int64_t size);
bool och_gpu_file_is_us(double us);
/* "name": "text", and a comma. */
void och_gpu_file_put_text(och_strbuf *b, const char *name, const char *text);
/* A file keeps no more records than this, which of any text are fewer bytes than are read: the oldest, which stand first, go. */
#define OCH_GPU_FILE_MOST 4096
/* Whether the file may be made, or replaced by another, as far as that can be told before there is something to keep: the folder
 * is made. */
och_status och_gpu_file_try(const och_gpu_file *f, och_err *err) OCH_WARN_UNUSED;
/* Who reads a file to write it again has the folder to himself, among processes and threads, until unlock; what a writer left that
 * was ended while it wrote is taken away. Makes the folder where `make` says so. -1: where that cannot be had, or not within
 * seconds, the last who writes wins. */
int och_gpu_file_lock(const och_gpu_file *f, bool make);
void och_gpu_file_unlock(int lock);
/* The document with the records as their text, with commas between, replaces the file; the folder is made. */
och_status och_gpu_file_write(const och_gpu_file *f, const och_strbuf *records, och_err *err) OCH_WARN_UNUSED;
/* *out_removed: whether there was a file. */
och_status och_gpu_file_remove(const och_gpu_file *f, bool *out_removed, och_err *err) OCH_WARN_UNUSED;

/* Room for one more element in a list: the list, at a new place perhaps; NULL, and the old one stays, where there is no
 * memory. */
void *och_gpu_file_room(void *at, size_t n, size_t *inout_capacity, size_t element_bytes, och_err *err) OCH_WARN_UNUSED;

#endif
