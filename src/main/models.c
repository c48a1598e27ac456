/* Where models are, and opening one with progress on standard error. */
#include "main/main.h"

#include "base/env.h"
#include "base/thread.h"
#include "dev/trace.h"
#include "engine/api.h"
#include "model/model.h"
#include "op/registry.h"
#include "quant/format.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const och_known_model known[] = {
    {"smollm2-135m", "SmolLM2-135M-Instruct.Q4_1.gguf", "SmolLM2 135M Instruct, Q4_1, 98 MB, Apache-2.0"},
    {"gemma3-270m", "gemma-3-270m-q4_k_m.gguf", "Gemma 3 270M (base), Q4_K_M, 253 MB, Gemma terms"},
};

const och_known_model *och_known_model_at(size_t i) { return i < sizeof known / sizeof *known ? &known[i] : NULL; }

const char *och_models_dir(void) {
    const char *dir = och_env_get(OCH_ENV_OCHRE_MODELS);
    return dir ? dir : "models";
}

static bool exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
}

och_status och_model_path(const char *model, och_strbuf *out_path, och_err *err) {
    och_strbuf_clear(out_path);
    if (!*model) return och_err_set(err, OCH_INVALID, "the model's name is empty");
    if (exists(model)) {
        och_strbuf_puts(out_path, model);
        return och_strbuf_status(out_path, err);
    }
    const och_known_model *row = NULL;
    const char *names[sizeof known / sizeof *known];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        names[i] = known[i].name;
        if (!strcmp(model, known[i].name)) row = &known[i];
    }
    /* A path (./x, a/b) is taken at its word: it is not looked for elsewhere. */
    if (!row && strchr(model, '/')) return och_err_set(err, OCH_NOTFOUND, "%.4096s: %s", model, strerror(errno));
    och_strbuf_printf(out_path, "%s/%s", och_models_dir(), row ? row->file : model);
    OCH_TRY(och_strbuf_status(out_path, err));
    if (exists(out_path->data)) return OCH_OK;
    if (row)
        return och_err_set(err, OCH_NOTFOUND, "%s is not there (looked for %s); get it with: ochre pull %s", model,
                           out_path->data, model);
    const char *near = och_main_nearest(model, names, sizeof known / sizeof *known);
    if (near) return och_err_set(err, OCH_NOTFOUND, "no model %s; did you mean %s?", model, near);
    return och_err_set(err, OCH_NOTFOUND, "no model %s: neither a file here nor in %s/, and not a known name (%s, %s)", model,
                       och_models_dir(), known[0].name, known[1].name);
}

int och_main_kv_type(const char *name, ochre_kv_type *out_type) {
    static const struct {
        const char *name;
        ochre_kv_type type;
    } types[] = {{"auto", OCHRE_KV_AUTO}, {"f32", OCHRE_KV_F32}, {"f16", OCHRE_KV_F16}, {"bf16", OCHRE_KV_BF16},
                 {"fp8", OCHRE_KV_FP8}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(name, types[i].name)) {
            *out_type = types[i].type;
            return OCH_EXIT_OK;
        }
    return OCH_EXIT_USAGE;
}

int och_main_check_provider(const char *command, const char *name) {
    och_strbuf known_names = {0};
    int rc = -1;
    for (int i = 0; name && i < och_op_provider_count(); i++) {
        const char *p = och_op_provider_at(i)->name;
        bool seen = false;
        if (!strcmp(p, name)) goto done;
        for (int k = 0; k < i && !seen; k++) seen = !strcmp(och_op_provider_at(k)->name, p);
        if (!seen) och_strbuf_printf(&known_names, "%s%s", known_names.size ? ", " : "", p);
    }
    if (name) rc = och_main_usage(command, "--provider: expected one of %s, found \"%.100s\"", och_strbuf_str(&known_names), name);
done:
    och_strbuf_deinit(&known_names);
    return rc;
}

int och_main_check_format(const char *command, const char *name) {
    och_strbuf names = {0};
    bool known_format = !name;
    const och_format *f;
    for (size_t i = 0; !known_format && (f = och_format_at(i)); i++) {
        known_format = f->dtype == och_dtype_from_name(name);
        och_strbuf_printf(&names, "%s%s", i ? ", " : "", f->name);
    }
    int rc = known_format ? -1 : och_main_usage(command, "--format: expected one of %s, found \"%.40s\"", och_strbuf_str(&names), name);
    och_strbuf_deinit(&names);
    return rc;
}

typedef struct progress {
    const char *name;
    bool tty, shown;
    int percent;
} progress;

static bool on_progress(void *user, const char *phase, uint64_t done, uint64_t total) {
    progress *p = user;
    int percent = total ? (int)(100.0 * (double)done / (double)total) : 100;
    if (p->tty && percent != p->percent) {
        char bar[31];
        for (int i = 0; i < 30; i++) bar[i] = i < percent * 30 / 100 ? '#' : '.';
        bar[30] = '\0';
        fprintf(stderr, "\rochre: %s %s [%s] %3d%%", phase, p->name, bar, percent);
        p->percent = percent;
        p->shown = true;
    }
    return !och_main_interrupted();
}

/* A named shape with generated weights; the format is one that och_main_check_format let pass. */
static och_status open_synthetic(const och_open_args *args, progress *p, ochre_model **out_model, och_err *err) {
    const char *format = args->format ? args->format : "Q8_0";
    och_dtype dtype = och_dtype_from_name(format);
    const char *provider = args->provider ? args->provider : och_env_get(OCH_ENV_OCHRE_OP_ONLY);
    och_dev_options dev = {.n_threads = args->threads};
    och_model_options o = {.only = provider, .progress = on_progress, .user = p};
    och_device *device = NULL;
    och_model *m = NULL;
    OCH_TRY(och_device_open(args->device ? args->device : "auto", &dev, &device, err));
    och_status st = och_model_open_synthetic(args->synthetic, dtype, device, &o, &m, err);
    och_device_release(device); /* the model retains it */
    if (st == OCH_OK) st = och_api_wrap_model(m, out_model, err);
    if (st != OCH_OK) och_model_close(m);
    return st;
}

int och_main_trace_start(const char *path) {
    och_err err = {0};
    return !path || och_trace_start(path, &err) == OCH_OK ? -1 : och_main_fail(&err);
}

int och_main_trace_stop(int rc) {
    och_err err = {0};
    if (och_trace_stop(&err) == OCH_OK) return rc;
    int failed = och_main_fail(&err);
    return rc == OCH_EXIT_OK ? failed : rc;
}

int och_main_open(const och_open_args *args, ochre_model **out_model) {
    och_strbuf path = {0};
    och_err err = {0};
    ochre_error e = {0};
    int rc = -1;
    *out_model = NULL;
    if (!args->synthetic && och_model_path(args->model, &path, &err) != OCH_OK) {
        rc = och_main_fail(&err);
        goto done;
    }
    const char *slash = strrchr(och_strbuf_str(&path), '/');
    progress p = {slash && slash[1] ? slash + 1 : och_strbuf_str(&path), isatty(STDERR_FILENO) == 1, false, -1};
    if (args->quiet) p.tty = false;
    if (args->synthetic) p.name = args->synthetic;
    ochre_model_options o = OCHRE_MODEL_OPTIONS_INIT;
    o.device = args->device;
    o.n_threads = args->threads;
    o.provider = args->provider;
    o.progress = on_progress;
    o.user = &p;
    double t0 = och_now_seconds();
    if (args->synthetic) {
        if (open_synthetic(args, &p, out_model, &err) != OCH_OK) {
            if (p.shown) fputs("\r\033[K", stderr);
            rc = och_main_fail(&err);
            goto done;
        }
    } else if (ochre_model_open(och_strbuf_str(&path), &o, out_model, &e) != OCHRE_OK) {
        if (p.shown) fputs("\r\033[K", stderr);
        rc = och_main_fail_public(&e);
        goto done;
    }
    double seconds = och_now_seconds() - t0;
    if (args->out_seconds) *args->out_seconds = seconds;
    if (p.shown) fputs("\r\033[K", stderr);
    if (!args->quiet) {
        ochre_model_info info = {.size_bytes = sizeof info};
        if (ochre_model_describe(*out_model, &info, &e) == OCHRE_OK)
            fprintf(stderr, "ochre: loaded %s (%s, %.1fM parameters) on %s in %.2f s\n", p.name, info.architecture,
                    (double)info.n_parameters * 1e-6, info.device, seconds);
    }
done:
    och_strbuf_deinit(&path);
    return rc;
}
