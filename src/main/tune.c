/* ochre tune: which products are faster by the vendor's library than by our kernels, measured and kept. */
#include "main/main.h"

#include "base/size.h"
#include "model/model.h"
#include "op/blas/blas.h"
#include "op/blas/time.h"
#include "quant/format.h"

#include <stdio.h>
#include <string.h>

static const och_usage usage = {
    "tune", "[MODEL] [options]",
    "Times the products of a model's layers with 16, 64, 128, 512 and 2048 rows by our kernels and by the vendor's library\n"
    "(cuBLASLt, hipBLASLt), in turns, and keeps the medians: from then on the faster one is used. They are kept under the\n"
    "device, its driver, the library, Ochre's version, the weight's format and the shape; what is of another driver or version\n"
    "is not used. docs/blas.md.\n",
    "  ochre tune model.gguf --device hip:0\n"
    "  ochre tune --device cuda:0 --synthetic llama-8b --format BF16\n"
    "  ochre tune --list\n"
    "  ochre tune --clear\n"};

static const int64_t row_counts[] = {16, 64, 128, 512, 2048};

static void put_time(och_strbuf *b, const och_blas_key *k, const och_blas_time *t, bool json, bool first) {
    bool library = t->library_us < t->kernel_us;
    if (!json) {
        och_strbuf_printf(b, "  %-7s %7lld x %-7lld %6lld rows %12.1f us %12.1f us   %s\n", och_dtype_name(t->dtype),
                          (long long)t->m, (long long)t->k, (long long)t->rows, t->kernel_us, t->library_us,
                          library ? "library" : "kernels");
        return;
    }
    const char *const names[] = {"device", "arch", "driver", "library", "ochre"};
    const char *const values[] = {k->device, k->arch, k->driver, k->library, k->ochre};
    och_strbuf_puts(b, first ? "\n{" : ",\n{");
    for (size_t i = 0; i < OCH_COUNT(names); i++) {
        och_strbuf_printf(b, "\"%s\": ", names[i]);
        och_strbuf_json(b, values[i], strlen(values[i]));
        och_strbuf_puts(b, ", ");
    }
    och_strbuf_printf(b, "\"dtype\": \"%s\", \"m\": %lld, \"k\": %lld, \"rows\": %lld, ", och_dtype_name(t->dtype), (long long)t->m,
                      (long long)t->k, (long long)t->rows);
    och_strbuf_printf(b, "\"kernel_us\": %.3f, \"library_us\": %.3f, \"faster\": \"%s\"}", t->kernel_us, t->library_us,
                      library ? "library" : "kernels");
}

static void put_key(och_strbuf *b, const och_blas_key *k) {
    och_strbuf_printf(b, "%s (%s), %s, %s, ochre %s: kernels, library, the faster\n", k->device, k->arch, k->driver, k->library, k->ochre);
}

static och_status list(och_strbuf *b, bool json, och_err *err) {
    och_blas_records all;
    OCH_TRY(och_blas_store_read(&all, err));
    if (json) och_strbuf_puts(b, "{\"products\": [");
    for (size_t i = 0; i < all.n; i++) {
        if (!json && (!i || memcmp(&all.at[i].key, &all.at[i - 1].key, sizeof all.at[i].key) != 0)) put_key(b, &all.at[i].key);
        put_time(b, &all.at[i].key, &all.at[i].time, json, !i);
    }
    if (json) och_strbuf_puts(b, "]}\n");
    else if (!all.n) och_strbuf_puts(b, "nothing was measured\n");
    och_blas_records_deinit(&all);
    return och_strbuf_status(b, err);
}

static och_status clear(och_strbuf *b, bool json, och_err *err) {
    bool removed;
    OCH_TRY(och_blas_store_clear(&removed, err));
    if (json) och_strbuf_printf(b, "{\"removed\": %s}\n", removed ? "true" : "false");
    else och_strbuf_puts(b, removed ? "measured times were removed\n" : "nothing was measured\n");
    return och_strbuf_status(b, err);
}

/* The matrices of the layers, each shape once, without memory. */
static och_status shapes_of(const och_model *m, och_blas_times *out, och_err *err) {
    for (int i = 0; i < m->n_weights; i++) {
        const och_tensor *t = &m->weights[i].tensor;
        if (m->weights[i].layer < 0 || t->rows < 2 || t->dtype == OCH_DTYPE_F32 || !och_format_get(t->dtype) ||
            och_blas_times_near(out, t->dtype, t->rows, t->cols, 1))
            continue;
        const och_blas_time shape = {.dtype = t->dtype, .m = t->rows, .k = t->cols, .rows = 1};
        OCH_TRY(och_blas_times_add(out, &shape, err));
    }
    return out->n ? OCH_OK : och_err_set(err, OCH_INVALID, "%s: no matrix of its layers is one that the library would take", m->path);
}

static och_status open_model(const char *model, const char *shape, const char *format, och_device *d, och_model **out_m, och_err *err) {
    const och_model_options o = {.measure = true};
    och_strbuf path = {0};
    if (shape) return och_model_open_synthetic(shape, format ? och_dtype_from_name(format) : OCH_DTYPE_BF16, d, &o, out_m, err);
    och_status st = och_model_path(model, &path, err);
    if (st == OCH_OK) st = och_model_open(och_strbuf_str(&path), d, &o, out_m, err);
    och_strbuf_deinit(&path);
    return st;
}

/* What is there at once, since measuring takes minutes. */
static void show(och_strbuf *b) {
    if (och_strbuf_status(b, NULL) != OCH_OK) return; /* it is told at the end */
    fputs(och_strbuf_str(b), stdout);
    fflush(stdout);
    och_strbuf_clear(b);
}

/* What was measured before an interruption is kept too. */
static och_status measure(och_queue *q, och_blas *blas, const och_blas_times *shapes, bool json, och_strbuf *b, och_err *err) {
    och_blas_times times = {0};
    och_blas_key key;
    och_status st = OCH_OK;
    och_blas_key_of(q->device, blas, &key);
    if (json) och_strbuf_puts(b, "{\"products\": [");
    else put_key(b, &key);
    for (size_t i = 0; i < shapes->n && st == OCH_OK; i++)
        for (size_t r = 0; r < OCH_COUNT(row_counts) && st == OCH_OK && !och_main_interrupted(); r++) {
            const och_blas_time *s = &shapes->at[i];
            och_blas_time t;
            och_err why = {0};
            st = och_blas_measure(q, s->dtype, s->m, s->k, row_counts[r], &t, &why);
            if (st == OCH_UNSUPPORTED) {
                fprintf(stderr, "ochre: %s %lld x %lld, %lld rows: %s\n", och_dtype_name(s->dtype), (long long)s->m, (long long)s->k,
                        (long long)row_counts[r], why.message);
                st = OCH_OK;
                continue;
            }
            if (st != OCH_OK) {
                st = och_err_set_native(err, st, why.native_code, "%s", why.message);
                break;
            }
            put_time(b, &key, &t, json, !times.n);
            if (!json) show(b);
            st = och_blas_times_add(&times, &t, err);
        }
    if (json) och_strbuf_puts(b, "]}\n");
    if (times.n) {
        och_err why = {0};
        och_status put = och_blas_store_put(&key, &times, &why);
        if (st == OCH_OK && put != OCH_OK) st = och_err_set_native(err, put, why.native_code, "%s", why.message);
    }
    och_blas_times_deinit(&times);
    return st;
}

static och_status tune(const char *device, const char *model, const char *shape, const char *format, bool json, och_strbuf *b,
                       och_err *err) {
    och_device *d = NULL;
    och_queue *q = NULL;
    och_model *m = NULL;
    och_blas *blas;
    och_blas_times shapes = {0};
    och_strbuf store = {0};
    och_status st = och_blas_store_path(&store, err); /* no folder: told before anything is measured */
    och_strbuf_deinit(&store);
    if (st == OCH_OK) st = och_device_open(device ? device : "auto", NULL, &d, err);
    if (st == OCH_OK && d->info.kind == OCH_DEV_SIMULATED)
        st = och_err_set(err, OCH_UNSUPPORTED, "device %s: seconds of a simulated device say nothing of the device", d->info.label);
    if (st == OCH_OK && !och_blas_kind_of(d->info.backend))
        st = och_err_set(err, OCH_UNSUPPORTED, "device %s: expected a GPU (hip:N, cuda:N), which a vendor's library may serve", d->info.label);
    if (st == OCH_OK && (st = och_blas_of(d, &blas, err)) != OCH_OK) och_err_prefix(err, "device %s", d->info.label);
    if (st == OCH_OK) st = open_model(model, shape, format, d, &m, err);
    if (st == OCH_OK) st = shapes_of(m, &shapes, err);
    if (st == OCH_OK) st = d->vtable->queue_create(d, &q, err);
    if (st == OCH_OK) st = measure(q, blas, &shapes, json, b, err);
    if (q) d->vtable->queue_destroy(q);
    och_blas_times_deinit(&shapes);
    och_model_close(m);
    och_device_release(d);
    return st;
}

int och_cmd_tune(int argc, char **argv) {
    const char *args[1], *device = NULL, *shape = NULL, *format = NULL;
    bool lists = false, clears = false, json = false;
    const och_opt opts[] = {
        {"device", 'd', OCH_OPT_STR, &device, 0, 0, "D", "see `ochre devices` (default: auto)", NULL},
        {"synthetic", 0, OCH_OPT_STR, &shape, 0, 0, "SHAPE", "a published shape in place of a model", NULL},
        {"format", 0, OCH_OPT_STR, &format, 0, 0, "F", "with --synthetic: weight format (default: BF16)", NULL},
        {"list", 0, OCH_OPT_FLAG, &lists, 0, 0, NULL, "print what was measured, and measure nothing", NULL},
        {"clear", 0, OCH_OPT_FLAG, &clears, 0, 0, NULL, "forget what was measured", NULL},
        {"json", 0, OCH_OPT_FLAG, &json, 0, 0, NULL, "one JSON object", NULL},
    };
    int n_args, rc = och_opts_parse(&usage, opts, OCH_COUNT(opts), argc, argv, args, 1, &n_args);
    if (rc >= 0) return rc;
    if (lists && clears) return och_main_usage("tune", "--list or --clear: expected one");
    if ((lists || clears) && (n_args || device || shape || format))
        return och_main_usage("tune", "%s is of all that was measured: expected --json beside it at most", lists ? "--list" : "--clear");
    if (!lists && !clears && (n_args < 1) == !shape)
        return och_main_usage("tune", shape ? "both a model and --synthetic: expected one" : "which model? (or --synthetic SHAPE)");
    if (format && !shape) return och_main_usage("tune", "--format is the weight format of --synthetic; a model's file has its own");
    if (format && och_dtype_from_name(format) == OCH_DTYPE_NONE)
        return och_main_usage("tune", "--format: expected a weight format, found \"%.40s\"", format);
    och_err err = {0};
    och_strbuf out = {0};
    och_main_catch_interrupt();
    och_status st = lists    ? list(&out, json, &err)
                    : clears ? clear(&out, json, &err)
                             : tune(device, n_args ? args[0] : NULL, shape, format, json, &out, &err);
    if (st == OCH_OK) st = och_strbuf_status(&out, &err);
    if (st == OCH_OK) fputs(och_strbuf_str(&out), stdout);
    rc = st != OCH_OK ? och_main_fail(&err) : och_main_interrupted() ? OCH_EXIT_INTERRUPTED : OCH_EXIT_OK;
    och_strbuf_deinit(&out);
    return rc;
}

void och_main_blas(const och_device *const *devices, int n, bool json, och_strbuf *out) {
    for (int i = 0; i < n; i++) {
        och_blas *b;
        och_err why = {0};
        och_status st = och_blas_of(devices[i], &b, &why);
        const char *label = devices[i]->info.label;
        if (json) {
            och_strbuf_printf(out, "%s{\"device\": \"%s\", \"library\": ", i ? ", " : "", label);
            och_strbuf_json(out, st == OCH_OK ? och_blas_label(b) : "", st == OCH_OK ? strlen(och_blas_label(b)) : 0);
            const char *text = st == OCH_OK ? och_blas_path(b) : why.message;
            och_strbuf_printf(out, ", \"%s\": ", st == OCH_OK ? "path" : "why_none");
            och_strbuf_json(out, text, strlen(text));
            och_strbuf_puts(out, "}");
        } else if (st == OCH_OK) och_strbuf_printf(out, "  %s: %s (%s)\n", label, och_blas_label(b), och_blas_path(b));
        else och_strbuf_printf(out, "  %s: none is used: %s\n", label, why.message);
    }
    if (!json && !n) och_strbuf_puts(out, "  no device to look for one (none is needed)\n");
}
