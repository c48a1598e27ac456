/* One step: checks, state, inputs, the plan's records, logits. */
#include "base/log.h"
#include "base/size.h"
#include "base/thread.h"
#include "dev/trace.h"
#include "engine/finite.h"
#include "engine/session.h"
#include "op/registry.h"

#include <string.h>

typedef struct step {
    int64_t n_tokens, n_outputs;
    uint32_t n_copies;
} step;

/* What is given to the device for a step: as many rows as the step has, or as its bucket has. */
typedef struct work {
    och_session *s;
    const och_plan_layout *layout;
    och_op_ctx ctx;
    och_plan_extent extent;
    int64_t n_runs; /* of tokens, each of one sequence */
    bool sample; /* the device chooses tokens, and they are what comes out, instead of logits */
    uint64_t input_bytes, out_bytes;
} work;

static och_status check_spans(och_session *s, const och_span *spans, size_t n_spans, step *st, och_err *err) {
    const och_session_options *o = &s->options;
    for (size_t i = 0; i < n_spans; i++) {
        const och_span *p = &spans[i];
        if (p->sequence < 0 || p->sequence >= o->max_sequences || !s->sequences[p->sequence])
            return och_err_set(err, OCH_INVALID, "step, span %zu: expected the id of a sequence of the session, found %d", i, p->sequence);
        size_t j = s->span_of[p->sequence]; /* of this step only if that span says so */
        if (j < i && spans[j].sequence == p->sequence)
            return och_err_set(err, OCH_INVALID, "step, span %zu: sequence %d is in span %zu already", i, p->sequence, j);
        s->span_of[p->sequence] = i;
        if (p->n_tokens < 1 || !p->tokens)
            return och_err_set(err, OCH_INVALID, "step, span %zu: expected at least one token, found %d", i, p->n_tokens);
        if (p->logits < 0 || p->logits > 2)
            return och_err_set(err, OCH_INVALID, "step, span %zu: logits: expected none, last or all, found %d", i, p->logits);
        if (p->n_tokens > o->max_step_tokens - st->n_tokens)
            return och_err_set(err, OCH_RANGE, "step: expected at most %d tokens (max_step_tokens), found more at span %zu",
                               o->max_step_tokens, i);
        int64_t outputs = p->logits == 0 ? 0 : p->logits == 1 ? 1 : p->n_tokens;
        if (outputs > o->max_logits - st->n_outputs)
            return och_err_set(err, OCH_RANGE, "step: expected at most %d rows of logits (max_logits), found more at span %zu",
                               o->max_logits, i);
        for (int32_t t = 0; t < p->n_tokens; t++)
            if (p->tokens[t] < 0 || p->tokens[t] >= s->model->config.n_vocab)
                return och_err_set(err, OCH_RANGE, "step, span %zu, token %d: expected an id of 0 to %d, found %d", i, t,
                                   s->model->config.n_vocab - 1, p->tokens[t]);
        st->n_tokens += p->n_tokens;
        st->n_outputs += outputs;
    }
    return OCH_OK;
}

/* Room for the new positions. A sequence has its fresh blocks from here on, whether the step succeeds or not: their copies
 * are made even when a later span is refused. */
static och_status reserve(och_session *s, const och_span *spans, size_t n_spans, step *st, och_err *err) {
    for (size_t i = 0; i < n_spans; i++) {
        och_kv_seq *seq = s->sequences[spans[i].sequence];
        uint32_t n = 0;
        och_status status = och_kv_seq_reserve(seq, (uint32_t)spans[i].n_tokens, s->copies + st->n_copies,
                                               s->copies_capacity - st->n_copies, &n, err);
        if (status != OCH_OK) {
            och_err_prefix(err, "step, span %zu (sequence %d)", i, spans[i].sequence);
            return status;
        }
        st->n_copies += n;
    }
    return OCH_OK;
}

static och_status copy_blocks(och_session *s, const step *st, och_err *err) {
    for (uint32_t i = 0; i < st->n_copies; i++) {
        const och_kv_copy *c = &s->copies[i];
        for (int g = 0; g < 2; g++) {
            const och_state_group *sg = &s->groups[g];
            if (!sg->used || sg->kv_index != c->group) continue;
            uint64_t area = och_kv_pool_blocks(sg->pool) * sg->block_bytes;
            for (uint64_t at = 0; at < sg->buf.size_bytes; at += area) /* K and V of each layer */
                OCH_TRY(s->model->device->vtable->copy(s->queue, och_dev_addr_add(sg->buf.addr, at + (uint64_t)c->dst * sg->block_bytes),
                                                       och_dev_addr_add(sg->buf.addr, at + (uint64_t)c->src * sg->block_bytes),
                                                       sg->block_bytes, err));
        }
    }
    return OCH_OK;
}

static void *input(och_session *s, int which) {
    void *base = s->staging.host ? s->staging.host : s->inputs.host;
    return (char *)base + s->in[which].offset_bytes;
}

static void write_tables(och_session *s, const och_span *spans, size_t n_spans) {
    for (int g = 0; g < 2; g++) {
        const och_state_group *sg = &s->groups[g];
        if (!sg->used) continue;
        for (size_t i = 0; i < n_spans; i++) {
            uint32_t len;
            const int32_t *table = och_kv_seq_table(s->sequences[spans[i].sequence], sg->kv_index, &len);
            memcpy((int32_t *)input(s, OCH_IN_TABLES + g) + (size_t)spans[i].sequence * sg->table_len, table, len * sizeof *table);
        }
    }
}

static void write_tokens(och_session *s, const och_span *spans, size_t n_spans) {
    int32_t *tokens = input(s, OCH_IN_TOKENS), *positions = input(s, OCH_IN_POSITIONS), *seqs = input(s, OCH_IN_SEQS),
            *out_rows = input(s, OCH_IN_OUT_ROWS);
    int64_t at = 0, out = 0;
    for (size_t i = 0; i < n_spans; i++) {
        const och_span *p = &spans[i];
        const och_kv_seq *seq = s->sequences[p->sequence];
        int32_t first = (int32_t)och_kv_seq_length(seq);
        for (int32_t t = 0; t < p->n_tokens; t++, at++) {
            int32_t position = first + t;
            tokens[at] = p->tokens[t];
            positions[at] = position;
            seqs[at] = p->sequence;
            for (int g = 0; g < 2; g++) {
                const och_state_group *sg = &s->groups[g];
                if (!sg->used) continue;
                uint32_t len;
                const int32_t *table = och_kv_seq_table(seq, sg->kv_index, &len);
                int32_t block = table[(uint32_t)position / OCH_BLOCK_TOKENS % len];
                ((int32_t *)input(s, OCH_IN_SLOTS + g))[at] = block * OCH_BLOCK_TOKENS + position % OCH_BLOCK_TOKENS;
                och_rope_row(&s->rope[g], position, (float *)input(s, OCH_IN_ROPE + g) + at * s->rope[g].dim);
            }
            if (p->logits == 2 || (p->logits == 1 && t == p->n_tokens - 1)) out_rows[out++] = (int32_t)at;
        }
    }
}

static void write_choice(och_session *s, int64_t row, const och_sampler_params *p, uint64_t position) {
    float *numbers = (float *)input(s, OCH_IN_NUMBERS) + row * OCH_SAMPLE_N_NUMBERS;
    uint32_t *draws = (uint32_t *)input(s, OCH_IN_DRAWS) + row * OCH_SAMPLE_N_DRAWS;
    numbers[OCH_SAMPLE_TEMPERATURE] = p->temperature;
    numbers[OCH_SAMPLE_TOP_P] = p->top_p;
    numbers[OCH_SAMPLE_MIN_P] = p->min_p;
    draws[OCH_SAMPLE_TOP_K] = (uint32_t)p->top_k;
    draws[OCH_SAMPLE_SEED] = (uint32_t)p->seed;
    draws[OCH_SAMPLE_SEED + 1] = (uint32_t)(p->seed >> 32);
    draws[OCH_SAMPLE_POSITION] = (uint32_t)position;
    draws[OCH_SAMPLE_POSITION + 1] = (uint32_t)(position >> 32);
}

/* The place of the token to come after a span. */
static uint64_t next_position(const och_session *s, const och_span *p) {
    return (uint64_t)och_kv_seq_length(s->sequences[p->sequence]) + (uint64_t)p->n_tokens;
}

/* Each span has a row at most; a bucket's padding is sampled greedily. */
static void write_choices(och_session *s, const och_span *spans, size_t n_spans, const och_choice *choices) {
    const och_sampler_params greedy = och_sampler_defaults();
    int64_t row = 0;
    for (size_t i = 0; i < n_spans; i++)
        if (spans[i].logits) write_choice(s, row++, &choices[i].params, next_position(s, &spans[i]));
    while (row < s->in_outputs) write_choice(s, row++, &greedy, 0);
}

/* Rows that a bucket has and the step has not: tokens of no sequence. */
static void write_padding(och_session *s, const step *st) {
    int32_t *tokens = input(s, OCH_IN_TOKENS), *positions = input(s, OCH_IN_POSITIONS), *seqs = input(s, OCH_IN_SEQS),
            *out_rows = input(s, OCH_IN_OUT_ROWS);
    for (int64_t at = st->n_tokens; at < s->in_tokens; at++) {
        tokens[at] = positions[at] = 0;
        seqs[at] = -1;
        for (int g = 0; g < 2; g++) {
            if (!s->groups[g].used) continue;
            ((int32_t *)input(s, OCH_IN_SLOTS + g))[at] = -1;
            memset((float *)input(s, OCH_IN_ROPE + g) + at * s->rope[g].dim, 0, (size_t)s->rope[g].dim * sizeof(float));
        }
    }
    for (int64_t at = st->n_outputs; at < s->in_outputs; at++) out_rows[at] = (int32_t)at;
}

/* The smallest layout that holds the step, and what its records are run with. */
static och_status prepare(och_session *s, work *w, och_err *err) {
    for (int i = 0; i < s->plan.n_layouts && !w->layout; i++)
        if (s->plan.layouts[i].max_tokens >= w->extent.tokens && s->plan.layouts[i].max_outputs >= w->extent.outputs)
            w->layout = &s->plan.layouts[i];
    if (!w->layout) return och_err_set(err, OCH_INTERNAL, "step: no layout for %lld tokens", (long long)w->extent.tokens);
    const char *only = s->model->only;
    w->ctx = (och_op_ctx){.queue = s->queue, .scratch = s->scratch.host, .scratch_addr = s->scratch.addr,
                          .scratch_bytes = s->counters_at, .batch_invariant = s->options.batch_invariant,
                          .n_runs = w->n_runs, .reference_asked = only && !strcmp(only, "reference"), .n_launches = &s->stats.launches,
                          .counters = och_dev_addr_add(s->scratch.addr, s->counters_at)};
    /* A kernel that did not come to its end has not set its counters back. */
    if (s->step_failed) OCH_TRY(och_session_clear_counters(s, err));
    s->step_failed = false;
    return OCH_OK;
}

/* From the inputs that the host has written to the logits, or the tokens: what a graph records. */
static int n_records(const work *w) {
    const och_session *s = w->s;
    return s->sample_record < 0 || w->sample ? s->plan.n_ops : s->sample_record;
}

static och_status give(void *user, och_err *err) {
    const work *w = user;
    och_session *s = w->s;
    const och_device_vtable *v = s->model->device->vtable;
    if (s->staging.host) OCH_TRY(v->copy_to_device(s->queue, s->inputs.addr, s->staging.host, w->input_bytes, err));
    for (int i = 0; i < n_records(w); i++) {
        och_op_call call;
        och_plan_call(&s->plan, w->layout, i, w->extent, s->arena.addr, s->arena.host, &call);
        och_status status = och_plan_run(&s->plan, i, &w->ctx, &call, err);
        if (status != OCH_OK) {
            och_err_prefix(err, "step, record %d, layer %d", i, s->plan.ops[i].layer);
            return status;
        }
    }
    const och_buf *pinned = w->sample ? &s->ids_pinned : &s->logits_pinned;
    if (!pinned->host || !w->extent.outputs) return OCH_OK;
    return v->copy_to_host(s->queue, pinned->host, w->sample ? s->ids.addr : s->logits.addr, w->out_bytes, err);
}

/* Replays count the calls that they stand for. */
static och_status replay(och_session *s, const work *w, och_bucket *b, bool counted, och_err *err) {
    OCH_TRY(s->model->device->vtable->graph_replay(s->queue, b->graph, err));
    s->stats.replays++;
    s->stats.graph_launches += b->n_launches;
    if (counted || !och_op_stats_counting()) return OCH_OK;
    for (int i = 0; i < n_records(w); i++) {
        och_op_call call;
        och_plan_call(&s->plan, w->layout, i, w->extent, s->arena.addr, s->arena.host, &call);
        och_op_stats_count(&w->ctx, s->plan.ops[i].provider, &call, 0.0);
    }
    return OCH_OK;
}

static och_status give_or_replay(och_session *s, work *w, och_bucket *b, och_err *err) {
    /* to time each op is to wait for each */
    if (!b || !s->graphs.used || och_op_stats_timing()) return give(w, err);
    if (b->state == OCH_BUCKET_CAPTURED) return replay(s, w, b, false, err);
    if (b->state == OCH_BUCKET_WARM) {
        och_err why;
        och_err_clear(&why);
        if (och_graphs_capture(s, b, give, w, &why) == OCH_OK) return replay(s, w, b, true, err);
        och_log(OCH_LOG_WARN, "%s%s", why.message, b->state == OCH_BUCKET_REFUSED ? "; its steps are not recorded from here on" : "");
    }
    OCH_TRY(give(w, err));
    if (b->state == OCH_BUCKET_COLD) b->state = OCH_BUCKET_WARM;
    return OCH_OK;
}

/* What is there when the step's work is done, and how long the host did nothing but wait for it. */
static och_status finish(och_session *s, const work *w, double *out_waited, och_err *err) {
    const och_device_vtable *v = s->model->device->vtable;
    double begin = och_now_seconds();
    if (!w->sample && s->logits_host && !s->logits_pinned.host && w->extent.outputs)
        OCH_TRY(v->copy_to_host(s->queue, s->logits_host, s->logits.addr, w->out_bytes, err));
    OCH_TRY(v->synchronise(s->queue, err));
    *out_waited = och_now_seconds() - begin;
    return OCH_OK;
}

/* A step that a graph may be: one token of each sequence, and its logits. */
static bool decodes(const och_span *spans, size_t n_spans) {
    for (size_t i = 0; i < n_spans; i++)
        if (spans[i].n_tokens != 1 || !spans[i].logits) return false;
    return true;
}

/* Whether the device can choose all of a step's tokens: what looks back on a history, it cannot. */
static bool device_chooses(const och_session *s, const och_span *spans, size_t n_spans, const och_choice *choices) {
    if (!choices || s->sample_record < 0) return false;
    for (size_t i = 0; i < n_spans; i++)
        if (spans[i].logits && och_sampler_penalises(&choices[i].params, choices[i].n_history)) return false;
    return true;
}

/* The tokens of a step's spans, from what the device chose or from its logits. */
static och_status choose(och_session *s, bool sampled, const och_span *spans, size_t n_spans, const och_choice *choices,
                         int32_t *out_tokens, och_err *err) {
    const int32_t *ids = s->ids.host ? s->ids.host : s->ids_pinned.host;
    size_t row = 0;
    for (size_t i = 0; i < n_spans; i++) {
        if (!spans[i].logits) continue;
        if (sampled) out_tokens[i] = ids[row];
        else OCH_TRY(och_session_sample_row(s, row, &choices[i], next_position(s, &spans[i]), &out_tokens[i], err));
        row++;
    }
    *(sampled ? &s->stats.device_samples : &s->stats.host_samples) += row;
    return OCH_OK;
}

/* choices NULL: the step is for its logits. */
static och_status run(och_session *s, const och_span *spans, size_t n_spans, const och_choice *choices, int32_t *out_tokens, step *st,
                      double *out_waited, och_err *err) {
    och_status reserved = reserve(s, spans, n_spans, st, err);
    OCH_TRY(copy_blocks(s, st, err));
    OCH_TRY(reserved);
    s->n_out_rows = 0;
    bool sample = st->n_outputs && device_chooses(s, spans, n_spans, choices);
    och_bucket *b = decodes(spans, n_spans) ? och_graphs_bucket(s, st->n_tokens, sample) : NULL;
    s->stats.decode_steps += b != NULL;
    bool padded = b && s->graphs.used;
    work w = {.s = s, .sample = sample, .n_runs = padded ? b->rows : (int64_t)n_spans,
              .extent = {padded ? b->rows : st->n_tokens, padded ? b->rows : st->n_outputs, s->options.max_sequences}};
    w.input_bytes = och_session_place_inputs(s, w.extent.tokens, w.extent.outputs);
    w.out_bytes = (uint64_t)w.extent.outputs * (sample ? 4 : (uint64_t)s->model->config.n_vocab * 4);
    write_tables(s, spans, n_spans);
    write_tokens(s, spans, n_spans);
    write_padding(s, st);
    if (sample) write_choices(s, spans, n_spans, choices);
    OCH_TRY(prepare(s, &w, err));
    OCH_TRY(give_or_replay(s, &w, b, err));
    OCH_TRY(finish(s, &w, out_waited, err));
    if (s->staging.host) s->stats.bytes_in += w.input_bytes;
    if (sample ? s->ids_pinned.host : s->logits_host) s->stats.bytes_out += w.out_bytes;
    OCH_TRY(och_step_check_finite(s, &w.ctx, w.layout, &w.extent, st->n_outputs, sample, err));
    if (!sample) s->n_out_rows = st->n_outputs;
    och_status status = choices ? choose(s, sample, spans, n_spans, choices, out_tokens, err) : OCH_OK;
    for (size_t i = 0; status == OCH_OK && i < n_spans; i++)
        status = och_kv_seq_commit(s->sequences[spans[i].sequence], (uint32_t)spans[i].n_tokens, err);
    if (choices || status != OCH_OK) s->n_out_rows = 0;
    return status;
}

static void count(och_session *s, const och_step_stats *before, double seconds, double waited) {
    och_step_stats *n = &s->stats, d;
    n->steps++;
    n->seconds += seconds;
    n->host_seconds += seconds - waited;
    d = (och_step_stats){1, n->decode_steps - before->decode_steps, n->captures - before->captures, n->replays - before->replays,
                         n->refusals - before->refusals, n->launches - before->launches, n->graph_launches - before->graph_launches,
                         n->device_samples - before->device_samples, n->host_samples - before->host_samples,
                         n->bytes_in - before->bytes_in, n->bytes_out - before->bytes_out, seconds - waited, seconds};
    och_step_stats_add(&d);
}

static och_status make_step(och_session *s, const och_span *spans, size_t n_spans, const och_choice *choices, int32_t *out_tokens,
                            och_err *err) {
    step st = {0};
    double traced = och_trace_begin();
    if (!n_spans) return och_err_set(err, OCH_INVALID, "step: expected at least one span, found none");
    if (s->model->measured) return och_err_set(err, OCH_INVALID, "step: expected a loaded model, found one opened to be measured");
    OCH_TRY(check_spans(s, spans, n_spans, &st, err));
    och_step_stats before = s->stats;
    double begin = och_now_seconds(), waited = 0.0;
    och_status status = run(s, spans, n_spans, choices, out_tokens, &st, &waited, err);
    count(s, &before, och_now_seconds() - begin, waited);
    och_trace_end(traced, "step", "step of %lld tokens", (long long)st.n_tokens);
    if (status == OCH_OK) return OCH_OK;
    s->step_failed = true;
    /* Blocks that were reserved go back, so that other sequences can have them. Cutting to the present length drops no
     * position, and so is never refused. */
    for (size_t i = 0; i < n_spans; i++) {
        och_kv_seq *seq = s->sequences[spans[i].sequence];
        if (och_kv_seq_truncate(seq, och_kv_seq_length(seq), NULL) != OCH_OK) return OCH_INTERNAL;
    }
    return status;
}

och_status och_session_step(och_session *s, const och_span *spans, size_t n_spans, och_err *err) {
    return make_step(s, spans, n_spans, NULL, NULL, err);
}

och_status och_session_step_sample(och_session *s, const och_span *spans, size_t n_spans, const och_choice *choices, int32_t *out_tokens,
                                   och_err *err) {
    for (size_t i = 0; i < n_spans; i++) {
        out_tokens[i] = -1;
        if (spans[i].logits != 0 && spans[i].logits != 1)
            return och_err_set(err, OCH_INVALID, "step, span %zu: logits: expected none or last where a token is chosen, found %d", i,
                               spans[i].logits);
        och_status st = spans[i].logits ? och_sampler_validate(&choices[i].params, err) : OCH_OK;
        if (st != OCH_OK) {
            och_err_prefix(err, "step, span %zu", i);
            return st;
        }
    }
    och_status st = make_step(s, spans, n_spans, choices, out_tokens, err);
    for (size_t i = 0; st != OCH_OK && i < n_spans; i++) out_tokens[i] = -1;
    return st;
}

och_status och_session_sample_row(och_session *s, size_t row, const och_choice *choice, uint64_t position, int32_t *out_token,
                                  och_err *err) {
    size_t rows;
    uint32_t id = 0, vocab = (uint32_t)s->model->config.n_vocab;
    const float *logits = och_session_logits(s, &rows);
    if (row >= rows) return och_err_set(err, OCH_RANGE, "sample: expected a row below %zu, found %zu", rows, row);
    OCH_TRY(och_sample(&choice->params, logits + row * vocab, vocab, choice->history, choice->n_history, position, s->sampler_scratch,
                       s->sampler_scratch_bytes, &id, err));
    *out_token = (int32_t)id;
    return OCH_OK;
}
