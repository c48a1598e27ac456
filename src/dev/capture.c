#include "dev/capture.h"

#include <stdio.h>
#include <string.h>

/* The calling thread's capture; NULL: it records nothing. */
static _Thread_local och_capture *current;

static bool is_open(const och_capture *c) { return __atomic_load_n(&c->open, __ATOMIC_ACQUIRE); }

bool och_capture_records(const och_capture *c) { return current == c; }
bool och_capture_here(void) { return current != NULL; }

/* The queue records for another thread. */
static bool is_others(const och_capture *c) { return c && current != c && is_open(c); }

static och_status refuse_other(const och_capture *c, const char *op, och_err *err) {
    return och_err_set(err, OCH_INVALID, "device %s: %s: the queue records a graph for another thread, which alone may use it until "
                       "then", c->queue->device->info.label, op);
}

void och_capture_abandon(const char *op) {
    och_capture *c = current;
    if (!c) return;
    snprintf(c->ended_by, sizeof c->ended_by, "%s", op);
    current = NULL;
    c->drop(c->queue);
    __atomic_store_n(&c->open, false, __ATOMIC_RELEASE);
}

och_status och_capture_admit(const och_capture *c, const char *op, och_err *err) {
    return is_others(c) ? refuse_other(c, op, err) : OCH_OK;
}

och_status och_capture_refuse(const och_capture *c, const och_device *d, const char *op, och_err *err) {
    if (is_others(c)) return refuse_other(c, op, err);
    if (!current) return OCH_OK;
    och_capture_abandon(op);
    return och_err_set(err, OCH_INVALID, "device %s: %s: this thread records a graph, and this cannot be part of one: the capture is "
                       "abandoned", d->info.label, op);
}

och_status och_capture_result(och_capture *c, const char *op, och_status st) {
    if (st != OCH_OK && current == c) och_capture_abandon(op);
    return st;
}

och_status och_capture_may_begin(och_capture *c, bool wrapped, och_err *err) {
    const char *op = "graph capture begin";
    const och_device *d = c->queue->device;
    OCH_TRY(och_capture_refuse(c, d, op, err));
    if (!wrapped) return OCH_OK;
    return och_err_set(err, OCH_UNSUPPORTED, "device %s: %s: the queue is over a stream of somebody else's, who alone may record it",
                       d->info.label, op);
}

void och_capture_init(och_capture *c, och_queue *q, void (*drop)(och_queue *q)) { *c = (och_capture){.queue = q, .drop = drop}; }

void och_capture_begun(och_capture *c) {
    c->ended_by[0] = 0;
    current = c;
    __atomic_store_n(&c->open, true, __ATOMIC_RELEASE);
}

och_status och_capture_finish(och_capture *c, och_err *err) {
    const och_device *d = c->queue->device;
    if (is_others(c)) return refuse_other(c, "graph capture end", err);
    if (current == c) {
        current = NULL;
        __atomic_store_n(&c->open, false, __ATOMIC_RELEASE);
        return OCH_OK;
    }
    if (!c->ended_by[0])
        return och_err_set(err, OCH_INVALID, "device %s: graph capture end: the queue records none", d->info.label);
    och_err_set(err, OCH_INVALID, "device %s: graph capture end: the capture was abandoned at %s", d->info.label, c->ended_by);
    c->ended_by[0] = 0;
    return OCH_INVALID;
}

static const struct {
    const char *backend, *arch;
    bool use;
    const char *why;
} rows[] = {
#define OCH_GRAPHS(backend, arch, use, why) {backend, arch, use, why},
#include "dev/graphs.def"
#undef OCH_GRAPHS
};

void och_capture_policy(och_dev_info *i) {
    i->graphs_default = false;
    snprintf(i->graphs_reason, sizeof i->graphs_reason, "%s", i->graphs ? "no row of graphs.def is for it" : "the device captures none");
    for (size_t k = 0; i->graphs && k < sizeof rows / sizeof rows[0]; k++)
        if (!strcmp(rows[k].backend, i->backend) && !strncmp(rows[k].arch, i->arch, strlen(rows[k].arch))) {
            i->graphs_default = rows[k].use;
            snprintf(i->graphs_reason, sizeof i->graphs_reason, "%s", rows[k].why);
            return;
        }
}
