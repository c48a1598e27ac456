#include "model/load.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/thread.h"
#include "dev/cpu/cpu.h"
#include "dev/trace.h"
#include "quant/format.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Rows that a thread takes at a time: a multiple of what packing needs, and few enough to give pages back soon. */
#define CHUNK_ROWS 256

och_status och_load_check(const och_model *m, const och_weight *w, const och_file_tensor *t, och_err *err) {
    OCH_TRY(och_file_tensor_check(t, err));
    if (!och_format_get(t->dtype))
        return och_err_set(err, OCH_UNSUPPORTED, "%s: tensor %s: expected a float or quantised type, found %s", m->path, t->name,
                           och_dtype_name(t->dtype));
    int64_t rows, cols;
    och_role_shape(&m->config, w->role, &rows, &cols);
    bool vector = och_role_use(w->role) == OCH_USE_VECTOR;
    bool fits = vector ? t->rank == 1 && t->shape[0] == (uint64_t)cols
                       : t->rank == 2 && t->shape[0] == (uint64_t)rows && t->shape[1] == (uint64_t)cols;
    if (!fits) {
        char expected[64], shape[96];
        if (vector) snprintf(expected, sizeof expected, "[%lld]", (long long)cols);
        else snprintf(expected, sizeof expected, "[%lld, %lld]", (long long)rows, (long long)cols);
        return och_err_set(err, OCH_CORRUPT, "%s: tensor %s: expected shape %s, found %s", m->path, t->name, expected,
                           och_file_tensor_shape_str(t, shape, sizeof shape));
    }
    return OCH_OK;
}

static och_status step(och_loader *l, uint64_t bytes, och_err *err) {
    l->done_bytes += bytes;
    const och_model_options *o = l->options;
    if (o && o->progress && !o->progress(o->user, "weights", l->done_bytes, l->total_bytes))
        return och_err_set(err, OCH_CANCELLED, "loading of %s was stopped", l->model->path);
    return OCH_OK;
}

/* Validation and packing of one matrix, chunk by chunk, by all threads. */
typedef struct pack_job {
    const och_file_tensor *t;
    const och_op_provider *provider; /* NULL: copy as it is (dst set) or only validate (dst NULL) */
    void *dst;
    int64_t rows, cols;
    uint64_t row_bytes;
    bool discard;
    _Atomic int64_t next;
    _Atomic uint64_t bad_row; /* UINT64_MAX: none */
} pack_job;

static void pack_member(void *arg, const och_pool_member *me) {
    (void)me;
    pack_job *j = arg;
    const char *src = j->t->data;
    for (;;) {
        int64_t r0 = atomic_fetch_add(&j->next, CHUNK_ROWS);
        if (r0 >= j->rows) return;
        int64_t r1 = OCH_MIN(r0 + CHUNK_ROWS, j->rows);
        for (int64_t r = r0; r < r1; r++) {
            uint64_t bad;
            if (och_format_validate_row(j->t->dtype, src + (uint64_t)r * j->row_bytes, (uint64_t)j->cols, &bad, NULL) != OCH_OK) {
                uint64_t none = UINT64_MAX;
                atomic_compare_exchange_strong(&j->bad_row, &none, (uint64_t)r);
                return;
            }
        }
        if (j->provider) j->provider->weight_pack(j->t->dtype, j->rows, j->cols, src, j->dst, r0, r1);
        else if (j->dst)
            memcpy((char *)j->dst + (uint64_t)r0 * j->row_bytes, src + (uint64_t)r0 * j->row_bytes, (uint64_t)(r1 - r0) * j->row_bytes);
        if (j->discard)
            och_mapping_discard(j->t->mapping, j->t->file_offset + (uint64_t)r0 * j->row_bytes, (uint64_t)(r1 - r0) * j->row_bytes);
    }
}

static och_status run_pack(och_loader *l, pack_job *j, och_err *err) {
    atomic_store(&j->next, 0);
    atomic_store(&j->bad_row, UINT64_MAX);
    och_pool_run(l->pool, pack_member, j);
    uint64_t bad = atomic_load(&j->bad_row);
    if (bad == UINT64_MAX) return OCH_OK;
    uint64_t at = 0;
    och_err detail;
    och_err_clear(&detail);
    och_status st = och_format_validate_row(j->t->dtype, (const char *)j->t->data + bad * j->row_bytes, (uint64_t)j->cols, &at, &detail);
    if (st == OCH_OK) return och_err_set(err, OCH_INTERNAL, "%s: tensor %s: row %llu changed while it was read", j->t->path, j->t->name,
                                         (unsigned long long)bad);
    return och_err_set(err, st, "%s: tensor %s, row %llu: %s", j->t->path, j->t->name, (unsigned long long)bad, detail.message);
}

/* A view of the file serves when the host's memory is the device's and the elements are aligned. */
static bool viewable(const och_model *m, const och_file_tensor *t) {
    if (m->synthetic || !m->device->vtable->unified_memory(m->device)) return false;
    uint64_t align = t->dtype == OCH_DTYPE_F32 ? 4 : 2;
    return och_dtype_get(t->dtype)->block_elems > 1 || (uintptr_t)t->data % align == 0;
}

static och_status upload(och_model *m, och_buf *buf, const void *src, uint64_t n_bytes, och_err *err) {
    och_queue *q;
    OCH_TRY(m->device->vtable->queue_create(m->device, &q, err));
    och_status st = m->device->vtable->copy_to_device(q, buf->addr, src, n_bytes, err);
    if (st == OCH_OK) st = m->device->vtable->synchronise(q, err);
    m->device->vtable->queue_destroy(q);
    return st;
}

/* A call of the op that will read the weight, to find out who packs it. */
static och_op_call probe_call(och_use use, const och_tensor *w) {
    och_op_call c = {.op = use == OCH_USE_EMBED ? OCH_OP_EMBED : OCH_OP_LINEAR};
    for (int i = 0; i < OCH_OP_MAX_IN; i++) c.in[i].dtype = OCH_DTYPE_NONE;
    for (int i = 0; i < OCH_OP_MAX_OUT; i++) c.out[i].dtype = OCH_DTYPE_NONE;
    const och_tensor row = {.dtype = OCH_DTYPE_F32, .rows = 1, .cols = w->cols, .row_bytes = (uint64_t)w->cols * 4};
    if (use == OCH_USE_EMBED) {
        c.in[OCH_EMBED_IDS] = (och_tensor){.dtype = OCH_DTYPE_I32, .rows = 1, .cols = 1, .row_bytes = 4};
        c.in[OCH_EMBED_TABLE] = *w;
        c.out[0] = row;
        c.attr.embed.scale = 1.0f;
    } else {
        c.in[OCH_LINEAR_X] = row;
        c.in[OCH_LINEAR_W0] = *w;
        c.out[0] = (och_tensor){.dtype = OCH_DTYPE_F32, .rows = 1, .cols = w->rows, .row_bytes = (uint64_t)w->rows * 4};
        c.attr.linear.n_weights = 1;
    }
    return c;
}

static och_status load_matrix(och_loader *l, och_weight *w, const och_file_tensor *t, och_err *err) {
    och_model *m = l->model;
    och_tensor *x = &w->tensor;
    x->dtype = t->dtype;
    x->rows = (int64_t)t->shape[0];
    x->cols = (int64_t)t->shape[1];
    if (!och_dtype_row_bytes(t->dtype, t->shape[1], &x->row_bytes))
        return och_err_set(err, OCH_CORRUPT, "%s: tensor %s: %llu columns are no whole number of %s blocks", m->path, t->name,
                           (unsigned long long)t->shape[1], och_dtype_name(t->dtype));
    const och_op_provider *packer = NULL;
    uint64_t bytes = t->size_bytes;
    const och_weight *embed = och_model_find(m, OCH_ROLE_EMBED, -1), *output = och_model_find(m, OCH_ROLE_OUTPUT, -1);
    bool tied = !strcmp(embed->name, output->name);
    och_op_call probe = probe_call(och_role_use(w->role), x);
    const och_op_provider *p;
    och_status st = och_op_select_packer(m->device, &probe, m->only, &p, err);
    if (st != OCH_OK) {
        och_err_prefix(err, "%s: tensor %s", m->path, t->name);
        return st;
    }
    uint64_t packed;
    och_layout layout = p->weight_layout ? p->weight_layout(m->device, t->dtype, x->rows, x->cols, &packed) : OCH_LAYOUT_NATIVE;
    if (layout != OCH_LAYOUT_NATIVE) {
        packer = p;
        bytes = packed;
        x->layout = layout;
    }
    /* One copy serves both ends of a tied model where both ask for the same layout. */
    bool packed_before = m->measured || embed->buf.device;
    if (tied && w == output && packer && packed_before && embed->tensor.layout == layout) {
        *x = embed->tensor;
        return step(l, t->size_bytes, err);
    }
    pack_job j = {.t = t, .provider = packer, .rows = x->rows, .cols = x->cols, .row_bytes = x->row_bytes};
    bool view = !packer && viewable(m, t);
    if (!(view && tied && w == embed)) { /* else the output matrix counts */
        w->held_bytes = bytes;
        m->weight_bytes += bytes;
    }
    if (m->measured) return OCH_OK;
    if (view) {
        x->host = (void *)(uintptr_t)t->data; /* ops do not write weights */
        x->addr.value = (uintptr_t)t->data;
        j.discard = true; /* validated now; ops bring back what they read */
        if (!(tied && w == embed)) OCH_TRY(run_pack(l, &j, err)); /* else validated as the output matrix */
        return step(l, t->size_bytes, err);
    }
    OCH_TRY(och_buf_alloc(m->device, OCH_MAX(bytes, 1), OCH_MEM_DEVICE, &w->buf, err));
    x->addr = w->buf.addr;
    x->host = w->buf.host;
    void *staging = NULL;
    if (!w->buf.host) {
        staging = och_malloc_aligned(bytes, 64);
        if (!staging) return och_err_nomem(err, bytes, "staging a weight");
    }
    j.dst = staging ? staging : w->buf.host;
    j.discard = !m->synthetic;
    st = run_pack(l, &j, err);
    if (st == OCH_OK && staging) st = upload(m, &w->buf, staging, bytes, err);
    och_free_aligned(staging);
    if (st != OCH_OK) return st;
    return step(l, t->size_bytes, err);
}

static och_status load_vectors(och_loader *l, const och_file_tensor *const *sources, och_err *err) {
    och_model *m = l->model;
    uint64_t floats = 0;
    for (int i = 0; i < m->n_weights; i++)
        if (sources[i] && och_role_use(m->weights[i].role) == OCH_USE_VECTOR) floats += (sources[i]->shape[0] + 15) / 16 * 16;
    m->weight_bytes += floats * 4;
    if (!floats) return OCH_OK;
    if (m->measured) {
        for (int i = 0; i < m->n_weights; i++) {
            och_weight *w = &m->weights[i];
            if (!sources[i] || och_role_use(w->role) != OCH_USE_VECTOR) continue;
            uint64_t n = sources[i]->shape[0];
            w->tensor = (och_tensor){.dtype = OCH_DTYPE_F32, .rows = 1, .cols = (int64_t)n, .row_bytes = n * 4};
            w->held_bytes = (n + 15) / 16 * 64;
        }
        return OCH_OK;
    }
    OCH_TRY(och_buf_alloc(m->device, floats * 4, OCH_MEM_DEVICE, &m->vectors, err));
    float *staging = m->vectors.host;
    if (!staging && !(staging = och_malloc_aligned(floats * 4, 64))) return och_err_nomem(err, floats * 4, "norms and biases");
    och_status st = OCH_OK;
    uint64_t at = 0;
    for (int i = 0; i < m->n_weights && st == OCH_OK; i++) {
        const och_file_tensor *t = sources[i];
        och_weight *w = &m->weights[i];
        if (!t || och_role_use(w->role) != OCH_USE_VECTOR) continue;
        uint64_t n = t->shape[0], bad;
        st = och_format_validate_row(t->dtype, t->data, n, &bad, err);
        if (st != OCH_OK) {
            och_err_prefix(err, "%s: tensor %s", m->path, t->name);
            break;
        }
        och_format_decode_row(t->dtype, t->data, staging + at, n);
        for (uint64_t k = 0; w->role == OCH_ROLE_ROPE_FACTORS && k < n && st == OCH_OK; k++)
            if (!(staging[at + k] >= 1e-6f) || !(staging[at + k] <= 1e6f)) /* they divide */
                st = och_err_set(err, OCH_RANGE, "%s: tensor %s, element %llu: expected 1e-6 to 1e+06, found %g", m->path, t->name,
                                 (unsigned long long)k, (double)staging[at + k]);
        if (st != OCH_OK) break;
        w->tensor = (och_tensor){.dtype = OCH_DTYPE_F32, .rows = 1, .cols = (int64_t)n, .row_bytes = n * 4};
        w->held_bytes = (n + 15) / 16 * 64;
        w->tensor.addr = och_dev_addr_add(m->vectors.addr, at * 4);
        w->tensor.host = m->vectors.host ? (float *)m->vectors.host + at : NULL;
        at += (n + 15) / 16 * 16;
        st = step(l, t->size_bytes, err);
    }
    if (st == OCH_OK && !m->vectors.host) st = upload(m, &m->vectors, staging, floats * 4, err);
    if (!m->vectors.host) och_free_aligned(staging);
    return st;
}

static och_status load_all(och_loader *l, const och_file_tensor *const *sources, och_err *err) {
    och_model *m = l->model;
    for (int i = 0; i < m->n_weights; i++) {
        OCH_TRY(och_load_check(m, &m->weights[i], sources[i], err));
        bool tied = m->weights[i].role == OCH_ROLE_OUTPUT && sources[i] == sources[och_model_find(m, OCH_ROLE_EMBED, -1) - m->weights];
        m->weights[i].file_dtype = sources[i]->dtype;
        m->weights[i].file_bytes = sources[i]->size_bytes;
        l->total_bytes += sources[i]->size_bytes;
        if (tied) continue;
        uint64_t n = 1;
        for (int d = 0; d < sources[i]->rank; d++) n *= sources[i]->shape[d];
        m->n_parameters += n;
    }
    OCH_TRY(load_vectors(l, sources, err));
    for (int i = 0; i < m->n_weights; i++)
        if (och_role_use(m->weights[i].role) != OCH_USE_VECTOR) OCH_TRY(load_matrix(l, &m->weights[i], sources[i], err));
    return OCH_OK;
}

och_status och_load_weights(och_loader *l, const och_file_tensor *const *sources, och_err *err) {
    och_device *d = l->model->device;
    if (l->model->measured) return load_all(l, sources, err);
    bool of_device = !strcmp(d->info.backend, "cpu");
    if (of_device) l->pool = och_cpu_pool(d);
    else OCH_TRY(och_pool_create(0, &l->pool, err));
    double traced = och_trace_begin();
    och_status st = load_all(l, sources, err);
    och_trace_end(traced, "load", "weights");
    if (!of_device) och_pool_destroy(l->pool);
    return st;
}
