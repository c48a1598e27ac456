/* A hipBLASLt for simulated boards: every call that Ochre makes, checked as hipblaslt.h documents it, and products computed on the
 * host when the stream comes to them. Device memory is reached by copies on the same stream, so that discrete boards are served
 * too and a recorded product is one when it is replayed.
 *
 * As the real one it makes things late: its first product allocates pinned memory, which a thread that records may not.
 * Macros choose what it is: VERSION (100000)   NO_MATMUL: without that call   REFUSES: it has an algorithm for nothing */
#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* nobody includes them */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef VERSION
#define VERSION 100000
#endif
#define EXPORT __attribute__((visibility("default")))

/* hipblaslt.h, hipblas-common.h, library_types.h */
enum { SUCCESS = 0, ALLOC_FAILED = 2, INVALID_VALUE = 3, EXECUTION_FAILED = 5, NOT_SUPPORTED = 7 };
enum { R_32F = 0, R_16F = 2, R_16BF = 14, COMPUTE_32F = 2, OP_N = 111, OP_T = 112 };

/* Of the runtime that owns a pointer. */
typedef struct runtime {
    int (*attributes)(void *out, const void *p);
    int (*host_malloc)(void **p, size_t n, unsigned flags);
    int (*copy)(void *dst, const void *src, size_t n, int kind, void *stream);
    int (*host_function)(void *stream, void (*fn)(void *), void *user);
    int (*synchronise)(void);
    int (*is_capturing)(void *stream, int *out_status);
} runtime;

typedef struct desc {
    int compute, scale, op_a, op_b;
} desc;
typedef struct layout {
    int type;
    uint64_t rows, cols;
    int64_t ld;
} layout;
typedef struct preference {
    uint64_t workspace;
} preference;
typedef struct result { /* hipblasLtMatmulHeuristicResult_t */
    uint8_t algorithm[16];
    size_t max_workspace, workspace;
    int state;
    float waves;
    int reserved[4];
} result;

enum { POOL_BYTES = 384 << 20, HANDLE = 0x600d };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *pool;
static size_t pool_used;
/* For tests: handles that are open, descriptors that are alive, products, heuristics asked, products refused while recording. */
EXPORT int fake_blas_handles, fake_blas_objects, fake_blas_products, fake_blas_asked, fake_blas_refused;

/* ---- the runtime ---- */

static void *name_at(void *library, const char *name) { return dlsym(library, name); }

static int try_library(struct dl_phdr_info *info, size_t size, void *user) {
    void **wanted = user; /* pointer, out runtime */
    runtime *r = wanted[1];
    char attributes[256];
    (void)size;
    void *library = info->dlpi_name[0] ? dlopen(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD) : NULL;
    if (!library) return 0;
    void *found[] = {name_at(library, "hipPointerGetAttributes"), name_at(library, "hipHostMalloc"), name_at(library, "hipMemcpyAsync"),
                     name_at(library, "hipLaunchHostFunc"), name_at(library, "hipDeviceSynchronize"),
                     name_at(library, "hipStreamIsCapturing")};
    int all = 1;
    for (int i = 0; i < 6; i++) all = all && found[i];
    if (all) memcpy(r, found, sizeof *r);
    int owns = all && r->attributes(attributes, wanted[0]) == 0;
    dlclose(library);
    return owns;
}

static int runtime_of(const void *p, runtime *out) {
    void *user[] = {(void *)(uintptr_t)p, out};
    return dl_iterate_phdr(try_library, user);
}

/* ---- numbers ---- */

static float from_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h >> 15) << 31, e = h >> 10 & 31, m = h & 1023, u;
    float f;
    if (e == 31) u = sign | 0x7f800000u | m << 13;
    else if (e) u = sign | (e + 112) << 23 | m << 13;
    else {
        f = (float)m * 0x1p-24f;
        return sign ? -f : f;
    }
    memcpy(&f, &u, 4);
    return f;
}
static float number(const void *p, uint64_t i, int type) {
    uint16_t h;
    memcpy(&h, (const char *)p + 2 * i, 2);
    if (type == R_16F) return from_f16(h);
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

typedef struct job {
    char *a, *b, *c, *d; /* staged */
    layout la, lb, lc, ld;
    float alpha, beta;
} job;

static void compute(void *user) {
    const job *j = user;
    uint64_t k = j->la.rows;
    for (uint64_t n = 0; n < j->ld.cols; n++)
        for (uint64_t m = 0; m < j->ld.rows; m++) {
            float sum = 0.0f;
            for (uint64_t i = 0; i < k; i++)
                sum += number(j->a, m * (uint64_t)j->la.ld + i, j->la.type) * number(j->b, n * (uint64_t)j->lb.ld + i, j->lb.type);
            float *d = (float *)(void *)j->d + n * (uint64_t)j->ld.ld + m;
            sum *= j->alpha;
            if (j->beta != 0.0f) sum += j->beta * ((const float *)(const void *)j->c)[n * (uint64_t)j->lc.ld + m];
            *d = sum;
        }
}

/* ---- the library ---- */

EXPORT int hipblasLtCreate(void **out) {
    if (!out) return INVALID_VALUE;
    *out = (void *)(uintptr_t)HANDLE;
    __atomic_fetch_add(&fake_blas_handles, 1, __ATOMIC_RELAXED);
    return SUCCESS;
}
EXPORT int hipblasLtDestroy(void *handle) {
    if (handle != (void *)(uintptr_t)HANDLE) return INVALID_VALUE;
    __atomic_fetch_sub(&fake_blas_handles, 1, __ATOMIC_RELAXED);
    return SUCCESS;
}
EXPORT int hipblasLtGetVersion(void *handle, int *out) {
    if (handle != (void *)(uintptr_t)HANDLE || !out) return INVALID_VALUE;
    *out = VERSION;
    return SUCCESS;
}

static void *object(const void *bytes, size_t n) {
    void *p = malloc(n);
    if (p) memcpy(p, bytes, n), __atomic_fetch_add(&fake_blas_objects, 1, __ATOMIC_RELAXED);
    return p;
}
static int gone(void *p) {
    if (!p) return INVALID_VALUE;
    free(p);
    __atomic_fetch_sub(&fake_blas_objects, 1, __ATOMIC_RELAXED);
    return SUCCESS;
}

EXPORT int hipblasLtMatmulDescCreate(void **out, int compute_type, int scale_type) {
    desc d = {compute_type, scale_type, OP_N, OP_N};
    return out && (*out = object(&d, sizeof d)) ? SUCCESS : ALLOC_FAILED;
}
EXPORT int hipblasLtMatmulDescDestroy(void *d) { return gone(d); }
EXPORT int hipblasLtMatmulDescSetAttribute(void *p, int attribute, const void *value, size_t n) {
    desc *d = p;
    int32_t v;
    if (!d || !value || n != sizeof v || attribute < 0 || attribute > 1) return INVALID_VALUE;
    memcpy(&v, value, n);
    if (v != OP_N && v != OP_T) return INVALID_VALUE;
    *(attribute ? &d->op_b : &d->op_a) = v;
    return SUCCESS;
}
EXPORT int hipblasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t cols, int64_t ld) {
    layout l = {type, rows, cols, ld};
    if (!out || ld < (int64_t)rows || !rows || !cols) return INVALID_VALUE;
    return (*out = object(&l, sizeof l)) ? SUCCESS : ALLOC_FAILED;
}
EXPORT int hipblasLtMatrixLayoutDestroy(void *l) { return gone(l); }
EXPORT int hipblasLtMatmulPreferenceCreate(void **out) {
    preference p = {0};
    return out && (*out = object(&p, sizeof p)) ? SUCCESS : ALLOC_FAILED;
}
EXPORT int hipblasLtMatmulPreferenceDestroy(void *p) { return gone(p); }
EXPORT int hipblasLtMatmulPreferenceSetAttribute(void *p, int attribute, const void *value, size_t n) {
    if (!p || !value || attribute != 1 || n != 8) return INVALID_VALUE;
    memcpy(&((preference *)p)->workspace, value, n);
    return SUCCESS;
}

/* y^T = w x^T by columns: A is transposed [k x m], B [k x n], C and D [m x n]. */
static int fits(const desc *d, const layout *a, const layout *b, const layout *c, const layout *y) {
    return d && a && b && c && y && d->compute == COMPUTE_32F && d->scale == R_32F && d->op_a == OP_T && d->op_b == OP_N &&
           (a->type == R_16F || a->type == R_16BF) && b->type == a->type && c->type == R_32F && y->type == R_32F &&
           a->rows == b->rows && a->cols == y->rows && b->cols == y->cols && c->rows == y->rows && c->cols == y->cols;
}
static uint8_t mark(const layout *a, const layout *b, int i) { return (uint8_t)(a->cols * 7 + b->cols * 3 + a->rows + (uint64_t)i); }

EXPORT int hipblasLtMatmulAlgoGetHeuristic(void *handle, void *d, void *a, void *b, void *c, void *y, void *p, int wanted,
                                           void *results, int *out_n) {
    __atomic_fetch_add(&fake_blas_asked, 1, __ATOMIC_RELAXED);
    if (handle != (void *)(uintptr_t)HANDLE || !p || wanted < 1 || !results || !out_n || !fits(d, a, b, c, y)) return INVALID_VALUE;
    *out_n = 0;
#ifdef REFUSES
    return NOT_SUPPORTED;
#endif
    result r = {.max_workspace = ((preference *)p)->workspace, .workspace = 4096, .state = SUCCESS, .waves = 1.0f};
    if (r.max_workspace < r.workspace) return SUCCESS; /* no algorithm */
    for (int i = 0; i < 16; i++) r.algorithm[i] = mark(a, b, i);
    memcpy(results, &r, sizeof r);
    *out_n = 1;
    return SUCCESS;
}

/* Pinned memory; NULL: there is no more. Under the lock. */
static char *room(size_t n) {
    char *p = pool + pool_used;
    n = (n + 255) & ~(size_t)255;
    if (n > POOL_BYTES - pool_used) return NULL;
    pool_used += n;
    return p;
}

/* Bytes from the first element of a matrix to its last. */
static size_t span(const layout *l, size_t element) { return ((l->cols - 1) * (uint64_t)l->ld + l->rows) * element; }

static char *staged(const runtime *r, const void *at, size_t n, void *stream) {
    char *to = room(n);
    return to && r->copy(to, at, n, 2, stream) == 0 ? to : NULL;
}

#ifdef NO_MATMUL
#define hipblasLtMatmul some_other_name
#endif
EXPORT int hipblasLtMatmul(void *handle, void *d, const void *alpha, const void *a, void *la, const void *b, void *lb, const void *beta,
                           const void *c, void *lc, void *y, void *ly, const void *algorithm, void *workspace, size_t workspace_bytes,
                           void *stream) {
    runtime r;
    int capturing = 0, status = EXECUTION_FAILED;
    if (handle != (void *)(uintptr_t)HANDLE || !alpha || !beta || !a || !b || !c || !y || !fits(d, la, lb, lc, ly)) return INVALID_VALUE;
    for (int i = 0; i < 16; i++)
        if (!algorithm || ((const uint8_t *)algorithm)[i] != mark(la, lb, i)) return INVALID_VALUE;
    if (!workspace || workspace_bytes < 4096 || !runtime_of(y, &r)) return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    if (!pool) { /* the first product: memory of the runtime's, which it refuses to a thread that records */
        void *p = NULL;
        if (r.host_malloc(&p, POOL_BYTES, 0) != 0) {
            fake_blas_refused++;
            pthread_mutex_unlock(&lock);
            return ALLOC_FAILED;
        }
        pool = p;
    }
    (void)r.is_capturing(stream, &capturing);
    size_t n_a = span(la, 2), n_b = span(lb, 2), n_c = span(lc, 4), n_y = span(ly, 4);
    if (!capturing && n_a + n_b + n_c + n_y + 4096 > POOL_BYTES - pool_used && r.synchronise() == 0) pool_used = 0;
    job *j = (job *)(void *)room(sizeof *j);
    if (j) {
        memset(j, 0, sizeof *j);
        j->la = *(layout *)la, j->lb = *(layout *)lb, j->lc = *(layout *)lc, j->ld = *(layout *)ly;
        memcpy(&j->alpha, alpha, 4);
        memcpy(&j->beta, beta, 4);
        j->a = staged(&r, a, n_a, stream);
        j->b = staged(&r, b, n_b, stream);
        j->c = j->beta != 0.0f ? staged(&r, c, n_c, stream) : NULL;
        j->d = staged(&r, y, n_y, stream); /* what lies between rows stays */
        if (j->a && j->b && j->d && (j->c || j->beta == 0.0f) && r.host_function(stream, compute, j) == 0 &&
            r.copy(y, j->d, n_y, 1, stream) == 0)
            status = SUCCESS;
    }
    fake_blas_products += status == SUCCESS;
    pthread_mutex_unlock(&lock);
    return status;
}
