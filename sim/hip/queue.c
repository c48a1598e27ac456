/* Streams as queues with a host thread each. A command runs when those before it in its stream have ended and every signal
 * it waits for is done; what it waits for was submitted before it, so that no two commands wait for each other. */
#include "hip/hip.h"

#include "exec/pool.h"
#include "hip/graph.h"

#include <string.h>
#include <time.h>

uint64_t sim_clock_ns(sim_device *d) {
    if (sim_hip.count_clock) return atomic_load(&d->ticks);
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool ready(const sim_cmd *c) {
    for (size_t i = 0; i < c->n_waits; i++)
        if (!c->waits[i]->done) return false;
    return true;
}

static void cmd_free(sim_cmd *c) {
    for (size_t i = 0; i < c->n_waits; i++) sim_signal_unref(c->waits[i]);
    sim_op_unref(c->op);
    if (c->run) sim_graph_run_free(c->run);
    sim_signal_unref(c->signal);
    och_free(c);
}

/* Runs c; lock held, given up meanwhile. */
static void run_cmd(sim_stream *s, sim_cmd *c) {
    hipError_t e = s->dev->broken;
    c->signal->begin_ns = sim_clock_ns(s->dev);
    if (e == hipSuccess) {
        pthread_mutex_unlock(&sim_hip.lock);
        e = c->run ? sim_graph_run_all(c->run, s) : sim_op_run(c->op, s);
        pthread_mutex_lock(&sim_hip.lock);
        if (e != hipSuccess) sim_device_break(s->dev, e);
    } else if (c->op && c->op->kind == SIM_OP_CALLBACK) {
        /* a callback hears of the error, as HIP promises */
        pthread_mutex_unlock(&sim_hip.lock);
        c->op->u.callback.fn(c->op->u.callback.stream, e, c->op->u.callback.user);
        pthread_mutex_lock(&sim_hip.lock);
    }
    c->signal->end_ns = sim_clock_ns(s->dev);
    c->signal->done = true;
    cmd_free(c);
    pthread_cond_broadcast(&sim_hip.done);
}

static void stream_free(sim_stream *s) {
    for (size_t i = 0; i < s->n_pending; i++) sim_signal_unref(s->pending[i]);
    och_free(s->pending);
    och_free(s->tips);
    sim_signal_unref(s->last);
    pthread_cond_destroy(&s->work);
    if (s->kernarg_addr) {
        och_err err;
        och_err_clear(&err);
        if (sim_space_free(sim_hip.space, s->kernarg_addr, &err) != OCH_OK) och_log(OCH_LOG_WARN, "%s", err.message);
    }
    och_free(s);
}

static void *stream_main(void *arg) {
    sim_stream *s = arg;
    pthread_mutex_lock(&sim_hip.lock);
    for (;;) {
        while (!s->head && !s->quit) pthread_cond_wait(&s->work, &sim_hip.lock);
        if (!s->head) break;
        while (!ready(s->head)) pthread_cond_wait(&sim_hip.done, &sim_hip.lock);
        sim_cmd *c = s->head;
        s->head = c->next;
        if (!s->head) s->tail = NULL;
        run_cmd(s, c);
    }
    stream_free(s);
    pthread_mutex_unlock(&sim_hip.lock);
    return NULL;
}

hipError_t sim_stream_new(sim_device *dev, unsigned flags, int priority, sim_stream **out) {
    sim_stream *s = och_calloc(1, sizeof *s);
    if (!s) return hipErrorOutOfMemory;
    s->dev = dev;
    s->flags = flags;
    s->priority = priority;
    s->id = ++sim_hip.next_id;
    pthread_cond_init(&s->work, NULL);
    if (!sim_handle_add(s, SIM_H_STREAM)) {
        stream_free(s);
        return hipErrorOutOfMemory;
    }
    *out = s;
    return hipSuccess;
}

/* The thread ends the stream once its queue is empty; without a thread it ends here. */
void sim_stream_release(sim_stream *s) {
    if (s->capture) sim_capture_drop_stream(s);
    sim_handle_remove(s);
    s->destroyed = true;
    for (sim_stream **p = &s->dev->streams; *p; p = &(*p)->next_of_device)
        if (*p == s) {
            *p = s->next_of_device;
            break;
        }
    sim_stream_wait(s);
    if (s->has_thread) {
        s->quit = true;
        pthread_cond_signal(&s->work);
    } else stream_free(s);
}

hipError_t sim_stream_resolve(hipStream_t h, sim_stream **out) {
    sim_thread *t = sim_thread_get();
    if (!t) return hipErrorOutOfMemory;
    sim_device *d = sim_device_at(t->device);
    if (!d) return hipErrorNoDevice;
    bool own = h == hipStreamPerThread || (!h && t->spt > 0);
    if (own) {
        if (!t->own && !(t->own = och_calloc(SIM_HIP_MAX_DEVICES, sizeof *t->own))) return hipErrorOutOfMemory;
        sim_stream **s = &t->own[d->ordinal];
        if (!*s) {
            hipError_t e = sim_stream_new(d, 0, 0, s);
            if (e != hipSuccess) return e;
            (*s)->per_thread = true;
            (*s)->next_of_device = d->streams;
            d->streams = *s;
        }
        *out = *s;
        return hipSuccess;
    }
    if (!h || h == hipStreamLegacy) {
        if (!d->null_stream) {
            hipError_t e = sim_stream_new(d, 0, 0, &d->null_stream);
            if (e != hipSuccess) return e;
        }
        *out = d->null_stream;
        return hipSuccess;
    }
    if (!sim_handle_is(h, SIM_H_STREAM)) return hipErrorContextIsDestroyed;
    *out = h;
    return hipSuccess;
}

bool sim_add_pending(sim_stream *s, sim_signal *signal) {
    if (!signal || signal->done) return true;
    sim_signal **p = och_realloc_array(s->pending, s->n_pending + 1, sizeof *p);
    if (!p) return false;
    s->pending = p;
    p[s->n_pending++] = sim_signal_ref(signal);
    return true;
}

static bool blocking(const sim_stream *s) { return !(s->flags & hipStreamNonBlocking); }

/* What the null stream's implicit order adds: it waits for all blocking streams, and they wait for it. */
static bool add_implicit(sim_stream *s) {
    sim_device *d = s->dev;
    if (s == d->null_stream) {
        for (sim_stream *o = d->streams; o; o = o->next_of_device)
            if (blocking(o) && !sim_add_pending(s, o->last)) return false;
        return true;
    }
    return !blocking(s) || !d->null_stream || sim_add_pending(s, d->null_stream->last);
}

/* Queues a command of op or run (taken on success alone). Lock held. */
static hipError_t enqueue(sim_stream *s, sim_op *op, struct sim_graph_run *run, sim_signal **out_signal) {
    if (!add_implicit(s)) return hipErrorOutOfMemory;
    sim_cmd *c = och_calloc(1, sizeof *c + s->n_pending * sizeof *c->waits);
    sim_signal *signal = sim_signal_new();
    if (!c || !signal) {
        och_free(c);
        sim_signal_unref(signal);
        return hipErrorOutOfMemory;
    }
    if (!sim_deterministic() && !s->has_thread) {
        pthread_attr_t attr;
        pthread_attr_init(&attr);
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        int rc = pthread_create(&s->thread, &attr, stream_main, s);
        pthread_attr_destroy(&attr);
        if (rc) {
            och_free(c);
            sim_signal_unref(signal);
            return hipErrorOutOfMemory;
        }
        s->has_thread = true;
    }
    c->op = op;
    c->run = run;
    c->signal = signal;
    c->n_waits = s->n_pending;
    if (s->n_pending) memcpy(c->waits, s->pending, s->n_pending * sizeof *c->waits);
    s->n_pending = 0;
    sim_signal_unref(s->last);
    s->last = sim_signal_ref(signal);
    if (out_signal) *out_signal = sim_signal_ref(signal);
    if (op && op->kind == SIM_OP_KERNEL) {
        if (op->u.kernel.start) sim_event_set(op->u.kernel.start, s, signal, true);
        if (op->u.kernel.stop) sim_event_set(op->u.kernel.stop, s, signal, false);
    }
    if (op && op->kind == SIM_OP_RECORD) sim_event_set(op->u.event, s, signal, false);
    if (sim_deterministic()) {
        while (s->running || !ready(c)) pthread_cond_wait(&sim_hip.done, &sim_hip.lock);
        s->running = true;
        run_cmd(s, c);
        s->running = false;
        pthread_cond_broadcast(&sim_hip.done);
        return hipSuccess;
    }
    if (s->tail) s->tail->next = c;
    else s->head = c;
    s->tail = c;
    pthread_cond_signal(&s->work);
    return hipSuccess;
}

hipError_t sim_submit(sim_stream *s, sim_op *op, sim_signal **out_signal) {
    if (out_signal) *out_signal = NULL;
    if (s->capture) return sim_capture_add(s, op);
    hipError_t e = hipSuccess;
    if (s == s->dev->null_stream) e = sim_capture_implicit(s->dev);
    if (e == hipSuccess) e = enqueue(s, op, NULL, out_signal);
    if (e != hipSuccess) sim_op_unref(op);
    return e;
}

hipError_t sim_submit_wait(sim_stream *s, sim_op *op) {
    if (s->capture) {
        sim_op_unref(op);
        return sim_capture_invalidate(s->capture, hipErrorStreamCaptureUnsupported);
    }
    sim_device *d = s->dev;
    sim_signal *signal;
    hipError_t e = sim_submit(s, op, &signal);
    if (e != hipSuccess) return e;
    sim_wait(signal);
    sim_signal_unref(signal);
    return d->broken;
}

hipError_t sim_submit_run(sim_stream *s, struct sim_graph_run *run) {
    hipError_t e = hipSuccess;
    if (s == s->dev->null_stream) e = sim_capture_implicit(s->dev);
    if (e == hipSuccess) e = enqueue(s, NULL, run, NULL);
    if (e != hipSuccess) sim_graph_run_free(run);
    return e;
}

void sim_wait(sim_signal *s) {
    sim_signal_ref(s);
    while (!s->done) pthread_cond_wait(&sim_hip.done, &sim_hip.lock);
    sim_signal_unref(s);
}

bool sim_stream_idle(const sim_stream *s) {
    for (size_t i = 0; i < s->n_pending; i++)
        if (!s->pending[i]->done) return false;
    return !s->last || s->last->done;
}

void sim_stream_wait(sim_stream *s) {
    sim_signal *last = sim_signal_ref(s->last);
    size_t n = s->n_pending;
    sim_signal **pending = n ? och_malloc_array(n, sizeof *pending) : NULL;
    for (size_t i = 0; pending && i < n; i++) pending[i] = sim_signal_ref(s->pending[i]);
    if (last) sim_wait(last);
    sim_signal_unref(last);
    for (size_t i = 0; pending && i < n; i++) {
        sim_wait(pending[i]);
        sim_signal_unref(pending[i]);
    }
    och_free(pending);
}

void sim_device_wait(sim_device *d) {
    /* streams may come and go while the lock is given up: the signals are collected first */
    size_t n = 1;
    for (sim_stream *s = d->streams; s; s = s->next_of_device) n += 1 + s->n_pending;
    if (d->null_stream) n += d->null_stream->n_pending;
    sim_signal **all = och_malloc_array(n, sizeof *all);
    if (!all) return;
    size_t k = 0;
    for (sim_stream *s = d->null_stream ? d->null_stream : d->streams; s; s = s == d->null_stream ? d->streams
         : s->next_of_device) {
        if (s->last) all[k++] = sim_signal_ref(s->last);
        for (size_t i = 0; i < s->n_pending; i++) all[k++] = sim_signal_ref(s->pending[i]);
    }
    for (size_t i = 0; i < k; i++) {
        sim_wait(all[i]);
        sim_signal_unref(all[i]);
    }
    och_free(all);
}
