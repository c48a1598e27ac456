#include "model/model.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/size.h"
#include "base/strbuf.h"
#include "file/safetensors.h"
#include "model/load.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

och_status och_model_create(och_device *device, const och_model_options *options, const char *path, och_model **out_model,
                            och_err *err) {
    *out_model = NULL;
    och_model *m = och_calloc(1, sizeof *m);
    if (!m) return och_err_nomem(err, sizeof *m, "a model");
    m->device = och_device_retain(device);
    m->path = och_strdup(path);
    m->measured = options && options->measure;
    m->only = options && options->only ? och_strdup(options->only) : NULL;
    if (!m->path || (options && options->only && !m->only)) {
        och_model_close(m);
        return och_err_nomem(err, strlen(path), "a model's path");
    }
    *out_model = m;
    return OCH_OK;
}

void och_model_close(och_model *m) {
    if (!m) return;
    for (int i = 0; i < m->n_weights; i++) och_buf_free(&m->weights[i].buf);
    och_buf_free(&m->vectors);
    och_free(m->weights);
    och_free(m->index);
    och_tok_destroy(m->tok);
    och_gguf_close(m->gguf);
    och_safetensors_close(m->st);
    if (m->synthetic) munmap(m->synthetic, m->synthetic_bytes);
    och_free(m->path);
    och_free(m->only);
    och_device_release(m->device);
    och_free(m);
}

och_status och_model_index_create(och_model *m, och_err *err) {
    size_t n = (size_t)OCH_ROLE_COUNT_ * (size_t)(m->config.n_layers + 1);
    m->index = och_malloc_array(n, sizeof *m->index);
    m->weights = och_calloc(n, sizeof *m->weights);
    if (!m->index || !m->weights) return och_err_nomem(err, n * sizeof *m->weights, "a model's list of weights");
    for (size_t i = 0; i < n; i++) m->index[i] = -1;
    return OCH_OK;
}

static size_t slot(const och_model *m, och_role role, int layer) {
    return (size_t)role * (size_t)(m->config.n_layers + 1) + (size_t)(layer + 1);
}

och_status och_model_add_weight(och_model *m, och_role role, int layer, const char *name, och_err *err) {
    if (m->index[slot(m, role, layer)] >= 0)
        return och_err_set(err, OCH_INTERNAL, "architecture %s lists role %s twice", m->arch->name, och_role_name(role));
    och_weight *w = &m->weights[m->n_weights];
    w->role = role;
    w->layer = layer;
    snprintf(w->name, sizeof w->name, "%s", name);
    m->index[slot(m, role, layer)] = m->n_weights++;
    return OCH_OK;
}

const och_weight *och_model_find(const och_model *m, och_role role, int layer) {
    if (layer < -1 || layer >= m->config.n_layers) return NULL;
    int32_t i = m->index[slot(m, role, layer)];
    return i < 0 ? NULL : &m->weights[i];
}

const och_tensor *och_model_weight(const och_model *m, och_role role, int layer) {
    const och_weight *w = och_model_find(m, role, layer);
    return w ? &w->tensor : NULL;
}

static const och_file_tensor *find_in_file(const och_model *m, const char *name) {
    return m->gguf ? och_gguf_find_tensor(m->gguf, name) : och_safetensors_find(m->st, name);
}

/* Multimodal checkpoints put the language model's tensors under a prefix of their own. */
static const char *const hf_prefixes[] = {"", "language_model.", "model.language_model."};

static const och_file_tensor *find_hf(const och_model *m, const char *name, char *full, size_t full_bytes) {
    for (size_t i = 0; i < OCH_COUNT(hf_prefixes); i++) {
        const char *rest = i == 2 && !strncmp(name, "model.", 6) ? name + 6 : name;
        snprintf(full, full_bytes, "%s%s", hf_prefixes[i], rest);
        const och_file_tensor *t = find_in_file(m, full);
        if (t) return t;
    }
    return NULL;
}

/* A name in a table holds at most one %d, the layer. */
static void name_for_layer(const char *pattern, int layer, char *out, size_t n) {
    const char *at = strstr(pattern, "%d");
    if (!at) snprintf(out, n, "%s", pattern);
    else snprintf(out, n, "%.*s%d%s", (int)(at - pattern), pattern, layer, at + 2);
}

static och_status find_weights(och_model *m, const och_file_tensor **sources, och_err *err) {
    for (int i = 0; i < m->arch->n_tensors; i++) {
        const och_tensor_name *n = &m->arch->tensors[i];
        const char *pattern = m->gguf ? n->gguf : n->hf;
        if (!pattern) continue;
        int first = och_role_in_layer(n->role) ? 0 : -1, last = och_role_in_layer(n->role) ? m->config.n_layers - 1 : -1;
        for (int layer = first; layer <= last; layer++) {
            char name[96], full[128];
            name_for_layer(pattern, layer, name, sizeof name);
            const och_file_tensor *t = m->gguf ? find_in_file(m, name) : find_hf(m, name, full, sizeof full);
            if (!t && n->required)
                return och_err_set(err, OCH_NOTFOUND, "%s: architecture %s expects a tensor %s, found none", m->path, m->arch->name, name);
            if (!t) continue;
            OCH_TRY(och_model_add_weight(m, n->role, layer, t->name, err));
            sources[m->n_weights - 1] = t;
        }
    }
    if (m->index[slot(m, OCH_ROLE_OUTPUT, -1)] < 0) { /* tied */
        const och_weight *embed = och_model_find(m, OCH_ROLE_EMBED, -1);
        const och_file_tensor *t = sources[embed - m->weights];
        OCH_TRY(och_model_add_weight(m, OCH_ROLE_OUTPUT, -1, embed->name, err));
        sources[m->n_weights - 1] = t;
    }
    return OCH_OK;
}

/* A tensor of a layer that nothing asked for (a bias that the architecture does not have, a layer beyond the number of layers)
 * means that the file is not what it is taken for. Others, such as the vision tower of a multimodal checkpoint, are not
 * needed for text: a warning names the first. */
static och_status check_unused(const och_model *m, const och_file_tensor *const *sources, och_err *err) {
    uint64_t n = m->gguf ? och_gguf_n_tensors(m->gguf) : och_safetensors_n_tensors(m->st), unused = 0;
    const char *first = NULL, *layers = m->gguf ? "blk." : "model.layers.";
    for (uint64_t i = 0; i < n; i++) {
        const och_file_tensor *t = m->gguf ? och_gguf_tensor(m->gguf, i) : och_safetensors_tensor(m->st, i);
        bool used = strstr(t->name, "rotary_emb.inv_freq") != NULL; /* derived from the configuration */
        for (int j = 0; j < m->n_weights && !used; j++) used = sources[j] == t;
        if (used) continue;
        if (!strncmp(t->name, layers, strlen(layers)))
            return och_err_set(err, OCH_UNSUPPORTED, "%s: architecture %s with %d layers has no place for tensor %s", m->path,
                               m->arch->name, m->config.n_layers, t->name);
        unused++;
        if (!first) first = t->name;
    }
    if (unused)
        och_log(OCH_LOG_WARN, "%s: %llu tensors are not part of architecture %s and are ignored, the first is %s", m->path,
                (unsigned long long)unused, m->arch->name, first);
    return OCH_OK;
}

static och_status load(och_model *m, const och_model_options *options, och_err *err) {
    OCH_TRY(och_config_check(&m->config, m->path, err));
    OCH_TRY(och_model_index_create(m, err));
    size_t n = (size_t)OCH_ROLE_COUNT_ * (size_t)(m->config.n_layers + 1);
    const och_file_tensor **sources = och_calloc(n, sizeof *sources);
    if (!sources) return och_err_nomem(err, n * sizeof *sources, "a model's list of tensors");
    och_loader l = {.model = m, .options = options};
    och_status st = find_weights(m, sources, err);
    if (st == OCH_OK) st = check_unused(m, sources, err);
    if (st == OCH_OK) st = och_load_weights(&l, sources, err);
    och_free(sources);
    return st;
}

static och_status list_architectures(const char *where, const char *found, bool hf, och_err *err) {
    och_strbuf known;
    och_strbuf_init(&known);
    for (int i = 0; i < och_arch_count(); i++) {
        const char *const *names = hf ? och_arch_at(i)->hf_names : och_arch_at(i)->gguf_names;
        for (; *names; names++) och_strbuf_printf(&known, "%s%s", known.size ? ", " : "", *names);
    }
    och_err_set(err, OCH_UNSUPPORTED, "%s: architecture: expected one of %s, found %s", where, och_strbuf_str(&known), found);
    och_strbuf_deinit(&known);
    return OCH_UNSUPPORTED;
}

static och_status open_gguf(och_model *m, const char *path, och_err *err) {
    OCH_TRY(och_gguf_open(path, &m->gguf, err));
    const char *name;
    OCH_TRY(och_gguf_get_str(m->gguf, "general.architecture", true, &name, err));
    m->arch = och_arch_find_gguf(name);
    if (!m->arch) return list_architectures(path, name, false, err);
    OCH_TRY(m->arch->config_gguf(m->gguf, name, &m->config, err));
    if (!och_gguf_find(m->gguf, "tokenizer.ggml.model")) return OCH_OK;
    return och_tok_open_gguf(m->gguf, &m->tok, err);
}

static och_status open_folder(och_model *m, const char *path, och_err *err) {
    char file[4096], config[4096];
    och_json j = {0};
    const char *name = NULL;
    snprintf(file, sizeof file, "%s/config.json", path);
    if (access(file, F_OK) != 0)
        return och_err_set(err, OCH_NOTFOUND, "%s: expected a GGUF file or a folder with config.json, found a folder without it", path);
    OCH_TRY(och_json_load(file, 0, &j, err));
    och_status st = och_json_get_str(&j, "architectures.0", true, &name, err);
    if (st == OCH_OK && !(m->arch = och_arch_find_hf(name))) st = list_architectures(file, name, true, err);
    if (st == OCH_OK) st = m->arch->config_hf(&j, och_json_find(&j, "text_config") ? "text_config." : "", &m->config, err);
    och_json_deinit(&j);
    OCH_TRY(st);
    OCH_TRY(och_safetensors_open_dir(path, &m->st, err));
    snprintf(file, sizeof file, "%s/tokenizer.json", path);
    if (access(file, R_OK) != 0) return OCH_OK;
    snprintf(config, sizeof config, "%s/tokenizer_config.json", path);
    return och_tok_open_json(file, access(config, R_OK) == 0 ? config : NULL, &m->tok, err);
}

och_status och_model_open(const char *path, och_device *device, const och_model_options *options, och_model **out_model,
                          och_err *err) {
    *out_model = NULL;
    struct stat s;
    if (stat(path, &s) != 0)
        return och_err_set(err, OCH_NOTFOUND, "%s: expected a GGUF file or a folder with config.json, found nothing there", path);
    och_model *m;
    OCH_TRY(och_model_create(device, options, path, &m, err));
    och_status st = S_ISDIR(s.st_mode) ? open_folder(m, path, err) : open_gguf(m, path, err);
    if (st == OCH_OK) st = load(m, options, err);
    if (st == OCH_OK && m->tok && (int64_t)och_tok_vocab_size(m->tok) > m->config.n_vocab)
        och_log(OCH_LOG_WARN, "%s: the tokenizer has %lld entries and the model %d: ids beyond are refused", path,
                (long long)och_tok_vocab_size(m->tok), m->config.n_vocab);
    if (st != OCH_OK) {
        och_model_close(m);
        return st;
    }
    *out_model = m;
    return OCH_OK;
}
