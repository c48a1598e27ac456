#include "op/gpu/tune.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/size.h"

#include <pthread.h>
#include <string.h>

const char *och_gpu_cut_kernel(och_gpu_cut_kind kind) {
    static const char *const names[OCH_GPU_CUT_KINDS] = {"matvec", "matvec_qkv", "matvec_glu", "matvec_glu_codes", "matvec_codes"};
    return names[kind];
}

const char *och_gpu_cut_at(och_gpu_cut_kind kind, size_t n) {
#define OCH_CUT(kind, cut) {OCH_GPU_CUT_##kind, cut},
    static const struct {
        och_gpu_cut_kind kind;
        const char *cut;
    } rows[] = {
#include "op/gpu/tune.def"
    };
#undef OCH_CUT
    for (size_t i = 0; i < OCH_COUNT(rows); i++)
        if (rows[i].kind == kind && !n--) return rows[i].cut;
    return NULL;
}

static bool same_shape(const och_gpu_cut_shape *a, const och_gpu_cut_shape *b) {
    return a->kind == b->kind && a->f == b->f && a->g == b->g && a->m == b->m && a->k == b->k;
}

const och_gpu_cut_time *och_gpu_cut_times_find(const och_gpu_cut_times *t, const och_gpu_cut_shape *shape) {
    for (size_t i = 0; i < t->n; i++)
        if (same_shape(&t->at[i].shape, shape)) return &t->at[i];
    return NULL;
}

void och_gpu_tune_deinit(och_gpu_tune_state *c) { och_gpu_cut_times_deinit(&c->list); }

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of reading */

/* Once, whatever comes of it: what a plan has asked for and what a step asks for must be the same. */
static void read_once(const och_device *d, och_gpu_tune_state *c) {
    och_err why = {0};
    size_t stale = 0;
    pthread_mutex_lock(&lock);
    if (!atomic_load(&c->read)) {
        och_status st = och_gpu_tune_find(&d->info, &c->list, &stale, &why);
        if (st == OCH_NOTFOUND) och_log(OCH_LOG_DEBUG, "%s", why.message);
        else if (st != OCH_OK)
            och_log(OCH_LOG_WARN, "measured cuts of products are not used: %s (ochre tune --clear removes them)", why.message);
        if (stale && !c->list.n)
            och_log(OCH_LOG_INFO, "%zu measured cuts of products on %s are of another driver or other kernels, and are not used: run ochre "
                    "tune again", stale, d->info.label);
        atomic_store(&c->read, true);
    }
    pthread_mutex_unlock(&lock);
}

static och_gpu_cut_shape shape_of(och_gpu_cut_kind kind, const och_tensor *w) {
    bool three = kind == OCH_GPU_CUT_QKV;
    return (och_gpu_cut_shape){.kind = kind, .f = w[0].dtype, .g = w[three ? 2 : 0].dtype, .k = w[0].cols,
                               .m = three ? w[0].rows + w[1].rows + w[2].rows : w[0].rows};
}

static const char *tried(och_gpu_cut_trial *t, const och_gpu_cut_shape *s, const char *otherwise) {
    bool known = false;
    for (int i = 0; i < t->n_asked; i++) known = known || same_shape(&t->asked[i], s);
    if (!known && t->n_asked < OCH_GPU_TRIAL_SHAPES) t->asked[t->n_asked++] = *s;
    return t->cut && t->of && same_shape(t->of, s) ? t->cut : otherwise;
}

const char *och_gpu_tune_cut(const och_device *d, och_gpu_cut_kind kind, const och_tensor *w, const char *otherwise) {
    och_gpu_tune_state *c = och_gpu_tune_of(d);
    if (!c) return otherwise;
    if (!atomic_load(&c->read)) read_once(d, c);
    if (!c->list.n && !c->trial) return otherwise;
    const och_gpu_cut_shape shape = shape_of(kind, w);
    if (c->trial) return tried(c->trial, &shape, otherwise);
    const och_gpu_cut_time *t = och_gpu_cut_times_find(&c->list, &shape);
    return t && *t->cut ? t->cut : otherwise;
}

void och_gpu_tune_forget(const och_device *d) {
    och_gpu_tune_state *c = och_gpu_tune_of(d);
    if (!c) return;
    pthread_mutex_lock(&lock);
    och_gpu_cut_times_deinit(&c->list);
    atomic_store(&c->read, false);
    pthread_mutex_unlock(&lock);
}

void och_gpu_tune_try(const och_device *d, och_gpu_cut_trial *trial) {
    och_gpu_tune_state *c = och_gpu_tune_of(d);
    if (c) c->trial = trial;
}
