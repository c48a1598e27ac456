/* The seam's suite: the rules of graphs (dev/dev.h). Part of test_seam.c, whose device, queue and helpers it uses. */
#ifndef OCH_TESTS_SEAM_GRAPHS_H
#define OCH_TESTS_SEAM_GRAPHS_H

enum { G_N = 4096 };

/* What a refused call may need. */
static struct {
    och_buf a, b, pinned, spare;
    och_queue *other, *spare_queue;
    och_event *event, *spare_event;
    och_module *m, *spare_module; /* NULL without a compiler */
    och_function *put, *twice;
    och_graph *g, *spare_graph;
    const void *image;
    size_t image_bytes;
    uint32_t pageable[4];
} gs;

static void gs_open(void) {
    memset(&gs, 0, sizeof gs);
    gs.a = get(G_N * 4, OCH_MEM_DEVICE);
    gs.b = get(G_N * 4, OCH_MEM_DEVICE);
    gs.pinned = get(G_N * 4, OCH_MEM_PINNED);
    ok(v->queue_create(d, &gs.other, &err));
    ok(v->event_create(d, &gs.event, &err));
    ok(v->event_record(q, gs.event, &err));
    if ((gs.m = load_kernels())) {
        gs.image = code_object(&gs.image_bytes);
        gs.put = function(gs.m, "put");
        gs.twice = function(gs.m, "twice");
    }
    ok(v->capture_begin(q, &err));
    ok(v->capture_end(q, &gs.g, &err));
    ok(v->synchronise(q, &err));
}

static void gs_close(void) {
    ok(v->synchronise(q, &err));
    ok(v->graph_destroy(gs.g, &err));
    v->module_unload(gs.m);
    v->event_destroy(gs.event);
    v->queue_destroy(gs.other);
    och_buf_free(&gs.a);
    och_buf_free(&gs.b);
    och_buf_free(&gs.pinned);
}

/* All that a thread which records may not ask for, and what may be recorded but is wrong; the name is in the message. */
static const struct {
    const char *name;
    bool of_code;
} refusals[] = {
    {"allocation", false},    {"queue create", false}, {"queue wrap", false},          {"synchronise", false},
    {"synchronise", false},   {"copy to host", false}, {"copy to device", false},      {"event create", false},
    {"event record", false},  {"event query", false},  {"event wait", false},          {"event wait on a queue", false},
    {"capture begin", false}, {"capture begin", false}, {"graph replay", false},       {"all-reduce", false},
    {"fill", false},          {"module load", true},   {"module function", true},      {"launch", true},
};
enum { N_REFUSALS = sizeof refusals / sizeof refusals[0] };

static och_status refused_call(int i) {
    och_function *f;
    och_module *m;
    och_event *e;
    och_queue *made;
    och_buf b;
    bool done;
    switch (i) {
    case 0: return och_buf_alloc(d, 64, OCH_MEM_DEVICE, &b, &err);
    case 1: return v->queue_create(d, &made, &err);
    case 2: return v->queue_wrap(d, NULL, &made, &err);
    case 3: return v->synchronise(q, &err);
    case 4: return v->synchronise(gs.other, &err); /* of whatever queue */
    case 5: return v->copy_to_host(q, gs.pageable, gs.a.addr, 16, &err);
    case 6: return v->copy_to_device(gs.other, gs.a.addr, gs.pageable, 16, &err);
    case 7: return v->event_create(d, &e, &err);
    case 8: return v->event_record(q, gs.event, &err);
    case 9: return v->event_query(gs.event, &done, &err);
    case 10: return v->event_wait_host(gs.event, &err);
    case 11: return v->event_wait_queue(q, gs.event, &err);
    case 12: return v->capture_begin(q, &err);
    case 13: return v->capture_begin(gs.other, &err);
    case 14: return v->graph_replay(gs.other, gs.g, &err);
    case 15: return v->all_reduce_f32(&q, &gs.a.addr, 1, 1, OCH_REDUCE_SUM, &err);
    case 16: return v->fill(q, (och_dev_addr){0}, 1, 4, &err);
    case 17: return v->module_load(d, gs.image, gs.image_bytes, &m, &err);
    case 18: return v->module_function(gs.m, "put", &f, &err);
    default: return v->launch(q, gs.put, &(och_launch){{0, 1, 1}, {64, 1, 1}, 0, NULL, 0, false, OCH_LDS_BY_DRIVER}, &err);
    }
}

/* Calls that cannot fail. */
static const char *const voids[] = {"free", "queue destroy", "event destroy", "graph destroy", "module unload"};
static void make_spare(int i) {
    if (i == 0) gs.spare = get(64, OCH_MEM_DEVICE);
    if (i == 1) ok(v->queue_create(d, &gs.spare_queue, &err));
    if (i == 2) ok(v->event_create(d, &gs.spare_event, &err));
    if (i == 3) {
        ok(v->capture_begin(q, &err));
        ok(v->capture_end(q, &gs.spare_graph, &err));
    }
    if (i == 4) gs.spare_module = load_kernels();
}
static void drop_spare(int i) {
    if (i == 0) och_buf_free(&gs.spare);
    if (i == 1) v->queue_destroy(gs.spare_queue);
    if (i == 2) v->event_destroy(gs.spare_event);
    if (i == 3) ok(v->graph_destroy(gs.spare_graph, &err));
    if (i == 4) v->module_unload(gs.spare_module);
}

/* The queue is an ordinary one, nothing of what was recorded has run, and the end of the capture says why. */
static void was_abandoned(const char *name, uint32_t pattern) {
    och_graph *g = (och_graph *)1;
    uint32_t found;
    download(&found, &gs.a, 4);
    assert_int_equal(found, 0x11111111);
    ok(v->fill(q, gs.b.addr, (uint8_t)pattern, 4, &err));
    download(&found, &gs.b, 4);
    assert_int_equal(found, (pattern & 0xFF) * 0x01010101u);
    assert_int_equal(v->capture_end(q, &g, &err), OCH_INVALID);
    assert_null(g);
    if (!strstr(err.message, "abandoned") || !strstr(err.message, name)) fail_msg("%s: %s: %s", r->name, name, err.message);
    och_err_clear(&err);
    assert_int_equal(v->capture_end(q, &g, &err), OCH_INVALID); /* told once */
    assert_null(strstr(err.message, "abandoned"));
    och_err_clear(&err);
}

static void what_cannot_be_recorded(void **s) {
    (void)s;
    if (!r->graphs) return;
    gs_open();
    for (int i = 0; i < N_REFUSALS + (int)(sizeof voids / sizeof voids[0]); i++) {
        bool is_void = i >= N_REFUSALS;
        int k = is_void ? i - N_REFUSALS : i;
        const char *name = is_void ? voids[k] : refusals[k].name;
        if (!gs.m && (is_void ? k == 4 : refusals[k].of_code)) continue;
        if (is_void) make_spare(k);
        ok(v->fill(q, gs.a.addr, 0x11, 4, &err));
        ok(v->capture_begin(q, &err));
        ok(v->fill(q, gs.a.addr, 0x55, 4, &err));
        ok(v->copy(q, gs.b.addr, gs.a.addr, 4, &err));
        if (is_void) drop_spare(k);
        else {
            och_status st = refused_call(k);
            if (st == OCH_OK || !strstr(err.message, name)) fail_msg("%s: %s: %s", r->name, name, err.message);
            if (k != 16 && k != N_REFUSALS - 1) {
                assert_int_equal(st, OCH_INVALID);
                assert_non_null(strstr(err.message, "abandoned"));
            }
            och_err_clear(&err);
        }
        was_abandoned(name, 0x20u + (uint32_t)i);
    }
    /* a stream of somebody else's is not recorded at all */
    och_queue *wrapped;
    ok(v->queue_wrap(d, NULL, &wrapped, &err));
    is_declined(v->capture_begin(wrapped, &err), "graph capture");
    v->queue_destroy(wrapped);
    gs_close();
}

/* What others do meanwhile. */
static void *other_thread(void *arg) {
    och_err e;
    och_buf b, p;
    och_event *event = NULL;
    uint32_t x = 0;
    bool done = false, *out_good = arg;
    och_err_clear(&e);
    bool good = v->fill(q, gs.a.addr, 0x77, 4, &e) == OCH_INVALID && strstr(e.message, "another thread");
    och_err_clear(&e);
    good = good && v->synchronise(q, &e) == OCH_INVALID;
    och_err_clear(&e);
    och_graph *g;
    good = good && v->capture_end(q, &g, &e) == OCH_INVALID && !g;
    och_err_clear(&e);
    if (och_buf_alloc(d, 4096, OCH_MEM_DEVICE, &b, &e) != OCH_OK) return NULL;
    if (och_buf_alloc(d, 4096, OCH_MEM_PINNED, &p, &e) != OCH_OK) return NULL;
    good = good && v->event_create(d, &event, &e) == OCH_OK && v->fill(gs.other, b.addr, 0x3C, 4, &e) == OCH_OK &&
           v->event_record(gs.other, event, &e) == OCH_OK && v->event_wait_host(event, &e) == OCH_OK &&
           v->event_query(event, &done, &e) == OCH_OK && done && v->copy_to_host(gs.other, &x, b.addr, 4, &e) == OCH_OK &&
           v->synchronise(gs.other, &e) == OCH_OK && x == 0x3C3C3C3C;
    if (gs.image) {
        och_module *m;
        och_function *f;
        good = good && v->module_load(d, gs.image, gs.image_bytes, &m, &e) == OCH_OK && v->module_function(m, "put", &f, &e) == OCH_OK;
        if (good) v->module_unload(m);
    }
    if (event) v->event_destroy(event);
    och_buf_free(&b);
    och_buf_free(&p);
    if (!good) fprintf(stderr, "another thread: %s\n", e.message);
    *out_good = good;
    return NULL;
}

static void captures_and_threads(void **s) {
    (void)s;
    if (!r->graphs) return;
    gs_open();
    och_graph *g;
    uint32_t found[2];
    bool good = false;
    pthread_t t;
    ok(v->fill(q, gs.a.addr, 0x11, 4, &err));
    ok(v->capture_begin(q, &err));
    ok(v->fill(q, gs.a.addr, 0x22, 4, &err));
    ok(v->fill(gs.other, gs.b.addr, 0x33, 4, &err)); /* a queue that records nothing runs it */
    assert_int_equal(pthread_create(&t, NULL, other_thread, &good), 0);
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_true(good);
    ok(v->capture_end(q, &g, &err));
    download(&found[0], &gs.a, 4);
    assert_int_equal(found[0], 0x11111111);
    ok(v->synchronise(gs.other, &err));
    download(&found[1], &gs.b, 4);
    assert_int_equal(found[1], 0x33333333);
    ok(v->graph_replay(q, g, &err));
    download(&found[0], &gs.a, 4);
    assert_int_equal(found[0], 0x22222222);
    ok(v->graph_destroy(g, &err));
    gs_close();
}

/* Memory is read when the graph runs; replays of one graph follow one another on whatever queue; destroying waits. */
static void replays(void **s) {
    (void)s;
    if (!r->graphs) return;
    gs_open();
    enum { TIMES = 9, LONG = 60 };
    och_graph *g;
    uint32_t *host = gs.pinned.host, found[G_N];
    put_args args = {gs.b.addr.value, G_N, 0};
    ok(v->capture_begin(q, &err));
    ok(v->copy_to_device(q, gs.a.addr, host, G_N * 4, &err));
    ok(v->copy(q, gs.b.addr, gs.a.addr, G_N * 4, &err));
    if (gs.m) launch(gs.twice, G_N, &args, 12);
    ok(v->copy_to_host(q, host, gs.b.addr, G_N * 4, &err));
    memset(&args, 0xFF, sizeof args); /* they were copied */
    ok(v->capture_end(q, &g, &err));
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < G_N; i++) host[i] = i + (uint32_t)round * 1000;
        ok(v->graph_replay(q, g, &err));
        ok(v->synchronise(q, &err));
        for (uint32_t i = 0; i < G_N; i++) assert_int_equal(host[i], (i + (uint32_t)round * 1000) * (gs.m ? 2 : 1));
    }
    for (uint32_t i = 0; i < G_N; i++) host[i] = i;
    for (int k = 0; k < TIMES; k++) ok(v->graph_replay(k % 2 ? gs.other : q, g, &err));
    ok(v->synchronise(q, &err));
    ok(v->synchronise(gs.other, &err));
    for (uint32_t i = 0; gs.m && i < G_N; i++) assert_int_equal(host[i], i << TIMES);
    och_device *again;
    och_queue *there;
    ok(och_device_open(r->name, NULL, &again, &err));
    ok(again->vtable->queue_create(again, &there, &err));
    assert_int_equal(again->vtable->graph_replay(there, g, &err), OCH_INVALID);
    assert_non_null(strstr(err.message, "belongs to"));
    och_err_clear(&err);
    again->vtable->queue_destroy(there);
    och_device_release(again);
    assert_int_equal(v->graph_replay(q, NULL, &err), OCH_INVALID);
    och_err_clear(&err);
    ok(v->graph_destroy(g, &err));
    ok(v->graph_destroy(NULL, &err));

    args = (put_args){gs.b.addr.value, G_N, 5};
    ok(v->fill(q, gs.b.addr, 0, G_N * 4, &err));
    ok(v->synchronise(q, &err)); /* the replay is on another queue */
    host[G_N - 1] = 0;
    ok(v->capture_begin(q, &err));
    for (int k = 0; k < LONG; k++) {
        if (gs.m) launch(gs.put, G_N, &args, sizeof args);
        else ok(v->fill(q, gs.b.addr, 5, G_N * 4, &err));
    }
    ok(v->copy_to_host(q, host, gs.b.addr, G_N * 4, &err));
    ok(v->capture_end(q, &g, &err));
    ok(v->graph_replay(gs.other, g, &err));
    ok(v->graph_destroy(g, &err)); /* in flight: nothing else is waited for */
    assert_int_equal(host[G_N - 1], gs.m ? (G_N - 1) * 3 + 5 : 0x05050505);
    ok(v->synchronise(gs.other, &err));
    download(found, &gs.b, G_N * 4);
    for (uint32_t i = 0; i < G_N; i++) assert_int_equal(found[i], host[i]);
    gs_close();
}

#endif
