/* What the model tests share: opening a tiny model and a session over it. */
#ifndef OCH_TESTS_MODEL_SUPPORT_H
#define OCH_TESTS_MODEL_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "engine/api.h"

#include <ochre/ochre.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        ochre_status must_st_ = (call);                                                                                \
        if (must_st_ != OCHRE_OK) fail_msg("%s: %s", #call, error.message);                                            \
    } while (0)

static inline ochre_model *open_tiny(const char *name, const char *provider, int n_threads) {
    ochre_error error;
    char path[512];
    ochre_model *m = NULL;
    ochre_model_options o = OCHRE_MODEL_OPTIONS_INIT;
    o.provider = provider;
    o.n_threads = n_threads;
    snprintf(path, sizeof path, "%s/golden/%s", OCHRE_TEST_DIR, name);
    MUST(ochre_model_open(path, &o, &m, &error));
    return m;
}

static inline ochre_session *open_session(ochre_model *m, int sequences, int context, int step_tokens, int logits, bool invariant) {
    ochre_error error;
    ochre_session *s = NULL;
    ochre_session_options o = OCHRE_SESSION_OPTIONS_INIT;
    o.max_sequences = sequences;
    o.max_context = context;
    o.max_step_tokens = step_tokens;
    o.max_logits = logits;
    o.batch_invariant = invariant;
    MUST(ochre_session_create(m, &o, &s, &error));
    return s;
}

#endif
