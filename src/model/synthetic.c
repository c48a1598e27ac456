/* Models without a file: a published shape and generated weights, for benchmarks. A pattern of a few MiB of encoded
 * random rows is mapped again and again into one region that stands for the file, so that a shape of 8 billion weights
 * costs only what its weights take once they are loaded. */
#include "model/model.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/strbuf.h"
#include "model/load.h"
#include "quant/format.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct shape {
    const char *name, *arch;
    int n_layers, d_model, n_heads, n_kv_heads, head_dim, d_ff, n_vocab, window;
} shapes[] = {
#define OCH_SHAPE(name, arch, layers, d, heads, kv, hd, ff, vocab, window)                                             \
    {name, #arch, layers, d, heads, kv, hd, ff, vocab, window},
#include "model/shapes.def"
#undef OCH_SHAPE
};

int och_model_shape_count(void) { return (int)OCH_COUNT(shapes); }
const char *och_model_shape_name(int i) { return shapes[i].name; }

static void configure(const struct shape *s, och_config *c) {
    memset(c, 0, sizeof *c);
    c->n_layers = s->n_layers;
    c->d_model = s->d_model;
    c->n_heads = s->n_heads;
    c->n_kv_heads = s->n_kv_heads;
    c->head_dim = s->head_dim;
    c->d_ff = s->d_ff;
    c->n_vocab = s->n_vocab;
    c->window = s->window;
    c->context_length = 131072;
    c->norm_eps = 1e-6;
    c->embed_scale = 1.0f;
    c->attn_scale = (float)(1.0 / sqrt(s->head_dim));
    c->act = OCH_ACT_SILU;
    c->rope = (och_rope_config){.base = 500000.0, .dim = s->head_dim, .style = OCH_ROPE_HALF, .factor = 1.0};
    c->rope_sliding = c->rope;
    for (int l = 0; l < s->n_layers; l++) c->sliding[l] = s->window > 0 && (l + 1) % 6 != 0;
}

static uint64_t gcd(uint64_t a, uint64_t b) { return b ? gcd(b, a % b) : a; }

/* Bytes of whole blocks and whole pages. */
static uint64_t pattern_bytes(och_dtype t) {
    uint64_t block = och_dtype_get(t)->block_bytes, page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t unit = block / gcd(block, page) * page;
    return unit * OCH_MAX(1, (UINT64_C(1) << 21) / unit);
}

static och_status fill(och_dtype t, void *dst, uint64_t n_bytes, och_err *err) {
    uint64_t elems = n_bytes / och_dtype_get(t)->block_bytes * och_dtype_get(t)->block_elems;
    float *row = och_malloc_array(elems, sizeof *row);
    if (!row) return och_err_nomem(err, elems * sizeof *row, "generated weights");
    uint64_t x = 88172645463325252u; /* xorshift64, Marsaglia 2003 */
    for (uint64_t i = 0; i < elems; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        row[i] = ((float)(x >> 40) * 0x1p-24f - 0.5f) * 0.04f;
    }
    och_status st = och_format_encode_row(t, row, dst, elems, err);
    och_free(row);
    return st;
}

static och_status map_region(och_model *m, och_dtype t, uint64_t size_bytes, och_err *err) {
    uint64_t pattern = pattern_bytes(t), total = och_u64_ceil_div(size_bytes, pattern) * pattern;
    int fd = memfd_create("ochre-weights", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)pattern) != 0) {
        int e = errno;
        if (fd >= 0) close(fd);
        return och_err_set_native(err, OCH_NOMEM, e, "generated weights: could not make %llu bytes of memory: %s",
                                  (unsigned long long)pattern, strerror(e));
    }
    och_status st = OCH_OK;
    void *region = mmap(NULL, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED) {
        st = och_err_set_native(err, OCH_NOMEM, errno, "generated weights: could not map %llu bytes", (unsigned long long)total);
        goto done;
    }
    m->synthetic = region;
    m->synthetic_bytes = total;
    for (uint64_t at = 0; at < total; at += pattern)
        if (mmap((char *)region + at, pattern, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
            st = och_err_set_native(err, OCH_NOMEM, errno, "generated weights: could not map %llu bytes", (unsigned long long)pattern);
            goto done;
        }
    st = fill(t, region, pattern, err);
done:
    close(fd);
    return st;
}

static och_status list_shapes(const char *found, och_err *err) {
    och_strbuf known;
    och_strbuf_init(&known);
    for (size_t i = 0; i < OCH_COUNT(shapes); i++) och_strbuf_printf(&known, "%s%s", i ? ", " : "", shapes[i].name);
    och_err_set(err, OCH_NOTFOUND, "synthetic shape: expected one of %s, found %s", och_strbuf_str(&known), found);
    och_strbuf_deinit(&known);
    return OCH_NOTFOUND;
}

/* Norms are float32 ones; matrices are views of the region. */
static och_status make_weights(och_model *m, och_dtype format, och_file_tensor *tensors, const och_file_tensor **sources,
                               const float *ones, och_err *err) {
    uint64_t largest = 0;
    for (int i = 0; i < m->arch->n_tensors; i++) {
        const och_tensor_name *n = &m->arch->tensors[i];
        if (!n->required && n->role != OCH_ROLE_OUTPUT) continue;
        int first = och_role_in_layer(n->role) ? 0 : -1, last = och_role_in_layer(n->role) ? m->config.n_layers - 1 : -1;
        for (int layer = first; layer <= last; layer++) {
            OCH_TRY(och_model_add_weight(m, n->role, layer, och_role_name(n->role), err));
            int64_t rows, cols;
            och_role_shape(&m->config, n->role, &rows, &cols);
            och_file_tensor *t = &tensors[m->n_weights - 1];
            bool vector = och_role_use(n->role) == OCH_USE_VECTOR;
            t->name = och_role_name(n->role);
            t->dtype = vector ? OCH_DTYPE_F32 : format;
            t->rank = vector ? 1 : 2;
            t->shape[0] = (uint64_t)(vector ? cols : rows);
            t->shape[1] = vector ? 1 : (uint64_t)cols;
            t->shape[2] = t->shape[3] = 1;
            t->path = m->path;
            t->type_name = och_dtype_name(t->dtype);
            if (!och_dtype_bytes(t->dtype, vector ? 1 : (uint64_t)rows, (uint64_t)cols, &t->size_bytes))
                return och_err_set(err, OCH_UNSUPPORTED, "shape %s: %lld columns of %s are no whole number of %s blocks", m->path,
                                   (long long)cols, t->name, och_dtype_name(format));
            if (!vector) largest = OCH_MAX(largest, t->size_bytes);
            else t->data = ones;
            sources[m->n_weights - 1] = t;
        }
    }
    OCH_TRY(map_region(m, format, largest, err));
    for (int i = 0; i < m->n_weights; i++)
        if (!tensors[i].data) tensors[i].data = m->synthetic;
    return OCH_OK;
}

och_status och_model_open_synthetic(const char *name, och_dtype format, och_device *device, const och_model_options *options,
                                    och_model **out_model, och_err *err) {
    *out_model = NULL;
    const struct shape *s = NULL;
    for (size_t i = 0; i < OCH_COUNT(shapes); i++)
        if (!strcmp(shapes[i].name, name)) s = &shapes[i];
    if (!s) return list_shapes(name, err);
    if (!och_format_get(format))
        return och_err_set(err, OCH_UNSUPPORTED, "synthetic weights: expected a weight format, found %s", och_dtype_name(format));
    och_model *m;
    och_status st = och_model_create(device, options, name, &m, err);
    if (st != OCH_OK) return st;
    m->arch = och_arch_find_gguf(s->arch);
    configure(s, &m->config);
    size_t n = (size_t)OCH_ROLE_COUNT_ * (size_t)(m->config.n_layers + 1);
    och_file_tensor *tensors = och_calloc(n, sizeof *tensors);
    const och_file_tensor **sources = och_calloc(n, sizeof *sources);
    int64_t n_ones = OCH_MAX(OCH_MAX(s->d_model, s->d_ff), s->n_heads * s->head_dim);
    float *ones = och_malloc_array((size_t)n_ones, sizeof *ones);
    if (!tensors || !sources || !ones) st = och_err_nomem(err, n * sizeof *tensors, "a synthetic model");
    for (int64_t i = 0; st == OCH_OK && i < n_ones; i++) ones[i] = 1.0f;
    if (st == OCH_OK) st = och_config_check(&m->config, name, err);
    if (st == OCH_OK) st = och_model_index_create(m, err);
    if (st == OCH_OK) st = make_weights(m, format, tensors, sources, ones, err);
    och_loader l = {.model = m, .options = options};
    if (st == OCH_OK) st = och_load_weights(&l, sources, err);
    och_free(ones);
    och_free(sources);
    och_free(tensors);
    if (st != OCH_OK) {
        och_model_close(m);
        return st;
    }
    *out_model = m;
    return OCH_OK;
}
