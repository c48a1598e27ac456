#include "op/blas/store.h"

#include "base/alloc.h"
#include "base/log.h"
#include "op/gpu/tune_file.h"

#include <stdio.h>
#include <string.h>

static const och_gpu_file file = {"blas.json", "products", 1};

void och_blas_times_deinit(och_blas_times *t) {
    och_free(t->at);
    memset(t, 0, sizeof *t);
}
void och_blas_records_deinit(och_blas_records *r) {
    och_free(r->at);
    memset(r, 0, sizeof *r);
}

och_status och_blas_times_add(och_blas_times *t, const och_blas_time *time, och_err *err) {
    och_blas_time *at = och_gpu_file_room(t->at, t->n, &t->capacity, sizeof *at, err);
    if (!at) return OCH_NOMEM;
    t->at = at;
    t->at[t->n++] = *time;
    return OCH_OK;
}

static och_status add_record(och_blas_records *r, const och_blas_record *one, och_err *err) {
    och_blas_record *at = och_gpu_file_room(r->at, r->n, &r->capacity, sizeof *at, err);
    if (!at) return OCH_NOMEM;
    r->at = at;
    r->at[r->n++] = *one;
    return OCH_OK;
}

och_status och_blas_store_path(och_strbuf *out, och_err *err) { return och_gpu_file_path(&file, out, err); }

/* ---- reading ---- */

static och_status get_record(const och_json *j, size_t i, och_blas_record *r, och_err *err) {
    char dtype[32];
    memset(r, 0, sizeof *r);
    OCH_TRY(och_gpu_file_text(&file, j, i, "device", r->key.device, sizeof r->key.device, err));
    OCH_TRY(och_gpu_file_text(&file, j, i, "arch", r->key.arch, sizeof r->key.arch, err));
    OCH_TRY(och_gpu_file_text(&file, j, i, "driver", r->key.driver, sizeof r->key.driver, err));
    OCH_TRY(och_gpu_file_text(&file, j, i, "library", r->key.library, sizeof r->key.library, err));
    OCH_TRY(och_gpu_file_text(&file, j, i, "ochre", r->key.ochre, sizeof r->key.ochre, err));
    OCH_TRY(och_gpu_file_text(&file, j, i, "dtype", dtype, sizeof dtype, err));
    r->time.dtype = och_dtype_from_name(dtype);
    if (r->time.dtype == OCH_DTYPE_NONE)
        return och_err_set(err, OCH_CORRUPT, "%s: products.%zu.dtype: expected a format, found \"%s\"", j->name, i, dtype);
    OCH_TRY(och_gpu_file_size(&file, j, i, "m", &r->time.m, err));
    OCH_TRY(och_gpu_file_size(&file, j, i, "k", &r->time.k, err));
    OCH_TRY(och_gpu_file_size(&file, j, i, "rows", &r->time.rows, err));
    OCH_TRY(och_gpu_file_us(&file, j, i, "kernel_us", &r->time.kernel_us, err));
    return och_gpu_file_us(&file, j, i, "library_us", &r->time.library_us, err);
}

och_status och_blas_store_read(och_blas_records *out, och_err *err) {
    och_json j;
    size_t n;
    memset(out, 0, sizeof *out);
    och_status st = och_gpu_file_read(&file, &j, &n, err);
    for (size_t i = 0; i < n && st == OCH_OK; i++) {
        och_blas_record r;
        st = get_record(&j, i, &r, err);
        if (st == OCH_OK) st = add_record(out, &r, err);
    }
    if (st != OCH_OK) och_blas_records_deinit(out);
    och_json_deinit(&j);
    return st;
}

static bool same_key(const och_blas_key *a, const och_blas_key *b) {
    return !strcmp(a->device, b->device) && !strcmp(a->arch, b->arch) && !strcmp(a->driver, b->driver) &&
           !strcmp(a->library, b->library) && !strcmp(a->ochre, b->ochre);
}
static bool same_device(const och_blas_key *a, const och_blas_key *b) {
    return !strcmp(a->device, b->device) && !strcmp(a->arch, b->arch);
}

och_status och_blas_store_find(const och_blas_key *key, och_blas_times *out, size_t *out_stale, och_err *err) {
    och_blas_records all;
    *out_stale = 0;
    memset(out, 0, sizeof *out);
    OCH_TRY(och_blas_store_read(&all, err));
    och_status st = OCH_OK;
    for (size_t i = 0; i < all.n && st == OCH_OK; i++) {
        if (same_key(&all.at[i].key, key)) st = och_blas_times_add(out, &all.at[i].time, err);
        else *out_stale += same_device(&all.at[i].key, key);
    }
    och_blas_records_deinit(&all);
    if (st != OCH_OK) och_blas_times_deinit(out);
    return st;
}

/* ---- writing ---- */

static void put_record(och_strbuf *b, const och_blas_key *k, const och_blas_time *t, bool first) {
    och_strbuf_puts(b, first ? "\n{" : ",\n{");
    och_gpu_file_put_text(b, "device", k->device);
    och_gpu_file_put_text(b, "arch", k->arch);
    och_gpu_file_put_text(b, "driver", k->driver);
    och_gpu_file_put_text(b, "library", k->library);
    och_gpu_file_put_text(b, "ochre", k->ochre);
    och_gpu_file_put_text(b, "dtype", och_dtype_name(t->dtype));
    och_strbuf_printf(b, "\"m\": %lld, \"k\": %lld, \"rows\": %lld, \"kernel_us\": %.9g, \"library_us\": %.9g}", (long long)t->m,
                      (long long)t->k, (long long)t->rows, t->kernel_us, t->library_us);
}

static bool replaced(const och_blas_record *r, const och_blas_key *key, const och_blas_times *times) {
    if (!same_device(&r->key, key)) return false;
    if (!same_key(&r->key, key)) return true;
    for (size_t i = 0; i < times->n; i++) {
        const och_blas_time *t = &times->at[i];
        if (t->dtype == r->time.dtype && t->m == r->time.m && t->k == r->time.k && t->rows == r->time.rows) return true;
    }
    return false;
}

static och_status check(const och_blas_times *times, och_err *err) {
    for (size_t i = 0; i < times->n; i++) {
        const och_blas_time *t = &times->at[i];
        if (!och_gpu_file_is_size(t->m) || !och_gpu_file_is_size(t->k) || !och_gpu_file_is_size(t->rows) ||
            !och_gpu_file_is_us(t->kernel_us) || !och_gpu_file_is_us(t->library_us))
            return och_err_set(err, OCH_INVALID, "expected sizes and microseconds to keep, found %lld x %lld, %lld rows, %g and %g",
                               (long long)t->m, (long long)t->k, (long long)t->rows, t->kernel_us, t->library_us);
    }
    return OCH_OK;
}

/* The file is this process's. */
static och_status put(const och_blas_key *key, const och_blas_times *times, och_err *err) {
    och_blas_records old;
    och_err why = {0};
    och_strbuf text = {0};
    size_t n = 0;
    och_status st = och_blas_store_read(&old, &why);
    if (st != OCH_OK && st != OCH_CORRUPT && st != OCH_RANGE) return och_err_set_native(err, st, why.native_code, "%s", why.message);
    if (st != OCH_OK) och_log(OCH_LOG_WARN, "%s; it is written anew", why.message);
    for (size_t i = 0; i < old.n; i++)
        if (!replaced(&old.at[i], key, times)) old.at[n++] = old.at[i];
    size_t all = n + times->n, first = all > OCH_GPU_FILE_MOST ? all - OCH_GPU_FILE_MOST : 0;
    for (size_t i = first; i < n; i++) put_record(&text, &old.at[i].key, &old.at[i].time, i == first);
    for (size_t i = first > n ? first - n : 0; i < times->n; i++) put_record(&text, key, &times->at[i], n + i == first);
    st = och_gpu_file_write(&file, &text, err);
    och_strbuf_deinit(&text);
    och_blas_records_deinit(&old);
    return st;
}

och_status och_blas_store_put(const och_blas_key *key, const och_blas_times *times, och_err *err) {
    OCH_TRY(check(times, err));
    int lock = och_gpu_file_lock(&file, true);
    och_status st = put(key, times, err);
    och_gpu_file_unlock(lock);
    return st;
}

och_status och_blas_store_try_put(och_err *err) { return och_gpu_file_try(&file, err); }
och_status och_blas_store_clear(bool *out_removed, och_err *err) { return och_gpu_file_remove(&file, out_removed, err); }

/* ---- looking up ---- */

const och_blas_time *och_blas_times_near(const och_blas_times *t, och_dtype dtype, int64_t m, int64_t k, int64_t rows) {
    const och_blas_time *best = NULL;
    double apart = 0.0;
    for (size_t i = 0; i < t->n; i++) {
        const och_blas_time *x = &t->at[i];
        if (x->dtype != dtype || x->m != m || x->k != k) continue;
        double ratio = x->rows > rows ? (double)x->rows / (double)rows : (double)rows / (double)x->rows;
        if (best && ratio >= apart) continue;
        best = x;
        apart = ratio;
    }
    return best;
}
