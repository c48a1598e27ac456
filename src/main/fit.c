/* ochre fit: what a model takes on a device, by part, against what the device holds. No weight is read. */
#include "main/main.h"

#include "base/env.h"
#include "base/size.h"
#include "base/thread.h"
#include "engine/fit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const och_usage usage = {"fit", "MODEL [options]\n       ochre fit --synthetic SHAPE --format F [options]",
                                "Tells whether a model fits a device: its weights as the device holds them, the state "
                                "of the sequences, the workspace of a\n"
                                "step, against the memory that is free and that there is, and the longest context that "
                                "fits. The sums are those of a real\n"
                                "session; only the header of the file is read.\n"
                                "exit status: 0 it fits; 1 it does not, or it could not be told\n",
                                "  ochre fit smollm2-135m --device sim:gfx1103 --context 2048\n"
                                "  ochre fit model.gguf --device hip:0 --context 32768 --sequences 4 --json\n"
                                "  ochre fit --synthetic llama-8b --format Q4_K --device sim:gfx1151\n"};

static void part(och_strbuf *b, const char *name, const char *about, uint64_t bytes) {
    och_strbuf_printf(b, "  %-9s %-49s %15" PRIu64 " bytes %10.1f MiB\n", name, about, bytes, (double)bytes / 1048576.0);
}

static void print_text(och_strbuf *b, const och_model *m, const och_fit *f) {
    const char *label = m->device->info.label;
    char about[96];
    uint64_t stored = 0;
    for (int i = 0; i < m->n_weights; i++)
        if (m->weights[i].held_bytes) stored += m->weights[i].file_bytes;
    och_strbuf_printf(b, "%s on %s (%s): %d sequence%s of %d tokens, state in %s\n", m->path, label, m->device->info.name,
                      f->max_sequences, f->max_sequences == 1 ? "" : "s", f->max_context, och_dtype_name(f->kv_dtype));
    snprintf(about, sizeof about, "as the device holds them (%" PRIu64 " in the file)", stored);
    part(b, "weights", about, f->weight_bytes);
    if (f->paged_bytes) part(b, "state", "keys and values of full layers", f->paged_bytes);
    if (f->ring_bytes) part(b, "state", "keys and values of sliding layers", f->ring_bytes);
    part(b, "arena", "values inside a step", f->arena_bytes);
    part(b, "scratch", "of the kernels", f->scratch_bytes);
    part(b, "logits", "", f->logits_bytes);
    part(b, "inputs", "of a step", f->inputs_bytes);
    part(b, "all", "", f->total_bytes);
    part(b, "device", "free now", f->free_bytes);
    part(b, "device", "that this process may use in all", f->limit_bytes);
    if (f->total_bytes <= f->free_bytes)
        och_strbuf_printf(b, "it fits, with %.1f MiB to spare", (double)(f->free_bytes - f->total_bytes) / 1048576.0);
    else if (f->total_bytes <= f->limit_bytes)
        och_strbuf_printf(
            b, "it does not fit now: %.1f MiB too much, though the device could hold it if others gave memory back",
            (double)(f->total_bytes - f->free_bytes) / 1048576.0);
    else
        och_strbuf_printf(b, "it does not fit: %.1f MiB more than the device holds",
                          (double)(f->total_bytes - f->limit_bytes) / 1048576.0);
    if (!f->greatest_context) och_strbuf_puts(b, "; no context is short enough\n");
    else
        och_strbuf_printf(b, "; the longest context that fits is %d tokens%s\n", f->greatest_context,
                          f->greatest_context == m->config.context_length ? ", all that the model was made for" : "");
}

static void print_json(och_strbuf *b, const och_model *m, const och_fit *f) {
    och_strbuf_puts(b, "{\"model\": ");
    och_strbuf_json(b, m->path, strlen(m->path));
    och_strbuf_printf(
        b, ", \"device\": \"%s\", \"arch\": \"%s\", \"context\": %d, \"sequences\": %d, \"kv_type\": \"%s\"",
        m->device->info.label, m->device->info.arch, f->max_context, f->max_sequences, och_dtype_name(f->kv_dtype));
    och_strbuf_printf(b,
                      ", \"weight_bytes\": %" PRIu64 ", \"paged_state_bytes\": %" PRIu64
                      ", \"ring_state_bytes\": %" PRIu64 ", \"arena_bytes\": %" PRIu64 ", \"scratch_bytes\": %" PRIu64
                      ", \"logits_bytes\": %" PRIu64 ", \"inputs_bytes\": %" PRIu64 ", \"total_bytes\": %" PRIu64
                      ", \"free_bytes\": %" PRIu64 ", \"limit_bytes\": %" PRIu64,
                      f->weight_bytes, f->paged_bytes, f->ring_bytes, f->arena_bytes, f->scratch_bytes, f->logits_bytes,
                      f->inputs_bytes, f->total_bytes, f->free_bytes, f->limit_bytes);
    och_strbuf_printf(b,
                      ", \"fits\": %s, \"spare_bytes\": %" PRId64
                      ", \"greatest_context\": %d, \"model_context\": %d, \"tensors\": [",
                      f->total_bytes <= f->free_bytes ? "true" : "false", (int64_t)(f->free_bytes - f->total_bytes),
                      f->greatest_context, m->config.context_length);
    for (int i = 0; i < m->n_weights; i++) {
        const och_weight *w = &m->weights[i];
        och_strbuf_puts(b, i ? ", {\"name\": " : "{\"name\": ");
        och_strbuf_json(b, w->name, strlen(w->name));
        och_strbuf_printf(
            b,
            ", \"role\": \"%s\", \"layer\": %d, \"type\": \"%s\", \"file_bytes\": %" PRIu64 ", \"bytes\": %" PRIu64 "}",
            och_role_name(w->role), w->layer, och_dtype_name(w->file_dtype), w->file_bytes, w->held_bytes);
    }
    och_strbuf_puts(b, "]}\n");
}

/* Opens what the arguments name, to be measured. path: of the model, where no shape is given. */
static och_status open_model(const char *path, const char *shape, const char *format, och_device *d, const char *provider,
                             och_model **out_m, och_err *err) {
    och_model_options o = {.only = provider ? provider : och_env_get(OCH_ENV_OCHRE_OP_ONLY), .measure = true};
    if (shape) return och_model_open_synthetic(shape, och_dtype_from_name(format), d, &o, out_m, err);
    return och_model_open(path, d, &o, out_m, err);
}

int och_cmd_fit(int argc, char **argv) {
    const char *args[1], *device = NULL, *provider = NULL, *kv = "auto", *shape = NULL, *format = "Q8_0";
    int32_t context = 0, sequences = 1, step_tokens = 0;
    bool json = false;
    const och_opt opts[] = {
        {"device", 'd', OCH_OPT_STR, &device, 0, 0, "D", "see `ochre devices` (default: auto)", NULL},
        {"context", 0, OCH_OPT_I32, &context, 1, 1 << 30, "N",
         "tokens a sequence may hold (default: the model's, at most 4096)", NULL},
        {"sequences", 0, OCH_OPT_I32, &sequences, 1, 4096, "N", "sequences at once (default: 1)", NULL},
        {"step-tokens", 0, OCH_OPT_I32, &step_tokens, 1, 1 << 20, "N", "most tokens of a step (default: 512)", NULL},
        {"kv-type", 0, OCH_OPT_STR, &kv, 0, 0, "TYPE", "type of the state: auto, f32, f16, bf16, fp8", NULL},
        {"provider", 0, OCH_OPT_STR, &provider, 0, 0, "NAME", "use only these kernels: reference, cpu, kernel, blas", NULL},
        {"synthetic", 0, OCH_OPT_STR, &shape, 0, 0, "SHAPE", "a published shape in place of a model", NULL},
        {"format", 0, OCH_OPT_STR, &format, 0, 0, "F", "weight format of --synthetic (default: Q8_0)", NULL},
        {"json", 0, OCH_OPT_FLAG, &json, 0, 0, NULL, "one JSON object, with every tensor", NULL},
    };
    int n_args, rc = och_opts_parse(&usage, opts, OCH_COUNT(opts), argc, argv, args, 1, &n_args);
    if (rc >= 0) return rc;
    if ((n_args < 1) == !shape)
        return och_main_usage("fit", shape ? "both a model and --synthetic: expected one" : "which model?");
    static const och_dtype kv_types[] = {OCH_DTYPE_NONE, OCH_DTYPE_F32, OCH_DTYPE_F16, OCH_DTYPE_BF16,
                                         OCH_DTYPE_F8_E4M3};
    ochre_kv_type kv_type;
    if (och_main_kv_type(kv, &kv_type) != OCH_EXIT_OK)
        return och_main_usage("fit", "--kv-type: expected auto, f32, f16, bf16 or fp8, found \"%.100s\"", kv);
    rc = och_main_check_provider("fit", provider);
    if (rc < 0) rc = och_main_check_format("fit", format);
    if (rc >= 0) return rc;
    och_err err = {0};
    och_device *d = NULL;
    och_model *m = NULL;
    och_strbuf out = {0}, path = {0};
    och_fit f;
    och_session_options so = {.max_sequences = sequences, .max_context = context, .max_step_tokens = step_tokens,
                              .kv_dtype = kv_types[kv_type]};
    och_dev_options dev = {0};
    rc = OCH_EXIT_FAILURE;
    if ((n_args && och_model_path(args[0], &path, &err) != OCH_OK) ||
        och_device_open(device ? device : "auto", &dev, &d, &err) != OCH_OK ||
        open_model(och_strbuf_str(&path), shape, format, d, provider, &m, &err) != OCH_OK ||
        och_fit_measure(m, &so, &f, &err) != OCH_OK) {
        rc = och_main_fail(&err);
        goto done;
    }
    if (json) print_json(&out, m, &f);
    else print_text(&out, m, &f);
    if (out.failed) och_main_error("out of memory for the report");
    else {
        fputs(och_strbuf_str(&out), stdout);
        if (f.total_bytes <= f.free_bytes) rc = OCH_EXIT_OK;
    }
done:
    och_model_close(m);
    och_device_release(d);
    och_strbuf_deinit(&out);
    och_strbuf_deinit(&path);
    return rc;
}
