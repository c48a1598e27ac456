#include "op/blas/store.h"

#include "base/alloc.h"
#include "base/log.h"
#include "file/json.h"
#include "file/write.h"
#include "jit/cache.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FORMAT 1
#define MAX_FILE_BYTES ((uint64_t)16 << 20)
#define MAX_RECORDS 65536
#define MAX_US 1e12

void och_blas_times_deinit(och_blas_times *t) {
    och_free(t->at);
    memset(t, 0, sizeof *t);
}
void och_blas_records_deinit(och_blas_records *r) {
    och_free(r->at);
    memset(r, 0, sizeof *r);
}

/* Room for one more element in a list: the list, at a new place perhaps; NULL, and the old one stays, where there is no memory. */
static void *with_room(void *at, size_t n, size_t *inout_capacity, size_t element_bytes, och_err *err) {
    if (n < *inout_capacity) return at;
    size_t more = *inout_capacity ? 2 * *inout_capacity : 32;
    void *wider = och_realloc_array(at, more, element_bytes);
    if (wider) *inout_capacity = more;
    else (void)och_err_nomem(err, more * element_bytes, "times of products");
    return wider;
}

och_status och_blas_times_add(och_blas_times *t, const och_blas_time *time, och_err *err) {
    och_blas_time *at = with_room(t->at, t->n, &t->capacity, sizeof *at, err);
    if (!at) return OCH_NOMEM;
    t->at = at;
    t->at[t->n++] = *time;
    return OCH_OK;
}

static och_status add_record(och_blas_records *r, const och_blas_record *one, och_err *err) {
    och_blas_record *at = with_room(r->at, r->n, &r->capacity, sizeof *at, err);
    if (!at) return OCH_NOMEM;
    r->at = at;
    r->at[r->n++] = *one;
    return OCH_OK;
}

static och_status folder(och_strbuf *out, och_err *err) {
    och_cache *cache;
    OCH_TRY(och_cache_open(NULL, 1, &cache, err)); /* touches nothing; its limit is not used */
    och_strbuf_puts(out, och_cache_dir(cache));
    och_cache_close(cache);
    return och_strbuf_status(out, err);
}

och_status och_blas_store_path(och_strbuf *out, och_err *err) {
    OCH_TRY(folder(out, err));
    och_strbuf_puts(out, "/blas.json");
    return och_strbuf_status(out, err);
}

/* ---- reading ---- */

static och_status get_text(const och_json *j, size_t i, const char *name, char *out, size_t n_bytes, och_err *err) {
    char path[64];
    const char *text = NULL;
    snprintf(path, sizeof path, "products.%zu.%s", i, name);
    OCH_TRY(och_json_get_str(j, path, true, &text, err));
    if (strlen(text) >= n_bytes)
        return och_err_set(err, OCH_CORRUPT, "%s: %s: expected at most %zu bytes", j->name, path, n_bytes - 1);
    snprintf(out, n_bytes, "%s", text);
    return OCH_OK;
}

static och_status get_size(const och_json *j, size_t i, const char *name, int64_t *out, och_err *err) {
    char path[64];
    snprintf(path, sizeof path, "products.%zu.%s", i, name);
    OCH_TRY(och_json_get_i64(j, path, true, out, err));
    if (*out < 1 || *out > INT32_MAX)
        return och_err_set(err, OCH_CORRUPT, "%s: %s: expected a size, found %lld", j->name, path, (long long)*out);
    return OCH_OK;
}

static och_status get_us(const och_json *j, size_t i, const char *name, double *out, och_err *err) {
    char path[64];
    snprintf(path, sizeof path, "products.%zu.%s", i, name);
    OCH_TRY(och_json_get_f64(j, path, true, out, err));
    if (!(*out > 0.0 && *out < MAX_US))
        return och_err_set(err, OCH_CORRUPT, "%s: %s: expected microseconds, found %g", j->name, path, *out);
    return OCH_OK;
}

static och_status get_record(const och_json *j, size_t i, och_blas_record *r, och_err *err) {
    char dtype[32];
    memset(r, 0, sizeof *r);
    OCH_TRY(get_text(j, i, "device", r->key.device, sizeof r->key.device, err));
    OCH_TRY(get_text(j, i, "arch", r->key.arch, sizeof r->key.arch, err));
    OCH_TRY(get_text(j, i, "driver", r->key.driver, sizeof r->key.driver, err));
    OCH_TRY(get_text(j, i, "library", r->key.library, sizeof r->key.library, err));
    OCH_TRY(get_text(j, i, "ochre", r->key.ochre, sizeof r->key.ochre, err));
    OCH_TRY(get_text(j, i, "dtype", dtype, sizeof dtype, err));
    r->time.dtype = och_dtype_from_name(dtype);
    if (r->time.dtype == OCH_DTYPE_NONE)
        return och_err_set(err, OCH_CORRUPT, "%s: products.%zu.dtype: expected a format, found \"%s\"", j->name, i, dtype);
    OCH_TRY(get_size(j, i, "m", &r->time.m, err));
    OCH_TRY(get_size(j, i, "k", &r->time.k, err));
    OCH_TRY(get_size(j, i, "rows", &r->time.rows, err));
    OCH_TRY(get_us(j, i, "kernel_us", &r->time.kernel_us, err));
    return get_us(j, i, "library_us", &r->time.library_us, err);
}

static och_status read_document(const och_json *j, och_blas_records *out, och_err *err) {
    int64_t format = 0;
    json_t *products;
    OCH_TRY(och_json_get_i64(j, "format", true, &format, err));
    if (format != FORMAT)
        return och_err_set(err, OCH_CORRUPT, "%s: expected format %d, found %lld", j->name, FORMAT, (long long)format);
    OCH_TRY(och_json_get_array(j, "products", true, &products, err));
    size_t n = json_array_size(products);
    if (n > MAX_RECORDS) return och_err_set(err, OCH_CORRUPT, "%s: expected at most %d products, found %zu", j->name, MAX_RECORDS, n);
    for (size_t i = 0; i < n; i++) {
        och_blas_record r;
        OCH_TRY(get_record(j, i, &r, err));
        OCH_TRY(add_record(out, &r, err));
    }
    return OCH_OK;
}

och_status och_blas_store_read(och_blas_records *out, och_err *err) {
    och_strbuf path = {0};
    struct stat sb;
    och_json j = {0};
    memset(out, 0, sizeof *out);
    och_status st = och_blas_store_path(&path, err);
    if (st == OCH_OK && (stat(path.data, &sb) == 0 || errno != ENOENT)) {
        st = och_json_load(path.data, MAX_FILE_BYTES, &j, err);
        if (st == OCH_OK) st = read_document(&j, out, err);
        if (st == OCH_NOTFOUND) { /* a field; that there is no file was seen before */
            st = OCH_CORRUPT;
            if (err) err->status = st;
        }
        och_json_deinit(&j);
    }
    if (st != OCH_OK) och_blas_records_deinit(out);
    och_strbuf_deinit(&path);
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

static void put_text(och_strbuf *b, const char *name, const char *text) {
    och_strbuf_printf(b, "\"%s\": ", name);
    och_strbuf_json(b, text, strlen(text));
    och_strbuf_puts(b, ", ");
}

static void put_record(och_strbuf *b, const och_blas_key *k, const och_blas_time *t, bool first) {
    och_strbuf_puts(b, first ? "\n{" : ",\n{");
    put_text(b, "device", k->device);
    put_text(b, "arch", k->arch);
    put_text(b, "driver", k->driver);
    put_text(b, "library", k->library);
    put_text(b, "ochre", k->ochre);
    put_text(b, "dtype", och_dtype_name(t->dtype));
    och_strbuf_printf(b, "\"m\": %lld, \"k\": %lld, \"rows\": %lld, \"kernel_us\": %.3f, \"library_us\": %.3f}", (long long)t->m,
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

/* mkdir -p */
static och_status make_folder(och_err *err) {
    och_strbuf path = {0};
    och_status st = folder(&path, err);
    for (char *p = st == OCH_OK ? path.data + 1 : NULL; p && st == OCH_OK;) {
        char *slash = strchr(p, '/');
        if (slash) *slash = 0;
        if (mkdir(path.data, 0777) != 0 && errno != EEXIST)
            st = och_err_set_native(err, OCH_IO, errno, "%s: %s", path.data, strerror(errno));
        if (slash) *slash = '/';
        p = slash ? slash + 1 : NULL;
    }
    och_strbuf_deinit(&path);
    return st;
}

och_status och_blas_store_put(const och_blas_key *key, const och_blas_times *times, och_err *err) {
    och_blas_records old;
    och_err why = {0};
    och_strbuf path = {0}, text = {0};
    bool first = true;
    och_status st = och_blas_store_read(&old, &why);
    if (st == OCH_NOMEM) return och_err_set(err, st, "%s", why.message);
    if (st != OCH_OK) och_log(OCH_LOG_WARN, "%s; it is written anew", why.message);
    och_strbuf_printf(&text, "{\"format\": %d, \"products\": [", FORMAT);
    for (size_t i = 0; i < old.n; i++) {
        if (replaced(&old.at[i], key, times)) continue;
        put_record(&text, &old.at[i].key, &old.at[i].time, first);
        first = false;
    }
    for (size_t i = 0; i < times->n; i++) {
        put_record(&text, key, &times->at[i], first);
        first = false;
    }
    och_strbuf_puts(&text, "]}\n");
    st = och_strbuf_status(&text, err);
    if (st == OCH_OK) st = och_blas_store_path(&path, err);
    if (st == OCH_OK) st = make_folder(err);
    if (st == OCH_OK) st = och_write_file(path.data, text.data, text.size, err);
    och_strbuf_deinit(&text);
    och_strbuf_deinit(&path);
    och_blas_records_deinit(&old);
    return st;
}

och_status och_blas_store_clear(bool *out_removed, och_err *err) {
    och_strbuf path = {0};
    *out_removed = false;
    och_status st = och_blas_store_path(&path, err);
    if (st == OCH_OK && unlink(path.data) == 0) *out_removed = true;
    else if (st == OCH_OK && errno != ENOENT) st = och_err_set_native(err, OCH_IO, errno, "%s: %s", path.data, strerror(errno));
    och_strbuf_deinit(&path);
    return st;
}

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
