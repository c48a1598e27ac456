/* What the op conformance cases share: who is tested, a device with its memory, fixed-seed numbers.
 *
 * Cases fill and read tensors on the host. Where the host may dereference the device's memory, that is the memory; where it
 * may not, each buffer has a mirror, and running a call (op_run.h) copies there and back. Included by one test executable. */
#ifndef OCH_TESTS_OP_RIG_H
#define OCH_TESTS_OP_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/half.h"
#include "dev/cpu/cpu.h"
#include "op/op.h"
#include "quant/format.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The sanitizer builds leave the largest products to the release build: they are after addresses, not values. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RIG_MAX_PRODUCT 300000
#else
#define RIG_MAX_PRODUCT INT64_MAX
#endif

/* ---- numbers ---- */

typedef struct rng {
    uint64_t state;
} rng;

static inline uint64_t rng_u64(rng *r) { /* splitmix64: Steele, Lea, Flood 2014 */
    uint64_t z = (r->state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}
static inline double rng_unit(rng *r) { return ((double)(rng_u64(r) >> 11) + 0.5) * 0x1p-53; }
static inline int rng_below(rng *r, int n) { return (int)(rng_u64(r) % (uint64_t)n); }
static inline float rng_gauss(rng *r) {
    double u = rng_unit(r), v = rng_unit(r);
    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
}
static inline void rng_fill(rng *r, float *x, int64_t n, double scale) {
    for (int64_t i = 0; i < n; i++) x[i] = (float)(scale * rng_gauss(r));
}

/* E4M3 by its definition (OFP8 1.0, table 1): sign, e of 4 bits, m of 3: (8 + m) 2^(e - 10), or m 2^-9 where e is 0; all ones
 * is NaN. And the code of a number by looking for the two numbers beside it: the nearer, or the even one. */
static inline float rig_e4m3_number(uint8_t code) {
    int e = code >> 3 & 15, m = code & 7;
    double v = e ? ldexp(8 + m, e - 10) : ldexp(m, -9);
    if (e == 15 && m == 7) v = NAN;
    return (float)(code & 0x80 ? -v : v);
}
static inline float rig_e4m3_value(uint8_t code) {
    static float numbers[256];
    if (numbers[1] == 0.0f)
        for (int c = 0; c < 256; c++) numbers[c] = rig_e4m3_number((uint8_t)c);
    return numbers[code];
}
static inline uint8_t rig_e4m3_code(float x) {
    if (!isfinite(x)) return 0x7F;
    int lo = 0, hi = 0x7E; /* numbers[lo] <= |x|, but for |x| beyond the last */
    while (hi - lo > 1) {
        int mid = (lo + hi) / 2;
        if (rig_e4m3_value((uint8_t)mid) <= fabsf(x)) lo = mid;
        else hi = mid;
    }
    double below = fabs((double)x) - (double)rig_e4m3_value((uint8_t)lo), above = (double)rig_e4m3_value((uint8_t)hi) - fabs((double)x);
    int best = below < above || (below == above && lo % 2 == 0) ? lo : hi;
    return (uint8_t)(best && x < 0.0f ? best | 0x80 : best);
}

/* ---- who is tested ---- */

typedef struct subject {
    const char *device;   /* as och_device_open takes it */
    const char *provider; /* its name */
    const char *isa;      /* OCHRE_CPU_ISA while the device is opened; NULL: as it is */
    char label[64];
} subject;

static inline bool is_reference(const subject *s) { return strcmp(s->provider, "reference") == 0; }
static inline bool is_cpu(const subject *s) { return strcmp(s->device, "cpu") == 0; }

/* What arithmetic a provider may use, from which a case derives its tolerance: the reference's float32; the CPU's, with
 * activations rounded to 8 bits or to bfloat16; a board's, with both factors of a product rounded to half precision too. */
typedef enum tier { TIER_REFERENCE, TIER_CPU, TIER_BOARD } tier;

static inline tier tier_of(const subject *s) { return is_reference(s) ? TIER_REFERENCE : is_cpu(s) ? TIER_CPU : TIER_BOARD; }

/* ---- a device and its memory ---- */

#define RIG_MAX_BUFS 128
#define RIG_FILL 0xA5

typedef struct rig_mem {
    och_buf buf;
    uint8_t *mirror;   /* what the host sees of memory that it may not dereference; NULL where it may */
    och_tensor native; /* of a packed weight: the same in the file's layout; dtype NONE for other memory */
} rig_mem;

typedef struct rig {
    const subject *who;
    och_device *dev;
    och_queue *queue;
    och_device *cpu; /* where the reference runs beside a device that is not the CPU; NULL there */
    och_queue *cpu_queue;
    rig_mem mem[RIG_MAX_BUFS];
    int n_mem;
    och_buf counters; /* of och_op_ctx */
    int64_t n_runs;    /* of och_op_ctx */
    bool no_twin;      /* the case that runs is one that the reference refuses */
    const char *what;  /* the case that runs */
    bool unasked;      /* the provider is not asked whether it supports the call */
    bool odd_alike;    /* the case compares numbers that are not finite as one number */
    double nmse;       /* its bound against the reference, set by the case; 0: equal */
    double worst_nmse; /* over the cases that had one, and the bound it had */
    double worst_bound;
    int n_run, n_unsupported;
    char reason[OCH_ERR_MESSAGE_BYTES]; /* of the last UNSUPPORTED */
} rig;

static inline void rig_ok(och_status st, const och_err *err, const char *what) {
    if (st != OCH_OK) fail_msg("%s: %s: %s", what, och_status_name(st), err->message);
}

/* Where notes are written (a test's own output is silenced). */
static FILE *rig_notes;

static inline void rig_vnote(const char *kind, const char *fmt, va_list args) {
    fprintf(rig_notes, "             %s", kind);
    vfprintf(rig_notes, fmt, args);
    fprintf(rig_notes, "\n");
    fflush(rig_notes);
}
static inline void rig_note(const char *fmt, ...) OCH_PRINTF(1, 2);
static inline void rig_note(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    rig_vnote("", fmt, args);
    va_end(args);
}
static inline void rig_skips(const char *fmt, ...) OCH_PRINTF(1, 2);
static inline void rig_skips(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    rig_vnote("skip, unsupported: ", fmt, args);
    va_end(args);
}

/* The registered providers, then those of the tests alone (op_emulated.h). */
static const och_op_provider emulated_providers[OCH_OP_COUNT_];
static inline int rig_provider_count(void) { return och_op_provider_count() + OCH_OP_COUNT_; }
static inline const och_op_provider *rig_provider_at(int i) {
    int n = och_op_provider_count();
    return i < n ? och_op_provider_at(i) : &emulated_providers[i - n];
}

static inline bool rig_serves(const och_op_provider *p, const subject *who, const char *backend) {
    return strcmp(p->name, who->provider) == 0 && (strcmp(p->backend, "*") == 0 || strcmp(p->backend, backend) == 0);
}

static inline bool rig_provider_exists(const subject *who) {
    for (int i = 0; i < rig_provider_count(); i++)
        if (strcmp(rig_provider_at(i)->name, who->provider) == 0) return true;
    return false;
}

/* Opens the device; false when its kind of device is not built. */
static inline bool rig_open_device(const char *name, int n_threads, och_device **out_device) {
    och_err err;
    och_err_clear(&err);
    och_dev_options options = {.n_threads = n_threads};
    och_status st = och_device_open(name, &options, out_device, &err);
    if (st == OCH_NOTFOUND) {
        rig_skips("%s", err.message);
        return false;
    }
    rig_ok(st, &err, "open the device");
    return true;
}

/* Skips the test (with the reason) where this machine does not reach the instruction set asked for, and where devices of
 * that kind are not built. */
static inline void rig_open(rig *r, const subject *who, int n_threads) {
    memset(r, 0, sizeof *r);
    r->who = who;
    och_err err;
    och_err_clear(&err);
    if (who->isa) setenv("OCHRE_CPU_ISA", who->isa, 1);
    else unsetenv("OCHRE_CPU_ISA");
    if (!rig_open_device(who->device, n_threads, &r->dev)) skip();
    if (who->isa && strcmp(och_cpu_isa_name(och_cpu_device_isa(r->dev)), who->isa) != 0) {
        rig_skips("this machine reaches %s, not %s", och_cpu_isa_name(och_cpu_device_isa(r->dev)), who->isa);
        och_device_release(r->dev);
        skip();
    }
    rig_ok(r->dev->vtable->queue_create(r->dev, &r->queue, &err), &err, "create a queue");
    rig_ok(och_buf_alloc(r->dev, OCH_OP_COUNTERS * 4, OCH_MEM_DEVICE, &r->counters, &err), &err, "allocate counters");
    rig_ok(r->dev->vtable->fill(r->queue, r->counters.addr, 0, OCH_OP_COUNTERS * 4, &err), &err, "clear counters");
    if (is_cpu(who)) return;
    assert_true(rig_open_device("cpu", 1, &r->cpu));
    rig_ok(r->cpu->vtable->queue_create(r->cpu, &r->cpu_queue, &err), &err, "create a queue");
}

static inline void rig_reset(rig *r) {
    for (int i = 0; i < r->n_mem; i++) {
        och_buf_free(&r->mem[i].buf);
        och_free(r->mem[i].mirror);
    }
    r->n_mem = 0;
}

/* Says what was not run and why; a test that could run nothing is a skip. */
static inline void rig_close(rig *r) {
    rig_reset(r);
    och_buf_free(&r->counters);
    r->dev->vtable->queue_destroy(r->queue);
    och_device_release(r->dev);
    if (r->cpu) {
        r->cpu->vtable->queue_destroy(r->cpu_queue);
        och_device_release(r->cpu);
        if (r->worst_nmse > 0.0)
            rig_note("worst normalised mean square error against the reference: %.2e, bound %.0e", r->worst_nmse,
                     r->worst_bound);
    }
    if (r->n_unsupported)
        rig_skips("%d of %d calls, the last: %s", r->n_unsupported, r->n_unsupported + r->n_run, r->reason);
    if (r->n_unsupported && !r->n_run) skip();
}

static inline void *rig_host(const rig_mem *m) { return m->mirror ? m->mirror : m->buf.host; }

/* The memory that a host pointer of a tensor lies in. */
static inline rig_mem *rig_find(rig *r, const void *host) {
    for (int i = 0; i < r->n_mem; i++) {
        uintptr_t first = (uintptr_t)rig_host(&r->mem[i]), at = (uintptr_t)host;
        if (at >= first && at - first < r->mem[i].buf.size_bytes) return &r->mem[i];
    }
    return NULL;
}

static inline rig_mem *rig_buf(rig *r, uint64_t size_bytes) {
    assert_true(r->n_mem < RIG_MAX_BUFS);
    och_err err;
    och_err_clear(&err);
    rig_mem *m = &r->mem[r->n_mem];
    memset(m, 0, sizeof *m);
    m->native.dtype = OCH_DTYPE_NONE;
    size_t size = size_bytes ? (size_t)size_bytes : 1;
    rig_ok(och_buf_alloc(r->dev, size, OCH_MEM_DEVICE, &m->buf, &err), &err, "allocate");
    r->n_mem++;
    assert_int_equal(m->buf.host != NULL, r->dev->vtable->unified_memory(r->dev));
    if (!m->buf.host) {
        m->mirror = och_malloc_array(size, 1);
        assert_non_null(m->mirror);
    }
    memset(rig_host(m), RIG_FILL, size);
    return m;
}

/* pad_bytes lie between rows and must survive every op. */
static inline och_tensor rig_tensor(rig *r, och_dtype dtype, int64_t rows, int64_t cols, uint64_t pad_bytes) {
    uint64_t row;
    assert_true(och_dtype_row_bytes(dtype, (uint64_t)cols, &row));
    rig_mem *m = rig_buf(r, (row + pad_bytes) * (uint64_t)rows);
    return (och_tensor){.dtype = dtype, .rows = rows, .cols = cols, .row_bytes = row + pad_bytes, .addr = m->buf.addr,
                        .host = rig_host(m)};
}

static inline float *rig_row(const och_tensor *t, int64_t row) {
    return (float *)((char *)t->host + (uint64_t)row * t->row_bytes);
}
static inline int32_t *rig_int(const och_tensor *t, int64_t row) {
    return (int32_t *)((char *)t->host + (uint64_t)row * t->row_bytes);
}
static inline const void *rig_bytes(const och_tensor *t, int64_t row) {
    return (const char *)t->host + (uint64_t)row * t->row_bytes;
}

static inline och_tensor rig_f32(rig *r, int64_t rows, int64_t cols, const float *values) {
    och_tensor t = rig_tensor(r, OCH_DTYPE_F32, rows, cols, 0);
    if (values && rows > 0 && cols > 0) memcpy(t.host, values, (size_t)(rows * cols) * sizeof *values);
    return t;
}
static inline och_tensor rig_i32(rig *r, int64_t rows, int64_t cols, const int32_t *values) {
    och_tensor t = rig_tensor(r, OCH_DTYPE_I32, rows, cols, 0);
    if (values && rows > 0 && cols > 0) memcpy(t.host, values, (size_t)(rows * cols) * sizeof *values);
    return t;
}
static inline och_tensor rig_random(rig *r, rng *g, int64_t rows, int64_t cols, double scale, uint64_t pad_bytes) {
    och_tensor t = rig_tensor(r, OCH_DTYPE_F32, rows, cols, pad_bytes);
    for (int64_t i = 0; i < rows; i++) rng_fill(g, rig_row(&t, i), cols, scale);
    return t;
}
/* A weight of any format, encoded from random values. */
static inline och_tensor rig_weight(rig *r, rng *g, och_dtype dtype, int64_t rows, int64_t cols, double scale) {
    och_tensor t = rig_tensor(r, dtype, rows, cols, 0);
    float *row = och_malloc_array((size_t)cols, sizeof *row);
    assert_non_null(row);
    for (int64_t i = 0; i < rows; i++) {
        och_err err;
        och_err_clear(&err);
        rng_fill(g, row, cols, scale);
        rig_ok(och_format_encode_row(dtype, row, (char *)t.host + (uint64_t)i * t.row_bytes, (uint64_t)cols, &err), &err,
               "encode a weight row");
    }
    och_free(row);
    return t;
}
static inline void rig_decode(const och_tensor *w, int64_t row, float *dst) {
    och_format_decode_row(w->dtype, rig_bytes(w, row), dst, (uint64_t)w->cols);
}

/* The padding of every row still holds what it was filled with. */
static inline void rig_check_padding(const och_tensor *t) {
    uint64_t row;
    if (!och_tensor_present(t) || t->layout != OCH_LAYOUT_NATIVE || !t->cols) return;
    assert_true(och_dtype_row_bytes(t->dtype, (uint64_t)t->cols, &row));
    for (int64_t i = 0; i < t->rows; i++)
        for (uint64_t j = row; j < t->row_bytes; j++)
            if (((const uint8_t *)t->host)[(uint64_t)i * t->row_bytes + j] != RIG_FILL)
                fail_msg("row %lld: the padding at byte %llu was written", (long long)i, (unsigned long long)j);
}

#endif
