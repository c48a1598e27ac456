/* Measured cuts in their file. */
#include "op/gpu/tune.h"

#include "base/alloc.h"
#include "base/log.h"
#include "op/gpu/tune_file.h"

#include <stdio.h>
#include <string.h>

static const och_gpu_file file = {"cuts.json", "cuts", 1};

void och_gpu_cut_times_deinit(och_gpu_cut_times *t) {
    och_free(t->at);
    memset(t, 0, sizeof *t);
}
void och_gpu_cut_records_deinit(och_gpu_cut_records *r) {
    och_free(r->at);
    memset(r, 0, sizeof *r);
}

och_status och_gpu_cut_times_add(och_gpu_cut_times *t, const och_gpu_cut_time *time, och_err *err) {
    och_gpu_cut_time *at = och_gpu_file_room(t->at, t->n, &t->capacity, sizeof *at, err);
    if (!at) return OCH_NOMEM;
    t->at = at;
    t->at[t->n++] = *time;
    return OCH_OK;
}

static och_status add_record(och_gpu_cut_records *r, const och_gpu_cut_record *one, och_err *err) {
    och_gpu_cut_record *at = och_gpu_file_room(r->at, r->n, &r->capacity, sizeof *at, err);
    if (!at) return OCH_NOMEM;
    r->at = at;
    r->at[r->n++] = *one;
    return OCH_OK;
}

/* ---- reading ---- */

static och_status get_dtype(const och_json *j, size_t i, const char *field, och_dtype *out, och_err *err) {
    char name[32];
    OCH_TRY(och_gpu_file_text(&file, j, i, field, name, sizeof name, err));
    *out = och_dtype_from_name(name);
    if (*out == OCH_DTYPE_NONE)
        return och_err_set(err, OCH_CORRUPT, "%s: cuts.%zu.%s: expected a format, found \"%s\"", j->name, i, field, name);
    return OCH_OK;
}

static och_status get_record(const och_json *j, size_t i, och_gpu_cut_record *r, och_err *err) {
    och_gpu_cut_shape *s = &r->time.shape;
    char kernel[32];
    int kind = 0;
    memset(r, 0, sizeof *r);
    OCH_TRY(och_gpu_file_text(&file, j, i, "device", r->device, sizeof r->device, err));
    OCH_TRY(och_gpu_file_text(&file, j, i, "arch", r->arch, sizeof r->arch, err));
    OCH_TRY(och_gpu_file_text(&file, j, i, "driver", r->driver, sizeof r->driver, err));
    OCH_TRY(och_gpu_file_text(&file, j, i, "source", r->source, sizeof r->source, err));
    OCH_TRY(och_gpu_file_text(&file, j, i, "kernel", kernel, sizeof kernel, err));
    while (kind < OCH_GPU_CUT_KINDS && strcmp(kernel, och_gpu_cut_kernel((och_gpu_cut_kind)kind)) != 0) kind++;
    if (kind == OCH_GPU_CUT_KINDS)
        return och_err_set(err, OCH_CORRUPT, "%s: cuts.%zu.kernel: expected a kernel of products with one row, found \"%s\"",
                           j->name, i, kernel);
    s->kind = (och_gpu_cut_kind)kind;
    OCH_TRY(get_dtype(j, i, "dtype", &s->f, err));
    OCH_TRY(get_dtype(j, i, "dtype_v", &s->g, err));
    OCH_TRY(och_gpu_file_size(&file, j, i, "m", &s->m, err));
    OCH_TRY(och_gpu_file_size(&file, j, i, "k", &s->k, err));
    OCH_TRY(och_gpu_file_text(&file, j, i, "cut", r->time.cut, sizeof r->time.cut, err));
    OCH_TRY(och_gpu_file_us(&file, j, i, "present_us", &r->time.present_us, err));
    return och_gpu_file_us(&file, j, i, "cut_us", &r->time.cut_us, err);
}

och_status och_gpu_tune_read(och_gpu_cut_records *out, och_err *err) {
    och_json j;
    size_t n;
    memset(out, 0, sizeof *out);
    och_status st = och_gpu_file_read(&file, &j, &n, err);
    for (size_t i = 0; i < n && st == OCH_OK; i++) {
        och_gpu_cut_record r;
        st = get_record(&j, i, &r, err);
        if (st == OCH_OK) st = add_record(out, &r, err);
    }
    if (st != OCH_OK) och_gpu_cut_records_deinit(out);
    och_json_deinit(&j);
    return st;
}

static bool same_device(const och_gpu_cut_record *r, const och_dev_info *d) {
    return !strcmp(r->device, d->name) && !strcmp(r->arch, d->arch);
}

/* A file may have what no list has any more: what goes into a kernel's name is one of the list's, or nothing. */
static bool known(const och_gpu_cut_time *t) {
    const char *cut;
    for (size_t i = 0; (cut = och_gpu_cut_at(t->shape.kind, i)); i++)
        if (!strcmp(cut, t->cut)) return true;
    return !*t->cut;
}

/* Digests of the kernels' texts, each made when it is needed. */
typedef struct sources {
    char hex[OCH_GPU_CUT_KINDS][OCH_HASH_HEX_BYTES];
} sources;

static och_status source_of(sources *s, och_gpu_cut_kind kind, const char **out, och_err *err) {
    *out = s->hex[kind];
    return **out ? OCH_OK : och_gpu_kernel_source(och_gpu_cut_kernel(kind), s->hex[kind], err);
}

static och_status is_current(const och_gpu_cut_record *r, const och_dev_info *d, sources *s, bool *out, och_err *err) {
    const char *source;
    *out = false;
    if (strcmp(r->driver, d->runtime) != 0) return OCH_OK;
    och_err why = {0};
    och_status st = source_of(s, r->time.shape.kind, &source, &why);
    if (st == OCH_NOMEM) return och_err_set(err, st, "%s", why.message);
    if (st != OCH_OK) return OCH_OK; /* a file of one's own kernels has none of that name */
    *out = !strcmp(r->source, source) && known(&r->time);
    return OCH_OK;
}

och_status och_gpu_tune_find(const och_dev_info *d, och_gpu_cut_times *out, size_t *out_stale, och_err *err) {
    och_gpu_cut_records all;
    sources now = {0};
    *out_stale = 0;
    memset(out, 0, sizeof *out);
    OCH_TRY(och_gpu_tune_read(&all, err));
    och_status st = OCH_OK;
    for (size_t i = 0; i < all.n && st == OCH_OK; i++) {
        bool current;
        if (!same_device(&all.at[i], d)) continue;
        st = is_current(&all.at[i], d, &now, &current, err);
        if (st == OCH_OK && current) st = och_gpu_cut_times_add(out, &all.at[i].time, err);
        else if (st == OCH_OK) ++*out_stale;
    }
    och_gpu_cut_records_deinit(&all);
    if (st != OCH_OK) och_gpu_cut_times_deinit(out);
    return st;
}

/* ---- writing ---- */

static void put_record(och_strbuf *b, const och_gpu_cut_record *r) {
    const och_gpu_cut_time *t = &r->time;
    och_strbuf_puts(b, b->size ? ",\n{" : "\n{");
    och_gpu_file_put_text(b, "device", r->device);
    och_gpu_file_put_text(b, "arch", r->arch);
    och_gpu_file_put_text(b, "driver", r->driver);
    och_gpu_file_put_text(b, "source", r->source);
    och_gpu_file_put_text(b, "kernel", och_gpu_cut_kernel(t->shape.kind));
    och_gpu_file_put_text(b, "dtype", och_dtype_name(t->shape.f));
    och_gpu_file_put_text(b, "dtype_v", och_dtype_name(t->shape.g));
    och_gpu_file_put_text(b, "cut", t->cut);
    och_strbuf_printf(b, "\"m\": %lld, \"k\": %lld, \"present_us\": %.9g, \"cut_us\": %.9g}", (long long)t->shape.m,
                      (long long)t->shape.k, t->present_us, t->cut_us);
}

static och_status check(const och_gpu_cut_times *times, och_err *err) {
    for (size_t i = 0; i < times->n; i++) {
        const och_gpu_cut_time *t = &times->at[i];
        if (!och_gpu_file_is_size(t->shape.m) || !och_gpu_file_is_size(t->shape.k) || !och_gpu_file_is_us(t->present_us) ||
            !och_gpu_file_is_us(t->cut_us))
            return och_err_set(err, OCH_INVALID, "expected sizes and microseconds to keep, found %lld x %lld, %g and %g",
                               (long long)t->shape.m, (long long)t->shape.k, t->present_us, t->cut_us);
    }
    return OCH_OK;
}

/* Those that stay are moved to the list's begin. */
static och_status drop_old(och_gpu_cut_records *old, const och_dev_info *d, const och_gpu_cut_times *times, sources *now, och_err *err) {
    size_t n = 0;
    for (size_t i = 0; i < old->n; i++) {
        bool kept = !same_device(&old->at[i], d);
        if (!kept) OCH_TRY(is_current(&old->at[i], d, now, &kept, err));
        if (kept && same_device(&old->at[i], d)) kept = !och_gpu_cut_times_find(times, &old->at[i].time.shape);
        if (kept) old->at[n++] = old->at[i];
    }
    old->n = n;
    return OCH_OK;
}

/* The file is this process's. */
static och_status put(const och_dev_info *d, const och_gpu_cut_times *times, och_err *err) {
    och_gpu_cut_records old;
    och_err why = {0};
    och_strbuf text = {0};
    sources now = {0};
    och_status st = och_gpu_tune_read(&old, &why);
    if (st != OCH_OK && st != OCH_CORRUPT && st != OCH_RANGE) return och_err_set_native(err, st, why.native_code, "%s", why.message);
    if (st != OCH_OK) och_log(OCH_LOG_WARN, "%s; it is written anew", why.message);
    st = drop_old(&old, d, times, &now, err);
    size_t all = old.n + times->n, first = all > OCH_GPU_FILE_MOST ? all - OCH_GPU_FILE_MOST : 0;
    for (size_t i = first; i < old.n && st == OCH_OK; i++) put_record(&text, &old.at[i]);
    for (size_t i = first > old.n ? first - old.n : 0; i < times->n && st == OCH_OK; i++) {
        const char *source;
        och_gpu_cut_record r = {.time = times->at[i]};
        st = source_of(&now, r.time.shape.kind, &source, err);
        if (st != OCH_OK) break;
        snprintf(r.device, sizeof r.device, "%s", d->name);
        snprintf(r.arch, sizeof r.arch, "%s", d->arch);
        snprintf(r.driver, sizeof r.driver, "%s", d->runtime);
        snprintf(r.source, sizeof r.source, "%s", source);
        put_record(&text, &r);
    }
    if (st == OCH_OK) st = och_gpu_file_write(&file, &text, err);
    och_strbuf_deinit(&text);
    och_gpu_cut_records_deinit(&old);
    return st;
}

och_status och_gpu_tune_put(const och_dev_info *d, const och_gpu_cut_times *times, och_err *err) {
    OCH_TRY(check(times, err));
    int lock = och_gpu_file_lock(&file, true);
    och_status st = put(d, times, err);
    och_gpu_file_unlock(lock);
    return st;
}

och_status och_gpu_tune_try_put(och_err *err) { return och_gpu_file_try(&file, err); }
och_status och_gpu_tune_clear(bool *out_removed, och_err *err) { return och_gpu_file_remove(&file, out_removed, err); }
