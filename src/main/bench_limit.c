/* What a run of `ochre bench` has to move and to compute, and how fast the device reads. */
#include "main/bench.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/thread.h"
#include "engine/api.h"
#include "op/gpu/gpu.h"

#include <string.h>

/* Positions that the layers attend to together, where `visible` tokens are there, the newest one included. */
static double attended(const och_config *c, int visible) {
    double sum = 0.0;
    for (int l = 0; l < c->n_layers; l++) {
        int window = och_config_window(c, l);
        sum += window ? OCH_MIN(visible, window) : visible;
    }
    return sum;
}

static double step_bytes(const och_session *s, const och_bench_case *of) {
    const och_model *m = s->model;
    const och_config *c = &m->config;
    double bytes = 0.0, positions = 0.0;
    for (int i = 0; i < m->n_weights; i++) {
        const och_weight *w = &m->weights[i];
        int64_t rows, cols;
        och_role_shape(c, w->role, &rows, &cols);
        bytes += w->role == OCH_ROLE_EMBED ? (double)w->file_bytes / (double)rows * of->batch : (double)w->file_bytes;
    }
    uint64_t head_bytes = 0; /* a key or a value of a token in a layer; the type has whole rows of any length */
    (void)och_dtype_row_bytes(s->options.kv_dtype, (uint64_t)c->n_kv_heads * (uint64_t)c->head_dim, &head_bytes);
    for (int32_t i = 0; i < of->tokens; i++) positions += attended(c, of->depth + i + 1);
    return bytes + 2.0 * (double)head_bytes * of->batch * (positions / of->tokens + c->n_layers);
}

static double prefill_flops(const och_session *s, const och_bench_case *of) {
    const och_model *m = s->model;
    const och_config *c = &m->config;
    double flops = 0.0, positions = 0.0;
    for (int i = 0; i < m->n_weights; i++) {
        int64_t rows, cols;
        if (och_role_use(m->weights[i].role) != OCH_USE_LINEAR) continue;
        och_role_shape(c, m->weights[i].role, &rows, &cols);
        flops += 2.0 * (double)rows * (double)cols * (m->weights[i].role == OCH_ROLE_OUTPUT ? 1 : of->tokens);
    }
    for (int32_t i = 0; i < of->tokens; i++) positions += attended(c, i + 1);
    return flops + 4.0 * c->n_heads * c->head_dim * positions; /* scores, and the sum of values */
}

och_bench_limit och_bench_limit_of(const och_bench_slot *slot) {
    const och_session *s = och_api_session(slot->session);
    if (slot->of.decode) return (och_bench_limit){.bytes = step_bytes(s, &slot->of)};
    return (och_bench_limit){.flops = prefill_flops(s, &slot->of)};
}

/* ---- how fast the device reads ---- */

enum { GPU_READ_BYTES = 1 << 30, CPU_READ_BYTES = 1 << 28, CPU_CHUNK_WORDS = 1 << 13, CPU_LANES = 32, CPU_RUNS = 5 };

typedef struct cpu_read {
    uint64_t *words;
    uint64_t sums[OCH_POOL_MAX_THREADS]; /* kept, so that no compiler leaves the reads out */
} cpu_read;

static void write_words(void *arg, size_t begin, size_t end, const och_pool_member *me) {
    cpu_read *r = arg;
    (void)me;
    for (size_t i = begin; i < end; i++) r->words[i] = i;
}

static void sum_words(void *arg, size_t begin, size_t end, const och_pool_member *me) {
    cpu_read *r = arg;
    uint64_t sums[CPU_LANES] = {0}; /* no add waits for another's result */
    for (size_t i = begin; i < end; i += CPU_LANES) /* whole chunks */
        for (int k = 0; k < CPU_LANES; k++) sums[k] += r->words[i + (size_t)k];
    for (int k = 0; k < CPU_LANES; k++) r->sums[me->index] += sums[k];
}

/* Memory of the size that the weights have: what of them stays in a cache is read as fast there. */
static och_status cpu_read_rate(const och_model *m, int n_threads, double *out_rate, och_err *err) {
    const uint64_t chunk_bytes = CPU_CHUNK_WORDS * sizeof(uint64_t);
    uint64_t n_bytes =
        och_u64_ceil_div(OCH_MAX(OCH_MIN(m->weight_bytes, (uint64_t)CPU_READ_BYTES), 1), chunk_bytes) * chunk_bytes;
    const size_t n = n_bytes / sizeof(uint64_t);
    och_pool *pool = NULL;
    cpu_read *r = och_calloc(1, sizeof *r);
    och_status st = r ? och_pool_create(n_threads, &pool, err) : och_err_nomem(err, sizeof *r, "sums");
    if (st == OCH_OK && !(r->words = och_malloc_aligned(n_bytes, 64))) st = och_err_nomem(err, n_bytes, "words to read");
    if (st == OCH_OK) och_pool_for(pool, n, CPU_CHUNK_WORDS, write_words, r);
    for (int i = 0; st == OCH_OK && i < CPU_RUNS; i++) {
        double begin = och_now_seconds();
        och_pool_for(pool, n, CPU_CHUNK_WORDS, sum_words, r);
        double seconds = och_now_seconds() - begin;
        if (seconds > 0.0) *out_rate = OCH_MAX(*out_rate, (double)n_bytes / seconds);
    }
    uint64_t all = 0;
    for (int i = 0; st == OCH_OK && i < OCH_POOL_MAX_THREADS; i++) all += r->sums[i];
    if (st == OCH_OK && all != CPU_RUNS * ((uint64_t)n * (n - 1) / 2))
        st = och_err_set(err, OCH_INTERNAL, "rate of reading: another sum than what was written");
    och_pool_destroy(pool);
    if (r) och_free_aligned(r->words);
    och_free(r);
    return st;
}

och_status och_bench_read_rate(const och_model *m, int n_threads, double *out_rate, och_err *err) {
    och_device *d = m->device;
    *out_rate = 0.0;
    if (d->info.kind == OCH_DEV_CPU) return cpu_read_rate(m, n_threads, out_rate, err);
    if (d->info.kind != OCH_DEV_INTEGRATED && d->info.kind != OCH_DEV_DISCRETE) return OCH_OK;
    och_queue *q;
    OCH_TRY(d->vtable->queue_create(d, &q, err));
    och_status st = och_gpu_read_rate(q, GPU_READ_BYTES, out_rate, err);
    d->vtable->queue_destroy(q);
    return st;
}
