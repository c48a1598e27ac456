/* A device's handle of its library, and the products that were asked for: each has descriptors and an algorithm, made once. */
#include "op/blas/blas.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/size.h"
#include "dev/capture.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define N_PLANS 256

/* What products that share a plan have in common. */
typedef struct shape {
    int64_t n, m, k, ld_x, ld_w, ld_c, ld_y;
    uint32_t align_x, align_w, align_c, align_y; /* powers of two, at most 256 */
    bool bf16, adds;
} shape;

typedef struct plan {
    enum { FREE, READY, NONE } state; /* NONE: the library has no algorithm */
    bool ran; /* the library has made what it makes at a product's first run */
    uint64_t used;
    shape shape;
    void *desc, *layout_w, *layout_x, *layout_c, *layout_y;
    uint64_t result[OCH_BLAS_RESULT_BYTES / 8]; /* begins with the algorithm */
} plan;

struct och_blas {
    const och_blas_library *lib;
    void *handle;
    och_device *device; /* that owns this */
    char label[64];
    och_err failure; /* why there is no handle */
    pthread_mutex_t lock; /* of all that follows; held while the library works on a plan */
    uint64_t tick;
    och_blas_times times;
    bool times_read;
    plan plans[N_PLANS];
};

och_status och_blas_mode_get(och_blas_mode *out_mode, och_err *err) {
    const char *v = och_env_get(OCH_ENV_OCHRE_BLAS);
    *out_mode = OCH_BLAS_AUTO;
    if (!v || !strcasecmp(v, "auto")) return OCH_OK;
    if (strcmp(v, "0") && strcmp(v, "1"))
        return och_err_set(err, OCH_INVALID, "OCHRE_BLAS: expected auto, 0 or 1, found \"%.40s\"", v);
    *out_mode = v[0] == '1' ? OCH_BLAS_ALWAYS : OCH_BLAS_NEVER;
    return OCH_OK;
}

const char *och_blas_label(const och_blas *b) { return b->label; }
const char *och_blas_path(const och_blas *b) { return b->lib->path; }

static och_status failed(const och_blas *b, const char *call, int status, och_err *err) {
    return och_err_set_native(err, OCH_DEVICE, status, "device %s: %s: %s%s: status %d", b->device->info.label, b->lib->kind->name,
                              b->lib->kind->prefix, call, status);
}

/* ---- plans ---- */

/* Both libraries keep matrices by columns: y^T = w x^T, with w transposed. */
static void drop(const och_blas *b, plan *p) {
    const och_blas_api *a = &b->lib->api;
    if (p->layout_y) (void)a->MatrixLayoutDestroy(p->layout_y);
    if (p->layout_c) (void)a->MatrixLayoutDestroy(p->layout_c);
    if (p->layout_x) (void)a->MatrixLayoutDestroy(p->layout_x);
    if (p->layout_w) (void)a->MatrixLayoutDestroy(p->layout_w);
    if (p->desc) (void)a->MatmulDescDestroy(p->desc);
    memset(p, 0, sizeof *p);
}

static och_status describe(const och_blas *b, plan *p, och_err *err) {
    const och_blas_api *a = &b->lib->api;
    const och_blas_kind *k = b->lib->kind;
    const shape *s = &p->shape;
    int32_t transpose = k->op_transpose, none = k->op_none;
    int type = s->bf16 ? k->type_bf16 : k->type_f16, e;
    if ((e = a->MatmulDescCreate(&p->desc, k->compute_f32, k->type_f32))) return failed(b, "MatmulDescCreate", e, err);
    if ((e = a->MatmulDescSetAttribute(p->desc, k->desc_trans_a, &transpose, sizeof transpose)) ||
        (e = a->MatmulDescSetAttribute(p->desc, k->desc_trans_b, &none, sizeof none)))
        return failed(b, "MatmulDescSetAttribute", e, err);
    if ((e = a->MatrixLayoutCreate(&p->layout_w, type, (uint64_t)s->k, (uint64_t)s->m, s->ld_w)) ||
        (e = a->MatrixLayoutCreate(&p->layout_x, type, (uint64_t)s->k, (uint64_t)s->n, s->ld_x)) ||
        (e = a->MatrixLayoutCreate(&p->layout_c, k->type_f32, (uint64_t)s->m, (uint64_t)s->n, s->ld_c)) ||
        (e = a->MatrixLayoutCreate(&p->layout_y, k->type_f32, (uint64_t)s->m, (uint64_t)s->n, s->ld_y)))
        return failed(b, "MatrixLayoutCreate", e, err);
    return OCH_OK;
}

static och_status find_algorithm(const och_blas *b, plan *p, och_err *err) {
    const och_blas_api *a = &b->lib->api;
    const och_blas_kind *k = b->lib->kind;
    const shape *s = &p->shape;
    const uint32_t aligned[] = {s->align_w, s->align_x, s->align_c, s->align_y};
    uint64_t workspace = OCH_BLAS_WORKSPACE_BYTES, needed;
    void *preference = NULL;
    int n = 0, e = a->MatmulPreferenceCreate(&preference);
    if (e) return failed(b, "MatmulPreferenceCreate", e, err);
    e = a->MatmulPreferenceSetAttribute(preference, k->pref_workspace, &workspace, sizeof workspace);
    for (int i = 0; !e && k->pref_align_a >= 0 && i < 4; i++)
        e = a->MatmulPreferenceSetAttribute(preference, k->pref_align_a + i, &aligned[i], sizeof aligned[i]);
    och_status st = e ? failed(b, "MatmulPreferenceSetAttribute", e, err) : OCH_OK;
    if (st == OCH_OK) {
        /* that it knows none is a status of some releases, and no result of others */
        e = a->MatmulAlgoGetHeuristic(b->handle, p->desc, p->layout_w, p->layout_x, p->layout_c, p->layout_y, preference, 1, p->result,
                                      &n);
        int32_t state = 0;
        memcpy(&state, (const char *)p->result + k->result_state, sizeof state);
        memcpy(&needed, (const char *)p->result + k->result_workspace, sizeof needed);
        p->state = !e && n == 1 && !state && needed <= workspace ? READY : NONE;
    }
    (void)a->MatmulPreferenceDestroy(preference);
    return st;
}

typedef struct work {
    och_blas *blas;
    plan *plan;
    const och_blas_product *product;
    och_dev_addr workspace;
} work;

static och_status make_plan(void *user, void *stream, och_err *err) {
    const work *w = user;
    (void)stream;
    OCH_TRY(describe(w->blas, w->plan, err));
    return find_algorithm(w->blas, w->plan, err);
}

static uint32_t alignment(och_dev_addr a) { return a.value % 256 ? (uint32_t)(a.value & -a.value) & 255u : 256; }

static shape shape_of(const och_blas_product *p) {
    shape s;
    memset(&s, 0, sizeof s); /* shapes are compared as bytes */
    s.n = p->n, s.m = p->m, s.k = p->k;
    s.ld_x = p->ld_x, s.ld_w = p->ld_w, s.ld_y = p->ld_y;
    s.ld_c = p->adds ? p->ld_c : p->ld_y;
    s.align_x = alignment(p->x), s.align_w = alignment(p->w), s.align_y = alignment(p->y);
    s.align_c = alignment(p->adds ? p->c : p->y);
    s.bf16 = p->bf16, s.adds = p->adds;
    return s;
}

/* Called with the lock. The plan of a shape, made where the thread records nothing; the least recently used one makes room. */
static och_status plan_of(och_queue *q, och_blas *b, const och_blas_product *product, plan **out, och_err *err) {
    shape s = shape_of(product);
    plan *p = NULL, *oldest = &b->plans[0];
    *out = NULL;
    for (int i = 0; i < N_PLANS && !p; i++) {
        plan *at = &b->plans[i];
        if (at->state != FREE && !memcmp(&at->shape, &s, sizeof s)) p = at;
        if (at->state == FREE ? oldest->state != FREE : oldest->state != FREE && at->used < oldest->used) oldest = at;
    }
    if (!p && och_capture_here())
        return och_err_set(err, OCH_UNSUPPORTED, "%s: a graph holds no product's first run", b->lib->kind->name);
    if (!p) {
        p = oldest;
        drop(b, p);
        p->shape = s;
        work w = {.blas = b, .plan = p};
        och_status st = q->device->vtable->lend(q, b->lib->kind->name, make_plan, &w, err);
        if (st != OCH_OK) {
            drop(b, p);
            return st;
        }
    }
    p->used = ++b->tick;
    if (p->state == NONE)
        return och_err_set(err, OCH_UNSUPPORTED, "%s has no algorithm for %lld x %lld x %lld", b->lib->kind->name, (long long)s.n,
                           (long long)s.m, (long long)s.k);
    if (!p->ran && och_capture_here())
        return och_err_set(err, OCH_UNSUPPORTED, "%s: a graph holds no product's first run", b->lib->kind->name);
    *out = p;
    return OCH_OK;
}

och_status och_blas_ready(och_queue *q, och_blas *b, const och_blas_product *product, och_err *err) {
    plan *p;
    pthread_mutex_lock(&b->lock);
    och_status st = plan_of(q, b, product, &p, err);
    pthread_mutex_unlock(&b->lock);
    return st;
}

static och_status multiply(void *user, void *stream, och_err *err) {
    const work *w = user;
    const plan *p = w->plan;
    const och_blas_product *x = w->product;
    const float one = 1.0f, beta = x->adds ? 1.0f : 0.0f;
    och_dev_addr c = x->adds ? x->c : x->y;
#define AT(a) ((void *)(uintptr_t)(a).value)
    int e = w->blas->lib->api.Matmul(w->blas->handle, p->desc, &one, AT(x->w), p->layout_w, AT(x->x), p->layout_x, &beta, AT(c),
                                     p->layout_c, AT(x->y), p->layout_y, p->result, AT(w->workspace),
                                     (size_t)OCH_BLAS_WORKSPACE_BYTES, stream);
#undef AT
    return e ? failed(w->blas, "Matmul", e, err) : OCH_OK;
}

och_status och_blas_multiply(och_queue *q, och_blas *b, const och_blas_product *product, och_dev_addr workspace, och_err *err) {
    work w = {.blas = b, .product = product, .workspace = workspace};
    pthread_mutex_lock(&b->lock);
    och_status st = plan_of(q, b, product, &w.plan, err);
    if (st == OCH_OK) st = q->device->vtable->lend(q, b->lib->kind->name, multiply, &w, err);
    if (st == OCH_OK) w.plan->ran = true;
    pthread_mutex_unlock(&b->lock);
    return st;
}

/* ---- times ---- */

void och_blas_key_of(const och_device *d, const och_blas *b, och_blas_key *out) {
    memset(out, 0, sizeof *out);
    snprintf(out->device, sizeof out->device, "%s", d->info.name);
    snprintf(out->arch, sizeof out->arch, "%s", d->info.arch);
    snprintf(out->driver, sizeof out->driver, "%s", d->info.runtime);
    snprintf(out->library, sizeof out->library, "%s", b->label);
    snprintf(out->ochre, sizeof out->ochre, "%s", OCHRE_VERSION);
}

const och_blas_times *och_blas_times_of(const och_device *d, och_blas *b) {
    och_blas_key key;
    och_err why = {0};
    size_t stale = 0;
    pthread_mutex_lock(&b->lock);
    if (!b->times_read) {
        b->times_read = true;
        och_blas_key_of(d, b, &key);
        och_status st = och_blas_store_find(&key, &b->times, &stale, &why);
        if (st == OCH_NOTFOUND) och_log(OCH_LOG_DEBUG, "%s", why.message);
        else if (st != OCH_OK)
            och_log(OCH_LOG_WARN, "measured times of products are not used: %s (ochre tune --clear removes them)", why.message);
        if (stale && !b->times.n)
            och_log(OCH_LOG_INFO, "%zu measured times of products on %s are of another driver, library or version, and are not used: run "
                    "ochre tune again", stale, d->info.label);
    }
    pthread_mutex_unlock(&b->lock);
    return &b->times;
}

void och_blas_forget_times(och_blas *b) {
    pthread_mutex_lock(&b->lock);
    och_blas_times_deinit(&b->times);
    b->times_read = false;
    pthread_mutex_unlock(&b->lock);
}

/* ---- handles ---- */

static och_status make_handle(void *user, void *stream, och_err *err) {
    och_blas *b = user;
    const och_blas_kind *k = b->lib->kind;
    char version[32], oldest[32];
    (void)stream;
    int e = b->lib->api.Create(&b->handle);
    if (e || !b->handle) return failed(b, "Create", e, err);
    int v = och_blas_version(b->lib, b->handle);
    och_blas_version_text(k, v, version, sizeof version);
    och_blas_version_text(k, k->oldest, oldest, sizeof oldest);
    snprintf(b->label, sizeof b->label, "%s %s", k->name, version);
    if (v >= k->oldest) return OCH_OK;
    return och_err_set(err, OCH_UNSUPPORTED, "%s %s (%.200s) is older than %s", k->name, version, b->lib->path, oldest);
}

static och_status drop_handle(void *user, void *stream, och_err *err) {
    och_blas *b = user;
    (void)stream, (void)err;
    for (int i = 0; i < N_PLANS; i++) drop(b, &b->plans[i]);
    if (b->handle) (void)b->lib->api.Destroy(b->handle);
    b->handle = NULL;
    return OCH_OK;
}

/* On a queue of its own, so that the device is the calling thread's. */
static och_status on_a_queue(och_blas *b, och_status (*give)(void *user, void *stream, och_err *err), och_err *err) {
    och_queue *q;
    const och_device_vtable *v = b->device->vtable;
    OCH_TRY(v->queue_create(b->device, &q, err));
    och_status st = v->lend(q, b->lib->kind->name, give, b, err);
    v->queue_destroy(q);
    return st;
}

static void destroy(void *companion) {
    och_blas *b = companion;
    och_err ignored = {0};
    if (b->handle) (void)!on_a_queue(b, drop_handle, &ignored); /* of a device that is lost nothing is left to give back */
    och_blas_times_deinit(&b->times);
    pthread_mutex_destroy(&b->lock);
    och_free(b);
}

static och_status create(och_device *d, och_blas **out, och_err *err) {
    och_blas *b = och_calloc(1, sizeof *b);
    *out = b;
    if (!b) return och_err_nomem(err, sizeof *b, "a device's library of products");
    b->device = d;
    pthread_mutex_init(&b->lock, NULL);
    och_status st = och_blas_library_for(&d->info, &b->lib, &b->failure);
    if (st == OCH_OK) st = on_a_queue(b, make_handle, &b->failure);
    if (st != OCH_OK && b->handle) {
        och_err ignored = {0};
        (void)!on_a_queue(b, drop_handle, &ignored);
    }
    if (st != OCH_OK) b->failure.status = OCH_UNSUPPORTED; /* a library that does not work is one that is not there */
    return OCH_OK;
}

och_status och_blas_of(const och_device *device, och_blas **out_blas, och_err *err) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    /* Providers are asked with a device that they may not change; what they keep with it is not part of what it is. */
    och_device *d = (och_device *)(uintptr_t)device;
    och_status st = OCH_OK;
    *out_blas = NULL;
    pthread_mutex_lock(&lock);
    och_blas *b = d->companion;
    if (!b && och_capture_here())
        st = och_err_set(err, OCH_UNSUPPORTED, "a graph holds no library's start");
    else if (!b) {
        st = create(d, &b, err);
        if (st == OCH_OK) {
            d->companion_destroy = destroy;
            d->companion = b;
        }
    }
    if (st == OCH_OK && b->failure.status != OCH_OK)
        st = och_err_set_native(err, b->failure.status, b->failure.native_code, "%s", b->failure.message);
    if (st == OCH_OK) *out_blas = b;
    pthread_mutex_unlock(&lock);
    return st;
}
