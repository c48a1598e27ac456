/* For test_gpu_tune.c: a board whose clock moves by what the test says that each launch costs, as launched or as replayed from a
 * graph. */
#ifndef OCH_TESTS_UNIT_CLOCK_BOARD_H
#define OCH_TESTS_UNIT_CLOCK_BOARD_H

#include "unit/in_child.h"

#include "base/hash.h"
#include "base/size.h"
#include "op/gpu/tune_time.h"

/* ---- a board whose clock is the test's ---- */

static och_device *device;
static och_queue *queue;

#define BASE_US 1000.0 /* so that a round is one turn of the copies */

static struct {
    const och_device_vtable *inner;
    och_device_vtable table;
    double seconds;
    const char *fast; /* part of a kernel's name that costs fast_us; others cost BASE_US */
    double fast_us;
    int n_fast, n_fast_until; /* launches, and how many of them are fast; 0: all */
    double jitter_us;         /* every second reading of the clock is later by so much */
    int n_readings;
    bool skips; /* the fast one does nothing */
    och_hash128 args[8]; /* with which the fast one was launched, each once */
    int n_args;
    bool recording;
    double recorded;
    int n_recorded_fast;
    struct {
        och_graph *graph;
        double seconds;
        int n_fast;
    } graphs[64];
    int n_replays;
} clock_;

static bool is_fast(const char *name) { return clock_.fast && strstr(name, clock_.fast); }
static double cost_of_fast(int n) {
    double us = 0.0;
    for (int i = 0; i < n; i++) us += !clock_.n_fast_until || clock_.n_fast++ < clock_.n_fast_until ? clock_.fast_us : BASE_US;
    return us * 1e-6;
}

static och_status launch(och_queue *q, och_function *f, const och_launch *l, och_err *e) {
    bool fast = is_fast(f->name), known = !fast;
    const och_hash128 args = och_hash_bytes(l->args, l->args_bytes);
    for (int i = 0; i < clock_.n_args; i++) known = known || och_hash_equal(args, clock_.args[i]);
    if (!known && clock_.n_args < (int)OCH_COUNT(clock_.args)) clock_.args[clock_.n_args++] = args;
    if (clock_.recording) {
        clock_.n_recorded_fast += fast;
        clock_.recorded += fast ? 0.0 : BASE_US * 1e-6;
    } else clock_.seconds += fast ? cost_of_fast(1) : BASE_US * 1e-6;
    return fast && clock_.skips ? OCH_OK : clock_.inner->launch(q, f, l, e);
}
static och_status capture_begin(och_queue *q, och_err *e) {
    och_status st = clock_.inner->capture_begin(q, e);
    clock_.recording = st == OCH_OK;
    clock_.recorded = 0.0, clock_.n_recorded_fast = 0;
    return st;
}
static och_status capture_end(och_queue *q, och_graph **out, och_err *e) {
    och_status st = clock_.inner->capture_end(q, out, e);
    clock_.recording = false;
    for (size_t i = 0; st == OCH_OK && i < OCH_COUNT(clock_.graphs); i++) {
        if (clock_.graphs[i].graph) continue;
        clock_.graphs[i].graph = *out;
        clock_.graphs[i].seconds = clock_.recorded, clock_.graphs[i].n_fast = clock_.n_recorded_fast;
        break;
    }
    return st;
}
static och_status graph_replay(och_queue *q, och_graph *g, och_err *e) {
    for (size_t i = 0; i < OCH_COUNT(clock_.graphs); i++)
        if (clock_.graphs[i].graph == g) clock_.seconds += clock_.graphs[i].seconds + cost_of_fast(clock_.graphs[i].n_fast);
    clock_.n_replays++;
    return clock_.inner->graph_replay(q, g, e);
}
static och_status graph_destroy(och_graph *g, och_err *e) {
    for (size_t i = 0; g && i < OCH_COUNT(clock_.graphs); i++)
        if (clock_.graphs[i].graph == g) clock_.graphs[i].graph = NULL;
    return clock_.inner->graph_destroy(g, e);
}
static double now(void *user) {
    (void)user;
    return clock_.seconds + (clock_.n_readings++ % 4 == 1 ? clock_.jitter_us * 1e-6 : 0.0);
}
static int stop_after = -1;
static bool stop(void *user) {
    (void)user;
    return stop_after >= 0 && stop_after-- == 0;
}
static const och_gpu_tune_options options = {.now = now, .stop = stop, .most_copies = 2};

static void open_board(const char *name) {
    OK(och_device_open(name, NULL, &device, &err));
    clock_.inner = device->vtable;
    clock_.table = *device->vtable;
    clock_.table.launch = launch;
    clock_.table.capture_begin = capture_begin, clock_.table.capture_end = capture_end;
    clock_.table.graph_replay = graph_replay, clock_.table.graph_destroy = graph_destroy;
    device->vtable = &clock_.table;
    OK(device->vtable->queue_create(device, &queue, &err));
}
static void close_board(void) {
    device->vtable->queue_destroy(queue);
    device->vtable = clock_.inner;
    och_device_release(device);
}

#endif
