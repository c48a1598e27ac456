/* Tokens that a device chooses, on OCHRE_TEST_DEVICES, else on simulated boards of both wave sizes: the same as the host's for the
 * same model and seeds, with graphs and without, alone and in company; what looks back is chosen on the host, and counted; what is no
 * number ends the step with the layer that made it, whoever's it is, and a bucket's padding ends none. */
#include "model/boards.h"

#include <math.h>

#define VOCAB 288
#define MANY 5

static och_session *open_session(och_model *m, och_graphs_wish graphs, bool on_host) {
    och_session *s;
    och_session_options o = {.max_sequences = MANY, .max_context = 160, .max_step_tokens = 48, .max_logits = MANY,
                             .kv_dtype = OCH_DTYPE_NONE, .batch_invariant = true, .graphs = graphs, .host_sampling = on_host};
    ok(och_session_create(m, &o, &s, &err));
    assert_int_equal(s->samples, !on_host);
    return s;
}

/* Greedy, plain, and with everything that cuts off. */
static och_choice choice_of(int k, const int32_t *history, size_t n_history, bool penalised) {
    och_choice c = {och_sampler_defaults(), history, n_history};
    c.params.temperature = k ? 0.5f + 0.8f * (float)k : 0.0f;
    c.params.seed = (uint64_t)(unsigned)(k * 77 + 3) * UINT64_C(0x100000001); /* both words */
    if (k == 1) c.params.min_p = 0.25f;
    if (k == 2) c.params.top_k = 40;
    if (k == 3) c.params.top_p = 0.8f;
    if (k == 4) c.params.top_k = 100, c.params.top_p = 0.95f, c.params.min_p = 0.02f;
    if (penalised) c.params.repetition_penalty = 1.3f;
    return c;
}

typedef struct tale {
    int32_t ids[MANY][96];
    int n[MANY];
} tale;

/* Prompts one after the other, then steps of those sequences that `which` says, each token fed to the next step. */
static void tell(och_session *s, unsigned members, int n_steps, int penalised_at, tale *t) {
    memset(t, 0, sizeof *t);
    for (int k = 0; k < MANY; k++) {
        int32_t id;
        ok(och_session_sequence_create(s, &id, &err));
        assert_int_equal(id, k);
    }
    for (int i = 0; i < n_steps; i++) {
        och_span spans[MANY];
        och_choice choices[MANY];
        int32_t next[MANY], prompts[MANY][8];
        int n = 0, who[MANY];
        for (int k = 0; k < MANY; k++) {
            if (!(members & 1u << k) || (i % 7 == 6 && k % 2)) continue; /* the batch changes its size */
            for (int j = 0; j < 8; j++) prompts[k][j] = (k * 31 + j * 17) % VOCAB;
            bool begins = !t->n[k];
            spans[n] = (och_span){k, begins ? prompts[k] : &t->ids[k][t->n[k] - 1], begins ? 3 + k : 1, 1};
            choices[n] = choice_of(k, t->ids[k], (size_t)t->n[k], i == penalised_at && !k);
            who[n++] = k;
        }
        ok(och_session_step_sample(s, spans, (size_t)n, choices, next, &err));
        size_t rows;
        (void)och_session_logits(s, &rows);
        assert_int_equal(rows, 0);
        for (int j = 0; j < n; j++) {
            assert_in_range(next[j], 0, VOCAB - 1);
            t->ids[who[j]][t->n[who[j]]++] = next[j];
        }
    }
    for (int k = 0; k < MANY; k++) ok(och_session_sequence_release(s, k, &err));
}

static void the_device_chooses_what_the_host_does(void **state) {
    (void)state;
    enum { STEPS = 24 };
#ifdef __SANITIZE_THREAD__ /* which finds the same threads in each, and takes fifty times as long */
    static const char *const models[] = {"tiny-gemma3"};
#else
    static const char *const models[] = {"tiny-llama", "tiny-gemma3", "tiny-qwen3"};
#endif
    static tale want, found;
    for (size_t b = 0; b < n_boards; b++) {
        och_device *d = open_board(boards[b]);
        for (size_t m = 0; m < OCH_COUNT(models); m++) {
            och_model *model = open_model(models[m], d);
            och_session *host = open_session(model, OCH_GRAPHS_OFF, true);
            tell(host, 31, STEPS, -1, &want);
            assert_int_equal(host->stats.device_samples, 0);
            bool copied = !host->logits.host; /* else the host reads where the device writes */
            assert_true(host->stats.host_samples > STEPS * 3);
            assert_int_equal(host->stats.bytes_out, copied ? host->stats.host_samples * VOCAB * 4 : 0);
            och_session_destroy(host);
            int distinct = 0;
            for (int i = 1; i < want.n[4]; i++) distinct += want.ids[4][i] != want.ids[4][i - 1];
            assert_true(distinct > STEPS / 2);
            for (int graphs = 0; graphs < 2; graphs++) {
                och_session *s = open_session(model, graphs ? OCH_GRAPHS_ON : OCH_GRAPHS_OFF, false);
                uint64_t tokens = 0;
                tell(s, 31, STEPS, -1, &found);
                for (int k = 0; k < MANY; k++) tokens += (uint64_t)found.n[k];
                if (memcmp(&want, &found, sizeof want)) fail_msg("%s on %s, graphs %d: other tokens", models[m], boards[b], graphs);
                assert_int_equal(s->stats.device_samples, tokens);
                assert_int_equal(s->stats.host_samples, 0);
                /* four bytes a row, those of a bucket's padding too */
                assert_true(copied ? s->stats.bytes_out >= 4 * tokens && s->stats.bytes_out <= 8 * 4 * STEPS : !s->stats.bytes_out);
                if (graphs) assert_true(s->stats.captures == 2 && s->stats.replays > STEPS / 2);
                /* a penalty that looks back sends its step to the host, and no other */
                tell(s, 31, STEPS, 9, &found);
                assert_int_equal(s->stats.host_samples, MANY);
                for (int k = 1; k < MANY; k++) assert_memory_equal(want.ids[k], found.ids[k], sizeof want.ids[k]);
                assert_memory_equal(want.ids[0], found.ids[0], 9 * sizeof want.ids[0][0]);
                /* alone */
                for (int k = 0; k < MANY; k += 2) {
                    tell(s, 1u << k, STEPS, -1, &found);
                    assert_memory_equal(want.ids[k], found.ids[k], sizeof want.ids[k]);
                }
                och_session_destroy(s);
            }
            och_model_close(model);
        }
        och_device_release(d);
    }
}

static uint64_t launched(const och_session *s) { return s->stats.launches + s->stats.graph_launches; }

/* Steps for logits and steps for tokens, taking turns over one session: each is what it is without the other. */
static void logits_and_tokens_take_turns(void **state) {
    (void)state;
    for (size_t b = 0; b < n_boards; b++) {
        och_device *d = open_board(boards[b]);
        och_model *model = open_model("tiny-llama", d);
        for (int graphs = 0; graphs < 2; graphs++) {
            och_session *s = open_session(model, graphs ? OCH_GRAPHS_ON : OCH_GRAPHS_OFF, false);
            int32_t seq, token = 5;
            ok(och_session_sequence_create(s, &seq, &err));
            for (int i = 0; i < 20; i++) {
                och_choice c = choice_of(3, NULL, 0, false);
                int32_t chosen, again;
                size_t rows;
                och_span span = {seq, &token, 1, 1};
                uint64_t before = launched(s), with, without;
                ok(och_session_step_sample(s, &span, 1, &c, &chosen, &err));
                with = launched(s) - before;
                ok(och_session_sequence_truncate(s, seq, i, &err));
                ok(och_session_step(s, &span, 1, &err));
                without = launched(s) - before - with;
                assert_int_equal(with, without + 1); /* a step for logits chooses nothing */
                (void)och_session_logits(s, &rows);
                assert_int_equal(rows, 1);
                ok(och_session_sample_row(s, 0, &c, (uint64_t)(i + 1), &again, &err));
                assert_int_equal(chosen, again);
                token = chosen;
            }
            if (graphs) assert_int_equal(s->stats.captures, 2); /* a graph of each */
            och_session_destroy(s);
        }
        och_model_close(model);
        och_device_release(d);
    }
}

static void what_is_no_number_ends_the_step(void **state) {
    (void)state;
    for (size_t b = 0; b < n_boards; b++) {
        och_device *d = open_board(boards[b]);
        och_model *model = open_model("tiny-llama", d);
        const och_tensor *w = och_model_weight(model, OCH_ROLE_FFN_NORM, 1);
        assert_non_null(w);
        for (int graphs = 0; graphs < 2; graphs++) {
            och_session *s = open_session(model, graphs ? OCH_GRAPHS_ON : OCH_GRAPHS_OFF, false);
            const float nan = NAN;
            float before;
            int32_t seq, token = 5, chosen, length;
            och_choice c = choice_of(graphs, NULL, 0, false);
            och_span span = {seq = 0, &token, 1, 1};
            ok(och_session_sequence_create(s, &seq, &err));
            for (int i = 0; i < 4; i++) ok(och_session_step_sample(s, &span, 1, &c, &chosen, &err));
            const och_device_vtable *v = d->vtable;
            ok(v->copy_to_host(s->queue, &before, w->addr, 4, &err));
            ok(v->synchronise(s->queue, &err));
            ok(v->copy_to_device(s->queue, w->addr, &nan, 4, &err));
            ok(v->synchronise(s->queue, &err));
            assert_int_equal(och_session_step_sample(s, &span, 1, &c, &chosen, &err), OCH_DEVICE);
            if (!strstr(err.message, "layer 1") || !strstr(err.message, "expected finite numbers")) fail_msg("%s", err.message);
            assert_int_equal(chosen, -1);
            ok(och_session_sequence_length(s, seq, &length, &err));
            assert_int_equal(length, 4);
            ok(v->copy_to_device(s->queue, w->addr, &before, 4, &err));
            ok(v->synchronise(s->queue, &err));
            och_err_clear(&err);
            ok(och_session_step_sample(s, &span, 1, &c, &chosen, &err));
            och_session_destroy(s);
        }
        och_model_close(model);
        och_device_release(d);
    }
}

/* Writes a number over the first one of a token's embedding, and gives what was there. */
static float poison(och_session *s, const och_tensor *table, int32_t token, float with) {
    const och_device_vtable *v = s->model->device->vtable;
    och_dev_addr at = och_dev_addr_add(table->addr, (uint64_t)token * (uint64_t)table->cols * 4);
    float before;
    ok(v->copy_to_host(s->queue, &before, at, 4, &err));
    ok(v->synchronise(s->queue, &err));
    ok(v->copy_to_device(s->queue, at, &with, 4, &err));
    ok(v->synchronise(s->queue, &err));
    return before;
}

/* One sequence of three is no number, at each place; or the token that stands for none in a bucket's padding is. */
static void whose_it_is(och_session *s, const och_tensor *table, bool tokens, int way) {
    enum { N = 3, BAD = 7, PADDING = 0 };
    int32_t ids[N], fed[N] = {5, 6, 8}, chosen[N], first[N], length;
    och_choice choices[N];
    och_span spans[N];
    for (int k = 0; k < N; k++) {
        ok(och_session_sequence_create(s, &ids[k], &err));
        spans[k] = (och_span){ids[k], &fed[k], 1, 1};
        choices[k] = choice_of(way, NULL, 0, false);
    }
#define STEP(out) (tokens ? och_session_step_sample(s, spans, N, choices, out, &err) : och_session_step(s, spans, N, &err))
    for (int i = 0; i < 3; i++) ok(STEP(first)); /* recorded, where steps are */
    for (int k = 0; k < N; k++) {
        int32_t good = fed[k];
        float before = poison(s, table, BAD, NAN);
        fed[k] = BAD;
        assert_int_equal(STEP(chosen), OCH_DEVICE);
        char row[32];
        snprintf(row, sizeof row, "row %d,", k);
        if (!strstr(err.message, "op embed") || !strstr(err.message, row)) fail_msg("place %d: %s", k, err.message);
        for (int j = 0; j < N; j++) {
            if (tokens) assert_int_equal(chosen[j], -1);
            ok(och_session_sequence_length(s, ids[j], &length, &err));
            assert_int_equal(length, 3);
        }
        fed[k] = good;
        (void)poison(s, table, BAD, before);
        och_err_clear(&err);
    }
    float before = poison(s, table, PADDING, NAN);
    for (int k = 0; k < N; k++) ok(och_session_sequence_truncate(s, ids[k], 2, &err));
    ok(STEP(chosen));
    if (tokens) assert_memory_equal(chosen, first, sizeof chosen);
    (void)poison(s, table, PADDING, before);
#undef STEP
    for (int k = 0; k < N; k++) ok(och_session_sequence_release(s, ids[k], &err));
}

static void what_is_no_number_is_somebodys(void **state) {
    (void)state;
    for (size_t b = 0; b < n_boards; b++) {
        och_device *d = open_board(boards[b]);
        och_model *model = open_model("tiny-llama", d);
        const och_tensor *table = och_model_weight(model, OCH_ROLE_EMBED, -1);
        assert_true(table && table->dtype == OCH_DTYPE_F32);
        for (int graphs = 0; graphs < 2; graphs++) {
            och_session *s = open_session(model, graphs ? OCH_GRAPHS_ON : OCH_GRAPHS_OFF, false);
            for (int way = 0; way < 2; way++) whose_it_is(s, table, true, way);
            whose_it_is(s, table, false, 0);
            och_session_destroy(s);
        }
        och_model_close(model);
        och_device_release(d);
    }
}

/* Spans that ask for no token have no row, and what is said of their choice counts for nothing; a penalty that has nothing to look
 * back on is none. */
static void spans_without_a_token(void **state) {
    (void)state;
    static const int32_t prompt[6] = {9, 8, 7, 6, 5, 4};
    for (size_t b = 0; b < n_boards; b++) {
        och_device *d = open_board(boards[b]);
        int32_t want[4], found[4], id;
        och_model *model = open_model("tiny-llama", d);
        for (int on_host = 1; on_host >= 0; on_host--) {
            och_session *s = open_session(model, OCH_GRAPHS_OFF, on_host);
            och_span spans[4];
            och_choice choices[4];
            for (int k = 0; k < 4; k++) {
                ok(och_session_sequence_create(s, &id, &err));
                spans[k] = (och_span){id, prompt + k, 2, k % 2};
                choices[k] = k % 2 ? choice_of(k, NULL, 0, true) : choice_of(4, prompt, 6, true);
            }
            ok(och_session_step_sample(s, spans, 4, choices, on_host ? want : found, &err));
            assert_int_equal(on_host ? s->stats.host_samples : s->stats.device_samples, 2);
            assert_int_equal(on_host ? s->stats.device_samples : s->stats.host_samples, 0);
            och_session_destroy(s);
        }
        assert_true(want[0] == -1 && want[1] >= 0 && want[2] == -1 && want[3] >= 0);
        assert_memory_equal(want, found, sizeof want);
        och_model_close(model);
        och_device_release(d);
    }
}

/* A bucket's padding is sampled greedily, which is cheap, whoever had its rows before. */
static void padding_is_greedy(void **state) {
    (void)state;
    och_device *d = open_board(boards[0]);
    och_model *model = open_model("tiny-llama", d);
    och_session *s = open_session(model, OCH_GRAPHS_ON, false);
    int32_t fed[4] = {3, 4, 5, 6}, chosen[4];
    och_span spans[4];
    och_choice choices[4];
    for (int k = 0; k < 4; k++) {
        spans[k] = (och_span){0, &fed[k], 1, 1};
        ok(och_session_sequence_create(s, &spans[k].sequence, &err));
        choices[k] = choice_of(4, NULL, 0, false);
    }
    for (int n = 4; n >= 3; n--) {
        ok(och_session_step_sample(s, spans, (size_t)n, choices, chosen, &err));
        assert_int_equal(s->in_outputs, 4);
        const char *inputs = s->staging.host ? s->staging.host : s->inputs.host;
        const float *numbers = (const float *)(const void *)(inputs + s->in[OCH_IN_NUMBERS].offset_bytes);
        for (int k = 0; k < 4; k++)
            assert_true((numbers[k * OCH_SAMPLE_N_NUMBERS + OCH_SAMPLE_TEMPERATURE] != 0.0f) == (k < n));
    }
    och_session_destroy(s);
    och_model_close(model);
    och_device_release(d);
}

static void what_is_asked_wrongly_changes_nothing(void **state) {
    (void)state;
    och_device *d;
    ok(och_device_open("cpu", NULL, &d, &err));
    och_model *model = open_model("tiny-llama", d);
    och_session *s;
    och_session_options o = {.max_sequences = 2, .max_context = 64, .kv_dtype = OCH_DTYPE_NONE};
    ok(och_session_create(model, &o, &s, &err));
    assert_false(s->samples); /* nothing is copied there */
    int32_t a, b, tokens[3] = {1, 2, 3}, chosen[2], length;
    ok(och_session_sequence_create(s, &a, &err));
    ok(och_session_sequence_create(s, &b, &err));
    och_choice c[2] = {choice_of(1, NULL, 0, false), choice_of(0, NULL, 0, false)};
    och_span spans[2] = {{a, tokens, 3, 2}, {b, tokens, 1, 1}};
    assert_int_equal(och_session_step_sample(s, spans, 2, c, chosen, &err), OCH_INVALID);
    assert_non_null(strstr(err.message, "span 0: logits"));
    spans[0].logits = 0; /* none asked for: none chosen */
    c[0].params.top_p = 7; /* and not looked at */
    och_err_clear(&err);
    ok(och_session_step_sample(s, spans, 2, c, chosen, &err));
    assert_true(chosen[0] == -1 && chosen[1] >= 0);
    spans[0].logits = 1;
    assert_int_equal(och_session_step_sample(s, spans, 2, c, chosen, &err), OCH_RANGE);
    assert_non_null(strstr(err.message, "span 0: top_p"));
    ok(och_session_sequence_length(s, a, &length, &err));
    assert_int_equal(length, 3);
    och_session_destroy(s);
    och_model_close(model);
    och_device_release(d);
}

int main(void) {
    if (!find_boards()) return 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_device_chooses_what_the_host_does),
        cmocka_unit_test(logits_and_tokens_take_turns),
        cmocka_unit_test(what_is_no_number_ends_the_step),
        cmocka_unit_test(what_is_no_number_is_somebodys),
        cmocka_unit_test(spans_without_a_token),
        cmocka_unit_test(padding_is_greedy),
        cmocka_unit_test(what_is_asked_wrongly_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
