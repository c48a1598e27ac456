/* Wrong arguments come back as statuses with messages. usage: c_wrong_argument MODEL */
#include <ochre/ochre.h>
#include <stdio.h>

static int wrong;
static void expect(const char *what, ochre_status found, ochre_status a, ochre_status b, ochre_error *e) {
    printf("%-28s %s: %s\n", what, ochre_status_name(found), e->message);
    if ((found != a && found != b) || e->status != found || !e->message[0]) wrong = 1;
    *e = (ochre_error){0};
}

int main(int argc, char **argv) {
    ochre_error e = {0};
    ochre_model *m = NULL;
    ochre_session *s = NULL;
    ochre_model_options bad = OCHRE_MODEL_OPTIONS_INIT;
    ochre_session_options so = OCHRE_SESSION_OPTIONS_INIT;
    int32_t seq = 0, ids[1] = {-5};
    if (argc != 2 || ochre_abi_version() != OCHRE_ABI_VERSION) return 2;
    bad.device = "toaster";
    expect("no path", ochre_model_open(NULL, NULL, &m, &e), OCHRE_INVALID, OCHRE_INVALID, &e);
    expect("a device that is not", ochre_model_open(argv[1], &bad, &m, &e), OCHRE_NOTFOUND, OCHRE_INVALID, &e);
    if (ochre_model_open(argv[1], NULL, &m, &e) != OCHRE_OK) return 1;
    so.max_context = -3;
    expect("a negative context", ochre_session_create(m, &so, &s, &e), OCHRE_INVALID, OCHRE_RANGE, &e);
    so.max_context = 64;
    if (ochre_session_create(m, &so, &s, &e) != OCHRE_OK) return 1;
    expect("a sequence that is not", ochre_sequence_release(s, 77, &e), OCHRE_INVALID, OCHRE_RANGE, &e);
    if (ochre_sequence_create(s, &seq, &e) != OCHRE_OK) return 1;
    ochre_span span = {seq, ids, 1, OCHRE_LOGITS_LAST};
    expect("a token that is not", ochre_step(s, &span, 1, &e), OCHRE_INVALID, OCHRE_RANGE, &e);
    size_t n;
    expect("a flag that is not", ochre_tokenize(m, "a", 1, 6, ids, 1, &n, &e), OCHRE_INVALID, OCHRE_INVALID, &e);
    expect("nor for text to go on", ochre_generate(s, seq, "a", 1, 4, 1, NULL, NULL, NULL, NULL, NULL, &e), OCHRE_INVALID, OCHRE_INVALID, &e);
    ochre_session_destroy(s);
    ochre_model_close(m);
    return wrong;
}
