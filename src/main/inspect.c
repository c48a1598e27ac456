/* ochre inspect: what is in a file, what the device can do with each tensor, and what running it takes. Works for files
 * that cannot be run, and says why they cannot. */
#include "main/main.h"

#include "base/env.h"
#include "base/size.h"
#include "base/thread.h"
#include "engine/session.h"
#include "file/gguf.h"
#include "file/json.h"
#include "file/names.h"
#include "file/safetensors.h"
#include "model/model.h"
#include "op/op.h"
#include "quant/capability.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const och_usage usage = {
    "inspect", "MODEL [options]",
    "Shows what a model file holds (constants, tensors), what the device does with each tensor's format, the memory\n"
    "that running it takes by part, and the plan of a step. Files that cannot be run are shown too, with the reason.\n"
    "exit status: 0 the file could be read, whether or not it can be run\n",
    "  ochre inspect smollm2-135m\n"
    "  ochre inspect model.gguf --context 8192 --sequences 4\n"
    "  ochre inspect model.gguf --json | python3 -m json.tool\n"};

typedef struct inspect {
    och_strbuf path;
    och_gguf *gguf; /* one of the two containers */
    och_safetensors *st;
    och_json config; /* beside safetensors */
    och_device *device;
    och_model *model;
    och_session *session;
    och_err reason; /* why there is no model or session */
    int32_t context, sequences;
    och_strbuf out;
} inspect;

static uint64_t n_tensors(const inspect *v) {
    return v->gguf ? och_gguf_n_tensors(v->gguf) : och_safetensors_n_tensors(v->st);
}
static const och_file_tensor *tensor_at(const inspect *v, uint64_t i) {
    return v->gguf ? och_gguf_tensor(v->gguf, i) : och_safetensors_tensor(v->st, i);
}

static och_status open_file(inspect *v, och_err *err) {
    const char *path = och_strbuf_str(&v->path);
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        och_strbuf config = {0};
        och_strbuf_printf(&config, "%s/config.json", path);
        och_status st = och_strbuf_status(&config, err);
        if (st == OCH_OK) st = och_json_load(och_strbuf_str(&config), 0, &v->config, err);
        och_strbuf_deinit(&config);
        OCH_TRY(st);
        return och_safetensors_open_dir(path, &v->st, err);
    }
    size_t n = strlen(path);
    if (n > 12 && !strcmp(path + n - 12, ".safetensors")) return och_safetensors_open(path, &v->st, err);
    return och_gguf_open(path, &v->gguf, err);
}

/* ---- metadata ---- */

static void json_number(och_strbuf *b, double v) {
    if (isfinite(v)) och_strbuf_printf(b, "%.9g", v);
    else och_strbuf_puts(b, "null");
}

/* Control characters become '?'; long text is cut. */
static void readable(och_strbuf *b, const char *s, size_t n) {
    och_strbuf_puts(b, "\"");
    for (size_t i = 0; i < n && i < 72; i++) {
        if (s[i] == '\n') och_strbuf_puts(b, "\\n");
        else och_strbuf_append(b, (unsigned char)s[i] < 32 || s[i] == 127 ? "?" : s + i, 1);
    }
    och_strbuf_puts(b, n > 72 ? "...\"" : "\"");
    if (n > 72) och_strbuf_printf(b, " (%zu bytes)", n);
}

static void scalar(och_strbuf *b, const och_gguf_value *v, bool json) {
    switch (v->type) {
    case OCH_GGUF_U8: case OCH_GGUF_U16: case OCH_GGUF_U32: case OCH_GGUF_U64:
        och_strbuf_printf(b, "%" PRIu64, v->u64);
        break;
    case OCH_GGUF_I8: case OCH_GGUF_I16: case OCH_GGUF_I32: case OCH_GGUF_I64:
        och_strbuf_printf(b, "%" PRId64, v->i64);
        break;
    case OCH_GGUF_F32: case OCH_GGUF_F64:
        if (json) json_number(b, v->f64);
        else och_strbuf_printf(b, "%.9g", v->f64);
        break;
    case OCH_GGUF_BOOL: och_strbuf_puts(b, v->b ? "true" : "false"); break;
    case OCH_GGUF_STRING:
        if (json) och_strbuf_json(b, v->str, v->len);
        else readable(b, v->str, v->len);
        break;
    default: och_strbuf_puts(b, json ? "null" : "?");
    }
}

/* The first elements of an array of numbers or strings. */
static void array(och_strbuf *b, const och_gguf_value *v, bool json) {
    uint64_t shown = OCH_MIN(v->count, json ? 16 : 4);
    if (json) och_strbuf_printf(b, "{\"type\": \"%s\", \"count\": %" PRIu64 ", \"first\": [", och_gguf_type_name(v->elem_type), v->count);
    else och_strbuf_printf(b, "%s[%" PRIu64 "]", och_gguf_type_name(v->elem_type), v->count);
    for (uint64_t i = 0; i < shown; i++) {
        const char *s;
        size_t n;
        int64_t i64;
        float f32;
        och_strbuf_puts(b, i ? ", " : json ? "" : " ");
        if (och_gguf_array_str(v, i, &s, &n)) {
            if (json) och_strbuf_json(b, s, n);
            else readable(b, s, n);
        } else if (och_gguf_array_i64(v, i, &i64)) och_strbuf_printf(b, "%" PRId64, i64);
        else if (och_gguf_array_f32(v, i, &f32)) {
            if (json) json_number(b, (double)f32);
            else och_strbuf_printf(b, "%.9g", (double)f32);
        } else och_strbuf_puts(b, json ? "null" : "?");
    }
    if (json) och_strbuf_puts(b, "]}");
    else if (v->count > shown) och_strbuf_puts(b, ", ...");
}

static void metadata(inspect *v, bool json) {
    och_strbuf *b = &v->out;
    for (uint64_t i = 0; v->gguf && i < och_gguf_n_kv(v->gguf); i++) {
        const och_gguf_value *kv = och_gguf_kv(v->gguf, i);
        if (json) {
            och_strbuf_puts(b, i ? ", " : "");
            och_strbuf_json(b, kv->key, strlen(kv->key));
            och_strbuf_puts(b, ": ");
        } else {
            char name[OCH_NAME_SHOW_BYTES];
            och_strbuf_printf(b, "  %-42s ", och_name_show(name, kv->key, strlen(kv->key)));
        }
        if (kv->type == OCH_GGUF_ARRAY) array(b, kv, json);
        else scalar(b, kv, json);
        if (!json) och_strbuf_puts(b, "\n");
    }
    if (v->config.root) {
        const char *key;
        json_t *value;
        bool first = true;
        json_free_t release;
        json_get_alloc_funcs(NULL, &release);
        json_object_foreach(v->config.root, key, value) {
            char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
            if (!text) continue;
            if (json) {
                och_strbuf_puts(b, first ? "" : ", ");
                och_strbuf_json(b, key, strlen(key));
                och_strbuf_printf(b, ": %s", text);
            } else och_strbuf_printf(b, "  %-42s %.100s\n", key, text);
            first = false;
            release(text);
        }
    }
}

/* ---- tensors ---- */

/* The op that reads a tensor: by its role where the model could be opened, else by its shape and name. */
static const char *op_of(const inspect *v, const och_file_tensor *t, const char **out_role) {
    *out_role = "";
    for (int i = 0; v->model && i < v->model->n_weights; i++)
        if (!strcmp(v->model->weights[i].name, t->name)) {
            och_role role = v->model->weights[i].role;
            *out_role = och_role_name(role);
            switch (och_role_use(role)) {
            case OCH_USE_VECTOR: return "vector";
            case OCH_USE_EMBED: return "embed";
            case OCH_USE_LINEAR: return "linear";
            }
        }
    if (t->rank < 2) return "vector";
    return strstr(t->name, "embd") || strstr(t->name, "embed") ? "embed" : "linear";
}

/* The capability table knows a device by who serves it. */
static const char *provider_for(const och_dev_info *d) {
    for (int i = 0; i < och_op_provider_count(); i++) {
        const och_op_provider *p = och_op_provider_at(i);
        if (p->priority >= 0 && !strcmp(p->backend, d->backend)) return p->name;
    }
    return d->backend;
}

static void tensors(inspect *v, bool json) {
    och_strbuf *b = &v->out;
    for (uint64_t i = 0; i < n_tensors(v); i++) {
        const och_file_tensor *t = tensor_at(v, i);
        const char *role, *op = op_of(v, t, &role);
        const och_dev_info *d = &v->device->info;
        const och_capability_row *row = och_capability(provider_for(d), d->arch, t->dtype, op);
        char shape[96], name[OCH_NAME_SHOW_BYTES];
        och_file_tensor_shape_str(t, shape, sizeof shape);
        if (json) {
            och_strbuf_printf(b, "%s{\"name\": ", i ? ", " : "");
            och_strbuf_json(b, t->name, strlen(t->name));
            och_strbuf_puts(b, ", \"type\": ");
            och_strbuf_json(b, t->type_name, strlen(t->type_name));
            och_strbuf_puts(b, ", \"shape\": [");
            for (int k = 0; k < t->rank && k < OCH_FILE_MAX_RANK; k++)
                och_strbuf_printf(b, "%s%" PRIu64, k ? ", " : "", t->shape[k]);
            och_strbuf_printf(b, "], \"bytes\": %" PRIu64 ", \"offset\": %" PRIu64 ", \"role\": \"%s\", \"op\": \"%s\", \"verdict\": "
                                 "\"%s\", \"convert_to\": ", t->size_bytes, t->file_offset, role, op, och_verdict_name(row->verdict));
            if (row->verdict == OCH_VERDICT_CONVERT_AT_LOAD) och_strbuf_printf(b, "\"%s\"", och_dtype_name(row->convert_to));
            else och_strbuf_puts(b, "null");
            och_strbuf_puts(b, ", \"message\": ");
            och_strbuf_json(b, row->message, strlen(row->message));
            och_strbuf_puts(b, "}");
            continue;
        }
        och_strbuf_printf(b, "  %-36s %-7s %-18s %12" PRIu64 "  %-7s %s", och_name_show(name, t->name, strlen(t->name)), t->type_name,
                          shape, t->size_bytes, op, och_verdict_name(row->verdict));
        if (row->verdict == OCH_VERDICT_CONVERT_AT_LOAD) och_strbuf_printf(b, " to %s", och_dtype_name(row->convert_to));
        if (row->message[0]) och_strbuf_printf(b, ": %s", row->message);
        och_strbuf_puts(b, "\n");
    }
}

/* ---- memory ---- */

typedef struct part {
    int n;
    uint64_t stored, held; /* bytes in the file, bytes in memory */
    bool view;             /* at least one lies in the file's mapping */
} part;

static void add_weights(const inspect *v, part parts[OCH_ROLE_COUNT_]) {
    for (int i = 0; i < v->model->n_weights; i++) {
        const och_weight *w = &v->model->weights[i];
        part *p = &parts[w->role];
        p->n++;
        p->stored += w->file_bytes;
        bool seen = false; /* a tied embedding is one view for two roles */
        for (int k = 0; k < i && !w->buf.size_bytes; k++)
            if (w->tensor.host && v->model->weights[k].tensor.host == w->tensor.host) seen = true;
        if (seen) p->view = true;
        else if (w->buf.size_bytes) p->held += w->buf.size_bytes;
        else if (och_role_use(w->role) == OCH_USE_VECTOR) p->held += (uint64_t)w->tensor.rows * (uint64_t)w->tensor.cols * 4;
        else p->held += w->file_bytes, p->view = true;
    }
}

static void memory(inspect *v, bool json) {
    och_strbuf *b = &v->out;
    part parts[OCH_ROLE_COUNT_] = {0};
    uint64_t weights = 0;
    add_weights(v, parts);
    for (int r = 0; r < OCH_ROLE_COUNT_; r++) {
        weights += parts[r].held;
        if (!parts[r].n) continue;
        if (json)
            och_strbuf_printf(b, "%s\"%s\": {\"tensors\": %d, \"file_bytes\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"view\": %s}",
                              r && weights != parts[r].held ? ", " : "", och_role_name((och_role)r), parts[r].n, parts[r].stored,
                              parts[r].held, parts[r].view ? "true" : "false");
        else
            och_strbuf_printf(b, "  weights: %-20s %4d tensors %14" PRIu64 " bytes%s\n", och_role_name((och_role)r), parts[r].n,
                              parts[r].held, parts[r].view ? "  (in the mapped file)" : "");
    }
    if (json) och_strbuf_printf(b, "}, \"weight_bytes\": %" PRIu64, weights);
    else och_strbuf_printf(b, "  %-29s              %14" PRIu64 " bytes\n", "weights, all", weights);
    if (!v->session) return;
    och_session_memory m = och_session_memory_get(v->session);
    const struct {
        const char *name, *about;
        uint64_t bytes;
    } rows[] = {{"state", "keys and values", m.state_bytes},
                {"arena", "values inside a step", m.arena_bytes},
                {"scratch", "of the kernels", m.scratch_bytes},
                {"logits", "", m.logits_bytes},
                {"inputs", "of a step", m.inputs_bytes}};
    uint64_t all = weights;
    for (size_t i = 0; i < OCH_COUNT(rows); i++) {
        all += rows[i].bytes;
        if (json) och_strbuf_printf(b, ", \"%s_bytes\": %" PRIu64, rows[i].name, rows[i].bytes);
        else och_strbuf_printf(b, "  %-8s %-33s %14" PRIu64 " bytes\n", rows[i].name, rows[i].about, rows[i].bytes);
    }
    if (json) och_strbuf_printf(b, ", \"total_bytes\": %" PRIu64, all);
    else och_strbuf_printf(b, "  %-42s %14" PRIu64 " bytes\n", "all", all);
}

static void report(inspect *v, bool json) {
    och_strbuf *b = &v->out;
    const char *path = och_strbuf_str(&v->path), *why = v->reason.message;
    bool runs = v->model && v->session;
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < n_tensors(v); i++) bytes += tensor_at(v, i)->size_bytes;
    char container[64];
    if (v->gguf) snprintf(container, sizeof container, "GGUF version %u", och_gguf_version(v->gguf));
    else snprintf(container, sizeof container, "safetensors, %" PRIu64 " file%s", och_safetensors_n_shards(v->st), och_safetensors_n_shards(v->st) == 1 ? "" : "s");
    if (json) {
        och_strbuf_puts(b, "{\"path\": ");
        och_strbuf_json(b, path, strlen(path));
        och_strbuf_printf(b, ", \"container\": \"%s\", \"tensor_bytes\": %" PRIu64 ", \"device\": \"%s:%d\", \"runs\": %s, \"reason\": ",
                          container, bytes, v->device->info.backend, v->device->info.index, runs ? "true" : "false");
        if (runs) och_strbuf_puts(b, "null");
        else och_strbuf_json(b, why, strlen(why));
        och_strbuf_puts(b, ", \"metadata\": {");
        metadata(v, true);
        och_strbuf_puts(b, "}, \"tensors\": [");
        tensors(v, true);
        och_strbuf_puts(b, "]");
        if (v->model) {
            och_strbuf_printf(b, ", \"architecture\": \"%s\", \"parameters\": %" PRIu64 ", \"memory\": {\"context\": %d, "
                                 "\"sequences\": %d, \"weights\": {", v->model->arch->name, v->model->n_parameters,
                              v->context, v->sequences);
            memory(v, true);
            och_strbuf_puts(b, "}");
        }
        if (v->session) {
            och_strbuf_puts(b, ", \"plan\": ");
            och_plan_print_json(&v->session->plan, b);
        }
        och_strbuf_puts(b, "}\n");
        return;
    }
    och_strbuf_printf(b, "%s: %s, %" PRIu64 " tensors, %.1f MB\n\nmetadata\n", path, container, n_tensors(v), (double)bytes * 1e-6);
    metadata(v, false);
    och_strbuf_printf(b, "\ntensors (type, shape, bytes, op that reads it, what %s:%d does with the format)\n",
                      v->device->info.backend, v->device->info.index);
    tensors(v, false);
    if (v->model) {
        const och_config *c = &v->model->config;
        och_strbuf_printf(b, "\nmodel: architecture %s, %d layers, width %d, %d heads, %d kv heads of %d, feed-forward %d, "
                             "vocabulary %d, context %d, %.1fM parameters\n", v->model->arch->name, c->n_layers, c->d_model,
                          c->n_heads, c->n_kv_heads, c->head_dim, c->d_ff, c->n_vocab, c->context_length,
                          (double)v->model->n_parameters * 1e-6);
        och_strbuf_printf(b, "\nmemory for %d sequence%s of %d tokens\n", v->sequences, v->sequences == 1 ? "" : "s", v->context);
        memory(v, false);
    }
    if (v->session) {
        och_strbuf_printf(b, "\nplan of a step (%d records)\n", v->session->plan.n_ops);
        och_plan_print(&v->session->plan, b);
    }
    if (!runs)
        och_strbuf_printf(b, "\n%s:%d cannot run this file: %s\n", v->device->info.backend, v->device->info.index, why);
}

int och_cmd_inspect(int argc, char **argv) {
    const char *args[1], *device = NULL, *provider = NULL;
    int32_t threads = 0;
    bool json = false;
    inspect v = {.context = 0, .sequences = 1};
    const och_opt opts[] = {
        {"device", 'd', OCH_OPT_STR, &device, 0, 0, "D", "judge for this device, see `ochre devices` (default: auto)", NULL},
        {"provider", 0, OCH_OPT_STR, &provider, 0, 0, "NAME", "use only these kernels: reference, cpu, kernel, blas", NULL},
        {"context", 0, OCH_OPT_I32, &v.context, 1, 1 << 30, "N", "tokens a sequence may hold (default: the model's, at most 4096)", NULL},
        {"sequences", 0, OCH_OPT_I32, &v.sequences, 1, 4096, "N", "sequences at once (default: 1)", NULL},
        {"threads", 't', OCH_OPT_I32, &threads, 1, OCH_POOL_MAX_THREADS, "N", "CPU threads", NULL},
        {"json", 0, OCH_OPT_FLAG, &json, 0, 0, NULL, "one JSON object", NULL},
    };
    int n_args, rc = och_opts_parse(&usage, opts, OCH_COUNT(opts), argc, argv, args, 1, &n_args);
    if (rc >= 0) return rc;
    if (n_args < 1) return och_main_usage("inspect", "which model?");
    rc = och_main_check_provider("inspect", provider);
    if (rc >= 0) return rc;
    och_err err = {0};
    och_dev_options dev_options = {.n_threads = threads};
    if (och_model_path(args[0], &v.path, &err) != OCH_OK || open_file(&v, &err) != OCH_OK ||
        och_device_open(device ? device : "auto", &dev_options, &v.device, &err) != OCH_OK) {
        rc = och_main_fail(&err);
        goto done;
    }
    /* What cannot be run is still shown. */
    och_model_options model_options = {.only = provider ? provider : och_env_get(OCH_ENV_OCHRE_OP_ONLY)};
    if (och_model_open(och_strbuf_str(&v.path), v.device, &model_options, &v.model, &v.reason) == OCH_OK) {
        if (!v.context) v.context = OCH_MIN(v.model->config.context_length, 4096);
        och_session_options so = {.max_sequences = v.sequences, .max_context = v.context, .kv_dtype = OCH_DTYPE_NONE};
        if (och_session_create(v.model, &so, &v.session, &v.reason) != OCH_OK) v.session = NULL;
    }
    report(&v, json);
    if (v.out.failed) rc = och_main_error("out of memory for the report");
    else {
        fputs(och_strbuf_str(&v.out), stdout);
        rc = OCH_EXIT_OK;
    }
done:
    och_session_destroy(v.session);
    och_model_close(v.model);
    och_device_release(v.device);
    och_gguf_close(v.gguf);
    och_safetensors_close(v.st);
    och_json_deinit(&v.config);
    och_strbuf_deinit(&v.path);
    och_strbuf_deinit(&v.out);
    return rc;
}
