/* Runs of `ochre bench`: sessions, what their sequences hold, and the clock. */
#include "main/bench.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/thread.h"
#include "engine/api.h"
#include "engine/api_error.h"

#include <string.h>

static ochre_status grow_tokens(och_bench *b, int32_t n, ochre_error *e) {
    if (n <= b->n_tokens) return OCHRE_OK;
    och_err err = {0};
    int32_t *more = och_malloc_array((size_t)n, sizeof *more);
    if (!more) {
        (void)och_err_nomem(&err, (uint64_t)n * sizeof *more, "tokens");
        return och_api_give(&err, err.status, e);
    }
    uint64_t x = 1; /* Knuth's MMIX generator */
    for (int32_t i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        more[i] = (int32_t)((x >> 33) % (uint64_t)b->info.n_vocab);
    }
    och_free(b->tokens);
    b->tokens = more;
    b->n_tokens = n;
    return OCHRE_OK;
}

static ochre_status close_sequences(och_bench_slot *s, ochre_error *e) {
    while (s->n_sequences) {
        ochre_status st = ochre_sequence_release(s->session, s->sequences[s->n_sequences - 1], e);
        if (st != OCHRE_OK) return st;
        s->n_sequences--;
    }
    return OCHRE_OK;
}

/* Feeds n tokens to a sequence; logits of the last. */
static ochre_status feed(och_bench *b, och_bench_slot *s, int32_t sequence, int32_t n, ochre_error *e) {
    for (int32_t at = 0; at < n; at += b->step_tokens) {
        int32_t k = OCH_MIN(n - at, b->step_tokens);
        ochre_span span = {sequence, b->tokens + at, k, at + k == n ? OCHRE_LOGITS_LAST : OCHRE_LOGITS_NONE};
        ochre_status st = ochre_step(s->session, &span, 1, e);
        if (st != OCHRE_OK) return st;
    }
    return OCHRE_OK;
}

/* Positions that no step has written: their blocks, which hold zeros, are taken and nothing is computed. */
static och_status skip(och_session *s, int32_t sequence, int32_t n, och_err *err) {
    och_kv_seq *seq = s->sequences[sequence];
    for (int32_t at = 0; at < n; at += s->options.max_step_tokens) {
        uint32_t k = (uint32_t)OCH_MIN(n - at, s->options.max_step_tokens), n_copies;
        OCH_TRY(och_kv_seq_reserve(seq, k, s->copies, s->copies_capacity, &n_copies, err)); /* nothing is shared: no copies */
        OCH_TRY(och_kv_seq_commit(seq, k, err));
    }
    return OCH_OK;
}

static och_status clear_state(och_session *s, och_err *err) {
    const och_device_vtable *v = s->model->device->vtable;
    for (int g = 0; g < 2; g++)
        if (s->groups[g].used) OCH_TRY(v->fill(s->queue, s->groups[g].buf.addr, 0, s->groups[g].buf.size_bytes, err));
    return v->synchronise(s->queue, err);
}

/* Sequences as a run finds them. */
static ochre_status open_sequences(och_bench *b, och_bench_slot *s, ochre_error *e) {
    och_session *own = och_api_session(s->session);
    och_err err = {0};
    bool zeros = b->fill == OCH_BENCH_FILL_ZEROS;
    if (zeros && s->of.depth && clear_state(own, &err) != OCH_OK) return och_api_give(&err, err.status, e);
    while (s->n_sequences < s->of.batch) {
        int32_t *id = &s->sequences[s->n_sequences];
        ochre_status st = ochre_sequence_create(s->session, id, e);
        if (st != OCHRE_OK) return st;
        s->n_sequences++;
        if (zeros && skip(own, *id, s->of.depth, &err) != OCH_OK) return och_api_give(&err, err.status, e);
        if (!zeros) st = feed(b, s, *id, s->of.depth, e);
        if (st != OCHRE_OK) return st;
    }
    return OCHRE_OK;
}

/* Back to what a run starts from. A ring that has given its oldest positions away is filled anew. */
static ochre_status rewind_sequences(och_bench *b, och_bench_slot *s, ochre_error *e) {
    ochre_error declined = {0};
    bool kept = s->of.depth > 0 && s->n_sequences == s->of.batch;
    for (int32_t i = 0; kept && i < s->n_sequences; i++)
        kept = ochre_sequence_truncate(s->session, s->sequences[i], s->of.depth, &declined) == OCHRE_OK;
    if (kept) return OCHRE_OK;
    ochre_status st = close_sequences(s, e);
    return st == OCHRE_OK ? open_sequences(b, s, e) : st;
}

static void add_stats(och_step_stats *to, const och_step_stats *from, const och_step_stats *until) {
    to->steps += until->steps - from->steps;
    to->captures += until->captures - from->captures;
    to->replays += until->replays - from->replays;
    to->refusals += until->refusals - from->refusals;
    to->launches += until->launches - from->launches;
    to->graph_launches += until->graph_launches - from->graph_launches;
    to->device_samples += until->device_samples - from->device_samples;
    to->host_samples += until->host_samples - from->host_samples;
    to->bytes_in += until->bytes_in - from->bytes_in;
    to->bytes_out += until->bytes_out - from->bytes_out;
    to->host_seconds += until->host_seconds - from->host_seconds;
    to->seconds += until->seconds - from->seconds;
}

ochre_status och_bench_run(och_bench *b, och_bench_slot *s, double *out_speed, ochre_error *e) {
    *out_speed = 0.0;
    ochre_status st = rewind_sequences(b, s, e);
    bool chooses = och_api_session(s->session)->samples;
    och_step_stats before = och_step_stats_all();
    double t0 = och_now_seconds();
    if (st == OCHRE_OK && !s->of.decode) st = feed(b, s, s->sequences[0], s->of.tokens, e);
    for (int32_t i = 0; s->of.decode && st == OCHRE_OK && i < s->of.tokens; i++) {
        for (int32_t k = 0; k < s->of.batch; k++)
            s->spans[k] = (ochre_span){s->sequences[k], b->tokens + i, 1, OCHRE_LOGITS_LAST};
        st = chooses ? ochre_step_sample(s->session, s->spans, (size_t)s->of.batch, NULL, s->chosen, e)
                     : ochre_step(s->session, s->spans, (size_t)s->of.batch, e);
    }
    double seconds = och_now_seconds() - t0;
    och_step_stats after = och_step_stats_all();
    if (s->of.decode) add_stats(&s->stats, &before, &after);
    *out_speed = (double)s->of.tokens * s->of.batch / seconds;
    return st;
}

static bool same(const och_bench_case *x, const och_bench_case *y) {
    return x->decode == y->decode && x->tokens == y->tokens && x->batch == y->batch && x->depth == y->depth;
}

ochre_status och_bench_prepare(och_bench *b, och_bench_slot *s, const och_bench_case *c, ochre_error *e) {
    if (s->session && same(&s->of, c)) return OCHRE_OK;
    och_bench_slot_deinit(s);
    s->of = *c;
    int32_t longest = c->tokens + c->depth; /* a context that is longer than it has to be would cost time too */
    ochre_status st = grow_tokens(b, longest, e);
    if (st != OCHRE_OK) return st;
    och_err err = {0};
    s->sequences = och_malloc_array((size_t)c->batch, sizeof *s->sequences);
    s->spans = och_malloc_array((size_t)c->batch, sizeof *s->spans);
    s->chosen = och_malloc_array((size_t)c->batch, sizeof *s->chosen);
    if (!s->sequences || !s->spans || !s->chosen) {
        (void)och_err_nomem(&err, (uint64_t)c->batch * sizeof *s->spans, "sequences");
        return och_api_give(&err, err.status, e);
    }
    ochre_session_options o = b->options;
    o.graphs = s->graphs;
    o.max_sequences = c->batch;
    o.max_context = longest;
    o.max_step_tokens = OCH_MAX(OCH_MAX(OCH_MIN(c->decode ? c->depth : c->tokens, b->step_tokens), c->batch), 1);
    st = ochre_session_create(b->model, &o, &s->session, e);
    double ignored;
    if (st == OCHRE_OK) st = och_bench_run(b, s, &ignored, e);
    s->stats = (och_step_stats){0};
    if (st != OCHRE_OK) och_bench_slot_deinit(s);
    return st;
}

void och_bench_slot_deinit(och_bench_slot *s) {
    ochre_session_destroy(s->session);
    och_free(s->sequences);
    och_free(s->spans);
    och_free(s->chosen);
    *s = (och_bench_slot){.graphs = s->graphs};
}

void och_bench_deinit(och_bench *b) {
    och_free(b->tokens);
    b->tokens = NULL;
    b->n_tokens = 0;
}
