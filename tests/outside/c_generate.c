/* A program of somebody else: loads a model and prints what it says. usage: c_generate MODEL PROMPT */
#include <ochre/ochre.h>
#include <stdio.h>
#include <string.h>

static bool print(void *user, int32_t token, const char *text, size_t n) {
    (void)user, (void)token;
    return fwrite(text, 1, n, stdout) == n;
}

int main(int argc, char **argv) {
    ochre_error e = {0};
    ochre_model *model = NULL;
    ochre_session *session = NULL;
    ochre_session_options options = OCHRE_SESSION_OPTIONS_INIT;
    int32_t sequence, n = 0;
    if (argc != 3) return 2;
    options.max_context = 128;
    int ok = ochre_model_open(argv[1], NULL, &model, &e) == OCHRE_OK &&
             ochre_session_create(model, &options, &session, &e) == OCHRE_OK &&
             ochre_sequence_create(session, &sequence, &e) == OCHRE_OK &&
             ochre_generate(session, sequence, argv[2], strlen(argv[2]), OCHRE_ADD_SPECIAL, 16, NULL, print, NULL, NULL, &n,
                            &e) == OCHRE_OK;
    if (!ok) fprintf(stderr, "%s: %s\n", ochre_status_name(e.status), e.message);
    else printf("\n[%d tokens]\n", n);
    ochre_session_destroy(session);
    ochre_model_close(model);
    return !ok;
}
