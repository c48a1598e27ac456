/* Captured decode steps, on OCHRE_TEST_DEVICES, else on simulated boards of both wave sizes: the same bytes as without, for every
 * step of a run whose inputs differ from step to step; what the check finds when a graph is not what it should be; what happens
 * cold. */
#include "model/boards.h"

#include "base/log.h"
#include "dev/capture.h"
#include "op/gpu/cuts.h"
#include "op/gpu/gpu.h"
#include "quant/planes.h"

#include <math.h>
#include <pthread.h>

#define VOCAB 288
#define MAX_SEQUENCES 3

static const char *const models[] = {"tiny-llama", "tiny-gemma3", "tiny-qwen3", "tiny-olmo2"};

static och_session *open_session(och_model *m, och_graphs_wish graphs, bool invariant) {
    och_session *s;
    och_session_options o = {.max_sequences = MAX_SEQUENCES, .max_context = 160, .max_step_tokens = 48, .max_logits = MAX_SEQUENCES,
                             .kv_dtype = OCH_DTYPE_NONE, .batch_invariant = invariant, .graphs = graphs};
    ok(och_session_create(m, &o, &s, &err));
    return s;
}

static int32_t token(int sequence, int position) {
    unsigned x = (unsigned)(position * 7919 + sequence * 104729 + 12345);
    x = (x ^ (x >> 7)) * 2654435761u;
    return (int32_t)((x >> 9) % VOCAB);
}

/* The next n tokens of each sequence that `which` has a bit for, in one step; how many rows of logits. */
static size_t step(och_session *s, unsigned which, const int n[], int at[], const float **out_logits) {
    och_span spans[MAX_SEQUENCES];
    int32_t tokens[MAX_SEQUENCES][48];
    size_t n_spans = 0, rows;
    for (int k = 0; k < MAX_SEQUENCES; k++) {
        if (!(which & 1u << k)) continue;
        for (int i = 0; i < n[k]; i++) tokens[k][i] = token(k, at[k] + i);
        spans[n_spans++] = (och_span){k, tokens[k], n[k], 1};
        at[k] += n[k];
    }
    ok(och_session_step(s, spans, n_spans, &err));
    *out_logits = och_session_logits(s, &rows);
    assert_int_equal(rows, n_spans);
    return rows;
}

/* Both sessions through the same steps: prompts of two lengths, then decode steps of one, of two and of all three sequences,
 * past ends of pages and of windows. False, and where, at the first logits that differ by a bit. */
static bool same_bytes(och_session *a, och_session *b, int n_steps, char *out_where, size_t n_bytes) {
    static const int one[MAX_SEQUENCES] = {1, 1, 1}, prompts[MAX_SEQUENCES] = {29, 3, 1};
    int at_a[MAX_SEQUENCES] = {0}, at_b[MAX_SEQUENCES] = {0};
    och_session *both[2] = {a, b};
    for (int k = 0; k < MAX_SEQUENCES; k++)
        for (int i = 0; i < 2; i++) {
            int32_t id;
            ok(och_session_sequence_create(both[i], &id, &err));
            assert_int_equal(id, k);
        }
    bool same = true;
    for (int i = -3; i < n_steps && same; i++) {
        static const unsigned decode[] = {1, 1, 3, 3, 2, 1, 3, 7, 6, 7, 1, 5}; /* which sequences take part */
        unsigned which = i < 0 ? 1u << (i + 3) : decode[i % (int)OCH_COUNT(decode)];
        const float *x, *y;
        size_t rows = step(a, which, i < 0 ? prompts : one, at_a, &x);
        assert_int_equal(rows, step(b, which, i < 0 ? prompts : one, at_b, &y));
        same = !memcmp(x, y, rows * (size_t)a->model->config.n_vocab * sizeof *x);
        if (!same) snprintf(out_where, n_bytes, "step %d, sequences 0x%x, positions %d %d %d", i, which, at_a[0], at_a[1], at_a[2]);
    }
    for (int k = 0; k < MAX_SEQUENCES; k++)
        for (int i = 0; i < 2; i++) ok(och_session_sequence_release(both[i], k, &err));
    return same;
}

static void on_and_off_give_the_same_bytes(void **state) {
    (void)state;
    uint64_t bytes, count, bytes_then, count_then;
    char where[128];
    for (size_t d = 0; d < n_boards; d++) {
        och_device *device = open_board(boards[d]);
        assert_true(device->info.graphs && device->info.graphs_reason[0]);
        for (size_t m = 0; m < OCH_COUNT(models); m++) {
            och_model *model = open_model(models[m], device);
            och_buf_live(&bytes, &count);
            och_session *off = open_session(model, OCH_GRAPHS_OFF, m == 1), *on = open_session(model, OCH_GRAPHS_ON, m == 1);
            if (!same_bytes(off, on, 72, where, sizeof where)) fail_msg("%s on %s: %s", models[m], boards[d], where);
            if (!same_bytes(off, on, 9, where, sizeof where)) fail_msg("%s on %s, again: %s", models[m], boards[d], where);
            assert_true(!off->stats.captures && !off->stats.replays && !off->stats.graph_launches);
            assert_int_equal(on->stats.captures, 3); /* of 1, 2 and 3 rows */
            assert_int_equal(on->stats.refusals, 0);
            /* each bucket's first step is an ordinary one; the prompt of one token is such a step too */
            assert_int_equal(on->stats.decode_steps, 72 + 9 + 2);
            assert_int_equal(on->stats.replays, on->stats.decode_steps - 3);
            assert_int_equal(on->stats.steps, off->stats.steps);
            assert_true(on->stats.graph_launches > 10 * on->stats.replays);
            assert_int_equal(on->stats.launches + on->stats.graph_launches, off->stats.launches);
            assert_true(on->stats.host_seconds > 0 && on->stats.host_seconds <= on->stats.seconds);
            och_session_destroy(on);
            och_session_destroy(off);
            och_buf_live(&bytes_then, &count_then);
            assert_true(bytes == bytes_then && count == count_then);
            och_model_close(model);
        }
        och_device_release(device);
    }
}

/* Buckets whose products and attention are tiled, with padding and without, of weights in two formats and rows of either end of a
 * bucket: none of a row's bytes comes from its neighbours or from how many there are. */
static void wide_steps_give_the_same_bytes(void **state) {
    (void)state;
    enum { MANY = 20, STEPS = 6 };
    static const och_dtype formats[] = {OCH_DTYPE_Q8_0, OCH_DTYPE_Q4_K};
    static const int how_many[] = {5, 9, 12, 16, 17, 20};
    for (size_t b = 0; b < n_boards; b++) {
        och_device *device = open_board(boards[b]);
        for (size_t f = 0; f < OCH_COUNT(formats); f++) {
            och_model *model;
            och_model_options mo = {0};
            ok(och_model_open_synthetic("tiny", formats[f], device, &mo, &model, &err));
            och_session *both[2];
            for (int k = 0; k < 2; k++) {
                och_session_options o = {.max_sequences = MANY, .max_context = 64, .max_step_tokens = 40, .max_logits = MANY,
                                         .kv_dtype = OCH_DTYPE_NONE, .graphs = k ? OCH_GRAPHS_ON : OCH_GRAPHS_OFF};
                ok(och_session_create(model, &o, &both[k], &err));
                for (int32_t i = 0, id; i < MANY; i++) ok(och_session_sequence_create(both[k], &id, &err));
            }
            size_t n_vocab = (size_t)model->config.n_vocab;
            for (int round = 0; round < STEPS * 3; round++) {
                int n = how_many[round % (int)OCH_COUNT(how_many)];
                och_span spans[MANY];
                int32_t tokens[MANY];
                for (int i = 0; i < n; i++) {
                    int32_t length;
                    ok(och_session_sequence_length(both[0], (i + round) % MANY, &length, &err));
                    tokens[i] = token((i + round) % MANY, length);
                    spans[i] = (och_span){(i + round) % MANY, &tokens[i], 1, 1};
                }
                size_t rows;
                for (int k = 0; k < 2; k++) ok(och_session_step(both[k], spans, (size_t)n, &err));
                const float *x = och_session_logits(both[0], &rows), *y = och_session_logits(both[1], &rows);
                assert_int_equal(rows, n);
                for (int i = 0; i < n; i++)
                    if (memcmp(x + (size_t)i * n_vocab, y + (size_t)i * n_vocab, n_vocab * sizeof *x))
                        fail_msg("%s, %s: step %d of %d sequences, row %d", boards[b], och_dtype_name(formats[f]), round, n, i);
            }
            assert_int_equal(both[1]->stats.captures, 3); /* 8, 16, 20 */
            assert_int_equal(both[1]->stats.replays, STEPS * 3 - 3);
            for (int k = 0; k < 2; k++) och_session_destroy(both[k]);
            och_model_close(model);
        }
        och_device_release(device);
    }
}

/* A record keeps the kernels that it resolved, for prompts and for steps that are no graphs. */
static void kernels_are_looked_up_once(void **state) {
    (void)state;
    for (size_t b = 0; b < n_boards; b++) {
        och_device *device = open_board(boards[b]);
        och_model *model = open_model("tiny-gemma3", device);
        och_session *s = open_session(model, OCH_GRAPHS_OFF, false);
        static const int prompt[MAX_SEQUENCES] = {20, 20, 20}, one[MAX_SEQUENCES] = {1, 1, 1};
        int at[MAX_SEQUENCES] = {0};
        int32_t id;
        const float *logits;
        uint64_t before = 0, launched = 0;
        for (int k = 0; k < MAX_SEQUENCES; k++) ok(och_session_sequence_create(s, &id, &err));
        for (int round = 0; round < 4; round++) {
            if (round == 1) before = och_gpu_kernel_lookups(), launched = s->stats.launches;
            for (int k = 0; round < 3 && k < 1 + (round > 0); k++) (void)step(s, 1u << (round + k) % MAX_SEQUENCES, prompt, at, &logits);
            (void)step(s, 1, one, at, &logits);
            (void)step(s, 3, one, at, &logits);
        }
        assert_int_equal(och_gpu_kernel_lookups(), before);
        assert_true(s->stats.launches > launched + 100);
        och_session_destroy(s);
        och_model_close(model);
        och_device_release(device);
    }
}

/* Whatever a step may launch was begun when its plan was built: the first steps of a session compile nothing. Products that make
 * their own codes are of one row, which is known of no plan. */
static void steps_begin_no_kernel(void **state) {
    (void)state;
    static const char *const own[] = {"0", "1"};
    static const och_dtype formats[] = {OCH_DTYPE_Q4_K, OCH_DTYPE_Q8_0, OCH_DTYPE_F16};
    const char *asked = och_env_get(OCH_ENV_OCHRE_OWN_CODES);
    for (size_t b = 0; b < n_boards; b++)
        for (size_t f = 0; f < OCH_COUNT(formats) * OCH_COUNT(own); f++) {
            assert_true(och_env_set("OCHRE_OWN_CODES", own[f % OCH_COUNT(own)]));
            assert_true(och_env_set("OCHRE_NEXT_CODES", own[(f + b) % OCH_COUNT(own)]));
            assert_true(och_env_set("OCHRE_ONE_ROW", own[(f / OCH_COUNT(own) + b) % OCH_COUNT(own)]));
            assert_true(och_env_set("OCHRE_NORM_CODES", own[(f + 1) % OCH_COUNT(own)])); /* where products make no codes of their own */
            och_device *device = open_board(boards[b]);
            och_model *model;
            och_model_options mo = {0};
            ok(och_model_open_synthetic("tiny", formats[f / OCH_COUNT(own)], device, &mo, &model, &err));
            och_session *s = open_session(model, OCH_GRAPHS_OFF, false);
            static const int prompt[MAX_SEQUENCES] = {15, 15, 15}, one[MAX_SEQUENCES] = {1, 1, 1};
            int at[MAX_SEQUENCES] = {0};
            int32_t id;
            const float *logits;
            for (int k = 0; k < MAX_SEQUENCES; k++) ok(och_session_sequence_create(s, &id, &err));
            uint64_t before = och_gpu_kernels_begun();
            assert_true(before > 0);
            (void)step(s, 1, one, at, &logits);
            (void)step(s, 7, prompt, at, &logits);
            (void)step(s, 7, one, at, &logits);
            if (och_gpu_kernels_begun() != before)
                fail_msg("%s, %s, OCHRE_OWN_CODES=%s: %d kernels were begun by steps", boards[b],
                         och_dtype_name(formats[f / OCH_COUNT(own)]), own[f % OCH_COUNT(own)], (int)(och_gpu_kernels_begun() - before));
            och_session_destroy(s);
            och_model_close(model);
            och_device_release(device);
        }
    assert_true(och_env_set("OCHRE_OWN_CODES", asked) && och_env_set("OCHRE_NEXT_CODES", NULL) && och_env_set("OCHRE_ONE_ROW", NULL) &&
                och_env_set("OCHRE_NORM_CODES", NULL));
}

/* Nor do prompts: of more rows, tiles are others where tables have them for many or for few, up to a session's largest step. */
static void prompts_begin_no_kernel(void **state) {
    (void)state;
    static const och_dtype formats[] = {OCH_DTYPE_Q4_K, OCH_DTYPE_F16};
    enum { MOST = 16384 };
    for (size_t b = 0; b < n_boards; b++)
        for (size_t f = 0; f < OCH_COUNT(formats); f++) {
            och_device *device = open_board(boards[b]);
            och_model *model;
            och_session *s;
            const och_model_options mo = {.measure = true}; /* without memory */
            const och_session_options so = {.max_sequences = 1, .max_context = MOST, .max_step_tokens = MOST, .max_logits = 1};
            ok(och_model_open_synthetic("tiny", formats[f], device, &mo, &model, &err));
            ok(och_session_create(model, &so, &s, &err));
            uint64_t before = och_gpu_kernels_begun();
            int ways = 0;
            for (int i = 0; i < s->plan.n_ops; i++) {
                const char *last = NULL;
                for (int64_t n = 1; n; n = och_gpu_tiles_next(n, MOST)) {
                    och_op_call c;
                    och_plan_call(&s->plan, NULL, i, (och_plan_extent){n, 1, 1}, (och_dev_addr){0}, NULL, &c);
                    if (c.op != OCH_OP_LINEAR) break;
                    ok(och_gpu_linear_supports(device, &c, &err));
                    const char *spec = och_gpu_tiles_of(device, c.in[OCH_LINEAR_W0].dtype, c.in[OCH_LINEAR_W0].rows, n)->spec;
                    ways += last && strcmp(last, spec) != 0;
                    last = spec;
                }
            }
            if (och_gpu_kernels_begun() != before)
                fail_msg("%s, %s: %d kernels were begun by prompts", boards[b], och_dtype_name(formats[f]), (int)(och_gpu_kernels_begun() - before));
            assert_true(ways || strcmp(boards[b], "sim:gfx942")); /* has larger tiles for very many rows */
            och_session_destroy(s);
            och_model_close(model);
            och_device_release(device);
        }
}

/* Rows that kernels hand on as codes are what the next kernel would have made of them: with fewer launches, the same bytes. */
static void codes_give_the_same_bytes(void **state) {
    (void)state;
    static const och_dtype formats[] = {OCH_DTYPE_Q4_K, OCH_DTYPE_Q8_0, OCH_DTYPE_MXFP4};
    assert_true(och_env_set("OCHRE_OWN_CODES", "0")); /* what makes its own of rows as short as these has no use for others' */
    for (size_t b = 0; b < n_boards; b++)
        for (size_t f = 0; f < OCH_COUNT(formats); f++) {
            och_device *device[2];
            och_model *model[2];
            och_session *s[2];
            char where[80];
            for (int k = 0; k < 2; k++) {
                assert_true(och_env_set("OCHRE_NEXT_CODES", k ? "1" : "0"));
                och_model_options mo = {0};
                device[k] = open_board(boards[b]);
                ok(och_model_open_synthetic("tiny", formats[f], device[k], &mo, &model[k], &err));
                s[k] = open_session(model[k], OCH_GRAPHS_OFF, f == 1);
            }
            if (!same_bytes(s[0], s[1], 24, where, sizeof where))
                fail_msg("%s, %s: with codes that are handed on other logits: %s", boards[b], och_dtype_name(formats[f]), where);
            int layers = model[0]->config.n_layers;
            assert_true(s[1]->stats.launches <= s[0]->stats.launches - (uint64_t)((2 * layers - 1) * 24)); /* attention and gate of each; the last attention is gathered first */
            for (int k = 0; k < 2; k++) {
                och_session_destroy(s[k]);
                och_model_close(model[k]);
                och_device_release(device[k]);
            }
        }
    assert_true(och_env_set("OCHRE_NEXT_CODES", NULL) && och_env_set("OCHRE_OWN_CODES", NULL));
}

/* Products whose weights' rows go by way of LDS give what those do that have them in registers, captured too, with one row whole and codes
 * through norms beside; on boards of waves of 32, for which a row of 1,024 is whole rounds of lanes, all three kernels of them. */
static void rings_give_the_same_bytes(void **state) {
    (void)state;
    static const char *const beside[] = {"OCHRE_ONE_ROW", "OCHRE_NORM_CODES", "OCHRE_NEXT_CODES"};
    for (size_t i = 0; i < OCH_COUNT(beside); i++) assert_true(och_env_set(beside[i], "1"));
    for (size_t b = 0; b < n_boards; b++) {
        och_device *device[2];
        och_model *model[2];
        och_session *s[2];
        uint64_t begun[3] = {och_gpu_kernels_begun()};
        char where[128];
        for (int k = 0; k < 2; k++) {
            assert_true(och_env_set("OCHRE_RING", k ? "1" : "0"));
            och_model_options mo = {0};
            device[k] = open_board(boards[b]);
            ok(och_model_open_synthetic("tiny-wide", OCH_DTYPE_Q8_0, device[k], &mo, &model[k], &err));
            s[k] = open_session(model[k], k ? OCH_GRAPHS_ON : OCH_GRAPHS_OFF, false);
            begun[k + 1] = och_gpu_kernels_begun();
        }
        if (!same_bytes(s[0], s[1], 12, where, sizeof where)) fail_msg("%s: other logits: %s", boards[b], where);
        assert_int_equal(s[0]->stats.launches, s[1]->stats.launches + s[1]->stats.graph_launches);
        if (begun[2] - begun[1] < begun[1] - begun[0] + (device[0]->info.wave_size == 32 ? 3 : 1))
            fail_msg("%s: %d kernels were made, %d without", boards[b], (int)(begun[2] - begun[1]), (int)(begun[1] - begun[0]));
        for (int k = 0; k < 2; k++) {
            och_session_destroy(s[k]);
            och_model_close(model[k]);
            och_device_release(device[k]);
        }
    }
    assert_true(och_env_set("OCHRE_RING", NULL));
    for (size_t i = 0; i < OCH_COUNT(beside); i++) assert_true(och_env_set(beside[i], NULL));
}

/* Attention that the last workgroup of each head merges gives what a launch for the merge does, as floats and as codes, captured too, a
 * launch a layer less; and so after a step that failed, whose counters nobody knows. */
static void last_gives_the_same_bytes(void **state) {
    (void)state;
    for (size_t b = 0; b < n_boards; b++)
        for (int codes = 0; codes < 2; codes++) {
            och_device *device[2];
            och_model *model[2];
            och_session *s[2];
            char where[128];
            assert_true(och_env_set("OCHRE_NEXT_CODES", codes ? "1" : "0"));
            for (int k = 0; k < 2; k++) {
                assert_true(och_env_set("OCHRE_ATTENTION_LAST", k ? "1" : "0"));
                och_model_options mo = {0};
                device[k] = open_board(boards[b]);
                ok(och_model_open_synthetic("tiny", OCH_DTYPE_Q8_0, device[k], &mo, &model[k], &err));
                s[k] = open_session(model[k], k && codes ? OCH_GRAPHS_ON : OCH_GRAPHS_OFF, false);
            }
            ok(device[1]->vtable->fill(s[1]->queue, och_dev_addr_add(s[1]->scratch.addr, s[1]->counters_at), 1, OCH_OP_COUNTERS * 4, &err));
            s[1]->step_failed = true;
            if (!same_bytes(s[0], s[1], 24, where, sizeof where)) fail_msg("%s: other logits: %s", boards[b], where);
            uint64_t fewer = (uint64_t)(model[0]->config.n_layers * 24);
            if (s[1]->stats.launches + s[1]->stats.graph_launches + fewer > s[0]->stats.launches)
                fail_msg("%s: %d launches, %d without", boards[b], (int)(s[1]->stats.launches + s[1]->stats.graph_launches), (int)s[0]->stats.launches);
            for (int k = 0; k < 2; k++) {
                och_session_destroy(s[k]);
                och_model_close(model[k]);
                och_device_release(device[k]);
            }
        }
    assert_true(och_env_set("OCHRE_ATTENTION_LAST", NULL) && och_env_set("OCHRE_NEXT_CODES", NULL));
}

/* Products that do one row whole leave the state and logits as the launches do that they stand for, captured too; steps of more rows,
 * sessions that compute each row as among others and models with norms of heads are as they were. */
static void one_row_gives_the_same_bytes(void **state) {
    (void)state;
    enum { STEPS = 24, ONE_ROW = 11 }; /* same_bytes() has so many of one row, the prompt of one token among them */
    static const struct {
        const char *model; /* NULL: synthetic, of Q4_K */
        bool takes, invariant;
    } cases[] = {{"tiny-llama", true, false}, {"tiny-llama.gguf", true, false}, {"tiny-qwen2", true, false}, {NULL, true, false},
                 {NULL, false, true}, {"tiny-qwen3", false, false}, {"tiny-gemma3", false, false}};
    assert_true(och_env_set("OCHRE_OWN_CODES", "0")); /* which sum a row for its norm in an order of their own */
    for (size_t b = 0; b < n_boards; b++)
        for (size_t i = 0; i < OCH_COUNT(cases); i++) {
            och_device *device[2];
            och_model *model[2];
            och_session *s[2];
            char where[80];
            for (int k = 0; k < 2; k++) {
                assert_true(och_env_set("OCHRE_ONE_ROW", k ? "1" : "0"));
                och_model_options mo = {0};
                device[k] = open_board(boards[b]);
                if (cases[i].model) model[k] = open_model(cases[i].model, device[k]);
                else ok(och_model_open_synthetic("tiny", OCH_DTYPE_Q4_K, device[k], &mo, &model[k], &err));
                s[k] = open_session(model[k], k ? OCH_GRAPHS_ON : OCH_GRAPHS_OFF, cases[i].invariant);
            }
            const char *name = cases[i].model ? cases[i].model : "synthetic";
            if (!same_bytes(s[0], s[1], STEPS, where, sizeof where)) fail_msg("%s, %s: other logits: %s", boards[b], name, where);
            uint64_t saved = s[0]->stats.launches - s[1]->stats.launches - s[1]->stats.graph_launches,
                     expected = cases[i].takes ? ONE_ROW * (uint64_t)model[0]->config.n_layers : 0;
            if (saved != expected) fail_msg("%s, %s: expected %d launches less, found %d", boards[b], name, (int)expected, (int)saved);
            for (int k = 0; k < 2; k++) {
                och_session_destroy(s[k]);
                och_model_close(model[k]);
                och_device_release(device[k]);
            }
        }
    assert_true(och_env_set("OCHRE_ONE_ROW", NULL) && och_env_set("OCHRE_OWN_CODES", NULL));
}

/* Records that write codes for a norm, of a row a token or of one a row of logits. */
static int writers_of(const och_session *s, och_plan_rows rows) {
    int n = 0;
    for (int i = 0; i < s->plan.n_ops; i++) {
        const och_plan_op *o = &s->plan.ops[i];
        n += o->op == OCH_OP_LINEAR && o->in[OCH_LINEAR_YNORM] >= 0 && s->plan.bufs[o->out[0]].rows_kind == rows;
    }
    return n;
}

/* Codes that go through norms take a launch less each where a step has one row, captured too, and leave logits what they are up to
 * what codes hold; records of more rows and sessions that compute each row as among others are as they were. */
static void codes_through_norms_are_near(void **state) {
    (void)state;
    static const och_dtype formats[] = {OCH_DTYPE_Q4_K, OCH_DTYPE_Q8_0};
    static const int one[MAX_SEQUENCES] = {1, 1, 1}, prompts[MAX_SEQUENCES] = {29, 3, 1};
    static const unsigned which[] = {1, 2, 4, 1, 1, 2, 7, 4, 3, 1, 1}; /* the first three are prompts, of which the last has one token */
    enum { STEPS = OCH_COUNT(which) };
    assert_true(och_env_set("OCHRE_OWN_CODES", "0"));
    for (size_t b = 0; b < n_boards; b++)
        for (size_t f = 0; f < 2 * OCH_COUNT(formats); f++) {
            och_device *device[2];
            och_model *model[2];
            och_session *s[2];
            bool invariant = f == 3;
            double error = 0, all = 0;
            for (int k = 0; k < 2; k++) {
                assert_true(och_env_set("OCHRE_NORM_CODES", k ? "1" : "0") && och_env_set("OCHRE_NEXT_CODES", "1") &&
                            och_env_set("OCHRE_ONE_ROW", f % 2 ? "1" : "0"));
                och_model_options mo = {0};
                device[k] = open_board(boards[b]);
                ok(och_model_open_synthetic("tiny", formats[f / 2], device[k], &mo, &model[k], &err));
                s[k] = open_session(model[k], k ? OCH_GRAPHS_ON : OCH_GRAPHS_OFF, invariant);
                int32_t id;
                for (int i = 0; i < MAX_SEQUENCES; i++) ok(och_session_sequence_create(s[k], &id, &err));
            }
            int at[2][MAX_SEQUENCES] = {{0}, {0}}, layers = model[0]->config.n_layers, by_token = writers_of(s[1], OCH_ROWS_TOKENS),
                by_output = writers_of(s[1], OCH_ROWS_OUTPUTS);
            uint64_t expected = 0;
            for (size_t i = 0; i < STEPS; i++) {
                const float *x, *y;
                size_t rows = step(s[0], which[i], i < 3 ? prompts : one, at[0], &x), n = rows * (size_t)model[0]->config.n_vocab;
                assert_int_equal(rows, step(s[1], which[i], i < 3 ? prompts : one, at[1], &y));
                if (invariant && memcmp(x, y, n * sizeof *x) != 0) fail_msg("%s: other logits in step %d", boards[b], (int)i);
                if (rows == 1 && !invariant) expected += (uint64_t)(by_output + (i < 2 ? 0 : by_token));
                for (size_t j = 0; j < n; j++) error += pow((double)x[j] - y[j], 2), all += pow((double)x[j], 2);
            }
            assert_int_equal(writers_of(s[0], OCH_ROWS_TOKENS) + writers_of(s[0], OCH_ROWS_OUTPUTS), 0);
            assert_int_equal(by_token, 2 * (layers - 1)); /* the first layer's q, k and v read no product's row */
            assert_int_equal(by_output, 2);               /* of the last layer, whose rows are gathered first */
            uint64_t saved = s[0]->stats.launches - s[1]->stats.launches - s[1]->stats.graph_launches;
            if (saved != expected)
                fail_msg("%s, %s: expected %d launches less, found %d", boards[b], och_dtype_name(formats[f / 2]), (int)expected, (int)saved);
            if (!(error <= 1e-3 * all) || (error > 0) == invariant)
                fail_msg("%s, %s: an error of %.3g of %.3g", boards[b], och_dtype_name(formats[f / 2]), error, all);
            for (int k = 0; k < 2; k++) {
                och_session_destroy(s[k]);
                och_model_close(model[k]);
                och_device_release(device[k]);
            }
        }
    assert_true(och_env_set("OCHRE_NORM_CODES", NULL) && och_env_set("OCHRE_NEXT_CODES", NULL) && och_env_set("OCHRE_ONE_ROW", NULL) &&
                och_env_set("OCHRE_OWN_CODES", NULL));
}

/* A number that is none is found where it is made, in codes too, which are then all that its record has written: to their block. */
static void what_is_not_finite_is_found_in_codes(void **state) {
    (void)state;
    enum { ROW = 70 };
    static const uint16_t nan = 0x7e00;
    for (size_t b = 0; b < n_boards; b++) {
        assert_true(och_env_set("OCHRE_NEXT_CODES", "1"));
        och_device *device = open_board(boards[b]);
        och_model *model;
        och_model_options mo = {0};
        ok(och_model_open_synthetic("tiny", OCH_DTYPE_Q8_0, device, &mo, &model, &err));
        och_session *s = open_session(model, OCH_GRAPHS_OFF, false);
        const och_tensor *gate = och_model_weight(model, OCH_ROLE_GATE, 1);
        uint64_t row, scales, n_bytes;
        assert_true(och_planes_row_bytes(gate->dtype, (uint64_t)gate->cols, &row));
        assert_true(och_planes_plane(gate->dtype, (uint64_t)gate->cols, och_planes_find(gate->dtype, "d"), &scales, &n_bytes));
        ok(device->vtable->copy_to_device(s->queue, och_dev_addr_add(gate->addr, ROW * row + scales), &nan, sizeof nan, &err));
        ok(device->vtable->synchronise(s->queue, &err));
        int32_t id, t = 5;
        ok(och_session_sequence_create(s, &id, &err));
        assert_int_equal(och_session_step(s, &(och_span){id, &t, 1, 1}, 1, &err), OCH_DEVICE);
        if (!strstr(err.message, "layer 1, op linear by provider ") || !strstr(err.message, ".codes, row 0, column 64"))
            fail_msg("%s: %s", boards[b], err.message);
        och_err_clear(&err);
        och_session_destroy(s);
        och_model_close(model);
        och_device_release(device);
    }
    assert_true(och_env_set("OCHRE_NEXT_CODES", NULL));
}

/* A key that is none and went into the state at once is found where attention reads it. */
static void what_is_not_finite_is_found_behind_the_state(void **state) {
    (void)state;
    static const uint16_t nan = 0x7e00;
    for (size_t b = 0; b < n_boards; b++) {
        assert_true(och_env_set("OCHRE_ONE_ROW", "1"));
        och_device *device = open_board(boards[b]);
        och_model *model;
        och_model_options mo = {0};
        ok(och_model_open_synthetic("tiny", OCH_DTYPE_Q8_0, device, &mo, &model, &err));
        och_session *s = open_session(model, OCH_GRAPHS_OFF, false);
        const och_tensor *key = och_model_weight(model, OCH_ROLE_K, 1);
        uint64_t scales, n_bytes;
        assert_true(och_planes_plane(key->dtype, (uint64_t)key->cols, och_planes_find(key->dtype, "d"), &scales, &n_bytes));
        ok(device->vtable->copy_to_device(s->queue, och_dev_addr_add(key->addr, scales), &nan, sizeof nan, &err));
        ok(device->vtable->synchronise(s->queue, &err));
        int32_t id, t[2] = {5, 6};
        ok(och_session_sequence_create(s, &id, &err));
        for (int n = 1; n < 3; n++) { /* of more rows in what the product wrote */
            assert_int_equal(och_session_step(s, &(och_span){id, t, n, 1}, 1, &err), OCH_DEVICE);
            if (!strstr(err.message, n == 1 ? "layer 1, op attention by provider kernel" : "layer 1, op linear by provider "))
                fail_msg("%s, %d tokens: %s", boards[b], n, err.message);
            och_err_clear(&err);
        }
        och_session_destroy(s);
        och_model_close(model);
        och_device_release(device);
    }
    assert_true(och_env_set("OCHRE_ONE_ROW", NULL));
}

/* ---- graphs that are none: the device's table, and one that does wrong around it ---- */

typedef enum defect { SNAPSHOT, STALE_HANDLE, AT_CAPTURE_ONLY, NO_DEFECT } defect;

static struct {
    och_device_vtable table;
    const och_device_vtable *inner;
    defect what;
    och_session *session; /* whose graphs go wrong */
    void *copy;           /* its inputs when the graph was made */
    och_graph *first, *extra[16];
    int n_extra;
} wrong;

static void *inputs_of(const och_session *s) { return s->staging.host ? s->staging.host : s->inputs.host; }

static och_status wrong_begin(och_queue *q, och_err *e) {
    if (wrong.what == AT_CAPTURE_ONLY) return OCH_OK; /* and so what is recorded runs */
    return wrong.inner->capture_begin(q, e);
}

static och_status wrong_end(och_queue *q, och_graph **out_graph, och_err *e) {
    if (wrong.what == AT_CAPTURE_ONLY) {
        *out_graph = (och_graph *)wrong.copy; /* something that is not NULL */
        return OCH_OK;
    }
    OCH_TRY(wrong.inner->capture_end(q, out_graph, e));
    if (wrong.what == SNAPSHOT) memcpy(wrong.copy, inputs_of(wrong.session), wrong.session->inputs.size_bytes);
    if (wrong.what == STALE_HANDLE && wrong.first) {
        wrong.extra[wrong.n_extra++] = *out_graph;
        *out_graph = wrong.first;
    }
    if (!wrong.first) wrong.first = *out_graph;
    return OCH_OK;
}

static och_status wrong_replay(och_queue *q, och_graph *g, och_err *e) {
    if (wrong.what == AT_CAPTURE_ONLY) return OCH_OK;
    /* the inputs of the step are not read: those of the capture are */
    if (wrong.what == SNAPSHOT) memcpy(inputs_of(wrong.session), wrong.copy, wrong.session->inputs.size_bytes);
    return wrong.inner->graph_replay(q, g, e);
}

static och_status wrong_destroy(och_graph *g, och_err *e) {
    if (wrong.what == AT_CAPTURE_ONLY) return OCH_OK;
    if (wrong.what == STALE_HANDLE) { /* the same one comes several times */
        if (!wrong.first) return OCH_OK;
        wrong.first = NULL;
    }
    return wrong.inner->graph_destroy(g, e);
}

static void a_graph_that_is_none_is_found(void **state) {
    (void)state;
    char where[128];
    for (size_t d = 0; d < n_boards; d++) {
        och_device *device = open_board(boards[d]);
        och_model *model = open_model("tiny-llama", device);
        och_session *off = open_session(model, OCH_GRAPHS_OFF, false);
        for (wrong.what = SNAPSHOT; wrong.what <= NO_DEFECT; wrong.what++) {
            wrong.inner = device->vtable;
            wrong.table = *device->vtable;
            wrong.table.capture_begin = wrong_begin;
            wrong.table.capture_end = wrong_end;
            wrong.table.graph_replay = wrong_replay;
            wrong.table.graph_destroy = wrong_destroy;
            wrong.first = NULL;
            wrong.n_extra = 0;
            device->vtable = &wrong.table;
            wrong.session = open_session(model, OCH_GRAPHS_ON, false);
            wrong.copy = malloc(wrong.session->inputs.size_bytes);
            assert_non_null(wrong.copy);
            bool same = same_bytes(off, wrong.session, 24, where, sizeof where);
            if (!same && wrong.what == NO_DEFECT) fail_msg("the table around the device's own: %s", where);
            if (same && wrong.what != NO_DEFECT) fail_msg("defect %d on %s was not seen", (int)wrong.what, boards[d]);
            assert_true(wrong.session->stats.captures > 0);
            for (int i = 0; i < wrong.n_extra; i++) ok(wrong.inner->graph_destroy(wrong.extra[i], &err));
            och_session_destroy(wrong.session);
            free(wrong.copy);
            device->vtable = wrong.inner;
        }
        och_session_destroy(off);
        och_model_close(model);
        och_device_release(device);
    }
}

/* ---- cold ---- */

static char logged[1024];
static void keep_log(void *user, och_log_level level, const char *message) {
    (void)user;
    if (level >= OCH_LOG_WARN) snprintf(logged, sizeof logged, "%s", message);
}

/* Without a step before it a capture meets kernels that are not loaded: it names what it met, the step is run all the same, and
 * the bucket is captured after that. */
static void a_cold_capture_names_the_call(void **state) {
    (void)state;
    char where[128];
    for (size_t d = 0; d < n_boards; d++) {
        och_device *device = open_board(boards[d]), *other = open_board(boards[d]);
        och_model *model = open_model("tiny-qwen3", device), *model_off = open_model("tiny-qwen3", other);
        och_session *on = open_session(model, OCH_GRAPHS_ON, false), *off = open_session(model_off, OCH_GRAPHS_OFF, false);
        for (int i = 0; i < on->graphs.n_buckets; i++) on->graphs.buckets[i].state = OCH_BUCKET_WARM;
        logged[0] = 0;
        int32_t id;
        int at[MAX_SEQUENCES] = {0};
        static const int one[MAX_SEQUENCES] = {1, 1, 1};
        const float *logits;
        ok(och_session_sequence_create(on, &id, &err));
        (void)step(on, 1, one, at, &logits);
        if (!strstr(logged, "module load") || !strstr(logged, "capture of a step of 1 tokens") || !strstr(logged, "record 0"))
            fail_msg("expected what was met, found: %s", logged);
        assert_int_equal(on->stats.refusals, 1);
        assert_int_equal(on->stats.replays, 0);
        assert_true(on->stats.launches > 0);
        ok(och_session_sequence_release(on, id, &err));
        if (!same_bytes(off, on, 24, where, sizeof where)) fail_msg("%s: after a cold capture: %s", boards[d], where);
        assert_int_equal(on->stats.captures, 3);
        assert_true(on->stats.replays > 10);
        och_session_destroy(on);
        och_session_destroy(off);
        och_model_close(model);
        och_model_close(model_off);
        och_device_release(device);
        och_device_release(other);
    }
}

/* ---- who decides ---- */

static bool used(och_model *m, och_graphs_wish wish) {
    och_session *s = open_session(m, wish, false);
    bool u = s->graphs.used;
    assert_true(s->graphs.reason[0]);
    och_session_destroy(s);
    return u;
}

static void who_decides(void **state) {
    (void)state;
    och_device *device = open_board(boards[0]), *cpu = open_board("cpu");
    och_model *model = open_model("tiny-llama", device), *on_cpu = open_model("tiny-llama", cpu);
    och_session *s;
    och_session_options o = {.graphs = OCH_GRAPHS_ON};
    unsetenv("OCHRE_GRAPHS");
    device->info.graphs_default = true;
    assert_true(used(model, OCH_GRAPHS_AUTO));
    device->info.graphs_default = false;
    assert_false(used(model, OCH_GRAPHS_AUTO));
    setenv("OCHRE_GRAPHS", "1", 1);
    assert_true(used(model, OCH_GRAPHS_AUTO));
    assert_false(used(model, OCH_GRAPHS_OFF));
    assert_false(used(on_cpu, OCH_GRAPHS_AUTO)); /* a wish, where it can be */
    setenv("OCHRE_GRAPHS", "0", 1);
    device->info.graphs_default = true;
    assert_false(used(model, OCH_GRAPHS_AUTO));
    assert_true(used(model, OCH_GRAPHS_ON));
    unsetenv("OCHRE_GRAPHS");
    assert_int_equal(och_session_create(on_cpu, &o, &s, &err), OCH_UNSUPPORTED);
    assert_non_null(strstr(err.message, "captures none"));
    och_err_clear(&err);
    och_model_close(model);
    och_model_close(on_cpu);
    /* a plan that the host runs cannot be recorded: what the host does is not the queue's */
    och_model_options reference = {.only = "reference"};
    char path[512];
    snprintf(path, sizeof path, "%s/golden/tiny-llama", test_data());
    if (!device->info.unified) { /* the host cannot run it either */
        assert_int_equal(och_model_open(path, device, &reference, &model, &err), OCH_UNSUPPORTED);
        och_err_clear(&err);
    } else {
        ok(och_model_open(path, device, &reference, &model, &err));
        assert_int_equal(och_session_create(model, &o, &s, &err), OCH_UNSUPPORTED);
        assert_non_null(strstr(err.message, "provider reference"));
        och_err_clear(&err);
        assert_false(used(model, OCH_GRAPHS_AUTO));
        och_model_close(model);
    }
    och_device_release(device);
    och_device_release(cpu);
}

/* ---- threads ---- */

typedef struct lone_run {
    och_session *s;
    int sequence; /* whose tokens it takes */
    uint64_t hash; /* of all logits, FNV-1a */
    och_status status;
    och_err err;
} lone_run;

/* No assertion here: a thread has nowhere to jump to. */
static void *run_alone(void *arg) {
    lone_run *r = arg;
    int32_t id = -1;
    r->hash = 0xcbf29ce484222325u;
    och_err_clear(&r->err);
    r->status = och_session_sequence_create(r->s, &id, &r->err);
    for (int i = 0; i < 40 && r->status == OCH_OK; i++) {
        int32_t t = token(r->sequence, i);
        size_t rows;
        r->status = och_session_step(r->s, &(och_span){id, &t, 1, 1}, 1, &r->err);
        const unsigned char *p = (const unsigned char *)och_session_logits(r->s, &rows);
        for (size_t k = 0; r->status == OCH_OK && k < VOCAB * sizeof(float); k++) r->hash = (r->hash ^ p[k]) * 0x100000001b3u;
    }
    return NULL;
}

/* Sessions of one device record and replay at the same time: what one thread records is no other's business. */
static void sessions_on_threads(void **state) {
    (void)state;
    enum { N = 4 };
    for (size_t b = 0; b < n_boards; b++) {
        och_device *device = open_board(boards[b]);
        och_model *model = open_model("tiny-qwen3", device);
        lone_run off[N], on[N];
        pthread_t threads[N];
        for (int i = 0; i < N; i++) {
            off[i] = (lone_run){.s = open_session(model, OCH_GRAPHS_OFF, false), .sequence = i};
            on[i] = (lone_run){.s = open_session(model, OCH_GRAPHS_ON, false), .sequence = i};
        }
        for (int i = 0; i < N; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_alone, &on[i]), 0);
        for (int i = 0; i < N; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
        for (int i = 0; i < N; i++) {
            run_alone(&off[i]);
            if (off[i].status != OCH_OK || on[i].status != OCH_OK) fail_msg("%s%s", off[i].err.message, on[i].err.message);
            assert_int_equal(off[i].hash, on[i].hash);
            assert_true(i == 0 || off[i].hash != off[i - 1].hash);
            assert_int_equal(on[i].s->stats.captures, 1);
            assert_int_equal(on[i].s->stats.refusals, 0);
            assert_int_equal(on[i].s->stats.replays, 39);
            och_session_destroy(off[i].s);
            och_session_destroy(on[i].s);
        }
        och_model_close(model);
        och_device_release(device);
    }
}

/* What the device can is one bit, what the platform's row says another. */
static void rows_of_platforms(void **state) {
    (void)state;
    static const struct {
        const char *backend, *arch;
        bool can, wants;
        const char *reason;
    } cases[] = {
        {"cuda", "sm_90", true, true, "measured"},          {"cuda", "sm_90", false, false, "captures none"},
        {"cuda", "sm_75", true, false, "not measured"},     {"hip", "gfx1100", true, false, "not measured"},
        {"sim", "gfx1151", true, false, "simulated"},       {"other", "sm_90", true, false, "no row"},
    };
    for (size_t i = 0; i < OCH_COUNT(cases); i++) {
        och_dev_info info = {.graphs = cases[i].can, .graphs_default = !cases[i].wants};
        snprintf(info.backend, sizeof info.backend, "%s", cases[i].backend);
        snprintf(info.arch, sizeof info.arch, "%s", cases[i].arch);
        och_capture_policy(&info);
        assert_int_equal(info.graphs_default, cases[i].wants);
        if (!strstr(info.graphs_reason, cases[i].reason)) fail_msg("%s, %s: %s", cases[i].backend, cases[i].arch, info.graphs_reason);
    }
}

int main(void) {
    setenv("OCHRE_KERNEL_CHECK", "0", 1); /* it would warm what is to be cold */
    och_log_set_sink(keep_log, NULL);
    if (!find_boards()) return 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_and_off_give_the_same_bytes),
        cmocka_unit_test(wide_steps_give_the_same_bytes),
        cmocka_unit_test(kernels_are_looked_up_once), cmocka_unit_test(steps_begin_no_kernel),
        cmocka_unit_test(prompts_begin_no_kernel),
        cmocka_unit_test(codes_give_the_same_bytes),
        cmocka_unit_test(codes_through_norms_are_near),
        cmocka_unit_test(rings_give_the_same_bytes), cmocka_unit_test(last_gives_the_same_bytes), cmocka_unit_test(one_row_gives_the_same_bytes),
        cmocka_unit_test(what_is_not_finite_is_found_in_codes),
        cmocka_unit_test(what_is_not_finite_is_found_behind_the_state),
        cmocka_unit_test(a_graph_that_is_none_is_found),
        cmocka_unit_test(a_cold_capture_names_the_call),
        cmocka_unit_test(who_decides),
        cmocka_unit_test(rows_of_platforms),
        cmocka_unit_test(sessions_on_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
