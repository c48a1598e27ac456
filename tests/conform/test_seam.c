/* The seam's conformance suite: every backend, one set of tests. A backend joins by a row. An argument names one, which must
 * then be there: conform_test_seam cuda. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "conform/support/hip_text.h"
#include "conform/support/ptx_text.h"
#include "dev/dev.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct row {
    const char *name;   /* as for och_device_open */
    bool must_open;     /* false: absent hardware is a skip */
    bool modules, graphs, all_reduce; /* what it does; all else must be declined with a message */
    bool checks_bounds; /* an address outside an allocation is a device error */
    bool unified, integrated, managed;
    bool gpu;
    bool ptx; /* the code it takes */
} row;

#define SIM(board, unified, integrated) {"sim:" board, true, true, true, true, false, unified, integrated, true, true, false}
static const row rows[] = {
    {"null", true, false, false, false, true, false, false, false, false, false},
    {"cpu", true, false, false, true, false, true, false, false, false, false},
    SIM("gfx1151", true, true),
    SIM("gfx1103", true, true),
    SIM("gfx1100", false, false),
    SIM("gfx1201", false, false),
    SIM("gfx90a", false, false),
    SIM("gfx942", false, false),
    {"hip", false, true, true, true, false, false, false, false, true, false}, /* what it is, it says itself */
    {"cuda", false, true, true, true, false, false, false, false, true, true},
};

static const row *r;
static const char *only; /* the row that was asked for; NULL: all */
static och_device *d;
static const och_device_vtable *v;
static och_queue *q;
static och_err err;
static uint64_t live_bytes, live_count;

static void ok(och_status st) {
    if (st != OCH_OK) fail_msg("%s: %s: %s", r->name, och_status_name(st), err.message);
}

static int open_device(void **s) {
    (void)s;
    och_err_clear(&err);
    return och_device_open(r->name, NULL, &d, &err) == OCH_OK ? v = d->vtable, 0 : -1;
}

static int close_device(void **s) {
    (void)s;
    och_device_release(d);
    return 0;
}

static int before(void **s) {
    (void)s;
    och_err_clear(&err);
    och_buf_live(&live_bytes, &live_count);
    return v->queue_create(d, &q, &err) == OCH_OK && q->device == d ? 0 : -1;
}

/* No test may leave a buffer behind. */
static int after(void **s) {
    (void)s;
    uint64_t bytes, count;
    v->queue_destroy(q);
    och_buf_live(&bytes, &count);
    return bytes == live_bytes && count == live_count ? 0 : -1;
}

static och_buf get(uint64_t n_bytes, och_mem_kind kind) {
    och_buf b;
    ok(och_buf_alloc(d, n_bytes, kind, &b, &err));
    return b;
}

/* A byte that tells its position and its pattern. */
static uint8_t byte_at(size_t i, unsigned seed) { return (uint8_t)((i * 131 + (i >> 8) * 31 + seed * 77 + 5) & 0xFF); }
static void pattern(uint8_t *p, size_t n, unsigned seed) {
    for (size_t i = 0; i < n; i++) p[i] = byte_at(i, seed);
}

static void upload(och_buf *b, const void *src, size_t n) {
    ok(v->copy_to_device(q, b->addr, src, n, &err));
    ok(v->synchronise(q, &err));
}
static void download(void *dst, const och_buf *b, size_t n) {
    ok(v->copy_to_host(q, dst, b->addr, n, &err));
    ok(v->synchronise(q, &err));
}

/* ---- the device says what it is ---- */

static void description(void **s) {
    (void)s;
    const och_dev_info *i = &d->info;
    ok(och_device_check(d, &err));
    assert_int_equal(strncmp(r->name, i->backend, strlen(i->backend)), 0);
    assert_int_equal(strncmp(r->name, i->label, strlen(r->name)), 0);
    assert_int_equal(i->index, 0);
    assert_true(*i->name && *i->vendor && *i->arch);
    assert_true(memchr(i->name, 0, sizeof i->name) && memchr(i->arch, 0, sizeof i->arch));
    assert_true(i->n_compute_units >= 1);
    assert_true(i->memory_bytes >= (uint64_t)64 << 20 && i->memory_bytes < (uint64_t)1 << 50);
    assert_true(i->memory_limit_bytes > 0 && i->memory_limit_bytes <= i->memory_bytes);
    assert_true(i->kind >= OCH_DEV_CPU && i->kind <= OCH_DEV_NULL);
    assert_int_equal(v->unified_memory(d), i->unified);
    if (r->must_open) {
        assert_int_equal(i->unified, r->unified);
        assert_int_equal(i->integrated, r->integrated);
        assert_int_equal(i->managed, r->managed);
    }
    if (r->gpu) {
        assert_true(i->wave_size == 32 || i->wave_size == 64);
        assert_true(i->n_multiprocessors >= 1 && i->n_compute_units >= i->n_multiprocessors);
        assert_true(i->lds_bytes >= 65536 && i->max_group >= 256 && i->l2_bytes > 0 && i->bandwidth_gbps > 1);
        assert_true((r->ptx || i->code_object_version >= 4) && *i->pci && *i->runtime);
        const char *board = strchr(r->name, ':'); /* the target's base name is the board's */
        if (board) assert_int_equal(strncmp(i->arch, board + 1, strlen(board + 1)), 0);
    }
    uint64_t n_free, n_total;
    ok(v->memory(d, &n_free, &n_total, &err));
    assert_int_equal(n_total, i->memory_limit_bytes);
    assert_true(n_free > 0 && n_free <= n_total);
    och_device *again;
    ok(och_device_open(i->label, NULL, &again, &err));
    assert_string_equal(again->info.name, i->name);
    och_device_release(again);
}

/* ---- memory ---- */

static void allocations(void **s) {
    (void)s;
    static const uint64_t sizes[] = {1, 3, 255, 256, 257, 4096, 65537, (4u << 20) - 1, 4u << 20, (6u << 20) + 1};
    enum { N = sizeof sizes / sizeof sizes[0] };
    for (int kind = OCH_MEM_DEVICE; kind <= OCH_MEM_PINNED; kind++) {
        och_buf b[N];
        uint64_t sum = 0, bytes, count;
        for (int i = 0; i < N; i++) {
            b[i] = get(sizes[i], (och_mem_kind)kind);
            sum += sizes[i];
            assert_ptr_equal(b[i].device, d);
            assert_int_equal(b[i].size_bytes, sizes[i]);
            assert_int_equal(b[i].kind, kind);
            assert_true(b[i].addr.value != 0);
            assert_int_equal(b[i].addr.value % OCH_DEV_ALIGN_BYTES, 0);
            assert_int_equal(b[i].host != NULL, kind == OCH_MEM_PINNED || d->info.unified);
            for (int k = 0; k < i; k++) /* apart */
                assert_true(b[k].addr.value + sizes[k] <= b[i].addr.value || b[i].addr.value + sizes[i] <= b[k].addr.value);
        }
        och_buf_live(&bytes, &count);
        assert_int_equal(bytes - live_bytes, sum);
        assert_int_equal(count - live_count, N);
        for (int i = 0; i < N; i++) {
            och_buf_free(&b[i]);
            assert_null(b[i].device);
            assert_int_equal(b[i].addr.value, 0);
            och_buf_free(&b[i]); /* empty: allowed */
        }
    }
}

static void bad_allocations(void **s) {
    (void)s;
    och_buf b;
    memset(&b, 0xFF, sizeof b);
    assert_int_equal(och_buf_alloc(d, 0, OCH_MEM_DEVICE, &b, &err), OCH_INVALID);
    assert_null(b.device);
    assert_int_equal(b.addr.value, 0);
    assert_non_null(strstr(err.message, r->name));
    och_err_clear(&err);
    assert_int_equal(och_buf_alloc(d, 1, (och_mem_kind)7, &b, &err), OCH_INVALID);
}

static void out_of_memory(void **s) {
    (void)s;
    uint64_t n_free, n_total, again;
    ok(v->memory(d, &n_free, &n_total, &err));
    uint64_t asked[] = {n_total + 1, UINT64_MAX, UINT64_MAX - 4096, (uint64_t)1 << 63};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        for (int kind = OCH_MEM_DEVICE; kind <= OCH_MEM_PINNED; kind++) {
            och_buf b;
            och_err_clear(&err);
            assert_int_equal(och_buf_alloc(d, asked[i], (och_mem_kind)kind, &b, &err), OCH_NOMEM);
            assert_null(b.device);
            char number[32];
            snprintf(number, sizeof number, "%llu", (unsigned long long)asked[i]);
            assert_non_null(strstr(err.message, number));
            assert_non_null(strstr(err.message, "free"));
            assert_non_null(strstr(err.message, r->name));
        }
    }
    och_err_clear(&err);
    if (n_total <= (uint64_t)2 << 30) { /* small enough to fill: memory runs out, and comes back */
        enum { PIECE = 64 << 20 };
        och_buf b[64];
        int n = 0;
        while (n < 64 && och_buf_alloc(d, PIECE, OCH_MEM_DEVICE, &b[n], &err) == OCH_OK) n++;
        assert_int_equal(err.status, OCH_NOMEM);
        assert_true((uint64_t)n * PIECE <= n_free && (uint64_t)(n + 1) * PIECE > n_free);
        och_err_clear(&err);
        ok(v->memory(d, &again, &n_total, &err));
        assert_int_equal(again, n_free - (uint64_t)n * PIECE);
        while (n) och_buf_free(&b[--n]);
        ok(v->memory(d, &again, &n_total, &err));
        assert_int_equal(again, n_free);
    }
    och_buf b = get(1, OCH_MEM_DEVICE); /* a refusal leaves the device usable */
    och_buf_free(&b);
}

static void every_host_allocation_may_fail(void **s) {
    (void)s;
    int64_t live = och_alloc_live();
    for (uint64_t n = 1;; n++) {
        och_device *d2 = NULL;
        och_queue *q2 = NULL;
        och_event *e2 = NULL;
        och_buf small = {0}, large = {0};
        och_err_clear(&err);
        och_alloc_fail_at(n);
        och_status st = och_device_open(r->name, &(och_dev_options){.n_threads = 2}, &d2, &err);
        if (st == OCH_OK) st = d2->vtable->queue_create(d2, &q2, &err);
        if (st == OCH_OK) st = d2->vtable->event_create(d2, &e2, &err);
        if (st == OCH_OK) st = och_buf_alloc(d2, 100, OCH_MEM_DEVICE, &small, &err);
        if (st == OCH_OK) st = och_buf_alloc(d2, 5 << 20, OCH_MEM_PINNED, &large, &err);
        if (st == OCH_OK) st = d2->vtable->copy_peer(q2, d2, small.addr, d, (och_dev_addr){0}, 0, &err);
        bool reached = och_alloc_count() >= n;
        och_alloc_fail_at(0);
        if (reached) {
            assert_int_equal(st, OCH_NOMEM);
            assert_int_equal(err.status, OCH_NOMEM);
            assert_true(*err.message);
        } else {
            ok(st);
        }
        och_buf_free(&small);
        och_buf_free(&large);
        if (e2) d2->vtable->event_destroy(e2);
        if (q2) d2->vtable->queue_destroy(q2);
        och_device_release(d2);
        /* A thread that the device of the suite has just started may give back what it was started with meanwhile. */
        assert_true(och_alloc_live() <= live);
        live = och_alloc_live();
        if (!reached) {
            assert_true(n > 2); /* some were made to fail */
            break;
        }
    }
    och_err_clear(&err);
}

static void host_pointers(void **s) {
    (void)s;
    enum { N = 1000 };
    uint8_t want[N], found[N];
    pattern(want, N, 1);
    och_buf p = get(N, OCH_MEM_PINNED), b = get(N, OCH_MEM_DEVICE);
    memcpy(p.host, want, N); /* pinned memory is always the host's too */
    ok(v->copy(q, b.addr, p.addr, N, &err));
    ok(v->synchronise(q, &err));
    download(found, &b, N);
    assert_memory_equal(found, want, N);
    if (v->unified_memory(d)) {
        assert_ptr_equal(och_dev_host(d, b.addr), b.host);
        assert_ptr_equal(och_dev_host(d, och_dev_addr_add(b.addr, 10)), (char *)b.host + 10);
        assert_memory_equal(b.host, want, N);
        ((uint8_t *)b.host)[7] ^= 0xFF;
        download(found, &b, N);
        assert_int_equal(found[7], want[7] ^ 0xFF);
    } else {
        assert_null(och_dev_host(d, b.addr));
        assert_null(b.host);
    }
    och_buf_free(&p);
    och_buf_free(&b);
}

/* ---- copies ---- */

static const struct {
    size_t n, dst, src; /* bytes, offsets */
} spans[] = {{0, 0, 0},  {1, 0, 0},    {1, 7, 3},     {3, 1, 2},        {16, 4, 0},       {63, 1, 65},
             {64, 64, 0}, {257, 3, 1}, {4095, 0, 17}, {4097, 513, 255}, {65537, 1, 4096}, {1 << 20, 5, 9}};
enum { SPAN_ROOM = (1 << 20) + 8192 };

static void copies(void **s) {
    (void)s;
    uint8_t *base = malloc(SPAN_ROOM), *data = malloc(SPAN_ROOM), *want = malloc(SPAN_ROOM), *found = malloc(SPAN_ROOM);
    assert_true(base && data && want && found);
    pattern(base, SPAN_ROOM, 2);
    pattern(data, SPAN_ROOM, 3);
    och_buf a = get(SPAN_ROOM, OCH_MEM_DEVICE), b = get(SPAN_ROOM, OCH_MEM_DEVICE), p = get(SPAN_ROOM, OCH_MEM_PINNED);
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++) {
        size_t n = spans[i].n, to = spans[i].dst, from = spans[i].src;
        memcpy(want, base, SPAN_ROOM);
        memcpy(want + to, data + from, n);

        upload(&a, base, SPAN_ROOM); /* pageable host to device: nothing but the range changes */
        ok(v->copy_to_device(q, och_dev_addr_add(a.addr, to), data + from, n, &err));
        download(found, &a, SPAN_ROOM);
        assert_memory_equal(found, want, SPAN_ROOM);

        upload(&a, base, SPAN_ROOM); /* pinned to device, by its host pointer */
        memcpy(p.host, data, SPAN_ROOM);
        ok(v->copy_to_device(q, och_dev_addr_add(a.addr, to), (char *)p.host + from, n, &err));
        ok(v->synchronise(q, &err));
        download(found, &a, SPAN_ROOM);
        assert_memory_equal(found, want, SPAN_ROOM);

        upload(&a, base, SPAN_ROOM); /* device to device */
        upload(&b, data, SPAN_ROOM);
        ok(v->copy(q, och_dev_addr_add(a.addr, to), och_dev_addr_add(b.addr, from), n, &err));
        download(found, &a, SPAN_ROOM);
        assert_memory_equal(found, want, SPAN_ROOM);

        memcpy(found, base, SPAN_ROOM); /* device to pageable host */
        ok(v->copy_to_host(q, found + to, och_dev_addr_add(b.addr, from), n, &err));
        ok(v->synchronise(q, &err));
        assert_memory_equal(found, want, SPAN_ROOM);

        memcpy(p.host, base, SPAN_ROOM); /* device to pinned */
        ok(v->copy_to_host(q, (char *)p.host + to, och_dev_addr_add(b.addr, from), n, &err));
        ok(v->synchronise(q, &err));
        assert_memory_equal(p.host, want, SPAN_ROOM);

        upload(&a, base, SPAN_ROOM); /* fill */
        ok(v->fill(q, och_dev_addr_add(a.addr, to), (uint8_t)(0xC0 + i), n, &err));
        memcpy(want, base, SPAN_ROOM);
        memset(want + to, (int)(0xC0 + i), n);
        download(found, &a, SPAN_ROOM);
        assert_memory_equal(found, want, SPAN_ROOM);
    }
    och_buf_free(&a);
    och_buf_free(&b);
    och_buf_free(&p);
    free(base), free(data), free(want), free(found);
}

/* The machine's second board of this row's kind; the first again where there is none. */
static const char *second_board(void) {
    static char name[64];
    och_device *o;
    snprintf(name, sizeof name, "%s:1", r->name);
    if (!r->gpu || strchr(r->name, ':') || och_device_open(name, NULL, &o, &err) != OCH_OK) {
        och_err_clear(&err);
        return r->name;
    }
    och_device_release(o);
    return name;
}

/* Within one device (forwards and, through the buffers' order, both ways), or with another. */
static void peer_copies_with(const char *name, const uint8_t *data, uint8_t *found, size_t n) {
    och_device *o;
    och_queue *oq;
    och_buf mine = get(n, OCH_MEM_DEVICE), other;
    ok(och_device_open(name, NULL, &o, &err)); /* another object even when it is the same backend */
    ok(o->vtable->queue_create(o, &oq, &err));
    ok(och_buf_alloc(o, n, OCH_MEM_DEVICE, &other, &err));

    upload(&mine, data, n);
    ok(v->copy_peer(q, o, other.addr, d, mine.addr, n, &err)); /* on the source's queue */
    ok(v->synchronise(q, &err));
    memset(found, 0, n);
    ok(o->vtable->copy_to_host(oq, found, other.addr, n, &err));
    ok(o->vtable->synchronise(oq, &err));
    assert_memory_equal(found, data, n);

    ok(v->fill(q, mine.addr, 0, n, &err)); /* on the destination's queue, after what is on it */
    ok(v->copy_peer(q, d, och_dev_addr_add(mine.addr, 5), o, och_dev_addr_add(other.addr, 3), 1001, &err));
    ok(v->synchronise(q, &err));
    download(found, &mine, 2000);
    for (size_t k = 0; k < 2000; k++) assert_int_equal(found[k], k >= 5 && k < 1006 ? data[k - 2] : 0);

    ok(v->copy_peer(q, o, other.addr, d, mine.addr, 0, &err));
    och_device *third; /* a queue of neither device */
    ok(och_device_open("cpu", NULL, &third, &err));
    och_queue *tq;
    ok(third->vtable->queue_create(third, &tq, &err));
    assert_int_equal(third->vtable->copy_peer(tq, o, other.addr, d, mine.addr, 8, &err), OCH_INVALID);
    assert_true(*err.message);
    och_err_clear(&err);
    third->vtable->queue_destroy(tq);
    och_device_release(third);

    och_buf_free(&other);
    och_buf_free(&mine);
    o->vtable->queue_destroy(oq);
    och_device_release(o);
}

/* With each backend that is always there, and between two boards. */
static void peer_copies(void **s) {
    (void)s;
    enum { N = (9 << 20) + 3 }; /* more than any staging buffer */
    uint8_t *data = malloc(N), *found = malloc(N);
    assert_true(data && found);
    pattern(data, N, 4);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].must_open && !(only && !strncmp(rows[i].name, "sim", 3))) /* a board's machine may have no simulator */
            peer_copies_with(rows[i].name, data, found, N);
    const char *second = second_board();
    if (r->gpu) print_message("between %s and %s\n", r->name, second);
    peer_copies_with(second, data, found, N);
    free(data), free(found);
}

/* ---- order ---- */

static void a_queue_keeps_its_order(void **s) {
    (void)s;
    enum { N = 700 }; /* more commands than a queue may hold back */
    och_buf a = get(N, OCH_MEM_DEVICE), b = get(N, OCH_MEM_DEVICE), p = get(N, OCH_MEM_PINNED);
    ok(v->fill(q, a.addr, 0, N, &err));
    for (unsigned i = 0; i < N; i++) {
        ok(v->fill(q, och_dev_addr_add(a.addr, i), (uint8_t)i, N - i, &err)); /* each overwrites the tail of the last */
        if (i % 100 == 50) ok(v->copy(q, b.addr, a.addr, N, &err));
    }
    ok(v->copy_to_host(q, p.host, a.addr, N, &err));
    ok(v->synchronise(q, &err));
    for (unsigned i = 0; i < N; i++) assert_int_equal(((uint8_t *)p.host)[i], (uint8_t)i);
    uint8_t found[N];
    download(found, &b, N);
    for (unsigned i = 0; i < N; i++) assert_int_equal(found[i], (uint8_t)(i < 650 ? i : 650));
    och_buf_free(&a);
    och_buf_free(&b);
    och_buf_free(&p);
}

static void events(void **s) {
    (void)s;
    och_event *e;
    bool done = false;
    ok(v->event_create(d, &e, &err));
    ok(v->event_query(e, &done, &err)); /* never recorded counts as done */
    assert_true(done);
    ok(v->event_wait_host(e, &err));
    ok(v->event_wait_queue(q, e, &err));

    och_buf a = get(4096, OCH_MEM_DEVICE), p = get(4096, OCH_MEM_PINNED);
    for (int round = 0; round < 3; round++) { /* an event is used again */
        memset(p.host, 0, 4096);
        ok(v->fill(q, a.addr, (uint8_t)(10 + round), 4096, &err));
        ok(v->copy_to_host(q, p.host, a.addr, 4096, &err));
        ok(v->event_record(q, e, &err));
        ok(v->fill(q, a.addr, 99, 4096, &err));
        if (round == 0) {
            ok(v->event_wait_host(e, &err));
            ok(v->event_query(e, &done, &err));
            assert_true(done);
        } else {
            long polls = 0;
            for (done = false; !done && polls < 100000000; polls++) ok(v->event_query(e, &done, &err));
            assert_true(done);
        }
        for (int i = 0; i < 4096; i++) assert_int_equal(((uint8_t *)p.host)[i], 10 + round);
    }
    ok(v->synchronise(q, &err));
    v->event_destroy(e);
    och_buf_free(&a);
    och_buf_free(&p);
}

/* Two queues hand a buffer back and forth; only events order them. */
static void queues_are_joined_by_events(void **s) {
    (void)s;
    enum { N = 256, ROUNDS = 40 };
    och_queue *q2;
    och_event *there, *back;
    ok(v->queue_create(d, &q2, &err));
    ok(v->event_create(d, &there, &err));
    ok(v->event_create(d, &back, &err));
    och_buf a = get(N, OCH_MEM_DEVICE), b = get((uint64_t)N * ROUNDS, OCH_MEM_DEVICE);
    for (int i = 0; i < ROUNDS; i++) {
        ok(v->event_wait_queue(q, back, &err)); /* the first time: never recorded, done */
        ok(v->fill(q, a.addr, (uint8_t)(i + 1), N, &err));
        ok(v->event_record(q, there, &err));
        ok(v->event_wait_queue(q2, there, &err));
        ok(v->copy(q2, och_dev_addr_add(b.addr, (uint64_t)i * N), a.addr, N, &err));
        ok(v->event_record(q2, back, &err));
    }
    ok(v->event_wait_host(back, &err));
    uint8_t found[N * ROUNDS];
    ok(v->synchronise(q2, &err));
    download(found, &b, sizeof found);
    for (int i = 0; i < N * ROUNDS; i++) assert_int_equal(found[i], i / N + 1);

    /* waiting for the second queue takes the first with it, and an event outlives the queue that recorded it */
    bool done = false;
    ok(v->fill(q2, a.addr, 77, N, &err));
    ok(v->event_record(q2, back, &err));
    v->queue_destroy(q2);
    ok(v->event_query(back, &done, &err));
    assert_true(done);
    ok(v->event_wait_queue(q, back, &err));
    download(found, &a, N);
    assert_int_equal(found[N - 1], 77);
    v->event_destroy(there);
    v->event_destroy(back);
    och_buf_free(&a);
    och_buf_free(&b);
}

typedef struct worker {
    pthread_t thread;
    unsigned seed;
    bool good;
} worker;

static void *use_device(void *arg) {
    worker *w = arg;
    enum { N = 10000 };
    uint8_t *want = malloc(N), *found = malloc(N);
    och_queue *mine = NULL;
    och_err e;
    och_err_clear(&e);
    w->good = want && found && v->queue_create(d, &mine, &e) == OCH_OK;
    for (unsigned i = 0; w->good && i < 30; i++) {
        och_buf a, b;
        pattern(want, N, w->seed + i);
        w->good = och_buf_alloc(d, N, OCH_MEM_DEVICE, &a, &e) == OCH_OK && och_buf_alloc(d, N, OCH_MEM_DEVICE, &b, &e) == OCH_OK &&
                  v->copy_to_device(mine, a.addr, want, N, &e) == OCH_OK && v->copy(mine, b.addr, a.addr, N, &e) == OCH_OK &&
                  v->copy_to_host(mine, found, b.addr, N, &e) == OCH_OK && v->synchronise(mine, &e) == OCH_OK &&
                  !memcmp(want, found, N);
        och_buf_free(&a);
        och_buf_free(&b);
    }
    if (mine) v->queue_destroy(mine);
    free(want), free(found);
    return NULL;
}

static void several_threads_use_one_device(void **s) {
    (void)s;
    worker w[4];
    for (unsigned i = 0; i < 4; i++) {
        w[i] = (worker){.seed = 100 * i};
        assert_int_equal(pthread_create(&w[i].thread, NULL, use_device, &w[i]), 0);
    }
    for (int i = 0; i < 4; i++) pthread_join(w[i].thread, NULL);
    for (int i = 0; i < 4; i++) assert_true(w[i].good);
}

/* ---- errors ---- */

static void address_errors(void **s) {
    (void)s;
    enum { N = 512 };
    uint8_t host[N] = {0};
    och_buf a = get(N, OCH_MEM_DEVICE);
    och_dev_addr none = {0};
    typedef struct bad {
        const char *op;
        och_dev_addr dst, src;
        uint64_t n;
    } bad;
    bad cases[] = {{"copy to device", none, none, 1}, {"copy to host", none, none, 1},      {"copy", none, a.addr, 1},
                   {"copy", a.addr, none, 1},         {"fill", none, none, 1},
                   /* from here on: only where bounds are checked */
                   {"copy to device", a.addr, none, N + 1},
                   {"copy to host", none, och_dev_addr_add(a.addr, 1), N},
                   {"fill", och_dev_addr_add(a.addr, N + 100), none, 1},
                   {"fill", a.addr, none, UINT64_MAX},
                   {"copy", och_dev_addr_add(a.addr, 10), a.addr, 11}};
    size_t n_cases = r->checks_bounds ? sizeof cases / sizeof cases[0] : 5;
    if (!r->checks_bounds) print_message("skip (unsupported): %s cannot check ranges, only address 0\n", r->name);
    for (size_t i = 0; i < n_cases; i++) {
        const bad *c = &cases[i];
        och_err_clear(&err);
        och_status st = !strcmp(c->op, "copy to device") ? v->copy_to_device(q, c->dst, host, c->n, &err)
                        : !strcmp(c->op, "copy to host") ? v->copy_to_host(q, host, c->src, c->n, &err)
                        : !strcmp(c->op, "copy")         ? v->copy(q, c->dst, c->src, c->n, &err)
                                                         : v->fill(q, c->dst, 1, c->n, &err);
        if (st == OCH_OK) st = v->synchronise(q, &err); /* at the latest here */
        assert_int_equal(st, OCH_DEVICE);
        assert_int_equal(err.status, OCH_DEVICE);
        assert_non_null(strstr(err.message, c->op));
        assert_non_null(strstr(err.message, r->name));
        if (r->checks_bounds && i < 9) {
            char size[32];
            snprintf(size, sizeof size, "%d bytes at 0x%llx", N, (unsigned long long)a.addr.value);
            assert_non_null(strstr(err.message, size)); /* the nearest allocation */
        }
        och_err_clear(&err); /* reported once; the queue works again */
        ok(v->synchronise(q, &err));
        ok(v->fill(q, a.addr, 3, N, &err));
        download(host, &a, N);
        assert_int_equal(host[N - 1], 3);
    }
    och_buf freed = a;
    och_buf_free(&a);
    if (r->checks_bounds) {
        och_status st = v->fill(q, freed.addr, 1, 1, &err);
        if (st == OCH_OK) st = v->synchronise(q, &err);
        assert_int_equal(st, OCH_DEVICE);
        och_err_clear(&err);
    }
}

/* ---- what a backend declines, it declines by name ---- */

static void is_declined(och_status st, const char *op) {
    assert_int_equal(st, OCH_UNSUPPORTED);
    assert_int_equal(err.status, OCH_UNSUPPORTED);
    assert_non_null(strstr(err.message, op));
    print_message("skip (unsupported): %s\n", err.message);
    och_err_clear(&err);
}

/* ---- kernels ---- */

static const char kernels_text[] =
    KERNEL "void put(unsigned *p, unsigned n, unsigned add) {\n"
    "  unsigned i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();\n"
    "  if (i < n) p[i] = i * 3 + add;\n"
    "}\n"
    KERNEL "void twice(unsigned *p, unsigned n) {\n"
    "  unsigned i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();\n"
    "  if (i < n) p[i] = p[i] * 2;\n"
    "}\n"
    KERNEL "void count(unsigned *p) {\n"
    "  extern __attribute__((shared)) unsigned lds[];\n"
    "  unsigned i = __builtin_amdgcn_workitem_id_x();\n"
    "  lds[i] = 1;\n"
    "  __builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\");\n"
    "  __builtin_amdgcn_s_barrier();\n"
    "  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"workgroup\");\n"
    "  unsigned sum = 0;\n"
    "  for (unsigned k = 0; k < 64; k++) sum += lds[k];\n"
    "  if (!i) p[__builtin_amdgcn_workgroup_id_x() + 2 * __builtin_amdgcn_workgroup_id_y()] = sum;\n"
    "}\n"
    KERNEL "void nothing() {}\n";

/* The code object for this device, made once a row; NULL without the compiler. */
static const void *code_object(size_t *out_bytes) {
    static char target[64];
    static void *image;
    static size_t n_bytes;
    if (r->ptx) {
        *out_bytes = sizeof ptx_text;
        return ptx_text;
    }
    if (strcmp(target, d->info.arch) != 0) {
        free(image);
        image = hip_text_compile(kernels_text, d->info.arch, d->info.code_object_version, &n_bytes);
        snprintf(target, sizeof target, "%s", d->info.arch);
    }
    *out_bytes = n_bytes;
    return image;
}

static och_module *load_kernels(void) {
    size_t n_bytes;
    const void *image = code_object(&n_bytes);
    if (!image) {
        print_message("skip (unavailable): %s: no clang-22 to compile kernels with\n", r->name);
        return NULL;
    }
    och_module *m;
    ok(v->module_load(d, image, n_bytes, &m, &err));
    return m;
}

static och_function *function(och_module *m, const char *name) {
    och_function *f;
    ok(v->module_function(m, name, &f, &err));
    assert_string_equal(f->name, name);
    return f;
}

typedef struct put_args {
    uint64_t p;
    uint32_t n, add;
} put_args;

static void launch(och_function *f, uint32_t n, const void *args, size_t n_bytes) {
    och_launch l = {{(n + 63) / 64, 1, 1}, {64, 1, 1}, 0, args, n_bytes, false, OCH_LDS_BY_DRIVER};
    ok(v->launch(q, f, &l, &err));
}

static void modules_and_launches(void **s) {
    (void)s;
    och_module *m = (och_module *)1;
    och_function *f = (och_function *)1;
    if (!r->modules) {
        is_declined(v->module_load(d, "image", 5, &m, &err), "module load");
        assert_null(m);
        is_declined(v->module_function(NULL, "kernel", &f, &err), "module function");
        assert_null(f);
        is_declined(v->launch(q, NULL, &(och_launch){{1, 1, 1}, {1, 1, 1}, 0, NULL, 0, false, OCH_LDS_BY_DRIVER}, &err), "launch");
        v->module_unload(NULL);
        return;
    }
    enum { N = 1000 };
    assert_int_equal(v->module_load(d, "image", 5, &m, &err), OCH_CORRUPT);
    assert_null(m);
    assert_non_null(strstr(err.message, r->name));
    och_err_clear(&err);
    v->module_unload(NULL);
    if (!(m = load_kernels())) return;

    och_buf b = get(N * 4, OCH_MEM_DEVICE);
    uint32_t found[N];
    put_args args = {b.addr.value, N, 5};
    launch(function(m, "put"), N, &args, sizeof args);
    memset(&args, 0xFF, sizeof args); /* they were copied */
    args = (put_args){b.addr.value, N / 2, 0};
    launch(function(m, "twice"), N, &args, 12);
    download(found, &b, N * 4);
    for (uint32_t i = 0; i < N; i++) assert_int_equal(found[i], (i * 3 + 5) * (i < N / 2 ? 2 : 1));

    /* a grid of two dimensions, LDS given at launch, no arguments */
    uint64_t p = b.addr.value;
    ok(v->launch(q, function(m, "count"), &(och_launch){{2, 3, 1}, {64, 1, 1}, 256, &p, 8, false, OCH_LDS_BY_DRIVER}, &err));
    ok(v->launch(q, function(m, "nothing"), &(och_launch){{1, 1, 1}, {1, 1, 1}, 0, NULL, 0, false, OCH_LDS_BY_DRIVER}, &err));
    download(found, &b, 24);
    for (int i = 0; i < 6; i++) assert_int_equal(found[i], 64);

    /* what cannot be, by name and before it is given to the device */
    f = function(m, "put");
    assert_ptr_equal(f, function(m, "put"));
    static const struct {
        och_launch l;
        och_status st;
    } bad[] = {
        {{{0, 1, 1}, {64, 1, 1}, 0, "0123456789012345", 16, false, OCH_LDS_BY_DRIVER}, OCH_INVALID},
        {{{1, 1, 1}, {64, 0, 1}, 0, "0123456789012345", 16, false, OCH_LDS_BY_DRIVER}, OCH_INVALID},
        {{{1, 1, 1}, {64, 64, 1}, 0, "0123456789012345", 16, false, OCH_LDS_BY_DRIVER}, OCH_RANGE},
        {{{1u << 31, 1, 1}, {64, 1, 1}, 0, "0123456789012345", 16, false, OCH_LDS_BY_DRIVER}, OCH_RANGE},
        {{{1, 1, 1}, {64, 1, 1}, 1u << 20, "0123456789012345", 16, false, OCH_LDS_BY_DRIVER}, OCH_RANGE},
        {{{1, 1, 1}, {64, 1, 1}, 0, NULL, 16, false, OCH_LDS_BY_DRIVER}, OCH_INVALID},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(v->launch(q, f, &bad[i].l, &err), bad[i].st);
        assert_non_null(strstr(err.message, "kernel put"));
        assert_non_null(strstr(err.message, r->name));
        och_err_clear(&err);
    }
    assert_int_equal(v->module_function(m, "no_such_kernel", &f, &err), OCH_NOTFOUND);
    assert_null(f);
    assert_non_null(strstr(err.message, "no_such_kernel"));
    och_err_clear(&err);
    ok(v->synchronise(q, &err));
    v->module_unload(m);
    och_buf_free(&b);
}

static void code_of_another_target(void **s) {
    (void)s;
    size_t n_bytes;
    if (!r->modules) return;
    void *image = hip_text_compile(kernels_text, strncmp(d->info.arch, "gfx1100", 7) ? "gfx1100" : "gfx942", 5, &n_bytes);
    if (!image) return;
    och_module *m = (och_module *)1;
    assert_int_equal(v->module_load(d, image, n_bytes, &m, &err), OCH_UNSUPPORTED);
    assert_null(m);
    assert_non_null(strstr(err.message, d->info.arch)); /* both targets are named */
    assert_non_null(strstr(err.message, r->ptx ? "another machine" : strncmp(d->info.arch, "gfx1100", 7) ? "for gfx1100" : "for gfx942"));
    och_err_clear(&err);
    free(image);
    const void *own = code_object(&n_bytes);
    assert_int_equal(v->module_load(d, own, n_bytes / 2, &m, &err), OCH_CORRUPT); /* cut off */
    assert_null(m);
    och_err_clear(&err);
}

/* A kernel writes and the host reads the same address, without a copy: exactly where the device says that it may. */
static void the_host_reads_what_a_kernel_wrote(void **s) {
    (void)s;
    enum { N = 4096 };
    if (!r->modules) return;
    och_module *m = load_kernels();
    if (!m) return;
    och_buf b = get(N * 4, OCH_MEM_DEVICE), p = get(N * 4, OCH_MEM_PINNED);
    for (int kind = OCH_MEM_DEVICE; kind <= OCH_MEM_PINNED; kind++) {
        och_buf *at = kind == OCH_MEM_DEVICE ? &b : &p;
        put_args args = {at->addr.value, N, 11};
        launch(function(m, "put"), N, &args, sizeof args);
        ok(v->synchronise(q, &err));
        if (kind == OCH_MEM_DEVICE && !d->info.unified) {
            assert_null(at->host);
            assert_null(och_dev_host(d, at->addr));
            continue;
        }
        uint32_t *host = at->host;
        assert_non_null(host);
        if (kind == OCH_MEM_DEVICE) assert_int_equal((uint64_t)(uintptr_t)host, at->addr.value); /* the same address */
        for (uint32_t i = 0; i < N; i++) assert_int_equal(host[i], i * 3 + 11);
        for (uint32_t i = 0; i < N; i++) host[i] = i; /* and back */
        args = (put_args){at->addr.value, N, 0};
        launch(function(m, "twice"), N, &args, 12);
        ok(v->synchronise(q, &err));
        for (uint32_t i = 0; i < N; i++) assert_int_equal(host[i], i * 2);
    }
    v->module_unload(m);
    och_buf_free(&b);
    och_buf_free(&p);
}

static void graphs(void **s) {
    (void)s;
    och_graph *g = (och_graph *)1;
    if (!r->graphs) {
        is_declined(v->capture_begin(q, &err), "graph capture");
        is_declined(v->capture_end(q, &g, &err), "graph capture");
        assert_null(g);
        is_declined(v->graph_replay(q, NULL, &err), "graph replay");
        is_declined(v->graph_destroy(NULL, &err), "graph destroy");
        return;
    }
    enum { N = 500 };
    och_buf a = get(N * 4, OCH_MEM_DEVICE), b = get(N * 4, OCH_MEM_DEVICE), p = get(N * 4, OCH_MEM_PINNED);
    uint32_t found[N];
    och_module *m = load_kernels();
    och_function *put = m ? function(m, "put") : NULL, *twice = m ? function(m, "twice") : NULL;
    ok(v->fill(q, b.addr, 0xEE, N * 4, &err));
    ok(v->synchronise(q, &err));

    assert_int_equal(v->capture_end(q, &g, &err), OCH_INVALID); /* not begun */
    assert_null(g);
    och_err_clear(&err);
    ok(v->capture_begin(q, &err));
    put_args args = {a.addr.value, N, 1};
    if (m) launch(put, N, &args, sizeof args);
    else ok(v->fill(q, a.addr, 7, N * 4, &err));
    if (m) launch(twice, N, &args, 12);
    ok(v->copy(q, b.addr, a.addr, N * 4, &err));
    ok(v->copy_to_host(q, p.host, b.addr, N * 4, &err));
    ok(v->fill(q, a.addr, 0, N * 4, &err));
    ok(v->capture_end(q, &g, &err));
    assert_non_null(g);
    download(found, &b, N * 4); /* recorded, not run */
    for (int i = 0; i < N; i++) assert_int_equal(found[i], 0xEEEEEEEE);

    for (int round = 0; round < 3; round++) {
        memset(p.host, 0, N * 4);
        ok(v->graph_replay(q, g, &err));
        ok(v->graph_replay(q, g, &err)); /* in order with itself and with what follows */
        ok(v->fill(q, b.addr, 0x11, 4, &err));
        ok(v->synchronise(q, &err));
        for (uint32_t i = 0; i < N; i++)
            assert_int_equal(((uint32_t *)p.host)[i], m ? (i * 3 + 1) * 2 : 0x07070707);
        download(found, &a, N * 4);
        for (int i = 0; i < N; i++) assert_int_equal(found[i], 0);
        download(found, &b, 4);
        assert_int_equal(found[0], 0x11111111);
    }
    och_queue *q2; /* another queue replays it too */
    ok(v->queue_create(d, &q2, &err));
    ok(v->graph_replay(q2, g, &err));
    ok(v->synchronise(q2, &err));
    v->queue_destroy(q2);
    ok(v->graph_destroy(g, &err));

    ok(v->capture_begin(q, &err)); /* nothing at all */
    ok(v->capture_end(q, &g, &err));
    ok(v->graph_replay(q, g, &err));
    ok(v->synchronise(q, &err));
    ok(v->graph_destroy(g, &err));
    ok(v->queue_create(d, &q2, &err)); /* a queue may go while it records */
    ok(v->capture_begin(q2, &err));
    ok(v->fill(q2, a.addr, 1, 4, &err));
    v->queue_destroy(q2);
    v->module_unload(m);
    och_buf_free(&a);
    och_buf_free(&b);
    och_buf_free(&p);
}

#include "conform/support/seam_graphs.h" /* uses what stands above */

static void all_reduce(void **s) {
    (void)s;
    enum { N_DEV = 3, N = 37 };
    if (!r->all_reduce) {
        is_declined(v->all_reduce_f32(&q, &(och_dev_addr){0}, 1, 0, OCH_REDUCE_SUM, &err), "all-reduce");
        return;
    }
    och_device *dev[N_DEV];
    och_queue *queues[N_DEV];
    och_buf b[N_DEV];
    och_dev_addr addr[N_DEV];
    for (int i = 0; i < N_DEV; i++) {
        ok(och_device_open(i == 1 ? second_board() : r->name, NULL, &dev[i], &err));
        ok(dev[i]->vtable->queue_create(dev[i], &queues[i], &err));
        ok(och_buf_alloc(dev[i], N * sizeof(float), OCH_MEM_DEVICE, &b[i], &err));
        addr[i] = b[i].addr;
    }
    for (int op = OCH_REDUCE_SUM; op <= OCH_REDUCE_MAX; op++) {
        float x[N];
        for (int i = 0; i < N_DEV; i++) {
            for (int k = 0; k < N; k++) x[k] = (float)((k * 7 + i * 5) % 11 - 5);
            /* (1e8 - 1e8) + 1 is 1, 1e8 + (-1e8 + 1) is 0 in float32: shows the order */
            x[0] = i == 0 ? 1e8f : i == 1 ? -1e8f : 1.0f;
            ok(v->copy_to_device(queues[i], addr[i], x, sizeof x, &err));
        }
        ok(v->all_reduce_f32(queues, addr, N_DEV, N, (och_reduce)op, &err));
        for (int i = 0; i < N_DEV; i++) {
            ok(v->copy_to_host(queues[i], x, addr[i], sizeof x, &err));
            ok(v->synchronise(queues[i], &err));
            assert_true(x[0] == (op == OCH_REDUCE_SUM ? 1.0f : 1e8f));
            for (int k = 1; k < N; k++) {
                int want = op == OCH_REDUCE_SUM ? 0 : -100;
                for (int j = 0; j < N_DEV; j++) {
                    int y = (k * 7 + j * 5) % 11 - 5;
                    want = op == OCH_REDUCE_SUM ? want + y : y > want ? y : want;
                }
                assert_true(x[k] == (float)want);
            }
        }
    }
    assert_int_equal(v->all_reduce_f32(queues, addr, 0, N, OCH_REDUCE_SUM, &err), OCH_INVALID);
    och_err_clear(&err);
    assert_int_equal(v->all_reduce_f32(queues, addr, 2, N, (och_reduce)9, &err), OCH_INVALID);
    och_err_clear(&err);
    for (int i = 0; i < N_DEV; i++) {
        och_buf_free(&b[i]);
        dev[i]->vtable->queue_destroy(queues[i]);
        och_device_release(dev[i]);
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, before, after)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        CASE(description),
        CASE(allocations),
        CASE(bad_allocations),
        CASE(out_of_memory),
        CASE(every_host_allocation_may_fail),
        CASE(host_pointers),
        CASE(copies),
        CASE(peer_copies),
        CASE(a_queue_keeps_its_order),
        CASE(events),
        CASE(queues_are_joined_by_events),
        CASE(several_threads_use_one_device),
        CASE(address_errors),
        CASE(modules_and_launches),
        CASE(code_of_another_target),
        CASE(the_host_reads_what_a_kernel_wrote),
        CASE(graphs),
        CASE(what_cannot_be_recorded),
        CASE(captures_and_threads),
        CASE(replays),
        CASE(all_reduce),
    };
    int failures = 0, n = 0;
    for (r = rows; r < rows + sizeof rows / sizeof rows[0]; r++) {
        och_device *there;
        only = argc > 1 ? argv[1] : NULL;
        if (only && strcmp(only, r->name)) continue;
        n++;
        och_err_clear(&err);
        och_status st = och_device_open(r->name, NULL, &there, &err);
        if (st == OCH_UNAVAILABLE && !r->must_open && !only) {
            print_message("skip (unavailable): %s: %s\n", r->name, err.message);
            continue;
        }
        if (st == OCH_OK) och_device_release(there);
        failures += _cmocka_run_group_tests(r->name, tests, sizeof tests / sizeof tests[0], open_device, close_device);
    }
    if (!n) fprintf(stderr, "no row is called %s\n", only);
    return n ? failures : 1;
}
