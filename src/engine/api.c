/* The public C API over the engine. */
#include <ochre/ochre.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/size.h"
#include "engine/api.h"
#include "engine/api_error.h"
#include "engine/sampler.h"

#include <stdatomic.h>
#include <string.h>

_Static_assert((int)OCHRE_INTERNAL == (int)OCH_INTERNAL && (int)OCHRE_IO == (int)OCH_IO && (int)OCHRE_CORRUPT == (int)OCH_CORRUPT,
               "public and internal status codes are the same numbers");
_Static_assert((int)OCHRE_GRAPHS_ON == (int)OCH_GRAPHS_ON && (int)OCHRE_GRAPHS_OFF == (int)OCH_GRAPHS_OFF, "graphs");
_Static_assert(sizeof(((ochre_error *)0)->message) == OCH_ERR_MESSAGE_BYTES, "messages fit");

struct ochre_model {
    _Atomic int refs; /* sessions keep it alive */
    och_model *m;
};

struct ochre_session {
    ochre_model *model; /* retained */
    och_session *s;
    och_span *spans; /* owned, [max_sequences] */
    och_choice *choices; /* the same */
};

const char *ochre_version(void) { return OCHRE_VERSION; }
uint32_t ochre_abi_version(void) { return OCHRE_ABI_VERSION; }
const char *ochre_status_name(ochre_status s) { return och_status_name((och_status)s); }

och_model *och_api_model(ochre_model *model) { return model->m; }
och_session *och_api_session(ochre_session *session) { return session->s; }

static ochre_model *wrap(och_model *m) {
    ochre_model *w = och_calloc(1, sizeof *w);
    if (!w) return NULL;
    atomic_store(&w->refs, 1);
    w->m = m;
    return w;
}

och_status och_api_wrap_model(och_model *m, ochre_model **out_model, och_err *err) {
    *out_model = wrap(m);
    return *out_model ? OCH_OK : och_err_nomem(err, sizeof **out_model, "a model");
}

static och_status open_model(const char *path, const ochre_model_options *options, ochre_model **out_model, och_err *err) {
    ochre_model_options o = OCHRE_MODEL_OPTIONS_INIT;
    OCH_TRY(och_api_need(out_model, "out_model", err));
    *out_model = NULL;
    OCH_TRY(och_api_need(path, "path", err));
    OCH_TRY(och_api_read_options(&o, sizeof o, options, "model options", err));
    och_dev_options dev = {.n_threads = o.n_threads};
    och_device *device;
    OCH_TRY(och_device_open(o.device ? o.device : "auto", &dev, &device, err));
    och_model_options mo = {.only = o.provider ? o.provider : och_env_get(OCH_ENV_OCHRE_OP_ONLY), .progress = o.progress, .user = o.user};
    och_model *m;
    och_status st = och_model_open(path, device, &mo, &m, err);
    och_device_release(device);
    if (st != OCH_OK) return st;
    st = och_api_wrap_model(m, out_model, err);
    if (st != OCH_OK) och_model_close(m);
    return st;
}

ochre_status ochre_model_open(const char *path, const ochre_model_options *options, ochre_model **out_model, ochre_error *error) {
    och_err e;
    och_err_clear(&e);
    return och_api_give(&e, open_model(path, options, out_model, &e), error);
}

void ochre_model_close(ochre_model *model) {
    if (!model || atomic_fetch_sub(&model->refs, 1) != 1) return;
    och_model_close(model->m);
    och_free(model);
}

ochre_status ochre_model_describe(const ochre_model *model, ochre_model_info *info, ochre_error *error) {
    och_err e;
    och_err_clear(&e);
    och_status st = och_api_need(model, "model", &e);
    if (st == OCH_OK) st = och_api_need(info, "info", &e);
    if (st != OCH_OK) return och_api_give(&e, st, error);
    const och_model *m = model->m;
    ochre_model_info full = {
        .size_bytes = info->size_bytes,
        .architecture = m->arch->name,
        .name = m->config.name,
        .device = m->device->info.name,
        .n_parameters = m->n_parameters,
        .weight_bytes = m->weight_bytes,
        .n_layers = m->config.n_layers,
        .d_model = m->config.d_model,
        .n_vocab = m->config.n_vocab,
        .context_length = m->config.context_length,
        .has_tokenizer = m->tok != NULL,
        .has_chat_template = m->tok && och_tok_has_chat(m->tok),
        .bos_id = m->tok ? och_tok_bos(m->tok) : -1,
        .eos_id = m->tok ? och_tok_eos(m->tok) : -1,
    };
    return och_api_give(&e, och_api_write_struct(info, &full, sizeof full, "model info", &e), error);
}

static och_status tokenizer(const ochre_model *model, const och_tok **out_tok, och_err *err) {
    *out_tok = NULL;
    OCH_TRY(och_api_need(model, "model", err));
    if (!model->m->tok) return och_err_set(err, OCH_NOTFOUND, "%s: expected a tokenizer, found none in the model's files", model->m->path);
    *out_tok = model->m->tok;
    return OCH_OK;
}

static och_status give_bytes(const void *src, size_t n, size_t item_bytes, void *dst, size_t capacity, size_t *out_n, const char *what,
                             och_err *err) {
    if (out_n) *out_n = n;
    if (capacity && !dst) return och_err_set(err, OCH_INVALID, "%s: expected a buffer for %zu, found NULL", what, capacity);
    if (OCH_MIN(n, capacity)) memcpy(dst, src, OCH_MIN(n, capacity) * item_bytes);
    if (n > capacity) return och_err_set(err, OCH_RANGE, "%s: expected a buffer for %zu, found one for %zu", what, n, capacity);
    return OCH_OK;
}

/* A flag of a later header, or a word that is none, is not passed over as if it had been understood. */
static och_status encode(const och_tok *tok, const char *text, size_t text_bytes, uint32_t flags, och_tok_ids *out, och_err *err) {
    const uint32_t known = OCHRE_ADD_SPECIAL | OCHRE_PARSE_SPECIAL;
    if (flags & ~known)
        return och_err_set(err, OCH_INVALID, "flags: expected OCHRE_ADD_SPECIAL (%u) and OCHRE_PARSE_SPECIAL (%u) at most, found %u",
                           OCHRE_ADD_SPECIAL, OCHRE_PARSE_SPECIAL, (unsigned)flags);
    return och_tok_encode(tok, text ? text : "", text_bytes, flags, out, err);
}

ochre_status ochre_tokenize(const ochre_model *model, const char *text, size_t text_bytes, uint32_t flags, int32_t *ids,
                            size_t capacity, size_t *out_count, ochre_error *error) {
    och_err e;
    och_err_clear(&e);
    if (out_count) *out_count = 0;
    const och_tok *tok;
    och_tok_ids found;
    och_tok_ids_init(&found);
    och_status st = tokenizer(model, &tok, &e);
    if (st == OCH_OK && text_bytes) st = och_api_need(text, "text", &e);
    if (st == OCH_OK) st = encode(tok, text, text_bytes, flags, &found, &e);
    if (st == OCH_OK) st = give_bytes(found.ids, found.n, sizeof *ids, ids, capacity, out_count, "ids", &e);
    och_tok_ids_deinit(&found);
    return och_api_give(&e, st, error);
}

ochre_status ochre_detokenize(const ochre_model *model, const int32_t *ids, size_t n_ids, char *text, size_t capacity,
                              size_t *out_bytes, ochre_error *error) {
    och_err e;
    och_err_clear(&e);
    if (out_bytes) *out_bytes = 0;
    const och_tok *tok;
    och_strbuf b;
    och_strbuf_init(&b);
    och_status st = tokenizer(model, &tok, &e);
    if (st == OCH_OK && n_ids) st = och_api_need(ids, "ids", &e);
    if (st == OCH_OK) st = och_tok_decode(tok, ids, n_ids, true, &b, &e);
    if (st == OCH_OK) st = give_bytes(b.data, b.size, 1, text, capacity, out_bytes, "text", &e);
    och_strbuf_deinit(&b);
    return och_api_give(&e, st, error);
}

ochre_status ochre_apply_chat_template(const ochre_model *model, const ochre_message *messages, size_t n_messages, char *text,
                                       size_t capacity, size_t *out_bytes, ochre_error *error) {
    och_err e;
    och_err_clear(&e);
    if (out_bytes) *out_bytes = 0;
    const och_tok *tok;
    och_tok_turn *turns = NULL;
    och_strbuf b;
    och_strbuf_init(&b);
    och_status st = tokenizer(model, &tok, &e);
    if (st == OCH_OK && !n_messages) st = och_err_set(&e, OCH_INVALID, "messages: expected at least one, found none");
    if (st == OCH_OK) st = och_api_need(messages, "messages", &e);
    if (st == OCH_OK && !(turns = och_malloc_array(n_messages, sizeof *turns))) st = och_err_nomem(&e, n_messages * sizeof *turns, "messages");
    for (size_t i = 0; st == OCH_OK && i < n_messages; i++) {
        st = och_api_need(messages[i].role, "a message's role", &e);
        if (st == OCH_OK) st = och_api_need(messages[i].content, "a message's content", &e);
        turns[i] = (och_tok_turn){messages[i].role, messages[i].content};
    }
    if (st == OCH_OK) st = och_tok_chat(tok, turns, n_messages, true, &b, &e);
    if (st == OCH_OK) st = give_bytes(b.data, b.size, 1, text, capacity, out_bytes, "text", &e);
    och_free(turns);
    och_strbuf_deinit(&b);
    return och_api_give(&e, st, error);
}

static och_status create_session(ochre_model *model, const ochre_session_options *options, ochre_session **out_session, och_err *err) {
    static const och_dtype kv_types[] = {OCH_DTYPE_NONE, OCH_DTYPE_F32, OCH_DTYPE_F16, OCH_DTYPE_BF16,
                                         OCH_DTYPE_F8_E4M3};
    ochre_session_options o = OCHRE_SESSION_OPTIONS_INIT;
    OCH_TRY(och_api_need(out_session, "out_session", err));
    *out_session = NULL;
    OCH_TRY(och_api_need(model, "model", err));
    OCH_TRY(och_api_read_options(&o, sizeof o, options, "session options", err));
    if ((unsigned)o.kv_type >= OCH_COUNT(kv_types))
        return och_err_set(err, OCH_INVALID, "session options: kv_type: expected 0 to 4, found %d", (int)o.kv_type);
    if ((unsigned)o.graphs > OCHRE_GRAPHS_OFF)
        return och_err_set(err, OCH_INVALID, "session options: graphs: expected 0 to 2, found %d", (int)o.graphs);
    och_session_options so = {.max_sequences = o.max_sequences, .max_context = o.max_context, .max_step_tokens = o.max_step_tokens,
                              .max_logits = o.max_logits, .kv_tokens = o.kv_tokens, .kv_dtype = kv_types[o.kv_type],
                              .batch_invariant = o.batch_invariant, .graphs = (och_graphs_wish)o.graphs,
                              .host_sampling = o.host_sampling};
    ochre_session *w = och_calloc(1, sizeof *w);
    if (!w) return och_err_nomem(err, sizeof *w, "a session");
    och_status st = och_session_create(model->m, &so, &w->s, err);
    if (st == OCH_OK) {
        size_t n = (size_t)w->s->options.max_sequences;
        w->spans = och_malloc_array(n, sizeof *w->spans);
        w->choices = och_malloc_array(n, sizeof *w->choices);
        if (!w->spans || !w->choices) st = och_err_nomem(err, n * (sizeof *w->spans + sizeof *w->choices), "spans");
    }
    atomic_fetch_add(&model->refs, 1);
    w->model = model;
    if (st != OCH_OK) {
        ochre_session_destroy(w);
        return st;
    }
    *out_session = w;
    return OCH_OK;
}

ochre_status ochre_session_create(ochre_model *model, const ochre_session_options *options, ochre_session **out_session,
                                  ochre_error *error) {
    och_err e;
    och_err_clear(&e);
    return och_api_give(&e, create_session(model, options, out_session, &e), error);
}

void ochre_session_destroy(ochre_session *session) {
    if (!session) return;
    och_session_destroy(session->s);
    och_free(session->spans);
    och_free(session->choices);
    ochre_model_close(session->model);
    och_free(session);
}

#define WITH_SESSION(session, call)                                                                                    \
    och_err e;                                                                                                         \
    och_err_clear(&e);                                                                                                 \
    och_status st = och_api_need(session, "session", &e);                                                                      \
    if (st == OCH_OK) st = (call);                                                                                     \
    return och_api_give(&e, st, error)

ochre_status ochre_sequence_create(ochre_session *session, int32_t *out_sequence, ochre_error *error) {
    WITH_SESSION(session && out_sequence ? session : NULL, och_session_sequence_create(session->s, out_sequence, &e));
}

ochre_status ochre_sequence_fork(ochre_session *session, int32_t source, int32_t *out_sequence, ochre_error *error) {
    WITH_SESSION(session && out_sequence ? session : NULL, och_session_sequence_fork(session->s, source, out_sequence, &e));
}

ochre_status ochre_sequence_release(ochre_session *session, int32_t sequence, ochre_error *error) {
    WITH_SESSION(session, och_session_sequence_release(session->s, sequence, &e));
}

ochre_status ochre_sequence_truncate(ochre_session *session, int32_t sequence, int32_t n_tokens, ochre_error *error) {
    WITH_SESSION(session, och_session_sequence_truncate(session->s, sequence, n_tokens, &e));
}

ochre_status ochre_sequence_length(const ochre_session *session, int32_t sequence, int32_t *out_n_tokens, ochre_error *error) {
    WITH_SESSION(session && out_n_tokens ? session : NULL, och_session_sequence_length(session->s, sequence, out_n_tokens, &e));
}

static och_status read_spans(ochre_session *session, const ochre_span *spans, size_t n_spans, och_err *err) {
    OCH_TRY(och_api_need(session, "session", err));
    if (n_spans) OCH_TRY(och_api_need(spans, "spans", err));
    if (n_spans > (size_t)session->s->options.max_sequences)
        return och_err_set(err, OCH_RANGE, "step: expected at most %d spans (max_sequences), found %zu", session->s->options.max_sequences,
                           n_spans);
    for (size_t i = 0; i < n_spans; i++)
        session->spans[i] = (och_span){spans[i].sequence, spans[i].tokens, spans[i].n_tokens, (int)spans[i].logits};
    return OCH_OK;
}

ochre_status ochre_step(ochre_session *session, const ochre_span *spans, size_t n_spans, ochre_error *error) {
    och_err e;
    och_err_clear(&e);
    och_status st = read_spans(session, spans, n_spans, &e);
    if (st == OCH_OK) st = och_session_step(session->s, session->spans, n_spans, &e);
    return och_api_give(&e, st, error);
}

const float *ochre_step_logits(const ochre_session *session, size_t *out_rows) {
    size_t rows = 0;
    const float *logits = session ? och_session_logits(session->s, &rows) : NULL;
    if (out_rows) *out_rows = rows;
    return rows ? logits : NULL;
}

static och_status sampler_params(const ochre_sampling *sampling, och_sampler_params *out_params, och_err *err) {
    ochre_sampling o = OCHRE_SAMPLING_INIT;
    OCH_TRY(och_api_read_options(&o, sizeof o, sampling, "sampling", err));
    *out_params = (och_sampler_params){.temperature = o.temperature, .top_k = o.top_k, .top_p = o.top_p, .min_p = o.min_p,
                                       .repetition_penalty = o.repetition_penalty, .frequency_penalty = o.frequency_penalty,
                                       .presence_penalty = o.presence_penalty,
                                       .penalty_last_n = o.penalty_last_n ? o.penalty_last_n : -1, .seed = o.seed};
    return och_sampler_validate(out_params, err);
}

static och_status choices(ochre_session *session, const ochre_choice *given, size_t n, och_err *err) {
    for (size_t i = 0; i < n; i++) {
        const ochre_choice c = given ? given[i] : (ochre_choice){0};
        och_choice *to = &session->choices[i];
        och_status st = c.n_history ? och_api_need(c.history, "history", err) : OCH_OK;
        if (st == OCH_OK) st = sampler_params(c.sampling, &to->params, err);
        if (st != OCH_OK) {
            och_err_prefix(err, "step, span %zu", i);
            return st;
        }
        to->history = c.history;
        to->n_history = c.n_history;
    }
    return OCH_OK;
}

ochre_status ochre_step_sample(ochre_session *session, const ochre_span *spans, size_t n_spans, const ochre_choice *given,
                               int32_t *out_tokens, ochre_error *error) {
    och_err e;
    och_err_clear(&e);
    och_status st = read_spans(session, spans, n_spans, &e);
    if (st == OCH_OK && n_spans) st = och_api_need(out_tokens, "out_tokens", &e);
    if (st == OCH_OK) st = choices(session, given, n_spans, &e);
    if (st == OCH_OK) st = och_session_step_sample(session->s, session->spans, n_spans, session->choices, out_tokens, &e);
    return och_api_give(&e, st, error);
}

ochre_status ochre_sample(ochre_session *session, size_t row, const ochre_sampling *sampling, const int32_t *history,
                          size_t n_history, uint64_t position, int32_t *out_token, ochre_error *error) {
    och_err e;
    och_err_clear(&e);
    och_choice c = {.history = history, .n_history = n_history};
    och_status st = och_api_need(session, "session", &e);
    if (st == OCH_OK) st = och_api_need(out_token, "out_token", &e);
    if (st == OCH_OK && n_history) st = och_api_need(history, "history", &e);
    if (st == OCH_OK) st = sampler_params(sampling, &c.params, &e);
    if (st == OCH_OK) st = och_session_sample_row(session->s, row, &c, position, out_token, &e);
    return och_api_give(&e, st, error);
}

typedef struct generation {
    ochre_session *session;
    int32_t sequence, max_tokens;
    const och_sampler_params *params;
    ochre_token_fn on_token;
    void *user;
    och_tok_ids history; /* the ids of this call, for the penalties */
    och_strbuf text;
    och_detok detok;
    ochre_stop stop;
    int32_t n_tokens;
} generation;

/* Tokens in steps of at most max_step_tokens; on request the one that follows the last, else -1. The history holds them. */
static och_status feed(const generation *g, const int32_t *ids, size_t n, bool choose, int32_t *out_next, och_err *err) {
    size_t most = (size_t)g->session->s->options.max_step_tokens;
    const och_choice choice = {*g->params, g->history.ids, g->history.n};
    *out_next = -1;
    for (size_t at = 0; at < n; at += most) {
        size_t k = OCH_MIN(most, n - at);
        och_span span = {g->sequence, ids + at, (int32_t)k, choose && at + k == n};
        OCH_TRY(och_session_step_sample(g->session->s, &span, 1, &choice, out_next, err));
    }
    return OCH_OK;
}

/* From the first token on, which the text's step chose. */
static och_status generate_tokens(generation *g, int32_t token, och_err *err) {
    const och_tok *tok = g->session->model->m->tok;
    int32_t length, context = g->session->s->options.max_context;
    g->stop = OCHRE_STOP_LENGTH;
    while (g->n_tokens < g->max_tokens) {
        OCH_TRY(och_session_sequence_length(g->session->s, g->sequence, &length, err));
        if (och_tok_is_end(tok, token)) {
            g->stop = OCHRE_STOP_END;
            return OCH_OK;
        }
        g->n_tokens++;
        OCH_TRY(och_tok_ids_push(&g->history, token, err));
        och_strbuf_clear(&g->text);
        /* Vocabularies are often padded: an id without an entry has no text. */
        if (token < och_tok_vocab_size(tok)) OCH_TRY(och_detok_push(&g->detok, token, &g->text, err));
        bool more = !g->on_token || g->on_token(g->user, token, och_strbuf_str(&g->text), g->text.size);
        if (!more) g->stop = OCHRE_STOP_CALLBACK;
        if (length == context) return OCH_OK;
        more = more && g->n_tokens < g->max_tokens;
        int32_t fed = token;
        OCH_TRY(feed(g, &fed, 1, more, &token, err));
        if (!more) return OCH_OK;
    }
    return OCH_OK;
}

static och_status generate(generation *g, const char *text, size_t text_bytes, uint32_t flags, och_err *err) {
    const och_tok *tok;
    int32_t length;
    OCH_TRY(tokenizer(g->session->model, &tok, err));
    OCH_TRY(och_session_sequence_length(g->session->s, g->sequence, &length, err));
    OCH_TRY(encode(tok, text, text_bytes, flags, &g->history, err));
    if (!g->history.n && length == 0 && och_tok_bos(tok) >= 0) OCH_TRY(och_tok_ids_push(&g->history, och_tok_bos(tok), err));
    if (!g->history.n) return och_err_set(err, OCH_INVALID, "generate: expected a text of at least one token, found none");
    int32_t room = g->session->s->options.max_context - length;
    if (g->history.n > (size_t)room)
        return och_err_set(err, OCH_RANGE, "generate: expected a text of at most %d tokens (what is left of max_context %d), found %zu", room,
                           g->session->s->options.max_context, g->history.n);
    och_detok_init(&g->detok, tok, true);
    /* A text goes on from what stands before it: its first piece keeps its leading space. */
    g->detok.started = true;
    int32_t first;
    OCH_TRY(feed(g, g->history.ids, g->history.n, g->max_tokens > 0, &first, err));
    OCH_TRY(generate_tokens(g, first, err));
    och_strbuf_clear(&g->text);
    OCH_TRY(och_detok_flush(&g->detok, &g->text, err));
    if (g->text.size && g->on_token && g->stop != OCHRE_STOP_CALLBACK) g->on_token(g->user, -1, och_strbuf_str(&g->text), g->text.size);
    return OCH_OK;
}

ochre_status ochre_generate(ochre_session *session, int32_t sequence, const char *text, size_t text_bytes, uint32_t flags,
                            int32_t max_tokens, const ochre_sampling *sampling, ochre_token_fn on_token, void *user,
                            ochre_stop *out_stop, int32_t *out_n_tokens, ochre_error *error) {
    och_err e;
    och_err_clear(&e);
    och_sampler_params p;
    generation g = {.session = session, .sequence = sequence, .max_tokens = max_tokens, .params = &p, .on_token = on_token, .user = user};
    och_tok_ids_init(&g.history);
    och_strbuf_init(&g.text);
    och_status st = och_api_need(session, "session", &e);
    if (st == OCH_OK && text_bytes) st = och_api_need(text, "text", &e);
    if (st == OCH_OK && max_tokens < 0) st = och_err_set(&e, OCH_RANGE, "generate: max_tokens: expected 0 or more, found %d", max_tokens);
    if (st == OCH_OK) st = sampler_params(sampling, &p, &e);
    if (st == OCH_OK) st = generate(&g, text, text_bytes, flags, &e);
    och_tok_ids_deinit(&g.history);
    och_strbuf_deinit(&g.text);
    if (out_stop) *out_stop = g.stop;
    if (out_n_tokens) *out_n_tokens = g.n_tokens;
    return och_api_give(&e, st, error);
}
