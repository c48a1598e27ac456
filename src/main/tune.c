/* ochre tune: how products with one row are cut fastest, and which of more rows are faster by the vendor's library than by our
 * kernels, measured and kept. */
#include "main/main.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/thread.h"
#include "engine/session.h"
#include "op/blas/blas.h"
#include "op/blas/time.h"
#include "op/gpu/gpu.h"
#include "op/gpu/tune_file.h"
#include "op/gpu/tune_time.h"
#include "quant/format.h"

#include <stdio.h>
#include <string.h>

static const och_usage usage = {
    "tune", "[MODEL] [options]",
    "Times a model's products with one row by our kernels as they are cut and by other ways to cut them, then those of its\n"
    "layers with 16, 64, 128, 512 and 2048 rows by our kernels and by the vendor's library (cuBLASLt, hipBLASLt) where there is\n"
    "one, in turns, and keeps the medians: from then on the faster one is used. They are kept under the device, its driver and\n"
    "the kernel's text, or the library and Ochre's version, then format and shape; what is of another is not used.\n"
    "docs/tuning.md.\n",
    "  ochre tune model.gguf --device hip:0\n"
    "  ochre tune --device cuda:0 --synthetic llama-8b --format Q4_K\n"
    "  ochre tune --list\n"
    "  ochre tune --clear\n"};

#define DEFAULT_SECONDS 600
static const int64_t row_counts[] = {16, 64, 128, 512, 2048};

/* Part of a line: what a file says is no command to a terminal. */
static const char *plain(char *text) {
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    return text;
}

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
    for (size_t i = 0; i < OCH_COUNT(names); i++) och_gpu_file_put_text(b, names[i], values[i]);
    och_strbuf_printf(b, "\"dtype\": \"%s\", \"m\": %lld, \"k\": %lld, \"rows\": %lld, ", och_dtype_name(t->dtype), (long long)t->m,
                      (long long)t->k, (long long)t->rows);
    och_strbuf_printf(b, "\"kernel_us\": %.9g, \"library_us\": %.9g, \"faster\": \"%s\"}", t->kernel_us, t->library_us,
                      library ? "library" : "kernels");
}

static void put_key(och_strbuf *b, const och_blas_key *key) {
    och_blas_key k = *key;
    och_strbuf_printf(b, "%s (%s), %s, %s, ochre %s: kernels, library, the faster\n", plain(k.device), plain(k.arch), plain(k.driver),
                      plain(k.library), plain(k.ochre));
}

/* "Q4_K", or for q and k of one format and v of another "Q4_K+Q6_K". */
static void put_cut(och_strbuf *b, const och_gpu_cut_record *r, bool json, bool first) {
    const och_gpu_cut_time *t = &r->time;
    const och_gpu_cut_shape *s = &t->shape;
    const char *kernel = och_gpu_cut_kernel(s->kind), *f = och_dtype_name(s->f), *g = och_dtype_name(s->g);
    if (!json) {
        char formats[64], cut[OCH_GPU_CUT_BYTES];
        size_t n = strlen(t->cut);
        memcpy(cut, t->cut, sizeof cut);
        snprintf(formats, sizeof formats, s->f == s->g ? "%s" : "%s+%s", f, g);
        och_strbuf_printf(b, "  %-11s %7lld x %-7lld %-16s %9.1f us %9.1f us   %.*s\n", formats, (long long)s->m, (long long)s->k,
                          kernel, t->present_us, t->cut_us, n ? (int)(n - (t->cut[n - 1] == ',')) : 8, n ? plain(cut) : "as it is");
        return;
    }
    const char *const names[] = {"device", "arch", "driver", "source", "kernel", "dtype", "dtype_v", "cut"};
    const char *const values[] = {r->device, r->arch, r->driver, r->source, kernel, f, g, t->cut};
    och_strbuf_puts(b, first ? "\n{" : ",\n{");
    for (size_t i = 0; i < OCH_COUNT(names); i++) och_gpu_file_put_text(b, names[i], values[i]);
    och_strbuf_printf(b, "\"m\": %lld, \"k\": %lld, \"present_us\": %.9g, \"cut_us\": %.9g}", (long long)s->m, (long long)s->k,
                      t->present_us, t->cut_us);
}

static void put_cut_key(och_strbuf *b, const och_gpu_cut_record *record) {
    och_gpu_cut_record r = *record;
    och_strbuf_printf(b, "%s (%s), %s: one row: as it is, the fastest, how that is cut\n", plain(r.device), plain(r.arch), plain(r.driver));
}

static bool same_cut_key(const och_gpu_cut_record *a, const och_gpu_cut_record *b) {
    return !strcmp(a->device, b->device) && !strcmp(a->arch, b->arch) && !strcmp(a->driver, b->driver);
}

static och_status list(och_strbuf *b, bool json, och_err *err) {
    och_blas_records all = {0};
    och_gpu_cut_records cuts;
    OCH_TRY(och_gpu_tune_read(&cuts, err));
    och_status st = och_blas_store_read(&all, err);
    if (json) och_strbuf_puts(b, "{\"cuts\": [");
    for (size_t i = 0; i < cuts.n; i++) {
        if (!json && (!i || !same_cut_key(&cuts.at[i], &cuts.at[i - 1]))) put_cut_key(b, &cuts.at[i]);
        put_cut(b, &cuts.at[i], json, !i);
    }
    if (json) och_strbuf_puts(b, "], \"products\": [");
    for (size_t i = 0; i < all.n; i++) {
        if (!json && (!i || memcmp(&all.at[i].key, &all.at[i - 1].key, sizeof all.at[i].key) != 0)) put_key(b, &all.at[i].key);
        put_time(b, &all.at[i].key, &all.at[i].time, json, !i);
    }
    if (json) och_strbuf_puts(b, "]}\n");
    else if (!all.n && !cuts.n) och_strbuf_puts(b, "nothing was measured\n");
    och_blas_records_deinit(&all);
    och_gpu_cut_records_deinit(&cuts);
    return st == OCH_OK ? och_strbuf_status(b, err) : st;
}

static och_status clear(och_strbuf *b, bool json, och_err *err) {
    bool times, cuts;
    och_status st = och_gpu_tune_clear(&cuts, err), also = och_blas_store_clear(&times, st == OCH_OK ? err : NULL);
    OCH_TRY(st); /* a file that cannot be removed does not keep the other */
    OCH_TRY(also);
    if (json) och_strbuf_printf(b, "{\"removed\": %s}\n", times || cuts ? "true" : "false");
    else och_strbuf_puts(b, times || cuts ? "measured times were removed\n" : "nothing was measured\n");
    return och_strbuf_status(b, err);
}

/* The matrices of the layers that the library would take, each shape once, without memory. */
static och_status shapes_of(const och_model *m, och_blas_times *out, och_err *err) {
    for (int i = 0; i < m->n_weights; i++) {
        const och_tensor *t = &m->weights[i].tensor;
        if (m->weights[i].layer < 0 || t->rows < 2 || t->dtype == OCH_DTYPE_F32 || !och_format_get(t->dtype) ||
            och_blas_times_near(out, t->dtype, t->rows, t->cols, 1))
            continue;
        const och_blas_time shape = {.dtype = t->dtype, .m = t->rows, .k = t->cols, .rows = 1};
        OCH_TRY(och_blas_times_add(out, &shape, err));
    }
    return OCH_OK;
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

/* ---- products with one row ---- */

typedef struct calls {
    och_op_call *at; /* owned; of a plan, each kind once, without memory */
    int n;
} calls;

static bool same_tensor(const och_tensor *a, const och_tensor *b) {
    return a->dtype == b->dtype && a->rows == b->rows && a->cols == b->cols;
}

/* What decides which kernels a call of one row launches. */
static bool same_call(const och_op_call *a, const och_op_call *b) {
    bool same = a->attr.linear.n_weights == b->attr.linear.n_weights && a->attr.linear.glu == b->attr.linear.glu;
    for (int i = 0; i < a->attr.linear.n_weights && same; i++)
        same = same_tensor(&a->in[OCH_LINEAR_W0 + i], &b->in[OCH_LINEAR_W0 + i]);
    return same && same_tensor(&a->in[OCH_LINEAR_XCODES], &b->in[OCH_LINEAR_XCODES]) &&
           same_tensor(&a->out[OCH_LINEAR_YCODES], &b->out[OCH_LINEAR_YCODES]);
}

/* What else a call of one row does is cut together with none of them. */
static void leave_products(och_op_call *c) {
    c->in[OCH_LINEAR_TABLE].dtype = c->in[OCH_LINEAR_SLOTS].dtype = OCH_DTYPE_NONE;
    c->out[OCH_LINEAR_KCACHE].dtype = c->out[OCH_LINEAR_VCACHE].dtype = OCH_DTYPE_NONE;
}

/* The products of a step of one token, as a session of the model has them. */
static och_status calls_of(och_model *m, calls *out, och_err *err) {
    och_session *s;
    const och_session_options o = {.max_context = OCH_MIN(64, m->config.context_length), .max_sequences = 1};
    OCH_TRY(och_session_create(m, &o, &s, err));
    out->at = och_calloc((size_t)s->plan.n_ops, sizeof *out->at);
    och_status st = out->at ? OCH_OK : och_err_nomem(err, (uint64_t)s->plan.n_ops * sizeof *out->at, "a model's products");
    for (int i = 0; i < s->plan.n_ops && st == OCH_OK; i++) {
        bool known = s->plan.ops[i].op != OCH_OP_LINEAR;
        och_op_call *c = &out->at[out->n];
        och_plan_call(&s->plan, NULL, i, (och_plan_extent){1, 1, 1}, (och_dev_addr){0}, NULL, c);
        if (!known) leave_products(c);
        for (int k = 0; k < out->n && !known; k++) known = same_call(&out->at[k], c);
        out->n += !known;
    }
    och_session_destroy(s);
    return st;
}

typedef struct limit {
    double end; /* seconds of the host's clock */
    bool reached;
} limit;

static bool stop(void *user) {
    limit *l = user;
    l->reached = l->reached || och_now_seconds() > l->end;
    return l->reached || och_main_interrupted();
}

static och_status measure_cuts(och_queue *q, const calls *c, limit *l, bool json, och_strbuf *b, och_err *err) {
    const och_gpu_tune_options o = {.stop = stop, .user = l};
    const och_dev_info *d = &q->device->info;
    och_gpu_cut_times times = {0};
    och_gpu_cut_record r;
    och_status st = OCH_OK;
    size_t told = 0;
    memset(&r, 0, sizeof r);
    snprintf(r.device, sizeof r.device, "%s", d->name);
    snprintf(r.arch, sizeof r.arch, "%s", d->arch);
    snprintf(r.driver, sizeof r.driver, "%s", d->runtime);
    if (json) och_strbuf_puts(b, "{\"cuts\": [");
    else put_cut_key(b, &r);
    for (int i = 0; i < c->n && st == OCH_OK && !stop(l); i++) {
        och_err why = {0};
        st = och_gpu_tune(q, &c->at[i], &o, &times, &why);
        const och_tensor *w = &c->at[i].in[OCH_LINEAR_W0];
        if (st == OCH_UNSUPPORTED || st == OCH_NOMEM) {
            fprintf(stderr, "ochre: %s %lld x %lld, one row: %s\n", och_dtype_name(w->dtype), (long long)w->rows, (long long)w->cols,
                    why.message);
            st = OCH_OK;
        } else if (st != OCH_OK && st != OCH_CANCELLED) {
            st = och_err_set_native(err, st, why.native_code, "%s", why.message);
        }
        if (told < times.n) { /* at once: what ends the process later takes nothing of it */
            const och_gpu_cut_times one = {.at = times.at + told, .n = times.n - told};
            och_err no = {0};
            och_status put = och_gpu_tune_put(d, &one, &no);
            if ((st == OCH_OK || st == OCH_CANCELLED) && put != OCH_OK) st = och_err_set_native(err, put, no.native_code, "%s", no.message);
        }
        for (; told < times.n; told++) {
            r.time = times.at[told];
            och_err ignored = {0};
            (void)!och_gpu_kernel_source(och_gpu_cut_kernel(r.time.shape.kind), r.source, &ignored); /* it has just run */
            put_cut(b, &r, json, !told);
        }
        if (!json) show(b);
    }
    if (st == OCH_CANCELLED) st = OCH_OK; /* which `stop` knows */
    if (json) och_strbuf_puts(b, "], ");
    och_gpu_cut_times_deinit(&times);
    return st;
}

/* ---- products with more ---- */

/* What was measured before an interruption is kept too. blas NULL: none are. */
static och_status measure(och_queue *q, och_blas *blas, const och_blas_times *shapes, limit *l, bool json, och_strbuf *b, och_err *err) {
    och_blas_key key;
    och_status st = OCH_OK;
    bool first = true;
    if (blas) och_blas_key_of(q->device, blas, &key);
    if (json) och_strbuf_puts(b, "\"products\": [");
    else if (blas) put_key(b, &key);
    for (size_t i = 0; i < shapes->n && st == OCH_OK && blas; i++)
        for (size_t r = 0; r < OCH_COUNT(row_counts) && st == OCH_OK && !stop(l); r++) {
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
            st = och_blas_store_put(&key, &(och_blas_times){&t, 1, 1}, err);
            put_time(b, &key, &t, json, first);
            if (!json) show(b);
            first = false;
        }
    if (json) och_strbuf_puts(b, "]}\n");
    return st;
}

/* NULL, and a line that says why, where no library serves the device. */
static och_status library_of(const och_device *d, och_blas **out, och_err *err) {
    och_err why = {0};
    och_status st = och_blas_of(d, out, &why);
    if (st == OCH_OK) return st;
    if (st != OCH_UNSUPPORTED) return och_err_set_native(err, st, why.native_code, "device %s: %s", d->info.label, why.message);
    fprintf(stderr, "ochre: products with more rows than one are not timed: %s\n", why.message);
    *out = NULL;
    return OCH_OK;
}

static och_status tune(const char *device, const char *model, const char *shape, const char *format, int seconds, bool json,
                       och_strbuf *b, och_err *err) {
    och_device *d = NULL;
    och_queue *q = NULL;
    och_model *m = NULL;
    och_blas *blas = NULL;
    och_blas_times shapes = {0};
    calls c = {0};
    och_strbuf store = {0};
    limit l = {.end = och_now_seconds() + seconds};
    och_status st = och_blas_store_path(&store, err); /* no folder: told before anything is measured */
    och_strbuf_deinit(&store);
    if (st == OCH_OK) st = och_device_open(device ? device : "auto", NULL, &d, err);
    if (st == OCH_OK && d->info.kind == OCH_DEV_SIMULATED)
        st = och_err_set(err, OCH_UNSUPPORTED, "device %s: seconds of a simulated device say nothing of the device", d->info.label);
    if (st == OCH_OK && !och_blas_kind_of(d->info.backend))
        st = och_err_set(err, OCH_UNSUPPORTED, "device %s: expected a GPU (hip:N, cuda:N), whose kernels may be cut in other ways",
                         d->info.label);
    if (st == OCH_OK) st = och_gpu_tune_try_put(err); /* neither is this told after minutes */
    if (st == OCH_OK) st = och_blas_store_try_put(err);
    if (st == OCH_OK) st = library_of(d, &blas, err);
    if (st == OCH_OK) st = open_model(model, shape, format, d, &m, err);
    if (st == OCH_OK) st = calls_of(m, &c, err);
    if (st == OCH_OK && blas) st = shapes_of(m, &shapes, err);
    if (st == OCH_OK) st = d->vtable->queue_create(d, &q, err);
    if (st == OCH_OK) { /* else they would be compiled while others are timed */
        fprintf(stderr, "ochre: kernels are compiled first\n");
        och_gpu_kernels_wait(d);
        l.end = och_now_seconds() + seconds;
    }
    if (st == OCH_OK)
        fprintf(stderr, "ochre: %d products with one row, then %zu with more: at most about %d seconds (--seconds)\n", c.n,
                shapes.n * OCH_COUNT(row_counts), seconds);
    if (st == OCH_OK) st = measure_cuts(q, &c, &l, json, b, err);
    if (st == OCH_OK) st = measure(q, blas, &shapes, &l, json, b, err);
    if (st == OCH_OK && l.reached)
        fprintf(stderr, "ochre: stopped after %d seconds: what is above is kept; --seconds N allows more\n", seconds);
    if (q) d->vtable->queue_destroy(q);
    och_blas_times_deinit(&shapes);
    och_free(c.at);
    och_model_close(m);
    och_device_release(d);
    return st;
}

int och_cmd_tune(int argc, char **argv) {
    const char *args[1], *device = NULL, *shape = NULL, *format = NULL;
    bool lists = false, clears = false, json = false;
    int32_t seconds = 0;
    const och_opt opts[] = {
        {"device", 'd', OCH_OPT_STR, &device, 0, 0, "D", "see `ochre devices` (default: auto)", NULL},
        {"synthetic", 0, OCH_OPT_STR, &shape, 0, 0, "SHAPE", "a published shape in place of a model", NULL},
        {"format", 0, OCH_OPT_STR, &format, 0, 0, "F", "with --synthetic: weight format (default: BF16)", NULL},
        {"seconds", 0, OCH_OPT_I32, &seconds, 1, 86400, "N", "measure no longer than about this (default: 600)", NULL},
        {"list", 0, OCH_OPT_FLAG, &lists, 0, 0, NULL, "print what was measured, and measure nothing", NULL},
        {"clear", 0, OCH_OPT_FLAG, &clears, 0, 0, NULL, "forget what was measured", NULL},
        {"json", 0, OCH_OPT_FLAG, &json, 0, 0, NULL, "one JSON object", NULL},
    };
    int n_args, rc = och_opts_parse(&usage, opts, OCH_COUNT(opts), argc, argv, args, 1, &n_args);
    if (rc >= 0) return rc;
    if (lists && clears) return och_main_usage("tune", "--list or --clear: expected one");
    if ((lists || clears) && (n_args || device || shape || format || seconds))
        return och_main_usage("tune", "%s is of all that was measured: expected --json beside it at most", lists ? "--list" : "--clear");
    if (!lists && !clears && (n_args < 1) == !shape)
        return och_main_usage("tune", shape ? "both a model and --synthetic: expected one" : "which model? (or --synthetic SHAPE)");
    if (format && !shape) return och_main_usage("tune", "--format is the weight format of --synthetic; a model's file has its own");
    rc = och_main_check_format("tune", format);
    if (rc >= 0) return rc;
    och_err err = {0};
    och_strbuf out = {0};
    och_main_catch_interrupt();
    och_status st = lists    ? list(&out, json, &err)
                    : clears ? clear(&out, json, &err)
                             : tune(device, n_args ? args[0] : NULL, shape, format, seconds ? seconds : DEFAULT_SECONDS, json, &out, &err);
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
