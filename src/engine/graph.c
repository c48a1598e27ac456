#include "engine/graph.h"

#include "base/env.h"
#include "base/log.h"
#include "base/size.h"
#include "engine/session.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define MAX_FAILURES 2

/* ---- counts ---- */

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static och_step_stats all;

void och_step_stats_add(const och_step_stats *m) {
    pthread_mutex_lock(&all_lock);
    all.steps += m->steps;
    all.decode_steps += m->decode_steps;
    all.captures += m->captures;
    all.replays += m->replays;
    all.refusals += m->refusals;
    all.launches += m->launches;
    all.graph_launches += m->graph_launches;
    all.device_samples += m->device_samples;
    all.host_samples += m->host_samples;
    all.bytes_in += m->bytes_in;
    all.bytes_out += m->bytes_out;
    all.host_seconds += m->host_seconds;
    all.seconds += m->seconds;
    pthread_mutex_unlock(&all_lock);
}

och_step_stats och_step_stats_all(void) {
    pthread_mutex_lock(&all_lock);
    och_step_stats s = all;
    pthread_mutex_unlock(&all_lock);
    return s;
}

void och_step_stats_reset(void) {
    pthread_mutex_lock(&all_lock);
    memset(&all, 0, sizeof all);
    pthread_mutex_unlock(&all_lock);
}

/* ---- whether ---- */

/* Why the session's steps cannot be recorded: true, and the reason. */
static bool cannot(const och_session *s, char *out, size_t n_bytes) {
    const och_dev_info *i = &s->model->device->info;
    if (!i->graphs) {
        snprintf(out, n_bytes, "device %s captures none", i->label);
        return true;
    }
    for (int k = 0; k < s->plan.n_ops; k++) {
        const och_op_provider *p = s->plan.ops[k].provider;
        if (p->has_kernels) continue;
        snprintf(out, n_bytes, "record %d of the plan, op %s, is run by provider %s, which launches no kernels", k,
                 och_op_name(s->plan.ops[k].op), p->name);
        return true;
    }
    return false;
}

static void make_buckets(och_session *s) {
    const och_session_options *o = &s->options;
    int64_t most = OCH_MIN(OCH_MIN(o->max_sequences, o->max_logits), OCH_MIN(o->max_step_tokens, OCH_GRAPH_MAX_ROWS));
    for (int64_t rows = 1; s->graphs.n_buckets < OCH_GRAPH_MAX_BUCKETS; rows *= 2) {
        s->graphs.sampling[s->graphs.n_buckets].rows = OCH_MIN(rows, most);
        s->graphs.buckets[s->graphs.n_buckets++].rows = OCH_MIN(rows, most);
        if (rows >= most) return;
    }
}

och_status och_graphs_init(och_session *s, och_graphs_wish wish, och_err *err) {
    och_graphs *g = &s->graphs;
    const och_dev_info *i = &s->model->device->info;
    const char *env = och_env_get(OCH_ENV_OCHRE_GRAPHS);
    char why_not[160];
    make_buckets(s);
    if (wish == OCH_GRAPHS_OFF) {
        snprintf(g->reason, sizeof g->reason, "they were switched off");
    } else if (wish == OCH_GRAPHS_ON) {
        if (!s->model->measured && cannot(s, why_not, sizeof why_not))
            return och_err_set(err, OCH_UNSUPPORTED, "session: graphs were asked for: %s", why_not);
        g->used = true;
        snprintf(g->reason, sizeof g->reason, "they were asked for");
    } else if (env) {
        g->used = och_env_flag(OCH_ENV_OCHRE_GRAPHS);
        snprintf(g->reason, sizeof g->reason, "OCHRE_GRAPHS says so");
    } else {
        g->used = i->graphs_default;
        snprintf(g->reason, sizeof g->reason, "%s: %s", i->label, i->graphs_reason);
    }
    if (g->used && cannot(s, why_not, sizeof why_not)) {
        g->used = false;
        snprintf(g->reason, sizeof g->reason, "%s", why_not);
    }
    och_log(OCH_LOG_DEBUG, "graphs are %s: %s", g->used ? "used" : "not used", g->reason);
    return OCH_OK;
}

void och_graphs_deinit(och_session *s) {
    const och_device_vtable *v = s->model->device->vtable;
    for (int i = 0; i < 2 * s->graphs.n_buckets; i++) {
        och_bucket *b = i % 2 ? &s->graphs.sampling[i / 2] : &s->graphs.buckets[i / 2];
        och_err err;
        och_err_clear(&err);
        if (b->graph && v->graph_destroy(b->graph, &err) != OCH_OK) och_log(OCH_LOG_WARN, "%s", err.message);
        b->graph = NULL;
    }
}

och_bucket *och_graphs_bucket(och_session *s, int64_t n_tokens, bool samples) {
    och_bucket *of = samples ? s->graphs.sampling : s->graphs.buckets;
    for (int i = 0; i < s->graphs.n_buckets; i++)
        if (of[i].rows >= n_tokens) return &of[i];
    return NULL;
}

/* ---- recording ---- */

static och_status record(och_session *s, och_bucket *b, och_status (*give)(void *user, och_err *err), void *user, och_err *err) {
    const och_device_vtable *v = s->model->device->vtable;
    OCH_TRY(v->capture_begin(s->queue, err));
    uint64_t before = s->stats.launches;
    och_status st = give(user, err);
    b->n_launches = s->stats.launches - before;
    s->stats.launches = before;
    if (st == OCH_OK) return v->capture_end(s->queue, &b->graph, err);
    /* The capture is over already unless what failed was no call of the device's. */
    och_err ignored;
    och_graph *rest = NULL;
    och_err_clear(&ignored);
    if (v->capture_end(s->queue, &rest, &ignored) == OCH_OK && v->graph_destroy(rest, &ignored) != OCH_OK)
        och_log(OCH_LOG_WARN, "%s", ignored.message);
    return st;
}

och_status och_graphs_capture(och_session *s, och_bucket *b, och_status (*give)(void *user, och_err *err), void *user,
                              och_err *err) {
    och_status st = record(s, b, give, user, err);
    if (st == OCH_OK) {
        b->state = OCH_BUCKET_CAPTURED;
        s->stats.captures++;
        return OCH_OK;
    }
    s->stats.refusals++;
    b->state = ++b->n_failures < MAX_FAILURES ? OCH_BUCKET_COLD : OCH_BUCKET_REFUSED;
    och_err_prefix(err, "capture of a step of %lld tokens", (long long)b->rows);
    return st;
}
