/* ochre_generate: what it appends, when it stops, what it reports. The oracle is a loop of ochre_step and ochre_sample. */
#include "folder.h"

#define VOCAB 288
static const char prompt[] = "say it again";
#define N_PROMPT ((int)sizeof prompt - 1)

typedef struct heard {
    int32_t ids[128];
    char text[1024];
    size_t n_ids, n_bytes, n_last;
    int stop_after; /* 0: never */
} heard;

static bool listen(void *user, int32_t token, const char *text, size_t n) {
    heard *h = user;
    if (token < 0) h->n_last++;
    else h->ids[h->n_ids++] = token;
    assert_true(h->n_bytes + n <= sizeof h->text);
    memcpy(h->text + h->n_bytes, text, n);
    h->n_bytes += n;
    return !h->stop_after || (int)h->n_ids < h->stop_after;
}

static ochre_sampling warm(void) {
    ochre_sampling p = OCHRE_SAMPLING_INIT;
    p.temperature = 4.0f;
    p.seed = 11;
    return p;
}

/* n tokens by steps and samples; logits of the last into out (may be NULL). */
static void by_hand(ochre_model *m, int context, const ochre_sampling *p, int n, int32_t *ids, float *out) {
    ochre_error error;
    int32_t seq, history[256];
    size_t n_history = 0, rows;
    ochre_session *s = open_session(m, 1, context, 64, 1, true);
    MUST(ochre_sequence_create(s, &seq, &error));
    for (int i = 0; i < N_PROMPT; i++) history[n_history++] = (unsigned char)prompt[i];
    ochre_span span = {seq, history, N_PROMPT, OCHRE_LOGITS_LAST};
    MUST(ochre_step(s, &span, 1, &error));
    for (int i = 0; i < n; i++) {
        MUST(ochre_sample(s, 0, p, history, n_history, n_history, &ids[i], &error));
        history[n_history++] = ids[i];
        if ((int)n_history > context) break;
        span = (ochre_span){seq, &ids[i], 1, OCHRE_LOGITS_LAST};
        MUST(ochre_step(s, &span, 1, &error));
    }
    if (out) memcpy(out, ochre_step_logits(s, &rows), VOCAB * sizeof *out);
    ochre_session_destroy(s);
}

static void tokens_are_those_of_steps_and_samples(void **state) {
    (void)state;
    enum { N = 40 };
    ochre_error error;
    int32_t want[N], seq, n, length;
    float expected[VOCAB];
    ochre_sampling p = warm();
    ochre_stop stop;
    folder_make("tiny-llama", NULL, NULL);
    folder_tokenizer(-1);
    ochre_model *m = folder_open(NULL);
    by_hand(m, 128, &p, N, want, expected);
    bool padding = false, high = false; /* ids without an entry, and bytes that end no character */
    for (int i = 0; i < N; i++) {
        assert_int_not_equal(want[i], BYTES_EOS); /* else another seed */
        padding |= want[i] > BYTES_EOS;
        high |= want[i] >= 128 && want[i] < 256;
    }
    assert_true(padding && high);
    for (int cut = 0; cut < 2; cut++) { /* by max_tokens, by the callback */
        heard h = {.stop_after = cut ? N : 0};
        ochre_session *s = open_session(m, 1, 128, 64, 1, true);
        MUST(ochre_sequence_create(s, &seq, &error));
        MUST(ochre_generate(s, seq, prompt, N_PROMPT, 0, cut ? 100 : N, &p, listen, &h, &stop, &n, &error));
        assert_int_equal(n, N);
        assert_int_equal(stop, cut ? OCHRE_STOP_CALLBACK : OCHRE_STOP_LENGTH);
        assert_int_equal(h.n_ids, N);
        assert_memory_equal(h.ids, want, sizeof want);
        /* All of them are part of the sequence: what follows is what follows them. */
        MUST(ochre_sequence_length(s, seq, &length, &error));
        assert_int_equal(length, N_PROMPT + N);
        int32_t next = 'x';
        size_t rows;
        MUST(ochre_sequence_truncate(s, seq, N_PROMPT + N - 1, &error));
        ochre_span span = {seq, &want[N - 1], 1, OCHRE_LOGITS_LAST};
        MUST(ochre_step(s, &span, 1, &error));
        assert_memory_equal(ochre_step_logits(s, &rows), expected, sizeof expected);
        span = (ochre_span){seq, &next, 1, OCHRE_LOGITS_NONE};
        MUST(ochre_step(s, &span, 1, &error));
        /* The text is that of the ids that have one. */
        if (!cut) {
            int32_t known[N];
            size_t n_known = 0, n_bytes;
            char text[1024];
            for (int i = 0; i < N; i++)
                if (want[i] <= BYTES_EOS) known[n_known++] = want[i];
            MUST(ochre_detokenize(m, known, n_known, text, sizeof text, &n_bytes, &error));
            assert_int_equal(h.n_bytes, n_bytes);
            assert_memory_equal(h.text, text, n_bytes);
        }
        ochre_session_destroy(s);
    }
    ochre_model_close(m);
    folder_remove();
}

/* The bytes C3 alone, as the last token: the character that it begins never comes. */
static void an_unfinished_character_comes_last(void **state) {
    (void)state;
    ochre_error error;
    int32_t want[100], seq;
    ochre_sampling p = warm();
    folder_make("tiny-llama", NULL, NULL);
    folder_tokenizer(-1);
    ochre_model *m = folder_open(NULL);
    by_hand(m, 128, &p, 100, want, NULL);
    int at = 0;
    while (at < 100 && (want[at] < 0xC3 || want[at] > 0xDF)) at++;
    assert_true(at < 100);
    heard h = {0};
    ochre_session *s = open_session(m, 1, 128, 64, 1, true);
    MUST(ochre_sequence_create(s, &seq, &error));
    MUST(ochre_generate(s, seq, prompt, N_PROMPT, 0, at + 1, &p, listen, &h, NULL, NULL, &error));
    assert_int_equal(h.n_last, 1);
    assert_memory_equal(h.text + h.n_bytes - 3, "\xEF\xBF\xBD", 3);
    ochre_session_destroy(s);
    ochre_model_close(m);
    folder_remove();
}

static void an_end_token_is_neither_reported_nor_appended(void **state) {
    (void)state;
    enum { N = 30 };
    ochre_error error;
    int32_t want[N], seq, n, length, at = 0;
    ochre_stop stop = OCHRE_STOP_LENGTH;
    ochre_sampling p = warm();
    folder_make("tiny-llama", NULL, NULL);
    folder_tokenizer(-1);
    ochre_model *m = folder_open(NULL);
    by_hand(m, 128, &p, N, want, NULL);
    ochre_model_close(m);
    for (int i = 1; i < N && !at; i++) /* its first occurrence */
        if (want[i] < 256) {
            at = i;
            for (int j = 0; j < i; j++)
                if (want[j] == want[i]) at = 0;
        }
    assert_true(at > 0);
    folder_tokenizer(want[at]);
    m = folder_open(NULL);
    heard h = {0};
    ochre_session *s = open_session(m, 1, 128, 64, 1, true);
    MUST(ochre_sequence_create(s, &seq, &error));
    MUST(ochre_generate(s, seq, prompt, N_PROMPT, 0, N, &p, listen, &h, &stop, &n, &error));
    assert_int_equal(stop, OCHRE_STOP_END);
    assert_int_equal(n, at);
    assert_int_equal(h.n_ids, at);
    MUST(ochre_sequence_length(s, seq, &length, &error));
    assert_int_equal(length, N_PROMPT + at);
    ochre_session_destroy(s);
    ochre_model_close(m);
    folder_remove();
}

static void limits(void **state) {
    (void)state;
    enum { CONTEXT = 40 };
    ochre_error error;
    int32_t seq, n = -1, length, want[CONTEXT];
    ochre_stop stop = OCHRE_STOP_END;
    ochre_sampling p = warm();
    folder_make("tiny-llama", NULL, NULL);
    folder_tokenizer(-1);
    ochre_model *m = folder_open(NULL);
    ochre_session *s = open_session(m, 1, CONTEXT, 64, 1, true);
    MUST(ochre_sequence_create(s, &seq, &error));
    /* nothing to say */
    MUST(ochre_generate(s, seq, prompt, N_PROMPT, 0, 0, &p, NULL, NULL, &stop, &n, &error));
    assert_int_equal(n, 0);
    assert_int_equal(stop, OCHRE_STOP_LENGTH);
    MUST(ochre_sequence_length(s, seq, &length, &error));
    assert_int_equal(length, N_PROMPT);
    assert_int_equal(ochre_generate(s, seq, NULL, 0, 0, 3, &p, NULL, NULL, &stop, &n, &error), OCHRE_INVALID);
    assert_int_equal(ochre_generate(s, seq, prompt, N_PROMPT, 0, -1, &p, NULL, NULL, &stop, &n, &error), OCHRE_RANGE);
    /* a text that does not fit changes nothing */
    char longer[CONTEXT + 1];
    memset(longer, 'a', sizeof longer);
    assert_int_equal(ochre_generate(s, seq, longer, CONTEXT - N_PROMPT + 1, 0, 1, &p, NULL, NULL, &stop, &n, &error), OCHRE_RANGE);
    MUST(ochre_sequence_length(s, seq, &length, &error));
    assert_int_equal(length, N_PROMPT);
    /* one that fits exactly leaves room for a token that is reported and not appended */
    heard h = {0};
    MUST(ochre_generate(s, seq, longer, CONTEXT - N_PROMPT, 0, 9, &p, listen, &h, &stop, &n, &error));
    assert_int_equal(n, 1);
    assert_int_equal(stop, OCHRE_STOP_LENGTH);
    MUST(ochre_sequence_length(s, seq, &length, &error));
    assert_int_equal(length, CONTEXT);
    /* until the context is full */
    MUST(ochre_sequence_truncate(s, seq, 0, &error));
    by_hand(m, CONTEXT, &p, CONTEXT - N_PROMPT + 1, want, NULL);
    h = (heard){0};
    MUST(ochre_generate(s, seq, prompt, N_PROMPT, 0, 1000, &p, listen, &h, &stop, &n, &error));
    assert_int_equal(n, CONTEXT - N_PROMPT + 1);
    assert_int_equal(stop, OCHRE_STOP_LENGTH);
    assert_memory_equal(h.ids, want, (size_t)n * sizeof *want);
    /* an empty text in an empty sequence: the begin token */
    MUST(ochre_sequence_truncate(s, seq, 0, &error));
    MUST(ochre_generate(s, seq, NULL, 0, 0, 0, &p, NULL, NULL, &stop, &n, &error));
    MUST(ochre_sequence_length(s, seq, &length, &error));
    assert_int_equal(length, 1);
    ochre_session_destroy(s);
    ochre_model_close(m);
    folder_remove();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_those_of_steps_and_samples), cmocka_unit_test(an_unfinished_character_comes_last),
        cmocka_unit_test(an_end_token_is_neither_reported_nor_appended), cmocka_unit_test(limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
